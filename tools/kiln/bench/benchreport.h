/* The results of `kiln bench` as a table, for other programs and for the picture. */
#ifndef KILN_TOOLS_BENCHREPORT_H
#define KILN_TOOLS_BENCHREPORT_H

#include "bench/benchset.h"

/* A row for each spec and size. */
void benchreport_csv(FILE *stream, const struct benchset *set);

#endif
