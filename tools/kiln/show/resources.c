/* Calculates the occupancy of compiled kernels by the limits of their target, and prints it with their resources. */
#include "show/resources.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/built.h"
#include "text/format.h"
#include "text/spectext.h"

/* ---- Occupancy */

/* How much of a multiprocessor a kernel can fill. */
typedef struct occupancy {
    uint32_t blocks;   /* that a multiprocessor holds at once; 0: not even one can be launched */
    uint32_t threads;  /* of these */
    uint32_t most;     /* threads that it could hold */
    const char *limit; /* the scarcest resource: "threads", "blocks", "registers" or "shared memory" */
    char *problem;     /* why no such block can be launched, or NULL */
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

enum {
    USUAL_BLOCK = 256,
    WARP = 32,
    REGISTERS = 64 << 10,
    REGISTER_UNIT = 256,
    PARTITIONS = 4,
    MOST_BLOCK = 1024,
    MOST_REGISTERS = 255
};

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
    if (!chip || registers < 0 || shared_bytes < 0)
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
static uint64_t block_of(struct session *session, const char *spec)
{
    template_search search = { spectext_field(spec, "template"), false };
    const char *block = spectext_field(spec, "block");
    if (search.name)
        kiln_templates(session->service, find_template, &search);
    return block && !search.own_block ? strtoull(block, NULL, 10) : 0;
}

void resources_find(chip_use *out, struct session *session, const kiln_program *program, const kiln_spec *spec,
                    const uint64_t *blocks, size_t count)
{
    size_t length = 0;
    kiln_program_info info = built_info(program);
    *out = (chip_use){ .name = info.spec,
                       .target = info.target,
                       .rows = info.functions,
                       .cpu = !built_section(&length, program, "cubin"),
                       .blocks = blocks,
                       .block_count = count };
    out->count = out->cpu ? 0 : info.function_count;
    if (!spec)
        return;
    out->spec_block = block_of(session, info.spec);
    out->blocks = &out->spec_block;
    out->block_count = out->spec_block > 0;
}

/* Without a choice a function is shown with blocks of 256 threads, or as many as it takes. */
static uint64_t usual_block(const kiln_function_info *row)
{
    uint64_t most = row->max_threads > 0 && row->max_threads < USUAL_BLOCK ? (uint64_t)row->max_threads : USUAL_BLOCK;
    return row->block_threads > 0 ? (uint64_t)row->block_threads : most;
}

/* Whether the code may be launched with such blocks: NULL, or why not. */
static char *block_problem(const kiln_function_info *row, uint64_t block)
{
    if (row->block_threads > 0 && block != (uint64_t)row->block_threads)
        return need_format("its __block_size__ has %d threads", row->block_threads);
    if (row->max_threads > 0 && block > (uint64_t)row->max_threads)
        return need_format(row->max_threads < MOST_BLOCK ? "its __launch_bounds__ are %d threads"
                                                         : "no GPU takes more than %d threads",
                           row->max_threads);
    return NULL;
}

static bool occupancy_of(occupancy *out, const chip_use *use, const kiln_function_info *row, uint64_t block)
{
    *out = (occupancy){ .problem = block_problem(row, block) };
    if (out->problem)
        return true;
    if (!find_occupancy(out, use->target, (uint32_t)block, row->registers, row->shared_bytes))
        return false;
    if (out->blocks == 0)
        out->problem = need_format("too much %s", out->limit);
    return true;
}

/* ---- As text and as JSON */

static void print_known(const char *label, int value, const char *after)
{
    if (value >= 0)
        printf("  %s %d%s", label, value, after);
}

static void print_occupancy(const chip_use *use, const kiln_function_info *row, uint64_t block)
{
    occupancy found;
    printf("occupancy  %s: ", row->name);
    if (!occupancy_of(&found, use, row, block))
        puts("-");
    else if (found.problem)
        printf("a block of %" PRIu64 " threads is impossible: %s\n", block, found.problem);
    else
        printf("%" PRIu32 " block%s of %" PRIu64 " threads on a multiprocessor, %" PRIu32 " of %" PRIu32
               " threads (%.0f%%), limited by %s\n",
               found.blocks, found.blocks == 1 ? "" : "s", block, found.threads, found.most,
               100.0 * found.threads / found.most, found.limit);
}

void resources_print(const chip_use *use)
{
    if (use->cpu)
        puts("resources  none to speak of on the cpu");
    for (size_t i = 0; i < use->count; i++) {
        const kiln_function_info *row = use->rows[i];
        printf("resources  %s:", row->name);
        print_known("registers", row->registers, "");
        print_known("stack", row->local_bytes, " B");
        print_known("shared", row->shared_bytes, " B");
        putchar('\n');
        if (use->blocks == NULL)
            print_occupancy(use, row, usual_block(row));
        for (size_t k = 0; k < use->block_count; k++)
            print_occupancy(use, row, use->blocks[k]);
    }
}

static json_t *occupancy_json(const chip_use *use, const kiln_function_info *row, uint64_t block)
{
    occupancy found;
    bool known = occupancy_of(&found, use, row, block), fits = known && !found.problem;
    return json_new("block", json_count(block), "blocks", known ? json_count(found.blocks) : json_null(), "threads",
                    known ? json_count(found.threads) : json_null(), "fraction",
                    !known ? json_null() : json_number(fits ? (double)found.threads / found.most : 0), "limit",
                    fits ? json_text(found.limit) : json_null(), "problem",
                    known && found.problem ? json_text(found.problem) : json_null(), NULL);
}

json_t *resources_json(const chip_use *use)
{
    json_t *list = json_array();
    for (size_t i = 0; i < use->count; i++) {
        const kiln_function_info *row = use->rows[i];
        json_t *blocks = json_array();
        if (use->blocks == NULL)
            json_add(blocks, occupancy_json(use, row, usual_block(row)));
        for (size_t k = 0; k < use->block_count; k++)
            json_add(blocks, occupancy_json(use, row, use->blocks[k]));
        json_add(list, json_new("name", json_text(row->name), "registers", json_known(row->registers), "stack_bytes",
                                json_known(row->local_bytes), "shared_bytes", json_known(row->shared_bytes),
                                "max_threads", json_known(row->max_threads), "occupancy", blocks, NULL));
    }
    return list;
}

/* ---- As a table that compares */

struct table *resources_table(void)
{
    return table_new("kernel|function|>block|>registers|>stack|>shared|>blocks|>threads|>occupancy|limit");
}

static void add_row(struct table *table, const chip_use *use, const kiln_function_info *row, uint64_t block)
{
    occupancy found = { .problem = NULL };
    bool known = block > 0 && occupancy_of(&found, use, row, block), fits = known && !found.problem;
    table_row(table, (const char *const[]){ use->name, row->name, block > 0 ? format_count(block) : "-",
                                            format_known(row->registers), format_known(row->local_bytes),
                                            format_known(row->shared_bytes), known ? format_count(found.blocks) : "-",
                                            known ? format_count(found.threads) : "-",
                                            fits ? need_format("%.0f%%", 100.0 * found.threads / found.most) : "-",
                                            fits                     ? found.limit
                                            : known && found.problem ? need_format("impossible: %s", found.problem)
                                                                     : "-" });
}

void resources_compare(struct table *table, const chip_use *use)
{
    if (use->cpu)
        table_row(table, (const char *const[]){ use->name, "-", "-", "-", "-", "-", "-", "-", "-",
                                                "none to speak of on the cpu" });
    for (size_t i = 0; i < use->count; i++) {
        if (use->block_count == 0)
            add_row(table, use, use->rows[i], use->blocks ? 0 : usual_block(use->rows[i]));
        for (size_t k = 0; k < use->block_count; k++)
            add_row(table, use, use->rows[i], use->blocks[k]);
    }
}
