#include "spec/param.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
    while (i < word.length && word.text[i] >= '0' && word.text[i] <= '9')
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
    kiln__quote given = kiln__word_quote(text);
    if (value > param->high) {
        snprintf(problem, size, "%s=%s is above %lld", param->name, given.text, (long long)param->high);
        return;
    }
    if (value < param->low) {
        snprintf(problem, size, "%s=%s is below %lld", param->name, given.text, (long long)param->low);
        return;
    }
    int64_t below, above;
    nearest(param, value, &below, &above);
    char rule[100];
    if (param->is_list)
        snprintf(rule, sizeof(rule), "one of %s",
                 kiln__word_quote((kiln__word){ param->values, strlen(param->values) }).text);
    else if (param->low % param->step == 0)
        snprintf(rule, sizeof(rule), "a multiple of %lld", (long long)param->step);
    else
        snprintf(rule, sizeof(rule), "in %s",
                 kiln__word_quote((kiln__word){ param->values, strlen(param->values) }).text);
    if (above < 0)
        snprintf(problem, size, "%s=%s is not %s: the nearest is %lld", param->name, given.text, rule,
                 (long long)below);
    else
        snprintf(problem, size, "%s=%s is not %s: the nearest are %lld and %lld", param->name, given.text, rule,
                 (long long)below, (long long)above);
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
        return (kiln__word){ param->words[value], strlen(param->words[value]) };
    int length = snprintf(buffer, KILN__NUMBER_SIZE, "%" PRId64, value);
    return (kiln__word){ buffer, (size_t)length };
}
