/* A text that takes the place of the one before on a terminal, and follows it elsewhere. */
#ifndef KILN_TOOLS_SCREEN_H
#define KILN_TOOLS_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

struct screen {
    bool terminal;
    size_t lines; /* that were drawn last */
};

/* For standard output. */
void screen_open(struct screen *out);

/* Draws the text, whose last line ends. */
void screen_show(struct screen *screen, const char *text);

#endif
