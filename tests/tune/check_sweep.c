/* Sweeps, the listing of a space and the filling of arrays, through the public API, on the cpu. */
#include "support/suites.h"
#include "support/temp.h"
#include "support/tuning.h"
#include <kiln/kernel.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 100000, ROUNDS = 8, SPECS = 4 };

static const char *const specs[SPECS] = { "op=relu6 dtype=f32 target=cpu", "op=relu6 dtype=f32 block=64 target=cpu",
                                          "op=relu6 dtype=f32 block=128 target=cpu",
                                          "op=relu6 dtype=f32 elems=32 target=cpu" };

static kiln_work work; /* of the options that were made last */

static kiln_sweep_options small(void)
{
    kiln_sweep_options options = KILN_INIT(kiln_sweep_options);
    work = (kiln_work)KILN_INIT(kiln_work);
    work.elements = N;
    work.hot = 1;
    options.work = &work;
    options.rounds = ROUNDS;
    return options;
}

static kiln_status sweep(const kiln_sweep_options *options)
{
    kiln_status status = sweep_texts(&tuning, specs, SPECS, options);
    ck_assert((status == KILN_OK) == (tuning != NULL));
    return status;
}

/* The result whose spec has a field. */
static kiln_variant_result result_with(const char *field)
{
    kiln_variant_result result = result_of(0);
    for (uint64_t i = 0; strstr(result.spec, field) == NULL; i++)
        result = result_of(i);
    return result;
}

START_TEST(test_sweep__everything_is_measured)
{
    kiln_sweep_options options = small();
    work.hot = _i;
    open_service();
    ck_assert_msg(sweep(&options) == KILN_OK, "%s", report.message);
    kiln_tuning_info info = info_of();
    ck_assert_str_eq(info.device, "cpu");
    ck_assert_str_eq(info.end, "complete");
    ck_assert_uint_eq(info.variants, SPECS);
    ck_assert_uint_eq(info.verified, SPECS);
    ck_assert_uint_eq(info.rounds, ROUNDS);
    ck_assert_uint_eq(info.samples, SPECS * (ROUNDS + 1));
    ck_assert_uint_eq(info.bytes, N * 8);
    ck_assert_double_gt(info.ceiling_ms, 0);
    double before = 0;
    for (uint64_t i = 0; i < SPECS; i++) {
        kiln_variant_result result = result_of(i);
        ck_assert_uint_eq(result.samples, ROUNDS);
        ck_assert_double_gt(result.median_ms, 0);
        ck_assert_double_gt(result.ceiling_ratio, 0);
        ck_assert_double_le(result.low, result.ratio);
        ck_assert_double_ge(result.high, result.ratio);
        ck_assert_double_ge(result.ratio, before);
        ck_assert((result.verdict == KILN_VERDICT_WINNER) == (i == 0));
        before = result.ratio;
    }
    kiln_variant_result first = result_with("block=1024 elems=64");
    ck_assert_double_eq(first.ratio, 1);
    ck_assert_double_eq(first.low, 1);
    ck_assert_double_eq(first.high, 1);
    ck_assert_double_eq(first.median_ms, info.default_ms);
    close_service();
}
END_TEST

/* What few samples say has no bounds. */
START_TEST(test_sweep__few_rounds_promise_nothing)
{
    kiln_sweep_options options = small();
    options.rounds = 5;
    open_service();
    ck_assert_int_eq(sweep(&options), KILN_OK);
    kiln_variant_result result = result_with("block=64 ");
    ck_assert_double_gt(result.ratio, 0);
    ck_assert_double_eq(result.low, 0);
    ck_assert(isinf(result.high));
    ck_assert_double_eq(result_with("block=1024 elems=64").high, 1);
    close_service();
}
END_TEST

/* Does all but the last element. The parameters are out, x and n. */
static kiln_status launch_short(kiln__module *module, uint32_t entry, const uint32_t grid[3], void **args, void *stream,
                                kiln_report *why)
{
    uint64_t fewer = *(const uint64_t *)args[2] - 1;
    void *other[] = { args[0], args[1], &fewer };
    return own->launch(module, entry, grid, other, stream, why);
}

