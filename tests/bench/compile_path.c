/* bench_compile_path [ROUNDS]: what Kiln adds to a compile, and what its template text costs.
 *
 * In each round three things are timed, in an order that rotates, all in this process and for sm_90:
 *     kiln   from the text of a spec not seen before to its cubin: parse, look in the stores, compile, publish
 *     bare   NVRTC itself on the very text that Kiln compiles, with the same options, PTX and cubin fetched
 *     add    NVRTC itself on a one-line kernel that adds two arrays, with the same options
 * The bare cubin must equal Kiln's byte for byte. Ratios are medians of each round's own ratio. */
#include "base/alloc.h"
#include "bench/same_nvrtc.h"
#include "os/cpu.h"
#include "support/requesting.h"
#include "tune/statistics.h"
#include <ftw.h>
#include <kiln/kiln.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TARGET "sm_90"

enum { WARMUP = 3 };

static void check(bool good, const char *what, const char *why)
{
    if (good)
        return;
    fprintf(stderr, "bench_compile_path: %s: %s\n", what, why);
    exit(1);
}

/* ---- Kiln */

static double time_kiln(kiln_service *service, const char *text, bytes *cubin)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = NULL;
    kiln_program *program = NULL;
    const void *data = NULL;
    uint64_t begin = kiln__cpu_now_ns();
    check(kiln_spec_parse(&spec, service, text, &report) == KILN_OK, text, report.message);
    check(kiln_test_build_spec(&program, service, spec, &report) == KILN_OK, text, report.message);
    check(kiln_program_section(&data, &cubin->length, program, "cubin") == KILN_OK, text, "no cubin");
    uint64_t end = kiln__cpu_now_ns();
    check(kiln_test_origin(program) == KILN_ORIGIN_COMPILED, text, "it was not compiled for this request");
    cubin->data = malloc(cubin->length);
    check(cubin->data != NULL, text, "out of memory");
    memcpy(cubin->data, data, cubin->length);
    kiln_program_release(program);
    kiln_spec_free(spec);
    kiln_report_clear(&report);
    return (double)(end - begin) / 1e6;
}

static char *source_of(kiln_service *service, const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = NULL;
    char *source = NULL;
    check(kiln_spec_parse(&spec, service, text, &report) == KILN_OK, text, report.message);
    check(kiln_spec_source(&source, spec, &report) == KILN_OK, text, report.message);
    kiln_spec_free(spec);
    return source;
}

/* ---- Rounds */

typedef struct times {
    double *kiln, *bare, *add;
} times;

static void play_round(kiln_service *service, const bare_nvrtc *nvrtc, const char *dtype, unsigned round,
                       const times *out, size_t at)
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
            out->bare[at] = bare_time(nvrtc, source, &theirs);
            break;
        default:
            out->add[at] = bare_time_add(nvrtc);
            break;
        }
    }
    check(ours.length == theirs.length && memcmp(ours.data, theirs.data, ours.length) == 0, text,
          "Kiln's cubin differs from bare NVRTC's");
    free(ours.data);
    free(theirs.data);
    kiln_text_free(source);
}

/* Of values[i], or of values[i] / divisors[i]. */
static double median(const double *values, const double *divisors, size_t count)
{
    double *samples = malloc(count * sizeof(*samples));
    check(samples != NULL, "median", "out of memory");
    for (size_t i = 0; i < count; i++)
        samples[i] = divisors != NULL ? values[i] / divisors[i] : values[i];
    double middle = kiln__median(samples, count);
    free(samples);
    return middle;
}

static void measure(kiln_service *service, const bare_nvrtc *nvrtc, const char *dtype, unsigned rounds, const times *t)
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
    kiln_options options = KILN_INIT(kiln_options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *service = NULL;
    bare_nvrtc nvrtc = { 0 };
    char *option_text = NULL;
    options.cache_dir = store;
    check(kiln_open(&service, &options, &report) == KILN_OK, "kiln_open", report.message);
    same_open(&nvrtc, TARGET, &option_text);

    double *values = calloc((size_t)rounds * 3, sizeof(*values));
    check(values != NULL, "samples", "out of memory");
    times t = { values, values + rounds, values + 2 * rounds };
    printf("medians of %ld rounds, milliseconds; goals: kiln/bare at most 1.10, kiln/add at most 2.00\n", rounds);
    printf("%-5s %9s %9s %9s %11s %10s\n", "dtype", "kiln", "bare", "add", "kiln/bare", "kiln/add");
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        measure(service, &nvrtc, dtypes[i], (unsigned)rounds, &t);
    free(values);
    kiln__free(option_text);
    kiln_close(service);
    return 0;
}
