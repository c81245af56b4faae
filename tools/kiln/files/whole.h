/* Whole texts in memory: those that grow by prints, and those of files. They last as long as the command. */
#ifndef KILN_TOOLS_WHOLE_H
#define KILN_TOOLS_WHOLE_H

#include <stdbool.h>
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

/* Opens a file to read it; "-" is standard input. NULL, with errno set, where that fails; fclose ends it. */
FILE *whole_open(const char *path);

/* A file for functions that take a path, where the user may write "-" for a standard stream: a private temporary file
 * then, else the user's own. */
struct whole_place {
    const char *path;
    char *temporary; /* or NULL */
};

/* With `input` the temporary file gets what standard input has. Returns STATUS_DONE, or STATUS_USAGE after a message.
 * whole_place_close, which removes the temporary file, is right after either. */
int whole_place_open(struct whole_place *out, const char *path, bool input);
void whole_place_close(struct whole_place *place);

#endif