START_TEST(test_sweep__a_wrong_variant_is_told_and_not_timed)
{
    kiln_sweep_options options = small();
    open_service();
    kiln_kernel *kernel = kiln_test_get(service, specs[2]);
    own = kernel->vtable;
    kiln__backend_vtable vtable = *own;
    vtable.launch = launch_short;
    kernel->vtable = &vtable;
    ck_assert_int_eq(sweep(&options), KILN_OK);
    kiln_variant_result last = result_of(SPECS - 1);
    ck_assert_ptr_nonnull(strstr(last.spec, "block=128 "));
    ck_assert_int_eq(last.verdict, KILN_VERDICT_REJECTED);
    ck_assert_str_eq(last.problem, "1 of 100000 elements are wrong, the first is 99999");
    ck_assert_uint_eq(last.samples, 0);
    ck_assert_double_eq(last.median_ms, 0);
    ck_assert_uint_eq(result_of(SPECS - 2).samples, ROUNDS);
    ck_assert_uint_eq(info_of().rejected, 1);
    kernel->vtable = own;
    kiln_kernel_release(kernel);
    close_service();
}
END_TEST

/* Takes sixteen times as long. */
static kiln_status launch_often(kiln__module *module, uint32_t entry, const uint32_t grid[3], void **args, void *stream,
                                kiln_report *why)
{
    kiln_status status = KILN_OK;
    for (int i = 0; i < 16 && status == KILN_OK; i++)
        status = own->launch(module, entry, grid, args, stream, why);
    return status;
}

START_TEST(test_sweep__what_is_slower_is_called_so)
{
    kiln_sweep_options options = small();
    options.rounds = 20;
    open_service();
    kiln_kernel *kernel = kiln_test_get(service, specs[2]);
    own = kernel->vtable;
    kiln__backend_vtable vtable = *own;
    vtable.launch = launch_often;
    kernel->vtable = &vtable;
    ck_assert_int_eq(sweep(&options), KILN_OK);
    kiln_variant_result last = result_of(SPECS - 1);
    ck_assert_ptr_nonnull(strstr(last.spec, "block=128 "));
    ck_assert_int_eq(last.verdict, KILN_VERDICT_SLOWER);
    ck_assert_double_gt(last.ratio, 4);
    ck_assert_double_gt(last.low, 2);
    ck_assert_double_gt(last.ceiling_ratio, result_of(0).ceiling_ratio);
    kernel->vtable = own;
    kiln_kernel_release(kernel);
    close_service();
}
END_TEST

static void resources_that_spill(const kiln__module *module, int *registers, int *local_bytes)
{
    (void)module;
    *registers = 255;
    *local_bytes = 16;
}

START_TEST(test_sweep__what_spills_is_measured_too)
{
    kiln_sweep_options options = small();
    open_service();
    kiln_kernel *kernel = kiln_test_get(service, specs[2]);
    own = kernel->vtable;
    kiln__backend_vtable vtable = *own;
    vtable.resources = resources_that_spill;
    kernel->vtable = &vtable;
    ck_assert_int_eq(sweep(&options), KILN_OK);
    kiln_variant_result result = result_with("block=128 ");
    ck_assert_uint_eq(result.samples, ROUNDS);
    ck_assert_int_eq(result.registers, 255);
    ck_assert_int_eq(result.local_bytes, 16);
    kernel->vtable = own;
    kiln_kernel_release(kernel);
    close_service();
}
END_TEST

/* Ends it once as many samples have been taken. */
static int stop_after(void *data, const kiln_tuning_info *info)
{
    return info->samples >= *(uint64_t *)data;
}

START_TEST(test_sweep__ended_early_it_keeps_what_is_known)
{
    uint64_t samples = (uint64_t)_i * 100;
    kiln_sweep_options options = small();
    options.rounds = 100000; /* would take minutes */
    options.progress = stop_after;
    options.data = &samples;
    open_service();
    ck_assert_int_eq(sweep(&options), KILN_OK);
    kiln_tuning_info info = info_of();
    ck_assert_str_eq(info.end, "stopped");
    ck_assert_uint_lt(info.rounds, options.rounds);
    for (uint64_t i = 0; i < SPECS; i++) {
        kiln_variant_result result = result_of(i);
        ck_assert((result.verdict == KILN_VERDICT_UNMEASURED) == (result.samples == 0));
        if (samples == 100)
            ck_assert_uint_ge(result.samples, 10);
    }
    close_service();
}
END_TEST

static int stop_at_once(void *data, const kiln_tuning_info *info)
{
    ck_assert_uint_eq(info->variants, SPECS);
    ++*(int *)data;
    return 1;
}

