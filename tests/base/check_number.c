#include "base/number.h"
#include "support/comma.h"
#include "support/suites.h"
#include "support/temp.h"

#include <errno.h>
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static bool same_bits(double a, double b)
{
    return !memcmp(&a, &b, sizeof a);
}

static bool parse(const char *text, double *out)
{
    return kiln__number_parse(text, strlen(text), out);
}

static const struct {
    const char *text;
    double value;
} good[] = {
    { "0", 0.0 },
    { "-0", -0.0 },
    { "0.2", 0.2 },
    { ".5", 0.5 },
    { "5.", 5.0 },
    { "+1", 1.0 },
    { "-1e-30", -1e-30 },
    { "1E+3", 1000.0 },
    { "007", 7.0 },
    { "0x1.999999999999ap-3", 0.2 },
    { "-0X1P+4", -16.0 },
    { "inf", INFINITY },
    { "-inf", -INFINITY },
    { "+inf", INFINITY },
    { "1.7976931348623157e308", DBL_MAX },
    { "4.9406564584124654e-324", 0x1p-1074 },
    { "2.2250738585072011e-308", 0x0.fffffffffffffp-1022 },
    { "1e-999", 0.0 },
    { "-1e-999", -0.0 },
    /* just above half way between two doubles, far behind the point */
    { "1.00000000000000011102230246251565404236316680908203125000000000000000000001", 0x1.0000000000001p+0 },
    { "1.00000000000000011102230246251565404236316680908203125", 1.0 },
};

START_TEST(test_number__reads_decimal_hexadecimal_and_infinity)
{
    double value = NAN;
    errno = E2BIG;
    ck_assert(parse(good[_i].text, &value));
    ck_assert_msg(same_bits(value, good[_i].value), "%s read as %a", good[_i].text, value);
    ck_assert_int_eq(errno, E2BIG);
}
END_TEST

static const char *const bad[] = { "",      "-",      "+",   ".",     "e5",        "1e",   "1e+",  " 1",       "1 ",
                                   "1,5",   "1.2.3",  "nan", "-nan",  "nan(1)",    "NAN",  "INF",  "infinity", "Inf",
                                   "1e999", "-1e999", "0x",  "0x1p",  "0x1p99999", "1f",   "--1",  "+-1",      "-+1",
                                   "\t1",   "1\n",    "0b1", "1_000", "in",        "infx", "0x.p1" };

START_TEST(test_number__refuses_all_else_and_leaves_the_result)
{
    double value = 42;
    ck_assert_msg(!parse(bad[_i], &value), "'%s' read as %g", bad[_i], value);
    ck_assert(same_bits(value, 42));
}
END_TEST

START_TEST(test_number__reads_exactly_the_given_length)
{
    double value = 0;
    ck_assert(kiln__number_parse("12345", 2, &value));
    ck_assert(same_bits(value, 12));
    ck_assert(kiln__number_parse("infinity", 3, &value));
    ck_assert(isinf(value));
    ck_assert(!kiln__number_parse("1\0", 2, &value));
    ck_assert(!kiln__number_parse("1,2", 3, &value));
    ck_assert(kiln__number_parse("1,2", 1, &value));
}
END_TEST

START_TEST(test_number__long_text_is_read_up_to_2047_characters)
{
    static char text[2049];
    double value = 0;
    memset(text, '0', sizeof text);
    text[0] = '.';
    text[400] = '1';
    ck_assert(kiln__number_parse(text, 2047, &value));
    ck_assert(same_bits(value, 0.0));
    memset(text, '0', sizeof text);
    text[2046] = '7';
    ck_assert(kiln__number_parse(text, 2047, &value));
    ck_assert(same_bits(value, 7.0));
    ck_assert(!kiln__number_parse(text, 2048, &value));
}
END_TEST

