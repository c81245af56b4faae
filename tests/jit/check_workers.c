/* Compile workers: what goes to them, how they are started, used again and replaced, and what their deaths cost.
 * Most tests use the stand-in NVRTC, which crashes and hangs when a source tells it to. */
#include "jit/worker/quarantine.h"
#include "jit/worker/worker.h"
#include "os/fork.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include "support/temp.h"
#include "support/working.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { THREADS = 16, MIB = 1 << 20 };

static char crash[] = "STAND_IN_CRASH\n", hang[] = "STAND_IN_HANG\n";

/* ---- What goes where */

START_TEST(test_workers__policy_decides)
{
    static const struct {
        kiln_isolate isolate;
        bool foreign;
        uint64_t starts;
    } cases[] = {
        { KILN_ISOLATE_AUTO, false, 0 },  { KILN_ISOLATE_AUTO, true, 1 },   { KILN_ISOLATE_ALWAYS, false, 1 },
        { KILN_ISOLATE_ALWAYS, true, 1 }, { KILN_ISOLATE_NEVER, false, 0 }, { KILN_ISOLATE_NEVER, true, 0 },
    };
    kiln__unit unit = foreign_unit(good);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        options.isolate = cases[i].isolate;
        unit.foreign = cases[i].foreign;
        open_here();
        expect(compile_unit(&unit), KILN_OK, "");
        expect_counts(cases[i].starts, 0, 0);
        close_here();
        ck_assert_int_eq(list_children(NULL, 0), 0);
    }
}
END_TEST

START_TEST(test_workers__host_opens_nvrtc_only_where_it_must)
{
    kiln__toolchain toolchain;
    const char *name = strrchr(options.nvrtc, '/') + 1;
    open_here();
    expect(compiler->vtable->open(compiler, &toolchain, &report), KILN_OK, "");
    ck_assert_str_eq(toolchain.id, "");
    ck_assert_str_eq(toolchain.path, options.nvrtc);
    ck_assert_uint_eq(toolchain.target_count, 1);
    expect(compiler->vtable->identify(compiler, &toolchain, &report), KILN_OK, "");
    ck_assert_str_eq(toolchain.id, "nvrtc-13.0.1-1");
    expect_good();
    ck_assert(!has_mapped(0, name));
    ck_assert(has_mapped(only_child(), name));
    expect_counts(1, 0, 0);
    close_here();
    options.isolate = KILN_ISOLATE_AUTO;
    open_here();
    expect_good();
    ck_assert(has_mapped(0, name));
    ck_assert(has_mapped(only_child(), name));
}
END_TEST

START_TEST(test_workers__compile_tells_the_toolchain)
{
    kiln__toolchain toolchain;
    open_here();
    expect_good();
    expect(compiler->vtable->identify(compiler, &toolchain, &report), KILN_OK, "");
    ck_assert_str_eq(toolchain.id, "nvrtc-13.0.1-1");
    ck_assert_ptr_nonnull(strstr(toolchain.version, "13.0 (V13.0.1, build 1)"));
    ck_assert_str_eq(toolchain.path, options.nvrtc);
}
END_TEST

START_TEST(test_workers__missing_nvrtc_is_told_as_ever)
{
    kiln__toolchain toolchain;
    options.nvrtc = "/nonexistent/libnvrtc.so.13";
    open_here();
    expect(compiler->vtable->open(compiler, &toolchain, &report), KILN_ENOCOMPILER, "/nonexistent/libnvrtc.so.13");
    ck_assert_str_eq(report.stage, "open");
    expect(compile(good), KILN_ENOCOMPILER, "KILN_NVRTC");
    ck_assert_int_eq(list_children(NULL, 0), 0);
}
END_TEST

