/* Stores behind the user's own, caps, and moving entries, through the public API. */
#include "service/service.h"
#include "store/pack.h"
#include "support/blobs.h"
#include "support/harness.h"
#include "support/suites.h"
#include "support/temp.h"
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char spec[] = "op=hardsigmoid dtype=f32 target=cpu";

static kiln_test_log log_;

static kiln_options options_of(const char *cache_dir)
{
    kiln_options options = kiln_test_options();
    options.cache_dir = cache_dir;
    options.log = kiln_test_log_line;
    options.log_data = &log_;
    memset(&log_, 0, sizeof log_);
    return options;
}

static void expect_source(const kiln_options *options, kiln_origin source)
{
    kiln_service *service = kiln_test_open(options);
    kiln_kernel *kernel = kiln_test_get(service, spec);
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
    ck_assert_msg(info.origin == source, "%s", info.origin_name);
    kiln_test_check_hardsigmoid(kernel);
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_uint_eq(stats.compiles, source == KILN_ORIGIN_COMPILED);
    ck_assert_uint_eq(stats.hits_disk, source == KILN_ORIGIN_DISK);
    ck_assert_uint_eq(stats.hits_pack, source == KILN_ORIGIN_PACK);
    ck_assert_uint_eq(stats.hits_shared, source == KILN_ORIGIN_SHARED);
    kiln_kernel_release(kernel);
    kiln_close(service);
}

typedef struct key_list {
    kiln__key keys[32];
    size_t count;
} key_list;

static int take_key(void *data, const kiln__store_item *item)
{
    key_list *list = data;
    ck_assert_ptr_nonnull(item->entry);
    ck_assert_uint_lt(list->count, 32);
    list->keys[list->count++] = item->entry->key;
    return 0;
}

static int fetch(void *data, const kiln__key *key, kiln__blob **out)
{
    kiln__store *store = data;
    *out = store->vtable->get(store, key, false, NULL);
    return 0;
}

/* A pack of everything in a cache, what is bound to this machine included. */
static void pack_all(const char *cache_dir, const char *path)
{
    key_list list = { .count = 0 };
    kiln__pack_totals totals;
    kiln_options options = options_of(cache_dir);
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel *kernel = kiln_test_get(service, spec);
    ck_assert_int_eq(kiln__disk_store_visit(service->disk, take_key, &list), 0);
    ck_assert_int_eq(kiln__pack_write(&totals, path, list.keys, list.count, fetch, service->disk), 0);
    ck_assert_uint_gt(totals.entries, 0);
    ck_assert_uint_eq(totals.missing, 0);
    kiln_kernel_release(kernel);
    kiln_close(service);
}

START_TEST(test_packs__order_of_stores)
{
    const char *first = kiln_test_temp_path("first"), *second = kiln_test_temp_path("second");
    const char *pack = kiln_test_temp_path("pack");
    kiln_options options = options_of(first);
    expect_source(&options, KILN_ORIGIN_COMPILED);
    expect_source(&options, KILN_ORIGIN_DISK);
    pack_all(first, pack);
    options = options_of(second);
    options.shared_dir = first;
    expect_source(&options, KILN_ORIGIN_SHARED);
    expect_source(&options, KILN_ORIGIN_SHARED);
    options.packs = pack;
    expect_source(&options, KILN_ORIGIN_PACK);
    options.cache_dir = "";
    expect_source(&options, KILN_ORIGIN_PACK);
    options.cache_dir = first;
    expect_source(&options, KILN_ORIGIN_DISK);
    ck_assert_int_eq(log_.warnings, 0);
    /* Nothing was copied from one disk to another. */
    ck_assert_int_ne(access(second, F_OK), 0);
}
END_TEST

