/* NVRTC without Kiln, for benchmarks that say what Kiln adds to it. */
#ifndef KILN_TESTS_BENCH_BARE_NVRTC_H
#define KILN_TESTS_BENCH_BARE_NVRTC_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BARE_OPTIONS_MAX = 32 };

typedef struct bare_nvrtc {
    int (*version)(int *major, int *minor);
    int (*create)(void **program, const char *source, const char *name, int headers, const char *const *texts,
                  const char *const *names);
    int (*compile)(void *program, int count, const char *const *options);
    int (*ptx_size)(void *program, size_t *size);
    int (*ptx)(void *program, char *ptx);
    int (*cubin_size)(void *program, size_t *size);
    int (*cubin)(void *program, char *cubin);
    int (*destroy)(void **program);
    const char *(*error)(int code);
    const char *options[BARE_OPTIONS_MAX];
    int option_count;
} bare_nvrtc;

typedef struct bytes {
    char *data;
    size_t length;
} bytes;

/* Ends the program unless `good`. */
static void bare_check(bool good, const char *what, const char *why)
{
    if (good)
        return;
    fprintf(stderr, "bare NVRTC: %s: %s\n", what, why);
    exit(1);
}

static void bare_symbol(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    bare_check(symbol != NULL, "there is no symbol", name);
    memcpy(out, &symbol, sizeof(symbol));
}

static void bare_expect(const bare_nvrtc *nvrtc, const char *call, int code)
{
    bare_check(code == 0, call, code == 0 ? "" : nvrtc->error(code));
}

/* Its builtins, which the loader does not find where NVRTC is no library of the system. */
static void bare_open_builtins(const bare_nvrtc *nvrtc, const char *path)
{
    char name[4096];
    int major = 0, minor = 0;
    const char *slash = strrchr(path, '/');
    bare_expect(nvrtc, "nvrtcVersion", nvrtc->version(&major, &minor));
    snprintf(name, sizeof(name), "%.*slibnvrtc-builtins.so.%d.%d", slash != NULL ? (int)(slash + 1 - path) : 0, path,
             major, minor);
    dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

/* Opens the library. `options` are words with blanks between; they are taken apart and must outlive *out. */
static void bare_open(bare_nvrtc *out, const char *path, char *options)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    bare_check(library != NULL, "cannot be opened", path);
    bare_symbol(library, "nvrtcVersion", &out->version);
    bare_symbol(library, "nvrtcCreateProgram", &out->create);
    bare_symbol(library, "nvrtcCompileProgram", &out->compile);
    bare_symbol(library, "nvrtcGetPTXSize", &out->ptx_size);
    bare_symbol(library, "nvrtcGetPTX", &out->ptx);
    bare_symbol(library, "nvrtcGetCUBINSize", &out->cubin_size);
    bare_symbol(library, "nvrtcGetCUBIN", &out->cubin);
    bare_symbol(library, "nvrtcDestroyProgram", &out->destroy);
    bare_symbol(library, "nvrtcGetErrorString", &out->error);
    bare_open_builtins(out, path);
    out->option_count = 0;
    for (char *rest = NULL, *word = strtok_r(options, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        bare_check(out->option_count < BARE_OPTIONS_MAX, "options", "there are too many");
        out->options[out->option_count++] = word;
    }
}

/* From source to cubin, which the caller frees, and to PTX, which is thrown away. */
static void bare_compile(const bare_nvrtc *nvrtc, const char *source, bytes *cubin)
{
    void *program = NULL;
    bytes ptx = { NULL, 0 };
    bare_expect(nvrtc, "nvrtcCreateProgram", nvrtc->create(&program, source, "kiln.cu", 0, NULL, NULL));
    bare_expect(nvrtc, "nvrtcCompileProgram", nvrtc->compile(program, nvrtc->option_count, nvrtc->options));
    bare_expect(nvrtc, "nvrtcGetPTXSize", nvrtc->ptx_size(program, &ptx.length));
    bare_expect(nvrtc, "nvrtcGetCUBINSize", nvrtc->cubin_size(program, &cubin->length));
    ptx.data = malloc(ptx.length);
    cubin->data = malloc(cubin->length);
    bare_check(ptx.data != NULL && cubin->data != NULL, "result", "out of memory");
    bare_expect(nvrtc, "nvrtcGetPTX", nvrtc->ptx(program, ptx.data));
    bare_expect(nvrtc, "nvrtcGetCUBIN", nvrtc->cubin(program, cubin->data));
    bare_expect(nvrtc, "nvrtcDestroyProgram", nvrtc->destroy(&program));
    free(ptx.data);
}

/* Milliseconds from source to PTX and cubin. */
static inline double bare_time(const bare_nvrtc *nvrtc, const char *source, bytes *cubin)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    bare_compile(nvrtc, source, cubin);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6;
}

/* Of a one-line kernel that adds two arrays. */
static inline double bare_time_add(const bare_nvrtc *nvrtc)
{
    static const char source[] = "extern \"C\" __global__ void add(float *z, const float *x, const float *y, int n) "
                                 "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) z[i] = x[i] + y[i]; }\n";
    bytes cubin;
    double ms = bare_time(nvrtc, source, &cubin);
    free(cubin.data);
    return ms;
}

#endif
