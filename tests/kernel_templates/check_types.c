/* Types of elements on the cpu: every op on whole numbers against a referee in 64-bit arithmetic that wraps around,
 * all pairs of 8-bit values among its inputs; and casts between all types, against the nearest of all values of the
 * type. */
#include "device/values.h"
#include "lang/real.h"
#include "lang/syntax.h"
#include "spec/spec.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kernel.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 65536 + 4096 + 3, TYPES = 12 };

static const char *const types[TYPES] = { "f32", "f64", "f16", "bf16", "f8e4m3", "f8e5m2",
                                          "i8",  "i16", "i32", "i64",  "u8",     "bool" };

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
}

static int64_t wrap(kiln__dtype dtype, uint64_t value)
{
    unsigned rest = 64 - 8 * kiln__dtype_bytes(dtype);
    if (dtype == KILN__DTYPE_BOOL)
        return value != 0;
    return dtype == KILN__DTYPE_U8 ? (int64_t)(value & 255) : (int64_t)(value << rest) >> rest;
}

/* All pairs of 8 bits, spread over larger types, and then random numbers, small ones and the ends of the range. */
static void fill_whole(void *out, kiln__dtype dtype, unsigned stream)
{
    uint64_t state = 77 + stream;
    size_t size = kiln__dtype_bytes(dtype);
    for (size_t i = 0; i < N; i++) {
        uint64_t random = next(&state), byte = stream == 0 ? i & 255 : stream == 1 ? i >> 8 & 255 : random & 255;
        uint64_t bits = (uint64_t)(int8_t)byte << (i % 3 == 0 && size > 1 ? 8 * size - 9 : 0);
        if (i >= 65536)
            bits = random % 4 == 0 ? random >> 3 & 15 : random % 4 == 1 ? UINT64_MAX >> (random >> 3 & 63) : random;
        bits = (uint64_t)wrap(dtype, bits);
        memcpy((char *)out + i * size, &bits, size);
    }
}

/* ---- Whole numbers */

typedef struct referee {
    const kiln__op_table *ops;
    kiln__dtype dtype;
    bool single; /* values are 32-bit numbers */
} referee;

static int64_t narrow(const referee *r, uint64_t value)
{
    return r->single ? (int32_t)value : (int64_t)value;
}

static int64_t power(const referee *r, int64_t x, int64_t y)
{
    uint64_t result = 1;
    if (y < 0)
        return x == 1 ? 1 : x != -1 ? 0 : y % 2 != 0 ? -1 : 1;
    for (; y > 0; y >>= 1, x = narrow(r, (uint64_t)x * (uint64_t)x))
        if (y & 1)
            result *= (uint64_t)x;
    return narrow(r, result);
}

