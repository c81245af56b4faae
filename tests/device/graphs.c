/* Graphs and several GPUs on a real driver: launches are captured and replayed, a call that would have to load is
 * refused, gets on this thread and on another break no capture in any mode, short launches are timed and tuned from
 * graphs while another thread waits for the device all the time, and each GPU runs its own kernel. Every result is
 * checked. Needs a GPU and a compiler. Exits 1 if anything is not as kiln.h says. */
#include "support/launching.h"
#include "support/requesting.h"
#include <dlfcn.h>
#include <kiln/tune.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOADED "op=hardtanh dtype=f32"

enum { COUNT = 1000003, BYTES = COUNT * sizeof(float), MODES = 3 };

static const char *const mode_names[MODES] = { "global", "thread-local", "relaxed" };
static kiln_report report = KILN_INIT(kiln_report);
static kiln_service *service;
static float x[COUNT], y[COUNT];

/* X(name in libcuda, name here, parameters) */
#define DRIVER(X)                                                                           \
    X(cuDevicePrimaryCtxRetain, retain, (void **context, int device))                       \
    X(cuCtxSetCurrent, set_current, (void *context))                                        \
    X(cuCtxSynchronize, context_synchronize, (void))                                        \
    X(cuStreamCreate, stream_create, (void **stream, unsigned flags))                       \
    X(cuStreamSynchronize, stream_synchronize, (void *stream))                              \
    X(cuStreamBeginCapture_v2, begin_capture, (void *stream, int mode))                     \
    X(cuStreamEndCapture, end_capture, (void *stream, void **graph))                        \
    X(cuGraphInstantiateWithFlags, instantiate, (void **exec, void *graph, uint64_t flags)) \
    X(cuGraphLaunch, graph_launch, (void *exec, void *stream))

static struct {
#define MEMBER(symbol, name, parameters) int(*name) parameters;
    DRIVER(MEMBER)
} driver;

static void check(int good, const char *what, const char *why)
{
    if (good)
        return;
    fprintf(stderr, "FAILED %s: %s\n", what, why);
    exit(1);
}

static void must(kiln_status status, const char *what)
{
    check(status == KILN_OK, what, report.message);
}

static void expect(const char *call, int code)
{
    char text[32];
    snprintf(text, sizeof(text), "CUresult %d", code);
    check(code == 0, call, text);
}

static void open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *found;
    check(library != NULL, "libcuda.so.1", "cannot be opened");
