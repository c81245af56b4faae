/* Calls with reduce=: their totals on the cpu, their texts, refusals, and their launches over the stand-in driver. */
#include "gpu/cuda_symbols.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/suites.h"
#include <kiln/kiln.h>
#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { ROWS = 6, COLS = 5 };

static const kiln_fake *fake;
static kiln_service *service;
static kiln_report report = KILN_INIT(kiln_report);
static float x[ROWS][COLS];
static int64_t t[ROWS] = { 0, 4, -100, 2, 1, -100 };
static const int64_t shape[] = { ROWS, COLS }, column[] = { ROWS, 1 };

static void open_cpu(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
    for (int i = 0; i < ROWS * COLS; i++)
        x[i / COLS][i % COLS] = (float)((i * 7) % 11 - 3) / 2;
}

static void open_gpu(void)
{
    kiln_options options = kiln_test_gpu_options();
    fake = kiln_fake_open();
    service = kiln_test_open(&options);
}

static void close_service(void)
{
    kiln_report_clear(&report);
    kiln_close(service);
}

static kiln_tensor number(void *data, kiln_dtype dtype)
{
    return (kiln_tensor){ data, NULL, dtype, 0, NULL, NULL };
}

/* Applies an op on x and, where it has two inputs, on t. */
static kiln_status total(const char *text, size_t in_count, const kiln_tensor *outs, size_t out_count)
{
    const kiln_tensor ins[] = { { x, NULL, KILN_F32, 2, shape, NULL }, { t, NULL, KILN_I64, 2, column, NULL } };
    return kiln_apply(service, text, outs, out_count, ins, in_count, NULL, 0, NULL, &report);
}

static double loss_of(int row)
{
    double sum = 0;
    for (int j = 0; j < COLS; j++)
        sum += exp((double)x[row][j]);
    return t[row] == -100 ? 0 : log(sum) - (double)x[row][t[row]];
}

START_TEST(test_parts__rows_have_one_total)
{
    double losses = 0, greatest = 0, squares = 0;
    int64_t places = 0;
    for (int i = 0; i < ROWS; i++) {
        int best = 0;
        losses += loss_of(i);
        for (int j = 0; j < COLS; j++) {
            best = x[i][j] > x[i][best] ? j : best;
            squares += (double)x[i][j] * (double)x[i][j];
        }
        greatest += (double)x[i][best];
        places += best;
    }
    const struct {
        const char *text;
        size_t in_count;
        double want;
    } cases[] = {
        { "op=cross_entropy(x,t) reduce=sum", 2, losses },
        { "op=cross_entropy(x,t) reduce=mean", 2, losses / 4 },      /* of the rows that count */
        { "op=cross_entropy(x,t)+0 reduce=mean", 2, losses / ROWS }, /* an expression has no weights */
        { "op=max(x) reduce=mean", 1, greatest / ROWS },
        { "op=max(x) reduce=sum keep=1", 1, greatest }, /* the tensor decides */
        { "op=x*x reduce=mean", 1, squares / (ROWS * COLS) },
        { "op=square reduce=sum", 1, squares },
        { "op=x*x reduce=sum block=64", 1, squares }, /* of which the total takes another template */
        { "op=sum(x*x) axis=all reduce=mean", 1, squares },
        { "op=sum(x*x) axis=0 reduce=mean", 1, squares / COLS },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        float result = -77;
        const kiln_tensor out = number(&result, KILN_F32);
        for (int again = 0; again < 2; again++, result = again == 1 ? -77 : result)
            ck_assert_msg(total(cases[i].text, cases[i].in_count, &out, 1) == KILN_OK, "%s: %s", cases[i].text,
                          report.message);
        ck_assert_msg(fabs((double)result - cases[i].want) < 1e-5 * (1 + fabs(cases[i].want)), "%s: %g, not %g",
                      cases[i].text, (double)result, cases[i].want);
    }
    float most = -77;
    int64_t where = -77;
    const kiln_tensor both[] = { number(&most, KILN_F32), number(&where, KILN_I64) };
    ck_assert_int_eq(total("op=(max(x),argmax(x)) reduce=sum", 1, both, 2), KILN_OK);
    ck_assert(fabs((double)most - greatest) < 1e-5 && where == places);
}
END_TEST

