/* A result file that replaces an older one only when it is whole. */
#ifndef KILN_TOOLS_OUTPUT_H
#define KILN_TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct output {
    const char *path; /* as the user named it; borrowed */
    char *target;     /* the replaced file, links resolved */
    char *temporary;  /* beside it; NULL when `path` is a pipe or a device, which is written directly */
    int fd;
    int watched;     /* used by the module */
    struct stat old; /* of the replaced file; zeros if there is none */
};

/* Makes the temporary file and takes `bytes` of space for it where the file system can say; `path` "-" is stdout. The
 * temporary files of up to 16 outputs at a time are removed when the process ends or is interrupted. For one thread.
 * Returns STATUS_DONE, or STATUS_USAGE after a message. output_close is right after either. */
int output_open(struct output *out, const char *path, uint64_t bytes);

/* Whether two paths lead to one file, which need not be there yet: by another spelling or by links. "-" is stdout. */
bool output_is_same(const char *a, const char *b);

/* Whether the file is the same as stdout. */
bool output_is_stdout(const struct output *output);

/* Returns STATUS_DONE, or STATUS_USAGE after a message: the old file is untouched. */
int output_write(struct output *output, const void *data, size_t bytes);

/* Puts the file in place, with the mode and, where that is allowed, the owner of the file that it replaces. Returns as
 * output_write does. */
int output_commit(struct output *output);

/* Frees; a temporary file that was not committed is removed. */
void output_close(struct output *output);

/* All of this with one piece of data. Returns as output_write does. */
int output_put(const char *path, const void *data, size_t bytes);

#endif
