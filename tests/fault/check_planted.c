/* What somebody else has put in the way, at each level of the cache's path: it is not used, not followed, not
 * changed and never waited for; the caller gets a right kernel, and the store works again when it is gone. A purge
 * takes away what would be refused as an entry or a shard, and nothing that it stands for. */
#include "fault/figures.h"
#include "fault/stand_in.h"
#include "support/suites.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, PATH_SIZE = 4096, BLOCKED_SECONDS = 60, NOT_ELEVATED = 77 };

typedef enum level { ROOT, TAG, VERSION, SHARD, ENTRY, LEVELS } level;
static const char *const level_names[] = { "the directory", "its tag", "v1", "a shard", "an entry" };

typedef enum plant {
    LINK,
    DANGLING_LINK,
    LINK_TO_DEVICE,
    FIFO,
    DIRECTORY,
    PLAIN_FILE,
    SOCKET,
    CHARACTER_DEVICE,
    BLOCK_DEVICE,
    HARD_LINK,
    FOREIGN,
    GROUP_WRITABLE,
    WORLD_WRITABLE,
    PLANTS
} plant;
static const char *const plant_names[] = { "link",          "dangling link", "link to a device", "FIFO",
                                           "directory",     "plain file",    "socket",           "character device",
                                           "block device",  "hard link",     "another user's",   "group-writable",
                                           "world-writable" };

static char directory[PATH_SIZE], entry[PATH_SIZE], aside[PATH_SIZE];
static kiln_test_log log_seen;

static void path_of(char out[PATH_SIZE], level where)
{
    char copy[PATH_SIZE];
    if (where == ROOT || where == TAG || where == VERSION) {
        snprintf(out, PATH_SIZE, "%.4000s%s", directory,
                 where == TAG       ? "/CACHEDIR.TAG"
                 : where == VERSION ? "/v1"
                                    : "");
        return;
    }
    memcpy(copy, entry, sizeof(copy));
    snprintf(out, PATH_SIZE, "%s", where == SHARD ? dirname(copy) : copy);
}

static bool is_in_place(plant what)
{
    return what == HARD_LINK || what == FOREIGN || what == GROUP_WRITABLE || what == WORLD_WRITABLE;
}

static bool make_sense(plant what, level where)
{
    bool is_file = where == TAG || where == ENTRY;
    return what == HARD_LINK || what == DIRECTORY ? is_file : what == PLAIN_FILE ? !is_file : true;
}

/* Puts it in the place of what is there, which goes aside; false where this process may not. */
static bool put_in_the_way(plant what, const char *path)
{
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    if (what == FOREIGN)
        return chown(path, NOBODY, NOBODY) == 0;
    if (what == GROUP_WRITABLE || what == WORLD_WRITABLE)
        return chmod(path, status.st_mode | (what == GROUP_WRITABLE ? S_IWGRP : S_IWOTH)) == 0;
    if (what == HARD_LINK)
        return link(path, aside) == 0;
    ck_assert_int_eq(rename(path, aside), 0);
    switch (what) {
    case LINK:
        return symlink(aside, path) == 0;
    case DANGLING_LINK:
        return symlink("/nonexistent/place", path) == 0;
    case LINK_TO_DEVICE:
        return symlink("/dev/zero", path) == 0;
    case FIFO:
        return mkfifo(path, 0600) == 0;
    case DIRECTORY:
        return mkdir(path, 0700) == 0;
    case SOCKET:
        return mknod(path, S_IFSOCK | 0600, 0) == 0;
    case CHARACTER_DEVICE:
        return mknod(path, S_IFCHR | 0600, makedev(1, 5)) == 0;
    case BLOCK_DEVICE:
        return mknod(path, S_IFBLK | 0600, makedev(7, 0)) == 0;
    default: {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        return fd >= 0 && close(fd) == 0;
    }
    }
}

