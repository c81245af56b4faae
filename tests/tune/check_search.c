/* The search against variants whose true times are known, on a clock that runs as fast as the test can count. */
#include "base/alloc.h"
#include "support/arena.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include "tune/statistics.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

/* Runs of each experiment; fewer where a sanitizer slows everything down. */
static int seeds;

/* One miss is never held against it. */
static void expect_share(int count, int percent)
{
    int misses = seeds * (100 - percent) / 100;
    ck_assert_msg(seeds - count <= (misses > 1 ? misses : 1), "%d of %d are less than %d%%", count, seeds, percent);
}

typedef kiln_test_arena sim;

static kiln__search_result play(sim *s, double budget_ms)
{
    kiln__search_result result;
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_msg(kiln_test_arena_search(s, &result, budget_ms, &report) == KILN_OK, "%s", report.message);
    ck_assert_uint_eq(result.count, s->count);
    ck_assert_int_eq(result.ranking[0].result.verdict, KILN_VERDICT_WINNER);
    return result;
}

static const kiln_variant_result *result_of(const kiln__search_result *result, size_t variant)
{
    for (size_t i = 0; i < result->count; i++)
        if (result->ranking[i].variant == variant)
            return &result->ranking[i].result;
    ck_abort_msg("variant %zu is not ranked", variant);
}

/* How much slower the winner is than the fastest that works. */
static double regret(const sim *s, const kiln__search_result *result)
{
    double best = KILN_TEST_NEVER;
    for (size_t i = 0; i < s->count; i++)
        if (s->out_ms[i] == KILN_TEST_NEVER)
            best = fmin(best, s->truth[i]);
    return s->truth[result->ranking[0].variant] / best - 1;
}

/* ---- Estimates ---- */

START_TEST(test_search__estimate_is_the_middle_and_its_error)
{
    double four[] = { 1, 100, 3, 2 }, ten[] = { 5, 1, 9, 2, 8, 3, 7, 4, 6, -1000 }, one[] = { 7 };
    ck_assert_double_eq_tol(kiln__estimate_of(four, 4).value, 2.5, 1e-12);
    kiln__estimate e = kiln__estimate_of(ten, 10);
    ck_assert_double_eq_tol(e.value, 4.5, 1e-12);
    ck_assert_double_eq(e.freedom, 7);
    /* Drawn in: 1 1 2 3 4 5 6 7 8 8; their squares about the mean 66.5, the share that is kept 0.8. */
    ck_assert_double_eq_tol(e.error, sqrt(66.5 / 9 / 10) / 0.8, 1e-12);
    ck_assert_double_eq(kiln__estimate_of(one, 1).value, 7);
    ck_assert_uint_eq(kiln__estimate_of(one, 0).count, 0);
    ck_assert_double_eq(kiln__median(four, 4), 2.5);
    ck_assert_double_eq(kiln__median(four, 3), 2);
    ck_assert_double_eq(kiln__median(four, 0), 0);
}
END_TEST

START_TEST(test_search__quantiles_are_those_of_the_tables)
{
    static const struct {
        double tail, freedom, value;
    } rows[] = { { 0.025, INFINITY, 1.960 }, { 0.001, INFINITY, 3.090 }, { 0.05, 5, 2.015 },   { 0.025, 10, 2.228 },
                 { 0.005, 5, 4.032 },        { 0.001, 5, 5.893 },        { 0.0005, 8, 5.041 }, { 0.0005, 30, 3.646 } };
    for (int i = 0; i < COUNT(rows); i++)
        ck_assert_double_eq_tol(kiln__t_quantile(rows[i].tail, rows[i].freedom), rows[i].value, 0.01 * rows[i].value);
}
END_TEST

