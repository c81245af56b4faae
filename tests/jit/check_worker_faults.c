/* Compile workers that cannot be relied on: that lie, that are stopped, and programs that are not to be run as one. */
#include "jit/worker/worker.h"
#include "support/suites.h"
#include "support/temp.h"
#include "support/working.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* A source that has taken over its worker cannot file its code, or anything that is compiled later, under another
 * toolchain. */
START_TEST(test_worker_faults__source_cannot_name_another_toolchain)
{
    static const kiln_isolate policies[] = { KILN_ISOLATE_ALWAYS, KILN_ISOLATE_AUTO };
    char liar[] = "STAND_IN_LIAR\n";
    kiln__toolchain toolchain;
    for (size_t i = 0; i < 2; i++) {
        options.isolate = policies[i];
        open_here();
        expect(compile(liar), KILN_ECRASHED, "gave no proper answer");
        expect_counts(1, 1, 0);
        ck_assert_int_eq(list_children(NULL, 0), 0);
        expect_good();
        pid_t pid = only_child();
        expect(compile(liar), KILN_ECRASHED, "gave no proper answer"); /* in a worker that was used before */
        expect_counts(2, 2, 0);
        ck_assert(is_dead(pid));
        expect(compiler->vtable->identify(compiler, &toolchain, &report), KILN_OK, "");
        ck_assert_str_eq(toolchain.id, "nvrtc-13.0.1-1");
        close_here();
    }
}
END_TEST

/* ---- Stopped */

static char hang[] = "STAND_IN_HANG\n";

static void stop(pid_t pid)
{
    siginfo_t info;
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
}

static uint64_t ms_since(uint64_t start)
{
    return (kiln__cpu_now_ns() - start) / 1000000;
}

/* The kernel tells that a worker is stopped: waiting for its answer would take half a minute. */
START_TEST(test_worker_faults__stopped_while_idle_is_replaced)
{
    kiln__unit unit = foreign_unit(good);
    for (int i = 0; i < 2; i++) {
        unit.foreign = i == 0;
        open_here();
        expect(compile_unit(&unit), KILN_OK, "");
        pid_t pid = only_child();
        stop(pid);
        uint64_t start = kiln__cpu_now_ns();
        expect(compile_unit(&unit), KILN_OK, "");
        ck_assert_uint_le(ms_since(start), 4 * SLACK_MS);
        ck_assert(is_dead(pid));
        expect_counts(2, 0, 0);
        close_here();
    }
}
END_TEST

static void *stop_the_child(void *data)
{
    pid_t pid = 0;
    while (list_children(&pid, 1) == 0)
        usleep(1000);
    usleep(KILN_TEST_SANITIZED ? 1000000 : 200000); /* until it has begun */
    kill(pid, SIGSTOP);
    return data;
}

START_TEST(test_worker_faults__stopped_while_compiling_ends_at_its_limit)
{
    enum { LIMIT_MS = 2 * SHORT_MS + 2 * SLACK_MS };
    pthread_t thread;
    options.time_ms = LIMIT_MS;
    open_here();
    expect_good();
    uint64_t start = kiln__cpu_now_ns();
    ck_assert_int_eq(pthread_create(&thread, NULL, stop_the_child, NULL), 0);
    expect(compile(hang), KILN_ECRASHED, "did not finish within");
    ck_assert_uint_le(ms_since(start), LIMIT_MS + 4 * SLACK_MS);
    pthread_join(thread, NULL);
    ck_assert_int_eq(list_children(NULL, 0), 0);
    expect_good();
}
END_TEST

/* ---- Programs that are not to be run */

/* A directory that a stranger might have made: names as those of this program and of the library, and a worker
 * beside them. */
static void plant(void)
{
    char script[512];
    static const char *const directories[] = { "evil", "evil/bin", "evil/libexec", "evil/libexec/kiln" };
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++)
        ck_assert_int_eq(mkdir(kiln_test_temp_path(directories[i]), 0700), 0);
    kiln_test_temp_write("evil/bin/elsewhere", "", 0);
    kiln_test_temp_write("evil/bin/libkiln.so.0", "", 0);
    int length = snprintf(script, sizeof(script), "#!/bin/sh\n: >%s\n", kiln_test_temp_path("evil/ran"));
    kiln_test_temp_write("evil/libexec/kiln/kiln-worker", script, (size_t)length);
    ck_assert_int_eq(chmod(kiln_test_temp_path("evil/libexec/kiln/kiln-worker"), 0700), 0);
}

