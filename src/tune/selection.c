#include "tune/selection.h"

#include "base/alloc.h"
#include "tune/statistics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Samples from which on a variant's own noise is believed; before, it is taken to be that of all. */
#define OWN_NOISE_FROM 8

/* Variance of the middle of four to seven samples over that of the mean of normal ones. It is 1.2 where noise is
 * normal; this leaves room for the tails of real noise. */
#define SMALL 2.0

/* No clock is better than this: a thousandth. */
#define NOISE_MIN 0.001

/* All bounds of one look hold together with 99.9%, so that those of all looks do with 99%. */
#define DOUBT 0.001

kiln_status kiln__selection_init(kiln__selection *out, size_t count, double tolerance, kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    out->variants = kiln__calloc(count, sizeof(*out->variants));
    out->scratch = kiln__calloc(count, sizeof(*out->scratch));
    if (out->variants == NULL || out->scratch == NULL) {
        kiln__selection_fini(out);
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    }
    out->count = out->scratch_size = count;
    out->tolerance = log1p(tolerance);
    kiln__selection_restart(out, 0);
    return KILN_OK;
}

void kiln__selection_fini(kiln__selection *selection)
{
    for (size_t i = 0; i < selection->count; i++)
        kiln__free(selection->variants[i].samples);
    kiln__free(selection->variants);
    kiln__free(selection->scratch);
    memset(selection, 0, sizeof(*selection));
}

void kiln__selection_restart(kiln__selection *selection, size_t incumbent)
{
    selection->incumbent = selection->leader = incumbent;
    selection->noise = INFINITY;
    selection->rivals = 0;
    selection->is_final = false;
    for (size_t i = 0; i < selection->count; i++) {
        kiln__variant_samples *v = &selection->variants[i];
        v->count = v->first = 0;
        v->attempts = 0;
        v->estimate = 0;
        v->judged = false;
        if (v->verdict != KILN__STRUCK_OUT)
            v->verdict = KILN__TIED;
    }
}

void kiln__selection_begin_finals(kiln__selection *selection)
{
    selection->is_final = true;
    for (size_t i = 0; i < selection->count; i++)
        if (selection->variants[i].verdict == KILN__TIED)
            selection->variants[i].first = selection->variants[i].count;
}

void kiln__selection_recall(kiln__selection *selection)
{
    selection->is_final = false;
    for (size_t i = 0; i < selection->count; i++)
        selection->variants[i].first = 0;
}

size_t kiln__selection_samples(const kiln__selection *selection, size_t variant)
{
    return selection->variants[variant].count - selection->variants[variant].first;
}

/* The scratch has room for a number for each variant and each sample, so that nothing that judges can fail. */
static kiln_status grow(kiln__selection *selection, kiln__variant_samples *v)
{
    size_t capacity = v->capacity == 0 ? 16 : 2 * v->capacity;
    size_t scratch_size = selection->scratch_size + capacity - v->capacity;
    kiln__sample *samples = kiln__realloc(v->samples, capacity * sizeof(*samples));
    if (samples == NULL)
        return KILN_ENOMEM;
    v->samples = samples;
    double *scratch = kiln__realloc(selection->scratch, scratch_size * sizeof(*scratch));
    if (scratch == NULL)
        return KILN_ENOMEM;
    selection->scratch = scratch;
    selection->scratch_size = scratch_size;
    v->capacity = capacity;
    return KILN_OK;
}

kiln_status kiln__selection_add(kiln__selection *selection, size_t variant, uint32_t round, double ratio,
                                kiln_report *report)
{
    kiln__variant_samples *v = &selection->variants[variant];
    if (v->count == v->capacity && grow(selection, v) != KILN_OK)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    v->samples[v->count++] = (kiln__sample){ round, ratio };
    return KILN_OK;
}

/* From the differences of neighbouring samples, which know nothing of where a variant lies. Their median is 0.954
 * standard deviations of a sample. */
