/* Turns a table of speeds into a script for gnuplot: a heat map of variants, or lines. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plot/results.h"
#include "text/format.h"
#include "text/spectext.h"

/* Lengths are pixels. */
enum { MARGIN = 24, LINE = 18, HEAD = MARGIN + 16 + 20, WIDEST_TEXT = 120 /* characters */, WIDEST_TIC = 24 };

/* Rows that make a line or a panel: variants of one op, dtype, ... at one size, or one variant at several sizes. */
typedef struct kind {
    char *name;
    size_t *rows;
    size_t count;
} kind;

/* A parameter and the values that it takes. */
typedef struct axis {
    char *name;
    char **values;
    size_t count;
    bool varies; /* within a kind */
} axis;

typedef struct plot {
    FILE *to;
    const gnuplot_format *format;
    const struct csv_table *table;
    bool sizes; /* of a bench, not variants */
    kind *kinds;
    size_t kind_count;
    axis *axes;
    size_t axis_count;
    size_t *places;     /* of each row: which value of each axis it has, or NOWHERE */
    size_t row, column; /* the axes of a heat map; `row` alone where there are lines */
    size_t best;        /* the fastest row, or NOWHERE */
} plot;

static const size_t NOWHERE = (size_t)-1;

/* ---- Rows */

static const char *field(const plot *of, size_t row, const char *title)
{
    return csv_field(of->table, row, title);
}

static double number(const plot *of, size_t row, const char *title)
{
    double value = strtod(field(of, row, title), NULL);
    return isfinite(value) && value > 0 ? value : 0;
}

static double speed(const plot *of, size_t row)
{
    return row == NOWHERE ? 0 : number(of, row, "gbps");
}

static size_t place(const plot *of, size_t row, size_t which)
{
    return of->places[row * of->axis_count + which];
}

static bool agree(const plot *of, const char *title)
{
    for (size_t row = 1; row < of->table->rows; row++)
        if (strcmp(field(of, row, title), field(of, 0, title)) != 0)
            return false;
    return true;
}

static size_t count_verdict(const plot *of, const char *verdict)
{
    size_t count = 0;
    for (size_t row = 0; row < of->table->rows; row++)
        count += strcmp(field(of, row, "verdict"), verdict) == 0;
    return count;
}

static char *size_text(const plot *of, size_t row)
{
    return need_format("%s elements", format_power(strtoull(field(of, row, "elements"), NULL, 10)));
}

static char *value_text(double value)
{
    return format_fixed(value, format_decimals(value));
}

/* ---- Parameters */

static axis *find_axis(const plot *of, const char *name)
{
    for (size_t i = 0; i < of->axis_count; i++)
        if (strcmp(of->axes[i].name, name) == 0)
            return &of->axes[i];
    return NULL;
}

static size_t find_value(const axis *of, const char *value)
{
    for (size_t i = 0; i < of->count; i++)
        if (strcmp(of->values[i], value) == 0)
            return i;
    return NOWHERE;
}

static void note_parameter(plot *of, const char *name, const char *value)
{
    axis *known = find_axis(of, name);
    if (!known) {
        of->axes = need_array(of->axes, of->axis_count + 1, sizeof(*of->axes));
        known = &of->axes[of->axis_count++];
        *known = (axis){ .name = need_copy(name) };
    }
    if (find_value(known, value) == NOWHERE) {
        known->values = need_array(known->values, known->count + 1, sizeof(*known->values));
        known->values[known->count++] = need_copy(value);
    }
}

/* Numbers by size, words by letters. */
static int by_number(const void *a, const void *b)
{
    double x = strtod(*(char *const *)a, NULL), y = strtod(*(char *const *)b, NULL);
    return x != y ? (x > y) - (x < y) : strcmp(*(char *const *)a, *(char *const *)b);
}

