#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "commands.h"
#include "files/output.h"
#include "kernels/built.h"
#include "kernels/sourceargs.h"
#include "show/machine.h"
#include "show/showresources.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/spectext.h"

enum { USUAL_BLOCK = 256 };

typedef struct show_args {
    const char *spec;
    bool source_only, ptx, sass, resources, spec_only, key, cubin, object, log;
    const char *output;
    const char *target; /* of a file */
    uint32_t block;
    bool is_file; /* of the user's own; then `spec` is its path */
    source_args source;
    common_args common;
} show_args;

/* Bytes to show; `data` is borrowed or, when owned, freed. */
typedef struct shown {
    const void *data;
    size_t length;
    char *owned;
    bool binary;
} shown;

static const struct usage usage = {
    "kiln show SPEC|FILE.cu [--source|--ptx|--sass|--resources|--spec|--key|--log|--cubin|--object] [options]",
    "Shows what SPEC stands for. Without a choice: the whole spec, where the compiled result came from, its\n"
    "parts and the resources it needs. No GPU is needed: name target=sm_90, or target=cpu. For a CUDA file of\n"
    "your own that is no template, the same of what kiln build makes of it; its target is named by --target.",
    "  kiln show 'op=hardsigmoid target=sm_90' --ptx\n"
    "  kiln show 'op=add(x,y) dtype=f16 target=sm_80' --cubin --output add.cubin\n"
    "  kiln show scale.cu --function 'scale<float, 4>' --target sm_90 --resources --block 128",
};

/* A spec has fields; what is the path of a CUDA file has none. */
static int check_word(show_args *args, const char *word)
{
    size_t length = strlen(word);
    const source_args *source = &args->source;
    args->spec = word;
    args->is_file = length > 3 && strcmp(word + length - 3, ".cu") == 0 && !strchr(word, '=');
    if (!args->is_file && (args->target || args->block || source->includes.count || source->defines.count ||
                           source->functions.count || source->options.count || source->no_cuda))
        return options_wrong(&usage,
                             "'%s' is a spec: what --function, --target, --block, -I, -D and --option say is for "
                             "a FILE.cu; write target=sm_90",
                             word);
    if (args->block == 0)
        args->block = USUAL_BLOCK;
    return OPTIONS_GO_ON;
}

static int parse_args(show_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        { "source", 0, OPTION_FLAG, NULL, "the text that the compiler sees; compiles nothing", &args->source_only },
        { "ptx", 0, OPTION_FLAG, NULL, "the PTX text", &args->ptx },
        { "sass", 0, OPTION_FLAG, NULL, "the machine code, disassembled", &args->sass },
        { "resources", 0, OPTION_FLAG, NULL, "registers, stack, spills and shared memory", &args->resources },
        { "spec", 0, OPTION_FLAG, NULL, "the canonical spec with every field set", &args->spec_only },
        { "key", 0, OPTION_FLAG, NULL, "what the result is kept under in the cache", &args->key },
        { "log", 0, OPTION_FLAG, NULL, "what the compiler said", &args->log },
        { "cubin", 0, OPTION_FLAG, NULL, "the cubin's bytes", &args->cubin },
        { "object", 0, OPTION_FLAG, NULL, "the bytes of the cpu's shared object", &args->object },
        { "output", 'o', OPTION_TEXT, "FILE", "write to FILE", &args->output },
        SOURCE_ARGS_ROWS(&args->source),
        { "target", 't', OPTION_TEXT, "NAME", "of a file: sm_90; default the device's", &args->target },
        { "block", 0, OPTION_NUMBER, "N", "of a file: threads of a block, for the occupancy; default 256",
          &args->block },
    };
    text_list words = { NULL, 0 };
    int status = options_parse(&usage, rows, sizeof(rows) / sizeof(rows[0]), &args->common, &words, argc, argv);
    int chosen = args->source_only + args->ptx + args->sass + args->resources + args->spec_only + args->key +
                 args->cubin + args->object + args->log;
    if (status == OPTIONS_GO_ON) {
        if (words.count != 1)
            status = options_wrong(&usage,
                                   words.count ? "one SPEC expected, '%s' is too much (quote a spec of several "
                                                 "fields)"
                                               : "no SPEC given, expected one such as op=hardsigmoid",
                                   words.count ? words.items[1] : "");
        else if (chosen > 1)
            status = options_wrong(&usage, "choose one thing to show");
        else if (args->output && (chosen == 0 || args->resources))
            status = options_wrong(&usage, "--output needs a choice such as --ptx or --cubin");
        else if ((args->cubin || args->object) && args->common.json)
            status = options_wrong(&usage, "bytes cannot be shown as JSON; use --output FILE without --json");
        else if ((args->cubin || args->object) && !args->output && isatty(STDOUT_FILENO))
            status = options_wrong(&usage, "bytes are not for a terminal; use --output FILE");
        else
            status = check_word(args, words.items[0]);
    }
    free(words.items);
    return status;
}

static const char *section_name(const show_args *args)
{
    return args->ptx ? "ptx" : args->key ? "key" : args->log ? "log" : args->cubin ? "cubin" : "object";
}

static int get_section(shown *out, const kiln_program *program, const char *name)
{
    if (kiln_program_section(&out->data, &out->length, program, name) == KILN_OK)
        return STATUS_DONE;
    if (strcmp(name, "log") == 0)
        return STATUS_DONE;
    const char *target = built_info(program).target;
    return fail(STATUS_USAGE, "target=%s has no %s; %s", target, name,
                strcmp(target, "cpu") == 0 ? "name a GPU such as target=sm_90, or show --object"
                                           : "show --cubin, --ptx or --sass");
}

