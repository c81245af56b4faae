/* The user's store on disk: look at it, make it smaller, move kernels between machines.
 *
 * Gets need none of this: a service finds, keeps and evicts entries by itself. Other processes may use the store
 * meanwhile. Where the service has no store on disk every function here answers KILN_ENOENT. docs/cache-format.md
 * describes the files. */
#ifndef KILN_CACHE_H
#define KILN_CACHE_H

#include <kiln/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_cache_info {
    size_t size;
    const char *directory; /* lives as long as the service */
    uint64_t cap_bytes;    /* UINT64_MAX: none; bytes count in blocks of 4 KiB, as in kiln_trim */
    uint64_t cap_files;
    uint64_t temporaries; /* files that a writer writes now, or left when it was killed; the latter go after an hour */
    uint64_t temporary_bytes;
} kiln_cache_info;

/* Facts about the store that kiln_cache_visit does not show. Reads every directory and no file.
 * Errors: KILN_ENOENT, KILN_EIO (out->directory is there all the same). */
KILN_API kiln_status kiln_cache_get_info(kiln_service *service, kiln_cache_info *out, kiln_report *report);

typedef struct kiln_entry_info {
    size_t size;
    const char *path;
    const char *kind;   /* "kernel"; "reads": the headers that a source read; "toolchain": the identity of a compiler */
    const char *spec;   /* canonical text; of a source its name and target; "": the entry is damaged, or a toolchain */
    const char *target; /* "sm_90" or "cpu"; "": as above */
    const char *toolchain; /* the compiler that made it, "nvrtc-13.0.88-36424714" */
    uint64_t bytes;
    int64_t used;        /* last use, to the hour, in seconds since 1970; 0: unknown */
    kiln_status status;  /* KILN_OK; KILN_EIO: damaged or unreadable; KILN_EINVAL: not to be trusted */
    const char *problem; /* the reason in words; "": none */
} kiln_entry_info;

typedef int (*kiln_entry_fn)(void *data, const kiln_entry_info *entry);

/* Chooses entries: non-zero takes this one. */
typedef int (*kiln_select_fn)(void *data, const kiln_entry_info *entry);

/* Reads, checks and shows every entry, in no order. Entries that come or go meanwhile may be missed.
 * Errors: KILN_ENOENT, KILN_EIO. */
KILN_API kiln_status kiln_cache_visit(kiln_service *service, kiln_entry_fn fn, void *data, kiln_report *report);

/* Removes the entries that `select` takes, all of them where it is NULL, and temporaries that a killed writer left.
 * Links are removed and never followed. Nothing goes that does not have a name of Kiln's, or that is in a directory
 * that others can write. A file that cannot be read, and not for its own mode, may be good: it stays, without a
 * question to `select`. *removed (may be NULL) counts the entries, also on failure. Errors: KILN_ENOENT, KILN_EIO (the
 * report names the first path that stayed; the others went). */
KILN_API kiln_status kiln_cache_purge(kiln_service *service, kiln_select_fn select, void *data, uint64_t *removed,
                                      kiln_report *report);

typedef struct kiln_trim {
    size_t size;
    uint64_t removed, removed_bytes;
    uint64_t kept, kept_bytes;
} kiln_trim;

/* Removes the least recently used entries until at most `bytes` and `files` are left, 0 for the caps of the service,
 * and temporaries that a killed writer left. Looks at every file and reads none. *out may be NULL. Errors: KILN_ENOENT,
 * KILN_EIO (an entry could not be removed), KILN_ENOMEM. */
KILN_API kiln_status kiln_cache_trim(kiln_service *service, uint64_t bytes, uint64_t files, kiln_trim *out,
                                     kiln_report *report);

typedef struct kiln_transfer {
    size_t size;
    uint64_t entries; /* written to the pack, or added to the store */
    uint64_t bytes;   /* of the pack, or of the added entries */
    uint64_t present; /* of an import: were there already */
    uint64_t damaged; /* refused */
    uint64_t skipped; /* bound to the machine that made them, as cpu kernels are, or too large for the store */
} kiln_transfer;

/* Writes the entries that `select` takes, all of them where it is NULL, to one file, a pack. Equal entries make equal
 * bytes. The pack replaces an older file of its name when it is whole. *out may be NULL. Errors: KILN_EINVAL (`path`
 * cannot be a file), KILN_ENOENT, KILN_EIO, KILN_ENOMEM. */
KILN_API kiln_status kiln_cache_export(kiln_service *service, const char *path, kiln_select_fn select, void *data,
                                       kiln_transfer *out, kiln_report *report);

/* Adds the entries of a pack to the store. The file must belong to the user or to root, and only its owner may be able
 * to write it. Each entry is checked whole; a damaged one is left out and counted. May wait two seconds for compiles of
 * sources that are in the pack. *out may be NULL.
 * Errors: KILN_EINVAL (not a usable pack), KILN_ENOENT, KILN_EIO (a write failed; what was added stays), KILN_ENOMEM.
 */
KILN_API kiln_status kiln_cache_import(kiln_service *service, const char *path, kiln_transfer *out,
                                       kiln_report *report);

#ifdef __cplusplus
}
#endif
#endif
