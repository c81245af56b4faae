/* From a line of text to a launched kernel.
 *
 *     text -> spec ---+
 *     CUDA text ------+--> request -> program -> kernel -> launch
 *
 * A spec says what is wanted of a template: "op=hardtanh(-1,1) dtype=f16 block=256". A source (<kiln/source.h>) is CUDA
 * text of the host. A request for either gives a program: compiled code, loaded on a device. A kernel is a function of
 * a program with a signature: sizes, arguments, grid. All of them are immutable. */
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

/* Makes another spec: `spec` with some fields replaced by those of a line, "block=256 elems=4". "block=" leaves a field
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

/* The arguments that a kernel takes. A template declares them; the driver and the PTX tell those of a function of a
 * CUDA source. Lives as long as the spec or kernel that it came from. */
typedef struct kiln_signature {
    size_t size;
    const char *const *sizes; /* names of the numbers that are known at launch only */
    size_t size_count;
    const kiln_param *const
        *params; /* in the order of the kernel's parameters; NULL: neither the driver nor PTX tells */
    size_t param_count;
    const char *grid[3]; /* formulas of the sizes, "(n + 511) / 512"; NULL: kiln_launch takes a grid */
} kiln_signature;

/* The signature that a spec's template declares, for its op and its type: formulas stand as they are written, and
 * may name parameters. Where the op is open there are no inputs of it; where the type is open it is the template's
 * first. Lives as long as the spec. Any thread. Errors: KILN_EINVAL, KILN_ENOMEM. */
KILN_API kiln_status kiln_spec_signature(const kiln_signature **out, const kiln_spec *spec, kiln_report *report);

/* Calculates the shape of an array for such sizes. `index` counts in params; the entries behind the last dimension are
 * 1.
 * Errors: KILN_EINVAL (count, overflow, division by zero), KILN_ENOENT (no such array). */
KILN_API kiln_status kiln_signature_shape(uint64_t out[KILN_DIMS_MAX], const kiln_signature *signature, uint32_t index,
                                          const uint64_t *sizes, size_t size_count, kiln_report *report);

/* ---- Request: get a program ------------------------------------------------------------------------------------- */

typedef enum kiln_goal {
    KILN_LOAD = 0, /* a program on a device */
    KILN_BUILD     /* compiled code in the stores and in memory; needs no GPU */
} kiln_goal;

/* Exactly one of spec and source is set. */
typedef struct kiln_request {
    size_t size;
    const kiln_spec *spec;
    const kiln_source *source;
    kiln_device *device; /* NULL: the default device, or the cpu where the spec says target=cpu */
    kiln_goal goal;      /* to build, the target may be any that the compiler knows, whatever the device is */
    kiln_switch
        strict; /* KILN_ON: what would have to be compiled is KILN_ESTRICT; a strict service refuses it anyway */
} kiln_request;

/* Compiled code, and the functions and variables in it. Reference-counted: each get gives one reference, which
 * kiln_program_release gives back. Two gets of one program may give the same pointer. */
typedef struct kiln_program kiln_program;

/* A function of a program, with its signature. Reference-counted. The code is unloaded when the program and all
 * references to its kernels are gone, the service's among them: no launch may run then. */
typedef struct kiln_kernel kiln_kernel;

/* Gets the program of a request: one that is loaded, else one that a store has, else a new one. It blocks about 0.1 us
 * for a loaded program, tens of us for a stored one, and tens of milliseconds for a compile, which runs on this thread.
 * The first use of a GPU or of a compiler takes longer. The files that a source reads are looked at by every call.
 *
 * Open fields of the spec are chosen: geometry by the wisdom of the moment for the device, or for the target where no
 * device of it is open, else by the defaults of the template. To build is to choose alike, so that a warmed cache is
 * hit.
 *
 * The service holds what it has loaded for later gets: kiln_options.loaded_max programs, the least recently used
 * first out. It lets go of a program only when the caller holds no reference to it or its kernels and all work of
 * the device is done.
 *
 * A source is found again as long as its text, its options and the contents of every file that it read are the same,
 * wherever those files lie. Under KILN_ISOLATE_NEVER it may name no include directories, and what it gives stays in the
 * memory of the service.
 *
 * It needs 64 KiB of stack besides what the CUDA driver takes, the other functions 128 KiB at most.
 * Errors: those of kiln_spec_parse, KILN_EINVAL (the request; a device of another service; a refused compile option),
 * KILN_ETARGET (also: the code is for another device), KILN_ENODRIVER, KILN_ENODEVICE, KILN_ENOCOMPILER, KILN_ECOMPILE
 * (the report has the compiler's log), KILN_ENOWORKER, KILN_ECRASHED, KILN_ELOAD, KILN_EDEVICE, KILN_EIO (no room for
 * temporary files; files of the source change or cannot be read), KILN_ESTRICT, KILN_ENOMEM. A fault of a store is
 * never an error. */
