/* Starting programs, and a child process at the end of a socket. */
#include "os/cpu.h"
#include "os/process.h"
#include "os/spawn.h"
#include "support/suites.h"
#include "support/temp.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static kiln__child start(const char *script)
{
    char name[] = "sh", option[] = "-c", text[512];
    char *const argv[] = { name, option, text, NULL };
    kiln__child child;
    snprintf(text, sizeof(text), "%s", script);
    ck_assert_int_eq(kiln__child_start(&child, "/bin/sh", argv), 0);
    ck_assert_int_ge(child.socket, 3);
    return child;
}

/* What the child writes to its standard input until it closes that. */
static char *read_all(const kiln__child *child)
{
    static char text[4096];
    size_t length = 0;
    ssize_t count;
    while ((count = read(child->socket, text + length, sizeof(text) - 1 - length)) > 0)
        length += (size_t)count;
    text[length] = '\0';
    return text;
}

static int count_fds(void)
{
    int count = 0;
    DIR *list = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(list);
    while (readdir(list) != NULL)
        count++;
    closedir(list);
    return count;
}

static bool is_gone(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    return access(path, F_OK) != 0;
}

START_TEST(test_child__talks_over_its_socket)
{
    kiln__child child = start("read line; echo \"got $line\" >&0; echo lost; echo lost >&2");
    ck_assert_int_eq(write(child.socket, "this\n", 5), 5);
    ck_assert_str_eq(read_all(&child), "got this\n");
    ck_assert_int_eq(kiln__child_end(&child), 0);
    ck_assert_int_eq(child.socket, -1);
    ck_assert_int_eq(kiln__child_end(&child), 0);
}
END_TEST

START_TEST(test_child__inherits_nothing_else)
{
    int own = open("/dev/null", O_RDONLY); /* not closed on exec */
    ck_assert_int_ge(dup2(own, 77), 0);
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigset_t all;
    sigfillset(&all);
    sigaction(SIGUSR1, &ignore, NULL);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    kiln__child child = start("exec >&0; cd /proc/self/fd; echo *; ps -o pgid= -p $$ | tr -d ' '; echo $$;"
                              "kill -USR1 $$; echo ignored");
    char *text = read_all(&child), *rest = strchr(text, '\n');
    ck_assert_ptr_nonnull(rest);
    *rest++ = '\0';
    /* The shell lists the directory itself, which needs a descriptor. */
    ck_assert_msg(strcmp(text, "0 1 2 3") == 0 || strcmp(text, "0 1 2") == 0, "descriptors %s", text);
    long group = strtol(rest, &rest, 10), own_number = strtol(rest, &rest, 10);
    ck_assert_int_eq(group, own_number);
    ck_assert_str_eq(rest, "\n");
    ck_assert_int_eq(kiln__child_end(&child), 128 + SIGUSR1);
    close(own);
    close(77);
}
END_TEST

START_TEST(test_child__is_killed_and_reaped)
{
    int before = count_fds();
    kiln__child child = start("trap '' HUP TERM INT; echo up >&0; while :; do sleep 1; done");
    pid_t pid = child.pid;
    char bytes[3];
    ck_assert_int_eq(recv(child.socket, bytes, sizeof(bytes), MSG_WAITALL), 3);
    ck_assert_int_eq(kiln__child_end(&child), 128 + SIGKILL);
    ck_assert(is_gone(pid));
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

START_TEST(test_child__death_is_the_end_of_the_stream)
{
    kiln__child child = start("kill -SEGV $$");
    char byte;
    ck_assert_int_eq(read(child.socket, &byte, 1), 0);
    ck_assert_int_eq(kiln__child_end(&child), 128 + SIGSEGV);
    child = start("exit 7");
    ck_assert_int_eq(read(child.socket, &byte, 1), 0);
    ck_assert_int_eq(kiln__child_end(&child), 7);
}
END_TEST

START_TEST(test_child__with_SIGCHLD_ignored)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    char byte;
    ck_assert_int_eq(sigaction(SIGCHLD, &ignore, NULL), 0);
    kiln__child child = start("exit 7");
    ck_assert_int_eq(read(child.socket, &byte, 1), 0);
    ck_assert_int_eq(kiln__child_end(&child), -ECHILD);
    child = start("while :; do sleep 1; done");
    pid_t pid = child.pid;
    ck_assert_int_eq(kiln__child_end(&child), -ECHILD);
    ck_assert(is_gone(pid));
}
END_TEST

