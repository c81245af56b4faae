/* A process that is killed at any moment leaves a store that is right: each hit has the right bytes, what was whole
 * stays whole, and what is left over is at most one temporary for each killed writer, which a purge takes away. */
#include "fault/figures.h"
#include "fault/inject.h"
#include "fault/litter.h"
#include "support/suites.h"
#include <signal.h>
#include <sys/wait.h>

enum { KEYS = 32, CHECK_EVERY = 100, PAUSE_MAX_US = 2000, STEP_AFTER = 24, STEP = 31 };

static int take_any(void *data, const kiln__store_item *item)
{
    (void)data;
    (void)item;
    return 0;
}

/* ---- Every file call of every operation */

typedef enum operation {
    OPEN,
    PUT,
    PUT_AGAIN,
    GET,
    GET_NEWEST,
    GET_DAMAGED,
    DROP,
    PURGE,
    PURGE_DAMAGED,
    PROBE
} operation;
static const char *const operation_names[] = { "open",        "put",  "put again", "get",           "get newest",
                                               "get damaged", "drop", "purge",     "purge damaged", "probe" };
enum { OPERATIONS = sizeof(operation_names) / sizeof(operation_names[0]) };

static void drop(const char *text)
{
    kiln__key key = kiln_test_key(text, "cc-1");
    store->vtable->drop(store, &key);
}

static void purge(bool refused_only)
{
    uint64_t removed;
    kiln__disk_store_purge(store, refused_only, &removed, problem, sizeof(problem));
}

static void perform(operation what)
{
    kiln__blob *blob;
    switch (what) {
    case OPEN:
        store = kiln__disk_store_open(root, &log_, &counters, problem, sizeof(problem));
        break;
    case PUT:
        put("new");
        break;
    case PUT_AGAIN:
        put("old");
        break;
    case GET:
        kiln_test_require(has("old"), "a hit");
        break;
    case GET_NEWEST:
        blob = get_as("old", "");
        kiln_test_require(blob != NULL, "a hit");
        kiln__blob_release(blob);
        break;
    case GET_DAMAGED:
        kiln_test_require(!has("damaged"), "a miss");
        break;
    case DROP:
        drop("other");
        break;
    case PURGE:
        purge(false);
        break;
    case PURGE_DAMAGED:
        purge(true);
        break;
    case PROBE:
        kiln__disk_store_probe(store);
        break;
    }
}

/* A store with "old" and "other", a damaged entry and an old temporary; for OPEN no store at all. */
static void prepare(operation what)
{
    char path[PATH_SIZE];
    kiln_test_temp_remove(root);
    if (what == OPEN)
        return;
    open_store();
    put("old");
    put("other");
    put("damaged");
    path_as(path, "damaged", "cc-1");
    damage(path, FLIP);
    kiln_test_temp_write("cache/v1/tmp.0123456789abcdef", "x", 1);
    count_litter(true);
}

static void close_store(void)
{
    if (store)
        store->vtable->close(store);
    store = NULL;
}

/* Runs the operation in a child that is killed at call `at`; false if there are fewer calls than that. */
static bool kill_at(operation what, uint64_t at, inject_kill kill, bool no_unnamed)
{
    int status;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        inject_arm(&(inject_plan){ .at = at, .kill = kill, .no_unnamed = no_unnamed });
        perform(what);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s ended with status %#x", operation_names[what],
                  (unsigned)status);
    return false;
}

static void check_store_after(operation what)
{
    static const char *const texts[] = { "old", "other", "damaged", "new" };
    close_store();
    open_store();
    ck_assert_msg(what == OPEN || what == PURGE || has("old"), "%s lost an entry", operation_names[what]);
    has("new");
    has("other");
    ck_assert(!has("damaged"));
    /* One from before, one of the killed process. */
    ck_assert_int_le(count_litter(false), 2);
    ck_assert_int_eq(sweep_litter(), 0);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        put(texts[i]);
        ck_assert_msg(has(texts[i]), "after a kill in %s '%s' cannot be kept", operation_names[what], texts[i]);
    }
    close_store();
}

static uint64_t kill_everywhere(operation what, bool no_unnamed, int *litter)
{
    uint64_t kills = 0;
    for (int after = 0; after < 2; after++) {
        /* A purge makes the same few calls for each of 256 shards: instrumented code, which is slow to fork, takes some. */
        bool few = fault_is_sanitized() && !fault_long;
        for (uint64_t at = 1;; at += few && at > STEP_AFTER ? STEP : 1) {
            prepare(what);
            int before = what == OPEN ? 0 : 1;
            bool killed = kill_at(what, at, after ? INJECT_KILL_AFTER : INJECT_KILL_BEFORE, no_unnamed);
            int left = count_litter(false) - before;
            ck_assert_int_le(left, 1);
            *litter += left > 0 ? left : 0;
            check_store_after(what);
            if (!killed)
                break;
            kills++;
        }
    }
    return kills;
}

START_TEST(test_kills__before_and_after_every_file_call)
{
    uint64_t all = 0;
    int litter_all = 0;
    double start = seconds_now();
    for (int what = 0; what < OPERATIONS; what++) {
        int litter = 0;
        uint64_t kills = kill_everywhere((operation)what, _i == 1, &litter);
        FIGURES("kills: %s, %s temporaries: %llu kills, %d left a temporary", operation_names[what],
                _i == 1 ? "named" : "unnamed", (unsigned long long)kills, litter);
        ck_assert_uint_gt(kills, 0);
        ck_assert_msg(_i == 1 || litter == 0 || what == PROBE, "an unnamed file left something behind");
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

static void work(uint64_t seed)
{
    char text[24];
    open_store();
    inject_arm(&(inject_plan){ .no_unnamed = seed % 2 == 0 });
    for (uint64_t state = seed;;) {
        uint64_t choice = next_random(&state) % 100;
        snprintf(text, sizeof(text), "key %d", (int)(next_random(&state) % KEYS));
        if (choice < 90 && !has(text))
            put(text);
        else if (choice >= 99)
            purge(true);
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
    char text[24];
    int hits = 0;
    for (int i = 0; i < KEYS; i++) {
        snprintf(text, sizeof(text), "key %d", i);
        hits += has(text);
    }
    return hits;
}

START_TEST(test_kills__at_random_times)
{
    int kills = fault_long ? 10000 : 1000, litter_most = 0;
    uint64_t state = 7, hits = 0;
    double start = seconds_now();
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
    for (int i = 0; i < KEYS; i++) {
        char text[24];
        snprintf(text, sizeof(text), "key %d", i);
        put(text);
    }
    ck_assert_int_eq(count_hits(), KEYS);
    ck_assert_int_eq(kiln__disk_store_visit(store, take_any, NULL), 0);
    ck_assert_uint_eq(atomic_load(&counters.damaged), 0);
    FIGURES("kills: at random times: %d kills, %llu hits checked, 0 wrong, %d temporaries left and all swept; %.1f s",
            kills, (unsigned long long)hits, litter, seconds_now() - start);
}
END_TEST

Suite *kiln_test_kills_suite(void)
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
