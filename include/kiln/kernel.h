/* From a line of text, or CUDA text of the host, to a launched kernel.
 *
 *     text -> spec -> kernel -> launch
 *     CUDA text (<kiln/source.h>) -> program -> function -> launch
 *
 * A spec says what is wanted of a template: "op=hardtanh(-1,1) dtype=f16 block=256". What is compiled without a device
 * is an artifact. */
#ifndef KILN_KERNEL_H
#define KILN_KERNEL_H

#include <kiln/base.h>
#include <kiln/device.h>
#include <kiln/source.h>

struct uv_loop_s; /* <uv.h> */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Spec: what is wanted ------------------------------------------------------------------------------------- */

/* One line of fields, NAME=VALUE with blanks between: "op=hardtanh(-1,1) dtype=f32 block=256 target=sm_90", see
 * docs/spec.md. A field that is not set means "you choose". Immutable: any thread may read it. Must be freed before
 * kiln_close. */
typedef struct kiln_spec kiln_spec;

/* Makes a spec from its text. `text` is borrowed for the call.
 * Errors: KILN_ESPEC (syntax, unknown field or value, a broken constraint), KILN_EOP, KILN_ETARGET, KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_spec_parse(kiln_spec **out, kiln_service *service, const char *text,
                                                   kiln_report *report);

/* Makes another spec: `spec` with the fields of a line in place of its own, "block=256 elems=4"; "block=" leaves a field
 * open. Errors: those of kiln_spec_parse. */
KILN_API KILN_MUST_USE kiln_status kiln_spec_with(kiln_spec **out, const kiln_spec *spec, const char *fields,
                                                  kiln_report *report);

/* Frees a spec. NULL is allowed. */
KILN_API void kiln_spec_free(kiln_spec *spec);

/* The canonical text: equal specs have equal text. Lives as long as the spec. */
KILN_API const char *kiln_spec_text(const kiln_spec *spec);

/* The value of a field: "" where it is not set, NULL where the spec's template has no such field. Lives as long as the
 * spec. */
KILN_API const char *kiln_spec_field(const kiln_spec *spec, const char *field);

/* How many input arrays the spec's op reads, 1 to 3; 0 while it has no op. Any thread. */
KILN_API uint32_t kiln_spec_inputs(const kiln_spec *spec);

/* Called for each spec of a product; the spec is borrowed for the call. To keep it, make another one:
 * kiln_spec_with(&out, spec, "", NULL). Non-zero stops. */
typedef int (*kiln_spec_fn)(void *data, const kiln_spec *spec);

/* Parses a line whose fields may be lists and ranges, "dtype=f32,f16 block=64..1024*2 target=all", and calls fn with
 * each spec that it stands for, in the order written, the last field fastest. "target=all" means every target the
 * found NVRTC builds, "target=native" the default device's. Every spec is checked before the first call.
 * Returns KILN_OK also when fn stopped. Errors: as for parse, and KILN_ENOCOMPILER for "target=all". */
KILN_API kiln_status kiln_spec_expand(kiln_service *service, const char *line, kiln_spec_fn fn, void *data,
                                      kiln_report *report);

/* The complete source text of a spec, as the compiler would see it. Its first line is a comment with the spec, every
 * field set but the target. *out is terminated and freed with kiln_text_free.
 * Compiles nothing. Errors: those of kiln_spec_parse, KILN_ENODEVICE. */
KILN_API KILN_MUST_USE kiln_status kiln_spec_source(char **out, const kiln_spec *spec, kiln_report *report);

/* ---- Kernel: get, launch, release -------------------------------------------------------------------------------- */

/* A loaded, specialised kernel. Immutable and reference-counted: any thread may launch, retain and release. */
typedef struct kiln_kernel kiln_kernel;

/* Where a kernel or artifact came from. */
typedef enum kiln_origin {
    KILN_ORIGIN_MEMORY = 1, /* the memory store */
    KILN_ORIGIN_DISK,       /* the directory store */
    KILN_ORIGIN_COMPILED,   /* compiled for this request */
    KILN_ORIGIN_PACK,       /* a pack */
    KILN_ORIGIN_SHARED      /* the shared directory */
} kiln_origin;

/* "memory", "disk", "compiled", "pack" or "shared". A static string; any thread. */
KILN_API const char *kiln_origin_name(kiln_origin origin);

