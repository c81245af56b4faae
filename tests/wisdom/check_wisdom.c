/* Wisdom as a service has it: files, what is wrong with them, many processes at once. */
#include "base/alloc.h"
#include "os/cpu.h"
#include "os/file.h"
#include "support/cache.h"
#include "support/fields.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include "support/wisdom.h"
#include "wisdom/describe.h"
#include "wisdom/folder.h"
#include "wisdom/wisdom.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define TUNED "block=512 elems=4 vector=4 cache=stream"
#define OTHER "block=64 elems=4 vector=4 cache=plain"

#ifdef __SANITIZE_THREAD__ /* sees nothing of what processes do to each other */
enum { PROCESSES = 2 };
#else
enum { PROCESSES = 8 };
#endif
enum { RECORDS = 50, THREADS = 4 };

static kiln__catalog catalog;
static kiln__store *shared;
static const kiln__wisdom_device h200 = { H200, "sm_90", 132, 60 << 20, 150000000000 };

static void open_all(void)
{
    setup();
    ck_assert_int_eq(kiln__catalog_init(&catalog, NULL), KILN_OK);
    open_store();
    shared = NULL;
}

static void close_all(void)
{
    kiln__catalog_fini(&catalog);
    if (shared != NULL)
        shared->vtable->close(shared);
    teardown();
}

static kiln__wisdom *open_wisdom(void)
{
    kiln__wisdom *wisdom = kiln__wisdom_open(store, shared, KILN__WISDOM_WAIT_MS, &log_, &counters);
    ck_assert_ptr_nonnull(wisdom);
    return wisdom;
}

static void parse(kiln__fields *out, const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_msg(kiln_test_fields(out, &catalog, text, &report) == KILN_OK, "%s: %s", text, report.message);
}

/* The geometry for a spec, "" where nothing is known. Any thread that has a buffer. */
static const char *match_into(kiln__wisdom *wisdom, const char *text, char out[128])
{
    kiln__fields spec;
    kiln__text geometry = { 0 };
    kiln__wisdom_choice choice;
    kiln_test_require(kiln_test_fields(&spec, &catalog, text, NULL) == KILN_OK, text);
    kiln__wisdom_query query = { &spec, &h200, "" };
    kiln__wisdom_match(wisdom, &query, &choice, NULL);
    if (choice.found) {
        kiln__wisdom_apply(&choice, &spec);
        kiln__wisdom_geometry(&spec, &geometry);
    }
    snprintf(out, 128, "%s", kiln__text_string(&geometry));
    kiln__text_fini(&geometry);
    return out;
}

static const char *match(kiln__wisdom *wisdom, const char *text)
{
    static char out[128];
    return match_into(wisdom, text, out);
}

static kiln__wisdom_outcome learn(kiln__wisdom *wisdom, const char *text)
{
    static const kiln__wisdom_measure measure = { 0.1204, 4456, 0.98, 40, 112 };
    kiln__fields spec;
    kiln__wisdom_outcome outcome;
    kiln_report report = KILN_INIT(kiln_report);
    parse(&spec, text);
    kiln_status status = kiln__wisdom_learn(wisdom, &spec, &h200, "nvrtc-13.0.88", &measure, &outcome, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    ck_assert_int_eq(outcome.stored, outcome.problem[0] == '\0');
    return outcome;
}

static const char *file_path(const char *name)
{
    static char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%.300s/wisdom/%s", root, name);
    return path;
}

static kiln__wisdom_fault read_path(const char *path, kiln__wisdom_set *out)
{
    static uint8_t bytes[1 << 20];
    size_t length = slurp(path, bytes, sizeof(bytes));
    return kiln__wisdom_read(out, (const char *)bytes, length, problem);
}

static void write_file(const char *name, const char *text)
{
    int directory = kiln__disk_store_open_beside(store, "wisdom", true, problem, sizeof(problem));
    ck_assert_msg(directory >= 0, "%s", problem);
    close(directory);
    spill(file_path(name), text, strlen(text));
}

#define SPEC      "op=relu6 dtype=f32 n=67108864"
#define GOOD_FILE "h200-of-others.json"

/* A file with so many records, each for another op of the class. */
static void write_records(const char *name, const char *model, size_t count, const char *geometry)
{
    kiln__wisdom_set set = { 0 };
    kiln__text text = { 0 };
    char op[40] = "copy";
    kiln__wisdom_entry record = kiln_test_record(model, op, "f32", 26, geometry);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            snprintf(op, sizeof(op), "hardtanh(0,%zu)", i);
        ck_assert_int_eq(kiln__wisdom_set_add(&set, &record), KILN__WISDOM_ADDED);
    }
    kiln__wisdom_write(&set, &text);
    write_file(name, kiln__text_string(&text));
    kiln__text_fini(&text);
    kiln__wisdom_set_fini(&set);
}

