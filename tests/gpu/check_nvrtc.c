/* NVRTC as a compiler, and what it makes in the stand-in driver. Without NVRTC only the tests of its absence run. */
#include "gpu/cubin.h"
#include "gpu/cuda.h"
#include "gpu/driver.h"
#include "support/fake_cuda.h"
#include "support/flat.h"
#include "support/shortage.h"
#include "support/suites.h"
#include "support/temp.h"
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char good_source[] =
    "extern \"C\" __global__ void kiln_vector(float *out, const float *x, unsigned long long n)\n"
    "{ unsigned long long i = blockIdx.x * 512ull + threadIdx.x; if (i < n) out[i] = x[i] + 1; }\n"
    "extern \"C\" __global__ void kiln_scalar(float *out, const float *x, unsigned long long n)\n"
    "{ if (n) *out = *x; }\n";
static char bad_source[] = "extern \"C\" __global__ void kiln_vector(float *out)\n{\n    *out = missing;\n}\n";
static char warning_source[] = "extern \"C\" __global__ void kiln_vector(float *out)\n{ int unused; *out = 1; }\n"
                               "extern \"C\" __global__ void kiln_scalar(float *out) { *out = 2; }\n";
static char spec_text[] = "op=test dtype=f32";

static kiln__compiler *compiler;
static kiln_report report = KILN_INIT(kiln_report);

static void set_up(void)
{
    compiler = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    ck_assert_ptr_nonnull(compiler);
}

static void tear_down(void)
{
    compiler->vtable->close(compiler);
    kiln_report_clear(&report);
}

static void check_report(kiln_status status, kiln_status expected, const char *text)
{
    ck_assert_msg(status == expected, "%s, expected %s: %s", kiln_status_name(status), kiln_status_name(expected),
                  report.message);
    ck_assert_msg(strstr(report.message, text) != NULL, "'%s' is not in: %s", text, report.message);
}

static void check_ok(kiln_status status)
{
    ck_assert_msg(status == KILN_OK, "%s: %s\n%s", kiln_status_name(status), report.message,
                  report.log != NULL ? report.log : "");
}

static kiln__unit sample_unit(char *source, const char *target)
{
    kiln__unit unit = { .spec = spec_text, .source = source, .source_length = strlen(source) };
    ck_assert(kiln__target_parse(target, strlen(target), &unit.target));
    unit.rule = (kiln__rule){ .block = { 128, 1, 1 }, .tile = 512, .entry_count = 2 };
    strcpy(unit.rule.entries[0].name, "kiln_vector");
    strcpy(unit.rule.entries[1].name, "kiln_scalar");
    unit.rule.entries[0].align = unit.rule.entries[1].align = 4;
    return unit;
}

/* ---- Absence */

START_TEST(test_nvrtc__missing_library_says_what_to_do)
{
    kiln__compiler *other = kiln__cuda_compiler_open("/nonexistent/libnvrtc.so.13", NULL);
    kiln__unit unit = sample_unit(good_source, "sm_90");
    kiln__toolchain toolchain;
    kiln__image image;
    check_report(other->vtable->open(other, &toolchain, &report), KILN_ENOCOMPILER, "/nonexistent/libnvrtc.so.13");
    ck_assert_ptr_nonnull(strstr(report.message, "KILN_NVRTC"));
    check_report(other->vtable->identify(other, &toolchain, &report), KILN_ENOCOMPILER, "KILN_NVRTC");
    check_report(other->vtable->compile(other, &unit, &image, &report), KILN_ENOCOMPILER, "KILN_NVRTC");
    ck_assert_ptr_null(image.binary);
    ck_assert_ptr_null(image.ptx);
    other->vtable->close(other);
}
END_TEST

START_TEST(test_nvrtc__another_library_is_refused)
{
    kiln__compiler *other = kiln__cuda_compiler_open("libm.so.6", NULL);
    kiln__toolchain toolchain;
    check_report(other->vtable->open(other, &toolchain, &report), KILN_ENOCOMPILER, "has no nvrtcVersion");
    other->vtable->close(other);
}
END_TEST

