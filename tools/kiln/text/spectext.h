/* Fields of a spec's text, "op=add(x,y) dtype=f32 target=sm_90", without the library. */
#ifndef KILN_TOOLS_SPECTEXT_H
#define KILN_TOOLS_SPECTEXT_H

#include <stdbool.h>

/* Finds a field; its value (empty if it has none) is written to *out, which the caller frees. False if it is not
 * there, and *out is NULL. */
bool spectext_field(char **out, const char *text, const char *field);

/* The text with the field's value set: in place where the field stands, at the end where it does not. The caller frees
 * it. */
char *spectext_put(const char *text, const char *field, const char *value);

/* What is left of a canonical text without op, dtype, target and template: the geometry. The caller frees it. */
char *spectext_geometry(const char *text);

/* "NVIDIA H200 (cuda:0, sm_90)", "AMD EPYC (cpu)". The caller frees it. */
char *spectext_device(const char *model, const char *device, const char *target);

#endif
