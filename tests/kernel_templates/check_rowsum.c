/* The template rowsum, on the cpu: sums of rows against sums in long double, the order of the additions, what is
 * refused. */
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kernel.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { TILE = 1024 }; /* sums of a row, as the template has them */

typedef struct type {
    const char *name;
    size_t bytes;
    int fraction, bias; /* of the stored type: bits without the leading one; of a 16-bit type's exponent */
    double step;        /* half a unit of the last place of 1, in the type that is computed in */
} type;

static const type types[] = {
    { "f32", 4, 23, 0, 0x1p-24 },
    { "f64", 8, 52, 0, 0x1p-53 },
    { "f16", 2, 10, 15, 0x1p-24 },
    { "bf16", 2, 7, 127, 0x1p-24 },
};

static kiln_service *service;
static kiln_report report = KILN_INIT(kiln_report);

static void open_service(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
}

static void close_service(void)
{
    kiln_report_clear(&report);
    kiln_close(service);
}

/* A value that every type has. */
static void put(const type *t, void *array, size_t i, double value)
{
    int exponent;
    if (t->bytes == 8) {
        ((double *)array)[i] = value;
    } else if (t->bytes == 4) {
        ((float *)array)[i] = (float)value;
    } else {
        double fraction = frexp(fabs(value), &exponent);
        unsigned bits = value == 0 ? 0 : (unsigned)ldexp(2 * fraction - 1, t->fraction);
        unsigned biased = value == 0 ? 0 : (unsigned)(exponent - 1 + t->bias) << t->fraction;
        ((uint16_t *)array)[i] = (uint16_t)((value < 0 ? 0x8000u : 0u) | biased | bits);
    }
}

static double take(const type *t, const void *array, size_t i)
{
    if (t->bytes == 8)
        return ((const double *)array)[i];
    if (t->bytes == 4)
        return ((const float *)array)[i];
    unsigned element = ((const uint16_t *)array)[i];
    int exponent = (int)((element & 0x7fffu) >> t->fraction);
    double bits = (double)(element & ((1u << t->fraction) - 1));
    double magnitude = exponent == 0 ? 0 : ldexp(1 + ldexp(bits, -t->fraction), exponent - t->bias);
    return element & 0x8000u ? -magnitude : magnitude;
}

/* ---- Ops, in long double but for what is rounded to the type that is computed in */

static double copied(bool is_double, double x, double y)
{
    (void)is_double, (void)y;
    return x;
}

static double added(bool is_double, double x, double y)
{
    return is_double ? x + y : (double)((float)x + (float)y);
}

static double hardsigmoid(bool is_double, double x, double y)
{
    double clamped = fmin(fmax(x + 3, 0), 6); /* exact for the values of these tests */
    (void)y;
    return is_double ? clamped * (double)(1.f / 6) : (double)((float)clamped * (1.f / 6));
}

static const struct {
    const char *text;
    size_t inputs;
    double (*function)(bool is_double, double x, double y);
} ops[] = {
    { "copy", 1, copied },
    { "hardsigmoid", 1, hardsigmoid },
    { "add(x,y)", 2, added },
};

static kiln_kernel *get(const char *op, const char *dtype)
{
    char text[96];
    snprintf(text, sizeof(text), "template=rowsum op=%s dtype=%s target=cpu", op, dtype);
    return kiln_test_get(service, text);
}

static kiln_status launch(kiln_kernel *kernel, const type *t, uint64_t rows, uint64_t cols, void *out, const void *x,
                          const void *y)
{
    const uint64_t sizes[] = { rows, cols }, bytes = rows * cols * t->bytes;
    const kiln_arg args[] = { KILN_ARRAY(out, rows * t->bytes), KILN_ARRAY((void *)x, bytes),
                              KILN_ARRAY((void *)y, bytes) };
    return kiln_launch(kernel, NULL, sizes, 2, args, y != NULL ? 3 : 2, NULL, &report);
}

static void must_launch(kiln_kernel *kernel, const type *t, uint64_t rows, uint64_t cols, void *out, const void *x,
                        const void *y)
{
    ck_assert_msg(launch(kernel, t, rows, cols, out, x, y) == KILN_OK, "%s", report.message);
}

