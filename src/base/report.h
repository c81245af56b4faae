/* Filling a kiln_report. */
#ifndef KILN_BASE_REPORT_H
#define KILN_BASE_REPORT_H

#include <kiln/kiln.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define KILN__PRINTF(index, first) __attribute__((format(printf, index, first)))

/* Stage names of a report: the only strings that `stage` points to. */
#define KILN__STAGE_SPEC    "spec"
#define KILN__STAGE_COMPILE "compile"
#define KILN__STAGE_LOAD    "load"
#define KILN__STAGE_LAUNCH  "launch"
#define KILN__STAGE_DEVICE  "device"
#define KILN__STAGE_STORE   "store"
#define KILN__STAGE_OPEN    "open"

/* Writes status, stage, native code and one message line into the report, if there is one. Returns `status`, so that a
 * failing function ends with `return kiln__fail(report, ...)`. In the line, control characters become spaces; one that
 * is too long is cut between two UTF-8 characters. Keeps the log. An argument may be the report's message. Like all
 * of these functions it fills a report as far as its `size` says: an older program has a shorter struct. */
kiln_status kiln__fail(kiln_report *report, kiln_status status, const char *stage, int native, const char *format, ...)
    KILN__PRINTF(5, 6);

/* Formats such a message line into buffer (size > 0). */
void kiln__report_line(char *buffer, size_t size, const char *format, va_list arguments) KILN__PRINTF(3, 0);

/* Makes a report as new. Touches only the first byte of the message. */
void kiln__report_reset(kiln_report *report);

/* The same for a report that may be NULL. Each public function that takes a report begins so, launches too. */
static inline void kiln__report_begin(kiln_report *report)
{
    if (report != NULL)
        kiln__report_reset(report);
}

/* kiln__fail for running out of memory. */
kiln_status kiln__fail_memory(kiln_report *report, const char *stage);

/* kiln__fail for a forked child that uses an object of its parent: KILN_EFORKED. */
kiln_status kiln__fail_forked(kiln_report *report, const char *stage);

/* True for an error that says that descriptors, processes or threads are used up for now, so that nothing is known of
 * the wanted object. */
bool kiln__is_shortage(int error);

/* kiln__fail for such an error: KILN_EIO, "cannot DO IT", the shortage and the remedy. */
kiln_status kiln__fail_shortage(kiln_report *report, const char *stage, int error, const char *do_it);

/* Moves the contents of `from` to `to`, which may be NULL, and leaves `from` as new. A failure from which a function
 * may recover is first reported apart. */
void kiln__report_move(kiln_report *to, kiln_report *from);

/* Replaces the report's log by a copy of `log` (NULL or "" removes it). A log that cannot be copied is dropped. */
void kiln__report_set_log(kiln_report *report, const char *log);

#endif
