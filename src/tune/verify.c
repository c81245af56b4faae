/* Compares results: elements on a device, with the cpu, and of two launches; and the proof that variants go by. */
#include "tune/verify.h"

#include "base/alloc.h"
#include "base/fpenv.h"
#include "cpu/cpu.h"
#include "os/cpu.h"
#include "service/get.h"
#include "spec/bound.h"
#include "spec/loop.h"
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    ALIGNMENT = 256,
    CHUNK_BYTES = 4 << 20, /* of each array that the host compares at a time */
    CPU_PIECE = 32 * 129,  /* elements: aligned as any access needs it, and yet a cpu kernel's chunks end elsewhere */
    SPAN = 1 << 14,        /* elements that a thread compares at a time, or those of a row */
    PIECE = CPU_PIECE * 1000, /* elements that are in host memory at a time */
    REFERENCE_MOST = 1 << 24, /* elements: the definition is calculated one at a time, in double */
    ROWS_MOST = 1 << 17,      /* elements of the rows that the proof of an op that reduces compares with the cpu */
    CPU_POISON = 0x3c,        /* not the device's: an element that neither writes is not equal */
    OTHER_POISON = 0x5a
};

kiln_status kiln__get_named(kiln_kernel **out, kiln_service *service, kiln_device *device, kiln_report *report,
                            const char *format, ...)
{
    char text[256];
    kiln_spec *spec;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    kiln_status status = kiln__spec_parse(&spec, &service->catalog, text, report);
    if (status != KILN_OK)
        return status;
    status = kiln__get_unlisted(out, service, device, &spec->fields, report);
    kiln__spec_release(spec);
    return status;
}

static void tell_watch(const kiln__watch *watch, bool begins)
{
    if (watch != NULL)
        watch->launching(watch->data, begins);
}

static kiln_status copy(kiln_device *device, void *to, const void *from, uint64_t bytes, kiln__copy_kind kind,
                        kiln_report *report)
{
    return bytes == 0 ? KILN_OK : device->backend->vtable->copy(device, to, from, bytes, kind, NULL, report);
}

/* Submits once and waits, in the stream in which the device times. The default stream would belong to the context that
 * the host has made current, perhaps that of another device. */
static kiln_status run_timed(kiln_device *device, kiln__submit submit, void *data, kiln_report *report)
{
    double ms;
    return device->backend->vtable->time(device, submit, data, 1, &ms, report);
}

static uint64_t bytes_of(const kiln__array *array)
{
    return array->elements * array->size;
}

static uint64_t align(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

kiln__excess kiln__excess_of(const kiln_tolerance *tolerance, bool bounded)
{
    kiln__excess excess = { "" };
    char bounds[KILN__TOLERANCE_SIZE];
    kiln__tolerance_format(bounds, tolerance);
    if (bounded)
        snprintf(excess.text, sizeof(excess.text), " by more than the functions of the op may");
    else if (bounds[0] != '\0')
        snprintf(excess.text, sizeof(excess.text), " by more than the tolerance (%s)", bounds);
    return excess;
}

/* How many elements are wrong, and the least index of one. */
typedef struct difference {
    uint64_t wrong, first;
} difference;

static const difference none = { 0, UINT64_MAX };

/* ---- Comparing elements in host memory */

static uint64_t bits_at(const char *array, uint64_t i, uint32_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, array + i * size, size);
    return bits;
}

/* Of elements with other bits. */
static bool agrees(kiln__dtype dtype, const char *got, const char *want, uint64_t i, const kiln_tolerance *tolerance)
{
    return kiln__dtype_is_real(dtype) && kiln__tolerance_agrees(tolerance, kiln__dtype_value(got, i, dtype),
                                                                kiln__dtype_value(want, i, dtype), dtype);
}

/* Adds wrong elements; the first of them is number `first`. */
static void note_difference(kiln__verdict *out, const kiln__array *array, uint64_t wrong, uint64_t first, uint64_t got,
                            uint64_t want)
{
    out->wrong += wrong;
    if (out->array != NULL)
        return;
    out->array = array;
    out->first = first;
    out->got = got;
    out->want = want;
}

/* Elements with other bits of an op that is not exact: `ins` are its inputs. */
typedef struct bounds {
    const kiln__fields *spec; /* NULL: only the tolerance counts */
    kiln__bound_types types;  /* of the spec */
    kiln__elements given;
    const kiln__loop *loop; /* of arrays with strides; NULL: others */
    uint32_t output;        /* which of the op's outputs the elements are */
    bool single;            /* an element of this output is the one of a row */
    uint64_t line;          /* of an op that reduces, the row whose values are known; UINT64_MAX: none */
    uint64_t rows_most;     /* of an op that reduces: rows whose elements are compared one by one; 0: all */
    kiln__row_bound row;
} bounds;

static const bounds unbounded = { .spec = NULL };

/* Element number k in an order in which the elements of a row follow each other as its scans have them, so that its
 * values are calculated once. */
static uint64_t element_at(const bounds *b, uint64_t k)
{
    if (b->spec == NULL || (b->given.inner == 1 && !b->spec->op->reverse) || b->single)
        return k;
    return kiln__elements_at(&b->given, k / b->given.columns,
                             kiln__elements_in_order(&b->given, b->spec->op, k % b->given.columns));
}

