#include "store/disk.h"
#include "base/alloc.h"
#include "base/text.h"
#include "os/file.h"
#include "os/syscalls.h"
#include "os/trust.h"
#include "store/disk_parts.h"
#include "store/evict.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define TAG_NAME  "CACHEDIR.TAG"
#define LOCK_NAME "lock"

enum {
    WHOLE_SHARE = 1000000,         /* a share of the caps in the unit of `pending` */
    LOOK_EVERY = WHOLE_SHARE / 20, /* how much is put into a shard between two looks at it */
    EVICT_NS = 5000000             /* for removing in one look; some file systems take a millisecond for a file */
};

static const char tag_text[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This directory is a cache of compiled kernels made by Kiln: all of it can be made again.\n"
    "# For information about cache directory tags see https://bford.info/cachedir/\n";

static const char *const shared_advice[] = {
    [KILN__DISK_DAMAGED] = "it is not used; remove it and let its owner make it again",
    [KILN__DISK_UNTRUSTED] = "it is not used; it must be yours or root's and writable by nobody else",
    [KILN__DISK_ELEVATED] = "run Kiln without setuid, setgid and file capabilities to use it",
    [KILN__DISK_READ] = "what it holds is compiled; check the directory's path and permissions and the disk",
    [KILN__DISK_WRITE] = "it is only read",
};

static const char *const advice[] = {
    [KILN__DISK_DAMAGED] = "it is removed and will be made again",
    [KILN__DISK_UNTRUSTED] = "it is not used; remove it, or make it your own and writable by nobody else",
    [KILN__DISK_ELEVATED] = "run Kiln without setuid, setgid and file capabilities to use it",
    [KILN__DISK_READ] = "what it holds is compiled again; check the directory's permissions and the disk",
    [KILN__DISK_WRITE] = "new kernels are not kept; check the directory's permissions and the free space",
};

static void note(kiln__disk *store, const kiln__disk_problem *problem)
{
    if (problem->cause == KILN__DISK_FINE)
        return;
    if (problem->cause == KILN__DISK_DAMAGED)
        atomic_fetch_add_explicit(&store->counters->damaged, 1, memory_order_relaxed);
    else if (problem->cause == KILN__DISK_UNTRUSTED || problem->cause == KILN__DISK_ELEVATED)
        atomic_fetch_add_explicit(&store->counters->untrusted, 1, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&store->counters->errors, 1, memory_order_relaxed);
    unsigned bit = 1u << problem->cause;
    if ((atomic_fetch_or_explicit(&store->warned, bit, memory_order_relaxed) & bit) == 0)
        kiln__log_line(store->log, KILN_LOG_WARN, "store %s%s%s: %s; %s", store->root, problem->where[0] ? "/" : "",
                       problem->where, problem->text, (store->shared ? shared_advice : advice)[problem->cause]);
}

/* Fills a problem from a negative errno, which it returns. */
int kiln__disk_fail(kiln__disk_problem *problem, kiln__disk_cause cause, const char *where, int error)
{
    const char *text = strerrordesc_np(-error);
    problem->cause = cause;
    problem->error = error;
    kiln__text_copy(problem->where, sizeof problem->where, where);
    kiln__text_copy(problem->text, sizeof problem->text, text ? text : "unknown error");
    return error;
}

static int fail_untrusted(kiln__disk_problem *problem, const char *where, const char *reason)
{
    problem->cause = KILN__DISK_UNTRUSTED;
    problem->error = -EPERM;
    kiln__text_copy(problem->where, sizeof problem->where, where);
    kiln__text_copy(problem->text, sizeof problem->text, reason);
    return problem->error;
}

static int check_trust(const kiln__disk *store, const struct stat *status, const char *where,
                       kiln__disk_problem *problem)
{
    char buffer[sizeof problem->text];
    const char *reason = store->shared ? kiln__trust_refuse_shared_directory(status, buffer, sizeof buffer)
                                       : kiln__trust_refuse_directory(status, buffer, sizeof buffer);
    return reason ? fail_untrusted(problem, where, reason) : 0;
}

static int check_directory(const kiln__disk *store, int directory, const char *where, kiln__disk_cause cause,
                           kiln__disk_problem *problem)
{
    struct stat status;
    if (kiln__sys_fstat(directory, &status) != 0)
        return kiln__disk_fail(problem, cause, where, -errno);
    int error = check_trust(store, &status, where, problem);
    /* Best effort: what stays closed fails when a file in it is opened. */
    if (error == 0 && !store->shared && kiln__file_is_closed(&status))
        kiln__sys_fchmod(directory, (status.st_mode & 07777) | 0700);
    return error;
}

static int fail_link(kiln__disk_problem *problem, const char *where)
{
    return fail_untrusted(problem, where, "is a link, expected a directory");
}

/* Opens a directory inside the store. A missing one is made, or if not `make` is no problem: -ENOENT. */
static int open_inside(const kiln__disk *store, int parent, const char *name, const char *where, bool make,
                       kiln__disk_problem *problem)
{
    kiln__disk_cause cause = make ? KILN__DISK_WRITE : KILN__DISK_READ;
    int directory = kiln__file_open_directory(parent, name, make);
    if (directory == -EACCES && !store->shared && kiln__file_mend(parent, name) == 0)
        directory = kiln__file_open_directory(parent, name, make);
    if (directory == -ENOENT)
        return -ENOENT;
    if (directory < 0) {
        struct stat status;
        if (kiln__sys_fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode))
            return fail_link(problem, where);
        return kiln__disk_fail(problem, cause, where, directory);
    }
    int error = check_directory(store, directory, where, cause, problem);
    if (error != 0)
        kiln__sys_close(directory);
    return error != 0 ? error : directory;
}

