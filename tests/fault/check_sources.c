/* Sources of users' own, and what they have read, when file calls fail, when memory runs out and when a process is
 * killed: what comes is the program of the files as they are or one clear error, nothing that was stored is lost by
 * a kill, and afterwards each state of the files gives the bytes that it always gave. */
#include "fault/figures.h"
#include "fault/inject.h"
#include "fault/litter.h"
#include "support/harness.h"
#include "support/reading.h"
#include "support/requesting.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include <kiln/kiln.h>
#include <signal.h>
#include <sys/wait.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

static const int errors[] = { ENOSPC, EIO, EACCES, EROFS, EMFILE, EINTR, ESTALE, EBUSY, 0 /* short */ };
enum {
    ERRORS = sizeof(errors) / sizeof(errors[0]),
    STORED = 0, /* states of the headers: one that the cache knows, */
    FRESH,      /* one that nobody has compiled, */
    PACKED,     /* and one that a pack knows */
    STATES,
    STEP = 9,
    SMALL_STEP = 3,
    SANITIZED_STEP = 17,
    LOCK_WAIT_MS = 20,
    OLD_ENOUGH_S = 3 /* for the digest of a file to be remembered */
};

static const char *const sections[] = { "cubin", "ptx", "functions", "names", "key" };
enum { SECTIONS = sizeof(sections) / sizeof(sections[0]), SECTION_MAX = 8192 };

static struct state {
    char directory[PATH_SIZE];
    uint8_t bytes[SECTIONS][SECTION_MAX]; /* what it compiles to */
    size_t lengths[SECTIONS];
} states[STATES];

static char area[PATH_SIZE], headers[PATH_SIZE], pack[PATH_SIZE];
static kiln_report report = KILN_INIT(kiln_report);

static void ignore_line(void *data, kiln_log_level level, const char *message)
{
    (void)data;
    (void)level;
    ck_assert(message[0] != '\0');
}

static kiln_options options_here(bool stores)
{
    kiln_options options = kiln_test_gpu_options();
    options.cache_dir = stores ? root : "";
    options.packs = stores ? pack : NULL;
    options.log = ignore_line;
    options.lock_wait_ms = LOCK_WAIT_MS;
    return options;
}

static kiln_service *open_with(const kiln_options *options)
{
    kiln_service *service = kiln_test_open(options);
    kiln_test_reading_install(service);
    return service;
}

static kiln_service *open_plain(bool stores)
{
    kiln_options options = options_here(stores);
    return open_with(&options);
}

static kiln_source source_in(int state)
{
    static const char *const functions[] = { "f0", "f1", "f2" };
    static const char *directories[1];
    kiln_source source = KILN_INIT(kiln_source);
    directories[0] = states[state].directory;
    source.name = "user.cu";
    source.target = "sm_90";
    source.text = "#include \"a.h\"\n#if __has_include(\"b.h\")\n#endif\n";
    source.functions = functions;
    source.function_count = 3;
    source.include_dirs = directories;
    source.include_dir_count = 1;
    source.cuda_headers = KILN_OFF;
    return source;
}

static void check_told(kiln_status status)
{
    kiln_test_require(status == KILN_OK || (report.status == status && report.message[0] != '\0'), "a report");
}

/* ---- What is done: builds and a get */

/* The program, if there is one, is that of the state. */
static kiln_status build_in(kiln_service *service, int state, kiln_origin *origin)
{
    kiln_source source = source_in(state);
    kiln_program *program;
    const void *bytes;
    size_t length;
    kiln_report_clear(&report);
    kiln_status status = kiln_test_build_source(&program, service, &source, &report);
    check_told(status);
    for (int i = 0; status == KILN_OK && i < SECTIONS; i++) {
        kiln_test_require(kiln_program_section(&bytes, &length, program, sections[i]) == KILN_OK, "a section");
        kiln_test_require(length == states[state].lengths[i] && memcmp(bytes, states[state].bytes[i], length) == 0,
                          "the bytes of this state of the headers");
    }
    if (status == KILN_OK && origin != NULL)
        *origin = kiln_test_origin(program);
    kiln_program_release(program);
    return status;
}

