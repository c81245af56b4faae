/* A process ends by exit() at a random moment while its threads compile with NVRTC: it must end with the status that
 * it chose.
 *
 *     fault_exits [ROUNDS [SEED]]     each way of ending is played ROUNDS times, 4 by default
 *
 * A round begins once NVRTC has been opened: what its constructors have made so far would be destroyed beside them. */
#include "os/cpu.h"
#include "support/requesting.h"
#include <dlfcn.h>
#include <kiln/kiln.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, CHOSEN = 41, AFTER_US = 300000, ROUND_MS = 60000, SKIPPED = 77 };

typedef enum way {
    NEVER_CLOSED,
    CLOSED_AFTER,
    CLOSED_BEFORE,
    IN_CALLBACK,
    IN_CHILD,
    QUICKLY,
    ON_CPU,
    UNLOADED,
    WAYS
} way;
static const char *const names[WAYS] = { "the service is never closed",
                                         "closed in a handler older than NVRTC",
                                         "closed in a handler younger than NVRTC",
                                         "exit in a log callback",
                                         "exit in a forked child",
                                         "quick_exit",
                                         "C compilers in progress",
                                         "after the library was unloaded" };

static kiln_service *service;
static kiln_queue *queue;
static atomic_uint opened, lines, keys, done;
static unsigned exit_line;

static void fail(const char *what) __attribute__((noreturn));
static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    _exit(3);
}

static void log_line(void *data, kiln_log_level level, const char *message)
{
    (void)data;
    (void)level;
    if (strncmp(message, "NVRTC ", 6) == 0 || strncmp(message, "C compiler", 10) == 0)
        atomic_store(&opened, 1);
    if (atomic_fetch_add(&lines, 1) + 1 == exit_line)
        exit(CHOSEN);
}

static void close_service(void)
{
    kiln_close(service);
}

/* One more kernel that nobody has had. */
static kiln_spec *next_spec(const char *target)
{
    char text[80];
    kiln_spec *spec;
    snprintf(text, sizeof(text), "op=hardtanh(-1,%u) dtype=f32 target=%s", atomic_fetch_add(&keys, 1) + 2, target);
    if (kiln_spec_parse(&spec, service, text, NULL) != KILN_OK)
        fail("a spec does not parse");
    return spec;
}

/* Builds until the process ends, when a refusal is right. */
static void *build(void *target)
{
    for (;;) {
        kiln_report report = KILN_INIT(kiln_report);
        kiln_program *program;
        kiln_spec *spec = next_spec(target);
        kiln_status status = kiln_test_build_spec(&program, service, spec, &report);
        kiln_spec_free(spec);
        kiln_program_release(program);
        if (status == KILN_OK)
            atomic_fetch_add(&done, 1);
        else if (status == KILN_ECANCELED && strstr(report.message, "the process is ending") != NULL)
            usleep(1000);
        else
            fail(report.message);
    }
    return NULL;
}

static void on_kernel(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln_kernel *kernel = kiln_test_take_kernel(program);
    (void)data;
    (void)status;
    (void)report;
    kiln_kernel_release(kernel);
}

static void start_threads(const char *target)
{
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, build, (void *)target) != 0)
            fail("no thread");
    }
}

/* The pool's threads compile these, and go on doing so while an exit handler closes the service. */
static void start_async(void)
{
    if (kiln_queue_open(&queue, service, NULL) != KILN_OK)
        fail("no queue");
    for (int i = 0; i < 64; i++) {
        kiln_ticket request;
        kiln_spec *spec = next_spec("sm_90");
        if (kiln_test_submit(&request, queue, spec, NULL, on_kernel, NULL) != KILN_OK)
            fail("no request");
        kiln_spec_free(spec);
    }
}

static void open_service(way how)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_options options = KILN_INIT(kiln_options);
    options.cache_dir = "";
    options.libcuda = getenv("KILN_FAKE_LIBCUDA");
    options.device = how == ON_CPU ? "cpu" : "cuda:0";
    options.isolate = KILN_ISOLATE_NEVER;
    if (how == IN_CHILD) { /* NVRTC's own destructors wait for locks that its parent's threads held */
        options.nvrtc = getenv("KILN_STAND_IN_NVRTC");
        setenv("KILN_STAND_IN_MS", "50", 1);
    }
    options.log = log_line;
    options.log_level = KILN_LOG_DEBUG;
    if (kiln_open(&service, &options, &report) != KILN_OK)
        fail(report.message);
}

static void wait_opened(void)
{
    for (int i = 0; atomic_load(&opened) == 0; i++) {
        usleep(100);
        if (i > 300000)
            fail("no compiler was opened");
    }
}

