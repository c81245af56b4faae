/* kiln-worker: compiles sources for a service of libkiln, in a process that a hostile source may harm. The library
 * starts it with a socket as its standard input. It sets its limits, opens NVRTC, closes itself off from all files
 * but those of a set of directories, and answers requests (jit/worker/protocol.h). */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/number.h"
#include "gpu/cuda.h"
#include "jit/worker/protocol.h"
#include "kiln-worker/recorder.h"
#include "kiln-worker/sandbox.h"
#include "os/cpu.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define IDLE_NS ((uint64_t)60 * 1000000000)

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
    BLOATED_PART = 4 /* of the memory that it may use */
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

/* For the whole process, before it has a second thread: `memory_bytes` of address space (not in a build with
 * sanitizers, which reserve terabytes), no core dumps, a heap that keeps what it once had. Opens what the last words
 * need. False if the system refuses. */
static bool set_limits(uint64_t memory_bytes)
{
    keep_memory();
    return set_limit(RLIMIT_CORE, 0) && (!LIMIT_MEMORY || set_limit(RLIMIT_AS, memory_bytes)) && prepare_words();
}

/* Allows a compile `cpu_s` more seconds of processor time, and lets last words be sent until words.compiling is 0. */
static void begin_compile(uint32_t cpu_s)
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

/* True if the process has at some time used a good part of `memory_bytes`: a fresh one should take the next request. */
static bool is_bloated(uint64_t memory_bytes)
{
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) == 0 && (uint64_t)used.ru_maxrss * 1024 > memory_bytes / BLOATED_PART;
}

/* ---- Answers */

static struct {
    uint64_t memory_bytes;
    uint32_t cpu_s;
    kiln__compiler *compiler; /* once it is open */
} server;

_Noreturn static void leave(void)
{
    _exit(0);
}

/* Sends and uses up an answer. Without memory for one there is nothing to say. */
static void answer(kiln__text *frame)
{
    if (kiln__channel_send(KILN__WORKER_FD, frame, KILN__CHANNEL_FOREVER) != KILN__CHANNEL_DONE)
        leave();
    kiln__text_fini(frame);
}

static void answer_failure(kiln_status status, kiln_report *report)
{
    kiln__text frame = { 0 };
    kiln__frame_begin(&frame, KILN__WORKER_FAILED);
    kiln__worker_put_failure(&frame, status, report);
    answer(&frame);
    kiln_report_clear(report);
}

static void answer_toolchain(kiln_status status, const kiln__toolchain *toolchain, kiln_report *report)
{
    kiln__text frame = { 0 };
    if (status != KILN_OK) {
        answer_failure(status, report);
        return;
    }
    kiln__frame_begin(&frame, KILN__WORKER_TOOLCHAIN);
    kiln__worker_put_toolchain(&frame, toolchain);
    answer(&frame);
}

/* Once NVRTC and its builtins are in, no source needs a file but the headers in the places that it may read. Nor
 * may a source learn, or leave in its code, where the host was started. */
static kiln_status close_off(const kiln__frame *request, kiln_report *report)
{
    char reason[256] = "";
    kiln__list places = { 0 };
    bool closed = kiln__worker_get_list(request, KILN__WORKER_TAG_PLACES, &places) && places.count % 2 == 0 &&
                  chdir("/") == 0 && kiln__sandbox_enter_places(&places, reason, sizeof(reason));
    kiln__list_fini(&places);
    if (closed)
        return KILN_OK;
    return kiln__fail(report, KILN_ENOWORKER, KILN__STAGE_OPEN, 0,
                      "the compile worker cannot keep sources from reading files: %s", reason);
}

static kiln_status load_linker(const kiln__frame *request, kiln_report *report)
{
    kiln__list files = { 0 };
    kiln_status status = KILN_OK;
    if (!kiln__worker_get_list(request, KILN__WORKER_TAG_LINKER, &files))
        status = kiln__fail_memory(report, KILN__STAGE_OPEN);
    else if (files.count > 0)
        status = kiln__cuda_compiler_load_linker(server.compiler, &files, report);
    kiln__list_fini(&files);
    return status;
}

