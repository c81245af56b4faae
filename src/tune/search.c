/* The search, in two parts: the judgement of samples, which knows no clock, and the rounds that take them. */
#include "tune/search.h"

#include "base/alloc.h"
#include "tune/statistics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    JUDGED_FROM = 4,    /* samples of a variant before it is judged */
    OWN_NOISE_FROM = 8, /* samples from which on its own noise is believed; before, the noise of all counts, and
                         * nothing is settled */
    WARMUPS = 3,        /* uncounted samples of the incumbent at the start */
    GROUP = 4,          /* variants between two samples of the incumbent */
    CUT_FROM = 8,       /* samples before a variant is given up that may yet be the fastest */
    FINALS_FROM = 16,   /* samples of a finalist before the first look */
    FINALISTS = 8,      /* variants that are left when the running have been halved often enough */
    DOUBLED_TO = 32,    /* samples up to which each heat doubles those of the last */
    TRIES_MAX = 32,     /* to measure a variant at all */
    SAMPLES_MAX = 640,
    LEVEL_WINDOW = 31, /* samples of the incumbent whose median is its usual time */
    LEVEL_FROM = 8
};

#define TOLERANCE 0.005

/* A round in which the incumbent is off its usual time by more than 5% was not played at the usual clock. */
#define THROTTLED 0.05

/* Half as slow again as the best known, twice, is slower beyond doubt. */
#define HOPELESS 0.405

/* Variance of the middle of four to seven samples over that of the mean of normal ones. It is 1.2 where noise is
 * normal; this leaves room for the tails of real noise. */
#define SMALL 2.0

/* No clock is better than a thousandth. */
#define NOISE_MIN 0.001

/* All bounds of one look hold together with 99.9%, so that those of all looks do with 99%. */
#define DOUBT 0.001

/* ---- Judging
 *
 * A sample is the logarithm of a variant's time over the incumbent's times beside it, so that drift, a slow spell or a
 * colder clock, which slow both, is gone from it. Two variants are compared by the differences of their samples of the
 * same rounds, once they share enough of them. */

typedef struct ratio_sample {
    uint32_t round;
    double ratio; /* logarithm */
} ratio_sample;

typedef struct variant_samples {
    ratio_sample *samples; /* by round */
    size_t count, capacity;
    size_t first;         /* those before it no longer count */
    uint32_t attempts;    /* to take a sample, the first, uncounted one among them */
    double opening;       /* the ratio of that one */
    double estimate;      /* logarithm of its ratio to the incumbent, if `judged` */
    bool judged;          /* it has enough samples */
    kiln_verdict verdict; /* KILN_VERDICT_TIED: still in the running. Never KILN_VERDICT_WINNER */
} variant_samples;

typedef struct variant_selection {
    variant_samples *variants;
    size_t count;
    size_t incumbent; /* has no samples: its ratio to itself is 1 */
    size_t leader;    /* of those in the running the one with the least estimate */
    size_t running;   /* those in the running that are judged, the incumbent among them */
    size_t
        rivals; /* among so many the leader is the luckiest: all that were ever judged, in the finals the finalists */
    bool is_final;
    double tolerance; /* logarithm of the slowdown that does not matter */
    double noise;     /* standard deviation of a sample, the same for all; infinite while unknown */
    double *scratch;  /* room for a number for each variant and each sample, so that judging cannot fail */
    size_t scratch_size;
} variant_selection;

/* How much slower one variant is than another, as logarithms. */
typedef struct time_gap {
    double value, margin; /* value - margin and value + margin bound it, each with 99% for all variants and looks */
} time_gap;

/* Forgets every sample and begins anew with another incumbent; variants that were rejected stay so. */
static void restart_selection(variant_selection *selection, size_t incumbent)
{
    selection->incumbent = selection->leader = incumbent;
    selection->noise = INFINITY;
    selection->rivals = 0;
    selection->is_final = false;
    for (size_t i = 0; i < selection->count; i++) {
        variant_samples *v = &selection->variants[i];
        v->count = v->first = 0;
        v->attempts = 0;
        v->estimate = 0;
        v->judged = false;
        if (v->verdict != KILN_VERDICT_REJECTED)
            v->verdict = KILN_VERDICT_TIED;
    }
}

