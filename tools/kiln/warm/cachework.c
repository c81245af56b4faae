#include "warm/cachework.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text/format.h"
#include "text/jsonout.h"
#include "text/spectext.h"

/* The specs that an export is limited to, in canonical text with only the fields that were given. */
struct filters {
    char **texts;
    size_t count;
};

int cache_trim(struct session *session, const void *data)
{
    const cache_args *args = data;
    kiln_trim trim = KILN_INIT(kiln_trim);
    char kept[FORMAT_ROOM], removed[FORMAT_ROOM];
    uint64_t bytes = 0;
    if (args->bytes && !parse_size(&bytes, args->bytes))
        return fail(STATUS_USAGE, "--bytes %s is not a size: expected a number such as 100000000, 500M or 4G",
                    args->bytes);
    kiln_status status = kiln_cache_trim(session->service, bytes, args->files, &trim, &session->report);
    if (status)
        return session_fail(session, status, NULL);
    if (args->common.json) {
        json_t *object = json_new();
        json_put_count(object, "removed", trim.removed);
        json_put_count(object, "removed_bytes", trim.removed_bytes);
        json_put_count(object, "entries", trim.kept);
        json_put_count(object, "bytes", trim.kept_bytes);
        json_print(object);
    } else {
        printf("%" PRIu64 " entries (%s) removed, %" PRIu64 " (%s) left in %s\n", trim.removed,
               format_bytes(removed, trim.removed_bytes), trim.kept, format_bytes(kept, trim.kept_bytes),
               cache_directory(session));
    }
    return STATUS_DONE;
}

static int add_filter(void *data, const kiln_spec *spec)
{
    struct filters *filters = data;
    const char *n = kiln_spec_field(spec, "n"), *whole = kiln_spec_text(spec);
    size_t hint = *n ? strlen(" n=") + strlen(n) : 0, length = strlen(whole);
    char *text = need_format("%.*s", length > hint ? (int)(length - hint) : 0, whole);
    filters->texts = need_array(filters->texts, filters->count + 1, sizeof(*filters->texts));
    filters->texts[filters->count++] = text;
    return 0;
}

static void free_filters(struct filters *filters)
{
    for (size_t i = 0; i < filters->count; i++)
        free(filters->texts[i]);
    free(filters->texts);
}

/* Whether the spec has each field of the filter with the same value. Both are canonical: one blank between fields. */
static bool matches(const char *spec, const char *filter)
{
    bool same = true;
    for (const char *at = filter; *at && same;) {
        char *name = strndup(at, strcspn(at, "="));
        char *wanted = NULL, *found = NULL;
        same = name && spectext_field(&wanted, at, name) && spectext_field(&found, spec, name) &&
               strcmp(wanted, found) == 0;
        if (same) {
            at += strlen(name) + 1 + strlen(wanted);
            at += *at == ' ';
        }
        free(name);
        free(wanted);
        free(found);
    }
    return same;
}

static int keep(void *data, const kiln_entry_info *entry)
{
    const struct filters *filters = data;
    for (size_t i = 0; i < filters->count; i++)
        if (matches(entry->spec, filters->texts[i]))
            return 1;
    return filters->count == 0;
}

static void print_transfer(const cache_args *args, const kiln_transfer *moved, const char *entries)
{
    json_t *object = json_new();
    json_put_text(object, "file", args->words.items[0]);
    json_put_count(object, entries, moved->entries);
    json_put_count(object, "bytes", moved->bytes);
    if (strcmp(entries, "added") == 0)
        json_put_count(object, "present", moved->present);
    json_put_count(object, "skipped", moved->skipped);
    json_put_count(object, "damaged", moved->damaged);
    json_print(object);
}

int cache_export(struct session *session, const void *data)
{
    const cache_args *args = data;
    struct filters filters = { NULL, 0 };
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    char bytes[FORMAT_ROOM];
    const char *file = args->words.items[0], *culprit = NULL;
    kiln_status status = KILN_OK;
    for (size_t i = 1; i < args->words.count && !status; i++) {
        culprit = args->words.items[i];
        status = kiln_spec_expand(session->service, culprit, add_filter, &filters, &session->report);
    }
    if (!status) {
        culprit = NULL;
        status = kiln_cache_export(session->service, file, keep, &filters, &moved, &session->report);
    }
    free_filters(&filters);
    if (status)
        return session_fail(session, status, culprit);
    if (args->common.json)
        print_transfer(args, &moved, "entries");
    else
        printf("%" PRIu64 " entries (%s) written to %s; %" PRIu64 " that belong to this machine left out\n",
               moved.entries, format_bytes(bytes, moved.bytes), file, moved.skipped);
    return STATUS_DONE;
}

int cache_import(struct session *session, const void *data)
{
    const cache_args *args = data;
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    char bytes[FORMAT_ROOM];
    const char *file = args->words.items[0];
    kiln_status status = kiln_cache_import(session->service, file, &moved, &session->report);
    if (status)
        return session_fail(session, status, NULL);
    if (args->common.json)
        print_transfer(args, &moved, "added");
    else
        printf("%" PRIu64 " entries (%s) added to %s, %" PRIu64 " there already, %" PRIu64 " left out\n", moved.entries,
               format_bytes(bytes, moved.bytes), cache_directory(session), moved.present, moved.skipped);
    if (moved.damaged == 0)
        return STATUS_DONE;
    return fail(STATUS_FAILED, "%s: %" PRIu64 " damaged entries were left out", file, moved.damaged);
}
