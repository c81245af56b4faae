/* Looking at all of a directory store, and purging it. */
#include "base/text.h"
#include "os/file.h"
#include "os/syscalls.h"
#include "os/trust.h"
#include "store/disk_parts.h"
#include "store/evict.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a purge has done so far. */
typedef struct disk_purge {
    int (*select)(void *data, const kiln__store_item *item); /* NULL: all */
    void *data;
    uint64_t removed;
    int error; /* the first failure, and what is told of it */
    char *problem;
    size_t size;
} disk_purge;

typedef struct disk_walk {
    kiln__disk *store;
    int directory;
    char below[sizeof KILN__DISK_VERSION + KILN__NAME_SHARD + 1]; /* where `directory` is, seen from the root */
    unsigned shard;
    int (*file)(void *data, const char *name); /* called for each name in a shard, with the walk as its data */
    int (*fn)(void *data, const kiln__store_item *item);
    void *data;
    disk_purge *purge; /* NULL in a visit */
    bool stopped;
} disk_walk;

/* Hands one file, or a directory that cannot be used, to a callback, and returns what it says. */
static int show_item(const disk_walk *walk, const char *where, const kiln__disk_reading *found,
                     int (*fn)(void *data, const kiln__store_item *item), void *data)
{
    kiln__text path = { 0 };
    kiln__text_printf(&path, "%s/%s", walk->store->root, where);
    kiln__store_item item = { .path = kiln__text_string(&path),
                              .bytes = (uint64_t)found->status.st_size,
                              .entry = found->blob ? &found->blob->entry : NULL,
                              .used = (int64_t)found->status.st_mtim.tv_sec,
                              .untrusted = found->problem.cause == KILN__DISK_UNTRUSTED,
                              .error = found->blob ? 0 : found->problem.error,
                              .problem = found->problem.cause != KILN__DISK_FINE ? found->problem.text : "" };
    int answer = fn(data, &item);
    kiln__text_fini(&path);
    return answer;
}

/* The same for the visitor, if there is one. */
static void report_item(disk_walk *walk, const char *where, const kiln__disk_reading *found)
{
    if (walk->fn && (found->blob || found->problem.cause != KILN__DISK_FINE))
        walk->stopped = show_item(walk, where, found, walk->fn, walk->data) != 0;
}

static int visit_file(void *data, const char *name)
{
    disk_walk *walk = data;
    kiln__disk_reading found;
    kiln__key key;
    char where[512];
    if (!kiln__name_parse(&key, walk->shard, name))
        return 0;
    kiln__disk_read(walk->store, &found, walk->directory, name, &key);
    snprintf(where, sizeof where, "%s/%s", walk->below, name);
    report_item(walk, where, &found);
    kiln__blob_release(found.blob);
    return walk->stopped;
}

static void purge_failed(const disk_walk *walk, const char *where, int error, const char *reason)
{
    disk_purge *purge = walk->purge;
    if (purge->error != 0)
        return;
    purge->error = error;
    snprintf(purge->problem, purge->size, "%s%s%s: %s", walk->store->root, where[0] ? "/" : "", where, reason);
}

/* Takes the outcome of one step: a name that went or was replaced meanwhile is no failure, but nothing was removed. */
static bool settle(const disk_walk *walk, const char *name, int error)
{
    char where[512];
    if (error != 0 && error != -ENOENT && error != -ESTALE) {
        const char *text = strerrordesc_np(-error);
        snprintf(where, sizeof where, "%s%s%s", walk->below, walk->below[0] && name[0] ? "/" : "", name);
        purge_failed(walk, where, error, text ? text : "unknown error");
    }
    return error == 0;
}