/* The numbers that an element of an output is calculated from; those of its row, too, where the op reduces. */
static kiln__real_numbers numbers_of(bounds *b, uint64_t i, double inputs[KILN__INPUTS_MAX])
{
    const kiln__elements *given = &b->given;
    const bool reduces = b->spec->op->reductions > 0;
    const uint64_t inner = given->inner, slab = given->columns * inner;
    const uint64_t line = b->single ? i : i / slab * inner + i % inner;
    if (reduces && b->line != line)
        kiln__bound_row(&b->row, b->spec, &b->types, given, line);
    b->line = line;
    const uint64_t column = reduces ? i / inner % given->columns : 0;
    if (b->spec->op->scans && !b->single)
        kiln__bound_scan(&b->row, b->spec, &b->types, given, line, kiln__elements_in_order(given, b->spec->op, column));
    for (uint32_t j = 0; j < kiln__spec_inputs(b->spec); j++) {
        uint64_t at = b->single ? kiln__elements_at(given, line, 0) : i;
        if (b->loop != NULL)
            at = kiln__loop_offset(b->loop, b->output, b->loop->outputs + j, i);
        inputs[j] = kiln__spec_input_value(b->spec, j, given->ins[j], at, given->columns, inner);
    }
    return (kiln__real_numbers){ .inputs = inputs, .scalars = given->scalars, .index = (double)(reduces ? column : i) };
}

static bool is_within(bounds *b, const char *got, const char *want, uint64_t i)
{
    double inputs[KILN__INPUTS_MAX];
    if (b->spec == NULL)
        return false;
    const kiln__dtype type = b->types.results[b->output];
    const double result = kiln__dtype_value(got, i, type), right = kiln__dtype_value(want, i, type);
    if (kiln__bound_is_near(&b->types, b->output, result, right))
        return true;
    const kiln__real_numbers numbers = numbers_of(b, i, inputs);
    return kiln__bound_agrees(b->spec, &b->types, &numbers, &b->row, b->output, result, right);
}

/* The elements that are compared one by one, of n. */
static uint64_t count_compared(const bounds *b, uint64_t n)
{
    if (b->spec == NULL || b->rows_most == 0)
        return n;
    const uint64_t most = b->rows_most * (b->single ? 1 : b->given.columns);
    return most < n ? most : n;
}

/* A comparison that threads share. */
typedef struct span_comparison {
    const kiln__array *array;
    const char *got, *want;
    const kiln_tolerance *tolerance;
    const bounds *within;
    pthread_mutex_t lock; /* guards what follows */
    difference found;
} span_comparison;

/* A kiln__pool_fn. */
static void compare_span(void *data, uint64_t begin, uint64_t end)
{
    span_comparison *c = data;
    const uint32_t size = c->array->size;
    difference found = none;
    bounds own = *c->within;
    for (uint64_t k = begin; k < end; k++) {
        const uint64_t i = element_at(&own, k);
        if (memcmp(c->got + i * size, c->want + i * size, size) == 0 ||
            agrees(c->array->type, c->got, c->want, i, c->tolerance) || is_within(&own, c->got, c->want, i))
            continue;
        found.wrong++;
        found.first = i < found.first ? i : found.first;
    }
    if (found.wrong == 0)
        return;
    pthread_mutex_lock(&c->lock);
    c->found.wrong += found.wrong;
    c->found.first = found.first < c->found.first ? found.first : c->found.first;
    pthread_mutex_unlock(&c->lock);
}

/* The elements of a span. An op that reduces has spans of whole rows: the values of a row are calculated once. */
static uint64_t span_of(const bounds *b)
{
    if (b->spec->op->reductions == 0 || b->given.columns == 0)
        return SPAN;
    return (SPAN / b->given.columns + 1) * (b->single ? 1 : b->given.columns);
}

/* Compares n elements from number `start` of the array on. Threads share what has bounds, whose elements take long. The
 * reference on the cpu has the same pool. */
static void compare_elements(kiln__verdict *out, const kiln__array *array, const char *got, const char *want,
                             uint64_t start, uint64_t n, const kiln_tolerance *tolerance, const bounds *within)
{
    span_comparison c = { array, got, want, tolerance, within, PTHREAD_MUTEX_INITIALIZER, none };
    const uint32_t size = array->size;
    if (memcmp(got, want, n * size) == 0) {
        out->compared += n;
        return;
    }
    n = count_compared(within, n);
    out->compared += n;
    kiln__fpenv host;
    kiln__pool *pool = within->spec != NULL ? kiln__pool_share(kiln__cpu_count() - 1) : NULL;
    kiln__fpenv_enter(&host); /* a host may flush subnormal numbers */
    if (pool != NULL)
        kiln__pool_run(pool, n, span_of(within), compare_span, &c);
    else
        compare_span(&c, 0, n);
    kiln__fpenv_leave(&host);
    kiln__pool_release(pool);
    const uint64_t first = c.found.first;
    if (c.found.wrong > 0)
        note_difference(out, array, c.found.wrong, start + first, bits_at(got, first, size),
                        bits_at(want, first, size));
}

