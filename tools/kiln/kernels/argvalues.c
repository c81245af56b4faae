/* Reads --size and --arg by the signature of a spec's kernel. */
#include "kernels/argvalues.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/format.h"
#include "text/jsonout.h"

kernel_takes signature_takes(const kiln_signature *signature)
{
    kernel_takes takes = { .flat = signature->size_count == 1, .one_type = true, .type = "" };
    for (size_t i = 0; i < signature->param_count; i++) {
        const kiln_param *param = signature->params[i];
        if (param->role == KILN_ROLE_FORMULA)
            continue;
        takes.in += param->role == KILN_ROLE_IN;
        takes.out += param->role == KILN_ROLE_OUT;
        takes.inout += param->role == KILN_ROLE_INOUT;
        if (param->dims == 0) /* a number */
            continue;
        takes.flat = takes.flat && param->dims == 1 && strcmp(param->shape[0], signature->sizes[0]) == 0;
        takes.type = *takes.type ? takes.type : param->type;
        takes.one_type = takes.one_type && strcmp(takes.type, param->type) == 0;
    }
    return takes;
}

const kiln_signature *spec_signature(const kiln_spec *spec)
{
    const kiln_signature *signature = NULL;
    if (kiln_spec_signature(&signature, spec, NULL) != KILN_OK)
        out_of_memory();
    return signature;
}

bool spec_is_flat(const kiln_spec *spec)
{
    return signature_takes(spec_signature(spec)).flat;
}

/* Whether a text is "NAME=VALUE". */
static bool has_name(const char *text, const char *name)
{
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && text[length] == '=';
}

const char *argvalues_find(const text_list *texts, const char *name, size_t *given)
{
    const char *value = NULL;
    for (size_t i = 0; i < texts->count; i++)
        if (has_name(texts->items[i], name)) {
            value = texts->items[i] + strlen(name) + 1;
            if (given)
                ++*given;
        }
    return value;
}

/* False if it is too large for the type, or too small to be told from 0. */
static bool read_real(uint64_t *out, const kiln_param *info, const char *text, char **end)
{
    bool is_single = strcmp(info->type, "f32") == 0;
    errno = 0;
    double real = is_single ? strtof(text, end) : strtod(text, end);
    float single = (float)real;
    memcpy(out, is_single ? (void *)&single : &real, info->bytes);
    return errno != ERANGE || (real != 0 && !isinf(real));
}

static bool read_whole(uint64_t *out, const kiln_param *info, const char *text, char **end)
{
    int bits = (int)info->bytes * 8;
    errno = 0;
    if (info->type[0] == 'u') {
        *out = strtoull(text, end, 10);
        return errno != ERANGE && !strchr(text, '-') && (bits == 64 || *out >> bits == 0);
    }
    long long number = strtoll(text, end, 10);
    memcpy(out, &number, sizeof(number)); /* little endian, as every machine with such a GPU */
    return errno != ERANGE && (bits == 64 || (number >= -(1LL << (bits - 1)) && number < 1LL << (bits - 1)));
}

/* Reads a number into the bytes that the argument's type has. Returns NULL, or a line about a fault. */
static char *read_number(uint64_t *out, const kiln_param *info, const char *text)
{
    char *end = NULL;
    bool fits = text && (info->type[0] == 'f' ? read_real : read_whole)(out, info, text, &end);
    if (!text || end == text || *end)
        return need_format("argument %s is a number of type %s: give --arg %s=%s", info->name, info->type, info->name,
                           text ? "VALUE that is one" : "VALUE");
    return fits ? NULL
                : need_format("--arg %s=%s: does not fit %s, the type of the argument", info->name, text, info->type);
}

static char *missing_size(const arg_values *values, const kiln_spec *spec, const char *name)
{
    const kiln_signature *signature = spec_signature(spec);
    if (values->by_inputs)
        return need_format("size %s is the extent of no input: give --size %s=N", name, name);
    char *wanted = need_copy("");
    for (size_t i = 0; i < signature->size_count; i++)
        text_append(&wanted, " ", "--size %s=N", signature->sizes[i]);
    const char *template = kiln_spec_field(spec, "template");
    return need_format("%s%s takes sizes by name and %s is not given: expected %s%s",
                       *template ? "template " : "the template", template, name, wanted,
                       signature->size_count == 2   ? ", or --size AxB for both"
                       : signature->size_count == 3 ? ", or --size AxBxC for all"
                                                    : "");
}

/* "4096x1000": all sizes of a kernel in their order. False: the text is not of this form. */
static bool read_product(arg_values *out, const char *text)
{
    char *rest = need_copy(text), *part = rest;
    size_t count = 0;
    for (char *next; part && count < out->size_count; part = next) {
        next = strchr(part, 'x');
        if (next)
            *next++ = '\0';
        if (!parse_size(&out->sizes[count], part))
            break;
        count++;
    }
    bool whole = !part && count == out->size_count;
    free(rest);
    return whole;
}

