#include "base/alloc.h"
#include "cpu/cpu.h"
#include "os/fork.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct cover {
    uint64_t n, chunk;
    _Atomic unsigned char *seen; /* of each chunk */
    _Atomic uint64_t elements;
    atomic_bool wrong;
} cover;

static void visit(void *data, uint64_t begin, uint64_t end)
{
    cover *c = data;
    uint64_t left = c->n - begin;
    if (begin % c->chunk != 0 || begin >= c->n || end - begin != (left < c->chunk ? left : c->chunk))
        c->wrong = true;
    else
        atomic_fetch_add(&c->seen[begin / c->chunk], 1);
    atomic_fetch_add(&c->elements, end - begin);
}

/* True if a run calls for each chunk exactly once. */
static bool covers(kiln__pool *pool, uint64_t n, uint64_t chunk)
{
    size_t chunks = n == 0 ? 0 : (size_t)((n - 1) / chunk + 1);
    cover c = { .n = n, .chunk = chunk, .seen = calloc(chunks + 1, 1) };
    kiln__pool_run(pool, n, chunk, visit, &c);
    bool good = c.seen != NULL && !c.wrong && c.elements == n;
    for (size_t i = 0; i < chunks; i++)
        good = good && c.seen[i] == 1;
    free((void *)c.seen);
    return good;
}

static int pool_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(tasks);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], name[16] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        count += fgets(name, sizeof(name), file) != NULL && strncmp(name, "kiln-cpu", 8) == 0;
        fclose(file);
    }
    closedir(tasks);
    return count;
}

/* A thread names itself a moment after its start and leaves the list a moment after it was joined. */
static bool comes_to_threads(int wanted)
{
    for (int i = 0; i < 5000 && pool_threads() != wanted; i++)
        usleep(1000);
    return pool_threads() == wanted;
}

START_TEST(every_chunk_is_computed_once)
{
    static const unsigned helpers[] = { 0, 1, 3, 16 };
    static const uint64_t chunks[] = { 1, 2, 3, 7, 64, 1000, 4096 };
    kiln__pool *pool = kiln__pool_open(helpers[_i]);
    ck_assert_ptr_nonnull(pool);
    for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); c++) {
        for (uint64_t n = 0; n < 40; n++)
            ck_assert_msg(covers(pool, n, chunks[c]), "n %u chunk %u", (unsigned)n, (unsigned)chunks[c]);
        for (uint64_t n = 1; n <= 100000; n = n * 3 + 1)
            ck_assert_msg(covers(pool, n, chunks[c]), "n %u chunk %u", (unsigned)n, (unsigned)chunks[c]);
    }
    kiln__pool_close(pool);
}
END_TEST

START_TEST(the_largest_counts_do_not_overflow)
{
    kiln__pool *pool = kiln__pool_open(3);
    ck_assert(covers(pool, UINT64_MAX, UINT64_MAX));
    ck_assert(covers(pool, UINT64_MAX, UINT64_MAX - 1));
    ck_assert(covers(pool, UINT64_MAX, (uint64_t)1 << 63));
    ck_assert(covers(pool, UINT64_MAX, ((uint64_t)1 << 52) + 1));
    ck_assert(covers(pool, UINT64_MAX - 5, ((uint64_t)1 << 50) - 1));
    kiln__pool_close(pool);
}
END_TEST

START_TEST(nothing_starts_before_it_is_needed)
{
    kiln__pool *pool = kiln__pool_open(2);
    ck_assert(covers(pool, 1000, 1000));
    ck_assert(covers(pool, 0, 1));
    ck_assert_int_eq(pool_threads(), 0);
    ck_assert(covers(pool, 1001, 1000));
    ck_assert(comes_to_threads(2));
    kiln__pool_close(pool);
    ck_assert(comes_to_threads(0));
    kiln__pool_close(kiln__pool_open(2));
    kiln__pool_close(NULL);
}
END_TEST

typedef struct meeting {
    pthread_barrier_t barrier;
    pthread_t caller;
    atomic_int helpers, named, deaf;
} meeting;

/* Returns only when every thread of the pool is in here at once. */
static void meet(void *data, uint64_t begin, uint64_t end)
{
    meeting *m = data;
    (void)begin;
    (void)end;
    if (!pthread_equal(pthread_self(), m->caller)) {
        char name[16];
        sigset_t mask;
        atomic_fetch_add(&m->helpers, 1);
        if (pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 && strcmp(name, "kiln-cpu") == 0)
            atomic_fetch_add(&m->named, 1);
        if (pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, SIGINT) == 1 &&
            sigismember(&mask, SIGCHLD) == 1 && sigismember(&mask, SIGPROF) == 1)
            atomic_fetch_add(&m->deaf, 1);
    }
    pthread_barrier_wait(&m->barrier);
}

