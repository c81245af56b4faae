/* kiln bench: kernels measured against each other and against the speed of a plain copy. Kernels of one device that
 * take the same arguments are a group: they share arrays and are timed in the same rounds, with two copies. Most
 * kernels read one to three arrays of n elements and write another; the arrays of others are a workload. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "commands.h"
#include "files/npy.h"
#include "kernels/argvalues.h"
#include "kernels/built.h"
#include "kernels/crash.h"
#include "kernels/trial.h"
#include "plot/results.h"
#include "text/csv.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/spectext.h"
#include "text/table.h"

enum {
    ROUNDS = 30,
    CPU_ROUNDS = 120,
    CPU_SMALL = 256 << 20 /* bytes */,
    WARMUP = 3,
    GETS = 1000,
    MOST_INPUTS = 3,
    SIZES_MAX = 64
};

static const uint64_t gpu_elements = UINT64_C(1) << 28, cpu_elements = UINT64_C(1) << 24;

typedef struct bench_args {
    text_list specs, size;
    arg_texts texts; /* the sizes by name among those of --size, and the numbers */
    const char *csv, *plot;
    bool no_verify;
    uint32_t rounds;
    common_args common;
} bench_args;

typedef struct bench_case {
    kiln_kernel *kernel;
    kiln_kernel_info info;
    kiln_device_info device_info;
    const dtype *type; /* of the arrays of a plain one */
    const char *types; /* the spec's dtype */
    uint32_t inputs;
    bool plain;         /* reads one to three arrays of n elements of the spec's dtype and writes another */
    bool flat;          /* takes a number of elements */
    arg_values *values; /* sizes and numbers as they are given */
    const char *question;
    const char *against; /* the results were compared with it; NULL: they were not */
    kiln_device *device;
    double first_get_ms; /* the first kiln_get of it, wherever it came from */
    double again_us;     /* a kiln_get of the loaded kernel */
    uint64_t elements;
    uint64_t bytes; /* read and written */
    kiln_timing timing;
    double low_ms, high_ms; /* a quarter of the rounds was faster, a quarter slower */
    double ratio;           /* to the group's ceiling */
    size_t group;
} bench_case;

typedef struct bench_copy {
    kiln_timing timing;
    double ratio; /* to the faster copy */
} bench_copy;

/* The two copies of the same traffic as a kernel of the group: by the device and by a kernel. */
typedef struct bench_ceiling {
    bench_copy copies[2];
    size_t best;
    const bench_case *example;
    bool reused; /* memory was short: the copies used the kernels' arrays */
} bench_ceiling;

static const char *const copy_names[] = { "memory copy", "copy kernel" };

typedef struct bench_set {
    struct session *session;
    const bench_args *args;
    bench_case *cases;
    size_t count;
    bench_ceiling *ceilings; /* one for each group */
    size_t groups;
    uint64_t sizes[SIZES_MAX]; /* from the least on, each once; none: one that suits the device */
    size_t size_count;
    int status; /* of the spec that was added last */
    struct results results;
} bench_set;

static const struct usage usage = {
    "kiln bench SPEC... [--size N|AxB|LIST|NAME=N]... [--arg NAME=VALUE]... [--rounds N] [--no-verify]\n"
    "                  [--csv FILE] [--plot PICTURE] [options]",
    "Measures kernels on random values made on the device, after checking every result against the cpu backend\n"
    "bit for bit or within the bounds of its functions. The ratio is the time over that of a copy of the same\n"
    "traffic: the better of the device's own memory copy and a plain copy kernel, timed in the same rounds.\n"
    "Fields may be lists and ranges: block=64..1024*2. N may be 1048576, 2^20 or 64M; sizes multiply:\n"
    "4096x393216. LIST is several sizes: 1M,4M or 2^10..2^28 or 2^10..2^30*4. Kernels that take a GPU less than\n"
    "20 us are replayed from a graph, so that their time is not the host's time for launches. Ctrl-C between two\n"
    "sizes ends the command with the results so far. A template whose arrays are not all of one size takes its sizes\n"
    "by name, or all in order as AxB, and the numbers that are given at launch; results are compared with its cpu\n"
    "twin, or with a second launch.",
    "  kiln bench 'op=hardsigmoid dtype=f32' --size 4096x393216\n"
    "  kiln bench 'op=add dtype=f16 block=128,256,512' --device cpu --size 16M\n"
    "  kiln bench 'op=hardsigmoid,relu6 dtype=f32' --size 2^10..2^28 --plot speed.svg\n"
    "  kiln bench 'op=softmax dtype=f32' --size 32768x4096\n"
    "  kiln bench transpose.cu height=4,8,16 --size rows=8192 --size cols=4096",
};

