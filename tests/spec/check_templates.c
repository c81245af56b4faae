/* Templates of users' own: the examples on every target and on the cpu, arguments and their checks, files and the
 * record. */
#include "gpu/cuda.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kernel.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static kiln_service *service;
static kiln_report report = KILN_INIT(kiln_report);

static void open_service(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
}

static void close_service(void)
{
    kiln_close(service);
    kiln_report_clear(&report);
}

static void expect(kiln_status status, kiln_status expected, const char *text)
{
    ck_assert_msg(status == expected, "%s, expected %s: %s", kiln_status_name(status), kiln_status_name(expected),
                  report.message);
    ck_assert_msg(strstr(report.message, text) != NULL, "'%s' is not in: %s", text, report.message);
}

static void check_ok(kiln_status status)
{
    ck_assert_msg(status == KILN_OK, "%s: %s\n%s", kiln_status_name(status), report.message,
                  report.log != NULL ? report.log : "");
}

static const char *example(const char *name)
{
    static char path[1024];
    const char *directory = getenv("KILN_EXAMPLE_TEMPLATES");
    ck_assert_msg(directory != NULL, "KILN_EXAMPLE_TEMPLATES must name docs/examples/templates");
    snprintf(path, sizeof(path), "%s/%s.cu", directory, name);
    return path;
}

static void load_example(const char *name)
{
    const char *declared = NULL;
    check_ok(kiln_template_load(service, example(name), &declared, &report));
    ck_assert_str_eq(declared, name);
}

/* ---- The examples */

static const struct {
    const char *name, *entry, *specs;
} examples[] = {
    { "hardsigmoid256", "hardsigmoid256", "" },
    { "hardtanh4", "hardtanh4", " dtype=f32,f64" },
    { "axpy_float4", "axpy_float4", " cache=plain,stream" },
    { "transpose", "transpose", " dtype=f16,f32,f64" },
};

static bool have_nvrtc(void)
{
    kiln__toolchain toolchain;
    kiln__compiler *real = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    bool found = real->vtable->open(real, &toolchain, NULL) == KILN_OK;
    real->vtable->close(real);
    if (!found)
        printf("   left out: there is no NVRTC\n");
    return found;
}

/* The file's text as it stands: no declaration is read, nothing is put before it. */
START_TEST(test_templates__examples_compile_unmodified)
{
    static const char *const targets[] = { "sm_75", "sm_90", "sm_121" };
    static char spec[] = "as it stands", text[16384];
    if (!have_nvrtc())
        return;
    FILE *file = fopen(example(examples[_i].name), "r");
    ck_assert_ptr_nonnull(file);
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    text[length] = '\0';
    fclose(file);
    kiln__compiler *compiler = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    for (int i = 0; i < COUNT(targets); i++) {
        kiln__image image;
        kiln__unit unit = { .spec = spec, .source = text, .source_length = length };
        ck_assert(kiln__target_parse(targets[i], strlen(targets[i]), &unit.target));
        unit.rule.entry_count = 1;
        strcpy(unit.rule.entries[0].name, examples[_i].entry);
        check_ok(compiler->vtable->compile(compiler, &unit, &image, &report));
        ck_assert_msg(image.log == NULL, "%s", image.log);
        kiln__image_fini(&image);
    }
    compiler->vtable->close(compiler);
}
END_TEST

static int build_one(void *data, const kiln_spec *spec)
{
    kiln_program *program;
    check_ok(kiln_test_build_spec(&program, service, spec, &report));
    kiln_program_release(program);
    ++*(int *)data;
    return 0;
}

START_TEST(test_templates__examples_build_for_every_target)
{
    char line[256];
    int count = 0;
    if (!have_nvrtc())
        return;
    load_example(examples[_i].name);
    snprintf(line, sizeof(line), "template=%s%s target=all", examples[_i].name, examples[_i].specs);
    check_ok(kiln_spec_expand(service, line, build_one, &count, &report));
    ck_assert_int_ge(count, 10);
    ck_assert_uint_ge(kiln_test_stats(service).worker_starts, 1);
}
END_TEST

