/* A CUDA file of the user's own and what it is compiled with, from the command line. */
#ifndef KILN_TOOLS_SOURCEARGS_H
#define KILN_TOOLS_SOURCEARGS_H

#include <kiln/kernel.h>

#include "cli/options.h"

typedef struct source_args {
    text_list includes, defines, functions, options;
    bool no_cuda;
} source_args;

/* The rows of an option table that fill a source_args. */
#define SOURCE_ARGS_ROWS(args)                                                                                    \
    { "include", 'I', OPTION_LIST, "DIR", "search headers in DIR", &(args)->includes },                           \
        { "define", 'D', OPTION_LIST, "NAME=VALUE", "define a macro", &(args)->defines },                         \
        { "function", 'f', OPTION_LIST, "NAME", "a wanted function: f, ns::f, f<float, 4>", &(args)->functions }, \
        { "option", 0, OPTION_LIST, "OPTION", "pass an option to NVRTC: --option=-std=c++20", &(args)->options }, \
    {                                                                                                             \
        "no-cuda-headers", 0, OPTION_FLAG, NULL, "do not search CUDA's own headers", &(args)->no_cuda             \
    }

/* Reads the file; *out, terminated, is freed by the caller. Returns STATUS_DONE, or STATUS_USAGE after a message. */
int source_read(char **out, size_t *length, const char *path);

/* The source; borrows all that it is given. */
kiln_source source_make(const source_args *args, const char *path, const char *text, size_t length);
void source_args_free(source_args *args);

#endif