START_TEST(test_workers__failures_come_as_from_the_compiler)
{
    kiln__unit unit = foreign_unit(good);
    char broken[] = "#error\n";
    open_here();
    expect(compile(broken), KILN_ECOMPILE, "compiling for sm_90 failed: kiln.cu(1): error: #error directive");
    ck_assert_str_eq(report.stage, "compile");
    ck_assert_int_eq(report.native, 6);
    ck_assert_str_eq(report.log, "kiln.cu(1): error: #error directive\n");
    ck_assert(kiln__target_parse("sm_75", 5, &unit.target));
    expect(compile_unit(&unit), KILN_ETARGET, "it builds sm_90");
    unit = foreign_unit(good);
    strcpy(unit.rule.entries[1].name, "other");
    expect(compile_unit(&unit), KILN_ECOMPILE, "no entry point 'other'");
    expect_good();
    expect_counts(1, 0, 0);
}
END_TEST

START_TEST(test_workers__log_is_clean)
{
    char dirty[] = "#error STAND_IN_DIRTY\n";
    open_here();
    expect(compile(dirty), KILN_ECOMPILE, "#error  [31mred   m end");
    ck_assert_str_eq(report.log, "kiln.cu(1): error: #error  [31mred   m\tend\n");
}
END_TEST

/* ---- The program */

START_TEST(test_workers__missing_program)
{
    options.program = "/nonexistent/kiln-worker";
    open_here();
    expect(compile(good), KILN_ENOWORKER, "/nonexistent/kiln-worker");
    ck_assert_ptr_nonnull(strstr(report.message, "KILN_WORKER"));
    expect_counts(0, 0, 0);
    close_here();
    kiln_test_temp_write("plain", "x", 1);
    options.program = kiln_test_temp_path("plain");
    open_here();
    expect(compile(good), KILN_ENOWORKER, "found no compile worker");
}
END_TEST

static void write_program(const char *name, const char *text)
{
    kiln_test_temp_write(name, text, strlen(text));
    ck_assert_int_eq(chmod(kiln_test_temp_path(name), 0700), 0);
}

START_TEST(test_workers__program_that_is_no_worker)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "#!/bin/sh\nexit 0\n", "it ended at once" },
        { "#!/bin/sh\nexec cat >&0\n", "none of the answers" },
        { "#!/bin/sh\nhead -c 12 <&0 >/dev/null; echo 'HTTP/1.1 400 Bad Request' >&0\n", "it is no frame" },
        { "#!/bin/sh\nhead -c 12 <&0 >/dev/null; printf 'KLNF\\1\\0\\146\\0\\377\\377\\377\\377' >&0; sleep 60\n",
          "too long" },
        { "#!/nonexistent/shell\n", "cannot start" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_program("worker", cases[i].text);
        options.program = kiln_test_temp_path("worker");
        open_here();
        int before = count_descriptors();
        expect(compile(good), KILN_ENOWORKER, cases[i].message);
        ck_assert_ptr_nonnull(strstr(report.message, "worker"));
        ck_assert_int_eq(list_children(NULL, 0), 0);
        ck_assert_int_eq(count_descriptors(), before);
        close_here();
    }
    for (size_t i = 0; i < 2; i++) {
        options.program = i == 0 ? "/bin/true" : "/bin/cat";
        open_here();
        expect(compile(good), KILN_ENOWORKER, "no usable compile worker");
        close_here();
    }
}
END_TEST

START_TEST(test_workers__program_refuses_to_be_run_by_hand)
{
    char path[4096], command[4352];
    open_here();
    expect(kiln__workers_examine(compiler, path, sizeof(path), &report), KILN_OK, "");
    snprintf(command, sizeof(command), "%s --version | grep -q 'kiln-worker %s'", path, kiln_version());
    ck_assert_int_eq(system(command), 0);
    static const char *const wrong[] = { "", "--memory 1", "--memory x --cpu 1", "--memory 1 --cpu 1 --more 2",
                                         "--memory 1000000000 --cpu 5 </dev/null" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        snprintf(command, sizeof(command), "%s %s 2>/dev/null", path, wrong[i]);
        ck_assert_int_eq(WEXITSTATUS(system(command)), 2);
    }
}
END_TEST