START_TEST(test_nvrtc__search_tells_libraries_apart_and_opens_none)
{
    kiln__compiler *named = kiln__cuda_compiler_open("/nonexistent/libnvrtc.so.13", NULL);
    kiln__compiler *searched = kiln__cuda_compiler_open(NULL, NULL);
    kiln__toolchain toolchain;
    kiln__text a = { 0 }, b = { 0 }, again = { 0 };
    named->vtable->search(named, &a);
    searched->vtable->search(searched, &b);
    ck_assert_ptr_nonnull(strstr(kiln__text_string(&a), "path /nonexistent/libnvrtc.so.13"));
    ck_assert_str_ne(kiln__text_string(&a), kiln__text_string(&b));
    searched->vtable->open(searched, &toolchain, NULL);
    searched->vtable->search(searched, &again);
    ck_assert_str_eq(kiln__text_string(&b), kiln__text_string(&again));
    kiln__text_fini(&a);
    kiln__text_fini(&b);
    kiln__text_fini(&again);
    named->vtable->close(named);
    searched->vtable->close(searched);
}
END_TEST

START_TEST(test_nvrtc__options_begin_with_the_target)
{
    kiln__unit unit = sample_unit(good_source, "sm_100a");
    kiln__text text = { 0 };
    compiler->vtable->options(compiler, &unit, &text);
    ck_assert_int_eq(strncmp(kiln__text_string(&text), "--gpu-architecture=sm_100a --no-cache ", 38), 0);
    kiln__text_fini(&text);
}
END_TEST

/* ---- Compiling */

START_TEST(test_nvrtc__identity)
{
    kiln__toolchain before, after, again;
    check_ok(compiler->vtable->open(compiler, &before, &report));
    ck_assert_str_eq(before.id, "");
    ck_assert_int_eq(before.path[0], '/');
    ck_assert_uint_ge(before.target_count, 5);
    check_ok(compiler->vtable->identify(compiler, &after, &report));
    ck_assert_int_eq(strncmp(after.id, "nvrtc-1", 7), 0);
    ck_assert_int_eq(strncmp(after.version, before.version, strlen(before.version)), 0);
    ck_assert_ptr_nonnull(strstr(after.version, ", build "));
    check_ok(compiler->vtable->open(compiler, &again, &report));
    ck_assert_str_eq(again.id, after.id);
}
END_TEST

START_TEST(test_nvrtc__image_is_complete)
{
    kiln__unit unit = sample_unit(good_source, "sm_90");
    char reason[KILN__CUBIN_REASON_SIZE];
    kiln__toolchain toolchain;
    kiln__image image;
    check_ok(compiler->vtable->compile(compiler, &unit, &image, &report));
    ck_assert(kiln__cubin_check(image.binary, image.binary_length, reason));
    ck_assert(kiln__cubin_has_entry(image.binary, "kiln_scalar"));
    ck_assert_uint_eq(image.ptx_length, strlen(image.ptx));
    ck_assert_ptr_nonnull(strstr(image.ptx, ".target sm_90"));
    ck_assert(image.log == NULL || image.log[0] == '\0');
    check_ok(compiler->vtable->open(compiler, &toolchain, &report));
    ck_assert_str_eq(image.toolchain, toolchain.id);
    kiln__image_fini(&image);
}
END_TEST

START_TEST(test_nvrtc__cubin_tells_the_bytes_of_parameters)
{
    static char source[] = "struct S { float f[5]; char c; }; struct B { int v[2000]; };\n"
                           "extern \"C\" __global__ void kiln_vector(float *x, char a, short b, S s, double d, int n)\n"
                           "{ x[n] = a + b + s.f[0] + d; }\n"
                           "extern \"C\" __global__ void kiln_scalar(B s, int *out) { *out = s.v[3]; }\n"
                           "extern \"C\" __global__ void none() {}\n";
    static const char *const targets[] = { "sm_75", "sm_90", "sm_120" };
    static const size_t expected[] = { 8, 1, 2, 24, 8, 4 };
    kiln__unit unit = sample_unit(source, targets[_i]);
    kiln__image image;
    size_t sizes[8];
    check_ok(compiler->vtable->compile(compiler, &unit, &image, &report));
    ck_assert_int_eq(kiln__cubin_parameters(image.binary, "kiln_vector", sizes, 8), 6);
    for (int i = 0; i < 6; i++)
        ck_assert_uint_eq(sizes[i], expected[i]);
    ck_assert_int_eq(kiln__cubin_parameters(image.binary, "kiln_scalar", sizes, 8), 2);
    ck_assert_uint_eq(sizes[0], 8000);
    ck_assert_uint_eq(sizes[1], 8);
    ck_assert_int_eq(kiln__cubin_parameters(image.binary, "none", sizes, 8), 0);
    ck_assert_int_eq(kiln__cubin_parameters(image.binary, "absent", sizes, 8), -1);
    ck_assert_int_eq(kiln__cubin_parameters(image.binary, "kiln_vector", sizes, 6), -1); /* no room */
    kiln__image_fini(&image);
}
END_TEST

