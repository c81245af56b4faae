/* Every file call fails in every way, once and from then on. Of the store the caller notices nothing: a get is right
 * or a miss, and what kiln_get returns is right. A compile whose own files fail says so, and the next get is right. */
#include "fault/figures.h"
#include "fault/inject.h"
#include "fault/operations.h"
#include "fault/stand_in.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>

typedef struct fault {
    const char *name;
    int error;
    bool short_length;
} fault;

static const fault faults[] = {
    { "ENOSPC", ENOSPC, false }, { "EIO", EIO, false },       { "EACCES", EACCES, false },
    { "EROFS", EROFS, false },   { "EMFILE", EMFILE, false }, { "EINTR", EINTR, false },
    { "ESTALE", ESTALE, false }, { "EBUSY", EBUSY, false },   { "short reads and writes", 0, true },
};
enum { FAULTS = sizeof(faults) / sizeof(faults[0]), CALLS_MOST = 8192, SHORT_STEP = 5, LOCK_WAIT_HERE_MS = 20 };

static inject_plan plan_of(const fault *what, uint64_t at, bool on)
{
    return (inject_plan){ .at = at, .on = on, .error = what->error, .short_length = what->short_length };
}

/* ---- The store alone */

static void check_after(const operation *what)
{
    check_operation(what, false);
    ck_assert_int_le(count_litter(false), 2);
    ck_assert_int_eq(sweep_litter(), 0);
    close_operation();
    ck_assert_int_eq(count_descriptors(), descriptors);
}

typedef struct sums {
    uint64_t runs, hits, short_of, errors;
} sums;

static void run(const operation *what, const inject_plan *plan, sums *sum)
{
    prepare_operation(what);
    uint64_t before = atomic_load(&counters.errors);
    inject_arm(plan);
    bool good = what->perform();
    inject_disarm();
    uint64_t hits = inject_hits();
    sum->runs += hits > 0;
    sum->hits += hits;
    sum->short_of += !good;
    sum->errors += atomic_load(&counters.errors) - before;
    ck_assert_msg(good || hits > 0, "%s falls short of what it is for", what->name);
    check_after(what);
}

/* Short reads and writes hit only some calls, so the end is where the calls end. */
static size_t list_calls(const operation *what, bool no_unnamed, uint16_t *calls)
{
    sums unused = { 0 };
    run(what, &(inject_plan){ .no_unnamed = no_unnamed }, &unused);
    prepare_operation(what);
    inject_arm(&(inject_plan){ .no_unnamed = no_unnamed });
    what->perform();
    inject_disarm();
    size_t count = inject_calls(calls, CALLS_MOST, fault_long);
    check_after(what);
    return count;
}

/* The short form gives each call some of the faults, and each fault some of the calls, fewer where code is
 * instrumented. The steps are odd, so that a call has faults that pass and faults that stay. */
static size_t step_of(size_t calls)
{
    size_t step = calls <= 12 ? 3 : calls <= 40 ? 5 : 9;
    return fault_long ? 1 : KILN_TEST_SANITIZED ? 3 * step : step;
}

static size_t first_of(size_t kind, size_t calls)
{
    return kind % step_of(calls);
}

static void fail_everywhere(const operation *what, bool no_unnamed, sums *sum)
{
    static uint16_t calls[CALLS_MOST];
    size_t count = list_calls(what, no_unnamed, calls);
    for (size_t k = 0; k < 2 * FAULTS; k++)
        for (size_t i = first_of(k, count); i < count; i += step_of(count)) {
            inject_plan plan = plan_of(&faults[k / 2], calls[i], k % 2);
            plan.no_unnamed = no_unnamed;
            run(what, &plan, sum);
        }
    ck_assert_uint_gt(sum->runs, 0);
    FIGURES("io: %s, %s temporaries: %zu calls, %llu runs with a fault, of which %llu fell short, %llu calls hit, %llu "
            "errors counted",
            what->name, no_unnamed ? "named" : "unnamed", count, (unsigned long long)sum->runs,
            (unsigned long long)sum->short_of, (unsigned long long)sum->hits, (unsigned long long)sum->errors);
}

