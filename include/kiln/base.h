/* Statuses, reports and the service: what every other header of Kiln builds on.
 *
 * Rules that hold in all headers:
 *   - A function that can fail returns a kiln_status: KILN_OK (0) or a negative KILN_E... value. An object that it
 *     makes comes through the first parameter, `out`, and is NULL on failure.
 *   - A kiln_report, where a function takes one, is the last parameter and may be NULL. Every call clears it first.
 *   - A visible struct begins with its size, which KILN_INIT sets; 0 in every other field is its default. A function
 *     that fills a struct stops at the caller's size. A struct that is larger than the library knows must be 0 beyond
 *     that. The structs that stand in arrays, kiln_arg among them, have a frozen layout and no size.
 *   - Parameters are borrowed for the call, unless a function says otherwise. Strings and structs in a result live as
 *     long as the object that they came from. An absent string is "", an unknown number -1, unless a field says
 *     otherwise.
 *   - NULL is allowed wherever an object is freed, released or closed.
 *   - Any thread may call any function at any time, unless the function or its type says otherwise.
 *   - A visit stops when its callback returns non-zero, and the call then returns KILN_OK. A callback borrows its
 *     parameters. It may call any function but kiln_close, unless its type says otherwise.
 *   - The library never prints, never exits, installs no signal handler and keeps no thread-local error.
 *   - Numbers in text have '.' as the decimal point, whatever the locale.
 *   - Results do not depend on the floating-point environment of the caller, and calls leave it as it is. See
 *     docs/embedding.md.
 *   - A child made by fork() can use nothing that its parent made, but specs, signatures, reports, texts and tunings.
 *     Functions that need a service or a device return KILN_EFORKED there; those that free, release or close do
 *     nothing. The child may open a service.
 *   - exit() waits for compiles in progress in the process; from then on they are refused with KILN_ECANCELED.
 *   - pthread_cancel takes effect after a call, and while kiln_queue_wait waits. It must not be asynchronous.
 *   - A thread needs 128 KiB of stack, besides what the CUDA driver takes. For gets and launches 64 KiB do.
 *
 * The headers need only <stddef.h> and <stdint.h>. C11 and C++17 both read them. */
#ifndef KILN_BASE_H
#define KILN_BASE_H

#include <stddef.h>
#include <stdint.h>

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

/* The initial value of a sized struct: kiln_report report = KILN_INIT(kiln_report); an assignment in C needs a cast:
 * object->report = (kiln_report)KILN_INIT(kiln_report); */
#ifdef __cplusplus
extern "C++" {
template <typename Type> constexpr Type kiln_init()
{
    Type value = Type();
    value.size = sizeof(Type);
    return value;
}
}
#define KILN_INIT(type) kiln_init<type>()
#else
#define KILN_INIT(type)      \
    {                        \
        .size = sizeof(type) \
    }
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ------------------------------------------------------------------------------------------------------ */

/* Every status, its value and its meaning. The enum, the names and docs/errors.md come from this list. */
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
    X(EFORKED, -24, "made before the process was forked")

typedef enum kiln_status {
    KILN_OK = 0,
#define KILN_STATUS_ENUM(name, value, text) KILN_##name = value,
    KILN_STATUS_MAP(KILN_STATUS_ENUM)
#undef KILN_STATUS_ENUM
} kiln_status;

/* "0.1.0": the version of the library, which may be newer than this header. A static string. */
KILN_API const char *kiln_version(void);

/* "KILN_EINVAL" and "invalid argument". Static strings, never NULL, for any value. */
KILN_API const char *kiln_status_name(kiln_status status);
KILN_API const char *kiln_status_text(kiln_status status);

/* ---- Report: what went wrong ------------------------------------------------------------------------------------- */

/* Made with KILN_INIT, owned by the caller, for one thread at a time. Every call that takes it clears it, log included;
 * a failure then fills it, as far as the caller's struct goes. A compile with warnings sets `log` and succeeds. */