/* The same of n elements in device memory, a chunk at a time; `want` may be in host memory. */
static kiln_status compare_chunks(kiln__verdict *out, kiln_device *device, const kiln__array *array, const char *got,
                                  const char *want, bool want_on_device, uint64_t n, const kiln_tolerance *tolerance,
                                  kiln_report *report)
{
    uint32_t size = array->size;
    uint64_t step = CHUNK_BYTES / size;
    char *host = kiln__alloc(2 * (size_t)CHUNK_BYTES);
    kiln_status status = KILN_OK;
    if (host == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    for (uint64_t done = 0; done < n && status == KILN_OK; done += step) {
        uint64_t count = n - done < step ? n - done : step;
        const char *right = want_on_device ? host + CHUNK_BYTES : want + done * size;
        status = copy(device, host, got + done * size, count * size, KILN__COPY_FROM_DEVICE, report);
        if (status == KILN_OK && want_on_device)
            status = copy(device, host + CHUNK_BYTES, want + done * size, count * size, KILN__COPY_FROM_DEVICE, report);
        if (status == KILN_OK)
            compare_elements(out, array, host, right, done, count, tolerance, &unbounded);
    }
    kiln__free(host);
    return status;
}

/* ---- Comparing on the device */

static kiln_status init_comparer(kiln__comparer *out, kiln_service *service, kiln_device *device,
                                 const kiln__fields *spec, const kiln__load *load, kiln_report *report)
{
    *out = (kiln__comparer){ .device = device, .tolerance = spec->template->tolerance };
    kiln_status status = device->backend->vtable->alloc(device, &out->found, sizeof(none), report);
    if (status != KILN_OK)
        out->found = NULL;
    for (uint32_t i = 0; i < load->count && status == KILN_OK; i++) {
        kiln__dtype dtype = load->arrays[i].type;
        if (load->arrays[i].written && dtype < KILN__DTYPE_SPECS_END && out->kernels[dtype] == NULL)
            status = kiln__get_named(&out->kernels[dtype], service, device, report,
                                     "template=compare dtype=%s target=%s", kiln__dtype_name(dtype), spec->target.name);
    }
    return status;
}

static void fini_comparer(kiln__comparer *comparer)
{
    for (int i = 0; i < KILN__DTYPE_END; i++)
        kiln__kernel_release(comparer->kernels[i]);
    if (comparer->found != NULL)
        comparer->device->backend->vtable->free(comparer->device, comparer->found);
}

typedef struct comparing {
    kiln_kernel *kernel;
    uint64_t n;
    const kiln_arg *args; /* what is found, the two arrays and the tolerance */
    uint32_t arg_count;
    kiln_report *report;
} comparing;

static kiln_status submit_compare(void *data, void *stream)
{
    const comparing *self = data;
    return kiln__kernel_launch(self->kernel, &self->n, 1, self->args, self->arg_count, stream, self->report);
}

kiln_status kiln__compare(const kiln__comparer *comparer, const kiln__array *array, const void *got, const void *want,
                          uint64_t n, kiln__verdict *out, kiln_report *report)
{
    kiln_device *device = comparer->device;
    static const kiln_tolerance exact = KILN_INIT(kiln_tolerance);
    const kiln_tolerance *tolerance = kiln__array_is_real(array) ? &comparer->tolerance : &exact;
    const uint64_t bytes = n * array->size;
    const kiln_arg args[] = { KILN_ARRAY(comparer->found, sizeof(none)),
                              KILN_ARRAY(got, bytes),
                              KILN_ARRAY(want, bytes),
                              KILN_VALUE(tolerance->ulp),
                              KILN_VALUE(tolerance->relative),
                              KILN_VALUE(tolerance->absolute) };
    comparing work = { comparer->kernels[array->type], n, args, sizeof(args) / sizeof(args[0]), report };
    difference found = none;
    if (work.kernel == NULL) /* of a type that no spec has */
        return compare_chunks(out, device, array, got, want, true, n, tolerance, report);
    kiln_status status = copy(device, comparer->found, &none, sizeof(none), KILN__COPY_TO_DEVICE, report);
    if (status == KILN_OK)
        status = run_timed(device, submit_compare, &work, report);
    if (status == KILN_OK)
        status = copy(device, &found, comparer->found, sizeof(found), KILN__COPY_FROM_DEVICE, report);
    if (status == KILN_OK && found.wrong > 0)
        note_difference(out, array, found.wrong, found.first, 0, 0);
    return status;
}

/* ---- Comparing with the cpu */

static uint32_t count_written(const kiln__load *load)
{
    uint32_t written = 0;
    for (uint32_t i = 0; i < load->count; i++)
        written += load->arrays[i].written;
    return written;
}

/* Whether the results of other devices are compared with those of this one. */
static bool is_reference(const kiln_device *device)
{
    return kiln__target_same_backend(&device->target, &kiln__reference_target);
}

/* Whether the template names an op that computes the same. */
static bool names_reference(const kiln__fields *spec, const kiln__load *load)
{
    return spec->template->reference != NULL && count_written(load) == 1;
}

/* Names the computation on the cpu that the results of a spec's kernel on a device are compared with (tune/verify.h).
 * NULL: there is none. */
static const char *name_reference(const kiln__fields *spec, const kiln__load *load, const kiln_device *device)
{
    if (names_reference(spec, load))
        return "the op that the template names, on the cpu";
    if ((spec->template->cpu_text == NULL && !kiln__arguments_reduce(&spec->template->arguments)) ||
        (is_reference(device) && !load->elementwise))
        return NULL;
    return kiln__template_takes_op(spec->template) ? "the cpu backend" : "the cpu twin";
}

/* A comparison of the results of one launch. The owner sets the members before `reference`. All is borrowed. */
typedef struct checking {
    kiln_service *service;
    kiln_device *device;
    const kiln__load *load;
    const kiln__fields *spec;
    const void *before[KILN__ARGS_MAX]; /* of each array that is read, its values before the launch, on the device */
    const void *saved[KILN__ARGS_MAX];  /* the same in host memory, where the launch changed them; else NULL */
    const void *after[KILN__ARGS_MAX];  /* of each array that is written, the result, on the device */
    uint64_t most;      /* elements, where one depends on those of its index alone; else all are compared */
    uint64_t rows_most; /* of an op that reduces: rows that are compared; 0: all */
    const kiln_tolerance *tolerance;
    bool definition; /* also with the op's definition */
    const kiln__watch *watch;
    kiln__verdict *out;
    kiln_report *report;
    kiln_tolerance *widest; /* of each array, where not NULL: gets the largest bound of an element */
    kiln_kernel *reference;
    bool in_pieces; /* elements depend on those of their index alone */
    uint64_t step;  /* elements of one launch of the reference, in pieces */
    char *memory;
    void *work[KILN__ARGS_MAX]; /* the arrays of the reference */
    void *got[KILN__ARGS_MAX];  /* the results that they are compared with */
} checking;

/* Gets the kernel that computes the same on the cpu: the op that the template names, or the template with its
 * defaults. */
static kiln_status get_reference(checking *c)
{
    kiln__fields wanted = *c->spec;
    kiln__real room;
    char problem[256];
    kiln_status status = KILN_OK;
    if (names_reference(c->spec, c->load))
        status = kiln__spec_reference(&wanted, &room, c->spec, c->report);
    else
        memset(wanted.param_set, 0, sizeof(wanted.param_set));
    if (status == KILN_OK && wanted.template->cpu_text == NULL) /* one that reduces: the twin of rows does that, too */
        status = kiln__catalog_find(wanted.catalog, kiln__word_of(KILN__TEMPLATE_ROWS), &wanted.template, c->report);
    wanted.target_set = true;
    wanted.target = kiln__reference_target;
    if (status == KILN_OK)
        status = kiln__get_unlisted(&c->reference, c->service, NULL, &wanted, c->report);
    if (status == KILN_OK && !kiln__load_fits(c->load, c->reference->plan, problem, sizeof(problem)))
        status = kiln__fail(c->report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0, "the cpu twin: %s", problem);
    c->step = is_reference(c->device) ? CPU_PIECE : PIECE;
    return status;
}

/* The elements of an array that are in memory at once. */
static uint64_t elements_at_once(const checking *c, const kiln__array *array)
{
    return c->in_pieces && array->elements > PIECE ? PIECE : array->elements;
}

/* One piece of memory has two buffers for each array that is written, and one for the others. */
static kiln_status make_room(checking *c)
{
    const kiln__load *load = c->load;
    uint64_t bytes = ALIGNMENT;
    for (uint32_t i = 0; i < load->count; i++)
        bytes +=
            align(elements_at_once(c, &load->arrays[i]) * load->arrays[i].size) * (load->arrays[i].written ? 2 : 1);
    c->memory = kiln__alloc(bytes);
    if (c->memory == NULL)
        return kiln__fail_memory(c->report, KILN__STAGE_DEVICE);
    char *at = c->memory + (ALIGNMENT - (uintptr_t)c->memory % ALIGNMENT) % ALIGNMENT;
    for (uint32_t i = 0; i < load->count; i++) {
        uint64_t size = align(elements_at_once(c, &load->arrays[i]) * load->arrays[i].size);
        c->work[i] = at;
        c->got[i] = at + size;
        at += load->arrays[i].written ? 2 * size : size;
    }
    return KILN_OK;
}

/* Fetches the values that a launch has read, and its results. */
static kiln_status fetch_array(const checking *c, uint32_t i, uint64_t start, uint64_t n)
{
    const kiln__array *array = &c->load->arrays[i];
    uint64_t offset = start * array->size, bytes = n * array->size;
    kiln_status status = KILN_OK;
    if (array->read && c->saved[i] != NULL)
        memcpy(c->work[i], (const char *)c->saved[i] + offset, bytes);
    else if (array->read)
        status =
            copy(c->device, c->work[i], (const char *)c->before[i] + offset, bytes, KILN__COPY_FROM_DEVICE, c->report);
    else
        memset(c->work[i], CPU_POISON, bytes);
    if (status == KILN_OK && array->written)
        status =
            copy(c->device, c->got[i], (const char *)c->after[i] + offset, bytes, KILN__COPY_FROM_DEVICE, c->report);
    return status;
}

static kiln_status launch_step(const checking *c, uint64_t start, uint64_t n)
{
    const kiln__load *load = c->load;
    const void *ins[KILN__ARGS_MAX];
    void *outs[KILN__ARGS_MAX], *places[KILN__ARGS_MAX];
    kiln_arg args[KILN__ARGS_MAX];
    uint32_t in = 0, out = 0;
    for (uint32_t i = 0; i < load->count; i++) {
        places[i] = (char *)c->work[i] + start * load->arrays[i].size;
        if (load->arrays[i].written)
            outs[out++] = places[i];
        else
            ins[in++] = places[i];
    }
    if (c->reference->plan->scalars == 0) /* kiln_launch_n takes them by their roles */
        return kiln__kernel_launch_n(c->reference, n, outs, out, ins, in, NULL, c->report);
    kiln__load_args(load, places, args);
    return kiln__kernel_launch(c->reference, &n, 1, args, load->arg_count, NULL, c->report);
}

static kiln_status launch_steps(const checking *c, uint64_t n)
{
    kiln_status status = KILN_OK;
    tell_watch(c->watch, true);
    for (uint64_t done = 0; done < n && status == KILN_OK; done += c->step)
        status = launch_step(c, done, n - done < c->step ? n - done : c->step);
    if (status == KILN_OK)
        tell_watch(c->watch, false);
    return status;
}

/* The arrays that are only read, in host memory. */
static void list_inputs(const checking *c, const void *ins[KILN__ARGS_MAX])
{
    uint32_t in = 0;
    for (uint32_t i = 0; i < c->load->count; i++)
        if (!c->load->arrays[i].written)
            ins[in++] = c->work[i];
}

/* The scalars of the op. False: the kernel takes other numbers too, of which none is known as one. */
static bool list_scalars(const checking *c, double scalars[KILN__SCALARS_MAX])
{
    uint32_t count = 0, wanted = c->spec->op->scalars;
    for (uint32_t i = 0; i < c->load->arg_count; i++) {
        uint32_t bytes = c->load->number_bytes[i];
        if (bytes > 0 && (count == wanted || bytes != sizeof(double)))
            return false;
        if (bytes > 0)
            memcpy(&scalars[count++], &c->load->numbers[i], sizeof(double));
    }
    return count == wanted;
}

/* Compares the results of a piece with the definition of the op. */
static void check_definition(const checking *c, uint64_t start, uint64_t n)
{
    const kiln__load *load = c->load;
    double scalars[KILN__SCALARS_MAX];
    bool applies = c->definition && load->elementwise && start < REFERENCE_MOST && list_scalars(c, scalars);
    const kiln__op *op = applies ? kiln__reference_op(c->spec) : NULL;
    const void *ins[KILN__ARGS_MAX];
    uint32_t output = 0;
    if (op == NULL || count_written(load) != op->outputs)
        return;
    list_inputs(c, ins);
    c->out->bound = op->ulps;
    for (uint32_t i = 0; i < load->count; i++) {
        kiln__worst_error found;
        if (!load->arrays[i].written)
            continue;
        kiln__reference_compare(c->spec, output++, n, c->got[i], ins, scalars, &found);
        if (found.worst <= c->out->worst)
            continue;
        c->out->worst = found.worst;
        c->out->worst_at = start + found.where;
        c->out->worst_got = found.got;
        c->out->worst_want = found.want;
    }
}

/* Variants add the elements of a row in other orders. The bound for a few rows of random values holds for all. */
static kiln_tolerance find_widest(bounds *b, uint64_t elements)
{
    kiln_tolerance widest = KILN_INIT(kiln_tolerance);
    kiln__fpenv host;
    const uint64_t row =
        b->spec->op->scans ? b->given.columns : 0; /* of a scan the last element is the least certain */
    const uint64_t most = row > ROWS_MOST ? row : ROWS_MOST, compared = count_compared(b, elements);
    kiln__fpenv_enter(&host);
    widest.ulp = 2;
    for (uint64_t k = 0; k < compared && k < most; k++) {
        double inputs[KILN__INPUTS_MAX];
        const kiln__real_numbers numbers = numbers_of(b, element_at(b, k), inputs);
        const double error = kiln__bound_estimate(b->spec, &b->types, &numbers, &b->row, b->output).error;
        if (isfinite(error) && 2 * error > widest.absolute)
            widest.absolute = 2 * error;
    }
    kiln__fpenv_leave(&host);
    return widest;
}

static void compare_written(const checking *c, uint64_t start, uint64_t n)
{
    const kiln__load *load = c->load;
    const kiln__template *template = c->spec->template;
    bool aligned = kiln__arguments_elementwise(&template->arguments) || kiln__template_broadcasts(template);
    bool bounded = aligned && count_written(load) == kiln__spec_outputs(c->spec) && kiln__template_takes_op(template) &&
                   !kiln__spec_is_exact(c->spec) && !is_reference(c->device) && kiln__tolerance_is_exact(c->tolerance);
    const void *ins[KILN__ARGS_MAX];
    double scalars[KILN__SCALARS_MAX];
    bounds within = { .given = { ins, scalars, 1, 1 }, .line = UINT64_MAX, .rows_most = c->rows_most };
    if (load->size_count > 0)
        within.given.columns = load->sizes[load->size_count > 1 ? 1 : 0];
    if (load->size_count > 2)
        within.given.inner = load->sizes[2];
    bounded = bounded && list_scalars(c, scalars);
    within.spec = bounded ? c->spec : NULL;
    if (bounded)
        kiln__bound_types_find(&within.types, c->spec);
    c->out->bounded = bounded;
    kiln__loop loop;
    if (c->reference->plan->dims > 0) {
        kiln__loop_of_plan(&loop, c->reference->plan, load->sizes[0]);
        within.loop = &loop;
    }
    list_inputs(c, ins);
    for (uint32_t i = 0; i < load->count; i++) {
        if (!load->arrays[i].written)
            continue;
        within.single = bounded && kiln__spec_out_layout(c->spec, within.output) == KILN__LAYOUT_COLUMN;
        compare_elements(c->out, &load->arrays[i], c->got[i], c->work[i], start,
                         c->in_pieces ? n : load->arrays[i].elements, c->tolerance, &within);
        if (c->widest != NULL && within.spec != NULL)
            c->widest[i] = find_widest(&within, load->arrays[i].elements);
        within.output++;
    }
}

static kiln_status check_piece(const checking *c, uint64_t start, uint64_t n)
{
    const kiln__load *load = c->load;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < load->count && status == KILN_OK; i++)
        status = fetch_array(c, i, start, n);
    if (status == KILN_OK)
        status = launch_steps(c, n);
    if (status != KILN_OK)
        return status;
    compare_written(c, start, n);
    check_definition(c, start, n);
    return KILN_OK;
}

