/* Files and the trust in them. */
#include "base/alloc.h"
#include "os/file.h"
#include "os/trust.h"
#include "support/refuse.h"
#include "support/rights.h"
#include "support/suites.h"
#include "support/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 1 << 20 };

static int directory = -1;

static void open_directory(void)
{
    directory = open(kiln_test_temp_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(directory, 0);
}

static void close_directory(void)
{
    close(directory);
}

/* Asserts that a file of the test's directory holds exactly this text. */
static void assert_file(const char *name, const char *text)
{
    void *bytes;
    size_t length;
    struct stat status;
    ck_assert_int_eq(kiln__file_read(&bytes, &length, directory, name, O_NOFOLLOW, LIMIT, &status), 0);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_mem_eq(bytes, text, length + 1);
    kiln__free(bytes);
}

static int read_error(const char *name, int flags, size_t limit)
{
    void *bytes = &directory;
    size_t length = 99;
    struct stat status;
    int error = kiln__file_read(&bytes, &length, directory, name, flags, limit, &status);
    ck_assert_int_lt(error, 0);
    ck_assert_ptr_null(bytes);
    ck_assert_uint_eq(length, 0);
    return error;
}

START_TEST(test_file__read_gives_whole_file_and_status)
{
    void *bytes;
    size_t length;
    struct stat status;
    kiln_test_temp_write("a", "one\0two", 7);
    ck_assert_int_eq(kiln__file_read(&bytes, &length, directory, "a", 0, 7, &status), 0);
    ck_assert_uint_eq(length, 7);
    ck_assert_mem_eq(bytes, "one\0two", 8);
    ck_assert_int_eq(status.st_size, 7);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0600);
    kiln__free(bytes);
    ck_assert_int_eq(kiln__file_read(&bytes, &length, AT_FDCWD, kiln_test_temp_path("a"), 0, 7, &status), 0);
    kiln__free(bytes);
}
END_TEST

START_TEST(test_file__read_at_reads_all_or_fails)
{
    char bytes[8] = "xxxxxxx";
    kiln_test_temp_write("a", "0123456789", 10);
    int fd = openat(directory, "a", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(kiln__file_read_at(fd, bytes, 4, 3), 0);
    ck_assert_str_eq(bytes, "3456xxx");
    ck_assert_int_eq(kiln__file_read_at(fd, bytes, 3, 7), 0);
    ck_assert_int_eq(kiln__file_read_at(fd, bytes, 4, 7), -EIO);
    ck_assert_int_eq(kiln__file_read_at(fd, bytes, 1, 100), -EIO);
    ck_assert_int_eq(kiln__file_read_at(fd, bytes, 0, 100), 0);
    ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 0);
    close(fd);
    ck_assert_int_eq(kiln__file_read_at(-1, bytes, 1, 0), -EBADF);
}
END_TEST

START_TEST(test_file__unique_files_are_new_and_readable)
{
    char names[2][KILN__FILE_UNIQUE];
    struct stat status;
    mode_t mask = umask(002);
    for (int i = 0; i < 2; i++) {
        int fd = kiln__file_create_unique(directory, "tmp.some.", names[i]);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(strncmp(names[i], "tmp.some.", 9), 0);
        ck_assert_uint_eq(strlen(names[i]), 9 + 16);
        ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
        ck_assert_int_eq(fstat(fd, &status), 0);
        ck_assert_uint_eq(status.st_mode & 07777, 0644);
        close(fd);
    }
    umask(mask);
    ck_assert_str_ne(names[0], names[1]);
    ck_assert_int_eq(kiln_test_temp_count("."), 2);
    ck_assert_int_eq(kiln__file_create_unique(-1, "tmp.", names[0]), -EBADF);
}
END_TEST

