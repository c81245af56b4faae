#include "gpu/nvrtc_call.h"

#include "base/fpenv.h"
#include "os/fork.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    STACK_NEEDED = 1024 * 1024, /* NVRTC needs more than 64 KiB for an ordinary kernel, and a deep one much more */
    STACK_OWN = 8 * 1024 * 1024,
    DRAIN_POLL_US = 500
};

/* ---- Exit: NVRTC's static objects are destroyed by exit(), while other threads may be using them. They are NVRTC's,
 * and so the process's, hence what follows belongs to no service. */

static atomic_bool ending;
static atomic_uint_least64_t calls; /* in progress, of all threads; above their number, the generation of the process */
static _Thread_local unsigned nested; /* of these, the thread's own: a log callback may call exit() */
static _Atomic(void *) drained;       /* a function of the NVRTC for which `drain` was registered last */

/* With none in progress. */
static uint64_t no_calls(void)
{
    return (uint64_t)kiln__fork_generation() << 32;
}

/* A forked child begins anew: it has none of the threads whose calls were in progress. */
static void begin_call(void)
{
    uint64_t before = atomic_load(&calls), none = no_calls();
    while (!atomic_compare_exchange_weak(&calls, &before, (before < none ? none : before) + 1)) {
    }
    nested++;
}

static void end_call(void)
{
    nested--;
    atomic_fetch_sub(&calls, 1);
}

/* No lock, because a forked child may get here as well. */
static void drain(void)
{
    atomic_store(&ending, true);
    while (atomic_load(&calls) > no_calls() + nested)
        usleep(DRAIN_POLL_US);
}

/* Handlers run in the reverse order. The first, which is older than what NVRTC's constructors register, is for an
 * exit that begins before them; the second runs before what they have registered. */
kiln_status kiln__nvrtc_drain_at_exit(const kiln__nvrtc *nvrtc, kiln_report *report)
{
    static char before;
    void *which = nvrtc != NULL ? *(void **)&nvrtc->nvrtcVersion : &before;
    void *last = atomic_load(&drained);
    if (last == which || (nvrtc == NULL && last != NULL))
        return KILN_OK;
    if (atexit(drain) != 0)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    atomic_store(&drained, which);
    return KILN_OK;
}

/* ---- Stack */

typedef struct call {
    kiln_status (*fn)(void *data, kiln_report *report);
    void *data;
    kiln_report *report;
    kiln_status status;
} call;

static void *run_call(void *data)
{
    call *self = data;
    kiln__fpenv host;
    begin_call();             /* before the look at `ending`, which drain() sets before it looks at the calls */
    kiln__fpenv_enter(&host); /* NVRTC calculates constants */
    if (!atomic_load(&ending))
        self->status = self->fn(self->data, self->report);
    else
        self->status = kiln__fail(self->report, KILN_ECANCELED, KILN__STAGE_COMPILE, 0,
                                  "the process is ending: nothing is compiled any more");
    kiln__fpenv_leave(&host);
    end_call();
    return NULL;
}

/* Of the main thread's stack, on whose bottom the kernel puts the random bytes of a new process. */
static size_t main_stack_left(const char *here)
{
    struct rlimit limit;
    const char *bottom = (const char *)getauxval(AT_RANDOM);
    if (gettid() != getpid() || here >= bottom || getrlimit(RLIMIT_STACK, &limit) != 0)
        return 0;
    size_t used = (size_t)(bottom - here);
    return limit.rlim_cur > used ? (size_t)limit.rlim_cur - used : 0;
}

/* Bytes of stack that the calling thread has left, 0 where the system does not tell. Of the main thread the C library
 * learns it from /proc/self/maps, which a process may not be allowed to open. */
static size_t stack_left(void)
{
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t size = 0;
    const char *here = __builtin_frame_address(0);
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return main_stack_left(here);
    int error = pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    return error == 0 && here > (const char *)lowest ? (size_t)(here - (const char *)lowest) : 0;
}

/* Signals stay blocked there: one that is meant for a thread of the host must not land on ours. */
static int run_on_own_thread(call *self)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    pthread_attr_setstacksize(&attributes, STACK_OWN);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, run_call, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error != 0 ? error : pthread_join(thread, NULL);
}

kiln_status kiln__nvrtc_call(kiln_status (*fn)(void *data, kiln_report *report), void *data, kiln_report *report)
{
    call self = { .fn = fn, .data = data, .report = report, .status = KILN_OK };
    if (nested > 0 || stack_left() >= STACK_NEEDED)
        run_call(&self);
    else if (run_on_own_thread(&self) != 0)
        return kiln__fail(report, KILN_ENOMEM, KILN__STAGE_COMPILE, 0,
                          "cannot start a thread to compile on, and the calling one has less than 1 MiB of stack left");
    return self.status;
}
