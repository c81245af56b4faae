#include "runargs.h"

#include <inttypes.h>
#include <kiln/define.h>
#include <stdlib.h>
#include <string.h>

#include "argvalues.h"
#include "dtype.h"
#include "format.h"
#include "npy.h"
#include "output.h"

enum { ROUNDS = 20, WARMUP = 3, POISON = 0xa5, TWIN_POISON = 0x5a };

/* An argument that is passed: an array, or a number. */
typedef struct slot {
    kiln_arg_info info;
    uint32_t index;  /* among the kernel's */
    npy_array array; /* of an array: its file or, made by the kernel, its shape */
    void *host, *device;
    uint64_t number; /* the bytes of a number */
} slot;

struct job {
    const runargs *args;
    kiln_kernel *kernel;
    kiln_kernel_info info;
    kiln_device *device;
    kiln_device_info device_info;
    slot slots[ARGVALUES_ARGS];
    uint32_t slot_count;
    slot *result; /* the one array that is written */
    const char *size_names[ARGVALUES_SIZES];
    uint64_t sizes[ARGVALUES_SIZES];
    bool bound[ARGVALUES_SIZES];
    uint32_t size_count;
    kiln_arg given[ARGVALUES_ARGS];
    kiln_timing timing;
    uint64_t bytes;
    uint64_t verified;
    const char *against;
    bool differs;
    struct output output;
};

static int refused(const struct job *job, kiln_status status)
{
    return session_fail(job->args->session, status, NULL);
}

static int settle_dtype(const struct job *job, const npy_array *first)
{
    char named[16] = "";
    const dtype *natural = dtype_of_descr(first->descr);
    kiln_report *report = &job->args->session->report;
    kiln_status status = kiln_spec_get(job->args->spec, "dtype", named, sizeof(named), NULL);
    if (!status && !named[0] && natural)
        status = kiln_spec_set(job->args->spec, "dtype", natural->name, report);
    return status ? refused(job, status) : STATUS_DONE;
}

static int get_kernel(struct job *job)
{
    struct session *session = job->args->session;
    kiln_status status = kiln_get(&job->kernel, session->service, job->args->spec, &session->report);
    job->info.size = sizeof(job->info);
    job->device_info.size = sizeof(job->device_info);
    if (!status)
        status = kiln_kernel_get_info(job->kernel, &job->info);
    if (!status)
        status = kiln_device_open(&job->device, session->service, job->info.device, &session->report);
    if (!status)
        status = kiln_device_get_info(job->device, &job->device_info);
    for (const char *name; !status && (name = kiln_kernel_size(job->kernel, job->size_count));)
        job->size_names[job->size_count++] = name;
    return status ? refused(job, status) : STATUS_DONE;
}

static bool reads(const slot *s)
{
    return s->info.role == KILN_ARG_IN || s->info.role == KILN_ARG_INOUT;
}

/* The slots in the kernel's order, each input with its file. */
static int make_slots(struct job *job, const npy_array *files, size_t count)
{
    size_t used = 0, results = 0;
    kiln_arg_info info = { .size = sizeof(info) };
    for (uint32_t i = 0; kiln_kernel_arg(job->kernel, i, &info) == KILN_OK; i++) {
        if (info.role == KILN_ARG_FORMULA)
            continue;
        slot *s = &job->slots[job->slot_count++];
        *s = (slot){ .info = info, .index = i, .array = { .fd = -1 } };
        if (reads(s) && used < count)
            s->array = files[used];
        used += reads(s);
        if (info.role == KILN_ARG_OUT || info.role == KILN_ARG_INOUT) {
            job->result = s;
            results++;
        }
    }
    if (used != count)
        return fail(STATUS_USAGE, "the kernel reads %zu array%s, %zu given; give --in once for each", used,
                    used == 1 ? "" : "s", count);
    if (results != 1)
        return fail(STATUS_USAGE, "the kernel writes %zu arrays: kiln run can write one", results);
    return STATUS_DONE;
}

/* How .npy files call a type; NULL for those that they are not read with here. */
static const char *descr_of(const char *type)
{
    const dtype *real = dtype_named(type);
    return real ? real->descr : strcmp(type, "uint16") == 0 ? "<u2" : NULL;
}

static int bind_size(struct job *job, const slot *s, uint32_t dim)
{
    for (uint32_t i = 0; i < job->size_count; i++) {
        if (strcmp(s->info.shape[dim], job->size_names[i]) != 0)
            continue;
        if (job->bound[i] && job->sizes[i] != s->array.shape[dim])
            return fail(STATUS_USAGE, "%s: %s is %" PRIu64 " here, and %" PRIu64 " in an input before", s->array.path,
                        job->size_names[i], s->array.shape[dim], job->sizes[i]);
        job->sizes[i] = s->array.shape[dim];
        job->bound[i] = true;
    }
    return STATUS_DONE;
}

