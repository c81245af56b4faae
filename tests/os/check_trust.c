/* Who may own what is used. */
#include "os/trust.h"
#include "support/suites.h"
#include "support/temp.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

static const struct {
    mode_t mode;
    uid_t other_owner;
    nlink_t names;
    const char *directory, *file; /* the start of the reason, NULL for none */
} trusts[] = {
    { S_IFDIR | 0700, 0, 2, NULL, "not a regular file" },
    { S_IFDIR | 0755, 0, 9, NULL, "not a regular file" },
    { S_IFDIR | 0770, 0, 2, "writable by group or others (mode 0770)", "not a regular file" },
    { S_IFDIR | 01777, 0, 2, "writable by group or others (mode 1777)", "not a regular file" },
    { S_IFDIR | 0700, 1, 2, "owned by user ", "not a regular file" },
    { S_IFREG | 0600, 0, 1, "not a directory", NULL },
    { S_IFREG | 0644, 0, 0, "not a directory", NULL },
    { S_IFREG | 0602, 0, 1, "not a directory", "writable by group or others (mode 0602)" },
    { S_IFREG | 0660, 0, 1, "not a directory", "writable by group or others (mode 0660)" },
    { S_IFREG | 0600, 0, 2, "not a directory", "has 2 names" },
    { S_IFREG | 0600, 1, 1, "not a directory", "owned by user " },
    { S_IFIFO | 0600, 0, 1, "not a directory", "not a regular file" },
    { S_IFLNK | 0777, 0, 1, "not a directory", "not a regular file" },
};

static void assert_reason(const char *reason, const char *expected)
{
    if (!expected)
        ck_assert_msg(reason == NULL, "refused: %s", reason);
    else
        ck_assert_msg(reason && !strncmp(reason, expected, strlen(expected)), "'%s' and not '%s'",
                      reason ? reason : "trusted", expected);
}

START_TEST(test_trust__refuses_what_others_could_have_written)
{
    char buffer[96];
    struct stat status = { 0 };
    status.st_mode = trusts[_i].mode;
    status.st_nlink = trusts[_i].names;
    status.st_uid = geteuid() + trusts[_i].other_owner;
    assert_reason(kiln__trust_refuse_directory(&status, false, buffer, sizeof buffer), trusts[_i].directory);
    assert_reason(kiln__trust_refuse_file(&status, false, buffer, sizeof buffer), trusts[_i].file);
}
END_TEST

/* The rule of KILN_TRUST=group, by the group of the file: 0 the process's, 1 another. */
static const struct {
    mode_t mode;
    bool root, other_user;
    gid_t other_group;
    const char *reason;
} group_trusts[] = {
    { S_IFDIR | 0770, false, false, 0, NULL },
    { S_IFDIR | 02775, true, false, 0, NULL },
    { S_IFDIR | 0755, false, false, 1, NULL },
    { S_IFDIR | 0770, false, false, 1, "writable by group or others (mode 0770)" },
    { S_IFDIR | 0777, false, false, 0, "writable by group or others (mode 0777)" },
    { S_IFDIR | 0770, false, true, 0, "owned by user " },
    { S_IFREG | 0660, false, false, 0, NULL },
    { S_IFREG | 0660, false, false, 1, "writable by group or others (mode 0660)" },
    { S_IFREG | 0602, false, false, 0, "writable by group or others (mode 0602)" },
};

START_TEST(test_trust__group_trusts_the_members_of_the_process_s_groups)
{
    char buffer[96];
    struct stat status = { .st_mode = group_trusts[_i].mode, .st_nlink = 1 };
    status.st_uid = group_trusts[_i].root ? 0 : geteuid() + (group_trusts[_i].other_user ? 7 : 0);
    status.st_gid = getegid() + group_trusts[_i].other_group * 54321;
    const char *(*refuse)(const struct stat *, unsigned, char *, size_t) =
        S_ISDIR(status.st_mode) ? kiln__trust_refuse_directory : kiln__trust_refuse_file;
    assert_reason(refuse(&status, KILN__TRUST_GROUP, buffer, sizeof buffer), group_trusts[_i].reason);
}
END_TEST

START_TEST(test_trust__a_link_is_the_user_s_or_root_s)
{
    char buffer[96];
    struct stat status = { .st_mode = S_IFLNK | 0777, .st_uid = geteuid() };
    assert_reason(kiln__trust_refuse_link(&status, KILN__TRUST_SHARED, buffer, sizeof buffer), "is a link");
    assert_reason(kiln__trust_refuse_link(&status, KILN__TRUST_GROUP, buffer, sizeof buffer), NULL);
    status.st_uid = 0;
    assert_reason(kiln__trust_refuse_link(&status, KILN__TRUST_GROUP, buffer, sizeof buffer), NULL);
    status.st_uid = geteuid() + 7;
    assert_reason(kiln__trust_refuse_link(&status, KILN__TRUST_GROUP, buffer, sizeof buffer), "owned by user ");
}
END_TEST

