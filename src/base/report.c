/* Filling a kiln_report, whatever length its struct has, and the texts of statuses. */
#include "base/report.h"

#include "base/alloc.h"
#include "base/text.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(x)                      #x
#define VERSION_OF(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *kiln_version(void)
{
    return VERSION_OF(KILN_VERSION_MAJOR, KILN_VERSION_MINOR, KILN_VERSION_PATCH);
}

#define STATUS_ROW(name, value, text) { KILN_##name, "KILN_" #name, text },
static const struct {
    kiln_status status;
    const char *name, *text;
} statuses[] = { KILN_STATUS_MAP(STATUS_ROW){ KILN_OK, "KILN_OK", "success" } };

enum { STATUSES = sizeof(statuses) / sizeof(*statuses) };

const char *kiln_status_name(kiln_status status)
{
    for (size_t i = 0; i < STATUSES; i++)
        if (statuses[i].status == status)
            return statuses[i].name;
    return "KILN_UNKNOWN";
}

const char *kiln_status_text(kiln_status status)
{
    for (size_t i = 0; i < STATUSES; i++)
        if (statuses[i].status == status)
            return statuses[i].text;
    return "unknown status";
}

bool kiln__is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == EAGAIN;
}

kiln_status kiln__fail_shortage(kiln_report *report, const char *stage, int error, const char *do_it)
{
    const char *advice = "no process or thread can be started: end some, or raise the limit (ulimit -u, or pids.max of "
                         "the control group)";
    if (error == EMFILE)
        advice = "this process has too many open files: close some, or raise the limit (ulimit -n)";
    if (error == ENFILE)
        advice = "this system has too many open files: close some, or raise the limit (sysctl fs.file-max)";
    return kiln__fail(report, KILN_EIO, stage, error, "cannot %s: %s; then try again", do_it, advice);
}

/* Whether the caller's struct, perhaps an older and shorter one, has a field whole. */
#define HAS(report, field) ((report)->size >= offsetof(kiln_report, field) + sizeof((report)->field))

/* Bytes of `message` that the caller's struct has. */
static size_t message_room(const kiln_report *report)
{
    size_t start = offsetof(kiln_report, message), room = report->size > start ? report->size - start : 0;
    return room < sizeof(report->message) ? room : sizeof(report->message);
}

/* Everything but the message and the log. */
static void set_cause(kiln_report *report, kiln_status status, int native, const char *stage)
{
    if (HAS(report, status))
        report->status = status;
    if (HAS(report, native))
        report->native = native;
    if (HAS(report, stage))
        report->stage = stage;
}

void kiln__report_reset(kiln_report *report)
{
    set_cause(report, KILN_OK, 0, NULL);
    kiln__report_set_log(report, NULL);
    if (message_room(report) > 0)
        report->message[0] = '\0';
}

void kiln_report_clear(kiln_report *report)
{
    kiln__report_begin(report);
}

/* Length without a UTF-8 sequence that the end of the buffer cut off. Text that is not UTF-8 loses nothing. */
static size_t count_whole(const char *text, size_t length)
{
    size_t start = length;
    while (start > 0 && length - start < 3 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0)
        return length;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t wanted = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return wanted > length - start + 1 ? start - 1 : length;
}

void kiln__report_line(char *buffer, size_t size, const char *format, va_list arguments)
{
    buffer[0] = '\0';
    int wanted = vsnprintf(buffer, size, format, arguments);
    size_t length = strlen(buffer);
    if (wanted > 0 && (size_t)wanted >= size)
        length = count_whole(buffer, length);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)buffer[i] < 0x20 || buffer[i] == 0x7F)
            buffer[i] = ' ';
    while (length > 0 && buffer[length - 1] == ' ')
        length--;
    buffer[length] = '\0';
}

kiln_status kiln__fail(kiln_report *report, kiln_status status, const char *stage, int native, const char *format, ...)
{
    if (report == NULL)
        return status;
    set_cause(report, status, native, stage);
    size_t room = message_room(report);
    if (room == 0)
        return status;
    /* Not into the report at once: an argument may be its message, which a longer one wraps. */
    char line[sizeof report->message];
    va_list arguments;
    va_start(arguments, format);
    kiln__report_line(line, room, format, arguments);
    va_end(arguments);
    memcpy(report->message, line, strlen(line) + 1);
    return status;
}

kiln_status kiln__fail_memory(kiln_report *report, const char *stage)
{
    return kiln__fail(report, KILN_ENOMEM, stage, 0, "out of memory");
}

kiln_status kiln__fail_forked(kiln_report *report, const char *stage)
{
    return kiln__fail(report, KILN_EFORKED, stage, 0,
                      "this process was forked, and its parent made what the call uses: open a service in the child");
}

void kiln__report_set_log(kiln_report *report, const char *log)
{
    if (report == NULL || !HAS(report, log))
        return;
    char *copy = log && *log ? kiln__strdup(log) : NULL;
    if (report->log != NULL)
        kiln__free(report->log);
    report->log = copy;
}

void kiln__report_move(kiln_report *to, kiln_report *from)
{
    if (to != NULL) {
        kiln_report_clear(to);
        set_cause(to, from->status, from->native, from->stage);
        if (message_room(to) > 0)
            kiln__text_copy(to->message, message_room(to), from->message);
        if (HAS(to, log)) {
            to->log = from->log;
            from->log = NULL;
        }
    }
    kiln_report_clear(from);
}
