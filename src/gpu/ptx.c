/* Checks of PTX. Only as much of the language is read as tells text for an entry from damage. */
#include "gpu/cubin.h"

#include "spec/target.h"
#include <stdio.h>
#include <string.h>

enum { NUMBER_MAX = 65536 };

/* The rest of a text that need not be terminated. */
typedef struct cursor {
    const char *at, *end;
} cursor;

static bool skip_text(cursor *c, const char *text)
{
    size_t length = strlen(text);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, text, length) != 0)
        return false;
    c->at += length;
    return true;
}

static void skip_to(cursor *c, const char *text)
{
    size_t length = strlen(text);
    const char *found = memmem(c->at, (size_t)(c->end - c->at), text, length);
    c->at = found != NULL ? found + length : c->end;
}

static void skip_blanks(cursor *c)
{
    const char *before;
    do {
        before = c->at;
        while (c->at < c->end && *c->at != '\0' && strchr(" \t\r\n", *c->at) != NULL)
            c->at++;
        if (skip_text(c, "//"))
            skip_to(c, "\n");
        else if (skip_text(c, "/*"))
            skip_to(c, "*/");
    } while (c->at != before);
}

static bool is_part_of_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '%';
}

/* A whole word and the blanks behind it. */
static bool skip_word(cursor *c, const char *word)
{
    cursor next = *c;
    if (!skip_text(&next, word) || (next.at < next.end && is_part_of_name(*next.at)))
        return false;
    *c = next;
    skip_blanks(c);
    return true;
}

static size_t take_name(cursor *c)
{
    const char *begin = c->at;
    while (c->at < c->end && is_part_of_name(*c->at))
        c->at++;
    return (size_t)(c->at - begin);
}

/* Reads a decimal number; a number above NUMBER_MAX becomes another one above it. False if there is none. */
static bool take_number(cursor *c, size_t *out)
{
    const char *begin = c->at;
    for (*out = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (*out <= NUMBER_MAX)
            *out = 10 * *out + (size_t)(*c->at - '0');
    return c->at > begin;
}

static bool skip_version(cursor *c)
{
    size_t number;
    skip_blanks(c);
    return skip_word(c, ".version") && take_number(c, &number) && skip_text(c, ".") && take_number(c, &number);
}

/* ".target sm_90, debug": one of the names is a GPU's. */
static bool take_target(cursor *c, kiln__target *out)
{
    bool found = false;
    skip_blanks(c);
    if (!skip_word(c, ".target"))
        return false;
    do {
        skip_blanks(c);
        const char *name = c->at;
        size_t length = take_name(c);
        found = found || (kiln__target_parse(name, length, out) && out->backend == KILN__BACKEND_CUDA);
        skip_blanks(c);
    } while (skip_text(c, ","));
    return found;
}

bool kiln__ptx_check(const char *bytes, size_t length, int most, char reason[KILN__CUBIN_REASON_SIZE])
{
    kiln__target target;
    const char *nul = memchr(bytes, '\0', length);
    cursor c = { bytes, nul != NULL ? nul : bytes + length };
    const char *problem = nul != NULL && nul + 1 < bytes + length ? "it has a NUL inside"
                          : !skip_version(&c)                     ? "it has no .version"
                          : !take_target(&c, &target)             ? "it has no .target of a GPU"
                                                                  : NULL;
    if (problem != NULL)
        snprintf(reason, KILN__CUBIN_REASON_SIZE, "%s", problem);
    else if (most > 0 && target.sm > most)
        snprintf(reason, KILN__CUBIN_REASON_SIZE, "it is for %s, above sm_%d", target.name, most);
    else
        return true;
    return false;
}

/* Leaves the cursor behind the name of an entry point. */
static bool find_entry(cursor *c, const char *name)
{
    while (skip_to(c, ".entry"), c->at < c->end) {
        if (is_part_of_name(*c->at))
            continue;
        skip_blanks(c);
        if (skip_word(c, name))
            return true;
    }
    return false;
}

bool kiln__ptx_has_entry(const char *bytes, size_t length, const char *name)
{
    cursor c = { bytes, bytes + length };
    return find_entry(&c, name);
}
