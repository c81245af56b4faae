/* Watching a template of the user's own: each of its specs is compiled, checked and timed against its last good
 * kernel. */
#ifndef KILN_TOOLS_WATCHTEMPLATE_H
#define KILN_TOOLS_WATCHTEMPLATE_H

#include "watch/watchround.h"

struct watchtemplate;

/* For the columns of a round's table. */
extern const char watchtemplate_columns[];

/* Opens the service whose device is used in all rounds. Returns STATUS_DONE or the exit status after a message.
 * watchtemplate_close is right after either. */
int watchtemplate_open(struct watchtemplate **out, const watch_args *args);

/* Does with the file and its cpu twin as they are now. Returns STATUS_DONE, or STATUS_FAILED after messages; a spec
 * that failed keeps the row of its last good kernel. */
int watchtemplate_round(struct watchtemplate *watch, watch_round *round);
void watchtemplate_close(struct watchtemplate *watch);

/* The path of the cpu twin of FILE.cu, FILE.c, which the caller frees. */
char *watchtemplate_twin(const char *path);

#endif