START_TEST(test_templates__a_twin_computes_what_the_reference_does)
{
    enum { N = 4099 };
    static float x[N], out[N], want[N];
    const void *const in[] = { x };
    const float specials[] = { 0.0f, -0.0f, -3, 3, INFINITY, -INFINITY, NAN, 1e-40f, -2.9999998f };
    for (int i = 0; i < N; i++)
        x[i] = i < COUNT(specials) ? specials[i] : (float)(i % 997) / 71 - 7;
    load_example("hardsigmoid256");
    kiln_kernel *own = kiln_test_get(service, "template=hardsigmoid256 target=cpu");
    kiln_kernel *reference = kiln_test_get(service, "op=hardsigmoid dtype=f32 target=cpu");
    check_ok(kiln_test_launch(own, N, out, in, NULL, &report));
    check_ok(kiln_test_launch(reference, N, want, in, NULL, &report));
    for (int i = 0; i < N; i++)
        ck_assert_msg(memcmp(&out[i], &want[i], 4) == 0 || (isnan(out[i]) && isnan(want[i])), "element %d", i);
    kiln_kernel_release(own);
    kiln_kernel_release(reference);
}
END_TEST

/* ---- Arguments */

static void transpose(kiln_kernel *kernel, uint64_t rows, uint64_t cols)
{
    uint64_t bytes = rows * cols * sizeof(double);
    double *x = malloc(bytes + 8), *out = malloc(bytes + 8);
    const uint64_t sizes[] = { rows, cols };
    const kiln_arg args[] = { KILN_ARRAY(out, bytes), KILN_ARRAY(x, bytes) };
    for (uint64_t i = 0; i < rows * cols; i++)
        x[i] = (double)i, out[i] = -1;
    out[rows * cols] = -7;
    check_ok(kiln_launch(kernel, NULL, sizes, 2, args, 2, NULL, &report));
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < cols; j++)
            ck_assert_msg(out[j * rows + i] == (double)(i * cols + j), "%d x %d", (int)i, (int)j);
    ck_assert(out[rows * cols] == -7);
    free(x);
    free(out);
}

START_TEST(test_templates__the_transpose_transposes)
{
    load_example("transpose");
    kiln_kernel *kernel = kiln_test_get(service, "template=transpose dtype=f64 tile=8 height=4 target=cpu");
    transpose(kernel, 1, 1);
    transpose(kernel, 33, 65);
    transpose(kernel, 8, 16);
    transpose(kernel, 1, 1000);
    transpose(kernel, 999, 1);
    transpose(kernel, 0, 5);
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_templates__arguments_are_checked_before_anything_runs)
{
    double x[24], out[24];
    const uint64_t sizes[] = { 4, 6 }, huge[] = { UINT64_MAX, 6 };
    const kiln_arg good[] = { KILN_ARRAY(out, sizeof(out)), KILN_ARRAY(x, sizeof(x)) };
    const kiln_arg shorter[] = { KILN_ARRAY(out, sizeof(out) - 1), KILN_ARRAY(x, sizeof(x)) };
    const kiln_arg none[] = { KILN_ARRAY(NULL, sizeof(out)), KILN_ARRAY(x, sizeof(x)) };
    const kiln_arg same[] = { KILN_ARRAY(x, sizeof(x)), KILN_ARRAY(x, sizeof(x)) };
    const kiln_arg odd[] = { KILN_ARRAY((char *)out + 4, sizeof(out)), KILN_ARRAY(x, sizeof(x)) };
    const void *const in[] = { x };
    load_example("transpose");
    load_example("hardsigmoid256");
    kiln_kernel *kernel = kiln_test_get(service, "template=transpose dtype=f64 target=cpu");
    kiln_kernel *plain = kiln_test_get(service, "template=hardsigmoid256 target=cpu");
    for (int i = 0; i < 24; i++)
        x[i] = out[i] = 5;
    expect(kiln_test_launch(kernel, 24, out, in, NULL, &report), KILN_EINVAL, "launch it by its sizes and args");
    expect(kiln_launch(plain, NULL, sizes, 2, good, 2, NULL, &report), KILN_EINVAL,
           "the kernel has 1 sizes, and 2 are given");
    expect(kiln_launch(kernel, NULL, sizes, 1, good, 2, NULL, &report), KILN_EINVAL,
           "the kernel has 2 sizes, and 1 are");
    expect(kiln_launch(kernel, NULL, sizes, 2, good, 1, NULL, &report), KILN_EINVAL,
           "takes 2 arguments that no formula");
    expect(kiln_launch(kernel, NULL, sizes, 2, shorter, 2, NULL, &report), KILN_EINVAL, "out needs 192 bytes");
    expect(kiln_launch(kernel, NULL, sizes, 2, none, 2, NULL, &report), KILN_EINVAL, "argument out is NULL");
    expect(kiln_launch(kernel, NULL, sizes, 2, same, 2, NULL, &report), KILN_EOVERLAP, "arguments out and x overlap");
    expect(kiln_launch(kernel, NULL, sizes, 2, odd, 2, NULL, &report), KILN_EALIGN, "argument out is not aligned");
    expect(kiln_launch(kernel, NULL, huge, 2, good, 2, NULL, &report), KILN_EINVAL, "out is larger than any memory");
    expect(kiln_launch(NULL, NULL, sizes, 2, good, 2, NULL, &report), KILN_EINVAL, "must not be NULL");
    expect(kiln_launch(kernel, NULL, NULL, 2, good, 2, NULL, &report), KILN_EINVAL, "must not be NULL");
    for (int i = 0; i < 24; i++)
        ck_assert(out[i] == 5);
    kiln_kernel_release(kernel);
    kiln_kernel_release(plain);
}
END_TEST

