/* kiln plot: draws a table that a measurement wrote before. */
#include "cli/options.h"
#include "commands.h"
#include "files/whole.h"
#include "plot/results.h"

enum { TABLE_MAX = 1 << 30 };

static const struct usage usage = {
    "kiln plot FILE.csv PICTURE",
    "Draws a table that kiln sweep, tune or bench wrote with --csv, as their --plot does, without measuring again.\n"
    "The ending of PICTURE, .svg, .png or .pdf, chooses the format; - is SVG on standard output. A FILE.csv of - is\n"
    "standard input. gnuplot draws the picture.",
    "  kiln sweep 'op=relu6 dtype=f32' --size 2^24 --csv relu6.csv\n"
    "  kiln plot relu6.csv relu6.png",
};

int command_plot(int argc, char **argv)
{
    common_args common = { .json = false };
    text_list words = { NULL, 0 };
    struct results results;
    char *rows = NULL;
    size_t length = 0;
    options_parse(&usage, NULL, 0, &common, &words, argc, argv);
    if (words.count != 2)
        options_refuse(&usage, "expected a table and a picture: FILE.csv FILE.svg");
    results_check(&usage, NULL, words.items[1], false);
    int status = results_open(&results, NULL, words.items[1]);
    if (!status)
        status = whole_file(&rows, &length, words.items[0], TABLE_MAX);
    if (!status)
        status = results_draw(&results, words.items[0], rows, length);
    results_close(&results);
    return status;
}