/* Begins the finals: the samples of those in the running no longer count. They were chosen by them, and so by their
 * luck, too. */
static void begin_finals(variant_selection *selection)
{
    selection->is_final = true;
    for (size_t i = 0; i < selection->count; i++)
        if (selection->variants[i].verdict == KILN_VERDICT_TIED)
            selection->variants[i].first = selection->variants[i].count;
}

/* Lets the samples before the finals count again, where fresh ones are too few in the end. */
static void recall_samples(variant_selection *selection)
{
    selection->is_final = false;
    for (size_t i = 0; i < selection->count; i++)
        selection->variants[i].first = 0;
}

static size_t count_samples(const variant_selection *selection, size_t variant)
{
    return selection->variants[variant].count - selection->variants[variant].first;
}

/* Rounds do not go down. */
static kiln_status add_sample(variant_selection *selection, size_t variant, uint32_t round, double ratio,
                              kiln_report *report)
{
    variant_samples *v = &selection->variants[variant];
    if (v->count == v->capacity) {
        size_t capacity = v->capacity == 0 ? 16 : 2 * v->capacity;
        size_t scratch_size = selection->scratch_size + capacity - v->capacity;
        ratio_sample *samples = kiln__realloc(v->samples, capacity * sizeof(*samples));
        v->samples = samples != NULL ? samples : v->samples;
        double *scratch = samples != NULL ? kiln__realloc(selection->scratch, scratch_size * sizeof(*scratch)) : NULL;
        if (scratch == NULL)
            return kiln__fail_memory(report, KILN__STAGE_DEVICE);
        selection->scratch = scratch;
        selection->scratch_size = scratch_size;
        v->capacity = capacity;
    }
    v->samples[v->count++] = (ratio_sample){ round, ratio };
    return KILN_OK;
}

/* From the differences of neighbouring samples, from which the speed of a variant is gone. Their median is 0.954
 * standard deviations of a sample. */
static double find_noise(variant_selection *selection)
{
    size_t count = 0;
    for (size_t i = 0; i < selection->count; i++) {
        const variant_samples *v = &selection->variants[i];
        for (size_t k = 1; k < v->count; k++)
            selection->scratch[count++] = fabs(v->samples[k].ratio - v->samples[k - 1].ratio);
    }
    return count == 0 ? INFINITY : fmax(kiln__median(selection->scratch, count) / 0.954, NOISE_MIN);
}

static kiln__estimate estimate(const variant_selection *selection, size_t variant)
{
    const variant_samples *v = &selection->variants[variant];
    size_t count = 0;
    for (size_t k = v->first; k < v->count; k++)
        selection->scratch[count++] = v->samples[k].ratio;
    return kiln__estimate_of(selection->scratch, count);
}

/* Renews noise, estimates and leader. To be called after samples have come and before the functions below. */
static void update_selection(variant_selection *selection)
{
    selection->noise = find_noise(selection);
    selection->leader = selection->incumbent;
    selection->running = 0;
    size_t judged = 0;
    for (size_t i = 0; i < selection->count; i++) {
        variant_samples *v = &selection->variants[i];
        v->judged = i == selection->incumbent || count_samples(selection, i) >= JUDGED_FROM;
        v->estimate = v->judged ? estimate(selection, i).value : 0;
        judged += v->judged;
        if (!v->judged || v->verdict != KILN_VERDICT_TIED)
            continue;
        selection->running++;
        if (v->estimate < selection->variants[selection->leader].estimate ||
            selection->variants[selection->leader].verdict != KILN_VERDICT_TIED)
            selection->leader = i;
    }
    selection->rivals = selection->is_final ? selection->running : judged;
}

