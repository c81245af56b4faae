/* What the files of the command need of tools/kiln/cli/common.h, for fuzz targets: what it would print is checked
 * instead, and memory lasts as long as an input. */
#include "fuzz/command.h"
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

int session_status(struct session *session, kiln_status status, const char *culprit)
{
    (void)culprit;
    if (status == KILN_OK)
        return STATUS_DONE;
    FUZZ_REQUIRE(session->report.status == status && session->report.message[0] != '\0', "a refusal says why");
    FUZZ_REQUIRE(strchr(session->report.message, '\n') == NULL, "a message is one line: %s", session->report.message);
    kiln_report_clear(&session->report);
    return status == KILN_ESPEC || status == KILN_EOP || status == KILN_ETARGET ? STATUS_USAGE : STATUS_FAILED;
}

kiln_status session_device(kiln_device **out, kiln_device_info *info, struct session *session, const char *name)
{
    *info = (kiln_device_info)KILN_INIT(kiln_device_info);
    kiln_status status = kiln_device_open(out, session->service, name, &session->report);
    return status != KILN_OK ? status : kiln_device_get_info(*out, info);
}

void out_of_memory(void)
{
    abort();
}

static void **kept;
static size_t kept_count;

void *need_keep(void *memory)
{
    FUZZ_REQUIRE(memory != NULL, "out of memory");
    kept = reallocarray(kept, kept_count + 1, sizeof(*kept));
    FUZZ_REQUIRE(kept != NULL, "out of memory");
    kept[kept_count++] = memory;
    return memory;
}

void command_end(void)
{
    while (kept_count > 0)
        free(kept[--kept_count]);
    free(kept);
    kept = NULL;
}

void *need_alloc(size_t bytes)
{
    return need_keep(calloc(1, bytes > 0 ? bytes : 1));
}

void *need_array(void *old, size_t count, size_t size)
{
    size_t i = 0;
    while (i < kept_count && kept[i] != old)
        i++;
    void *memory = reallocarray(old, count > 0 ? count : 1, size);
    FUZZ_REQUIRE(memory != NULL, "out of memory for %zu times %zu bytes", count, size);
    if (i == kept_count)
        return need_keep(memory);
    kept[i] = memory;
    return memory;
}

char *need_copy(const char *text)
{
    return need_keep(strdup(text));
}

char *need_format(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    return need_keep(length >= 0 ? text : NULL);
}

void text_append(char **text, const char *between, const char *format, ...)
{
    char *words = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&words, format, args);
    va_end(args);
    need_keep(length >= 0 ? words : NULL);
    *text = need_format("%s%s%s", *text, **text != '\0' && *words != '\0' ? between : "", words);
}

void text_list_add(text_list *list, const char *text)
{
    list->items = need_array(list->items, list->count + 1, sizeof(*list->items));
    list->items[list->count++] = text;
}
