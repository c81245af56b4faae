/* GPU against cpu: every op and dtype, special values included. Ops of arithmetic bit for bit, others within the bounds
 * of their functions; and for some tails, misaligned pointers, in place, and counts beyond 2^32. Needs a GPU. Prints a
 * line for each op and dtype and exits 1 at the first difference. */
#include "must.h"
#include "support/launching.h"
#include "values.h"

#include <kiln/kernel.h>
#include <kiln/tune.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = (1 << 20) + 13 };

static kiln_service *service;
static kiln_device *gpu;

static kiln_kernel *get(const char *text)
{
    kiln_spec *spec;
    kiln_kernel *kernel;
    must(kiln_spec_parse(&spec, service, text, &report), text);
    must(kiln_get_kernel(&kernel, service, spec, &report), text);
    kiln_spec_free(spec);
    return kernel;
}

typedef struct arrays {
    unsigned char *host[3], *want, *got;
    unsigned char *device[3], *out;
    size_t bytes;
} arrays;

static void make_arrays(arrays *a, const char *dtype, size_t n)
{
    a->bytes = n * values_size(dtype);
    a->want = malloc(a->bytes);
    a->got = malloc(a->bytes);
    must(kiln_alloc((void **)&a->out, gpu, a->bytes, &report), "memory");
    for (unsigned i = 0; i < 3; i++) {
        a->host[i] = malloc(a->bytes);
        must(kiln_alloc((void **)&a->device[i], gpu, a->bytes, &report), "memory");
        if (a->host[i] == NULL || a->want == NULL || a->got == NULL)
            exit(2);
        values_fill(a->host[i], n, dtype, i);
    }
}

static void free_arrays(arrays *a)
{
    for (unsigned i = 0; i < 3; i++) {
        free(a->host[i]);
        kiln_free(gpu, a->device[i]);
    }
    free(a->want);
    free(a->got);
    kiln_free(gpu, a->out);
}

/* Runs n elements from `shift` elements into the arrays, poisoning the output first; checks that nothing beyond was
 * touched. */
static void compare(arrays *a, kiln_kernel *kernel, kiln_kernel *reference, const char *dtype, size_t n, size_t shift,
                    int in_place)
{
    size_t size = values_size(dtype), offset = shift * size;
    const void *host_in[3], *device_in[3];
    memset(a->want, 0xa5, a->bytes);
    for (unsigned i = 0; i < 3; i++) {
        host_in[i] = a->host[i] + offset;
        device_in[i] = a->device[i] + offset;
        must(kiln_upload(gpu, a->device[i], a->host[i], a->bytes, &report), "copy");
    }
    if (in_place)
        memcpy(a->want, a->host[0], a->bytes);
    unsigned char *out = in_place ? a->device[0] : a->out;
    must(kiln_upload(gpu, out, a->want, a->bytes, &report), "copy");
    must(kiln_test_launch(reference, n, a->want + offset, host_in, NULL, &report), "cpu launch");
    must(kiln_test_launch(kernel, n, out + offset, device_in, NULL, &report), "launch");
    must(kiln_download(gpu, a->got, out, a->bytes, &report), "copy");
    size_t at = values_compare(a->want, a->got, COUNT + 8, dtype);
    if (at == COUNT + 8)
        return;
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    kiln_kernel_get_info(kernel, &info);
    uint64_t want = 0, got = 0, x = 0;
    memcpy(&want, a->want + at * size, size);
    memcpy(&got, a->got + at * size, size);
    memcpy(&x, a->host[0] + at * size, size);
    fprintf(stderr, "FAILED %s n=%zu shift=%zu: element %zu, x=%#llx: gpu %#llx, cpu %#llx\n", info.spec, n, shift, at,
            (unsigned long long)x, (unsigned long long)got, (unsigned long long)want);
    exit(1);
}