/* ---- The command line */

/* Sizes by name are for argvalues_read, as are those of one text that is no list; a list counts elements. */
static void parse_size_options(bench_args *args, bench_set *set)
{
    bool named = false;
    for (size_t i = 0; i < args->size.count; i++) {
        const char *text = args->size.items[i];
        if (strchr(text, '=')) {
            text_list_add(&args->texts.sizes, text);
            named = true;
            continue;
        }
        if (set->size_count > 0)
            options_refuse(&usage, "--size is given twice; expected a list, such as 1M,4M");
        set->size_count = parse_sizes(set->sizes, COUNT_OF(set->sizes), text);
        if (set->size_count == 0)
            options_refuse(&usage, "--size %s is not a size; expected 2^20, 64M, 4096x393216, 1M,4M or 2^10..2^28",
                           text);
        if (set->size_count == 1)
            text_list_add(&args->texts.sizes, text);
    }
    if (set->size_count > 0 && named)
        options_refuse(&usage, "--size with a name and --size without one exclude each other");
}

static void parse_args(bench_args *args, bench_set *set, int argc, char **argv)
{
    const option_row rows[] = {
        { "size", 's', OPTION_LIST, "N|NAME=N",
          "elements, or a list; default 2^28 on a GPU, 2^24 on the cpu; or a size", &args->size },
        { "arg", 0, OPTION_LIST, "NAME=VALUE", "a scalar of the op, or a number of a template", &args->texts.numbers },
        { "rounds", 'r', OPTION_NUMBER, "N", "timed rounds; default 30, on the cpu 120 for up to 256 MiB",
          &args->rounds },
        { "no-verify", 0, OPTION_FLAG, NULL, "do not check the results first", &args->no_verify },
        { "csv", 0, OPTION_TEXT, "FILE", "write a row for each spec and size, - for stdout", &args->csv },
        { "plot", 0, OPTION_TEXT, "PICTURE", "draw speed by size; FILE.svg, FILE.png or FILE.pdf", &args->plot },
    };
    text_list words = { NULL, 0 };
    options_parse(&usage, OPTION_ROWS(rows), &args->common, &words, argc, argv);
    words_specs(&args->specs, &usage, &words, 0);
    parse_size_options(args, set);
    results_check(&usage, args->csv, args->plot, args->common.json);
}

/* ---- Cases */

static kiln_status time_gets(bench_case *one, struct session *session, const kiln_spec *spec)
{
    double start = now_seconds();
    kiln_status status = kiln_get_kernel(&one->kernel, session->service, spec, &session->report);
    one->first_get_ms = (now_seconds() - start) * 1e3;
    start = now_seconds();
    for (int i = 0; i < GETS && !status; i++) {
        kiln_kernel *again = NULL;
        status = kiln_get_kernel(&again, session->service, spec, &session->report);
        kiln_kernel_release(again);
    }
    one->again_us = (now_seconds() - start) * 1e6 / GETS;
    return status;
}

/* Reads the sizes and numbers of a kernel, before it is compiled. */
static int read_values(bench_case *one, const bench_set *set, const kiln_spec *spec)
{
    one->values = need_alloc(sizeof(*one->values));
    one->flat = spec_is_flat(spec);
    const char *problem = argvalues_read(one->values, spec, &set->args->texts);
    return problem ? options_wrong(&usage, "%s", problem) : STATUS_DONE;
}

static int settle_arrays(bench_case *one)
{
    kernel_takes takes = signature_takes(one->info.signature);
    one->types = spectext_field(one->info.spec, "dtype");
    one->inputs = takes.in;
    if (!one->types)
        return fail(STATUS_FAILED, "no dtype in '%s'", one->info.spec);
    one->plain = takes.flat && !one->values->has_numbers && takes.one_type && strcmp(takes.type, one->types) == 0 &&
                 takes.out == 1 && takes.inout == 0 && takes.in > 0 && takes.in <= MOST_INPUTS;
    one->type = one->plain ? dtype_named(one->types) : NULL;
    return STATUS_DONE;
}

