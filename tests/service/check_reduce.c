/* kiln_apply with ops that reduce an axis, on the cpu: shapes of results, axes, broadcasting, refusals, and a GPU's
 * launches over the stand-in driver. */
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kiln.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { A = 3, B = 4, C = 5, ALL = A * B * C };

static kiln_service *service;
static kiln_report report = KILN_INIT(kiln_report);
static float x[ALL], y[ALL], out[ALL];

static void open_cpu(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
    for (int i = 0; i < ALL; i++) {
        x[i] = (float)((i * 7) % 11 - 3);
        y[i] = (float)(i % 5);
        out[i] = -77;
    }
}

static void close_service(void)
{
    kiln_report_clear(&report);
    kiln_close(service);
}

static kiln_tensor tensor(void *data, const int64_t *shape, uint32_t ndim)
{
    return (kiln_tensor){ data, NULL, KILN_F32, ndim, shape, NULL };
}

static const int64_t whole[] = { A, B, C };

static kiln_status apply(const char *text, const int64_t *shape, uint32_t ndim)
{
    const kiln_tensor in = tensor(x, whole, 3), result = tensor(out, shape, ndim);
    return kiln_apply(service, text, &result, 1, &in, 1, NULL, 0, NULL, &report);
}

/* The sums of so many neighbours each. */
static void check_sums(int length)
{
    for (int i = 0; i < ALL / length; i++) {
        float sum = 0;
        for (int j = 0; j < length; j++)
            sum += x[i * length + j];
        ck_assert_msg(out[i] == sum, "sum %d of %d: %g, not %g", i, length, (double)out[i], (double)sum);
    }
    ck_assert(ALL / length == ALL || out[ALL / length] == -77);
}

/* A result has the shape without the axis, or with the extent 1 there: the tensor decides. */
START_TEST(test_reduce__results_lack_the_axis_or_keep_it)
{
    static const struct {
        const char *text;
        int64_t shape[3];
        uint32_t ndim;
        int length;
    } cases[] = {
        { "op=sum(x)", { A, B }, 2, C },
        { "op=sum(x) axis=-1", { A, B, 1 }, 3, C },
        { "op=sum(x) axis=2 keep=1", { A, B, 1 }, 3, C },
        { "op=sum(x) axis=(1,2)", { A }, 1, B * C },
        { "op=sum(x) axis=(-2,-1)", { A, 1, 1 }, 3, B * C },
        { "op=sum(x) axis=all", { 0 }, 0, ALL },
        { "op=sum(x) axis=(0,1,2)", { 1, 1, 1 }, 3, ALL },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        memset(out, 0, sizeof(out));
        for (int j = 0; j < ALL; j++)
            out[j] = -77;
        ck_assert_msg(apply(cases[i].text, cases[i].shape, cases[i].ndim) == KILN_OK, "%s: %s", cases[i].text,
                      report.message);
        check_sums(cases[i].length);
    }
}
END_TEST

/* Dimensions may follow the axis. */
START_TEST(test_reduce__axis_before_other_dimensions)
{
    static const struct {
        const char *text;
        int64_t shape[3];
        uint32_t ndim;
        int outer, length, inner;
    } cases[] = {
        { "op=sum(x) axis=0", { B, C }, 2, 1, A, B * C },  { "op=sum(x) axis=-3", { 1, B, C }, 3, 1, A, B * C },
        { "op=sum(x) axis=1", { A, C }, 2, A, B, C },      { "op=sum(x) axis=1 keep=1", { A, 1, C }, 3, A, B, C },
        { "op=sum(x) axis=(0,1)", { C }, 1, 1, A * B, C },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        const int length = cases[k].length, inner = cases[k].inner;
        for (int i = 0; i < ALL; i++)
            out[i] = -77;
        ck_assert_msg(apply(cases[k].text, cases[k].shape, cases[k].ndim) == KILN_OK, "%s: %s", cases[k].text,
                      report.message);
        for (int i = 0; i < cases[k].outer * inner; i++) {
            float sum = 0;
            for (int j = 0; j < length; j++)
                sum += x[(i / inner * length + j) * inner + i % inner];
            ck_assert_msg(out[i] == sum, "%s: sum %d: %g, not %g", cases[k].text, i, (double)out[i], (double)sum);
        }
        ck_assert(out[cases[k].outer * inner] == -77);
    }
}
END_TEST

