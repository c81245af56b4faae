/* Fields of a spec's text, "op=add(x,y) dtype=f32 target=sm_90", without the library. */
#ifndef KILN_TOOLS_SPECTEXT_H
#define KILN_TOOLS_SPECTEXT_H

#include <stdbool.h>

/* The value of a field, "" if it has none; NULL if the field is not there. */
char *spectext_field(const char *text, const char *field);

/* The text with the field's value set: in place where the field stands, at the end where it does not. */
char *spectext_put(const char *text, const char *field, const char *value);

/* The text without the field. */
char *spectext_without(const char *text, const char *field);

/* Whether a text up to `end` has a word FIELD=VALUE, with any name and value. */
bool spectext_names_fields(const char *text, const char *end);

/* Whether both texts have a field of one name. */
bool spectext_shares_field(const char *text, const char *other);

/* A canonical text without op, dtype, target and template: the geometry. */
char *spectext_geometry(const char *text);

/* The rest of a canonical text, in the order op, template, dtype, target: "op=relu6 dtype=f32 target=cpu". */
char *spectext_kind(const char *text);

/* The op, or the template of a spec without one. */
char *spectext_op(const char *text);

/* Whether a spec has every field of another one with the same value. */
bool spectext_has_all(const char *text, const char *other);

/* "NVIDIA H200 (cuda:0, sm_90)", "AMD EPYC (cpu)". */
char *spectext_device(const char *model, const char *device, const char *target);

#endif
