/* Arrays, their values, and the proof that kernels compute what they should, on the cpu. */
#include "support/fields.h"
#include "support/harness.h"
#include "support/suites.h"
#include "support/temp.h"
#include "tune/verify.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = KILN__FILL_PERIOD + 5003 };

static kiln_service *service;
static kiln_device *device;
static kiln__arrays arrays;
static kiln__proof proof;
static kiln_report report = KILN_INIT(kiln_report);

static void open_service(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_device_open(&device, service, "cpu", &report), KILN_OK);
}

static void close_all(void)
{
    kiln__proof_fini(&proof);
    kiln__arrays_fini(&arrays);
    kiln_report_clear(&report);
    kiln_close(service);
}

static kiln__fields resolve(const char *text)
{
    kiln__fields spec, full;
    kiln__target cpu = kiln__reference_target;
    ck_assert_int_eq(kiln_test_fields(&spec, &service->catalog, text, &report), KILN_OK);
    ck_assert_int_eq(kiln__spec_resolve(&full, &spec, &cpu, &report), KILN_OK);
    return full;
}

static kiln_status make_arrays_of(const kiln__fields *full, uint64_t n, bool hot)
{
    kiln__load load;
    bool flat = kiln__arguments_flat(&full->template->arguments);
    const kiln_work work = { .elements = flat ? n : 0, .sizes = &n, .size_count = flat ? 0 : 1 };
    kiln_status status = kiln__load_of_spec(&load, full, &work, &report);
    return status == KILN_OK ? kiln__arrays_init(&arrays, device, &load, hot, &report) : status;
}

static kiln_status make_arrays(const char *text, uint64_t n, bool hot)
{
    kiln__fields full = resolve(text);
    return make_arrays_of(&full, n, hot);
}

/* Arrays of n elements and the reference for a spec. */
static kiln_status prove(const char *text, uint64_t n)
{
    kiln__fields full = resolve(text);
    ck_assert_int_eq(make_arrays_of(&full, n, true), KILN_OK);
    return kiln__proof_init(&proof, service, &full, &arrays, NULL, &report);
}

