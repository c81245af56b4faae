#include "tune/judge.h"

#include "base/alloc.h"
#include "tune/statistics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Samples from which on a contender's own noise is believed; before, it is taken to be that of all. */
#define OWN_NOISE_FROM 8

/* Variance of the middle of four to seven samples over that of the mean of normal ones. It is 1.2 where noise is normal;
 * this leaves room for the tails of real noise. */
#define SMALL 2.0

/* No clock is better than this: a thousandth. */
#define NOISE_MIN 0.001

/* All bounds of one look hold together with 99.9%, so that those of all looks do with 99%. */
#define DOUBT 0.001

kiln_status kiln__field_init(kiln__field *out, size_t count, double tolerance, kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    out->contenders = kiln__calloc(count, sizeof(*out->contenders));
    out->scratch = kiln__calloc(count, sizeof(*out->scratch));
    if (out->contenders == NULL || out->scratch == NULL) {
        kiln__field_fini(out);
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    }
    out->count = out->scratch_size = count;
    out->tolerance = log1p(tolerance);
    kiln__field_restart(out, 0);
    return KILN_OK;
}

void kiln__field_fini(kiln__field *field)
{
    for (size_t i = 0; i < field->count; i++)
        kiln__free(field->contenders[i].samples);
    kiln__free(field->contenders);
    kiln__free(field->scratch);
    memset(field, 0, sizeof(*field));
}

void kiln__field_restart(kiln__field *field, size_t incumbent)
{
    field->incumbent = field->leader = incumbent;
    field->noise = INFINITY;
    field->rivals = 0;
    field->is_final = false;
    for (size_t i = 0; i < field->count; i++) {
        kiln__competitor *c = &field->contenders[i];
        c->count = c->first = 0;
        c->attempts = 0;
        c->estimate = 0;
        c->judged = false;
        if (c->verdict != KILN__STRUCK_OUT)
            c->verdict = KILN__TIED;
    }
}

void kiln__field_begin_finals(kiln__field *field)
{
    field->is_final = true;
    for (size_t i = 0; i < field->count; i++)
        if (field->contenders[i].verdict == KILN__TIED)
            field->contenders[i].first = field->contenders[i].count;
}

void kiln__field_recall(kiln__field *field)
{
    field->is_final = false;
    for (size_t i = 0; i < field->count; i++)
        field->contenders[i].first = 0;
}

size_t kiln__field_samples(const kiln__field *field, size_t who)
{
    return field->contenders[who].count - field->contenders[who].first;
}

/* The scratch has room for a number for each contender and each sample, so that nothing that judges can fail. */
static kiln_status grow(kiln__field *field, kiln__competitor *c)
{
    size_t capacity = c->capacity == 0 ? 16 : 2 * c->capacity;
    size_t scratch_size = field->scratch_size + capacity - c->capacity;
    kiln__sample *samples = kiln__realloc(c->samples, capacity * sizeof(*samples));
    if (samples == NULL)
        return KILN_ENOMEM;
    c->samples = samples;
    double *scratch = kiln__realloc(field->scratch, scratch_size * sizeof(*scratch));
    if (scratch == NULL)
        return KILN_ENOMEM;
    field->scratch = scratch;
    field->scratch_size = scratch_size;
    c->capacity = capacity;
    return KILN_OK;
}

kiln_status kiln__field_add(kiln__field *field, size_t who, uint32_t round, double ratio, kiln_report *report)
{
    kiln__competitor *c = &field->contenders[who];
    if (c->count == c->capacity && grow(field, c) != KILN_OK)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    c->samples[c->count++] = (kiln__sample){ round, ratio };
    return KILN_OK;
}

/* From the differences of neighbouring samples, which know nothing of where a contender lies. Their median is 0.954
 * standard deviations of a sample. */
static double find_noise(kiln__field *field)
{
    size_t count = 0;
    for (size_t i = 0; i < field->count; i++) {
        const kiln__competitor *c = &field->contenders[i];
        for (size_t k = 1; k < c->count; k++)
            field->scratch[count++] = fabs(c->samples[k].ratio - c->samples[k - 1].ratio);
    }
    return count == 0 ? INFINITY : fmax(kiln__median(field->scratch, count) / 0.954, NOISE_MIN);
}

static kiln__estimate estimate(const kiln__field *field, size_t who)
{
    const kiln__competitor *c = &field->contenders[who];
    size_t count = 0;
    for (size_t k = c->first; k < c->count; k++)
        field->scratch[count++] = c->samples[k].ratio;
    return kiln__estimate_of(field->scratch, count);
}

void kiln__field_update(kiln__field *field)
{
    field->noise = find_noise(field);
    field->leader = field->incumbent;
    field->running = 0;
    size_t judged = 0;
    for (size_t i = 0; i < field->count; i++) {
        kiln__competitor *c = &field->contenders[i];
        c->judged = i == field->incumbent || kiln__field_samples(field, i) >= KILN__JUDGED_FROM;
        c->estimate = c->judged ? estimate(field, i).value : 0;
        judged += c->judged;
        if (!c->judged || c->verdict != KILN__TIED)
            continue;
        field->running++;
        if (c->estimate < field->contenders[field->leader].estimate ||
            field->contenders[field->leader].verdict != KILN__TIED)
            field->leader = i;
    }
    field->rivals = field->is_final ? field->running : judged;
}

