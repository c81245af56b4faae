#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/tune.h>

#include "cli/actions.h"
#include "commands.h"
#include "files/output.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/table.h"

enum { MOST_ROWS = 10 };

typedef struct wisdom_args {
    const char *model, *op, *dtype, *source; /* NULL: any */
    bool all;
    text_list words; /* after the action */
    common_args common;
} wisdom_args;

static const struct usage usage = {
    "kiln wisdom list|explain SPEC|export [FILE]|import FILE... [options]",
    "Looks at and moves what tuning found: which geometry is the fastest on which device. A spec that leaves its\n"
    "geometry open takes it from the nearest record.\n\n"
    "  list     every record that is known\n"
    "  explain  what a spec takes, and for each record near it why it is taken or not\n"
    "  export   writes your own records, or with --all every one, to FILE or standard output\n"
    "  import   adds the records of files to your own",
    "  kiln wisdom list --model H200 --dtype f16\n"
    "  kiln wisdom explain 'op=hardsigmoid dtype=f32 n=67108864 target=sm_90' --model 'NVIDIA H200'\n"
    "  kiln wisdom export h200.json --model H200",
};

/* ---- Records */

static bool is_op(const char *op, const char *wanted)
{
    size_t length = strlen(wanted);
    return strncmp(op, wanted, length) == 0 && (op[length] == '\0' || op[length] == '(');
}

static bool is_wanted(const kiln_wisdom_record *record, const wisdom_args *args)
{
    return (!args->model || strcasestr(record->model, args->model)) && (!args->op || is_op(record->op, args->op)) &&
           (!args->dtype || strcmp(record->dtype, args->dtype) == 0) &&
           (!args->source || strcmp(record->source, args->source) == 0);
}

static json_t *record_json(const kiln_wisdom_record *record)
{
    json_t *object = json_new();
    json_put_text(object, "source", record->source);
    json_put_text(object, "model", record->model);
    json_put_text(object, "target", record->target);
    json_put_text(object, "template", record->template_name);
    json_put_text(object, "class", record->op_class);
    json_put_text(object, "op", record->op);
    json_put_text(object, "dtype", record->dtype);
    json_put_count(object, "log2_n", record->log2_n);
    json_put_text(object, "geometry", record->geometry);
    json_put_real(object, "ms", record->ms);
    json_put_real(object, "gbps", record->gbps);
    json_put_real(object, "ratio", record->ratio);
    json_put_count(object, "samples", record->samples);
    json_put_count(object, "variants", record->variants);
    json_put_text(object, "toolchain", record->toolchain);
    json_put_text(object, "by", record->by);
    return object;
}

/* "2^26" */
static char *format_size(char buffer[FORMAT_ROOM], uint32_t log2_n)
{
    snprintf(buffer, FORMAT_ROOM, "2^%" PRIu32, log2_n);
    return buffer;
}

/* A number that may be unknown. */
static char *format_known(char buffer[FORMAT_ROOM], double value, int decimals)
{
    buffer[0] = '\0';
    return value > 0 ? format_fixed(buffer, value, decimals) : buffer;
}

/* ---- List */

struct listing {
    const wisdom_args *args;
    struct table *table; /* or NULL */
    json_t *list;        /* or NULL */
    size_t count;
};

static int list_record(void *data, const kiln_wisdom_record *record)
{
    struct listing *listing = data;
    char size[FORMAT_ROOM], ratio[FORMAT_ROOM], rate[FORMAT_ROOM], variants[FORMAT_ROOM];
    if (!is_wanted(record, listing->args))
        return 0;
    listing->count++;
    if (listing->list)
        json_add(listing->list, record_json(record));
    else
        table_row(listing->table,
                  (const char *const[]){ record->model, record->target, record->op, record->dtype,
                                         format_size(size, record->log2_n), record->geometry,
                                         format_known(ratio, record->ratio, 3), format_known(rate, record->gbps, 0),
                                         format_count(variants, record->variants), record->source });
    return 0;
}

static int wisdom_list(struct session *session, const void *data)
{
    const wisdom_args *args = data;
    struct listing listing = { .args = args };
    if (args->common.json)
        listing.list = json_list();
    else
        listing.table = table_new("device|target|op|dtype|>n|geometry|>time / default|>GB/s|>variants|from");
    kiln_status status = kiln_wisdom_visit(session->service, list_record, &listing);
    if (status) {
        json_decref(listing.list);
    } else if (listing.list) {
        json_t *object = json_new();
        json_put(object, "records", listing.list);
        json_print(object);
    } else if (listing.count) {
        table_print(listing.table, stdout);
    } else {
        puts("no such records");
    }
    table_free(listing.table);
    return status ? session_fail(session, status, NULL) : STATUS_DONE;
}

