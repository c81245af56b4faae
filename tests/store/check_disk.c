#include "support/cache.h"
#include "support/suites.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static char complaint[1024];

/* Purges; the outcome must be `error`, with a complaint if it is one. Returns how many entries went. */
static uint64_t purge(bool refused_only, int error)
{
    uint64_t removed = UINT64_MAX;
    ck_assert_int_eq(kiln__disk_store_purge(store, refused_only ? kiln_test_is_damaged : NULL, NULL, &removed,
                                            complaint, sizeof complaint),
                     error);
    ck_assert_int_eq(complaint[0] != '\0', error != 0);
    return removed;
}

static mode_t mode_of(const char *path)
{
    struct stat status;
    ck_assert_int_eq(lstat(path, &status), 0);
    return status.st_mode & 07777;
}

START_TEST(test_disk__round_trip)
{
    char path[PATH_SIZE], shard[PATH_SIZE];
    uint8_t tag[200] = { 0 };
    open_store();
    ck_assert_str_eq(store->vtable->name, "disk");
    ck_assert_str_eq(kiln__disk_store_root(store), root);
    ck_assert(!has("one"));
    put("one");
    ck_assert(has("one"));
    ck_assert(!has("two"));
    path_as(path, "one", "cc-1");
    shard_path(shard, "one");
    ck_assert_uint_eq(mode_of(path), 0600);
    ck_assert_uint_eq(mode_of(shard), 0700);
    ck_assert_uint_eq(mode_of(kiln_test_temp_path("cache/v1")), 0700);
    ck_assert_uint_eq(mode_of(root), 0700);
    ck_assert_int_eq(kiln_test_temp_count("cache"), 2);
    ck_assert_int_eq(kiln_test_temp_count("cache/v1"), 1);
    slurp(kiln_test_temp_path("cache/CACHEDIR.TAG"), tag, sizeof tag - 1);
    ck_assert_int_eq(strncmp((char *)tag, "Signature: 8a477f597d28d172789f06886806bc55\n", 44), 0);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__entry_outlives_the_store)
{
    open_store();
    put("one");
    store->vtable->close(store);
    open_store();
    ck_assert(has("one"));
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__entries_of_two_stores_are_equal_bytes)
{
    char first[PATH_SIZE], second[PATH_SIZE];
    uint8_t a[2000], b[2000];
    open_store();
    put("one");
    path_as(first, "one", "cc-1");
    store->vtable->close(store);
    snprintf(root, sizeof root, "%s/elsewhere/deep", kiln_test_temp_dir());
    open_store();
    put("one");
    path_as(second, "one", "cc-1");
    size_t length = slurp(first, a, sizeof a);
    ck_assert_uint_gt(length, 900);
    ck_assert_uint_eq(slurp(second, b, sizeof b), length);
    ck_assert_mem_eq(a, b, length);
}
END_TEST

START_TEST(test_disk__second_put_leaves_the_first)
{
    char path[PATH_SIZE], shard[PATH_SIZE];
    struct stat before, after;
    open_store();
    put("one");
    path_as(path, "one", "cc-1");
    shard_path(shard, "one");
    ck_assert_int_eq(stat(path, &before), 0);
    put("one");
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert_uint_eq(before.st_ino, after.st_ino);
    ck_assert_int_eq(kiln_test_temp_count(shard + strlen(kiln_test_temp_dir()) + 1), 1);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__any_toolchain_takes_the_newest_good_one)
{
    char path[PATH_SIZE];
    open_store();
    kiln__blob *blob = get_as("one", "");
    ck_assert_ptr_null(blob);
    put_as("one", "cc-9");
    put_as("one", "cc-10");
    put_as("one", "cc-8");
    blob = get_as("one", "");
    ck_assert_str_eq(blob->entry.key.toolchain, "cc-10");
    kiln__blob_release(blob);
    blob = get_as("one", "cc-8");
    ck_assert_str_eq(blob->entry.key.toolchain, "cc-8");
    kiln__blob_release(blob);
    path_as(path, "one", "cc-10");
    damage(path, FLIP);
    path_as(path, "one", "cc-9");
    ck_assert_int_eq(chmod(path, 0666), 0);
    blob = get_as("one", "");
    ck_assert_str_eq(blob->entry.key.toolchain, "cc-8");
    kiln__blob_release(blob);
    expect(1, 1, 0, 2);
}
END_TEST

