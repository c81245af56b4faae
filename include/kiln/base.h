/* Statuses, reports and the service: the base of all other headers.
 *
 * Rules for all headers:
 *   - A function that can fail returns a kiln_status: KILN_OK (0) or a negative KILN_E... value. Its comment names the
 *     statuses. KILN_EINVAL also means a NULL that must not be, or a struct without its size.
 *   - A new object comes through the first parameter, `out`, and is NULL after a failure.
 *   - A kiln_report is the last parameter of a function that takes one, and may be NULL. Every call clears it first.
 *   - A visible struct begins with its size, which KILN_INIT sets. 0 in any other field is its default. A function that
 *     fills a struct stops at the caller's size. Bytes of a larger struct that the library does not know must be 0.
 *     Structs in arrays, such as kiln_arg, have a frozen layout and no size.
 *   - Parameters are borrowed for the call. Strings and structs in a result live as long as the object that they came
 *     from. An absent string is "", an unknown number is -1. A comment may say otherwise.
 *   - NULL may be freed, released and closed.
 *   - Any thread may call any function at any time, unless a comment of the function or its type says otherwise.
 *   - A visit stops when its callback returns non-zero, and the call then returns KILN_OK. A callback borrows its
 *     parameters. It may call any function except kiln_close, unless its type says otherwise.
 *   - The library never prints, never exits, installs no signal handler and keeps no thread-local error.
 *   - Numbers in text have '.' as the decimal point, whatever the locale. Results do not depend on the caller's
 *     floating-point environment, and calls leave it as it is.
 *   - A child made by fork() can use only specs, signatures, reports, texts and tunings of its parent. Functions that
 *     use stores, compilers or devices return KILN_EFORKED there (docs/embedding.md). Functions that free, release or
 *     close do nothing. The child may open a service.
 *   - exit() waits for compiles in progress in the process, and then refuses compiles with KILN_ECANCELED.
 *   - pthread_cancel takes effect after a call, and while kiln_queue_wait waits. It must not be asynchronous.
 *   - A thread needs 128 KiB of stack, or 64 KiB for gets and launches. The CUDA driver needs more on top.
 *
 * docs/embedding.md says more. The headers include only <stddef.h> and <stdint.h>, and are C11 and C++17. */
#ifndef KILN_BASE_H
#define KILN_BASE_H

#include <stddef.h>
#include <stdint.h>

#define KILN_VERSION_MAJOR 0
#define KILN_VERSION_MINOR 2
#define KILN_VERSION_PATCH 0

#if defined(__GNUC__)
#define KILN_API      __attribute__((visibility("default")))
#define KILN_MUST_USE __attribute__((warn_unused_result))
#else
#define KILN_API
#define KILN_MUST_USE
#endif

/* The initial value of a sized struct: kiln_report report = KILN_INIT(kiln_report);
 * An assignment in C needs a cast: object->report = (kiln_report)KILN_INIT(kiln_report); */
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

/* ---- Statuses ---------------------------------------------------------------------------------------------------- */

/* Every status with its value and its text. docs/errors.md has causes and remedies. */
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

/* Returns the version of the library, "0.2.0", which may be newer than this header. A static string. */
KILN_API const char *kiln_version(void);

/* Return the name, "KILN_EINVAL", and the text, "invalid argument", of any value. Static strings, never NULL. */
KILN_API const char *kiln_status_name(kiln_status status);
KILN_API const char *kiln_status_text(kiln_status status);

/* ---- Reports ----------------------------------------------------------------------------------------------------- */

/* The cause of a failure. The caller owns it; one thread at a time uses it. Every call clears it, log included, and a
 * failure fills it. A compile with warnings succeeds and sets `log`. */