START_TEST(test_io__store_is_right_whatever_call_fails)
{
    bool no_unnamed = _i == 1;
    uint64_t runs = 0;
    double start = seconds_now();
    for (int i = 0; i < OPERATIONS; i++) {
        sums sum = { 0 };
        if (no_unnamed && !operations[i].publishes)
            continue;
        fail_everywhere(&operations[i], no_unnamed, &sum);
        runs += sum.runs;
    }
    FIGURES("io: store alone: %llu runs with a fault, all right; %.1f s", (unsigned long long)runs,
            seconds_now() - start);
}
END_TEST

/* ---- The whole way: open, get, launch */

typedef struct got {
    uint64_t runs, right, refused, errors, unlocked;
} got;

static void silent(void *data, kiln_log_level level, const char *message)
{
    (void)data;
    (void)level;
    ck_assert(message[0] != '\0');
}

static bool is_allowed(kiln_status status)
{
    return status == KILN_EIO || status == KILN_ECOMPILE || status == KILN_ELOAD || status == KILN_ENOCOMPILER;
}

static kiln_origin get_again(kiln_service *service)
{
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    kiln_kernel *kernel = kiln_test_get(service, STAND_IN_SPEC);
    kiln_test_check_hardsigmoid(kernel);
    kiln_kernel_get_info(kernel, &info);
    kiln_kernel_release(kernel);
    return info.origin;
}

/* Returns how many calls there were. */
static uint64_t get_with(const kiln_options *options, const inject_plan *plan, bool warm, got *sum)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *service = NULL;
    kiln_spec *spec = NULL;
    kiln_kernel *kernel = NULL;
    inject_arm(plan);
    ck_assert_int_eq(kiln_open(&service, options, &report), KILN_OK);
    ck_assert_int_eq(kiln_spec_parse(&spec, service, STAND_IN_SPEC, &report), KILN_OK);
    kiln_status status = kiln_get_kernel(&kernel, service, spec, &report);
    uint64_t calls = inject_disarm();
    bool hit = inject_hits() > 0;
    ck_assert_msg(status == KILN_OK || (plan->where == INJECT_OUTSIDE && hit && is_allowed(status)),
                  "%s at %s, call %llu%s: %s: %s", strerrorname_np(plan->error), inject_first(),
                  (unsigned long long)plan->at, plan->on ? " and on" : "", kiln_status_name(status), report.message);
    if (status == KILN_OK)
        kiln_test_check_hardsigmoid(kernel);
    else
        ck_assert_msg(report.message[0] != '\0' && report.status == status, "a failure without a report");
    if (hit) {
        sum->runs++;
        sum->right += status == KILN_OK;
        sum->refused += status != KILN_OK;
        kiln_stats stats = kiln_test_stats(service);
        sum->errors += stats.store_errors + stats.record_errors;
        sum->unlocked += stats.lock_errors + stats.lock_timeouts;
    }
    kiln_kernel_release(kernel);
    kiln_origin source = get_again(service);
    /* Nothing that happens elsewhere is a reason to throw a stored kernel away. */
    ck_assert(!warm || plan->where == INJECT_INSIDE || source != KILN_ORIGIN_COMPILED);
    kiln_report_clear(&report);
    kiln_spec_free(spec);
    kiln_close(service);
    return calls;
}