/* The program has all of its functions. */
static kiln_status get_in(kiln_service *service, int state)
{
    kiln_source source = source_in(state);
    kiln_program *program;
    kiln_kernel *kernel;
    kiln_report_clear(&report);
    kiln_status status = kiln_test_get_source(&program, service, NULL, &source, &report);
    check_told(status);
    for (size_t i = 0; status == KILN_OK && i < source.function_count; i++) {
        status = kiln_program_kernel(&kernel, program, source.functions[i], &report);
        check_told(status);
        kiln_test_require(status == KILN_OK || status == KILN_ENOMEM, "each function");
        kiln_kernel_release(kernel);
    }
    kiln_program_release(program);
    return status;
}

/* Each state by whatever way: from the cache, compiled and published, from the pack, and from memory. Returns the
 * first failure. */
static kiln_status use(kiln_service *service)
{
    kiln_status all[] = { build_in(service, STORED, NULL), build_in(service, FRESH, NULL),
                          build_in(service, PACKED, NULL), build_in(service, FRESH, NULL), get_in(service, FRESH) };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i] != KILN_OK)
            return all[i];
    return KILN_OK;
}

/* ---- Before and after */

static void make_state(int state, const char *name, const char *text, bool more)
{
    char file[64];
    snprintf(file, sizeof(file), "headers/%s", name);
    ck_assert_int_eq(mkdir(kiln_test_temp_path(file), 0700), 0);
    snprintf(states[state].directory, PATH_SIZE, "%s", kiln_test_temp_path(file));
    snprintf(file, sizeof(file), "headers/%s/a.h", name);
    kiln_test_temp_write(file, text, strlen(text));
    snprintf(file, sizeof(file), "headers/%s/b.h", name);
    if (more)
        kiln_test_temp_write(file, "more;\n", 6);
}

static void learn_state(kiln_service *service, int state)
{
    kiln_source source = source_in(state);
    kiln_program *program;
    const void *bytes;
    ck_assert_int_eq(kiln_test_build_source(&program, service, &source, &report), KILN_OK);
    for (int i = 0; i < SECTIONS; i++) {
        size_t *length = &states[state].lengths[i];
        ck_assert_int_eq(kiln_program_section(&bytes, length, program, sections[i]), KILN_OK);
        ck_assert_uint_le(*length, SECTION_MAX);
        memcpy(states[state].bytes[i], bytes, *length);
    }
    kiln_program_release(program);
}

static void make_states(void)
{
    setup();
    snprintf(area, sizeof(area), "%s", kiln_test_temp_path("area"));
    snprintf(headers, sizeof(headers), "%s", kiln_test_temp_path("headers"));
    ck_assert_int_eq(mkdir(area, 0700), 0);
    ck_assert_int_eq(mkdir(headers, 0700), 0);
    snprintf(root, sizeof(root), "%.400s/cache", area);
    snprintf(pack, sizeof(pack), "%.400s/pack", area);
    make_state(STORED, "stored", "state 1;\n", false);
    make_state(FRESH, "fresh", "state 2;\n", false);
    make_state(PACKED, "packed", "state 2;\n", true);
    kiln_service *service = open_plain(false);
    for (int i = 0; i < STATES; i++)
        learn_state(service, i);
    kiln_close(service);
    kiln_options options = options_here(true);
    options.packs = NULL;
    service = open_with(&options);
    ck_assert_int_eq(build_in(service, PACKED, NULL), KILN_OK);
    ck_assert_int_eq(kiln_cache_export(service, pack, NULL, NULL, NULL, NULL), KILN_OK);
    kiln_close(service);
}

