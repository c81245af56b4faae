/* Launches: from the sizes and arguments of a call to the grid and the parameters that a backend submits. */
#include "service/launch.h"

#include "base/event.h"
#include "base/fpenv.h"
#include "base/probe.h"
#include "os/cpu.h"
#include <inttypes.h>
#include <string.h>

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_LAUNCH, 0, __VA_ARGS__)

/* The parameters of one launch: `values` holds the numbers that formulas give and the pointers of arrays. A launch uses
 * a small part of it, so it is not cleared. */
typedef struct passing {
    const kiln_kernel *kernel;
    kiln__formula_values formulas;
    uint64_t values[KILN__ARGS_MAX], bytes[KILN__ARGS_MAX];
    void *where[KILN__ARGS_MAX];
    uint64_t view[KILN__VIEW_MAX]; /* the argument of strides */
    uintptr_t bits;                /* of all pointers together */
    kiln_report *report;
} passing;

static bool is_array(const kiln__plan_arg *arg)
{
    return arg->role <= KILN__ARG_INOUT;
}

/* Whether an array has an element for a whole row, which no access of words reads. */
static bool is_single(const kiln__plan_arg *arg)
{
    return arg->layout == KILN__LAYOUT_COLUMN || arg->layout == KILN__LAYOUT_ONE;
}

/* Rounded to nearest, in any rounding mode of the host's. */
static void put_real(bool is_single, uint64_t number, uint64_t *out)
{
    kiln__fpenv host;
    volatile uint64_t value = number; /* so that the compiler does not move the conversion */
    kiln__fpenv_enter_simd(&host);
    float single = is_single ? (float)value : 0;
    double real = is_single ? 0 : (double)value;
    memcpy(out, &real, sizeof(real));
    if (is_single)
        memcpy(out, &single, sizeof(single));
    kiln__fpenv_leave_simd(&host);
}

/* A formula's number in a type that is not uint64_t or int64_t, at the beginning of `out`. */
static kiln_status convert_number(const passing *p, const kiln__plan_arg *arg, uint64_t value, uint64_t *out)
{
    bool is_signed = kiln__dtype_is_signed(arg->type);
    if (arg->type == KILN__DTYPE_F32 || arg->type == KILN__DTYPE_F64)
        put_real(arg->type == KILN__DTYPE_F32, value, out);
    else if (arg->bytes < 8 && value >> (8 * arg->bytes - is_signed) != 0)
        return FAIL(p->report, KILN_EINVAL, "argument %s: %" PRIu64 " does not fit %s", arg->name, value,
                    kiln__dtype_name(arg->type));
    else
        memcpy(out, &value, sizeof(value)); /* little endian, as every machine with such a GPU */
    return KILN_OK;
}

static kiln_status fail_pointer(const passing *p, const kiln__plan_arg *arg, const void *pointer)
{
    if (pointer == NULL)
        return FAIL(p->report, KILN_EINVAL, "argument %s is NULL", arg->name);
    return FAIL(p->report, KILN_EALIGN, "argument %s is not aligned to its elements of %u bytes", arg->name,
                arg->bytes);
}

/* An array of so many bytes. Without any it may be NULL. */
static inline kiln_status pass_pointer(passing *p, uint32_t i, uint64_t bytes, const void *pointer)
{
    const kiln__plan_arg *arg = &p->kernel->plan->args[i];
    if ((pointer == NULL && bytes > 0) || ((uintptr_t)pointer & (arg->bytes - 1)) != 0)
        return fail_pointer(p, arg, pointer);
    p->values[i] = (uintptr_t)pointer;
    p->where[i] = &p->values[i];
    p->bytes[i] = bytes;
    if (!is_single(arg))
        p->bits |= (uintptr_t)pointer;
    return KILN_OK;
}

