/* The base of every subcommand: exit statuses, diagnostics, memory that lasts as long as the command, and a session. */
#ifndef KILN_TOOLS_COMMON_H
#define KILN_TOOLS_COMMON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kiln/kiln.h>

enum {
    STATUS_DONE = 0,   /* success */
    STATUS_FAILED = 1, /* the command ran and something failed */
    STATUS_USAGE = 2   /* wrong usage or bad input; nothing was changed */
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Prints one line on stderr, "kiln: " before it; returns `status`. Any thread. */
int fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a call of the library that failed: "culprit: " if culprit is not NULL, the report's message or else the
 * status in words, then the compiler's log if there is one. Returns the exit status that fits. */
int fail_report(kiln_status status, const kiln_report *report, const char *culprit);

/* Prints "kiln: warning: ..." and the like on stderr. Any thread. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sends diagnostics to this stream, which is no terminal, instead of stderr; NULL: to stderr again. */
void diagnostics_to(FILE *stream);

/* The exit status that stands for a status of the library. */
int exit_status(kiln_status status);

/* Ends the command, with STATUS_FAILED after a message where standard output could not be written. */
_Noreturn void finish(int status);

/* Whether lines of output to `stream` can be drawn over. */
bool is_terminal(FILE *stream);

/* The columns of the terminal that `stream` writes to, 80 where it does not tell; SIZE_MAX: it is no terminal. */
size_t terminal_width(FILE *stream);

/* The columns that so many bytes of a UTF-8 text take: one for each character. */
size_t text_columns(const char *text, size_t bytes);

/* The bytes of the characters that fill so many columns, or of all. */
size_t text_within(const char *text, size_t columns);

/* Prints a line; on a terminal it is broken at blanks, and what follows is indented. */
void print_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether to colour output to `stream`: the same, and NO_COLOR is not set. */
bool use_colour(FILE *stream);

/* ---- Memory */

/* Prints a message and exits with STATUS_FAILED. */
_Noreturn void out_of_memory(void);

/* Memory that lasts as long as the command, so that no caller frees it. It never runs out: that ends the command. Any
 * thread. need_alloc gives zeros. need_array changes the size of `old`, which may be NULL. need_keep takes over memory
 * of malloc; NULL is out of memory. */
void *need_alloc(size_t bytes);
void *need_array(void *old, size_t count, size_t size);
void *need_keep(void *memory);
char *need_copy(const char *text);
char *need_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Adds words to a text, after `between` where the text has words already. */
void text_append(char **text, const char *between, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A list of borrowed texts. All zero is an empty one. */
typedef struct text_list {
    const char **items;
    size_t count;
} text_list;

void text_list_add(text_list *list, const char *text);

/* ---- Sessions */

/* The options that every subcommand takes. */
typedef struct common_args {
    const text_list *ops, *templates; /* definitions and paths to open a session with, or NULL */
    const char *cache_dir;
    const char *device;
    const char *socket; /* of the daemon; NULL: the library's */
    bool json;
    bool verbose;
    bool only_reads; /* the command makes nothing: a directory that is named and missing is told of */
    kiln_switch strict;
    bool no_remote;                      /* the server that machines share is not asked */
    kiln_push push;                      /* KILN_PUSH_DEFAULT: what it compiles */
    uint32_t worker_mib, worker_seconds; /* limits of a compile worker, 0 for the library's */
} common_args;

/* A service opened with the common options, and one report for its calls. */
struct session {
    kiln_service *service;
    kiln_report report;
};

/* The library's options by the common ones. */
kiln_options session_options(const common_args *args);

/* Opens a session. Returns STATUS_DONE, or the exit status after a message. session_close is right after either. */
int session_open(struct session *out, const common_args *args);
void session_close(struct session *session);

/* Opens a session, calls `work` in it and closes it. Returns the exit status. */
int session_run(const common_args *args, int (*work)(struct session *session, void *data), void *data);

/* Opens a device, the default one where `name` is NULL, and tells its facts. The report is the session's. */
kiln_status session_device(kiln_device **out, kiln_device_info *info, struct session *session, const char *name);

/* The directory of the store, "" if there is none. Lives as long as the session. */
const char *cache_directory(struct session *session);

/* STATUS_DONE for KILN_OK. Else as fail_report with the session's report, which is cleared. */
int session_status(struct session *session, kiln_status status, const char *culprit);

#endif
