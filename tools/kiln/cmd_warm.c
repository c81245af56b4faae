/* kiln warm: compiles a list of specs with several threads, or with --check looks which of them would be compiled. */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "commands.h"
#include "kernels/built.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/spectext.h"
#include "text/table.h"
#include "warm/counters.h"
#include "warm/worklist.h"

enum { MOST_ROWS = 60, MOST_PROBLEMS = 20 };

typedef struct warm_args {
    text_list specs, manifests;
    const char *target;
    uint32_t threads;
    bool check, stats, push;
    common_args common;
} warm_args;

static const struct usage usage = {
    "kiln warm SPEC... [--manifest FILE] [--target LIST|all|native] [--check] [--push] [--stats] [-j N] [options]",
    "Compiles kernels and keeps them in the cache, for GPUs that need not be here. Status 1 if one of them fails\n"
    "or is not in the cache at the end, with the reason. Fields may be lists and\n"
    "ranges and stand for their product: dtype=f32,f16 block=64..1024*2. A manifest holds one spec on each\n"
    "line; '#' begins a comment. A file that KILN_RECORD named is a manifest. --target is for the specs that\n"
    "name no target: a list, 'all' that the compiler knows, or 'native', the GPU of this machine, which is the\n"
    "default. --check compiles nothing: it prints the specs that are not in the cache, and the definitions that they\n"
    "need, as a manifest, with status 1 if there are any. --stats counts requests, hits and compiles, by reason.\n"
    "--push sends every kernel to the remote that KILN_REMOTE names, where it is not there yet, waits until all are "
    "there,\n"
    "and names those that are not, with status 1. Without it the remote is only read.",
    "  kiln warm 'op=hardsigmoid dtype=f32,f16' --target sm_80,sm_90\n"
    "  kiln warm --manifest kernels.txt --target all -j 8\n"
    "  kiln warm --manifest kernels.txt --target sm_90 --check\n"
    "  KILN_REMOTE=redis://cache KILN_REMOTE_SECRET=/etc/kiln.secret kiln warm --manifest kernels.txt --push",
};

/* How many processors this process may use. */
static uint32_t count_processors(void)
{
    for (size_t processors = 1024; processors <= 1 << 20; processors *= 2) {
        cpu_set_t *set = CPU_ALLOC(processors);
        if (!set)
            break;
        int result = sched_getaffinity(0, CPU_ALLOC_SIZE(processors), set);
        int count = result == 0 ? CPU_COUNT_S(CPU_ALLOC_SIZE(processors), set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return (uint32_t)count;
    }
    return 1;
}

static void parse_args(warm_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        { "manifest", 'm', OPTION_LIST, "FILE", "specs to compile, one on each line; - is stdin", &args->manifests },
        { "target", 't', OPTION_TEXT, "LIST", "sm_80,sm_90, all, native or cpu", &args->target },
        { "check", 0, OPTION_FLAG, NULL, "compile nothing: list the missing specs", &args->check },
        { "push", 0, OPTION_FLAG, NULL, "send all kernels to the remote", &args->push },
        { "stats", 0, OPTION_FLAG, NULL, "count hits, misses, compiles and faults, by reason", &args->stats },
        { "jobs", 'j', OPTION_NUMBER, "N", "compile N at once; default: one for each processor", &args->threads },
    };
    text_list words = { NULL, 0 };
    options_parse(&usage, OPTION_ROWS(rows), &args->common, &words, argc, argv);
    if (words.count == 0 && args->manifests.count == 0)
        options_refuse(&usage, "nothing to compile, expected a SPEC or --manifest FILE");
    if (words.count > 0)
        words_specs(&args->specs, &usage, &words, 0);
    if (args->target && !*args->target)
        options_refuse(&usage, "--target is empty, expected a list such as sm_80,sm_90, all or native");
    if (args->check && args->stats)
        options_refuse(&usage, "--stats counts compiles, and --check compiles nothing: leave one of them out");
    if (args->check && args->push)
        options_refuse(&usage, "--push sends kernels, and --check makes none: leave one of them out");
    args->common.push = args->push ? KILN_PUSH_ALL : KILN_PUSH_NONE;
    args->common.only_reads = args->common.no_remote = args->check;
    if (args->threads == 0)
        args->threads = count_processors();
}

/* ---- Work */