START_TEST(test_packs__lists_and_packs_that_cannot_be_used)
{
    char list[2000];
    const char *pack = kiln_test_temp_path("pack"), *bad = kiln_test_temp_path("bad");
    pack_all(kiln_test_temp_path("first"), pack);
    kiln_test_temp_write("bad", "this is no pack, whatever it may look like to you", 49);
    kiln_options options = options_of("");
    snprintf(list, sizeof list, ":%s/missing::%s:%s:", kiln_test_temp_dir(), bad, pack);
    options.packs = list;
    expect_source(&options, KILN_ORIGIN_PACK);
    ck_assert_int_eq(log_.warnings, 2);
    options.packs = bad;
    expect_source(&options, KILN_ORIGIN_COMPILED);
    options.packs = "";
    expect_source(&options, KILN_ORIGIN_COMPILED);
    int warnings = log_.warnings;
    options.shared_dir = bad;
    expect_source(&options, KILN_ORIGIN_COMPILED);
    ck_assert_int_eq(log_.warnings, warnings + 1);
    /* More than there is room for. */
    size_t length = 0;
    for (int i = 0; i < 25; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s:", pack);
    options = options_of("");
    options.packs = list;
    expect_source(&options, KILN_ORIGIN_PACK);
    ck_assert_int_eq(log_.warnings, 1);
    ck_assert_ptr_nonnull(strstr(log_.last, "too many packs"));
}
END_TEST

typedef struct findings {
    kiln_finding packs[3], shared;
    char texts[4][600]; /* name, path, detail and remedy of each */
    int pack_count, shared_count;
} findings;

static int take_finding(void *data, const kiln_finding *finding)
{
    findings *self = data;
    bool pack = strcmp(finding->what, "pack") == 0;
    if (!pack && strcmp(finding->what, "shared") != 0)
        return 0;
    ck_assert_int_lt(pack ? self->pack_count : 0, 3);
    char *text = self->texts[pack ? self->pack_count : 3];
    snprintf(text, sizeof self->texts[0], "%s|%s|%s|%s", finding->name, finding->path, finding->detail,
             finding->remedy);
    *(pack ? &self->packs[self->pack_count] : &self->shared) = *finding;
    self->pack_count += pack;
    self->shared_count += !pack;
    return 0;
}

static int count_surplus(void *data, const kiln_finding *finding)
{
    *(int *)data += !finding->ok && strstr(finding->detail, "too many packs") != NULL;
    return 0;
}

static findings examine(const kiln_options *of)
{
    findings all = { .pack_count = 0 };
    kiln_options options = *of;
    options.nvrtc = options.cc = "/nonexistent/compiler";
    kiln_service *service = kiln_test_open(&options);
    kiln_stats before = kiln_test_stats(service);
    ck_assert_int_eq(kiln_doctor(service, take_finding, &all), KILN_OK);
    kiln_stats after = kiln_test_stats(service);
    ck_assert_uint_eq(after.store_damaged, before.store_damaged);
    kiln_close(service);
    return all;
}

static void expect_text(const char *text, const char *const words[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(strstr(text, words[i]) != NULL, "'%s' is not in: %s", words[i], text);
}

START_TEST(test_packs__doctor_examines_what_is_only_read)
{
    static const char *const good[] = { "good.kilnpack|", "2 entries", "0 damaged", "only read|" };
    static const char *const bad[] = { "bad|", "it is not a pack|", "KILN_PACKS" };
    static const char *const cut[] = { "cut.kilnpack|", "2 entries", "1 damaged", "kiln cache export" };
    static const char *const shared[] = { "shared store|", "2 entries", "0 damaged, 0 untrusted, only read|" };
    static const char *const missing[] = { "shared store|", "/missing|", "No such file", "KILN_SHARED_DIR" };
    static const char *const refused[] = { "2 entries", "1 damaged, 0 untrusted", "kiln cache purge --damaged" };
    char list[2000];
    const char *first = kiln_test_temp_path("first"), *pack = kiln_test_temp_path("good.kilnpack");
    const char *other = kiln_test_temp_path("cut.kilnpack");
    kiln_options options = options_of(kiln_test_temp_path("second"));
    pack_all(first, pack);
    pack_all(first, other);
    FILE *file = fopen(other, "r+b");
    ck_assert_int_eq(fseek(file, 100, SEEK_SET), 0);
    ck_assert_int_ne(fputc(0xee, file), EOF);
    ck_assert_int_eq(fclose(file), 0);
    kiln_test_temp_write("bad", "this is no pack, whatever it may look like to you", 49);
    snprintf(list, sizeof list, "%s:%s:%s", pack, kiln_test_temp_path("bad"), other);
    options.packs = list;
    options.shared_dir = first;
    findings all = examine(&options);
    ck_assert_int_eq(all.pack_count, 3);
    ck_assert_int_eq(all.shared_count, 1);
    ck_assert(all.packs[0].ok && !all.packs[1].ok && !all.packs[2].ok && all.shared.ok);
    expect_text(all.texts[0], good, 4);
    expect_text(all.texts[1], bad, 3);
    expect_text(all.texts[2], cut, 4);
    expect_text(all.texts[3], shared, 3);

    options = options_of(first);
    kiln_service *service = kiln_test_open(&options);
    ck_assert_int_eq(truncate(kiln_test_entry_path(service), 100), 0);
    kiln_close(service);
    options = options_of("");
    options.shared_dir = first;
    all = examine(&options);
    ck_assert(!all.shared.ok);
    expect_text(all.texts[3], refused, 3);
    options.shared_dir = kiln_test_temp_path("missing");
    all = examine(&options);
    ck_assert_int_eq(all.pack_count, 0);
    ck_assert(!all.shared.ok);
    expect_text(all.texts[3], missing, 4);
}
END_TEST

START_TEST(test_packs__doctor_names_the_packs_there_are_too_many_of)
{
    char list[4000];
    size_t length = 0;
    int named = 0;
    const char *pack = kiln_test_temp_path("pack");
    pack_all(kiln_test_temp_path("first"), pack);
    for (int i = 0; i < KILN__TIERS_MAX; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s:", pack);
    kiln_options options = options_of("");
    options.packs = list;
    kiln_service *service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_doctor(service, count_surplus, &named), KILN_OK);
    ck_assert_int_eq(named, 3); /* memory, the shared directory and a remote need a tier each */
    kiln_close(service);
}
END_TEST

START_TEST(test_packs__environment)
{
    const char *first = kiln_test_temp_path("first"), *pack = kiln_test_temp_path("pack");
    const char *fork_mode = getenv("CK_FORK");
    if (fork_mode && strcmp(fork_mode, "no") == 0)
        return;
    pack_all(first, pack);
    kiln_options options = options_of("");
    setenv("KILN_SHARED_DIR", first, 1);
    expect_source(&options, KILN_ORIGIN_SHARED);
    setenv("KILN_PACKS", pack, 1);
    expect_source(&options, KILN_ORIGIN_PACK);
    options.packs = "";
    options.shared_dir = "";
    expect_source(&options, KILN_ORIGIN_COMPILED);
}
END_TEST

START_TEST(test_packs__cap_from_the_environment)
{
    static const char *const bad[] = { "x", "-1", "1.5G", "G", "4GB", "0", "99999999T", "4 G" };
    const char *fork_mode = getenv("CK_FORK");
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *service;
    kiln_options options = options_of(kiln_test_temp_path("cache"));
    if (fork_mode && strcmp(fork_mode, "no") == 0)
        return;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("KILN_CACHE_BYTES", bad[i], 1);
        ck_assert_msg(kiln_open(&service, &options, &report) == KILN_EINVAL, "%s", bad[i]);
        ck_assert_ptr_nonnull(strstr(report.message, "KILN_CACHE_BYTES"));
    }
    /* One that keeps nothing, since no entry fits into its part of 16 bytes; the option wins over it. */
    setenv("KILN_CACHE_BYTES", "4k", 1);
    expect_source(&options, KILN_ORIGIN_COMPILED);
    expect_source(&options, KILN_ORIGIN_COMPILED);
    options.cache_bytes = UINT64_MAX;
    expect_source(&options, KILN_ORIGIN_COMPILED);
    expect_source(&options, KILN_ORIGIN_DISK);
    ck_assert_int_eq(log_.warnings, 0);
}
END_TEST

static void put_some(kiln_service *service, int count)
{
    char text[20], payload[3000];
    memset(payload, 7, sizeof payload);
    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof text, "key %d", i);
        kiln__blob *blob = kiln_test_blob(text, "nvrtc-1", payload, (size_t)(i + 1) * 10);
        service->disk->vtable->put(service->disk, blob, false);
        kiln__blob_release(blob);
    }
}