static void write_good(const char *name)
{
    write_records(name, H200, 1, TUNED);
}

/* ---- Learning and knowing */

START_TEST(test_wisdom__what_is_learnt_is_known_everywhere)
{
    struct stat status;
    kiln__wisdom *one = open_wisdom(), *two;
    ck_assert_str_ne(match(one, SPEC), TUNED);
    uint64_t generation = kiln__wisdom_generation(one);
    kiln__wisdom_outcome outcome = learn(one, SPEC " " TUNED);
    ck_assert_msg(outcome.stored, "%s", outcome.problem);
    ck_assert_uint_eq(outcome.tally.added, 1);
    ck_assert_uint_gt(kiln__wisdom_generation(one), generation);
    ck_assert_str_eq(match(one, SPEC), TUNED);
    ck_assert_str_eq(match(one, SPEC " block=64"), "");
    two = open_wisdom();
    ck_assert_str_eq(match(two, SPEC), TUNED);
    ck_assert_int_eq(stat(file_path("nvidia-h200.json"), &status), 0);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0600);
    ck_assert_int_eq(kiln_test_temp_count("cache/wisdom"), 2); /* and the lock */
    kiln__wisdom_close(one);
    kiln__wisdom_close(two);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_wisdom__a_record_says_what_it_is_about)
{
    kiln__wisdom_set set;
    char digest[KILN__WISDOM_DIGEST];
    kiln__wisdom *wisdom = open_wisdom();
    learn(wisdom, "op=hardtanh dtype=f16 n=1000000 " OTHER);
    ck_assert_msg(read_path(file_path("nvidia-h200.json"), &set) == KILN__WISDOM_GOOD, "%s", problem);
    ck_assert_uint_eq(set.count, 1);
    const kiln__wisdom_entry *record = set.records[0];
    ck_assert(kiln__wisdom_digest(catalog.usual, false, digest));
    ck_assert_str_eq(record->device.model, H200);
    ck_assert_str_eq(record->device.target, "sm_90");
    ck_assert_uint_eq(record->device.multiprocessors, 132);
    ck_assert_uint_eq(record->device.memory_bytes, 150000000000);
    ck_assert_str_eq(record->template_name, "elementwise");
    ck_assert_str_eq(record->op_class, "1 in, 1 out, light");
    ck_assert_str_eq(record->op, "hardtanh(-1,1)");
    ck_assert_str_eq(record->dtype, "f16");
    ck_assert_uint_eq(record->log2_n, 20);
    ck_assert_str_eq(record->geometry, OTHER);
    ck_assert_str_eq(record->digest, digest);
    ck_assert_str_eq(record->toolchain, "nvrtc-13.0.88");
    ck_assert_int_eq(strncmp(record->maker, "kiln ", 5), 0);
    ck_assert(record->ms == 0.1204 && record->gbps == 4456 && record->ratio == 0.98);
    ck_assert_uint_eq(record->samples, 40);
    ck_assert_uint_eq(record->variants, 112);
    kiln__wisdom_set_fini(&set);
    kiln__wisdom_close(wisdom);
}
END_TEST

