/* Several devices in one service: each kernel is on the device it was asked for, and what is compiled is shared. */
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <pthread.h>
#include <string.h>

#define SPEC "op=relu6 dtype=f32"

static const kiln_fake *fake;
static kiln_service *service;

static void set_up(void)
{
    kiln_options options = kiln_test_gpu_options();
    fake = kiln_fake_open();
    fake->configure("devices=2");
    service = kiln_test_open(&options);
}

static void tear_down(void)
{
    kiln_fake_live live;
    kiln_close(service);
    fake->counts(&live);
    ck_assert_uint_eq(live.contexts + live.streams + live.libraries + live.allocations, 0);
}

static kiln_device *device_of(kiln_service *owner, const char *name)
{
    kiln_device *device;
    ck_assert_int_eq(kiln_device_open(&device, owner, name, NULL), KILN_OK);
    return device;
}

static kiln_kernel *get_on(const char *name, const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln_kernel *kernel;
    kiln_status status =
        kiln_test_get_on(&kernel, service, name != NULL ? device_of(service, name) : NULL, spec, &report);
    ck_assert_msg(status == KILN_OK, "%s: %s", kiln_status_name(status), report.message);
    kiln_spec_free(spec);
    return kernel;
}

static void check_device(const kiln_kernel *kernel, const char *name)
{
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
    ck_assert_str_eq(info.device, name);
}

static void check_refused(kiln_device *device, const char *text, kiln_status expected, const char *words)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln_kernel *kernel;
    ck_assert_int_eq(kiln_test_get_on(&kernel, service, device, spec, &report), expected);
    ck_assert_ptr_null(kernel);
    ck_assert_msg(strstr(report.message, words) != NULL, "%s", report.message);
    kiln_spec_free(spec);
}

START_TEST(test_devices__each_gpu_has_a_kernel_of_one_compile)
{
    kiln_kernel *first = get_on("cuda:0", SPEC), *second = get_on("cuda:1", SPEC), *again = get_on("cuda:1", SPEC);
    check_device(first, "cuda:0");
    check_device(second, "cuda:1");
    ck_assert_ptr_ne(first, second);
    ck_assert_ptr_eq(second, again);
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_uint_eq(stats.compiles, 1);
    ck_assert_uint_eq(stats.loads, 2);
    ck_assert_uint_eq(stats.hits_loaded, 1);
    kiln_kernel *kernels[] = { first, second };
    const void *in[] = { (void *)0x10000 };
    for (int i = 0; i < 2; i++) {
        kiln_fake_launch launch;
        ck_assert_int_eq(kiln_test_launch(kernels[i], 100, (void *)0x20000, in, NULL, NULL), KILN_OK);
        fake->launches(&launch, 1);
        ck_assert_ptr_eq(launch.context, fake->context_primary(i));
    }
    kiln_kernel_release(first);
    kiln_kernel_release(second);
    kiln_kernel_release(again);
}
END_TEST

START_TEST(test_devices__the_default_by_its_name_and_without)
{
    kiln_kernel *named = get_on("cuda:0", SPEC), *unnamed = get_on(NULL, SPEC), *plain = kiln_test_get(service, SPEC);
    ck_assert_ptr_eq(named, unnamed);
    ck_assert_ptr_eq(named, plain);
    ck_assert_uint_eq(kiln_test_stats(service).loads, 1);
    kiln_kernel_release(named);
    kiln_kernel_release(unnamed);
    kiln_kernel_release(plain);
}
END_TEST

START_TEST(test_devices__the_cpu_beside_gpus)
{
    kiln_kernel *kernel = get_on("cpu", "op=hardsigmoid dtype=f32");
    check_device(kernel, "cpu");
    kiln_test_check_hardsigmoid(kernel);
    kiln_kernel_release(kernel);
    kernel = kiln_test_get(service, "op=hardsigmoid dtype=f32");
    check_device(kernel, "cuda:0");
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_devices__what_does_not_go_together_is_refused)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_service *other = kiln_test_open(&options);
    check_refused(device_of(other, "cuda:1"), SPEC, KILN_EINVAL, "belongs to another service");
    check_refused(device_of(service, "cuda:1"), SPEC " target=cpu", KILN_ETARGET, "does not run on cuda:1");
    check_refused(device_of(service, "cpu"), SPEC " target=sm_90", KILN_ETARGET, "does not run on cpu");
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 0);
    kiln_close(other);
}
END_TEST

static void take_kernel(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln_kernel *kernel = kiln_test_take_kernel(program);
    const char *expected = data;
    if (expected != NULL) {
        ck_assert_msg(status == KILN_OK, "%s", report->message);
        check_device(kernel, expected);
    } else {
        ck_assert_int_eq(status, KILN_EINVAL);
        ck_assert_ptr_nonnull(strstr(report->message, "belongs to another service"));
    }
    kiln_kernel_release(kernel);
}

START_TEST(test_devices__asynchronous_gets)
{
    static char first[] = "cuda:0", second[] = "cuda:1", cpu[] = "cpu";
    char *const expected[] = { first, second, cpu, NULL, second };
    kiln_options options = kiln_test_gpu_options();
    kiln_service *other = kiln_test_open(&options);
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    kiln_queue *queue;
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        kiln_request asked = KILN_INIT(kiln_request);
        asked.spec = spec;
        asked.device = expected[i] != NULL ? device_of(service, expected[i]) : device_of(other, "cuda:0");
        ck_assert_int_eq(kiln_submit(NULL, queue, &asked, NULL, take_kernel, expected[i], NULL), KILN_OK);
    }
    while (kiln_queue_wait(queue, -1) > 0) {
    }
    kiln_queue_close(queue, NULL, NULL);
    kiln_spec_free(spec);
    kiln_close(other);
}
END_TEST

static void *get_often(void *name)
{
    for (int i = 0; i < 200; i++) {
        kiln_kernel *kernel = get_on(name, i % 2 ? SPEC : "op=hardtanh dtype=f32");
        check_device(kernel, name);
        kiln_kernel_release(kernel);
    }
    return NULL;
}

START_TEST(test_devices__threads_get_their_own)
{
    static char names[][8] = { "cuda:0", "cuda:1", "cuda:1", "cuda:0" };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, get_often, names[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 2);
    ck_assert_uint_eq(kiln_test_stats(service).loads, 4);
}
END_TEST

Suite *kiln_test_service_devices_suite(void)
{
    Suite *suite = suite_create("devices");
    TCase *tcase = tcase_create("devices");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_devices__each_gpu_has_a_kernel_of_one_compile);
    tcase_add_test(tcase, test_devices__the_default_by_its_name_and_without);
    tcase_add_test(tcase, test_devices__the_cpu_beside_gpus);
    tcase_add_test(tcase, test_devices__what_does_not_go_together_is_refused);
    tcase_add_test(tcase, test_devices__asynchronous_gets);
    tcase_add_test(tcase, test_devices__threads_get_their_own);
    suite_add_tcase(suite, tcase);
    return suite;
}
