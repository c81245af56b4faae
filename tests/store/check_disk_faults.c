#include "base/alloc.h"
#include "support/cache.h"
#include "support/rights.h"
#include "support/suites.h"
#include <errno.h>
#include <grp.h>
#include <libgen.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { NOBODY = 65534 };

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

/* Becomes a user to whom file modes mean something. False where the process must not change, for other tests run in
 * it. */
static bool become_user(void)
{
    const char *fork_mode = getenv("CK_FORK");
    char parent[PATH_SIZE];
    if (geteuid() != 0)
        return true;
    if (fork_mode && strcmp(fork_mode, "no") == 0)
        return false;
    snprintf(parent, sizeof parent, "%s", kiln_test_temp_dir());
    return chown(kiln_test_temp_dir(), NOBODY, NOBODY) == 0 && chmod(dirname(parent), 0755) == 0 &&
           setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0;
}

START_TEST(test_disk__damaged_entry_is_a_miss_and_heals)
{
    char path[PATH_SIZE];
    open_store();
    put("one");
    ck_assert(has("one"));
    path_as(path, "one", "cc-1");
    damage(path, _i);
    ck_assert(!has("one"));
    expect(1, 0, 0, 1);
    ck_assert(!exists(path));
    ck_assert(!has("one"));
    expect(1, 0, 0, 1);
    put("one");
    ck_assert(has("one"));
    expect(1, 0, 0, 1);
}
END_TEST

START_TEST(test_disk__many_damages_one_warning)
{
    char path[PATH_SIZE], text[20];
    open_store();
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "key %d", i);
        put(text);
        path_as(path, text, "cc-1");
        damage(path, FLIP);
        ck_assert(!has(text));
    }
    expect(5, 0, 0, 1);
    ck_assert_ptr_nonnull(strstr(last_warning, root));
    ck_assert_ptr_nonnull(strstr(last_warning, "checksum"));
    /* Another cause gets its own line. */
    put("one");
    path_as(path, "one", "cc-1");
    ck_assert_int_eq(chmod(path, 0620), 0);
    ck_assert(!has("one"));
    ck_assert(!has("one"));
    expect(5, 2, 0, 2);
}
END_TEST

START_TEST(test_disk__impostor_is_refused_and_left_alone)
{
    char path[PATH_SIZE];
    open_store();
    put("one");
    path_as(path, "one", "cc-1");
    impose(path, _i);
    ck_assert(!has("one"));
    expect(0, 1, 0, 1);
    put("one");
    ck_assert(!has("one"));
    expect(0, 2, 0, 1);
    ck_assert(exists(path));
    kiln__blob *any = get_as("one", "");
    ck_assert_ptr_null(any);
    expect(0, 3, 0, 1);
}
END_TEST