/* Inputs of which no kernel reduces all dimensions are combined first. */
START_TEST(test_parts__inputs_broadcast)
{
    static const int64_t row[] = { COLS }, one[] = { 1 }, turned[] = { COLS, ROWS }, steps[] = { 1, COLS };
    double sum = 0, all = 0;
    float result = -77, other = -77, two = 2;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) {
            sum += ((double)x[i][j] - (double)x[0][j]) * ((double)x[i][j] - (double)x[0][j]);
            all += (double)x[i][j];
        }
    const kiln_tensor ins[] = { { x, NULL, KILN_F32, 2, shape, NULL }, { x[0], NULL, KILN_F32, 1, row, NULL } },
                      across = { x, NULL, KILN_F32, 2, turned, steps },
                      both[] = { ins[0], { &two, NULL, KILN_F32, 1, one, NULL } },
                      outs[] = { number(&result, KILN_F32), number(&other, KILN_F32) };
    ck_assert_msg(kiln_apply(service, "op=(x-b)*(x-b) reduce=mean", outs, 1, ins, 2, NULL, 0, NULL, &report) == KILN_OK,
                  "%s", report.message);
    ck_assert(fabs((double)result - sum / (ROWS * COLS)) < 1e-5 * sum);
    ck_assert_msg(kiln_apply(service, "op=x+0 reduce=sum", outs, 1, &across, 1, NULL, 0, NULL, &report) == KILN_OK,
                  "%s", report.message);
    ck_assert(fabs((double)result - all) < 1e-4);
    ck_assert_msg(kiln_apply(service, "op=(x+0,y*2+0*x) reduce=sum", outs, 2, both, 2, NULL, 0, NULL, &report) ==
                      KILN_OK,
                  "%s", report.message);
    ck_assert(fabs((double)result - all) < 1e-4 && fabs((double)other - 4.0 * ROWS * COLS) < 1e-4);
}
END_TEST

/* Results of rows are not rounded to 16 bits in between: 1024.25 would be 1024, and the total 0. */
START_TEST(test_parts__results_of_rows_keep_their_bits)
{
    enum { OF_1024 = 0x6400, OF_QUARTER = 0x3400, OF_MINUS_512 = 0xe000 };
    static const uint16_t rows[2][2] = { { OF_1024, OF_QUARTER }, { OF_MINUS_512, OF_MINUS_512 } };
    static const int64_t two[] = { 2, 2 };
    uint16_t sum = OF_1024;
    int32_t whole[] = { INT32_MAX, 1, 5, 6 };
    int64_t all = -77;
    const kiln_tensor halves = { (void *)rows, NULL, KILN_F16, 2, two, NULL }, out = number(&sum, KILN_F16),
                      numbers = { whole, NULL, KILN_I32, 2, two, NULL }, wide_out = number(&all, KILN_I64);
    ck_assert_msg(kiln_apply(service, "op=sum(x) reduce=sum", &out, 1, &halves, 1, NULL, 0, NULL, &report) == KILN_OK,
                  "%s", report.message);
    ck_assert_uint_eq(sum, OF_QUARTER);
    ck_assert_msg(kiln_apply(service, "op=max(x) reduce=sum", &wide_out, 1, &numbers, 1, NULL, 0, NULL, &report) ==
                      KILN_OK,
                  "%s", report.message);
    ck_assert_int_eq(all, INT64_C(6) + INT32_MAX);
}
END_TEST

/* Nor to the type of the total, of which float has 24 bits. */
START_TEST(test_parts__results_of_rows_have_their_own_type)
{
    enum { LONG = 4096 };
    static int64_t numbers[LONG];
    static const int64_t lines[] = { LONG, 1 };
    double large[] = { 1e39, -1e39, 3 };
    static const int64_t three[] = { 3, 1 };
    float sum = -77, mean = -77, cancels = -77;
    for (int i = 0; i < LONG; i++)
        numbers[i] = i == 0 ? 1 << 24 : 1;
    const kiln_tensor in = { numbers, NULL, KILN_I64, 2, lines, NULL }, f64 = { large, NULL, KILN_F64, 2, three, NULL },
                      outs[] = { number(&sum, KILN_F32), number(&mean, KILN_F32), number(&cancels, KILN_F32) };
    ck_assert_int_eq(kiln_apply(service, "op=sum(x) reduce=sum", &outs[0], 1, &in, 1, NULL, 0, NULL, &report), KILN_OK);
    ck_assert(sum == (float)((1 << 24) + LONG - 1));
    ck_assert_int_eq(kiln_apply(service, "op=max(x) reduce=mean", &outs[1], 1, &in, 1, NULL, 0, NULL, &report),
                     KILN_OK);
    ck_assert(mean == (float)(((1 << 24) + LONG - 1) / (double)LONG));
    ck_assert_int_eq(kiln_apply(service, "op=sum(x) reduce=sum", &outs[2], 1, &f64, 1, NULL, 0, NULL, &report),
                     KILN_OK);
    ck_assert(cancels == 0 || cancels == 3);
}
END_TEST

