#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/actions.h"
#include "commands.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/table.h"
#include "warm/cachework.h"

enum { BLOCK = 4096 };

/* A number of entries under a name. */
typedef struct heap {
    char *name;
    uint64_t entries, bytes;
} heap;

struct heaps {
    heap *rows;
    size_t count;
};

struct visit {
    uint64_t entries, bytes, damaged, untrusted;
    uint64_t counted; /* bytes as the cap counts them, in blocks of 4 KiB */
    int64_t oldest;   /* when the least recently used entry was used; 0: there is none */
    struct heaps kinds, targets, toolchains;
    struct table *table; /* a row for each entry, or NULL */
    json_t *list;        /* an object for each entry, or NULL */
    bool bad_only;       /* rows and objects for those only that would be refused */
};

static const struct usage usage = {
    "kiln cache stat|list|verify|trim|purge|export FILE [SPEC...]|import FILE [options]",
    "Looks after the directory of compiled kernels.\n\n"
    "  stat     where it is, how many entries and bytes, by kind, target and compiler, and how full it is\n"
    "  list     every entry\n"
    "  verify   reads every entry whole and names those that would be refused; status 1 if there are any\n"
    "  trim     removes the least recently used entries, down to --bytes and --files, or else to the cache's own caps\n"
    "  purge    removes every entry, or with --damaged only those that would be refused\n"
    "  export   writes the kernels for GPUs, or those with the fields of any SPEC, into one file, a pack\n"
    "  import   adds the entries of a pack; those that are there already stay\n\n"
    "Refused are damaged entries, and untrusted ones: links, other owners' files, what others can write.",
    "  kiln cache stat --json\n"
    "  kiln cache purge --damaged\n"
    "  kiln cache trim --bytes 500M\n"
    "  kiln cache export kernels.kilnpack 'dtype=f16,bf16 target=sm_90'",
};

static void heap_add(struct heaps *heaps, const char *name, uint64_t bytes)
{
    size_t i = 0;
    while (i < heaps->count && strcmp(heaps->rows[i].name, name) != 0)
        i++;
    if (i == heaps->count) {
        heaps->rows = need_array(heaps->rows, heaps->count + 1, sizeof(*heaps->rows));
        heaps->rows[heaps->count++] = (heap){ .name = need_copy(name) };
    }
    heaps->rows[i].entries++;
    heaps->rows[i].bytes += bytes;
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(((const heap *)a)->name, ((const heap *)b)->name);
}

static void heaps_sort(struct heaps *heaps)
{
    if (heaps->count)
        qsort(heaps->rows, heaps->count, sizeof(*heaps->rows), by_name);
}

static void heaps_free(struct heaps *heaps)
{
    for (size_t i = 0; i < heaps->count; i++)
        free(heaps->rows[i].name);
    free(heaps->rows);
}

static const char *state_name(kiln_status status)
{
    return status == KILN_OK ? "ok" : status == KILN_EINVAL ? "untrusted" : "damaged";
}

static json_t *entry_json(const kiln_entry_info *entry)
{
    json_t *object = json_new();
    json_put_text(object, "path", entry->path);
    json_put_text(object, "kind", entry->kind);
    json_put_text(object, "spec", entry->spec);
    json_put_text(object, "toolchain", entry->toolchain);
    json_put_count(object, "bytes", entry->bytes);
    json_put_bool(object, "ok", entry->status == KILN_OK);
    json_put_text(object, "state", state_name(entry->status));
    json_put_text(object, "problem", entry->problem);
    return object;
}

static void show_entry(const struct visit *visit, const kiln_entry_info *entry)
{
    char bytes[FORMAT_ROOM];
    if (visit->list)
        json_add(visit->list, entry_json(entry));
    else if (visit->bad_only)
        table_row(visit->table, (const char *const[]){ entry->path, state_name(entry->status), entry->problem });
    else
        table_row(visit->table, (const char *const[]){ entry->status  ? entry->path
                                                       : *entry->spec ? entry->spec
                                                                      : entry->kind,
                                                       entry->toolchain, format_count(bytes, entry->bytes),
                                                       entry->status ? entry->problem : "ok" });
}

static int visit_entry(void *data, const kiln_entry_info *entry)
{
    struct visit *visit = data;
    visit->entries++;
    visit->bytes += entry->bytes;
    visit->counted += (entry->bytes + BLOCK - 1) / BLOCK * BLOCK;
    if (!entry->status && (visit->oldest == 0 || entry->used < visit->oldest))
        visit->oldest = entry->used;
    visit->damaged += entry->status && entry->status != KILN_EINVAL;
    visit->untrusted += entry->status == KILN_EINVAL;
    heap_add(&visit->kinds, entry->status ? state_name(entry->status) : entry->kind, entry->bytes);
    if (!entry->status && *entry->toolchain)
        heap_add(&visit->toolchains, entry->toolchain, entry->bytes);
    if (!entry->status && *entry->target)
        heap_add(&visit->targets, entry->target, entry->bytes);
    if ((visit->table || visit->list) && (entry->status || !visit->bad_only))
        show_entry(visit, entry);
    return 0;
}

