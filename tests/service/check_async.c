/* Asynchronous gets: each callback exactly once, on the dispatching thread, never inside the call that asked. */
#include "base/alloc.h"
#include "support/counting.h"
#include "support/harness.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#define SPEC "op=relu6 dtype=f32 target=cpu"
enum { KEYS = 8, SLOTS = 1024 };

static kiln_service *service;
static kiln_queue *queue;

/* What a callback was told. */
typedef struct seen {
    int calls;
    int order; /* which callback of the test it was */
    kiln_status status;
    char message[512];
    pthread_t thread;
} seen;

static seen slots[SLOTS];
static int called;
static bool asking;

static void open_with(const kiln_options *options)
{
    service = kiln_test_open(options);
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
}

static void open_stand_in(int ms)
{
    kiln_options options = kiln_test_counting_options(ms);
    open_with(&options);
}

static void close_all(void)
{
    kiln_queue_close(queue, NULL, NULL);
    kiln_close(service);
}

static void note(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln_kernel *kernel = kiln_test_take_kernel(program);
    seen *slot = data;
    ck_assert(!asking);
    ck_assert_int_eq(status == KILN_OK, kernel != NULL);
    slot->calls++;
    slot->order = called++;
    slot->status = status;
    slot->thread = pthread_self();
    snprintf(slot->message, sizeof(slot->message), "%s", report->message);
    kiln_kernel_release(kernel);
}

static kiln_ticket ask_with(const char *text, int priority, uint32_t timeout_ms, seen *slot)
{
    kiln_ticket request;
    kiln_submit_options options = KILN_INIT(kiln_submit_options);
    kiln_spec *spec = kiln_test_spec(service, text);
    options.priority = priority;
    options.timeout_ms = timeout_ms;
    asking = true;
    ck_assert_int_eq(kiln_test_submit(&request, queue, spec, &options, note, slot), KILN_OK);
    asking = false;
    kiln_spec_free(spec);
    return request;
}

static kiln_ticket ask(const char *text, seen *slot)
{
    return ask_with(text, 0, 0, slot);
}

static const char *distinct(int i)
{
    static char text[64];
    snprintf(text, sizeof(text), "op=hardtanh(-1,%d) dtype=f32 target=cpu", i + 2);
    return text;
}

static int finish(void)
{
    int count = 0;
    for (int now; (now = kiln_queue_wait(queue, 30000)) > 0;)
        count += now;
    return count;
}

static void expect(int i, kiln_status status)
{
    ck_assert_int_eq(slots[i].calls, 1);
    ck_assert_msg(slots[i].status == status, "%d: %s: %s", i, kiln_status_name(slots[i].status), slots[i].message);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void check_and_keep(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln_kernel *kernel = kiln_test_take_kernel(program);
    ck_assert_msg(status == KILN_OK, "%s", report->message);
    kiln_test_check_hardsigmoid(kernel);
    *(kiln_kernel **)data = kernel;
}

START_TEST(test_async__kernel_comes_by_callback_and_is_found_again)
{
    kiln_kernel *first = NULL, *second = NULL;
    kiln_options options = kiln_test_options();
    options.wisdom = KILN_OFF; /* else a look at its files may be due, which is not for the calling thread */
    open_with(&options);
    kiln_spec *spec = kiln_test_spec(service, "op=hardsigmoid dtype=f32 target=cpu");
    ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, check_and_keep, &first), KILN_OK);
    ck_assert_ptr_null(first);
    ck_assert_int_eq(kiln_queue_wait(queue, -1), 1);
    ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, check_and_keep, &second), KILN_OK);
    ck_assert_ptr_null(second);
    ck_assert_int_eq(kiln_queue_wait(queue, 0), 1);
    ck_assert_ptr_eq(first, second);
    ck_assert_int_eq(kiln_queue_wait(queue, -1), 0);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 1);
    ck_assert_uint_eq(kiln_test_stats(service).hits_loaded, 1);
    kiln_kernel_release(first);
    kiln_kernel_release(second);
    kiln_spec_free(spec);
    close_all();
}
END_TEST

