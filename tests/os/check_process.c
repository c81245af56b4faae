/* Processes, and what else belongs to the machine: its processor and its shared libraries. */
#include "os/cpu.h"
#include "os/dylib.h"
#include "os/process.h"
#include "support/suites.h"
#include "support/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000 };

static int run_shell(const char *script, const char *input, kiln__text *output)
{
    const char *const argv[] = { "sh", "-c", script, "zero", "one", NULL };
    return kiln__process_run(argv, input, input ? strlen(input) : 0, PATIENCE_MS, output);
}

/* Runs a script and asserts what it wrote. */
static void assert_shell(const char *script, const char *input, int status, const char *expected)
{
    kiln__text output = { 0 };
    int result = run_shell(script, input, &output);
    ck_assert_msg(result == status, "status %d, expected %d; output: %s", result, status, kiln__text_string(&output));
    ck_assert_str_eq(kiln__text_string(&output), expected);
    kiln__text_fini(&output);
}

START_TEST(test_process__gives_status_and_both_outputs)
{
    assert_shell("echo out; echo err >&2; exit 3", NULL, 3, "out\nerr\n");
    assert_shell("exit 0", NULL, 0, "");
    assert_shell("exit 255", NULL, 255, "");
    assert_shell("echo \"$0 $1 $#\"", NULL, 0, "zero one 1\n");
}
END_TEST

START_TEST(test_process__input_is_read_or_not)
{
    assert_shell("cat", "int x;\n", 0, "int x;\n");
    assert_shell("cat", NULL, 0, "");
    size_t length = 3 << 20;
    char *large = malloc(length + 1);
    memset(large, 'x', length);
    large[length] = '\0';
    assert_shell("exit 4", large, 4, "");
    assert_shell("wc -c", large, 0, "3145728\n");
    free(large);
}
END_TEST

START_TEST(test_process__output_is_appended_and_bounded)
{
    kiln__text output = { 0 };
    kiln__text_append(&output, "before ");
    ck_assert_int_eq(run_shell("head -c 3000000 /dev/zero | tr '\\0' y; exit 5", NULL, &output), 5);
    ck_assert_uint_eq(output.length, 7 + (1 << 20));
    ck_assert_mem_eq(output.data, "before yyy", 10);
    ck_assert_int_eq(output.data[output.length - 1], 'y');
    kiln__text_fini(&output);
    ck_assert_int_eq(run_shell("echo dropped; exit 6", NULL, NULL), 6);
}
END_TEST

/* Dead, or a zombie that nobody has reaped yet. */
static bool is_dead(pid_t pid)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *stream = fopen(path, "re");
    if (!stream)
        return true;
    bool read = fgets(line, sizeof line, stream) != NULL;
    fclose(stream);
    const char *state = strrchr(line, ')');
    return !read || (state && (state[2] == 'Z' || state[2] == 'X'));
}

static bool dies_soon(pid_t pid)
{
    for (int i = 0; i < 500 && !is_dead(pid); i++)
        usleep(10000);
    return is_dead(pid);
}

START_TEST(test_process__death_by_signal_is_128_and_more)
{
    kiln__text output = { 0 };
    ck_assert_int_eq(run_shell("kill -TERM $$", NULL, &output), 128 + SIGTERM);
    ck_assert_int_eq(run_shell("kill -KILL $$", NULL, &output), 128 + SIGKILL);
    kiln__text_fini(&output);
}
END_TEST

