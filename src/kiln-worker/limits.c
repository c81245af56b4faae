#include "kiln-worker/limits.h"

#include "base/bytes.h"
#include "jit/worker/protocol.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#if !defined(__has_feature)
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || \
    __has_feature(thread_sanitizer)
enum { LIMIT_MEMORY = 0 };
#else
enum { LIMIT_MEMORY = 1 };
#endif

enum {
    STACK_SIZE = 64 << 20,
    GUARD_SIZE = 1 << 20, /* more than a page: a deep call may leave out a few */
    OTHER_STACK_SIZE = 64 << 10,
    KEPT_SIZE = 256 << 20,
    PAD_SIZE = 16 << 20,
    BLOATED_PART = 4
};

/* Signals by which a compiler dies of its source. */
static const int deadly[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGXCPU };
enum { DEADLY = sizeof(deadly) / sizeof(deadly[0]) };

/* Belongs to the process, as its signal handlers do. */
static struct {
    volatile sig_atomic_t compiling;
    kiln__text frame; /* CRASHED, made beforehand: a handler may not allocate */
    size_t at_signal, at_stack, at_memory;
    char *guard;
    int memory_fd; /* /proc/self/statm */
    size_t page;
} words = { .memory_fd = -1 };

/* ---- The last words */

/* Bytes of address space in use: what RLIMIT_AS bounds. */
static uint64_t used_memory(void)
{
    char text[32];
    uint64_t pages = 0;
    ssize_t length = pread(words.memory_fd, text, sizeof(text), 0);
    for (ssize_t i = 0; i < length && text[i] >= '0' && text[i] <= '9'; i++)
        pages = pages * 10 + (uint64_t)(text[i] - '0');
    return pages * words.page;
}

/* The handler is reset when it is called, so that the signal does its usual work once this returns. */
static void say(int number, siginfo_t *info, void *context)
{
    uint8_t *frame = (uint8_t *)words.frame.data;
    const char *at = info->si_addr;
    bool fault = number == SIGSEGV || number == SIGBUS;
    (void)context;
    if (words.compiling) {
        words.compiling = 0;
        kiln__write_u32(frame + words.at_signal, (uint32_t)number);
        kiln__write_u32(frame + words.at_stack, fault && at >= words.guard && at < words.guard + GUARD_SIZE);
        kiln__write_u64(frame + words.at_memory, LIMIT_MEMORY ? used_memory() : 0);
        send(KILN__WORKER_FD, frame, words.frame.length, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    raise(number);
}

static bool prepare_words(void)
{
    struct sigaction action = { .sa_sigaction = say, .sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND };
    kiln__text *frame = &words.frame;
    kiln__frame_begin(frame, KILN__WORKER_CRASHED);
    kiln__frame_put_u32(frame, KILN__WORKER_TAG_SIGNAL, 0);
    words.at_signal = frame->length - 4;
    kiln__frame_put_u32(frame, KILN__WORKER_TAG_IN_STACK, 0);
    words.at_stack = frame->length - 4;
    kiln__frame_put_u64(frame, KILN__WORKER_TAG_MEMORY, 0);
    words.at_memory = frame->length - 8;
    words.page = (size_t)sysconf(_SC_PAGESIZE);
    words.memory_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    sigfillset(&action.sa_mask);
    for (int i = 0; i < DEADLY; i++)
        if (sigaction(deadly[i], &action, NULL) != 0)
            return false;
    return !frame->failed;
}

/* ---- The limits */

static bool set_limit(int what, uint64_t value)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)what, &limit) != 0)
        return false;
    if (limit.rlim_max == RLIM_INFINITY || value < limit.rlim_max)
        limit.rlim_max = value;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &limit) == 0;
}

/* A compile takes and gives back tens of megabytes: they stay for the next one. A second arena, which the compiling
 * thread would get, gives memory back much more eagerly. */
static void keep_memory(void)
{
#if defined(__GLIBC__)
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TRIM_THRESHOLD, KEPT_SIZE);
    mallopt(M_TOP_PAD, PAD_SIZE);
#endif
}

bool kiln__limits_begin(uint64_t memory_bytes)
{
    keep_memory();
    return set_limit(RLIMIT_CORE, 0) && (!LIMIT_MEMORY || set_limit(RLIMIT_AS, memory_bytes)) && prepare_words();
}

typedef struct beginning {
    void *(*fn)(void *);
    void *data;
} beginning;

/* A stack that ran out cannot hold its own handler. */
static void *begin(void *data)
{
    static char other_stack[OTHER_STACK_SIZE];
    const stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof(other_stack) };
    const beginning *what = data;
    sigaltstack(&stack, NULL);
    return what->fn(what->data);
}

int kiln__limits_start(void *(*fn)(void *), void *data)
{
    static beginning what;
    pthread_attr_t attributes;
    pthread_t thread;
    char *stack = mmap(NULL, GUARD_SIZE + STACK_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, GUARD_SIZE, PROT_NONE) != 0)
        return ENOMEM;
    words.guard = stack;
    what = (beginning){ fn, data };
    int error = pthread_attr_init(&attributes);
    if (error == 0)
        error = pthread_attr_setstack(&attributes, stack + GUARD_SIZE, STACK_SIZE);
    if (error == 0)
        error = pthread_create(&thread, &attributes, begin, &what);
    pthread_attr_destroy(&attributes);
    return error;
}

void kiln__limits_compile(uint32_t cpu_s)
{
    struct rlimit limit;
    struct rusage used;
    if (getrlimit(RLIMIT_CPU, &limit) == 0 && getrusage(RUSAGE_SELF, &used) == 0) {
        rlim_t seconds = (rlim_t)used.ru_utime.tv_sec + (rlim_t)used.ru_stime.tv_sec + 2 + cpu_s;
        limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || seconds < limit.rlim_max ? seconds : limit.rlim_max;
        setrlimit(RLIMIT_CPU, &limit);
    }
    words.compiling = 1;
}

void kiln__limits_rest(void)
{
    words.compiling = 0;
}

bool kiln__limits_is_bloated(uint64_t memory_bytes)
{
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) == 0 && (uint64_t)used.ru_maxrss * 1024 > memory_bytes / BLOATED_PART;
}