/* A child of a process that compiles has none of its threads, and must not wait for them. */
static void exit_in_child(void)
{
    pid_t pid = fork();
    int status = 0;
    if (pid == 0)
        exit(CHOSEN);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        fail("no child");
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* The same by way of the shared library, which is gone when the process ends. */
static void use_and_unload(void)
{
    const char *path = getenv("KILN_SHARED");
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL)
        fail("KILN_SHARED must name libkiln.so");
    void *symbol;
#define FROM_LIBRARY(name)          \
    __typeof__(&name) of_##name;    \
    symbol = dlsym(library, #name); \
    memcpy(&of_##name, &symbol, sizeof(symbol))
    FROM_LIBRARY(kiln_open);
    FROM_LIBRARY(kiln_spec_parse);
    FROM_LIBRARY(kiln_get);
    FROM_LIBRARY(kiln_program_release);
    FROM_LIBRARY(kiln_spec_free);
    FROM_LIBRARY(kiln_close);
#undef FROM_LIBRARY
    kiln_report report = KILN_INIT(kiln_report);
    kiln_options options = KILN_INIT(kiln_options);
    kiln_program *program;
    kiln_spec *spec;
    kiln_request request = KILN_INIT(kiln_request);
    request.goal = KILN_BUILD;
    options.cache_dir = "";
    options.device = "cpu";
    options.isolate = KILN_ISOLATE_NEVER;
    if (of_kiln_open(&service, &options, &report) != KILN_OK ||
        of_kiln_spec_parse(&spec, service, "op=relu6 dtype=f32 target=sm_90", &report) != KILN_OK ||
        (request.spec = spec, of_kiln_get(&program, service, &request, &report)) != KILN_OK)
        fail(report.message);
    of_kiln_program_release(program);
    of_kiln_spec_free(spec);
    of_kiln_close(service);
    if (dlclose(library) != 0 || dlopen(path, RTLD_NOW | RTLD_NOLOAD) != NULL)
        fail("the library stays");
}

/* One process, from its start to its end. */
static void play(way how, unsigned seed)
{
    srand(seed);
    if (how == UNLOADED) {
        use_and_unload();
        exit(CHOSEN);
    }
    open_service(how);
    if (how == CLOSED_AFTER && atexit(close_service) != 0)
        fail("atexit");
    if (how == IN_CALLBACK)
        exit_line = 1 + (unsigned)rand() % 40;
    if (how == CLOSED_AFTER || how == CLOSED_BEFORE)
        start_async();
    else
        start_threads(how == ON_CPU ? "cpu" : "sm_90");
    wait_opened();
    if (how == CLOSED_BEFORE && (usleep(200000), atexit(close_service) != 0))
        fail("atexit");
    usleep((unsigned)rand() % AFTER_US);
    while (how == IN_CALLBACK && atomic_load(&lines) < exit_line)
        usleep(1000);
    if (how == IN_CALLBACK)
        pause();
    if (how == IN_CHILD)
        exit_in_child();
    if (how == QUICKLY)
        quick_exit(CHOSEN);
    exit(CHOSEN);
}

/* The wait status of a process that ends as `how` says; that of a kill if it does not end. */
static int run_round(way how, unsigned seed)
{
    int status = 0;
    uint64_t deadline = kiln__cpu_now_ns() + (uint64_t)ROUND_MS * 1000000;
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0)
        play(how, seed);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (kiln__cpu_now_ns() > deadline)
            kill(pid, SIGKILL);
        usleep(1000);
    }
    return status;
}

static bool have_nvrtc(void)
{
    const char *path = getenv("KILN_NVRTC");
    pid_t pid = fork(); /* so that this process does not map it */
    if (pid == 0)
        _exit(dlopen(path != NULL ? path : "libnvrtc.so.13", RTLD_NOW) != NULL ? 0 : 1);
    int status = 1;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 4, failures = 0;
    unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    if (rounds < 1 || argc > 3 || getenv("KILN_FAKE_LIBCUDA") == NULL || getenv("KILN_STAND_IN_NVRTC") == NULL) {
        fprintf(stderr, "usage: fault_exits [ROUNDS [SEED]], with the environment that ctest sets\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IONBF, 0); /* else each process prints what its parent has not yet */
    if (!have_nvrtc()) {
        printf("left out: there is no NVRTC\n");
        return SKIPPED;
    }
    for (way how = 0; how < WAYS; how++) {
        int bad = 0;
        for (int i = 0; i < rounds; i++) {
            int status = run_round(how, seed++);
            if (WIFEXITED(status) && WEXITSTATUS(status) == CHOSEN)
                continue;
            printf("seed %u: %s %d\n", seed - 1, WIFSIGNALED(status) ? "signal" : "status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            bad++;
        }
        printf("%-42s %d rounds, failures %d\n", names[how], rounds, bad);
        fflush(stdout);
        failures += bad;
    }
    puts(failures == 0 ? "good" : "BAD");
    return failures == 0 ? 0 : 1;
}
