/* What a compile worker costs: bench_worker [ROUNDS]. Compiles one unit for sm_90 in this process and in a warm
 * worker by turns, then starts workers anew, and prints medians. Needs NVRTC. */
#include "gpu/cuda.h"
#include "jit/worker/workers.h"
#include "os/cpu.h"
#include "spec/unit.h"
#include "support/fields.h"
#include "tune/statistics.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200, COLD_ROUNDS = 20, ROUNDS_MAX = 10000 };

static double times[4][ROUNDS_MAX];

static kiln__unit *make_unit(kiln__catalog *catalog)
{
    kiln__fields spec, full;
    kiln__target target;
    kiln__unit *unit = NULL;
    const char *text = "op=hardsigmoid dtype=f32 target=sm_90";
    if (kiln__catalog_init(catalog, NULL) != KILN_OK || !kiln__target_parse("sm_90", 5, &target))
        return NULL;
    if (kiln_test_fields(&spec, catalog, text, NULL) == KILN_OK &&
        kiln__spec_resolve(&full, &spec, &target, NULL) == KILN_OK)
        kiln__unit_make(&unit, &full, NULL);
    return unit;
}

static kiln__compiler *open_compiler(void)
{
    const kiln__workers_options options = {
        .isolate = KILN_ISOLATE_AUTO, .nvrtc = getenv("KILN_NVRTC"), .memory_bytes = (uint64_t)4 << 30, .time_ms = 60000
    };
    return kiln__workers_open(kiln__cuda_compiler_open(options.nvrtc, NULL), &options, NULL);
}

/* Milliseconds, or the end of the program. */
static double compile(kiln__compiler *compiler, kiln__unit *unit, bool outside)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__image image;
    unit->foreign = outside;
    uint64_t start = kiln__cpu_now_ns();
    kiln_status status = compiler->vtable->compile(compiler, unit, &image, &report);
    double ms = (double)(kiln__cpu_now_ns() - start) / 1e6;
    if (status != KILN_OK) {
        fprintf(stderr, "bench_worker: %s\n", report.message);
        exit(1);
    }
    kiln__image_fini(&image);
    return ms;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    kiln__catalog catalog;
    kiln__unit *unit = make_unit(&catalog);
    kiln__compiler *compiler = open_compiler();
    if (unit == NULL || compiler == NULL || rounds < 1 || rounds > ROUNDS_MAX)
        return 1;
    compile(compiler, unit, false);
    compile(compiler, unit, true);
    for (int i = 0; i < rounds; i++) {
        times[0][i] = compile(compiler, unit, false);
        times[1][i] = compile(compiler, unit, true);
        times[2][i] = times[1][i] - times[0][i];
    }
    for (int i = 0; i < COLD_ROUNDS; i++) {
        kiln__compiler *cold = open_compiler();
        kiln__toolchain toolchain;
        if (cold == NULL || cold->vtable->open(cold, &toolchain, NULL) != KILN_OK)
            return 1;
        times[3][i] = compile(cold, unit, true);
        cold->vtable->close(cold);
    }
    double here = kiln__median(times[0], (size_t)rounds), there = kiln__median(times[1], (size_t)rounds);
    printf("compile in this process     %8.2f ms\n", here);
    printf("compile in a warm worker    %8.2f ms, %.3f times, %.2f ms more\n", there, there / here,
           kiln__median(times[2], (size_t)rounds));
    printf("start a worker and compile  %8.2f ms\n", kiln__median(times[3], COLD_ROUNDS));
    compiler->vtable->close(compiler);
    kiln__unit_free(unit);
    kiln__catalog_fini(&catalog);
    return 0;
}
