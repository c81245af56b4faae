/* Asynchronous gets of programs: each callback exactly once, on the dispatching thread, never inside the call, and
 * never older than the call. The compiler is the test's own, the driver the stand-in. */
#include "base/alloc.h"
#include "service/service.h"
#include "support/counting.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/reading.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kiln.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

enum { SLOTS = 512, MANY = 200, STARTS = 20, WAIT_MS = 30000 };

/* What a callback was told. */
typedef struct seen {
    int calls, order;
    kiln_status status;
    kiln_program *program;
    char message[512], log[256];
    pthread_t thread;
} seen;

static kiln_service *service;
static kiln_queue *queue;
static kiln_source source;
static char directory[256];
static const char *const directories[] = { directory };
static seen slots[SLOTS];
static int called;
static bool asking;

static void open_all(void)
{
    kiln_options options = kiln_test_gpu_options();
    service = kiln_test_open(&options);
    kiln_test_reading_install(service);
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
}

static void set_up(void)
{
    ck_assert_int_eq(mkdir(kiln_test_temp_path("inc"), 0700), 0);
    snprintf(directory, sizeof(directory), "%s", kiln_test_temp_path("inc"));
    source = (kiln_source)KILN_INIT(kiln_source);
    source.name = "user.cu";
    source.text = "#include \"a.h\"\n";
    source.include_dirs = directories;
    source.include_dir_count = 1;
    source.cuda_headers = KILN_OFF;
    memset(slots, 0, sizeof(slots));
    called = 0;
    kiln_test_temp_write("inc/a.h", "state 1;\n", 9);
}

static void tear_down(void)
{
    for (int i = 0; i < SLOTS; i++)
        kiln_program_release(slots[i].program);
    kiln_queue_close(queue, NULL, NULL);
    kiln_close(service);
    queue = NULL;
    service = NULL;
}

static void note(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    seen *slot = data;
    ck_assert(!asking);
    ck_assert_int_eq(status == KILN_OK, program != NULL);
    slot->calls++;
    slot->order = called++;
    slot->status = status;
    slot->program = program;
    slot->thread = pthread_self();
    snprintf(slot->message, sizeof(slot->message), "%s", report->message);
    snprintf(slot->log, sizeof(slot->log), "%s", report->log != NULL ? report->log : "");
}

static kiln_ticket ask_with(int priority, uint32_t timeout_ms, int i)
{
    kiln_ticket request;
    kiln_submit_options options = KILN_INIT(kiln_submit_options);
    options.priority = priority;
    options.timeout_ms = timeout_ms;
    asking = true;
    ck_assert_int_eq(kiln_test_submit_source(&request, queue, &source, &options, note, &slots[i]), KILN_OK);
    asking = false;
    return request;
}

static kiln_ticket ask(int i)
{
    return ask_with(0, 0, i);
}

/* A source unlike the others. */
static void use_distinct(int i)
{
    static char texts[SLOTS][64];
    snprintf(texts[i], sizeof(texts[i]), "#include \"a.h\"\n// %d\n", i);
    source.text = texts[i];
}

static int finish(void)
{
    int count = 0;
    for (int now; (now = kiln_queue_wait(queue, WAIT_MS)) > 0;)
        count += now;
    return count;
}

static void expect(int i, kiln_status status, const char *text)
{
    ck_assert_int_eq(slots[i].calls, 1);
    ck_assert_msg(slots[i].status == status, "%d: %s: %s", i, kiln_status_name(slots[i].status), slots[i].message);
    ck_assert_msg(strstr(slots[i].message, text) != NULL, "%d: '%s' is not in: %s", i, text, slots[i].message);
    ck_assert(pthread_equal(slots[i].thread, pthread_self()));
}

static kiln_program *get_blocking(void)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_program *program;
    kiln_status status = kiln_test_get_source(&program, service, NULL, &source, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    return program;
}

/* ---- What comes */