START_TEST(test_async__thousand_gets_of_one_key_are_one_compile)
{
    enum { COUNT = 1000 };
    open_stand_in(50);
    uint64_t begin = now_ms();
    for (int i = 0; i < COUNT; i++)
        ask(SPEC, &slots[i]);
    uint64_t asked = now_ms() - begin;
    ck_assert_int_eq(finish(), COUNT);
    for (int i = 0; i < COUNT; i++) {
        expect(i, KILN_OK);
        ck_assert(pthread_equal(slots[i].thread, pthread_self()));
    }
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_int_eq(kiln_test_counting_count(), 1);
    ck_assert_uint_eq(stats.compiles, 1);
    ck_assert_uint_eq(stats.loads, 1);
    ck_assert_uint_eq(stats.gets, COUNT);
    /* a get between the end of the compile and the load finds the result in the store in memory */
    ck_assert_uint_eq(stats.joined + stats.hits_loaded + stats.hits_memory, COUNT - 1);
    printf("1,000 gets of one key: asked in %u ms, 1 compile, %d callbacks\n", (unsigned)asked, called);
    close_all();
}
END_TEST

START_TEST(test_async__failures_come_by_callback)
{
    open_stand_in(0);
    ask("op=relu6 dtype=f32 target=sm_90", &slots[0]);
    ck_assert_int_eq(finish(), 1);
    expect(0, KILN_ENODEVICE);
    ck_assert_ptr_nonnull(strstr(slots[0].message, "sm_90"));
    kiln_test_counting_break();
    for (int i = 1; i < 20; i++)
        ask(SPEC, &slots[i]);
    ck_assert_int_eq(finish(), 19);
    for (int i = 1; i < 20; i++) {
        expect(i, KILN_ECOMPILE);
        ck_assert_ptr_nonnull(strstr(slots[i].message, "no object to copy"));
    }
    ck_assert_uint_ge(kiln_test_stats(service).compile_failures, 1);
    close_all();
}
END_TEST

