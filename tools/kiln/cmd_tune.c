#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/tune.h>

#include "commands.h"
#include "format.h"
#include "jsonout.h"
#include "options.h"
#include "progress.h"
#include "spectext.h"
#include "table.h"
#include "trials.h"

enum { MOST_ROWS = 10 };

typedef struct tune_args {
    text_list specs;
    const char *size, *csv, *plot;
    uint32_t budget;
    bool hot, all, no_learn;
    common_args common;
} tune_args;

/* One line of specs at work. */
typedef struct tuning_work {
    struct session *session;
    const tune_args *args;
    uint64_t elements;
    struct progress progress;
    json_t *results; /* with --json */
    struct trials trials;
    size_t done;
    int status;
} tuning_work;

static const struct usage usage = {
    "kiln tune SPEC... [--size N|AxB] [--budget SECONDS] [--hot] [--all] [--no-learn] [--csv FILE] [--plot FILE.svg]\n"
    "                 [options]",
    "Finds the fastest geometry of each spec: compiles the variants that its open fields allow, checks the\n"
    "result of each against the cpu backend bit for bit, and times them against each other until no other\n"
    "can be more than 0.5% faster than the winner. Ctrl-C ends it with what is known by then. The arrays do\n"
    "not fit into the caches, unless --hot lets them. Fields may be lists: dtype=f32,f16 tunes both.\n"
    "The winner is kept as wisdom: specs that leave their geometry open take it from then on.",
    "  kiln tune 'op=hardsigmoid dtype=f32' --size 4096x393216\n"
    "  kiln tune 'op=add dtype=f16,bf16' --budget 5",
};

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

/* The second Ctrl-C ends the command at once. */
static void catch_interrupt(void)
{
    struct sigaction action = { .sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART };
    sigaction(SIGINT, &action, NULL);
}

