#include "watchmeasure.h"

#include <kiln/define.h>
#include <kiln/tune.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "prove.h"
#include "spectext.h"
#include "submit.h"

enum { WARMUP = 3, ROUNDS = 30, CONTENDERS = 4, FRESH = 0, COPY = 1, COPY_KERNEL = 2, OLD = 3 };

static const uint64_t gpu_elements = UINT64_C(1) << 26, cpu_elements = UINT64_C(1) << 22;

/* ---- Whether the kernel before may be run on the arrays of this one */

/* The next argument that no formula gives; false at the end. */
static bool next_argument(const kiln_kernel *kernel, uint32_t *at, kiln_arg_info *out)
{
    out->size = sizeof(*out);
    while (kiln_kernel_arg(kernel, (*at)++, out) == KILN_OK)
        if (out->role != KILN_ARG_FORMULA)
            return true;
    return false;
}

static bool same_shape(const kiln_kernel *a, uint32_t i, const kiln_kernel *b, uint32_t k, const uint64_t *sizes)
{
    uint64_t mine[4] = { 0 }, theirs[4] = { 0 };
    return kiln_kernel_shape(a, i, sizes, mine, NULL) == KILN_OK &&
           kiln_kernel_shape(b, k, sizes, theirs, NULL) == KILN_OK && memcmp(mine, theirs, sizeof(mine)) == 0;
}

/* Whether kernels with arguments of their own take the same ones at these sizes. */
static bool same_own(const kiln_kernel *a, const kiln_kernel *b, const uint64_t *sizes)
{
    kiln_arg_info mine, theirs;
    uint32_t i = 0, k = 0;
    for (uint32_t s = 0; kiln_kernel_size(a, s) || kiln_kernel_size(b, s); s++)
        if (!kiln_kernel_size(a, s) || !kiln_kernel_size(b, s) ||
            strcmp(kiln_kernel_size(a, s), kiln_kernel_size(b, s)) != 0)
            return false;
    for (;;) {
        bool more = next_argument(a, &i, &mine);
        if (next_argument(b, &k, &theirs) != more)
            return false;
        if (!more)
            return true;
        if (mine.role != theirs.role || strcmp(mine.type, theirs.type) != 0 || mine.dims != theirs.dims ||
            (mine.role != KILN_ARG_SCALAR && !same_shape(a, i - 1, b, k - 1, sizes)))
            return false;
    }
}

static bool has_own(const kiln_kernel *kernel)
{
    kiln_arg_info info = { .size = sizeof(info) };
    return kiln_kernel_arg(kernel, 0, &info) == KILN_OK;
}

/* `sizes` are those of a kernel with arguments of its own. */
static bool same_arguments(const kiln_kernel *a, const kiln_kernel *b, const uint64_t *sizes)
{
    kiln_kernel_info mine = { .size = sizeof(mine) }, theirs = { .size = sizeof(theirs) };
    char *type = NULL, *other = NULL;
    kiln_kernel_get_info(a, &mine);
    kiln_kernel_get_info(b, &theirs);
    if (strcmp(mine.device, theirs.device) != 0 || has_own(a) != has_own(b))
        return false;
    if (has_own(a))
        return same_own(a, b, sizes);
    bool same = mine.inputs == theirs.inputs && mine.output_bytes == theirs.output_bytes &&
                spectext_field(&type, mine.spec, "dtype") && spectext_field(&other, theirs.spec, "dtype") &&
                strcmp(type, other) == 0;
    free(type);
    free(other);
    return same;
}

/* ---- Times */

/* The new kernel, two copies, and the kernel before, as what kiln_measure_launches times; the last may be left out. */
static kiln_status time_all(watched *one, kiln_device *device, const kiln_contender list[CONTENDERS], bool old,
                            uint64_t bytes, kiln_report *report)
{
    kiln_timing timings[CONTENDERS];
    size_t count = old ? CONTENDERS : CONTENDERS - 1;
    double *samples = need_array(NULL, count * ROUNDS, sizeof(*samples)), former = one->spec ? one->ms : 0;
    kiln_status status = kiln_measure_launches(device, list, count, WARMUP, ROUNDS, timings, samples, report);
    if (!status) {
        size_t best = timings[COPY].median_ms <= timings[COPY_KERNEL].median_ms ? COPY : COPY_KERNEL;
        one->other_arguments = one->good && !old;
        one->ms = timings[FRESH].median_ms;
        one->gbps = gigabytes_per_second(bytes, one->ms);
        one->copy_ratio = paired_ratio(samples, count, ROUNDS, best, FRESH).median;
        one->old_ms = old ? timings[OLD].median_ms : one->other_arguments ? former : 0;
        if (old)
            one->change = paired_ratio(samples, count, ROUNDS, FRESH, OLD);
    }
    free(samples);
    return status;
}

