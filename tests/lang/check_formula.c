#include "lang/formula.h"
#include "support/suites.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static bool lookup(const void *data, const char *name, size_t length, int64_t *value)
{
    static const struct {
        const char *name;
        int64_t value;
    } names[] = { { "block", 128 }, { "elems", 6 },         { "vector", 4 },       { "bytes", 4 }, { "sm", 90 },
                  { "zero", 0 },    { "least", INT64_MIN }, { "most", INT64_MAX }, { "_a1", 7 },   { "minimum", 3 } };
    (void)data;
    for (int i = 0; i < COUNT(names); i++) {
        if (strlen(names[i].name) == length && memcmp(names[i].name, name, length) == 0) {
            *value = names[i].value;
            return true;
        }
    }
    return false;
}

static const struct {
    const char *formula;
    int64_t value;
} good[] = {
    { "42", 42 },
    { " 4\t+ 2\n", 6 },
    { "1 + 2 * 3", 7 },
    { "(1 + 2) * 3", 9 },
    { "10 - 4 - 3", 3 },
    { "100 / 10 / 5", 2 },
    { "7 % 4 * 2", 6 },
    { "2 * 7 % 4", 2 },
    { "-7 / 2", -3 },
    { "-7 % 2", -1 },
    { "- - 3", 3 },
    { "!0 + !5", 1 },
    { "!-1", 0 },
    { "1 - -1", 2 },
    { "3 < 4 == 1", 1 },
    { "1 == 2 < 3", 1 },
    { "4 <= 4", 1 },
    { "4 < 4", 0 },
    { "5 >= 6", 0 },
    { "6 > 5", 1 },
    { "3 != 3", 0 },
    { "1 || 0 && 0", 1 },
    { "(1 || 0) && 0", 0 },
    { "7 && 9", 1 },
    { "0 || -3", 1 },
    { "1 ? 2 : 3", 2 },
    { "0 ? 2 : 3", 3 },
    { "0 ? 1 : 0 ? 2 : 3", 3 },
    { "1 ? 0 ? 4 : 5 : 6", 5 },
    { "1 + 1 ? 7 : 8", 7 },
    { "elems % vector == 0", 0 },
    { "sm == 0 ? 1024 : 128", 128 },
    { "max(16 / bytes, vector)", 4 },
    { "min(3, -3)", -3 },
    { "max (3, -3)", 3 },
    { "gcd(elems, 16 / bytes)", 2 },
    { "gcd(0, 5)", 5 },
    { "gcd(0, 0)", 0 },
    { "gcd(-12, 18)", 6 },
    { "min(max(1, 2), gcd(8, 12))", 2 },
    { "vector * bytes <= (sm >= 100 ? 32 : 16)", 1 },
    { "_a1", 7 },
    { "minimum", 3 },
    { "9223372036854775807", INT64_MAX },
    { "-9223372036854775807 - 1", INT64_MIN },
    { "least % -1", 0 },
    /* sums of a name and constants, and their quotients */
    { "(block + vector - 1) / 4", 32 },
    { "(block + 128 - 1) / 128", 1 },
    { "(3 + block - 3 + 1) / 128", 1 },
    { "block - 3 + 1", 126 },
    { "(elems + 2147483647) / 2147483647", 1 },
    { "(elems + 2147483647 + 1) / 2", 1073741827 },
    { "(minimum + 3000000000) / 3", 1000000001 },
    { "(minimum + 2147483646) / 1 / 1", 2147483649 },
    { "(least + 128 - 1) / 128", -72057594037927935 },
    { "(least + 7) / 3000000000", -3074457345 },
    { "(most + 0) / 7", 1317624576693539401 },
    { "(block + 64) / 64 + 5", 8 },
    { "(block + 64) / 64 / 2", 1 },
    { "0 - block", -128 },
    { "256 / block", 2 },
    /* what is not calculated cannot fail */
    { "zero != 0 && 1 / zero", 0 },
    { "zero == 0 || 1 / zero", 1 },
    { "zero ? 1 / zero : 5", 5 },
    { "1 ? 5 : most + 1", 5 },
    { "0 && (1 ? 1 / zero : 0)", 0 },
    { "0 && gcd(least, 0)", 0 },
};

START_TEST(test_formula__calculates_as_c_does)
{
    char problem[200] = "";
    int64_t value = -99;
    ck_assert_msg(kiln__formula_eval(good[_i].formula, lookup, NULL, &value, problem, sizeof(problem)) == KILN_OK, "%s",
                  problem);
    ck_assert_msg(value == good[_i].value, "%s = %lld", good[_i].formula, (long long)value);
}
END_TEST

