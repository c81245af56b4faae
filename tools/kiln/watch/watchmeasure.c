#include "watch/watchmeasure.h"

#include <kiln/tune.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/prove.h"
#include "kernels/signature.h"
#include "kernels/submit.h"
#include "text/format.h"
#include "text/spectext.h"

enum { WARMUP = 3, ROUNDS = 30, CONTENDERS = 4, FRESH = 0, COPY = 1, COPY_KERNEL = 2, OLD = 3 };

static const uint64_t gpu_elements = UINT64_C(1) << 26, cpu_elements = UINT64_C(1) << 22;

/* ---- Whether the kernel before may be run on the arrays of this one */

/* The next argument that no formula gives; false at the end. *at is the index behind it. */
static bool next_argument(const kiln_signature *signature, uint32_t *at, const kiln_param **out)
{
    while (*at < signature->param_count) {
        *out = signature->params[(*at)++];
        if ((*out)->role != KILN_ROLE_FORMULA)
            return true;
    }
    return false;
}

static bool same_sizes(const kiln_signature *a, const kiln_signature *b)
{
    bool same = a->size_count == b->size_count;
    for (size_t i = 0; i < a->size_count && same; i++)
        same = strcmp(a->sizes[i], b->sizes[i]) == 0;
    return same;
}

static bool same_shape(const kiln_signature *a, uint32_t i, const kiln_signature *b, uint32_t k, const uint64_t *sizes)
{
    uint64_t mine[KILN_DIMS_MAX], theirs[KILN_DIMS_MAX];
    return kiln_signature_shape(mine, a, i, sizes, a->size_count, NULL) == KILN_OK &&
           kiln_signature_shape(theirs, b, k, sizes, b->size_count, NULL) == KILN_OK &&
           memcmp(mine, theirs, sizeof(mine)) == 0;
}

/* Whether kernels take the same arguments at these sizes. */
static bool same_signature(const kiln_signature *a, const kiln_signature *b, const uint64_t *sizes)
{
    const kiln_param *mine = NULL, *theirs = NULL;
    uint32_t i = 0, k = 0;
    if (!same_sizes(a, b))
        return false;
    for (;;) {
        bool more = next_argument(a, &i, &mine);
        if (next_argument(b, &k, &theirs) != more)
            return false;
        if (!more)
            return true;
        if (mine->role != theirs->role || strcmp(mine->type, theirs->type) != 0 || mine->dims != theirs->dims ||
            (mine->dims > 0 && !same_shape(a, i - 1, b, k - 1, sizes)))
            return false;
    }
}

/* Whether it is launched on arrays of the spec's dtype, which are made here (signature.h). */
static bool is_plain(const kiln_kernel_info *info)
{
    kernel_takes takes = signature_takes(info->signature);
    char *type = NULL;
    bool plain = spectext_field(&type, info->spec, "dtype") && dtype_named(type) && takes_plain_of(&takes, type);
    free(type);
    return plain;
}

/* `sizes` are those of kernels that are not plain. */
static bool same_arguments(const kiln_kernel *a, const kiln_kernel *b, const uint64_t *sizes)
{
    kiln_kernel_info mine = { .size = sizeof(mine) }, theirs = { .size = sizeof(theirs) };
    kiln_kernel_get_info(a, &mine);
    kiln_kernel_get_info(b, &theirs);
    if (strcmp(mine.device, theirs.device) != 0 || is_plain(&mine) != is_plain(&theirs))
        return false;
    if (!is_plain(&mine))
        return same_signature(mine.signature, theirs.signature, sizes);
    kernel_takes here = signature_takes(mine.signature), there = signature_takes(theirs.signature);
    return here.in == there.in && strcmp(here.type, there.type) == 0;
}

/* ---- Times */

