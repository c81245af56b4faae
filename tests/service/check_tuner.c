/* Tuning through the public API, on the cpu. That the winner is the fastest is what the suite search shows. */
#include "service/service.h"
#include "support/harness.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/tune.h>
#include <math.h>
#include <string.h>
#include <time.h>

#define SPEC "op=relu6 dtype=f32 target=cpu"

static kiln_service *service;
static kiln_tuning *tuning;
static kiln_report report = KILN_REPORT_INIT;

static void open_service(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
}

static void close_service(void)
{
    kiln_tuning_free(tuning);
    tuning = NULL;
    kiln_report_clear(&report);
    kiln_close(service);
}

static kiln_status tune(const char *text, const kiln_tune_options *options)
{
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln_status status = kiln_tune(&tuning, service, spec, options, &report);
    ck_assert((status == KILN_OK) == (tuning != NULL));
    kiln_spec_free(spec);
    return status;
}

static kiln_tune_options small(double budget_s)
{
    kiln_tune_options options = KILN_TUNE_OPTIONS_INIT;
    options.elements = 100000;
    options.budget_s = budget_s;
    return options;
}

START_TEST(test_tuner__trials_are_ranked_and_complete)
{
    kiln_tune_options options = small(3);
    kiln_tuning_info info = { .size = sizeof(info) };
    kiln_trial trial = { .size = sizeof(trial) };
    open_service();
    ck_assert_int_eq(tune(SPEC, &options), KILN_OK);
    ck_assert_int_eq(kiln_tuning_get_info(tuning, &info), KILN_OK);
    ck_assert_str_eq(info.device, "cpu");
    ck_assert_uint_eq(info.elements, 100000);
    ck_assert_uint_eq(info.bytes, 800000);
    ck_assert_uint_gt(info.variants, 2);
    ck_assert_str_ne(info.end, "");
    for (uint64_t i = 0; i < info.variants; i++) {
        ck_assert_int_eq(kiln_tuning_trial(tuning, i, &trial), KILN_OK);
        ck_assert((trial.verdict == KILN_VERDICT_WINNER) == (i == 0));
        ck_assert_str_ne(kiln_verdict_name(trial.verdict), "unknown");
        ck_assert_int_eq(trial.registers, -1);
        kiln_spec_free(kiln_test_spec(service, trial.spec));
    }
    ck_assert_int_eq(kiln_tuning_trial(tuning, info.variants, &trial), KILN_ENOENT);
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
    ck_assert_int_eq(tune("template=count op=differs(x,y) dtype=f32 target=cpu", NULL), KILN_ESPEC);
    ck_assert_ptr_nonnull(strstr(report.message, "count"));
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
    options.elements = UINT64_MAX / 4;
    ck_assert_int_eq(tune(SPEC, &options), KILN_ENOMEM);
    ck_assert_int_eq(kiln_tune(&tuning, service, NULL, NULL, &report), KILN_EINVAL);
    close_service();
}
END_TEST

/* A device that fails after so many copies. */
static const kiln__backend_vtable *own;
static kiln__backend_vtable failing;
static int copies_left;

static kiln_status copy_or_fail(kiln_device *device, void *to, const void *from, size_t bytes, kiln_copy_kind kind,
                                void *stream, kiln_report *why)
{
    if (--copies_left < 0)
        return kiln__fail(why, KILN_EDEVICE, KILN__STAGE_DEVICE, 0, "the device is gone");
    return own->copy(device, to, from, bytes, kind, stream, why);
}

START_TEST(test_tuner__a_device_that_fails_ends_it)
{
    kiln_tune_options options = small(60);
    kiln_device *device;
    open_service();
    ck_assert_int_eq(kiln_device_open(&device, service, "cpu", &report), KILN_OK);
    own = device->backend->vtable;
    failing = *own;
    failing.copy = copy_or_fail;
    device->backend->vtable = &failing; /* and stays: threads of the service may still be loading */
    copies_left = 10 * _i;
    time_t start = time(NULL);
    ck_assert_int_eq(tune(SPEC, &options), KILN_EDEVICE);
    ck_assert_str_eq(report.message, "the device is gone");
    ck_assert_int_lt(time(NULL) - start, 30);
    close_service();
}
END_TEST

Suite *kiln_test_tuner_suite(void)
{
    Suite *suite = suite_create("tuner");
    TCase *tcase = tcase_create("tuner");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_tuner__trials_are_ranked_and_complete);
    tcase_add_test(tcase, test_tuner__progress_may_end_it);
    tcase_add_test(tcase, test_tuner__refuses_what_it_cannot_tune);
    tcase_add_loop_test(tcase, test_tuner__a_device_that_fails_ends_it, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite;
}
