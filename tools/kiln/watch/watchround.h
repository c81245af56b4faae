/* One round of `kiln watch`: what is to be shown of it. */
#ifndef KILN_TOOLS_WATCHROUND_H
#define KILN_TOOLS_WATCHROUND_H

#include "kernels/argvalues.h"
#include "kernels/sourceargs.h"
#include "text/jsonout.h"
#include "text/table.h"

typedef struct watch_args {
    const char *file;
    char *fields; /* of specs, or "" */
    const char *target;
    arg_texts texts; /* sizes and numbers */
    bool once;
    source_args source;
    common_args common;
} watch_args;

/* Begun empty by who asks for the round. */
typedef struct watch_round {
    struct table *table; /* the rows that are to be seen, of earlier rounds too */
    json_t *rows;        /* the same */
    char *title;         /* or NULL; of the table */
    bool unchanged;      /* nothing that matters has changed since the last round; then there are no rows */
    bool over;           /* it makes no sense to go on, for a reason that was said */
} watch_round;

#endif