/* Gets the kernel of a spec for the service's default device, or for the cpu where the spec says target=cpu. Fields
 * left open are chosen, geometry by what tuning found for the device so far (docs/tuning.md). Looks among loaded kernels, then
 * in the stores, then compiles: blocks for tens of milliseconds in that case and longer when a driver or compiler is
 * used for the first time.
 * The caller owns one reference; see kiln_release. The service keeps one of its own, so that the next get of an equal
 * spec finds the kernel (about 0.1 microseconds). It keeps kiln_options.loaded_max kernels, the least recently used first
 * out; it lets go of one only when nobody else holds a reference and all work of the device is done. `spec` is borrowed.
 * Errors: those of kiln_spec_parse, KILN_ETARGET (also: the kernel is for another GPU), KILN_ENODRIVER, KILN_ENODEVICE,
 * KILN_ENOCOMPILER, KILN_ECOMPILE, KILN_ENOWORKER, KILN_ECRASHED, KILN_ELOAD, KILN_EDEVICE, KILN_EIO (no room for
 * temporary files), KILN_ESTRICT (strict mode, and it would have to be compiled), KILN_ENOMEM. A fault of a store is never an error. */
KILN_API KILN_MUST_USE kiln_status kiln_get(kiln_kernel **out, kiln_service *service, const kiln_spec *spec,
                                            kiln_report *report);

/* The same for a device of the service's: a GPU, or the cpu; NULL for the default device. A kernel belongs to its
 * device, so each device has one of its own; GPUs of one kind share what is compiled and stored. Errors: those of
 * kiln_get, KILN_EINVAL (another service's device), KILN_ETARGET (the spec's target is not for it). */
KILN_API KILN_MUST_USE kiln_status kiln_get_on(kiln_kernel **out, kiln_service *service, kiln_device *device,
                                               const kiln_spec *spec, kiln_report *report);

/* Adds a reference; returns its argument. NULL is allowed. */
KILN_API kiln_kernel *kiln_kernel_retain(kiln_kernel *kernel);

/* Drops a reference; the last one, the service's included, unloads the kernel, so launches must have finished by then.
 * NULL is allowed. */
KILN_API void kiln_kernel_release(kiln_kernel *kernel);

/* ---- Signature: sizes and arguments ----------------------------------------------------------------------------- */

typedef enum kiln_role {
    KILN_ROLE_UNKNOWN = 0, /* a parameter of a CUDA source: only its bytes are known */
    KILN_ROLE_IN,          /* an array that is read */
    KILN_ROLE_OUT,         /* an array that is written whole */
    KILN_ROLE_INOUT,       /* an array that is read and written */
    KILN_ROLE_SCALAR,      /* a number given at launch */
    KILN_ROLE_FORMULA      /* a number that a formula of the sizes gives: it is no argument of kiln_launch */
} kiln_role;

enum { KILN_DIMS_MAX = 4 };

typedef struct kiln_param {
    size_t size;
    const char *name; /* "": unknown, as the next */
    const char *type; /* "f32", "uint64" */
    kiln_role role;
    uint32_t bytes; /* of an element, or of the number */
    uint32_t dims;  /* of an array */
    const char
        *shape[KILN_DIMS_MAX]; /* formulas of the sizes, the last dimension contiguous; [0] of a formula's number */
} kiln_param;

/* The arguments that a kernel takes. A template declares them; the driver and the PTX tell those of a function of a CUDA
 * source. Lives as long as the spec or kernel that it came from. */
typedef struct kiln_signature {
    size_t size;
    const char *const *sizes; /* names of the numbers that are known at launch only */
    size_t size_count;
    const kiln_param *const
        *params; /* in the order of the kernel's parameters; NULL: neither the driver nor PTX tells */
    size_t param_count;
    const char *grid[3]; /* formulas of the sizes, "(n + 511) / 512"; NULL: kiln_launch takes a grid */
} kiln_signature;

/* Calculates the shape of an array for such sizes. `index` counts in params; the entries behind the last dimension are
 * 1.
 * Errors: KILN_EINVAL (count, overflow, division by zero), KILN_ENOENT (no such array). */
KILN_API kiln_status kiln_signature_shape(uint64_t out[KILN_DIMS_MAX], const kiln_signature *signature, uint32_t index,
                                          const uint64_t *sizes, size_t size_count, kiln_report *report);

