/* A program with CUDA text: compiled once, found in the cache from then on, and launched on a GPU.
 *
 * Without a GPU the text is compiled for sm_90 and not launched. Build it with
 *     cc inline.c $(pkg-config --cflags --libs kiln) -o inline */
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000, BLOCK = 128 };

static kiln_report report = KILN_INIT(kiln_report);

/* The compiler's log has the name that the source was given, and the line in it. */
static void must(kiln_status status, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "%s: %s: %s\n%s", what, kiln_status_text(status), report.message,
                report.log != NULL ? report.log : "");
        exit(1);
    }
}

/* A template, whose instantiations are named below. The header comes with the program. */
static const char text[] = "#include \"bias.h\"\n"
                           "__constant__ float factor;\n"
                           "template <int N> __global__ void scale(float *out, const float *in, int count)\n"
                           "{\n"
                           "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                           "    if (i < count)\n"
                           "        out[i] = in[i] * factor * N + BIAS;\n"
                           "}\n";
static const kiln_header headers[] = { { "bias.h", "#define BIAS 0.5f\n" } };
static const char *const functions[] = { "scale<3>" };

static void show(kiln_service *service, const kiln_source *source)
{
    kiln_program *program;
    kiln_program_info info = KILN_INIT(kiln_program_info);
    kiln_request request = KILN_INIT(kiln_request);
    request.source = source;
    request.goal = KILN_BUILD;
    kiln_status status = kiln_get(&program, service, &request, &report);
    if (status == KILN_ENOCOMPILER) {
        puts(report.message);
        exit(0); /* nothing to show on this machine */
    }
    must(status, "build");
    must(kiln_program_get_info(program, &info), "info");
    printf("%s: %s, %d registers (%s)\n", info.spec, info.functions[0]->name, info.functions[0]->registers,
           info.origin_name);
    kiln_program_release(program);
}

static void launch(kiln_program *program, float *out, const float *in)
{
    kiln_kernel *kernel;
    kiln_grid grid = KILN_INIT(kiln_grid);
    const int count = COUNT;
    const kiln_arg args[] = { KILN_ARRAY(out, COUNT * sizeof(float)), KILN_ARRAY(in, COUNT * sizeof(float)),
                              KILN_VALUE(count) };
    grid.grid[0] = (COUNT + BLOCK - 1) / BLOCK;
    grid.block[0] = BLOCK;
    must(kiln_program_kernel(&kernel, program, "scale<3>", &report), "kernel");
    must(kiln_launch(kernel, &grid, NULL, 0, args, 3, NULL, &report), "launch");
    kiln_kernel_release(kernel);
}

static void run(kiln_service *service, kiln_device *device, const kiln_source *source)
{
    static float x[COUNT], y[COUNT];
    const float factor = 2.0f;
    kiln_program *program;
    kiln_request request = KILN_INIT(kiln_request);
    request.source = source;
    request.device = device;
    void *x_device, *y_device, *factor_device;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i;
    must(kiln_get(&program, service, &request, &report), "program");
    must(kiln_program_global(&factor_device, NULL, program, "factor", &report), "factor");
    must(kiln_alloc(&x_device, device, sizeof(x), &report), "memory");
    must(kiln_alloc(&y_device, device, sizeof(y), &report), "memory");
    must(kiln_upload(device, factor_device, &factor, sizeof(factor), &report), "copy");
    must(kiln_upload(device, x_device, x, sizeof(x), &report), "copy");
    launch(program, y_device, x_device);
    must(kiln_download(device, y, y_device, sizeof(y), &report), "copy");
    for (int i = 0; i < COUNT; i++)
        if (y[i] != x[i] * 6.0f + 0.5f) {
            fprintf(stderr, "element %d: got %g, expected %g\n", i, y[i], x[i] * 6.0f + 0.5f);
            exit(1);
        }
    puts("all elements right");
    kiln_free(device, x_device);
    kiln_free(device, y_device);
    kiln_program_release(program);
}

int main(void)
{
    kiln_service *service;
    kiln_device *device;
    kiln_device_info info = KILN_INIT(kiln_device_info);
    kiln_source source = KILN_INIT(kiln_source);
    source.name = "inline.cu";
    source.text = text;
    source.functions = functions;
    source.function_count = 1;
    source.headers = headers;
    source.header_count = 1;
    source.cuda_headers = KILN_OFF; /* the text includes none */

    must(kiln_open(&service, NULL, &report), "open");
    must(kiln_device_open(&device, service, NULL, &report), "device");
    must(kiln_device_get_info(device, &info), "device");
    if (strcmp(info.name, "cpu") == 0)
        source.target = "sm_90";
    show(service, &source);
    if (source.target == NULL)
        run(service, device, &source);
    kiln_close(service);
    return 0;
}
