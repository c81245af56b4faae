/* The directory store: its names, its directories and their trust, gets and puts, caps, and walks over all of it. */
#include "store/disk.h"
#include "base/alloc.h"
#include "base/text.h"
#include "os/file.h"
#include "os/syscalls.h"
#include "os/trust.h"
#include "store/evict.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define VERSION_NAME "v1" /* the directory below the root that holds the shards */
#define TAG_NAME     "CACHEDIR.TAG"
#define LOCK_NAME    "lock"
#define CAP_ADVICE   "raise cache_bytes, or KILN_CACHE_BYTES"
#define SUFFIX       ".kiln"

enum {
    SHARDS = 256,
    SHARD_DIGITS = 2, /* hexadecimal digits of a digest that name the shard */
    NAME_SIZE = 2 * KILN__DIGEST_SIZE - SHARD_DIGITS + 1 + KILN__ENTRY_TOOLCHAIN_SIZE + sizeof SUFFIX,
    SHARD_PATH_SIZE = sizeof VERSION_NAME + SHARD_DIGITS + 1,
    WHERE_SIZE = SHARD_PATH_SIZE + NAME_SIZE,
    WHOLE_SHARE = 1000000,         /* a share of the caps in the unit of `pending` */
    LOOK_EVERY = WHOLE_SHARE / 20, /* a shard is looked at again after puts of so much */
    EVICT_NS = 5000000             /* the longest that one look removes; some file systems take 1 ms for a file */
};

static const char tag_text[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This directory is a cache of compiled kernels made by Kiln: all of it can be made again.\n"
    "# For information about cache directory tags see https://bford.info/cachedir/\n";

/* The trouble with one file or directory. */
typedef struct disk_problem {
    kiln__trouble trouble;
    int error;              /* a negative errno */
    char where[WHERE_SIZE]; /* below the root; "" is the root */
    char text[160];
} disk_problem;

typedef struct disk_store {
    kiln__store base;
    bool shared;       /* only read, and also trusted when it is root's */
    int root_fd;       /* the same number until close, see adopt_root */
    atomic_bool there; /* root_fd is the root; else there was no root yet, and it is /dev/null */
    atomic_flag tagged;
    uint64_t cap_bytes, cap_files;
    atomic_uint_least64_t pending[SHARDS]; /* put by this process since its last look, in millionths of a share */
    atomic_flag evicting, begun;           /* begun: `pending` has its first values */
    pthread_mutex_t refusal_lock;
    char refusal[KILN__STORE_REFUSAL]; /* why the last put that kept nothing did not; "": all were kept */
} disk_store;

/* One entry file as it was found. */
typedef struct disk_reading {
    kiln__blob *blob; /* NULL unless it is good */
    struct stat status;
    disk_problem problem; /* KILN__TROUBLE_NONE without a blob: there is no such file */
} disk_reading;

/* ---- Names */

/* Whether a key's toolchain can be part of a name: not empty, terminated, no slash. */
static bool has_name(const kiln__key *key)
{
    size_t length = strnlen(key->toolchain, sizeof key->toolchain);
    return length > 0 && length < sizeof key->toolchain && !memchr(key->toolchain, '/', length);
}

/* The name of a key's file in its shard. */
static void format_name(char out[NAME_SIZE], const kiln__key *key)
{
    char hex[KILN__DIGEST_HEX];
    kiln__digest_hex(hex, key->digest);
    snprintf(out, NAME_SIZE, "%s.%s" SUFFIX, hex + SHARD_DIGITS, key->toolchain);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the key from the name of a file in a shard. False if it is not that of an entry. */
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
    size_t suffix = sizeof SUFFIX - 1, length = strlen(name);
    if (name[0] != '.' || length < suffix + 2 || strcmp(name + length - suffix, SUFFIX) != 0 ||
        length - suffix - 1 >= sizeof out->toolchain)
        return false;
    memcpy(out->toolchain, name + 1, length - suffix - 1);
    return true;
}

/* Whether a name is that of an entry, in any shard. Other files are not Kiln's: nothing counts or removes them. */
static bool is_entry_name(const char *name)
{
    kiln__key key;
    return parse_name(&key, 0, name);
}

/* The path of a shard below the root. */
static void format_shard(char out[SHARD_PATH_SIZE], unsigned shard)
{
    snprintf(out, SHARD_PATH_SIZE, VERSION_NAME "/%02x", shard & (SHARDS - 1));
}

/* ---- Trouble */

/* Fills a problem and returns `error`, a negative errno. `text` NULL: that of the error. */
static int fail(disk_problem *problem, kiln__trouble trouble, const char *where, int error, const char *text)
{
    problem->trouble = trouble;
    problem->error = error;
    kiln__text_copy(problem->where, sizeof problem->where, where);
    kiln__text_copy(problem->text, sizeof problem->text, text ? text : kiln__store_error_text(error));
    return error;
}

static int fail_untrusted(disk_problem *problem, const char *where, const char *reason)
{
    return fail(problem, KILN__TROUBLE_UNTRUSTED, where, -EPERM, reason);
}

static void note_problem(disk_store *store, const disk_problem *problem, kiln__miss *why)
{
    kiln__store_note(&store->base, problem->trouble, problem->where, problem->text, why);
}

/* ---- Directories */

static unsigned trust_rule(const disk_store *store)
{
    return (store->shared ? KILN__TRUST_SHARED : 0) | store->base.counters->trust;
}

static int check_trust(const disk_store *store, const struct stat *status, const char *where, disk_problem *problem)
{
    char buffer[sizeof problem->text];
    const char *reason = kiln__trust_refuse_directory(status, trust_rule(store), buffer, sizeof buffer);
    return reason ? fail_untrusted(problem, where, reason) : 0;
}

static int check_directory(const disk_store *store, int directory, const char *where, bool make, disk_problem *problem)
{
    struct stat status;
    if (kiln__sys_fstat(directory, &status) != 0)
        return fail(problem, make ? KILN__TROUBLE_WRITE : KILN__TROUBLE_READ, where, -errno, NULL);
    int error = check_trust(store, &status, where, problem);
    /* Best effort: the files of a directory that stays closed fail to open. */
    if (error == 0 && !store->shared && kiln__file_is_closed(&status))
        kiln__sys_fchmod(directory, (status.st_mode & 07777) | 0700);
    return error;
}

/* Opens a directory inside the store. A missing one is made if `make`, else it is no problem: -ENOENT. */
static int open_inside(const disk_store *store, int parent, const char *name, const char *where, bool make,
                       disk_problem *problem)
{
    int directory = kiln__file_open_directory(parent, name, make);
    if (directory == -EACCES && !store->shared && kiln__file_mend(parent, name) == 0)
        directory = kiln__file_open_directory(parent, name, make);
    if (directory == -ENOENT)
        return -ENOENT;
    if (directory < 0) {
        struct stat status;
        if (kiln__sys_fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode))
            return fail_untrusted(problem, where, "is a link, expected a directory");
        return fail(problem, make ? KILN__TROUBLE_WRITE : KILN__TROUBLE_READ, where, directory, NULL);
    }
    int error = check_directory(store, directory, where, make, problem);
    if (error != 0)
        kiln__sys_close(directory);
    return error != 0 ? error : directory;
}

