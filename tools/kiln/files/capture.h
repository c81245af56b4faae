/* Other people's programs: where they are and what they print. */
#ifndef KILN_TOOLS_CAPTURE_H
#define KILN_TOOLS_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

/* Finds a program on PATH or in the usual places of the CUDA toolkit; *out is freed by the caller, NULL if there is
 * none. */
bool capture_find(char **out, const char *name);

/* Runs argv[0] (a path) and collects what it prints on stdout; *out, terminated, is freed by the caller. Returns
 * STATUS_DONE, or STATUS_FAILED after a message. */
int capture_run(char **out, size_t *length, const char *const *argv);

/* The same with `input` on its stdin. The user does not see its stderr: after a failure its last line,
 * or how the program ended, is in *complaint, which the caller frees. Returns STATUS_DONE or STATUS_FAILED, without a
 * message. */
int capture_filter(char **out, size_t *length, char **complaint, const char *const *argv, const char *input,
                   size_t input_length);

/* Writes bytes to a temporary file whose name, freed by the caller, ends in `suffix`. Returns as capture_run does.
 * The caller unlinks it; after a failure there is none and *out is NULL. */
int capture_file(char **out, const char *suffix, const void *data, size_t length);

#endif
