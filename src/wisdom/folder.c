#include "wisdom/folder.h"

#include "base/alloc.h"
#include "base/text.h"
#include "os/file.h"
#include "os/syscalls.h"
#include "os/trust.h"
#include "store/disk.h"
#include "store/evict.h"
#include "wisdom/json.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECTORY "wisdom"
#define LOCK_NAME "lock"
#define SUFFIX    ".json"
#define ASIDE     ".bad"

enum { NAME_SIZE = 256, LOCK_ATTEMPTS = 5 };

/* Bytes of the lock file. */
enum { LOCK_FILES, LOCK_TURN };

typedef enum trouble_cause {
    CAUSE_NONE,
    CAUSE_DAMAGED,
    CAUSE_UNTRUSTED,
    CAUSE_NEWER,
    CAUSE_READ,
    CAUSE_WRITE
} trouble_cause;

static const char *const advice[] = {
    [CAUSE_DAMAGED] = "it is not used; mend or remove it, or it will be put aside when it is next written",
    [CAUSE_UNTRUSTED] = "it is not used; remove it, or make it your own and writable by nobody else",
    [CAUSE_NEWER] = "it is not used, and nothing is added to it; update Kiln",
    [CAUSE_READ] = "it is not used; check the directory's permissions and the disk",
    [CAUSE_WRITE] = "results of tuning are not kept; check the directory's permissions and the free space",
};
static const char *const shared_advice[] = {
    [CAUSE_DAMAGED] = "it is not used; let its owner mend or remove it",
    [CAUSE_UNTRUSTED] = "it is not used; it must be yours or root's and writable by nobody else",
    [CAUSE_NEWER] = "it is not used; update Kiln",
    [CAUSE_READ] = "it is not used; check its permissions and the disk",
    [CAUSE_WRITE] = "it is only read",
};

/* What happened to one file or directory. */
typedef struct trouble {
    trouble_cause cause;
    int error; /* a negative errno */
    char text[KILN__WISDOM_REASON];
} trouble;

static int set_trouble(trouble *out, trouble_cause cause, int error, const char *text)
{
    const char *known = strerrordesc_np(-error);
    out->cause = cause;
    out->error = error;
    kiln__text_copy(out->text, sizeof(out->text), text != NULL ? text : known != NULL ? known : "unknown error");
    return error;
}

static void note(kiln__wisdom_folder *folder, const char *name, const trouble *what)
{
    if (what->cause == CAUSE_NONE)
        return;
    atomic_uint_least64_t *counter = what->cause == CAUSE_DAMAGED     ? &folder->counters->damaged
                                     : what->cause == CAUSE_UNTRUSTED ? &folder->counters->untrusted
                                                                      : &folder->counters->errors;
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    unsigned bit = 1u << what->cause;
    if ((atomic_fetch_or_explicit(&folder->warned, bit, memory_order_relaxed) & bit) == 0)
        kiln__log_line(folder->log, KILN_LOG_WARN, "wisdom %s/" DIRECTORY "%s%s: %s; %s",
                       kiln__disk_store_root(folder->store), name[0] != '\0' ? "/" : "", name, what->text,
                       (folder->shared ? shared_advice : advice)[what->cause]);
}

/* A descriptor or -errno; -ENOENT without trouble where there is none and it need not be made. */
static int open_folder(const kiln__wisdom_folder *folder, bool make, trouble *what)
{
    char problem[KILN__WISDOM_REASON];
    *what = (trouble){ 0 };
    if (folder->store == NULL)
        return -ENOENT;
    int directory = kiln__disk_store_open_beside(folder->store, DIRECTORY, make, problem, sizeof(problem));
    if (directory < 0 && problem[0] != '\0')
        set_trouble(what, directory == -EPERM ? CAUSE_UNTRUSTED : make ? CAUSE_WRITE : CAUSE_READ, directory, problem);
    return directory;
}

/* ---- Names */

void kiln__wisdom_slug(const char *model, char out[KILN__WISDOM_SLUG])
{
    size_t length = 0;
    for (const char *c = model; *c != '\0' && length < KILN__WISDOM_SLUG - 1; c++) {
        char low = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
        if ((low >= 'a' && low <= 'z') || (low >= '0' && low <= '9'))
            out[length++] = low;
        else if (length > 0 && out[length - 1] != '-')
            out[length++] = '-';
    }
    while (length > 0 && out[length - 1] == '-')
        length--;
    out[length] = '\0';
    if (length == 0)
        kiln__text_copy(out, KILN__WISDOM_SLUG, "device");
}

