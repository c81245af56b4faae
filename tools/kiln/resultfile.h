/* The files that a long measurement ends with: a table, a picture. */
#ifndef KILN_TOOLS_RESULTFILE_H
#define KILN_TOOLS_RESULTFILE_H

#include "draft.h"
#include "options.h"

struct resultfile {
    const char *path; /* as the user named it, NULL for none; borrowed */
    bool is_open;
    struct output output;
    struct draft draft;
};

/* Finds out whether the file can be written, so that it is known before anything is measured. `path` NULL is no file, "-"
 * stdout; what is printed on stdout goes to stderr from then on. Returns STATUS_DONE, or STATUS_USAGE after a message.
 * resultfile_close is right after either. */
int resultfile_open(struct resultfile *out, const char *path);

/* STATUS_DONE, or STATUS_USAGE after a message where more than one result would go to stdout: JSON and these two. */
int resultfile_check(const struct usage *usage, const char *csv, const char *plot, bool json);

/* Where to write, or NULL if nothing is wanted. */
FILE *resultfile_begin(struct resultfile *file);

/* Puts what was written in place of an older file. Returns as resultfile_open does. */
int resultfile_end(struct resultfile *file);
void resultfile_close(struct resultfile *file);

#endif
