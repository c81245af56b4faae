/* kiln wisdom: lists, explains and moves the records that tuning made. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/actions.h"
#include "commands.h"
#include "files/output.h"
#include "files/whole.h"
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
    "kiln wisdom list|explain SPEC|export [FILE]|import FILE...|pull|push [options]",
    "Lists, explains and moves the records of tuning: the fastest geometry on a device. A spec that leaves its\n"
    "geometry open takes it from the nearest record.\n\n"
    "  list     every record that is known\n"
    "  explain  the geometry that a spec takes, and for each record near it why it is taken or not\n"
    "  export   writes your own records, or with --all every one, to FILE or standard output\n"
    "  import   adds the records of files to your own\n"
    "  pull     adds the records of the remote (KILN_REMOTE) to your own, where they are better\n"
    "  push     adds your own to those of the remote, where they are better",
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
    return json_new(
        "source", json_text(record->source), "model", json_text(record->model), "target", json_text(record->target),
        "template", json_text(record->template_name), "class", json_text(record->op_class), "op", json_text(record->op),
        "dtype", json_text(record->dtype), "log2_n", json_count(record->log2_n), "cols", json_count(record->cols),
        "geometry", json_text(record->geometry), "ms", json_number(record->ms), "gbps", json_number(record->gbps),
        "ratio", json_number(record->ratio), "samples", json_count(record->samples), "variants",
        json_count(record->variants), "toolchain", json_text(record->toolchain), "by", json_text(record->by), NULL);
}

/* "2^26", or "2^26 by 4096" */
static char *size_text(const kiln_wisdom_record *record)
{
    if (record->cols > 0)
        return need_format("2^%" PRIu32 " by %" PRIu64, record->log2_n, record->cols);
    return need_format("2^%" PRIu32, record->log2_n);
}

/* A number that may be unknown. */
static const char *known_text(double value, int decimals)
{
    return value > 0 ? format_fixed(value, decimals) : "";
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
    if (!is_wanted(record, listing->args))
        return 0;
    listing->count++;
    if (listing->list)
        json_add(listing->list, record_json(record));
    else
        table_row(listing->table,
                  (const char *const[]){ record->model, record->target, record->op, record->dtype, size_text(record),
                                         record->geometry, known_text(record->ratio, 3), known_text(record->gbps, 0),
                                         format_count(record->variants), record->source });
    return 0;
}

static int wisdom_list(struct session *session, void *data)
{
    const wisdom_args *args = data;
    struct listing listing = { .args = args, .list = args->common.json ? json_array() : NULL };
    listing.table = table_new("device|target|op|dtype|>n|geometry|>time / default|>GB/s|>variants|from");
    kiln_status status = kiln_wisdom_visit(session->service, list_record, &listing);
    if (status)
        return session_status(session, status, NULL);
    if (listing.list)
        json_print(json_new("records", listing.list, NULL));
    else if (listing.count)
        table_print(listing.table, stdout);
    else
        puts("no such records");
    return STATUS_DONE;
}

/* ---- Explain */

struct explanation {
    const wisdom_args *args;
    struct table *table;
    json_t *list;
    char *taken; /* the differences of the record that is taken, and where it is from; NULL if none is */
    size_t count, rows;
};

static json_t *candidate_json(const kiln_wisdom_candidate *candidate)
{
    json_t *object = record_json(candidate->record);
    json_put(object, "distance", candidate->distance == UINT32_MAX ? json_null() : json_count(candidate->distance),
             "reason", json_text(candidate->reason), "refusal", json_text(candidate->refusal), "chosen",
             json_boolean(candidate->chosen), NULL);
    return object;
}

static void add_candidate(struct table *table, const kiln_wisdom_candidate *candidate)
{
    const kiln_wisdom_record *record = candidate->record;
    bool never = candidate->distance == UINT32_MAX;
    const char *verdict = candidate->chosen ? "taken" : candidate->refusal[0] ? candidate->refusal : "farther";
    table_row(table, (const char *const[]){ never ? "never" : format_count(candidate->distance), record->geometry,
                                            record->model, record->op, record->dtype, size_text(record), record->source,
                                            candidate->reason, verdict });
}

