/* Without a compiler the newest toolchain's entry that the driver takes is loaded; with the stand-in driver. */
#include "base/alloc.h"
#include "service/service.h"
#include "store/pack.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/suites.h"
#include "support/temp.h"
#include <stdio.h>
#include <string.h>

#define SPEC "op=hardsigmoid dtype=f32 target=sm_90"

/* How the copy of a kernel under another toolchain's id differs. */
typedef enum variant { SAME, FOR_ANOTHER_GPU, BROKEN, BAD_PTX } variant;

static kiln_options options;
static const kiln_fake *fake;

/* The kernel's entry as the real compiler made it. */
static kiln__blob *original;

static int take_kernel(void *data, const kiln__store_item *item)
{
    kiln__key *key = data;
    if (item->entry == NULL || item->entry->kind != KILN__ENTRY_KERNEL)
        return 0;
    *key = item->entry->key;
    return 1;
}

static void set_up(void)
{
    kiln__key key;
    options = kiln_test_gpu_options();
    fake = kiln_fake_open();
    options.cache_dir = kiln_test_temp_path("made");
    kiln_service *service = kiln_test_open(&options);
    kiln_program_release(kiln_test_build(service, SPEC));
    ck_assert_int_eq(kiln__disk_store_visit(service->disk, take_kernel, &key), 0);
    original = service->disk->vtable->get(service->disk, &key, false, NULL);
    ck_assert_ptr_nonnull(original);
    kiln_close(service);
    options.cache_dir = kiln_test_temp_path("store");
    options.nvrtc = "/nonexistent/libnvrtc.so.13";
}

static void tear_down(void)
{
    kiln__blob_release(original);
}

static kiln__blob *copy_as(const char *toolchain, variant how)
{
    static const char
        names[] = "kiln_vector",
        ptx[] = "//\n.version 99.0\n.target sm_80\n.visible .entry kiln_vector()\n.visible .entry kiln_scalar()\n";
    static char cubin[8192];
    void *bytes;
    size_t length;
    kiln__entry entry = original->entry;
    const char *const name = names;
    snprintf(entry.key.toolchain, sizeof(entry.key.toolchain), "%s", toolchain);
    for (size_t i = 0; i < entry.section_count; i++) {
        kiln__section *section = &entry.sections[i];
        bool is_cubin = strcmp(section->name, "cubin") == 0, is_ptx = strcmp(section->name, "ptx") == 0;
        if ((how == FOR_ANOTHER_GPU || how == BAD_PTX) && is_cubin) {
            section->length = fake->cubin(cubin, sizeof(cubin), 100, &name, 1, 1);
            section->data = cubin;
        } else if (how == BROKEN && is_cubin) {
            section->length /= 2;
        } else if (how == FOR_ANOTHER_GPU && is_ptx) {
            section->length = strlen(ptx);
            section->data = ptx;
        } else if (how == BAD_PTX && is_ptx) {
            section->length -= 30;
            section->data = (const char *)section->data + 30; /* begins within the comments */
        }
    }
    ck_assert_int_eq(kiln__entry_encode(&bytes, &length, &entry), KILN_OK);
    kiln__blob *blob = kiln__blob_take(bytes, length, &entry.key, NULL);
    ck_assert_ptr_nonnull(blob);
    return blob;
}

static void keep_in(const char *directory, const char *toolchain, variant how)
{
    kiln_options other = options;
    other.cache_dir = directory;
    other.shared_dir = "";
    kiln_service *service = kiln_test_open(&other);
    kiln__blob *blob = copy_as(toolchain, how);
    ck_assert_int_eq(service->disk->vtable->put(service->disk, blob, false), 0);
    kiln__blob_release(blob);
    kiln_close(service);
}

static void keep(const char *toolchain, variant how)
{
    keep_in(options.cache_dir, toolchain, how);
}

static kiln_kernel_info info_of(const kiln_kernel *kernel)
{
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
    return info;
}