START_TEST(test_nvrtc__warnings_are_kept)
{
    kiln__unit unit = sample_unit(warning_source, "sm_90");
    kiln__image image;
    check_ok(compiler->vtable->compile(compiler, &unit, &image, &report));
    ck_assert_ptr_nonnull(image.log);
    ck_assert_ptr_nonnull(strstr(image.log, "unused"));
    kiln__image_fini(&image);
}
END_TEST

START_TEST(test_nvrtc__errors_come_with_the_log)
{
    kiln__unit unit = sample_unit(bad_source, "sm_90");
    kiln__image image;
    check_report(compiler->vtable->compile(compiler, &unit, &image, &report), KILN_ECOMPILE, "kiln.cu(3): error:");
    ck_assert_ptr_nonnull(strstr(report.message, "missing"));
    ck_assert_ptr_nonnull(report.log);
    ck_assert_ptr_nonnull(strstr(report.log, "missing"));
    ck_assert_int_eq(report.native, 6);
    ck_assert_str_eq(report.stage, "compile");
    ck_assert_ptr_null(image.binary);
}
END_TEST

START_TEST(test_nvrtc__missing_entry_point_is_an_error)
{
    kiln__unit unit = sample_unit(good_source, "sm_90");
    kiln__image image;
    strcpy(unit.rule.entries[1].name, "kiln_other");
    check_report(compiler->vtable->compile(compiler, &unit, &image, &report), KILN_ECOMPILE, "'kiln_other'");
    ck_assert_ptr_null(image.binary);
}
END_TEST

START_TEST(test_nvrtc__target_that_cannot_be_built_lists_those_that_can)
{
    kiln__unit unit = sample_unit(good_source, "sm_99");
    kiln__image image;
    check_report(compiler->vtable->compile(compiler, &unit, &image, &report), KILN_ETARGET, "cannot build for sm_99");
    ck_assert_ptr_nonnull(strstr(report.message, " sm_80 "));
    ck_assert_ptr_nonnull(strstr(report.message, "nearest is sm_90"));
    unit = sample_unit(good_source, "sm_75a");
    check_report(compiler->vtable->compile(compiler, &unit, &image, &report), KILN_ETARGET, "cannot build for sm_75a");
    unit = sample_unit(good_source, "sm_90a");
    check_ok(compiler->vtable->compile(compiler, &unit, &image, &report));
    kiln__image_fini(&image);
}
END_TEST

static kiln__image compiled[4];
static atomic_int next;

static void *compile_one(void *data)
{
    kiln__unit *unit = data;
    return (void *)(intptr_t)compiler->vtable->compile(compiler, unit, &compiled[next++], NULL);
}

/* On stacks of `stack` bytes; 0 for the default. */
static void compile_on_threads(size_t stack, int count)
{
    kiln__unit unit = sample_unit(good_source, "sm_90");
    pthread_attr_t attributes;
    pthread_t threads[4];
    pthread_attr_init(&attributes);
    if (stack != 0)
        ck_assert_int_eq(pthread_attr_setstacksize(&attributes, stack), 0);
    next = 0;
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(pthread_create(&threads[i], &attributes, compile_one, &unit), 0);
    for (int i = 0; i < count; i++) {
        void *status;
        pthread_join(threads[i], &status);
        ck_assert_ptr_eq(status, NULL);
    }
    pthread_attr_destroy(&attributes);
}

START_TEST(test_nvrtc__threads_make_equal_bytes)
{
    compile_on_threads(0, 4);
    for (int i = 1; i < 4; i++) {
        ck_assert_uint_eq(compiled[i].binary_length, compiled[0].binary_length);
        ck_assert_mem_eq(compiled[i].binary, compiled[0].binary, compiled[0].binary_length);
        ck_assert_str_eq(compiled[i].ptx, compiled[0].ptx);
    }
    for (int i = 0; i < 4; i++)
        kiln__image_fini(&compiled[i]);
}
END_TEST

/* NVRTC itself crashes on a stack of 64 KiB; sanitizers need some more for our own frames. */
START_TEST(test_nvrtc__small_stack_is_enough)
{
    compile_on_threads(64 * 1024, 1);
    kiln__image_fini(&compiled[0]);
}
END_TEST

