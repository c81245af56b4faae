/* Watching a CUDA file of the user's own that declares no template: it is compiled, and what its functions use is
 * compared. */
#ifndef KILN_TOOLS_WATCHSOURCE_H
#define KILN_TOOLS_WATCHSOURCE_H

#include "watch/watchround.h"

struct watchsource;

/* For the columns of a round's table. */
extern const char watchsource_columns[];

/* Returns STATUS_DONE or the exit status after a message. watchsource_close is right after either. */
int watchsource_open(struct watchsource **out, const watch_args *args);

/* Compiles the file as it is now. Returns STATUS_DONE, or STATUS_FAILED after messages, and the rows are those of
 * the last time that it compiled. */
int watchsource_round(struct watchsource *watch, watch_round *round);
void watchsource_close(struct watchsource *watch);

#endif