/* A scan has a value for each element, along any axis and from either end. */
START_TEST(test_reduce__scans)
{
    static const struct {
        const char *text;
        int outer, length, inner;
        bool reverse;
    } cases[] = {
        { "op=cumsum(x)", A * B, C, 1, false },        { "op=cumsum(x,reverse=1)", A * B, C, 1, true },
        { "op=cumsum(x) axis=0", 1, A, B * C, false }, { "op=cumsum(x,reverse=1) axis=1", A, B, C, true },
        { "op=cumsum(x) axis=all", 1, ALL, 1, false },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        const int length = cases[k].length, inner = cases[k].inner;
        ck_assert_msg(apply(cases[k].text, whole, 3) == KILN_OK, "%s: %s", cases[k].text, report.message);
        for (int i = 0; i < cases[k].outer * inner; i++) {
            float sum = 0;
            for (int j = 0; j < length; j++) {
                const int place = cases[k].reverse ? length - 1 - j : j;
                const int at = (i / inner * length + place) * inner + i % inner;
                sum += x[at];
                ck_assert_msg(out[at] == sum, "%s: element %d: %g, not %g", cases[k].text, at, (double)out[at],
                              (double)sum);
            }
        }
    }
}
END_TEST

/* An input has the axis alone, all but the axis, or one element, and an output is in its place. */
START_TEST(test_reduce__inputs_broadcast_beside_the_axis)
{
    static const struct {
        int64_t shape[3];
        uint32_t ndim;
        int outer, along, inner; /* strides of y */
    } cases[] = {
        { { B, 1 }, 2, 0, 1, 0 },
        { { A, 1, C }, 3, C, 0, 1 },
        { { 1 }, 1, 0, 0, 0 },
        { { A, B, C }, 3, B * C, C, 1 },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        memcpy(out, x, sizeof(x));
        const kiln_tensor ins[] = { tensor(out, whole, 3), tensor(y, cases[k].shape, cases[k].ndim) };
        ck_assert_msg(kiln_apply(service, "op=x+y-max(x+y) axis=1", ins, 1, ins, 2, NULL, 0, NULL, &report) == KILN_OK,
                      "%s", report.message);
        for (int i = 0; i < A * C; i++) {
            const float *at = x + i / C * B * C + i % C, *with = y + i / C * cases[k].outer + i % C * cases[k].inner;
            float most = -1e30f;
            for (int j = 0; j < B; j++)
                most = fmaxf(most, at[j * C] + with[j * cases[k].along]);
            for (int j = 0; j < B; j++)
                ck_assert(out[at - x + j * C] == at[j * C] + with[j * cases[k].along] - most);
        }
    }
}
END_TEST

/* A result with one value for each row is stored in the place of an input that the other result needs. */
START_TEST(test_reduce__a_column_in_place)
{
    static const struct {
        const char *text;
        int64_t shape[3];
        int outer, length, inner;
        bool scans;
    } cases[] = {
        { "op=(x*c+1,c+0*max(x)+1) keep=1", { A, B, 1 }, A * B, C, 1, false },
        { "op=(x*c+1,c+0*max(x)+1) axis=1 keep=1", { A, 1, C }, A, B, C, false },
        { "op=(cummax(x)*c+1,c+1) keep=1", { A, B, 1 }, A * B, C, 1, true },
        { "op=(cummax(x)*c+1,c+1) axis=1 keep=1", { A, 1, C }, A, B, C, true },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        float columns[ALL], given[ALL];
        const int inner = cases[k].inner, length = cases[k].length;
        for (int i = 0; i < ALL; i++)
            columns[i] = given[i] = (float)(i % 7 - 3);
        const kiln_tensor column = tensor(columns, cases[k].shape, 3), ins[] = { tensor(x, whole, 3), column },
                          outs[] = { tensor(out, whole, 3), column };
        ck_assert_msg(kiln_apply(service, cases[k].text, outs, 2, ins, 2, NULL, 0, NULL, &report) == KILN_OK, "%s: %s",
                      cases[k].text, report.message);
        for (int line = 0; line < cases[k].outer * inner; line++) {
            float most = -1e30f;
            for (int j = 0; j < length; j++) {
                const int at = (line / inner * length + j) * inner + line % inner;
                most = fmaxf(most, x[at]);
                const float want = (cases[k].scans ? most : x[at]) * given[line] + 1;
                ck_assert_msg(out[at] == want, "%s: element %d: %g, not %g", cases[k].text, at, (double)out[at],
                              (double)want);
            }
            ck_assert(columns[line] == given[line] + 1);
        }
    }
}
END_TEST