START_TEST(test_file__shared_files_may_be_roots_and_have_several_names)
{
    char buffer[100];
    struct stat status = { .st_mode = S_IFREG | 0644, .st_uid = geteuid(), .st_nlink = 3 };
    ck_assert_ptr_null(kiln__trust_refuse_file(&status, true, buffer, sizeof buffer));
    ck_assert_ptr_nonnull(kiln__trust_refuse_directory(&status, true, buffer, sizeof buffer));
    ck_assert_ptr_nonnull(kiln__trust_refuse_file(&status, false, buffer, sizeof buffer));
    status.st_uid = 0;
    ck_assert_ptr_null(kiln__trust_refuse_file(&status, true, buffer, sizeof buffer));
    status.st_uid = geteuid() + 1;
    ck_assert_ptr_nonnull(strstr(kiln__trust_refuse_file(&status, true, buffer, sizeof buffer), "or root"));
    status.st_uid = 0;
    status.st_mode = S_IFDIR | 0755;
    ck_assert_ptr_null(kiln__trust_refuse_directory(&status, true, buffer, sizeof buffer));
    ck_assert_ptr_nonnull(kiln__trust_refuse_file(&status, true, buffer, sizeof buffer));
    status.st_mode = S_IFDIR | 0757;
    ck_assert_ptr_nonnull(strstr(kiln__trust_refuse_directory(&status, true, buffer, sizeof buffer), "mode 0757"));
}
END_TEST

START_TEST(test_file__empty_file_is_an_empty_text)
{
    kiln_test_temp_write("empty", "", 0);
    assert_file("empty", "");
}
END_TEST

START_TEST(test_file__read_refuses_what_is_too_large_missing_or_special)
{
    kiln_test_temp_write("a", "12345678", 8);
    ck_assert_int_eq(mkfifo(kiln_test_temp_path("fifo"), 0600), 0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("dir"), 0700), 0);
    ck_assert_int_eq(symlink("a", kiln_test_temp_path("link")), 0);
    ck_assert_int_eq(read_error("a", 0, 7), -EFBIG);
    ck_assert_int_eq(read_error("none", 0, LIMIT), -ENOENT);
    ck_assert_int_eq(read_error("a/b", 0, LIMIT), -ENOTDIR);
    ck_assert_int_eq(read_error("fifo", O_NOFOLLOW, LIMIT), -EINVAL);
    ck_assert_int_eq(read_error("dir", O_NOFOLLOW, LIMIT), -EINVAL);
    ck_assert_int_eq(read_error("link", O_NOFOLLOW, LIMIT), -ELOOP);
    void *bytes;
    size_t length;
    struct stat status;
    ck_assert_int_eq(kiln__file_read(&bytes, &length, directory, "link", 0, LIMIT, &status), 0);
    kiln__free(bytes);
    ck_assert_int_eq(kiln__file_read(&bytes, &length, directory, "fifo", 0, LIMIT, &status), -EINVAL);
    ck_assert(S_ISFIFO(status.st_mode));
}
END_TEST

static int fail_allocation(void)
{
    return 1;
}

START_TEST(test_file__read_without_memory_says_so)
{
    kiln_test_temp_write("a", "12345678", 8);
    kiln__alloc_set_hook(fail_allocation);
    int error = read_error("a", 0, LIMIT);
    kiln__alloc_set_hook(NULL);
    ck_assert_int_eq(error, -ENOMEM);
}
END_TEST

/* What file systems may refuse, and with what error: the tests of publishing run under each. */
#define REFUSE_TMPFILE                                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3), REFUSE_LOAD(args[2]), \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1), REFUSE_WITH(EOPNOTSUPP), REFUSE_LOAD(nr)

static void install(struct sock_filter *filter, size_t length)
{
    const char *fork_mode = getenv("CK_FORK");
    if (!fork_mode || strcmp(fork_mode, "no"))
        refuse_calls(filter, length);
}

static void refuse_unnamed_files(void)
{
    struct sock_filter filter[] = { REFUSE_LOAD(nr), REFUSE_TMPFILE, REFUSE_END };
    install(filter, sizeof filter / sizeof *filter);
}

static void refuse_links(void)
{
    struct sock_filter filter[] = { REFUSE_LOAD(nr), REFUSE(linkat, EPERM), REFUSE_END };
    install(filter, sizeof filter / sizeof *filter);
}

