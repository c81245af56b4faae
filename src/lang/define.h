/* Definitions of ops: "swish_clip(x; lo=0, hi=6) = x * min(max(x + 3, lo), hi) / 6 within 2 ulp of ..."; see
 * docs/ops.md. */
#ifndef KILN_LANG_DEFINE_H
#define KILN_LANG_DEFINE_H

#include "lang/real.h"

enum { KILN__DEFINITION_MAX = 4096 /* characters */ };

/* Reads a definition; what it calls must be in the table, to which nothing is added. The caller frees *out or adds it.
 * Errors: KILN_EOP with the place, KILN_ENOMEM. */
kiln_status kiln__op_read(kiln__op **out, const kiln__op_table *table, const char *definition, kiln_report *report);

/* The same for row number `row` of the table's own text, which may call the rows before it. */
kiln_status kiln__op_read_row(kiln__op **out, const kiln__op_table *table, uint32_t row, const char *definition,
                              kiln_report *report);

/* Whether two definitions mean the same. */
bool kiln__op_equal(const kiln__op *a, const kiln__op *b, const kiln__op_table *table);

/* Reads a definition and adds the op. One thread at a time. An op that is in the table with an equal definition
 * stays as it is, and that is KILN_OK. Errors: as for read, and KILN_EOP where the name is taken or the table full. */
kiln_status kiln__op_define(kiln__op_table *table, const char *definition, kiln_report *report);

#endif