/* ---- Explain */

struct explanation {
    const wisdom_args *args;
    struct table *table;
    json_t *list;
    char *taken; /* what differs in the record that is taken, and where it is from; NULL if none is */
    size_t count, rows;
};

static void put_candidate(json_t *list, const kiln_wisdom_candidate *candidate)
{
    json_t *object = record_json(candidate->record);
    if (candidate->distance == UINT32_MAX)
        json_put_null(object, "distance");
    else
        json_put_count(object, "distance", candidate->distance);
    json_put_text(object, "reason", candidate->reason);
    json_put_text(object, "refusal", candidate->refusal);
    json_put_bool(object, "chosen", candidate->chosen);
    json_add(list, object);
}

static void add_candidate(struct table *table, const kiln_wisdom_candidate *candidate)
{
    const kiln_wisdom_record *record = candidate->record;
    char distance[FORMAT_ROOM] = "never", size[FORMAT_ROOM];
    if (candidate->distance != UINT32_MAX)
        snprintf(distance, sizeof(distance), "%" PRIu32, candidate->distance);
    const char *verdict = candidate->chosen ? "taken" : candidate->refusal[0] ? candidate->refusal : "farther";
    table_row(table,
              (const char *const[]){ distance, record->geometry, record->model, record->op, record->dtype,
                                     format_size(size, record->log2_n), record->source, candidate->reason, verdict });
}

static int explain_candidate(void *data, const kiln_wisdom_candidate *candidate)
{
    struct explanation *self = data;
    self->count++;
    if (candidate->chosen)
        self->taken = need_copy(candidate->reason);
    bool shown = self->args->all || candidate->chosen || (self->rows < MOST_ROWS && candidate->distance != UINT32_MAX);
    if (self->list) {
        put_candidate(self->list, candidate);
    } else if (shown) {
        add_candidate(self->table, candidate);
        self->rows++;
    }
    return 0;
}

static void print_explanation(const struct explanation *self, const char *spec)
{
    printf("%s\n", spec);
    if (self->taken)
        printf("by wisdom: %s\n", self->taken);
    else
        puts("with the template's defaults: no record is taken");
    if (self->rows) {
        putchar('\n');
        table_print(self->table, stdout);
    }
    if (self->count > self->rows)
        printf("%s%zu records are %s; --all prints them\n", self->rows ? "" : "\n", self->count - self->rows,
               self->rows ? "farther or never used for this" : "never used for this");
}

static void print_explanation_json(struct explanation *self, const char *spec)
{
    json_t *object = json_new();
    json_put_text(object, "spec", spec);
    json_put_bool(object, "by_wisdom", self->taken != NULL);
    json_put(object, "candidates", self->list);
    self->list = NULL;
    json_print(object);
}

static int wisdom_explain(struct session *session, const void *data)
{
    const wisdom_args *args = data;
    struct explanation self = { .args = args };
    kiln_spec *spec = NULL;
    char *text = NULL;
    if (args->common.json)
        self.list = json_list();
    else
        self.table = table_new(">distance|geometry|device|op|dtype|>n|from|what differs|verdict");
    kiln_status status = kiln_spec_parse(&spec, session->service, args->words.items[0], &session->report);
    if (status == KILN_OK)
        status =
            kiln_wisdom_explain(&text, session->service, spec, args->model, explain_candidate, &self, &session->report);
    if (status == KILN_OK && self.list)
        print_explanation_json(&self, text);
    else if (status == KILN_OK)
        print_explanation(&self, text);
    json_decref(self.list);
    table_free(self.table);
    free(self.taken);
    kiln_text_free(text);
    kiln_spec_free(spec);
    return status ? session_fail(session, status, NULL) : STATUS_DONE;
}

/* ---- Export and import */

struct selection {
    const wisdom_args *args;
    uint64_t count;
};

static int is_selected(void *data, const kiln_wisdom_record *record)
{
    struct selection *self = data;
    bool wanted =
        is_wanted(record, self->args) && (self->args->all || self->args->source || strcmp(record->source, "own") == 0);
    self->count += wanted;
    return wanted;
}