static void check_op(const char *op, const char *dtype)
{
    static const char *const geometries[] = { "", "block=32 elems=1 vector=1", "block=256 elems=8 vector=2",
                                              "block=1024 elems=2 vector=1 cache=plain",
                                              "block=96 elems=12 vector=4 cache=plain" };
    static const size_t counts[] = { COUNT, 1, 31, 127, 4096, 4099, 65536 + 7 };
    arrays a;
    unsigned cases = 0;
    char text[256];
    make_arrays(&a, dtype, COUNT + 8);
    snprintf(text, sizeof(text), "op=%s dtype=%s target=cpu", op, dtype);
    kiln_kernel *reference = get(text);
    for (size_t g = 0; g < sizeof(geometries) / sizeof(geometries[0]); g++) {
        if (strcmp(dtype, "f64") == 0 && strstr(geometries[g], "vector=4") != NULL)
            continue; /* 32 bytes per access: from sm_100 on */
        snprintf(text, sizeof(text), "op=%s dtype=%s %s", op, dtype, geometries[g]);
        kiln_kernel *kernel = get(text);
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
            for (size_t shift = 0; shift < 3; shift++, cases += 2) {
                compare(&a, kernel, reference, dtype, counts[c], shift, 0);
                compare(&a, kernel, reference, dtype, counts[c], shift, 1);
            }
        kiln_kernel_release(kernel);
    }
    kiln_kernel_release(reference);
    free_arrays(&a);
    printf("equal  %-22s %-4s %u cases of up to %d elements\n", op, dtype, cases, COUNT);
}

/* The last two with math=fast. */
static const char *const all_dtypes[] = { "f32", "f64", "f16", "bf16", "f8e4m3", "f8e5m2", "i8",
                                          "i16", "i32", "i64", "u8",   "bool",   "f32",    "f16" };
enum { DTYPES = sizeof(all_dtypes) / sizeof(all_dtypes[0]), EXACT = DTYPES - 2 };

/* The spec of an op. False: the op has no value for the dtype. */
static bool write_spec(char *text, size_t size, const kiln_op_info *op, size_t d)
{
    snprintf(text, size, "op=%s dtype=%s%s", op->name, all_dtypes[d], d < EXACT ? "" : " math=fast");
    return !op->reduces && (!op->whole_only || strchr(all_dtypes[d], 'f') == NULL);
}

static void on_built(void *data, kiln_status status, kiln_program *program, const kiln_report *why)
{
    (void)data;
    must(status, why->message);
    kiln_program_release(program);
}

/* Asks for an op's kernels and those that they are compared with, so that all processors compile. */
static int build_op(void *queue, const kiln_op_info *op)
{
    char text[128];
    for (size_t i = 0; i < 2 * DTYPES; i++) {
        kiln_request request = KILN_INIT(kiln_request);
        kiln_spec *spec;
        if (!write_spec(text, sizeof(text) - 12, op, i / 2))
            continue;
        if (i % 2 != 0)
            strcat(text, " target=cpu");
        must(kiln_spec_parse(&spec, service, text, &report), text);
        request.spec = spec;
        request.goal = KILN_BUILD;
        request.device = i % 2 != 0 ? NULL : gpu;
        must(kiln_submit(NULL, queue, &request, NULL, on_built, NULL, &report), text);
        kiln_spec_free(spec);
    }
    return 0;
}

static void build_all(void)
{
    kiln_queue *queue;
    must(kiln_queue_open(&queue, service, &report), "queue");
    must(kiln_ops(service, build_op, queue), "ops");
    while (kiln_queue_wait(queue, -1) > 0) {
    }
    kiln_queue_close(queue, NULL, NULL);
}

/* An op with its inputs in order, compared by kiln_verify. */
static int verify_op(void *data, const kiln_op_info *op)
{
    const uint64_t n = 200003; /* all of 16 bits, all pairs of 8 bits or of special values, and random ones */
    char text[128];
    (void)data;
    for (size_t d = 0; d < DTYPES; d++) {
        kiln_verification found = KILN_INIT(kiln_verification);
        kiln_arg args[4];
        arrays a;
        unsigned char *out;
        if (!write_spec(text, sizeof(text), op, d))
            continue;
        kiln_kernel *kernel = get(text);
        make_arrays(&a, all_dtypes[d], n);
        must(kiln_alloc((void **)&out, gpu, COUNT * sizeof(double), &report),
             "memory"); /* for any type of the result */
        args[0] = KILN_ARRAY(out, COUNT * sizeof(double));
        for (uint32_t i = 0; i < op->inputs; i++) {
            must(kiln_upload(gpu, a.device[i], a.host[i], a.bytes, &report), "copy");
            args[1 + i] = KILN_ARRAY(a.device[i], a.bytes);
        }
        must(kiln_verify(&found, service, kernel, NULL, &n, 1, args, 1 + op->inputs, NULL, &report), text);
        printf("%s %s, %d elements\n", found.bounded ? "within" : "equal ", text, (int)n);
        kiln_free(gpu, out);
        kiln_kernel_release(kernel);
        free_arrays(&a);
    }
    return 0;
}

