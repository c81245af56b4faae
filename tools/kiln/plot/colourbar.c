#include "plot/colourbar.h"

#include <math.h>

#include "format.h"
#include "plot/colour.h"

enum {
    LABEL = 12, /* letter sizes */
    SMALL = 11,
    WIDTH = 16,
    LABEL_GAP = 10,
    NAME_WIDEST = 160,
    STOPS = 26 /* of the gradient: at places that two decimals tell exactly */
};

/* Where a bar stands. */
typedef struct place {
    double x, y, height;
} place;

/* The colours begin at a round number below the least value, so that speeds close to the ceiling can be told apart. But
 * a twentieth of the top is always shown, or noise would look like a landscape. They end at the ceiling, unless what was
 * measured leaves it far below: then most of the picture would have one colour. */
colourbar colourbar_between(double least, double best, double ceiling, const char *ceiling_name, const char *unit)
{
    colourbar bar = { .ceiling = ceiling, .ceiling_name = ceiling_name, .unit = unit };
    bar.top = ceiling > 0 && best <= 1.05 * ceiling ? ceiling : best > 0 ? best : 1;
    bar.high = fmax(bar.top, best);
    bar.decimals = format_decimals(bar.high);
    double low = fmin(least, 0.95 * bar.top);
    double step = chart_ticks_between(low, bar.high, 5).step;
    bar.low = fmax(0, floor(low / step) * step);
    return bar;
}

uint32_t colourbar_colour(const colourbar *bar, double value)
{
    return colour_scale((value - bar->low) / (bar->top - bar->low));
}

static double height_of(const colourbar *bar, const place *at, double value)
{
    return at->y + at->height * (bar->high - value) / (bar->high - bar->low);
}

static void define_gradient(struct svg *svg)
{
    svg_open(svg, "defs");
    svg_open(svg, "linearGradient");
    svg_put(svg, "id", "kiln-scale");
    svg_put(svg, "x1", "0");
    svg_put(svg, "y1", "1");
    svg_put(svg, "x2", "0");
    svg_put(svg, "y2", "0");
    for (int i = 0; i < STOPS; i++) {
        svg_open(svg, "stop");
        svg_put_number(svg, "offset", (double)i / (STOPS - 1));
        svg_put_colour(svg, "stop-color", colour_scale((double)i / (STOPS - 1)));
        svg_close(svg);
    }
    svg_close(svg);
    svg_close(svg);
}

/* Above the ceiling there is one colour. */
static void draw_colours(struct svg *svg, const colourbar *bar, const place *at)
{
    double top = height_of(bar, at, bar->top);
    svg_rect(svg, at->x, top, WIDTH, at->y + at->height - top);
    svg_put(svg, "fill", "url(#kiln-scale)");
    svg_close(svg);
    if (bar->high > bar->top) {
        svg_rect(svg, at->x, at->y, WIDTH, top - at->y);
        svg_put_colour(svg, "fill", colour_scale(1));
        svg_close(svg);
    }
}

static void draw_ceiling(struct svg *svg, const colourbar *bar, const place *at)
{
    char text[FORMAT_ROOM];
    double y = height_of(bar, at, bar->ceiling), x = at->x + WIDTH + LABEL_GAP;
    svg_line(svg, at->x - 5, y, at->x + WIDTH + 6, y);
    svg_put_colour(svg, "stroke", COLOUR_INK);
    svg_put_number(svg, "stroke-width", 2);
    svg_close(svg);
    chart_text(svg, x, y + 4, format_fixed(text, bar->ceiling, bar->decimals),
               &(chart_label){ .size = LABEL, .colour = COLOUR_INK, .bold = true });
    if (bar->ceiling_name)
        chart_text(svg, x, y + 18, bar->ceiling_name,
                   &(chart_label){ .size = SMALL, .colour = COLOUR_MUTED, .room = NAME_WIDEST });
}

static void draw_tick(struct svg *svg, const place *at, double y, const char *text)
{
    svg_line(svg, at->x + WIDTH, y, at->x + WIDTH + 4, y);
    svg_put_colour(svg, "stroke", COLOUR_MUTED);
    svg_close(svg);
    chart_text(svg, at->x + WIDTH + LABEL_GAP, y + 4, text, &(chart_label){ .size = LABEL, .colour = COLOUR_INK });
}

/* Round values, but for those that the ceiling's labels would cover. */
static void draw_ticks(struct svg *svg, const colourbar *bar, const place *at)
{
    chart_ticks ticks = chart_ticks_between(bar->low, bar->high, 6);
    double mark = height_of(bar, at, bar->ceiling);
    for (size_t i = 0; i < ticks.count; i++) {
        char text[FORMAT_ROOM];
        double value = ticks.first + (double)i * ticks.step, y = height_of(bar, at, value);
        if (bar->ceiling > 0 && y > mark - 16 && y < mark + (bar->ceiling_name ? 32 : 16))
            continue;
        draw_tick(svg, at, y, format_fixed(text, value, ticks.decimals));
    }
}

void colourbar_draw(struct svg *svg, const colourbar *bar, double x, double y, double height)
{
    place at = { x, y, height };
    define_gradient(svg);
    draw_colours(svg, bar, &at);
    chart_text(svg, x, y - 12, bar->unit, &(chart_label){ .size = LABEL, .colour = COLOUR_MUTED, .bold = true });
    draw_ticks(svg, bar, &at);
    if (bar->ceiling > 0)
        draw_ceiling(svg, bar, &at);
}

double colourbar_width(const colourbar *bar)
{
    char text[FORMAT_ROOM];
    int decimals = chart_ticks_between(bar->low, bar->high, 6).decimals;
    format_fixed(text, bar->high, decimals > bar->decimals ? decimals : bar->decimals);
    double labels = chart_text_width(text, LABEL * 1.06); /* the ceiling's is bold */
    if (bar->ceiling > 0 && bar->ceiling_name)
        labels = fmax(labels, fmin(chart_text_width(bar->ceiling_name, SMALL), NAME_WIDEST));
    return fmax(WIDTH + LABEL_GAP + labels, chart_text_width(bar->unit, LABEL * 1.06));
}
