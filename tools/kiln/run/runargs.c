#include "run/runargs.h"

#include <inttypes.h>
#include <kiln/kernel.h>
#include <stdlib.h>
#include <string.h>

#include "files/npy.h"
#include "files/output.h"
#include "kernels/argvalues.h"
#include "kernels/verify.h"
#include "run/runslots.h"
#include "run/specchange.h"
#include "text/dtype.h"
#include "text/format.h"

enum { ROUNDS = 20, WARMUP = 3, POISON = 0xa5 };

struct job {
    const runargs *args;
    kiln_kernel *kernel;
    kiln_kernel_info info;
    kiln_device *device;
    kiln_device_info device_info;
    run_slots slots;
    kiln_arg given[ARGVALUES_ARGS];
    kiln_timing timing;
    uint64_t bytes;
    verified_launch verified;
    struct output output;
};

static int refused(const struct job *job, kiln_status status)
{
    return session_fail(job->args->session, status, NULL);
}

static int settle_dtype(const struct job *job, const npy_array *first)
{
    const dtype *natural = dtype_of_descr(first->descr);
    kiln_report *report = &job->args->session->report;
    kiln_status status = KILN_OK;
    if (!*kiln_spec_field(*job->args->spec, "dtype") && natural)
        status = spec_set(job->args->spec, "dtype", natural->name, report);
    return status ? refused(job, status) : STATUS_DONE;
}

static int get_kernel(struct job *job)
{
    struct session *session = job->args->session;
    kiln_status status = kiln_get_kernel(&job->kernel, session->service, *job->args->spec, &session->report);
    job->info.size = sizeof(job->info);
    job->device_info.size = sizeof(job->device_info);
    if (!status)
        status = kiln_kernel_get_info(job->kernel, &job->info);
    if (!status)
        status = kiln_device_open(&job->device, session->service, job->info.device, &session->report);
    if (!status)
        status = kiln_device_get_info(job->device, &job->device_info);
    return status ? refused(job, status) : STATUS_DONE;
}

static kiln_status place(struct job *job, run_slot *s)
{
    kiln_report *report = &job->args->session->report;
    kiln_status status = kiln_alloc(&s->device, job->device, s->array.bytes ? s->array.bytes : 1, report);
    if (!status && s->array.bytes)
        status = kiln_upload(job->device, s->device, s->host, s->array.bytes, report);
    return status;
}

static int load(struct job *job)
{
    for (uint32_t i = 0; i < job->slots.count; i++) {
        run_slot *s = &job->slots.slots[i];
        if (s->info.role == KILN_ROLE_SCALAR) {
            job->given[i] = runslots_given(s, NULL);
            continue;
        }
        s->host = malloc(s->array.bytes ? s->array.bytes : 1);
        if (!s->host)
            return fail(STATUS_FAILED, "no memory for the %" PRIu64 " bytes of %s", s->array.bytes, s->info.name);
        memset(s->host, POISON, s->array.bytes);
        int status = runslots_reads(s) ? npy_read(&s->array, s->host) : STATUS_DONE;
        if (status)
            return status;
        kiln_status placed = place(job, s);
        if (placed)
            return refused(job, placed);
        job->given[i] = runslots_given(s, s->device);
        job->bytes += s->array.bytes;
    }
    return STATUS_DONE;
}

static kiln_status submit(void *data, void *stream)
{
    struct job *job = data;
    const run_slots *slots = &job->slots;
    return kiln_launch(job->kernel, NULL, slots->sizes, slots->size_count, job->given, slots->count, stream,
                       &job->args->session->report);
}

static int verify(struct job *job)
{
    return verify_launch(&job->verified, job->args->session, job->kernel, job->slots.sizes, job->slots.size_count,
                         job->given, job->slots.count);
}

static kiln_status launch_once(struct job *job)
{
    double start = now_seconds();
    kiln_status status = submit(job, NULL);
    if (!status)
        status = kiln_sync(job->device, &job->args->session->report);
    job->timing.median_ms = 1e3 * (now_seconds() - start);
    return status;
}

/* The result is taken after the first launch: a kernel may change what it reads. */
static int launch(struct job *job)
{
    kiln_report *report = &job->args->session->report;
    kiln_contender contender = { submit, job };
    const kiln_measure_options options = { .size = sizeof(options), .warmup = WARMUP, .rounds = ROUNDS };
    const run_slot *result = job->slots.result;
    bool verifies = job->args->wishes.verify;
    int verdict = verifies ? verify(job) : STATUS_DONE;
    if (verdict)
        return verdict;
    kiln_status status = verifies ? KILN_OK : launch_once(job);
    if (!status && result->array.bytes)
        status = kiln_download(job->device, result->host, result->device, result->array.bytes, report);
    if (!status && job->args->wishes.time)
        status = kiln_measure(&job->timing, job->device, &contender, 1, &options, report);
    else if (!status && verifies)
        status = launch_once(job);
    return status ? refused(job, status) : STATUS_DONE;
}

/* "rows=3 cols=4"; freed by the caller. */
static char *sizes_text(const run_slots *slots)
{
    char *text = need_copy("");
    for (uint32_t i = 0; i < slots->size_count; i++) {
        char *longer = need_format("%s%s%s=%" PRIu64, text, i == 0 ? "" : " ", slots->size_names[i], slots->sizes[i]);
        free(text);
        text = longer;
    }
    return text;
}

static int give(struct job *job, int status)
{
    char *sizes = sizes_text(&job->slots);
    const run_result result = { .wishes = job->args->wishes,
                                .array = &job->slots.result->array,
                                .data = job->slots.result->host,
                                .service = job->args->session->service,
                                .kernel = &job->info,
                                .device = &job->device_info,
                                .sizes = *sizes ? sizes : NULL,
                                .ms = job->timing.median_ms,
                                .bytes = job->bytes,
                                .verified = job->args->wishes.verify ? &job->verified : NULL };
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
        status = runslots_settle(&job->slots, job->info.signature, job->args, files, count);
    if (!status)
        status = load(job);
    if (!status)
        status = launch(job);
    return job->slots.result ? give(job, status) : status;
}

static void free_job(struct job *job)
{
    for (uint32_t i = 0; i < job->slots.count; i++) {
        const run_slot *s = &job->slots.slots[i];
        free(s->host);
        if (s->device)
            kiln_free(job->device, s->device);
    }
    output_close(&job->output);
    kiln_kernel_release(job->kernel);
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
