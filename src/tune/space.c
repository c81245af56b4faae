/* Spaces: every combination of the values of the open parameters, examined one after the other. */
#include "tune/space.h"

#include "base/alloc.h"
#include <stdlib.h>
#include <string.h>

#define FAIL(report, ...) kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, __VA_ARGS__)

/* The values that one parameter takes in turn. A parameter that keeps its default has none: it stays open. */
typedef struct axis {
    int64_t values[KILN__TUNE_VALUES_MAX];
    uint32_t count;
} axis;

typedef struct builder {
    const kiln__fields *spec;
    kiln__space *out;
    axis axes[KILN__PARAMS_MAX];
    size_t combinations, capacity;
    kiln_report *report;
} builder;

/* The first line of the parameter whose condition holds; NULL and *named where none does but there are some. */
static kiln_status find_tune(const builder *b, uint32_t param, const kiln__tune **found, bool *named)
{
    const kiln__template *template = b->spec->template;
    *found = NULL;
    *named = false;
    for (uint32_t i = 0; i < template->tune_count; i++) {
        const kiln__tune *tune = &template->tunes[i];
        int64_t holds = 1;
        if (tune->param != param)
            continue;
        *named = true;
        if (tune->condition != NULL) {
            kiln_status status = kiln__spec_eval(&b->out->base, tune->condition, &holds, b->report);
            if (status != KILN_OK)
                return status;
        }
        if (holds != 0) {
            *found = tune;
            return KILN_OK;
        }
    }
    return KILN_OK;
}

/* All of a list, else the powers of two. */
static void fill_axis_by_kind(axis *out, const kiln__declared_param *param)
{
    if (param->is_enum || param->is_list) {
        for (uint32_t i = 0; i < param->count; i++)
            out->values[out->count++] = param->is_enum ? i : param->list[i];
        return;
    }
    for (int64_t value = 1; value <= param->high; value *= 2)
        if (kiln__param_allows(param, value))
            out->values[out->count++] = value;
}

static kiln_status fill_axis(builder *b, uint32_t param)
{
    axis *out = &b->axes[param];
    const kiln__tune *tune;
    bool named;
    if (b->spec->param_set[param])
        return KILN_OK;
    kiln_status status = find_tune(b, param, &tune, &named);
    if (status != KILN_OK)
        return status;
    if (!named)
        fill_axis_by_kind(out, &b->spec->template->params[param]);
    for (uint32_t i = 0; tune != NULL && i < tune->count; i++)
        out->values[out->count++] = tune->values[i];
    b->combinations *= out->count > 0 ? out->count : 1;
    if (b->combinations > KILN__COMBINATIONS_MAX)
        return FAIL(b->report, "the spec leaves more than %d combinations open: fix a parameter, such as %s",
                    KILN__COMBINATIONS_MAX, b->spec->template->params[param].name);
    return KILN_OK;
}

/* Combination `index` of the values, the last parameter fastest. */
static void combine(const builder *b, size_t index, kiln__fields *out)
{
    *out = *b->spec;
    for (uint32_t i = b->spec->template->param_count; i-- > 0;) {
        const axis *a = &b->axes[i];
        if (a->count == 0)
            continue;
        out->params[i] = a->values[index % a->count];
        out->param_set[i] = true;
        index /= a->count;
    }
}

static void leave_out(kiln__space *space, const char *why)
{
    size_t i = 0;
    while (i < space->reason_count && strcmp(space->reasons[i].text, why) != 0)
        i++;
    if (i == space->reason_count)
        space->reasons[space->reason_count++].text = why;
    space->reasons[i].count++;
}

/* Why a spec is impossible or not worth trying, or NULL. */
static const char *find_fault(const kiln__fields *spec, const kiln__require *rules, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int64_t holds = 0;
        if (kiln__spec_eval(spec, rules[i].formula, &holds, NULL) != KILN_OK || holds == 0)
            return rules[i].doc;
    }
    return NULL;
}

