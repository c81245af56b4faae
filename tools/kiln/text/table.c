/* Prints aligned columns. */
#include "text/table.h"

#include <stdbool.h>
#include <stdint.h>
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

enum { GAP = 2, INDENT = 4, TEXT_MIN = 24 };

/* Takes from the widest columns of texts until a row fits. Leaves them whole where that cannot be. */
static void shrink_texts(const struct table *table, size_t *widths, size_t room)
{
    size_t all = GAP * (table->columns - 1), least = all, widest = 0;
    for (size_t i = 0; i < table->columns; i++) {
        all += widths[i];
        least += table->right[i] || widths[i] < TEXT_MIN ? widths[i] : TEXT_MIN;
    }
    for (; all > room && least <= room; all--, widths[widest]--) {
        for (size_t i = 0; i < table->columns; i++)
            if (!table->right[i] && (table->right[widest] || widths[i] > widths[widest]))
                widest = i;
    }
}

/* Blanks behind the last cell of a line are left out. */
static void print_cell(const char *text, size_t width, bool right, size_t *blanks, FILE *stream)
{
    size_t length = text_columns(text, strlen(text)), shown = length > width ? width : length,
           before = right ? width - shown : 0;
    if (shown > 0) {
        fprintf(stream, "%*s", (int)(*blanks + before), "");
        *blanks = 0;
        fprintf(stream, "%.*s%s", (int)text_within(text, length > width ? width - 1 : width), text,
                length > width ? "\u2026" : "");
        *blanks = width - shown - before;
    } else {
        *blanks += width;
    }
    *blanks += GAP;
}

static void print_row(const struct table *table, size_t row, const size_t *widths, size_t room, FILE *stream)
{
    char *const *cells = table->cells + row * table->columns;
    size_t at = 0, blanks = 0, count = table->columns;
    while (count > 0 && !*cells[count - 1])
        count--;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && at + widths[i] > room) {
            fputc('\n', stream);
            at = blanks = INDENT;
        }
        print_cell(cells[i], widths[i], table->right[i], &blanks, stream);
        at += widths[i] + GAP;
    }
    fputc('\n', stream);
}

void table_print_within(const struct table *table, FILE *stream, size_t room)
{
    size_t *widths = need_alloc(table->columns * sizeof(*widths));
    for (size_t i = 0; i < table->rows * table->columns; i++) {
        size_t length = text_columns(table->cells[i], strlen(table->cells[i]));
        if (length > widths[i % table->columns])
            widths[i % table->columns] = length;
    }
    shrink_texts(table, widths, room);
    for (size_t i = 0; i < table->columns && room > 2 * INDENT; i++)
        if (widths[i] > room - INDENT)
            widths[i] = room - INDENT;
    bool colour = use_colour(stream);
    for (size_t row = 0; row < table->rows; row++) {
        fputs(colour && row == 0 ? "\033[1m" : "", stream);
        print_row(table, row, widths, room, stream);
        fputs(colour && row == 0 ? "\033[0m" : "", stream);
    }
}

void table_print(const struct table *table, FILE *stream)
{
    table_print_within(table, stream, terminal_width(stream));
}