/* Also while another tuning has the device. */
START_TEST(test_sweep__ended_while_it_waits_for_its_turn_it_knows_nothing)
{
    int calls = 0;
    kiln_sweep_options options = small();
    options.progress = stop_at_once;
    options.data = &calls;
    open_service();
    kiln_device *device = open_cpu();
    atomic_store(&device->tuning, true); /* as if another thread were at it */
    ck_assert_msg(sweep(&options) == KILN_OK, "%s", report.message);
    ck_assert_int_eq(calls, 1);
    ck_assert(atomic_load(&device->tuning));
    ck_assert_str_eq(info_of().end, "stopped");
    ck_assert_uint_eq(info_of().waiting, SPECS);
    for (uint64_t i = 0; i < SPECS; i++)
        ck_assert_int_eq(result_of(i).verdict, KILN_VERDICT_UNMEASURED);
    ck_assert_ptr_nonnull(strstr(result_of(1).spec, "block=64 "));
    close_service();
}
END_TEST

static int freed, freed_late;

static void note_free(kiln_device *device, void *memory)
{
    freed++;
    freed_late += !atomic_load(&device->tuning);
    own->free(device, memory);
}

START_TEST(test_sweep__whose_turn_comes_finds_the_device_empty)
{
    kiln_sweep_options options = small();
    open_service();
    change_cpu()->free = note_free;
    ck_assert_int_eq(sweep(&options), KILN_OK);
    ck_assert_int_ge(freed, 3); /* the arrays, what is right, what differs */
    ck_assert_int_eq(freed_late, 0);
    close_service();
}
END_TEST

START_TEST(test_sweep__leaves_nothing_in_the_record)
{
    char recorded[1024] = "";
    kiln_sweep_options options = small();
    kiln_options recording = kiln_test_options();
    recording.record = kiln_test_temp_path("record");
    service = kiln_test_open(&recording);
    ck_assert_int_eq(sweep(&options), KILN_OK);
    FILE *record = fopen(kiln_test_temp_path("record"), "r");
    ck_assert_msg(record == NULL || fread(recorded, 1, sizeof(recorded) - 1, record) == 0, "%s", recorded);
    if (record != NULL)
        fclose(record);
    close_service();
}
END_TEST

static void expect_refusal(const char *const *texts, size_t count, const kiln_sweep_options *options,
                           kiln_status status, const char *word)
{
    ck_assert_int_eq(sweep_texts(&tuning, texts, count, options), status);
    ck_assert_ptr_null(tuning);
    ck_assert_msg(strstr(report.message, word) != NULL, "%s", report.message);
}

START_TEST(test_sweep__refuses_what_cannot_be_swept)
{
    const char *mixed[] = { specs[0], "op=relu6 dtype=f16 target=cpu" }, *nothing[] = { specs[0], NULL };
    const char *comparing[] = { "template=compare dtype=f32 target=cpu" }, *wrong[] = { "op=relu7" };
    kiln_sweep_options options = small();
    open_service();
    expect_refusal(mixed, 2, &options, KILN_ESPEC, "dtype=f16");
    expect_refusal(nothing, 2, &options, KILN_EINVAL, "NULL");
    expect_refusal(specs, 0, &options, KILN_EINVAL, "no specs");
    expect_refusal(comparing, 1, &options, KILN_EINVAL, "name its sizes (n)");
    expect_refusal(wrong, 1, &options, KILN_EOP, "relu7");
    options.rounds = 100001;
    expect_refusal(specs, SPECS, &options, KILN_EINVAL, "rounds");
    options = small();
    work.elements = UINT64_MAX / 4;
    expect_refusal(specs, SPECS, &options, KILN_ENOMEM, "room");
    options.size = 0;
    expect_refusal(specs, SPECS, &options, KILN_EINVAL, "size");
    close_service();
}
END_TEST

START_TEST(test_sweep__without_work_the_spec_or_the_device_says_how_many_elements)
{
    static const char *const texts[] = { "op=relu6 dtype=f32 n=5000 target=cpu", "op=relu6 dtype=f32 target=cpu" };
    kiln_sweep_options options = KILN_INIT(kiln_sweep_options);
    options.rounds = 1;
    open_service();
    ck_assert_msg(sweep_texts(&tuning, texts, 2, &options) == KILN_OK, "%s", report.message);
    ck_assert_uint_eq(info_of().elements, 5000);
    forget_tuning();
    ck_assert_msg(sweep_texts(&tuning, texts + 1, 1, &options) == KILN_OK, "%s", report.message);
    ck_assert_uint_eq(info_of().elements, UINT64_C(1) << 22);
    close_service();
}
END_TEST