static void find_axes(plot *out)
{
    for (size_t row = 0; row < out->table->rows; row++)
        for (char *at = spectext_geometry(field(out, row, "spec")), *name; (name = strsep(&at, " "));) {
            char *value = strchr(name, '=');
            if (value) {
                *value = '\0';
                note_parameter(out, name, value + 1);
            }
        }
    for (size_t i = 0; i < out->axis_count; i++)
        qsort(out->axes[i].values, out->axes[i].count, sizeof(char *), by_number);
    out->places = need_array(NULL, out->table->rows * out->axis_count, sizeof(*out->places));
    for (size_t i = 0; i < out->table->rows * out->axis_count; i++) {
        const axis *of = &out->axes[i % out->axis_count];
        const char *value = spectext_field(field(out, i / out->axis_count, "spec"), of->name);
        out->places[i] = value ? find_value(of, value) : NOWHERE;
    }
}

/* ---- Kinds */

/* "hardsigmoid f32", and more words that tell its kind from those of other rows. */
static char *kind_name(const plot *of, size_t row)
{
    char *name = need_format("%s %s", field(of, row, "op"), field(of, row, "dtype"));
    const char *template = spectext_field(field(of, row, "spec"), "template");
    if (template && strcmp(template, field(of, row, "op")) != 0)
        text_append(&name, " ", "%s", template);
    for (size_t i = 0; of->sizes && i < of->axis_count; i++)
        if (of->axes[i].count > 1 && place(of, row, i) != NOWHERE)
            text_append(&name, " ", "%s=%s", of->axes[i].name, of->axes[i].values[place(of, row, i)]);
    if (!agree(of, "device"))
        text_append(&name, " ", "on %s", field(of, row, "device"));
    if (!of->sizes && !agree(of, "elements"))
        text_append(&name, ", ", "%s", size_text(of, row));
    return name;
}

static void find_kinds(plot *out)
{
    for (size_t row = 0; row < out->table->rows; row++) {
        char *name = kind_name(out, row);
        size_t i = 0;
        while (i < out->kind_count && strcmp(out->kinds[i].name, name) != 0)
            i++;
        if (i == out->kind_count) {
            out->kinds = need_array(out->kinds, ++out->kind_count, sizeof(*out->kinds));
            out->kinds[i] = (kind){ .name = name };
        }
        kind *found = &out->kinds[i];
        found->rows = need_array(found->rows, found->count + 1, sizeof(*found->rows));
        found->rows[found->count++] = row;
        if (speed(out, row) > speed(out, out->best))
            out->best = row;
    }
}

/* Whether the parameter takes several values in some kind; `apart`: whether it tells all variants of each kind
 * apart. */
static bool does_vary(const plot *of, size_t which, bool apart)
{
    bool varies = false, repeats = false;
    for (size_t k = 0; k < of->kind_count; k++)
        for (size_t i = 1; i < of->kinds[k].count; i++)
            for (size_t j = apart ? 0 : i - 1; j < i; j++) {
                bool same = place(of, of->kinds[k].rows[i], which) == place(of, of->kinds[k].rows[j], which);
                varies = varies || !same;
                repeats = repeats || same;
            }
    return varies && !(apart && repeats);
}

/* The first two parameters that vary; where fewer do, the first ones besides. */
static void choose_axes(plot *out)
{
    size_t chosen[2] = { NOWHERE, NOWHERE };
    for (int varying = 1; varying >= 0; varying--)
        for (size_t i = 0; i < out->axis_count; i++) {
            out->axes[i].varies = does_vary(out, i, false);
            if (out->axes[i].varies == varying && chosen[1] == NOWHERE)
                chosen[chosen[0] != NOWHERE] = i;
        }
    out->row = chosen[0];
    out->column = chosen[1] == NOWHERE ? chosen[0] : chosen[1];
    if (out->row != NOWHERE && does_vary(out, out->row, true))
        out->column = NOWHERE;
}

/* ---- Texts */

/* Writes a text with gnuplot_text or gnuplot_tic, cut to `most` characters. */
static void put_cut(const plot *of, void (*put)(FILE *, const char *), const char *text, size_t most)
{
    const char *end = text;
    for (size_t i = 0; *end && i < most; i++)
        for (end++; (*end & 0xC0) == 0x80;)
            end++;
    char *shown = need_format("%.*s%s", (int)(end - text), text, *end ? "\xE2\x80\xA6" : "");
    put(of->to, shown);
}

static void put_label(const plot *of, char *text, double x, double y, const char *style)
{
    fputs("set label ", of->to);
    put_cut(of, gnuplot_text, text, WIDEST_TEXT);
    fprintf(of->to, " at screen %.6g/W,1-%.6g/H %s\n", x, y, style);
}

