/* The variants of a tuning, for tables and pictures. */
#ifndef KILN_TOOLS_TUNEDVARIANTS_H
#define KILN_TOOLS_TUNEDVARIANTS_H

#include "tune/tuneresult.h"

/* Adds a group: the rows of a result that is no failure. Beside it the impossible combinations, and the ceiling,
 * which is measured unless the user has ended the tuning. Does nothing where no file is wanted. Returns as
 * variants_begin does. */
int tunedvariants_add(struct variants *variants, struct session *session, const tune_result *result);

#endif