typedef struct kiln_report {
    size_t size;
    kiln_status status; /* the call's; KILN_OK after a success */
    int native;         /* code of the driver, of NVRTC or of errno; 0: none */
    const char *stage;  /* "spec", "compile", "load", "launch", "device", "store" or "open"; NULL: no failure */
    char *log;          /* the compiler's log; NULL: none. kiln_report_clear frees it */
    char message[512];  /* one line: the fault, the expectation, the remedy */
} kiln_report;

/* Frees the log and clears all other fields. */
KILN_API void kiln_report_clear(kiln_report *report);

/* Frees a text that a function returned through a `char **`. */
KILN_API void kiln_text_free(char *text);

/* ---- Service ----------------------------------------------------------------------------------------------------- */

/* The long-lived object that owns stores, compilers, devices and loaded kernels. One per process is usual. */
typedef struct kiln_service kiln_service;

/* A setting. KILN_DEFAULT is the environment's value, or else the default of the field. */
typedef enum kiln_switch { KILN_DEFAULT = 0, KILN_ON, KILN_OFF } kiln_switch;

typedef enum kiln_log_level {
    KILN_LOG_DEFAULT = 0, /* the environment variable KILN_LOG, else KILN_LOG_WARN */
    KILN_LOG_ERROR,
    KILN_LOG_WARN,
    KILN_LOG_INFO,
    KILN_LOG_DEBUG
} kiln_log_level;

/* Receives a line of the log, without a newline. Threads of the host and of the service may call it at once. It must
 * not call Kiln. */
typedef void (*kiln_log_fn)(void *data, kiln_log_level level, const char *message);

typedef enum kiln_event_kind {
    KILN_EVENT_GET = 1, /* a get that found no loaded program: all that it does, loading too */
    KILN_EVENT_COMPILE, /* within it, or on a thread of the service */
    KILN_EVENT_LAUNCH   /* the submission of a launch to the driver, or its run on the cpu */
} kiln_event_kind;

/* The beginning or the end of something. */
typedef struct kiln_event {
    size_t size;
    kiln_event_kind kind;
    int ends;           /* 0: it begins */
    const char *name;   /* the spec, or the name of a source or of its function; valid during the call */
    kiln_status status; /* of an end */
    uint64_t ns;        /* how long it took, of an end */
} kiln_event;

/* Receives events, beginning and end on one thread, nested. Threads of the host and of the service may call it at once,
 * also for kernels that outlive the service. It must not call Kiln. */
typedef void (*kiln_event_fn)(void *data, const kiln_event *event);

/* The process in which NVRTC compiles. A compile worker is a child process: a source that crashes it or keeps it busy
 * does not harm the host. docs/embedding.md has the details. */
typedef enum kiln_isolate {
    KILN_ISOLATE_DEFAULT = 0, /* the environment variable KILN_ISOLATE, else KILN_ISOLATE_AUTO */
    KILN_ISOLATE_AUTO,        /* users' CUDA text and templates in workers; Kiln's here, and in workers if many
                                 compile */
    KILN_ISOLATE_ALWAYS,      /* everything in workers: this process never opens NVRTC */
    KILN_ISOLATE_NEVER        /* everything here: CUDA text can read this process's files, and its results are kept only
                                 in the memory of the service */
} kiln_isolate;

/* The users that may write what Kiln loads. docs/deployment.md has the details. */
typedef enum kiln_trust {
    KILN_TRUST_DEFAULT = 0, /* the environment variable KILN_TRUST, else KILN_TRUST_OWNER */
    KILN_TRUST_OWNER,       /* the user of the process; of packs and the shared directory also root */
    KILN_TRUST_GROUP        /* also root, and the members of the process's groups; a pack may be a symbolic link */
} kiln_trust;

/* The entries that a service pushes to the remote. */
typedef enum kiln_push {
    KILN_PUSH_DEFAULT = 0, /* KILN_PUSH_COMPILED */
    KILN_PUSH_COMPILED,    /* those that it compiles; they are dropped where the server does not keep up */
    KILN_PUSH_ALL,         /* those that it is asked for, from wherever they come; it waits for the server */
    KILN_PUSH_NONE
} kiln_push;