/* Takes the root that is open as `root`, and closes that. dup3 puts it under the number of root_fd at once, so that no
 * thread ever meets a closed descriptor. 0 or -errno with the problem. */
static int adopt_root(disk_store *store, int root, bool make, disk_problem *problem)
{
    int error = check_directory(store, root, "", make, problem);
    if (error == 0 && kiln__sys_dup3(root, store->root_fd, O_CLOEXEC) < 0)
        error = fail(problem, make ? KILN__TROUBLE_WRITE : KILN__TROUBLE_READ, "", -errno, NULL);
    kiln__sys_close(root);
    if (error == 0)
        atomic_store(&store->there, true);
    return error;
}

/* Looks whether another process has made the root meanwhile. -ENOENT without a problem: it has not. */
static int find_root(disk_store *store, disk_problem *problem)
{
    if (atomic_load(&store->there))
        return 0;
    int root = kiln__file_open(AT_FDCWD, store->base.path, O_RDONLY | O_DIRECTORY, 0);
    if (root < 0)
        return root == -ENOENT ? root : fail(problem, KILN__TROUBLE_READ, "", root, NULL);
    return adopt_root(store, root, false, problem);
}

/* Opens a directory in the root, which is checked first. */
static int open_in_root(disk_store *store, const char *name, bool make, disk_problem *problem)
{
    problem->trouble = KILN__TROUBLE_NONE;
    int error = find_root(store, problem);
    if (error == 0)
        error = check_directory(store, store->root_fd, "", make, problem);
    return error != 0 ? error : open_inside(store, store->root_fd, name, name, make, problem);
}

static int open_version(disk_store *store, bool make, disk_problem *problem)
{
    return open_in_root(store, VERSION_NAME, make, problem);
}

static int open_shard_in(const disk_store *store, int version, unsigned shard, bool make, disk_problem *problem)
{
    char where[SHARD_PATH_SIZE];
    problem->trouble = KILN__TROUBLE_NONE;
    format_shard(where, shard);
    return open_inside(store, version, where + sizeof VERSION_NAME, where, make, problem);
}

/* A descriptor of a shard, or a negative errno with the problem if there is one. */
static int open_shard(disk_store *store, unsigned shard, bool make, disk_problem *problem)
{
    int version = open_version(store, make, problem);
    if (version < 0)
        return version;
    int directory = open_shard_in(store, version, shard, make, problem);
    kiln__sys_close(version);
    return directory;
}

/* As open_shard for a get. The version's directory is only looked at, which is cheaper than opening it. The root has
 * just been checked, so only trusted users can put another directory in its place. */
