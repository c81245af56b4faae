/* The arguments of a kernel as a table and as JSON. */
#ifndef KILN_TOOLS_SIGNATURE_H
#define KILN_TOOLS_SIGNATURE_H

#include "text/jsonout.h"
#include <kiln/kiln.h>
#include <stdbool.h>

/* Prints a row for each argument. `declared`: with the types as a template declares them, "dtype" and "otype". */
void signature_print(const kiln_signature *signature, bool declared);

/* The arguments as an array of objects: name, role, type, shape, and the value of a number that a formula gives. */
json_t *signature_json(const kiln_signature *signature, bool declared);

json_t *texts_json(const char *const *texts, size_t count);

#endif
