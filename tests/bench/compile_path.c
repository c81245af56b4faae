/* bench_compile_path [ROUNDS]: what Kiln adds to a compile, and what its template text costs.
 *
 * In each round three things are timed, in an order that rotates, all in this process and for sm_90:
 *     kiln   from the text of a spec not seen before to its cubin: parse, look in the stores, compile, publish
 *     bare   NVRTC itself on the very text that Kiln compiles, with the same options, PTX and cubin fetched
 *     add    NVRTC itself on a one-line kernel that adds two arrays, with the same options
 * The bare cubin must equal Kiln's byte for byte. Ratios are medians of each round's own ratio. */
#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include "os/cpu.h"
#include <dlfcn.h>
#include <ftw.h>
#include <kiln/kiln.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TARGET "sm_90"

enum { WARMUP = 3, OPTIONS_MAX = 32 };

static const char add_kernel[] = "extern \"C\" __global__ void add(float *z, const float *x, const float *y, int n) "
                                 "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) z[i] = x[i] + y[i]; }\n";

static void check(bool good, const char *what, const char *why)
{
    if (good)
        return;
    fprintf(stderr, "bench_compile_path: %s: %s\n", what, why);
    exit(1);
}

/* ---- NVRTC without Kiln */

typedef struct bare {
    int (*create)(void **program, const char *source, const char *name, int headers, const char *const *texts,
                  const char *const *names);
    int (*compile)(void *program, int count, const char *const *options);
    int (*ptx_size)(void *program, size_t *size);
    int (*ptx)(void *program, char *ptx);
    int (*cubin_size)(void *program, size_t *size);
    int (*cubin)(void *program, char *cubin);
    int (*destroy)(void **program);
    const char *(*error)(int code);
    char *option_text;
    const char *options[OPTIONS_MAX];
    int option_count;
} bare;

static void take_symbol(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    check(symbol != NULL, "NVRTC has no symbol", name);
    memcpy(out, &symbol, sizeof(symbol));
}