/* "104 variants measured, each checked bit for bit; in each cell the best over vector and cache" */
static char *method_text(const plot *of)
{
    size_t measured = 0, out = count_verdict(of, "out"), hidden = 0;
    for (size_t row = 0; row < of->table->rows; row++)
        measured += speed(of, row) > 0;
    if (of->sizes)
        return need_format("medians; the bars reach over the middle half of the rounds; %s",
                           of->table->rows && agree(of, "verified") && *field(of, 0, "verified")
                               ? "every result checked bit for bit"
                               : "results not checked");
    char *text = need_format("%zu variants measured, each checked bit for bit", measured);
    if (out > 0)
        text_append(&text, "; ", "%zu out", out);
    if (of->column == NOWHERE)
        text_append(&text, "; ", "bars: 95%% intervals of the comparison with the default");
    for (size_t i = 0; i < of->axis_count && of->column != NOWHERE; i++)
        if (of->axes[i].varies && i != of->row && i != of->column)
            text_append(&text, hidden++ ? " and " : "; in each cell the best over ", "%s", of->axes[i].name);
    return text;
}

static void put_heading(const plot *of)
{
    bool any = of->table->rows > 0, one = any && agree(of, "op") && (of->sizes || of->kind_count == 1);
    const char *what = of->sizes ? "speed by size" : "speed by geometry";
    char *title = one ? need_format("%s: %s", of->sizes ? field(of, 0, "op") : of->kinds[0].name, what)
                      : need_format("S%s", what + 1);
    put_label(of, title, MARGIN, MARGIN + 10, "font bold.',18' tc rgb ink");
    if (!any)
        return;
    char *device = agree(of, "device")
                       ? spectext_device(field(of, 0, "model"), field(of, 0, "device"), field(of, 0, "target"))
                       : need_copy(agree(of, "model") ? field(of, 0, "model") : "several devices");
    put_label(of, device, MARGIN, MARGIN + 16 + LINE, "tc rgb muted");
    put_label(of, method_text(of), MARGIN, MARGIN + 16 + (of->sizes ? 2 : 3) * LINE, "tc rgb muted");
    if (of->sizes)
        return;
    char *work = agree(of, "elements") ? size_text(of, 0) : need_copy("several sizes");
    if (agree(of, "elements") && agree(of, "bytes"))
        text_append(&work, ", ", "%s read and written by a launch",
                    format_bytes(strtoull(field(of, 0, "bytes"), NULL, 10)));
    put_label(of, work, MARGIN, MARGIN + 16 + 2 * LINE, "tc rgb muted");
}

/* "best: 4280 GB/s with block 256, elems 8, relu6 f32 (vector=4 cache=plain)" */
static char *best_text(const plot *of)
{
    if (of->best == NOWHERE)
        return need_copy("nothing was measured");
    char *others = need_copy(""), *places = need_copy(""), *value = value_text(speed(of, of->best));
    for (size_t i = 0; i < of->axis_count; i++) {
        bool shown = i == of->row || i == of->column;
        if (place(of, of->best, i) != NOWHERE)
            text_append(shown ? &places : &others, shown ? ", " : " ", shown ? "%s %s" : "%s=%s", of->axes[i].name,
                        of->axes[i].values[place(of, of->best, i)]);
    }
    if (of->kind_count > 1)
        text_append(&places, ", ", "%s", kind_name(of, of->best));
    char *text = need_format("best: %s GB/s with %s", value, places);
    if (*others)
        text_append(&text, " ", "(%s)", others);
    return text;
}

/* The labels of an axis at 0, 1, ...; only every so many. */
static void put_tics(const plot *of, char which, const axis *from, size_t every)
{
    fprintf(of->to, "set %ctics (\"\" 0", which);
    for (size_t i = 0; i < from->count; i += every) {
        fputs(", ", of->to);
        put_cut(of, gnuplot_tic, from->values[i], WIDEST_TIC);
        fprintf(of->to, " %zu", i);
    }
    fprintf(of->to, ") textcolor rgb ink\nset %clabel ", which);
    put_cut(of, gnuplot_text, from->name, WIDEST_TIC);
    fputs(" font bold.',12' textcolor rgb muted\n", of->to);
}

