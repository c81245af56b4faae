/* The variants of a tuning, for tables and pictures. */
#ifndef KILN_TOOLS_TUNEDVARIANTS_H
#define KILN_TOOLS_TUNEDVARIANTS_H

#include "jsonout.h"
#include "variants.h"

/* Adds a group: what `kiln tune --json` tells of a spec. Beside it the impossible combinations, and the ceiling, which is
 * measured unless the user has ended the tuning. Does nothing where no file is wanted. Returns as variants_begin does. */
int tunedvariants_add(struct variants *variants, struct session *session, const json_t *result);

#endif
