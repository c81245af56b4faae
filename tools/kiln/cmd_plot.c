#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "commands.h"
#include "plot/results.h"

static const struct usage usage = {
    "kiln plot FILE.csv PICTURE",
    "Draws a table that kiln sweep, tune or bench wrote with --csv, as their --plot does, without measuring again.\n"
    "The ending of PICTURE, .svg, .png or .pdf, chooses the format; - is SVG on standard output. A FILE.csv of - is\n"
    "standard input. gnuplot draws the picture.",
    "  kiln sweep 'op=relu6 dtype=f32' --size 2^24 --csv relu6.csv\n"
    "  kiln plot relu6.csv relu6.png",
};

static int read_stream(char **out, size_t *length, FILE *file)
{
    size_t room = 0, got = 1;
    *out = NULL;
    for (*length = 0; got > 0; *length += got) {
        if (*length == room)
            *out = need_array(*out, room = room ? 2 * room : 1 << 16, 1);
        got = fread(*out + *length, 1, room - *length, file);
    }
    return ferror(file) ? errno : 0;
}

static int read_table(char **out, size_t *length, const char *path)
{
    bool from_stdin = strcmp(path, "-") == 0;
    FILE *file = from_stdin ? stdin : fopen(path, "re");
    *out = NULL;
    int error = file ? read_stream(out, length, file) : errno;
    if (file && !from_stdin)
        fclose(file);
    return error ? fail(STATUS_USAGE, "cannot read %s: %s", path, strerror(error)) : STATUS_DONE;
}

static int plot(const char *csv, const char *picture)
{
    struct results results;
    char *rows = NULL;
    size_t length = 0;
    int status = results_open(&results, NULL, picture);
    if (!status)
        status = read_table(&rows, &length, csv);
    if (!status)
        status = results_draw(&results, csv, rows, length);
    results_close(&results);
    free(rows);
    return status;
}

int command_plot(int argc, char **argv)
{
    common_args common = { .json = false };
    text_list words = { NULL, 0 };
    int status = options_parse(&usage, NULL, 0, &common, &words, argc, argv);
    if (status == OPTIONS_GO_ON) {
        status = words.count == 2 ? results_check(&usage, NULL, words.items[1], false)
                                  : options_wrong(&usage, "expected a table and a picture: FILE.csv FILE.svg");
        if (status == STATUS_DONE)
            status = plot(words.items[0], words.items[1]);
    }
    free(words.items);
    return status;
}
