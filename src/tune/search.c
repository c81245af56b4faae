#include "tune/search.h"

#include "base/alloc.h"
#include "tune/statistics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARMUPS = 3,      /* uncounted samples of the incumbent at the start */
    GROUP = 4,        /* variants between two samples of the incumbent */
    CUT_FROM = 8,     /* samples before a variant is given up that may yet be the fastest */
    FINALS_FROM = 16, /* samples of a finalist before the first look */
    FINALISTS = 8,    /* variants that are left when the running have been halved often enough */
    DOUBLED_TO = 32,  /* samples up to which each heat doubles those of the last */
    TRIES_MAX = 32,   /* to measure a variant at all */
    SAMPLES_MAX = 640,
    LEVEL_WINDOW = 31, /* samples of the incumbent that say what is usual */
    LEVEL_FROM = 8
};

#define TOLERANCE 0.005

/* A round in which the incumbent is off its usual time by more than 5% was not played at the usual clock. */
#define THROTTLED 0.05

/* Half as slow again as the best known, twice, is slower beyond doubt. */
#define HOPELESS 0.405

typedef struct search {
    const kiln__arena *arena;
    uint64_t begin, budget;
    const atomic_bool *stop;
    kiln__selection selection;
    kiln__readiness *readiness;
    size_t *active; /* the variants of the round */
    size_t waiting; /* how many are not ready */
    double *levels; /* logarithms of the incumbent's samples */
    size_t level_count, level_capacity;
    size_t quota; /* samples that each has when the heat is over */
    uint32_t attempts_max;
    bool settled;
    bool is_stale;         /* a variant was struck out that others had been compared with, or the basis is another */
    uint32_t basis;        /* of the samples that are known */
    uint32_t round, begun; /* the round in which what is known began */
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

static kiln_status take(search *s, const size_t *variants, size_t count, double *logs)
{
    kiln_status status = s->arena->time(s->arena->data, variants, count, logs);
    for (size_t i = 0; i < count && status == KILN_OK; i++)
        logs[i] = is_sample(logs[i]) ? log(logs[i]) : NAN;
    s->samples += count;
    return status;
}

/* Whether samples taken just now are of another basis than those that are known: they count for nothing. */
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
    kiln__variant_samples *v = &s->selection.variants[variant];
    bool is_first = v->attempts++ == 0;
    if (is_first)
        v->opening = ratio;
    if (is_first || isnan(ratio)) {
        s->void_samples++;
        return KILN_OK;
    }
    return kiln__selection_add(&s->selection, variant, s->round, ratio, s->report);
}

/* Times up to GROUP variants and then the incumbent, which was timed right before as well: `before` is what that
 * gave, and is replaced. */
static kiln_status play_group(search *s, const size_t *variants, size_t count, double *before)
{
    size_t order[GROUP + 1];
    double logs[GROUP + 1];
    memcpy(order, variants, count * sizeof(*order));
    order[count] = s->selection.incumbent;
    kiln_status status = take(s, order, count + 1, logs);
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
    kiln_status status = take(s, &incumbent, 1, &before);
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
    const kiln__variant_samples *v = &s->selection.variants[variant];
    return variant != s->selection.incumbent && s->readiness[variant] == KILN__READY && v->verdict == KILN__TIED &&
           kiln__selection_samples(&s->selection, variant) < s->quota && v->attempts < s->attempts_max;
}

static size_t gather(search *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->selection.count; i++)
        if (is_active(s, i))
            s->active[count++] = i;
    return count;
}

/* Others may have been found slower than one that is struck out late. */
static void strike_out(search *s, size_t variant)
{
    kiln__variant_samples *v = &s->selection.variants[variant];
    s->is_stale =
        s->is_stale || (v->verdict != KILN__STRUCK_OUT && (v->count > 0 || variant == s->selection.incumbent));
    v->verdict = KILN__STRUCK_OUT;
}