static int write_text(const char *path, const char *text)
{
    struct output output;
    size_t length = strlen(text);
    int status = output_open(&output, path, length);
    if (!status)
        status = output_write(&output, text, length);
    if (!status)
        status = output_commit(&output);
    output_close(&output);
    return status;
}

static int wisdom_export(struct session *session, const void *data)
{
    const wisdom_args *args = data;
    struct selection selection = { .args = args };
    const char *path = args->words.count ? args->words.items[0] : "-";
    bool to_stdout = strcmp(path, "-") == 0;
    char *text = NULL;
    if (args->common.json && to_stdout)
        return options_wrong(&usage, "export --json needs a FILE, for standard output is the records");
    kiln_status status = kiln_wisdom_export(&text, session->service, is_selected, &selection, &session->report);
    if (status)
        return session_fail(session, status, NULL);
    int result = write_text(path, text);
    kiln_text_free(text);
    if (!result && args->common.json) {
        json_t *object = json_new();
        json_put_text(object, "file", path);
        json_put_count(object, "records", selection.count);
        json_print(object);
    } else if (!result && !to_stdout) {
        printf("%" PRIu64 " records written to %s\n", selection.count, path);
    }
    return result;
}

static int wisdom_import(struct session *session, const void *data)
{
    const wisdom_args *args = data;
    kiln_wisdom_tally tally = KILN_INIT(kiln_wisdom_tally);
    kiln_status status =
        kiln_wisdom_import(session->service, args->words.items, args->words.count, &tally, &session->report);
    if (status)
        return session_fail(session, status, NULL);
    if (args->common.json) {
        json_t *object = json_new();
        json_put_count(object, "added", tally.added);
        json_put_count(object, "replaced", tally.replaced);
        json_put_count(object, "present", tally.present);
        json_put_count(object, "kept", tally.kept);
        json_print(object);
    } else {
        printf("%" PRIu64 " records added, %" PRIu64 " replaced, %" PRIu64 " there already, %" PRIu64
               " of wider searches kept, in %s/wisdom\n",
               tally.added, tally.replaced, tally.present, tally.kept, cache_directory(session));
    }
    return STATUS_DONE;
}

/* ---- The command */

static const action actions[] = {
    { "list", wisdom_list, NULL, 0, 0 },
    { "explain", wisdom_explain, "a SPEC", 1, 1 },
    { "export", wisdom_export, NULL, 0, 1 },
    { "import", wisdom_import, "a FILE", 1, SIZE_MAX - 1 },
};

static int check_options(const action *chosen, const void *data)
{
    const wisdom_args *args = data;
    bool filters = chosen->run == wisdom_list || chosen->run == wisdom_export;
    if (!filters && (args->op || args->dtype || args->source))
        return options_wrong(&usage, "--op, --dtype and --source are for list and export");
    if (args->model && chosen->run == wisdom_import)
        return options_wrong(&usage, "--model is for list, explain and export");
    if (args->all && chosen->run != wisdom_explain && chosen->run != wisdom_export)
        return options_wrong(&usage, "--all is for explain and export");
    if (args->source && strcmp(args->source, "own") != 0 && strcmp(args->source, "shared") != 0)
        return options_wrong(&usage, "--source %s: expected own or shared", args->source);
    return OPTIONS_GO_ON;
}

int command_wisdom(int argc, char **argv)
{
    static const action_set set = { &usage, "list, explain, export or import", actions,
                                    sizeof(actions) / sizeof(actions[0]), check_options };
    wisdom_args args = { .all = false };
    const option_row rows[] = {
        { "model", 'm', OPTION_TEXT, "TEXT", "devices with TEXT in their model; explain: that model", &args.model },
        { "op", 0, OPTION_TEXT, "OP", "list, export: this operation only", &args.op },
        { "dtype", 0, OPTION_TEXT, "TYPE", "list, export: this dtype only", &args.dtype },
        { "source", 0, OPTION_TEXT, "NAME", "list, export: own or shared only", &args.source },
        { "all", 'a', OPTION_FLAG, NULL, "explain: every record; export: those of others, too", &args.all },
    };
    const action_args where = { &args, &args.common, &args.words };
    return actions_run(&set, rows, sizeof(rows) / sizeof(rows[0]), &where, argc, argv);
}