START_TEST(test_process__death_of_the_shell_between_ends_the_program_too)
{
    kiln__text output = { 0 }, unknown = { 0 };
    ck_assert_int_eq(run_shell("echo $$; kill -KILL $PPID; sleep 100", NULL, &output), 128 + SIGKILL);
    ck_assert(dies_soon((pid_t)atol(kiln__text_string(&output))));
    ck_assert(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    ck_assert_int_eq(run_shell("echo $$; kill -KILL $PPID; sleep 100", NULL, &unknown), -ECHILD);
    ck_assert(dies_soon((pid_t)atol(kiln__text_string(&unknown))));
    kiln__text_fini(&output);
    kiln__text_fini(&unknown);
}
END_TEST

START_TEST(test_process__missing_program_is_an_error_and_no_status)
{
    kiln__text output = { 0 };
    const char *const missing[] = { "kiln-no-such-program", NULL }, *const path[] = { "/no/such", NULL };
    const char *const empty[] = { "", NULL }, *const plain[] = { kiln_test_temp_path("plain"), NULL };
    const char *const directory[] = { kiln_test_temp_dir(), NULL };
    kiln_test_temp_write("plain", "x", 1);
    ck_assert_int_eq(kiln__process_run(missing, NULL, 0, PATIENCE_MS, &output), -ENOENT);
    ck_assert_int_eq(kiln__process_run(path, NULL, 0, PATIENCE_MS, &output), -ENOENT);
    ck_assert_int_eq(kiln__process_run(empty, NULL, 0, PATIENCE_MS, &output), -ENOENT);
    ck_assert_int_eq(kiln__process_run(plain, NULL, 0, PATIENCE_MS, &output), -EACCES);
    ck_assert_int_eq(kiln__process_run(directory, NULL, 0, PATIENCE_MS, &output), -ENOENT);
    ck_assert_uint_eq(output.length, 0);
}
END_TEST

static void make_script(const char *name, const char *text)
{
    kiln_test_temp_write(name, text, strlen(text));
    ck_assert_int_eq(chmod(kiln_test_temp_path(name), 0700), 0);
}

START_TEST(test_process__program_of_path_is_run_and_no_builtin)
{
    make_script("echo", "#!/bin/sh\nprintf '%s' \"mine $0\"\n");
    ck_assert_int_eq(setenv("PATH", kiln_test_temp_dir(), 1), 0);
    const char *const argv[] = { "echo", "x", NULL };
    kiln__text output = { 0 }, expected = { 0 };
    kiln__text_printf(&expected, "mine %s/echo", kiln_test_temp_dir());
    ck_assert_int_eq(kiln__process_run(argv, NULL, 0, PATIENCE_MS, &output), 0);
    ck_assert_str_eq(kiln__text_string(&output), kiln__text_string(&expected));
    kiln__text_fini(&output);
    kiln__text_fini(&expected);
}
END_TEST

START_TEST(test_process__link_is_run_under_its_own_name)
{
    char found[PATH_MAX];
    make_script("wrapper", "#!/bin/sh\nprintf '%s' \"${0##*/}\"\n");
    ck_assert_int_eq(symlink("wrapper", kiln_test_temp_path("cc")), 0);
    const char *const argv[] = { kiln_test_temp_path("cc"), NULL };
    kiln__text output = { 0 };
    ck_assert_int_eq(kiln__process_run(argv, NULL, 0, PATIENCE_MS, &output), 0);
    ck_assert_str_eq(kiln__text_string(&output), "cc");
    kiln__text_fini(&output);
    ck_assert_int_eq(kiln__process_find(argv[0], found, sizeof found), 0);
    ck_assert_str_eq(strrchr(found, '/'), "/wrapper");
}
END_TEST

START_TEST(test_process__find_follows_path_and_links)
{
    char found[PATH_MAX], small[4];
    kiln__text path = { 0 };
    ck_assert_int_eq(mkdir(kiln_test_temp_path("one"), 0700), 0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("two"), 0700), 0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("one/tool"), 0700), 0);
    make_script("two/tool", "#!/bin/sh\n");
    kiln_test_temp_write("one/data", "x", 1);
    kiln__text_printf(&path, "/none::%s:%s", kiln_test_temp_path("one"), kiln_test_temp_path("two"));
    ck_assert_int_eq(setenv("PATH", path.data, 1), 0);
    ck_assert_int_eq(kiln__process_find("tool", found, sizeof found), 0);
    ck_assert_str_eq(found + strlen(found) - 9, "/two/tool");
    ck_assert_int_eq(found[0], '/');
    ck_assert_int_eq(kiln__process_find("none", found, sizeof found), -ENOENT);
    ck_assert_int_eq(kiln__process_find("data", found, sizeof found), -EACCES);
    ck_assert_int_eq(kiln__process_find("tool", small, sizeof small), -ENOENT);
    ck_assert_int_eq(chdir(kiln_test_temp_path("two")), 0);
    ck_assert_int_eq(kiln__process_find("./tool", found, sizeof found), 0);
    ck_assert_int_eq(found[0], '/');
    ck_assert_int_eq(setenv("PATH", "", 1), 0);
    ck_assert_int_eq(kiln__process_find("tool", found, sizeof found), 0);
    ck_assert_int_eq(unsetenv("PATH"), 0);
    ck_assert_int_eq(kiln__process_find("sh", found, sizeof found), 0);
    kiln__text_fini(&path);
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

