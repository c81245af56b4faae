/* Lists of what sources have read, where several stores have one of the same source, and flights that others join.
 * The compiler is the test's own. */
#include "os/cpu.h"
#include "service/service.h"
#include "support/harness.h"
#include "support/reading.h"
#include "support/refuse.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <errno.h>
#include <kiln/kiln.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static kiln_report report = KILN_INIT(kiln_report);
static kiln_service *service;
static kiln_source source;
static char directory[256];
static const char *const directories[] = { directory };

static kiln_options options_of(const char *cache)
{
    kiln_options options = kiln_test_gpu_options();
    options.cache_dir = cache != NULL ? kiln_test_temp_path(cache) : "";
    return options;
}

static void open_with(const kiln_options *options)
{
    service = kiln_test_open(options);
    kiln_test_reading_install(service);
}

static void open_cache(const char *cache)
{
    kiln_options options = options_of(cache);
    open_with(&options);
}

static void close_it(void)
{
    kiln_close(service);
    service = NULL;
}

static void set_up(void)
{
    ck_assert_int_eq(mkdir(kiln_test_temp_path("inc"), 0700), 0);
    snprintf(directory, sizeof(directory), "%s", kiln_test_temp_path("inc"));
    source = (kiln_source)KILN_INIT(kiln_source);
    source.name = "user.cu";
    source.target = "sm_90";
    source.text = "#include \"a.h\"\n#if __has_include(\"b.h\")\n#endif\n";
    source.include_dirs = directories;
    source.include_dir_count = 1;
    source.cuda_headers = KILN_OFF;
}

static void tear_down(void)
{
    close_it();
    kiln_report_clear(&report);
}

static void write_state(int state)
{
    char text[32];
    kiln_test_temp_write("inc/a.h", text, (size_t)snprintf(text, sizeof(text), "state %d;\n", state));
}

/* Brings the header into a state, and builds: what comes must be of this state. Returns where it came from. */
static kiln_origin build_in(kiln_service *where, int state)
{
    kiln_program *program;
    const void *ptx;
    size_t length;
    char expected[32];
    write_state(state);
    kiln_status status = kiln_test_build_source(&program, where, &source, &report);
    ck_assert_msg(status == KILN_OK, "state %d: %s: %s", state, kiln_status_name(status), report.message);
    ck_assert_int_eq(kiln_program_section(&ptx, &length, program, "ptx"), KILN_OK);
    snprintf(expected, sizeof(expected), "state %d;", state);
    ck_assert_msg(strstr(ptx, expected) != NULL, "expected state %d, got: %s", state, (const char *)ptx);
    kiln_origin origin = kiln_test_origin(program);
    kiln_program_release(program);
    return origin;
}

/* A pack of one state, made elsewhere. */
static const char *make_pack(const char *name, int state)
{
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    open_cache("elsewhere");
    ck_assert_int_eq(build_in(service, state), KILN_ORIGIN_COMPILED);
    ck_assert_int_eq(kiln_cache_export(service, kiln_test_temp_path(name), NULL, NULL, &moved, &report), KILN_OK);
    ck_assert_uint_eq(moved.entries, 2);
    close_it();
    kiln_test_temp_remove(kiln_test_temp_path("elsewhere"));
    return kiln_test_temp_path(name);
}

/* ---- Several stores */

START_TEST(test_source_lists__list_of_a_cache_hides_none_of_a_pack)
{
    char packs[1024];
    const char *first = make_pack("first.kilnpack", 1), *second = make_pack("second.kilnpack", 2);
    snprintf(packs, sizeof(packs), "%s:%s", first, second);
    open_cache("cache");
    ck_assert_int_eq(build_in(service, 3), KILN_ORIGIN_COMPILED);
    close_it();
    kiln_options options = options_of("cache");
    options.packs = packs;
    open_with(&options);
    ck_assert_int_eq(build_in(service, 2), KILN_ORIGIN_PACK);
    ck_assert_int_eq(build_in(service, 3), KILN_ORIGIN_DISK);
    ck_assert_int_eq(build_in(service, 1), KILN_ORIGIN_PACK);
    for (int state = 1; state <= 3; state++)
        ck_assert_int_eq(build_in(service, state), KILN_ORIGIN_MEMORY);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 0);
}
END_TEST

