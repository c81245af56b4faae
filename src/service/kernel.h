/* Loaded kernels and the table that finds them again. */
#ifndef KILN_SERVICE_KERNEL_H
#define KILN_SERVICE_KERNEL_H

#include "service/runtime.h"
#include <kiln/define.h>

struct kiln_kernel {
    /* What a launch reads: one cache line, which nobody writes. */
    const kiln__backend_vtable *vtable;
    kiln__module *module;
    uint64_t most; /* elements, more than which no memory holds */
    uint32_t inputs, element_size, entry_count;
    bool own_output;                 /* out is no array like the inputs */
    uint32_t odd[KILN__ENTRIES_MAX]; /* for each entry, the low bits that none of its pointers may have */
    /* What information reads. */
    kiln__rule rule;
    kiln__plan *plan; /* of a kernel with arguments of its own, which kiln__kernel_launch refuses; else NULL */
    kiln__runtime *runtime;
    kiln_device *device;
    char *spec;
    kiln_origin origin;
    double compile_ms;
    atomic_uint refs; /* last: threads that get and release must not slow down those that launch */
};

/* Wraps a loaded module, which it takes over also on failure. Retains the runtime. One reference. NULL: out of memory. */
kiln_kernel *kiln__kernel_new(kiln__runtime *runtime, kiln_device *device, kiln__module *module,
                              const kiln__unit *unit);

/* References; the last one unloads the module and lets go of the runtime. NULL is allowed. */
kiln_kernel *kiln__kernel_retain(kiln_kernel *kernel);
void kiln__kernel_release(kiln_kernel *kernel);

/* Checks the arguments and submits; the contract is kiln_launch's. */
kiln_status kiln__kernel_launch(const kiln_kernel *kernel, uint64_t n, void *out, const void *const *in, void *stream,
                                kiln_report *report);

/* The same for a kernel with arguments of its own; the contract is kiln_launch_args'. */
kiln_status kiln__kernel_launch_args(const kiln_kernel *kernel, const uint64_t *sizes, size_t size_count,
                                     const kiln_arg *args, size_t arg_count, void *stream, kiln_report *report);

/* Kernels by key, which is any bytes, each as it was known in one generation of what the owner chose it by (0 where there
 * is but one). Each holds one reference until it is replaced or fini. Sharded, so that gets of different kernels seldom
 * meet. Embedded in the service; any thread after init. */
enum { KILN__KERNEL_SHARDS = 32 };
typedef struct kiln__kernel_node kiln__kernel_node;
typedef struct kiln__kernel_table {
    struct {
        pthread_mutex_t lock;
        _Atomic(kiln__kernel_node *) first; /* changed by one store, so that a forked child finds it whole */
    } shards[KILN__KERNEL_SHARDS];
} kiln__kernel_table;

void kiln__kernel_table_init(kiln__kernel_table *table);
void kiln__kernel_table_fini(kiln__kernel_table *table);

/* A new reference to the kernel of that key and that generation, or NULL. */
kiln_kernel *kiln__kernel_table_find(kiln__kernel_table *table, const void *key, size_t length, uint64_t generation);

/* Puts a kernel in, or, where another thread was faster, leaves the table as it is. It takes the place of one of an earlier
 * generation, and stays outside where there is one of a later. Returns the one of the generation with a new reference for
 * the caller, whose own reference to `kernel` is taken over. Never NULL: when out of memory the kernel just stays
 * outside the table. The key is copied. */
kiln_kernel *kiln__kernel_table_add(kiln__kernel_table *table, const void *key, size_t length, uint64_t generation,
                                    kiln_kernel *kernel);

/* Calls fn with each kernel of the table and its key, under the lock of its shard: fn may retain the kernel, and must
 * not use the table. */
void kiln__kernel_table_visit(kiln__kernel_table *table,
                              void (*fn)(void *data, const void *key, size_t length, kiln_kernel *kernel), void *data);

/* In a forked child: the locks may have been held by threads of its parent's. Nothing is to be done before the fork. */
void kiln__kernel_table_after_fork(kiln__kernel_table *table);

#endif
