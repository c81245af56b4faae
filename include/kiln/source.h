/* Source: CUDA text of the host's own, compiled, cached and launched as Kiln's kernels are.
 *
 *     static const char *const functions[] = { "scale<float, 4>" };
 *     kiln_source source = KILN_SOURCE_INIT;
 *     source.name = "scale.cu";
 *     source.text = text;
 *     source.functions = functions;
 *     source.function_count = 1;
 *
 *     kiln_program *program;             what was compiled, loaded on a device
 *     kiln_function *function;           one function of it
 *
 *     kiln_program_get(&program, service, NULL, &source, NULL);
 *     kiln_program_function(&function, program, "scale<float, 4>", NULL);
 *     kiln_function_launch(function, &launch, arguments, NULL, NULL);
 *     kiln_program_release(program);
 *
 * docs/source.md is the guide. The rules of <kiln/kiln.h> hold here too. */
#ifndef KILN_SOURCE_H
#define KILN_SOURCE_H

#include <kiln/kiln.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A header that is no file: found where an #include names it, before any directory is looked at. */
typedef struct kiln_header {
    const char *name; /* "math/helpers.h" */
    const char *text;
} kiln_header;

/* What to compile. Everything is borrowed for the call that it is given to. Zero in a field means the default. */
typedef struct kiln_source {
    size_t size;        /* sizeof(kiln_source): set by KILN_SOURCE_INIT */
    const char *name;   /* of the file, for messages; __FILE__ is what follows its last '/'; NULL: "source.cu" */
    const char *text;   /* CUDA C++ */
    size_t length;      /* of text; 0: up to its NUL */
    const char *target; /* "sm_90"; NULL: the device's */
    /* Name expressions: "scale" for an extern "C" function or one that is no template, "scale<float, 4>", "ns::f"; with
     * '&' before it, a variable: "&ns::table". None: every extern "C" function, and what the text instantiates. */
    const char *const *functions;
    size_t function_count;
    const kiln_header *headers;
    size_t header_count;
    const char *const *include_dirs; /* searched in this order; nothing outside them can be read */
    size_t include_dir_count;
    const char *const *defines; /* "NAME" or "NAME=VALUE" */
    size_t define_count;
    const char *const *options; /* "--use_fast_math", "-std=c++20", ...: docs/source.md lists those that there are */
    size_t option_count;
    int cuda_headers; /* -1: CUDA's own headers are not searched; 0: they are, last, where they are found */
} kiln_source;

#define KILN_SOURCE_INIT                                                                         \
    {                                                                                            \
        sizeof(kiln_source), NULL, NULL, 0, NULL, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0 \
    }

/* ---- Without a device ----------------------------------------------------------------------------------------- */

/* Compiles a source, or finds it in the stores. It is found again as long as its text, what it is compiled with and the contents
 * of every file that it read are the same, wherever those files lie and however old they are. Text is compiled in a worker
 * (docs/embedding.md), unless the service's `isolate` is KILN_ISOLATE_NEVER: then there may be no include directories. Blocks as kiln_get
 * does. The artifact's sections are "cubin", "ptx", "log", "functions" (as asked for, one a line), "names" (their symbols),
 * "key". Warnings go to the report's log.
 * Errors: KILN_EINVAL (a field that cannot be right; an option that is not passed on), KILN_ETARGET ("cpu", or no target of the
 * compiler's), KILN_ECOMPILE (the report's log is the compiler's), KILN_ECRASHED, KILN_ENOWORKER, KILN_ENOCOMPILER,
 * KILN_ESTRICT, KILN_EIO (files change while they are read), KILN_ENODRIVER, KILN_ENODEVICE, KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_program_build(kiln_artifact **out, kiln_service *service,
                                                      const kiln_source *source, kiln_report *report);

/* What the compiled code says of a function. */
typedef struct kiln_symbol_info {
    size_t size;          /* sizeof(kiln_symbol_info): set by the caller */
    const char *function; /* as asked for; borrowed from the artifact */
    const char *symbol;   /* its name in the code; borrowed */
    int registers;        /* per thread; -1 where the code does not tell, also below */
    int stack_bytes;      /* per thread: local arrays and spilled registers */
    int shared_bytes;     /* static shared memory */
} kiln_symbol_info;

/* Fills *out for function number `index` of an artifact of kiln_program_build. KILN_ENOENT: there are not so many. */
KILN_API kiln_status kiln_artifact_symbol(const kiln_artifact *artifact, size_t index, kiln_symbol_info *out);

#ifdef __cplusplus
}
#endif
#endif
