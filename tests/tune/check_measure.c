#include "backend/backend.h"
#include "base/alloc.h"
#include "support/suites.h"
#include "tune/measure.h"
#include <string.h>

/* A device whose clock is made up: a submission takes what its contender says. */
typedef struct clocked {
    double first_ms; /* of the first submissions, beyond their others */
    uint32_t slow;   /* so many; 0: one */
    double ms[8];    /* of each submission, cyclic */
    size_t count;
    uint32_t submitted, samples, repeats[64];
    char name;
    kiln_status fail_with;
    uint32_t fail_at; /* submission, from 1; 0 never */
} clocked;

static double now_ms;
static char order[4096];
static size_t order_length;

static kiln_status submit(void *data, void *stream)
{
    clocked *c = data;
    (void)stream;
    c->submitted++;
    if (c->submitted == c->fail_at)
        return c->fail_with;
    now_ms += c->ms[(c->submitted - 1) % c->count] + (c->submitted <= (c->slow > 0 ? c->slow : 1) ? c->first_ms : 0);
    return KILN_OK;
}

static kiln_status take_time(kiln_device *device, kiln__submit fn, void *data, uint32_t repeats, double *out,
                             kiln_report *report)
{
    clocked *c = data;
    double begin = now_ms;
    (void)device;
    c->repeats[c->samples++ % 64] = repeats;
    order[order_length++] = c->name;
    for (uint32_t i = 0; i < repeats; i++) {
        kiln_status status = fn(data, NULL);
        if (status != KILN_OK)
            return kiln__fail(report, status, KILN__STAGE_DEVICE, 0, "submission failed");
    }
    *out = now_ms - begin;
    return KILN_OK;
}

static const kiln__backend_vtable vtable = { .name = "clocked", .time = take_time };
static kiln__backend backend = { &vtable };
static kiln_device device = { .backend = &backend };

static kiln_status measure(kiln_device *on, const kiln_contender *contenders, size_t count, uint32_t warmup,
                           uint32_t rounds, kiln_timing *out, double *samples, kiln_report *report)
{
    const kiln_measure_options options = {
        .size = sizeof(options), .warmup = warmup, .rounds = rounds, .samples = samples
    };
    return kiln__measure(out, on, contenders, count, &options, report);
}

static void begin(void)
{
    order_length = 0;
    now_ms = 0;
}

START_TEST(long_submissions_are_taken_one_by_one)
{
    clocked c = { .ms = { 3, 1, 2 }, .count = 3, .name = 'a' };
    kiln_contender contender = { submit, &c };
    kiln_timing timing;
    double samples[4];
    ck_assert_int_eq(measure(&device, &contender, 1, 3, 4, &timing, samples, NULL), KILN_OK);
    /* two submissions to settle, four to warm up, then every second one counts */
    ck_assert_uint_eq(c.submitted, 14);
    ck_assert(samples[0] == 1 && samples[1] == 3 && samples[2] == 2 && samples[3] == 1);
    ck_assert(timing.median_ms == 1.5 && timing.min_ms == 1 && timing.max_ms == 3);
    ck_assert_uint_eq(timing.samples, 4);
    ck_assert_int_eq(measure(&device, &contender, 1, 3, 3, &timing, NULL, NULL), KILN_OK);
    ck_assert(timing.median_ms == 2 && timing.samples == 3);
}
END_TEST

START_TEST(a_sample_lasts_half_a_millisecond)
{
    static const double lengths[] = { 1e-6, 1e-4, 0.003, 0.02, 0.4999, 0.5, 7 };
    clocked c = { .ms = { lengths[_i] }, .count = 1, .name = 'a' };
    kiln_contender contender = { submit, &c };
    kiln_timing timing;
    for (uint32_t warmup = 0; warmup < 3; warmup++) {
        c.samples = 0;
        ck_assert_int_eq(measure(&device, &contender, 1, warmup, 5, &timing, NULL, NULL), KILN_OK);
        uint32_t repeats = c.repeats[c.samples - 1];
        ck_assert_double_ge(repeats * lengths[_i], 0.5);
        ck_assert(repeats == 1 || repeats * lengths[_i] < 1.0);
        ck_assert_double_eq_tol(timing.median_ms, lengths[_i], lengths[_i] * 1e-6);
    }
}
END_TEST