static int add_case(void *data, const kiln_spec *spec)
{
    bench_set *set = data;
    set->cases = need_array(set->cases, set->count + 1, sizeof(*set->cases));
    bench_case *one = &set->cases[set->count++];
    *one = (bench_case){ .kernel = NULL };
    set->status = read_values(one, set, spec);
    if (set->status)
        return set->status;
    kiln_spec *sized = argvalues_sized(spec, one->values);
    one->question = crash_question(set->session->service, spec);
    kiln_status status = time_gets(one, set->session, sized ? sized : spec);
    kiln_spec_free(sized);
    if (!status) {
        one->info = kernel_info(one->kernel);
        status = session_device(&one->device, &one->device_info, set->session, one->info.device);
    }
    set->status = status ? session_status(set->session, status, NULL) : settle_arrays(one);
    return set->status;
}

static uint64_t usual_elements(const bench_case *one)
{
    return strcmp(one->info.device, "cpu") == 0 ? cpu_elements : gpu_elements;
}

/* Makes a case for each size of each kernel, by size. Of a kernel that takes its sizes by name, and so one of each, the
 * arrays tell how many elements there are. */
static void spread_sizes(bench_set *set)
{
    size_t kernels = set->count, sizes = set->size_count ? set->size_count : 1;
    set->count = kernels * sizes;
    bench_case *all = need_array(NULL, set->count, sizeof(*all));
    for (size_t i = 0; i < set->count; i++) {
        all[i] = set->cases[i % kernels];
        uint64_t named = all[i].flat ? all[i].values->sizes[0] : 0;
        all[i].elements = set->size_count ? set->sizes[i / kernels] : named ? named : usual_elements(&all[i]);
        all[i].bytes = all[i].plain ? all[i].elements * all[i].type->size * (all[i].inputs + 1) : 0;
        if (i >= kernels)
            kiln_kernel_retain(all[i].kernel);
    }
    set->cases = all;
}

/* Whether two cases can share their arrays. */
static bool is_like(const bench_case *one, const bench_case *other)
{
    if (other->device != one->device || strcmp(other->types, one->types) != 0 || other->elements != one->elements ||
        other->plain != one->plain || other->flat != one->flat)
        return false;
    return one->plain
               ? other->inputs == one->inputs
               : kernels_take_the_same(one->kernel, other->kernel, one->flat ? &one->elements : one->values->sizes);
}

static void form_groups(bench_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        bench_case *one = &set->cases[i];
        one->group = set->groups;
        for (size_t k = 0; k < i && one->group == set->groups; k++)
            if (is_like(one, &set->cases[k]))
                one->group = set->cases[k].group;
        set->groups += one->group == set->groups;
    }
    set->ceilings = need_alloc(set->groups * sizeof(*set->ceilings));
}

/* ---- Memory */

typedef struct bench_memory {
    kiln_device *device;
    void *arena, *extra;
    void *in[MOST_INPUTS];
    void *out;
    kiln_workload *workload; /* instead of these arrays, where the kernels take others; NULL: they do not */
    kiln_workload_info load;
    copy_job copy;
} bench_memory;

/* Arrays begin at whole pages of the GPU, as an allocator would place each of them. */
static const uint64_t page = 2 << 20;

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + page - 1) / page * page;
}

static int refuse_size(const bench_case *one, uint64_t usable)
{
    uint64_t need = 0;
    if (__builtin_mul_overflow(one->elements, one->type->size * (one->inputs + 1), &need))
        need = UINT64_MAX;
    return fail(STATUS_FAILED,
                "%" PRIu64 " elements do not fit: %s has %s of memory to take, and the arrays need %s; name a smaller "
                "--size",
                one->elements, one->device_info.name, format_bytes(usable), format_bytes(need));
}

