/* kiln cache: looks after the directory of compiled kernels. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/actions.h"
#include "commands.h"
#include "files/output.h"
#include "files/whole.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/spectext.h"
#include "text/table.h"

enum { BLOCK = 4096 };

typedef struct cache_args {
    bool damaged;
    const char *bytes; /* as the user wrote it, or NULL */
    uint32_t files;    /* 0: not given */
    text_list words;   /* after the action: a file, then filters */
    common_args common;
} cache_args;

static const struct usage usage = {
    "kiln cache stat|list|verify|trim|purge|export FILE [SPEC...]|import FILE [options]",
    "Looks after the directory of compiled kernels.\n\n"
    "  stat     prints where it is, its entries and bytes by kind, target and compiler, and how full it is\n"
    "  list     prints every entry\n"
    "  verify   reads every entry whole and names those that would be refused; status 1 if there are any\n"
    "  trim     removes the least recently used entries, down to --bytes and --files, or else to the cache's own caps\n"
    "  purge    removes every entry, or with --damaged only those that would be refused\n"
    "  export   writes the kernels for GPUs, or those with the fields of any SPEC, into one file, a pack\n"
    "  import   adds the entries of a pack; those that are there already stay\n\n"
    "Refused are damaged entries, and untrusted ones: links, files of other owners, files that others can write.",
    "  kiln cache stat --json\n"
    "  kiln cache purge --damaged\n"
    "  kiln cache trim --bytes 500M\n"
    "  kiln cache export kernels.kilnpack 'dtype=f16,bf16 target=sm_90'",
};

/* ---- Reading the whole cache */

/* A number of entries under a name. */
typedef struct heap {
    char *name;
    uint64_t entries, bytes;
} heap;

typedef struct heaps {
    heap *rows;
    size_t count;
} heaps;

enum { KINDS, TARGETS, TOOLCHAINS, HEAPS };

static const struct {
    const char *word, *key; /* in the table and in JSON */
} heap_names[HEAPS] = { { "kind", "kinds" }, { "target", "targets" }, { "compiler", "toolchains" } };

typedef struct survey {
    uint64_t entries, bytes, damaged, untrusted;
    uint64_t counted; /* bytes as the cap counts them, in blocks of 4 KiB */
    int64_t oldest;   /* when the least recently used entry was used; 0: there is none */
    heaps heaps[HEAPS];
    struct table *table; /* a row for each entry, or NULL */
    json_t *list;        /* an object for each entry, or NULL */
    bool bad_only;       /* rows and objects for those only that would be refused */
} survey;

static void heap_add(heaps *to, const char *name, uint64_t bytes)
{
    size_t i = 0;
    while (i < to->count && strcmp(to->rows[i].name, name) != 0)
        i++;
    if (i == to->count) {
        to->rows = need_array(to->rows, ++to->count, sizeof(*to->rows));
        to->rows[i] = (heap){ .name = need_copy(name) };
    }
    to->rows[i].entries++;
    to->rows[i].bytes += bytes;
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(((const heap *)a)->name, ((const heap *)b)->name);
}

static const char *state_name(kiln_status status)
{
    return status == KILN_OK ? "ok" : status == KILN_EINVAL ? "untrusted" : "damaged";
}

static void show_entry(const survey *visit, const kiln_entry_info *entry)
{
    const char *state = state_name(entry->status);
    if (visit->list)
        json_add(visit->list, json_new("path", json_text(entry->path), "kind", json_text(entry->kind), "spec",
                                       json_text(entry->spec), "toolchain", json_text(entry->toolchain), "bytes",
                                       json_count(entry->bytes), "ok", json_boolean(!entry->status), "state",
                                       json_text(state), "problem", json_text(entry->problem), NULL));
    else if (visit->bad_only)
        table_row(visit->table, (const char *const[]){ entry->path, state, entry->problem });
    else
        table_row(visit->table, (const char *const[]){ entry->status  ? entry->path
                                                       : *entry->spec ? entry->spec
                                                                      : entry->kind,
                                                       entry->toolchain, format_count(entry->bytes),
                                                       entry->status ? entry->problem : "ok" });
}

static int visit_entry(void *data, const kiln_entry_info *entry)
{
    survey *visit = data;
    visit->entries++;
    visit->bytes += entry->bytes;
    visit->counted += (entry->bytes + BLOCK - 1) / BLOCK * BLOCK;
    if (!entry->status && (visit->oldest == 0 || entry->used < visit->oldest))
        visit->oldest = entry->used;
    visit->damaged += entry->status && entry->status != KILN_EINVAL;
    visit->untrusted += entry->status == KILN_EINVAL;
    heap_add(&visit->heaps[KINDS], entry->status ? state_name(entry->status) : entry->kind, entry->bytes);
    if (!entry->status && *entry->toolchain)
        heap_add(&visit->heaps[TOOLCHAINS], entry->toolchain, entry->bytes);
    if (!entry->status && *entry->target)
        heap_add(&visit->heaps[TARGETS], entry->target, entry->bytes);
    if ((visit->table || visit->list) && (entry->status || !visit->bad_only))
        show_entry(visit, entry);
    return 0;
}