static int open_in_root(const kiln__disk *store, const char *name, bool make, kiln__disk_problem *problem)
{
    problem->cause = KILN__DISK_FINE;
    int error = check_directory(store, store->root_fd, "", make ? KILN__DISK_WRITE : KILN__DISK_READ, problem);
    return error != 0 ? error : open_inside(store, store->root_fd, name, name, make, problem);
}

int kiln__disk_open_version(kiln__disk *store, bool make, kiln__disk_problem *problem)
{
    return open_in_root(store, KILN__DISK_VERSION, make, problem);
}

int kiln__disk_open_shard(const kiln__disk *store, int version, unsigned shard, bool make, kiln__disk_problem *problem)
{
    char where[16];
    problem->cause = KILN__DISK_FINE;
    snprintf(where, sizeof where, KILN__DISK_VERSION "/%02x", shard);
    return open_inside(store, version, where + sizeof KILN__DISK_VERSION, where, make, problem);
}

/* A descriptor of the key's shard or a negative errno, with the problem if it is one. */
static int open_shard(kiln__disk *store, unsigned shard, bool make, kiln__disk_problem *problem)
{
    int version = kiln__disk_open_version(store, make, problem);
    if (version < 0)
        return version;
    int directory = kiln__disk_open_shard(store, version, shard, make, problem);
    kiln__sys_close(version);
    return directory;
}

/* A descriptor of a shard that is there, or a negative errno. The version's directory is only looked at, which is
 * cheaper than opening it: nobody but those who are trusted can put another in its place, as the root has just been
 * checked. */
