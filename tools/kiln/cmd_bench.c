#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/benchreport.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "commands.h"
#include "plot/results.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/spectext.h"
#include "text/table.h"

enum { ROUNDS = 30 };

typedef struct bench_args {
    text_list specs;
    const char *size, *csv, *plot;
    bool no_verify;
    uint32_t rounds;
    common_args common;
} bench_args;

static const struct usage usage = {
    "kiln bench SPEC... [--size N|AxB|LIST] [--rounds N] [--no-verify] [--csv FILE] [--plot PICTURE] [options]",
    "Measures kernels on random values made on the device, after checking every result against the cpu\n"
    "backend bit for bit. The ratio is the time over that of a copy of the same traffic: the better of the\n"
    "device's own memory copy and a plain copy kernel, timed in the same rounds. Fields may be lists and\n"
    "ranges: block=64..1024*2. N may be 1048576, 2^20 or 64M; sizes multiply: 4096x393216; and there may be\n"
    "several: 1M,4M or 2^10..2^28 or 2^10..2^30*4. Kernels that take a GPU less than 20 us are replayed from a graph, "
    "so\n"
    "that their time is not what the host needs to launch them. Ctrl-C between two sizes ends it with what is known.",
    "  kiln bench 'op=hardsigmoid dtype=f32' --size 4096x393216\n"
    "  kiln bench 'op=add dtype=f16 block=128,256,512' --device cpu --size 16M\n"
    "  kiln bench 'op=hardsigmoid,relu6 dtype=f32' --size 2^10..2^28 --plot speed.svg",
};

