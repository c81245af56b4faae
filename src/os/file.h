/* Files: whole reads, atomic publication, directories. Every call sets O_CLOEXEC, retries EINTR and returns 0 or a
 * negative errno. Knows nothing of trust (os/trust.h) or of stores. Any thread. */
#ifndef KILN_OS_FILE_H
#define KILN_OS_FILE_H

#include "base/list.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* openat with O_CLOEXEC, made again when a signal interrupts it. A descriptor or -errno. */
int kiln__file_open(int dir, const char *name, int flags, mode_t mode);

/* Reads a whole regular file relative to directory `dir` (AT_FDCWD for a plain path) into *out (caller: kiln__free),
 * followed by a NUL that *length does not count. Opens with O_NONBLOCK and `flags` (0 or O_NOFOLLOW) so that a FIFO
 * never blocks. *status receives fstat of the opened file, also when it is then refused; zeros if none was opened.
 * Errors: -EFBIG above `limit`, -EINVAL not a regular file, -EIO a read that ended early, or open's errno. */
int kiln__file_read(void **out, size_t *length, int dir, const char *name, int flags, size_t limit,
                    struct stat *status);

/* Reads at most `size` bytes from `offset` on; *length gets how many there were, fewer only at the end of the file. */
int kiln__file_read_some(int fd, void *out, size_t size, uint64_t offset, size_t *length);

/* Reads exactly `length` bytes at `offset` of a descriptor, whose position stays. -EIO where the file ends earlier. */
int kiln__file_read_at(int fd, void *bytes, size_t length, uint64_t offset);

/* Writes all bytes to a descriptor. Beyond the host's file size limit it fails with -EFBIG and no signal. */
int kiln__file_write(int fd, const void *bytes, size_t length);

#define KILN__FILE_TEMPORARY "tmp." /* the prefix of temporaries that are published afterwards */

/* Puts bytes at `name` in directory `dir` so that a reader sees all of them or none: an O_TMPFILE linked in place,
 * where the file system has that, else a unique temporary ("tmp.<random>") renamed. Mode 0600. An existing `name` is
 * replaced if `replace`, else left alone and -EEXIST returned. On failure nothing is left behind. Not flushed to the
 * disk: power loss may lose or damage it. Errors: those of kiln__file_write, open, link and rename. */
int kiln__file_publish(int dir, const char *name, const void *bytes, size_t length, bool replace);

/* Kiln's files and directories give their owner every right, whatever the umask is: it takes rights from others
 * only. */

/* Whether this user's directory or file is closed to all, its owner too: a directory without the right to read or to
 * search, a file without that to read. A umask made it so, and it is of no use, while 0500 may be meant. */
bool kiln__file_is_closed(const struct stat *status);

/* Gives such a directory all rights of its owner, such a file those to read and write it. `path` is seen from `dir`,
 * and no link in it is followed. 0 or -errno: -EPERM if it is not closed. Fails without /proc, and with a path of
 * several parts on a kernel before 5.6. */
int kiln__file_mend(int dir, const char *path);

/* Opens a private file (mode 0600) to read and write it, made empty if it is missing, mended if it is closed. Links
 * are not followed. A descriptor or -errno. */
int kiln__file_open_private(int dir, const char *name);

/* Makes a new file for writing (mode 0644 under the umask) in `dir`, which the caller renames in place. Its name,
 * `prefix` (at most 23 bytes) and 16 hexadecimal digits, goes to `name`. A descriptor or -errno. */
enum { KILN__FILE_UNIQUE = 40 };
int kiln__file_create_unique(int dir, const char *prefix, char name[KILN__FILE_UNIQUE]);

/* Whether a name is one that kiln__file_create_unique makes with this prefix. */
bool kiln__file_is_unique(const char *name, const char *prefix);

/* Opens a regular file to read and to append, each write at its end also when other processes write. A missing one is
 * made, with the rights that umask allows. A descriptor or -errno; -EINVAL for anything but a regular file, without
 * blocking. */
int kiln__file_open_append(const char *path, struct stat *status);

/* Makes a directory and its missing parents (mode 0700 each) and opens it (O_DIRECTORY). One that is there and
 * closed is mended. A descriptor or -errno. */
int kiln__file_make_directory(const char *path);

/* Opens directory `name` in `dir`, made with mode 0700 first if it is missing and `make`. Links are not followed. */
int kiln__file_open_directory(int dir, const char *name, bool make);

/* Calls fn with each name in the directory but "." and "..", in no order; non-zero from fn stops. `dir` stays open. */
int kiln__file_list(int dir, int (*fn)(void *data, const char *name), void *data);

/* Whether two looks at a file saw the same: device, inode, size and times. */
bool kiln__file_is_unchanged(const struct stat *before, const struct stat *now);

/* Whether a file was written more than so many seconds before now, or after now, by a wrong clock. Works with any time
 * that a file system keeps. */
bool kiln__file_is_old(const struct stat *status, time_t seconds);

/* Whether a file has changed so recently that its times may not show the next change, which may fall into the same
 * tick. */
bool kiln__file_is_racy(const struct stat *status);

/* Appends a stamp that differs between files and after a change: device, `separator`, inode, size, time of change. */
void kiln__file_append_stamp(const struct stat *status, const char *separator, kiln__text *out);

/* Appends a line for each of these files, its path and its stamp; without a stamp if it is not there. */
void kiln__file_append_stamps(const kiln__list *paths, kiln__text *out);

/* Removes `name` only if it still is the unchanged file that `status` describes (kiln__file_is_unchanged); -ESTALE if
 * it is another. */
int kiln__file_remove_same(int dir, const char *name, const struct stat *status);

/* A new private temporary directory (mode 0700) under TMPDIR or /tmp, for a minute or two; its path goes to out (size
 * bytes). */
int kiln__file_make_temporary(char *out, size_t size);

/* Removes a directory with all that is in it. Best effort. */
void kiln__file_remove_directory(const char *path);

/* The file in such a directory, and the start of the names of the files that compilers make beside it. */
#define KILN__FILE_OBJECT "unit.so"

/* Removes the temporary directories beside this one that are this user's, private and an hour old: killed processes
 * left them. Only files whose names begin with KILN__FILE_OBJECT go, and then the directory if it is empty. Reads the
 * whole parent. */
void kiln__file_sweep_beside(const char *temporary);

#endif