/* Takes the kernel's arrays as one block and, where there is room, as much again for the copies. */
static int take_memory(bench_memory *memory, struct session *session, const bench_case *one, bool *reused)
{
    kiln_device_info now = KILN_INIT(kiln_device_info);
    kiln_device_get_info(one->device, &now);
    uint64_t bytes = 0, whole = 0, usable = (now.free_bytes ? now.free_bytes : now.memory_bytes) / 10 * 9;
    if (__builtin_mul_overflow(one->elements, one->type->size, &bytes) || bytes > UINT64_C(1) << 60)
        return refuse_size(one, usable);
    uint64_t slot = round_up(bytes);
    if (__builtin_mul_overflow(slot, one->inputs + 1, &whole) || whole > usable || whole > SIZE_MAX / 2)
        return refuse_size(one, usable);
    kiln_status status = kiln_alloc(&memory->arena, one->device, whole, &session->report);
    if (status)
        return status == KILN_ENOMEM ? refuse_size(one, usable) : session_status(session, status, NULL);
    *reused =
        whole + 2 * page > usable - whole || kiln_alloc(&memory->extra, one->device, whole + 2 * page, NULL) != KILN_OK;
    if (*reused)
        memory->extra = NULL;
    char *arrays = memory->arena, *copies = *reused ? arrays : memory->extra;
    for (uint32_t i = 0; i < one->inputs; i++)
        memory->in[i] = arrays + i * slot;
    memory->out = arrays + one->inputs * slot;
    memory->copy.from = copies;
    memory->copy.to = copies + (*reused ? whole / 2 : round_up(whole / 2));
    return STATUS_DONE;
}

/* The copies move real values too: memory full of zeros is faster on some chips. */
static kiln_status fill_inputs(const bench_memory *memory, struct session *session, const bench_case *one)
{
    kiln_status status = KILN_OK;
    kiln_report *report = &session->report;
    uint64_t bytes = one->elements * one->type->size, all = memory->extra ? memory->copy.bytes : 0;
    for (uint32_t i = 0; i < one->inputs && !status; i++)
        status = kiln_fill(one->device, memory->in[i], one->type->name, one->elements, i + 1, report);
    for (uint64_t done = 0; done < all && !status; done += bytes)
        status = kiln_copy(one->device, (char *)(uintptr_t)memory->copy.from + done, memory->in[0],
                           all - done < bytes ? all - done : bytes, NULL, report);
    return status ? status : kiln_sync(one->device, report);
}

/* Makes the arrays of other kernels, and half of their traffic again for each side of the copies. */
static kiln_status make_workload(bench_memory *memory, struct session *session, const bench_case *one)
{
    kiln_report *report = &session->report;
    kiln_work work = argvalues_work(one->values, one->flat);
    work.elements = one->flat ? one->elements : 0;
    memory->load.size = sizeof(memory->load);
    kiln_status status = kiln_workload_make(&memory->workload, session->service, one->kernel, &work, report);
    if (!status)
        status = kiln_workload_get_info(memory->workload, &memory->load);
    if (status)
        return status;
    const uint64_t bytes = memory->copy.bytes = copy_bytes(memory->load.bytes), slot = round_up(bytes);
    status = kiln_alloc(&memory->extra, one->device, 2 * slot, report);
    if (status)
        return status;
    memory->copy.from = memory->extra;
    memory->copy.to = (char *)memory->extra + slot;
    return kiln_fill(one->device, memory->extra, "f32", bytes / 4, 1, report);
}

static int make_memory(bench_memory *memory, struct session *session, const bench_case *one, bool *reused)
{
    *memory = (bench_memory){
        .device = one->device,
        .copy = { .device = one->device, .bytes = copy_bytes(one->bytes), .report = &session->report }
    };
    if (!one->plain)
        return session_status(session, make_workload(memory, session, one), one->info.spec);
    int result = take_memory(memory, session, one, reused);
    return result ? result : session_status(session, fill_inputs(memory, session, one), NULL);
}

/* ---- Measuring */

/* The data of a launch of a case. */
typedef struct case_launch {
    const bench_case *one;
    bench_memory *memory;
    kiln_report *report;
} case_launch;

static kiln_status submit_case(void *data, void *stream)
{
    const case_launch *self = data;
    const kiln_workload_info *load = &self->memory->load;
    if (self->memory->workload)
        return kiln_launch(self->one->kernel, NULL, load->sizes, load->size_count, load->args, load->arg_count, stream,
                           self->report);
    return kiln_launch_n(self->one->kernel, self->one->elements, &self->memory->out, 1,
                         (const void *const *)self->memory->in, self->one->inputs, stream, self->report);
}