START_TEST(test_packs__caps_and_trim)
{
    kiln_options options = options_of(kiln_test_temp_path("cache"));
    options.cache_files = 256;
    kiln_service *service = kiln_test_open(&options);
    put_some(service, 100);
    uint64_t evicted = kiln_test_stats(service).evictions;
    ck_assert_uint_gt(evicted, 0);
    kiln_trim trim = KILN_INIT(kiln_trim);
    ck_assert_int_eq(kiln_cache_trim(service, 0, 0, &trim, NULL), KILN_OK);
    ck_assert_uint_eq(trim.removed, 0);
    ck_assert_uint_eq(trim.kept, 100 - evicted);
    ck_assert_int_eq(kiln_cache_trim(service, 10 * 4096, 0, &trim, NULL), KILN_OK);
    ck_assert_uint_eq(trim.kept, 10);
    ck_assert_uint_eq(trim.kept_bytes, 10 * 4096);
    ck_assert_uint_eq(kiln_test_stats(service).evictions, 90);
    ck_assert_int_eq(kiln_cache_trim(service, 0, 3, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_cache_trim(NULL, 0, 3, NULL, NULL), KILN_EINVAL);
    /* A program with an older header has a shorter struct. */
    kiln_trim old = { .size = offsetof(kiln_trim, kept), .kept = 99 };
    ck_assert_int_eq(kiln_cache_trim(service, 0, 1, &old, NULL), KILN_OK);
    ck_assert_uint_eq(old.removed, 2);
    ck_assert_uint_eq(old.kept, 99);
    kiln_close(service);
}
END_TEST

static int keep_small(void *data, const kiln_entry_info *entry)
{
    ck_assert_str_eq(entry->kind, "kernel");
    ck_assert_str_eq(entry->toolchain, "nvrtc-1");
    ck_assert_int_eq(entry->status, KILN_OK);
    return entry->bytes < *(const uint64_t *)data;
}

static int take_used(void *data, const kiln_entry_info *entry)
{
    int64_t *oldest = data;
    if (entry->used < *oldest)
        *oldest = entry->used;
    return 0;
}

START_TEST(test_packs__info_tells_what_a_visit_does_not)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_cache_info info = KILN_INIT(kiln_cache_info);
    int64_t now = (int64_t)time(NULL), oldest = INT64_MAX;
    const char *cache = kiln_test_temp_path("cache");
    kiln_options options = options_of(cache);
    kiln_service *service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_cache_get_info(service, &info, NULL), KILN_OK);
    ck_assert_uint_eq(info.cap_bytes, (uint64_t)4 << 30);
    ck_assert_uint_eq(info.cap_files, 262144);
    ck_assert_uint_eq(info.temporaries + info.temporary_bytes, 0);
    put_some(service, 20);
    ck_assert_int_eq(kiln_cache_visit(service, take_used, &oldest, NULL), KILN_OK);
    /* A file system has a clock of its own. */
    ck_assert(oldest >= now - 60 && oldest <= (int64_t)time(NULL) + 60);
    kiln_test_temp_write("cache/tmp.0000000000000001", "abc", 3);
    kiln_test_temp_write("cache/v1/tmp.0000000000000002", "abcd", 4);
    for (int shard = 0; shard < 256; shard++) {
        char name[48];
        snprintf(name, sizeof name, "cache/v1/%02x", shard);
        if (access(kiln_test_temp_path(name), F_OK) != 0)
            continue;
        snprintf(name, sizeof name, "cache/v1/%02x/tmp.0000000000000003", shard);
        kiln_test_temp_write(name, "abcde", 5);
        break;
    }
    ck_assert_int_eq(kiln_cache_get_info(service, &info, NULL), KILN_OK);
    ck_assert_uint_eq(info.temporaries, 3);
    ck_assert_uint_eq(info.temporary_bytes, 12);
    kiln_cache_info old = { .size = offsetof(kiln_cache_info, cap_files), .cap_files = 99 };
    ck_assert_int_eq(kiln_cache_get_info(service, &old, NULL), KILN_OK);
    ck_assert_uint_eq(old.cap_files, 99);
    ck_assert_int_eq(kiln_cache_get_info(service, NULL, NULL), KILN_EINVAL);
    kiln_close(service);
    options.cache_dir = "";
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_cache_get_info(service, &info, &report), KILN_ENOENT);
    kiln_report_clear(&report);
    kiln_close(service);
}
END_TEST