START_TEST(test_disk__impostor_is_purged)
{
    char path[PATH_SIZE], aside[PATH_SIZE];
    tally seen = { 0 };
    open_store();
    put("one");
    put("two");
    path_as(path, "one", "cc-1");
    snprintf(aside, sizeof aside, "%s/aside", kiln_test_temp_dir());
    impose(path, _i);
    bool had_aside = exists(aside);
    ck_assert_int_eq(kiln__disk_store_visit(store, take_item, &seen), 0);
    ck_assert_int_eq(seen.untrusted, 1);
    ck_assert_int_eq(seen.damaged, 0);
    ck_assert_uint_eq(purge(true, 0), 1);
    ck_assert(!exists(path));
    ck_assert(exists(aside) == had_aside);
    put("one");
    ck_assert(has("one") && has("two"));
    impose(path, GROUP_MODE);
    ck_assert_uint_eq(purge(false, 0), 2);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__purge_tells_what_stays)
{
    char path[PATH_SIZE], inner[PATH_SIZE + 8];
    open_store();
    put("one");
    put("two");
    path_as(path, "one", "cc-1");
    impose(path, DIRECTORY);
    snprintf(inner, sizeof inner, "%s/note", path);
    spill(inner, "x", 1);
    ck_assert_uint_eq(purge(true, -ENOTEMPTY), 0);
    ck_assert_ptr_eq(strstr(complaint, path), complaint);
    ck_assert_ptr_nonnull(strstr(complaint, "not empty"));
    ck_assert_uint_eq(purge(false, -ENOTEMPTY), 1);
    ck_assert(exists(inner));
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__purge_without_permission)
{
    char path[PATH_SIZE], shard[PATH_SIZE];
    if (!become_user())
        return;
    open_store();
    put("one");
    put("two");
    path_as(path, "one", "cc-1");
    shard_path(shard, "one");
    ck_assert_int_eq(chmod(path, 0660), 0);
    ck_assert_int_eq(chmod(shard, 0500), 0);
    ck_assert_uint_eq(purge(true, -EACCES), 0);
    ck_assert_ptr_eq(strstr(complaint, path), complaint);
    ck_assert_ptr_nonnull(strstr(complaint, "Permission denied"));
    ck_assert_uint_eq(purge(false, -EACCES), 1);
    ck_assert(exists(path));
    ck_assert_int_eq(chmod(shard, 0700), 0);
    /* A file that cannot be read would be refused, too. */
    ck_assert_int_eq(chmod(path, 0), 0);
    ck_assert_uint_eq(purge(true, 0), 1);
    ck_assert(!exists(path));
}
END_TEST

START_TEST(test_disk__foreign_owner_is_refused)
{
    char path[PATH_SIZE];
    if (geteuid() != 0)
        return;
    open_store();
    put("one");
    if (_i == 0)
        path_as(path, "one", "cc-1");
    else if (_i == 1)
        shard_path(path, "one");
    else
        snprintf(path, sizeof path, "%.400s%s", root, _i == 2 ? "/v1" : "");
    ck_assert_int_eq(chown(path, NOBODY, NOBODY), 0);
    ck_assert(!has("one"));
    expect(0, 1, 0, 1);
    ck_assert_ptr_nonnull(strstr(last_warning, "65534"));
    ck_assert_int_eq(chown(path, 0, 0), 0);
    ck_assert(has("one"));
}
END_TEST

START_TEST(test_disk__directory_writable_by_others_is_refused)
{
    char path[PATH_SIZE];
    open_store();
    put("one");
    if (_i == 0)
        shard_path(path, "one");
    else
        snprintf(path, sizeof path, "%.400s%s", root, _i == 1 ? "/v1" : "");
    ck_assert_int_eq(chmod(path, 0770), 0);
    ck_assert(!has("one"));
    expect(0, 1, 0, 1);
    put("one");
    expect(0, 2, 0, 1);
    ck_assert_int_eq(chmod(path, 0755), 0);
    ck_assert(has("one"));
    expect(0, 2, 0, 1);
}
END_TEST

START_TEST(test_disk__root_writable_by_others_does_not_open)
{
    ck_assert_int_eq(mkdir(root, 0700), 0);
    ck_assert_int_eq(chmod(root, 0777), 0);
    ck_assert_ptr_null(kiln__disk_store_open(root, &log_, &counters, problem, sizeof problem));
    ck_assert_ptr_nonnull(strstr(problem, "writable"));
    expect(0, 1, 0, 1);
    ck_assert_int_eq(kiln_test_temp_count("cache"), 0);
}
END_TEST

START_TEST(test_disk__root_that_is_a_file_does_not_open)
{
    kiln_test_temp_write("cache", "x", 1);
    ck_assert_ptr_null(kiln__disk_store_open(root, &log_, &counters, problem, sizeof problem));
    ck_assert_str_ne(problem, "");
    expect(0, 0, 1, 1);
    ck_assert_ptr_null(kiln__disk_store_open(root, NULL, &counters, NULL, 0));
    expect(0, 0, 2, 1);
}
END_TEST

