#include "kernels/sourceargs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE_MAX = 64 << 20, STEP = 1 << 16 };

/* As much of the file as may be, and a byte more. */
static int read_file(FILE *file, char **out, size_t *length)
{
    size_t room = 0;
    *length = 0;
    do {
        room = room ? 2 * room : STEP;
        *out = need_array(*out, room + 1, 1);
        *length += fread(*out + *length, 1, room - *length, file);
    } while (*length == room && *length <= SOURCE_MAX);
    (*out)[*length] = '\0';
    return ferror(file) ? errno : 0;
}

int source_read(char **out, size_t *length, const char *path)
{
    FILE *file = fopen(path, "re");
    *out = NULL;
    *length = 0;
    int error = file ? read_file(file, out, length) : errno;
    if (file)
        fclose(file);
    int status = error                  ? fail(STATUS_USAGE, "cannot read %s: %s", path, strerror(error))
                 : *length > SOURCE_MAX ? fail(STATUS_USAGE, "%s has more than %d MiB", path, SOURCE_MAX >> 20)
                 : *length == 0         ? fail(STATUS_USAGE, "%s is empty, expected CUDA text", path)
                                        : STATUS_DONE;
    if (status) {
        free(*out);
        *out = NULL;
    }
    return status;
}

kiln_source source_make(const source_args *args, const char *path, const char *text, size_t length)
{
    kiln_source source = KILN_INIT(kiln_source);
    source.name = path;
    source.text = text;
    source.length = length;
    source.functions = args->functions.items;
    source.function_count = args->functions.count;
    source.include_dirs = args->includes.items;
    source.include_dir_count = args->includes.count;
    source.defines = args->defines.items;
    source.define_count = args->defines.count;
    source.options = args->options.items;
    source.option_count = args->options.count;
    source.cuda_headers = args->no_cuda ? KILN_OFF : KILN_DEFAULT;
    return source;
}

void source_args_free(source_args *args)
{
    free(args->includes.items);
    free(args->defines.items);
    free(args->functions.items);
    free(args->options.items);
}
