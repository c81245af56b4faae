/* Why the stores had nothing to give: each reason is counted, once for each get and build. */
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CPU_SPEC "op=hardsigmoid dtype=f32 target=cpu"
#define GPU_SPEC "op=hardsigmoid dtype=f32 target=sm_90"

/* The three ways to ask. */
typedef enum way { GET, GET_ASYNC, BUILD, WAYS } way;

static void ask(kiln_service *service, way how)
{
    if (how == GET)
        kiln_kernel_release(kiln_test_get(service, CPU_SPEC));
    else if (how == GET_ASYNC)
        ck_assert_int_eq(kiln_test_get_async(service, CPU_SPEC, NULL), KILN_OK);
    else
        kiln_program_release(kiln_test_build(service, CPU_SPEC));
}

static kiln_stats stats_of(const kiln_options *options, way how)
{
    kiln_service *service = kiln_test_open(options);
    ask(service, how);
    kiln_stats stats = kiln_test_stats(service);
    kiln_close(service);
    ck_assert_uint_eq(stats.compiles + stats.hits_disk, 1);
    ck_assert_uint_eq(stats.misses_absent + stats.misses_damaged + stats.misses_untrusted + stats.misses_error,
                      stats.compiles);
    ck_assert_uint_eq(stats.misses_unloadable, 0);
    ck_assert_int_eq(stats.load_ns > 0, how != BUILD);
    return stats;
}

START_TEST(test_misses__each_has_its_reason)
{
    way how = (way)_i;
    kiln_options options = kiln_test_options();
    ck_assert_uint_eq(stats_of(&options, how).misses_absent, 1);
    ck_assert_uint_eq(stats_of(&options, how).hits_disk, 1);
    kiln_service *service = kiln_test_open(&options);
    const char *path = kiln_test_entry_path(service);
    kiln_close(service);
    ck_assert_int_eq(truncate(path, 100), 0);
    ck_assert_uint_eq(stats_of(&options, how).misses_damaged, 1);
    ck_assert_uint_eq(stats_of(&options, how).hits_disk, 1);
    ck_assert_int_eq(chmod(path, 0666), 0);
    ck_assert_uint_eq(stats_of(&options, how).misses_untrusted, 1);
    ck_assert_int_eq(chmod(path, 0600), 0);
    ck_assert_uint_eq(stats_of(&options, how).hits_disk, 1);
}
END_TEST

START_TEST(test_misses__a_stored_kernel_that_does_not_load_is_one)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_program_release(kiln_test_build(service, GPU_SPEC));
    kiln_close(service);
    service = kiln_test_open(&options);
    kiln_fake_open()->fail_call("cuLibraryLoadData", 1, 0, 1);
    kiln_kernel_release(kiln_test_get(service, GPU_SPEC));
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_uint_eq(stats.misses_unloadable, 1);
    ck_assert_uint_eq(stats.compiles, 1);
    ck_assert_uint_eq(stats.misses_absent, 0);
    kiln_close(service);
}
END_TEST

START_TEST(test_misses__what_strict_mode_refuses_is_one)
{
    kiln_options options = kiln_test_options();
    options.strict = KILN_ON;
    kiln_service *service = kiln_test_open(&options);
    kiln_spec *spec = kiln_test_spec(service, CPU_SPEC);
    ck_assert_int_eq(kiln_test_ask(service, CPU_SPEC, NULL), KILN_ESTRICT);
    ck_assert_uint_eq(kiln_test_stats(service).misses_absent, 1);
    ck_assert_int_eq(kiln_test_find_stored(NULL, service, spec, NULL), KILN_ESTRICT);
    ck_assert_uint_eq(kiln_test_stats(service).misses_absent, 2);
    ck_assert_uint_eq(kiln_test_stats(service).strict_refusals, 2);
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

static kiln_status ask_kept(kiln_service *service, const char *reason)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_request request = KILN_INIT(kiln_request);
    kiln_spec *spec = kiln_test_spec(service, CPU_SPEC);
    request.spec = spec;
    request.goal = KILN_BUILD;
    kiln_status status = kiln_kept(service, &request, &report);
    ck_assert_msg(strstr(report.message, reason), "%s", report.message);
    kiln_spec_free(spec);
    return status;
}

START_TEST(test_misses__what_is_not_kept_has_its_reason)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    ck_assert_int_eq(ask_kept(service, "another process"), KILN_ENOENT);
    ask(service, BUILD);
    ck_assert_int_eq(ask_kept(service, ""), KILN_OK);
    const char *path = kiln_test_entry_path(service);
    ck_assert_int_eq(chmod(path, 0666), 0);
    ck_assert_int_eq(ask_kept(service, "may not be trusted"), KILN_ENOENT);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(ask_kept(service, "another process"), KILN_ENOENT); /* though it is in memory */
    ck_assert_uint_eq(kiln_test_stats(service).gets, 1);
    kiln_close(service);
    options.cache_bytes = 256;
    service = kiln_test_open(&options);
    ask(service, BUILD);
    ck_assert_int_eq(ask_kept(service, "too large for a cache of 256 bytes"), KILN_ENOENT);
    kiln_close(service);
    options.cache_dir = "";
    service = kiln_test_open(&options);
    ck_assert_int_eq(ask_kept(service, "switched off"), KILN_ENOENT);
    kiln_close(service);
}
END_TEST

Suite *kiln_test_service_misses_suite(void)
{
    Suite *suite = suite_create("misses");
    TCase *tests = tcase_create("misses");
    kiln_test_temp_use(tests);
    tcase_add_loop_test(tests, test_misses__each_has_its_reason, 0, WAYS);
    tcase_add_test(tests, test_misses__a_stored_kernel_that_does_not_load_is_one);
    tcase_add_test(tests, test_misses__what_strict_mode_refuses_is_one);
    tcase_add_test(tests, test_misses__what_is_not_kept_has_its_reason);
    suite_add_tcase(suite, tests);
    return suite;
}