static void refuse_rename_flags_too(void)
{
    struct sock_filter filter[] = { REFUSE_LOAD(nr), REFUSE_TMPFILE, REFUSE(renameat2, EINVAL), REFUSE_END };
    install(filter, sizeof filter / sizeof *filter);
}

START_TEST(test_file__publish_makes_a_private_file)
{
    mode_t before = umask(0777);
    int error = kiln__file_publish(directory, "a", "hello", 5, false);
    umask(before);
    ck_assert_int_eq(error, 0);
    struct stat status;
    ck_assert_int_eq(fstatat(directory, "a", &status, AT_SYMLINK_NOFOLLOW), 0);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0600);
    ck_assert_uint_eq(status.st_nlink, 1);
    assert_file("a", "hello");
    ck_assert_int_eq(kiln_test_temp_count("."), 1);
}
END_TEST

START_TEST(test_file__publish_replaces_only_when_asked)
{
    ck_assert_int_eq(kiln__file_publish(directory, "a", "one", 3, true), 0);
    ck_assert_int_eq(kiln__file_publish(directory, "a", "two", 3, false), -EEXIST);
    assert_file("a", "one");
    ck_assert_int_eq(kiln__file_publish(directory, "a", "", 0, true), 0);
    assert_file("a", "");
    ck_assert_int_eq(kiln_test_temp_count("."), 1);
}
END_TEST

START_TEST(test_file__publish_failures_leave_nothing_behind)
{
    kiln_test_temp_write("file", "x", 1);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("dir"), 0700), 0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("gone"), 0700), 0);
    int gone = openat(directory, "gone", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(rmdir(kiln_test_temp_path("gone")), 0);
    ck_assert_int_eq(kiln__file_publish(directory, "dir", "x", 1, true), -EISDIR);
    ck_assert_int_eq(kiln__file_publish(directory, "dir", "x", 1, false), -EEXIST);
    ck_assert_int_eq(kiln__file_publish(directory, "no/where", "x", 1, true), -ENOENT);
    ck_assert_int_eq(kiln__file_publish(directory, "file/a", "x", 1, false), -ENOTDIR);
    ck_assert_int_eq(kiln__file_publish(gone, "a", "x", 1, false), -ENOENT);
    ck_assert_int_eq(kiln_test_temp_count("."), 2);
    ck_assert_int_eq(kiln_test_temp_count("dir"), 0);
    close(gone);
}
END_TEST

START_TEST(test_file__publish_replaces_a_link_and_not_its_target)
{
    kiln_test_temp_write("target", "old", 3);
    ck_assert_int_eq(symlink("target", kiln_test_temp_path("a")), 0);
    ck_assert_int_eq(kiln__file_publish(directory, "a", "new", 3, false), -EEXIST);
    ck_assert_int_eq(kiln__file_publish(directory, "a", "new", 3, true), 0);
    assert_file("a", "new");
    assert_file("target", "old");
}
END_TEST