/* Compiles an item, or with `check` only looks for it in the stores: KILN_ESTRICT means that it is missing. */
static void build_item(kiln_service *service, work_item *item, bool check)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = NULL;
    kiln_program *program = NULL;
    item->status = kiln_spec_parse(&spec, service, item->spec, &report);
    if (!item->status)
        item->status = (check ? find_spec : build_spec)(&program, service, spec, &report);
    if (!item->status) {
        kiln_program_info info = built_info(program);
        item->origin = info.origin;
        item->origin_name = info.origin_name;
        item->compile_ms = info.compile_ms;
        if (!built_section(&item->bytes, program, "cubin"))
            built_section(&item->bytes, program, "object");
    } else if (check && item->status != KILN_ESTRICT) {
        fail_report(item->status, &report, item->asked);
    } else if (!check) {
        item->problem = need_copy(report.message[0] ? report.message : kiln_status_text(item->status));
        item->log = report.log ? need_copy(report.log) : NULL;
    }
    item->done = true;
    kiln_program_release(program);
    kiln_spec_free(spec);
    kiln_report_clear(&report);
}

typedef struct crew {
    struct worklist *list;
    kiln_service *service;
    atomic_size_t next, done, failed;
    atomic_uint working; /* threads not yet finished */
    pthread_mutex_t lock;
    pthread_cond_t idle;
} crew;

static void *run_worker(void *data)
{
    crew *team = data;
    for (;;) {
        size_t i = atomic_fetch_add(&team->next, 1);
        if (i >= team->list->count || interrupt_seen())
            break;
        build_item(team->service, &team->list->items[i], false);
        if (team->list->items[i].status)
            atomic_fetch_add(&team->failed, 1);
        atomic_fetch_add(&team->done, 1);
    }
    pthread_mutex_lock(&team->lock);
    atomic_fetch_sub(&team->working, 1);
    pthread_cond_signal(&team->idle);
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

/* Compiles every item, with progress on stderr. After an interrupt only the compiles in flight are finished. */
static void build_all(struct worklist *list, kiln_service *service, const warm_args *args)
{
    uint32_t threads = args->threads < list->count ? args->threads : (uint32_t)list->count, started = 0;
    crew team = {
        .list = list, .service = service, .lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER
    };
    pthread_t *ids = need_array(NULL, threads, sizeof(*ids));
    struct progress progress;
    interrupt_catch(true);
    progress_start(&progress, list->count, args->common.verbose);
    for (bool good = true; good && started < threads; started += good) {
        atomic_fetch_add(&team.working, 1);
        good = pthread_create(&ids[started], NULL, run_worker, &team) == 0;
        if (!good && started > 0)
            atomic_fetch_sub(&team.working, 1);
        else if (!good)
            run_worker(&team); /* no thread at all */
    }
    pthread_mutex_lock(&team.lock);
    while (atomic_load(&team.working) > 0) {
        progress_wait(&team.idle, &team.lock);
        progress_show(&progress, atomic_load(&team.done), atomic_load(&team.failed));
    }
    pthread_mutex_unlock(&team.lock);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    progress_end();
    interrupt_release();
}

/* Looks for every built item in the cache. */
static void check_kept(struct worklist *list, kiln_service *service, built_tally *sum)
{
    for (size_t i = 0; i < list->count; i++) {
        work_item *item = &list->items[i];
        kiln_spec *spec = NULL;
        if (!item->done || item->status)
            continue;
        if (kiln_spec_parse(&spec, service, item->spec, NULL) != KILN_OK)
            out_of_memory(); /* it was parsed before */
        item->kept = built_is_kept(sum, service, spec, NULL, item->origin);
        kiln_spec_free(spec);
    }
}

/* A kernel that did not reach the remote. */
static void tell_not_pushed(void *data, const char *spec, const char *reason)
{
    size_t *count = data;
    ++*count;
    fail(STATUS_FAILED, "%s: not pushed: %s", spec, reason);
}

/* Kernels of the cpu are for one machine. */
static void tell_of_those_that_stay(const struct worklist *list)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *target = spectext_field(list->items[i].spec, "target");
        count += target != NULL && strcmp(target, "cpu") == 0;
    }
    if (count > 0)
        note("%zu of the kernels are for the cpu and stay on this machine: they depend on it", count);
}

/* Waits until the remote has all kernels. Counts those that it has not. */
static int push_all(kiln_service *service, const struct worklist *list, size_t *lost)
{
    enum { PATIENCE_MS = 1000 };
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status = KILN_ETIMEDOUT;
    while (status == KILN_ETIMEDOUT && !interrupt_seen())
        status = kiln_push_wait(service, PATIENCE_MS, tell_not_pushed, lost, &report);
    tell_of_those_that_stay(list);
    if (interrupt_seen())
        return fail(interrupt_status(), "interrupted: not all kernels are pushed");
    if (status != KILN_OK)
        return fail_report(status, &report, "push");
    return *lost > 0 ? STATUS_FAILED : STATUS_DONE;
}

/* ---- Results */

typedef struct tally {
    size_t count, compiled, hits, missing, failed, left;
    bool only_usage; /* every failure is one of the specs */
    double compile_ms;
    uint64_t bytes;
} tally;

