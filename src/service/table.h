/* The one table of loaded kernels, and the names under which they are found. */
#ifndef KILN_SERVICE_TABLE_H
#define KILN_SERVICE_TABLE_H

#include "service/kernel.h"

/* How a kernel is named. */
typedef enum kiln__name_kind {
    KILN__NAMED_WHOLE, /* the device's name and the canonical text with every field set */
    KILN__NAMED_SPEC,  /* the canonical text of the spec that was asked for */
    KILN__NAMED_TEXT   /* the text that kiln_call was given, whatever wisdom says later */
} kiln__name_kind;

/* Borrows its text. */
typedef struct kiln__name {
    kiln__name_kind kind;
    uint8_t size;              /* of a spec: its n, as the choice of geometry sees it */
    uint64_t generation;       /* of a spec: of the wisdom that chose */
    const kiln_device *device; /* the one asked for, NULL for the default one */
    const char *text;
    size_t length;
    uint64_t hash; /* of the text: kiln__hash */
} kiln__name;

typedef struct kiln__held kiln__held;           /* a kernel of the table */
typedef struct kiln__name_node kiln__name_node; /* a name of one */

enum { KILN__TABLE_SHARDS = 32 };

/* The table holds one reference to each kernel, whatever names it has. Sharded by name, so that gets of different kernels
 * seldom meet. Embedded in the service; any thread after init. */
typedef struct kiln__kernel_table {
    pthread_mutex_t lock; /* held by whoever changes anything here */
    kiln__held *first;    /* guarded by the lock, as the next two */
    size_t count, most;
    atomic_uint_least64_t unloads;
    atomic_uint_least64_t clock; /* counts kernels that came: coarse, so that hits only read it */
    struct {
        pthread_mutex_t
            lock; /* guards the buckets beside the table's, which is taken first: readers need but this one */
        kiln__name_node **buckets;
        size_t room, count;
    } shards[KILN__TABLE_SHARDS];
} kiln__kernel_table;

void kiln__kernel_table_init(kiln__kernel_table *table);
void kiln__kernel_table_fini(kiln__kernel_table *table);

/* A new reference to the kernel of that name, of the same generation, or NULL. */
kiln_kernel *kiln__kernel_table_find(kiln__kernel_table *table, const kiln__name *name);

/* Lets a name mean a kernel. Where another thread was faster, *kernel becomes the kernel of the name, and the reference
 * goes over to it. A name of an earlier generation changes its meaning, one of a later keeps it. False: out of memory, and
 * the name stays as it was. The text is copied. */
bool kiln__kernel_table_add(kiln__kernel_table *table, const kiln__name *name, kiln_kernel **kernel);

/* Lets go of the least recently used kernels that nobody else holds until at most `most` are left. Waits for their devices
 * first, and keeps a kernel where it must not wait or cannot. */
void kiln__kernel_table_trim(kiln__kernel_table *table);

/* Calls fn with each kernel of the table, under its lock: fn may retain the kernel, and must not use the table. */
void kiln__kernel_table_visit(kiln__kernel_table *table, void (*fn)(void *data, kiln_kernel *kernel), void *data);

#endif
