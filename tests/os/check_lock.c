/* Locks on bytes of a file that processes share: who has one, how long another waits, and what is no waiting. */
#include "os/cpu.h"
#include "os/fork.h"
#include "os/lock.h"
#include "support/suites.h"
#include "support/temp.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT = 7, WAIT_MS = 1000, STOPPED_MS = 2500 };

static kiln__lock lock;

static int open_file(void)
{
    int fd = open(kiln_test_temp_path("lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : -errno;
}

static void open_lock(void)
{
    ck_assert_int_ge(kiln__lock_open(&lock, open_file()), 0);
}

static void close_lock(void)
{
    kiln__lock_close(&lock);
}

/* A process that waits for the byte, through an open file of its own, and ends with what it was told. */
static pid_t start_waiting(uint32_t wait_ms)
{
    int ready[2];
    char byte;
    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        open_lock();
        if (kiln__lock_try(&lock, AT) != -EAGAIN || write(ready[1], "!", 1) != 1)
            _exit(255);
        _exit(-kiln__lock_wait(&lock, AT, wait_ms));
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static int result_of(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return -WEXITSTATUS(status);
}

/* ---- Forks */

int __real_close(int fd);
int __wrap_close(int fd);

static int watched = -1, closed_in_child;

/* The linker sends closes of the program here first (--wrap). A child that is forked now must find the number off
 * the list: by the time that its handler runs another file may have it. */
int __wrap_close(int fd)
{
    if (fd >= 0 && fd == watched) {
        int status = -1;
        watched = -1;
        pid_t pid = fork();
        if (pid == 0)
            _exit(fcntl(fd, F_GETFD) >= 0 ? 0 : 1);
        waitpid(pid, &status, 0);
        closed_in_child += status != 0;
    }
    return __real_close(fd);
}

START_TEST(test_lock__a_forked_child_closes_it_until_it_is_given_up)
{
    int status = -1;
    ck_assert_int_eq(kiln__fork_watch(), 0);
    open_lock();
    ck_assert_int_eq(kiln__lock_try(&lock, AT), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(fcntl(lock.fd, F_GETFD) < 0 ? 0 : 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    watched = lock.fd;
    close_lock();
    ck_assert_int_eq(watched, -1);
    ck_assert_int_eq(closed_in_child, 0);
}
END_TEST

START_TEST(test_lock__a_byte_is_for_one_open_file_at_a_time)
{
    kiln__lock other;
    open_lock();
    ck_assert_int_ge(kiln__lock_open(&other, open_file()), 0);
    ck_assert_int_eq(kiln__lock_try(&lock, AT), 0);
    ck_assert_int_eq(kiln__lock_try(&other, AT), -EAGAIN);
    ck_assert_int_eq(kiln__lock_try(&other, AT + 1), 0);
    kiln__lock_give(&lock, AT);
    ck_assert_int_eq(kiln__lock_try(&other, AT), 0);
    ck_assert_int_eq(unlink(kiln_test_temp_path("lock")), 0);
    ck_assert_int_eq(kiln__lock_try(&other, AT + 2), -ENOENT);
    kiln__lock_close(&other);
    close_lock();
}
END_TEST

START_TEST(test_lock__a_wait_has_an_end)
{
    open_lock();
    ck_assert_int_eq(kiln__lock_try(&lock, AT), 0);
    uint64_t start = kiln__cpu_now_ns();
    ck_assert_int_eq(result_of(start_waiting(60)), -ETIMEDOUT);
    ck_assert_uint_ge(kiln__cpu_now_ns() - start, 60000000);
    close_lock();
}
END_TEST

START_TEST(test_lock__a_wait_ends_when_the_byte_is_given)
{
    open_lock();
    ck_assert_int_eq(kiln__lock_try(&lock, AT), 0);
    pid_t pid = start_waiting(60000);
    kiln__lock_give(&lock, AT);
    ck_assert_int_eq(result_of(pid), 0);
    close_lock();
}
END_TEST

/* As when the machine was: then the process that has the lock was stopped, too. */
START_TEST(test_lock__being_stopped_is_not_waiting)
{
    open_lock();
    ck_assert_int_eq(kiln__lock_try(&lock, AT), 0);
    pid_t pid = start_waiting(WAIT_MS);
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    usleep(STOPPED_MS * 1000);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    usleep(50000);
    kiln__lock_give(&lock, AT);
    ck_assert_int_eq(result_of(pid), 0);
    close_lock();
}
END_TEST

Suite *kiln_test_os_lock_suite(void)
{
    Suite *suite = suite_create("lock");
    TCase *tcase = tcase_create("lock");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_lock__a_byte_is_for_one_open_file_at_a_time);
    tcase_add_test(tcase, test_lock__a_forked_child_closes_it_until_it_is_given_up);
    tcase_add_test(tcase, test_lock__a_wait_has_an_end);
    tcase_add_test(tcase, test_lock__a_wait_ends_when_the_byte_is_given);
    tcase_add_test(tcase, test_lock__being_stopped_is_not_waiting);
    suite_add_tcase(suite, tcase);
    return suite;
}
