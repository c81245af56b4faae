/* Launches of kernels with arguments of their own. */
#include "service/kernel.h"

#include "base/fpenv.h"
#include <inttypes.h>
#include <string.h>

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_LAUNCH, 0, __VA_ARGS__)

/* What one launch passes: `values` holds the numbers that formulas give and the pointers of arrays. */
typedef struct passing {
    const kiln_kernel *kernel;
    kiln__formula_values formulas;
    uint64_t values[KILN__ARGS_MAX], bytes[KILN__ARGS_MAX];
    void *where[KILN__ARGS_MAX];
    uintptr_t bits; /* of all pointers together */
    kiln_report *report;
} passing;

static bool is_array(const kiln__plan_arg *arg)
{
    return arg->role <= KILN__ARG_INOUT;
}

/* Rounded to nearest, whatever the host rounds to. */
static void put_real(bool is_single, uint64_t number, uint64_t *out)
{
    kiln__fpenv host;
    volatile uint64_t value = number; /* the conversion stays where it is */
    kiln__fpenv_enter_simd(&host);
    float single = is_single ? (float)value : 0;
    double real = is_single ? 0 : (double)value;
    memcpy(out, &real, sizeof(real));
    if (is_single)
        memcpy(out, &single, sizeof(single));
    kiln__fpenv_leave_simd(&host);
}

/* A formula's number in the argument's type, at the beginning of `out`. */
static kiln_status put_number(const passing *p, const kiln__plan_arg *arg, uint64_t value, uint64_t *out)
{
    bool is_signed = arg->type == KILN__ARG_int8 || arg->type == KILN__ARG_int16 || arg->type == KILN__ARG_int32;
    if (arg->type == KILN__ARG_f32 || arg->type == KILN__ARG_f64)
        put_real(arg->type == KILN__ARG_f32, value, out);
    else if (arg->bytes < 8 && value >> (8 * arg->bytes - is_signed) != 0)
        return FAIL(p->report, KILN_EINVAL, "argument %s: %" PRIu64 " does not fit %s", arg->name, value,
                    kiln__arg_type_name(arg->type));
    else
        memcpy(out, &value, sizeof(value)); /* little endian, as every machine with such a GPU */
    return KILN_OK;
}

static kiln_status pass_array(passing *p, uint32_t i, const kiln_arg *given)
{
    const kiln__plan_arg *arg = &p->kernel->plan->args[i];
    uint64_t elements = 0;
    kiln_status status = kiln__plan_elements(p->kernel->plan, i, &p->formulas, &elements, p->report);
    if (status != KILN_OK)
        return status;
    p->bytes[i] = elements * arg->bytes;
    if (given->bytes < p->bytes[i])
        return FAIL(p->report, KILN_EINVAL, "argument %s needs %" PRIu64 " bytes with these sizes, and has %" PRIu64,
                    arg->name, p->bytes[i], given->bytes);
    if (given->data == NULL && elements > 0)
        return FAIL(p->report, KILN_EINVAL, "argument %s is NULL", arg->name);
    if (((uintptr_t)given->data & (arg->bytes - 1)) != 0)
        return FAIL(p->report, KILN_EALIGN, "argument %s is not aligned to its elements of %u bytes", arg->name,
                    arg->bytes);
    memcpy(&p->values[i], &given->data, sizeof(given->data));
    p->where[i] = &p->values[i];
    p->bits |= (uintptr_t)given->data;
    return KILN_OK;
}

static kiln_status pass(passing *p, uint32_t i, const kiln_arg *given)
{
    const kiln__plan_arg *arg = &p->kernel->plan->args[i];
    uint64_t value = 0;
    kiln_status status;
    switch (arg->role) {
    case KILN__ARG_FORMULA:
        p->where[i] = &p->values[i];
        status = kiln__plan_value(p->kernel->plan, arg->formulas[0], &p->formulas, arg->name, &value, p->report);
        return status == KILN_OK ? put_number(p, arg, value, &p->values[i]) : status;
    case KILN__ARG_SCALAR:
        if (given->data == NULL || given->bytes != arg->bytes)
            return FAIL(p->report, KILN_EINVAL, "argument %s is a %s of %u bytes, and %" PRIu64 " are given", arg->name,
                        kiln__arg_type_name(arg->type), arg->bytes, given->data == NULL ? 0 : given->bytes);
        memcpy(&p->values[i], given->data, arg->bytes);
        p->where[i] = &p->values[i];
        return KILN_OK;
    default:
        return pass_array(p, i, given);
    }
}

