/* Op expressions: "hardsigmoid", "hardtanh(-2,2)", "hardsigmoid(add(x,y))".
 *
 * An op takes its inputs first (x, y, z or nested ops), then its parameters by position or by name (hi=2); left out,
 * inputs are x, y, z in order and parameters have their defaults. The inputs used must be x, or x and y, or x, y and z.
 * '?' as a parameter is not allowed yet: it is reserved for scalars given at launch. */
#ifndef KILN_LANG_EXPR_H
#define KILN_LANG_EXPR_H

#include "base/text.h"
#include "lang/op.h"

enum { KILN__EXPR_NODES_MAX = 64, KILN__EXPR_DEPTH_MAX = 32 };

typedef struct kiln__expr_node {
    int op;                      /* index in the table, or -1 for an input */
    int input;                   /* 0, 1, 2 for x, y, z when op is -1 */
    int args[KILN__OP_ARGS_MAX]; /* nodes of the inputs */
    double params[KILN__OP_ARGS_MAX];
} kiln__expr_node;

/* Plain data: may be copied and compared field by field. The root is the last node. The bytes behind it are never
 * written or read, so that the unused part of this large struct costs a process no memory. */
typedef struct kiln__expr {
    uint32_t count;
    uint32_t inputs; /* 1 to 3 arrays */
    kiln__expr_node nodes[KILN__EXPR_NODES_MAX];
} kiln__expr;

/* How many of its bytes are used, from the first on. */
static inline size_t kiln__expr_size(const kiln__expr *expr)
{
    return offsetof(kiln__expr, nodes) + expr->count * sizeof(expr->nodes[0]);
}

/* Reads an expression. Errors: KILN_EOP with the closest names, the wrong numbers of inputs or parameters, or the place
 * of bad syntax; KILN_ENOMEM. */
kiln_status kiln__expr_parse(kiln__expr *out, const kiln__op_table *table, const char *text, size_t length,
                             kiln_report *report);

/* Calls of primitives in all its ops. */
uint32_t kiln__expr_operations(const kiln__expr *expr, const kiln__op_table *table);

/* The kind of numbers that an expression takes and gives. */
typedef struct kiln__expr_kind {
    bool whole;    /* it gives whole numbers, if the inputs are such */
    bool wide;     /* some number in it needs more than 32 bits */
    bool integral; /* it has no value for other inputs */
    bool truth;    /* the value is that of a comparison */
} kiln__expr_kind;

kiln__expr_kind kiln__expr_kind_of(const kiln__expr *expr, const kiln__op_table *table);

/* Whether all its ops have the same bits on every device. */
bool kiln__expr_is_exact(const kiln__expr *expr, const kiln__op_table *table);

/* Whether one of its ops calls a function that has a fast form. */
bool kiln__expr_has_fast(const kiln__expr *expr, const kiln__op_table *table);

/* The first op that math=portable cannot build; NULL: it can build all. */
const kiln__op *kiln__expr_unportable(const kiln__expr *expr, const kiln__op_table *table);

/* Canonical text: every parameter spelt out, no spaces; x is left out where an outermost op of one input takes it. */
void kiln__expr_format(const kiln__expr *expr, const kiln__op_table *table, kiln__text *out);

/* The C text of the value: "kiln_op_hardsigmoid(kiln_op_add(x, y))", parameters as (kiln_real) literals. */
void kiln__expr_emit(const kiln__expr *expr, const kiln__op_table *table, kiln__text *out);

#endif
