#include "trialmap.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "plot/heatmap.h"
#include "spectext.h"

/* A parameter and the values that it takes in the groups. */
typedef struct axis {
    char *name;
    char **values;
    size_t count;
} axis;

/* All parameters of the groups, and which two are shown. */
typedef struct layout {
    axis *axes;
    size_t count;
    size_t row, column; /* equal if there is but one parameter */
    const trial_group *groups;
    size_t group_count;
} layout;

/* ---- Which parameters there are */

static bool find_value(const axis *from, const char *value, size_t *out)
{
    for (*out = 0; *out < from->count; ++*out)
        if (strcmp(from->values[*out], value) == 0)
            return true;
    return false;
}

static void add_axis(layout *out, char *name)
{
    out->axes = need_array(out->axes, out->count + 1, sizeof(*out->axes));
    out->axes[out->count++] = (axis){ .name = name };
}

/* The names of "block=128 elems=4", in that order. */
static void find_names(layout *out, const char *spec)
{
    char *geometry = spectext_geometry(spec);
    for (char *at = geometry, *word; (word = strsep(&at, " "));) {
        char *equals = strchr(word, '=');
        bool known = !equals;
        for (size_t i = 0; i < out->count && equals; i++)
            known |= strlen(out->axes[i].name) == (size_t)(equals - word) &&
                     strncmp(out->axes[i].name, word, (size_t)(equals - word)) == 0;
        if (!known)
            add_axis(out, need_format("%.*s", (int)(equals - word), word));
    }
    free(geometry);
}

static void note_values(layout *out, const char *spec)
{
    for (size_t i = 0; i < out->count; i++) {
        axis *to = &out->axes[i];
        char *value = NULL;
        size_t place;
        if (!spectext_field(&value, spec, to->name) || find_value(to, value, &place)) {
            free(value);
            continue;
        }
        to->values = need_array(to->values, to->count + 1, sizeof(*to->values));
        to->values[to->count++] = value;
    }
}

/* Numbers by size, words as they come. */
static int by_number(const void *a, const void *b)
{
    double x = strtod(*(char *const *)a, NULL), y = strtod(*(char *const *)b, NULL);
    return (x > y) - (x < y);
}

static bool is_numeric(const axis *of)
{
    for (size_t i = 0; i < of->count; i++)
        if (strspn(of->values[i], "0123456789") != strlen(of->values[i]))
            return false;
    return true;
}

static size_t axis_named(const layout *from, const char *name)
{
    size_t i = 0;
    while (i < from->count && strcmp(from->axes[i].name, name) != 0)
        i++;
    return i;
}

/* The next parameter from `from` on that takes several values; the number of parameters if there is none. */
static size_t next_varying(const layout *of, size_t from)
{
    while (from < of->count && of->axes[from].count < 2)
        from++;
    return from;
}

static void choose_axes(layout *out)
{
    size_t block = axis_named(out, "block"), elems = axis_named(out, "elems");
    bool have = block < out->count && elems < out->count;
    size_t first = next_varying(out, 0), second = next_varying(out, first + 1);
    if (have && (out->axes[block].count > 1 || out->axes[elems].count > 1 || first == out->count)) {
        out->row = block;
        out->column = elems;
        return;
    }
    out->row = first < out->count ? first : 0;
    out->column = second < out->count ? second : out->row > 0 ? 0 : out->count > 1 ? 1 : 0;
}

static void lay_out(layout *out, const trial_group *groups, size_t count)
{
    *out = (layout){ .groups = groups, .group_count = count };
    for (size_t g = 0; g < count; g++)
        for (size_t i = 0; i < groups[g].count; i++)
            find_names(out, groups[g].trials[i].spec);
    for (size_t g = 0; g < count; g++) {
        for (size_t i = 0; i < groups[g].count; i++)
            note_values(out, groups[g].trials[i].spec);
        for (size_t i = 0; i < groups[g].gap_count; i++)
            note_values(out, groups[g].gaps[i].spec);
    }
    for (size_t i = 0; i < out->count; i++)
        if (out->axes[i].count > 1 && is_numeric(&out->axes[i]))
            qsort(out->axes[i].values, out->axes[i].count, sizeof(char *), by_number);
    choose_axes(out);
}

