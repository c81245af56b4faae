/* Kiln: turn kernel templates into specialised, cached, launchable kernels at run time.
 *
 * The story, top to bottom:
 *
 *     kiln_service *service;             owns caches, compilers, devices and loaded kernels
 *     kiln_spec *spec;                   what is wanted: "op=hardsigmoid dtype=f32"
 *     kiln_kernel *kernel;               a loaded kernel, shared and reference-counted
 *
 *     kiln_open(&service, NULL, NULL);
 *     kiln_spec_parse(&spec, service, "op=hardsigmoid dtype=f32", NULL);
 *     kiln_get(&kernel, service, spec, NULL);
 *     kiln_launch(kernel, n, out, inputs, NULL, NULL);
 *
 * Rules that hold everywhere:
 *   - Functions return a kiln_status: KILN_OK (0) or a negative KILN_E... value. Results come through the first
 *     parameter, `out`, which is set to NULL on failure.
 *   - The last parameter of a function that can fail in an interesting way is a kiln_report: pass NULL, or a report
 *     made with KILN_REPORT_INIT to learn what was wrong, what was expected and what to do.
 *   - The library never prints, never exits, installs no signal handler and keeps no thread-local error.
 *   - Numbers in text use '.' as the decimal point whatever the locale.
 *   - Results do not depend on the caller's floating-point environment, and calls leave it as it is: see docs/embedding.md.
 *   - exit() waits for compiles in progress in the process; from then on they are refused with KILN_ECANCELED.
 *   - pthread_cancel takes effect after a call (and while kiln_queue_wait waits). It must not be asynchronous.
 *   - A thread that calls Kiln needs 128 KiB of stack, besides what the CUDA driver takes; for gets and launches 64 KiB do.
 *   - Only standard headers are needed; C11 and C++ both read this file.
 *
 * Beside it: <kiln/define.h> ops and templates of one's own, <kiln/source.h> CUDA text of the host's own, <kiln/tune.h> the
 * search for the fastest geometry, <kiln/wisdom.h> what it found, <kiln/live.h> handles whose kernel gets better. */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_VERSION_MAJOR 0
#define KILN_VERSION_MINOR 1
#define KILN_VERSION_PATCH 0

#if defined(__GNUC__)
#define KILN_API      __attribute__((visibility("default")))
#define KILN_MUST_USE __attribute__((warn_unused_result))
#else
#define KILN_API
#define KILN_MUST_USE
#endif

/* ---- Status --------------------------------------------------------------------------------------------------- */

/* Every status, its value and its meaning. The one list from which the enum, the names and docs/errors.md come. */
#define KILN_STATUS_MAP(X)                                                      \
    X(EINVAL, -1, "invalid argument")                                           \
    X(ENOMEM, -2, "out of memory")                                              \
    X(ESPEC, -3, "malformed or impossible spec")                                \
    X(EOP, -4, "unknown or misused operation")                                  \
    X(ETARGET, -5, "unknown target, or one that cannot be built or run here")   \
    X(ENODRIVER, -6, "no usable CUDA driver")                                   \
    X(ENODEVICE, -7, "no such device")                                          \
    X(ENOCOMPILER, -8, "no usable compiler")                                    \
    X(ECOMPILE, -9, "compilation failed")                                       \
    X(ELOAD, -10, "the compiled image could not be loaded")                     \
    X(ELAUNCH, -11, "the launch was refused")                                   \
    X(EDEVICE, -12, "a device operation failed")                                \
    X(EOVERLAP, -13, "output and input partly overlap")                         \
    X(EALIGN, -14, "a pointer is not aligned to its elements")                  \
    X(EIO, -15, "input or output error")                                        \
    X(ENOENT, -16, "not found")                                                 \
    X(ESTRICT, -17, "strict mode refuses to compile")                           \
    X(ECANCELED, -18, "cancelled")                                              \
    X(ETIMEDOUT, -19, "not done by its deadline")                               \
    X(ENOWORKER, -20, "no usable compile worker")                               \
    X(ECRASHED, -21, "the compiler crashed or ran into a limit on this source") \
    X(ECAPTURE, -22, "a graph is being captured and the kernel is not loaded")  \
    X(EMISMATCH, -23, "a kernel does not compute what it should")               \
    X(EPENDING, -24, "there is no kernel yet")

typedef enum kiln_status {
    KILN_OK = 0,
#define KILN_STATUS_ENUM(name, value, text) KILN_##name = value,
    KILN_STATUS_MAP(KILN_STATUS_ENUM)
#undef KILN_STATUS_ENUM
} kiln_status;

/* The library's version, "MAJOR.MINOR.PATCH". A static string; any thread. */
KILN_API const char *kiln_version(void);

/* "KILN_EINVAL" and "invalid argument". Static strings, never NULL, also for unknown values; any thread. */
KILN_API const char *kiln_status_name(kiln_status status);
KILN_API const char *kiln_status_text(kiln_status status);

