/* bench_launch_cost [--libcuda PATH] [--rounds N] [--calls N] [--n N]: what a launch costs the calling thread.
 *
 * By default over a driver that does nothing (tests/support/noop_libcuda.c), so that the times are Kiln's own; with
 * --libcuda, libcuda.so.1 for instance, over that driver. Kiln and the bare driver launch the same cubin with the same
 * arguments in the same stream. In each round every contender makes --calls calls in a row, in an order that
 * rotates, and then the GPU is waited for, which is not timed. Printed are the median time of a call, the 10th and
 * 90th percentile of the rounds, and the median and the percentiles of each round's difference to the bare
 * cuLaunchKernel. The kernel comes from the store that KILN_CACHE_DIR names, where there is no NVRTC. */
#include "bench/noop_path.h"
#include "gpu/driver.h"
#include "os/cpu.h"
#include "service/program.h"
#include "support/requesting.h"
#include "tune/statistics.h"
#include <dlfcn.h>
#include <inttypes.h>
#include <kiln/tune.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPEC "op=hardsigmoid dtype=f32"

/* A kernel of three sizes and four arguments: its launch calculates two shapes of three extents, one of one, and a
 * grid. */
static const char scaled[] = "//! template scaled\n"
                             "//! about    out[b,r,c] = x[b,r,c] * scale + bias[c]\n"
                             "//! dtype    f32\n"
                             "//! size     batch, rows, cols\n"
                             "//! param    block 32..1024 step 32 = 128\n"
                             "//! arg      out   out f32[batch, rows, cols]\n"
                             "//! arg      x     in  f32[batch, rows, cols]\n"
                             "//! arg      bias  in  f32[cols]\n"
                             "//! arg      scale f32\n"
                             "//! grid     (cols + block - 1) / block, min(rows, 65535), min(batch, 65535)\n"
                             "//! entry    scaled align 4\n"
                             "extern \"C\" __global__ void scaled(float *out, const float *x, const float *bias, "
                             "float scale)\n"
                             "{\n"
                             "    out[threadIdx.x] = x[threadIdx.x] * scale + bias[threadIdx.x];\n"
                             "}\n";

enum { WARMUP = 3, ROUNDS = 201, CALLS = 500, ELEMENTS = 4096 };

static void check(bool good, const char *what, const char *why)
{
    if (good)
        return;
    fprintf(stderr, "bench_launch_cost: %s: %s\n", what, why);
    exit(1);
}

static void must(kiln_status status, const char *what, const kiln_report *report)
{
    check(status == KILN_OK, what, report->message);
}

/* ---- The bare driver */

/* CUlaunchConfig, which Kiln itself does not use. */
typedef struct launch_config {
    unsigned grid[3], block[3], shared_bytes;
    CUstream stream;
    void *attributes;
    unsigned attribute_count;
} launch_config;

typedef struct bench {
    kiln_service *service;
    kiln_device *device;
    kiln_spec *spec;
    kiln_kernel *kernel;
    kiln_kernel *general; /* of the template above */
    kiln_live *live;
    const char *libcuda;
    kiln__driver *driver;
    kiln__cu_enum (*launch_ex)(const launch_config *config, CUfunction function, void **parameters, void **extra);
    CUkernel bare;       /* the same entry point of the same cubin, loaded once more */
    CUfunction function; /* the same again, as a function of the current context */
    CUstream stream;
    void *out;
    const void *in[1];
    uint64_t n;
    unsigned grid, block;
    int rounds, calls;
} bench;

static void expect(const char *call, kiln__cu_enum code)
{
    char text[32];
    snprintf(text, sizeof(text), "CUresult %u", code);
    check(code == KILN__CUDA_SUCCESS, call, text);
}