static int explain_candidate(void *data, const kiln_wisdom_candidate *candidate)
{
    struct explanation *self = data;
    self->count++;
    if (candidate->chosen)
        self->taken = need_copy(candidate->reason);
    bool shown = self->args->all || candidate->chosen || (self->rows < MOST_ROWS && candidate->distance != UINT32_MAX);
    if (self->list) {
        json_add(self->list, candidate_json(candidate));
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

static int wisdom_explain(struct session *session, void *data)
{
    const wisdom_args *args = data;
    struct explanation self = { .args = args, .list = args->common.json ? json_array() : NULL };
    kiln_spec *spec = NULL;
    char *text = NULL;
    self.table = table_new(">distance|geometry|device|op|dtype|>n|from|what differs|verdict");
    kiln_status status = kiln_spec_parse(&spec, session->service, args->words.items[0], &session->report);
    if (status == KILN_OK)
        status =
            kiln_wisdom_explain(&text, session->service, spec, args->model, explain_candidate, &self, &session->report);
    if (status == KILN_OK && self.list)
        json_print(json_new("spec", json_text(text), "by_wisdom", json_boolean(self.taken != NULL), "candidates",
                            self.list, NULL));
    else if (status == KILN_OK)
        print_explanation(&self, text);
    kiln_text_free(text);
    kiln_spec_free(spec);
    return session_status(session, status, NULL);
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

static int wisdom_export(struct session *session, void *data)
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
        return session_status(session, status, NULL);
    int result = output_put(path, text, strlen(text));
    kiln_text_free(text);
    if (!result && args->common.json)
        json_print(json_new("file", json_text(path), "records", json_count(selection.count), NULL));
    else if (!result && !to_stdout)
        printf("%" PRIu64 " records written to %s\n", selection.count, path);
    return result;
}

static void print_tally(const kiln_wisdom_tally *tally, bool json, const char *kept, const char *where,
                        const char *more)
{
    if (json)
        json_print(json_new("added", json_count(tally->added), "replaced", json_count(tally->replaced), "present",
                            json_count(tally->present), "kept", json_count(tally->kept), NULL));
    else
        printf("%" PRIu64 " records added, %" PRIu64 " replaced, %" PRIu64 " there already, %" PRIu64
               "%s kept, in %s%s\n",
               tally->added, tally->replaced, tally->present, tally->kept, kept, where, more);
}

static int wisdom_import(struct session *session, void *data)
{
    const wisdom_args *args = data;
    kiln_wisdom_tally tally = KILN_INIT(kiln_wisdom_tally);
    struct whole_place place = { .path = NULL };
    text_list files = { NULL, 0 };
    int result = STATUS_DONE;
    for (size_t i = 0; i < args->words.count && !result; i++) {
        bool standard = strcmp(args->words.items[i], "-") == 0;
        if (standard && !place.temporary)
            result = whole_place_open(&place, "-", true);
        text_list_add(&files, standard ? place.path : args->words.items[i]);
    }
    kiln_status status =
        result ? KILN_OK : kiln_wisdom_import(session->service, files.items, files.count, &tally, &session->report);
    whole_place_close(&place);
    if (result)
        return result;
    if (status)
        return session_status(session, status, NULL);
    print_tally(&tally, args->common.json, " of wider searches", cache_directory(session), "/wisdom");
    return STATUS_DONE;
}

static int share(struct session *session, const wisdom_args *args,
                 kiln_status (*how)(kiln_service *, kiln_wisdom_tally *, kiln_report *), const char *where,
                 const char *more)
{
    kiln_wisdom_tally tally = KILN_INIT(kiln_wisdom_tally);
    if (how(session->service, &tally, &session->report) != KILN_OK)
        return session_status(session, session->report.status, NULL);
    print_tally(&tally, args->common.json, " that are better", where, more);
    return STATUS_DONE;
}

static int wisdom_pull(struct session *session, void *data)
{
    return share(session, data, kiln_wisdom_pull, cache_directory(session), "/wisdom");
}

static int wisdom_push(struct session *session, void *data)
{
    return share(session, data, kiln_wisdom_push, "the remote", "");
}

/* ---- The command */

static const action actions[] = {
    { "list", wisdom_list, NULL, 0, 0, true, 0 },     { "explain", wisdom_explain, "a SPEC", 1, 1, true, 1 },
    { "export", wisdom_export, NULL, 0, 1, true, 0 }, { "import", wisdom_import, "a FILE", 1, SIZE_MAX, false, 0 },
    { "pull", wisdom_pull, NULL, 0, 0, false, 0 },    { "push", wisdom_push, NULL, 0, 0, false, 0 },
};

static void check_options(const action *chosen, const void *data)
{
    const wisdom_args *args = data;
    bool filters = chosen->run == wisdom_list || chosen->run == wisdom_export;
    if (!filters && (args->op || args->dtype || args->source))
        options_refuse(&usage, "--op, --dtype and --source are for list and export");
    if (args->model && !filters && chosen->run != wisdom_explain)
        options_refuse(&usage, "--model is for list, explain and export");
    if (args->all && chosen->run != wisdom_explain && chosen->run != wisdom_export)
        options_refuse(&usage, "--all is for explain and export");
    if (args->source && strcmp(args->source, "own") != 0 && strcmp(args->source, "shared") != 0)
        options_refuse(&usage, "--source %s: expected own or shared", args->source);
}

int command_wisdom(int argc, char **argv)
{
    static const action_set set = { &usage, "list, explain, export, import, pull or push", actions, COUNT_OF(actions),
                                    check_options };
    wisdom_args args = { .all = false };
    const option_row rows[] = {
        { "model", 'm', OPTION_TEXT, "TEXT", "devices with TEXT in their model; explain: that model", &args.model },
        { "op", 0, OPTION_TEXT, "OP", "list, export: this operation only", &args.op },
        { "dtype", 0, OPTION_TEXT, "TYPE", "list, export: this dtype only", &args.dtype },
        { "source", 0, OPTION_TEXT, "NAME", "list, export: own or shared only", &args.source },
        { "all", 'a', OPTION_FLAG, NULL, "explain: every record; export: those of others, too", &args.all },
    };
    return actions_run(&set, OPTION_ROWS(rows), &args, &args.common, &args.words, argc, argv);
}