START_TEST(test_disk__elevated_process_does_not_open)
{
    const char *fork_mode = getenv("CK_FORK");
    if (geteuid() != 0 || (fork_mode && strcmp(fork_mode, "no") == 0))
        return;
    ck_assert_int_eq(chown(kiln_test_temp_dir(), NOBODY, NOBODY), 0);
    ck_assert_int_eq(seteuid(NOBODY), 0);
    ck_assert_ptr_null(kiln__disk_store_open(root, &log_, &counters, problem, sizeof problem));
    ck_assert_str_ne(problem, "");
    expect(0, 1, 0, 1);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert(!exists(root));
}
END_TEST

START_TEST(test_disk__links_inside_are_refused)
{
    char path[PATH_SIZE], aside[PATH_SIZE];
    open_store();
    put("one");
    if (_i == 0)
        shard_path(path, "one");
    else
        snprintf(path, sizeof path, "%.400s/v1", root);
    snprintf(aside, sizeof aside, "%s/aside", kiln_test_temp_dir());
    ck_assert_int_eq(rename(path, aside), 0);
    ck_assert_int_eq(symlink(aside, path), 0);
    ck_assert(!has("one"));
    expect(0, 1, 0, 1);
    put("two");
    put("one");
    ck_assert_uint_ge(atomic_load(&counters.untrusted), 2);
    ck_assert_uint_eq(atomic_load(&warnings), 1);
    ck_assert_int_eq(kiln_test_temp_count("aside"), 1);
    /* The link of a shard is removed, what it leads to is not; without a version directory nothing is. */
    if (_i == 0) {
        ck_assert_uint_eq(purge(true, 0), 1);
        ck_assert(has("two"));
    } else {
        ck_assert_uint_eq(purge(false, -EPERM), 0);
        ck_assert_ptr_nonnull(strstr(complaint, "/v1: is a link"));
    }
    ck_assert(exists(path) == (_i != 0));
    ck_assert_int_eq(kiln_test_temp_count("aside"), 1);
}
END_TEST

START_TEST(test_disk__links_above_are_followed)
{
    char target[PATH_SIZE];
    snprintf(target, sizeof target, "%s/real", kiln_test_temp_dir());
    ck_assert_int_eq(mkdir(target, 0700), 0);
    ck_assert_int_eq(symlink(target, kiln_test_temp_path("alias")), 0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("real/inner"), 0700), 0);
    ck_assert_int_eq(symlink("inner", kiln_test_temp_path("real/cache")), 0);
    snprintf(root, sizeof root, "%s/alias/cache", kiln_test_temp_dir());
    open_store();
    put("one");
    ck_assert(has("one"));
    ck_assert_int_eq(kiln_test_temp_count("real/inner/v1"), 1);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__file_in_place_of_a_shard)
{
    char shard[PATH_SIZE];
    open_store();
    put("other");
    shard_path(shard, "one");
    spill(shard, "x", 1);
    ck_assert(!has("one"));
    expect(0, 0, 1, 1);
    put("one");
    put("one");
    expect(0, 0, 3, 2);
    ck_assert(has("other"));
    /* It comes back by itself when the cause is gone. */
    ck_assert_uint_eq(purge(true, 0), 1);
    put("one");
    ck_assert(has("one"));
    expect(0, 0, 3, 2);
}
END_TEST

START_TEST(test_disk__unreadable_entry_is_counted)
{
    char path[PATH_SIZE];
    if (!become_user())
        return;
    open_store();
    put("one");
    path_as(path, "one", "cc-1");
    ck_assert_int_eq(chmod(path, 0), 0);
    ck_assert(!has("one"));
    ck_assert(!has("one"));
    expect(0, 0, 2, 1);
    ck_assert_ptr_nonnull(strstr(last_warning, "Permission denied"));
    ck_assert(exists(path));
}
END_TEST