/* All results of a row are calculated before one takes the place of an input. */
START_TEST(test_reduce__the_first_of_two_columns_in_place)
{
    static const struct {
        const char *text;
        int64_t shape[3];
    } cases[] = {
        { "op=(0*max(x)+c+1,0*max(x)+c+2) keep=1", { A, B, 1 } },
        { "op=(0*max(x)+c+1,0*max(x)+c+2) axis=1 keep=1", { A, 1, C } },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        float columns[A * (B > C ? B : C)], second[COUNT(columns)];
        const int64_t *shape = cases[k].shape;
        for (size_t i = 0; i < COUNT(columns); i++)
            columns[i] = (float)i;
        const kiln_tensor column = tensor(columns, shape, 3), ins[] = { tensor(x, whole, 3), column },
                          outs[] = { column, tensor(second, shape, 3) };
        ck_assert_msg(kiln_apply(service, cases[k].text, outs, 2, ins, 2, NULL, 0, NULL, &report) == KILN_OK, "%s: %s",
                      cases[k].text, report.message);
        for (int i = 0; i < (int)(shape[0] * shape[1] * shape[2]); i++)
            ck_assert(columns[i] == (float)(i + 1) && second[i] == (float)(i + 2));
    }
}
END_TEST

/* A result of a row and an input of other indices are no pair in place, whatever their lengths are. */
START_TEST(test_reduce__no_column_over_a_row_or_a_matrix)
{
    enum { N = 12 };
    static const struct {
        const char *text;
        uint64_t cols;
    } cases[] = {
        { "op=(sum(x*y),x) template=rows dtype=f32 layout=(full,row) target=cpu", N },
        { "op=(sum(x*y),x) template=rows dtype=f32 layout=(full,full) target=cpu", 1 },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        kiln_spec *spec;
        kiln_kernel *kernel;
        float matrix[N * N], column[N], second[N * N];
        const uint64_t sizes[] = { N, cases[k].cols };
        const kiln_arg args[] = { KILN_ARRAY(column, sizeof(column)), KILN_ARRAY(second, sizeof(second)),
                                  KILN_ARRAY(matrix, sizeof(matrix)), KILN_ARRAY(column, sizeof(column)) };
        ck_assert_int_eq(kiln_spec_parse(&spec, service, cases[k].text, &report), KILN_OK);
        ck_assert_msg(kiln_get_kernel(&kernel, service, spec, &report) == KILN_OK, "%s", report.message);
        ck_assert_int_eq(kiln_launch(kernel, NULL, sizes, 2, args, 4, NULL, &report), KILN_EOVERLAP);
        kiln_kernel_release(kernel);
        kiln_spec_free(spec);
    }
    float numbers[N] = { 1, 2, 3 }, second[N];
    const int64_t shape[] = { N, 1 };
    const kiln_tensor in = tensor(numbers, shape, 2), outs[] = { in, tensor(second, shape, 2) };
    for (int call = 0; call < 2; call++)
        ck_assert_int_eq(kiln_apply(service, "op=(sum(x)*2,x-sum(x)) keep=1", outs, 2, &in, 1, NULL, 0, NULL, &report),
                         KILN_EOVERLAP);
    ck_assert_int_eq(kiln_apply(service, "op=(x-sum(x),sum(x)*2) keep=1", outs, 2, &in, 1, NULL, 0, NULL, &report),
                     KILN_OK); /* the element itself */
    ck_assert(numbers[2] == 0 && second[2] == 6);
    ck_assert_int_eq(kiln_apply(service, "op=sum(x)+1 keep=1", outs, 1, &in, 1, NULL, 0, NULL, &report), KILN_OK);
    ck_assert(numbers[2] == 1);
}
END_TEST

