/* A process that is refused files by their modes, as programs of ordinary users are. */
#ifndef KILN_TESTS_SUPPORT_RIGHTS_H
#define KILN_TESTS_SUPPORT_RIGHTS_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Gives up, in this process and in those that it will start, what lets root pass over the modes of files. For good.
 * False, with a line that says so, if that cannot be. */
static inline bool kiln_test_give_up_rights(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct sets[2];
    const unsigned rights = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
    if (geteuid() != 0)
        return true;
    bool given = prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) == 0 &&
                 prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH, 0, 0, 0) == 0 && syscall(SYS_capget, &header, sets) == 0;
    if (given) {
        sets[0].effective &= ~rights;
        sets[0].permitted &= ~rights;
        sets[0].inheritable &= ~rights;
        given = syscall(SYS_capset, &header, sets) == 0;
    }
    if (!given)
        printf("   left out: root cannot give up its rights here\n");
    return given;
}

#endif
