/* bench_apply [--libcuda PATH] [--rounds N] [--calls N]: what a hit of kiln_apply costs the calling thread, beside
 * kiln_call and kiln_launch_n.
 *
 * By default over a driver that does nothing (tests/support/noop_libcuda.c), so that the times are Kiln's own. In each
 * round every contender makes --calls calls in a row, in an order that rotates. Printed are the median time of a call
 * and the 10th and 90th percentile of the rounds, and of a last pass the calls of malloc and of pthread_mutex_lock. The
 * kernels come from the store that KILN_CACHE_DIR names, where there is no NVRTC. */
#include "bench/noop_path.h"
#include "os/cpu.h"
#include "tune/statistics.h"
#include <kiln/kiln.h>
#include <pthread.h>
#include <stdbool.h>

enum { WARMUP = 3, ROUNDS = 201, CALLS = 500, ROWS = 64, COLS = 32 };

/* The linker sends these calls of the program here first (--wrap), Kiln's among them. */
static uint64_t heap_calls, locks;

#define WRAPPED(result, name, parameters) \
    result __real_##name parameters;      \
    result __wrap_##name parameters;      \
    result __wrap_##name parameters
WRAPPED(void *, malloc, (size_t size))
{
    heap_calls++;
    return __real_malloc(size);
}
WRAPPED(void *, calloc, (size_t count, size_t size))
{
    heap_calls++;
    return __real_calloc(count, size);
}
WRAPPED(void *, realloc, (void *memory, size_t size))
{
    heap_calls++;
    return __real_realloc(memory, size);
}
WRAPPED(int, pthread_mutex_lock, (pthread_mutex_t * mutex))
{
    locks++;
    return __real_pthread_mutex_lock(mutex);
}

static kiln_service *service;
static kiln_kernel *kernel;
static kiln_report report = KILN_INIT(kiln_report);
static int rounds = ROUNDS, calls = CALLS;
static void *const data[] = { (void *)0x1000000, (void *)0x2000000, (void *)0x3000000 };
static void *const stream = (void *)0x4000000;

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench_apply: %s: %s\n", what, report.message);
    exit(1);
}

/* Two matrices, and how the second lies. */
static kiln_status apply_two(uint32_t ndim, const int64_t *shape, const int64_t *strides)
{
    static const int64_t whole[] = { ROWS, COLS };
    const kiln_tensor out = { data[0], NULL, KILN_F32, 2, whole, NULL };
    const kiln_tensor ins[] = { { data[1], NULL, KILN_F32, 2, whole, NULL },
                                { data[2], NULL, KILN_F32, ndim, shape, strides } };
    return kiln_apply(service, "op=x+y", &out, 1, ins, 2, NULL, 0, stream, &report);
}

static const int64_t shape[] = { ROWS, COLS }, dense[] = { COLS, 1 }, turned[] = { 1, ROWS };

static kiln_status apply_flat(void)
{
    return apply_two(2, shape, NULL);
}

static kiln_status apply_dense(void)
{
    return apply_two(2, shape, dense);
}

static kiln_status apply_row(void)
{
    return apply_two(1, shape + 1, NULL);
}

static kiln_status apply_turned(void)
{
    return apply_two(2, shape, turned);
}

static kiln_status call_text(void)
{
    const void *const ins[] = { data[1], data[2] };
    return kiln_call(service, "op=x+y", (uint64_t)ROWS * COLS, (void *[]){ data[0] }, 1, ins, 2, stream, &report);
}

static kiln_status launch_kernel(void)
{
    const void *const ins[] = { data[1], data[2] };
    return kiln_launch_n(kernel, (uint64_t)ROWS * COLS, (void *[]){ data[0] }, 1, ins, 2, stream, &report);
}

typedef struct contender {
    const char *name;
    kiln_status (*run)(void);
    double *ns; /* of one call, for each round */
} contender;

static contender contenders[] = {
    { "kiln_launch_n", launch_kernel, NULL },         { "kiln_call", call_text, NULL },
    { "kiln_apply, contiguous", apply_flat, NULL },   { "kiln_apply, contiguous with strides", apply_dense, NULL },
    { "kiln_apply, a row for all", apply_row, NULL }, { "kiln_apply, transposed", apply_turned, NULL },
};
enum { COUNT = sizeof(contenders) / sizeof(contenders[0]) };

static void run_calls(const contender *one)
{
    kiln_status bad = KILN_OK;
    for (int i = 0; i < calls && bad == KILN_OK; i++)
        bad = one->run();
    check(bad == KILN_OK, one->name);
}

static void run_rounds(void)
{
    for (int c = 0; c < COUNT; c++)
        check((contenders[c].ns = calloc((size_t)rounds, sizeof(double))) != NULL, "memory");
    for (int round = -WARMUP; round < rounds; round++)
        for (int i = 0; i < COUNT; i++) {
            const contender *one = &contenders[(i + round + WARMUP) % COUNT];
            uint64_t begin = kiln__cpu_now_ns();
            run_calls(one);
            uint64_t end = kiln__cpu_now_ns();
            if (round >= 0)
                one->ns[round] = (double)(end - begin) / calls;
        }
}

static void print_results(void)
{
    printf("nanoseconds for one call: median [10th, 90th percentile]; allocations and locks of %d calls\n", calls);
    for (int c = 0; c < COUNT; c++) {
        heap_calls = locks = 0;
        run_calls(&contenders[c]);
        uint64_t allocated = heap_calls, locked = locks;
        double *ns = contenders[c].ns, median = kiln__median(ns, (size_t)rounds);
        printf("%-38s %8.1f [%.1f, %.1f] %8llu %8llu\n", contenders[c].name, median, ns[rounds / 10],
               ns[rounds - 1 - rounds / 10], (unsigned long long)allocated, (unsigned long long)locked);
        free(ns);
    }
}

int main(int argc, char **argv)
{
    kiln_options options = KILN_INIT(kiln_options);
    kiln_spec *spec;
    options.libcuda = noop_path();
    options.device = "cuda:0";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--libcuda") == 0)
            options.libcuda = argv[i + 1];
        else if (strcmp(argv[i], "--rounds") == 0)
            rounds = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--calls") == 0)
            calls = atoi(argv[i + 1]);
    }
    if (argc % 2 == 0 || rounds < 1 || calls < 1) {
        fprintf(stderr, "usage: bench_apply [--libcuda PATH] [--rounds N] [--calls N]\n");
        return 2;
    }
    check(kiln_open(&service, &options, &report) == KILN_OK, "kiln_open");
    check(kiln_spec_parse(&spec, service, "op=x+y", &report) == KILN_OK, "kiln_spec_parse");
    check(kiln_get_kernel(&kernel, service, spec, &report) == KILN_OK, "kiln_get_kernel");
    run_rounds();
    print_results();
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    kiln_close(service);
    return 0;
}
