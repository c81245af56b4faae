/* bench_latency [--libcuda PATH] [--compiles N] [--starts N]: what a host waits for its first kernels.
 *
 * Each sample is a process of its own, made by fork and exec of this program, in which the driver is initialised and a
 * context current before the clock starts; one process of each kind runs before those that count, so that all files are
 * in the page cache. By default over a driver that does nothing (tests/support/noop_libcuda.c); with
 * --libcuda libcuda.so.1 over the real one.
 *     compile  from kiln_open with an empty store to a loaded kernel, and then a kernel of another op, each against
 *              bare NVRTC and cuLibraryLoadData of the same text with the same options; the two kinds of process take
 *              turns
 *     start    from kiln_open with a store that has the kernel to a launch that is submitted, and its parts; against
 *              the bare driver with the same cubin in a file
 * The cubins of both must be equal byte for byte. */
#include "base/alloc.h"
#include "bench/bare_nvrtc.h"
#include "bench/noop_path.h"
#include "gpu/cuda.h"
#include "gpu/driver.h"
#include "os/cpu.h"
#include "os/file.h"
#include "service/program.h"
#include "support/requesting.h"
#include "support/temp.h"
#include "tune/statistics.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COMPILES = 15, STARTS = 51, OPS = 2, ELEMENTS = 4096, VALUES = 8, TIMES = 7 };

static const char *const specs[OPS] = { "op=hardsigmoid dtype=f32", "op=hardtanh dtype=f32" };

static void check(bool good, const char *what, const char *why)
{
    if (good)
        return;
    fprintf(stderr, "bench_latency: %s: %s\n", what, why);
    exit(1);
}

static void must(kiln_status status, const char *what, const kiln_report *report)
{
    check(status == KILN_OK, what, report->message);
}

static void expect(const char *call, kiln__cu_enum code)
{
    char text[32];
    snprintf(text, sizeof(text), "CUresult %u", code);
    check(code == KILN__CUDA_SUCCESS, call, text);
}

/* ---- Files in the directory that all processes share */

static const char *in_directory(const char *directory, const char *name, int number)
{
    static char path[4096];
    snprintf(path, sizeof(path), number < 0 ? "%s/%s" : "%s/%s%d", directory, name, number);
    return path;
}

static bytes read_bytes(const char *path)
{
    void *data = NULL;
    struct stat status;
    bytes out = { NULL, 0 };
    check(kiln__file_read(&data, &out.length, AT_FDCWD, path, 0, SIZE_MAX, &status) == 0, path, "cannot be read");
    out.data = data;
    return out;
}

static void write_bytes(const char *path, const void *data, size_t length)
{
    FILE *file = fopen(path, "wb");
    check(file != NULL && fwrite(data, 1, length, file) == length && fclose(file) == 0, path, "cannot be written");
}

static void check_cubin(const char *directory, int op, const void *cubin, size_t length)
{
    bytes expected = read_bytes(in_directory(directory, "cubin", op));
    check(expected.length == length && memcmp(expected.data, cubin, length) == 0, specs[op], "another cubin");
    kiln__free(expected.data);
}

/* ---- The host's side: what there is before the clock starts */

typedef struct host {
    const char *libcuda, *directory;
    kiln__driver *driver;
    CUstream stream;
    void *out;
    const void *in[1];
} host;

static void start_host(host *self)
{
    kiln_report report = KILN_INIT(kiln_report);
    CUcontext context = NULL;
    CUdeviceptr out = 0, in = 0;
    must(kiln__driver_open(&self->driver, self->libcuda, &report), "the driver", &report);
    expect("cuInit", self->driver->cuInit(0));
    expect("cuDevicePrimaryCtxRetain", self->driver->cuDevicePrimaryCtxRetain(&context, 0));
    expect("cuCtxPushCurrent", self->driver->cuCtxPushCurrent(context));
    expect("cuStreamCreate", self->driver->cuStreamCreate(&self->stream, KILN__CU_STREAM_NON_BLOCKING));
    expect("cuMemAlloc", self->driver->cuMemAlloc(&out, ELEMENTS * sizeof(float)));
    expect("cuMemAlloc", self->driver->cuMemAlloc(&in, ELEMENTS * sizeof(float)));
    self->out = (void *)(uintptr_t)out;
    self->in[0] = (void *)(uintptr_t)(in != out ? in : in + ELEMENTS * sizeof(float));
}