/* The error is honest: an interval of 95% holds the truth in 95 of 100 cases, also with wild samples among them. */
START_TEST(test_search__interval_holds_what_it_promises)
{
    sim s = { 0 };
    int held = 0, rounds = 4000;
    kiln_test_arena_seed(&s, 1);
    for (int i = 0; i < rounds; i++) {
        double samples[24];
        for (int k = 0; k < COUNT(samples); k++)
            samples[k] = kiln_test_uniform(&s) < 0.02 ? 50 * kiln_test_normal(&s) : kiln_test_normal(&s);
        kiln__estimate e = kiln__estimate_of(samples, COUNT(samples));
        held += fabs(e.value) <= e.error * kiln__t_quantile(0.025, e.freedom);
    }
    printf("search: a 95%% interval of 24 samples holds the truth in %.1f%%\n", 100.0 * held / rounds);
    ck_assert_int_ge(held, rounds * 94 / 100);
    ck_assert_int_le(held, rounds * 97 / 100);
}
END_TEST

/* ---- The winner ---- */

typedef struct tally {
    int found, honest, most;
    int votes[KILN_TEST_VARIANTS_MAX];
    double worst, ms, longest_ms, samples;
} tally;

static void count_in(tally *t, const sim *s, const kiln__search_result *result)
{
    double slower = regret(s, result), ms = (double)result->elapsed_ns / 1e6;
    int votes = ++t->votes[result->ranking[0].variant];
    t->found += slower <= 0.005;
    t->honest += slower <= result->regret;
    t->most = votes > t->most ? votes : t->most;
    t->worst = fmax(t->worst, slower);
    t->ms += ms / seeds;
    t->longest_ms = fmax(t->longest_ms, ms);
    t->samples += (double)result->samples / seeds;
}

static void print(const char *what, double jitter, const tally *t)
{
    printf(
        "search: %s, jitter %.1f%%: within 0.5%% of the best in %d of %d (worst %.2f%%), most often chosen %d, true to "
        "its bound %d; %.0f ms and %.0f samples on average, %.0f ms at most\n",
        what, 100 * jitter, t->found, seeds, 100 * t->worst, t->most, t->honest, t->ms, t->samples, t->longest_ms);
}

static const double jitters[] = { 0.005, 0.01 };

static size_t find_best(tally *t, double jitter, int space, int run)
{
    sim s;
    kiln_test_arena_init(&s, 120, jitter);
    kiln_test_arena_spread(&s, space);
    kiln_test_arena_seed(&s, run);
    kiln__search_result result = play(&s, 0);
    ck_assert_int_eq(result.end, KILN__SETTLED);
    count_in(t, &s, &result);
    size_t winner = result.ranking[0].variant;
    kiln__search_result_fini(&result);
    return winner;
}

/* Twice for each of the spaces. Two runs need not agree, for some variants differ by just what does not matter. */
START_TEST(test_search__finds_the_best_of_many)
{
    tally first = { 0 }, second = { 0 };
    int agree = 0;
    for (int number = 1; number <= seeds; number++)
        agree += find_best(&first, jitters[_i], number, 1000 + number) ==
                 find_best(&second, jitters[_i], number, 2000 + number);
    print("120 variants, spread", jitters[_i], &first);
    print("the same once more", jitters[_i], &second);
    printf("search: both chose the same in %d of %d\n", agree, seeds);
    expect_share(first.found, 99);
    expect_share(second.found, 99);
    ck_assert_double_lt(fmax(first.worst, second.worst), 0.01);
    expect_share(first.honest, 95);
    expect_share(second.honest, 95);
    ck_assert_double_lt(first.ms, 3000);
    expect_share(agree, 50);
}
END_TEST

/* Each is 0.05% faster than the one before it: there are always ten within 0.5%. */
START_TEST(test_search__finds_one_of_the_best_where_the_preferred_are_slower)
{
    tally t = { 0 };
    for (int number = 1; number <= seeds; number++) {
        sim s;
        kiln_test_arena_init(&s, 120, jitters[_i]);
        kiln_test_arena_seed(&s, number);
        for (size_t i = 0; i < s.count; i++)
            s.truth[i] = 0.12 * (1 + 0.0005 * (double)(s.count - 1 - i));
        kiln__search_result result = play(&s, 0);
        count_in(&t, &s, &result);
        kiln__search_result_fini(&result);
    }
    print("120 variants, a slope", jitters[_i], &t);
    expect_share(t.found, 99);
    ck_assert_double_lt(t.worst, 0.01);
}
END_TEST

