/* From a unit to a checked entry: look in the stores, else compile and publish. */
#ifndef KILN_JIT_BUILDER_H
#define KILN_JIT_BUILDER_H

#include "backend/backend.h"
#include "jit/filesum.h"
#include "os/lock.h"
#include "store/tiers.h"
#include <pthread.h>
#include <stdatomic.h>

/* ---- Which compiler there is, without opening it: remembered in the store by the compiler file's path, size, time and
 * inode, so that a hit opens no compiler */

/* Embedded in its owner; compiler and tiers are borrowed. Any thread after init. */
typedef struct kiln__toolchains {
    kiln__compiler *compiler;
    kiln__tiers *tiers;
    pthread_mutex_t lock;
    bool known;                  /* `toolchain` is filled, its id perhaps not */
    bool kept;                   /* it came from the store, or was put there after a compile */
    kiln__toolchain *toolchain;  /* large: made at the first request */
    pthread_mutex_t linker_lock; /* guards what follows */
    kiln__text linker_stamps;    /* of the linker's files; empty: not known yet */
    bool linker_kept;            /* as `kept` */
    char linker_id[KILN__ENTRY_TOOLCHAIN_SIZE];
} kiln__toolchains;

void kiln__toolchains_init(kiln__toolchains *memo, kiln__compiler *compiler, kiln__tiers *tiers);
void kiln__toolchains_fini(kiln__toolchains *memo);

/* Fills *out from memory, else from the store, else by opening the compiler; out->id stays "" where only a compile
 * tells it. KILN_ENOCOMPILER, KILN_ENOMEM. */
kiln_status kiln__toolchains_get(kiln__toolchains *memo, kiln__toolchain *out, kiln_report *report);

/* The same for the id alone. */
kiln_status kiln__toolchains_id(kiln__toolchains *memo, char out[KILN__ENTRY_TOOLCHAIN_SIZE], kiln_report *report);

/* Appends the id of the linker that goes with the compiler to the compiler's own, which may be "" and then stays so:
 * together they make what is linked. The linker's is a digest of its files, found as the compiler's is, without
 * opening the linker. `linker` is kiln__image's, and the files must still be those; NULL: as the files are now.
 * KILN_ENOCOMPILER, KILN_ENOMEM; `id` is then "". */
kiln_status kiln__toolchains_add_linker(kiln__toolchains *memo, const char *linker, char id[KILN__ENTRY_TOOLCHAIN_SIZE],
                                        kiln_report *report);

/* Takes the id that a compile has found, and remembers it in the store. */
void kiln__toolchains_learn(kiln__toolchains *memo, const char *id);

/* ---- One compile per key per host: a lock on one byte of <root>/v1/lock, at an offset that the key's digest gives.
 * The kernel lets go of it when its holder dies, so no process guesses whether a lock is stale; nothing is left
 * behind. */

typedef kiln__lock kiln__keylock_hold; /* on the stack of the thread that compiles */

/* Embedded in the service. Any thread after init. */
typedef struct kiln__keylock {
    kiln__store *disk; /* borrowed; NULL: there is no host lock */
    uint32_t wait_ms;
    const kiln__log *log;
    void (*aside)(void *data, bool begin); /* called around a wait, on the waiting thread; may be NULL */
    void *data;
    atomic_bool warned;
    atomic_uint_least64_t waits, timeouts, errors;
} kiln__keylock;

void kiln__keylock_init(kiln__keylock *lock, kiln__store *disk, uint32_t wait_ms, const kiln__log *log);

/* Waits until no other process or service holds the key's lock, at most wait_ms. True: this thread holds it, until
 * give. False: there is no lock to be had (no store, the file system has none, the wait outlasted its bound); all
 * but the first is counted, and the caller compiles all the same. Locks of different keys do not meet. */
bool kiln__keylock_take(kiln__keylock *lock, const uint8_t digest[KILN__DIGEST_SIZE], kiln__keylock_hold *out);

/* The same lock for anything but a compile: waits at most `wait_ms`, and counts and logs nothing. */
bool kiln__keylock_take_quietly(kiln__keylock *lock, const uint8_t digest[KILN__DIGEST_SIZE], uint32_t wait_ms,
                                kiln__keylock_hold *out);
static inline void kiln__keylock_give(kiln__keylock_hold *hold)
{
    kiln__lock_close(hold);
}

/* ---- Keys and entries */

