/* What `kiln bench` measured, as a table for other programs and as a picture. */
#ifndef KILN_TOOLS_BENCHREPORT_H
#define KILN_TOOLS_BENCHREPORT_H

#include "benchset.h"

/* A row for each spec and size. */
void benchreport_csv(FILE *stream, const struct benchset *set);

/* Speed by size: a line for each spec, and one for the copy of each kind of traffic. Equal results give equal bytes. */
void benchreport_plot(FILE *stream, const struct benchset *set);

#endif
