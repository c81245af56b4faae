/* kiln sweep: measures every variant of the specs. Variants of one op, dtype, target and template are a kind, and are
 * measured together. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "commands.h"
#include "kernels/argvalues.h"
#include "text/format.h"
#include "text/spectext.h"
#include "text/table.h"
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

typedef struct sweep_kind {
    const char *name; /* "op=relu6 dtype=f32 target=cpu" */
    text_list specs;  /* canonical, each once; the others are compared with the first */
    variant_row *gaps;
    size_t gap_count;
} sweep_kind;

typedef struct sweep_work {
    struct session *session;
    const sweep_args *args;
    sweep_kind *kinds;
    size_t kind_count;
    kiln_status status; /* of the variants of a spec */
    struct variants variants;
    struct progress progress;
    bool measuring;  /* the bar shows samples, not variants */
    json_t *results; /* with --json */
    bool out;        /* a variant is out */
} sweep_work;

static const struct usage usage = {
    "kiln sweep SPEC... --size N|NAME=N [--arg NAME=VALUE]... [--rounds N] [--hot]\n"
    "                  [--csv FILE] [--plot PICTURE] [options]",
    "Measures every variant that the open fields of a spec allow: compiles all of them, checks the result of each\n"
    "against the cpu backend, bit for bit or within the bounds of its functions, and times each once in every\n"
    "round, beside two plain copies of as many bytes. Nothing is left out; kiln tune finds the fastest sooner.\n"
    "Fields may be lists and ranges: block=64..1024*2. Kernels that take a GPU less than 20 us are replayed from\n"
    "a graph, so that their time is not the host's time for launches. Ctrl-C ends the command with the results so\n"
    "far. The arrays do not fit into the caches, unless --hot lets them. gnuplot draws the picture; kiln plot\n"
    "does so later, from the table.",
    "  kiln sweep 'op=hardsigmoid dtype=f32' --size 4096x393216 --plot hardsigmoid.svg\n"
    "  kiln sweep 'op=add dtype=f16,bf16 vector=4 elems=4..16*2' --size 2^26 --csv -\n"
    "  kiln sweep transpose.cu --size rows=8192 --size cols=4096 --csv -",
};

static void parse_args(sweep_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        { "size", 's', OPTION_LIST, "N|NAME=N", "elements of each array; or a size of a user-defined template",
          &args->texts.sizes },
        { "arg", 0, OPTION_LIST, "NAME=VALUE", "a scalar of the op, or a number of a template", &args->texts.numbers },
        { "rounds", 'r', OPTION_NUMBER, "N", "timed rounds; default 30", &args->rounds },
        { "hot", 0, OPTION_FLAG, NULL, "let the arrays stay in the caches", &args->hot },
        { "csv", 0, OPTION_TEXT, "FILE", "write a row for each variant, - for stdout", &args->csv },
        { "plot", 0, OPTION_TEXT, "PICTURE", "draw the speeds; FILE.svg, FILE.png or FILE.pdf", &args->plot },
    };
    text_list words = { NULL, 0 };
    options_parse(&usage, OPTION_ROWS(rows), &args->common, &words, argc, argv);
    words_specs(&args->specs, &usage, &words, 0);
    if (args->rounds > 100000)
        options_refuse(&usage, "--rounds %u is too many; expected at most 100000", args->rounds);
    args->rounds = args->rounds ? args->rounds : ROUNDS;
    results_check(&usage, args->csv, args->plot, args->common.json);
}

/* ---- The variants */

static size_t find_spec(const text_list *specs, const char *spec)
{
    size_t i = 0;
    while (i < specs->count && strcmp(specs->items[i], spec) != 0)
        i++;
    return i;
}

static sweep_kind *need_kind(sweep_work *work, const char *spec)
{
    const char *name = spectext_kind(spec);
    for (size_t i = 0; i < work->kind_count; i++)
        if (strcmp(work->kinds[i].name, name) == 0)
            return &work->kinds[i];
    work->kinds = need_array(work->kinds, work->kind_count + 1, sizeof(*work->kinds));
    work->kinds[work->kind_count] = (sweep_kind){ .name = name };
    return &work->kinds[work->kind_count++];
}

static int add_variant(void *data, const kiln_variant *variant)
{
    sweep_kind *kind = need_kind(data, variant->spec);
    if (*variant->problem)
        variant_add_gap(&kind->gaps, &kind->gap_count, variant);
    else if (find_spec(&kind->specs, variant->spec) == kind->specs.count)
        text_list_add(&kind->specs, need_copy(variant->spec));
    return 0;
}

