/* kiln_apply_outputs and kiln_apply_gradient: types and shapes of results, gradients beside differences of values, and
 * refusals. */
#include "support/harness.h"
#include "support/suites.h"
#include <kiln/kiln.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static kiln_service *service;
static kiln_report report = KILN_INIT(kiln_report);

static void open_cpu(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
}

static void close_service(void)
{
    kiln_report_clear(&report);
    kiln_close(service);
}

typedef struct shaped {
    kiln_dtype dtype;
    uint32_t ndim;
    int64_t shape[4];
} shaped;

static const struct {
    const char *text;
    shaped ins[3]; /* up to the first without a type */
    shaped outs[3];
} cases[] = {
    { "op=x+y", { { KILN_F32, 2, { 3, 4 } }, { KILN_F16, 1, { 4 } } }, { { KILN_F32, 2, { 3, 4 } } } },
    { "op=x+y", { { KILN_F16, 2, { 3, 1 } }, { KILN_BF16, 3, { 5, 1, 4 } } }, { { KILN_F32, 3, { 5, 3, 4 } } } },
    { "op=x<y", { { KILN_I32, 0, { 0 } }, { KILN_I64, 1, { 0 } } }, { { KILN_BOOL, 1, { 0 } } } },
    { "op=(x/2,x*2,x>2)",
      { { KILN_I8, 1, { 7 } } },
      { { KILN_F32, 1, { 7 } }, { KILN_I8, 1, { 7 } }, { KILN_BOOL, 1, { 7 } } } },
    { "op=softmax", { { KILN_BF16, 3, { 2, 3, 4 } } }, { { KILN_BF16, 3, { 2, 3, 4 } } } },
    { "op=sum(x)", { { KILN_I8, 3, { 2, 3, 4 } } }, { { KILN_I64, 2, { 2, 3 } } } },
    { "op=sum(x) keep=1 axis=1", { { KILN_F16, 3, { 2, 3, 4 } } }, { { KILN_F16, 3, { 2, 1, 4 } } } },
    { "op=(max(x),argmax(x),x-max(x)) axis=(0,1)",
      { { KILN_F64, 3, { 2, 3, 4 } } },
      { { KILN_F64, 1, { 4 } }, { KILN_I64, 1, { 4 } }, { KILN_F64, 3, { 2, 3, 4 } } } },
    { "op=norm(x-y) axis=all", { { KILN_F32, 2, { 3, 4 } }, { KILN_F32, 2, { 3, 4 } } }, { { KILN_F32, 0, { 0 } } } },
    { "op=max(x)+c", { { KILN_F32, 2, { 3, 4 } }, { KILN_F32, 2, { 3, 1 } } }, { { KILN_F32, 1, { 3 } } } },
    { "op=max(x)+y", { { KILN_F32, 2, { 3, 4 } }, { KILN_F32, 2, { 3, 4 } } }, { { KILN_F32, 2, { 3, 4 } } } },
    { "op=softmax(x+m)",
      { { KILN_F32, 4, { 2, 3, 4, 5 } }, { KILN_F32, 4, { 2, 1, 1, 5 } } },
      { { KILN_F32, 4, { 2, 3, 4, 5 } } } },
};

static size_t view(kiln_tensor out[3], const shaped given[3], void *data)
{
    size_t count = 0;
    for (; count < 3 && given[count].dtype != KILN_DTYPE_NONE; count++)
        out[count] = (kiln_tensor){ data, NULL, given[count].dtype, given[count].ndim, given[count].shape, NULL };
    return count;
}

START_TEST(test_outputs__types_and_shapes)
{
    static double from[256], to[3][256];
    for (size_t i = 0; i < COUNT(cases); i++) {
        kiln_tensor ins[3], outs[3];
        kiln_output found[3];
        size_t in_count = view(ins, cases[i].ins, NULL), count = 0;
        const size_t wanted = view(outs, cases[i].outs, NULL);
        ck_assert_msg(kiln_apply_outputs(found, 3, &count, service, cases[i].text, ins, in_count, &report) == KILN_OK,
                      "%s: %s", cases[i].text, report.message);
        ck_assert_uint_eq(count, wanted);
        for (size_t k = 0; k < count; k++) {
            const shaped *want = &cases[i].outs[k];
            ck_assert_msg(found[k].dtype == want->dtype && found[k].ndim == want->ndim &&
                              memcmp(found[k].shape, want->shape, want->ndim * sizeof(int64_t)) == 0,
                          "%s: output %zu has type %d and %u dimensions", cases[i].text, k, (int)found[k].dtype,
                          found[k].ndim);
            outs[k] = (kiln_tensor){ to[k], NULL, found[k].dtype, found[k].ndim, found[k].shape, NULL };
        }
        view(ins, cases[i].ins, from);
        ck_assert_msg(kiln_apply(service, cases[i].text, outs, count, ins, in_count, NULL, 0, NULL, &report) == KILN_OK,
                      "%s: %s", cases[i].text, report.message);
    }
}
END_TEST