static kiln_status pass_array(passing *p, uint32_t i, const kiln_arg *given)
{
    const kiln__plan_arg *arg = &p->kernel->plan->args[i];
    uint64_t elements = 0;
    if (given->kind != KILN_ARG_ARRAY)
        return FAIL(p->report, KILN_EINVAL, "argument %s is an array: give it with KILN_ARRAY", arg->name);
    kiln_status status = kiln__plan_elements(p->kernel->plan, i, &p->formulas, &elements, p->report);
    if (status != KILN_OK)
        return status;
    uint64_t bytes = elements * arg->bytes;
    if (given->bytes < bytes)
        return FAIL(p->report, KILN_EINVAL, "argument %s needs %" PRIu64 " bytes with these sizes, and has %" PRIu64,
                    arg->name, bytes, given->bytes);
    return pass_pointer(p, i, bytes, given->data);
}

static kiln_status pass_view(passing *p, uint32_t i, const kiln__loop *loop)
{
    kiln__loop_view(loop, p->view);
    p->where[i] = p->view;
    return KILN_OK;
}

/* Without tensors the kernel's layout says how the arrays lie. */
static kiln_status pass_own_view(passing *p, uint32_t i)
{
    kiln__loop loop;
    kiln__loop_of_plan(&loop, p->kernel->plan, (uint64_t)p->formulas.slot[0].value);
    return pass_view(p, i, &loop);
}

static inline kiln_status pass_formula(passing *p, uint32_t i)
{
    const kiln__plan_arg *arg = &p->kernel->plan->args[i];
    uint64_t value = 0;
    if (arg->strides)
        return pass_own_view(p, i);
    p->where[i] = &p->values[i];
    p->values[i] = 0;
    if (arg->scratch || arg->phase) /* set by submit_phases */
        return KILN_OK;
    kiln_status status =
        kiln__plan_value(p->kernel->plan, arg->formulas[0], &p->formulas, arg->name, &value, p->report);
    p->values[i] = value;
    if (status != KILN_OK || arg->type == KILN__DTYPE_U64 || arg->type == KILN__DTYPE_I64)
        return status;
    return convert_number(p, arg, value, &p->values[i]);
}

static kiln_status pass_argument(passing *p, uint32_t i, const kiln_arg *given)
{
    const kiln__plan_arg *arg = &p->kernel->plan->args[i];
    switch (arg->role) {
    case KILN__ARG_FORMULA:
        return pass_formula(p, i);
    case KILN__ARG_SCALAR:
        if (given->kind != KILN_ARG_VALUE)
            return FAIL(p->report, KILN_EINVAL, "argument %s is a number of type %s: give it with KILN_VALUE",
                        arg->name, kiln__dtype_name(arg->type));
        if (given->data == NULL || given->bytes != arg->bytes)
            return FAIL(p->report, KILN_EINVAL, "argument %s is a %s of %u bytes, and %" PRIu64 " are given", arg->name,
                        kiln__dtype_name(arg->type), arg->bytes, given->data == NULL ? 0 : given->bytes);
        p->where[i] = (void *)given->data; /* a backend reads it before it returns */
        return KILN_OK;
    default:
        return pass_array(p, i, given);
    }
}

/* Ranges of bytes that share some. An empty one has none to share. */
static bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

/* Whether each element of two arrays is of the same indices. With one dimension of strides any layout says so. */
static bool lie_alike(const kiln__plan *plan, uint32_t i, uint32_t j)
{
    return plan->dims == 1 || plan->args[i].layout == plan->args[j].layout;
}

static kiln_status fail_overlap(const passing *p, uint32_t i, uint32_t j)
{
    const kiln__plan_arg *args = p->kernel->plan->args;
    if (args[i].in_place && !lie_alike(p->kernel->plan, i, j))
        return FAIL(p->report, KILN_EOVERLAP,
                    "arguments %s and %s overlap, and the kernel's layout has their elements in two orders: use "
                    "separate arrays",
                    args[i].name, args[j].name);
    if (args[i].in_place && args[i].bytes != args[j].bytes)
        return FAIL(p->report, KILN_EOVERLAP,
                    "arguments %s and %s overlap, and their elements have other sizes: use separate arrays",
                    args[i].name, args[j].name);
    if (args[i].in_place)
        return FAIL(p->report, KILN_EOVERLAP,
                    "arguments %s and %s partly overlap: use the same pointer for both, or separate arrays",
                    args[i].name, args[j].name);
    return FAIL(p->report, KILN_EOVERLAP, "arguments %s and %s overlap, which this template does not allow",
                args[i].name, args[j].name);
}

