/* What the suites of the directory store share: a store in the test's own directory, its counters and warnings, and
 * ways to harm it. Each suite that includes this has a state of its own; a checked fixture calls setup and teardown. */
#ifndef KILN_TESTS_SUPPORT_CACHE_H
#define KILN_TESTS_SUPPORT_CACHE_H

#include "store/disk.h"
#include "support/blobs.h"
#include "support/temp.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 512 };

static kiln__store *store;
static kiln__store_counters counters;
static kiln__log log_;
static atomic_uint warnings;
static char last_warning[2048];
static char problem[256];
static char root[PATH_SIZE];
static int descriptors;
static uint8_t payload[5000];

static inline void count_warning(void *data, kiln_log_level level, const char *message)
{
    (void)data;
    kiln_test_require(level == KILN_LOG_WARN, "a warning");
    if (atomic_fetch_add(&warnings, 1) == 0)
        snprintf(last_warning, sizeof last_warning, "%s", message);
}

static inline int count_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static inline void setup(void)
{
    memset(&counters, 0, sizeof counters);
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(i * 31);
    atomic_store(&warnings, 0);
    last_warning[0] = '\0';
    kiln__log_init(&log_, count_warning, NULL, KILN_LOG_WARN);
    snprintf(root, sizeof root, "%s/cache", kiln_test_temp_dir());
    descriptors = count_descriptors();
    store = NULL;
}

static inline void teardown(void)
{
    if (store)
        store->vtable->close(store);
    store = NULL;
    ck_assert_int_eq(count_descriptors(), descriptors);
}

static inline void open_store(void)
{
    store = kiln__disk_store_open(root, &log_, &counters, problem, sizeof problem);
    ck_assert_msg(store != NULL, "%s", problem);
    ck_assert_str_eq(problem, "");
}

static inline void put_as(const char *text, const char *toolchain)
{
    kiln__blob *blob = kiln_test_blob(text, toolchain, payload, 900);
    store->vtable->put(store, blob, false);
    kiln__blob_release(blob);
}

static inline void put(const char *text)
{
    put_as(text, "cc-1");
}

static inline kiln__blob *get_as(const char *text, const char *toolchain)
{
    kiln__key key = kiln_test_key(text, toolchain);
    return store->vtable->get(store, &key, false, NULL);
}

/* Whether a get finds the entry, which must then be right. Any thread. */
static inline bool has(const char *text)
{
    kiln__blob *blob = get_as(text, "cc-1");
    if (!blob)
        return false;
    const kiln__section *cubin = kiln__entry_find(&blob->entry, "cubin");
    kiln_test_require(strcmp(blob->entry.key_text, text) == 0, "the right key text");
    kiln_test_require(strcmp(blob->entry.key.toolchain, "cc-1") == 0, "the right toolchain");
    kiln_test_require(cubin && cubin->length == 900 && memcmp(cubin->data, payload, 900) == 0, "the right bytes");
    kiln__blob_release(blob);
    return true;
}

static inline void expect(unsigned damaged, unsigned untrusted, unsigned errors, unsigned lines)
{
    ck_assert_uint_eq(atomic_load(&counters.damaged), damaged);
    ck_assert_uint_eq(atomic_load(&counters.untrusted), untrusted);
    ck_assert_uint_eq(atomic_load(&counters.errors), errors);
    ck_assert_msg(atomic_load(&warnings) == lines, "%u warnings, expected %u; the first: %s", atomic_load(&warnings),
                  lines, last_warning);
}

static inline void shard_path(char out[PATH_SIZE], const char *text)
{
    char hex[KILN__DIGEST_HEX];
    kiln__key key = kiln_test_key(text, "");
    kiln__digest_hex(hex, key.digest);
    snprintf(out, PATH_SIZE, "%.300s/v1/%.2s", root, hex);
}

static inline void path_as(char out[PATH_SIZE], const char *text, const char *toolchain)
{
    char hex[KILN__DIGEST_HEX];
    kiln__key key = kiln_test_key(text, "");
    kiln__digest_hex(hex, key.digest);
    snprintf(out, PATH_SIZE, "%.300s/v1/%.2s/%s.%s.kiln", root, hex, hex + 2, toolchain);
}