START_TEST(test_packs__export_and_import)
{
    const char *pack = kiln_test_temp_path("pack"), *part = kiln_test_temp_path("part");
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    struct stat status;
    kiln_options options = options_of(kiln_test_temp_path("first"));
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel_release(kiln_test_get(service, spec));
    put_some(service, 20);
    ck_assert_int_eq(kiln_cache_export(service, pack, NULL, NULL, &moved, NULL), KILN_OK);
    ck_assert_uint_eq(moved.entries, 20);
    ck_assert_uint_eq(moved.skipped, 2); /* the cpu's kernel and what is known of its compiler */
    ck_assert_uint_eq(moved.damaged, 0);
    ck_assert_int_eq(stat(pack, &status), 0);
    ck_assert_uint_eq(moved.bytes, (uint64_t)status.st_size);
    uint64_t below = 350;
    ck_assert_int_eq(kiln_cache_export(service, part, keep_small, &below, &moved, NULL), KILN_OK);
    ck_assert_uint_gt(moved.entries, 2);
    ck_assert_uint_lt(moved.entries, 20);
    uint64_t some = moved.entries;
    kiln_close(service);

    options = options_of(kiln_test_temp_path("second"));
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_cache_import(service, part, &moved, NULL), KILN_OK);
    ck_assert_uint_eq(moved.entries, some);
    ck_assert_uint_eq(moved.present, 0);
    ck_assert_int_eq(kiln_cache_import(service, pack, &moved, NULL), KILN_OK);
    ck_assert_uint_eq(moved.entries, 20 - some);
    ck_assert_uint_eq(moved.present, some);
    ck_assert_uint_eq(moved.skipped + moved.damaged, 0);
    ck_assert_int_eq(kiln_cache_export(service, part, NULL, NULL, NULL, NULL), KILN_OK);
    kiln_close(service);
    static uint8_t a[60000], b[60000];
    FILE *files[2] = { fopen(pack, "rb"), fopen(part, "rb") };
    size_t length = fread(a, 1, sizeof a, files[0]);
    ck_assert_uint_eq(fread(b, 1, sizeof b, files[1]), length);
    ck_assert_mem_eq(a, b, length);
    fclose(files[0]);
    fclose(files[1]);
    ck_assert_int_eq(log_.warnings, 0);
}
END_TEST

