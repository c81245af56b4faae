#include "support/suites.h"
#include "template/identity.h"
#include <string.h>

static kiln__catalog catalog;

static void open_catalog(void)
{
    ck_assert_int_eq(kiln__catalog_init(&catalog, NULL), KILN_OK);
}

static void close_catalog(void)
{
    kiln__catalog_fini(&catalog);
}

static size_t identity_of(const char *text, uint8_t out[KILN__IDENTITY_MAX])
{
    kiln_spec spec;
    /* Whatever the spec's memory held before must not matter. */
    memset(&spec, 0x5a, sizeof(spec));
    ck_assert_msg(kiln__spec_parse(&spec, &catalog, text, NULL) == KILN_OK, "%s", text);
    return kiln__spec_identity(&spec, out);
}

static int same(const char *a, const char *b)
{
    static uint8_t left[KILN__IDENTITY_MAX], right[KILN__IDENTITY_MAX];
    size_t length = identity_of(a, left);
    return length == identity_of(b, right) && memcmp(left, right, length) == 0;
}

START_TEST(test_identity__equal_specs_have_it_however_they_are_written)
{
    ck_assert(same("op=hardtanh(-1,1) dtype=f32 block=64", "block=064  dtype=f32 op=hardtanh( x, hi=1.0 )"));
    ck_assert(same("op=relu6 n=5", "op=relu6 n=6"));
    ck_assert(same("op=add target=sm_90", "op=add(x,y) target=sm_90"));
    ck_assert(same("", ""));
}
END_TEST

START_TEST(test_identity__every_field_counts)
{
    static const char *const specs[] = { "op=relu6",
                                         "op=hardsigmoid",
                                         "op=hardtanh",
                                         "op=hardtanh(-1,2)",
                                         "op=add",
                                         "op=add(y,x)",
                                         "op=add(x,x)",
                                         "op=relu6(add(x,y))",
                                         "op=relu6 dtype=f32",
                                         "op=relu6 dtype=f16",
                                         "op=relu6 block=64",
                                         "op=relu6 block=128",
                                         "op=relu6 elems=64",
                                         "op=relu6 cache=plain",
                                         "op=relu6 cache=stream",
                                         "op=relu6 target=sm_90",
                                         "op=relu6 target=sm_90a",
                                         "op=relu6 target=cpu",
                                         "dtype=f32" };
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        for (size_t j = 0; j < i; j++)
            ck_assert_msg(!same(specs[i], specs[j]), "%s and %s are taken for the same", specs[i], specs[j]);
}
END_TEST

Suite *kiln_test_identity_suite(void)
{
    Suite *suite = suite_create("identity");
    TCase *tcase = tcase_create("identity");
    tcase_add_checked_fixture(tcase, open_catalog, close_catalog);
    tcase_add_test(tcase, test_identity__equal_specs_have_it_however_they_are_written);
    tcase_add_test(tcase, test_identity__every_field_counts);
    suite_add_tcase(suite, tcase);
    return suite;
}
