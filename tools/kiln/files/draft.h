/* A text that grows in memory by prints. */
#ifndef KILN_TOOLS_DRAFT_H
#define KILN_TOOLS_DRAFT_H

#include <stddef.h>
#include <stdio.h>

struct draft {
    FILE *stream; /* what is printed here is added to the text */
    char *text;
    size_t length;
};

/* Ends the command when out of memory, as draft_end does. draft_drop frees. */
void draft_begin(struct draft *out);

/* After the last print: `text` and `length` are right from then on. */
void draft_end(struct draft *draft);
void draft_drop(struct draft *draft);

#endif
