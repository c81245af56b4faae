/* The cap on loaded kernels: which of them go, and when they must not. */
#include "gpu/cuda_symbols.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/suites.h"
#include "support/temp.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CAP = 2, TEXTS = 6, N = 100 };

static void *const out = (void *)0x20000;
static const void *const in[] = { (void *)0x10000 };

static const kiln_fake *fake;
static kiln_service *service;
static kiln_report report = KILN_INIT(kiln_report);

static void set_up(void)
{
    fake = kiln_fake_open();
    kiln_options options = kiln_test_gpu_options();
    options.loaded_max = CAP;
    service = kiln_test_open(&options);
}

static void tear_down(void)
{
    kiln_fake_live live;
    kiln_close(service);
    kiln_report_clear(&report);
    fake->counts(&live);
    ck_assert_uint_eq(live.contexts + live.streams + live.libraries + live.lazy, 0);
}

/* A text whose kernel is known by its block, which the stand-in driver records. */
static const char *text_of(int i)
{
    static _Thread_local char text[64];
    snprintf(text, sizeof(text), "op=relu6 dtype=f32 block=%d", 32 * (i + 1));
    return text;
}

static kiln_kernel *get(int i)
{
    return kiln_test_get(service, text_of(i));
}

static void use(int i)
{
    kiln_kernel_release(get(i));
}

static void call(int i)
{
    kiln_fake_launch launch;
    kiln_status status = kiln_test_call(service, text_of(i), N, out, in, NULL, &report);
    ck_assert_msg(status == KILN_OK, "%s: %s", kiln_status_name(status), report.message);
    fake->launches(&launch, 1);
    ck_assert_uint_eq(launch.block[0], 32u * (unsigned)(i + 1));
}

static void check_kept(size_t libraries, uint64_t loads, uint64_t unloads)
{
    kiln_fake_live live;
    kiln_stats stats = kiln_test_stats(service);
    fake->counts(&live);
    ck_assert_uint_eq(live.libraries, libraries);
    ck_assert_uint_eq(stats.loads, loads);
    ck_assert_uint_eq(stats.unloads, unloads);
}

START_TEST(test_kept__the_least_recently_used_goes)
{
    use(0);
    use(1);
    use(0);
    check_kept(2, 2, 0);
    use(2);
    check_kept(2, 3, 1);
    use(0); /* is there */
    check_kept(2, 3, 1);
    use(1); /* is not, and comes back from the memory store; now 2 goes */
    check_kept(2, 4, 2);
    use(0);
    check_kept(2, 4, 2);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 3);
    use(2);
    check_kept(2, 5, 3);
}
END_TEST

START_TEST(test_kept__what_somebody_holds_never_goes)
{
    kiln_kernel *held[4];
    for (int i = 0; i < 4; i++)
        held[i] = get(i);
    check_kept(4, 4, 0);
    kiln_kernel_release(held[1]);
    kiln_kernel_release(held[3]);
    use(4);
    check_kept(3, 5, 2); /* 0 and 2 are held; the new one was, as it came */
    for (int i = 0; i < 4; i += 2) {
        kiln_fake_launch launch;
        ck_assert_int_eq(kiln_test_launch(held[i], N, out, in, NULL, &report), KILN_OK);
        fake->launches(&launch, 1);
        ck_assert_uint_eq(launch.block[0], 32u * (unsigned)(i + 1));
        use(i); /* is there */
        kiln_kernel_release(held[i]);
    }
    check_kept(3, 5, 2);
    use(5);
    check_kept(2, 6, 4);
}
END_TEST

START_TEST(test_kept__a_called_kernel_comes_back)
{
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 3; i++) {
            call(i);
            call(i);
        }
    check_kept(2, 9, 7);
    ck_assert_uint_eq(kiln_test_stats(service).gets, 9);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 3);
}
END_TEST

/* Spec and text are names of one kernel, which counts once. */
START_TEST(test_kept__names_are_not_counted)
{
    for (int i = 0; i < 2; i++) {
        use(i);
        call(i);
        kiln_kernel_release(kiln_test_get(service, i == 0 ? "block=32 op=relu6 dtype=f32 n=5" : "op=relu6 block=64"));
    }
    check_kept(2, 2, 0);
}
END_TEST

/* What is left of the cap is made good as soon as the device can be waited for. */
START_TEST(test_kept__nothing_goes_while_the_device_cannot_be_waited_for)
{
    use(0);
    use(1);
    fake->fail_call("cuMemAlloc", KILN__CUDA_ERROR_OUT_OF_MEMORY, 0, KILN_FAKE_FOREVER);
    use(2);
    use(3);
    check_kept(4, 4, 0);
    for (int i = 0; i < 4; i++)
        call(i);
    check_kept(4, 4, 0);
    fake->reset();
    use(4);
    check_kept(2, 5, 3);
}
END_TEST

