/* Measured variants as a table of comma-separated values. */
#ifndef KILN_TOOLS_TRIALCSV_H
#define KILN_TOOLS_TRIALCSV_H

#include "trials.h"

/* Writes a row of titles and one for each variant and each impossible combination of each group. */
void trialcsv_write(FILE *stream, const trial_group *groups, size_t count);

#endif