typedef struct kiln_report {
    size_t size;
    kiln_status status; /* as the call returned it; KILN_OK after a success */
    int native;         /* the code of the driver, of NVRTC or of errno; 0: none */
    const char *stage;  /* "spec", "compile", "load", "launch", "device", "store" or "open"; NULL: no failure yet */
    char *log;          /* the compiler's log; NULL: none. kiln_report_clear frees it */
    char message[512];  /* one line: what was wrong, what was expected, what to do */
} kiln_report;

/* Frees the log and makes the report as new. */
KILN_API void kiln_report_clear(kiln_report *report);

/* Frees a text that a function of Kiln gave to its caller. */
KILN_API void kiln_text_free(char *text);

/* ---- Service ----------------------------------------------------------------------------------------------------- */

/* The long-lived object that owns stores, compilers, devices and loaded kernels. One for a process is usual. */
typedef struct kiln_service kiln_service;

/* A setting with a default: of the environment or of the struct that has it. */
typedef enum kiln_switch { KILN_DEFAULT = 0, KILN_ON, KILN_OFF } kiln_switch;

typedef enum kiln_log_level {
    KILN_LOG_DEFAULT = 0, /* the environment variable KILN_LOG, else KILN_LOG_WARN */
    KILN_LOG_ERROR,
    KILN_LOG_WARN,
    KILN_LOG_INFO,
    KILN_LOG_DEBUG
} kiln_log_level;

/* Gets a line of the log, without a newline. Several threads may call it at once, from inside calls of Kiln and from
 * threads of the service. It must not call Kiln. */
typedef void (*kiln_log_fn)(void *data, kiln_log_level level, const char *message);

/* Where NVRTC compiles. A compile worker is a child process: a source that crashes it or keeps it busy harms no host.
 * docs/embedding.md has the rest. */
typedef enum kiln_isolate {
    KILN_ISOLATE_DEFAULT = 0, /* the environment variable KILN_ISOLATE, else KILN_ISOLATE_AUTO */
    KILN_ISOLATE_AUTO,        /* foreign source in workers; Kiln's own here, with workers to help where many compile */
    KILN_ISOLATE_ALWAYS,      /* everything in workers: this process never opens NVRTC */
    KILN_ISOLATE_NEVER        /* everything here: a CUDA source can read what the host can, and its results stay in the
                                 memory of the service */
} kiln_isolate;

/* kiln_open copies it, strings included. An environment variable counts where the field has its default. */
typedef struct kiln_options {
    size_t size;

    /* Devices and compilers */
    const char *device;  /* "cuda:0", "cpu"; KILN_DEVICE; else "cuda:0" if there is a GPU, else "cpu" */
    const char *libcuda; /* path of the driver library; KILN_LIBCUDA; else libcuda.so.1 */
    const char *nvrtc;   /* path of NVRTC; KILN_NVRTC; else searched */
    const char *cc;      /* C compiler of the cpu backend; KILN_CC; else "cc" */

    /* Stores */
    const char *cache_dir;  /* the user's store; KILN_CACHE_DIR; else kiln in the XDG cache directory; "": none */
    const char *shared_dir; /* a store that is only read; KILN_SHARED_DIR */
    const char *packs;      /* packs to read, paths with ':' between; KILN_PACKS */
    uint64_t cache_bytes;   /* cap of the user's store; KILN_CACHE_BYTES; 0: 4 GiB; UINT64_MAX: none */
    uint64_t cache_files;   /* its cap in entries; 0: 262144; UINT64_MAX: none */
    uint64_t memory_bytes;  /* cap of the store in memory; 0: 64 MiB */
    uint32_t loaded_max;    /* loaded programs kept for later gets, least recently used first out; 0: 4096 */
    kiln_switch strict;     /* KILN_ON: a compile is refused with KILN_ESTRICT; KILN_STRICT; else KILN_OFF */
    kiln_switch wisdom;     /* KILN_OFF: open geometry is the template's default; KILN_WISDOM; else KILN_ON */
    const char *record;     /* file that gets each distinct spec asked for, a manifest; KILN_RECORD; "": none */
    uint32_t lock_wait_ms;  /* longest wait for another process that compiles the same kernel; 0: 30 s. While this
                               process is stopped, or the machine, no time of it passes */

    /* Compile workers */
    kiln_isolate isolate;
    const char *worker;           /* path of kiln-worker; KILN_WORKER; else beside the library */
    uint32_t worker_time_ms;      /* longest compile; 0: 60 s */
    uint64_t worker_memory_bytes; /* address space of a worker; 0: 4 GiB */
    const char *crash_dir;        /* directory that keeps sources that killed a worker; KILN_CRASH_DIR */

    /* Log */
    kiln_log_fn log; /* NULL: no log */
    void *log_data;
    kiln_log_level log_level;
} kiln_options;