/* An array that is written shares no byte with another, but that one in place may be one of the inputs. */
static kiln_status check_overlap(const passing *p)
{
    const kiln__plan *plan = p->kernel->plan;
    for (uint32_t k = 0; k < plan->pair_count; k++) {
        uint32_t i = plan->pairs[k].written, j = plan->pairs[k].other;
        if (!overlap(p->values[i], p->bytes[i], p->values[j], p->bytes[j]))
            continue;
        bool same = p->values[i] == p->values[j] && p->bytes[i] == p->bytes[j];
        if (!same || !plan->args[i].in_place || plan->args[j].role != KILN__ARG_IN || !lie_alike(plan, i, j))
            return fail_overlap(p, i, j);
    }
    return KILN_OK;
}

/* The limits of CUDA in x, y and z. */
static const uint64_t grid_most[3] = { INT32_MAX, 65535, 65535 };

/* Tells of a launch, where that is wanted. Returns when it began; 0: it is not told of. */
static uint64_t begin_launch(const kiln_kernel *kernel, const char *name)
{
    if (!kiln__event_is_wanted())
        return 0;
    kiln__event_begin(&kernel->program->runtime->log, KILN_EVENT_LAUNCH, name);
    return kiln__cpu_now_ns();
}

static void end_launch(const kiln_kernel *kernel, const char *name, kiln_status status, uint64_t start)
{
    if (start != 0)
        kiln__event_end(&kernel->program->runtime->log, KILN_EVENT_LAUNCH, name, status, kiln__cpu_now_ns() - start);
}

static kiln_status submit_grid(const passing *p, uint32_t entry, const uint64_t grid[3], void *stream)
{
    const uint32_t blocks[3] = { (uint32_t)grid[0], (uint32_t)grid[1], (uint32_t)grid[2] };
    KILN__PROBE(launch, p->kernel->spec, blocks[0], blocks[1], blocks[2]);
    const uint64_t start = begin_launch(p->kernel, p->kernel->spec);
    const kiln_status status =
        p->kernel->vtable->launch(p->kernel->module, entry, blocks, (void **)p->where, stream, p->report);
    end_launch(p->kernel, p->kernel->spec, status, start);
    return status;
}

/* Submits the kernel once for each phase, with memory that all of them share. */
static kiln_status submit_phases(passing *p, uint32_t entry, const uint64_t grid[3], void *stream)
{
    const kiln_kernel *kernel = p->kernel;
    const kiln__plan *plan = kernel->plan;
    uint64_t bytes = 0;
    void *memory = NULL;
    kiln_status status = KILN_OK;
    if (plan->scratch != UINT32_MAX)
        status =
            kiln__plan_value(plan, plan->args[plan->scratch].formulas[0], &p->formulas, "scratch", &bytes, p->report);
    if (status == KILN_OK && bytes > 0)
        status = kernel->vtable->scratch(kernel->device, bytes, stream, &memory, p->report);
    if (status == KILN_OK && plan->scratch != UINT32_MAX)
        p->values[plan->scratch] = (uintptr_t)memory;
    for (uint32_t phase = 0; phase < plan->phases && status == KILN_OK; phase++) {
        if (plan->phase != UINT32_MAX)
            p->values[plan->phase] = phase;
        status = submit_grid(p, entry, grid, stream);
    }
    if (memory == NULL)
        return status;
    kiln_status released =
        kernel->vtable->release_scratch(kernel->device, memory, stream, status == KILN_OK ? p->report : NULL);
    return status == KILN_OK ? released : status;
}

