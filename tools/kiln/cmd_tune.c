#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "commands.h"
#include "text/format.h"
#include "text/spectext.h"
#include "text/table.h"
#include "tune/tunecrew.h"
#include "tune/tunedvariants.h"

enum { MOST_ROWS = 10, HANG_S = 20 };

typedef struct tune_args {
    text_list specs;
    arg_texts texts;
    const char *csv, *plot;
    uint32_t budget, hang;
    bool hot, all, no_learn, sandbox, no_sandbox;
    common_args common;
} tune_args;

/* What is done with results. */
typedef struct tune_output {
    struct session *session;
    bool all;
    json_t *results; /* with --json */
    struct variants variants;
    size_t done;
    int status;
} tune_output;

static const struct usage usage = {
    "kiln tune SPEC|FILE.cu... [--size N|NAME=N]... [--arg NAME=VALUE]... [--budget SECONDS] [--hot] [--all]\n"
    "                 [--no-learn] [--sandbox|--no-sandbox] [--csv FILE] [--plot PICTURE] [options]",
    "Finds the fastest geometry of each spec: compiles the variants that its open fields allow, checks the\n"
    "result of each against the cpu backend bit for bit, and times them against each other until no other\n"
    "can be more than 0.5% faster than the winner. Ctrl-C ends it with what is known by then. The arrays do\n"
    "not fit into the caches, unless --hot lets them. Fields may be lists: dtype=f32,f16 tunes both.\n"
    "The winner is kept as wisdom: specs that leave their geometry open take it from then on.\n"
    "FILE.cu is a template of your own. One whose arrays are not all of one size wants a value for each of its sizes "
    "and\n"
    "each number that is given at launch; its variants are checked against its cpu twin, or against each other.\n"
    "\n"
    "--device may be a list, or all: devices of one model share the specs, each model tunes all of them.\n"
    "A template of your own is tuned in a process of its own, because it may crash, or break the device: that is\n"
    "started again without the variant that did so, eight times at most. --sandbox does so for all specs,\n"
    "--no-sandbox for none.",
    "  kiln tune 'op=hardsigmoid dtype=f32' --size 4096x393216\n"
    "  kiln tune 'op=add dtype=f16,bf16' --budget 5\n"
    "  kiln tune 'op=relu6,hardtanh dtype=f32,f16' --device all\n"
    "  kiln tune transpose.cu --size rows=8192 --size cols=4096",

};

static int parse_args(tune_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        { "size", 's', OPTION_LIST, "N|NAME=N",
          "elements of each array, default 2^26 on a GPU, 2^22 on the cpu; or a size", &args->texts.sizes },
        { "arg", 0, OPTION_LIST, "NAME=VALUE", "a number that a kernel of your own takes", &args->texts.numbers },
        { "budget", 'b', OPTION_NUMBER, "SECONDS", "end after so long; default 30", &args->budget },
        { "hot", 0, OPTION_FLAG, NULL, "let the arrays stay in the caches", &args->hot },
        { "all", 'a', OPTION_FLAG, NULL, "print every variant, not the fastest ten", &args->all },
        { "no-learn", 0, OPTION_FLAG, NULL, "do not keep the winner as wisdom", &args->no_learn },
        { "csv", 0, OPTION_TEXT, "FILE", "write a row for each variant, - for stdout", &args->csv },
        { "plot", 0, OPTION_TEXT, "PICTURE", "draw the speeds; FILE.svg, FILE.png or FILE.pdf", &args->plot },
        { "sandbox", 0, OPTION_FLAG, NULL, "tune in a process of its own; default for templates of your own",
          &args->sandbox },
        { "no-sandbox", 0, OPTION_FLAG, NULL, "tune in this process; default for Kiln's templates", &args->no_sandbox },
        { "hang", 0, OPTION_NUMBER, "SECONDS", "in a sandbox: a launch that takes longer hangs; default 20",
          &args->hang },
    };
    int status = options_parse(&usage, rows, sizeof(rows) / sizeof(rows[0]), &args->common, &args->specs, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    status = options_take_files(&args->specs);
    if (status != OPTIONS_GO_ON)
        return status;
    if (args->specs.count == 0)
        return options_wrong(&usage, "no SPEC given, expected one such as op=hardsigmoid");
    if (args->sandbox && args->no_sandbox)
        return options_wrong(&usage, "--sandbox and --no-sandbox exclude each other");
    if (args->hang && args->no_sandbox)
        return options_wrong(&usage, "--hang and --no-sandbox exclude each other: only a process of its own can be "
                                     "ended");
    return results_check(&usage, args->csv, args->plot, args->common.json) ? STATUS_USAGE : status;
}