/* ---- Report: what went wrong ---------------------------------------------------------------------------------- */

/* Filled by a failing call, owned by the caller. One thread at a time. A successful call leaves it as it was, except
 * that a compile with warnings sets `log`. */
typedef struct kiln_report {
    size_t size;        /* sizeof(kiln_report): set by KILN_REPORT_INIT */
    kiln_status status; /* what the call returned */
    const char *stage;  /* "spec", "compile", "load", "launch", "device", "store" or "open"; a static string */
    int native;         /* the driver's, NVRTC's or errno's own code, 0 if none */
    char message[512];  /* one line: what was wrong, what was expected, what to do */
    char *log;          /* the compiler's log or NULL; freed by kiln_report_clear */
} kiln_report;

#define KILN_REPORT_INIT                              \
    {                                                 \
        sizeof(kiln_report), KILN_OK, "", 0, "", NULL \
    }

/* Frees what the report holds and makes it as new. NULL is allowed. */
KILN_API void kiln_report_clear(kiln_report *report);

/* ---- Service: the long-lived object --------------------------------------------------------------------------- */

/* Thread-safe: any thread may use one service at any time, except that kiln_close must be the last call. */
typedef struct kiln_service kiln_service;

typedef enum kiln_log_level { KILN_LOG_ERROR = 1, KILN_LOG_WARN, KILN_LOG_INFO, KILN_LOG_DEBUG } kiln_log_level;

/* Receives log lines, without a newline. May be called from any thread that is inside a Kiln call, from several at
 * once; `message` is borrowed for the call. Must neither call Kiln nor fork. */
typedef void (*kiln_log_fn)(void *data, kiln_log_level level, const char *message);

/* Where NVRTC compiles: in this process, or in child processes (compile workers) that a source can crash or keep busy without
 * harm to this one. See docs/embedding.md. */
typedef enum kiln_isolate {
    KILN_ISOLATE_AUTO = 0, /* source from elsewhere in workers; Kiln's own here, but of many at once most in workers */
    KILN_ISOLATE_ALWAYS,   /* everything in a worker; this process never opens NVRTC */
    KILN_ISOLATE_NEVER     /* everything here */
} kiln_isolate;

/* Zero in a field means the default. Copied by kiln_open, strings included. */
typedef struct kiln_options {
    size_t size;           /* sizeof(kiln_options): set by KILN_OPTIONS_INIT */
    const char *device;    /* "cuda:0", "cpu"; NULL: KILN_DEVICE, else "cuda:0" if there is one, else "cpu"; a
                              driver that is there or was named and does not work is an error, not "cpu" */
    const char *cache_dir; /* the user's store; NULL: KILN_CACHE_DIR, else kiln under the XDG cache directory;
                                 "" keeps nothing on disk */
    const char *nvrtc;     /* path of libnvrtc; NULL: KILN_NVRTC, else searched */
    const char *libcuda;   /* path of libcuda; NULL: KILN_LIBCUDA, else libcuda.so.1 */
    const char *cc;        /* C compiler of the cpu backend; NULL: KILN_CC, else "cc" */
    size_t memory_bytes;   /* bound of the memory store; 0: 64 MiB */
    kiln_log_fn log;       /* NULL: no log */
    void *log_data;
    kiln_log_level log_level; /* lines above this level are not made; 0: KILN_LOG, else KILN_LOG_WARN */
    const char *packs;        /* packs to read, paths with ':' between, asked in this order; NULL: KILN_PACKS */
    const char *shared_dir;   /* a store that others fill, only read; NULL: KILN_SHARED_DIR */
    uint64_t cache_bytes;     /* cap of the user's store; 0: KILN_CACHE_BYTES, else 4 GiB; UINT64_MAX: none */
    uint64_t cache_files;     /* its cap in entries; 0: 262144; UINT64_MAX: none */
    const char *record;       /* file to which each distinct spec asked for is added, see docs/spec.md; NULL:
                                 KILN_RECORD, else none; "" is none */
    int strict;               /* 1: what would have to be compiled is refused with KILN_ESTRICT; -1: it is compiled;
                                 0: KILN_STRICT, else -1 */
    uint32_t lock_wait_ms;    /* longest wait for another process that compiles the same kernel; 0: 30 s. While this
                                 process is stopped, or the machine, no time of it passes */
    int isolate;              /* a kiln_isolate; 0: KILN_ISOLATE (auto, always, never), else auto */
    const char *worker;       /* path of the program kiln-worker; NULL: KILN_WORKER, else found beside the library */
    uint32_t worker_time_ms;  /* longest compile in a worker; 0: 60 s */
    uint64_t worker_memory_bytes; /* address space that a worker may use; 0: 4 GiB */
    const char *crash_dir; /* directory that keeps sources that killed a worker; NULL: KILN_CRASH_DIR, else none */
    int wisdom; /* 1: what tuning found chooses open geometry; -1: the templates' defaults do, always the same; 0:
                   KILN_WISDOM (on, off), else 1 */
} kiln_options;

