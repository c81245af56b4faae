/* A directory store that somebody else fills. */
#include "support/cache.h"
#include "support/suites.h"
#include <grp.h>
#include <libgen.h>
#include <sys/time.h>

enum { NOBODY = 65534, STRANGER = 12345 };

/* Fills the directory as its owner does, and hands it out for reading as docs/cache-format.md says. */
static void fill(void)
{
    char path[PATH_SIZE];
    open_store();
    put("one");
    put("two");
    path_as(path, "two", "cc-1");
    store->vtable->close(store);
    store = NULL;
    ck_assert_int_eq(chmod(root, 0755), 0);
    ck_assert_int_eq(chmod(kiln_test_temp_path("cache/v1"), 0755), 0);
    for (int i = 0; i < 2; i++) {
        path_as(path, i ? "two" : "one", "cc-1");
        ck_assert_int_eq(chmod(path, 0644), 0);
        ck_assert_int_eq(chmod(dirname(path), 0755), 0);
    }
    memset(&counters, 0, sizeof counters);
}

static void open_shared(void)
{
    store = kiln__disk_store_open_shared(root, &log_, &counters, problem, sizeof problem);
    ck_assert_msg(store != NULL, "%s", problem);
}

/* False where the process must not change, for other tests run in it. */
static bool become(uid_t user)
{
    const char *fork_mode = getenv("CK_FORK");
    char parent[PATH_SIZE];
    if (geteuid() != 0 || (fork_mode && strcmp(fork_mode, "no") == 0))
        return false;
    snprintf(parent, sizeof parent, "%s", kiln_test_temp_dir());
    return chmod(kiln_test_temp_dir(), 0755) == 0 && chmod(dirname(parent), 0755) == 0 && setgroups(0, NULL) == 0 &&
           setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0;
}

START_TEST(test_shared__roots_entries_are_read)
{
    fill();
    become(NOBODY);
    open_shared();
    ck_assert_str_eq(store->vtable->name, "shared");
    ck_assert(has("one") && has("two") && !has("three"));
    kiln__blob *blob = get_as("one", "");
    ck_assert_ptr_nonnull(blob);
    kiln__blob_release(blob);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_shared__nothing_is_ever_written)
{
    char path[PATH_SIZE];
    struct stat before, after;
    struct timeval old[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };
    fill();
    ck_assert_int_eq(unlink(kiln_test_temp_path("cache/CACHEDIR.TAG")), 0);
    path_as(path, "one", "cc-1");
    ck_assert_int_eq(utimes(path, old), 0);
    ck_assert_int_eq(stat(path, &before), 0);
    open_shared();
    kiln__key key = kiln_test_key("one", "cc-1");
    ck_assert(has("one"));
    put("three");
    store->vtable->drop(store, &key);
    ck_assert(has("one") && !has("three"));
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert(before.st_ctim.tv_sec == after.st_ctim.tv_sec && before.st_ctim.tv_nsec == after.st_ctim.tv_nsec);
    ck_assert_int_eq(kiln_test_temp_count("cache"), 1);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_shared__damaged_entry_is_left_where_it_is)
{
    char path[PATH_SIZE];
    fill();
    path_as(path, "one", "cc-1");
    open_shared();
    uint8_t bytes[3000];
    size_t length = slurp(path, bytes, sizeof bytes);
    bytes[length / 2] ^= 4;
    spill(path, bytes, length);
    ck_assert(!has("one"));
    ck_assert(!has("one"));
    ck_assert(exists(path));
    expect(2, 0, 0, 1);
    ck_assert_ptr_nonnull(strstr(last_warning, "checksum"));
}
END_TEST

START_TEST(test_shared__missing_directory_is_not_made)
{
    ck_assert_ptr_null(kiln__disk_store_open_shared(root, &log_, &counters, problem, sizeof problem));
    ck_assert_ptr_nonnull(strstr(problem, "No such file"));
    ck_assert(!exists(root));
    expect(0, 0, 1, 1);
}
END_TEST

/* What another user could have written: the directory, a part of it, or an entry. */
START_TEST(test_shared__strangers_and_writable_places_are_refused)
{
    char path[PATH_SIZE];
    const char *const places[] = { root, kiln_test_temp_path("cache/v1"), NULL, path };
    static char shard[PATH_SIZE];
    fill();
    path_as(path, "one", "cc-1");
    shard_path(shard, "one");
    const char *place = _i / 2 == 2 ? shard : places[_i / 2];
    if (_i % 2 == 0)
        ck_assert_int_eq(chmod(place, 0775), 0);
    else if (geteuid() != 0)
        return;
    else
        ck_assert_int_eq(chown(place, STRANGER, 0), 0);
    store = kiln__disk_store_open_shared(root, &log_, &counters, problem, sizeof problem);
    ck_assert_int_eq(store == NULL, _i / 2 == 0);
    ck_assert(!store || !has("one"));
    expect(0, 1, 0, 1);
    ck_assert_ptr_nonnull(strstr(last_warning, _i % 2 == 0 ? "writable" : "owned by user 12345, expected 0 or root"));
    ck_assert(exists(path));
}
END_TEST

START_TEST(test_shared__impostor_is_refused)
{
    char path[PATH_SIZE];
    fill();
    path_as(path, "one", "cc-1");
    impose(path, _i);
    open_shared();
    ck_assert_int_eq(has("one"), _i == HARD_LINK);
    expect(0, _i != HARD_LINK, 0, _i != HARD_LINK);
    ck_assert(has("two"));
}
END_TEST

Suite *kiln_test_store_shared_suite(void)
{
    Suite *suite = suite_create("shared");
    TCase *tests = tcase_create("shared");
    kiln_test_temp_use(tests);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_shared__roots_entries_are_read);
    tcase_add_test(tests, test_shared__nothing_is_ever_written);
    tcase_add_test(tests, test_shared__damaged_entry_is_left_where_it_is);
    tcase_add_test(tests, test_shared__missing_directory_is_not_made);
    tcase_add_loop_test(tests, test_shared__strangers_and_writable_places_are_refused, 0, 8);
    tcase_add_loop_test(tests, test_shared__impostor_is_refused, 0, IMPOSTORS);
    suite_add_tcase(suite, tests);
    return suite;
}
