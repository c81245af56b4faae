/* The files that a long measurement ends with: a table, and the picture that gnuplot draws from its rows. */
#ifndef KILN_TOOLS_RESULTS_H
#define KILN_TOOLS_RESULTS_H

#include "cli/options.h"
#include "files/output.h"
#include "plot/gnuplot.h"
#include "text/csv.h"

struct result_file {
    const char *path; /* as the user named it, NULL for none; borrowed */
    bool is_open;
    struct output output;
};

struct results {
    struct result_file csv, picture;
    const gnuplot_format *format; /* of the picture */
    char *gnuplot;                /* the program; NULL where no picture is wanted */
};

/* Takes the values of --csv and --plot, each NULL where it is not given. Ends the command after a message where a
 * picture's name has an unknown ending, or where more than one result would go to stdout: JSON and these two. */
void results_check(const struct usage *usage, const char *csv, const char *picture, bool json);

/* Finds out whether the files can be written and gnuplot draws, so that it is known before anything is measured. "-" is
 * stdout; other output of the command on stdout goes to stderr from then on. Returns STATUS_DONE, or STATUS_USAGE after
 * a message. results_close is right after either. */
int results_open(struct results *out, const char *csv, const char *picture);

/* Whether there is a file to be written. */
bool results_wanted(const struct results *results);

/* Writes the table, which `write_rows` prints, and draws it; each file replaces an older one when it is whole. The rows
 * are never lost: without --csv, rows that cannot be drawn go to a file beside the picture. Does nothing where no file
 * is wanted. Returns STATUS_DONE, or the exit status after a message. */
int results_write(struct results *results, void (*write_rows)(FILE *stream, const void *data), const void *data);

/* Draws the rows of a table that was written before: `csv` is its name. Returns as results_write does. */
int results_draw(struct results *results, const char *csv, const char *rows, size_t length);
void results_close(struct results *results);

/* Whether the table is one of speeds, which kiln sweep, tune or bench writes with --csv. */
bool plot_takes(const struct csv_table *table);

/* Writes the script of a table's picture. Variants become a heat map of the first two parameters that vary, or a line
 * for each kind of kernel where one parameter tells all variants apart; sizes become a line for each spec. */
void plot_write(FILE *script, const gnuplot_format *format, const struct csv_table *table);

#endif