/* A column lacks the axis or has the extent 1 there, also where its shape would broadcast as a row. */
START_TEST(test_reduce__a_column_without_the_axis)
{
    static const struct {
        const char *text;
        uint32_t ndim, of_column;
        int64_t shape[3], column[3];
        bool refused;
    } cases[] = {
        { "op=shifted(x,c)", 2, 1, { B, B }, { B }, false },
        { "op=shifted(x,c)", 2, 2, { B, B }, { B, 1 }, false },
        { "op=shifted(x,c) axis=0", 2, 1, { B, B }, { B }, false },
        { "op=shifted(x,c)", 3, 2, { A, B, C }, { A, B }, false },
        { "op=shifted(x,c) axis=1", 3, 2, { A, B, C }, { A, C }, false },
        { "op=shifted(x,c) axis=1", 3, 3, { A, B, C }, { A, 1, C }, false },
        { "op=shifted(x,c) axis=(0,1)", 3, 1, { A, B, C }, { C }, false },
        { "op=shifted(x,c)", 3, 2, { A, 1, C }, { A, 1 }, false },
        { "op=shifted(x,c)", 2, 1, { B, 1 }, { B }, false },
        { "op=shifted(x,c)", 2, 2, { B, 1 }, { B, 1 }, false },
        { "op=shifted(x,c)", 1, 0, { B }, { 0 }, false },
        { "op=shifted(x,c)", 2, 1, { A, B }, { B }, true },
        { "op=shifted(x,c)", 2, 2, { B, B }, { 1, B }, true },
        { "op=shifted(x,c)", 2, 2, { B, B }, { B, B }, true },
    };
    ck_assert_int_eq(kiln_op_define(service, "shifted(x, column c) = sum(x) + c", &report), KILN_OK);
    for (size_t k = 0; k < COUNT(cases); k++) {
        const kiln_tensor ins[] = { tensor(x, cases[k].shape, cases[k].ndim),
                                    tensor(y, cases[k].column, cases[k].of_column) };
        kiln_output found;
        size_t count;
        const kiln_status status = kiln_apply_outputs(&found, 1, &count, service, cases[k].text, ins, 2, &report);
        ck_assert_msg(status == (cases[k].refused ? KILN_ESPEC : KILN_OK), "%zu: %s", k, report.message);
        ck_assert(!cases[k].refused || strstr(report.message, "shifted takes a column as c") != NULL);
        const kiln_tensor result = tensor(out, found.shape, found.ndim),
                          sum = tensor(out + ALL / 2, found.shape, found.ndim);
        const char *axis = strchr(cases[k].text, ' ');
        char sums[64];
        snprintf(sums, sizeof(sums), "op=sum(x)%s", axis != NULL ? axis : "");
        for (int call = 0; call < 2 && !cases[k].refused; call++) { /* the second finds the kernel in the table */
            ck_assert_msg(kiln_apply(service, cases[k].text, &result, 1, ins, 2, NULL, 0, NULL, &report) == KILN_OK,
                          "%zu: %s", k, report.message);
            ck_assert_int_eq(kiln_apply(service, sums, &sum, 1, ins, 1, NULL, 0, NULL, &report), KILN_OK);
            int rows = 1;
            for (uint32_t d = 0; d < found.ndim; d++)
                rows *= (int)found.shape[d];
            for (int i = 0; i < rows; i++)
                ck_assert_msg(out[i] == out[ALL / 2 + i] + y[i], "%zu: row %d", k, i);
        }
    }
}
END_TEST

START_TEST(test_reduce__results_of_both_kinds)
{
    float most[A * B];
    int64_t where[A * B];
    const int64_t shape[] = { A, B };
    const kiln_tensor in = tensor(x, whole, 3);
    kiln_tensor outs[] = { tensor(out, whole, 3), tensor(most, shape, 2), tensor(where, shape, 2) };
    outs[2].dtype = KILN_I64;
    ck_assert_int_eq(kiln_apply(service, "op=(x-max(x),max(x),argmax(x))", outs, 3, &in, 1, NULL, 0, NULL, &report),
                     KILN_OK);
    for (int i = 0; i < A * B; i++) {
        int best = 0;
        for (int j = 1; j < C; j++)
            best = x[i * C + j] > x[i * C + best] ? j : best;
        ck_assert(most[i] == x[i * C + best] && where[i] == best);
        for (int j = 0; j < C; j++)
            ck_assert(out[i * C + j] == x[i * C + j] - most[i]);
    }
}
END_TEST

/* A defined op gives its first input as it is, and a value that reduces another. */
START_TEST(test_reduce__an_input_as_result)
{
    float second[ALL];
    const kiln_tensor ins[] = { tensor(x, whole, 3), tensor(y, whole, 3) },
                      outs[] = { tensor(out, whole, 3), tensor(second, whole, 3) };
    ck_assert_int_eq(kiln_op_define(service, "first_and(x, y) = (x, y - max(y))", &report), KILN_OK);
    ck_assert_msg(kiln_apply(service, "op=first_and", outs, 2, ins, 2, NULL, 0, NULL, &report) == KILN_OK, "%s",
                  report.message);
    ck_assert_mem_eq(out, x, sizeof(x));
    for (int i = 0; i < ALL; i++)
        ck_assert(second[i] == y[i] - 4); /* of five neighbours, 0 to 4 */
}
END_TEST

/* A row, a column and an element for all, and an output in place. */
START_TEST(test_reduce__inputs_broadcast)
{
    static const struct {
        int64_t shape[3];
        uint32_t ndim;
        int row, column; /* strides of y */
    } cases[] = {
        { { C }, 1, 0, 1 }, { { 1, C }, 2, 0, 1 }, { { A, B, 1 }, 3, 1, 0 },
        { { 1 }, 1, 0, 0 }, { { 0 }, 0, 0, 0 },    { { A, B, C }, 3, C, 1 },
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        memcpy(out, x, sizeof(x));
        const kiln_tensor ins[] = { tensor(out, whole, 3), tensor(y, cases[k].shape, cases[k].ndim) };
        ck_assert_msg(kiln_apply(service, "op=x+y-max(x+y)", ins, 1, ins, 2, NULL, 0, NULL, &report) == KILN_OK, "%s",
                      report.message);
        for (int i = 0; i < A * B; i++) {
            float most = -1e30f;
            for (int j = 0; j < C; j++)
                most = fmaxf(most, x[i * C + j] + y[i * cases[k].row + j * cases[k].column]);
            for (int j = 0; j < C; j++)
                ck_assert(out[i * C + j] == x[i * C + j] + y[i * cases[k].row + j * cases[k].column] - most);
        }
    }
}
END_TEST

