/* kiln build: compiles a CUDA file, or several that are linked, for one target or several, and prints the resources of
 * the functions. */
#include <string.h>

#include "cli/words.h"
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
    "kiln build FILE.cu... [-I DIR]... [-D NAME=VALUE]... [--function NAME]... [--target LIST] [-o FILE] [--ptx]",
    "Compiles a CUDA file, or several that are linked, or finds the result in the cache: as long as the files, the\n"
    "headers that they read and the options hold the same, wherever they lie. Without --function, every\n"
    "extern \"C\" function is taken; with it, also templates: --function 'scale<float, 4>'. Prints the resources of\n"
    "each function. Status 1 if the cache has not kept the code at the end, unless -o or --ptx takes it.",
    "  kiln build scale.cu --target sm_90\n"
    "  kiln build scale.cu -I include --function 'scale<float, 4>' --target sm_80,sm_90 --json\n"
    "  kiln build scale.cu -arch=sm_90 -std=c++17 --use_fast_math -o scale.cubin",
};

static void parse_args(build_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        SOURCE_ARGS_ROWS(&args->source, &args->common),
        { "target", 't', OPTION_TEXT, "LIST", "sm_80,sm_90, native or all; default native, the device's",
          &args->target },
        { "output", 'o', OPTION_TEXT, "FILE", "write the code for the GPU to FILE", &args->output },
        { "ptx", 0, OPTION_FLAG, NULL, "print the PTX, or write it to the output, in place of the code", &args->ptx },
    };
    text_list words = { NULL, 0 };
    options_parse(&usage, OPTION_ROWS(rows), &args->common, &words, argc, argv);
    words_files(&args->files, &usage, &words);
}

static int add_target(void *data, const kiln_spec *spec)
{
    text_list_add(data, need_copy(kiln_spec_field(spec, "target")));
    return 0;
}

/* Gives one NULL, for the device's target, where none is named. */
static kiln_status find_targets(struct session *session, const char *names, text_list *out)
{
    if (names && strcmp(names, "all") == 0)
        return kiln_spec_expand(session->service, "op=relu6 target=all", add_target, out, &session->report);
    if (!names)
        text_list_add(out, NULL);
    for (char *rest = names ? need_copy(names) : NULL, *name; (name = strsep(&rest, ","));)
        text_list_add(out, name);
    return KILN_OK;
}

/* ---- Results */

typedef struct build_work {
    struct session *session;
    const build_args *args;
    kiln_source source;
    struct table *table;
    json_t *results;
    built_tally sum;
    bool several; /* targets */
    bool built;   /* for one at least */
    int result;
} build_work;

/* Adds the program to the table and to the list. */
static void add_program(build_work *work, const kiln_program *program)
{
    kiln_program_info info = built_info(program);
    json_t *functions = json_array();
    const char *log = built_log(program, &work->session->report);
    bool kept = built_is_kept(&work->sum, work->session->service, NULL, &work->source, info.origin);
    for (size_t i = 0; i < info.function_count; i++) {
        const kiln_function_info *function = info.functions[i];
        table_row(work->table, (const char *const[]){ function->name, info.target, format_known(function->registers),
                                                      format_known(function->local_bytes),
                                                      format_known(function->shared_bytes), info.origin_name });
        json_add(functions,
                 json_new("function", json_text(function->name), "symbol", json_text(function->symbol), "registers",
                          json_known(function->registers), "stack_bytes", json_known(function->local_bytes),
                          "shared_bytes", json_known(function->shared_bytes), NULL));
    }
    json_add(work->results, json_new("target", json_text(info.target), "source", json_text(info.origin_name),
                                     "compile_ms", json_number(info.compile_ms), "kept", json_boolean(kept),
                                     "functions", functions, "log", json_text(log), NULL));
    /* Warnings are printed also of a program that was found compiled. */
    if (!work->args->common.json)
        fputs(log, stderr);
}

static int write_code(const build_args *args, const kiln_program *program)
{
    size_t length = 0;
    const void *data = built_section(&length, program, args->ptx ? "ptx" : "cubin");
    if (!data)
        return fail(STATUS_FAILED, "the compiler made no %s", args->ptx ? "PTX" : "code");
    return output_put(args->output ? args->output : "-", data, length);
}

/* Tells of a failure, and lists it. Targets are named where there are several. */
static void add_failure(build_work *work, kiln_status status)
{
    const kiln_report *report = &work->session->report;
    const char *target = work->source.target ? work->source.target : "";
    json_add(work->results,
             json_new("target", json_text(target), "status", json_text(kiln_status_name(status)), "message",
                      json_text(report->message), "log", json_text(report->log ? report->log : ""), NULL));
    int failure = session_status(work->session, status, work->several && status != KILN_EINVAL ? target : NULL);
    work->result = work->result == STATUS_DONE || work->result == failure ? failure : STATUS_FAILED;
}

/* False if the source itself is wrong, so that other targets would fail alike. */
static bool build_one(build_work *work, const char *target)
{
    kiln_program *program = NULL;
    work->source.target = target;
    kiln_status status = build_source(&program, work->session->service, &work->source, &work->session->report);
    if (status) {
        add_failure(work, status);
        return status != KILN_EINVAL;
    }
    work->built = true;
    add_program(work, program);
    kiln_report_clear(&work->session->report);
    if (work->args->output || work->args->ptx)
        work->result = write_code(work->args, program);
    kiln_program_release(program);
    return true;
}

static int build_all(build_work *work, const text_list *targets)
{
    const build_args *args = work->args;
    bool taken = args->output || args->ptx, code_on_stdout = args->output ? strcmp(args->output, "-") == 0 : args->ptx;
    work->several = targets->count > 1;
    for (size_t i = 0; i < targets->count && build_one(work, targets->items[i]);)
        i++;
    if (work->built && work->result)
        work->result = STATUS_FAILED;
    if (args->common.json && !(code_on_stdout && work->built))
        json_print(json_new("file", json_text(work->source.name), "results", work->results, NULL));
    else if (work->built && !code_on_stdout)
        table_print(work->table, stdout);
    return work->result || taken ? work->result : built_end(&work->sum);
}

static int build(struct session *session, void *data)
{
    const build_args *args = data;
    text_list targets = { NULL, 0 };
    build_work work = { .session = session,
                        .args = args,
                        .table = table_new("function|target|>registers|>stack|>shared|from"),
                        .results = json_array() };
    int result = source_read(&work.source, &args->source, args->files.items[0], NULL);
    if (!result && args->files.count > 1)
        result = source_read_parts(&work.source, &args->files);
    if (!result)
        result = session_status(session, find_targets(session, args->target, &targets), NULL);
    if (!result && targets.count != 1 && (args->output || args->ptx))
        result = fail(STATUS_USAGE, "--output and --ptx are for one target, not %zu", targets.count);
    return result ? result : build_all(&work, &targets);
}

int command_build(int argc, char **argv)
{
    build_args args = { .target = NULL };
    parse_args(&args, argc, argv);
    return session_run(&args.common, build, &args);
}
