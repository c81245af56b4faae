/* Headers beside a user's template: the kernel of its twin depends on each that its text can reach, and on no other.
 * The C compiler is the stand-in but where the result of a kernel is looked at. */
#include "base/alloc.h"
#include "support/counting.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SPEC "template=toy dtype=f32 target=cpu"

static const char declarations[] = "//! template toy\n//! size n\n//! arg out out f32[n]\n//! arg n uint64 = n\n"
                                   "//! grid 1\n//! block 32\n//! entry toy align 4\n//! dtype f32\n"
                                   "extern \"C\" __global__ void toy(float *out, unsigned long long n) {}\n";

static kiln_service *service;
static kiln_report report = KILN_INIT(kiln_report);

static void write_text(const char *name, const char *text)
{
    kiln_test_temp_write(name, text, strlen(text));
}

static void open_service(const kiln_options *options)
{
    service = kiln_test_open(options);
    kiln_status status = kiln_template_load(service, kiln_test_temp_path("toy.cu"), NULL, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
}

static void set_up(void)
{
    const kiln_options options = kiln_test_counting_options(0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("sub"), 0700), 0);
    write_text("toy.cu", declarations);
    write_text("toy.c", "#include \"a.h\"\n  #  include\t\"sub/b.h\"\n#include \"nowhere.h\"\n#include \"../out.h\"\n");
    write_text("a.h", "/* a */\n");
    write_text("c.h", "/* c */\n");
    write_text("sub/b.h", "#include \"c.h\"\n#include \"d.h\"\n");
    write_text("sub/d.h", "#include \"../sub/d.h\"\n#include \"b.h\"\n");
    open_service(&options);
}

static void tear_down(void)
{
    kiln_close(service);
    kiln_report_clear(&report);
}

static kiln_status build_spec(const kiln_spec *spec)
{
    kiln_program *program;
    kiln_status status = kiln_test_build_spec(&program, service, spec, &report);
    kiln_program_release(program);
    return status;
}

static kiln_status build(void)
{
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    kiln_status status = build_spec(spec);
    kiln_spec_free(spec);
    return status;
}

/* The kernel is had by so many compiles in all. */
static void expect_compiles(int count)
{
    ck_assert_msg(build() == KILN_OK, "%s", report.message);
    ck_assert_int_eq(kiln_test_counting_count(), count);
}

START_TEST(test_headers__each_that_the_twin_reaches_counts)
{
    expect_compiles(1);
    expect_compiles(1);
    write_text("a.h", "/* another */\n");
    expect_compiles(2);
    write_text("sub/d.h", "/* beside sub/b.h */\n");
    expect_compiles(3);
    write_text("c.h", "/* in the folder of the template */\n");
    expect_compiles(4);
    write_text("sub/c.h", "/* nearer than c.h */\n");
    expect_compiles(5);
    write_text("c.h", "/* out of reach now */\n");
    expect_compiles(5);
    write_text("a.h", "/* a */\n");
    expect_compiles(6);
    write_text("a.h", "/* another */\n");
    expect_compiles(6);
    write_text("nowhere.h", "/* is there now */\n");
    expect_compiles(7);
}
END_TEST

/* Such a file would be in no key. */
START_TEST(test_headers__absolute_paths_are_refused)
{
    static const char *const forms[] = { "#include \"%s\"\n", "#include <%s>\n" };
    char text[512];
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), forms[i], kiln_test_temp_path("a.h"));
        write_text("c.h", text);
        ck_assert_int_eq(build(), KILN_EINVAL);
        ck_assert_msg(strstr(report.message, "name headers as they lie in the folder") != NULL, "%s", report.message);
    }
}
END_TEST

START_TEST(test_headers__others_do_not_count)
{
    expect_compiles(1);
    write_text("e.h", "/* not named */\n");
    write_text("out.h", "/* above the folder is nothing that counts */\n");
    expect_compiles(1);
}
END_TEST

