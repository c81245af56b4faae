/* Wisdom when file calls fail, when memory runs out and when a process is killed: what was known stays known, what
 * is added is kept at least by the process that adds it, and nobody is held up afterwards. */
#include "fault/figures.h"
#include "fault/inject.h"
#include "fault/litter.h"
#include "support/fields.h"
#include "support/suites.h"
#include "support/wisdom.h"
#include "wisdom/describe.h"
#include "wisdom/wisdom.h"
#include <signal.h>
#include <sys/wait.h>

#define OLD_GEOMETRY "block=64 elems=4 vector=4 cache=plain"
#define NEW_GEOMETRY "block=512 elems=4 vector=4 cache=stream"

static const int errors[] = { ENOSPC, EIO, EACCES, EROFS, EMFILE, EINTR, ESTALE, EBUSY, 0 /* short */ };
enum { ERRORS = sizeof(errors) / sizeof(errors[0]), PERMITTED_MS = 2000, WAIT_MS = 500, STEP = 3 };

typedef enum operation { LOAD, ADD, ADD_FIRST, ADD_TO_DAMAGED } operation;
static const char *const operation_names[] = { "load", "add", "add the first", "add to a damaged file" };
enum { OPERATIONS = sizeof(operation_names) / sizeof(operation_names[0]) };

static kiln__catalog catalog;
static kiln__wisdom *wisdom;
static const kiln__wisdom_device h200 = { H200, "sm_90", 132, 60 << 20, 150000000000 };

static void open_wisdom(void)
{
    wisdom = kiln__wisdom_open(store, NULL, WAIT_MS, &log_, &counters);
    ck_assert_ptr_nonnull(wisdom);
}

static void close_wisdom(void)
{
    kiln__wisdom_close(wisdom);
    wisdom = NULL;
}

static kiln_status add(const char *op, const char *geometry, kiln__wisdom_outcome *out)
{
    kiln__wisdom_entry record = kiln_test_record(H200, op, "f32", 26, geometry);
    kiln_status status = kiln__wisdom_add(wisdom, &record, 1, out, NULL);
    kiln_test_require(status != KILN_OK || out->stored == (out->problem[0] == '\0'),
                      "a reason exactly where it is not stored");
    return status;
}

/* Whether an op's own record is the one that is chosen, which must then be right. */
static bool knows(const char *op, const char *geometry)
{
    char text[128];
    kiln__fields spec;
    kiln__text chosen = { 0 };
    kiln__wisdom_choice choice;
    snprintf(text, sizeof(text), "op=%s dtype=f32 n=67108864", op);
    kiln_test_require(kiln_test_fields(&spec, &catalog, text, NULL) == KILN_OK, text);
    kiln__wisdom_query query = { &spec, &h200, "" };
    kiln__wisdom_match(wisdom, &query, &choice, NULL);
    if (!choice.found || choice.distance != 0)
        return false;
    kiln__wisdom_apply(&choice, &spec);
    kiln__wisdom_geometry(&spec, &chosen);
    kiln_test_require(chosen.failed || strcmp(kiln__text_string(&chosen), geometry) == 0, "the right geometry");
    kiln__text_fini(&chosen);
    return true;
}

static bool knows_old(void)
{
    return knows("copy", OLD_GEOMETRY);
}

static bool knows_new(void)
{
    return knows("relu6", NEW_GEOMETRY);
}

/* A store whose file has the old record, or damage in its stead. */
static void prepare(operation what)
{
    kiln__wisdom_outcome outcome;
    char path[PATH_SIZE];
    kiln_test_temp_remove(root);
    open_store();
    if (what == ADD_FIRST)
        return;
    open_wisdom();
    ck_assert_int_eq(add("copy", OLD_GEOMETRY, &outcome), KILN_OK);
    ck_assert_msg(outcome.stored, "%s", outcome.problem);
    close_wisdom();
    snprintf(path, sizeof(path), "%.300s/wisdom/nvidia-h200.json", root);
    if (what == ADD_TO_DAMAGED)
        spill(path, "{", 1);
}

static void close_store(void)
{
    close_wisdom();
    store->vtable->close(store);
    store = NULL;
}