/* 40 of 120 tie, 2% faster than the default. The first of them is to win, however luck has it. */
START_TEST(test_search__chooses_the_same_of_many_that_tie)
{
    tally t = { 0 };
    for (int number = 1; number <= seeds; number++) {
        sim s;
        kiln_test_arena_init(&s, 120, jitters[_i]);
        kiln_test_arena_seed(&s, number);
        for (size_t i = 0; i < s.count; i++)
            s.truth[i] = i % 3 == 1 ? 0.12 : 0.126 + 0.001 * (double)(i % 17);
        s.truth[0] = 0.1224;
        kiln__search_result result = play(&s, 0);
        count_in(&t, &s, &result);
        kiln__search_result_fini(&result);
    }
    print("40 of 120 tie", jitters[_i], &t);
    ck_assert_int_eq(t.found, seeds);
    ck_assert_int_eq(t.most, t.votes[1]);
    expect_share(t.most, 97);
}
END_TEST

START_TEST(test_search__keeps_the_default_where_all_tie)
{
    tally t = { 0 };
    for (int number = 1; number <= seeds; number++) {
        sim s;
        kiln_test_arena_init(&s, 120, jitters[_i]);
        kiln_test_arena_seed(&s, number);
        kiln__search_result result = play(&s, 0);
        count_in(&t, &s, &result);
        kiln__search_result_fini(&result);
    }
    print("all 120 tie", jitters[_i], &t);
    expect_share(t.votes[0], 98);
}
END_TEST

START_TEST(test_search__tells_a_few_apart_quickly)
{
    tally t = { 0 };
    for (int number = 1; number <= seeds; number++) {
        sim s;
        kiln_test_arena_init(&s, 5, jitters[_i]);
        kiln_test_arena_seed(&s, number);
        for (size_t i = 0; i < s.count; i++)
            s.truth[i] = 0.12 * (1 + 0.01 * (double)(4 - i));
        kiln__search_result result = play(&s, 0);
        count_in(&t, &s, &result);
        kiln__search_result_fini(&result);
    }
    print("5 variants, 1% apart", jitters[_i], &t);
    expect_share(t.votes[4], 99);
    ck_assert_double_lt(t.ms, 500);
}
END_TEST

/* All are faster than the default by so much, on a machine that hardly jitters. */
static size_t choose_where_others_are_faster(double by, int run)
{
    sim s;
    kiln_test_arena_init(&s, 12, 0.0005);
    kiln_test_arena_seed(&s, run);
    s.calm = true;
    for (size_t i = 1; i < s.count; i++)
        s.truth[i] = 0.12 * (1 - by);
    kiln__search_result result = play(&s, 0);
    size_t winner = result.ranking[0].variant;
    ck_assert_int_eq(result.end, KILN__SETTLED);
    kiln__search_result_fini(&result);
    return winner;
}

/* However surely less than half of the tolerance is measured, it is not worth another choice. */
START_TEST(test_search__what_does_not_matter_changes_nothing)
{
    for (int number = 1; number <= seeds; number++) {
        ck_assert_uint_eq(choose_where_others_are_faster(0.0008, number), 0);
        ck_assert_uint_eq(choose_where_others_are_faster(0.005, number), 1);
    }
}
END_TEST

/* Not even without noise. */
START_TEST(test_search__four_samples_settle_nothing)
{
    sim s;
    kiln_test_arena_init(&s, 2, 0.001);
    s.truth[1] = 1.2 * s.truth[0];
    kiln__search_result result = play(&s, 0);
    ck_assert_int_eq(result.end, KILN__SETTLED);
    for (size_t i = 0; i < result.count; i++)
        ck_assert_uint_ge(result.ranking[i].result.samples, 8);
    kiln__search_result_fini(&result);
}
END_TEST

