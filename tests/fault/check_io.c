/* Every file call fails in every way, once and from then on. Of the store the caller notices nothing: a get is right or a
 * miss, and what kiln_get returns is right. A compile whose own files fail says so, and the next get is right. */
#include "fault/figures.h"
#include "fault/inject.h"
#include "fault/litter.h"
#include "fault/stand_in.h"
#include "support/suites.h"
#include <sched.h>
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
enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

static inject_plan plan_of(const fault *what, uint64_t at, bool on)
{
    return (inject_plan){ .at = at, .on = on, .error = what->error, .short_length = what->short_length };
}

/* ---- The store alone */

typedef enum operation { OPEN, PUT, GET, GET_NEWEST, GET_DAMAGED, DROP, PROBE, VISIT, PURGE, PURGE_DAMAGED } operation;
static const char *const operation_names[] = { "open", "put",   "get",   "get newest", "get damaged",
                                               "drop", "probe", "visit", "purge",      "purge damaged" };
enum {
    OPERATIONS = sizeof(operation_names) / sizeof(operation_names[0]),
    STEP_AFTER = 24,
    STEP = 31,
    EVERY_CALL = 2 /* EIO, once */
};

static int check_item(void *data, const kiln__store_item *item)
{
    *(int *)data += item->entry != NULL;
    ck_assert(item->path[0] == '/');
    ck_assert((item->entry != NULL) == (item->problem[0] == '\0'));
    return 0;
}

static void perform(operation what)
{
    kiln__key old = kiln_test_key("old", "cc-1");
    kiln__blob *blob;
    uint64_t removed;
    int good = 0;
    switch (what) {
    case OPEN:
        store = kiln__disk_store_open(root, &log_, &counters, problem, sizeof(problem));
        ck_assert_msg(store != NULL || problem[0] != '\0', "no store and no reason");
        break;
    case PUT:
        put("new");
        break;
    case GET:
        has("old");
        break;
    case GET_NEWEST:
        blob = get_as("old", "");
        ck_assert(blob == NULL || strcmp(blob->entry.key_text, "old") == 0);
        kiln__blob_release(blob);
        break;
    case GET_DAMAGED:
        ck_assert(!has("damaged"));
        break;
    case DROP:
        store->vtable->drop(store, &old);
        break;
    case PROBE:
        ck_assert_int_le(kiln__disk_store_probe(store), 0);
        break;
    case VISIT:
        kiln__disk_store_visit(store, check_item, &good);
        ck_assert_int_le(good, 2);
        break;
    case PURGE:
    case PURGE_DAMAGED:
        ck_assert_int_le(kiln__disk_store_purge(store, what == PURGE_DAMAGED, &removed, problem, sizeof(problem)), 0);
        ck_assert_uint_le(removed, 3);
        break;
    }
}

static void close_store(void)
{
    if (store)
        store->vtable->close(store);
    store = NULL;
}

static void prepare(operation what)
{
    char path[PATH_SIZE];
    kiln_test_temp_remove(root);
    if (what == OPEN)
        return;
    open_store();
    put("old");
    put("damaged");
    path_as(path, "damaged", "cc-1");
    damage(path, FLIP);
}

/* The same open store must do all it should, now that the fault has gone. */
static void check_recovered(operation what)
{
    static const char *const texts[] = { "old", "new", "damaged" };
    if (!store)
        open_store();
    ck_assert_msg(what == OPEN || what == DROP || what == PURGE || has("old"), "'%s' lost an entry",
                  operation_names[what]);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (has(texts[i]))
            continue;
        put(texts[i]);
        ck_assert_msg(has(texts[i]), "'%s' cannot be kept after a fault in '%s'", texts[i], operation_names[what]);
    }
    ck_assert_int_le(count_litter(false), 1);
    if (count_litter(false) > 0)
        ck_assert_int_eq(sweep_litter(), 0);
    close_store();
    ck_assert_int_eq(count_descriptors(), descriptors);
}