/* The library that Kiln finds and the options that it uses. */
static void open_bare(bare *out)
{
    kiln_report report = KILN_REPORT_INIT;
    kiln__toolchain toolchain;
    kiln__target target;
    kiln__text options = { 0 };
    kiln__compiler *compiler = kiln__nvrtc_open(getenv("KILN_NVRTC"), NULL);
    check(compiler != NULL && kiln__target_parse(TARGET, strlen(TARGET), &target), "NVRTC", "out of memory");
    check(compiler->vtable->identify(compiler, &toolchain, &report) == KILN_OK, "NVRTC", report.message);
    compiler->vtable->options(compiler, &target, &options);
    out->option_text = kiln__text_take(&options);
    check(out->option_text != NULL, "options", "out of memory");
    for (char *rest = NULL, *word = strtok_r(out->option_text, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        check(out->option_count < OPTIONS_MAX, "options", "there are too many");
        out->options[out->option_count++] = word;
    }
    printf("%s, %s\n", toolchain.path, toolchain.version);

    void *library = dlopen(toolchain.path, RTLD_NOW | RTLD_LOCAL);
    check(library != NULL, "NVRTC", toolchain.path);
    take_symbol(library, "nvrtcCreateProgram", &out->create);
    take_symbol(library, "nvrtcCompileProgram", &out->compile);
    take_symbol(library, "nvrtcGetPTXSize", &out->ptx_size);
    take_symbol(library, "nvrtcGetPTX", &out->ptx);
    take_symbol(library, "nvrtcGetCUBINSize", &out->cubin_size);
    take_symbol(library, "nvrtcGetCUBIN", &out->cubin);
    take_symbol(library, "nvrtcDestroyProgram", &out->destroy);
    take_symbol(library, "nvrtcGetErrorString", &out->error);
    compiler->vtable->close(compiler);
}

typedef struct bytes {
    char *data;
    size_t length;
} bytes;

static void expect(const bare *nvrtc, const char *call, int code)
{
    check(code == 0, call, code == 0 ? "" : nvrtc->error(code));
}

/* Milliseconds from source to PTX and cubin. */
static double time_bare(const bare *nvrtc, const char *source, bytes *cubin)
{
    void *program = NULL;
    bytes ptx = { NULL, 0 };
    uint64_t begin = kiln__cpu_now_ns();
    expect(nvrtc, "nvrtcCreateProgram", nvrtc->create(&program, source, "kiln.cu", 0, NULL, NULL));
    expect(nvrtc, "nvrtcCompileProgram", nvrtc->compile(program, nvrtc->option_count, nvrtc->options));
    expect(nvrtc, "nvrtcGetPTXSize", nvrtc->ptx_size(program, &ptx.length));
    expect(nvrtc, "nvrtcGetCUBINSize", nvrtc->cubin_size(program, &cubin->length));
    ptx.data = malloc(ptx.length);
    cubin->data = malloc(cubin->length);
    check(ptx.data != NULL && cubin->data != NULL, "NVRTC's result", "out of memory");
    expect(nvrtc, "nvrtcGetPTX", nvrtc->ptx(program, ptx.data));
    expect(nvrtc, "nvrtcGetCUBIN", nvrtc->cubin(program, cubin->data));
    expect(nvrtc, "nvrtcDestroyProgram", nvrtc->destroy(&program));
    uint64_t end = kiln__cpu_now_ns();
    free(ptx.data);
    return (double)(end - begin) / 1e6;
}

static double time_add(const bare *nvrtc)
{
    bytes cubin;
    double ms = time_bare(nvrtc, add_kernel, &cubin);
    free(cubin.data);
    return ms;
}

/* ---- Kiln */

static double time_kiln(kiln_service *service, const char *text, bytes *cubin)
{
    kiln_report report = KILN_REPORT_INIT;
    kiln_spec *spec = NULL;
    kiln_artifact *artifact = NULL;
    const void *data = NULL;
    uint64_t begin = kiln__cpu_now_ns();
    check(kiln_spec_parse(&spec, service, text, &report) == KILN_OK, text, report.message);
    check(kiln_build(&artifact, service, spec, &report) == KILN_OK, text, report.message);
    check(kiln_artifact_section(artifact, "cubin", &data, &cubin->length) == KILN_OK, text, "no cubin");
    uint64_t end = kiln__cpu_now_ns();
    check(kiln_artifact_origin(artifact) == KILN_ORIGIN_COMPILED, text, "it was not compiled for this request");
    cubin->data = malloc(cubin->length);
    check(cubin->data != NULL, text, "out of memory");
    memcpy(cubin->data, data, cubin->length);
    kiln_artifact_free(artifact);
    kiln_spec_free(spec);
    kiln_report_clear(&report);
    return (double)(end - begin) / 1e6;
}

static char *source_of(kiln_service *service, const char *text)
{
    kiln_report report = KILN_REPORT_INIT;
    kiln_spec *spec = NULL;
    char *source = NULL;
    check(kiln_spec_parse(&spec, service, text, &report) == KILN_OK, text, report.message);
    check(kiln_spec_source(&source, service, spec, &report) == KILN_OK, text, report.message);
    kiln_spec_free(spec);
    return source;
}

/* ---- Rounds */

typedef struct times {
    double *kiln, *bare, *add;
} times;

static void play_round(kiln_service *service, const bare *nvrtc, const char *dtype, unsigned round, const times *out,
                       size_t at)
{
    char text[128];
    bytes ours = { NULL, 0 }, theirs = { NULL, 0 };
    snprintf(text, sizeof(text), "op=hardtanh(-1,%u) dtype=%s target=" TARGET, round + 2, dtype);
    char *source = source_of(service, text);
    for (unsigned i = 0; i < 3; i++) {
        switch ((round + i) % 3) {
        case 0:
            out->kiln[at] = time_kiln(service, text, &ours);
            break;
        case 1:
            out->bare[at] = time_bare(nvrtc, source, &theirs);
            break;
        default:
            out->add[at] = time_add(nvrtc);
            break;
        }
    }
    check(ours.length == theirs.length && memcmp(ours.data, theirs.data, ours.length) == 0, text,
          "Kiln's cubin differs from bare NVRTC's");
    free(ours.data);
    free(theirs.data);
    kiln_text_free(source);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of values[i], or of values[i] / divisors[i]. */
static double median(const double *values, const double *divisors, size_t count)
{
    double *sorted = malloc(count * sizeof(*sorted));
    check(sorted != NULL, "median", "out of memory");
    for (size_t i = 0; i < count; i++)
        sorted[i] = divisors != NULL ? values[i] / divisors[i] : values[i];
    qsort(sorted, count, sizeof(*sorted), compare);
    double middle = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    free(sorted);
    return middle;
}

static void measure(kiln_service *service, const bare *nvrtc, const char *dtype, unsigned rounds, const times *t)
{
    for (unsigned r = 0; r < WARMUP; r++)
        play_round(service, nvrtc, dtype, r, t, 0);
    for (unsigned r = 0; r < rounds; r++)
        play_round(service, nvrtc, dtype, WARMUP + r, t, r);
    printf("%-5s %9.2f %9.2f %9.2f %11.3f %10.3f\n", dtype, median(t->kiln, NULL, rounds),
           median(t->bare, NULL, rounds), median(t->add, NULL, rounds), median(t->kiln, t->bare, rounds),
           median(t->kiln, t->add, rounds));
    fflush(stdout);
}

static char store[] = "/tmp/kiln-bench.XXXXXX";

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static void remove_store(void)
{
    nftw(store, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(int argc, char **argv)
{
    static const char *const dtypes[] = { "f32", "f16", "bf16", "f64" };
    char *end = NULL;
    long rounds = argc > 1 ? strtol(argv[1], &end, 10) : 30;
    if (argc > 2 || (end != NULL && *end != '\0') || rounds < 1 || rounds > 100000) {
        fprintf(stderr, "usage: bench_compile_path [ROUNDS]\n");
        return 2;
    }
    check(mkdtemp(store) != NULL && atexit(remove_store) == 0, store, "cannot make a temporary directory");
    kiln_options options = KILN_OPTIONS_INIT;
    kiln_report report = KILN_REPORT_INIT;
    kiln_service *service = NULL;
    bare nvrtc = { 0 };
    options.cache_dir = store;
    check(kiln_open(&service, &options, &report) == KILN_OK, "kiln_open", report.message);
    open_bare(&nvrtc);

    double *values = calloc((size_t)rounds * 3, sizeof(*values));
    check(values != NULL, "samples", "out of memory");
    times t = { values, values + rounds, values + 2 * rounds };
    printf("medians of %ld rounds, milliseconds; goals: kiln/bare at most 1.10, kiln/add at most 2.00\n", rounds);
    printf("%-5s %9s %9s %9s %11s %10s\n", "dtype", "kiln", "bare", "add", "kiln/bare", "kiln/add");
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        measure(service, &nvrtc, dtypes[i], (unsigned)rounds, &t);
    free(values);
    kiln__free(nvrtc.option_text);
    kiln_close(service);
    return 0;
}