/* The reason to leave a combination out, or NULL and its variant. *full becomes as complete as it can. */
static const char *examine(const builder *b, const kiln__fields *combination, kiln__fields *full,
                           kiln__combination *out)
{
    const kiln__template *template = combination->template;
    if (kiln__spec_fill(full, combination, &b->out->base.target, NULL) != KILN_OK) {
        *full = *combination;
        return "a parameter's default is impossible";
    }
    const char *why = find_fault(full, template->requires, template->require_count);
    if (why == NULL)
        why = find_fault(full, template->bounds, template->bound_count);
    if (why == NULL && kiln__spec_tile(full, &out->tile, NULL) != KILN_OK)
        why = "the tile is impossible";
    memcpy(out->params, full->params, sizeof(out->params));
    return why;
}

static kiln_status add_variant(builder *b, const kiln__combination *variant)
{
    kiln__space *space = b->out;
    if (space->count == KILN__SPACE_MAX)
        return FAIL(b->report, "the spec leaves more than %d variants open: fix a parameter", KILN__SPACE_MAX);
    if (space->count == b->capacity) {
        size_t capacity = b->capacity == 0 ? 64 : 2 * b->capacity;
        kiln__combination *variants = kiln__realloc(space->variants, capacity * sizeof(*variants));
        if (variants == NULL)
            return kiln__fail_memory(b->report, KILN__STAGE_SPEC);
        space->variants = variants;
        b->capacity = capacity;
    }
    space->variants[space->count++] = *variant;
    return KILN_OK;
}

static kiln_status add_default(builder *b, const kiln__target *target)
{
    kiln__space *space = b->out;
    kiln__combination variant = { 0 };
    kiln_status status = kiln__spec_resolve(&space->base, b->spec, target, b->report);
    if (status == KILN_OK)
        status = kiln__spec_tile(&space->base, &variant.tile, b->report);
    memcpy(variant.params, space->base.params, sizeof(variant.params));
    return status == KILN_OK ? add_variant(b, &variant) : status;
}

/* Adds the variants to the space and counts the others, or (with `fn`) only calls it with the others. Two combinations
 * differ in a value that was set, so that only the default can come a second time. */
static kiln_status examine_all(builder *b, kiln__impossible_fn fn, void *data)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < b->combinations && status == KILN_OK; i++) {
        kiln__fields combination, full;
        kiln__combination variant = { .order = i };
        combine(b, i, &combination);
        const char *why = examine(b, &combination, &full, &variant);
        if (fn != NULL && why != NULL && fn(data, &full, why) != 0)
            break;
        if (fn != NULL)
            continue;
        if (why != NULL)
            leave_out(b->out, why);
        else if (memcmp(variant.params, b->out->variants[0].params, sizeof(variant.params)) != 0)
            status = add_variant(b, &variant);
    }
    return status;
}

static int compare(const void *a, const void *b)
{
    const kiln__combination *x = a, *y = b;
    if (x->tile != y->tile)
        return x->tile < y->tile ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* The default and the values of the open parameters. */
static kiln_status begin(builder *b, const kiln__target *target)
{
    memset(b->out, 0, sizeof(*b->out));
    kiln_status status = add_default(b, target);
    for (uint32_t i = 0; i < b->spec->template->param_count && status == KILN_OK; i++)
        status = fill_axis(b, i);
    return status;
}

kiln_status kiln__space_make(kiln__space *out, const kiln__fields *spec, const kiln__target *target,
                             kiln_report *report)
{
    builder b = { .spec = spec, .out = out, .combinations = 1, .report = report };
    kiln_status status = begin(&b, target);
    if (status == KILN_OK)
        status = examine_all(&b, NULL, NULL);
    if (status == KILN_OK)
        qsort(out->variants + 1, out->count - 1, sizeof(*out->variants), compare);
    else
        kiln__space_fini(out);
    return status;
}

void kiln__space_fini(kiln__space *space)
{
    kiln__free(space->variants);
    memset(space, 0, sizeof(*space));
}

void kiln__space_spec(const kiln__space *space, size_t index, kiln__fields *out)
{
    *out = space->base;
    memcpy(out->params, space->variants[index].params, sizeof(out->params));
}

kiln_status kiln__space_visit_impossible(const kiln__fields *spec, const kiln__target *target, kiln__impossible_fn fn,
                                         void *data, kiln_report *report)
{
    kiln__space space;
    builder b = { .spec = spec, .out = &space, .combinations = 1, .report = report };
    kiln_status status = begin(&b, target);
    if (status == KILN_OK)
        status = examine_all(&b, fn, data);
    kiln__space_fini(&space);
    return status;
}