/* The new kernel, two copies, and the kernel before, as what kiln_measure times; the last may be left out. */
static kiln_status time_all(watched *one, kiln_device *device, const kiln_contender list[CONTENDERS], bool old,
                            uint64_t bytes, kiln_report *report)
{
    kiln_timing timings[CONTENDERS];
    size_t count = old ? CONTENDERS : CONTENDERS - 1;
    double *samples = need_array(NULL, count * ROUNDS, sizeof(*samples)), former = one->spec ? one->ms : 0;
    const kiln_measure_options options = {
        .size = sizeof(options), .warmup = WARMUP, .rounds = ROUNDS, .replay = 1, .samples = samples
    };
    kiln_status status = kiln_measure(timings, device, list, count, &options, report);
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

/* ---- Plain kernels */

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
    const size_t inputs = signature_inputs(proof->info->signature);
    launch_job fresh = { proof->kernel, proof->elements, memory->out, in, inputs, report };
    launch_job old = { one->good, proof->elements, memory->out, in, inputs, report };
    launch_job plain = { copy_kernel, memory->copy_bytes / 4, memory->copy_to, from, 1, report };
    copy_job copy = { memory->device, memory->copy_to, memory->copy_from, memory->copy_bytes, report };
    const kiln_contender list[CONTENDERS] = { [FRESH] = { submit_launch, &fresh },
                                              [COPY] = { submit_copy, &copy },
                                              [COPY_KERNEL] = { submit_launch, &plain },
                                              [OLD] = { submit_launch, &old } };
    uint64_t bytes = proof->elements * proof->type->size * (signature_inputs(proof->info->signature) + 1);
    bool again = one->good && same_arguments(one->good, proof->kernel, NULL);
    status = time_all(one, memory->device, list, again, bytes, report);
    kiln_kernel_release(copy_kernel);
    return status;
}

/* Two launches that agree tell less than one that agrees with the cpu. */
static const char *verified_word(const char *against)
{
    return strcmp(against, "a second launch") == 0 ? "same twice" : "yes";
}

/* On an array of the base session's device, which all versions share. */
static int try_plain(const watch_job *job, watched *one, const prove_job *proof)
{
    struct benchmemory memory = { .device = NULL };
    kiln_device *device = NULL;
    const char *against = "";
    kiln_status status = kiln_device_open(&device, job->base->service, proof->info->device, &job->base->report);
    if (status)
        return session_fail(job->base, status, NULL);
    uint32_t inputs = signature_inputs(proof->info->signature);
    int result = benchmemory_make(&memory, job->base, device, proof->type, inputs, proof->elements);
    if (!result)
        result = prove_kernel(proof, job->session, &memory, &against);
    if (!result && (status = measure_plain(job, one, proof, &memory)))
        result = session_fail(job->base, status, one->asked);
    benchmemory_free(&memory);
    one->verified = verified_word(against);
    return result;
}

/* ---- Other kernels */

typedef struct args_job {
    kiln_kernel *kernel;
    const kiln_workload_info *load;
    kiln_report *report;
} args_job;

static kiln_status submit_args(void *data, void *stream)
{
    const args_job *job = data;
    return kiln_launch(job->kernel, NULL, job->load->sizes, job->load->size_count, job->load->args,
                       job->load->arg_count, stream, job->report);
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
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    kiln_kernel *copy_kernel = NULL;
    copy_job copy;
    kiln_kernel_get_info(kernel, &info);
    kiln_status status = make_copies(&copy, device, load->bytes, report);
    if (!status)
        status = prove_copy_kernel(&copy_kernel, job->session, info.spec);
    const void *from[1] = { copy.from };
    args_job fresh = { kernel, load, report }, old = { one->good, load, report };
    launch_job plain = { copy_kernel, copy.bytes / 4, copy.to, from, 1, report };
    const kiln_contender list[CONTENDERS] = { [FRESH] = { submit_args, &fresh },
                                              [COPY] = { submit_copy, &copy },
                                              [COPY_KERNEL] = { submit_launch, &plain },
                                              [OLD] = { submit_args, &old } };
    bool again = one->good && same_arguments(one->good, kernel, load->sizes);
    if (!status)
        status = time_all(one, device, list, again, load->bytes, report);
    kiln_kernel_release(copy_kernel);
    kiln_free(device, (void *)(uintptr_t)copy.from);
    kiln_free(device, copy.to);
    return status;
}