/* The formulas' numbers, once they are calculated. */
static kiln_status pass_formulas(passing *p)
{
    const kiln__plan *plan = p->kernel->plan;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < plan->arg_count && status == KILN_OK; i++)
        if (plan->args[i].role == KILN__ARG_FORMULA)
            status = pass_formula(p, i);
    return status;
}

/* Arrays of more tiles than a grid has blocks go in several launches. Those of an elementwise kernel may be cut
 * anywhere; between tiles the alignment stays. */
static kiln_status submit_pieces(passing *p, uint32_t entry, uint64_t n, void *stream)
{
    const kiln_kernel *kernel = p->kernel;
    const uint64_t most = grid_most[0] * kernel->program->rule.tile;
    kiln_status status = KILN_OK;
    for (uint64_t done = 0; done < n && status == KILN_OK; done += most) {
        uint64_t count = n - done < most ? n - done : most, grid[3] = { 0, 1, 1 };
        kiln__plan_calculate(kernel->plan, &count, &p->formulas);
        status = pass_formulas(p);
        if (status == KILN_OK)
            status = kiln__plan_value(kernel->plan, kernel->plan->grid[0], &p->formulas, "grid", &grid[0], p->report);
        if (status == KILN_OK)
            status = submit_grid(p, entry, grid, stream);
        for (uint32_t i = 0; i < kernel->plan->arg_count; i++)
            if (is_array(&kernel->plan->args[i]))
                p->values[i] += count * kernel->plan->args[i].bytes;
    }
    return status;
}

static kiln_status submit_large(passing *p, uint32_t entry, const uint64_t grid[3], uint64_t n, void *stream)
{
    const kiln__plan *plan = p->kernel->plan;
    const bool once = plan->phases == 1 && plan->scratch == UINT32_MAX;
    bool cut = once && plan->elementwise && p->kernel->program->rule.tile > 0;
    for (int i = cut ? 1 : 0; i < 3; i++)
        if (grid[i] > grid_most[i])
            return FAIL(p->report, KILN_EINVAL, "the grid has %" PRIu64 " blocks in direction %c, more than %" PRIu64,
                        grid[i], 'x' + i, grid_most[i]);
    return submit_pieces(p, entry, n, stream);
}

/* Whether an entry may be launched with these pointers and sizes. */
static bool fits(const passing *p, uint32_t entry)
{
    const kiln__plan *plan = p->kernel->plan;
    if ((p->bits & p->kernel->odd[entry]) != 0)
        return false;
    if (plan->conditions[entry] == UINT32_MAX)
        return true;
    kiln__number_or holds = kiln__formulas_value(&plan->formulas, &p->formulas, plan->conditions[entry]);
    return holds.missing == NULL && holds.value != 0;
}

/* Submits arguments that have been checked. n is the first of the sizes. */
static kiln_status submit_arguments(passing *p, uint64_t n, void *stream)
{
    const kiln_kernel *kernel = p->kernel;
    const kiln__plan *plan = kernel->plan;
    uint64_t grid[3] = { 1, 1, 1 };
    uint32_t entry = 0;
    bool is_empty = false, is_large = false;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < plan->grid_dims && status == KILN_OK; i++) {
        status = kiln__plan_value(plan, plan->grid[i], &p->formulas, "grid", &grid[i], p->report);
        is_empty = is_empty || grid[i] == 0;
        is_large = is_large || grid[i] > grid_most[i];
    }
    if (status != KILN_OK || is_empty)
        return status;
    while (entry < kernel->entry_count && !fits(p, entry))
        entry++;
    if (entry == kernel->entry_count && entry > 0)
        return FAIL(p->report, KILN_EALIGN,
                    "no entry point of the template takes pointers of this alignment, and these sizes");
    if (is_large)
        return submit_large(p, entry, grid, n, stream);
    const bool once = plan->phases == 1 && plan->scratch == UINT32_MAX;
    return once ? submit_grid(p, entry, grid, stream) : submit_phases(p, entry, grid, stream);
}