static int open_shard_to_read(kiln__disk *store, unsigned shard, kiln__disk_problem *problem)
{
    struct stat status;
    char where[16];
    problem->cause = KILN__DISK_FINE;
    int error = check_directory(store, store->root_fd, "", KILN__DISK_READ, problem);
    if (error != 0)
        return error;
    if (kiln__sys_fstatat(store->root_fd, KILN__DISK_VERSION, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? -ENOENT : kiln__disk_fail(problem, KILN__DISK_READ, KILN__DISK_VERSION, -errno);
    error = S_ISLNK(status.st_mode) ? fail_link(problem, KILN__DISK_VERSION)
                                    : check_trust(store, &status, KILN__DISK_VERSION, problem);
    if (error == 0 && !store->shared && kiln__file_is_closed(&status))
        return open_shard(store, shard, false, problem);
    snprintf(where, sizeof where, KILN__DISK_VERSION "/%02x", shard);
    return error != 0 ? error : open_inside(store, store->root_fd, where, where, false, problem);
}

/* Says why a file that was opened or not, with `error` from reading it, is not even worth decoding. */
static int check_file(const kiln__disk *store, kiln__disk_reading *out, const char *where, int error)
{
    char buffer[sizeof out->problem.text];
    if (error == -ENOENT)
        return error;
    if (error == -ELOOP)
        return fail_untrusted(&out->problem, where, "is a link, expected a regular file");
    if (error == -ENXIO)
        return fail_untrusted(&out->problem, where, "is a special file, expected a regular file");
    if (out->status.st_mode != 0) {
        const char *reason = store->shared ? kiln__trust_refuse_shared_file(&out->status, buffer, sizeof buffer)
                                           : kiln__trust_refuse_file(&out->status, buffer, sizeof buffer);
        if (reason)
            return fail_untrusted(&out->problem, where, reason);
    }
    if (error != 0)
        kiln__disk_fail(&out->problem, error == -EFBIG ? KILN__DISK_DAMAGED : KILN__DISK_READ, where, error);
    return error;
}

/* Reads and checks one file of a shard. */
void kiln__disk_read(const kiln__disk *store, kiln__disk_reading *out, int directory, const char *name,
                     const kiln__key *key)
{
    void *bytes = NULL;
    size_t length = 0;
    char where[sizeof out->problem.where];
    kiln__entry_fault fault = KILN__ENTRY_GOOD;
    memset(out, 0, sizeof *out);
    snprintf(where, sizeof where, KILN__DISK_VERSION "/%02x/%s", key->digest[0], name);
    int error = kiln__file_read(&bytes, &length, directory, name, O_NOFOLLOW, KILN__ENTRY_MAX_BYTES, &out->status);
    if (check_file(store, out, where, error) != 0) {
        if (error == 0)
            kiln__free(bytes);
        return;
    }
    out->blob = kiln__blob_take(bytes, length, key, &fault);
    if (out->blob)
        return;
    if (fault == KILN__ENTRY_GOOD) {
        kiln__disk_fail(&out->problem, KILN__DISK_READ, where, -ENOMEM);
    } else {
        kiln__disk_fail(&out->problem, KILN__DISK_DAMAGED, where, -EBADMSG);
        kiln__text_copy(out->problem.text, sizeof out->problem.text, kiln__entry_fault_text(fault));
    }
}

static const kiln__miss misses[] = {
    [KILN__DISK_FINE] = KILN__MISS_NONE,           [KILN__DISK_DAMAGED] = KILN__MISS_DAMAGED,
    [KILN__DISK_UNTRUSTED] = KILN__MISS_UNTRUSTED, [KILN__DISK_ELEVATED] = KILN__MISS_UNTRUSTED,
    [KILN__DISK_READ] = KILN__MISS_ERROR,          [KILN__DISK_WRITE] = KILN__MISS_ERROR,
};

/* Notes why a look-up gives nothing. */
static void note_miss(kiln__disk *store, const kiln__disk_problem *problem, kiln__miss *why)
{
    kiln__miss_raise(why, misses[problem->cause]);
    note(store, problem);
}

static kiln__blob *get_exact(kiln__disk *store, int directory, const kiln__key *key, kiln__miss *why)
{
    char name[KILN__NAME_SIZE];
    kiln__disk_reading reading;
    if (!kiln__name_has(key))
        return NULL;
    kiln__name_format(name, key);
    kiln__disk_read(store, &reading, directory, name, key);
    if (reading.blob && !store->shared)
        kiln__evict_stamp(directory, name, &reading.status);
    /* What is damaged would stay in the way of the good entry that the caller is about to make. */
    if (reading.problem.cause == KILN__DISK_DAMAGED && !store->shared)
        kiln__file_remove_same(directory, name, &reading.status);
    note_miss(store, &reading.problem, why);
    return reading.blob;
}

typedef struct search {
    const kiln__key *wanted; /* of its digest */
    char than[KILN__ENTRY_TOOLCHAIN_SIZE];
    kiln__key found; /* an empty toolchain: none yet */
} search;

static int take_next(void *data, const char *name)
{
    search *self = data;
    kiln__key key;
    if (kiln__name_parse(&key, self->wanted->digest[0], name) &&
        memcmp(key.digest, self->wanted->digest, sizeof key.digest) == 0 &&
        kiln__toolchain_is_next(key.toolchain, self->than, self->found.toolchain))
        self->found = key;
    return 0;
}

/* Lists the shard again for each entry that turns out bad: that is rare, and needs no memory. */
static kiln__blob *get_older(kiln__disk *store, int directory, const kiln__key *key, kiln__miss *why)
{
    search self = { .wanted = key };
    memcpy(self.than, key->toolchain, sizeof self.than);
    for (;;) {
        self.found.toolchain[0] = '\0';
        int error = kiln__file_list(directory, take_next, &self);
        if (error != 0) {
            kiln__disk_problem problem;
            kiln__disk_fail(&problem, KILN__DISK_READ, KILN__DISK_VERSION, error);
            note_miss(store, &problem, why);
            return NULL;
        }
        if (self.found.toolchain[0] == '\0')
            return NULL;
        kiln__blob *blob = get_exact(store, directory, &self.found, why);
        if (blob)
            return blob;
        memcpy(self.than, self.found.toolchain, sizeof self.than);
    }
}

static kiln__blob *get(kiln__store *base, const kiln__key *key, bool older, kiln__miss *why)
{
    kiln__disk *store = (kiln__disk *)base;
    kiln__disk_problem problem;
    int directory = open_shard_to_read(store, key->digest[0], &problem);
    if (directory < 0) {
        note_miss(store, &problem, why);
        return NULL;
    }
    kiln__blob *blob = older ? get_older(store, directory, key, why) : get_exact(store, directory, key, why);
    kiln__sys_close(directory);
    return blob;
}

static kiln__blob *disk_get(kiln__store *base, const kiln__key *key, kiln__miss *why)
{
    return get(base, key, key->toolchain[0] == '\0', why);
}

static kiln__blob *disk_older(kiln__store *base, const kiln__key *key, kiln__miss *why)
{
    return get(base, key, true, why);
}

static int write_tag(int root)
{
    struct stat status;
    if (kiln__sys_fstatat(root, TAG_NAME, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    int error = kiln__file_publish(root, TAG_NAME, tag_text, sizeof tag_text - 1, false);
    return error == -EEXIST ? 0 : error;
}

/* Somebody removed the whole directory: makes it again. dup3 puts the new one under the old number at once, so that
 * no thread ever meets a closed descriptor. */
static void reopen_root(kiln__disk *store)
{
    kiln__disk_problem problem;
    int root = kiln__file_make_directory(store->root);
    if (root < 0)
        return;
    if (check_directory(store, root, "", KILN__DISK_WRITE, &problem) == 0 &&
        kiln__sys_dup3(root, store->root_fd, O_CLOEXEC) >= 0)
        write_tag(root);
    kiln__sys_close(root);
}

/* 1 if it is there already and is not to be replaced. */
static int put_once(kiln__disk *store, const kiln__blob *blob, bool replace, kiln__disk_problem *problem)
{
    const kiln__key *key = &blob->entry.key;
    char name[KILN__NAME_SIZE], where[sizeof problem->where];
    kiln__name_format(name, key);
    snprintf(where, sizeof where, KILN__DISK_VERSION "/%02x/%s", key->digest[0], name);
    int directory = open_shard(store, key->digest[0], true, problem);
    if (directory < 0)
        return directory == -ENOENT ? kiln__disk_fail(problem, KILN__DISK_WRITE, where, directory) : directory;
    int error = kiln__file_publish(directory, name, blob->bytes, blob->length, replace);
    kiln__sys_close(directory);
    /* What is there is somebody else's equal entry: a damaged one was removed by the get before this put. */
    if (error == 0 || error == -EEXIST)
        return error == -EEXIST;
    return kiln__disk_fail(problem, KILN__DISK_WRITE, where, error);
}

static uint64_t share_of(uint64_t cap)
{
    return cap < KILN__DISK_SHARDS ? 1 : cap / KILN__DISK_SHARDS;
}

/* Where a look begins to remove, and how far it goes. */
static uint64_t high_mark(uint64_t share)
{
    return share - share / 20;
}

static uint64_t low_mark(uint64_t share)
{
    return share - share / 10;
}

/* Looks at one shard and brings it within its share. True if there is more to remove. */
static bool keep_shard(kiln__disk *store, int directory, unsigned shard)
{
    kiln__evict evict = { .is_entry = kiln__name_is_entry, .budget_ns = EVICT_NS };
    uint64_t bytes = share_of(store->cap_bytes), files = share_of(store->cap_files);
    bool over = false;
    int error = kiln__evict_scan(&evict, directory);
    bool full = error == 0 && kiln__evict_is_over(&evict, high_mark(bytes), high_mark(files));
    if (full) {
        kiln__evict_rescan(&evict);
        error = kiln__evict_scan(&evict, directory);
    }
    if (full && error == 0 && kiln__evict_plan(&evict, low_mark(bytes), low_mark(files))) {
        error = kiln__evict_apply(&evict, directory);
        atomic_fetch_add_explicit(&store->counters->evictions, evict.removed, memory_order_relaxed);
        over = evict.stopped;
    }
    kiln__evict_fini(&evict);
    if (error != 0) {
        char where[16];
        kiln__disk_problem problem;
        snprintf(where, sizeof where, KILN__DISK_VERSION "/%02x", shard);
        kiln__disk_fail(&problem, KILN__DISK_WRITE, where, error);
        note(store, &problem);
    }
    return over;
}

static bool is_due(kiln__disk *store, unsigned shard)
{
    return atomic_load(&store->pending[shard]) >= LOOK_EVERY;
}

/* Looks until nothing was put meanwhile. Whoever finds somebody looking goes on: what it put is pending, and is seen
 * here after the flag is cleared. */
static void look(kiln__disk *store, unsigned shard)
{
    kiln__disk_problem problem;
    bool over = false;
    while (!over && is_due(store, shard) && !atomic_flag_test_and_set(&store->evicting)) {
        atomic_store(&store->pending[shard], 0);
        int directory = open_shard(store, shard, false, &problem);
        if (directory >= 0) {
            over = keep_shard(store, directory, shard);
            kiln__sys_close(directory);
        }
        if (over)
            atomic_store(&store->pending[shard], LOOK_EVERY);
        atomic_flag_clear(&store->evicting);
    }
}

/* Processes that put little would never come to look at a shard if each began to count at nothing. */
static void begin_anywhere(kiln__disk *store)
{
    uint16_t random[KILN__DISK_SHARDS] = { 0 };
    if (atomic_flag_test_and_set(&store->begun))
        return;
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        memset(random, 0, sizeof random);
    for (unsigned i = 0; i < KILN__DISK_SHARDS; i++)
        atomic_fetch_add(&store->pending[i], random[i] % LOOK_EVERY);
}

/* After a put: only the shard that was written is looked at, and only when enough was written. Holds no lock that a
 * get or a put waits for. */
static void keep_within_caps(kiln__disk *store, unsigned shard, size_t length)
{
    uint64_t by_bytes = kiln__evict_cost(length) * WHOLE_SHARE / share_of(store->cap_bytes);
    uint64_t by_files = WHOLE_SHARE / share_of(store->cap_files);
    begin_anywhere(store);
    atomic_fetch_add(&store->pending[shard], by_bytes > by_files ? by_bytes : by_files);
    look(store, shard);
}

static int add(kiln__disk *store, const kiln__blob *blob, bool replace)
{
    kiln__disk_problem problem;
    if (kiln__evict_cost(blob->length) > low_mark(share_of(store->cap_bytes))) {
        kiln__log_line(store->log, KILN_LOG_INFO,
                       "store %s: an entry of %zu bytes is too large for a cache of %llu bytes", store->root,
                       blob->length, (unsigned long long)store->cap_bytes);
        return -EFBIG;
    }
    int error = put_once(store, blob, replace, &problem);
    if (error == -ENOENT) {
        reopen_root(store);
        error = put_once(store, blob, replace, &problem);
    }
    if (error < 0)
        note(store, &problem);
    else if (error == 0)
        keep_within_caps(store, blob->entry.key.digest[0], blob->length);
    return error;
}

int kiln__disk_store_add(kiln__store *base, kiln__blob *blob)
{
    return add((kiln__disk *)base, blob, false);
}

int kiln__disk_store_replace(kiln__store *base, kiln__blob *blob)
{
    return add((kiln__disk *)base, blob, true);
}

static void disk_put(kiln__store *base, kiln__blob *blob)
{
    add((kiln__disk *)base, blob, false);
}

static void disk_replace(kiln__store *base, kiln__blob *blob)
{
    add((kiln__disk *)base, blob, true);
}

static void disk_drop(kiln__store *base, const kiln__key *key)
{
    kiln__disk *store = (kiln__disk *)base;
    char name[KILN__NAME_SIZE];
    kiln__disk_problem problem;
    int directory = kiln__name_has(key) ? open_shard(store, key->digest[0], false, &problem) : -ENOENT;
    if (directory < 0)
        return;
    kiln__name_format(name, key);
    if (kiln__sys_unlinkat(directory, name, 0) != 0 && errno != ENOENT) {
        kiln__disk_fail(&problem, KILN__DISK_WRITE, name, -errno);
        note(store, &problem);
    }
    kiln__sys_close(directory);
}

static void disk_close(kiln__store *base)
{
    kiln__disk *store = (kiln__disk *)base;
    if (store->root_fd >= 0)
        kiln__sys_close(store->root_fd);
    kiln__free(store->root);
    kiln__free(store);
}

static const kiln__store_vtable shared_vtable = {
    "shared", disk_get, disk_older, kiln__store_no_put, kiln__store_no_put, kiln__store_no_drop, disk_close, true
};
static const kiln__store_vtable disk_vtable = { "disk",       disk_get,  disk_older, disk_put,
                                                disk_replace, disk_drop, disk_close, true };

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

static int open_root(kiln__disk *store, kiln__disk_problem *problem)
{
    if (kiln__trust_is_elevated()) {
        fail_untrusted(problem, "", "not used by a process with more rights than the user who started it");
        problem->cause = KILN__DISK_ELEVATED;
        return -EPERM;
    }
    int root = store->shared ? kiln__file_open(AT_FDCWD, store->root, O_RDONLY | O_DIRECTORY, 0)
                             : kiln__file_make_directory(store->root);
    if (root < 0)
        return kiln__disk_fail(problem, store->shared ? KILN__DISK_READ : KILN__DISK_WRITE, "", root);
    store->root_fd = root;
    return check_directory(store, root, "", KILN__DISK_READ, problem);
}

static kiln__disk *open_store(const char *root, bool shared, const kiln__log *log, kiln__store_counters *counters,
                              char *problem_text, size_t size)
{
    kiln__disk_problem problem = { 0 };
    kiln__disk *store = kiln__calloc(1, sizeof *store);
    char *path = store ? absolute_path(root) : NULL;
    if (!path) {
        kiln__free(store);
        kiln__text_copy(problem_text, size, "out of memory");
        return NULL;
    }
    store->base.vtable = shared ? &shared_vtable : &disk_vtable;
    store->log = log;
    store->counters = counters;
    store->root = path;
    store->root_fd = -1;
    store->shared = shared;
    atomic_init(&store->warned, 0);
    atomic_flag_clear(&store->evicting);
    atomic_flag_clear(&store->begun);
    kiln__disk_store_limit(&store->base, UINT64_MAX, UINT64_MAX);
    if (open_root(store, &problem) != 0) {
        note(store, &problem);
        kiln__text_copy(problem_text, size, problem.text);
        disk_close(&store->base);
        return NULL;
    }
    kiln__text_copy(problem_text, size, "");
    return store;
}

kiln__store *kiln__disk_store_open(const char *root, const kiln__log *log, kiln__store_counters *counters,
                                   char *problem_text, size_t size)
{
    kiln__disk_problem problem;
    kiln__disk *store = open_store(root, false, log, counters, problem_text, size);
    int error = store ? write_tag(store->root_fd) : 0;
    if (error != 0) {
        kiln__disk_fail(&problem, KILN__DISK_WRITE, TAG_NAME, error);
        note(store, &problem);
    }
    return store ? &store->base : NULL;
}

kiln__store *kiln__disk_store_open_shared(const char *root, const kiln__log *log, kiln__store_counters *counters,
                                          char *problem_text, size_t size)
{
    kiln__disk *store = open_store(root, true, log, counters, problem_text, size);
    return store ? &store->base : NULL;
}

void kiln__disk_store_limit(kiln__store *base, uint64_t bytes, uint64_t files)
{
    kiln__disk *store = (kiln__disk *)base;
    store->cap_bytes = bytes;
    store->cap_files = files;
}

static int trim_temporary(void *data, const char *name)
{
    kiln__evict_temporary(*(const int *)data, KILN__FILE_TEMPORARY, name);
    return 0;
}

/* Calls kiln__evict_scan or kiln__evict_apply for each shard that can be used. The first error, if any. */
static int each_shard(const kiln__disk *store, int version, kiln__evict *evict, int (*fn)(kiln__evict *, int))
{
    int first = 0;
    for (unsigned shard = 0; shard < KILN__DISK_SHARDS; shard++) {
        kiln__disk_problem problem;
        int directory = kiln__disk_open_shard(store, version, shard, false, &problem);
        int error = directory >= 0 ? fn(evict, directory) : directory == -ENOENT ? 0 : directory;
        if (directory >= 0)
            kiln__sys_close(directory);
        if (first == 0)
            first = error;
    }
    return first;
}

int kiln__disk_store_trim(kiln__store *base, uint64_t bytes, uint64_t files, kiln__disk_trim *out)
{
    kiln__disk *store = (kiln__disk *)base;
    kiln__disk_problem problem;
    kiln__evict evict = { .is_entry = kiln__name_is_entry };
    memset(out, 0, sizeof *out);
    int version = kiln__disk_open_version(store, false, &problem);
    if (version < 0)
        return version == -ENOENT ? 0 : version;
    kiln__file_list(store->root_fd, trim_temporary, &store->root_fd);
    kiln__file_list(version, trim_temporary, &version);
    int error = each_shard(store, version, &evict, kiln__evict_scan);
    bytes = bytes > 0 ? bytes : store->cap_bytes;
    files = files > 0 ? files : store->cap_files;
    if (kiln__evict_is_over(&evict, bytes, files)) {
        kiln__evict_rescan(&evict);
        int again = each_shard(store, version, &evict, kiln__evict_scan);
        error = error != 0 ? error : again;
    }
    if (kiln__evict_plan(&evict, bytes, files)) {
        int applied = each_shard(store, version, &evict, kiln__evict_apply);
        error = error != 0 ? error : applied;
    }
    kiln__sys_close(version);
    atomic_fetch_add_explicit(&store->counters->evictions, evict.removed, memory_order_relaxed);
    *out = (kiln__disk_trim){ .removed = evict.removed,
                              .removed_bytes = evict.removed_bytes,
                              .kept = evict.count - evict.removed,
                              .kept_bytes = evict.bytes - evict.removed_bytes };
    kiln__evict_fini(&evict);
    return error;
}

int kiln__disk_store_probe(kiln__store *base)
{
    kiln__disk *store = (kiln__disk *)base;
    kiln__disk_problem problem;
    char name[KILN__FILE_UNIQUE];
    int directory = kiln__disk_open_version(store, true, &problem);
    if (directory < 0)
        return directory;
    int fd = kiln__file_create_unique(directory, KILN__FILE_TEMPORARY, name);
    int error = fd < 0 ? fd : kiln__file_write(fd, name, sizeof name);
    if (fd >= 0 && kiln__sys_close(fd) != 0 && error == 0 && errno != EINTR)
        error = -errno;
    if (fd >= 0 && kiln__sys_unlinkat(directory, name, 0) != 0 && error == 0 && errno != ENOENT)
        error = -errno;
    kiln__sys_close(directory);
    return error;
}

static int open_lock_once(kiln__disk *store)
{
    kiln__disk_problem problem;
    struct stat status;
    char buffer[sizeof problem.text];
    int version = kiln__disk_open_version(store, true, &problem);
    if (version < 0)
        return version;
    int fd = kiln__file_open_private(version, LOCK_NAME);
    int error = fd < 0 ? fd : kiln__sys_fstat(fd, &status) != 0 ? -errno : 0;
    kiln__sys_close(version);
    if (error == 0 && kiln__trust_refuse_file(&status, buffer, sizeof buffer))
        error = -EPERM;
    if (error == 0)
        return fd;
    if (fd >= 0)
        kiln__sys_close(fd);
    return error;
}

int kiln__disk_store_open_lock(kiln__store *base)
{
    kiln__disk *store = (kiln__disk *)base;
    int fd = open_lock_once(store);
    if (fd != -ENOENT)
        return fd;
    reopen_root(store);
    return open_lock_once(store);
}

int kiln__disk_store_open_beside(kiln__store *base, const char *name, bool make, char *problem_text, size_t size)
{
    kiln__disk *store = (kiln__disk *)base;
    kiln__disk_problem problem;
    int directory = open_in_root(store, name, make, &problem);
    if (directory == -ENOENT && make) {
        reopen_root(store);
        directory = open_in_root(store, name, make, &problem);
    }
    if (directory == -ENOENT && make)
        kiln__disk_fail(&problem, KILN__DISK_WRITE, name, directory);
    kiln__text_copy(problem_text, size, directory < 0 && problem.cause != KILN__DISK_FINE ? problem.text : "");
    return directory;
}

const char *kiln__disk_store_root(const kiln__store *base)
{
    return ((const kiln__disk *)base)->root;
}
