/* One compile per key: for the threads of a service by a flight, for the processes of a host by a lock. */
#include "jit/builder.h"
#include "os/cpu.h"
#include "service/get.h"
#include "store/disk.h"
#include "support/counting.h"
#include "support/harness.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPEC  "op=relu6 dtype=f32 target=cpu"
#define OTHER "op=hardtanh(-1,5) dtype=f32 target=cpu"

enum { THREADS = 12 };

static kiln_service *service;

static void *get_one(void *data)
{
    kiln_kernel_release(kiln_test_get(service, data));
    return NULL;
}

static void *build_one(void *data)
{
    kiln_program_release(kiln_test_build(service, data));
    return NULL;
}

static void start(pthread_t *threads, int count, void *(*fn)(void *), const char *spec)
{
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, fn, (void *)spec), 0);
}

static void join(const pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

START_TEST(test_flight__threads_that_want_one_kernel_share_a_compile)
{
    pthread_t threads[THREADS];
    kiln_options options = kiln_test_counting_options(0);
    options.cache_dir = _i == 0 ? options.cache_dir : "";
    service = kiln_test_open(&options);
    kiln_test_counting_hold(NULL);
    start(threads, THREADS / 2, get_one, SPEC);
    start(threads + THREADS / 2, THREADS / 2, build_one, SPEC);
    for (int i = 0; i < 20000 && kiln_test_stats(service).joined < THREADS - 1; i++)
        usleep(1000);
    kiln_test_counting_await(1);
    kiln_test_counting_go();
    join(threads, THREADS);
    ck_assert_int_eq(kiln_test_counting_count(), 1);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 1);
    ck_assert_uint_eq(kiln_test_stats(service).loads, 1);
    kiln_close(service);
}
END_TEST

START_TEST(test_flight__unrelated_keys_do_not_wait_for_each_other)
{
    pthread_t thread;
    kiln_options options = kiln_test_counting_options(0);
    service = kiln_test_open(&options);
    kiln_test_counting_hold("relu6");
    start(&thread, 1, get_one, SPEC);
    kiln_test_counting_await(1);
    kiln_kernel_release(kiln_test_get(service, OTHER));
    kiln_test_counting_go();
    join(&thread, 1);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 2);
    ck_assert_uint_eq(kiln_test_stats(service).joined, 0);
    kiln_close(service);
}
END_TEST

static void *fail_one(void *data)
{
    kiln_kernel *kernel;
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = kiln_test_spec(service, data);
    ck_assert_int_eq(kiln_get_kernel(&kernel, service, spec, &report), KILN_ECOMPILE);
    ck_assert_ptr_null(kernel);
    ck_assert_int_eq(report.status, KILN_ECOMPILE);
    ck_assert_str_eq(report.stage, "compile");
    ck_assert_ptr_nonnull(strstr(report.message, "no object to copy"));
    ck_assert_ptr_nonnull(strstr(report.log, "no object to copy"));
    kiln_report_clear(&report);
    kiln_spec_free(spec);
    return NULL;
}

START_TEST(test_flight__failure_is_shared_and_not_remembered)
{
    pthread_t threads[THREADS];
    kiln_options options = kiln_test_counting_options(0);
    service = kiln_test_open(&options);
    kiln_test_counting_break();
    kiln_test_counting_hold(NULL);
    start(threads, THREADS, fail_one, SPEC);
    for (int i = 0; i < 20000 && kiln_test_stats(service).joined < THREADS - 1; i++)
        usleep(1000);
    kiln_test_counting_go();
    join(threads, THREADS);
    ck_assert_uint_eq(kiln_test_stats(service).compile_failures, 1);
    fail_one(SPEC);
    ck_assert_uint_eq(kiln_test_stats(service).compile_failures, 2);
    kiln_close(service);
}
END_TEST

static void forget(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln_kernel *kernel = kiln_test_take_kernel(program);
    (void)report;
    *(kiln_status *)data = status;
    kiln_kernel_release(kernel);
}