/* kiln_open copies it, strings included. A field that is 0 has the value of its environment variable, or else its
 * default; comments name both. */
typedef struct kiln_options {
    size_t size;

    /* Devices and compilers */
    const char *device;  /* "cuda:0", "cpu"; KILN_DEVICE; else the first GPU, else "cpu" */
    const char *libcuda; /* path of the driver library; KILN_LIBCUDA; else libcuda.so.1 */
    const char *nvrtc;   /* path of NVRTC; KILN_NVRTC; else it is searched for */
    const char *cc;      /* the cpu backend's C compiler; KILN_CC; else "cc" */

    /* Stores; "": none */
    const char *cache_dir;     /* the user's store; KILN_CACHE_DIR; else kiln in the XDG cache directory */
    const char *shared_dir;    /* a store that is only read; KILN_SHARED_DIR; else none */
    const char *packs;         /* paths of packs, with ':' between; KILN_PACKS; else none */
    kiln_trust trust;          /* who else may write these files; KILN_TRUST; else KILN_TRUST_OWNER */
    uint64_t cache_bytes;      /* cap of the user's store; KILN_CACHE_BYTES; else 4 GiB; UINT64_MAX: none */
    uint64_t cache_files;      /* its cap in entries; else 262144; UINT64_MAX: none */
    uint64_t memory_bytes;     /* cap of the store in memory; else 64 MiB */
    uint32_t loaded_max;       /* programs kept loaded for later gets, the least recently used first out; else 4096 */
    kiln_switch strict;        /* KILN_ON: compiles are refused with KILN_ESTRICT; KILN_STRICT; else KILN_OFF */
    kiln_switch wisdom;        /* KILN_OFF: open geometry is the template's default; KILN_WISDOM; else KILN_ON */
    const char *record;        /* manifest to which each distinct spec asked for is added; KILN_RECORD; else none */
    const char *remote;        /* URL of a server that machines share, asked last: redis://HOST, http://HOST/PATH;
                               KILN_REMOTE; else none. docs/fleet.md has the details */
    const char *remote_secret; /* file of the secret that signs what lies there; KILN_REMOTE_SECRET; else none, and
                                  nothing is pushed */
    kiln_switch trust_remote;  /* KILN_ON: what lies there unsigned is loaded, too; KILN_TRUST_REMOTE; else KILN_OFF */
    kiln_push push;            /* else KILN_PUSH_COMPILED */
    const char *socket;        /* of the daemon that compiles for the processes of this user, if one listens there;
                                  KILN_SOCKET; else kiln/socket in XDG_RUNTIME_DIR, else daemon/HOSTNAME in cache_dir;
                                  "": none is asked. docs/daemon.md has the details */
    kiln_switch start_daemon;  /* KILN_ON: one is started where none listens; KILN_START_DAEMON; else KILN_OFF */
    uint32_t lock_wait_ms;     /* longest wait for another process that compiles the same kernel, again for another
                                  machine, and for each of two answers of the daemon; else 30 s. For a process the time
                                  in which this one or the machine is stopped does not count */

    /* Compile workers */
    kiln_isolate isolate;
    const char *worker;           /* path of kiln-worker; KILN_WORKER; else found from the library's path */
    uint32_t worker_time_ms;      /* longest compile; else 60 s */
    uint64_t worker_memory_bytes; /* address space of a worker; else 4 GiB */
    const char *crash_dir;        /* directory that keeps sources that killed a worker; KILN_CRASH_DIR; else none */

    /* Log */
    kiln_log_fn log; /* NULL: no log */
    void *log_data;
    kiln_log_level log_level;
    kiln_event_fn event; /* told of gets, compiles and launches; NULL: none */
    void *event_data;
} kiln_options;

