/* Dynamic shared memory beyond what is usual: who must be told of it is told once, whoever else launches. */
#include "support/gpu.h"
#include "support/suites.h"
#include <pthread.h>
#include <stdio.h>

enum { KB = 1 << 10, MOST = 227 * KB };

static kiln_device *device;
static kiln__module *module;

/* Kernels of so many kilobytes of static shared memory. */
static void open_with(int kilobytes)
{
    char field[32];
    snprintf(field, sizeof(field), "shared=%d", kilobytes * KB);
    fake->configure(field);
    device = open_device();
    module = load(device);
}

static void close_all(void)
{
    vtable->unload(module);
    vtable->device_close(device);
    tear_down();
}

static kiln_status launch_in(void *stream, uint32_t shared_bytes, kiln_report *why)
{
    uint64_t n = 16;
    void *memory = (void *)0x1000, *arguments[] = { &memory, &memory, &n };
    kiln_grid grid = { .size = sizeof(grid), .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
    grid.shared_bytes = shared_bytes;
    return vtable->functions->launch(module, 0, &grid, arguments, stream, why);
}

static kiln_status launch(uint32_t shared_bytes)
{
    return launch_in(NULL, shared_bytes, &report);
}

START_TEST(test_shared_memory__the_usual_is_not_asked_for)
{
    open_with(16);
    check_ok(launch(0));
    ck_assert_uint_eq(fake->calls("cuDeviceGetAttribute"), 5); /* by the device */
    check_ok(launch(16 * KB));
    check_ok(launch(32 * KB));
    ck_assert_uint_eq(fake->calls("cuKernelSetAttribute"), 0);
    close_all();
}
END_TEST

/* 32 KiB alone would be usual. */
START_TEST(test_shared_memory__static_memory_counts)
{
    open_with(32);
    check_ok(launch(32 * KB));
    check_ok(launch(MOST - 32 * KB));
    check_ok(launch(17 * KB));
    ck_assert_uint_eq(fake->calls("cuKernelSetAttribute"), 1);
    close_all();
}
END_TEST

START_TEST(test_shared_memory__too_much_is_told)
{
    open_with(32);
    check_report(
        launch(MOST), KILN_ELAUNCH,
        "cuda:0: 232448 bytes of dynamic shared memory for a block: this function may have at most 199680 there");
    check_report(launch(UINT32_MAX), KILN_ELAUNCH, "4294967295 bytes of dynamic shared memory");
    check_ok(launch(MOST - 32 * KB));
    close_all();
}
END_TEST

START_TEST(test_shared_memory__occupancy_knows_of_it)
{
    int blocks;
    open_with(32);
    check_ok(vtable->functions->occupancy(module, 0, 128, 64 * KB, &blocks, &report));
    ck_assert_int_eq(blocks, 16);
    check_ok(vtable->functions->occupancy(module, 0, 128, MOST, &blocks, &report));
    ck_assert_int_eq(blocks, 0);
    close_all();
}
END_TEST

START_TEST(test_shared_memory__captures_stay_whole)
{
    open_with(32);
    for (int mode = 0; mode < 3; mode++) {
        void *stream = fake->stream_new(fake->context_primary(0));
        fake->capture_begin(stream, mode);
        check_ok(launch_in(stream, (32 + (uint32_t)mode) * KB, &report));
        ck_assert_int_eq(fake->capture_end(stream), 1);
        fake->stream_free(stream);
    }
    close_all();
}
END_TEST

/* Of a template, whose shared memory is known when it is loaded. */
START_TEST(test_shared_memory__templates_get_theirs)
{
    kiln__rule rule = sample_rule();
    kiln__entry entry = sample_entry(90, NULL);
    bool used_ptx;
    uint64_t n = 16;
    void *memory = (void *)0x1000, *arguments[] = { &memory, &memory, &n };
    open_with(32);
    rule.shared = 48 * KB;
    rule.block[0] = rule.block[1] = rule.block[2] = 1;
    vtable->unload(module);
    check_ok(vtable->load(device, &entry, &rule, &module, &used_ptx, &report));
    ck_assert_uint_eq(fake->calls("cuKernelSetAttribute"), 2); /* kernels */
    check_ok(vtable->launch(module, 1, (const uint32_t[]){ 1, 1, 1 }, arguments, NULL, &report));
    close_all();
}
END_TEST

/* A driver that is too old to be told. */
START_TEST(test_shared_memory__without_the_means)
{
    fake->hide("cuKernelSetAttribute");
    open_with(0);
    check_ok(launch(48 * KB));
    check_report(launch(49 * KB), KILN_ELAUNCH, "at most 49152 there");
    close_all();
}
END_TEST

static void *launch_often(void *data)
{
    void *stream = fake->stream_new(fake->context_primary(0));
    for (int i = 0; i < 300; i++)
        if (launch_in(stream, *(const uint32_t *)data, NULL) != KILN_OK)
            return data;
    fake->stream_free(stream);
    return NULL;
}

/* None takes from the others what it does not need itself. */
START_TEST(test_shared_memory__threads_want_different_amounts)
{
    static uint32_t sizes[] = { 60 * KB, 190 * KB, 10 * KB, 100 * KB };
    pthread_t threads[4];
    open_with(32);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_often, &sizes[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_msg(failed == NULL, "the thread that wants %u bytes failed", (unsigned)sizes[i]);
    }
    close_all();
}
END_TEST

Suite *kiln_test_gpu_shared_memory_suite(void)
{
    Suite *suite = suite_create("shared_memory");
    TCase *tests = tcase_create("shared_memory");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_shared_memory__the_usual_is_not_asked_for);
    tcase_add_test(tests, test_shared_memory__static_memory_counts);
    tcase_add_test(tests, test_shared_memory__too_much_is_told);
    tcase_add_test(tests, test_shared_memory__occupancy_knows_of_it);
    tcase_add_test(tests, test_shared_memory__captures_stay_whole);
    tcase_add_test(tests, test_shared_memory__templates_get_theirs);
    tcase_add_test(tests, test_shared_memory__without_the_means);
    tcase_add_test(tests, test_shared_memory__threads_want_different_amounts);
    suite_add_tcase(suite, tests);
    return suite;
}