/* What a worker answers to a first message, its type; 0 if it ends instead. */
static int first_answer(const kiln__text *request, kiln__message *out)
{
    const kiln__worker_limits limits = { options.memory_bytes, TIME_MS };
    char program[4096];
    kiln__child child;
    ck_assert_int_eq(kiln__worker_find(NULL, program, sizeof(program), &report), KILN_OK);
    ck_assert_int_eq(kiln__worker_start(&child, program, &limits, &report), KILN_OK);
    kiln__channel_send(child.socket, request, KILN__CHANNEL_FOREVER);
    kiln__channel_result result =
        kiln__channel_receive(child.socket, KILN__WORKER_LIMIT, kiln__cpu_now_ns() + 60000000000u, out);
    ck_assert(result == KILN__CHANNEL_DONE || result == KILN__CHANNEL_CLOSED);
    int ended = kiln__child_end(&child);
    ck_assert(result == KILN__CHANNEL_DONE || ended == 0);
    return result == KILN__CHANNEL_DONE ? out->frame.type : 0;
}

START_TEST(test_workers__worker_takes_no_nonsense)
{
    kiln__text request = { 0 };
    kiln__message answer;
    kiln_status status;
    kiln__unit unit = foreign_unit(good);
    kiln__frame_begin(&request, KILN__WORKER_OPEN);
    kiln__frame_put_text(&request, KILN__WORKER_TAG_VERSION, "9.9.9");
    ck_assert_int_eq(first_answer(&request, &answer), KILN__WORKER_FAILED);
    ck_assert(kiln__worker_get_failure(&answer.frame, &status, &report));
    expect(status, KILN_ENOWORKER, "9.9.9: install the two together");
    kiln__message_fini(&answer);
    kiln__text_fini(&request);

    kiln__frame_begin(&request, KILN__WORKER_COMPILE); /* before OPEN */
    kiln__worker_put_unit(&request, &unit);
    ck_assert_int_eq(first_answer(&request, &answer), 0);
    kiln__message_fini(&answer);
    request.data[0] = 'X';
    ck_assert_int_eq(first_answer(&request, &answer), 0);
    kiln__message_fini(&answer);
    kiln__text_fini(&request);
}
END_TEST

/* ---- Used again and replaced */

START_TEST(test_workers__warm_one_is_used_again)
{
    open_here();
    expect_good();
    pid_t pid = only_child();
    for (int i = 0; i < 20; i++)
        expect_good();
    ck_assert_int_eq(only_child(), pid);
    expect_counts(1, 0, 0);
    close_here();
    ck_assert_int_eq(list_children(NULL, 0), 0);
}
END_TEST

START_TEST(test_workers__killed_while_idle_is_replaced_without_a_word)
{
    open_here();
    expect_good();
    for (uint64_t i = 0; i < 3; i++) {
        pid_t pid = only_child();
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        if (i > 0)
            await(is_dead, pid);
        expect_good();
        ck_assert_int_ne(only_child(), pid);
        expect_counts(i + 2, 0, 0);
    }
}
END_TEST

static void *kill_the_child(void *data)
{
    pid_t pid = 0;
    (void)data;
    while (list_children(&pid, 1) == 0)
        usleep(1000);
    usleep(KILN_TEST_SANITIZED ? 1000000 : 200000); /* until it has begun */
    kill(pid, SIGKILL);
    return NULL;
}

START_TEST(test_workers__killed_while_compiling_costs_that_compile)
{
    pthread_t thread;
    open_here();
    expect_good();
    ck_assert_int_eq(pthread_create(&thread, NULL, kill_the_child, NULL), 0);
    expect(compile(hang), KILN_ECRASHED, "signal 9");
    pthread_join(thread, NULL);
    ck_assert_int_eq(list_children(NULL, 0), 0);
    expect_counts(1, 1, 0);
    expect_good();
    expect_counts(2, 1, 0);
}
END_TEST

START_TEST(test_workers__crash_is_told)
{
    char aborts[] = "STAND_IN_ABORT\n", lost[] = "STAND_IN_LOST\n", deep[] = "STAND_IN_DEEP\n";
    open_here();
    expect(compile(crash), KILN_ECRASHED, "signal 11, Segmentation fault");
    ck_assert_int_eq(report.native, SIGSEGV);
    ck_assert_str_eq(report.stage, "compile");
    expect(compile(aborts), KILN_ECRASHED, "signal 6, Aborted");
    expect(compile(lost), KILN_ECRASHED, "the compile worker ended while it compiled");
    expect(compile(deep), KILN_ECRASHED, "ran out of stack");
    expect_counts(4, 4, 0);
    expect_good();
    ck_assert_int_eq(list_children(NULL, 0), 1);
}
END_TEST