static int add_spec(void *data, const kiln_spec *spec)
{
    sweep_work *work = data;
    work->status = kiln_variants(work->session->service, spec, add_variant, work, &work->session->report);
    return work->status != KILN_OK;
}

/* The first variant that is visited is the default. */
static int put_first(void *data, const kiln_variant *variant)
{
    text_list *specs = data;
    size_t index = find_spec(specs, variant->spec);
    if (index < specs->count) {
        const char *found = specs->items[index];
        memmove(specs->items + 1, specs->items, index * sizeof(*specs->items));
        specs->items[0] = found;
    }
    return 1;
}

/* Puts the default geometry of each kind first, if it is there. */
static kiln_status order_kinds(sweep_work *work)
{
    kiln_status status = KILN_OK;
    kiln_report *report = &work->session->report;
    for (size_t i = 0; i < work->kind_count && !status; i++) {
        kiln_spec *spec = NULL;
        status = kiln_spec_parse(&spec, work->session->service, work->kinds[i].name, report);
        if (!status)
            status = kiln_variants(work->session->service, spec, put_first, &work->kinds[i].specs, report);
        kiln_spec_free(spec);
    }
    return status;
}

/* Reads the sizes and numbers for a kind. */
static int read_values(arg_values *out, bool *flat, sweep_work *work, const sweep_kind *kind)
{
    kiln_spec *spec = NULL;
    kiln_status status = kiln_spec_parse(&spec, work->session->service, kind->specs.items[0], &work->session->report);
    if (status)
        return session_status(work->session, status, NULL);
    *out = (arg_values){ .size_count = 0 };
    *flat = spec_is_flat(spec);
    const char *problem = argvalues_read(out, spec, &work->args->texts);
    kiln_spec_free(spec);
    if (!problem && *flat && out->sizes[0] == 0)
        problem = "--size is missing; expected --size N such as 2^26 or 4096x393216";
    return problem ? options_wrong(&usage, "%s", problem) : STATUS_DONE;
}

static int find_variants(sweep_work *work)
{
    kiln_status status = KILN_OK;
    arg_values ignored;
    bool flat;
    for (size_t i = 0; i < work->args->specs.count && !status; i++) {
        status = kiln_spec_expand(work->session->service, work->args->specs.items[i], add_spec, work,
                                  &work->session->report);
        status = status ? status : work->status;
    }
    int result = session_status(work->session, status ? status : order_kinds(work), NULL);
    for (size_t i = 0; i < work->kind_count && !result; i++)
        result = read_values(&ignored, &flat, work, &work->kinds[i]);
    return result;
}

/* ---- Progress */

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

/* ---- Results */

static json_t *group_json(const variant_group *group, const char *compared, const kiln_tuning_info *info)
{
    json_t *variants = json_array(), *gaps = json_array();
    for (size_t i = 0; i < group->count; i++) {
        json_t *row = variant_json(&group->rows[i]);
        json_put(row, "ceiling_ratio", json_number(group->rows[i].ceiling_ratio), NULL);
        json_add(variants, row);
    }
    for (size_t i = 0; i < group->gap_count; i++)
        json_add(gaps,
                 json_new("spec", json_text(group->gaps[i].spec), "problem", json_text(group->gaps[i].problem), NULL));
    return json_new("device", json_text(group->device), "model", json_text(group->model), "elements",
                    json_count(group->elements), "bytes", json_count(group->bytes), "rounds", json_count(info->rounds),
                    "variants", json_count(info->variants), "out", json_count(info->rejected), "compared_with",
                    json_text(compared), "ceiling_ms", json_number(info->ceiling_ms), "ceiling_gbps",
                    json_number(group->ceiling_gbps), "seconds", json_number(info->seconds), "end",
                    json_text(info->end), "against", json_text(info->verified_by), "variant_results", variants,
                    "impossible", gaps, NULL);
}

static void add_row(struct table *table, const variant_row *one)
{
    bool measured = one->ms > 0, has_interval = one->low > 0 && one->low < one->high;
    table_row(table, (const char *const[]){ spectext_geometry(one->spec), measured ? format_ms_plain(one->ms) : "",
                                            measured ? need_format("%.1f", one->gbps) : "",
                                            one->ceiling_ratio > 0 ? need_format("%.4f", one->ceiling_ratio) : "",
                                            measured ? need_format("%.4f", one->ratio) : "",
                                            has_interval ? need_format("%.4f..%.4f", one->low, one->high) : "",
                                            one->registers >= 0 ? need_format("%d", one->registers) : "", one->verdict,
                                            one->problem });
}