START_TEST(test_wisdom__bad_records_are_refused_and_change_nothing)
{
    kiln__wisdom *wisdom = open_wisdom();
    kiln__wisdom_outcome outcome;
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields spec;
    kiln__wisdom_entry records[2] = { kiln_test_record(H200, "copy", "f32", 26, TUNED),
                                      kiln_test_record(H200, "copy", "f32", 64, TUNED) };
    ck_assert_int_eq(kiln__wisdom_add(wisdom, records, 2, &outcome, &report), KILN_EINVAL);
    ck_assert_str_eq(report.message, "record 2: log2_n is too large");
    parse(&spec, "op=copy dtype=f32 " TUNED);
    const kiln__wisdom_measure measure = { 1, 1, 1, 1, 1 };
    ck_assert_int_eq(kiln__wisdom_learn(wisdom, &spec, &h200, "", &measure, &outcome, &report), KILN_EINVAL);
    ck_assert(!exists(file_path("")));
    kiln__wisdom_close(wisdom);
}
END_TEST

START_TEST(test_wisdom__an_older_wider_search_is_kept)
{
    kiln__wisdom *wisdom = open_wisdom();
    kiln__wisdom_outcome outcome;
    kiln__wisdom_entry record = kiln_test_record(H200, "relu6", "f32", 26, TUNED);
    ck_assert_int_eq(kiln__wisdom_add(wisdom, &record, 1, &outcome, NULL), KILN_OK);
    record.variants = 4;
    record.geometry = OTHER;
    ck_assert_int_eq(kiln__wisdom_add(wisdom, &record, 1, &outcome, NULL), KILN_OK);
    ck_assert(outcome.stored && outcome.tally.older_kept == 1);
    ck_assert_str_eq(match(wisdom, SPEC), TUNED);
    kiln__wisdom_close(wisdom);
}
END_TEST

/* ---- Changes that others make */

START_TEST(test_wisdom__changes_are_seen_within_a_second_and_not_before)
{
    kiln__wisdom *one = open_wisdom(), *two = open_wisdom();
    ck_assert_str_ne(match(one, SPEC), TUNED);
    uint64_t generation = kiln__wisdom_generation(one);
    learn(two, SPEC " " TUNED);
    ck_assert_uint_eq(kiln__wisdom_generation(one), generation);
    usleep(1100000);
    ck_assert_str_eq(match(one, SPEC), TUNED);
    ck_assert_uint_eq(kiln__wisdom_generation(one), generation + 1);
    unlink(file_path("nvidia-h200.json"));
    kiln__wisdom_refresh(one);
    ck_assert_str_ne(match(one, SPEC), TUNED);
    kiln__wisdom_close(one);
    kiln__wisdom_close(two);
}
END_TEST

START_TEST(test_wisdom__equal_files_are_no_change)
{
    kiln__wisdom *wisdom = open_wisdom();
    write_good(GOOD_FILE);
    ck_assert_str_eq(match(wisdom, SPEC), TUNED);
    uint64_t generation = kiln__wisdom_generation(wisdom);
    unlink(file_path(GOOD_FILE));
    write_good("another-name.json");
    kiln__wisdom_refresh(wisdom);
    ck_assert_uint_eq(kiln__wisdom_generation(wisdom), generation);
    kiln__wisdom_close(wisdom);
}
END_TEST

START_TEST(test_wisdom__a_removed_directory_is_made_again)
{
    kiln__wisdom *wisdom = open_wisdom();
    learn(wisdom, SPEC " " TUNED);
    kiln_test_temp_remove(root);
    kiln__wisdom_refresh(wisdom);
    ck_assert_str_ne(match(wisdom, SPEC), TUNED);
    ck_assert(learn(wisdom, SPEC " " OTHER).stored);
    ck_assert_str_eq(match(wisdom, SPEC), OTHER);
    ck_assert(exists(file_path("nvidia-h200.json")));
    kiln__wisdom_close(wisdom);
}
END_TEST

/* ---- Files that are not right */

