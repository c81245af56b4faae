/* The table of ops: Kiln's, which are rows of kernel_templates/ops.txt, and those that users define. */
#ifndef KILN_LANG_OP_H
#define KILN_LANG_OP_H

#include "base/report.h"
#include "lang/word.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { KILN__OP_ARGS_MAX = 8, KILN__OPS_MAX = 1024, KILN__OP_NAME_SIZE = 41 };

typedef struct kiln__real kiln__real; /* lang/real.h */

typedef struct kiln__op {
    char *name;
    char *signature;  /* "hardtanh(x; lo=-1, hi=1)" */
    char *definition; /* signature and expression, on one line, as it was read */
    char *doc;        /* lines, each ending with '\n' */
    char *text;       /* the C function, for pasting into a unit */
    uint32_t inputs, params;
    char *param_names[KILN__OP_ARGS_MAX];
    double defaults[KILN__OP_ARGS_MAX]; /* of the params */
    uint32_t operations;                /* calls of primitives that it comes to, those of ops that it calls included */
    kiln__real *real;                   /* its expression */
    bool bounded; /* the definition says what to compare results with: `reference`, or `real` where that is NULL, */
    kiln__real *reference; /* calculated in double, */
    double ulps;           /* and how far from it they may be */
} kiln__op;

/* A row of ops.txt that has been found and not read. */
typedef struct kiln__op_row {
    char name[KILN__OP_NAME_SIZE];
    uint32_t line;
    kiln__word definition, notes; /* notes: the indented lines beneath it */
} kiln__op_row;

/* Ops have numbers: first Kiln's, in the order of their rows, then users'. A row is read when its op is first asked
 * for: any thread may do that, at the same time as others. One thread at a time adds a user's op, while any thread
 * reads: an op that is counted is whole and stays until fini. */
typedef struct kiln__op_table {
    kiln__op_row *rows;
    uint32_t row_count;
    _Atomic(kiln__op *) *read; /* the op of each row, NULL until it is read */
    atomic_uint count;         /* of all */
    kiln__op **added;          /* users'; NULL: none yet */
} kiln__op_table;

/* Finds the rows of a text, which must live as long as the table. Errors: KILN_ESPEC naming the line, KILN_ENOMEM;
 * the table is empty then. */
kiln_status kiln__op_table_init(kiln__op_table *out, const char *text, kiln_report *report);
void kiln__op_table_fini(kiln__op_table *table);

/* An op that has been found, loaded or added before. */
static inline kiln__op *kiln__op_at(const kiln__op_table *table, uint32_t i)
{
    return i < table->row_count ? atomic_load_explicit(&table->read[i], memory_order_acquire)
                                : table->added[i - table->row_count];
}

/* The name of any op; NULL after the last. */
const char *kiln__op_name(const kiln__op_table *table, uint32_t i);

/* Reads op number i if it is a row that has not been read. Errors: KILN_EOP (the row is no definition), KILN_ENOMEM. */
kiln_status kiln__op_load(const kiln__op_table *table, uint32_t i, kiln_report *report);

/* The number of an op, read, or -1 in *out where there is none of that name among the first `limit`. Errors: as for
 * load. */
kiln_status kiln__op_find(const kiln__op_table *table, kiln__word name, uint32_t limit, int *out, kiln_report *report);

/* Takes over a user's op. KILN_EOP: the table is full; KILN_ENOMEM. The op is the caller's still then. */
kiln_status kiln__op_table_add(kiln__op_table *table, kiln__op *op, kiln_report *report);
void kiln__op_free(kiln__op *op);

#endif
