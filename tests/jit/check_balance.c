/* Many compiles of Kiln's own at once: which stay in the process, which go to workers, and what happens where these
 * cannot. */
#include "gpu/cuda.h"
#include "jit/worker/balance.h"
#include "jit/worker/workers.h"
#include "os/cpu.h"
#include "support/foreign.h"
#include "support/harness.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <pthread.h>

enum { THREADS = 16, STAY = 1 + KILN__BALANCE_SHARED, COMPILE_MS = 200 };

#define LATER(n) ((uint64_t)(n) * (KILN__BALANCE_REST_NS + 1))

/* ---- The rule */

static kiln__balance balance;

static void set_up_balance(void)
{
    balance = (kiln__balance){ .limit = THREADS };
}

static void enter(int count, uint64_t now, bool stay)
{
    for (int i = 0; i < count; i++)
        ck_assert(kiln__balance_enter(&balance, now) == stay);
}

static void leave(int count, uint64_t now)
{
    for (int i = 0; i < count; i++)
        kiln__balance_leave(&balance, now);
}

START_TEST(test_balance__first_and_few_beside_it_stay)
{
    enter(STAY, LATER(1), true);
    enter(THREADS, LATER(1), false);
    ck_assert_uint_eq(atomic_load(&balance.inside), STAY);
    ck_assert_uint_eq(atomic_load(&balance.outside), THREADS);
}
END_TEST

START_TEST(test_balance__one_after_the_other_stay)
{
    for (uint64_t now = LATER(1); now < LATER(1) + 1000; now++) {
        enter(1, now, true);
        leave(1, now);
    }
}
END_TEST

/* While a burst lasts one place is taken again each time, and no more. */
START_TEST(test_balance__burst_keeps_one_here)
{
    const uint64_t now = LATER(1) + KILN__BALANCE_REST_NS;
    enter(STAY, LATER(1), true);
    leave(STAY, LATER(1));
    for (int i = 0; i < THREADS; i++) {
        enter(1, now, true);
        enter(1, now, false);
        leave(1, now);
    }
}
END_TEST

START_TEST(test_balance__next_burst_begins_anew)
{
    for (int burst = 1; burst < 4; burst++) {
        enter(STAY, LATER(burst), true);
        enter(1, LATER(burst), false);
        leave(STAY, LATER(burst));
    }
}
END_TEST

START_TEST(test_balance__no_more_outside_than_there_are_processors)
{
    enter(STAY, LATER(1), true);
    enter(THREADS, LATER(1), false);
    enter(3, LATER(1), true);
    kiln__balance_return(&balance, false);
    enter(1, LATER(1), false);
    enter(1, LATER(1), true);
    kiln__balance_return(&balance, true);
    ck_assert_uint_eq(atomic_load(&balance.outside), THREADS - 1);
    leave(STAY + 5, LATER(1));
    ck_assert_uint_eq(atomic_load(&balance.inside), 0);
}
END_TEST

START_TEST(test_balance__all_stay_for_a_while_after_a_failure)
{
    const uint64_t failed = LATER(1), later = failed + KILN__BALANCE_PAUSE_NS;
    ck_assert_uint_eq(kiln__balance_pause(&balance, failed), KILN__BALANCE_PAUSE_NS);
    ck_assert_uint_eq(kiln__balance_pause(&balance, later - 1), 0); /* who was away when it began */
    enter(THREADS, later - 1, true);
    ck_assert_uint_eq(atomic_load(&balance.inside), THREADS);
    leave(THREADS, later - 1);
    enter(STAY, later + LATER(1), true);
    enter(1, later + LATER(1), false);
}
END_TEST

START_TEST(test_balance__pauses_grow_until_a_worker_helps)
{
    uint64_t now = LATER(1), pause = 0, last = 0;
    for (int i = 0; i < 70; i++, now += pause, last = pause) {
        pause = kiln__balance_pause(&balance, now);
        ck_assert_uint_eq(pause, i == 0                                  ? KILN__BALANCE_PAUSE_NS
                                 : 2 * last < KILN__BALANCE_PAUSE_MAX_NS ? 2 * last
                                                                         : KILN__BALANCE_PAUSE_MAX_NS);
    }
    enter(STAY, now, true);
    enter(1, now, false);
    kiln__balance_return(&balance, false);
    ck_assert_uint_eq(kiln__balance_pause(&balance, now), KILN__BALANCE_PAUSE_NS);
}
END_TEST

/* ---- What comes of it, with the stand-in NVRTC */

static kiln__workers_options options;
static kiln__compiler *compiler;