/* Reads the whole cache; a service without a directory has none. */
static int read_cache(survey *visit, struct session *session)
{
    kiln_status status = kiln_cache_visit(session->service, visit_entry, visit, &session->report);
    for (size_t i = 0; i < HEAPS; i++)
        if (visit->heaps[i].count)
            qsort(visit->heaps[i].rows, visit->heaps[i].count, sizeof(heap), by_name);
    return session_status(session, status, NULL);
}

/* ---- stat */

static double age_of(const survey *visit)
{
    double age = difftime(time(NULL), (time_t)visit->oldest);
    return visit->oldest && age > 0 ? age : 0;
}

/* A cap, null where there is none. */
static json_t *cap_json(uint64_t cap)
{
    return cap == UINT64_MAX ? json_null() : json_count(cap);
}

static void print_stat_json(const survey *visit, const kiln_cache_info *info)
{
    json_t *object = json_new("dir", json_text(info->directory), "entries", json_count(visit->entries), "bytes",
                              json_count(visit->bytes), "damaged", json_count(visit->damaged), "untrusted",
                              json_count(visit->untrusted), "counted_bytes", json_count(visit->counted), "cap_bytes",
                              cap_json(info->cap_bytes), "cap_entries", cap_json(info->cap_files), "temporaries",
                              json_count(info->temporaries), "temporary_bytes", json_count(info->temporary_bytes),
                              "oldest_seconds", visit->oldest ? json_number(age_of(visit)) : json_null(), NULL);
    for (size_t i = 0; i < HEAPS; i++) {
        json_t *rows = json_object();
        for (size_t k = 0; k < visit->heaps[i].count; k++) {
            const heap *row = &visit->heaps[i].rows[k];
            json_put(rows, row->name,
                     json_new("entries", json_count(row->entries), "bytes", json_count(row->bytes), NULL), NULL);
        }
        json_put(object, heap_names[i].key, rows, NULL);
    }
    json_print(object);
}

/* "1.2 MiB of 4.0 GiB (0.1 %)" */
static char *share_text(char *(*format)(uint64_t), uint64_t part, uint64_t whole)
{
    return whole == UINT64_MAX
               ? need_format("%s, no cap", format(part))
               : need_format("%s of %s (%.1f %%)", format(part), format(whole), 100 * (double)part / (double)whole);
}

static void print_stat(const survey *visit, const kiln_cache_info *info)
{
    static const char advice[] = "; see kiln cache verify, remove with kiln cache purge --damaged";
    printf("directory  %s\n", info->directory);
    printf("entries    %" PRIu64 "\n", visit->entries);
    printf("bytes      %" PRIu64 " (%s)\n", visit->bytes, format_bytes(visit->bytes));
    printf("damaged    %" PRIu64 "%s\n", visit->damaged, visit->damaged ? advice : "");
    printf("untrusted  %" PRIu64 "%s\n", visit->untrusted, visit->untrusted ? advice : "");
    printf("filled     %s; entries %s\n", share_text(format_bytes, visit->counted, info->cap_bytes),
           share_text(format_count, visit->entries, info->cap_files));
    printf("temporary  %" PRIu64 " (%s)\n", info->temporaries, format_bytes(info->temporary_bytes));
    if (visit->oldest)
        printf("oldest     used %s ago\n", format_age(age_of(visit)));
    if (visit->entries == 0)
        return;
    struct table *table = table_new("by|name|>entries|>size");
    for (size_t i = 0; i < HEAPS; i++)
        for (size_t k = 0; k < visit->heaps[i].count; k++) {
            const heap *row = &visit->heaps[i].rows[k];
            table_row(table, (const char *const[]){ k ? "" : heap_names[i].word, row->name, format_count(row->entries),
                                                    format_bytes(row->bytes) });
        }
    putchar('\n');
    table_print(table, stdout);
}

static int cache_stat(struct session *session, void *data)
{
    const cache_args *args = data;
    survey visit = { .entries = 0 };
    kiln_cache_info info = KILN_INIT(kiln_cache_info);
    int status = read_cache(&visit, session);
    if (!status)
        status = session_status(session, kiln_cache_get_info(session->service, &info, &session->report), NULL);
    if (!status)
        (args->common.json ? print_stat_json : print_stat)(&visit, &info);
    return status;
}