START_TEST(test_wisdom__a_damaged_file_is_no_wisdom_and_is_put_aside)
{
    static const char *const damages[] = { "", "{", "nonsense", "{\"format\": 1, \"records\": [{}]}" };
    kiln__wisdom *wisdom = open_wisdom();
    kiln__wisdom_set set;
    write_good(GOOD_FILE);
    write_file("nvidia-h200.json", damages[_i]);
    ck_assert_str_eq(match(wisdom, SPEC), TUNED); /* from the good one */
    expect(1, 0, 0, 1);
    ck_assert_ptr_nonnull(strstr(last_warning, "/wisdom/nvidia-h200.json: "));
    kiln__wisdom_outcome outcome = learn(wisdom, SPEC " " OTHER);
    ck_assert_msg(outcome.stored, "%s", outcome.problem);
    ck_assert_str_eq(match(wisdom, SPEC), OTHER);
    ck_assert_uint_eq(atomic_load(&warnings), 1);
    uint8_t aside[100];
    ck_assert_uint_eq(slurp(file_path("nvidia-h200.json.bad"), aside, sizeof(aside)), strlen(damages[_i]));
    ck_assert_mem_eq(aside, damages[_i], strlen(damages[_i]));
    ck_assert_int_eq(read_path(file_path("nvidia-h200.json"), &set), KILN__WISDOM_GOOD);
    kiln__wisdom_set_fini(&set);
    kiln__wisdom_close(wisdom);
}
END_TEST

START_TEST(test_wisdom__a_file_of_a_newer_kiln_stays_as_it_is)
{
    static const char newer[] = "{\"format\": 2, \"wonders\": []}";
    uint8_t bytes[100];
    kiln__wisdom *wisdom = open_wisdom();
    write_file("nvidia-h200.json", newer);
    kiln__wisdom_outcome outcome = learn(wisdom, SPEC " " TUNED);
    ck_assert(!outcome.stored);
    ck_assert_ptr_nonnull(strstr(outcome.problem, "format 2"));
    ck_assert_str_eq(match(wisdom, SPEC), TUNED); /* this process knows it all the same */
    ck_assert_uint_eq(slurp(file_path("nvidia-h200.json"), bytes, sizeof(bytes)), strlen(newer));
    ck_assert_mem_eq(bytes, newer, strlen(newer));
    ck_assert_int_eq(atomic_load(&warnings), 1);
    kiln__wisdom_close(wisdom);
}
END_TEST

START_TEST(test_wisdom__impostors_are_not_used_and_not_touched)
{
    struct stat before, after;
    kiln__wisdom *wisdom = open_wisdom();
    write_good("nvidia-h200.json");
    impose(file_path("nvidia-h200.json"), _i);
    ck_assert_int_eq(lstat(file_path("nvidia-h200.json"), &before), 0);
    ck_assert_str_ne(match(wisdom, SPEC), TUNED);
    expect(0, 1, 0, 1);
    kiln__wisdom_outcome outcome = learn(wisdom, SPEC " " TUNED);
    ck_assert(!outcome.stored);
    ck_assert_int_eq(lstat(file_path("nvidia-h200.json"), &after), 0);
    ck_assert(before.st_ino == after.st_ino && before.st_mode == after.st_mode && before.st_size == after.st_size);
    ck_assert_str_eq(match(wisdom, SPEC), TUNED);
    kiln__wisdom_close(wisdom);
}
END_TEST

START_TEST(test_wisdom__a_directory_that_others_may_write_is_not_used)
{
    kiln__wisdom *wisdom = open_wisdom();
    write_good(GOOD_FILE);
    if (_i == 0) {
        ck_assert_int_eq(chmod(file_path(""), 0770), 0);
    } else {
        char path[PATH_SIZE], aside[PATH_SIZE];
        snprintf(path, sizeof(path), "%.300s/wisdom", root);
        snprintf(aside, sizeof(aside), "%s/aside", kiln_test_temp_dir());
        ck_assert_int_eq(rename(path, aside), 0);
        ck_assert_int_eq(symlink(aside, path), 0);
    }
    ck_assert_str_ne(match(wisdom, SPEC), TUNED);
    ck_assert_uint_ge(atomic_load(&counters.untrusted), 1);
    ck_assert(!learn(wisdom, SPEC " " TUNED).stored);
    ck_assert_uint_eq(atomic_load(&warnings), 1);
    ck_assert_str_eq(match(wisdom, SPEC), TUNED);
    kiln__wisdom_close(wisdom);
}
END_TEST