/* The shape of the inputs below, and the element of an operand at the indices that count elements to i. */
static const int64_t four[] = { 2, 3, 2, 5 };

static int64_t offset_of(const int64_t *strides, int i)
{
    int64_t at = 0;
    for (int d = 4; d-- > 0; i /= (int)four[d])
        at += i % four[d] * strides[d];
    return at;
}

/* Inputs have a part of the dimensions before the axis, or gaps or another order there. */
START_TEST(test_reduce__a_launch_for_each_part)
{
    static const struct {
        const char *axis;
        int64_t x[4], y[4]; /* strides */
    } cases[] = {
        { "-1", { 30, 10, 5, 1 }, { 5, 0, 0, 1 } },     /* a mask of each of the first dimension */
        { "-1", { 30, 10, 5, 1 }, { 10, 0, 5, 1 } },    /* of the first and the third */
        { "-1", { 30, 10, 5, 1 }, { 0, 5, 0, 1 } },     /* of the second */
        { "-1", { 30, 10, 5, 1 }, { 0, 1, 0, 0 } },     /* likewise one element */
        { "-1", { 30, 10, 5, 1 }, { 3, 1, 0, 0 } },     /* a column of the first two */
        { "-1", { 64, 20, 8, 1 }, { 30, 10, 5, 1 } },   /* gaps in front of the axis */
        { "-1", { 10, 20, 5, 1 }, { 0, 0, 0, 1 } },     /* another order */
        { "-1", { -30, 10, 5, 1 }, { 30, -10, 5, 1 } }, /* from behind */
        { "(2,3)", { 30, 10, 5, 1 }, { 0, 10, 5, 1 } }, /* an axis of two dimensions */
        { "1", { 64, 10, 5, 1 }, { 5, 0, 0, 0 } },      /* dimensions behind the axis */
        { "2", { 30, 10, 5, 1 }, { 5, 0, 0, 1 } },      /* of which y has all */
        { "2", { 30, 10, 5, 1 }, { 0, 2, 1, 0 } },      /* or none */
    };
    enum { COUNT_FOUR = 2 * 3 * 2 * 5 };
    float from[256], with[256];
    for (int i = 0; i < 256; i++) {
        from[i] = (float)((i * 37) % 101);
        with[i] = (float)((i * 23) % 51);
    }
    for (size_t k = 0; k < COUNT(cases); k++) {
        char text[64];
        float most[COUNT_FOUR];
        float *const first = from + (cases[k].x[0] < 0 ? 30 : 0), *const other = with + (cases[k].y[1] < 0 ? 20 : 0);
        const int last = cases[k].axis[0] == '1' ? 1 : cases[k].axis[0] == '2' ? 2 : 3;
        int64_t shape[4];
        memcpy(shape, four, sizeof(shape));
        if (cases[k].y[last] == 0) /* one value for all of the axis */
            shape[last] = 1;
        const kiln_tensor ins[] = { { first, NULL, KILN_F32, 4, four, cases[k].x },
                                    { other, NULL, KILN_F32, 4, shape, cases[k].y } },
                          result = tensor(out, four, 4);
        const bool two = cases[k].axis[0] == '(';
        const int length = two ? 10 : (int)four[last], behind = last == 1 ? 10 : last == 2 ? 5 : 1;
        snprintf(text, sizeof(text), "op=x+y-max(x+y) axis=%s", cases[k].axis);
        memset(out, 0xa5, sizeof(out));
        ck_assert_msg(kiln_apply(service, text, &result, 1, ins, 2, NULL, 0, NULL, &report) == KILN_OK, "case %zu: %s",
                      k, report.message);
        for (int i = 0; i < COUNT_FOUR; i++)
            most[i] = first[offset_of(cases[k].x, i)] + other[offset_of(cases[k].y, i)];
        for (int i = 0; i < COUNT_FOUR; i++) {
            const int begin = i / (length * behind) * length * behind + i % behind;
            float want = -1e30f;
            for (int j = 0; j < length; j++)
                want = fmaxf(want, most[begin + j * behind]);
            ck_assert_msg(out[i] == most[i] - want, "case %zu: element %d is %g, not %g", k, i, (double)out[i],
                          (double)(most[i] - want));
        }
    }
}
END_TEST