START_TEST(test_async__wrong_arguments_are_refused)
{
    open_stand_in(0);
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    kiln_ticket request = 1;
    kiln_queue *other;
    ck_assert_int_eq(kiln_test_submit(&request, NULL, spec, NULL, note, NULL), KILN_EINVAL);
    ck_assert_uint_eq(request, 0);
    ck_assert_int_eq(kiln_test_submit(NULL, queue, NULL, NULL, note, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_queue_open(NULL, service, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_queue_open(&other, NULL, NULL), KILN_EINVAL);
    ck_assert_ptr_null(other);
    ck_assert_int_eq(kiln_queue_attach_uv(queue, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_queue_wait(NULL, 0), 0);
    ck_assert_int_eq(kiln_queue_wait(NULL, -1), 0);
    ck_assert_int_eq(kiln_queue_fd(NULL), -1);
    kiln_queue_close(NULL, NULL, NULL);
    kiln_cancel(NULL, 1);
    kiln_cancel(queue, 0);
    kiln_spec_free(spec);
    close_all();
}
END_TEST

START_TEST(test_async__descriptor_is_readable_when_something_is_due)
{
    open_stand_in(0);
    struct pollfd ready = { .fd = kiln_queue_fd(queue), .events = POLLIN };
    ck_assert_int_eq(poll(&ready, 1, 0), 0);
    ask(SPEC, &slots[0]);
    ck_assert_int_eq(poll(&ready, 1, 30000), 1);
    ck_assert_int_eq(slots[0].calls, 0);
    ck_assert_int_eq(kiln_queue_wait(queue, 0), 1);
    ck_assert_int_eq(poll(&ready, 1, 0), 0);
    expect(0, KILN_OK);
    close_all();
}
END_TEST

START_TEST(test_async__cancelled_before_its_compile_it_is_never_compiled)
{
    kiln_test_one_cpu();
    open_stand_in(0);
    kiln_test_counting_hold(NULL);
    ask(distinct(0), &slots[0]);
    kiln_test_counting_await(1);
    kiln_ticket alone = ask(distinct(1), &slots[1]);
    kiln_ticket one_of_two = ask(distinct(2), &slots[2]);
    ask(distinct(2), &slots[3]);
    kiln_cancel(queue, alone);
    kiln_cancel(queue, one_of_two);
    kiln_cancel(queue, one_of_two);
    ck_assert_int_eq(slots[1].calls, 0);
    ck_assert_int_eq(kiln_queue_wait(queue, 0), 2);
    expect(1, KILN_ECANCELED);
    expect(2, KILN_ECANCELED);
    kiln_test_counting_go();
    ck_assert_int_eq(finish(), 2);
    expect(0, KILN_OK);
    expect(3, KILN_OK);
    ck_assert_int_eq(kiln_test_counting_count(), 2);
    ck_assert_uint_eq(kiln_test_stats(service).cancelled, 2);
    close_all();
}
END_TEST

START_TEST(test_async__cancelled_during_its_compile_it_fills_the_cache)
{
    open_stand_in(0);
    kiln_test_counting_hold(NULL);
    kiln_ticket request = ask(SPEC, &slots[0]);
    kiln_test_counting_await(1);
    kiln_cancel(queue, request);
    ck_assert_int_eq(finish(), 1);
    expect(0, KILN_ECANCELED);
    kiln_test_counting_go();
    kiln_kernel_release(kiln_test_get(service, SPEC));
    ck_assert_int_eq(kiln_test_counting_count(), 1);
    close_all();
}
END_TEST

START_TEST(test_async__due_before_it_is_cancelled_it_succeeds)
{
    open_stand_in(0);
    kiln_kernel_release(kiln_test_get(service, SPEC));
    kiln_ticket request = ask(SPEC, &slots[0]);
    kiln_cancel(queue, request);
    ck_assert_int_eq(finish(), 1);
    expect(0, KILN_OK);
    close_all();
}
END_TEST

START_TEST(test_async__deadline_ends_the_wait_and_not_the_compile)
{
    kiln_test_one_cpu();
    open_stand_in(0);
    kiln_test_counting_hold(NULL);
    uint64_t begin = now_ms();
    ask_with(distinct(0), 0, 120, &slots[0]);
    ask_with(distinct(0), 0, 60, &slots[1]);
    ask_with(distinct(1), 0, 60, &slots[2]); /* its turn has not come when it expires */
    ask_with(distinct(0), 0, 0, &slots[3]);
    ck_assert_int_eq(kiln_queue_wait(queue, 10), 0);
    while (called < 2)
        ck_assert_int_ge(kiln_queue_wait(queue, 30000), 1);
    uint64_t first = now_ms() - begin;
    while (called < 3) /* a busy machine may be late for both deadlines */
        ck_assert_int_eq(kiln_queue_wait(queue, 30000), 1);
    uint64_t second = now_ms() - begin;
    expect(0, KILN_ETIMEDOUT);
    expect(1, KILN_ETIMEDOUT);
    expect(2, KILN_ETIMEDOUT);
    ck_assert_uint_ge(first, 60);
    ck_assert_uint_ge(second, 120);
    ck_assert_uint_lt(second, 2000);
    kiln_test_counting_go();
    ck_assert_int_eq(finish(), 1);
    expect(3, KILN_OK);
    kiln_kernel_release(kiln_test_get(service, distinct(1)));
    ck_assert_int_eq(kiln_test_counting_count(), 2);
    ck_assert_uint_eq(kiln_test_stats(service).timed_out, 3);
    close_all();
}
END_TEST

START_TEST(test_async__higher_priorities_are_compiled_first)
{
    static const int priorities[] = { 0, -1, 0, 5, 0, 9 };
    static const int order[] = { 0, 5, 3, 2, 4, 1 };
    kiln_test_one_cpu();
    open_stand_in(0);
    kiln_test_counting_hold(NULL);
    ask(distinct(0), &slots[0]);
    kiln_test_counting_await(1);
    for (int i = 1; i < 6; i++)
        ask_with(distinct(i), i == 5 ? 0 : priorities[i], 0, &slots[i]);
    ask_with(distinct(5), priorities[5], 0, &slots[6]); /* lifts the flight that it joins */
    kiln_test_counting_go();
    ck_assert_int_eq(finish(), 7);
    slots[5].order = slots[6].order;
    for (int i = 1; i < 6; i++)
        ck_assert_msg(slots[order[i - 1]].order < slots[order[i]].order, "%d is not before %d", order[i - 1], order[i]);
    close_all();
}
END_TEST

START_TEST(test_async__hits_do_not_wait_for_compiles)
{
    kiln_test_one_cpu();
    open_stand_in(0);
    kiln_kernel_release(kiln_test_get(service, SPEC));
    close_all();
    open_stand_in(0);
    kiln_test_counting_hold("hardtanh");
    for (int i = 0; i < KEYS; i++)
        ask(distinct(i), &slots[i]);
    kiln_test_counting_await(2);
    ask(SPEC, &slots[KEYS]); /* from disk */
    ck_assert_int_eq(kiln_queue_wait(queue, 30000), 1);
    expect(KEYS, KILN_OK);
    ck_assert_uint_eq(kiln_test_stats(service).hits_disk, 1);
    kiln_test_counting_go();
    ck_assert_int_eq(finish(), KEYS);
    close_all();
}
END_TEST

static void count_close(void *data)
{
    ++*(int *)data;
}

START_TEST(test_async__closing_the_queue_delivers_everything_first)
{
    int closed = 0;
    open_stand_in(0);
    kiln_kernel_release(kiln_test_get(service, SPEC));
    kiln_test_counting_hold(NULL);
    for (int i = 0; i < KEYS; i++)
        ask(distinct(i), &slots[i]);
    ask(SPEC, &slots[KEYS]);
    kiln_queue_close(queue, count_close, &closed);
    ck_assert_int_eq(closed, 1);
    ck_assert_int_eq(called, KEYS + 1);
    for (int i = 0; i < KEYS; i++)
        expect(i, KILN_ECANCELED);
    expect(KEYS, KILN_OK);
    kiln_test_counting_go();
    kiln_close(service);
}
END_TEST

static int closed_inside;

static void close_inside(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    note(data, status, program, report);
    kiln_queue_close(queue, count_close, &closed_inside);
    ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, note, &slots[SLOTS - 1]), KILN_ECANCELED);
    ck_assert_int_eq(closed_inside, 0);
    kiln_spec_free(spec);
}

START_TEST(test_async__queue_may_be_closed_inside_a_callback)
{
    open_stand_in(0);
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    kiln_kernel_release(kiln_test_get(service, SPEC)); /* what is held may take every place to compile */
    kiln_test_counting_hold("hardtanh");
    ask(distinct(0), &slots[0]);
    ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, close_inside, &slots[1]), KILN_OK);
    ask(distinct(1), &slots[2]);
    ck_assert_int_eq(kiln_queue_wait(queue, -1), 3);
    ck_assert_int_eq(closed_inside, 1);
    expect(0, KILN_ECANCELED);
    expect(1, KILN_OK);
    expect(2, KILN_ECANCELED);
    ck_assert_int_eq(slots[SLOTS - 1].calls, 0);
    kiln_test_counting_go();
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