static double since(uint64_t *last)
{
    uint64_t now = kiln__cpu_now_ns();
    double ms = (double)(now - *last) / 1e6;
    *last = now;
    return ms;
}

/* How often the system had to give this process a page so far. */
static long page_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static kiln_service *open_kiln(const host *self, const char *store)
{
    kiln_options options = KILN_INIT(kiln_options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *service;
    options.libcuda = self->libcuda;
    options.device = "cuda:0";
    options.cache_dir = store;
    must(kiln_open(&service, &options, &report), "kiln_open", &report);
    return service;
}

static kiln_kernel *get(kiln_service *service, const kiln_spec *spec)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_kernel *kernel;
    must(kiln_get_kernel(&kernel, service, spec, &report), "kiln_get", &report);
    return kernel;
}

static kiln_spec *parse(kiln_service *service, int op)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec;
    must(kiln_spec_parse(&spec, service, specs[op], &report), specs[op], &report);
    return spec;
}

static kiln_program *build(kiln_service *service, const kiln_spec *spec, const void **cubin, size_t *length)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_program *program;
    must(kiln_test_build_spec(&program, service, spec, &report), "kiln_get", &report);
    must(kiln_program_section(cubin, length, program, "cubin"), "kiln_program_section", &report);
    return program;
}

/* ---- Kinds of process. Each prints its times in milliseconds. */

/* Leaves in the directory what the others need: the filled store, the texts, the compiler and its options, the
 * cubins. */
static void prepare(host *self)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__toolchain toolchain;
    kiln__text options = { 0 };
    kiln_service *service = open_kiln(self, in_directory(self->directory, "full", -1));
    kiln__compiler *nvrtc = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    check(nvrtc != NULL, "NVRTC", "out of memory");
    must(nvrtc->vtable->identify(nvrtc, &toolchain, &report), "NVRTC", &report);
    for (int op = 0; op < OPS; op++) {
        const void *cubin;
        char *source;
        size_t length;
        kiln_spec *spec = parse(service, op);
        kiln_kernel *kernel = get(service, spec);
        kiln_program *program = build(service, spec, &cubin, &length);
        must(kiln_spec_source(&source, spec, &report), "kiln_spec_source", &report);
        write_bytes(in_directory(self->directory, "cubin", op), cubin, length);
        write_bytes(in_directory(self->directory, "source", op), source, strlen(source));
        write_bytes(in_directory(self->directory, "rule", op), &kernel->program->rule, sizeof(kernel->program->rule));
        if (op == 0)
            nvrtc->vtable->options(nvrtc, &(kiln__unit){ .target = kernel->device->target, .contracts = true },
                                   &options);
        kiln_text_free(source);
        kiln_program_release(program);
        kiln_kernel_release(kernel);
        kiln_spec_free(spec);
    }
    check(!options.failed, "options", "out of memory");
    write_bytes(in_directory(self->directory, "options", -1), options.data, options.length);
    write_bytes(in_directory(self->directory, "nvrtc", -1), toolchain.path, strlen(toolchain.path));
    kiln__text_fini(&options);
    nvrtc->vtable->close(nvrtc);
    kiln_close(service);
}

