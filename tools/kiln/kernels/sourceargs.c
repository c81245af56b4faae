/* Makes a source of a file and the options of the command line. */
#include "kernels/sourceargs.h"

#include <string.h>

#include "files/whole.h"

enum { SOURCE_MAX = 64 << 20 };

bool source_args_given(const source_args *args)
{
    return args->includes.count || args->defines.count || args->functions.count || args->options.count || args->no_cuda;
}

const char *source_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    return !slash ? "." : slash == path ? "/" : need_format("%.*s", (int)(slash - path), path);
}

static int read_text(char **text, size_t *length, const char *path)
{
    int status = whole_file(text, length, path, SOURCE_MAX);
    if (status)
        return status;
    return *length > 0 ? STATUS_DONE : fail(STATUS_USAGE, "%s is empty, expected CUDA text", path);
}

int source_read_parts(kiln_source *out, const text_list *paths)
{
    kiln_part *parts = need_alloc(paths->count * sizeof(*parts));
    for (size_t i = 1; i < paths->count; i++) {
        char *text = NULL;
        size_t length = 0;
        int status = read_text(&text, &length, paths->items[i]);
        if (status)
            return status;
        if (strlen(text) < length)
            return fail(STATUS_USAGE, "%s has a NUL: is it text?", paths->items[i]);
        parts[i - 1] = (kiln_part){ paths->items[i], text, source_directory(paths->items[i]) };
    }
    out->parts = parts;
    out->part_count = paths->count - 1;
    return STATUS_DONE;
}

int source_read(kiln_source *out, const source_args *args, const char *path, const char *target)
{
    char *text = NULL;
    size_t length = 0;
    int status = read_text(&text, &length, path);
    if (status)
        return status;
    *out = (kiln_source){ .size = sizeof(*out),
                          .name = strcmp(path, "-") == 0 ? "<stdin>" : path,
                          .text = text,
                          .length = length,
                          .target = target,
                          .functions = args->functions.items,
                          .function_count = args->functions.count,
                          .directory = source_directory(path),
                          .include_dirs = args->includes.items,
                          .include_dir_count = args->includes.count,
                          .defines = args->defines.items,
                          .define_count = args->defines.count,
                          .options = args->options.items,
                          .option_count = args->options.count,
                          .cuda_headers = args->no_cuda ? KILN_OFF : KILN_DEFAULT };
    return STATUS_DONE;
}