/* The only definition of a key: everything that can change what a compiler makes of a unit, of a source all but the
 * contents of the files that it reads. Writes the key's text to `text` (empty before) and its digest to *out;
 * out->toolchain is left empty. Pure. KILN_ENOMEM. */
kiln_status kiln__key_make(kiln__key *out, kiln__text *text, const kiln__unit *unit, const char *options);

/* Whether what a unit compiles to depends on files. */
bool kiln__unit_reads_files(const kiln__unit *unit);

/* Joins two lists, of one key, of files that were read, as far as there is room, the first in front. NULL with KILN_OK:
 * the second adds nothing. KILN_ENOMEM. */
kiln_status kiln__reads_merge(kiln__blob **out, kiln__blob *first, kiln__blob *second);

/* Encodes an entry. KILN_ENOMEM, KILN_EINVAL. */
kiln_status kiln__blob_encode(kiln__blob **out, const kiln__entry *entry);

/* ---- Building */

/* Embedded in the service, one for each compiler. Any thread after init. */
typedef struct kiln__builder {
    kiln__toolchains toolchains;
    kiln__tiers *tiers;
    kiln__tiers *local;  /* those of this machine */
    bool push;           /* entries that the tiers of this machine have go to the remote, too */
    bool unwatched;      /* sources compile in this process, where nothing keeps them from files */
    kiln__tiers at_hand; /* the tiers that are not on disk, borrowed: all that such sources know */
    kiln__filesums sums; /* of the headers that sources read */
    const kiln__log *log;
    bool strict; /* refuse to compile */
    const char
        *warm_options;      /* what stands at the end of the kiln warm line that a refusal names; borrowed, set once */
    kiln__keylock *keylock; /* borrowed; NULL: other processes are not waited for */
    struct kiln__daemon *daemon; /* compiles for this one, borrowed (jit/daemon/client.h); NULL: none is asked */
    atomic_uint_least64_t compiles, failures, compile_ns, refusals;
} kiln__builder;

/* The result. Release with kiln__built_fini. */
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

/* `local` has the tiers of this machine, where the facts about its compilers are. */
void kiln__builder_init(kiln__builder *builder, kiln__compiler *compiler, kiln__tiers *tiers, kiln__tiers *local,
                        const kiln__log *log);
void kiln__builder_fini(kiln__builder *builder); /* closes the compiler */

/* From now on sources are neither looked for on disk nor put there. NVRTC in this process reads whatever
 * file of the working directory has the name of a header in memory: the result is for this process alone.
 * Once the tiers are filled. */
void kiln__builder_keep_sources_at_hand(kiln__builder *builder);

/* Finds or makes the entry of a unit, waiting for another process that is making it. `fresh` compiles without the
 * stores and the lock, after a stored entry failed to load. The entry is not stored before kiln__builder_replace; a
 * source's list of reads is. Without a compiler the newest toolchain's entry of the stores will do. A source is found
 * as its files are now; KILN_EIO if these do not hold still or cannot be read. KILN_ENOCOMPILER, KILN_ENOWORKER,
 * KILN_ECOMPILE, KILN_ECRASHED, KILN_ETARGET, KILN_ENOMEM; KILN_ESTRICT, counted, instead of compiling where that is
 * refused. */
kiln_status kiln__builder_build(kiln__builder *builder, const kiln__unit *unit, bool fresh, kiln__built *out,
                                kiln_report *report);
void kiln__built_fini(kiln__built *built);

/* The same for a caller that refuses to compile, whatever the builder does: KILN_ESTRICT, counted. */
kiln_status kiln__builder_require(kiln__builder *builder, const kiln__unit *unit, kiln__built *out,
                                  kiln_report *report);

/* Finds the entry of a unit in the stores, compiles nothing and waits for no other process. Where only a compile
 * would tell which toolchain is here, `any` takes what the newest one left, as a strict build does. KILN_ENOENT,
 * KILN_ENOMEM. */
kiln_status kiln__builder_find(kiln__builder *builder, const kiln__unit *unit, bool any, kiln__built *out,
                               kiln_report *report);

/* Whether the stores on disk have the entry of a unit, so that another process finds it there. KILN_ENOENT, which the
 * caller reports, where they have not, with the reason of the miss in *why; KILN_ENOMEM. */
kiln_status kiln__builder_is_kept(kiln__builder *builder, const kiln__unit *unit, kiln__miss *why, kiln_report *report);

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
