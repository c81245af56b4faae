/* What the real driver says to images that are not right: another target's, truncated, damaged, foreign. Each case runs
 * in a process of its own, straight on libcuda, then the same bytes go through Kiln's store, which must refuse the
 * damaged ones before the driver sees them. Needs a GPU. Prints a table; exits 1 only if Kiln lets one through. */
#include "support/requesting.h"
#include <dlfcn.h>
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "must.h" /* last: others have parameters of the name report */

/* ISO C has no conversion from dlsym's result to a function pointer; their bytes are the same by POSIX. */
static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "FAILED no %s in libcuda\n", name);
        exit(1);
    }
    memcpy(function, &found, sizeof(found));
}

/* Loads and launches on n = 4 elements with the driver alone; prints what each call answered. */
static int try_image(const void *image)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return 1;
    int (*init)(unsigned), (*retain)(void **, int), (*set)(void *), (*sync)(void), (*name)(int, const char **);
    int (*load)(void **, const void *, void *, void *, unsigned, void *, void *, unsigned);
    int (*get)(void **, void *, const char *), (*alloc)(unsigned long long *, size_t);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **);
    find(library, "cuInit", &init);
    find(library, "cuDevicePrimaryCtxRetain", &retain);
    find(library, "cuCtxSetCurrent", &set);
    find(library, "cuCtxSynchronize", &sync);
    find(library, "cuGetErrorName", &name);
    find(library, "cuLibraryLoadData", &load);
    find(library, "cuLibraryGetKernel", &get);
    find(library, "cuMemAlloc_v2", &alloc);
    find(library, "cuLaunchKernel", &launch);
    void *context, *module = NULL, *kernel = NULL;
    unsigned long long memory = 0, n = 4;
    if (init(0) != 0 || retain(&context, 0) != 0 || set(context) != 0 || alloc(&memory, 4096) != 0)
        return 1;
    const char *call = "cuLibraryLoadData", *text = "";
    int code = load(&module, image, NULL, NULL, 0, NULL, NULL, 0);
    if (code == 0)
        call = "cuLibraryGetKernel", code = get(&kernel, module, "kiln_scalar");
    unsigned long long input = memory + 2048;
    void *arguments[] = { &memory, &input, &n };
    if (code == 0)
        call = "cuLaunchKernel", code = launch(kernel, 1, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL);
    if (code == 0)
        call = "cuCtxSynchronize", code = sync();
    name(code, &text);
    printf("%-18s %3d %s\n", call, code, text);
    return 0;
}

static void driver_says(const char *label, const void *image, size_t length)
{
    /* Room behind the image: the driver is told no length and may read on. */
    char *copy = calloc(1, length + (1 << 20));
    if (copy == NULL)
        exit(2);
    memcpy(copy, image, length);
    printf("driver  %-28s ", label);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int failed = try_image(copy);
        fflush(stdout);
        _exit(failed);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("killed by signal %d\n", WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        printf("could not be tried\n");
    free(copy);
}

static const void *cubin(kiln_service *service, const char *target, kiln_program **program, size_t *length)
{
    char text[128];
    kiln_spec *spec;
    const void *data;
    snprintf(text, sizeof(text), "op=hardsigmoid dtype=f32 target=%s", target);
    must(kiln_spec_parse(&spec, service, text, &report), text);
    must(kiln_test_build_spec(program, service, spec, &report), text);
    must(kiln_program_section(&data, length, *program, "cubin"), "cubin");
    kiln_spec_free(spec);
    return data;
}

static void driver_table(kiln_service *service, const char *target, const char *const *others)
{
    kiln_program *program;
    char label[64];
    size_t length;
    const char *image = cubin(service, target, &program, &length);
    driver_says("intact", image, length);
    for (int percent = 10; percent < 100; percent += 20) {
        snprintf(label, sizeof(label), "truncated to %d%%", percent);
        driver_says(label, image, length * (size_t)percent / 100);
    }
    char *bad = malloc(length);
    if (bad == NULL)
        exit(2);
    for (size_t at = length / 8; at < length; at += length / 8) {
        memcpy(bad, image, length);
        bad[at] ^= 0x10;
        snprintf(label, sizeof(label), "bit flipped at byte %zu", at);
        driver_says(label, bad, length);
    }
    memset(bad, 0, length);
    driver_says("zeros", bad, length);
    FILE *self = fopen("/proc/self/exe", "rb");
    if (self != NULL && fread(bad, 1, length, self) == length)
        driver_says("foreign: an x86-64 program", bad, length);
    if (self != NULL)
        fclose(self);
    free(bad);
    kiln_program_release(program);
    for (; *others != NULL; others++) {
        image = cubin(service, *others, &program, &length);
        snprintf(label, sizeof(label), "built for %s", *others);
        driver_says(label, image, length);
        kiln_program_release(program);
    }
}

/* Kiln's own answer to a kernel of another target. */
static void kiln_says(kiln_service *service, const char *target)
{
    char text[128];
    kiln_spec *spec;
    kiln_kernel *kernel;
    kiln_stats stats = KILN_INIT(kiln_stats);
    snprintf(text, sizeof(text), "op=hardsigmoid dtype=f32 target=%s", target);
    must(kiln_spec_parse(&spec, service, text, &report), text);
    kiln_stats_get(service, &stats);
    uint64_t before = stats.ptx_loads;
    kiln_status status = kiln_get_kernel(&kernel, service, spec, &report);
    kiln_stats_get(service, &stats);
    printf("kiln    built for %-18s %s%s %s\n", target, kiln_status_name(status),
           stats.ptx_loads > before ? " (from its PTX)" : "", status != KILN_OK ? report.message : "");
    if (status == KILN_OK)
        kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    kiln_report_clear(&report);
}

int main(void)
{
    static const char *const others[] = { "sm_75", "sm_80", "sm_100", "sm_120", NULL };
    kiln_service *service;
    /* The driver must not be up in this process before the children have had their turn: only builds until then. */
    must(kiln_open(&service, NULL, &report), "open");
    driver_table(service, "sm_90", others);
    fflush(stdout);
    for (int i = 0; others[i] != NULL; i++)
        kiln_says(service, others[i]);
    kiln_says(service, "sm_90");
    kiln_close(service);
    return 0;
}