static kiln_status perform(operation what, kiln__wisdom_outcome *out)
{
    *out = (kiln__wisdom_outcome){ 0 };
    if (what != LOAD)
        return add("relu6", NEW_GEOMETRY, out);
    knows_old();
    return KILN_OK;
}

/* The faults have gone: the file has what it had and what was said to be stored, and takes what comes. */
static void check_recovered(operation what, bool stored, const char *when)
{
    kiln__wisdom_outcome outcome;
    bool has_old = what == LOAD || what == ADD;
    close_wisdom();
    open_wisdom();
    ck_assert_msg(knows_old() == has_old, "'%s' lost a record (%s)", operation_names[what], when);
    ck_assert_msg(!stored || knows_new(), "'%s' did not store what it said it had (%s)", operation_names[what], when);
    double start = seconds_now();
    ck_assert_int_eq(add("relu6", NEW_GEOMETRY, &outcome), KILN_OK);
    ck_assert_msg(outcome.stored, "after '%s' nothing can be stored: %s (%s)", operation_names[what], outcome.problem,
                  when);
    ck_assert(seconds_now() - start < PERMITTED_MS / 1e3);
    ck_assert(knows_new() && knows_old() == has_old);
    ck_assert_int_le(count_litter(true), 1);
    if (count_litter(false) > 0) {
        ck_assert_int_eq(add("copy", OLD_GEOMETRY, &outcome), KILN_OK); /* which sweeps */
        ck_assert_int_eq(count_litter(false), 0);
    }
    close_store();
    ck_assert_int_eq(count_descriptors(), descriptors);
}

/* ---- File calls fail */

static uint64_t count_calls(operation what, bool no_unnamed)
{
    kiln__wisdom_outcome outcome;
    prepare(what);
    open_wisdom();
    inject_arm(&(inject_plan){ .no_unnamed = no_unnamed });
    ck_assert_int_eq(perform(what, &outcome), KILN_OK);
    uint64_t calls = inject_disarm();
    check_recovered(what, what != LOAD, "no fault");
    return calls;
}

static void fail_one(operation what, const inject_plan *plan, uint64_t *runs, uint64_t *stored)
{
    kiln__wisdom_outcome outcome;
    char when[80];
    prepare(what);
    open_wisdom();
    inject_arm(plan);
    kiln_status status = perform(what, &outcome);
    inject_disarm();
    snprintf(when, sizeof(when), "%s at %s, call %llu%s", strerrorname_np(plan->error), inject_first(),
             (unsigned long long)plan->at, plan->on ? " and on" : "");
    ck_assert_msg(status == KILN_OK, "%s: %s", when, kiln_status_name(status));
    if (what != LOAD)
        ck_assert_msg(knows_new(), "the process does not know what it added (%s)", when);
    kiln__wisdom_refresh(wisdom);
    ck_assert_msg(knows_old() == (what == LOAD || what == ADD), "what is there is not seen again (%s)", when);
    *runs += inject_hits() > 0;
    *stored += inject_hits() > 0 && outcome.stored;
    check_recovered(what, outcome.stored, when);
}

/* The short form takes every so many of the calls for each fault, others for the next. */
static uint64_t first_call(size_t kind)
{
    return fault_long ? 1 : 1 + kind % STEP;
}

START_TEST(test_wisdom__no_failing_call_loses_anything)
{
    bool no_unnamed = _i == 1;
    double start = seconds_now();
    for (int what = 0; what < OPERATIONS; what++) {
        uint64_t runs = 0, stored = 0, calls = count_calls((operation)what, no_unnamed);
        for (size_t k = 0; k < 2 * ERRORS; k++)
            for (uint64_t at = first_call(k); at <= calls; at += fault_long ? 1 : STEP) {
                const inject_plan plan = { .at = at,
                                           .on = k % 2,
                                           .error = errors[k / 2],
                                           .short_length = errors[k / 2] == 0,
                                           .no_unnamed = no_unnamed };
                fail_one((operation)what, &plan, &runs, &stored);
            }
        ck_assert_uint_gt(runs, 0);
        FIGURES("wisdom: %s, %s temporaries: %llu calls, %llu runs with a fault, %llu of them stored all the same",
                operation_names[what], no_unnamed ? "named" : "unnamed", (unsigned long long)calls,
                (unsigned long long)runs, (unsigned long long)stored);
    }
    FIGURES("wisdom: nothing lost; %.1f s", seconds_now() - start);
}
END_TEST

