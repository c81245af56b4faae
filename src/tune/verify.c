#include "tune/verify.h"

#include "base/alloc.h"
#include "service/get.h"
#include "spec/reference.h"
#include "tune/compare.h"
#include "tune/fill.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    ALIGNMENT = 256,
    CPU_PIECE = 32 * 129, /* elements: aligned as any access needs it, and yet a cpu kernel's chunks end elsewhere */
    PIECE = CPU_PIECE * 1000, /* elements that are in host memory at a time */
    REFERENCE_MOST = 1 << 24, /* elements: the definition is calculated one at a time, in double */
    CPU_POISON = 0x3c,        /* not the device's: an element that neither writes is not equal */
    OTHER_POISON = 0x5a
};

void kiln__watch_tell(const kiln__watch *watch, bool begins)
{
    if (watch != NULL)
        watch->launching(watch->data, begins);
}

static kiln_status copy(kiln_device *device, void *to, const void *from, uint64_t bytes, kiln__copy_kind kind,
                        kiln_report *report)
{
    return bytes == 0 ? KILN_OK : device->backend->vtable->copy(device, to, from, bytes, kind, NULL, report);
}

/* ---- Comparing elements in host memory */

static uint64_t bits_at(const char *array, uint64_t i, uint32_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, array + i * size, size);
    return bits;
}

static bool is_equal(kiln__dtype dtype, const char *got, const char *want, uint64_t i, double tolerance)
{
    if (dtype == KILN__DTYPE_UNSET)
        return false;
    double a = kiln__reference_value(got, i, dtype), b = kiln__reference_value(want, i, dtype);
    return (isnan(a) && isnan(b)) || (tolerance > 0 && kiln__reference_distance(a, b, dtype) <= tolerance);
}

static void note_difference(kiln__verdict *out, const kiln__array *array, uint64_t at, uint64_t got, uint64_t want)
{
    out->wrong++;
    if (out->array != NULL)
        return;
    out->array = array;
    out->first = at;
    out->got = got;
    out->want = want;
}

/* Of elements that begin with number `start` of the array. */
static void compare_elements(kiln__verdict *out, const kiln__array *array, const char *got, const char *want,
                             uint64_t start, uint64_t n, double tolerance)
{
    uint32_t size = array->size;
    kiln__dtype dtype = kiln__workload_dtype(array);
    out->compared += n;
    if (memcmp(got, want, n * size) == 0)
        return;
    for (uint64_t i = 0; i < n; i++)
        if (memcmp(got + i * size, want + i * size, size) != 0 && !is_equal(dtype, got, want, i, tolerance))
            note_difference(out, array, start + i, bits_at(got, i, size), bits_at(want, i, size));
}

/* ---- The reference */

static uint32_t count_written(const kiln__load *load)
{
    uint32_t written = 0;
    for (uint32_t i = 0; i < load->count; i++)
        written += load->arrays[i].written;
    return written;
}

/* Whether the device's own results are what others are compared with. */
static bool is_reference(const kiln_device *device)
{
    return kiln__target_same_backend(&device->target, &kiln__reference_target);
}

static bool names_reference(const kiln__fields *spec, const kiln__load *load)
{
    return spec->template->reference != NULL && count_written(load) == 1;
}

const char *kiln__verify_against(const kiln__fields *spec, const kiln__load *load, const kiln_device *device)
{
    bool own = is_reference(device);
    if (names_reference(spec, load))
        return "the op that the template names, on the cpu";
    if (spec->template->cpu_text == NULL || (own && !load->elementwise))
        return NULL;
    return kiln__template_takes_op(spec->template) ? "the cpu backend" : "the cpu twin";
}

/* The spec of what computes the same on the cpu: the op that the template names, or the template with its defaults. */
static kiln_status find_cpu_spec(kiln__fields *out, kiln__expr *room, const kiln__fields *spec, const kiln__load *load,
                                 kiln_report *report)
{
    kiln_status status = KILN_OK;
    if (names_reference(spec, load)) {
        status = kiln__spec_reference(out, room, spec, report);
    } else {
        *out = *spec;
        memset(out->param_set, 0, sizeof(out->param_set));
    }
    out->target_set = true;
    out->target = kiln__reference_target;
    return status;
}