static kiln_status finish_launch(passing *p, uint64_t n, void *stream)
{
    kiln_status status = check_overlap(p);
    return status == KILN_OK ? submit_arguments(p, n, stream) : status;
}

/* The caller gives all arguments but those that formulas give. */
static kiln_status check_counts(const kiln_kernel *kernel, size_t size_count, size_t arg_count, kiln_report *report)
{
    const kiln__plan *plan = kernel->plan;
    uint32_t wanted = plan->outputs + plan->inputs + plan->scalars;
    if (size_count != plan->size_count)
        return FAIL(report, KILN_EINVAL, "the kernel has %u sizes, and %zu are given", plan->size_count, size_count);
    if (arg_count != wanted)
        return FAIL(report, KILN_EINVAL, "the kernel takes %u arguments that no formula gives, and %zu are given",
                    wanted, arg_count);
    return KILN_OK;
}

kiln_status kiln__kernel_launch(const kiln_kernel *kernel, const uint64_t *sizes, size_t size_count,
                                const kiln_arg *args, size_t arg_count, void *stream, kiln_report *report)
{
    passing p;
    kiln_status status = check_counts(kernel, size_count, arg_count, report);
    p.kernel = kernel;
    p.report = report;
    p.bits = 0;
    if (status == KILN_OK)
        kiln__plan_calculate(kernel->plan, sizes, &p.formulas);
    for (uint32_t i = 0; status == KILN_OK && i < kernel->plan->arg_count; i++) {
        status = pass_argument(&p, i, args);
        args += kernel->plan->args[i].role != KILN__ARG_FORMULA;
    }
    return status == KILN_OK ? finish_launch(&p, size_count > 0 ? sizes[0] : 0, stream) : status;
}

/* ---- Functions of sources */

enum { PARAMETERS_MAX = 1024 };

static kiln_status check_grid(const kiln_kernel *kernel, const kiln_grid *grid, kiln_report *report)
{
    bool clusters = grid->cluster[0] > 0 || grid->cluster[1] > 0 || grid->cluster[2] > 0;
    for (int i = 0; i < 3; i++)
        if (clusters && (grid->cluster[i] == 0 || grid->grid[i] % grid->cluster[i] != 0))
            return FAIL(report, KILN_EINVAL,
                        "%s: the cluster must be at least 1 in each dimension and divide the grid, or be 0 in all of "
                        "them",
                        kernel->function->name);
    if (grid->shared_bytes > INT32_MAX)
        return FAIL(report, KILN_EINVAL, "%s: shared_bytes is more than any GPU has", kernel->function->name);
    return KILN_OK;
}

/* The address of an argument's value: of an array that of its pointer. */
static kiln_status place_argument(const kiln_kernel *kernel, const kiln_arg *given, uint32_t i, void **out,
                                  kiln_report *report)
{
    const kiln__function *function = kernel->function;
    bool is_array = given->kind == KILN_ARG_ARRAY;
    uint64_t bytes = is_array ? sizeof(given->data) : given->bytes;
    if (!is_array && (given->kind != KILN_ARG_VALUE || given->data == NULL))
        return FAIL(report, KILN_EINVAL, "argument %u of %s is not given: use KILN_ARRAY or KILN_VALUE", i,
                    function->name);
    if (function->parameters >= 0 && bytes != function->sizes[i])
        return FAIL(report, KILN_EINVAL, "argument %u of %s is %zu bytes, got %" PRIu64, i, function->name,
                    function->sizes[i], bytes);
    *out = is_array ? (void *)&given->data : (void *)given->data;
    return KILN_OK;
}