START_TEST(test_async__service_may_be_closed_before_its_queues)
{
    kiln_queue *idle;
    kiln_test_one_cpu();
    open_stand_in(20);
    ck_assert_int_eq(kiln_queue_open(&idle, service, NULL), KILN_OK);
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    for (int i = 0; i < KEYS; i++)
        ask(distinct(i), &slots[i]);
    kiln_close(service);
    ck_assert_int_eq(called, 0);
    ck_assert_int_lt(kiln_test_counting_count(), KEYS);
    ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, note, &slots[KEYS]), KILN_ECANCELED);
    ck_assert_int_eq(kiln_queue_wait(queue, -1), KEYS);
    for (int i = 0; i < KEYS; i++)
        expect(i, KILN_ECANCELED);
    kiln_queue_close(queue, NULL, NULL);
    kiln_queue_close(idle, NULL, NULL);
    kiln_spec_free(spec);
}
END_TEST

static int chain_left;

static void ask_again(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln_spec *spec = kiln_test_spec(service, distinct(chain_left % 4));
    note(data, status, program, report);
    if (chain_left-- > 0)
        ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, ask_again, data), KILN_OK);
    kiln_spec_free(spec);
}

START_TEST(test_async__callbacks_may_ask_again)
{
    enum { CHAIN = 200 };
    open_stand_in(0);
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    chain_left = CHAIN;
    ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, ask_again, &slots[0]), KILN_OK);
    while (chain_left >= 0)
        ck_assert_int_eq(kiln_queue_wait(queue, 30000), 1); /* one round does not run into the next */
    ck_assert_int_eq(slots[0].calls, CHAIN + 1);
    ck_assert_int_eq(kiln_test_counting_count(), 5);
    kiln_spec_free(spec);
    close_all();
}
END_TEST

