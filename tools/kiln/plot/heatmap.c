#include "plot/heatmap.h"

#include <math.h>
#include <stdlib.h>

#include "common.h"
#include "format.h"
#include "plot/colour.h"
#include "plot/colourbar.h"

enum {
    LABEL = 12, /* letter sizes */
    SMALL = 11,
    CELL_WIDTH = 54, /* of a few; many are smaller */
    CELL_HEIGHT = 34,
    CELL_LEAST = 14,
    CELL_GAP = 2,      /* of a cell's width and height */
    GRID_WIDEST = 760, /* a panel's cells together */
    GRID_TALLEST = 480,
    LABEL_WIDEST = 80, /* of the columns; the rows' may be twice as wide */
    NAME_ROOM = 34,    /* for the name of the rows, and between the labels and the cells */
    PANEL_GAP = 28,
    PANEL_FOOT = 44, /* below the cells: labels and the name of the columns */
    ACROSS_WIDEST = 1180,
    DOWN_TALLEST = 1400,
    BAR_GAP = 32,
    BAR_SHORTEST = 120,
    BAR_TALLEST = 420,
    LEGEND_STEP = 22
};

/* A rectangle of the picture. */
typedef struct box {
    double x, y, width, height;
} box;

/* The picture and where everything is in it. */
struct picture {
    struct svg svg;
    const heatmap *map;
    colourbar bar;
    const heatmap_cell *best;       /* NULL without values */
    bool impossible;                /* there is such a cell */
    double cell_width, cell_height; /* with the gap */
    double label_width;             /* of the rows, with their name */
    double head;                    /* above the cells of a panel */
    size_t across, down;            /* panels */
    box panel;                      /* the first one's cells */
    box colours;                    /* the bar's place */
    double panels_bottom;
    double legend_y;
    double width, height; /* of the card */
};

static double widest(const char *const *texts, size_t count)
{
    double width = 0;
    for (size_t i = 0; i < count; i++)
        width = fmax(width, chart_text_width(texts[i], LABEL));
    return width;
}

static size_t cell_count(const heatmap *map)
{
    return map->row_count * map->column_count;
}

static void look_at_values(struct picture *out)
{
    const heatmap *map = out->map;
    double least = INFINITY;
    for (size_t i = 0; i < map->panel_count * cell_count(map); i++) {
        const heatmap_cell *cell = &map->panels[i / cell_count(map)].cells[i % cell_count(map)];
        if (!isfinite(cell->value)) {
            out->impossible |= cell->note != NULL;
            continue;
        }
        least = fmin(least, cell->value);
        if (!out->best || cell->value > out->best->value)
            out->best = cell;
    }
    out->bar = colourbar_between(out->best ? least : 0, out->best ? out->best->value : 0, map->ceiling,
                                 map->ceiling_name, map->unit);
}

/* Cells of the size that suits a few, times `part`. */
static void lay_out_panels(struct picture *out, double part)
{
    const heatmap *map = out->map;
    double label = fmin(widest(map->columns, map->column_count), LABEL_WIDEST) + 8;
    double columns = (double)map->column_count, rows = (double)map->row_count;
    out->cell_width = fmax(CELL_LEAST, part * fmin(fmax(CELL_WIDTH, label), GRID_WIDEST / columns));
    out->cell_height = fmax(CELL_LEAST, part * fmin(CELL_HEIGHT, GRID_TALLEST / rows));
    out->panel.width = columns * out->cell_width - CELL_GAP;
    out->panel.height = rows * out->cell_height - CELL_GAP;
    size_t fit = (size_t)fmax(1, floor((ACROSS_WIDEST + PANEL_GAP) / (out->panel.width + PANEL_GAP)));
    out->down = (map->panel_count + fit - 1) / fit;
    out->across = (map->panel_count + out->down - 1) / out->down;
    double step = out->head + out->panel.height + PANEL_FOOT + PANEL_GAP;
    out->panels_bottom = out->panel.y - out->head + (double)out->down * step - PANEL_GAP;
}

static void lay_out(struct picture *out)
{
    const heatmap *map = out->map;
    out->head = 16; /* the unit stands there */
    for (size_t i = 0; i < map->panel_count; i++)
        if (map->panels[i].title)
            out->head = 24;
    out->label_width = fmin(widest(map->rows, map->row_count), 2 * LABEL_WIDEST) + NAME_ROOM;
    out->panel.x = CHART_MARGIN + out->label_width;
    out->panel.y = chart_heading_height(&map->heading) + 8 + out->head;
    double part = 1;
    do {
        lay_out_panels(out, part);
        part *= 0.9;
    } while (out->panels_bottom > DOWN_TALLEST && part > 0.2);
    out->colours.x = out->panel.x + (double)out->across * (out->panel.width + PANEL_GAP) - PANEL_GAP + BAR_GAP;
    out->colours.y = out->panel.y;
    out->colours.height = fmin(BAR_TALLEST, fmax(BAR_SHORTEST, out->panels_bottom - PANEL_FOOT - out->panel.y));
    out->legend_y = fmax(out->panels_bottom, out->colours.y + out->colours.height) + 24;
    out->width = chart_card_width(&map->heading, out->colours.x + colourbar_width(&out->bar) - CHART_MARGIN);
    out->height = out->legend_y + (out->impossible ? LEGEND_STEP : 0) + CHART_MARGIN - 8;
}

