#include "plot/lineplot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "format.h"
#include "plot/colour.h"
#include "plot/marker.h"

enum {
    LABEL = 12, /* letter size */
    PLOT_WIDTH = 760,
    PLOT_HEIGHT = 400,
    LEGEND_GAP = 28,
    LEGEND_SAMPLE = 34, /* width of the line before a name */
    LEGEND_STEP = 24,
    LEGEND_WIDEST = 300, /* of the names */
    LABEL_ROOM = 62      /* for "512 MiB" between the labels of sizes */
};

/* The drawing's part of the card and the ranges that it shows. */
typedef struct frame {
    double x, y, width, height;
    double x_low, x_high; /* logarithms to base 2 */
    double y_high;        /* from 0 */
    chart_ticks ticks;    /* of y */
    bool empty;           /* there is no point */
    double legend_x;
    double card_width, card_height;
} frame;

static bool is_shown(const lineplot_point *point)
{
    return isfinite(point->value) && isfinite(point->size) && point->size >= 1;
}

static bool has_spread(const lineplot_point *point)
{
    return isfinite(point->low) && isfinite(point->high) && point->low < point->high;
}

/* Whole powers of two around all sizes, and a round number above all values. A single wild measurement does not press
 * the rest down: bars of the spread may leave the picture at the top. */
static void find_ranges(frame *out, const lineplot *plot)
{
    double least = INFINITY, most = -INFINITY, value = plot->ceiling, high = 0;
    for (size_t i = 0; i < plot->series_count; i++) {
        for (size_t j = 0; j < plot->series[i].count; j++) {
            const lineplot_point *point = &plot->series[i].points[j];
            if (!is_shown(point))
                continue;
            least = fmin(least, point->size);
            most = fmax(most, point->size);
            value = fmax(value, point->value);
            high = has_spread(point) ? fmax(high, point->high) : high;
        }
    }
    out->x_low = most > 0 ? floor(log2(least) + 1e-9) : 10;
    out->x_high = most > 0 ? ceil(log2(most) - 1e-9) : 20;
    if (out->x_high - out->x_low < 2)
        out->x_low = fmax(0, out->x_low - 1);
    out->x_high = fmax(out->x_high, out->x_low + 2);
    out->empty = !(most > 0);
    value = fmax(value, fmin(high, 1.25 * value));
    value = value > 0 ? value * 1.02 : 1;
    out->ticks = chart_ticks_between(0, value, 6);
    out->y_high = ceil(value / out->ticks.step) * out->ticks.step;
    out->ticks = chart_ticks_between(0, out->y_high, 6);
}

/* "memory copy: 4237" */
static char *ceiling_text(const lineplot *plot)
{
    char value[FORMAT_ROOM];
    return need_format("%s: %s", plot->ceiling_name,
                       format_fixed(value, plot->ceiling, format_decimals(plot->ceiling)));
}

static double legend_width(const lineplot *plot)
{
    double width = 0;
    if (plot->ceiling > 0) {
        char *text = ceiling_text(plot);
        width = chart_text_width(text, LABEL);
        free(text);
    }
    for (size_t i = 0; i < plot->series_count; i++)
        width = fmax(width, chart_text_width(plot->series[i].name, LABEL));
    return LEGEND_SAMPLE + fmin(width, LEGEND_WIDEST);
}

static frame lay_out(const lineplot *plot)
{
    char text[FORMAT_ROOM];
    frame out = { .width = PLOT_WIDTH, .height = PLOT_HEIGHT };
    find_ranges(&out, plot);
    out.x = CHART_MARGIN + chart_text_width(format_fixed(text, out.y_high, out.ticks.decimals), LABEL) + 10;
    out.y = chart_heading_height(&plot->heading) + 32;
    double entries = (double)plot->series_count + (plot->ceiling > 0);
    out.height = fmax(out.height, entries * LEGEND_STEP);
    out.legend_x = out.x + out.width + LEGEND_GAP;
    out.card_width = chart_card_width(&plot->heading, out.legend_x + legend_width(plot) - CHART_MARGIN);
    out.card_height = out.y + out.height + (plot->bytes_each > 0 ? 64 : 48) + CHART_MARGIN - 4;
    return out;
}

static double place_x(const frame *at, double size)
{
    double inset = 12; /* the first and the last marker stand clear of the frame */
    return at->x + inset + (at->width - 2 * inset) * (log2(size) - at->x_low) / (at->x_high - at->x_low);
}

static double place_y(const frame *at, double value)
{
    return at->y + at->height * (1 - fmax(0, fmin(value, at->y_high)) / at->y_high);
}

static void draw_rule(struct svg *svg, double x1, double y1, double x2, double y2, uint32_t colour)
{
    svg_line(svg, x1, y1, x2, y2);
    svg_put_colour(svg, "stroke", colour);
    svg_close(svg);
}

