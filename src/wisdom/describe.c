/* Describes specs, devices and templates in the words of records. */
#include "wisdom/describe.h"

#include "base/digest.h"
#include "base/number.h"
#include <stdio.h>
#include <string.h>

void kiln__wisdom_class(const kiln__fields *spec, char out[KILN__WISDOM_CLASS])
{
    bool heavy = spec->op->operations >= KILN__WISDOM_HEAVY;
    const kiln__arguments *arguments = &spec->template->arguments;
    unsigned in = kiln__arguments_inputs(arguments, spec->op->inputs);
    unsigned out_count = kiln__arguments_outputs(arguments, kiln__spec_outputs(spec));
    char bytes[24] = "", input_bytes[24] = "";
    for (uint32_t k = 0, length = 0; k < spec->typed; k++)
        length += (uint32_t)snprintf(input_bytes + length, sizeof(input_bytes) - length, "%s%u", k == 0 ? " of " : "+",
                                     kiln__dtype_bytes(spec->inputs[k]));
    if (kiln__spec_has_other_results(spec))
        snprintf(bytes, sizeof(bytes), " of %u bytes", kiln__spec_out_bytes(spec));
    snprintf(out, KILN__WISDOM_CLASS, "%u in%s, %u out%s, %s%s", in, input_bytes, out_count, bytes,
             heavy ? "heavy" : "light", spec->math == KILN__MATH_FAST ? ", fast" : "");
}

void kiln__wisdom_op(const kiln__fields *spec, kiln__text *out)
{
    if (spec->op_set)
        kiln__expr_format(spec->op, &spec->catalog->ops, false, out);
    else
        kiln__text_append(out, "none");
    if (kiln__spec_casts(spec))
        kiln__spec_append(spec, "out", out);
    if (spec->typed > 0)
        kiln__spec_append(spec, "dtype", out);
    if (spec->layout_count > 0)
        kiln__spec_append(spec, "layout", out);
    if (spec->math == KILN__MATH_FAST)
        kiln__text_append(out, " math=fast");
    if (spec->round == KILN__ROUND_EAGER)
        kiln__text_append(out, " round=eager");
}

bool kiln__wisdom_is_complete(const kiln__fields *spec)
{
    return spec->op_set || !kiln__template_takes_op(spec->template);
}

bool kiln__wisdom_is_open(const kiln__fields *spec)
{
    for (uint32_t i = 0; i < spec->template->param_count; i++)
        if (!spec->param_set[i])
            return true;
    return false;
}

unsigned kiln__wisdom_size(const kiln__fields *spec)
{
    return kiln__number_octave(kiln__fields_size(spec).n);
}

uint64_t kiln__wisdom_cols(const kiln__fields *spec)
{
    const bool reduces = kiln__arguments_reduce(&spec->template->arguments);
    return reduces ? kiln__fields_size(spec).cols : 0;
}

void kiln__wisdom_model(const char *model, char out[KILN__WISDOM_MODEL])
{
    kiln__text_copy(out, KILN__WISDOM_MODEL, model);
    for (char *c = out; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

void kiln__wisdom_geometry(const kiln__fields *spec, kiln__text *out)
{
    const kiln__template *template = spec->template;
    size_t start = out->length;
    for (uint32_t i = 0; i < template->param_count; i++) {
        if (!spec->param_set[i])
            continue;
        kiln__text_printf(out, "%s%s=", out->length > start ? " " : "", template->params[i].name);
        kiln__spec_value(spec, template->params[i].name, out);
    }
}

bool kiln__wisdom_digest(const kiln__template *template, bool twin, char out[KILN__WISDOM_DIGEST])
{
    static const char declaration[] = "//!";
    const char *line = twin ? template->cpu_text : template->text;
    uint8_t digest[KILN__DIGEST_SIZE];
    char hex[KILN__DIGEST_HEX];
    kiln__text text = { 0 };
    out[0] = '\0';
    if (line == NULL)
        return true;
    /* Line by line, without the declarations. */
    for (size_t length; *line != '\0'; line += length) {
        length = strcspn(line, "\n");
        length += line[length] == '\n';
        if (strncmp(line, declaration, strlen(declaration)) != 0)
            kiln__text_append_bytes(&text, line, length);
    }
    bool made = !text.failed;
    if (made) {
        kiln__digest(digest, kiln__text_string(&text), text.length);
        kiln__digest_hex(hex, digest);
        kiln__text_copy(out, KILN__WISDOM_DIGEST, hex);
    }
    kiln__text_fini(&text);
    return made;
}