START_TEST(a_slow_first_submission_misleads_nobody)
{
    for (uint32_t warmup = 0; warmup < 2; warmup++) {
        clocked c = { .first_ms = 500, .ms = { 0.01 }, .count = 1, .name = 'a' };
        kiln_contender contender = { submit, &c };
        kiln_timing timing;
        ck_assert_int_eq(measure(&device, &contender, 1, warmup, 3, &timing, NULL, NULL), KILN_OK);
        ck_assert_double_ge(c.repeats[c.samples - 1] * 0.01, 0.5);
        ck_assert_double_lt(timing.max_ms, 0.011);
    }
}
END_TEST

START_TEST(what_takes_no_time_ends_all_the_same)
{
    clocked c = { .ms = { 0 }, .count = 1, .name = 'a' };
    kiln_contender contender = { submit, &c };
    kiln_timing timing;
    ck_assert_int_eq(measure(&device, &contender, 1, 1, 2, &timing, NULL, NULL), KILN_OK);
    ck_assert(timing.median_ms == 0);
}
END_TEST

/* Over whole squares. Each sample comes behind one that does not count. */
START_TEST(places_and_neighbours_are_shared_equally)
{
    enum { MOST = 8 };
    clocked works[MOST];
    kiln_contender contenders[MOST];
    kiln_timing timings[MOST];
    size_t count = (size_t)_i + 1, rounds = 4 * count, at = 2 * count, places[MOST][MOST] = { 0 },
           behind[MOST][MOST] = { 0 };
    double samples[4 * MOST * MOST];
    for (size_t c = 0; c < count; c++) {
        works[c] = (clocked){ .ms = { (double)(c + 1) }, .count = 1, .name = (char)c };
        contenders[c] = (kiln_contender){ submit, &works[c] };
    }
    ck_assert_int_eq(measure(&device, contenders, count, 1, (uint32_t)rounds, timings, samples, NULL), KILN_OK);
    ck_assert_uint_eq(order_length, at + 2 * rounds * count);
    for (size_t r = 0; r < rounds; r++)
        for (size_t place = 0; place < count; place++, at += 2) {
            size_t c = (size_t)order[at];
            ck_assert_int_eq(order[at], order[at + 1]);
            places[c][place]++;
            if (place > 0)
                behind[c][(size_t)order[at - 1]]++;
        }
    for (size_t c = 0; c < count; c++) {
        for (size_t k = 0; k < count; k++) {
            ck_assert_uint_eq(places[c][k], 4);
            ck_assert_uint_eq(behind[c][k], c == k ? 0 : 4);
        }
        for (size_t r = 0; r < rounds; r++)
            ck_assert(samples[count * r + c] == (double)(c + 1));
        ck_assert(timings[c].median_ms == (double)(c + 1) && timings[c].samples == rounds);
    }
}
END_TEST

START_TEST(equal_contenders_get_equal_samples)
{
    clocked a = { .ms = { 0.01 }, .count = 1, .name = 'a' }, b = a, c = a;
    kiln_contender contenders[] = { { submit, &a }, { submit, &b }, { submit, &c } };
    kiln_timing timings[3];
    b.first_ms = 0.6; /* while it settles */
    b.slow = 2;
    c.ms[0] = 0.007;
    ck_assert_int_eq(measure(&device, contenders, 3, 3, 6, timings, NULL, NULL), KILN_OK);
    ck_assert_uint_ge(a.repeats[a.samples - 1], 50);
    ck_assert_uint_eq(a.repeats[a.samples - 1], b.repeats[b.samples - 1]);
    ck_assert_uint_eq(a.repeats[a.samples - 1], c.repeats[c.samples - 1]);
    ck_assert_uint_eq(a.repeats[a.samples - 2], a.repeats[a.samples - 1]);
}
END_TEST

START_TEST(failures_are_passed_on)
{
    kiln_report report = KILN_INIT(kiln_report);
    for (uint32_t at = 1; at <= 6; at++) {
        clocked a = { .ms = { 1 }, .count = 1, .name = 'a' };
        clocked b = { .ms = { 1 }, .count = 1, .name = 'b', .fail_with = KILN_ELAUNCH, .fail_at = at };
        kiln_contender contenders[] = { { submit, &a }, { submit, &b } };
        kiln_timing timings[2];
        ck_assert_int_eq(measure(&device, contenders, 2, 2, 3, timings, NULL, &report), KILN_ELAUNCH);
        ck_assert_uint_eq(timings[0].samples, 0);
        ck_assert_int_eq(report.status, KILN_ELAUNCH);
    }
    kiln_report_clear(&report);
}
END_TEST