START_TEST(test_workers__too_long_is_stopped)
{
    options.time_ms = SHORT_MS;
    open_here();
    expect_good();
    uint64_t start = kiln__cpu_now_ns();
    expect(compile(hang), KILN_ECRASHED, "did not finish within 0.3 s and was stopped");
    uint64_t ms = (kiln__cpu_now_ns() - start) / 1000000;
    ck_assert_uint_ge(ms, SHORT_MS);
    ck_assert_uint_le(ms, SHORT_MS + SLACK_MS);
    expect_counts(1, 0, 1);
    ck_assert_int_eq(list_children(NULL, 0), 0);
    expect_good();
}
END_TEST

START_TEST(test_workers__too_much_memory_is_refused)
{
    char hungry[] = "STAND_IN_HUNGRY\n";
    options.memory_bytes = (uint64_t)512 * MIB;
    open_here();
    expect(compile(hungry), KILN_ECRASHED, "more memory than the 0.50 GiB");
    expect_counts(1, 0, 0);
    expect_good();
}
END_TEST

START_TEST(test_workers__one_that_used_much_memory_is_not_used_again)
{
    char large[] = "STAND_IN_LARGE\n";
    options.memory_bytes = (uint64_t)512 * MIB;
    open_here();
    expect(compile(large), KILN_OK, "");
    pid_t pid = only_child();
    await(is_dead, pid);
    expect_good();
    ck_assert_int_ne(only_child(), pid);
    expect_counts(2, 0, 0);
}
END_TEST

START_TEST(test_workers__twice_is_enough)
{
    open_here();
    expect(compile(crash), KILN_ECRASHED, "signal 11");
    expect(compile(crash), KILN_ECRASHED, "signal 11");
    expect_counts(2, 2, 0);
    for (int i = 0; i < 3; i++)
        expect(compile(crash), KILN_ECRASHED, "2 times and is not tried again");
    expect_counts(2, 2, 0);
    ck_assert_int_eq(list_children(NULL, 0), 0);
    expect_good();
    close_here();
    open_here();
    expect(compile(crash), KILN_ECRASHED, "signal 11");
}
END_TEST

/* What kills the compiler may stand in a file, which may be mended: who may read files of its own is never
 * condemned, and who reads CUDA's alone is. */
START_TEST(test_workers__what_reads_files_is_tried_again)
{
    kiln__unit unit = foreign_unit(crash);
    unit.name = unit.shown = (char *)"x.cu";
    unit.directories = 1;
    kiln__list_add(&unit.places, "0");
    kiln__list_add(&unit.places, kiln_test_temp_dir());
    open_here();
    for (uint64_t i = 1; i <= 4; i++) {
        expect(compile_unit(&unit), KILN_ECRASHED, "signal 11");
        expect_counts(i, i, 0);
    }
    unit.directories = 0;
    for (int i = 0; i < 2; i++)
        expect(compile_unit(&unit), KILN_ECRASHED, "signal 11");
    expect(compile_unit(&unit), KILN_ECRASHED, "is not tried again for sm_90");
    kiln__list_fini(&unit.places);
}
END_TEST

