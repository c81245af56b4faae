/* Records, sets of them, and their text. */
#include "base/alloc.h"
#include "support/comma.h"
#include "support/suites.h"
#include "support/wisdom.h"
#include "wisdom/record.h"
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static char problem[KILN__WISDOM_REASON];

static void add(kiln__wisdom_set *set, const kiln__wisdom_entry *record, kiln__wisdom_fate fate)
{
    ck_assert_msg(kiln__wisdom_record_check(record, problem), "%s", problem);
    ck_assert_int_eq(kiln__wisdom_set_add(set, record), fate);
}

static char *write_all(const kiln__wisdom_set *set)
{
    kiln__text text = { 0 };
    kiln__wisdom_write(set, &text);
    char *taken = kiln__text_take(&text);
    ck_assert_ptr_nonnull(taken);
    return taken;
}

static kiln__wisdom_fault read_text(kiln__wisdom_set *out, const char *text)
{
    return kiln__wisdom_read(out, text, strlen(text), problem);
}

START_TEST(test_wisdom__what_is_written_reads_back)
{
    kiln__wisdom_set set = { 0 }, again;
    kiln__wisdom_entry a = kiln_test_record(H200, "relu6", "f32", 26, "block=128 elems=4 vector=4 cache=stream");
    kiln__wisdom_entry b = kiln_test_record("\"quoted\\ model\"", "hardtanh(-1,1)", "f16", 0, "block=64");
    a.ms = 1.0 / 3;
    a.gbps = 4278123.4567;
    b.ratio = 1e-30;
    add(&set, &a, KILN__WISDOM_ADDED);
    add(&set, &b, KILN__WISDOM_ADDED);
    char *text = write_all(&set);
    ck_assert_msg(read_text(&again, text) == KILN__WISDOM_GOOD, "%s in %s", problem, text);
    ck_assert_str_eq(problem, "");
    ck_assert_uint_eq(again.count, 2);
    ck_assert(again.records[1]->ms == 0.333333);
    ck_assert(again.records[1]->gbps == 4278120);
    ck_assert(again.records[0]->ratio == 1e-30);
    again.records[1]->ms = a.ms;
    again.records[1]->gbps = a.gbps;
    ck_assert(kiln__wisdom_record_equal(again.records[1], &a));
    ck_assert(kiln__wisdom_record_equal(again.records[0], &b));
    kiln__free(text);
    kiln__wisdom_set_fini(&set);
    kiln__wisdom_set_fini(&again);
}
END_TEST

