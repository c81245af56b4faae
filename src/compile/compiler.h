/* From a unit to a checked entry: look in the stores, else compile and publish. */
#ifndef KILN_COMPILE_COMPILER_H
#define KILN_COMPILE_COMPILER_H

#include "compile/hostlock.h"
#include "compile/toolchain.h"
#include <stdatomic.h>

/* Embedded in the service, one for each compiler. Any thread after init. */
typedef struct kiln__builder {
    kiln__toolchains toolchains;
    kiln__tiers *tiers;
    const kiln__log *log;
    kiln__hostlock *hostlock; /* borrowed; NULL: other processes are not waited for */
    atomic_uint_least64_t compiles, failures, compile_ns;
} kiln__builder;

/* What came of it. Release with kiln__built_fini. */
typedef struct kiln__built {
    kiln__blob *blob; /* the entry, checked */
    size_t tier;      /* which store had it, when not compiled */
    bool compiled;
    uint64_t compile_ns;
    char *log; /* warnings of a compile, NULL if none */
} kiln__built;

void kiln__builder_init(kiln__builder *builder, kiln__compiler *compiler, kiln__tiers *tiers, const kiln__log *log);
void kiln__builder_fini(kiln__builder *builder); /* closes the compiler */

/* Finds the entry of a unit in the stores. False if it is not there, or if who made it cannot be told. Waits for
 * nobody. */
bool kiln__builder_find(kiln__builder *builder, const kiln__unit *unit, kiln__built *out);

/* Finds or makes the entry of a unit, waiting for another process that is making it. `fresh` skips the stores and the
 * wait: what they had did not load. Where there is no compiler, takes what the newest toolchain left in the stores. KILN_ENOCOMPILER, KILN_ECOMPILE, KILN_ETARGET, KILN_ENOMEM. */
kiln_status kiln__builder_build(kiln__builder *builder, const kiln__unit *unit, bool fresh, kiln__built *out,
                                kiln_report *report);
void kiln__built_fini(kiln__built *built);

/* Forgets a unit's entry that did not load. */
void kiln__builder_drop(kiln__builder *builder, const kiln__built *built);

/* The best target to compile for a GPU: its own if the compiler builds it or is not there to ask, else the highest below it
 * of the same major version (its cubins load), else the highest below it (its PTX does). */
void kiln__builder_choose_target(kiln__builder *builder, const kiln__target *device, kiln__target *out);

#endif