/* The caller's memory is its own again after the call, and a relative directory is that of the call. */
START_TEST(test_source_async__program_comes_by_callback_and_is_found_again)
{
    static const char wanted[] = "scale", text[] = "#include \"a.h\"\n";
    char *copy = strdup(text), *function = strdup(wanted), *relative = strdup("inc");
    const char *functions[] = { function }, *relatives[] = { relative };
    open_all();
    ck_assert_int_eq(chdir(kiln_test_temp_dir()), 0);
    source.text = copy;
    source.functions = functions;
    source.function_count = 1;
    source.include_dirs = relatives;
    ask(0);
    memset(copy, '#', strlen(copy));
    memset(function, '#', strlen(function));
    memset(relative, '#', strlen(relative));
    free(copy);
    free(function);
    free(relative);
    memset(functions, 0, sizeof(functions));
    memset(relatives, 0, sizeof(relatives));
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(slots[0].calls, 0);
    ck_assert_int_eq(finish(), 1);
    expect(0, KILN_OK, "");
    kiln_kernel *found;
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    ck_assert_int_eq(kiln_program_kernel(&found, slots[0].program, "scale", NULL), KILN_OK);
    ck_assert_int_eq(kiln_kernel_get_info(found, &info), KILN_OK);
    ck_assert_int_eq(info.origin, KILN_ORIGIN_COMPILED);
    kiln_kernel_release(found);
    source.text = text;
    source.functions = (const char *const[]){ wanted };
    source.include_dirs = directories;
    ask(1);
    ck_assert_int_eq(finish(), 1);
    expect(1, KILN_OK, "");
    ck_assert_ptr_eq(slots[0].program, slots[1].program);
    kiln_program *blocking = get_blocking();
    ck_assert_ptr_eq(slots[0].program, blocking);
    kiln_program_release(blocking);
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_uint_eq(stats.compiles, 1);
    ck_assert_uint_eq(stats.loads, 1);
    ck_assert_uint_eq(stats.gets, 3);
}
END_TEST

START_TEST(test_source_async__many_of_one_source_are_one_compile)
{
    open_all();
    kiln_test_reading_hold();
    for (int i = 0; i < MANY; i++)
        ask(i);
    kiln_test_reading_await(1);
    kiln_test_reading_go();
    ck_assert_int_eq(finish(), MANY);
    for (int i = 0; i < MANY; i++) {
        expect(i, KILN_OK, "");
        ck_assert_ptr_eq(slots[i].program, slots[0].program);
    }
    ck_assert_int_eq(kiln_test_reading_count(), 1);
    ck_assert_uint_eq(kiln_test_stats(service).loads, 1);
}
END_TEST

/* Threads of the pool find it in the store at the same time. */
START_TEST(test_source_async__many_of_one_stored_source_are_one_load)
{
    open_all();
    ask(0);
    ck_assert_int_eq(finish(), 1);
    for (int start = 0; start < STARTS; start++) {
        tear_down();
        memset(slots, 0, sizeof(slots));
        open_all();
        for (int i = 0; i < MANY; i++)
            ask(i);
        ck_assert_int_eq(finish(), MANY);
        for (int i = 0; i < MANY; i++)
            ck_assert_ptr_eq(slots[i].program, slots[0].program);
        ck_assert_uint_eq(kiln_test_stats(service).loads, 1);
        ck_assert_uint_eq(kiln_test_stats(service).compiles, 0);
    }
}
END_TEST