/* Gets the kernel and says how many stored ones were refused before. */
static uint64_t refusals(kiln_origin source)
{
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel *kernel = kiln_test_get(service, SPEC);
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_int_eq(info_of(kernel).origin, source);
    ck_assert_uint_eq(stats.loads, 1);
    ck_assert_uint_eq(stats.compiles + stats.compile_failures + stats.misses_absent, 0);
    kiln_kernel_release(kernel);
    kiln_close(service);
    return stats.misses_unloadable;
}

START_TEST(test_toolchains__the_newest_is_taken_if_it_loads)
{
    keep("nvrtc-12.0.1", FOR_ANOTHER_GPU);
    keep("nvrtc-13.0.1", SAME);
    keep("nvrtc-9.9.9", BROKEN);
    ck_assert_uint_eq(refusals(KILN_ORIGIN_DISK), 0);
}
END_TEST

/* Newer than the driver, for another GPU, damaged before it was stored: what comes before it is tried. */
START_TEST(test_toolchains__an_older_one_is_taken_where_the_driver_refuses_the_newest)
{
    keep("nvrtc-12.0.1", SAME);
    keep("nvrtc-13.0.1", FOR_ANOTHER_GPU);
    ck_assert_uint_eq(refusals(KILN_ORIGIN_DISK), 1);
    keep("nvrtc-13.0.10", BROKEN);
    ck_assert_uint_eq(refusals(KILN_ORIGIN_DISK), 2);
    options.strict = KILN_ON;
    ck_assert_uint_eq(refusals(KILN_ORIGIN_DISK), 2);
}
END_TEST

START_TEST(test_toolchains__bad_ptx_is_as_bad_as_a_bad_cubin)
{
    keep("nvrtc-12.0.1", SAME);
    keep("nvrtc-13.0.1", BAD_PTX);
    ck_assert_uint_eq(refusals(KILN_ORIGIN_DISK), 1);
    /* The driver has seen the newest's cubin and the other's. */
    ck_assert_uint_eq(fake->calls("cuLibraryLoadData"), 2);
}
END_TEST

START_TEST(test_toolchains__bad_ptx_is_compiled_anew)
{
    options.nvrtc = kiln_test_gpu_options().nvrtc;
    keep(original->entry.key.toolchain, BAD_PTX);
    for (int i = 0; i < 2; i++) {
        kiln_service *service = kiln_test_open(&options);
        kiln_kernel *kernel = kiln_test_get(service, SPEC);
        ck_assert_int_eq(info_of(kernel).origin, i == 0 ? KILN_ORIGIN_COMPILED : KILN_ORIGIN_DISK);
        ck_assert_uint_eq(kiln_test_stats(service).ptx_loads, 0);
        kiln_kernel_release(kernel);
        kiln_close(service);
    }
}
END_TEST

START_TEST(test_toolchains__they_may_be_in_different_stores)
{
    const char *shared = kiln_test_temp_path("shared");
    options.shared_dir = shared;
    keep_in(shared, "nvrtc-13.0.1", FOR_ANOTHER_GPU);
    keep("nvrtc-12.9.1", BROKEN);
    keep_in(shared, "nvrtc-12.0.1", SAME);
    keep("nvrtc-11.0.1", SAME);
    ck_assert_uint_eq(refusals(KILN_ORIGIN_SHARED), 2);
}
END_TEST

START_TEST(test_toolchains__passing_trouble_of_the_driver_takes_the_next_one_too)
{
    keep("nvrtc-12.0.1", SAME);
    keep("nvrtc-13.0.1", SAME);
    fake->fail_call("cuLibraryLoadData", 1, 0, 1);
    ck_assert_uint_eq(refusals(KILN_ORIGIN_DISK), 1);
    ck_assert_uint_eq(refusals(KILN_ORIGIN_DISK), 0);
}
END_TEST