static size_t longest(const axis *of)
{
    size_t most = 1;
    for (size_t i = 0; i < of->count; i++)
        most = strlen(of->values[i]) > most ? strlen(of->values[i]) : most;
    return most < WIDEST_TIC ? most : WIDEST_TIC;
}

/* ---- The heat map */

/* From dark violet over blue and green to light yellow, in steps that look equal: lightness and hue of Oklab change
 * evenly, so that it also reads in grey and with any colour vision. */
static const char palette[] =
    "set palette defined (0 '#33075c', 1 '#311c6d', 2 '#2b2d7f', 3 '#233f89', 4 '#0e5193', 5 '#106192', 6 '#167191', "
    "7 '#198190', 8 '#1f908d', 9 '#23a08b', 10 '#28b087', 11 '#49bd80', 12 '#62ca77', 13 '#8ad46e', 14 '#acdd62', "
    "15 '#cfe55b', 16 '#f0ec51')\n";

/* Below this place on the palette white letters are read better, above it dark ones: the contrast ratios of WCAG 2. */
static const double dark_from = 0.489;

typedef struct colour_range {
    double low, high, ceiling;
} colour_range;

/* The fastest row of a cell, or NOWHERE; *reason says why there is none. */
static size_t best_of_cell(const plot *of, const kind *from, size_t row, size_t column, const char **reason)
{
    size_t best = NOWHERE;
    *reason = NULL;
    for (size_t i = 0; i < from->count; i++) {
        size_t one = from->rows[i];
        if (place(of, one, of->row) != row || place(of, one, of->column) != column)
            continue;
        if (speed(of, one) > speed(of, best))
            best = one;
        if (*field(of, one, "problem"))
            *reason = field(of, one, "problem");
    }
    return best;
}

/* The colours end at the ceiling, unless the speeds are far above it: then most of the picture would have one
 * colour. A twentieth of the highest speed is always shown, or noise would look like a landscape. */
static colour_range find_colours(const plot *of)
{
    colour_range out = { INFINITY, speed(of, of->best), 0 };
    for (size_t row = 0; row < of->table->rows; row++)
        out.ceiling = fmax(out.ceiling, number(of, row, "ceiling_gbps"));
    if (out.ceiling > 0 && out.high <= 1.05 * out.ceiling)
        out.high = out.ceiling;
    out.high = out.high > 0 ? out.high : 1;
    const char *reason;
    for (size_t k = 0; k < of->kind_count; k++)
        for (size_t i = 0; i < of->axes[of->row].count * of->axes[of->column].count; i++) {
            size_t width = of->axes[of->column].count;
            double value = speed(of, best_of_cell(of, &of->kinds[k], i / width, i % width, &reason));
            out.low = value > 0 ? fmin(out.low, value) : out.low;
        }
    out.low = fmin(fmin(out.low, 0.95 * out.high), out.ceiling > 0 ? out.ceiling : INFINITY);
    return out;
}

/* Of a cell: the middle and the edges, within the gaps between cells and over them. */
static const char cell[] = "1:2:($1-0.48):($1+0.48):($2-0.47):($2+0.47)",
                  frame[] = "1:2:($1-0.5):($1+0.5):($2-0.5):($2+0.5)";

/* $values: the places, speeds, their texts and the colours of those; $empty: the cells without; $refused: those of
 * them that have a reason. Of all reasons the last is kept in *reason, and in *several whether they differ. */
