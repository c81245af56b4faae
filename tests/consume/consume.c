/* An outside C program: gets a kernel for the cpu, launches it and checks every value. With the argument "isolated":
 * lets a compile worker build a kernel for a GPU. */
#include <kiln/kiln.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 1000 };

static int values_are_right(const float *x, const float *y)
{
    for (int i = 0; i < COUNT; i++) {
        float want = x[i] < -1.0f ? -1.0f : x[i] > 1.0f ? 1.0f : x[i];
        if (y[i] != want) {
            fprintf(stderr, "element %d: got %g, want %g\n", i, (double)y[i], (double)want);
            return 0;
        }
    }
    return 1;
}

static kiln_status compute(kiln_service *service, const float *x, float *y, kiln_report *report)
{
    kiln_spec *spec = NULL;
    kiln_kernel *kernel = NULL;
    const void *inputs[1] = { x };
    kiln_status status = kiln_spec_parse(&spec, service, "op=hardtanh(-1,1) dtype=f32 target=cpu", report);
    if (!status)
        status = kiln_get_kernel(&kernel, service, spec, report);
    if (!status)
        status = kiln_launch_n(kernel, COUNT, (void *[]){ y }, 1, inputs, 1, NULL, report);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    return status;
}

/* Without NVRTC the worker says that there is none: it was found and it answered. */
static int build_isolated(void)
{
    kiln_options options = KILN_INIT(kiln_options);
    options.isolate = KILN_ISOLATE_ALWAYS;
    options.cache_dir = "";
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *service = NULL;
    kiln_spec *spec = NULL;
    kiln_program *program = NULL;
    kiln_request request = KILN_INIT(kiln_request);
    kiln_status status = kiln_open(&service, &options, &report);
    if (!status)
        status = kiln_spec_parse(&spec, service, "op=hardtanh(-1,1) dtype=f32 target=sm_90", &report);
    request.spec = spec;
    request.goal = KILN_BUILD;
    if (!status)
        status = kiln_get(&program, service, &request, &report);
    printf("kiln %s from C, in a worker: %s%s\n", kiln_version(), status ? "" : "compiled", report.message);
    kiln_program_release(program);
    kiln_spec_free(spec);
    kiln_close(service);
    kiln_report_clear(&report);
    return status && status != KILN_ENOCOMPILER;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "isolated") == 0)
        return build_isolated();
    static float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i - COUNT / 2) / 100.0f;

    kiln_options options = KILN_INIT(kiln_options);
    options.device = "cpu";
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *service = NULL;
    kiln_status status = kiln_open(&service, &options, &report);
    if (!status)
        status = compute(service, x, y, &report);
    if (status)
        fprintf(stderr, "%s: %s\n", kiln_status_name(status), report.message);
    kiln_close(service);
    kiln_report_clear(&report);
    if (status || !values_are_right(x, y))
        return 1;
    printf("kiln %s from C: %d values are right\n", kiln_version(), (int)COUNT);
    return 0;
}
