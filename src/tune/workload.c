/* Makes workloads from plans, and compares them with plans. */
#include "tune/workload.h"

#include "base/alloc.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_DEVICE, 0, __VA_ARGS__)

static const kiln__dtype dtypes[KILN__ARG_TYPE_END] = { [KILN__ARG_f32] = KILN__DTYPE_F32,
                                                        [KILN__ARG_f64] = KILN__DTYPE_F64,
                                                        [KILN__ARG_f16] = KILN__DTYPE_F16,
                                                        [KILN__ARG_bf16] = KILN__DTYPE_BF16 };

kiln__dtype kiln__array_dtype(const kiln__array *array)
{
    return dtypes[array->type];
}

/* Adds an array, and what it has to do with the sums. False: no memory holds it. */
static bool add_array(kiln__load *out, const kiln__array *array)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(array->elements, array->size * ((uint64_t)array->read + array->written), &bytes) ||
        bytes > INT64_MAX / 8 / KILN__ARGS_MAX)
        return false;
    out->arrays[out->count++] = *array;
    out->bytes += bytes;
    out->elements = array->elements > out->elements ? array->elements : out->elements;
    out->changes = out->changes || (array->read && array->written);
    out->whole = out->whole || (array->read && dtypes[array->type] == KILN__DTYPE_UNSET);
    return true;
}

static bool is_array(const kiln__plan_arg *arg)
{
    return arg->role <= KILN__ARG_INOUT;
}

static kiln_status take_array(kiln__load *out, const kiln__plan *plan, const kiln__formula_values *values, uint32_t i,
                              bool may_be_empty, kiln_report *report)
{
    const kiln__plan_arg *arg = &plan->args[i];
    kiln__array array = {
        .type = arg->type, .size = arg->bytes, .read = arg->role != KILN__ARG_OUT, .written = arg->role != KILN__ARG_IN
    };
    kiln_status status = KILN_OK;
    kiln__text_copy(array.name, sizeof(array.name), arg->name);
    out->at[out->count] = out->arg_count;
    for (uint32_t d = 0; d < arg->dims && status == KILN_OK; d++) {
        uint64_t extent = 0;
        status = kiln__plan_value(plan, arg->formulas[d], values, arg->name, &extent, report);
        if (status == KILN_OK && extent == 0 && !may_be_empty)
            return FAIL(report, KILN_EINVAL, "argument %s has no elements with these sizes: name larger ones",
                        arg->name);
        out->least = out->least == 0 || extent < out->least ? extent : out->least;
    }
    if (status == KILN_OK)
        status = kiln__plan_elements(plan, i, values, &array.elements, report);
    if (status == KILN_OK && !add_array(out, &array))
        return FAIL(report, KILN_EINVAL, "%s is larger than any memory: name smaller sizes", arg->name);
    return status;
}

static kiln_status take_number(kiln__load *out, const kiln__plan_arg *arg, const kiln_work *work, kiln_report *report)
{
    uint32_t place = out->arg_count;
    const kiln_arg *number = place < work->arg_count ? &work->args[place] : NULL;
    if (number == NULL || number->data == NULL || number->bytes != arg->bytes)
        return FAIL(report, KILN_EINVAL,
                    "argument %s is a number of type %s, and none of its %u bytes is given: name it", arg->name,
                    kiln__arg_type_name(arg->type), arg->bytes);
    memcpy(&out->numbers[place], number->data, arg->bytes);
    out->number_bytes[place] = arg->bytes;
    return KILN_OK;
}

static kiln_status check_counts(const kiln__plan *plan, const kiln_work *work, kiln_report *report)
{
    kiln__text names = { 0 };
    uint32_t wanted = 0;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < plan->arg_count; i++)
        wanted += plan->args[i].role != KILN__ARG_FORMULA;
    for (uint32_t i = 0; i < plan->size_count; i++)
        kiln__text_printf(&names, "%s%s", i == 0 ? "" : ", ", plan->sizes[i]);
    if (work->elements > 0 && !plan->flat)
        status = FAIL(report, KILN_EINVAL, "a number of elements is not enough for the kernel: name its sizes (%s)",
                      kiln__text_string(&names));
    else if (work->elements > INT64_MAX / 64 / KILN__ARGS_MAX)
        status = FAIL(report, KILN_ENOMEM, "there is no room for arrays of %" PRIu64 " elements: name fewer",
                      work->elements);
    else if (work->elements > 0 && work->size_count > 0)
        status = FAIL(report, KILN_EINVAL, "elements and sizes are given: name the one or the other");
    else if (work->elements == 0 &&
             (work->size_count != plan->size_count || (work->sizes == NULL && plan->size_count > 0)))
        status = FAIL(report, KILN_EINVAL, "the kernel has %u size%s (%s), and %zu are given", plan->size_count,
                      plan->size_count == 1 ? "" : "s", kiln__text_string(&names), work->size_count);
    else if (work->arg_count != 0 && (work->arg_count != wanted || work->args == NULL))
        status = FAIL(report, KILN_EINVAL, "the kernel takes %u arguments that no formula gives, and %zu are given",
                      wanted, work->arg_count);
    kiln__text_fini(&names);
    return status;
}

