#include "backend/backend.h"
#include "base/alloc.h"
#include "support/suites.h"
#include <string.h>

static char ptx[] = "//\n.version 9.0\n.target sm_90\n";
static char log_text[] = "kiln.cu(3): warning: unused\n";
static unsigned char bytes[] = { 1, 2, 0, 3 };

static kiln__unit sample_unit(const char *target)
{
    static char spec[] = "op=relu6 dtype=f32", source[] = "source";
    kiln__unit unit = { .spec = spec, .source = source, .source_length = strlen(source) };
    ck_assert(kiln__target_parse(target, strlen(target), &unit.target));
    return unit;
}

static void check_section(const kiln__entry *entry, const char *name, const void *data, size_t length)
{
    const kiln__section *section = kiln__entry_find(entry, name);
    ck_assert_msg(section != NULL, "no section %s", name);
    ck_assert_uint_eq(section->length, length);
    ck_assert_mem_eq(section->data, data, length);
}

START_TEST(test_image__of_a_gpu_has_cubin_ptx_and_names)
{
    kiln__unit unit = sample_unit("sm_90");
    kiln__image image = {
        .binary = bytes, .binary_length = sizeof(bytes), .ptx = ptx, .ptx_length = strlen(ptx), .log = log_text
    };
    kiln__text names = { 0 };
    kiln__entry entry;
    unit.rule.entry_count = 2;
    strcpy(unit.rule.entries[0].name, "kiln_vector");
    strcpy(unit.rule.entries[1].name, "kiln_scalar");
    ck_assert_int_eq(kiln__image_describe(&entry, &image, &unit, &names), KILN_OK);
    ck_assert_int_eq(entry.kind, KILN__ENTRY_KERNEL);
    ck_assert_uint_eq(entry.section_count, 5);
    check_section(&entry, "spec", unit.spec, strlen(unit.spec));
    check_section(&entry, "cubin", bytes, sizeof(bytes));
    check_section(&entry, "ptx", ptx, strlen(ptx));
    check_section(&entry, "names", "kiln_vector\nkiln_scalar\n", 24);
    check_section(&entry, "log", log_text, strlen(log_text));
    ck_assert_ptr_null(kiln__entry_find(&entry, "object"));
    kiln__text_fini(&names);
}
END_TEST

START_TEST(test_image__of_the_cpu_has_an_object)
{
    kiln__unit unit = sample_unit("cpu");
    char empty[] = "";
    kiln__image image = { .binary = bytes, .binary_length = sizeof(bytes), .log = empty };
    kiln__text names = { 0 };
    kiln__entry entry;
    ck_assert_int_eq(kiln__image_describe(&entry, &image, &unit, &names), KILN_OK);
    check_section(&entry, "object", bytes, sizeof(bytes));
    check_section(&entry, "names", "", 0);
    ck_assert_ptr_null(kiln__entry_find(&entry, "cubin"));
    ck_assert_ptr_null(kiln__entry_find(&entry, "ptx"));
    ck_assert_ptr_null(kiln__entry_find(&entry, "log"));
    kiln__text_fini(&names);
}
END_TEST

static int always(void)
{
    return 1;
}

START_TEST(test_image__without_memory_is_an_error)
{
    kiln__unit unit = sample_unit("sm_90");
    kiln__image image = { .binary = bytes, .binary_length = sizeof(bytes) };
    kiln__text names = { 0 };
    kiln__entry entry;
    unit.rule.entry_count = 1;
    strcpy(unit.rule.entries[0].name, "kiln_vector");
    kiln__alloc_set_hook(always);
    ck_assert_int_eq(kiln__image_describe(&entry, &image, &unit, &names), KILN_ENOMEM);
    kiln__alloc_set_hook(NULL);
    kiln__text_fini(&names);
}
END_TEST

START_TEST(test_image__fini_frees_and_empties)
{
    kiln__image image = { .binary = kiln__memdup(bytes, sizeof(bytes)),
                          .binary_length = sizeof(bytes),
                          .ptx = kiln__strdup(ptx),
                          .ptx_length = strlen(ptx),
                          .log = kiln__strdup(log_text) };
    strcpy(image.toolchain, "nvrtc-13.0.88-36424714");
    kiln__image_fini(&image);
    ck_assert_ptr_null(image.binary);
    ck_assert_ptr_null(image.ptx);
    ck_assert_ptr_null(image.log);
    ck_assert_uint_eq(image.binary_length, 0);
    ck_assert_str_eq(image.toolchain, "");
    kiln__image_fini(&image);
}
END_TEST

Suite *kiln_test_backend_image_suite(void)
{
    Suite *suite = suite_create("image");
    TCase *tcase = tcase_create("image");
    tcase_add_test(tcase, test_image__of_a_gpu_has_cubin_ptx_and_names);
    tcase_add_test(tcase, test_image__of_the_cpu_has_an_object);
    tcase_add_test(tcase, test_image__without_memory_is_an_error);
    tcase_add_test(tcase, test_image__fini_frees_and_empties);
    suite_add_tcase(suite, tcase);
    return suite;
}
