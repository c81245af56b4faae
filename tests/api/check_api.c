/* The public API's edges: arguments that cannot be right, sizes, listings. */
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPEC "op=add(x,y) dtype=f32 target=cpu"

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

START_TEST(test_api__status_names_and_texts)
{
    ck_assert_str_eq(kiln_status_name(KILN_OK), "KILN_OK");
    ck_assert_str_eq(kiln_status_name(KILN_EOVERLAP), "KILN_EOVERLAP");
    ck_assert_str_eq(kiln_status_text(KILN_ENOMEM), "out of memory");
    ck_assert_str_eq(kiln_status_name((kiln_status)-999), "KILN_UNKNOWN");
    ck_assert_str_eq(kiln_version(), "0.2.0");
}
END_TEST

START_TEST(test_api__null_arguments_are_refused)
{
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    kiln_kernel *kernel = (kiln_kernel *)&service;
    kiln_program *program;
    kiln_service *other;
    char *text;
    ck_assert_int_eq(kiln_open(NULL, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_spec_parse(NULL, service, SPEC, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_get_kernel(NULL, service, spec, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_get_kernel(&kernel, NULL, spec, NULL), KILN_EINVAL);
    ck_assert_ptr_null(kernel);
    ck_assert_int_eq(kiln_get_kernel(&kernel, service, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_test_build_spec(&program, service, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_spec_source(&text, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_test_launch(NULL, 1, NULL, NULL, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_ops(service, NULL, NULL), KILN_EINVAL);
    kiln_options bad = kiln_test_options();
    bad.size = 1;
    ck_assert_int_eq(kiln_open(&other, &bad, NULL), KILN_EINVAL);
    bad = kiln_test_options();
    bad.device = "gpu";
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_int_eq(kiln_open(&other, &bad, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "'gpu'"));
    ck_assert_ptr_null(other);
    kiln_report_clear(&report);
    kiln_spec_free(spec);
    kiln_spec_free(NULL);
    kiln_kernel_release(NULL);
    kiln_program_release(NULL);
    kiln_close(NULL);
    kiln_report_clear(NULL);
    kiln_text_free(NULL);
}
END_TEST

/* base.h promises both of every function with a pointer to its result and a report. */
START_TEST(test_api__a_refusal_clears_the_result_and_the_report)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_tuning *tuning = (kiln_tuning *)&service;
    kiln_tuning *sweep = tuning;
    kiln_live *live = (kiln_live *)&service;
    kiln_workload *workload = (kiln_workload *)&service;
    ck_assert_int_eq(kiln_tune(&tuning, service, NULL, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_sweep(&sweep, NULL, NULL, 0, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_live_open(&live, service, NULL, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_workload_make(&workload, service, NULL, NULL, NULL), KILN_EINVAL);
    ck_assert(tuning == NULL && sweep == NULL && live == NULL && workload == NULL);
    ck_assert_int_eq(kiln_spec_parse(NULL, service, SPEC, &report), KILN_EINVAL);
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    const kiln_signature *signature;
    uint64_t shape[KILN_DIMS_MAX], n = 5;
    ck_assert_int_eq(kiln_spec_signature(&signature, spec, NULL), KILN_OK);
    ck_assert_int_eq(kiln_signature_shape(shape, signature, 0, &n, 1, &report), KILN_OK);
    ck_assert_uint_eq(shape[0], 5);
    ck_assert_ptr_null(report.stage);
    kiln_spec_free(spec);
    static const char *const counting[] = { "op=x + y", "op=sum(x * index)", "op=x * index" };
    for (int i = 0; i < 3; i++) {
        spec = kiln_test_spec(service, counting[i]);
        ck_assert_int_eq(kiln_spec_signature(&signature, spec, NULL), KILN_OK);
        ck_assert_int_eq(signature->counts, i == 2);
        kiln_spec_free(spec);
    }
    kiln_report_clear(&report);
}
END_TEST

START_TEST(test_api__older_and_shorter_structs_are_filled_as_far_as_they_go)
{
    struct {
        kiln_stats stats;
    } s;
    memset(&s, 0xee, sizeof(s));
    s.stats.size = offsetof(kiln_stats, hits_loaded);
    kiln_kernel_release(kiln_test_get(service, SPEC));
    ck_assert_int_eq(kiln_stats_get(service, &s.stats), KILN_OK);
    ck_assert_uint_eq(s.stats.gets, 1);
    ck_assert_uint_eq(s.stats.hits_loaded, 0xeeeeeeeeeeeeeeeeu);
    ck_assert_uint_eq(s.stats.size, offsetof(kiln_stats, hits_loaded));
}
END_TEST

START_TEST(test_api__a_report_is_filled_as_far_as_it_goes_and_cleared_by_the_next_call)
{
    static const char expected[] = "service and text must not be NULL";
    kiln_spec *spec;
    kiln_report report;
    for (size_t size = 0; size <= sizeof(report); size++) {
        memset(&report, 0, sizeof(report));
        report.size = size;
        ck_assert_int_eq(kiln_spec_parse(&spec, service, NULL, &report), KILN_EINVAL);
        size_t room = size > offsetof(kiln_report, message) ? size - offsetof(kiln_report, message) : 0;
        ck_assert_int_eq(report.status == KILN_EINVAL, size >= offsetof(kiln_report, native));
        ck_assert_int_eq(report.stage != NULL, size >= offsetof(kiln_report, log));
        size_t most = room > 0 ? room - 1 : 0, whole = strlen(expected), length = strlen(report.message);
        most = most < whole ? most : whole;
        ck_assert_int_eq(memcmp(report.message, expected, length), 0);
        ck_assert(length == most || (length + 1 == most && expected[length] == ' ')); /* a blank at the end goes */
    }
    ck_assert_str_eq(report.message, expected);
    ck_assert_int_eq(kiln_spec_parse(&spec, service, "op=relu6 dtype=f32", &report), KILN_OK);
    ck_assert_str_eq(report.message, "");
    ck_assert_ptr_null(report.stage);
    ck_assert_ptr_null(report.log);
    ck_assert(report.status == KILN_OK && report.native == 0);
    kiln_spec_free(spec);
}
END_TEST

/* A struct of a newer header. */
typedef struct newer_options {
    kiln_options known;
    uint64_t unknown[2];
} newer_options;

START_TEST(test_api__structs_of_other_headers_are_taken_if_all_that_is_set_is_known)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *opened;
    newer_options options = { .known = kiln_test_options() };
    options.known.strict = (kiln_switch)9;
    options.known.size = offsetof(kiln_options, strict);
    ck_assert_int_eq(kiln_open(&opened, &options.known, &report), KILN_OK);
    kiln_close(opened);
    options.known.size = sizeof(options);
    ck_assert_int_eq(kiln_open(&opened, &options.known, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "kiln_options.strict is 9"));
    options.known.strict = KILN_DEFAULT;
    ck_assert_int_eq(kiln_open(&opened, &options.known, &report), KILN_OK);
    kiln_close(opened);
    options.unknown[1] = 1;
    ck_assert_int_eq(kiln_open(&opened, &options.known, &report), KILN_EINVAL);
    ck_assert_ptr_null(opened);
    ck_assert_ptr_nonnull(strstr(report.message, "a header newer than the library"));
    options.known.size = 0;
    ck_assert_int_eq(kiln_open(&opened, &options.known, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "KILN_INIT(kiln_options)"));
    kiln_report_clear(&report);
}
END_TEST

START_TEST(test_api__specs_are_made_of_specs_and_read)
{
    kiln_spec *empty, *spec, *other, *none;
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_int_eq(kiln_spec_parse(&empty, service, "", NULL), KILN_OK);
    ck_assert_uint_eq(kiln_test_spec_inputs(empty), 0);
    ck_assert_int_eq(kiln_spec_with(&spec, empty, "op=hardtanh(hi=2) block=64", &report), KILN_OK);
    ck_assert_str_eq(kiln_spec_field(spec, "block"), "64");
    ck_assert_int_eq(kiln_spec_with(&none, spec, "block=100", &report), KILN_ESPEC);
    ck_assert_ptr_null(none);
    ck_assert_ptr_nonnull(strstr(report.message, "96"));
    ck_assert_int_eq(kiln_spec_with(&none, spec, "blok=64", &report), KILN_ESPEC);
    ck_assert_ptr_nonnull(strstr(report.message, "block"));
    ck_assert_str_eq(kiln_spec_text(spec), "op=hardtanh(-1,2) block=64");
    ck_assert_uint_eq(kiln_test_spec_inputs(spec), 1);
    ck_assert_int_eq(kiln_spec_with(&other, spec, "block= op=mul(add(x,y),z)", NULL), KILN_OK);
    ck_assert_str_eq(kiln_spec_field(other, "block"), "");
    ck_assert_uint_eq(kiln_test_spec_inputs(other), 3);
    ck_assert_ptr_null(kiln_spec_field(other, "colour"));
    ck_assert_str_eq(kiln_spec_text(spec), "op=hardtanh(-1,2) block=64");
    ck_assert_int_eq(kiln_spec_with(NULL, spec, "", NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_spec_with(&none, NULL, "", NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_spec_with(&none, spec, NULL, NULL), KILN_EINVAL);
    ck_assert_ptr_null(kiln_spec_field(NULL, "block"));
    ck_assert_ptr_null(kiln_spec_field(spec, NULL));
    ck_assert_str_eq(kiln_spec_text(NULL), "");
    kiln_report_clear(&report);
    kiln_spec_free(other);
    kiln_spec_free(spec);
    kiln_spec_free(empty);
}
END_TEST

START_TEST(test_api__spec_without_an_op_cannot_be_built)
{
    kiln_spec *spec = kiln_test_spec(service, "dtype=f32 target=cpu");
    kiln_report report = KILN_INIT(kiln_report);
    kiln_kernel *kernel;
    ck_assert_int_eq(kiln_get_kernel(&kernel, service, spec, &report), KILN_ESPEC);
    ck_assert_ptr_nonnull(strstr(report.message, "op"));
    ck_assert_str_eq(report.stage, "spec");
    kiln_report_clear(&report);
    kiln_spec_free(spec);
}
END_TEST

START_TEST(test_api__launch_arguments_are_checked_before_anything_runs)
{
    kiln_kernel *kernel = kiln_test_get(service, SPEC);
    float a[300], b[300], c[300];
    for (int i = 0; i < 300; i++) {
        a[i] = (float)i;
        b[i] = 1.0f;
        c[i] = -7.0f;
    }
    const void *in[] = { a, b }, *missing[] = { a, NULL }, *skewed[] = { a, (char *)b + 1 };
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_int_eq(kiln_test_launch(kernel, 0, NULL, NULL, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_test_launch(kernel, 10, NULL, in, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_test_launch(kernel, 10, c, missing, NULL, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "argument y is NULL"));
    ck_assert_int_eq(kiln_test_launch(kernel, 10, c, skewed, NULL, &report), KILN_EALIGN);
    ck_assert_int_eq(kiln_test_launch(kernel, 10, a + 1, in, NULL, &report), KILN_EOVERLAP);
    ck_assert_ptr_nonnull(strstr(report.message, "arguments out and x partly overlap"));
    ck_assert_int_eq(kiln_test_launch(kernel, 10, b + 9, in, NULL, &report), KILN_EOVERLAP);
    ck_assert_int_eq(kiln_test_launch(kernel, UINT64_MAX / 2, c, in, NULL, &report), KILN_EINVAL);
    ck_assert(c[0] == -7.0f && a[1] == 1.0f);
    ck_assert_int_eq(kiln_test_launch(kernel, 10, a + 10, in, NULL, NULL), KILN_OK);
    ck_assert(a[10] == 1.0f && a[19] == 10.0f && a[20] == 20.0f);
    ck_assert_int_eq(kiln_test_launch(kernel, 300, a, in, NULL, NULL), KILN_OK);
    ck_assert(a[20] == 21.0f && a[299] == 300.0f);
    kiln_report_clear(&report);
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_api__source_is_complete_and_needs_no_compiler)
{
    kiln_options options = kiln_test_options();
    options.nvrtc = "/nonexistent/libnvrtc.so";
    options.cc = "/nonexistent/cc";
    kiln_service *bare = kiln_test_open(&options);
    kiln_spec *spec = kiln_test_spec(bare, "op=hardsigmoid(add(x,y)) dtype=bf16 block=64 target=sm_90");
    char *text;
    ck_assert_int_eq(kiln_spec_source(&text, spec, NULL), KILN_OK);
    ck_assert_ptr_nonnull(strstr(text, "#define KILN_BLOCK 64"));
    ck_assert_ptr_nonnull(strstr(text, "kiln_op_hardsigmoid(kiln_op_add(x, y))"));
    kiln_text_free(text);
    kiln_spec_free(spec);
    kiln_close(bare);
}
END_TEST

static int count_op(void *data, const kiln_op_info *op)
{
    ck_assert_uint_gt(strlen(op->doc), 0);
    ck_assert_int_eq(strncmp(op->signature, op->name, strlen(op->name)), 0);
    ++*(int *)data;
    return 0;
}

static int count_template(void *data, const kiln_template_info *info)
{
    ck_assert_int_eq(*(int *)data, 0); /* nothing is told after it */
    if (strcmp(info->name, "elementwise") != 0)
        return 0;
    ck_assert_uint_eq(info->field_count, 4);
    ck_assert_str_eq(info->fields[0]->name, "block");
    ck_assert_str_eq(info->fields[0]->tune, "64..1024*2 if sm > 0\n");
    ck_assert_str_eq(info->fields[1]->tune, "1..32*2 if sm > 0\n4..64*2 if sm == 0\n");
    ck_assert_ptr_nonnull(strstr(info->requirements, "elems % vector == 0 -- elems must be a multiple of vector\n"));
    ck_assert_ptr_nonnull(strstr(info->bounds, " -- more than 64 bytes per thread"));
    ++*(int *)data;
    return 1;
}

START_TEST(test_api__ops_and_templates_are_listed)
{
    int ops = 0, templates = 0;
    ck_assert_int_eq(kiln_ops(service, count_op, &ops), KILN_OK);
    ck_assert_int_ge(ops, 90);
    ck_assert_int_eq(kiln_templates(service, count_template, &templates), KILN_OK);
    ck_assert_int_eq(templates, 1);
}
END_TEST

typedef struct listed {
    int specs;
    char text[4][160];
} listed;

static int take_spec(void *data, const kiln_spec *spec)
{
    listed *list = data;
    if (list->specs < 4)
        snprintf(list->text[list->specs], sizeof(list->text[0]), "%s", kiln_spec_text(spec));
    list->specs++;
    return 0;
}

START_TEST(test_api__lines_expand_to_products)
{
    listed list = { 0 };
    ck_assert_int_eq(
        kiln_spec_expand(service, "op=relu6,hardtanh(-1,1) dtype=f32,f16 target=native", take_spec, &list, NULL),
        KILN_OK);
    ck_assert_int_eq(list.specs, 4);
    ck_assert_str_eq(list.text[0], "op=relu6 dtype=f32 target=cpu");
    ck_assert_str_eq(list.text[3], "op=hardtanh(-1,1) dtype=f16 target=cpu");
    list.specs = 0;
    ck_assert_int_eq(kiln_spec_expand(service, "op=relu6 block=64..1024*2", take_spec, &list, NULL), KILN_OK);
    ck_assert_int_eq(list.specs, 5);
    list.specs = 0;
    ck_assert_int_eq(kiln_spec_expand(service, "op=relu6 target=all", take_spec, &list, NULL), KILN_OK);
    ck_assert_int_ge(list.specs, 5);
    list.specs = 0;
    ck_assert_int_eq(kiln_spec_expand(service, "op=relu6,relu7", take_spec, &list, NULL), KILN_EOP);
    ck_assert_int_eq(list.specs, 0);
}
END_TEST

static int count_entry(void *data, const kiln_entry_info *entry)
{
    ck_assert_int_eq(entry->status, KILN_OK);
    if (strcmp(entry->kind, "kernel") == 0)
        ck_assert_int_eq(strncmp(entry->spec, "op=", 3), 0);
    ++*(int *)data;
    return 0;
}

START_TEST(test_api__store_is_listed_and_purged)
{
    int entries = 0, left = 0;
    uint64_t removed;
    kiln_kernel_release(kiln_test_get(service, SPEC));
    ck_assert_int_eq(kiln_cache_visit(service, count_entry, &entries, NULL), KILN_OK);
    ck_assert_int_ge(entries, 1);
    ck_assert_int_eq(kiln_cache_purge(service, kiln_test_is_refused, NULL, &removed, NULL), KILN_OK);
    ck_assert_uint_eq(removed, 0);
    ck_assert_int_eq(kiln_cache_purge(service, NULL, NULL, &removed, NULL), KILN_OK);
    ck_assert_uint_eq(removed, (uint64_t)entries);
    ck_assert_int_eq(kiln_cache_visit(service, count_entry, &left, NULL), KILN_OK);
    ck_assert_int_eq(left, 0);
}
END_TEST

typedef struct diagnosis {
    int driver, gpus, compilers, caches;
} diagnosis;

static int take_finding(void *data, const kiln_finding *finding)
{
    diagnosis *seen = data;
    ck_assert_msg(finding->ok || finding->remedy[0] != '\0', "%s is missing and nothing is said to do", finding->what);
    seen->driver += strcmp(finding->what, "CUDA driver") == 0 && finding->ok;
    seen->gpus += strcmp(finding->what, "GPU") == 0 && finding->ok;
    seen->compilers += strcmp(finding->what, "C compiler") == 0 && finding->ok;
    seen->caches += strcmp(finding->what, "cache") == 0 && finding->ok;
    return 0;
}

START_TEST(test_api__doctor_says_what_is_there)
{
    diagnosis without = { 0 }, with = { 0 };
    ck_assert_int_eq(kiln_doctor(service, take_finding, &without), KILN_OK);
    ck_assert_int_eq(without.driver + without.gpus, 0);
    ck_assert_int_eq(without.compilers, 1);
    ck_assert_int_eq(without.caches, 1);
    kiln_options options = kiln_test_gpu_options();
    kiln_service *gpu = kiln_test_open(&options);
    ck_assert_int_eq(kiln_doctor(gpu, take_finding, &with), KILN_OK);
    ck_assert_int_eq(with.driver, 1);
    ck_assert_int_ge(with.gpus, 1);
    kiln_close(gpu);
}
END_TEST

START_TEST(test_api__device_memory_round_trip)
{
    kiln_device *device;
    kiln_device_info info = KILN_INIT(kiln_device_info);
    void *memory;
    char back[100];
    ck_assert_int_eq(kiln_device_open(&device, service, "cpu", NULL), KILN_OK);
    ck_assert_int_eq(kiln_device_get_info(device, &info), KILN_OK);
    ck_assert_str_eq(info.target, "cpu");
    ck_assert_uint_ge(info.multiprocessors, 1);
    ck_assert_int_eq(kiln_alloc(&memory, device, sizeof(back), NULL), KILN_OK);
    ck_assert_uint_eq((uintptr_t)memory % 256, 0);
    memset(back, 'x', sizeof(back));
    ck_assert_int_eq(kiln_upload(device, memory, back, sizeof(back), NULL), KILN_OK);
    memset(back, 0, sizeof(back));
    ck_assert_int_eq(kiln_download(device, back, memory, sizeof(back), NULL), KILN_OK);
    ck_assert_int_eq(back[99], 'x');
    char *bytes = memory;
    ck_assert_int_eq(kiln_copy(device, bytes + 50, bytes, 50, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_copy(device, bytes + 49, bytes, 50, NULL, NULL), KILN_EOVERLAP);
    ck_assert_int_eq(kiln_copy(device, bytes, bytes + 49, 50, NULL, NULL), KILN_EOVERLAP);
    ck_assert_int_eq(kiln_copy(device, bytes, bytes, 1, NULL, NULL), KILN_EOVERLAP);
    ck_assert_int_eq(kiln_copy(device, bytes, bytes, 0, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_upload(device, NULL, back, 1, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_download(NULL, back, memory, 1, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_sync(device, NULL), KILN_OK);
    kiln_free(device, memory);
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_int_eq(kiln_device_open(&device, service, "cuda:0", &report), KILN_ENODRIVER);
    ck_assert_ptr_nonnull(strstr(report.message, "/nonexistent/libcuda.so.1"));
    kiln_report_clear(&report);
}
END_TEST

Suite *kiln_test_api_api_suite(void)
{
    Suite *suite = suite_create("api");
    TCase *tcase = tcase_create("edges");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, open_service, close_service);
    tcase_add_test(tcase, test_api__status_names_and_texts);
    tcase_add_test(tcase, test_api__null_arguments_are_refused);
    tcase_add_test(tcase, test_api__a_refusal_clears_the_result_and_the_report);
    tcase_add_test(tcase, test_api__older_and_shorter_structs_are_filled_as_far_as_they_go);
    tcase_add_test(tcase, test_api__a_report_is_filled_as_far_as_it_goes_and_cleared_by_the_next_call);
    tcase_add_test(tcase, test_api__structs_of_other_headers_are_taken_if_all_that_is_set_is_known);
    tcase_add_test(tcase, test_api__specs_are_made_of_specs_and_read);
    tcase_add_test(tcase, test_api__spec_without_an_op_cannot_be_built);
    tcase_add_test(tcase, test_api__launch_arguments_are_checked_before_anything_runs);
    tcase_add_test(tcase, test_api__source_is_complete_and_needs_no_compiler);
    tcase_add_test(tcase, test_api__ops_and_templates_are_listed);
    tcase_add_test(tcase, test_api__lines_expand_to_products);
    tcase_add_test(tcase, test_api__store_is_listed_and_purged);
    tcase_add_test(tcase, test_api__doctor_says_what_is_there);
    tcase_add_test(tcase, test_api__device_memory_round_trip);
    suite_add_tcase(suite, tcase);
    return suite;
}
