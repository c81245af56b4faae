#include "backend/backend.h"
#include "base/alloc.h"
#include "support/suites.h"
#include "tune/measure.h"
#include <string.h>

/* A device whose clock is made up: a submission takes what its contender says. */
typedef struct clocked {
    double first_ms; /* of the first submission, beyond ms[0] */
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
    now_ms += c->ms[(c->submitted - 1) % c->count] + (c->submitted == 1 ? c->first_ms : 0);
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
    clocked c = { .ms = { 3, 1, 2, 4 }, .count = 4, .name = 'a' };
    kiln_contender contender = { submit, &c };
    kiln_timing timing;
    double samples[4];
    ck_assert_int_eq(measure(&device, &contender, 1, 3, 4, &timing, samples, NULL), KILN_OK);
    /* four submissions to warm up, then 3, 1, 2, 4 */
    ck_assert_uint_eq(c.submitted, 8);
    ck_assert(samples[0] == 3 && samples[1] == 1 && samples[2] == 2 && samples[3] == 4);
    ck_assert(timing.median_ms == 2.5 && timing.min_ms == 1 && timing.max_ms == 4);
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

START_TEST(the_order_rotates)
{
    clocked a = { .ms = { 1 }, .count = 1, .name = 'a' };
    clocked b = { .ms = { 2 }, .count = 1, .name = 'b' };
    clocked c = { .ms = { 3 }, .count = 1, .name = 'c' };
    kiln_contender contenders[] = { { submit, &a }, { submit, &b }, { submit, &c } };
    kiln_timing timings[3];
    double samples[12];
    ck_assert_int_eq(measure(&device, contenders, 3, 1, 4, timings, samples, NULL), KILN_OK);
    ck_assert_uint_eq(order_length, 6 + 12);
    ck_assert_int_eq(strncmp(order + 6, "abcbcacababc", 12), 0);
    for (size_t r = 0; r < 4; r++)
        ck_assert(samples[3 * r] == 1 && samples[3 * r + 1] == 2 && samples[3 * r + 2] == 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert(timings[i].median_ms == (double)(i + 1) && timings[i].samples == 4);
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
    ck_assert_uint_eq(c.submitted, 30 + 3); /* the first warm-up round submits once more */
    shorter.size = 0;
    ck_assert_int_eq(kiln_measure(&timing, &device, &contender, 1, &shorter, NULL), KILN_EINVAL);
    ck_assert_uint_eq(c.submitted, 30 + 3);
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
    for (int nth = 0; nth < 3; nth++) {
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
    tcase_add_test(tests, the_order_rotates);
    tcase_add_test(tests, failures_are_passed_on);
    tcase_add_test(tests, arguments_are_checked);
    tcase_add_test(tests, without_options_there_are_two_rounds_to_warm_up_and_thirty_that_count);
    tcase_add_test(tests, memory_may_run_out);
    tcase_add_test(tests, the_cpu_has_a_clock);
    suite_add_tcase(suite, tests);
    return suite;
}