START_TEST(test_disk__older_toolchains_follow_in_order_past_bad_ones)
{
    static const char *const expected[] = { "cc-10", "cc-8" };
    char path[PATH_SIZE];
    kiln__key key = kiln_test_key("one", "");
    kiln__miss why = KILN__MISS_NONE;
    open_store();
    ck_assert_ptr_null(store->vtable->get(store, &key, true, &why));
    put_as("one", "cc-9");
    put_as("one", "cc-10");
    put_as("one", "cc-8");
    ck_assert_int_eq(why, KILN__MISS_NONE);
    path_as(path, "one", "cc-9");
    damage(path, FLIP);
    for (int i = 0; i < 2; i++) {
        kiln__blob *blob = store->vtable->get(store, &key, true, &why);
        ck_assert_str_eq(blob->entry.key.toolchain, expected[i]);
        key = blob->entry.key;
        kiln__blob_release(blob);
    }
    ck_assert_ptr_null(store->vtable->get(store, &key, true, NULL));
    ck_assert_int_eq(why, KILN__MISS_DAMAGED);
    expect(1, 0, 0, 1);
}
END_TEST

/* What is wrong with an entry is told, and of several things the last in the list. */
START_TEST(test_disk__a_miss_has_a_reason)
{
    static const int impostors[] = { LINK, FIFO, WORLD_MODE };
    char path[PATH_SIZE], aside[PATH_SIZE];
    kiln__key key = kiln_test_key("one", "cc-1");
    kiln__miss why = KILN__MISS_NONE;
    open_store();
    ck_assert_ptr_null(store->vtable->get(store, &key, false, &why));
    ck_assert_int_eq(why, KILN__MISS_NONE);
    path_as(path, "one", "cc-1");
    snprintf(aside, sizeof aside, "%s/aside", kiln_test_temp_dir());
    for (size_t i = 0; i < sizeof impostors / sizeof impostors[0]; i++) {
        put("one");
        impose(path, impostors[i]);
        why = KILN__MISS_ERROR;
        ck_assert_ptr_null(store->vtable->get(store, &key, false, &why));
        ck_assert_int_eq(why, KILN__MISS_UNTRUSTED);
        unlink(path);
        unlink(aside);
    }
    put("one");
    damage(path, CUT);
    ck_assert_ptr_null(store->vtable->get(store, &key, false, &why));
    ck_assert_int_eq(why, KILN__MISS_DAMAGED);
    put("one");
    impose(path, WORLD_MODE);
    ck_assert_ptr_null(store->vtable->get(store, &key, false, &why));
    ck_assert_int_eq(why, KILN__MISS_DAMAGED);
}
END_TEST

START_TEST(test_disk__any_toolchain_takes_no_neighbour)
{
    char text[20] = "one", path[PATH_SIZE];
    kiln__key one = kiln_test_key("one", ""), key = one;
    open_store();
    for (int i = 0; i == 0 || key.digest[0] != one.digest[0]; i++) {
        snprintf(text, sizeof text, "key %d", i);
        key = kiln_test_key(text, "");
    }
    put(text);
    /* Names that only look like entries. */
    shard_path(path, "one");
    strcat(path, "/x.kiln");
    spill(path, "x", 1);
    path_as(path, "one", "");
    spill(path, "x", 1);
    path_as(path, "one", "1234567890123456789012345678901234567890123456789012345678901234");
    spill(path, "x", 1);
    ck_assert_ptr_null(get_as("one", ""));
    expect(0, 0, 0, 0);
    kiln__blob *blob = get_as(text, "");
    ck_assert_str_eq(blob->entry.key_text, text);
    kiln__blob_release(blob);
}
END_TEST

