#include "plot/svg.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"

static const uint32_t replacement = 0xFFFD;

static bool allowed(uint32_t character)
{
    if (character < 0x20)
        return character == '\t' || character == '\n' || character == '\r';
    return (character < 0xD800 || character > 0xDFFF) && character != 0xFFFE && character != 0xFFFF;
}

uint32_t svg_next_character(const char **text)
{
    const unsigned char *bytes = (const unsigned char *)(*text)++;
    int more = bytes[0] < 0x80 ? 0 : bytes[0] < 0xC2 ? -1 : bytes[0] < 0xE0 ? 1 : bytes[0] < 0xF0 ? 2 : 3;
    if (more < 0 || bytes[0] > 0xF4)
        return replacement;
    uint32_t character = more ? bytes[0] & (0x3Fu >> more) : bytes[0];
    for (int i = 1; i <= more; i++) {
        if ((bytes[i] & 0xC0) != 0x80)
            return replacement;
        character = character << 6 | (bytes[i] & 0x3F);
    }
    static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
    if (character < least[more] || character > 0x10FFFF || !allowed(character))
        return replacement;
    *text += more;
    return character;
}

static void put_escaped(struct svg *svg, const char *text)
{
    while (*text) {
        const char *start = text;
        uint32_t character = svg_next_character(&text);
        if (character == '&' || character == '<' || character == '>' || character == '"' || character < 0x20)
            fprintf(svg->stream, "&#%u;", (unsigned)character);
        else if (character == replacement)
            fputs("\xEF\xBF\xBD", svg->stream);
        else
            fwrite(start, 1, (size_t)(text - start), svg->stream);
    }
}

static void put_number(struct svg *svg, double value)
{
    char buffer[FORMAT_ROOM];
    format_fixed(buffer, value, 2);
    char *last = buffer + strlen(buffer) - 1;
    if (strchr(buffer, '.') && !strchr(buffer, 'e')) {
        while (*last == '0')
            *last-- = 0;
        if (*last == '.')
            *last = 0;
    }
    fputs(buffer, svg->stream);
}

static void end_tag(struct svg *svg)
{
    if (svg->in_tag)
        fputc('>', svg->stream);
    svg->in_tag = false;
}

void svg_begin(struct svg *out, FILE *stream, double width, double height)
{
    *out = (struct svg){ .stream = stream };
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", stream);
    svg_open(out, "svg");
    svg_put(out, "xmlns", "http://www.w3.org/2000/svg");
    svg_put(out, "version", "1.1");
    svg_put_number(out, "width", width);
    svg_put_number(out, "height", height);
    fputs(" viewBox=\"0 0 ", stream);
    put_number(out, width);
    fputc(' ', stream);
    put_number(out, height);
    fputc('"', stream);
}

void svg_end(struct svg *svg)
{
    while (svg->depth > 0)
        svg_close(svg);
}

/* Every shape, group and text has a line, so that two pictures can be compared; tooltips stay with their shapes. */
static bool has_line(const char *element)
{
    return strcmp(element, "title") != 0;
}

void svg_open(struct svg *svg, const char *element)
{
    assert(svg->depth < SVG_DEPTH);
    if (svg->in_tag && has_line(element))
        fputs(">\n", svg->stream);
    else
        end_tag(svg);
    fprintf(svg->stream, "<%s", element);
    svg->open[svg->depth++] = element;
    svg->in_tag = true;
}

void svg_close(struct svg *svg)
{
    const char *element = svg->open[--svg->depth];
    if (svg->in_tag)
        fputs("/>", svg->stream);
    else
        fprintf(svg->stream, "</%s>", element);
    svg->in_tag = false;
    if (has_line(element))
        fputc('\n', svg->stream);
}

static void put_attribute_name(struct svg *svg, const char *attribute)
{
    assert(svg->in_tag);
    fprintf(svg->stream, " %s=\"", attribute);
}

void svg_put(struct svg *svg, const char *attribute, const char *value)
{
    put_attribute_name(svg, attribute);
    put_escaped(svg, value);
    fputc('"', svg->stream);
}

void svg_put_number(struct svg *svg, const char *attribute, double value)
{
    put_attribute_name(svg, attribute);
    put_number(svg, value);
    fputc('"', svg->stream);
}

void svg_put_colour(struct svg *svg, const char *attribute, uint32_t colour)
{
    put_attribute_name(svg, attribute);
    fprintf(svg->stream, "#%06x\"", (unsigned)colour & 0xFFFFFF);
}

void svg_put_turn(struct svg *svg, double x, double y)
{
    put_attribute_name(svg, "transform");
    fputs("rotate(-90 ", svg->stream);
    put_number(svg, x);
    fputc(' ', svg->stream);
    put_number(svg, y);
    fputs(")\"", svg->stream);
}

void svg_text(struct svg *svg, const char *text)
{
    end_tag(svg);
    put_escaped(svg, text);
}

void svg_tooltip(struct svg *svg, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    svg_open(svg, "title");
    svg_text(svg, length < 0 ? "" : text);
    svg_close(svg);
    if (length >= 0)
        free(text);
}

void svg_rect(struct svg *svg, double x, double y, double width, double height)
{
    svg_open(svg, "rect");
    svg_put_number(svg, "x", x);
    svg_put_number(svg, "y", y);
    svg_put_number(svg, "width", width);
    svg_put_number(svg, "height", height);
}

void svg_line(struct svg *svg, double x1, double y1, double x2, double y2)
{
    svg_open(svg, "line");
    svg_put_number(svg, "x1", x1);
    svg_put_number(svg, "y1", y1);
    svg_put_number(svg, "x2", x2);
    svg_put_number(svg, "y2", y2);
}

void svg_path_begin(struct svg *svg)
{
    svg_open(svg, "path");
    put_attribute_name(svg, "d");
}

void svg_path_point(struct svg *svg, char command, double x, double y)
{
    fputc(command, svg->stream);
    if (command == 'Z')
        return;
    put_number(svg, x);
    fputc(' ', svg->stream);
    put_number(svg, y);
}

void svg_path_end(struct svg *svg)
{
    fputc('"', svg->stream);
}
