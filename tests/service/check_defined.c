/* Ops of users' own: that they compute what their text says, in every dtype, and live with threads and the record. */
#include "spec/spec.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kernel.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static kiln_service *service;

static void open_service(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
}

static void close_service(void)
{
    kiln_close(service);
}

static void define(const char *definition)
{
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_msg(kiln_op_define(service, definition, &report) == KILN_OK, "%s", report.message);
}

/* ---- Values */

static const double specials[] = { 0.0,   -0.0,   1,       -1,      0.5,      2.9999998, -3,
                                   3,     6,      -6,      1e-40,   -1e-45,   1e-310,    1.1754e-38,
                                   65504, 3.4e38, -3.4e38, 1e-300,  INFINITY, -INFINITY, NAN,
                                   7.25,  -2.5,   0.1,     1 / 3.0, 4.9e-324, 0x1p-149,  123456.789 };

enum { VALUES = COUNT(specials) };

/* Each expression as a definition and, the same text, as plain C in both types. Differs only where C has no such
 * word. */
/* clang-format off */
#define CASES(X)                                                                                                  \
    X(swish, "x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) / 6.0f", x * F(fmin)(F(fmax)(x + 3.0f, 0.0f), 6.0f) / 6.0f)   \
    X(poly, "(x - y) * (x + 2 * y) - -x", (x - y) * (x + 2 * y) - -x)                                             \
    X(choice, "x < y ? x : y == x ? 1 / x : sqrt(abs(y))", x < y ? x : y == x ? 1 / x : F(sqrt)(F(fabs)(y)))      \
    X(logic, "(x > 0 && !(y > 1)) + (x != y || y <= -1) * 2", (x > 0 && !(y > 1)) + (T)((x != y || y <= -1) * 2)) \
    X(whole, "floor(x) + ceil(y) * trunc(x) - rint(y)", F(floor)(x) + F(ceil)(y) * F(trunc)(x) - F(rint)(y))      \
    X(signs, "copysign(x, y) + (y ? -x : +x)", F(copysign)(x, y) + (y != 0 ? -x : x))                             \
    X(fused, "fma(x, y, -x)", F(fma)(x, y, -x))                                                                   \
    X(lesser, "fmin(x, y) - fmax(y, 0.25)", F(fmin)(x, y) - F(fmax)(y, (T)0.25))
/* clang-format on */

#define T       float
#define F(name) name##f
#define PLAIN(name, text, value)              \
    static float name##_f32(float x, float y) \
    {                                         \
        (void)y;                              \
        return value;                         \
    }
CASES(PLAIN)
#undef T
#undef F
#undef PLAIN
#define T       double
#define F(name) name
#define PLAIN(name, text, value)                 \
    static double name##_f64(double x, double y) \
    {                                            \
        (void)y;                                 \
        return value;                            \
    }
CASES(PLAIN)
#undef T
#undef F
#undef PLAIN

static const struct {
    const char *name, *text;
    float (*f32)(float x, float y);
    double (*f64)(double x, double y);
} cases[] = {
#define ROW(name, text, value) { #name, text, name##_f32, name##_f64 },
    CASES(ROW)
#undef ROW
};

static void run(const char *spec, uint64_t n, void *out, const void *const *in)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_kernel *kernel = kiln_test_get(service, spec);
    ck_assert_msg(kiln_test_launch(kernel, n, out, in, NULL, &report) == KILN_OK, "%s", report.message);
    kiln_kernel_release(kernel);
}

/* The least and the greatest of two zeros may have either sign in C. */
static void check_same(const char *text, double x, double y, double got, double want)
{
    bool same = got == want || (isnan(got) && isnan(want));
    ck_assert_msg(same, "%s of %a and %a is %a, should be %a", text, x, y, got, want);
    ck_assert_msg(isnan(got) || signbit(got) == signbit(want) || strstr(text, "fm") != NULL, "%s of %a and %a: sign",
                  text, x, y);
}

START_TEST(test_defined__cpu_computes_what_c_would)
{
    enum { N = VALUES * VALUES };
    static float x32[N], y32[N], out32[N];
    static double x64[N], y64[N], out64[N];
    char text[256];
    for (int i = 0; i < N; i++) {
        x64[i] = specials[i / VALUES], y64[i] = specials[i % VALUES];
        x32[i] = (float)x64[i], y32[i] = (float)y64[i];
    }
    snprintf(text, sizeof(text), "%s(x, y) = %s", cases[_i].name, cases[_i].text);
    define(text);
    snprintf(text, sizeof(text), "op=%s dtype=f32 math=portable target=cpu", cases[_i].name);
    run(text, N, out32, (const void *const[]){ x32, y32 });
    snprintf(text, sizeof(text), "op=%s dtype=f64 math=portable target=cpu", cases[_i].name);
    run(text, N, out64, (const void *const[]){ x64, y64 });
    for (int i = 0; i < N; i++) {
        check_same(cases[_i].text, (double)x32[i], (double)y32[i], (double)out32[i],
                   (double)cases[_i].f32(x32[i], y32[i]));
        check_same(cases[_i].text, x64[i], y64[i], out64[i], cases[_i].f64(x64[i], y64[i]));
    }
}
END_TEST