/* Inputs and result of other sizes: each is aligned to its own elements, and none lies on the other. */
START_TEST(test_templates__a_result_of_another_size)
{
    float x[40], y[40];
    unsigned char same[48];
    kiln_kernel *kernel = kiln_test_get(service, "op=eq dtype=f32 target=cpu");
    for (int i = 0; i < 40; i++) {
        x[i] = (float)i;
        y[i] = (float)(i % 2 == 0 ? i : -i);
    }
    const void *const in[] = { x + 1, y + 1 };
    memset(same, 0x5a, sizeof(same));
    expect(kiln_test_launch(kernel, 37, same + 3, in, NULL, &report), KILN_OK, "");
    for (int i = 0; i < 37; i++)
        ck_assert_int_eq(same[3 + i], (i + 1) % 2 == 0);
    ck_assert(same[2] == 0x5a && same[40] == 0x5a);
    expect(kiln_test_launch(kernel, 37, x + 1, in, NULL, &report), KILN_EOVERLAP,
           "arguments out and x overlap, and their elements have other sizes: use separate arrays");
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_templates__a_signature_tells_the_type_of_the_result)
{
    static const struct {
        const char *spec, *type;
    } rows[] = { { "op=eq", "bool" },
                 { "op=exp dtype=i8", "f32" },
                 { "op=add dtype=i8", "i8" },
                 { "op=copy dtype=f16 out=u8", "u8" },
                 { "op=copy", "f32" } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const kiln_signature *signature;
        kiln_spec *spec = kiln_test_spec(service, rows[i].spec);
        ck_assert_int_eq(kiln_spec_signature(&signature, spec, &report), KILN_OK);
        ck_assert_str_eq(signature->params[0]->type, rows[i].type);
        ck_assert_int_eq(signature->params[0]->follows_dtype, 2);
        kiln_spec_free(spec);
    }
}
END_TEST

