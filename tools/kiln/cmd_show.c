/* kiln show: the text of a spec or of a CUDA file, its compiled code, and the resources that it needs. */
#include <string.h>
#include <unistd.h>

#include "cli/words.h"
#include "commands.h"
#include "files/output.h"
#include "kernels/built.h"
#include "kernels/sourceargs.h"
#include "show/machine.h"
#include "show/resources.h"
#include "show/signature.h"
#include "text/format.h"
#include "text/jsonout.h"

enum { MOST_BLOCKS = 64 };

typedef struct show_args {
    const char *spec; /* or the path of a CUDA file that declares no template */
    bool source_only, ptx, sass, resources, spec_only, signature, key, cubin, object, log;
    const char *output;
    const char *target; /* of a file */
    const char *block;  /* a list, or NULL */
    uint64_t blocks[MOST_BLOCKS];
    size_t block_count;
    bool is_source; /* it is that path */
    source_args source;
    common_args common;
} show_args;

static const struct usage usage = {
    "kiln show SPEC|FILE.cu [--source|--ptx|--sass|--resources|--spec|--signature|--key|--log|--cubin|--object] "
    "[options]",
    "Shows the kernel of SPEC. Without a choice: the whole spec, where the compiled result came from, its\n"
    "parts and the resources it needs. No GPU is needed: name target=sm_90, or target=cpu. For a CUDA file that\n"
    "is no template it shows the same of the result of kiln build; --target names its target.",
    "  kiln show 'op=hardsigmoid target=sm_90' --ptx\n"
    "  kiln show 'op=add(x,y) dtype=f16 target=sm_80' --cubin --output add.cubin\n"
    "  kiln show scale.cu --function 'scale<float, 4>' --target sm_90 --resources --block 128",
};

static void parse_args(show_args *args, int argc, char **argv)
{
    const option_row rows[] = {
        { "source", 0, OPTION_FLAG, NULL, "the text that the compiler sees; compiles nothing", &args->source_only },
        { "ptx", 0, OPTION_FLAG, NULL, "the PTX text", &args->ptx },
        { "sass", 0, OPTION_FLAG, NULL, "the machine code, disassembled", &args->sass },
        { "resources", 0, OPTION_FLAG, NULL, "registers, stack, spills and shared memory", &args->resources },
        { "spec", 0, OPTION_FLAG, NULL, "the canonical spec with every field set", &args->spec_only },
        { "signature", 0, OPTION_FLAG, NULL, "the arrays and numbers that a launch takes; compiles nothing",
          &args->signature },
        { "key", 0, OPTION_FLAG, NULL, "the key of the result in the cache", &args->key },
        { "log", 0, OPTION_FLAG, NULL, "the compiler's log", &args->log },
        { "cubin", 0, OPTION_FLAG, NULL, "the cubin's bytes", &args->cubin },
        { "object", 0, OPTION_FLAG, NULL, "the bytes of the cpu's shared object", &args->object },
        { "output", 'o', OPTION_TEXT, "FILE", "write to FILE", &args->output },
        SOURCE_ARGS_ROWS(&args->source, &args->common),
        { "target", 't', OPTION_TEXT, "NAME", "of a file: sm_90; default the device's", &args->target },
        { "block", 0, OPTION_TEXT, "LIST", "of a file: threads of a block, for the occupancy; 128,256 or 64..1024*2",
          &args->block },
    };
    text_list words = { NULL, 0 };
    options_parse(&usage, OPTION_ROWS(rows), &args->common, &words, argc, argv);
    kernel_words kernel = words_kernel(&usage, &words, 0);
    args->is_source = kernel.is_source;
    args->spec = kernel.is_source ? kernel.file : words_text(&usage, &kernel);
    int chosen = args->source_only + args->ptx + args->sass + args->resources + args->spec_only + args->signature +
                 args->key + args->cubin + args->object + args->log;
    if (chosen > 1)
        options_refuse(&usage, "choose one thing to show");
    if (args->output && (chosen == 0 || args->resources || args->signature))
        options_refuse(&usage, "--output needs a choice such as --ptx or --cubin");
    if ((args->cubin || args->object) && args->common.json)
        options_refuse(&usage, "bytes cannot be shown as JSON; use --output FILE without --json");
    if ((args->cubin || args->object) && !args->output && isatty(STDOUT_FILENO))
        options_refuse(&usage, "bytes are not for a terminal; use --output FILE");
    if (args->is_source && args->signature)
        options_refuse(&usage, "--signature is of a spec; of a file see kiln build");
    if (!args->is_source && (args->target || args->block || source_args_given(&args->source)))
        options_refuse(&usage,
                       "'%s' is a spec: --function, --target, --block, -I, -D and --option are for CUDA files; write "
                       "target=sm_90 and block=128,256",
                       args->spec);
    args->block_count = args->block ? parse_sizes(args->blocks, MOST_BLOCKS, args->block) : 0;
    if (args->block && args->block_count == 0)
        options_refuse(&usage, "--block %s is no number of threads; expected 256, 128,256,512 or 64..1024*2",
                       args->block);
}

