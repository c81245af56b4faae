#include "tune/ranking.h"

#include "base/alloc.h"
#include "tune/statistics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INTERVAL_FROM = 6, SLOWER_FROM = 8 };
#define TAIL_INTERVAL 0.025 /* on each side: 95% */
#define TAIL_SLOWER   0.001 /* for all comparisons together: the winner of many was lucky, too */

kiln_status kiln__times_init(kiln__times *out, size_t variants, uint32_t rounds, kiln_report *report)
{
    *out = (kiln__times){ .rounds = rounds, .variants = variants, .width = variants + KILN__COPIES };
    out->rows = kiln__calloc((rounds + (size_t)1) * out->width, sizeof(*out->rows));
    out->scratch = kiln__calloc(rounds, sizeof(*out->scratch));
    if (out->rows != NULL && out->scratch != NULL)
        return KILN_OK;
    kiln__times_fini(out);
    return kiln__fail_memory(report, KILN__STAGE_DEVICE);
}

void kiln__times_fini(kiln__times *times)
{
    kiln__free(times->rows);
    kiln__free(times->scratch);
    memset(times, 0, sizeof(*times));
}

void kiln__times_clear(const kiln__times *times)
{
    memset(times->rows, 0, (times->rounds + (size_t)1) * times->width * sizeof(*times->rows));
}

double *kiln__times_row(const kiln__times *times, uint32_t row)
{
    return times->rows + (size_t)row * times->width;
}

static double sample(const kiln__times *times, uint32_t round, size_t column)
{
    return kiln__times_row(times, round + 1)[column];
}

static double median_of(const kiln__times *times, size_t column, uint64_t *out_samples)
{
    size_t count = 0;
    for (uint32_t r = 0; r < times->rounds; r++)
        if (sample(times, r, column) > 0)
            times->scratch[count++] = sample(times, r, column);
    *out_samples = count;
    return kiln__median(times->scratch, count);
}

/* The logarithm of one's time over the other's, of the rounds in which both were timed: what slows all alike is
 * gone. */
static kiln__estimate compare_times(const kiln__times *times, size_t one, size_t other)
{
    size_t count = 0;
    for (uint32_t r = 0; r < times->rounds; r++)
        if (sample(times, r, one) > 0 && sample(times, r, other) > 0)
            times->scratch[count++] = log(sample(times, r, one) / sample(times, r, other));
    return kiln__estimate_of(times->scratch, count);
}

/* The column of the copy that is faster, or that of the default where none was timed. */
static size_t find_ceiling(const kiln__times *times, double *ceiling_ms)
{
    size_t best = 0;
    for (size_t i = times->variants; i < times->width; i++) {
        uint64_t samples;
        double ms = median_of(times, i, &samples);
        if (samples == 0 || (*ceiling_ms > 0 && *ceiling_ms <= ms))
            continue;
        *ceiling_ms = ms;
        best = i;
    }
    return best;
}

/* Few samples say nothing about how far off they are. */
static void put_times(const kiln__times *times, kiln_variant_result *out, size_t column, size_t ceiling)
{
    out->median_ms = median_of(times, column, &out->samples);
    if (out->samples == 0)
        return;
    kiln__estimate to_default = compare_times(times, column, 0), to_ceiling = compare_times(times, column, ceiling);
    double reach = INFINITY;
    if (column == 0)
        reach = 0;
    else if (to_default.count >= INTERVAL_FROM)
        reach = kiln__t_quantile(TAIL_INTERVAL, to_default.freedom) * to_default.error;
    if (to_default.count == 0)
        return;
    out->verdict = KILN_VERDICT_TIED;
    out->ratio = exp(to_default.value);
    out->low = exp(to_default.value - reach);
    out->high = exp(to_default.value + reach);
    out->ceiling_ratio = ceiling > 0 && to_ceiling.count > 0 ? exp(to_ceiling.value) : 0;
}

static bool fill_result(kiln_variant_result *out, const kiln__times *times, const kiln__variant *variant, size_t column,
                        size_t ceiling)
{
    bool rejected = variant->state == KILN__VARIANT_OUT;
    *out = (kiln_variant_result){ .verdict = rejected ? KILN_VERDICT_REJECTED : KILN_VERDICT_UNMEASURED,
                                  .registers = variant->registers,
                                  .local_bytes = variant->local_bytes };
    if (!rejected && times->rows != NULL)
        put_times(times, out, column, ceiling);
    return kiln__tuning_name(out, variant->text, rejected ? variant->problem : "");
}

/* A result and the index of its variant, for sorting. */
typedef struct ranked {
    kiln_variant_result result;
    size_t index;
} ranked;

/* Those that were timed by their ratio, then the others, those that are out last. */
static int compare_ranked(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    int x_class = x->result.verdict == KILN_VERDICT_TIED ? 0 : x->result.verdict == KILN_VERDICT_REJECTED ? 2 : 1;
    int y_class = y->result.verdict == KILN_VERDICT_TIED ? 0 : y->result.verdict == KILN_VERDICT_REJECTED ? 2 : 1;
    if (x_class != y_class)
        return x_class - y_class;
    if (x_class == 0 && x->result.ratio != y->result.ratio)
        return x->result.ratio < y->result.ratio ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* After sorting: the first has won, and some of the others are certainly slower. */
static void give_verdicts(const kiln__times *times, ranked *list, size_t count)
{
    if (list[0].result.verdict != KILN_VERDICT_TIED)
        return;
    list[0].result.verdict = KILN_VERDICT_WINNER;
    for (size_t i = 1; i < count && list[i].result.verdict == KILN_VERDICT_TIED; i++) {
        kiln__estimate behind = compare_times(times, list[i].index, list[0].index);
        if (behind.count >= SLOWER_FROM &&
            behind.value > kiln__t_quantile(TAIL_SLOWER / (double)count, behind.freedom) * behind.error)
            list[i].result.verdict = KILN_VERDICT_SLOWER;
    }
}

static bool rank(kiln_tuning *tuning, const kiln__times *times, const kiln__variant *variants, ranked *list,
                 size_t count)
{
    bool whole = true;
    size_t ceiling = times->rows != NULL ? find_ceiling(times, &tuning->info.ceiling_ms) : 0;
    for (size_t i = 0; i < count; i++) {
        list[i].index = i;
        whole &= fill_result(&list[i].result, times, &variants[i], i, ceiling);
    }
    tuning->info.default_ms = list[0].result.median_ms;
    qsort(list, count, sizeof(*list), compare_ranked);
    give_verdicts(times, list, count);
    return whole;
}

kiln_status kiln__ranking_make(kiln_tuning *tuning, const kiln__times *times, const kiln__variant *variants,
                               size_t count, kiln_report *report)
{
    ranked *list = kiln__calloc(count, sizeof(*list));
    bool whole = list != NULL && kiln__tuning_reserve(tuning, count, NULL) == KILN_OK &&
                 rank(tuning, times, variants, list, count);
    for (size_t i = 0; i < tuning->count; i++)
        tuning->table[i] = list[i].result;
    kiln__tuning_show(tuning);
    kiln__free(list);
    return whole ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_DEVICE);
}
