#include "wisdom/match.h"

#include "base/alloc.h"
#include "wisdom/describe.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER UINT32_MAX

enum { NO_SIZE = 64 };

/* A query in the words of records. */
typedef struct subject {
    const kiln__wisdom_query *query;
    kiln__target target;
    char model[KILN__WISDOM_MODEL]; /* "" if unknown */
    kiln__dtype dtype;
    char op_class[KILN__WISDOM_CLASS];
    kiln__text op;
    unsigned size; /* NO_SIZE if unknown */
    const char *digest;
} subject;

/* How a record differs from the query, the weightiest difference first; each is 0 where there is none. */
typedef struct steps {
    uint32_t stale, device, source, dtype, op, size;
} steps;

enum { STALE_TOOLCHAIN = 1, STALE_TEXT = 2, OTHER_MODEL = 1, OTHER_CHIP = 2, OTHER_FAMILY = 3 };

typedef struct ranked {
    const kiln__wisdom_item *item;
    uint32_t distance;
    uint64_t multiprocessors; /* how many more or fewer */
} ranked;

bool kiln__wisdom_target(const kiln__wisdom_query *query, kiln__target *out)
{
    if (query->spec->target_set) {
        *out = query->spec->target;
        return true;
    }
    return kiln__target_parse(query->device->target, strlen(query->device->target), out);
}

static kiln_status make_subject(subject *out, const kiln__wisdom_query *query, const char *digest, kiln_report *report)
{
    const kiln__fields *spec = query->spec;
    kiln__target own;
    *out = (subject){ .query = query, .dtype = spec->dtype, .size = NO_SIZE, .digest = digest };
    bool has_op = kiln__wisdom_is_complete(spec);
    if (!has_op || !kiln__wisdom_target(query, &out->target))
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_SPEC, 0,
                          has_op ? "no target: set the spec's, or name a device that has one"
                                 : "the spec has no op: add one, such as op=hardsigmoid");
    /* For another target than the device's, another device is meant. */
    const kiln__wisdom_device *device = query->device;
    if (kiln__target_parse(device->target, strlen(device->target), &own) && own.sm == out->target.sm)
        kiln__wisdom_model(device->model, out->model);
    if (out->dtype == KILN__DTYPE_UNSET)
        out->dtype = kiln__template_dtype(spec->template);
    if (spec->n_set && spec->n > 0)
        out->size = kiln__wisdom_size(spec->n);
    kiln__wisdom_class(spec, out->op_class);
    kiln__wisdom_op(spec, &out->op);
    return out->op.failed ? kiln__fail_memory(report, KILN__STAGE_SPEC) : KILN_OK;
}

/* ---- How near a record is */

static const char *measure_device(const subject *s, const kiln__wisdom_entry *record, steps *out)
{
    kiln__target target;
    const kiln__wisdom_device *device = &record->device;
    if (!kiln__target_parse(device->target, strlen(device->target), &target))
        return "its target is unknown";
    if (target.backend != s->target.backend)
        return kiln__target_facts(&target)->words;
    bool same_model = strcmp(device->model, s->model) == 0;
    out->device = same_model                            ? 0
                  : target.sm == s->target.sm           ? OTHER_MODEL
                  : target.sm / 10 == s->target.sm / 10 ? OTHER_CHIP
                                                        : OTHER_FAMILY;
    return NULL;
}

static const char *measure_work(const subject *s, const kiln__wisdom_entry *record, steps *out)
{
    kiln__dtype dtype = kiln__dtype_parse(record->dtype, strlen(record->dtype));
    if (dtype == KILN__DTYPE_UNSET || kiln__dtype_bytes(dtype) != kiln__dtype_bytes(s->dtype))
        return "elements of another size";
    if (strcmp(record->op_class, s->op_class) != 0)
        return "an op of another class";
    out->dtype = dtype != s->dtype;
    out->op = strcmp(record->op, kiln__text_string(&s->op)) != 0;
    if (s->size != NO_SIZE)
        out->size = (uint32_t)llabs((long long)record->log2_n - (long long)s->size);
    return NULL;
}

static bool differs(const char *a, const char *b)
{
    return a[0] != '\0' && b[0] != '\0' && strcmp(a, b) != 0;
}