START_TEST(test_async__idle_service_uses_no_processor)
{
    struct timespec before, after;
    open_stand_in(0);
    for (int i = 0; i < KEYS; i++)
        ask(distinct(i), &slots[i]);
    ck_assert_int_eq(finish(), KEYS);
    usleep(50000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(500000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    long used_us = (after.tv_sec - before.tv_sec) * 1000000 + (after.tv_nsec - before.tv_nsec) / 1000;
    printf("idle for 500 ms: %ld us of processor time\n", used_us);
    ck_assert_int_lt(used_us, 5000);
    close_all();
}
END_TEST

/* The time slice of a thread in nanoseconds, 0 on a system that does not tell: the fourth eight bytes of struct
 * sched_attr. */
static uint64_t slice_of(pid_t id)
{
    uint64_t attributes[7] = { 0 };
    return syscall(SYS_sched_getattr, id, attributes, sizeof(attributes), 0) == 0 ? attributes[3] : 0;
}

START_TEST(test_async__compile_threads_are_named_and_give_way)
{
    int found = 0;
    open_stand_in(0);
    ask(SPEC, &slots[0]);
    ck_assert_int_eq(finish(), 1);
    for (pid_t id = getpid(); id < getpid() + 2000; id++) {
        char path[64], name[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)id);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        if (fgets(name, sizeof(name), file) != NULL && strcmp(name, "kiln-compile\n") == 0) {
            ck_assert_int_ge(getpriority(PRIO_PROCESS, (id_t)id), 10);
            ck_assert(slice_of(0) == 0 || slice_of(id) > slice_of(0));
            found++;
        }
        fclose(file);
    }
    ck_assert_int_ge(found, 1);
    ck_assert_int_lt(getpriority(PRIO_PROCESS, 0), 19);
    close_all();
}
END_TEST

START_TEST(test_async__works_on_a_libuv_loop)
{
    int closed = 0;
    uv_loop_t loop;
    open_stand_in(5);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(kiln_queue_attach_uv(queue, &loop, NULL), KILN_OK);
    ck_assert_int_eq(kiln_queue_attach_uv(queue, &loop, NULL), KILN_EINVAL);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0); /* nothing keeps it alive */
    for (int i = 0; i < KEYS; i++)
        ask(distinct(i), &slots[i]);
    ck_assert_int_eq(called, 0);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    for (int i = 0; i < KEYS; i++)
        expect(i, KILN_OK);
    kiln_test_counting_hold(NULL);
    ask(SPEC, &slots[KEYS]);
    kiln_queue_close(queue, count_close, &closed);
    ck_assert_int_eq(slots[KEYS].calls, 0);
    ck_assert_int_eq(closed, 0);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    expect(KEYS, KILN_ECANCELED);
    ck_assert_int_eq(closed, 1);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    kiln_test_counting_go();
    kiln_close(service);
}
END_TEST

