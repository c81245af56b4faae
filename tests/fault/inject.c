#include "fault/inject.h"

#include "base/alloc.h"
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

enum { INTERRUPTIONS = 2, TRACE = 8192 };

static inject_plan plan;
static pthread_t armer;
static atomic_bool armed;
static atomic_uint_least64_t calls, hits;
static atomic_int interrupted;
static _Atomic(const char *) first;
static atomic_uchar trace[TRACE + 2]; /* which function the calls from number 1 on were, plus one */

static const char *const names[] = {
#define NAME(name, ...) [KILN__SYS_##name] = #name,
    KILN__SYS_CALLS(NAME) KILN__SYS_CLOSES(NAME)
#undef NAME
};

static bool is_under_root(int fd, const char *name)
{
    char link[40], path[PATH_MAX];
    const char *full = name;
    if (name[0] != '/' && fd >= 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        path[length < 0 ? 0 : length] = '\0';
        full = path;
    }
    size_t length = strlen(plan.root);
    return strncmp(full, plan.root, length) == 0 && (full[length] == '/' || full[length] == '\0');
}

static bool counts(int fd, const char *name)
{
    if (plan.where == INJECT_OWN)
        return pthread_equal(armer, pthread_self());
    return plan.where == INJECT_ANYWHERE || is_under_root(fd, name) == (plan.where == INJECT_INSIDE);
}

static bool is_hit(uint64_t number)
{
    return plan.at != 0 && (number == plan.at || (plan.on && number > plan.at));
}

static void hit(kiln__sys_call call)
{
    if (atomic_fetch_add(&hits, 1) == 0)
        atomic_store(&first, names[call]);
}

static int refuse(kiln__sys_call call)
{
    /* A signal that never stops coming would stop any program: two in a row, then the call is let through. */
    if (plan.error == EINTR && plan.on && atomic_fetch_add(&interrupted, 1) % (INTERRUPTIONS + 1) == INTERRUPTIONS)
        return 0;
    hit(call);
    return plan.error;
}

int kiln__sys_before(kiln__sys_call call, int fd, const char *name, size_t *length)
{
    int saved = errno;
    if (!atomic_load(&armed))
        return 0;
    if (plan.no_unnamed && call == KILN__SYS_openat && name[0] == '\0')
        return EOPNOTSUPP;
    bool counted = counts(fd, name);
    errno = saved;
    if (!counted)
        return 0;
    uint64_t number = atomic_fetch_add(&calls, 1) + 1;
    if (number <= TRACE)
        atomic_store(&trace[number], (unsigned char)(call + 1));
    if (!is_hit(number))
        return 0;
    if (plan.kill == INJECT_KILL_BEFORE)
        kill(getpid(), SIGKILL);
    if (plan.kill != INJECT_NO_KILL)
        return 0;
    if (plan.short_length && length && *length > 1) {
        *length = plan.on && *length > 7 ? 1 + (size_t)(number % 7) : 1;
        hit(call);
    }
    return plan.error != 0 ? refuse(call) : 0;
}

void kiln__sys_after(kiln__sys_call call)
{
    (void)call;
    if (atomic_load(&armed) && plan.kill == INJECT_KILL_AFTER && is_hit(atomic_load(&calls)))
        kill(getpid(), SIGKILL);
}

void inject_arm(const inject_plan *wanted)
{
    plan = *wanted;
    armer = pthread_self();
    atomic_store(&calls, 0);
    atomic_store(&hits, 0);
    atomic_store(&interrupted, 0);
    atomic_store(&first, "");
    atomic_store(&armed, true);
}

uint64_t inject_disarm(void)
{
    atomic_store(&armed, false);
    return atomic_load(&calls);
}

size_t inject_calls(uint16_t *out, size_t room, bool all)
{
    uint64_t made = atomic_load(&calls);
    size_t count = 0;
    for (uint64_t at = 1; at <= made && at <= TRACE && count < room; at++) {
        unsigned char call = trace[at];
        bool inside = at > 2 && at < made && trace[at - 2] == call && trace[at - 1] == call && trace[at + 1] == call;
        if (all || !inside)
            out[count++] = (uint16_t)at;
    }
    return count;
}

uint64_t inject_hits(void)
{
    return atomic_load(&hits);
}

const char *inject_first(void)
{
    return atomic_load(&first);
}

static atomic_uint_least64_t allocations;
static uint64_t memory_at;
static bool memory_on;

static int refuse_memory(void)
{
    uint64_t number = atomic_fetch_add(&allocations, 1) + 1;
    return memory_at != 0 && (number == memory_at || (memory_on && number > memory_at));
}

void inject_memory_arm(uint64_t at, bool on)
{
    memory_at = at;
    memory_on = on;
    atomic_store(&allocations, 0);
    kiln__alloc_set_hook(refuse_memory);
}

uint64_t inject_memory_disarm(void)
{
    kiln__alloc_set_hook(NULL);
    return atomic_load(&allocations);
}
