/* What a source has read: every path that it asked for, what was there, and the digest of each file's contents,
 * taken before the compiler saw them. Any thread; makes no call that the sandbox judges. */
#ifndef KILN_KILN_WORKER_WITNESS_H
#define KILN_KILN_WORKER_WITNESS_H

#include "base/text.h"

/* Forgets all. */
void kiln__witness_begin(void);

/* `asked` led to nothing. */
void kiln__witness_nothing(const char *asked);

/* `asked` led to what `fd` (O_PATH) is, whose path is `real`. False for what is neither a directory nor a file of a
 * size that is read: nobody is to see that; then it has been noted as nothing. */
bool kiln__witness_found(const char *asked, const char *real, int fd);

/* Whether it is unknown what `asked` leads to: `error` says why. The compiler is told that nothing is there, and
 * what it makes of that is of no use. */
void kiln__witness_unknown(const char *asked, int error);

/* The first path that could not be read, and why; NULL if there is none. Good until the next beginning. */
const char *kiln__witness_unread(int *error);

/* Appends all that was noted (source/reads.h). False if it is not certain that the compiler saw just that: a file
 * has changed meanwhile, or memory ran out. */
bool kiln__witness_tell(kiln__text *reads);

#endif
