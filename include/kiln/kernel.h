/* From a line of text to a launched kernel.
 *
 *     text -> spec ---+
 *     source ---------+--> request -> program -> kernel -> launch
 *
 * A spec describes a kernel of a template: "op=hardtanh(-1,1) dtype=f16 block=256". A source (<kiln/source.h>) is the
 * host's CUDA text. A request for either gives a program: compiled code, usually loaded on a device. A kernel is a
 * function of a loaded program, with a signature: sizes, arguments, grid. All of these are immutable. */
#ifndef KILN_KERNEL_H
#define KILN_KERNEL_H

#include <kiln/base.h>
#include <kiln/device.h>
#include <kiln/source.h>

struct uv_loop_s; /* <uv.h> */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Specs ------------------------------------------------------------------------------------------------------- */

/* A line of fields, NAME=VALUE with blanks between: "op=hardtanh(-1,1) dtype=f32 block=256 target=sm_90"; see
 * docs/spec.md. Kiln chooses a field that is not set. Immutable. It must be freed before kiln_close. */
typedef struct kiln_spec kiln_spec;

/* Makes a spec from its text. The caller frees *out with kiln_spec_free.
 * Errors: KILN_ESPEC (syntax, unknown field or value, a broken constraint), KILN_EOP, KILN_ETARGET, KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_spec_parse(kiln_spec **out, kiln_service *service, const char *text,
                                                   kiln_report *report);

/* Makes a copy of a spec with the fields of a line set, "block=256 elems=4". "block=" leaves a field open. The caller
 * frees *out with kiln_spec_free. Errors: those of kiln_spec_parse. */
KILN_API KILN_MUST_USE kiln_status kiln_spec_with(kiln_spec **out, const kiln_spec *spec, const char *fields,
                                                  kiln_report *report);

/* Frees a spec. */
KILN_API void kiln_spec_free(kiln_spec *spec);

/* Returns the canonical text, which lives as long as the spec. Equal specs have equal texts. */
KILN_API const char *kiln_spec_text(const kiln_spec *spec);

/* Returns the value of a field, which lives as long as the spec. "": it is not set; NULL: the spec's template does not
 * have it. */
KILN_API const char *kiln_spec_field(const kiln_spec *spec, const char *field);

/* Receives a borrowed spec; kiln_spec_with(&out, spec, "", NULL) copies it. Non-zero stops. */
typedef int (*kiln_spec_fn)(void *data, const kiln_spec *spec);

/* Parses a line whose fields may be lists and ranges, "dtype=f32,f16 block=64..1024*2 target=all". Calls `fn` with each
 * spec of the product, in the order written, the last field fastest. Every spec is checked before the first call.
 * "target=all" is every target of the NVRTC that is found, "target=native" that of the default device.
 * Errors: those of kiln_spec_parse, KILN_ENOCOMPILER (target=all), those of kiln_device_open (target=native). */
KILN_API kiln_status kiln_spec_expand(kiln_service *service, const char *line, kiln_spec_fn fn, void *data,
                                      kiln_report *report);

/* Gives the complete source text of a spec, as the compiler gets it. Its first line is a comment with the spec, every
 * field set but the target. The caller frees *out with kiln_text_free. Compiles nothing.
 * Errors: those of kiln_spec_parse, those of kiln_device_open (an open target). */
KILN_API KILN_MUST_USE kiln_status kiln_spec_source(char **out, const kiln_spec *spec, kiln_report *report);

/* ---- Signatures: sizes and arguments ----------------------------------------------------------------------------- */

typedef enum kiln_role {
    KILN_ROLE_UNKNOWN = 0, /* a parameter of a source's function: only its bytes are known */
    KILN_ROLE_IN,          /* an array that is read */
    KILN_ROLE_OUT,         /* an array that is written whole */
    KILN_ROLE_INOUT,       /* an array that is read and written */
    KILN_ROLE_SCALAR,      /* a number given at launch */
    KILN_ROLE_FORMULA /* a number that a formula of the sizes gives, the strides of all arrays, memory that a launch
                              brings, or the number of its phase; not an argument of kiln_launch */
} kiln_role;

