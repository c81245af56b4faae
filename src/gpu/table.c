#include "gpu/table.h"

#include <string.h>

const kiln__symbol *kiln__table_fill(void *table, const kiln__symbol *rows, size_t count,
                                     void *(*find)(void *data, const kiln__symbol *row), void *data)
{
    const kiln__symbol *missing = NULL;
    for (size_t i = 0; i < count; i++) {
        void *address = find(data, &rows[i]);
        memcpy((char *)table + rows[i].offset, &address, sizeof(address));
        if (address == NULL && rows[i].need == KILN__REQUIRED && missing == NULL)
            missing = &rows[i];
    }
    return missing;
}

/* A library that the loader cannot be asked for again by its path keeps its handle: the tables point into it. */
void kiln__table_keep(kiln__dylib *library)
{
    if (library != NULL && kiln__dylib_pin(library))
        kiln__dylib_close(library);
}
