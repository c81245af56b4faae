/* Results, texts and binaries do not depend on the caller's floating-point environment, and the caller keeps it. */
#include "gpu/cuda.h"
#include "spec/spec.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <fenv.h>
#include <kiln/tune.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* ---- Environments that hosts have */

enum { COUNT = 200000, OPS = 5, DTYPES = 4 };

static void flush_to_zero(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero: what -ffast-math sets */
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | UINT64_C(1) << 24));
#endif
}

static void trap_exceptions(void)
{
    feenableexcept(FE_ALL_EXCEPT);
}

static void round_up(void)
{
    fesetround(FE_UPWARD);
}

static void round_towards_zero(void)
{
    fesetround(FE_TOWARDZERO);
}

static void (*const environments[])(void) = { flush_to_zero, trap_exceptions, round_up, round_towards_zero };
enum { ENVIRONMENTS = sizeof(environments) / sizeof(environments[0]) };

/* The parts of an environment that are compared; fenv_t also holds where the last exception was. */
typedef struct state {
    int rounding, raised, trapped;
    unsigned control;
} state;

static state state_now(void)
{
    state now = { fegetround(), fetestexcept(FE_ALL_EXCEPT), fegetexcept(), 0 };
#if defined(__x86_64__)
    now.control = _mm_getcsr();
#endif
    return now;
}

static fenv_t of_check;
static state before;

/* With one pending flag, which a call may neither clear nor join by others. */
static void enter(int which)
{
    fegetenv(&of_check);
    feclearexcept(FE_ALL_EXCEPT);
    if (environments[which] != trap_exceptions)
        feraiseexcept(FE_DIVBYZERO);
    environments[which]();
    before = state_now();
}

static char broken[256]; /* how the last environment was left otherwise, "" if it was not */

/* Back to the test's own, in which Check calculates. */
static void leave(const char *after)
{
    state now = state_now();
    fesetenv(&of_check);
    broken[0] = '\0';
    if (memcmp(&now, &before, sizeof(now)) != 0)
        snprintf(broken, sizeof(broken),
                 "after %s: rounding %x, raised %x, trapped %x, control %x instead of %x, %x, %x, %x", after,
                 (unsigned)now.rounding, (unsigned)now.raised, (unsigned)now.trapped, now.control,
                 (unsigned)before.rounding, (unsigned)before.raised, (unsigned)before.trapped, before.control);
}

static void expect_kept(void)
{
    ck_assert_str_eq(broken, "");
}

/* ---- Kernels */

static const char *const ops[OPS] = { "relu6", "hardsigmoid", "add(x,y)", "mul(add(x,y),z)", "third(x)" };
static const char *const dtypes[DTYPES] = { "f32", "f64", "f16", "bf16" };

static kiln_service *open_with_op(void)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_op_define(service, "third(x) = x / 3", NULL), KILN_OK);
    return service;
}

static size_t bytes_of(int dtype)
{
    return dtype == 0 ? 4 : dtype == 1 ? 8 : 2;
}

/* Every fourth value is subnormal, a few are NaN, signalling or not. */
static void fill(unsigned char *data, int dtype, unsigned seed)
{
    static const int mantissas[DTYPES] = { 23, 52, 10, 7 };
    size_t size = bytes_of(dtype);
    uint64_t x = seed, exponents = ~UINT64_C(0) << mantissas[dtype], sign = UINT64_C(1) << (size * 8 - 1);
    for (size_t i = 0; i < COUNT; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t bits = x >> (64 - size * 8);
        if (i % 4 == 0)
            bits &= ~exponents | sign;
        if (i % 997 == 0)
            bits = (exponents & ~sign) | 1;
        memcpy(data + i * size, &bits, size);
    }
}

static bool is_nan(const unsigned char *at, int dtype)
{
    static const uint64_t infinities[DTYPES] = { 0x7f800000, UINT64_C(0x7ff0000000000000), 0x7c00, 0x7f80 };
    uint64_t bits = 0;
    memcpy(&bits, at, bytes_of(dtype));
    return (bits & ~(UINT64_C(1) << (bytes_of(dtype) * 8 - 1))) > infinities[dtype];
}

static size_t count_others(const unsigned char *a, const unsigned char *b, int dtype)
{
    size_t size = bytes_of(dtype), count = 0;
    for (size_t i = 0; i < COUNT; i++)
        count += memcmp(a + i * size, b + i * size, size) != 0 &&
                 !(is_nan(a + i * size, dtype) && is_nan(b + i * size, dtype));
    return count;
}