/* What is written shares no byte with any other array; an empty one has none to share. */
static kiln_status check_overlap(const passing *p)
{
    const kiln__plan *plan = p->kernel->plan;
    for (uint32_t i = 0; i < plan->arg_count; i++)
        for (uint32_t j = 0; j < plan->arg_count; j++) {
            bool written = plan->args[i].role == KILN__ARG_OUT || plan->args[i].role == KILN__ARG_INOUT;
            if (i == j || !written || !is_array(&plan->args[j]))
                continue;
            uint64_t a = p->values[i], b = p->values[j];
            if (p->bytes[i] > 0 && p->bytes[j] > 0 && a < b + p->bytes[j] && b < a + p->bytes[i])
                return FAIL(p->report, KILN_EOVERLAP, "arguments %s and %s overlap", plan->args[i].name,
                            plan->args[j].name);
        }
    return KILN_OK;
}

static kiln_status make_grid(const passing *p, uint32_t grid[3], bool *empty)
{
    static const uint64_t most[3] = { INT32_MAX, 65535, 65535 };
    *empty = false;
    for (int i = 0; i < 3; i++) {
        uint64_t blocks = 0;
        kiln_status status =
            kiln__plan_value(p->kernel->plan, p->kernel->plan->grid[i], &p->formulas, "grid", &blocks, p->report);
        if (status != KILN_OK)
            return status;
        if (blocks > most[i])
            return FAIL(p->report, KILN_EINVAL, "the grid has %" PRIu64 " blocks in direction %c, more than %" PRIu64,
                        blocks, 'x' + i, most[i]);
        grid[i] = (uint32_t)blocks;
        *empty = *empty || blocks == 0;
    }
    return KILN_OK;
}

static kiln_status check_counts(const kiln_kernel *kernel, size_t size_count, size_t arg_count, kiln_report *report)
{
    const kiln__plan *plan = kernel->plan;
    uint32_t wanted = 0;
    if (plan == NULL)
        return FAIL(report, KILN_EINVAL, "the kernel takes out, inputs and n: launch it with kiln_launch");
    for (uint32_t i = 0; i < plan->arg_count; i++)
        wanted += plan->args[i].role != KILN__ARG_FORMULA;
    if (size_count != plan->size_count)
        return FAIL(report, KILN_EINVAL, "the kernel has %u sizes, and %zu are given", plan->size_count, size_count);
    if (arg_count != wanted)
        return FAIL(report, KILN_EINVAL, "the kernel takes %u arguments that no formula gives, and %zu are given",
                    wanted, arg_count);
    return KILN_OK;
}

kiln_status kiln__kernel_launch_args(const kiln_kernel *kernel, const uint64_t *sizes, size_t size_count,
                                     const kiln_arg *args, size_t arg_count, void *stream, kiln_report *report)
{
    passing p; /* not cleared: most of it is not used */
    uint32_t grid[3], entry = 0;
    bool empty = false;
    kiln_status status = check_counts(kernel, size_count, arg_count, report);
    p.kernel = kernel;
    p.report = report;
    p.bits = 0;
    if (status == KILN_OK)
        kiln__plan_calculate(kernel->plan, sizes, &p.formulas);
    for (uint32_t i = 0; status == KILN_OK && i < kernel->plan->arg_count; i++) {
        status = pass(&p, i, args);
        args += kernel->plan->args[i].role != KILN__ARG_FORMULA;
    }
    if (status == KILN_OK)
        status = check_overlap(&p);
    if (status == KILN_OK)
        status = make_grid(&p, grid, &empty);
    if (status != KILN_OK || empty)
        return status;
    while (entry < kernel->entry_count && (p.bits & kernel->odd[entry]))
        entry++;
    if (entry == kernel->entry_count && entry > 0)
        return FAIL(report, KILN_EALIGN, "no entry point of the template takes pointers of this alignment");
    return kernel->vtable->launch_args(kernel->module, entry, grid, p.where, stream, report);
}