static int64_t call(const referee *r, const char *name, const int64_t *v)
{
    int bits = 8 * (int)kiln__dtype_bytes(r->dtype);
    bool is_signed = r->dtype != KILN__DTYPE_U8;
    if (strcmp(name, "min") == 0 || strcmp(name, "fmin") == 0)
        return v[0] < v[1] ? v[0] : v[1];
    if (strcmp(name, "max") == 0 || strcmp(name, "fmax") == 0)
        return v[0] > v[1] ? v[0] : v[1];
    if (strcmp(name, "clamp") == 0)
        return v[0] > v[1] ? (v[0] < v[2] ? v[0] : v[2]) : (v[1] < v[2] ? v[1] : v[2]);
    if (strcmp(name, "fma") == 0)
        return narrow(r, (uint64_t)v[0] * (uint64_t)v[1] + (uint64_t)v[2]);
    if (strcmp(name, "abs") == 0)
        return narrow(r, v[0] < 0 ? 0 - (uint64_t)v[0] : (uint64_t)v[0]);
    if (strcmp(name, "stored") == 0)
        return wrap(r->dtype, (uint64_t)v[0]);
    if (strcmp(name, "fmod") == 0)
        return v[1] == 0 ? -1 : v[1] == -1 ? 0 : v[0] % v[1];
    if (strcmp(name, "quotient") == 0)
        return v[1] == 0 ? -1 : narrow(r, v[1] == -1 ? 0 - (uint64_t)v[0] : (uint64_t)(v[0] / v[1]));
    if (strcmp(name, "pow") == 0)
        return power(r, v[0], v[1]);
    if (strcmp(name, "bitwise_and") == 0)
        return v[0] & v[1];
    if (strcmp(name, "bitwise_or") == 0)
        return v[0] | v[1];
    if (strcmp(name, "bitwise_xor") == 0)
        return v[0] ^ v[1];
    if (strcmp(name, "bitwise_not") == 0)
        return r->dtype == KILN__DTYPE_BOOL ? v[0] == 0 : ~v[0];
    if (strcmp(name, "bitwise_left_shift") == 0)
        return v[1] < 0 || v[1] >= bits ? 0 : narrow(r, (uint64_t)v[0] << v[1]);
    if (strcmp(name, "bitwise_right_shift") == 0)
        return v[0] >> (v[1] < 0 || v[1] >= bits ? bits - is_signed : v[1]);
    ck_assert_msg(strcmp(name, "floor") == 0 || strcmp(name, "ceil") == 0 || strcmp(name, "trunc") == 0 ||
                      strcmp(name, "rint") == 0,
                  "%s has no rule for whole numbers", name);
    return v[0];
}

static int64_t operate(const referee *r, uint16_t sign, int64_t a, int64_t b)
{
    switch ((kiln__operator)sign) {
    case KILN__OPERATOR_OR:
        return a != 0 || b != 0;
    case KILN__OPERATOR_AND:
        return a != 0 && b != 0;
    case KILN__OPERATOR_EQ:
        return a == b;
    case KILN__OPERATOR_NE:
        return a != b;
    case KILN__OPERATOR_LE:
        return a <= b;
    case KILN__OPERATOR_GE:
        return a >= b;
    case KILN__OPERATOR_LT:
        return a < b;
    case KILN__OPERATOR_GT:
        return a > b;
    case KILN__OPERATOR_ADD:
        return narrow(r, (uint64_t)a + (uint64_t)b);
    case KILN__OPERATOR_SUB:
        return narrow(r, (uint64_t)a - (uint64_t)b);
    default:
        ck_assert_uint_eq(sign, KILN__OPERATOR_MUL);
        return narrow(r, (uint64_t)a * (uint64_t)b);
    }
}

static int64_t evaluate(const referee *r, const kiln__op *op, const int64_t *inputs, const int64_t *params)
{
    const kiln__real *real = kiln__op_of_integers(op);
    int64_t values[KILN__REAL_NODES_MAX];
    for (uint32_t i = 0; i < real->count; i++) {
        const kiln__real_node *node = &real->nodes[i];
        int64_t v[KILN__REAL_ARGS_MAX] = { 0 };
        for (uint32_t j = 0; j < node->count; j++)
            v[j] = values[node->args[j]];
        switch (node->kind) {
        case KILN__REAL_NUMBER:
            values[i] = (int64_t)node->value;
            break;
        case KILN__REAL_INPUT:
            values[i] = inputs[node->index];
            break;
        case KILN__REAL_PARAM:
            values[i] = params[node->index];
            break;
        case KILN__REAL_NEGATE:
            values[i] = narrow(r, 0 - (uint64_t)v[0]);
            break;
        case KILN__REAL_NOT:
            values[i] = v[0] == 0;
            break;
        case KILN__REAL_CHOICE:
            values[i] = v[0] != 0 ? v[1] : v[2];
            break;
        case KILN__REAL_BINARY:
            values[i] = operate(r, node->index, v[0], v[1]);
            break;
        case KILN__REAL_FUNCTION:
            values[i] = call(r, kiln__real_function_name(node), v);
            break;
        case KILN__REAL_OP: {
            const kiln__op *called = kiln__op_at(r->ops, node->index);
            values[i] = evaluate(r, called, v, v + called->inputs);
            break;
        }
        }
    }
    return values[real->count - 1];
}