START_TEST(test_disk__drop_removes_exactly_one)
{
    char path[PATH_SIZE];
    kiln__key key = kiln_test_key("one", "cc-1");
    open_store();
    store->vtable->drop(store, &key);
    put("one");
    put_as("one", "cc-2");
    store->vtable->drop(store, &key);
    store->vtable->drop(store, &key);
    ck_assert(!has("one"));
    path_as(path, "one", "cc-2");
    ck_assert(exists(path));
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__relative_root_survives_chdir)
{
    char here[PATH_SIZE], expected[PATH_SIZE];
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    ck_assert_int_eq(chdir(kiln_test_temp_dir()), 0);
    snprintf(expected, sizeof expected, "%s/cache", kiln_test_temp_dir());
    snprintf(root, sizeof root, "cache///");
    open_store();
    ck_assert_str_eq(kiln__disk_store_root(store), expected);
    ck_assert_int_eq(chdir("/"), 0);
    put("one");
    kiln_test_temp_remove(expected);
    put("one");
    ck_assert(has("one"));
    ck_assert(exists(expected));
    ck_assert_int_eq(chdir(here), 0);
    expect(0, 0, 0, 0);
}
END_TEST

/* Three good entries, a damaged one, a misnamed one, a link, one writable by others, an old and a new temporary and
 * a note of somebody's. */
static void make_mixed_store(void)
{
    struct timespec old[2] = { { .tv_sec = time(NULL) - 7200 }, { .tv_sec = time(NULL) - 7200 } };
    char path[PATH_SIZE];
    open_store();
    put("one");
    put("two");
    put("three");
    put("damaged");
    put("linked");
    put("shared");
    path_as(path, "damaged", "cc-1");
    damage(path, FLIP);
    path_as(path, "linked", "cc-1");
    impose(path, LINK);
    path_as(path, "shared", "cc-1");
    impose(path, GROUP_MODE);
    shard_path(path, "one");
    ck_assert_int_eq(chdir(path), 0);
    spill("misnamed.kiln", "x", 1);
    spill("NOTE", "x", 1);
    spill("tmp.0123456789abcdef", "x", 1);
    spill("tmp.fedcba9876543210", "x", 1);
    ck_assert_int_eq(utimensat(AT_FDCWD, "tmp.fedcba9876543210", old, 0), 0);
    ck_assert_int_eq(chdir("/"), 0);
}

START_TEST(test_disk__visit_sees_every_entry_and_changes_nothing)
{
    tally seen = { 0 };
    char path[PATH_SIZE];
    make_mixed_store();
    ck_assert_int_eq(kiln__disk_store_visit(store, take_item, &seen), 0);
    ck_assert_int_eq(seen.good, 3);
    ck_assert_int_eq(seen.untrusted, 2);
    ck_assert_int_eq(seen.damaged, 1);
    expect(0, 0, 0, 0);
    path_as(path, "damaged", "cc-1");
    ck_assert(exists(path));
    memset(&seen, 0, sizeof seen);
    seen.stop_after = 2;
    ck_assert_int_eq(kiln__disk_store_visit(store, take_item, &seen), 0);
    ck_assert_int_eq(seen.calls, 2);
}
END_TEST

