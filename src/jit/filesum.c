/* Digests of files, and whether a list of what was read still holds. */
#include "jit/filesum.h"

#include "base/alloc.h"
#include "os/file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERDICTS = 64, FILES_LEAST = 64 };

void kiln__filesums_init(kiln__filesums *sums)
{
    memset(sums, 0, sizeof(*sums));
    pthread_mutex_init(&sums->lock, NULL);
}

static void forget(kiln__filesums *sums, kiln__filesum *node)
{
    HASH_DEL(sums->files, node);
    kiln__free(node);
}

/* With the lock held, or no other thread there. */
static void forget_all(kiln__filesums *sums)
{
    kiln__filesum *node, *next;
    HASH_ITER (hh, sums->files, node, next)
        forget(sums, node);
}

void kiln__filesums_fini(kiln__filesums *sums)
{
    forget_all(sums);
    pthread_mutex_destroy(&sums->lock);
}

static bool recall(kiln__filesums *sums, const char *path, const struct stat *status, char out[KILN__DIGEST_HEX])
{
    const kiln__filesum *node;
    pthread_mutex_lock(&sums->lock);
    HASH_FIND_STR(sums->files, path, node);
    bool known = node != NULL && kiln__file_is_unchanged(&node->status, status);
    if (known)
        memcpy(out, node->digest, KILN__DIGEST_HEX);
    pthread_mutex_unlock(&sums->lock);
    return known;
}

/* A file that has just changed is not remembered, and is read again next time. */
static void remember(kiln__filesums *sums, const char *path, const struct stat *status, const char *digest)
{
    size_t length = strlen(path);
    kiln__filesum *present, *node = kiln__file_is_racy(status) ? NULL : kiln__alloc(sizeof(*node) + length + 1);
    bool added;
    if (node == NULL)
        return;
    *node = (kiln__filesum){ .status = *status };
    memcpy(node->digest, digest, sizeof(node->digest));
    memcpy(node->path, path, length + 1);
    pthread_mutex_lock(&sums->lock);
    HASH_FIND(hh, sums->files, path, length, present);
    if (present != NULL)
        forget(sums, present);
    if (HASH_COUNT(sums->files) >= KILN__FILESUM_MAX)
        forget_all(sums);
    KILN__TABLE_ADD(sums->files, node->path, length, node, added);
    pthread_mutex_unlock(&sums->lock);
    if (!added)
        kiln__free(node);
}

/* One look at many files, in which each directory is resolved once. */
typedef struct survey {
    kiln__filesums *sums;
    const kiln__list *places;
    kiln__read_identity *files; /* those found so far */
    size_t file_count, file_room;
    struct {
        char *directory; /* NULL: none yet */
        bool inside;
    } verdicts[VERDICTS];
} survey;

static bool is_inside(const kiln__list *places, const char *resolved)
{
    const char *name = NULL, *path;
    while (kiln__list_next_pair(places, &name, &path)) {
        size_t length = strlen(path);
        while (length > 0 && path[length - 1] == '/')
            length--;
        if (strncmp(resolved, path, length) == 0 && (resolved[length] == '\0' || resolved[length] == '/'))
            return true;
    }
    return false;
}

/* No kiln__read_kind: of a look-up that failed otherwise than because nothing is there. No list tells of it. */
enum { UNKNOWN = '?' };

static int kind_of_failure(int error)
{
    return kiln__reads_means_nothing(error) ? KILN__READ_NOTHING : UNKNOWN;
}

static int read_digest(kiln__filesums *sums, const char *path, struct stat *status, char digest[KILN__DIGEST_HEX])
{
    uint8_t sum[KILN__DIGEST_SIZE];
    void *bytes = NULL;
    size_t length = 0;
    int error = kiln__file_read(&bytes, &length, AT_FDCWD, path, 0, KILN__READ_BYTES_MAX, status);
    if (error != 0)
        return error == -EFBIG ? KILN__READ_NOTHING : UNKNOWN;
    kiln__digest(sum, bytes, length);
    kiln__digest_hex(digest, sum);
    kiln__free(bytes);
    remember(sums, path, status, digest);
    return KILN__READ_FILE;
}

/* 0 or an errno. */
static int resolve(const survey *around, const char *path, bool *inside)
{
    char resolved[PATH_MAX];
    if (realpath(path, resolved) == NULL)
        return errno;
    *inside = is_inside(around->places, resolved);
    return 0;
}

/* The same for a directory in one that is inside: a directory that is no link is where its name says. That is one look
 * at it, and not one at each name of its path. */
static int resolve_below(const survey *around, const char *path, bool *inside)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno;
    *inside = true;
    return S_ISLNK(status.st_mode) ? resolve(around, path, inside) : 0;
}

/* The first of the two where `top`, else the second; once in a survey. */
static int find_verdict(survey *around, const char *directory, bool top, bool *inside)
{
    uint8_t sum[KILN__CHECKSUM_SIZE];
    kiln__checksum(sum, directory, strlen(directory));
    size_t i = sum[0] % VERDICTS;
    if (around->verdicts[i].directory != NULL && strcmp(around->verdicts[i].directory, directory) == 0) {
        *inside = around->verdicts[i].inside;
        return 0;
    }
    int error = top ? resolve(around, directory, inside) : resolve_below(around, directory, inside);
    if (error != 0)
        return error;
    kiln__free(around->verdicts[i].directory);
    around->verdicts[i].directory = kiln__strdup(directory);
    around->verdicts[i].inside = *inside;
    return 0;
}

