#include "csv.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "format.h"

void csv_begin(struct csv *out, FILE *stream)
{
    *out = (struct csv){ .stream = stream };
}

static void put_field(struct csv *csv, const char *text, size_t length)
{
    bool first = !csv->inside;
    bool quoted = strcspn(text, ",\"\r\n") < length || (length > 0 && (text[0] == ' ' || text[length - 1] == ' '));
    if (!first)
        fputc(',', csv->stream);
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

void csv_titles(struct csv *csv, const char *titles)
{
    for (;; titles++) {
        size_t length = strcspn(titles, "|");
        put_field(csv, titles, length);
        titles += length;
        if (!*titles)
            break;
    }
    csv_end_row(csv);
}

void csv_text(struct csv *csv, const char *text)
{
    put_field(csv, text ? text : "", text ? strlen(text) : 0);
}

void csv_count(struct csv *csv, uint64_t count)
{
    char buffer[FORMAT_ROOM];
    csv_text(csv, format_count(buffer, count));
}

void csv_real(struct csv *csv, double value)
{
    char buffer[FORMAT_ROOM];
    csv_text(csv, isfinite(value) ? format_exact(buffer, value) : NULL);
}

void csv_end_row(struct csv *csv)
{
    fputs("\r\n", csv->stream);
    csv->inside = false;
}
