/* The marks on the lines of a plot. */
#ifndef KILN_TOOLS_MARKER_H
#define KILN_TOOLS_MARKER_H

#include <stddef.h>

#include "plot/svg.h"

/* A small shape around a point, in the colour of the series. Colours and shapes repeat after different counts, so that
 * 56 series can be told apart. Leaves its element open, for a tooltip and svg_close. */
void marker_begin(struct svg *svg, size_t series, double x, double y);

#endif
