#include "bench/benchset.h"

#include <inttypes.h>
#include <kiln/tune.h>
#include <stdlib.h>
#include <string.h>

#include "bench/benchmemory.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "kernels/paired.h"
#include "kernels/prove.h"
#include "kernels/signature.h"
#include "kernels/submit.h"
#include "text/format.h"
#include "text/spectext.h"

enum { WARMUP = 3, AGAIN = 1000 };

static const uint64_t gpu_elements = UINT64_C(1) << 28, cpu_elements = UINT64_C(1) << 24;

typedef struct adder {
    struct benchset *set;
    struct session *session;
    int status;
} adder;

static kiln_status time_gets(bench_case *one, struct session *session, const kiln_spec *spec)
{
    double start = now_seconds();
    kiln_status status = kiln_get_kernel(&one->kernel, session->service, spec, &session->report);
    one->first_get_ms = (now_seconds() - start) * 1e3;
    start = now_seconds();
    for (int i = 0; i < AGAIN && !status; i++) {
        kiln_kernel *again = NULL;
        status = kiln_get_kernel(&again, session->service, spec, &session->report);
        kiln_kernel_release(again);
    }
    one->again_us = (now_seconds() - start) * 1e6 / AGAIN;
    return status;
}

/* Whether its arrays are such as are made here. */
static int settle_arrays(bench_case *one)
{
    char *name = NULL;
    kernel_takes takes = signature_takes(one->info.signature);
    spectext_field(&name, one->info.spec, "dtype");
    one->type = name ? dtype_named(name) : NULL;
    one->inputs = takes.in;
    free(name);
    if (!one->type)
        return fail(STATUS_FAILED, "no known dtype in '%s'", one->info.spec);
    if (!takes_plain_of(&takes, one->type->name))
        return fail(STATUS_USAGE,
                    "'%s' cannot be benchmarked: kiln bench takes kernels that read 1 to %d arrays of n elements and "
                    "write another, all of the spec's dtype; kiln sweep takes others",
                    one->info.spec, SIGNATURE_MOST_INPUTS);
    return STATUS_DONE;
}

static int add_case(void *data, const kiln_spec *spec)
{
    adder *adder_data = data;
    struct benchset *set = adder_data->set;
    struct session *session = adder_data->session;
    set->cases = need_array(set->cases, set->count + 1, sizeof(*set->cases));
    bench_case *one = &set->cases[set->count++];
    *one = (bench_case){ .info = KILN_INIT(kiln_kernel_info) };
    kiln_status status = time_gets(one, session, spec);
    if (!status)
        status = kiln_kernel_get_info(one->kernel, &one->info);
    if (!status)
        status = kiln_device_open(&one->device, session->service, one->info.device, &session->report);
    if (status) {
        adder_data->status = session_fail(session, status, NULL);
        return 1;
    }
    adder_data->status = settle_arrays(one);
    return adder_data->status != STATUS_DONE;
}

int benchset_add(struct benchset *set, struct session *session, const char *line)
{
    adder adder_data = { .set = set, .session = session };
    kiln_status status = kiln_spec_expand(session->service, line, add_case, &adder_data, &session->report);
    return status ? session_fail(session, status, NULL) : adder_data.status;
}

static bool is_cpu(const bench_case *one)
{
    return strcmp(one->info.device, "cpu") == 0;
}

static int prove_case(const struct benchset *set, struct session *session, bench_case *one,
                      const struct benchmemory *memory)
{
    const prove_job proof = { one->kernel, &one->info, one->type, one->elements };
    const char *against;
    int result = prove_kernel(&proof, session, memory, set->verify ? &against : NULL);
    one->verified = set->verify && result == STATUS_DONE;
    return result;
}

static void find_quartiles(bench_case *out, const double *samples, size_t contenders, uint32_t rounds, size_t which)
{
    double *times = need_array(NULL, rounds, sizeof(*times));
    for (uint32_t r = 0; r < rounds; r++)
        times[r] = samples[r * contenders + which];
    qsort(times, rounds, sizeof(*times), paired_order);
    out->low_ms = times[(rounds - 1) / 4];
    out->high_ms = times[rounds - 1 - (rounds - 1) / 4];
    free(times);
}

static void keep_results(struct benchset *set, size_t group, const kiln_timing *timings, const double *samples,
                         size_t contenders)
{
    bench_ceiling *ceiling = &set->ceilings[group];
    size_t copy = contenders - 2, kernel = contenders - 1, k = 0;
    size_t best = timings[copy].median_ms <= timings[kernel].median_ms ? copy : kernel;
    for (size_t i = 0; i < set->count; i++) {
        if (set->cases[i].group != group)
            continue;
        set->cases[i].timing = timings[k];
        set->cases[i].ratio = paired_ratio(samples, contenders, set->rounds, k, best).median;
        find_quartiles(&set->cases[i], samples, contenders, set->rounds, k);
        k++;
    }
    ceiling->memcpy = timings[copy];
    ceiling->kernel = timings[kernel];
    ceiling->memcpy_ratio = paired_ratio(samples, contenders, set->rounds, copy, best).median;
    ceiling->kernel_ratio = paired_ratio(samples, contenders, set->rounds, kernel, best).median;
}