typedef struct checking {
    const kiln__operands *operands;
    const kiln__fields *spec;
    kiln_kernel *reference;
    bool in_pieces; /* elements depend on those of their index alone */
    uint64_t step;  /* elements of one launch of the reference, in pieces */
    const kiln__comparison *how;
    char *memory;
    void *work[KILN__ARGS_MAX]; /* the arrays of the reference */
    void *got[KILN__ARGS_MAX];  /* the results that they are compared with */
    kiln__verdict *out;
    kiln_report *report;
} checking;

static kiln_status get_reference(checking *c, kiln_service *service)
{
    const kiln__load *load = c->operands->load;
    kiln__fields wanted;
    kiln__expr room;
    char problem[256];
    kiln_status status = find_cpu_spec(&wanted, &room, c->spec, load, c->report);
    if (status == KILN_OK)
        status = kiln__get_unlisted(&c->reference, service, NULL, &wanted, c->report);
    if (status == KILN_OK && !kiln__workload_fits(load, c->reference->plan, problem, sizeof(problem)))
        status = kiln__fail(c->report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0, "the cpu twin: %s", problem);
    if (status == KILN_OK)
        c->step = is_reference(c->operands->device) ? CPU_PIECE : PIECE;
    return status;
}

static char *take_room(char **at, uint64_t bytes)
{
    char *taken = *at;
    *at += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return taken;
}

/* Hands out the buffers in memory that begins at `at`; gives where they end. */
static char *lay_out(checking *c, char *at)
{
    const kiln__load *load = c->operands->load;
    for (uint32_t i = 0; i < load->count; i++) {
        const kiln__array *array = &load->arrays[i];
        uint64_t elements = c->in_pieces && array->elements > PIECE ? PIECE : array->elements;
        c->work[i] = take_room(&at, elements * array->size);
        if (array->written)
            c->got[i] = take_room(&at, elements * array->size);
    }
    return at;
}

static kiln_status make_room(checking *c)
{
    uintptr_t bytes = (uintptr_t)lay_out(c, NULL) + ALIGNMENT;
    c->memory = kiln__alloc(bytes);
    if (c->memory == NULL)
        return kiln__fail_memory(c->report, KILN__STAGE_DEVICE);
    lay_out(c, c->memory + (ALIGNMENT - (uintptr_t)c->memory % ALIGNMENT) % ALIGNMENT);
    return KILN_OK;
}

static kiln_status take_array(const checking *c, uint32_t i, uint64_t start, uint64_t n)
{
    const kiln__operands *from = c->operands;
    const kiln__array *array = &from->load->arrays[i];
    uint64_t offset = start * array->size, bytes = n * array->size;
    kiln_status status = KILN_OK;
    if (array->read && from->saved[i] != NULL)
        memcpy(c->work[i], (const char *)from->saved[i] + offset, bytes);
    else if (array->read)
        status = copy(from->device, c->work[i], (const char *)from->before[i] + offset, bytes, KILN__COPY_FROM_DEVICE,
                      c->report);
    else
        memset(c->work[i], CPU_POISON, bytes);
    if (status == KILN_OK && array->written)
        status = copy(from->device, c->got[i], (const char *)from->after[i] + offset, bytes, KILN__COPY_FROM_DEVICE,
                      c->report);
    return status;
}

static kiln_status launch_step(const checking *c, uint64_t start, uint64_t n)
{
    const kiln__load *load = c->operands->load;
    const void *ins[KILN__ARGS_MAX];
    void *outs[KILN__ARGS_MAX];
    uint32_t in = 0, out = 0;
    for (uint32_t i = 0; i < load->count; i++) {
        char *at = (char *)c->work[i] + start * load->arrays[i].size;
        if (load->arrays[i].written)
            outs[out++] = at;
        else
            ins[in++] = at;
    }
    return kiln__kernel_launch_n(c->reference, n, outs, out, ins, in, NULL, c->report);
}

static kiln_status launch_steps(const checking *c, uint64_t n)
{
    kiln_status status = KILN_OK;
    kiln__watch_tell(c->how->watch, true);
    for (uint64_t done = 0; done < n && status == KILN_OK; done += c->step)
        status = launch_step(c, done, n - done < c->step ? n - done : c->step);
    if (status == KILN_OK)
        kiln__watch_tell(c->how->watch, false);
    return status;
}

