/* Tables for spreadsheets and data frames, as RFC 4180 has them: commas, quotes where they are needed, lines that end
 * with CR LF. Equal values give equal bytes in every locale. */
#ifndef KILN_TOOLS_CSV_H
#define KILN_TOOLS_CSV_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct csv {
    FILE *stream; /* borrowed: a draft's, or any */
    bool inside;  /* the row has a field already */
};

/* A table that is written to `stream`, by one thread. */
void csv_begin(struct csv *out, FILE *stream);

/* The names of the columns by '|', as one row. */
void csv_titles(struct csv *csv, const char *titles);

/* The fields of a row, one after the other. Every row has as many as the first. */
void csv_text(struct csv *csv, const char *text); /* NULL is empty */
void csv_count(struct csv *csv, uint64_t count);
void csv_real(struct csv *csv, double value); /* reads back as the same double; empty if it is not finite */
void csv_end_row(struct csv *csv);

#endif