static void compile_kiln(host *self)
{
    kiln_spec *asked[OPS];
    double ms[OPS];
    char store[] = "/tmp/kiln-latency.XXXXXX";
    check(mkdtemp(store) != NULL, store, "cannot make a directory");
    uint64_t last = kiln__cpu_now_ns();
    kiln_service *service = open_kiln(self, store);
    for (int op = 0; op < OPS; op++) {
        asked[op] = parse(service, op);
        kiln_kernel_release(get(service, asked[op]));
        ms[op] = since(&last);
    }
    for (int op = 0; op < OPS; op++) {
        const void *cubin;
        size_t length;
        kiln_program *program = build(service, asked[op], &cubin, &length);
        check_cubin(self->directory, op, cubin, length);
        kiln_program_release(program);
        kiln_spec_free(asked[op]);
    }
    kiln_close(service);
    kiln_test_temp_remove(store);
    printf("%.6f %.6f\n", ms[0], ms[1]);
}

static void compile_bare(host *self)
{
    bare_nvrtc nvrtc;
    double ms[OPS];
    bytes cubins[OPS], sources[OPS], options = read_bytes(in_directory(self->directory, "options", -1)),
                                     path = read_bytes(in_directory(self->directory, "nvrtc", -1));
    kiln__rule rules[OPS];
    for (int op = 0; op < OPS; op++) {
        sources[op] = read_bytes(in_directory(self->directory, "source", op));
        bytes rule = read_bytes(in_directory(self->directory, "rule", op));
        memcpy(&rules[op], rule.data, sizeof(rules[op]));
        kiln__free(rule.data);
    }
    uint64_t last = kiln__cpu_now_ns();
    bare_open(&nvrtc, path.data, options.data);
    for (int op = 0; op < OPS; op++) {
        CUlibrary library = NULL;
        CUkernel kernel = NULL;
        bare_compile(&nvrtc, sources[op].data, &cubins[op]);
        expect("cuLibraryLoadData",
               self->driver->cuLibraryLoadData(&library, cubins[op].data, NULL, NULL, 0, NULL, NULL, 0));
        expect("cuLibraryGetKernel", self->driver->cuLibraryGetKernel(&kernel, library, rules[op].entries[0].name));
        ms[op] = since(&last);
    }
    for (int op = 0; op < OPS; op++)
        check_cubin(self->directory, op, cubins[op].data, cubins[op].length);
    printf("%.6f %.6f\n", ms[0], ms[1]);
}

static void start_kiln(host *self)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_stats stats = KILN_INIT(kiln_stats);
    kiln_device *device;
    const char *store = in_directory(self->directory, "full", -1);
    long faults = page_faults();
    uint64_t first = kiln__cpu_now_ns(), last = first;
    kiln_service *service = open_kiln(self, store);
    double open = since(&last);
    must(kiln_device_open(&device, service, NULL, &report), "kiln_device_open", &report);
    double opened = since(&last);
    kiln_spec *spec = parse(service, 0);
    double parsed = since(&last);
    kiln_kernel *kernel = get(service, spec);
    double got = since(&last);
    must(kiln_launch_n(kernel, ELEMENTS, &self->out, 1, self->in, 1, self->stream, &report), "kiln_launch", &report);
    double launched = since(&last);
    faults = page_faults() - faults;
    expect("cuStreamSynchronize", self->driver->cuStreamSynchronize(self->stream));
    must(kiln_stats_get(service, &stats), "kiln_stats_get", &report);
    check(stats.hits_disk == 1 && stats.compiles == 0, specs[0], "did not come from the store");
    double loaded = (double)stats.load_ns / 1e6;
    printf("%.6f %.6f %.6f %.6f %.6f %.6f %.6f %ld\n", (double)(last - first) / 1e6, open, opened, parsed, got - loaded,
           loaded, launched, faults);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    kiln_close(service);
}

