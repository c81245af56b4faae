/* The arguments of kernels, and the sizes and numbers of --size and --arg for them. */
#ifndef KILN_TOOLS_ARGVALUES_H
#define KILN_TOOLS_ARGVALUES_H

#include <jansson.h>

#include "cli/common.h"

enum { ARGVALUES_ARGS = 33, ARGVALUES_SIZES = 4 };

typedef struct kernel_takes {
    bool flat;        /* one size, which is the extent of every array */
    bool one_type;    /* all arrays have elements of `type` */
    const char *type; /* of the first array's elements; "": there is no array */
    uint32_t in, out, inout;
} kernel_takes;

kernel_takes signature_takes(const kiln_signature *signature);

/* The signature that a spec's template declares. Lives as long as the spec. */
const kiln_signature *spec_signature(const kiln_spec *spec);

/* Whether a spec's kernel takes just a number of elements: it is flat. */
bool spec_is_flat(const kiln_spec *spec);

/* As they are given, "N", "AxB" or "NAME=VALUE". AxB is a product for a flat kernel, and else all sizes in order. */
typedef struct arg_texts {
    text_list sizes, numbers;
} arg_texts;

/* In the order of a template's declarations, as kiln_launch wants them. The elements of args that are arrays are the
 * caller's. All zero is the state before argvalues_read. */
typedef struct arg_values {
    uint64_t sizes[ARGVALUES_SIZES]; /* of a flat kernel 0 if it is not named */
    size_t size_count;
    bool by_inputs;                /* the caller takes sizes from inputs */
    bool bound[ARGVALUES_SIZES];   /* has taken this one, which must not be named otherwise */
    kiln_arg args[ARGVALUES_ARGS]; /* their data are the numbers below */
    uint64_t numbers[ARGVALUES_ARGS];
    size_t arg_count; /* numbers and arrays */
    bool has_numbers;
} arg_values;

/* Reads the values for a spec's template from texts. Returns NULL, or one line about a fault. The values are
 * not to be copied: they point at themselves. */
char *argvalues_read(arg_values *out, const kiln_spec *spec, const arg_texts *texts);

/* The spec for rows of so many columns, which the caller frees: its geometry depends on them. NULL: the spec names n
 * already, or has no rows. */
kiln_spec *argvalues_sized(const kiln_spec *spec, const arg_values *values);

/* The work with these values, which have to stay as long as it. */
kiln_work argvalues_work(const arg_values *values, bool flat);

/* The value of NAME among texts "NAME=VALUE", of several the last, or NULL; *given, if not NULL, grows by how many
 * there are. */
const char *argvalues_find(const text_list *texts, const char *name, size_t *given);

/* Puts "sizes" and "args" into an object, unless a flat kernel takes nothing but its arrays. Sizes are
 * numbers. Numbers are texts as they are given, for a double of JSON does not hold every one of them. */
void argvalues_json(json_t *object, const kiln_signature *signature, const uint64_t *sizes, bool flat,
                    const text_list *numbers);

#endif
