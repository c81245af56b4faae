#include "watch/watchsource.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/built.h"
#include "text/format.h"

/* Registers, stack and static shared memory. */
enum { NUMBERS = 3 };

typedef struct function_use {
    char *name;
    int numbers[NUMBERS]; /* -1: unknown */
} function_use;

typedef struct use_list {
    function_use *items;
    size_t count;
} use_list;

struct watchsource {
    const watch_args *args;
    struct session session;
    use_list now, before; /* of the last two versions that compiled */
    char *key;            /* of the last one, or NULL */
    bool failed;          /* the last round */
};

const char watchsource_columns[] = "function|>registers|>stack|>shared";

static const char *const number_names[NUMBERS] = { "registers", "stack_bytes", "shared_bytes" };

int watchsource_open(struct watchsource **out, const watch_args *args)
{
    *out = need_alloc(sizeof(**out));
    (*out)->args = args;
    return session_open(&(*out)->session, &args->common);
}

static void free_uses(use_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].name);
    free(list->items);
    *list = (use_list){ NULL, 0 };
}

static use_list uses_of(const kiln_program *program)
{
    kiln_program_info info = built_info(program);
    use_list list = { need_array(NULL, info.function_count, sizeof(*list.items)), info.function_count };
    for (size_t i = 0; i < list.count; i++) {
        const kiln_function_info *function = info.functions[i];
        list.items[i] = (function_use){
            need_copy(function->name),
            { function->registers, function->local_bytes, function->shared_bytes },
        };
    }
    return list;
}

static const function_use *find_use(const use_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

static char *format_use(int old, int now)
{
    if (now < 0)
        return need_copy("-");
    return old >= 0 && old != now ? need_format("%d -> %d", old, now) : need_format("%d", now);
}

static void put_number(json_t *row, const char *name, const char *suffix, int value)
{
    char *key = need_format("%s%s", name, suffix);
    json_put_known(row, key, value);
    free(key);
}

static void add_row(const struct watchsource *watch, watch_round *round, const function_use *use)
{
    const function_use *old = find_use(&watch->before, use->name);
    const char *cells[NUMBERS + 1] = { use->name };
    char *texts[NUMBERS];
    json_t *row = json_new();
    json_put_text(row, "function", use->name);
    for (size_t i = 0; i < NUMBERS; i++) {
        int was = old ? old->numbers[i] : -1;
        cells[i + 1] = texts[i] = format_use(was, use->numbers[i]);
        put_number(row, number_names[i], "", use->numbers[i]);
        put_number(row, number_names[i], "_old", was);
    }
    table_row(round->table, cells);
    json_add(round->rows, row);
    for (size_t i = 0; i < NUMBERS; i++)
        free(texts[i]);
}

/* Takes the new version for the last good one, unless it is the same. */
static void take(struct watchsource *watch, watch_round *round, const kiln_program *program)
{
    const void *key = NULL, *log = NULL;
    size_t length = 0;
    kiln_program_section(&key, &length, program, "key");
    round->unchanged = !watch->failed && watch->key && key && strcmp(watch->key, key) == 0;
    if (round->unchanged)
        return;
    free_uses(&watch->before);
    watch->before = watch->now;
    watch->now = uses_of(program);
    free(watch->key);
    watch->key = need_copy(key ? key : "");
    if (kiln_program_section(&log, &length, program, "log") == KILN_OK && length > 0)
        note("%s", (const char *)log);
    round->title = need_format("%s for %s; without declarations (//! template) nothing is timed", watch->args->file,
                               built_info(program).target);
}

int watchsource_round(struct watchsource *watch, watch_round *round)
{
    char *text = NULL;
    size_t length = 0;
    kiln_program *program = NULL;
    int result = source_read(&text, &length, watch->args->file);
    if (!result) {
        kiln_source source = source_make(&watch->args->source, watch->args->file, text, length);
        source.target = watch->args->target;
        kiln_status status = build_source(&program, watch->session.service, &source, &watch->session.report);
        if (status)
            result = session_fail(&watch->session, status, NULL);
        kiln_report_clear(&watch->session.report);
    }
    if (!result)
        take(watch, round, program);
    watch->failed = result != STATUS_DONE;
    for (size_t i = 0; i < watch->now.count && !round->unchanged; i++)
        add_row(watch, round, &watch->now.items[i]);
    kiln_program_release(program);
    free(text);
    return result ? STATUS_FAILED : STATUS_DONE;
}

void watchsource_close(struct watchsource *watch)
{
    session_close(&watch->session);
    free_uses(&watch->now);
    free_uses(&watch->before);
    free(watch->key);
    free(watch);
}
