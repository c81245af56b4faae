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
 *     kiln_function_launch(function, &grid, arguments, NULL, 3, NULL);
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

/* Compiles a source, or finds it in the stores. It is found again as long as its text, what it is compiled with and
 * the contents of every file that it read are the same, wherever those files lie and however old they are. Text is
 * compiled in a worker (docs/embedding.md), unless the service's `isolate` is KILN_ISOLATE_NEVER: then there may be
 * no include directories, and the program is kept in the service's memory alone, in no directory and no pack. Blocks as kiln_get does. The artifact's sections are "cubin", "ptx", "log", "functions" (as
 * asked for, one a line), "names" (their symbols), "key". Warnings go to the report's log.
 * Errors: KILN_EINVAL (a field that cannot be right; an option that is not passed on), KILN_ETARGET ("cpu", or no
 * target of the compiler's), KILN_ECOMPILE (the report's log is the compiler's), KILN_ECRASHED, KILN_ENOWORKER,
 * KILN_ENOCOMPILER, KILN_ESTRICT, KILN_EIO (files change while they are read, or cannot be), KILN_ENODRIVER, KILN_ENODEVICE,
 * KILN_ENOMEM. */
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

/* Fills *out for function number `index` of an artifact of kiln_program_build, or of kiln_build, whose functions are called as
 * in the code. KILN_ENOENT: there are not so many. */
KILN_API kiln_status kiln_artifact_symbol(const kiln_artifact *artifact, size_t index, kiln_symbol_info *out);

/* ---- On a device ---------------------------------------------------------------------------------------------- */

/* A source, compiled and loaded on one device. Immutable and reference-counted; any thread. */
typedef struct kiln_program kiln_program;

/* One function of a program: valid as long as the program is. */
typedef struct kiln_function kiln_function;

/* Gets the program of a source on a GPU of the service's, NULL for the default device: one that is loaded already if
 * the source and the files that it reads are as they were then, else as kiln_program_build, and loaded. Those files
 * are looked at by every call, so keep the program and ask again where you want to follow changes. The caller owns a
 * reference; the service keeps one of its own until kiln_close.
 * Errors: those of kiln_program_build, KILN_ETARGET (also: the device is the cpu), KILN_ELOAD, KILN_EDEVICE. */
KILN_API KILN_MUST_USE kiln_status kiln_program_get(kiln_program **out, kiln_service *service, kiln_device *device,
                                                    const kiln_source *source, kiln_report *report);

/* The end of an asynchronous get, with the statuses of kiln_program_get, KILN_ECANCELED or KILN_ETIMEDOUT. A reference to
 * `program`, NULL on failure, belongs to the callback; `report` is borrowed. It may call anything of Kiln's but
 * kiln_close. */
typedef void (*kiln_program_fn)(void *data, kiln_status status, kiln_program *program, const kiln_report *report);

/* Does what kiln_program_get does, on threads of the service, and returns at once: no file is looked at, no driver opened and
 * nothing compiled inside the call. The source is copied whole; relative include directories start from the working directory of
 * now. The files are looked at after the call: a compile that has begun before it is not taken for this one. Else as
 * kiln_get_async: fn is called exactly once, by a dispatch of the queue, unless the call itself fails; what is wrong with the source
 * comes by the callback, with the report; kiln_cancel gives up, and so does kiln_close.
 * Errors: KILN_EINVAL (a NULL, or a size that is not set), KILN_ENOMEM, KILN_ECANCELED (the queue or its service is
 * closed). */
KILN_API kiln_status kiln_program_get_async(kiln_request **out, kiln_queue *queue, const kiln_source *source,
                                            const kiln_async_options *options, kiln_program_fn fn, void *data);

/* Adds a reference; returns its argument. Drops one; the last one unloads, so launches must have finished by then.
 * NULL is allowed. */
KILN_API kiln_program *kiln_program_retain(kiln_program *program);
KILN_API void kiln_program_release(kiln_program *program);

/* Finds a function by the name that the source asked for, or by its symbol. KILN_ENOENT: the report names those that
 * there are. */
KILN_API KILN_MUST_USE kiln_status kiln_program_function(kiln_function **out, kiln_program *program, const char *name,
                                                         kiln_report *report);

/* The address in device memory, and the size, of a __constant__, __device__ or __managed__ variable. One that is in a
 * namespace, or that no function uses, must be among the source's functions, as "&ns::table". KILN_ENOENT;
 * KILN_ENODRIVER (the driver is too old). */
KILN_API kiln_status kiln_program_global(void **address, size_t *bytes, kiln_program *program, const char *name,
                                         kiln_report *report);

/* Facts about a function: -1 where the driver does not tell. Strings live as long as the program. */
typedef struct kiln_function_info {
    size_t size;                /* sizeof(kiln_function_info): set by the caller */
    const char *name;           /* as asked for */
    const char *symbol;         /* its name in the code */
    const char *device;         /* "cuda:0" */
    kiln_origin origin;         /* how the service first came by the program */
    double compile_ms;          /* time in the compiler, 0 unless compiled */
    int registers, local_bytes; /* per thread */
    int shared_bytes;           /* static, per block */
    int constant_bytes;
    int max_threads; /* of a block */
    int parameters;
} kiln_function_info;
KILN_API kiln_status kiln_function_get_info(const kiln_function *function, kiln_function_info *out);

/* The size of parameter number `index`. KILN_ENOENT: there are not so many, or the driver does not tell. */
KILN_API kiln_status kiln_function_parameter(const kiln_function *function, uint32_t index, size_t *bytes);

/* How many blocks of `block` threads with so much dynamic shared memory a multiprocessor holds at once; -1 where the
 * driver does not tell.
 * Errors: KILN_EINVAL, KILN_ELAUNCH. */
KILN_API kiln_status kiln_function_occupancy(int *out, const kiln_function *function, uint32_t block,
                                             uint32_t shared_bytes, kiln_report *report);

/* How to launch. */
typedef struct kiln_grid {
    size_t size;           /* sizeof(kiln_grid): set by KILN_GRID_INIT */
    uint32_t grid[3];      /* blocks */
    uint32_t block[3];     /* threads of a block */
    uint32_t cluster[3];   /* blocks of a cluster; all 0: no clusters */
    uint32_t shared_bytes; /* dynamic shared memory */
    int cooperative;       /* 1: all blocks are to run at once, so that they may wait for each other */
    void *stream;          /* as for kiln_launch */
} kiln_grid;

#define KILN_GRID_INIT                                                       \
    {                                                                        \
        sizeof(kiln_grid), { 1, 1, 1 }, { 1, 1, 1 }, { 0, 0, 0 }, 0, 0, NULL \
    }

/* Launches a function. arguments[i] points to the value of parameter number i; `count` of them, and where `sizes` is
 * not NULL, sizes[i] bytes each: both are checked against the function's parameters where the driver tells them (CUDA
 * 12.4 and newer), the count being taken on trust otherwise. The call reads the values before it returns. Streams,
 * contexts and captures are as for kiln_launch. Takes no lock and allocates nothing. Any thread.
 * Errors: KILN_EINVAL (nothing was queued), KILN_ELAUNCH, KILN_ENODRIVER (the driver is too old for clusters or
 * cooperative launches). */
KILN_API kiln_status kiln_function_launch(kiln_function *function, const kiln_grid *grid, const void *const *arguments,
                                          const size_t *sizes, uint32_t count, kiln_report *report);

#ifdef __cplusplus
}
#endif
#endif
