/* The functions that definitions of ops call, cut out of kernel_templates/functions.h. A function begins with a line
 * "//! function NAME(inputs)". Pure. */
#ifndef KILN_LANG_FUNCTION_H
#define KILN_LANG_FUNCTION_H

#include "base/report.h"
#include "base/text.h"
#include "lang/word.h"

enum { KILN__FUNCTIONS_MAX = 64 };

/* In the order of the file: what a function calls comes before it. Points into the file's text. */
typedef struct kiln__functions {
    uint32_t count;
    struct {
        kiln__word name, text; /* the text is the C function kiln_NAME, without its declaration and documentation */
    } at[KILN__FUNCTIONS_MAX];
} kiln__functions;

/* Finds the functions of a text. KILN_ESPEC: the last line "//! end" is missing, or there are too many. */
kiln_status kiln__functions_find(kiln__functions *out, const char *text, kiln_report *report);

/* Marks a function by its name; one that real.h has is none of them. */
void kiln__functions_take(const kiln__functions *functions, const char *name, bool taken[KILN__FUNCTIONS_MAX]);

/* Appends the marked functions and those that they call. */
void kiln__functions_append(const kiln__functions *functions, bool taken[KILN__FUNCTIONS_MAX], kiln__text *out);

#endif