START_TEST(test_parts__no_rows_and_no_elements)
{
    static const struct {
        const char *text;
        int64_t shape[2];
        double want; /* NaN: the mean of nothing */
    } cases[] = {
        { "op=max(x) reduce=sum", { 0, 5 }, 0 },
        { "op=max(x) reduce=mean", { 0, 5 }, (double)NAN },
        { "op=sum(x) reduce=mean", { 5, 0 }, 0 },
        { "op=x+1 reduce=sum", { 5, 0 }, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        float result = -77;
        const kiln_tensor in = { NULL, NULL, KILN_F32, 2, cases[i].shape, NULL }, out = number(&result, KILN_F32);
        ck_assert_msg(kiln_apply(service, cases[i].text, &out, 1, &in, 1, NULL, 0, NULL, &report) == KILN_OK, "%s: %s",
                      cases[i].text, report.message);
        ck_assert_msg(isnan(cases[i].want) ? isnan(result) : (double)result == cases[i].want, "%s: %g", cases[i].text,
                      (double)result);
    }
}
END_TEST

START_TEST(test_parts__have_texts)
{
    static const struct {
        const char *text, *first, *second;
    } cases[] = {
        { "op=cross_entropy(a,b) reduce=mean", "op=(cross_entropy(a,b,-100,0),cross_entropy_weight(b,-100)) keep=1",
          "op=sum(r0)/sum(r1) axis=all" },
        { "op=cross_entropy(ignore_index=7) reduce=mean axis=0",
          "op=(cross_entropy(x,y,7,0),cross_entropy_weight(y,7)) axis=0 keep=1", "op=sum(r0)/sum(r1) axis=all" },
        { "op=cross_entropy(a,b) reduce=sum", "op=cross_entropy(a,b,-100,0) keep=1", "op=sum(r0) axis=all" },
        { "op=(max(x),min(x)) reduce=mean keep=1", "op=(max(x),min(x)) keep=1",
          "op=(mean(r0),mean(r1)) axis=all keep=1" },
        { "op=mse_loss reduce=mean math=fast", "op=mse_loss(x,y) math=fast", "op=mean(r0) axis=all" },
        { "op=(x+1,x*?by) reduce=sum", "op=(x+1,x*?by)", "op=(sum(r0),sum(r1)) axis=all" },
        { "op=softmax", "op=softmax", NULL },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *first = NULL, *second = NULL;
        ck_assert_msg(kiln_apply_parts(&first, &second, service, cases[i].text, &report) == KILN_OK, "%s: %s",
                      cases[i].text, report.message);
        ck_assert_str_eq(first, cases[i].first);
        ck_assert_msg(strcmp(second ? second : "", cases[i].second ? cases[i].second : "") == 0, "%s",
                      second ? second : "");
        kiln_text_free(first);
        kiln_text_free(second);
    }
}
END_TEST

START_TEST(test_parts__outputs)
{
    const kiln_tensor ins[] = { { x, NULL, KILN_BF16, 2, shape, NULL }, { t, NULL, KILN_I64, 2, column, NULL } };
    kiln_output out;
    size_t count;
    ck_assert_int_eq(kiln_apply_outputs(&out, 1, &count, service, "op=cross_entropy(x,t) reduce=mean", ins, 2, &report),
                     KILN_OK);
    ck_assert(count == 1 && out.dtype == KILN_BF16 && out.ndim == 0);
    ck_assert_int_eq(kiln_apply_outputs(&out, 1, &count, service, "op=argmax(x) reduce=mean keep=1", ins, 1, &report),
                     KILN_OK);
    const int64_t short_rows[] = { ROWS, 1 };
    const kiln_tensor shorts[] = { { x, NULL, KILN_F32, 2, short_rows, NULL }, ins[1] };
    kiln_output of_short;
    ck_assert_int_eq(
        kiln_apply_outputs(&of_short, 1, &count, service, "op=cross_entropy(x,t) reduce=mean", shorts, 2, &report),
        KILN_OK);
    ck_assert(count == 1 && of_short.dtype == KILN_F32 && of_short.ndim == 0);
    ck_assert(count == 1 && out.dtype == KILN_F32 && out.ndim == 2 && out.shape[0] == 1 && out.shape[1] == 1);
}
END_TEST

START_TEST(test_parts__refusals)
{
    static const struct {
        const char *text, *words;
    } wrong[] = {
        { "op=max(x) reduce=max", "reduce=max: mean or sum" },
        { "op=softmax reduce=mean", "the op gives one value for each element" },
        { "op=x*x reduce=mean axis=0", "axis and keep are for ops that reduce or scan an axis" },
        { "op=x*x reduce=mean dtype=f32", "the tensors give dtype" },
        { "op=max(x) reduce=sum dtype=f32", "the tensors give dtype" },
        { "op=(max(x),min(x)) reduce=sum", "the op writes 2 tensors, and 1 are given" },
        { "reduce=mean", "the text has no op" },
    };
    float result = -77;
    const kiln_tensor out = number(&result, KILN_F32), in = { x, NULL, KILN_F32, 2, shape, NULL };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        ck_assert_int_ne(total(wrong[i].text, 1, &out, 1), KILN_OK);
        ck_assert_msg(strstr(report.message, wrong[i].words) != NULL, "%s: %s", wrong[i].text, report.message);
        ck_assert(result == -77);
    }
    const kiln_tensor wrong_type = number(&result, (kiln_dtype)99);
    ck_assert_int_eq(total("op=max(x) reduce=sum", 1, &wrong_type, 1), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "99 is no kiln_dtype"));
    char *first = NULL, *second = (char *)&result;
    ck_assert_int_eq(kiln_apply_parts(&first, &second, service, NULL, NULL), KILN_EINVAL);
    ck_assert(first == NULL && second == NULL);
    kiln_spec *spec = NULL;
    kiln_request request = KILN_INIT(kiln_request);
    ck_assert_int_eq(kiln_apply_request(&spec, &request, service, "op=max(x) reduce=sum", &out, 1, &in, 1, &report),
                     KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "kiln_apply_parts"));
    char *gradient = NULL;
    ck_assert_int_eq(kiln_apply_gradient(&gradient, service, "op=max(x) reduce=sum", &in, 1, 1, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "kiln_apply_parts"));
    kiln_output found;
    size_t count;
    ck_assert_int_eq(kiln_apply_outputs(&found, 1, &count, service, "op=softmax reduce=sum", &in, 1, &report),
                     KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "results of one value for each row"));
    kiln_kernel *kernel = NULL;
    spec = kiln_test_spec(service, "op=max(x) reduce=sum dtype=f32");
    ck_assert_int_eq(kiln_get_kernel(&kernel, service, spec, &report), KILN_ESPEC);
    ck_assert_ptr_nonnull(strstr(report.message, "reduce= is for tensors (kiln_apply)"));
    kiln_spec_free(spec);
}
END_TEST

