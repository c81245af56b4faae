/* The interface of a backend, in two halves: a compiler that makes images from units, and devices that load and
 * launch them. "cuda" is NVRTC and the driver, "cpu" the system C compiler and dlopen. */
#ifndef KILN_BACKEND_BACKEND_H
#define KILN_BACKEND_BACKEND_H

#include "base/log.h"
#include "spec/unit.h"
#include "store/entry.h"
#include <kiln/kernel.h>
#include <stdatomic.h>

/* ---- Compilers */

enum { KILN__TARGETS_MAX = 64 };

/* Facts about a compiler. Plain data. */
typedef struct kiln__toolchain {
    char id[KILN__ENTRY_TOOLCHAIN_SIZE];     /* "nvrtc-13.0.88-36424714"; "" until a compile has told */
    char version[128];                       /* for people */
    char path[1024];                         /* the file that was opened */
    kiln__target targets[KILN__TARGETS_MAX]; /* what it can build for */
    uint32_t target_count;
} kiln__toolchain;

/* Appends the names of its targets, a blank between two. */
void kiln__toolchain_list_targets(const kiln__toolchain *toolchain, kiln__text *out);

/* Adds the targets of such a text. False for a text of another form, or for too many. */
bool kiln__toolchain_read_targets(kiln__toolchain *out, const char *text);

/* The result of a compile. Zero-initialised is empty. Its holder owns it. */
typedef struct kiln__image {
    void *binary; /* a cubin, or a shared object on the cpu */
    size_t binary_length;
    char *ptx; /* NULL on the cpu, and of a source that was linked */
    size_t ptx_length;
    char *log;                                  /* the compiler's log, "" or NULL if it said nothing */
    char toolchain[KILN__ENTRY_TOOLCHAIN_SIZE]; /* the compiler that made it */
    /* Of a user-defined source alone, NULL for others. */
    char *functions; /* as asked for, one a line */
    char *names;     /* what these are called in the code, one a line */
    char *linker;    /* the files that linked it and their stamps, NULL if none did (kiln__file_append_stamps) */
    char *reads;     /* what the compile has read (source/reads.h), NULL if it was not watched */
    bool unsettled;  /* files changed while it went on: what was read cannot be told for sure */
} kiln__image;

void kiln__image_fini(kiln__image *image);

/* Points an entry for `unit` into the image: sections "spec", "cubin" and "ptx" or "object", "names" (entry points,
 * one a line), "functions" for a user-defined source, and "log" if there is one. `names` receives the text of that
 * section and must live as long as the entry. The key is left to the caller. KILN_ENOMEM. */
kiln_status kiln__image_describe(kiln__entry *out, const kiln__image *image, const kiln__unit *unit, kiln__text *names);

typedef struct kiln__compiler kiln__compiler;
typedef struct kiln__compiler_vtable {
    const char *name; /* "nvrtc", "cc" */
    /* Appends the text of everything that decides which compiler file is found: explicit path, environment, loader
     * cache. Opens no compiler. Equal text and an unchanged file mean the same compiler. */
    void (*search)(const kiln__compiler *compiler, kiln__text *out);
    /* Appends the options that shape the output for a unit, the same for every version of the compiler: they are
     * part of the key. Those that a source asks for are in its key besides. */
    void (*options)(const kiln__compiler *compiler, const kiln__unit *unit, kiln__text *out);
    /* Finds and opens the compiler (once; later calls answer from memory) and fills *out. KILN_ENOCOMPILER with
     * what to do. Any thread. */
    kiln_status (*open)(kiln__compiler *compiler, kiln__toolchain *out, kiln_report *report);
    /* Makes sure that the id is known, compiling something tiny if need be, and fills *out. */
    kiln_status (*identify)(kiln__compiler *compiler, kiln__toolchain *out, kiln_report *report);
    /* Compiles for unit->target; opens the compiler first if need be. On success the caller owns what *out holds. On
     * failure the report has the log. Any number of threads at once. KILN_ETARGET, KILN_ECOMPILE, KILN_ENOCOMPILER. */
    kiln_status (*compile)(kiln__compiler *compiler, const kiln__unit *unit, kiln__image *out, kiln_report *report);
    void (*close)(kiln__compiler *compiler);
    /* Appends the paths of the files by which sources are linked, the linker first, as they go with a compiler of these
     * facts. Opens none. NULL where nothing is linked. KILN_ENOCOMPILER says what to do; KILN_ENOMEM. */
    kiln_status (*linker)(const kiln__compiler *compiler, const kiln__toolchain *toolchain, kiln__list *files,
                          kiln_report *report);
    /* Hands the compiler a store's memo of its file as that is now. NULL where it has no use for it. */
    void (*know)(kiln__compiler *compiler, const kiln__toolchain *known);
} kiln__compiler_vtable;
struct kiln__compiler {
    const kiln__compiler_vtable *vtable;
};

