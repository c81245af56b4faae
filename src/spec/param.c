/* Values of parameters, and why others are refused. */
#include "spec/param.h"

#include <inttypes.h>
#include <stdio.h>

bool kiln__param_number(kiln__word text, int64_t *out)
{
    uint64_t value;
    if (!kiln__number_parse_uint(text.text, text.length, &value) || value > INT32_MAX)
        return false;
    *out = (int64_t)value;
    return true;
}

int kiln__param_word(const kiln__declared_param *param, kiln__word word)
{
    for (uint32_t i = 0; i < param->count; i++)
        if (param->words[i] != NULL && kiln__word_is(word, param->words[i]))
            return (int)i;
    return -1;
}

static const char *word_at(const void *data, size_t i)
{
    const kiln__declared_param *param = data;
    return i < param->count ? param->words[i] : NULL;
}

static bool is_all_digits(kiln__word word)
{
    size_t i = 0;
    while (i < word.length && kiln__word_is_digit(word.text[i]))
        i++;
    return i == word.length && i > 0;
}

/* The nearest allowed values below and above a value within the range; -1 if there is none on that side. */
static void nearest(const kiln__declared_param *param, int64_t value, int64_t *below, int64_t *above)
{
    *below = value - (value - param->low) % param->step;
    *above = *below + param->step <= param->high ? *below + param->step : -1;
    for (uint32_t i = 0; i < param->count && param->is_list; i++) {
        if (param->list[i] > value) {
            *above = param->list[i];
            break;
        }
        *below = param->list[i];
    }
}

static void explain(const kiln__declared_param *param, kiln__word text, int64_t value, char *problem, size_t size)
{
    kiln__quote given = kiln__word_quote(text), values = kiln__word_quote(kiln__word_of(param->values));
    int64_t below, above;
    char rule[100];
    if (value > param->high || value < param->low) {
        bool high = value > param->high;
        snprintf(problem, size, "%s=%s is %s %" PRId64, param->name, given.text, high ? "above" : "below",
                 high ? param->high : param->low);
        return;
    }
    nearest(param, value, &below, &above);
    if (!param->is_list && param->low % param->step == 0)
        snprintf(rule, sizeof(rule), "a multiple of %" PRId64, param->step);
    else
        snprintf(rule, sizeof(rule), "%s %s", param->is_list ? "one of" : "in", values.text);
    int length = snprintf(problem, size, "%s=%s is not %s: the nearest %s %" PRId64, param->name, given.text, rule,
                          above < 0 ? "is" : "are", below);
    if (above >= 0 && (size_t)length < size)
        snprintf(problem + length, size - (size_t)length, " and %" PRId64, above);
}

static bool parse_word(const kiln__declared_param *param, kiln__word text, int64_t *out, char *problem, size_t size)
{
    int index = kiln__param_word(param, text);
    if (index < 0)
        snprintf(problem, size, "unknown %s '%s': %s", param->name, kiln__word_quote(text).text,
                 kiln__word_hint(text, word_at, param).text);
    else
        *out = index;
    return index >= 0;
}

bool kiln__param_parse(const kiln__declared_param *param, const char *text, size_t length, int64_t *out, char *problem,
                       size_t size)
{
    kiln__word word = { text, length };
    if (param->is_enum)
        return parse_word(param, word, out, problem, size);
    int64_t value = INT64_MAX;
    if (!kiln__param_number(word, &value) && !is_all_digits(word)) {
        snprintf(problem, size, "%s=%s is not a whole number: %s allows %s", param->name, kiln__word_quote(word).text,
                 param->name, param->values);
        return false;
    }
    if (!kiln__param_allows(param, value)) {
        explain(param, word, value, problem, size);
        return false;
    }
    *out = value;
    return true;
}

bool kiln__param_allows(const kiln__declared_param *param, int64_t value)
{
    if (param->is_enum)
        return value >= 0 && value < param->count;
    if (value < param->low || value > param->high)
        return false;
    for (uint32_t i = 0; i < param->count && param->is_list; i++)
        if (param->list[i] == value)
            return true;
    return !param->is_list && (value - param->low) % param->step == 0;
}

kiln__word kiln__param_text(const kiln__declared_param *param, int64_t value, char buffer[KILN__NUMBER_SIZE])
{
    if (param->is_enum)
        return kiln__word_of(param->words[value]);
    int length = snprintf(buffer, KILN__NUMBER_SIZE, "%" PRId64, value);
    return (kiln__word){ buffer, (size_t)length };
}

/* ---- Ranges */

static bool parse_uint(kiln__word word, uint64_t *out)
{
    return word.text != NULL && kiln__number_parse_uint(word.text, word.length, out);
}

bool kiln__range_is(kiln__word text)
{
    return text.length > 0 && memmem(text.text, text.length, "..", 2) != NULL;
}

const char *kiln__range_parse(kiln__range *out, kiln__word text)
{
    kiln__word by = text;
    kiln__word low = kiln__word_cut(&by, "..");
    kiln__word after = by;
    out->multiplies = after.text != NULL && memchr(after.text, '*', after.length) != NULL;
    kiln__word high = kiln__word_cut(&after, out->multiplies ? "*" : "+");
    out->step = 1;
    if (!parse_uint(low, &out->value) || !parse_uint(high, &out->last) ||
        (after.text != NULL && !parse_uint(after, &out->step)))
        return "is not a range: write A..B, A..B+STEP or A..B*FACTOR";
    if (out->value > out->last)
        return "is empty: the first number is above the last";
    if (out->multiplies && (out->step <= 1 || out->value == 0))
        return "never ends: begin above 0 and multiply by 2 or more";
    return out->step == 0 ? "never ends: step by 1 or more" : NULL;
}

bool kiln__range_next(kiln__range *range)
{
    uint64_t next;
    bool overflows = range->multiplies ? __builtin_mul_overflow(range->value, range->step, &next)
                                       : __builtin_add_overflow(range->value, range->step, &next);
    if (overflows || next > range->last)
        return false;
    range->value = next;
    return true;
}
