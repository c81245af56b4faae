/* Starting another program, the same way wherever Kiln does it. */
#ifndef KILN_OS_SPAWN_H
#define KILN_OS_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

#define KILN__SPAWN_PATH "/usr/bin:/bin"

/* Starts the program at `path` in a new process group, with default signal dispositions and an empty signal mask, by
 * posix_spawn, so that a large host is not copied. fds[i] becomes its descriptor i; it inherits no others. None of fds may be
 * below `count` (kiln__spawn_raise). Its environment is a known one: LC_ALL=C and, of the host's, PATH, HOME, TMPDIR,
 * LD_LIBRARY_PATH, CUDA_PATH, CUDA_HOME and what begins with KILN_; in a process with raised rights only PATH=KILN__SPAWN_PATH and
 * LC_ALL=C. It has the priority of the calling thread. 0 or a negative errno. Any
 * thread. */
int kiln__spawn(pid_t *out, const char *path, char *const *argv, const int *fds, int count);

/* Moves a descriptor, keeping it closed on exec, to `first` or above if it is below: a host may have closed 0, 1 and 2. 0 or
 * a negative errno; *fd stays open then. */
int kiln__spawn_raise(int *fd, int first);

#endif