/* Calls the kernel, which stores VALUE of a.h. */
static float stored_value(void)
{
    float out = 0;
    const void *none = &out;
    kiln_kernel *kernel = kiln_test_get(service, SPEC);
    kiln_status status = kiln_test_launch(kernel, 1, &out, &none, NULL, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    kiln_kernel_release(kernel);
    return out;
}

START_TEST(test_headers__edited_they_change_the_kernel_of_the_next_service)
{
    const kiln_options options = kiln_test_options();
    write_text("toy.c", "#include <math.h>\n#include \"a.h\"\n"
                        "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin,\n"
                        "    unsigned long long end, void *const *args);\n"
                        "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)\n"
                        "{ float *out = *(float *const *)args[0]; out[0] = sqrtf(VALUE); (void)begin; (void)end; }\n");
    write_text("a.h", "#define VALUE 4.0f\n");
    for (int i = 0; i < 2; i++) {
        kiln_close(service);
        open_service(&options);
        ck_assert_float_eq(stored_value(), i == 0 ? 2 : 3);
        write_text("a.h", "#define VALUE 9.0f\n");
        ck_assert_float_eq(stored_value(), i == 0 ? 2 : 3);
    }
}
END_TEST

START_TEST(test_headers__that_cannot_be_read_are_named)
{
    enum { TOO_LONG = (1 << 20) + 1, TOO_MANY = 257 };
    char *text = calloc(TOO_LONG + 1, 1), name[32];
    ck_assert_ptr_nonnull(text);
    memset(text, ' ', TOO_LONG);
    write_text("a.h", text);
    ck_assert_int_eq(build(), KILN_EIO);
    ck_assert_ptr_nonnull(strstr(report.message, "/a.h cannot be read: it has more than 1 MiB"));
    kiln_test_temp_write("a.h", "\0", 1);
    ck_assert_int_eq(build(), KILN_EIO);
    ck_assert_ptr_nonnull(strstr(report.message, "/a.h cannot be read: it is no text"));
    text[0] = '\0';
    for (int i = 0; i < TOO_MANY; i++) {
        snprintf(name, sizeof(name), "many%d.h", i);
        write_text(name, "");
        snprintf(text + strlen(text), 64, "#include \"%s\"\n", name);
    }
    write_text("a.h", text);
    ck_assert_int_eq(build(), KILN_EIO);
    ck_assert_ptr_nonnull(strstr(report.message, "a twin may have 256 at most"));
    ck_assert_int_eq(kiln_test_counting_count(), 0);
    free(text);
}
END_TEST

static atomic_int allocations_left;

static int fail_one_allocation(void)
{
    return atomic_fetch_sub(&allocations_left, 1) == 0;
}

START_TEST(test_headers__allocation_that_fails_is_a_status)
{
    const kiln_options options = kiln_test_counting_options(0);
    int failed = 0;
    bool fired = true;
    for (int n = 0; fired && n < 2000; n++) {
        char text[32];
        snprintf(text, sizeof(text), "/* %d */\n", n);
        write_text("a.h", text);
        kiln_spec *spec = kiln_test_spec(service, SPEC);
        atomic_store(&allocations_left, n);
        kiln__alloc_set_hook(fail_one_allocation);
        kiln_status status = build_spec(spec);
        kiln__alloc_set_hook(NULL);
        kiln_spec_free(spec);
        fired = atomic_load(&allocations_left) < 0;
        ck_assert_msg(status == KILN_OK || status == KILN_ENOMEM, "allocation %d: %s: %s", n, kiln_status_name(status),
                      report.message);
        failed += status != KILN_OK;
        kiln_close(service);
        open_service(&options);
    }
    ck_assert_int_gt(failed, 20);
}
END_TEST

Suite *kiln_test_service_headers_suite(void)
{
    Suite *suite = suite_create("headers");
    TCase *tcase = tcase_create("headers");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_headers__each_that_the_twin_reaches_counts);
    tcase_add_test(tcase, test_headers__absolute_paths_are_refused);
    tcase_add_test(tcase, test_headers__others_do_not_count);
    tcase_add_test(tcase, test_headers__edited_they_change_the_kernel_of_the_next_service);
    tcase_add_test(tcase, test_headers__that_cannot_be_read_are_named);
    tcase_add_test(tcase, test_headers__allocation_that_fails_is_a_status);
    suite_add_tcase(suite, tcase);
    return suite;
}
