/* Tuning through the public API, on the cpu. That the winner is the fastest is what the suite search shows. */
#include "base/alloc.h"
#include "support/suites.h"
#include "support/temp.h"
#include "support/tuning.h"
#include "tune/tuner.h"
#include <kiln/tune.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SPEC "op=relu6 dtype=f32 target=cpu"

static kiln_status tune(const char *text, const kiln_tune_options *options)
{
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln_status status = kiln_tune(&tuning, service, spec, options, &report);
    ck_assert((status == KILN_OK) == (tuning != NULL));
    kiln_spec_free(spec);
    return status;
}

static kiln_work work; /* of the options that were made last */

static kiln_tune_options small(double budget_s)
{
    kiln_tune_options options = KILN_INIT(kiln_tune_options);
    work = (kiln_work)KILN_INIT(kiln_work);
    work.elements = 100000;
    options.work = &work;
    options.budget_s = budget_s;
    return options;
}

START_TEST(test_tuner__results_are_ranked_and_complete)
{
    kiln_tune_options options = small(3);
    open_service();
    ck_assert_int_eq(tune(SPEC, &options), KILN_OK);
    kiln_tuning_info info = info_of();
    ck_assert_str_eq(info.device, "cpu");
    ck_assert_uint_eq(info.elements, 100000);
    ck_assert_uint_eq(info.bytes, 800000);
    ck_assert_uint_gt(info.variants, 2);
    ck_assert_str_ne(info.end, "");
    for (uint64_t i = 0; i < info.variants; i++) {
        kiln_variant_result result = result_of(i);
        ck_assert((result.verdict == KILN_VERDICT_WINNER) == (i == 0));
        ck_assert_int_eq(strcmp(result.verdict_name, "winner") == 0, i == 0);
        ck_assert_str_ne(result.verdict_name, "");
        ck_assert_str_eq(result.problem, "");
        ck_assert_int_eq(result.registers, -1);
        kiln_spec_free(kiln_test_spec(service, result.spec));
    }
    ck_assert_uint_eq(info.result_count, info.variants);
    close_service();
}
END_TEST

/* What a get of this text takes. */
static bool takes(const char *text, const char *full)
{
    kiln_kernel *kernel = kiln_test_get(service, text);
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
    bool same = strcmp(info.spec, full) == 0;
    kiln_kernel_release(kernel);
    return same;
}

static int count_record(void *data, const kiln_wisdom_record *record)
{
    if (strcmp(record->source, "own") != 0)
        return 0;
    ++*(int *)data;
    ck_assert_str_eq(record->op, "relu6");
    ck_assert_str_eq(record->dtype, "f32");
    ck_assert_str_eq(record->target, "cpu");
    ck_assert_uint_eq(record->log2_n, 17);
    ck_assert_str_ne(record->model, "");
    ck_assert_str_ne(record->toolchain, "");
    ck_assert(record->ms > 0 && record->gbps > 0 && record->ratio > 0 && record->samples > 0);
    ck_assert_uint_ge(record->variants, 2);
    return 0;
}

static int own_records(void)
{
    int count = 0;
    ck_assert_int_eq(kiln_wisdom_visit(service, count_record, &count), KILN_OK);
    return count;
}

/* A machine that is busy with other things may leave too little to learn from; then it says so, and nothing is
 * learnt. */
START_TEST(test_tuner__the_winner_is_what_gets_take)
{
    kiln_tune_options options = small(20);
    open_service();
    ck_assert_int_eq(tune(SPEC, &options), KILN_OK);
    kiln_tuning_info info = info_of();
    kiln_variant_result first = result_of(0);
    int learnt = info.wisdom[0] != '\0';
    ck_assert_int_eq(learnt, strcmp(info.end, "settled") == 0);
    ck_assert_int_eq(learnt, info.not_learnt[0] == '\0');
    ck_assert_int_eq(own_records(), learnt);
    if (learnt) {
        ck_assert(takes(SPEC, first.spec));
        ck_assert_int_eq(access(info.wisdom, F_OK), 0);
    }
    close_service();
}
END_TEST