static bool is_there(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

/* After a purge the place may be empty already; an entry that was itself refused is then gone for good. */
static void take_away(plant what, const char *path)
{
    if (what != HARD_LINK && is_in_place(what) && !is_there(path))
        return;
    if (what == FOREIGN) {
        ck_assert_int_eq(lchown(path, geteuid(), getegid()), 0);
    } else if (what == GROUP_WRITABLE || what == WORLD_WRITABLE) {
        struct stat status;
        ck_assert_int_eq(stat(path, &status), 0);
        ck_assert_int_eq(chmod(path, status.st_mode & 0755), 0);
    } else if (what == HARD_LINK) {
        ck_assert_int_eq(is_there(path) ? unlink(aside) : rename(aside, path), 0);
    } else {
        kiln_test_temp_remove(path);
        ck_assert_int_eq(rename(aside, path), 0);
    }
}

/* ---- What must not change: names, sizes and times of all that went aside */

static uint64_t print_sum;

static int add_to_print(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)type;
    for (const char *at = path + where->base; *at; at++)
        print_sum = print_sum * 31 + (unsigned char)*at;
    print_sum = print_sum * 31 + (uint64_t)status->st_size + (uint64_t)status->st_mode;
    print_sum = print_sum * 31 + (uint64_t)status->st_mtim.tv_sec * 1000000007 + (uint64_t)status->st_mtim.tv_nsec;
    return 0;
}

static uint64_t fingerprint(const char *path)
{
    print_sum = 17;
    nftw(path, add_to_print, 16, FTW_PHYS);
    return print_sum;
}

/* ---- What is done meanwhile */

static int ignore_entry(void *data, const kiln_entry_info *info)
{
    (void)data;
    ck_assert((info->status == KILN_OK) == (info->problem[0] == '\0'));
    return 0;
}

static kiln_origin get_right_kernel(const kiln_options *options, kiln_stats *stats)
{
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    kiln_service *service = kiln_test_open(options);
    kiln_kernel *kernel = kiln_test_get(service, STAND_IN_SPEC);
    kiln_test_check_hardsigmoid(kernel);
    kiln_kernel_get_info(kernel, &info);
    kiln_kernel_release(kernel);
    *stats = kiln_test_stats(service);
    kiln_cache_visit(service, ignore_entry, NULL, NULL);
    kiln_close(service);
    return info.origin;
}

/* Not in the way of a hit: nobody reads the tag, and links above what is inside the cache are followed. */
static bool is_harmless(plant what, level where)
{
    return where == TAG || (where == ROOT && what == LINK);
}

/* What a purge of all that would be refused takes away: an entry, and what is no directory in the place of a shard. */
static bool is_purged(plant what, level where)
{
    return where == ENTRY || (where == SHARD && !is_in_place(what));
}

static void check_purge(const kiln_options *options, plant what, level where, const char *path)
{
    uint64_t removed = 0;
    kiln_service *service = kiln_test_open(options);
    kiln_status status = kiln_cache_purge(service, kiln_test_is_refused, NULL, &removed, NULL);
    kiln_close(service);
    ck_assert_msg(is_there(path) != is_purged(what, where), "%s in place of %s: a purge %s it", plant_names[what],
                  level_names[where], is_there(path) ? "left" : "took");
    ck_assert_uint_eq(removed, is_purged(what, where));
    ck_assert(status == KILN_OK || !is_purged(what, where));
}

static void check_one(const kiln_options *options, plant what, level where, uint64_t *refusals)
{
    char path[PATH_SIZE];
    kiln_stats stats;
    path_of(path, where);
    const char *untouched = is_in_place(what) && what != HARD_LINK ? path : aside;
    uint64_t before = fingerprint(untouched);
    log_seen = (kiln_test_log){ 0 };
    kiln_origin source = get_right_kernel(options, &stats);
    if (is_harmless(what, where)) {
        ck_assert_msg(source == KILN_ORIGIN_DISK, "%s in place of %s: no hit", plant_names[what], level_names[where]);
    } else {
        ck_assert_msg(source == KILN_ORIGIN_COMPILED, "%s in place of %s was used", plant_names[what],
                      level_names[where]);
        ck_assert_msg(stats.store_untrusted + stats.store_errors > 0 && log_seen.warnings > 0,
                      "%s in place of %s was not counted", plant_names[what], level_names[where]);
        *refusals += stats.store_untrusted;
    }
    ck_assert_msg(fingerprint(untouched) == before, "%s in place of %s: what it hides was changed", plant_names[what],
                  level_names[where]);
    check_purge(options, what, where, path);
    if (is_there(untouched))
        ck_assert_msg(fingerprint(untouched) == before, "%s in place of %s: a purge changed what it hides",
                      plant_names[what], level_names[where]);
}