kiln_status kiln__load_of_plan(kiln__load *out, const kiln__plan *plan, const kiln_work *work, bool may_be_empty,
                               kiln_report *report)
{
    kiln__formula_values values;
    memset(out, 0, sizeof(*out));
    out->flat = plan->flat;
    out->elementwise = plan->elementwise;
    kiln_status status = check_counts(plan, work, report);
    for (uint32_t i = 0; i < plan->size_count && status == KILN_OK; i++)
        out->sizes[out->size_count++] = work->elements > 0 ? work->elements : work->sizes[i];
    if (status == KILN_OK)
        kiln__plan_calculate(plan, out->sizes, &values);
    for (uint32_t i = 0; i < plan->arg_count && status == KILN_OK; i++) {
        const kiln__plan_arg *arg = &plan->args[i];
        if (arg->role == KILN__ARG_FORMULA)
            continue;
        status = is_array(arg) ? take_array(out, plan, &values, i, may_be_empty, report)
                               : take_number(out, arg, work, report);
        out->arg_count++;
    }
    if (status == KILN_OK && out->count == 0)
        status = FAIL(report, KILN_EINVAL, "the kernel takes no array: there is nothing to measure it with");
    /* A launch of no blocks takes no time and computes nothing. */
    for (int i = 0; i < 3 && status == KILN_OK && !may_be_empty; i++) {
        uint64_t blocks = 0;
        status = kiln__plan_value(plan, plan->grid[i], &values, "grid", &blocks, report);
        if (status == KILN_OK && blocks == 0)
            status = FAIL(report, KILN_EINVAL, "the grid has no blocks with these sizes: name larger ones");
    }
    if (status == KILN_OK && plan->traffic != UINT32_MAX)
        status = kiln__plan_value(plan, plan->traffic, &values, "traffic", &out->bytes, report);
    return status;
}

kiln_status kiln__load_of_spec(kiln__load *out, const kiln__fields *spec, const kiln_work *work, kiln_report *report)
{
    kiln__plan *plan = NULL;
    kiln_status status = kiln__spec_plan(&plan, spec, report);
    if (status == KILN_OK)
        status = kiln__load_of_plan(out, plan, work, false, report);
    kiln__free(plan);
    return status;
}

void kiln__load_args(const kiln__load *load, void *const arrays[KILN__ARGS_MAX], kiln_arg args[KILN__ARGS_MAX])
{
    for (uint32_t i = 0; i < load->arg_count; i++)
        args[i] = (kiln_arg){ KILN_ARG_VALUE, load->number_bytes[i], &load->numbers[i] };
    for (uint32_t i = 0; i < load->count; i++)
        args[load->at[i]] = KILN_ARRAY(arrays[i], load->arrays[i].elements * load->arrays[i].size);
}

uint64_t kiln__load_touches(const kiln__load *load)
{
    uint64_t all = 0, twice = 0;
    for (uint32_t i = 0; i < load->count; i++) {
        const kiln__array *array = &load->arrays[i];
        all += array->elements * array->size;
        twice += array->read && array->written ? array->elements * array->size : 0;
    }
    uint64_t touched = load->bytes / 2 > twice ? load->bytes - twice : load->bytes / 2;
    return touched > 0 && touched < all ? touched : all;
}

/* NULL, or how an argument is not number `place` of the workload; `array` counts those that are arrays. */
static const char *compare_arg(const kiln__load *load, const kiln__plan *plan, const kiln__formula_values *values,
                               uint32_t i, uint32_t place, uint32_t *array)
{
    const kiln__plan_arg *arg = &plan->args[i];
    uint64_t elements = 0;
    if (place >= load->arg_count)
        return "is not there";
    if (!is_array(arg))
        return load->number_bytes[place] == arg->bytes ? NULL : "is another number";
    const kiln__array *known = *array < load->count ? &load->arrays[(*array)++] : NULL;
    if (known == NULL || load->number_bytes[place] != 0)
        return "is a number";
    if (known->type != arg->type || known->read != (arg->role != KILN__ARG_OUT) ||
        known->written != (arg->role != KILN__ARG_IN))
        return "has another type or role";
    if (kiln__plan_elements(plan, i, values, &elements, NULL) != KILN_OK || elements != known->elements)
        return "has another shape";
    return NULL;
}

bool kiln__load_fits(const kiln__load *load, const kiln__plan *plan, char *problem, size_t size)
{
    kiln__formula_values values;
    uint32_t array = 0, place = 0;
    const char *how = NULL;
    problem[0] = '\0';
    if (plan->size_count != load->size_count) {
        snprintf(problem, size, "it takes other arguments");
        return false;
    }
    kiln__plan_calculate(plan, load->sizes, &values);
    for (uint32_t i = 0; i < plan->arg_count && how == NULL; i++) {
        if (plan->args[i].role == KILN__ARG_FORMULA)
            continue;
        how = compare_arg(load, plan, &values, i, place++, &array);
        if (how != NULL)
            snprintf(problem, size, "argument %s %s, so that it cannot be compared", plan->args[i].name, how);
    }
    if (how == NULL && place != load->arg_count)
        snprintf(problem, size, "it takes fewer arguments, so that it cannot be compared");
    return problem[0] == '\0';
}