static void set_up(void)
{
    options = (kiln__workers_options){ .isolate = KILN_ISOLATE_AUTO,
                                       .nvrtc = getenv("KILN_STAND_IN_NVRTC"),
                                       .memory_bytes = (uint64_t)4 << 30,
                                       .time_ms = 60000 };
    ck_assert_msg(options.nvrtc != NULL, "KILN_STAND_IN_NVRTC must name the stand-in NVRTC");
    char ms[16];
    snprintf(ms, sizeof(ms), "%d", COMPILE_MS); /* so that they are at work at the same time */
    ck_assert_int_eq(setenv("KILN_STAND_IN_MS", ms, 1), 0);
}

static void open_here(void)
{
    compiler = kiln__workers_open(kiln__cuda_compiler_open(options.nvrtc, NULL), &options, NULL);
    ck_assert_ptr_nonnull(compiler);
}

static void close_here(void)
{
    if (compiler != NULL)
        compiler->vtable->close(compiler);
    compiler = NULL;
    ck_assert_int_eq(list_children(NULL, 0), 0);
}

static void compile(bool foreign)
{
    char source[] = "a source\n";
    kiln__image image;
    kiln__unit unit = foreign_unit(source);
    unit.foreign = foreign;
    ck_assert_int_eq(compiler->vtable->compile(compiler, &unit, &image, NULL), KILN_OK);
    ck_assert_ptr_nonnull(image.binary);
    ck_assert_str_eq(image.toolchain, "nvrtc-13.0.1-1");
    kiln__image_fini(&image);
}

static void *compile_own(void *data)
{
    (void)data;
    compile(false);
    return NULL;
}

static kiln__workers_counts count(void)
{
    kiln__workers_counts out;
    kiln__workers_count(compiler, &out);
    return out;
}

static kiln__workers_counts compile_in(int threads)
{
    pthread_t all[THREADS];
    for (int i = 0; i < threads; i++)
        ck_assert_int_eq(pthread_create(&all[i], NULL, compile_own, NULL), 0);
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    return count();
}

START_TEST(test_balance__few_start_no_worker)
{
    open_here();
    ck_assert_uint_eq(compile_in(STAY).starts, 0);
}
END_TEST

START_TEST(test_balance__many_start_workers)
{
    open_here();
    kiln__workers_counts counts = compile_in(THREADS);
    ck_assert_uint_ge(counts.starts, 1);
    ck_assert_uint_le(counts.starts, kiln__cpu_count());
    ck_assert_uint_eq(counts.crashes + counts.timeouts, 0);
}
END_TEST

START_TEST(test_balance__never_means_never)
{
    options.isolate = KILN_ISOLATE_NEVER;
    open_here();
    ck_assert_uint_eq(compile_in(THREADS).starts, 0);
}
END_TEST

START_TEST(test_balance__without_a_program_all_compile_here)
{
    options.program = "/nonexistent/kiln-worker";
    open_here();
    ck_assert_uint_eq(compile_in(THREADS).starts, 0);
}
END_TEST

START_TEST(test_balance__without_a_working_program_all_compile_here)
{
    options.program = "/bin/true";
    open_here();
    uint64_t starts = compile_in(THREADS).starts;
    ck_assert_uint_ge(starts, 1);
    ck_assert_uint_eq(compile_in(THREADS).starts, starts); /* nobody tries again so soon */
}
END_TEST

/* The worker opens NVRTC anew, and may find that it is gone. */
START_TEST(test_balance__where_a_worker_finds_no_compiler_all_compile_here)
{
    char copy[256], command[600];
    snprintf(copy, sizeof(copy), "%s", kiln_test_temp_path("libnvrtc.so.13"));
    snprintf(command, sizeof(command), "cp %s %s", options.nvrtc, copy);
    ck_assert_int_eq(system(command), 0);
    options.nvrtc = copy;
    open_here();
    compile(false);
    ck_assert_int_eq(unlink(copy), 0);
    compile_in(THREADS);
}
END_TEST

/* Or that it is another one: what that makes is not what this process's makes. */
START_TEST(test_balance__another_compiler_is_no_help)
{
    ck_assert_int_eq(setenv("KILN_STAND_IN_WORKER_BUILD", "2", 1), 0);
    open_here();
    compile(false);
    ck_assert_uint_ge(compile_in(THREADS).starts, 1);
}
END_TEST

/* A worker that the system stops, or that is too slow, costs time and nothing else. */
START_TEST(test_balance__what_costs_a_worker_is_compiled_here)
{
    options.time_ms = 1;
    open_here();
    kiln__workers_counts counts = compile_in(THREADS);
    ck_assert_uint_ge(counts.timeouts, 1);
    ck_assert_uint_eq(compile_in(THREADS).timeouts, counts.timeouts);
}
END_TEST

