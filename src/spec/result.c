/* The types of values and of results, by the rules of PyTorch's type promotion. */
#include "spec/fields.h"

static bool is_whole(kiln__dtype dtype)
{
    return !kiln__dtype_is_real(dtype);
}

kiln__dtype kiln__spec_computed(const kiln__fields *spec)
{
    if (is_whole(spec->dtype) && spec->op->whole)
        return spec->dtype == KILN__DTYPE_I64 ? KILN__DTYPE_I64 : KILN__DTYPE_I32;
    return spec->dtype == KILN__DTYPE_F64 ? KILN__DTYPE_F64 : KILN__DTYPE_F32;
}

kiln__dtype kiln__spec_input(const kiln__fields *spec, uint32_t k)
{
    return k < spec->typed ? spec->inputs[k] : spec->dtype;
}

kiln__types kiln__spec_types(const kiln__fields *spec)
{
    kiln__dtype result = kiln__spec_result(spec);
    kiln__types types = kiln__types_equal(spec->dtype, spec->op->inputs);
    types.result = result != KILN__DTYPE_UNSET ? result : spec->dtype;
    for (uint32_t k = 0; k < spec->typed && k < types.input_count; k++)
        types.inputs[k] = spec->inputs[k];
    return types;
}

unsigned kiln__spec_bytes(const kiln__fields *spec)
{
    unsigned bytes = spec->typed > 0 ? 0 : kiln__dtype_bytes(spec->dtype);
    for (uint32_t k = 0; k < spec->typed; k++)
        if (kiln__dtype_bytes(spec->inputs[k]) > bytes)
            bytes = kiln__dtype_bytes(spec->inputs[k]);
    return bytes;
}

double kiln__spec_input_value(const kiln__fields *spec, uint32_t k, const void *array, uint64_t i)
{
    kiln__dtype type = kiln__spec_input(spec, k);
    double value = kiln__dtype_value(array, i, type);
    return kiln__dtype_holds(spec->dtype, type) ? value : kiln__dtype_round(value, spec->dtype);
}

static kiln__dtype usual_result(const kiln__fields *spec)
{
    bool open = spec->dtype == KILN__DTYPE_UNSET || (!spec->op_set && kiln__template_takes_op(spec->template));
    if (open)
        return KILN__DTYPE_UNSET;
    if (!kiln__template_has_result(spec->template))
        return spec->dtype;
    if (spec->op->truth)
        return KILN__DTYPE_BOOL;
    return is_whole(spec->dtype) && !is_whole(kiln__spec_computed(spec)) ? KILN__DTYPE_F32 : spec->dtype;
}

kiln__dtype kiln__spec_result(const kiln__fields *spec)
{
    return spec->result != KILN__DTYPE_UNSET ? spec->result : usual_result(spec);
}

bool kiln__spec_casts(const kiln__fields *spec)
{
    return spec->result != KILN__DTYPE_UNSET && spec->result != usual_result(spec);
}

/* "op OP BEFORE dtype=f32AFTER" */
static kiln_status refuse(const kiln__fields *spec, const char *before, const char *after, kiln_report *report)
{
    kiln__text op = { 0 };
    kiln__expr_format(spec->op, &spec->catalog->ops, true, &op);
    kiln_status status = kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "op %.128s %s dtype=%s%s",
                                    kiln__text_string(&op), before, kiln__dtype_name(spec->dtype), after);
    kiln__text_fini(&op);
    return status;
}

kiln_status kiln__spec_check_numbers(const kiln__fields *spec, kiln_report *report)
{
    kiln__dtype computed = kiln__spec_computed(spec);
    if (spec->op->integral && kiln__dtype_is_real(spec->dtype))
        return refuse(spec, "takes whole numbers, and", " has others: use i8, i16, i32, i64, u8 or bool", report);
    if (spec->op->integral && kiln__dtype_is_real(computed))
        return refuse(spec, "mixes real numbers with functions of whole ones, in",
                      ": calculate these in an op of their own", report);
    if (spec->op->wide && computed == KILN__DTYPE_I32)
        return refuse(spec, "has a number that 32 bits do not hold, in which", " is calculated: use i64", report);
    return KILN_OK;
}