static got get_everywhere(const char *what, const kiln_options *options, inject_where where, const char *below,
                          bool warm)
{
    got sum = { 0 }, unused = { 0 };
    inject_plan none = { .where = where, .root = below };
    double start = seconds_now();
    size_t step = fault_long ? 1 : KILN_TEST_SANITIZED ? 3 * SHORT_STEP : SHORT_STEP;
    kiln_test_temp_remove(options->cache_dir);
    uint64_t calls = get_with(options, &none, false, &unused);
    if (warm)
        calls = get_with(options, &none, true, &unused);
    for (size_t k = 0; k < 2 * FAULTS; k++) {
        for (uint64_t at = 1 + k % step; at <= calls; at += step) {
            inject_plan plan = plan_of(&faults[k / 2], at, k % 2);
            plan.where = where;
            plan.root = below;
            if (!warm)
                kiln_test_temp_remove(options->cache_dir);
            get_with(options, &plan, warm, &sum);
        }
    }
    FIGURES(
        "io: kiln_get, %s: %llu calls, %llu runs with a fault, %llu right kernels, %llu refused with a report, %llu "
        "store errors counted, %llu compiles without the lock counted; %.1f s",
        what, (unsigned long long)calls, (unsigned long long)sum.runs, (unsigned long long)sum.right,
        (unsigned long long)sum.refused, (unsigned long long)sum.errors, (unsigned long long)sum.unlocked,
        seconds_now() - start);
    ck_assert_uint_gt(sum.runs, 0);
    ck_assert(where == INJECT_OUTSIDE || sum.refused == 0);
    return sum;
}

/* With a store of its own at "store". */
static kiln_options options_here(void)
{
    static char directory[PATH_SIZE];
    kiln_options options = stand_in_options();
    snprintf(directory, sizeof(directory), "%s", options.cache_dir);
    options.cache_dir = directory;
    options.log = silent;
    options.lock_wait_ms = LOCK_WAIT_HERE_MS;
    return options;
}

START_TEST(test_io__get_is_right_whatever_call_on_the_store_fails)
{
    kiln_options options = options_here();
    got cold = get_everywhere("cold, faults on the store", &options, INJECT_INSIDE, options.cache_dir, false);
    get_everywhere("warm, faults on the store", &options, INJECT_INSIDE, options.cache_dir, true);
    ck_assert_uint_gt(cold.unlocked, 0);
}
END_TEST

START_TEST(test_io__get_says_what_is_wrong_with_the_files_of_a_compile)
{
    kiln_options options = options_here();
    get_everywhere("cold, faults on files outside the store", &options, INJECT_OUTSIDE, options.cache_dir, false);
    get_everywhere("warm, faults on files outside the store", &options, INJECT_OUTSIDE, options.cache_dir, true);
}
END_TEST

typedef struct key_list {
    kiln__key keys[16];
    size_t count;
} key_list;

static int take_key(void *data, const kiln__store_item *item)
{
    key_list *list = data;
    ck_assert(item->entry != NULL && list->count < 16);
    list->keys[list->count++] = item->entry->key;
    return 0;
}

static int fetch(void *data, const kiln__key *key, kiln__blob **out)
{
    return kiln__disk_store_read(data, key, out);
}

/* Fills the options' shared directory and writes all that is in it, what is bound to this machine included, to the
 * pack. */
static void fill_others(const kiln_options *options)
{
    key_list list = { .count = 0 };
    kiln__pack_totals totals;
    kiln_options filling = *options;
    filling.cache_dir = options->shared_dir;
    filling.shared_dir = filling.packs = filling.record = "";
    kiln_service *service = kiln_test_open(&filling);
    ck_assert_int_eq(get_again(service), KILN_ORIGIN_COMPILED);
    kiln_close(service);
    kiln__store *shared = kiln__disk_store_open(options->shared_dir, &log_, &counters, problem, sizeof(problem));
    ck_assert_int_eq(kiln__disk_store_visit(shared, take_key, &list), 0);
    ck_assert_int_eq(kiln__pack_write(&totals, options->packs, list.keys, list.count, fetch, shared), 0);
    shared->vtable->close(shared);
}

