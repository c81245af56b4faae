/* Who may put code into this process: cached binaries are code, so a store is used only where nobody else can write. */
#ifndef KILN_OS_TRUST_H
#define KILN_OS_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* True when the process runs with more rights than the user who started it (setuid, setgid, file capabilities:
 * AT_SECURE), where environment and home directory must not name a store. */
bool kiln__trust_is_elevated(void);

/* NULL when a directory or file of a writable store is the user's own and writable by nobody else, else the reason in
 * words ("owned by user 1001, expected 0"). A static or thread-independent string written into buffer. */
const char *kiln__trust_refuse_directory(const struct stat *status, char *buffer, size_t size);

/* The same for a file: also refuses anything but a regular file with at most one name (none: just unlinked). */
const char *kiln__trust_refuse_file(const struct stat *status, char *buffer, size_t size);

/* The same two for a store that is only read: the user's own or root's and writable by nobody else. Such a file may
 * have several names, for packaging and container tools save space that way. */
const char *kiln__trust_refuse_shared_directory(const struct stat *status, char *buffer, size_t size);
const char *kiln__trust_refuse_shared_file(const struct stat *status, char *buffer, size_t size);

/* The overflow user (usually 65534) is refused as an owner in a user namespace: there the files of every user that
 * the namespace does not map seem to be that user's. This is the rule, for the text of /proc/sys/kernel/overflowuid
 * (NULL: the usual one) and of /proc/self/uid_map (NULL: unknown). Only in a namespace that maps every user to
 * itself, as the first one does, may it own something. */
bool kiln__trust_is_unmapped(uid_t owner, const char *overflow, const char *map);

#endif