/* Within the bound of docs/templates.md, and the rounding to the stored type. */
static void check_row(const type *t, size_t op, uint64_t cols, double got, const void *x, const void *y, uint64_t at)
{
    long double sum = 0, magnitudes = 0;
    for (uint64_t i = at; i < at + cols; i++) {
        double value = ops[op].function(t->bytes == 8, take(t, x, i), take(t, y, i));
        sum += value;
        magnitudes += fabs(value);
    }
    long double bound = magnitudes * t->step * ((cols + TILE - 1) / TILE + 10) * 1.001L;
    bound += ldexpl(fabsl(sum) + bound, -t->fraction - 1);
    ck_assert_msg(fabsl(got - sum) <= bound, "%s %s: %lu columns: %.17g, expected %.17Lg", ops[op].text, t->name,
                  (unsigned long)cols, got, sum);
}

START_TEST(test_rowsum__sums_rows_of_any_length)
{
    static const uint64_t rows[] = { 1, 3, 1000 }, cols[] = { 1, 31, 1024, 4097 };
    const type *t = &types[_i];
    size_t most = 1000 * 4097;
    unsigned char *x = malloc(most * t->bytes), *y = malloc(most * t->bytes), *out = malloc(1001 * t->bytes);
    ck_assert(x != NULL && y != NULL && out != NULL);
    unsigned seed = 1;
    for (size_t i = 0; i < most; i++) {
        put(t, x, i, ((int)((seed = seed * 1103515245u + 12345u) >> 16 & 127) - 60) / 16.0);
        put(t, y, i, ((int)((seed = seed * 1103515245u + 12345u) >> 16 & 127) - 70) / 8.0);
    }
    for (size_t op = 0; op < COUNT(ops); op++) {
        kiln_kernel *kernel = get(ops[op].text, t->name);
        for (size_t i = 0; i < COUNT(rows) * COUNT(cols); i++) {
            uint64_t m = rows[i / COUNT(cols)], n = cols[i % COUNT(cols)];
            memset(out, 0x5a, 1001 * t->bytes);
            must_launch(kernel, t, m, n, out, x, ops[op].inputs == 2 ? y : NULL);
            for (uint64_t row = 0; row < m; row++)
                check_row(t, op, n, take(t, out, row), x, y, row * n);
            ck_assert_uint_eq(out[m * t->bytes], 0x5a);
        }
        kiln_kernel_release(kernel);
    }
    free(x);
    free(y);
    free(out);
}
END_TEST

static float halves(const float *sums, unsigned count)
{
    float upper[TILE / 2];
    if (count == 1)
        return sums[0];
    for (unsigned i = 0; i < count / 2; i++)
        upper[i] = sums[i] + sums[i + count / 2];
    return halves(upper, count / 2);
}

/* The bits are a promise: other geometries and other devices are compared with them. */
START_TEST(test_rowsum__adds_in_one_order)
{
    static const uint64_t cols[] = { 1, 3, 700, 1024, 1025, 3000, 10000 };
    static float x[10000];
    float out;
    kiln_kernel *kernel = get("copy", "f32");
    for (size_t i = 0; i < COUNT(x); i++)
        x[i] = 1 / (float)(i * 7919 % 10007 + 1) - 0x1p-12f;
    for (size_t c = 0; c < COUNT(cols); c++) {
        float sums[TILE] = { 0 };
        for (uint64_t i = 0; i < cols[c]; i++)
            sums[i % TILE] += x[i];
        must_launch(kernel, &types[0], 1, cols[c], &out, x, NULL);
        ck_assert_msg(out == halves(sums, TILE), "%lu columns: %a", (unsigned long)cols[c], out);
    }
    kiln_kernel_release(kernel);
}
END_TEST

/* A grid has 65535 blocks at most. */
START_TEST(test_rowsum__sums_more_rows_than_blocks)
{
    enum { ROWS = 2 * 65535 + 7 };
    static float x[ROWS][2], out[ROWS];
    kiln_kernel *kernel = get("copy", "f32");
    for (int i = 0; i < ROWS; i++) {
        x[i][0] = (float)i;
        x[i][1] = -0.5f;
    }
    must_launch(kernel, &types[0], ROWS, 2, out, x, NULL);
    for (int i = 0; i < ROWS; i++)
        ck_assert(out[i] == (float)i - 0.5f);
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_rowsum__knows_special_values_and_empty_sizes)
{
    float x[4][2] = { { -0.f, -0.f }, { INFINITY, 1 }, { INFINITY, -INFINITY }, { 1, NAN } };
    float out[4] = { 7, 7, 7, 7 };
    kiln_kernel *kernel = get("copy", "f32");
    must_launch(kernel, &types[0], 4, 2, out, x, NULL);
    ck_assert(out[0] == 0 && !signbit(out[0]) && out[1] == INFINITY && isnan(out[2]) && isnan(out[3]));
    must_launch(kernel, &types[0], 3, 0, out, NULL, NULL);
    ck_assert(out[0] == 0 && out[1] == 0 && out[2] == 0 && isnan(out[3]));
    out[0] = 7;
    must_launch(kernel, &types[0], 0, 2, out, NULL, NULL);
    ck_assert(out[0] == 7);
    kiln_kernel_release(kernel);
}
END_TEST

