/* A host that searches for the fastest geometry of its kernel once, and launches that from then on.
 *
 * Runs on the first GPU, or on the cpu where there is none. Build it with
 *     cc tuned.c $(pkg-config --cflags --libs kiln) -o tuned
 * The argument is the budget of the search in seconds, 2 by default. A search that ends in that time also keeps the
 * winner as wisdom: from then on a kiln_get of the same text takes it, in any process. */
#include <inttypes.h>
#include <kiln/tune.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1 << 20, BYTES = COUNT * sizeof(float) };

static kiln_report report = KILN_INIT(kiln_report);

static void must(kiln_status status, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, kiln_status_text(status), report.message);
        exit(1);
    }
}

/* A result other than 0 ends the search with the results so far. */
static int show(void *data, const kiln_tuning_info *info)
{
    (void)data;
    fprintf(stderr, "\r%.1f s: %" PRIu64 " of %" PRIu64 " variants verified, %" PRIu64 " samples", info->seconds,
            info->verified, info->variants, info->samples);
    return 0;
}

/* The fastest variant's spec, every field set. Its text can be kept, and gives the same kernel anywhere. */
static kiln_spec *fastest(kiln_service *service, const char *text, double seconds)
{
    kiln_spec *asked, *best;
    kiln_tuning *tuning;
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_work work = KILN_INIT(kiln_work);
    kiln_tune_options options = KILN_INIT(kiln_tune_options);
    work.elements = COUNT;
    options.work = &work;
    options.budget_s = seconds;
    options.progress = show;
    must(kiln_spec_parse(&asked, service, text, &report), "spec");
    must(kiln_tune(&tuning, service, asked, &options, &report), "tune");
    must(kiln_tuning_get_info(tuning, &info), "info");
    const kiln_variant_result *winner = info.results[0];
    fprintf(stderr, "\n");
    printf("%s: %.4f ms, %.3f times the default's time\n", winner->spec, winner->median_ms, winner->ratio);
    must(kiln_spec_parse(&best, service, winner->spec, &report), "spec");
    kiln_tuning_free(tuning);
    kiln_spec_free(asked);
    return best;
}

int main(int argc, char **argv)
{
    static float x[COUNT], y[COUNT];
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    kiln_service *service;
    kiln_device *device;
    kiln_kernel *kernel;
    void *memory;
    must(kiln_open(&service, NULL, &report), "open");
    must(kiln_device_open(&device, service, NULL, &report), "device");
    kiln_spec *spec = fastest(service, "op=hardtanh(-1,1) dtype=f32", seconds);
    must(kiln_get_kernel(&kernel, service, spec, &report), "get");

    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i - COUNT / 2) / 1000;
    must(kiln_alloc(&memory, device, BYTES, &report), "alloc");
    must(kiln_upload(device, memory, x, BYTES, &report), "copy");
    must(kiln_launch_n(kernel, COUNT, &memory, 1, (const void *[]){ memory }, 1, NULL, &report), "launch");
    must(kiln_sync(device, &report), "sync");
    must(kiln_download(device, y, memory, BYTES, &report), "copy");
    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += y[i] != (x[i] < -1 ? -1 : x[i] > 1 ? 1 : x[i]);
    printf("%d of %d results are wrong\n", wrong, (int)COUNT);

    kiln_free(device, memory);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    kiln_close(service);
    return wrong != 0;
}