static int parse_args(tune_args *args, uint64_t *elements, int argc, char **argv)
{
    const option_row rows[] = {
        { "size", 's', OPTION_TEXT, "N|AxB", "elements of each array; default 2^26 on a GPU, 2^22 on the cpu",
          &args->size },
        { "budget", 'b', OPTION_NUMBER, "SECONDS", "end after so long; default 30", &args->budget },
        { "hot", 0, OPTION_FLAG, NULL, "let the arrays stay in the caches", &args->hot },
        { "all", 'a', OPTION_FLAG, NULL, "print every variant, not the fastest ten", &args->all },
        { "no-learn", 0, OPTION_FLAG, NULL, "do not keep the winner as wisdom", &args->no_learn },
        { "csv", 0, OPTION_TEXT, "FILE", "write a row for each variant, - for stdout", &args->csv },
        { "plot", 0, OPTION_TEXT, "FILE.svg", "draw a heat map of block and elems", &args->plot },
    };
    int status = options_parse(&usage, rows, sizeof(rows) / sizeof(rows[0]), &args->common, &args->specs, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    if (args->specs.count == 0)
        return options_wrong(&usage, "no SPEC given, expected one such as op=hardsigmoid");
    if (args->size && !parse_size(elements, args->size))
        return options_wrong(&usage, "--size %s is not a size; expected 1048576, 2^20, 64M or 4096x393216", args->size);
    return resultfile_check(&usage, args->csv, args->plot, args->common.json) ? STATUS_USAGE : status;
}

static int on_progress(void *data, const kiln_tuning_info *info)
{
    tuning_work *work = data;
    work->progress.total = info->variants;
    progress_show(&work->progress, info->ready + info->out, info->out);
    return interrupted;
}

static void put_trial(json_t *list, const kiln_trial *trial, uint64_t bytes)
{
    json_t *object = json_new();
    json_put_text(object, "spec", trial->spec);
    json_put_text(object, "verdict", kiln_verdict_name(trial->verdict));
    json_put_text(object, "problem", trial->problem);
    json_put_real(object, "time_ms", trial->median_ms);
    json_put_real(object, "gbps", gigabytes_per_second(bytes, trial->median_ms));
    json_put_real(object, "ratio", trial->ratio);
    json_put_real(object, "ratio_low", trial->low);
    json_put_real(object, "ratio_high", trial->high);
    json_put_count(object, "samples", trial->samples);
    if (trial->registers >= 0)
        json_put_count(object, "registers", (uint64_t)trial->registers);
    else
        json_put_null(object, "registers");
    json_add(list, object);
}

static json_t *tuning_json(const kiln_tuning *tuning, const kiln_tuning_info *info)
{
    json_t *object = json_new(), *trials = json_list();
    kiln_trial trial = { .size = sizeof(trial) };
    json_put_text(object, "device", info->device);
    json_put_count(object, "elements", info->elements);
    json_put_count(object, "bytes", info->bytes);
    json_put_count(object, "variants", info->variants);
    json_put_count(object, "impossible", info->impossible);
    json_put_count(object, "out", info->out);
    json_put_count(object, "rounds", info->rounds);
    json_put_count(object, "samples", info->samples);
    json_put_real(object, "default_ms", info->default_ms);
    json_put_real(object, "regret", info->regret);
    json_put_real(object, "seconds", info->seconds);
    json_put_text(object, "end", info->end);
    json_put_bool(object, "learnt", info->learnt);
    json_put_text(object, "wisdom", info->wisdom);
    json_put_text(object, "not_learnt", info->not_learnt);
    for (uint64_t i = 0; kiln_tuning_trial(tuning, i, &trial) == KILN_OK; i++) {
        if (i == 0)
            json_put_text(object, "spec", trial.spec);
        put_trial(trials, &trial, info->bytes);
    }
    json_put(object, "trials", trials);
    return object;
}

static void add_row(struct table *table, const kiln_trial *trial, uint64_t bytes)
{
    char ms[FORMAT_ROOM] = "", rate[FORMAT_ROOM] = "", ratio[FORMAT_ROOM] = "", interval[FORMAT_ROOM] = "",
         samples[FORMAT_ROOM] = "", registers[FORMAT_ROOM] = "";
    char *geometry = spectext_geometry(trial->spec);
    if (trial->median_ms > 0) {
        format_ms_plain(ms, trial->median_ms);
        snprintf(rate, sizeof(rate), "%.1f", gigabytes_per_second(bytes, trial->median_ms));
        snprintf(ratio, sizeof(ratio), "%.4f", trial->ratio);
        snprintf(interval, sizeof(interval), "%.4f..%.4f", trial->low, trial->high);
        snprintf(samples, sizeof(samples), "%" PRIu64, trial->samples);
    }
    if (trial->registers >= 0 && trial->verdict != KILN_VERDICT_OUT)
        snprintf(registers, sizeof(registers), "%d", trial->registers);
    table_row(table, (const char *const[]){ geometry, ms, rate, ratio, interval, samples, registers,
                                            kiln_verdict_name(trial->verdict), trial->problem });
    free(geometry);
}

static void print_tuning(const kiln_tuning *tuning, const kiln_tuning_info *info, bool all)
{
    char bytes[FORMAT_ROOM];
    kiln_trial trial = { .size = sizeof(trial) };
    if (kiln_tuning_trial(tuning, 0, &trial) != KILN_OK)
        return;
    printf("%s\n", trial.spec);
    printf("%s: %" PRIu64 " elements, %s read and written; %" PRIu64 " variants, %" PRIu64 " of them out, %" PRIu64
           " impossible; %s after %" PRIu64 " samples in %.2f s",
           info->device, info->elements, format_bytes(bytes, info->bytes), info->variants, info->out, info->impossible,
           info->end, info->samples, info->seconds);
    if (info->regret >= 0)
        printf("; at most %.2f%% slower than the best", info->regret * 100);
    printf("\n");
    struct table *table = table_new("geometry|>ms|>GB/s|>time / default|95%|>samples|>registers|verdict|problem");
    for (uint64_t i = 0; kiln_tuning_trial(tuning, i, &trial) == KILN_OK && (all || i < MOST_ROWS); i++)
        add_row(table, &trial, info->bytes);
    table_print(table, stdout);
    table_free(table);
    if (!all && info->variants > MOST_ROWS)
        printf("and %" PRIu64 " more; --all prints them\n", info->variants - MOST_ROWS);
    if (info->learnt)
        printf("learnt: specs that leave their geometry open take it, from %s\n", info->wisdom);
    else
        printf("not learnt: %s\n", info->not_learnt);
}

static int tune_one(void *data, kiln_spec *spec)
{
    tuning_work *work = data;
    kiln_tune_options options = KILN_TUNE_OPTIONS_INIT;
    kiln_tuning_info info = { .size = sizeof(info) };
    kiln_tuning *tuning = NULL;
    options.elements = work->elements;
    options.budget_s = work->args->budget;
    options.hot = work->args->hot;
    options.learn = work->args->no_learn ? -1 : 0;
    options.progress = on_progress;
    options.data = work;
    progress_start(&work->progress, 0, false);
    kiln_status status = kiln_tune(&tuning, work->session->service, spec, &options, &work->session->report);
    progress_end();
    if (status == KILN_OK)
        status = kiln_tuning_get_info(tuning, &info);
    json_t *result = status == KILN_OK ? tuning_json(tuning, &info) : NULL;
    if (status != KILN_OK) {
        work->status = session_fail(work->session, status, NULL);
    } else if (work->results) {
        json_add(work->results, json_incref(result));
    } else {
        printf("%s", work->done++ ? "\n" : "");
        print_tuning(tuning, &info, work->args->all);
    }
    if (work->status == STATUS_DONE)
        work->status = trials_add_tuned(&work->trials, work->session, result);
    json_decref(result);
    kiln_tuning_free(tuning);
    return work->status != STATUS_DONE || interrupted;
}

static int tune(struct session *session, const tune_args *args, uint64_t elements)
{
    tuning_work work = { .session = session, .args = args, .elements = elements };
    if (args->common.json)
        work.results = json_list();
    catch_interrupt();
    work.status = trials_open(&work.trials, args->csv, args->plot);
    for (size_t i = 0; i < args->specs.count && work.status == STATUS_DONE && !interrupted; i++) {
        kiln_status status =
            kiln_spec_expand(session->service, args->specs.items[i], tune_one, &work, &session->report);
        if (status != KILN_OK)
            work.status = session_fail(session, status, NULL);
    }
    if (work.results) {
        json_t *object = json_new();
        json_put(object, "results", work.results);
        json_print(object);
    }
    if (work.status == STATUS_DONE)
        work.status = trials_write(&work.trials);
    trials_close(&work.trials);
    return work.status;
}

int command_tune(int argc, char **argv)
{
    tune_args args = { .size = NULL };
    uint64_t elements = 0;
    int status = parse_args(&args, &elements, argc, argv);
    if (status == OPTIONS_GO_ON) {
        struct session session;
        status = session_open(&session, &args.common);
        if (!status)
            status = tune(&session, &args, elements);
        session_close(&session);
    }
    free(args.specs.items);
    return status;
}