static void draw_y_axis(struct svg *svg, const lineplot *plot, const frame *at)
{
    char text[FORMAT_ROOM];
    for (size_t i = 0; i < at->ticks.count; i++) {
        double value = (double)i * at->ticks.step, y = place_y(at, value);
        draw_rule(svg, at->x, y, at->x + at->width, y, i ? COLOUR_RULE : COLOUR_MUTED);
        chart_text(svg, at->x - 8, y + 4, format_fixed(text, value, at->ticks.decimals),
                   &(chart_label){ .size = LABEL, .colour = COLOUR_INK, .anchor = "end" });
    }
    chart_text(svg, CHART_MARGIN, at->y - 16, plot->y_name,
               &(chart_label){ .size = LABEL, .colour = COLOUR_MUTED, .bold = true });
}

/* "2" and small digits above the line. */
static char *power_text(int exponent)
{
    static const char *const digits[] = { "\u2070", "\u00B9", "\u00B2", "\u00B3", "\u2074",
                                          "\u2075", "\u2076", "\u2077", "\u2078", "\u2079" };
    return need_format("2%s%s%s", exponent >= 100 ? digits[exponent / 100 % 10] : "",
                       exponent >= 10 ? digits[exponent / 10 % 10] : "", digits[exponent % 10]);
}

/* "64 KiB", "1.5 GiB" */
static char *bytes_text(double bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    char text[FORMAT_ROOM];
    size_t unit = 0;
    while (unit < 5 && bytes >= 1024) {
        bytes /= 1024;
        unit++;
    }
    return need_format("%s %s", format_fixed(text, bytes, bytes != floor(bytes)), units[unit]);
}

static void draw_size(struct svg *svg, const lineplot *plot, const frame *at, int exponent, bool labelled)
{
    double x = place_x(at, exp2(exponent)), bottom = at->y + at->height;
    draw_rule(svg, x, bottom, x, bottom + (labelled ? 6 : 4), COLOUR_MUTED);
    if (!labelled)
        return;
    char *power = power_text(exponent);
    chart_text(svg, x, bottom + 21, power, &(chart_label){ .size = LABEL, .colour = COLOUR_INK, .anchor = "middle" });
    free(power);
    if (plot->bytes_each > 0) {
        char *bytes = bytes_text(exp2(exponent) * plot->bytes_each);
        chart_text(svg, x, bottom + 37, bytes,
                   &(chart_label){ .size = 11, .colour = COLOUR_MUTED, .anchor = "middle" });
        free(bytes);
    }
}

static void draw_x_axis(struct svg *svg, const lineplot *plot, const frame *at)
{
    int low = (int)at->x_low, high = (int)at->x_high;
    int every = (int)fmax(1, ceil(LABEL_ROOM * (high - low) / at->width));
    for (int exponent = low; exponent <= high; exponent++)
        draw_size(svg, plot, at, exponent, (exponent - low) % every == 0);
    chart_text(
        svg, at->x + at->width / 2, at->y + at->height + (plot->bytes_each > 0 ? 62 : 46), plot->x_name,
        &(chart_label){ .size = LABEL, .colour = COLOUR_MUTED, .anchor = "middle", .bold = true, .room = at->width });
}

static bool has_bar(const lineplot_point *point)
{
    return is_shown(point) && has_spread(point);
}

static void draw_spread(struct svg *svg, const lineplot_series *series, const frame *at, uint32_t colour)
{
    size_t bars = 0;
    for (size_t i = 0; i < series->count; i++)
        bars += has_bar(&series->points[i]);
    if (bars == 0)
        return;
    svg_path_begin(svg);
    for (size_t i = 0; i < series->count; i++) {
        const lineplot_point *point = &series->points[i];
        if (!has_bar(point))
            continue;
        double x = place_x(at, point->size), low = place_y(at, point->low), high = place_y(at, point->high);
        svg_path_point(svg, 'M', x - 3, low);
        svg_path_point(svg, 'L', x + 3, low);
        svg_path_point(svg, 'M', x, low);
        svg_path_point(svg, 'L', x, high);
        if (point->high > at->y_high)
            continue;
        svg_path_point(svg, 'M', x - 3, high);
        svg_path_point(svg, 'L', x + 3, high);
    }
    svg_path_end(svg);
    svg_put(svg, "fill", "none");
    svg_put_colour(svg, "stroke", colour);
    svg_put_number(svg, "stroke-width", 1.2);
    svg_put_number(svg, "stroke-opacity", 0.7);
    svg_close(svg);
}

static uint32_t series_colour(const lineplot *plot, size_t index)
{
    return plot->series[index].reference ? COLOUR_MUTED : colour_series(index);
}

/* How a line of a series or a ceiling is dashed; NULL: not at all. Several references can be told apart. */
static const char *dashes_of(const lineplot *plot, size_t index)
{
    static const char *const dashes[] = { "6 4", "2 3", "10 3 2 3", "10 5" };
    size_t before = plot->ceiling > 0;
    if (!plot->series[index].reference)
        return NULL;
    for (size_t i = 0; i < index; i++)
        before += plot->series[i].reference;
    return dashes[before % (sizeof(dashes) / sizeof(dashes[0]))];
}