/* The definition of the op against the results of a piece. */
static void check_definition(const checking *c, uint64_t start, uint64_t n)
{
    const kiln__load *load = c->operands->load;
    bool applies = c->how->definition && load->elementwise && count_written(load) == 1;
    const kiln__op *op = applies ? kiln__reference_op(c->spec) : NULL;
    const void *ins[KILN__ARGS_MAX];
    const char *got = NULL;
    uint32_t in = 0;
    kiln__worst_error found;
    if (op == NULL || start >= REFERENCE_MOST)
        return;
    for (uint32_t i = 0; i < load->count; i++)
        if (load->arrays[i].written)
            got = c->got[i];
        else
            ins[in++] = c->work[i];
    kiln__reference_compare(c->spec, n, got, ins, &found);
    c->out->bound = op->ulps;
    if (found.worst <= c->out->worst)
        return;
    c->out->worst = found.worst;
    c->out->worst_at = start + found.where;
    c->out->worst_got = found.got;
    c->out->worst_want = found.want;
}

static void compare_written(const checking *c, uint64_t start, uint64_t n)
{
    const kiln__load *load = c->operands->load;
    for (uint32_t i = 0; i < load->count; i++)
        if (load->arrays[i].written)
            compare_elements(c->out, &load->arrays[i], c->got[i], c->work[i], start,
                             c->in_pieces ? n : load->arrays[i].elements, c->how->tolerance);
}

static kiln_status check_piece(const checking *c, uint64_t start, uint64_t n)
{
    const kiln__load *load = c->operands->load;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < load->count && status == KILN_OK; i++)
        status = take_array(c, i, start, n);
    if (status == KILN_OK)
        status = launch_steps(c, n);
    if (status != KILN_OK)
        return status;
    compare_written(c, start, n);
    check_definition(c, start, n);
    return KILN_OK;
}

/* No watch is told: the cpu may take longer here than any launch should. */
static kiln_status check_whole(const checking *c)
{
    const kiln__load *load = c->operands->load;
    kiln_arg given[KILN__ARGS_MAX];
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < load->count && status == KILN_OK; i++)
        status = take_array(c, i, 0, load->arrays[i].elements);
    kiln__workload_args(load, c->work, given);
    if (status == KILN_OK)
        status =
            kiln__kernel_launch(c->reference, load->sizes, load->size_count, given, load->arg_count, NULL, c->report);
    if (status == KILN_OK)
        compare_written(c, 0, 0);
    return status;
}

kiln_status kiln__verify_on_cpu(kiln__verdict *out, kiln_service *service, const kiln__fields *spec,
                                const kiln__operands *operands, const kiln__comparison *how, kiln_report *report)
{
    const kiln__load *load = operands->load;
    uint64_t n = load->elements < how->most ? load->elements : how->most;
    checking c = { .operands = operands,
                   .spec = spec,
                   .in_pieces = load->elementwise || names_reference(spec, load),
                   .how = how,
                   .out = out,
                   .report = report };
    out->against = kiln__verify_against(spec, load, operands->device);
    kiln_status status = get_reference(&c, service);
    if (status == KILN_OK)
        status = make_room(&c);
    if (status == KILN_OK && !c.in_pieces)
        status = check_whole(&c);
    for (uint64_t done = 0; done < n && status == KILN_OK && c.in_pieces; done += PIECE)
        status = check_piece(&c, done, n - done < PIECE ? n - done : PIECE);
    kiln__free(c.memory);
    kiln__kernel_release(c.reference);
    return status;
}

/* ---- A launch of the caller's */

typedef struct trial {
    const kiln__launching *launching;
    kiln_device *device;
    const kiln__load *load;
    void *data[KILN__ARGS_MAX];  /* the arrays */
    void *saved[KILN__ARGS_MAX]; /* in host memory, the values that the launch changes; else NULL */
    kiln_report *report;
} trial;

static kiln_status submit(void *data, void *stream)
{
    const trial *t = data;
    const kiln__launching *l = t->launching;
    if (l->kernel->plan == NULL)
        return kiln__kernel_launch_grid(l->kernel, l->grid, l->args, l->arg_count, stream, t->report);
    return kiln__kernel_launch(l->kernel, l->sizes, l->size_count, l->args, l->arg_count, stream, t->report);
}

static uint64_t bytes_of(const kiln__array *array)
{
    return array->elements * array->size;
}

/* Of a function of a source nothing is known but the bytes of its arrays: each may be read and written. */
static kiln_status take_source_arrays(kiln__load *out, const kiln__launching *launching, kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < launching->arg_count; i++) {
        const kiln_arg *given = &launching->args[i];
        kiln__array array = {
            .type = KILN__ARG_uint8, .size = 1, .read = true, .written = true, .elements = given->bytes
        };
        if (given->kind != KILN_ARG_ARRAY)
            continue;
        if (out->count == KILN__ARGS_MAX)
            return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "more than %d arrays cannot be verified",
                              KILN__ARGS_MAX);
        snprintf(array.name, sizeof(array.name), "argument %zu", i);
        out->at[out->count] = (uint32_t)i;
        out->arrays[out->count++] = array;
    }
    return KILN_OK;
}