/* NULL, or why the record says nothing about the query. */
static const char *measure(const subject *s, const kiln__wisdom_item *item, steps *out)
{
    const kiln__wisdom_entry *record = item->record;
    *out = (steps){ .source = item->source };
    out->stale = differs(record->digest, s->digest)                ? STALE_TEXT
                 : differs(record->toolchain, s->query->toolchain) ? STALE_TOOLCHAIN
                                                                   : 0;
    const char *never = measure_device(s, record, out);
    return never != NULL ? never : measure_work(s, record, out);
}

static uint32_t distance_of(const steps *s)
{
    return ((((s->stale * 10 + s->device) * 10 + s->source) * 10 + s->dtype) * 10 + s->op) * 100 + s->size;
}

static void say(kiln__text *out, const char *format, ...) KILN__PRINTF(2, 3);
static void say(kiln__text *out, const char *format, ...)
{
    char part[KILN__WISDOM_REASON];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(part, sizeof(part), format, arguments);
    va_end(arguments);
    kiln__text_printf(out, "%s%s", out->length > 0 ? "; " : "", part);
}

static void say_device(const kiln__wisdom_entry *record, uint32_t step, kiln__text *out)
{
    if (step == OTHER_MODEL)
        say(out, "another model of the same target: %s", record->device.model);
    else if (step == OTHER_CHIP)
        say(out, "another chip of the family: %s, %s", record->device.target, record->device.model);
    else if (step == OTHER_FAMILY)
        say(out, "another family of chips: %s, %s", record->device.target, record->device.model);
}

static void say_steps(const subject *s, const kiln__wisdom_item *item, const steps *differ, kiln__text *out)
{
    const kiln__wisdom_entry *record = item->record;
    if (differ->size != 0)
        say(out, "2^%" PRIu64 " elements instead of 2^%u", record->log2_n, s->size);
    if (differ->op != 0)
        say(out, "another op of the class: %s", record->op);
    if (differ->dtype != 0)
        say(out, "another dtype of the size: %s", record->dtype);
    say_device(record, differ->device, out);
    if (item->source == KILN__WISDOM_SHARED)
        say(out, "from the shared directory");
    if (differ->stale != 0)
        say(out,
            differ->stale == STALE_TEXT ? "made with another text of the template" : "made with another toolchain: %s",
            record->toolchain);
    if (out->length == 0)
        say(out, s->size == NO_SIZE ? "exact, for any number of elements" : "exact");
}

/* ---- The order */

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Larger sizes first: where the size is open, what is large is what tuning is for. The rest only has to be fixed. */
static int compare_ties(const kiln__wisdom_entry *a, const kiln__wisdom_entry *b)
{
    int by = order(b->log2_n, a->log2_n);
    by = by != 0 ? by : order(b->variants, a->variants);
    by = by != 0 ? by : order(b->samples, a->samples);
    by = by != 0 ? by : kiln__wisdom_record_compare(a, b);
    return by != 0 ? by : strcmp(a->geometry, b->geometry);
}

static int compare_ranked(const void *left, const void *right)
{
    const ranked *a = left, *b = right;
    int by = order(a->distance, b->distance);
    by = by != 0 ? by : order(a->multiprocessors, b->multiprocessors);
    return by != 0 ? by : compare_ties(a->item->record, b->item->record);
}

/* All items of the spec's template, in order. Without `all` those that are never used are left out. */
static size_t rank(const subject *s, const kiln__wisdom_item *items, size_t count, bool all, ranked *out)
{
    size_t kept = 0;
    uint64_t wanted = s->query->device->multiprocessors;
    for (size_t i = 0; i < count; i++) {
        steps differ;
        if (strcmp(items[i].record->template_name, s->query->spec->template->name) != 0)
            continue;
        bool never = measure(s, &items[i], &differ) != NULL;
        uint64_t has = items[i].record->device.multiprocessors;
        if (all || !never)
            out[kept++] =
                (ranked){ &items[i], never ? NEVER : distance_of(&differ), has > wanted ? has - wanted : wanted - has };
    }
    if (kept > 0)
        qsort(out, kept, sizeof(*out), compare_ranked);
    return kept;
}

/* ---- Whether a geometry can be had */

/* One parameter of a geometry into the spec. */
static kiln_status take_param(kiln__fields *spec, kiln__word name, kiln__word value, kiln_report *report)
{
    int64_t number;
    char problem[400];
    const kiln__template *template = spec->template;
    int index = kiln__template_param(template, name.text, name.length);
    if (index < 0)
        return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "template %s has no parameter %s", template->name,
                          kiln__word_quote(name).text);
    if (!spec->param_set[index])
        return kiln__spec_set(spec, NULL, name, value, report);
    if (kiln__param_parse(&template->params[index], value.text, value.length, &number, problem, sizeof(problem)) &&
        number == spec->params[index])
        return KILN_OK;
    kiln__text asked = { 0 };
    kiln__spec_value(spec, template->params[index].name, &asked);
    kiln_status status = kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "%s=%s is asked for",
                                    template->params[index].name, kiln__text_string(&asked));
    kiln__text_fini(&asked);
    return status;
}

