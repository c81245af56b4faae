#include "files/npyheader.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common.h"

struct header {
    const char *at, *end;
    char descr[16]; /* empty when the type is not a plain string */
    bool structured, fortran, too_long;
    bool has_descr, has_order, has_shape;
    npy_array *array;
};

static void skip_blanks(struct header *header)
{
    while (header->at < header->end && strchr(" \t\r\n", *header->at) && *header->at)
        header->at++;
}

static bool take(struct header *header, char c)
{
    skip_blanks(header);
    if (header->at >= header->end || *header->at != c)
        return false;
    header->at++;
    return true;
}

static bool take_word(struct header *header, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(header);
    if ((size_t)(header->end - header->at) < length || memcmp(header->at, word, length) != 0)
        return false;
    header->at += length;
    return true;
}

/* A quoted string without escapes; longer ones are cut, which no known type or key is. */
static bool take_string(struct header *header, char *text, size_t room)
{
    skip_blanks(header);
    if (header->at >= header->end || (*header->at != '\'' && *header->at != '"'))
        return false;
    char quote = *header->at++;
    size_t length = 0;
    for (; header->at < header->end && *header->at != quote; header->at++)
        if (*header->at == '\\' || *header->at == '\n' || *header->at == '\0')
            return false;
        else if (length + 1 < room)
            text[length++] = *header->at;
    text[length] = '\0';
    return header->at++ < header->end;
}

/* A list of fields, which is skipped: brackets and strings must balance. */
static bool skip_list(struct header *header)
{
    int depth = 0;
    char text[2];
    do {
        skip_blanks(header);
        if (header->at >= header->end)
            return false;
        if (*header->at == '\'' || *header->at == '"') {
            if (!take_string(header, text, sizeof(text)))
                return false;
            continue;
        }
        depth += *header->at == '[' || *header->at == '(';
        depth -= *header->at == ']' || *header->at == ')';
        header->at++;
    } while (depth > 0);
    return true;
}

static bool take_descr(struct header *header)
{
    skip_blanks(header);
    header->structured = header->at < header->end && *header->at == '[';
    if (header->structured)
        return skip_list(header);
    return take_string(header, header->descr, sizeof(header->descr));
}

static bool take_order(struct header *header)
{
    header->fortran = take_word(header, "True");
    return header->fortran || take_word(header, "False");
}

static bool take_dimension(struct header *header)
{
    npy_array *array = header->array;
    skip_blanks(header);
    const char *start = header->at;
    uint64_t value = 0;
    for (; header->at < header->end && *header->at >= '0' && *header->at <= '9'; header->at++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*header->at - '0'), &value))
            header->too_long = true;
    if (header->at == start)
        return false;
    if (header->at < header->end && *header->at == 'L')
        header->at++;
    if (array->dimensions == NPY_MOST_DIMENSIONS)
        header->too_long = true;
    else
        array->shape[array->dimensions++] = value;
    return true;
}

static bool take_shape(struct header *header)
{
    header->array->dimensions = 0;
    if (!take(header, '('))
        return false;
    if (take(header, ')'))
        return true;
    for (;;) {
        if (!take_dimension(header))
            return false;
        if (take(header, ',')) {
            if (take(header, ')'))
                return true;
            continue;
        }
        /* "(3)" is a number in Python, not a shape. */
        return header->array->dimensions > 1 && take(header, ')');
    }
}

static bool take_item(struct header *header)
{
    char key[16];
    if (!take_string(header, key, sizeof(key)) || !take(header, ':'))
        return false;
    bool *seen = strcmp(key, "descr") == 0           ? &header->has_descr
                 : strcmp(key, "fortran_order") == 0 ? &header->has_order
                 : strcmp(key, "shape") == 0         ? &header->has_shape
                                                     : NULL;
    if (!seen || *seen)
        return false;
    *seen = true;
    return seen == &header->has_descr   ? take_descr(header)
           : seen == &header->has_order ? take_order(header)
                                        : take_shape(header);
}

static bool take_dictionary(struct header *header)
{
    if (!take(header, '{'))
        return false;
    while (!take(header, '}')) {
        if (!take_item(header))
            return false;
        if (!take(header, ',')) {
            if (!take(header, '}'))
                return false;
            break;
        }
    }
    skip_blanks(header);
    return header->at == header->end && header->has_descr && header->has_order && header->has_shape;
}

static int check_type(const struct header *header)
{
    const char *path = header->array->path;
    const char *descr = header->descr;
    if (header->structured)
        return fail(STATUS_USAGE, "%s: has a structured dtype; save one field of it as <f2, <f4 or <f8", path);
    if (strchr(descr, 'O'))
        return fail(STATUS_USAGE, "%s: holds Python objects; save numbers: <f2, <f4 or <f8", path);
    if (descr[0] == '>' && (strcmp(descr + 1, "u2") == 0 || descr[1] == 'f'))
        return fail(STATUS_USAGE, "%s: is big-endian (%s); save it as <%s", path, descr, descr + 1);
    static const char *const known[] = { "<f4", "<f8", "<f2", "<u2" };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(descr, known[i]) == 0)
            return STATUS_DONE;
    return fail(STATUS_USAGE, "%s: has dtype %s; expected <f4 (f32), <f8 (f64), <f2 (f16) or <u2 (bits of bf16)", path,
                descr);
}

static int count_elements(npy_array *array)
{
    bool overflow = false, empty = false;
    array->elements = 1;
    for (uint32_t i = 0; i < array->dimensions; i++) {
        empty = empty || array->shape[i] == 0;
        overflow = overflow || __builtin_mul_overflow(array->elements, array->shape[i], &array->elements);
    }
    if (empty)
        array->elements = 0;
    else if (overflow || __builtin_mul_overflow(array->elements, array->element_size, &array->bytes) ||
             array->bytes > INT64_MAX)
        return fail(STATUS_USAGE, "%s: its shape is too large for any memory", array->path);
    array->bytes = array->elements * array->element_size;
    return STATUS_DONE;
}

int npyheader_parse(npy_array *out, const char *text, size_t length)
{
    struct header header = { .at = text, .end = text + length, .array = out };
    if (!take_dictionary(&header))
        return fail(STATUS_USAGE, "%s: is not a .npy file: its header is malformed", out->path);
    if (header.too_long)
        return fail(STATUS_USAGE, "%s: its shape is too large: at most %d dimensions that fit in memory are read",
                    out->path, NPY_MOST_DIMENSIONS);
    int status = check_type(&header);
    if (status)
        return status;
    if (header.fortran && out->dimensions > 1)
        return fail(STATUS_USAGE, "%s: is Fortran-ordered; save it in C order (numpy.ascontiguousarray)", out->path);
    memcpy(out->descr, header.descr, sizeof(out->descr));
    out->element_size = (uint32_t)(out->descr[2] - '0');
    return count_elements(out);
}