/* The watch is not told: the cpu may take longer here than any launch should. */
static kiln_status check_whole(const checking *c)
{
    const kiln__load *load = c->load;
    kiln_arg given[KILN__ARGS_MAX];
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < load->count && status == KILN_OK; i++)
        status = fetch_array(c, i, 0, load->arrays[i].elements);
    kiln__load_args(load, c->work, given);
    if (status == KILN_OK)
        status =
            kiln__kernel_launch(c->reference, load->sizes, load->size_count, given, load->arg_count, NULL, c->report);
    if (status == KILN_OK)
        compare_written(c, 0, 0);
    return status;
}

/* Compares the results with those of name_reference, which there must be. KILN_OK also where results differ. The errors
 * of kiln_get and kiln_launch; KILN_EMISMATCH: the cpu twin takes other arguments. */
static kiln_status compare_with_cpu(checking *c)
{
    const kiln__load *load = c->load;
    uint64_t n = load->elements < c->most ? load->elements : c->most;
    c->in_pieces = load->elementwise || names_reference(c->spec, load);
    c->out->against = name_reference(c->spec, load, c->device);
    kiln_status status = get_reference(c);
    if (status == KILN_OK)
        status = make_room(c);
    if (status == KILN_OK && !c->in_pieces)
        status = check_whole(c);
    for (uint64_t done = 0; done < n && status == KILN_OK && c->in_pieces; done += PIECE)
        status = check_piece(c, done, n - done < PIECE ? n - done : PIECE);
    kiln__free(c->memory);
    kiln__kernel_release(c->reference);
    return status;
}