static kiln__verdict check(kiln_kernel *kernel)
{
    kiln__verdict verdict;
    kiln_status status = kiln__proof_check(&proof, kernel, &verdict, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    return verdict;
}

START_TEST(test_proof__values_look_like_data)
{
    float *x;
    int above_three = 0, below_minus_three = 0, within_one = 0;
    open_service();
    ck_assert_int_eq(make_arrays("op=add dtype=f32", N, true), KILN_OK);
    x = kiln__arrays_in(&arrays, 0, 1);
    for (int i = 0; i < N; i++) {
        ck_assert(fabsf(x[i]) >= 1.0f / 64 && fabsf(x[i]) < 8);
        above_three += x[i] > 3;
        below_minus_three += x[i] < -3;
        within_one += fabsf(x[i]) < 1;
    }
    ck_assert_int_gt(above_three, N / 20);
    ck_assert_int_gt(below_minus_three, N / 20);
    ck_assert_int_gt(within_one, N / 2);
    ck_assert_mem_eq(x, x + KILN__FILL_PERIOD, (N - KILN__FILL_PERIOD) * sizeof(*x));
    ck_assert_mem_ne(x, x + 4096, 64);
    ck_assert_mem_ne(x, kiln__arrays_in(&arrays, 0, 2), 64);
    close_all();
}
END_TEST

START_TEST(test_proof__sets_outgrow_the_caches)
{
    kiln_device_info info = KILN_INIT(kiln_device_info);
    open_service();
    ck_assert_int_eq(kiln_device_get_info(device, &info), KILN_OK);
    ck_assert_int_eq(make_arrays("op=relu6 dtype=f16", 65536, false), KILN_OK);
    ck_assert(arrays.sets == 64 || arrays.sets * UINT64_C(65536) * 2 * 2 > 3 * info.l2_bytes);
    ck_assert_mem_eq(kiln__arrays_in(&arrays, 0, 1), kiln__arrays_in(&arrays, arrays.sets - 1, 1), 65536 * 2);
    ck_assert_ptr_ne(kiln__arrays_in(&arrays, 0, 0), kiln__arrays_in(&arrays, arrays.sets - 1, 0));
    close_all();
    open_service();
    ck_assert_int_eq(make_arrays("op=mul(add(x,y),z) dtype=f64", UINT64_C(1) << 60, false), KILN_ENOMEM);
    ck_assert_ptr_nonnull(strstr(report.message, "no room"));
    close_all();
}
END_TEST

/* A device with caches of 128 KiB, and with as much memory and room as the test says. */
static const kiln__backend_vtable *real_cpu;
static uint64_t memory_bytes, most_bytes;

static void small_caches(const kiln_device *on, kiln_device_info *out)
{
    real_cpu->device_info(on, out);
    out->l2_bytes = 128 << 10;
    out->memory_bytes = memory_bytes;
}

static uint64_t little_is_free(kiln_device *on)
{
    (void)on;
    return 1 << 20;
}

static kiln_status alloc_little(kiln_device *on, void **out, size_t bytes, kiln_report *why)
{
    if (bytes > most_bytes)
        return kiln__fail(why, KILN_ENOMEM, KILN__STAGE_DEVICE, 0, "there is no more");
    return real_cpu->alloc(on, out, bytes, why);
}

/* Two arrays of 512 KiB, a launch that reads and writes so many KiB of them, and the sets that this takes. */
static const struct {
    bool changes;
    unsigned traffic_kib, memory_mib, most_mib, sets;
} loads[] = {
    { false, 1024, 1024, 1024, 1 }, /* all: one set is larger than the caches, and each launch sweeps them */
    { false, 64, 1024, 1024, 7 },   /* a sixteenth: what is touched of six others is three times the caches */
    { false, 2, 1024, 1024, 64 },   /* and no more than 64 */
    { false, 8192, 1024, 1024, 1 }, /* much is read again and again */
    { false, 0, 1024, 1024, 1 },    /* nobody knows */
    { true, 1536, 1024, 1024, 1 },  /* all, of one array twice */
    { true, 128, 1024, 1024, 7 },   /* 64 KiB, each byte twice */
    { true, 1152, 1024, 1024, 1 },  /* 512 KiB twice, and 128 once */
    { false, 64, 17, 1024, 2 },     /* as many as an eighth of the memory holds, a little over 1 MiB each */
    { false, 64, 8, 1024, 1 },      /* and one in any case */
    { false, 64, 1024, 6, 1 },      /* or what there is room for */
};

START_TEST(test_proof__sets_go_by_what_is_touched)
{
    kiln__load load = { .count = 2, .elements = 1 << 17, .least = 1 << 17 };
    kiln__backend_vtable small;
    open_service();
    load.changes = loads[_i].changes;
    load.arrays[0] = (kiln__array){ "y", KILN__DTYPE_F32, 4, load.changes, true, 1 << 17, false };
    load.arrays[1] = (kiln__array){ "x", KILN__DTYPE_F32, 4, true, false, 1 << 17, false };
    load.bytes = (uint64_t)loads[_i].traffic_kib << 10;
    memory_bytes = (uint64_t)loads[_i].memory_mib << 20;
    most_bytes = (uint64_t)loads[_i].most_mib << 20;
    real_cpu = device->backend->vtable;
    small = *real_cpu;
    small.device_info = small_caches;
    small.alloc = alloc_little;
    device->backend->vtable = &small;
    ck_assert_msg(kiln__arrays_init(&arrays, device, &load, false, &report) == KILN_OK, "%s", report.message);
    ck_assert_uint_eq(arrays.sets, loads[_i].sets);
    ck_assert_int_eq(report.status, KILN_OK);
    kiln__arrays_fini(&arrays);
    ck_assert_int_eq(kiln__arrays_init(&arrays, device, &load, true, &report), KILN_OK);
    ck_assert_uint_eq(arrays.sets, 1);
    kiln__arrays_fini(&arrays);
    small.free_memory = little_is_free; /* one set takes a little more */
    most_bytes = 0;                     /* and nothing is asked for */
    ck_assert_int_eq(kiln__arrays_init(&arrays, device, &load, false, &report), KILN_ENOMEM);
    ck_assert_ptr_nonnull(strstr(report.message, "take 2 MiB, and 1 MiB are free"));
    device->backend->vtable = real_cpu;
    close_all();
}
END_TEST

static const kiln__backend_vtable *without;
static int waits;

static kiln_status count_waits(kiln_device *on, kiln_report *why)
{
    waits++;
    return without->sync(on, why);
}

/* What is read and written, whole numbers and what is only read, in several sets. */
START_TEST(test_proof__values_come_back_with_one_wait)
{
    kiln__load load = { .count = 3, .elements = N, .changes = true, .least = 100 };
    kiln__backend_vtable counting;
    open_service();
    load.arrays[0] = (kiln__array){ "x", KILN__DTYPE_F32, 4, true, true, N, false };
    load.arrays[1] = (kiln__array){ "at", KILN__DTYPE_I32, 4, true, true, 5000, true };
    load.arrays[2] = (kiln__array){ "in", KILN__DTYPE_F32, 4, true, false, 5000, false };
    load.bytes = 2 * UINT64_C(4) * N + 3 * 4 * 5000;
    ck_assert_int_eq(kiln__arrays_init(&arrays, device, &load, false, &report), KILN_OK);
    for (uint32_t set = 0; set < arrays.sets; set++)
        for (uint32_t i = 0; i < 3; i++)
            memset(kiln__arrays_in(&arrays, set, i), 0x11, kiln__arrays_bytes(&arrays, i));
    without = device->backend->vtable;
    counting = *without;
    counting.sync = count_waits;
    device->backend->vtable = &counting;
    for (int all = 0; all < 2; all++) {
        const unsigned char *last = kiln__arrays_in(&arrays, arrays.sets - 1, 2);
        waits = 0;
        ck_assert_int_eq(kiln__arrays_restore(&arrays, all, &report), KILN_OK);
        ck_assert_int_eq(waits, 1);
        ck_assert_int_eq(last[0] == 0x11 && memcmp(last, last + 1, 100) == 0, !all);
    }
    device->backend->vtable = without;
    for (uint32_t set = 0; set < arrays.sets; set++) {
        const float *x = kiln__arrays_in(&arrays, set, 0);
        const int *at = kiln__arrays_in(&arrays, set, 1);
        ck_assert_mem_eq(x, arrays.values, KILN__FILL_PERIOD * sizeof(*x));
        ck_assert_mem_eq(x, x + KILN__FILL_PERIOD, (N - KILN__FILL_PERIOD) * sizeof(*x));
        for (int i = 0; i < 5000; i++)
            ck_assert(at[i] >= 0 && at[i] < 100);
    }
    close_all();
}
END_TEST

START_TEST(test_proof__right_kernels_pass)
{
    static const char *const dtypes[] = { "f32", "f64", "f16", "bf16" };
    static const char *const geometries[] = { "", "block=32 elems=1 vector=1", "block=96 elems=6", "cache=plain" };
    open_service();
    for (int i = 0; i < 4; i++) {
        char text[128];
        snprintf(text, sizeof(text), "op=hardsigmoid(add(x,y)) dtype=%s target=cpu %s", dtypes[_i], geometries[i]);
        if (i == 0)
            ck_assert_msg(prove(text, N) == KILN_OK, "%s", report.message);
        kiln_kernel *kernel = kiln_test_get(service, text);
        kiln__verdict verdict = check(kernel);
        ck_assert_uint_eq(verdict.wrong, 0);
        ck_assert(!verdict.overrun);
        kiln_kernel_release(kernel);
    }
    close_all();
}
END_TEST

START_TEST(test_proof__another_op_does_not_pass)
{
    open_service();
    ck_assert_int_eq(prove("op=hardtanh(-1,1) dtype=f32 target=cpu", 5000), KILN_OK);
    kiln_kernel *kernel = kiln_test_get(service, "op=hardtanh(-1,1.5) dtype=f32 target=cpu");
    const float *x = kiln__arrays_in(&arrays, 0, 1);
    uint64_t wrong = 0, first = UINT64_MAX;
    for (uint64_t i = 0; i < 5000; i++)
        if (x[i] > 1) {
            first = first == UINT64_MAX ? i : first;
            wrong++;
        }
    kiln__verdict verdict = check(kernel);
    ck_assert_uint_eq(verdict.wrong, wrong);
    ck_assert_uint_eq(verdict.first, first);
    kiln_kernel_release(kernel);
    close_all();
}
END_TEST

/* Kernels that go wrong in other ways: the right one, and then something else. */
static kiln_kernel *right;
static enum { FORGETS_THE_LAST, WRITES_BEHIND, TOUCHES_NOTHING, SHIFTS_A_TILE } fault;

/* The parameters are out, x and n. */
static kiln_status launch_wrong(kiln__module *module, uint32_t entry, const uint32_t grid[3], void **args, void *stream,
                                kiln_report *why)
{
    float *out = *(float **)args[0];
    uint64_t n = *(const uint64_t *)args[2], fewer = n - 1, some = 4096;
    const float *shifted = *(const float **)args[1] + 4096;
    void *forgetful[] = { &out, args[1], &fewer }, *shifting[] = { &out, &shifted, &some };
    const uint32_t few[3] = { (uint32_t)((some + right->program->rule.tile - 1) / right->program->rule.tile), 1, 1 };
    if (fault == TOUCHES_NOTHING)
        return KILN_OK;
    if (fault == WRITES_BEHIND)
        out[n] = 1;
    kiln_status status =
        right->vtable->launch(module, entry, grid, fault == FORGETS_THE_LAST ? forgetful : args, stream, why);
    return status == KILN_OK && fault == SHIFTS_A_TILE
               ? right->vtable->launch(module, entry, few, shifting, stream, why)
               : status;
}

START_TEST(test_proof__finds_what_went_wrong)
{
    static const uint64_t wrong[] = { 1, 0, N, 4096 };
    open_service();
    ck_assert_int_eq(prove("op=hardsigmoid_linear(0.05,0.5) dtype=f32 target=cpu", N), KILN_OK);
    right = kiln_test_get(service, "op=hardsigmoid_linear(0.05,0.5) dtype=f32 target=cpu block=64");
    kiln__backend_vtable vtable = *right->vtable;
    kiln_kernel *kernel = kiln_test_get(service, "op=hardsigmoid_linear(0.05,0.5) dtype=f32 target=cpu block=128");
    const kiln__backend_vtable *own = kernel->vtable;
    vtable.launch = launch_wrong;
    kernel->vtable = &vtable;
    fault = _i;
    kiln__verdict verdict = check(kernel);
    if (fault == SHIFTS_A_TILE) /* equal by chance here and there */
        ck_assert(verdict.wrong > 4000 && verdict.wrong <= 4096);
    else
        ck_assert_uint_eq(verdict.wrong, wrong[_i]);
    ck_assert(verdict.overrun == (fault == WRITES_BEHIND));
    kernel->vtable = own;
    verdict = check(kernel);
    ck_assert(verdict.wrong == 0 && !verdict.overrun);
    kiln_kernel_release(kernel);
    kiln_kernel_release(right);
    close_all();
}
END_TEST

/* ---- Tolerances */

/* A block of 96 makes results 4 units larger, one of 64 makes them 3 units larger, and poison as the device's makes
 * them 3 units larger where `drift` is 1. The last byte of x is left out, so that nothing carries. */
#define HEAD(name)                                                                                                   \
    "//! template " name "\n//! param block 32,64,96 = 32\n//! entry " name " align 4\n//! size n\n//! tile block\n" \
    "//! grid (n + tile - 1) / tile\n"
#define ELEMENTWISE "//! arg out out f32[n] inplace\n//! arg x in f32[n]\n//! arg n uint64 = n\n"
#define WHOLE       "//! arg out out f32[max(n, 1)]\n//! arg x in f32[max(n, 1)]\n//! arg n uint64 = n\n"
#define UNITS_TWIN(drift)                                                                                        \
    "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n" \
    "                                                     void *const *args);\n"                                 \
    "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)\n{\n"                    \
    "    const int *x = *(const int *const *)args[1];\n    int *out = *(int *const *)args[0];\n"                 \
    "    const unsigned long long n = *(const unsigned long long *)args[2];\n"                                   \
    "    for (unsigned long long i = begin * KILN_TILE; i < end * KILN_TILE && i < n; i++)\n"                    \
    "        out[i] = (x[i] & ~255) + (KILN_BLOCK == 96 ? 4 : KILN_BLOCK == 64 ? 3 : 0) +\n"                     \
    "                 (" drift " && out[i] < 0 ? 3 : 0);\n}\n"

static void define(const char *text, const char *twin)
{
    kiln_status status = kiln_template_define(service, text, twin, NULL, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
}

/* What a variant of the template computes: so many wrong elements. */
static void expect_wrong(const char *template, int block, uint64_t wrong)
{
    char text[96];
    snprintf(text, sizeof(text), "template=%s target=cpu block=%d", template, block);
    kiln_kernel *kernel = kiln_test_get(service, text);
    kiln__verdict verdict = check(kernel);
    ck_assert_uint_eq(verdict.wrong, wrong);
    ck_assert(!verdict.overrun && (wrong == 0 || verdict.first == 0));
    kiln_kernel_release(kernel);
}

START_TEST(test_proof__variants_agree_within_the_tolerance)
{
    open_service();
    define(HEAD("near") ELEMENTWISE "//! tolerance ulp 3\n", UNITS_TWIN("0"));
    ck_assert_msg(prove("template=near target=cpu", N) == KILN_OK, "%s", report.message);
    expect_wrong("near", 64, 0);
    expect_wrong("near", 96, N);
    ck_assert_str_eq(kiln__excess_of(&proof.comparer.tolerance, false).text, " by more than the tolerance (ulp 3)");
    close_all();
    open_service();
    define(HEAD("near") ELEMENTWISE, UNITS_TWIN("0"));
    ck_assert_msg(prove("template=near target=cpu", N) == KILN_OK, "%s", report.message);
    expect_wrong("near", 32, 0);
    expect_wrong("near", 64, N);
    ck_assert_str_eq(kiln__excess_of(&proof.comparer.tolerance, false).text, "");
    close_all();
}
END_TEST

/* The default is compared with the cpu in other pieces, or with a second launch. */
static const struct {
    const char *arguments, *against, *message;
} references[] = { { ELEMENTWISE, "the cpu twin", "is not equal to the cpu twin: 5003 elements differ" },
                   { WHOLE, "the default variant",
                     "is not equal to itself in a second launch, or leaves elements as "
                     "they were: 5003 elements of out differ" } };

START_TEST(test_proof__the_reference_agrees_within_the_tolerance)
{
    static const struct {
        const char *tolerance, *excess;
    } narrow[] = { { "", ", the first is 0" },
                   { "//! tolerance ulp 2.5\n", " by more than the tolerance (ulp 2.5), the first is 0" },
                   { "//! tolerance absolute 1e-30 relative 1e-9\n",
                     " by more than the tolerance (relative 1e-9 absolute 1e-30), the first is 0" } };
    char text[500], message[300];
    for (int i = 0; i < 3; i++) {
        open_service();
        snprintf(text, sizeof(text), "%s%s%s", HEAD("drifts"), narrow[i].tolerance, references[_i].arguments);
        define(text, UNITS_TWIN("1"));
        ck_assert_int_eq(prove("template=drifts target=cpu", 5003), KILN_EMISMATCH);
        snprintf(message, sizeof(message), "%s%s", references[_i].message, narrow[i].excess);
        ck_assert_msg(strstr(report.message, message) != NULL, "%s", report.message);
        close_all();
    }
    open_service();
    snprintf(text, sizeof(text), "%s//! tolerance ulp 3\n%s", HEAD("drifts"), references[_i].arguments);
    define(text, UNITS_TWIN("1"));
    ck_assert_msg(prove("template=drifts target=cpu", 5003) == KILN_OK, "%s", report.message);
    ck_assert_str_eq(proof.against, references[_i].against);
    expect_wrong("drifts", 32, 0);
    expect_wrong("drifts", 64, 0); /* both drift, so it is 3 units from the default */
    expect_wrong("drifts", 96, 5003);
    close_all();
}
END_TEST

Suite *kiln_test_tune_proof_suite(void)
{
    Suite *suite = suite_create("proof");
    TCase *tcase = tcase_create("proof");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_proof__values_look_like_data);
    tcase_add_test(tcase, test_proof__sets_outgrow_the_caches);
    tcase_add_loop_test(tcase, test_proof__sets_go_by_what_is_touched, 0, sizeof(loads) / sizeof(loads[0]));
    tcase_add_test(tcase, test_proof__values_come_back_with_one_wait);
    tcase_add_loop_test(tcase, test_proof__right_kernels_pass, 0, 4);
    tcase_add_test(tcase, test_proof__another_op_does_not_pass);
    tcase_add_loop_test(tcase, test_proof__finds_what_went_wrong, 0, 4);
    tcase_add_test(tcase, test_proof__variants_agree_within_the_tolerance);
    tcase_add_loop_test(tcase, test_proof__the_reference_agrees_within_the_tolerance, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}