static box cell_box(const struct picture *picture, const box *panel, size_t index)
{
    size_t row = index / picture->map->column_count, column = index % picture->map->column_count;
    return (box){ panel->x + (double)column * picture->cell_width, panel->y + (double)row * picture->cell_height,
                  picture->cell_width - CELL_GAP, picture->cell_height - CELL_GAP };
}

static void draw_tile(struct svg *svg, const box *at, uint32_t colour)
{
    svg_rect(svg, at->x, at->y, at->width, at->height);
    svg_put_number(svg, "rx", 2);
    svg_put_colour(svg, "fill", colour);
    svg_close(svg);
}

/* Diagonals, drawn one by one: many programs that read SVG know no patterns. */
static void draw_hatch(struct svg *svg, const box *at)
{
    enum { STEP = 6 };
    svg_path_begin(svg);
    for (int sum = STEP; sum < at->width + at->height; sum += STEP) {
        double right = fmin(sum, at->width), bottom = fmin(sum, at->height);
        svg_path_point(svg, 'M', at->x + right, at->y + sum - right);
        svg_path_point(svg, 'L', at->x + sum - bottom, at->y + bottom);
    }
    svg_path_end(svg);
    svg_put_colour(svg, "stroke", COLOUR_HATCH);
    svg_close(svg);
}

static void draw_outline(struct svg *svg, const box *at)
{
    svg_rect(svg, at->x - 1.5, at->y - 1.5, at->width + 3, at->height + 3);
    svg_put_number(svg, "rx", 3);
    svg_put(svg, "fill", "none");
    svg_put_colour(svg, "stroke", COLOUR_INK);
    svg_put_number(svg, "stroke-width", 2.5);
    svg_close(svg);
}

/* "block 256, elems 4, vector 4" */
static char *cell_name(const heatmap *map, const heatmap_panel *panel, size_t index)
{
    return need_format("%s %s, %s %s%s%s", map->row_name, map->rows[index / map->column_count], map->column_name,
                       map->columns[index % map->column_count], panel->title ? ", " : "",
                       panel->title ? panel->title : "");
}

/* "4237 GB/s, 99.8 % of memory copy" */
static char *value_text(const heatmap *map, double value)
{
    char number[FORMAT_ROOM], percent[FORMAT_ROOM];
    format_fixed(number, value, format_decimals(value));
    if (map->ceiling <= 0)
        return need_format("%s %s", number, map->unit);
    return need_format("%s %s, %s %% of %s", number, map->unit, format_fixed(percent, 100 * value / map->ceiling, 1),
                       map->ceiling_name ? map->ceiling_name : "the ceiling");
}

static void put_tooltip(struct svg *svg, const heatmap *map, const heatmap_panel *panel, size_t index)
{
    const heatmap_cell *cell = &panel->cells[index];
    char *name = cell_name(map, panel, index);
    if (!isfinite(cell->value)) {
        svg_tooltip(svg, "%s: %s", name, cell->note ? cell->note : "not measured");
    } else {
        char *value = value_text(map, cell->value);
        svg_tooltip(svg, "%s: %s%s%s", name, value, cell->note ? "\n" : "", cell->note ? cell->note : "");
        free(value);
    }
    free(name);
}

/* If it fits. */
static void draw_number(struct picture *picture, const box *at, double value)
{
    char text[FORMAT_ROOM];
    format_fixed(text, value, picture->bar.decimals);
    if (chart_text_width(text, SMALL) + 4 > at->width || at->height < 16)
        return;
    uint32_t ink = colour_ink_on(colourbar_colour(&picture->bar, value));
    chart_text(&picture->svg, at->x + at->width / 2, at->y + at->height / 2 + 4, text,
               &(chart_label){ .size = SMALL, .colour = ink, .anchor = "middle" });
}

/* The tooltip belongs to the group, so that it shows over the number too. */
static void draw_cell(struct picture *picture, const heatmap_panel *panel, size_t index, const box *at)
{
    const heatmap_cell *cell = &panel->cells[index];
    bool measured = isfinite(cell->value);
    struct svg *svg = &picture->svg;
    svg_open(svg, "g");
    put_tooltip(svg, picture->map, panel, index);
    draw_tile(svg, at, measured ? colourbar_colour(&picture->bar, cell->value) : COLOUR_FAINT);
    if (measured)
        draw_number(picture, at, cell->value);
    else if (cell->note)
        draw_hatch(svg, at);
    svg_close(svg);
}

static void draw_cells(struct picture *picture, const heatmap_panel *panel, const box *at)
{
    for (size_t i = 0; i < cell_count(picture->map); i++) {
        box cell = cell_box(picture, at, i);
        draw_cell(picture, panel, i, &cell);
    }
    for (size_t i = 0; i < cell_count(picture->map); i++) {
        box cell = cell_box(picture, at, i);
        if (&panel->cells[i] == picture->best)
            draw_outline(&picture->svg, &cell); /* last, above its neighbours */
    }
}