/* All that a source is compiled with, and for, may be what is deadly in it. */
START_TEST(test_workers__condemned_with_what_it_is_compiled_with)
{
    kiln__unit unit = foreign_unit(crash), other = unit;
    unit.name = unit.shown = (char *)"x.cu";
    unit.as_source = true;
    open_here();
    for (int i = 0; i < 2; i++)
        expect(compile_unit(&unit), KILN_ECRASHED, "signal 11");
    expect(compile_unit(&unit), KILN_ECRASHED, "is not tried again for sm_90");
    kiln__list_add(&unit.options, "-DA=1");
    for (int i = 0; i < 2; i++)
        expect(compile_unit(&unit), KILN_ECRASHED, "signal 11");
    expect(compile_unit(&unit), KILN_ECRASHED, "is not tried again for sm_90");
    kiln__list_add(&unit.headers, "a.h");
    kiln__list_add(&unit.headers, "text");
    expect(compile_unit(&unit), KILN_ECRASHED, "signal 11");
    expect(compile_unit(&other), KILN_ECRASHED, "signal 11");
    expect(compile_unit(&other), KILN_ECRASHED, "signal 11");
    expect(compile_unit(&other), KILN_ECRASHED, "is not tried again for sm_90");
    ck_assert(kiln__target_parse("sm_90a", 6, &other.target));
    expect(compile_unit(&other), KILN_ECRASHED, "signal 11");
    kiln__list_fini(&unit.options);
    kiln__list_fini(&unit.headers);
}
END_TEST

START_TEST(test_workers__oldest_source_in_quarantine_is_forgotten)
{
    enum { TEXTS = KILN__QUARANTINE_MAX + 2 };
    kiln__quarantine quarantine;
    uint8_t digest[KILN__DIGEST_SIZE] = { 0 };
    kiln__quarantine_init(&quarantine);
    for (int round = 0; round < 2; round++) {
        for (digest[0] = 0; digest[0] < TEXTS; digest[0]++) {
            ck_assert(!kiln__quarantine_has(&quarantine, digest));
            kiln__quarantine_note(&quarantine, digest);
        }
    }
    for (int i = 1; i <= 2; i++) {
        digest[0] = TEXTS - 1;
        kiln__quarantine_note(&quarantine, digest);
        ck_assert(kiln__quarantine_has(&quarantine, digest));
        digest[0] = TEXTS - 2;
        ck_assert(kiln__quarantine_has(&quarantine, digest) == (i == 2));
        kiln__quarantine_note(&quarantine, digest);
    }
    kiln__quarantine_fini(&quarantine);
}
END_TEST

/* ---- Keeping what crashed */

static void check_kept(const char *path, const char *source)
{
    struct stat status;
    char bytes[256] = "";
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s is not there", path);
    ck_assert_uint_eq(fread(bytes, 1, sizeof(bytes) - 1, file), strlen(source));
    fclose(file);
    ck_assert_str_eq(bytes, source);
    ck_assert_int_eq(lstat(path, &status), 0);
    ck_assert(S_ISREG(status.st_mode));
    ck_assert_int_eq(status.st_mode & 07777, 0600);
}

START_TEST(test_workers__source_that_crashed_is_kept)
{
    char path[4096], digest_path[4096];
    uint8_t digest[KILN__DIGEST_SIZE];
    char hex[KILN__DIGEST_HEX];
    snprintf(path, sizeof(path), "%s", kiln_test_temp_path("crashes"));
    kiln__digest(digest, crash, strlen(crash));
    kiln__digest_hex(hex, digest);
    snprintf(digest_path, sizeof(digest_path), "%.3000s/%s.cu", path, hex);
    options.crash_dir = path;
    open_here();
    expect(compile(crash), KILN_ECRASHED, digest_path);
    check_kept(digest_path, crash);
    /* A link is replaced, not followed. */
    kiln_test_temp_write("victim", "mine", 4);
    ck_assert_int_eq(unlink(digest_path), 0);
    ck_assert_int_eq(symlink(kiln_test_temp_path("victim"), digest_path), 0);
    expect(compile(crash), KILN_ECRASHED, digest_path);
    check_kept(digest_path, crash);
    FILE *victim = fopen(kiln_test_temp_path("victim"), "r");
    char text[8] = "";
    ck_assert_uint_eq(fread(text, 1, sizeof(text), victim), 4);
    fclose(victim);
    ck_assert_str_eq(text, "mine");
    ck_assert_int_eq(kiln_test_temp_count("crashes"), 1);
}
END_TEST