enum { KILN_DIMS_MAX = 4 };

typedef struct kiln_param {
    size_t size;
    const char *name; /* "": unknown */
    const char *type; /* "f32", "u64"; "": unknown */
    kiln_role role;
    uint32_t bytes; /* of an element, or of the number */
    uint32_t dims;  /* of an array */
    /* Formulas of the sizes: an array's extents, the last one contiguous; [0] of KILN_ROLE_FORMULA: the number,
     * "strides", "scratch" or "phase". */
    const char *shape[KILN_DIMS_MAX];
    int follows_dtype; /* 1: the template declares "dtype", so `type` is that of the spec; 2: "otype", that of the
                          result, which the op or out= gives; 3: "itype", that of this input of the op, which dtype=
                          gives; 0: it names a type */
    int in_place;      /* 1: an output that may be one of the inputs */
    int column;        /* 1: an input that the op takes as a column, of one element for each row */
} kiln_param;

/* The arguments of a kernel. A template declares them. For a source's function they come from the driver or the PTX.
 * Lives as long as its spec or kernel. */
typedef struct kiln_signature {
    size_t size;
    const char *const *sizes; /* names of the numbers that only a launch knows */
    size_t size_count;
    const kiln_param *const *params; /* in the order of the kernel's parameters; NULL: unknown */
    size_t param_count;
    const char *grid[3]; /* formulas of the sizes, "(n + 511) / 512"; NULL: kiln_launch takes a grid */
    int counts;          /* whether results depend on the number of their element: the op takes index, and no axis */
} kiln_signature;

/* Gives the signature that a spec's template declares for the spec's op and dtype. It lives as long as the spec.
 * Formulas are as written and may name parameters. An open op has no inputs; an open dtype is the template's first.
 * Errors: KILN_EINVAL, KILN_ENOMEM. */
KILN_API kiln_status kiln_spec_signature(const kiln_signature **out, const kiln_spec *spec, kiln_report *report);

/* Calculates the shape of the array params[index] for such sizes. Dimensions that the array does not have are 1.
 * Errors: KILN_EINVAL (count, overflow, division by zero), KILN_ENOENT (no such array). */
KILN_API kiln_status kiln_signature_shape(uint64_t out[KILN_DIMS_MAX], const kiln_signature *signature, uint32_t index,
                                          const uint64_t *sizes, size_t size_count, kiln_report *report);

/* ---- Requests and programs --------------------------------------------------------------------------------------- */

typedef enum kiln_goal {
    KILN_LOAD = 0, /* a program loaded on a device */
    KILN_BUILD     /* a program that is only compiled and stored; needs no GPU */
} kiln_goal;

/* Exactly one of spec and source is set. */
typedef struct kiln_request {
    size_t size;
    const kiln_spec *spec;
    const kiln_source *source;
    kiln_device *device; /* NULL: the default device, or the cpu for target=cpu */
    kiln_goal goal;      /* KILN_BUILD: the target may be any of the compiler's, whatever the device is */
    kiln_switch strict;  /* KILN_ON: a compile is refused with KILN_ESTRICT; else as the service's strict */
} kiln_request;

/* Compiled code with its functions and variables. Reference-counted: the caller gives the reference of each get back
 * with kiln_program_release. Two gets may give one pointer. */
typedef struct kiln_program kiln_program;

/* A function of a loaded program, with its signature. Reference-counted with its program. The code is unloaded when all
 * references are gone, the service's among them. No launch may run then. */
typedef struct kiln_kernel kiln_kernel;

