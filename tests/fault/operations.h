/* What the suites kill or make fail at every file call: all that is done with a directory store, with packs, with a
 * directory that is only read, with the key lock and with the record of requests. For suites that include
 * support/cache.h. */
#ifndef KILN_TESTS_FAULT_OPERATIONS_H
#define KILN_TESTS_FAULT_OPERATIONS_H

#include "fault/litter.h"
#include "jit/builder.h"
#include "service/record.h"
#include "store/pack.h"
#include "support/fields.h"
#include "support/harness.h"

#define RECORD_HEADING "# kiln record: what programs asked for, for kiln warm --manifest\n"
#define RECORD_LINE    "op=hardsigmoid dtype=f32\n"
#define RECORD_OTHER   "op=relu6 dtype=f16\n"
#define RECORD_TORN    "op=hardtanh(-1"

enum { MATES = 3, MATES_KEPT = 2, OLDEST = 1000000 /* seconds since 1970 */, LOCK_WAIT_MS = 5 };

/* An operation begins with a store that holds "old", "other", three entries in the shard of "new" that were last
 * used long ago, one after the other, the damaged entry "damaged", and a temporary from long ago. */
typedef struct operation {
    const char *name;
    void (*prepare)(void); /* what it needs besides; NULL: nothing */
    bool (*perform)(void); /* right whatever fails; false if it fell short of what it is for */
    /* What holds afterwards beyond what holds for all, if it was killed or if something failed; NULL: nothing. */
    void (*check)(bool killed);
    bool empty;       /* begins without a store */
    bool takes_all;   /* may remove each entry */
    bool takes_other; /* may remove "other" */
    bool takes_mates; /* may remove the shard's oldest entries */
    bool publishes;   /* makes files in a store: with unnamed temporaries or with named ones */
} operation;

static kiln__store *pack;
static kiln_service *host;    /* of what goes through the public API */
static char mates[MATES][16]; /* the oldest first */

static inline const char *pack_path(void)
{
    return kiln_test_temp_path("pack");
}

static inline bool has_in(kiln__store *where, const char *text)
{
    kiln__store *kept = store;
    store = where;
    bool found = has(text);
    store = kept;
    return found;
}

static inline void find_mates(void)
{
    uint8_t shard = kiln_test_key("new", "").digest[0];
    for (int found = 0, i = 0; found < MATES; i++) {
        snprintf(mates[found], sizeof mates[found], "mate %d", i);
        found += kiln_test_key(mates[found], "").digest[0] == shard;
    }
}

static inline void put_mates(void)
{
    char path[PATH_SIZE];
    for (int i = 0; i < MATES; i++) {
        struct timespec stamp[2] = { { OLDEST + i, 0 }, { OLDEST + i, 0 } };
        put(mates[i]);
        path_as(path, mates[i], "cc-1");
        ck_assert_int_eq(utimensat(AT_FDCWD, path, stamp, 0), 0);
    }
}

/* ---- The directory store */

static inline bool open_operation(void)
{
    store = kiln__disk_store_open(root, &log_, &counters, problem, sizeof problem);
    kiln_test_require(store != NULL || problem[0] != '\0', "a store or a reason");
    return store != NULL;
}

static inline bool put_operation(void)
{
    put("new");
    return has("new");
}

static inline bool put_again_operation(void)
{
    put("old");
    return has("old");
}

static inline bool get_operation(void)
{
    return has("old");
}

/* Marks it as used just now. */
static inline bool get_aged_operation(void)
{
    return has(mates[0]);
}

static inline bool get_newest_operation(void)
{
    kiln__blob *blob = get_as("old", "");
    kiln_test_require(!blob || strcmp(blob->entry.key_text, "old") == 0, "the right entry");
    bool found = blob != NULL;
    kiln__blob_release(blob);
    return found;
}

static inline bool get_damaged_operation(void)
{
    kiln_test_require(!has("damaged"), "no damaged entry");
    return true;
}

static inline bool drop_operation(void)
{
    char path[PATH_SIZE];
    kiln__key key = kiln_test_key("other", "cc-1");
    store->vtable->drop(store, &key);
    path_as(path, "other", "cc-1");
    return !exists(path);
}