static const struct {
    const char *formula, *problem;
} bad[] = {
    { "", "a value is missing at the end" },
    { "1 +", "a value is missing at the end" },
    { "1 2", "expected an operator at '2'" },
    { "(1", "')' is missing" },
    { "(1 2)", "expected ')' at '2)'" },
    { "1)", "expected an operator at ')'" },
    { "* 2", "expected a value at '* 2'" },
    { "1 ? 2", "':' is missing" },
    { "elems % vectr", "unknown name 'vectr'" },
    { "1 ? 2 : vectr", "unknown name 'vectr'" },
    { "0 && vectr", "unknown name 'vectr'" },
    { "abs(3)", "min, max, gcd and pow2 are the functions there are, not 'abs'" },
    { "min(3)", "min takes 2 arguments, got 1" },
    { "min(1, 2, 3)", "min takes 2 arguments, got 3" },
    { "gcd()", "gcd takes 2 arguments, got 0" },
    { "min(elems=1, 2)", "arguments are given by their place here, not by name: 'elems'" },
    { "min(elems=, 2)", "arguments are given by their place here, not by name: 'elems'" },
    { "min(?, 2)", "expected a value at '?'" },
    { "? 1 : 2", "expected an operator at '1 : 2'" },
    { "2 ** 3", "there is no power **: write x * x" },
    { "min", "unknown name 'min'" },
    { "1 / zero", "division by zero" },
    { "1 % zero", "division by zero" },
    { "most + 1", "overflow" },
    { "(most + 128 - 1) / 128", "overflow" },
    { "most + 5 - 5", "overflow" },
    { "(block + 1) / 0", "division by zero" },
    { "least - 1", "overflow" },
    { "most * 2", "overflow" },
    { "-least", "overflow" },
    { "least / -1", "overflow" },
    { "gcd(least, 0)", "overflow" },
    { "9223372036854775808", "not a whole number that fits: '9223372036854775808'" },
    { "16k", "not a whole number that fits: '16k'" },
    { "0x10", "not a whole number that fits: '0x10'" },
    { "1 & 2", "expected an operator at '& 2'" },
    { "1 = 2", "expected an operator at '= 2'" },
    { "\x01\xff", "expected a value at '\?\?'" },
};

START_TEST(test_formula__failure_names_the_culprit_and_leaves_the_result)
{
    char problem[200] = "";
    int64_t value = -99;
    ck_assert_int_eq(kiln__formula_eval(bad[_i].formula, lookup, NULL, &value, problem, sizeof(problem)), KILN_ESPEC);
    ck_assert_int_eq(value, -99);
    ck_assert_msg(strncmp(problem, "formula '", 9) == 0, "%s", problem);
    const char *what = strstr(problem, "': ");
    ck_assert_ptr_nonnull(what);
    ck_assert_str_eq(what + 3, bad[_i].problem);
}
END_TEST

START_TEST(test_formula__problem_is_cut_to_its_buffer)
{
    char problem[12];
    int64_t value;
    memset(problem, 'z', sizeof(problem));
    ck_assert_int_eq(kiln__formula_eval("abcdefghijkl", lookup, NULL, &value, problem, 8), KILN_ESPEC);
    ck_assert_str_eq(problem, "formula");
    ck_assert_int_eq(problem[8], 'z');
}
END_TEST

/* `count` times `open`, a 1, `count` times `close`. */
static char *nest(const char *open, const char *close, size_t count)
{
    size_t o = strlen(open), c = strlen(close);
    char *text = malloc(count * (o + c) + 2), *at = text;
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < count; i++, at += o)
        memcpy(at, open, o);
    *at++ = '1';
    for (size_t i = 0; i < count; i++, at += c)
        memcpy(at, close, c);
    *at = '\0';
    return text;
}

static const struct {
    const char *open, *close;
} nests[] = {
    { "(", ")" }, { "-", "" }, { "!", "" }, { "1?", ":2" }, { "0?2:", "" }, { "min(", ",2)" }, { "-(", ")" }
};

static bool evaluates(int kind, size_t depth)
{
    char problem[200] = "";
    int64_t value;
    char *text = nest(nests[kind].open, nests[kind].close, depth);
    bool good_formula = kiln__formula_eval(text, lookup, NULL, &value, problem, sizeof(problem)) == KILN_OK;
    if (!good_formula)
        ck_assert_msg(strstr(problem, "nested deeper than 64") != NULL, "%s", problem);
    free(text);
    return good_formula;
}

START_TEST(test_formula__nests_to_a_limit)
{
    ck_assert(evaluates(_i, 30));
    ck_assert(!evaluates(_i, 65));
    ck_assert(!evaluates(_i, 300000));
}
END_TEST