/* ---- Devices */

typedef struct kiln__backend kiln__backend;
typedef struct kiln__module kiln__module; /* a loaded image; each backend has its own */
typedef struct kiln__tape kiln__tape;     /* submissions that the device can repeat without the host */

typedef kiln_status (*kiln__submit)(void *data, void *stream);

/* Direction of a copy, from the point of view of the host. On the cpu all three copy within its memory. */
typedef enum kiln__copy_kind { KILN__COPY_TO_DEVICE = 1, KILN__COPY_FROM_DEVICE, KILN__COPY_ON_DEVICE } kiln__copy_kind;

typedef struct kiln__backend_vtable {
    const char *name;        /* "cuda", "cpu" */
    const char *cores;       /* how multiprocessors are called: "multiprocessors", "cores" */
    uint64_t usual_elements; /* of the arrays that kernels are tuned on */
    uint64_t copy_bytes;     /* that show how fast memory is copied */
    /* Number of devices; opens the driver on first use. KILN_ENODRIVER, KILN_ENODEVICE. */
    kiln_status (*device_count)(kiln__backend *backend, int *out, kiln_report *report);
    /* Whether KILN_ENODRIVER means that this machine has no such driver. Else one is broken, or was named and is not
     * there. NULL: no driver is needed. */
    bool (*lacks_driver)(kiln__backend *backend);
    /* Opens device `ordinal`; the caller closes it. KILN_ENODRIVER, KILN_ENODEVICE, KILN_EDEVICE. */
    kiln_status (*device_open)(kiln__backend *backend, int ordinal, kiln_device **out, kiln_report *report);
    void (*device_close)(kiln_device *device);
    void (*device_info)(const kiln_device *device, kiln_device_info *out);

    /* Bytes that can be allocated now, 0 if unknown. NULL: always unknown. */
    uint64_t (*free_memory)(kiln_device *device);

    /* Loads an entry's binary. *used_ptx is set if the driver had to translate PTX. The entry may go away afterwards.
     * KILN_ETARGET: an intact image that this device or driver does not take; KILN_ELOAD: the image is damaged, or
     * the driver failed in another way; KILN_EDEVICE: the device is lost; KILN_EIO, KILN_ENOMEM: what loading needs is
     * not there. */
    kiln_status (*load)(kiln_device *device, const kiln__entry *entry, const kiln__rule *rule, kiln__module **out,
                        bool *used_ptx, kiln_report *report);
    void (*unload)(kiln__module *module);
    /* Submits blocks in each direction, 1 or more, with the parameters that args[i] point to, which are read before it
     * returns. All has been checked. `entry` is the index into rule->entries. */
    kiln_status (*launch)(kiln__module *module, uint32_t entry, const uint32_t grid[3], void **args, void *stream,
                          kiln_report *report);
    /* Memory for the launches in a stream from this call to release_scratch. Loading a kernel whose rule says that it
     * needs some makes the first call quick. Any number of launches may have some at a time. In a stream that is
     * captured it belongs to the graph. */
    kiln_status (*scratch)(kiln_device *device, size_t bytes, void *stream, void **out, kiln_report *report);
    kiln_status (*release_scratch)(kiln_device *device, void *memory, void *stream, kiln_report *report);
    /* Whether launches in a stream are captured into a graph now, instead of run. KILN_ELAUNCH: there is no such
     * stream. */
    kiln_status (*capturing)(kiln_device *device, void *stream, bool *out, kiln_report *report);
    /* Registers and local bytes per thread of the first entry, -1 where there is no such thing. */
    void (*resources)(const kiln__module *module, int *registers, int *local_bytes);

    /* NULL where a backend has no CUDA sources. `function` is the number of a template's entry; of a source's
     * module, whose entry has a section "functions", a number among those there that are no variables. */
    const struct kiln__function_vtable *functions;

    kiln_status (*alloc)(kiln_device *device, void **out, size_t bytes, kiln_report *report);
    void (*free)(kiln_device *device, void *memory);
    kiln_status (*copy)(kiln_device *device, void *to, const void *from, size_t bytes, kiln__copy_kind kind,
                        void *stream, kiln_report *report);
    kiln_status (*sync)(kiln_device *device, kiln_report *report);
    /* Milliseconds that `repeats` submissions take together on the device, submitted back to back. */
    kiln_status (*time)(kiln_device *device, kiln__submit submit, void *data, uint32_t repeats, double *out,
                        kiln_report *report);
    const struct kiln__tape_vtable *tapes; /* NULL where a backend has no such thing */
    void (*close)(kiln__backend *backend);
} kiln__backend_vtable;
struct kiln__backend {
    const kiln__backend_vtable *vtable;
};