/* Differences of the samples of common rounds, into the scratch. The incumbent has a sample, 0, in every round. */
static size_t subtract(const variant_selection *selection, size_t slower, size_t faster)
{
    const variant_samples *a = &selection->variants[slower], *b = &selection->variants[faster];
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

/* Variance of a variant's estimate by itself. */
static double own_variance(const variant_selection *selection, size_t variant)
{
    kiln__estimate own = estimate(selection, variant);
    if (variant == selection->incumbent)
        return 0;
    if (own.count == 0)
        return INFINITY;
    double common = selection->noise * selection->noise / (double)own.count;
    return own.count >= OWN_NOISE_FROM ? fmax(own.error * own.error, common) : SMALL * common;
}

/* The differences of the samples of common rounds, where there are enough, else the difference of the estimates. */
static time_gap gap_between(const variant_selection *selection, size_t slower, size_t faster)
{
    double tail = DOUBT / (double)(selection->rivals > 2 ? selection->rivals - 1 : 1);
    if (slower == faster)
        return (time_gap){ 0, 0 };
    size_t of_slower = slower == selection->incumbent ? SIZE_MAX : count_samples(selection, slower);
    size_t of_faster = faster == selection->incumbent ? SIZE_MAX : count_samples(selection, faster);
    size_t common = subtract(selection, slower, faster);
    if (common >= OWN_NOISE_FROM && common >= (of_slower < of_faster ? of_slower : of_faster) / 2) {
        kiln__estimate paired = kiln__estimate_of(selection->scratch, common);
        double error = fmax(paired.error, selection->noise / sqrt((double)common));
        return (time_gap){ paired.value, error * kiln__t_quantile(tail, paired.freedom) };
    }
    double value = selection->variants[slower].estimate - selection->variants[faster].estimate;
    double error = sqrt(own_variance(selection, slower) + own_variance(selection, faster));
    return (time_gap){ value, error * kiln__t_quantile(tail, INFINITY) };
}

/* Slower than the leader beyond its margin, and by more than half the tolerance. */
static bool is_told_apart(const variant_selection *selection, size_t variant)
{
    time_gap gap = gap_between(selection, variant, selection->leader);
    return gap.value > selection->tolerance / 2 && gap.value - gap.margin > 0;
}

static void drop_if_slower(variant_selection *selection, size_t variant)
{
    variant_samples *v = &selection->variants[variant];
    size_t samples = count_samples(selection, variant == selection->incumbent ? selection->leader : variant);
    if (v->judged && v->verdict == KILN_VERDICT_TIED && samples >= OWN_NOISE_FROM &&
        is_told_apart(selection, variant)) {
        v->verdict = KILN_VERDICT_SLOWER;
        selection->running--;
    }
}

static bool is_running(const variant_selection *selection, size_t variant)
{
    return selection->variants[variant].judged && selection->variants[variant].verdict == KILN_VERDICT_TIED;
}

/* The number of variants in the running that are faster; of equals the earlier ones count. */
static size_t rank(const variant_selection *selection, size_t variant)
{
    double own = selection->variants[variant].estimate;
    size_t rank = 0;
    for (size_t i = 0; i < selection->count; i++) {
        double other = selection->variants[i].estimate;
        rank += is_running(selection, i) && (other < own || (other == own && i < variant));
    }
    return rank;
}

/* Leaves `kept` variants in the running. Half of them are the fastest, the other half the earliest of the rest, so
 * that an early variant that ties is there to the end, whatever the luck of the others. */
static void cut_selection(variant_selection *selection, size_t kept)
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
            selection->variants[i].verdict = KILN_VERDICT_GIVEN_UP;
            selection->running--;
        }
    }
}

/* The earliest that is not told apart from the leader. `within` bounds how much slower than the leader it may seem; the
 * incumbent is bound by nothing. */
static size_t find_earliest(const variant_selection *selection, double within)
{
    for (size_t i = 0; i < selection->leader; i++) {
        if (!is_running(selection, i) || is_told_apart(selection, i))
            continue;
        if (i == selection->incumbent || gap_between(selection, i, selection->leader).value <= within)
            return i;
    }
    return selection->leader;
}

