/* Signatures of declarations, of plans and of bare parameters, and shapes of arrays. */
#include "spec/signature.h"

#include "base/alloc.h"
#include "base/report.h"
#include <assert.h>
#include <inttypes.h>

static_assert((int)KILN_DIMS_MAX == (int)KILN__DIMS_MAX, "shapes of both have equal room");

/* One piece of memory: the signature, its sizes, the pointers to its parameters, and these. */
static kiln_signature *make_signature(size_t sizes, size_t params)
{
    kiln_signature *out =
        kiln__calloc(1, sizeof(*out) + (sizes + params) * sizeof(void *) + params * sizeof(kiln_param));
    if (out == NULL)
        return NULL;
    const char **names = (const char **)(out + 1);
    const kiln_param **pointers = (const kiln_param **)(names + sizes);
    for (size_t i = 0; i < params; i++)
        pointers[i] = (kiln_param *)(pointers + params) + i;
    *out = (kiln_signature){ .size = sizeof(*out), .sizes = names, .params = pointers };
    return out;
}

static void add_size(kiln_signature *out, const char *name)
{
    ((const char **)out->sizes)[out->size_count++] = name;
}

static kiln_param *add_param(kiln_signature *out, const char *name, kiln__arg_role role, kiln__dtype type,
                             uint32_t dims)
{
    static const kiln_role roles[] = { [KILN__ARG_IN] = KILN_ROLE_IN,
                                       [KILN__ARG_OUT] = KILN_ROLE_OUT,
                                       [KILN__ARG_INOUT] = KILN_ROLE_INOUT,
                                       [KILN__ARG_FORMULA] = KILN_ROLE_FORMULA,
                                       [KILN__ARG_SCALAR] = KILN_ROLE_SCALAR };
    kiln_param *param = (kiln_param *)out->params[out->param_count++];
    *param = (kiln_param){ .size = sizeof(*param),
                           .name = name,
                           .type = kiln__dtype_name(type),
                           .role = roles[role],
                           .bytes = kiln__dtype_bytes(type),
                           .dims = dims };
    return param;
}

/* Whether a type follows the spec, as kiln_param has it. */
static int follows(kiln__dtype declared)
{
    return declared == KILN__DTYPE_UNSET    ? 1
           : declared == KILN__DTYPE_RESULT ? 2
           : declared == KILN__DTYPE_INPUT  ? 3
                                            : 0;
}

/* A struct, memory or a count in place of the number of a formula. */
static void set_special(kiln_param *param, bool strides, bool scratch, bool phase, uint32_t bytes)
{
    if (strides || scratch)
        param->type = "";
    if (strides)
        param->bytes = bytes;
    if (strides || scratch || phase)
        param->shape[0] = strides ? "strides" : scratch ? "scratch" : "phase";
}

kiln_signature *kiln__signature_declared(const kiln__arguments *arguments, const kiln__operands *operands)
{
    kiln_signature *out = make_signature(arguments->size_count, kiln__arguments_count(arguments, operands));
    if (out == NULL)
        return NULL;
    for (uint32_t i = 0; i < arguments->size_count; i++)
        add_size(out, arguments->sizes[i]);
    for (uint32_t i = 0; i < arguments->arg_count; i++) {
        const kiln__declared_arg *arg = &arguments->args[i];
        for (uint32_t k = 0; k < kiln__arg_count(arg, operands); k++) {
            kiln_param *param = add_param(out, kiln__arg_name(arg, operands, k), arg->role,
                                          kiln__arg_type(arg, operands, k), arg->dims);
            param->follows_dtype = follows(arg->type);
            param->in_place = arg->in_place;
            param->column = kiln__arg_is_column(arg, operands, k);
            for (uint32_t d = 0; d < KILN__DIMS_MAX; d++)
                param->shape[d] = arg->formulas[d] != NULL ? kiln__arg_extent(arg, operands, k, d) : NULL;
            set_special(param, arg->strides, arg->scratch, arg->phase, kiln__arg_bytes(arg, operands, k));
        }
    }
    for (int i = 0; i < 3; i++)
        out->grid[i] = arguments->grid[i] != NULL ? arguments->grid[i] : "1";
    out->counts = operands->counts;
    return out;
}