/* Results without the axis, in several parts, and parts without elements. */
START_TEST(test_reduce__parts_of_results)
{
    const int64_t rows[] = { 2, 3, 2 }, gaps[] = { 64, 20, 10, 2 }, apart[] = { 64, 20, 5, 1 };
    float from[256];
    for (int i = 0; i < 256; i++)
        from[i] = (float)((i * 37) % 101);
    kiln_tensor in = { from, NULL, KILN_F32, 4, four, apart };
    const kiln_tensor result = tensor(out, rows, 3);
    ck_assert_msg(kiln_apply(service, "op=sum(x)", &result, 1, &in, 1, NULL, 0, NULL, &report) == KILN_OK, "%s",
                  report.message);
    for (int i = 0; i < 12; i++) {
        float sum = 0;
        for (int j = 0; j < 5; j++)
            sum += from[offset_of(apart, i * 5 + j)];
        ck_assert(out[i] == sum);
    }
    ck_assert(out[12] == -77);
    in.strides = gaps;
    ck_assert_int_eq(kiln_apply(service, "op=sum(x)", &result, 1, &in, 1, NULL, 0, NULL, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "tensor x: its elements along the axis and behind it have gaps"));

    const int64_t none[] = { 0, 3, 2, 5 }, empty[] = { 2, 3, 2, 0 }, part[] = { 2, 1, 2, 1 };
    kiln_tensor ins[] = { tensor(NULL, none, 4), tensor(y, part + 1, 3) }, nothing = tensor(NULL, none, 3);
    ck_assert_msg(kiln_apply(service, "op=sum(x*y)", &nothing, 1, ins, 2, NULL, 0, NULL, &report) == KILN_OK, "%s",
                  report.message);
    ins[0] = tensor(NULL, empty, 4);
    ins[1] = tensor(y, part, 4);
    ck_assert_msg(kiln_apply(service, "op=sum(x)+c", &result, 1, ins, 2, NULL, 0, NULL, &report) == KILN_OK, "%s",
                  report.message);
    for (int i = 0; i < 12; i++)
        ck_assert(out[i] == y[i / 6 * 2 + i % 2]);
}
END_TEST

START_TEST(test_reduce__nothing_to_reduce)
{
    const int64_t none[] = { A, 0 }, rows[] = { A }, zero[] = { 0, C };
    const kiln_tensor in = tensor(NULL, none, 2), lacking = tensor(NULL, zero, 2);
    kiln_tensor result = tensor(out, rows, 1);
    ck_assert_int_eq(kiln_apply(service, "op=sum(x)", &result, 1, &in, 1, NULL, 0, NULL, &report), KILN_OK);
    ck_assert(out[0] == 0 && out[A - 1] == 0 && out[A] == -77);
    ck_assert_int_eq(kiln_apply(service, "op=max(x)", &result, 1, &in, 1, NULL, 0, NULL, &report), KILN_OK);
    ck_assert(isinf(out[0]) && out[0] < 0 && out[A] == -77);
    result = in;
    ck_assert_int_eq(kiln_apply(service, "op=softmax", &result, 1, &in, 1, NULL, 0, NULL, &report), KILN_OK);
    result = tensor(NULL, zero, 1);
    ck_assert_int_eq(kiln_apply(service, "op=sum(x)", &result, 1, &lacking, 1, NULL, 0, NULL, &report), KILN_OK);
}
END_TEST