/* What the driver alone takes for it. */
static void start_bare(host *self)
{
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUfunction function = NULL;
    bytes file = read_bytes(in_directory(self->directory, "rule", 0));
    const kiln__rule *rule = (const kiln__rule *)file.data;
    long faults = page_faults();
    uint64_t n = ELEMENTS, first = kiln__cpu_now_ns(), last = first;
    void *parameters[] = { &self->out, &self->in[0], &n };
    bytes cubin = read_bytes(in_directory(self->directory, "cubin", 0));
    double read = since(&last);
    expect("cuLibraryLoadData", self->driver->cuLibraryLoadData(&library, cubin.data, NULL, NULL, 0, NULL, NULL, 0));
    expect("cuLibraryGetKernel", self->driver->cuLibraryGetKernel(&kernel, library, rule->entries[0].name));
    expect("cuKernelGetFunction", self->driver->cuKernelGetFunction(&function, kernel));
    if (self->driver->cuFuncLoad != NULL)
        expect("cuFuncLoad", self->driver->cuFuncLoad(function));
    double loaded = since(&last);
    expect("cuLaunchKernel",
           self->driver->cuLaunchKernel((CUfunction)kernel, (unsigned)((n + rule->tile - 1) / rule->tile), 1, 1,
                                        rule->block[0], 1, 1, 0, self->stream, parameters, NULL));
    double launched = since(&last);
    faults = page_faults() - faults;
    expect("cuStreamSynchronize", self->driver->cuStreamSynchronize(self->stream));
    printf("%.6f 0 0 0 %.6f %.6f %.6f %ld\n", (double)(last - first) / 1e6, read, loaded, launched, faults);
}

typedef struct kind {
    const char *name;
    void (*run)(host *self);
    int count;               /* of what it prints */
    double *samples[VALUES]; /* of each value */
} kind;

enum { PREPARE, COMPILE_KILN, COMPILE_BARE, START_KILN, START_BARE, KINDS };
static kind kinds[KINDS] = {
    { "prepare", prepare, 0, { NULL } },
    { "compile-kiln", compile_kiln, 2, { NULL } },
    { "compile-bare", compile_bare, 2, { NULL } },
    { "start-kiln", start_kiln, VALUES, { NULL } },
    { "start-bare", start_bare, VALUES, { NULL } },
};

/* ---- The parent */

/* Runs a process of a kind and puts what it prints into sample `at`; none is kept where that is negative. */
static void run_process(kind *one, const host *self, int at)
{
    char *arguments[] = { (char *)"bench_latency", (char *)"--process",     (char *)one->name,
                          (char *)self->libcuda,   (char *)self->directory, NULL };
    posix_spawn_file_actions_t actions;
    pid_t process;
    int ends[2], status = -1;
    check(pipe(ends) == 0, "pipe", "cannot be made");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    check(posix_spawn(&process, "/proc/self/exe", &actions, NULL, arguments, environ) == 0, one->name, "not started");
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *output = fdopen(ends[0], "r");
    for (int i = 0; i < one->count; i++) {
        double value;
        check(output != NULL && fscanf(output, "%lf", &value) == 1, one->name, "a process gave no times");
        if (at >= 0)
            one->samples[i][at] = value;
    }
    fclose(output);
    check(waitpid(process, &status, 0) == process && status == 0, one->name, "a process failed");
}

/* Two kinds in turn, the first of them alternating. */
static void run_pair(kind *a, kind *b, const host *self, int rounds)
{
    for (int i = 0; i < VALUES; i++) {
        a->samples[i] = calloc((size_t)rounds, sizeof(double));
        b->samples[i] = calloc((size_t)rounds, sizeof(double));
        check(a->samples[i] != NULL && b->samples[i] != NULL, "samples", "out of memory");
    }
    for (int round = -1; round < rounds; round++) {
        run_process(round % 2 == 0 ? a : b, self, round);
        run_process(round % 2 == 0 ? b : a, self, round);
    }
}

/* Sorts the samples. */
static void print_spread(double *samples, int count)
{
    double median = kiln__median(samples, (size_t)count);
    printf(" %.3f [%.3f, %.3f] |", median, samples[count / 10], samples[count - 1 - count / 10]);
}