/* How the program elsewhere is started. */
typedef struct beginning {
    const char *program, *from, *name, *library,
        *library_path; /* NULL: the program of this build; its file's name; none */
    bool without_proc;
} beginning;

static void begin_elsewhere(const beginning *how, int out)
{
    const char *program = how->program != NULL ? how->program : getenv("KILN_ELSEWHERE");
    if (how->without_proc &&
        ((unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
         mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("none", "/proc", "tmpfs", 0, NULL) != 0))
        _exit(77);
    if (how->library_path != NULL)
        setenv("LD_LIBRARY_PATH", how->library_path, 1);
    unsetenv("KILN_WORKER");
    if (chdir(how->from) == 0 && dup2(out, 1) == 1)
        execl(program, how->name, how->library, kiln_test_temp_path("evil/bin"), (char *)NULL);
    _exit(1);
}

/* Reads its output into `out`. False where it could not be started so. */
static bool ask_elsewhere(const beginning *how, char out[1024])
{
    int ends[2], status;
    size_t length = 0;
    ssize_t count;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0)
        begin_elsewhere(how, ends[1]);
    close(ends[1]);
    while ((count = read(ends[0], out + length, 1023 - length)) > 0)
        length += (size_t)count;
    out[length] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77), "status %x: %s",
                  (unsigned)status, out);
    return WEXITSTATUS(status) == 0;
}

/* A path that the environment tells. */
static const char *path_of(const char *variable)
{
    const char *path = getenv(variable);
    ck_assert_msg(path != NULL && strchr(path, '/') != NULL, "%s must name a file", variable);
    return path != NULL ? path : "/";
}

static char *directory_of(const char *path, char out[512])
{
    snprintf(out, 512, "%.*s", (int)(strrchr(path, '/') - path), path);
    return out;
}

/* Whatever name the program or the library was started by, and wherever the process is by now: the worker is the one
 * beside the file that runs. */
START_TEST(test_worker_faults__none_is_taken_from_the_present_directory)
{
    char said[1024], program[512], library[512], build[600], name[256], dotted[300];
    struct stat status;
    directory_of(path_of("KILN_ELSEWHERE"), program);
    directory_of(path_of("KILN_LIBRARY"), library);
    snprintf(name, sizeof(name), "%s", strrchr(path_of("KILN_LIBRARY"), '/') + 1);
    snprintf(dotted, sizeof(dotted), "./%s", name);
    snprintf(build, sizeof(build), "1 %s/libexec/kiln/kiln-worker ", getenv("KILN_BUILD_DIR"));
    plant();
    const char *forged = kiln_test_temp_path("evil/bin/elsewhere");
    const beginning ways[] = { { .from = program, .name = "./elsewhere", .library = "" },
                               { .from = program, .name = "elsewhere", .library = "" },
                               { .from = program, .name = forged, .library = "" },
                               { .from = library, .name = "elsewhere", .library = dotted },
                               { .from = library, .name = "elsewhere", .library = name, .library_path = "." },
                               { .from = "/", .name = "elsewhere", .library = path_of("KILN_LIBRARY") } };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        ck_assert(ask_elsewhere(&ways[i], said));
        ck_assert_msg(strncmp(said, build, strlen(build)) == 0, "way %zu: %s", i, said);
        ck_assert_msg(stat(kiln_test_temp_path("evil/ran"), &status) != 0, "way %zu runs a stranger's program", i);
    }
    const beginning blind[] = { { .from = program, .name = "./elsewhere", .library = "", .without_proc = true },
                                { .from = library, .name = "elsewhere", .library = dotted, .without_proc = true } };
    for (size_t i = 0; i < 2; i++) {
        if (!ask_elsewhere(&blind[i], said))
            printf("   left out: /proc cannot be hidden here\n");
        else
            ck_assert_msg(strncmp(said, "0 ", 2) == 0 && strstr(said, "own file cannot be found") != NULL, "%s", said);
        ck_assert_int_ne(stat(kiln_test_temp_path("evil/ran"), &status), 0);
    }
}
END_TEST

