#include "base/alloc.h"
#include "support/declared.h"
#include "support/fields.h"
#include "support/suites.h"
#include "tune/space.h"
#include <stdio.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static kiln__catalog catalog;

static void set_up(void)
{
    ck_assert_int_eq(kiln__catalog_init(&catalog, NULL), KILN_OK);
}

static void tear_down(void)
{
    kiln__catalog_fini(&catalog);
}

/* A template "toy" of these lines, without a cpu twin. */
static void add_toy(const char *lines)
{
    kiln_report report = KILN_INIT(kiln_report);
    static char text[4000];
    kiln__template *template;
    snprintf(text, sizeof(text), "//! template toy\n//! inputs 1\n%s//! entry go align bytes\n%s", lines, DECLARED_OP);
    ck_assert_msg(kiln__template_read(&template, text, NULL, NULL, false, &report) == KILN_OK, "%s", report.message);
    catalog.templates[catalog.template_count++] = template;
}

static kiln_status make(kiln__space *out, const char *text, const char *target_name, kiln_report *report)
{
    kiln__fields spec;
    kiln__target target;
    ck_assert(kiln__target_parse(target_name, strlen(target_name), &target));
    kiln_status status = kiln_test_fields(&spec, &catalog, text, report);
    ck_assert(status == KILN_OK || status == KILN_ENOMEM);
    if (status == KILN_ENOMEM)
        memset(out, 0, sizeof(*out));
    return status != KILN_OK ? status : kiln__space_make(out, &spec, &target, report);
}

static kiln__space space_of(const char *text, const char *target)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__space space;
    ck_assert_msg(make(&space, text, target, &report) == KILN_OK, "%s", report.message);
    return space;
}

static void expect_variant(const kiln__space *space, size_t index, const char *text)
{
    kiln__fields spec;
    kiln__text line = { 0 };
    kiln__space_spec(space, index, &spec);
    kiln__spec_format(&spec, true, &line);
    ck_assert_str_eq(kiln__text_string(&line), text);
    kiln__text_fini(&line);
}

#define RELU "op=relu6 dtype=f32 "

static const struct {
    const char *spec, *target;
    size_t count;
    const char *first, *second, *last;
} spaces[] = {
    { "op=relu6", "sm_90", 120, RELU "block=128 elems=4 vector=4 cache=plain target=sm_90",
      RELU "block=64 elems=1 vector=1 cache=plain target=sm_90",
      RELU "block=1024 elems=16 vector=4 cache=stream target=sm_90" },
    { "op=relu6", "sm_100", 140, RELU "block=128 elems=4 vector=4 cache=plain target=sm_100",
      RELU "block=64 elems=1 vector=1 cache=plain target=sm_100",
      RELU "block=1024 elems=16 vector=8 cache=stream target=sm_100" },
    { "op=mul(add(x,y),z) dtype=f64", "sm_90", 70,
      "op=mul(add(x,y),z) dtype=f64 block=128 elems=2 vector=2 cache=plain target=sm_90",
      "op=mul(add(x,y),z) dtype=f64 block=64 elems=1 vector=1 cache=plain target=sm_90",
      "op=mul(add(x,y),z) dtype=f64 block=1024 elems=8 vector=2 cache=stream target=sm_90" },
    { "op=relu6 block=96 n=1000", "sm_90", 24, RELU "block=96 elems=4 vector=4 cache=plain target=sm_90 n=1000",
      RELU "block=96 elems=1 vector=1 cache=plain target=sm_90 n=1000",
      RELU "block=96 elems=16 vector=4 cache=stream target=sm_90 n=1000" },
    { "op=relu6 block=256 elems=6", "sm_90", 4, RELU "block=256 elems=6 vector=2 cache=plain target=sm_90",
      RELU "block=256 elems=6 vector=1 cache=plain target=sm_90",
      RELU "block=256 elems=6 vector=2 cache=stream target=sm_90" },
    { "op=relu6", "cpu", 5, RELU "block=1024 elems=64 vector=4 cache=plain target=cpu",
      RELU "block=1024 elems=4 vector=4 cache=plain target=cpu",
      RELU "block=1024 elems=32 vector=4 cache=plain target=cpu" },
    { "op=relu6 target=cpu", "sm_90", 5, RELU "block=1024 elems=64 vector=4 cache=plain target=cpu",
      RELU "block=1024 elems=4 vector=4 cache=plain target=cpu",
      RELU "block=1024 elems=32 vector=4 cache=plain target=cpu" },
    { "op=relu6 block=64 elems=4 vector=1 cache=plain", "sm_90", 1,
      RELU "block=64 elems=4 vector=1 cache=plain target=sm_90", NULL, NULL },
};