/* ---- Kernels of out, inputs and n */

static kiln_status measure_plain(const watch_job *job, watched *one, const prove_job *proof,
                                 const struct benchmemory *memory)
{
    kiln_kernel *copy_kernel = NULL;
    const void *from[1] = { memory->copy_from };
    kiln_report *report = &job->base->report;
    const void *const *in = (const void *const *)memory->in;
    kiln_status status = prove_copy_kernel(&copy_kernel, job->base, proof->info->spec);
    if (status)
        return status;
    launch_job fresh = { proof->kernel, proof->elements, memory->out, in, report };
    launch_job old = { one->good, proof->elements, memory->out, in, report };
    launch_job plain = { copy_kernel, memory->copy_bytes / 4, memory->copy_to, from, report };
    copy_job copy = { memory->device, memory->copy_to, memory->copy_from, memory->copy_bytes, report };
    const kiln_contender list[CONTENDERS] = { [FRESH] = { submit_launch, &fresh },
                                              [COPY] = { submit_copy, &copy },
                                              [COPY_KERNEL] = { submit_launch, &plain },
                                              [OLD] = { submit_launch, &old } };
    uint64_t bytes = proof->elements * proof->type->size * (proof->info->inputs + 1);
    bool again = one->good && same_arguments(one->good, proof->kernel, NULL);
    status = time_all(one, memory->device, list, again, bytes, report);
    kiln_release(copy_kernel);
    return status;
}

/* On an array of the base session's device, which all versions share. */
static int try_plain(const watch_job *job, watched *one, const prove_job *proof)
{
    struct benchmemory memory = { .device = NULL };
    kiln_device *device = NULL;
    kiln_status status = kiln_device_open(&device, job->base->service, proof->info->device, &job->base->report);
    if (status)
        return session_fail(job->base, status, NULL);
    int result = benchmemory_make(&memory, job->base, device, proof->type, proof->info->inputs, proof->elements);
    if (!result)
        result = prove_kernel(proof, job->session, &memory, job->checkable);
    if (!result && (status = measure_plain(job, one, proof, &memory)))
        result = session_fail(job->base, status, one->asked);
    benchmemory_free(&memory);
    one->verified = job->checkable ? "yes" : "no reference";
    return result;
}

/* ---- Kernels with arguments of their own */

typedef struct args_job {
    kiln_kernel *kernel;
    const kiln_workload_info *load;
    kiln_report *report;
} args_job;

static kiln_status submit_args(void *data, void *stream)
{
    const args_job *job = data;
    return kiln_launch_args(job->kernel, job->load->sizes, job->load->size_count, job->load->args, job->load->arg_count,
                            stream, job->report);
}

/* Memory for copies of half the traffic, so that they make as much. */
static kiln_status make_copies(copy_job *out, kiln_device *device, uint64_t traffic, kiln_report *report)
{
    void *from = NULL;
    *out = (copy_job){ .device = device, .bytes = traffic / 2 / 4 * 4, .report = report };
    if (out->bytes == 0)
        out->bytes = 4;
    kiln_status status = kiln_alloc(&from, device, out->bytes, report);
    out->from = from;
    if (!status)
        status = kiln_alloc(&out->to, device, out->bytes, report);
    return status ? status : kiln_fill(device, from, "f32", out->bytes / 4, 1, report);
}

static kiln_status measure_own(const watch_job *job, watched *one, kiln_kernel *kernel, kiln_device *device,
                               const kiln_workload_info *load)
{
    kiln_report *report = &job->session->report;
    kiln_kernel_info info = { .size = sizeof(info) };
    kiln_kernel *copy_kernel = NULL;
    copy_job copy;
    kiln_kernel_get_info(kernel, &info);
    kiln_status status = make_copies(&copy, device, load->bytes, report);
    if (!status)
        status = prove_copy_kernel(&copy_kernel, job->session, info.spec);
    const void *from[1] = { copy.from };
    args_job fresh = { kernel, load, report }, old = { one->good, load, report };
    launch_job plain = { copy_kernel, copy.bytes / 4, copy.to, from, report };
    const kiln_contender list[CONTENDERS] = { [FRESH] = { submit_args, &fresh },
                                              [COPY] = { submit_copy, &copy },
                                              [COPY_KERNEL] = { submit_launch, &plain },
                                              [OLD] = { submit_args, &old } };
    bool again = one->good && same_arguments(one->good, kernel, load->sizes);
    if (!status)
        status = time_all(one, device, list, again, load->bytes, report);
    kiln_release(copy_kernel);
    kiln_free(device, (void *)(uintptr_t)copy.from);
    kiln_free(device, copy.to);
    return status;
}