START_TEST(test_search__late_comers_are_judged_fairly)
{
    int best_won = 0, tied_lost = 0;
    for (int number = 1; number <= seeds; number++) {
        for (int is_best = 0; is_best <= 1; is_best++) {
            sim s;
            kiln_test_arena_init(&s, 40, 0.01);
            kiln_test_arena_seed(&s, number);
            for (size_t i = 0; i < s.count; i++)
                s.truth[i] = 0.12 * (1.02 + 0.01 * (double)(i % 7));
            s.truth[5] = 0.12 * 1.01;
            s.truth[30] = is_best ? 0.12 : 0.12 * 1.01;
            s.ready_ms[30] = 5000; /* the others go on without it at 4000, and have settled by then */
            s.ready_ms[20] = 300;
            kiln__search_result result = play(&s, 8000);
            ck_assert_int_eq(result.end, KILN__SETTLED);
            best_won += is_best && result.ranking[0].variant == 30;
            tied_lost += !is_best && result.ranking[0].variant == 5;
            kiln__search_result_fini(&result);
        }
    }
    printf("search: one that comes late: the best wins in %d of %d, one that ties does not in %d\n", best_won, seeds,
           tied_lost);
    expect_share(best_won, 99);
    expect_share(tied_lost, 97);
}
END_TEST

/* ---- What is said about the others ---- */

START_TEST(test_search__variants_are_ranked_with_their_intervals)
{
    for (int number = 1; number <= 20; number++) {
        sim s;
        kiln_test_arena_init(&s, 60, 0.01);
        kiln_test_arena_spread(&s, number);
        s.out_ms[7] = s.out_ms[8] = 0;
        kiln__search_result result = play(&s, 0);
        for (size_t i = 0; i < result.count; i++) {
            const kiln_variant_result *p = &result.ranking[i].result;
            if (p->samples > 0)
                ck_assert(p->low <= p->ratio && p->ratio <= p->high);
            if (i > 2 && p->verdict == result.ranking[i - 1].result.verdict)
                ck_assert(p->ratio >= result.ranking[i - 1].result.ratio);
        }
        ck_assert_int_eq(result_of(&result, 7)->verdict, KILN_VERDICT_REJECTED);
        ck_assert_uint_eq(result.ranking[59].variant, 8);
        ck_assert_double_eq(result_of(&result, 0)->ratio, 1);
        ck_assert_double_eq_tol(result.incumbent_ms, s.truth[0], 0.05 * s.truth[0]);
        ck_assert_uint_eq(result.incumbent, 0);
        ck_assert_uint_gt(result.samples, result.void_samples);
        kiln__search_result_fini(&result);
    }
}
END_TEST

/* Finalists are chosen by their samples, so by their luck too; what is said of them is not the better for it. */
START_TEST(test_search__luck_is_no_part_of_what_is_said_of_finalists)
{
    int held = 0, intervals = 0;
    double bias = 0;
    for (int number = 1; number <= seeds; number++) {
        sim s;
        kiln_test_arena_init(&s, 120, 0.005);
        kiln_test_arena_seed(&s, number);
        s.truth[0] = 0.12 * 1.01;
        kiln__search_result result = play(&s, 0);
        for (size_t i = 0; i < result.count; i++) {
            const kiln_variant_result *p = &result.ranking[i].result;
            double truth = s.truth[result.ranking[i].variant] / s.truth[0];
            if (p->verdict != KILN_VERDICT_WINNER && p->verdict != KILN_VERDICT_TIED)
                break;
            intervals++;
            held += p->low <= truth && truth <= p->high;
            bias += log(p->ratio / truth);
        }
        kiln__search_result_fini(&result);
    }
    printf(
        "search: 95%% intervals of finalists hold the truth in %d of %d; their ratios are wrong by %.3f%% on average\n",
        held, intervals, 100 * bias / intervals);
    ck_assert_int_ge(held, intervals * 94 / 100);
    ck_assert_double_lt(fabs(bias / intervals), 0.0002);
}
END_TEST

