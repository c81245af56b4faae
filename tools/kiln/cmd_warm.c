#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "commands.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/spectext.h"
#include "text/table.h"
#include "warm/counters.h"
#include "warm/crew.h"
#include "warm/warmcheck.h"
#include "warm/worklist.h"

enum { MOST_ROWS = 60, MOST_PROBLEMS = 20 };

typedef struct warm_args {
    text_list specs, manifests;
    const char *target;
    uint32_t threads;
    bool check, stats;
    common_args common;
} warm_args;

struct tally {
    size_t compiled, hits, failed, left;
    bool only_usage; /* every failure is one of the specs */
    double compile_ms;
    uint64_t bytes;
};

static const struct usage usage = {
    "kiln warm SPEC... [--manifest FILE] [--target LIST|all|native] [--check] [--stats] [-j N] [options]",
    "Compiles kernels and keeps them in the cache, for GPUs that need not be here. Fields may be lists and\n"
    "ranges and stand for their product: dtype=f32,f16 block=64..1024*2. A manifest holds one spec on each\n"
    "line; '#' begins a comment. A file that KILN_RECORD named is a manifest. --target is for the specs that\n"
    "name no target: a list, 'all' that the compiler knows, or 'native', the GPU here, which is also what is\n"
    "taken when nothing is named. --check compiles nothing: it prints the specs that are not in the cache\n"
    "and ends with 1 if there are any. --stats counts what was asked for, found and compiled, by reason.",
    "  kiln warm 'op=hardsigmoid dtype=f32,f16' --target sm_80,sm_90\n"
    "  kiln warm --manifest kernels.txt --target all -j 8\n"
    "  kiln warm --manifest kernels.txt --target sm_90 --check",
};

static int parse_args(warm_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        { "manifest", 'm', OPTION_LIST, "FILE", "specs to compile, one on each line; - is stdin", &args->manifests },
        { "target", 't', OPTION_TEXT, "LIST", "sm_80,sm_90, all, native or cpu", &args->target },
        { "check", 0, OPTION_FLAG, NULL, "compile nothing: list what is missing", &args->check },
        { "stats", 0, OPTION_FLAG, NULL, "count hits, misses, compiles and faults, by reason", &args->stats },
        { "jobs", 'j', OPTION_NUMBER, "N", "compile N at once; default: one for each processor", &args->threads },
    };
    int status = options_parse(&usage, rows, sizeof(rows) / sizeof(rows[0]), &args->common, &args->specs, argc, argv);
    if (status == OPTIONS_GO_ON && args->specs.count == 0 && args->manifests.count == 0)
        status = options_wrong(&usage, "nothing to compile, expected a SPEC or --manifest FILE");
    if (status == OPTIONS_GO_ON && args->target && !*args->target)
        status = options_wrong(&usage, "--target is empty, expected a list such as sm_80,sm_90, all or native");
    if (status == OPTIONS_GO_ON && args->check && args->stats)
        status = options_wrong(&usage,
                               "--stats counts what is compiled, and --check compiles nothing: leave one of them out");
    if (args->threads == 0)
        args->threads = crew_processors();
    return status;
}

static int collect(struct worklist *list, struct session *session, const warm_args *args)
{
    int status = STATUS_DONE;
    for (size_t i = 0; i < args->specs.count && !status; i++)
        status = worklist_add(list, session, args->specs.items[i], NULL);
    for (size_t i = 0; i < args->manifests.count && !status; i++)
        status = worklist_add_file(list, session, args->manifests.items[i]);
    worklist_unique(list);
    return status;
}

static void count_item(struct tally *tally, const work_item *item)
{
    if (!item->done)
        tally->left++;
    else if (item->status)
        tally->failed++;
    else if (item->origin == KILN_ORIGIN_COMPILED)
        tally->compiled++;
    else
        tally->hits++;
    if (item->done && item->status && exit_status(item->status) != STATUS_USAGE)
        tally->only_usage = false;
    tally->compile_ms += item->compile_ms;
    tally->bytes += item->bytes;
}

static struct tally count_items(const struct worklist *list)
{
    struct tally sum = { .only_usage = true };
    for (size_t i = 0; i < list->count; i++)
        count_item(&sum, &list->items[i]);
    return sum;
}

static void print_problems(const struct worklist *list, bool all)
{
    size_t shown = 0, failed = 0;
    for (size_t i = 0; i < list->count; i++) {
        const work_item *item = &list->items[i];
        if (!item->problem)
            continue;
        failed++;
        if (!all && shown == MOST_PROBLEMS)
            continue;
        shown++;
        fail(STATUS_FAILED, "%s: %s", item->spec, item->problem);
        if (item->log)
            fprintf(stderr, "%s\n", item->log);
    }
    if (failed > shown)
        note("%zu more failed; -v shows all", failed - shown);
}

static const char *source_word(const work_item *item)
{
    return !item->done ? "not reached" : item->status ? "failed" : item->origin_name;
}

static void add_row(struct table *table, const work_item *item)
{
    bool built = item->done && !item->status;
    char ms[FORMAT_ROOM] = "", bytes[FORMAT_ROOM] = "";
    char *op = NULL, *dtype = NULL, *target = NULL;
    char *geometry = spectext_geometry(item->spec);
    if (!spectext_field(&op, item->spec, "op")) /* a template with arithmetic of its own */
        spectext_field(&op, item->spec, "template");
    spectext_field(&dtype, item->spec, "dtype");
    spectext_field(&target, item->spec, "target");
    if (built && item->origin == KILN_ORIGIN_COMPILED)
        snprintf(ms, sizeof(ms), "%.1f", item->compile_ms);
    if (built)
        format_count(bytes, item->bytes);
    table_row(table, (const char *const[]){ op, dtype, target, geometry, source_word(item), ms, bytes });
    free(op);
    free(dtype);
    free(target);
    free(geometry);
}

