#include "store/disk.h"
#include "base/alloc.h"
#include "base/text.h"
#include "os/file.h"
#include "os/trust.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VERSION_DIRECTORY "v1"
#define TAG_NAME          "CACHEDIR.TAG"
#define LOCK_NAME         "lock"
#define ENTRY_SUFFIX      ".kiln"
#define TEMPORARY_PREFIX  "tmp."

enum {
    SHARDS = 256,
    SHARD_NAME_SIZE = 3,
    REST_LENGTH = 2 * KILN__DIGEST_SIZE - 2, /* hexadecimal digits of a digest after those that name the shard */
    NAME_SIZE = REST_LENGTH + 1 + KILN__ENTRY_TOOLCHAIN_SIZE + sizeof ENTRY_SUFFIX,
    TEMPORARY_MAX_AGE = 3600 /* seconds */
};

static const char tag_text[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This directory is a cache of compiled kernels made by Kiln: all of it can be made again.\n"
    "# For information about cache directory tags see https://bford.info/cachedir/\n";

/* What went wrong with one file or directory. */
typedef enum disk_cause {
    CAUSE_NONE,
    CAUSE_DAMAGED,
    CAUSE_UNTRUSTED,
    CAUSE_ELEVATED,
    CAUSE_READ,
    CAUSE_WRITE
} disk_cause;

typedef struct disk_problem {
    disk_cause cause;
    char where[8 + NAME_SIZE]; /* below the root; "" is the root itself */
    char text[160];
} disk_problem;

typedef struct disk_store {
    kiln__store base;
    const kiln__log *log;
    kiln__store_counters *counters;
    char *root;
    int root_fd;        /* the same number until close, see reopen_root */
    atomic_uint warned; /* one bit per cause */
} disk_store;

/* One entry file as it was found. */
typedef struct disk_reading {
    kiln__blob *blob; /* NULL unless it is good */
    struct stat status;
    disk_problem problem; /* CAUSE_NONE without a blob: there is no such file */
} disk_reading;

static const char *const advice[] = {
    [CAUSE_DAMAGED] = "it is removed and will be made again",
    [CAUSE_UNTRUSTED] = "it is not used; remove it, or make it your own and writable by nobody else",
    [CAUSE_ELEVATED] = "run Kiln without setuid, setgid and file capabilities to use it",
    [CAUSE_READ] = "what it holds is compiled again; check the directory's permissions and the disk",
    [CAUSE_WRITE] = "new kernels are not kept; check the directory's permissions and the free space",
};

static void note(disk_store *store, const disk_problem *problem)
{
    if (problem->cause == CAUSE_NONE)
        return;
    if (problem->cause == CAUSE_DAMAGED)
        atomic_fetch_add_explicit(&store->counters->damaged, 1, memory_order_relaxed);
    else if (problem->cause == CAUSE_UNTRUSTED || problem->cause == CAUSE_ELEVATED)
        atomic_fetch_add_explicit(&store->counters->untrusted, 1, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&store->counters->errors, 1, memory_order_relaxed);
    unsigned bit = 1u << problem->cause;
    if ((atomic_fetch_or_explicit(&store->warned, bit, memory_order_relaxed) & bit) == 0)
        kiln__log_line(store->log, KILN_LOG_WARN, "store %s%s%s: %s; %s", store->root, problem->where[0] ? "/" : "",
                       problem->where, problem->text, advice[problem->cause]);
}

/* Fills a problem from a negative errno, which it returns. */
static int fail(disk_problem *problem, disk_cause cause, const char *where, int error)
{
    const char *text = strerrordesc_np(-error);
    problem->cause = cause;
    kiln__text_copy(problem->where, sizeof problem->where, where);
    kiln__text_copy(problem->text, sizeof problem->text, text ? text : "unknown error");
    return error;
}

static int fail_untrusted(disk_problem *problem, const char *where, const char *reason)
{
    problem->cause = CAUSE_UNTRUSTED;
    kiln__text_copy(problem->where, sizeof problem->where, where);
    kiln__text_copy(problem->text, sizeof problem->text, reason);
    return -EPERM;
}

static int check_directory(int directory, const char *where, disk_cause cause, disk_problem *problem)
{
    struct stat status;
    char buffer[sizeof problem->text];
    if (fstat(directory, &status) != 0)
        return fail(problem, cause, where, -errno);
    const char *reason = kiln__trust_refuse_directory(&status, buffer, sizeof buffer);
    return reason ? fail_untrusted(problem, where, reason) : 0;
}

/* Opens a directory inside the store. A missing one is made, or if not `make` is no problem: -ENOENT. */
static int open_inside(int parent, const char *name, const char *where, bool make, disk_problem *problem)
{
    disk_cause cause = make ? CAUSE_WRITE : CAUSE_READ;
    int directory = kiln__file_open_directory(parent, name, make);
    if (directory == -ENOENT)
        return -ENOENT;
    if (directory < 0) {
        struct stat status;
        if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode))
            return fail_untrusted(problem, where, "is a link, expected a directory");
        return fail(problem, cause, where, directory);
    }
    int error = check_directory(directory, where, cause, problem);
    if (error != 0)
        close(directory);
    return error != 0 ? error : directory;
}