/* With a compiler, and with none where any toolchain's will do. */
START_TEST(test_source_lists__strict_mode_finds_what_a_pack_has)
{
    const char *pack = make_pack("only.kilnpack", 1);
    open_cache("cache");
    ck_assert_int_eq(build_in(service, 2), KILN_ORIGIN_COMPILED);
    close_it();
    kiln_options options = options_of("cache");
    options.packs = pack;
    options.strict = KILN_ON;
    options.nvrtc = "/nonexistent/libnvrtc.so.13";
    service = kiln_test_open(&options);
    if (_i == 0)
        kiln_test_reading_install(service);
    ck_assert_int_eq(build_in(service, 1), KILN_ORIGIN_PACK);
    ck_assert_int_eq(build_in(service, 2), KILN_ORIGIN_DISK);
    kiln_program *program;
    write_state(3);
    ck_assert_int_eq(kiln_test_build_source(&program, service, &source, &report), KILN_ESTRICT);
}
END_TEST

START_TEST(test_source_lists__imported_list_is_added_to_what_is_known)
{
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    const char *pack = make_pack("only.kilnpack", 1);
    open_cache("cache");
    ck_assert_int_eq(build_in(service, 2), KILN_ORIGIN_COMPILED);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(kiln_cache_import(service, pack, &moved, &report), KILN_OK);
    ck_assert_uint_eq(moved.present, 2);
    close_it();
    open_cache("cache");
    ck_assert_int_eq(build_in(service, 1), KILN_ORIGIN_DISK);
    ck_assert_int_eq(build_in(service, 2), KILN_ORIGIN_DISK);
}
END_TEST

START_TEST(test_source_lists__imported_list_that_cannot_be_kept_is_told)
{
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    const char *pack = make_pack("only.kilnpack", 1);
    struct sock_filter filter[] = { REFUSE_LOAD(nr), REFUSE(renameat, EROFS), REFUSE(renameat2, EROFS), REFUSE_END };
    open_cache("cache");
    ck_assert_int_eq(build_in(service, 2), KILN_ORIGIN_COMPILED);
    refuse_calls(filter, sizeof(filter) / sizeof(filter[0]));
    ck_assert_int_eq(kiln_cache_import(service, pack, &moved, &report), KILN_EIO);
    ck_assert_msg(strstr(report.message, "cannot add to the store") != NULL, "%s", report.message);
    ck_assert_ptr_nonnull(strstr(report.message, strerror(EROFS)));
    ck_assert_int_eq(build_in(service, 2), KILN_ORIGIN_MEMORY);
}
END_TEST

/* ---- Imports at the same time */

enum { IMPORTERS = 4, ROUNDS = 10, WAITED_MS = 1000, NEVER_MS = 20000 };

typedef struct importer {
    pthread_t thread;
    pthread_barrier_t *start;
    kiln_service *service;
    char pack[256];
    kiln_status status;
} importer;

static void *import_in_thread(void *data)
{
    importer *self = data;
    pthread_barrier_wait(self->start);
    self->status = kiln_cache_import(self->service, self->pack, NULL, NULL);
    return NULL;
}

static void import_at_once(importer *all)
{
    pthread_barrier_t start;
    ck_assert_int_eq(pthread_barrier_init(&start, NULL, IMPORTERS), 0);
    for (int i = 0; i < IMPORTERS; i++) {
        open_cache("cache");
        all[i].service = service;
        all[i].start = &start;
        ck_assert_int_eq(pthread_create(&all[i].thread, NULL, import_in_thread, &all[i]), 0);
    }
    for (int i = 0; i < IMPORTERS; i++) {
        pthread_join(all[i].thread, NULL);
        ck_assert_int_eq(all[i].status, KILN_OK);
        kiln_close(all[i].service);
    }
    service = NULL;
    pthread_barrier_destroy(&start);
}

/* Into a cache that knows nothing of the source, and into one that does. */
START_TEST(test_source_lists__imports_at_once_lose_nothing)
{
    static importer all[IMPORTERS];
    for (int i = 0; i < IMPORTERS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "pack%d", i);
        snprintf(all[i].pack, sizeof(all[i].pack), "%s", make_pack(name, i));
    }
    for (int round = 0; round < ROUNDS; round++) {
        if (_i == 1) {
            open_cache("cache");
            build_in(service, IMPORTERS);
            close_it();
        }
        import_at_once(all);
        open_cache("cache");
        for (int i = 0; i < IMPORTERS + _i; i++)
            ck_assert_int_eq(build_in(service, i), KILN_ORIGIN_DISK);
        close_it();
        kiln_test_temp_remove(kiln_test_temp_path("cache"));
    }
}
END_TEST

static int find_list(void *data, const kiln__store_item *item)
{
    kiln__key *key = data;
    bool found = item->entry != NULL && item->entry->kind == KILN__ENTRY_READS;
    if (found)
        *key = item->entry->key;
    return found;
}