START_TEST(test_space__default_comes_first_and_fixed_fields_stay)
{
    kiln__space space = space_of(spaces[_i].spec, spaces[_i].target);
    ck_assert_uint_eq(space.count, spaces[_i].count);
    expect_variant(&space, 0, spaces[_i].first);
    if (spaces[_i].second != NULL) {
        expect_variant(&space, 1, spaces[_i].second);
        expect_variant(&space, space.count - 1, spaces[_i].last);
    }
    kiln__space_fini(&space);
}
END_TEST

START_TEST(test_space__every_variant_is_a_good_spec_and_comes_once)
{
    kiln__space space = space_of(spaces[_i].spec, spaces[_i].target);
    for (size_t i = 0; i < space.count; i++) {
        kiln__fields spec, again;
        kiln_report report = KILN_INIT(kiln_report);
        kiln__space_spec(&space, i, &spec);
        ck_assert_msg(kiln__spec_resolve(&again, &spec, &spec.target, &report) == KILN_OK, "%s", report.message);
        ck_assert_int_eq(space.variants[i].tile, spec.params[0] * spec.params[1]);
        for (size_t j = 0; j < i; j++)
            ck_assert(memcmp(space.variants[i].params, space.variants[j].params, sizeof(spec.params)) != 0);
        if (i > 1)
            ck_assert_int_ge(space.variants[i].tile, space.variants[i - 1].tile);
    }
    kiln__space_fini(&space);
}
END_TEST

START_TEST(test_space__what_is_left_out_is_counted_with_its_reason)
{
    static const struct {
        const char *text;
        size_t count;
    } expected[] = { { "elems must be a multiple of vector", 100 },
                     { "vector must not exceed 16 bytes per access (32 from sm_100 on)", 50 },
                     { "more than 64 bytes per thread cost registers and gain nothing", 30 } };
    kiln__space space = space_of("op=relu6", "sm_90");
    size_t combinations = space.count;
    ck_assert_uint_eq(space.reason_count, COUNT(expected));
    for (size_t i = 0; i < space.reason_count; i++) {
        combinations += space.reasons[i].count;
        for (int k = 0; k < COUNT(expected); k++)
            if (strcmp(space.reasons[i].text, expected[k].text) == 0)
                ck_assert_uint_eq(space.reasons[i].count, expected[k].count);
    }
    ck_assert_uint_eq(combinations, 5 * 6 * 5 * 2);
    kiln__space_fini(&space);
}
END_TEST

/* "tile block a mode" of each variant after the first. */
static void expect_others(const kiln__space *space, const char *expected)
{
    kiln__text text = { 0 };
    for (size_t i = 1; i < space->count; i++) {
        const kiln__combination *v = &space->variants[i];
        kiln__text_printf(&text, "%d:%d,%d,%d ", (int)v->tile, (int)v->params[0], (int)v->params[1], (int)v->params[2]);
    }
    ck_assert_str_eq(kiln__text_string(&text), expected);
    kiln__text_fini(&text);
}

#define BLOCK "//! param block 20..100 step 4 = 40\n"
#define A     "//! param a 1,3 = 3\n"
#define MODE  "//! param mode x,y = y\n"

static const struct {
    const char *lines;
    int64_t first[3];
    const char *others;
} toys[] = {
    /* Nothing said: powers of two of a range, all of a list, all words; the default is none of the powers. */
    { BLOCK A MODE "//! tile block\n",
      { 40, 3, 1 },
      "32:32,1,0 32:32,1,1 32:32,3,0 32:32,3,1 64:64,1,0 64:64,1,1 64:64,3,0 64:64,3,1 " },
    /* Small tiles first, then as declared. */
    { BLOCK A MODE "//! tune block 80,60\n//! tune mode y\n//! tile block * (4 - a)\n",
      { 40, 3, 1 },
      "60:60,3,1 80:80,3,1 180:60,1,1 240:80,1,1 " },
    /* The first line that holds, and the default where none does. */
    { BLOCK A MODE "//! tune block 60 if sm == 0\n//! tune block 80 if sm == 90\n//! tune block 100\n"
                   "//! tune a 1 if bytes == 2\n//! tune mode x if inputs == 2\n//! tile 1\n",
      { 40, 3, 1 },
      "1:80,3,1 " },
    /* A default that is among what is tried does not come again; one that is out of bounds comes all the same. */
    { BLOCK A MODE "//! tune block 40,60\n//! tune a 3\n//! tune mode y\n//! tile 1\n", { 40, 3, 1 }, "1:60,3,1 " },
    { BLOCK A MODE "//! tune block 40,60\n//! tune a 3\n//! bound block > 40\n//! tile 1\n",
      { 40, 3, 1 },
      "1:60,3,0 1:60,3,1 " },
    /* A default that follows from others, and a tile that comes to nothing. */
    { BLOCK A "//! param b 0..9 = a * 2\n//! tune block 60\n//! tune b 7 if sm == 0\n//! tile a - 1\n",
      { 40, 3, 6 },
      "2:60,3,6 " },
};