/* The arrays of a plain kernel as arguments of a launch; returns how many. */
static size_t plain_args(kiln_arg args[1 + MOST_INPUTS], const bench_case *one, const bench_memory *memory)
{
    size_t count = 0;
    void *const *in = memory->in;
    for (size_t i = 0; i < one->info.signature->param_count; i++) {
        const kiln_param *param = one->info.signature->params[i];
        if (param->role != KILN_ROLE_FORMULA)
            args[count++] = KILN_ARRAY(param->role == KILN_ROLE_IN ? *in++ : memory->out, one->elements * param->bytes);
    }
    return count;
}

/* Compares every element. */
static int verify_case(bench_case *one, struct session *session, bench_memory *memory)
{
    verified_launch verified;
    kiln_arg args[1 + MOST_INPUTS];
    const kiln_workload_info *load = &memory->load;
    int result =
        memory->workload
            ? verify_launch(&verified, session, one->kernel, load->sizes, load->size_count, load->args, load->arg_count)
            : verify_launch(&verified, session, one->kernel, &one->elements, 1, args, plain_args(args, one, memory));
    if (verified.differs)
        note("'%s' is wrong and was not timed", one->info.spec);
    one->against = verified.found.against;
    if (!result && memory->workload)
        result = session_status(session, kiln_workload_reset(memory->workload, &session->report), one->info.spec);
    return result;
}

/* Launches a kernel once before it is timed, and compares its results unless the user does not want it. */
static int prove_case(const bench_set *set, bench_case *one, bench_memory *memory)
{
    struct session *session = set->session;
    if (memory->workload) {
        one->elements = memory->load.elements;
        one->bytes = memory->load.bytes;
    }
    crash_watch(one->question);
    int result = STATUS_DONE;
    if (set->args->no_verify) {
        case_launch launch = { one, memory, &session->report };
        kiln_status status = submit_case(&launch, NULL);
        status = status ? status : kiln_sync(one->device, &session->report);
        result = session_status(session, status, one->info.spec);
    } else {
        result = verify_case(one, session, memory);
    }
    crash_forget();
    return result;
}

static void keep_case(bench_case *one, const kiln_timing *timing, const double *samples, size_t count, uint32_t rounds,
                      size_t which, size_t best)
{
    double *times = need_array(NULL, rounds, sizeof(*times));
    for (uint32_t r = 0; r < rounds; r++)
        times[r] = samples[r * count + which];
    qsort(times, rounds, sizeof(*times), paired_order);
    one->low_ms = times[(rounds - 1) / 4];
    one->high_ms = times[rounds - 1 - (rounds - 1) / 4];
    one->timing = *timing;
    one->ratio = paired_ratio(samples, count, rounds, which, best).median;
}

static bench_case *first_of(const bench_set *set, size_t group)
{
    bench_case *first = set->cases;
    while (first->group != group)
        first++;
    return first;
}

/* The cpu's caches belong to other programs too: 30 rounds of equal kernels differ by more than 5% where the arrays are
 * about as large as the last cache, and 120 rounds by less than 3%. */
static uint32_t rounds_of(const bench_set *set, size_t group)
{
    const bench_case *example = first_of(set, group);
    bool small = strcmp(example->info.device, "cpu") == 0 && example->bytes <= CPU_SMALL;
    return set->args->rounds ? set->args->rounds : small ? CPU_ROUNDS : ROUNDS;
}