static void *arrays[3], *results;

static int64_t whole_at(const void *array, size_t i, kiln__dtype dtype)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array + i * kiln__dtype_bytes(dtype), kiln__dtype_bytes(dtype));
    return wrap(dtype, bits);
}

static void launch(kiln_service *service, const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_kernel *kernel = kiln_test_get(service, text);
    memset(results, 0xa5, N * sizeof(double));
    ck_assert_msg(kiln_test_launch(kernel, N, results, (const void *const *)arrays, NULL, &report) == KILN_OK, "%s: %s",
                  text, report.message);
    kiln_kernel_release(kernel);
}

static void check_whole(kiln_service *service, const kiln__op *op, const char *dtype)
{
    char text[96];
    int64_t params[KILN__OP_ARGS_MAX];
    snprintf(text, sizeof(text), "op=%s dtype=%s target=cpu", op->name, dtype);
    kiln_spec *spec = kiln_test_spec(service, text);
    const kiln__fields *fields = &spec->fields;
    kiln__typing typing;
    kiln__spec_type(fields, &typing);
    kiln__dtype result = kiln__spec_result(fields, 0), computed = kiln__typing_computed(typing.step);
    referee r = { &fields->catalog->ops, fields->dtype, computed == KILN__DTYPE_I32 };
    for (uint32_t i = 0; i < op->params; i++)
        params[i] = (int64_t)op->defaults[i];
    if (kiln__dtype_is_real(computed)) {
        bool truth = kiln__real_root(fields->op, 0)->truth;
        ck_assert_int_eq(result, truth ? KILN__DTYPE_BOOL : KILN__DTYPE_F32);
    } else {
        for (unsigned k = 0; k < 3; k++)
            fill_whole(arrays[k], r.dtype, k);
        launch(service, text);
        for (size_t i = 0; i < N; i++) {
            int64_t inputs[3];
            for (unsigned k = 0; k < 3; k++)
                inputs[k] = whole_at(arrays[k], i, r.dtype);
            int64_t want = wrap(result, (uint64_t)evaluate(&r, op, inputs, params)), got = whole_at(results, i, result);
            ck_assert_msg(got == want, "%s of %lld, %lld, %lld is %lld, should be %lld", text, (long long)inputs[0],
                          (long long)inputs[1], (long long)inputs[2], (long long)got, (long long)want);
        }
    }
    kiln_spec_free(spec);
}

static void set_up(kiln_service **service, const kiln__op_table **ops, kiln_spec **spec)
{
    kiln_options options = kiln_test_options();
    *service = kiln_test_open(&options);
    *spec = kiln_test_spec(*service, "op=copy");
    *ops = &(*spec)->fields.catalog->ops;
    for (unsigned k = 0; k < 3; k++)
        arrays[k] = malloc(N * sizeof(double));
    results = malloc(N * sizeof(double));
}

static void tear_down(kiln_service *service, kiln_spec *spec)
{
    for (unsigned k = 0; k < 3; k++)
        free(arrays[k]);
    free(results);
    kiln_spec_free(spec);
    kiln_close(service);
}

/* All ops in one dtype. */
START_TEST(test_types__ops_on_whole_numbers_wrap_around)
{
    kiln_service *service;
    const kiln__op_table *ops;
    kiln_spec *spec;
    set_up(&service, &ops, &spec);
    for (uint32_t i = 0; i < ops->count; i++) {
        ck_assert_int_eq(kiln__op_load(ops, i, NULL), KILN_OK);
        if (kiln__op_at(ops, i)->real->reductions == 0)
            check_whole(service, kiln__op_at(ops, i), types[6 + _i]);
    }
    tear_down(service, spec);
}
END_TEST

/* ---- Casts */

