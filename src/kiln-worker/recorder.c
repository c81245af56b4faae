/* Notes by path of what a source reads, and the list that comes of them. */
#include "kiln-worker/recorder.h"

#include "base/alloc.h"
#include "base/table.h"
#include "os/file.h"
#include "source/reads.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct note {
    kiln__read_kind kind;
    struct stat status; /* of a file, before its bytes were read */
    uint8_t digest[KILN__DIGEST_SIZE];
    char *asked, *real; /* real: of a file */
    UT_hash_handle hh;
} note;

static struct {
    pthread_mutex_t lock;
    note *notes; /* a table by what was asked for, in the order of asking */
    bool uncertain;
    char unread[sizeof(KILN__READS_ROOT) + KILN__PLACE_SIZE + KILN__READ_PATH_MAX]; /* "": nothing */
    int error;                                                                      /* why */
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- Notes by path */

/* The note of a path; NULL if there is none yet. */
static note *find(const char *asked)
{
    note *found;
    HASH_FIND_STR(seen.notes, asked, found);
    return found;
}

static void free_note(note *old)
{
    if (old == NULL)
        return;
    kiln__free(old->asked);
    kiln__free(old->real);
    kiln__free(old);
}

static void add(const char *asked, const char *real, const note *what)
{
    note *fresh = kiln__memdup(what, sizeof(*what));
    bool added = false;
    if (fresh != NULL) {
        fresh->asked = kiln__strdup(asked);
        fresh->real = kiln__strdup(real);
        if (fresh->asked != NULL && (real == NULL || fresh->real != NULL))
            KILN__TABLE_ADD(seen.notes, fresh->asked, strlen(asked), fresh, added);
    }
    if (!added) {
        seen.uncertain = true;
        free_note(fresh);
    }
}

/* ---- Files */

/* By system call: the program's own functions ask the sandbox, which is asking the recorder. */
static int digest_open(int fd, off_t size, uint8_t out[KILN__DIGEST_SIZE])
{
    char *bytes = kiln__alloc((size_t)size + 1);
    ssize_t more = 1;
    size_t length = 0;
    if (bytes == NULL)
        return ENOMEM;
    while (more > 0 && length <= (size_t)size) {
        more = read(fd, bytes + length, (size_t)size + 1 - length);
        length += more > 0 ? (size_t)more : 0;
    }
    int error = more < 0 ? errno : length != (size_t)size ? ESTALE : 0;
    if (error == 0)
        kiln__digest(out, bytes, length);
    kiln__free(bytes);
    return error;
}

/* 0 or an errno; ESTALE: it has changed since its size was asked for. */
static int digest_path(const char *path, off_t size, uint8_t out[KILN__DIGEST_SIZE])
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno;
    int error = digest_open(fd, size, out);
    close(fd);
    return error;
}

static int digest_fd(int fd, off_t size, uint8_t out[KILN__DIGEST_SIZE])
{
    char name[32];
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    return digest_path(name, size, out);
}

/* Whether a file still has the contents that were read. Its times do not tell: a change through a shared mapping
 * leaves them as they were. */
static bool is_settled(const note *what)
{
    struct stat status;
    uint8_t digest[KILN__DIGEST_SIZE];
    if (what->kind != KILN__READ_FILE)
        return true;
    if (syscall(SYS_newfstatat, AT_FDCWD, what->real, &status, 0) != 0 ||
        !kiln__file_is_unchanged(&status, &what->status))
        return false;
    return digest_path(what->real, status.st_size, digest) == 0 && memcmp(digest, what->digest, sizeof(digest)) == 0;
}

/* ---- Recording */

void kiln__recorder_begin(void)
{
    note *old, *next;
    pthread_mutex_lock(&seen.lock);
    HASH_ITER (hh, seen.notes, old, next) {
        HASH_DEL(seen.notes, old);
        free_note(old);
    }
    seen.uncertain = false;
    seen.unread[0] = '\0';
    pthread_mutex_unlock(&seen.lock);
}

/* With the lock held. */
static void note_nothing(const char *asked)
{
    static const note nothing = { .kind = KILN__READ_NOTHING };
    const note *known = find(asked);
    if (known == NULL)
        add(asked, NULL, &nothing);
    else if (known->kind != KILN__READ_NOTHING)
        seen.uncertain = true;
}

