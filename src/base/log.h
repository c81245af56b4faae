/* The log of a service: lines and events go to the host's callbacks or nowhere. */
#ifndef KILN_BASE_LOG_H
#define KILN_BASE_LOG_H

#include "base/report.h"

/* Embedded in its owner; immutable after init, so any thread may log. NULL is a valid kiln__log that drops lines. */
typedef struct kiln__log {
    kiln_log_fn fn;
    void *data;
    kiln_log_level level;
    kiln_event_fn event; /* base/event.h; NULL: none is told */
    void *event_data;
} kiln__log;

/* `level` 0 reads KILN_LOG ("error", "warn", "info", "debug"), else KILN_LOG_WARN. */
void kiln__log_init(kiln__log *log, kiln_log_fn fn, void *data, kiln_log_level level);

/* Makes one line (kiln__report_line, at most 2047 bytes) and hands it to the callback, if `level` is wanted. Allocates
 * nothing and keeps errno. */
void kiln__log_line(const kiln__log *log, kiln_log_level level, const char *format, ...) KILN__PRINTF(3, 4);

#endif
