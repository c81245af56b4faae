/* Diagnostics, memory that lasts as long as the command, and sessions. */
#include "cli/common.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/progress.h"

/* ---- Diagnostics */

bool is_terminal(FILE *stream)
{
    const char *kind = getenv("TERM");
    return isatty(fileno(stream)) && kind && strcmp(kind, "dumb") != 0;
}

size_t terminal_width(FILE *stream)
{
    struct winsize size = { .ws_col = 0 };
    const char *columns = getenv("COLUMNS");
    if (!is_terminal(stream))
        return SIZE_MAX;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    long named = columns ? strtol(columns, NULL, 10) : 0;
    return named > 0 ? (size_t)named : 80;
}

static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

size_t text_columns(const char *text, size_t bytes)
{
    size_t columns = 0;
    for (size_t i = 0; i < bytes; i++)
        columns += begins_character(text[i]);
    return columns;
}

size_t text_within(const char *text, size_t columns)
{
    const char *at = text;
    for (; *at && (columns > 0 || !begins_character(*at)); at++)
        columns -= begins_character(*at);
    return (size_t)(at - text);
}

void print_line(const char *format, ...)
{
    enum { INDENT = 4 };
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        out_of_memory();
    va_end(args);
    size_t room = terminal_width(stdout);
    const char *rest = text;
    for (size_t left = room; text_columns(rest, strlen(rest)) > left; left = room - INDENT) {
        size_t length = text_within(rest, left);
        while (length > 0 && rest[length] != ' ')
            length--;
        if (length == 0 || room <= 2 * (size_t)INDENT)
            break;
        printf("%.*s\n%*s", (int)length, rest, INDENT, "");
        rest += length + 1;
    }
    puts(rest);
    free(text);
}

bool use_colour(FILE *stream)
{
    const char *no_colour = getenv("NO_COLOR");
    return !(no_colour && *no_colour) && is_terminal(stream);
}

/* NULL: stderr. */
static FILE *elsewhere;

void diagnostics_to(FILE *stream)
{
    flockfile(stderr);
    elsewhere = stream;
    funlockfile(stderr);
}

static void print_diagnostic(bool error, const char *format, va_list args)
{
    flockfile(stderr);
    FILE *stream = elsewhere ? elsewhere : stderr;
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
    print_diagnostic(true, format, args);
    va_end(args);
    return status;
}

void note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_diagnostic(false, format, args);
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
    const char *message = report->message[0] ? report->message : kiln_status_text(status);
    fail(STATUS_FAILED, "%s%s%s", culprit ? culprit : "", culprit ? ": " : "", message);
    if (report->log && report->log[0]) {
        size_t length = strlen(report->log);
        fprintf(elsewhere ? elsewhere : stderr, "%s%s", report->log, report->log[length - 1] == '\n' ? "" : "\n");
    }
    return exit_status(status);
}

void finish(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        status = fail(STATUS_FAILED, "cannot write to standard output");
    exit(status);
}

/* ---- Memory */

void out_of_memory(void)
{
    fail(STATUS_FAILED, "out of memory");
    exit(STATUS_FAILED);
}

/* The list is only there so that a leak checker finds all of it, and reports the objects of the library that are not
 * given back. An entry may be out of date. */
void *need_keep(void *memory)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void **kept;
    static size_t count, room;
    if (!memory)
        out_of_memory();
    pthread_mutex_lock(&lock);
    if (count == room)
        kept = reallocarray(kept, room = room ? 2 * room : 256, sizeof(*kept));
    if (!kept)
        out_of_memory();
    kept[count++] = memory;
    pthread_mutex_unlock(&lock);
    return memory;
}

void *need_alloc(size_t bytes)
{
    return need_keep(calloc(1, bytes ? bytes : 1));
}

void *need_array(void *old, size_t count, size_t size)
{
    uintptr_t before = (uintptr_t)old;
    void *array = reallocarray(old, count ? count : 1, size);
    return array && (uintptr_t)array == before ? array : need_keep(array);
}

char *need_copy(const char *text)
{
    return need_keep(strdup(text));
}

