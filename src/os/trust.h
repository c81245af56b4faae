/* Rules of trust. Cached binaries are code, so a store is used only where other users cannot write. */
#ifndef KILN_OS_TRUST_H
#define KILN_OS_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* True when the process has more rights than the user who started it (setuid, setgid, file capabilities: AT_SECURE).
 * Environment and home directory must not name a store then. */
bool kiln__trust_is_elevated(void);

/* NULL when a directory or file of a store may be used, else the reason in words ("owned by user 1001, expected 0"), a
 * static string or one written into buffer. It must be the user's own, or root's if `shared` (a store that is only
 * read), and writable by no other user. A file must be a regular file. It must have at most one name (none: just
 * unlinked), except if `shared`, because packaging and container tools link equal files. */
const char *kiln__trust_refuse_directory(const struct stat *status, bool shared, char *buffer, size_t size);
const char *kiln__trust_refuse_file(const struct stat *status, bool shared, char *buffer, size_t size);

/* Whether an owner is the overflow user (usually 65534) of a user namespace, which both functions above refuse: the
 * files of every user that the namespace does not map seem to be that user's. In a namespace that maps every user to
 * itself, as the first one does, it may own files. `overflow` is the text of /proc/sys/kernel/overflowuid (NULL: the
 * usual one), `map` that of /proc/self/uid_map (NULL: unknown). */
bool kiln__trust_is_unmapped(uid_t owner, const char *overflow, const char *map);

#endif
