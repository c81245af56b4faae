/* Compile workers that cannot be relied on: that lie, that are stopped, and programs that are not to be run as one. */
#include "support/suites.h"
#include "support/temp.h"
#include "support/working.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

/* A source that has taken over its worker cannot file its code, or anything that is compiled later, under another toolchain. */
START_TEST(test_worker_faults__source_cannot_name_another_toolchain)
{
    static const kiln_isolate policies[] = { KILN_ISOLATE_ALWAYS, KILN_ISOLATE_AUTO };
    char liar[] = "STAND_IN_LIAR\n";
    kiln__toolchain toolchain;
    for (size_t i = 0; i < 2; i++) {
        options.isolate = policies[i];
        open_here();
        expect(compile(liar), KILN_ECRASHED, "gave no proper answer");
        expect_counts(1, 1, 0);
        ck_assert_int_eq(list_children(NULL, 0), 0);
        expect_good();
        pid_t pid = only_child();
        expect(compile(liar), KILN_ECRASHED, "gave no proper answer"); /* in a worker that was used before */
        expect_counts(2, 2, 0);
        ck_assert(is_dead(pid));
        expect(compiler->vtable->identify(compiler, &toolchain, &report), KILN_OK, "");
        ck_assert_str_eq(toolchain.id, "nvrtc-13.0.1-1");
        close_here();
    }
}
END_TEST

/* ---- Stopped */

static char hang[] = "STAND_IN_HANG\n";

static void stop(pid_t pid)
{
    siginfo_t info;
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
}

static uint64_t ms_since(uint64_t start)
{
    return (kiln__cpu_now_ns() - start) / 1000000;
}

/* The kernel tells that a worker is stopped: waiting for its answer would take half a minute. */
START_TEST(test_worker_faults__stopped_while_idle_is_replaced)
{
    kiln__unit unit = foreign_unit(good);
    for (int i = 0; i < 2; i++) {
        unit.foreign = i == 0;
        open_here();
        expect(compile_unit(&unit), KILN_OK, "");
        pid_t pid = only_child();
        stop(pid);
        uint64_t start = kiln__cpu_now_ns();
        expect(compile_unit(&unit), KILN_OK, "");
        ck_assert_uint_le(ms_since(start), 4 * SLACK_MS);
        ck_assert(is_dead(pid));
        expect_counts(2, 0, 0);
        close_here();
    }
}
END_TEST

static void *stop_the_child(void *data)
{
    pid_t pid = 0;
    while (list_children(&pid, 1) == 0)
        usleep(1000);
    usleep(KILN_TEST_SANITIZED ? 1000000 : 200000); /* until it has begun */
    kill(pid, SIGSTOP);
    return data;
}

START_TEST(test_worker_faults__stopped_while_compiling_ends_at_its_limit)
{
    enum { LIMIT_MS = 2 * SHORT_MS + 2 * SLACK_MS };
    pthread_t thread;
    options.time_ms = LIMIT_MS;
    open_here();
    expect_good();
    uint64_t start = kiln__cpu_now_ns();
    ck_assert_int_eq(pthread_create(&thread, NULL, stop_the_child, NULL), 0);
    expect(compile(hang), KILN_ECRASHED, "did not finish within");
    ck_assert_uint_le(ms_since(start), LIMIT_MS + 4 * SLACK_MS);
    pthread_join(thread, NULL);
    ck_assert_int_eq(list_children(NULL, 0), 0);
    expect_good();
}
END_TEST

Suite *kiln_test_worker_faults_suite(void)
{
    Suite *suite = suite_create("worker_faults");
    TCase *tcase = tcase_create("worker_faults");
    tcase_add_checked_fixture(tcase, set_up, close_here);
    kiln_test_temp_use(tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_worker_faults__source_cannot_name_another_toolchain);
    tcase_add_test(tcase, test_worker_faults__stopped_while_idle_is_replaced);
    tcase_add_test(tcase, test_worker_faults__stopped_while_compiling_ends_at_its_limit);
    suite_add_tcase(suite, tcase);
    return suite;
}
