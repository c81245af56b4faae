/* Writes the table of a measurement, and has gnuplot draw it. */
#include "plot/results.h"

#include <string.h>
#include <unistd.h>

static bool is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

void results_check(const struct usage *usage, const char *csv, const char *picture, bool json)
{
    if (picture && !gnuplot_format_of(picture))
        options_refuse(usage, "the picture %s: expected a name that ends with .svg, .png or .pdf", picture);
    if (is_stdout(csv) + is_stdout(picture) + json > 1)
        options_refuse(usage, "only one of --json, --csv - and --plot - can have standard output; name a file");
}

/* No temporary file waits for the end of the measurement: a second interrupt would leave it behind. A pipe stays open,
 * for its reader takes the first close for the end. */
static int open_file(struct result_file *out, const char *path)
{
    *out = (struct result_file){ .path = path };
    if (!path)
        return STATUS_DONE;
    int status = output_open(&out->output, path, 0);
    out->is_open = status == STATUS_DONE && !out->output.temporary;
    if (!out->is_open)
        output_close(&out->output);
    if (out->is_open && output_is_stdout(&out->output)) {
        fflush(stdout);
        if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
            return fail(STATUS_FAILED, "cannot print on standard error instead of standard output");
    }
    return status;
}

static int write_file(struct result_file *file, const char *data, size_t length)
{
    int status = file->is_open ? STATUS_DONE : output_open(&file->output, file->path, 0);
    file->is_open = true;
    if (!status)
        status = output_write(&file->output, data, length);
    return status ? status : output_commit(&file->output);
}

static void close_file(struct result_file *file)
{
    if (file->is_open)
        output_close(&file->output);
    *file = (struct result_file){ .path = NULL };
}

int results_open(struct results *out, const char *csv, const char *picture)
{
    char *complaint = NULL;
    *out = (struct results){ .format = picture ? gnuplot_format_of(picture) : NULL };
    if (picture && !(out->gnuplot = gnuplot_find(&complaint, out->format)))
        return fail(STATUS_USAGE,
                    "%s cannot be drawn: %s; install gnuplot (Debian and Ubuntu: gnuplot-nox), or draw the table of "
                    "--csv FILE.csv where there is one, with 'kiln plot FILE.csv %s'",
                    picture, complaint, picture);
    int status = open_file(&out->csv, csv);
    return status ? status : open_file(&out->picture, picture);
}

bool results_wanted(const struct results *results)
{
    return results->csv.path || results->picture.path;
}

/* Returns STATUS_DONE; or the exit status, and *complaint unless a message was printed. */
static int draw_table(struct results *results, char **complaint, const struct csv_table *table)
{
    struct draft script;
    char *picture = NULL;
    size_t length = 0;
    *complaint = NULL;
    draft_begin(&script);
    plot_write(script.stream, results->format, table);
    draft_end(&script);
    int status = gnuplot_draw(&picture, &length, complaint, results->gnuplot, results->format, &script);
    return status ? status : write_file(&results->picture, picture, length);
}

/* Says where the rows are, and first writes them beside the picture if they are in no file. */
static int keep_rows(const struct results *results, const char *complaint, const struct draft *rows)
{
    const char *picture = is_stdout(results->picture.path) ? "kiln.svg" : results->picture.path;
    char *beside = results->csv.path ? NULL : need_format("%s.csv", picture);
    const char *csv = is_stdout(results->csv.path) ? "FILE.csv" : beside ? beside : results->csv.path;
    if (!beside || output_put(beside, rows->text, rows->length) == STATUS_DONE)
        fail(STATUS_FAILED, "%s: no picture was drawn: %s%s%s; %s, and 'kiln plot %s %s' draws them",
             results->picture.path, complaint ? results->gnuplot : "the file", complaint ? ": " : " cannot be written",
             complaint ? complaint : "",
             is_stdout(results->csv.path) ? "the rows are on standard output" : "the rows are kept", csv, picture);
    return STATUS_FAILED;
}

int results_write(struct results *results, void (*write_rows)(FILE *stream, const void *data), const void *data)
{
    struct draft rows;
    struct csv_table table;
    const char *problem = NULL;
    char *complaint = NULL;
    size_t line = 0;
    if (!results_wanted(results))
        return STATUS_DONE;
    draft_begin(&rows);
    write_rows(rows.stream, data);
    draft_end(&rows);
    int status = results->csv.path ? write_file(&results->csv, rows.text, rows.length) : STATUS_DONE;
    if (status || !results->picture.path)
        return status;
    if (csv_read(&table, rows.text, rows.length, &problem, &line))
        status = draw_table(results, &complaint, &table);
    else
        status = fail(STATUS_FAILED, "the table's line %zu: %s", line, problem);
    return status ? keep_rows(results, complaint, &rows) : STATUS_DONE;
}

int results_draw(struct results *results, const char *csv, const char *rows, size_t length)
{
    struct csv_table table;
    const char *problem = NULL;
    char *complaint = NULL;
    size_t line = 0;
    int status = STATUS_DONE;
    if (!csv_read(&table, rows, length, &problem, &line))
        status = fail(STATUS_USAGE, "%s:%zu: %s", csv, line, problem);
    else if (!plot_takes(&table))
        status = fail(STATUS_USAGE, "%s: is no table that kiln sweep, tune or bench writes with --csv", csv);
    else
        status = draw_table(results, &complaint, &table);
    if (complaint)
        fail(status, "%s: no picture was drawn: %s: %s", results->picture.path, results->gnuplot, complaint);
    return status;
}

void results_close(struct results *results)
{
    close_file(&results->csv);
    close_file(&results->picture);
    *results = (struct results){ .format = NULL };
}