/* With the lock held. */
static void note_unknown(const char *asked, int error)
{
    seen.uncertain = true;
    if (seen.unread[0] != '\0')
        return;
    kiln__text_copy(seen.unread, sizeof(seen.unread), asked);
    seen.error = error;
}

void kiln__recorder_unknown(const char *asked, int error)
{
    pthread_mutex_lock(&seen.lock);
    note_unknown(asked, error);
    pthread_mutex_unlock(&seen.lock);
}

const char *kiln__recorder_unread(int *error)
{
    pthread_mutex_lock(&seen.lock);
    *error = seen.error;
    const char *unread = seen.unread[0] != '\0' ? seen.unread : NULL;
    pthread_mutex_unlock(&seen.lock);
    return unread;
}

void kiln__recorder_nothing(const char *asked)
{
    pthread_mutex_lock(&seen.lock);
    note_nothing(asked);
    pthread_mutex_unlock(&seen.lock);
}

/* With the lock held. */
static void note_found(const char *asked, const char *real, int fd, note *fresh)
{
    const note *known = find(asked);
    if (known != NULL) {
        bool same = known->kind == fresh->kind &&
                    (fresh->kind != KILN__READ_FILE || kiln__file_is_unchanged(&known->status, &fresh->status));
        seen.uncertain = seen.uncertain || !same;
        return;
    }
    int error = fresh->kind == KILN__READ_FILE ? digest_fd(fd, fresh->status.st_size, fresh->digest) : 0;
    if (error == ESTALE)
        seen.uncertain = true;
    else if (error != 0)
        note_unknown(asked, error);
    add(asked, fresh->kind == KILN__READ_FILE ? real : NULL, fresh);
}

bool kiln__recorder_found(const char *asked, const char *real, int fd)
{
    note fresh = { .kind = KILN__READ_FILE };
    bool known = syscall(SYS_newfstatat, fd, "", &fresh.status, AT_EMPTY_PATH) == 0;
    int error = errno;
    bool directory = known && S_ISDIR(fresh.status.st_mode);
    bool file = known && S_ISREG(fresh.status.st_mode) && fresh.status.st_size <= KILN__READ_BYTES_MAX;
    fresh.kind = directory ? KILN__READ_DIRECTORY : KILN__READ_FILE;
    pthread_mutex_lock(&seen.lock);
    if (directory || file)
        note_found(asked, real, fd, &fresh);
    else if (known)
        note_nothing(asked);
    else
        note_unknown(asked, error);
    pthread_mutex_unlock(&seen.lock);
    return directory || file;
}

/* The identities of the files noted, in the order of the notes: equal ones are one file. The caller frees them. NULL
 * when out of memory. With the lock held. */
static kiln__read_identity *identify_files(void)
{
    kiln__read_identity *files = kiln__calloc(HASH_COUNT(seen.notes) + 1, sizeof(*files));
    size_t count = 0;
    if (files == NULL)
        return NULL;
    for (const note *what = seen.notes; what != NULL; what = what->hh.next)
        if (what->kind == KILN__READ_FILE) {
            files[count].device = what->status.st_dev;
            files[count++].inode = what->status.st_ino;
        }
    kiln__reads_find_same(files, count);
    return files;
}

/* The line of a note. `file` is its own where it is one of a file. False if it cannot be written. */
static bool write_line(const note *what, const kiln__read_identity *file, kiln__read *line)
{
    *line = (kiln__read){ .kind = what->kind };
    if (what->kind == KILN__READ_FILE && file->first != file->number) {
        line->kind = KILN__READ_SAME;
        line->same = file->first;
    }
    kiln__digest_hex(line->digest, what->digest);
    return kiln__reads_split(what->asked, line->place, line->path);
}

bool kiln__recorder_write(kiln__text *reads)
{
    kiln__read line;
    pthread_mutex_lock(&seen.lock);
    kiln__read_identity *files = identify_files();
    const kiln__read_identity *file = files;
    bool certain = !seen.uncertain && files != NULL;
    for (const note *what = seen.notes; what != NULL && certain; what = what->hh.next) {
        certain = is_settled(what) && write_line(what, file, &line);
        if (certain)
            kiln__reads_add(reads, &line);
        file += what->kind == KILN__READ_FILE;
    }
    pthread_mutex_unlock(&seen.lock);
    kiln__free(files);
    return certain && !reads->failed;
}