/* ---- The proof of variants */

static void *want_of(const kiln__proof *proof, uint32_t array)
{
    return (char *)proof->want + proof->want_at[array];
}

/* "SPEC is not equal to AGAINST: so many elements differ ..." */
static kiln_status refuse_reference(const kiln__fields *spec, const char *against, const kiln__verdict *found,
                                    kiln_report *report)
{
    kiln__text text = { 0 };
    bool flat = kiln__arguments_flat(&spec->template->arguments);
    kiln__spec_format(spec, false, &text);
    kiln_status status =
        kiln__fail(report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0,
                   "%s is not equal to %s: %" PRIu64 " elements%s%s differ%s, the first is %" PRIu64,
                   kiln__text_string(&text), against, found->wrong, flat ? "" : " of ", flat ? "" : found->array->name,
                   kiln__excess_of(&spec->template->tolerance, found->bounded).text, found->first);
    kiln__text_fini(&text);
    return status;
}

typedef struct launching {
    const kiln__arrays *arrays;
    const kiln_kernel *kernel;
    kiln_report *report;
} launching;

static kiln_status submit_on_arrays(void *data, void *stream)
{
    const launching *self = data;
    return kiln__arrays_launch(self->arrays, 0, self->kernel, stream, self->report);
}

/* On the first set; waits. */
static kiln_status launch_on_arrays(const kiln__arrays *arrays, const kiln_kernel *kernel, unsigned char poison,
                                    kiln_report *report)
{
    launching work = { arrays, kernel, report };
    kiln_status status = kiln__arrays_poison(arrays, 0, poison, report);
    return status == KILN_OK ? run_timed(arrays->device, submit_on_arrays, &work, report) : status;
}

