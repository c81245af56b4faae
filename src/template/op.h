/* The table of ops, read from the text of ops.h. */
#ifndef KILN_TEMPLATE_OP_H
#define KILN_TEMPLATE_OP_H

#include "base/report.h"
#include <stdint.h>

enum { KILN__OP_ARGS_MAX = 8 };

typedef struct kiln__op {
    char *name;
    char *signature; /* "hardtanh(x; lo=-1, hi=1)" */
    char *doc;       /* lines, each ending with '\n' */
    char *text;      /* declarations and function, as in ops.h, for pasting into a unit */
    uint32_t inputs, params;
    char *param_names[KILN__OP_ARGS_MAX];
    double defaults[KILN__OP_ARGS_MAX]; /* of the params */
} kiln__op;

typedef struct kiln__op_table {
    kiln__op *ops; /* in the order of the text */
    uint32_t count;
} kiln__op_table;

/* Errors: KILN_ESPEC naming the line, KILN_ENOMEM; the table is empty then. */
kiln_status kiln__op_table_init(kiln__op_table *out, const char *text, kiln_report *report);
void kiln__op_table_fini(kiln__op_table *table);

/* Index of an op, -1 if unknown. */
int kiln__op_find(const kiln__op_table *table, const char *name, size_t length);

#endif
