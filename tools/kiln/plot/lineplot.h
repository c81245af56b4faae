/* A picture of how speeds depend on the size of the work: lines over a logarithmic axis of sizes. */
#ifndef KILN_TOOLS_LINEPLOT_H
#define KILN_TOOLS_LINEPLOT_H

#include "plot/chart.h"

typedef struct lineplot_point {
    double size;      /* 1 or more; in order, the least first */
    double value;     /* NaN: none, the line is broken */
    double low, high; /* the spread: a bar is drawn if low < high */
} lineplot_point;

typedef struct lineplot_series {
    const char *name;
    const lineplot_point *points;
    size_t count;
    bool reference; /* what the others are compared with, such as a ceiling that depends on the size: dashed */
} lineplot_series;

/* Everything is borrowed. Texts are UTF-8. */
typedef struct lineplot {
    chart_heading heading;
    const char *x_name;       /* "elements, and the bytes they move" */
    double bytes_each;        /* of one unit of size, for the labels in bytes; 0: no such labels */
    const char *y_name;       /* "GB/s" */
    double ceiling;           /* a dashed line across; 0: none */
    const char *ceiling_name; /* "memory copy"; needed where there is a ceiling */
    const lineplot_series *series;
    size_t series_count;
} lineplot;

/* Writes the picture as SVG. Equal plots give equal bytes. Ends the command when out of memory. */
void lineplot_draw(FILE *stream, const lineplot *plot);

#endif