static char *format_text(const char *format, va_list args)
{
    char *text = NULL;
    return need_keep(vasprintf(&text, format, args) < 0 ? NULL : text);
}

char *need_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args);
    va_end(args);
    return text;
}

void text_append(char **text, const char *between, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *words = format_text(format, args);
    va_end(args);
    *text = need_format("%s%s%s", *text, **text && *words ? between : "", words);
}

void text_list_add(text_list *list, const char *text)
{
    list->items = need_array(list->items, list->count + 1, sizeof(*list->items));
    list->items[list->count++] = text;
}

/* ---- Sessions */

static void print_log(void *data, kiln_log_level level, const char *message)
{
    static const char *const names[] = { "", "error", "warning", "info", "debug" };
    (void)data;
    note("%s: %s", level >= KILN_LOG_ERROR && level <= KILN_LOG_DEBUG ? names[level] : "note", message);
}

kiln_options session_options(const common_args *args)
{
    kiln_options options = KILN_INIT(kiln_options);
    options.socket = args->socket;
    options.device = args->device;
    options.cache_dir = args->cache_dir;
    options.strict = args->strict;
    options.push = args->push;
    if (args->no_remote)
        options.remote = "";
    options.worker_memory_bytes = (uint64_t)args->worker_mib << 20;
    options.worker_time_ms = args->worker_seconds > UINT32_MAX / 1000 ? UINT32_MAX : args->worker_seconds * 1000;
    options.log = print_log;
    if (args->verbose && !getenv("KILN_LOG"))
        options.log_level = KILN_LOG_INFO;
    return options;
}

int session_open(struct session *out, const common_args *args)
{
    enum { LEAST_MIB = 256 }; /* NVRTC alone takes as much */
    *out = (struct session){ .service = NULL, .report = KILN_INIT(kiln_report) };
    const kiln_options options = session_options(args);
    if (args->only_reads && args->cache_dir && *args->cache_dir && access(args->cache_dir, F_OK) != 0 &&
        errno == ENOENT)
        note("--cache-dir %s: there is no such directory", args->cache_dir);
    if (args->worker_mib && args->worker_mib < LEAST_MIB)
        return fail(STATUS_USAGE, "--worker-memory %u is too little: NVRTC needs %d MiB", args->worker_mib, LEAST_MIB);
    kiln_status status = kiln_open(&out->service, &options, &out->report);
    if (status)
        return session_status(out, status, NULL);
    for (size_t i = 0; args->ops && i < args->ops->count && !status; i++)
        status = kiln_op_define(out->service, args->ops->items[i], &out->report);
    for (size_t i = 0; args->templates && i < args->templates->count && !status; i++)
        status = kiln_template_load(out->service, args->templates->items[i], NULL, &out->report);
    /* A definition that is wrong is bad input, and so is a file that cannot be read. */
    return session_status(out, status, NULL) ? STATUS_USAGE : STATUS_DONE;
}

void session_close(struct session *session)
{
    kiln_report_clear(&session->report);
    kiln_close(session->service);
    session->service = NULL;
}

int session_run(const common_args *args, int (*work)(struct session *session, void *data), void *data)
{
    struct session session;
    int status = session_open(&session, args);
    if (!status)
        status = work(&session, data);
    session_close(&session);
    return status;
}

kiln_status session_device(kiln_device **out, kiln_device_info *info, struct session *session, const char *name)
{
    *info = (kiln_device_info)KILN_INIT(kiln_device_info);
    kiln_status status = kiln_device_open(out, session->service, name, &session->report);
    return status ? status : kiln_device_get_info(*out, info);
}

const char *cache_directory(struct session *session)
{
    kiln_cache_info info = KILN_INIT(kiln_cache_info);
    kiln_status status = kiln_cache_get_info(session->service, &info, NULL);
    return status == KILN_OK || status == KILN_EIO ? info.directory : "";
}

int session_status(struct session *session, kiln_status status, const char *culprit)
{
    int result = status ? fail_report(status, &session->report, culprit) : STATUS_DONE;
    if (status)
        kiln_report_clear(&session->report);
    return result;
}
