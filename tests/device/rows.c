/* Ops that reduce or scan, on a GPU against the cpu: each reduction, scans and every op of Kiln's that reduces, by each
 * template, on rows that are random, cancel, are constant, or hold NaN, infinities and all special values. Then the
 * same launch again and again gives equal bits. Prints a line for each case and exits 1 at the first difference.
 *
 *     device_rows [DEVICE [RUNS [PART PARTS [WORD]]]]        cuda:0, 20
 *
 * RUNS 0: launches each kernel once, on few rows, and compares nothing, for tools that watch the kernels; see
 * sanitize.sh.
 * PART and PARTS: every PARTS-th case from number PART on. WORD: of ops or templates whose text has it. */
#include "must.h"
#include "values.h"

#include <kiln/kernel.h>
#include <kiln/tune.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { INPUTS_MOST = 3, ARRAYS_MOST = 9 };

/* Where nothing is compared. Of rows a cluster of eight comes three times, and the last lacks some. With two matrices
 * of columns the grids fit a GPU at once: synccheck is wrong about others. */
enum { FEW_ROWS = 19, FEW_MATRICES = 2 };

static kiln_service *service;
static kiln_device *device;
static int runs = 20;

static void *must_have(size_t bytes)
{
    void *memory = malloc(bytes > 0 ? bytes : 1);
    if (memory == NULL)
        exit(2);
    return memory;
}

/* ---- Inputs */

typedef struct shape {
    const char *template;        /* and parameters of it */
    uint64_t outer, cols, inner; /* inner 0: the template has rows and columns alone */
} shape;

static uint64_t lines_of(const shape *s)
{
    return s->outer * (s->inner > 0 ? s->inner : 1);
}

/* The number of an element in memory. */
static uint64_t element_at(const shape *s, uint64_t line, uint64_t col)
{
    const uint64_t inner = s->inner > 0 ? s->inner : 1;
    return (line / inner * s->cols + col) * inner + line % inner;
}

static double random_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / 2097152.0 - 4; /* -4 to 4 */
}

/* An element of a row of one of eight kinds; the last kind is that of values_fill. */
static double number_of(uint64_t line, uint64_t col, uint64_t cols, uint64_t *state)
{
    static const double odd[] = { NAN, INFINITY, -INFINITY, -0.0 };
    const double random = random_number(state);
    switch (line % 8) {
    case 3:
        return (col % 2 == 0 ? 3000 : -3000) + random; /* sums cancel */
    case 4:
        return 1.25;
    case 5:
        return (double)col / (double)cols * 8 - 4;
    case 6:
        return col == line * 31 % cols ? odd[line / 8 % COUNT(odd)] : random;
    default:
        return random;
    }
}

/* The first input has all elements; others have one row for all. */
static void fill_input(unsigned char *out, const shape *s, uint64_t elements, const char *dtype, unsigned k)
{
    uint64_t state = 12345 + k;
    values_fill(out, elements, dtype, 3 + k);
    for (uint64_t line = 0; line < (k == 0 ? lines_of(s) : 1); line++)
        for (uint64_t col = 0; col < s->cols && line % 8 != 7; col++)
            values_store(out, k == 0 ? element_at(s, line, col) : col, dtype, number_of(line, col, s->cols, &state));
}

/* ---- A case */

typedef struct array {
    const kiln_param *param;
    unsigned char *device, *host; /* host: what the first launch has written, or the input */
    size_t bytes;
} array;

static void make_arrays(array *arrays, kiln_arg *args, size_t *count, const kiln_kernel_info *info, const shape *s,
                        const uint64_t *sizes, const char *dtype)
{
    unsigned inputs = 0;
    *count = 0;
    for (uint32_t i = 0; i < info->signature->param_count; i++) {
        const kiln_param *param = info->signature->params[i];
        uint64_t extents[KILN_DIMS_MAX], elements = 1;
        if (param->role != KILN_ROLE_IN && param->role != KILN_ROLE_OUT)
            continue;
        must(kiln_signature_shape(extents, info->signature, i, sizes, info->signature->size_count, &report), "shape");
        for (uint32_t d = 0; d < param->dims; d++)
            elements *= extents[d];
        array *a = &arrays[*count];
        *a = (array){ param, NULL, must_have(elements * param->bytes), elements * param->bytes };
        must(kiln_alloc((void **)&a->device, device, a->bytes, &report), "memory");
        if (param->role == KILN_ROLE_IN) {
            fill_input(a->host, s, elements, dtype, inputs++);
            must(kiln_upload(device, a->device, a->host, a->bytes, &report), "copy");
        }
        args[(*count)++] = KILN_ARRAY(a->device, a->bytes);
    }
}

static void check_equal_runs(kiln_kernel *kernel, array *arrays, const kiln_arg *args, size_t count,
                             const uint64_t *sizes, size_t size_count, const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (arrays[i].param->role == KILN_ROLE_OUT)
            must(kiln_download(device, arrays[i].host, arrays[i].device, arrays[i].bytes, &report), "copy");
    for (int run = 0; run < runs; run++) {
        must(kiln_launch(kernel, NULL, sizes, size_count, args, count, NULL, &report), text);
        for (size_t i = 0; i < count; i++) {
            if (arrays[i].param->role != KILN_ROLE_OUT)
                continue;
            unsigned char *again = must_have(arrays[i].bytes);
            must(kiln_download(device, again, arrays[i].device, arrays[i].bytes, &report), "copy");
            if (memcmp(again, arrays[i].host, arrays[i].bytes) != 0) {
                fprintf(stderr, "FAILED %s: %s has other bits in run %d\n", text, arrays[i].param->name, run + 2);
                exit(1);
            }
            free(again);
        }
    }
}

