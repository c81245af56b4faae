/* What the files of the command need of tools/kiln/cli/common.h, for fuzz targets: what it would print is checked
 * instead, and memory lasts as long as an input. */
#include "fuzz/command.h"
#include "cli/common.h"
#include "fuzz/fuzz.h"
#include <stdarg.h>

int fail(int status, const char *format, ...)
{
    char line[8192];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    FUZZ_REQUIRE(length > 0 && strchr(line, '\n') == NULL, "a message is one line: %s", line);
    FUZZ_REQUIRE(status == STATUS_USAGE, "bad input is wrong usage");
    return status;
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