START_TEST(test_disk__read_only_store_serves_hits)
{
    char shard[PATH_SIZE];
    if (!become_user())
        return;
    open_store();
    put("one");
    store->vtable->close(store);
    shard_path(shard, "one");
    ck_assert_int_eq(chmod(shard, 0500), 0);
    ck_assert_int_eq(chmod(kiln_test_temp_path("cache/v1"), 0500), 0);
    ck_assert_int_eq(chmod(root, 0500), 0);
    open_store();
    expect(0, 0, 0, 0);
    ck_assert(has("one"));
    ck_assert(!has("two"));
    expect(0, 0, 0, 0);
    put("two");
    put("three");
    put_as("one", "cc-2");
    expect(0, 0, 3, 1);
    ck_assert_int_eq(kiln__disk_store_probe(store), -EACCES);
    ck_assert(has("one"));
    expect(0, 0, 3, 1);
    ck_assert_int_eq(chmod(root, 0700), 0);
    ck_assert_int_eq(chmod(shard, 0700), 0);
    ck_assert_int_eq(chmod(kiln_test_temp_path("cache/v1"), 0700), 0);
    put("two");
    ck_assert(has("two"));
    ck_assert_int_eq(kiln__disk_store_probe(store), 0);
    expect(0, 0, 3, 1);
}
END_TEST

/* ---- Modes */

static const mode_t masks[] = { 0177, 0277, 0777 };

static unsigned mode_of(const char *path)
{
    struct stat status;
    ck_assert_msg(lstat(path, &status) == 0, "%s is missing", path);
    return status.st_mode & 07777;
}

/* Runs a part of a test in a process that file modes bind and whose umask is `mask`; it may use the store. */
static void run_bound(mode_t mask, void (*part)(void))
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (!kiln_test_give_up_rights())
            _exit(0);
        umask(mask);
        part();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "umask %04o: status %#x", (unsigned)mask,
                  (unsigned)status);
}

static void use_all(const char *text)
{
    open_store();
    put(text);
    kiln_test_require(has(text), "an entry that was just put");
    int lock = kiln__disk_store_open_lock(store);
    int wisdom = kiln__disk_store_open_beside(store, "wisdom", true, problem, sizeof problem);
    kiln_test_require(lock >= 0 && wisdom >= 0, "a lock file and a directory beside it");
    kiln_test_require(atomic_load(&warnings) == 0, last_warning);
}

static void use_first(void)
{
    use_all("one");
}

static void use_second(void)
{
    use_all("two");
    kiln_test_require(has("one"), "the entry of another process");
}

START_TEST(test_disk__no_umask_spoils_a_store)
{
    char shard[PATH_SIZE];
    snprintf(root, sizeof root, "%.300s/above/it/cache", kiln_test_temp_dir());
    run_bound(masks[_i], use_first);
    run_bound(022, use_second);
    shard_path(shard, "one");
    ck_assert_uint_eq(mode_of(kiln_test_temp_path("above")), 0700);
    ck_assert_uint_eq(mode_of(kiln_test_temp_path("above/it")), 0700);
    ck_assert_uint_eq(mode_of(root), 0700);
    ck_assert_uint_eq(mode_of(kiln_test_temp_path("above/it/cache/v1")), 0700);
    ck_assert_uint_eq(mode_of(shard), 0700);
    ck_assert_uint_eq(mode_of(kiln_test_temp_path("above/it/cache/wisdom")), 0700);
    ck_assert_uint_eq(mode_of(kiln_test_temp_path("above/it/cache/v1/lock")), 0600);
}
END_TEST