START_TEST(test_trust__names_both_owners)
{
    char buffer[96], expected[96];
    struct stat status = { 0 };
    status.st_mode = S_IFDIR | 0700;
    status.st_uid = geteuid() + 7;
    snprintf(expected, sizeof expected, "owned by user %u, expected %u", (unsigned)geteuid() + 7, (unsigned)geteuid());
    ck_assert_str_eq(kiln__trust_refuse_directory(&status, false, buffer, sizeof buffer), expected);
}
END_TEST

static const struct {
    uid_t owner;
    const char *overflow, *map;
    bool refused;
} maps[] = {
    { 65534, "65534\n", "         0          0 4294967295\n", false }, /* nobody, outside of containers */
    { 65534, "65534\n", "", true },                                    /* nothing is mapped */
    { 65534, "65534\n", "         0       1000          1\n", true },
    { 65534, "65534\n", "0 1000 1\n1 100000 65536\n", true }, /* nobody is mapped, and others look like it */
    { 65534, "65534\n", "0 0 4294967294\n", true },
    { 65534, "65534\n", "0 1 4294967295\n", true },
    { 65534, "65534\n", "0 0 4294967295\n4294967295 1 1\n", true },
    { 65534, "65534\n", "0 0 4294967295 0\n", true },
    { 65534, NULL, "0 1000 1\n", true },
    { 65534, NULL, NULL, true },
    { 65534, "1234\n", "0 1000 1\n", false },
    { 1234, "1234\n", "0 1000 1\n", true },
    { 1000, "65534\n", "0 1000 1\n", false },
    { 0, "65534\n", "", false },
};

START_TEST(test_trust__unmapped_users_own_nothing)
{
    ck_assert_int_eq(kiln__trust_is_unmapped(maps[_i].owner, maps[_i].overflow, maps[_i].map), maps[_i].refused);
}
END_TEST

static void look_from_inside(const struct stat *status)
{
    char buffer[160], text[16] = "";
    int fd = open("/proc/sys/kernel/overflowuid", O_RDONLY | O_CLOEXEC);
    struct stat seen = *status;
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0 || unshare(CLONE_NEWUSER) != 0)
        _exit(2);
    ck_assert_int_eq(stat(kiln_test_temp_path("file"), &seen), 0);
    ck_assert_uint_eq(seen.st_uid, (unsigned)atoi(text));
    ck_assert_uint_eq(geteuid(), seen.st_uid);
    assert_reason(kiln__trust_refuse_file(&seen, false, buffer, sizeof buffer), "owned by user ");
    assert_reason(kiln__trust_refuse_file(&seen, true, buffer, sizeof buffer), "owned by user ");
    ck_assert_int_eq(stat(kiln_test_temp_dir(), &seen), 0);
    assert_reason(kiln__trust_refuse_directory(&seen, false, buffer, sizeof buffer), "owned by user ");
    assert_reason(kiln__trust_refuse_directory(&seen, true, buffer, sizeof buffer), "owned by user ");
}

START_TEST(test_trust__in_a_user_namespace_the_overflow_user_is_anybody)
{
    struct stat status;
    int result;
    kiln_test_temp_write("file", "x", 1);
    ck_assert_int_eq(stat(kiln_test_temp_path("file"), &status), 0);
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        look_from_inside(&status);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &result, 0), child);
    if (WIFEXITED(result) && WEXITSTATUS(result) == 2)
        printf("   left out: this kernel gives no user namespace\n");
    else
        ck_assert(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}
END_TEST

START_TEST(test_trust__process_with_another_effective_user_is_elevated)
{
    ck_assert(!kiln__trust_is_elevated());
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(seteuid(65534), 0);
    ck_assert(kiln__trust_is_elevated());
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert_int_eq(setegid(65534), 0);
    ck_assert(kiln__trust_is_elevated());
}
END_TEST

Suite *kiln_test_os_trust_suite(void)
{
    Suite *suite = suite_create("trust");
    TCase *tcase = tcase_create("trust");
    kiln_test_temp_use(tcase);
    tcase_add_loop_test(tcase, test_trust__refuses_what_others_could_have_written, 0, COUNT(trusts));
    tcase_add_loop_test(tcase, test_trust__group_trusts_the_members_of_the_process_s_groups, 0, COUNT(group_trusts));
    tcase_add_test(tcase, test_trust__a_link_is_the_user_s_or_root_s);
    tcase_add_test(tcase, test_trust__names_both_owners);
    tcase_add_loop_test(tcase, test_trust__unmapped_users_own_nothing, 0, COUNT(maps));
    tcase_add_test(tcase, test_trust__in_a_user_namespace_the_overflow_user_is_anybody);
    tcase_add_test(tcase, test_trust__process_with_another_effective_user_is_elevated);
    suite_add_tcase(suite, tcase);
    return suite;
}
