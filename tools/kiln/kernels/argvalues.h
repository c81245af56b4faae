/* What --size and --arg say: the sizes and numbers of kernels, or how many elements flat ones have (signature.h). */
#ifndef KILN_TOOLS_ARGVALUES_H
#define KILN_TOOLS_ARGVALUES_H

#include <kiln/tune.h>

#include "cli/common.h"

enum { ARGVALUES_ARGS = 12, ARGVALUES_SIZES = 4 };

/* As they are given, "N", "AxB" or "NAME=VALUE". */
typedef struct arg_texts {
    text_list sizes, numbers;
} arg_texts;

/* In the order of a template's declarations, as kiln_launch wants them: of args the arrays are empty. */
typedef struct arg_values {
    uint64_t elements; /* of a flat kernel's arrays; 0: none are named */
    uint64_t sizes[ARGVALUES_SIZES];
    size_t size_count;
    kiln_arg args[ARGVALUES_ARGS]; /* their data are the numbers below */
    uint64_t numbers[ARGVALUES_ARGS];
    size_t arg_count; /* 0 where the template takes no numbers */
} arg_values;

/* What the texts say for a spec's template. Returns NULL, or one line that says what is wrong, which the caller
 * frees. The values are not to be copied: they point at themselves. */
char *argvalues_read(arg_values *out, const kiln_spec *spec, const arg_texts *texts);

/* The work with these values, which have to stay as long as it. */
kiln_work argvalues_work(const arg_values *values);

/* The value of NAME among texts "NAME=VALUE", of several the last, or NULL; *used, if not NULL, grows by how many
 * there are. */
const char *argvalues_find(const text_list *texts, const char *name, size_t *used);

/* The bytes of a number in the argument's type. False: it does not fit, or is none, as *is_number says. */
bool argvalues_number(uint64_t *out, bool *is_number, const kiln_param *info, const char *text);

/* Whether a number of elements is not enough for a spec's template: it wants --size NAME=N for each size, and --arg
 * for each number. */
bool argvalues_wanted(const kiln_spec *spec);

/* The number of elements in "N" or, where `name` is the name of a template's only size, "NAME=N". */
bool argvalues_elements(uint64_t *out, const char *name, const char *text);

/* " rows=4096 cols=512", which the caller frees: "" where there are no sizes. */
char *argvalues_text(const arg_values *values, const kiln_spec *spec);

#endif