START_TEST(test_flight__waiting_thread_takes_over_what_nobody_has_begun)
{
    kiln_queue *queue;
    kiln_status first = KILN_EIO, second = KILN_EIO;
    kiln_test_one_cpu();
    kiln_options options = kiln_test_counting_options(0);
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
    kiln_spec *spec = kiln_test_spec(service, SPEC), *other = kiln_test_spec(service, OTHER);
    kiln_test_counting_hold("relu6");
    ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, forget, &first), KILN_OK);
    kiln_test_counting_await(1);
    ck_assert_int_eq(kiln_test_submit(NULL, queue, other, NULL, forget, &second), KILN_OK);
    usleep(20000); /* it has been looked up by now and waits for the one place to compile */
    kiln_kernel_release(kiln_test_get(service, OTHER));
    ck_assert_int_eq(kiln_queue_wait(queue, 10000), 1);
    ck_assert_int_eq(second, KILN_OK);
    kiln_test_counting_go();
    ck_assert_int_eq(kiln_queue_wait(queue, 10000), 1);
    ck_assert_int_eq(first, KILN_OK);
    ck_assert_int_eq(kiln_test_counting_count(), 2);
    kiln_spec_free(spec);
    kiln_spec_free(other);
    kiln_queue_close(queue, NULL, NULL);
    kiln_close(service);
}
END_TEST

START_TEST(test_flight__services_share_a_compile_through_the_store)
{
    pthread_t thread;
    kiln_options options = kiln_test_counting_options(0);
    kiln_service *second = kiln_test_open(&options);
    service = kiln_test_open(&options);
    kiln_kernel_release(kiln_test_get(second, OTHER)); /* the toolchain is known from now on */
    kiln_test_counting_hold(NULL);
    start(&thread, 1, get_one, SPEC);
    kiln_test_counting_await(2);
    kiln_queue *queue;
    kiln_status status = KILN_EIO;
    ck_assert_int_eq(kiln_queue_open(&queue, second, NULL), KILN_OK);
    kiln_spec *spec = kiln_test_spec(second, SPEC);
    ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, forget, &status), KILN_OK);
    for (int i = 0; i < 20000 && kiln_test_stats(second).lock_waits == 0; i++)
        usleep(1000);
    kiln_test_counting_go();
    ck_assert_int_eq(kiln_queue_wait(queue, 10000), 1);
    ck_assert_int_eq(status, KILN_OK);
    join(&thread, 1);
    ck_assert_int_eq(kiln_test_counting_count(), 2);
    ck_assert_uint_eq(kiln_test_stats(second).hits_disk, 1);
    ck_assert_uint_eq(kiln_test_stats(second).lock_waits, 1);
    ck_assert_uint_eq(kiln_test_stats(second).lock_timeouts, 0);
    kiln_spec_free(spec);
    kiln_queue_close(queue, NULL, NULL);
    kiln_close(second);
    kiln_close(service);
}
END_TEST

static void *get_unlisted(void *data)
{
    kiln_spec *spec = kiln_test_spec(service, data);
    kiln_kernel *kernel;
    ck_assert_int_eq(kiln__get_unlisted(&kernel, service, NULL, &spec->fields, NULL), KILN_OK);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    return NULL;
}

/* They share the compile, but not the kernel, which a later get, spelt in another way, is to find. */
START_TEST(test_flight__a_get_beside_an_unlisted_one_is_listed)
{
    pthread_t unlisted, listed;
    kiln_options options = kiln_test_counting_options(0);
    service = kiln_test_open(&options);
    kiln_kernel_release(kiln_test_get(service, OTHER)); /* the toolchain is known from now on */
    kiln_test_counting_hold(NULL);
    start(&unlisted, 1, get_unlisted, SPEC);
    kiln_test_counting_await(2);
    start(&listed, 1, get_one, SPEC);
    for (int i = 0; i < 20000 && kiln_test_stats(service).joined == 0; i++)
        usleep(1000);
    kiln_test_counting_go();
    join(&unlisted, 1);
    join(&listed, 1);
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_uint_eq(stats.compiles, 2);
    ck_assert_uint_eq(stats.joined, 1);
    ck_assert_uint_eq(stats.loads, 3);
    kiln_kernel_release(kiln_test_get(service, SPEC " elems=64"));
    ck_assert_uint_eq(kiln_test_stats(service).loads, 3);
    get_unlisted((void *)(uintptr_t)SPEC " elems=64"); /* what is loaded already is given */
    ck_assert_uint_eq(kiln_test_stats(service).loads, 3);
    kiln_close(service);
}
END_TEST

static void *build_in(void *data)
{
    kiln_program_release(kiln_test_build(data, "op=relu6 dtype=f32 target=sm_90"));
    return NULL;
}