START_TEST(test_wisdom__an_unreadable_file_hides_nothing_else)
{
    kiln__wisdom *wisdom = open_wisdom();
    write_good(GOOD_FILE);
    write_good("closed.json");
    ck_assert_int_eq(chmod(file_path("closed.json"), 0), 0);
    ck_assert_str_eq(match(wisdom, SPEC), TUNED);
    learn(wisdom, SPEC " " OTHER);
    ck_assert_str_eq(match(wisdom, SPEC), OTHER);
    ck_assert_uint_eq(atomic_load(&warnings), geteuid() == 0 ? 0 : 1); /* root reads everything */
    kiln__wisdom_close(wisdom);
}
END_TEST

/* Whatever else lies in the directory, and in whatever order it lists its files. */
START_TEST(test_wisdom__the_nearest_is_found_among_many_files)
{
    enum { FILES = 600 };
    kiln__wisdom *wisdom = open_wisdom();
    char name[32], model[32];
    for (int i = 0; i < FILES; i++) {
        int which = _i == 0 ? i : FILES - 1 - i;
        snprintf(name, sizeof(name), "model-%03d.json", which);
        snprintf(model, sizeof(model), "Model %03d", which);
        if (which == FILES - 1)
            write_good(name);
        else
            write_records(name, model, 1, OTHER);
    }
    ck_assert_str_eq(match(wisdom, SPEC), TUNED);
    kiln__wisdom_close(wisdom);
}
END_TEST

START_TEST(test_wisdom__full_files_of_others_push_nothing_out)
{
    kiln__wisdom *wisdom = open_wisdom();
    write_records("a.json", H100, KILN__WISDOM_RECORDS_MAX, OTHER);
    write_good("b.json");
    ck_assert_str_eq(match(wisdom, SPEC), TUNED);
    kiln__wisdom_close(wisdom);
}
END_TEST

/* With no descriptor left nothing can be read: that must not change what is chosen. */
START_TEST(test_wisdom__a_shortage_changes_no_choice)
{
    struct rlimit old, none;
    kiln__wisdom *wisdom = open_wisdom();
    learn(wisdom, SPEC " " TUNED);
    uint64_t generation = kiln__wisdom_generation(wisdom);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){ 3, old.rlim_max };
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    kiln__wisdom_refresh(wisdom);
    ck_assert_uint_eq(kiln__wisdom_generation(wisdom), generation);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    ck_assert_str_eq(match(wisdom, SPEC), TUNED);
    ck_assert_uint_ge(atomic_load(&counters.errors), 1);
    kiln__wisdom_refresh(wisdom);
    ck_assert_uint_eq(kiln__wisdom_generation(wisdom), generation);
    kiln__wisdom_close(wisdom);
}
END_TEST

START_TEST(test_wisdom__without_a_cache_the_process_knows_it)
{
    kiln__wisdom *wisdom = kiln__wisdom_open(NULL, NULL, KILN__WISDOM_WAIT_MS, NULL, &counters);
    kiln__wisdom_outcome outcome = learn(wisdom, SPEC " " TUNED);
    ck_assert(!outcome.stored);
    ck_assert_str_eq(outcome.problem, "there is no cache directory");
    ck_assert_uint_eq(outcome.tally.added, 1);
    ck_assert_str_eq(match(wisdom, SPEC), TUNED);
    kiln__wisdom_close(wisdom);
    expect(0, 0, 0, 0);
}
END_TEST

START_TEST(test_wisdom__the_shared_directory_comes_second)
{
    char path[PATH_SIZE];
    write_good("nvidia-h200.json");
    store->vtable->close(store);
    snprintf(path, sizeof(path), "%s/shared", kiln_test_temp_dir());
    ck_assert_int_eq(rename(root, path), 0);
    open_store();
    shared = kiln__disk_store_open_shared(path, &log_, &counters, problem, sizeof(problem));
    ck_assert_msg(shared != NULL, "%s", problem);
    descriptors = count_descriptors() - 2; /* those of the stores */
    kiln__wisdom *wisdom = open_wisdom();
    ck_assert_str_eq(match(wisdom, SPEC), TUNED);
    learn(wisdom, SPEC " " OTHER);
    ck_assert_str_eq(match(wisdom, SPEC), OTHER);
    ck_assert_int_eq(kiln_test_temp_count("shared/wisdom"), 1);
    kiln__wisdom_close(wisdom);
    expect(0, 0, 0, 0);
}
END_TEST

