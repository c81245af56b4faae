#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "commands.h"
#include "kernels/argvalues.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/spectext.h"
#include "text/table.h"
#include "tune/sweepset.h"
#include "tune/variants.h"

enum { ROUNDS = 30 };

typedef struct sweep_args {
    text_list specs;
    arg_texts texts;
    const char *csv, *plot;
    uint32_t rounds;
    bool hot;
    common_args common;
} sweep_args;

typedef struct sweep_work {
    struct session *session;
    const sweep_args *args;
    struct sweepset set;
    struct variants variants;
    struct progress progress;
    bool measuring;  /* the bar shows samples, not variants */
    json_t *results; /* with --json */
    bool out;        /* a variant is out */
} sweep_work;

static const struct usage usage = {
    "kiln sweep SPEC|FILE.cu... --size N|NAME=N [--arg NAME=VALUE]... [--rounds N] [--hot] [--csv FILE] [--plot "
    "PICTURE] [options]",
    "Measures every variant that the open fields of a spec allow: compiles all of them, checks the result of each\n"
    "against the cpu backend bit for bit, and times each once in every round, beside two plain copies of as many\n"
    "bytes. Nothing is left out; kiln tune finds the fastest sooner. Fields may be lists and ranges:\n"
    "block=64..1024*2. Kernels that take a GPU less than 20 us are replayed from a graph, so that their time is not\n"
    "what the host needs to launch them. Ctrl-C ends it with what is known by then. The arrays do not fit into the\n"
    "caches, unless --hot lets them. gnuplot draws the picture; kiln plot does so later, from the table.",
    "  kiln sweep 'op=hardsigmoid dtype=f32' --size 4096x393216 --plot hardsigmoid.svg\n"
    "  kiln sweep 'op=add dtype=f16,bf16 vector=4 elems=4..16*2' --size 2^26 --csv -\n"
    "  kiln sweep transpose.cu --size rows=8192 --size cols=4096 --csv -",
};

static int parse_args(sweep_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        { "size", 's', OPTION_LIST, "N|NAME=N", "elements of each array; or a size of a template of your own",
          &args->texts.sizes },
        { "arg", 0, OPTION_LIST, "NAME=VALUE", "a number that a kernel of your own takes", &args->texts.numbers },
        { "rounds", 'r', OPTION_NUMBER, "N", "timed rounds; default 30", &args->rounds },
        { "hot", 0, OPTION_FLAG, NULL, "let the arrays stay in the caches", &args->hot },
        { "csv", 0, OPTION_TEXT, "FILE", "write a row for each variant, - for stdout", &args->csv },
        { "plot", 0, OPTION_TEXT, "PICTURE", "draw the speeds; FILE.svg, FILE.png or FILE.pdf", &args->plot },
    };
    int status = options_parse(&usage, rows, sizeof(rows) / sizeof(rows[0]), &args->common, &args->specs, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    status = options_take_files(&args->specs);
    if (status != OPTIONS_GO_ON)
        return status;
    if (args->specs.count == 0)
        return options_wrong(&usage, "no SPEC given, expected one such as op=hardsigmoid");
    if (args->rounds > 100000)
        return options_wrong(&usage, "--rounds %u is too many; expected at most 100000", args->rounds);
    if (args->rounds == 0)
        args->rounds = ROUNDS;
    status = results_check(&usage, args->csv, args->plot, args->common.json);
    return status ? status : OPTIONS_GO_ON;
}

/* A bar for the variants that are compiled and checked, then one for the samples. */
static int on_progress(void *data, const kiln_tuning_info *info)
{
    sweep_work *work = data;
    if (info->waiting == 0 && !work->measuring) {
        work->measuring = true;
        progress_start(&work->progress, info->verified * (work->args->rounds + UINT64_C(1)), false);
    }
    if (work->measuring)
        progress_show(&work->progress, info->samples, info->rejected);
    else
        progress_show(&work->progress, info->verified + info->rejected, info->rejected);
    return interrupt_seen();
}

/* ---- What is printed */