/* On arrays of the present session's device: the cpu twin of this text is its own. */
static int try_own(watch_job *job, watched *one, kiln_kernel *kernel, const arg_values *values)
{
    kiln_report *report = &job->session->report;
    kiln_kernel_info info = { .size = sizeof(info) };
    kiln_workload_info load = { .size = sizeof(load) };
    kiln_workload *workload = NULL;
    kiln_device *device = NULL;
    const char *against = NULL;
    kiln_kernel_get_info(kernel, &info);
    kiln_status status = kiln_device_open(&device, job->session->service, info.device, report);
    if (!status)
        status = kiln_workload_make(&workload, job->session->service, kernel, values->sizes, values->size_count,
                                    values->args, values->arg_count, report);
    if (!status)
        status = kiln_workload_check(workload, &against, report);
    if (!status)
        status = kiln_workload_reset(workload, report);
    if (!status)
        status = kiln_workload_get_info(workload, &load);
    if (!status)
        status = measure_own(job, one, kernel, device, &load);
    kiln_workload_free(workload);
    job->elements = load.elements;
    one->verified = against && strcmp(against, "the default variant") != 0 ? "yes" : "same twice";
    return status ? session_fail(job->session, status, one->asked) : STATUS_DONE;
}

/* ---- One kernel */

/* Takes a reference to the kernel. */
static void keep(watch_job *job, watched *one, kiln_kernel *kernel, const kiln_kernel_info *info)
{
    one->old_registers = one->spec ? one->registers : -1;
    one->registers = info->registers;
    kiln_release(one->good);
    one->good = kiln_retain(kernel);
    free(one->spec);
    one->spec = need_copy(info->spec);
    one->fresh = true;
    free(job->device);
    job->device = need_copy(info->device);
}

static void leave_untimed(watched *one, const char *why)
{
    one->ms = one->old_ms = 0;
    one->other_arguments = false;
    one->verified = why;
}

/* Without sizes nobody knows what to run it on. */
static int measure_with_sizes(watch_job *job, watched *one, kiln_kernel *kernel, const char *spec_text)
{
    const arg_texts *texts = &job->args->texts;
    arg_values values;
    kiln_spec *spec = NULL;
    kiln_status status = kiln_spec_parse(&spec, job->session->service, spec_text, &job->session->report);
    if (status)
        return session_fail(job->session, status, one->asked);
    char *problem = argvalues_read(&values, spec, texts);
    bool named = texts->sizes.count > 0 || texts->numbers.count > 0;
    int result = STATUS_DONE;
    kiln_spec_free(spec);
    if (!problem)
        result = try_own(job, one, kernel, &values);
    else if (named)
        result = fail(STATUS_USAGE, "%s", problem);
    else
        leave_untimed(one, "not run: no --size");
    free(problem);
    return result;
}

static int measure_elements(watch_job *job, watched *one, kiln_kernel *kernel, const kiln_kernel_info *info)
{
    char *type = NULL;
    const uint64_t usual = strcmp(info->device, "cpu") == 0 ? cpu_elements : gpu_elements;
    uint64_t named = 0;
    const arg_texts *texts = &job->args->texts;
    if (texts->numbers.count > 0)
        return fail(STATUS_USAGE, "--arg %s: the template takes no numbers", texts->numbers.items[0]);
    if (texts->sizes.count > 1)
        return fail(STATUS_USAGE, "--size is given %zu times; expected one --size N", texts->sizes.count);
    if (texts->sizes.count == 1 && !parse_size(&named, texts->sizes.items[0]))
        return fail(STATUS_USAGE, "--size %s: the template declares no sizes; expected --size N",
                    texts->sizes.items[0]);
    spectext_field(&type, info->spec, "dtype");
    const prove_job proof = { kernel, info, type ? dtype_named(type) : NULL, named ? named : usual };
    free(type);
    job->elements = proof.elements;
    if (!info->output_bytes && proof.type)
        return try_plain(job, one, &proof);
    leave_untimed(one, "not run"); /* its arrays are not those that are made here */
    return STATUS_DONE;
}

int watchmeasure(watch_job *job, watched *one, kiln_kernel *kernel)
{
    kiln_kernel_info info = { .size = sizeof(info) };
    kiln_kernel_get_info(kernel, &info);
    int result =
        has_own(kernel) ? measure_with_sizes(job, one, kernel, info.spec) : measure_elements(job, one, kernel, &info);
    if (!result)
        keep(job, one, kernel, &info);
    return result;
}