static void free_layout(layout *of)
{
    for (size_t i = 0; i < of->count; i++) {
        for (size_t k = 0; k < of->axes[i].count; k++)
            free(of->axes[i].values[k]);
        free(of->axes[i].values);
        free(of->axes[i].name);
    }
    free(of->axes);
}

/* ---- The cells */

static bool find_place(const layout *of, size_t which, const char *spec, size_t *out)
{
    char *value = NULL;
    bool found = spectext_field(&value, spec, of->axes[which].name) && find_value(&of->axes[which], value, out);
    free(value);
    return found;
}

static bool find_cell(const layout *of, const char *spec, size_t *out)
{
    size_t row, column;
    if (!find_place(of, of->row, spec, &row) || !find_place(of, of->column, spec, &column))
        return false;
    *out = row * of->axes[of->column].count + column;
    return true;
}

/* What the cells do not say of a variant: "vector=4 cache=stream". */
static char *others_of(const layout *of, const char *spec)
{
    char *text = need_copy("");
    for (size_t i = 0; i < of->count; i++) {
        char *value = NULL, *longer;
        if (i == of->row || i == of->column || !spectext_field(&value, spec, of->axes[i].name))
            continue;
        longer = need_format("%s%s%s=%s", text, *text ? " " : "", of->axes[i].name, value);
        free(value);
        free(text);
        text = longer;
    }
    return text;
}

/* What is known of a cell: the fastest of its variants, how many there are, and why there may be none. */
typedef struct summary {
    const trial_row *best;
    size_t measured;
    const char *problem;
} summary;

static void summarise(const layout *of, const trial_group *group, summary *cells)
{
    size_t place;
    for (size_t i = 0; i < group->gap_count; i++)
        if (find_cell(of, group->gaps[i].spec, &place) && !cells[place].problem)
            cells[place].problem = group->gaps[i].problem;
    for (size_t i = 0; i < group->count; i++) {
        const trial_row *one = &group->trials[i];
        if (!find_cell(of, one->spec, &place))
            continue;
        if (*one->problem)
            cells[place].problem = one->problem;
        cells[place].measured += one->ms > 0;
        if (one->ms > 0 && (!cells[place].best || one->gbps > cells[place].best->gbps))
            cells[place].best = one;
    }
}

static heatmap_cell show_cell(const layout *of, const summary *cell)
{
    if (!cell->best)
        return (heatmap_cell){ NAN, cell->problem ? need_copy(cell->problem) : NULL };
    char *others = others_of(of, cell->best->spec), *note = NULL;
    if (*others && cell->measured > 1)
        note = need_format("%s, the best of %zu", others, cell->measured);
    else if (*others)
        note = need_copy(others);
    free(others);
    return (heatmap_cell){ cell->best->gbps, note };
}

static size_t cell_count(const layout *of)
{
    return of->axes[of->row].count * of->axes[of->column].count;
}

static heatmap_cell *make_cells(const layout *of, const trial_group *group)
{
    size_t count = cell_count(of);
    summary *known = need_array(NULL, count, sizeof(*known));
    heatmap_cell *cells = need_array(NULL, count, sizeof(*cells));
    for (size_t i = 0; i < count; i++)
        known[i] = (summary){ .best = NULL };
    summarise(of, group, known);
    for (size_t i = 0; i < count; i++)
        cells[i] = show_cell(of, &known[i]);
    free(known);
    return cells;
}

static void free_cells(heatmap_cell *cells, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free((char *)cells[i].note);
    free(cells);
}

/* ---- The heading */

static bool is_hidden(const layout *of, size_t which)
{
    return which != of->row && which != of->column && of->axes[which].count > 1;
}

