/* Rules of trust. Cached binaries are code, so a store is used only where other users cannot write. */
#ifndef KILN_OS_TRUST_H
#define KILN_OS_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* True when the process has more rights than the user who started it (setuid, setgid, file capabilities: AT_SECURE).
 * Environment and home directory must not name a store then. */
bool kiln__trust_is_elevated(void);

/* Flags. SHARED: of a store that is only read. GROUP: the members of the user's groups are trusted, and root. */
enum { KILN__TRUST_SHARED = 1, KILN__TRUST_GROUP = 2 };

/* NULL when a directory or file of a store may be used, else the reason in words ("owned by user 1001, expected 0"), a
 * static string or one written into buffer. It must be the user's own, or root's with either flag, and writable by no
 * other user; with KILN__TRUST_GROUP its group may write it, if that is one of the process's. A file must be a regular
 * file. It must have at most one name (none: just unlinked), except with KILN__TRUST_SHARED, because packaging and
 * container tools link equal files. */
const char *kiln__trust_refuse_directory(const struct stat *status, unsigned rule, char *buffer, size_t size);
const char *kiln__trust_refuse_file(const struct stat *status, unsigned rule, char *buffer, size_t size);

/* NULL when a symbolic link may stand for a pack, which is only with KILN__TRUST_GROUP: the link is the user's or
 * root's. The file that it leads to is checked as any other. */
const char *kiln__trust_refuse_link(const struct stat *status, unsigned rule, char *buffer, size_t size);

/* Whether an owner is the overflow user (usually 65534) of a user namespace, which both functions above refuse: the
 * files of every user that the namespace does not map seem to be that user's. In a namespace that maps every user to
 * itself, as the first one does, it may own files. `overflow` is the text of /proc/sys/kernel/overflowuid (NULL: the
 * usual one), `map` that of /proc/self/uid_map (NULL: unknown). */
bool kiln__trust_is_unmapped(uid_t owner, const char *overflow, const char *map);

#endif
