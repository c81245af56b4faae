/* Tuning in a child process, which a variant may crash, break the device of or hang in. */
#ifndef KILN_TOOLS_SANDBOX_H
#define KILN_TOOLS_SANDBOX_H

#include "tune/tunejob.h"

/* The first argument of a `kiln tune` that is such a child. */
#define SANDBOX_FLAG "--in-sandbox"

typedef struct sandbox {
    const common_args *common; /* for the child's service */
    uint32_t hang_s;           /* a launch that takes longer hangs */
    int view_fd;               /* the file in memory of the view that is given to sandbox_tune */
} sandbox;

/* As tune_here, in a child. Where a variant kills the child, hangs or breaks the device, another child goes on
 * without it, at most eight times, and the variant is out in the result. Any thread. */
json_t *sandbox_tune(const sandbox *box, const tune_job *job, tune_view *view);

/* Makes a view that sandbox_tune can use; its descriptor goes to *fd. */
tune_view *sandbox_view(int *fd);
void sandbox_view_free(tune_view *view, int fd);

/* The work of the child; returns its exit status. */
int sandbox_child(void);

#endif