static inline bool exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

static inline size_t slurp(const char *path, uint8_t *out, size_t size)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    size_t length = fread(out, 1, size, file);
    fclose(file);
    return length;
}

static inline void spill(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "cannot make %s", path);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(path, 0600), 0);
}

enum { FLIP, CUT, CUT_ALL, GROW, OTHER_ENTRY, OTHER_TOOLCHAIN, ZEROS, TOO_LARGE, DAMAGES };

static inline void damage(const char *path, int how)
{
    uint8_t bytes[3000];
    char other[PATH_SIZE];
    size_t length = slurp(path, bytes, sizeof bytes);
    unlink(path);
    if (how == FLIP)
        bytes[500] ^= 0x20;
    else if (how == CUT || how == CUT_ALL)
        length = how == CUT ? length - 1 : 0;
    else if (how == GROW)
        bytes[length++] = 0;
    else if (how == ZEROS)
        memset(bytes, 0, length);
    if (how == OTHER_ENTRY || how == OTHER_TOOLCHAIN) {
        put_as(how == OTHER_ENTRY ? "other" : "one", how == OTHER_ENTRY ? "cc-1" : "cc-2");
        path_as(other, how == OTHER_ENTRY ? "other" : "one", how == OTHER_ENTRY ? "cc-1" : "cc-2");
        length = slurp(other, bytes, sizeof bytes);
    }
    spill(path, bytes, length);
    if (how == TOO_LARGE)
        ck_assert_int_eq(truncate(path, (off_t)KILN__ENTRY_MAX_BYTES + 1), 0);
}

enum { LINK, DANGLING_LINK, LINK_TO_DEVICE, FIFO, DIRECTORY, SOCKET, HARD_LINK, GROUP_MODE, WORLD_MODE, IMPOSTORS };

/* Puts something in the place of a good entry; false if the machine does not let us. */
static inline void impose(const char *path, int what)
{
    char aside[PATH_SIZE];
    snprintf(aside, sizeof aside, "%s/aside", kiln_test_temp_dir());
    if (what == GROUP_MODE || what == WORLD_MODE) {
        ck_assert_int_eq(chmod(path, what == GROUP_MODE ? 0660 : 0602), 0);
        return;
    }
    if (what == HARD_LINK) {
        ck_assert_int_eq(link(path, aside), 0);
        return;
    }
    ck_assert_int_eq(rename(path, aside), 0);
    if (what == LINK)
        ck_assert_int_eq(symlink(aside, path), 0);
    else if (what == DANGLING_LINK)
        ck_assert_int_eq(symlink("/nonexistent/file", path), 0);
    else if (what == LINK_TO_DEVICE)
        ck_assert_int_eq(symlink("/dev/zero", path), 0);
    else if (what == FIFO)
        ck_assert_int_eq(mkfifo(path, 0600), 0);
    else if (what == DIRECTORY)
        ck_assert_int_eq(mkdir(path, 0700), 0);
    else
        ck_assert_int_eq(mknod(path, S_IFSOCK | 0600, 0), 0);
}

typedef struct tally {
    int good, damaged, untrusted, calls, stop_after;
    char last_path[PATH_SIZE], last_problem[200];
} tally;

static inline int take_item(void *data, const kiln__store_item *item)
{
    tally *self = data;
    self->calls++;
    self->good += item->entry != NULL;
    self->untrusted += item->untrusted;
    self->damaged += !item->entry && !item->untrusted;
    ck_assert_int_eq(item->entry != NULL, item->problem[0] == '\0');
    if (item->entry) {
        ck_assert_uint_gt(item->bytes, 900);
        ck_assert_str_eq(item->entry->key.toolchain, "cc-1");
    } else {
        snprintf(self->last_path, sizeof self->last_path, "%s", item->path);
        snprintf(self->last_problem, sizeof self->last_problem, "%s", item->problem);
    }
    return self->calls == self->stop_after;
}

#endif
