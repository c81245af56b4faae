/* Waiting until files change. Directories are watched, not files: editors save by renaming. */
#ifndef KILN_TOOLS_WATCHER_H
#define KILN_TOOLS_WATCHER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct watch_root {
    char *dir;
    char *name; /* the one file of it that matters; NULL: all files in it and in the directories below */
} watch_root;

/* A watched directory of a root. */
typedef struct watch_place {
    int number; /* inotify's */
    size_t root;
} watch_place;

struct watcher {
    int fd;
    watch_root *roots;
    size_t root_count;
    watch_place *places;
    size_t place_count;
    bool missing; /* a root is not there now: looked for again and again */
    bool warned;
};

/* Returns STATUS_DONE or STATUS_FAILED after a message. watcher_close is right after either. */
int watcher_open(struct watcher *out);

/* Watches a file, which need not exist, or what is below a directory, but for hidden files and those of editors; at most 4096
 * directories, 16 deep. From then on changes are noticed, also before watcher_wait. Return as watcher_open does. */
int watcher_add_file(struct watcher *watcher, const char *path);
int watcher_add_tree(struct watcher *watcher, const char *dir);

/* Waits for a change, and until 50 ms have passed without another, but 1 s at most. Returns false when an interrupt was seen
 * (interrupt.h). */
bool watcher_wait(struct watcher *watcher);
void watcher_close(struct watcher *watcher);

#endif
