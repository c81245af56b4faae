/* Commands whose first word says what to do: kiln cache, kiln wisdom. */
#ifndef KILN_TOOLS_ACTIONS_H
#define KILN_TOOLS_ACTIONS_H

#include "cli/options.h"

/* Does it with the command's arguments; prints, and returns the exit status. */
typedef int (*action_fn)(struct session *session, const void *args);

typedef struct action {
    const char *name;
    action_fn run;
    const char *needs;  /* what the first word after it is called where there must be one, or NULL */
    size_t least, most; /* words after it */
} action;

typedef struct action_set {
    const struct usage *usage;
    const char *names; /* "list, explain, export or import" */
    const action *actions;
    size_t count;

    /* Refuses options that the chosen action does not take, with options_wrong; OPTIONS_GO_ON if there are none. */
    int (*check)(const action *chosen, const void *args);
} action_set;

/* Where the command keeps what its words and options say. */
typedef struct action_args {
    const void *all; /* for check and run; the next two are in it */
    common_args *common;
    text_list *words; /* after the action; borrowed from argv */
} action_args;

/* Parses the command line, finds the action, opens a session and lets it run there. Returns the exit status. */
int actions_run(const action_set *set, const option_row *rows, size_t count, const action_args *args, int argc,
                char **argv);

#endif