static void end_states(void)
{
    kiln_report_clear(&report);
    ck_assert_int_eq(count_descriptors(), descriptors);
}

/* A cache that knows one state. */
static void prepare(void)
{
    kiln_test_temp_remove(root);
    kiln_options options = options_here(true);
    options.packs = NULL;
    kiln_service *service = open_with(&options);
    ck_assert_int_eq(build_in(service, STORED, NULL), KILN_OK);
    kiln_close(service);
}

/* Each state gives its bytes, and after that from the stores alone. With `whole` what was known before is known
 * still. */
static void check_after(bool whole)
{
    kiln_origin origin = KILN_ORIGIN_COMPILED;
    kiln_service *service = open_plain(true);
    ck_assert_int_eq(build_in(service, STORED, &origin), KILN_OK);
    ck_assert_msg(!whole || origin == KILN_ORIGIN_DISK, "the state that the cache knew was lost");
    ck_assert_int_eq(build_in(service, PACKED, &origin), KILN_OK);
    ck_assert_int_ne(origin, KILN_ORIGIN_COMPILED);
    ck_assert_int_eq(build_in(service, FRESH, NULL), KILN_OK);
    ck_assert_uint_eq(kiln_test_stats(service).store_damaged, 0);
    kiln_close(service);
    kiln_options options = options_here(true);
    options.strict = KILN_ON;
    service = open_with(&options);
    for (int i = 0; i < STATES; i++)
        ck_assert_msg(build_in(service, i, NULL) == KILN_OK, "not stored: %s", report.message);
    kiln_close(service);
    open_store();
    ck_assert_int_eq(sweep_litter(), 0);
    teardown();
}

/* ---- File calls fail */

static uint64_t run(const inject_plan *plan, uint64_t *hits)
{
    kiln_options options = options_here(true);
    kiln_service *service = NULL;
    prepare();
    inject_arm(plan);
    ck_assert_int_eq(kiln_open(&service, &options, NULL), KILN_OK);
    kiln_test_reading_install(service);
    kiln_status status = use(service);
    uint64_t calls = inject_disarm();
    ck_assert_msg(status == KILN_OK, "%s at %s, call %llu%s: %s: %s", strerrorname_np(plan->error), inject_first(),
                  (unsigned long long)plan->at, plan->on ? " and on" : "", kiln_status_name(status), report.message);
    *hits += inject_hits() > 0;
    kiln_close(service);
    check_after(false);
    return calls;
}

static size_t step_of(size_t quick)
{
    return fault_long ? 1 : KILN_TEST_SANITIZED ? SANITIZED_STEP : quick;
}

/* On the stores: the cache with its lists and entries, the pack and the lock. On the headers: the reading of their
 * digests. */
START_TEST(test_sources__program_is_right_whatever_call_fails)
{
    const char *below = _i == 0 ? area : headers;
    uint64_t runs = 0, none = 0;
    double start = seconds_now();
    size_t step = step_of(_i == 0 ? STEP : SMALL_STEP);
    if (_i == 1)
        sleep(OLD_ENOUGH_S);
    uint64_t calls = run(&(inject_plan){ .where = INJECT_INSIDE, .root = below }, &none);
    ck_assert_uint_gt(calls, 1);
    for (size_t k = 0; k < 2 * ERRORS; k++)
        for (uint64_t at = 1 + k % step; at <= calls; at += step)
            run(&(inject_plan){ .at = at,
                                .on = k % 2,
                                .error = errors[k / 2],
                                .short_length = errors[k / 2] == 0,
                                .where = INJECT_INSIDE,
                                .root = below },
                &runs);
    ck_assert_uint_gt(runs, 0);
    FIGURES("sources: faults on %s: %llu calls, %llu runs with a fault, all right; %.1f s",
            _i == 0 ? "the stores" : "the headers", (unsigned long long)calls, (unsigned long long)runs,
            seconds_now() - start);
}
END_TEST