/* Every so many labels are shown where not all fit. */
static size_t label_step(double room, double step)
{
    return (size_t)fmax(1, ceil(room / step));
}

static void draw_name(struct svg *svg, double x, double y, const char *name, bool upwards)
{
    chart_text(
        svg, x, y, name,
        &(chart_label){ .size = LABEL, .colour = COLOUR_MUTED, .anchor = "middle", .bold = true, .upwards = upwards });
}

static void draw_column_labels(struct picture *picture, const box *panel)
{
    const heatmap *map = picture->map;
    double room = fmin(widest(map->columns, map->column_count), LABEL_WIDEST);
    double bottom = panel->y + panel->height;
    chart_label label = { .size = LABEL, .colour = COLOUR_INK, .anchor = "middle", .room = room };
    for (size_t i = 0; i < map->column_count; i += label_step(room + 6, picture->cell_width)) {
        box cell = cell_box(picture, panel, i);
        chart_text(&picture->svg, cell.x + cell.width / 2, bottom + 17, map->columns[i], &label);
    }
    draw_name(&picture->svg, panel->x + panel->width / 2, bottom + 37, map->column_name, false);
}

static void draw_row_labels(struct picture *picture, const box *panel)
{
    const heatmap *map = picture->map;
    chart_label label = { .size = LABEL, .colour = COLOUR_INK, .anchor = "end", .room = 2 * LABEL_WIDEST };
    for (size_t i = 0; i < map->row_count; i += label_step(LABEL + 4, picture->cell_height)) {
        box cell = cell_box(picture, panel, i * map->column_count);
        chart_text(&picture->svg, panel->x - 8, cell.y + cell.height / 2 + 4, map->rows[i], &label);
    }
    draw_name(&picture->svg, CHART_MARGIN + 11, panel->y + panel->height / 2, map->row_name, true);
}

static void draw_panel(struct picture *picture, size_t index)
{
    const heatmap_panel *panel = &picture->map->panels[index];
    size_t row = index / picture->across, column = index % picture->across;
    box at = picture->panel;
    at.x += (double)column * (at.width + PANEL_GAP);
    at.y += (double)row * (picture->head + at.height + PANEL_FOOT + PANEL_GAP);
    if (panel->title)
        chart_text(&picture->svg, at.x, at.y - 12, panel->title,
                   &(chart_label){ .size = 13, .colour = COLOUR_INK, .bold = true, .room = at.width });
    draw_cells(picture, panel, &at);
    draw_column_labels(picture, &at);
    if (column == 0)
        draw_row_labels(picture, &at);
}

/* "best: 4280 GB/s with block 256, elems 4 (vector=4 cache=plain, the best of 10)" */
static char *best_text(const struct picture *picture)
{
    const heatmap *map = picture->map;
    for (size_t i = 0; i < map->panel_count * cell_count(map); i++) {
        const heatmap_panel *panel = &map->panels[i / cell_count(map)];
        if (&panel->cells[i % cell_count(map)] != picture->best)
            continue;
        char value[FORMAT_ROOM];
        char *name = cell_name(map, panel, i % cell_count(map));
        const char *note = picture->best->note;
        char *text =
            need_format("best: %s %s with %s%s%s%s", format_fixed(value, picture->best->value, picture->bar.decimals),
                        map->unit, name, note ? " (" : "", note ? note : "", note ? ")" : "");
        free(name);
        return text;
    }
    return need_copy("nothing was measured");
}

static void draw_legend(struct picture *picture)
{
    struct svg *svg = &picture->svg;
    box tile = { picture->panel.x, picture->legend_y - 11, 20, 13 };
    double x = tile.x + 30;
    chart_label label = { .size = LABEL, .colour = COLOUR_INK, .room = picture->width - CHART_MARGIN - x };
    char *best = best_text(picture);
    draw_tile(svg, &tile, picture->best ? colourbar_colour(&picture->bar, picture->best->value) : COLOUR_FAINT);
    if (picture->best)
        draw_outline(svg, &tile);
    chart_text(svg, x, picture->legend_y, best, &label);
    free(best);
    if (!picture->impossible)
        return;
    tile.y += LEGEND_STEP;
    draw_tile(svg, &tile, COLOUR_FAINT);
    draw_hatch(svg, &tile);
    chart_text(svg, x, picture->legend_y + LEGEND_STEP, "impossible; the tooltip says why", &label);
}

void heatmap_draw(FILE *stream, const heatmap *map)
{
    struct picture picture = { .map = map };
    look_at_values(&picture);
    lay_out(&picture);
    chart_begin(&picture.svg, stream, picture.width, picture.height, &map->heading);
    for (size_t i = 0; i < map->panel_count; i++)
        draw_panel(&picture, i);
    colourbar_draw(&picture.svg, &picture.bar, picture.colours.x, picture.colours.y, picture.colours.height);
    draw_legend(&picture);
    svg_end(&picture.svg);
}