/* Gets the program of a request: loaded, stored, or compiled while this thread waits. The caller releases *out with
 * kiln_program_release.
 *
 * Blocks about 0.05 us for a loaded program, a quarter of a millisecond for a stored one, and tens of milliseconds for
 * a compile. Once a second a get with open geometry looks at the files of wisdom, some 50 us. The first use of a GPU or
 * of a compiler takes longer. Every call looks at the files that a source reads. A remote is asked a few questions for
 * what no store has, 250 ms at most for each; and where another machine compiles, the call waits for that as for
 * another process (kiln_options.lock_wait_ms).
 *
 * Open geometry is chosen by the current wisdom, or else by the template's defaults. A get asks wisdom for its
 * device. A build asks for a device that is open, or else for the target (docs/tuning.md), so that a warmed cache is
 * hit.
 *
 * The service keeps kiln_options.loaded_max programs loaded for later gets. It unloads the least recently used first,
 * and only when the caller has no reference to it and all work of the device is done.
 *
 * With KILN_ISOLATE_NEVER a source must have no include directories, and only the service's memory keeps its result.
 *
 * Errors: those of kiln_spec_parse, KILN_EINVAL (an impossible request; a device of another service; a refused option),
 * KILN_ETARGET (also: code for another device), KILN_ENODRIVER, KILN_ENODEVICE, KILN_EDEVICE, KILN_ENOCOMPILER,
 * KILN_ENOWORKER, KILN_ECRASHED, KILN_ECOMPILE (the report has the compiler's log), KILN_ELOAD, KILN_ECANCELED (the
 * process is ending), KILN_EIO (no room for temporary files; files of a source change or cannot be read), KILN_ESTRICT,
 * KILN_ENOMEM. A fault of a store is never an error. */
KILN_API KILN_MUST_USE kiln_status kiln_get(kiln_program **out, kiln_service *service, const kiln_request *request,
                                            kiln_report *report);
KILN_API void kiln_program_release(kiln_program *program);

/* Gets the kernel of a spec on the default device, by kiln_get and kiln_program_kernel. The caller releases *out with
 * kiln_kernel_release. Blocks as kiln_get. Errors: those of kiln_get. */
KILN_API KILN_MUST_USE kiln_status kiln_get_kernel(kiln_kernel **out, kiln_service *service, const kiln_spec *spec,
                                                   kiln_report *report);

typedef enum kiln_origin {
    KILN_ORIGIN_COMPILED = 0, /* by this service */
    KILN_ORIGIN_MEMORY,
    KILN_ORIGIN_DISK,
    KILN_ORIGIN_PACK,
    KILN_ORIGIN_SHARED,
    KILN_ORIGIN_REMOTE
} kiln_origin;

/* A compiled function or variable. */
typedef struct kiln_function_info {
    size_t size;
    const char *name;   /* as it was asked for */
    const char *symbol; /* its name in the code */
    int registers;      /* per thread; -1: unknown, as in the next four */
    int local_bytes;    /* per thread: local arrays and spills */
    int shared_bytes;   /* static, per block */
    int max_threads;    /* of a block: of __launch_bounds__ or __block_size__, else the most that GPUs take */
    int block_threads;  /* that each block must have, by __block_size__; 0: any number up to max_threads */
} kiln_function_info;

/* Strings and functions live as long as the program. */
typedef struct kiln_program_info {
    size_t size;
    const char *spec;                           /* canonical text, every field set; of a source its name */
    const char *target;                         /* "sm_90" or "cpu" */
    const char *device;                         /* "cuda:0"; "": not loaded */
    kiln_origin origin;                         /* of the code, when the service first got it */
    const char *origin_name;                    /* "compiled", "memory", "disk", "pack", "shared", "remote" */
    double compile_ms;                          /* in the compiler; 0: not compiled */
    const kiln_function_info *const *functions; /* also a source's variables, "&table" */
    size_t function_count;
} kiln_program_info;

/* Fills *out. Errors: KILN_EINVAL, KILN_ENOMEM. */
KILN_API kiln_status kiln_program_get_info(const kiln_program *program, kiln_program_info *out);