/* Kiln 0.1 left such directories under a umask that takes the owner's rights away. */
START_TEST(test_disk__directory_without_its_owners_rights_is_mended)
{
    static const mode_t modes[] = { 0, 0200, 0400, 0600 };
    const char *const levels[] = { root, kiln_test_temp_path("cache/v1"), NULL, kiln_test_temp_path("cache/wisdom"),
                                   kiln_test_temp_path("cache/v1/lock") };
    char shard[PATH_SIZE];
    run_bound(022, use_first);
    shard_path(shard, "one");
    for (size_t level = 0; level < 5; level++) {
        const char *path = levels[level] ? levels[level] : shard;
        unsigned before = mode_of(path);
        if (level == 4 && modes[_i] == 0400)
            continue; /* as it is in a store that is only to be read */
        ck_assert_int_eq(chmod(path, modes[_i]), 0);
        run_bound(022, use_second);
        ck_assert_msg(mode_of(path) == before, "%s has mode %04o", path, mode_of(path));
    }
}
END_TEST

static void read_one(void)
{
    open_store();
    kiln_test_require(has("one"), "the entry");
    kiln_test_require(atomic_load(&warnings) == 0, last_warning);
}

START_TEST(test_disk__a_get_mends_too)
{
    char shard[PATH_SIZE];
    run_bound(022, use_first);
    shard_path(shard, "one");
    for (int what = 0; what < 3; what++) {
        const char *path = what == 0 ? root : what == 1 ? kiln_test_temp_path("cache/v1") : shard;
        ck_assert_int_eq(chmod(path, _i == 0 ? 0600 : 0), 0);
        run_bound(022, read_one);
        ck_assert_uint_eq(mode_of(path), 0700);
    }
}
END_TEST

static void open_in_vain(void)
{
    kiln_test_require(kiln__disk_store_open(root, NULL, &counters, problem, sizeof problem) == NULL, "no store");
}

/* A link in the place of the root, or above it, may be another user's: it must not lead to a change of mode. */
START_TEST(test_disk__no_mode_changes_behind_a_link)
{
    ck_assert_int_eq(mkdir(kiln_test_temp_path("mine"), 0700), 0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("mine/closed"), 0), 0);
    ck_assert_int_eq(symlink("mine", kiln_test_temp_path("link")), 0);
    ck_assert_int_eq(symlink("mine/closed", root), 0);
    run_bound(022, open_in_vain);
    snprintf(root, sizeof root, "%.300s/link/closed", kiln_test_temp_dir());
    run_bound(022, open_in_vain);
    ck_assert_uint_eq(mode_of(kiln_test_temp_path("mine/closed")), 0);
    ck_assert_int_eq(chmod(kiln_test_temp_path("mine/closed"), 0030), 0);
    snprintf(root, sizeof root, "%.300s/mine/closed", kiln_test_temp_dir());
    run_bound(022, open_in_vain);
    ck_assert_uint_eq(mode_of(root), 0030);
}
END_TEST

START_TEST(test_disk__directory_that_cannot_be_made)
{
    if (!become_user())
        return;
    ck_assert_int_eq(chmod(kiln_test_temp_dir(), 0500), 0);
    ck_assert_ptr_null(kiln__disk_store_open(root, &log_, &counters, problem, sizeof problem));
    ck_assert_ptr_nonnull(strstr(problem, "Permission denied"));
    expect(0, 0, 1, 1);
}
END_TEST

START_TEST(test_disk__file_size_limit_is_no_error)
{
    struct rlimit before, limit;
    char shard[PATH_SIZE];
    open_store();
    put("one");
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 512;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    put("two");
    put("three");
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    expect(0, 0, 2, 1);
    ck_assert(has("one"));
    ck_assert(!has("two"));
    shard_path(shard, "two");
    ck_assert_int_eq(kiln_test_temp_count(shard + strlen(kiln_test_temp_dir()) + 1), 0);
    put("two");
    ck_assert(has("two"));
    expect(0, 0, 2, 1);
}
END_TEST