START_TEST(test_reduce__refusals_name_the_tensor_and_change_nothing)
{
    static const struct {
        const char *text;
        int64_t shape[3];
        uint32_t ndim;
        const char *words;
    } cases[] = {
        { "op=sum(x)", { A, B, C }, 3, "tensor out: the op gives one value for each row, and the tensor has the axis" },
        { "op=softmax", { A, B }, 2, "tensor out: the op gives one value for each element, and the tensor lacks" },
        { "op=sum(x)", { A, C }, 2, "tensor out has neither the shape of the inputs nor this without the axis" },
        { "op=sum(x) axis=1", { A, B }, 2, "tensor out has neither the shape of the inputs nor this without the axis" },
        { "op=sum(x) axis=1 template=rows", { A, C }, 2, "template rows takes an axis that is not followed by other" },
        { "op=sum(x) template=columns", { A, B }, 2, "template columns takes an axis that is followed by other" },
        { "op=sum(x) axis=3", { A, B }, 2, "axis 3 is none of the 3 dimensions" },
        { "op=sum(x) axis=-4", { A, B }, 2, "axis -4 is none of the 3 dimensions" },
        { "op=sum(x) layout=(row)", { A, B }, 2, "the tensors give layout" },
        { "op=sum(x) template=elementwise", { A, B }, 2, "takes ops that do not reduce" },
        { "op=sum(c*0+x)", { A, B }, 2, "the op writes 1 and reads 2 tensors" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        kiln_status status = apply(cases[i].text, cases[i].shape, cases[i].ndim);
        ck_assert_msg(status != KILN_OK && strstr(report.message, cases[i].words) != NULL, "%s: %s", cases[i].text,
                      report.message);
        for (int j = 0; j < ALL; j++)
            ck_assert(out[j] == -77);
    }
    const int64_t rows[] = { A, B }, columns[] = { B, C }, part[] = { B, 1 }, gaps[] = { 1, 2 };
    kiln_tensor ins[] = { tensor(x, whole, 3), tensor(y, part, 2) }, result = tensor(out, columns, 2);
    ck_assert_int_eq(kiln_apply(service, "op=sum(x*y) axis=0", &result, 1, ins, 2, NULL, 0, NULL, &report),
                     KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "tensor y broadcasts along a part of the dimensions behind the axis"));
    result = tensor(out, rows, 1);
    ck_assert_int_eq(kiln_apply(service, "op=sum(x*y) axis=(1,2)", &result, 1, ins, 2, NULL, 0, NULL, &report),
                     KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "tensor y broadcasts along a part of the axis"));
    result = (kiln_tensor){ out, NULL, KILN_F32, 2, rows, gaps };
    ck_assert_int_eq(kiln_apply(service, "op=sum(x)", &result, 1, ins, 1, NULL, 0, NULL, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "tensor out is written by an op that reduces: make it contiguous"));
    const int64_t many[] = { 2000, 1 }, lines[] = { 2, 1 };
    ins[0] = (kiln_tensor){ x, NULL, KILN_F32, 2, many, lines };
    result = tensor(out, many, 2);
    ck_assert_int_eq(kiln_apply(service, "op=softmax", &result, 1, ins, 1, NULL, 0, NULL, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "a launch for each of more than 1024 parts before the axis"));
    ins[0] = tensor(x, whole, 3);
    result = tensor(x + 1, whole, 3);
    ck_assert_int_eq(kiln_apply(service, "op=softmax", &result, 1, ins, 1, NULL, 0, NULL, &report), KILN_EOVERLAP);
    const int64_t none[] = { A, 0, C }, any[] = { C, C, 1 };
    ins[0] = (kiln_tensor){ x, NULL, KILN_F32, 3, none, any };
    result = tensor(out, none, 3);
    ck_assert_int_eq(kiln_apply(service, "op=softmax", &result, 1, ins, 1, NULL, 0, NULL, &report), KILN_OK);
    ins[0] = tensor(x, whole, 3);
    const int64_t odd[] = { A, B, C + 1 };
    ins[1] = tensor(y, odd, 3);
    ck_assert_int_eq(kiln_apply(service, "op=sum(x*y)", &result, 1, ins, 2, NULL, 0, NULL, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "does not broadcast with 5 of the other inputs"));
}
END_TEST

/* A request is that of the kernel that is launched. */
START_TEST(test_reduce__request_names_rows_and_their_length)
{
    kiln_spec *spec = NULL;
    kiln_request request = KILN_INIT(kiln_request);
    const int64_t shape[] = { A, B };
    const kiln_tensor in = tensor(NULL, whole, 3), result = tensor(NULL, shape, 2);
    ck_assert_int_eq(kiln_apply_request(&spec, &request, service, "op=mean(x) keep=1", &result, 1, &in, 1, &report),
                     KILN_OK);
    ck_assert_str_eq(kiln_spec_field(spec, "template"), ""); /* which the length of rows decides */
    ck_assert_str_eq(kiln_spec_field(spec, "axis"), "");
    ck_assert_str_eq(kiln_spec_field(spec, "n"), "16x5"); /* 12 rows, as a power of two */
    kiln_spec_free(spec);
}
END_TEST

/* Kernels are chosen by the length of rows, and equal lengths find theirs again. */
START_TEST(test_reduce__each_length_of_rows_has_its_kernel)
{
    const kiln_fake *fake = kiln_fake_open();
    static const int64_t lengths[] = { 64, 64, 1024, 1000, 65, 64 };
    kiln_options options = kiln_test_gpu_options();
    kiln_close(service);
    service = kiln_test_open(&options);
    const size_t before = fake->launches(NULL, 0);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        const int64_t shape[] = { 1000, lengths[i] };
        const kiln_tensor in = tensor((void *)0x1000000, shape, 2), result = tensor((void *)0x2000000, shape, 2);
        ck_assert_msg(kiln_apply(service, "op=softmax", &result, 1, &in, 1, NULL, 0, NULL, &report) == KILN_OK, "%s",
                      report.message);
    }
    ck_assert_uint_eq(fake->launches(NULL, 0), before + COUNT(lengths));
    ck_assert_uint_eq(kiln_test_stats(service).loads, 4); /* of 64, of 1024, of 1000 and of 65 */
}
END_TEST

