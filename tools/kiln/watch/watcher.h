/* Waiting until files change. Directories are watched, not files: editors save by renaming. */
#ifndef KILN_TOOLS_WATCHER_H
#define KILN_TOOLS_WATCHER_H

#include "cli/common.h"

struct watcher;

/* Watches files, which need not exist in their directories, and trees: all files below a directory but hidden ones
 * and those that editors keep beside edited ones, in at most 4096 directories each. Borrows both lists until
 * watcher_close. From then on no change is missed. The first SIGINT and the first SIGTERM only end waits; a second
 * one ends the command at once. Returns NULL after a message. */
struct watcher *watcher_open(const text_list *files, const text_list *trees);

/* Waits for a change, and until 50 ms have passed without another, but 1 s at most. Returns false once the command
 * has been interrupted. */
bool watcher_wait(struct watcher *watcher);
void watcher_close(struct watcher *watcher);

#endif