START_TEST(test_disk__visit_reports_what_cannot_be_used)
{
    tally seen = { 0 };
    char path[PATH_SIZE];
    open_store();
    put("one");
    shard_path(path, "one");
    ck_assert_int_eq(chmod(path, 0777), 0);
    ck_assert_int_eq(kiln__disk_store_visit(store, take_item, &seen), 0);
    ck_assert_int_eq(seen.calls, 1);
    ck_assert_int_eq(seen.untrusted, 1);
    ck_assert_str_eq(seen.last_path, path);
    ck_assert_ptr_nonnull(strstr(seen.last_problem, "writable"));
    ck_assert_uint_eq(purge(false, -EPERM), 0);
    ck_assert_ptr_eq(strstr(complaint, path), complaint);
    ck_assert_ptr_nonnull(strstr(complaint, "writable"));
    ck_assert_int_eq(chmod(root, 0777), 0);
    ck_assert_uint_eq(purge(false, -EPERM), 0);
    ck_assert_int_eq(kiln__disk_store_visit(store, take_item, &seen), -EPERM);
    ck_assert_int_eq(kiln__disk_store_probe(store), -EPERM);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__purge_takes_the_refused_only)
{
    char path[PATH_SIZE];
    make_mixed_store();
    ck_assert_uint_eq(purge(true, 0), 3);
    ck_assert_uint_eq(purge(true, 0), 0);
    ck_assert(has("one") && has("two") && has("three"));
    path_as(path, "linked", "cc-1");
    ck_assert(!exists(path));
    ck_assert(exists(kiln_test_temp_path("aside")));
    path_as(path, "shared", "cc-1");
    ck_assert(!exists(path));
    shard_path(path, "one");
    ck_assert_int_eq(chdir(path), 0);
    ck_assert(!exists("tmp.fedcba9876543210"));
    ck_assert(exists("misnamed.kiln") && exists("NOTE") && exists("tmp.0123456789abcdef"));
    ck_assert_int_eq(chdir("/"), 0);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__purge_takes_all_entries)
{
    char aside[PATH_SIZE], path[PATH_SIZE];
    make_mixed_store();
    ck_assert_uint_eq(purge(false, 0), 6);
    ck_assert(!has("one") && !has("two") && !has("three"));
    snprintf(aside, sizeof aside, "%s/aside", kiln_test_temp_dir());
    ck_assert(exists(aside));
    shard_path(path, "one");
    strcat(path, "/NOTE");
    ck_assert(exists(path));
    put("one");
    ck_assert(has("one"));
    expect(0, 0, 0, 0);
}
END_TEST

/* Names that look like Kiln's and are not: a cache may be where its user keeps other things. */
static const char *const foreign[] = {
    "notes.kiln",
    ".kiln",
    "tmp.old",
    "tmp.probe",
    "tmp.AbCdEfGhIj",
    "tmp.0123456789abcde",
    "tmp.0123456789abcdef0",
    "tmp.0123456789ABCDEF",
    "tmp.kilnpack.0123456789abcdef",
    "0123456789abcdef",
    "00000000000000000000000000000000000000000000000000000000000000..kiln",
    "000000000000000000000000000000000000000000000000000000000000000.cc-1.kiln",
    "0000000000000000000000000000000000000000000000000000000000000.cc-1.kiln",
    "0000000000000000000000000000000000000000000000000000000000000A.cc-1.kiln",
    "00000000000000000000000000000000000000000000000000000000000000.cc-1.kiln.bak",
    "00000000000000000000000000000000000000000000000000000000000000-cc-1.kiln",
};

static void make_foreign(const char *place)
{
    static const struct timespec old[2] = { { 1000000, 0 }, { 1000000, 0 } };
    ck_assert_int_eq(chdir(place), 0);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        spill(foreign[i], "theirs", 6);
        ck_assert_int_eq(utimensat(AT_FDCWD, foreign[i], old, 0), 0);
    }
    ck_assert_int_eq(chdir("/"), 0);
}

static void expect_foreign(const char *place, const char *after)
{
    ck_assert_int_eq(chdir(place), 0);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        ck_assert_msg(exists(foreign[i]), "%s/%s went with %s", place, foreign[i], after);
    ck_assert_int_eq(chdir("/"), 0);
}

START_TEST(test_disk__nothing_goes_but_what_kiln_made)
{
    static const char *const steps[] = { "eviction", "a trim", "a purge of the refused", "a purge" };
    char shard[PATH_SIZE], version[PATH_SIZE];
    tally seen = { 0 };
    kiln_cache_info info;
    kiln_trim trim;
    open_store();
    put("one");
    put("two");
    shard_path(shard, "one");
    snprintf(version, sizeof version, "%.400s/v1", root);
    const char *const places[] = { root, version, shard };
    for (int i = 0; i < 3; i++)
        make_foreign(places[i]);
    ck_assert_int_eq(kiln__disk_store_info(store, &info), 0);
    ck_assert_uint_eq(info.temporaries + info.temporary_bytes, 0);
    ck_assert_int_eq(kiln__disk_store_visit(store, take_item, &seen), 0);
    ck_assert_int_eq(seen.calls, 2);
    for (int step = 0; step < 4; step++) {
        if (step == 0) {
            kiln__disk_store_limit(store, 1, 1);
            put_as("one", "cc-3");
        } else if (step == 1) {
            ck_assert_int_eq(kiln__disk_store_trim(store, UINT64_MAX, 1, &trim), 0);
            ck_assert_uint_eq(trim.kept, 1);
        } else {
            ck_assert_uint_eq(purge(step == 2, 0), step == 2 ? 0 : 1);
        }
        for (int i = 0; i < 3; i++)
            expect_foreign(places[i], steps[step]);
    }
}
END_TEST