START_TEST(test_formula__a_megabyte_is_read_in_one_pass)
{
    size_t size = 1 << 20;
    char *text = malloc(size + 1), problem[200];
    int64_t value;
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < size; i++)
        text[i] = i % 2 == 0 ? '1' : '+';
    text[size - 1] = '\0';
    ck_assert_int_eq(kiln__formula_eval(text, lookup, NULL, &value, problem, sizeof(problem)), KILN_OK);
    ck_assert_int_eq(value, (int64_t)size / 2);
    memset(text, 'a', size - 1);
    ck_assert_int_eq(kiln__formula_eval(text, lookup, NULL, &value, problem, sizeof(problem)), KILN_ESPEC);
    free(text);
}
END_TEST

START_TEST(test_formula__check_reads_names_and_syntax_only)
{
    char problem[200] = "";
    ck_assert_int_eq(kiln__formula_check("1 / zero + gcd(least, 0) * most", lookup, NULL, problem, sizeof(problem)),
                     KILN_OK);
    ck_assert_int_eq(kiln__formula_check("1 / nil", lookup, NULL, problem, sizeof(problem)), KILN_ESPEC);
    ck_assert_str_eq(problem, "formula '1 / nil': unknown name 'nil'");
    ck_assert_int_eq(kiln__formula_check("1 /", lookup, NULL, problem, sizeof(problem)), KILN_ESPEC);
}
END_TEST

static const struct {
    const char *formula, *names;
} named[] = {
    { "elems % vector == 0", "elems;vector;" },
    { "vector*bytes<=(sm>=100?32:16)", "vector;bytes;sm;" },
    { "max(16 / bytes, gcd (elems, elems))", "bytes;elems;elems;" },
    { "min + 3", "min;" },
    { "12 + 0x3f", "" },
    { "", "" },
    { "a$b \x80 c", "a;b;c;" },
};

START_TEST(test_formula__names_are_its_variables)
{
    char all[100] = "";
    const char *at = named[_i].formula;
    kiln__word name;
    while (kiln__formula_next_name(&at, &name)) {
        strncat(all, name.text, name.length);
        strcat(all, ";");
    }
    ck_assert_str_eq(all, named[_i].names);
}
END_TEST

/* ---- Compiled formulas */

static const char *const variables[] = { "block", "elems", "vector", "bytes", "sm",
                                         "zero",  "least", "most",   "_a1",   "minimum" };
static const int64_t variable_values[] = { 128, 6, 4, 4, 90, 0, INT64_MIN, INT64_MAX, 7, 3 };

static bool knows_nothing(const void *data, const char *name, size_t length, int64_t *value)
{
    (void)data, (void)name, (void)length, (void)value;
    return false;
}

static kiln_status compile(kiln__formulas *out, const char *formula, uint32_t *index, char problem[200])
{
    return kiln__formulas_add(out, formula, knows_nothing, NULL, variables, COUNT(variables), index, problem, 200);
}

static void set_and_calculate(const kiln__formulas *formulas, kiln__formula_values *values)
{
    for (uint32_t i = 0; i < COUNT(variables); i++)
        kiln__formulas_set(values, i, variable_values[i]);
    kiln__formulas_calculate(formulas, values);
}

static kiln__number_or calculate(const char *formula)
{
    kiln__formulas formulas = { 0 };
    kiln__formula_values values;
    char problem[200] = "";
    uint32_t index = 99;
    ck_assert_msg(compile(&formulas, formula, &index, problem) == KILN_OK, "%s: %s", formula, problem);
    ck_assert_uint_eq(index, 0);
    set_and_calculate(&formulas, &values);
    return kiln__formulas_value(&formulas, &values, index);
}

START_TEST(test_formula__compiled_with_variables_has_the_same_value)
{
    kiln__number_or value = calculate(good[_i].formula);
    ck_assert_msg(value.missing == NULL && value.value == good[_i].value, "%s = %lld (%s)", good[_i].formula,
                  (long long)value.value, value.missing != NULL ? value.missing : "");
}
END_TEST

START_TEST(test_formula__compiled_fails_for_the_same_reason)
{
    kiln__formulas formulas = { 0 };
    char problem[200] = "";
    uint32_t index;
    bool late = strcmp(bad[_i].problem, "overflow") == 0 || strcmp(bad[_i].problem, "division by zero") == 0;
    if (late) {
        kiln__number_or value = calculate(bad[_i].formula);
        ck_assert_ptr_nonnull(value.missing);
        ck_assert_str_eq(value.missing, bad[_i].problem);
        return;
    }
    ck_assert_int_eq(compile(&formulas, bad[_i].formula, &index, problem), KILN_ESPEC);
    ck_assert_msg(strcmp(strstr(problem, "': ") + 3, bad[_i].problem) == 0, "%s", problem);
    ck_assert_uint_eq(formulas.count, 0);
}
END_TEST