static inline bool purge_operation(void)
{
    uint64_t removed;
    return kiln__disk_store_purge(store, NULL, NULL, &removed, problem, sizeof problem) == 0 && removed == 3 + MATES;
}

static inline bool purge_damaged_operation(void)
{
    uint64_t removed;
    return kiln__disk_store_purge(store, kiln_test_is_damaged, NULL, &removed, problem, sizeof problem) == 0 &&
           removed == 1;
}

static inline bool probe_operation(void)
{
    return kiln__disk_store_probe(store) == 0;
}

static inline int check_item(void *data, const kiln__store_item *item)
{
    *(int *)data += item->entry != NULL;
    kiln_test_require(item->path[0] == '/', "a whole path");
    kiln_test_require((item->entry != NULL) == (item->problem[0] == '\0'), "an entry or a problem");
    kiln_test_require((item->entry != NULL) == (item->error == 0), "an entry or an error");
    return 0;
}

static inline bool visit_operation(void)
{
    int good = 0;
    int error = kiln__disk_store_visit(store, check_item, &good);
    kiln_test_require(good <= 2 + MATES, "no entry that is none");
    return error == 0 && good == 2 + MATES;
}

static inline void check_mates(bool killed)
{
    (void)killed;
    for (int i = MATES - MATES_KEPT; i < MATES; i++)
        ck_assert_msg(has(mates[i]), "an entry went that was not among the oldest");
}

/* The put brings one entry too many into its shard. */
static inline void evict_prepare(void)
{
    kiln__disk_store_limit(store, UINT64_MAX, MATES * 256);
}

static inline bool evict_operation(void)
{
    char path[PATH_SIZE];
    put("new");
    path_as(path, mates[0], "cc-1");
    return !exists(path) && has("new");
}

static inline bool lock_operation(void)
{
    kiln__keylock lock;
    kiln__keylock_hold hold;
    kiln__key key = kiln_test_key("new", "");
    kiln__keylock_init(&lock, store, LOCK_WAIT_MS, &log_);
    bool held = kiln__keylock_take(&lock, key.digest, &hold);
    kiln_test_require(atomic_load(&lock.errors) + atomic_load(&lock.timeouts) == !held,
                      "a lock that is not had counts");
    if (held)
        kiln__keylock_give(&hold);
    return held;
}

static inline bool shared_operation(void)
{
    kiln__store *shared = kiln__disk_store_open_shared(root, &log_, &counters, problem, sizeof problem);
    kiln_test_require(shared != NULL || problem[0] != '\0', "a store or a reason");
    if (!shared)
        return false;
    bool found = has_in(shared, "old") + has_in(shared, mates[0]) == 2;
    kiln_test_require(!has_in(shared, "damaged"), "no damaged entry");
    shared->vtable->close(shared);
    return found;
}

/* ---- Packs */

static inline int give_blob(void *data, const kiln__key *key, kiln__blob **out)
{
    const char *const *texts = data;
    for (; *texts; texts++) {
        kiln__key other = kiln_test_key(*texts, "cc-1");
        if (kiln__key_equal(&other, key))
            *out = kiln_test_blob(*texts, "cc-1", payload, 900);
    }
    return 0;
}

/* A pack of "old" and "packed". */
static inline void write_pack(void)
{
    static const char *texts[] = { "old", "packed", NULL };
    kiln__pack_totals totals;
    kiln__key keys[] = { kiln_test_key(texts[0], "cc-1"), kiln_test_key(texts[1], "cc-1") };
    ck_assert_int_eq(kiln__pack_write(&totals, pack_path(), keys, 2, give_blob, texts), 0);
    ck_assert_uint_eq(totals.entries, 2);
}

static inline void open_pack(void)
{
    int error = kiln__pack_store_open(&pack, pack_path(), &log_, &counters, problem, sizeof problem);
    kiln_test_require((error == 0) == (pack != NULL) && (error == 0) == (problem[0] == '\0'), "a pack or a reason");
}

static inline void close_pack(void)
{
    if (pack)
        pack->vtable->close(pack);
    pack = NULL;
}

static inline void pack_get_prepare(void)
{
    write_pack();
    open_pack();
    ck_assert_msg(pack != NULL, "%s", problem);
}

