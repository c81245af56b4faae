#include "source/source.h"

#include "base/alloc.h"
#include "source/paste.h"
#include <ctype.h>
#include <string.h>

#define FAIL(report, ...) kiln__fail((report), KILN_EINVAL, KILN__STAGE_COMPILE, 0, __VA_ARGS__)

/* A copy without line splices, which may stand in the middle of a word. Compilers differ in whether blanks may follow the backslash.
 * NULL: out of memory. */
static char *unsplice(const char *text, bool blanks_too)
{
    char *copy = kiln__alloc(strlen(text) + 1), *to = copy;
    for (const char *at = text; copy != NULL && *at != '\0';) {
        size_t blanks = *at == '\\' ? strspn(at + 1, blanks_too ? " \t\r" : "\r") : 0;
        if (*at == '\\' && at[1 + blanks] == '\n')
            at += blanks + 2;
        else
            *to++ = *at++;
    }
    if (copy != NULL)
        *to = '\0';
    return copy;
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
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

static bool is_one_of(const char *at, size_t length, const char *const *words)
{
    while (*words != NULL && (strlen(*words) != length || memcmp(at, *words, length) != 0))
        words++;
    return *words != NULL;
}

/* The end of a header's name in quotes or angle brackets, if that is relative, begins with no blank, leads nowhere up and
 * has nothing in it that could begin a comment or a string; else NULL. */
static const char *plain_end(const char *at)
{
    if (*at != '"' && *at != '<')
        return NULL;
    const char *end = strpbrk(at + 1, *at == '"' ? "\"\n" : ">\n");
    if (end == NULL || *end == '\n' || end == at + 1 || strchr("/ \t", at[1]) != NULL)
        return NULL;
    for (at++; at < end;) {
        size_t length = strcspn(at, "/\\'\">\n");
        if ((length == 2 && memcmp(at, "..", 2) == 0) || (at + length < end && at[length] != '/') ||
            (at[length] == '/' && (at[length + 1] == '/' || at[length + 1] == '*')))
            return NULL;
        at += length + 1;
    }
    return end;
}

/* Past what may stand in a condition and is no macro, nor may be made one; NULL at anything else. */
static const char *skip_harmless(const char *at)
{
    static const char *const words[] = { "__has_include", NULL };
    size_t length = kiln__asking_word(at);
    if (length == 0)
        return *at != '\0' && strchr(" \t!&|()<>=", *at) != NULL ? at + 1 : NULL;
    if (!is_one_of(at, length, words))
        return isdigit((unsigned char)*at) ? at + length : NULL;
    at = skip_blanks(at + length);
    at = *at == '(' ? plain_end(skip_blanks(at + 1)) : NULL;
    return at != NULL ? at + 1 : NULL;
}

/* Past "defined" and the '(' that may follow it; `at` if it is another word. */
static const char *skip_defined(const char *at)
{
    static const char *const words[] = { "defined", NULL };
    size_t length = kiln__asking_word(at);
    if (!is_one_of(at, length, words))
        return at;
    at = skip_blanks(at + length);
    return *at == '(' ? skip_blanks(at + 1) : at;
}

/* Where a word stands: in the condition of an #if before which no macro stands, for a macro's arguments are read in other ways; or as
 * that which such a condition, or an #ifdef, asks to be defined. */
typedef enum place { ELSEWHERE, CONDITION, DEFINED } place;

static place place_in_condition(const char *at, const char *word)
{
    while (at != NULL && at < word) {
        const char *operand = skip_defined(at);
        if (operand == word)
            return DEFINED;
        at = operand != at ? operand + kiln__asking_word(operand) : skip_harmless(at);
    }
    return at == word ? CONDITION : ELSEWHERE;
}

static place place_of(const char *text, const char *word)
{
    enum { FAR = 4096 };
    static const char *const conditions[] = { "if", "elif", NULL }, *const tests[] = { "ifdef", "ifndef", NULL };
    const char *line = word;
    while (line > text && line[-1] != '\n' && word - line < FAR)
        line--;
    const char *at = skip_blanks(line);
    if ((line > text && line[-1] != '\n') || *at != '#')
        return ELSEWHERE;
    at = skip_blanks(at + 1);
    size_t length = kiln__asking_word(at);
    if (is_one_of(at, length, tests))
        return skip_blanks(at + length) == word ? DEFINED : ELSEWHERE;
    return is_one_of(at, length, conditions) ? place_in_condition(at + length, word) : ELSEWHERE;
}

/* Whether a word that asks for a file asks for none, or for a plain name. In a macro angle brackets hold no name but words, which may
 * be macros themselves. */
static bool asks_plainly(const char *text, const char *at, size_t length)
{
    const place where = place_of(text, at);
    const char *name = skip_blanks(at + length);
    name = *name == '(' ? skip_blanks(name + 1) : "";
    const char *end = plain_end(name);
    bool plain = end != NULL && *skip_blanks(end + 1) == ')' && (*name == '"' || where == CONDITION);
    return plain || where == DEFINED;
}

/* What could read a file; `at` NULL: nothing. */
typedef struct odd {
    const char *at;
    bool asks; /* it does not read but ask */
} odd;

static odd find_odd(const char *text)
{
    static const char *const words[] = { "include", "include_next", "import", "embed", NULL };
    for (const char *at = text; *at != '\0';) {
        size_t length = kiln__asking_word(at);
        bool asks = kiln__asking_is(at, length);
        bool reads = is_one_of(at, length, words) && is_directive(text, at);
        bool imports = length == 6 && memcmp(at, "import", length) == 0 && is_first(text, at);
        if ((asks && !asks_plainly(text, at, length)) || (reads && plain_end(skip_blanks(at + length)) == NULL) ||
            imports)
            return (odd){ at, asks };
        at += length > 0 ? length : 1;
    }
    const char *trigraph = strstr(text, "?\?=");
    return (odd){ trigraph != NULL ? trigraph : strstr(text, "?\?/"), false };
}

/* Calls fn with each text that the compiler is given, and what messages call it, as long as it returns KILN_OK: without line
 * splices, once as each kind of compiler sees them. */
typedef kiln_status visitor(void *data, const char *name, const char *text);

static kiln_status visit_one(visitor *fn, void *data, const char *name, const char *text)
{
    kiln_status status = KILN_OK;
    for (int blanks_too = 0; blanks_too < 2 && status == KILN_OK; blanks_too++) {
        char *plain = unsplice(text, blanks_too != 0);
        status = plain != NULL ? fn(data, name, plain) : KILN_ENOMEM;
        kiln__free(plain);
    }
    return status;
}

static kiln_status visit(const kiln__unit *unit, visitor *fn, void *data)
{
    const kiln__list *headers = &unit->own->headers, *options = &unit->own->options, *functions = &unit->own->functions;
    kiln_status status = visit_one(fn, data, unit->own->shown, unit->source);
    const char *header = NULL, *text;
    while (status == KILN_OK && kiln__list_next_pair(headers, &header, &text))
        status = visit_one(fn, data, header, text);
    for (const char *at = NULL; status == KILN_OK && (at = kiln__list_next(functions, at)) != NULL;)
        status = visit_one(fn, data, "functions", at);
    for (const char *at = NULL; status == KILN_OK && (at = kiln__list_next(options, at)) != NULL;)
        if (strncmp(at, "-D", 2) == 0)
            status = visit_one(fn, data, "defines", at + 2);
    return status;
}

static kiln_status check(void *data, const char *name, const char *text)
{
    kiln_report *report = data;
    const odd found = find_odd(text);
    if (found.at == NULL)
        return KILN_OK;
    int length = (int)(strcspn(found.at, "\n") < 60 ? strcspn(found.at, "\n") : 60);
    if (found.asks)
        return FAIL(
            report,
            "%.60s: '%.*s': without a worker (isolate=never) a header is asked for in quotes, or in angle brackets "
            "in an #if before any macro, by no absolute path and without '..': nothing else would keep the text "
            "from looking for any file",
            name, length, found.at);
    return FAIL(report,
                "%.60s: '%.*s': without a worker (isolate=never) an include names a header in quotes or angle "
                "brackets, by no absolute path and without '..': nothing else would keep the text from reading any "
                "file",
                name, length, found.at);
}

static kiln_status collect(void *data, const char *name, const char *text)
{
    (void)name;
    kiln__pieces_add(data, text);
    return KILN_OK;
}

static kiln_status check_pasting(const kiln__unit *unit, kiln_report *report)
{
    kiln__pieces pieces = { 0 };
    kiln__text parts = { 0 };
    kiln_status status = visit(unit, collect, &pieces);
    const char *word = status == KILN_OK ? kiln__pieces_find(&pieces, &parts) : NULL;
    if (word != NULL)
        status =
            FAIL(report,
                 "%.60s: without a worker (isolate=never) nothing would keep the text from looking for any file with "
                 "%s, which '##' could make of %s: rename these words, or let a worker compile",
                 unit->own->shown, word, kiln__text_string(&parts));
    kiln__text_fini(&parts);
    return status;
}

kiln_status kiln__source_check_includes(const kiln__unit *unit, kiln_report *report)
{
    kiln_status status = visit(unit, check, report);
    if (status == KILN_OK)
        status = check_pasting(unit, report);
    return status == KILN_ENOMEM ? kiln__fail_memory(report, KILN__STAGE_COMPILE) : status;
}