START_TEST(test_io__get_is_right_whatever_call_on_packs_shared_directory_and_record_fails)
{
    static char others[PATH_SIZE];
    kiln_options options = options_here();
    snprintf(others, sizeof(others), "%s", kiln_test_temp_path("others"));
    ck_assert_int_eq(mkdir(others, 0700), 0);
    options.shared_dir = kiln_test_temp_path("others/shared");
    options.packs = kiln_test_temp_path("others/pack");
    options.record = kiln_test_temp_path("others/record");
    fill_others(&options);
    get_everywhere("from a pack, faults on packs, shared directory and record", &options, INJECT_INSIDE, others, false);
    ck_assert_int_eq(unlink(options.packs), 0);
    get_everywhere("from the shared directory, faults on it and on the record", &options, INJECT_INSIDE, others, false);
}
END_TEST

/* ---- A file system that is really full */

static bool mount_small(const char *path)
{
    return mkdir(path, 0700) == 0 && unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", path, "tmpfs", 0, "size=8m,mode=0700") == 0;
}

static int fill_up(const char *path)
{
    static char zeros[65536];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    for (size_t length = sizeof(zeros); length > 0;)
        if (write(fd, zeros, length) <= 0)
            length /= 2;
    return close(fd);
}

static kiln_origin get_source(const kiln_options *options, kiln_stats *stats)
{
    kiln_service *service = kiln_test_open(options);
    kiln_origin source = get_again(service);
    *stats = kiln_test_stats(service);
    kiln_close(service);
    return source;
}

START_TEST(test_io__full_file_system_is_no_error)
{
    kiln_options options = stand_in_options();
    char directory[PATH_SIZE], filler[PATH_SIZE + 8];
    const char *fork_mode = getenv("CK_FORK");
    kiln_stats stats;
    snprintf(directory, sizeof(directory), "%s", options.cache_dir);
    snprintf(filler, sizeof(filler), "%s/filler", directory);
    options.cache_dir = directory;
    options.log = silent;
    if ((fork_mode && strcmp(fork_mode, "no") == 0) || !mount_small(directory)) {
        LEFT_OUT("io: a full tmpfs: this process may not mount one");
        return;
    }
    fill_up(filler);
    int rounds = 20;
    uint64_t errors = 0;
    for (int i = 0; i < rounds; i++) {
        ck_assert_int_eq(get_source(&options, &stats), KILN_ORIGIN_COMPILED);
        ck_assert_uint_gt(stats.store_errors, 0);
        errors += stats.store_errors;
    }
    ck_assert_int_eq(unlink(filler), 0);
    ck_assert_int_eq(get_source(&options, &stats), KILN_ORIGIN_COMPILED);
    ck_assert_uint_eq(stats.store_errors, 0);
    ck_assert_int_eq(get_source(&options, &stats), KILN_ORIGIN_DISK);
    fill_up(filler);
    ck_assert_int_eq(get_source(&options, &stats), KILN_ORIGIN_DISK);
    FIGURES("io: a full 8 MB tmpfs: %d gets, all right, %llu store errors counted; hits when full, healed when emptied",
            rounds, (unsigned long long)errors);
    umount2(directory, MNT_DETACH);
}
END_TEST

Suite *kiln_test_fault_io_suite(void)
{
    Suite *suite = suite_create("io");
    TCase *alone = tcase_create("store"), *whole = tcase_create("get");
    tcase_set_timeout(alone, fault_long ? 7200 : 500);
    kiln_test_temp_use(alone);
    tcase_add_checked_fixture(alone, setup, teardown);
    tcase_add_loop_test(alone, test_io__store_is_right_whatever_call_fails, 0, 2);
    suite_add_tcase(suite, alone);
    tcase_set_timeout(whole, fault_long ? 7200 : 500);
    kiln_test_temp_use(whole);
    tcase_add_test(whole, test_io__get_is_right_whatever_call_on_the_store_fails);
    tcase_add_test(whole, test_io__get_says_what_is_wrong_with_the_files_of_a_compile);
    tcase_add_test(whole, test_io__get_is_right_whatever_call_on_packs_shared_directory_and_record_fails);
    tcase_add_test(whole, test_io__full_file_system_is_no_error);
    suite_add_tcase(suite, whole);
    return suite;
}