/* ---- Kernel information ----------------------------------------------------------------------------------------- */

/* Facts about a kernel. Everything lives as long as it does. */
typedef struct kiln_kernel_info {
    size_t size;
    const char *name;   /* of a function of a source as it was asked for; of a spec the first entry of the template */
    const char *symbol; /* its name in the code */
    const char *spec;   /* canonical text, every field set; of a source its name */
    const char *device; /* "cuda:0" or "cpu" */
    kiln_origin origin; /* how the service first came by it */
    double compile_ms;  /* time in the compiler, 0 unless compiled */
    const kiln_signature *signature;
    uint32_t block[3]; /* threads, where a template declares them; else 0 */
    uint64_t tile;     /* elements per block, or per chunk on the cpu; 0: the template declares none */
    int max_threads;   /* of a block; -1: the device does not tell, as the next four */
    int registers;     /* per thread */
    int local_bytes;   /* per thread: local arrays and spilled registers */
    int shared_bytes;  /* static, per block */
    int constant_bytes;
} kiln_kernel_info;

/* Fills *out, whose size field must be set. Any thread. */
KILN_API kiln_status kiln_kernel_get_info(const kiln_kernel *kernel, kiln_kernel_info *out);

/* How many blocks of `threads` threads and `shared_bytes` of dynamic shared memory a multiprocessor holds at once; -1:
 * the device does not tell. Errors: KILN_EINVAL, KILN_ELAUNCH. */
KILN_API kiln_status kiln_kernel_occupancy(int *out, const kiln_kernel *kernel, uint32_t threads, uint32_t shared_bytes,
                                           kiln_report *report);

/* ---- Launch ----------------------------------------------------------------------------------------------------- */

typedef enum kiln_arg_kind {
    KILN_ARG_NONE = 0, /* an argument that was forgotten: KILN_EINVAL */
    KILN_ARG_ARRAY,
    KILN_ARG_VALUE
} kiln_arg_kind;

/* An argument of a launch. Frozen layout. */
typedef struct kiln_arg {
    kiln_arg_kind kind;
    uint64_t bytes;   /* of the array: as many or more than its shape has; of the value: exactly its type's */
    const void *data; /* the array, in device memory; the value, in host memory, which the launch reads at once */
} kiln_arg;

/* KILN_ARRAY(pointer, bytes) and KILN_VALUE(variable) make a kiln_arg. The variable has the type of the parameter: an
 * int for a float parameter has as many bytes and another meaning. */
#ifdef __cplusplus
#define KILN_ARRAY(pointer, bytes)                   \
    kiln_arg                                         \
    {                                                \
        KILN_ARG_ARRAY, (uint64_t)(bytes), (pointer) \
    }
#define KILN_VALUE(variable)                          \
    kiln_arg                                          \
    {                                                 \
        KILN_ARG_VALUE, sizeof(variable), &(variable) \
    }
#else
#define KILN_ARRAY(pointer, bytes) ((kiln_arg){ KILN_ARG_ARRAY, (uint64_t)(bytes), (pointer) })
#define KILN_VALUE(variable)       ((kiln_arg){ KILN_ARG_VALUE, sizeof(variable), &(variable) })
#endif

/* How a function of a CUDA source is launched. */
typedef struct kiln_grid {
    size_t size;
    uint32_t grid[3];      /* blocks; 0 counts as 1, as in the next field */
    uint32_t block[3];     /* threads of a block */
    uint32_t cluster[3];   /* blocks of a cluster; all 0: no clusters */
    uint32_t shared_bytes; /* dynamic shared memory */
    int cooperative;       /* 1: all blocks are to run at once, so that they may wait for each other */
} kiln_grid;

/* Launches a kernel.
 *
 *   grid    NULL for a kernel whose signature has formulas; the launch configuration for a function of a CUDA source
 *   sizes   a number for each size of the signature, in order
 *   args    an argument for each parameter that no formula gives, in order
 *   stream  a CUstream or cudaStream_t; NULL: the default stream; ignored on the cpu
 *
 * An array has at least the bytes of its shape and is aligned to its elements. An array that is written overlaps no
 * other, except that an output that the template declares `inplace` may be one of the inputs. For a function of a CUDA
 * source the number and the bytes of the arguments are checked as far as the driver and the PTX tell them; a pointer
 * parameter takes an array or the value of a pointer.
 *
 * On a GPU the launch is queued and the call returns at once. It takes no lock and allocates nothing. In a stream that
 * is being captured it becomes a node of the graph; the kernel must outlive the graph. On the cpu all cores compute,
 * the call returns when they are done, and concurrent launches take turns. Sizes that give no blocks launch nothing.
 *
 * Arrays are borrowed until the work is done, everything else for the call.
 * Errors: KILN_EINVAL, KILN_EALIGN, KILN_EOVERLAP, KILN_ELAUNCH, KILN_ENODRIVER (too old for a cluster or a cooperative
 * launch). Nothing is queued then. */