/* A real value in a narrow real type, as a number: the nearest, of two the even one. */
static double nearest(kiln__dtype dtype, double value)
{
    double most = kiln__dtype_largest(dtype);
    if (isnan(value) || value == 0)
        return value;
    double unit = kiln__dtype_unit(value, dtype), rounded = isinf(value) ? value : rint(value / unit) * unit;
    if (fabs(rounded) > most)
        return dtype == KILN__DTYPE_F8E4M3 ? NAN : copysign(INFINITY, value);
    return copysign(rounded, value);
}

/* By way of a float, as PyTorch's conversions go. */
static double cast_real(kiln__dtype to, kiln__dtype from, const void *array, size_t i)
{
    bool real = kiln__dtype_is_real(from);
    int64_t whole = real ? 0 : whole_at(array, i, from);
    double value = real ? kiln__dtype_value(array, i, from) : (double)whole;
    float single = real ? (float)value : (float)whole;
    return to == KILN__DTYPE_F64 ? value : to == KILN__DTYPE_F32 ? (double)single : nearest(to, single);
}

static int64_t cast_whole(kiln__dtype to, kiln__dtype from, const void *array, size_t i)
{
    if (!kiln__dtype_is_real(from))
        return wrap(to, (uint64_t)whole_at(array, i, from));
    double value = kiln__dtype_value(array, i, from);
    if (to == KILN__DTYPE_BOOL)
        return value != 0;
    bool wide = to == KILN__DTYPE_I64 || to == KILN__DTYPE_U8;
    double end = ldexp(1, wide ? 63 : 31);
    int64_t least = wide ? INT64_MIN : INT32_MIN, most = wide ? INT64_MAX : INT32_MAX;
    if (isnan(value))
        return wrap(to, (uint64_t)(wide || from == KILN__DTYPE_F64 ? least : 0));
    return wrap(to, (uint64_t)(value < -end ? least : value >= end ? most : (int64_t)value));
}

static void check_cast(kiln_service *service, int from, int to)
{
    char text[96];
    kiln__dtype source = kiln__dtype_parse(types[from], strlen(types[from]));
    kiln__dtype target = kiln__dtype_parse(types[to], strlen(types[to]));
    snprintf(text, sizeof(text), "op=copy dtype=%s out=%s target=cpu", types[from], types[to]);
    if (!kiln__dtype_is_real(source))
        fill_whole(arrays[0], source, 0);
    else if (kiln__dtype_bytes(source) > 1)
        values_fill(arrays[0], N, types[from], 0);
    else
        for (size_t i = 0; i < N; i++)
            ((unsigned char *)arrays[0])[i] = (unsigned char)i;
    launch(service, text);
    for (size_t i = 0; i < N; i++) {
        bool agrees;
        if (kiln__dtype_is_real(target)) {
            double got = kiln__dtype_value(results, i, target), want = cast_real(target, source, arrays[0], i);
            agrees = (isnan(got) && isnan(want)) || (got == want && signbit(got) == signbit(want));
        } else {
            agrees = whole_at(results, i, target) == cast_whole(target, source, arrays[0], i);
        }
        ck_assert_msg(agrees, "%s, element %zu, %a: %a", text, i, kiln__dtype_value(arrays[0], i, source),
                      kiln__dtype_value(results, i, target));
    }
}

/* From one type to all. */
START_TEST(test_types__casts_go_to_the_nearest_value)
{
    kiln_service *service;
    const kiln__op_table *ops;
    kiln_spec *spec;
    set_up(&service, &ops, &spec);
    for (int to = 0; to < TYPES; to++)
        check_cast(service, _i, to);
    tear_down(service, spec);
}
END_TEST

Suite *kiln_test_kernel_templates_types_suite(void)
{
    Suite *suite = suite_create("types");
    TCase *tcase = tcase_create("types");
    tcase_set_timeout(tcase, 240);
    kiln_test_temp_use(tcase);
    tcase_add_loop_test(tcase, test_types__ops_on_whole_numbers_wrap_around, 0, 6);
    tcase_add_loop_test(tcase, test_types__casts_go_to_the_nearest_value, 0, TYPES);
    suite_add_tcase(suite, tcase);
    return suite;
}
