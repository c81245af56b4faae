/* How many times as fast distinct kernels compile on all processors as on one, through asynchronous gets with an
 * empty store.
 *
 *     bench_compile_rate [--backend cuda|cpu] [KEYS] [ROUNDS]     cuda, 256 keys, 3 rounds
 *
 * cuda: NVRTC for sm_90, over a driver that does nothing (tests/support/noop_libcuda.c), so that no GPU is needed;
 * against NVRTC alone on the same texts, by one thread for each processor and by one process for each, which is what
 * the machine and the compiler allow. The cubins of all must be equal byte for byte. cpu: the system's C compiler, a
 * process for each compile; against nothing.
 *
 * Each time is taken in a process of its own. Contenders alternate within a round, so that drift meets all alike. */
#include "base/digest.h"
#include "bench/noop_path.h"
#include "bench/same_nvrtc.h"
#include "os/cpu.h"
#include "support/requesting.h"
#include "support/temp.h"
#include "tune/statistics.h"
#include <kiln/kiln.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define TARGET "sm_90"

enum { CONTENDERS = 3, BARE_STACK = 64 << 20 };

/* What all contenders compile, and with what. */
typedef struct work {
    bool cuda;
    int keys;
    char **sources; /* of all keys; cuda only, as the next two */
    bare_nvrtc nvrtc;
    atomic_int *next; /* of the bare contenders, in memory that processes share */
    atomic_ullong *sum;
} work;

/* What one process found: how long it took, and the sum of all cubins' digests, which does not depend on their
 * order. */
typedef struct finding {
    double seconds;
    uint64_t sum;
} finding;

static void check(bool good, const char *what, const char *why)
{
    if (good)
        return;
    fprintf(stderr, "bench_compile_rate: %s: %s\n", what, why);
    exit(1);
}

static uint64_t digest(const void *data, size_t length)
{
    uint8_t all[KILN__DIGEST_SIZE];
    uint64_t out;
    kiln__digest(all, data, length);
    memcpy(&out, all, sizeof(out));
    return out;
}

/* ---- Kiln */

static char root[] = "/tmp/kiln-rate.XXXXXX";
static int done, failed;

static void on_kernel(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln_kernel *kernel = kiln_test_take_kernel(program);
    (void)data;
    done++;
    if (status != KILN_OK && failed++ == 0)
        fprintf(stderr, "%s\n", report->message);
    kiln_kernel_release(kernel);
}

static kiln_service *open_kiln(const work *self, const char *store)
{
    kiln_options options = KILN_INIT(kiln_options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *service;
    options.cache_dir = store;
    options.device = self->cuda ? "cuda:0" : "cpu";
    options.libcuda = noop_path();
    check(kiln_open(&service, &options, &report) == KILN_OK, "kiln_open", report.message);
    return service;
}

static kiln_spec *parse(kiln_service *service, int key)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec;
    char text[64];
    snprintf(text, sizeof(text), "op=hardtanh(-1,%d) dtype=f32", key + 2);
    check(kiln_spec_parse(&spec, service, text, &report) == KILN_OK, text, report.message);
    return spec;
}

/* Of what the service has compiled by now: nothing is compiled again. */
static uint64_t sum_of_cubins(kiln_service *service, int keys)
{
    kiln_report report = KILN_INIT(kiln_report);
    uint64_t sum = 0;
    for (int i = 0; i < keys; i++) {
        kiln_spec *spec = parse(service, i);
        kiln_program *program;
        const void *cubin;
        size_t length;
        check(kiln_test_build_spec(&program, service, spec, &report) == KILN_OK, "kiln_get", report.message);
        check(kiln_program_section(&cubin, &length, program, "cubin") == KILN_OK, "kiln_get", "no cubin");
        sum += digest(cubin, length);
        kiln_program_release(program);
        kiln_spec_free(spec);
    }
    return sum;
}

