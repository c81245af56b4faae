/* What the files of the command need of tools/kiln/cli/common.h, for fuzz targets: what it would print is checked
 * instead, and memory taken as the command takes it. */
#include "cli/common.h"
#include "fuzz/fuzz.h"
#include <kiln/kiln.h>
#include <stdarg.h>

static void require_line(const char *format, va_list args)
{
    char line[8192];
    int length = vsnprintf(line, sizeof(line), format, args);
    FUZZ_REQUIRE(length > 0 && strchr(line, '\n') == NULL, "a message is one line: %s", line);
}

int fail(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    require_line(format, args);
    va_end(args);
    FUZZ_REQUIRE(status == STATUS_USAGE, "bad input is wrong usage");
    return status;
}

void note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    require_line(format, args);
    va_end(args);
}

int session_fail(struct session *session, kiln_status status, const char *culprit)
{
    (void)culprit;
    FUZZ_REQUIRE(session->report.status == status && session->report.message[0] != '\0', "a refusal says why");
    FUZZ_REQUIRE(strchr(session->report.message, '\n') == NULL, "a message is one line: %s", session->report.message);
    kiln_report_clear(&session->report);
    return status == KILN_ESPEC || status == KILN_EOP || status == KILN_ETARGET ? STATUS_USAGE : STATUS_FAILED;
}

void out_of_memory(void)
{
    abort();
}

void *need_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    FUZZ_REQUIRE(memory != NULL, "out of memory for %zu bytes", bytes);
    return memory;
}

void *need_array(void *old, size_t count, size_t size)
{
    void *memory = reallocarray(old, count > 0 ? count : 1, size);
    FUZZ_REQUIRE(memory != NULL, "out of memory for %zu times %zu bytes", count, size);
    return memory;
}

char *need_copy(const char *text)
{
    char *copy = strdup(text);
    FUZZ_REQUIRE(copy != NULL, "out of memory");
    return copy;
}

char *need_format(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    FUZZ_REQUIRE(length >= 0, "out of memory");
    return text;
}
