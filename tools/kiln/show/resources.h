/* The resources of compiled kernels, and their occupancy. */
#ifndef KILN_TOOLS_RESOURCES_H
#define KILN_TOOLS_RESOURCES_H

#include "cli/common.h"
#include "text/jsonout.h"
#include "text/table.h"

/* The functions of a program. It lives as long as the program, and is not to be copied. */
typedef struct chip_use {
    const char *name, *target;
    const kiln_function_info *const *rows;
    size_t count; /* 0 on the cpu */
    bool cpu;
    const uint64_t *blocks; /* threads of a block, for the occupancy; NULL: a usual number */
    size_t block_count;
    uint64_t spec_block;
} chip_use;

/* A spec is compiled for one number of threads, which is taken in place of `blocks`: none is where formulas give it.
 * The code of a CUDA source, where `spec` is NULL, is the same for all. `blocks` may be NULL, and lives as long as
 * *out. */
void resources_find(chip_use *out, struct session *session, const kiln_program *program, const kiln_spec *spec,
                    const uint64_t *blocks, size_t count);
void resources_print(const chip_use *use);
json_t *resources_json(const chip_use *use);

/* A table of functions and blocks, and its rows for a program. */
struct table *resources_table(void);
void resources_compare(struct table *table, const chip_use *use);

#endif