/* Puts the record's geometry into `out`, which is the query's spec, if the template allows that on the target. */
static kiln_status fit(const subject *s, const kiln__wisdom_entry *record, kiln__fields *out, kiln_report *report)
{
    kiln__fields full;
    kiln__word line = { record->geometry, strlen(record->geometry) }, name, value;
    kiln_status status;
    while ((status = kiln__spec_next_field(&line, &name, &value, report)) == KILN_OK && name.length > 0)
        if ((status = take_param(out, name, value, report)) != KILN_OK)
            break;
    return status == KILN_OK ? kiln__spec_resolve(&full, out, &s->target, report) : status;
}

static void choose(kiln__wisdom_choice *out, const kiln__fields *asked, const kiln__fields *fitting, uint32_t distance)
{
    out->found = true;
    out->distance = distance;
    for (uint32_t i = 0; i < asked->template->param_count; i++)
        if (fitting->param_set[i] && !asked->param_set[i]) {
            out->set |= 1u << i;
            out->params[i] = fitting->params[i];
        }
}

void kiln__wisdom_apply(const kiln__wisdom_choice *choice, kiln__fields *spec)
{
    for (uint32_t i = 0; i < spec->template->param_count; i++)
        if ((choice->set >> i & 1) != 0) {
            spec->params[i] = choice->params[i];
            spec->param_set[i] = true;
        }
}

/* Takes the candidate if it is the first that fits. *stop: that is all, or explain has heard enough. KILN_ENOMEM:
 * whether it fits is not known. */
static kiln_status consider(const subject *s, const ranked *row, kiln__wisdom_choice *out,
                            kiln__wisdom_explain_fn explain, void *data, bool *stop)
{
    steps differ;
    kiln__fields fitting = *s->query->spec;
    kiln_report report = KILN_INIT(kiln_report);
    kiln__text reason = { 0 };
    const char *never = measure(s, row->item, &differ);
    kiln_status status =
        never == NULL ? fit(s, row->item->record, &fitting, explain != NULL ? &report : NULL) : KILN_OK;
    bool chosen = never == NULL && status == KILN_OK && !out->found;
    *stop = chosen && explain == NULL;
    if (chosen)
        choose(out, s->query->spec, &fitting, row->distance);
    if (explain != NULL && status != KILN_ENOMEM) {
        if (never == NULL)
            say_steps(s, row->item, &differ, &reason);
        kiln__wisdom_prospect candidate = { .item = *row->item,
                                            .distance = row->distance,
                                            .reason = never != NULL ? never : kiln__text_string(&reason),
                                            .refusal = never != NULL ? "never used for this" : report.message,
                                            .chosen = chosen };
        *stop = explain(data, &candidate) != 0;
    }
    kiln__text_fini(&reason);
    kiln_report_clear(&report);
    return status == KILN_ENOMEM ? status : KILN_OK;
}

kiln_status kiln__wisdom_choose(kiln__wisdom_choice *out, const kiln__wisdom_item *items, size_t count,
                                const kiln__wisdom_query *query, const char *digest, kiln__wisdom_explain_fn explain,
                                void *data, kiln_report *report)
{
    subject s;
    memset(out, 0, sizeof(*out));
    kiln_status status = make_subject(&s, query, digest, report);
    ranked *rows = status == KILN_OK ? kiln__calloc(count + 1, sizeof(*rows)) : NULL;
    if (status == KILN_OK && rows == NULL)
        status = kiln__fail_memory(report, KILN__STAGE_SPEC);
    size_t kept = status == KILN_OK ? rank(&s, items, count, explain != NULL, rows) : 0;
    bool stop = false;
    for (size_t i = 0; i < kept && status == KILN_OK && !stop; i++)
        status = consider(&s, &rows[i], out, explain, data, &stop);
    if (status == KILN_ENOMEM) {
        memset(out, 0, sizeof(*out));
        kiln__fail_memory(report, KILN__STAGE_SPEC);
    }
    kiln__free(rows);
    kiln__text_fini(&s.op);
    return status;
}