/* Gets and launches in the environment; the service and so its threads may be new. */
START_TEST(test_fpenv__kernels_give_the_same_bits)
{
    static unsigned char in[3][COUNT * 8], want[COUNT * 8], got[COUNT * 8];
    const void *inputs[] = { in[0], in[1], in[2] };
    for (int op = 0; op < OPS; op++) {
        for (int dtype = 0; dtype < DTYPES; dtype++) {
            char text[128];
            snprintf(text, sizeof(text), "op=%s dtype=%s target=cpu", ops[op], dtypes[dtype]);
            for (unsigned i = 0; i < 3; i++)
                fill(in[i], dtype, i + 1);
            kiln_service *service = open_with_op();
            kiln_kernel *kernel = kiln_test_get(service, text);
            ck_assert_int_eq(kiln_test_launch(kernel, COUNT, want, inputs, NULL, NULL), KILN_OK);
            kiln_kernel_release(kernel);
            kiln_close(service);
            service = open_with_op();
            kernel = kiln_test_get(service, text);
            enter(_i);
            kiln_status status = kiln_test_launch(kernel, COUNT, got, inputs, NULL, NULL);
            leave(text);
            ck_assert_int_eq(status, KILN_OK);
            size_t others = count_others(want, got, dtype);
            ck_assert_msg(others == 0, "%s: %zu of %d results have other bits", text, others, COUNT);
            expect_kept();
            kiln_kernel_release(kernel);
            kiln_close(service);
        }
    }
}
END_TEST

/* A run of one chunk never leaves the caller's thread. */
START_TEST(test_fpenv__a_short_launch_gives_the_same_bits)
{
    const float in[] = { 0x1p-140f, -0x1p-140f, 0x1p-149f, 1.0f / 3, 0x1p-126f, NAN };
    const void *inputs[] = { in };
    float want[6], got[6];
    kiln_service *service = open_with_op();
    kiln_kernel *kernel = kiln_test_get(service, "op=third(x) dtype=f32 target=cpu");
    ck_assert_int_eq(kiln_test_launch(kernel, 6, want, inputs, NULL, NULL), KILN_OK);
    enter(_i);
    kiln_status status = kiln_test_launch(kernel, 6, got, inputs, NULL, NULL);
    leave("kiln_launch");
    ck_assert_int_eq(status, KILN_OK);
    ck_assert_mem_eq(want, got, 5 * sizeof(float));
    expect_kept();
    kiln_kernel_release(kernel);
    kiln_close(service);
}
END_TEST

