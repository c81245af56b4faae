/* Compilers' messages about units, in terms of the user's files. */
#ifndef KILN_TOOLS_USERLINES_H
#define KILN_TOOLS_USERLINES_H

/* A file of a template's, whose end is the end of the units made of it. */
typedef struct user_file {
    const char *path;
    const char *text;
} user_file;

/* The compiler's message or log with places in the unit, "kiln.cu(278)" and "<stdin>:278:", replaced by those in the
 * file where the line is the file's; the others stay. The caller frees it. */
char *userlines_map(const char *message, const char *unit, const user_file *file);

#endif