static finding compile_kiln(const work *self, unsigned processors)
{
    char store[80];
    finding out = { 0, 0 };
    kiln_report report = KILN_INIT(kiln_report);
    kiln_stats stats = KILN_INIT(kiln_stats);
    kiln_queue *queue;
    snprintf(store, sizeof(store), "%s/%u-%d", root, processors, (int)getpid());
    kiln_service *service = open_kiln(self, store);
    check(kiln_queue_open(&queue, service, &report) == KILN_OK, "kiln_queue_open", report.message);
    uint64_t begin = kiln__cpu_now_ns();
    for (int i = 0; i < self->keys; i++) {
        kiln_spec *spec = parse(service, i);
        check(kiln_test_submit(NULL, queue, spec, NULL, on_kernel, NULL) == KILN_OK, "kiln_submit", "refused");
        kiln_spec_free(spec);
    }
    while (kiln_queue_wait(queue, -1) > 0) {
    }
    out.seconds = (double)(kiln__cpu_now_ns() - begin) / 1e9;
    check(kiln_stats_get(service, &stats) == KILN_OK && stats.compiles == (uint64_t)self->keys, "kiln_submit",
          "not every key was compiled once");
    check(done == self->keys && failed == 0, "kiln_submit", "not every kernel came");
    if (self->cuda)
        out.sum = sum_of_cubins(service, self->keys);
    kiln_queue_close(queue, NULL, NULL);
    kiln_close(service);
    kiln_test_temp_remove(store);
    return out;
}

/* ---- NVRTC alone */

static void *compile_some(void *data)
{
    const work *self = data;
    for (int i; (i = atomic_fetch_add(self->next, 1)) < self->keys;) {
        bytes cubin;
        bare_compile(&self->nvrtc, self->sources[i], &cubin);
        atomic_fetch_add(self->sum, digest(cubin.data, cubin.length));
        free(cubin.data);
    }
    return NULL;
}

static finding compile_by_threads(const work *self, unsigned processors)
{
    pthread_t threads[processors];
    pthread_attr_t attributes;
    uint64_t begin = kiln__cpu_now_ns();
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, BARE_STACK);
    for (unsigned i = 0; i < processors; i++)
        check(pthread_create(&threads[i], &attributes, compile_some, (void *)self) == 0, "pthread_create", "failed");
    for (unsigned i = 0; i < processors; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&attributes);
    return (finding){ (double)(kiln__cpu_now_ns() - begin) / 1e9, atomic_load(self->sum) };
}

static finding compile_by_processes(const work *self, unsigned processors)
{
    int status = 0;
    uint64_t begin = kiln__cpu_now_ns();
    for (unsigned i = 0; i < processors; i++) {
        pid_t pid = fork();
        check(pid >= 0, "fork", "failed");
        if (pid == 0) {
            compile_some((void *)self);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < processors; i++)
        check(wait(&status) > 0 && status == 0, "NVRTC alone", "a process failed");
    return (finding){ (double)(kiln__cpu_now_ns() - begin) / 1e9, atomic_load(self->sum) };
}

/* ---- Rounds */

typedef struct contender {
    const char *name;
    finding (*run)(const work *self, unsigned processors);
    double *one, *all; /* seconds of each round */
} contender;

static void use_one_cpu(void)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    check(sched_getaffinity(0, sizeof(all), &all) == 0, "sched_getaffinity", "failed");
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    check(sched_setaffinity(0, sizeof(one), &one) == 0, "sched_setaffinity", "failed");
}

/* In a process of its own. */
static finding measure(const contender *one, const work *self, unsigned processors)
{
    int ends[2], status = -1;
    finding out;
    check(pipe(ends) == 0, "pipe", "failed");
    atomic_store(self->next, 0);
    atomic_store(self->sum, 0);
    fflush(stdout);
    pid_t pid = fork();
    check(pid >= 0, "fork", "failed");
    if (pid == 0) {
        if (processors == 1)
            use_one_cpu();
        out = one->run(self, processors);
        check(write(ends[1], &out, sizeof(out)) == sizeof(out), "write", "failed");
        _exit(0);
    }
    close(ends[1]);
    check(read(ends[0], &out, sizeof(out)) == sizeof(out), one->name, "the process failed");
    close(ends[0]);
    check(waitpid(pid, &status, 0) == pid && status == 0, one->name, "the process failed");
    return out;
}

static void play(contender *all, int count, const work *self, int rounds, unsigned processors)
{
    uint64_t expected = 0;
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < count; i++) {
            contender *one = &all[(round + i) % count];
            finding alone = measure(one, self, 1), together = measure(one, self, processors);
            one->one[round] = alone.seconds;
            one->all[round] = together.seconds;
            if (round == 0 && i == 0)
                expected = alone.sum;
            check(alone.sum == expected && together.sum == expected, one->name, "another cubin");
            printf("round %d: %-24s 1 processor %.2f s, %u processors %.2f s, ratio %.2f\n", round, one->name,
                   alone.seconds, processors, together.seconds, alone.seconds / together.seconds);
        }
}

