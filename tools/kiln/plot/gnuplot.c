/* Runs gnuplot, and writes the parts of scripts that all pictures share. */
#include "plot/gnuplot.h"

#include <stdbool.h>
#include <string.h>

#include "cli/common.h"
#include "files/capture.h"

/* A cairo terminal counts letters in points of 1/72 inch. PNG has two dots for each pixel of the layout and 96 dots
 * in an inch; PDF has one point for each pixel. fontscale makes letters as large as those of SVG. */
struct gnuplot_format {
    const char *ending, *terminal;
    double scale; /* of the size, from pixels to the terminal's unit */
    const char *options;
    const char *bold;  /* behind the name of a font */
    const char *magic; /* the first bytes of such a file */
};

static const gnuplot_format formats[] = {
    { ".svg", "svg", 1, "", " bold", "<?xml" },
    { ".png", "pngcairo", 2, " fontscale 1.5 linewidth 2 pointscale 2", ":Bold", "\x89PNG" },
    { ".pdf", "pdfcairo", 1 / 72.0, " fontscale 0.75 linewidth 2", ":Bold", "%PDF-" },
};

const gnuplot_format *gnuplot_format_of(const char *path)
{
    size_t length = strlen(path);
    if (strcmp(path, "-") == 0)
        return &formats[0];
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (length > 4 && strcasecmp(path + length - 4, formats[i].ending) == 0)
            return &formats[i];
    return NULL;
}

static void set_terminal(FILE *script, const gnuplot_format *format, double width, double height)
{
    fprintf(
        script,
        "set encoding utf8\nset terminal %s size %.6g,%.6g%s font 'sans-serif,12' noenhanced background '#ffffff'\n",
        format->terminal, width * format->scale, height * format->scale, format->options);
}

/* gnuplot reads no start-up file, and stops at the first error because the script has a name: after an error in
 * plain stdin it would go on. */
static int run_script(char **out, size_t *length, char **complaint, const char *program, const struct draft *script)
{
    return capture_filter(out, length, complaint, (const char *const[]){ program, "-d", "/dev/stdin", NULL },
                          script->text, script->length);
}

char *gnuplot_find(char **complaint, const gnuplot_format *format)
{
    struct draft script;
    char *nothing, *program = capture_find("gnuplot");
    size_t length = 0;
    *complaint = program ? NULL : need_copy("there is no gnuplot on PATH");
    if (!program)
        return NULL;
    draft_begin(&script);
    set_terminal(script.stream, format, 100, 100);
    draft_end(&script);
    if (run_script(&nothing, &length, complaint, program, &script) == STATUS_DONE)
        return program;
    *complaint = need_format("%s cannot make %s: %s", program, format->ending + 1, *complaint);
    return NULL;
}

void gnuplot_begin(FILE *script, const gnuplot_format *format, double width, double height)
{
    set_terminal(script, format, width, height);
    fprintf(script,
            "W = %.2f\nH = %.2f\nplain = 'sans-serif'\nbold = 'sans-serif%s'\n"
            "ink = 0x1f2328\nmuted = 0x59636e\nrule = 0xd8dee4\nfaint = 0xf2f4f6\nhatch = 0xb9c1c9\n"
            "set style fill solid noborder\nunset key\n",
            width, height, format->bold);
}

/* How many bytes the character at `text` has; 0 for one that is not UTF-8 or not allowed in XML. */
static int character_length(const char *text)
{
    const unsigned char *b = (const unsigned char *)text;
    int length = b[0] < 0x80 ? 1 : b[0] < 0xC2 ? 0 : b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : b[0] < 0xF5 ? 4 : 0;
    for (int i = 1; i < length; i++)
        if ((b[i] & 0xC0) != 0x80)
            return 0;
    bool control = b[0] < 0x20 || b[0] == 0x7F;
    bool overlong = (b[0] == 0xE0 && b[1] < 0xA0) || (b[0] == 0xF0 && b[1] < 0x90);
    bool beyond = (b[0] == 0xED && b[1] >= 0xA0) || (b[0] == 0xF4 && b[1] >= 0x90);
    bool noncharacter = b[0] == 0xEF && b[1] == 0xBF && b[2] >= 0xBE;
    return control || overlong || beyond || noncharacter ? 0 : length;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool stands_for_itself(char c)
{
    return c == ' ' || is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* A digit behind an escape would be part of that: it is escaped too. */
static void put_text(FILE *script, const char *text, bool format)
{
    bool escaped = false;
    fputc('"', script);
    while (*text) {
        int length = character_length(text);
        bool blank = strchr("\t\n\r", *text) != NULL, plain = stands_for_itself(*text) && !(escaped && is_digit(*text));
        if (blank || plain)
            fputc(blank ? ' ' : *text, script);
        else if (length == 0)
            fputs("\\357\\277\\275", script);
        else
            for (int i = 0; i < length; i++)
                fprintf(script, "\\%03o", (unsigned char)text[i]);
        if (format && *text == '%')
            fputs("\\045", script);
        escaped = !blank && !plain;
        text += length ? length : 1;
    }
    fputc('"', script);
}

void gnuplot_text(FILE *script, const char *text)
{
    put_text(script, text, false);
}

void gnuplot_tic(FILE *script, const char *text)
{
    put_text(script, text, true);
}

int gnuplot_draw(char **out, size_t *length, char **complaint, const char *program, const gnuplot_format *format,
                 const struct draft *script)
{
    if (run_script(out, length, complaint, program, script) != STATUS_DONE)
        return STATUS_FAILED;
    size_t magic = strlen(format->magic);
    if (*length >= magic && memcmp(*out, format->magic, magic) == 0)
        return STATUS_DONE;
    *complaint = need_format("its output is no %s", format->ending + 1);
    return STATUS_FAILED;
}