#define KILN_OPTIONS_INIT                                                                                             \
    {                                                                                                                 \
        sizeof(kiln_options), NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, (kiln_log_level)0, NULL, NULL, 0, 0, NULL, \
            0, 0, 0, NULL, 0, 0, NULL, 0                                                                              \
    }

/* Makes a service. Touches no GPU, opens no driver and no compiler: those are found when first needed. A cache
 * directory that cannot be used is not an error, nor is a pack or a shared directory: it is logged once and the service
 * works without it.
 * Errors: KILN_EINVAL (a field that cannot be right), KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_open(kiln_service **out, const kiln_options *options, kiln_report *report);

/* Frees the service and what it owns. Specs, artifacts and devices of this service must not be used afterwards;
 * kernels still retained elsewhere stay valid until released. Waits for compiles of asynchronous gets that have begun.
 * Queues outlive the service: what is pending is delivered as KILN_ECANCELED by their next dispatch or close.
 * NULL is allowed. */
KILN_API void kiln_close(kiln_service *service);

/* What a service has done since it was opened. Counters only grow. */
typedef struct kiln_stats {
    size_t size;          /* sizeof(kiln_stats): set by the caller */
    uint64_t gets;        /* calls of kiln_get, kiln_get_async, kiln_build, and for programs */
    uint64_t hits_kernel; /* answered by an already loaded kernel */
    uint64_t hits_memory; /* answered by the memory store */
    uint64_t hits_disk;   /* answered by the directory store */
    uint64_t compiles;    /* compilations that succeeded */
    uint64_t compile_failures;
    uint64_t compile_ns;      /* time spent compiling, successes and failures */
    uint64_t loads;           /* images loaded */
    uint64_t ptx_loads;       /* of those, images the driver had to translate from PTX */
    uint64_t store_damaged;   /* entries refused: checksum, length, format or key did not match */
    uint64_t store_untrusted; /* entries refused: foreign owner, link, special file, writable by others */
    uint64_t store_errors;    /* reads and writes that failed: no space, no permission, ... */
    uint64_t hits_pack;       /* answered by a pack */
    uint64_t hits_shared;     /* answered by the shared directory */
    uint64_t evictions;       /* entries removed from the directory store to keep it within its caps */
    uint64_t strict_refusals; /* compiles that strict mode refused */
    uint64_t record_errors;   /* specs that could not be added to the record */
    uint64_t joined;          /* gets and builds answered by a compile that was already in progress in this service */
    uint64_t lock_waits;      /* compiles that first waited for another process that made the same kernel */
    uint64_t lock_timeouts;   /* of those, waits that outlasted lock_wait_ms: it was compiled all the same */
    uint64_t lock_errors;     /* compiles without the host's lock, because the file system gave none */
    uint64_t cancelled;       /* asynchronous gets delivered as KILN_ECANCELED */
    uint64_t timed_out;       /* asynchronous gets delivered as KILN_ETIMEDOUT */
    /* Gets and builds that no store answered, by reason; each counts once, among the first four. */
    uint64_t misses_absent;    /* no store had it */
    uint64_t misses_damaged;   /* it was there, but damaged */
    uint64_t misses_untrusted; /* it was there, but not to be trusted */
    uint64_t misses_error;     /* a store could not be read */
    uint64_t misses_refused;   /* stored kernels that were there and did not load: another was looked for or made */
    uint64_t load_ns;          /* time spent loading images, successes and failures */
    uint64_t worker_starts;    /* compile workers started */
    uint64_t worker_crashes;   /* of those, such as died of a source */
    uint64_t worker_timeouts;  /* of those, such as were killed because a compile took too long */
} kiln_stats;

