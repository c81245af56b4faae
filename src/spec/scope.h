/* What the names in a template's formulas mean under a spec: its parameters, and bytes, sm and inputs. Pure. */
#ifndef KILN_SPEC_SCOPE_H
#define KILN_SPEC_SCOPE_H

#include "spec/fields.h"

typedef struct kiln__scope {
    const kiln__fields *spec;
    const kiln__declared_param *words; /* an enumeration whose words are names too, or NULL */
} kiln__scope;

/* What a name is: a parameter's index, or one of these. */
enum { KILN__NAME_BYTES = KILN__PARAMS_MAX, KILN__NAME_SM, KILN__NAME_INPUTS, KILN__NAME_END };

/* -1 if there is none. */
int kiln__scope_find(const kiln__template *template, kiln__word name);

/* Whether the spec says what it is worth. */
bool kiln__scope_has_value(const kiln__fields *spec, int id);

/* A kiln__formula_lookup whose data is a kiln__scope. An unset parameter reads as 0. */
bool kiln__scope_lookup(const void *data, const char *name, size_t length, int64_t *value);

#endif
