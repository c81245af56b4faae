/* Specs: their text and hash tell them apart, and one makes another. */
#include "spec/spec.h"
#include "support/suites.h"
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

static kiln_spec *parse(const char *text)
{
    kiln_spec *spec;
    ck_assert_msg(kiln__spec_parse(&spec, &catalog, text, NULL) == KILN_OK, "%s", text);
    return spec;
}

/* The hint left out. The hash of equal texts is equal. */
static bool same(const char *a, const char *b)
{
    kiln_spec *left = parse(a), *right = parse(b);
    bool equal = left->length == right->length && memcmp(left->text, right->text, left->length) == 0;
    ck_assert_msg(equal == (left->hash == right->hash), "%s and %s", a, b);
    kiln__spec_release(left);
    kiln__spec_release(right);
    return equal;
}

START_TEST(test_frozen__equal_specs_have_equal_text_however_they_are_written)
{
    ck_assert(same("op=hardtanh(-1,1) dtype=f32 block=64", "block=064  dtype=f32 op=hardtanh( x, hi=1.0 )"));
    ck_assert(same("op=relu6 n=5", "op=relu6 n=6"));
    ck_assert(same("op=add target=sm_90", "op=add(x,y) target=sm_90"));
    ck_assert(same("", ""));
}
END_TEST

START_TEST(test_frozen__every_field_counts)
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

START_TEST(test_frozen__values_and_text_have_every_field)
{
    kiln_spec *spec = parse("op=hardtanh(-1,2) block=64 target=sm_90 n=7");
    static const char *const values[][2] = {
        { "op", "hardtanh(-1,2)" }, { "template", "" }, { "dtype", "" }, { "block", "64" }, { "elems", "" },
        { "target", "sm_90" },      { "n", "7" }
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        int id = kiln__fields_find(spec->fields.template, (kiln__word){ values[i][0], strlen(values[i][0]) });
        ck_assert_int_ge(id, 0);
        ck_assert_str_eq(spec->values[id], values[i][1]);
    }
    ck_assert_str_eq(spec->text, "op=hardtanh(-1,2) block=64 target=sm_90 n=7");
    ck_assert_uint_eq(spec->length, strlen("op=hardtanh(-1,2) block=64 target=sm_90"));
    kiln__spec_release(spec);
}
END_TEST

static const struct {
    const char *spec, *line, *text; /* NULL: it is refused */
} changes[] = {
    { "op=relu6 block=64", "", "op=relu6 block=64" },
    { "op=relu6 block=64", "block=128 elems=8", "op=relu6 block=128 elems=8" },
    { "op=relu6 block=64 n=3", "block= n=", "op=relu6" },
    { "op=relu6 elems=4 vector=4", "elems=6", NULL },
    { "op=relu6 elems=4 vector=4", "elems=6 vector=2", "op=relu6 elems=6 vector=2" },
    { "op=relu6 block=64", "block=64 block=", NULL },
    { "op=relu6", "op=nope", NULL },
    { "op=relu6", "op=add(mul(x,y),z)", "op=add(mul(x,y),z)" },
    { "op=relu6 block=1024", "template=rowsum", "op=relu6 template=rowsum block=1024" },
    { "op=add template=rowsum", "template=", "op=add(x,y)" },
};

START_TEST(test_frozen__another_spec_has_the_fields_of_the_line)
{
    kiln_spec *spec = parse(changes[_i].spec), *again = parse(changes[_i].spec), *other;
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status = kiln__spec_with(&other, spec, changes[_i].line, &report);
    ck_assert_msg((status == KILN_OK) == (changes[_i].text != NULL), "%s", report.message);
    if (status == KILN_OK)
        ck_assert_str_eq(other->text, changes[_i].text);
    else
        ck_assert_ptr_null(other);
    ck_assert_str_eq(spec->text, again->text);
    kiln__spec_release(other);
    kiln__spec_release(again);
    kiln__spec_release(spec);
}
END_TEST

START_TEST(test_frozen__a_spec_outlives_what_it_was_made_of)
{
    kiln_spec *spec = parse("op=add(mul(x,y),z)"), *other;
    ck_assert_int_eq(kiln__spec_with(&other, spec, "dtype=f16", NULL), KILN_OK);
    ck_assert_ptr_eq(kiln__spec_retain(spec), spec);
    kiln__spec_release(spec);
    kiln__spec_release(spec);
    ck_assert_str_eq(other->text, "op=add(mul(x,y),z) dtype=f16");
    ck_assert_uint_eq(kiln__spec_inputs(&other->fields), 3);
    kiln__spec_release(other);
}
END_TEST

Suite *kiln_test_spec_frozen_suite(void)
{
    Suite *suite = suite_create("frozen");
    TCase *tcase = tcase_create("frozen");
    tcase_add_checked_fixture(tcase, open_catalog, close_catalog);
    tcase_add_test(tcase, test_frozen__equal_specs_have_equal_text_however_they_are_written);
    tcase_add_test(tcase, test_frozen__every_field_counts);
    tcase_add_test(tcase, test_frozen__values_and_text_have_every_field);
    tcase_add_loop_test(tcase, test_frozen__another_spec_has_the_fields_of_the_line, 0,
                        (int)(sizeof(changes) / sizeof(changes[0])));
    tcase_add_test(tcase, test_frozen__a_spec_outlives_what_it_was_made_of);
    suite_add_tcase(suite, tcase);
    return suite;
}