START_TEST(test_disk__full_file_system_is_no_error)
{
    const char *fork_mode = getenv("CK_FORK");
    char text[20];
    unsigned kept = 0, lost = 0;
    if ((fork_mode && strcmp(fork_mode, "no") == 0) || mkdir(root, 0700) != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", root, "tmpfs", 0, "size=128k,mode=0700") != 0)
        return;
    open_store();
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "key %d", i);
        put(text);
    }
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "key %d", i);
        *(has(text) ? &kept : &lost) += 1;
    }
    ck_assert_uint_gt(kept, 5);
    ck_assert_uint_gt(lost, 5);
    expect(0, 0, lost, 1);
    ck_assert_ptr_nonnull(strstr(last_warning, "No space left"));
    ck_assert_int_eq(kiln__disk_store_probe(store), -ENOSPC);
    ck_assert_uint_eq(purge(false, 0), kept);
    put("again");
    ck_assert(has("again"));
    store->vtable->close(store);
    store = NULL;
    umount(root);
}
END_TEST

START_TEST(test_disk__impossible_toolchain_touches_nothing)
{
    char path[PATH_SIZE];
    kiln__key key = kiln_test_key("one", "");
    open_store();
    put("one");
    snprintf(path, sizeof path, "%.400s/v1/victim.kiln", root);
    spill(path, "x", 1);
    path_as(path, "one", "");
    path[strlen(path) - strlen(".kiln")] = '\0';
    ck_assert_int_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%.400s/v1/victim.kiln", root);
    strcpy(key.toolchain, "/../../victim");
    ck_assert_ptr_null(store->vtable->get(store, &key, false, NULL));
    store->vtable->drop(store, &key);
    memset(key.toolchain, 'a', sizeof key.toolchain);
    ck_assert_ptr_null(store->vtable->get(store, &key, false, NULL));
    store->vtable->drop(store, &key);
    key.toolchain[0] = '\0';
    store->vtable->drop(store, &key);
    ck_assert(exists(path));
    ck_assert(has("one"));
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__removed_directories_are_made_again)
{
    char path[PATH_SIZE];
    open_store();
    put("one");
    if (_i == 0)
        shard_path(path, "one");
    else
        snprintf(path, sizeof path, "%.400s%s", root, _i == 1 ? "/v1" : "");
    kiln_test_temp_remove(path);
    ck_assert(!exists(path));
    ck_assert(!has("one"));
    ck_assert_int_eq(kiln__disk_store_visit(store, NULL, NULL), 0);
    ck_assert_uint_eq(purge(false, 0), 0);
    put("one");
    ck_assert(has("one"));
    path_as(path, "one", "cc-1");
    ck_assert(exists(path));
    ck_assert(exists(kiln_test_temp_path("cache/CACHEDIR.TAG")));
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_disk__replaced_root_does_no_harm)
{
    open_store();
    put("one");
    ck_assert_int_eq(rename(root, kiln_test_temp_path("moved")), 0);
    ck_assert(has("one"));
    put("two");
    ck_assert(has("two"));
    ck_assert_int_eq(kiln_test_temp_count("moved/v1"), 2);
    /* Removed for good, and no directory can come back in its place. */
    kiln_test_temp_remove(kiln_test_temp_path("moved"));
    kiln_test_temp_write("cache", "x", 1);
    ck_assert(!has("one"));
    put("one");
    put("two");
    ck_assert(!has("one"));
    expect(0, 0, 2, 1);
    /* A foreign directory in its place is not taken over. */
    ck_assert_int_eq(unlink(root), 0);
    ck_assert_int_eq(mkdir(root, 0700), 0);
    ck_assert_int_eq(chmod(root, 0777), 0);
    put("one");
    ck_assert_int_eq(kiln_test_temp_count("cache"), 0);
    ck_assert_int_eq(chmod(root, 0700), 0);
    put("one");
    ck_assert(has("one"));
}
END_TEST

static int allowed_allocations;

static int refuse_after_allowed(void)
{
    return allowed_allocations-- <= 0;
}

