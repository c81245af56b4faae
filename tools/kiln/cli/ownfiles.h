/* User-defined templates that a command line names by the paths of their files. */
#ifndef KILN_TOOLS_OWNFILES_H
#define KILN_TOOLS_OWNFILES_H

#include "cli/common.h"

/* Replaces each path in the spec's field template, as in template=./mine.cu, by the name that the file declares.
 * *out is a new text, or NULL where the text names no path. Each path is handed to `add`, which copies it if it keeps
 * it. Returns STATUS_DONE, or STATUS_USAGE after a message about a file that cannot be read. */
int ownfiles_resolve(char **out, const char *text, void (*add)(void *data, const char *path), void *data);

/* Whether a file declares anything, as templates do in lines that begin with "//!". Returns STATUS_DONE, or
 * STATUS_USAGE after a message about a file that cannot be read. */
int ownfiles_declares(bool *out, const char *path);

/* The name of the template that a file declares; the path where it declares none, a fault that loading it names. The
 * same statuses. */
int ownfiles_name(const char **out, const char *path);

#endif