/* NVRTC's id comes only from a compile, so that who waits for the first one does not even know what to look for. */
START_TEST(test_flight__first_compile_of_all_is_shared_too)
{
    enum { SERVICES = 4 };
    kiln_service *services[SERVICES];
    pthread_t threads[SERVICES];
    uint64_t compiles = 0;
    kiln_options options = kiln_test_options(), apart = options;
    /* Opens NVRTC beforehand: ThreadSanitizer does not see the loader's lock, under which the threads would. */
    apart.cache_dir = "";
    service = kiln_test_open(&apart);
    build_in(service);
    for (int i = 0; i < SERVICES; i++)
        services[i] = kiln_test_open(&options);
    for (int i = 0; i < SERVICES; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, build_in, services[i]), 0);
    join(threads, SERVICES);
    for (int i = 0; i < SERVICES; i++) {
        compiles += kiln_test_stats(services[i]).compiles;
        kiln_close(services[i]);
    }
    ck_assert_uint_eq(compiles, 1);
    kiln_close(service);
}
END_TEST

START_TEST(test_flight__compile_that_waits_for_a_process_gives_its_place_away)
{
    pthread_t thread;
    kiln_queue *queue;
    kiln_status waits = KILN_EIO, goes = KILN_EIO;
    kiln_test_one_cpu();
    kiln_options options = kiln_test_counting_options(0);
    kiln_service *second = kiln_test_open(&options);
    service = kiln_test_open(&options);
    kiln_test_counting_hold("relu6");
    start(&thread, 1, get_one, SPEC);
    kiln_test_counting_await(1);
    ck_assert_int_eq(kiln_queue_open(&queue, second, NULL), KILN_OK);
    kiln_spec *spec = kiln_test_spec(second, SPEC), *other = kiln_test_spec(second, OTHER);
    ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, forget, &waits), KILN_OK);
    for (int i = 0; i < 20000 && kiln_test_stats(second).lock_waits == 0; i++)
        usleep(1000);
    ck_assert_int_eq(kiln_test_submit(NULL, queue, other, NULL, forget, &goes), KILN_OK);
    ck_assert_int_eq(kiln_queue_wait(queue, 10000), 1);
    ck_assert_int_eq(goes, KILN_OK);
    kiln_test_counting_go();
    ck_assert_int_eq(kiln_queue_wait(queue, 10000), 1);
    ck_assert_int_eq(waits, KILN_OK);
    join(&thread, 1);
    kiln_spec_free(spec);
    kiln_spec_free(other);
    kiln_queue_close(queue, NULL, NULL);
    kiln_close(second);
    kiln_close(service);
}
END_TEST

START_TEST(test_flight__wait_that_outlasts_its_bound_compiles_privately)
{
    pthread_t thread;
    kiln_options options = kiln_test_counting_options(0);
    service = kiln_test_open(&options);
    options.lock_wait_ms = 60;
    kiln_service *second = kiln_test_open(&options);
    kiln_test_counting_hold(NULL);
    start(&thread, 1, get_one, SPEC);
    kiln_test_counting_await(1);
    pthread_t impatient;
    kiln_service *patient = service;
    service = second;
    start(&impatient, 1, get_one, SPEC);
    kiln_test_counting_await(2);
    kiln_test_counting_go();
    join(&impatient, 1);
    join(&thread, 1);
    ck_assert_uint_eq(kiln_test_stats(second).lock_timeouts, 1);
    ck_assert_uint_eq(kiln_test_stats(second).compiles, 1);
    kiln_close(second);
    kiln_close(patient);
}
END_TEST

START_TEST(test_flight__lock_that_cannot_be_trusted_is_not_used)
{
    kiln_test_log log = { 0 };
    kiln_options options = kiln_test_counting_options(0);
    options.log = kiln_test_log_line;
    options.log_data = &log;
    service = kiln_test_open(&options);
    kiln_kernel_release(kiln_test_get(service, OTHER));
    const char *lock = kiln_test_temp_path("store/v1/lock");
    ck_assert_int_eq(access(lock, F_OK), 0);
    ck_assert_int_eq(unlink(lock), 0);
    if (_i == 0)
        ck_assert_int_eq(symlink("/etc/passwd", lock), 0);
    else if (_i == 1)
        ck_assert_int_eq(mkfifo(lock, 0600), 0);
    else
        kiln_test_temp_write("store/v1/lock", "", 0);
    if (_i == 2)
        ck_assert_int_eq(chmod(lock, 0666), 0);
    kiln_kernel_release(kiln_test_get(service, SPEC));
    kiln_kernel_release(kiln_test_get(service, "op=hardsigmoid dtype=f32 target=cpu"));
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 3);
    ck_assert_uint_eq(kiln_test_stats(service).lock_errors, _i == 3 ? 0 : 2);
    ck_assert_int_eq(log.warnings, _i == 3 ? 0 : 1);
    kiln_close(service);
}
END_TEST

/* ---- The lock itself */

static kiln__store *disk;
static kiln__store_counters counters;
static kiln__keylock one, two;
static const uint8_t digest[KILN__DIGEST_SIZE] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1 };
static const uint8_t another[KILN__DIGEST_SIZE] = { 0x12, 0x34 };