void kiln__wisdom_folder_path(const kiln__wisdom_folder *folder, const char *model, kiln__text *out)
{
    char slug[KILN__WISDOM_SLUG];
    kiln__wisdom_slug(model, slug);
    if (folder->store != NULL)
        kiln__text_printf(out, "%s/" DIRECTORY "/%s" SUFFIX, kiln__disk_store_root(folder->store), slug);
}

typedef struct listing {
    char **names;
    size_t count, room;
    bool failed;
} listing;

static bool make_room(listing *list)
{
    if (list->count < list->room)
        return true;
    size_t room = list->room > 0 ? 2 * list->room : 16;
    char **names = kiln__realloc(list->names, room * sizeof(*names));
    if (names == NULL)
        return false;
    list->names = names;
    list->room = room;
    return true;
}

static int take_name(void *data, const char *name)
{
    listing *list = data;
    size_t length = strlen(name);
    if (name[0] == '.' || length <= strlen(SUFFIX) || length >= NAME_SIZE ||
        strcmp(name + length - strlen(SUFFIX), SUFFIX) != 0)
        return 0;
    char *copy = make_room(list) ? kiln__strdup(name) : NULL;
    list->failed = copy == NULL;
    if (copy != NULL)
        list->names[list->count++] = copy;
    return list->failed;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void free_names(listing *list)
{
    while (list->count > 0)
        kiln__free(list->names[--list->count]);
    kiln__free(list->names);
    *list = (listing){ 0 };
}

/* Sorted, so that what comes of them does not depend on the file system. 0 or -errno. */
static int list_names(int directory, listing *out)
{
    *out = (listing){ 0 };
    int error = kiln__file_list(directory, take_name, out);
    if (error == 0 && out->failed)
        error = -ENOMEM;
    if (error != 0)
        free_names(out);
    else if (out->count > 0)
        qsort(out->names, out->count, sizeof(out->names[0]), compare_names);
    return error;
}

/* ---- Reading */

static void append_stamp(int directory, const char *name, kiln__text *stamp)
{
    struct stat status = { 0 };
    int error = kiln__sys_fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ? errno : 0;
    kiln__text_printf(stamp, "%s %d %llx %llx %llx %o %u %lld.%ld %lld.%ld\n", name, error,
                      (unsigned long long)status.st_dev, (unsigned long long)status.st_ino,
                      (unsigned long long)status.st_size, (unsigned)status.st_mode, (unsigned)status.st_uid,
                      (long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec, (long long)status.st_ctim.tv_sec,
                      status.st_ctim.tv_nsec);
}

int kiln__wisdom_folder_stamp(kiln__wisdom_folder *folder, kiln__text *stamp)
{
    trouble what;
    listing list;
    int directory = open_folder(folder, false, &what);
    if (directory < 0) {
        note(folder, "", &what);
        return what.cause == CAUSE_READ ? directory : 0;
    }
    int error = list_names(directory, &list);
    for (size_t i = 0; error == 0 && i < list.count; i++)
        append_stamp(directory, list.names[i], stamp);
    if (error == 0)
        free_names(&list);
    kiln__sys_close(directory);
    if (error != 0) {
        set_trouble(&what, CAUSE_READ, error, NULL);
        note(folder, "", &what);
    }
    return error;
}

/* What is wrong with a file before anybody looks into it. */
static int check_file(const kiln__wisdom_folder *folder, const struct stat *status, int error, trouble *what)
{
    char buffer[KILN__WISDOM_REASON];
    if (error == -ENOENT)
        return error;
    if (error == -ELOOP)
        return set_trouble(what, CAUSE_UNTRUSTED, -EPERM, "is a link, expected a regular file");
    if (error == -ENXIO)
        return set_trouble(what, CAUSE_UNTRUSTED, -EPERM, "is a special file, expected a regular file");
    if (status->st_mode != 0) {
        const char *reason = folder->shared ? kiln__trust_refuse_shared_file(status, buffer, sizeof(buffer))
                                            : kiln__trust_refuse_file(status, buffer, sizeof(buffer));
        if (reason != NULL)
            return set_trouble(what, CAUSE_UNTRUSTED, -EPERM, reason);
    }
    if (error == -EFBIG)
        return set_trouble(what, CAUSE_DAMAGED, -EBADMSG, "it is too large");
    return error != 0 ? set_trouble(what, CAUSE_READ, error, NULL) : 0;
}

/* 0 with the records; else an empty set, -ENOENT without trouble where there is no such file. */
static int read_file(const kiln__wisdom_folder *folder, int directory, const char *name, kiln__wisdom_set *out,
                     trouble *what)
{
    void *bytes;
    size_t length;
    struct stat status;
    char problem[KILN__WISDOM_REASON];
    *out = (kiln__wisdom_set){ 0 };
    *what = (trouble){ 0 };
    int error = kiln__file_read(&bytes, &length, directory, name, O_NOFOLLOW, KILN__WISDOM_FILE_MAX, &status);
    int refused = check_file(folder, &status, error, what);
    if (refused == 0) {
        kiln__wisdom_fault fault = kiln__wisdom_read(out, bytes, length, problem);
        if (fault == KILN__WISDOM_DAMAGED)
            refused = set_trouble(what, CAUSE_DAMAGED, -EBADMSG, problem);
        else if (fault == KILN__WISDOM_NEWER)
            refused = set_trouble(what, CAUSE_NEWER, -EPROTONOSUPPORT, problem);
        else if (fault != KILN__WISDOM_GOOD)
            refused = set_trouble(what, CAUSE_READ, -ENOMEM, problem);
    }
    kiln__free(bytes);
    return refused;
}

/* -errno only where the file may be good and could not be read. */
static int load_file(kiln__wisdom_folder *folder, int directory, const char *name, kiln__wisdom_set *out)
{
    trouble what;
    kiln__wisdom_set set;
    int error = read_file(folder, directory, name, &set, &what);
    if (error == 0 && !kiln__wisdom_set_join(out, &set))
        set_trouble(&what, CAUSE_READ, -ENOMEM, NULL);
    kiln__wisdom_set_fini(&set);
    note(folder, name, &what);
    return what.cause == CAUSE_READ ? what.error : 0;
}

int kiln__wisdom_folder_load(kiln__wisdom_folder *folder, kiln__wisdom_set *out)
{
    trouble what;
    listing list;
    int directory = open_folder(folder, false, &what);
    if (directory < 0)
        return what.cause == CAUSE_READ ? directory : 0; /* noted with the stamp */
    int first = list_names(directory, &list);
    for (size_t i = 0; i < list.count; i++) {
        int error = load_file(folder, directory, list.names[i], out);
        first = first != 0 ? first : error;
    }
    free_names(&list);
    kiln__sys_close(directory);
    return first;
}

/* ---- Writing */

static int open_lock(int directory)
{
    struct stat status;
    char buffer[KILN__WISDOM_REASON];
    int fd = kiln__file_open_private(directory, LOCK_NAME);
    int error = fd < 0 ? fd : kiln__sys_fstat(fd, &status) != 0 ? -errno : 0;
    if (error == 0 && kiln__trust_refuse_file(&status, buffer, sizeof(buffer)) != NULL)
        error = -EPERM;
    if (error != 0 && fd >= 0)
        kiln__sys_close(fd);
    return error != 0 ? error : fd;
}

/* Who waits holds the turn meanwhile. A process that adds one record after the other would else take the lock again
 * before anybody who looks for it every few milliseconds finds it free. */
static int wait_for_lock(const kiln__wisdom_folder *folder, const kiln__lock *lock)
{
    int error = kiln__lock_wait(lock, LOCK_TURN, folder->wait_ms);
    if (error == 0)
        error = kiln__lock_wait(lock, LOCK_FILES, folder->wait_ms);
    kiln__lock_give(lock, LOCK_TURN);
    return error;
}

/* The directory and its lock, or -errno. Both anew where somebody removed them meanwhile. */
static int open_locked(kiln__wisdom_folder *folder, kiln__lock *lock, trouble *what)
{
    int error = -ENOENT;
    for (int i = 0; i < LOCK_ATTEMPTS && error == -ENOENT; i++) {
        int directory = open_folder(folder, true, what);
        if (directory < 0)
            return directory;
        error = kiln__lock_open(lock, open_lock(directory));
        if (error >= 0)
            error = wait_for_lock(folder, lock);
        if (error == 0)
            return directory;
        kiln__lock_close(lock);
        kiln__sys_close(directory);
    }
    const char *text = error == -ETIMEDOUT ? "another process holds its lock" : NULL;
    return set_trouble(what, error == -EPERM ? CAUSE_UNTRUSTED : CAUSE_WRITE, error, text);
}

static int publish(int directory, const char *name, const kiln__wisdom_set *set)
{
    kiln__text text = { 0 };
    kiln__wisdom_write(set, NULL, NULL, &text);
    int error = text.failed ? -ENOMEM
                : text.length > KILN__WISDOM_FILE_MAX
                    ? -EFBIG
                    : kiln__file_publish(directory, name, text.data, text.length, true);
    kiln__text_fini(&text);
    return error;
}

static int put_aside(int directory, const char *name)
{
    char aside[NAME_SIZE];
    snprintf(aside, sizeof(aside), "%s" ASIDE, name);
    return kiln__sys_renameat(directory, name, directory, aside) != 0 && errno != ENOENT ? -errno : 0;
}

/* `set` is what the file holds. */
static int rewrite(int directory, const char *name, kiln__wisdom_set *set, bool damaged,
                   kiln__wisdom_entry *const *records, size_t count, kiln__wisdom_counts *tally)
{
    kiln__wisdom_fate fate = kiln__wisdom_set_add_all(set, records, count, tally);
    int error = fate == KILN__WISDOM_FULL ? -EFBIG : fate == KILN__WISDOM_NO_MEMORY ? -ENOMEM : 0;
    if (error == 0 && damaged)
        error = put_aside(directory, name);
    if (error == 0 && tally->added + tally->replaced > 0)
        error = publish(directory, name, set);
    return error;
}

/* The records of one model into its file, under the lock. 0 or -errno with the trouble. */
static int merge_file(kiln__wisdom_folder *folder, int directory, kiln__wisdom_entry *const *records, size_t count,
                      kiln__wisdom_counts *tally, trouble *what)
{
    char slug[KILN__WISDOM_SLUG], name[KILN__WISDOM_SLUG + sizeof(SUFFIX)];
    kiln__wisdom_set set;
    kiln__wisdom_slug(records[0]->device.model, slug);
    snprintf(name, sizeof(name), "%s" SUFFIX, slug);
    int error = read_file(folder, directory, name, &set, what);
    note(folder, name, what);
    bool damaged = what->cause == CAUSE_DAMAGED;
    if (error != 0 && error != -ENOENT && !damaged)
        return error;
    *tally = (kiln__wisdom_counts){ 0 };
    *what = (trouble){ 0 };
    error = rewrite(directory, name, &set, damaged, records, count, tally);
    if (error != 0) {
        set_trouble(what, CAUSE_WRITE, error, error == -EFBIG ? "there are too many records for one file" : NULL);
        note(folder, name, what);
    }
    kiln__wisdom_set_fini(&set);
    return error;
}

static size_t count_of_model(const kiln__wisdom_set *set, size_t first)
{
    size_t end = first + 1;
    while (end < set->count && strcmp(set->records[end]->device.model, set->records[first]->device.model) == 0)
        end++;
    return end - first;
}

static int merge_all(kiln__wisdom_folder *folder, int directory, const kiln__wisdom_set *records,
                     kiln__wisdom_counts *out, trouble *first)
{
    *first = (trouble){ 0 };
    for (size_t i = 0, count; i < records->count; i += count) {
        trouble what;
        kiln__wisdom_counts tally;
        count = count_of_model(records, i);
        if (merge_file(folder, directory, records->records + i, count, &tally, &what) == 0) {
            out->added += tally.added;
            out->replaced += tally.replaced;
            out->equal += tally.equal;
            out->older_kept += tally.older_kept;
        } else if (first->error == 0) {
            *first = what;
        }
    }
    return first->error;
}

static int sweep(void *data, const char *name)
{
    kiln__evict_temporary(*(const int *)data, KILN__FILE_TEMPORARY, name);
    return 0;
}

int kiln__wisdom_folder_merge(kiln__wisdom_folder *folder, const kiln__wisdom_set *records, kiln__wisdom_counts *out,
                              char problem[KILN__WISDOM_REASON])
{
    trouble what;
    kiln__lock lock = { .fd = -1 };
    *out = (kiln__wisdom_counts){ 0 };
    int directory = open_locked(folder, &lock, &what), error = directory;
    if (directory >= 0) {
        error = merge_all(folder, directory, records, out, &what);
        kiln__file_list(directory, sweep, &directory);
        kiln__lock_close(&lock);
        kiln__sys_close(directory);
    } else {
        note(folder, "", &what);
    }
    kiln__text_copy(problem, KILN__WISDOM_REASON, error == -ENOENT ? "there is no cache directory" : what.text);
    return error;
}
