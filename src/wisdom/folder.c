/* Reads, watches and merges the files of records in the wisdom directory of a cache. */
#include "wisdom/folder.h"

#include "base/alloc.h"
#include "base/list.h"
#include "os/file.h"
#include "os/syscalls.h"
#include "os/trust.h"
#include "store/disk.h"
#include "store/evict.h"
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
    [CAUSE_UNTRUSTED] = "it is not used; remove it, or make it your own and writable by no other user",
    [CAUSE_NEWER] = "it is not used, and nothing is added to it; update Kiln",
    [CAUSE_READ] = "it is not used; check the directory's permissions and the disk",
    [CAUSE_WRITE] = "results of tuning are not kept; check the directory's permissions and the free space",
};
static const char *const shared_advice[] = {
    [CAUSE_DAMAGED] = "it is not used; let its owner mend or remove it",
    [CAUSE_UNTRUSTED] = "it is not used; it must be yours or root's and writable by no other user",
    [CAUSE_NEWER] = "it is not used; update Kiln",
    [CAUSE_READ] = "it is not used; check its permissions and the disk",
    [CAUSE_WRITE] = "it is only read",
};

/* A failure with one file or directory. */
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

static void note_trouble(kiln__wisdom_folder *folder, const char *name, const trouble *what)
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

