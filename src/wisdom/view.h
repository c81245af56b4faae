/* All records that were known at one moment. Immutable and reference-counted, so that a match needs no lock while it
 * compares. */
#ifndef KILN_WISDOM_VIEW_H
#define KILN_WISDOM_VIEW_H

#include "wisdom/folder.h"
#include "wisdom/match.h"

typedef struct kiln__wisdom_view {
    atomic_uint refs;
    uint64_t generation; /* for the owner */
    kiln__wisdom_set own, shared;
    kiln__wisdom_item *items; /* in the order of sources, then of what they are about */
    size_t count;
    bool has_digests; /* some record says which text of its template it is about */
} kiln__wisdom_view;

/* Reads the files of both folders. To the user's own come the records of `kept`, which are copied. *error is 0 or
 * the first -errno for which a file was left out that may be good. One reference. NULL: out of memory. */
kiln__wisdom_view *kiln__wisdom_view_load(kiln__wisdom_folder *own, kiln__wisdom_folder *shared,
                                          const kiln__wisdom_set *kept, int *error);

/* Whether the records are the same. */
bool kiln__wisdom_view_equal(const kiln__wisdom_view *a, const kiln__wisdom_view *b);

void kiln__wisdom_view_release(kiln__wisdom_view *view); /* NULL is allowed */

#endif