static void put_cells(const plot *of, const kind *from, const colour_range *range, bool numbers, const char **reason,
                      bool *several)
{
    size_t width = of->axes[of->column].count, count = of->axes[of->row].count * width;
    struct draft empty, refused;
    draft_begin(&empty);
    draft_begin(&refused);
    fputs("$values << EOD\n", of->to);
    for (size_t i = 0; i < count; i++) {
        const char *why;
        size_t best = best_of_cell(of, from, i / width, i % width, &why);
        if (best == NOWHERE) {
            fprintf((why ? &refused : &empty)->stream, "%zu %zu\n", i % width, i / width);
            *several = *several || (why && *reason && strcmp(*reason, why) != 0);
            *reason = why ? why : *reason;
            continue;
        }
        char *text = value_text(speed(of, best));
        bool dark = (speed(of, best) - range->low) / (range->high - range->low) >= dark_from;
        fprintf(of->to, "%zu %zu %.9g %s %s\n", i % width, i / width, speed(of, best), numbers ? text : "\"\"",
                dark ? "0x1f2328" : "0xffffff");
    }
    draft_end(&empty);
    draft_end(&refused);
    fprintf(of->to, "EOD\n$refused << EOD\n%sEOD\n$empty << EOD\n%s%sEOD\n", refused.text, empty.text, refused.text);
}

static void put_panel(const plot *of, const kind *from, bool first)
{
    fputs("set title ", of->to);
    put_cut(of, gnuplot_text, of->kind_count > 1 ? from->name : "", WIDEST_TEXT);
    fputs(" font bold.',13' textcolor rgb ink\n", of->to);
    if (first)
        put_tics(of, 'y', &of->axes[of->row], 1);
    else
        fputs("unset ytics\nunset ylabel\n", of->to);
    fputs(first ? "set ytics scale 0\n" : "", of->to);
    fprintf(of->to,
            "plot NaN notitle, $empty using %s with boxxyerror fc rgb faint notitle, "
            "$refused using %s with boxxyerror fc rgb hatch fs transparent pattern 5 notitle, "
            "$values using %s:3 with boxxyerror fc palette notitle, "
            "$values using 1:2:4:5 with labels font plain.',11' tc rgb variable notitle",
            cell, cell, cell);
    for (size_t i = 0; i < from->count; i++)
        if (from->rows[i] == of->best)
            fprintf(of->to, ", $best using %s with boxxyerror lc rgb ink lw 2.5 fs empty notitle", frame);
    fputs("\nunset label\nunset arrow\nunset colorbox\n", of->to);
}

/* The colour bar, with gnuplot's tics to its right and the mark of the ceiling to its left. */
static void put_bar(const plot *of, const colour_range *range, double x, double y, double height)
{
    fprintf(of->to, "%sset cbrange [%.9g:%.9g]\nset cbtics scale 0 format '%%g' textcolor rgb ink\n", palette,
            range->low, range->high);
    fprintf(of->to, "set colorbox user origin screen %g/W,1-%g/H size screen 16/W,%g/H noborder\n", x, y + height,
            height);
    put_label(of, need_copy("GB/s"), x, y - 16, "font bold.',12' tc rgb muted");
    if (range->ceiling <= 0)
        return;
    double mark = y + height * (range->high - range->ceiling) / (range->high - range->low);
    fprintf(of->to, "set arrow from screen %g/W,1-%g/H to screen %g/W,1-%g/H nohead front lc rgb ink lw 2\n", x - 6,
            mark, x + 16, mark);
    put_label(of, value_text(range->ceiling), x - 10, mark, "right font bold.',12' tc rgb ink");
    put_label(of, need_copy(of->kind_count > 1 ? "fastest plain copy" : "plain copy"), x - 10, mark + 14,
              "right font plain.',11' tc rgb muted");
}

