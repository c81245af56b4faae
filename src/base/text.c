/* Growable text, and likely slips of a word. */
#include "base/text.h"

#include "base/alloc.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { WORD_MAX = 64, DIGITS_MAX = 24 };

void kiln__text_fini(kiln__text *text)
{
    kiln__free(text->data);
    *text = (kiln__text){ 0 };
}

/* Makes room for `more` bytes and a NUL. */
static bool reserve_bytes(kiln__text *text, size_t more)
{
    size_t needed = text->length + more + 1, capacity = text->capacity ? text->capacity * 2 : 64;
    bool possible = !text->failed && more < SIZE_MAX / 4 - text->length;
    if (possible && needed <= text->capacity)
        return true;
    capacity = capacity > needed ? capacity : needed;
    char *data = possible ? kiln__realloc(text->data, capacity) : NULL;
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void kiln__text_append(kiln__text *text, const char *string)
{
    kiln__text_append_bytes(text, string, strlen(string));
}

void kiln__text_append_bytes(kiln__text *text, const void *bytes, size_t length)
{
    if (length == 0 || !reserve_bytes(text, length))
        return;
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void kiln__text_append_uint(kiln__text *text, uint64_t value, unsigned width)
{
    char digits[DIGITS_MAX];
    char *end = digits + sizeof(digits), *at = end;
    while (value > 0 || at == end || (at > digits && end - at < (ptrdiff_t)width)) {
        *--at = (char)('0' + value % 10);
        value /= 10;
    }
    kiln__text_append_bytes(text, at, (size_t)(end - at));
}

/* Most texts are short and fit into the present room: they are formatted once. */
void kiln__text_printf(kiln__text *text, const char *format, ...)
{
    va_list arguments;
    size_t room = text->capacity - text->length;
    if (text->failed)
        return;
    va_start(arguments, format);
    int length = vsnprintf(room > 0 ? text->data + text->length : NULL, room, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < room) {
        text->length += (size_t)length;
        return;
    }
    if (room > 0)
        text->data[text->length] = '\0'; /* a text that did not fit was cut */
    if (length < 0)
        text->failed = true;
    if (length <= 0 || !reserve_bytes(text, (size_t)length))
        return;
    va_start(arguments, format);
    vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}

char *kiln__text_take(kiln__text *text)
{
    char *data = NULL;
    if (!text->failed)
        data = text->data ? text->data : kiln__strdup("");
    if (data != text->data)
        kiln__free(text->data);
    *text = (kiln__text){ 0 };
    return data;
}

void kiln__text_quote(kiln__text *text, const char *word)
{
    kiln__text_append(text, "'");
    for (const char *c = word; *c != '\0'; c++)
        kiln__text_printf(text, *c == '\'' ? "'\\%c'" : "%c", *c);
    kiln__text_append(text, "'");
}

const char *kiln__text_string(const kiln__text *text)
{
    return text->data ? text->data : "";
}

size_t kiln__text_copy(char *buffer, size_t size, const char *string)
{
    size_t length = strlen(string);
    if (size > 0) {
        size_t kept = length < size ? length : size - 1;
        memcpy(buffer, string, kept);
        buffer[kept] = '\0';
    }
    return length;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Lowrance and Wagner's algorithm: `row_of` remembers where each letter was last seen in a, so that letters between
 * two swapped neighbours may be edited too. Row and column 0 of `cost` are a border of so high a cost that no path goes
 * through it. */
size_t kiln__text_distance(const char *a, const char *b)
{
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > WORD_MAX || b_length > WORD_MAX)
        return strcmp(a, b) ? (a_length > b_length ? a_length : b_length) : 0;

    unsigned char cost[WORD_MAX + 2][WORD_MAX + 2];
    unsigned char row_of[256] = { 0 };
    size_t border = a_length + b_length;
    for (size_t i = 0; i <= a_length; i++) {
        cost[i + 1][0] = (unsigned char)border;
        cost[i + 1][1] = (unsigned char)i;
    }
    for (size_t j = 0; j <= b_length; j++) {
        cost[0][j + 1] = (unsigned char)border;
        cost[1][j + 1] = (unsigned char)j;
    }
    cost[0][0] = (unsigned char)border;
    for (size_t i = 1; i <= a_length; i++) {
        size_t column = 0;
        for (size_t j = 1; j <= b_length; j++) {
            size_t row = row_of[(unsigned char)b[j - 1]];
            bool same = a[i - 1] == b[j - 1];
            size_t swapped = cost[row][column] + (i - row - 1) + 1 + (j - column - 1);
            size_t edited = min_size(cost[i][j] + (same ? 0u : 1u), min_size(cost[i + 1][j], cost[i][j + 1]) + 1u);
            cost[i + 1][j + 1] = (unsigned char)min_size(swapped, edited);
            if (same)
                column = j;
        }
        row_of[(unsigned char)a[i - 1]] = (unsigned char)i;
    }
    return cost[a_length + 1][b_length + 1];
}

static void copy_lower(char out[WORD_MAX + 1], const char *word)
{
    size_t i = 0;
    for (; word[i] && i < WORD_MAX; i++)
        out[i] = (char)(word[i] >= 'A' && word[i] <= 'Z' ? word[i] - 'A' + 'a' : word[i]);
    out[i] = '\0';
}

/* The distance of a candidate from a typed word; smaller is closer, SIZE_MAX is too far. Candidates that begin with the
 * word rank just before others of equal distance, and at worst as the least likely slip. */
static size_t rank_candidate(const char *word, const char *candidate)
{
    size_t length = strlen(word), other = strlen(candidate);
    if (other > WORD_MAX)
        return SIZE_MAX;
    char a[WORD_MAX + 1], b[WORD_MAX + 1];
    copy_lower(a, word);
    copy_lower(b, candidate);
    size_t distance = kiln__text_distance(a, b);
    size_t limit = length < 6 ? 2 : length / 3;
    if (!strncmp(a, b, length))
        return 256 * (2 * min_size(distance, limit)) + other;
    if (distance > limit || distance >= (length > other ? length : other))
        return SIZE_MAX;
    return 256 * (2 * distance + 1) + other;
}

const char *kiln__text_closest(const char *word, const char *(*name)(const void *data, size_t i), const void *data)
{
    const char *closest = NULL, *candidate;
    size_t best = SIZE_MAX;
    if (!*word || strlen(word) > WORD_MAX)
        return NULL;
    for (size_t i = 0; (candidate = name(data, i)) != NULL; i++) {
        size_t candidate_rank = rank_candidate(word, candidate);
        if (candidate_rank < best) {
            best = candidate_rank;
            closest = candidate;
        }
    }
    return closest;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool kiln__text_is_identifier(const char *text, size_t length)
{
    if (length == 0 || !is_letter(text[0]))
        return false;
    for (size_t i = 1; i < length; i++)
        if (!is_letter(text[i]) && !(text[i] >= '0' && text[i] <= '9'))
            return false;
    return true;
}

const char *kiln__text_skip_mark(const char *text)
{
    static const char mark[] = KILN__TEXT_BYTE_ORDER_MARK;
    return strncmp(text, mark, sizeof(mark) - 1) == 0 ? text + sizeof(mark) - 1 : text;
}

const char *kiln__text_next_include(const char *at)
{
    static const char word[] = "include", blanks[] = " \t";
    while (at != NULL && (at = strchr(at, '#')) != NULL) {
        at += 1 + strspn(at + 1, blanks);
        if (strncmp(at, word, sizeof(word) - 1) == 0)
            return at + sizeof(word) - 1 + strspn(at + sizeof(word) - 1, blanks);
    }
    return NULL;
}