/* 2^32 + 3 elements of float16: index arithmetic beyond 32 bits, and a tail. The input repeats with a period that is
 * no power of two, so a wrapped index reads the wrong value. */
static void check_huge(void)
{
    const uint64_t n = (1ull << 32) + 3;
    const size_t period = 3 * 7 * 11 * 13 * 1009;
    size_t chunk = period * 2;
    unsigned char *x, *y;
    unsigned char *host = malloc(chunk), *want = malloc(chunk), *got = malloc(chunk);
    if (host == NULL || want == NULL || got == NULL)
        exit(2);
    values_fill(host, period, "f16", 0);
    must(kiln_alloc((void **)&x, gpu, n * 2, &report), "memory");
    must(kiln_alloc((void **)&y, gpu, n * 2, &report), "memory");
    must(kiln_upload(gpu, x, host, chunk, &report), "copy");
    for (uint64_t done = chunk; done < n * 2; done *= 2)
        must(kiln_copy(gpu, x + done, x, done < n * 2 - done ? done : n * 2 - done, NULL, &report), "copy");
    memset(want, 0xa5, chunk);
    for (uint64_t done = 0; done < n * 2; done += chunk)
        must(kiln_upload(gpu, y + done, want, chunk < n * 2 - done ? chunk : n * 2 - done, &report), "copy");
    kiln_kernel *kernel = get("op=hardsigmoid dtype=f16");
    kiln_kernel *reference = get("op=hardsigmoid dtype=f16 target=cpu");
    const void *host_in[] = { host }, *device_in[] = { x };
    must(kiln_test_launch(reference, period, want, host_in, NULL, &report), "cpu launch");
    must(kiln_test_launch(kernel, n, y, device_in, NULL, &report), "launch");
    for (uint64_t done = 0; done < n * 2; done += chunk) {
        size_t bytes = chunk < n * 2 - done ? chunk : (size_t)(n * 2 - done);
        must(kiln_download(gpu, got, y + done, bytes, &report), "copy");
        if (values_compare(want, got, bytes / 2, "f16") != bytes / 2) {
            fprintf(stderr, "FAILED 2^32+3 elements: a difference in the chunk at element %llu\n",
                    (unsigned long long)done / 2);
            exit(1);
        }
    }
    kiln_kernel_release(kernel);
    kiln_kernel_release(reference);
    kiln_free(gpu, x);
    kiln_free(gpu, y);
    free(host);
    free(want);
    free(got);
    printf("equal  hardsigmoid f16, 2^32+3 elements\n");
}

/* Every function that a definition may call, in one op or another. */
static const char *const definitions[] = {
    "own_swish = x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) / 6.0f",
    "own_pair(x, y; p=0.3) = x < y && !(x == p) ? x / y : sqrt(abs(y)) - copysign(x, y) * fmin(x, p)",
    "own_three(x, y, z) = floor(x) + ceil(y) * trunc(z) - rint(x) + fma(x, y, z) + clamp(x, -1, 1) + fmax(y, z)",
    "own_curves(x, y) = exp(x) + log(abs(y)) * tanh(x - y)",
    "own_both(x, y) = own_swish(own_pair(x, y)) + hardtanh(x * y, -2, 3)",
};

static void check_template(const char *directory, const char *name, const char *reference)
{
    char path[1024], spec[160], dtype[] = "f32";
    arrays a;
    snprintf(path, sizeof(path), "%s/%s.cu", directory, name);
    must(kiln_template_load(service, path, NULL, &report), path);
    snprintf(spec, sizeof(spec), "template=%s dtype=f32", name);
    kiln_kernel *kernel = get(spec);
    snprintf(spec, sizeof(spec), "op=%s dtype=f32 target=cpu", reference);
    kiln_kernel *other = get(spec);
    make_arrays(&a, dtype, COUNT + 8);
    compare(&a, kernel, other, dtype, COUNT, 0, 0);
    compare(&a, kernel, other, dtype, COUNT - 3, 3, 0);
    compare(&a, kernel, other, dtype, 1, 0, 0);
    free_arrays(&a);
    kiln_kernel_release(kernel);
    kiln_kernel_release(other);
    printf("equal  template %s\n", name);
}