START_TEST(test_async__libuv_queue_closes_inside_a_callback)
{
    uv_loop_t loop;
    open_stand_in(0);
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(kiln_queue_attach_uv(queue, &loop, NULL), KILN_OK);
    kiln_kernel_release(kiln_test_get(service, SPEC));
    kiln_test_counting_hold("hardtanh");
    ask(distinct(0), &slots[0]);
    ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, close_inside, &slots[1]), KILN_OK);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(closed_inside, 1);
    expect(0, KILN_ECANCELED);
    expect(1, KILN_OK);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    kiln_test_counting_go();
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

/* ---- Several loops and threads */

enum { HOSTS = 4, EACH = 60 };

typedef struct host {
    kiln_queue *queue;
    pthread_t thread;
    atomic_int good, bad;
} host;

static void count(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln_kernel *kernel = kiln_test_take_kernel(program);
    host *self = data;
    (void)report;
    bool right = (status == KILN_OK) == (kernel != NULL) && pthread_equal(self->thread, pthread_self());
    atomic_fetch_add(right && (status == KILN_OK || status == KILN_ECANCELED) ? &self->good : &self->bad, 1);
    kiln_kernel_release(kernel);
}

static void *run_host(void *data)
{
    host *self = data;
    uv_loop_t loop;
    self->thread = pthread_self();
    bool good = uv_loop_init(&loop) == 0 && kiln_queue_attach_uv(self->queue, &loop, NULL) == KILN_OK;
    for (int i = 0; i < EACH; i++) {
        char text[64];
        kiln_spec *spec = NULL;
        kiln_ticket request = 0;
        snprintf(text, sizeof(text), "op=hardtanh(-1,%d) dtype=f32 target=cpu", i % KEYS + 2);
        good = good && kiln_spec_parse(&spec, service, text, NULL) == KILN_OK &&
               kiln_test_submit(&request, self->queue, spec, NULL, count, self) == KILN_OK;
        if (i % 5 == 4)
            kiln_cancel(self->queue, request);
        if (i % 7 == 6)
            uv_run(&loop, UV_RUN_NOWAIT);
        kiln_spec_free(spec);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    kiln_queue_close(self->queue, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    return (void *)(uintptr_t)(good && uv_loop_close(&loop) == 0);
}

START_TEST(test_async__several_loops_share_a_service)
{
    static host hosts[HOSTS];
    open_stand_in(3);
    pthread_t threads[HOSTS];
    for (int i = 0; i < HOSTS; i++)
        ck_assert_int_eq(kiln_queue_open(&hosts[i].queue, service, NULL), KILN_OK);
    for (int i = 0; i < HOSTS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_host, &hosts[i]), 0);
    for (int i = 0; i < HOSTS; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        ck_assert_ptr_nonnull(good);
        ck_assert_int_eq(atomic_load(&hosts[i].good), EACH);
        ck_assert_int_eq(atomic_load(&hosts[i].bad), 0);
    }
    ck_assert_int_le(kiln_test_counting_count(), KEYS);
    close_all();
}
END_TEST

static void *ask_from_elsewhere(void *data)
{
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, note, &slots[i]), KILN_OK);
    kiln_spec_free(spec);
    return data;
}

static void stop_when_done(uv_timer_t *timer)
{
    if (called == 100)
        uv_close((uv_handle_t *)timer, NULL);
}