static kiln_status compare_with_reference(const kiln__proof *proof, kiln__verdict *out, kiln_report *report)
{
    const kiln__load *load = &proof->arrays->load;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < load->count && status == KILN_OK; i++) {
        kiln__comparer comparer = proof->comparer;
        if (!load->arrays[i].written)
            continue;
        if (!kiln__tolerance_is_exact(&proof->widest[i]))
            comparer.tolerance = proof->widest[i];
        status = kiln__compare(&comparer, &load->arrays[i], kiln__arrays_in(proof->arrays, 0, i), want_of(proof, i),
                               load->arrays[i].elements, out, report);
    }
    return status;
}

kiln_status kiln__proof_check(kiln__proof *proof, kiln_kernel *kernel, kiln__verdict *out, kiln_report *report)
{
    bool whole = true;
    *out = (kiln__verdict){ .against = proof->against, .tolerance = proof->comparer.tolerance };
    kiln_status status = launch_on_arrays(proof->arrays, kernel, KILN__FILL_POISON, report);
    if (status == KILN_OK)
        status = kiln__arrays_check_guard(proof->arrays, 0, &whole, report);
    if (status == KILN_OK)
        status = compare_with_reference(proof, out, report);
    out->overrun = !whole;
    return status;
}

/* The values repeat, and so do the right results of an elementwise kernel. */
static kiln_status check_period(const kiln__proof *proof, const kiln__fields *spec, kiln_report *report)
{
    const kiln__load *load = &proof->arrays->load;
    uint32_t out = 0;
    kiln__verdict verdict = { .array = NULL };
    if (!load->elementwise || count_written(load) != 1 || load->elements <= KILN__FILL_PERIOD)
        return KILN_OK;
    while (!load->arrays[out].written)
        out++;
    const char *want = want_of(proof, out), *second = want + (uint64_t)KILN__FILL_PERIOD * load->arrays[out].size;
    kiln_status status = kiln__compare(&proof->comparer, &load->arrays[out], second, want,
                                       load->elements - KILN__FILL_PERIOD, &verdict, report);
    if (status != KILN_OK || verdict.wrong == 0)
        return status;
    verdict.first += KILN__FILL_PERIOD;
    return refuse_reference(spec, "itself one period of its inputs before", &verdict, report);
}

/* Elements that are not written keep the poison, and show. */
static kiln_status check_second_launch(const kiln__proof *proof, const kiln__fields *spec, const kiln_kernel *kernel,
                                       const kiln__watch *watch, kiln_report *report)
{
    kiln__verdict verdict = { .array = NULL };
    tell_watch(watch, true);
    kiln_status status = launch_on_arrays(proof->arrays, kernel, OTHER_POISON, report);
    if (status != KILN_OK)
        return status;
    tell_watch(watch, false);
    status = compare_with_reference(proof, &verdict, report);
    return status == KILN_OK && verdict.wrong > 0
               ? refuse_reference(spec, "itself in a second launch, or leaves elements as they were", &verdict, report)
               : status;
}

/* How many rows of so many elements the cpu checks. */
static uint64_t most_rows(uint64_t elements)
{
    const uint64_t fit = ROWS_MOST / (elements > 0 ? elements : 1);
    return fit > 0 ? fit : 1;
}

/* The first rows of a workload: as many as have the elements that the cpu computes. Rows that lie beside each other
 * stay together. */
static kiln__load cut_rows(const kiln__load *load, const kiln__fields *spec)
{
    kiln__load part = *load;
    const uint64_t inner = load->size_count > 2 ? load->sizes[2] : 1, cols = load->sizes[1] * inner,
                   most = most_rows(cols);
    uint32_t out = 0, in = 0;
    part.sizes[0] = load->sizes[0] < most ? load->sizes[0] : most;
    for (uint32_t i = 0; i < part.count; i++) {
        kiln__array *array = &part.arrays[i];
        const kiln__layout layout = array->written ? kiln__spec_out_layout(spec, out++) : kiln__spec_layout(spec, in++);
        if (layout == KILN__LAYOUT_FULL || layout == KILN__LAYOUT_COLUMN)
            array->elements = part.sizes[0] * (layout == KILN__LAYOUT_FULL ? cols : inner);
    }
    return part;
}

