#include "store/evict.h"
#include "support/cache.h"
#include "support/suites.h"
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

enum { SHARDS = 256, TEXT_SIZE = 24, ROOM = 80, HOUR = 3600 };

/* Texts whose entries share a shard. */
static char texts[ROOM][TEXT_SIZE];

static void find_texts(unsigned shard, int count)
{
    int found = 0;
    for (int i = 0; found < count; i++) {
        snprintf(texts[found], TEXT_SIZE, "key %u", (unsigned)i);
        kiln__key key = kiln_test_key(texts[found], "");
        found += key.digest[0] == shard;
    }
}

static void open_limited(uint64_t bytes, uint64_t files)
{
    open_store();
    kiln__disk_store_limit(store, bytes, files);
}

static time_t stamp_of(const char *path)
{
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    return status.st_mtime;
}

static void set_stamp(const char *path, time_t stamp)
{
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = stamp } };
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Puts a text and makes its entry look as if it had last been used `age` seconds ago. */
static void put_aged(const char *text, time_t age)
{
    char path[PATH_SIZE];
    put(text);
    path_as(path, text, "cc-1");
    if (exists(path))
        set_stamp(path, time(NULL) - age);
}

static int count_in_shard(const char *text)
{
    char shard[PATH_SIZE];
    shard_path(shard, text);
    return kiln_test_temp_count(shard + strlen(kiln_test_temp_dir()) + 1);
}

static bool is_there(const char *text)
{
    char path[PATH_SIZE];
    path_as(path, text, "cc-1");
    return exists(path);
}

static bool is_plain(const char *name)
{
    return name[0] == 'f';
}

