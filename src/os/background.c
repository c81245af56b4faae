#include "os/background.h"

#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NICE = 10 };
#define SLICE_NS 100000000u /* the longest there is */

/* The kernel's struct sched_attr, which C libraries have had only of late. */
typedef struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} scheduling;

/* A low priority alone decides who gets more of a processor, not who gets it first: whoever runs keeps it until its
 * slice is over, unless the one that wakes has asked for shorter slices. */
static void lengthen_slice(void)
{
    scheduling wanted = { .size = sizeof(wanted) };
    if (syscall(SYS_sched_getattr, 0, &wanted, sizeof(wanted), 0) != 0)
        return;
    wanted.runtime = SLICE_NS;
    syscall(SYS_sched_setattr, 0, &wanted, 0);
}

void kiln__background_enter(void)
{
    id_t self = (id_t)gettid();
    if (getpriority(PRIO_PROCESS, self) < NICE)
        setpriority(PRIO_PROCESS, self, NICE);
    lengthen_slice();
}