START_TEST(test_disk__a_temporary_of_another_user_stays)
{
    static const struct timespec old[2] = { { 1000000, 0 }, { 1000000, 0 } };
    const char *path = kiln_test_temp_path("cache/v1/tmp.0123456789abcdef");
    open_store();
    put("one");
    spill(path, "x", 1);
    ck_assert_int_eq(utimensat(AT_FDCWD, path, old, 0), 0);
    bool changed = chown(path, 12345, (gid_t)-1) == 0; /* needs root */
    ck_assert_uint_eq(purge(false, 0), 1);
    ck_assert_int_eq(exists(path), changed);
    if (!changed)
        return;
    ck_assert_int_eq(chown(path, geteuid(), (gid_t)-1), 0);
    ck_assert_uint_eq(purge(false, 0), 0);
    ck_assert(!exists(path));
}
END_TEST

START_TEST(test_disk__probe_leaves_nothing)
{
    open_store();
    ck_assert_int_eq(kiln__disk_store_probe(store), 1);
    ck_assert(!exists(kiln_test_temp_path("cache")));
    put("one");
    int names = kiln_test_temp_count("cache/v1");
    ck_assert_int_eq(kiln__disk_store_probe(store), 0);
    ck_assert_int_eq(kiln_test_temp_count("cache/v1"), names);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__nothing_is_made_before_a_put)
{
    kiln_cache_info info;
    open_store();
    kiln__store *reader = store;
    ck_assert(!has("one"));
    ck_assert_int_eq(kiln__disk_store_info(store, &info), 0);
    open_store();
    ck_assert(!exists(root));
    put("one");
    ck_assert(exists(kiln_test_temp_path("cache/CACHEDIR.TAG")));
    store->vtable->close(store);
    store = reader;
    ck_assert(has("one"));
    expect(0, 0, 0, 0);
}
END_TEST

static void *hammer(void *data)
{
    uint64_t hits = 0;
    unsigned seed = (unsigned)(uintptr_t)data;
    char text[20];
    for (int i = 0; i < 400; i++) {
        seed = seed * 1664525u + 1013904223u;
        snprintf(text, sizeof text, "key %u", (seed >> 20) % 12);
        if (has(text))
            hits++;
        else
            put(text);
        if (i % 20 == 0) {
            kiln__key key = kiln_test_key(text, "cc-1");
            store->vtable->drop(store, &key);
        } else if (i % 21 == 0) {
            kiln__blob_release(get_as(text, ""));
        }
    }
    return (void *)(uintptr_t)hits;
}

START_TEST(test_disk__eight_threads_on_the_same_keys)
{
    pthread_t threads[8];
    uintptr_t hits = 0;
    open_store();
    for (uintptr_t i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        hits += (uintptr_t)result;
    }
    ck_assert_uint_gt(hits, 1000);
    expect(0, 0, 0, 0);
}
END_TEST

static atomic_bool replaced_enough;

static void *replace_often(void *data)
{
    for (int i = 0; i < 300; i++) {
        kiln__blob *blob = kiln_test_blob("one", "cc-1", payload, (size_t)(i % 800));
        store->vtable->put(store, blob, true);
        kiln__blob_release(blob);
    }
    atomic_store(&replaced_enough, true);
    return data;
}

