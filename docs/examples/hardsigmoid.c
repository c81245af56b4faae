/* From a line of text to a checked result: open, get, launch, check.
 *
 * Runs on the first GPU, or on the cpu where there is none. Build it with
 *     cc hardsigmoid.c $(pkg-config --cflags --libs kiln) -o hardsigmoid */
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000003, BYTES = COUNT * sizeof(float) }; /* not a multiple of anything: tails need no care */

static kiln_report report = KILN_INIT(kiln_report);

static void must(kiln_status status, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, kiln_status_text(status), report.message);
        exit(1);
    }
}

/* relu6(x + 3) / 6 as PyTorch computes it: a multiplication by the float nearest to 1/6. */
static float expected(float x)
{
    float y = x + 3.0f;
    y = y < 0.0f ? 0.0f : y > 6.0f ? 6.0f : y;
    return y * (1.0f / 6.0f);
}

int main(void)
{
    static float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i % 2001 - 1000) / 125.0f;

    kiln_service *service;
    must(kiln_open(&service, NULL, &report), "open");

    /* The kernel comes from a cache, or a compile of tens of milliseconds. Kiln chooses the open fields. */
    kiln_spec *spec;
    kiln_kernel *kernel;
    must(kiln_spec_parse(&spec, service, "op=hardsigmoid dtype=f32", &report), "spec");
    must(kiln_get_kernel(&kernel, service, spec, &report), "kernel");

    /* Memory of the default device. A program with device memory passes its pointers. */
    kiln_device *device;
    void *x_device, *y_device;
    must(kiln_device_open(&device, service, NULL, &report), "device");
    must(kiln_alloc(&x_device, device, BYTES, &report), "memory");
    must(kiln_alloc(&y_device, device, BYTES, &report), "memory");
    must(kiln_upload(device, x_device, x, BYTES, &report), "copy");

    /* The launch is queued; copying back waits for it. */
    const void *inputs[] = { x_device };
    must(kiln_launch_n(kernel, COUNT, &y_device, 1, inputs, 1, NULL, &report), "launch");
    must(kiln_download(device, y, y_device, BYTES, &report), "copy");

    for (int i = 0; i < COUNT; i++)
        if (y[i] != expected(x[i])) {
            fprintf(stderr, "element %d: hardsigmoid(%g) gave %g, expected %g\n", i, x[i], y[i], expected(x[i]));
            return 1;
        }
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    must(kiln_kernel_get_info(kernel, &info), "info");
    printf("%d elements right on %s (%s, %s)\n", COUNT, info.device, info.spec, info.origin_name);

    kiln_free(device, y_device);
    kiln_free(device, x_device);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    kiln_close(service);
    return 0;
}
