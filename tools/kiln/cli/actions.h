/* Commands whose first word is an action: kiln cache, kiln wisdom. */
#ifndef KILN_TOOLS_ACTIONS_H
#define KILN_TOOLS_ACTIONS_H

#include "cli/options.h"

typedef struct action {
    const char *name;
    int (*run)(struct session *session, void *args); /* prints, and returns the exit status */
    const char *needs;  /* a name for the first word after it where there must be one, or NULL */
    size_t least, most; /* words after it */
    bool only_reads;    /* as in common_args */
    size_t specs;       /* the place of the first word after it that is one of specs, from 1; 0: none is */
} action;

typedef struct action_set {
    const struct usage *usage;
    const char *names; /* "list, explain, export or import" */
    const action *actions;
    size_t count;

    /* Refuses options that the chosen action does not take. */
    void (*check)(const action *chosen, const void *args);
} action_set;

/* Reads the command line, finds the action, and runs it with `args` in a session. `common` and `words`, which gets the
 * words after the action, those of specs joined, are parts of `args`. Returns the exit status. */
int actions_run(const action_set *set, const option_row *rows, size_t count, void *args, common_args *common,
                text_list *words, int argc, char **argv);

#endif
