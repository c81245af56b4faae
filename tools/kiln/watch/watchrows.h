/* What is shown of a watched spec. */
#ifndef KILN_TOOLS_WATCHROWS_H
#define KILN_TOOLS_WATCHROWS_H

#include "watch/watchmeasure.h"

/* Adds a row to the round's table and list. */
void watchrows_add(watch_round *round, const watched *one);

#endif