static void open_locks(uint32_t wait_ms)
{
    char problem[200];
    disk = kiln__disk_store_open(kiln_test_temp_path("store"), NULL, &counters, problem, sizeof(problem));
    ck_assert_msg(disk != NULL, "%s", problem);
    kiln__keylock_init(&one, disk, wait_ms, NULL);
    kiln__keylock_init(&two, disk, wait_ms, NULL);
}

static void close_locks(void)
{
    disk->vtable->close(disk);
}

START_TEST(test_flight__lock_is_held_by_one_at_a_time_for_each_key)
{
    kiln__keylock_hold a, b, c;
    open_locks(30);
    ck_assert(kiln__keylock_take(&one, digest, &a));
    ck_assert(kiln__keylock_take(&two, another, &b));
    ck_assert(!kiln__keylock_take(&two, digest, &c));
    ck_assert_uint_eq(atomic_load(&two.waits), 1);
    ck_assert_uint_eq(atomic_load(&two.timeouts), 1);
    kiln__keylock_give(&a);
    ck_assert(kiln__keylock_take(&two, digest, &c));
    kiln__keylock_give(&b);
    ck_assert(!kiln__keylock_take(&one, digest, &a));
    kiln__keylock_give(&c);
    ck_assert_int_eq(kiln_test_temp_count("store/v1"), 1);
    close_locks();
}
END_TEST

START_TEST(test_flight__lock_survives_the_removal_of_the_store)
{
    kiln__keylock_hold a, b;
    open_locks(30);
    ck_assert(kiln__keylock_take(&one, digest, &a));
    kiln_test_temp_remove(kiln_test_temp_path("store"));
    ck_assert(kiln__keylock_take(&two, digest, &b)); /* that of the new store */
    ck_assert_int_eq(kiln_test_temp_count("store/v1"), 1);
    kiln__keylock_give(&a);
    ck_assert(!kiln__keylock_take(&one, digest, &a));
    kiln__keylock_give(&b);
    close_locks();
}
END_TEST

static double time_lock_of_killed_process(void)
{
    int ready[2];
    char byte;
    kiln__keylock_hold hold;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (kiln__keylock_take(&one, digest, &hold))
            (void)!write(ready[1], "x", 1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    uint64_t begin = kiln__cpu_now_ns();
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert(kiln__keylock_take(&two, digest, &hold));
    double ms = (double)(kiln__cpu_now_ns() - begin) / 1e6;
    kiln__keylock_give(&hold);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    return ms;
}

/* The best of five: a loaded machine wakes a waiter late. */
START_TEST(test_flight__lock_of_a_killed_process_is_free_at_once)
{
    double least = 1e9;
    open_locks(5000);
    for (int i = 0; i < 5; i++) {
        double ms = time_lock_of_killed_process();
        least = ms < least ? ms : least;
    }
    printf("lock of a killed process: free after %.1f ms\n", least);
    ck_assert(least < 20);
    close_locks();
}
END_TEST

Suite *kiln_test_service_flight_suite(void)
{
    Suite *suite = suite_create("flight");
    TCase *tcase = tcase_create("flight");
    kiln_test_temp_use(tcase);
    tcase_add_loop_test(tcase, test_flight__threads_that_want_one_kernel_share_a_compile, 0, 2);
    tcase_add_test(tcase, test_flight__unrelated_keys_do_not_wait_for_each_other);
    tcase_add_test(tcase, test_flight__failure_is_shared_and_not_remembered);
    tcase_add_test(tcase, test_flight__waiting_thread_takes_over_what_nobody_has_begun);
    tcase_add_test(tcase, test_flight__services_share_a_compile_through_the_store);
    tcase_add_test(tcase, test_flight__a_get_beside_an_unlisted_one_is_listed);
    tcase_add_test(tcase, test_flight__first_compile_of_all_is_shared_too);
    tcase_add_test(tcase, test_flight__compile_that_waits_for_a_process_gives_its_place_away);
    tcase_add_test(tcase, test_flight__wait_that_outlasts_its_bound_compiles_privately);
    tcase_add_loop_test(tcase, test_flight__lock_that_cannot_be_trusted_is_not_used, 0, 4);
    tcase_add_test(tcase, test_flight__lock_is_held_by_one_at_a_time_for_each_key);
    tcase_add_test(tcase, test_flight__lock_survives_the_removal_of_the_store);
    tcase_add_test(tcase, test_flight__lock_of_a_killed_process_is_free_at_once);
    suite_add_tcase(suite, tcase);
    return suite;
}