START_TEST(test_defined__small_types_round_once_and_parameters_count)
{
    float x32[8] = { 1, 2, 3, 0.1f, -7, 1000, 0, 5 }, want[8];
    uint16_t x16[8], out16[8];
    for (int i = 0; i < 8; i++) {
        uint32_t bits;
        memcpy(&bits, &x32[i], sizeof(bits));
        x16[i] = (uint16_t)(bits >> 16);
        bits = (uint32_t)x16[i] << 16;
        memcpy(&x32[i], &bits, sizeof(bits));
    }
    define("third(x; by=3) = x / by");
    define("twice_third(x; by=3) = 2 * third(x, by)");
    run("op=twice_third(by=7) dtype=bf16 target=cpu", 8, out16, (const void *const[]){ x16 });
    run("op=twice_third(by=7) dtype=f32 target=cpu", 8, want, (const void *const[]){ x32 });
    for (int i = 0; i < 8; i++) {
        uint32_t bits;
        ck_assert(want[i] == 2 * (x32[i] * (1 / 7.0f)));
        memcpy(&bits, &want[i], sizeof(bits));
        ck_assert_uint_eq(out16[i], (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}
END_TEST

/* ---- The reference */

/* Words of C, macros of compilers and names of Kiln's own C text: all that is allowed compiles, by both compilers. */
static const char *const names[] = {
    "int",   "float",  "return", "if",   "auto",    "bool",  "asm",   "linux", "unix",     "i386",   "errno",  "main",
    "kilns", "value",  "real",   "out",  "n",       "op",    "begin", "end",   "block",    "half",   "float4", "size_t",
    "a",     "a_b",    "a1_2",   "bits", "store",   "load",  "word",  "lanes", "vector",   "fetch",  "signed", "this",
    "and",   "extern", "inline", "true", "alignas", "class", "new",   "warp",  "constant", "device",
};

enum { NAMES_TOGETHER = 8 };

/* Some names in one unit: each is an op, another op's parameter, and with a '_' behind it an op that calls the
 * first. */
static void compile_names(int first, int count)
{
    char text[1024];
    const float x = 3;
    float out = 0;
    const void *in[] = { &x };
    size_t length = (size_t)snprintf(text, sizeof(text), "op=");
    for (int i = first; i < first + count; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s_(", names[i]);
    length += (size_t)snprintf(text + length, sizeof(text) - length, "x");
    for (int i = 0; i < count; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, ")");
    snprintf(text + length, sizeof(text) - length, " dtype=f32 target=cpu");
    run(text, 1, &out, in);
    ck_assert_double_eq(out, 3);
    snprintf(text + length, sizeof(text) - length, " dtype=f32 target=sm_90");
    kiln_program_release(kiln_test_build(service, text));
}

START_TEST(test_defined__any_name_that_is_allowed_compiles)
{
    char text[256];
    for (int i = 0; i < COUNT(names); i++) {
        const char *name = names[i], *other = names[(i + 1) % COUNT(names)];
        snprintf(text, sizeof(text), "%s(x; %s=1) = x * %s", name, other, other);
        define(text);
        snprintf(text, sizeof(text), "%s_(x; %s=1) = %s(x) * %s", name, name, name, name);
        define(text);
    }
    for (int i = 0; i < COUNT(names); i += NAMES_TOGETHER)
        compile_names(i, COUNT(names) - i < NAMES_TOGETHER ? COUNT(names) - i : NAMES_TOGETHER);
}
END_TEST

/* Results that no kernel gave against the definition of a spec's op. */
static kiln_status hold(kiln__worst_error *found, const char *text, uint64_t n, const void *results,
                        const void *const *in)
{
    kiln_spec *spec = kiln_test_spec(service, text);
    const kiln__op *op = kiln__reference_op(&spec->fields);
    double bound = op != NULL ? op->ulps : 0;
    if (op != NULL)
        kiln__reference_compare(&spec->fields, 0, n, results, in, NULL, found);
    kiln_spec_free(spec);
    return op == NULL ? KILN_ENOENT : found->worst > bound ? KILN_EMISMATCH : KILN_OK;
}

START_TEST(test_defined__results_are_held_against_the_reference)
{
    float x[4] = { 1, 2, -1, NAN }, out[4] = { 0.1f, 0.2f, -0.1f, NAN };
    const void *const in[] = { x };
    static const char tenth[] = "op=tenth dtype=f32";
    kiln__worst_error found;
    define("tenth = x / 10 within 0.5 ulp");
    define("near = 0.1 * x within 1 ulp of x / 10");
    define("soft = x / (1 + abs(x)) within 2 ulp of tanh(x)");
    ck_assert_int_eq(hold(&found, tenth, 4, out, in), KILN_OK);
    ck_assert(found.worst <= 0.5);
    out[1] = nextafterf(out[1], 1);
    ck_assert_int_eq(hold(&found, tenth, 4, out, in), KILN_EMISMATCH);
    ck_assert(found.worst > 0.5 && found.worst < 1.5 && found.where == 1);
    out[3] = 0;
    ck_assert_int_eq(hold(&found, tenth, 4, out, in), KILN_EMISMATCH);
    ck_assert(isinf(found.worst) && found.where == 3);
    ck_assert_int_eq(hold(&found, "op=soft dtype=f32", 3, x, in), KILN_EMISMATCH);
    ck_assert_int_eq(hold(&found, "op=relu6 dtype=f32", 4, out, in), KILN_ENOENT);
    ck_assert_int_eq(hold(&found, "op=tenth(relu6(x)) dtype=f32", 4, out, in), KILN_ENOENT);
}
END_TEST

static const struct {
    const char *name, *definition;
    double low, high;
} curves[] = {
    { "exp", "e = exp(x) within 2 ulp", -110, 95 },
    { "log", "e = log(x) within 2 ulp", -1, 200 },
    { "tanh", "e = tanh(x) within 4 ulp", -12, 12 },
    { "silu", "e = x / (1 + exp(-x)) within 6 ulp", -80, 80 },
};

/* The greatest distance from the definition, which allows it. */
static double verify(const char *text, uint64_t n, size_t size, void *out, const void *x)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_verification found = KILN_INIT(kiln_verification);
    const kiln_arg args[] = { KILN_ARRAY(out, n * size), KILN_ARRAY(x, n * size) };
    kiln_kernel *kernel = kiln_test_get(service, text);
    kiln_status status = kiln_verify(&found, service, kernel, NULL, &n, 1, args, 2, NULL, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    ck_assert(found.compared == n && found.wrong == 0 && found.worst > 0 && found.worst <= found.bound);
    kiln_kernel_release(kernel);
    kiln_report_clear(&report);
    return found.worst;
}

/* Against the C library in double, which is good for 1 ulp of f64 itself. */
START_TEST(test_defined__curves_are_near_the_c_library)
{
    enum { N = 400000 };
    static float x32[N], out32[N];
    static double x64[N], out64[N];
    double scale = curves[_i].high - curves[_i].low;
    for (int i = 0; i < N; i++) {
        x64[i] = curves[_i].low + scale * i / N;
        if (i % 3 == 0)
            x64[i] = ldexp(x64[i], -(i % 140)); /* small ones, subnormals among them */
        if (i < VALUES)
            x64[i] = specials[i];
        x32[i] = (float)x64[i];
    }
    define(curves[_i].definition);
    double single = verify("op=e dtype=f32 target=cpu", N, sizeof(float), out32, x32);
    printf("   %s: at most %.3g ulp in f32", curves[_i].name, single);
    printf(", %.3g in f64\n", verify("op=e dtype=f64 target=cpu", N, sizeof(double), out64, x64));
}
END_TEST

/* Every value of a 16-bit type, decoded by the check itself: the identity is nowhere off, and one bit is seen. */
START_TEST(test_defined__small_types_are_decoded)
{
    static uint16_t all[65536], other[65536];
    const char *const specs[] = { "op=same dtype=f16", "op=same dtype=bf16" };
    kiln__worst_error found;
    define("same = x within 0 ulp");
    for (int i = 0; i < 65536; i++)
        all[i] = other[i] = (uint16_t)i;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(hold(&found, specs[i], 65536, all, (const void *const[]){ all }), KILN_OK);
        other[4711] ^= 1;
        ck_assert_int_eq(hold(&found, specs[i], 65536, other, (const void *const[]){ all }), KILN_EMISMATCH);
        ck_assert(found.where == 4711 && found.worst == 1);
        other[4711] ^= 1;
    }
}
END_TEST

/* ---- The service */

static int find_origin(void *data, const kiln_op_info *op)
{
    const char **out = data;
    if (strcmp(op->name, "mine") == 0 || strcmp(op->name, "add") == 0)
        out[op->name[0] == 'm'] = op->origin;
    return 0;
}

START_TEST(test_defined__ops_are_listed_and_specs_know_them)
{
    const char *origins[2] = { NULL, NULL };
    define("mine(x, y; p=2) = x + p * y");
    ck_assert_int_eq(kiln_ops(service, find_origin, origins), KILN_OK);
    ck_assert_str_eq(origins[0], "");
    ck_assert_str_eq(origins[1], "defined");
    kiln_spec *spec = kiln_test_spec(service, "op=relu6(mine(x,y,p=3)) dtype=f16");
    ck_assert_str_eq(kiln_spec_text(spec), "op=relu6(mine(x,y,3)) dtype=f16");
    ck_assert_uint_eq(kiln_test_spec_inputs(spec), 2);
    kiln_spec_free(spec);
    ck_assert_int_eq(kiln_op_define(NULL, "a = x", NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_op_define(service, NULL, NULL), KILN_EINVAL);
}
END_TEST

/* Two services, one store, one name, two meanings: neither gets the other's kernel. */
START_TEST(test_defined__equal_names_do_not_share_kernels)
{
    float x[3] = { 1, 2, 3 }, one[3], two[3];
    const void *const in[] = { x };
    kiln_options options = kiln_test_options();
    kiln_service *first = service;
    define("mine = x + 1");
    run("op=mine dtype=f32 target=cpu", 3, one, in);
    service = kiln_test_open(&options);
    define("mine = x + 2");
    run("op=mine dtype=f32 target=cpu", 3, two, in);
    ck_assert(one[2] == 4 && two[2] == 5);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 1);
    kiln_close(service);
    service = first;
}
END_TEST

enum { THREADS = 4, EACH = 100 };

/* Check's own assertions are for the thread that runs the test. */
static void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

static void *define_many(void *data)
{
    char text[64];
    for (int i = 0; i < EACH; i++) {
        snprintf(text, sizeof(text), "op_%d = x + %d", i, i);
        require(kiln_op_define(service, text, NULL) == KILN_OK, text);
        snprintf(text, sizeof(text), "mine_%d_%d = op_%d(x) * x", (int)(intptr_t)data, i, i);
        require(kiln_op_define(service, text, NULL) == KILN_OK, text);
        snprintf(text, sizeof(text), "op=mine_%d_%d dtype=f32 target=cpu", (int)(intptr_t)data, i);
        kiln_spec *spec = NULL;
        char *source = NULL;
        require(kiln_spec_parse(&spec, service, text, NULL) == KILN_OK, text);
        require(kiln_spec_source(&source, spec, NULL) == KILN_OK, text);
        kiln_text_free(source);
        kiln_spec_free(spec);
    }
    return NULL;
}

static int count_one(void *data, const kiln_op_info *op)
{
    (void)op;
    ++*(int *)data;
    return 0;
}

START_TEST(test_defined__threads_define_and_read)
{
    pthread_t threads[THREADS];
    int before = 0, after = 0;
    ck_assert_int_eq(kiln_ops(service, count_one, &before), KILN_OK);
    for (intptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, define_many, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(kiln_ops(service, count_one, &after), KILN_OK);
    ck_assert_int_eq(after - before, EACH + THREADS * EACH);
}
END_TEST

START_TEST(test_defined__the_record_has_definitions_before_their_use)
{
    char path[512], text[1024] = "";
    kiln_options options = kiln_test_options();
    snprintf(path, sizeof(path), "%s", kiln_test_temp_path("record.txt"));
    options.record = path;
    kiln_service *first = service;
    service = kiln_test_open(&options);
    define("mine( x;p=1 )  =\n x*p");
    define("mine(x; p=1) = x * p");
    kiln_test_ask(service, "op=mine(3) dtype=f16 target=cpu", NULL);
    ck_assert_uint_eq(kiln_test_stats(service).record_errors, 0);
    kiln_close(service);
    service = first;
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, file), 0);
    fclose(file);
    const char *line = strchr(text, '\n');
    ck_assert_str_eq(line, "\ndefine op mine( x;p=1 ) = x*p\nop=mine(3) dtype=f16\n");
}
END_TEST

Suite *kiln_test_service_defined_suite(void)
{
    Suite *suite = suite_create("defined");
    TCase *tcase = tcase_create("defined");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, open_service, close_service);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_defined__cpu_computes_what_c_would, 0, COUNT(cases));
    tcase_add_test(tcase, test_defined__small_types_round_once_and_parameters_count);
    tcase_add_test(tcase, test_defined__any_name_that_is_allowed_compiles);
    tcase_add_test(tcase, test_defined__results_are_held_against_the_reference);
    tcase_add_loop_test(tcase, test_defined__curves_are_near_the_c_library, 0, COUNT(curves));
    tcase_add_test(tcase, test_defined__small_types_are_decoded);
    tcase_add_test(tcase, test_defined__ops_are_listed_and_specs_know_them);
    tcase_add_test(tcase, test_defined__equal_names_do_not_share_kernels);
    tcase_add_test(tcase, test_defined__threads_define_and_read);
    tcase_add_test(tcase, test_defined__the_record_has_definitions_before_their_use);
    suite_add_tcase(suite, tcase);
    return suite;
}
