/* Prints aligned columns. */
#include "text/table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"

struct table {
    size_t columns;
    size_t rows;  /* the titles are row 0 */
    char **cells; /* row by row */
    bool *right;
};

struct table *table_new(const char *titles)
{
    struct table *table = need_alloc(sizeof(*table));
    table->columns = 1;
    for (const char *c = titles; *c; c++)
        table->columns += *c == '|';
    table->right = need_alloc(table->columns * sizeof(*table->right));
    table->cells = need_alloc(table->columns * sizeof(*table->cells));
    table->rows = 1;
    for (size_t i = 0; i < table->columns; i++) {
        size_t length = strcspn(titles, "|");
        table->right[i] = *titles == '>';
        table->cells[i] = need_format("%.*s", (int)(length - table->right[i]), titles + table->right[i]);
        titles += length + 1;
    }
    return table;
}

void table_row(struct table *table, const char *const *cells)
{
    table->cells = need_array(table->cells, (table->rows + 1) * table->columns, sizeof(*table->cells));
    for (size_t i = 0; i < table->columns; i++)
        table->cells[table->rows * table->columns + i] = need_copy(cells[i] ? cells[i] : "");
    table->rows++;
}

/* qsort_r's argument is the number of columns. */
static int by_cells(const void *a, const void *b, void *columns)
{
    char *const *first = a, *const *second = b;
    for (size_t i = 0; i < *(const size_t *)columns; i++) {
        int order = strverscmp(first[i], second[i]);
        if (order)
            return order;
    }
    return 0;
}

void table_sort(struct table *table)
{
    qsort_r(table->cells + table->columns, table->rows - 1, table->columns * sizeof(*table->cells), by_cells,
            &table->columns);
}

static void print_cell(const char *text, size_t width, bool right, bool last, FILE *stream)
{
    if (right)
        fprintf(stream, "%*s", (int)width, text);
    else if (last)
        fputs(text, stream);
    else
        fprintf(stream, "%-*s", (int)width, text);
    fputs(last ? "\n" : "  ", stream);
}

void table_print(const struct table *table, FILE *stream)
{
    size_t *widths = need_alloc(table->columns * sizeof(*widths));
    for (size_t i = 0; i < table->rows * table->columns; i++) {
        size_t length = strlen(table->cells[i]);
        if (length > widths[i % table->columns])
            widths[i % table->columns] = length;
    }
    bool colour = use_colour(stream);
    for (size_t row = 0; row < table->rows; row++) {
        fputs(colour && row == 0 ? "\033[1m" : "", stream);
        for (size_t i = 0; i < table->columns; i++)
            print_cell(table->cells[row * table->columns + i], widths[i], table->right[i], i + 1 == table->columns,
                       stream);
        fputs(colour && row == 0 ? "\033[0m" : "", stream);
    }
}
