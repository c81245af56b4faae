/* Aligned columns of plain text. */
#ifndef KILN_TOOLS_TABLE_H
#define KILN_TOOLS_TABLE_H

#include <stddef.h>
#include <stdio.h>

struct table;

/* Columns by their titles, separated by '|'; a title that begins with '>' is right-aligned. Ends the command when out
 * of memory, as table_row does. */
struct table *table_new(const char *titles);

/* Adds a row: one text for each column, copied; NULL is empty. */
void table_row(struct table *table, const char *const *cells);

/* Sorts the rows by their first cells, then the next ones. */
void table_sort(struct table *table);

/* Prints titles and rows. */
void table_print(const struct table *table, FILE *stream);
void table_free(struct table *table);

#endif