/* Where a launch has changed values that it read, the set gets its first values again. */
static kiln_status check_on_cpu(kiln__proof *proof, kiln_service *service, const kiln__fields *spec,
                                const kiln__watch *watch, kiln_report *report)
{
    const kiln__arrays *arrays = proof->arrays;
    kiln__verdict verdict = { .bound = -1 };
    const bool reduces = kiln__arguments_reduce(&spec->template->arguments);
    const kiln__load part = reduces ? cut_rows(&arrays->load, spec) : arrays->load;
    checking c = { .service = service,
                   .device = arrays->device,
                   .load = &part,
                   .spec = spec,
                   .widest = reduces ? proof->widest : NULL,
                   .most = KILN__FILL_PERIOD,
                   .rows_most = reduces ? most_rows(arrays->load.sizes[1]) : 0,
                   .tolerance = &spec->template->tolerance,
                   .watch = watch,
                   .out = &verdict,
                   .report = report };
    for (uint32_t i = 0; i < arrays->load.count; i++) {
        c.before[i] = kiln__arrays_in(arrays, 0, i);
        c.after[i] = want_of(proof, i);
    }
    kiln_status status = kiln__arrays_restore(arrays, false, report);
    if (status == KILN_OK)
        status = compare_with_cpu(&c);
    return status == KILN_OK && verdict.wrong > 0 ? refuse_reference(spec, verdict.against, &verdict, report) : status;
}

static kiln_status make_reference(kiln__proof *proof, kiln_service *service, const kiln__fields *spec,
                                  const kiln__watch *watch, kiln_report *report)
{
    const kiln__arrays *arrays = proof->arrays;
    const kiln__load *load = &arrays->load;
    kiln_kernel *kernel = NULL;
    bool whole = true;
    kiln_status status = kiln__get_unlisted(&kernel, service, arrays->device, spec, report);
    if (status == KILN_OK) {
        tell_watch(watch, true);
        status = launch_on_arrays(arrays, kernel, KILN__FILL_POISON, report);
    }
    if (status == KILN_OK) {
        tell_watch(watch, false);
        status = kiln__arrays_check_guard(arrays, 0, &whole, report);
    }
    if (status == KILN_OK && !whole)
        status = kiln__fail(report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0, "%s writes behind its output", kernel->spec);
    for (uint32_t i = 0; i < load->count && status == KILN_OK; i++)
        if (load->arrays[i].written)
            status = copy(arrays->device, want_of(proof, i), kiln__arrays_in(arrays, 0, i), bytes_of(&load->arrays[i]),
                          KILN__COPY_ON_DEVICE, report);
    if (status == KILN_OK)
        status = arrays->device->backend->vtable->sync(arrays->device, report);
    proof->against = name_reference(spec, load, arrays->device);
    if (status == KILN_OK)
        status = proof->against != NULL ? check_on_cpu(proof, service, spec, watch, report)
                                        : check_second_launch(proof, spec, kernel, watch, report);
    if (proof->against == NULL)
        proof->against = "the default variant";
    kiln__kernel_release(kernel);
    return status == KILN_OK ? check_period(proof, spec, report) : status;
}

kiln_status kiln__proof_init(kiln__proof *out, kiln_service *service, const kiln__fields *spec,
                             const kiln__arrays *arrays, const kiln__watch *watch, kiln_report *report)
{
    kiln_device *device = arrays->device;
    uint64_t bytes = 0;
    *out = (kiln__proof){ .arrays = arrays };
    for (uint32_t i = 0; i < arrays->load.count; i++) {
        out->want_at[i] = bytes;
        bytes += arrays->load.arrays[i].written ? align(bytes_of(&arrays->load.arrays[i])) : 0;
    }
    kiln_status status = device->backend->vtable->alloc(device, &out->want, bytes > 0 ? bytes : 1, report);
    if (status != KILN_OK)
        out->want = NULL;
    if (status == KILN_OK)
        status = init_comparer(&out->comparer, service, device, spec, &arrays->load, report);
    return status == KILN_OK ? make_reference(out, service, spec, watch, report) : status;
}

void kiln__proof_fini(kiln__proof *proof)
{
    fini_comparer(&proof->comparer);
    if (proof->want != NULL)
        proof->arrays->device->backend->vtable->free(proof->arrays->device, proof->want);
    memset(proof, 0, sizeof(*proof));
}

/* ---- Launches of hosts */

typedef struct trial {
    const kiln_kernel *kernel;
    const kiln_grid *grid;
    const kiln_work *work; /* sizes and arguments */
    kiln_device *device;
    const kiln__load *load;
    void *data[KILN__ARGS_MAX];  /* the arrays */
    void *saved[KILN__ARGS_MAX]; /* in host memory, the values that the launch changes; else NULL */
    kiln_report *report;
} trial;

static kiln_status submit_launch(void *data, void *stream)
{
    const trial *t = data;
    const kiln_work *work = t->work;
    if (t->kernel->plan == NULL)
        return kiln__kernel_launch_grid(t->kernel, t->grid, work->args, work->arg_count, stream, t->report);
    return kiln__kernel_launch(t->kernel, work->sizes, work->size_count, work->args, work->arg_count, stream,
                               t->report);
}