static void check_case(const char *op, const char *layout, const char *dtype, const shape *s)
{
    char text[256];
    kiln_spec *spec;
    kiln_kernel *kernel;
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    kiln_verification found = KILN_INIT(kiln_verification);
    const uint64_t sizes[] = { s->outer, s->cols, s->inner };
    array arrays[ARRAYS_MOST];
    kiln_arg args[ARRAYS_MOST];
    size_t count;
    snprintf(text, sizeof(text), "op=%s template=%s dtype=%s layout=%s n=%llux%llu", op, s->template, dtype, layout,
             (unsigned long long)lines_of(s), (unsigned long long)s->cols);
    must(kiln_spec_parse(&spec, service, text, &report), text);
    must(kiln_get_kernel(&kernel, service, spec, &report), text);
    must(kiln_kernel_get_info(kernel, &info), text);
    make_arrays(arrays, args, &count, &info, s, sizes, dtype);
    const size_t size_count = info.signature->size_count;
    if (runs > 0) {
        must(kiln_verify(&found, service, kernel, NULL, sizes, size_count, args, count, NULL, &report), text);
        check_equal_runs(kernel, arrays, args, count, sizes, size_count, text);
    } else {
        must(kiln_launch(kernel, NULL, sizes, size_count, args, count, NULL, &report), text);
        must(kiln_download(device, arrays[0].host, arrays[0].device, arrays[0].bytes, &report), text); /* waits */
    }
    printf("%s %s of %llux%llux%llu\n",
           runs == 0       ? "ran   "
           : found.bounded ? "within"
                           : "equal ",
           text, (unsigned long long)s->outer, (unsigned long long)s->cols, (unsigned long long)s->inner);
    for (size_t i = 0; i < count; i++) {
        kiln_free(device, arrays[i].device);
        free(arrays[i].host);
    }
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
}

int main(int count, char **arguments)
{
    static const char *const ops[][2] = {
        { "(sum(x),mean(x),norm(x))", "(full)" },
        { "(max(x),min(x),argmax(x),argmin(x),any(x),all(x))", "(full)" },
        { "(var(x),std(x),logsumexp(x))", "(full)" },
        { "(prod(x),x-max(x))", "(full)" },
        { "softmax", "(full)" },
        { "log_softmax", "(full)" },
        { "native_layer_norm(x,w,b)", "(full,row,row)" },
        { "rms_norm(x,w)", "(full,row)" },
        { "l2_normalize", "(full)" },
        { "sum(x*index)", "(full)" },
        { "(sum(index==argmax(x)?x:0),mean(index==argmin(x)-1?x*x:0),max(x))", "(full)" },
        { "(cumsum(x),cummax(x),cumsum(x,exclusive=1),sum(x))", "(full)" },
        { "(cumsum(x-mean(x),reverse=1),cumprod(1+y,reverse=1,exclusive=1))", "(full,row)" },
    };
    static const char *const dtypes[] = { "f32", "f64", "f16", "bf16" };
    static const shape shapes[] = {
        { "rows", 2083, 96, 0 },
        { "rows", 61, 3279, 0 },
        { "rows", 9, 40000, 0 },
        { "rows", 20000, 1, 0 },
        { "cluster", 9, 40000, 0 },
        { "cluster", 8, 100003, 0 },
        { "columns", 1, 4096, 257 },
        { "columns", 5, 333, 96 },
        { "columns", 1, 40001, 8 },
        { "columns", 2, 1, 1000 },
        { "columns", 3, 1500, 264 },
        { "columns cluster=2 block=128", 3, 1500, 264 },
        { "columns cluster=8 across=4", 3, 500, 264 },
        { "split", 1, 1000003, 0 },
        { "split", 3, 400000, 0 },
        { "split", 2, 3000001, 0 },
        { "cluster cluster=2 rounds=1", 521, 20003, 0 }, /* a cluster takes eight rows */
        { "cluster cluster=8 rounds=1", 97, 40000, 0 },
    };
    kiln_options options = KILN_INIT(kiln_options);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a tool's report stands behind the last case that passed */
    options.device = count > 1 ? arguments[1] : "cuda:0";
    must(kiln_open(&service, &options, &report), "open");
    must(kiln_device_open(&device, service, NULL, &report), "device");
    runs = count > 2 ? atoi(arguments[2]) : runs;
    const int part = count > 4 ? atoi(arguments[3]) : 0, parts = count > 4 ? atoi(arguments[4]) : 1;
    const char *const word = count > 5 ? arguments[5] : "";
    if (count == 4 || parts < 1 || part < 0 || part >= parts) {
        fprintf(stderr, "usage: device_rows [DEVICE [RUNS [PART PARTS [WORD]]]], and PART is 0 to PARTS - 1\n");
        return 2;
    }
    int number = 0;
    for (size_t i = 0; i < COUNT(ops); i++)
        for (size_t d = 0; d < COUNT(dtypes); d++)
            for (size_t s = 0; s < COUNT(shapes); s++)
                if ((strstr(ops[i][0], "cum") == NULL ||
                     strncmp(shapes[s].template, "cluster", 7) != 0) && /* no scans */
                    (strstr(ops[i][0], word) != NULL || strstr(shapes[s].template, word) != NULL) &&
                    number++ % parts == part) {
                    const uint64_t few = shapes[s].inner > 0 ? FEW_MATRICES : FEW_ROWS;
                    shape taken = shapes[s];
                    taken.outer = runs == 0 && taken.outer > few ? few : taken.outer;
                    check_case(ops[i][0], ops[i][1], dtypes[d], &taken);
                }
    kiln_close(service);
    if (number == 0)
        fprintf(stderr, "no case has %s\n", word);
    return number > 0 ? 0 : 2;
}