/* Whether a path has a ".." in it. */
static bool climbs(const char *path)
{
    for (const char *at = path; (at = strstr(at, "/..")) != NULL; at += strlen("/.."))
        if (at[3] == '/' || at[3] == '\0')
            return true;
    return false;
}

/* The same as resolve for a file or directory that is no link: it is where its directory is. The first `top` bytes
 * of the path are a place. From there down each directory is looked at by itself. Below one that is outside a link
 * may lead back. */
static int resolve_plain(survey *around, const char *path, size_t top, bool *inside)
{
    char directory[PATH_MAX];
    if (climbs(path + top))
        return resolve(around, path, inside);
    for (const char *end = path + top; end != NULL; end = strchr(end + 1, '/')) {
        size_t length = (size_t)(end - path);
        memcpy(directory, path, length);
        directory[length] = '\0';
        int error = find_verdict(around, directory, length == top, inside);
        if (error != 0 || !*inside)
            return error != 0 ? error : resolve(around, path, inside);
    }
    return 0;
}

/* Looks at a path: the kind of file there, its identity and its digest. Each survey asks anew whether it lies
 * inside: the path leads elsewhere once a directory on the way is another, even if its last file stays the same. The
 * first `top` bytes of the path are a place. */
static int look(survey *around, const char *path, size_t top, struct stat *status, char digest[KILN__DIGEST_HEX])
{
    bool inside = false;
    if (lstat(path, status) != 0)
        return kind_of_failure(errno);
    bool plain = !S_ISLNK(status->st_mode);
    if (!plain && stat(path, status) != 0)
        return kind_of_failure(errno);
    if (!S_ISDIR(status->st_mode) && !S_ISREG(status->st_mode))
        return KILN__READ_NOTHING;
    int error = plain ? resolve_plain(around, path, top, &inside) : resolve(around, path, &inside);
    if (error != 0 || !inside)
        return error != 0 ? kind_of_failure(error) : KILN__READ_NOTHING;
    if (S_ISDIR(status->st_mode))
        return KILN__READ_DIRECTORY;
    return recall(around->sums, path, status, digest) ? KILN__READ_FILE
                                                      : read_digest(around->sums, path, status, digest);
}

static const char *directory_of(const kiln__list *places, const char *wanted)
{
    const char *name = NULL, *path;
    while (kiln__list_next_pair(places, &name, &path))
        if (strcmp(name, wanted) == 0)
            return path;
    return NULL;
}

/* Notes which file a line has found, and with which one the list says it is the same. */
static bool note_file(survey *around, const kiln__read *read, const struct stat *status)
{
    if (around->file_count == around->file_room) {
        size_t room = around->file_room > 0 ? 2 * around->file_room : FILES_LEAST;
        kiln__read_identity *files = kiln__realloc(around->files, room * sizeof(*files));
        if (files == NULL)
            return false;
        around->files = files;
        around->file_room = room;
    }
    around->files[around->file_count++] =
        (kiln__read_identity){ .device = status->st_dev, .inode = status->st_ino, .said = read->same };
    return true;
}

/* Whether the same files are one now as when the list was made. */
static bool files_are_the_same(survey *around)
{
    bool same = true;
    kiln__reads_find_same(around->files, around->file_count);
    for (size_t i = 0; i < around->file_count && same; i++) {
        const kiln__read_identity *file = &around->files[i];
        same = file->first == (file->said != 0 ? file->said : file->number);
    }
    return same;
}

static bool agrees(survey *around, const kiln__read *read)
{
    char path[PATH_MAX], digest[KILN__DIGEST_HEX] = "-";
    struct stat status;
    const char *directory = directory_of(around->places, read->place);
    int kind = KILN__READ_NOTHING;
    if (directory != NULL && snprintf(path, sizeof(path), "%s/%s", directory, read->path) < (int)sizeof(path))
        kind = look(around, path, strlen(directory), &status, digest);
    if (read->kind == KILN__READ_SAME)
        return kind == KILN__READ_FILE && note_file(around, read, &status);
    if (kind != (int)read->kind)
        return false;
    return kind != KILN__READ_FILE || (strcmp(digest, read->digest) == 0 && note_file(around, read, &status));
}

bool kiln__filesums_agree(kiln__filesums *sums, const kiln__list *places, const char *reads, size_t length)
{
    const char *at = reads, *end = reads + length;
    survey around = { .sums = sums, .places = places };
    kiln__read read;
    bool agree = true;
    while (at < end && agree)
        agree = kiln__reads_next(&at, end, &read) && agrees(&around, &read);
    agree = agree && files_are_the_same(&around);
    kiln__free(around.files);
    for (size_t i = 0; i < VERDICTS; i++)
        kiln__free(around.verdicts[i].directory);
    return agree;
}
