/* A small interpreter: a program of operations, read at run time, each launched by its text.
 *
 * Runs on the first GPU, or on the cpu where there is none. Build it with
 *     cc interpreter.c $(pkg-config --cflags --libs kiln) -o interpreter */
#include <inttypes.h>
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 100003, BYTES = COUNT * sizeof(float), RUNS = 100 };

static kiln_report report = KILN_INIT(kiln_report);

static void must(kiln_status status, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, kiln_status_text(status), report.message);
        exit(1);
    }
}

/* Launches one operation, in place. The service finds the kernel by the text, so the host keeps and releases none. */
static kiln_status apply(kiln_service *service, const char *op, uint64_t n, void *memory, void *stream)
{
    char text[64];
    const void *inputs[] = { memory };
    snprintf(text, sizeof(text), "op=%s dtype=f32", op);
    return kiln_call(service, text, n, &memory, 1, inputs, 1, stream, &report);
}

int main(void)
{
    static const char *const program[] = { "hardtanh(-2,2)", "hardsigmoid", "relu6" };
    enum { STEPS = sizeof(program) / sizeof(program[0]) };
    static float x[COUNT];
    kiln_service *service;
    kiln_device *device;
    void *memory;
    must(kiln_open(&service, NULL, &report), "open");
    must(kiln_device_open(&device, service, NULL, &report), "device");
    must(kiln_alloc(&memory, device, BYTES, &report), "memory");

    /* With n = 0 a call only gets the kernel. So no later launch waits for a compile, and a stream may be captured. */
    for (int i = 0; i < STEPS; i++)
        must(apply(service, program[i], 0, NULL, NULL), program[i]);

    for (int run = 0; run < RUNS; run++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = (float)((i + run) % 801 - 400) / 100.0f;
        must(kiln_upload(device, memory, x, BYTES, &report), "copy");
        for (int i = 0; i < STEPS; i++)
            must(apply(service, program[i], COUNT, memory, NULL), program[i]);
        must(kiln_download(device, x, memory, BYTES, &report), "copy");
        for (int i = 0; i < COUNT; i++) {
            float y = (float)((i + run) % 801 - 400) / 100.0f;
            y = y < -2.0f ? -2.0f : y > 2.0f ? 2.0f : y;
            y = (y + 3.0f) * (1.0f / 6.0f); /* within 0 and 1: relu6 leaves it as it is */
            if (x[i] != y) {
                fprintf(stderr, "element %d: got %g, expected %g\n", i, x[i], y);
                return 1;
            }
        }
    }

    kiln_stats stats = KILN_INIT(kiln_stats);
    must(kiln_stats_get(service, &stats), "stats");
    printf("%d launches of %d kernels, %" PRIu64 " of them looked up\n", RUNS * STEPS, STEPS, stats.gets);
    kiln_free(device, memory);
    kiln_close(service);
    return stats.gets == STEPS ? 0 : 1;
}