#define KILN_STATS_INIT                                                                                               \
    {                                                                                                                 \
        sizeof(kiln_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0                                                                                                      \
    }

/* Copies the counters into *out, whose size field must be set. Any thread; the counters are read one by one. */
KILN_API kiln_status kiln_stats_get(const kiln_service *service, kiln_stats *out);

/* ---- Spec: what is wanted ------------------------------------------------------------------------------------- */

/* A spec is one line of text, "op=hardtanh(-1,1) dtype=f32 block=256 target=sm_90": see docs/spec.md. Fields not set
 * mean "you choose". One thread at a time may change a spec; any number may read it. */
typedef struct kiln_spec kiln_spec;

/* Makes an empty spec. Errors: KILN_EINVAL, KILN_ENOMEM. Freed by kiln_spec_free. */
KILN_API KILN_MUST_USE kiln_status kiln_spec_new(kiln_spec **out, kiln_service *service);

/* Makes a spec from its text. `text` is borrowed for the call.
 * Errors: KILN_ESPEC (syntax, unknown field or value, a broken constraint), KILN_EOP, KILN_ETARGET, KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_spec_parse(kiln_spec **out, kiln_service *service, const char *text,
                                                   kiln_report *report);

/* Sets one field, "block" to "256"; NULL or "" unsets it. On failure the spec is unchanged. Errors: as for parse. */
KILN_API kiln_status kiln_spec_set(kiln_spec *spec, const char *field, const char *value, kiln_report *report);

/* Writes the value of one field into buffer, always terminated if size > 0; *length (may be NULL) gets its full
 * length. An unset field has an empty value. Errors: KILN_ENOENT (no such field in the spec's template). */
KILN_API kiln_status kiln_spec_get(const kiln_spec *spec, const char *field, char *buffer, size_t size, size_t *length);

/* Writes the canonical text, as snprintf does: equal specs have equal text. *length (may be NULL) gets the full
 * length. Any thread. */
KILN_API kiln_status kiln_spec_format(const kiln_spec *spec, char *buffer, size_t size, size_t *length);

/* How many input arrays the spec's op reads, 1 to 3; 0 while it has no op. Any thread. */
KILN_API uint32_t kiln_spec_inputs(const kiln_spec *spec);

/* Frees a spec. NULL is allowed. */
KILN_API void kiln_spec_free(kiln_spec *spec);

/* Called for each spec of a product; the spec is borrowed for the call. Non-zero stops. */
typedef int (*kiln_spec_fn)(void *data, kiln_spec *spec);

/* Parses a line whose fields may be lists and ranges, "dtype=f32,f16 block=64..1024*2 target=all", and calls fn with
 * each spec that it stands for, in the order written, the last field fastest. "target=all" means every target the
 * found NVRTC builds, "target=native" the default device's. Every spec is checked before the first call.
 * Returns KILN_OK also when fn stopped. Errors: as for parse, and KILN_ENOCOMPILER for "target=all". */
KILN_API kiln_status kiln_spec_expand(kiln_service *service, const char *line, kiln_spec_fn fn, void *data,
                                      kiln_report *report);

/* ---- Kernel: get, launch, release ----------------------------------------------------------------------------- */

/* A loaded, specialised kernel. Immutable and reference-counted: any thread may launch, retain and release. */
typedef struct kiln_kernel kiln_kernel;

/* A GPU or the cpu. Owned by its service, opened once by kiln_device_open, valid until kiln_close; any thread. */
typedef struct kiln_device kiln_device;

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
 * The caller owns one reference; see kiln_release. The service keeps one of its own until kiln_close, so that the next
 * get of an equal spec finds the kernel (about 0.1 microseconds). `spec` is borrowed and not changed.
 * Errors: those of kiln_spec_parse, KILN_ETARGET (also: the kernel is for another GPU), KILN_ENODRIVER, KILN_ENODEVICE,
 * KILN_ENOCOMPILER, KILN_ECOMPILE, KILN_ENOWORKER, KILN_ECRASHED, KILN_ELOAD, KILN_EDEVICE, KILN_EIO (no room for
 * temporary files), KILN_ESTRICT (strict mode, and it would have to be compiled), KILN_ENOMEM. A fault of a store is never an error. */
KILN_API KILN_MUST_USE kiln_status kiln_get(kiln_kernel **out, kiln_service *service, const kiln_spec *spec,
                                            kiln_report *report);

/* The same for a device of the service's: a GPU, or the cpu; NULL for the default device. A kernel belongs to its device,
 * so each device has one of its own; GPUs of one kind share what is compiled and stored.
 * Errors: those of kiln_get, KILN_EINVAL (another service's device), KILN_ETARGET (the spec's target is not for it). */
KILN_API KILN_MUST_USE kiln_status kiln_get_on(kiln_kernel **out, kiln_service *service, kiln_device *device,
                                               const kiln_spec *spec, kiln_report *report);

/* Adds a reference; returns its argument. NULL is allowed. */
KILN_API kiln_kernel *kiln_retain(kiln_kernel *kernel);

/* Drops a reference; the last one, the service's included, unloads the kernel, so launches must have finished by then.
 * NULL is allowed. */
KILN_API void kiln_release(kiln_kernel *kernel);

/* Facts about a kernel. Strings are borrowed from the kernel and live as long as it does. */
typedef struct kiln_kernel_info {
    size_t size;           /* sizeof(kiln_kernel_info): set by the caller */
    const char *spec;      /* canonical text, every field set */
    const char *device;    /* "cuda:0" or "cpu" */
    kiln_origin origin;    /* how the service first came by it */
    double compile_ms;     /* time in the compiler, 0 unless compiled */
    uint32_t inputs;       /* how many input arrays it reads, 1 to 3 */
    uint32_t element_size; /* bytes per element, the same for all arrays */
    uint32_t block;        /* threads per block */
    uint64_t tile;         /* elements per block of threads, or per chunk on the cpu */
    int registers;         /* per thread; -1 on the cpu */
    int local_bytes;       /* spilled or local memory per thread; -1 on the cpu */
    uint64_t output_bytes; /* of `out`, where the template declares an output of its own; else 0 */
} kiln_kernel_info;

/* Fills *out, whose size field must be set. Any thread. */
KILN_API kiln_status kiln_kernel_get_info(const kiln_kernel *kernel, kiln_kernel_info *out);

/* Computes out[i] = op(in[0][i], in[1][i], ...) for 0 <= i < n, or what the spec's template says of `out`.
 *   n       elements, from 0 (does nothing) to any count the memory holds
 *   out, in arrays of the kernel's dtype: device pointers on a GPU, host pointers on the cpu; aligned to their
 *           elements. out may equal an input (in place) but must not otherwise overlap one. Where the template
 *           declares an output of its own, out is that, aligned to 8 bytes, and overlaps no input.
 *   stream  a CUstream (a cudaStream_t is one), NULL for the default stream; ignored on the cpu
 * On a GPU the launch is queued in the stream's context and the call returns at once; with stream NULL it uses the
 * current context, or the device's primary context when there is none. A launch in a stream that is captured becomes a
 * node of the graph. On the cpu the call returns when the result
 * is there and uses all cores. Takes no lock and allocates nothing on a GPU; on the cpu concurrent launches take
 * turns. Any thread. `in` is borrowed for the call, the arrays until the work is done.
 * Errors: KILN_EINVAL, KILN_EALIGN, KILN_EOVERLAP (nothing was queued), KILN_ELAUNCH. */
KILN_API kiln_status kiln_launch(kiln_kernel *kernel, uint64_t n, void *out, const void *const *in, void *stream,
                                 kiln_report *report);

/* A place in the host's program that launches: remembers which kernel a text means there. In static storage, or wherever
 * else it is zero-initialised and lives as long as it is used; it needs no end, owns nothing and outlives services. Any
 * thread. It is fastest for up to 4 kernels, of one service or of several. */
typedef struct kiln_site {
    uint64_t opaque[4];
} kiln_site;

#define KILN_SITE_INIT \
    {                  \
        {              \
            0          \
        }              \
    }

/* Launches the kernel of a spec's text: what kiln_spec_parse, kiln_get and kiln_launch do. The first call with a text
 * blocks as kiln_get does; later ones at a site are as kiln_launch, which they cost a few nanoseconds more than, and take no
 * lock on their own. The text is compared byte by byte, so it may be built in a buffer, and any text and any service may
 * come to any site. With n = 0 the kernel is loaded and nothing is launched, whatever the stream.
 * Where the stream is being captured into a graph, a kernel that is not loaded yet is refused with KILN_ECAPTURE instead of
 * being loaded; the capture goes on.
 * The service keeps the kernel until kiln_close, and the text means it until then, whatever tuning finds; so launches must
 * have finished by then. kiln_stats counts, as a get, only the first call with a text. Any thread. `spec` and `in` are borrowed for the call, the arrays until the work is done.
 * Errors: those of kiln_spec_parse, kiln_get and kiln_launch, KILN_ECAPTURE; as for kiln_launch, what was refused was
 * not queued. */
KILN_API kiln_status kiln_call(kiln_service *service, kiln_site *site, const char *spec, uint64_t n, void *out,
                               const void *const *in, void *stream, kiln_report *report);

/* kiln_call with a site of its own at each place where it is written; an expression. */
#if defined(__GNUC__)
#define KILN_CALL(service, spec, n, out, in, stream, report)                                 \
    (__extension__({                                                                         \
        static kiln_site kiln_site_here = KILN_SITE_INIT;                                    \
        kiln_call((service), &kiln_site_here, (spec), (n), (out), (in), (stream), (report)); \
    }))
#endif

/* ---- Asynchronous gets ---------------------------------------------------------------------------------------- */

/* Where finished asynchronous gets wait for a thread of the host's. Belongs to a service. Any thread may ask for kernels;
 * one thread at a time dispatches, waits, attaches and closes. A forked child gets nothing from its parent's queue, and
 * may only close it. */
typedef struct kiln_queue kiln_queue;

/* One asynchronous get. Valid until its callback returns. */
typedef struct kiln_request kiln_request;

/* Makes a queue. It needs three descriptors. Errors: KILN_EINVAL, KILN_ENOMEM, KILN_EIO (no descriptors). */
KILN_API KILN_MUST_USE kiln_status kiln_queue_open(kiln_queue **out, kiln_service *service, kiln_report *report);

/* Lets a libuv loop dispatch: call it on the loop's thread, once for a queue. The loop is kept alive while the queue has
 * requests, and not longer. A queue must be closed, and its close callback have come, before the loop is.
 * Errors: KILN_EINVAL, KILN_ENOMEM, KILN_EIO (libuv refused). */
struct uv_loop_s;
KILN_API KILN_MUST_USE kiln_status kiln_queue_attach_uv(kiln_queue *queue, struct uv_loop_s *loop, kiln_report *report);

/* For hosts with another loop: a descriptor that is readable while there is something to dispatch. Only poll it. */
KILN_API int kiln_queue_fd(const kiln_queue *queue);

/* Runs the callbacks that are due, on this thread, and returns how many; does not wait. */
KILN_API int kiln_queue_dispatch(kiln_queue *queue);

/* Waits until at least one callback is due, runs those that are, and returns how many: 0 after `timeout_ms` (negative: for
 * ever) and, at once, when the queue has no requests. `while (kiln_queue_wait(queue, -1) > 0) {}` finishes all. */
KILN_API int kiln_queue_wait(kiln_queue *queue, int timeout_ms);

/* Closes a queue: every request that has not been called back is, most as KILN_ECANCELED, then fn(data) is called (fn may
 * be NULL), then the queue is gone. All that happens before the call returns; but on a libuv loop it happens from the loop,
 * soon, and inside a callback of the queue it happens before the dispatch around it returns. NULL is allowed. */
typedef void (*kiln_queue_fn)(void *data);
KILN_API void kiln_queue_close(kiln_queue *queue, kiln_queue_fn fn, void *data);

/* Zero in a field means the default. */
typedef struct kiln_async_options {
    size_t size;          /* sizeof(kiln_async_options): set by KILN_ASYNC_OPTIONS_INIT */
    int priority;         /* higher ones are compiled first; 0 is ordinary */
    uint32_t deadline_ms; /* from now; then the callback comes with KILN_ETIMEDOUT; 0: none */
    kiln_device *device;  /* as for kiln_get_on; NULL: the default device */
} kiln_async_options;

#define KILN_ASYNC_OPTIONS_INIT                \
    {                                          \
        sizeof(kiln_async_options), 0, 0, NULL \
    }

/* The end of an asynchronous get, with the statuses of kiln_get, KILN_ECANCELED or KILN_ETIMEDOUT. A reference to `kernel`,
 * NULL on failure, belongs to the callback; `report` is borrowed. It may call anything of Kiln's but kiln_close. */
typedef void (*kiln_async_fn)(void *data, kiln_status status, kiln_kernel *kernel, const kiln_report *report);

/* Does what kiln_get does, on threads of the service, and returns at once: no file is read or written, no driver opened and
 * nothing compiled inside the call. fn is called exactly once, by a dispatch of the queue and never inside this call, unless the
 * call itself fails. `spec` and options (NULL: defaults) are copied; *out may be NULL, where the request is not needed.
 * Errors: KILN_EINVAL, KILN_ENOMEM, KILN_ECANCELED (the queue or its service is closed). */
KILN_API kiln_status kiln_get_async(kiln_request **out, kiln_queue *queue, const kiln_spec *spec,
                                    const kiln_async_options *options, kiln_async_fn fn, void *data);

/* Gives up a request: its callback comes with KILN_ECANCELED, unless it was due already. A compile that nobody else
 * waits for is not begun; one that has begun goes on. Any thread, as long as the callback cannot have returned. */
KILN_API void kiln_cancel(kiln_request *request);

/* ---- Artifact: compile without a device ----------------------------------------------------------------------- */

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

/* The complete source text of a spec, as the compiler would see it. Its first line is a comment with the spec, every
 * field set but the target. *out is terminated and freed with kiln_text_free.
 * Compiles nothing. Errors: those of kiln_spec_parse, KILN_ENODEVICE. */
KILN_API KILN_MUST_USE kiln_status kiln_spec_source(char **out, kiln_service *service, const kiln_spec *spec,
                                                    kiln_report *report);
KILN_API void kiln_text_free(char *text);

/* ---- Devices and their memory --------------------------------------------------------------------------------- */

typedef struct kiln_device_info {
    size_t size;              /* sizeof(kiln_device_info): set by the caller */
    const char *name;         /* "cuda:0" or "cpu" */
    const char *model;        /* the maker's name for it */
    const char *target;       /* "sm_90", or "cpu" */
    uint64_t memory_bytes;    /* total */
    uint32_t multiprocessors; /* or cores */
    uint64_t l2_bytes;        /* last-level cache; 0 if unknown */
} kiln_device_info;

/* Finds a device; name as in kiln_options, NULL for the default device. On first use of a GPU this initialises the
 * driver and retains the device's primary context (about 200 ms).
 * Errors: KILN_EINVAL (not a device name), KILN_ENODRIVER, KILN_ENODEVICE, KILN_EDEVICE. */
KILN_API KILN_MUST_USE kiln_status kiln_device_open(kiln_device **out, kiln_service *service, const char *name,
                                                    kiln_report *report);
/* How many GPUs the driver shows; 0 with an error status if there is no driver. */
KILN_API kiln_status kiln_device_count(int *out, kiln_service *service, kiln_report *report);
KILN_API kiln_status kiln_device_get_info(const kiln_device *device, kiln_device_info *out);

/* Memory for tools, tests and examples; hosts with an allocator of their own need none of it. Aligned to 256 bytes.
 * Errors: KILN_ENOMEM, KILN_EDEVICE. */
KILN_API KILN_MUST_USE kiln_status kiln_alloc(void **out, kiln_device *device, size_t bytes, kiln_report *report);
KILN_API void kiln_free(kiln_device *device, void *memory);

/* Direction of a copy, from the host's point of view; on the cpu all three copy within host memory. */
typedef enum kiln_copy_kind { KILN_COPY_TO_DEVICE = 1, KILN_COPY_FROM_DEVICE, KILN_COPY_ON_DEVICE } kiln_copy_kind;

/* Copies bytes. To and from the device it returns when the copy is done; on the device it is queued in `stream`.
 * Errors: KILN_EINVAL, KILN_EDEVICE. */
KILN_API kiln_status kiln_copy(kiln_device *device, void *to, const void *from, size_t bytes, kiln_copy_kind kind,
                               void *stream, kiln_report *report);

/* Waits until all queued work of the device's context is done. Reports what asynchronous work failed with. */
KILN_API kiln_status kiln_sync(kiln_device *device, kiln_report *report);

/* ---- Measuring ------------------------------------------------------------------------------------------------ */

/* One thing to time: submit queues the work in `stream` and returns a status. */
typedef struct kiln_contender {
    kiln_status (*submit)(void *data, void *stream);
    void *data;
} kiln_contender;

typedef struct kiln_timing {
    double median_ms, min_ms, max_ms; /* of one submission */
    uint32_t samples;
} kiln_timing;

/* Times contenders against each other on one device: after `warmup` rounds, `rounds` rounds in each of which every
 * contender is timed once, the order rotating from round to round, so that drift meets all alike. A submission
 * shorter than 0.5 ms is repeated within a sample. Device events time a GPU, the monotonic clock the cpu. What takes a
 * GPU less time than the host needs to submit it is timed as it is submitted: see kiln_measure_launches (<kiln/tune.h>).
 * `out` has one element for each contender. Samples of contender c in round r go to samples[r * count + c] if
 * `samples` (milliseconds) is not NULL. Blocks until done. Errors: KILN_EINVAL, KILN_EDEVICE, KILN_ENOMEM and what
 * submit returns. */
KILN_API kiln_status kiln_measure(kiln_device *device, const kiln_contender *contenders, size_t count, uint32_t warmup,
                                  uint32_t rounds, kiln_timing *out, double *samples, kiln_report *report);

/* ---- What can be built ---------------------------------------------------------------------------------------- */

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

typedef struct kiln_param_info {
    const char *name;          /* "block" */
    const char *values;        /* "32..1024 step 32" or "plain,stream" */
    const char *default_value; /* as declared: a value or a formula */
    const char *doc;
    const char
        *tune; /* what tuning tries: lines "64..1024*2 if sm > 0" that end with '\n', the first that holds; "" if the
                         template does not say */
} kiln_param_info;
typedef struct kiln_template_info {
    size_t size;
    const char *name;
    const char *doc;
    uint32_t min_inputs, max_inputs;
    const kiln_param_info *params;
    uint32_t param_count;
    const char *text;         /* the template's whole text */
    const char *requirements; /* lines "FORMULA -- what it means" that end with '\n' */
    const char *bounds;       /* the same; only tuning keeps to them */
    const char *origin;       /* "" for Kiln's own, else where it comes from: a path, or "defined" */
    const char *reference;    /* the op that computes the same, as the template declares it, or "" */
    int own_arithmetic;       /* 1: it takes no op */
    int own_arguments;        /* 1: it is launched by kiln_launch_args */
    int has_twin;             /* 1: it runs on the cpu too */
} kiln_template_info;
typedef int (*kiln_template_fn)(void *data, const kiln_template_info *info);
KILN_API kiln_status kiln_templates(kiln_service *service, kiln_template_fn fn, void *data);

/* ---- The store ------------------------------------------------------------------------------------------------ */

typedef struct kiln_entry_info {
    size_t size;
    const char *path;      /* where the entry is */
    const char *spec;      /* what it holds; "" if it is damaged or not a kernel */
    const char *toolchain; /* the compiler that made it, "nvrtc-13.0.88" */
    const char *kind;      /* "kernel", "toolchain" */
    uint64_t bytes;
    kiln_status status;  /* KILN_OK, or why the entry would be refused: KILN_EIO (it is damaged or cannot be read) or
                            KILN_EINVAL (untrusted: a link, foreign owner, special file, writable by others) */
    const char *problem; /* "" or that reason in words */
    int64_t used; /* when it was made or last used, as eviction sees it: seconds since 1970, to the hour; 0: unknown */
} kiln_entry_info;
typedef int (*kiln_entry_fn)(void *data, const kiln_entry_info *entry);

/* Visits every entry of the directory store, in no particular order, reading and checking each one whole. Entries
 * that come or go meanwhile may be missed. Changes nothing.
 * Errors: KILN_ENOENT (the service has no directory store), KILN_EIO. */
KILN_API kiln_status kiln_cache_visit(kiln_service *service, kiln_entry_fn fn, void *data, kiln_report *report);

/* Removes entries: only those that would be refused, damaged and untrusted ones alike, or all. Links are removed, never
 * followed, and nothing inside a directory that others can write is touched. Other processes may be using the store.
 * *removed (may be NULL) gets how many went, also on failure.
 * Errors: KILN_ENOENT (the service has no directory store), KILN_EIO (something could not be read or removed: the report
 * names the first such path and the reason; the rest was removed). */
KILN_API kiln_status kiln_cache_purge(kiln_service *service, int refused_only, uint64_t *removed, kiln_report *report);

typedef struct kiln_trim {
    size_t size; /* sizeof(kiln_trim): set by the caller */
    uint64_t removed, removed_bytes;
    uint64_t kept, kept_bytes; /* bytes count in blocks of 4 KiB */
} kiln_trim;

/* Removes the least recently used entries of the directory store until at most `bytes` and `files` are left, 0 meaning the
 * service's caps, and what killed writers left behind. Looks at every file, but reads none; other processes may be using
 * the store. The store also keeps its caps by itself: this is for less than these, or for now. *out may be NULL.
 * Errors: KILN_ENOENT (the service has no directory store), KILN_EIO (something could not be removed). */
KILN_API kiln_status kiln_cache_trim(kiln_service *service, uint64_t bytes, uint64_t files, kiln_trim *out,
                                     kiln_report *report);

/* Whether an export takes an entry: non-zero does. The entry is borrowed for the call. */
typedef int (*kiln_keep_fn)(void *data, const kiln_entry_info *entry);

typedef struct kiln_transfer {
    size_t size;      /* sizeof(kiln_transfer): set by the caller */
    uint64_t entries; /* written into the pack, or added to the store */
    uint64_t bytes;   /* of the pack, or of what was added */
    uint64_t present; /* of an import: were there already, and stay */
    uint64_t damaged; /* refused */
    uint64_t
        skipped; /* belong to the machine that made them (the cpu's kernels, what is known of a compiler's file), or are
                         too large for the store */
} kiln_transfer;

/* Writes the kernels of the directory store that `keep` takes (NULL: all) into one file, a pack. Equal entries make equal
 * bytes. An older file of that name is replaced at once when the new one is whole. *out may be NULL.
 * Errors: KILN_EINVAL (`path` is no place for a file), KILN_ENOENT (no directory store), KILN_EIO, KILN_ENOMEM. */
KILN_API kiln_status kiln_cache_export(kiln_service *service, const char *path, kiln_keep_fn keep, void *data,
                                       kiln_transfer *out, kiln_report *report);

/* Puts the kernels of a pack into the directory store. The file must be the user's own or root's and writable by nobody
 * else; each entry is checked whole, and a damaged one is left out and counted. *out may be NULL. May wait two seconds in all
 * for compiles of sources that the pack has too.
 * Errors: KILN_EINVAL (not a pack that can be used), KILN_ENOENT (no directory store), KILN_EIO (a write failed; what was
 * added before stays), KILN_ENOMEM. */
KILN_API kiln_status kiln_cache_import(kiln_service *service, const char *path, kiln_transfer *out,
                                       kiln_report *report);

typedef struct kiln_cache_info {
    size_t size;           /* sizeof(kiln_cache_info): set by the caller */
    uint64_t bytes, files; /* the caps that this service keeps, UINT64_MAX for none; bytes count in blocks of 4 KiB */
    uint64_t temporaries;  /* files that somebody writes now or, killed, has left; those go when they are an hour old */
    uint64_t temporary_bytes; /* of these */
} kiln_cache_info;

/* What a visit of the directory store does not show. Looks at every directory, but reads no file.
 * Errors: KILN_ENOENT (the service has no directory store), KILN_EIO. */
KILN_API kiln_status kiln_cache_get_info(kiln_service *service, kiln_cache_info *out, kiln_report *report);

/* The directory in use, or "" if there is none; borrowed, valid until kiln_close. */
KILN_API const char *kiln_cache_dir(const kiln_service *service);

/* ---- Doctor: what was found, what is missing, what to do ------------------------------------------------------ */

typedef struct kiln_finding {
    size_t size;
    const char *what;    /* "NVRTC", "CUDA driver", "GPU", "C compiler", "cpu", "cache", "pack", "shared" */
    int ok;              /* 1 found and usable, 0 not */
    const char *name;    /* "cuda:0", "libnvrtc" */
    const char *path;    /* "" if none */
    const char *version; /* "" if none */
    const char *detail;  /* one line */
    const char *remedy;  /* what to do, "" if nothing */
} kiln_finding;
typedef int (*kiln_finding_fn)(void *data, const kiln_finding *finding);

/* Looks for everything Kiln can use and reports it, in a fixed order; of packs and shared directory those that were named.
 * Opens the driver and the compilers, measures the copy bandwidth of each GPU and the cpu and reads every stored entry: takes
 * about a second per GPU. */
KILN_API kiln_status kiln_doctor(kiln_service *service, kiln_finding_fn fn, void *data);

#ifdef __cplusplus
}
#endif
#endif