START_TEST(test_workers__source_that_cannot_be_kept)
{
    kiln_test_temp_write("file", "x", 1);
    options.crash_dir = kiln_test_temp_path("file");
    open_here();
    expect(compile(crash), KILN_ECRASHED, "cannot keep the source in");
    ck_assert_ptr_nonnull(strstr(report.message, "signal 11"));
}
END_TEST

/* ---- The process around it */

static bool has_no_child(pid_t pid)
{
    (void)pid;
    return list_children(NULL, 0) == 0;
}

/* A child that nobody waits for tells its end a moment before the kernel takes it off the list. */
START_TEST(test_workers__with_SIGCHLD_ignored)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    ck_assert_int_eq(sigaction(SIGCHLD, &ignore, NULL), 0);
    open_here();
    expect_good();
    expect(compile(crash), KILN_ECRASHED, "signal 11"); /* the worker's own last words */
    expect_good();
    ck_assert_int_eq(kill(only_child(), SIGKILL), 0);
    expect_good();
    close_here();
    await(has_no_child, 0);
}
END_TEST

static int most_idle(void)
{
    int processors = (int)kiln__cpu_count();
    return processors > 2 ? processors : 2;
}

static void *compile_many(void *data)
{
    kiln__image image;
    kiln__unit unit = foreign_unit(good);
    for (int i = 0; i < 8; i++) {
        char text[64];
        snprintf(text, sizeof(text), i % 4 == 3 ? "STAND_IN_LOST %p %d\n" : "source %p %d\n", data, i);
        unit.source = text;
        unit.source_length = strlen(text);
        kiln_status status = compiler->vtable->compile(compiler, &unit, &image, NULL);
        ck_assert_int_eq(status, i % 4 == 3 ? KILN_ECRASHED : KILN_OK);
        kiln__image_fini(&image);
    }
    return NULL;
}

START_TEST(test_workers__many_threads_at_once)
{
    pthread_t threads[THREADS];
    kiln__workers_counts counts;
    int before = count_descriptors();
    open_here();
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, compile_many, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    kiln__workers_count(compiler, &counts);
    ck_assert_uint_eq(counts.crashes, THREADS * 2);
    ck_assert_int_le(list_children(NULL, 0), most_idle());
    expect_good();
    close_here();
    ck_assert_int_eq(list_children(NULL, 0), 0);
    ck_assert_int_eq(count_descriptors(), before);
}
END_TEST

static void *compile_once(void *data)
{
    kiln__image image;
    kiln__unit unit = foreign_unit(good);
    (void)data;
    ck_assert_int_eq(compiler->vtable->compile(compiler, &unit, &image, NULL), KILN_OK);
    kiln__image_fini(&image);
    return NULL;
}

START_TEST(test_workers__as_many_stay_as_there_are_processors)
{
    pthread_t threads[THREADS];
    kiln__workers_counts counts;
    uint64_t most = (uint64_t)most_idle();
    ck_assert_int_eq(setenv("KILN_STAND_IN_MS", "500", 1), 0); /* so that they are at work at the same time */
    open_here();
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, compile_once, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    kiln__workers_count(compiler, &counts);
    ck_assert_uint_gt(counts.starts, THREADS / 4);
    ck_assert_uint_eq((uint64_t)list_children(NULL, 0), counts.starts < most ? counts.starts : most);
}
END_TEST

START_TEST(test_workers__limits_are_set)
{
    char path[64], line[256];
    int found = 0;
    open_here();
    expect_good();
    snprintf(path, sizeof(path), "/proc/%d/limits", (int)only_child());
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned long long soft = 1;
        if (sscanf(line, "Max core file size %llu", &soft) == 1)
            found += soft == 0;
        if (!KILN_TEST_SANITIZED && sscanf(line, "Max address space %llu", &soft) == 1)
            found += soft == options.memory_bytes;
        if (sscanf(line, "Max cpu time %llu", &soft) == 1)
            found += soft >= TIME_MS / 1000 && soft < TIME_MS / 1000 + 60;
    }
    fclose(file);
    ck_assert_int_eq(found, KILN_TEST_SANITIZED ? 2 : 3);
}
END_TEST

