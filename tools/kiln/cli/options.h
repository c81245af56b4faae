/* Command lines: one table of options per subcommand, from which both the parser and --help work. */
#ifndef KILN_TOOLS_OPTIONS_H
#define KILN_TOOLS_OPTIONS_H

#include "cli/common.h"

typedef enum option_kind {
    OPTION_FLAG,    /* bool: set to true */
    OPTION_TEXT,    /* const char *: may be given once */
    OPTION_LIST,    /* text_list: may be given often */
    OPTION_NUMBER,  /* uint32_t: a positive whole number, may be given once */
    OPTION_COMPILER /* text_list: may be given often, and options of a CUDA compiler need not have its name in front */
} option_kind;

typedef struct option_row {
    const char *name;    /* without the dashes */
    char letter;         /* or 0 */
    option_kind kind;    /* the type of *value */
    const char *metavar; /* how the help text calls the value */
    const char *help;
    void *value;
} option_row;

/* A table as two arguments. */
#define OPTION_ROWS(rows) rows, COUNT_OF(rows)

struct usage {
    const char *synopsis; /* "kiln run SPEC --in FILE ..." */
    const char *about;    /* lines for --help */
    const char *examples; /* lines for --help, or NULL */
};

/* The index of the command in argv: that of the first word which is neither an option nor the value of a common one.
 * `argc` or more where there is none. */
int options_before(int argc, char **argv);

/* Reads argv, from argv[1] on, into the values of the rows, the common options and the positional words. Ends the
 * command after --help, which prints, and after a mistake, which it names. */
void options_parse(const struct usage *usage, const option_row *rows, size_t count, common_args *common,
                   text_list *words, int argc, char **argv);

/* The same for a command that takes no words. The message about a word ends with `hint`, which may be NULL. */
void options_only(const struct usage *usage, const option_row *rows, size_t count, common_args *common,
                  const char *hint, int argc, char **argv);

/* Has the session define the template of a file, as --template does. */
void options_define_template(const char *path);

/* Prints "kiln: message" and where to find help; returns STATUS_USAGE. */
int options_wrong(const struct usage *usage, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, and ends the command. */
_Noreturn void options_refuse(const struct usage *usage, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
