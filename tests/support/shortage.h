/* Processes that are short of descriptors or of processes, for tests that run in a process of their own. */
#ifndef KILN_TESTS_SUPPORT_SHORTAGE_H
#define KILN_TESTS_SUPPORT_SHORTAGE_H

#include "support/refuse.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SHORT_FILES = 256 };
static int taken_files[SHORT_FILES], taken_count;

/* Opens files until there are no more descriptors. */
static inline void take_descriptors(void)
{
    struct rlimit limit;
    int fd;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = SHORT_FILES;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    taken_count = 0;
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        taken_files[taken_count++] = fd;
    ck_assert_int_eq(errno, EMFILE);
}

static inline void give_descriptors(void)
{
    while (taken_count > 0)
        close(taken_files[--taken_count]);
}

/* From here on this process starts no other and no thread. The leak sanitizer needs one when the process ends. */
static inline void refuse_processes(void)
{
    struct sock_filter filter[] = { REFUSE_LOAD(nr), REFUSE(clone3, ENOSYS), REFUSE(clone, EAGAIN), REFUSE_END };
    refuse_calls(filter, sizeof(filter) / sizeof(filter[0]));
}

/* From here on this process starts others, which start none. */
static inline void refuse_grandchildren(void)
{
    struct sock_filter filter[] = { REFUSE_LOAD(nr),
                                    REFUSE(clone3, ENOSYS),
#ifdef SYS_vfork
                                    REFUSE(vfork, EAGAIN),
#endif
                                    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
                                    REFUSE_LOAD(args[0]),
                                    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_VM, 1, 0),
                                    REFUSE_WITH(EAGAIN),
                                    REFUSE_END };
    refuse_calls(filter, sizeof(filter) / sizeof(filter[0]));
}

#endif