static kiln_status open_compiler(const kiln__frame *request, kiln__toolchain *out, kiln_report *report)
{
    const char *version = kiln__frame_get_text(request, KILN__WORKER_TAG_VERSION);
    if (version == NULL || strcmp(version, kiln_version()) != 0)
        return kiln__fail(report, KILN_ENOWORKER, KILN__STAGE_OPEN, 0,
                          "the compile worker is of Kiln %s and the library of Kiln %s: install the two together",
                          kiln_version(), version != NULL ? version : "unknown");
    server.compiler = kiln__cuda_compiler_open(kiln__frame_get_text(request, KILN__WORKER_TAG_NVRTC), NULL);
    if (server.compiler == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    kiln_status status = server.compiler->vtable->open(server.compiler, out, report);
    return status == KILN_OK ? load_linker(request, report) : status;
}

static void receive(kiln__message *request)
{
    if (kiln__channel_receive(KILN__WORKER_FD, KILN__WORKER_LIMIT, kiln__cpu_now_ns() + IDLE_NS, request) !=
        KILN__CHANNEL_DONE)
        leave();
}

/* Answers the first request: opens NVRTC and then closes the process off from all files. Before the process has a
 * second thread, which the sandbox would not hold. Ends the process if anything is wrong. */
static void serve_open(void)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__toolchain toolchain;
    kiln__message request;
    memset(&toolchain, 0, sizeof(toolchain));
    receive(&request);
    if (request.frame.type != KILN__WORKER_OPEN)
        leave();
    kiln_status status = open_compiler(&request.frame, &toolchain, &report);
    if (status == KILN_OK)
        status = close_off(&request.frame, &report);
    answer_toolchain(status, &toolchain, &report);
    kiln__message_fini(&request);
    if (status != KILN_OK)
        leave();
}

static void identify(void)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__toolchain toolchain;
    kiln_status status = server.compiler->vtable->identify(server.compiler, &toolchain, &report);
    answer_toolchain(status, &toolchain, &report);
}

/* After a compile of a source: adds what it has read. A header that could not be read, or that changed meanwhile, makes
 * any result worthless, and an error too: the compiler has seen something else in its place. */
static kiln_status conclude_source(kiln_status status, kiln__image *out, kiln_report *report)
{
    kiln__text reads = { 0 };
    int error;
    const char *unread = kiln__recorder_unread(&error);
    bool settled = unread == NULL && kiln__recorder_write(&reads);
    if (unread != NULL) {
        const char *advice = error == EACCES || error == EPERM ? "let this user read it"
                             : error == ENOENT ? "mount /proc, by which a worker finds out where a file lies"
                                               : "try again";
        kiln_report_clear(report);
        status = kiln__fail(report, KILN_EIO, KILN__STAGE_COMPILE, error, "the header %s cannot be read: %s: %s",
                            unread, strerrordesc_np(error), advice);
    } else if (status == KILN_ECOMPILE && !settled) {
        kiln_report_clear(report);
        status = kiln__fail(report, KILN_EIO, KILN__STAGE_COMPILE, 0,
                            "headers change while they are read: try again when they are written");
    } else if (status == KILN_OK) {
        out->unsettled = !settled;
        out->reads = kiln__strdup(kiln__text_string(&reads));
        if (out->reads == NULL)
            status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
    }
    kiln__text_fini(&reads);
    if (status != KILN_OK)
        kiln__image_fini(out);
    return status;
}

static kiln_status compile_unit(const kiln__unit *unit, kiln__image *out, kiln_report *report)
{
    kiln__recorder_begin();
    begin_compile(server.cpu_s);
    kiln_status status = server.compiler->vtable->compile(server.compiler, unit, out, report);
    words.compiling = 0;
    bool concluded = kiln__unit_is_source(unit) && (status == KILN_OK || status == KILN_ECOMPILE);
    return concluded ? conclude_source(status, out, report) : status;
}