/* A constant that has no value matters only where it is chosen. */
static const struct {
    const char *formula, *missing;
    int64_t value;
} constants[] = {
    { "zero ? 1 / 0 : 5", NULL, 5 },
    { "block ? 1 / 0 : 5", "division by zero", 0 },
    { "block ? 9223372036854775807 + 1 : 5", "overflow", 0 },
    { "zero && 1 / 0", NULL, 0 },
    { "block && 1 / 0", "division by zero", 0 },
    { "1 / 0 && zero", "division by zero", 0 },
    { "block + 1 / 0", "division by zero", 0 },
    { "1 / 0", "division by zero", 0 },
};

START_TEST(test_formula__constant_without_value_matters_where_it_is_chosen)
{
    kiln__number_or value = calculate(constants[_i].formula);
    if (constants[_i].missing != NULL)
        ck_assert_str_eq(value.missing, constants[_i].missing);
    else
        ck_assert(value.missing == NULL && value.value == constants[_i].value);
}
END_TEST

START_TEST(test_formula__many_are_compiled_together)
{
    kiln__formulas formulas = { 0 };
    kiln__formula_values values;
    char problem[200] = "", text[40];
    uint32_t index;
    for (uint32_t i = 0; i < KILN__FORMULAS_MAX; i++) {
        snprintf(text, sizeof(text), "(block + %u) / 2", i % 8);
        ck_assert_msg(compile(&formulas, text, &index, problem) == KILN_OK, "%s", problem);
        ck_assert_uint_eq(index, i);
    }
    set_and_calculate(&formulas, &values);
    for (uint32_t i = 0; i < KILN__FORMULAS_MAX; i++)
        ck_assert_int_eq(kiln__formulas_value(&formulas, &values, i).value, (128 + i % 8) / 2);
    ck_assert_int_eq(compile(&formulas, "block", &index, problem), KILN_ESPEC);
    ck_assert_str_eq(problem, "there are more than 64 formulas of sizes");
}
END_TEST

/* `count` additions of a variable. */
static kiln_status compile_long(kiln__formulas *formulas, int count, char problem[200])
{
    char text[2000] = "zero";
    uint32_t index;
    for (int i = 0; i < count; i++)
        strcat(text, "+_a1");
    return compile(formulas, text, &index, problem);
}

START_TEST(test_formula__too_many_steps_are_refused)
{
    enum { ROOM = KILN__SLOTS_MAX - COUNT(variables) };
    kiln__formulas formulas = { 0 }, other = { 0 };
    kiln__formula_values values;
    char problem[200] = "";
    ck_assert_int_eq(compile_long(&formulas, ROOM, problem), KILN_OK);
    set_and_calculate(&formulas, &values);
    ck_assert_int_eq(kiln__formulas_value(&formulas, &values, 0).value, 7 * ROOM);
    ck_assert_int_eq(compile_long(&other, ROOM + 1, problem), KILN_ESPEC);
    ck_assert_msg(strstr(problem, "the formulas of sizes have too many steps") != NULL, "%s", problem);
}
END_TEST

Suite *kiln_test_lang_formula_suite(void)
{
    Suite *suite = suite_create("formula");
    TCase *tcase = tcase_create("formula");
    tcase_add_loop_test(tcase, test_formula__calculates_as_c_does, 0, COUNT(good));
    tcase_add_loop_test(tcase, test_formula__failure_names_the_culprit_and_leaves_the_result, 0, COUNT(bad));
    tcase_add_test(tcase, test_formula__problem_is_cut_to_its_buffer);
    tcase_add_loop_test(tcase, test_formula__nests_to_a_limit, 0, COUNT(nests));
    tcase_add_test(tcase, test_formula__a_megabyte_is_read_in_one_pass);
    tcase_add_test(tcase, test_formula__check_reads_names_and_syntax_only);
    tcase_add_loop_test(tcase, test_formula__names_are_its_variables, 0, COUNT(named));
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("compiled");
    tcase_add_loop_test(tcase, test_formula__compiled_with_variables_has_the_same_value, 0, COUNT(good));
    tcase_add_loop_test(tcase, test_formula__compiled_fails_for_the_same_reason, 0, COUNT(bad));
    tcase_add_loop_test(tcase, test_formula__constant_without_value_matters_where_it_is_chosen, 0, COUNT(constants));
    tcase_add_test(tcase, test_formula__many_are_compiled_together);
    tcase_add_test(tcase, test_formula__too_many_steps_are_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}