static void print_compiles(const char *what, int value, int count)
{
    double *ratios = calloc((size_t)count, sizeof(*ratios));
    double *kiln = kinds[COMPILE_KILN].samples[value], *bare = kinds[COMPILE_BARE].samples[value];
    check(ratios != NULL, "samples", "out of memory");
    for (int i = 0; i < count; i++)
        ratios[i] = kiln[i] / bare[i];
    printf("| %s | %.2f | %.2f |", what, kiln__median(kiln, (size_t)count), kiln__median(bare, (size_t)count));
    print_spread(ratios, count);
    printf("\n");
    free(ratios);
}

static void compare_compiles(const host *self, int count)
{
    run_pair(&kinds[COMPILE_KILN], &kinds[COMPILE_BARE], self, count);
    printf("\n%d processes of each kind, ms: medians, ratio with the 10th and 90th percentile; goal: at most 1.10\n\n"
           "| compile and load | Kiln | bare NVRTC | ratio |\n|---|---|---|---|\n",
           count);
    print_compiles("the first in a process, libraries opened", 0, count);
    print_compiles("the second, of another op", 1, count);
    fflush(stdout);
}

static void compare_starts(const host *self, int count)
{
    static const char *const parts[TIMES] = {
        "kiln_open to a launch submitted",     "open the service",     "open the device", "parse the spec",
        "look up: resolve, find, read, check", "load into the driver", "launch"
    };
    run_pair(&kinds[START_KILN], &kinds[START_BARE], self, count);
    printf("\n%d processes of each kind, ms: median [10th, 90th percentile]; goal: at most 0.20\n\n"
           "| a kernel that is in the store | Kiln | cubin from a file, bare driver |\n|---|---|---|\n",
           count);
    for (int i = 0; i < TIMES; i++) {
        printf("| %s |", parts[i]);
        for (int k = START_KILN; k <= START_BARE; k++)
            print_spread(kinds[k].samples[i], count);
        printf("\n");
    }
    printf("| page faults | %.0f | %.0f |\n", kiln__median(kinds[START_KILN].samples[TIMES], (size_t)count),
           kiln__median(kinds[START_BARE].samples[TIMES], (size_t)count));
}

/* One sample, in a process that the parent started. */
static int run_here(const char *name, host *self)
{
    start_host(self);
    for (int k = 0; k < KINDS; k++)
        if (strcmp(kinds[k].name, name) == 0)
            kinds[k].run(self);
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    host self = { .libcuda = NULL };
    char directory[200];
    int compiles = COMPILES, starts = STARTS;
    if (argc == 5 && strcmp(argv[1], "--process") == 0) {
        self.libcuda = argv[3];
        self.directory = argv[4];
        return run_here(argv[2], &self);
    }
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        int number = atoi(value);
        if (strcmp(argv[i], "--libcuda") == 0 && value[0] != '\0')
            self.libcuda = value;
        else if (strcmp(argv[i], "--compiles") == 0 && number > 0)
            compiles = number;
        else if (strcmp(argv[i], "--starts") == 0 && number > 0)
            starts = number;
        else
            check(false, argv[i], "usage: bench_latency [--libcuda PATH] [--compiles N] [--starts N]");
    }
    if (self.libcuda == NULL)
        self.libcuda = noop_path();
    /* What would be one more place to look at, or one more file to write. */
    for (const char *const *name = (const char *const[]){ "KILN_PACKS", "KILN_SHARED_DIR", "KILN_RECORD", NULL };
         *name != NULL; name++)
        unsetenv(*name);
    check(kiln__file_make_temporary(directory, sizeof(directory)) == 0, "no temporary directory", "see TMPDIR");
    self.directory = directory;
    printf("%s, %s and %s\n", self.libcuda, specs[0], specs[1]);
    run_process(&kinds[PREPARE], &self, -1);
    compare_starts(&self, starts);
    compare_compiles(&self, compiles);
    kiln_test_temp_remove(directory);
    return 0;
}