START_TEST(test_child__reaped_by_the_host)
{
    int status;
    kiln__child child = start("exit 7");
    ck_assert_int_eq(waitpid(-1, &status, 0), child.pid);
    ck_assert_int_eq(kiln__child_end(&child), -ECHILD);
    /* Without a descriptor for the process its number may be a stranger's by now: nobody is killed. */
    child = start("exit 7");
    ck_assert_int_eq(waitpid(-1, &status, 0), child.pid);
    if (child.pidfd >= 0)
        close(child.pidfd);
    child.pidfd = -1;
    ck_assert_int_eq(kiln__child_end(&child), -ECHILD);
}
END_TEST

START_TEST(test_child__without_pidfd)
{
    kiln__child child = start("while :; do sleep 1; done");
    pid_t pid = child.pid;
    if (child.pidfd >= 0)
        close(child.pidfd);
    child.pidfd = -1;
    ck_assert_int_eq(kiln__child_end(&child), 128 + SIGKILL);
    ck_assert(is_gone(pid));
}
END_TEST

START_TEST(test_child__with_0_1_and_2_closed)
{
    int saved[3];
    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
        close(i);
    }
    char name[] = "sh", option[] = "-c", text[] = "echo fine >&0";
    char *const argv[] = { name, option, text, NULL };
    kiln__child child;
    char bytes[8];
    int error = kiln__child_start(&child, "/bin/sh", argv);
    ssize_t count = error == 0 ? recv(child.socket, bytes, 5, MSG_WAITALL) : 0;
    for (int i = 0; i < 3; i++) {
        dup2(saved[i], i);
        close(saved[i]);
    }
    ck_assert_int_eq(error, 0);
    ck_assert_int_eq(count, 5);
    ck_assert_mem_eq(bytes, "fine\n", 5);
    kiln__child_end(&child);
}
END_TEST