/* While somebody compiles the source, be it for ever. */
START_TEST(test_source_lists__import_waits_for_a_compile_and_not_for_long)
{
    kiln__key key;
    kiln__keylock_hold hold;
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    const char *pack = make_pack("only.kilnpack", 1);
    open_cache("cache");
    kiln_service *compiling = service;
    ck_assert_int_eq(build_in(compiling, 2), KILN_ORIGIN_COMPILED);
    ck_assert_int_eq(kiln__disk_store_visit(compiling->disk, find_list, &key), 0);
    ck_assert(kiln__keylock_take(&compiling->keylock, key.digest, &hold));
    open_cache("cache");
    uint64_t start = kiln__cpu_now_ns();
    ck_assert_int_eq(kiln_cache_import(service, pack, &moved, &report), KILN_OK);
    uint64_t ms = (kiln__cpu_now_ns() - start) / 1000000;
    kiln__keylock_give(&hold);
    kiln_close(compiling);
    ck_assert_uint_ge(ms, WAITED_MS);
    ck_assert_uint_lt(ms, NEVER_MS);
    ck_assert_uint_eq(kiln_test_stats(service).lock_waits, 0);
    close_it();
    open_cache("cache");
    ck_assert_int_eq(build_in(service, 1), KILN_ORIGIN_DISK);
    ck_assert_int_eq(build_in(service, 2), KILN_ORIGIN_DISK);
}
END_TEST

/* ---- Several services */

/* Two processes with one cache: what memory knows hides nothing of what the other has written, and what is written
 * hides nothing either. */
START_TEST(test_source_lists__services_with_one_cache_know_of_each_others_compiles)
{
    open_cache("cache");
    kiln_service *first = service;
    ck_assert_int_eq(build_in(first, 1), KILN_ORIGIN_COMPILED);
    open_cache("cache");
    ck_assert_int_eq(build_in(service, 2), KILN_ORIGIN_COMPILED);
    ck_assert_int_eq(build_in(first, 2), KILN_ORIGIN_DISK);
    ck_assert_int_eq(build_in(service, 3), KILN_ORIGIN_COMPILED);
    ck_assert_int_eq(build_in(first, 4), KILN_ORIGIN_COMPILED);
    kiln_close(first);
    close_it();
    open_cache("cache");
    for (int state = 1; state <= 4; state++)
        ck_assert_int_eq(build_in(service, state), KILN_ORIGIN_DISK);
}
END_TEST

START_TEST(test_source_lists__the_last_twelve_states_are_known)
{
    enum { STATES = 14, KNOWN = 12 };
    open_cache(_i == 0 ? "cache" : NULL);
    for (int state = 1; state <= STATES; state++)
        ck_assert_int_eq(build_in(service, state), KILN_ORIGIN_COMPILED);
    for (int state = STATES - KNOWN + 1; state <= STATES; state++)
        ck_assert_int_eq(build_in(service, state), KILN_ORIGIN_MEMORY);
    ck_assert_int_eq(build_in(service, STATES - KNOWN), KILN_ORIGIN_COMPILED);
}
END_TEST

/* A list that is true and whose kernel has gone says nothing of another one. */
START_TEST(test_source_lists__kernel_that_has_gone_is_compiled_again)
{
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    open_cache("cache");
    ck_assert_int_eq(build_in(service, 1), KILN_ORIGIN_COMPILED);
    ck_assert_int_eq(unlink(kiln_test_entry_path(service)), 0);
    close_it();
    open_cache("cache");
    ck_assert_int_eq(build_in(service, 1), KILN_ORIGIN_COMPILED);
    ck_assert_int_eq(build_in(service, 1), KILN_ORIGIN_MEMORY);
    ck_assert_int_eq(kiln_cache_export(service, kiln_test_temp_path("p"), NULL, NULL, &moved, &report), KILN_OK);
    ck_assert_uint_eq(moved.entries, 2);
}
END_TEST

/* ---- Flights that others join */

typedef struct builder {
    pthread_t thread;
    kiln_status status;
    char message[sizeof(report.message)], ptx[256];
} builder;

static void *build_in_thread(void *data)
{
    builder *self = data;
    kiln_report told = KILN_INIT(kiln_report);
    kiln_program *program;
    const void *ptx;
    size_t length;
    self->status = kiln_test_build_source(&program, service, &source, &told);
    snprintf(self->message, sizeof(self->message), "%s", told.message);
    if (self->status == KILN_OK && kiln_program_section(&ptx, &length, program, "ptx") == KILN_OK)
        snprintf(self->ptx, sizeof(self->ptx), "%s", (const char *)ptx);
    kiln_program_release(program);
    kiln_report_clear(&told);
    return NULL;
}