static int emit(const show_args *args, const kiln_program *program, const shown *what)
{
    if (args->output) {
        struct output output;
        int status = output_open(&output, args->output, what->length);
        if (!status)
            status = output_write(&output, what->data, what->length);
        if (!status)
            status = output_commit(&output);
        output_close(&output);
        return status;
    }
    if (args->common.json) {
        json_t *object = json_new();
        if (program)
            json_put_text(object, "spec", built_info(program).spec);
        else
            json_put_text(object, "spec", args->spec);
        json_put_text(object, "text", what->data ? what->data : "");
        json_print(object);
        return STATUS_DONE;
    }
    if (what->length)
        fwrite(what->data, 1, what->length, stdout);
    if (what->length && !what->binary && ((const char *)what->data)[what->length - 1] != '\n')
        putchar('\n');
    return STATUS_DONE;
}

static int show_source(struct session *session, const show_args *args, const kiln_spec *spec)
{
    char *text = NULL;
    kiln_status status = kiln_spec_source(&text, spec, &session->report);
    if (status)
        return session_fail(session, status, NULL);
    shown what = { .data = text, .length = strlen(text) };
    int result = emit(args, NULL, &what);
    kiln_text_free(text);
    return result;
}

static const char *const sections[] = { "cubin", "ptx", "object", "log", "names", "key" };

static json_t *overview_json(const kiln_program *program)
{
    json_t *object = json_new(), *parts = json_new();
    kiln_program_info info = built_info(program);
    json_put_text(object, "spec", info.spec);
    json_put_text(object, "source", info.origin_name);
    json_put_real(object, "compile_ms", info.compile_ms);
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        const void *data = NULL;
        size_t length = 0;
        if (kiln_program_section(&data, &length, program, sections[i]) == KILN_OK)
            json_put_count(parts, sections[i], length);
    }
    json_put(object, "sections", parts);
    return object;
}

static void print_overview(const kiln_program *program)
{
    char text[FORMAT_ROOM];
    kiln_program_info info = built_info(program);
    printf("spec       %s\n", info.spec);
    if (info.origin == KILN_ORIGIN_COMPILED)
        printf("from       compiled in %s\n", format_ms(text, info.compile_ms));
    else
        printf("from       %s\n", info.origin_name);
    printf("parts    ");
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        const void *data = NULL;
        size_t length = 0;
        if (kiln_program_section(&data, &length, program, sections[i]) == KILN_OK && length > 0)
            printf("  %s %zu B", sections[i], length);
    }
    putchar('\n');
}

static void show_overview(struct session *session, const show_args *args, const kiln_spec *spec,
                          const kiln_program *program)
{
    chip_use found;
    resources_find(&found, session, program, spec, args->block);
    if (args->common.json) {
        json_t *object = overview_json(program);
        json_put(object, "resources", resources_json(&found));
        json_print(object);
    } else {
        if (!args->resources)
            print_overview(program);
        resources_print(&found);
    }
    resources_free(&found);
}

static int show_program(struct session *session, const show_args *args, const kiln_spec *spec,
                        const kiln_program *program)
{
    shown what = { .binary = args->cubin || args->object };
    int status = STATUS_DONE;
    if (args->sass)
        status = machine_disassemble(&what.owned, &what.length, program);
    else if (args->spec_only)
        what.data = built_info(program).spec;
    else if (args->ptx || args->key || args->log || args->cubin || args->object)
        status = get_section(&what, program, section_name(args));
    else {
        show_overview(session, args, spec, program);
        return STATUS_DONE;
    }
    if (what.owned)
        what.data = what.owned;
    if (args->spec_only)
        what.length = strlen(what.data);
    if (!status)
        status = emit(args, program, &what);
    free(what.owned);
    return status;
}

static int show(struct session *session, const show_args *args)
{
    kiln_spec *spec = NULL;
    kiln_program *program = NULL;
    int result = STATUS_DONE;
    kiln_status status = kiln_spec_parse(&spec, session->service, args->spec, &session->report);
    if (!status && !args->source_only)
        status = build_spec(&program, session->service, spec, &session->report);
    if (status)
        result = session_fail(session, status, NULL);
    else if (args->source_only)
        result = show_source(session, args, spec);
    else
        result = show_program(session, args, spec, program);
    kiln_program_release(program);
    kiln_spec_free(spec);
    return result;
}

static int show_file(struct session *session, const show_args *args)
{
    char *text = NULL;
    size_t length = 0;
    kiln_program *program = NULL;
    int result = source_read(&text, &length, args->spec);
    const shown what = { .data = text, .length = length };
    if (!result && args->source_only) {
        result = emit(args, NULL, &what);
    } else if (!result) {
        kiln_source source = source_make(&args->source, args->spec, text, length);
        source.target = args->target;
        kiln_status status = build_source(&program, session->service, &source, &session->report);
        result = status ? session_fail(session, status, NULL) : show_program(session, args, NULL, program);
    }
    kiln_program_release(program);
    free(text);
    return result;
}

int command_show(int argc, char **argv)
{
    show_args args = { .spec = NULL };
    int status = parse_args(&args, argc, argv);
    if (status == OPTIONS_GO_ON) {
        struct session session;
        status = session_open(&session, &args.common);
        if (!status)
            status = args.is_file ? show_file(&session, &args) : show(&session, &args);
        session_close(&session);
    }
    source_args_free(&args.source);
    return status;
}