/* Gets a kernel by the name in the source's function list, or by its symbol; NULL: the only one. The caller releases
 * *out with kiln_kernel_release; it keeps the whole program loaded.
 * Errors: KILN_ENOENT (no such function: the report names all; the program is not loaded). */
KILN_API KILN_MUST_USE kiln_status kiln_program_kernel(kiln_kernel **out, kiln_program *program, const char *name,
                                                       kiln_report *report);

/* Gives the address and the size (may be NULL) of a __constant__, __device__ or __managed__ variable. They are those in
 * the device's primary context, in which kernels that use it must be launched. `name` may begin with '&'. A variable in
 * a namespace, or one that no function uses, must be in the source's function list, as "&ns::table".
 * Errors: KILN_ENOENT, KILN_ENODRIVER (the driver is too old), KILN_ELOAD. */
KILN_API kiln_status kiln_program_global(void **out, size_t *bytes, kiln_program *program, const char *name,
                                         kiln_report *report);

/* Looks whether the user's store, a pack or the shared directory holds what a request gets, so that another process
 * finds it there: the last step of a warm-up. Compiles nothing. Blocks for its file work, some 100 us.
 * Errors: those of kiln_get but for the compiler's, KILN_ENOENT (no: the report says why the user's store does not). */
KILN_API kiln_status kiln_kept(kiln_service *service, const kiln_request *request, kiln_report *report);

/* Gives a section of a program that was requested with KILN_BUILD. The bytes live as long as the program. A text ends
 * with a NUL that *length does not count. The sections are "cubin" and "ptx" (on the cpu "object"), "log", "key",
 * "names" (symbols, one a line), and of a source "functions" (its list).
 * Errors: KILN_EINVAL, KILN_ENOENT. */
KILN_API kiln_status kiln_program_section(const void **out, size_t *length, const kiln_program *program,
                                          const char *name);

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

/* Add a reference and return `kernel`; give a reference back. */
KILN_API kiln_kernel *kiln_kernel_retain(kiln_kernel *kernel);
KILN_API void kiln_kernel_release(kiln_kernel *kernel);

/* Strings and signature live as long as the kernel. */
typedef struct kiln_kernel_info {
    size_t size;
    const char *name;   /* of a source's function, as asked for; of a spec, the template's first entry */
    const char *symbol; /* its name in the code */
    const char *spec;   /* canonical text, every field set; of a source its name */
    const char *device; /* "cuda:0" or "cpu" */
    kiln_origin origin; /* of the code, when the service first got it */
    const char *origin_name;
    double compile_ms; /* in the compiler; 0: not compiled */
    const kiln_signature *signature;
    uint32_t block[3]; /* threads; 0: on the cpu, or a source, whose grid is given at each launch */
    uint64_t tile;     /* elements per block, or per chunk on the cpu; 0: the template declares none */
    int max_threads;   /* per block; -1: unknown, as in the next four */
    int registers;     /* per thread */
    int local_bytes;   /* per thread: local arrays and spills */
    int shared_bytes;  /* static, per block */
    int constant_bytes;
} kiln_kernel_info;

/* Fills *out. Errors: KILN_EINVAL. */
KILN_API kiln_status kiln_kernel_get_info(const kiln_kernel *kernel, kiln_kernel_info *out);

/* Gives the number of blocks, of `threads` threads and `shared_bytes` of dynamic shared memory, that a multiprocessor
 * holds at once; -1: unknown. Errors: KILN_EINVAL, KILN_ELAUNCH. */
KILN_API kiln_status kiln_kernel_occupancy(int *out, const kiln_kernel *kernel, uint32_t threads, uint32_t shared_bytes,
                                           kiln_report *report);

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

typedef enum kiln_arg_kind {
    KILN_ARG_NONE = 0, /* not set: KILN_EINVAL */
    KILN_ARG_ARRAY,
    KILN_ARG_VALUE
} kiln_arg_kind;

