/* The one table of loaded programs, and the names under which they are found. */
#ifndef KILN_SERVICE_TABLE_H
#define KILN_SERVICE_TABLE_H

#include "service/program.h"

/* How a program is named. */
typedef enum kiln__name_kind {
    KILN__NAMED_ID,    /* kiln__want's id: the canonical text of a spec with every field set, or a source's digest */
    KILN__NAMED_ENTRY, /* the key of the entry that was loaded */
    KILN__NAMED_SPEC,  /* the canonical text of the spec that was asked for */
    KILN__NAMED_TEXT   /* the text that kiln_call was given; its meaning stays when wisdom changes */
} kiln__name_kind;

/* Borrows its text. */
typedef struct kiln__name {
    kiln__name_kind kind;
    uint8_t size;              /* of a spec: its n, as the choice of geometry sees it */
    uint64_t cols;             /* likewise the elements of its rows */
    uint64_t generation;       /* of a spec: of the wisdom that chose */
    const kiln_device *device; /* the program's for an id or an entry, else the one asked for; NULL: the default one */
    const char *text;
    size_t length;
    uint64_t hash; /* of the text: kiln__hash */
} kiln__name;

typedef struct kiln__held kiln__held;           /* a program of the table */
typedef struct kiln__name_node kiln__name_node; /* a name of one */

/* Says that a thread is loading the program of a name. Lies on the thread's stack, as the name does. */
typedef struct kiln__claim {
    bool held, busy; /* by the caller; by another thread */
    const kiln__name *name;
    struct kiln__claim *next;
} kiln__claim;

enum { KILN__TABLE_SHARDS = 32 };

typedef struct kiln__name_shard {
    pthread_mutex_t lock; /* guards the shard against readers; a writer holds the table's lock as well */
    kiln__name_node **buckets;
    size_t room, count;
} kiln__name_shard;

/* The table holds one reference to each program, under any number of names. Sharded by name, so that gets of different
 * programs seldom meet. Embedded in the service; any thread after init. */
typedef struct kiln__program_table {
    pthread_mutex_t lock; /* held for each change */
    kiln__held *first;    /* guarded by the lock, as the next two */
    size_t count, most;
    kiln__claim *claims; /* guarded by the lock */
    pthread_cond_t settled;
    atomic_uint_least64_t unloads;
    atomic_uint_least64_t clock; /* counts programs that came: coarse, so that hits only read it */
    kiln__name_shard shards[KILN__TABLE_SHARDS];
} kiln__program_table;

void kiln__program_table_init(kiln__program_table *table);
void kiln__program_table_fini(kiln__program_table *table);

/* A new reference to the program of that name, of the same generation, or NULL. */
kiln_program *kiln__program_table_find(kiln__program_table *table, const kiln__name *name);

/* Lets a name mean a program. If the name already means a program of this generation, *program becomes that one,
 * with a reference, and the caller's is released. A name of an earlier generation changes its meaning, one of a
 * later keeps it. False: out of memory, and the name stays as it was. The text is copied. */
bool kiln__program_table_add(kiln__program_table *table, const kiln__name *name, kiln_program **program);

/* Finds a program as kiln__program_table_find does, or claims its name for the caller (claim->held), unless another
 * thread has claimed it (claim->busy). A held claim must not move until it is settled. */
kiln_program *kiln__program_table_claim(kiln__program_table *table, const kiln__name *name, kiln__claim *claim);

/* Waits, as long as a load or a compile takes, until no thread claims the name, and then finds the program or not. */
kiln_program *kiln__program_table_await(kiln__program_table *table, const kiln__name *name);

/* Ends a claim, once the program has been added or has failed to load. Does nothing for one that is not held. */
void kiln__program_table_settle(kiln__program_table *table, kiln__claim *claim);

/* Lets go of the least recently used programs that only the table holds until at most `most` are left. Waits for their
 * devices first, and keeps a program if it must not wait or cannot. */
void kiln__program_table_trim(kiln__program_table *table);

/* Calls fn with each program of the table, under its lock: fn may retain the program, and must not use the table. */
void kiln__program_table_visit(kiln__program_table *table, void (*fn)(void *data, kiln_program *program), void *data);

#endif