START_TEST(test_tuner__what_does_not_hold_for_others_is_not_learnt)
{
    static const struct {
        const char *spec, *why;
        int hot;
        kiln_switch learn;
    } cases[] = { { SPEC, "not to be learnt", 0, KILN_OFF },
                  { SPEC, "caches", 1, KILN_DEFAULT },
                  { SPEC " cache=plain", "sets some of the geometry", 0, KILN_ON } };
    open_service();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kiln_tune_options options = small(20);
        work.hot = cases[i].hot;
        options.learn = cases[i].learn;
        ck_assert_int_eq(tune(cases[i].spec, &options), KILN_OK);
        kiln_tuning_info info = info_of();
        ck_assert_str_eq(info.wisdom, "");
        ck_assert_msg(strstr(info.not_learnt, cases[i].why) != NULL, "%s", info.not_learnt);
        forget_tuning();
    }
    ck_assert_int_eq(own_records(), 0);
    close_service();
}
END_TEST

/* The lesson of a search whose outcome is given. */
static kiln_tuning_info teach(const char *best, kiln__search_end end, double regret, uint64_t variants)
{
    kiln_spec *asked = kiln_test_spec(service, SPEC), *spec = kiln_test_spec(service, best);
    kiln_tune_options options = small(0);
    kiln__lesson lesson = {
        &asked->fields, &spec->fields, end, { .ms = 1, .ratio = 0.9, .samples = 40, .variants = variants }
    };
    tuning = kiln__calloc(1, sizeof(*tuning));
    tuning->info = (kiln_tuning_info){ .elements = 100000, .bytes = 800000, .regret = regret };
    ck_assert_int_eq(kiln__tuning_learn(tuning, service, open_cpu(), &options, &lesson, &report), KILN_OK);
    kiln_spec_free(asked);
    kiln_spec_free(spec);
    return tuning->info;
}

#define BEST  "op=relu6 dtype=f32 block=256 elems=8 vector=4 cache=plain target=cpu"
#define WORSE "op=relu6 dtype=f32 block=64 elems=8 vector=4 cache=plain target=cpu"

START_TEST(test_tuner__a_wider_search_is_not_forgotten)
{
    open_service();
    for (int i = 0; i < 6; i++) {
        static const struct {
            const char *best;
            kiln__search_end end;
            double regret;
            uint64_t variants;
            const char *why;
        } cases[] = { { WORSE, KILN__STOPPED, 0.001, 9, "stopped" },
                      { WORSE, KILN__TIMED_OUT, 0.001, 9, "larger budget" },
                      { WORSE, KILN__EXHAUSTED, 0.001, 9, "quieter machine" },
                      { BEST, KILN__SETTLED, 0.004, 5, "" },
                      { WORSE, KILN__SETTLED, 0.001, 4, "compared more variants" },
                      { WORSE, KILN__SETTLED, 0.001, 5, "" } };
        kiln_tuning_info info = teach(cases[i].best, cases[i].end, cases[i].regret, cases[i].variants);
        ck_assert_msg((info.wisdom[0] != '\0') == (cases[i].why[0] == '\0'), "case %d: %s", i, info.not_learnt);
        ck_assert_msg(strstr(info.not_learnt, cases[i].why) != NULL, "case %d: %s", i, info.not_learnt);
        forget_tuning();
        ck_assert_int_eq(takes(SPEC, BEST), i == 3 || i == 4);
        ck_assert_int_eq(takes(SPEC, WORSE), i == 5);
    }
    close_service();
}
END_TEST

