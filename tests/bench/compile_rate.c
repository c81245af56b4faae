/* How much faster distinct kernels compile on all processors than on one, through asynchronous gets with an empty store.
 *
 *     bench_compile_rate [KEYS] [ROUNDS]     256 keys, 3 rounds
 *
 * With KILN_COUNTING_CC and KILN_COUNTING_OBJECT set the stand-in compiler spins for 20 ms of processor time
 * (KILN_COUNTING_SPIN_MS) in place of each compile; without them the system's C compiler works. Rounds alternate, so that drift meets both alike. */
#include "os/cpu.h"
#include <ftw.h>
#include <kiln/kiln.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[] = "/tmp/kiln-rate.XXXXXX";
static int done, failed;

static void on_kernel(void *data, kiln_status status, kiln_kernel *kernel, const kiln_report *report)
{
    (void)data;
    done++;
    if (status != KILN_OK && failed++ == 0)
        fprintf(stderr, "%s\n", report->message);
    kiln_release(kernel);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static void check(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "compile_rate: %s failed\n", what);
        exit(1);
    }
}

static void use_one_cpu(void)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    check(sched_getaffinity(0, sizeof(all), &all) == 0, "sched_getaffinity");
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    check(sched_setaffinity(0, sizeof(one), &one) == 0, "sched_setaffinity");
}

/* In a process of its own, for the number of processors is looked at once: seconds to compile all keys. */
static double time_keys(int keys, int one_cpu, int round)
{
    int fds[2];
    double seconds = 0;
    check(pipe(fds) == 0, "pipe");
    pid_t pid = fork();
    if (pid == 0) {
        char store[80];
        kiln_service *service;
        kiln_queue *queue;
        kiln_options options = KILN_OPTIONS_INIT;
        if (one_cpu)
            use_one_cpu();
        snprintf(store, sizeof(store), "%s/%d-%d", root, one_cpu, round);
        options.cache_dir = store;
        options.device = "cpu";
        options.cc = getenv("KILN_COUNTING_CC");
        check(kiln_open(&service, &options, NULL) == KILN_OK, "kiln_open");
        check(kiln_queue_open(&queue, service, NULL) == KILN_OK, "kiln_queue_open");
        uint64_t begin = kiln__cpu_now_ns();
        for (int i = 0; i < keys; i++) {
            char text[64];
            kiln_spec *spec;
            snprintf(text, sizeof(text), "op=hardtanh(-1,%d) dtype=f32 target=cpu", i + 2);
            check(kiln_spec_parse(&spec, service, text, NULL) == KILN_OK, text);
            check(kiln_get_async(NULL, queue, spec, NULL, on_kernel, NULL) == KILN_OK, text);
            kiln_spec_free(spec);
        }
        while (kiln_queue_wait(queue, -1) > 0) {
        }
        seconds = (double)(kiln__cpu_now_ns() - begin) / 1e9;
        kiln_queue_close(queue, NULL, NULL);
        kiln_close(service);
        check(done == keys && failed == 0 && write(fds[1], &seconds, sizeof(seconds)) == sizeof(seconds), "compiling");
        _exit(0);
    }
    close(fds[1]);
    check(read(fds[0], &seconds, sizeof(seconds)) == sizeof(seconds), "a run");
    close(fds[0]);
    waitpid(pid, NULL, 0);
    return seconds;
}

int main(int argc, char **argv)
{
    int keys = argc > 1 ? atoi(argv[1]) : 256, rounds = argc > 2 ? atoi(argv[2]) : 3;
    if (keys < 1 || rounds < 1 || argc > 3) {
        fprintf(stderr, "usage: bench_compile_rate [KEYS] [ROUNDS]\n");
        return 2;
    }
    check(mkdtemp(root) != NULL, "mkdtemp");
    setenv("KILN_COUNTING_SPIN_MS", "20", 0);
    unsigned cpus = kiln__cpu_count();
    double best = 0;
    printf("%d keys; compiler %s; goal: at least 1.90 on 2 processors\n", keys,
           getenv("KILN_COUNTING_CC") != NULL ? "stand-in" : "cc");
    for (int round = 0; round < rounds; round++) {
        double one = time_keys(keys, 1, round), all = time_keys(keys, 0, round);
        best = one / all > best ? one / all : best;
        printf("round %d: 1 processor %.2f s (%.1f a second), %u processors %.2f s (%.1f a second), ratio %.2f\n",
               round, one, keys / one, cpus, all, keys / all, one / all);
        fflush(stdout);
    }
    printf("best ratio %.2f\n", best);
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return 0;
}