/* ---- list, verify, purge and trim */

static int cache_list(struct session *session, void *data)
{
    const cache_args *args = data;
    survey visit = { .list = args->common.json ? json_array() : NULL,
                     .table = args->common.json ? NULL : table_new("holds|compiler|>bytes|state") };
    int status = read_cache(&visit, session);
    if (!status && args->common.json) {
        json_print(json_new("dir", json_text(cache_directory(session)), "list", visit.list, NULL));
    } else if (!status) {
        table_sort(visit.table);
        table_print(visit.table, stdout);
    }
    return status;
}

static int cache_verify(struct session *session, void *data)
{
    const cache_args *args = data;
    survey visit = { .bad_only = true,
                     .list = args->common.json ? json_array() : NULL,
                     .table = args->common.json ? NULL : table_new("refused entry|state|problem") };
    int status = read_cache(&visit, session);
    if (status)
        return status;
    bool bad = visit.damaged + visit.untrusted > 0;
    if (args->common.json)
        json_print(json_new("entries", json_count(visit.entries), "bytes", json_count(visit.bytes), "damaged",
                            json_count(visit.damaged), "untrusted", json_count(visit.untrusted), "bad", visit.list,
                            NULL));
    else if (bad)
        table_print(visit.table, stdout);
    if (!args->common.json)
        printf("%" PRIu64 " entries checked, %" PRIu64 " damaged, %" PRIu64 " untrusted\n", visit.entries,
               visit.damaged, visit.untrusted);
    if (!bad)
        return STATUS_DONE;
    return fail(STATUS_FAILED,
                "%" PRIu64 " damaged and %" PRIu64 " untrusted entries; they are never used; remove them with "
                "kiln cache purge --damaged",
                visit.damaged, visit.untrusted);
}

static int is_refused(void *data, const kiln_entry_info *entry)
{
    (void)data;
    return entry->status != KILN_OK;
}

static int cache_purge(struct session *session, void *data)
{
    const cache_args *args = data;
    uint64_t removed = 0;
    kiln_status status =
        kiln_cache_purge(session->service, args->damaged ? is_refused : NULL, NULL, &removed, &session->report);
    bool some = status == KILN_OK || status == KILN_EIO;
    if (some && args->common.json)
        json_print(json_new("removed", json_count(removed), NULL));
    else if (some)
        printf("%" PRIu64 "%s entries removed from %s\n", removed, args->damaged ? " refused" : "",
               cache_directory(session));
    return session_status(session, status, NULL);
}

static int cache_trim(struct session *session, void *data)
{
    const cache_args *args = data;
    kiln_trim trim = KILN_INIT(kiln_trim);
    uint64_t bytes = 0;
    if (args->bytes && !parse_size(&bytes, args->bytes))
        return fail(STATUS_USAGE, "--bytes %s is not a size: expected a number such as 100000000, 500M or 4G",
                    args->bytes);
    kiln_status status = kiln_cache_trim(session->service, bytes, args->files, &trim, &session->report);
    if (status)
        return session_status(session, status, NULL);
    if (args->common.json)
        json_print(json_new("removed", json_count(trim.removed), "removed_bytes", json_count(trim.removed_bytes),
                            "entries", json_count(trim.kept), "bytes", json_count(trim.kept_bytes), NULL));
    else
        printf("%" PRIu64 " entries (%s) removed, %" PRIu64 " (%s) left in %s\n", trim.removed,
               format_bytes(trim.removed_bytes), trim.kept, format_bytes(trim.kept_bytes), cache_directory(session));
    return STATUS_DONE;
}

/* ---- export and import */

/* Adds a spec that an export is limited to: the canonical text of the fields that were given, without the size. */
static int add_filter(void *data, const kiln_spec *spec)
{
    const char *n = kiln_spec_field(spec, "n"), *whole = kiln_spec_text(spec);
    size_t hint = *n ? strlen(" n=") + strlen(n) : 0, length = strlen(whole);
    text_list_add(data, need_format("%.*s", length > hint ? (int)(length - hint) : 0, whole));
    return 0;
}

static int is_wanted(void *data, const kiln_entry_info *entry)
{
    const text_list *filters = data;
    for (size_t i = 0; i < filters->count; i++)
        if (spectext_has_all(entry->spec, filters->items[i]))
            return 1;
    return filters->count == 0;
}