/* An empty array has no bytes to share, wherever its pointer leads. */
START_TEST(test_templates__an_empty_array_overlaps_nothing)
{
    static const char cu[] = "//! template count_up\n//! size n\n//! size m\n//! param block 32..64 = 32\n"
                             "//! arg out out f64[n]\n//! arg x in f64[m]\n//! arg n uint32 = n\n"
                             "//! grid 1\n//! entry count_up align 8\n";
    static const char twin[] =
        "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n"
        "                                                     void *const *args);\n"
        "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)\n{\n"
        "    for (unsigned i = 0; begin < end && i < *(unsigned *)args[2]; i++)\n"
        "        (*(double *const *)args[0])[i] = i;\n}\n";
    double numbers[8] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    const kiln_arg inside[] = { KILN_ARRAY(numbers + 4, 4 * 8), KILN_ARRAY(numbers, 8 * 8) };
    const kiln_arg around[] = { KILN_ARRAY(numbers, 8 * 8), KILN_ARRAY(numbers + 4, 4 * 8) };
    const uint64_t no_out[] = { 0, 8 }, no_in[] = { 8, 0 }, both[] = { 4, 8 };
    check_ok(kiln_template_define(service, cu, twin, NULL, &report));
    kiln_kernel *kernel = kiln_test_get(service, "template=count_up target=cpu");
    check_ok(kiln_launch(kernel, NULL, no_out, 2, inside, 2, NULL, &report));
    ck_assert(numbers[4] == -1);
    expect(kiln_launch(kernel, NULL, both, 2, inside, 2, NULL, &report), KILN_EOVERLAP, "arguments out and x overlap");
    ck_assert(numbers[4] == -1);
    check_ok(kiln_launch(kernel, NULL, no_in, 2, around, 2, NULL, &report));
    ck_assert(numbers[7] == 7);
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_templates__kernels_say_what_they_take)
{
    const uint64_t sizes[] = { 4, 6 };
    uint64_t shape[4];
    const uint64_t huge[] = { UINT64_MAX, UINT64_MAX };
    kiln_kernel_info info = { .size = sizeof(info) };
    load_example("transpose");
    kiln_kernel *kernel = kiln_test_get(service, "template=transpose dtype=f16 target=cpu");
    ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
    const kiln_signature *signature = info.signature;
    const kiln_param *out = signature->params[0];
    ck_assert(signature->size_count == 2 && signature->param_count == 4);
    ck_assert_str_eq(signature->sizes[1], "cols");
    ck_assert(out->role == KILN_ROLE_OUT && out->bytes == 2 && out->dims == 2);
    ck_assert_str_eq(out->name, "out");
    ck_assert_str_eq(out->type, "f16");
    ck_assert_str_eq(out->shape[0], "cols");
    ck_assert(out->follows_dtype && !signature->params[2]->follows_dtype);
    ck_assert(signature->params[2]->role == KILN_ROLE_FORMULA && signature->params[2]->dims == 0);
    ck_assert_str_eq(signature->grid[2], "1");
    check_ok(kiln_signature_shape(shape, signature, 0, sizes, 2, &report));
    ck_assert(shape[0] == 6 && shape[1] == 4 && shape[2] == 1 && shape[3] == 1);
    expect(kiln_signature_shape(shape, signature, 2, sizes, 2, &report), KILN_ENOENT, "parameter 2 is no array");
    expect(kiln_signature_shape(shape, signature, 4, sizes, 2, &report), KILN_ENOENT, "parameter 4 is no array");
    expect(kiln_signature_shape(shape, signature, 0, sizes, 1, &report), KILN_EINVAL, "has 2 sizes, and 1 are given");
    expect(kiln_signature_shape(shape, signature, 0, NULL, 2, &report), KILN_EINVAL, "sizes");
    check_ok(kiln_signature_shape(shape, signature, 0, huge, 2, &report));
    ck_assert_uint_eq(shape[0], INT64_MAX);
    kiln_kernel_release(kernel);
}
END_TEST

