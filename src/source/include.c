#include "source/source.h"

#include "base/alloc.h"
#include <ctype.h>
#include <string.h>

#define FAIL(report, ...) kiln__fail((report), KILN_EINVAL, KILN__STAGE_COMPILE, 0, __VA_ARGS__)

/* A copy without line splices, which may stand in the middle of a word. NULL: out of memory. */
static char *unsplice(const char *text)
{
    char *copy = kiln__alloc(strlen(text) + 1), *to = copy;
    for (const char *at = text; copy != NULL && *at != '\0';) {
        size_t blanks = *at == '\\' ? strspn(at + 1, " \t\r") : 0;
        if (*at == '\\' && at[1 + blanks] == '\n')
            at += blanks + 2;
        else
            *to++ = *at++;
    }
    if (copy != NULL)
        *to = '\0';
    return copy;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Whether what stands before `at` on its line, comments possibly, makes it the word of a directive. */
static bool is_directive(const char *text, const char *at)
{
    while (at > text && strchr(" \t\v\f\r", at[-1]) != NULL)
        at--;
    if (at == text)
        return false;
    return at[-1] == '#' || (at[-1] == ':' && at - 1 > text && at[-2] == '%') ||
           (at[-1] == '/' && at - 1 > text && at[-2] == '*');
}

/* Whether a plain, relative header's name follows, behind a '(' where that may be. */
static bool is_plain(const char *at)
{
    at += strspn(at, " \t");
    if (*at == '(')
        at += 1 + strspn(at + 1, " \t");
    return (*at == '"' || *at == '<') && at[1] != '/' && at[1] != '\0';
}

/* The first include that is not plain; NULL if there is none. */
static const char *find_odd(const char *text)
{
    static const char *const words[] = { "include", "include_next", "import", "embed" };
    static const char *const tests[] = { "__has_include", "__has_include_next", "__has_embed" };
    for (const char *at = text; *at != '\0';) {
        size_t length = 0;
        while (is_word(at[length]))
            length++;
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            if (strlen(words[i]) == length && memcmp(at, words[i], length) == 0 && is_directive(text, at) &&
                !is_plain(at + length))
                return at;
        for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
            if (strlen(tests[i]) == length && memcmp(at, tests[i], length) == 0 && !is_plain(at + length))
                return at;
        at += length > 0 ? length : 1;
    }
    return strstr(text, "?\?=") != NULL ? strstr(text, "?\?=") : strstr(text, "?\?/");
}

static kiln_status check(const char *name, const char *text, kiln_report *report)
{
    char *plain = unsplice(text);
    if (plain == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    const char *odd = find_odd(plain);
    kiln_status status =
        odd == NULL
            ? KILN_OK
            : FAIL(report,
                   "%.60s: '%.*s': without a worker (isolate=never) an include names a header in quotes or angle "
                   "brackets and no absolute path: nothing else would keep the text from reading any file",
                   name, (int)(strcspn(odd, "\n") < 60 ? strcspn(odd, "\n") : 60), odd);
    kiln__free(plain);
    return status;
}

kiln_status kiln__source_check_includes(const kiln__unit *unit, kiln_report *report)
{
    const kiln__list *headers = &unit->own->headers;
    kiln_status status = check(unit->own->shown, unit->source, report);
    for (const char *at = kiln__list_next(headers, NULL); at != NULL && status == KILN_OK;) {
        const char *text = kiln__list_next(headers, at);
        status = check(at, text, report);
        at = kiln__list_next(headers, text);
    }
    return status;
}
