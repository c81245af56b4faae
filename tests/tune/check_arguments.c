/* Tuning, sweeping and checking templates with arguments of their own: on the cpu, and on the stand-in driver, which
 * computes relu6 for every kernel of three parameters. */
#include "service/service.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/requesting.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include "support/temp.h"
#include "tune/workload.h"
#include <kiln/tune.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* Variants: the default, block=64 and block=128. */
#define HEAD(name)                                                                                         \
    "//! template " name "\n//! param block 32..1024 step 32 = 32\n//! tune block 64,128\n//! entry " name \
    " align 4\n//! grid (n + block - 1) / block\n//! size n\n"
#define TWIN                                                                                                     \
    "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n" \
    "                                                     void *const *args);\n"                                 \
    "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)\n{\n"
#define EACH "for (unsigned long long i = begin * KILN_BLOCK; i < end * KILN_BLOCK && i < n; i++) "

enum { N = 70001 };

static kiln_service *service;
static kiln_tuning *tuning;
static kiln_report report = KILN_INIT(kiln_report);

static void open_service(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
}

static void close_service(void)
{
    kiln_tuning_free(tuning);
    tuning = NULL;
    kiln_report_clear(&report);
    kiln_close(service);
}

static void define(const char *text, const char *twin)
{
    kiln_status status = kiln_template_define(service, text, twin, NULL, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
}

static kiln_work works[8], *work; /* of the latest options; the last of them */

static kiln_tune_options small(const uint64_t *sizes, size_t count)
{
    static unsigned made;
    kiln_tune_options options = KILN_INIT(kiln_tune_options);
    work = &works[made++ % COUNT(works)];
    *work = (kiln_work)KILN_INIT(kiln_work);
    options.work = work;
    options.budget_s = 30;
    options.tolerance = 1; /* which is the fastest is not the question here */
    work->hot = 1;
    work->sizes = sizes;
    work->size_count = count;
    return options;
}

static kiln_status tune(const char *text, const kiln_tune_options *options)
{
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln_tuning_free(tuning);
    kiln_status status = kiln_tune(&tuning, service, spec, options, &report);
    kiln_spec_free(spec);
    return status;
}

static kiln_tuning_info must_tune(const char *text, const kiln_tune_options *options)
{
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_status status = tune(text, options);
    ck_assert_msg(status == KILN_OK, "%s: %s", kiln_status_name(status), report.message);
    ck_assert_int_eq(kiln_tuning_get_info(tuning, &info), KILN_OK);
    return info;
}

static void refuse(const char *text, const kiln_tune_options *options, kiln_status status, const char *words)
{
    kiln_status got = tune(text, options);
    ck_assert_msg(got == status, "%s: %s", kiln_status_name(got), report.message);
    ck_assert_msg(strstr(report.message, words) != NULL, "'%s' is not in: %s", words, report.message);
}

/* The result whose spec has a field. */
static kiln_variant_result result_with(const char *field)
{
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    ck_assert_int_eq(kiln_tuning_get_info(tuning, &info), KILN_OK);
    for (size_t i = 0; i < info.result_count; i++)
        if (strstr(info.results[i]->spec, field) != NULL)
            return *info.results[i];
    ck_abort_msg("no variant has %s", field);
}

static void load_transpose(void)
{
    char path[1024];
    const char *directory = getenv("KILN_EXAMPLE_TEMPLATES");
    ck_assert_msg(directory != NULL, "KILN_EXAMPLE_TEMPLATES must name docs/examples/templates");
    snprintf(path, sizeof(path), "%s/transpose.cu", directory);
    ck_assert_int_eq(kiln_template_load(service, path, NULL, &report), KILN_OK);
}

/* ---- On the cpu */

START_TEST(test_arguments__a_transpose_is_tuned)
{
    const uint64_t sizes[] = { 301, 420 };
    kiln_tune_options options = small(sizes, 2);
    load_transpose();
    kiln_tuning_info info = must_tune("template=transpose dtype=f32 target=cpu", &options);
    ck_assert_uint_eq(info.elements, 301 * 420);
    ck_assert_uint_eq(info.bytes, 2 * 4 * 301 * 420);
    ck_assert_uint_eq(info.variants, 8);
    ck_assert_uint_eq(info.rejected, 0);
    ck_assert_str_eq(info.verified_by, "the default variant");
}
END_TEST

static const char axpy[] = HEAD("axpy") "//! arg y inout f32[n]\n//! arg x in f32[n]\n//! arg alpha float\n"
                                        "//! arg n uint64 = n\n//! traffic 3 * n * 4 + 5\n";

/* A launch after another would find what that has made. */
START_TEST(test_arguments__what_is_read_and_written_is_restored)
{
    const uint64_t n = N;
    const float alpha = 0.5f;
    const kiln_arg args[] = { KILN_ARRAY(NULL, 0), KILN_ARRAY(NULL, 0), KILN_VALUE(alpha) };
    kiln_tune_options options = small(&n, 1);
    work->args = args;
    work->arg_count = 3;
    define(axpy,
           TWIN "    float *y = *(float *const *)args[0], *x = *(float *const *)args[1];\n"
                "    float a = *(float *)args[2];\n    unsigned long long n = *(unsigned long long *)args[3];\n" EACH
                "y[i] = a * x[i] + y[i];\n}\n");
    kiln_tuning_info info = must_tune("template=axpy target=cpu", &options);
    ck_assert_uint_eq(info.rejected, 0);
    ck_assert_uint_eq(info.variants, 3);
    ck_assert_uint_eq(info.bytes, 3 * N * 4 + 5);
    work->arg_count = 0;
    refuse("template=axpy target=cpu", &options, KILN_EINVAL, "argument alpha is a number of type f32");
}
END_TEST

#define COPYING HEAD("copying") "//! arg out out f32[n]\n//! arg x in f32[n]\n//! arg n uint64 = n\n"
#define COPYING_TWIN                                                                   \
    TWIN "    float *out = *(float *const *)args[0], *x = *(float *const *)args[1];\n" \
         "    unsigned long long n = *(unsigned long long *)args[2];\n"

static int note_record(void *data, const kiln_wisdom_record *record)
{
    if (strcmp(record->template_name, "copying") == 0) {
        ck_assert_str_eq(record->op_class, "1 in, 1 out, light");
        ck_assert_str_eq(record->op, "none");
        ck_assert_uint_eq(record->log2_n, 16);
        snprintf(data, 64, "%s", record->geometry);
    }
    return 0;
}

START_TEST(test_arguments__what_is_found_is_learnt_and_taken)
{
    const uint64_t n = N;
    char geometry[64] = "", wanted[128];
    kiln_tune_options options = small(&n, 1);
    work->hot = 0;
    options.budget_s = 120;
    define(COPYING,
           COPYING_TWIN EACH "{ out[i] = x[i]; if (KILN_BLOCK == 32) for (volatile int k = 0; k < 40;) k++; }\n}\n");
    kiln_tuning_info info = must_tune("template=copying target=cpu", &options);
    for (int again = 0; again < 5 && info.wisdom[0] == '\0';
         again++) /* a busy machine may disturb what is measured too often */
        info = must_tune("template=copying target=cpu", &options);
    ck_assert_msg(info.wisdom[0] != '\0', "%s", info.not_learnt);
    ck_assert_int_eq(kiln_wisdom_visit(service, note_record, geometry), KILN_OK);
    ck_assert_msg(strcmp(geometry, "block=64") == 0 || strcmp(geometry, "block=128") == 0, "%s", geometry);
    kiln_kernel *kernel = kiln_test_get(service, "template=copying target=cpu n=70001");
    kiln_kernel_info got = KILN_INIT(kiln_kernel_info);
    kiln_kernel_get_info(kernel, &got);
    snprintf(wanted, sizeof(wanted), "template=copying dtype=f32 %s target=cpu", geometry);
    ck_assert_str_eq(got.spec, wanted);
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_arguments__wrong_variants_are_out)
{
    const uint64_t n = N;
    kiln_tune_options options = small(&n, 1);
    define(COPYING, COPYING_TWIN EACH "out[i] = KILN_BLOCK == 64 && i == 70000 ? 1 : x[i];\n"
                                      "    if (KILN_BLOCK == 128 && begin == 0) out[n] = 1;\n}\n");
    kiln_tuning_info info = must_tune("template=copying target=cpu", &options);
    ck_assert_uint_eq(info.rejected, 2);
    kiln_variant_result result = result_with("block=64");
    ck_assert_str_eq(result.problem, "1 of 70001 elements are wrong, the first is 70000");
    result = result_with("block=128");
    ck_assert_str_eq(result.problem, "writes behind the output");
    result = result_with("block=32");
    ck_assert_int_eq(result.verdict, KILN_VERDICT_WINNER);
}
END_TEST

START_TEST(test_arguments__what_is_not_written_is_no_result)
{
    const uint64_t n = N;
    kiln_tune_options options = small(&n, 1);
    define(COPYING, COPYING_TWIN EACH "if (i != 17) out[i] = x[i];\n}\n");
    refuse("template=copying target=cpu", &options, KILN_EMISMATCH,
           "or leaves elements as they were: 1 elements differ, the first is 17");
}
END_TEST

START_TEST(test_arguments__other_shapes_are_not_compared)
{
    const uint64_t n = N;
    kiln_tune_options options = small(&n, 1);
    define(HEAD("sums") "//! arg out out f32[(n + block - 1) / block]\n//! arg x in f32[n]\n//! arg n uint64 = n\n",
           COPYING_TWIN "    for (; begin < end; begin++) out[begin] = x[begin * KILN_BLOCK] + (float)(n - n);\n}\n");
    kiln_tuning_info info = must_tune("template=sums target=cpu", &options);
    ck_assert_uint_eq(info.rejected, 2);
    ck_assert_str_eq(result_with("block=64").problem, "argument out has another shape, so that it cannot be compared");
}
END_TEST

/* Bits that are NaN for a float are not the same for whole numbers; and random ones are indices. */
START_TEST(test_arguments__whole_numbers_are_compared_as_such)
{
    const uint64_t sizes[] = { N, 900 };
    kiln_tune_options options = small(sizes, 2);
    define(HEAD("gather") "//! size table\n//! arg out out uint32[n]\n//! arg index in int32[n]\n"
                          "//! arg values in f32[table]\n//! arg n uint64 = n\n",
           TWIN "    unsigned *out = *(unsigned *const *)args[0];\n    const int *index = *(int *const *)args[1];\n"
                "    const float *values = *(float *const *)args[2];\n"
                "    unsigned long long n = *(unsigned long long *)args[3];\n" EACH
                "out[i] = values[index[i]] > 0 ? 0x7fc00001u : KILN_BLOCK == 64 ? 0x7fc00002u : 0x7fc00003u;\n}\n");
    kiln_tuning_info info = must_tune("template=gather target=cpu", &options);
    ck_assert_uint_eq(info.elements, N);
    ck_assert_uint_eq(info.rejected, 1);
    ck_assert_ptr_nonnull(strstr(result_with("block=64").problem, "elements are wrong, the first is"));
    ck_assert_int_ne(result_with("block=128").verdict, KILN_VERDICT_REJECTED);
}
END_TEST

START_TEST(test_arguments__wrong_sizes_are_named)
{
    const uint64_t sizes[] = { 0, 420 }, huge[] = { UINT64_C(1) << 40, UINT64_C(1) << 40 };
    kiln_tune_options one = small(sizes, 1);
    kiln_work *of_one = work;
    kiln_tune_options empty = small(sizes, 2), none = small(NULL, 0);
    kiln_work *of_none = work;
    kiln_tune_options large = small(huge, 2);
    const char *spec = "template=transpose dtype=f32 target=cpu";
    load_transpose();
    refuse(spec, &none, KILN_EINVAL, "the kernel has 2 sizes (rows, cols), and 0 are given");
    refuse(spec, &one, KILN_EINVAL, "the kernel has 2 sizes (rows, cols), and 1 are given");
    refuse(spec, &empty, KILN_EINVAL, "argument out has no elements with these sizes");
    refuse(spec, &large, KILN_EINVAL, "larger than any memory");
    of_none->elements = 1000;
    refuse(spec, &none, KILN_EINVAL, "name its sizes (rows, cols)");
    refuse("op=relu6 dtype=f32 target=cpu", &empty, KILN_EINVAL, "the kernel has 1 size (n), and 2 are given");
    of_one->elements = 1000;
    refuse("op=relu6 dtype=f32 target=cpu", &one, KILN_EINVAL, "elements and sizes are given");
    work->sizes = (const uint64_t[]){ UINT64_C(1) << 25, UINT64_C(1) << 25 };
    if (!KILN_TEST_SANITIZED) /* whose allocators end a process that asks for so much */
        refuse(spec, &large, KILN_ENOMEM, "has no room: 2 arrays");
}
END_TEST

/* A host built against an older header passes a shorter struct. */
START_TEST(test_arguments__older_options_do)
{
    kiln_tune_options options = small(NULL, 0);
    work->elements = 5000;
    memset((char *)&options + offsetof(kiln_tune_options, skip), 0xff,
           sizeof(options) - offsetof(kiln_tune_options, skip));
    options.size = offsetof(kiln_tune_options, skip);
    memset((char *)work + offsetof(kiln_work, device), 0xff, sizeof(*work) - offsetof(kiln_work, device));
    work->size = offsetof(kiln_work, device);
    kiln_tuning_info info = must_tune("op=relu6 dtype=f32 elems=8 block=64 target=cpu", &options);
    ck_assert_str_eq(info.verified_by, "the cpu backend");
}
END_TEST

START_TEST(test_arguments__a_sweep_measures_them_beside_copies)
{
    static const char *const specs[] = { "template=transpose dtype=f64 target=cpu",
                                         "template=transpose dtype=f64 tile=8 height=4 target=cpu",
                                         "template=transpose dtype=f64 tile=16 height=4 target=cpu" };
    const uint64_t sizes[] = { 200, 333 };
    kiln_sweep_options options = KILN_INIT(kiln_sweep_options);
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_spec *parsed[COUNT(specs)];
    options.work = small(NULL, 0).work;
    options.rounds = 4;
    load_transpose();
    for (size_t i = 0; i < COUNT(specs); i++)
        parsed[i] = kiln_test_spec(service, specs[i]);
    const kiln_spec *const *list = (const kiln_spec *const *)parsed;
    ck_assert_int_eq(kiln_sweep(&tuning, service, list, COUNT(specs), &options, &report), KILN_EINVAL);
    options.work = small(sizes, 2).work;
    kiln_status status = kiln_sweep(&tuning, service, list, COUNT(specs), &options, &report);
    for (size_t i = 0; i < COUNT(specs); i++)
        kiln_spec_free(parsed[i]);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    ck_assert_int_eq(kiln_tuning_get_info(tuning, &info), KILN_OK);
    ck_assert(info.elements == 200 * 333 && info.bytes == 2 * 8 * 200 * 333 && info.rejected == 0 && info.rounds == 4);
    ck_assert_double_gt(info.ceiling_ms, 0);
    ck_assert_double_gt(result_with("tile=8").median_ms, 0);
}
END_TEST

START_TEST(test_arguments__hosts_measure_on_the_same_arrays)
{
    const uint64_t sizes[] = { 65, 33 };
    kiln_workload *workload;
    kiln_workload_info info = KILN_INIT(kiln_workload_info);
    kiln_verification found = KILN_INIT(kiln_verification);
    load_transpose();
    kiln_kernel *kernel = kiln_test_get(service, "template=transpose dtype=f32 target=cpu");
    kiln_kernel *plain = kiln_test_get(service, "op=relu6 dtype=f32 target=cpu");
    const kiln_work *two = small(sizes, 2).work, *one = small(sizes, 1).work;
    ck_assert_int_eq(kiln_workload_make(&workload, service, plain, two, &report), KILN_EINVAL);
    ck_assert_int_eq(kiln_workload_make(&workload, service, kernel, one, &report), KILN_EINVAL);
    ck_assert_int_eq(kiln_workload_make(&workload, service, kernel, NULL, &report), KILN_EINVAL);
    ck_assert_ptr_null(workload);
    ck_assert_int_eq(kiln_workload_make(&workload, service, kernel, two, &report), KILN_OK);
    ck_assert_int_eq(kiln_workload_get_info(workload, &info), KILN_OK);
    ck_assert(info.elements == 65 * 33 && info.bytes == 2 * 4 * 65 * 33 && info.arg_count == 2 && info.size_count == 2);
    ck_assert_int_eq(kiln_verify(&found, service, kernel, NULL, info.sizes, 2, info.args, 2, NULL, &report), KILN_OK);
    ck_assert_str_eq(found.against, "a second launch");
    ck_assert(found.compared == 65 * 33 && found.wrong == 0);
    ck_assert_int_eq(kiln_workload_reset(workload, &report), KILN_OK);
    const float *out = info.args[0].data, *x = info.args[1].data;
    ck_assert_int_eq(((const unsigned char *)out)[0], KILN__FILL_POISON);
    ck_assert_int_eq(kiln_launch(kernel, NULL, info.sizes, 2, info.args, 2, NULL, &report), KILN_OK);
    ck_assert(out[64] == x[64 * 33] && out[65] == x[1] && x[1] != 0);
    ck_assert_int_eq(kiln_workload_reset(workload, &report), KILN_OK);
    ((char *)(uintptr_t)out)[info.args[0].bytes] = 1;
    ck_assert_int_eq(kiln_workload_reset(workload, &report), KILN_EMISMATCH);
    ck_assert_ptr_nonnull(strstr(report.message, "writes behind its output"));
    ck_assert_int_eq(kiln_workload_reset(workload, &report), KILN_OK);
    kiln_workload_free(workload);
    kiln_workload_free(NULL);
    kiln_kernel_release(kernel);
    kiln_kernel_release(plain);
}
END_TEST

START_TEST(test_arguments__specs_say_what_they_want)
{
    const kiln_signature *signature, *again;
    load_transpose();
    kiln_spec *spec = kiln_test_spec(service, "template=transpose dtype=f16"), *plain;
    ck_assert_int_eq(kiln_spec_signature(&signature, spec, NULL), KILN_OK);
    ck_assert_int_eq(kiln_spec_signature(&again, spec, NULL), KILN_OK);
    ck_assert_ptr_eq(signature, again);
    ck_assert_uint_eq(signature->size_count, 2);
    ck_assert_str_eq(signature->sizes[1], "cols");
    ck_assert_uint_eq(signature->param_count, 4);
    const kiln_param *out = signature->params[0];
    ck_assert(out->role == KILN_ROLE_OUT && out->bytes == 2 && out->dims == 2);
    ck_assert_str_eq(out->type, "f16");
    ck_assert_str_eq(out->shape[0], "cols");
    plain = kiln_test_spec(service, "op=mul(add(x,y),z)");
    ck_assert_int_eq(kiln_spec_signature(&signature, plain, NULL), KILN_OK);
    ck_assert_uint_eq(signature->param_count, 5);
    const kiln_param *in = signature->params[3];
    ck_assert(in->role == KILN_ROLE_IN && in->bytes == 4 && in->dims == 1);
    ck_assert_str_eq(in->name, "z");
    ck_assert_uint_eq(signature->size_count, 1);
    ck_assert_str_eq(signature->sizes[0], "n");
    ck_assert_int_eq(kiln_spec_signature(&signature, NULL, NULL), KILN_EINVAL);
    ck_assert_ptr_null(signature);
    ck_assert_int_eq(kiln_spec_signature(NULL, plain, NULL), KILN_EINVAL);
    kiln_spec_free(spec);
    kiln_spec_free(plain);
}
END_TEST

/* A live handle keeps copies of what its tuning works on: the host's are gone when it begins. */
START_TEST(test_arguments__a_live_handle_keeps_the_work_of_its_tuning)
{
    uint64_t n = N;
    float alpha = 0.5f;
    kiln_arg args[] = { KILN_ARRAY(NULL, 0), KILN_ARRAY(NULL, 0), KILN_VALUE(alpha) };
    kiln_live *live;
    kiln_live_options options = KILN_INIT(kiln_live_options);
    kiln_live_info info = KILN_INIT(kiln_live_info);
    kiln_tune_options tune_options = small(&n, 1);
    work->args = args;
    work->arg_count = 3;
    options.tune = &tune_options;
    define(axpy,
           TWIN "    float *y = *(float *const *)args[0], *x = *(float *const *)args[1];\n"
                "    float a = *(float *)args[2];\n    unsigned long long n = *(unsigned long long *)args[3];\n" EACH
                "y[i] = a * x[i] + y[i];\n}\n");
    kiln_spec *spec = kiln_test_spec(service, "template=axpy target=cpu");
    ck_assert_msg(kiln_live_open(&live, service, spec, &options, &report) == KILN_OK, "%s", report.message);
    n = 0;
    memset(args, 0xff, sizeof(args));
    memset(work, 0xff, sizeof(*work));
    memset(&tune_options, 0xff, sizeof(tune_options));
    kiln_status status = kiln_live_wait(live, KILN_LIVE_SETTLED, 120000, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    ck_assert_int_eq(kiln_live_get_info(live, &info), KILN_OK);
    ck_assert_double_gt(info.ratio, 0);
    kiln_live_close(live);
    kiln_spec_free(spec);
}
END_TEST

/* ---- On a GPU */

static const char relu6_cu[] =
    COPYING "extern \"C\" __global__ void copying(float *out, const float *x, unsigned long long n)\n"
            "{ unsigned long long i = blockIdx.x * (unsigned long long)KILN_BLOCK + threadIdx.x;\n"
            "  if (i < n) out[i] = x[i]; }\n";

static bool open_gpu(void)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_close(service);
    const kiln_fake *fake = kiln_fake_open();
    fake->configure("relu6=1");
    service = kiln_test_open(&options);
    kiln_program *program = NULL;
    kiln_spec *spec = kiln_test_spec(service, "op=copy dtype=f32 target=sm_90");
    bool able = kiln_test_build_spec(&program, service, spec, NULL) == KILN_OK;
    kiln_program_release(program);
    kiln_spec_free(spec);
    if (!able)
        printf("   left out: there is no NVRTC\n");
    return able;
}

START_TEST(test_arguments__a_gpu_is_compared_with_the_twin)
{
    const uint64_t n = N;
    kiln_tune_options options = small(&n, 1);
    if (!open_gpu())
        return;
    define(relu6_cu, COPYING_TWIN EACH "out[i] = x[i] > 0 ? x[i] < 6 ? x[i] : 6 : 0;\n}\n");
    kiln_tuning_info info = must_tune("template=copying", &options);
    ck_assert_str_eq(info.verified_by, "the cpu twin");
    ck_assert_uint_eq(info.variants, 3);
    ck_assert_uint_eq(info.rejected, 0);
}
END_TEST

START_TEST(test_arguments__a_gpu_that_computes_something_else_is_refused)
{
    const uint64_t n = N;
    kiln_tune_options options = small(&n, 1);
    if (!open_gpu())
        return;
    define(relu6_cu, COPYING_TWIN EACH "out[i] = x[i];\n}\n");
    refuse("template=copying", &options, KILN_EMISMATCH, "is not equal to the cpu twin");
    ck_assert_ptr_nonnull(strstr(report.message, "elements differ, the first is"));
}
END_TEST

START_TEST(test_arguments__a_gpu_without_a_twin_agrees_with_itself)
{
    const uint64_t n = N;
    kiln_tune_options options = small(&n, 1);
    if (!open_gpu())
        return;
    define(relu6_cu, NULL);
    kiln_tuning_info info = must_tune("template=copying", &options);
    ck_assert_str_eq(info.verified_by, "the default variant");
    ck_assert_uint_eq(info.rejected, 0);
}
END_TEST

Suite *kiln_test_tune_arguments_suite(void)
{
    Suite *suite = suite_create("arguments");
    TCase *tcase = tcase_create("arguments");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, open_service, close_service);
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, test_arguments__a_transpose_is_tuned);
    tcase_add_test(tcase, test_arguments__what_is_found_is_learnt_and_taken);
    tcase_add_test(tcase, test_arguments__what_is_read_and_written_is_restored);
    tcase_add_test(tcase, test_arguments__wrong_variants_are_out);
    tcase_add_test(tcase, test_arguments__what_is_not_written_is_no_result);
    tcase_add_test(tcase, test_arguments__other_shapes_are_not_compared);
    tcase_add_test(tcase, test_arguments__whole_numbers_are_compared_as_such);
    tcase_add_test(tcase, test_arguments__wrong_sizes_are_named);
    tcase_add_test(tcase, test_arguments__older_options_do);
    tcase_add_test(tcase, test_arguments__a_sweep_measures_them_beside_copies);
    tcase_add_test(tcase, test_arguments__hosts_measure_on_the_same_arrays);
    tcase_add_test(tcase, test_arguments__a_live_handle_keeps_the_work_of_its_tuning);
    tcase_add_test(tcase, test_arguments__specs_say_what_they_want);
    tcase_add_test(tcase, test_arguments__a_gpu_is_compared_with_the_twin);
    tcase_add_test(tcase, test_arguments__a_gpu_that_computes_something_else_is_refused);
    tcase_add_test(tcase, test_arguments__a_gpu_without_a_twin_agrees_with_itself);
    suite_add_tcase(suite, tcase);
    return suite;
}
