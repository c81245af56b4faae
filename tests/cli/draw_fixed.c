/* Draws one of the plots or tables below, of data that is always the same, to a file or "-". test_plots.py looks at
 * what comes out. */
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "csv.h"
#include "draft.h"
#include "plot/heatmap.h"
#include "plot/lineplot.h"
#include "trialmap.h"

static const char *const lines[] = { "NVIDIA H200, cuda:0, sm_90", "f32, 2^28 elements, 2.0 GiB read and written",
                                     "op=hardsigmoid dtype=f32 target=sm_90" };
static const chart_heading sweep = { "hardsigmoid: speed by geometry", lines, 3 };
static const char *const powers[] = { "32", "64", "128", "256", "512", "1024" };
static const char *const elems[] = { "1", "2", "4", "8", "16", "32" };

/* 1200 to 4280 GB/s: too little work for each thread at one corner, too few threads at the other. */
static double speed(size_t block, size_t elem, double best)
{
    double idle = fmax(0, 5.5 - (double)(block + elem)), spill = fmax(0, (double)(block + elem) - 6.5);
    double away = (double)block - 3;
    return best - 95 * idle * idle - 140 * spill * spill - 7 * away * away - 3 * (double)elem;
}

static void fill_panel(heatmap_cell cells[36], double best)
{
    for (size_t i = 0; i < 36; i++)
        cells[i] = (heatmap_cell){ speed(i / 6, i % 6, best), NULL };
    cells[35] = (heatmap_cell){ NAN, "block 1024 with elems 32 needs 72 registers: at most 64 fit" };
    cells[34] = (heatmap_cell){ NAN, NULL };
}

static void draw_heatmap(FILE *stream)
{
    heatmap_cell plain[36], streaming[36];
    fill_panel(plain, 4289);
    fill_panel(streaming, 4216);
    streaming[0].value = 1200;
    const heatmap_panel panels[] = { { "cache hint none", plain }, { "cache hint cs", streaming } };
    heatmap_draw(stream,
                 &(heatmap){ sweep, "block", powers, 6, "elems", elems, 6, panels, 2, "GB/s", 4237, "memory copy" });
}

static void draw_many_panels(FILE *stream)
{
    enum { SIDE = 20, PANELS = 6 };
    static heatmap_cell cells[PANELS][SIDE * SIDE];
    static char names[PANELS][16], numbers[SIDE][8];
    const char *labels[SIDE];
    heatmap_panel panels[PANELS];
    for (size_t i = 0; i < SIDE; i++) {
        snprintf(numbers[i], sizeof(numbers[i]), "%zu", 32 * (i + 1));
        labels[i] = numbers[i];
    }
    for (size_t panel = 0; panel < PANELS; panel++) {
        for (size_t i = 0; i < sizeof(cells[0]) / sizeof(cells[0][0]); i++) {
            size_t row = i / SIDE, column = i % SIDE;
            double x = (double)column / SIDE - 0.6, y = (double)row / SIDE - 0.3;
            cells[panel][i].value = 38.5 * exp(-x * x - y * y) - (double)panel;
        }
        snprintf(names[panel], sizeof(names[panel]), "vector %zu", panel + 1);
        panels[panel] = (heatmap_panel){ names[panel], cells[panel] };
    }
    heatmap_draw(stream, &(heatmap){ { "add on 16 cores", lines, 2 },
                                     "block",
                                     labels,
                                     SIDE,
                                     "elems",
                                     labels,
                                     SIDE,
                                     panels,
                                     PANELS,
                                     "GB/s",
                                     0,
                                     NULL });
}

static void draw_awkward(FILE *stream)
{
    const char *const odd[] = { "a<b & \"c\"", "\xFF\x01" };
    const char *const many[] = {
        "a line that is far too long for any card, so that it has to be cut somewhere: "
        "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 "
        "0123456789 0123456789 0123456789"
    };
    const heatmap_cell cells[] = { { NAN, "<no> & \"why\"\nsecond line" }, { 12.345, "spec & more" } };
    const heatmap_panel panel = { NULL, cells };
    heatmap_draw(stream, &(heatmap){ { "\xC3\xA9l\xC3\xA9ments < 2 & \xED\xA0\x80", many, 1 },
                                     "r",
                                     (const char *[]){ "1" },
                                     1,
                                     "c",
                                     odd,
                                     2,
                                     &panel,
                                     1,
                                     "GB/s",
                                     0,
                                     NULL });
}