/* Numbers of every kind reach the twin as the declared type. */
START_TEST(test_templates__numbers_arrive_in_their_types)
{
    static const char cu[] = "//! template numbers\n//! size n\n//! param block 32..64 = 32\n"
                             "//! arg out out f64[6]\n//! arg a int8\n//! arg b double\n//! arg c uint16 = n * 2\n"
                             "//! arg d float = n + 1\n//! arg e int64 = n\n//! arg f f64 = block\n"
                             "//! grid 1\n//! entry numbers align 8\n";
    static const char twin[] =
        "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n"
        "                                                     void *const *args);\n"
        "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)\n{\n"
        "    double *out = *(double *const *)args[0];\n    if (begin == 0 && end == 1) {\n"
        "        out[0] = *(signed char *)args[1];\n        out[1] = *(double *)args[2];\n"
        "        out[2] = *(unsigned short *)args[3];\n        out[3] = *(float *)args[4];\n"
        "        out[4] = (double)*(long long *)args[5];\n        out[5] = *(double *)args[6];\n    }\n}\n";
    double out[6] = { 0 };
    signed char a = -3;
    double b = 0.25;
    uint64_t n = 1000;
    kiln_arg args[] = { KILN_ARRAY(out, sizeof(out)), KILN_VALUE(a), KILN_VALUE(b) };
    check_ok(kiln_template_define(service, cu, twin, NULL, &report));
    kiln_kernel *kernel = kiln_test_get(service, "template=numbers target=cpu");
    check_ok(kiln_launch(kernel, NULL, &n, 1, args, 3, NULL, &report));
    ck_assert(out[0] == -3 && out[1] == 0.25 && out[2] == 2000 && out[3] == 1001 && out[4] == 1000 && out[5] == 32);
    n = 40000;
    expect(kiln_launch(kernel, NULL, &n, 1, args, 3, NULL, &report), KILN_EINVAL, "argument c: 80000 does not fit u16");
    n = 1;
    args[2].bytes = 4;
    expect(kiln_launch(kernel, NULL, &n, 1, args, 3, NULL, &report), KILN_EINVAL,
           "argument b is a f64 of 8 bytes, and 4 are given");
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_templates__outputs_and_scalars_are_arguments)
{
    float x[5] = { 1, 2, 3, 4, 5 }, y[5] = { 1, 1, 1, 1, 1 }, sum[5] = { 0 };
    unsigned char less[5] = { 9, 9, 9, 9, 9 };
    const uint64_t n = 5;
    double rate = 0.5, limit = 3;
    kiln_kernel *kernel = kiln_test_get(service, "op=(s,l)=(x + ?rate * y, x < ?limit) target=cpu");
    kiln_arg args[] = { KILN_ARRAY(sum, sizeof(sum)),
                        KILN_ARRAY(less, sizeof(less)),
                        KILN_ARRAY(x, sizeof(x)),
                        KILN_ARRAY(y, sizeof(y)),
                        KILN_VALUE(rate),
                        KILN_VALUE(limit) };
    check_ok(kiln_launch(kernel, NULL, &n, 1, args, 6, NULL, &report));
    ck_assert(sum[0] == 1.5f && sum[4] == 5.5f && less[1] == 1 && less[2] == 0);
    rate = 2;
    args[0] = args[2]; /* in place */
    check_ok(kiln_launch(kernel, NULL, &n, 1, args, 6, NULL, &report));
    ck_assert(x[0] == 3 && x[4] == 7 && less[0] == 1 && less[4] == 0);
    args[0] = args[1];
    expect(kiln_launch(kernel, NULL, &n, 1, args, 6, NULL, &report), KILN_EINVAL, "argument out0 needs 20 bytes");
    args[0] = KILN_ARRAY(sum, sizeof(sum));
    args[1] = KILN_ARRAY((unsigned char *)sum + 4, 5);
    expect(kiln_launch(kernel, NULL, &n, 1, args, 6, NULL, &report), KILN_EOVERLAP, "arguments out0 and out1 overlap");
    args[1] = KILN_ARRAY(less, sizeof(less));
    args[5] = args[3];
    expect(kiln_launch(kernel, NULL, &n, 1, args, 6, NULL, &report), KILN_EINVAL,
           "argument s1 is a number of type f64");
    expect(kiln_launch(kernel, NULL, &n, 1, args, 5, NULL, &report), KILN_EINVAL, "takes 6 arguments");
    void *outs[] = { sum, less };
    const void *ins[] = { x, y };
    expect(kiln_launch_n(kernel, n, outs, 2, ins, 2, NULL, &report), KILN_EINVAL, "takes 2 numbers beside the arrays");
    kiln_kernel_release(kernel);
    kernel = kiln_test_get(service, "op=(x + y, x < y) target=cpu");
    check_ok(kiln_launch_n(kernel, n, outs, 2, ins, 2, NULL, &report));
    ck_assert(sum[0] == 4 && less[0] == 0);
    kiln_kernel_release(kernel);
}
END_TEST