static void put_variant(json_t *list, const variant_row *one)
{
    json_t *object = json_new();
    json_put_text(object, "spec", one->spec);
    json_put_text(object, "verdict", one->verdict);
    json_put_text(object, "problem", one->problem);
    json_put_real(object, "time_ms", one->ms);
    json_put_real(object, "gbps", one->gbps);
    json_put_real(object, "ratio", one->ratio);
    json_put_real(object, "ratio_low", one->low);
    json_put_real(object, "ratio_high", one->high);
    json_put_real(object, "ceiling_ratio", one->ceiling_ratio);
    json_put_count(object, "samples", one->samples);
    json_put_known(object, "registers", one->registers);
    json_put_known(object, "local_bytes", one->local_bytes);
    json_add(list, object);
}

static json_t *group_json(const variant_group *group, const char *compared, const kiln_tuning_info *info)
{
    json_t *object = json_new(), *variants = json_list(), *gaps = json_list();
    json_put_text(object, "device", group->device);
    json_put_text(object, "model", group->model);
    json_put_count(object, "elements", group->elements);
    json_put_count(object, "bytes", group->bytes);
    json_put_count(object, "rounds", info->rounds);
    json_put_count(object, "variants", info->variants);
    json_put_count(object, "out", info->rejected);
    json_put_text(object, "compared_with", compared);
    json_put_real(object, "ceiling_ms", info->ceiling_ms);
    json_put_real(object, "ceiling_gbps", group->ceiling_gbps);
    json_put_real(object, "seconds", info->seconds);
    json_put_text(object, "end", info->end);
    json_put_text(object, "against", info->verified_by);
    for (size_t i = 0; i < group->count; i++)
        put_variant(variants, &group->variants[i]);
    for (size_t i = 0; i < group->gap_count; i++) {
        json_t *gap = json_new();
        json_put_text(gap, "spec", group->gaps[i].spec);
        json_put_text(gap, "problem", group->gaps[i].problem);
        json_add(gaps, gap);
    }
    json_put(object, "variant_results", variants);
    json_put(object, "impossible", gaps);
    return object;
}

static void add_row(struct table *table, const variant_row *one)
{
    char ms[FORMAT_ROOM] = "", rate[FORMAT_ROOM] = "", copy[FORMAT_ROOM] = "", ratio[FORMAT_ROOM] = "",
         interval[FORMAT_ROOM] = "", registers[FORMAT_ROOM] = "";
    char *geometry = spectext_geometry(one->spec);
    if (one->ms > 0) {
        format_ms_plain(ms, one->ms);
        snprintf(rate, sizeof(rate), "%.1f", one->gbps);
        snprintf(ratio, sizeof(ratio), "%.4f", one->ratio);
    }
    if (one->ceiling_ratio > 0)
        snprintf(copy, sizeof(copy), "%.4f", one->ceiling_ratio);
    if (one->low > 0 && one->low < one->high)
        snprintf(interval, sizeof(interval), "%.4f..%.4f", one->low, one->high);
    if (one->registers >= 0)
        snprintf(registers, sizeof(registers), "%d", one->registers);
    table_row(table, (const char *const[]){ geometry, ms, rate, copy, ratio, interval, registers, one->verdict,
                                            one->problem });
    free(geometry);
}

static void print_group(const variant_group *group, const sweep_kind *kind, const kiln_tuning_info *info)
{
    char bytes[FORMAT_ROOM], seconds[FORMAT_ROOM];
    char *compared = spectext_geometry(kind->specs[0]);
    printf("%s\n", kind->name);
    printf("%s (%s): %" PRIu64 " elements, %s read and written; %" PRIu64 " variants, %" PRIu64 " of them out, %zu "
           "impossible; %" PRIu64 " rounds in %s\n",
           group->device, group->model, group->elements, format_bytes(bytes, group->bytes), info->variants,
           info->rejected, group->gap_count, info->rounds, format_ms(seconds, info->seconds * 1e3));
    if (group->ceiling_gbps > 0)
        printf("a plain copy: %.1f GB/s; ", group->ceiling_gbps);
    printf("compared with %s", compared);
    if (strcmp(info->verified_by, "the cpu backend") != 0)
        printf("; results agree with %s", info->verified_by);
    printf("\n");
    struct table *table = table_new("geometry|>ms|>GB/s|>time / copy|>time / that|>95%|>registers|verdict|problem");
    for (size_t i = 0; i < group->count; i++)
        add_row(table, &group->variants[i]);
    table_print(table, stdout);
    table_free(table);
    free(compared);
}

/* ---- The way through */