KILN_API KILN_MUST_USE kiln_status kiln_get(kiln_program **out, kiln_service *service, const kiln_request *request,
                                            kiln_report *report);
KILN_API void kiln_program_release(kiln_program *program);

/* Gets the kernel of a spec on the default device: kiln_get and kiln_program_kernel. The caller owns one reference, and
 * kiln_kernel_release gives it back. Blocks as kiln_get does, with its errors. */
KILN_API KILN_MUST_USE kiln_status kiln_get_kernel(kiln_kernel **out, kiln_service *service, const kiln_spec *spec,
                                                   kiln_report *report);

typedef enum kiln_origin {
    KILN_ORIGIN_COMPILED = 0, /* compiled for this request */
    KILN_ORIGIN_MEMORY,
    KILN_ORIGIN_DISK,
    KILN_ORIGIN_PACK,
    KILN_ORIGIN_SHARED
} kiln_origin;

/* A compiled function. */
typedef struct kiln_function_info {
    size_t size;
    const char *name;   /* as it was asked for */
    const char *symbol; /* its name in the code */
    int registers;      /* per thread; -1: the code does not tell, as the next two */
    int local_bytes;    /* per thread: local arrays and spilled registers */
    int shared_bytes;   /* static, per block */
} kiln_function_info;

/* Strings and functions live as long as the program. */
typedef struct kiln_program_info {
    size_t size;
    const char *spec;                           /* canonical text with every field set; of a source its name */
    const char *target;                         /* "sm_90" or "cpu" */
    const char *device;                         /* "cuda:0"; "": it is not loaded */
    kiln_origin origin;                         /* where the service first had it from */
    const char *origin_name;                    /* "compiled", "memory", "disk", "pack" or "shared" */
    double compile_ms;                          /* in the compiler; 0: not compiled */
    const kiln_function_info *const *functions; /* and the variables of a source's function list, "&table" */
    size_t function_count;
} kiln_program_info;

/* Fills *out, whose size field must be set. Any thread. Errors: KILN_EINVAL, KILN_ENOMEM. */
KILN_API kiln_status kiln_program_get_info(const kiln_program *program, kiln_program_info *out);

/* Finds a kernel by the name that the source asked for, or by its symbol; NULL: the only one. The caller owns one
 * reference, which keeps all of the program loaded. Errors: KILN_ENOENT (the report names those that there are; the
 * program was built only). */
KILN_API KILN_MUST_USE kiln_status kiln_program_kernel(kiln_kernel **out, kiln_program *program, const char *name,
                                                       kiln_report *report);

/* Gives the address and the size (may be NULL) of a __constant__, __device__ or __managed__ variable in the primary
 * context of the device, which kernels that use it must be launched in. `name` may have the '&' of the source's
 * function list. A variable in a namespace, or one that no function uses, must be in that list, as "&ns::table".
 * Errors: KILN_ENOENT, KILN_ENODRIVER (the driver is too old). */
KILN_API kiln_status kiln_program_global(void **out, size_t *bytes, kiln_program *program, const char *name,
                                         kiln_report *report);

/* Gives one section of the compiled code of a program that was requested with KILN_BUILD: "cubin", "ptx", "log",
 * "names" (symbols, one a line), "key"; on the cpu "object" in the place of the first two; of a source also
 * "functions" (as it asked for them). The bytes live as long as the program. A NUL follows those of a text, which
 * *length does not count. Errors: KILN_ENOENT. */
KILN_API kiln_status kiln_program_section(const void **out, size_t *length, const kiln_program *program,
                                          const char *name);

/* ---- Kernel ----------------------------------------------------------------------------------------------------- */

/* Adds a reference and returns its argument; gives one back. */
KILN_API kiln_kernel *kiln_kernel_retain(kiln_kernel *kernel);
KILN_API void kiln_kernel_release(kiln_kernel *kernel);