static int make_files(int count)
{
    char name[20];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "f%d", i);
        kiln_test_temp_write(name, payload, (size_t)(i + 1) * 100);
        set_stamp(kiln_test_temp_path(name), 1000 + 10 * i);
    }
    return open(kiln_test_temp_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

START_TEST(test_evict__oldest_go_first)
{
    kiln__evict evict = { .is_entry = is_plain };
    kiln_test_temp_write("other", "x", 1);
    set_stamp(kiln_test_temp_path("other"), 1);
    int directory = make_files(10);
    ck_assert_int_eq(kiln__evict_scan(&evict, directory), 0);
    ck_assert_uint_eq(evict.count, 10);
    ck_assert_uint_eq(evict.bytes, 10 * 4096);
    ck_assert(!kiln__evict_plan(&evict, 10 * 4096, 10));
    ck_assert(kiln__evict_plan(&evict, 10 * 4096, 7));
    ck_assert_int_eq(kiln__evict_apply(&evict, directory), 0);
    ck_assert_uint_eq(evict.removed, 3);
    ck_assert_uint_eq(evict.removed_bytes, 3 * 4096);
    for (int i = 0; i < 10; i++) {
        char name[20];
        snprintf(name, sizeof name, "f%d", i);
        ck_assert_int_eq(exists(kiln_test_temp_path(name)), i >= 3);
    }
    ck_assert(exists(kiln_test_temp_path("other")));
    kiln__evict_fini(&evict);
    close(directory);
}
END_TEST

START_TEST(test_evict__bytes_and_budget)
{
    kiln__evict evict = { .is_entry = is_plain };
    int directory = make_files(10);
    ck_assert_int_eq(kiln__evict_scan(&evict, directory), 0);
    evict.budget_ns = 1;
    ck_assert(kiln__evict_plan(&evict, 5 * 4096 + 1, 10));
    ck_assert_int_eq(kiln__evict_apply(&evict, directory), 0);
    ck_assert_uint_eq(evict.removed, 1);
    ck_assert(evict.stopped);
    kiln__evict_fini(&evict);
    evict.is_entry = is_plain;
    ck_assert_int_eq(kiln__evict_scan(&evict, directory), 0);
    ck_assert(kiln__evict_plan(&evict, 5 * 4096 + 1, 10));
    ck_assert_int_eq(kiln__evict_apply(&evict, directory), 0);
    ck_assert_uint_eq(evict.removed, 4);
    ck_assert(!evict.stopped);
    ck_assert_int_eq(kiln_test_temp_count("."), 5);
    kiln__evict_fini(&evict);
    close(directory);
}
END_TEST

START_TEST(test_evict__equal_stamps_go_only_as_far_as_needed)
{
    kiln__evict evict = { .is_entry = is_plain };
    int directory = make_files(8);
    for (int i = 0; i < 8; i++) {
        char name[20];
        snprintf(name, sizeof name, "f%d", i);
        set_stamp(kiln_test_temp_path(name), 1000);
    }
    ck_assert_int_eq(kiln__evict_scan(&evict, directory), 0);
    ck_assert(kiln__evict_plan(&evict, UINT64_MAX, 3));
    ck_assert_int_eq(kiln__evict_apply(&evict, directory), 0);
    ck_assert_int_eq(kiln_test_temp_count("."), 3);
    /* Another process that had seen the same would remove the same. */
    ck_assert_int_eq(kiln__evict_apply(&evict, directory), 0);
    ck_assert_int_eq(kiln_test_temp_count("."), 3);
    kiln__evict_fini(&evict);
    close(directory);
}
END_TEST

/* f0 was removed by somebody else and f1 used since the scan: neither makes another file go. */
static const int64_t odd_stamps[] = { INT64_MAX, INT64_MAX / 2, 9223372037,  9223372036,    4102444800, 1 << 30, 0,
                                      -1,        -9223372037,   -9223372038, INT64_MIN / 2, INT64_MIN };

enum { ODD = sizeof odd_stamps / sizeof *odd_stamps };

/* File systems keep times in forms of their own. Any time that one gives back must do no harm. */
START_TEST(test_evict__any_stamp_is_evicted)
{
    kiln__evict evict = { .is_entry = is_plain };
    char name[20];
    int directory = make_files(ODD);
    for (int i = 0; i < ODD; i++) {
        struct timespec times[2] = { { .tv_sec = odd_stamps[i] }, { .tv_sec = odd_stamps[i] } };
        snprintf(name, sizeof name, "f%d", i);
        utimensat(directory, name, times, 0);
    }
    ck_assert_int_eq(kiln__evict_scan(&evict, directory), 0);
    ck_assert_uint_eq(evict.count, ODD);
    ck_assert(kiln__evict_plan(&evict, UINT64_MAX, 0));
    ck_assert_int_eq(kiln__evict_apply(&evict, directory), 0);
    ck_assert_uint_eq(evict.removed, ODD);
    ck_assert_int_eq(kiln_test_temp_count("."), 0);
    kiln__evict_fini(&evict);
    close(directory);
}
END_TEST

/* A clock that was wrong must not keep an entry longer than those that are used: it counts as the oldest. */
START_TEST(test_evict__what_comes_from_the_future_goes_first)
{
    kiln__evict evict = { .is_entry = is_plain };
    int directory = make_files(4);
    time_t now = time(NULL);
    set_stamp(kiln_test_temp_path("f0"), now - 1000);
    set_stamp(kiln_test_temp_path("f1"), now + _i);
    set_stamp(kiln_test_temp_path("f2"), now - 10);
    set_stamp(kiln_test_temp_path("f3"), now);
    ck_assert_int_eq(kiln__evict_scan(&evict, directory), 0);
    ck_assert(kiln__evict_plan(&evict, UINT64_MAX, 3));
    ck_assert_int_eq(kiln__evict_apply(&evict, directory), 0);
    ck_assert_uint_eq(evict.removed, 1);
    ck_assert_int_eq(access(kiln_test_temp_path(_i > HOUR ? "f1" : "f0"), F_OK), -1);
    kiln__evict_fini(&evict);
    close(directory);
}
END_TEST

START_TEST(test_evict__a_put_outlives_entries_of_the_future)
{
    char path[PATH_SIZE];
    kiln_trim trim;
    open_store();
    for (int i = 0; i < 10; i++) {
        snprintf(texts[i], TEXT_SIZE, "key %d", i);
        put(texts[i]);
        path_as(path, texts[i], "cc-1");
        set_stamp(path, i == 9 ? time(NULL) : time(NULL) + (i + 1) * 100000);
    }
    ck_assert_int_eq(kiln__disk_store_trim(store, 0, 1, &trim), 0);
    ck_assert_uint_eq(trim.removed, 9);
    ck_assert(is_there(texts[9]));
}
END_TEST

START_TEST(test_evict__temporaries_of_the_future_go)
{
    char shard[PATH_SIZE], path[PATH_SIZE + 32];
    open_limited(UINT64_MAX, SHARDS);
    put("one");
    shard_path(shard, "one");
    snprintf(path, sizeof path, "%s/tmp.0000000000000001", shard);
    spill(path, "x", 1);
    struct timespec times[2] = { { .tv_sec = odd_stamps[_i] }, { .tv_sec = odd_stamps[_i] } };
    utimensat(AT_FDCWD, path, times, 0);
    put_as("one", "cc-2");
    ck_assert(!exists(path));
    kiln__blob *blob = get_as("one", "cc-2");
    ck_assert_ptr_nonnull(blob);
    kiln__blob_release(blob);
}
END_TEST

START_TEST(test_evict__a_hit_sets_any_odd_stamp)
{
    struct stat status;
    kiln_test_temp_write("f0", "x", 1);
    int directory = open(kiln_test_temp_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(fstatat(directory, "f0", &status, 0), 0);
    set_stamp(kiln_test_temp_path("f0"), 1000);
    status.st_mtim.tv_sec = odd_stamps[_i];
    kiln__evict_stamp(directory, "f0", &status);
    ck_assert(stamp_of(kiln_test_temp_path("f0")) >= time(NULL) - 100);
    close(directory);
}
END_TEST

START_TEST(test_evict__what_others_removed_counts_as_gone)
{
    kiln__evict evict = { .is_entry = is_plain };
    int directory = make_files(6);
    ck_assert_int_eq(kiln__evict_scan(&evict, directory), 0);
    ck_assert(kiln__evict_plan(&evict, UINT64_MAX, 3));
    ck_assert_int_eq(unlink(kiln_test_temp_path("f0")), 0);
    set_stamp(kiln_test_temp_path("f1"), time(NULL));
    ck_assert_int_eq(kiln__evict_apply(&evict, directory), 0);
    ck_assert_uint_eq(evict.removed, 1);
    ck_assert(exists(kiln_test_temp_path("f1")) && !exists(kiln_test_temp_path("f2")));
    ck_assert_int_eq(kiln_test_temp_count("."), 4);
    kiln__evict_fini(&evict);
    close(directory);
}
END_TEST

START_TEST(test_evict__a_hit_sets_an_old_stamp)
{
    char path[PATH_SIZE];
    time_t now = time(NULL);
    open_store();
    put("one");
    path_as(path, "one", "cc-1");
    set_stamp(path, now - HOUR + 60);
    ck_assert(has("one"));
    ck_assert_int_eq(stamp_of(path), now - HOUR + 60);
    set_stamp(path, now - HOUR - 60);
    ck_assert(has("one"));
    ck_assert_int_ge(stamp_of(path), now);
    set_stamp(path, now + 10 * HOUR);
    ck_assert(has("one"));
    ck_assert_int_lt(stamp_of(path), now + HOUR);
    set_stamp(path, now - HOUR - 60);
    ck_assert(!has("two"));
    tally seen = { 0 };
    ck_assert_int_eq(kiln__disk_store_visit(store, take_item, &seen), 0);
    ck_assert_int_eq(seen.good, 1);
    ck_assert_int_eq(stamp_of(path), now - HOUR - 60);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_evict__shard_keeps_the_most_recently_used)
{
    find_texts(0x3f, 12);
    open_limited(UINT64_MAX, 4 * SHARDS);
    for (int i = 0; i < 12; i++) {
        put_aged(texts[i], 1000 - i);
        ck_assert_int_le(count_in_shard(texts[0]), 4);
        if (i >= 5) {
            /* The second entry is used all the time; it outlives the others. */
            char path[PATH_SIZE];
            path_as(path, texts[2], "cc-1");
            set_stamp(path, time(NULL));
        }
    }
    for (int i = 0; i < 12; i++)
        ck_assert_msg(is_there(texts[i]) == (i == 2 || i >= 9), "entry %d", i);
    ck_assert_uint_eq(atomic_load(&counters.evictions), 8);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_evict__goes_on_to_ninety_percent)
{
    int most = 0, least = ROOM;
    find_texts(0x00, ROOM);
    open_limited(UINT64_MAX, 40 * SHARDS);
    for (int i = 0; i < ROOM; i++) {
        uint64_t before = atomic_load(&counters.evictions);
        put_aged(texts[i], 1000 - i);
        int count = count_in_shard(texts[0]);
        most = count > most ? count : most;
        if (atomic_load(&counters.evictions) > before) {
            least = count < least ? count : least;
        }
    }
    ck_assert_int_ge(most, 38);
    ck_assert_int_le(most, 40);
    ck_assert_int_eq(least, 36);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_evict__bytes_count_in_blocks)
{
    find_texts(0xff, 20);
    open_limited((uint64_t)SHARDS * 8 * 4096, UINT64_MAX);
    for (int i = 0; i < 20; i++) {
        put_aged(texts[i], 1000 - i);
        ck_assert_int_le(count_in_shard(texts[0]), 8);
    }
    ck_assert(is_there(texts[19]) && !is_there(texts[0]));
    ck_assert_int_ge(count_in_shard(texts[0]), 7);
}
END_TEST

START_TEST(test_evict__too_large_an_entry_is_not_kept)
{
    find_texts(0x11, 3);
    open_limited((uint64_t)SHARDS * 2 * 4096, UINT64_MAX);
    put(texts[0]);
    kiln__blob *large = kiln_test_blob(texts[1], "cc-1", payload, sizeof payload);
    ck_assert_int_eq(store->vtable->put(store, large, false), -EFBIG);
    kiln__blob_release(large);
    ck_assert(is_there(texts[0]) && !is_there(texts[1]));
    kiln__blob *small = kiln_test_blob(texts[0], "cc-1", payload, 900);
    ck_assert_int_eq(store->vtable->put(store, small, false), 1);
    kiln__blob_release(small);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_evict__only_the_written_shard_is_looked_at)
{
    find_texts(0x42, 10);
    open_store();
    for (int i = 0; i < 10; i++)
        put(texts[i]);
    int full = count_in_shard(texts[0]);
    kiln__disk_store_limit(store, UINT64_MAX, 2 * SHARDS);
    char here[TEXT_SIZE];
    memcpy(here, texts[0], sizeof here);
    find_texts(0x43, 3);
    for (int i = 0; i < 3; i++)
        put(texts[i]);
    ck_assert_int_eq(count_in_shard(here), full);
    ck_assert_int_eq(count_in_shard(texts[0]), 2);
}
END_TEST

START_TEST(test_evict__looks_are_rare)
{
    char shard[PATH_SIZE], litter[PATH_SIZE + 32];
    int looks = 0;
    find_texts(0x07, ROOM);
    open_limited(UINT64_MAX, 400 * SHARDS);
    for (int i = 0; i < ROOM; i++) {
        put(texts[i]);
        shard_path(shard, texts[0]);
        snprintf(litter, sizeof litter, "%s/tmp.0123456789abcdef", shard);
        looks += i > 0 && !exists(litter);
        spill(litter, "x", 1);
        set_stamp(litter, time(NULL) - 2 * HOUR);
    }
    ck_assert_int_ge(looks, ROOM / 20 - 1);
    ck_assert_int_le(looks, ROOM / 20 + 1);
}
END_TEST

START_TEST(test_evict__old_temporaries_go)
{
    char shard[PATH_SIZE], old[PATH_SIZE + 32], fresh[PATH_SIZE + 32], directory[PATH_SIZE + 32];
    open_limited(UINT64_MAX, SHARDS);
    put("one");
    shard_path(shard, "one");
    snprintf(old, sizeof old, "%s/tmp.0000000000000001", shard);
    snprintf(fresh, sizeof fresh, "%s/tmp.0000000000000002", shard);
    snprintf(directory, sizeof directory, "%s/tmp.0000000000000003", shard);
    spill(old, "x", 1);
    spill(fresh, "x", 1);
    ck_assert_int_eq(mkdir(directory, 0700), 0);
    set_stamp(old, time(NULL) - 2 * HOUR);
    set_stamp(directory, time(NULL) - 2 * HOUR);
    put_as("one", "cc-2");
    ck_assert(!exists(old) && exists(fresh) && exists(directory));
}
END_TEST

START_TEST(test_evict__trim_is_exact_over_all_shards)
{
    kiln_trim trim;
    char text[TEXT_SIZE];
    open_store();
    for (int i = 0; i < 60; i++) {
        snprintf(text, sizeof text, "key %d", i);
        put_aged(text, 1000 - i);
    }
    ck_assert_int_eq(kiln__disk_store_trim(store, 0, 0, &trim), 0);
    ck_assert_uint_eq(trim.removed, 0);
    ck_assert_uint_eq(trim.kept, 60);
    ck_assert_uint_eq(trim.kept_bytes, 60 * 4096);
    ck_assert_int_eq(kiln__disk_store_trim(store, 0, 45, &trim), 0);
    ck_assert_uint_eq(trim.removed, 15);
    ck_assert_uint_eq(trim.removed_bytes, 15 * 4096);
    ck_assert_uint_eq(trim.kept, 45);
    ck_assert_int_eq(kiln__disk_store_trim(store, 40 * 4096 + 5, 0, &trim), 0);
    ck_assert_uint_eq(trim.kept, 40);
    for (int i = 0; i < 60; i++) {
        snprintf(text, sizeof text, "key %d", i);
        ck_assert_msg(is_there(text) == (i >= 20), "entry %d", i);
    }
    ck_assert_uint_eq(atomic_load(&counters.evictions), 20);
    kiln__disk_store_limit(store, UINT64_MAX, 7);
    ck_assert_int_eq(kiln__disk_store_trim(store, 0, 0, &trim), 0);
    ck_assert_uint_eq(trim.kept, 7);
    expect(0, 0, 0, 0);
}
END_TEST

/* Key texts: of this version, of another, and two that have no version. */
static const char *const versions[] = { "kiln-key 3\ntarget sm_90\n", "kiln-key 2\ntarget sm_90\n", "other",
                                        "kiln-keys 2\n" };

/* Makes the entry of a text one of another format version; its checksum matters to no eviction. */
static void set_format(const char *text, uint8_t version)
{
    char path[PATH_SIZE];
    uint8_t bytes[4096];
    path_as(path, text, "cc-1");
    size_t length = slurp(path, bytes, sizeof bytes);
    bytes[8] = version;
    ck_assert_int_eq(unlink(path), 0);
    spill(path, bytes, length);
}

START_TEST(test_evict__what_another_version_left_goes_first)
{
    kiln_trim trim;
    open_store();
    for (int i = 0; i < 4; i++)
        put_aged(versions[i], i == 1 ? 10 : 1000 - i);
    put_aged("younger", 20);
    put("youngest, of a format to come");
    set_format("youngest, of a format to come", 2);
    ck_assert_int_eq(kiln__disk_store_trim(store, 0, 6, &trim), 0);
    ck_assert_uint_eq(trim.removed, 0);
    ck_assert_int_eq(kiln__disk_store_trim(store, 0, 5, &trim), 0);
    ck_assert_uint_eq(trim.removed, 1);
    ck_assert(is_there(versions[0]) && is_there(versions[2]) && is_there(versions[3]) && is_there("younger"));
    ck_assert_int_eq(kiln__disk_store_trim(store, 0, 3, &trim), 0);
    ck_assert_uint_eq(trim.removed, 2);
    ck_assert(!is_there(versions[1]) && !is_there("youngest, of a format to come"));
    ck_assert(!is_there(versions[0]) && is_there(versions[2]) && is_there(versions[3]) && is_there("younger"));
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_evict__a_shard_drops_what_another_version_left_first)
{
    find_texts(0x21, 13);
    open_limited(UINT64_MAX, 10 * SHARDS);
    for (int i = 0; i < 13; i++) {
        put_aged(texts[i], 1000 - i);
        if (i % 2 == 0 && i < 8)
            set_format(texts[i], 0);
    }
    for (int i = 0; i < 13; i++)
        ck_assert_msg(is_there(texts[i]) == (i % 2 != 0 || i >= 8), "entry %d", i);
}
END_TEST

START_TEST(test_evict__trim_of_nothing)
{
    kiln_trim trim;
    open_store();
    ck_assert_int_eq(kiln__disk_store_trim(store, 1, 1, &trim), 0);
    ck_assert_uint_eq(trim.kept + trim.removed, 0);
}
END_TEST

/* Puts and gets of few texts in one shard that holds half of them. */
static void *use_store(void *data)
{
    unsigned seed = *(unsigned *)data;
    for (int i = 0; i < 400; i++) {
        seed = seed * 1103515245 + 12345;
        const char *text = texts[(seed >> 16) % 40];
        if (!has(text))
            put(text);
    }
    return NULL;
}

static void use_from_threads(unsigned seed)
{
    pthread_t threads[3];
    unsigned seeds[3];
    for (unsigned i = 0; i < 3; i++) {
        seeds[i] = seed + i;
        kiln_test_require(pthread_create(&threads[i], NULL, use_store, &seeds[i]) == 0, "a thread");
    }
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

/* In its own process with a store of its own; its counters must stay clean. */
static int use_from_process(unsigned seed)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    store = kiln__disk_store_open(root, &log_, &counters, problem, sizeof problem);
    kiln_test_require(store != NULL, "a store");
    kiln__disk_store_limit(store, UINT64_MAX, 20 * SHARDS);
    use_from_threads(seed);
    bool clean = counters.damaged + counters.untrusted + counters.errors == 0;
    if (!clean)
        fprintf(stderr, "damaged %u untrusted %u errors %u: %s\n", (unsigned)counters.damaged,
                (unsigned)counters.untrusted, (unsigned)counters.errors, last_warning);
    store->vtable->close(store);
    _exit(clean ? 0 : 1);
}

START_TEST(test_evict__threads_and_processes_at_once)
{
    pid_t children[3];
    find_texts(0x5a, 40);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_gt(children[i] = use_from_process(100 * i), 0);
    for (unsigned i = 0; i < 3; i++) {
        int status;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %u: status %x", i, (unsigned)status);
    }
    open_limited(UINT64_MAX, 20 * SHARDS);
    int left = count_in_shard(texts[0]);
    /* Every put was followed by a look, if not its own; what a look had no time for is left to the next puts. */
    for (int i = 0; left > 20 && i < 10; i++) {
        put_as(texts[0], i % 2 ? "cc-2" : "cc-3");
        left = count_in_shard(texts[0]);
    }
    ck_assert_int_le(left, 20);
    const char *const strays[] = { "cc-2", "cc-3" };
    for (int i = 0; i < 2; i++) {
        char path[PATH_SIZE];
        path_as(path, texts[0], strays[i]);
        unlink(path);
    }
    left = count_in_shard(texts[0]);
    ck_assert_int_ge(left, 1);
    tally seen = { 0 };
    ck_assert_int_eq(kiln__disk_store_visit(store, take_item, &seen), 0);
    ck_assert_int_eq(seen.good, left);
    ck_assert_int_eq(seen.damaged + seen.untrusted, 0);
}
END_TEST

Suite *kiln_test_store_evict_suite(void)
{
    Suite *suite = suite_create("evict");
    TCase *tests = tcase_create("evict");
    kiln_test_temp_use(tests);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_evict__oldest_go_first);
    tcase_add_test(tests, test_evict__bytes_and_budget);
    tcase_add_test(tests, test_evict__equal_stamps_go_only_as_far_as_needed);
    tcase_add_test(tests, test_evict__any_stamp_is_evicted);
    tcase_add_loop_test(tests, test_evict__what_comes_from_the_future_goes_first, 100, 101);
    tcase_add_loop_test(tests, test_evict__what_comes_from_the_future_goes_first, 86400, 86401);
    tcase_add_test(tests, test_evict__a_put_outlives_entries_of_the_future);
    tcase_add_loop_test(tests, test_evict__temporaries_of_the_future_go, 0, ODD);
    tcase_add_loop_test(tests, test_evict__a_hit_sets_any_odd_stamp, 0, ODD);
    tcase_add_test(tests, test_evict__what_others_removed_counts_as_gone);
    tcase_add_test(tests, test_evict__a_hit_sets_an_old_stamp);
    tcase_add_test(tests, test_evict__shard_keeps_the_most_recently_used);
    tcase_add_test(tests, test_evict__goes_on_to_ninety_percent);
    tcase_add_test(tests, test_evict__bytes_count_in_blocks);
    tcase_add_test(tests, test_evict__too_large_an_entry_is_not_kept);
    tcase_add_test(tests, test_evict__only_the_written_shard_is_looked_at);
    tcase_add_test(tests, test_evict__looks_are_rare);
    tcase_add_test(tests, test_evict__old_temporaries_go);
    tcase_add_test(tests, test_evict__trim_is_exact_over_all_shards);
    tcase_add_test(tests, test_evict__what_another_version_left_goes_first);
    tcase_add_test(tests, test_evict__a_shard_drops_what_another_version_left_first);
    tcase_add_test(tests, test_evict__trim_of_nothing);
    tcase_add_test(tests, test_evict__threads_and_processes_at_once);
    suite_add_tcase(suite, tests);
    return suite;
}
