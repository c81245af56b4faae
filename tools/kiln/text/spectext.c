/* Reads and changes fields of a spec's text. */
#include "text/spectext.h"

#include <ctype.h>
#include <string.h>

#include "cli/common.h"

static const char *const other_fields[] = { "op", "template", "dtype", "target" };

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

char *spectext_field(const char *text, const char *field)
{
    const char *word = NULL;
    size_t length = 0, skip = strlen(field) + 1;
    while (next_word(&word, &length, &text))
        if (names_field(word, length, field))
            return need_format("%.*s", (int)(length - skip), word + skip);
    return NULL;
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

char *spectext_without(const char *text, const char *field)
{
    char *rest = need_copy("");
    const char *word = NULL;
    size_t length = 0;
    while (next_word(&word, &length, &text))
        if (!names_field(word, length, field))
            text_append(&rest, " ", "%.*s", (int)length, word);
    return rest;
}

/* The length of the name in a word "NAME=VALUE"; 0 for another word, such as "==" in an expression. */
static size_t name_length(const char *word, size_t length)
{
    size_t name = 0;
    while (name < length && (isalnum((unsigned char)word[name]) || word[name] == '_'))
        name++;
    return name < length && word[name] == '=' && (name + 1 == length || word[name + 1] != '=') ? name : 0;
}

bool spectext_names_fields(const char *text, const char *end)
{
    const char *word = NULL;
    size_t length = 0;
    while (text < end && next_word(&word, &length, &text))
        if (name_length(word, length) > 0)
            return true;
    return false;
}

bool spectext_shares_field(const char *text, const char *other)
{
    const char *word = NULL;
    size_t length = 0;
    while (next_word(&word, &length, &other)) {
        size_t name = name_length(word, length);
        if (name > 0 && spectext_field(text, need_format("%.*s", (int)name, word)))
            return true;
    }
    return false;
}

char *spectext_geometry(const char *text)
{
    char *geometry = need_copy("");
    const char *word = NULL;
    size_t length = 0;
    while (next_word(&word, &length, &text)) {
        bool other = false;
        for (size_t i = 0; i < COUNT_OF(other_fields); i++)
            other = other || names_field(word, length, other_fields[i]);
        if (!other)
            text_append(&geometry, " ", "%.*s", (int)length, word);
    }
    return geometry;
}

char *spectext_kind(const char *text)
{
    char *kind = need_copy("");
    for (size_t i = 0; i < COUNT_OF(other_fields); i++) {
        const char *value = spectext_field(text, other_fields[i]);
        if (value)
            text_append(&kind, " ", "%s=%s", other_fields[i], value);
    }
    return kind;
}

char *spectext_op(const char *text)
{
    char *op = spectext_field(text, "op");
    return op ? op : spectext_field(text, "template");
}

bool spectext_has_all(const char *text, const char *other)
{
    const char *word = NULL, *wanted = NULL;
    size_t length = 0, wanted_length = 0;
    while (next_word(&wanted, &wanted_length, &other)) {
        const char *at = text;
        bool found = false;
        while (!found && next_word(&word, &length, &at))
            found = length == wanted_length && memcmp(word, wanted, length) == 0;
        if (!found)
            return false;
    }
    return true;
}

char *spectext_device(const char *model, const char *device, const char *target)
{
    if (strcmp(device, target) == 0)
        return need_format("%s (%s)", model, device);
    return need_format("%s (%s, %s)", model, device, target);
}