/* The same checks as a launch makes, for arrays are written before. */
static kiln_status take_arrays(trial *t)
{
    const kiln__launching *l = t->launching;
    for (uint32_t i = 0; i < t->load->count; i++) {
        const kiln__array *array = &t->load->arrays[i];
        const kiln_arg *given = &l->args[t->load->at[i]];
        bool fits = given->kind == KILN_ARG_ARRAY && given->bytes >= bytes_of(array);
        if (!fits || (given->data == NULL && array->elements > 0))
            return kiln__fail(t->report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0,
                              "argument %s is an array of %" PRIu64 " bytes with these sizes: give it with KILN_ARRAY",
                              array->name, bytes_of(array));
        t->data[i] = (void *)given->data;
    }
    return KILN_OK;
}

static bool overlaps_written(const trial *t, uint32_t i)
{
    const kiln__array *arrays = t->load->arrays;
    for (uint32_t j = 0; j < t->load->count; j++) {
        const char *a = t->data[i], *b = t->data[j];
        if (arrays[j].written && a < b + bytes_of(&arrays[j]) && b < a + bytes_of(&arrays[i]))
            return true;
    }
    return false;
}

/* Saves the values that a launch changes. */
static kiln_status save(trial *t)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < t->load->count && status == KILN_OK; i++) {
        const kiln__array *array = &t->load->arrays[i];
        if (!array->read || !overlaps_written(t, i))
            continue;
        t->saved[i] = kiln__alloc(bytes_of(array) + 1);
        status = t->saved[i] == NULL
                     ? kiln__fail_memory(t->report, KILN__STAGE_DEVICE)
                     : copy(t->device, t->saved[i], t->data[i], bytes_of(array), KILN__COPY_FROM_DEVICE, t->report);
    }
    return status;
}

/* Fills what is only written, and then gives the arrays that are read the values they had: an output may be one of
 * them. */
static kiln_status prepare(const trial *t, unsigned char poison)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < t->load->count && status == KILN_OK; i++)
        if (!t->load->arrays[i].read && t->load->arrays[i].elements > 0)
            status = kiln__fill_bytes(t->device, t->data[i], poison, bytes_of(&t->load->arrays[i]), t->report);
    for (uint32_t i = 0; i < t->load->count && status == KILN_OK; i++)
        if (t->saved[i] != NULL)
            status = copy(t->device, t->data[i], t->saved[i], bytes_of(&t->load->arrays[i]), KILN__COPY_TO_DEVICE,
                          t->report);
    return status;
}

static kiln_status run(trial *t, unsigned char poison)
{
    kiln_status status = prepare(t, poison);
    return status == KILN_OK ? kiln__run_timed(t->device, submit, t, t->report) : status;
}

/* Compares an array with its result of the launch before. */
static kiln_status compare_again(const trial *t, uint32_t i, const char *before, double tolerance, kiln__verdict *out)
{
    const kiln__array *array = &t->load->arrays[i];
    uint64_t step = PIECE / array->size;
    kiln_status status = KILN_OK;
    char *now = kiln__alloc(PIECE);
    if (now == NULL)
        return kiln__fail_memory(t->report, KILN__STAGE_DEVICE);
    for (uint64_t done = 0; done < array->elements && status == KILN_OK; done += step) {
        uint64_t n = array->elements - done < step ? array->elements - done : step;
        status = copy(t->device, now, (char *)t->data[i] + done * array->size, n * array->size, KILN__COPY_FROM_DEVICE,
                      t->report);
        if (status == KILN_OK)
            compare_elements(out, array, now, before + done * array->size, done, n, tolerance);
    }
    kiln__free(now);
    return status;
}

/* Nothing else computes the same: a second launch on memory with another poison. Elements that are not written
 * differ. */