START_TEST(test_nvrtc__image_loads_and_launches)
{
    const kiln_fake *fake = kiln_fake_open();
    kiln__backend *backend = kiln__cuda_open(kiln_fake_path(), NULL);
    const kiln__backend_vtable *vtable = backend->vtable;
    static const char *const targets[] = { "sm_90", "sm_90", "sm_80" };
    static const char *const sections[] = { "cubin", "ptx", "cubin" };
    kiln_device *device;
    check_ok(vtable->device_open(backend, 0, &device, &report));
    for (int i = 0; i < 3; i++) {
        kiln__unit unit = sample_unit(good_source, targets[i]);
        kiln__entry entry, part = { .kind = KILN__ENTRY_KERNEL };
        kiln__text names = { 0 };
        kiln__module *module;
        kiln__image image;
        kiln_fake_launch launch;
        bool used_ptx;
        check_ok(compiler->vtable->compile(compiler, &unit, &image, &report));
        check_ok(kiln__image_describe(&entry, &image, &unit, &names));
        const kiln__section *section = kiln__entry_find(&entry, sections[i]);
        kiln__entry_add(&part, sections[i], section->data, section->length);
        kiln_status status = vtable->load(device, &part, &unit.rule, &module, &used_ptx, &report);
        kiln__image_fini(&image);
        kiln__text_fini(&names);
        if (i == 2) {
            check_report(status, KILN_ETARGET, "cuda:0 is sm_90");
            continue;
        }
        check_ok(status);
        ck_assert_int_eq(used_ptx, i == 1);
        const void *in[] = { (void *)0x1000 };
        check_ok(kiln_test_launch_flat(vtable, module, 1, 512, 513, (void *)0x2000, in, 1, NULL, &report));
        fake->launches(&launch, 1);
        ck_assert_str_eq(launch.name, "kiln_scalar");
        ck_assert_uint_eq(launch.grid[0], 2);
        ck_assert_uint_eq(launch.parameter_count, 3);
        ck_assert_uint_eq(launch.parameters[0], 0x2000);
        ck_assert_uint_eq(launch.parameters[1], 0x1000);
        ck_assert_uint_eq(launch.parameters[2], 513);
        vtable->unload(module);
    }
    vtable->device_close(device);
    vtable->close(backend);
}
END_TEST

/* Outside of any test, where Check's assertions do not work. */
static bool is_there(void)
{
    kiln__compiler *probe = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    kiln__toolchain toolchain;
    kiln_status status = probe->vtable->open(probe, &toolchain, &report);
    if (status != KILN_OK)
        fprintf(stderr, "no NVRTC: tests that compile are left out: %s\n", report.message);
    probe->vtable->close(probe);
    kiln_report_clear(&report);
    return status == KILN_OK;
}

START_TEST(test_nvrtc__a_shortage_of_descriptors_is_no_missing_library)
{
    kiln__toolchain toolchain;
    kiln__driver *driver = NULL;
    kiln__compiler *fresh = kiln__cuda_compiler_open(getenv("KILN_STAND_IN_NVRTC"), NULL);
    take_descriptors();
    kiln_status of_driver = kiln__driver_open(&driver, NULL, NULL);
    kiln_status status = fresh->vtable->open(fresh, &toolchain, &report);
    give_descriptors();
    check_report(status, KILN_EIO, "ulimit -n");
    ck_assert_ptr_null(strstr(report.message, "install"));
    ck_assert_int_eq(report.native, EMFILE);
    ck_assert_int_eq(of_driver, KILN_EIO);
    ck_assert_ptr_null(driver);
    check_ok(fresh->vtable->open(fresh, &toolchain, &report));
    fresh->vtable->close(fresh);
}
END_TEST

/* ---- CUDA's headers */

static void write_header(const char *path, const char *text)
{
    char directory[256];
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(directory, sizeof(directory), "%.*s", (int)(slash - path), path);
        mkdir(kiln_test_temp_path(directory), 0755);
    }
    kiln_test_temp_write(path, text, strlen(text));
}

/* Compares the directories that are found with those in the temporary directory; NULL: none is. */
static void expect_headers(const char *nvrtc, const char *cuda, const char *cccl)
{
    char library[512], version[KILN__HEADERS_VERSION_SIZE];
    const char *expected[] = { cuda, cccl }, *place = NULL, *path;
    kiln__list places = { 0 };
    snprintf(library, sizeof(library), "%s", kiln_test_temp_path(nvrtc));
    kiln__cuda_find_headers(library, &places);
    for (int i = 0; i < 2; i++) {
        ck_assert(kiln__list_next_pair(&places, &place, &path));
        ck_assert_str_eq(place, i == 0 ? "cuda" : "cccl");
        ck_assert_int_eq(kiln__cuda_headers_facts(place, path, version), expected[i] != NULL);
        if (expected[i] != NULL)
            ck_assert_str_eq(path, kiln_test_temp_path(expected[i]));
        ck_assert_str_eq(version, expected[i] == NULL ? "" : i == 0 ? "99.1" : "4.2.1");
    }
    kiln__list_fini(&places);
}

