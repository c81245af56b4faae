/* Writes and reads tables of comma-separated values. */
#include "text/csv.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/common.h"
#include "text/format.h"

void csv_begin(struct csv *out, FILE *stream, const char *titles)
{
    *out = (struct csv){ .stream = stream };
    fprintf(stream, "%s\r\n", titles);
}

void csv_text(struct csv *csv, const char *text)
{
    text = text ? text : "";
    size_t length = strlen(text);
    bool first = !csv->inside;
    bool quoted = length > 0 && (strpbrk(text, ",\"\r\n") || text[0] == ' ' || text[length - 1] == ' ');
    fputs(first ? "" : ",", csv->stream);
    csv->inside = true;
    /* A row of one empty field would be an empty line. */
    if (!quoted && !(first && length == 0)) {
        fwrite(text, 1, length, csv->stream);
        return;
    }
    fputc('"', csv->stream);
    for (size_t i = 0; i < length; i++)
        fputs(text[i] == '"' ? "\"\"" : (char[]){ text[i], 0 }, csv->stream);
    fputc('"', csv->stream);
}

void csv_count(struct csv *csv, uint64_t count)
{
    csv_text(csv, format_count(count));
}

void csv_real(struct csv *csv, double value)
{
    csv_text(csv, isfinite(value) ? format_exact(value) : NULL);
}

void csv_end_row(struct csv *csv)
{
    fputs("\r\n", csv->stream);
    csv->inside = false;
}

/* ---- Reading */

typedef struct csv_reader {
    const char *at, *end;
    char *to; /* where the next field goes in the table's text */
    size_t line;
} csv_reader;

/* Copies a field; *at is behind it then. */
static const char *read_field(csv_reader *reader, const char **problem)
{
    const char *field = reader->to;
    bool quoted = reader->at < reader->end && *reader->at == '"';
    reader->at += quoted;
    while (reader->at < reader->end) {
        char c = *reader->at;
        bool doubled = quoted && c == '"' && reader->at + 1 < reader->end && reader->at[1] == '"';
        if (quoted ? c == '"' && !doubled : c == ',' || c == '\r' || c == '\n')
            break;
        reader->line += c == '\n';
        reader->at += 1 + doubled;
        *reader->to++ = c;
    }
    *reader->to++ = '\0';
    if (quoted && reader->at++ == reader->end)
        *problem = "a quote is not closed";
    return field;
}

static bool skip_line_end(csv_reader *reader)
{
    const char *start = reader->at;
    reader->at += reader->at < reader->end && *reader->at == '\r';
    reader->at += reader->at < reader->end && *reader->at == '\n';
    reader->line += reader->at > start;
    return reader->at > start;
}

static void read_row(struct csv_table *out, csv_reader *reader, const char **problem)
{
    size_t count = 0, before = (out->rows + 1) * out->columns;
    for (bool more = true; more && !*problem; reader->at += more) {
        out->fields = need_array(out->fields, before + count + 1, sizeof(*out->fields));
        out->fields[before + count++] = read_field(reader, problem);
        more = reader->at < reader->end && *reader->at == ',';
    }
    if (*problem)
        return;
    if (reader->at < reader->end && !skip_line_end(reader))
        *problem = "text follows a closing quote";
    else if (out->columns && count != out->columns)
        *problem = "a row has more or fewer fields than the titles";
    out->rows += out->columns > 0;
    out->columns = count;
}

bool csv_read(struct csv_table *out, const char *text, size_t length, const char **problem, size_t *line)
{
    static const char mark[] = "\xEF\xBB\xBF";
    size_t skip = length >= 3 && memcmp(text, mark, 3) == 0 ? 3 : 0;
    *out = (struct csv_table){ .text = need_alloc(length + 1) };
    csv_reader reader = { text + skip, text + length, out->text, 1 };
    *line = 1;
    *problem = length && memchr(text, '\0', length) ? "it is no text" : NULL;
    while (reader.at < reader.end && !*problem) {
        *line = reader.line;
        if (skip_line_end(&reader))
            continue;
        read_row(out, &reader, problem);
    }
    if (!*problem && out->columns == 0)
        *problem = "it is empty";
    return *problem == NULL;
}

static bool find_column(const struct csv_table *table, const char *title, size_t *out)
{
    for (*out = 0; *out < table->columns; ++*out)
        if (strcmp(table->fields[*out], title) == 0)
            return true;
    return false;
}

bool csv_has(const struct csv_table *table, const char *title)
{
    size_t column;
    return find_column(table, title, &column);
}

const char *csv_field(const struct csv_table *table, size_t row, const char *title)
{
    size_t column;
    return find_column(table, title, &column) ? table->fields[(row + 1) * table->columns + column] : "";
}