static void print_group(const variant_group *group, const sweep_kind *kind, const kiln_tuning_info *info)
{
    bool is_usual = strcmp(info->verified_by, "the cpu backend") == 0;
    print_line("%s", kind->name);
    print_line("%s (%s): %" PRIu64 " elements, %s read and written; %" PRIu64 " variants, %" PRIu64
               " of them out, %zu impossible; %" PRIu64 " rounds in %s",
               group->device, group->model, group->elements, format_bytes(group->bytes), info->variants, info->rejected,
               group->gap_count, info->rounds, format_ms(info->seconds * 1e3));
    print_line("%scompared with %s%s%s",
               group->ceiling_gbps > 0 ? need_format("a plain copy: %.1f GB/s; ", group->ceiling_gbps) : "",
               spectext_geometry(kind->specs.items[0]), is_usual ? "" : "; results agree with ",
               is_usual ? "" : info->verified_by);
    struct table *table = table_new("geometry|>ms|>GB/s|>time / copy|>time / that|>95%|>registers|verdict|problem");
    for (size_t i = 0; i < group->count; i++)
        add_row(table, &group->rows[i]);
    table_print(table, stdout);
}

/* ---- The command */

static int keep_group(sweep_work *work, const sweep_kind *kind, const kiln_tuning *tuning)
{
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_status status = kiln_tuning_get_info(tuning, &info);
    if (status)
        return session_status(work->session, status, NULL);
    variant_group *group = variants_begin(&work->variants, work->session, info.device);
    if (!group)
        return STATUS_FAILED;
    group->elements = info.elements;
    group->bytes = info.bytes;
    group->ceiling_gbps = gigabytes_per_second(info.bytes, info.ceiling_ms);
    group->gaps = kind->gaps;
    group->gap_count = kind->gap_count;
    group->rows = need_array(NULL, info.result_count, sizeof(*group->rows));
    for (; group->count < info.result_count; group->count++)
        group->rows[group->count] = variant_of(info.results[group->count], info.bytes);
    work->out |= info.rejected > 0;
    if (work->args->common.json) {
        json_add(work->results, group_json(group, kind->specs.items[0], &info));
    } else {
        printf("%s", work->variants.count > 1 ? "\n" : "");
        print_group(group, kind, &info);
    }
    return STATUS_DONE;
}

static int sweep_kind_of(sweep_work *work, const sweep_kind *kind)
{
    kiln_sweep_options options = KILN_INIT(kiln_sweep_options);
    kiln_tuning *tuning = NULL;
    arg_values values;
    bool flat;
    int result = read_values(&values, &flat, work, kind);
    if (result)
        return result;
    kiln_work sizes = argvalues_work(&values, flat);
    sizes.hot = work->args->hot;
    options.work = &sizes;
    options.rounds = work->args->rounds;
    options.progress = on_progress;
    options.data = work;
    work->measuring = false;
    progress_start(&work->progress, kind->specs.count, false);
    kiln_status status = variants_sweep(&tuning, work->session, &kind->specs, &options);
    progress_end();
    result = status ? session_status(work->session, status, NULL) : keep_group(work, kind, tuning);
    kiln_tuning_free(tuning);
    return result;
}

static int sweep(struct session *session, void *data)
{
    sweep_work *work = data;
    work->session = session;
    int result = find_variants(work);
    if (result)
        return result;
    interrupt_catch(true);
    for (size_t i = 0; i < work->kind_count && !result && !interrupt_seen(); i++)
        result = sweep_kind_of(work, &work->kinds[i]);
    if (work->args->common.json && !result)
        json_print(json_new("results", work->results, NULL));
    if (!result)
        result = variants_write(&work->variants);
    if (interrupt_seen() && !result)
        result = fail(interrupt_status(), "interrupted: not everything was measured");
    if (result || !work->out)
        return result;
    return fail(STATUS_FAILED, "not every variant can be used: the column 'problem' says why");
}

int command_sweep(int argc, char **argv)
{
    sweep_args args = { .csv = NULL };
    parse_args(&args, argc, argv);
    sweep_work work = { .args = &args, .results = json_array() };
    int status = results_open(&work.variants.results, args.csv, args.plot);
    if (!status)
        status = session_run(&args.common, sweep, &work);
    results_close(&work.variants.results);
    return status;
}
