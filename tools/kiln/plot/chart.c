#include "plot/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "plot/colour.h"

enum { TITLE_SIZE = 18, LINE_SIZE = 12, LINE_STEP = 18, TITLE_BASE = CHART_MARGIN + 16, NARROWEST = 520, WIDEST = 900 };

/* How much wider bold letters are. */
static const double bold_stretch = 1.06;

/* What each system has for its own windows; viewers that know none of them take their default. */
static const char fonts[] = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', "
                            "'DejaVu Sans', Arial, sans-serif";

double chart_heading_height(const chart_heading *heading)
{
    return TITLE_BASE + (double)heading->line_count * LINE_STEP + 20;
}

double chart_card_width(const chart_heading *heading, double content)
{
    double widest = chart_text_width(heading->title, TITLE_SIZE) * bold_stretch;
    for (size_t i = 0; i < heading->line_count; i++)
        widest = fmax(widest, chart_text_width(heading->lines[i], LINE_SIZE));
    return fmax(fmax(content, NARROWEST), fmin(widest, WIDEST)) + 2 * CHART_MARGIN;
}

static void draw_card(struct svg *svg, double width, double height)
{
    svg_rect(svg, 0.5, 0.5, width - 1, height - 1);
    svg_put_number(svg, "rx", 8);
    svg_put_colour(svg, "fill", COLOUR_PAPER);
    svg_put_colour(svg, "stroke", COLOUR_RULE);
    svg_close(svg);
}

void chart_begin(struct svg *out, FILE *stream, double width, double height, const chart_heading *heading)
{
    double room = width - 2 * CHART_MARGIN;
    svg_begin(out, stream, width, height);
    svg_put(out, "font-family", fonts);
    svg_tooltip(out, "%s", heading->title);
    draw_card(out, width, height);
    chart_text(out, CHART_MARGIN, TITLE_BASE, heading->title,
               &(chart_label){ .size = TITLE_SIZE, .colour = COLOUR_INK, .bold = true, .room = room });
    for (size_t i = 0; i < heading->line_count; i++)
        chart_text(out, CHART_MARGIN, TITLE_BASE + 4 + (double)(i + 1) * LINE_STEP, heading->lines[i],
                   &(chart_label){ .size = LINE_SIZE, .colour = COLOUR_MUTED, .room = room });
}

/* Widths in units of the letter size, those of DejaVu Sans, which is wider than the other usual fonts. */
static double character_width(uint32_t character)
{
    if (character < 0x80 && strchr("ijl.,:;|!'I", (int)character))
        return 0.35;
    if (character < 0x80 && strchr("frt ()[]-/", (int)character))
        return 0.41;
    if (character < 0x80 && strchr("mwMW@%", (int)character))
        return 0.98;
    return character >= 0x2E80 ? 1.0 : character >= 'A' && character <= 'Z' ? 0.72 : 0.64;
}

double chart_text_width(const char *text, double size)
{
    double width = 0;
    while (*text)
        width += character_width(svg_next_character(&text));
    return width * size;
}

/* As much of the text as leaves room for an ellipsis. */
static char *cut(const char *text, double size, double room)
{
    const char *end = text;
    double width = size;
    for (;;) {
        const char *next = end;
        width += *end ? character_width(svg_next_character(&next)) * size : 0;
        if (!*end || width > room)
            break;
        end = next;
    }
    return need_format("%.*s\xE2\x80\xA6", (int)(end - text), text);
}

void chart_text(struct svg *svg, double x, double y, const char *text, const chart_label *label)
{
    double wide = label->bold ? bold_stretch : 1;
    bool fits = label->room <= 0 || chart_text_width(text, label->size) * wide <= label->room;
    svg_open(svg, "text");
    svg_put_number(svg, "x", x);
    svg_put_number(svg, "y", y);
    svg_put_number(svg, "font-size", label->size);
    svg_put_colour(svg, "fill", label->colour);
    if (label->anchor)
        svg_put(svg, "text-anchor", label->anchor);
    if (label->bold)
        svg_put(svg, "font-weight", "600");
    if (label->upwards)
        svg_put_turn(svg, x, y);
    if (fits) {
        svg_text(svg, text);
    } else {
        char *part = cut(text, label->size * wide, label->room);
        svg_tooltip(svg, "%s", text);
        svg_text(svg, part);
        free(part);
    }
    svg_close(svg);
}

/* 1, 2, 2.5 or 5 times a power of ten, and at least as much. */
static double round_step(double least)
{
    double power = pow(10, floor(log10(least)));
    double digit = least / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 2.5 ? 2.5 : digit <= 5 ? 5 : 10);
}

static int step_decimals(double step)
{
    int decimals = 0;
    while (decimals < 9 && fabs(step - nearbyint(step)) > 1e-6 * step) {
        step *= 10;
        decimals++;
    }
    return decimals;
}

chart_ticks chart_ticks_between(double low, double high, int about)
{
    double step = round_step((high - low) / about);
    double first = ceil(low / step - 1e-9) * step;
    return (chart_ticks){ first, step, (size_t)floor((high - first) / step + 1e-9) + 1, step_decimals(step) };
}