static double find_noise(kiln__selection *selection)
{
    size_t count = 0;
    for (size_t i = 0; i < selection->count; i++) {
        const kiln__variant_samples *v = &selection->variants[i];
        for (size_t k = 1; k < v->count; k++)
            selection->scratch[count++] = fabs(v->samples[k].ratio - v->samples[k - 1].ratio);
    }
    return count == 0 ? INFINITY : fmax(kiln__median(selection->scratch, count) / 0.954, NOISE_MIN);
}

static kiln__estimate estimate(const kiln__selection *selection, size_t variant)
{
    const kiln__variant_samples *v = &selection->variants[variant];
    size_t count = 0;
    for (size_t k = v->first; k < v->count; k++)
        selection->scratch[count++] = v->samples[k].ratio;
    return kiln__estimate_of(selection->scratch, count);
}

void kiln__selection_update(kiln__selection *selection)
{
    selection->noise = find_noise(selection);
    selection->leader = selection->incumbent;
    selection->running = 0;
    size_t judged = 0;
    for (size_t i = 0; i < selection->count; i++) {
        kiln__variant_samples *v = &selection->variants[i];
        v->judged = i == selection->incumbent || kiln__selection_samples(selection, i) >= KILN__JUDGED_FROM;
        v->estimate = v->judged ? estimate(selection, i).value : 0;
        judged += v->judged;
        if (!v->judged || v->verdict != KILN__TIED)
            continue;
        selection->running++;
        if (v->estimate < selection->variants[selection->leader].estimate ||
            selection->variants[selection->leader].verdict != KILN__TIED)
            selection->leader = i;
    }
    selection->rivals = selection->is_final ? selection->running : judged;
}

/* Differences of the samples of common rounds, into the scratch. The incumbent has a sample, 0, in every round. */
static size_t subtract(const kiln__selection *selection, size_t slower, size_t faster)
{
    const kiln__variant_samples *a = &selection->variants[slower], *b = &selection->variants[faster];
    size_t count = 0, i = a->first, j = b->first;
    for (; faster == selection->incumbent && i < a->count; i++)
        selection->scratch[count++] = a->samples[i].ratio;
    for (; slower == selection->incumbent && j < b->count; j++)
        selection->scratch[count++] = -b->samples[j].ratio;
    while (i < a->count && j < b->count) {
        if (a->samples[i].round == b->samples[j].round)
            selection->scratch[count++] = a->samples[i].ratio - b->samples[j].ratio;
        if (a->samples[i].round <= b->samples[j].round)
            i++;
        else
            j++;
    }
    return count;
}

static double doubt(const kiln__selection *selection)
{
    return DOUBT / (double)(selection->rivals > 2 ? selection->rivals - 1 : 1);
}

/* Variance of a variant's estimate by itself. */
static double own_variance(const kiln__selection *selection, size_t variant)
{
    kiln__estimate own = estimate(selection, variant);
    if (variant == selection->incumbent)
        return 0;
    if (own.count == 0)
        return INFINITY;
    double common = selection->noise * selection->noise / (double)own.count;
    return own.count >= OWN_NOISE_FROM ? fmax(own.error * own.error, common) : SMALL * common;
}

/* How many samples a comparison can have: those of the one that has fewer. */
static size_t fewer_samples(const kiln__selection *selection, size_t a, size_t b)
{
    size_t of_a = a == selection->incumbent ? SIZE_MAX : kiln__selection_samples(selection, a);
    size_t of_b = b == selection->incumbent ? SIZE_MAX : kiln__selection_samples(selection, b);
    return of_a < of_b ? of_a : of_b;
}

kiln__gap kiln__selection_gap(const kiln__selection *selection, size_t slower, size_t faster)
{
    if (slower == faster)
        return (kiln__gap){ 0, 0 };
    size_t common = subtract(selection, slower, faster);
    if (common >= OWN_NOISE_FROM && common >= fewer_samples(selection, slower, faster) / 2) {
        kiln__estimate paired = kiln__estimate_of(selection->scratch, common);
        double error = fmax(paired.error, selection->noise / sqrt((double)common));
        return (kiln__gap){ paired.value, error * kiln__t_quantile(doubt(selection), paired.freedom) };
    }
    double value = selection->variants[slower].estimate - selection->variants[faster].estimate;
    double error = sqrt(own_variance(selection, slower) + own_variance(selection, faster));
    return (kiln__gap){ value, error * kiln__t_quantile(doubt(selection), INFINITY) };
}