static void copy_program(const char *from, const char *name, mode_t mode)
{
    char command[2048];
    snprintf(command, sizeof(command), "cp '%s' '%s'", from, kiln_test_temp_path(name));
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(chmod(kiln_test_temp_path(name), mode), 0);
}

/* Who may change the worker may run code as this user. */
START_TEST(test_worker_faults__program_that_others_may_change_is_refused)
{
    char path[4096], said[1024], text[1024], host[256], worker[256];
    const beginning there = { .program = host, .from = "/", .name = "host", .library = "" };
    ck_assert_int_eq(kiln__worker_find(NULL, path, sizeof(path), &report), KILN_OK);
    plant();
    snprintf(host, sizeof(host), "%s", kiln_test_temp_path("evil/bin/host"));
    snprintf(worker, sizeof(worker), "%s", kiln_test_temp_path("evil/libexec/kiln/kiln-worker"));
    options.program = worker;
    copy_program(path, "evil/libexec/kiln/kiln-worker", 0770);
    snprintf(text, sizeof(text),
             "the compile worker %s is not used: it is writable by group or others (mode 0770): make it root's or this "
             "user's own (chown) and writable by no other (chmod go-w)",
             options.program);
    open_here();
    expect(compile(good), KILN_ENOWORKER, text);
    close_here();
    copy_program(path_of("KILN_ELSEWHERE"), "evil/bin/host", 0700);
    ck_assert(ask_elsewhere(&there, said));
    ck_assert_msg(strncmp(said, "0 ", 2) == 0 && strstr(said, text) != NULL, "%s", said);
    ck_assert_int_eq(chmod(options.program, 0755), 0);
    ck_assert(ask_elsewhere(&there, said));
    ck_assert_msg(strncmp(said, "1 ", 2) == 0, "%s", said);
    open_here();
    expect_good();
    close_here();
    if (geteuid() != 0) {
        printf("   left out: files of another user need root\n");
        return;
    }
    ck_assert_int_eq(chown(options.program, 12345, (gid_t)-1), 0);
    open_here();
    expect(compile(good), KILN_ENOWORKER, "it is owned by user 12345, expected 0 or root");
    close_here();
    ck_assert(ask_elsewhere(&there, said));
    ck_assert_msg(strncmp(said, "0 ", 2) == 0 && strstr(said, "owned by user 12345") != NULL, "%s", said);
}
END_TEST

/* A relative name is that of a file where the service was opened. */
START_TEST(test_worker_faults__named_program_stays_the_same)
{
    char path[4096], directory[512];
    ck_assert_int_eq(kiln__worker_find(NULL, path, sizeof(path), &report), KILN_OK);
    plant();
    ck_assert_int_eq(chdir(directory_of(path, directory)), 0);
    options.program = "kiln-worker";
    open_here();
    ck_assert_int_eq(chdir(kiln_test_temp_path("evil/libexec/kiln")), 0);
    expect_good();
    close_here();
    options.program = "missing-worker";
    open_here();
    ck_assert_int_eq(rename("kiln-worker", "missing-worker"), 0);
    expect(compile(good), KILN_ENOWORKER, "missing-worker");
    ck_assert_int_ne(access(kiln_test_temp_path("evil/ran"), F_OK), 0);
}
END_TEST

Suite *kiln_test_jit_worker_faults_suite(void)
{
    Suite *suite = suite_create("worker_faults");
    TCase *tcase = tcase_create("worker_faults");
    tcase_add_checked_fixture(tcase, set_up, close_here);
    kiln_test_temp_use(tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_worker_faults__source_cannot_name_another_toolchain);
    tcase_add_test(tcase, test_worker_faults__stopped_while_idle_is_replaced);
    tcase_add_test(tcase, test_worker_faults__stopped_while_compiling_ends_at_its_limit);
    tcase_add_test(tcase, test_worker_faults__none_is_taken_from_the_present_directory);
    tcase_add_test(tcase, test_worker_faults__program_that_others_may_change_is_refused);
    tcase_add_test(tcase, test_worker_faults__named_program_stays_the_same);
    suite_add_tcase(suite, tcase);
    return suite;
}