static void print_items(const struct worklist *list)
{
    struct table *table = table_new("op|dtype|target|geometry|source|>ms|>bytes");
    for (size_t i = 0; i < list->count; i++)
        add_row(table, &list->items[i]);
    table_print(table, stdout);
    table_free(table);
}

/* Adds the row of one target, the first of whose items is list->items[first]; false if an earlier item has it too. */
static bool add_target_row(struct table *table, const struct worklist *list, char *const *targets, size_t first)
{
    struct tally sum = { .only_usage = true };
    for (size_t i = 0; i < first; i++)
        if (strcmp(targets[i], targets[first]) == 0)
            return false;
    size_t specs = 0;
    for (size_t i = first; i < list->count; i++) {
        if (strcmp(targets[i], targets[first]) != 0)
            continue;
        specs++;
        count_item(&sum, &list->items[i]);
    }
    char texts[5][FORMAT_ROOM], ms[FORMAT_ROOM] = "";
    if (sum.compiled)
        snprintf(ms, sizeof(ms), "%.1f", sum.compile_ms / (double)sum.compiled);
    table_row(table,
              (const char *const[]){ targets[first], format_count(texts[0], specs),
                                     format_count(texts[1], sum.compiled), format_count(texts[2], sum.hits),
                                     format_count(texts[3], sum.failed), ms, format_count(texts[4], sum.bytes) });
    return true;
}

static void print_targets(const struct worklist *list)
{
    struct table *table = table_new("target|>specs|>compiled|>hits|>failed|>ms each|>bytes");
    char **targets = need_array(NULL, list->count, sizeof(*targets));
    for (size_t i = 0; i < list->count; i++)
        if (!spectext_field(&targets[i], list->items[i].spec, "target"))
            targets[i] = need_copy("?");
    for (size_t i = 0; i < list->count; i++)
        add_target_row(table, list, targets, i);
    table_print(table, stdout);
    table_free(table);
    for (size_t i = 0; i < list->count; i++)
        free(targets[i]);
    free(targets);
}

static json_t *item_json(const work_item *item)
{
    json_t *object = json_new();
    json_put_text(object, "spec", item->spec);
    json_put_text(object, "source", source_word(item));
    json_put_real(object, "compile_ms", item->compile_ms);
    json_put_count(object, "bytes", item->bytes);
    if (item->problem)
        json_put_text(object, "problem", item->problem);
    return object;
}

static void print_json(const struct worklist *list, const struct tally *sum, double seconds, const warm_args *args,
                       const kiln_service *service)
{
    json_t *object = json_new();
    json_put_count(object, "specs", list->count);
    json_put_count(object, "compiled", sum->compiled);
    json_put_count(object, "hits", sum->hits);
    json_put_count(object, "failed", sum->failed);
    json_put_count(object, "skipped", list->skipped);
    json_put_real(object, "seconds", seconds);
    if (args->stats)
        json_put(object, "stats", counters_json(service));
    if (args->common.verbose) {
        json_t *items = json_list();
        for (size_t i = 0; i < list->count; i++)
            json_add(items, item_json(&list->items[i]));
        json_put(object, "results", items);
    }
    json_print(object);
}

static void print_text(const struct worklist *list, const struct tally *sum, double seconds, bool all)
{
    if (list->count > MOST_ROWS && !all)
        print_targets(list);
    else
        print_items(list);
    printf("%s%zu spec%s: %zu compiled, %zu hits, %zu failed in %.2f s\n", list->count ? "\n" : "", list->count,
           list->count == 1 ? "" : "s", sum->compiled, sum->hits, sum->failed, seconds);
}

static int warm(struct worklist *list, struct session *session, const warm_args *args)
{
    double start = now_seconds();
    int status = collect(list, session, args);
    if (status)
        return status;
    if (args->check)
        return warm_check(list, session, args->common.json);
    bool stopped = crew_work(list, session->service, args->threads, args->common.verbose);
    double seconds = now_seconds() - start;
    struct tally sum = count_items(list);
    print_problems(list, args->common.verbose);
    if (args->common.json)
        print_json(list, &sum, seconds, args, session->service);
    else
        print_text(list, &sum, seconds, args->common.verbose);
    if (args->stats && !args->common.json)
        counters_print(session->service, stdout);
    if (stopped && sum.left)
        return fail(STATUS_FAILED, "interrupted: %zu of %zu specs were not reached", sum.left, list->count);
    if (sum.failed == 0)
        return STATUS_DONE;
    return sum.failed == list->count && sum.only_usage ? STATUS_USAGE : STATUS_FAILED;
}

int command_warm(int argc, char **argv)
{
    warm_args args = { .common.strict = KILN_OFF }; /* KILN_STRICT is for who uses what was warmed */
    int status = parse_args(&args, argc, argv);
    if (status == OPTIONS_GO_ON) {
        struct session session;
        struct worklist list = { .target = args.target, .device_name = args.common.device, .unasked = args.check };
        status = session_open(&session, &args.common);
        if (!status)
            status = warm(&list, &session, &args);
        worklist_free(&list);
        session_close(&session);
    }
    free(args.specs.items);
    free(args.manifests.items);
    return status;
}