/* Makes a service. It opens no driver and no compiler: first use does. A store that cannot be used is no error: one
 * line of the log says so, and the service works without it. A driver that is there and does not work is an error of
 * the call that needs it; the cpu never stands in for it. Errors: KILN_EINVAL (an impossible option; a header newer
 * than the library), KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_open(kiln_service **out, const kiln_options *options, kiln_report *report);

/* Frees the service and what it owns. It must be the last call with the service. Its specs and devices must
 * not be used afterwards; kernels and programs that are retained elsewhere stay valid until they are released. It waits
 * for compiles of asynchronous gets that have begun. Queues and live handles stay valid until they are closed; requests
 * that are left in a queue end with KILN_ECANCELED. */
KILN_API void kiln_close(kiln_service *service);

/* Counters of a service since it was opened. They only grow. */
typedef struct kiln_stats {
    size_t size;
    uint64_t gets; /* kiln_get, kiln_get_kernel, kiln_submit, and the first kiln_call of a text */

    /* Answers, by where they came from */
    uint64_t hits_loaded; /* an already loaded program */
    uint64_t hits_memory;
    uint64_t hits_disk;
    uint64_t hits_pack;
    uint64_t hits_shared;
    uint64_t joined; /* a compile of the same key that was in progress in this service */

    /* Gets that no store answered, by reason; each counts once, among the first four */
    uint64_t misses_absent;     /* no store had it */
    uint64_t misses_damaged;    /* a store had it, damaged */
    uint64_t misses_untrusted;  /* a store had it, and it could not be trusted */
    uint64_t misses_error;      /* a store could not be read */
    uint64_t misses_unloadable; /* stored kernels that were there and did not load */

    uint64_t compiles, compile_failures, strict_refusals;
    uint64_t compile_ns; /* successes and failures */
    uint64_t loads, ptx_loads;
    uint64_t load_ns;
    uint64_t unloads;       /* loaded programs that the cap on them evicted */
    uint64_t cancelled;     /* requests that ended with KILN_ECANCELED */
    uint64_t timed_out;     /* requests that ended with KILN_ETIMEDOUT */
    uint64_t lock_waits;    /* compiles that first waited for another process */
    uint64_t lock_timeouts; /* of them, waits longer than lock_wait_ms: the compile went on */
    uint64_t lock_errors;   /* compiles without the host's lock, which the file system refused */
    uint64_t worker_starts, worker_crashes, worker_timeouts;

    uint64_t store_damaged;   /* entries refused: checksum, length, format or key */
    uint64_t store_untrusted; /* entries refused: foreign owner, link, special file, writable by others */
    uint64_t store_errors;    /* failed reads and writes */
    uint64_t evictions;       /* entries removed to keep the caps */
    uint64_t record_errors;   /* specs that could not be recorded */
} kiln_stats;

/* Copies the counters; each is read by itself, so two of them may differ by a get that is under way.
 * Errors: KILN_EINVAL. */
KILN_API kiln_status kiln_stats_get(const kiln_service *service, kiln_stats *out);

#ifdef __cplusplus
}
#endif
#endif