static int open_shard_to_read(disk_store *store, unsigned shard, disk_problem *problem)
{
    struct stat status;
    char where[SHARD_PATH_SIZE];
    problem->trouble = KILN__TROUBLE_NONE;
    int error = find_root(store, problem);
    if (error == 0)
        error = check_directory(store, store->root_fd, "", false, problem);
    if (error != 0)
        return error;
    if (kiln__sys_fstatat(store->root_fd, VERSION_NAME, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? -ENOENT : fail(problem, KILN__TROUBLE_READ, VERSION_NAME, -errno, NULL);
    if (S_ISLNK(status.st_mode))
        return fail_untrusted(problem, VERSION_NAME, "is a link, expected a directory");
    error = check_trust(store, &status, VERSION_NAME, problem);
    if (error == 0 && !store->shared && kiln__file_is_closed(&status))
        return open_shard(store, shard, false, problem);
    format_shard(where, shard);
    return error != 0 ? error : open_inside(store, store->root_fd, where, where, false, problem);
}

/* ---- Gets */

/* Takes the outcome of reading a file. 0, or the reason why its bytes are not decoded. */
static int check_file(const disk_store *store, disk_reading *out, const char *where, int error)
{
    char buffer[sizeof out->problem.text];
    const char *reason = NULL;
    if (error == -ENOENT)
        return error;
    if (error == -ELOOP)
        reason = "is a link, expected a regular file";
    else if (error == -ENXIO)
        reason = "is a special file, expected a regular file";
    else if (out->status.st_mode != 0)
        reason = kiln__trust_refuse_file(&out->status, trust_rule(store), buffer, sizeof buffer);
    if (reason)
        return fail_untrusted(&out->problem, where, reason);
    if (error != 0)
        fail(&out->problem, error == -EFBIG ? KILN__TROUBLE_DAMAGED : KILN__TROUBLE_READ, where, error, NULL);
    return error;
}

/* Reads and checks one file of a shard. out->blob is the caller's. */
static void read_entry(const disk_store *store, disk_reading *out, int directory, const char *name,
                       const kiln__key *key)
{
    void *bytes = NULL;
    size_t length = 0;
    char where[WHERE_SIZE];
    kiln__entry_fault fault = KILN__ENTRY_GOOD;
    memset(out, 0, sizeof *out);
    snprintf(where, sizeof where, VERSION_NAME "/%02x/%s", key->digest[0], name);
    int error = kiln__file_read(&bytes, &length, directory, name, O_NOFOLLOW, KILN__ENTRY_MAX_BYTES, &out->status);
    if (check_file(store, out, where, error) != 0) {
        kiln__free(bytes);
        return;
    }
    out->blob = kiln__blob_take(bytes, length, key, &fault);
    if (!out->blob && fault == KILN__ENTRY_GOOD)
        fail(&out->problem, KILN__TROUBLE_READ, where, -ENOMEM, NULL);
    else if (!out->blob)
        fail(&out->problem, KILN__TROUBLE_DAMAGED, where, -EBADMSG, kiln__entry_fault_text(fault));
}

static kiln__blob *get_exact(disk_store *store, int directory, const kiln__key *key, kiln__miss *why)
{
    char name[NAME_SIZE];
    disk_reading reading;
    if (!has_name(key))
        return NULL;
    format_name(name, key);
    read_entry(store, &reading, directory, name, key);
    if (reading.blob && !store->shared)
        kiln__evict_stamp(directory, name, &reading.status);
    /* A damaged file would stay in the way of the good entry that the caller is about to make. */
    if (reading.problem.trouble == KILN__TROUBLE_DAMAGED && !store->shared)
        kiln__file_remove_same(directory, name, &reading.status);
    note_problem(store, &reading.problem, why);
    return reading.blob;
}

typedef struct disk_search {
    const kiln__key *wanted; /* of its digest */
    char than[KILN__ENTRY_TOOLCHAIN_SIZE];
    kiln__key found; /* an empty toolchain: none yet */
} disk_search;

static int match_older(void *data, const char *name)
{
    disk_search *search = data;
    kiln__key key;
    if (parse_name(&key, search->wanted->digest[0], name) &&
        memcmp(key.digest, search->wanted->digest, sizeof key.digest) == 0 &&
        kiln__toolchain_is_next(key.toolchain, search->than, search->found.toolchain))
        search->found = key;
    return 0;
}

/* Lists the shard again for each entry that turns out bad: that is rare, and needs no memory. */
static kiln__blob *get_older(disk_store *store, int directory, const kiln__key *key, kiln__miss *why)
{
    disk_search search = { .wanted = key };
    kiln__blob *blob = NULL;
    memcpy(search.than, key->toolchain, sizeof search.than);
    while (!blob) {
        search.found.toolchain[0] = '\0';
        int error = kiln__file_list(directory, match_older, &search);
        if (error != 0)
            kiln__store_note(&store->base, KILN__TROUBLE_READ, VERSION_NAME, kiln__store_error_text(error), why);
        if (error != 0 || search.found.toolchain[0] == '\0')
            return NULL;
        blob = get_exact(store, directory, &search.found, why);
        memcpy(search.than, search.found.toolchain, sizeof search.than);
    }
    return blob;
}

static kiln__blob *disk_get(kiln__store *base, const kiln__key *key, bool older, kiln__miss *why)
{
    disk_store *store = (disk_store *)base;
    disk_problem problem;
    int directory = open_shard_to_read(store, key->digest[0], &problem);
    if (directory < 0) {
        note_problem(store, &problem, why);
        return NULL;
    }
    bool listed = older || key->toolchain[0] == '\0';
    kiln__blob *blob = listed ? get_older(store, directory, key, why) : get_exact(store, directory, key, why);
    kiln__sys_close(directory);
    return blob;
}

int kiln__disk_store_read(kiln__store *base, const kiln__key *key, kiln__blob **out)
{
    disk_store *store = (disk_store *)base;
    disk_reading found = { 0 };
    char name[NAME_SIZE];
    *out = NULL;
    int directory = has_name(key) ? open_shard(store, key->digest[0], false, &found.problem) : -ENOENT;
    if (directory < 0)
        return directory;
    format_name(name, key);
    read_entry(store, &found, directory, name, key);
    kiln__sys_close(directory);
    *out = found.blob;
    return found.blob ? 0 : found.problem.trouble == KILN__TROUBLE_NONE ? -ENOENT : found.problem.error;
}

bool kiln__disk_store_has(kiln__store *base, const kiln__key *key)
{
    disk_problem problem;
    struct stat status;
    char name[NAME_SIZE];
    int directory = has_name(key) ? open_shard((disk_store *)base, key->digest[0], false, &problem) : -ENOENT;
    if (directory < 0)
        return false;
    format_name(name, key);
    const bool has = kiln__sys_fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
    kiln__sys_close(directory);
    return has;
}

/* ---- Caps */

static uint64_t share_of(uint64_t cap)
{
    return cap < SHARDS ? 1 : cap / SHARDS;
}

/* A look removes from a shard that is more than 95 % full, until it is 90 % full. */
static uint64_t high_mark(uint64_t share)
{
    return share - share / 20;
}

static uint64_t low_mark(uint64_t share)
{
    return share - share / 10;
}

/* Looks at one shard and brings it within its share. True if there is more to remove. */
static bool keep_shard(disk_store *store, int directory, unsigned shard)
{
    kiln__evict evict = { .is_entry = is_entry_name, .budget_ns = EVICT_NS };
    uint64_t bytes = share_of(store->cap_bytes), files = share_of(store->cap_files);
    char where[SHARD_PATH_SIZE];
    int error = kiln__evict_scan(&evict, directory);
    bool full = error == 0 && kiln__evict_is_over(&evict, high_mark(bytes), high_mark(files));
    if (full) {
        kiln__evict_rescan(&evict);
        error = kiln__evict_scan(&evict, directory);
    }
    if (full && error == 0 && kiln__evict_plan(&evict, low_mark(bytes), low_mark(files)))
        error = kiln__evict_apply(&evict, directory);
    bool stopped = evict.stopped;
    atomic_fetch_add_explicit(&store->base.counters->evictions, evict.removed, memory_order_relaxed);
    kiln__evict_fini(&evict);
    format_shard(where, shard);
    if (error != 0)
        kiln__store_note(&store->base, KILN__TROUBLE_WRITE, where, kiln__store_error_text(error), NULL);
    return stopped;
}

/* Looks until nothing was put meanwhile. A thread that finds another thread looking returns: its put is pending, and
 * the other thread sees that after it has cleared the flag. */
static void look_at_shard(disk_store *store, unsigned shard)
{
    disk_problem problem;
    bool over = false;
    while (!over && atomic_load(&store->pending[shard]) >= LOOK_EVERY && !atomic_flag_test_and_set(&store->evicting)) {
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

/* Gives each shard a random first value. Processes that put little would never look at a shard if each began at 0. */
static void begin_anywhere(disk_store *store)
{
    uint16_t random[SHARDS] = { 0 };
    if (atomic_flag_test_and_set(&store->begun))
        return;
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        memset(random, 0, sizeof random);
    for (unsigned i = 0; i < SHARDS; i++)
        atomic_fetch_add(&store->pending[i], random[i] % LOOK_EVERY);
}

/* After a put. Only the written shard is looked at, and only after puts of LOOK_EVERY. Holds no lock that a get or a
 * put waits for. */
static void keep_within_caps(disk_store *store, unsigned shard, size_t length)
{
    uint64_t by_bytes = kiln__evict_cost(length) * WHOLE_SHARE / share_of(store->cap_bytes);
    uint64_t by_files = WHOLE_SHARE / share_of(store->cap_files);
    begin_anywhere(store);
    atomic_fetch_add(&store->pending[shard], by_bytes > by_files ? by_bytes : by_files);
    look_at_shard(store, shard);
}

void kiln__disk_store_limit(kiln__store *base, uint64_t bytes, uint64_t files)
{
    disk_store *store = (disk_store *)base;
    store->cap_bytes = bytes;
    store->cap_files = files;
}

/* ---- Puts */

static int write_tag(int root)
{
    struct stat status;
    if (kiln__sys_fstatat(root, TAG_NAME, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    int error = kiln__file_publish(root, TAG_NAME, tag_text, sizeof tag_text - 1, false);
    return error == -EEXIST ? 0 : error;
}

/* Makes the root, at the first put or after it was removed. 0 or -errno with the problem. */
static int make_root(disk_store *store, disk_problem *problem)
{
    int root = kiln__file_make_directory(store->base.path);
    if (root < 0)
        return fail(problem, KILN__TROUBLE_WRITE, "", root, NULL);
    atomic_flag_clear(&store->tagged);
    return adopt_root(store, root, true, problem);
}

/* Whether the root is writable, or a missing one can be made: 0 or the -errno of the nearest directory. */
static int try_root(const disk_store *store)
{
    char path[PATH_MAX];
    if (kiln__text_copy(path, sizeof path, store->base.path) >= sizeof path)
        return -ENAMETOOLONG;
    for (;;) {
        if (faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0)
            return 0;
        char *slash = strrchr(path, '/');
        if (errno != ENOENT || slash == NULL || path[1] == '\0')
            return -errno;
        slash[slash == path] = '\0';
    }
}

/* 1 if it is there already and is not to be replaced. */
static int put_once(disk_store *store, const kiln__blob *blob, bool replace, disk_problem *problem)
{
    const kiln__key *key = &blob->entry.key;
    char name[NAME_SIZE], where[WHERE_SIZE];
    format_name(name, key);
    snprintf(where, sizeof where, VERSION_NAME "/%02x/%s", key->digest[0], name);
    int error = open_shard(store, key->digest[0], true, problem), directory = error;
    if (directory >= 0) {
        error = kiln__file_publish(directory, name, blob->bytes, blob->length, replace);
        kiln__sys_close(directory);
    } else if (error != -ENOENT) {
        return error;
    }
    /* A present entry is equal: the get before this put has removed a damaged one. */
    if (error == 0 || error == -EEXIST)
        return error == -EEXIST;
    return fail(problem, KILN__TROUBLE_WRITE, where, error, NULL);
}

/* Returns `error`. */
static int remember_refusal(disk_store *store, int error, const char *where, const char *text)
{
    pthread_mutex_lock(&store->refusal_lock);
    snprintf(store->refusal, sizeof store->refusal, "%s%s%s", where, where[0] ? ": " : "", text);
    pthread_mutex_unlock(&store->refusal_lock);
    return error;
}

/* The message tells the cap that is enough: it is a thousand times an entry, which a user would not guess. */
static int refuse_large(disk_store *store, size_t length)
{
    char text[KILN__STORE_REFUSAL];
    uint64_t enough = (kiln__evict_cost(length) * 10 + 8) / 9 * SHARDS;
    snprintf(text, sizeof text,
             "an entry of %zu bytes is too large for a cache of %llu bytes, of which each shard has a %dth; " CAP_ADVICE
             ", to %llu at least",
             length, (unsigned long long)store->cap_bytes, SHARDS, (unsigned long long)enough);
    kiln__log_line(store->base.log, KILN_LOG_INFO, "store %s: %s", store->base.path, text);
    return remember_refusal(store, -EFBIG, "", text);
}

void kiln__disk_store_refusal(kiln__store *base, char out[KILN__STORE_REFUSAL])
{
    disk_store *store = (disk_store *)base;
    pthread_mutex_lock(&store->refusal_lock);
    kiln__text_copy(out, KILN__STORE_REFUSAL, store->refusal);
    pthread_mutex_unlock(&store->refusal_lock);
    if (out[0] == '\0' && atomic_load(&base->counters->evictions) > 0)
        snprintf(out, KILN__STORE_REFUSAL, "evicted, to stay within %llu bytes and %llu files; " CAP_ADVICE,
                 (unsigned long long)store->cap_bytes, (unsigned long long)store->cap_files);
    else if (out[0] == '\0')
        kiln__text_copy(out, KILN__STORE_REFUSAL, "another process has removed it");
}

/* What is known of a compiler is no reason to make a store: a command that only looks makes nothing. */
static bool has_version(disk_store *store)
{
    disk_problem problem;
    int version = open_version(store, false, &problem);
    if (version >= 0)
        kiln__sys_close(version);
    return version != -ENOENT;
}

static int disk_put(kiln__store *base, kiln__blob *blob, bool replace)
{
    disk_store *store = (disk_store *)base;
    disk_problem problem;
    if (kiln__evict_cost(blob->length) > low_mark(share_of(store->cap_bytes)))
        return refuse_large(store, blob->length);
    if (blob->entry.kind == KILN__ENTRY_TOOLCHAIN && !has_version(store))
        return -ENOENT;
    int error = put_once(store, blob, replace, &problem);
    if (error == -ENOENT && (error = make_root(store, &problem)) == 0)
        error = put_once(store, blob, replace, &problem);
    if (error == 0 && !atomic_flag_test_and_set(&store->tagged))
        write_tag(store->root_fd); /* a store without a tag is a store all the same */
    if (error < 0) {
        note_problem(store, &problem, NULL);
        return remember_refusal(store, error, problem.where, problem.text);
    }
    if (error == 0)
        keep_within_caps(store, blob->entry.key.digest[0], blob->length);
    return error;
}

static void disk_drop(kiln__store *base, const kiln__key *key)
{
    char name[NAME_SIZE];
    disk_problem problem;
    int directory = has_name(key) ? open_shard((disk_store *)base, key->digest[0], false, &problem) : -ENOENT;
    if (directory < 0)
        return;
    format_name(name, key);
    if (kiln__sys_unlinkat(directory, name, 0) != 0 && errno != ENOENT)
        kiln__store_note(base, KILN__TROUBLE_WRITE, name, kiln__store_error_text(-errno), NULL);
    kiln__sys_close(directory);
}

int kiln__disk_store_probe(kiln__store *base)
{
    disk_problem problem;
    char name[KILN__FILE_UNIQUE];
    int directory = open_version((disk_store *)base, false, &problem);
    if (directory == -ENOENT)
        directory = try_root((disk_store *)base);
    if (directory <= 0)
        return directory == 0 ? 1 : directory;
    int fd = kiln__file_create_unique(directory, KILN__FILE_TEMPORARY, name);
    int error = fd < 0 ? fd : kiln__file_write(fd, name, sizeof name);
    if (fd >= 0 && kiln__sys_close(fd) != 0 && error == 0 && errno != EINTR)
        error = -errno;
    if (fd >= 0 && kiln__sys_unlinkat(directory, name, 0) != 0 && error == 0 && errno != ENOENT)
        error = -errno;
    kiln__sys_close(directory);
    return error;
}

/* ---- Opening and closing */

static void disk_close(kiln__store *base)
{
    disk_store *store = (disk_store *)base;
    if (store->root_fd >= 0)
        kiln__sys_close(store->root_fd);
    pthread_mutex_destroy(&store->refusal_lock);
    kiln__store_free(base);
}

#define ELEVATED_ADVICE "run Kiln without setuid, setgid and file capabilities to use it"

static const kiln__store_vtable disk_vtable = {
    .name = "disk",
    .get = disk_get,
    .put = disk_put,
    .drop = disk_drop,
    .close = disk_close,
    .on_disk = true,
    .kind = "store",
    .advice = {
        [KILN__TROUBLE_DAMAGED] = "it is removed and will be made again",
        [KILN__TROUBLE_UNTRUSTED] = "it is not used; remove it, or make it your own and writable by no other user",
        [KILN__TROUBLE_ELEVATED] = ELEVATED_ADVICE,
        [KILN__TROUBLE_READ] = "what it holds is compiled again; check the directory's permissions and the disk",
        [KILN__TROUBLE_WRITE] = "new kernels are not kept; check the directory's permissions and the free space",
    },
};

static const kiln__store_vtable shared_vtable = {
    .name = "shared",
    .get = disk_get,
    .put = kiln__store_no_put,
    .drop = kiln__store_no_drop,
    .close = disk_close,
    .on_disk = true,
    .kind = "store",
    .advice = {
        [KILN__TROUBLE_DAMAGED] = "it is not used; remove it and let its owner make it again",
        [KILN__TROUBLE_UNTRUSTED] = "it is not used; it must be yours or root's and writable by no other user",
        [KILN__TROUBLE_ELEVATED] = ELEVATED_ADVICE,
        [KILN__TROUBLE_READ] = "what it holds is compiled; check the directory's path and permissions and the disk",
        [KILN__TROUBLE_WRITE] = "it is only read",
    },
};

/* Absolute, so that it still names the same place after a chdir; without a slash at the end. */
static char *make_absolute(const char *path)
{
    char here[PATH_MAX];
    kiln__text text = { 0 };
    if (path[0] != '/' && getcwd(here, sizeof here))
        kiln__text_printf(&text, "%s/", strcmp(here, "/") == 0 ? "" : here);
    kiln__text_append(&text, path);
    while (text.length > 1 && !text.failed && text.data[text.length - 1] == '/')
        text.data[--text.length] = '\0';
    return kiln__text_take(&text);
}

static int open_root(disk_store *store, disk_problem *problem)
{
    const char *path = store->base.path;
    struct stat status;
    if (kiln__trust_is_elevated())
        return fail(problem, KILN__TROUBLE_ELEVATED, "", -EPERM,
                    "not used by a process with more rights than the user who started it");
    int error = store->shared || kiln__sys_fstatat(AT_FDCWD, path, &status, 0) == 0 || errno != ENOENT ? 0 : -ENOENT;
    atomic_store(&store->there, error == 0);
    if (error == 0)
        store->root_fd = store->shared ? kiln__file_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0)
                                       : kiln__file_make_directory(path);
    else if ((error = try_root(store)) == 0)
        store->root_fd = kiln__file_open(AT_FDCWD, "/dev/null", O_RDONLY, 0);
    if (store->root_fd < 0)
        return fail(problem, store->shared ? KILN__TROUBLE_READ : KILN__TROUBLE_WRITE, "",
                    error != 0 ? error : store->root_fd, NULL);
    return atomic_load(&store->there) ? check_directory(store, store->root_fd, "", false, problem) : 0;
}

static kiln__store *open_store(const char *root, bool shared, const kiln__log *log, kiln__store_counters *counters,
                               char *problem_text, size_t size)
{
    disk_problem problem = { 0 };
    disk_store *store = kiln__store_make(sizeof *store, shared ? &shared_vtable : &disk_vtable, make_absolute(root),
                                         log, counters, problem_text, size);
    if (!store)
        return NULL;
    store->root_fd = -1;
    store->shared = shared;
    pthread_mutex_init(&store->refusal_lock, NULL);
    store->cap_bytes = store->cap_files = UINT64_MAX;
    int error = open_root(store, &problem);
    note_problem(store, &problem, NULL);
    kiln__text_copy(problem_text, size, problem.text);
    if (error != 0) {
        disk_close(&store->base);
        return NULL;
    }
    return &store->base;
}

kiln__store *kiln__disk_store_open(const char *root, const kiln__log *log, kiln__store_counters *counters,
                                   char *problem_text, size_t size)
{
    return open_store(root, false, log, counters, problem_text, size);
}

kiln__store *kiln__disk_store_open_shared(const char *root, const kiln__log *log, kiln__store_counters *counters,
                                          char *problem_text, size_t size)
{
    return open_store(root, true, log, counters, problem_text, size);
}

const char *kiln__disk_store_root(const kiln__store *base)
{
    return base->path;
}

static int open_lock_once(disk_store *store)
{
    disk_problem problem;
    struct stat status;
    char buffer[sizeof problem.text];
    int version = open_version(store, true, &problem);
    if (version < 0)
        return version;
    int fd = kiln__file_open_private(version, LOCK_NAME);
    int error = fd < 0 ? fd : kiln__sys_fstat(fd, &status) != 0 ? -errno : 0;
    kiln__sys_close(version);
    if (error == 0 && kiln__trust_refuse_file(&status, trust_rule(store), buffer, sizeof buffer))
        error = -EPERM;
    if (error != 0 && fd >= 0)
        kiln__sys_close(fd);
    return error != 0 ? error : fd;
}

int kiln__disk_store_open_lock(kiln__store *base)
{
    disk_store *store = (disk_store *)base;
    disk_problem problem;
    int fd = open_lock_once(store);
    if (fd != -ENOENT)
        return fd;
    fd = make_root(store, &problem);
    return fd < 0 ? fd : open_lock_once(store);
}

int kiln__disk_store_open_beside(kiln__store *base, const char *name, bool make, char *problem_text, size_t size)
{
    disk_store *store = (disk_store *)base;
    disk_problem problem;
    int directory = open_in_root(store, name, make, &problem);
    if (directory == -ENOENT && make && (directory = make_root(store, &problem)) == 0)
        directory = open_in_root(store, name, make, &problem);
    if (directory == -ENOENT && make)
        fail(&problem, KILN__TROUBLE_WRITE, name, directory, NULL);
    kiln__text_copy(problem_text, size, directory < 0 && problem.trouble != KILN__TROUBLE_NONE ? problem.text : "");
    return directory;
}

/* ---- Walks over the whole store */

typedef struct disk_walk {
    disk_store *store;
    int (*beside)(void *data, const char *name); /* called for each name in the root and the version; may be NULL */
    int (*file)(void *data, const char *name);   /* called for each name in a shard; both get the walk as their data */
    kiln__store_visitor fn;                      /* the visitor, or the selection of a purge; may be NULL */
    void *data;
    bool stopped;
    int directory;
    unsigned shard;
    char below[SHARD_PATH_SIZE]; /* the path of `directory` below the root */
    bool purges;
    /* Of a purge: */
    uint64_t removed;
    int error; /* the first failure, whose text is in problem */
    char *problem;
    size_t size;
} disk_walk;

/* Hands one file, or with name "" a directory that cannot be used, to the walk's function, and returns its answer. */
static int show_item(const disk_walk *walk, const char *name, const disk_reading *found)
{
    kiln__text path = { 0 };
    kiln__text_printf(&path, "%s/%s%s%s", walk->store->base.path, walk->below, name[0] ? "/" : "", name);
    kiln__store_item item = { .path = kiln__text_string(&path),
                              .bytes = (uint64_t)found->status.st_size,
                              .entry = found->blob ? &found->blob->entry : NULL,
                              .used = (int64_t)found->status.st_mtim.tv_sec,
                              .untrusted = found->problem.trouble == KILN__TROUBLE_UNTRUSTED,
                              .error = found->blob ? 0 : found->problem.error,
                              .problem = found->problem.trouble != KILN__TROUBLE_NONE ? found->problem.text : "" };
    int answer = walk->fn(walk->data, &item);
    kiln__text_fini(&path);
    return answer;
}

static void purge_failed(disk_walk *walk, const char *where, int error, const char *reason)
{
    if (walk->error != 0)
        return;
    walk->error = error;
    snprintf(walk->problem, walk->size, "%s%s%s: %s", walk->store->base.path, where[0] ? "/" : "", where, reason);
}

/* Takes the outcome of one removal, and returns whether something was removed. A name that has gone or was replaced
 * meanwhile is no failure. */
static bool settle_removal(disk_walk *walk, const char *name, int error)
{
    char where[512];
    if (error != 0 && error != -ENOENT && error != -ESTALE) {
        snprintf(where, sizeof where, "%s%s%s", walk->below, walk->below[0] && name[0] ? "/" : "", name);
        purge_failed(walk, where, error, kiln__store_error_text(error));
    }
    return error == 0;
}

/* Removes a name, never the target of a link; a directory only if it is empty. */
static int remove_any(int directory, const char *name)
{
    if (kiln__sys_unlinkat(directory, name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return -errno;
    return kiln__sys_unlinkat(directory, name, AT_REMOVEDIR) == 0 ? 0 : -errno;
}

/* A directory in the place of a shard stays if it has something in it, which Kiln cannot judge. A shortage of this
 * process says nothing of the directory. */
static void purge_shard(disk_walk *walk, int version, const disk_reading *found)
{
    const disk_problem *problem = &found->problem;
    bool passing = problem->error == -ENOMEM || problem->error == -EMFILE || problem->error == -ENFILE;
    if (walk->fn && show_item(walk, "", found) == 0)
        return;
    if (!passing && remove_any(version, walk->below + sizeof VERSION_NAME) == 0)
        walk->removed++;
    else
        purge_failed(walk, walk->below, problem->error, problem->text);
}

/* Lists a directory. One that cannot be listed is a failure of a purge, and an item of a visit. */
static void list_directory(disk_walk *walk, int directory, int (*fn)(void *data, const char *name))
{
    walk->directory = directory;
    int error = kiln__file_list(directory, fn, walk);
    if (error < 0 && walk->purges) {
        settle_removal(walk, "", error);
    } else if (error < 0 && walk->fn) {
        disk_reading found = { 0 };
        fail(&found.problem, KILN__TROUBLE_READ, walk->below, error, NULL);
        walk->stopped = show_item(walk, "", &found) != 0;
    }
}

/* Lists every shard that can be used, and reports or purges the others. */
static void walk_shards(disk_walk *walk, int version)
{
    for (walk->shard = 0; walk->shard < SHARDS && !walk->stopped; walk->shard++) {
        disk_reading found = { 0 };
        format_shard(walk->below, walk->shard);
        int directory = open_shard_in(walk->store, version, walk->shard, false, &found.problem);
        if (directory >= 0) {
            list_directory(walk, directory, walk->file);
            kiln__sys_close(directory);
        } else if (found.problem.trouble != KILN__TROUBLE_NONE && walk->purges) {
            purge_shard(walk, version, &found);
        } else if (found.problem.trouble != KILN__TROUBLE_NONE && walk->fn) {
            walk->stopped = show_item(walk, "", &found) != 0;
        }
    }
}

/* 0, also for a store without a version's directory, or -errno if the root or that directory cannot be read. */
static int walk_store(disk_walk *walk)
{
    disk_problem problem;
    int version = open_version(walk->store, false, &problem);
    if (walk->beside && (version >= 0 || version == -ENOENT) && atomic_load(&walk->store->there))
        list_directory(walk, walk->store->root_fd, walk->beside);
    if (version < 0 && version != -ENOENT && walk->purges)
        purge_failed(walk, problem.where, version, problem.text);
    if (version < 0)
        return version == -ENOENT ? 0 : version;
    kiln__text_copy(walk->below, sizeof walk->below, VERSION_NAME);
    if (walk->beside)
        list_directory(walk, version, walk->beside);
    walk_shards(walk, version);
    kiln__sys_close(version);
    return 0;
}

static int visit_file(void *data, const char *name)
{
    disk_walk *walk = data;
    disk_reading found;
    kiln__key key;
    if (!parse_name(&key, walk->shard, name))
        return 0;
    read_entry(walk->store, &found, walk->directory, name, &key);
    if (found.blob || found.problem.trouble != KILN__TROUBLE_NONE)
        walk->stopped = show_item(walk, name, &found) != 0;
    kiln__blob_release(found.blob);
    return walk->stopped;
}

int kiln__disk_store_visit(kiln__store *base, kiln__store_visitor fn, void *data)
{
    disk_walk walk = { .store = (disk_store *)base, .file = visit_file, .fn = fn, .data = data };
    return walk_store(&walk);
}

static int count_temporary(void *data, const char *name)
{
    const disk_walk *walk = data;
    kiln_cache_info *info = walk->data;
    struct stat status;
    if (kiln__file_is_unique(name, KILN__FILE_TEMPORARY) &&
        kiln__sys_fstatat(walk->directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        info->temporaries++;
        info->temporary_bytes += (uint64_t)status.st_size;
    }
    return 0;
}

int kiln__disk_store_info(kiln__store *base, kiln_cache_info *out)
{
    disk_store *store = (disk_store *)base;
    disk_walk walk = { .store = store, .beside = count_temporary, .file = count_temporary, .data = out };
    out->cap_bytes = store->cap_bytes;
    out->cap_files = store->cap_files;
    out->temporaries = out->temporary_bytes = 0;
    return walk_store(&walk);
}

static int purge_temporary(void *data, const char *name)
{
    disk_walk *walk = data;
    int result = kiln__evict_temporary(walk->directory, KILN__FILE_TEMPORARY, name);
    settle_removal(walk, name, result < 0 ? result : 0);
    return 0;
}

/* Whether the file is at fault. A file that the disk or a limit does not let Kiln read may be good. */
static bool is_refused(const disk_store *store, const disk_problem *problem, const struct stat *status)
{
    char buffer[sizeof problem->text];
    return problem->trouble == KILN__TROUBLE_DAMAGED || problem->trouble == KILN__TROUBLE_UNTRUSTED ||
           kiln__trust_refuse_file(status, trust_rule(store), buffer, sizeof buffer) ||
           (status->st_mode & S_IRUSR) == 0;
}

/* Removes a file if it is selected and is not replaced while it is being read. */
static int remove_selected(const disk_walk *walk, const char *name, const kiln__key *key)
{
    struct stat before;
    disk_reading found;
    int error = -ENOENT;
    if (kiln__sys_fstatat(walk->directory, name, &before, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    read_entry(walk->store, &found, walk->directory, name, key);
    bool gone = !found.blob && found.problem.trouble == KILN__TROUBLE_NONE;
    if (!gone && !found.blob && !is_refused(walk->store, &found.problem, &before))
        error = found.problem.error;
    else if (!gone && show_item(walk, name, &found) != 0)
        error = kiln__file_remove_same(walk->directory, name, &before);
    kiln__blob_release(found.blob);
    return error == -EISDIR ? remove_any(walk->directory, name) : error;
}

static int purge_file(void *data, const char *name)
{
    disk_walk *walk = data;
    kiln__key key;
    if (!parse_name(&key, walk->shard, name))
        return purge_temporary(walk, name);
    int error = walk->fn ? remove_selected(walk, name, &key) : remove_any(walk->directory, name);
    walk->removed += settle_removal(walk, name, error);
    return 0;
}

int kiln__disk_store_purge(kiln__store *base, kiln__store_visitor select, void *data, uint64_t *removed,
                           char *problem_text, size_t size)
{
    disk_walk walk = { .store = (disk_store *)base,
                       .beside = purge_temporary,
                       .file = purge_file,
                       .fn = select,
                       .data = data,
                       .purges = true,
                       .problem = problem_text,
                       .size = size };
    kiln__text_copy(problem_text, size, "");
    walk_store(&walk);
    *removed = walk.removed;
    return walk.error;
}

/* Calls kiln__evict_scan or kiln__evict_apply for each shard that can be used, and adds the first failure to *error. */
static void evict_shards(const disk_store *store, int version, kiln__evict *evict, int (*fn)(kiln__evict *, int),
                         int *error)
{
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        disk_problem problem;
        int directory = open_shard_in(store, version, shard, false, &problem);
        int result = directory >= 0 ? fn(evict, directory) : directory == -ENOENT ? 0 : directory;
        if (directory >= 0)
            kiln__sys_close(directory);
        if (*error == 0)
            *error = result;
    }
}

static int trim_temporary(void *data, const char *name)
{
    kiln__evict_temporary(*(const int *)data, KILN__FILE_TEMPORARY, name);
    return 0;
}

int kiln__disk_store_trim(kiln__store *base, uint64_t bytes, uint64_t files, kiln_trim *out)
{
    disk_store *store = (disk_store *)base;
    disk_problem problem;
    kiln__evict evict = { .is_entry = is_entry_name };
    int version = open_version(store, false, &problem), error = version < 0 && version != -ENOENT ? version : 0;
    bytes = bytes > 0 ? bytes : store->cap_bytes;
    files = files > 0 ? files : store->cap_files;
    if (version >= 0) {
        kiln__file_list(store->root_fd, trim_temporary, (void *)&store->root_fd);
        kiln__file_list(version, trim_temporary, &version);
        evict_shards(store, version, &evict, kiln__evict_scan, &error);
        if (kiln__evict_is_over(&evict, bytes, files)) {
            kiln__evict_rescan(&evict);
            evict_shards(store, version, &evict, kiln__evict_scan, &error);
        }
        if (kiln__evict_plan(&evict, bytes, files))
            evict_shards(store, version, &evict, kiln__evict_apply, &error);
        kiln__sys_close(version);
    }
    atomic_fetch_add_explicit(&base->counters->evictions, evict.removed, memory_order_relaxed);
    out->removed = evict.removed;
    out->removed_bytes = evict.removed_bytes;
    out->kept = evict.count - evict.removed;
    out->kept_bytes = evict.bytes - evict.removed_bytes;
    kiln__evict_fini(&evict);
    return error;
}
