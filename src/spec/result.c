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
