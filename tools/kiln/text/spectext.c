#include "text/spectext.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The next word from *at on, blanks inside parentheses included; false at the end. */
static bool next_word(const char **word, size_t *length, const char **at)
{
    while (is_space(**at))
        ++*at;
    *word = *at;
    int depth = 0;
    for (; **at && (depth > 0 || !is_space(**at)); ++*at)
        depth += (**at == '(') - (**at == ')' && depth > 0);
    *length = (size_t)(*at - *word);
    return *length > 0;
}

static bool names_field(const char *word, size_t length, const char *field)
{
    size_t name = strlen(field);
    return length > name && word[name] == '=' && strncmp(word, field, name) == 0;
}

bool spectext_field(char **out, const char *text, const char *field)
{
    const char *word = NULL;
    size_t length = 0;
    *out = NULL;
    while (next_word(&word, &length, &text)) {
        if (!names_field(word, length, field))
            continue;
        size_t skip = strlen(field) + 1;
        *out = need_format("%.*s", (int)(length - skip), word + skip);
        return true;
    }
    return false;
}

char *spectext_put(const char *text, const char *field, const char *value)
{
    const char *word = NULL, *at = text;
    size_t length = 0;
    while (next_word(&word, &length, &at))
        if (names_field(word, length, field))
            return need_format("%.*s%s=%s%s", (int)(word - text), text, field, value, word + length);
    return need_format("%s %s=%s", text, field, value);
}

char *spectext_geometry(const char *text)
{
    static const char *const others[] = { "op", "dtype", "target", "template" };
    char *rest = need_alloc(strlen(text) + 1);
    const char *word = NULL;
    size_t length = 0, end = 0;
    while (next_word(&word, &length, &text)) {
        bool other = false;
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
            other = other || names_field(word, length, others[i]);
        if (other)
            continue;
        if (end > 0)
            rest[end++] = ' ';
        memcpy(rest + end, word, length);
        end += length;
    }
    return rest;
}

char *spectext_device(const char *model, const char *device, const char *target)
{
    if (strcmp(device, target) == 0)
        return need_format("%s (%s)", model, device);
    return need_format("%s (%s, %s)", model, device, target);
}
