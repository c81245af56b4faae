/* A progress bar on stderr: on a terminal one line that is redrawn, elsewhere a line every few seconds if wanted. */
#ifndef KILN_TOOLS_PROGRESS_H
#define KILN_TOOLS_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
    uint64_t total;
    bool terminal;
    bool lines; /* no terminal: print a line now and then */
    double start;
    double last; /* when something was last printed */
};

void progress_start(struct progress *out, uint64_t total, bool lines);

/* Shows how many are done; cheap to call often. */
void progress_show(struct progress *progress, uint64_t done, uint64_t failed);

/* Shows words behind a bar of which a fraction is filled; on a terminal only, and as cheap. */
void progress_say(struct progress *progress, double fraction, const char *words);

/* Removes the bar. */
void progress_end(void);

/* Removes the bar if one is on the screen, so that a line can be printed. Everything that prints on stderr calls it,
 * with stderr locked. */
void progress_hide(void);

/* Waits for the condition, for a tenth of a second at most: then it is time to show progress. */
void progress_wait(pthread_cond_t *changed, pthread_mutex_t *lock);

#endif
