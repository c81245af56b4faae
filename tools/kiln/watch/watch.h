/* The parts of `kiln watch`: waiting for changes, and one round of each kind of file. */
#ifndef KILN_TOOLS_WATCH_H
#define KILN_TOOLS_WATCH_H

#include "kernels/argvalues.h"
#include "kernels/sourceargs.h"
#include "text/jsonout.h"
#include "text/table.h"

typedef struct watch_args {
    const char *file;
    const char *fields; /* of specs, or "" */
    bool is_template;
    const char *target;
    arg_texts texts; /* sizes and numbers */
    bool once;
    source_args source;
    common_args common;
} watch_args;

/* One round. The caller begins it empty. */
typedef struct watch_round {
    struct table *table; /* the rows that are to be seen, of earlier rounds too */
    json_t *rows;        /* the same */
    char *title;         /* of the table, or NULL */
    bool unchanged;      /* nothing that matters has changed since the last round; then there are no rows */
    bool over;           /* the command must end, for a reason that a message gave */
} watch_round;

/* ---- Changes: directories are watched, not files, because editors save by renaming */

struct watcher;

/* Watches files, which need not exist in their directories, and trees: all files below a directory but hidden ones
 * and those that editors keep beside edited ones, in at most 4096 directories each. In the trees of `beside` only files
 * with names of headers count. Borrows the lists until watcher_close; they may change between two waits. No change is
 * missed once this returns. The first SIGINT and the first SIGTERM only end waits; a second one ends the command at
 * once. Returns NULL after a message. */
struct watcher *watcher_open(const text_list *files, const text_list *trees, const text_list *beside);

/* Waits for a change, and until 50 ms have passed without another, but 1 s at most. Returns false once the command
 * has been interrupted. Otherwise watcher_renew follows, which watches what the lists name now. */
bool watcher_wait(struct watcher *watcher);
void watcher_renew(struct watcher *watcher);
void watcher_close(struct watcher *watcher);

/* ---- CUDA files that declare no template: compiled, and compared by the resources of their functions */

struct watch_source;
extern const char watch_source_columns[]; /* of a round's table */

/* Returns STATUS_DONE or the exit status after a message. The close function is right after either. */
int watch_source_open(struct watch_source **out, const watch_args *args);

/* Compiles the file as it is now. Returns STATUS_DONE, or the exit status after messages; then the rows are those of
 * the last version that compiled. */
int watch_source_round(struct watch_source *watch, watch_round *round);
void watch_source_close(struct watch_source *watch);

/* ---- Templates: each spec is compiled, checked and timed against its last good kernel and against a plain copy */

struct watch_template;
extern const char watch_template_columns[]; /* of a round's table */

/* Returns STATUS_DONE or the exit status after a message. The close function is right after either. */
int watch_template_open(struct watch_template **out, const watch_args *args);

/* Takes the file and its cpu twin as they are now. Returns STATUS_DONE, or the exit status of the first failure after
 * messages; a spec that failed keeps the row of its last good kernel. */
int watch_template_round(struct watch_template *watch, watch_round *round);
void watch_template_close(struct watch_template *watch);

/* The path of the cpu twin of FILE.cu, FILE.c. */
char *watch_template_twin(const char *path);

#endif
