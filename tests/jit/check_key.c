#include "jit/builder.h"
#include "support/suites.h"
#include <string.h>

static kiln__key key_of(const char *target, const char *options, const char *source, kiln__text *text)
{
    kiln__unit unit = { .source = (char *)source, .source_length = strlen(source) };
    kiln__key key;
    ck_assert(kiln__target_parse(target, strlen(target), &unit.target));
    ck_assert_int_eq(kiln__key_make(&key, text, &unit, options), KILN_OK);
    return key;
}

static int same(const kiln__key *a, const kiln__key *b)
{
    return memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
}

START_TEST(test_key__everything_that_changes_bytes_changes_it)
{
    kiln__text text = { 0 }, other = { 0 };
    kiln__key base = key_of("sm_90", "-a -b", "int x;", &text);
    static const char *const changed[][3] = { { "sm_80", "-a -b", "int x;" },
                                              { "sm_90a", "-a -b", "int x;" },
                                              { "sm_90", "-a  -b", "int x;" },
                                              { "sm_90", "-a -b", "int y;" },
                                              { "sm_90", "-a -b", "int x; " } };
    for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++) {
        kiln__key key = key_of(changed[i][0], changed[i][1], changed[i][2], &other);
        ck_assert_msg(!same(&base, &key), "case %zu has the same key", i);
        kiln__text_fini(&other);
    }
    kiln__key again = key_of("sm_90", "-a -b", "int x;", &other);
    ck_assert(same(&base, &again));
    ck_assert_str_eq(kiln__text_string(&text), kiln__text_string(&other));
    kiln__text_fini(&other);
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_key__digest_is_that_of_its_text_and_toolchain_is_open)
{
    kiln__text text = { 0 };
    uint8_t digest[KILN__DIGEST_SIZE];
    kiln__key key = key_of("cpu", "-O3", "void f(void);", &text);
    kiln__digest(digest, text.data, text.length);
    ck_assert_mem_eq(digest, key.digest, sizeof(digest));
    ck_assert_str_eq(key.toolchain, "");
    ck_assert_ptr_nonnull(strstr(text.data, "target cpu\n"));
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_key__any_byte_of_the_source_changes_it)
{
    kiln__unit unit = { .source = (char *)"one two three", .source_length = 13 };
    kiln__text text = { 0 }, other = { 0 };
    kiln__key base, key;
    ck_assert(kiln__target_parse("sm_90", 5, &unit.target));
    ck_assert_int_eq(kiln__key_make(&base, &text, &unit, "-o"), KILN_OK);
    for (size_t i = 0; i <= unit.source_length; i++) {
        kiln__unit changed = unit;
        char source[] = "one two three";
        source[i < unit.source_length ? i : 0] ^= i < unit.source_length ? 1 : 0;
        changed.source = source;
        changed.source_length -= i == unit.source_length;
        ck_assert_int_eq(kiln__key_make(&key, &other, &changed, "-o"), KILN_OK);
        ck_assert(!same(&base, &key));
        kiln__text_fini(&other);
    }
    kiln__text_fini(&text);
}
END_TEST

Suite *kiln_test_jit_key_suite(void)
{
    Suite *suite = suite_create("key");
    TCase *tcase = tcase_create("key");
    tcase_add_test(tcase, test_key__everything_that_changes_bytes_changes_it);
    tcase_add_test(tcase, test_key__any_byte_of_the_source_changes_it);
    tcase_add_test(tcase, test_key__digest_is_that_of_its_text_and_toolchain_is_open);
    suite_add_tcase(suite, tcase);
    return suite;
}