/* A child of the host's, which outlives it. */
static void *leave_a_child(void *data)
{
    (void)data;
    usleep(50000); /* until the compile has begun */
    if (fork() == 0) {
        alarm(20);
        for (;;)
            pause();
    }
    return NULL;
}

/* A process with a worker in the middle of a compile that would last for ever. */
static pid_t start_host(int tell, bool forks)
{
    pthread_t thread;
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    kiln__unit unit = foreign_unit(hang);
    kiln__image image;
    open_here();
    expect_good();
    pid_t worker = only_child();
    if (kiln__fork_watch() != 0 || (forks && pthread_create(&thread, NULL, leave_a_child, NULL) != 0))
        _exit(1);
    if (write(tell, &worker, sizeof(worker)) == sizeof(worker))
        compiler->vtable->compile(compiler, &unit, &image, NULL);
    _exit(0);
}

START_TEST(test_workers__do_not_outlive_their_host)
{
    int ends[2], status;
    pid_t worker = 0;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t host = start_host(ends[1], _i == 1);
    ck_assert_int_eq(read(ends[0], &worker, sizeof(worker)), sizeof(worker));
    usleep(200000); /* until the compile has begun */
    ck_assert(!is_dead(worker));
    ck_assert_int_eq(kill(host, SIGKILL), 0);
    ck_assert_int_eq(waitpid(host, &status, 0), host);
    for (int i = 0; i < 1000 && !is_dead(worker); i++)
        usleep(1000);
    ck_assert(is_dead(worker));
}
END_TEST

Suite *kiln_test_jit_workers_suite(void)
{
    Suite *suite = suite_create("workers");
    TCase *tcase = tcase_create("workers");
    tcase_add_checked_fixture(tcase, set_up, close_here);
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_workers__policy_decides);
    tcase_add_test(tcase, test_workers__host_opens_nvrtc_only_where_it_must);
    tcase_add_test(tcase, test_workers__compile_tells_the_toolchain);
    tcase_add_test(tcase, test_workers__missing_nvrtc_is_told_as_ever);
    tcase_add_test(tcase, test_workers__failures_come_as_from_the_compiler);
    tcase_add_test(tcase, test_workers__log_is_clean);
    tcase_add_test(tcase, test_workers__missing_program);
    tcase_add_test(tcase, test_workers__program_that_is_no_worker);
    tcase_add_test(tcase, test_workers__program_refuses_to_be_run_by_hand);
    tcase_add_test(tcase, test_workers__warm_one_is_used_again);
    tcase_add_test(tcase, test_workers__killed_while_idle_is_replaced_without_a_word);
    tcase_add_test(tcase, test_workers__killed_while_compiling_costs_that_compile);
    tcase_add_test(tcase, test_workers__crash_is_told);
    tcase_add_test(tcase, test_workers__too_long_is_stopped);
    if (!KILN_TEST_SANITIZED) /* a sanitizer reserves more than any limit */
        tcase_add_test(tcase, test_workers__too_much_memory_is_refused);
    tcase_add_test(tcase, test_workers__one_that_used_much_memory_is_not_used_again);
    tcase_add_test(tcase, test_workers__worker_takes_no_nonsense);
    tcase_add_test(tcase, test_workers__twice_is_enough);
    tcase_add_test(tcase, test_workers__what_reads_files_is_tried_again);
    tcase_add_test(tcase, test_workers__condemned_with_what_it_is_compiled_with);
    tcase_add_test(tcase, test_workers__oldest_source_in_quarantine_is_forgotten);
    tcase_add_test(tcase, test_workers__source_that_crashed_is_kept);
    tcase_add_test(tcase, test_workers__source_that_cannot_be_kept);
    tcase_add_test(tcase, test_workers__with_SIGCHLD_ignored);
    tcase_add_test(tcase, test_workers__many_threads_at_once);
    tcase_add_test(tcase, test_workers__as_many_stay_as_there_are_processors);
    tcase_add_test(tcase, test_workers__limits_are_set);
    tcase_add_loop_test(tcase, test_workers__do_not_outlive_their_host, 0, KILN_TEST_CAN_FORK ? 2 : 1);
    suite_add_tcase(suite, tcase);
    return suite;
}
