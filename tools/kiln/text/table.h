/* Aligned columns of plain text. */
#ifndef KILN_TOOLS_TABLE_H
#define KILN_TOOLS_TABLE_H

#include <stddef.h>
#include <stdio.h>

/* Lasts as long as the command. */
struct table;

/* Columns by their titles, separated by '|'; a title that begins with '>' is right-aligned. */
struct table *table_new(const char *titles);

/* Adds a row: one text for each column, copied; NULL is empty. */
void table_row(struct table *table, const char *const *cells);

/* Sorts the rows by their first cells, then the next ones. */
void table_sort(struct table *table);

/* Prints titles and rows. On a terminal long texts are cut; where that is not enough, rows go on in indented lines. */
void table_print(const struct table *table, FILE *stream);

/* The same for a terminal of so many columns, SIZE_MAX for none. */
void table_print_within(const struct table *table, FILE *stream, size_t columns);

#endif