KILN_API kiln_status kiln_launch(kiln_kernel *kernel, const kiln_grid *grid, const uint64_t *sizes, size_t size_count,
                                 const kiln_arg *args, size_t arg_count, void *stream, kiln_report *report);

/* kiln_launch for a kernel of one size, n, whose arrays have n elements each: first the outputs, then the inputs.
 * Errors: those of kiln_launch. */
KILN_API kiln_status kiln_launch_n(kiln_kernel *kernel, uint64_t n, void *const *outs, size_t out_count,
                                   const void *const *ins, size_t in_count, void *stream, kiln_report *report);

/* kiln_launch_n of the kernel that a spec's text means on the default device. The first call with a text parses it and
 * gets the kernel, and blocks as kiln_get does. A later one costs about 0.1 us more than kiln_launch_n. A text means
 * the same kernel as long as the service keeps it, whatever tuning finds; the cap on loaded kernels counts it. With n =
 * 0 the kernel is only loaded, and the arrays may be NULL. In a stream that is being captured, a kernel that is not
 * loaded is KILN_ECAPTURE, and the capture goes on; for the life of a graph hold the kernel by kiln_get.
 * Errors: those of kiln_spec_parse, kiln_get and kiln_launch, KILN_ECAPTURE. */
KILN_API kiln_status kiln_call(kiln_service *service, const char *spec, uint64_t n, void *const *outs, size_t out_count,
                               const void *const *ins, size_t in_count, void *stream, kiln_report *report);

/* The name of a size that a spec's template declares, NULL after the last; lives as long as the service. Any thread. */
KILN_API const char *kiln_spec_size(const kiln_spec *spec, uint32_t index);

/* A parameter of the signature that a spec's template declares: formulas are as they are written, parameters included.
 * KILN_ENOENT: there are not so many. Any thread. */
KILN_API kiln_status kiln_spec_arg(const kiln_spec *spec, uint32_t index, kiln_param *out);

/* ---- Asynchronous gets ------------------------------------------------------------------------------------------- */

/* Where finished asynchronous gets wait for a thread of the host's. Belongs to a service. Any thread may ask for
 * kernels; one thread at a time waits, attaches and closes. A forked child gets nothing from its parent's queue, and
 * may only close it. */
typedef struct kiln_queue kiln_queue;

/* One asynchronous get. Valid until its callback returns. */
typedef struct kiln_request kiln_request;

/* Makes a queue. It needs three descriptors. Errors: KILN_EINVAL, KILN_ENOMEM, KILN_EIO (no descriptors). */
KILN_API KILN_MUST_USE kiln_status kiln_queue_open(kiln_queue **out, kiln_service *service, kiln_report *report);

/* Lets a libuv loop run the callbacks: call it on the loop's thread, once for a queue. The loop is kept alive while the
 * queue has requests, and not longer. A queue must be closed, and its close callback have come, before the loop is.
 * Errors: KILN_EINVAL, KILN_ENOMEM, KILN_EIO (libuv refused). */
KILN_API KILN_MUST_USE kiln_status kiln_queue_attach_uv(kiln_queue *queue, struct uv_loop_s *loop, kiln_report *report);

/* For hosts with another loop: a descriptor that is readable while a callback is due. Only poll it. */
KILN_API int kiln_queue_fd(const kiln_queue *queue);

/* Runs the callbacks that are due, on this thread, and returns how many. Where none is due it waits for one, at most
 * `timeout_ms` (0: not at all; below 0: for ever). Returns 0 at once where the queue has no requests.
 * `while (kiln_queue_wait(queue, -1) > 0) {}` finishes all. */
KILN_API int kiln_queue_wait(kiln_queue *queue, int timeout_ms);

