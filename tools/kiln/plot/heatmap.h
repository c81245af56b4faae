/* A picture of how a measured speed depends on two parameters: panels of rows and columns, coloured by value. */
#ifndef KILN_TOOLS_HEATMAP_H
#define KILN_TOOLS_HEATMAP_H

#include "plot/chart.h"

typedef struct heatmap_cell {
    double value;     /* NaN: none */
    const char *note; /* without a value, why it is impossible: the cell is hatched, or blank if NULL, not measured;
                         with one, more for the tooltip, or NULL */
} heatmap_cell;

typedef struct heatmap_panel {
    const char *title;         /* what the panel's cells have in common; NULL if nothing */
    const heatmap_cell *cells; /* row by row */
} heatmap_panel;

/* Everything is borrowed. Texts are UTF-8. */
typedef struct heatmap {
    chart_heading heading;
    const char *row_name;    /* "block" */
    const char *const *rows; /* their labels, from above: "64", "128", ... */
    size_t row_count;        /* at least 1 */
    const char *column_name; /* "elems" */
    const char *const *columns;
    size_t column_count;         /* at least 1 */
    const heatmap_panel *panels; /* side by side, on several lines if there are many */
    size_t panel_count;          /* at least 1 */
    const char *unit;            /* "GB/s" */
    double ceiling; /* marked on the colour bar; the colours end there, but not far below the best value; 0: none */
    const char *ceiling_name; /* "memory copy"; NULL if there is none */
} heatmap;

/* Writes the picture as SVG. Equal maps give equal bytes. Ends the command when out of memory. */
void heatmap_draw(FILE *stream, const heatmap *map);

#endif