/* A template with sizes that takes an op: the sum of each row of what the op makes of its inputs. */
START_TEST(test_templates__any_template_takes_an_op)
{
    static const char cu[] = "//! template sums\n//! inputs 1..3\n//! dtype f32, f64\n//! size rows, cols\n"
                             "//! param block 32..64 = 32\n//! arg out out dtype[rows]\n"
                             "//! arg x... in dtype[rows, cols]\n//! arg cols uint64 = cols\n"
                             "//! grid rows\n//! entry sums align bytes\n";
    static const char twin[] =
        "#define ARRAY(k) *const x##k = *(kiln_store_t *const *)args[1 + k]\n"
        "#define ELEMENT(k) kiln_load(x##k[i])\n"
        "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n"
        "                                                     void *const *args);\n"
        "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)\n{\n"
        "    const unsigned long long cols = *(const unsigned long long *)args[1 + KILN_INPUTS];\n"
        "    kiln_store_t *out = *(kiln_store_t *const *)args[0];\n"
        "    const kiln_store_t KILN_EACH(ARRAY);\n"
        "    for (; begin < end; begin++) {\n        kiln_real sum = 0;\n"
        "        for (unsigned long long i = begin * cols; i < (begin + 1) * cols; i++)\n"
        "            sum += kiln_value(KILN_EACH(ELEMENT));\n"
        "        out[begin] = kiln_store(sum);\n    }\n}\n";
    double x[6] = { 1, 2, 3, 4, 5, 6 }, y[6] = { 1, 10, 100, 1, 10, 100 }, out[2] = { 0 };
    const uint64_t sizes[] = { 2, 3 };
    const kiln_arg two[] = { KILN_ARRAY(out, sizeof(out)), KILN_ARRAY(x, sizeof(x)), KILN_ARRAY(y, sizeof(y)) };
    kiln_spec *spec = NULL;
    check_ok(kiln_template_define(service, cu, twin, NULL, &report));
    kiln_kernel *kernel = kiln_test_get(service, "template=sums op=mul(x,y) dtype=f64 target=cpu");
    check_ok(kiln_launch(kernel, NULL, sizes, 2, two, 3, NULL, &report));
    ck_assert(out[0] == 321 && out[1] == 654);
    kiln_kernel_release(kernel);
    kernel = kiln_test_get(service, "template=sums op=relu6 dtype=f64 target=cpu");
    expect(kiln_launch(kernel, NULL, sizes, 2, two, 3, NULL, &report), KILN_EINVAL, "takes 2 arguments");
    check_ok(kiln_launch(kernel, NULL, sizes, 2, two, 2, NULL, &report));
    ck_assert(out[0] == 6 && out[1] == 15);
    kiln_kernel_release(kernel);
    expect(kiln_spec_parse(&spec, service, "template=sums dtype=f16 op=relu6", &report), KILN_ESPEC, "takes no dtype");
    expect(kiln_template_define(service,
                                "//! template none\n//! arg x... in f32[1]\n//! grid 1\n//! block 1\n"
                                "//! entry none align 4\n",
                                NULL, NULL, &report),
           KILN_ESPEC, "the template takes none: write inputs LOW..HIGH");
}
END_TEST