START_TEST(all_threads_work_at_once)
{
    enum { HELPERS = 5 };
    kiln__pool *pool = kiln__pool_open(HELPERS);
    for (int i = 0; i < 100; i++) {
        meeting m = { .caller = pthread_self() };
        pthread_barrier_init(&m.barrier, NULL, HELPERS + 1);
        kiln__pool_run(pool, HELPERS + 1, 1, meet, &m);
        pthread_barrier_destroy(&m.barrier);
        ck_assert_int_eq(m.helpers, HELPERS);
        ck_assert_int_eq(m.named, HELPERS);
        ck_assert_int_eq(m.deaf, HELPERS);
    }
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    ck_assert_int_eq(sigismember(&mask, SIGINT), 0);
    kiln__pool_close(pool);
}
END_TEST

/* Helpers write plain memory that the caller reads and writes between runs: the run must order them. */
static void increment(void *data, uint64_t begin, uint64_t end)
{
    unsigned *values = data;
    for (uint64_t i = begin; i < end; i++)
        values[i]++;
}

START_TEST(results_are_visible_to_the_caller)
{
    enum { N = 1000, ROUNDS = 500 };
    static unsigned values[N];
    kiln__pool *pool = kiln__pool_open(3);
    for (unsigned round = 0; round < ROUNDS; round++) {
        kiln__pool_run(pool, N, 1 + round % 70, increment, values);
        for (size_t i = 0; i < N; i++)
            ck_assert_uint_eq(values[i]++, 2 * round + 1);
    }
    kiln__pool_close(pool);
}
END_TEST

static void *run_many(void *data)
{
    uintptr_t failures = 0;
    for (uint64_t i = 0; i < 200; i++)
        failures += !covers(data, 1 + i * 37, 1 + i % 19);
    return (void *)failures;
}

START_TEST(concurrent_runs_take_turns)
{
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    kiln__pool *pool = kiln__pool_open(3);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_many, pool), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failures = NULL;
        pthread_join(threads[i], &failures);
        ck_assert_ptr_null(failures);
    }
    kiln__pool_close(pool);
}
END_TEST

/* 0 if a child, in which the threads are not, shares a pool that works. */
static int share_in_child(const kiln__pool *of_parent)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        kiln__pool *pool = kiln__pool_share(2);
        bool good = pool != NULL && pool != of_parent && covers(pool, 1000, 10);
        kiln__pool_release(pool);
        _exit(good ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

START_TEST(services_share_a_pool)
{
    ck_assert_int_eq(kiln__fork_watch(), 0);
    kiln__pool *one = kiln__pool_share(2), *same = kiln__pool_share(2), *other = kiln__pool_share(1);
    ck_assert_ptr_nonnull(one);
    ck_assert_ptr_eq(one, same);
    ck_assert_ptr_ne(one, other);
    kiln__pool_release(other);
    ck_assert(covers(one, 1000, 10));
    kiln__pool_release(one);
    ck_assert(covers(same, 1000, 10));
    ck_assert(comes_to_threads(2));
    if (KILN_TEST_CAN_FORK)
        ck_assert_int_eq(share_in_child(same), 0);
    kiln__pool_release(same);
    ck_assert(comes_to_threads(0));
    kiln__pool_release(NULL);
}
END_TEST

static int refuse_all(void)
{
    return 1;
}

START_TEST(a_run_needs_no_memory)
{
    kiln__pool *pool = kiln__pool_open(3);
    kiln__alloc_set_hook(refuse_all);
    ck_assert_ptr_null(kiln__pool_open(3));
    bool good = covers(pool, 1000, 10);
    kiln__alloc_set_hook(NULL);
    ck_assert(good);
    ck_assert(comes_to_threads(3));
    kiln__pool_close(pool);
}
END_TEST

Suite *kiln_test_cpu_pool_suite(void)
{
    Suite *suite = suite_create("pool");
    TCase *tests = tcase_create("pool");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_chunk_is_computed_once, 0, 4);
    tcase_add_test(tests, the_largest_counts_do_not_overflow);
    tcase_add_test(tests, nothing_starts_before_it_is_needed);
    tcase_add_test(tests, all_threads_work_at_once);
    tcase_add_test(tests, results_are_visible_to_the_caller);
    tcase_add_test(tests, concurrent_runs_take_turns);
    tcase_add_test(tests, services_share_a_pool);
    tcase_add_test(tests, a_run_needs_no_memory);
    suite_add_tcase(suite, tests);
    return suite;
}