/* The failure is the newest's, and nothing is thrown away. */
START_TEST(test_toolchains__none_that_loads_is_an_error)
{
    keep("nvrtc-12.0.1", BROKEN);
    keep("nvrtc-13.0.1", FOR_ANOTHER_GPU);
    for (int i = 0; i < 2; i++) {
        kiln_report report = KILN_INIT(kiln_report);
        kiln_service *service = kiln_test_open(&options);
        ck_assert_int_eq(kiln_test_ask(service, SPEC, &report), KILN_ETARGET);
        ck_assert_msg(strstr(report.message, "neither the cubin nor the PTX") != NULL, "%s", report.message);
        ck_assert_uint_eq(kiln_test_stats(service).misses_unloadable, 2);
        kiln_report_clear(&report);
        kiln_close(service);
    }
}
END_TEST

/* Trouble that is not about an image ends the search, and is what the report is about. */
START_TEST(test_toolchains__a_driver_without_memory_is_an_error)
{
    kiln_report report = KILN_INIT(kiln_report);
    keep("nvrtc-12.0.1", SAME);
    keep("nvrtc-13.0.1", FOR_ANOTHER_GPU);
    kiln_service *service = kiln_test_open(&options);
    fake->fail_call("cuLibraryLoadData", 2, 2, 1); /* the third: after the newest's cubin and PTX */
    ck_assert_int_eq(kiln_test_ask(service, SPEC, &report), KILN_ENOMEM);
    ck_assert_int_eq(report.status, KILN_ENOMEM);
    ck_assert_int_eq(report.native, 2);
    ck_assert_int_eq(kiln_test_ask(service, SPEC, &report), KILN_OK);
    kiln_report_clear(&report);
    kiln_close(service);
}
END_TEST

START_TEST(test_toolchains__asynchronous_gets_do_the_same)
{
    keep("nvrtc-12.0.1", SAME);
    keep("nvrtc-13.0.1", FOR_ANOTHER_GPU);
    kiln_service *service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_test_get_async(service, SPEC, NULL), KILN_OK);
    ck_assert_uint_eq(kiln_test_stats(service).misses_unloadable, 1);
    kiln_close(service);
}
END_TEST

/* Its own toolchain's entry is then the only one that counts. */
START_TEST(test_toolchains__a_compiler_that_is_there_is_asked_instead)
{
    options.nvrtc = NULL;
    keep("nvrtc-99.0.1", SAME);
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel *kernel = kiln_test_get(service, SPEC);
    ck_assert_int_eq(info_of(kernel).origin, KILN_ORIGIN_COMPILED);
    ck_assert_uint_eq(kiln_test_stats(service).misses_absent, 1);
    kiln_kernel_release(kernel);
    kiln_close(service);
}
END_TEST

Suite *kiln_test_jit_toolchains_suite(void)
{
    Suite *suite = suite_create("toolchains");
    TCase *tests = tcase_create("toolchains");
    kiln_test_temp_use(tests);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, test_toolchains__the_newest_is_taken_if_it_loads);
    tcase_add_test(tests, test_toolchains__an_older_one_is_taken_where_the_driver_refuses_the_newest);
    tcase_add_test(tests, test_toolchains__bad_ptx_is_as_bad_as_a_bad_cubin);
    tcase_add_test(tests, test_toolchains__bad_ptx_is_compiled_anew);
    tcase_add_test(tests, test_toolchains__they_may_be_in_different_stores);
    tcase_add_test(tests, test_toolchains__passing_trouble_of_the_driver_takes_the_next_one_too);
    tcase_add_test(tests, test_toolchains__none_that_loads_is_an_error);
    tcase_add_test(tests, test_toolchains__a_driver_without_memory_is_an_error);
    tcase_add_test(tests, test_toolchains__asynchronous_gets_do_the_same);
    tcase_add_test(tests, test_toolchains__a_compiler_that_is_there_is_asked_instead);
    suite_add_tcase(suite, tests);
    return suite;
}