static double find_regret(const variant_selection *selection, size_t variant)
{
    double regret = 0;
    for (size_t i = 0; i < selection->count; i++) {
        if (!is_running(selection, i) || i == variant)
            continue;
        time_gap gap = gap_between(selection, variant, i);
        regret = fmax(regret, gap.value + gap.margin);
    }
    return regret;
}

/* Picks the winner: the earliest in the running that is not told apart from the leader. *regret is the logarithm of how
 * much slower than any other in the running it may be, with 99%; infinite where that is unknown.
 *
 * True if that is within the tolerance, so that more samples would not change the choice for the better. Else *pick is
 * the choice if there can be no more samples: the same, but only of the incumbent and of variants that seem to be
 * within the tolerance. While little is known no other variant shall win for being uncertain. */
static bool pick_winner(const variant_selection *selection, size_t *pick, double *regret)
{
    *pick = find_earliest(selection, INFINITY);
    *regret = find_regret(selection, *pick);
    if (*regret <= selection->tolerance)
        return true;
    *pick = find_earliest(selection, selection->tolerance);
    *regret = find_regret(selection, *pick);
    return false;
}

/* Ratio of a variant to the incumbent and its 95% interval, for this variant alone. All 1 for the incumbent. */
static void estimate_ratio(const variant_selection *selection, size_t variant, double *ratio, double *low, double *high)
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

/* ---- Playing */

typedef struct search {
    const kiln__arena *arena;
    uint64_t begin, budget;
    const atomic_bool *stop;
    variant_selection selection;
    kiln__readiness *readiness;
    size_t *active; /* the variants of the round */
    size_t waiting; /* variants that are not ready */
    double *levels; /* logarithms of the incumbent's samples */
    size_t level_count, level_capacity;
    size_t quota; /* samples of each variant at the end of the heat */
    uint32_t attempts_max;
    bool settled;
    bool is_stale;         /* a variant was rejected that others had been compared with, or the basis is another */
    uint32_t basis;        /* of the samples that are known */
    uint32_t round, begun; /* the round in which they began */
    uint64_t samples, void_samples;
    kiln_report *report;
} search;

static uint64_t elapsed(const search *s)
{
    return s->arena->now_ns(s->arena->data) - s->begin;
}

static bool is_stopped(const search *s)
{
    return s->stop != NULL && atomic_load_explicit(s->stop, memory_order_relaxed);
}

static bool is_over(const search *s)
{
    return is_stopped(s) || (s->budget != 0 && elapsed(s) >= s->budget);
}

static bool is_sample(double ms)
{
    return ms > 0 && isfinite(ms);
}

static kiln_status take_samples(search *s, const size_t *variants, size_t count, double *logs)
{
    kiln_status status = s->arena->time(s->arena->data, variants, count, logs);
    for (size_t i = 0; i < count && status == KILN_OK; i++)
        logs[i] = is_sample(logs[i]) ? log(logs[i]) : NAN;
    s->samples += count;
    return status;
}

/* Whether the latest samples have another basis than those that are known: they count for nothing. */
static bool has_moved(search *s)
{
    bool moved = s->arena->basis != NULL && s->arena->basis(s->arena->data) != s->basis;
    s->is_stale = s->is_stale || moved;
    return moved;
}

static kiln_status note_level(search *s, double level)
{
    if (isnan(level)) {
        s->void_samples++;
        return KILN_OK;
    }
    if (s->level_count == s->level_capacity) {
        size_t capacity = s->level_capacity == 0 ? 256 : 2 * s->level_capacity;
        double *levels = kiln__realloc(s->levels, capacity * sizeof(*levels));
        if (levels == NULL)
            return kiln__fail_memory(s->report, KILN__STAGE_DEVICE);
        s->levels = levels;
        s->level_capacity = capacity;
    }
    s->levels[s->level_count++] = level;
    return KILN_OK;
}

