/* A CUDA source file and its compile options, from the command line. */
#ifndef KILN_TOOLS_SOURCEARGS_H
#define KILN_TOOLS_SOURCEARGS_H

#include "cli/options.h"

typedef struct source_args {
    text_list includes, defines, functions, options;
    bool no_cuda;
} source_args;

/* The rows of an option table that fill a source_args, and those limits of a common_args that concern sources. */
#define SOURCE_ARGS_ROWS(args, common)                                                                             \
    { "include", 'I', OPTION_LIST, "DIR", "search headers in DIR", &(args)->includes },                            \
        { "define", 'D', OPTION_LIST, "NAME=VALUE", "define a macro", &(args)->defines },                          \
        { "function", 'f', OPTION_LIST, "NAME", "a wanted function: f, ns::f, f<float, 4>", &(args)->functions },  \
        { "option", 0, OPTION_COMPILER, "OPTION", "an NVRTC option; -std=c++20 alone will do", &(args)->options }, \
        { "no-cuda-headers", 0, OPTION_FLAG, NULL, "do not search CUDA's own headers", &(args)->no_cuda },         \
        { "worker-memory", 0, OPTION_NUMBER, "MIB", "memory of a compile; default 4096", &(common)->worker_mib },  \
    {                                                                                                              \
        "worker-time", 0, OPTION_NUMBER, "SECONDS", "longest compile; default 60", &(common)->worker_seconds       \
    }

/* Whether any of them is given. */
bool source_args_given(const source_args *args);

/* The directory that a file lies in, "." for standard input. */
const char *source_directory(const char *path);

/* Reads the file into a source, which borrows the options. Returns STATUS_DONE, or STATUS_USAGE after a message. */
int source_read(kiln_source *out, const source_args *args, const char *path, const char *target);

/* Reads the files behind the first into the source's parts. The same statuses. */
int source_read_parts(kiln_source *out, const text_list *paths);

#endif