START_TEST(test_wisdom__asking_again_opens_no_file)
{
    prepare(ADD);
    open_wisdom();
    inject_arm(&(inject_plan){ 0 });
    ck_assert(knows_old());
    uint64_t first = inject_disarm();
    ck_assert_uint_gt(first, 0);
    double start = seconds_now();
    inject_arm(&(inject_plan){ 0 });
    for (int i = 0; i < 1000; i++)
        knows_old();
    uint64_t again = inject_disarm();
    if (seconds_now() - start < 0.5) /* else it may have looked */
        ck_assert_uint_eq(again, 0);
    FIGURES("wisdom: the first match makes %llu file calls, 1000 more %llu", (unsigned long long)first,
            (unsigned long long)again);
    close_store();
}
END_TEST

/* ---- Memory runs out */

START_TEST(test_wisdom__no_failing_allocation_loses_anything)
{
    uint64_t runs = 0, refused = 0;
    for (int what = 0; what < OPERATIONS; what++) {
        for (int on = 0; on < 2; on++) {
            bool failed = true;
            for (uint64_t at = 1; failed; at++) {
                kiln__wisdom_outcome outcome;
                prepare((operation)what);
                open_wisdom();
                inject_memory_arm(at, on == 1);
                kiln_status status = perform((operation)what, &outcome);
                failed = inject_memory_disarm() >= at;
                ck_assert(status == KILN_OK || status == KILN_ENOMEM);
                ck_assert(status != KILN_OK || what == LOAD || knows_new());
                runs += failed;
                refused += status != KILN_OK;
                check_recovered((operation)what, status == KILN_OK && outcome.stored, "an allocation");
            }
        }
    }
    FIGURES("wisdom: %llu failing allocations, %llu told as KILN_ENOMEM, nothing lost", (unsigned long long)runs,
            (unsigned long long)refused);
}
END_TEST

/* ---- Killed */

static bool kill_at(operation what, uint64_t at, inject_kill kill, bool no_unnamed)
{
    int status;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        kiln__wisdom_outcome outcome;
        inject_arm(&(inject_plan){ .at = at, .kill = kill, .no_unnamed = no_unnamed });
        _exit(perform(what, &outcome) == KILN_OK && (what == LOAD || outcome.stored) ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "'%s' ended with status %#x", operation_names[what],
                  (unsigned)status);
    return false;
}

START_TEST(test_wisdom__a_kill_at_any_call_loses_nothing)
{
    uint64_t kills = 0;
    for (int what = ADD; what < OPERATIONS; what++)
        for (int after = 0; after < 2; after++) {
            bool killed = true;
            for (uint64_t at = 1; killed; at++) {
                prepare((operation)what);
                open_wisdom();
                killed = kill_at((operation)what, at, after ? INJECT_KILL_AFTER : INJECT_KILL_BEFORE, _i == 1);
                kills += killed;
                check_recovered((operation)what, !killed, "a kill");
            }
        }
    FIGURES("wisdom: %llu kills with %s temporaries, nothing lost, no lock held", (unsigned long long)kills,
            _i == 1 ? "named" : "unnamed");
}
END_TEST

static void open_catalog(void)
{
    setup();
    ck_assert_int_eq(kiln__catalog_init(&catalog, NULL), KILN_OK);
    for (uint32_t i = 0; i < catalog.ops.count; i++) /* the faults are wisdom's */
        ck_assert_int_eq(kiln__op_load(&catalog.ops, i, NULL), KILN_OK);
}

static void close_catalog(void)
{
    kiln__catalog_fini(&catalog);
    teardown();
}

Suite *kiln_test_fault_wisdom_suite(void)
{
    Suite *suite = suite_create("wisdom");
    TCase *tcase = tcase_create("wisdom");
    tcase_set_timeout(tcase, fault_long ? 7200 : 500);
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, open_catalog, close_catalog);
    tcase_add_loop_test(tcase, test_wisdom__no_failing_call_loses_anything, 0, 2);
    tcase_add_test(tcase, test_wisdom__asking_again_opens_no_file);
    tcase_add_test(tcase, test_wisdom__no_failing_allocation_loses_anything);
    tcase_add_loop_test(tcase, test_wisdom__a_kill_at_any_call_loses_nothing, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}