/* Closes a queue: every request that has not been called back is, most as KILN_ECANCELED, then fn(data) is called (fn
 * may be NULL), then the queue is gone. All that happens before the call returns; but on a libuv loop it happens from
 * the loop, soon, and inside a callback of the queue it happens before the kiln_queue_wait around it returns. NULL is
 * allowed. */
typedef void (*kiln_queue_fn)(void *data);
KILN_API void kiln_queue_close(kiln_queue *queue, kiln_queue_fn fn, void *data);

/* Zero in a field means the default. */
typedef struct kiln_async_options {
    size_t size;
    int priority;        /* higher ones are compiled first; 0 is ordinary */
    uint32_t timeout_ms; /* from now; then the callback comes with KILN_ETIMEDOUT; 0: none */
    kiln_device *device; /* as for kiln_get_on; NULL: the default device */
} kiln_async_options;

/* The end of an asynchronous get, with the statuses of kiln_get, KILN_ECANCELED or KILN_ETIMEDOUT. A reference to
 * `kernel`, NULL on failure, belongs to the callback; `report` is borrowed. It may call anything of Kiln's but
 * kiln_close. */
typedef void (*kiln_async_fn)(void *data, kiln_status status, kiln_kernel *kernel, const kiln_report *report);

/* Does what kiln_get does, on threads of the service, and returns at once: no file is read or written, no driver opened
 * and nothing compiled inside the call. fn is called exactly once, by kiln_queue_wait or the loop of the queue and
 * never inside this call, unless the call itself fails. `spec` and options (NULL: defaults) are copied; *out may be
 * NULL, where the request is not needed. Errors: KILN_EINVAL, KILN_ENOMEM, KILN_ECANCELED (the queue or its service is
 * closed). */
KILN_API kiln_status kiln_get_async(kiln_request **out, kiln_queue *queue, const kiln_spec *spec,
                                    const kiln_async_options *options, kiln_async_fn fn, void *data);

/* Gives up a request: its callback comes with KILN_ECANCELED, unless it was due already. A compile that nobody else
 * waits for is not begun; one that has begun goes on. Any thread, as long as the callback cannot have returned. */
KILN_API void kiln_cancel(kiln_request *request);

/* ---- Artifact: compile without a device -------------------------------------------------------------------------- */

/* The compiled form of a spec: bytes, not yet loaded. Immutable; any thread may read it. */
typedef struct kiln_artifact kiln_artifact;

/* Compiles a spec, or finds it in the stores, without loading it: needs no GPU. The spec's target may be any that the
 * compiler knows; unset means the default device's, and where that is not a GPU, "cpu". Blocks as kiln_get does.
 * Errors: those of kiln_get, but for KILN_ELOAD. */
KILN_API KILN_MUST_USE kiln_status kiln_build(kiln_artifact **out, kiln_service *service, const kiln_spec *spec,
                                              kiln_report *report);

/* Looks for a spec in the stores without compiling or loading anything: *out (may be NULL) tells which store had it,
 * whole and undamaged. Loaded kernels are not looked at. Finds what a strict service finds: where the compiler that is
 * here cannot be named without a compile, and where there is none, what any compiler made counts. The target is
 * chosen as for kiln_build. Any thread.
 * Errors: those of kiln_spec_parse, KILN_ENOENT (it would have to be compiled), KILN_ENODRIVER, KILN_ENODEVICE,
 * KILN_ENOMEM. */
KILN_API kiln_status kiln_probe(kiln_origin *out, kiln_service *service, const kiln_spec *spec, kiln_report *report);

/* Frees an artifact. NULL is allowed. */
KILN_API void kiln_artifact_free(kiln_artifact *artifact);

/* Canonical text of what was built, every field set; borrowed. */
KILN_API const char *kiln_artifact_spec(const kiln_artifact *artifact);
KILN_API kiln_origin kiln_artifact_origin(const kiln_artifact *artifact);
KILN_API double kiln_artifact_compile_ms(const kiln_artifact *artifact);

/* One section of it: "cubin", "ptx" and "log" (cuda), "object" and "log" (cpu), "names", "key" (the key's text).
 * The bytes are borrowed; text sections are followed by a NUL that *length does not count.
 * Errors: KILN_ENOENT (no such section). */
KILN_API kiln_status kiln_artifact_section(const kiln_artifact *artifact, const char *name, const void **data,
                                           size_t *length);

