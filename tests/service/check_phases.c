/* Templates whose launches have scratch memory, and run the kernel once for each phase. */
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kiln.h>
#include <string.h>

static kiln_service *service;
static kiln_report report = KILN_INIT(kiln_report);

/* The sum of n whole numbers: each of eight blocks leaves its own in the scratch memory, and the first adds them. */
static const char total[] = "//! template total\n"
                            "//! dtype i64\n"
                            "//! size n\n"
                            "//! arg out out i64[1]\n"
                            "//! arg x in i64[n]\n"
                            "//! arg n uint64 = n\n"
                            "//! arg partials scratch n > 0 ? 64 : 0\n"
                            "//! arg phase phase\n"
                            "//! phases 2\n"
                            "//! block 32\n"
                            "//! grid 8\n"
                            "//! entry total align 8\n"
                            "extern \"C\" __global__ void total(long long *out, const long long *x,\n"
                            "    unsigned long long n, long long *partials, unsigned phase) {}\n";
static const char total_twin[] =
    "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n"
    "                                                       void *const *args)\n"
    "{\n"
    "    long long *const out = *(long long *const *)args[0], *const partials = *(long long *const *)args[3];\n"
    "    const long long *const x = *(const long long *const *)args[1];\n"
    "    const unsigned long long n = *(const unsigned long long *)args[2];\n"
    "    const unsigned phase = *(const unsigned *)args[4];\n"
    "    for (unsigned long long block = begin; block < end; block++) {\n"
    "        long long sum = 0;\n"
    "        for (unsigned long long i = block; i < n && phase == 0; i += 8)\n"
    "            sum += x[i];\n"
    "        if (phase == 0 && partials)\n"
    "            partials[block] = sum;\n"
    "        for (int i = 0; i < 8 && phase == 1 && partials; i++)\n"
    "            sum += partials[i];\n"
    "        if (phase == 1 && block == 0)\n"
    "            *out = sum;\n"
    "    }\n"
    "}\n";

START_TEST(test_phases__share_memory_of_the_launch)
{
    static long long x[1000];
    const kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_template_define(service, total, total_twin, NULL, &report), KILN_OK);
    kiln_kernel *kernel = kiln_test_get(service, "template=total");
    for (int i = 0; i < 1000; i++)
        x[i] = (long long)i * i - 7;
    for (uint64_t n = 0; n <= 1000; n += n < 20 ? 1 : 245) {
        long long out = -1, want = 0;
        const kiln_arg args[] = { KILN_ARRAY(&out, sizeof(out)), KILN_ARRAY(x, sizeof(x)) };
        ck_assert_msg(kiln_launch(kernel, NULL, &n, 1, args, 2, NULL, &report) == KILN_OK, "%s", report.message);
        for (uint64_t i = 0; i < n; i++)
            want += x[i];
        ck_assert_int_eq(out, want);
    }
    kiln_kernel_release(kernel);
    kiln_close(service);
}
END_TEST

/* ---- On a GPU */

static const kiln_fake *fake;

static void open_gpu(void)
{
    kiln_options options = kiln_test_gpu_options();
    fake = kiln_fake_open();
    service = kiln_test_open(&options);
}

static kiln_status sum_up(uint64_t rows, uint64_t cols, void *stream)
{
    const int64_t shape[] = { (int64_t)rows, (int64_t)cols };
    const kiln_tensor in = { (void *)0x1000000, NULL, KILN_F32, 2, shape, NULL },
                      out = { (void *)0x200000000, NULL, KILN_F32, 1, shape, NULL };
    return kiln_apply(service, "op=sum(x-max(x))", &out, 1, &in, 1, NULL, 0, stream, &report);
}

/* Few long rows: a launch for each of two stages, and one for the results. */
START_TEST(test_phases__are_launches_in_turn)
{
    kiln_fake_live before, after;
    kiln_fake_launch launches[8];
    open_gpu();
    ck_assert_msg(sum_up(1, 1 << 28, NULL) == KILN_OK, "%s", report.message);
    fake->counts(&before);
    const size_t first = fake->launches(NULL, 0);
    ck_assert_msg(sum_up(1, 1 << 28, NULL) == KILN_OK, "%s", report.message);
    fake->counts(&after);
    ck_assert_uint_eq(after.allocations, before.allocations);
    ck_assert_uint_eq(after.bytes, before.bytes);
    ck_assert_uint_eq(fake->launches(NULL, 0), first + 3);
    ck_assert_uint_eq(fake->calls("cuMemAllocFromPoolAsync"), 2);
    ck_assert_uint_eq(fake->calls("cuMemFreeAsync"), 2);
    const size_t count = fake->launches(launches, 8);
    ck_assert_uint_ge(count, 6);
    for (uint64_t phase = 0; phase < 3; phase++) {
        const kiln_fake_launch *launch = &launches[3 + phase];
        ck_assert_uint_eq(launch->parameters[0], 0x200000000);
        ck_assert_uint_eq(launch->parameters[3], 1 << 28);
        ck_assert_uint_ne(launch->parameters[4], 0);
        ck_assert_uint_eq(launch->parameters[4], launches[3].parameters[4]);
        ck_assert_uint_eq(launch->parameters[5], phase);
        ck_assert_uint_eq(launch->grid[0], launches[3].grid[0]);
    }
    kiln_close(service);
}
END_TEST

