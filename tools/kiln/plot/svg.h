/* A writer of SVG 1.1 that is well-formed whatever it is given: elements nest, text is escaped, numbers have '.' and
 * two decimals at most in every locale. Equal calls give equal bytes. */
#ifndef KILN_TOOLS_SVG_H
#define KILN_TOOLS_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SVG_DEPTH = 16 };

struct svg {
    FILE *stream;                /* borrowed: a draft's, or any */
    const char *open[SVG_DEPTH]; /* the elements that are open, outermost first */
    int depth;
    bool in_tag; /* the innermost element still takes attributes */
};

/* A picture of this many pixels, written to `stream` by one thread. svg_end closes what is open. */
void svg_begin(struct svg *out, FILE *stream, double width, double height);
void svg_end(struct svg *svg);

/* Opens an element, whose name must outlive it; attributes come before content. At most SVG_DEPTH are open at once. */
void svg_open(struct svg *svg, const char *element);
void svg_close(struct svg *svg);
void svg_put(struct svg *svg, const char *attribute, const char *value);
void svg_put_number(struct svg *svg, const char *attribute, double value);

/* 0xRRGGBB. */
void svg_put_colour(struct svg *svg, const char *attribute, uint32_t colour);

/* Turns the element so that its text is read upwards, around a point. */
void svg_put_turn(struct svg *svg, double x, double y);

/* Content: text in UTF-8. What is not UTF-8 or not allowed in XML becomes U+FFFD, here and in attributes. */
void svg_text(struct svg *svg, const char *text);

/* The tooltip of the innermost element, of which it is the first content; printf's format. */
void svg_tooltip(struct svg *svg, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* These leave their element open, for attributes, a tooltip and svg_close. */
void svg_rect(struct svg *svg, double x, double y, double width, double height);
void svg_line(struct svg *svg, double x1, double y1, double x2, double y2);

/* A path is begun, has points ('M': go there, 'L': draw a line there, 'Z': draw back, x and y are ignored) and is
 * ended, which leaves it open as the shapes above are. */
void svg_path_begin(struct svg *svg);
void svg_path_point(struct svg *svg, char command, double x, double y);
void svg_path_end(struct svg *svg);

/* Reads one character of UTF-8 and goes on to the next; U+FFFD, for one byte, if there is none that XML allows. */
uint32_t svg_next_character(const char **text);

#endif