/* The signal of the limit has its default action here, which would end this process. */
START_TEST(test_file__publish_beyond_the_file_size_limit_fails_quietly)
{
    static char bytes[8192];
    struct rlimit before, limit;
    sigset_t pending;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 4096;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int above = kiln__file_publish(directory, "a", bytes, sizeof bytes, true);
    int below = kiln__file_publish(directory, "b", bytes, 4096, true);
    ck_assert_int_eq(sigpending(&pending), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(above, -EFBIG);
    ck_assert_int_eq(below, 0);
    ck_assert_int_eq(sigismember(&pending, SIGXFSZ), 0);
    ck_assert_int_eq(kiln_test_temp_count("."), 1);
}
END_TEST

static void *read_until_done(void *data)
{
    volatile int *done = data;
    int reads = 0;
    while (!__atomic_load_n(done, __ATOMIC_ACQUIRE) || reads == 0) {
        void *bytes;
        size_t length;
        struct stat status;
        if (kiln__file_read(&bytes, &length, directory, "a", O_NOFOLLOW, LIMIT, &status))
            return data;
        const char *text = bytes;
        bool whole = length == 60000 || length == 30000;
        for (size_t i = 1; i < length && whole; i++)
            whole = text[i] == text[0];
        kiln__free(bytes);
        if (!whole)
            return data;
        reads++;
    }
    return NULL;
}

START_TEST(test_file__reader_never_sees_a_part)
{
    static char bytes[60000];
    int done = 0;
    pthread_t reader;
    memset(bytes, 'x', sizeof bytes);
    ck_assert_int_eq(kiln__file_publish(directory, "a", bytes, sizeof bytes, false), 0);
    ck_assert_int_eq(pthread_create(&reader, NULL, read_until_done, &done), 0);
    for (int i = 0; i < 200; i++) {
        memset(bytes, 'a' + i % 26, sizeof bytes);
        ck_assert_int_eq(kiln__file_publish(directory, "a", bytes, i % 2 ? 60000 : 30000, true), 0);
    }
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    void *failed;
    ck_assert_int_eq(pthread_join(reader, &failed), 0);
    ck_assert_ptr_null(failed);
    ck_assert_int_eq(kiln_test_temp_count("."), 1);
}
END_TEST

START_TEST(test_file__one_of_many_publishers_wins)
{
    pid_t children[8];
    int winners = 0;
    for (int i = 0; i < 8; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(kiln__file_publish(directory, "a", "same", 4, false) == 0 ? 1 : 0);
    }
    for (int i = 0; i < 8; i++) {
        int status;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert(WIFEXITED(status));
        winners += WEXITSTATUS(status);
    }
    ck_assert_int_eq(winners, 1);
    assert_file("a", "same");
    ck_assert_int_eq(kiln_test_temp_count("."), 1);
}
END_TEST

START_TEST(test_file__make_directory_makes_missing_parents)
{
    struct stat status;
    int fd = kiln__file_make_directory(kiln_test_temp_path("a//b/c/"));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    ck_assert_int_eq(kiln__file_publish(fd, "file", "x", 1, false), 0);
    close(fd);
    ck_assert_int_eq(stat(kiln_test_temp_path("a/b"), &status), 0);
    ck_assert_uint_eq(status.st_mode, S_IFDIR | 0700);
    ck_assert_int_eq(stat(kiln_test_temp_path("a/b/c/file"), &status), 0);
    fd = kiln__file_make_directory(kiln_test_temp_path("a/b"));
    ck_assert_int_ge(fd, 0);
    close(fd);
}
END_TEST

START_TEST(test_file__make_directory_says_what_is_in_the_way)
{
    char longest[PATH_MAX + 10];
    kiln_test_temp_write("file", "x", 1);
    ck_assert_int_eq(kiln__file_make_directory(kiln_test_temp_path("file")), -ENOTDIR);
    ck_assert_int_eq(kiln__file_make_directory(kiln_test_temp_path("file/a/b")), -ENOTDIR);
    ck_assert_int_eq(kiln__file_make_directory(""), -ENOENT);
    ck_assert_int_eq(kiln__file_make_directory("/proc/kiln/none"), -ENOENT);
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    ck_assert_int_eq(kiln__file_make_directory(longest), -ENAMETOOLONG);
    ck_assert_int_eq(symlink("elsewhere", kiln_test_temp_path("link")), 0);
    ck_assert_int_lt(kiln__file_make_directory(kiln_test_temp_path("link/a")), 0);
}
END_TEST

START_TEST(test_file__make_directory_follows_links_above)
{
    ck_assert_int_eq(mkdir(kiln_test_temp_path("real"), 0700), 0);
    ck_assert_int_eq(symlink("real", kiln_test_temp_path("link")), 0);
    int fd = kiln__file_make_directory(kiln_test_temp_path("link/a"));
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(access(kiln_test_temp_path("real/a"), F_OK), 0);
}
END_TEST

START_TEST(test_file__open_directory_makes_one_only_when_asked)
{
    struct stat status;
    ck_assert_int_eq(kiln__file_open_directory(directory, "a", false), -ENOENT);
    int fd = kiln__file_open_directory(directory, "a", true);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_uint_eq(status.st_mode, S_IFDIR | 0700);
    close(fd);
    fd = kiln__file_open_directory(directory, "a", false);
    ck_assert_int_ge(fd, 0);
    close(fd);
    kiln_test_temp_write("file", "", 0);
    ck_assert_int_eq(symlink("a", kiln_test_temp_path("link")), 0);
    ck_assert_int_eq(kiln__file_open_directory(directory, "file", true), -ENOTDIR);
    ck_assert_int_lt(kiln__file_open_directory(directory, "link", true), 0);
}
END_TEST

typedef struct listing {
    int calls, stop_after;
    char names[16][32];
} listing;

static int note(void *data, const char *name)
{
    listing *seen = data;
    ck_assert_int_lt(seen->calls, 16);
    snprintf(seen->names[seen->calls++], sizeof seen->names[0], "%s", name);
    return seen->calls == seen->stop_after;
}

static bool was_seen(const listing *seen, const char *name)
{
    for (int i = 0; i < seen->calls; i++)
        if (!strcmp(seen->names[i], name))
            return true;
    return false;
}

START_TEST(test_file__list_visits_each_name_once_and_can_stop)
{
    listing seen = { 0 }, again = { 0 }, stopped = { .stop_after = 2 };
    kiln_test_temp_write("a", "", 0);
    kiln_test_temp_write(".b", "", 0);
    kiln_test_temp_write("...", "", 0);
    ck_assert_int_eq(kiln__file_list(directory, note, &seen), 0);
    ck_assert_int_eq(seen.calls, 3);
    ck_assert(was_seen(&seen, "a") && was_seen(&seen, ".b") && was_seen(&seen, "..."));
    ck_assert_int_eq(kiln__file_list(directory, note, &again), 0);
    ck_assert_int_eq(again.calls, 3);
    ck_assert_int_eq(kiln__file_list(directory, note, &stopped), 0);
    ck_assert_int_eq(stopped.calls, 2);
    ck_assert_int_eq(kiln__file_list(-1, note, &seen), -EBADF);
    kiln_test_temp_write("file", "", 0);
    int file = openat(directory, "file", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(kiln__file_list(file, note, &seen), -ENOTDIR);
    close(file);
}
END_TEST

START_TEST(test_file__remove_same_spares_another_file)
{
    struct stat status;
    kiln_test_temp_write("a", "bad", 3);
    ck_assert_int_eq(fstatat(directory, "a", &status, 0), 0);
    ck_assert_int_eq(kiln__file_publish(directory, "a", "good", 4, true), 0);
    ck_assert_int_eq(kiln__file_remove_same(directory, "a", &status), -ESTALE);
    assert_file("a", "good");
    ck_assert_int_eq(fstatat(directory, "a", &status, 0), 0);
    ck_assert_int_eq(kiln__file_remove_same(directory, "a", &status), 0);
    ck_assert_int_eq(kiln__file_remove_same(directory, "a", &status), -ENOENT);
}
END_TEST

START_TEST(test_file__temporary_directory_comes_and_goes)
{
    char path[PATH_MAX], other[PATH_MAX], tiny[8];
    struct stat status;
    ck_assert_int_eq(setenv("TMPDIR", kiln_test_temp_dir(), 1), 0);
    ck_assert_int_eq(kiln__file_make_temporary(path, sizeof path), 0);
    ck_assert_int_eq(kiln__file_make_temporary(other, sizeof other), 0);
    ck_assert_str_ne(path, other);
    ck_assert_int_eq(strncmp(path, kiln_test_temp_dir(), strlen(kiln_test_temp_dir())), 0);
    ck_assert_int_eq(lstat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode, S_IFDIR | 0700);
    kiln_test_temp_write("spared", "x", 1);
    int fd = kiln__file_make_directory(path);
    ck_assert_int_eq(kiln__file_publish(fd, "a.c", "x", 1, false), 0);
    ck_assert_int_eq(symlinkat(kiln_test_temp_path("spared"), fd, "link"), 0);
    close(fd);
    kiln__file_remove_directory(path);
    ck_assert_int_eq(lstat(path, &status), -1);
    kiln__file_remove_directory(other);
    kiln__file_remove_directory(other);
    ck_assert_int_eq(kiln_test_temp_count("."), 1);
    ck_assert_int_eq(kiln__file_make_temporary(tiny, sizeof tiny), -ENAMETOOLONG);
}
END_TEST

enum { LEFT_OVER, YOUNG, OTHER_NAME, WITH_DIRECTORY, OTHER_MODE, OTHER_OWNER, LINKED, OTHER_FILE, LONG_NAME, BESIDE };

static const char *beside(int what)
{
    static const char *const names[] = { "kiln-temporary-000001", "kiln-temporary-000002", "kiln-000003",
                                         "kiln-temporary-000004", "kiln-temporary-000005", "kiln-temporary-000006",
                                         "kiln-temporary-000007", "kiln-temporary-000009", "kiln-temporary-00000a0" };
    return kiln_test_temp_path(names[what]);
}

static void make_beside(int what)
{
    struct timespec stamp = { time(NULL) - (what == YOUNG ? 3000 : 4000), 0 };
    char inside[PATH_MAX];
    if (what == LINKED) {
        ck_assert_int_eq(symlink(beside(OTHER_NAME), beside(LINKED)), 0);
        return;
    }
    ck_assert_int_eq(mkdir(beside(what), 0700), 0);
    snprintf(inside, sizeof inside, "%s/unit.so", beside(what));
    ck_assert_int_eq(close(open(inside, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    snprintf(inside, sizeof inside, "%s/more", beside(what));
    if (what == WITH_DIRECTORY)
        ck_assert_int_eq(mkdir(inside, 0700), 0);
    if (what == OTHER_FILE)
        ck_assert_int_eq(close(open(inside, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    if (what == OTHER_MODE)
        ck_assert_int_eq(chmod(beside(what), 0750), 0);
    if (what == OTHER_OWNER && chown(beside(what), 12345, 12345) != 0)
        rmdir(beside(what)); /* needs root */
    utimensat(AT_FDCWD, beside(what), (const struct timespec[]){ stamp, stamp }, AT_SYMLINK_NOFOLLOW);
}

START_TEST(test_file__what_killed_processes_left_is_swept)
{
    char path[PATH_MAX], inside[PATH_MAX];
    ck_assert_int_eq(setenv("TMPDIR", kiln_test_temp_dir(), 1), 0);
    for (int what = 0; what < BESIDE; what++)
        make_beside(what);
    kiln_test_temp_write("kiln-temporary-000008", "a file", 6);
    ck_assert_int_eq(kiln__file_make_temporary(path, sizeof path), 0);
    kiln__file_sweep_beside(path);
    ck_assert_int_eq(access(path, F_OK), 0);
    ck_assert_int_eq(access(kiln_test_temp_path("kiln-temporary-000008"), F_OK), 0);
    for (int what = 0; what < BESIDE; what++) {
        snprintf(inside, sizeof inside, "%s/unit.so", beside(what));
        bool there = access(beside(what), F_OK) == 0, full = access(inside, F_OK) == 0;
        if (what == OTHER_OWNER && geteuid() != 0)
            continue;
        ck_assert_msg(there == (what != LEFT_OVER), "%s", beside(what));
        ck_assert_msg(full == (what != LEFT_OVER && what != WITH_DIRECTORY && what != OTHER_FILE), "%s", inside);
    }
    snprintf(inside, sizeof inside, "%s/more", beside(OTHER_FILE));
    ck_assert_int_eq(access(inside, F_OK), 0);
    kiln__file_sweep_beside("nowhere");
    kiln__file_sweep_beside("/nonexistent/kiln-temporary-000009");
}
END_TEST

/* In a child, for root's rights are given up for good. */
static void use_under_mask(mode_t mask)
{
    char path[PATH_MAX];
    struct stat status;
    if (!kiln_test_give_up_rights())
        _exit(0);
    umask(mask);
    ck_assert_int_eq(setenv("TMPDIR", kiln_test_temp_dir(), 1), 0);
    ck_assert_int_eq(kiln__file_make_temporary(path, sizeof path), 0);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode, S_IFDIR | 0700);
    kiln__file_remove_directory(path);
    ck_assert_int_eq(access(path, F_OK), -1);
    int fd = kiln__file_create_unique(directory, "pack-", path);
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0600);
    close(fd);
    for (int i = 0; i < 2; i++) {
        fd = kiln__file_open_append(kiln_test_temp_path("lines"), &status);
        ck_assert_msg(fd >= 0, "open %d: %s", i + 1, strerror(-fd));
        ck_assert_uint_eq(status.st_mode, S_IFREG | 0600);
        ck_assert_int_eq(kiln__file_write(fd, "a\n", 2), 0);
        close(fd);
    }
    for (int i = 0; i < 2; i++) {
        fd = kiln__file_open_private(directory, "lock");
        ck_assert_msg(fd >= 0, "open %d: %s", i + 1, strerror(-fd));
        close(fd);
    }
}

START_TEST(test_file__umask_takes_no_right_of_the_owner)
{
    static const mode_t masks[] = { 0177, 0277, 0777 };
    int result;
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        use_under_mask(masks[_i]);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &result, 0), child);
    ck_assert(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}
END_TEST

START_TEST(test_file__temporary_directory_falls_back_to_tmp)
{
    char path[PATH_MAX];
    ck_assert_int_eq(setenv("TMPDIR", "/nonexistent/kiln", 1), 0);
    ck_assert_int_eq(kiln__file_make_temporary(path, sizeof path), 0);
    ck_assert_int_eq(strncmp(path, "/tmp/kiln-temporary-", 20), 0);
    kiln__file_remove_directory(path);
    ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

START_TEST(test_file__appends_go_to_the_end_whoever_writes)
{
    const char *path = kiln_test_temp_path("lines");
    struct stat status;
    char text[16];
    size_t length;
    umask(077);
    int one = kiln__file_open_append(path, &status), two = kiln__file_open_append(path, &status);
    ck_assert_int_ge(one, 0);
    ck_assert_int_ge(two, 0);
    ck_assert_int_eq(status.st_size, 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0600);
    ck_assert_int_eq(fcntl(one, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(kiln__file_write(one, "a\n", 2), 0);
    ck_assert_int_eq(kiln__file_write(two, "b\n", 2), 0);
    ck_assert_int_eq(kiln__file_write(one, "c\n", 2), 0);
    assert_file("lines", "a\nb\nc\n");
    ck_assert_int_eq(kiln__file_read_some(one, text, sizeof(text), 2, &length), 0);
    ck_assert_uint_eq(length, 4);
    ck_assert_mem_eq(text, "b\nc\n", 4);
    ck_assert_int_eq(kiln__file_read_some(one, text, 3, 0, &length), 0);
    ck_assert_uint_eq(length, 3);
    ck_assert_int_eq(kiln__file_read_some(one, text, sizeof(text), 100, &length), 0);
    ck_assert_uint_eq(length, 0);
    close(one);
    close(two);
    ck_assert_int_eq(kiln__file_read_some(one, text, sizeof(text), 0, &length), -EBADF);
}
END_TEST

START_TEST(test_file__append_opens_regular_files_only_and_never_blocks)
{
    struct stat status;
    const char *path = kiln_test_temp_path("fifo");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(kiln__file_open_append(path, &status), -EINVAL);
    ck_assert_int_eq(kiln__file_open_append("/dev/null", &status), -EINVAL);
    ck_assert_int_eq(kiln__file_open_append(kiln_test_temp_dir(), &status), -EISDIR);
    ck_assert_int_eq(kiln__file_open_append(kiln_test_temp_path("none/lines"), &status), -ENOENT);
}
END_TEST

START_TEST(test_file__no_call_leaks_a_descriptor)
{
    int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(before);
    struct stat status;
    void *bytes;
    size_t length;
    listing seen = { 0 };
    kiln__file_publish(directory, "a", "x", 1, false);
    kiln__file_publish(directory, "a", "x", 1, false);
    kiln__file_publish(directory, "a", "x", 1, true);
    kiln__file_publish(directory, "no/a", "x", 1, true);
    kiln__file_read(&bytes, &length, directory, "a", 0, 0, &status);
    kiln__file_read(&bytes, &length, directory, ".", 0, 0, &status);
    kiln__file_list(directory, note, &seen);
    ck_assert_int_lt(kiln__file_open_append("/dev/null", &status), 0);
    kiln__file_remove_directory(kiln_test_temp_path("none"));
    int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(after);
    ck_assert_int_eq(after, before);
}
END_TEST

static TCase *publish_case(const char *name, void (*refuse)(void))
{
    TCase *tcase = tcase_create(name);
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, open_directory, close_directory);
    if (refuse)
        tcase_add_checked_fixture(tcase, refuse, NULL);
    tcase_add_test(tcase, test_file__publish_makes_a_private_file);
    tcase_add_test(tcase, test_file__publish_replaces_only_when_asked);
    tcase_add_test(tcase, test_file__publish_failures_leave_nothing_behind);
    tcase_add_test(tcase, test_file__publish_replaces_a_link_and_not_its_target);
    tcase_add_test(tcase, test_file__publish_beyond_the_file_size_limit_fails_quietly);
    tcase_add_test(tcase, test_file__reader_never_sees_a_part);
    tcase_add_test(tcase, test_file__one_of_many_publishers_wins);
    return tcase;
}

Suite *kiln_test_os_file_suite(void)
{
    Suite *suite = suite_create("file");
    TCase *tcase = tcase_create("file");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, open_directory, close_directory);
    tcase_add_test(tcase, test_file__read_gives_whole_file_and_status);
    tcase_add_test(tcase, test_file__read_at_reads_all_or_fails);
    tcase_add_test(tcase, test_file__unique_files_are_new_and_readable);
    tcase_add_test(tcase, test_file__shared_files_may_be_roots_and_have_several_names);
    tcase_add_test(tcase, test_file__empty_file_is_an_empty_text);
    tcase_add_test(tcase, test_file__read_refuses_what_is_too_large_missing_or_special);
    tcase_add_test(tcase, test_file__read_without_memory_says_so);
    tcase_add_test(tcase, test_file__make_directory_makes_missing_parents);
    tcase_add_test(tcase, test_file__make_directory_says_what_is_in_the_way);
    tcase_add_test(tcase, test_file__make_directory_follows_links_above);
    tcase_add_test(tcase, test_file__open_directory_makes_one_only_when_asked);
    tcase_add_test(tcase, test_file__list_visits_each_name_once_and_can_stop);
    tcase_add_test(tcase, test_file__remove_same_spares_another_file);
    tcase_add_test(tcase, test_file__temporary_directory_comes_and_goes);
    tcase_add_test(tcase, test_file__what_killed_processes_left_is_swept);
    tcase_add_loop_test(tcase, test_file__umask_takes_no_right_of_the_owner, 0, 3);
    tcase_add_test(tcase, test_file__temporary_directory_falls_back_to_tmp);
    tcase_add_test(tcase, test_file__appends_go_to_the_end_whoever_writes);
    tcase_add_test(tcase, test_file__append_opens_regular_files_only_and_never_blocks);
    tcase_add_test(tcase, test_file__no_call_leaks_a_descriptor);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, publish_case("publish", NULL));
    suite_add_tcase(suite, publish_case("publish without unnamed files", refuse_unnamed_files));
    suite_add_tcase(suite, publish_case("publish without links", refuse_links));
    suite_add_tcase(suite, publish_case("publish without rename flags", refuse_rename_flags_too));
    return suite;
}
