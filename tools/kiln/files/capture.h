/* Other programs: their paths and their output. Texts last as long as the command. */
#ifndef KILN_TOOLS_CAPTURE_H
#define KILN_TOOLS_CAPTURE_H

#include <stddef.h>

/* The path of a program on PATH or in the usual places of the CUDA toolkit; NULL if there is none. */
char *capture_find(const char *name);

/* Runs argv[0] (a path) and collects its stdout in *out, terminated. Returns STATUS_DONE, or STATUS_FAILED after a
 * message. */
int capture_run(char **out, size_t *length, const char *const *argv);

/* The same with `input` on its stdin. The user does not see its stderr: after a failure *complaint is the last line of
 * that, or says how the program ended. Returns STATUS_DONE; or STATUS_FAILED, without a message. */
int capture_filter(char **out, size_t *length, char **complaint, const char *const *argv, const char *input,
                   size_t input_length);

/* Writes bytes to a temporary file, whose name ends in `suffix`. Returns as capture_run does. The caller unlinks it;
 * after a failure there is none. */
int capture_file(char **out, const char *suffix, const void *data, size_t length);

#endif