/* ---- Memory runs out */

static uint64_t run_short_of_memory(uint64_t at, bool on, uint64_t *refused)
{
    kiln_options options = options_here(true);
    kiln_service *service = NULL;
    prepare();
    inject_memory_arm(at, on);
    kiln_status status = kiln_open(&service, &options, NULL);
    if (status == KILN_OK) {
        kiln_test_reading_install(service);
        status = use(service);
    }
    kiln_close(service);
    kiln_report_clear(&report);
    uint64_t allocations = inject_memory_disarm();
    ck_assert_msg(status == KILN_OK || (at > 0 && status == KILN_ENOMEM), "allocation %llu%s: %s",
                  (unsigned long long)at, on ? " and on" : "", kiln_status_name(status));
    *refused += status != KILN_OK;
    check_after(true);
    return allocations;
}

START_TEST(test_sources__allocation_that_fails_is_a_status)
{
    uint64_t runs = 0, refused = 0;
    double start = seconds_now();
    sleep(OLD_ENOUGH_S);
    uint64_t allocations = run_short_of_memory(0, false, &refused);
    ck_assert_uint_eq(refused, 0);
    for (int on = 0; on < 2; on++)
        for (uint64_t at = 1 + (uint64_t)on; at <= allocations; at += step_of(SMALL_STEP), runs++)
            run_short_of_memory(at, on, &refused);
#if defined(__SANITIZE_ADDRESS__)
    ck_assert_int_eq(__lsan_do_recoverable_leak_check(), 0);
#endif
    ck_assert_uint_gt(refused, 0);
    FIGURES("sources: %llu allocations, %llu runs, %llu said KILN_ENOMEM; %.1f s", (unsigned long long)allocations,
            (unsigned long long)runs, (unsigned long long)refused, seconds_now() - start);
}
END_TEST

/* ---- Killed while it publishes */

/* False if there are fewer calls than that. */
static bool kill_at(uint64_t at, inject_kill kill, bool no_unnamed)
{
    int status;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        kiln_service *service = open_plain(true);
        inject_arm(
            &(inject_plan){ .at = at, .kill = kill, .no_unnamed = no_unnamed, .where = INJECT_INSIDE, .root = area });
        _exit(build_in(service, FRESH, NULL) == KILN_OK ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the build ended with status %#x", (unsigned)status);
    return false;
}

/* What was published before is there, be the list the one from before or the new one. */
START_TEST(test_sources__killed_while_it_publishes)
{
    double start = seconds_now();
    uint64_t kills = 0;
    int litter = 0;
    for (int after = 0; after < 2; after++) {
        bool killed = true;
        for (uint64_t at = 1; killed; at += KILN_TEST_SANITIZED && !fault_long ? 3 : 1) {
            prepare();
            killed = kill_at(at, after ? INJECT_KILL_AFTER : INJECT_KILL_BEFORE, _i == 1);
            kills += killed;
            int left = count_litter(false);
            ck_assert_int_le(left, 1);
            litter += left;
            check_after(true);
        }
    }
    ck_assert_uint_gt(kills, 10);
    FIGURES("sources: %llu kills, %s temporaries: no state lost, %d temporaries left and all swept; %.1f s",
            (unsigned long long)kills, _i == 1 ? "named" : "unnamed", litter, seconds_now() - start);
}
END_TEST

Suite *kiln_test_fault_sources_suite(void)
{
    Suite *suite = suite_create("sources");
    TCase *tcase = tcase_create("sources");
    tcase_set_timeout(tcase, fault_long ? 7200 : 500);
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, make_states, end_states);
    tcase_add_loop_test(tcase, test_sources__program_is_right_whatever_call_fails, 0, 2);
    tcase_add_test(tcase, test_sources__allocation_that_fails_is_a_status);
    tcase_add_loop_test(tcase, test_sources__killed_while_it_publishes, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}