static void write_heatmap(const plot *of)
{
    enum { GAP = 28, FOOT = 84, ACROSS = 1180 };
    const axis *rows = &of->axes[of->row], *columns = &of->axes[of->column];
    double label = 7.5 * (double)longest(columns) + 6,
           cell_width = fmin(fmax(54, label), fmax(14, 760.0 / (double)columns->count));
    double cell_height = fmin(34, fmax(14, 480.0 / (double)rows->count));
    double width = cell_width * (double)columns->count, height = cell_height * (double)rows->count;
    double left = 70 + 7.5 * (double)longest(rows), top = HEAD + 3 * LINE + (of->kind_count > 1 ? 40 : 24),
           step = height + FOOT;
    size_t fit = (size_t)fmax(1, ACROSS / (width + GAP)), down = (of->kind_count + fit - 1) / fit;
    size_t across = (of->kind_count + down - 1) / down;
    double right = left + (double)across * (width + GAP) - GAP, bottom = top + (double)down * step - FOOT;
    double bar = fmin(420, fmax(120, bottom - top)), card = fmax(right + 240, 760), end = fmax(bottom, top + bar) + 112;
    colour_range range = find_colours(of);
    const char *reason = NULL;
    bool several = false;
    gnuplot_begin(of->to, of->format, card, end);
    put_heading(of);
    put_bar(of, &range, right + 160, top, bar);
    put_label(of, best_text(of), left, end - 44, "tc rgb ink");
    if (of->best != NOWHERE)
        fprintf(of->to, "$best << EOD\n%zu %zu\nEOD\n", place(of, of->best, of->column), place(of, of->best, of->row));
    fprintf(of->to, "set border 0\nset xrange [-0.5:%zu-0.5]\nset yrange [%zu-0.5:-0.5]\n", columns->count,
            rows->count);
    put_tics(of, 'x', columns, (size_t)ceil(label / cell_width));
    fprintf(of->to,
            "set tics scale 0\nset multiplot layout %zu,%zu margins %g/W,%g/W,1-%g/H,1-%g/H spacing screen %d/W,%d/H\n",
            down, across, left, right, bottom, top, GAP, FOOT);
    for (size_t i = 0; i < of->kind_count; i++) {
        put_cells(of, &of->kinds[i], &range, cell_width >= 40 && cell_height >= 18, &reason, &several);
        if (i + 1 == of->kind_count && reason)
            put_label(of,
                      need_format("hatched: %s",
                                  several ? "impossible or out; the column 'problem' of the CSV says why" : reason),
                      left, end - 22, "tc rgb ink");
        put_panel(of, &of->kinds[i], i % across == 0);
    }
    fputs("unset multiplot\n", of->to);
}

/* ---- Lines */

/* Where a row stands on the axis of a line. */
static double position(const plot *of, size_t row)
{
    if (of->sizes)
        return fmax(1, number(of, row, "elements"));
    return of->row == NOWHERE || place(of, row, of->row) == NOWHERE ? 0 : (double)place(of, row, of->row);
}

static int by_position(const void *a, const void *b, void *data)
{
    double x = position(data, *(const size_t *)a), y = position(data, *(const size_t *)b);
    return (x > y) - (x < y);
}

/* The range of the bars: the middle half of the rounds, or the interval of the ratio the other way round. */
static bool find_spread(const plot *of, size_t row, double *low, double *high)
{
    double whole = of->sizes ? number(of, row, "bytes") / 1e6 : speed(of, row) * number(of, row, "ratio");
    *low = whole / number(of, row, of->sizes ? "high_ms" : "ratio_high");
    *high = whole / number(of, row, of->sizes ? "low_ms" : "ratio_low");
    return isfinite(*low) && isfinite(*high) && *low > 0 && *low < *high;
}

/* The points of a column as a block of data named after its number. */
static void put_points(const plot *of, const kind *from, const char *column, size_t index)
{
    fprintf(of->to, "$points%zu << EOD\n", index);
    for (size_t i = 0; i < from->count; i++) {
        size_t row = from->rows[i];
        double low, high, value = number(of, row, column);
        fprintf(of->to, value > 0 ? "%.9g %.9g " : "%.9g NaN ", position(of, row), value);
        char *text = value_text(value);
        if (value > 0 && find_spread(of, row, &low, &high))
            fprintf(of->to, "%.9g %.9g %s\n", low, high, text);
        else
            fprintf(of->to, "NaN NaN %s\n", value > 0 ? text : "\"\"");
    }
    fputs("EOD\n", of->to);
}

/* A line: a column of a kind's rows. */
typedef struct line {
    const kind *from;
    const char *column;
    char *name;
    bool copy;     /* the others are compared with it: dashed, without marks */
    size_t colour; /* GREY or a number */
} line;

enum { GREY = 8 };