/* An argument of a launch. Frozen layout. */
typedef struct kiln_arg {
    kiln_arg_kind kind;
    uint64_t bytes;   /* of an array: at least those of its shape; of a value: exactly those of its type */
    const void *data; /* an array in device memory, or a value in host memory, which the call reads */
} kiln_arg;

/* Make a kiln_arg. A variable must have the parameter's type: an int for a float passes the check of bytes. */
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

/* The launch configuration of a source's function. */
typedef struct kiln_grid {
    size_t size;
    uint32_t grid[3];      /* blocks; 0: 1 */
    uint32_t block[3];     /* threads per block; 0: 1 */
    uint32_t cluster[3];   /* blocks per cluster; all 0: no clusters */
    uint32_t shared_bytes; /* dynamic shared memory per block */
    int cooperative;       /* 1: all blocks run at once, so that they may wait for each other */
} kiln_grid;

/* Launches a kernel.
 *
 *   grid    for a source's function; NULL for a kernel of a template
 *   sizes   a number for each size of the signature, in order
 *   args    an argument for each parameter that no formula gives, in order
 *   stream  a CUstream or cudaStream_t; NULL: the default stream; ignored on the cpu
 *
 * Arrays must be aligned to their elements. A written array must overlap no other. An output that the template declares
 * `inplace` may be one of the inputs of the same layout. For a source's function the number and the bytes of arguments
 * are checked if the signature knows them. A pointer parameter takes an array or the value of a pointer.
 * docs/templates.md says how arrays lie in a kernel with strides; one that is both written and read lies alike.
 * kiln_apply takes tensors of any strides.
 *
 * On a GPU the call queues the launch, takes no lock and allocates nothing. A template with scratch memory is the
 * exception: the memory comes from a pool of the device in the order of the stream, and goes back behind the launch. In
 * a stream that is being captured the launch becomes nodes of the graph, which owns such memory, and the kernel must
 * outlive the graph. On the cpu all cores compute, and the call blocks until they are done; concurrent launches take
 * turns. Sizes that give no blocks launch nothing.
 *
 * Arrays are borrowed until the work is done.
 * Errors: KILN_EINVAL, KILN_EALIGN, KILN_EOVERLAP, KILN_ELAUNCH, KILN_ENODRIVER (too old for a cluster or a cooperative
 * launch). Nothing is queued then, but for earlier phases of a template that has several. */
KILN_API kiln_status kiln_launch(kiln_kernel *kernel, const kiln_grid *grid, const uint64_t *sizes, size_t size_count,
                                 const kiln_arg *args, size_t arg_count, void *stream, kiln_report *report);

/* Launches a kernel of one size, n, whose arguments are arrays of n elements: outputs, then inputs. Otherwise as
 * kiln_launch, with its errors. */
KILN_API kiln_status kiln_launch_n(kiln_kernel *kernel, uint64_t n, void *const *outs, size_t out_count,
                                   const void *const *ins, size_t in_count, void *stream, kiln_report *report);

/* Launches the kernel of a spec's text on the default device, as kiln_launch_n. The first call with a text parses it
 * and gets the kernel, and blocks as kiln_get. A later call takes the lock of one shard, and costs about 0.03 us
 * more than kiln_launch_n. A text keeps its kernel while the service keeps that loaded (kiln_options.loaded_max),
 * whatever tuning finds. n = 0 only loads, and the arrays may be NULL. A host that captures a graph
 * holds the kernel with kiln_get_kernel for the life of the graph.
 * Errors: those of kiln_get and kiln_launch, KILN_ECAPTURE (the stream is being captured and the kernel is not loaded;
 * the capture goes on). */
KILN_API kiln_status kiln_call(kiln_service *service, const char *spec, uint64_t n, void *const *outs, size_t out_count,
                               const void *const *ins, size_t in_count, void *stream, kiln_report *report);

/* ---- Queues: requests without waiting ---------------------------------------------------------------------------- */