/* Whether a record is about the template's text as it is now counts, and counts most. */
START_TEST(test_wisdom__a_record_of_another_text_is_stale)
{
    kiln__fields spec;
    kiln__wisdom_choice choice;
    kiln__wisdom_outcome outcome;
    kiln__wisdom_entry record = kiln_test_record(H200, "relu6", "f32", 26, OTHER);
    kiln__wisdom *wisdom = open_wisdom();
    kiln__wisdom_query query = { &spec, &h200, "" };
    learn(wisdom, SPEC " " TUNED);
    parse(&spec, SPEC);
    ck_assert_int_eq(kiln__wisdom_match(wisdom, &query, &choice, NULL), KILN_OK);
    ck_assert_uint_eq(choice.distance, 0);
    record.digest = "0123456789abcdef";
    ck_assert_int_eq(kiln__wisdom_add(wisdom, &record, 1, &outcome, NULL), KILN_OK);
    ck_assert_uint_eq(outcome.tally.replaced, 1);
    ck_assert_int_eq(kiln__wisdom_explain(wisdom, &query, &choice, NULL, NULL, NULL), KILN_OK);
    ck_assert(choice.found && choice.distance != 0);
    kiln__wisdom_close(wisdom);
}
END_TEST

/* ---- Many at once */

static void learn_many(unsigned who)
{
    kiln__wisdom *wisdom = open_wisdom();
    for (unsigned i = 0; i < RECORDS; i++) {
        char text[128];
        snprintf(text, sizeof(text), "op=hardtanh(-%u,%u) dtype=f32 n=67108864 " TUNED, who + 1, i + 1);
        kiln__wisdom_outcome outcome = learn(wisdom, text);
        kiln_test_require(outcome.stored && outcome.tally.added == 1, outcome.problem);
        if (i % 10 == 0)
            learn(wisdom, SPEC " " OTHER); /* about this they all know something */
    }
    kiln__wisdom_close(wisdom);
}

static pid_t start(unsigned who)
{
    pid_t pid = fork();
    if (pid == 0) {
        learn_many(who);
        _exit(0);
    }
    ck_assert_int_gt(pid, 0);
    return pid;
}

static void check_all_there(unsigned processes)
{
    kiln__wisdom_set set;
    ck_assert_msg(read_path(file_path("nvidia-h200.json"), &set) == KILN__WISDOM_GOOD, "%s", problem);
    ck_assert_uint_eq(set.count, (size_t)processes * RECORDS + 1);
    kiln__wisdom_set_fini(&set);
    ck_assert_int_eq(kiln_test_temp_count("cache/wisdom"), 2);
}

START_TEST(test_wisdom__processes_lose_nothing_to_each_other)
{
    pid_t pids[PROCESSES];
    int status, running = PROCESSES, reads = 0;
    size_t last = 0;
    uint64_t begin = kiln__cpu_now_ns();
    for (unsigned i = 0; i < PROCESSES; i++)
        pids[i] = start(i);
    while (running > 0) {
        kiln__wisdom_set set = { 0 };
        if (exists(file_path("nvidia-h200.json"))) {
            ck_assert_msg(read_path(file_path("nvidia-h200.json"), &set) == KILN__WISDOM_GOOD, "%s", problem);
            reads++;
        }
        ck_assert_uint_ge(set.count, last);
        last = set.count;
        kiln__wisdom_set_fini(&set);
        usleep(10000);
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0) {
            ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %d failed", (int)pid);
            running--;
        }
    }
    (void)pids;
    check_all_there(PROCESSES);
    printf("wisdom: %d processes added %d records each in %.2f s; %d reads meanwhile, all whole\n", PROCESSES, RECORDS,
           (double)(kiln__cpu_now_ns() - begin) / 1e9, reads);
}
END_TEST