static void put_line(const plot *of, const line *one, size_t index)
{
    static const char *const colours[] = { "#1f6fb8", "#d1490c", "#15845a", "#8e44ad", "#a86b00",
                                           "#0e93ad", "#cf3a78", "#4d5a68", "#59636e" };
    static const int marks[] = { 7, 5, 9, 13, 11, 15 }; /* filled: circle, square, triangle, diamond, ... */
    static const char *const dashes[] = { "(9,6)", "(2,4)", "(12,4,2,4)", "(15,8)" };
    const char *colour = colours[one->colour == GREY ? GREY : one->colour % GREY];
    if (!one->copy)
        fprintf(of->to, ", $points%zu using 1:2:3:4 with yerrorbars pt -1 lc rgb '%s' lw 1.2 notitle", index, colour);
    fprintf(of->to, ", $points%zu using 1:2 with lines%s lc rgb '%s' lw 2", index, one->copy ? "" : "points", colour);
    if (one->copy)
        fprintf(of->to, " dt %s title ", dashes[(index - of->kind_count) % 4]);
    else
        fprintf(of->to, " pt %d ps 1 title ", marks[one->colour % 6]);
    put_cut(of, gnuplot_text, one->name, 36);
}

static double bytes_each(const plot *of, size_t row)
{
    return number(of, row, "bytes") / fmax(1, number(of, row, "elements"));
}

static void add_line(line **lines, size_t *count, const plot *of, const kind *from, const char *column, char *name,
                     size_t colour)
{
    bool copy = strcmp(column, "gbps") != 0;
    if (copy && number(of, from->rows[0], column) <= 0)
        return;
    *lines = need_array(*lines, *count + 1, sizeof(**lines));
    (*lines)[(*count)++] = (line){ from, column, name, copy, colour };
}

/* A line for each kind, and the copies: of each kind's own size and traffic, or of each amount of bytes for an
 * element. */
static line *find_lines(const plot *of, size_t *count, bool one_traffic)
{
    line *lines = NULL;
    *count = 0;
    for (size_t i = 0; i < of->kind_count; i++)
        add_line(&lines, count, of, &of->kinds[i], "gbps", need_copy(of->kinds[i].name), i);
    for (size_t i = 0; i < of->kind_count; i++) {
        const kind *from = &of->kinds[i];
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || bytes_each(of, from->rows[0]) == bytes_each(of, of->kinds[k].rows[0]);
        char *value = value_text(number(of, from->rows[0], "ceiling_gbps"));
        char *each = one_traffic ? need_copy("") : need_format(", %g B an element", bytes_each(of, from->rows[0]));
        if (!of->sizes)
            add_line(&lines, count, of, from, "ceiling_gbps",
                     of->kind_count > 1 ? need_format("plain copy, %s: %s", from->name, value)
                                        : need_format("plain copy: %s", value),
                     of->kind_count > 1 ? i : GREY);
        if (of->sizes && !seen) {
            add_line(&lines, count, of, from, "memory_copy_gbps", need_format("memory copy%s", each), GREY);
            add_line(&lines, count, of, from, "copy_kernel_gbps", need_format("copy kernel%s", each), GREY);
        }
    }
    return lines;
}

/* An axis of sizes: elements below, or bytes above, `each` for an element. */
static void put_sizes(const plot *of, const char *which, double least, double most, double each)
{
    int every = (int)ceil((log2(most / least) + 1) / 12);
    fprintf(of->to, "set logscale %s 2\nset %srange [%.9g:%.9g]\nset %stics (\"\" 1", which, which, least / 1.2 * each,
            most * 1.2 * each, which);
    for (int i = (int)floor(log2(least)); exp2(i) <= most; i += every) {
        double size = exp2(i) * each;
        uint64_t count = (uint64_t)size;
        fprintf(of->to, ", \"%s\" %.9g", each > 1 ? format_bytes(count) : format_power(count), size);
    }
    fprintf(of->to, ") textcolor rgb %s\nset %slabel '%s' font bold.',12' textcolor rgb muted\n",
            each > 1 ? "muted" : "ink", which, each > 1 ? "bytes read and written" : "elements");
}

/* Bytes are shown where those of an element are the same in all lines. */
static void put_x_axis(const plot *of, bool one_traffic)
{
    double least = INFINITY, most = 1;
    if (!of->sizes && of->row == NOWHERE)
        return;
    if (!of->sizes) {
        put_tics(of, 'x', &of->axes[of->row], 1);
        fprintf(of->to, "set xrange [-0.15:%zu-0.85]\n", of->axes[of->row].count);
        return;
    }
    for (size_t row = 0; row < of->table->rows; row++) {
        least = fmin(least, position(of, row));
        most = fmax(most, position(of, row));
    }
    put_sizes(of, "x", fmin(least, most), most, 1);
    if (one_traffic && bytes_each(of, 0) > 1)
        put_sizes(of, "x2", fmin(least, most), most, bytes_each(of, 0));
}