/* Only the bytes of its arrays are known of a function of a source: each may be read and written. */
static kiln_status take_source_arrays(kiln__load *out, const kiln_work *work, kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < work->arg_count; i++) {
        const kiln_arg *given = &work->args[i];
        kiln__array array = {
            .type = KILN__DTYPE_U8, .size = 1, .read = true, .written = true, .elements = given->bytes
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

/* Makes the same checks as a launch, because arrays are written before it. */
static kiln_status take_arrays(trial *t)
{
    for (uint32_t i = 0; i < t->load->count; i++) {
        const kiln__array *array = &t->load->arrays[i];
        const kiln_arg *given = &t->work->args[t->load->at[i]];
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
static kiln_status save_values(trial *t)
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

/* Fills the arrays that are only written, and then gives those that are read their values again: an output may be one
 * of them. */
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

static kiln_status run_trial(trial *t, unsigned char poison)
{
    kiln_status status = prepare(t, poison);
    return status == KILN_OK ? run_timed(t->device, submit_launch, t, t->report) : status;
}

/* Nothing else computes the same: a second launch on memory with another poison. Elements that are not written
 * differ. */
static kiln_status check_twice(trial *t, kiln__verdict *out)
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
        status = run_trial(t, OTHER_POISON);
    for (uint32_t i = 0; i < t->load->count && status == KILN_OK; i++)
        if (first[i] != NULL)
            status = compare_chunks(out, t->device, &t->load->arrays[i], t->data[i], first[i], false,
                                    t->load->arrays[i].elements, &out->tolerance, t->report);
    for (uint32_t i = 0; i < t->load->count; i++)
        kiln__free(first[i]);
    return status;
}

/* The tolerance that applies: the host's, or else the template's. Whole numbers have none. */
static kiln_tolerance choose_tolerance(const kiln_tolerance *given, const kiln_spec *spec, const kiln__load *load)
{
    static const kiln_tolerance exact = KILN_INIT(kiln_tolerance);
    bool applies = false;
    for (uint32_t i = 0; i < load->count; i++)
        applies |= load->arrays[i].written && kiln__array_is_real(&load->arrays[i]);
    if (given == NULL && spec != NULL)
        given = &spec->fields.template->tolerance;
    return applies && given != NULL ? *given : exact;
}

kiln_status kiln__verify_launch(kiln__verdict *out, kiln__load *load, kiln_service *service, const kiln_kernel *kernel,
                                const kiln_grid *grid, const kiln_work *work, const kiln_tolerance *tolerance,
                                kiln_report *report)
{
    kiln_spec *spec = NULL;
    trial t = {
        .kernel = kernel, .grid = grid, .work = work, .device = kernel->device, .load = load, .report = report
    };
    *out = (kiln__verdict){ .against = "", .bound = -1 };
    kiln_status status = kiln__service_check_device(service, kernel->device, report);
    if (status == KILN_OK)
        status = kernel->plan != NULL ? kiln__load_of_plan(load, kernel->plan, work, true, report)
                                      : take_source_arrays(load, work, report);
    if (status == KILN_OK && kernel->plan != NULL)
        status = kiln__spec_parse(&spec, &service->catalog, kernel->spec, report);
    if (status == KILN_OK) {
        out->tolerance = choose_tolerance(tolerance, spec, load);
        status = take_arrays(&t);
    }
    if (status == KILN_OK)
        status = save_values(&t);
    if (status == KILN_OK)
        status = run_trial(&t, KILN__FILL_POISON);
    if (status == KILN_OK && spec != NULL && name_reference(&spec->fields, load, t.device) != NULL) {
        checking c = { .service = service,
                       .device = t.device,
                       .load = load,
                       .spec = &spec->fields,
                       .most = UINT64_MAX,
                       .tolerance = &out->tolerance,
                       .definition = true,
                       .out = out,
                       .report = report };
        for (uint32_t i = 0; i < load->count; i++) {
            c.before[i] = c.after[i] = t.data[i];
            c.saved[i] = t.saved[i];
        }
        status = compare_with_cpu(&c);
    } else if (status == KILN_OK) {
        status = check_twice(&t, out);
    }
    for (uint32_t i = 0; i < KILN__ARGS_MAX; i++)
        kiln__free(t.saved[i]);
    kiln__spec_release(spec);
    return status;
}

static void say_value(char *out, size_t size, const kiln__array *array, uint64_t bits)
{
    kiln__dtype dtype = array->type;
    int digits = 2 * (int)array->size;
    kiln__fpenv host;
    kiln__fpenv_enter(&host);
    if (!kiln__dtype_is_real(dtype))
        snprintf(out, size, "0x%0*" PRIx64, digits, bits);
    else
        snprintf(out, size, "0x%0*" PRIx64 " (%.17g)", digits, bits, kiln__dtype_value(&bits, 0, dtype));
    kiln__fpenv_leave(&host);
}

kiln_status kiln__verify_refuse(const kiln__verdict *verdict, const char *spec, kiln_report *report)
{
    char got[64], want[64];
    const kiln__array *array = verdict->array;
    if (array != NULL) {
        say_value(got, sizeof(got), array, verdict->got);
        say_value(want, sizeof(want), array, verdict->want);
        return kiln__fail(report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0,
                          "%s is not equal to %s: %" PRIu64 " elements differ%s, the first is element %" PRIu64
                          " of %s: it is %s, should be %s",
                          spec, verdict->against, verdict->wrong,
                          kiln__excess_of(&verdict->tolerance, verdict->bounded).text, verdict->first, array->name, got,
                          want);
    }
    if (verdict->bound < 0 || verdict->worst <= verdict->bound)
        return KILN_OK;
    return kiln__fail(report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0,
                      "%s: element %" PRIu64 " is %.17g, %.3g ulp from the reference %.17g: the definition allows %.3g",
                      spec, verdict->worst_at, verdict->worst_got, verdict->worst, verdict->worst_want, verdict->bound);
}
