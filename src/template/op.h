/* The table of ops: those of ops.h and those that users define. */
#ifndef KILN_TEMPLATE_OP_H
#define KILN_TEMPLATE_OP_H

#include "base/report.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { KILN__OP_ARGS_MAX = 8, KILN__OPS_MAX = 1024 };

typedef struct kiln__real kiln__real; /* template/real.h */

typedef struct kiln__op {
    char *name;
    char *signature; /* "hardtanh(x; lo=-1, hi=1)" */
    char *doc;       /* lines, each ending with '\n' */
    char *text;      /* declarations and function, as in ops.h, for pasting into a unit */
    uint32_t inputs, params;
    char *param_names[KILN__OP_ARGS_MAX];
    double defaults[KILN__OP_ARGS_MAX]; /* of the params */
    uint32_t operations;                /* calls of primitives that it comes to, those of ops that it calls included */
    /* Of an op that a user defined; zero in Kiln's own. */
    char *definition; /* what defined it, on one line */
    kiln__real *real; /* its expression */
    bool bounded;     /* the definition says what to compare results with: `reference`, or `real` where that is NULL, */
    kiln__real *reference; /* calculated in double, */
    double ulps;           /* and how far from it they may be */
} kiln__op;

/* One thread at a time adds, while any thread reads: an op that is counted is whole and stays until fini. */
typedef struct kiln__op_table {
    kiln__op *first; /* an array of constants, which are not the table's */
    uint32_t constants;
    atomic_uint count; /* of all */
    kiln__op **added;  /* after the constants, in the order in which they came; NULL: none yet */
} kiln__op_table;

/* Op number i; it comes after those that it calls. */
static inline kiln__op *kiln__op_at(const kiln__op_table *table, uint32_t i)
{
    return i < table->constants ? &table->first[i] : table->added[i - table->constants];
}

/* What ops.h and functions.h say, made into constants when the library is built. Nobody writes to them. */
extern kiln__op kiln__constant_ops[], kiln__constant_functions[];
extern const size_t kiln__constant_op_count, kiln__constant_function_count;

/* A table that begins with such constants. */
void kiln__op_table_begin(kiln__op_table *out, kiln__op *constants, size_t count);

/* Reads ops.h, where an op NAME is the C function kiln_op_NAME. Errors: KILN_ESPEC naming the line, KILN_ENOMEM; the table
 * is empty then. */
kiln_status kiln__op_table_init(kiln__op_table *out, const char *text, kiln_report *report);

/* The same for functions.h, where a function NAME is "//! function NAME(x)" and kiln_NAME. */
kiln_status kiln__function_table_init(kiln__op_table *out, const char *text, kiln_report *report);
void kiln__op_table_fini(kiln__op_table *table);

/* Takes over a new op. KILN_EOP: the table is full; KILN_ENOMEM. The op is the caller's still then. */
kiln_status kiln__op_table_add(kiln__op_table *table, kiln__op *op, kiln_report *report);
void kiln__op_free(kiln__op *op);

/* Index of an op, -1 if unknown. */
int kiln__op_find(const kiln__op_table *table, const char *name, size_t length);

#endif
