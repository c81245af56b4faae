/* Threads of the host that end by pthread_cancel inside Kiln: a call is done as a whole, and what others ask for is
 * answered. */
#include "support/counting.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include "support/temp.h"
#include <errno.h>
#include <kiln/tune.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VICTIMS = 6, KEYS = 4, COMPILE_MS = 3, BEFORE_US = 12000, PATIENCE_S = 20 };

static kiln_service *service;
static atomic_uint base; /* the keys of a round are this and those behind it */

static void text_of(char out[64], unsigned key)
{
    snprintf(out, 64, "op=hardtanh(-1,%u) dtype=f32 target=cpu", base + 2 + key % KEYS);
}

/* The work of a victim, with cancellation on inside the call only, so that it releases its result. */
typedef void (*deed)(const kiln_spec *spec, const char *text);

#define OPEN_TO_CANCEL(call)                                  \
    do {                                                      \
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);  \
        (void)!(call);                                        \
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); \
    } while (0)

static void get(const kiln_spec *spec, const char *text)
{
    kiln_kernel *kernel;
    (void)text;
    OPEN_TO_CANCEL(kiln_get_kernel(&kernel, service, spec, NULL));
    kiln_kernel_release(kernel);
}

static void build(const kiln_spec *spec, const char *text)
{
    kiln_program *program;
    (void)text;
    OPEN_TO_CANCEL(kiln_test_build_spec(&program, service, spec, NULL));
    kiln_program_release(program);
}

static void on_kernel(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    (void)data;
    (void)status;
    (void)report;
    kiln_program_release(program);
}

static void close_queue(void *queue)
{
    kiln_queue_close(queue, NULL, NULL);
}

/* The wait is the one call that a cancelled thread leaves, hence the handlers. */
static void get_async(const kiln_spec *spec, const char *text)
{
    kiln_queue *queue;
    kiln_ticket request;
    (void)text;
    if (kiln_queue_open(&queue, service, NULL) != KILN_OK)
        return;
    pthread_cleanup_push(close_queue, queue);
    OPEN_TO_CANCEL(kiln_test_submit(&request, queue, spec, NULL, on_kernel, NULL));
    OPEN_TO_CANCEL(kiln_queue_wait(queue, -1));
    pthread_cleanup_pop(1);
}

static void call(const kiln_spec *spec, const char *text)
{
    static float in[200000], out[200000];
    const void *const inputs[] = { in };
    (void)spec;
    OPEN_TO_CANCEL(kiln_test_call(service, text, 200000, out, inputs, NULL, NULL));
}

static int skip_entry(void *data, const kiln_entry_info *entry)
{
    (void)data;
    (void)entry;
    return 0;
}

static int skip_record(void *data, const kiln_wisdom_record *record)
{
    (void)data;
    (void)record;
    return 0;
}

static void administer(const kiln_spec *spec, const char *text)
{
    kiln_origin origin;
    (void)text;
    OPEN_TO_CANCEL(kiln_test_find_stored(&origin, service, spec, NULL));
    OPEN_TO_CANCEL(kiln_cache_visit(service, skip_entry, NULL, NULL));
    OPEN_TO_CANCEL(kiln_wisdom_visit(service, skip_record, NULL));
    OPEN_TO_CANCEL(kiln_cache_trim(service, 0, 0, NULL, NULL));
}

static void free_spec(void *spec)
{
    kiln_spec_free(spec);
}

static void *suffer(void *data)
{
    static const deed deeds[] = { get, build, get_async, call, administer, get };
    char text[64];
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    for (unsigned key = *(unsigned *)data;; key++) {
        text_of(text, key);
        kiln_spec *spec = kiln_test_spec(service, text);
        pthread_cleanup_push(free_spec, spec);
        deeds[*(unsigned *)data % 6](spec, text);
        pthread_cleanup_pop(1);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
        pthread_testcancel();
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    }
    return NULL;
}

static void *ask(void *data)
{
    char text[64];
    text_of(text, *(unsigned *)data);
    kiln_kernel_release(kiln_test_get(service, text));
    kiln_program_release(kiln_test_build(service, text));
    return NULL;
}

static void join_soon(pthread_t thread, const char *what, int round)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    ck_assert_msg(pthread_timedjoin_np(thread, NULL, &until) == 0, "round %d: %s", round, what);
}

static void start_threads(pthread_t *threads, unsigned *numbers, unsigned count, void *(*fn)(void *))
{
    for (unsigned i = 0; i < count; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, fn, &numbers[i]), 0);
    }
}

START_TEST(test_cancellation__leaves_no_lock_and_no_flight_behind)
{
    pthread_t threads[VICTIMS];
    unsigned numbers[VICTIMS];
    int rounds = KILN_TEST_SANITIZED ? 10 : 50;
    kiln_options options = kiln_test_counting_options(COMPILE_MS);
    service = kiln_test_open(&options);
    srand(7);
    for (int round = 0; round < rounds; round++, base += round % 2 != 0 ? KEYS : 0) {
        start_threads(threads, numbers, VICTIMS, suffer);
        usleep((useconds_t)(rand() % BEFORE_US));
        for (int i = 0; i < VICTIMS; i++)
            ck_assert_int_eq(pthread_cancel(threads[i]), 0);
        for (int i = 0; i < VICTIMS; i++)
            join_soon(threads[i], "a cancelled thread does not end", round);
        start_threads(threads, numbers, KEYS, ask);
        for (int i = 0; i < KEYS; i++)
            join_soon(threads[i], "an ask hangs after another thread's was cancelled", round);
    }
    kiln_close(service);
}
END_TEST

static atomic_int got;

static void *get_once(void *data)
{
    kiln_spec *spec = data;
    kiln_kernel *kernel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    OPEN_TO_CANCEL(kiln_get_kernel(&kernel, service, spec, NULL));
    atomic_fetch_add(&got, kernel != NULL);
    kiln_kernel_release(kernel);
    return NULL;
}

/* The first one compiles, the others wait for it; any of them may be the one that is cancelled. */
START_TEST(test_cancellation__of_a_thread_that_waits)
{
    pthread_t threads[3];
    kiln_options options = kiln_test_counting_options(COMPILE_MS);
    service = kiln_test_open(&options);
    kiln_spec *spec = kiln_test_spec(service, "op=relu6 dtype=f32 target=cpu");
    kiln_test_counting_hold(NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, get_once, spec), 0);
        kiln_test_counting_await(1);
    }
    usleep(50000);
    ck_assert_int_eq(pthread_cancel(threads[_i]), 0);
    usleep(50000);
    kiln_test_counting_go();
    for (int i = 0; i < 3; i++)
        join_soon(threads[i], "a get hangs", _i);
    ck_assert_int_eq(kiln_test_counting_count(), 1);
    ck_assert_int_eq(atomic_load(&got), 3);
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

Suite *kiln_test_service_cancellation_suite(void)
{
    Suite *suite = suite_create("cancellation");
    TCase *tcase = tcase_create("cancellation");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_cancellation__leaves_no_lock_and_no_flight_behind);
    tcase_add_loop_test(tcase, test_cancellation__of_a_thread_that_waits, 0, 3);
    suite_add_tcase(suite, tcase);
    return suite;
}
