/* Watches a CUDA file that declares no template: compares the resources of its functions from version to version. */
#include <string.h>

#include "kernels/built.h"
#include "watch/watch.h"

/* Registers, stack and static shared memory. */
enum { NUMBERS = 3 };

typedef struct function_use {
    const char *name;
    int numbers[NUMBERS]; /* -1: unknown */
} function_use;

typedef struct use_list {
    function_use *items;
    size_t count;
} use_list;

struct watch_source {
    const watch_args *args;
    struct session session;
    use_list now, before; /* of the last two versions that compiled */
    char *key;            /* of the last one, or NULL */
    bool failed;          /* the last round */
};

const char watch_source_columns[] = "function|>registers|>stack|>shared";

static const char *const number_names[NUMBERS] = { "registers", "stack_bytes", "shared_bytes" };

int watch_source_open(struct watch_source **out, const watch_args *args)
{
    *out = need_alloc(sizeof(**out));
    (*out)->args = args;
    return session_open(&(*out)->session, &args->common);
}

void watch_source_close(struct watch_source *watch)
{
    session_close(&watch->session);
}

static use_list uses_of(const kiln_program *program)
{
    kiln_program_info info = built_info(program);
    use_list list = { need_array(NULL, info.function_count, sizeof(*list.items)), info.function_count };
    for (size_t i = 0; i < list.count; i++) {
        const kiln_function_info *function = info.functions[i];
        list.items[i] = (function_use){ need_copy(function->name),
                                        { function->registers, function->local_bytes, function->shared_bytes } };
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

static const char *use_text(int old, int now)
{
    if (now < 0)
        return "-";
    return old >= 0 && old != now ? need_format("%d -> %d", old, now) : need_format("%d", now);
}

static void add_row(const struct watch_source *watch, watch_round *round, const function_use *use)
{
    const function_use *old = find_use(&watch->before, use->name);
    const char *cells[NUMBERS + 1] = { use->name };
    json_t *row = json_new("function", json_text(use->name), NULL);
    for (size_t i = 0; i < NUMBERS; i++) {
        int was = old ? old->numbers[i] : -1;
        cells[i + 1] = use_text(was, use->numbers[i]);
        json_put(row, number_names[i], json_known(use->numbers[i]), need_format("%s_old", number_names[i]),
                 json_known(was), NULL);
    }
    table_row(round->table, cells);
    json_add(round->rows, row);
}

/* Makes the new version the last good one, unless it is the same. */
static void keep_version(struct watch_source *watch, watch_round *round, const kiln_program *program)
{
    size_t length = 0;
    const char *key = built_section(&length, program, "key");
    round->unchanged = !watch->failed && watch->key && key && strcmp(watch->key, key) == 0;
    if (round->unchanged)
        return;
    watch->before = watch->now;
    watch->now = uses_of(program);
    watch->key = need_copy(key ? key : "");
    const char *log = built_log(program, &watch->session.report);
    if (*log)
        note("%s", log);
    round->title = need_format("%s for %s; without declarations (//! template) nothing is timed", watch->args->file,
                               built_info(program).target);
}

int watch_source_round(struct watch_source *watch, watch_round *round)
{
    kiln_program *program = NULL;
    kiln_source source;
    kiln_report *report = &watch->session.report;
    int result = source_read(&source, &watch->args->source, watch->args->file, watch->args->target);
    if (!result) {
        kiln_status status = build_source(&program, watch->session.service, &source, report);
        result = session_status(&watch->session, status, NULL);
    }
    if (!result)
        keep_version(watch, round, program);
    kiln_report_clear(report);
    watch->failed = result != STATUS_DONE;
    for (size_t i = 0; i < watch->now.count && !round->unchanged; i++)
        add_row(watch, round, &watch->now.items[i]);
    kiln_program_release(program);
    return result;
}