/* Source from elsewhere may have taken its worker over. */
START_TEST(test_balance__strange_worker_gets_nothing_of_ours)
{
    static const struct {
        bool foreign;
        uint64_t starts;
    } steps[] = { { false, 1 }, { true, 1 }, { false, 2 }, { true, 2 }, { false, 2 }, { true, 2 }, { false, 2 } };
    options.isolate = KILN_ISOLATE_ALWAYS;
    ck_assert_int_eq(setenv("KILN_STAND_IN_MS", "0", 1), 0);
    open_here();
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        compile(steps[i].foreign);
        ck_assert_uint_eq(count().starts, steps[i].starts);
    }
}
END_TEST

/* ---- A service, with NVRTC */

typedef struct order {
    kiln_service *service;
    int key;
    kiln_program *program;
} order;

static void *build(void *data)
{
    order *self = data;
    char text[64];
    snprintf(text, sizeof(text), "op=hardtanh(-1,%d) dtype=f32", self->key + 2);
    self->program = kiln_test_build(self->service, text);
    return NULL;
}

/* All at once. */
static void build_all(kiln_service *service, order *orders)
{
    pthread_t all[THREADS];
    for (int i = 0; i < THREADS; i++) {
        orders[i] = (order){ service, i, NULL };
        ck_assert_int_eq(pthread_create(&all[i], NULL, build, &orders[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
}

static bool have_nvrtc(kiln_service *service)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = kiln_test_spec(service, "op=relu6 dtype=f32");
    kiln_program *program = NULL;
    kiln_status status = kiln_test_build_spec(&program, service, spec, &report);
    kiln_program_release(program);
    kiln_spec_free(spec);
    ck_assert_msg(status == KILN_OK || status == KILN_ENOCOMPILER, "%s", report.message);
    kiln_report_clear(&report);
    if (status != KILN_OK)
        printf("   left out: there is no NVRTC\n");
    return status == KILN_OK;
}

START_TEST(test_balance__makes_the_same_bytes)
{
    const void *a, *b;
    size_t a_length, b_length;
    kiln_options chosen = kiln_test_gpu_options();
    chosen.cache_dir = "";
    kiln_service *crowded = kiln_test_open(&chosen);
    chosen.isolate = KILN_ISOLATE_NEVER;
    kiln_service *alone = kiln_test_open(&chosen);
    if (have_nvrtc(alone)) {
        order orders[THREADS], other = { alone, 0, NULL };
        build_all(crowded, orders);
        ck_assert_uint_eq(kiln_test_stats(crowded).compiles, THREADS);
        ck_assert_uint_ge(kiln_test_stats(crowded).worker_starts, 1);
        for (other.key = 0; other.key < THREADS; other.key++) {
            build(&other);
            ck_assert_int_eq(kiln_program_section(&a, &a_length, orders[other.key].program, "cubin"), KILN_OK);
            ck_assert_int_eq(kiln_program_section(&b, &b_length, other.program, "cubin"), KILN_OK);
            ck_assert_uint_eq(a_length, b_length);
            ck_assert_mem_eq(a, b, a_length);
            kiln_program_release(orders[other.key].program);
            kiln_program_release(other.program);
        }
    }
    kiln_close(crowded);
    kiln_close(alone);
}
END_TEST

Suite *kiln_test_jit_balance_suite(void)
{
    Suite *suite = suite_create("balance");
    TCase *rule = tcase_create("rule"), *workers = tcase_create("workers");
    tcase_add_checked_fixture(rule, set_up_balance, NULL);
    tcase_add_test(rule, test_balance__first_and_few_beside_it_stay);
    tcase_add_test(rule, test_balance__one_after_the_other_stay);
    tcase_add_test(rule, test_balance__burst_keeps_one_here);
    tcase_add_test(rule, test_balance__next_burst_begins_anew);
    tcase_add_test(rule, test_balance__no_more_outside_than_there_are_processors);
    tcase_add_test(rule, test_balance__all_stay_for_a_while_after_a_failure);
    tcase_add_test(rule, test_balance__pauses_grow_until_a_worker_helps);
    suite_add_tcase(suite, rule);
    tcase_add_checked_fixture(workers, set_up, close_here);
    kiln_test_temp_use(workers);
    tcase_add_test(workers, test_balance__few_start_no_worker);
    tcase_add_test(workers, test_balance__many_start_workers);
    tcase_add_test(workers, test_balance__never_means_never);
    tcase_add_test(workers, test_balance__without_a_program_all_compile_here);
    tcase_add_test(workers, test_balance__without_a_working_program_all_compile_here);
    tcase_add_test(workers, test_balance__where_a_worker_finds_no_compiler_all_compile_here);
    tcase_add_test(workers, test_balance__another_compiler_is_no_help);
    tcase_add_test(workers, test_balance__what_costs_a_worker_is_compiled_here);
    tcase_add_test(workers, test_balance__strange_worker_gets_nothing_of_ours);
    tcase_add_test(workers, test_balance__makes_the_same_bytes);
    suite_add_tcase(suite, workers);
    return suite;
}