START_TEST(test_templates__arrays_and_numbers_are_told_apart)
{
    double x[24] = { 0 }, out[24];
    const uint64_t sizes[] = { 4, 6 }, n = 24;
    const kiln_arg forgotten[2] = { KILN_ARRAY(out, sizeof(out)) };
    const kiln_arg number[] = { KILN_ARRAY(out, sizeof(out)), KILN_VALUE(x) };
    const kiln_grid grid = KILN_INIT(kiln_grid);
    void *outs[] = { out, x };
    const void *ins[] = { x, x };
    load_example("transpose");
    kiln_kernel *kernel = kiln_test_get(service, "template=transpose dtype=f64 target=cpu");
    expect(kiln_launch(kernel, NULL, sizes, 2, forgotten, 2, NULL, &report), KILN_EINVAL, "give it with KILN_ARRAY");
    expect(kiln_launch(kernel, NULL, sizes, 2, number, 2, NULL, &report), KILN_EINVAL, "argument x is an array");
    expect(kiln_launch(kernel, &grid, sizes, 2, number, 2, NULL, &report), KILN_EINVAL, "grid must be NULL");
    kiln_kernel_release(kernel);
    kernel = kiln_test_get(service, "op=add(x,y) dtype=f64 target=cpu");
    expect(kiln_launch_n(kernel, n, outs, 1, ins, 1, NULL, &report), KILN_EINVAL,
           "the kernel writes 1 and reads 2 arrays, and 1 and 1 are given");
    expect(kiln_launch_n(kernel, n, outs, 2, ins, 2, NULL, &report), KILN_EINVAL, "and 2 and 2 are given");
    expect(kiln_launch_n(kernel, n, outs, 0, ins, 2, NULL, &report), KILN_EINVAL, "and 0 and 2 are given");
    check_ok(kiln_launch_n(kernel, n, outs, 1, ins, 2, NULL, &report));
    check_ok(kiln_launch_n(kernel, 0, NULL, 1, NULL, 2, NULL, &report));
    expect(kiln_launch_n(kernel, 0, NULL, 1, NULL, 1, NULL, &report), KILN_EINVAL, "and 1 and 1 are given");
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_templates__a_gpu_gets_grid_block_shared_memory_and_parameters)
{
    kiln_fake_launch launch;
    const uint64_t sizes[] = { 70, 45 };
    if (!have_nvrtc())
        return;
    const kiln_fake *fake = kiln_fake_open();
    kiln_options options = kiln_test_gpu_options();
    kiln_service *cpu = service;
    service = kiln_test_open(&options);
    load_example("transpose");
    kiln_kernel *kernel = kiln_test_get(service, "template=transpose dtype=f32 tile=16 height=4");
    uint64_t bytes = 70 * 45 * 4;
    const kiln_arg args[] = { KILN_ARRAY((void *)0x100000, bytes), KILN_ARRAY((void *)0x200000, bytes) };
    check_ok(kiln_launch(kernel, NULL, sizes, 2, args, 2, NULL, &report));
    ck_assert_uint_eq(fake->launches(&launch, 1), 1);
    ck_assert_str_eq(launch.name, "transpose");
    ck_assert(launch.grid[0] == 3 && launch.grid[1] == 5 && launch.grid[2] == 1);
    ck_assert(launch.block[0] == 16 && launch.block[1] == 4 && launch.block[2] == 1);
    ck_assert_uint_eq(launch.shared, 16 * 17 * 4);
    ck_assert_uint_eq(launch.parameter_count, 4);
    ck_assert(launch.parameters[0] == 0x100000 && launch.parameters[1] == 0x200000);
    ck_assert(launch.parameters[2] == 70 && launch.parameters[3] == 45);
    const uint64_t flat[] = { 0, 45 };
    check_ok(kiln_launch(kernel, NULL, flat, 2, args, 2, NULL, &report));
    ck_assert_uint_eq(fake->launches(&launch, 1), 1);
    kiln_kernel_release(kernel);
    kiln_close(service);
    service = cpu;
}
END_TEST

/* ---- Files */

static void write_template(const char *name, const char *text)
{
    kiln_test_temp_write(name, text, strlen(text));
}

START_TEST(test_templates__files_that_cannot_be_read_are_named)
{
    const char *name = "x";
    char path[600];
    expect(kiln_template_load(service, "/nowhere/mine.cu", &name, &report), KILN_ENOENT,
           "/nowhere/mine.cu cannot be read");
    ck_assert_ptr_null(name);
    expect(kiln_template_load(service, "mine.txt", NULL, &report), KILN_EINVAL, "it must end in .cu");
    expect(kiln_template_load(service, ".cu", NULL, &report), KILN_EINVAL, "it must end in .cu");
    expect(kiln_template_load(service, NULL, NULL, &report), KILN_EINVAL, "must not be NULL");
    write_template("bad.cu", "//! template bad\n//! inputs 1\n//! op none\n");
    snprintf(path, sizeof(path), "%s", kiln_test_temp_path("bad.cu"));
    expect(kiln_template_load(service, path, NULL, &report), KILN_ESPEC, "bad.cu:3: unknown declaration 'op'");
    kiln_test_temp_write("nul.cu", "//! templ\0te", 12);
    expect(kiln_template_load(service, kiln_test_temp_path("nul.cu"), NULL, &report), KILN_ESPEC, "it has a byte 0");
    expect(kiln_template_load(service, kiln_test_temp_path(""), NULL, &report), KILN_EINVAL, "it must end in .cu");
    expect(kiln_template_define(service, NULL, NULL, &name, &report), KILN_EINVAL, "must not be NULL");
    expect(kiln_template_define(service, "//! template compare\n", NULL, &name, &report), KILN_ESPEC, "is missing");
}
END_TEST

