/* Specs in place of others, for a variable that owns one. */
#ifndef KILN_TOOLS_SPECCHANGE_H
#define KILN_TOOLS_SPECCHANGE_H

#include <kiln/kiln.h>

/* Puts the spec with those fields in place of *spec, which stays as it is where that fails. */
kiln_status spec_change(kiln_spec **spec, const char *fields, kiln_report *report);

/* The same for one field. */
kiln_status spec_set(kiln_spec **spec, const char *field, const char *value, kiln_report *report);

#endif