/* ---- Ends ---- */

START_TEST(test_search__budget_is_kept)
{
    static const double budgets[] = { 40, 60, 100, 300, 600, 1000 };
    double before = 1;
    for (int i = 0; i < COUNT(budgets); i++) {
        double worst = 0, mean = 0;
        for (int number = 1; number <= 50; number++) {
            sim s;
            kiln_test_arena_init(&s, 120, 0.01);
            kiln_test_arena_spread(&s, number);
            kiln__search_result result = play(&s, budgets[i]);
            double ms = (double)result.elapsed_ns / 1e6;
            ck_assert_msg(ms <= budgets[i] + s.longest_call, "%.1f ms of %.1f", ms, budgets[i]);
            ck_assert(result.end == KILN__TIMED_OUT || ms < budgets[i]);
            ck_assert_msg(s.truth[result.ranking[0].variant] <= s.truth[0] * 1.005, "worse than the default");
            worst = fmax(worst, regret(&s, &result));
            mean += regret(&s, &result) / 50;
            kiln__search_result_fini(&result);
        }
        printf("search: in %4.0f ms: %.2f%% slower than the best on average, %.2f%% at worst\n", budgets[i], 100 * mean,
               100 * worst);
        ck_assert_double_lt(mean, before + 0.002);
        before = mean;
    }
    ck_assert_double_lt(before, 0.005);
}
END_TEST

START_TEST(test_search__one_that_never_comes_does_not_hold_up_the_others)
{
    int found = 0;
    for (int number = 1; number <= seeds; number++) {
        sim s;
        kiln_test_arena_init(&s, 120, 0.005);
        kiln_test_arena_spread(&s, number);
        s.ready_ms[77] = KILN_TEST_NEVER;
        s.truth[77] = 1;
        kiln__search_result result = play(&s, 3000);
        found += regret(&s, &result) <= 0.005;
        ck_assert_int_eq(result.end, KILN__TIMED_OUT);
        ck_assert_int_eq(result_of(&result, 77)->verdict, KILN_VERDICT_UNMEASURED);
        kiln__search_result_fini(&result);
    }
    printf("search: one that never comes: found in %d of %d\n", found, seeds);
    expect_share(found, 99);
}
END_TEST

START_TEST(test_search__flag_ends_it_with_what_is_known)
{
    for (int number = 1; number <= 20; number++) {
        atomic_bool stop = false;
        sim s;
        kiln_test_arena_init(&s, 120, 0.01);
        kiln_test_arena_spread(&s, number);
        s.stop = &stop;
        s.stop_ms = 400;
        kiln__search_result result = play(&s, 0);
        ck_assert_int_eq(result.end, KILN__STOPPED);
        ck_assert_double_le((double)result.elapsed_ns / 1e6, 400 + s.longest_call);
        ck_assert_double_lt(regret(&s, &result), 0.05);
        kiln__search_result_fini(&result);
    }
}
END_TEST

static const struct {
    size_t count;
    double ready_ms, out_ms, budget_ms, stop_ms, fail_ms;
    kiln_status status;
    const char *message;
} failures[] = {
    { 0, 0, 0, 0, 0, 0, KILN_EINVAL, "there are no variants" },
    { 30, 100, 200, 0, 0, 0, KILN_ENOENT, "none of the 30 variants can be used" },
    { 30, 0, 0, 0, 0, 0, KILN_ENOENT, "none of the 30 variants can be used" },
    { 30, KILN_TEST_NEVER, KILN_TEST_NEVER, 500, 0, 0, KILN_ETIMEDOUT, "none of the 30 variants was ready in time" },
    { 30, KILN_TEST_NEVER, KILN_TEST_NEVER, 0, 300, 0, KILN_ECANCELED,
      "stopped before any of the 30 variants was ready" },
    { 30, 0, KILN_TEST_NEVER, 0, 0, 1, KILN_EDEVICE, "" },
    { 30, 0, KILN_TEST_NEVER, 0, 0, 300, KILN_EDEVICE, "" },
};

