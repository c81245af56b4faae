/* What every subcommand needs: exit statuses, diagnostics, memory that never runs out, and an open service. */
#ifndef KILN_TOOLS_COMMON_H
#define KILN_TOOLS_COMMON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kiln/kiln.h>

enum {
    STATUS_DONE = 0,   /* it did what was asked */
    STATUS_FAILED = 1, /* it ran and something failed */
    STATUS_USAGE = 2   /* wrong usage or bad input; nothing was changed */
};

/* Words borrowed from argv. */
typedef struct text_list {
    const char **items;
    size_t count;
} text_list;

/* The options that every subcommand takes. */
typedef struct common_args {
    const text_list *ops, *templates; /* definitions and paths to open a session with, or NULL */
    const char *cache_dir;
    const char *device;
    bool json;
    bool verbose;
    kiln_switch strict;
} common_args;

/* One line on stderr, "kiln: " before it; returns `status`. Any thread. */
int fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a call of the library that failed: the report's message, or the status in words, after "culprit: "
 * if culprit is not NULL, then the compiler's log if there is one. Returns the exit status that fits. */
int fail_report(kiln_status status, const kiln_report *report, const char *culprit);

/* "kiln: warning: ..." and the like on stderr; returns nothing. Any thread. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on diagnostics go to this stream, which is no terminal, and no longer to stderr; NULL: to stderr again. */
void diagnostics_to(FILE *stream);

/* The exit status that stands for a status of the library. */
int exit_status(kiln_status status);

/* Whether to colour what goes to `stream`: a terminal, and neither NO_COLOR nor TERM=dumb. */
bool use_colour(FILE *stream);

/* A message and exit(STATUS_FAILED). */
_Noreturn void out_of_memory(void);

/* Memory, or that. */
void *need_alloc(size_t bytes);
void *need_array(void *old, size_t count, size_t size);
char *need_copy(const char *text);
char *need_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A service opened with the common options, and one report for its calls. */
struct session {
    kiln_service *service;
    kiln_report report;
};

/* Opens; returns STATUS_DONE, or the exit status after a message. session_close is right after either. */
int session_open(struct session *out, const common_args *args);
void session_close(struct session *session);

/* The directory of the store, "" if there is none. Lives as long as the session. */
const char *cache_directory(struct session *session);

/* As fail_report with the session's own report, which is cleared. */
int session_fail(struct session *session, kiln_status status, const char *culprit);

#endif