START_TEST(test_child__cannot_be_started)
{
    char name[] = "nothing";
    char *const argv[] = { name, NULL };
    int before = count_fds();
    kiln__child child;
    ck_assert_int_eq(kiln__child_start(&child, "/nonexistent/nothing", argv), -ENOENT);
    ck_assert_int_eq(child.socket, -1);
    kiln_test_temp_write("plain", "x", 1);
    ck_assert_int_eq(kiln__child_start(&child, kiln_test_temp_path("plain"), argv), -EACCES);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

START_TEST(test_child__tells_that_it_is_stopped)
{
    kiln__child child = start("echo up >&0; cat");
    siginfo_t info;
    char line[4];
    ck_assert_int_eq(read(child.socket, line, 3), 3);
    for (int round = 0; round < 2; round++) {
        int pidfd = child.pidfd;
        ck_assert(!kiln__child_is_stopped(&child));
        ck_assert_int_eq(kill(child.pid, SIGSTOP), 0);
        ck_assert_int_eq(waitid(P_PID, (id_t)child.pid, &info, WSTOPPED | WNOWAIT), 0);
        ck_assert(kiln__child_is_stopped(&child));
        ck_assert(kiln__child_is_stopped(&child)); /* it is not used up */
        child.pidfd = -1;
        ck_assert(kiln__child_is_stopped(&child)); /* by its number alone */
        child.pidfd = pidfd;
        ck_assert_int_eq(kill(child.pid, SIGCONT), 0);
        ck_assert_int_eq(waitid(P_PID, (id_t)child.pid, &info, WCONTINUED | WNOWAIT), 0);
    }
    ck_assert(!kiln__child_is_stopped(&child));
    ck_assert_int_eq(kill(child.pid, SIGSTOP), 0);
    ck_assert_int_eq(kiln__child_end(&child), 128 + SIGKILL);
    ck_assert(!kiln__child_is_stopped(&child));
}
END_TEST

START_TEST(test_child__without_a_socket)
{
    char name[] = "sh", option[] = "-c", text[] = "sleep 100 & echo $!; exit 3", byte;
    char *const argv[] = { name, option, text, NULL };
    int ends[2], before = count_fds();
    kiln__child child;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(kiln__spawn_raise(&ends[1], 3), 0);
    const int fds[3] = { ends[1], ends[1], ends[1] };
    ck_assert_int_eq(kiln__child_spawn(&child, "/bin/sh", argv, fds, 3), 0);
    ck_assert_int_eq(child.socket, -1);
    kiln__spawn_close(&ends[1]);
    for (int i = 0; i < 6000 && !kiln__child_has_ended(&child); i++)
        poll(NULL, 0, 10);
    ck_assert(kiln__child_has_ended(&child)); /* it is not used up */
    kiln__child_kill_group(&child);
    while (read(ends[0], &byte, 1) > 0) /* until nothing has the other end */
        continue;
    ck_assert_int_eq(kiln__child_end(&child), 3);
    ck_assert_int_eq(kiln__child_end(&child), 0);
    close(ends[0]);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* Starts a program with this process's group, signals and environment; gives its standard output and its status. */
static int run_program(const char *path, char *const *argv, char *answer, size_t size)
{
    int ends[2], status;
    size_t length = 0;
    ssize_t count;
    pid_t pid;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(kiln__spawn_raise(&ends[1], 3), 0);
    const int fds[3] = { -1, ends[1], -1 };
    const kiln__spawn_options options = { path, argv, .fds = fds, .fd_count = 3 };
    ck_assert_int_eq(kiln__spawn(&pid, &options), 0);
    kiln__spawn_close(&ends[1]);
    ck_assert_int_eq(ends[1], -1);
    while ((count = read(ends[0], answer + length, size - 1 - length)) > 0)
        length += (size_t)count;
    answer[length] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

/* The command starts its programs like this: Ctrl-C reaches them, unless the thread that starts them blocks it. The
 * shell clears the mask of what it starts, so another program shows that one. */
START_TEST(test_spawn__not_apart_shares_group_signals_and_environment)
{
    char sh[] = "sh", option[] = "-c", script[] = "echo $MINE; ls -m /proc/$$/fd; kill -HUP $$; exit 4";
    char grep[] = "grep", lines[] = "-E", pattern[] = "^(NSpgid|SigBlk)", file[] = "/proc/self/status";
    char *const shell[] = { sh, option, script, NULL }, *const look[] = { grep, lines, pattern, file, NULL };
    char answer[512], expected[128];
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    sigset_t blocked;
    ck_assert_int_eq(setenv("MINE", "passed on", 1), 0);
    ck_assert_int_eq(dup2(STDERR_FILENO, 77), 77); /* not closed on exec */
    sigaction(SIGHUP, &ignore, NULL);
    int status = run_program("/bin/sh", shell, answer, sizeof(answer));
    ck_assert_str_eq(answer, "passed on\n0, 1, 2\n");
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    ck_assert_int_eq(run_program("/bin/grep", look, answer, sizeof(answer)), 0);
    snprintf(expected, sizeof(expected), "NSpgid:\t%d\nSigBlk:\t%016x\n", (int)getpgrp(), 1u << (SIGUSR1 - 1));
    ck_assert_str_eq(answer, expected);
}
END_TEST

Suite *kiln_test_os_child_suite(void)
{
    Suite *suite = suite_create("child");
    TCase *tcase = tcase_create("child");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_child__talks_over_its_socket);
    tcase_add_test(tcase, test_child__inherits_nothing_else);
    tcase_add_test(tcase, test_child__is_killed_and_reaped);
    tcase_add_test(tcase, test_child__death_is_the_end_of_the_stream);
    tcase_add_test(tcase, test_child__with_SIGCHLD_ignored);
    tcase_add_test(tcase, test_child__reaped_by_the_host);
    tcase_add_test(tcase, test_child__without_pidfd);
    tcase_add_test(tcase, test_child__with_0_1_and_2_closed);
    tcase_add_test(tcase, test_child__cannot_be_started);
    tcase_add_test(tcase, test_child__tells_that_it_is_stopped);
    tcase_add_test(tcase, test_child__without_a_socket);
    tcase_add_test(tcase, test_spawn__not_apart_shares_group_signals_and_environment);
    suite_add_tcase(suite, tcase);
    return suite;
}