START_TEST(test_disk__no_memory_is_a_miss)
{
    tally seen;
    open_store();
    put("one");
    store->vtable->close(store);
    for (int allowed = 0; allowed < 12; allowed++) {
        kiln__blob *blob = kiln_test_blob("two", "cc-1", payload, 900);
        kiln__key key = kiln_test_key("one", "cc-1");
        memset(&seen, 0, sizeof seen);
        seen.stop_after = -1;
        allowed_allocations = allowed;
        kiln__alloc_set_hook(refuse_after_allowed);
        store = kiln__disk_store_open(root, &log_, &counters, problem, sizeof problem);
        kiln__blob *found = NULL;
        if (store) {
            found = store->vtable->get(store, &key, false, NULL);
            store->vtable->put(store, blob, false);
            kiln__disk_store_visit(store, take_item, &seen);
        }
        kiln__alloc_set_hook(NULL);
        ck_assert_msg(allowed > 0 || !store, "a store without memory");
        kiln__blob_release(found);
        kiln__blob_release(blob);
        if (store) {
            ck_assert(has("one"));
            kiln__alloc_set_hook(refuse_after_allowed);
            allowed_allocations = 0;
            ck_assert_uint_eq(purge(true, -ENOMEM), 0);
            kiln__alloc_set_hook(NULL);
            ck_assert(has("one"));
            store->vtable->close(store);
        }
        store = NULL;
    }
    ck_assert_uint_gt(atomic_load(&counters.errors), 0);
    ck_assert_uint_eq(atomic_load(&counters.damaged), 0);
    ck_assert_int_eq(seen.good, 2);
}
END_TEST

Suite *kiln_test_store_disk_faults_suite(void)
{
    Suite *suite = suite_create("disk_faults");
    TCase *tests = tcase_create("disk_faults");
    tcase_set_timeout(tests, 60);
    kiln_test_temp_use(tests);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, test_disk__damaged_entry_is_a_miss_and_heals, 0, DAMAGES);
    tcase_add_test(tests, test_disk__many_damages_one_warning);
    tcase_add_loop_test(tests, test_disk__impostor_is_refused_and_left_alone, 0, IMPOSTORS);
    tcase_add_loop_test(tests, test_disk__impostor_is_purged, 0, IMPOSTORS);
    tcase_add_test(tests, test_disk__purge_tells_what_stays);
    tcase_add_test(tests, test_disk__purge_without_permission);
    tcase_add_loop_test(tests, test_disk__foreign_owner_is_refused, 0, 4);
    tcase_add_loop_test(tests, test_disk__directory_writable_by_others_is_refused, 0, 3);
    tcase_add_test(tests, test_disk__root_writable_by_others_does_not_open);
    tcase_add_test(tests, test_disk__root_that_is_a_file_does_not_open);
    tcase_add_test(tests, test_disk__elevated_process_does_not_open);
    tcase_add_loop_test(tests, test_disk__links_inside_are_refused, 0, 2);
    tcase_add_test(tests, test_disk__links_above_are_followed);
    tcase_add_test(tests, test_disk__file_in_place_of_a_shard);
    tcase_add_test(tests, test_disk__unreadable_entry_is_counted);
    tcase_add_test(tests, test_disk__read_only_store_serves_hits);
    tcase_add_loop_test(tests, test_disk__no_umask_spoils_a_store, 0, 3);
    tcase_add_loop_test(tests, test_disk__directory_without_its_owners_rights_is_mended, 0, 4);
    tcase_add_loop_test(tests, test_disk__a_get_mends_too, 0, 2);
    tcase_add_test(tests, test_disk__no_mode_changes_behind_a_link);
    tcase_add_test(tests, test_disk__directory_that_cannot_be_made);
    tcase_add_test(tests, test_disk__file_size_limit_is_no_error);
    tcase_add_test(tests, test_disk__full_file_system_is_no_error);
    tcase_add_test(tests, test_disk__impossible_toolchain_touches_nothing);
    tcase_add_loop_test(tests, test_disk__removed_directories_are_made_again, 0, 3);
    tcase_add_test(tests, test_disk__replaced_root_does_no_harm);
    tcase_add_test(tests, test_disk__no_memory_is_a_miss);
    suite_add_tcase(suite, tests);
    return suite;
}
