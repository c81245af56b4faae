/* Makes a source of a file and the options of the command line. */
#include "kernels/sourceargs.h"

#include "files/whole.h"

enum { SOURCE_MAX = 64 << 20 };

bool source_args_given(const source_args *args)
{
    return args->includes.count || args->defines.count || args->functions.count || args->options.count || args->no_cuda;
}

int source_read(kiln_source *out, const source_args *args, const char *path, const char *target)
{
    char *text = NULL;
    size_t length = 0;
    int status = whole_file(&text, &length, path, SOURCE_MAX);
    if (status)
        return status;
    if (length == 0)
        return fail(STATUS_USAGE, "%s is empty, expected CUDA text", path);
    *out = (kiln_source){ .size = sizeof(*out),
                          .name = path,
                          .text = text,
                          .length = length,
                          .target = target,
                          .functions = args->functions.items,
                          .function_count = args->functions.count,
                          .include_dirs = args->includes.items,
                          .include_dir_count = args->includes.count,
                          .defines = args->defines.items,
                          .define_count = args->defines.count,
                          .options = args->options.items,
                          .option_count = args->options.count,
                          .cuda_headers = args->no_cuda ? KILN_OFF : KILN_DEFAULT };
    return STATUS_DONE;
}