START_TEST(test_search__what_cannot_be_done_is_a_status)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__search_result result;
    atomic_bool stop = false;
    sim s;
    kiln_test_arena_init(&s, failures[_i].count, 0.01);
    kiln_test_arena_seed(&s, 1);
    for (size_t i = 0; i < s.count; i++) {
        s.ready_ms[i] = failures[_i].ready_ms;
        s.out_ms[i] = failures[_i].out_ms;
    }
    if (failures[_i].stop_ms > 0) {
        s.stop = &stop;
        s.stop_ms = failures[_i].stop_ms;
    }
    if (failures[_i].fail_ms > 0)
        s.fail_ms = failures[_i].fail_ms;
    ck_assert_int_eq(kiln_test_arena_search(&s, &result, failures[_i].budget_ms, &report), failures[_i].status);
    ck_assert_msg(strstr(report.message, failures[_i].message) != NULL, "%s", report.message);
    ck_assert_ptr_null(result.ranking);
    ck_assert_uint_eq(result.count, 0);
}
END_TEST

/* ---- What goes wrong on the way ---- */

static const struct {
    const char *what;
    double out_ms[3]; /* of the default, the best and the second best: variants 0, 9 and 4 */
    size_t winner, incumbent;
} struck[] = {
    { "none", { KILN_TEST_NEVER, KILN_TEST_NEVER, KILN_TEST_NEVER }, 9, 0 },
    { "the default at once", { 0, KILN_TEST_NEVER, KILN_TEST_NEVER }, 9, 1 },
    { "the default on the way", { 90, KILN_TEST_NEVER, KILN_TEST_NEVER }, 9, 1 },
    { "the best before it is ready", { KILN_TEST_NEVER, 30, KILN_TEST_NEVER }, 4, 0 },
    { "the best when all others have lost to it", { KILN_TEST_NEVER, 150, KILN_TEST_NEVER }, 4, 0 },
    { "all three, one after the other", { 80, 100, 120 }, 6, 1 },
};

START_TEST(test_search__a_variant_that_is_struck_out_does_not_matter_to_the_others)
{
    sim s;
    kiln_test_arena_init(&s, 12, 0.005);
    kiln_test_arena_seed(&s, 3);
    for (size_t i = 0; i < s.count; i++)
        s.truth[i] = 0.12 * 1.1;
    s.truth[9] = 0.12;
    s.truth[4] = 0.12 * 1.02;
    s.truth[6] = 0.12 * 1.04;
    s.ready_ms[11] = 200; /* keeps the search going when all others have been told apart */
    s.out_ms[0] = struck[_i].out_ms[0];
    s.out_ms[9] = struck[_i].out_ms[1];
    s.out_ms[4] = struck[_i].out_ms[2];
    kiln__search_result result = play(&s, 0);
    ck_assert_msg(result.ranking[0].variant == struck[_i].winner, "%s: %zu wins", struck[_i].what,
                  result.ranking[0].variant);
    ck_assert_uint_eq(result.incumbent, struck[_i].incumbent);
    ck_assert_int_eq(result.end, KILN__SETTLED);
    kiln__search_result_fini(&result);
}
END_TEST

