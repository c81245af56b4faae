/* User-defined templates and ops: templates given by path in specs, and lines of manifests that define. */
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

/* Whether a line of a manifest defines something: "define op TEXT" or "define template FILE.cu". */
bool ownfiles_is_definition(const char *line);

/* Makes the definition of such a line, and gives its parts, "op" or "template" and the rest. KILN_ESPEC for a line that
 * defines neither. */
kiln_status ownfiles_define(kiln_service *service, const char *line, const char **kind, const char **text,
                            kiln_report *report);

#endif