/* Delivers finished requests to a thread of the host. Any thread may submit and cancel; one at a time waits, attaches
 * and closes. A queue may outlive its service. */
typedef struct kiln_queue kiln_queue;

/* The number of a submitted request, unique in the process. */
typedef uint64_t kiln_ticket;

/* Opens a queue, which uses three descriptors. The caller ends it with kiln_queue_close.
 * Errors: KILN_EINVAL, KILN_ENOMEM, KILN_EIO (no descriptors). */
KILN_API KILN_MUST_USE kiln_status kiln_queue_open(kiln_queue **out, kiln_service *service, kiln_report *report);

/* Attaches a queue to a libuv loop, which then runs the callbacks. Called once, on the loop's thread, which then must
 * not call kiln_queue_wait. The loop must be of the libuv that Kiln is linked with; other hosts poll kiln_queue_fd. The
 * queue keeps the loop alive while it has requests. The loop must run until the callback of kiln_queue_close.
 * Errors: KILN_EINVAL (a second loop; a closed queue), KILN_ENOMEM, KILN_EIO (libuv refused). */
KILN_API KILN_MUST_USE kiln_status kiln_queue_attach_uv(kiln_queue *queue, struct uv_loop_s *loop, kiln_report *report);

/* Returns a descriptor that is readable while a callback is due, for the poll of another loop. The queue owns it. */
KILN_API int kiln_queue_fd(const kiln_queue *queue);

/* Runs the callbacks that are due, on this thread, and returns their number. If none is due it blocks for one, at most
 * `timeout_ms` (0: not at all; below 0: without limit). A queue without requests gives 0 at once. */
KILN_API int kiln_queue_wait(kiln_queue *queue, int timeout_ms);

/* Tells that a queue is closed. */
typedef void (*kiln_queue_fn)(void *data);

/* Closes a queue. Runs the callbacks of all requests, with KILN_ECANCELED for pending ones, then fn(data) (fn may be
 * NULL), and frees the queue. An attached loop does this in its next turn, and the kiln_queue_wait around a callback
 * does it after that. Otherwise this call does. */
KILN_API void kiln_queue_close(kiln_queue *queue, kiln_queue_fn fn, void *data);

typedef struct kiln_submit_options {
    size_t size;
    int priority;        /* higher ones are compiled first; 0: ordinary */
    uint32_t timeout_ms; /* after so long the request ends with KILN_ETIMEDOUT; 0: none */
} kiln_submit_options;

/* Receives the end of a request, with a status of kiln_get, KILN_ECANCELED or KILN_ETIMEDOUT. The callback owns
 * `program`, which is NULL after a failure. `report` is never NULL. */
typedef void (*kiln_done_fn)(void *data, kiln_status status, kiln_program *program, const kiln_report *report);

/* Submits a request, which threads of the service serve as kiln_get does. Returns at once: the call reads no file,
 * opens no driver and compiles nothing. The request, its spec and its source are copied. Relative include directories
 * start at the current working directory. The queue calls `done` once, never inside this call, unless this call fails.
 * *out (may be NULL) is set before that.
 * Errors: KILN_EINVAL, KILN_ENOMEM, KILN_ECANCELED (the queue or its service is closed). */
KILN_API kiln_status kiln_submit(kiln_ticket *out, kiln_queue *queue, const kiln_request *request,
                                 const kiln_submit_options *options, kiln_done_fn done, void *data,
                                 kiln_report *report);

/* Cancels a request, which ends with KILN_ECANCELED. Does nothing if its callback is due or done. A compile that no
 * other request waits for does not begin; one that has begun goes on. */
KILN_API void kiln_cancel(kiln_queue *queue, kiln_ticket ticket);

/* ---- Ops and templates ------------------------------------------------------------------------------------------- */