static int find_template(void *data, const kiln_template_info *info)
{
    if (strcmp(info->name, "hardsigmoid256") == 0)
        *(kiln_template_info *)data = *info;
    return 0;
}

START_TEST(test_templates__are_listed_with_where_they_come_from)
{
    kiln_template_info info = { .size = 0 };
    load_example("hardsigmoid256");
    load_example("hardsigmoid256");
    check_ok(kiln_templates(service, find_template, &info));
    ck_assert_ptr_nonnull(strstr(info.origin, "/docs/examples/templates/hardsigmoid256.cu"));
    ck_assert(info.min_inputs == 0 && info.max_inputs == 0 && info.has_twin == 1);
    ck_assert_str_eq(info.reference, "hardsigmoid");
    ck_assert_uint_eq(info.size, sizeof(info));
}
END_TEST

START_TEST(test_templates__the_record_names_their_files)
{
    char path[600], text[2048] = "", line[1400];
    kiln_options options = kiln_test_options();
    snprintf(path, sizeof(path), "%s", kiln_test_temp_path("record.txt"));
    options.record = path;
    kiln_service *first = service;
    service = kiln_test_open(&options);
    load_example("hardsigmoid256");
    kiln_test_ask(service, "template=hardsigmoid256 target=cpu block=64", NULL);
    kiln_close(service);
    service = first;
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, file), 0);
    fclose(file);
    char *real = realpath(example("hardsigmoid256"), NULL);
    snprintf(line, sizeof(line), "\ndefine template %s\ntemplate=hardsigmoid256 dtype=f32 block=64\n", real);
    free(real);
    ck_assert_str_eq(strchr(text, '\n'), line);
}
END_TEST

Suite *kiln_test_spec_templates_suite(void)
{
    Suite *suite = suite_create("templates");
    TCase *tcase = tcase_create("templates");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, open_service, close_service);
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_templates__examples_compile_unmodified, 0, COUNT(examples));
    tcase_add_loop_test(tcase, test_templates__examples_build_for_every_target, 0, COUNT(examples));
    tcase_add_test(tcase, test_templates__a_twin_computes_what_the_reference_does);
    tcase_add_test(tcase, test_templates__the_transpose_transposes);
    tcase_add_test(tcase, test_templates__arguments_are_checked_before_anything_runs);
    tcase_add_test(tcase, test_templates__an_empty_array_overlaps_nothing);
    tcase_add_test(tcase, test_templates__a_result_of_another_size);
    tcase_add_test(tcase, test_templates__a_signature_tells_the_type_of_the_result);
    tcase_add_test(tcase, test_templates__kernels_say_what_they_take);
    tcase_add_test(tcase, test_templates__numbers_arrive_in_their_types);
    tcase_add_test(tcase, test_templates__outputs_and_scalars_are_arguments);
    tcase_add_test(tcase, test_templates__any_template_takes_an_op);
    tcase_add_test(tcase, test_templates__arrays_and_numbers_are_told_apart);
    tcase_add_test(tcase, test_templates__a_gpu_gets_grid_block_shared_memory_and_parameters);
    tcase_add_test(tcase, test_templates__files_that_cannot_be_read_are_named);
    tcase_add_test(tcase, test_templates__are_listed_with_where_they_come_from);
    tcase_add_test(tcase, test_templates__the_record_names_their_files);
    suite_add_tcase(suite, tcase);
    return suite;
}