/* A flat kernel's only size may have no name, and may be left out. */
static char *read_sizes(arg_values *out, const kiln_spec *spec, const text_list *texts)
{
    const kiln_signature *signature = spec_signature(spec);
    bool flat = spec_is_flat(spec);
    size_t used = 0;
    out->size_count = signature->size_count;
    if (!flat && !out->by_inputs && texts->count == 1 && !strchr(texts->items[0], '=') && signature->size_count >= 2 &&
        signature->size_count <= ARGVALUES_SIZES && read_product(out, texts->items[0]))
        return NULL;
    for (size_t i = 0; i < signature->size_count && i < ARGVALUES_SIZES; i++) {
        size_t given = 0;
        uint64_t size = 0;
        const char *name = signature->sizes[i], *value = argvalues_find(texts, name, &given);
        for (size_t k = 0; flat && k < texts->count; k++)
            if (!strchr(texts->items[k], '=')) {
                value = texts->items[k];
                given++;
            }
        used += given;
        if (given > 1)
            return need_format("--size %s is given twice", name);
        if (!value && (!flat || out->by_inputs) && !out->bound[i])
            return missing_size(out, spec, name);
        if (value && !parse_size(&size, value))
            return need_format("--size %s=%s is not a size; expected 1048576, 2^20, 64M or 4096x393216", name, value);
        if (value && out->bound[i] && out->sizes[i] != size)
            return need_format("--size %s=%s: it is %" PRIu64 " in an input", name, value, out->sizes[i]);
        out->sizes[i] = value ? size : out->sizes[i];
    }
    for (size_t i = 0; i < texts->count && used < texts->count; i++) {
        size_t k = 0;
        while (k < signature->size_count && !has_name(texts->items[i], signature->sizes[k]))
            k++;
        if (k == signature->size_count)
            return need_format("--size %s: the template declares no such size", texts->items[i]);
    }
    return NULL;
}

static char *read_numbers(arg_values *out, const kiln_spec *spec, const text_list *texts)
{
    const kiln_signature *signature = spec_signature(spec);
    size_t used = 0;
    out->arg_count = 0;
    for (size_t i = 0; i < signature->param_count && out->arg_count < ARGVALUES_ARGS; i++) {
        const kiln_param *param = signature->params[i];
        size_t at = out->arg_count, given = 0;
        out->arg_count += param->role != KILN_ROLE_FORMULA;
        if (param->role != KILN_ROLE_SCALAR)
            continue;
        char *problem = read_number(&out->numbers[at], param, argvalues_find(texts, param->name, &given));
        if (given > 1)
            return need_format("--arg %s is given twice", param->name);
        if (problem)
            return problem;
        out->args[at] = (kiln_arg){ KILN_ARG_VALUE, param->bytes, &out->numbers[at] };
        out->has_numbers = true;
        used += given;
    }
    if (texts->count > 0 && !out->has_numbers)
        return need_format("--arg %s: the kernel takes no numbers", texts->items[0]);
    for (size_t i = 0; i < texts->count && used != texts->count; i++) {
        size_t k = 0;
        while (k < signature->param_count && (signature->params[k]->role != KILN_ROLE_SCALAR ||
                                              !has_name(texts->items[i], signature->params[k]->name)))
            k++;
        if (k == signature->param_count)
            return need_format("--arg %s: the kernel takes no such number", texts->items[i]);
    }
    return NULL;
}

char *argvalues_read(arg_values *out, const kiln_spec *spec, const arg_texts *texts)
{
    char *problem = read_sizes(out, spec, &texts->sizes);
    return problem ? problem : read_numbers(out, spec, &texts->numbers);
}

kiln_spec *argvalues_sized(const kiln_spec *spec, const arg_values *values)
{
    const kiln_signature *signature = spec_signature(spec);
    kiln_spec *sized = NULL;
    uint64_t beside = values->sizes[0];
    if (values->size_count < 2 || strcmp(signature->sizes[1], "cols") != 0 || *kiln_spec_field(spec, "n"))
        return NULL;
    for (size_t i = 2; i < values->size_count; i++)
        beside *= values->sizes[i];
    char *field = need_format("n=%" PRIu64 "x%" PRIu64, beside, values->sizes[1]);
    kiln_status status = kiln_spec_with(&sized, spec, field, NULL);
    free(field);
    return status == KILN_OK ? sized : NULL;
}

kiln_work argvalues_work(const arg_values *values, bool flat)
{
    kiln_work work = KILN_INIT(kiln_work);
    work.elements = flat ? values->sizes[0] : 0;
    work.sizes = values->sizes;
    work.size_count = flat ? 0 : values->size_count;
    work.args = values->args;
    work.arg_count = values->has_numbers ? values->arg_count : 0;
    return work;
}

void argvalues_json(json_t *object, const kiln_signature *signature, const uint64_t *sizes, bool flat,
                    const text_list *numbers)
{
    if (flat && numbers->count == 0)
        return;
    json_t *extents = json_object(), *values = json_object();
    for (size_t i = 0; i < signature->size_count; i++)
        json_put(extents, signature->sizes[i], json_count(sizes[i]), NULL);
    for (size_t i = 0; i < numbers->count; i++) {
        const char *value = strchr(numbers->items[i], '=') + 1;
        json_put(values, need_format("%.*s", (int)(value - numbers->items[i]) - 1, numbers->items[i]), json_text(value),
                 NULL);
    }
    json_put(object, "sizes", extents, "args", values, NULL);
}
