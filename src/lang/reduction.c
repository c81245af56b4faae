/* The table of reductions. */
#include "lang/reduction.h"

#include "base/number.h"

/* The type of a value: that of the elements, also of whole numbers; f32 or i64 of whole numbers; always bool or i64. */
typedef enum result { RESULT_SAME, RESULT_REAL, RESULT_LONG, RESULT_TRUTH, RESULT_INDEX } result;

static const struct {
    const char *name;
    result result;
    bool exact;
    const char *calls[2];
    bool scans;
    kiln__reduction scanned; /* of a scan: the reduction of the elements so far */
} reductions[KILN__REDUCTIONS] = {
    [KILN__REDUCE_SUM] = { "sum", RESULT_LONG, false, { NULL }, false, KILN__REDUCTIONS },
    [KILN__REDUCE_MEAN] = { "mean", RESULT_REAL, false, { NULL }, false, KILN__REDUCTIONS },
    [KILN__REDUCE_PROD] = { "prod", RESULT_LONG, false, { NULL }, false, KILN__REDUCTIONS },
    [KILN__REDUCE_MAX] = { "max", RESULT_SAME, true, { NULL }, false, KILN__REDUCTIONS },
    [KILN__REDUCE_MIN] = { "min", RESULT_SAME, true, { NULL }, false, KILN__REDUCTIONS },
    [KILN__REDUCE_ARGMAX] = { "argmax", RESULT_INDEX, true, { NULL }, false, KILN__REDUCTIONS },
    [KILN__REDUCE_ARGMIN] = { "argmin", RESULT_INDEX, true, { NULL }, false, KILN__REDUCTIONS },
    [KILN__REDUCE_ANY] = { "any", RESULT_TRUTH, true, { NULL }, false, KILN__REDUCTIONS },
    [KILN__REDUCE_ALL] = { "all", RESULT_TRUTH, true, { NULL }, false, KILN__REDUCTIONS },
    [KILN__REDUCE_VAR] = { "var", RESULT_REAL, false, { NULL }, false, KILN__REDUCTIONS },
    [KILN__REDUCE_STD] = { "std", RESULT_REAL, false, { "sqrt" }, false, KILN__REDUCTIONS },
    [KILN__REDUCE_NORM] = { "norm", RESULT_REAL, false, { "sqrt" }, false, KILN__REDUCTIONS },
    [KILN__REDUCE_LOGSUMEXP] = { "logsumexp", RESULT_REAL, false, { "exp", "log" }, false, KILN__REDUCTIONS },
    [KILN__SCAN_SUM] = { "cumsum", RESULT_LONG, false, { NULL }, true, KILN__REDUCE_SUM },
    [KILN__SCAN_PROD] = { "cumprod", RESULT_LONG, false, { NULL }, true, KILN__REDUCE_PROD },
    [KILN__SCAN_MAX] = { "cummax", RESULT_SAME, true, { NULL }, true, KILN__REDUCE_MAX },
    [KILN__SCAN_MIN] = { "cummin", RESULT_SAME, true, { NULL }, true, KILN__REDUCE_MIN },
};

const char *kiln__reduction_name(kiln__reduction reduction)
{
    return reductions[reduction].name;
}

kiln__reduction kiln__reduction_find(kiln__word name)
{
    int i = 0;
    while (i < KILN__REDUCTIONS && !kiln__word_is(name, reductions[i].name))
        i++;
    return (kiln__reduction)i;
}

bool kiln__reduction_scans(kiln__reduction reduction)
{
    return reductions[reduction].scans;
}

kiln__reduction kiln__reduction_of_scan(kiln__reduction scan)
{
    return reductions[scan].scans ? reductions[scan].scanned : scan;
}

bool kiln__reduction_corrects(kiln__reduction reduction)
{
    return reduction == KILN__REDUCE_VAR || reduction == KILN__REDUCE_STD;
}

bool kiln__reduction_is_exact(kiln__reduction reduction)
{
    return reductions[reduction].exact;
}

bool kiln__reduction_picks(kiln__reduction reduction)
{
    return reductions[reduction].exact && reductions[reduction].result != RESULT_TRUTH;
}

bool kiln__reduction_is_whole(kiln__reduction reduction)
{
    return reductions[reduction].result != RESULT_REAL;
}

bool kiln__reduction_is_truth(kiln__reduction reduction)
{
    return reductions[reduction].result == RESULT_TRUTH;
}

kiln__dtype kiln__reduction_type(kiln__reduction reduction, kiln__dtype elements)
{
    bool real = kiln__dtype_is_real(elements);
    switch (reductions[reduction].result) {
    case RESULT_REAL:
        return real ? elements : KILN__DTYPE_F32;
    case RESULT_LONG:
        return real ? elements : KILN__DTYPE_I64;
    case RESULT_TRUTH:
        return KILN__DTYPE_BOOL;
    case RESULT_INDEX:
        return KILN__DTYPE_I64;
    default:
        return elements;
    }
}

const char *kiln__reduction_call(kiln__reduction reduction, uint32_t i)
{
    return i < 2 ? reductions[reduction].calls[i] : NULL;
}

const kiln__axis kiln__axis_last = { false, -1, -1 };

bool kiln__axis_same(const kiln__axis *a, const kiln__axis *b)
{
    return a->all == b->all && a->first == b->first && a->last == b->last;
}

/* A dimension: tensors have fewer than 100. */
static bool parse_dimension(kiln__word text, int *out)
{
    uint64_t number;
    const bool negative = text.length > 1 && text.text[0] == '-';
    if (negative)
        text = (kiln__word){ text.text + 1, text.length - 1 };
    if (!kiln__number_parse_uint(text.text, text.length, &number) || number >= 100 || (negative && number == 0))
        return false;
    *out = negative ? -(int)number : (int)number;
    return true;
}

bool kiln__axis_parse(kiln__axis *out, kiln__word text)
{
    const bool list = text.length > 1 && text.text[0] == '(' && text.text[text.length - 1] == ')';
    kiln__word rest = list ? (kiln__word){ text.text + 1, text.length - 2 } : text;
    *out = (kiln__axis){ .all = kiln__word_is(text, "all") };
    if (out->all)
        return true;
    if (!parse_dimension(list ? kiln__word_cut_item(&rest) : rest, &out->first))
        return false;
    out->last = out->first;
    while (list && rest.text != NULL) { /* each follows the one before it */
        int next;
        if (!parse_dimension(kiln__word_cut_item(&rest), &next) || next != out->last + 1 || next == 0)
            return false;
        out->last = next;
    }
    return true;
}

void kiln__axis_format(const kiln__axis *axis, kiln__text *out)
{
    if (axis->all) {
        kiln__text_append(out, "all");
        return;
    }
    const bool list = axis->first != axis->last;
    for (int d = axis->first; d <= axis->last; d++)
        kiln__text_printf(out, "%s%d", !list ? "" : d == axis->first ? "(" : ",", d);
    kiln__text_append(out, list ? ")" : "");
}
