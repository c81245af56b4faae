#include "base/alloc.h"
#include "spec/spec.h"
#include "support/suites.h"
#include <stdlib.h>
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

/* What was visited: each spec's text and a newline. */
typedef struct visits {
    kiln__text lines;
    uint32_t count, stop_after;
} visits;

static int visit(void *data, const kiln_spec *spec)
{
    visits *v = data;
    kiln__text_append(&v->lines, spec->text);
    kiln__text_append(&v->lines, "\n");
    return ++v->count == v->stop_after;
}

static int count_only(void *data, const kiln_spec *spec)
{
    visits *v = data;
    ck_assert_ptr_nonnull(spec);
    v->count++;
    return 0;
}

static kiln_status targets_of(void *data, const char *word, kiln__text *out, kiln_report *report)
{
    const char *native = data;
    if (strcmp(word, "all") == 0) {
        kiln__text_append(out, "sm_75,sm_90,sm_100");
        return KILN_OK;
    }
    ck_assert_str_eq(word, "native");
    if (native == NULL)
        return kiln__fail(report, KILN_ENODEVICE, KILN__STAGE_DEVICE, 0, "no device");
    kiln__text_append(out, native);
    return KILN_OK;
}

static const struct {
    const char *line, *specs;
} good[] = {
    { "", "\n" },
    { "op=relu6", "op=relu6\n" },
    { "op=relu6 dtype=", "op=relu6\n" },
    { "op=relu6,hardtanh(-1,1) dtype=f32,f16",
      "op=relu6 dtype=f32\nop=relu6 dtype=f16\nop=hardtanh(-1,1) dtype=f32\nop=hardtanh(-1,1) dtype=f16\n" },
    { "dtype=f16,f32 op=relu6,copy", "op=relu6 dtype=f16\nop=copy dtype=f16\nop=relu6 dtype=f32\nop=copy dtype=f32\n" },
    { "op=add(relu6(x),hardtanh(y,-1,1)),mul", "op=add(relu6(x),hardtanh(y,-1,1))\nop=mul(x,y)\n" },
    { "op=hardtanh( -1 , 1 )", "op=hardtanh(-1,1)\n" },
    { "block=64..512*2", "block=64\nblock=128\nblock=256\nblock=512\n" },
    { "block=64..300*2", "block=64\nblock=128\nblock=256\n" },
    { "block=96..160+32,512", "block=96\nblock=128\nblock=160\nblock=512\n" },
    { "elems=3..5", "elems=3\nelems=4\nelems=5\n" },
    { "elems=7..7", "elems=7\n" },
    { "n=18446744073709551614..18446744073709551615", "n=18446744073709551614\nn=18446744073709551615\n" },
    { "n=1..18446744073709551615*4294967296", "n=1\nn=4294967296\n" },
    { "n=0..2", "n=0\nn=1\nn=2\n" },
    { "target=all", "target=sm_75\ntarget=sm_90\ntarget=sm_100\n" },
    { "target=cpu,native,all", "target=cpu\ntarget=sm_86\ntarget=sm_75\ntarget=sm_90\ntarget=sm_100\n" },
    { "cache=plain,stream elems=4 vector=2,4",
      "elems=4 vector=2 cache=plain\nelems=4 vector=4 cache=plain\nelems=4 vector=2 cache=stream\n"
      "elems=4 vector=4 cache=stream\n" },
};