/* Reads the whole cache; a service without a directory has none. */
static int read_cache(struct visit *visit, struct session *session)
{
    kiln_status status = kiln_cache_visit(session->service, visit_entry, visit, &session->report);
    heaps_sort(&visit->kinds);
    heaps_sort(&visit->targets);
    heaps_sort(&visit->toolchains);
    return status ? session_fail(session, status, NULL) : STATUS_DONE;
}

static void visit_end(struct visit *visit)
{
    heaps_free(&visit->kinds);
    heaps_free(&visit->targets);
    heaps_free(&visit->toolchains);
    table_free(visit->table);
    json_decref(visit->list);
}

static void put_heaps(json_t *object, const char *key, const struct heaps *heaps)
{
    json_t *rows = json_new();
    for (size_t i = 0; i < heaps->count; i++) {
        json_t *row = json_new();
        json_put_count(row, "entries", heaps->rows[i].entries);
        json_put_count(row, "bytes", heaps->rows[i].bytes);
        json_put(rows, heaps->rows[i].name, row);
    }
    json_put(object, key, rows);
}

static void add_heaps(struct table *table, const char *what, const struct heaps *heaps)
{
    char entries[FORMAT_ROOM], bytes[FORMAT_ROOM];
    for (size_t i = 0; i < heaps->count; i++)
        table_row(table, (const char *const[]){ i ? "" : what, heaps->rows[i].name,
                                                format_count(entries, heaps->rows[i].entries),
                                                format_bytes(bytes, heaps->rows[i].bytes) });
}

/* A cap, null where there is none. */
static void put_cap(json_t *object, const char *key, uint64_t cap)
{
    if (cap == UINT64_MAX)
        json_put_null(object, key);
    else
        json_put_count(object, key, cap);
}

static double age_of(const struct visit *visit)
{
    double age = difftime(time(NULL), (time_t)visit->oldest);
    return visit->oldest && age > 0 ? age : 0;
}

static void print_stat_json(const struct visit *visit, const kiln_cache_info *info)
{
    json_t *object = json_new();
    json_put_text(object, "dir", info->directory);
    json_put_count(object, "entries", visit->entries);
    json_put_count(object, "bytes", visit->bytes);
    json_put_count(object, "damaged", visit->damaged);
    json_put_count(object, "untrusted", visit->untrusted);
    json_put_count(object, "counted_bytes", visit->counted);
    put_cap(object, "cap_bytes", info->cap_bytes);
    put_cap(object, "cap_entries", info->cap_files);
    json_put_count(object, "temporaries", info->temporaries);
    json_put_count(object, "temporary_bytes", info->temporary_bytes);
    if (visit->oldest)
        json_put_real(object, "oldest_seconds", age_of(visit));
    else
        json_put_null(object, "oldest_seconds");
    put_heaps(object, "kinds", &visit->kinds);
    put_heaps(object, "targets", &visit->targets);
    put_heaps(object, "toolchains", &visit->toolchains);
    json_print(object);
}

/* "1.2 MiB of 4.0 GiB (0.1 %)" */
static void print_share(const char *part, const char *whole, uint64_t of_part, uint64_t of_whole)
{
    if (of_whole == UINT64_MAX)
        printf("%s, no cap", part);
    else
        printf("%s of %s (%.1f %%)", part, whole, 100 * (double)of_part / (double)of_whole);
}

static void print_fill(const struct visit *visit, const kiln_cache_info *info)
{
    char part[FORMAT_ROOM], whole[FORMAT_ROOM];
    printf("filled     ");
    print_share(format_bytes(part, visit->counted), format_bytes(whole, info->cap_bytes), visit->counted,
                info->cap_bytes);
    printf("; entries ");
    print_share(format_count(part, visit->entries), format_count(whole, info->cap_files), visit->entries,
                info->cap_files);
    printf("\ntemporary  %" PRIu64 " (%s)\n", info->temporaries, format_bytes(part, info->temporary_bytes));
    if (visit->oldest)
        printf("oldest     used %s ago\n", format_age(part, age_of(visit)));
}

static void print_stat(const struct visit *visit, const kiln_cache_info *info)
{
    static const char advice[] = "; see kiln cache verify, remove with kiln cache purge --damaged";
    char text[FORMAT_ROOM];
    printf("directory  %s\n", info->directory);
    printf("entries    %" PRIu64 "\n", visit->entries);
    printf("bytes      %" PRIu64 " (%s)\n", visit->bytes, format_bytes(text, visit->bytes));
    printf("damaged    %" PRIu64 "%s\n", visit->damaged, visit->damaged ? advice : "");
    printf("untrusted  %" PRIu64 "%s\n", visit->untrusted, visit->untrusted ? advice : "");
    print_fill(visit, info);
    if (visit->entries == 0)
        return;
    struct table *table = table_new("by|name|>entries|>size");
    add_heaps(table, "kind", &visit->kinds);
    add_heaps(table, "target", &visit->targets);
    add_heaps(table, "compiler", &visit->toolchains);
    putchar('\n');
    table_print(table, stdout);
    table_free(table);
}