/* ---- Launches on a GPU */

static kiln_status loss_on_gpu(void *stream)
{
    static const int64_t logits[] = { 1000, 512 }, classes[] = { 1000, 1 };
    const kiln_tensor ins[] = { { (void *)0x100000000, NULL, KILN_F32, 2, logits, NULL },
                                { (void *)0x200000000, NULL, KILN_I64, 2, classes, NULL } },
                      out = number((void *)0x300000000, KILN_F32);
    return kiln_apply(service, "op=cross_entropy(x,t) reduce=mean", &out, 1, ins, 2, NULL, 0, stream, &report);
}

START_TEST(test_parts__are_two_launches_with_memory)
{
    kiln_fake_live before, after;
    kiln_fake_launch launches[4];
    ck_assert_msg(loss_on_gpu(NULL) == KILN_OK, "%s", report.message);
    fake->counts(&before);
    ck_assert_msg(loss_on_gpu(NULL) == KILN_OK, "%s", report.message);
    fake->counts(&after);
    ck_assert_uint_eq(after.allocations, before.allocations);
    ck_assert_uint_eq(fake->launches(launches, 4), 4);
    ck_assert_uint_eq(kiln_test_stats(service).loads, 2);
    const uint64_t losses = launches[2].parameters[0], weights = launches[2].parameters[1];
    ck_assert(losses != 0 && weights == losses + 8192); /* 1,000 results of 8 bytes at most, up to 256 bytes */
    ck_assert_uint_eq(launches[2].parameters[2], 0x100000000);
    ck_assert_uint_eq(launches[3].parameters[0], 0x300000000);
    ck_assert_uint_eq(launches[3].parameters[1], losses);
    ck_assert_uint_eq(launches[3].parameters[2], weights);
}
END_TEST