START_TEST(test_source_async__warnings_and_failures_come_with_the_log)
{
    static const char *const option[] = { "-gen-opt-lto" }, *const nowhere[] = { "/nonexistent" };
    open_all();
    kiln_test_temp_write("inc/a.h", "#warning\n", 9);
    ask(0);
    ck_assert_int_eq(finish(), 1);
    expect(0, KILN_OK, "");
    ck_assert_str_eq(slots[0].log, "user.cu(1): warning: as asked for\n");
    kiln_test_temp_write("inc/a.h", "#error\n", 7);
    ask(1);
    ck_assert_int_eq(finish(), 1);
    expect(1, KILN_ECOMPILE, "user.cu(1): error: #error");
    ck_assert_ptr_nonnull(strstr(slots[1].log, "1 error detected"));
    source.options = option;
    source.option_count = 1;
    ask(2);
    source.option_count = 0;
    source.include_dirs = nowhere;
    ask(3);
    source.include_dirs = directories;
    source.target = "cpu";
    ask(4);
    ck_assert_int_eq(finish(), 3);
    expect(2, KILN_EINVAL, "option '-gen-opt-lto' is not taken");
    expect(3, KILN_EINVAL, "directory '/nonexistent' cannot be used");
    expect(4, KILN_ETARGET, "not for the cpu");
}
END_TEST