/* Every get takes the template that suits the length of rows, unless the spec has a parameter that this lacks. */
START_TEST(test_phases__template_follows_the_length_of_rows)
{
    static const struct {
        const char *text, *template;
    } cases[] = {
        { "op=sum(x) dtype=f32 n=1x268435456", "template=split " },
        { "op=softmax dtype=f32 n=1000x100000", "template=cluster " },
        { "op=softmax dtype=f32 n=1000x1000", "template=rows " },
        { "op=sum(x) dtype=f32 n=1x268435456 lanes=256", "template=rows " },
        { "op=sum(x) dtype=f32 n=263x1000000", "template=split " }, /* lengths are rounded: see kiln__fields_size */
        { "op=sum(x) dtype=f32 n=265x1000000", "template=split " },
        { "op=sum(x) dtype=f32 n=1x268435456 template=rows", "template=rows " },
        { "op=sum(x) dtype=f32", "template=rows " },
    };
    open_gpu();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
        kiln_kernel *kernel = kiln_test_get(service, cases[i].text);
        ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
        ck_assert_msg(strstr(info.spec, cases[i].template) != NULL, "%s: %s", cases[i].text, info.spec);
        kiln_kernel_release(kernel);
    }
    kiln_close(service);
}
END_TEST

/* Whatever fails, the memory comes back. */
START_TEST(test_phases__failures_leave_no_memory)
{
    enum { OUT_OF_MEMORY = 2, LAUNCH_FAILED = 719 };
    kiln_fake_live before, after;
    open_gpu();
    ck_assert_msg(sum_up(1, 1 << 28, NULL) == KILN_OK, "%s", report.message);
    fake->counts(&before);
    const size_t first = fake->launches(NULL, 0);
    fake->fail_call("cuMemAllocFromPoolAsync", OUT_OF_MEMORY, 0, 1);
    ck_assert_int_eq(sum_up(1, 1 << 28, NULL), KILN_ELAUNCH);
    ck_assert_ptr_nonnull(strstr(report.message, "cuMemAllocFromPoolAsync"));
    ck_assert_uint_eq(fake->launches(NULL, 0), first);
    fake->fail_call("cuLaunchKernel", 1, 1, 1);
    ck_assert_int_eq(sum_up(1, 1 << 28, NULL), KILN_ELAUNCH);
    ck_assert_ptr_nonnull(strstr(report.message, "cuLaunchKernel"));
    fake->fail_call("cuMemFreeAsync", 1, 0, 1);
    ck_assert_int_eq(sum_up(1, 1 << 28, NULL), KILN_ELAUNCH);
    ck_assert_ptr_nonnull(strstr(report.message, "cuMemFreeAsync"));
    fake->counts(&after);
    ck_assert_uint_eq(after.allocations, before.allocations + 1); /* which the driver has not taken back */
    kiln_close(service);
}
END_TEST

/* Without pools kiln_apply takes a template that needs none, and one that is named says what is missing. */
START_TEST(test_phases__a_driver_without_pools)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_spec *spec;
    kiln_kernel *kernel;
    fake = kiln_fake_open();
    fake->hide("cuMemAllocFromPoolAsync");
    service = kiln_test_open(&options);
    ck_assert_msg(sum_up(1, 1 << 28, NULL) == KILN_OK, "%s", report.message);
    ck_assert_uint_eq(fake->launches(NULL, 0), 1);
    ck_assert_int_eq(kiln_spec_parse(&spec, service, "op=sum(x) template=split dtype=f32", &report), KILN_OK);
    ck_assert_int_eq(kiln_get_kernel(&kernel, service, spec, &report), KILN_ENODRIVER);
    ck_assert_ptr_nonnull(strstr(report.message, "the driver has no memory pools"));
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

Suite *kiln_test_service_phases_suite(void)
{
    Suite *suite = suite_create("phases");
    TCase *tcase = tcase_create("phases");
    tcase_add_test(tcase, test_phases__share_memory_of_the_launch);
    tcase_add_test(tcase, test_phases__are_launches_in_turn);
    tcase_add_test(tcase, test_phases__template_follows_the_length_of_rows);
    tcase_add_test(tcase, test_phases__failures_leave_no_memory);
    tcase_add_test(tcase, test_phases__a_driver_without_pools);
    suite_add_tcase(suite, tcase);
    return suite;
}
