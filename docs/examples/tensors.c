/* An op on tensors: a matrix that is stored transposed, times a scalar, plus a row for all.
 *
 * Runs on the first GPU, or on the cpu where there is none. Build it with
 *     cc tensors.c $(pkg-config --cflags --libs kiln) -o tensors */
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 300, COLS = 200, COUNT = ROWS * COLS };

static kiln_report report = KILN_INIT(kiln_report);
static kiln_device *device;

static void must(kiln_status status, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, kiln_status_text(status), report.message);
        exit(1);
    }
}

/* A copy of an array in memory of the device. */
static void *put(const float *array, size_t count)
{
    void *memory;
    must(kiln_alloc(&memory, device, count * sizeof(float), &report), "memory");
    must(kiln_upload(device, memory, array, count * sizeof(float), &report), "copy");
    return memory;
}

int main(void)
{
    static float x[COUNT], bias[COLS], result[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i % 1000);
    for (int i = 0; i < COLS; i++)
        bias[i] = (float)i;

    kiln_service *service;
    must(kiln_open(&service, NULL, &report), "open");
    must(kiln_device_open(&device, service, NULL, &report), "device");

    /* Element (i, j) of x is stored at i + ROWS * j. The row of bias stands for every row. */
    const int64_t shape[] = { ROWS, COLS }, turned[] = { 1, ROWS }, row[] = { COLS };
    const kiln_tensor out = { put(result, COUNT), NULL, KILN_F32, 2, shape, NULL };
    const kiln_tensor ins[] = { { put(x, COUNT), NULL, KILN_F32, 2, shape, turned },
                                { put(bias, COLS), NULL, KILN_F32, 1, row, NULL } };
    const double scale = 0.5;
    must(kiln_apply(service, "op=x * ?scale + bias", &out, 1, ins, 2, &scale, 1, NULL, &report), "apply");
    must(kiln_download(device, result, out.data, sizeof(result), &report), "copy");

    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) {
            float want = x[i + ROWS * j] * 0.5f + bias[j];
            if (result[i * COLS + j] != want) {
                fprintf(stderr, "element (%d, %d): %g, expected %g\n", i, j, result[i * COLS + j], want);
                return 1;
            }
        }
    printf("%d elements are right\n", COUNT);
    kiln_free(device, out.data);
    kiln_free(device, ins[0].data);
    kiln_free(device, ins[1].data);
    kiln_close(service);
    return 0;
}