static void compile(const kiln__frame *request)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__toolchain toolchain;
    kiln__image image;
    kiln__unit unit;
    kiln__text frame = { 0 };
    if (!kiln__worker_get_unit(request, &unit))
        leave();
    kiln__frame_begin(&frame, KILN__WORKER_BEGUN);
    answer(&frame);
    kiln_status status = compile_unit(&unit, &image, &report);
    kiln__unit_fini_source(&unit);
    if (status == KILN_OK)
        status = server.compiler->vtable->open(server.compiler, &toolchain, &report);
    if (status != KILN_OK) {
        answer_failure(status, &report);
        return;
    }
    kiln__frame_begin(&frame, KILN__WORKER_IMAGE);
    kiln__worker_put_image(&frame, &image, &toolchain);
    if (frame.failed)
        answer_failure(kiln__fail_memory(&report, KILN__STAGE_COMPILE), &report);
    else
        answer(&frame);
    kiln__image_fini(&image);
}

/* Answers all other requests until the host hangs up, breaks the protocol or asks nothing for a minute, or until much
 * memory has been used; then ends the process without running the exit handlers of libraries. One thread. A
 * stack that ran out cannot hold its handler, which has another. */
static void *serve(void *unused)
{
    static char other_stack[OTHER_STACK_SIZE];
    const stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof(other_stack) };
    (void)unused;
    sigaltstack(&stack, NULL);
    do {
        kiln__message request;
        receive(&request);
        if (request.frame.type == KILN__WORKER_IDENTIFY)
            identify();
        else if (request.frame.type == KILN__WORKER_COMPILE)
            compile(&request.frame);
        else
            leave();
        kiln__message_fini(&request);
    } while (!is_bloated(server.memory_bytes));
    leave();
}

/* Serves on a new thread with a stack of 64 MiB: compilers recurse as deeply as their sources nest. The stack of the
 * main thread would grow as far, but to measure it the C library must read /proc, which a worker gives up. The thread
 * says so when it dies by a signal while it compiles. 0 or an errno. */
static int start_serving(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    char *stack = mmap(NULL, GUARD_SIZE + STACK_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, GUARD_SIZE, PROT_NONE) != 0)
        return ENOMEM;
    words.guard = stack;
    int error = pthread_attr_init(&attributes);
    if (error == 0)
        error = pthread_attr_setstack(&attributes, stack + GUARD_SIZE, STACK_SIZE);
    if (error == 0)
        error = pthread_create(&thread, &attributes, serve, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* ---- The program */

static int fail(const char *message)
{
    fprintf(stderr, "kiln-worker: %s\n", message);
    return 2;
}

static bool parse_arguments(int argc, char **argv)
{
    uint64_t memory = 0, cpu = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *value = strcmp(argv[i], "--memory") == 0 ? &memory : strcmp(argv[i], "--cpu") == 0 ? &cpu : NULL;
        if (value == NULL || !kiln__number_parse_uint(argv[i + 1], strlen(argv[i + 1]), value))
            return false;
    }
    server.memory_bytes = memory;
    server.cpu_s = (uint32_t)cpu;
    return argc % 2 == 1 && memory > 0 && cpu > 0 && cpu <= UINT32_MAX;
}

/* Ends with the host, also in the middle of a compile, which nothing else could end. */
static void watch_host(void)
{
    struct pollfd host = { KILN__WORKER_FD, POLLRDHUP, 0 };
    while (host.revents == 0)
        poll(&host, 1, -1);
    _exit(0);
}

int main(int argc, char **argv)
{
    struct stat input;
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("kiln-worker %s\n", kiln_version());
        return 0;
    }
    if (!parse_arguments(argc, argv))
        return fail("usage: kiln-worker --memory BYTES --cpu SECONDS, or --version");
    if (fstat(KILN__WORKER_FD, &input) != 0 || !S_ISSOCK(input.st_mode))
        return fail("standard input is no socket: libkiln starts this program when it needs it");
    if (!set_limits(server.memory_bytes))
        return fail("cannot set its limits");
    serve_open();
    if (start_serving() != 0)
        return fail("cannot start its thread");
    watch_host();
    return 0;
}
