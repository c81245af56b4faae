/* Completion of command lines. A shell runs `kiln complete WORD... LAST` with the words behind `kiln`. It prints each
 * word that LAST may become, a tab and a description. A shell completes file names where nothing is printed.
 * The subcommand is run as usual, and the reader of its options ends it with the completion. */
#ifndef KILN_TOOLS_COMPLETE_H
#define KILN_TOOLS_COMPLETE_H

#include "cli/options.h"

/* From now on the command lines are to be completed. `last` is the word that is not whole yet. */
void complete_begin(const char *last);
bool complete_wanted(void);

/* Prints a word, if it begins with what there is of the last one. The description ends at the end of its first line. */
void complete_word(const char *word, const char *about);

/* The first word of this command is one of the names with which `count` rows of `stride` bytes begin. */
void complete_actions(const void *rows, size_t count, size_t stride);

/* Completes the line of a command with these options, and ends the command. */
_Noreturn void complete_line(const struct usage *usage, const option_row *rows, size_t count, int argc, char **argv);

#endif