/* Prints bytes, or writes them to the file of --output. */
static int emit(const show_args *args, const char *spec, const void *data, size_t length)
{
    if (args->output)
        return output_put(args->output, data, length);
    if (args->common.json) {
        json_print(json_new("spec", json_text(spec), "text", json_text(data ? data : ""), NULL));
        return STATUS_DONE;
    }
    if (length)
        fwrite(data, 1, length, stdout);
    if (length && !args->cubin && !args->object && ((const char *)data)[length - 1] != '\n')
        putchar('\n');
    return STATUS_DONE;
}

static int show_section(const show_args *args, const kiln_program *program)
{
    const char *name = args->ptx ? "ptx" : args->key ? "key" : args->log ? "log" : args->cubin ? "cubin" : "object";
    kiln_program_info info = built_info(program);
    size_t length = 0;
    const void *data = built_section(&length, program, name);
    if (data || args->log)
        return emit(args, info.spec, data, length);
    return fail(STATUS_USAGE, "target=%s has no %s; %s", info.target, name,
                strcmp(info.target, "cpu") == 0 ? "name a GPU such as target=sm_90, or show --object"
                                                : "show --cubin, --ptx or --sass");
}

static void show_overview(struct session *session, const show_args *args, const kiln_spec *spec,
                          const kiln_program *program)
{
    static const char *const sections[] = { "cubin", "ptx", "object", "log", "names", "key" };
    chip_use found;
    kiln_program_info info = built_info(program);
    bool compiled = info.origin == KILN_ORIGIN_COMPILED;
    char *parts = need_copy("");
    json_t *lengths = json_object();
    for (size_t i = 0; i < COUNT_OF(sections); i++) {
        size_t length = 0;
        if (built_section(&length, program, sections[i]))
            json_put(lengths, sections[i], json_count(length), NULL);
        if (length > 0)
            text_append(&parts, "  ", "%s %zu B", sections[i], length);
    }
    resources_find(&found, session, program, spec, args->block ? args->blocks : NULL, args->block_count);
    if (args->resources && args->block_count > 1 && !args->common.json) {
        struct table *table = resources_table();
        resources_compare(table, &found);
        table_print(table, stdout);
        return;
    }
    if (args->common.json)
        json_print(json_new("spec", json_text(info.spec), "source", json_text(info.origin_name), "compile_ms",
                            json_number(info.compile_ms), "sections", lengths, "resources", resources_json(&found),
                            NULL));
    else if (!args->resources)
        printf("spec       %s\nfrom       %s%s\nparts      %s\n", info.spec, compiled ? "compiled in " : "",
               compiled ? format_ms(info.compile_ms) : info.origin_name, parts);
    if (!args->common.json)
        resources_print(&found);
}

static int show_program(struct session *session, const show_args *args, const kiln_spec *spec,
                        const kiln_program *program)
{
    kiln_program_info info = built_info(program);
    char *text = NULL;
    size_t length = 0;
    if (args->sass) {
        int status = machine_disassemble(&text, &length, program);
        return status ? status : emit(args, info.spec, text, length);
    }
    if (args->spec_only)
        return emit(args, info.spec, info.spec, strlen(info.spec));
    if (args->ptx || args->key || args->log || args->cubin || args->object)
        return show_section(args, program);
    show_overview(session, args, spec, program);
    return STATUS_DONE;
}