START_TEST(test_planted__objects_at_every_level)
{
    kiln_options options = stand_in_options();
    kiln_stats stats;
    uint64_t tried = 0, refusals = 0;
    double start = seconds_now();
    snprintf(directory, sizeof(directory), "%s", options.cache_dir);
    snprintf(aside, sizeof(aside), "%s", kiln_test_temp_path("aside"));
    options.cache_dir = directory;
    options.log = kiln_test_log_line;
    options.log_data = &log_seen;
    ck_assert_int_eq(get_right_kernel(&options, &stats), KILN_ORIGIN_COMPILED);
    kiln_service *service = kiln_test_open(&options);
    snprintf(entry, sizeof(entry), "%s", kiln_test_entry_path(service));
    kiln_close(service);
    for (int where = 0; where < LEVELS; where++)
        for (int what = 0; what < PLANTS; what++) {
            char path[PATH_SIZE];
            if (!make_sense((plant)what, (level)where))
                continue;
            path_of(path, (level)where);
            alarm(BLOCKED_SECONDS);
            if (put_in_the_way((plant)what, path)) {
                check_one(&options, (plant)what, (level)where, &refusals);
                tried++;
            } else {
                LEFT_OUT("planted: %s in place of %s: not permitted here", plant_names[what], level_names[where]);
            }
            take_away((plant)what, path);
            if (!is_there(path))
                ck_assert_int_eq(get_right_kernel(&options, &stats), KILN_ORIGIN_COMPILED);
            ck_assert_msg(get_right_kernel(&options, &stats) == KILN_ORIGIN_DISK,
                          "no hit after %s in place of %s was taken away", plant_names[what], level_names[where]);
            ck_assert_uint_eq(stats.store_untrusted + stats.store_errors + stats.store_damaged, 0);
            alarm(0);
        }
    FIGURES(
        "planted: %llu objects at %d levels: all kernels right, nothing followed, changed or waited for, %llu refusals "
        "counted as untrusted; %.1f s",
        (unsigned long long)tried, (int)LEVELS, (unsigned long long)refusals, seconds_now() - start);
    ck_assert_uint_gt(tried, 30);
}
END_TEST

/* ---- A program with more rights than its user */

static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 16];
    size_t length;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    ck_assert_msg(in != NULL && out != NULL, "cannot copy %s", from);
    while ((length = fread(bytes, 1, sizeof(bytes), in)) > 0)
        ck_assert_uint_eq(fwrite(bytes, 1, length, out), length);
    fclose(in);
    ck_assert_int_eq(fclose(out), 0);
}

static int run_as_nobody(const char *program, const char *cache)
{
    int status;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        setenv("KILN_CACHE_DIR", cache, 1);
        setenv("HOME", kiln_test_temp_dir(), 1);
        if (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0)
            execl(program, program, cache, (char *)NULL);
        _exit(3);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "the program ended with status %#x", (unsigned)status);
    return WEXITSTATUS(status);
}

START_TEST(test_planted__elevated_program_has_no_store)
{
    const char *built = getenv("KILN_ELEVATED"), *kind = _i == 0 ? "setuid" : "setgid";
    char parent[PATH_SIZE], program[PATH_SIZE], cache[PATH_SIZE];
    ck_assert_msg(built != NULL, "KILN_ELEVATED must name the program");
    if (geteuid() != 0) {
        LEFT_OUT("planted: a %s program: only root can make one", kind);
        return;
    }
    snprintf(parent, sizeof(parent), "%s", kiln_test_temp_dir());
    snprintf(program, sizeof(program), "%s", kiln_test_temp_path("elevated"));
    snprintf(cache, sizeof(cache), "%s", kiln_test_temp_path("cache"));
    ck_assert_int_eq(chmod(kiln_test_temp_dir(), 0777), 0);
    ck_assert_int_eq(chmod(dirname(parent), 0755), 0);
    copy_file(built, program);
    ck_assert_int_eq(chmod(program, _i == 0 ? 04755 : 02755), 0);
    int result = run_as_nobody(program, cache);
    if (result == NOT_ELEVATED) {
        LEFT_OUT("planted: a %s program: the file system of %s ignores the bit", kind, parent);
        return;
    }
    ck_assert_msg(result == 0, "the %s program used a store, or failed: status %d", kind, result);
    ck_assert_int_eq(access(cache, F_OK), -1);
    FIGURES("planted: a %s program: no store, nothing made, refused and counted when asked for by name", kind);
}
END_TEST

Suite *kiln_test_fault_planted_suite(void)
{
    Suite *suite = suite_create("planted");
    TCase *tcase = tcase_create("planted");
    tcase_set_timeout(tcase, 500);
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_planted__objects_at_every_level);
    tcase_add_loop_test(tcase, test_planted__elevated_program_has_no_store, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}
