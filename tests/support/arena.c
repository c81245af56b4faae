#include "support/arena.h"

#include <check.h>
#include <math.h>
#include <string.h>

double kiln_test_uniform(kiln_test_arena *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return (double)((s->random * 0x2545F4914F6CDD1Dull) >> 11) * 0x1p-53;
}

double kiln_test_normal(kiln_test_arena *s)
{
    double radius = sqrt(-2 * log(kiln_test_uniform(s) + 1e-18));
    return radius * cos(6.283185307179586 * kiln_test_uniform(s));
}

void kiln_test_arena_seed(kiln_test_arena *s, int number)
{
    s->random = (uint64_t)number * 0x9E3779B97F4A7C15ull + 88172645463325252ull;
    for (int i = 0; i < 20; i++)
        kiln_test_uniform(s);
}

static kiln__readiness readiness_of(void *data, size_t variant)
{
    const kiln_test_arena *s = data;
    if (s->now_ms >= s->out_ms[variant])
        return KILN__OUT;
    return s->now_ms >= s->ready_ms[variant] ? KILN__READY : KILN__WAITING;
}

static void wait_a_little(void *data)
{
    kiln_test_arena *s = data;
    s->now_ms += 1;
    if (s->stop != NULL && s->now_ms >= s->stop_ms)
        atomic_store(s->stop, true);
}

static uint64_t now(void *data)
{
    const kiln_test_arena *s = data;
    return (uint64_t)(s->now_ms * 1e6);
}

/* By how much the machine is slower just now, for all alike. */
static double slowdown(kiln_test_arena *s)
{
    double factor = 1;
    if (s->now_ms >= s->throttle_from && s->now_ms < s->throttle_to)
        factor *= s->throttle_by;
    if (s->calm)
        return factor;
    if (s->now_ms >= s->spell_to) {
        s->spell_from = s->now_ms + 400 * kiln_test_uniform(s);
        s->spell_to = s->spell_from + 20 + 40 * kiln_test_uniform(s);
        s->spell_by = 0.02 + 0.02 * kiln_test_uniform(s);
    }
    if (s->now_ms >= s->spell_from)
        factor *= 1 + s->spell_by;
    s->walk += 0.0003 * kiln_test_normal(s);
    return factor * (1 + 0.02 * sin(s->now_ms / 300) + s->walk) * (1 + 0.1 * exp(-s->now_ms / 100));
}

static uint32_t basis(void *data)
{
    const kiln_test_arena *s = data;
    return s->now_ms >= s->moved_from;
}

static double sample(kiln_test_arena *s, size_t variant)
{
    double truth = basis(s) != 0 ? 0.2 : s->truth[variant], launches = ceil(0.5 / truth);
    double ms = truth * launches * slowdown(s) * exp(s->jitter * kiln_test_normal(s));
    if (kiln_test_uniform(s) < s->outliers)
        ms *= 3;
    if (!s->calm && !s->touched[variant])
        ms *= 1.3;
    s->touched[variant] = true;
    ms = floor(ms * 1024 + 0.5) / 1024;
    s->now_ms += ms + 0.03;
    bool is_disturbed =
        variant == s->always_disturbed || kiln_test_uniform(s) < s->disturbed || s->now_ms >= s->out_ms[variant];
    return is_disturbed ? NAN : ms / launches;
}

static kiln_status take(void *data, const size_t *variants, size_t count, double *out_ms)
{
    kiln_test_arena *s = data;
    double begin = s->now_ms;
    if (s->now_ms >= s->fail_ms)
        return KILN_EDEVICE;
    for (size_t i = 0; i < count; i++) {
        ck_assert_msg(s->now_ms >= s->ready_ms[variants[i]], "variant %zu is timed before it is ready", variants[i]);
        out_ms[i] = sample(s, variants[i]);
    }
    s->longest_call = fmax(s->longest_call, s->now_ms - begin);
    if (s->stop != NULL && s->now_ms >= s->stop_ms)
        atomic_store(s->stop, true);
    return KILN_OK;
}

void kiln_test_arena_init(kiln_test_arena *s, size_t count, double jitter)
{
    memset(s, 0, sizeof(*s));
    s->count = count;
    s->jitter = jitter;
    s->outliers = 0.005;
    s->always_disturbed = SIZE_MAX;
    kiln_test_arena_seed(s, 0);
    s->fail_ms = s->throttle_from = s->moved_from = KILN_TEST_NEVER;
    for (size_t i = 0; i < count; i++) {
        s->truth[i] = 0.12;
        s->ready_ms[i] = 35.0 * (double)(i / 16 + 1);
        s->out_ms[i] = KILN_TEST_NEVER;
    }
}

void kiln_test_arena_spread(kiln_test_arena *s, int number)
{
    kiln_test_arena_seed(s, number);
    for (size_t i = 0; i < s->count; i++) {
        double kind = kiln_test_uniform(s), u = kiln_test_uniform(s);
        double slower = kind < 0.1    ? 0.01 * u
                        : kind < 0.35 ? 0.01 + 0.04 * u
                        : kind < 0.75 ? 0.05 + 0.45 * u
                                      : 0.5 + 3 * u;
        s->truth[i] = 0.12 * (1 + slower);
    }
    s->truth[0] = 0.12 * (1 + 0.06 * kiln_test_uniform(s));
}

kiln_status kiln_test_arena_search(kiln_test_arena *s, kiln__search_result *out, double budget_ms, kiln_report *report)
{
    kiln__arena arena = { s->count, readiness_of, wait_a_little, take, now, basis, s };
    kiln__search_options options = { (uint64_t)(budget_ms * 1e6), 0, s->stop };
    return kiln__search(out, &arena, &options, report);
}
