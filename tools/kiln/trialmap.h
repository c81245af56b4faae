/* Measured variants as a heat map: two parameters, and the best over the others in each cell. */
#ifndef KILN_TOOLS_TRIALMAP_H
#define KILN_TOOLS_TRIALMAP_H

#include "trials.h"

/* Draws a panel for each group, in GB/s: block by elems, or where these do not vary the first two parameters that do. Equal
 * groups give equal bytes. Ends the command when out of memory. */
void trialmap_draw(FILE *stream, const trial_group *groups, size_t count);

#endif