static void draw_nothing(FILE *stream)
{
    const heatmap_cell cells[] = { { NAN, NULL } };
    const heatmap_panel panel = { NULL, cells };
    heatmap_draw(
        stream,
        &(heatmap){
            { "nothing", NULL, 0 }, "block", powers, 1, "elems", elems, 1, &panel, 1, "GB/s", 4237, "memory copy" });
}

/* Measured far above its ceiling: from 17 to 37 of 18 GB/s. */
static void draw_above(FILE *stream)
{
    const heatmap_cell cells[] = { { 17, NULL }, { 25, NULL }, { 37, NULL } };
    const heatmap_panel panel = { NULL, cells };
    heatmap_draw(
        stream,
        &(heatmap){ { "above", NULL, 0 }, "block", powers, 1, "elems", elems, 3, &panel, 1, "GB/s", 18, "plain copy" });
}

/* ---- The variants of a GPU, as kiln sweep has them */

static char variants[400][100];
static trial_row rows[300];
static trial_gap gaps[300];
static size_t variant_count;

static void add_variant(trial_group *to, size_t block, size_t elem, int vector, const char *cache)
{
    char *spec = variants[variant_count++];
    snprintf(spec, sizeof(variants[0]), "op=hardsigmoid dtype=f32 block=%s elems=%s vector=%d cache=%s target=sm_90",
             powers[block], elems[elem], vector, cache);
    if ((1 << elem) % vector != 0 || vector > 4 || elem > 4) {
        to->gaps[to->gap_count++] = (trial_gap){ spec, "elems must be a multiple of vector" };
        return;
    }
    double gbps = speed(block, elem, 4289) - 40 * (4 - vector) - (*cache == 'p' ? 0 : 25);
    to->trials[to->count++] = (trial_row){ .spec = spec, .problem = "", .ms = 2147.483648 / gbps, .gbps = gbps };
}

static trial_group make_variants(const char *op)
{
    trial_group group = { .device = "cuda:0",
                          .model = "NVIDIA H200",
                          .target = "sm_90",
                          .op = (char *)op,
                          .dtype = "f32",
                          .elements = 1 << 28,
                          .bytes = UINT64_C(8) << 28,
                          .ceiling_gbps = 4237,
                          .trials = rows,
                          .gaps = gaps };
    variant_count = 0;
    for (size_t block = 1; block < 6; block++)
        for (size_t elem = 0; elem < 6; elem++)
            for (int vector = 1; vector <= 16; vector *= 2) {
                add_variant(&group, block, elem, vector, "plain");
                if (vector <= 2)
                    add_variant(&group, block, elem, vector, "stream");
            }
    group.trials[0].ms = group.trials[0].gbps = 0;
    group.trials[0].problem = "7 of 268435456 elements are wrong, the first is 3";
    return group;
}

static void draw_sweep(FILE *stream)
{
    trial_group group = make_variants("hardsigmoid");
    trialmap_draw(stream, &group, 1);
}

/* Two kinds, one of a single variant; and none. */
static void draw_two_sweeps(FILE *stream)
{
    trial_group groups[] = { make_variants("hardsigmoid"), make_variants("relu6") };
    groups[1].count = 2;
    groups[1].gap_count = 0;
    trialmap_draw(stream, groups, 2);
}

static void draw_no_sweep(FILE *stream)
{
    trialmap_draw(stream, NULL, 0);
}

enum { SIZES = 21 };

/* Rises from 5 to 4300 GB/s, with a bump where everything fits into the second-level cache. */
static void fill_series(lineplot_point points[SIZES], double best, double half, double cached)
{
    for (int i = 0; i < SIZES; i++) {
        double size = exp2(10 + i), bump = exp(-pow((i - 14) / 1.25, 2));
        double value = fmax(size * 8 / (1.6e-6 * 1e9 + size * 8 / best) * half, 5) + (cached - best) * bump;
        double spread = 0.02 + 0.10 * exp(-i / 6.0);
        points[i] = (lineplot_point){ size, value, value * (1 - spread), value * (1 + spread / 2) };
    }
}

static void draw_lineplot(FILE *stream)
{
    static lineplot_point tuned[SIZES], plain[SIZES], two[SIZES], copy[SIZES];
    fill_series(tuned, 4300, 1, 7000);
    fill_series(plain, 3650, 0.96, 5200);
    fill_series(two, 2150, 0.97, 3000);
    fill_series(copy, 4237, 0.92, 6500);
    for (int i = 0; i < SIZES; i++)
        copy[i].low = copy[i].high = 0;
    plain[6].value = NAN;
    const lineplot_series series[] = { { "tuned", tuned, SIZES, false },
                                       { "block 256, elems 1", plain, SIZES, false },
                                       { "two kernels, not fused", two, SIZES, false },
                                       { "memory copy", copy, SIZES, true } };
    lineplot_draw(stream, &(lineplot){ { "hardsigmoid: speed by size", lines, 1 },
                                       "elements, and the bytes they move",
                                       8,
                                       "GB/s",
                                       4237,
                                       "memory copy of 2^28",
                                       series,
                                       4 });
}

