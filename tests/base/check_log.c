#include "base/log.h"
#include "support/suites.h"
#include "support/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    int lines;
    kiln_log_level level;
    char text[4096];
} seen;

static void take_line(void *data, kiln_log_level level, const char *message)
{
    ck_assert_ptr_eq(data, &seen);
    seen.lines++;
    seen.level = level;
    snprintf(seen.text, sizeof seen.text, "%s", message);
    errno = EBUSY;
}

static kiln_log_level level_with(const char *environment, kiln_log_level given)
{
    kiln__log log;
    ck_assert_int_eq(environment ? setenv("KILN_LOG", environment, 1) : unsetenv("KILN_LOG"), 0);
    kiln__log_init(&log, take_line, &seen, given);
    return log.level;
}

START_TEST(test_log__level_is_the_given_one_or_that_of_the_environment)
{
    ck_assert_int_eq(level_with(NULL, 0), KILN_LOG_WARN);
    ck_assert_int_eq(level_with("", 0), KILN_LOG_WARN);
    ck_assert_int_eq(level_with("loud", 0), KILN_LOG_WARN);
    ck_assert_int_eq(level_with("error", 0), KILN_LOG_ERROR);
    ck_assert_int_eq(level_with("warn", 0), KILN_LOG_WARN);
    ck_assert_int_eq(level_with("info", 0), KILN_LOG_INFO);
    ck_assert_int_eq(level_with("debug", 0), KILN_LOG_DEBUG);
    ck_assert_int_eq(level_with("debug", KILN_LOG_ERROR), KILN_LOG_ERROR);
}
END_TEST

START_TEST(test_log__wanted_lines_arrive_whole)
{
    kiln__log log;
    kiln__log_init(&log, take_line, &seen, KILN_LOG_INFO);
    errno = ENOENT;
    kiln__log_line(&log, KILN_LOG_DEBUG, "not wanted");
    ck_assert_int_eq(seen.lines, 0);
    kiln__log_line(&log, KILN_LOG_INFO, "one\ntwo %d", 3);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(seen.lines, 1);
    ck_assert_int_eq(seen.level, KILN_LOG_INFO);
    ck_assert_str_eq(seen.text, "one two 3");
    kiln__log_line(&log, KILN_LOG_ERROR, "%3000d", 1);
    ck_assert_uint_le(strlen(seen.text), 2047);
    kiln__log_line(NULL, KILN_LOG_ERROR, "dropped");
    log.fn = NULL;
    kiln__log_line(&log, KILN_LOG_ERROR, "dropped");
    ck_assert_int_eq(seen.lines, 2);
}
END_TEST

/* Only a program that starts with raised rights knows of them: this one, copied and made setuid, ends here. */
static const char ask_variable[] = "KILN_TEST_TELL_LOG_LEVEL";
enum { CANNOT_TELL = 77 };

__attribute__((constructor)) static void tell_level(void)
{
    kiln__log log;
    if (!getenv(ask_variable))
        return;
    if (!getauxval(AT_SECURE))
        _exit(CANNOT_TELL);
    kiln__log_init(&log, NULL, NULL, 0);
    _exit(log.level);
}

static void copy_self(const char *path)
{
    char bytes[65536];
    ssize_t count;
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    ck_assert_int_ge(from, 0);
    ck_assert_int_ge(to, 0);
    while ((count = read(from, bytes, sizeof bytes)) > 0)
        ck_assert_int_eq(write(to, bytes, (size_t)count), count);
    ck_assert_int_eq(count, 0);
    close(from);
    ck_assert_int_eq(close(to), 0);
}

/* Needs the right to give a file away, and a file system that honours the mode. A ThreadSanitizer that cannot turn
 * address randomisation off cannot start such a program. */
START_TEST(test_log__raised_rights_ignore_the_environment)
{
    enum { NOBODY = 65534, CANNOT_EXECUTE = 127 };
    const char *path = kiln_test_temp_path("raised"), *sanitizer = getenv("KILN_SANITIZE");
    int status;
    if (sanitizer && strstr(sanitizer, "thread"))
        return;
    copy_self(path);
    if (chown(path, NOBODY, (gid_t)-1) || chmod(path, 04755))
        return;
    ck_assert_int_eq(setenv("KILN_LOG", "debug", 1), 0);
    ck_assert_int_eq(setenv(ask_variable, "1", 1), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        execl(path, path, (char *)NULL);
        _exit(CANNOT_EXECUTE);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) != CANNOT_TELL && WEXITSTATUS(status) != CANNOT_EXECUTE)
        ck_assert_int_eq(WEXITSTATUS(status), KILN_LOG_WARN);
}
END_TEST

Suite *kiln_test_base_log_suite(void)
{
    Suite *suite = suite_create("log");
    TCase *tcase = tcase_create("log");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_log__level_is_the_given_one_or_that_of_the_environment);
    tcase_add_test(tcase, test_log__wanted_lines_arrive_whole);
    tcase_add_test(tcase, test_log__raised_rights_ignore_the_environment);
    suite_add_tcase(suite, tcase);
    return suite;
}