/* Against the median of the latest samples, these included: a clock that stays low is soon the usual one. */
static bool is_throttled(const search *s, double level)
{
    double latest[LEVEL_WINDOW];
    size_t count = s->level_count < LEVEL_WINDOW ? s->level_count : LEVEL_WINDOW;
    if (count < LEVEL_FROM)
        return false;
    memcpy(latest, s->levels + s->level_count - count, count * sizeof(*latest));
    return fabs(level - kiln__median(latest, count)) > THROTTLED;
}

/* The first sample of a variant may load code, touch new memory or look for the right number of repeats. */
static kiln_status note_sample(search *s, size_t variant, double ratio)
{
    variant_samples *v = &s->selection.variants[variant];
    bool is_first = v->attempts++ == 0;
    if (is_first)
        v->opening = ratio;
    if (is_first || isnan(ratio)) {
        s->void_samples++;
        return KILN_OK;
    }
    return add_sample(&s->selection, variant, s->round, ratio, s->report);
}

/* Times up to GROUP variants and then the incumbent. The incumbent was timed right before as well: `before` has that
 * time, and gets the new one. */
static kiln_status play_group(search *s, const size_t *variants, size_t count, double *before)
{
    size_t order[GROUP + 1];
    double logs[GROUP + 1];
    memcpy(order, variants, count * sizeof(*order));
    order[count] = s->selection.incumbent;
    kiln_status status = take_samples(s, order, count + 1, logs);
    if (status == KILN_OK && has_moved(s)) {
        s->void_samples += count + 1;
        return KILN_OK;
    }
    if (status == KILN_OK)
        status = note_level(s, logs[count]);
    if (status != KILN_OK)
        return status;
    double slope = (logs[count] - *before) / (double)(count + 1);
    double level = is_throttled(s, (*before + logs[count]) / 2) ? NAN : *before;
    for (size_t i = 0; i < count && status == KILN_OK; i++)
        status = note_sample(s, order[i], logs[i] - (level + (double)(i + 1) * slope));
    *before = logs[count];
    return status;
}