static int open_version(disk_store *store, bool make, disk_problem *problem)
{
    problem->cause = CAUSE_NONE;
    int error = check_directory(store->root_fd, "", make ? CAUSE_WRITE : CAUSE_READ, problem);
    return error != 0 ? error : open_inside(store->root_fd, VERSION_DIRECTORY, VERSION_DIRECTORY, make, problem);
}

static int open_shard_in(int version, unsigned shard, bool make, disk_problem *problem)
{
    char where[16];
    problem->cause = CAUSE_NONE;
    snprintf(where, sizeof where, VERSION_DIRECTORY "/%02x", shard);
    return open_inside(version, where + sizeof VERSION_DIRECTORY, where, make, problem);
}

/* A descriptor of the key's shard or a negative errno, with the problem if it is one. */
static int open_shard(disk_store *store, unsigned shard, bool make, disk_problem *problem)
{
    int version = open_version(store, make, problem);
    if (version < 0)
        return version;
    int directory = open_shard_in(version, shard, make, problem);
    close(version);
    return directory;
}

static bool has_file_name(const kiln__key *key)
{
    size_t length = strnlen(key->toolchain, sizeof key->toolchain);
    return length > 0 && length < sizeof key->toolchain && !memchr(key->toolchain, '/', length);
}

static void format_name(char out[NAME_SIZE], const kiln__key *key)
{
    char hex[KILN__DIGEST_HEX];
    kiln__digest_hex(hex, key->digest);
    snprintf(out, NAME_SIZE, "%s.%s" ENTRY_SUFFIX, hex + SHARD_NAME_SIZE - 1, key->toolchain);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_entry_name(const char *name)
{
    size_t length = strlen(name), suffix = sizeof ENTRY_SUFFIX - 1;
    return length > suffix && strcmp(name + length - suffix, ENTRY_SUFFIX) == 0;
}

/* Reads the key from a file's name. */
static bool parse_name(kiln__key *out, unsigned shard, const char *name)
{
    memset(out, 0, sizeof *out);
    out->digest[0] = (uint8_t)shard;
    for (size_t i = 1; i < KILN__DIGEST_SIZE; i++, name += 2) {
        int high = hex_digit(name[0]), low = high < 0 ? -1 : hex_digit(name[1]);
        if (low < 0)
            return false;
        out->digest[i] = (uint8_t)(high << 4 | low);
    }
    size_t suffix = sizeof ENTRY_SUFFIX - 1, length = strlen(name);
    if (name[0] != '.' || !is_entry_name(name) || length < suffix + 2 || length - suffix - 1 >= sizeof out->toolchain)
        return false;
    memcpy(out->toolchain, name + 1, length - suffix - 1);
    return true;
}

/* Says why a file that was opened or not, with `error` from reading it, is not even worth decoding. */
static int check_file(disk_reading *out, const char *where, int error)
{
    char buffer[sizeof out->problem.text];
    if (error == -ENOENT)
        return error;
    if (error == -ELOOP)
        return fail_untrusted(&out->problem, where, "is a link, expected a regular file");
    if (error == -ENXIO)
        return fail_untrusted(&out->problem, where, "is a special file, expected a regular file");
    if (out->status.st_mode != 0) {
        const char *reason = kiln__trust_refuse_file(&out->status, buffer, sizeof buffer);
        if (reason)
            return fail_untrusted(&out->problem, where, reason);
    }
    if (error != 0)
        fail(&out->problem, error == -EFBIG ? CAUSE_DAMAGED : CAUSE_READ, where, error);
    return error;
}

/* Reads and checks one file of a shard. */
static void read_entry(disk_reading *out, int directory, const char *name, const kiln__key *key)
{
    void *bytes = NULL;
    size_t length = 0;
    char where[sizeof out->problem.where];
    kiln__entry_fault fault = KILN__ENTRY_GOOD;
    memset(out, 0, sizeof *out);
    snprintf(where, sizeof where, VERSION_DIRECTORY "/%02x/%s", key->digest[0], name);
    int error = kiln__file_read(&bytes, &length, directory, name, O_NOFOLLOW, KILN__ENTRY_MAX_BYTES, &out->status);
    if (check_file(out, where, error) != 0) {
        if (error == 0)
            kiln__free(bytes);
        return;
    }
    out->blob = kiln__blob_take(bytes, length, key, &fault);
    if (out->blob)
        return;
    fail(&out->problem, fault == KILN__ENTRY_GOOD ? CAUSE_READ : CAUSE_DAMAGED, where, -ENOMEM);
    if (fault != KILN__ENTRY_GOOD)
        kiln__text_copy(out->problem.text, sizeof out->problem.text, kiln__entry_fault_text(fault));
}

static kiln__blob *get_exact(disk_store *store, int directory, const kiln__key *key)
{
    char name[NAME_SIZE];
    disk_reading reading;
    if (!has_file_name(key))
        return NULL;
    format_name(name, key);
    read_entry(&reading, directory, name, key);
    /* What is damaged would stay in the way of the good entry that the caller is about to make. */
    if (reading.problem.cause == CAUSE_DAMAGED)
        kiln__file_remove_same(directory, name, &reading.status);
    note(store, &reading.problem);
    return reading.blob;
}

typedef struct newest {
    const kiln__key *wanted;
    kiln__key found; /* an empty toolchain: none yet */
    char below[KILN__ENTRY_TOOLCHAIN_SIZE];
} newest;

static int take_newest(void *data, const char *name)
{
    newest *search = data;
    kiln__key key;
    if (parse_name(&key, search->wanted->digest[0], name) &&
        memcmp(key.digest, search->wanted->digest, sizeof key.digest) == 0 &&
        (search->below[0] == '\0' || kiln__toolchain_compare(key.toolchain, search->below) < 0) &&
        (search->found.toolchain[0] == '\0' || kiln__toolchain_compare(key.toolchain, search->found.toolchain) > 0))
        search->found = key;
    return 0;
}

/* Lists the shard again for each entry that turns out bad: that is rare, and needs no memory. */
static kiln__blob *get_newest(disk_store *store, int directory, const kiln__key *key)
{
    newest search = { .wanted = key };
    for (;;) {
        search.found.toolchain[0] = '\0';
        int error = kiln__file_list(directory, take_newest, &search);
        if (error != 0) {
            disk_problem problem;
            fail(&problem, CAUSE_READ, VERSION_DIRECTORY, error);
            note(store, &problem);
            return NULL;
        }
        if (search.found.toolchain[0] == '\0')
            return NULL;
        kiln__blob *blob = get_exact(store, directory, &search.found);
        if (blob)
            return blob;
        memcpy(search.below, search.found.toolchain, sizeof search.below);
    }
}

static kiln__blob *disk_get(kiln__store *base, const kiln__key *key)
{
    disk_store *store = (disk_store *)base;
    disk_problem problem;
    int directory = open_shard(store, key->digest[0], false, &problem);
    if (directory < 0) {
        note(store, &problem);
        return NULL;
    }
    kiln__blob *blob = key->toolchain[0] != '\0' ? get_exact(store, directory, key) : get_newest(store, directory, key);
    close(directory);
    return blob;
}

static int write_tag(int root)
{
    struct stat status;
    if (fstatat(root, TAG_NAME, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    int error = kiln__file_publish(root, TAG_NAME, tag_text, sizeof tag_text - 1, false);
    return error == -EEXIST ? 0 : error;
}

/* Somebody removed the whole directory: makes it again. dup3 puts the new one under the old number at once, so that
 * no thread ever meets a closed descriptor. */
static void reopen_root(disk_store *store)
{
    disk_problem problem;
    int root = kiln__file_make_directory(store->root);
    if (root < 0)
        return;
    if (check_directory(root, "", CAUSE_WRITE, &problem) == 0 && dup3(root, store->root_fd, O_CLOEXEC) >= 0)
        write_tag(root);
    close(root);
}

static int put_once(disk_store *store, const kiln__blob *blob, disk_problem *problem)
{
    const kiln__key *key = &blob->entry.key;
    char name[NAME_SIZE], where[sizeof problem->where];
    format_name(name, key);
    snprintf(where, sizeof where, VERSION_DIRECTORY "/%02x/%s", key->digest[0], name);
    int directory = open_shard(store, key->digest[0], true, problem);
    if (directory < 0)
        return directory == -ENOENT ? fail(problem, CAUSE_WRITE, where, directory) : directory;
    int error = kiln__file_publish(directory, name, blob->bytes, blob->length, false);
    close(directory);
    /* What is there is somebody else's equal entry: a damaged one was removed by the get before this put. */
    if (error == 0 || error == -EEXIST)
        return 0;
    return fail(problem, CAUSE_WRITE, where, error);
}

static void disk_put(kiln__store *base, kiln__blob *blob)
{
    disk_store *store = (disk_store *)base;
    disk_problem problem;
    int error = put_once(store, blob, &problem);
    if (error == -ENOENT) {
        reopen_root(store);
        error = put_once(store, blob, &problem);
    }
    if (error != 0)
        note(store, &problem);
}

static void disk_drop(kiln__store *base, const kiln__key *key)
{
    disk_store *store = (disk_store *)base;
    char name[NAME_SIZE];
    disk_problem problem;
    int directory = has_file_name(key) ? open_shard(store, key->digest[0], false, &problem) : -ENOENT;
    if (directory < 0)
        return;
    format_name(name, key);
    if (unlinkat(directory, name, 0) != 0 && errno != ENOENT) {
        fail(&problem, CAUSE_WRITE, name, -errno);
        note(store, &problem);
    }
    close(directory);
}

static void disk_close(kiln__store *base)
{
    disk_store *store = (disk_store *)base;
    if (store->root_fd >= 0)
        close(store->root_fd);
    kiln__free(store->root);
    kiln__free(store);
}

static const kiln__store_vtable disk_vtable = { "disk", disk_get, disk_put, disk_drop, disk_close };

/* Absolute, so that it still names the same place after a chdir; without a slash at the end. */
static char *absolute_path(const char *path)
{
    char here[PATH_MAX];
    kiln__text text = { 0 };
    if (path[0] != '/' && getcwd(here, sizeof here))
        kiln__text_printf(&text, "%s/", strcmp(here, "/") == 0 ? "" : here);
    kiln__text_append(&text, path);
    while (text.length > 1 && !text.failed && text.data[text.length - 1] == '/')
        text.data[--text.length] = '\0';
    char *taken = text.failed ? NULL : kiln__text_take(&text);
    kiln__text_fini(&text);
    return taken;
}

static int open_root(disk_store *store, disk_problem *problem)
{
    if (kiln__trust_is_elevated()) {
        fail_untrusted(problem, "", "not used by a process with more rights than the user who started it");
        problem->cause = CAUSE_ELEVATED;
        return -EPERM;
    }
    store->root_fd = kiln__file_make_directory(store->root);
    if (store->root_fd < 0)
        return fail(problem, CAUSE_WRITE, "", store->root_fd);
    return check_directory(store->root_fd, "", CAUSE_READ, problem);
}

kiln__store *kiln__disk_store_open(const char *root, const kiln__log *log, kiln__store_counters *counters,
                                   char *problem_text, size_t size)
{
    disk_problem problem = { 0 };
    disk_store *store = kiln__calloc(1, sizeof *store);
    char *path = store ? absolute_path(root) : NULL;
    if (!path) {
        kiln__free(store);
        kiln__text_copy(problem_text, size, "out of memory");
        return NULL;
    }
    store->base.vtable = &disk_vtable;
    store->log = log;
    store->counters = counters;
    store->root = path;
    store->root_fd = -1;
    atomic_init(&store->warned, 0);
    if (open_root(store, &problem) != 0) {
        note(store, &problem);
        kiln__text_copy(problem_text, size, problem.text);
        disk_close(&store->base);
        return NULL;
    }
    kiln__text_copy(problem_text, size, "");
    int error = write_tag(store->root_fd);
    if (error != 0) {
        fail(&problem, CAUSE_WRITE, TAG_NAME, error);
        note(store, &problem);
    }
    return &store->base;
}

typedef struct disk_walk {
    disk_store *store;
    int directory;
    unsigned shard;
    int (*file)(void *data, const char *name); /* called for each name in a shard, with the walk as its data */
    int (*fn)(void *data, const kiln__store_item *item);
    void *data;
    bool damaged_only, stopped;
    uint64_t removed;
} disk_walk;

/* Hands one file, or a directory that cannot be used, to the visitor, if there is one. */
static void report_item(disk_walk *walk, const char *where, const disk_reading *found)
{
    kiln__text path = { 0 };
    if (!walk->fn || (!found->blob && found->problem.cause == CAUSE_NONE))
        return;
    kiln__text_printf(&path, "%s/%s", walk->store->root, where);
    kiln__store_item item = { .path = kiln__text_string(&path),
                              .bytes = (uint64_t)found->status.st_size,
                              .entry = found->blob ? &found->blob->entry : NULL,
                              .untrusted = found->problem.cause == CAUSE_UNTRUSTED,
                              .problem = found->problem.cause != CAUSE_NONE ? found->problem.text : "" };
    walk->stopped = walk->fn(walk->data, &item) != 0;
    kiln__text_fini(&path);
}

/* Reads the file of that name, which ends as an entry's does but may be no name of an entry. */
static void read_named(disk_reading *out, const disk_walk *walk, const char *name)
{
    kiln__key key;
    if (parse_name(&key, walk->shard, name)) {
        read_entry(out, walk->directory, name, &key);
        return;
    }
    memset(out, 0, sizeof *out);
    if (fstatat(walk->directory, name, &out->status, AT_SYMLINK_NOFOLLOW) == 0) {
        out->problem.cause = CAUSE_DAMAGED;
        kiln__text_copy(out->problem.text, sizeof out->problem.text, "its name is not that of an entry");
    }
}

static int visit_file(void *data, const char *name)
{
    disk_walk *walk = data;
    disk_reading found;
    char where[512];
    if (!is_entry_name(name))
        return 0;
    read_named(&found, walk, name);
    snprintf(where, sizeof where, VERSION_DIRECTORY "/%02x/%s", walk->shard, name);
    report_item(walk, where, &found);
    kiln__blob_release(found.blob);
    return walk->stopped;
}

static int purge_temporary(void *data, const char *name)
{
    const int *directory = data;
    struct stat status;
    if (strncmp(name, TEMPORARY_PREFIX, sizeof TEMPORARY_PREFIX - 1) == 0 &&
        fstatat(*directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
        status.st_mtime + TEMPORARY_MAX_AGE < time(NULL))
        unlinkat(*directory, name, 0);
    return 0;
}

static int purge_file(void *data, const char *name)
{
    disk_walk *walk = data;
    disk_reading found;
    if (!is_entry_name(name))
        return purge_temporary(&walk->directory, name);
    if (!walk->damaged_only) {
        walk->removed += unlinkat(walk->directory, name, 0) == 0;
        return 0;
    }
    read_named(&found, walk, name);
    if (found.problem.cause == CAUSE_DAMAGED)
        walk->removed += kiln__file_remove_same(walk->directory, name, &found.status) == 0;
    kiln__blob_release(found.blob);
    return 0;
}

/* Lists every shard that can be used and reports the others. */
static void walk_shards(disk_walk *walk, int version)
{
    char where[16];
    for (walk->shard = 0; walk->shard < SHARDS && !walk->stopped; walk->shard++) {
        disk_reading found = { 0 };
        walk->directory = open_shard_in(version, walk->shard, false, &found.problem);
        if (walk->directory < 0) {
            report_item(walk, found.problem.where, &found);
            continue;
        }
        int error = kiln__file_list(walk->directory, walk->file, walk);
        close(walk->directory);
        if (error < 0) {
            snprintf(where, sizeof where, VERSION_DIRECTORY "/%02x", walk->shard);
            fail(&found.problem, CAUSE_READ, where, error);
            report_item(walk, where, &found);
        }
    }
}

int kiln__disk_store_visit(kiln__store *base, int (*fn)(void *data, const kiln__store_item *item), void *data)
{
    disk_walk walk = { .store = (disk_store *)base, .file = visit_file, .fn = fn, .data = data };
    disk_problem problem;
    int version = open_version(walk.store, false, &problem);
    if (version < 0)
        return version == -ENOENT ? 0 : version;
    walk_shards(&walk, version);
    close(version);
    return 0;
}

uint64_t kiln__disk_store_purge(kiln__store *base, bool damaged_only)
{
    disk_walk walk = { .store = (disk_store *)base, .file = purge_file, .damaged_only = damaged_only };
    disk_problem problem;
    int version = open_version(walk.store, false, &problem);
    if (version < 0)
        return 0;
    kiln__file_list(walk.store->root_fd, purge_temporary, &walk.store->root_fd);
    kiln__file_list(version, purge_temporary, &version);
    walk_shards(&walk, version);
    close(version);
    return walk.removed;
}

int kiln__disk_store_probe(kiln__store *base)
{
    static const char name[] = TEMPORARY_PREFIX "probe";
    disk_store *store = (disk_store *)base;
    disk_problem problem;
    int directory = open_version(store, true, &problem);
    if (directory < 0)
        return directory;
    int error = kiln__file_publish(directory, name, name, sizeof name - 1, true);
    if (error == 0 && unlinkat(directory, name, 0) != 0 && errno != ENOENT)
        error = -errno;
    close(directory);
    return error;
}

static int open_lock_once(disk_store *store)
{
    disk_problem problem;
    struct stat status;
    char buffer[sizeof problem.text];
    int version = open_version(store, true, &problem);
    if (version < 0)
        return version;
    int fd = openat(version, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    int error = fd < 0 || fstat(fd, &status) != 0 ? -errno : 0;
    close(version);
    if (error == 0 && kiln__trust_refuse_file(&status, buffer, sizeof buffer))
        error = -EPERM;
    if (error == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return error;
}

int kiln__disk_store_open_lock(kiln__store *base)
{
    disk_store *store = (disk_store *)base;
    int fd = open_lock_once(store);
    if (fd != -ENOENT)
        return fd;
    reopen_root(store);
    return open_lock_once(store);
}

const char *kiln__disk_store_root(const kiln__store *base)
{
    return ((const disk_store *)base)->root;
}