/* The mean of elements needs no results in between, whether the text names the last axis or none. */
START_TEST(test_parts__of_elements_are_one_kernel)
{
    static const char *const texts[] = { "op=mse_loss reduce=mean", "op=mse_loss reduce=mean axis=-1" };
    static const int64_t matrix[] = { 1000, 512 };
    const kiln_tensor ins[] = { { (void *)0x100000000, NULL, KILN_F32, 2, matrix, NULL },
                                { (void *)0x200000000, NULL, KILN_F32, 2, matrix, NULL } },
                      out = number((void *)0x300000000, KILN_F32);
    for (size_t i = 0; i < COUNT(texts); i++) {
        ck_assert_msg(kiln_apply(service, texts[i], &out, 1, ins, 2, NULL, 0, NULL, &report) == KILN_OK, "%s: %s",
                      texts[i], report.message);
        ck_assert_uint_eq(kiln_test_stats(service).loads, 1);
    }
}
END_TEST

START_TEST(test_parts__failures_leave_no_memory)
{
    enum { OUT_OF_MEMORY = 2 };
    kiln_fake_live before, after;
    ck_assert_msg(loss_on_gpu(NULL) == KILN_OK, "%s", report.message);
    fake->counts(&before);
    fake->fail_call("cuMemAllocFromPoolAsync", OUT_OF_MEMORY, 0, 1);
    ck_assert_int_eq(loss_on_gpu(NULL), KILN_ELAUNCH);
    for (unsigned launch = 0; launch < 2; launch++) {
        fake->fail_call("cuLaunchKernel", 1, launch, 1);
        ck_assert_int_eq(loss_on_gpu(NULL), KILN_ELAUNCH);
        ck_assert_ptr_nonnull(strstr(report.message, "cuLaunchKernel"));
    }
    fake->counts(&after);
    ck_assert_uint_eq(after.allocations, before.allocations);
}
END_TEST

/* Kernels that were asked for by the texts of the parts are there in a capture, and memory with them. */
START_TEST(test_parts__join_a_capture)
{
    void *context = fake->context_new(0), *stream = fake->stream_new(context);
    fake->capture_begin(stream, KILN__CU_STREAM_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(loss_on_gpu(stream), KILN_ECAPTURE);
    ck_assert_int_eq(fake->capture_end(stream), 0);
    ck_assert_msg(loss_on_gpu(stream) == KILN_OK, "%s", report.message);
    fake->capture_begin(stream, KILN__CU_STREAM_CAPTURE_MODE_GLOBAL);
    ck_assert_msg(loss_on_gpu(stream) == KILN_OK, "%s", report.message);
    ck_assert_int_eq(fake->capture_end(stream), 2);
    fake->stream_free(stream);
    fake->context_free(context);
}
END_TEST

START_TEST(test_parts__a_driver_without_pools)
{
    kiln_close(service);
    fake->hide("cuMemAllocFromPoolAsync");
    kiln_options options = kiln_test_gpu_options();
    service = kiln_test_open(&options);
    ck_assert_int_eq(loss_on_gpu(NULL), KILN_ENODRIVER);
    ck_assert_ptr_nonnull(strstr(report.message, "the driver has no memory pools"));
}
END_TEST

Suite *kiln_test_service_parts_suite(void)
{
    Suite *suite = suite_create("parts");
    TCase *tcase = tcase_create("parts"), *gpu = tcase_create("gpu");
    tcase_add_checked_fixture(tcase, open_cpu, close_service);
    tcase_add_test(tcase, test_parts__rows_have_one_total);
    tcase_add_test(tcase, test_parts__inputs_broadcast);
    tcase_add_test(tcase, test_parts__results_of_rows_keep_their_bits);
    tcase_add_test(tcase, test_parts__results_of_rows_have_their_own_type);
    tcase_add_test(tcase, test_parts__no_rows_and_no_elements);
    tcase_add_test(tcase, test_parts__have_texts);
    tcase_add_test(tcase, test_parts__outputs);
    tcase_add_test(tcase, test_parts__refusals);
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(gpu, open_gpu, close_service);
    tcase_add_test(gpu, test_parts__are_two_launches_with_memory);
    tcase_add_test(gpu, test_parts__of_elements_are_one_kernel);
    tcase_add_test(gpu, test_parts__failures_leave_no_memory);
    tcase_add_test(gpu, test_parts__join_a_capture);
    tcase_add_test(gpu, test_parts__a_driver_without_pools);
    suite_add_tcase(suite, gpu);
    return suite;
}