/* Who reads while an entry is replaced finds the one or the other, and afterwards the last. */
START_TEST(test_disk__replaced_entry_is_never_missing)
{
    pthread_t thread;
    uint64_t reads = 0;
    open_store();
    put("one");
    ck_assert_int_eq(pthread_create(&thread, NULL, replace_often, NULL), 0);
    while (!atomic_load(&replaced_enough)) {
        kiln__blob *blob = get_as("one", "cc-1");
        ck_assert_msg(blob != NULL, "read %llu found nothing", (unsigned long long)reads);
        kiln__blob_release(blob);
        reads++;
    }
    pthread_join(thread, NULL);
    kiln__blob *blob = get_as("one", "cc-1");
    ck_assert_uint_eq(kiln__entry_find(&blob->entry, "cubin")->length, 299);
    kiln__blob_release(blob);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__processes_on_the_same_keys)
{
    enum { PROCESSES = 4 };
    pid_t children[PROCESSES];
    tally seen = { 0 };
    open_store();
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0) {
            uintptr_t hits = (uintptr_t)hammer((void *)(uintptr_t)(i + 100));
            bool clean =
                atomic_load(&counters.damaged) + atomic_load(&counters.untrusted) + atomic_load(&counters.errors) == 0;
            _exit(hits > 100 && clean ? 0 : 1);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_int_eq(kiln__disk_store_visit(store, take_item, &seen), 0);
    ck_assert_int_gt(seen.good, 0);
    ck_assert_int_eq(seen.calls, seen.good);
    expect(0, 0, 0, 0);
}
END_TEST

/* A child that is killed in the middle of its puts leaves only whole entries. */
START_TEST(test_disk__killed_writers_leave_whole_entries)
{
    tally seen = { 0 };
    open_store();
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
            for (char text[20];; round++) {
                snprintf(text, sizeof text, "key %d", round % 300);
                put(text);
                kiln__key key = kiln_test_key(text, "cc-1");
                if (round % 3 == 0)
                    store->vtable->drop(store, &key);
            }
        usleep((useconds_t)(2000 + round * 700));
        ck_assert_int_eq(kill(child, SIGKILL), 0);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
    }
    ck_assert_int_eq(kiln__disk_store_visit(store, take_item, &seen), 0);
    ck_assert_int_gt(seen.good, 0);
    ck_assert_int_eq(seen.calls, seen.good);
    expect(0, 0, 0, 0);
}
END_TEST

Suite *kiln_test_store_disk_suite(void)
{
    Suite *suite = suite_create("disk");
    TCase *tests = tcase_create("disk");
    tcase_set_timeout(tests, 60);
    kiln_test_temp_use(tests);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_disk__round_trip);
    tcase_add_test(tests, test_disk__entry_outlives_the_store);
    tcase_add_test(tests, test_disk__entries_of_two_stores_are_equal_bytes);
    tcase_add_test(tests, test_disk__second_put_leaves_the_first);
    tcase_add_test(tests, test_disk__any_toolchain_takes_the_newest_good_one);
    tcase_add_test(tests, test_disk__older_toolchains_follow_in_order_past_bad_ones);
    tcase_add_test(tests, test_disk__a_miss_has_a_reason);
    tcase_add_test(tests, test_disk__any_toolchain_takes_no_neighbour);
    tcase_add_test(tests, test_disk__drop_removes_exactly_one);
    tcase_add_test(tests, test_disk__relative_root_survives_chdir);
    tcase_add_test(tests, test_disk__visit_sees_every_entry_and_changes_nothing);
    tcase_add_test(tests, test_disk__visit_reports_what_cannot_be_used);
    tcase_add_test(tests, test_disk__purge_takes_the_refused_only);
    tcase_add_test(tests, test_disk__purge_takes_all_entries);
    tcase_add_test(tests, test_disk__nothing_goes_but_what_kiln_made);
    tcase_add_test(tests, test_disk__a_temporary_of_another_user_stays);
    tcase_add_test(tests, test_disk__probe_leaves_nothing);
    tcase_add_test(tests, test_disk__nothing_is_made_before_a_put);
    tcase_add_test(tests, test_disk__eight_threads_on_the_same_keys);
    tcase_add_test(tests, test_disk__replaced_entry_is_never_missing);
    tcase_add_test(tests, test_disk__processes_on_the_same_keys);
    tcase_add_test(tests, test_disk__killed_writers_leave_whole_entries);
    suite_add_tcase(suite, tests);
    return suite;
}
