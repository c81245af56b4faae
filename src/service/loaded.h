/* Loaded programs: users' own sources on a device, their functions, and the table that finds them again. */
#ifndef KILN_SERVICE_LOADED_H
#define KILN_SERVICE_LOADED_H

#include "base/list.h"
#include "service/runtime.h"
#include <kiln/kernel.h>

/* A function or a variable. */
typedef struct kiln__function {
    const char *name, *symbol; /* in the program's lists */
    uint32_t number;           /* the backend's; variables have none */
    bool variable;
    int parameters; /* -1: neither the driver nor the PTX tells */
    const size_t *sizes;
} kiln__function;

typedef struct kiln__loaded {
    const kiln__backend_vtable *vtable;
    kiln__module *module;
    kiln__runtime *runtime;
    kiln_device *device;
    kiln__key key; /* of its entry */
    char *spec;    /* the name of the source */
    kiln__target target;
    kiln_origin origin;
    double compile_ms;
    kiln__list names, symbols;
    struct kiln__loaded *next; /* in the table */
    atomic_uint refs;
    uint32_t count;
    kiln__function functions[];
} kiln__loaded;

/* The lines of an entry's section, or none. out->bytes.failed tells if memory ran out. */
void kiln__loaded_split(kiln__list *out, const kiln__entry *entry, const char *section);

/* Wraps a loaded module, which it takes over also on failure. Retains the runtime. One reference. NULL: out of memory. */
kiln__loaded *kiln__loaded_new(kiln__runtime *runtime, kiln_device *device, kiln__module *module,
                               const kiln__entry *entry, const kiln__unit *unit);

kiln__loaded *kiln__loaded_retain(kiln__loaded *program);
void kiln__loaded_release(kiln__loaded *program);

/* A function by its name or its symbol; NULL: the only one. KILN_ENOENT. */
kiln_status kiln__loaded_find(kiln__loaded *program, const char *name, const kiln__function **out, kiln_report *report);

/* The contract is that of kiln_program_global. */
kiln_status kiln__loaded_global(kiln__loaded *program, const char *name, void **address, size_t *bytes,
                                kiln_report *report);

/* Programs by device and entry. Each holds one reference until fini. Embedded in the service; any thread after init. */
typedef struct kiln__loaded_table {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t settled;
    kiln__loaded *first;
    struct kiln__loaded_claim *claims;
} kiln__loaded_table;

/* That a thread is loading the program of an entry on a device. */
typedef struct kiln__loaded_claim {
    bool held, busy; /* the caller's; another's */
    const kiln_device *device;
    kiln__key key;
    struct kiln__loaded_claim *next;
} kiln__loaded_claim;

void kiln__loaded_table_init(kiln__loaded_table *table);
void kiln__loaded_table_fini(kiln__loaded_table *table);

/* A new reference to the program of an entry on a device. NULL: there is none, and either another thread is loading it, claim->busy,
 * or the caller has claimed it by *claim, which must stay where it is until kiln__loaded_table_settle. */
kiln__loaded *kiln__loaded_table_claim(kiln__loaded_table *table, const kiln_device *device, const kiln__key *key,
                                       kiln__loaded_claim *claim);

/* Waits, as long as a load or a compile takes, for those who claim it, and then finds it or not; claims nothing. */
kiln__loaded *kiln__loaded_table_await(kiln__loaded_table *table, const kiln_device *device, const kiln__key *key);

/* Ends a claim, once the program has been added or has not become one; one that is not held is nothing. */
void kiln__loaded_table_settle(kiln__loaded_table *table, kiln__loaded_claim *claim);

/* Puts a program in, or, where another thread was faster, leaves the table as it is. Takes over the caller's reference and returns one
 * to the program that is in the table. */
kiln__loaded *kiln__loaded_table_add(kiln__loaded_table *table, kiln__loaded *program);

#endif
