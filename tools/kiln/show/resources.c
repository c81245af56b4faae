/* Finds the resources of compiled kernels, calculates their occupancy, and prints both. */
#include "show/resources.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/built.h"
#include "text/spectext.h"

/* ---- Occupancy */

/* How much of a multiprocessor a kernel can fill. */
typedef struct occupancy {
    uint32_t blocks;   /* that a multiprocessor holds at once; 0: not even one can be launched */
    uint32_t threads;  /* of these */
    uint32_t most;     /* threads that it could hold */
    const char *limit; /* the scarcest resource: "threads", "blocks", "registers" or "shared memory" */
} occupancy;

/* From the CUDA programming guide's table of technical specifications per compute capability. All of these have 64 Ki
 * registers, given out by 256 to the warps of four partitions, and blocks of at most 1024 threads. */
static const struct limits {
    long number; /* of sm_ */
    uint32_t threads, blocks;
    uint32_t shared;      /* bytes of a multiprocessor */
    uint32_t reserved;    /* bytes of them that the system takes for each block */
    uint32_t granularity; /* in which they are given out */
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
    for (size_t i = 0; i < COUNT_OF(limits); i++)
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

/* For blocks of so many threads with so many registers each and so much static shared memory. False where the target's
 * limits are not known. */
static bool find_occupancy(occupancy *out, const char *target, uint32_t block, int registers, int shared_bytes)
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

/* ---- Resources */

/* The driver's figures of the loaded kernel; false, quietly, where it cannot be loaded here. */
static bool driver_resources(chip_use *out, struct session *session, const kiln_spec *spec)
{
    kiln_kernel *kernel = NULL;
    if (kiln_get_kernel(&kernel, session->service, spec, NULL) != KILN_OK)
        return false;
    kiln_kernel_info info = kernel_info(kernel);
    out->rows = need_alloc(sizeof(*out->rows));
    out->count = info.registers >= 0;
    out->rows[0] = (machine_usage){ need_copy(info.device), info.registers, -1, -1, info.local_bytes };
    kiln_kernel_release(kernel);
    return out->count > 0;
}

static void library_resources(chip_use *out, const kiln_program *program)
{
    kiln_program_info info = built_info(program);
    out->rows = need_array(NULL, info.function_count, sizeof(*out->rows));
    for (out->count = 0; out->count < info.function_count; out->count++) {
        const kiln_function_info *function = info.functions[out->count];
        out->rows[out->count] = (machine_usage){ need_copy(function->name), function->registers, function->local_bytes,
                                                 function->shared_bytes, -1 };
    }
}

typedef struct template_search {
    const char *name;
    bool own_block;
} template_search;

/* Whether a template's text has such a declaration. */
static bool declares(const char *text, const char *word)
{
    for (; text && *text; text = strchr(text, '\n')) {
        text += *text == '\n';
        bool declaration = strncmp(text, "//!", 3) == 0;
        text += declaration ? 3 + strspn(text + 3, " \t") : 0;
        if (declaration && strncmp(text, word, strlen(word)) == 0 && strchr(" \t", text[strlen(word)]))
            return true;
    }
    return false;
}

static int find_template(void *data, const kiln_template_info *info)
{
    template_search *search = data;
    if (strcmp(info->name, search->name) == 0)
        search->own_block = declares(info->text, "block") || declares(info->text, "shared");
    return 0;
}

/* The threads of a spec's block; 0, for not known, where formulas of the template give the block, or shared memory that
 * the compiler does not know. */
static uint32_t block_of(struct session *session, const char *spec)
{
    template_search search = { spectext_field(spec, "template"), false };
    const char *block = spectext_field(spec, "block");
    if (search.name)
        kiln_templates(session->service, find_template, &search);
    return block && !search.own_block ? (uint32_t)atoi(block) : 0;
}

void resources_find(chip_use *out, struct session *session, const kiln_program *program, const kiln_spec *spec,
                    uint32_t block)
{
    size_t length = 0;
    const char *text = built_info(program).spec;
    *out = (chip_use){ .block = spec ? block_of(session, text) : block,
                       .target = spectext_field(text, "target"),
                       .cpu = !built_section(&length, program, "cubin") };
    if (out->cpu ||
        (spec && (machine_resources(&out->rows, &out->count, program) || driver_resources(out, session, spec))))
        return;
    library_resources(out, program);
}

static bool occupancy_of(occupancy *out, const chip_use *use, const machine_usage *row)
{
    return use->target && row->shared >= 0 && find_occupancy(out, use->target, use->block, row->registers, row->shared);
}

/* ---- As text and as JSON */

static void print_known(const char *label, int value, const char *after)
{
    if (value >= 0)
        printf("  %s %d%s", label, value, after);
}

static void print_occupancy(const chip_use *use, const machine_usage *row)
{
    occupancy found;
    if (use->block == 0)
        return;
    printf("occupancy  %s: ", row->name);
    if (!occupancy_of(&found, use, row))
        puts("-");
    else if (found.blocks == 0)
        printf("a block of %" PRIu32 " threads does not fit: too much %s\n", use->block, found.limit);
    else
        printf("%" PRIu32 " blocks of %" PRIu32 " threads on a multiprocessor, %" PRIu32 " of %" PRIu32
               " threads (%.0f%%), limited by %s\n",
               found.blocks, use->block, found.threads, found.most, 100.0 * found.threads / found.most, found.limit);
}

void resources_print(const chip_use *use)
{
    if (use->count == 0 && use->cpu)
        puts("resources  none to speak of on the cpu");
    else if (use->count == 0)
        puts("resources  unknown: install cuobjdump of the CUDA toolkit, or ask on a machine with such a GPU");
    for (size_t i = 0; i < use->count; i++) {
        const machine_usage *row = &use->rows[i];
        printf("resources  %s:", row->name);
        print_known("registers", row->registers, "");
        print_known("stack", row->stack, " B");
        print_known("shared", row->shared, " B");
        print_known("local (spilled)", row->local, " B");
        putchar('\n');
        print_occupancy(use, row);
    }
}

static json_t *occupancy_json(const chip_use *use, const machine_usage *row)
{
    occupancy found;
    if (!occupancy_of(&found, use, row))
        return json_null();
    return json_new("block", json_count(use->block), "blocks", json_count(found.blocks), "threads",
                    json_count(found.threads), "fraction", json_number((double)found.threads / found.most), "limit",
                    json_text(found.limit), NULL);
}

json_t *resources_json(const chip_use *use)
{
    json_t *list = json_array();
    for (size_t i = 0; i < use->count; i++) {
        const machine_usage *row = &use->rows[i];
        json_add(list, json_new("name", json_text(row->name), "registers", json_known(row->registers), "stack_bytes",
                                json_known(row->stack), "shared_bytes", json_known(row->shared), "local_bytes",
                                json_known(row->local), "occupancy", occupancy_json(use, row), NULL));
    }
    return list;
}
