#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "commands.h"
#include "files/output.h"
#include "kernels/built.h"
#include "kernels/sourceargs.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/table.h"

typedef struct build_args {
    text_list files;
    source_args source;
    const char *target;
    const char *output;
    bool ptx;
    common_args common;
} build_args;

static const struct usage usage = {
    "kiln build FILE.cu [-I DIR]... [-D NAME=VALUE]... [--function NAME]... [--target LIST] [-o FILE] [--ptx]",
    "Compiles a CUDA file of your own, or finds it in the cache: as long as the file, the headers that it\n"
    "reads and the options hold the same, wherever they lie. Without --function, every extern \"C\" function\n"
    "is taken; with it, also templates: --function 'scale<float, 4>'. Prints what each function uses.",
    "  kiln build scale.cu --target sm_90\n"
    "  kiln build scale.cu -I include --function 'scale<float, 4>' --target sm_80,sm_90 --json\n"
    "  kiln build scale.cu --target sm_90 --option=--use_fast_math -o scale.cubin",
};

static int parse_args(build_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        SOURCE_ARGS_ROWS(&args->source),
        { "target", 't', OPTION_TEXT, "LIST", "sm_80,sm_90, or all; default the device's", &args->target },
        { "output", 'o', OPTION_TEXT, "FILE", "write the code for the GPU to FILE", &args->output },
        { "ptx", 0, OPTION_FLAG, NULL, "print the PTX, or write it to the output, in place of the code", &args->ptx },
    };
    int status = options_parse(&usage, rows, sizeof(rows) / sizeof(rows[0]), &args->common, &args->files, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    if (args->files.count != 1)
        return options_wrong(&usage, "%s, expected one CUDA file",
                             args->files.count ? "several FILEs given" : "no FILE given");
    return OPTIONS_GO_ON;
}

/* ---- The targets */

typedef struct target_list {
    char **items;
    size_t count;
} target_list;

static void add_target(target_list *list, const char *text, size_t length)
{
    list->items = need_array(list->items, list->count + 1, sizeof(*list->items));
    list->items[list->count++] = need_format("%.*s", (int)length, text);
}

static int take_target(void *data, const kiln_spec *spec)
{
    const char *target = kiln_spec_field(spec, "target");
    add_target(data, target, strlen(target));
    return 0;
}

/* One NULL where none is named: the device's. */
static kiln_status find_targets(struct session *session, const char *text, target_list *out)
{
    if (!text) {
        out->items = need_array(NULL, 1, sizeof(*out->items));
        out->items[out->count++] = NULL;
        return KILN_OK;
    }
    if (strcmp(text, "all") == 0)
        return kiln_spec_expand(session->service, "op=relu6 target=all", take_target, out, &session->report);
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        add_target(out, at, length);
        at += length;
        if (!*at)
            return KILN_OK;
    }
}

static void free_targets(target_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
}

/* ---- What came of it */

static json_t *functions_json(const kiln_program *program)
{
    json_t *list = json_list();
    kiln_program_info info = built_info(program);
    for (size_t i = 0; i < info.function_count; i++) {
        const kiln_function_info *function = info.functions[i];
        const int known[] = { function->registers, function->local_bytes, function->shared_bytes };
        static const char *const names[] = { "registers", "stack_bytes", "shared_bytes" };
        json_t *row = json_new();
        json_put_text(row, "function", function->name);
        json_put_text(row, "symbol", function->symbol);
        for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
            json_put_known(row, names[k], known[k]);
        json_add(list, row);
    }
    return list;
}

static json_t *program_json(const kiln_program *program)
{
    json_t *object = json_new();
    const void *log = NULL;
    size_t length = 0;
    kiln_program_info info = built_info(program);
    json_put_text(object, "target", info.target);
    json_put_text(object, "source", info.origin_name);
    json_put_real(object, "compile_ms", info.compile_ms);
    json_put(object, "functions", functions_json(program));
    json_put_text(object, "log", kiln_program_section(&log, &length, program, "log") == KILN_OK ? log : "");
    return object;
}

