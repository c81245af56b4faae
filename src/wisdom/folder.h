/* The directory of wisdom in a cache: one file of records for each model of device.
 *
 *     <root>/wisdom/nvidia-h200.json
 *     <root>/wisdom/nvidia-h200.json.bad      a damaged one, put aside when it was made anew
 *     <root>/wisdom/lock                      empty; held while records are merged
 *
 * The store's rules of trust hold here too. A failure is counted, and logged once for each cause. Any thread. */
#ifndef KILN_WISDOM_FOLDER_H
#define KILN_WISDOM_FOLDER_H

#include "os/lock.h"
#include "store/store.h"
#include "wisdom/record.h"

enum { KILN__WISDOM_SLUG = 72 }; /* bytes of a file's name without its ending */

/* Embedded in its owner. */
typedef struct kiln__wisdom_folder {
    kiln__store *store; /* a directory store, borrowed; NULL: there is no folder */
    bool shared;        /* only read, and also trusted when it is root's */
    const kiln__log *log;
    kiln__store_counters *counters;
    uint32_t wait_ms;   /* for LOCK_TURN, and then for LOCK_FILES */
    atomic_uint warned; /* one bit for each cause */
} kiln__wisdom_folder;

/* Appends a text that changes when a file does: names, inodes, sizes, times. Reads no file. 0, or -errno if the
 * directory could not be read. Appends nothing where there is none or it is not trusted. */
int kiln__wisdom_folder_stamp(kiln__wisdom_folder *folder, kiln__text *stamp);

/* Adds the records of all good files, however many there are. 0, or the first -errno that left out a file that may be
 * good. */
int kiln__wisdom_folder_load(kiln__wisdom_folder *folder, kiln__wisdom_set *out);

/* Merges a set into the files of its models: under the lock each file is read, added to and published whole, so
 * that no process loses the records of another one. A damaged file is put aside. A file that is not trusted, that a
 * newer Kiln made or that cannot be read stays as it is, and nothing is added to it. 0, or -errno of the first
 * failure with the reason in problem: the tally then counts the records of the other files. Waits for the lock. */
int kiln__wisdom_folder_merge(kiln__wisdom_folder *folder, const kiln__wisdom_set *set, kiln__wisdom_counts *out,
                              char problem[KILN__WISDOM_REASON]);

/* Appends the path of a model's file; nothing where there is no folder. */
void kiln__wisdom_folder_path(const kiln__wisdom_folder *folder, const char *model, kiln__text *out);

/* The name of a model's file without its ending: "NVIDIA H200" gives "nvidia-h200". */
void kiln__wisdom_slug(const char *model, char out[KILN__WISDOM_SLUG]);

#endif
