/* A process that is killed at any moment leaves a store that is right: each hit has the right bytes, what was whole
 * stays whole, and what is left over is at most one temporary for each killed writer, which a purge takes away. */
#include "fault/figures.h"
#include "fault/inject.h"
#include "fault/operations.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include <signal.h>
#include <sys/wait.h>

enum {
    KEYS = 32,
    SHARDS = 8,
    SHARD_HOLDS = 3,
    CHECK_EVERY = 100,
    PAUSE_MAX_US = 2000,
    CALLS_MOST = 8192,
    SANITIZED_STEP = 3
};

static int take_any(void *data, const kiln__store_item *item)
{
    (void)data;
    (void)item;
    return 0;
}

/* ---- Every file call of every operation */

/* Runs the operation in a child that is killed at call `at`; false if there are fewer calls than that. */
static bool kill_at(const operation *what, uint64_t at, inject_kill kill, bool no_unnamed)
{
    int status;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (host != NULL)
            open_host(); /* the parent's is not for a child */
        inject_arm(&(inject_plan){ .at = at, .kill = kill, .no_unnamed = no_unnamed });
        _exit(what->perform() ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s ended with status %#x", what->name,
                  (unsigned)status);
    return false;
}

/* Returns how many temporaries it left. */
static int check_after(const operation *what)
{
    close_operation();
    int left = count_litter(false) + count_pack_litter(false);
    /* One from before, unless it was that which was swept, and one of the killed process. */
    ck_assert_int_le(left, what->empty ? 1 : 2);
    check_operation(what, true);
    ck_assert_int_eq(sweep_litter() + count_pack_litter(false), 0);
    close_operation();
    return left;
}

/* The calls of the operation, for it alone and not killed. */
static size_t list_calls(const operation *what, bool no_unnamed, uint16_t *calls)
{
    prepare_operation(what);
    inject_arm(&(inject_plan){ .no_unnamed = no_unnamed });
    bool good = what->perform();
    inject_disarm();
    size_t count = inject_calls(calls, CALLS_MOST, fault_long);
    ck_assert_msg(good, "%s falls short of what it is for", what->name);
    check_after(what);
    return count;
}

static uint64_t kill_everywhere(const operation *what, bool no_unnamed, int *litter)
{
    static uint16_t calls[CALLS_MOST];
    uint64_t kills = 0;
    size_t count = list_calls(what, no_unnamed, calls);
    ck_assert_uint_gt(count, 1);
    /* Instrumented code is slow to fork. */
    bool few = KILN_TEST_SANITIZED && !fault_long;
    for (int after = 0; after < 2; after++) {
        for (size_t i = few ? (size_t)after : 0; i < count; i += few ? SANITIZED_STEP : 1) {
            prepare_operation(what);
            bool old = !what->empty;
            bool killed = kill_at(what, calls[i], after ? INJECT_KILL_AFTER : INJECT_KILL_BEFORE, no_unnamed);
            int left = check_after(what);
            *litter += left > old ? left - old : 0;
            kills += killed;
        }
    }
    return kills;
}

START_TEST(test_kills__before_and_after_every_file_call)
{
    bool named = _i == 1;
    uint64_t all = 0;
    int litter_all = 0;
    double start = seconds_now();
    for (int i = 0; i < OPERATIONS; i++) {
        const operation *what = &operations[i];
        int litter = 0;
        if (named && !what->publishes)
            continue;
        uint64_t kills = kill_everywhere(what, named, &litter);
        FIGURES("kills: %s, %s temporaries: %llu kills, %d left a temporary", what->name, named ? "named" : "unnamed",
                (unsigned long long)kills, litter);
        ck_assert_uint_gt(kills, 0);
        bool names = named || what->perform == probe_operation || what->perform == export_operation;
        ck_assert_msg(names || litter == 0, "an unnamed file left something behind");
        all += kills;
        litter_all += litter;
    }
    FIGURES(
        "kills: before and after every file call: %llu kills, 0 wrong hits, 0 lost entries, %d temporaries left and "
        "all swept; %.1f s",
        (unsigned long long)all, litter_all, seconds_now() - start);
}
END_TEST