static void open_bare(bench *self)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_program *program;
    const void *cubin;
    size_t length;
    CUlibrary library = NULL;
    CUcontext context = NULL;
    must(kiln__driver_open(&self->driver, self->libcuda, &report), "the driver", &report);
    expect("cuDevicePrimaryCtxRetain", self->driver->cuDevicePrimaryCtxRetain(&context, 0));
    expect("cuCtxPushCurrent", self->driver->cuCtxPushCurrent(context));
    expect("cuStreamCreate", self->driver->cuStreamCreate(&self->stream, KILN__CU_STREAM_NON_BLOCKING));
    must(kiln_test_build_spec(&program, self->service, self->spec, &report), "kiln_get", &report);
    must(kiln_program_section(&cubin, &length, program, "cubin"), "kiln_program_section", &report);
    expect("cuLibraryLoadData", self->driver->cuLibraryLoadData(&library, cubin, NULL, NULL, 0, NULL, NULL, 0));
    expect("cuLibraryGetKernel",
           self->driver->cuLibraryGetKernel(&self->bare, library, self->kernel->program->rule.entries[0].name));
    expect("cuKernelGetFunction", self->driver->cuKernelGetFunction(&self->function, self->bare));
    void *opened = dlopen(self->libcuda, RTLD_NOW | RTLD_LOCAL);
    void *symbol = opened != NULL ? dlsym(opened, "cuLaunchKernelEx") : NULL;
    memcpy(&self->launch_ex, &symbol, sizeof(symbol));
    self->grid = (unsigned)((self->n + self->kernel->program->rule.tile - 1) / self->kernel->program->rule.tile);
    self->block = self->kernel->program->rule.block[0];
    kiln_program_release(program);
}

/* ---- The contenders: each makes `calls` calls and returns what went wrong, 0 if nothing */

static kiln__cu_enum do_nothing(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                CUstream stream, void **parameters, void **extra)
{
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
    (void)shared_bytes, (void)stream, (void)parameters, (void)extra;
    return KILN__CUDA_SUCCESS;
}

static int launch_with(bench *self,
                       kiln__cu_enum (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                               unsigned, CUstream, void **, void **),
                       CUfunction function, CUstream stream)
{
    kiln__cu_enum bad = 0;
    for (int i = 0; i < self->calls; i++) {
        void *parameters[] = { &self->out, &self->in[0], &self->n };
        bad |= launch(function, self->grid, 1, 1, self->block, 1, 1, 0, stream, parameters, NULL);
    }
    return (int)bad;
}

static int call_nothing(bench *self)
{
    __typeof__(&do_nothing) volatile nothing = do_nothing;
    return launch_with(self, nothing, NULL, NULL);
}

static int call_driver(bench *self)
{
    return launch_with(self, self->driver->cuLaunchKernel, (CUfunction)self->bare, self->stream);
}

static int call_driver_function(bench *self)
{
    return launch_with(self, self->driver->cuLaunchKernel, self->function, self->stream);
}

static int call_driver_default(bench *self)
{
    return launch_with(self, self->driver->cuLaunchKernel, (CUfunction)self->bare, NULL);
}

static int call_driver_ex(bench *self)
{
    kiln__cu_enum bad = 0;
    for (int i = 0; i < self->calls; i++) {
        void *parameters[] = { &self->out, &self->in[0], &self->n };
        launch_config config = { { self->grid, 1, 1 }, { self->block, 1, 1 }, 0, self->stream, NULL, 0 };
        bad |= self->launch_ex(&config, (CUfunction)self->bare, parameters, NULL);
    }
    return (int)bad;
}

static int call_launch_in(bench *self, void *stream)
{
    int bad = 0;
    for (int i = 0; i < self->calls; i++)
        bad |= kiln_launch_n(self->kernel, self->n, &self->out, 1, self->in, 1, stream, NULL);
    return bad;
}

static int call_launch(bench *self)
{
    return call_launch_in(self, self->stream);
}

static int call_launch_default(bench *self)
{
    return call_launch_in(self, NULL);
}

