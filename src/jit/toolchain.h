/* Which compiler there is, without opening it: remembered in the store by the compiler file's path, size, time and
 * inode, so that a hit opens no compiler. */
#ifndef KILN_JIT_TOOLCHAIN_H
#define KILN_JIT_TOOLCHAIN_H

#include "backend/backend.h"
#include "store/tiers.h"
#include <pthread.h>

/* Embedded in its owner; compiler and tiers are borrowed. Any thread after init. */
typedef struct kiln__toolchains {
    kiln__compiler *compiler;
    kiln__tiers *tiers;
    pthread_mutex_t lock;
    bool known;                 /* `toolchain` is filled, its id perhaps not */
    kiln__toolchain *toolchain; /* large: made when somebody asks */
} kiln__toolchains;

void kiln__toolchains_init(kiln__toolchains *memo, kiln__compiler *compiler, kiln__tiers *tiers);
void kiln__toolchains_fini(kiln__toolchains *memo);

/* Fills *out from memory, else from the store, else by opening the compiler; out->id stays "" where only a compile
 * tells it. KILN_ENOCOMPILER, KILN_ENOMEM. */
kiln_status kiln__toolchains_get(kiln__toolchains *memo, kiln__toolchain *out, kiln_report *report);

/* The same for the id alone. */
kiln_status kiln__toolchains_id(kiln__toolchains *memo, char out[KILN__ENTRY_TOOLCHAIN_SIZE], kiln_report *report);

/* Tells what a compile found the id to be, and remembers it in the store. */
void kiln__toolchains_learn(kiln__toolchains *memo, const char *id);

#endif