static void draw_ratios(FILE *stream)
{
    static lineplot_point points[9][3];
    lineplot_series series[9];
    for (size_t i = 0; i < 9; i++) {
        for (size_t j = 0; j < 3; j++) {
            double value = 0.91 - 0.09 * (double)i + 0.02 * (double)j;
            points[i][j] =
                (lineplot_point){ (double)(1000 << j), value, value - 0.01, j == 1 && i == 0 ? 90 : value + 0.01 };
        }
        series[i] = (lineplot_series){ i ? "another <series>"
                                         : "a name that is too long for any legend, so it is cut & shown "
                                           "whole in its tooltip only",
                                       points[i], 3, false };
    }
    lineplot_draw(stream, &(lineplot){ { "ratios", NULL, 0 }, "bytes", 0, "ratio to a copy", 1, "copy", series, 9 });
}

static void draw_references(FILE *stream)
{
    static lineplot_point points[2][SIZES];
    fill_series(points[0], 4237, 0.92, 6500);
    fill_series(points[1], 4100, 0.92, 6100);
    const lineplot_series series[] = { { "copy of f32", points[0], SIZES, true },
                                       { "copy of f16", points[1], SIZES, true } };
    lineplot_draw(stream, &(lineplot){ { "copies", NULL, 0 }, "elements", 0, "GB/s", 0, NULL, series, 2 });
}

static void draw_no_series(FILE *stream)
{
    lineplot_draw(stream, &(lineplot){ { "nothing", NULL, 0 }, "elements", 4, "GB/s", 0, NULL, NULL, 0 });
}

static void write_csv(FILE *stream)
{
    struct csv csv;
    csv_begin(&csv, stream);
    csv_titles(&csv, "spec|elements|GB/s|note");
    csv_text(&csv, "op=hardtanh(-1,1) dtype=f32");
    csv_count(&csv, UINT64_MAX);
    csv_real(&csv, 4237.1);
    csv_text(&csv, "said \"no\"\nand left");
    csv_end_row(&csv);
    csv_text(&csv, NULL);
    csv_count(&csv, 0);
    csv_real(&csv, NAN);
    csv_text(&csv, " ");
    csv_end_row(&csv);
    const double reals[] = { 1e-300, -0.1, 1.0 / 3, 1e22 };
    for (size_t i = 0; i < 4; i++)
        csv_real(&csv, reals[i]);
    csv_end_row(&csv);
}

/* Whether the locale of the environment is there, and has another decimal point. */
static void write_locale(FILE *stream)
{
    fprintf(stream, "%.1f", 0.5);
}

static void interrupt(FILE *stream)
{
    struct output other;
    if (output_open(&other, "second.svg", 0) == STATUS_DONE)
        raise(SIGTERM);
    fputs("not interrupted", stream);
}

static const struct drawing {
    const char *name;
    void (*draw)(FILE *stream);
} drawings[] = {
    { "heatmap", draw_heatmap },       { "panels", draw_many_panels }, { "awkward", draw_awkward },
    { "nothing", draw_nothing },       { "lineplot", draw_lineplot },  { "ratios", draw_ratios },
    { "no-series", draw_no_series },   { "csv", write_csv },           { "locale", write_locale },
    { "interrupt", interrupt },        { "above", draw_above },        { "sweep", draw_sweep },
    { "two-sweeps", draw_two_sweeps }, { "no-sweep", draw_no_sweep },  { "references", draw_references },
};

static int draw(const struct drawing *drawing, const char *path)
{
    struct output output;
    struct draft draft;
    draft_begin(&draft);
    int status = output_open(&output, path, 0);
    if (!status) {
        drawing->draw(draft.stream);
        status = draft_commit(&draft, &output);
    }
    output_close(&output);
    draft_drop(&draft);
    return status;
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    for (size_t i = 0; argc == 3 && i < sizeof(drawings) / sizeof(drawings[0]); i++)
        if (strcmp(argv[1], drawings[i].name) == 0)
            return draw(&drawings[i], argv[2]);
    return fail(STATUS_USAGE, "usage: draw_fixed DRAWING FILE");
}
