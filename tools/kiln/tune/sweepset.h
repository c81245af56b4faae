/* The variants that the lines of `kiln sweep` stand for, by kind: those of one op, dtype, target and template are
 * measured together. */
#ifndef KILN_TOOLS_SWEEPSET_H
#define KILN_TOOLS_SWEEPSET_H

#include <kiln/tune.h>

#include "cli/common.h"

/* A combination that is impossible, and why. */
typedef struct sweep_gap {
    char *spec, *problem;
} sweep_gap;

typedef struct sweep_kind {
    char *name;   /* "op=relu6 dtype=f32 target=cpu" */
    char **specs; /* canonical, each once; the first is what the others are compared with */
    size_t count;
    sweep_gap *gaps;
    size_t gap_count;
} sweep_kind;

struct sweepset {
    sweep_kind *kinds;
    size_t count;
};

/* Adds the variants of a line, whose fields may be lists and ranges. Returns STATUS_DONE or the exit status after a
 * message. */
int sweepset_add(struct sweepset *set, struct session *session, const char *line);

/* After the last line: puts the default geometry of each kind first, if it is there. Returns as sweepset_add does. */
int sweepset_order(struct sweepset *set, struct session *session);

/* kiln_sweep of specs that are given as text. */
kiln_status sweepset_measure(kiln_tuning **out, struct session *session, char *const *texts, size_t count,
                             const kiln_sweep_options *options);

void sweepset_free(struct sweepset *set);

#endif