START_TEST(test_source_async__wrong_arguments_are_refused)
{
    open_all();
    kiln_ticket request = 1;
    kiln_source sizeless = source;
    sizeless.size = 0;
    ck_assert_int_eq(kiln_test_submit_source(&request, NULL, &source, NULL, note, NULL), KILN_EINVAL);
    ck_assert_uint_eq(request, 0);
    ck_assert_int_eq(kiln_test_submit_source(NULL, queue, NULL, NULL, note, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_test_submit_source(NULL, queue, &source, NULL, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_test_submit_source(NULL, queue, &sizeless, NULL, note, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_queue_wait(queue, 0), 0);
}
END_TEST

/* While one compiles the header as it was, it is edited: who asks then gets what it is now, and who asked before
 * what it was. */
START_TEST(test_source_async__no_result_is_older_than_the_call)
{
    open_all();
    kiln_test_temp_write("inc/a.h", "#error\n", 7);
    kiln_test_reading_hold();
    ask(0);
    kiln_test_reading_await(1);
    kiln_test_temp_write("inc/a.h", "state 2;\n", 9);
    for (int i = 1; i < 20; i++)
        ask(i);
    kiln_test_reading_go();
    ck_assert_int_eq(finish(), 20);
    expect(0, KILN_ECOMPILE, "#error");
    for (int i = 1; i < 20; i++)
        expect(i, KILN_OK, "");
    ck_assert_int_eq(kiln_test_reading_count(), 2);
    kiln_program *now = get_blocking();
    ck_assert_ptr_eq(slots[1].program, now);
    kiln_program_release(now);
}
END_TEST

/* ---- Counting */

/* A new service, whose driver refuses so many of the next images, asks for what an earlier one has stored. */
static kiln_stats get_refused(unsigned refusals, bool blocking)
{
    open_all();
    kiln_program_release(get_blocking());
    tear_down();
    open_all();
    kiln_fake_open()->fail_call("cuLibraryLoadData", 1, 0, refusals);
    if (blocking) {
        kiln_program_release(get_blocking());
    } else {
        ask(0);
        ck_assert_int_eq(finish(), 1);
        expect(0, KILN_OK, "");
    }
    return kiln_test_stats(service);
}

static uint64_t hits(const kiln_stats *stats)
{
    return stats->hits_loaded + stats->hits_memory + stats->hits_disk + stats->hits_pack + stats->hits_shared;
}

START_TEST(test_source_async__stored_program_that_does_not_load_is_no_hit)
{
    const bool blocking = _i == 0;
    const kiln_stats stats = get_refused(blocking ? 1 : 2, blocking);
    ck_assert_uint_eq(stats.compiles, 1);
    ck_assert_uint_eq(stats.misses_unloadable, 1);
    ck_assert_uint_eq(hits(&stats), 0);
}
END_TEST

START_TEST(test_source_async__stored_program_that_loads_the_second_time_is_one_hit)
{
    const kiln_stats stats = get_refused(1, false);
    ck_assert_uint_eq(stats.compiles, 0);
    ck_assert_uint_eq(hits(&stats), 1);
}
END_TEST

/* Above the cap the program goes that was used longest ago, and not the one that came first. */
START_TEST(test_source_async__used_program_stays_loaded)
{
    kiln_options options = kiln_test_gpu_options();
    options.loaded_max = 2;
    service = kiln_test_open(&options);
    kiln_test_reading_install(service);
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
    for (int i = 0; i < 2; i++) {
        use_distinct(i);
        kiln_program_release(get_blocking());
    }
    use_distinct(0);
    kiln_program_release(get_blocking());
    use_distinct(2);
    kiln_program_release(get_blocking());
    ck_assert_uint_eq(kiln_test_stats(service).unloads, 1);
    use_distinct(0);
    kiln_program_release(get_blocking());
    ck_assert_uint_eq(kiln_test_stats(service).loads, 3);
    use_distinct(1);
    kiln_program_release(get_blocking());
    ck_assert_uint_eq(kiln_test_stats(service).loads, 4);
}
END_TEST

/* ---- Giving up, priorities */

START_TEST(test_source_async__cancelled_before_its_compile_it_is_never_compiled)
{
    kiln_test_one_cpu();
    open_all();
    kiln_test_reading_hold();
    use_distinct(0);
    ask(0);
    kiln_test_reading_await(1);
    use_distinct(1);
    kiln_ticket alone = ask(1);
    use_distinct(2);
    kiln_ticket one_of_two = ask(2);
    ask(3);
    kiln_cancel(queue, alone);
    kiln_cancel(queue, one_of_two);
    kiln_cancel(queue, one_of_two);
    ck_assert_int_eq(slots[1].calls, 0);
    ck_assert_int_eq(kiln_queue_wait(queue, 0), 2);
    expect(1, KILN_ECANCELED, "cancelled by kiln_cancel");
    expect(2, KILN_ECANCELED, "cancelled by kiln_cancel");
    kiln_test_reading_go();
    ck_assert_int_eq(finish(), 2);
    expect(0, KILN_OK, "");
    expect(3, KILN_OK, "");
    ck_assert_int_eq(kiln_test_reading_count(), 2);
    ck_assert_uint_eq(kiln_test_stats(service).cancelled, 2);
}
END_TEST

START_TEST(test_source_async__cancelled_during_its_compile_it_fills_the_cache)
{
    open_all();
    kiln_test_reading_hold();
    kiln_ticket request = ask(0);
    kiln_test_reading_await(1);
    kiln_cancel(queue, request);
    ck_assert_int_eq(finish(), 1);
    expect(0, KILN_ECANCELED, "");
    kiln_test_reading_go();
    kiln_program_release(get_blocking());
    ck_assert_int_eq(kiln_test_reading_count(), 1);
}
END_TEST

START_TEST(test_source_async__deadline_ends_the_wait_and_not_the_compile)
{
    kiln_test_one_cpu();
    open_all();
    kiln_test_reading_hold();
    ask_with(0, 0, 0);
    kiln_test_reading_await(1);
    ask_with(0, 60, 1);
    use_distinct(2);
    ask_with(0, 60, 2); /* its turn has not come when it expires */
    while (called < 2)
        ck_assert_int_ge(kiln_queue_wait(queue, WAIT_MS), 1);
    expect(1, KILN_ETIMEDOUT, "not done by its deadline");
    expect(2, KILN_ETIMEDOUT, "not done by its deadline");
    kiln_test_reading_go();
    ck_assert_int_eq(finish(), 1);
    expect(0, KILN_OK, "");
    ck_assert_uint_eq(kiln_test_stats(service).timed_out, 2);
}
END_TEST

/* Waits until so many have looked and wait for a place to compile. */
static void await_compiles(size_t count)
{
    size_t waiting = 0;
    for (int i = 0; i < WAIT_MS && waiting < count; i++) {
        usleep(1000);
        pthread_mutex_lock(&service->pool.lock);
        waiting = service->pool.lanes[KILN__LANE_COMPILE].count;
        pthread_mutex_unlock(&service->pool.lock);
    }
    ck_assert_uint_eq(waiting, count);
}

START_TEST(test_source_async__higher_priorities_are_compiled_first)
{
    static const int priorities[] = { 0, -1, 0, 5, 0, 9 }, order[] = { 0, 5, 3, 2, 4, 1 };
    kiln_test_one_cpu();
    open_all();
    kiln_test_reading_hold();
    use_distinct(0);
    ask(0);
    kiln_test_reading_await(1);
    for (int i = 1; i < 6; i++) {
        use_distinct(i);
        ask_with(i == 5 ? 0 : priorities[i], 0, i);
    }
    ask_with(priorities[5], 0, 6); /* lifts the flight that it joins */
    await_compiles(5);
    for (int i = 0; i < WAIT_MS && kiln_test_stats(service).joined < 1; i++)
        usleep(1000);
    kiln_test_reading_go();
    ck_assert_int_eq(finish(), 7);
    slots[5].order = slots[6].order;
    for (int i = 1; i < 6; i++)
        ck_assert_msg(slots[order[i - 1]].order < slots[order[i]].order, "%d is not before %d", order[i - 1], order[i]);
}
END_TEST

START_TEST(test_source_async__hits_do_not_wait_for_compiles)
{
    kiln_test_one_cpu();
    open_all();
    kiln_program_release(get_blocking());
    kiln_test_reading_hold();
    use_distinct(1);
    ask(1);
    kiln_test_reading_await(2);
    source.text = "#include \"a.h\"\n";
    ask(0);
    ck_assert_int_eq(kiln_queue_wait(queue, WAIT_MS), 1);
    expect(0, KILN_OK, "");
    kiln_test_reading_go();
    ck_assert_int_eq(finish(), 1);
}
END_TEST

/* ---- Closing */

static void count_close(void *data)
{
    ++*(int *)data;
}

START_TEST(test_source_async__closing_the_queue_delivers_everything_first)
{
    int closed = 0;
    open_all();
    kiln_test_reading_hold();
    for (int i = 0; i < 8; i++) {
        use_distinct(i);
        ask(i);
    }
    kiln_queue_close(queue, count_close, &closed);
    queue = NULL;
    ck_assert_int_eq(closed, 1);
    for (int i = 0; i < 8; i++)
        expect(i, KILN_ECANCELED, "its queue was closed");
    kiln_test_reading_go();
}
END_TEST

static void *let_go(void *data)
{
    usleep(50000);
    kiln_test_reading_go();
    return data;
}

START_TEST(test_source_async__closing_the_service_cancels_and_waits)
{
    pthread_t thread;
    kiln_test_one_cpu();
    open_all();
    kiln_test_reading_hold();
    for (int i = 0; i < 8; i++) {
        use_distinct(i);
        ask(i);
    }
    kiln_test_reading_await(1);
    ck_assert_int_eq(pthread_create(&thread, NULL, let_go, NULL), 0);
    kiln_close(service);
    service = NULL;
    pthread_join(thread, NULL);
    ck_assert_int_eq(called, 0);
    ck_assert_int_eq(kiln_test_reading_count(), 1);
    ck_assert_int_eq(kiln_test_submit_source(NULL, queue, &source, NULL, note, &slots[8]), KILN_ECANCELED);
    ck_assert_int_eq(kiln_queue_wait(queue, -1), 8);
    for (int i = 0; i < 8; i++)
        expect(i, KILN_ECANCELED, "the service was closed");
    ck_assert_int_eq(slots[8].calls, 0);
}
END_TEST

START_TEST(test_source_async__works_on_a_libuv_loop)
{
    uv_loop_t loop;
    open_all();
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(kiln_queue_attach_uv(queue, &loop, NULL), KILN_OK);
    for (int i = 0; i < 8; i++) {
        use_distinct(i);
        ask(i);
    }
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    for (int i = 0; i < 8; i++)
        expect(i, KILN_OK, "");
    kiln_queue_close(queue, NULL, NULL);
    queue = NULL;
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

/* ---- Out of memory */

static atomic_int allocations_left;

static int fail_one_allocation(void)
{
    return atomic_fetch_sub(&allocations_left, 1) == 0;
}

START_TEST(test_source_async__allocation_that_fails_is_a_status)
{
    int failed = 0, n = 0;
    for (bool fired = true; fired && n < 2000; n++) {
        open_all();
        use_distinct(n % SLOTS);
        slots[0] = (seen){ 0 };
        atomic_store(&allocations_left, n);
        kiln__alloc_set_hook(fail_one_allocation);
        kiln_status status = kiln_test_submit_source(NULL, queue, &source, NULL, note, &slots[0]);
        while (status == KILN_OK && slots[0].calls == 0)
            ck_assert_int_eq(kiln_queue_wait(queue, WAIT_MS), 1);
        kiln_program_release(slots[0].program);
        slots[0].program = NULL;
        kiln_queue_close(queue, NULL, NULL);
        kiln_close(service);
        kiln__alloc_set_hook(NULL);
        fired = atomic_load(&allocations_left) < 0;
        if (status == KILN_OK) {
            ck_assert_int_eq(slots[0].calls, 1);
            status = slots[0].status;
        }
        ck_assert_msg(status == KILN_OK || status == KILN_ENOMEM, "allocation %d: %s: %s", n, kiln_status_name(status),
                      slots[0].message);
        failed += status != KILN_OK;
    }
    queue = NULL;
    service = NULL;
    printf("%d allocations failed in turn: %d gets failed\n", n - 1, failed);
    ck_assert_int_gt(failed, 5);
}
END_TEST

Suite *kiln_test_service_source_async_suite(void)
{
    Suite *suite = suite_create("source_async");
    TCase *tcase = tcase_create("source_async");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_source_async__program_comes_by_callback_and_is_found_again);
    tcase_add_test(tcase, test_source_async__many_of_one_source_are_one_compile);
    tcase_add_test(tcase, test_source_async__many_of_one_stored_source_are_one_load);
    tcase_add_test(tcase, test_source_async__warnings_and_failures_come_with_the_log);
    tcase_add_test(tcase, test_source_async__wrong_arguments_are_refused);
    tcase_add_test(tcase, test_source_async__no_result_is_older_than_the_call);
    tcase_add_test(tcase, test_source_async__used_program_stays_loaded);
    tcase_add_loop_test(tcase, test_source_async__stored_program_that_does_not_load_is_no_hit, 0, 2);
    tcase_add_test(tcase, test_source_async__stored_program_that_loads_the_second_time_is_one_hit);
    tcase_add_test(tcase, test_source_async__cancelled_before_its_compile_it_is_never_compiled);
    tcase_add_test(tcase, test_source_async__cancelled_during_its_compile_it_fills_the_cache);
    tcase_add_test(tcase, test_source_async__deadline_ends_the_wait_and_not_the_compile);
    tcase_add_test(tcase, test_source_async__higher_priorities_are_compiled_first);
    tcase_add_test(tcase, test_source_async__hits_do_not_wait_for_compiles);
    tcase_add_test(tcase, test_source_async__closing_the_queue_delivers_everything_first);
    tcase_add_test(tcase, test_source_async__closing_the_service_cancels_and_waits);
    tcase_add_test(tcase, test_source_async__works_on_a_libuv_loop);
    tcase_add_test(tcase, test_source_async__allocation_that_fails_is_a_status);
    suite_add_tcase(suite, tcase);
    return suite;
}
