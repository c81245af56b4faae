/* A text that grows in memory and is then put into a file whole. */
#ifndef KILN_TOOLS_DRAFT_H
#define KILN_TOOLS_DRAFT_H

#include <stddef.h>
#include <stdio.h>

#include "output.h"

struct draft {
    FILE *stream; /* what is printed here is added to the text */
    char *text;
    size_t length;
};

/* Ends the command when out of memory, as draft_commit does. draft_drop frees. */
void draft_begin(struct draft *out);

/* Writes the text to an open output and puts that in place. Opening the output before a long measurement tells the user
 * in time that nothing can be written there. Returns as output_write does. */
int draft_commit(struct draft *draft, struct output *output);
void draft_drop(struct draft *draft);

#endif