/* ---- Results */

static void add_row(struct table *table, const variant_row *row)
{
    char ms[FORMAT_ROOM] = "", rate[FORMAT_ROOM] = "", ratio[FORMAT_ROOM] = "", interval[FORMAT_ROOM] = "",
         samples[FORMAT_ROOM] = "", registers[FORMAT_ROOM] = "";
    char *geometry = spectext_geometry(row->spec);
    if (row->ms > 0) {
        format_ms_plain(ms, row->ms);
        snprintf(rate, sizeof(rate), "%.1f", row->gbps);
        snprintf(ratio, sizeof(ratio), "%.4f", row->ratio);
        /* Infinity, which a few samples leave possible, is shown as 0. */
        snprintf(interval, sizeof(interval), "%.4f..%.4f", row->low, isfinite(row->high) ? row->high : 0);
        snprintf(samples, sizeof(samples), "%" PRIu64, row->samples);
    }
    if (row->registers >= 0 && !*row->problem)
        snprintf(registers, sizeof(registers), "%d", row->registers);
    table_row(table, (const char *const[]){ geometry, ms, rate, ratio, interval, samples, registers, row->verdict,
                                            row->problem });
    free(geometry);
}

/* What was measured with, and what the results agree with, where that is not the cpu backend. */
static void print_basis(const tune_result *result)
{
    const arg_texts *values = &result->values;
    for (size_t i = 0; i < values->sizes.count; i++)
        printf("%s; ", values->sizes.items[i]);
    for (size_t i = 0; i < values->numbers.count; i++)
        printf("%s; ", values->numbers.items[i]);
    if (result->has_values || strcmp(result->against, "the cpu backend") != 0)
        printf("results agree with %s\n", result->against);
}

static void print_tuning(const tune_result *result, bool all)
{
    char bytes[FORMAT_ROOM];
    size_t count = result->row_count;
    printf("%s\n", result->spec);
    printf("%s: %" PRIu64 " elements, %s read and written; %zu variants, %" PRIu64 " of them out, %" PRIu64
           " impossible; %s after %" PRIu64 " samples in %.2f s",
           result->device, result->elements, format_bytes(bytes, result->bytes), count, result->out, result->impossible,
           result->end, result->samples, result->seconds);
    if (result->regret >= 0)
        printf("; at most %.2f%% slower than the best", result->regret * 100);
    printf("\n");
    print_basis(result);
    struct table *table = table_new("geometry|>ms|>GB/s|>time / default|95%|>samples|>registers|verdict|problem");
    for (size_t i = 0; i < count && (all || i < MOST_ROWS); i++)
        add_row(table, &result->rows[i]);
    table_print(table, stdout);
    table_free(table);
    if (!all && count > MOST_ROWS)
        printf("and %zu more; --all prints them\n", count - MOST_ROWS);
    if (result->learnt)
        printf("learnt: specs that leave their geometry open take it, from %s\n", result->wisdom);
    else
        printf("not learnt: %s\n", result->not_learnt);
}

static int fail_result(const tune_result *result)
{
    kiln_report report = KILN_INIT(kiln_report);
    snprintf(report.message, sizeof(report.message), "%s", result->message);
    report.log = result->log;
    return fail_report(result->status, &report, NULL);
}