/* Freeing memory waits for it: see table.c. What would break captures is not called. */
START_TEST(test_kept__the_device_is_waited_for_before_a_kernel_goes)
{
    unsigned broke = fake->calls("cuCtxSynchronize");
    call(0);
    call(1);
    unsigned before = fake->calls("cuMemFree");
    call(2);
    ck_assert_uint_eq(fake->calls("cuMemFree"), before + 1);
    call(1);
    ck_assert_uint_eq(fake->calls("cuMemFree"), before + 1);
    ck_assert_uint_eq(fake->calls("cuCtxSynchronize"), broke);
    check_kept(2, 3, 1);
}
END_TEST

START_TEST(test_kept__nothing_goes_during_a_capture)
{
    void *context = fake->context_new(0), *stream = fake->stream_new(context);
    use(0);
    use(1);
    fake->context_set(context);
    for (int mode = 0; mode < 3; mode++) {
        fake->capture_begin(stream, mode);
        use(2 + mode);
        check_kept(3 + (size_t)mode, 3 + (uint64_t)mode, 0);
        ck_assert_int_eq(fake->capture_end(stream), 0);
    }
    use(5);
    check_kept(2, 6, 4);
    fake->context_set(NULL);
    fake->stream_free(stream);
    fake->context_free(context);
}
END_TEST

/* A capture elsewhere goes on: in another context, of any thread. */
START_TEST(test_kept__letting_go_breaks_no_capture)
{
    void *context = fake->context_new(0), *stream = fake->stream_new(context);
    for (int mode = 0; mode < 3; mode++) {
        fake->capture_begin(stream, mode);
        for (int i = 0; i < 3; i++)
            use(i);
        ck_assert_int_eq(fake->capture_end(stream), 0);
    }
    check_kept(2, 9, 7);
    fake->stream_free(stream);
    fake->context_free(context);
}
END_TEST

static _Thread_local unsigned expected_block;

static void check_run(void *data, const kiln_fake_launch *launch)
{
    (void)data;
    ck_assert_uint_eq(launch->block[0], expected_block);
}

static void *call_often(void *data)
{
    unsigned random = (unsigned)(uintptr_t)data;
    for (int i = 0; i < 500; i++) {
        random = random * 1664525u + 1013904223u;
        int which = (int)(random >> 16 & 0xff) % TEXTS;
        expected_block = 32u * (unsigned)(which + 1);
        ck_assert_int_eq(kiln_test_call(service, text_of(which), N, out, in, NULL, NULL), KILN_OK);
    }
    return NULL;
}

/* The stand-in checks every handle: a launch of what another thread unloads would be seen. */
START_TEST(test_kept__threads_call_what_others_let_go_of)
{
    pthread_t threads[4];
    call(0);
    fake->set_run(check_run, NULL);
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_often, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    fake->set_run(NULL, NULL);
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_uint_gt(stats.unloads, 0);
    use(TEXTS);
    kiln_fake_live live;
    fake->counts(&live);
    ck_assert_uint_eq(live.libraries, CAP);
}
END_TEST

START_TEST(test_kept__the_default_cap_is_4096)
{
    kiln_options options = kiln_test_gpu_options();
    ck_assert_uint_eq(options.loaded_max, 0);
    kiln_service *other = kiln_test_open(&options);
    for (int i = 0; i < TEXTS; i++)
        kiln_kernel_release(kiln_test_get(other, text_of(i)));
    ck_assert_uint_eq(kiln_test_stats(other).unloads, 0);
    kiln_close(other);
}
END_TEST

Suite *kiln_test_service_kept_suite(void)
{
    Suite *suite = suite_create("kept");
    TCase *tcase = tcase_create("kept");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_kept__the_least_recently_used_goes);
    tcase_add_test(tcase, test_kept__what_somebody_holds_never_goes);
    tcase_add_test(tcase, test_kept__a_called_kernel_comes_back);
    tcase_add_test(tcase, test_kept__names_are_not_counted);
    tcase_add_test(tcase, test_kept__nothing_goes_while_the_device_cannot_be_waited_for);
    tcase_add_test(tcase, test_kept__the_device_is_waited_for_before_a_kernel_goes);
    tcase_add_test(tcase, test_kept__nothing_goes_during_a_capture);
    tcase_add_test(tcase, test_kept__letting_go_breaks_no_capture);
    tcase_add_test(tcase, test_kept__threads_call_what_others_let_go_of);
    tcase_add_test(tcase, test_kept__the_default_cap_is_4096);
    suite_add_tcase(suite, tcase);
    return suite;
}