START_TEST(test_wisdom__a_killed_process_holds_up_nobody)
{
    enum { ROUNDS = 20 };
    kiln__wisdom *wisdom = open_wisdom();
    for (unsigned i = 0; i < ROUNDS; i++) {
        kiln__wisdom_set set;
        int status;
        pid_t pid = start(i);
        usleep(2000 + 1700 * i);
        kill(pid, SIGKILL);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        uint64_t begin = kiln__cpu_now_ns();
        ck_assert(learn(wisdom, SPEC " " TUNED).stored);
        ck_assert_msg(kiln__cpu_now_ns() - begin < 5000000000ull, "the lock of a dead process is held");
        ck_assert_msg(read_path(file_path("nvidia-h200.json"), &set) == KILN__WISDOM_GOOD, "%s", problem);
        kiln__wisdom_set_fini(&set);
    }
    ck_assert_int_eq(atomic_load(&counters.damaged), 0);
    kiln__wisdom_close(wisdom);
}
END_TEST

typedef struct worker {
    pthread_t thread;
    kiln__wisdom *wisdom;
    atomic_bool *stop;
    uint64_t matches;
} worker;

static void *keep_matching(void *data)
{
    worker *self = data;
    char out[128];
    while (!atomic_load(self->stop)) {
        match_into(self->wisdom, SPEC, out);
        kiln_test_require(strcmp(out, TUNED) == 0 || strcmp(out, OTHER) == 0, "a geometry that was learnt");
        self->matches++;
    }
    return NULL;
}

/* While the others go on: every lock must be usable in the child. */
static void use_in_child(kiln__wisdom *wisdom)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        learn(wisdom, SPEC " " OTHER);
        bool known = strcmp(match(wisdom, SPEC), OTHER) == 0;
        _exit(known && learn(wisdom, SPEC " " TUNED).stored ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

START_TEST(test_wisdom__threads_match_while_files_change)
{
    enum { ROUNDS = 40 };
    worker workers[THREADS];
    atomic_bool stop = false;
    uint64_t matches = 0;
    kiln__wisdom *wisdom = open_wisdom();
    learn(wisdom, SPEC " " TUNED);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){ .wisdom = wisdom, .stop = &stop };
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, keep_matching, &workers[i]), 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        learn(wisdom, i % 2 ? SPEC " " TUNED : SPEC " " OTHER);
        ck_assert_str_eq(match(wisdom, SPEC), i % 2 ? TUNED : OTHER);
    }
    if (KILN_TEST_CAN_FORK)
        use_in_child(wisdom);
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        matches += workers[i].matches;
    }
    printf("wisdom: %llu matches while the file changed %d times\n", (unsigned long long)matches, ROUNDS);
    kiln__wisdom_close(wisdom);
}
END_TEST

/* ---- What it costs */

START_TEST(test_wisdom__asking_again_compares_nothing)
{
    enum { TIMES = 20000, KNOWN = 2000 };
    kiln__wisdom *wisdom = open_wisdom();
    kiln__wisdom_outcome outcome;
    kiln__wisdom_choice choice;
    kiln__fields spec;
    char op[32];
    kiln__wisdom_entry *records = kiln__calloc(KNOWN, sizeof(*records));
    char(*ops)[32] = kiln__calloc(KNOWN, sizeof(op));
    for (int i = 0; i < KNOWN; i++) {
        snprintf(ops[i], sizeof(ops[i]), "hardtanh(-1,%d)", i);
        records[i] = kiln_test_record(H200, ops[i], "f32", 26, TUNED);
    }
    ck_assert_int_eq(kiln__wisdom_add(wisdom, records, KNOWN, &outcome, NULL), KILN_OK);
    parse(&spec, "op=hardtanh(-1,1000) dtype=f32 n=67108864");
    kiln__wisdom_query query = { &spec, &h200, "nvrtc-13.0.88" };
    kiln__wisdom_match(wisdom, &query, &choice, NULL); /* reads the file */
    ck_assert(choice.found && choice.distance == 0);
    parse(&spec, "op=hardtanh(-1,999) dtype=f32 n=67108864");
    uint64_t begin = kiln__cpu_now_ns();
    kiln__wisdom_match(wisdom, &query, &choice, NULL);
    double first = (double)(kiln__cpu_now_ns() - begin);
    begin = kiln__cpu_now_ns();
    for (int i = 0; i < TIMES; i++)
        kiln__wisdom_match(wisdom, &query, &choice, NULL);
    double each = (double)(kiln__cpu_now_ns() - begin) / TIMES;
    ck_assert(choice.found && choice.distance == 0);
    printf("wisdom: a match among %d records takes %.0f us, and %.0f ns when asked again\n", KNOWN, first / 1e3, each);
    ck_assert_msg(each < first / 10, "%.0f ns of %.0f", each, first);
    kiln__free(records);
    kiln__free(ops);
    kiln__wisdom_close(wisdom);
}
END_TEST