static int call_general(bench *self)
{
    const uint64_t sizes[] = { 2, 4, 128 };
    const float scale = 0.5f;
    const kiln_arg args[] = { KILN_ARRAY(self->out, 4096), KILN_ARRAY(self->in[0], 4096), KILN_ARRAY(self->in[0], 512),
                              KILN_VALUE(scale) };
    int bad = 0;
    for (int i = 0; i < self->calls; i++)
        bad |= kiln_launch(self->general, NULL, sizes, 3, args, 4, self->stream, NULL);
    return bad;
}

static int call_live(bench *self)
{
    int bad = 0;
    for (int i = 0; i < self->calls; i++)
        bad |= kiln_launch_n(kiln_live_kernel(self->live), self->n, &self->out, 1, self->in, 1, self->stream, NULL);
    return bad;
}

static int call_call(bench *self)
{
    int bad = 0;
    for (int i = 0; i < self->calls; i++)
        bad |= kiln_call(self->service, SPEC, self->n, &self->out, 1, self->in, 1, self->stream, NULL);
    return bad;
}

static int call_get(bench *self)
{
    int bad = 0;
    for (int i = 0; i < self->calls; i++) {
        kiln_kernel *kernel;
        bad |= kiln_get_kernel(&kernel, self->service, self->spec, NULL);
        kiln_kernel_release(kernel);
    }
    return bad;
}

typedef struct contender {
    const char *name;
    int (*run)(bench *self);
    double *ns; /* of one call, for each round */
} contender;

enum { BARE = 1, BARE_EX = 3 };
static contender contenders[] = {
    { "a function that does nothing", call_nothing, NULL },
    { "cuLaunchKernel", call_driver, NULL },
    { "cuLaunchKernel of a CUfunction", call_driver_function, NULL },
    { "cuLaunchKernelEx", call_driver_ex, NULL },
    { "cuLaunchKernel, default stream", call_driver_default, NULL },
    { "kiln_launch_n", call_launch, NULL },
    { "kiln_launch_n, default stream", call_launch_default, NULL },
    { "kiln_launch, 3 sizes, 4 arguments", call_general, NULL },
    { "kiln_launch_n of kiln_live_kernel", call_live, NULL },
    { "kiln_call", call_call, NULL },
    { "kiln_get_kernel and kiln_kernel_release", call_get, NULL },
};
enum { COUNT = sizeof(contenders) / sizeof(contenders[0]) };

/* ---- Rounds */

static void run_rounds(bench *self)
{
    kiln_report report = KILN_INIT(kiln_report);
    for (int c = 0; c < COUNT; c++)
        check((contenders[c].ns = calloc((size_t)self->rounds, sizeof(double))) != NULL, "memory", "there is none");
    for (int round = -WARMUP; round < self->rounds; round++)
        for (int i = 0; i < COUNT; i++) {
            contender *one = &contenders[(i + round + WARMUP) % COUNT];
            if (one == &contenders[BARE_EX] && self->launch_ex == NULL)
                continue;
            uint64_t begin = kiln__cpu_now_ns();
            int bad = one->run(self);
            uint64_t end = kiln__cpu_now_ns();
            check(bad == 0, one->name, "a call failed");
            must(kiln_sync(self->device, &report), "kiln_sync", &report);
            if (round >= 0)
                one->ns[round] = (double)(end - begin) / self->calls;
        }
}

/* Sorts the values. */
static void print_spread(double *values, int count)
{
    double median = kiln__median(values, (size_t)count);
    printf(" %10.1f [%.1f, %.1f]", median, values[count / 10], values[count - 1 - count / 10]);
}

