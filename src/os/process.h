/* Running another program to its end. */
#ifndef KILN_OS_PROCESS_H
#define KILN_OS_PROCESS_H

#include "base/text.h"

/* Runs argv (argv[0] searched in kiln__process_path) with `input` on its standard input and both its outputs
 * appended to `output` (at most 1 MiB is kept, nothing if `output` is NULL). Returns its exit status, 128 + signal
 * if it was killed, or a negative errno if it could not be started (-ENOENT not found, -EACCES not executable) or
 * watched (-ECHILD: somebody killed the shell and its status was lost too). Blocks until it ends, at most
 * `timeout_ms`, after which it and its process group are killed: -ETIMEDOUT. Does not wait for programs that it left
 * behind. Runs it by /bin/sh, apart from the host and with a known environment (kiln__child_spawn). Works where the
 * host ignores SIGCHLD or reaps any child: the status comes through a pipe. No descriptor but 0, 1 and 2 is
 * inherited. Any thread. */
int kiln__process_run(const char *const *argv, const char *input, size_t length, int timeout_ms, kiln__text *output);

/* The directories that are searched for programs, colons between them: PATH, or "/usr/bin:/bin" without one and in a
 * process with raised rights, whose user must not choose what it runs. Valid until the environment changes. */
const char *kiln__process_path(void);

/* The absolute path of `program` as kiln__process_path leads to it (or itself if it has a '/'), links resolved, into
 * out. 0, -ENOENT, or -EACCES if it was found but may not be executed. */
int kiln__process_find(const char *program, char *out, size_t size);

#endif