kiln_signature *kiln__signature_planned(const kiln__plan *plan)
{
    kiln_signature *out = make_signature(plan->size_count, plan->arg_count);
    if (out == NULL)
        return NULL;
    for (uint32_t i = 0; i < plan->size_count; i++)
        add_size(out, plan->sizes[i]);
    for (uint32_t i = 0; i < plan->arg_count; i++) {
        const kiln__plan_arg *arg = &plan->args[i];
        kiln_param *param = add_param(out, arg->name, arg->role, arg->type, arg->dims);
        param->follows_dtype = follows(arg->declared);
        param->in_place = arg->in_place;
        param->column = arg->column;
        const bool special = arg->strides || arg->scratch || arg->phase;
        set_special(param, arg->strides, arg->scratch, arg->phase, arg->bytes);
        for (uint32_t d = 0; d < (arg->role == KILN__ARG_FORMULA ? 1 : arg->dims) && !special; d++)
            param->shape[d] = kiln__plan_text(plan, arg->formulas[d]);
    }
    for (int i = 0; i < 3; i++)
        out->grid[i] = kiln__plan_text(plan, plan->grid[i]);
    out->counts = plan->counts;
    return out;
}

kiln_signature *kiln__signature_of_bytes(const size_t *bytes, int count)
{
    kiln_signature *out = make_signature(0, count > 0 ? (size_t)count : 0);
    for (int i = 0; out != NULL && i < count; i++)
        *(kiln_param *)out->params[out->param_count++] =
            (kiln_param){ .size = sizeof(kiln_param), .name = "", .type = "", .bytes = (uint32_t)bytes[i] };
    if (out != NULL)
        out->sizes = NULL;
    if (out != NULL && count < 0)
        out->params = NULL;
    return out;
}

/* ---- Shapes */

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_LAUNCH, 0, __VA_ARGS__)

typedef struct scope {
    const kiln_signature *signature;
    const uint64_t *sizes;
} scope;

static bool look_up(const void *data, const char *name, size_t length, int64_t *value)
{
    const scope *s = data;
    for (size_t i = 0; i < s->signature->size_count; i++)
        if (kiln__word_is((kiln__word){ name, length }, s->signature->sizes[i])) {
            *value = s->sizes[i] <= INT64_MAX ? (int64_t)s->sizes[i] : INT64_MAX;
            return true;
        }
    return false;
}

kiln_status kiln__signature_shape(uint64_t out[KILN_DIMS_MAX], const kiln_signature *signature, uint32_t index,
                                  const uint64_t *sizes, size_t size_count, kiln_report *report)
{
    const scope s = { signature, sizes };
    const kiln_param *param = index < signature->param_count ? signature->params[index] : NULL;
    if (param == NULL || param->dims == 0)
        return FAIL(report, KILN_ENOENT, "parameter %u is no array", (unsigned)index);
    if (size_count != signature->size_count || (sizes == NULL && size_count > 0))
        return FAIL(report, KILN_EINVAL, "the kernel has %zu sizes, and %zu are given", signature->size_count,
                    size_count);
    for (uint32_t i = 0; i < KILN_DIMS_MAX; i++) {
        char problem[256];
        int64_t value = 1;
        kiln_status status = i < param->dims
                                 ? kiln__formula_eval(param->shape[i], look_up, &s, &value, problem, sizeof(problem))
                                 : KILN_OK;
        if (status != KILN_OK)
            return FAIL(report, status == KILN_ENOMEM ? status : KILN_EINVAL, "%s: %s", param->name, problem);
        if (value < 0)
            return FAIL(report, KILN_EINVAL, "%s: %s is %" PRId64 ", below 0", param->name, param->shape[i], value);
        out[i] = (uint64_t)value;
    }
    return KILN_OK;
}
