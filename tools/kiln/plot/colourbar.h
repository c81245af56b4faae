/* The scale of a heat map: which colour a value has, and the bar that says so. */
#ifndef KILN_TOOLS_COLOURBAR_H
#define KILN_TOOLS_COLOURBAR_H

#include "plot/chart.h"

typedef struct colourbar {
    double low, top;          /* the values where the colours begin and end */
    double high;              /* the bar's upper end: the best value may be above the top */
    int decimals;             /* that the values are shown with */
    double ceiling;           /* marked; 0: none */
    const char *ceiling_name; /* borrowed; or NULL */
    const char *unit;         /* borrowed */
} colourbar;

/* A scale for values from `least` to `best`, both 0 or more. Its top is the ceiling, or the best value
 * if that is far above. */
colourbar colourbar_between(double least, double best, double ceiling, const char *ceiling_name, const char *unit);

/* 0xRRGGBB. */
uint32_t colourbar_colour(const colourbar *bar, double value);

/* Draws the bar and its labels; its unit stands above y. */
void colourbar_draw(struct svg *svg, const colourbar *bar, double x, double y, double height);

/* The width of what colourbar_draw draws. */
double colourbar_width(const colourbar *bar);

#endif