static void add_rows(struct table *table, const kiln_program *program)
{
    kiln_program_info info = built_info(program);
    for (size_t i = 0; i < info.function_count; i++) {
        const kiln_function_info *function = info.functions[i];
        char numbers[3][16] = { "-", "-", "-" };
        const int known[] = { function->registers, function->local_bytes, function->shared_bytes };
        for (size_t k = 0; k < 3; k++)
            if (known[k] >= 0)
                snprintf(numbers[k], sizeof(numbers[k]), "%d", known[k]);
        const char *const cells[] = {
            function->name, info.target, numbers[0], numbers[1], numbers[2], info.origin_name
        };
        table_row(table, cells);
    }
}

static int write_section(const build_args *args, const kiln_program *program)
{
    const void *data = NULL;
    size_t length = 0;
    struct output output;
    if (kiln_program_section(&data, &length, program, args->ptx ? "ptx" : "cubin") != KILN_OK)
        return fail(STATUS_FAILED, "the compiler made no %s", args->ptx ? "PTX" : "code");
    int status = output_open(&output, args->output ? args->output : "-", length);
    if (!status)
        status = output_write(&output, data, length);
    if (!status)
        status = output_commit(&output);
    output_close(&output);
    return status;
}

/* Warnings, also those of a kernel that was found compiled. */
static void print_log(const kiln_program *program)
{
    const void *log = NULL;
    size_t length = 0;
    if (kiln_program_section(&log, &length, program, "log") == KILN_OK)
        fputs(log, stderr);
}

/* ---- At work */

typedef struct build_work {
    struct session *session;
    const build_args *args;
    kiln_source source;
    struct table *table;
    json_t *results;
} build_work;

static int build_one(build_work *work, const char *target)
{
    kiln_program *program = NULL;
    const build_args *args = work->args;
    work->source.target = target;
    kiln_status status = build_source(&program, work->session->service, &work->source, &work->session->report);
    if (status)
        return session_fail(work->session, status, NULL);
    int result = STATUS_DONE;
    if (!args->common.json)
        print_log(program);
    if (args->output || args->ptx)
        result = write_section(args, program);
    if (args->common.json)
        json_add(work->results, program_json(program));
    else if (!args->ptx || args->output)
        add_rows(work->table, program);
    kiln_program_release(program);
    return result;
}

static int build_all(build_work *work, const target_list *targets)
{
    int status = STATUS_DONE;
    work->table = table_new("function|target|>registers|>stack|>shared|from");
    work->results = json_list();
    for (size_t i = 0; i < targets->count && !status; i++)
        status = build_one(work, targets->items[i]);
    if (!status && work->args->common.json) {
        json_t *object = json_new();
        json_put_text(object, "file", work->source.name);
        json_put(object, "results", work->results);
        json_print(object);
    } else {
        json_decref(work->results);
        if (!status && (!work->args->ptx || work->args->output) &&
            !(work->args->output && !strcmp(work->args->output, "-")))
            table_print(work->table, stdout);
    }
    table_free(work->table);
    return status;
}

static int build(struct session *session, const build_args *args, const char *text, size_t length)
{
    target_list targets = { NULL, 0 };
    build_work work = { .session = session,
                        .args = args,
                        .source = source_make(&args->source, args->files.items[0], text, length) };
    kiln_status status = find_targets(session, args->target, &targets);
    int result = status ? session_fail(session, status, NULL) : STATUS_DONE;
    if (!result && targets.count != 1 && (args->output || args->ptx))
        result = fail(STATUS_USAGE, "--output and --ptx are for one target, not %zu", targets.count);
    if (!result)
        result = build_all(&work, &targets);
    free_targets(&targets);
    return result;
}

int command_build(int argc, char **argv)
{
    build_args args = { .target = NULL };
    struct session session;
    char *text = NULL;
    size_t length = 0;
    int status = parse_args(&args, argc, argv);
    if (status == OPTIONS_GO_ON)
        status = source_read(&text, &length, args.files.items[0]);
    if (text && !status) {
        status = session_open(&session, &args.common);
        if (!status)
            status = build(&session, &args, text, length);
        session_close(&session);
    }
    free(text);
    free(args.files.items);
    source_args_free(&args.source);
    return status;
}
