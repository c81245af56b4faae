/* What the plots have in common: the card they stand on with its heading, labels that fit, and round numbers. */
#ifndef KILN_TOOLS_CHART_H
#define KILN_TOOLS_CHART_H

#include <stddef.h>

#include "plot/svg.h"

/* The space between the edge of the card and what is on it. */
enum { CHART_MARGIN = 24 };

typedef struct chart_heading {
    const char *title;
    const char *const *lines; /* below the title, in smaller letters: the device, the spec, ... */
    size_t line_count;
} chart_heading;

/* The room that a heading takes: what stands below begins at this height. */
double chart_heading_height(const chart_heading *heading);

/* The width of a card for content of this width: wider where the heading asks for it, within reason. */
double chart_card_width(const chart_heading *heading, double content);

/* Begins a picture with a card and its heading; svg_end ends it. */
void chart_begin(struct svg *out, FILE *stream, double width, double height, const chart_heading *heading);

/* How a label is written. */
typedef struct chart_label {
    double size;
    uint32_t colour;
    const char *anchor; /* "middle" or "end" of the text is at x; NULL: its start */
    bool bold;
    bool upwards; /* turned to be read from below to above */
    double room;  /* a wider text is cut, and whole in its tooltip; 0 is any */
} chart_label;

/* Text with its base line at y. */
void chart_text(struct svg *svg, double x, double y, const char *text, const chart_label *label);

/* Not narrower than the text in the usual fonts. */
double chart_text_width(const char *text, double size);

/* Round numbers first, first + step, ..., of which `count` lie from low to high. */
typedef struct chart_ticks {
    double first, step;
    size_t count;
    int decimals; /* that they are shown with */
} chart_ticks;

/* About so many of them; low is less than high. */
chart_ticks chart_ticks_between(double low, double high, int about);

#endif
