#include "show/occupancy.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* From the CUDA programming guide's table of technical specifications per compute capability. All of these have 64 Ki
 * registers, given out by 256 to the warps of four partitions, and blocks of at most 1024 threads. */
static const struct limits {
    long number; /* of sm_ */
    uint32_t threads, blocks;
    uint32_t shared; /* bytes of a multiprocessor */
    uint32_t reserved,
        granularity; /* bytes of shared memory that the system takes for each block, and in which it counts */
} limits[] = {
    { 75, 1024, 16, 64 << 10, 0, 256 },      { 80, 2048, 32, 164 << 10, 1024, 128 },
    { 86, 1536, 16, 100 << 10, 1024, 128 },  { 87, 1536, 16, 164 << 10, 1024, 128 },
    { 89, 1536, 24, 100 << 10, 1024, 128 },  { 90, 2048, 32, 228 << 10, 1024, 128 },
    { 100, 2048, 32, 228 << 10, 1024, 128 }, { 120, 1536, 24, 100 << 10, 1024, 128 },
};

enum { WARP = 32, REGISTERS = 64 << 10, REGISTER_UNIT = 256, PARTITIONS = 4, MOST_BLOCK = 1024, MOST_REGISTERS = 255 };

/* "sm_90a" has the limits of sm_90. */
static const struct limits *find_limits(const char *target)
{
    char *end = NULL;
    long number = strncmp(target, "sm_", 3) == 0 ? strtol(target + 3, &end, 10) : 0;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (limits[i].number == number && (!*end || strcmp(end, "a") == 0 || strcmp(end, "f") == 0))
            return &limits[i];
    return NULL;
}

static uint32_t round_up(uint32_t value, uint32_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static uint32_t blocks_by_registers(uint32_t warps, uint32_t registers)
{
    uint32_t of_warp = round_up(registers * WARP, REGISTER_UNIT);
    /* The chip asks as if each partition had as many of the block's warps. */
    if (registers > MOST_REGISTERS || of_warp * round_up(warps, PARTITIONS) > REGISTERS)
        return 0;
    return of_warp ? REGISTERS / PARTITIONS / of_warp * PARTITIONS / warps : UINT32_MAX;
}

static void take_least(occupancy *out, uint32_t blocks, const char *limit)
{
    if (blocks >= out->blocks)
        return;
    out->blocks = blocks;
    out->limit = limit;
}

bool occupancy_find(occupancy *out, const char *target, uint32_t block, int registers, int shared_bytes)
{
    const struct limits *chip = find_limits(target);
    if (!chip || block == 0 || block > MOST_BLOCK || registers < 0 || shared_bytes < 0)
        return false;
    uint32_t warps = (block + WARP - 1) / WARP;
    uint32_t shared = round_up((uint32_t)shared_bytes + chip->reserved, chip->granularity);
    *out = (occupancy){ .blocks = chip->threads / (warps * WARP), .most = chip->threads, .limit = "threads" };
    take_least(out, chip->blocks, "blocks");
    take_least(out, blocks_by_registers(warps, (uint32_t)registers), "registers");
    if (shared > 0)
        take_least(out, chip->shared / shared, "shared memory");
    out->threads = out->blocks * warps * WARP;
    return true;
}