static size_t common_divisor(size_t a, size_t b)
{
    while (b != 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Every variant plays once, in an order that begins with another and has other neighbours in each round. */
static kiln_status play_round(search *s, size_t count)
{
    size_t incumbent = s->selection.incumbent, group[GROUP], length = 0;
    size_t step = 1 + (s->round * 7u) % count;
    double before;
    while (common_divisor(step, count) != 1)
        step++;
    kiln_status status = take_samples(s, &incumbent, 1, &before);
    if (status == KILN_OK)
        status = note_level(s, has_moved(s) ? NAN : before);
    for (size_t i = 0; i < count && status == KILN_OK && !s->is_stale; i++) {
        group[length++] = s->active[(s->round + i * step) % count];
        if (length < GROUP && i + 1 < count)
            continue;
        if (is_over(s))
            break;
        status = play_group(s, group, length, &before);
        length = 0;
    }
    s->round++;
    return status;
}

static bool is_active(const search *s, size_t variant)
{
    const variant_samples *v = &s->selection.variants[variant];
    return variant != s->selection.incumbent && s->readiness[variant] == KILN__READY &&
           v->verdict == KILN_VERDICT_TIED && count_samples(&s->selection, variant) < s->quota &&
           v->attempts < s->attempts_max;
}

static size_t gather_active(search *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->selection.count; i++)
        if (is_active(s, i))
            s->active[count++] = i;
    return count;
}

/* Others may have been found slower than one that is rejected late. */
static void reject_variant(search *s, size_t variant)
{
    variant_samples *v = &s->selection.variants[variant];
    s->is_stale =
        s->is_stale || (v->verdict != KILN_VERDICT_REJECTED && (v->count > 0 || variant == s->selection.incumbent));
    v->verdict = KILN_VERDICT_REJECTED;
}

static void ask_readiness(search *s)
{
    s->waiting = 0;
    for (size_t i = 0; i < s->selection.count; i++) {
        if (s->readiness[i] != KILN__OUT)
            s->readiness[i] = s->arena->readiness(s->arena->data, i);
        if (s->readiness[i] == KILN__OUT)
            reject_variant(s, i);
        s->waiting += s->readiness[i] == KILN__WAITING;
    }
}

static bool is_past_half(const search *s)
{
    return s->budget != 0 && elapsed(s) >= s->budget / 2;
}

static kiln_status warm_up(search *s)
{
    size_t variants[WARMUPS];
    double logs[WARMUPS];
    for (size_t i = 0; i < WARMUPS; i++)
        variants[i] = s->selection.incumbent;
    s->void_samples += WARMUPS;
    kiln_status status = take_samples(s, variants, WARMUPS, logs);
    s->basis = s->arena->basis != NULL ? s->arena->basis(s->arena->data) : 0;
    return status;
}

/* The first variant that is ready. Variant 0 is waited for, until half of the budget is spent. */
static bool find_incumbent(const search *s, size_t *out)
{
    for (size_t i = 0; i < s->selection.count; i++) {
        if (s->readiness[i] == KILN__READY) {
            *out = i;
            return true;
        }
        if (i == 0 && s->readiness[i] == KILN__WAITING && !is_past_half(s))
            return false;
    }
    return false;
}

static kiln_status fail_without(const search *s)
{
    if (is_stopped(s))
        return kiln__fail(s->report, KILN_ECANCELED, KILN__STAGE_DEVICE, 0,
                          "stopped before any of the %zu variants was ready", s->selection.count);
    if (s->waiting > 0)
        return kiln__fail(s->report, KILN_ETIMEDOUT, KILN__STAGE_DEVICE, 0,
                          "none of the %zu variants was ready in time: allow more time", s->selection.count);
    return kiln__fail(s->report, KILN_ENOENT, KILN__STAGE_DEVICE, 0, "none of the %zu variants can be used",
                      s->selection.count);
}

/* A variant whose samples are disturbed half of the time does not hold up the others. */
static void set_quota(search *s, size_t quota)
{
    s->attempts_max += 2 * (uint32_t)(quota - s->quota) + 8;
    s->quota = quota;
}

/* Begins, at first and whenever a variant is rejected that had been measured. */
static kiln_status begin(search *s)
{
    size_t incumbent;
    for (ask_readiness(s); !find_incumbent(s, &incumbent); ask_readiness(s)) {
        if (s->waiting == 0 || is_over(s))
            return fail_without(s);
        s->arena->wait(s->arena->data);
    }
    restart_selection(&s->selection, incumbent);
    s->level_count = 0;
    s->quota = s->attempts_max = 0;
    set_quota(s, JUDGED_FROM);
    s->settled = s->is_stale = false;
    s->begun = s->round;
    return warm_up(s);
}

/* Takes variants of the round out of the running that are certainly slower. Looks at those whose number of samples is a
 * power of two: seldom, for each look may be wrong. */
static void review(search *s, size_t count)
{
    variant_selection *selection = &s->selection;
    bool is_updated = false;
    for (size_t i = 0; i < count; i++) {
        variant_samples *v = &selection->variants[s->active[i]];
        double hopeless = selection->variants[selection->leader].estimate + HOPELESS;
        size_t samples = count_samples(selection, s->active[i]);
        if (v->count == 1 && v->opening > hopeless && v->samples[0].ratio > hopeless)
            v->verdict = KILN_VERDICT_SLOWER;
        if (samples < JUDGED_FROM || (samples & (samples - 1)) != 0)
            continue;
        if (!is_updated)
            update_selection(selection);
        is_updated = true;
        drop_if_slower(selection, s->active[i]);
    }
}

static void drop_slower(variant_selection *selection)
{
    update_selection(selection);
    for (size_t i = 0; i < selection->count; i++)
        drop_if_slower(selection, i);
}

/* Whether some variant is ready but was not measured. */
static bool is_incomplete(const search *s)
{
    for (size_t i = 0; i < s->selection.count; i++) {
        const variant_samples *v = &s->selection.variants[i];
        if (s->readiness[i] == KILN__READY && !v->judged &&
            (v->verdict == KILN_VERDICT_TIED || v->verdict == KILN_VERDICT_UNMEASURED))
            return true;
    }
    return false;
}

/* Gives up variants whose samples are disturbed again and again. True if others could not be measured yet. */
static bool is_unfinished(search *s)
{
    bool is_unfinished = false;
    for (size_t i = 0; i < s->selection.count; i++) {
        variant_samples *v = &s->selection.variants[i];
        if (s->readiness[i] != KILN__READY || v->verdict != KILN_VERDICT_TIED || v->judged)
            continue;
        if (v->count < JUDGED_FROM && v->attempts >= TRIES_MAX)
            v->verdict = KILN_VERDICT_UNMEASURED;
        else
            is_unfinished = true;
    }
    return is_unfinished;
}

/* True when another heat would gain nothing. Each heat has twice the samples of the one before, later a
 * quarter more. */
static bool end_heat(search *s)
{
    variant_selection *selection = &s->selection;
    size_t pick;
    double regret;
    drop_slower(selection);
    bool is_selected = selection->rivals > FINALISTS;
    if (s->quota >= CUT_FROM)
        cut_selection(selection, selection->running / 2 > FINALISTS ? selection->running / 2 : FINALISTS);
    update_selection(selection);
    bool is_clear = pick_winner(selection, &pick, &regret);
    bool is_honest = selection->is_final || !is_selected || selection->running < 2;
    s->settled = !is_unfinished(s) && is_honest && is_clear && s->quota >= OWN_NOISE_FROM;
    if (s->settled)
        return s->waiting == 0;
    if (s->quota >= SAMPLES_MAX)
        return true;
    if (is_selected && selection->running <= FINALISTS && !selection->is_final) {
        begin_finals(selection);
        s->quota = 0;
        set_quota(s, FINALS_FROM);
    } else {
        size_t quota = s->quota < DOUBLED_TO ? 2 * s->quota : s->quota + s->quota / 4;
        set_quota(s, quota < SAMPLES_MAX ? quota : SAMPLES_MAX);
    }
    return false;
}

/* In the first heat every variant is waited for, and a late one also when all else is settled. */
static bool shall_wait(const search *s)
{
    return s->waiting > 0 && (s->settled || (s->quota == JUDGED_FROM && !is_past_half(s)));
}

static kiln_status play(search *s, kiln__search_end *end)
{
    kiln_status status = begin(s);
    while (status == KILN_OK) {
        ask_readiness(s);
        size_t count = gather_active(s);
        if (is_over(s)) {
            *end = is_stopped(s) ? KILN__STOPPED : KILN__TIMED_OUT;
            break;
        }
        if (s->is_stale) {
            status = begin(s);
        } else if (count > 0) {
            status = play_round(s, count);
            review(s, count);
            s->settled = false;
        } else if (shall_wait(s)) {
            s->arena->wait(s->arena->data);
        } else if (end_heat(s)) {
            *end = s->settled && !is_incomplete(s) ? KILN__SETTLED : KILN__EXHAUSTED;
            break;
        }
    }
    return status;
}

static int compare_ranked(const void *a, const void *b)
{
    /* A variant that was told apart may be faster than one that was given up. */
    static const int classes[] = {
        [KILN_VERDICT_WINNER] = 0, [KILN_VERDICT_TIED] = 1,       [KILN_VERDICT_GIVEN_UP] = 2,
        [KILN_VERDICT_SLOWER] = 2, [KILN_VERDICT_UNMEASURED] = 3, [KILN_VERDICT_REJECTED] = 4
    };
    const kiln__ranked *x = a, *y = b;
    if (classes[x->result.verdict] != classes[y->result.verdict])
        return classes[x->result.verdict] - classes[y->result.verdict];
    if (x->result.ratio != y->result.ratio)
        return x->result.ratio < y->result.ratio ? -1 : 1;
    return (x->variant > y->variant) - (x->variant < y->variant);
}

static kiln_status conclude(search *s, kiln__search_result *out)
{
    variant_selection *selection = &s->selection;
    size_t pick;
    double regret;
    out->ranking = kiln__calloc(selection->count, sizeof(*out->ranking));
    if (out->ranking == NULL)
        return kiln__fail_memory(s->report, KILN__STAGE_DEVICE);
    drop_slower(selection);
    if (is_incomplete(s)) {
        recall_samples(selection);
        drop_slower(selection);
    }
    update_selection(selection);
    pick_winner(selection, &pick, &regret);
    out->incumbent = selection->incumbent;
    out->incumbent_ms = s->level_count > 0 ? exp(kiln__median(s->levels, s->level_count)) : 0;
    for (size_t i = 0; i < selection->count; i++) {
        const variant_samples *v = &selection->variants[i];
        kiln_variant_result *result = &out->ranking[i].result;
        out->ranking[i].variant = i;
        result->verdict = i == pick                                       ? KILN_VERDICT_WINNER
                          : v->verdict == KILN_VERDICT_TIED && !v->judged ? KILN_VERDICT_UNMEASURED
                                                                          : v->verdict;
        /* The incumbent is timed in every round, and has no samples because they are compared with it. */
        result->samples = i == selection->incumbent ? s->round - s->begun : count_samples(selection, i);
        if (result->samples > 0 || i == selection->incumbent)
            estimate_ratio(selection, i, &result->ratio, &result->low, &result->high);
        result->median_ms = result->ratio * out->incumbent_ms;
    }
    qsort(out->ranking, selection->count, sizeof(*out->ranking), compare_ranked);
    out->count = selection->count;
    out->regret = is_incomplete(s) ? INFINITY : expm1(regret);
    out->samples = s->samples;
    out->void_samples = s->void_samples;
    out->rounds = s->round;
    out->elapsed_ns = elapsed(s);
    return KILN_OK;
}

kiln_status kiln__search(kiln__search_result *out, const kiln__arena *arena, const kiln__search_options *options,
                         kiln_report *report)
{
    size_t count = arena->count;
    search s = { .arena = arena, .budget = options->budget_ns, .stop = options->stop, .report = report };
    variant_selection *selection = &s.selection;
    memset(out, 0, sizeof(*out));
    if (count == 0)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0, "there are no variants: expected at least one");
    s.begin = arena->now_ns(arena->data);
    selection->variants = kiln__calloc(count, sizeof(*selection->variants));
    selection->scratch = kiln__calloc(count, sizeof(*selection->scratch));
    selection->count = selection->scratch_size = count;
    selection->tolerance = log1p(options->tolerance > 0 ? options->tolerance : TOLERANCE);
    s.readiness = kiln__calloc(count, sizeof(*s.readiness));
    s.active = kiln__calloc(count, sizeof(*s.active));
    kiln_status status = KILN_OK;
    if (selection->variants == NULL || selection->scratch == NULL || s.readiness == NULL || s.active == NULL)
        status = kiln__fail_memory(report, KILN__STAGE_DEVICE);
    if (status == KILN_OK)
        status = play(&s, &out->end);
    if (status == KILN_OK)
        status = conclude(&s, out);
    if (status != KILN_OK)
        kiln__search_result_fini(out);
    for (size_t i = 0; i < count && selection->variants != NULL; i++)
        kiln__free(selection->variants[i].samples);
    kiln__free(selection->variants);
    kiln__free(selection->scratch);
    kiln__free(s.readiness);
    kiln__free(s.active);
    kiln__free(s.levels);
    return status;
}

void kiln__search_result_fini(kiln__search_result *result)
{
    kiln__free(result->ranking);
    memset(result, 0, sizeof(*result));
}
