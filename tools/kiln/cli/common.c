#include "cli/common.h"

#include <kiln/kernel.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/progress.h"

bool use_colour(FILE *stream)
{
    const char *no_colour = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    if (no_colour && *no_colour)
        return false;
    return isatty(fileno(stream)) && terminal && strcmp(terminal, "dumb") != 0;
}

/* NULL: stderr. */
static FILE *elsewhere;

static FILE *diagnostics(void)
{
    return elsewhere ? elsewhere : stderr;
}

void diagnostics_to(FILE *stream)
{
    flockfile(stderr);
    elsewhere = stream;
    funlockfile(stderr);
}

static void print_line(bool error, const char *format, va_list args)
{
    flockfile(stderr);
    FILE *stream = diagnostics();
    if (!elsewhere)
        progress_hide();
    fputs(error && use_colour(stream) ? "\033[31mkiln:\033[0m " : "kiln: ", stream);
    vfprintf(stream, format, args);
    fputc('\n', stream);
    funlockfile(stderr);
}

int fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(true, format, args);
    va_end(args);
    return status;
}

void note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(false, format, args);
    va_end(args);
}

int exit_status(kiln_status status)
{
    switch (status) {
    case KILN_OK:
        return STATUS_DONE;
    case KILN_ESPEC:
    case KILN_EOP:
    case KILN_ETARGET:
    case KILN_EINVAL:
    case KILN_EOVERLAP:
        return STATUS_USAGE;
    default:
        return STATUS_FAILED;
    }
}

int fail_report(kiln_status status, const kiln_report *report, const char *culprit)
{
    const char *message = report && report->message[0] ? report->message : kiln_status_text(status);
    fail(STATUS_FAILED, "%s%s%s", culprit ? culprit : "", culprit ? ": " : "", message);
    if (report && report->log && report->log[0]) {
        size_t length = strlen(report->log);
        fprintf(diagnostics(), "%s%s", report->log, report->log[length - 1] == '\n' ? "" : "\n");
    }
    return exit_status(status);
}

void out_of_memory(void)
{
    fail(STATUS_FAILED, "out of memory");
    exit(STATUS_FAILED);
}

static void *checked(void *memory)
{
    if (!memory)
        out_of_memory();
    return memory;
}

void *need_alloc(size_t bytes)
{
    return checked(calloc(1, bytes ? bytes : 1));
}

void *need_array(void *old, size_t count, size_t size)
{
    return checked(reallocarray(old, count ? count : 1, size));
}

char *need_copy(const char *text)
{
    return checked(strdup(text));
}

char *need_format(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    return checked(length < 0 ? NULL : text);
}

static void print_log(void *data, kiln_log_level level, const char *message)
{
    static const char *const names[] = { "", "error", "warning", "info", "debug" };
    (void)data;
    note("%s: %s", level >= KILN_LOG_ERROR && level <= KILN_LOG_DEBUG ? names[level] : "note", message);
}

int session_open(struct session *out, const common_args *args)
{
    *out = (struct session){ .service = NULL, .report = KILN_INIT(kiln_report) };
    kiln_options options = KILN_INIT(kiln_options);
    options.device = args->device;
    options.cache_dir = args->cache_dir;
    options.strict = args->strict;
    options.log = print_log;
    if (args->verbose && !getenv("KILN_LOG"))
        options.log_level = KILN_LOG_INFO;
    kiln_status status = kiln_open(&out->service, &options, &out->report);
    for (size_t i = 0; args->ops && i < args->ops->count && !status; i++)
        status = kiln_op_define(out->service, args->ops->items[i], &out->report);
    for (size_t i = 0; args->templates && i < args->templates->count && !status; i++)
        status = kiln_template_load(out->service, args->templates->items[i], NULL, &out->report);
    return status ? session_fail(out, status, NULL) : STATUS_DONE;
}

const char *cache_directory(struct session *session)
{
    kiln_cache_info info = KILN_INIT(kiln_cache_info);
    kiln_status status = kiln_cache_get_info(session->service, &info, NULL);
    return status == KILN_OK || status == KILN_EIO ? info.directory : "";
}

void session_close(struct session *session)
{
    kiln_report_clear(&session->report);
    kiln_close(session->service);
    session->service = NULL;
}

int session_fail(struct session *session, kiln_status status, const char *culprit)
{
    int result = fail_report(status, &session->report, culprit);
    kiln_report_clear(&session->report);
    return result;
}