START_TEST(test_expand__a_line_stands_for_its_product_last_field_fastest)
{
    kiln_report report = KILN_INIT(kiln_report);
    visits v = { 0 };
    kiln_status status = kiln__spec_expand(&catalog, good[_i].line, targets_of, "sm_86", visit, &v, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    ck_assert_str_eq(kiln__text_string(&v.lines), good[_i].specs);
    kiln__text_fini(&v.lines);
}
END_TEST

static const struct {
    const char *line;
    kiln_status status;
    const char *problem;
} bad[] = {
    { "op=relu6,reluu", KILN_EOP, "unknown op 'reluu': did you mean relu?" },
    { "dtype=f32,f31", KILN_ESPEC,
      "unknown dtype 'f31': f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8 or bool" },
    { "block=32..64", KILN_ESPEC, "block=33 is not a multiple of 32: the nearest are 32 and 64" },
    { "elems=4,6 vector=4", KILN_ESPEC,
      "elems=6 vector=4: elems must be a multiple of vector; nearest: elems=4, elems=8 or vector=2" },
    { "op=relu6,", KILN_ESPEC, "op=relu6,: a value is missing beside a comma" },
    { "op=,relu6", KILN_ESPEC, "op=,relu6: a value is missing beside a comma" },
    { "dtype=,", KILN_ESPEC, "dtype=,: a value is missing beside a comma" },
    { "cache=0..1", KILN_ESPEC, "cache=0..1: only fields of whole numbers take ranges" },
    { "dtype=f16..f32", KILN_ESPEC, "dtype=f16..f32: only fields of whole numbers take ranges" },
    { "block=512..64", KILN_ESPEC, "block=512..64 is empty: the first number is above the last" },
    { "block=64..512*1", KILN_ESPEC, "block=64..512*1 never ends: begin above 0 and multiply by 2 or more" },
    { "n=0..8*2", KILN_ESPEC, "n=0..8*2 never ends: begin above 0 and multiply by 2 or more" },
    { "n=0..8+0", KILN_ESPEC, "n=0..8+0 never ends: step by 1 or more" },
    { "n=1..", KILN_ESPEC, "n=1.. is not a range: write A..B, A..B+STEP or A..B*FACTOR" },
    { "n=..3", KILN_ESPEC, "n=..3 is not a range: write A..B, A..B+STEP or A..B*FACTOR" },
    { "n=1..3..5", KILN_ESPEC, "n=1..3..5 is not a range: write A..B, A..B+STEP or A..B*FACTOR" },
    { "n=1..3+", KILN_ESPEC, "n=1..3+ is not a range: write A..B, A..B+STEP or A..B*FACTOR" },
    { "n=-1..3", KILN_ESPEC, "n=-1..3 is not a range: write A..B, A..B+STEP or A..B*FACTOR" },
    { "blok=1..3", KILN_ESPEC, "blok=1..3: only fields of whole numbers take ranges" },
    { "blok=32,64", KILN_ESPEC, "unknown field 'blok': did you mean block?" },
    { "block=32,64 block=96", KILN_ESPEC, "field block given twice" },
    { "relu6", KILN_ESPEC, "'relu6' is not a field: write field=value, such as op=hardsigmoid" },
    { "n=1..65537", KILN_ESPEC, "field n stands for more than 65536 values" },
    { "n=1..256 elems=1..64 cache=plain,stream dtype=f32,f16,f64", KILN_ESPEC,
      "the line stands for more than 65536 specs" },
    { "target=native", KILN_ENODEVICE, "no device" },
    { "target=al", KILN_ETARGET, "unknown target 'al': cpu, or sm_ and a number, such as sm_90" },
};

START_TEST(test_expand__every_spec_is_checked_before_the_first_call)
{
    kiln_report report = KILN_INIT(kiln_report);
    visits v = { 0 };
    ck_assert_int_eq(kiln__spec_expand(&catalog, bad[_i].line, targets_of, NULL, visit, &v, &report), bad[_i].status);
    ck_assert_str_eq(report.message, bad[_i].problem);
    ck_assert_uint_eq(v.count, 0);
}
END_TEST

START_TEST(test_expand__without_a_callback_all_is_an_unknown_target)
{
    kiln_report report = KILN_INIT(kiln_report);
    visits v = { 0 };
    ck_assert_int_eq(kiln__spec_expand(&catalog, "target=all", NULL, NULL, visit, &v, &report), KILN_ETARGET);
    ck_assert_int_eq(kiln__spec_expand(&catalog, "target=native", targets_of, "", visit, &v, &report), KILN_ETARGET);
    ck_assert_str_eq(report.message, "target=native stands for no target here");
    ck_assert_uint_eq(v.count, 0);
}
END_TEST

START_TEST(test_expand__stops_when_told)
{
    visits v = { .stop_after = 2 };
    ck_assert_int_eq(kiln__spec_expand(&catalog, "n=1..100", NULL, NULL, visit, &v, NULL), KILN_OK);
    ck_assert_str_eq(kiln__text_string(&v.lines), "n=1\nn=2\n");
    kiln__text_fini(&v.lines);
}
END_TEST

START_TEST(test_expand__reaches_its_limit)
{
    kiln_report report = KILN_INIT(kiln_report);
    visits v = { 0 };
    kiln_status status =
        kiln__spec_expand(&catalog, "n=1..512 elems=1..64 cache=plain,stream", NULL, NULL, count_only, &v, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    ck_assert_uint_eq(v.count, KILN__EXPAND_MAX);
}
END_TEST

/* Else a line of many specs with one long value would keep a machine busy for minutes. */
START_TEST(test_expand__long_values_are_refused)
{
    kiln_report report = KILN_INIT(kiln_report);
    visits v = { 0 };
    char *text = malloc(40000);
    ck_assert_ptr_nonnull(text);
    memset(text, ' ', 40000);
    memcpy(text, "op=relu6(", 9);
    strcpy(text + 16000, ")");
    ck_assert_int_eq(kiln__spec_expand(&catalog, text, NULL, NULL, count_only, &v, &report), KILN_OK);
    ck_assert_uint_eq(v.count, 1);
    memset(text + 16000, ' ', 2);
    strcpy(text + 17000, ")");
    ck_assert_int_eq(kiln__spec_expand(&catalog, text, NULL, NULL, count_only, &v, &report), KILN_ESPEC);
    ck_assert_str_eq(report.message, "op=relu6(                               ... is longer than 16384 characters");
    strcpy(text + 9000, ") n=");
    memset(text + 9004, '0', 8000);
    text[17004] = '\0';
    ck_assert_int_eq(kiln__spec_expand(&catalog, text, NULL, NULL, count_only, &v, &report), KILN_ESPEC);
    ck_assert_str_eq(report.message, "a spec of the line is longer than 16384 characters");
    free(text);
}
END_TEST

START_TEST(test_expand__a_megabyte_is_refused_at_once)
{
    static const char *const heads[] = { "op=relu6", "a=1", "target=all", "n=1..9" };
    static const char *const pieces[] = { ",relu6", " b=2", ",all", ",1..9", "(", ",", " " };
    size_t size = 1 << 20, length = strlen(pieces[_i]);
    char *text = malloc(size + 20);
    ck_assert_ptr_nonnull(text);
    for (int head = 0; head < COUNT(heads); head++) {
        visits v = { 0 };
        size_t at = strlen(heads[head]);
        memcpy(text, heads[head], at);
        for (; at < size; at += length)
            memcpy(text + at, pieces[_i], length);
        text[at] = '\0';
        kiln_status status = kiln__spec_expand(&catalog, text, targets_of, "cpu", count_only, &v, NULL);
        ck_assert((status == KILN_OK) == (v.count > 0));
        ck_assert_int_eq(status == KILN_OK, pieces[_i][0] == ' ' && length == 1 && head != 1);
    }
    free(text);
}
END_TEST

static int allocations_left;

static int allow_some(void)
{
    return allocations_left-- <= 0;
}

START_TEST(test_expand__every_failed_allocation_is_reported)
{
    kiln_status status = KILN_ENOMEM;
    int attempts = 0;
    for (; status == KILN_ENOMEM; attempts++) {
        visits v = { 0 };
        allocations_left = attempts;
        kiln__alloc_set_hook(allow_some);
        status =
            kiln__spec_expand(&catalog, "n=1..20 target=all op=relu6,add(x,y)", targets_of, NULL, count_only, &v, NULL);
        kiln__alloc_set_hook(NULL);
        /* Each spec that is shown takes memory of its own, which may be short when others were shown. */
        ck_assert(status == KILN_OK ? v.count == 120 : v.count < 120);
    }
    ck_assert_int_eq(status, KILN_OK);
    ck_assert_int_gt(attempts, 5);
}
END_TEST

Suite *kiln_test_spec_expand_suite(void)
{
    Suite *suite = suite_create("expand");
    TCase *tcase = tcase_create("expand");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, test_expand__a_line_stands_for_its_product_last_field_fastest, 0, COUNT(good));
    tcase_add_loop_test(tcase, test_expand__every_spec_is_checked_before_the_first_call, 0, COUNT(bad));
    tcase_add_test(tcase, test_expand__without_a_callback_all_is_an_unknown_target);
    tcase_add_test(tcase, test_expand__stops_when_told);
    tcase_add_test(tcase, test_expand__reaches_its_limit);
    tcase_add_test(tcase, test_expand__long_values_are_refused);
    tcase_add_loop_test(tcase, test_expand__a_megabyte_is_refused_at_once, 0, 7);
    tcase_add_test(tcase, test_expand__every_failed_allocation_is_reported);
    suite_add_tcase(suite, tcase);
    return suite;
}
