/* Records what a source reads: every path that it asks for, what is there, and the digest of each file's contents,
 * taken before the compiler sees them. Any thread; makes no call that the sandbox checks. */
#ifndef KILN_KILN_WORKER_RECORDER_H
#define KILN_KILN_WORKER_RECORDER_H

#include "base/text.h"

/* Forgets all. */
void kiln__recorder_begin(void);

/* `asked` led to nothing. */
void kiln__recorder_nothing(const char *asked);

/* `asked` led to `fd` (O_PATH), whose path is `real`. False for anything but a directory or a file of a size that is
 * read: the compiler must not see it, and it has been noted as nothing. */
bool kiln__recorder_found(const char *asked, const char *real, int fd);

/* `asked` leads to something unknown: `error` says why. The compiler is told that nothing is there, and its result is
 * of no use. */
void kiln__recorder_unknown(const char *asked, int error);

/* The first path that could not be read, and why; NULL if there is none. Good until the next beginning. */
const char *kiln__recorder_unread(int *error);

/* Appends all that was noted (source/reads.h). False if it is not certain that the compiler saw just that: a file
 * has changed meanwhile, or memory ran out. */
bool kiln__recorder_write(kiln__text *reads);

#endif