static kiln_status measure_group(struct benchset *set, struct session *session, size_t group,
                                 const struct benchmemory *memory, kiln_kernel *copy_kernel)
{
    size_t contenders = 0;
    kiln_contender *list = need_array(NULL, set->count + 2, sizeof(*list));
    launch_job *jobs = need_array(NULL, set->count + 1, sizeof(*jobs));
    kiln_report *report = &session->report;
    const void *from[1] = { memory->copy_from };
    for (size_t i = 0; i < set->count; i++) {
        const bench_case *one = &set->cases[i];
        if (one->group != group)
            continue;
        jobs[contenders] = (launch_job){ one->kernel,
                                         one->elements,
                                         memory->out,
                                         (const void *const *)memory->in,
                                         signature_inputs(one->info.signature),
                                         report };
        list[contenders] = (kiln_contender){ submit_launch, &jobs[contenders] };
        contenders++;
    }
    copy_job copy = { memory->device, memory->copy_to, memory->copy_from, memory->copy_bytes, report };
    jobs[contenders] = (launch_job){ copy_kernel, memory->copy_bytes / 4, memory->copy_to, from, 1, report };
    list[contenders] = (kiln_contender){ submit_copy, &copy };
    list[contenders + 1] = (kiln_contender){ submit_launch, &jobs[contenders] };
    contenders += 2;
    kiln_timing *timings = need_array(NULL, contenders, sizeof(*timings));
    double *samples = need_array(NULL, contenders * set->rounds, sizeof(*samples));
    const kiln_measure_options options = {
        .size = sizeof(options), .warmup = WARMUP, .rounds = set->rounds, .replay = 1, .samples = samples
    };
    kiln_status status = kiln_measure(timings, memory->device, list, contenders, &options, report);
    if (!status)
        keep_results(set, group, timings, samples, contenders);
    free(samples);
    free(timings);
    free(jobs);
    free(list);
    return status;
}

static int run_group(struct benchset *set, struct session *session, size_t group, bench_case *first)
{
    struct benchmemory memory;
    kiln_kernel *copy_kernel = NULL;
    kiln_status status = KILN_OK;
    int result = benchmemory_make(&memory, session, first->device, first->type, first->inputs, first->elements);
    set->ceilings[group].example = first;
    set->ceilings[group].reused = memory.reused;
    for (size_t i = 0; i < set->count && !result; i++)
        if (set->cases[i].group == group)
            result = prove_case(set, session, &set->cases[i], &memory);
    if (!result)
        status = prove_copy_kernel(&copy_kernel, session, first->info.spec);
    if (!result && !status)
        status = measure_group(set, session, group, &memory, copy_kernel);
    if (status)
        result = session_fail(session, status, NULL);
    kiln_kernel_release(copy_kernel);
    benchmemory_free(&memory);
    return result;
}

static bool same_group(const bench_case *a, const bench_case *b)
{
    return a->device == b->device && a->type == b->type && a->inputs == b->inputs && a->elements == b->elements;
}

/* A case for each size of each kernel, by size. */
static void spread_sizes(struct benchset *set)
{
    size_t kernels = set->count, sizes = set->sizes.count ? set->sizes.count : 1;
    bench_case *all = need_array(NULL, kernels * sizes, sizeof(*all));
    for (size_t i = 0; i < kernels * sizes; i++) {
        all[i] = set->cases[i % kernels];
        all[i].line = i % kernels;
        all[i].elements = set->sizes.count  ? set->sizes.items[i / kernels]
                          : is_cpu(&all[i]) ? cpu_elements
                                            : gpu_elements;
        all[i].bytes = all[i].elements * all[i].type->size * (all[i].inputs + 1);
        if (i >= kernels)
            kiln_kernel_retain(all[i].kernel);
    }
    free(set->cases);
    set->cases = all;
    set->count = kernels * sizes;
}

static void form_groups(struct benchset *set)
{
    spread_sizes(set);
    for (size_t i = 0; i < set->count; i++) {
        bench_case *one = &set->cases[i];
        one->group = set->groups;
        for (size_t j = 0; j < i && one->group == set->groups; j++)
            if (same_group(&set->cases[j], one))
                one->group = set->cases[j].group;
        if (one->group == set->groups)
            set->groups++;
    }
    set->ceilings = need_alloc(set->groups * sizeof(*set->ceilings));
}

/* Drops what was not measured before an interrupt. */
static void keep_groups(struct benchset *set, size_t groups)
{
    size_t kept = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (set->cases[i].group >= groups)
            kiln_kernel_release(set->cases[i].kernel);
        else
            set->cases[kept++] = set->cases[i];
    }
    set->count = kept;
    set->groups = groups;
}

static size_t first_of(const struct benchset *set, size_t group)
{
    size_t first = 0;
    while (set->cases[first].group != group)
        first++;
    return first;
}

int benchset_run(struct benchset *set, struct session *session)
{
    int result = STATUS_DONE;
    size_t group = 0;
    struct progress progress;
    form_groups(set);
    progress_start(&progress, set->groups, false);
    for (; group < set->groups && !result && !interrupt_seen(); group++) {
        if (set->groups > 1)
            progress_show(&progress, group, 0);
        result = run_group(set, session, group, &set->cases[first_of(set, group)]);
    }
    progress_end();
    keep_groups(set, group);
    for (size_t i = 0; i < set->groups; i++)
        set->ceilings[i].example = &set->cases[first_of(set, i)];
    return result;
}

void benchset_free(struct benchset *set)
{
    for (size_t i = 0; i < set->count; i++)
        kiln_kernel_release(set->cases[i].kernel);
    free(set->cases);
    free(set->ceilings);
    *set = (struct benchset){ .cases = NULL };
}