/* Sizes that are given, which inputs may have, too. */
static int take_sizes(struct job *job)
{
    const text_list *given = job->args->sizes;
    size_t used = 0;
    for (uint32_t i = 0; i < job->size_count; i++) {
        const char *text = argvalues_find(given, job->size_names[i], &used);
        uint64_t value = 0;
        if (text && !parse_size(&value, text))
            return fail(STATUS_USAGE, "--size %s=%s is not a size", job->size_names[i], text);
        if (text && job->bound[i] && job->sizes[i] != value)
            return fail(STATUS_USAGE, "--size %s=%s: it is %" PRIu64 " in an input", job->size_names[i], text,
                        job->sizes[i]);
        if (!text && !job->bound[i])
            return fail(STATUS_USAGE, "size %s is the extent of no input: give --size %s=N", job->size_names[i],
                        job->size_names[i]);
        job->sizes[i] = text ? value : job->sizes[i];
    }
    if (used != given->count)
        return fail(STATUS_USAGE, "%zu of the sizes of --size are none that the kernel has, or are given twice",
                    given->count - used);
    return STATUS_DONE;
}

static int bind_sizes(struct job *job)
{
    int status = STATUS_DONE;
    for (uint32_t i = 0; i < job->slot_count && !status; i++) {
        const slot *s = &job->slots[i];
        if (!reads(s))
            continue;
        const char *descr = descr_of(s->info.type);
        if (!descr || strcmp(descr, s->array.descr) != 0)
            return fail(STATUS_USAGE, "%s: has dtype %s, and argument %s is %s%s%s", s->array.path, s->array.descr,
                        s->info.name, s->info.type, descr ? ", in a file " : "", descr ? descr : "");
        if (s->array.dimensions != s->info.dims)
            return fail(STATUS_USAGE, "%s: has %u dimensions, and argument %s has %u", s->array.path,
                        s->array.dimensions, s->info.name, s->info.dims);
        for (uint32_t d = 0; d < s->info.dims && !status; d++)
            status = bind_size(job, s, d);
    }
    return status ? status : take_sizes(job);
}

/* Checks the inputs' shapes against the declared ones and gives the result its own. */
static int settle_shapes(struct job *job)
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        slot *s = &job->slots[i];
        uint64_t shape[4] = { 0 };
        kiln_status status = s->info.role == KILN_ARG_SCALAR ? KILN_OK
                                                             : kiln_kernel_shape(job->kernel, s->index, job->sizes,
                                                                                 shape, &job->args->session->report);
        if (status)
            return refused(job, status);
        for (uint32_t d = 0; reads(s) && d < s->info.dims; d++)
            if (shape[d] != s->array.shape[d])
                return fail(STATUS_USAGE, "%s: dimension %u is %" PRIu64 ", and %s = %" PRIu64 " is declared",
                            s->array.path, d, s->array.shape[d], s->info.shape[d], shape[d]);
        if (s->info.role != KILN_ARG_OUT)
            continue;
        s->array = (npy_array){ .path = job->args->out, .fd = -1, .dimensions = s->info.dims, .elements = 1 };
        if (!descr_of(s->info.type))
            return fail(STATUS_USAGE, "argument %s is an array of %s, which kiln run does not write", s->info.name,
                        s->info.type);
        memcpy(s->array.descr, descr_of(s->info.type), sizeof(s->array.descr));
        for (uint32_t d = 0; d < s->info.dims; d++) {
            s->array.shape[d] = shape[d];
            if (__builtin_mul_overflow(s->array.elements, shape[d], &s->array.elements))
                return fail(STATUS_FAILED, "the result is larger than any memory");
        }
        s->array.bytes = s->array.elements * s->info.bytes;
    }
    return STATUS_DONE;
}

/* `value` is what stands behind "NAME=", or NULL. */
static int settle_number(slot *s, const char *value)
{
    bool is_number = false, fits = value && argvalues_number(&s->number, &is_number, &s->info, value);
    if (!is_number)
        return fail(STATUS_USAGE, "argument %s is a number of type %s: give --arg %s=%s", s->info.name, s->info.type,
                    s->info.name, value ? "VALUE that is one" : "VALUE");
    if (!fits)
        return fail(STATUS_USAGE, "--arg %s=%s: does not fit %s, the type of the argument", s->info.name, value,
                    s->info.type);
    return STATUS_DONE;
}

