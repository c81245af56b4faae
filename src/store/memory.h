/* The memory store: the most recently used blobs, up to a number of bytes. Any thread. */
#ifndef KILN_STORE_MEMORY_H
#define KILN_STORE_MEMORY_H

#include "store/store.h"

/* `limit` counts the blobs with their bookkeeping; one that would take more than half of it is not kept. NULL when out
 * of memory. */
kiln__store *kiln__memory_store_open(size_t limit);

#endif