START_TEST(test_async__other_threads_may_ask_for_a_loop)
{
    pthread_t thread;
    uv_loop_t loop;
    uv_timer_t timer;
    open_stand_in(1);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(kiln_queue_attach_uv(queue, &loop, NULL), KILN_OK);
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, stop_when_done, 1, 1);
    ck_assert_int_eq(pthread_create(&thread, NULL, ask_from_elsewhere, NULL), 0);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    pthread_join(thread, NULL);
    for (int i = 0; i < 100; i++) {
        expect(i, KILN_OK);
        ck_assert(pthread_equal(slots[i].thread, pthread_self()));
    }
    kiln_queue_close(queue, NULL, NULL);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    kiln_close(service);
}
END_TEST

/* ---- Out of memory */

static atomic_int allocations_left;

static int fail_one_allocation(void)
{
    return atomic_fetch_sub(&allocations_left, 1) == 0;
}

START_TEST(test_async__allocation_that_fails_is_a_status)
{
    int failed = 0, n = 0;
    kiln_options options = kiln_test_counting_options(0);
    options.cache_dir = _i == 0 ? options.cache_dir : "";
    for (bool fired = true; fired && n < 2000; n++) {
        open_with(&options);
        kiln_spec *spec = kiln_test_spec(service, distinct(n));
        slots[0].calls = 0;
        atomic_store(&allocations_left, n);
        kiln__alloc_set_hook(fail_one_allocation);
        kiln_status status = kiln_test_submit(NULL, queue, spec, NULL, note, &slots[0]);
        while (status == KILN_OK && slots[0].calls == 0)
            ck_assert_int_eq(kiln_queue_wait(queue, 30000), 1);
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
        kiln_spec_free(spec);
    }
    printf("%d allocations failed in turn: %d gets failed\n", n - 1, failed);
    ck_assert_int_gt(failed, 5);
}
END_TEST

Suite *kiln_test_service_async_suite(void)
{
    Suite *suite = suite_create("async");
    TCase *tcase = tcase_create("async");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_async__kernel_comes_by_callback_and_is_found_again);
    tcase_add_test(tcase, test_async__thousand_gets_of_one_key_are_one_compile);
    tcase_add_test(tcase, test_async__failures_come_by_callback);
    tcase_add_test(tcase, test_async__wrong_arguments_are_refused);
    tcase_add_test(tcase, test_async__descriptor_is_readable_when_something_is_due);
    tcase_add_test(tcase, test_async__cancelled_before_its_compile_it_is_never_compiled);
    tcase_add_test(tcase, test_async__cancelled_during_its_compile_it_fills_the_cache);
    tcase_add_test(tcase, test_async__due_before_it_is_cancelled_it_succeeds);
    tcase_add_test(tcase, test_async__deadline_ends_the_wait_and_not_the_compile);
    tcase_add_test(tcase, test_async__higher_priorities_are_compiled_first);
    tcase_add_test(tcase, test_async__hits_do_not_wait_for_compiles);
    tcase_add_test(tcase, test_async__closing_the_queue_delivers_everything_first);
    tcase_add_test(tcase, test_async__queue_may_be_closed_inside_a_callback);
    tcase_add_test(tcase, test_async__service_may_be_closed_before_its_queues);
    tcase_add_test(tcase, test_async__callbacks_may_ask_again);
    tcase_add_test(tcase, test_async__idle_service_uses_no_processor);
    tcase_add_test(tcase, test_async__compile_threads_are_named_and_give_way);
    tcase_add_test(tcase, test_async__works_on_a_libuv_loop);
    tcase_add_test(tcase, test_async__libuv_queue_closes_inside_a_callback);
    tcase_add_test(tcase, test_async__several_loops_share_a_service);
    tcase_add_test(tcase, test_async__other_threads_may_ask_for_a_loop);
    tcase_add_loop_test(tcase, test_async__allocation_that_fails_is_a_status, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}