/* Times the cases of a group, and behind them the two copies. */
static kiln_status measure_group(bench_set *set, size_t group, bench_memory *memory)
{
    size_t count = 0;
    uint32_t rounds = rounds_of(set, group);
    bench_ceiling *ceiling = &set->ceilings[group];
    kiln_report *report = &set->session->report;
    kiln_contender *list = need_array(NULL, set->count + 2, sizeof(*list));
    case_launch *launches = need_array(NULL, set->count, sizeof(*launches));
    for (size_t i = 0; i < set->count; i++)
        if (set->cases[i].group == group) {
            launches[count] = (case_launch){ &set->cases[i], memory, report };
            list[count] = (kiln_contender){ submit_case, &launches[count] };
            count++;
        }
    size_t cases = count;
    list[count++] = (kiln_contender){ submit_copy, &memory->copy };
    list[count++] = (kiln_contender){ submit_copy_kernel, &memory->copy };
    kiln_timing *timings = need_array(NULL, count, sizeof(*timings));
    double *samples = need_array(NULL, count * rounds, sizeof(*samples));
    const kiln_measure_options options = {
        .size = sizeof(options), .warmup = WARMUP, .rounds = rounds, .replay = 1, .samples = samples
    };
    kiln_status status = kiln_measure(timings, memory->device, list, count, &options, report);
    if (status)
        return status;
    ceiling->best = timings[cases].median_ms > timings[cases + 1].median_ms;
    for (size_t i = 0; i < 2; i++)
        ceiling->copies[i] =
            (bench_copy){ timings[cases + i],
                          paired_ratio(samples, count, rounds, cases + i, cases + ceiling->best).median };
    for (size_t i = 0, k = 0; i < set->count; i++)
        if (set->cases[i].group == group) {
            keep_case(&set->cases[i], &timings[k], samples, count, rounds, k, cases + ceiling->best);
            k++;
        }
    return KILN_OK;
}

static int run_group(bench_set *set, size_t group)
{
    bench_memory memory;
    struct session *session = set->session;
    const bench_case *first = first_of(set, group);
    int result = make_memory(&memory, session, first, &set->ceilings[group].reused);
    for (size_t i = 0; i < set->count && !result; i++)
        if (set->cases[i].group == group)
            result = prove_case(set, &set->cases[i], &memory);
    if (!result) {
        kiln_status status = copy_kernel(&memory.copy, session->service, first->info.spec);
        result = session_status(session, status ? status : measure_group(set, group, &memory), NULL);
    }
    kiln_kernel_release(memory.copy.kernel);
    kiln_workload_free(memory.workload);
    kiln_free(first->device, memory.arena);
    kiln_free(first->device, memory.extra);
    return result;
}

/* Verifies and measures everything. After an interrupt the groups that are done remain. */
static int run_groups(bench_set *set)
{
    int result = STATUS_DONE;
    size_t done = 0, kept = 0;
    struct progress progress;
    spread_sizes(set);
    form_groups(set);
    progress_start(&progress, set->groups, false);
    for (; done < set->groups && !result && !interrupt_seen(); done++) {
        if (set->groups > 1)
            progress_show(&progress, done, 0);
        result = run_group(set, done);
    }
    progress_end();
    for (size_t i = 0; i < set->count; i++)
        if (set->cases[i].group >= done)
            kiln_kernel_release(set->cases[i].kernel);
        else
            set->cases[kept++] = set->cases[i];
    set->count = kept;
    set->groups = done;
    for (size_t i = 0; i < set->groups; i++)
        set->ceilings[i].example = first_of(set, i);
    return result;
}

/* ---- Results */

static json_t *timing_json(json_t *object, const kiln_timing *timing, uint64_t elements, uint64_t bytes, double ratio,
                           size_t group)
{
    json_put(object, "elements", json_count(elements), "bytes", json_count(bytes), "time_ms",
             json_number(timing->median_ms), "min_ms", json_number(timing->min_ms), "max_ms",
             json_number(timing->max_ms), "gbps", json_number(gigabytes_per_second(bytes, timing->median_ms)), "ratio",
             json_number(ratio), "group", json_count(group), NULL);
    return object;
}

static void print_json(const bench_set *set)
{
    json_t *results = json_array(), *ceilings = json_array();
    for (size_t i = 0; i < set->count; i++) {
        const bench_case *one = &set->cases[i];
        json_t *object = json_new("device", json_text(one->info.device), "spec", json_text(one->info.spec), NULL);
        timing_json(object, &one->timing, one->elements, one->bytes, one->ratio, one->group);
        argvalues_json(object, one->info.signature, one->flat ? &one->elements : one->values->sizes, one->flat,
                       &set->args->texts.numbers);
        json_put(object, "verified", set->args->no_verify ? json_null() : json_true(), "against",
                 json_text(one->against), "source", json_text(one->info.origin_name), "compile_ms",
                 json_number(one->info.compile_ms), "first_get_ms", json_number(one->first_get_ms), "get_us",
                 json_number(one->again_us), NULL);
        json_add(results, object);
    }
    for (size_t i = 0; i < set->groups; i++)
        for (size_t k = 0; k < 2; k++) {
            const bench_copy *copy = &set->ceilings[i].copies[k];
            const bench_case *example = set->ceilings[i].example;
            json_add(ceilings, timing_json(json_new("what", json_text(copy_names[k]), NULL), &copy->timing,
                                           example->elements, example->bytes, copy->ratio, i));
        }
    json_print(json_new("rounds", json_count(set->groups ? rounds_of(set, 0) : 0), "results", results, "ceilings",
                        ceilings, NULL));
}