/* Ends the element. */
static void style_line(struct svg *svg, uint32_t colour, const char *dashes)
{
    svg_put(svg, "fill", "none");
    svg_put_colour(svg, "stroke", colour);
    svg_put_number(svg, "stroke-width", dashes ? 1.6 : 2);
    svg_put(svg, "stroke-linejoin", "round");
    if (dashes)
        svg_put(svg, "stroke-dasharray", dashes);
    svg_close(svg);
}

static void draw_line(struct svg *svg, const lineplot *plot, const frame *at, size_t index)
{
    const lineplot_series *series = &plot->series[index];
    bool drawing = false;
    svg_path_begin(svg);
    for (size_t i = 0; i < series->count; i++) {
        const lineplot_point *point = &series->points[i];
        bool shown = is_shown(point);
        if (shown)
            svg_path_point(svg, drawing ? 'L' : 'M', place_x(at, point->size), place_y(at, point->value));
        drawing = shown;
    }
    svg_path_end(svg);
    style_line(svg, series_colour(plot, index), dashes_of(plot, index));
}

static void point_tooltip(struct svg *svg, const lineplot *plot, const lineplot_series *series,
                          const lineplot_point *point)
{
    char size[FORMAT_ROOM], value[FORMAT_ROOM], low[FORMAT_ROOM], high[FORMAT_ROOM];
    int decimals = format_decimals(point->value);
    char *bytes = plot->bytes_each > 0 ? bytes_text(point->size * plot->bytes_each) : need_copy("");
    char *spread = has_spread(point) ? need_format(" (%s to %s)", format_fixed(low, point->low, decimals),
                                                   format_fixed(high, point->high, decimals))
                                     : need_copy("");
    svg_tooltip(svg, "%s\nsize %s%s%s: %s %s%s", series->name, format_fixed(size, point->size, 0), *bytes ? ", " : "",
                bytes, format_fixed(value, point->value, decimals), plot->y_name, spread);
    free(bytes);
    free(spread);
}

static void draw_markers(struct svg *svg, const lineplot *plot, const frame *at, size_t index)
{
    const lineplot_series *series = &plot->series[index];
    for (size_t i = 0; i < series->count; i++) {
        const lineplot_point *point = &series->points[i];
        if (!is_shown(point))
            continue;
        marker_begin(svg, index, place_x(at, point->size), place_y(at, point->value));
        point_tooltip(svg, plot, series, point);
        svg_close(svg);
    }
}

static void draw_series(struct svg *svg, const lineplot *plot, const frame *at, size_t index)
{
    const lineplot_series *series = &plot->series[index];
    svg_open(svg, "g");
    draw_spread(svg, series, at, series_colour(plot, index));
    draw_line(svg, plot, at, index);
    if (!series->reference)
        draw_markers(svg, plot, at, index);
    svg_close(svg);
}

static void draw_ceiling(struct svg *svg, const lineplot *plot, const frame *at)
{
    double y = place_y(at, plot->ceiling);
    svg_line(svg, at->x, y, at->x + at->width, y);
    style_line(svg, COLOUR_INK, "6 4");
}

static void draw_name(struct svg *svg, double x, double y, const char *name)
{
    chart_text(svg, x + LEGEND_SAMPLE, y + 4, name,
               &(chart_label){ .size = LABEL, .colour = COLOUR_INK, .room = LEGEND_WIDEST });
}

static double entry_place(const frame *at, size_t index)
{
    return at->y + 8 + (double)index * LEGEND_STEP;
}

static void draw_entry(struct svg *svg, const lineplot *plot, const frame *at, size_t index)
{
    double x = at->legend_x, y = entry_place(at, index);
    svg_line(svg, x, y, x + LEGEND_SAMPLE - 10, y);
    style_line(svg, series_colour(plot, index), dashes_of(plot, index));
    if (!plot->series[index].reference) {
        marker_begin(svg, index, x + (LEGEND_SAMPLE - 10) / 2.0, y);
        svg_close(svg);
    }
    draw_name(svg, x, y, plot->series[index].name);
}

static void draw_ceiling_entry(struct svg *svg, const lineplot *plot, const frame *at)
{
    double x = at->legend_x, y = entry_place(at, plot->series_count);
    char *text = ceiling_text(plot);
    svg_line(svg, x, y, x + LEGEND_SAMPLE - 10, y);
    style_line(svg, COLOUR_INK, "6 4");
    draw_name(svg, x, y, text);
    free(text);
}

void lineplot_draw(FILE *stream, const lineplot *plot)
{
    frame at = lay_out(plot);
    struct svg svg;
    chart_begin(&svg, stream, at.card_width, at.card_height, &plot->heading);
    draw_y_axis(&svg, plot, &at);
    draw_x_axis(&svg, plot, &at);
    if (plot->ceiling > 0) {
        draw_ceiling(&svg, plot, &at);
        draw_ceiling_entry(&svg, plot, &at);
    }
    for (size_t i = 0; i < plot->series_count; i++) {
        draw_series(&svg, plot, &at, i);
        draw_entry(&svg, plot, &at, i);
    }
    if (at.empty)
        chart_text(&svg, at.x + at.width / 2, at.y + at.height / 2, "nothing was measured",
                   &(chart_label){ .size = 14, .colour = COLOUR_MUTED, .anchor = "middle" });
    svg_end(&svg);
}