static void count_item(tally *sum, const work_item *item)
{
    bool missing = item->status == KILN_ESTRICT, failed = item->status && !missing;
    sum->count++;
    sum->left += !item->done;
    sum->missing += missing;
    sum->failed += failed;
    sum->compiled += item->done && !item->status && item->origin == KILN_ORIGIN_COMPILED;
    sum->hits += item->done && !item->status && item->origin != KILN_ORIGIN_COMPILED;
    sum->only_usage = sum->only_usage && (!failed || exit_status(item->status) == STATUS_USAGE);
    sum->compile_ms += item->compile_ms;
    sum->bytes += item->bytes;
}

static tally count_items(const struct worklist *list)
{
    tally sum = { .only_usage = true };
    for (size_t i = 0; i < list->count; i++)
        count_item(&sum, &list->items[i]);
    return sum;
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* STATUS_USAGE where every spec was refused as wrong. */
static int end_status(const tally *sum)
{
    if (sum->missing + sum->failed == 0)
        return STATUS_DONE;
    return sum->failed == sum->count && sum->only_usage ? STATUS_USAGE : STATUS_FAILED;
}

/* Prints the specs that a cold process would compile, one on each line of stdout, and before them the definitions, so
 * that the output is a manifest; or one JSON object. */
static int check(struct worklist *list, struct session *session, bool json)
{
    json_t *missing = json_array(), *definitions = json_array();
    for (size_t i = 0; i < list->count; i++)
        build_item(session->service, &list->items[i], true);
    tally sum = count_items(list);
    for (size_t i = 0; i < list->definitions.count && sum.missing > 0; i++) {
        json_add(definitions, json_text(list->definitions.items[i]));
        if (!json)
            puts(list->definitions.items[i]);
    }
    for (size_t i = 0; i < list->count; i++) {
        const work_item *item = &list->items[i];
        if (item->status != KILN_ESTRICT)
            continue;
        json_add(missing, json_new("spec", json_text(item->asked), NULL));
        if (!json)
            puts(item->asked);
    }
    if (json)
        json_print(json_new("specs", json_count(sum.count), "found", json_count(sum.hits + sum.compiled), "missing",
                            json_count(sum.missing), "failed", json_count(sum.failed), "skipped",
                            json_count(list->skipped), "definitions", definitions, "to_compile", missing, NULL));
    if (sum.missing > 0)
        fail(STATUS_FAILED, "%zu of %zu specs would have to be compiled", sum.missing, sum.count);
    else if (sum.failed == 0 && !json)
        note("%zu spec%s: nothing to compile", sum.count, plural(sum.count));
    return end_status(&sum);
}

static void print_problems(const struct worklist *list, bool all)
{
    size_t failed = 0;
    for (size_t i = 0; i < list->count; i++) {
        const work_item *item = &list->items[i];
        failed += item->problem != NULL;
        if (!item->problem || (!all && failed > MOST_PROBLEMS))
            continue;
        fail(STATUS_FAILED, "%s: %s", item->spec, item->problem);
        if (item->log)
            fprintf(stderr, "%s\n", item->log);
    }
    if (failed > MOST_PROBLEMS && !all)
        note("%zu more failed; -v shows all", failed - MOST_PROBLEMS);
}

static const char *source_word(const work_item *item)
{
    return !item->done ? "not reached" : item->status ? "failed" : item->origin_name;
}

static void print_items(const struct worklist *list)
{
    struct table *table = table_new("op|dtype|target|geometry|source|>ms|>bytes");
    for (size_t i = 0; i < list->count; i++) {
        const work_item *item = &list->items[i];
        bool built = item->done && !item->status, compiled = built && item->origin == KILN_ORIGIN_COMPILED;
        table_row(table,
                  (const char *const[]){ spectext_op(item->spec), spectext_field(item->spec, "dtype"),
                                         spectext_field(item->spec, "target"), spectext_geometry(item->spec),
                                         source_word(item), compiled ? need_format("%.1f", item->compile_ms) : "",
                                         built ? format_count(item->bytes) : "" });
    }
    table_print(table, stdout);
}

/* A row for each target, in the order of their first items. */
static void print_targets(const struct worklist *list)
{
    struct table *table = table_new("target|>specs|>compiled|>hits|>failed|>ms each|>bytes");
    text_list targets = { NULL, 0 };
    for (size_t i = 0; i < list->count; i++) {
        const char *target = spectext_field(list->items[i].spec, "target");
        text_list_add(&targets, target ? target : "?");
    }
    for (size_t i = 0; i < list->count; i++) {
        const char *target = targets.items[i];
        tally sum = { .only_usage = true };
        size_t first = 0;
        while (strcmp(targets.items[first], target) != 0)
            first++;
        if (first < i)
            continue;
        for (size_t k = i; k < list->count; k++)
            if (strcmp(targets.items[k], target) == 0)
                count_item(&sum, &list->items[k]);
        table_row(table,
                  (const char *const[]){ target, format_count(sum.count), format_count(sum.compiled),
                                         format_count(sum.hits), format_count(sum.failed),
                                         sum.compiled ? need_format("%.1f", sum.compile_ms / (double)sum.compiled) : "",
                                         format_count(sum.bytes) });
    }
    table_print(table, stdout);
}

static void print_json(const struct worklist *list, const tally *sum, const built_tally *kept, size_t lost,
                       double seconds, const warm_args *args, const kiln_service *service)
{
    kiln_stats stats = KILN_INIT(kiln_stats);
    json_t *object =
        json_new("specs", json_count(sum->count), "compiled", json_count(sum->compiled), "hits", json_count(sum->hits),
                 "failed", json_count(sum->failed), "kept", json_count(kept->kept), "not_kept", json_count(kept->lost),
                 "skipped", json_count(list->skipped), "seconds", json_number(seconds), NULL);
    if (kept->reason)
        json_put(object, "reason", json_text(kept->reason), NULL);
    if (args->push && kiln_stats_get(service, &stats) == KILN_OK)
        json_put(object, "pushed", json_count(stats.remote_pushes), "not_pushed", json_count(lost), NULL);
    if (args->stats)
        json_put(object, "stats", counters_json(service), NULL);
    json_t *items = json_array();
    for (size_t i = 0; i < list->count && args->common.verbose; i++) {
        const work_item *item = &list->items[i];
        json_t *row = json_new("spec", json_text(item->spec), "source", json_text(source_word(item)), "compile_ms",
                               json_number(item->compile_ms), "bytes", json_count(item->bytes), "kept",
                               json_boolean(item->kept), NULL);
        if (item->problem)
            json_put(row, "problem", json_text(item->problem), NULL);
        json_add(items, row);
    }
    if (args->common.verbose)
        json_put(object, "results", items, NULL);
    json_print(object);
}

static void print_text(const struct worklist *list, const tally *sum, double seconds, const warm_args *args,
                       const kiln_service *service)
{
    if (sum->count > MOST_ROWS && !args->common.verbose)
        print_targets(list);
    else
        print_items(list);
    printf("%s%zu spec%s: %zu compiled, %zu hits, %zu failed in %.2f s\n", sum->count ? "\n" : "", sum->count,
           plural(sum->count), sum->compiled, sum->hits, sum->failed, seconds);
    if (args->stats)
        counters_print(service, stdout);
}

/* ---- The command */

/* A definition of the command line, which may have several lines. */
static void add_definition(struct worklist *list, const char *kind, const char *text)
{
    char *line = need_format("define %s %s", kind, text);
    for (char *c = line; *c; c++)
        *c = *c == '\n' || *c == '\r' ? ' ' : *c;
    worklist_define(list, line);
}

static int warm(struct session *session, void *data)
{
    const warm_args *args = data;
    struct worklist list = { .target = args->target, .device_name = args->common.device, .unasked = args->check };
    double start = now_seconds();
    int status = STATUS_DONE;
    for (size_t i = 0; i < args->common.ops->count; i++)
        add_definition(&list, "op", args->common.ops->items[i]);
    for (size_t i = 0; i < args->common.templates->count; i++)
        add_definition(&list, "template", args->common.templates->items[i]);
    for (size_t i = 0; i < args->specs.count && !status; i++)
        status = worklist_add(&list, session, args->specs.items[i]);
    for (size_t i = 0; i < args->manifests.count && !status; i++)
        status = worklist_add_file(&list, session, args->manifests.items[i]);
    if (status)
        return status;
    worklist_unique(&list);
    if (args->check)
        return check(&list, session, args->common.json);
    build_all(&list, session->service, args);
    double seconds = now_seconds() - start;
    tally sum = count_items(&list);
    built_tally kept = { 0 };
    check_kept(&list, session->service, &kept);
    print_problems(&list, args->common.verbose);
    size_t lost = 0;
    const int pushed = args->push ? push_all(session->service, &list, &lost) : STATUS_DONE;
    if (args->common.json)
        print_json(&list, &sum, &kept, lost, seconds, args, session->service);
    else
        print_text(&list, &sum, seconds, args, session->service);
    status = built_end(&kept);
    if (interrupt_seen() && sum.left)
        return fail(interrupt_status(), "interrupted: %zu of %zu specs were not reached", sum.left, sum.count);
    status = status ? status : end_status(&sum);
    return status ? status : pushed;
}

int command_warm(int argc, char **argv)
{
    warm_args args = { .common.strict = KILN_OFF }; /* KILN_STRICT is for the users of warmed kernels */
    parse_args(&args, argc, argv);
    return session_run(&args.common, warm, &args);
}