/* A mask of each batch takes a launch for each, of one kernel. */
START_TEST(test_reduce__parts_have_one_kernel)
{
    const kiln_fake *fake = kiln_fake_open();
    const int64_t shape[] = { 7, 8, 64, 64 }, of_batch[] = { 7, 1, 1, 64 };
    kiln_options options = kiln_test_gpu_options();
    kiln_close(service);
    service = kiln_test_open(&options);
    const size_t before = fake->launches(NULL, 0);
    const kiln_tensor ins[] = { tensor((void *)0x1000000, shape, 4), tensor((void *)0x2000000, of_batch, 4) },
                      result = tensor((void *)0x3000000, shape, 4);
    ck_assert_msg(kiln_apply(service, "op=softmax(x+y)", &result, 1, ins, 2, NULL, 0, NULL, &report) == KILN_OK, "%s",
                  report.message);
    ck_assert_uint_eq(fake->launches(NULL, 0), before + 7);
    ck_assert_uint_eq(kiln_test_stats(service).loads, 1);
}
END_TEST

/* Rows that begin between words have a kernel of narrower accesses, unless the text says how wide they are. */
START_TEST(test_reduce__each_alignment_of_rows_has_its_kernel)
{
    static const struct {
        size_t in, out;
        const char *text, *vector;
    } cases[] = { { 0, 0, "op=softmax", "" },  { 16, 0, "op=softmax", "" },          { 4, 0, "op=softmax", "1" },
                  { 0, 8, "op=softmax", "2" }, { 8, 4, "op=softmax vector=4", "4" }, { 4, 0, "op=sum(x) axis=0", "" } };
    static const int64_t shape[] = { 1000, 64 };
    kiln_options options = kiln_test_gpu_options();
    kiln_close(service);
    service = kiln_test_open(&options);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const bool reduced = strchr(cases[i].text, '(') != NULL;
        const kiln_tensor in = tensor((char *)0x1000000 + cases[i].in, shape, 2),
                          result = tensor((char *)0x2000000 + cases[i].out, shape + reduced, 2 - reduced);
        kiln_request request = KILN_INIT(kiln_request);
        kiln_spec *spec = NULL;
        ck_assert_int_eq(kiln_apply_request(&spec, &request, service, cases[i].text, &result, 1, &in, 1, &report),
                         KILN_OK);
        ck_assert_str_eq(kiln_spec_field(spec, "vector"), cases[i].vector);
        kiln_spec_free(spec);
        ck_assert_msg(kiln_apply(service, cases[i].text, &result, 1, &in, 1, NULL, 0, NULL, &report) == KILN_OK, "%s",
                      report.message);
    }
    ck_assert_uint_eq(kiln_test_stats(service).loads, 4); /* of words, of one element, of two, and of the sum */
}
END_TEST

Suite *kiln_test_service_reduce_suite(void)
{
    Suite *suite = suite_create("reduce");
    TCase *tcase = tcase_create("reduce");
    tcase_add_checked_fixture(tcase, open_cpu, close_service);
    tcase_add_test(tcase, test_reduce__results_lack_the_axis_or_keep_it);
    tcase_add_test(tcase, test_reduce__axis_before_other_dimensions);
    tcase_add_test(tcase, test_reduce__scans);
    tcase_add_test(tcase, test_reduce__inputs_broadcast_beside_the_axis);
    tcase_add_test(tcase, test_reduce__a_column_in_place);
    tcase_add_test(tcase, test_reduce__the_first_of_two_columns_in_place);
    tcase_add_test(tcase, test_reduce__no_column_over_a_row_or_a_matrix);
    tcase_add_test(tcase, test_reduce__a_column_without_the_axis);
    tcase_add_test(tcase, test_reduce__results_of_both_kinds);
    tcase_add_test(tcase, test_reduce__an_input_as_result);
    tcase_add_test(tcase, test_reduce__inputs_broadcast);
    tcase_add_test(tcase, test_reduce__a_launch_for_each_part);
    tcase_add_test(tcase, test_reduce__parts_of_results);
    tcase_add_test(tcase, test_reduce__nothing_to_reduce);
    tcase_add_test(tcase, test_reduce__refusals_name_the_tensor_and_change_nothing);
    tcase_add_test(tcase, test_reduce__request_names_rows_and_their_length);
    tcase_add_test(tcase, test_reduce__each_length_of_rows_has_its_kernel);
    tcase_add_test(tcase, test_reduce__parts_have_one_kernel);
    tcase_add_test(tcase, test_reduce__each_alignment_of_rows_has_its_kernel);
    suite_add_tcase(suite, tcase);
    return suite;
}
