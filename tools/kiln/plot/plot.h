/* The picture of a table of speeds that kiln sweep, tune or bench writes with --csv, as a script for gnuplot. */
#ifndef KILN_TOOLS_PLOT_H
#define KILN_TOOLS_PLOT_H

#include "plot/gnuplot.h"
#include "text/csv.h"

/* Whether it is such a table. */
bool plot_takes(const struct csv_table *table);

/* Variants become a heat map of the first two parameters that vary, or a line for each kind of kernel where one
 * parameter tells all variants apart; sizes become a line for each spec. Ends the command when out of memory. */
void plot_write(FILE *script, const gnuplot_format *format, const struct csv_table *table);

#endif