static const char *rate_text(const kiln_timing *timing, uint64_t bytes)
{
    return need_format("%.1f", gigabytes_per_second(bytes, timing->median_ms));
}

/* Two launches that agree tell less than one that agrees with the cpu. */
static const char *verified_text(const bench_case *one)
{
    return !one->against ? "skipped" : strcmp(one->against, "a second launch") == 0 ? "same twice" : "yes";
}

/* "rows=64 cols=32, " of a kernel that takes sizes by name. */
static const char *sizes_text(const bench_case *one)
{
    char *text = need_copy("");
    for (size_t i = 0; i < one->info.signature->size_count && !one->flat; i++)
        text_append(&text, " ", "%s=%" PRIu64, one->info.signature->sizes[i], one->values->sizes[i]);
    return *text ? need_format("%s, ", text) : "";
}

static void print_group(const bench_set *set, size_t group)
{
    const bench_ceiling *ceiling = &set->ceilings[group];
    const bench_case *example = ceiling->example;
    if (group)
        putchar('\n');
    print_line("%s (%s): %s%" PRIu64 " elements, %s read and written, %u rounds", example->info.device,
               example->device_info.model, sizes_text(example), example->elements, format_bytes(example->bytes),
               rounds_of(set, group));
    struct table *table = table_new("op|dtype|geometry|>ms|>min|>max|>GB/s|>ratio|verified|kernel|>first get|>get");
    for (size_t i = 0; i < set->count; i++) {
        const bench_case *one = &set->cases[i];
        if (one->group == group)
            table_row(table, (const char *const[]){
                                 spectext_op(one->info.spec), one->types, spectext_geometry(one->info.spec),
                                 format_ms_plain(one->timing.median_ms), format_ms_plain(one->timing.min_ms),
                                 format_ms_plain(one->timing.max_ms), rate_text(&one->timing, one->bytes),
                                 need_format("%.4f", one->ratio), verified_text(one), one->info.origin_name,
                                 format_ms(one->first_get_ms), format_ms(one->again_us * 1e-3) });
    }
    for (size_t k = 0; k < 2; k++) {
        const kiln_timing *timing = &ceiling->copies[k].timing;
        table_row(table, (const char *const[]){ need_format("(%s)", copy_names[k]), "",
                                                ceiling->reused ? "in the same arrays" : "",
                                                format_ms_plain(timing->median_ms), format_ms_plain(timing->min_ms),
                                                format_ms_plain(timing->max_ms), rate_text(timing, example->bytes),
                                                need_format("%.4f", ceiling->copies[k].ratio), "", "", "", "" });
    }
    table_print(table, stdout);
}

/* Several sizes in one table: the rows of a size stand together. */
static void print_sizes(const bench_set *set)
{
    struct table *table = table_new("elements|op|dtype|geometry|>ms|>GB/s|>ratio|verified");
    for (size_t group = 0; group < set->groups; group++) {
        const bench_ceiling *ceiling = &set->ceilings[group];
        const bench_case *example = ceiling->example;
        const kiln_timing *best = &ceiling->copies[ceiling->best].timing;
        const char *size = format_power(example->elements);
        for (size_t i = 0; i < set->count; i++) {
            const bench_case *one = &set->cases[i];
            if (one->group == group)
                table_row(table, (const char *const[]){
                                     size, spectext_op(one->info.spec), one->types, spectext_geometry(one->info.spec),
                                     format_ms_plain(one->timing.median_ms), rate_text(&one->timing, one->bytes),
                                     need_format("%.4f", one->ratio), verified_text(one) });
        }
        table_row(table, (const char *const[]){ size, need_format("(%s)", copy_names[ceiling->best]), example->types,
                                                "", format_ms_plain(best->median_ms), rate_text(best, example->bytes),
                                                "1.0000", "" });
    }
    table_print(table, stdout);
}

