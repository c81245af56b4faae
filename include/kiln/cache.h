/* The user's store on disk: inspect it, shrink it, move entries between machines.
 *
 * Gets need none of this: a service finds, keeps and evicts entries by itself. Other processes may use the store during
 * any call. Every function blocks for its file work. All but kiln_push_wait return KILN_ENOENT if the service has no
 * store on disk.
 * docs/cache-format.md describes the files. */
#ifndef KILN_CACHE_H
#define KILN_CACHE_H

#include <kiln/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_cache_info {
    size_t size;
    const char *directory; /* lives as long as the service */
    uint64_t cap_bytes;    /* whole blocks of 4 KiB count, as in kiln_trim; UINT64_MAX: none */
    uint64_t cap_files;    /* UINT64_MAX: none */
    uint64_t temporaries;  /* files of running and of killed writers; the latter go after an hour */
    uint64_t temporary_bytes;
} kiln_cache_info;

/* Fills *out with the caps and the temporaries of the store. Reads every directory and no file.
 * Errors: KILN_EINVAL, KILN_ENOENT, KILN_EIO (out->directory is set all the same). */
KILN_API kiln_status kiln_cache_get_info(kiln_service *service, kiln_cache_info *out, kiln_report *report);

typedef struct kiln_entry_info {
    size_t size;
    const char *path;
    const char *kind;      /* "kernel"; "reads": the headers that a source read; "toolchain": a compiler's identity */
    const char *spec;      /* canonical text; of a source its name and target; "": a toolchain */
    const char *target;    /* "sm_90" or "cpu"; "": a toolchain */
    const char *toolchain; /* the compiler that made it, "nvrtc-13.0.88-36424714" */
    uint64_t bytes;
    int64_t used;        /* last use, to the hour, in seconds since 1970; 0: unknown */
    kiln_status status;  /* KILN_OK; KILN_EIO: damaged or unreadable; KILN_EINVAL: not trusted. The texts above but path
                            are "" unless it is KILN_OK */
    const char *problem; /* the reason in words; "": none */
} kiln_entry_info;

typedef int (*kiln_entry_fn)(void *data, const kiln_entry_info *entry);

/* Selects entries: non-zero takes this one. */
typedef int (*kiln_select_fn)(void *data, const kiln_entry_info *entry);

/* Reads and checks every entry and calls `fn` with it, in no order. Entries that come or go meanwhile may be missed.
 * Errors: KILN_ENOENT, KILN_EIO. */
KILN_API kiln_status kiln_cache_visit(kiln_service *service, kiln_entry_fn fn, void *data, kiln_report *report);

/* Removes the entries that `select` takes (NULL: all), and temporaries of killed writers. Links are removed and never
 * followed. Only files with a name of Kiln's go, and only from directories that no other user can write. A file that
 * cannot be read for a reason outside it may be good: it stays, and `select` is not called. *removed (may be NULL)
 * counts the entries, also after a failure.
 * Errors: KILN_ENOENT, KILN_EIO (the report names the first path that stayed; the others went). */
KILN_API kiln_status kiln_cache_purge(kiln_service *service, kiln_select_fn select, void *data, uint64_t *removed,
                                      kiln_report *report);

typedef struct kiln_trim {
    size_t size;
    uint64_t removed, removed_bytes; /* entries, and the bytes of their blocks */
    uint64_t kept, kept_bytes;
} kiln_trim;

/* Removes the least recently used entries until at most `bytes` and `files` are left (0: the caps of the service), and
 * temporaries of killed writers. Looks at every file and reads none. *out may be NULL.
 * Errors: KILN_ENOENT, KILN_EIO (a directory or an entry failed; the rest is done), KILN_ENOMEM. */
KILN_API kiln_status kiln_cache_trim(kiln_service *service, uint64_t bytes, uint64_t files, kiln_trim *out,
                                     kiln_report *report);

typedef struct kiln_transfer {
    size_t size;
    uint64_t entries; /* written to the pack, or added to the store */
    uint64_t bytes;   /* of the pack, or of the added entries */
    uint64_t present; /* of an import: already in the store */
    uint64_t damaged; /* refused */
    uint64_t skipped; /* made for one machine alone, as cpu kernels are */
} kiln_transfer;

/* Writes the entries that `select` takes (NULL: all) to a pack, one file. Equal entries make equal bytes. The finished
 * pack replaces an older file of its name at once. *out may be NULL.
 * Errors: KILN_EINVAL (`path` cannot be a file), KILN_ENOENT, KILN_EIO, KILN_ENOMEM. */
KILN_API kiln_status kiln_cache_export(kiln_service *service, const char *path, kiln_select_fn select, void *data,
                                       kiln_transfer *out, kiln_report *report);

/* A push to the remote that failed: the spec of the entry, and the reason in words. */
typedef void (*kiln_push_fn)(void *data, const char *spec, const char *reason);

/* Waits until all pushes to the remote (kiln_options.remote) are answered, at most wait_ms. Then calls `failed` (may be
 * NULL) with each that failed since the last call, on the caller's thread. Needs no store on disk.
 * Errors: KILN_EINVAL, KILN_ENOENT (there is no remote, or it is not used, or there is no secret to sign with),
 * KILN_ETIMEDOUT (`failed` was called all the same). */
KILN_API kiln_status kiln_push_wait(kiln_service *service, uint32_t wait_ms, kiln_push_fn failed, void *data,
                                    kiln_report *report);

/* Adds the entries of a pack to the store. The file must belong to the user or to root, and be writable by its owner
 * alone. Each entry is checked whole; a damaged one is left out and counted. Waits up to two seconds in all for other
 * processes that compile a source of the pack. *out may be NULL.
 * Errors: KILN_EINVAL (no usable pack), KILN_ENOENT, KILN_EIO (a write failed, or the caps of the store did not keep
 * all; *out is filled, and added entries stay), KILN_ENOMEM. */
KILN_API kiln_status kiln_cache_import(kiln_service *service, const char *path, kiln_transfer *out,
                                       kiln_report *report);

#ifdef __cplusplus
}
#endif
#endif