/* Needs the right to take another user's identity. */
START_TEST(test_process__raised_rights_ignore_the_environment)
{
    enum { NOBODY = 65534 };
    char found[PATH_MAX];
    const char *const argv[] = { "env", NULL };
    kiln__text output = { 0 };
    make_script("env", "#!/bin/sh\necho mine\n");
    ck_assert_int_eq(chmod(kiln_test_temp_dir(), 0755), 0);
    ck_assert_int_eq(setenv("PATH", kiln_test_temp_dir(), 1), 0);
    ck_assert_int_eq(setenv("LC_ALL", "de_DE.UTF-8", 1), 0);
    ck_assert_int_eq(setenv("COMPILER_PATH", kiln_test_temp_dir(), 1), 0);
    ck_assert_str_eq(kiln__process_path(), kiln_test_temp_dir());
    if (seteuid(NOBODY))
        return;
    ck_assert_str_eq(kiln__process_path(), "/usr/bin:/bin");
    ck_assert_int_eq(kiln__process_find("env", found, sizeof found), 0);
    ck_assert_ptr_nonnull(strstr(found, "/bin/"));
    int status = kiln__process_run(argv, NULL, 0, PATIENCE_MS, &output);
    ck_assert_int_eq(seteuid(getuid()), 0);
    ck_assert_int_eq(status, 0);
    ck_assert_ptr_nonnull(strstr(kiln__text_string(&output), "PATH=/usr/bin:/bin\n"));
    ck_assert_ptr_nonnull(strstr(kiln__text_string(&output), "LC_ALL=C\n"));
    ck_assert_ptr_null(strstr(kiln__text_string(&output), "COMPILER_PATH"));
    ck_assert_ptr_null(strstr(kiln__text_string(&output), kiln_test_temp_dir()));
    kiln__text_fini(&output);
}
END_TEST

START_TEST(test_process__timeout_kills_the_whole_group)
{
    kiln__text output = { 0 };
    const char *const argv[] = { "sh", "-c", "sleep 100 & echo $!; trap '' TERM; sleep 100", NULL };
    uint64_t begin = kiln__cpu_now_ns();
    ck_assert_int_eq(kiln__process_run(argv, NULL, 0, 300, &output), -ETIMEDOUT);
    uint64_t taken = kiln__cpu_now_ns() - begin;
    ck_assert_uint_ge(taken, 300000000u);
    ck_assert_uint_lt(taken, 20000000000u);
    ck_assert_uint_gt(output.length, 1);
    ck_assert(dies_soon((pid_t)atol(output.data)));
    kiln__text_fini(&output);
}
END_TEST

START_TEST(test_process__endless_output_meets_the_timeout)
{
    kiln__text output = { 0 };
    const char *const argv[] = { "sh", "-c", "cat /dev/zero & cat /dev/zero & exec cat /dev/zero", NULL };
    ck_assert_int_eq(kiln__process_run(argv, NULL, 0, 300, &output), -ETIMEDOUT);
    ck_assert_uint_le(output.length, 1 << 20);
    kiln__text_fini(&output);
}
END_TEST

START_TEST(test_process__what_is_left_behind_is_not_waited_for)
{
    kiln__text output = { 0 };
    uint64_t begin = kiln__cpu_now_ns();
    ck_assert_int_eq(run_shell("sleep 30 & echo $!; exit 2", NULL, &output), 2);
    ck_assert_uint_lt(kiln__cpu_now_ns() - begin, 20000000000u);
    pid_t left = (pid_t)atol(kiln__text_string(&output));
    ck_assert_int_gt(left, 1);
    ck_assert(!is_dead(left));
    ck_assert_int_eq(kill(left, SIGKILL), 0);
    kiln__text_fini(&output);
}
END_TEST