static int parse_args(bench_args *args, struct benchset *set, int argc, char **argv)
{
    const option_row rows[] = {
        { "size", 's', OPTION_TEXT, "N|AxB|LIST", "elements; default 2^28 on a GPU, 2^24 on the cpu", &args->size },
        { "rounds", 'r', OPTION_NUMBER, "N", "timed rounds; default 30", &args->rounds },
        { "no-verify", 0, OPTION_FLAG, NULL, "do not check the results first", &args->no_verify },
        { "csv", 0, OPTION_TEXT, "FILE", "write a row for each spec and size, - for stdout", &args->csv },
        { "plot", 0, OPTION_TEXT, "PICTURE", "draw speed by size; FILE.svg, FILE.png or FILE.pdf", &args->plot },
    };
    int status = options_parse(&usage, rows, sizeof(rows) / sizeof(rows[0]), &args->common, &args->specs, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    if (args->specs.count == 0)
        return options_wrong(&usage, "no SPEC given, expected one such as op=hardsigmoid");
    if (args->size && !sizes_parse(&set->sizes, args->size))
        return options_wrong(&usage, "--size %s is not a size; expected 2^20, 64M, 4096x393216, 1M,4M or 2^10..2^28",
                             args->size);
    int wrong = results_check(&usage, args->csv, args->plot, args->common.json);
    if (wrong)
        return wrong;
    set->rounds = args->rounds ? args->rounds : ROUNDS;
    set->verify = !args->no_verify;
    return status;
}

static void put_timing(json_t *object, const kiln_timing *timing, uint64_t bytes, double ratio)
{
    json_put_real(object, "time_ms", timing->median_ms);
    json_put_real(object, "min_ms", timing->min_ms);
    json_put_real(object, "max_ms", timing->max_ms);
    json_put_real(object, "gbps", gigabytes_per_second(bytes, timing->median_ms));
    json_put_real(object, "ratio", ratio);
}

static json_t *case_json(const bench_case *one, bool verify)
{
    json_t *object = json_new();
    json_put_text(object, "device", one->info.device);
    json_put_text(object, "spec", one->info.spec);
    json_put_count(object, "elements", one->elements);
    json_put_count(object, "bytes", one->bytes);
    put_timing(object, &one->timing, one->bytes, one->ratio);
    if (verify)
        json_put_bool(object, "verified", one->verified);
    else
        json_put_null(object, "verified");
    json_put_text(object, "source", one->info.origin_name);
    json_put_real(object, "compile_ms", one->info.compile_ms);
    json_put_real(object, "first_get_ms", one->first_get_ms);
    json_put_real(object, "get_us", one->again_us);
    json_put_count(object, "group", one->group);
    return object;
}

static json_t *ceiling_json(const bench_ceiling *ceiling, const kiln_timing *timing, double ratio, const char *what,
                            size_t group)
{
    json_t *object = json_new();
    json_put_text(object, "what", what);
    json_put_count(object, "elements", ceiling->example->elements);
    json_put_count(object, "bytes", ceiling->example->bytes);
    put_timing(object, timing, ceiling->example->bytes, ratio);
    json_put_count(object, "group", group);
    return object;
}

static void print_json(const struct benchset *set)
{
    json_t *object = json_new(), *results = json_list(), *ceilings = json_list();
    json_put_count(object, "rounds", set->rounds);
    for (size_t i = 0; i < set->count; i++)
        json_add(results, case_json(&set->cases[i], set->verify));
    for (size_t i = 0; i < set->groups; i++) {
        const bench_ceiling *one = &set->ceilings[i];
        json_add(ceilings, ceiling_json(one, &one->memcpy, one->memcpy_ratio, "memory copy", i));
        json_add(ceilings, ceiling_json(one, &one->kernel, one->kernel_ratio, "copy kernel", i));
    }
    json_put(object, "results", results);
    json_put(object, "ceilings", ceilings);
    json_print(object);
}

typedef struct cells {
    char ms[FORMAT_ROOM], least[FORMAT_ROOM], most[FORMAT_ROOM], rate[FORMAT_ROOM], ratio[FORMAT_ROOM];
} cells;

static void format_timing(cells *out, const kiln_timing *timing, uint64_t bytes, double ratio)
{
    format_ms_plain(out->ms, timing->median_ms);
    format_ms_plain(out->least, timing->min_ms);
    format_ms_plain(out->most, timing->max_ms);
    snprintf(out->rate, sizeof(out->rate), "%.1f", gigabytes_per_second(bytes, timing->median_ms));
    snprintf(out->ratio, sizeof(out->ratio), "%.4f", ratio);
}

static void add_case(struct table *table, const bench_case *one, bool verify)
{
    cells text;
    char first[FORMAT_ROOM], again[FORMAT_ROOM];
    char *op = NULL, *geometry = spectext_geometry(one->info.spec);
    spectext_field(&op, one->info.spec, "op");
    format_timing(&text, &one->timing, one->bytes, one->ratio);
    table_row(table,
              (const char *const[]){ op, one->type->name, geometry, text.ms, text.least, text.most, text.rate,
                                     text.ratio, verify ? "yes" : "skipped", one->info.origin_name,
                                     format_ms(first, one->first_get_ms), format_ms(again, one->again_us * 1e-3) });
    free(op);
    free(geometry);
}

static void add_ceiling(struct table *table, const bench_ceiling *ceiling, const kiln_timing *timing, double ratio,
                        const char *what)
{
    cells text;
    format_timing(&text, timing, ceiling->example->bytes, ratio);
    table_row(table, (const char *const[]){ what, "", ceiling->reused ? "in the same arrays" : "", text.ms, text.least,
                                            text.most, text.rate, text.ratio, "", "", "", "" });
}

static void print_group(const struct benchset *set, size_t group)
{
    char bytes[FORMAT_ROOM];
    const bench_ceiling *ceiling = &set->ceilings[group];
    const bench_case *example = ceiling->example;
    kiln_device_info info = KILN_INIT(kiln_device_info);
    if (kiln_device_get_info(example->device, &info) != KILN_OK)
        info.model = "?";
    printf("%s%s (%s): %" PRIu64 " elements, %s read and written, %u rounds\n", group ? "\n" : "", example->info.device,
           info.model, example->elements, format_bytes(bytes, example->bytes), set->rounds);
    struct table *table = table_new("op|dtype|geometry|>ms|>min|>max|>GB/s|>ratio|verified|kernel|>first get|>get");
    for (size_t i = 0; i < set->count; i++)
        if (set->cases[i].group == group)
            add_case(table, &set->cases[i], set->verify);
    add_ceiling(table, ceiling, &ceiling->memcpy, ceiling->memcpy_ratio, "(memory copy)");
    add_ceiling(table, ceiling, &ceiling->kernel, ceiling->kernel_ratio, "(copy kernel)");
    table_print(table, stdout);
    table_free(table);
}

/* Several sizes in one table: the rows of a size stand together. */
static void print_sizes(const struct benchset *set)
{
    struct table *table = table_new("elements|op|dtype|geometry|>ms|>GB/s|>ratio|verified");
    for (size_t group = 0; group < set->groups; group++) {
        char size[FORMAT_ROOM];
        const bench_ceiling *ceiling = &set->ceilings[group];
        format_power(size, ceiling->example->elements);
        for (size_t i = 0; i < set->count; i++) {
            const bench_case *one = &set->cases[i];
            cells text;
            char *op = NULL, *geometry = spectext_geometry(one->info.spec);
            if (one->group == group && spectext_field(&op, one->info.spec, "op")) {
                format_timing(&text, &one->timing, one->bytes, one->ratio);
                table_row(table, (const char *const[]){ size, op, one->type->name, geometry, text.ms, text.rate,
                                                        text.ratio, set->verify ? "yes" : "skipped" });
            }
            free(op);
            free(geometry);
        }
        cells text;
        bool copy = ceiling->memcpy.median_ms <= ceiling->kernel.median_ms;
        format_timing(&text, copy ? &ceiling->memcpy : &ceiling->kernel, ceiling->example->bytes, 1);
        table_row(table, (const char *const[]){ size, copy ? "(memory copy)" : "(copy kernel)",
                                                ceiling->example->type->name, "", text.ms, text.rate, text.ratio, "" });
    }
    table_print(table, stdout);
    table_free(table);
}

static void print_all(const struct benchset *set, bool json)
{
    if (json)
        print_json(set);
    else if (set->sizes.count > 1)
        print_sizes(set);
    for (size_t group = 0; group < set->groups && !json && set->sizes.count <= 1; group++)
        print_group(set, group);
}

static int write_files(const struct benchset *set, struct results *results)
{
    struct draft rows;
    if (!results_wanted(results))
        return STATUS_DONE;
    draft_begin(&rows);
    benchreport_csv(rows.stream, set);
    draft_end(&rows);
    int status = results_write(results, &rows);
    draft_drop(&rows);
    return status;
}

static int bench(struct benchset *set, struct session *session, const bench_args *args)
{
    kiln_device *device = NULL;
    /* The driver starts here, so that the first kernel's time is its own. */
    kiln_status status = kiln_device_open(&device, session->service, NULL, &session->report);
    if (status)
        return session_fail(session, status, NULL);
    int result = STATUS_DONE;
    for (size_t i = 0; i < args->specs.count && !result; i++)
        result = benchset_add(set, session, args->specs.items[i]);
    if (result)
        return result;
    if (set->sizes.count > 1)
        interrupt_catch();
    result = benchset_run(set, session);
    if (!result)
        print_all(set, args->common.json);
    return result;
}

static int bench_to_files(struct benchset *set, const bench_args *args)
{
    struct session session;
    struct results results;
    int status = results_open(&results, args->csv, args->plot);
    if (!status) {
        status = session_open(&session, &args->common);
        if (!status)
            status = bench(set, &session, args);
        if (!status)
            status = write_files(set, &results);
        benchset_free(set);
        session_close(&session);
    }
    results_close(&results);
    if (!status && interrupt_seen())
        status = fail(STATUS_FAILED, "interrupted: not everything was measured");
    return status;
}

int command_bench(int argc, char **argv)
{
    bench_args args = { .size = NULL };
    struct benchset set = { .cases = NULL };
    int status = parse_args(&args, &set, argc, argv);
    if (status == OPTIONS_GO_ON)
        status = bench_to_files(&set, &args);
    free(args.specs.items);
    return status;
}
