/* Left-over temporaries of the store in a test's directory "cache", and of other writers beside it. For suites that
 * include support/cache.h. */
#ifndef KILN_TESTS_FAULT_LITTER_H
#define KILN_TESTS_FAULT_LITTER_H

#include "support/cache.h"
#include <dirent.h>
#include <ftw.h>

static const struct timespec litter_long_ago[2] = { { 1000000, 0 }, { 1000000, 0 } };
static int litter_seen;
static bool litter_age;

static inline int litter_visit(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    if (type != FTW_F || strncmp(path + where->base, "tmp.", 4) != 0)
        return 0;
    litter_seen++;
    return litter_age ? utimensat(AT_FDCWD, path, litter_long_ago, AT_SYMLINK_NOFOLLOW) : 0;
}

/* How many temporaries there are; with `age` they become old enough for a purge to take them. */
static inline int count_litter(bool age)
{
    litter_seen = 0;
    litter_age = age;
    nftw(root, litter_visit, 16, FTW_PHYS);
    return litter_seen;
}

/* How many temporaries of packs there are in the test's directory; with `age` the next export there takes them. */
static inline int count_pack_litter(bool age)
{
    static const char prefix[] = "tmp.kilnpack.";
    int count = 0;
    DIR *stream = opendir(kiln_test_temp_dir());
    ck_assert_ptr_nonnull(stream);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        if (strncmp(entry->d_name, prefix, sizeof(prefix) - 1) != 0)
            continue;
        count++;
        if (age)
            ck_assert_int_eq(utimensat(dirfd(stream), entry->d_name, litter_long_ago, 0), 0);
    }
    closedir(stream);
    return count;
}

/* Ages what is left over, purges damaged entries and left-overs, and returns how many are still there. */
static inline int sweep_litter(void)
{
    count_litter(true);
    uint64_t removed;
    char complaint[512];
    kiln__disk_store_purge(store, kiln_test_is_damaged, NULL, &removed, complaint, sizeof(complaint));
    return count_litter(false);
}

#endif
