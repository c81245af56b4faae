/* Specs: parsing, canonical text, resolution. docs/spec.md describes the language. */
#ifndef KILN_TEMPLATE_SPEC_H
#define KILN_TEMPLATE_SPEC_H

#include "base/text.h"
#include "lang/word.h"
#include "template/catalog.h"
#include "template/dtype.h"
#include "template/expr.h"
#include "template/target.h"
#include <alloca.h>
#include <string.h>

/* Plain data that borrows the catalog. Copied by kiln__spec_copy: what is behind a pointer may have no room for more than
 * that copies, so that assignment would read past it. */
struct kiln_spec {
    const kiln__catalog *catalog;
    const kiln__template *template; /* the named one, else the ops' own: elementwise */
    bool op_set, template_set, target_set, n_set, param_set[KILN__PARAMS_MAX];
    kiln__dtype dtype; /* KILN__DTYPE_UNSET if open */
    kiln__target target;
    int64_t params[KILN__PARAMS_MAX]; /* numbers, or indices of words, in the template's order */
    uint64_t n;                       /* a hint, never part of the canonical text that keys use */
    kiln__expr op;                    /* last, see there */
};

/* How many of its bytes mean something, from the first on. */
static inline size_t kiln__spec_size(const kiln_spec *spec)
{
    return offsetof(kiln_spec, op) + kiln__expr_size(&spec->op);
}

/* Copies what means something of a spec; `out` needs room for no more. */
static inline kiln_spec *kiln__spec_copy(kiln_spec *out, const kiln_spec *spec)
{
    memcpy(out, spec, kiln__spec_size(spec));
    return out;
}

/* A copy on the stack, in which any field but the op may be set. A whole kiln_spec takes two pages, which a thread that has just
 * begun would have to be given one by one. */
#define KILN__SPEC_LOCAL(spec) kiln__spec_copy(alloca(kiln__spec_size(spec)), (spec))

/* An empty spec. */
void kiln__spec_init(kiln_spec *out, const kiln__catalog *catalog);

/* How many arrays it reads; 0 where that is not known yet. */
uint32_t kiln__spec_inputs(const kiln_spec *spec);

/* The op that computes what the spec's template does, as the template declares it: the spec of that op on the spec's dtype.
 * KILN_ENOENT where it declares none. */
kiln_status kiln__spec_reference(kiln_spec *out, const kiln_spec *spec, kiln_report *report);

/* Cuts the next "field=value" off the front of *line; one of an empty name at its end. Blanks within parentheses are
 * part of the value. Errors: KILN_ESPEC (no '=', a parenthesis left open). */
kiln_status kiln__spec_next_field(kiln__word *line, kiln__word *field, kiln__word *value, kiln_report *report);

/* Sets one field from text; an empty value unsets it. On failure the spec is unchanged. Field names: op, template,
 * dtype, the template's parameters, target, n. Unknown fields name the closest. Changing the template with parameters
 * set keeps those that the new one declares. */
kiln_status kiln__spec_set(kiln_spec *spec, const char *field, size_t field_length, const char *value,
                           size_t value_length, kiln_report *report);

/* Reads "field=value field=value ..." (spaces, tabs and newlines between; none inside a value except within
 * parentheses). A field given twice is an error. Also checks every constraint whose names are all set.
 * `out` need not be initialised. Errors: KILN_ESPEC, KILN_EOP, KILN_ETARGET. */
kiln_status kiln__spec_parse(kiln_spec *out, const kiln__catalog *catalog, const char *text, kiln_report *report);

/* Appends the canonical text: fields in the order op, template (only if not the op's own), dtype, parameters in the
 * template's order, target; fields not set are left out. With `with_hints` n= too, last. */
void kiln__spec_format(const kiln_spec *spec, bool with_hints, kiln__text *out);

/* The same without hints, as if the target were not set. */
void kiln__spec_format_anywhere(const kiln_spec *spec, kiln__text *out);

/* Appends the value of one field, nothing if unset. KILN_ENOENT for an unknown field. */
kiln_status kiln__spec_value(const kiln_spec *spec, const char *field, kiln__text *out);

/* Fills every open field (op must be set; dtype becomes f32, target the given one, parameters their defaults) and
 * checks ranges and number of inputs, but no constraint. `out` needs room for a copy of the spec, and may be the spec. Errors:
 * KILN_ESPEC naming what does not hold; *out is as it was then. */
kiln_status kiln__spec_fill(kiln_spec *out, const kiln_spec *spec, const kiln__target *target, kiln_report *report);

/* As fill, and checks all constraints. */
kiln_status kiln__spec_resolve(kiln_spec *out, const kiln_spec *spec, const kiln__target *target, kiln_report *report);

/* The plan of a resolved spec's arguments; NULL where its template declares none. The caller frees it with kiln__free. */
kiln_status kiln__spec_plan(kiln__plan **out, const kiln_spec *spec, kiln_report *report);

/* Value of a formula of the template under a resolved spec; KILN_ESPEC if it fails. */
kiln_status kiln__spec_eval(const kiln_spec *spec, const char *formula, int64_t *out, kiln_report *report);

#endif