START_TEST(test_packs__import_leaves_out_what_is_damaged_or_bound_to_a_machine)
{
    const char *pack = kiln_test_temp_path("pack"), *first = kiln_test_temp_path("first");
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    kiln_options options = options_of(kiln_test_temp_path("second"));
    pack_all(first, pack);
    kiln_service *service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_cache_import(service, pack, &moved, NULL), KILN_OK);
    ck_assert_uint_eq(moved.entries, 0);
    ck_assert_uint_eq(moved.skipped, 2);
    put_some(service, 5);
    ck_assert_int_eq(kiln_cache_export(service, pack, NULL, NULL, &moved, NULL), KILN_OK);
    ck_assert_uint_eq(moved.entries, 5);
    FILE *file = fopen(pack, "r+b");
    ck_assert_int_eq(fseek(file, 100, SEEK_SET), 0);
    ck_assert_int_ne(fputc(0xee, file), EOF);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(kiln_cache_purge(service, NULL, NULL, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_cache_import(service, pack, &moved, NULL), KILN_OK);
    ck_assert_uint_eq(moved.entries, 4);
    ck_assert_uint_eq(moved.damaged, 1);
    ck_assert_uint_eq(kiln_test_stats(service).store_damaged, 1);
    kiln_close(service);
}
END_TEST

