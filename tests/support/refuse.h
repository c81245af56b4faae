/* System calls that this process cannot make from now on, as on other machines and file systems: a filter of seccomp.
 *
 *     struct sock_filter filter[] = { REFUSE_LOAD(nr), REFUSE(linkat, EPERM), REFUSE_END };
 *     refuse_calls(filter, sizeof filter / sizeof *filter); */
#ifndef KILN_TESTS_SUPPORT_REFUSE_H
#define KILN_TESTS_SUPPORT_REFUSE_H

#include <check.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define REFUSE_LOAD(field)  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE_WITH(error)  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define REFUSE(call, error) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), REFUSE_WITH(error)
#define REFUSE_END          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static inline void refuse_calls(struct sock_filter *filter, size_t length)
{
    struct sock_fprog program = { (unsigned short)length, filter };
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0);
}

#endif