static int export_to_stdout(struct session *session, const cache_args *args, text_list *filters)
{
    struct whole_place place;
    char *bytes = NULL;
    size_t length = 0;
    if (args->common.json)
        return options_wrong(&usage, "export --json needs a FILE, for standard output is the pack");
    int result = whole_place_open(&place, "-", false);
    if (!result)
        result = session_status(
            session, kiln_cache_export(session->service, place.path, is_wanted, filters, NULL, &session->report), NULL);
    if (!result)
        result = whole_file(&bytes, &length, place.path, SIZE_MAX - 1);
    whole_place_close(&place);
    return result ? result : output_put("-", bytes, length);
}

static int cache_export(struct session *session, void *data)
{
    const cache_args *args = data;
    text_list filters = { NULL, 0 };
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    const char *file = args->words.items[0], *culprit = NULL;
    kiln_status status = KILN_OK;
    for (size_t i = 1; i < args->words.count && !status; i++) {
        culprit = args->words.items[i];
        status = kiln_spec_expand(session->service, culprit, add_filter, &filters, &session->report);
    }
    if (status)
        return session_status(session, status, culprit);
    if (strcmp(file, "-") == 0)
        return export_to_stdout(session, args, &filters);
    /* A path that cannot be written is refused as by every command. */
    struct output place;
    int writable = output_open(&place, file, 0);
    output_close(&place);
    if (writable)
        return writable;
    status = kiln_cache_export(session->service, file, is_wanted, &filters, &moved, &session->report);
    if (status)
        return session_status(session, status, NULL);
    if (args->common.json)
        json_print(json_new("file", json_text(file), "entries", json_count(moved.entries), "bytes",
                            json_count(moved.bytes), "skipped", json_count(moved.skipped), "damaged",
                            json_count(moved.damaged), NULL));
    else
        printf("%" PRIu64 " entries (%s) written to %s; %" PRIu64 " that belong to this machine left out\n",
               moved.entries, format_bytes(moved.bytes), file, moved.skipped);
    return STATUS_DONE;
}

static int cache_import(struct session *session, void *data)
{
    const cache_args *args = data;
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    const char *file = args->words.items[0];
    struct whole_place place;
    int result = whole_place_open(&place, file, true);
    kiln_status status = result ? KILN_OK : kiln_cache_import(session->service, place.path, &moved, &session->report);
    whole_place_close(&place);
    if (result)
        return result;
    if (status && status != KILN_EIO)
        return session_status(session, status, NULL);
    if (args->common.json)
        json_print(json_new("file", json_text(file), "added", json_count(moved.entries), "bytes",
                            json_count(moved.bytes), "present", json_count(moved.present), "skipped",
                            json_count(moved.skipped), "damaged", json_count(moved.damaged), NULL));
    else
        printf("%" PRIu64 " entries (%s) added to %s, %" PRIu64 " there already, %" PRIu64 " left out\n", moved.entries,
               format_bytes(moved.bytes), cache_directory(session), moved.present, moved.skipped);
    if (moved.damaged == 0)
        return session_status(session, status, NULL);
    return fail(STATUS_FAILED, "%s: %" PRIu64 " damaged entries were left out", file, moved.damaged);
}

/* ---- The command */

static const action actions[] = {
    { "stat", cache_stat, NULL, 0, 0, true, 0 },
    { "list", cache_list, NULL, 0, 0, true, 0 },
    { "verify", cache_verify, NULL, 0, 0, true, 0 },
    { "trim", cache_trim, NULL, 0, 0, true, 0 },
    { "purge", cache_purge, NULL, 0, 0, true, 0 },
    { "export", cache_export, "the file to write", 1, SIZE_MAX, true, 2 },
    { "import", cache_import, "the pack", 1, 1, false, 0 },
};

static void check_options(const action *chosen, const void *data)
{
    const cache_args *args = data;
    if (args->damaged && chosen->run != cache_purge)
        options_refuse(&usage, "--damaged is for purge");
    if ((args->bytes || args->files) && chosen->run != cache_trim)
        options_refuse(&usage, "--bytes and --files are for trim");
}

int command_cache(int argc, char **argv)
{
    static const action_set set = { &usage, "stat, list, verify, trim, purge, export or import", actions,
                                    COUNT_OF(actions), check_options };
    cache_args args = { .damaged = false };
    const option_row rows[] = {
        { "damaged", 0, OPTION_FLAG, NULL, "purge only those that would be refused", &args.damaged },
        { "bytes", 0, OPTION_TEXT, "N", "trim: keep at most N bytes; 500M, 4G", &args.bytes },
        { "files", 0, OPTION_NUMBER, "N", "trim: keep at most N entries", &args.files },
    };
    return actions_run(&set, OPTION_ROWS(rows), &args, &args.common, &args.words, argc, argv);
}