/* An op. All of it is borrowed for the callback. */
typedef struct kiln_op_info {
    size_t size;
    const char *name;       /* "hardtanh" */
    const char *signature;  /* "hardtanh(x; lo=-1, hi=1)" */
    const char *definition; /* the signature, '=' and the expression */
    const char *doc;        /* lines that end with '\n' */
    const char *nan;        /* on NaN, infinities and signed zeros, likewise; "": nothing is said */
    const char *elsewhere;  /* on other definitions of the name, likewise */
    const char *functions;  /* that have other bits on the cpu than CUDA's, "exp 4 ulp, erf 4 ulp": how far they may be
                               apart with math=torch; "sums" first: it adds in another order; "": GPU and cpu have the
                               same bits */
    const char *fast_functions; /* of which math=fast takes a fast form on a GPU, "div 2 ulp": how far that may be from
                                   the true value, of exp_add that of its exp; "": none */
    int portable;               /* 1: math=portable can build it */
    int whole_only;             /* 1: it takes whole numbers alone */
    int truth;                  /* 1: it is a comparison, so that its first output is bool */
    int reduces;                /* 1: it reduces an axis, as softmax does: its kernels take rows and columns */
    uint32_t inputs, params, outputs;
    const char *origin; /* "": Kiln's; "defined": user-defined */
} kiln_op_info;
typedef int (*kiln_op_fn)(void *data, const kiln_op_info *op);

/* Calls `fn` with each op, Kiln's first. Errors: KILN_EINVAL, KILN_ENOMEM. */
KILN_API kiln_status kiln_ops(kiln_service *service, kiln_op_fn fn, void *data);

/* A parameter of a template. */
typedef struct kiln_field_info {
    size_t size;
    const char *name;          /* "block" */
    const char *values;        /* "32..1024 step 32" or "plain,stream" */
    const char *default_value; /* as declared: a value or a formula */
    const char *doc;
    const char *tune; /* values for tuning: lines "64..1024*2 if sm > 0" that end with '\n'; the first that holds
                         counts; "": the template declares none */
} kiln_field_info;

/* How far results may be apart and still agree:
 *
 *     |got - want| <= ulp * (the unit in the last place of want, in the array's dtype) + relative * |want| + absolute
 *
 * calculated in double. Bounds are finite and 0 or more. Two NaN agree, +0 and -0 agree, and an infinity agrees with
 * itself alone. If all bounds are 0, elements agree if their bits are equal or both are NaN. Arrays of whole numbers
 * always compare exactly. KILN_INIT sets all bounds to 0. */
typedef struct kiln_tolerance {
    size_t size;
    double ulp, relative, absolute;
} kiln_tolerance;

/* A template. All of it is borrowed for the callback. */
typedef struct kiln_template_info {
    size_t size;
    const char *name;
    const char *doc;
    const char *text;                     /* the whole .cu text */
    const char *origin;                   /* "": Kiln's; else the path of its file, or "defined" */
    const char *lets;                     /* names in the formulas below: lines "NAME = FORMULA -- MEANING" */
    const char *requirements;             /* lines "FORMULA -- MEANING" that end with '\n' */
    const char *bounds;                   /* the same; they bind only tuning */
    const char *reference;                /* the op that computes the same; "": none is declared */
    uint32_t min_inputs, max_inputs;      /* of the op; both 0: the template takes no op */
    int has_twin;                         /* 1: it runs on the cpu too */
    const kiln_field_info *const *fields; /* the template's parameters */
    size_t field_count;
    const kiln_signature *signature; /* as kiln_spec_signature gives it for an op of max_inputs inputs */
    const char *dtypes;              /* "f32, f64": those that it takes, the first where a spec names none */
    const char *block[3];            /* formulas of the parameters: threads in each direction */
    const char *shared;              /* of dynamic shared memory, in bytes; "": none */
    const char *tile;                /* of the elements per block; "": none is declared */
    const kiln_tolerance *tolerance; /* that it declares for its results; NULL: none, they agree bit for bit */
} kiln_template_info;
typedef int (*kiln_template_fn)(void *data, const kiln_template_info *info);

