/* Values of a template's parameters: those that a declaration allows, and ranges of numbers. Pure. */
#ifndef KILN_SPEC_PARAM_H
#define KILN_SPEC_PARAM_H

#include "base/number.h"
#include "lang/word.h"
#include <stdint.h>

/* A declared parameter. Integers are a range with a step or a list of values; enumerations a list of words. */
typedef struct kiln__declared_param {
    char *name;
    char *values;          /* as declared: "32..1024 step 32", "1,2,4,8,16", "plain,stream" */
    char *default_text;    /* as declared: a formula, or a word of an enumeration */
    char *default_formula; /* the same without names of lets */
    char *doc;
    bool is_enum;
    bool is_list; /* an integer from a list */
    int64_t low, high, step;
    int64_t *list;  /* is_list: the allowed integers */
    char **words;   /* is_enum */
    uint32_t count; /* length of list or words */
} kiln__declared_param;

/* Reads a whole number of at most 2147483647: a parameter is an int in the template's C text. */
bool kiln__param_number(kiln__word text, int64_t *out);

/* Index of a word of an enumeration, -1 if there is none. */
int kiln__param_word(const kiln__declared_param *param, kiln__word word);

/* Checks one value's text against the parameter: its number, or the index of a word. On failure one line in problem
 * that names the nearest allowed value. */
bool kiln__param_parse(const kiln__declared_param *param, const char *text, size_t length, int64_t *out, char *problem,
                       size_t size);

/* A value as specs write it, in buffer where it is a number. */
kiln__word kiln__param_text(const kiln__declared_param *param, int64_t value, char buffer[KILN__NUMBER_SIZE]);

/* Checks a number that came from a default formula. */
bool kiln__param_allows(const kiln__declared_param *param, int64_t value);

/* A range of whole numbers: "A..B" (step 1), "A..B+STEP" and "A..B*FACTOR". */
typedef struct kiln__range {
    uint64_t value; /* the current number, at first the first one */
    uint64_t last, step;
    bool multiplies;
} kiln__range;

/* True for a text that is meant as a range. */
bool kiln__range_is(kiln__word text);

/* NULL, or the rest of a message that began with the text: "never ends: step by 1 or more". */
const char *kiln__range_parse(kiln__range *out, kiln__word text);

/* Goes on to the next number; false after the last. */
bool kiln__range_next(kiln__range *range);

#endif