static void write_csv(FILE *stream, const void *data)
{
    static const char *const fields[] = { "block", "elems", "vector" };
    const bench_set *set = data;
    struct csv csv;
    csv_begin(&csv, stream,
              "device,model,target,op,dtype,elements,bytes,block,elems,vector,spec,time_ms,min_ms,max_ms,gbps,"
              "ceiling_ratio,ceiling_gbps,verified,source,compile_ms,first_get_ms,get_us,low_ms,high_ms,"
              "memory_copy_gbps,copy_kernel_gbps");
    for (size_t i = 0; i < set->count; i++) {
        const bench_case *one = &set->cases[i];
        const bench_ceiling *ceiling = &set->ceilings[one->group];
        const double copies[] = { gigabytes_per_second(one->bytes, ceiling->copies[0].timing.median_ms),
                                  gigabytes_per_second(one->bytes, ceiling->copies[1].timing.median_ms) };
        csv_text(&csv, one->info.device);
        csv_text(&csv, one->device_info.model);
        csv_text(&csv, spectext_field(one->info.spec, "target"));
        csv_text(&csv, spectext_op(one->info.spec));
        csv_text(&csv, one->types);
        csv_count(&csv, one->elements);
        csv_count(&csv, one->bytes);
        for (size_t k = 0; k < COUNT_OF(fields); k++)
            csv_text(&csv, spectext_field(one->info.spec, fields[k]));
        csv_text(&csv, one->info.spec);
        csv_real(&csv, one->timing.median_ms);
        csv_real(&csv, one->timing.min_ms);
        csv_real(&csv, one->timing.max_ms);
        csv_real(&csv, gigabytes_per_second(one->bytes, one->timing.median_ms));
        csv_real(&csv, one->ratio);
        csv_real(&csv, copies[ceiling->best]);
        csv_text(&csv, set->args->no_verify ? "" : "yes");
        csv_text(&csv, one->info.origin_name);
        csv_real(&csv, one->info.compile_ms);
        csv_real(&csv, one->first_get_ms);
        csv_real(&csv, one->again_us);
        csv_real(&csv, one->low_ms);
        csv_real(&csv, one->high_ms);
        csv_real(&csv, copies[0]);
        csv_real(&csv, copies[1]);
        csv_end_row(&csv);
    }
}

/* ---- The command */

static int measure(bench_set *set)
{
    struct session *session = set->session;
    kiln_device *device = NULL;
    /* The driver starts here, so that the first kernel's time does not include it. */
    kiln_status status = kiln_device_open(&device, session->service, NULL, &session->report);
    for (size_t i = 0; i < set->args->specs.count && !status && !set->status; i++)
        status = kiln_spec_expand(session->service, set->args->specs.items[i], add_case, set, &session->report);
    if (status || set->status)
        return status ? session_status(session, status, NULL) : set->status;
    if (set->size_count > 1)
        interrupt_catch(true);
    int result = run_groups(set);
    if (result)
        return result;
    if (set->args->common.json)
        print_json(set);
    else if (set->size_count > 1)
        print_sizes(set);
    for (size_t group = 0; group < set->groups && !set->args->common.json && set->size_count <= 1; group++)
        print_group(set, group);
    return results_write(&set->results, write_csv, set);
}

static int bench(struct session *session, void *data)
{
    bench_set *set = data;
    set->session = session;
    int status = measure(set);
    for (size_t i = 0; i < set->count; i++)
        kiln_kernel_release(set->cases[i].kernel);
    return status;
}

int command_bench(int argc, char **argv)
{
    bench_args args = { .size = { NULL, 0 } };
    bench_set set = { .args = &args };
    parse_args(&args, &set, argc, argv);
    int status = results_open(&set.results, args.csv, args.plot);
    if (!status)
        status = session_run(&args.common, bench, &set);
    results_close(&set.results);
    if (!status && interrupt_seen())
        status = fail(interrupt_status(), "interrupted: not everything was measured");
    return status;
}