START_TEST(test_packs__what_cannot_be_moved_is_said)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    kiln_options options = options_of("");
    kiln_service *service = kiln_test_open(&options);
    const char *pack = kiln_test_temp_path("pack");
    ck_assert_int_eq(kiln_cache_export(service, pack, NULL, NULL, &moved, &report), KILN_ENOENT);
    ck_assert_int_eq(kiln_cache_import(service, pack, &moved, &report), KILN_ENOENT);
    ck_assert_int_eq(kiln_cache_trim(service, 0, 0, NULL, &report), KILN_ENOENT);
    kiln_close(service);
    options.cache_dir = kiln_test_temp_path("cache");
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_cache_export(service, kiln_test_temp_dir(), NULL, NULL, &moved, &report), KILN_EINVAL);
    ck_assert_int_eq(kiln_cache_export(service, kiln_test_temp_path("no/p"), NULL, NULL, &moved, &report), KILN_EIO);
    ck_assert_ptr_nonnull(strstr(report.message, "No such file"));
    ck_assert_int_eq(kiln_cache_import(service, pack, &moved, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "No such file"));
    ck_assert_int_eq(kiln_cache_export(service, pack, NULL, NULL, NULL, NULL), KILN_OK);
    ck_assert_int_eq(chmod(pack, 0666), 0);
    ck_assert_int_eq(kiln_cache_import(service, pack, &moved, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "writable"));
    ck_assert_int_eq(kiln_cache_export(NULL, pack, NULL, NULL, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_cache_import(service, NULL, NULL, NULL), KILN_EINVAL);
    kiln_close(service);
    kiln_report_clear(&report);
}
END_TEST

Suite *kiln_test_store_packs_suite(void)
{
    Suite *suite = suite_create("packs");
    TCase *tests = tcase_create("packs");
    kiln_test_temp_use(tests);
    tcase_add_test(tests, test_packs__order_of_stores);
    tcase_add_test(tests, test_packs__lists_and_packs_that_cannot_be_used);
    tcase_add_test(tests, test_packs__doctor_examines_what_is_only_read);
    tcase_add_test(tests, test_packs__doctor_names_the_packs_there_are_too_many_of);
    tcase_add_test(tests, test_packs__environment);
    tcase_add_test(tests, test_packs__cap_from_the_environment);
    tcase_add_test(tests, test_packs__caps_and_trim);
    tcase_add_test(tests, test_packs__info_tells_what_a_visit_does_not);
    tcase_add_test(tests, test_packs__export_and_import);
    tcase_add_test(tests, test_packs__import_leaves_out_what_is_damaged_or_bound_to_a_machine);
    tcase_add_test(tests, test_packs__what_cannot_be_moved_is_said);
    suite_add_tcase(suite, tests);
    return suite;
}
