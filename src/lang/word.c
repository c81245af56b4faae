/* Cutting texts into words, and words in messages. */
#include "lang/word.h"

#include "base/text.h"
#include <stdio.h>

bool kiln__word_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void kiln__word_skip_blanks(const char **at)
{
    while (kiln__word_is_blank(**at))
        ++*at;
}

bool kiln__word_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool kiln__word_is_name_char(char c)
{
    return kiln__word_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

kiln__word kiln__word_take(const char **at)
{
    kiln__word word = { *at, 0 };
    while (kiln__word_is_name_char(**at))
        ++*at;
    word.length = (size_t)(*at - word.text);
    return word;
}

bool kiln__word_is(kiln__word word, const char *string)
{
    if (word.length > 0 && word.text[0] != string[0])
        return false; /* cheap, and tells most words apart */
    return strlen(string) == word.length && (word.length == 0 || memcmp(word.text, string, word.length) == 0);
}

bool kiln__word_same(kiln__word a, kiln__word b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.text, b.text, a.length) == 0);
}

kiln__word kiln__word_trim(kiln__word word)
{
    while (word.length > 0 && kiln__word_is_blank(word.text[0])) {
        word.text++;
        word.length--;
    }
    while (word.length > 0 && kiln__word_is_blank(word.text[word.length - 1]))
        word.length--;
    return word;
}

kiln__word kiln__word_cut(kiln__word *rest, const char *separator)
{
    size_t width = strlen(separator);
    const char *at = rest->length > 0 ? memmem(rest->text, rest->length, separator, width) : NULL;
    kiln__word first = *rest;
    if (at == NULL) {
        *rest = (kiln__word){ NULL, 0 };
        return kiln__word_trim(first);
    }
    first.length = (size_t)(at - first.text);
    *rest = kiln__word_trim((kiln__word){ at + width, rest->length - first.length - width });
    return kiln__word_trim(first);
}

kiln__word kiln__word_cut_item(kiln__word *rest)
{
    size_t length = 0;
    for (int depth = 0; length < rest->length && (depth > 0 || rest->text[length] != ','); length++)
        depth += (rest->text[length] == '(') - (rest->text[length] == ')' && depth > 0);
    kiln__word item = { rest->text, length };
    *rest = length < rest->length ? (kiln__word){ rest->text + length + 1, rest->length - length - 1 }
                                  : (kiln__word){ NULL, 0 };
    return kiln__word_trim(item);
}

kiln__word kiln__word_next(kiln__word *rest)
{
    kiln__word first = { rest->text, 0 };
    if (rest->length == 0)
        return first;
    while (first.length < rest->length && !kiln__word_is_blank(rest->text[first.length]))
        first.length++;
    *rest = kiln__word_trim((kiln__word){ rest->text + first.length, rest->length - first.length });
    return first;
}

kiln__quote kiln__word_quote(kiln__word word)
{
    kiln__quote quote;
    size_t room = sizeof(quote.text) - 1;
    size_t length = word.length > room ? room - 3 : word.length;
    for (size_t i = 0; i < length; i++)
        quote.text[i] = word.text[i] >= ' ' && word.text[i] <= '~' ? word.text[i] : '?';
    quote.text[length] = '\0';
    if (length < word.length)
        strcat(quote.text, "...");
    return quote;
}

kiln__hint kiln__word_choices(const char *(*name)(const void *data, size_t i), const void *data)
{
    enum { MANY = 32, FEW = 8 };
    kiln__hint hint = { "" };
    size_t length = 0, count = 0;
    while (name(data, count) != NULL)
        count++;
    size_t shown = count > MANY ? FEW : count;
    for (size_t i = 0; i < shown && length < sizeof(hint.text); i++) {
        const char *link = i == 0 ? "" : i + 1 < count ? ", " : " or ";
        length += (size_t)snprintf(hint.text + length, sizeof(hint.text) - length, "%s%s", link, name(data, i));
    }
    if (shown < count && length < sizeof(hint.text))
        length +=
            (size_t)snprintf(hint.text + length, sizeof(hint.text) - length, " or one of %zu more", count - shown);
    if (length >= sizeof(hint.text))
        strcpy(hint.text + sizeof(hint.text) - 4, "...");
    return hint;
}

/* Two wrong letters leave nothing of a short word: "foo" is not a slip of "op". */
static bool is_likely(const char *word, const char *candidate)
{
    size_t length = strlen(word);
    return strncmp(word, candidate, length) == 0 || 2 * kiln__text_distance(word, candidate) <= length;
}

/* Whether a word is the other one with a letter twice: "summ". */
static bool repeats_letter(const char *word, const char *other)
{
    size_t same = 0;
    while (word[same] == other[same] && other[same] != '\0')
        same++;
    return same > 0 && word[same] == word[same - 1] && strcmp(word + same + 1, other + same) == 0;
}

/* Names of functions are short and alike, so that an edit of one often gives another: gelu and relu, relu and relu6,
 * rsqrt and sqrt, sinh and sin. */
static bool is_slip(const char *word, const char *candidate)
{
    const size_t length = strlen(word), most = length < 5 ? 0 : length < 8 ? 1 : 2;
    const size_t distance = kiln__text_distance(word, candidate);
    return distance == 0 || repeats_letter(word, candidate) || (word[0] == candidate[0] && distance <= most);
}

static kiln__hint make_hint(kiln__word word, bool (*is_meant)(const char *word, const char *candidate),
                            const char *(*name)(const void *data, size_t i), const void *data)
{
    kiln__quote lower = kiln__word_quote(word);
    for (char *c = lower.text; *c != '\0'; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    const char *closest = kiln__text_closest(lower.text, name, data);
    if (closest == NULL || !is_meant(lower.text, closest))
        return kiln__word_choices(name, data);
    kiln__hint hint;
    snprintf(hint.text, sizeof(hint.text), "did you mean %s?", closest);
    return hint;
}

kiln__hint kiln__word_hint(kiln__word word, const char *(*name)(const void *data, size_t i), const void *data)
{
    return make_hint(word, is_likely, name, data);
}

kiln__hint kiln__word_hint_function(kiln__word word, const char *(*name)(const void *data, size_t i), const void *data)
{
    return make_hint(word, is_slip, name, data);
}

bool kiln__word_is_name(kiln__word word)
{
    if (!kiln__text_is_identifier(word.text, word.length))
        return false;
    for (size_t i = 0; i < word.length; i++)
        if ((word.text[i] >= 'A' && word.text[i] <= 'Z') || word.text[0] == '_')
            return false;
    return true;
}