START_TEST(test_process__works_where_sigchld_is_ignored)
{
    ck_assert(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    assert_shell("echo out; exit 7", NULL, 7, "out\n");
    assert_shell("sh -c 'exit 8'; echo $?", NULL, 0, "8\n");
    assert_shell("kill -TERM $$", NULL, 128 + SIGTERM, "Terminated\n");
}
END_TEST

static void reap_all(int signal_number)
{
    (void)signal_number;
    int saved = errno;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    errno = saved;
}

START_TEST(test_process__works_where_the_host_reaps_every_child)
{
    ck_assert(signal(SIGCHLD, reap_all) != SIG_ERR);
    for (int i = 0; i < 20; i++)
        assert_shell("echo out; exit 9", NULL, 9, "out\n");
}
END_TEST

START_TEST(test_process__child_gets_three_descriptors_only)
{
    int leaked = open("/dev/null", O_RDONLY);
    ck_assert_int_ge(leaked, 0);
    ck_assert_int_eq(dup2(leaked, 3), 3);
    ck_assert_int_eq(dup2(leaked, 77), 77);
    /* The listing itself has its directory open. */
    const char *const argv[] = { "ls", "/proc/self/fd", NULL };
    kiln__text output = { 0 };
    ck_assert_int_eq(kiln__process_run(argv, "x", 1, PATIENCE_MS, &output), 0);
    ck_assert_str_eq(kiln__text_string(&output), "0\n1\n2\n3\n");
    kiln__text_fini(&output);
}
END_TEST

START_TEST(test_process__works_where_the_host_closed_its_own_descriptors)
{
    int saved[4], status;
    kiln__text output = { 0 };
    for (int fd = 0; fd < 4; fd++) {
        saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
        close(fd);
    }
    status = run_shell("cat; echo err >&2; exit 3", "in ", &output);
    for (int fd = 0; fd < 4; fd++) {
        if (saved[fd] >= 0)
            dup2(saved[fd], fd);
        close(saved[fd]);
    }
    ck_assert_int_eq(status, 3);
    ck_assert_str_eq(kiln__text_string(&output), "in err\n");
    kiln__text_fini(&output);
}
END_TEST

START_TEST(test_process__signals_and_locale_are_made_plain)
{
    sigset_t all;
    sigfillset(&all);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
    ck_assert(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    ck_assert(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    ck_assert_int_eq(setenv("LC_ALL", "de_DE.UTF-8", 1), 0);
    ck_assert_int_eq(setenv("KILN_TEST_VARIABLE", "passed on", 1), 0);
    assert_shell("grep '^SigBlk' /proc/self/status", NULL, 0, "SigBlk:\t0000000000000000\n");
    assert_shell("kill -PIPE $$", NULL, 128 + SIGPIPE, "");
    assert_shell("kill -HUP $$", NULL, 128 + SIGHUP, "Hangup\n");
    assert_shell("echo \"$LC_ALL, $KILN_TEST_VARIABLE\"; env | grep -c ^LC_ALL=", NULL, 0, "C, passed on\n1\n");
    ck_assert_str_eq(getenv("LC_ALL"), "de_DE.UTF-8");
}
END_TEST

/* Also the names of variables that a shell sets itself. */
static bool is_known(const char *name, size_t length)
{
    static const char *const known[] = { "PATH",      "HOME",      "TMPDIR", "LD_LIBRARY_PATH", "LC_ALL", "LC_ALL",
                                         "CUDA_PATH", "CUDA_HOME", "PWD",    "OLDPWD",          "SHLVL",  "_" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == length && !memcmp(known[i], name, length))
            return true;
    return !strncmp(name, "KILN_", 5) || (length > 11 && !strncmp(name + length - 11, "SAN_OPTIONS", 11));
}

START_TEST(test_process__no_variable_steers_a_compiler)
{
    static const char *const steering[] = {
        "CPATH",       "C_INCLUDE_PATH",    "GCC_EXEC_PREFIX",   "COMPILER_PATH",        "LIBRARY_PATH",
        "LD_RUN_PATH", "GCC_COMPARE_DEBUG", "SOURCE_DATE_EPOCH", "CCC_OVERRIDE_OPTIONS", "NVRTC_APPEND_FLAGS",
        "NVRTCWIZ",    "NV_NVVM_VERSION",   "LD_PRELOAD",        "DEPENDENCIES_OUTPUT",  "LC_CTYPE",
    };
    kiln__text output = { 0 };
    for (size_t i = 0; i < sizeof steering / sizeof *steering; i++)
        ck_assert_int_eq(setenv(steering[i], "", 1), 0);
    ck_assert_int_eq(setenv("HOME", "/home/of/somebody", 1), 0);
    ck_assert_int_eq(run_shell("env", NULL, &output), 0);
    for (const char *at = kiln__text_string(&output); *at; at += strcspn(at, "\n") + 1)
        ck_assert_msg(is_known(at, strcspn(at, "=")), "passed on: %.*s", (int)strcspn(at, "\n"), at);
    ck_assert_ptr_nonnull(strstr(kiln__text_string(&output), "HOME=/home/of/somebody\n"));
    ck_assert_ptr_nonnull(strstr(kiln__text_string(&output), "PATH="));
    kiln__text_fini(&output);
}
END_TEST

START_TEST(test_process__has_a_group_of_its_own)
{
    kiln__text output = { 0 };
    ck_assert_int_eq(run_shell("cut -d' ' -f5 /proc/$$/stat", NULL, &output), 0);
    ck_assert_int_gt(atol(kiln__text_string(&output)), 1);
    ck_assert_int_ne(atol(kiln__text_string(&output)), getpgrp());
    kiln__text_fini(&output);
}
END_TEST

static void *run_many(void *data)
{
    for (int i = 0; i < 10; i++) {
        kiln__text output = { 0 };
        int status = run_shell("cat; exit 11", "text", &output);
        bool right = status == 11 && !strcmp(kiln__text_string(&output), "text");
        kiln__text_fini(&output);
        if (!right)
            return data;
    }
    return NULL;
}

START_TEST(test_process__threads_may_run_programs_at_once)
{
    pthread_t threads[4];
    int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(before);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_many, threads), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
    int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(after);
    ck_assert_int_eq(after, before);
}
END_TEST

START_TEST(test_dylib__opens_the_first_that_opens)
{
    char error[256] = "", longer[PATH_MAX];
    const char *const names[] = { "libkiln-none.so.7", "", "libm.so.6", "libc.so.6", NULL };
    kiln__dylib *library = kiln__dylib_open(names, error, sizeof error);
    ck_assert_ptr_nonnull(library);
    ck_assert_ptr_nonnull(kiln__dylib_symbol(library, "cos"));
    ck_assert_ptr_null(kiln__dylib_symbol(library, "kiln_no_such_symbol"));
    ck_assert_ptr_nonnull(realpath(kiln__dylib_name(library), longer));
    const char *path = kiln__dylib_path(library);
    ck_assert_int_eq(path[0], '/');
    ck_assert_str_eq(longer, path);
    ck_assert_ptr_nonnull(strstr(path, "libm"));
    kiln__dylib_close(library);
    kiln__dylib_close(NULL);
}
END_TEST

START_TEST(test_dylib__says_why_for_each_name)
{
    char error[512] = "", small[8];
    const char *const names[] = { "libkiln-none.so.7", kiln_test_temp_path("text.so"), "", NULL };
    const char *const nothing[] = { NULL };
    kiln_test_temp_write("text.so", "not a library", 13);
    ck_assert_ptr_null(kiln__dylib_open(names, error, sizeof error));
    ck_assert_ptr_nonnull(strstr(error, "libkiln-none.so.7"));
    ck_assert_ptr_nonnull(strstr(error, "text.so"));
    ck_assert_ptr_nonnull(strstr(error, "; the name is empty"));
    ck_assert_ptr_null(kiln__dylib_open(names, small, sizeof small));
    ck_assert_str_eq(small, "libkiln");
    ck_assert_ptr_null(kiln__dylib_open(nothing, error, sizeof error));
    ck_assert_str_eq(error, "no name to try");
}
END_TEST

START_TEST(test_cpu__facts_are_plausible)
{
    char model[128], small[4];
    uint64_t before = kiln__cpu_now_ns();
    ck_assert_uint_ge(kiln__cpu_count(), 1);
    ck_assert_uint_ge(kiln__cpu_memory_bytes(), 64u << 20);
    ck_assert_uint_lt(kiln__cpu_cache_bytes(), UINT64_C(1) << 36);
    kiln__cpu_model(model, sizeof model);
    ck_assert_uint_gt(strlen(model), 2);
    ck_assert_ptr_null(strchr(model, '\n'));
    kiln__cpu_model(small, sizeof small);
    ck_assert_uint_eq(strlen(small), 3);
    ck_assert_mem_eq(small, model, 3);
    usleep(2000);
    ck_assert_uint_ge(kiln__cpu_now_ns() - before, 2000000u);
}
END_TEST

static void make_directories(char *path)
{
    for (char *slash = path; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
        *slash = '\0';
        mkdir(kiln_test_temp_path(path), 0700);
    }
}

static void write_text(const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", name);
    make_directories(path);
    kiln_test_temp_write(name, text, strlen(text));
}

START_TEST(test_cpu__memory_limit_of_control_groups)
{
    const char *root = kiln_test_temp_dir();
    ck_assert_uint_eq(kiln__cpu_memory_limit(root), UINT64_MAX);
    write_text("proc/self/cgroup", "0::/pod/box\n");
    ck_assert_uint_eq(kiln__cpu_memory_limit(root), UINT64_MAX);
    write_text("sys/fs/cgroup/pod/box/memory.max", "max\n");
    ck_assert_uint_eq(kiln__cpu_memory_limit(root), UINT64_MAX);
    write_text("sys/fs/cgroup/pod/box/memory.max", "8000000000\n");
    ck_assert_uint_eq(kiln__cpu_memory_limit(root), 8000000000);
    write_text("sys/fs/cgroup/pod/memory.max", "7000000000\n");
    ck_assert_uint_eq(kiln__cpu_memory_limit(root), 7000000000);
    write_text("sys/fs/cgroup/memory.max", "6000000000\n");
    ck_assert_uint_eq(kiln__cpu_memory_limit(root), 6000000000);
    write_text("proc/self/cgroup", "0::/\n");
    ck_assert_uint_eq(kiln__cpu_memory_limit(root), 6000000000);
    write_text("proc/self/cgroup", "0::/../not/seen/from/here\n");
    ck_assert_uint_eq(kiln__cpu_memory_limit(root), 6000000000);

    write_text("proc/self/cgroup", "9:name=systemd:/a\n4:memory:/a:b/c\n1:cpu:/x\n0::/none\n");
    write_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    ck_assert_uint_eq(kiln__cpu_memory_limit(root), 6000000000);
    write_text("sys/fs/cgroup/memory/a:b/c/memory.limit_in_bytes", "5000000000\n");
    ck_assert_uint_eq(kiln__cpu_memory_limit(root), 5000000000);
    write_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000000\n");
    ck_assert_uint_eq(kiln__cpu_memory_limit(root), 4000000000);
    write_text("proc/self/cgroup", "no colon\none:colon\n");
    ck_assert_uint_eq(kiln__cpu_memory_limit(root), UINT64_MAX);
}
END_TEST

START_TEST(test_cpu__memory_that_is_free)
{
    const char *root = kiln_test_temp_dir();
    ck_assert_uint_eq(kiln__cpu_memory_free(root), 0);
    write_text("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    4000000 kB\n");
    ck_assert_uint_eq(kiln__cpu_memory_free(root), UINT64_C(4096000000));
    write_text("proc/self/cgroup", "0::/box\n");
    write_text("sys/fs/cgroup/box/memory.max", "3000000000\n");
    ck_assert_uint_eq(kiln__cpu_memory_free(root), 3000000000);
    write_text("sys/fs/cgroup/box/memory.stat", "file 900\nanon 1000000000\n");
    ck_assert_uint_eq(kiln__cpu_memory_free(root), 2000000000);
    write_text("sys/fs/cgroup/box/memory.stat", "anon 4000000000\n");
    ck_assert_uint_eq(kiln__cpu_memory_free(root), 1);
    write_text("proc/self/cgroup", "4:memory:/a\n");
    write_text("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000000000\n");
    write_text("sys/fs/cgroup/memory/a/memory.stat", "rss 5\ntotal_rss 500000000\n");
    ck_assert_uint_eq(kiln__cpu_memory_free(root), 1500000000);
}
END_TEST

/* Needs the right to show this process other control groups. */
START_TEST(test_cpu__memory_is_the_smaller_of_machine_and_limit)
{
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    ck_assert_uint_le(kiln__cpu_memory_bytes(), machine);
    write_text("memory.max", "50000000\n");
    write_text("memory/memory.limit_in_bytes", "50000000\n");
    if (access("/proc/self/cgroup", R_OK) || unshare(CLONE_NEWNS) ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount(kiln_test_temp_dir(), "/sys/fs/cgroup", NULL, MS_BIND, NULL))
        return;
    ck_assert_uint_eq(kiln__cpu_memory_bytes(), 50000000);
    write_text("memory.max", "9223372036854771712\n");
    write_text("memory/memory.limit_in_bytes", "9223372036854771712\n");
    ck_assert_uint_eq(kiln__cpu_memory_bytes(), machine);
}
END_TEST

START_TEST(test_cpu__count_follows_the_affinity)
{
    cpu_set_t all, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    ck_assert_uint_eq(kiln__cpu_count(), (unsigned)CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_uint_eq(kiln__cpu_count(), 1);
}
END_TEST

/* The dynamic loader decides by the same definition which libraries of glibc-hwcaps it may use. */
START_TEST(test_cpu__isa_agrees_with_the_loader)
{
    kiln__text help = { 0 };
    const char *isa = kiln__cpu_isa();
    const char *const loader[] = { "/lib64/ld-linux-x86-64.so.2", "--help", NULL };
    static const char *const levels[] = { "x86-64-v4", "x86-64-v3", "x86-64-v2" };
    if (strncmp(isa, "x86-64", 6) || kiln__process_run(loader, NULL, 0, PATIENCE_MS, &help) != 0)
        return;
    const char *expected = "x86-64";
    for (size_t i = 3; i-- > 0;) {
        kiln__text line = { 0 };
        kiln__text_printf(&line, "%s (supported", levels[i]);
        if (strstr(kiln__text_string(&help), line.data))
            expected = levels[i];
        kiln__text_fini(&line);
    }
    ck_assert_str_eq(isa, expected);
    kiln__text_fini(&help);
}
END_TEST

static TCase *machine_case(void)
{
    TCase *tcase = tcase_create("machine");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_dylib__opens_the_first_that_opens);
    tcase_add_test(tcase, test_dylib__says_why_for_each_name);
    tcase_add_test(tcase, test_cpu__facts_are_plausible);
    tcase_add_test(tcase, test_cpu__memory_limit_of_control_groups);
    tcase_add_test(tcase, test_cpu__memory_that_is_free);
    tcase_add_test(tcase, test_cpu__memory_is_the_smaller_of_machine_and_limit);
    tcase_add_test(tcase, test_cpu__count_follows_the_affinity);
    tcase_add_test(tcase, test_cpu__isa_agrees_with_the_loader);
    return tcase;
}

Suite *kiln_test_os_process_suite(void)
{
    Suite *suite = suite_create("process");
    TCase *tcase = tcase_create("process");
    kiln_test_temp_use(tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_process__gives_status_and_both_outputs);
    tcase_add_test(tcase, test_process__input_is_read_or_not);
    tcase_add_test(tcase, test_process__output_is_appended_and_bounded);
    tcase_add_test(tcase, test_process__death_by_signal_is_128_and_more);
    tcase_add_test(tcase, test_process__death_of_the_shell_between_ends_the_program_too);
    tcase_add_test(tcase, test_process__missing_program_is_an_error_and_no_status);
    tcase_add_test(tcase, test_process__program_of_path_is_run_and_no_builtin);
    tcase_add_test(tcase, test_process__link_is_run_under_its_own_name);
    tcase_add_test(tcase, test_process__find_follows_path_and_links);
    tcase_add_test(tcase, test_process__raised_rights_ignore_the_environment);
    tcase_add_test(tcase, test_process__timeout_kills_the_whole_group);
    tcase_add_test(tcase, test_process__endless_output_meets_the_timeout);
    tcase_add_test(tcase, test_process__what_is_left_behind_is_not_waited_for);
    tcase_add_test(tcase, test_process__works_where_sigchld_is_ignored);
    tcase_add_test(tcase, test_process__works_where_the_host_reaps_every_child);
    tcase_add_test(tcase, test_process__child_gets_three_descriptors_only);
    tcase_add_test(tcase, test_process__works_where_the_host_closed_its_own_descriptors);
    tcase_add_test(tcase, test_process__signals_and_locale_are_made_plain);
    tcase_add_test(tcase, test_process__no_variable_steers_a_compiler);
    tcase_add_test(tcase, test_process__has_a_group_of_its_own);
    tcase_add_test(tcase, test_process__threads_may_run_programs_at_once);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, machine_case());
    return suite;
}