static void check_transpose(const char *directory, const char *dtype)
{
    enum { ROWS = 1023, COLS = 1017 };
    const uint64_t sizes[] = { ROWS, COLS };
    char path[1024], spec[80];
    arrays a;
    uint64_t bytes = (uint64_t)ROWS * COLS * values_size(dtype);
    snprintf(path, sizeof(path), "%s/transpose.cu", directory);
    must(kiln_template_load(service, path, NULL, &report), path);
    make_arrays(&a, dtype, COUNT + 8);
    must(kiln_upload(gpu, a.device[0], a.host[0], a.bytes, &report), "copy");
    snprintf(spec, sizeof(spec), "template=transpose dtype=%s target=cpu", dtype);
    kiln_kernel *reference = get(spec);
    const kiln_arg on_cpu[] = { KILN_ARRAY(a.want, bytes), KILN_ARRAY(a.host[0], bytes) };
    must(kiln_launch(reference, NULL, sizes, 2, on_cpu, 2, NULL, &report), "cpu launch");
    kiln_kernel_release(reference);
    for (int tile = 8; tile <= 32; tile *= 2) {
        snprintf(spec, sizeof(spec), "template=transpose dtype=%s tile=%d height=%d", dtype, tile, tile / 4);
        kiln_kernel *kernel = get(spec);
        const kiln_arg on_gpu[] = { KILN_ARRAY(a.out, bytes), KILN_ARRAY(a.device[0], bytes) };
        memset(a.got, 0xa5, a.bytes);
        must(kiln_upload(gpu, a.out, a.got, a.bytes, &report), "copy");
        must(kiln_launch(kernel, NULL, sizes, 2, on_gpu, 2, NULL, &report), spec);
        must(kiln_download(gpu, a.got, a.out, a.bytes, &report), "copy");
        if (memcmp(a.got, a.want, bytes) != 0) {
            fprintf(stderr, "FAILED %s\n", spec);
            exit(1);
        }
        kiln_kernel_release(kernel);
    }
    free_arrays(&a);
    printf("equal  template transpose %s, %d x %d\n", dtype, ROWS, COLS);
}

static void check_templates(const char *directory)
{
    check_template(directory, "hardsigmoid256", "hardsigmoid");
    check_template(directory, "hardtanh4", "hardtanh");
    check_template(directory, "axpy_float4", "add(add(x,x),y)");
    check_transpose(directory, "f32");
    check_transpose(directory, "f64");
    check_transpose(directory, "f16");
}

/* The device, and the directory docs/examples/templates. */
int main(int count, char **arguments)
{
    static const char *const ops[] = { "hardsigmoid",
                                       "hardsigmoid_linear",
                                       "hardtanh",
                                       "relu6",
                                       "add(x,y)",
                                       "mul(x,y)",
                                       "softsign",
                                       "hardtanh(-0.0,inf)",
                                       "hardsigmoid(add(x,mul(y,z)))",
                                       "own_swish",
                                       "own_pair(p=-1)",
                                       "own_three",
                                       "own_both",
                                       "own_curves math=portable" };
    static const char *const dtypes[] = { "f32", "f64", "f16", "bf16" };
    kiln_options options = KILN_INIT(kiln_options);
    options.device = count > 1 ? arguments[1] : "cuda:0";
    must(kiln_open(&service, &options, &report), "open");
    must(kiln_device_open(&gpu, service, NULL, &report), "device");
    for (size_t i = 0; i < sizeof(definitions) / sizeof(definitions[0]); i++)
        must(kiln_op_define(service, definitions[i], &report), definitions[i]);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++)
            check_op(ops[i], dtypes[d]);
    build_all();
    must(kiln_ops(service, verify_op, NULL), "ops");
    if (count > 2)
        check_templates(arguments[2]);
    check_huge();
    kiln_close(service);
    return 0;
}