/* "; in each cell the best over vector and cache" */
static char *others_text(const layout *of)
{
    char *text = need_copy("");
    size_t left = 0;
    for (size_t i = 0; i < of->count; i++)
        left += is_hidden(of, i);
    for (size_t i = 0; i < of->count; i++) {
        if (!is_hidden(of, i))
            continue;
        left--;
        char *longer = need_format("%s%s%s", text,
                                   !*text ? "; in each cell the best over "
                                   : left ? ", "
                                          : " and ",
                                   of->axes[i].name);
        free(text);
        text = longer;
    }
    return text;
}

static char *method_text(const layout *of)
{
    char *others = others_text(of);
    size_t measured = 0;
    for (size_t i = 0; i < of->group_count; i++)
        for (size_t k = 0; k < of->groups[i].count; k++)
            measured += of->groups[i].trials[k].ms > 0;
    char *text = need_format("%zu variants measured, each checked bit for bit%s", measured, others);
    free(others);
    return text;
}

static char *size_text(const trial_group *group)
{
    char size[FORMAT_ROOM], bytes[FORMAT_ROOM];
    return need_format("%s elements, %s read and written by a launch", format_power(size, group->elements),
                       format_bytes(bytes, group->bytes));
}

static char *title_text(const trial_group *groups, size_t count)
{
    if (count == 1)
        return need_format("%s %s: speed by geometry", groups[0].op, groups[0].dtype);
    return need_copy("Speed by geometry");
}

static double best_ceiling(const trial_group *groups, size_t count)
{
    double best = 0;
    for (size_t i = 0; i < count; i++)
        best = fmax(best, groups[i].ceiling_gbps);
    return best;
}

/* ---- The picture */

static void draw(FILE *stream, const layout *of, const heatmap_panel *panels, const trial_group *first)
{
    char *title = title_text(of->groups, of->group_count), *method = method_text(of), *size = size_text(first);
    char *device = spectext_device(first->model, first->device, first->target);
    const char *const lines[] = { device, size, method };
    const axis *rows = &of->axes[of->row], *columns = &of->axes[of->column];
    const heatmap map = { .heading = { title, lines, 3 },
                          .row_name = rows->name,
                          .rows = (const char *const *)rows->values,
                          .row_count = rows->count,
                          .column_name = columns->name,
                          .columns = (const char *const *)columns->values,
                          .column_count = columns->count,
                          .panels = panels,
                          .panel_count = of->group_count,
                          .unit = "GB/s",
                          .ceiling = best_ceiling(of->groups, of->group_count),
                          .ceiling_name = of->group_count > 1 ? "fastest plain copy" : "plain copy" };
    heatmap_draw(stream, &map);
    free(title);
    free(method);
    free(size);
    free(device);
}

/* So that there is a picture where nothing was measured: one empty cell. */
static void draw_nothing(FILE *stream)
{
    static const char *const label = "";
    const heatmap_cell cell = { NAN, NULL };
    const heatmap_panel panel = { NULL, &cell };
    heatmap_draw(
        stream,
        &(heatmap){ { "Speed by geometry", NULL, 0 }, "", &label, 1, "", &label, 1, &panel, 1, "GB/s", 0, NULL });
}

void trialmap_draw(FILE *stream, const trial_group *groups, size_t count)
{
    layout of;
    lay_out(&of, groups, count);
    if (of.count == 0) {
        draw_nothing(stream);
        free_layout(&of);
        return;
    }
    heatmap_panel *panels = need_array(NULL, count, sizeof(*panels));
    for (size_t i = 0; i < count; i++)
        panels[i] = (heatmap_panel){ count > 1 ? need_format("%s %s", groups[i].op, groups[i].dtype) : NULL,
                                     make_cells(&of, &groups[i]) };
    draw(stream, &of, panels, &groups[0]);
    for (size_t i = 0; i < count; i++) {
        free((char *)panels[i].title);
        free_cells((heatmap_cell *)panels[i].cells, cell_count(&of));
    }
    free(panels);
    free_layout(&of);
}