static int add_name(void *data, const char *name)
{
    size_t length = strlen(name);
    if (name[0] != '.' && length > strlen(SUFFIX) && length < NAME_SIZE &&
        strcmp(name + length - strlen(SUFFIX), SUFFIX) == 0)
        kiln__list_add(data, name);
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* ---- Reading */

static void append_stamp(int directory, const char *name, kiln__text *stamp)
{
    struct stat status = { 0 };
    int error = kiln__sys_fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ? errno : 0;
    kiln__text_printf(stamp, "%s %d %o %u %lld.%ld ", name, error, (unsigned)status.st_mode, (unsigned)status.st_uid,
                      (long long)status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
    kiln__file_append_stamp(&status, " ", stamp);
    kiln__text_append(stamp, "\n");
}

static unsigned trust_rule(const kiln__wisdom_folder *folder)
{
    return (folder->shared ? KILN__TRUST_SHARED : 0) | folder->counters->trust;
}

/* The trouble with a file that shows before its bytes are read. */
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
        const char *reason = kiln__trust_refuse_file(status, trust_rule(folder), buffer, sizeof(buffer));
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
    note_trouble(folder, name, &what);
    return what.cause == CAUSE_READ ? what.error : 0;
}

/* Loads each file, or (`out` is NULL) appends its stamp. The files are taken by name, so that the result does not
 * depend on the order of the file system. Trouble with the directory itself is noted with the stamps, which come
 * first. */
static int visit_files(kiln__wisdom_folder *folder, kiln__text *stamp, kiln__wisdom_set *out)
{
    trouble what;
    kiln__list list = { 0 };
    const char **names = NULL;
    int directory = open_folder(folder, false, &what), first = what.cause == CAUSE_READ ? directory : 0;
    if (directory >= 0) {
        first = kiln__file_list(directory, add_name, &list);
        names = kiln__list_array(&list, 0, 1);
        if (first == 0 && (list.bytes.failed || names == NULL))
            first = -ENOMEM;
        if (first != 0)
            set_trouble(&what, CAUSE_READ, first, NULL);
    }
    size_t count = directory >= 0 && first == 0 ? list.count : 0;
    if (count > 0)
        qsort(names, count, sizeof(*names), compare_names);
    for (size_t i = 0; i < count; i++) {
        int error = 0;
        if (out != NULL)
            error = load_file(folder, directory, names[i], out);
        else
            append_stamp(directory, names[i], stamp);
        first = first != 0 ? first : error;
    }
    if (out == NULL)
        note_trouble(folder, "", &what);
    if (directory >= 0)
        kiln__sys_close(directory);
    kiln__free(names);
    kiln__list_fini(&list);
    return first;
}

int kiln__wisdom_folder_stamp(kiln__wisdom_folder *folder, kiln__text *stamp)
{
    return visit_files(folder, stamp, NULL);
}

int kiln__wisdom_folder_load(kiln__wisdom_folder *folder, kiln__wisdom_set *out)
{
    return visit_files(folder, NULL, out);
}

/* ---- Writing */

static int open_lock(const kiln__wisdom_folder *folder, int directory)
{
    struct stat status;
    char buffer[KILN__WISDOM_REASON];
    int fd = kiln__file_open_private(directory, LOCK_NAME);
    int error = fd < 0 ? fd : kiln__sys_fstat(fd, &status) != 0 ? -errno : 0;
    if (error == 0 && kiln__trust_refuse_file(&status, trust_rule(folder), buffer, sizeof(buffer)) != NULL)
        error = -EPERM;
    if (error != 0 && fd >= 0)
        kiln__sys_close(fd);
    return error != 0 ? error : fd;
}

/* A waiter holds LOCK_TURN meanwhile. A process that adds one record after the other would else take the lock again
 * before a waiter, which polls it every few milliseconds, finds it free. */
static int wait_for_lock(const kiln__wisdom_folder *folder, const kiln__lock *lock)
{
    int error = kiln__lock_wait(lock, LOCK_TURN, folder->wait_ms);
    if (error == 0)
        error = kiln__lock_wait(lock, LOCK_FILES, folder->wait_ms);
    kiln__lock_give(lock, LOCK_TURN);
    return error;
}

/* The directory and its lock, or -errno. Both are opened anew where they were removed meanwhile. */
static int open_locked(kiln__wisdom_folder *folder, kiln__lock *lock, trouble *what)
{
    int error = -ENOENT;
    for (int i = 0; i < LOCK_ATTEMPTS && error == -ENOENT; i++) {
        int directory = open_folder(folder, true, what);
        if (directory < 0)
            return directory;
        error = kiln__lock_open(lock, open_lock(folder, directory));
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

static int publish_set(int directory, const char *name, const kiln__wisdom_set *set)
{
    kiln__text text = { 0 };
    kiln__wisdom_write(set, &text);
    int error = text.failed ? -ENOMEM
                : text.length > KILN__WISDOM_FILE_MAX
                    ? -EFBIG
                    : kiln__file_publish(directory, name, text.data, text.length, true);
    kiln__text_fini(&text);
    return error;
}

/* The records of one model into its file, under the lock; the tally goes up. 0 or -errno with the trouble. */
static int merge_file(kiln__wisdom_folder *folder, int directory, kiln__wisdom_entry *const *records, size_t count,
                      kiln__wisdom_counts *tally, trouble *what)
{
    char slug[KILN__WISDOM_SLUG], name[NAME_SIZE], aside[NAME_SIZE + sizeof(ASIDE)];
    const kiln__wisdom_counts before = *tally;
    kiln__wisdom_set set;
    kiln__wisdom_slug(records[0]->device.model, slug);
    snprintf(name, sizeof(name), "%s" SUFFIX, slug);
    snprintf(aside, sizeof(aside), "%s" ASIDE, name);
    int error = read_file(folder, directory, name, &set, what);
    note_trouble(folder, name, what);
    bool damaged = what->cause == CAUSE_DAMAGED;
    if (error != 0 && error != -ENOENT && !damaged)
        return error;
    *what = (trouble){ 0 };
    kiln__wisdom_fate fate = kiln__wisdom_set_add_all(&set, records, count, tally);
    error = fate == KILN__WISDOM_FULL ? -EFBIG : fate == KILN__WISDOM_NO_MEMORY ? -ENOMEM : 0;
    if (error == 0 && damaged && kiln__sys_renameat(directory, name, directory, aside) != 0 && errno != ENOENT)
        error = -errno;
    if (error == 0 && tally->added + tally->replaced > before.added + before.replaced)
        error = publish_set(directory, name, &set);
    if (error != 0) {
        *tally = before;
        set_trouble(what, CAUSE_WRITE, error, error == -EFBIG ? "there are too many records for one file" : NULL);
        note_trouble(folder, name, what);
    }
    kiln__wisdom_set_fini(&set);
    return error;
}

static int remove_temporary(void *data, const char *name)
{
    kiln__evict_temporary(*(const int *)data, KILN__FILE_TEMPORARY, name);
    return 0;
}

int kiln__wisdom_folder_merge(kiln__wisdom_folder *folder, const kiln__wisdom_set *set, kiln__wisdom_counts *out,
                              char problem[KILN__WISDOM_REASON])
{
    trouble what, first;
    kiln__lock lock = { .fd = -1 };
    *out = (kiln__wisdom_counts){ 0 };
    int directory = open_locked(folder, &lock, &first), error = directory < 0 ? directory : 0;
    if (error != 0)
        note_trouble(folder, "", &first);
    for (size_t i = 0, count; directory >= 0 && i < set->count; i += count) {
        for (count = 1; i + count < set->count; count++)
            if (strcmp(set->records[i + count]->device.model, set->records[i]->device.model) != 0)
                break;
        if (merge_file(folder, directory, set->records + i, count, out, &what) != 0 && error == 0) {
            first = what;
            error = what.error;
        }
    }
    if (directory >= 0) {
        kiln__file_list(directory, remove_temporary, &directory);
        kiln__lock_close(&lock);
        kiln__sys_close(directory);
    }
    kiln__text_copy(problem, KILN__WISDOM_REASON, error == -ENOENT ? "there is no cache directory" : first.text);
    return error;
}