START_TEST(test_search__disturbed_samples_are_left_out)
{
    int found = 0;
    double samples = 0;
    for (int number = 1; number <= seeds; number++) {
        sim s;
        kiln_test_arena_init(&s, 60, 0.01);
        kiln_test_arena_spread(&s, number);
        s.disturbed = 0.2;
        s.always_disturbed = 17;
        s.truth[17] = 0.11;
        kiln__search_result result = play(&s, 0);
        s.truth[17] = 1;
        found += regret(&s, &result) <= 0.005;
        ck_assert_int_eq(result_of(&result, 17)->verdict, KILN_VERDICT_UNMEASURED);
        ck_assert_uint_eq(result_of(&result, 17)->samples, 0);
        ck_assert_int_eq(result.end, KILN__EXHAUSTED);
        ck_assert(isinf(result.regret));
        samples += (double)result.samples / seeds;
        kiln__search_result_fini(&result);
    }
    printf("search: a fifth of all samples disturbed: found in %d of %d, %.0f samples\n", found, seeds, samples);
    expect_share(found, 97);
    ck_assert_double_lt(samples, 6000); /* the one that can never be measured does not go on for ever */
}
END_TEST

START_TEST(test_search__nothing_but_disturbance_comes_to_an_end)
{
    sim s;
    kiln_test_arena_init(&s, 60, 0.01);
    kiln_test_arena_spread(&s, 1);
    s.disturbed = 1;
    kiln__search_result result = play(&s, 0);
    ck_assert_uint_eq(result.ranking[0].variant, 0);
    ck_assert_int_eq(result.end, KILN__EXHAUSTED);
    ck_assert(isinf(result.regret));
    ck_assert_uint_eq(result.samples, result.void_samples);
    ck_assert_int_eq(result.ranking[1].result.verdict, KILN_VERDICT_UNMEASURED);
    kiln__search_result_fini(&result);
}
END_TEST

/* While the clock is down the vector widths of the slower half are as good as any: what is measured then is wrong. */
START_TEST(test_search__rounds_at_another_clock_are_dropped)
{
    int found = 0;
    uint64_t dropped = 0;
    for (int number = 1; number <= seeds; number++) {
        sim s;
        kiln_test_arena_init(&s, 60, 0.005);
        kiln_test_arena_spread(&s, number);
        s.throttle_from = 200;
        s.throttle_to = _i == 0 ? 206 : 1e9; /* a dip of some milliseconds; a lower clock from now on */
        s.throttle_by = 1.4;
        kiln__search_result result = play(&s, 0);
        found += regret(&s, &result) <= 0.005;
        dropped += result.void_samples;
        ck_assert_uint_lt(result.void_samples, result.samples / 2);
        kiln__search_result_fini(&result);
    }
    printf("search: %s: found in %d of %d, %.0f samples dropped on average\n",
           _i == 0 ? "the clock dips" : "the clock falls", found, seeds, (double)dropped / seeds);
    expect_share(found, 99);
    ck_assert_uint_gt(dropped, 60 * (uint64_t)seeds);
}
END_TEST

/* In the middle of the heats, or of the finals: what was known before counts for nothing. */
static const double moves[] = { 45, 60, 90, 140 };

START_TEST(test_search__begins_anew_on_another_basis)
{
    sim s;
    kiln_test_arena_init(&s, 12, 0.005);
    for (size_t i = 1; i < s.count; i++)
        s.truth[i] = 0.12 * (1 - 0.004 * (double)i);
    s.moved_from = moves[_i];
    kiln__search_result result = play(&s, 0);
    ck_assert_double_gt((double)result.elapsed_ns / 1e6, s.moved_from);
    ck_assert_uint_eq(result.ranking[0].variant, 0);
    ck_assert_double_eq_tol(result.incumbent_ms, 0.2, 0.02);
    for (size_t i = 0; i < result.count; i++)
        ck_assert_msg(fabs(result.ranking[i].result.ratio - 1) < 0.01, "%zu: %.3f", result.ranking[i].variant,
                      result.ranking[i].result.ratio);
    kiln__search_result_fini(&result);
}
END_TEST

START_TEST(test_search__same_samples_give_the_same_result)
{
    kiln__search_result results[2];
    for (int i = 0; i < 2; i++) {
        sim s;
        kiln_test_arena_init(&s, 120, 0.01);
        kiln_test_arena_spread(&s, 5);
        results[i] = play(&s, 0);
    }
    ck_assert_uint_eq(results[0].samples, results[1].samples);
    ck_assert_mem_eq(results[0].ranking, results[1].ranking, results[0].count * sizeof(*results[0].ranking));
    kiln__search_result_fini(&results[0]);
    kiln__search_result_fini(&results[1]);
}
END_TEST

