/* Command lines: one table of options per subcommand, from which both the parser and --help work. */
#ifndef KILN_TOOLS_OPTIONS_H
#define KILN_TOOLS_OPTIONS_H

#include "cli/common.h"

typedef enum option_kind {
    OPTION_FLAG,  /* bool: set to true */
    OPTION_TEXT,  /* const char *: may be given once */
    OPTION_LIST,  /* text_list: may be given often */
    OPTION_NUMBER /* uint32_t: a positive whole number, may be given once */
} option_kind;

typedef struct option_row {
    const char *name;    /* without the dashes */
    char letter;         /* or 0 */
    option_kind kind;    /* what `value` points to */
    const char *metavar; /* how the help text calls the value */
    const char *help;
    void *value;
} option_row;

struct usage {
    const char *synopsis; /* "kiln run SPEC --in FILE ..." */
    const char *about;    /* lines for --help */
    const char *examples; /* lines for --help, or NULL */
};

enum { OPTIONS_GO_ON = -1 };

/* Reads argv, from argv[1] on, into the values of rows, the common options and the positional words (which the caller
 * frees with free(words->items), like any OPTION_LIST). Returns OPTIONS_GO_ON, or the exit status: after --help,
 * which prints, or after a mistake, which is named. */
int options_parse(const struct usage *usage, const option_row *rows, size_t count, common_args *common,
                  text_list *words, int argc, char **argv);

/* The same for a command that takes no words. `hint`, which may be NULL, is said to who gives one. */
int options_only(const struct usage *usage, const option_row *rows, size_t count, common_args *common, const char *hint,
                 int argc, char **argv);

/* STATUS_USAGE after "kiln: message" and where to find help. */
int options_wrong(const struct usage *usage, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Turns words that are files, FILE.cu, into specs of their templates. Returns OPTIONS_GO_ON, or the exit status
 * after a message. */
int options_take_files(text_list *words);

/* Adds a word to a list. */
void text_list_add(text_list *list, const char *text);

#endif