/* What the kind is measured with, or the exit status after a message. */
static int read_values(arg_values *out, sweep_work *work, const char *text)
{
    kiln_spec *spec = NULL;
    kiln_status status = kiln_spec_parse(&spec, work->session->service, text, &work->session->report);
    if (status)
        return session_fail(work->session, status, NULL);
    char *problem = argvalues_read(out, spec, &work->args->texts);
    bool missing = !problem && !argvalues_wanted(spec) && out->elements == 0;
    kiln_spec_free(spec);
    if (missing)
        return options_wrong(&usage, "--size is missing; expected --size N such as 2^26 or 4096x393216");
    int result = problem ? options_wrong(&usage, "%s", problem) : STATUS_DONE;
    free(problem);
    return result;
}

static int keep(sweep_work *work, const sweep_kind *kind, const kiln_tuning *tuning)
{
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    int result = variants_add(&work->variants, work->session, tuning);
    if (result || kiln_tuning_get_info(tuning, &info) != KILN_OK)
        return result ? result : STATUS_FAILED;
    for (size_t i = 0; i < kind->gap_count; i++)
        variants_add_gap(&work->variants, kind->gaps[i].spec, kind->gaps[i].problem);
    const variant_group *group = &work->variants.groups[work->variants.count - 1];
    work->out |= info.rejected > 0;
    if (work->results) {
        json_add(work->results, group_json(group, kind->specs[0], &info));
    } else {
        printf("%s", work->variants.count > 1 ? "\n" : "");
        print_group(group, kind, &info);
    }
    return STATUS_DONE;
}

static int sweep_kind_of(sweep_work *work, const sweep_kind *kind)
{
    const sweep_args *args = work->args;
    kiln_sweep_options options = KILN_INIT(kiln_sweep_options);
    kiln_tuning *tuning = NULL;
    arg_values values = { .elements = 0 };
    int wrong = read_values(&values, work, kind->specs[0]);
    if (wrong)
        return wrong;
    kiln_work values_work = argvalues_work(&values);
    values_work.hot = args->hot;
    options.work = &values_work;
    options.rounds = args->rounds;
    options.progress = on_progress;
    options.data = work;
    work->measuring = false;
    progress_start(&work->progress, kind->count, false);
    kiln_status status = sweepset_measure(&tuning, work->session, kind->specs, kind->count, &options);
    progress_end();
    int result = status ? session_fail(work->session, status, NULL) : keep(work, kind, tuning);
    kiln_tuning_free(tuning);
    return result;
}

static int find_variants(sweep_work *work)
{
    int result = STATUS_DONE;
    for (size_t i = 0; i < work->args->specs.count && !result; i++)
        result = sweepset_add(&work->set, work->session, work->args->specs.items[i]);
    if (!result)
        result = sweepset_order(&work->set, work->session);
    arg_values ignored;
    for (size_t i = 0; i < work->set.count && !result; i++)
        result = read_values(&ignored, work, work->set.kinds[i].specs[0]);
    return result;
}

static int sweep(sweep_work *work)
{
    int result = find_variants(work);
    if (result)
        return result;
    interrupt_catch();
    for (size_t i = 0; i < work->set.count && !result && !interrupt_seen(); i++)
        result = sweep_kind_of(work, &work->set.kinds[i]);
    if (work->results && !result) {
        json_t *object = json_new();
        json_put(object, "results", json_incref(work->results));
        json_print(object);
    }
    if (!result)
        result = variants_write(&work->variants);
    if (interrupt_seen() && !result)
        result = fail(STATUS_FAILED, "interrupted: not everything was measured");
    if (result)
        return result;
    return work->out ? fail(STATUS_FAILED, "not every variant can be used: the column 'problem' says why")
                     : STATUS_DONE;
}

int command_sweep(int argc, char **argv)
{
    sweep_args args = { .csv = NULL };
    int status = parse_args(&args, argc, argv);
    if (status == OPTIONS_GO_ON) {
        struct session session;
        sweep_work work = { .session = &session, .args = &args };
        status = variants_open(&work.variants, args.csv, args.plot);
        if (args.common.json)
            work.results = json_list();
        if (!status) {
            status = session_open(&session, &args.common);
            if (!status)
                status = sweep(&work);
            session_close(&session);
        }
        json_decref(work.results);
        sweepset_free(&work.set);
        variants_close(&work.variants);
    }
    free(args.specs.items);
    free(args.texts.sizes.items);
    free(args.texts.numbers.items);
    return status;
}
