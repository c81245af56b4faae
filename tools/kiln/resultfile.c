#include "resultfile.h"

#include <string.h>
#include <unistd.h>

/* No temporary file waits for the end of the measurement: a second interrupt would leave it behind. A pipe stays open,
 * for its reader takes the first close for the end. */
int resultfile_open(struct resultfile *out, const char *path)
{
    *out = (struct resultfile){ .path = path };
    if (!path)
        return STATUS_DONE;
    int status = output_open(&out->output, path, 0);
    out->is_open = status == STATUS_DONE && !out->output.temporary;
    if (!out->is_open)
        output_close(&out->output);
    if (out->is_open && output_is_stdout(&out->output)) {
        fflush(stdout);
        if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
            return fail(STATUS_FAILED, "cannot use standard error for what is printed");
    }
    return status;
}

int resultfile_check(const struct usage *usage, const char *csv, const char *plot, bool json)
{
    bool to_csv = csv && strcmp(csv, "-") == 0, to_plot = plot && strcmp(plot, "-") == 0;
    if (to_csv + to_plot + json > 1)
        return options_wrong(usage, "only one of --json, --csv - and --plot - can have standard output; name a file");
    return STATUS_DONE;
}

FILE *resultfile_begin(struct resultfile *file)
{
    if (!file->path)
        return NULL;
    draft_begin(&file->draft);
    return file->draft.stream;
}

int resultfile_end(struct resultfile *file)
{
    if (!file->draft.stream)
        return STATUS_DONE;
    int status = file->is_open ? STATUS_DONE : output_open(&file->output, file->path, 0);
    file->is_open = true;
    return status ? status : draft_commit(&file->draft, &file->output);
}

void resultfile_close(struct resultfile *file)
{
    draft_drop(&file->draft);
    if (file->is_open)
        output_close(&file->output);
    *file = (struct resultfile){ .path = NULL };
}
