/* Sources: the host's CUDA text, compiled, cached, loaded and launched as Kiln's own kernels are.
 *
 *     static const char *const functions[] = { "scale<float, 4>" };
 *     kiln_source source = KILN_INIT(kiln_source);
 *     kiln_request request = KILN_INIT(kiln_request);
 *     source.name = "scale.cu";
 *     source.text = text;
 *     source.functions = functions;
 *     source.function_count = 1;
 *
 *     request.source = &source;
 *     kiln_get(&program, service, &request, &report);                     from here on see <kiln/kernel.h>
 *     kiln_program_kernel(&kernel, program, "scale<float, 4>", &report);
 *     kiln_launch(kernel, &grid, NULL, 0, args, 3, NULL, &report);
 *     kiln_kernel_release(kernel);
 *     kiln_program_release(program);
 *
 * docs/source.md is the guide. */
#ifndef KILN_SOURCE_H
#define KILN_SOURCE_H

#include <kiln/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A header in memory. An #include searches headers in memory before directories. Frozen layout. */
typedef struct kiln_header {
    const char *name; /* "math/helpers.h" */
    const char *text;
} kiln_header;

/* A further file of a source. Frozen layout. */
typedef struct kiln_part {
    const char *name; /* as kiln_source.name */
    const char *text;
    const char *directory; /* as kiln_source.directory; NULL: none */
} kiln_part;

/* CUDA text with its compile options. A stored result is found again while all of this is the same, and the contents of
 * the files that the compile read. Their place does not matter. A worker compiles the text. With KILN_ISOLATE_NEVER
 * this process does: then the text can read the host's files, and changes of these are not noticed. */
typedef struct kiln_source {
    size_t size;
    const char *name;   /* file name for messages and __FILE__; NULL: "source.cu" */
    const char *text;   /* CUDA C++ */
    size_t length;      /* bytes of the text; 0: up to its NUL */
    const char *target; /* "sm_90"; NULL, "native": that of an option -arch=sm_90, else the device's */

    /* Name expressions: "scale" for an extern "C" function or a plain one, "scale<float, 4>", "ns::f"; "&ns::table" for
     * a variable. None: every extern "C" function, and every instance in the text. */
    const char *const *functions;
    size_t function_count;

    /* The directory of the file that the text is from: #include "x.h" looks there first, and <x.h> does not. Headers
     * find headers beside themselves. NULL: none. Must be NULL with KILN_ISOLATE_NEVER, unless no #include has
     * quotes. */
    const char *directory;
    const kiln_header *headers;
    size_t header_count;
    const char *const *include_dirs; /* searched in this order; a worker can read no file outside them; must be none
                                        with KILN_ISOLATE_NEVER */
    size_t include_dir_count;
    kiln_switch cuda_headers;   /* KILN_OFF: the toolkit's headers are not searched; else they are, last */
    const char *const *defines; /* "NAME" or "NAME=VALUE" */
    size_t define_count;
    /* "--use_fast_math", "-std=c++20", "--maxrregcount", "64": a value may be a text of the list. docs/source.md has
     * them all. An option that does nothing here is left out, and the report's log has a note. */
    const char *const *options;
    size_t option_count;

    /* Further files of the program. Each is compiled as the text is, with the same headers, directories, defines and
     * options, and nvJitLink links them all, as with "-rdc=true" among the options. A __device__ function or variable
     * of one file is declared extern in another. `functions` may be of any file. */
    const kiln_part *parts;
    size_t part_count;
} kiln_source;

/* How many words of a command line an option of kiln_source.options takes: 2 where its value is the next word. 0: it is
 * not taken. Any thread. */
KILN_API unsigned kiln_source_option_words(const char *option);

#ifdef __cplusplus
}
#endif
#endif