/* ---- At any time */

static void drop(const char *text)
{
    kiln__key key = kiln_test_key(text, "cc-1");
    store->vtable->drop(store, &key);
}

static char keys[KEYS][16]; /* in few shards, so that these fill up */

static void find_keys(void)
{
    for (int found = 0, i = 0; found < KEYS; i++) {
        snprintf(keys[found], sizeof(keys[found]), "key %d", i);
        found += kiln_test_key(keys[found], "").digest[0] < SHARDS;
    }
}

/* Some processes keep caps, so that most of their puts evict what others are about to get, and some know of none. */
static void work(uint64_t seed)
{
    kiln_trim trim;
    open_store();
    if (seed % 3 != 0)
        kiln__disk_store_limit(store, UINT64_MAX, SHARD_HOLDS * 256);
    inject_arm(&(inject_plan){ .no_unnamed = seed % 2 == 0 });
    for (uint64_t state = seed;;) {
        uint64_t choice = next_random(&state) % 100;
        const char *text = keys[next_random(&state) % KEYS];
        if (choice < 90 && !has(text))
            put(text);
        else if (choice == 99)
            purge_damaged_operation();
        else if (choice == 98)
            kiln__disk_store_trim(store, 0, KEYS / 2, &trim);
        else if (choice >= 95)
            drop(text);
    }
}

static pid_t start_worker(uint64_t seed)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        work(seed);
        _exit(1);
    }
    return child;
}

static void end_worker(pid_t child)
{
    int status;
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a worker ended by itself with status %#x",
                  (unsigned)status);
}

static int count_hits(void)
{
    int hits = 0;
    for (int i = 0; i < KEYS; i++)
        hits += has(keys[i]);
    return hits;
}

START_TEST(test_kills__at_random_times)
{
    int kills = fault_long ? 10000 : 1000, litter_most = 0;
    uint64_t state = 7, hits = 0;
    double start = seconds_now();
    find_keys();
    open_store();
    pid_t workers[2] = { start_worker(next_random(&state)), start_worker(next_random(&state)) };
    for (int i = 1; i <= kills; i++) {
        usleep((useconds_t)(next_random(&state) % PAUSE_MAX_US));
        end_worker(workers[i % 2]);
        workers[i % 2] = start_worker(next_random(&state));
        if (i % CHECK_EVERY != 0)
            continue;
        hits += (uint64_t)count_hits();
        int litter = count_litter(false);
        litter_most = litter > litter_most ? litter : litter_most;
        ck_assert_int_le(litter, i + 2);
    }
    end_worker(workers[0]);
    end_worker(workers[1]);
    int litter = count_litter(false);
    ck_assert_int_le(litter, kills + 2);
    ck_assert_int_eq(sweep_litter(), 0);
    hits += (uint64_t)count_hits();
    ck_assert_msg(lock_operation(), "the lock is stuck");
    for (int i = 0; i < KEYS; i++)
        put(keys[i]);
    ck_assert_int_eq(count_hits(), KEYS);
    ck_assert_int_eq(kiln__disk_store_visit(store, take_any, NULL), 0);
    ck_assert_uint_eq(atomic_load(&counters.damaged), 0);
    FIGURES("kills: at random times: %d kills, %llu hits checked, 0 wrong, %d temporaries left and all swept; %.1f s",
            kills, (unsigned long long)hits, litter, seconds_now() - start);
}
END_TEST

Suite *kiln_test_fault_kills_suite(void)
{
    Suite *suite = suite_create("kills");
    TCase *tcase = tcase_create("kills");
    tcase_set_timeout(tcase, fault_long ? 7200 : 500);
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, test_kills__before_and_after_every_file_call, 0, 2);
    tcase_add_test(tcase, test_kills__at_random_times);
    suite_add_tcase(suite, tcase);
    return suite;
}