/* On arrays of the present session's device: the cpu twin of this text is its own. */
static int try_own(watch_job *job, watched *one, kiln_kernel *kernel, const arg_values *values)
{
    kiln_report *report = &job->session->report;
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    kiln_workload_info load = KILN_INIT(kiln_workload_info);
    const kiln_work work = argvalues_work(values);
    kiln_workload *workload = NULL;
    kiln_device *device = NULL;
    kiln_verification found = KILN_INIT(kiln_verification);
    kiln_kernel_get_info(kernel, &info);
    kiln_status status = kiln_device_open(&device, job->session->service, info.device, report);
    if (!status)
        status = kiln_workload_make(&workload, job->session->service, kernel, &work, report);
    if (!status)
        status = kiln_workload_get_info(workload, &load);
    if (!status)
        status = kiln_verify(&found, job->session->service, kernel, NULL, load.sizes, load.size_count, load.args,
                             load.arg_count, 0, report);
    if (!status)
        status = kiln_workload_reset(workload, report);
    if (!status)
        status = measure_own(job, one, kernel, device, &load);
    kiln_workload_free(workload);
    job->elements = load.elements;
    one->verified = verified_word(found.against ? found.against : "");
    return status ? session_fail(job->session, status, one->asked) : STATUS_DONE;
}

/* ---- One kernel */

/* Takes a reference to the kernel. */
static void keep(watch_job *job, watched *one, kiln_kernel *kernel, const kiln_kernel_info *info)
{
    one->old_registers = one->spec ? one->registers : -1;
    one->registers = info->registers;
    kiln_kernel_release(one->good);
    one->good = kiln_kernel_retain(kernel);
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

static uint64_t usual_elements(const kiln_kernel_info *info)
{
    return strcmp(info->device, "cpu") == 0 ? cpu_elements : gpu_elements;
}

/* Without sizes nobody knows what to run it on, unless it is flat. */
static int measure_with_sizes(watch_job *job, watched *one, kiln_kernel *kernel, const kiln_kernel_info *info)
{
    const arg_texts *texts = &job->args->texts;
    arg_values values;
    kiln_spec *spec = NULL;
    kiln_status status = kiln_spec_parse(&spec, job->session->service, info->spec, &job->session->report);
    if (status)
        return session_fail(job->session, status, one->asked);
    char *problem = argvalues_read(&values, spec, texts);
    bool named = texts->sizes.count > 0 || texts->numbers.count > 0;
    int result = STATUS_DONE;
    if (!problem && !argvalues_wanted(spec) && !values.elements)
        values.elements = usual_elements(info);
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
    uint64_t named = 0;
    const arg_texts *texts = &job->args->texts;
    if (texts->numbers.count > 0)
        return fail(STATUS_USAGE, "--arg %s: the template takes no numbers", texts->numbers.items[0]);
    if (texts->sizes.count > 1)
        return fail(STATUS_USAGE, "--size is given %zu times; expected one --size N", texts->sizes.count);
    if (texts->sizes.count == 1 && !argvalues_elements(&named, info->signature->sizes[0], texts->sizes.items[0]))
        return fail(STATUS_USAGE, "--size %s: the template has the size %s alone; expected --size N",
                    texts->sizes.items[0], info->signature->sizes[0]);
    kernel_takes takes = signature_takes(info->signature);
    const prove_job proof = { kernel, info, dtype_named(takes.type), named ? named : usual_elements(info) };
    job->elements = proof.elements;
    return try_plain(job, one, &proof);
}

int watchmeasure(watch_job *job, watched *one, kiln_kernel *kernel)
{
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    kiln_kernel_get_info(kernel, &info);
    int result =
        is_plain(&info) ? measure_elements(job, one, kernel, &info) : measure_with_sizes(job, one, kernel, &info);
    if (!result)
        keep(job, one, kernel, &info);
    return result;
}