START_TEST(test_space__follows_the_declarations)
{
    add_toy(toys[_i].lines);
    kiln__space space = space_of("op=relu6 template=toy", "sm_90");
    for (int k = 0; k < 3; k++)
        ck_assert_int_eq(space.variants[0].params[k], toys[_i].first[k]);
    expect_others(&space, toys[_i].others);
    kiln__space_fini(&space);
}
END_TEST

START_TEST(test_space__impossible_default_is_an_error)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__space space;
    ck_assert_int_eq(make(&space, "op=relu6 dtype=f32 vector=8", "sm_90", &report), KILN_ESPEC);
    ck_assert_msg(strstr(report.message, "vector must not exceed 16 bytes") != NULL, "%s", report.message);
    ck_assert_ptr_null(space.variants);
    ck_assert_int_eq(make(&space, "dtype=f32", "sm_90", &report), KILN_ESPEC);
    ck_assert_msg(strstr(report.message, "the spec has no op") != NULL, "%s", report.message);
    add_toy(BLOCK "//! param a 1,3 = 4 / (sm - 90)\n//! tile block\n");
    ck_assert_int_eq(make(&space, "op=relu6 template=toy", "sm_90", &report), KILN_ESPEC);
    ck_assert_msg(strstr(report.message, "division by zero") != NULL, "%s", report.message);
}
END_TEST

START_TEST(test_space__condition_without_a_value_is_an_error)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__space space;
    add_toy(BLOCK "//! tune block 40 if 4 / (sm - 90)\n//! tile block\n");
    ck_assert_int_eq(make(&space, "op=relu6 template=toy", "sm_90", &report), KILN_ESPEC);
    ck_assert_msg(strstr(report.message, "division by zero") != NULL, "%s", report.message);
}
END_TEST

#define TEN(name) "//! param " name " 1,2,3,4,5,6,7,8,9,10 = 1\n"

START_TEST(test_space__is_bounded)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__space space;
    add_toy("//! param block 1..64 = 1\n//! tune block 1..9\n" TEN("a") TEN("b") TEN("c") TEN("d") "//! tile block\n");
    ck_assert_int_eq(make(&space, "op=relu6 template=toy", "sm_90", &report), KILN_ESPEC);
    ck_assert_str_eq(report.message, "the spec leaves more than 65536 combinations open: fix a parameter, such as d");
    ck_assert_int_eq(make(&space, "op=relu6 template=toy d=1", "sm_90", &report), KILN_ESPEC);
    ck_assert_str_eq(report.message, "the spec leaves more than 4096 variants open: fix a parameter");
    ck_assert_ptr_null(space.variants);
    space = space_of("op=relu6 template=toy d=1 c=2", "sm_90");
    ck_assert_uint_eq(space.count, 9 * 10 * 10);
    kiln__space_fini(&space);
}
END_TEST

static int allocations_left;

static int allow_some(void)
{
    return allocations_left-- <= 0;
}

START_TEST(test_space__every_failed_allocation_is_reported)
{
    kiln_status status = KILN_ENOMEM;
    int attempts = 0;
    for (; status == KILN_ENOMEM; attempts++) {
        kiln__space space;
        allocations_left = attempts;
        kiln__alloc_set_hook(allow_some);
        status = make(&space, "op=relu6", "sm_90", NULL);
        kiln__alloc_set_hook(NULL);
        ck_assert((status == KILN_OK) == (space.variants != NULL));
        kiln__space_fini(&space);
    }
    ck_assert_int_eq(status, KILN_OK);
    ck_assert_int_ge(attempts, 2);
}
END_TEST

Suite *kiln_test_tune_space_suite(void)
{
    Suite *suite = suite_create("space");
    TCase *tcase = tcase_create("space");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, test_space__default_comes_first_and_fixed_fields_stay, 0, COUNT(spaces));
    tcase_add_loop_test(tcase, test_space__every_variant_is_a_good_spec_and_comes_once, 0, COUNT(spaces));
    tcase_add_test(tcase, test_space__what_is_left_out_is_counted_with_its_reason);
    tcase_add_loop_test(tcase, test_space__follows_the_declarations, 0, COUNT(toys));
    tcase_add_test(tcase, test_space__impossible_default_is_an_error);
    tcase_add_test(tcase, test_space__condition_without_a_value_is_an_error);
    tcase_add_test(tcase, test_space__is_bounded);
    tcase_add_test(tcase, test_space__every_failed_allocation_is_reported);
    suite_add_tcase(suite, tcase);
    return suite;
}
