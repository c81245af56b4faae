/* Whole texts in memory: those that grow by prints, and those of files. They last as long as the command. */
#ifndef KILN_TOOLS_WHOLE_H
#define KILN_TOOLS_WHOLE_H

#include <stddef.h>
#include <stdio.h>

struct draft {
    FILE *stream; /* prints to it are added to the text */
    char *text;
    size_t length;
};

/* Begins a text. */
void draft_begin(struct draft *out);

/* Ends it after the last print: `text`, terminated, and `length` are right from then on. */
void draft_end(struct draft *draft);

/* Reads a stream to its end, but not much more than `most` bytes. *out is terminated. Returns 0 or an errno. */
int whole_stream(char **out, size_t *length, FILE *stream, size_t most);

/* The same for the file of a path, "-" for stdin. Returns STATUS_DONE, or STATUS_USAGE after a message. */
int whole_file(char **out, size_t *length, const char *path, size_t most);

#endif