kiln_status kiln__kernel_launch_grid(const kiln_kernel *kernel, const kiln_grid *grid, const kiln_arg *args,
                                     size_t arg_count, void *stream, kiln_report *report)
{
    const kiln__function *function = kernel->function;
    if (function->parameters >= 0 && arg_count != (size_t)function->parameters)
        return FAIL(report, KILN_EINVAL, "%s takes %d arguments, got %zu", function->name, function->parameters,
                    arg_count);
    if (arg_count > PARAMETERS_MAX)
        return FAIL(report, KILN_EINVAL, "%s gets %zu arguments: expected %d at most", function->name, arg_count,
                    PARAMETERS_MAX);
    void *where[arg_count + 1];
    kiln_status status = check_grid(kernel, grid, report);
    for (size_t i = 0; i < arg_count && status == KILN_OK; i++)
        status = place_argument(kernel, &args[i], (uint32_t)i, &where[i], report);
    if (status != KILN_OK)
        return status;
    KILN__PROBE(launch, function->name, grid->grid[0], grid->grid[1], grid->grid[2]);
    const uint64_t start = begin_launch(kernel, function->name);
    status = kernel->vtable->functions->launch(kernel->module, function->number, grid, where, stream, report);
    end_launch(kernel, function->name, status, start);
    return status;
}

/* ---- Arrays of n elements */

static kiln_status fail_flat(const kiln_kernel *kernel, size_t out_count, size_t in_count, kiln_report *report)
{
    const kiln__plan *plan = kernel->plan;
    if (!plan->flat)
        return FAIL(report, KILN_EINVAL,
                    "the kernel takes other arguments than arrays of n elements: launch it by its sizes and args");
    if (plan->scalars > 0)
        return FAIL(report, KILN_EINVAL, "the kernel takes %u number%s beside the arrays: launch it with kiln_launch",
                    plan->scalars, plan->scalars == 1 ? "" : "s");
    return FAIL(report, KILN_EINVAL, "the kernel writes %u and reads %u arrays, and %zu and %zu are given",
                plan->outputs, plan->inputs, out_count, in_count);
}

kiln_status kiln__kernel_launch_n(const kiln_kernel *kernel, uint64_t n, void *const *outs, size_t out_count,
                                  const void *const *ins, size_t in_count, void *stream, kiln_report *report)
{
    const kiln__plan *plan = kernel->plan;
    passing p;
    kiln_status status = KILN_OK;
    if (plan == NULL)
        return FAIL(report, KILN_EINVAL, "the kernel is a function of a source: launch it with a grid");
    if (!plan->flat || plan->scalars > 0 || out_count != plan->outputs || in_count != plan->inputs)
        return fail_flat(kernel, out_count, in_count, report);
    if (n == 0)
        return KILN_OK;
    if (n > INT64_MAX / 8)
        return FAIL(report, KILN_EINVAL, "n is larger than any memory: expected a count of elements");
    if (outs == NULL || ins == NULL)
        return FAIL(report, KILN_EINVAL, "outs and ins must not be NULL when n is above 0");
    p.kernel = kernel;
    p.report = report;
    p.bits = 0;
    kiln__plan_calculate(plan, &n, &p.formulas);
    for (uint32_t i = 0; i < plan->arg_count && status == KILN_OK; i++)
        if (plan->args[i].role == KILN__ARG_FORMULA)
            status = pass_formula(&p, i);
        else
            status =
                pass_pointer(&p, i, n * plan->args[i].bytes, plan->args[i].role == KILN__ARG_IN ? *ins++ : *outs++);
    return status == KILN_OK ? finish_launch(&p, n, stream) : status;
}

/* ---- Loops over tensors */

/* Calculates the formulas for the sizes of a loop: n, or rows and columns, and the names of a strided kernel. */
static void calculate_loop(const kiln__plan *plan, const kiln__loop *loop, kiln__formula_values *out)
{
    const uint64_t cols = loop->dims > 0 ? (uint64_t)loop->extent[0] : 1;
    const uint64_t rows = loop->dims > 1 ? (uint64_t)loop->extent[1] : 1;
    const uint64_t inner = loop->dims > 2 ? (uint64_t)loop->extent[2] : 1;
    const uint64_t sizes[] = { plan->size_count == 1 ? loop->count : rows, cols, inner };
    if (plan->dims == 0) {
        kiln__plan_calculate(plan, sizes, out);
        return;
    }
    kiln__formulas_set(out, 0, (int64_t)loop->count);
    kiln__plan_set_strides(plan, (int64_t)cols, loop->dims > 1 ? loop->extent[1] : 1, (int64_t)loop->span, out);
    kiln__formulas_calculate(&plan->formulas, out);
}

