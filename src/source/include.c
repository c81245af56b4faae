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

static const char *before_blanks(const char *text, const char *at)
{
    while (at > text && strchr(" \t\v\f\r", at[-1]) != NULL)
        at--;
    return at;
}

static bool ends_comment(const char *text, const char *at)
{
    return at - 1 > text && at[-1] == '/' && at[-2] == '*';
}

/* Whether what stands before `at` on its line, comments possibly, makes it the word of a directive. */
static bool is_directive(const char *text, const char *at)
{
    at = before_blanks(text, at);
    if (at == text)
        return false;
    return at[-1] == '#' || (at[-1] == ':' && at - 1 > text && at[-2] == '%') || ends_comment(text, at);
}

/* Whether nothing stands before `at` on its line but comments and "export": the place of "import", which needs no '#'. */
static bool is_first(const char *text, const char *at)
{
    static const char word[] = "export";
    const size_t length = sizeof(word) - 1;
    at = before_blanks(text, at);
    if ((size_t)(at - text) >= length && memcmp(at - length, word, length) == 0)
        at = before_blanks(text, at - length);
    return at == text || at[-1] == '\n' || ends_comment(text, at);
}

/* Whether a plain, relative header's name follows that leads nowhere up, behind a '(' where that may be. */
static bool is_plain(const char *at)
{
    at += strspn(at, " \t");
    if (*at == '(')
        at += 1 + strspn(at + 1, " \t");
    if (*at != '"' && *at != '<')
        return false;
    const char *end = strpbrk(at + 1, *at == '"' ? "\"\n" : ">\n");
    bool plain = end != NULL && *end != '\n' && end > at + 1 && at[1] != '/';
    while (plain && at < end) {
        size_t length = strcspn(++at, "/\">\n");
        plain = length != 2 || memcmp(at, "..", 2) != 0;
        at += length;
    }
    return plain;
}

static bool is_one_of(const char *at, size_t length, const char *const *words)
{
    while (*words != NULL && (strlen(*words) != length || memcmp(at, *words, length) != 0))
        words++;
    return *words != NULL;
}

/* Whether "__has_include" could begin with a word where words are pasted together. */
static bool is_beginning(const char *at, size_t length)
{
    static const char whole[] = "__has_include";
    return length > 0 && length < sizeof(whole) - 1 && memcmp(at, whole, length) == 0;
}

/* The first include that is not plain; NULL if there is none. */
static const char *find_odd(const char *text, bool pasting)
{
    static const char *const words[] = { "include", "include_next", "import", "embed", NULL };
    static const char *const tests[] = { "__has_include", "__has_include_next", "__has_embed", NULL };
    for (const char *at = text; *at != '\0';) {
        size_t length = 0;
        while (is_word(at[length]))
            length++;
        bool asks = is_one_of(at, length, tests) || (is_one_of(at, length, words) && is_directive(text, at));
        bool imports = length == 6 && memcmp(at, "import", length) == 0 && is_first(text, at);
        if ((asks && !is_plain(at + length)) || imports || (pasting && is_beginning(at, length)))
            return at;
        at += length > 0 ? length : 1;
    }
    return strstr(text, "?\?=") != NULL ? strstr(text, "?\?=") : strstr(text, "?\?/");
}

/* Calls fn with each text that the compiler is given, and what messages call it, as long as it returns KILN_OK. */
static kiln_status visit(const kiln__unit *unit, kiln_status (*fn)(void *data, const char *name, const char *text),
                         void *data)
{
    const kiln__list *headers = &unit->own->headers, *options = &unit->own->options;
    kiln_status status = fn(data, unit->own->shown, unit->source);
    const char *header = NULL, *text;
    while (status == KILN_OK && kiln__list_next_pair(headers, &header, &text))
        status = fn(data, header, text);
    for (const char *at = NULL; status == KILN_OK && (at = kiln__list_next(options, at)) != NULL;)
        if (strncmp(at, "-D", 2) == 0)
            status = fn(data, "defines", at + 2);
    return status;
}

typedef struct inspection {
    bool pasting; /* some text may make one word of two */
    kiln_report *report;
} inspection;

/* By an operator of its own, or by one in the macros that NVRTC has built in. */
static bool can_paste(const char *text)
{
    return strstr(text, "##") != NULL || strstr(text, "%:%:") != NULL || strstr(text, "_NV_") != NULL;
}

static kiln_status find_pasting(void *data, const char *name, const char *text)
{
    inspection *found = data;
    char *plain = unsplice(text);
    (void)name;
    if (plain == NULL)
        return kiln__fail_memory(found->report, KILN__STAGE_COMPILE);
    found->pasting = found->pasting || can_paste(plain);
    kiln__free(plain);
    return KILN_OK;
}

static kiln_status check(void *data, const char *name, const char *text)
{
    const inspection *found = data;
    char *plain = unsplice(text);
    if (plain == NULL)
        return kiln__fail_memory(found->report, KILN__STAGE_COMPILE);
    const char *odd = find_odd(plain, found->pasting);
    kiln_status status =
        odd == NULL
            ? KILN_OK
            : FAIL(found->report,
                   "%.60s: '%.*s': without a worker (isolate=never) an include names a header in quotes or angle "
                   "brackets, by no absolute path and without '..': nothing else would keep the text from reading any "
                   "file",
                   name, (int)(strcspn(odd, "\n") < 60 ? strcspn(odd, "\n") : 60), odd);
    kiln__free(plain);
    return status;
}

kiln_status kiln__source_check_includes(const kiln__unit *unit, kiln_report *report)
{
    inspection found = { .report = report };
    kiln_status status = visit(unit, find_pasting, &found);
    return status == KILN_OK ? visit(unit, check, &found) : status;
}
