/* Programs and their kernels: compiled code of a spec or a source, loaded on a device or only built, and
 * reference-counted; and the devices that they are loaded on. */
#ifndef KILN_SERVICE_PROGRAM_H
#define KILN_SERVICE_PROGRAM_H

#include "base/list.h"
#include "jit/builder.h"
#include <kiln/kernel.h>
#include <pthread.h>

/* ---- runtime.c: backends and open devices. Loaded kernels need them, so they live as long as the service or any
 * kernel. */

enum { KILN__DEVICES_MAX = 64 };

typedef struct kiln__runtime {
    atomic_uint refs;
    kiln__log log; /* a copy: kernels may outlive the service */
    kiln__backend *backends[KILN__BACKEND_END];
    pthread_mutex_t lock; /* held while a device is opened; each pointer is set once and read without it */
    _Atomic(kiln_device *) devices[KILN__BACKEND_END][KILN__DEVICES_MAX];
    _Atomic(kiln_device *) chosen; /* the default device once known */
    char *default_name;            /* as the host asked for it; NULL: the first GPU, else the cpu */
} kiln__runtime;

/* Opens no driver. `drivers` are the libraries that the host names, and like `default_name` may be NULL; copied, as
 * is `log`. One reference. KILN_EINVAL (not a device's name), KILN_ENOMEM. */
kiln_status kiln__runtime_open(kiln__runtime **out, const char *const drivers[KILN__BACKEND_END],
                               const char *default_name, const kiln__log *log, kiln_report *report);
kiln__runtime *kiln__runtime_retain(kiln__runtime *runtime);
void kiln__runtime_release(kiln__runtime *runtime);

/* The device of that name, NULL for the default one; opened on first use and kept. Blocks then. KILN_EINVAL,
 * KILN_ENODRIVER, KILN_ENODEVICE, KILN_EDEVICE. */
kiln_status kiln__runtime_device(kiln__runtime *runtime, const char *name, kiln_device **out, kiln_report *report);

/* The device if it is open already, without waiting for a thread that is opening one. */
bool kiln__runtime_has_device(kiln__runtime *runtime, const char *name, kiln_device **out);

/* ---- Programs */

/* A function or a variable of a program. */
typedef struct kiln__function {
    const char *name, *symbol; /* in the program's lists */
    uint32_t number;           /* the backend's; variables have none */
    bool variable;
    int parameters; /* of a source's function; -1: neither the driver nor the PTX tells */
    const size_t *sizes;
} kiln__function;

/* A kernel lives in its program, and a reference to it is one to the program. Constant, so that launches never wait for
 * threads that get and release. */
struct kiln_kernel {
    /* A launch reads these 48 bytes of a kernel. */
    const kiln__backend_vtable *vtable;
    kiln__module *module;
    const kiln__plan *plan; /* the signature of a template's kernel; NULL: a function of a source */
    uint32_t entry_count;
    uint32_t generation;             /* os/fork.h */
    uint32_t odd[KILN__ENTRIES_MAX]; /* for each entry, the low bits that none of its pointers may have */
    /* The rest is for information. */
    const kiln__function *function; /* of a source, or the first entry */
    kiln_signature *signature;
    kiln_device *device;
    const char *spec; /* the program's */
    kiln_program *program;
};

enum { KILN__ORIGINS = KILN_ORIGIN_REMOTE + 1 };

typedef struct kiln__function_infos kiln__function_infos;

struct kiln_program {
    atomic_uint refs;
    unsigned generation;  /* os/fork.h */
    kiln_kernel *kernels; /* of a spec one, of a source one for each function; NULL: built only */
    char *spec;           /* a spec's canonical text, a source's name */
    kiln__target target;
    kiln_origin origin;
    const char *origin_name; /* the store's */
    double compile_ms;
    kiln__list names, symbols;
    kiln__function *functions; /* the entries of a template, or the functions and variables of a source */
    uint32_t count;
    _Atomic(kiln__function_infos *) infos; /* once a caller has asked */
    /* Of a program that is loaded. */
    kiln__runtime *runtime;
    kiln_device *device;
    kiln__module *module;
    kiln__rule rule;         /* of a template */
    kiln__plan *plan;        /* of a template */
    struct kiln__held *held; /* its place in the table of programs, which guards it */
    /* Of a program that is built only. */
    kiln__blob *blob;
    char *shown_log; /* of a source, with the user's names of files */
};

/* Wraps a module that was loaded from a unit's entry, and takes it over, also on failure. Retains the runtime. One
 * reference. NULL: out of memory. */
kiln_program *kiln__program_loaded(kiln__runtime *runtime, kiln_device *device, kiln__module *module,
                                   const kiln__unit *unit, const kiln__built *built, kiln_origin origin);

/* Wraps an entry of a unit that is not loaded. One reference. NULL: out of memory. */
kiln_program *kiln__program_built(const kiln__unit *unit, const kiln__built *built, kiln_origin origin);

/* NULL is allowed. The last release unloads the module and lets go of the runtime. */
kiln_program *kiln__program_retain(kiln_program *program);
void kiln__program_release(kiln_program *program);
kiln_kernel *kiln__kernel_retain(kiln_kernel *kernel);
void kiln__kernel_release(kiln_kernel *kernel);

/* The contracts of these are those of the public functions; the infos are filled but for their size. */
kiln_status kiln__program_info(const kiln_program *program, kiln_program_info *out);
kiln_status kiln__program_kernel(kiln_kernel **out, kiln_program *program, const char *name, kiln_report *report);
kiln_status kiln__program_global(void **out, size_t *bytes, kiln_program *program, const char *name,
                                 kiln_report *report);
kiln_status kiln__program_section(const void **out, size_t *length, const kiln_program *program, const char *name);
void kiln__kernel_info(const kiln_kernel *kernel, kiln_kernel_info *out);

#endif