START_TEST(arguments_are_checked)
{
    clocked c = { .ms = { 1 }, .count = 1, .name = 'a' };
    kiln_contender good = { submit, &c }, bad = { NULL, &c };
    kiln_timing timing;
    ck_assert_int_eq(measure(NULL, &good, 1, 1, 1, &timing, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(measure(&device, NULL, 1, 1, 1, &timing, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(measure(&device, &good, 0, 1, 1, &timing, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(measure(&device, &good, 1, 1, 0, &timing, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(measure(&device, &good, 1, 1, 1, NULL, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(measure(&device, &bad, 1, 1, 1, &timing, NULL, NULL), KILN_EINVAL);
    ck_assert_uint_eq(c.submitted, 0);
}
END_TEST

START_TEST(without_options_there_are_two_rounds_to_warm_up_and_thirty_that_count)
{
    clocked c = { .ms = { 1 }, .count = 1, .name = 'a' };
    const kiln_contender contender = { submit, &c };
    kiln_measure_options shorter = KILN_INIT(kiln_measure_options);
    kiln_timing timing;
    ck_assert_int_eq(kiln_measure(&timing, &device, &contender, 1, NULL, NULL), KILN_OK);
    ck_assert_uint_eq(timing.samples, 30);
    ck_assert_uint_eq(c.submitted, 2 * (1 + 31)); /* two to settle, then two a round */
    shorter.size = 0;
    ck_assert_int_eq(kiln_measure(&timing, &device, &contender, 1, &shorter, NULL), KILN_EINVAL);
    ck_assert_uint_eq(c.submitted, 2 * (1 + 31));
}
END_TEST

static int allocations_left;

static int refuse_one(void)
{
    return allocations_left-- == 0;
}

START_TEST(memory_may_run_out)
{
    clocked c = { .ms = { 1 }, .count = 1, .name = 'a' };
    kiln_contender contender = { submit, &c };
    kiln_timing timing;
    for (int nth = 0; nth < 4; nth++) {
        allocations_left = nth;
        kiln__alloc_set_hook(refuse_one);
        kiln_status status = measure(&device, &contender, 1, 1, 1, &timing, NULL, NULL);
        kiln__alloc_set_hook(NULL);
        ck_assert_int_eq(status, KILN_ENOMEM);
    }
}
END_TEST

static kiln_status spin(void *data, void *stream)
{
    volatile unsigned *value = data;
    (void)stream;
    for (unsigned i = 0; i < 1000; i++)
        *value += i;
    return KILN_OK;
}

START_TEST(the_cpu_has_a_clock)
{
    volatile unsigned value = 0;
    kiln_contender contenders[2] = { { spin, (void *)&value }, { spin, (void *)&value } };
    kiln_timing timings[2];
    kiln_device *cpu = NULL;
    kiln__backend *real = kiln__cpu_open(NULL, NULL);
    ck_assert_int_eq(real->vtable->device_open(real, 0, &cpu, NULL), KILN_OK);
    ck_assert_int_eq(measure(cpu, contenders, 2, 2, 9, timings, NULL, NULL), KILN_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_double_gt(timings[i].min_ms, 0);
        ck_assert(timings[i].min_ms <= timings[i].median_ms && timings[i].median_ms <= timings[i].max_ms);
    }
    real->vtable->device_close(cpu);
    real->vtable->close(real);
}
END_TEST

Suite *kiln_test_tune_measure_suite(void)
{
    Suite *suite = suite_create("measure");
    TCase *tests = tcase_create("measure");
    tcase_add_checked_fixture(tests, begin, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, long_submissions_are_taken_one_by_one);
    tcase_add_loop_test(tests, a_sample_lasts_half_a_millisecond, 0, 7);
    tcase_add_test(tests, a_slow_first_submission_misleads_nobody);
    tcase_add_test(tests, what_takes_no_time_ends_all_the_same);
    tcase_add_loop_test(tests, places_and_neighbours_are_shared_equally, 0, 8);
    tcase_add_test(tests, equal_contenders_get_equal_samples);
    tcase_add_test(tests, failures_are_passed_on);
    tcase_add_test(tests, arguments_are_checked);
    tcase_add_test(tests, without_options_there_are_two_rounds_to_warm_up_and_thirty_that_count);
    tcase_add_test(tests, memory_may_run_out);
    tcase_add_test(tests, the_cpu_has_a_clock);
    suite_add_tcase(suite, tests);
    return suite;
}