/* The bits of the addresses at which an entry reads or writes words. In a strided kernel these are the rows of arrays
 * that are contiguous along the innermost dimension, and the columns of inputs that cross. */
static uintptr_t bits_of(const kiln__plan *plan, uint32_t bytes, const kiln__loop *loop, uint32_t k)
{
    uintptr_t bits = (uintptr_t)loop->data[k];
    for (uint32_t d = loop->dims; d < loop->dims + loop->batches; d++)
        bits |= (uintptr_t)loop->stride[k][d] * bytes;
    if (plan->dims == 0)
        return bits;
    const uint32_t along = loop->layouts[k] == KILN__LAYOUT_CROSS ? 1 : 0;
    if (loop->dims > along && loop->stride[k][along] != 1)
        return 0;
    for (uint32_t d = 0; d < loop->dims; d++)
        bits |= d != along ? (uintptr_t)loop->stride[k][d] * bytes : 0;
    return bits;
}

/* Moves all arrays by so many elements of a dimension. */
static void move_arrays(passing *p, const kiln__loop *loop, uint32_t d, int64_t by)
{
    const kiln__plan *plan = p->kernel->plan;
    for (uint32_t i = 0, out = 0, in = loop->outputs; i < plan->arg_count; i++)
        if (is_array(&plan->args[i])) {
            const uint32_t k = plan->args[i].role == KILN__ARG_IN ? in++ : out++;
            p->values[i] += (uintptr_t)(by * loop->stride[k][d]) * plan->args[i].bytes;
        }
}

/* One launch for each index of the batches. */
static kiln_status submit_batches(passing *p, const kiln__loop *loop, void *stream)
{
    const uint32_t end = loop->dims + loop->batches;
    int64_t index[KILN__LOOP_DIMS] = { 0 };
    kiln_status status = submit_arguments(p, loop->count, stream);
    for (uint32_t d = loop->dims; d < end && status == KILN_OK;) {
        if (index[d] + 1 == loop->extent[d]) {
            move_arrays(p, loop, d, -index[d]);
            index[d++] = 0;
            continue;
        }
        move_arrays(p, loop, d, 1);
        index[d]++;
        status = submit_arguments(p, loop->count, stream);
        d = loop->dims;
    }
    return status;
}

kiln_status kiln__kernel_launch_loop(const kiln_kernel *kernel, const kiln__loop *loop, const double *scalars,
                                     void *stream, kiln_report *report)
{
    const kiln__plan *plan = kernel->plan;
    uint32_t out = 0, in = loop->outputs;
    kiln_status status = KILN_OK;
    passing p;
    p.kernel = kernel;
    p.report = report;
    p.bits = 0;
    calculate_loop(plan, loop, &p.formulas);
    for (uint32_t i = 0; i < plan->arg_count && status == KILN_OK; i++) {
        const kiln__plan_arg *arg = &plan->args[i];
        if (arg->strides) {
            status = loop->dims == 0 ? pass_own_view(&p, i) : pass_view(&p, i, loop); /* 0: one element */
        } else if (arg->role == KILN__ARG_FORMULA) {
            status = pass_formula(&p, i);
        } else if (arg->role == KILN__ARG_SCALAR) {
            p.where[i] = (void *)scalars++; /* a backend reads it before it returns */
        } else {
            uint32_t k = arg->role == KILN__ARG_IN ? in++ : out++;
            p.values[i] = (uintptr_t)loop->data[k];
            p.where[i] = &p.values[i];
            p.bits |= is_single(arg) ? 0 : bits_of(plan, arg->bytes, loop, k);
        }
    }
    return status == KILN_OK ? submit_batches(&p, loop, stream) : status;
}
