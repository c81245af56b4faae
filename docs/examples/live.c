/* A host that never waits for a compiler: it computes for itself until there is a kernel, launches whatever is the
 * best one from then on, and lets Kiln search for the fastest geometry meanwhile.
 *
 * Runs on the first GPU, or on the cpu where there is none. Build it with
 *     cc live.c $(pkg-config --cflags --libs kiln) -o live
 * The argument is the budget of the search in seconds, 2 by default. */
#include <inttypes.h>
#include <kiln/tune.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1 << 18, BYTES = COUNT * sizeof(float) };

static kiln_report report = KILN_INIT(kiln_report);
static float x[COUNT], y[COUNT];

static void must(kiln_status status, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, kiln_status_text(status), report.message);
        exit(1);
    }
}

static float relu6(float value)
{
    return value < 0 ? 0 : value > 6 ? 6 : value;
}

static void compute_here(void)
{
    for (int i = 0; i < COUNT; i++)
        y[i] = relu6(x[i]);
}

/* One step of the host's work. Returns 1 if a kernel did it. */
static int step(kiln_live *live, kiln_device *device, char *memory)
{
    const void *in[] = { memory };
    void *out = memory + BYTES;
    kiln_kernel *kernel = kiln_live_kernel(live); /* stays until kiln_live_close, also after a swap */
    if (kernel == NULL) {
        compute_here();
        return 0;
    }
    must(kiln_upload(device, memory, x, BYTES, &report), "copy");
    must(kiln_launch_n(kernel, COUNT, &out, 1, in, 1, NULL, &report), "launch");
    must(kiln_sync(device, &report), "sync");
    must(kiln_download(device, y, memory + BYTES, BYTES, &report), "copy");
    return 1;
}

static int count_wrong(void)
{
    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += y[i] != relu6(x[i]);
    return wrong;
}

int main(int argc, char **argv)
{
    kiln_service *service;
    kiln_device *device;
    kiln_spec *spec;
    kiln_live *live;
    void *memory;
    uint64_t here = 0, launched = 0;
    int wrong = 0;
    kiln_live_info info = KILN_INIT(kiln_live_info);
    kiln_live_options options = KILN_INIT(kiln_live_options);
    kiln_work work = KILN_INIT(kiln_work);
    kiln_tune_options tune = KILN_INIT(kiln_tune_options);
    work.elements = COUNT;
    tune.work = &work;
    tune.budget_s = argc > 1 ? atof(argv[1]) : 2;
    options.tune = &tune;
    must(kiln_open(&service, NULL, &report), "open");
    must(kiln_device_open(&device, service, NULL, &report), "device");
    must(kiln_alloc(&memory, device, 2 * (size_t)BYTES, &report), "alloc");
    must(kiln_spec_parse(&spec, service, "op=relu6 dtype=f32", &report), "spec");
    must(kiln_live_open(&live, service, spec, &options, &report), "live");

    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i - COUNT / 2) / 10000;
    do {
        kiln_live_state before = info.state;
        if (step(live, device, memory))
            launched++;
        else
            here++;
        wrong += count_wrong();
        must(kiln_live_get_info(live, &info), "info");
        if (info.state != before)
            printf("%-8s after %" PRIu64 " steps here and %" PRIu64 " launches: %s\n", info.state_name, here, launched,
                   info.spec);
    } while (info.state < KILN_LIVE_SETTLED);
    if (info.state == KILN_LIVE_FAILED)
        printf("failed: %s\n", info.problem);
    printf("%d results are wrong\n", wrong);

    kiln_live_close(live);
    kiln_free(device, memory);
    kiln_spec_free(spec);
    kiln_close(service);
    return wrong != 0 || info.state == KILN_LIVE_FAILED;
}
