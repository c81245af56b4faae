#include "spec/scope.h"

int kiln__scope_find(const kiln__template *template, kiln__word name)
{
    if (kiln__word_is(name, "bytes"))
        return KILN__NAME_BYTES;
    if (kiln__word_is(name, "sm"))
        return KILN__NAME_SM;
    if (kiln__word_is(name, "inputs"))
        return KILN__NAME_INPUTS;
    return kiln__template_param(template, name.text, name.length);
}

bool kiln__scope_lookup(const void *data, const char *name, size_t length, int64_t *value)
{
    const kiln__scope *s = data;
    kiln__word word = { name, length };
    for (uint32_t i = 0; s->words != NULL && i < s->words->count; i++) {
        if (kiln__word_is(word, s->words->words[i])) {
            *value = i;
            return true;
        }
    }
    int id = kiln__scope_find(s->spec->template, word);
    *value = id == KILN__NAME_BYTES    ? (int64_t)kiln__dtype_bytes(s->spec->dtype)
             : id == KILN__NAME_SM     ? s->spec->target.sm
             : id == KILN__NAME_INPUTS ? (int64_t)kiln__spec_inputs(s->spec)
             : id >= 0                 ? s->spec->params[id]
                                       : 0;
    return id >= 0;
}

bool kiln__scope_has_value(const kiln__fields *spec, int id)
{
    switch (id) {
    case KILN__NAME_BYTES:
        return spec->dtype != KILN__DTYPE_UNSET;
    case KILN__NAME_SM:
        return spec->target_set;
    case KILN__NAME_INPUTS:
        return spec->op_set || !kiln__template_takes_op(spec->template);
    default:
        return id >= 0 && spec->param_set[id];
    }
}