/* Calls `fn` with each template, Kiln's first. Errors: KILN_EINVAL, KILN_ENOMEM. */
KILN_API kiln_status kiln_templates(kiln_service *service, kiln_template_fn fn, void *data);

/* Defines an op for the life of the service: "NAME(x, y; p=1) = EXPRESSION", with up to eight inputs and eight
 * parameters. docs/ops.md has the language. An equal definition again does nothing.
 * Errors: KILN_EOP (the report says what and where; a name that is taken; more than 1024 ops), KILN_ENOMEM. */
KILN_API kiln_status kiln_op_define(kiln_service *service, const char *definition, kiln_report *report);

/* Defines a template for the life of the service, from a .cu text with declarations and the text of its cpu twin (may
 * be NULL). docs/templates.md has the declarations. Specs name it, template=NAME. Equal texts again do nothing. *name
 * (may be NULL) gets the declared name, which lives until kiln_close. A worker compiles the text, as
 * kiln_options.isolate says, but the kernel runs with the host's rights: define only trusted text.
 * Errors: KILN_ESPEC (the report says what and where; a name that is taken; more than 256 templates), KILN_ENOMEM. */
KILN_API kiln_status kiln_template_define(kiln_service *service, const char *text, const char *cpu_text,
                                          const char **name, kiln_report *report);

/* Defines a template as kiln_template_define does, from the file `path`, which ends in .cu. A file beside it that ends
 * in .c instead is its cpu twin. Blocks to read both.
 * Errors: those of kiln_template_define, KILN_EINVAL (another ending), KILN_ENOENT (no such file), KILN_EIO. */
KILN_API kiln_status kiln_template_load(kiln_service *service, const char *path, const char **name,
                                        kiln_report *report);

/* ---- Manifests: lists of specs ----------------------------------------------------------------------------------- */

/* The text of a manifest, as `kiln warm` and a record have it; see docs/spec.md. A line defines an op or a template,
 * or stands for specs as in kiln_spec_expand, and may name templates by the paths of their files. Relative paths start
 * at the current working directory. */
typedef struct kiln_manifest {
    size_t size;
    const char *text;
    size_t length;      /* bytes of the text; 0: up to its NUL */
    const char *name;   /* file name for messages; NULL: "manifest" */
    const char *target; /* of specs that name none: "sm_90", a list, "all", "native"; NULL: they leave it open */
} kiln_manifest;

/* A spec, a definition or a skipped line. All of it is borrowed for the callback. */
typedef struct kiln_manifest_line {
    size_t size;
    size_t number;          /* of the line, from 1 */
    const kiln_spec *spec;  /* one of those that the line stands for; NULL: none */
    const char *definition; /* made just now, as a line of a manifest: "define op twice(x) = x + x"; "": none */
    kiln_status status;     /* the fault of a skipped line; else KILN_OK */
    const char *problem;    /* the same in words; "": none */
    int recorded;           /* 1: the manifest is a record, whose wrong lines are skipped */
} kiln_manifest_line;
typedef int (*kiln_manifest_fn)(void *data, const kiln_manifest_line *line);

/* Reads a manifest: makes its definitions, for the life of the service, and calls `fn` with each definition and each
 * spec, in order. Compiles nothing: `fn` may submit or get each spec with KILN_BUILD, and so warm the stores. All specs
 * of a line are checked before the first call with one. Blocks to read the files of templates: read only trusted text.
 *
 * A wrong line ends the call. The report names it, "kernels.txt:3: unknown op ...", and calls and definitions of
 * earlier lines stay. In a record, a text that begins with "# kiln record", `fn` gets the fault, and the next line
 * follows.
 * Errors: those of kiln_spec_expand, kiln_op_define and kiln_template_load. */
KILN_API kiln_status kiln_manifest_read(kiln_service *service, const kiln_manifest *manifest, kiln_manifest_fn fn,
                                        void *data, kiln_report *report);

#ifdef __cplusplus
}
#endif
#endif
