/* Tables of functions from libraries that are opened at run time: what driver.c and nvrtc.c share. */
#ifndef KILN_GPU_TABLE_H
#define KILN_GPU_TABLE_H

#include "os/dylib.h"

typedef enum kiln__need { KILN__REQUIRED, KILN__OPTIONAL } kiln__need;

/* One function of a table. */
typedef struct kiln__symbol {
    kiln__need need;
    const char *name, *exported;
    int version;   /* the CUDA version that brought it: 12040 for 12.4 */
    size_t offset; /* of the pointer to it in the table */
} kiln__symbol;

/* Fills a table from its rows with what find(data, row) gives; NULL members are what it did not find. Returns the
 * first required row that is missing, or NULL. */
const kiln__symbol *kiln__table_fill(void *table, const kiln__symbol *rows, size_t count,
                                     void *(*find)(void *data, const kiln__symbol *row), void *data);

/* Closes the handle of an open library but keeps the library mapped for the rest of the process. NULL is allowed. */
void kiln__table_keep(kiln__dylib *library);

#endif