static inline bool pack_open_operation(void)
{
    open_pack();
    return pack != NULL;
}

static inline bool pack_get_operation(void)
{
    kiln__key any = kiln_test_key("packed", "");
    kiln__blob *blob = pack->vtable->get(pack, &any, false, NULL);
    kiln_test_require(!blob || strcmp(blob->entry.key_text, "packed") == 0, "the right entry");
    kiln_test_require(!has_in(pack, "new"), "no entry that was not asked for");
    bool found = blob != NULL && has_in(pack, "old");
    kiln__blob_release(blob);
    return found;
}

/* ---- What goes through a service */

static inline void open_host(void)
{
    kiln_options options = kiln_test_options();
    options.cache_dir = root;
    options.lock_wait_ms = LOCK_WAIT_MS;
    host = kiln_test_open(&options);
}

static inline void transfer_prepare(void)
{
    write_pack();
    open_host();
}

static inline bool is_told(kiln_status status, const kiln_report *report)
{
    kiln_test_require(status == KILN_OK || (report->status == status && report->message[0] != '\0'), "a report");
    return status == KILN_OK;
}

static inline bool trim_operation(void)
{
    kiln_trim trim = KILN_INIT(kiln_trim);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status = kiln_cache_trim(host, 0, 3 + MATES_KEPT, &trim, &report);
    kiln_test_require(trim.removed <= MATES - MATES_KEPT, "no more than was asked for");
    return is_told(status, &report) && trim.removed == MATES - MATES_KEPT && trim.kept == 3 + MATES_KEPT;
}

static inline bool export_operation(void)
{
    kiln_transfer out = KILN_INIT(kiln_transfer);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status = kiln_cache_export(host, pack_path(), NULL, NULL, &out, &report);
    return is_told(status, &report) && out.entries == 2 + MATES && out.damaged == 1;
}

static inline bool import_operation(void)
{
    kiln_transfer out = KILN_INIT(kiln_transfer);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status = kiln_cache_import(host, pack_path(), &out, &report);
    return is_told(status, &report) && out.entries == 1 && out.present == 1;
}

/* The pack from before or the new one, which lacks only what could not be read; and the next export clears up. */
static inline void check_export(bool killed)
{
    open_pack();
    ck_assert_msg(pack != NULL, "%s", problem);
    size_t count = kiln__pack_store_count(pack), whole = has_in(pack, "packed") ? 2 : 2 + MATES;
    ck_assert_msg(count == whole || (count < whole && !killed && whole > 2), "a pack of %zu entries", count);
    for (size_t i = 0; i < count; i++) {
        kiln__blob *blob;
        ck_assert_int_eq(kiln__pack_store_at(pack, i, &blob), 0);
        kiln__blob_release(blob);
    }
    close_pack();
    ck_assert_int_le(count_pack_litter(true), 1);
    open_host();
    export_operation();
    kiln_close(host);
    host = NULL;
    ck_assert_int_eq(count_pack_litter(false), 0);
}

/* ---- The record */

static inline const char *record_path(void)
{
    return kiln_test_temp_path("record");
}

static inline void record_prepare(void)
{
    static const char before[] = RECORD_HEADING RECORD_OTHER RECORD_TORN;
    kiln_test_temp_write("record", before, sizeof before - 1);
}

static inline bool record_operation(void)
{
    static kiln__catalog catalog;
    kiln__fields spec;
    if (catalog.template_count == 0)
        kiln_test_require(kiln__catalog_init(&catalog, NULL) == KILN_OK, "the templates");
    kiln_test_require(kiln_test_fields(&spec, &catalog, "op=hardsigmoid dtype=f32", NULL) == KILN_OK, "a spec");
    kiln__record *record = kiln__record_open(record_path(), &log_);
    kiln_test_require(record != NULL, "a record");
    kiln__record_add(record, &spec);
    bool good = kiln__record_errors(record) == 0;
    kiln__record_close(record);
    return good;
}

/* What was there is there, and the next program that wants the line has it there as a line of its own. A line of which
 * only the end was lost is written again. */
