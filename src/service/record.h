/* The record of requests: a file with one line for each distinct spec that a service was asked for.
 * `kiln warm --manifest` replays it. docs/spec.md describes the file. */
#ifndef KILN_SERVICE_RECORD_H
#define KILN_SERVICE_RECORD_H

#include "base/log.h"
#include "spec/spec.h"

/* The beginning of a record. Wrong lines of a manifest that begins so are skipped. */
#define KILN__RECORD_MARK "# kiln record"

typedef struct kiln__record kiln__record;

/* Makes a record that appends to the file `path` (copied), which is opened, and made if missing, whenever there is
 * something to write. NULL: out of memory. `log` is borrowed. */
kiln__record *kiln__record_open(const char *path, const kiln__log *log);
void kiln__record_close(kiln__record *record); /* NULL is allowed */

/* Adds a request unless this record added it before or the file holds it: `asked` as the caller wrote it, so that the
 * line chooses anew on another machine, but with its dtype and without its target. Any number of threads and
 * processes may add to one file: a line is one appending write. Two that add the same line at the same moment may both
 * write it. A fault of the file is counted and, the first one, logged; it is never the caller's. After 65,536 lines or
 * beyond 64 MiB of file, nothing more is added. */
void kiln__record_add(kiln__record *record, const kiln__fields *asked);

/* Adds "define KIND TEXT", of one line, in the same way: a definition that later lines need. */
void kiln__record_define(kiln__record *record, const char *kind, const char *text);

/* A line of a record or manifest, trimmed and without its comment. A comment begins the line or stands behind a blank,
 * because a path may have a '#'. */
kiln__word kiln__record_line(kiln__word line);

/* How often a line could not be written. Any thread. */
uint64_t kiln__record_errors(const kiln__record *record);

#endif
