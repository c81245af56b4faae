/* The lines of a service's log. */
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 2048 };

static kiln_log_level level_of_environment(void)
{
    static const char *const names[] = { "error", "warn", "info", "debug" };
    const char *wanted = secure_getenv("KILN_LOG");
    for (size_t i = 0; wanted && i < sizeof names / sizeof *names; i++)
        if (!strcmp(wanted, names[i]))
            return (kiln_log_level)(KILN_LOG_ERROR + i);
    return KILN_LOG_WARN;
}

void kiln__log_init(kiln__log *log, kiln_log_fn fn, void *data, kiln_log_level level)
{
    log->fn = fn;
    log->data = data;
    log->level = level ? level : level_of_environment();
}

void kiln__log_line(const kiln__log *log, kiln_log_level level, const char *format, ...)
{
    if (!log || !log->fn || level > log->level)
        return;
    /* On the stack, so that running out of memory can be logged; errno kept, so that logging never hides a cause. */
    int saved = errno;
    char line[LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    kiln__report_line(line, sizeof line, format, arguments);
    va_end(arguments);
    log->fn(log->data, level, line);
    errno = saved;
}