START_TEST(test_number__whole_numbers_are_digits_only)
{
    uint64_t value = 5;
    ck_assert(kiln__number_parse_uint("0", 1, &value));
    ck_assert_uint_eq(value, 0);
    ck_assert(kiln__number_parse_uint("0018446744073709551615", 22, &value));
    ck_assert_uint_eq(value, UINT64_MAX);
    ck_assert(kiln__number_parse_uint("123", 2, &value));
    ck_assert_uint_eq(value, 12);
    static const char *const refused[] = {
        "", "-1", "+1", " 1", "1 ", "1.0", "0x10", "18446744073709551616", "99999999999999999999", "a", "\xd9\xa1"
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        ck_assert_msg(!kiln__number_parse_uint(refused[i], strlen(refused[i]), &value), "'%s'", refused[i]);
    ck_assert_uint_eq(value, 12);
}
END_TEST

START_TEST(test_number__whole_and_wide_by_their_bits)
{
    static const double whole[] = { 0, -0.0, 1, -1, 6, 2147483647, -2147483647, 0x1p+52 + 1, 0x1p+62, -0x1p+63 };
    static const double other[] = { 0.5, -1.5, 0x1p-1074, 0x1p+63, -0x1.8p+63, INFINITY, NAN, 2147483647.5 };
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        ck_assert_msg(kiln__number_is_whole(whole[i]), "%a", whole[i]);
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        ck_assert_msg(!kiln__number_is_whole(other[i]), "%a", other[i]);
    ck_assert(!kiln__number_is_wide(2147483647) && !kiln__number_is_wide(-2147483647) && !kiln__number_is_wide(0.1));
    ck_assert(!kiln__number_is_wide(-2147483648) && kiln__number_is_wide(-2147483649));
    ck_assert(kiln__number_is_wide(2147483648) && kiln__number_is_wide(-5e9));
}
END_TEST

START_TEST(test_number__the_nearest_power_of_two_by_logarithm)
{
    static const struct {
        uint64_t n;
        unsigned octave;
    } rows[] = { { 0, 0 },          { 1, 0 },
                 { 2, 1 },          { 3, 2 }, /* above 2 sqrt(2) */
                 { 5, 2 },          { 6, 3 },
                 { 1482910, 20 }, /* on either side of 2^20 sqrt(2) */
                 { 1482911, 21 },   { (uint64_t)1 << 63, 63 },
                 { UINT64_MAX, 63 } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_uint_eq(kiln__number_octave(rows[i].n), rows[i].octave);
}
END_TEST

static const struct {
    double value;
    const char *text;
} formatted[] = {
    { 0.0, "0" },
    { -0.0, "-0" },
    { 1.0, "1" },
    { -1.0, "-1" },
    { 0.2, "0.2" },
    { 0.1 + 0.2, "0.30000000000000004" },
    { 10.0, "10" },
    { 100.0, "100" },
    { 123.456, "123.456" },
    { -0.0001, "-0.0001" },
    { 0.00012345678901234567, "0.00012345678901234567" },
    { 0.00001, "1e-5" },
    { 1.5e-7, "1.5e-7" },
    { 1e-30, "1e-30" },
    { 1e15, "1000000000000000" },
    { 1234567890123456.0, "1234567890123456" },
    { 1e16, "1e16" },
    { 1.25e100, "1.25e100" },
    { 9007199254740993.0, "9007199254740992" },
    { INFINITY, "inf" },
    { -INFINITY, "-inf" },
    { 0x1p-1074, "5e-324" },
    { DBL_MIN, "2.2250738585072014e-308" },
    { -DBL_MAX, "-1.7976931348623157e308" },
    { 1.0f / 6.0f, "0.1666666716337204" },
    { 0x1p-44, "5.684341886080802e-14" }, /* 16 digits by rounding up; to nearest it takes 17 */
};

START_TEST(test_number__writes_the_fewest_digits)
{
    char text[KILN__NUMBER_SIZE];
    errno = E2BIG;
    kiln__number_format(text, formatted[_i].value);
    ck_assert_str_eq(text, formatted[_i].text);
    ck_assert_int_eq(errno, E2BIG);
}
END_TEST

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

START_TEST(test_number__every_text_reads_back_as_the_same_bits)
{
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_random(&state);
        double value, read;
        if (i % 4 == 0) /* powers of two, subnormals among them */
            bits &= i % 8 ? UINT64_C(0xfff0000000000000) : UINT64_C(0x800fffffffffffff);
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        char text[KILN__NUMBER_SIZE], hex[KILN__NUMBER_SIZE];
        kiln__number_format(text, value);
        kiln__number_format_hex(hex, value);
        ck_assert_msg(parse(text, &read) && same_bits(read, value), "%s for %a", text, value);
        ck_assert_msg(parse(hex, &read) && same_bits(read, value), "%s for %a", hex, value);
    }
}
END_TEST

START_TEST(test_number__hexadecimal_is_a_literal_of_c)
{
    char text[KILN__NUMBER_SIZE];
    kiln__number_format_hex(text, 0.2);
    ck_assert_str_eq(text, "0x1.999999999999ap-3");
    kiln__number_format_hex(text, -1.0);
    ck_assert_str_eq(text, "-0x1p+0");
    kiln__number_format_hex(text, -0.0);
    ck_assert_str_eq(text, "-0x0p+0");
    kiln__number_format_hex(text, -DBL_MAX);
    ck_assert_str_eq(text, "-0x1.fffffffffffffp+1023");
}
END_TEST

/* Reads and writes every number above; the caller has changed what a host may change. */
static void check_all(void)
{
    char text[KILN__NUMBER_SIZE];
    double value;
    for (int i = 0; i < (int)(sizeof good / sizeof *good); i++) {
        ck_assert(parse(good[i].text, &value));
        ck_assert_msg(same_bits(value, good[i].value), "%s read as %a", good[i].text, value);
    }
    for (int i = 0; i < (int)(sizeof formatted / sizeof *formatted); i++) {
        kiln__number_format(text, formatted[i].value);
        ck_assert_str_eq(text, formatted[i].text);
    }
    kiln__number_format_hex(text, 0.2);
    ck_assert_str_eq(text, "0x1.999999999999ap-3");
}

START_TEST(test_number__locale_of_the_host_does_not_matter)
{
    char before[16], after[16];
    bool comma = kiln_test_use_decimal_comma();
    snprintf(before, sizeof before, "%.1f", 0.5);
    ck_assert_str_eq(before, comma ? "0,5" : "0.5");
    check_all();
    snprintf(after, sizeof after, "%.1f", 0.5);
    ck_assert_str_eq(after, before);
}
END_TEST

static const int rounding_modes[] = { FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

START_TEST(test_number__rounding_mode_of_the_host_does_not_matter)
{
    ck_assert_int_eq(fesetround(rounding_modes[_i]), 0);
    check_all();
    ck_assert_int_eq(fegetround(), rounding_modes[_i]);
}
END_TEST

#if defined(__x86_64__)
START_TEST(test_number__flush_to_zero_of_the_host_does_not_matter)
{
    unsigned mode = __builtin_ia32_stmxcsr() | 0x8040u, after;
    __builtin_ia32_ldmxcsr(mode);
    char text[KILN__NUMBER_SIZE];
    double value = 0, smallest = 0x1p-1074, read = parse("5e-324", &value) ? value : 0;
    kiln__number_format(text, smallest);
    after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(mode & ~0x8040u);
    ck_assert_uint_eq(after & 0x8040u, 0x8040u);
    ck_assert_str_eq(text, "5e-324");
    ck_assert(same_bits(read, smallest));
}
END_TEST
#endif

START_TEST(test_number__floating_point_flags_of_the_host_are_kept)
{
    char text[KILN__NUMBER_SIZE];
    double value;
    feclearexcept(FE_ALL_EXCEPT);
    kiln__number_format(text, 0.1);
    ck_assert(parse("1e-320", &value));
    ck_assert(!parse("1e999", &value));
    ck_assert_int_eq(fetestexcept(FE_ALL_EXCEPT), 0);
}
END_TEST

static void *check_thread(void *data)
{
    char text[KILN__NUMBER_SIZE];
    double value;
    for (int i = 0; i < 500; i++) {
        kiln__number_format(text, 0.25 * i);
        if (!parse(text, &value) || !same_bits(value, 0.25 * i))
            return data;
    }
    return NULL;
}

START_TEST(test_number__threads_do_not_disturb_each_other)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, check_thread, threads), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

START_TEST(test_number__step_is_at_most_a_quarter_above_and_as_even)
{
    static const uint64_t known[][2] = { { 0, 0 },       { 1, 1 },       { 63, 63 },     { 64, 64 },
                                         { 65, 65 },     { 4096, 4096 }, { 4097, 4097 }, { 4099, 5121 },
                                         { 4112, 5120 }, { 1000, 1032 }, { 5120, 5120 }, { UINT64_MAX, UINT64_MAX } };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        ck_assert_uint_eq(kiln__number_step(known[i][0]), known[i][1]);
    for (uint64_t n = 1; n < 100000; n += n / 100 + 1) {
        uint64_t step = kiln__number_step(n);
        ck_assert_msg(step >= n && step <= n + n / 4 + 16, "%llu: %llu", (unsigned long long)n,
                      (unsigned long long)step);
        ck_assert_uint_eq(n % 16 == 0, step % 16 == 0);
        ck_assert_uint_eq(n % 2 == 0, step % 2 == 0);
        ck_assert_uint_eq(kiln__number_step(step), step);
    }
}
END_TEST

Suite *kiln_test_base_number_suite(void)
{
    Suite *suite = suite_create("number");
    TCase *tcase = tcase_create("number");
    kiln_test_temp_use(tcase);
    tcase_add_loop_test(tcase, test_number__reads_decimal_hexadecimal_and_infinity, 0, COUNT(good));
    tcase_add_loop_test(tcase, test_number__refuses_all_else_and_leaves_the_result, 0, COUNT(bad));
    tcase_add_test(tcase, test_number__reads_exactly_the_given_length);
    tcase_add_test(tcase, test_number__long_text_is_read_up_to_2047_characters);
    tcase_add_test(tcase, test_number__whole_numbers_are_digits_only);
    tcase_add_test(tcase, test_number__whole_and_wide_by_their_bits);
    tcase_add_test(tcase, test_number__the_nearest_power_of_two_by_logarithm);
    tcase_add_loop_test(tcase, test_number__writes_the_fewest_digits, 0, COUNT(formatted));
    tcase_add_test(tcase, test_number__every_text_reads_back_as_the_same_bits);
    tcase_add_test(tcase, test_number__hexadecimal_is_a_literal_of_c);
    tcase_add_test(tcase, test_number__locale_of_the_host_does_not_matter);
    tcase_add_loop_test(tcase, test_number__rounding_mode_of_the_host_does_not_matter, 0, COUNT(rounding_modes));
#if defined(__x86_64__)
    tcase_add_test(tcase, test_number__flush_to_zero_of_the_host_does_not_matter);
#endif
    tcase_add_test(tcase, test_number__floating_point_flags_of_the_host_are_kept);
    tcase_add_test(tcase, test_number__step_is_at_most_a_quarter_above_and_as_even);
    tcase_add_test(tcase, test_number__threads_do_not_disturb_each_other);
    suite_add_tcase(suite, tcase);
    return suite;
}