/* ---- Programs: CUDA text of the host, compiled ------------------------------------------------------------------- */

/* Compiles a source, or finds it in the stores. It is found again as long as its text, what it is compiled with and
 * the contents of every file that it read are the same, wherever those files lie and however old they are. Text is
 * compiled in a worker (docs/embedding.md), unless the service's `isolate` is KILN_ISOLATE_NEVER: then there may be
 * no include directories, and the program is kept in the service's memory alone, in no directory and no pack. Blocks as
 * kiln_get does. The artifact's sections are "cubin", "ptx", "log", "functions" (as asked for, one a line), "names"
 * (their symbols), "key". Warnings go to the report's log. Errors: KILN_EINVAL (a field that cannot be right; an option
 * that is not passed on), KILN_ETARGET ("cpu", or no target of the compiler's), KILN_ECOMPILE (the report's log is the
 * compiler's), KILN_ECRASHED, KILN_ENOWORKER, KILN_ENOCOMPILER, KILN_ESTRICT, KILN_EIO (files change while they are
 * read, or cannot be), KILN_ENODRIVER, KILN_ENODEVICE, KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_program_build(kiln_artifact **out, kiln_service *service,
                                                      const kiln_source *source, kiln_report *report);

/* What the compiled code says of a function. */
typedef struct kiln_symbol_info {
    size_t size;
    const char *function; /* as asked for; borrowed from the artifact */
    const char *symbol;   /* its name in the code; borrowed */
    int registers;        /* per thread; -1 where the code does not tell, also below */
    int stack_bytes;      /* per thread: local arrays and spilled registers */
    int shared_bytes;     /* static shared memory */
} kiln_symbol_info;

/* Fills *out for function number `index` of an artifact of kiln_program_build, or of kiln_build, whose functions are
 * called as in the code. KILN_ENOENT: there are not so many. */
KILN_API kiln_status kiln_artifact_symbol(const kiln_artifact *artifact, size_t index, kiln_symbol_info *out);

/* ---- Programs on a device ---------------------------------------------------------------------------------------- */

/* A source, compiled and loaded on one device. Immutable and reference-counted; any thread. */
typedef struct kiln_program kiln_program;

/* Gets the program of a source on a GPU of the service's, NULL for the default device: one that is loaded already if
 * the source and the files that it reads are as they were then, else as kiln_program_build, and loaded. Those files
 * are looked at by every call, so keep the program and ask again where you want to follow changes. The caller owns a
 * reference; the service keeps one of its own until kiln_close.
 * Errors: those of kiln_program_build, KILN_ETARGET (also: the device is the cpu), KILN_ELOAD, KILN_EDEVICE. */
KILN_API KILN_MUST_USE kiln_status kiln_program_get(kiln_program **out, kiln_service *service, kiln_device *device,
                                                    const kiln_source *source, kiln_report *report);

/* The end of an asynchronous get, with the statuses of kiln_program_get, KILN_ECANCELED or KILN_ETIMEDOUT. A reference
 * to `program`, NULL on failure, belongs to the callback; `report` is borrowed. It may call anything of Kiln's but
 * kiln_close. */
typedef void (*kiln_program_fn)(void *data, kiln_status status, kiln_program *program, const kiln_report *report);

/* Does what kiln_program_get does, on threads of the service, and returns at once: no file is looked at, no driver
 * opened and nothing compiled inside the call. The source is copied whole; relative include directories start from the
 * working directory of now. The files are looked at after the call: a compile that has begun before it is not taken for
 * this one. Else as kiln_get_async: fn is called exactly once, by kiln_queue_wait or the loop of the queue, unless the
 * call itself fails; what is wrong with the source comes by the callback, with the report; kiln_cancel gives up, and so
 * does kiln_close. Errors: KILN_EINVAL (a NULL, or a size that is not set), KILN_ENOMEM, KILN_ECANCELED (the queue or
 * its service is closed). */
KILN_API kiln_status kiln_program_get_async(kiln_request **out, kiln_queue *queue, const kiln_source *source,
                                            const kiln_async_options *options, kiln_program_fn fn, void *data);

/* Adds a reference; returns its argument. Drops one; the last one unloads, so launches must have finished by then.
 * NULL is allowed. */
KILN_API kiln_program *kiln_program_retain(kiln_program *program);
KILN_API void kiln_program_release(kiln_program *program);

