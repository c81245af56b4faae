/* One pipeline for every request: how often it asks each tier, and how little a tier needs to be one. */
#include "service/service.h"
#include "support/counting.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SPEC     "op=relu6 dtype=f32 target=cpu"
#define OTHER    "op=hardtanh(-1,5) dtype=f32 target=cpu"
#define GPU_SPEC "op=relu6 dtype=f32 target=sm_90"

/* ---- A tier that keeps one kernel's entry. */
static kiln__blob *kept;
static unsigned asked, put;

static kiln__blob *get(kiln__store *store, const kiln__key *key, bool older, kiln__miss *why)
{
    if (older)
        return NULL;
    asked++;
    (void)store, (void)why;
    return kept != NULL && kiln__key_equal(&kept->entry.key, key) ? kiln__blob_retain(kept) : NULL;
}

static int keep(kiln__store *store, kiln__blob *blob, bool replace)
{
    (void)store, (void)replace;
    if (blob->entry.kind != KILN__ENTRY_KERNEL) /* the toolchain has one, too */
        return 0;
    put++;
    kiln__blob_release(kept);
    kept = kiln__blob_retain(blob);
    return 0;
}

static void forget(kiln__store *store)
{
    (void)store;
}

static const kiln__store_vtable one_vtable = {
    .name = "one", .get = get, .put = keep, .drop = kiln__store_no_drop, .close = forget, .on_disk = true
};
static kiln__store one = { .vtable = &one_vtable };

/* ---- Requests */

static kiln_service *service;

static void open_service(const kiln_options *options)
{
    service = kiln_test_open(options);
    kiln__stores_add(service, &one, KILN_ORIGIN_SHARED);
    asked = put = 0;
}

static void tear_down(void)
{
    kiln__blob_release(kept);
    kept = NULL;
}

START_TEST(test_pipeline__a_tier_serves_what_it_was_given)
{
    kiln_options options = kiln_test_counting_options(0);
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    for (int i = 0; i < 2; i++) {
        options.cache_dir = "";
        open_service(&options);
        kiln_kernel *kernel = kiln_test_get(service, SPEC);
        ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
        ck_assert_str_eq(info.origin_name, i == 0 ? "compiled" : "one");
        ck_assert_uint_eq(kiln_test_stats(service).hits_shared, (unsigned)i);
        kiln_kernel_release(kernel);
        kiln_close(service);
    }
    ck_assert_int_eq(kiln_test_counting_count(), 1);
}
END_TEST

/* One look before the key lock and one after it, and none where the program is loaded. */
START_TEST(test_pipeline__a_cold_get_asks_each_tier_twice)
{
    kiln_options options = kiln_test_counting_options(0);
    open_service(&options);
    kiln_kernel_release(kiln_test_get(service, OTHER)); /* the toolchain is known from now on */
    asked = put = 0;
    for (int i = 0; i < 2; i++) {
        kiln_kernel_release(kiln_test_get(service, SPEC));
        ck_assert_uint_eq(asked, 2);
        ck_assert_uint_eq(put, 1);
    }
    kiln_close(service);
    open_service(&options); /* on the directory that the first has filled, which is asked before */
    kiln_kernel_release(kiln_test_get(service, SPEC));
    ck_assert_uint_eq(asked + put, 0);
    kiln_close(service);
}
END_TEST

/* A build and a get of one spec, one after the other, compile once; the get finds the entry by its first look. */
START_TEST(test_pipeline__a_get_after_a_build_looks_once)
{
    kiln_options options = kiln_test_counting_options(0);
    options.memory_bytes = 1;
    options.cache_dir = "";
    open_service(&options);
    kiln_program_release(kiln_test_build(service, SPEC));
    asked = 0;
    kiln_kernel_release(kiln_test_get(service, SPEC));
    ck_assert_uint_eq(asked, 1);
    ck_assert_int_eq(kiln_test_counting_count(), 1);
    kiln_close(service);
}
END_TEST

static void note(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    (void)report;
    *(kiln_status *)data = status;
    kiln_program_release(program);
}

/* Asks for the loaded program in other words, and waits for the answer. */
static kiln_status submit_whole(kiln_queue *queue, const char *text, kiln_switch strict)
{
    kiln_request request = KILN_INIT(kiln_request);
    kiln_status status = KILN_EIO;
    kiln_spec *spec = kiln_test_spec(service, text);
    request.spec = spec;
    request.strict = strict;
    ck_assert_int_eq(kiln_submit(NULL, queue, &request, NULL, note, &status, NULL), KILN_OK);
    ck_assert_int_eq(kiln_queue_wait(queue, 5000), 1);
    kiln_spec_free(spec);
    return status;
}

static void *build_again(void *data)
{
    kiln_request request = KILN_INIT(kiln_request);
    kiln_program *program;
    kiln_spec *spec = kiln_test_spec(service, data);
    request.spec = spec;
    request.goal = KILN_BUILD;
    ck_assert_int_eq(kiln_get(&program, service, &request, NULL), KILN_OK);
    kiln_program_release(program);
    kiln_spec_free(spec);
    return NULL;
}