static bool take_result(void *data, const tune_result *result)
{
    tune_output *output = data;
    if (result->status) {
        output->status = fail_result(result);
    } else if (output->results) {
        json_add(output->results, tune_result_json(result));
    } else {
        printf("%s", output->done++ ? "\n" : "");
        print_tuning(result, output->all);
        fflush(stdout);
    }
    if (output->status == STATUS_DONE)
        output->status = tunedvariants_add(&output->variants, output->session, result);
    return output->status == STATUS_DONE;
}

/* ---- The command */

/* Where specs go. */
typedef struct tune_list {
    tune_crew *crew;
    const tune_args *args;
    int status;
} tune_list;

/* What is known of the template that a spec names. */
typedef struct template_search {
    const char *name;
    bool own; /* it is a user's */
} template_search;

static int find_own(void *data, const kiln_template_info *info)
{
    template_search *search = data;
    search->own = search->own || (*info->origin && strcmp(info->name, search->name) == 0);
    return 0;
}

static bool wants_sandbox(const tune_list *list, const char *spec)
{
    template_search search = { NULL, false };
    char *name = NULL;
    if (list->args->sandbox || list->args->no_sandbox)
        return list->args->sandbox;
    if (spectext_field(&name, spec, "template")) {
        search.name = name;
        kiln_templates(list->crew->service, find_own, &search);
    }
    free(name);
    return search.own;
}

static int add_spec(void *data, const kiln_spec *spec)
{
    tune_list *list = data;
    tune_crew *crew = list->crew;
    arg_values values;
    char *problem = argvalues_read(&values, spec, &list->args->texts);
    if (problem) {
        list->status = options_wrong(&usage, "%s", problem);
        free(problem);
        return 1;
    }
    char *text = need_copy(kiln_spec_text(spec));
    crew->specs = need_array(crew->specs, crew->spec_count + 1, sizeof(*crew->specs));
    crew->boxed = need_array(crew->boxed, crew->spec_count + 1, sizeof(*crew->boxed));
    crew->boxed[crew->spec_count] = wants_sandbox(list, text);
    crew->specs[crew->spec_count++] = text;
    return 0;
}

static int tune(struct session *session, const tune_args *args, const char *devices)
{
    tune_crew crew = {
        .service = session->service,
        .like = { .texts = args->texts, .budget = args->budget, .hot = args->hot, .no_learn = args->no_learn },
        .box = { .common = &args->common, .hang_s = args->hang ? args->hang : HANG_S, .view_fd = -1 }
    };
    tune_list list = { &crew, args, STATUS_DONE };
    tune_output output = { .session = session, .all = args->all, .results = args->common.json ? json_list() : NULL };
    kiln_status status = KILN_OK;
    output.status = variants_open(&output.variants, args->csv, args->plot);
    for (size_t i = 0; i < args->specs.count && !status && output.status == STATUS_DONE; i++) {
        status = kiln_spec_expand(session->service, args->specs.items[i], add_spec, &list, &session->report);
        output.status = list.status;
    }
    if (status)
        output.status = session_fail(session, status, NULL);
    else if (output.status == STATUS_DONE)
        output.status = tune_crew_devices(&crew, session, devices);
    if (output.status == STATUS_DONE)
        tune_crew_work(&crew, take_result, &output);
    if (output.results) {
        json_t *object = json_new();
        json_put(object, "results", output.results);
        json_print(object);
    }
    if (output.status == STATUS_DONE)
        output.status = variants_write(&output.variants);
    variants_close(&output.variants);
    tune_crew_free(&crew);
    return output.status;
}

int command_tune(int argc, char **argv)
{
    tune_args args = { .csv = NULL };
    if (argc > 1 && strcmp(argv[1], SANDBOX_FLAG) == 0)
        return sandbox_child();
    int status = parse_args(&args, argc, argv);
    if (status == OPTIONS_GO_ON) {
        struct session session;
        const char *devices = args.common.device;
        if (devices && (strchr(devices, ',') || strcmp(devices, "all") == 0))
            args.common.device = NULL; /* each job names its own */
        status = session_open(&session, &args.common);
        if (!status)
            status = tune(&session, &args, devices);
        session_close(&session);
    }
    free(args.specs.items);
    free(args.texts.sizes.items);
    free(args.texts.numbers.items);
    return status;
}
