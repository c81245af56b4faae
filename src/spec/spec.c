/* Immutable specs, each in one piece of memory. */
#include "spec/spec.h"

#include "base/alloc.h"
#include "base/digest.h"
#include "spec/signature.h"
#include <string.h>

/* The canonical text with the hint, then the value of each field, each with a NUL. Returns the length of the canonical
 * text. */
static size_t write_texts(const kiln__fields *fields, kiln__text *out)
{
    kiln__spec_format(fields, false, out);
    size_t length = out->length;
    out->length = 0;
    kiln__spec_format(fields, true, out);
    kiln__text_append_bytes(out, "", 1);
    for (int i = 0; i < kiln__fields_count(fields); i++) {
        kiln__fields_append(fields, i, out);
        kiln__text_append_bytes(out, "", 1);
    }
    return length;
}

/* Fills the memory of a spec: the struct, the values, the op and the texts, in this order. */
static kiln_spec *assemble(kiln_spec *spec, const kiln__fields *fields, const kiln__text *texts, size_t length)
{
    int count = kiln__fields_count(fields);
    kiln__real *op = (kiln__real *)(spec->values + count);
    char *text = (char *)op + kiln__real_size(fields->op);
    memcpy(op, fields->op, kiln__real_size(fields->op));
    memcpy(text, texts->data, texts->length);
    atomic_init(&spec->refs, 1);
    atomic_init(&spec->signature, NULL);
    spec->hash = kiln__hash(text, length);
    spec->length = length;
    spec->text = text;
    spec->fields = *fields;
    spec->fields.op = op;
    for (int i = 0; i < count; i++)
        spec->values[i] = text += strlen(text) + 1;
    return spec;
}

kiln_spec *kiln__spec_freeze(const kiln__fields *fields)
{
    _Static_assert(_Alignof(kiln__real) <= _Alignof(const char *), "the op follows the values");
    kiln__text texts = { 0 };
    size_t length = write_texts(fields, &texts);
    size_t fixed = sizeof(kiln_spec) + (size_t)kiln__fields_count(fields) * sizeof(const char *);
    kiln_spec *spec = texts.failed ? NULL : kiln__alloc(fixed + kiln__real_size(fields->op) + texts.length);
    if (spec != NULL)
        assemble(spec, fields, &texts, length);
    kiln__text_fini(&texts);
    return spec;
}

static kiln_status finish(kiln_spec **out, const kiln__fields *fields, kiln_status status, kiln_report *report)
{
    *out = status == KILN_OK ? kiln__spec_freeze(fields) : NULL;
    return status == KILN_OK && *out == NULL ? kiln__fail_memory(report, KILN__STAGE_SPEC) : status;
}

kiln_status kiln__spec_parse(kiln_spec **out, const kiln__catalog *catalog, const char *text, kiln_report *report)
{
    kiln__fields fields;
    kiln__real room;
    return finish(out, &fields, kiln__fields_parse(&fields, &room, catalog, text, report), report);
}

kiln_status kiln__spec_with(kiln_spec **out, const kiln_spec *spec, const char *line, kiln_report *report)
{
    kiln__fields fields = spec->fields;
    kiln__real room;
    return finish(out, &fields, kiln__fields_update(&fields, &room, line, report), report);
}

const kiln_signature *kiln__spec_signature(const kiln_spec *spec)
{
    const kiln__fields *fields = &spec->fields;
    _Atomic(kiln_signature *) *place = &((kiln_spec *)spec)->signature;
    kiln_signature *known = atomic_load(place);
    if (known != NULL)
        return known;
    kiln__fields settled = *fields;
    if (settled.dtype == KILN__DTYPE_UNSET)
        settled.dtype = kiln__template_dtype(fields->template);
    kiln__operands operands = kiln__spec_operands(&settled, true);
    kiln_signature *made = kiln__signature_declared(&fields->template->arguments, &operands);
    if (made == NULL || atomic_compare_exchange_strong(place, &known, made))
        return made;
    kiln__free(made);
    return known;
}

/* The spec is const to callers: a reference does not change its meaning. */
kiln_spec *kiln__spec_retain(const kiln_spec *spec)
{
    kiln_spec *counted = (kiln_spec *)spec;
    if (counted != NULL)
        atomic_fetch_add_explicit(&counted->refs, 1, memory_order_relaxed);
    return counted;
}

void kiln__spec_release(kiln_spec *spec)
{
    if (spec == NULL || atomic_fetch_sub_explicit(&spec->refs, 1, memory_order_acq_rel) != 1)
        return;
    kiln__free(atomic_load(&spec->signature));
    kiln__free(spec);
}