/* Removes a name, never what it links to; a directory only if it is empty. */
static int remove_any(int directory, const char *name)
{
    if (kiln__sys_unlinkat(directory, name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return -errno;
    return kiln__sys_unlinkat(directory, name, AT_REMOVEDIR) == 0 ? 0 : -errno;
}

static int purge_temporary(void *data, const char *name)
{
    const disk_walk *walk = data;
    int result = kiln__evict_temporary(walk->directory, KILN__FILE_TEMPORARY, name);
    settle(walk, name, result < 0 ? result : 0);
    return 0;
}

/* Whether a failure says something of this process at this moment and nothing of the file. */
static bool is_passing(int error)
{
    return error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

/* Whether it is the file's own fault: what a disk or a limit does not let us read may be good. */
static bool is_refused(const kiln__disk_problem *problem, const struct stat *status)
{
    char buffer[sizeof problem->text];
    return problem->cause == KILN__DISK_DAMAGED || problem->cause == KILN__DISK_UNTRUSTED ||
           kiln__trust_refuse_file(status, buffer, sizeof buffer) || (status->st_mode & S_IRUSR) == 0;
}

static bool is_selected(const disk_walk *walk, const char *name, const kiln__disk_reading *found)
{
    char where[512];
    snprintf(where, sizeof where, "%s/%s", walk->below, name);
    return show_item(walk, where, found, walk->purge->select, walk->purge->data) != 0;
}

/* Removes a file if it is selected and is not replaced while it is being read. */
static int remove_selected(const disk_walk *walk, const char *name, const kiln__key *key)
{
    struct stat before;
    kiln__disk_reading found;
    int error = 0;
    if (kiln__sys_fstatat(walk->directory, name, &before, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    kiln__disk_read(walk->store, &found, walk->directory, name, key);
    bool gone = !found.blob && found.problem.cause == KILN__DISK_FINE;
    if (!gone && !found.blob && !is_refused(&found.problem, &before))
        error = found.problem.error;
    else if (!gone && is_selected(walk, name, &found))
        error = kiln__file_remove_same(walk->directory, name, &before);
    else
        error = -ENOENT;
    kiln__blob_release(found.blob);
    return error == -EISDIR ? remove_any(walk->directory, name) : error;
}

static int purge_file(void *data, const char *name)
{
    disk_walk *walk = data;
    kiln__key key;
    if (!kiln__name_parse(&key, walk->shard, name))
        return purge_temporary(walk, name);
    int error = walk->purge->select ? remove_selected(walk, name, &key) : remove_any(walk->directory, name);
    walk->purge->removed += settle(walk, name, error);
    return 0;
}

/* What stands in the place of a shard goes, unless it is a directory with something in it: that is not ours to
 * judge. */
static void purge_shard(const disk_walk *walk, int version, const kiln__disk_reading *found)
{
    const disk_purge *purge = walk->purge;
    const kiln__disk_problem *problem = &found->problem;
    if (problem->cause == KILN__DISK_FINE ||
        (purge->select && show_item(walk, walk->below, found, purge->select, purge->data) == 0))
        return;
    if (!is_passing(problem->error) && remove_any(version, walk->below + sizeof KILN__DISK_VERSION) == 0)
        walk->purge->removed++;
    else
        purge_failed(walk, walk->below, problem->error, problem->text);
}

/* Lists every shard that can be used and reports or purges the others. */
static void walk_shards(disk_walk *walk, int version)
{
    for (walk->shard = 0; walk->shard < KILN__DISK_SHARDS && !walk->stopped; walk->shard++) {
        kiln__disk_reading found = { 0 };
        snprintf(walk->below, sizeof walk->below, KILN__DISK_VERSION "/%02x", walk->shard & (KILN__DISK_SHARDS - 1));
        walk->directory = kiln__disk_open_shard(walk->store, version, walk->shard, false, &found.problem);
        if (walk->directory < 0) {
            if (walk->purge)
                purge_shard(walk, version, &found);
            else
                report_item(walk, walk->below, &found);
            continue;
        }
        int error = kiln__file_list(walk->directory, walk->file, walk);
        kiln__sys_close(walk->directory);
        if (error < 0) {
            kiln__disk_fail(&found.problem, KILN__DISK_READ, walk->below, error);
            if (walk->purge)
                settle(walk, "", error);
            else
                report_item(walk, walk->below, &found);
        }
    }
}

int kiln__disk_store_visit(kiln__store *base, int (*fn)(void *data, const kiln__store_item *item), void *data)
{
    disk_walk walk = { .store = (kiln__disk *)base, .file = visit_file, .fn = fn, .data = data };
    kiln__disk_problem problem;
    int version = kiln__disk_open_version(walk.store, false, &problem);
    if (version < 0)
        return version == -ENOENT ? 0 : version;
    walk_shards(&walk, version);
    kiln__sys_close(version);
    return 0;
}

static int count_temporary(void *data, const char *name)
{
    const disk_walk *walk = data;
    kiln__disk_info *info = walk->data;
    struct stat status;
    if (kiln__evict_is_temporary(name) && kiln__sys_fstatat(walk->directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        info->temporaries++;
        info->temporary_bytes += (uint64_t)status.st_size;
    }
    return 0;
}

static void count_temporaries(disk_walk *walk, int directory)
{
    walk->directory = directory;
    kiln__file_list(directory, count_temporary, walk);
}

int kiln__disk_store_info(kiln__store *base, kiln__disk_info *out)
{
    kiln__disk *store = (kiln__disk *)base;
    disk_walk walk = { .store = store, .file = count_temporary, .data = out };
    kiln__disk_problem problem;
    *out = (kiln__disk_info){ .cap_bytes = store->cap_bytes, .cap_files = store->cap_files };
    int version = kiln__disk_open_version(store, false, &problem);
    if (version >= 0 || version == -ENOENT)
        count_temporaries(&walk, store->root_fd);
    if (version < 0)
        return version == -ENOENT ? 0 : version;
    count_temporaries(&walk, version);
    walk_shards(&walk, version);
    kiln__sys_close(version);
    return 0;
}

int kiln__disk_store_read(kiln__store *base, const kiln__key *key, kiln__blob **out)
{
    kiln__disk *store = (kiln__disk *)base;
    kiln__disk_reading found = { 0 };
    char name[KILN__NAME_SIZE];
    *out = NULL;
    int version = kiln__name_has(key) ? kiln__disk_open_version(store, false, &found.problem) : -ENOENT;
    if (version < 0)
        return version;
    int directory = kiln__disk_open_shard(store, version, key->digest[0], false, &found.problem);
    kiln__sys_close(version);
    if (directory < 0)
        return directory;
    kiln__name_format(name, key);
    kiln__disk_read(store, &found, directory, name, key);
    kiln__sys_close(directory);
    *out = found.blob;
    return found.blob ? 0 : found.problem.cause == KILN__DISK_FINE ? -ENOENT : found.problem.error;
}

static void purge_temporaries(disk_walk *walk, int directory, const char *below)
{
    walk->directory = directory;
    kiln__text_copy(walk->below, sizeof walk->below, below);
    int error = kiln__file_list(directory, purge_temporary, walk);
    if (error < 0)
        settle(walk, "", error);
}

int kiln__disk_store_purge(kiln__store *base, int (*select)(void *data, const kiln__store_item *item), void *data,
                           uint64_t *removed, char *problem_text, size_t size)
{
    disk_purge purge = { .select = select, .data = data, .problem = problem_text, .size = size };
    disk_walk walk = { .store = (kiln__disk *)base, .file = purge_file, .purge = &purge };
    kiln__disk_problem problem;
    kiln__text_copy(problem_text, size, "");
    int version = kiln__disk_open_version(walk.store, false, &problem);
    if (version >= 0 || version == -ENOENT)
        purge_temporaries(&walk, walk.store->root_fd, "");
    if (version >= 0) {
        purge_temporaries(&walk, version, KILN__DISK_VERSION);
        walk_shards(&walk, version);
        kiln__sys_close(version);
    } else if (version != -ENOENT) {
        purge_failed(&walk, problem.where, version, problem.text);
    }
    *removed = purge.removed;
    return purge.error;
}