static void ask_readiness(search *s)
{
    s->waiting = 0;
    for (size_t i = 0; i < s->selection.count; i++) {
        if (s->readiness[i] != KILN__OUT)
            s->readiness[i] = s->arena->readiness(s->arena->data, i);
        if (s->readiness[i] == KILN__OUT)
            strike_out(s, i);
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
    kiln_status status = take(s, variants, WARMUPS, logs);
    s->basis = s->arena->basis != NULL ? s->arena->basis(s->arena->data) : 0;
    return status;
}

/* Variant 0 is waited for, though not for ever. */
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

/* Begins, at first and whenever a variant is struck out that had been measured. */
static kiln_status begin(search *s)
{
    size_t incumbent;
    for (ask_readiness(s); !find_incumbent(s, &incumbent); ask_readiness(s)) {
        if (s->waiting == 0 || is_over(s))
            return fail_without(s);
        s->arena->wait(s->arena->data);
    }
    kiln__selection_restart(&s->selection, incumbent);
    s->level_count = 0;
    s->quota = s->attempts_max = 0;
    set_quota(s, KILN__JUDGED_FROM);
    s->settled = s->is_stale = false;
    s->begun = s->round;
    return warm_up(s);
}

static bool is_hopeless(const search *s, size_t variant)
{
    const kiln__variant_samples *v = &s->selection.variants[variant];
    double limit = s->selection.variants[s->selection.leader].estimate + HOPELESS;
    return v->count == 1 && v->opening > limit && v->samples[0].ratio > limit;
}

/* Whether it is time to look at a variant: seldom, for each look may be wrong. */
static bool is_due(size_t samples)
{
    return samples >= KILN__JUDGED_FROM && (samples & (samples - 1)) == 0;
}

/* Takes those of the round out of the running that are certainly slower. */
static void review(search *s, size_t count)
{
    bool is_updated = false;
    for (size_t i = 0; i < count; i++) {
        size_t variant = s->active[i];
        if (is_hopeless(s, variant))
            s->selection.variants[variant].verdict = KILN__SLOWER;
        if (!is_due(kiln__selection_samples(&s->selection, variant)))
            continue;
        if (!is_updated)
            kiln__selection_update(&s->selection);
        is_updated = true;
        kiln__selection_drop_if_slower(&s->selection, variant);
    }
}

/* Each heat has twice the samples of the one before, later a quarter more. */
static size_t next_quota(size_t quota)
{
    size_t next = quota < DOUBLED_TO ? 2 * quota : quota + quota / 4;
    return next < SAMPLES_MAX ? next : SAMPLES_MAX;
}

static void drop_slower(kiln__selection *selection)
{
    kiln__selection_update(selection);
    for (size_t i = 0; i < selection->count; i++)
        kiln__selection_drop_if_slower(selection, i);
}

/* Those that are there but were not measured. */
static bool is_incomplete(const search *s)
{
    for (size_t i = 0; i < s->selection.count; i++) {
        const kiln__variant_samples *v = &s->selection.variants[i];
        if (s->readiness[i] == KILN__READY && !v->judged &&
            (v->verdict == KILN__TIED || v->verdict == KILN__UNMEASURED))
            return true;
    }
    return false;
}

/* Gives up those whose samples are disturbed again and again; true if others could not be measured yet. */
static bool is_unfinished(search *s)
{
    bool is_unfinished = false;
    for (size_t i = 0; i < s->selection.count; i++) {
        kiln__variant_samples *v = &s->selection.variants[i];
        if (s->readiness[i] != KILN__READY || v->verdict != KILN__TIED || v->judged)
            continue;
        if (v->count < KILN__JUDGED_FROM && v->attempts >= TRIES_MAX)
            v->verdict = KILN__UNMEASURED;
        else
            is_unfinished = true;
    }
    return is_unfinished;
}

static void next_heat(search *s, bool is_selected)
{
    if (is_selected && s->selection.running <= FINALISTS && !s->selection.is_final) {
        kiln__selection_begin_finals(&s->selection);
        s->quota = 0;
        set_quota(s, FINALS_FROM);
    } else {
        set_quota(s, next_quota(s->quota));
    }
}

/* True when there is nothing to be gained by another. */
static bool end_heat(search *s)
{
    kiln__selection *selection = &s->selection;
    size_t pick;
    double regret;
    drop_slower(selection);
    bool is_selected = selection->rivals > FINALISTS;
    if (s->quota >= CUT_FROM)
        kiln__selection_cut(selection, selection->running / 2 > FINALISTS ? selection->running / 2 : FINALISTS);
    kiln__selection_update(selection);
    bool is_clear = kiln__selection_pick(selection, &pick, &regret);
    bool is_honest = selection->is_final || !is_selected || selection->running < 2;
    s->settled = !is_unfinished(s) && is_honest && is_clear;
    if (s->settled)
        return s->waiting == 0;
    if (s->quota >= SAMPLES_MAX)
        return true;
    next_heat(s, is_selected);
    return false;
}

/* In the first heat every variant is waited for, and a late one also when all else is settled. */
static bool shall_wait(const search *s)
{
    return s->waiting > 0 && (s->settled || (s->quota == KILN__JUDGED_FROM && !is_past_half(s)));
}

static kiln_status play(search *s, kiln__search_end *end)
{
    kiln_status status = begin(s);
    while (status == KILN_OK) {
        ask_readiness(s);
        size_t count = gather(s);
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

static kiln__judgement final_verdict(const search *s, size_t variant, size_t pick)
{
    const kiln__variant_samples *v = &s->selection.variants[variant];
    if (variant == pick)
        return KILN__WINNER;
    return v->verdict == KILN__TIED && !v->judged ? KILN__UNMEASURED : v->verdict;
}

static int compare_ranked(const void *a, const void *b)
{
    /* A variant that was told apart may be faster than one that was given up. */
    static const int classes[] = { [KILN__WINNER] = 0, [KILN__TIED] = 1,       [KILN__GIVEN_UP] = 2,
                                   [KILN__SLOWER] = 2, [KILN__UNMEASURED] = 3, [KILN__STRUCK_OUT] = 4 };
    const kiln__ranked *x = a, *y = b;
    if (classes[x->verdict] != classes[y->verdict])
        return classes[x->verdict] - classes[y->verdict];
    if (x->ratio != y->ratio)
        return x->ratio < y->ratio ? -1 : 1;
    return (x->variant > y->variant) - (x->variant < y->variant);
}

static kiln_status conclude(search *s, kiln__search_result *out)
{
    kiln__selection *selection = &s->selection;
    size_t pick;
    double regret;
    out->ranking = kiln__calloc(selection->count, sizeof(*out->ranking));
    if (out->ranking == NULL)
        return kiln__fail_memory(s->report, KILN__STAGE_DEVICE);
    drop_slower(selection);
    if (is_incomplete(s)) {
        kiln__selection_recall(selection);
        drop_slower(selection);
    }
    kiln__selection_update(selection);
    kiln__selection_pick(selection, &pick, &regret);
    for (size_t i = 0; i < selection->count; i++) {
        kiln__ranked *ranked = &out->ranking[i];
        *ranked = (kiln__ranked){ .variant = i,
                                  .verdict = final_verdict(s, i, pick),
                                  .samples = kiln__selection_samples(selection, i) };
        if (ranked->samples > 0 || i == selection->incumbent)
            kiln__selection_ratio(selection, i, &ranked->ratio, &ranked->low, &ranked->high);
    }
    qsort(out->ranking, selection->count, sizeof(*out->ranking), compare_ranked);
    out->count = selection->count;
    out->incumbent = selection->incumbent;
    out->incumbent_ms = s->level_count > 0 ? exp(kiln__median(s->levels, s->level_count)) : 0;
    out->regret = is_incomplete(s) ? INFINITY : expm1(regret);
    out->samples = s->samples;
    out->void_samples = s->void_samples;
    out->rounds = s->round;
    out->rounds_known = s->round - s->begun;
    out->elapsed_ns = elapsed(s);
    return KILN_OK;
}

kiln_status kiln__search(kiln__search_result *out, const kiln__arena *arena, const kiln__search_options *options,
                         kiln_report *report)
{
    search s = { .arena = arena, .budget = options->budget_ns, .stop = options->stop, .report = report };
    memset(out, 0, sizeof(*out));
    if (arena->count == 0)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0, "there are no variants: expected at least one");
    s.begin = arena->now_ns(arena->data);
    kiln_status status = kiln__selection_init(&s.selection, arena->count,
                                              options->tolerance > 0 ? options->tolerance : TOLERANCE, report);
    s.readiness = kiln__calloc(arena->count, sizeof(*s.readiness));
    s.active = kiln__calloc(arena->count, sizeof(*s.active));
    if (status == KILN_OK && (s.readiness == NULL || s.active == NULL))
        status = kiln__fail_memory(report, KILN__STAGE_DEVICE);
    if (status == KILN_OK)
        status = play(&s, &out->end);
    if (status == KILN_OK)
        status = conclude(&s, out);
    if (status != KILN_OK)
        kiln__search_result_fini(out);
    kiln__selection_fini(&s.selection);
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