typedef struct kiln__function_facts {
    int registers, local_bytes;       /* per thread */
    int shared_bytes, constant_bytes; /* static */
    int max_threads;                  /* of a block */
    int block_threads;                /* that each block must have, 0: any number; no driver tells */
} kiln__function_facts;

typedef struct kiln__function_vtable {
    /* Fills what the driver knows: -1 where it does not tell. */
    void (*info)(const kiln__module *module, uint32_t function, kiln__function_facts *out);
    /* The size of parameter number `index`. 1; 0: there are not so many; -1: the driver does not tell. */
    int (*parameter)(const kiln__module *module, uint32_t function, uint32_t index, size_t *bytes);
    kiln_status (*occupancy)(const kiln__module *module, uint32_t function, uint32_t block, uint32_t shared_bytes,
                             int *out, kiln_report *report);
    /* Arguments are as many as there are parameters. */
    kiln_status (*launch)(kiln__module *module, uint32_t function, const kiln_grid *grid, void **arguments,
                          void *stream, kiln_report *report);
    /* A variable by its name in the code. KILN_ENOENT. */
    kiln_status (*global)(kiln__module *module, const char *name, void **out, size_t *bytes, kiln_report *report);
} kiln__function_vtable;

/* For timing work that takes the device less time than the host needs to submit it. */
typedef struct kiln__tape_vtable {
    /* Calls `submit` `count` times, 1 or more, and keeps the launches and the copies on the device that it asks Kiln
     * for in the stream that it is given, instead of doing them. Whatever else it does is done, and is not on the
     * tape. NULL where there is none to be had: the driver is too old or refuses, memory is short, a submission
     * failed, asked for nothing, or for something that no tape can hold. Kernels and memory must be there as long as
     * the tape. Other threads and streams notice nothing. */
    kiln__tape *(*make)(kiln_device *device, kiln__submit submit, void *data, uint32_t count);
    /* Milliseconds that `replays` replays of the tape take together, back to back and without gaps that the host
     * leaves. */
    kiln_status (*play)(kiln_device *device, kiln__tape *tape, uint32_t replays, double *out, kiln_report *report);
    /* NULL is allowed. */
    void (*discard)(kiln_device *device, kiln__tape *tape);
} kiln__tape_vtable;

/* ---- The backends */

/* Open a backend's devices and its compiler, which look for nothing yet. `driver` and `compiler` are the paths of
 * libraries or programs, NULL for the usual ones; copied. `log` is borrowed until close. NULL when out of memory. */
#define KILN__BACKEND_OPEN(id, name, prefix, numbered, section, twin, words)      \
    kiln__backend *kiln__##name##_open(const char *driver, const kiln__log *log); \
    kiln__compiler *kiln__##name##_compiler_open(const char *compiler, const kiln__log *log);
KILN__BACKENDS(KILN__BACKEND_OPEN)
#undef KILN__BACKEND_OPEN

/* First member of each backend's device. */
struct kiln_device {
    kiln__backend *backend;
    kiln__target target;
    bool has_pools;      /* that scratch memory of launches is taken from */
    int ordinal;         /* of the GPU; 0 for the cpu */
    char name[16];       /* "cuda:0", "cpu" */
    unsigned generation; /* os/fork.h */
    atomic_bool tuning;  /* a tuning has the device: see tune/session.h */
};

#endif