static void refuse(kiln_status got, kiln_status status, const char *words)
{
    ck_assert_msg(got == status && strstr(report.message, words) != NULL, "%s: %s", kiln_status_name(got),
                  report.message);
}

START_TEST(test_rowsum__refuses_wrong_arguments)
{
    static float x[12], y[12], out[4];
    const uint64_t sizes[] = { 3, 4 };
    const void *const in[] = { x, y };
    const kiln_arg args[] = { KILN_ARRAY(out, 12), KILN_ARRAY(x, 48), KILN_ARRAY(y, 48) };
    const kiln_arg small_in[] = { KILN_ARRAY(out, 12), KILN_ARRAY(x, 48), KILN_ARRAY(y, 44) };
    const kiln_arg small_out[] = { KILN_ARRAY(out, 8), KILN_ARRAY(x, 48), KILN_ARRAY(y, 48) };
    const kiln_arg in_place[] = { KILN_ARRAY(x, 12), KILN_ARRAY(x, 48), KILN_ARRAY(y, 48) };
    kiln_kernel *kernel = get("add(x,y)", "f32");
    for (size_t count = 0; count < 3; count++) {
        refuse(kiln_launch(kernel, NULL, sizes, 2, args, count, NULL, &report), KILN_EINVAL, "takes 3 arguments");
        refuse(kiln_launch(kernel, NULL, sizes, count == 2 ? 3 : count, args, 3, NULL, &report), KILN_EINVAL, "size");
    }
    refuse(kiln_launch(kernel, NULL, sizes, 2, small_in, 3, NULL, &report), KILN_EINVAL, "argument y needs 48 bytes");
    refuse(kiln_launch(kernel, NULL, sizes, 2, small_out, 3, NULL, &report), KILN_EINVAL,
           "argument out needs 12 bytes");
    refuse(kiln_launch(kernel, NULL, sizes, 2, in_place, 3, NULL, &report), KILN_EOVERLAP, "out and x");
    refuse(kiln_test_launch(kernel, 12, out, in, NULL, &report), KILN_EINVAL, "launch it by its sizes and args");
    ck_assert_int_eq(kiln_launch(kernel, NULL, sizes, 2, args, 3, NULL, &report), KILN_OK);
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_rowsum__compiles_for_each_dtype)
{
    static const char *const targets[] = { "sm_75", "sm_90", "sm_121" };
    for (size_t i = 0; i < COUNT(types) * COUNT(targets); i++) {
        kiln_program *program = NULL;
        char text[96];
        snprintf(text, sizeof(text), "template=rowsum op=add(x,mul(y,z)) dtype=%s target=%s",
                 types[i % COUNT(types)].name, targets[i / COUNT(types)]);
        kiln_spec *spec = kiln_test_spec(service, text);
        kiln_status status = kiln_test_build_spec(&program, service, spec, &report);
        ck_assert_msg(status == KILN_OK || status == KILN_ENOCOMPILER, "%s: %s", text, report.message);
        kiln_program_release(program);
        kiln_spec_free(spec);
    }
}
END_TEST

Suite *kiln_test_kernel_templates_rowsum_suite(void)
{
    Suite *suite = suite_create("rowsum");
    TCase *tcase = tcase_create("rowsum");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, open_service, close_service);
    tcase_add_loop_test(tcase, test_rowsum__sums_rows_of_any_length, 0, COUNT(types));
    tcase_add_test(tcase, test_rowsum__adds_in_one_order);
    tcase_add_test(tcase, test_rowsum__sums_more_rows_than_blocks);
    tcase_add_test(tcase, test_rowsum__knows_special_values_and_empty_sizes);
    tcase_add_test(tcase, test_rowsum__refuses_wrong_arguments);
    tcase_add_test(tcase, test_rowsum__compiles_for_each_dtype);
    suite_add_tcase(suite, tcase);
    return suite;
}
