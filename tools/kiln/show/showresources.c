#include "show/showresources.h"

#include <inttypes.h>
#include <kiln/kernel.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/built.h"
#include "show/occupancy.h"
#include "text/spectext.h"

/* ---- What is known */

/* What the driver says of the loaded kernel; false, quietly, where it cannot be loaded here. */
static bool driver_resources(chip_use *out, struct session *session, const kiln_spec *spec)
{
    kiln_kernel *kernel = NULL;
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    bool good = kiln_get_kernel(&kernel, session->service, spec, NULL) == KILN_OK &&
                kiln_kernel_get_info(kernel, &info) == KILN_OK && info.registers >= 0;
    if (good) {
        out->rows = need_alloc(sizeof(*out->rows));
        out->count = 1;
        out->rows[0] =
            (machine_usage){ .registers = info.registers, .stack = -1, .shared = -1, .local = info.local_bytes };
        snprintf(out->rows[0].name, sizeof(out->rows[0].name), "%s", info.device);
    }
    kiln_kernel_release(kernel);
    return good;
}

static void library_resources(chip_use *out, const kiln_program *program)
{
    kiln_program_info info = built_info(program);
    out->rows = need_array(out->rows, info.function_count, sizeof(*out->rows));
    for (out->count = 0; out->count < info.function_count; out->count++) {
        const kiln_function_info *function = info.functions[out->count];
        machine_usage *row = &out->rows[out->count];
        *row = (machine_usage){ .registers = function->registers,
                                .stack = function->local_bytes,
                                .shared = function->shared_bytes,
                                .local = -1 };
        snprintf(row->name, sizeof(row->name), "%s", function->name);
    }
}

typedef struct template_search {
    const char *name;
    bool own_block;
} template_search;

/* Whether a template's text has such a declaration. */
static bool declares(const char *text, const char *word)
{
    static const char mark[] = "//!";
    size_t length = strlen(word);
    for (; text; text = strchr(text, '\n')) {
        text += *text == '\n';
        if (strncmp(text, mark, sizeof(mark) - 1) != 0)
            continue;
        text += sizeof(mark) - 1;
        text += strspn(text, " \t");
        if (strncmp(text, word, length) == 0 && strchr(" \t", text[length]))
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

/* The spec's; 0, for not known, where formulas of the template give the block, or shared memory that the compiler
 * does not know. */
static uint32_t block_of(struct session *session, const char *spec)
{
    template_search search = { NULL, false };
    char *name = NULL, *block = NULL;
    if (spectext_field(&name, spec, "template")) {
        search.name = name;
        kiln_templates(session->service, find_template, &search);
    }
    uint32_t threads = !search.own_block && spectext_field(&block, spec, "block") ? (uint32_t)atoi(block) : 0;
    free(name);
    free(block);
    return threads;
}

void resources_find(chip_use *out, struct session *session, const kiln_program *program, const kiln_spec *spec,
                    uint32_t block)
{
    const void *data = NULL;
    size_t length = 0;
    const char *text = built_info(program).spec;
    *out = (chip_use){ .block = spec ? block_of(session, text) : block };
    spectext_field(&out->target, text, "target");
    out->cpu = kiln_program_section(&data, &length, program, "cubin") != KILN_OK;
    if (out->cpu ||
        (spec && (machine_resources(&out->rows, &out->count, program) || driver_resources(out, session, spec))))
        return;
    library_resources(out, program);
}

void resources_free(chip_use *use)
{
    free(use->rows);
    free(use->target);
}

static bool find_occupancy(occupancy *out, const chip_use *use, const machine_usage *row)
{
    return use->target && row->shared >= 0 && occupancy_find(out, use->target, use->block, row->registers, row->shared);
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
    if (!find_occupancy(&found, use, row))
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

static void put_occupancy(json_t *row, const chip_use *use, const machine_usage *usage)
{
    occupancy found;
    if (!find_occupancy(&found, use, usage)) {
        json_put_null(row, "occupancy");
        return;
    }
    json_t *object = json_new();
    json_put_count(object, "block", use->block);
    json_put_count(object, "blocks", found.blocks);
    json_put_count(object, "threads", found.threads);
    json_put_real(object, "fraction", (double)found.threads / found.most);
    json_put_text(object, "limit", found.limit);
    json_put(row, "occupancy", object);
}

json_t *resources_json(const chip_use *use)
{
    json_t *list = json_list();
    for (size_t i = 0; i < use->count; i++) {
        const machine_usage *usage = &use->rows[i];
        json_t *row = json_new();
        json_put_text(row, "name", usage->name);
        json_put_known(row, "registers", usage->registers);
        json_put_known(row, "stack_bytes", usage->stack);
        json_put_known(row, "shared_bytes", usage->shared);
        json_put_known(row, "local_bytes", usage->local);
        put_occupancy(row, use, usage);
        json_add(list, row);
    }
    return list;
}