static kiln_status check_again(trial *t, double tolerance, kiln__verdict *out)
{
    void *first[KILN__ARGS_MAX] = { NULL };
    kiln_status status = KILN_OK;
    out->against = "a second launch";
    for (uint32_t i = 0; i < t->load->count && status == KILN_OK; i++) {
        uint64_t bytes = bytes_of(&t->load->arrays[i]);
        if (!t->load->arrays[i].written)
            continue;
        first[i] = kiln__alloc(bytes + 1);
        status = first[i] == NULL ? kiln__fail_memory(t->report, KILN__STAGE_DEVICE)
                                  : copy(t->device, first[i], t->data[i], bytes, KILN__COPY_FROM_DEVICE, t->report);
    }
    if (status == KILN_OK)
        status = run(t, OTHER_POISON);
    for (uint32_t i = 0; i < t->load->count && status == KILN_OK; i++)
        if (first[i] != NULL)
            status = compare_again(t, i, first[i], tolerance, out);
    for (uint32_t i = 0; i < t->load->count; i++)
        kiln__free(first[i]);
    return status;
}

static kiln_status check(trial *t, kiln_service *service, const kiln__fields *spec, double tolerance,
                         kiln__verdict *out)
{
    kiln__operands operands = { .device = t->device, .load = t->load };
    const kiln__comparison how = { .most = UINT64_MAX, .tolerance = tolerance, .definition = true };
    if (spec == NULL || kiln__verify_against(spec, t->load, t->device) == NULL)
        return check_again(t, tolerance, out);
    for (uint32_t i = 0; i < t->load->count; i++) {
        operands.before[i] = operands.after[i] = t->data[i];
        operands.saved[i] = t->saved[i];
    }
    return kiln__verify_on_cpu(out, service, spec, &operands, &how, t->report);
}

kiln_status kiln__verify_launch(kiln__verdict *out, kiln__load *load, kiln_service *service,
                                const kiln__launching *launching, double tolerance, kiln_report *report)
{
    const kiln_kernel *kernel = launching->kernel;
    kiln_spec *spec = NULL;
    trial t = { .launching = launching, .device = kernel->device, .load = load, .report = report };
    const kiln__given given = { .sizes = launching->sizes,
                                .size_count = launching->size_count,
                                .args = launching->args,
                                .arg_count = launching->arg_count,
                                .may_be_empty = true };
    *out = (kiln__verdict){ .against = "", .bound = -1 };
    kiln_status status = kiln__service_check_device(service, kernel->device, report);
    if (status == KILN_OK)
        status = kernel->plan != NULL ? kiln__workload_of(load, kernel->plan, &given, report)
                                      : take_source_arrays(load, launching, report);
    if (status == KILN_OK && kernel->plan != NULL)
        status = kiln__spec_parse(&spec, &service->catalog, kernel->spec, report);
    if (status == KILN_OK)
        status = take_arrays(&t);
    if (status == KILN_OK)
        status = save(&t);
    if (status == KILN_OK)
        status = run(&t, KILN__FILL_POISON);
    if (status == KILN_OK)
        status = check(&t, service, spec != NULL ? &spec->fields : NULL, tolerance, out);
    for (uint32_t i = 0; i < KILN__ARGS_MAX; i++)
        kiln__free(t.saved[i]);
    kiln__spec_release(spec);
    return status;
}

/* ---- Words */

static void say_value(char *out, size_t size, const kiln__array *array, uint64_t bits)
{
    kiln__dtype dtype = kiln__workload_dtype(array);
    int digits = 2 * (int)array->size;
    if (dtype == KILN__DTYPE_UNSET)
        snprintf(out, size, "0x%0*" PRIx64, digits, bits);
    else
        snprintf(out, size, "0x%0*" PRIx64 " (%.17g)", digits, bits, kiln__reference_value(&bits, 0, dtype));
}

kiln_status kiln__verify_refuse(const kiln__verdict *verdict, const char *spec, kiln_report *report)
{
    char got[64], want[64];
    const kiln__array *array = verdict->array;
    if (array != NULL) {
        say_value(got, sizeof(got), array, verdict->got);
        say_value(want, sizeof(want), array, verdict->want);
        return kiln__fail(report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0,
                          "%s is not equal to %s: %" PRIu64 " elements differ, the first is element %" PRIu64
                          " of %s: it is %s, should be %s",
                          spec, verdict->against, verdict->wrong, verdict->first, array->name, got, want);
    }
    if (verdict->bound < 0 || verdict->worst <= verdict->bound)
        return KILN_OK;
    return kiln__fail(report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0,
                      "%s: element %" PRIu64 " is %.17g, %.3g ulp from the reference %.17g: the definition allows %.3g",
                      spec, verdict->worst_at, verdict->worst_got, verdict->worst, verdict->worst_want, verdict->bound);
}