START_TEST(test_outputs__refusals)
{
    static const struct {
        const char *text;
        shaped ins[3];
        const char *words;
    } wrong[] = {
        { "op=x+y", { { KILN_F32, 1, { 3 } } }, "the op reads 2 tensors, and 1 are given" },
        { "op=relu6", { { KILN_F32, 1, { 3 } }, { KILN_F32, 1, { 3 } } }, "the op reads 1 tensor, and 2 are given" },
        { "op=x+y", { { KILN_F32, 1, { 3 } }, { KILN_F32, 1, { 4 } } }, "does not broadcast with 3" },
        { "op=x+y dtype=f32", { { KILN_F32, 1, { 3 } }, { KILN_F32, 1, { 3 } } }, "the tensors give dtype" },
        { "op=sum(x) axis=2", { { KILN_F32, 1, { 3 } } }, "axis 2 is none of the 1 dimensions" },
        { "op=reluu", { { KILN_F32, 1, { 3 } } }, "reluu" },
        { "block=256", { { KILN_F32, 1, { 3 } } }, "the text has no op" },
        { "op=bitwise_and(x,x)", { { KILN_F32, 1, { 3 } } }, "takes whole numbers, and gets those of f32" },
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        kiln_tensor ins[3];
        kiln_output found[3];
        size_t count = 9, in_count = view(ins, wrong[i].ins, NULL);
        kiln_status status = kiln_apply_outputs(found, 3, &count, service, wrong[i].text, ins, in_count, &report);
        ck_assert_msg(status != KILN_OK && count == 0 && strstr(report.message, wrong[i].words) != NULL, "%s: %s",
                      wrong[i].text, report.message);
    }
    const int64_t shape[] = { 3 };
    const kiln_tensor in = { NULL, NULL, KILN_F32, 1, shape, NULL };
    size_t count = 0;
    ck_assert_int_eq(kiln_apply_outputs(NULL, 0, &count, service, "op=(x,x+1)", &in, 1, &report), KILN_EINVAL);
    ck_assert_uint_eq(count, 2);
    ck_assert_ptr_nonnull(strstr(report.message, "the op has 2 outputs, and there is room for 0"));
}
END_TEST

/* ---- Gradients */

enum { ROWS = 4, COLS = 5, ELEMENTS = ROWS * COLS };

static const int64_t whole[] = { ROWS, COLS };

/* The output of an op of x and y, which have as many elements, times the gradients. */
static double weighted(const char *text, double *x, double *y, size_t in_count, const double *gradients)
{
    double result[ELEMENTS], sum = 0;
    kiln_output found;
    size_t count, elements = 1;
    const kiln_tensor ins[] = { { x, NULL, KILN_F64, 2, whole, NULL }, { y, NULL, KILN_F64, 2, whole, NULL } };
    ck_assert_int_eq(kiln_apply_outputs(&found, 1, &count, service, text, ins, in_count, &report), KILN_OK);
    const kiln_tensor out = { result, NULL, KILN_F64, found.ndim, found.shape, NULL };
    for (uint32_t d = 0; d < found.ndim; d++)
        elements *= (size_t)found.shape[d];
    ck_assert_msg(kiln_apply(service, text, &out, 1, ins, in_count, NULL, 0, NULL, &report) == KILN_OK, "%s: %s", text,
                  report.message);
    for (size_t i = 0; i < elements; i++)
        sum += result[i] * gradients[i];
    return sum;
}