/* 2^24 + 1 is no float. */
START_TEST(test_fpenv__a_formula_passes_the_same_number)
{
    static const char text[] = "//! template passing\n//! param block 32..1024 = 32\n//! entry passing align 4\n"
                               "//! grid 1\n//! size n\n//! arg out out f32[1]\n//! arg real f32 = n\n";
    static const char twin[] =
        "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n"
        "                                                     void *const *args);\n"
        "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)\n"
        "{\n    (void)begin, (void)end;\n    **(float *const *)args[0] = *(float *)args[1];\n}\n";
    const uint64_t n = 16777217;
    float got = 0;
    const kiln_arg args[] = { KILN_ARRAY(&got, sizeof(got)) };
    kiln_report report = KILN_INIT(kiln_report);
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_status status = kiln_template_define(service, text, twin, NULL, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    kiln_kernel *kernel = kiln_test_get(service, "template=passing target=cpu");
    enter(_i);
    status = kiln_launch(kernel, NULL, &n, 1, args, 1, NULL, &report);
    leave("kiln_launch");
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    ck_assert_msg(got == 16777216, "%a", (double)got);
    expect_kept();
    kiln_kernel_release(kernel);
    kiln_close(service);
}
END_TEST

/* ---- Definitions */

#define DEFINITION "tiny(x; p=1e-310) = x * 0.1f + 1e-320 within 2 ulp of x * 0.1f + 1e-320"

static kiln_status define(kiln_service *service, int environment)
{
    if (environment >= 0)
        enter(environment);
    kiln_status status = kiln_op_define(service, DEFINITION, NULL);
    if (environment >= 0)
        leave("kiln_op_define");
    return status;
}

static char *source_of(kiln_service *service, int environment)
{
    char *source = NULL;
    kiln_spec *spec = NULL;
    if (environment >= 0)
        enter(environment);
    kiln_status status = kiln_spec_parse(&spec, service, "op=tiny(p=3e-310) dtype=f64 target=cpu", NULL);
    if (status == KILN_OK)
        status = kiln_spec_source(&source, spec, NULL);
    kiln_spec_free(spec);
    if (environment >= 0)
        leave("kiln_spec_source");
    ck_assert_int_eq(status, KILN_OK);
    return source;
}

START_TEST(test_fpenv__definitions_and_specs_make_the_same_text)
{
    kiln_options options = kiln_test_options();
    kiln_service *plain = kiln_test_open(&options), *other = kiln_test_open(&options);
    ck_assert_int_eq(define(plain, -1), KILN_OK);
    ck_assert_int_eq(define(other, _i), KILN_OK);
    char *want = source_of(plain, -1), *got = source_of(other, -1);
    ck_assert(strcmp(want, got) == 0);
    expect_kept();
    kiln_text_free(got);
    got = source_of(other, _i);
    ck_assert(strcmp(want, got) == 0);
    expect_kept();
    kiln_text_free(want);
    kiln_text_free(got);
    kiln_close(plain);
    kiln_close(other);
}
END_TEST

START_TEST(test_fpenv__references_find_the_same)
{
    enum { N = 1000 };
    static double x[N], results[N];
    const void *in[] = { x };
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    ck_assert_int_eq(define(service, -1), KILN_OK);
    kiln_spec *spec = kiln_test_spec(service, "op=tiny dtype=f64 target=cpu");
    for (int i = 0; i < N; i++) {
        x[i] = i % 3 == 0 ? (i - 500) * 0x1p-1070 : i / 7.0;
        results[i] = x[i] * (double)0.1f + 1e-320;
    }
    x[5] = results[5] = NAN;
    results[9] += 0x1p-1073;
    kiln__worst_error want, got;
    kiln__reference_compare(&spec->fields, 0, N, results, in, NULL, &want);
    ck_assert_uint_eq(want.where, 9);
    enter(_i);
    kiln__reference_compare(&spec->fields, 0, N, results, in, NULL, &got);
    leave("kiln__reference_compare");
    ck_assert_uint_eq(got.where, want.where);
    ck_assert(got.worst == want.worst);
    expect_kept();
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

/* Its results are 3 units above x in the first launch, whose poison is negative, and x in the second one. */
#define DRIFTS                                                                                                \
    "//! template drifts\n//! tolerance ulp 0.5 absolute 3e-45\n//! size n\n//! arg out out f32[max(n, 1)]\n" \
    "//! arg x in f32[max(n, 1)]\n//! arg n uint64 = n\n//! param block 32..1024 = 32\n//! grid 1\n"          \
    "//! entry drifts align 4\n"
#define DRIFTS_TWIN                                                                                              \
    "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n" \
    "                                                     void *const *args);\n"                                 \
    "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)\n{\n"                    \
    "    const int *x = *(const int *const *)args[1];\n    int *out = *(int *const *)args[0];\n"                 \
    "    const unsigned long long n = *(const unsigned long long *)args[2];\n"                                   \
    "    for (unsigned long long i = 0; i < (begin < end ? n : 0); i++)\n"                                       \
    "        out[i] = x[i] + (out[i] < 0 ? 3 : 0);\n}\n"

/* 3 units of a subnormal number are 4.2e-45. The tolerance of 0.5 units and 3e-45 allows less, one of 4.2e-45 does. */
START_TEST(test_fpenv__verifications_find_the_same)
{
    enum { N = 64 };
    static float x[N], out[N];
    const uint64_t n = N;
    const kiln_arg args[] = { KILN_ARRAY(out, sizeof(out)), KILN_ARRAY(x, sizeof(x)) };
    const kiln_tolerance three = { .size = sizeof(three), .ulp = 2, .absolute = 0x1p-149 };
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_verification found[2] = { KILN_INIT(kiln_verification), KILN_INIT(kiln_verification) };
    for (int i = 0; i < N; i++)
        memcpy(x + i, &(int){ 8 * i }, sizeof(x[i]));
    enter(_i);
    kiln_status defined = kiln_template_define(service, DRIFTS, DRIFTS_TWIN, NULL, NULL);
    leave("kiln_template_define");
    ck_assert_int_eq(defined, KILN_OK);
    kiln_kernel *kernel = kiln_test_get(service, "template=drifts target=cpu");
    enter(_i);
    kiln_status declared = kiln_verify(&found[0], service, kernel, NULL, &n, 1, args, 2, NULL, NULL);
    kiln_status given = kiln_verify(&found[1], service, kernel, NULL, &n, 1, args, 2, &three, NULL);
    leave("kiln_verify");
    ck_assert_int_eq(declared, KILN_EMISMATCH);
    ck_assert_int_eq(given, KILN_OK);
    ck_assert(found[0].wrong == N && found[0].ulp == 0.5 && found[0].absolute == 3e-45);
    ck_assert_uint_eq(found[1].wrong, 0);
    expect_kept();
    kiln_kernel_release(kernel);
    kiln_close(service);
}
END_TEST

/* ---- All that takes long */

/* From nothing to a tuned kernel: a trap anywhere would end the test. */
START_TEST(test_fpenv__whole_calls_keep_the_environment)
{
    kiln_options options = kiln_test_options();
    kiln_tune_options tune = KILN_INIT(kiln_tune_options);
    kiln_service *service = NULL;
    kiln_spec *spec = NULL;
    kiln_program *program = NULL;
    kiln_kernel *kernel = NULL;
    kiln_tuning *tuning = NULL;
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_work work = KILN_INIT(kiln_work);
    kiln_report report = KILN_INIT(kiln_report);
    work.elements = 50000;
    tune.work = &work;
    tune.budget_s = 0.5;
    enter(_i);
    kiln_status status = kiln_open(&service, &options, NULL);
    if (status == KILN_OK)
        status = kiln_spec_parse(&spec, service, "op=hardtanh(-1e-310,1e-3) dtype=f64 target=cpu", NULL);
    if (status == KILN_OK)
        status = kiln_test_build_spec(&program, service, spec, NULL);
    if (status == KILN_OK)
        status = kiln_get_kernel(&kernel, service, spec, NULL);
    if (status == KILN_OK)
        status = kiln_tune(&tuning, service, spec, &tune, &report);
    if (status == KILN_OK)
        status = kiln_tuning_get_info(tuning, &info);
    kiln_tuning_free(tuning);
    kiln_program_release(program);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    kiln_close(service);
    leave("kiln_open to kiln_close");
    ck_assert_msg(status == KILN_OK, "%s: %s", kiln_status_name(status), report.message);
    expect_kept();
}
END_TEST

/* ---- NVRTC in this process: it calculates constants */

static char folding[] = "extern \"C\" __global__ void fold(float *f, double *d)\n"
                        "{\n"
                        "    constexpr float tiny = 1e-30f * 1e-12f, third = 1.0f / 3.0f;\n"
                        "    constexpr double small = 1e-300 * 1e-15, tenth = 0.1 + 0.2, seventh = 1.0 / 7.0;\n"
                        "    f[0] = tiny, f[1] = third, f[2] = 1e-41f + 0.0f, f[3] = (float)0.1;\n"
                        "    d[0] = small, d[1] = tenth, d[2] = seventh, d[3] = 4e-320;\n"
                        "}\n";

static kiln_status compile_folding(kiln__image *image, int environment)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__compiler *compiler = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    kiln__unit unit = { .spec = (char *)"folding", .source = folding, .source_length = strlen(folding) };
    ck_assert_ptr_nonnull(compiler);
    ck_assert(kiln__target_parse("sm_90", 5, &unit.target));
    unit.rule = (kiln__rule){ .block = { 1, 1, 1 }, .tile = 1, .entry_count = 1 };
    strcpy(unit.rule.entries[0].name, "fold");
    if (environment >= 0)
        enter(environment);
    kiln_status status = compiler->vtable->compile(compiler, &unit, image, &report);
    if (environment >= 0)
        leave("nvrtc");
    ck_assert_msg(status == KILN_OK || status == KILN_ENOCOMPILER, "%s\n%s", report.message,
                  report.log != NULL ? report.log : "");
    kiln_report_clear(&report);
    compiler->vtable->close(compiler);
    return status;
}

START_TEST(test_fpenv__nvrtc_makes_the_same_code)
{
    kiln__image want = { 0 }, got = { 0 };
    if (compile_folding(&want, -1) == KILN_ENOCOMPILER)
        return;
    ck_assert_int_eq(compile_folding(&got, _i), KILN_OK);
    ck_assert(strcmp(got.ptx, want.ptx) == 0);
    ck_assert_uint_eq(got.binary_length, want.binary_length);
    ck_assert_mem_eq(got.binary, want.binary, want.binary_length);
    expect_kept();
    kiln__image_fini(&want);
    kiln__image_fini(&got);
}
END_TEST

Suite *kiln_test_cpu_fpenv_suite(void)
{
    Suite *suite = suite_create("fpenv");
    TCase *tests = tcase_create("fpenv");
    kiln_test_temp_use(tests);
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, test_fpenv__kernels_give_the_same_bits, 0, ENVIRONMENTS);
    tcase_add_loop_test(tests, test_fpenv__a_short_launch_gives_the_same_bits, 0, ENVIRONMENTS);
    tcase_add_loop_test(tests, test_fpenv__a_formula_passes_the_same_number, 0, ENVIRONMENTS);
    tcase_add_loop_test(tests, test_fpenv__definitions_and_specs_make_the_same_text, 0, ENVIRONMENTS);
    tcase_add_loop_test(tests, test_fpenv__references_find_the_same, 0, ENVIRONMENTS);
    tcase_add_loop_test(tests, test_fpenv__verifications_find_the_same, 0, ENVIRONMENTS);
    tcase_add_loop_test(tests, test_fpenv__whole_calls_keep_the_environment, 0, ENVIRONMENTS);
    tcase_add_loop_test(tests, test_fpenv__nvrtc_makes_the_same_code, 0, ENVIRONMENTS);
    suite_add_tcase(suite, tests);
    return suite;
}