static int cache_stat(struct session *session, const void *data)
{
    const cache_args *args = data;
    struct visit visit = { .entries = 0 };
    kiln_cache_info info = KILN_INIT(kiln_cache_info);
    int status = read_cache(&visit, session);
    kiln_status found = status ? KILN_OK : kiln_cache_get_info(session->service, &info, &session->report);
    if (found)
        status = session_fail(session, found, NULL);
    if (!status && args->common.json)
        print_stat_json(&visit, &info);
    else if (!status)
        print_stat(&visit, &info);
    visit_end(&visit);
    return status;
}

static int cache_list(struct session *session, const void *data)
{
    const cache_args *args = data;
    struct visit visit = { .entries = 0 };
    if (args->common.json)
        visit.list = json_list();
    else
        visit.table = table_new("holds|compiler|>bytes|state");
    int status = read_cache(&visit, session);
    if (!status && args->common.json) {
        json_t *object = json_new();
        json_put_text(object, "dir", cache_directory(session));
        json_put(object, "list", json_incref(visit.list));
        json_print(object);
    } else if (!status) {
        table_sort(visit.table);
        table_print(visit.table, stdout);
    }
    visit_end(&visit);
    return status;
}

static int cache_verify(struct session *session, const void *data)
{
    const cache_args *args = data;
    struct visit visit = { .bad_only = true };
    if (args->common.json)
        visit.list = json_list();
    else
        visit.table = table_new("refused entry|state|problem");
    int status = read_cache(&visit, session);
    if (!status && args->common.json) {
        json_t *object = json_new();
        json_put_count(object, "entries", visit.entries);
        json_put_count(object, "bytes", visit.bytes);
        json_put_count(object, "damaged", visit.damaged);
        json_put_count(object, "untrusted", visit.untrusted);
        json_put(object, "bad", json_incref(visit.list));
        json_print(object);
    } else if (!status) {
        if (visit.damaged + visit.untrusted)
            table_print(visit.table, stdout);
        printf("%" PRIu64 " entries checked, %" PRIu64 " damaged, %" PRIu64 " untrusted\n", visit.entries,
               visit.damaged, visit.untrusted);
    }
    if (!status && visit.damaged + visit.untrusted)
        status = fail(STATUS_FAILED,
                      "%" PRIu64 " damaged and %" PRIu64 " untrusted entries; they are never used; remove them with "
                      "kiln cache purge --damaged",
                      visit.damaged, visit.untrusted);
    visit_end(&visit);
    return status;
}

static int is_refused(void *data, const kiln_entry_info *entry)
{
    (void)data;
    return entry->status != KILN_OK;
}

static int cache_purge(struct session *session, const void *data)
{
    const cache_args *args = data;
    uint64_t removed = 0;
    kiln_status status =
        kiln_cache_purge(session->service, args->damaged ? is_refused : NULL, NULL, &removed, &session->report);
    if (status && status != KILN_EIO)
        return session_fail(session, status, NULL);
    if (args->common.json) {
        json_t *object = json_new();
        json_put_count(object, "removed", removed);
        json_print(object);
    } else {
        printf("%" PRIu64 "%s entries removed from %s\n", removed, args->damaged ? " refused" : "",
               cache_directory(session));
    }
    return status ? session_fail(session, status, NULL) : STATUS_DONE;
}

static const action actions[] = {
    { "stat", cache_stat, NULL, 0, 0 },           { "list", cache_list, NULL, 0, 0 },
    { "verify", cache_verify, NULL, 0, 0 },       { "trim", cache_trim, NULL, 0, 0 },
    { "purge", cache_purge, NULL, 0, 0 },         { "export", cache_export, "the file to write", 1, SIZE_MAX - 1 },
    { "import", cache_import, "the pack", 1, 1 },
};

static int check_options(const action *chosen, const void *data)
{
    const cache_args *args = data;
    if (args->damaged && chosen->run != cache_purge)
        return options_wrong(&usage, "--damaged is for purge");
    if ((args->bytes || args->files) && chosen->run != cache_trim)
        return options_wrong(&usage, "--bytes and --files are for trim");
    return OPTIONS_GO_ON;
}

int command_cache(int argc, char **argv)
{
    static const action_set set = { &usage, "stat, list, verify, trim, purge, export or import", actions,
                                    sizeof(actions) / sizeof(actions[0]), check_options };
    cache_args args = { .damaged = false };
    const option_row rows[] = {
        { "damaged", 0, OPTION_FLAG, NULL, "purge only those that would be refused", &args.damaged },
        { "bytes", 0, OPTION_TEXT, "N", "trim: keep at most N bytes; 500M, 4G", &args.bytes },
        { "files", 0, OPTION_NUMBER, "N", "trim: keep at most N entries", &args.files },
    };
    const action_args where = { &args, &args.common, &args.words };
    return actions_run(&set, rows, sizeof(rows) / sizeof(rows[0]), &where, argc, argv);
}