typedef struct sums {
    uint64_t runs, hits, errors;
} sums;

/* True if a call was there to fail. */
static bool run(operation what, const inject_plan *plan, sums *sum)
{
    prepare(what);
    uint64_t before = atomic_load(&counters.errors);
    inject_arm(plan);
    perform(what);
    inject_disarm();
    uint64_t hits = inject_hits();
    sum->runs += hits > 0;
    sum->hits += hits;
    sum->errors += atomic_load(&counters.errors) - before;
    check_recovered(what);
    return hits > 0;
}

/* Short reads and writes hit only some calls, so the end is where the calls end. */
static uint64_t count_calls(operation what, bool no_unnamed)
{
    prepare(what);
    inject_arm(&(inject_plan){ .no_unnamed = no_unnamed });
    perform(what);
    uint64_t calls = inject_disarm();
    check_recovered(what);
    return calls;
}

/* Walks of all 256 shards make the same few calls over and over: the short form takes every so many of them, but for one
 * fault each, for some calls are on the entries. */
static uint64_t next_call(uint64_t at, size_t kind)
{
    return fault_long || at < STEP_AFTER || kind == EVERY_CALL ? at + 1 : at + STEP + kind % 3;
}

START_TEST(test_io__store_is_right_whatever_call_fails)
{
    bool no_unnamed = _i == 1;
    sums all = { 0 };
    double start = seconds_now();
    for (int what = 0; what < OPERATIONS; what++) {
        sums sum = { 0 };
        uint64_t calls = count_calls((operation)what, no_unnamed);
        for (size_t k = 0; k < 2 * FAULTS; k++)
            for (uint64_t at = 1; at <= calls; at = next_call(at, k)) {
                inject_plan plan = plan_of(&faults[k / 2], at, k % 2);
                plan.no_unnamed = no_unnamed;
                run((operation)what, &plan, &sum);
            }
        ck_assert_uint_gt(sum.runs, 0);
        FIGURES("io: %s, %s temporaries: %llu calls, %llu runs with a fault, %llu calls hit, %llu errors counted",
                operation_names[what], no_unnamed ? "named" : "unnamed", (unsigned long long)calls,
                (unsigned long long)sum.runs, (unsigned long long)sum.hits, (unsigned long long)sum.errors);
        all.runs += sum.runs;
    }
    FIGURES("io: store alone: %llu runs with a fault, all right; %.1f s", (unsigned long long)all.runs,
            seconds_now() - start);
}
END_TEST

/* ---- The whole way: open, get, launch */

typedef struct got {
    uint64_t runs, right, refused, errors;
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

static kiln_source get_again(kiln_service *service)
{
    kiln_kernel_info info = { .size = sizeof(info) };
    kiln_kernel *kernel = kiln_test_get(service, STAND_IN_SPEC);
    kiln_test_check_hardsigmoid(kernel);
    kiln_kernel_get_info(kernel, &info);
    kiln_release(kernel);
    return info.source;
}

/* Returns how many calls there were. */
static uint64_t get_with(const kiln_options *options, const inject_plan *plan, bool warm, got *sum)
{
    kiln_report report = KILN_REPORT_INIT;
    kiln_service *service = NULL;
    kiln_spec *spec = NULL;
    kiln_kernel *kernel = NULL;
    inject_arm(plan);
    ck_assert_int_eq(kiln_open(&service, options, &report), KILN_OK);
    ck_assert_int_eq(kiln_spec_parse(&spec, service, STAND_IN_SPEC, &report), KILN_OK);
    kiln_status status = kiln_get(&kernel, service, spec, &report);
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
        sum->errors += kiln_test_stats(service).store_errors;
    }
    kiln_release(kernel);
    kiln_source source = get_again(service);
    /* Nothing that happens elsewhere is a reason to throw a stored kernel away. */
    ck_assert(!warm || plan->where == INJECT_INSIDE || source != KILN_SOURCE_COMPILED);
    kiln_report_clear(&report);
    kiln_spec_free(spec);
    kiln_close(service);
    return calls;
}