static void print_results(const bench *self)
{
    double *paired = calloc((size_t)self->rounds, sizeof(double)), *own = calloc((size_t)self->rounds, sizeof(double));
    check(paired != NULL && own != NULL, "memory", "there is none");
    printf("nanoseconds for one call: median [10th, 90th percentile]; the same of the difference to cuLaunchKernel\n");
    for (int c = 0; c < COUNT; c++) {
        if (c == BARE_EX && self->launch_ex == NULL)
            continue;
        for (int r = 0; r < self->rounds; r++) {
            own[r] = contenders[c].ns[r];
            paired[r] = contenders[c].ns[r] - contenders[BARE].ns[r];
        }
        printf("%-42s", contenders[c].name);
        print_spread(own, self->rounds);
        print_spread(paired, self->rounds);
        printf("\n");
    }
    free(own);
    free(paired);
}

/* ---- The command */

static void parse(bench *self, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        long number = strtol(value, NULL, 10);
        if (strcmp(argv[i], "--libcuda") == 0 && value[0] != '\0')
            self->libcuda = value;
        else if (strcmp(argv[i], "--rounds") == 0 && number > 0)
            self->rounds = (int)number;
        else if (strcmp(argv[i], "--calls") == 0 && number > 0)
            self->calls = (int)number;
        else if (strcmp(argv[i], "--n") == 0 && number > 0)
            self->n = (uint64_t)number;
        else
            check(false, argv[i], "usage: bench_launch_cost [--libcuda PATH] [--rounds N] [--calls N] [--n N]");
    }
}

static void open_general(bench *self)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec;
    must(kiln_template_define(self->service, scaled, NULL, NULL, &report), "kiln_template_define", &report);
    must(kiln_spec_parse(&spec, self->service, "template=scaled", &report), "kiln_spec_parse", &report);
    must(kiln_get_kernel(&self->general, self->service, spec, &report), "kiln_get", &report);
    kiln_spec_free(spec);
}

static void open_kiln(bench *self)
{
    kiln_options options = KILN_INIT(kiln_options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_device_info device = KILN_INIT(kiln_device_info);
    kiln_kernel_info kernel = KILN_INIT(kiln_kernel_info);
    void *in;
    options.libcuda = self->libcuda;
    options.device = "cuda:0";
    must(kiln_open(&self->service, &options, &report), "kiln_open", &report);
    must(kiln_spec_parse(&self->spec, self->service, SPEC, &report), "kiln_spec_parse", &report);
    must(kiln_get_kernel(&self->kernel, self->service, self->spec, &report), "kiln_get", &report);
    must(kiln_live_open(&self->live, self->service, self->spec, NULL, &report), "kiln_live_open", &report);
    must(kiln_live_wait(self->live, KILN_LIVE_SETTLED, -1, &report), "kiln_live_wait", &report);
    must(kiln_device_open(&self->device, self->service, NULL, &report), "kiln_device_open", &report);
    must(kiln_alloc(&self->out, self->device, self->n * sizeof(float), &report), "kiln_alloc", &report);
    must(kiln_alloc(&in, self->device, self->n * sizeof(float), &report), "kiln_alloc", &report);
    self->in[0] = self->out == in ? (char *)in + self->n * sizeof(float) : in;
    must(kiln_device_get_info(self->device, &device), "kiln_device_get_info", &report);
    must(kiln_kernel_get_info(self->kernel, &kernel), "kiln_kernel_get_info", &report);
    printf("%s, %s\n%s: %" PRIu64 " elements, %d rounds of %d calls\n", device.model, self->libcuda, kernel.spec,
           self->n, self->rounds, self->calls);
}

int main(int argc, char **argv)
{
    bench self = { .n = ELEMENTS, .rounds = ROUNDS, .calls = CALLS };
    parse(&self, argc, argv);
    if (self.libcuda == NULL)
        self.libcuda = noop_path();
    open_kiln(&self);
    open_general(&self);
    open_bare(&self);
    run_rounds(&self);
    print_results(&self);
    kiln_live_close(self.live);
    kiln_kernel_release(self.general);
    kiln_kernel_release(self.kernel);
    kiln_spec_free(self.spec);
    kiln_close(self.service);
    return 0;
}