static int allocations_left;

static int allow_some(void)
{
    return allocations_left-- <= 0;
}

START_TEST(test_search__every_failed_allocation_is_reported)
{
    kiln_status status = KILN_ENOMEM;
    int attempts = 0;
    for (; status == KILN_ENOMEM; attempts++) {
        kiln__search_result result;
        sim s;
        kiln_test_arena_init(&s, 12, 0.01);
        kiln_test_arena_spread(&s, 1);
        allocations_left = attempts;
        kiln__alloc_set_hook(allow_some);
        status = kiln_test_arena_search(&s, &result, 0, NULL);
        kiln__alloc_set_hook(NULL);
        ck_assert((status == KILN_OK) == (result.ranking != NULL));
        kiln__search_result_fini(&result);
    }
    ck_assert_int_eq(status, KILN_OK);
    ck_assert_int_gt(attempts, 20);
}
END_TEST

static void add_winner_tests(TCase *tcase)
{
    tcase_add_loop_test(tcase, test_search__finds_the_best_of_many, 0, COUNT(jitters));
    tcase_add_loop_test(tcase, test_search__finds_one_of_the_best_where_the_preferred_are_slower, 0, COUNT(jitters));
    tcase_add_loop_test(tcase, test_search__chooses_the_same_of_many_that_tie, 0, COUNT(jitters));
    tcase_add_loop_test(tcase, test_search__keeps_the_default_where_all_tie, 0, COUNT(jitters));
    tcase_add_loop_test(tcase, test_search__tells_a_few_apart_quickly, 0, COUNT(jitters));
    tcase_add_test(tcase, test_search__what_does_not_matter_changes_nothing);
    tcase_add_test(tcase, test_search__four_samples_settle_nothing);
    tcase_add_test(tcase, test_search__late_comers_are_judged_fairly);
}

Suite *kiln_test_tune_search_suite(void)
{
    Suite *suite = suite_create("search");
    seeds = KILN_TEST_SANITIZED ? 20 : 100;
    TCase *tcase = tcase_create("search");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, test_search__estimate_is_the_middle_and_its_error);
    tcase_add_test(tcase, test_search__quantiles_are_those_of_the_tables);
    tcase_add_test(tcase, test_search__interval_holds_what_it_promises);
    add_winner_tests(tcase);
    tcase_add_test(tcase, test_search__variants_are_ranked_with_their_intervals);
    tcase_add_test(tcase, test_search__luck_is_no_part_of_what_is_said_of_finalists);
    tcase_add_test(tcase, test_search__budget_is_kept);
    tcase_add_test(tcase, test_search__one_that_never_comes_does_not_hold_up_the_others);
    tcase_add_test(tcase, test_search__flag_ends_it_with_what_is_known);
    tcase_add_loop_test(tcase, test_search__what_cannot_be_done_is_a_status, 0, COUNT(failures));
    tcase_add_loop_test(tcase, test_search__a_variant_that_is_struck_out_does_not_matter_to_the_others, 0,
                        COUNT(struck));
    tcase_add_test(tcase, test_search__disturbed_samples_are_left_out);
    tcase_add_test(tcase, test_search__nothing_but_disturbance_comes_to_an_end);
    tcase_add_loop_test(tcase, test_search__rounds_at_another_clock_are_dropped, 0, 2);
    tcase_add_loop_test(tcase, test_search__begins_anew_on_another_basis, 0, COUNT(moves));
    tcase_add_test(tcase, test_search__same_samples_give_the_same_result);
    tcase_add_test(tcase, test_search__every_failed_allocation_is_reported);
    suite_add_tcase(suite, tcase);
    return suite;
}
