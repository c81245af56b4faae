#include "support/temp.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATHS = 16, DIRECTORY_SIZE = 256 };

/* The case's directory is made and removed by the runner, for a failing test ends its process without its teardown. */
static char case_dir[DIRECTORY_SIZE];
static char test_dir[DIRECTORY_SIZE + 8];

static void make_directory(char *out, size_t size, const char *parent, const char *prefix)
{
    ck_assert_int_lt(snprintf(out, size, "%s/%sXXXXXX", parent, prefix), (int)size);
    ck_assert_msg(mkdtemp(out) != NULL, "cannot make a temporary directory in %s", parent);
}

static void open_case(void)
{
    const char *parent = getenv("TMPDIR");
    make_directory(case_dir, sizeof case_dir, parent && parent[0] == '/' ? parent : "/tmp", "kiln-test-");
}

static void close_case(void)
{
    kiln_test_temp_remove(case_dir);
}

static void open_test(void)
{
    make_directory(test_dir, sizeof test_dir, case_dir, "");
}

static void close_test(void)
{
    kiln_test_temp_remove(test_dir);
}

void kiln_test_temp_use(TCase *tcase)
{
    tcase_add_unchecked_fixture(tcase, open_case, close_case);
    tcase_add_checked_fixture(tcase, open_test, close_test);
}

const char *kiln_test_temp_dir(void)
{
    return test_dir;
}

const char *kiln_test_temp_path(const char *name)
{
    static char paths[PATHS][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % PATHS];
    ck_assert_int_lt(snprintf(path, PATH_MAX, "%s/%s", test_dir, name), PATH_MAX);
    return path;
}

void kiln_test_temp_write(const char *name, const void *bytes, size_t length)
{
    int fd = open(kiln_test_temp_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_msg(fd >= 0, "cannot create %s", name);
    ck_assert_int_eq(write(fd, bytes, length), (ssize_t)length);
    ck_assert_int_eq(close(fd), 0);
}

int kiln_test_temp_count(const char *name)
{
    DIR *stream = opendir(kiln_test_temp_path(name));
    ck_assert_msg(stream != NULL, "cannot open directory %s", name);
    int count = 0;
    struct dirent *entry;
    while ((entry = readdir(stream)) != NULL)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            count++;
    closedir(stream);
    return count;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)type;
    (void)where;
    remove(path);
    return 0;
}

static int open_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)where;
    if (type == FTW_D || type == FTW_DNR)
        chmod(path, 0700);
    return 0;
}

void kiln_test_temp_remove(const char *path)
{
    nftw(path, open_one, 16, FTW_PHYS);
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
