/* Measured variants as a table of comma-separated values. */
#ifndef KILN_TOOLS_VARIANTCSV_H
#define KILN_TOOLS_VARIANTCSV_H

#include "tune/variants.h"

/* Writes a row of titles and one for each variant and each impossible combination of each group. */
void variantcsv_write(FILE *stream, const variant_group *groups, size_t count);

#endif
