/* What definitions of ops are made of: C's operators, and the functions that an expression can call. Pure. */
#ifndef KILN_TEMPLATE_PRIMITIVE_H
#define KILN_TEMPLATE_PRIMITIVE_H

#include "lang/word.h"
#include <stdint.h>

typedef enum kiln__operation {
    KILN__OPERATION_OR,
    KILN__OPERATION_AND,
    KILN__OPERATION_EQ,
    KILN__OPERATION_NE,
    KILN__OPERATION_LE,
    KILN__OPERATION_GE,
    KILN__OPERATION_LT,
    KILN__OPERATION_GT,
    KILN__OPERATION_ADD,
    KILN__OPERATION_SUB,
    KILN__OPERATION_MUL,
    KILN__OPERATION_DIV
} kiln__operation;

enum { KILN__OPERATIONS = KILN__OPERATION_DIV + 1, KILN__PRIMITIVES = 22, KILN__COST_DIV = 16 };

typedef struct kiln__operator {
    char text[3];
    int precedence;
} kiln__operator;

/* In the order of kiln__operation: two-character operators come before their first characters. */
extern const kiln__operator kiln__operators[KILN__OPERATIONS];

/* What a call means: the C function kiln_NAME, which stands in real.h or in functions.h, and the same in double. */
typedef struct kiln__primitive {
    const char *name;
    uint16_t arity;
    uint16_t cost; /* what a compiler has to do for it; 0: for references only, because GPU and cpu differ in it */
    double (*value)(const double *arguments);
} kiln__primitive;

extern const kiln__primitive kiln__primitives[KILN__PRIMITIVES];

/* Index of a function by its name here or in C, "fmaxf"; -1 if there is none. */
int kiln__primitive_find(kiln__word name);

#endif