static int show_signature(struct session *session, const show_args *args, const kiln_spec *spec)
{
    const kiln_signature *signature = NULL;
    kiln_status status = kiln_spec_signature(&signature, spec, &session->report);
    if (status)
        return session_status(session, status, NULL);
    if (args->common.json)
        json_print(json_new("spec", json_text(kiln_spec_text(spec)), "sizes",
                            texts_json(signature->sizes, signature->size_count), "args",
                            signature_json(signature, false), NULL));
    else
        signature_print(signature, false);
    return STATUS_DONE;
}

static int show_spec(struct session *session, const show_args *args)
{
    kiln_spec *spec = NULL;
    kiln_program *program = NULL;
    char *source = NULL;
    kiln_report *report = &session->report;
    kiln_status status = kiln_spec_parse(&spec, session->service, args->spec, report);
    if (!status && args->signature) {
        int shown = show_signature(session, args, spec);
        kiln_spec_free(spec);
        return shown;
    }
    if (!status)
        status = args->source_only ? kiln_spec_source(&source, spec, report)
                                   : build_spec(&program, session->service, spec, report);
    int result = status   ? session_status(session, status, NULL)
                 : source ? emit(args, args->spec, source, strlen(source))
                          : show_program(session, args, spec, program);
    kiln_text_free(source);
    kiln_program_release(program);
    kiln_spec_free(spec);
    return result;
}

/* ---- Several specs, by their resources */

typedef struct comparison {
    struct session *session;
    struct table *table;
    json_t *results;
    kiln_status status; /* of the spec that was added last */
} comparison;

static int compare_spec(void *data, const kiln_spec *spec)
{
    comparison *self = data;
    kiln_program *program = NULL;
    chip_use found;
    self->status = build_spec(&program, self->session->service, spec, &self->session->report);
    if (self->status)
        return 1;
    resources_find(&found, self->session, program, spec, NULL, 0);
    resources_compare(self->table, &found);
    json_add(self->results, json_new("spec", json_text(found.name), "resources", resources_json(&found), NULL));
    kiln_program_release(program);
    return 0;
}

static int count_spec(void *data, const kiln_spec *spec)
{
    (void)spec;
    ++*(size_t *)data;
    return 0;
}

/* Each spec is compiled, so its resources are those that it has with its block. */
static int compare_specs(struct session *session, const show_args *args)
{
    comparison self = { .session = session, .table = resources_table(), .results = json_array() };
    kiln_status status = kiln_spec_expand(session->service, args->spec, compare_spec, &self, &session->report);
    int result = session_status(session, status ? status : self.status, NULL);
    if (!result && args->common.json)
        json_print(json_new("results", self.results, NULL));
    else if (!result)
        table_print(self.table, stdout);
    return result;
}

static int show_file(struct session *session, const show_args *args)
{
    kiln_source source;
    kiln_program *program = NULL;
    int result = source_read(&source, &args->source, args->spec, args->target);
    if (result || args->source_only)
        return result ? result : emit(args, args->spec, source.text, source.length);
    kiln_status status = build_source(&program, session->service, &source, &session->report);
    result = status ? session_status(session, status, NULL) : show_program(session, args, NULL, program);
    kiln_program_release(program);
    return result;
}

static int show(struct session *session, void *data)
{
    const show_args *args = data;
    size_t specs = 0;
    if (args->is_source)
        return show_file(session, args);
    kiln_status status = args->resources
                             ? kiln_spec_expand(session->service, args->spec, count_spec, &specs, &session->report)
                             : KILN_OK;
    if (status)
        return session_status(session, status, NULL);
    return specs > 1 ? compare_specs(session, args) : show_spec(session, args);
}

int command_show(int argc, char **argv)
{
    show_args args = { .spec = NULL };
    parse_args(&args, argc, argv);
    return session_run(&args.common, show, &args);
}