/* Templates without an op have none that would tell them apart. */
START_TEST(test_sweep__refuses_to_compare_different_arithmetic)
{
    static const char *const names[] = { "first", "one", "two" };
    static const char twin[] =
        "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n"
        "    void *const *args);\n"
        "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)\n{\n"
        "    unsigned long long n = *(unsigned long long *)args[1 + KILN_INPUTS];\n"
        "    for (unsigned long long i = begin * KILN_TILE; i < end * KILN_TILE && i < n; i++)\n"
        "        (*(float **)args[0])[i] = (*(const float **)args[1])[i];\n}\n";
    kiln_sweep_options options = small();
    char text[512], specs_of[3][40], words[80];
    open_service();
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof(text),
                 "//! template %s\n//! dtype f32\n//! param block 32..64 = 32\n//! tile block\n//! entry %s align 4\n"
                 "//! size n\n//! arg out out dtype[n] inplace\n//! arg x in dtype[n]\n%s//! arg n uint64 = n\n"
                 "//! grid (n + tile - 1) / tile\n",
                 names[i], names[i], i == 2 ? "//! arg y in dtype[n]\n" : "");
        ck_assert_msg(kiln_template_define(service, text, twin, NULL, &report) == KILN_OK, "%s", report.message);
        snprintf(specs_of[i], sizeof(specs_of[i]), "template=%s target=cpu", names[i]);
    }
    for (int i = 1; i < 3; i++) {
        const char *pair[] = { specs_of[0], specs_of[i] };
        snprintf(words, sizeof(words), "template=%s inputs=%d dtype=f32 target=cpu beside template=first", names[i], i);
        expect_refusal(pair, 2, &options, KILN_ESPEC, words);
    }
    const char *alone[] = { specs_of[0] };
    ck_assert_msg(sweep_texts(&tuning, alone, 1, &options) == KILN_OK, "%s", report.message);
    close_service();
}
END_TEST

START_TEST(test_sweep__a_device_that_fails_ends_it)
{
    kiln_sweep_options options = small();
    open_service();
    fail_after(10 * _i);
    ck_assert_int_eq(sweep(&options), KILN_EDEVICE);
    ck_assert_str_eq(report.message, "the device is gone");
    close_service();
}
END_TEST

/* ---- The listing of a space */

typedef struct listing {
    int variants, impossible, stop_after;
    char first[200], problem[200];
} listing;

static int list(void *data, const kiln_variant *variant)
{
    listing *out = data;
    if (out->variants + out->impossible == 0)
        snprintf(out->first, sizeof(out->first), "%s", variant->spec);
    if (*variant->problem != '\0')
        snprintf(out->problem, sizeof(out->problem), "%s", variant->problem);
    ck_assert_msg(*variant->problem != '\0' || out->impossible == 0, "a variant after what is impossible");
    out->variants += *variant->problem == '\0';
    out->impossible += *variant->problem != '\0';
    kiln_spec *spec = NULL;
    if (*variant->problem == '\0')
        spec = kiln_test_spec(service, variant->spec);
    kiln_spec_free(spec);
    return out->variants + out->impossible == out->stop_after;
}

/* No driver is needed to know what there is for a GPU. */
START_TEST(test_sweep__a_space_is_listed_with_what_is_impossible)
{
    listing all = { 0 }, some = { .stop_after = 3 };
    open_service();
    kiln_spec *spec = kiln_test_spec(service, "op=relu6 dtype=f32 target=sm_90");
    ck_assert_int_eq(kiln_variants(service, spec, list, &all, &report), KILN_OK);
    ck_assert_ptr_nonnull(strstr(all.first, "op=relu6 dtype=f32 block=128 elems=4 vector=4 "));
    ck_assert_int_eq(all.variants, 120);
    ck_assert_int_eq(all.variants + all.impossible, 300);
    ck_assert_str_ne(all.problem, "");
    ck_assert_int_eq(kiln_variants(service, spec, list, &some, &report), KILN_OK);
    ck_assert_int_eq(some.variants, 3);
    ck_assert_int_eq(some.impossible, 0);
    ck_assert_int_eq(kiln_variants(service, spec, NULL, NULL, &report), KILN_EINVAL);
    kiln_spec_free(spec);
    spec = kiln_test_spec(service, "op=relu6 target=sm_90 vector=16"); /* dtype=f32 is a default */
    ck_assert_int_eq(kiln_variants(service, spec, list, &all, &report), KILN_ESPEC);
    kiln_spec_free(spec);
    close_service();
}
END_TEST