/* Ratios are to the template's default, whatever was learnt before. */
START_TEST(test_tuner__wisdom_does_not_steer_a_search)
{
    kiln_tune_options options = small(2);
    int defaults = 0;
    open_service();
    teach(BEST, KILN__SETTLED, 0.001, 9);
    forget_tuning();
    ck_assert(takes(SPEC, BEST));
    ck_assert_int_eq(tune(SPEC, &options), KILN_OK);
    for (uint64_t i = 0; i < info_of().result_count; i++) {
        kiln_variant_result result = result_of(i);
        ck_assert_ptr_nonnull(strstr(result.spec, "block=1024 "));
        if (result.ratio == 1 && result.low == 1 && result.high == 1)
            defaults += strstr(result.spec, "block=1024 elems=64 ") != NULL;
    }
    ck_assert_int_eq(defaults, 1);
    close_service();
}
END_TEST

static int stop_at_once(void *data, const kiln_tuning_info *info)
{
    ck_assert_uint_gt(info->variants, 2);
    ++*(int *)data;
    return 1;
}

START_TEST(test_tuner__progress_may_end_it)
{
    int calls = 0;
    kiln_tune_options options = small(60);
    options.progress = stop_at_once;
    options.data = &calls;
    open_service();
    time_t start = time(NULL);
    kiln_status status = tune(SPEC, &options);
    ck_assert_msg(status == KILN_OK || status == KILN_ECANCELED, "%s", report.message);
    ck_assert_int_ge(calls, 1);
    ck_assert_int_lt(time(NULL) - start, 30);
    close_service();
}
END_TEST

START_TEST(test_tuner__refuses_what_it_cannot_tune)
{
    kiln_tune_options options = small(-1);
    open_service();
    ck_assert_int_eq(tune("template=compare dtype=f32 target=cpu", NULL), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "the kernel has 1 size (n), and 0 are given"));
    ck_assert_int_eq(tune(SPEC, &options), KILN_EINVAL);
    options = small(NAN);
    ck_assert_int_eq(tune(SPEC, &options), KILN_EINVAL);
    options = small(1);
    options.tolerance = 2;
    ck_assert_int_eq(tune(SPEC, &options), KILN_EINVAL);
    options = small(1);
    options.size = 0;
    ck_assert_int_eq(tune(SPEC, &options), KILN_EINVAL);
    options = small(1);
    work.elements = UINT64_MAX / 4;
    ck_assert_int_eq(tune(SPEC, &options), KILN_ENOMEM);
    options = small(1);
    work.size = 0;
    ck_assert_int_eq(tune(SPEC, &options), KILN_EINVAL);
    options = small(1);
    options.learn = (kiln_switch)3;
    ck_assert_int_eq(tune(SPEC, &options), KILN_EINVAL);
    ck_assert_int_eq(kiln_tune(&tuning, service, NULL, NULL, &report), KILN_EINVAL);
    close_service();
}
END_TEST

START_TEST(test_tuner__a_device_that_fails_ends_it)
{
    kiln_tune_options options = small(60);
    open_service();
    fail_after(10 * _i);
    time_t start = time(NULL);
    ck_assert_int_eq(tune(SPEC, &options), KILN_EDEVICE);
    ck_assert_str_eq(report.message, "the device is gone");
    ck_assert_int_lt(time(NULL) - start, 30);
    close_service();
}
END_TEST

Suite *kiln_test_tune_tuner_suite(void)
{
    Suite *suite = suite_create("tuner");
    TCase *tcase = tcase_create("tuner");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_tuner__results_are_ranked_and_complete);
    tcase_add_test(tcase, test_tuner__the_winner_is_what_gets_take);
    tcase_add_test(tcase, test_tuner__what_does_not_hold_for_others_is_not_learnt);
    tcase_add_test(tcase, test_tuner__a_wider_search_is_not_forgotten);
    tcase_add_test(tcase, test_tuner__wisdom_does_not_steer_a_search);
    tcase_add_test(tcase, test_tuner__progress_may_end_it);
    tcase_add_test(tcase, test_tuner__refuses_what_it_cannot_tune);
    tcase_add_loop_test(tcase, test_tuner__a_device_that_fails_ends_it, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite;
}