static void print(contender *all, int count, int rounds, unsigned processors)
{
    printf("\nmedians of %d rounds; goal: at least 1.90 times on 2 processors, 12 on 16\n\n"
           "| | 1 processor, s | %u processors, s | times as fast |\n|---|---|---|---|\n",
           rounds, processors);
    for (int i = 0; i < count; i++) {
        double ratios[rounds];
        for (int round = 0; round < rounds; round++)
            ratios[round] = all[i].one[round] / all[i].all[round];
        double middle = kiln__median(ratios, (size_t)rounds); /* sorts them */
        printf("| %s | %.2f | %.2f | %.2f [%.2f, %.2f] |\n", all[i].name, kiln__median(all[i].one, (size_t)rounds),
               kiln__median(all[i].all, (size_t)rounds), middle, ratios[0], ratios[rounds - 1]);
    }
}

/* ---- The command */

static void remove_root(void)
{
    kiln_test_temp_remove(root);
}

static void prepare(work *self, char **option_text)
{
    kiln_report report = KILN_INIT(kiln_report);
    self->next = mmap(NULL, sizeof(*self->next) + sizeof(*self->sum) + 64, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(self->next != MAP_FAILED, "mmap", "failed");
    self->sum = (atomic_ullong *)((char *)self->next + 64);
    self->sources = calloc((size_t)self->keys, sizeof(*self->sources));
    check(self->sources != NULL, "sources", "out of memory");
    if (!self->cuda)
        return;
    kiln_service *service = open_kiln(self, root);
    for (int i = 0; i < self->keys; i++) {
        kiln_spec *spec = parse(service, i);
        check(kiln_spec_source(&self->sources[i], spec, &report) == KILN_OK, "kiln_spec_source", report.message);
        kiln_spec_free(spec);
    }
    kiln_close(service);
    same_open(&self->nvrtc, TARGET, option_text);
}

static void finish(work *self, char *option_text)
{
    for (int i = 0; i < self->keys; i++)
        kiln_text_free(self->sources[i]);
    free(self->sources);
    kiln_text_free(option_text);
}

int main(int argc, char **argv)
{
    static contender contenders[CONTENDERS] = {
        { "Kiln", compile_kiln, NULL, NULL },
        { "bare NVRTC, threads", compile_by_threads, NULL, NULL },
        { "bare NVRTC, processes", compile_by_processes, NULL, NULL },
    };
    work self = { .cuda = true, .keys = 256 };
    int numbers[2] = { 256, 3 }, given = 0;
    char *option_text = NULL;
    bool good = true;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--backend") == 0 && i + 1 < argc) {
            self.cuda = strcmp(argv[++i], "cuda") == 0;
            good = good && (self.cuda || strcmp(argv[i], "cpu") == 0);
        } else if (given < 2) {
            numbers[given] = atoi(argv[i]);
            good = good && numbers[given++] >= 1;
        } else {
            good = false;
        }
    }
    if (!good) {
        fprintf(stderr, "usage: bench_compile_rate [--backend cuda|cpu] [KEYS] [ROUNDS]\n");
        return 2;
    }
    self.keys = numbers[0];
    int rounds = numbers[1], count = self.cuda ? CONTENDERS : 1;
    unsigned processors = kiln__cpu_count();
    check(mkdtemp(root) != NULL && atexit(remove_root) == 0, root, "cannot be made");
    printf("%d keys, compiled by %s\n", self.keys, self.cuda ? "NVRTC for " TARGET : "the C compiler");
    prepare(&self, &option_text);
    for (int i = 0; i < count; i++) {
        contenders[i].one = calloc((size_t)rounds, sizeof(double));
        contenders[i].all = calloc((size_t)rounds, sizeof(double));
        check(contenders[i].one != NULL && contenders[i].all != NULL, "times", "out of memory");
    }
    play(contenders, count, &self, rounds, processors);
    print(contenders, count, rounds, processors);
    for (int i = 0; i < count; i++) {
        free(contenders[i].one);
        free(contenders[i].all);
    }
    finish(&self, option_text);
    return 0;
}