#define FIND(symbol, name, parameters)             \
    found = dlsym(library, #symbol);               \
    check(found != NULL, #symbol, "not exported"); \
    memcpy(&driver.name, &found, sizeof(found));
    DRIVER(FIND)
}

static void check_values(kiln_device *device, const void *memory, const char *what)
{
    memset(y, 0xff, sizeof(y));
    must(kiln_download(device, y, memory, BYTES, &report), "kiln_copy");
    for (int i = 0; i < COUNT; i++)
        check(y[i] == (x[i] < -1 ? -1 : x[i] > 1 ? 1 : x[i]), what, "a value is wrong");
}

static void get(const char *text)
{
    kiln_report own = KILN_INIT(kiln_report);
    kiln_spec *spec;
    kiln_kernel *kernel;
    check(kiln_spec_parse(&spec, service, text, &own) == KILN_OK, text, own.message);
    check(kiln_get_kernel(&kernel, service, spec, &own) == KILN_OK, text, own.message);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
}

static void *get_on_thread(void *text)
{
    get(text);
    return NULL;
}

static void capture_one(kiln_device *device, void *stream, int mode, void *memory_x, void *memory_y)
{
    const void *in[] = { memory_x };
    char fresh[2][64];
    void *graph = NULL, *exec = NULL;
    pthread_t thread;
    for (int i = 0; i < 2; i++)
        snprintf(fresh[i], sizeof(fresh[i]), "op=relu6 dtype=f32 block=%d", 32 * (2 * mode + i + 1));
    expect("cuStreamBeginCapture", driver.begin_capture(stream, mode));
    must(kiln_test_call(service, LOADED, COUNT, memory_y, in, stream, &report), "kiln_call in a capture");
    kiln_status status = kiln_test_call(service, fresh[0], COUNT, memory_y, in, stream, &report);
    check(status == KILN_ECAPTURE, "kiln_call of what is not loaded", kiln_status_name(status));
    status = kiln_test_call(service, fresh[0], COUNT, memory_y, in, NULL, &report);
    check(status == KILN_ECAPTURE, "kiln_call in the default stream", kiln_status_name(status));
    get(fresh[0]);
    check(pthread_create(&thread, NULL, get_on_thread, fresh[1]) == 0, "pthread_create", "failed");
    pthread_join(thread, NULL);
    expect("cuStreamEndCapture", driver.end_capture(stream, &graph));
    expect("cuGraphInstantiate", driver.instantiate(&exec, graph, 0));
    must(kiln_copy(device, memory_y, memory_x, BYTES, stream, &report), "kiln_copy");
    expect("cuGraphLaunch", driver.graph_launch(exec, stream));
    expect("cuStreamSynchronize", driver.stream_synchronize(stream));
    check_values(device, memory_y, "the graph");
    printf("capture in %s mode: captured, refused, got on two threads, replayed\n", mode_names[mode]);
}

static void check_graphs(void)
{
    kiln_device *device;
    void *context, *stream, *memory_x, *memory_y;
    must(kiln_device_open(&device, service, NULL, &report), "kiln_device_open");
    must(kiln_alloc(&memory_x, device, BYTES, &report), "kiln_alloc");
    must(kiln_alloc(&memory_y, device, BYTES, &report), "kiln_alloc");
    must(kiln_upload(device, memory_x, x, BYTES, &report), "kiln_copy");
    expect("cuDevicePrimaryCtxRetain", driver.retain(&context, 0));
    expect("cuCtxSetCurrent", driver.set_current(context));
    expect("cuStreamCreate", driver.stream_create(&stream, 0));
    must(kiln_test_call(service, LOADED, 0, NULL, NULL, NULL, &report), "kiln_call with n = 0");
    for (int mode = 0; mode < MODES; mode++)
        capture_one(device, stream, mode, memory_x, memory_y);
    expect("cuCtxSetCurrent", driver.set_current(NULL));
}

/* ---- Short launches */

typedef struct launching {
    kiln_kernel *kernel;
    const void *x;
    void *y;
    uint64_t n;
} launching;

static kiln_status launch_once(void *data, void *stream)
{
    const launching *self = data;
    return kiln_test_launch(self->kernel, self->n, self->y, &self->x, stream, NULL);
}

static atomic_bool waiting;
static unsigned long waits;

/* What a capture anywhere in the context would make fail. */
static void *wait_often(void *context)
{
    expect("cuCtxSetCurrent", driver.set_current(context));
    for (; atomic_load(&waiting); waits++)
        expect("cuCtxSynchronize on another thread", driver.context_synchronize());
    return NULL;
}

/* A sanitizer makes launches and replays slower, each in its own way: times are not compared then. */
static bool timed;

static void measure_short(kiln_device *device, launching *work)
{
    const kiln_contender contender = { launch_once, work };
    kiln_timing submitted, replayed;
    kiln_measure_options how = { .size = sizeof(how), .warmup = 3, .rounds = 50 };
    must(kiln_measure(&submitted, device, &contender, 1, &how, &report), "kiln_measure");
    how.replay = 1;
    must(kiln_measure(&replayed, device, &contender, 1, &how, &report), "kiln_measure with replay");
    printf("%8llu elements: %.3f us as submitted, %.3f us (%.3f to %.3f) as run\n", (unsigned long long)work->n,
           submitted.median_ms * 1e3, replayed.median_ms * 1e3, replayed.min_ms * 1e3, replayed.max_ms * 1e3);
    check(!timed || replayed.min_ms <= 1.1 * submitted.median_ms, "kiln_measure with replay", "slower than submitting");
}

static void tune_short(void)
{
    kiln_tune_options options = KILN_INIT(kiln_tune_options);
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_work work = KILN_INIT(kiln_work);
    kiln_tuning *tuning;
    kiln_spec *spec;
    work.elements = 1 << 18;
    work.hot = 1;
    options.work = &work;
    options.budget_s = 5;
    must(kiln_spec_parse(&spec, service, LOADED, &report), "kiln_spec_parse");
    must(kiln_tune(&tuning, service, spec, &options, &report), "kiln_tune");
    kiln_tuning_get_info(tuning, &info);
    const kiln_variant_result *best = info.results[0];
    printf("tuned while another thread waited: %s, %.4f of the default's %.3f us, %.1f s, %s\n", best->spec,
           best->ratio, info.default_ms * 1e3, info.seconds, info.end);
    kiln_tuning_free(tuning);
    kiln_spec_free(spec);
}

static void check_short(void)
{
    kiln_device *device;
    kiln_spec *spec;
    launching work = { .n = COUNT };
    void *context, *memory_x;
    pthread_t thread;
    must(kiln_device_open(&device, service, NULL, &report), "kiln_device_open");
    must(kiln_spec_parse(&spec, service, LOADED, &report), "kiln_spec_parse");
    must(kiln_get_kernel(&work.kernel, service, spec, &report), "kiln_get");
    must(kiln_alloc(&memory_x, device, BYTES, &report), "kiln_alloc");
    must(kiln_alloc(&work.y, device, BYTES, &report), "kiln_alloc");
    must(kiln_upload(device, memory_x, x, BYTES, &report), "kiln_copy");
    work.x = memory_x;
    expect("cuDevicePrimaryCtxRetain", driver.retain(&context, 0));
    for (work.n = 1 << 12; work.n <= COUNT; work.n *= 4)
        measure_short(device, &work);
    work.n = COUNT;
    atomic_store(&waiting, true);
    check(pthread_create(&thread, NULL, wait_often, context) == 0, "pthread_create", "failed");
    measure_short(device, &work);
    tune_short();
    atomic_store(&waiting, false);
    pthread_join(thread, NULL);
    printf("another thread waited for the context %lu times\n", waits);
    check_values(device, work.y, "what was replayed");
    kiln_free(device, work.y);
    kiln_free(device, memory_x);
    kiln_kernel_release(work.kernel);
    kiln_spec_free(spec);
}

static void check_devices(void)
{
    int count = 0;
    kiln_status found;
    kiln_spec *spec;
    must(kiln_spec_parse(&spec, service, LOADED, &report), "kiln_spec_parse");
    for (;; count++) {
        char name[16];
        kiln_device *device;
        kiln_kernel *kernel;
        void *memory;
        snprintf(name, sizeof(name), "cuda:%d", count);
        found = kiln_device_open(&device, service, name, &report);
        if (found == KILN_ENODEVICE)
            break;
        must(found, name);
        must(kiln_test_get_on(&kernel, service, device, spec, &report), name);
        must(kiln_alloc(&memory, device, BYTES, &report), name);
        must(kiln_upload(device, memory, x, BYTES, &report), name);
        const void *in[] = { memory };
        must(kiln_test_launch(kernel, COUNT, memory, in, NULL, &report), name);
        must(kiln_sync(device, &report), name);
        check_values(device, memory, name);
        kiln_free(device, memory);
        kiln_kernel_release(kernel);
        printf("%s: right\n", name);
    }
    kiln_spec_free(spec);
}

int main(int argc, char **argv)
{
    kiln_options options = KILN_INIT(kiln_options);
    options.device = "cuda:0";
    timed = argc < 2 || strcmp(argv[1], "untimed") != 0;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i % 4001 - 2000) / 1000.0f;
    must(kiln_open(&service, &options, &report), "kiln_open");
    open_driver();
    check_graphs();
    check_short();
    check_devices();
    kiln_report_clear(&report);
    kiln_close(service);
    return 0;
}
