/* From a spec to all that it leaves open. */
#include "lang/formula.h"
#include "spec/require.h"
#include "spec/scope.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_SPEC, 0, __VA_ARGS__)

kiln_status kiln__spec_eval(const kiln__fields *spec, const char *formula, int64_t *out, kiln_report *report)
{
    kiln__scope s = { spec, NULL };
    char problem[256];
    kiln_status status = kiln__formula_eval(formula, kiln__scope_lookup, &s, out, problem, sizeof(problem));
    if (status == KILN_ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    return status == KILN_OK ? KILN_OK : FAIL(report, KILN_ESPEC, "template %s: %s", spec->template->name, problem);
}

static kiln_status fill_param(kiln__fields *spec, uint32_t index, kiln_report *report)
{
    const kiln__declared_param *param = &spec->template->params[index];
    kiln__scope s = { spec, param->is_enum ? param : NULL };
    char problem[256], buffer[KILN__NUMBER_SIZE];
    int64_t value = 0;
    kiln_status status =
        kiln__formula_eval(param->default_text, kiln__scope_lookup, &s, &value, problem, sizeof(problem));
    if (status == KILN_ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    if (status != KILN_OK)
        return FAIL(report, KILN_ESPEC, "default of %s: %s", param->name, problem);
    if (!kiln__param_allows(param, value)) {
        snprintf(buffer, sizeof(buffer), "%" PRId64, value);
        if (!param->is_enum)
            kiln__param_parse(param, buffer, strlen(buffer), &value, problem, sizeof(problem));
        else
            snprintf(problem, sizeof(problem), "%s has no word number %s", param->name, buffer);
        return FAIL(report, KILN_ESPEC, "%s, and that is its default here (%s): set %s", problem, param->default_text,
                    param->name);
    }
    spec->params[index] = value;
    spec->param_set[index] = true;
    return KILN_OK;
}

static kiln_status fill(kiln__fields *out, const kiln__target *target, kiln_report *report)
{
    if (!out->op_set && kiln__template_takes_op(out->template))
        return FAIL(report, KILN_ESPEC, "the spec has no op: add one, such as op=hardsigmoid");
    out->template_set = true;
    if (out->dtype == KILN__DTYPE_UNSET)
        out->dtype = kiln__template_dtype(out->template);
    if (!out->target_set)
        out->target = *target;
    out->target_set = true;
    kiln_status status = out->op_set ? kiln__template_check_inputs(out->template, out->op->inputs, report) : KILN_OK;
    for (uint32_t i = 0; i < out->template->param_count && status == KILN_OK; i++)
        if (!out->param_set[i])
            status = fill_param(out, i, report);
    return status;
}

kiln_status kiln__spec_fill(kiln__fields *out, const kiln__fields *spec, const kiln__target *target,
                            kiln_report *report)
{
    kiln__fields filled = *spec;
    kiln_status status = fill(&filled, target, report);
    if (status == KILN_OK)
        *out = filled;
    return status;
}

kiln_status kiln__spec_resolve(kiln__fields *out, const kiln__fields *spec, const kiln__target *target,
                               kiln_report *report)
{
    kiln__fields filled = *spec;
    kiln_status status = fill(&filled, target, report);
    if (status == KILN_OK)
        status = kiln__requires_check(spec, &filled, target, report);
    if (status == KILN_OK)
        *out = filled;
    return status;
}

kiln_status kiln__spec_reference(kiln__fields *out, kiln__expr *room, const kiln__fields *spec, kiln_report *report)
{
    const char *op = spec->template->reference;
    kiln__spec_init(out, spec->catalog);
    if (op == NULL)
        return FAIL(report, KILN_ENOENT, "template %s declares no reference", spec->template->name);
    kiln_status status =
        kiln__spec_set(out, room, (kiln__word){ "op", strlen("op") }, (kiln__word){ op, strlen(op) }, report);
    if (status == KILN_OK && out->op->inputs != kiln__spec_inputs(spec))
        status = FAIL(report, KILN_ESPEC, "template %s reads %u arrays, and its reference %s reads %u",
                      spec->template->name, kiln__spec_inputs(spec), op, out->op->inputs);
    out->dtype = spec->dtype;
    return status;
}

kiln_status kiln__spec_tile(const kiln__fields *spec, uint64_t *out, kiln_report *report)
{
    int64_t tile = 0;
    *out = 0;
    if (spec->template->tile == NULL)
        return KILN_OK;
    kiln_status status = kiln__spec_eval(spec, spec->template->tile, &tile, report);
    if (status == KILN_OK && tile < 1)
        return FAIL(report, KILN_ESPEC, "template %s: a tile of %lld elements is too small", spec->template->name,
                    (long long)tile);
    *out = (uint64_t)tile;
    return status;
}

/* The names of an argument's formulas: those of a spec's, and the tile. */
typedef struct plan_scope {
    kiln__scope scope;
    uint64_t tile; /* 0: not declared */
} plan_scope;

static bool look_up_in_plan(const void *data, const char *name, size_t length, int64_t *value)
{
    const plan_scope *s = data;
    if (s->tile == 0 || !kiln__word_is((kiln__word){ name, length }, "tile"))
        return kiln__scope_lookup(&s->scope, name, length, value);
    *value = (int64_t)s->tile;
    return true;
}

kiln_status kiln__spec_plan(kiln__plan **out, const kiln__fields *spec, kiln_report *report)
{
    plan_scope s = { { spec, NULL }, 0 };
    *out = NULL;
    kiln_status status = kiln__spec_tile(spec, &s.tile, report);
    return status == KILN_OK ? kiln__plan_make(out, &spec->template->arguments, look_up_in_plan, &s,
                                               kiln__arg_type_of(spec->dtype), spec->op->inputs, report)
                             : status;
}