/* Differences of the samples of common rounds, into the scratch. The incumbent has a sample, 0, in every round. */
static size_t subtract(const kiln__field *field, size_t slower, size_t faster)
{
    const kiln__competitor *a = &field->contenders[slower], *b = &field->contenders[faster];
    size_t count = 0, i = a->first, j = b->first;
    for (; faster == field->incumbent && i < a->count; i++)
        field->scratch[count++] = a->samples[i].ratio;
    for (; slower == field->incumbent && j < b->count; j++)
        field->scratch[count++] = -b->samples[j].ratio;
    while (i < a->count && j < b->count) {
        if (a->samples[i].round == b->samples[j].round)
            field->scratch[count++] = a->samples[i].ratio - b->samples[j].ratio;
        if (a->samples[i].round <= b->samples[j].round)
            i++;
        else
            j++;
    }
    return count;
}

static double doubt(const kiln__field *field)
{
    return DOUBT / (double)(field->rivals > 2 ? field->rivals - 1 : 1);
}

/* Variance of a contender's estimate by itself. */
static double own_variance(const kiln__field *field, size_t who)
{
    kiln__estimate own = estimate(field, who);
    if (who == field->incumbent)
        return 0;
    if (own.count == 0)
        return INFINITY;
    double common = field->noise * field->noise / (double)own.count;
    return own.count >= OWN_NOISE_FROM ? fmax(own.error * own.error, common) : SMALL * common;
}

/* How many samples a comparison can have: those of the one that has fewer. */
static size_t fewer_samples(const kiln__field *field, size_t a, size_t b)
{
    size_t of_a = a == field->incumbent ? SIZE_MAX : kiln__field_samples(field, a);
    size_t of_b = b == field->incumbent ? SIZE_MAX : kiln__field_samples(field, b);
    return of_a < of_b ? of_a : of_b;
}

kiln__gap kiln__field_gap(const kiln__field *field, size_t slower, size_t faster)
{
    if (slower == faster)
        return (kiln__gap){ 0, 0 };
    size_t common = subtract(field, slower, faster);
    if (common >= OWN_NOISE_FROM && common >= fewer_samples(field, slower, faster) / 2) {
        kiln__estimate paired = kiln__estimate_of(field->scratch, common);
        double error = fmax(paired.error, field->noise / sqrt((double)common));
        return (kiln__gap){ paired.value, error * kiln__t_quantile(doubt(field), paired.freedom) };
    }
    double value = field->contenders[slower].estimate - field->contenders[faster].estimate;
    double error = sqrt(own_variance(field, slower) + own_variance(field, faster));
    return (kiln__gap){ value, error * kiln__t_quantile(doubt(field), INFINITY) };
}

static bool is_told_apart(const kiln__field *field, size_t who)
{
    kiln__gap gap = kiln__field_gap(field, who, field->leader);
    return gap.value > field->tolerance / 2 && gap.value - gap.margin > 0;
}

void kiln__field_drop_if_slower(kiln__field *field, size_t who)
{
    kiln__competitor *c = &field->contenders[who];
    if (c->judged && c->verdict == KILN__TIED && is_told_apart(field, who)) {
        c->verdict = KILN__SLOWER;
        field->running--;
    }
}

static bool is_running(const kiln__field *field, size_t who)
{
    return field->contenders[who].judged && field->contenders[who].verdict == KILN__TIED;
}

/* How many in the running are faster, of equals those that come earlier. */
static size_t rank(const kiln__field *field, size_t who)
{
    double own = field->contenders[who].estimate;
    size_t rank = 0;
    for (size_t i = 0; i < field->count; i++) {
        double other = field->contenders[i].estimate;
        rank += is_running(field, i) && (other < own || (other == own && i < who));
    }
    return rank;
}

void kiln__field_cut(kiln__field *field, size_t places)
{
    size_t fast = (places + 1) / 2, early = places - fast;
    if (field->running <= places)
        return;
    for (size_t i = 0; i < field->count; i++)
        field->scratch[i] = is_running(field, i) ? (double)rank(field, i) : -1;
    for (size_t i = 0; i < field->count; i++) {
        if (field->scratch[i] < (double)fast)
            continue;
        if (early > 0) {
            early--;
        } else {
            field->contenders[i].verdict = KILN__GIVEN_UP;
            field->running--;
        }
    }
}

/* The earliest that is not told apart from the leader. `within` bounds how much slower than the leader it may seem; the
 * incumbent is bound by nothing. */
static size_t find_earliest(const kiln__field *field, double within)
{
    for (size_t i = 0; i < field->leader; i++) {
        if (!is_running(field, i) || is_told_apart(field, i))
            continue;
        if (i == field->incumbent || kiln__field_gap(field, i, field->leader).value <= within)
            return i;
    }
    return field->leader;
}

static double find_regret(const kiln__field *field, size_t who)
{
    double regret = 0;
    for (size_t i = 0; i < field->count; i++) {
        if (!is_running(field, i) || i == who)
            continue;
        kiln__gap gap = kiln__field_gap(field, who, i);
        regret = fmax(regret, gap.value + gap.margin);
    }
    return regret;
}

/* While little is known nobody shall win for being uncertain, except who is in use already. */
bool kiln__field_pick(const kiln__field *field, size_t *pick, double *regret)
{
    *pick = find_earliest(field, INFINITY);
    *regret = find_regret(field, *pick);
    if (*regret <= field->tolerance)
        return true;
    *pick = find_earliest(field, field->tolerance);
    *regret = find_regret(field, *pick);
    return false;
}

void kiln__field_ratio(const kiln__field *field, size_t who, double *ratio, double *low, double *high)
{
    kiln__estimate own = estimate(field, who);
    double margin = 0;
    if (who != field->incumbent)
        margin = sqrt(own_variance(field, who)) *
                 kiln__t_quantile(0.025, own.count >= OWN_NOISE_FROM ? own.freedom : INFINITY);
    *ratio = exp(own.value);
    *low = exp(own.value - margin);
    *high = exp(own.value + margin);
}