static void write_lines(const plot *of)
{
    enum { LEFT = 84, WIDTH = 740, TOP = HEAD + 3 * LINE + 50, KEY = LEFT + WIDTH + 26 };
    bool one_traffic = of->table->rows > 0;
    for (size_t row = 1; row < of->table->rows; row++)
        one_traffic = one_traffic && bytes_each(of, row) == bytes_each(of, 0);
    size_t count = 0;
    line *lines = find_lines(of, &count, one_traffic);
    double height = fmax(TOP + 400 + 90, TOP + 28 * (double)count), most = 0;
    for (size_t i = 0; i < of->kind_count; i++)
        qsort_r(of->kinds[i].rows, of->kinds[i].count, sizeof(size_t), by_position, (void *)of);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < lines[i].from->count; k++)
            most = fmax(most, number(of, lines[i].from->rows[k], lines[i].column));
    most = most > 0 ? most : 1;
    gnuplot_begin(of->to, of->format, KEY + 320, height);
    put_heading(of);
    put_label(of, need_copy("GB/s"), MARGIN, TOP - 22, "font bold.',12' tc rgb muted");
    if (!of->sizes || of->best == NOWHERE)
        put_label(of, best_text(of), LEFT, height - 20, "tc rgb ink");
    put_x_axis(of, one_traffic);
    fprintf(of->to,
            "set lmargin at screen %d/W\nset rmargin at screen %d/W\nset tmargin at screen 1-%d/H\nset bmargin at "
            "screen 90/H\n",
            LEFT, LEFT + WIDTH, TOP);
    /* The axis of sizes begins at 0. Bars may leave the picture at the top: a wild measurement must not press the
     * rest down. */
    if (of->sizes)
        fprintf(of->to, "set yrange [0:*<%.9g]\n", 1.25 * most);
    else
        fprintf(of->to, "set yrange [*<%.9g:*<%.9g]\n", 0.95 * most, 1.25 * most);
    fprintf(of->to,
            "set border 1 lc rgb muted\nset tics nomirror out scale 0.5\nset grid noxtics ytics back lt 1 lc rgb rule "
            "lw 1\nset ytics scale 0 format '%%g' nomirror "
            "textcolor rgb ink\n"
            "set key at screen %d/W,1-%d/H left top Left reverse vertical samplen 2.5 spacing 1.5 textcolor rgb ink\n",
            KEY, TOP - 6);
    for (size_t i = 0; i < count; i++)
        put_points(of, lines[i].from, lines[i].column, i);
    fputs(count ? "plot NaN notitle" : "set xrange [1:2]\nset yrange [0:1]\nplot NaN notitle", of->to);
    for (size_t i = 0; i < count; i++)
        put_line(of, &lines[i], i);
    if (!of->sizes && of->best != NOWHERE)
        fprintf(of->to, ", '+' using (%.9g):(%.9g) every ::0::0 with points pt 6 ps 2 lw 2 lc rgb ink notitle",
                position(of, of->best), speed(of, of->best));
    if (!of->sizes && of->kind_count == 1)
        fputs(", $points0 using 1:2:5 with labels offset 0,1 font plain.',11' tc rgb ink notitle", of->to);
    fputc('\n', of->to);
}

/* ---- The whole */

bool plot_takes(const struct csv_table *table)
{
    return csv_has(table, "spec") && csv_has(table, "gbps") && (csv_has(table, "verdict") || csv_has(table, "min_ms"));
}

void plot_write(FILE *script, const gnuplot_format *format, const struct csv_table *table)
{
    plot all = { .to = script, .format = format, .table = table, .sizes = !csv_has(table, "verdict"), .best = NOWHERE };
    find_axes(&all);
    find_kinds(&all);
    choose_axes(&all);
    if (all.sizes || all.row == NOWHERE || all.column == NOWHERE)
        write_lines(&all);
    else
        write_heatmap(&all);
}