static void get_everywhere(const char *what, const kiln_options *options, inject_where where, bool warm)
{
    got sum = { 0 }, unused = { 0 };
    inject_plan none = { .where = where, .root = options->cache_dir };
    double start = seconds_now();
    bool few = fault_is_sanitized() && !fault_long;
    kiln_test_temp_remove(options->cache_dir);
    uint64_t calls = get_with(options, &none, false, &unused);
    if (warm)
        calls = get_with(options, &none, true, &unused);
    for (size_t k = 0; k < 2 * FAULTS; k++) {
        for (uint64_t at = few ? 1 + k % 4 : 1; at <= calls; at += few ? 4 : 1) {
            inject_plan plan = plan_of(&faults[k / 2], at, k % 2);
            plan.where = where;
            plan.root = options->cache_dir;
            if (!warm)
                kiln_test_temp_remove(options->cache_dir);
            get_with(options, &plan, warm, &sum);
        }
    }
    FIGURES(
        "io: kiln_get, %s: %llu calls, %llu runs with a fault, %llu right kernels, %llu refused with a report, %llu "
        "store errors counted; %.1f s",
        what, (unsigned long long)calls, (unsigned long long)sum.runs, (unsigned long long)sum.right,
        (unsigned long long)sum.refused, (unsigned long long)sum.errors, seconds_now() - start);
    ck_assert_uint_gt(sum.runs, 0);
    ck_assert(where == INJECT_OUTSIDE || sum.refused == 0);
}

START_TEST(test_io__get_is_right_whatever_call_on_the_store_fails)
{
    kiln_options options = stand_in_options();
    char directory[PATH_SIZE];
    snprintf(directory, sizeof(directory), "%s", options.cache_dir);
    options.cache_dir = directory;
    options.log = silent;
    get_everywhere("cold, faults on the store", &options, INJECT_INSIDE, false);
    get_everywhere("warm, faults on the store", &options, INJECT_INSIDE, true);
}
END_TEST

START_TEST(test_io__get_says_what_is_wrong_with_the_files_of_a_compile)
{
    kiln_options options = stand_in_options();
    char directory[PATH_SIZE];
    snprintf(directory, sizeof(directory), "%s", options.cache_dir);
    options.cache_dir = directory;
    options.log = silent;
    get_everywhere("cold, faults on files outside the store", &options, INJECT_OUTSIDE, false);
    get_everywhere("warm, faults on files outside the store", &options, INJECT_OUTSIDE, true);
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

static kiln_source get_source(const kiln_options *options, kiln_stats *stats)
{
    kiln_service *service = kiln_test_open(options);
    kiln_source source = get_again(service);
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
        ck_assert_int_eq(get_source(&options, &stats), KILN_SOURCE_COMPILED);
        ck_assert_uint_gt(stats.store_errors, 0);
        errors += stats.store_errors;
    }
    ck_assert_int_eq(unlink(filler), 0);
    ck_assert_int_eq(get_source(&options, &stats), KILN_SOURCE_COMPILED);
    ck_assert_uint_eq(stats.store_errors, 0);
    ck_assert_int_eq(get_source(&options, &stats), KILN_SOURCE_DISK);
    fill_up(filler);
    ck_assert_int_eq(get_source(&options, &stats), KILN_SOURCE_DISK);
    FIGURES("io: a full 8 MB tmpfs: %d gets, all right, %llu store errors counted; hits when full, healed when emptied",
            rounds, (unsigned long long)errors);
    umount2(directory, MNT_DETACH);
}
END_TEST

Suite *kiln_test_io_suite(void)
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
    tcase_add_test(whole, test_io__full_file_system_is_no_error);
    suite_add_tcase(suite, whole);
    return suite;
}