/* Finds a kernel by the name that the source asked for, or by its symbol; NULL: the only one. The caller owns one
 * reference. A kernel may outlive its program. Errors: KILN_ENOENT (the report names those that there are),
 * KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_program_kernel(kiln_kernel **out, kiln_program *program, const char *name,
                                                       kiln_report *report);

/* The address in device memory, and the size, of a __constant__, __device__ or __managed__ variable. One that is in a
 * namespace, or that no function uses, must be among the source's functions, as "&ns::table". KILN_ENOENT;
 * KILN_ENODRIVER (the driver is too old). */
KILN_API kiln_status kiln_program_global(void **address, size_t *bytes, kiln_program *program, const char *name,
                                         kiln_report *report);

/* ---- What can be built ------------------------------------------------------------------------------------------- */

/* Strings of these structs are borrowed for the callback. A callback that returns non-zero stops the visit. */
typedef struct kiln_op_info {
    size_t size;
    const char *name;      /* "hardtanh" */
    const char *signature; /* "hardtanh(x; lo=-1, hi=1)" */
    const char *doc;       /* one or more sentences; lines end with '\n' */
    uint32_t inputs, params;
    const char *origin; /* "" for Kiln's own, else where it comes from: "defined" */
} kiln_op_info;
typedef int (*kiln_op_fn)(void *data, const kiln_op_info *op);
KILN_API kiln_status kiln_ops(kiln_service *service, kiln_op_fn fn, void *data);

typedef struct kiln_field_info {
    const char *name;          /* "block" */
    const char *values;        /* "32..1024 step 32" or "plain,stream" */
    const char *default_value; /* as declared: a value or a formula */
    const char *doc;
    const char *tune; /* what tuning tries: lines "64..1024*2 if sm > 0" that end with '\n', the first that holds; "" if
                         the template does not say */
} kiln_field_info;
typedef struct kiln_template_info {
    size_t size;
    const char *name;
    const char *doc;
    uint32_t min_inputs, max_inputs; /* of the op; both 0: it takes none */
    const kiln_field_info *params;
    uint32_t param_count;
    const char *text;         /* the template's whole text */
    const char *requirements; /* lines "FORMULA -- what it means" that end with '\n' */
    const char *bounds;       /* the same; only tuning keeps to them */
    const char *origin;       /* "" for Kiln's own, else where it comes from: a path, or "defined" */
    const char *reference;    /* the op that computes the same, as the template declares it, or "" */
    int has_twin;             /* 1: it runs on the cpu too */
} kiln_template_info;
typedef int (*kiln_template_fn)(void *data, const kiln_template_info *info);
KILN_API kiln_status kiln_templates(kiln_service *service, kiln_template_fn fn, void *data);

/* Defines an op: "NAME(x, y; p=1) = EXPRESSION", with up to three inputs and eight parameters. GPU and cpu compute the
 * same bits. An equal definition again does nothing. Any thread. `definition` is borrowed for the call. Errors:
 * KILN_EOP (what is wrong and where; or the name is one of Kiln's own, or is defined otherwise, or there are 1024 ops),
 * KILN_ENOMEM. */
KILN_API kiln_status kiln_op_define(kiln_service *service, const char *definition, kiln_report *report);

/* Defines a template: the text of a .cu file with declarations in its header comment, and of its cpu twin, or NULL
 * where it has none. Specs name it as it names itself, template=NAME. Equal texts again do nothing. *name (may be NULL)
 * gets the name, borrowed until kiln_close. Such text is compiled in a worker, as options.isolate says; what comes of
 * it runs with the host's rights, so define only what you trust. Any thread. The texts are borrowed for the call.
 * Errors: KILN_ESPEC (line and what is wrong; or the name is one of Kiln's own, or is defined otherwise, or there are
 * 256 templates), KILN_ENOMEM. */
KILN_API kiln_status kiln_template_define(kiln_service *service, const char *text, const char *cpu_text,
                                          const char **name, kiln_report *report);

/* The same from the file `path`, which ends in .cu; a file beside it that ends in .c instead is its cpu twin.
 * Errors: as above, KILN_EINVAL (not such a path), KILN_ENOENT (no such file), KILN_EIO. */
KILN_API kiln_status kiln_template_load(kiln_service *service, const char *path, const char **name,
                                        kiln_report *report);

#ifdef __cplusplus
}
#endif
#endif
