#include "spec/range.h"
#include "base/number.h"
#include <string.h>

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
