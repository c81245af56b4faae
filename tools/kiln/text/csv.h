/* Tables for spreadsheets and data frames, as RFC 4180 has them: commas, quotes where they are needed, lines that end
 * with CR LF. Equal values give equal bytes in every locale. */
#ifndef KILN_TOOLS_CSV_H
#define KILN_TOOLS_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct csv {
    FILE *stream; /* borrowed: a draft's, or any */
    bool inside;  /* the row has a field already */
};

/* Begins a table in `stream`: `titles` are the names of the columns with commas between them. For one thread. */
void csv_begin(struct csv *out, FILE *stream, const char *titles);

/* Write the fields of a row, one after the other. Every row has as many as the first. */
void csv_text(struct csv *csv, const char *text); /* NULL is empty */
void csv_count(struct csv *csv, uint64_t count);
void csv_real(struct csv *csv, double value); /* reads back as the same double; empty if it is not finite */
void csv_end_row(struct csv *csv);

/* A table that was read, which lasts as long as the command. Rows and columns count from 0, without the row of
 * titles. */
struct csv_table {
    char *text;          /* the fields, unquoted, each with a NUL behind it */
    const char **fields; /* row by row, the titles first */
    size_t rows, columns;
};

/* Reads such a table, also one that a spreadsheet has rewritten: lines may end with LF, a byte order mark may lead.
 * False with a reason in *problem, a static string, and the line that it is about. */
bool csv_read(struct csv_table *out, const char *text, size_t length, const char **problem, size_t *line);

/* The field of a row in the column of that title; "" where there is no such column. */
const char *csv_field(const struct csv_table *table, size_t row, const char *title);

bool csv_has(const struct csv_table *table, const char *title);

#endif