static inline void check_record(bool killed)
{
    static const char before[] = RECORD_HEADING RECORD_OTHER RECORD_TORN "\n";
    char text[1024] = { 0 };
    ck_assert(record_operation() && record_operation());
    size_t length = slurp(record_path(), (uint8_t *)text, sizeof text - 1);
    ck_assert_msg(strncmp(text, before, sizeof before - 1) == 0, "not as it was, and ended: %s", text);
    const char *line = strstr(text, "\n" RECORD_LINE);
    ck_assert_msg(line != NULL, "not recorded: %s", text);
    ck_assert_msg(!killed || strlen(line) == sizeof RECORD_LINE, "recorded twice: %s", text);
    ck_assert_msg(text[length - 1] == '\n', "torn: %s", text);
}

/* ---- The table */

static const operation operations[] = {
    { .name = "open", .perform = open_operation, .empty = true, .publishes = true },
    { .name = "put", .perform = put_operation, .publishes = true },
    { .name = "put again", .perform = put_again_operation, .publishes = true },
    { .name = "put and evict",
      .prepare = evict_prepare,
      .perform = evict_operation,
      .check = check_mates,
      .takes_mates = true,
      .publishes = true },
    { .name = "get", .perform = get_operation },
    { .name = "get aged", .perform = get_aged_operation },
    { .name = "get newest", .perform = get_newest_operation },
    { .name = "get damaged", .perform = get_damaged_operation },
    { .name = "drop", .perform = drop_operation, .takes_other = true },
    { .name = "probe", .perform = probe_operation, .publishes = true },
    { .name = "visit", .perform = visit_operation },
    { .name = "purge", .perform = purge_operation, .takes_all = true },
    { .name = "purge damaged", .perform = purge_damaged_operation },
    { .name = "trim", .prepare = open_host, .perform = trim_operation, .check = check_mates, .takes_mates = true },
    { .name = "lock", .perform = lock_operation },
    { .name = "shared", .perform = shared_operation },
    { .name = "pack open", .prepare = write_pack, .perform = pack_open_operation },
    { .name = "pack get", .prepare = pack_get_prepare, .perform = pack_get_operation },
    { .name = "export", .prepare = transfer_prepare, .perform = export_operation, .check = check_export },
    { .name = "import", .prepare = transfer_prepare, .perform = import_operation, .publishes = true },
    { .name = "record", .prepare = record_prepare, .perform = record_operation, .check = check_record },
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static inline void close_operation(void)
{
    if (store)
        store->vtable->close(store);
    store = NULL;
    close_pack();
    kiln_close(host);
    host = NULL;
}

static inline void prepare_operation(const operation *what)
{
    char path[PATH_SIZE];
    kiln_test_temp_remove(root);
    if (mates[0][0] == '\0')
        find_mates();
    if (what->empty)
        return;
    open_store();
    put("old");
    put("other");
    put("damaged");
    path_as(path, "damaged", "cc-1");
    damage(path, FLIP);
    put_mates();
    kiln_test_temp_write("cache/v1/tmp.0123456789abcdef", "x", 1);
    count_litter(true);
    if (what->prepare)
        what->prepare();
}

/* What holds after an operation that was killed or in which something failed: entries that it should not have
 * removed are there, no lock is stuck, and each entry can be kept. Opens the store if it is not open; leaves it
 * open. */
static inline void check_operation(const operation *what, bool killed)
{
    const char *const texts[] = { "old", "other", "damaged", "new", mates[0], mates[1], mates[2] };
    close_pack();
    kiln_close(host);
    host = NULL;
    if (!store)
        open_store();
    kiln__disk_store_limit(store, UINT64_MAX, UINT64_MAX);
    if (!what->empty && !what->takes_all) {
        ck_assert_msg(has("old"), "%s lost an entry", what->name);
        ck_assert_msg(what->takes_other || has("other"), "%s lost an entry", what->name);
        ck_assert_msg(what->takes_mates || has(mates[0]), "%s lost an entry", what->name);
    }
    ck_assert(!has("damaged"));
    if (what->check)
        what->check(killed);
    ck_assert_msg(lock_operation(), "%s left the lock stuck", what->name);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (has(texts[i]))
            continue;
        put(texts[i]);
        ck_assert_msg(has(texts[i]), "after %s '%s' cannot be kept", what->name, texts[i]);
    }
}

#endif