/* By x, of an op whose gradient tensor has so many rows and columns. */
static void check_gradient(const char *text, size_t in_count, int64_t rows, int64_t cols)
{
    double x[ELEMENTS], y[ELEMENTS], gradients[ELEMENTS], result[ELEMENTS];
    char *call = NULL;
    for (int i = 0; i < ELEMENTS; i++) {
        x[i] = 0.3 + (i * 7 % 11) * 0.21;
        y[i] = 1.7 - (i * 5 % 13) * 0.17;
        gradients[i] = (i * 3 % 7) * 0.4 - 1;
    }
    const int64_t shape[] = { rows, cols };
    const kiln_tensor ins[] = { { gradients, NULL, KILN_F64, 2, shape, NULL },
                                { x, NULL, KILN_F64, 2, whole, NULL },
                                { y, NULL, KILN_F64, 2, whole, NULL } };
    ck_assert_msg(kiln_apply_gradient(&call, service, text, ins + 1, in_count, 1, &report) == KILN_OK, "%s: %s", text,
                  report.message);
    kiln_output found;
    size_t count;
    ck_assert_msg(kiln_apply_outputs(&found, 1, &count, service, call, ins, in_count + 1, &report) == KILN_OK,
                  "%s: %s: %s", text, call, report.message);
    const kiln_tensor out = { result, NULL, KILN_F64, found.ndim, found.shape, NULL };
    ck_assert_msg(kiln_apply(service, call, &out, 1, ins, in_count + 1, NULL, 0, NULL, &report) == KILN_OK,
                  "%s: %s: %s", text, call, report.message);
    for (int i = 0; i < ELEMENTS; i++) { /* a result with the extent 1 has one value for all of that dimension */
        const double step = 1e-5, before = x[i];
        const int64_t at = found.shape[0] == 1 ? i % COLS : found.shape[1] == 1 ? i / COLS : i;
        x[i] = before + step;
        double want = weighted(text, x, y, in_count, gradients);
        x[i] = before - step;
        want = (want - weighted(text, x, y, in_count, gradients)) / (2 * step);
        x[i] = before;
        ck_assert_msg(fabs(result[at] - want) <= 1e-6 * (1 + fabs(want)), "%s: element %d is %g, not %g", text, i,
                      result[at], want);
    }
    kiln_text_free(call);
}

START_TEST(test_gradient__values)
{
    check_gradient("op=x*y", 2, ROWS, COLS);
    check_gradient("op=gelu(x+y)*x math=torch", 2, ROWS, COLS);
    check_gradient("op=softmax", 1, ROWS, COLS);
    check_gradient("op=softmax(x*y) axis=0", 2, ROWS, COLS);
    check_gradient("op=exp(x-max(x))/sum(exp(x-max(x)))", 1, ROWS, COLS);
    check_gradient("op=sum(x*x*y)", 2, ROWS, 1);
    check_gradient("op=mean(x) axis=0 keep=1", 1, 1, COLS);
    check_gradient("op=var(x,correction=1)*sum(y)", 2, ROWS, 1);
    check_gradient("op=std(x)+norm(x)+logsumexp(x)", 1, ROWS, 1);
    check_gradient("op=rms_norm(x*y,y)", 2, ROWS, COLS);
    check_gradient("op=sum(x-norm(x))", 1, ROWS, 1); /* a value of each row counts once for each element */
    check_gradient("op=mean(x*mean(x)) axis=0 keep=1", 1, 1, COLS);
    check_gradient("op=mean(log_softmax(x))", 1, ROWS, 1);
    check_gradient("op=sum(x*index)", 1, ROWS, 1);
    check_gradient("op=layer_norm(x,y,y)", 2, ROWS, COLS);
    check_gradient("op=cumsum(x)*x", 1, ROWS, COLS);
    check_gradient("op=cumsum(x,exclusive=1) axis=0", 1, ROWS, COLS);
}
END_TEST