static int settle_numbers(struct job *job)
{
    const text_list *numbers = job->args->numbers;
    size_t used = 0;
    for (uint32_t i = 0; i < job->slot_count; i++) {
        slot *s = &job->slots[i];
        if (s->info.role != KILN_ARG_SCALAR)
            continue;
        int status = settle_number(s, argvalues_find(numbers, s->info.name, &used));
        if (status)
            return status;
    }
    if (used != numbers->count)
        return fail(STATUS_USAGE, "%zu of the numbers of --arg are none that the kernel takes, or are given twice",
                    numbers->count - used);
    return STATUS_DONE;
}

static kiln_status place(struct job *job, slot *s)
{
    kiln_report *report = &job->args->session->report;
    kiln_status status = kiln_alloc(&s->device, job->device, s->array.bytes ? s->array.bytes : 1, report);
    if (!status && s->array.bytes)
        status = kiln_copy(job->device, s->device, s->host, s->array.bytes, KILN_COPY_TO_DEVICE, NULL, report);
    return status;
}

static int load(struct job *job)
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        slot *s = &job->slots[i];
        if (s->info.role == KILN_ARG_SCALAR) {
            job->given[i] = (kiln_arg){ &s->number, s->info.bytes };
            continue;
        }
        s->host = malloc(s->array.bytes ? s->array.bytes : 1);
        if (!s->host)
            return fail(STATUS_FAILED, "no memory for the %" PRIu64 " bytes of %s", s->array.bytes, s->info.name);
        memset(s->host, POISON, s->array.bytes);
        int status = reads(s) ? npy_read(&s->array, s->host) : STATUS_DONE;
        if (status)
            return status;
        kiln_status placed = place(job, s);
        if (placed)
            return refused(job, placed);
        job->given[i] = (kiln_arg){ s->device, s->array.bytes };
        job->bytes += s->array.bytes;
    }
    return STATUS_DONE;
}

static kiln_status submit(void *data, void *stream)
{
    struct job *job = data;
    return kiln_launch_args(job->kernel, job->sizes, job->size_count, job->given, job->slot_count, stream,
                            &job->args->session->report);
}

/* The result is taken after the first launch: a kernel may change what it reads. */
static int launch(struct job *job)
{
    kiln_report *report = &job->args->session->report;
    kiln_contender contender = { submit, job };
    double start = now_seconds();
    kiln_status status = submit(job, NULL);
    if (!status)
        status = kiln_sync(job->device, report);
    job->timing.median_ms = 1e3 * (now_seconds() - start);
    if (!status && job->result->array.bytes)
        status = kiln_copy(job->device, job->result->host, job->result->device, job->result->array.bytes,
                           KILN_COPY_FROM_DEVICE, NULL, report);
    if (!status && job->args->wishes.time)
        status = kiln_measure(job->device, &contender, 1, WARMUP, ROUNDS, &job->timing, NULL, report);
    return status ? refused(job, status) : STATUS_DONE;
}

struct reset {
    kiln_spec *spec;
    const char *name;
};

static int unset_parameters(void *data, const kiln_template_info *info)
{
    const struct reset *reset = data;
    for (uint32_t i = info->param_count; i > 0 && strcmp(info->name, reset->name) == 0; i--)
        kiln_spec_set(reset->spec, info->params[i - 1].name, NULL, NULL);
    return 0;
}

/* The twin's result, on memory of the host: a result of the cpu's own has nothing else to be compared with. */
static kiln_status compute_twin(struct job *job, void *want)
{
    struct session *session = job->args->session;
    kiln_arg given[ARGVALUES_ARGS];
    kiln_spec *spec = NULL;
    kiln_kernel *twin = NULL;
    char name[256] = "";
    kiln_status status = kiln_spec_parse(&spec, session->service, job->info.spec, &session->report);
    if (!status)
        status = kiln_spec_get(spec, "template", name, sizeof(name), NULL);
    struct reset reset = { spec, name };
    if (!status)
        status = kiln_templates(session->service, unset_parameters, &reset);
    if (!status)
        status = kiln_spec_set(spec, "target", "cpu", &session->report);
    if (!status)
        status = kiln_get(&twin, session->service, spec, &session->report);
    for (uint32_t i = 0; i < job->slot_count && !status; i++) {
        given[i] = job->given[i];
        if (job->slots[i].info.role != KILN_ARG_SCALAR)
            given[i].data = &job->slots[i] == job->result ? want : job->slots[i].host;
    }
    if (!status)
        status = kiln_launch_args(twin, job->sizes, job->size_count, given, job->slot_count, NULL, &session->report);
    kiln_release(twin);
    kiln_spec_free(spec);
    return status;
}