/* Opens a service. The caller ends it with kiln_close. Drivers and compilers are opened at first use. An unusable store
 * is no error: the log says so, and the service works without it. A driver that is there but does not work is an error
 * of the call that needs it; the cpu never replaces it.
 * Errors: KILN_EINVAL (an impossible option or variable; a header newer than the library), KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_open(kiln_service **out, const kiln_options *options, kiln_report *report);

/* Closes a service and frees what it owns, devices included. It must be the last call with the service, after its specs
 * are freed. Kernels and programs stay valid until they are released, queues and live handles until they are closed.
 * Pending requests end with KILN_ECANCELED. Blocks until the compiles that submitted requests began are done, and up to
 * 350 ms for what is on its way to a remote. */
KILN_API void kiln_close(kiln_service *service);

/* Counters of a service since kiln_open. They only grow. */
typedef struct kiln_stats {
    size_t size;
    uint64_t gets; /* requests: of gets, submits, live handles and tunings, and of the first kiln_call of a text */

    /* Answers, by origin */
    uint64_t hits_loaded; /* a loaded program */
    uint64_t hits_memory;
    uint64_t hits_disk;
    uint64_t hits_pack;
    uint64_t hits_shared;
    uint64_t hits_remote;
    uint64_t joined; /* another request's compile of the same key, in progress in this service */

    /* Gets that no store answered, by reason: each counts in one of the first four. */
    uint64_t misses_absent;     /* no store had an entry */
    uint64_t misses_damaged;    /* the entry was damaged */
    uint64_t misses_untrusted;  /* the entry could not be trusted */
    uint64_t misses_error;      /* a store could not be read */
    uint64_t misses_unloadable; /* entries that did not load */

    uint64_t compiles, compile_failures, strict_refusals;
    uint64_t compile_ns; /* successes and failures */
    uint64_t loads, ptx_loads;
    uint64_t load_ns;
    uint64_t unloads;       /* programs evicted by loaded_max */
    uint64_t cancelled;     /* requests that ended with KILN_ECANCELED */
    uint64_t timed_out;     /* requests that ended with KILN_ETIMEDOUT */
    uint64_t lock_waits;    /* compiles that first waited for another process */
    uint64_t lock_timeouts; /* compiles that went on after waiting for lock_wait_ms */
    uint64_t lock_errors;   /* compiles without a lock, because the file system refused it */
    uint64_t worker_starts, worker_crashes, worker_timeouts;

    uint64_t store_damaged;   /* entries refused: checksum, length, format or key */
    uint64_t store_untrusted; /* entries refused: foreign owner, link, special file, writable by others */
    uint64_t store_errors;    /* failed reads and writes */
    uint64_t evictions;       /* entries removed to keep the store within its caps */
    uint64_t record_errors;   /* specs that could not be recorded */

    /* The daemon */
    uint64_t daemon_found;    /* entries that it had or made */
    uint64_t daemon_failures; /* kernels that it could not compile */
    uint64_t daemon_lost;     /* requests that it did not answer: this process compiled */
    uint64_t daemon_refused;  /* sockets of another user, daemons of another version or store */

    /* The remote */
    uint64_t remote_gets;     /* entries asked for */
    uint64_t remote_skipped;  /* questions not asked, because the server failed a moment before */
    uint64_t remote_failures; /* questions without an answer in time, or with a malformed one */
    uint64_t remote_refused;  /* entries without a good signature, or damaged */
    uint64_t remote_pushes, remote_push_failures;
    uint64_t remote_leases;      /* compiles that this service did for all machines */
    uint64_t remote_lease_waits; /* questions for a compile that another machine was doing */
    uint64_t remote_wait_ns;     /* waits for the server, but for those of pushes */
} kiln_stats;

/* Copies the counters. Each is read by itself, so two may differ by a get in progress. Errors: KILN_EINVAL. */
KILN_API kiln_status kiln_stats_get(const kiln_service *service, kiln_stats *out);

#ifdef __cplusplus
}
#endif
#endif