/* Facts about a kernel. Everything lives as long as it does. */
typedef struct kiln_kernel_info {
    size_t size;
    const char *name;   /* of a function of a source as it was asked for; of a spec the first entry of the template */
    const char *symbol; /* its name in the code */
    const char *spec;   /* canonical text, every field set; of a source its name */
    const char *device; /* "cuda:0" or "cpu" */
    kiln_origin origin; /* where the service first had it from */
    const char *origin_name;
    double compile_ms; /* in the compiler; 0: not compiled */
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

/* kiln_launch_n of the kernel that a spec's text means on the default device. The first call with a text parses it
 * and gets the kernel, and blocks as kiln_get does. A later one costs about 0.1 us more than kiln_launch_n. A text
 * means the same kernel as long as the service keeps it, whatever tuning finds; the cap on loaded programs counts
 * its program. With n = 0 the kernel is only loaded, and the arrays may be NULL. In a stream that is being captured,
 * a kernel that is not loaded is KILN_ECAPTURE, and the capture goes on; for the life of a graph hold the kernel by
 * kiln_get_kernel. Errors: those of kiln_spec_parse, kiln_get and kiln_launch, KILN_ECAPTURE. */
KILN_API kiln_status kiln_call(kiln_service *service, const char *spec, uint64_t n, void *const *outs, size_t out_count,
                               const void *const *ins, size_t in_count, void *stream, kiln_report *report);

/* ---- Queue: programs without waiting ---------------------------------------------------------------------------- */

/* Where finished requests wait for a thread of the host. Any thread may submit and cancel. One thread at a time waits,
 * attaches and closes. A queue may outlive its service. */
typedef struct kiln_queue kiln_queue;

/* The number of a submitted request, never used twice in a process. */
typedef uint64_t kiln_ticket;

/* Makes a queue, which needs three descriptors. Errors: KILN_EINVAL, KILN_ENOMEM, KILN_EIO (no descriptors). */
KILN_API KILN_MUST_USE kiln_status kiln_queue_open(kiln_queue **out, kiln_service *service, kiln_report *report);

/* Lets a loop of the libuv that Kiln is linked with run the callbacks; a host with a libuv of its own inside polls
 * kiln_queue_fd. Called once, on the loop's thread, which then does not call kiln_queue_wait. The queue keeps the loop
 * alive while it has requests. The callback of kiln_queue_close must have come before the loop is closed.
 * Errors: KILN_EINVAL, KILN_ENOMEM, KILN_EIO (libuv refused). */
KILN_API KILN_MUST_USE kiln_status kiln_queue_attach_uv(kiln_queue *queue, struct uv_loop_s *loop, kiln_report *report);

/* For a host with another loop: a descriptor that is readable while a callback is due. It is only for polling. */
KILN_API int kiln_queue_fd(const kiln_queue *queue);

/* Runs the callbacks that are due, on this thread, and returns how many. Where none is due it waits for one, at most
 * `timeout_ms` (0: not at all; below 0: for ever). Returns 0 at once where the queue has no requests. */
KILN_API int kiln_queue_wait(kiln_queue *queue, int timeout_ms);

/* Closes a queue. Every request that is left ends, with KILN_ECANCELED unless it was done; then fn(data) is called (fn
 * may be NULL), and the queue is gone. On a libuv loop the loop does this soon. Inside a callback of the queue the
 * kiln_queue_wait around it does it. Otherwise it is done when the call returns. */
typedef void (*kiln_queue_fn)(void *data);
KILN_API void kiln_queue_close(kiln_queue *queue, kiln_queue_fn fn, void *data);

typedef struct kiln_submit_options {
    size_t size;
    int priority;        /* higher ones are compiled first; 0: ordinary */
    uint32_t timeout_ms; /* from now to the callback's being due; then the request ends with KILN_ETIMEDOUT; 0: none */
} kiln_submit_options;

/* The end of a request, with the statuses of kiln_get, KILN_ECANCELED or KILN_ETIMEDOUT. The callback owns `program`,
 * NULL on failure. `report` is never NULL. */
typedef void (*kiln_done_fn)(void *data, kiln_status status, kiln_program *program, const kiln_report *report);

/* Does what kiln_get does, on threads of the service, and returns at once: it reads no file, opens no driver and
 * compiles nothing inside the call. The request, its spec and its source are copied; relative include directories start
 * from the working directory of now. The queue calls `done` exactly once, never inside this call, unless the call
 * itself fails. *out (may be NULL) is set before that.
 * Errors: KILN_EINVAL, KILN_ENOMEM, KILN_ECANCELED (the queue or its service is closed). */
KILN_API kiln_status kiln_submit(kiln_ticket *out, kiln_queue *queue, const kiln_request *request,
                                 const kiln_submit_options *options, kiln_done_fn done, void *data,
                                 kiln_report *report);

/* Gives up a request: it ends with KILN_ECANCELED. Does nothing where the callback was due or has come already. A
 * compile that no other request waits for is not begun; one that has begun goes on. */
KILN_API void kiln_cancel(kiln_queue *queue, kiln_ticket ticket);

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
    size_t size;
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
    const char *text;                     /* the template's whole text */
    const char *origin;                   /* "" for Kiln's own, else where it comes from: a path, or "defined" */
    const char *requirements;             /* lines "FORMULA -- what it means" that end with '\n' */
    const char *bounds;                   /* the same; only tuning keeps to them */
    const char *reference;                /* the op that computes the same, as the template declares it, or "" */
    uint32_t min_inputs, max_inputs;      /* of the op; both 0: it takes none */
    int has_twin;                         /* 1: it runs on the cpu too */
    const kiln_field_info *const *fields; /* its parameters */
    size_t field_count;
    const kiln_signature *signature; /* as kiln_spec_signature gives it where the op is open */
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
