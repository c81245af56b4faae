/* Launches of a module whose kernel takes out, inputs and n, as the service makes them of a flat plan. */
#ifndef KILN_TESTS_SUPPORT_FLAT_H
#define KILN_TESTS_SUPPORT_FLAT_H

#include "backend/backend.h"

enum { KILN_TEST_FLAT_INPUTS = 3 };

/* `tile` elements a block. in[0] to in[in_count - 1] are the inputs. What a kernel takes besides may follow: n is
 * parameter number 1 + in_count, and the tile the next one. */
static inline kiln_status kiln_test_launch_flat(const kiln__backend_vtable *vtable, kiln__module *module,
                                                uint32_t entry, uint64_t tile, uint64_t n, void *out,
                                                const void *const *in, uint32_t in_count, void *stream,
                                                kiln_report *why)
{
    void *args[3 + KILN_TEST_FLAT_INPUTS] = { &out };
    const uint32_t grid[3] = { (uint32_t)((n + tile - 1) / tile), 1, 1 };
    const void *arrays[KILN_TEST_FLAT_INPUTS];
    for (uint32_t i = 0; i < in_count; i++) {
        arrays[i] = in[i];
        args[1 + i] = &arrays[i];
    }
    args[1 + in_count] = &n;
    args[2 + in_count] = &tile;
    return vtable->launch(module, entry, grid, args, stream, why);
}

#endif