/* In no store is its entry, and one compiles it anew: neither is any business of a request for what is loaded. */
START_TEST(test_pipeline__a_loaded_program_needs_no_store_and_no_flight)
{
    kiln_options options = kiln_test_counting_options(0);
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    kiln_queue *queue;
    pthread_t thread;
    char whole[512];
    options.cache_dir = "";
    options.memory_bytes = 1;
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
    kiln_kernel *kernel = kiln_test_get(service, SPEC);
    ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
    snprintf(whole, sizeof(whole), "%s", info.spec);
    kiln_test_counting_hold(NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, build_again, (void *)(uintptr_t)SPEC), 0);
    kiln_test_counting_await(2);
    ck_assert_int_eq(submit_whole(queue, whole, KILN_ON), KILN_OK);
    ck_assert_int_eq(submit_whole(queue, SPEC " elems=64", KILN_DEFAULT), KILN_OK);
    ck_assert_uint_eq(kiln_test_stats(service).strict_refusals, 0);
    ck_assert_uint_eq(kiln_test_stats(service).loads, 1);
    kiln_test_counting_go();
    pthread_join(thread, NULL);
    kiln_kernel_release(kernel);
    kiln_queue_close(queue, NULL, NULL);
    kiln_close(service);
}
END_TEST

/* ---- The threads */

static kiln__workpool pool;
static atomic_bool compiled, gave_up;

static void compile(kiln__job *job, bool stopped)
{
    (void)job;
    atomic_store(&compiled, !stopped);
}

static void wait_aside(kiln__job *job, bool stopped)
{
    (void)job;
    kiln__workpool_aside(&pool, !stopped);
    for (int i = 0; i < 10000 && !atomic_load(&compiled); i++)
        usleep(1000);
    atomic_store(&gave_up, !atomic_load(&compiled));
    kiln__workpool_aside(&pool, false);
}

/* A quick job has no place among the compiles to give away. */
START_TEST(test_pipeline__a_quick_job_that_waits_holds_up_no_compile)
{
    static kiln__job quick = { .run = wait_aside, .lane = KILN__LANE_QUICK };
    static kiln__job slow = { .run = compile, .lane = KILN__LANE_COMPILE };
    kiln__workpool_init(&pool, 1);
    ck_assert(kiln__workpool_submit(&pool, &quick));
    usleep(20000);
    ck_assert(kiln__workpool_submit(&pool, &slow));
    for (int i = 0; i < 20000 && !atomic_load(&compiled) && !atomic_load(&gave_up); i++)
        usleep(1000);
    kiln__workpool_stop(&pool);
    kiln__workpool_fini(&pool);
    ck_assert(atomic_load(&compiled) && !atomic_load(&gave_up));
}
END_TEST

/* ---- Programs */

/* The kernels of a source's program lie in it: any of them keeps it loaded. */
START_TEST(test_pipeline__a_program_is_one_object)
{
    kiln_fake_open();
    kiln_options options = kiln_test_gpu_options();
    kiln_request request = KILN_INIT(kiln_request);
    kiln_program *first, *second;
    kiln_kernel *kernel, *again;
    service = kiln_test_open(&options);
    kiln_spec *spec = kiln_test_spec(service, GPU_SPEC);
    request.spec = spec;
    ck_assert_int_eq(kiln_get(&first, service, &request, NULL), KILN_OK);
    ck_assert_int_eq(kiln_get(&second, service, &request, NULL), KILN_OK);
    ck_assert_ptr_eq(first, second);
    ck_assert_int_eq(kiln_program_kernel(&kernel, first, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_get_kernel(&again, service, spec, NULL), KILN_OK);
    ck_assert_ptr_eq(kernel, again);
    kiln_program_release(first);
    kiln_program_release(second);
    kiln_kernel_release(again);
    kiln_spec_free(spec);
    kiln_close(service);
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
    ck_assert_ptr_nonnull(strstr(info.spec, "op=relu6"));
    kiln_kernel_release(kernel);
}
END_TEST

Suite *kiln_test_service_pipeline_suite(void)
{
    Suite *suite = suite_create("pipeline");
    TCase *tcase = tcase_create("pipeline");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, NULL, tear_down);
    tcase_add_test(tcase, test_pipeline__a_tier_serves_what_it_was_given);
    tcase_add_test(tcase, test_pipeline__a_cold_get_asks_each_tier_twice);
    tcase_add_test(tcase, test_pipeline__a_get_after_a_build_looks_once);
    tcase_add_test(tcase, test_pipeline__a_loaded_program_needs_no_store_and_no_flight);
    tcase_add_test(tcase, test_pipeline__a_quick_job_that_waits_holds_up_no_compile);
    tcase_add_test(tcase, test_pipeline__a_program_is_one_object);
    suite_add_tcase(suite, tcase);
    return suite;
}
