#include "kernels/argvalues.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/signature.h"
#include "text/format.h"

const char *argvalues_find(const text_list *texts, const char *name, size_t *used)
{
    const char *value = NULL;
    size_t length = strlen(name);
    for (size_t i = 0; i < texts->count; i++)
        if (strncmp(texts->items[i], name, length) == 0 && texts->items[i][length] == '=') {
            value = texts->items[i] + length + 1;
            if (used)
                ++*used;
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

bool argvalues_number(uint64_t *out, bool *is_number, const kiln_param *info, const char *text)
{
    char *end = NULL;
    *out = 0;
    bool fits = (info->type[0] == 'f' ? read_real : read_whole)(out, info, text, &end);
    *is_number = end != text && *end == '\0';
    return fits && *is_number;
}

bool argvalues_wanted(const kiln_spec *spec)
{
    return !signature_takes(spec_signature(spec)).flat;
}

bool argvalues_elements(uint64_t *out, const char *name, const char *text)
{
    size_t length = name ? strlen(name) : 0;
    bool named = length && strncmp(text, name, length) == 0 && text[length] == '=';
    return parse_size(out, named ? text + length + 1 : text);
}

/* " --size rows=N --size cols=N" */
static char *wanted_sizes(const kiln_spec *spec)
{
    const kiln_signature *signature = spec_signature(spec);
    char *text = need_copy("");
    for (size_t i = 0; i < signature->size_count; i++) {
        char *longer = need_format("%s --size %s=N", text, signature->sizes[i]);
        free(text);
        text = longer;
    }
    return text;
}

/* Of a flat kernel. */
static char *read_elements(arg_values *out, const kiln_spec *spec, const arg_texts *texts)
{
    const char *name = spec_signature(spec)->sizes[0];
    if (texts->numbers.count)
        return need_format("--arg %s: the template takes no numbers", texts->numbers.items[0]);
    for (size_t i = 0; i < texts->sizes.count; i++) {
        const char *text = texts->sizes.items[i];
        size_t length = strcspn(text, "=");
        if (text[length] && (strlen(name) != length || strncmp(name, text, length) != 0))
            return need_format("--size %s: the template declares no such size; expected --size N", text);
        if (i > 0)
            return need_copy("--size is given twice");
        if (!argvalues_elements(&out->elements, name, text))
            return need_format("--size %s is not a size; expected 1048576, 2^20, 64M or 4096x393216", text);
    }
    return NULL;
}

static char *missing_size(const kiln_spec *spec, const char *name)
{
    char *wanted = wanted_sizes(spec);
    char *problem = need_format("template %s declares sizes of its own and %s is not given: expected%s",
                                kiln_spec_field(spec, "template"), name, wanted);
    free(wanted);
    return problem;
}

static char *read_sizes(arg_values *out, const kiln_spec *spec, const arg_texts *texts)
{
    const kiln_signature *signature = spec_signature(spec);
    size_t used = 0;
    for (size_t i = 0; i < signature->size_count && i < ARGVALUES_SIZES; i++) {
        size_t before = used;
        const char *name = signature->sizes[i];
        const char *value = argvalues_find(&texts->sizes, name, &used);
        if (used > before + 1)
            return need_format("--size %s is given twice", name);
        if (value && !parse_size(&out->sizes[i], value))
            return need_format("--size %s=%s is not a size; expected 1048576, 2^20, 64M or 4096x393216", name, value);
        if (value) {
            out->size_count++;
            continue;
        }
        return missing_size(spec, name);
    }
    for (size_t i = 0; i < texts->sizes.count && used < texts->sizes.count; i++) {
        size_t length = strcspn(texts->sizes.items[i], "="), k = 0;
        while (k < signature->size_count && (strlen(signature->sizes[k]) != length ||
                                             strncmp(signature->sizes[k], texts->sizes.items[i], length) != 0))
            k++;
        if (k == signature->size_count)
            return need_format("--size %s: the template declares no such size", texts->sizes.items[i]);
    }
    return NULL;
}

static char *read_numbers(arg_values *out, const kiln_spec *spec, const arg_texts *texts)
{
    const kiln_signature *signature = spec_signature(spec);
    size_t used = 0, place = 0, numbers = 0;
    for (size_t i = 0; i < signature->param_count && place < ARGVALUES_ARGS; i++) {
        const kiln_param *param = signature->params[i];
        if (param->role == KILN_ROLE_FORMULA)
            continue;
        size_t mine = place++, before = used;
        if (param->role != KILN_ROLE_SCALAR)
            continue;
        const char *value = argvalues_find(&texts->numbers, param->name, &used);
        if (used > before + 1)
            return need_format("--arg %s is given twice", param->name);
        bool is_number;
        if (!value || !argvalues_number(&out->numbers[mine], &is_number, param, value))
            return need_format("argument %s is a number of type %s: give --arg %s=%s", param->name, param->type,
                               param->name, value ? "VALUE that is one" : "VALUE");
        out->args[mine] = (kiln_arg){ KILN_ARG_VALUE, param->bytes, &out->numbers[mine] };
        numbers++;
    }
    if (used != texts->numbers.count)
        return need_format("%zu of the numbers of --arg are none that the template takes", texts->numbers.count - used);
    out->arg_count = numbers ? place : 0;
    return NULL;
}

char *argvalues_read(arg_values *out, const kiln_spec *spec, const arg_texts *texts)
{
    *out = (arg_values){ .elements = 0 };
    if (!argvalues_wanted(spec))
        return read_elements(out, spec, texts);
    char *problem = read_sizes(out, spec, texts);
    return problem ? problem : read_numbers(out, spec, texts);
}

char *argvalues_text(const arg_values *values, const kiln_spec *spec)
{
    char *text = need_copy("");
    for (size_t i = 0; i < values->size_count; i++) {
        char *longer = need_format("%s %s=%" PRIu64, text, spec_signature(spec)->sizes[i], values->sizes[i]);
        free(text);
        text = longer;
    }
    return text;
}

kiln_work argvalues_work(const arg_values *values)
{
    kiln_work work = KILN_INIT(kiln_work);
    work.elements = values->elements;
    work.sizes = values->sizes;
    work.size_count = values->size_count;
    work.args = values->args;
    work.arg_count = values->arg_count;
    return work;
}