static bool both_nan(const dtype *type, const void *a, const void *b, uint64_t i)
{
    return type && dtype_is_nan(type, dtype_bits(type, a, i)) && dtype_is_nan(type, dtype_bits(type, b, i));
}

static int compare(struct job *job, const void *want)
{
    const slot *s = job->result;
    const dtype *type = dtype_named(s->info.type);
    const char *mine = s->host, *theirs = want;
    size_t size = s->info.bytes;
    bool equal = memcmp(mine, theirs, s->array.bytes) == 0;
    for (uint64_t i = 0; i < s->array.elements && !equal; i++) {
        job->differs = memcmp(mine + i * size, theirs + i * size, size) != 0 && !both_nan(type, mine, theirs, i);
        if (job->differs)
            return fail(STATUS_FAILED, "not equal to the cpu twin: element %" PRIu64 " differs first", i);
    }
    job->verified = s->array.elements;
    job->against = "the cpu twin";
    return STATUS_DONE;
}

static int verify(struct job *job)
{
    if (strcmp(job->info.device, "cpu") == 0)
        return fail(STATUS_USAGE, "the cpu twin itself has run: --verify compares a GPU's result with it");
    if (job->result->info.role == KILN_ARG_INOUT)
        return fail(STATUS_USAGE, "argument %s is read and written: kiln run cannot verify that",
                    job->result->info.name);
    uint64_t bytes = job->result->array.bytes;
    void *want = malloc(bytes ? bytes : 1);
    if (!want)
        return fail(STATUS_FAILED, "no memory to verify with");
    memset(want, TWIN_POISON, bytes); /* so that what neither computes is not equal */
    kiln_status status = compute_twin(job, want);
    int result = status ? refused(job, status) : compare(job, want);
    free(want);
    return result;
}

/* "rows=3 cols=4"; freed by the caller. */
static char *sizes_text(const struct job *job)
{
    char *text = need_copy("");
    for (uint32_t i = 0; i < job->size_count; i++) {
        char *longer = need_format("%s%s%s=%" PRIu64, text, i == 0 ? "" : " ", job->size_names[i], job->sizes[i]);
        free(text);
        text = longer;
    }
    return text;
}

static int give(struct job *job, int status)
{
    char *sizes = sizes_text(job);
    const run_result result = { .wishes = job->args->wishes,
                                .array = &job->result->array,
                                .data = job->result->host,
                                .service = job->args->session->service,
                                .kernel = &job->info,
                                .device = &job->device_info,
                                .sizes = *sizes ? sizes : NULL,
                                .ms = job->timing.median_ms,
                                .bytes = job->bytes,
                                .verified = job->verified,
                                .against = job->against,
                                .differs = job->differs };
    if (!status)
        status = output_open(&job->output, job->args->out, result.array->bytes);
    status = run_result_give(&result, &job->output, status);
    free(sizes);
    return status;
}

static int run(struct job *job, const npy_array *files, size_t count)
{
    int status = settle_dtype(job, &files[0]);
    if (!status)
        status = get_kernel(job);
    if (!status)
        status = make_slots(job, files, count);
    if (!status)
        status = bind_sizes(job);
    if (!status)
        status = settle_shapes(job);
    if (!status)
        status = settle_numbers(job);
    if (!status)
        status = load(job);
    if (!status)
        status = launch(job);
    if (!status && job->args->wishes.verify)
        status = verify(job);
    return job->result ? give(job, status) : status;
}

static void free_job(struct job *job)
{
    for (uint32_t i = 0; i < job->slot_count; i++) {
        free(job->slots[i].host);
        if (job->slots[i].device)
            kiln_free(job->device, job->slots[i].device);
    }
    output_close(&job->output);
    kiln_release(job->kernel);
}

int runargs_run(const runargs *args)
{
    npy_array files[ARGVALUES_ARGS];
    struct job job = { .args = args, .output = { .fd = -1 } };
    size_t count = 0;
    int status = args->in->count > ARGVALUES_ARGS
                     ? fail(STATUS_USAGE, "%zu inputs given, at most %d can be read", args->in->count, ARGVALUES_ARGS)
                     : STATUS_DONE;
    while (!status && count < args->in->count) {
        status = npy_open(&files[count], args->in->items[count]);
        count++;
    }
    if (!status)
        status = run(&job, files, count);
    free_job(&job);
    for (size_t i = 0; i < count; i++)
        npy_close(&files[i]);
    return status;
}