/* Figures that round differently in another mode. */
START_TEST(test_wisdom__the_text_is_the_same_whatever_the_host_rounds_to)
{
    static const int modes[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
    static const char file[] = "{\"format\": 1, \"records\": [{\"model\": \"m\", \"target\": \"sm_90\", "
                               "\"template\": \"elementwise\", \"class\": \"c\", \"op\": \"relu6\", \"dtype\": "
                               "\"f32\", \"log2_n\": 20, \"geometry\": \"block=128\", \"ms\": 0.1, \"gbps\": "
                               "4278123.4567, \"ratio\": 0.3, \"later\": 0.7}]}";
    kiln__wisdom_set set = { 0 };
    fenv_t own;
    ck_assert_int_eq(read_text(&set, file), KILN__WISDOM_GOOD);
    char *want = write_all(&set);
    kiln__wisdom_set_fini(&set);
    fegetenv(&own);
    fesetround(modes[_i]);
    feclearexcept(FE_ALL_EXCEPT);
    kiln__wisdom_fault fault = kiln__wisdom_read(&set, file, strlen(file), problem);
    kiln__text text = { 0 };
    kiln__wisdom_write(&set, &text);
    int mode = fegetround(), raised = fetestexcept(FE_ALL_EXCEPT);
    fesetenv(&own);
    ck_assert_int_eq(fault, KILN__WISDOM_GOOD);
    ck_assert_str_eq(kiln__text_string(&text), want);
    ck_assert_int_eq(mode, modes[_i]);
    ck_assert_int_eq(raised, 0);
    kiln__text_fini(&text);
    kiln__free(want);
    kiln__wisdom_set_fini(&set);
}
END_TEST

START_TEST(test_wisdom__a_file_has_one_record_on_each_line_in_one_order)
{
    kiln__wisdom_set set = { 0 }, other = { 0 };
    kiln__wisdom_entry records[4];
    for (unsigned i = 0; i < 4; i++)
        records[i] = kiln_test_record(i < 2 ? H200 : H100, "relu6", "f32", 20 + i, "block=128");
    for (unsigned i = 0; i < 4; i++) {
        add(&set, &records[i], KILN__WISDOM_ADDED);
        add(&other, &records[3 - i], KILN__WISDOM_ADDED);
    }
    char *text = write_all(&set), *text_of_other = write_all(&other);
    ck_assert_str_eq(text, text_of_other);
    int lines = 0;
    for (const char *at = text; (at = strstr(at, "\n{\"model\": ")) != NULL; at++)
        lines++;
    ck_assert_int_eq(lines, 4);
    ck_assert(
        strncmp(text, "{\n\"format\": 1,\n\"records\": [\n{\"model\": \"" H100 "\", \"target\": \"sm_90\", ", 60) == 0);
    kiln__free(text);
    kiln__free(text_of_other);
    kiln__wisdom_set_fini(&set);
    kiln__wisdom_set_fini(&other);
}
END_TEST

START_TEST(test_wisdom__locale_does_not_matter)
{
    kiln__wisdom_set set = { 0 }, again;
    kiln__wisdom_entry record = kiln_test_record(H200, "relu6", "f32", 26, "block=128");
    char half[8];
    bool comma = kiln_test_use_decimal_comma();
    snprintf(half, sizeof(half), "%.1f", 0.5);
    ck_assert_str_eq(half, comma ? "0,5" : "0.5");
    add(&set, &record, KILN__WISDOM_ADDED);
    char *text = write_all(&set);
    ck_assert_ptr_nonnull(strstr(text, "\"ms\": 0.1204, "));
    ck_assert_int_eq(read_text(&again, text), KILN__WISDOM_GOOD);
    ck_assert(kiln__wisdom_record_equal(again.records[0], &record));
    kiln__free(text);
    kiln__wisdom_set_fini(&set);
    kiln__wisdom_set_fini(&again);
}
END_TEST

START_TEST(test_wisdom__newer_takes_the_place_of_older)
{
    kiln__wisdom_set set = { 0 };
    kiln__wisdom_entry record = kiln_test_record(H200, "relu6", "f32", 26, "block=128");
    add(&set, &record, KILN__WISDOM_ADDED);
    add(&set, &record, KILN__WISDOM_EQUAL);
    record.geometry = "block=256";
    record.ms = 99; /* times of two runs do not compare */
    add(&set, &record, KILN__WISDOM_REPLACED);
    record.variants = 12;
    record.geometry = "block=512";
    add(&set, &record, KILN__WISDOM_OLDER_KEPT);
    ck_assert_str_eq(set.records[0]->geometry, "block=256");
    record.toolchain = "nvrtc-13.1";
    add(&set, &record, KILN__WISDOM_REPLACED);
    ck_assert_uint_eq(set.count, 1);
    record.variants = 2;
    record.digest = "0123456789abcdef";
    add(&set, &record, KILN__WISDOM_REPLACED);
    record.dtype = "bf16";
    add(&set, &record, KILN__WISDOM_ADDED);
    record.log2_n = 27;
    add(&set, &record, KILN__WISDOM_ADDED);
    record.op = "copy";
    add(&set, &record, KILN__WISDOM_ADDED);
    record.device.target = "sm_90a";
    add(&set, &record, KILN__WISDOM_ADDED);
    record.device.model = H100;
    add(&set, &record, KILN__WISDOM_ADDED);
    ck_assert_uint_eq(set.count, 6);
    kiln__wisdom_set_fini(&set);
}
END_TEST

/* Records of several machines about the same. */
START_TEST(test_wisdom__the_best_stays_in_whatever_order_they_come)
{
    static const struct {
        const char *toolchain;
        uint64_t variants, samples;
    } from[] = { { "nvrtc-12.9.1", 200, 900 }, { "nvrtc-13.0.88", 60, 500 },  { "nvrtc-13.0.88", 120, 100 },
                 { "nvrtc-13.0.9", 150, 999 }, { "nvrtc-13.0.88", 120, 300 }, { "", 999, 999 } };
    enum { COUNT = sizeof(from) / sizeof(*from), BEST = 4 };
    for (int rotation = 0; rotation < COUNT; rotation++)
        for (int step = 1; step < COUNT; step += 4) { /* 1 and 5: both are prime to the count */
            kiln__wisdom_set set = { 0 };
            for (int i = 0; i < COUNT; i++) {
                const int k = (rotation + i * step) % COUNT;
                kiln__wisdom_entry record = kiln_test_record(H200, "relu6", "f32", 26, "block=128");
                record.toolchain = from[k].toolchain;
                record.variants = from[k].variants;
                record.samples = from[k].samples;
                ck_assert_int_ne(kiln__wisdom_set_add_best(&set, &record), KILN__WISDOM_NO_MEMORY);
            }
            ck_assert_uint_eq(set.count, 1);
            ck_assert_str_eq(set.records[0]->toolchain, from[BEST].toolchain);
            ck_assert_uint_eq(set.records[0]->samples, from[BEST].samples);
            kiln__wisdom_set_fini(&set);
        }
}
END_TEST

START_TEST(test_wisdom__records_are_checked)
{
    char longer[KILN__WISDOM_NAME_MAX + 2];
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    const kiln__wisdom_entry good = kiln_test_record(H200, "relu6", "f32", 63, "block=128");
    kiln__wisdom_entry bad[8];
    for (int i = 0; i < 8; i++)
        bad[i] = good;
    bad[0].device.model = "";
    bad[1].op = "two\nlines";
    bad[2].geometry = longer;
    bad[3].log2_n = 64;
    bad[4].ms = NAN;
    bad[5].ratio = -1;
    bad[6].gbps = INFINITY;
    bad[7].maker = "caf\xc3\xa9";
    ck_assert(kiln__wisdom_record_check(&good, problem));
    for (int i = 0; i < 8; i++) {
        problem[0] = '\0';
        ck_assert_msg(!kiln__wisdom_record_check(&bad[i], problem), "record %d", i);
        ck_assert(problem[0] != '\0');
    }
    ck_assert_str_eq(problem, "by holds more than printable ASCII");
}
END_TEST

#define HEAD "{\"format\": 1, \"records\": ["
#define BODY                                                                                                     \
    "\"model\": \"M\", \"target\": \"sm_90\", \"template\": \"t\", \"class\": \"c\", \"op\": \"o\", \"dtype\": " \
    "\"f32\", \"log2_n\": 3, \"geometry\": \"g\""

START_TEST(test_wisdom__unknown_fields_are_kept_with_the_record)
{
    kiln__wisdom_set set, again;
    const char *text = "{\"format\": 1, \"since\": \"later\", \"records\": [{" BODY
                       ", \"power_w\": 512.25, \"nested\": {\"a\": [1, \"\\u00e9\"]}}]}";
    ck_assert_msg(read_text(&set, text) == KILN__WISDOM_GOOD, "%s", problem);
    ck_assert_str_eq(set.records[0]->extra, ", \"power_w\": 512.25, \"nested\": {\"a\": [1, \"\\u00E9\"]}");
    char *written = write_all(&set);
    ck_assert_ptr_nonnull(strstr(written, "\"by\": \"\", \"power_w\": 512.25, \"nested\": {\"a\": [1, \"\\u00E9\"]}}"));
    ck_assert_ptr_null(strstr(written, "since"));
    ck_assert_int_eq(read_text(&again, written), KILN__WISDOM_GOOD);
    ck_assert(kiln__wisdom_record_equal(set.records[0], again.records[0]));
    kiln__free(written);
    kiln__wisdom_set_fini(&set);
    kiln__wisdom_set_fini(&again);
}
END_TEST

START_TEST(test_wisdom__a_zero_has_no_sign)
{
    kiln__wisdom_set set;
    ck_assert_msg(read_text(&set, HEAD "{" BODY ", \"ms\": -0.0, \"gbps\": -1e-400, \"ratio\": -0}]}") ==
                      KILN__WISDOM_GOOD,
                  "%s", problem);
    char *text = write_all(&set);
    ck_assert_ptr_nonnull(strstr(text, "\"ms\": 0, \"gbps\": 0, \"ratio\": 0,"));
    kiln__free(text);
    kiln__wisdom_set_fini(&set);
}
END_TEST

static const struct {
    const char *text, *word; /* what the problem must say */
    kiln__wisdom_fault fault;
} faults[] = {
    { "", "line", KILN__WISDOM_DAMAGED },
    { "{", "line", KILN__WISDOM_DAMAGED },
    { "[]", "\"format\"", KILN__WISDOM_DAMAGED },
    { "{\"format\": 1}", "\"records\"", KILN__WISDOM_DAMAGED },
    { "{\"format\": 0, \"records\": []}", "\"format\"", KILN__WISDOM_DAMAGED },
    { "{\"format\": 1.0, \"records\": []}", "\"format\"", KILN__WISDOM_DAMAGED },
    { "{\"format\": 2, \"records\": {}}", "format 2", KILN__WISDOM_NEWER },
    { "{\"format\": 1, \"format\": 1, \"records\": []}", "duplicate", KILN__WISDOM_DAMAGED },
    { HEAD "]} x", "line", KILN__WISDOM_DAMAGED },
    { HEAD "1]}", "record 1: it is not an object", KILN__WISDOM_DAMAGED },
    { HEAD "{}]}", "record 1: model is missing", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY "}, {" BODY ", \"ms\": \"1\"}]}", "record 2: ms must be a number", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY ", \"ms\": -1}]}", "ms is not a number of 0 or more", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY ", \"ms\": 1e999}]}", "line", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY ", \"samples\": -1}]}", "samples must be a whole number", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY ", \"samples\": 1.5}]}", "samples must be a whole number", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY ", \"samples\": 99999999999999999999}]}", "line", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY ", \"multiprocessors\": 4294967296}]}", "multiprocessors is too large", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY ", \"toolchain\": 3}]}", "toolchain must be a text", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY ", \"toolchain\": \"a\\u0000b\"}]}", "line", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY ", \"toolchain\": \"a\\nb\"}]}", "printable", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY ", \"Bad Name\": 1}]}", "'Bad Name' is no name", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY ", \"a\": \"\xff\"}]}", "line", KILN__WISDOM_DAMAGED },
    { HEAD "{" BODY ", \"a\": [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}]}", "deeper", KILN__WISDOM_DAMAGED },
    { HEAD "{\"model\": \"M\"}]}", "target is missing", KILN__WISDOM_DAMAGED },
};
enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

START_TEST(test_wisdom__any_fault_refuses_the_file)
{
    kiln__wisdom_set set;
    ck_assert_msg(read_text(&set, faults[_i].text) == faults[_i].fault, "%s: %s", faults[_i].text, problem);
    ck_assert_msg(strstr(problem, faults[_i].word) != NULL, "'%s' lacks '%s'", problem, faults[_i].word);
    ck_assert_uint_eq(set.count, 0);
    ck_assert_ptr_null(set.records);
}
END_TEST

START_TEST(test_wisdom__deep_nesting_does_not_reach_the_parser)
{
    enum { DEPTH = 1 << 20 };
    kiln__wisdom_set set;
    char *text = kiln__alloc(DEPTH);
    memset(text, '[', DEPTH);
    ck_assert_int_eq(kiln__wisdom_read(&set, text, DEPTH, problem), KILN__WISDOM_DAMAGED);
    ck_assert_ptr_nonnull(strstr(problem, "deeper"));
    memcpy(text, "{\"a\": \"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[\"}", 37); /* in a string they do not count */
    ck_assert_int_eq(kiln__wisdom_read(&set, text, 37, problem), KILN__WISDOM_DAMAGED);
    ck_assert_ptr_null(strstr(problem, "deeper"));
    kiln__free(text);
}
END_TEST

START_TEST(test_wisdom__sets_are_bounded)
{
    kiln__wisdom_set set = { 0 };
    char op[32] = "";
    kiln__wisdom_entry record = kiln_test_record(H200, op, "f32", 26, "block=128");
    for (int i = 0; i < KILN__WISDOM_RECORDS_MAX; i++) {
        snprintf(op, sizeof(op), "hardtanh(0,%d)", i * 7919 % KILN__WISDOM_RECORDS_MAX);
        add(&set, &record, KILN__WISDOM_ADDED);
    }
    for (size_t i = 1; i < set.count; i++)
        ck_assert_int_lt(kiln__wisdom_record_compare(set.records[i - 1], set.records[i]), 0);
    record.op = "one more";
    add(&set, &record, KILN__WISDOM_FULL);
    ck_assert_uint_eq(set.count, KILN__WISDOM_RECORDS_MAX);
    kiln__wisdom_set_fini(&set);
}
END_TEST

Suite *kiln_test_wisdom_json_suite(void)
{
    Suite *suite = suite_create("wisdom_json");
    TCase *tcase = tcase_create("records and text");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_wisdom__what_is_written_reads_back);
    tcase_add_loop_test(tcase, test_wisdom__the_text_is_the_same_whatever_the_host_rounds_to, 0, 4);
    tcase_add_test(tcase, test_wisdom__a_file_has_one_record_on_each_line_in_one_order);
    tcase_add_test(tcase, test_wisdom__locale_does_not_matter);
    tcase_add_test(tcase, test_wisdom__newer_takes_the_place_of_older);
    tcase_add_test(tcase, test_wisdom__the_best_stays_in_whatever_order_they_come);
    tcase_add_test(tcase, test_wisdom__records_are_checked);
    tcase_add_test(tcase, test_wisdom__unknown_fields_are_kept_with_the_record);
    tcase_add_test(tcase, test_wisdom__a_zero_has_no_sign);
    tcase_add_loop_test(tcase, test_wisdom__any_fault_refuses_the_file, 0, FAULTS);
    tcase_add_test(tcase, test_wisdom__deep_nesting_does_not_reach_the_parser);
    tcase_add_test(tcase, test_wisdom__sets_are_bounded);
    suite_add_tcase(suite, tcase);
    return suite;
}