static bool is_told_apart(const kiln__selection *selection, size_t variant)
{
    kiln__gap gap = kiln__selection_gap(selection, variant, selection->leader);
    return gap.value > selection->tolerance / 2 && gap.value - gap.margin > 0;
}

void kiln__selection_drop_if_slower(kiln__selection *selection, size_t variant)
{
    kiln__variant_samples *v = &selection->variants[variant];
    if (v->judged && v->verdict == KILN__TIED && is_told_apart(selection, variant)) {
        v->verdict = KILN__SLOWER;
        selection->running--;
    }
}

static bool is_running(const kiln__selection *selection, size_t variant)
{
    return selection->variants[variant].judged && selection->variants[variant].verdict == KILN__TIED;
}

/* How many in the running are faster, of equals those that come earlier. */
static size_t rank(const kiln__selection *selection, size_t variant)
{
    double own = selection->variants[variant].estimate;
    size_t rank = 0;
    for (size_t i = 0; i < selection->count; i++) {
        double other = selection->variants[i].estimate;
        rank += is_running(selection, i) && (other < own || (other == own && i < variant));
    }
    return rank;
}

void kiln__selection_cut(kiln__selection *selection, size_t kept)
{
    size_t fast = (kept + 1) / 2, early = kept - fast;
    if (selection->running <= kept)
        return;
    for (size_t i = 0; i < selection->count; i++)
        selection->scratch[i] = is_running(selection, i) ? (double)rank(selection, i) : -1;
    for (size_t i = 0; i < selection->count; i++) {
        if (selection->scratch[i] < (double)fast)
            continue;
        if (early > 0) {
            early--;
        } else {
            selection->variants[i].verdict = KILN__GIVEN_UP;
            selection->running--;
        }
    }
}

/* The earliest that is not told apart from the leader. `within` bounds how much slower than the leader it may seem; the
 * incumbent is bound by nothing. */
static size_t find_earliest(const kiln__selection *selection, double within)
{
    for (size_t i = 0; i < selection->leader; i++) {
        if (!is_running(selection, i) || is_told_apart(selection, i))
            continue;
        if (i == selection->incumbent || kiln__selection_gap(selection, i, selection->leader).value <= within)
            return i;
    }
    return selection->leader;
}

static double find_regret(const kiln__selection *selection, size_t variant)
{
    double regret = 0;
    for (size_t i = 0; i < selection->count; i++) {
        if (!is_running(selection, i) || i == variant)
            continue;
        kiln__gap gap = kiln__selection_gap(selection, variant, i);
        regret = fmax(regret, gap.value + gap.margin);
    }
    return regret;
}

/* While little is known no variant shall win for being uncertain, except the incumbent. */
bool kiln__selection_pick(const kiln__selection *selection, size_t *pick, double *regret)
{
    *pick = find_earliest(selection, INFINITY);
    *regret = find_regret(selection, *pick);
    if (*regret <= selection->tolerance)
        return true;
    *pick = find_earliest(selection, selection->tolerance);
    *regret = find_regret(selection, *pick);
    return false;
}

void kiln__selection_ratio(const kiln__selection *selection, size_t variant, double *ratio, double *low, double *high)
{
    kiln__estimate own = estimate(selection, variant);
    double margin = 0;
    if (variant != selection->incumbent)
        margin = sqrt(own_variance(selection, variant)) *
                 kiln__t_quantile(0.025, own.count >= OWN_NOISE_FROM ? own.freedom : INFINITY);
    *ratio = exp(own.value);
    *low = exp(own.value - margin);
    *high = exp(own.value + margin);
}