/* A wheel's headers lack CCCL. The toolkit's is taken where it is of the same major version. */
START_TEST(test_nvrtc__cccl_of_the_next_place_is_taken)
{
    static const char nvrtc[] = "wheels/nvidia/cu99/lib/libnvrtc.so.99", wheel[] = "wheels/nvidia/cu99/include",
                      own[] = "wheels/nvidia/cu99/include/cccl", toolkit[] = "toolkit/include/cccl",
                      version[] = "#ifndef V\n#define CCCL_VERSION 4002001\n#endif\n";
    write_header(nvrtc, "");
    write_header("wheels/nvidia/cu99/include/cuda_fp16.h", "");
    write_header("wheels/nvidia/cu99/include/cuda.h", "/* CUDA_VERSION */\n#define CUDA_VERSION 99010\n");
    setenv("CUDA_PATH", kiln_test_temp_path("toolkit"), 1);
    unsetenv("CUDA_HOME");
    expect_headers(nvrtc, wheel, NULL); /* /usr/local/cuda has another major version */
    write_header("toolkit/include/cuda_fp16.h", "");
    write_header("toolkit/include/cuda.h", "#define CUDA_VERSION 98060\n");
    write_header("toolkit/include/cccl/cuda/std/version", "");
    write_header("toolkit/include/cccl/cuda/std/__cccl/version.h", version);
    expect_headers(nvrtc, wheel, NULL);
    write_header("toolkit/include/cuda.h", "#define CUDA_VERSION 99000\n");
    expect_headers(nvrtc, wheel, toolkit);
    setenv("CUDA_HOME", kiln_test_temp_path("toolkit"), 1);
    setenv("CUDA_PATH", "/nowhere", 1);
    expect_headers(nvrtc, wheel, toolkit);
    write_header("wheels/nvidia/cu99/include/cccl/cuda/std/version", "");
    write_header("wheels/nvidia/cu99/include/cccl/cuda/std/__cccl/version.h", version);
    expect_headers(nvrtc, wheel, own);
}
END_TEST

Suite *kiln_test_gpu_nvrtc_suite(void)
{
    Suite *suite = suite_create("nvrtc");
    TCase *absent = tcase_create("absent"), *present = tcase_create("present"), *headers = tcase_create("headers");
    kiln_test_temp_use(headers);
    tcase_add_test(headers, test_nvrtc__cccl_of_the_next_place_is_taken);
    suite_add_tcase(suite, headers);
    tcase_add_checked_fixture(absent, set_up, tear_down);
    tcase_add_test(absent, test_nvrtc__missing_library_says_what_to_do);
    tcase_add_test(absent, test_nvrtc__a_shortage_of_descriptors_is_no_missing_library);
    tcase_add_test(absent, test_nvrtc__another_library_is_refused);
    tcase_add_test(absent, test_nvrtc__search_tells_libraries_apart_and_opens_none);
    tcase_add_test(absent, test_nvrtc__options_begin_with_the_target);
    suite_add_tcase(suite, absent);
    tcase_add_checked_fixture(present, set_up, tear_down);
    tcase_add_test(present, test_nvrtc__identity);
    tcase_add_test(present, test_nvrtc__image_is_complete);
    tcase_add_loop_test(present, test_nvrtc__cubin_tells_the_bytes_of_parameters, 0, 3);
    tcase_add_test(present, test_nvrtc__warnings_are_kept);
    tcase_add_test(present, test_nvrtc__errors_come_with_the_log);
    tcase_add_test(present, test_nvrtc__missing_entry_point_is_an_error);
    tcase_add_test(present, test_nvrtc__target_that_cannot_be_built_lists_those_that_can);
    tcase_add_test(present, test_nvrtc__threads_make_equal_bytes);
    tcase_add_test(present, test_nvrtc__small_stack_is_enough);
    tcase_add_test(present, test_nvrtc__image_loads_and_launches);
    if (is_there())
        suite_add_tcase(suite, present);
    return suite;
}