START_TEST(test_wisdom__files_are_named_after_models)
{
    char slug[KILN__WISDOM_SLUG];
    static const char *const rows[][2] = { { "NVIDIA H200", "nvidia-h200" },
                                           { "Intel(R) Xeon(R) Platinum 8480+", "intel-r-xeon-r-platinum-8480" },
                                           { "../../etc/passwd", "etc-passwd" },
                                           { "???", "device" },
                                           { "", "device" } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kiln__wisdom_slug(rows[i][0], slug);
        ck_assert_str_eq(slug, rows[i][1]);
    }
}
END_TEST

Suite *kiln_test_wisdom_wisdom_suite(void)
{
    Suite *suite = suite_create("wisdom");
    TCase *files = tcase_create("files"), *many = tcase_create("many at once");
    kiln_test_temp_use(files);
    tcase_add_checked_fixture(files, open_all, close_all);
    tcase_add_test(files, test_wisdom__what_is_learnt_is_known_everywhere);
    tcase_add_test(files, test_wisdom__a_record_says_what_it_is_about);
    tcase_add_test(files, test_wisdom__bad_records_are_refused_and_change_nothing);
    tcase_add_test(files, test_wisdom__an_older_wider_search_is_kept);
    tcase_add_test(files, test_wisdom__changes_are_seen_within_a_second_and_not_before);
    tcase_add_test(files, test_wisdom__equal_files_are_no_change);
    tcase_add_test(files, test_wisdom__a_removed_directory_is_made_again);
    tcase_add_loop_test(files, test_wisdom__a_damaged_file_is_no_wisdom_and_is_put_aside, 0, 4);
    tcase_add_test(files, test_wisdom__a_file_of_a_newer_kiln_stays_as_it_is);
    tcase_add_loop_test(files, test_wisdom__impostors_are_not_used_and_not_touched, 0, IMPOSTORS);
    tcase_add_loop_test(files, test_wisdom__a_directory_that_others_may_write_is_not_used, 0, 2);
    tcase_add_test(files, test_wisdom__an_unreadable_file_hides_nothing_else);
    tcase_add_loop_test(files, test_wisdom__the_nearest_is_found_among_many_files, 0, 2);
    tcase_add_test(files, test_wisdom__full_files_of_others_push_nothing_out);
    tcase_add_test(files, test_wisdom__a_shortage_changes_no_choice);
    tcase_add_test(files, test_wisdom__without_a_cache_the_process_knows_it);
    tcase_add_test(files, test_wisdom__the_shared_directory_comes_second);
    tcase_add_test(files, test_wisdom__a_record_of_another_text_is_stale);
    tcase_add_test(files, test_wisdom__asking_again_compares_nothing);
    tcase_add_test(files, test_wisdom__files_are_named_after_models);
    suite_add_tcase(suite, files);
    kiln_test_temp_use(many);
    tcase_add_checked_fixture(many, open_all, close_all);
    tcase_add_test(many, test_wisdom__processes_lose_nothing_to_each_other);
    tcase_add_test(many, test_wisdom__a_killed_process_holds_up_nobody);
    tcase_add_test(many, test_wisdom__threads_match_while_files_change);
    suite_add_tcase(suite, many);
    return suite;
}
