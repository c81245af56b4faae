/* From a unit to a checked entry: look in the stores, else compile and publish. */
#ifndef KILN_JIT_COMPILER_H
#define KILN_JIT_COMPILER_H

#include "jit/filesum.h"
#include "jit/hostlock.h"
#include "jit/toolchain.h"
#include <stdatomic.h>

/* Embedded in the service, one for each compiler. Any thread after init. */
typedef struct kiln__builder {
    kiln__toolchains toolchains;
    kiln__tiers *tiers;
    bool unwatched;      /* sources compile in this process, where nothing keeps them from files */
    kiln__tiers at_hand; /* the tiers that are not on disk, borrowed: all that such sources know */
    kiln__filesums sums; /* of the headers that users' own sources read */
    const kiln__log *log;
    bool strict; /* refuse to compile */
    const char
        *warm_options; /* what stands at the end of the kiln warm line that a refusal names; borrowed, set once */
    kiln__hostlock *hostlock; /* borrowed; NULL: other processes are not waited for */
    atomic_uint_least64_t compiles, failures, compile_ns, refusals;
} kiln__builder;

/* What came of it. Release with kiln__built_fini. */
typedef struct kiln__built {
    kiln__blob *blob;   /* the entry, checked */
    kiln__tiers *tiers; /* where it may lie */
    size_t tier;        /* which of them had it, when not compiled */
    bool any;           /* the entry may be of any toolchain: kiln__builder_older finds those of older ones */
    kiln__miss miss;    /* why the stores did not have it, also on failure; NONE if they did or were not asked */
    bool compiled;
    uint64_t compile_ns;
    char *log; /* warnings of a compile, NULL if none */
} kiln__built;

void kiln__builder_init(kiln__builder *builder, kiln__compiler *compiler, kiln__tiers *tiers, const kiln__log *log);
void kiln__builder_fini(kiln__builder *builder); /* closes the compiler */

/* From now on users' own sources are neither looked for on disk nor put there. NVRTC in this process reads whatever
 * file of the working directory has the name of a header in memory: what comes of that is for this process alone.
 * Once the tiers are filled. */
void kiln__builder_keep_sources_at_hand(kiln__builder *builder);

/* Finds or makes the entry of a unit, waiting for another process that is making it. `fresh` compiles without the
 * stores and the lock, after a stored entry failed to load. The result is not stored before kiln__builder_replace.
 * Where there is no compiler, takes what the newest toolchain left in the stores. A user's own source is found as
 * its files are now; KILN_EIO if these do not hold still or cannot be read. KILN_ENOCOMPILER, KILN_ENOWORKER,
 * KILN_ECOMPILE, KILN_ECRASHED, KILN_ETARGET, KILN_ENOMEM; KILN_ESTRICT, counted, instead of compiling where that is
 * refused. */
kiln_status kiln__builder_build(kiln__builder *builder, const kiln__unit *unit, bool fresh, kiln__built *out,
                                kiln_report *report);
void kiln__built_fini(kiln__built *built);

/* The same for a caller that refuses to compile, whatever the builder does: KILN_ESTRICT, counted. */
kiln_status kiln__builder_require(kiln__builder *builder, const kiln__unit *unit, kiln__built *out,
                                  kiln_report *report);

/* Finds the entry of a unit in the stores, compiles nothing and waits for nobody. Where only a compile would tell which
 * toolchain is here, `any` takes what the newest one left, as a strict build does. KILN_ENOENT, KILN_ENOMEM. */
kiln_status kiln__builder_find(kiln__builder *builder, const kiln__unit *unit, bool any, kiln__built *out,
                               kiln_report *report);

/* Replaces an entry that did not load by what the next older toolchain left of the same unit. False, and *built as
 * it was, if there is none or only a certain toolchain's would do. */
bool kiln__builder_older(kiln__built *built);

/* Puts a fresh entry in the place of the stored one. */
void kiln__builder_replace(const kiln__built *built);

/* The best target to compile for a GPU: its own if the compiler builds it or is not there to ask, else the highest
 * below it of the same major version (its cubins load), else the highest below it (its PTX does). False: out of
 * memory, so that the compiler could not be asked; *out is the GPU's own. */
bool kiln__builder_choose_target(kiln__builder *builder, const kiln__target *device, kiln__target *out);

#endif