/* The gradient of an op that only adds a value of each row reduces nothing by itself. */
START_TEST(test_gradient__columns_of_an_op_without_sums)
{
    double x[ELEMENTS] = { 0 }, c[ROWS] = { 0 }, gradients[ROWS] = { 1, 2, 3, 4 }, by_x[ELEMENTS], by_c[ROWS];
    char *call = NULL;
    const int64_t column[] = { ROWS, 1 };
    const kiln_tensor ins[] = { { gradients, NULL, KILN_F64, 2, column, NULL },
                                { x, NULL, KILN_F64, 2, whole, NULL },
                                { c, NULL, KILN_F64, 2, column, NULL } };
    ck_assert_int_eq(kiln_apply_gradient(&call, service, "op=sum(x)+c", ins + 1, 2, 3, &report), KILN_OK);
    const kiln_tensor outs[] = { { by_x, NULL, KILN_F64, 2, column, NULL }, { by_c, NULL, KILN_F64, 2, column, NULL } };
    ck_assert_msg(kiln_apply(service, call, outs, 2, ins, 3, NULL, 0, NULL, &report) == KILN_OK, "%s: %s", call,
                  report.message);
    ck_assert_mem_eq(by_c, gradients, sizeof(by_c));
    ck_assert_mem_eq(by_x, gradients, sizeof(by_c)); /* one value for all of the axis */
    kiln_text_free(call);
}
END_TEST

/* Inputs of one value for a row have sums over the axis. */
START_TEST(test_gradient__columns)
{
    double x[ELEMENTS], c[ROWS] = { 1, 2, 3, 4 }, gradients[ELEMENTS], result[ROWS];
    char *call = NULL;
    const int64_t column[] = { ROWS, 1 };
    for (int i = 0; i < ELEMENTS; i++) {
        x[i] = 1 + i % 3;
        gradients[i] = 2 - i % 5;
    }
    const kiln_tensor ins[] = { { gradients, NULL, KILN_F64, 2, whole, NULL },
                                { x, NULL, KILN_F64, 2, whole, NULL },
                                { c, NULL, KILN_F64, 2, column, NULL } },
                      out = { result, NULL, KILN_F64, 2, column, NULL };
    ck_assert_int_eq(kiln_apply_gradient(&call, service, "op=x/sum(x)*c", ins + 1, 2, 2, &report), KILN_OK);
    ck_assert_msg(kiln_apply(service, call, &out, 1, ins, 3, NULL, 0, NULL, &report) == KILN_OK, "%s: %s", call,
                  report.message);
    for (int i = 0; i < ROWS; i++) {
        double sum = 0, want = 0;
        for (int j = 0; j < COLS; j++)
            sum += x[i * COLS + j];
        for (int j = 0; j < COLS; j++)
            want += gradients[i * COLS + j] * x[i * COLS + j] / sum;
        ck_assert(fabs(result[i] - want) < 1e-12);
    }
    kiln_text_free(call);
}
END_TEST

START_TEST(test_gradient__refusals)
{
    static const struct {
        const char *text;
        uint64_t wanted;
        const char *words;
    } wrong[] = {
        { "op=x+y", 0, "the gradients of inputs 0 are wanted, and the op has 2" },
        { "op=x+y", 4, "the gradients of inputs 0x4 are wanted" },
        { "op=x+lgamma(y)", 2, "lgamma has no derivative" },
        { "op=x+", 1, "a value is missing" },
        { "op=(x,y,x+y,x-y,x*y,x/y,y-x)", 1, "takes more than 8 arrays" },
    };
    const int64_t shape[] = { 3 };
    const kiln_tensor ins[] = { { NULL, NULL, KILN_F32, 1, shape, NULL }, { NULL, NULL, KILN_F32, 1, shape, NULL } };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        char *call = (char *)wrong;
        kiln_status status = kiln_apply_gradient(&call, service, wrong[i].text, ins, 2, wrong[i].wanted, &report);
        ck_assert_msg(status != KILN_OK && call == NULL && strstr(report.message, wrong[i].words) != NULL, "%s: %s",
                      wrong[i].text, report.message);
    }
    char *call = NULL;
    ck_assert_int_eq(kiln_apply_gradient(&call, service, "op=x+lgamma(y)", ins, 2, 1, &report), KILN_OK);
    kiln_text_free(call);
}
END_TEST

Suite *kiln_test_service_outputs_suite(void)
{
    Suite *suite = suite_create("outputs");
    TCase *tcase = tcase_create("outputs");
    tcase_add_checked_fixture(tcase, open_cpu, close_service);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_outputs__types_and_shapes);
    tcase_add_test(tcase, test_outputs__refusals);
    tcase_add_test(tcase, test_gradient__values);
    tcase_add_test(tcase, test_gradient__columns);
    tcase_add_test(tcase, test_gradient__columns_of_an_op_without_sums);
    tcase_add_test(tcase, test_gradient__refusals);
    suite_add_tcase(suite, tcase);
    return suite;
}