/* One thread has read the header and compiles; then the header becomes another and so many others ask. */
static void build_across_an_edit(const char *before, const char *after, builder *first, builder *others, unsigned count)
{
    kiln_test_temp_write("inc/a.h", before, strlen(before));
    kiln_test_reading_hold();
    ck_assert_int_eq(pthread_create(&first->thread, NULL, build_in_thread, first), 0);
    kiln_test_reading_await(1);
    kiln_test_temp_write("inc/a.h", after, strlen(after));
    for (unsigned i = 0; i < count; i++)
        ck_assert_int_eq(pthread_create(&others[i].thread, NULL, build_in_thread, &others[i]), 0);
    for (int i = 0; i < 20000 && kiln_test_stats(service).joined < count; i++)
        usleep(1000);
    ck_assert_uint_eq(kiln_test_stats(service).joined, count);
    kiln_test_reading_go();
    pthread_join(first->thread, NULL);
    for (unsigned i = 0; i < count; i++)
        pthread_join(others[i].thread, NULL);
}

enum { JOINERS = 8 };

START_TEST(test_source_lists__failure_of_a_joined_flight_is_not_taken)
{
    static builder first, others[JOINERS];
    open_cache(_i == 0 ? "cache" : NULL);
    build_across_an_edit("#error\n", "state 1;\n", &first, others, JOINERS);
    ck_assert_int_eq(first.status, KILN_ECOMPILE);
    for (int i = 0; i < JOINERS; i++) {
        ck_assert_msg(others[i].status == KILN_OK, "%s", others[i].message);
        ck_assert_ptr_nonnull(strstr(others[i].ptx, "state 1;"));
    }
    ck_assert_int_eq(kiln_test_reading_count(), 2);
}
END_TEST

START_TEST(test_source_lists__success_of_a_joined_flight_is_not_taken_when_files_have_changed)
{
    static builder first, others[JOINERS];
    open_cache(_i == 0 ? "cache" : NULL);
    build_across_an_edit("state 1;\n", _i == 0 ? "state 2;\n" : "#error\n", &first, others, JOINERS);
    ck_assert_ptr_nonnull(strstr(first.ptx, "state 1;"));
    for (int i = 0; i < JOINERS; i++) {
        ck_assert_int_eq(others[i].status, _i == 0 ? KILN_OK : KILN_ECOMPILE);
        ck_assert(_i == 1 || strstr(others[i].ptx, "state 2;") != NULL);
    }
    ck_assert_int_ge(kiln_test_reading_count(), 2);
}
END_TEST

START_TEST(test_source_lists__success_of_a_joined_flight_costs_no_second_compile)
{
    static builder first, others[JOINERS];
    open_cache(_i == 0 ? "cache" : NULL);
    build_across_an_edit("state 1;\n", "state 1;\n", &first, others, JOINERS);
    for (int i = 0; i < JOINERS; i++)
        ck_assert_ptr_nonnull(strstr(others[i].ptx, "state 1;"));
    ck_assert_int_eq(kiln_test_reading_count(), 1);
}
END_TEST

Suite *kiln_test_jit_source_lists_suite(void)
{
    Suite *suite = suite_create("source_lists");
    TCase *tcase = tcase_create("source_lists");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_source_lists__list_of_a_cache_hides_none_of_a_pack);
    tcase_add_loop_test(tcase, test_source_lists__strict_mode_finds_what_a_pack_has, 0, 2);
    tcase_add_test(tcase, test_source_lists__imported_list_is_added_to_what_is_known);
    tcase_add_test(tcase, test_source_lists__imported_list_that_cannot_be_kept_is_told);
    tcase_add_loop_test(tcase, test_source_lists__imports_at_once_lose_nothing, 0, 2);
    tcase_add_test(tcase, test_source_lists__import_waits_for_a_compile_and_not_for_long);
    tcase_add_test(tcase, test_source_lists__services_with_one_cache_know_of_each_others_compiles);
    tcase_add_loop_test(tcase, test_source_lists__the_last_twelve_states_are_known, 0, 2);
    tcase_add_test(tcase, test_source_lists__kernel_that_has_gone_is_compiled_again);
    tcase_add_loop_test(tcase, test_source_lists__failure_of_a_joined_flight_is_not_taken, 0, 2);
    tcase_add_loop_test(tcase, test_source_lists__success_of_a_joined_flight_is_not_taken_when_files_have_changed, 0,
                        2);
    tcase_add_loop_test(tcase, test_source_lists__success_of_a_joined_flight_costs_no_second_compile, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}