/* ---- Filling */

START_TEST(test_sweep__arrays_are_filled_with_the_same_random_values)
{
    enum { PERIOD = 1048573, COUNT = PERIOD + 1000 };
    float *a = calloc(COUNT, sizeof(*a)), *b = calloc(COUNT, sizeof(*b));
    int positive = 0;
    open_service();
    kiln_device *device = open_cpu();
    ck_assert_int_eq(kiln_fill(device, a, "f32", COUNT, 1, &report), KILN_OK);
    ck_assert_int_eq(kiln_fill(device, b, "f32", COUNT, 1, &report), KILN_OK);
    ck_assert_mem_eq(a, b, COUNT * sizeof(*a));
    ck_assert_mem_eq(a, a + PERIOD, 1000 * sizeof(*a));
    for (int i = 0; i < PERIOD; i++) {
        ck_assert(fabsf(a[i]) >= 1.0f / 64 && fabsf(a[i]) < 8);
        positive += a[i] > 0;
    }
    ck_assert_int_gt(positive, PERIOD / 2 - 5000);
    ck_assert_int_lt(positive, PERIOD / 2 + 5000);
    ck_assert_int_eq(kiln_fill(device, b, "f32", COUNT, 2, &report), KILN_OK);
    ck_assert_int_ne(memcmp(a, b, COUNT * sizeof(*a)), 0);
    ck_assert_int_eq(kiln_fill(device, NULL, "f16", 0, 1, &report), KILN_OK);
    ck_assert_int_eq(kiln_fill(device, a, "f31", 1, 1, &report), KILN_ESPEC);
    ck_assert_ptr_nonnull(strstr(report.message, "f31"));
    ck_assert_int_eq(kiln_fill(device, NULL, "f32", 1, 1, &report), KILN_EINVAL);
    ck_assert_int_eq(kiln_fill(device, a, "f64", UINT64_MAX, 1, &report), KILN_EINVAL);
    ck_assert_int_eq(kiln_fill(NULL, a, "f64", 1, 1, &report), KILN_EINVAL);
    free(a);
    free(b);
    close_service();
}
END_TEST

Suite *kiln_test_tune_sweep_suite(void)
{
    Suite *suite = suite_create("sweep");
    TCase *tcase = tcase_create("sweep");
    kiln_test_temp_use(tcase);
    tcase_add_loop_test(tcase, test_sweep__everything_is_measured, 0, 2);
    tcase_add_test(tcase, test_sweep__few_rounds_promise_nothing);
    tcase_add_test(tcase, test_sweep__a_wrong_variant_is_told_and_not_timed);
    tcase_add_test(tcase, test_sweep__what_is_slower_is_called_so);
    tcase_add_test(tcase, test_sweep__what_spills_is_measured_too);
    tcase_add_loop_test(tcase, test_sweep__ended_early_it_keeps_what_is_known, 0, 2);
    tcase_add_test(tcase, test_sweep__ended_while_it_waits_for_its_turn_it_knows_nothing);
    tcase_add_test(tcase, test_sweep__whose_turn_comes_finds_the_device_empty);
    tcase_add_test(tcase, test_sweep__leaves_nothing_in_the_record);
    tcase_add_test(tcase, test_sweep__refuses_what_cannot_be_swept);
    tcase_add_test(tcase, test_sweep__without_work_the_spec_or_the_device_says_how_many_elements);
    tcase_add_test(tcase, test_sweep__refuses_to_compare_different_arithmetic);
    tcase_add_loop_test(tcase, test_sweep__a_device_that_fails_ends_it, 0, 4);
    tcase_add_test(tcase, test_sweep__a_space_is_listed_with_what_is_impossible);
    tcase_add_test(tcase, test_sweep__arrays_are_filled_with_the_same_random_values);
    suite_add_tcase(suite, tcase);
    return suite;
}
