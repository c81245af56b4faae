#include "base/alloc.h"
#include "spec/catalog.h"
#include "support/suites.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static const char sample[] = "# A comment, and an empty line.\n"
                             "\n"
                             "hardtanh(x; lo=-1, hi=inf) = min(max(x, lo), hi)   \r\n"
                             "    doc Clamps x.\n"
                             "    nan Kept.\n"
                             "\n"
                             "\tdoc   Twice.\r\n"
                             "low(x, y) = x < y ? x : y\n"
                             "shifted(x; by=3) = hardtanh(x + by)\n"
                             "slope(grad, y) = grad * d where\n"
                             "    e = y * y,\n"
                             "    d = 1 - e\n"
                             "    in f16,bf16 = grad * stored(1 - stored(y * y))\n"
                             "    in f32 on sm_90, sm_100 = grad\n"
                             "    elsewhere Nowhere.\n";

static void open_table(kiln__op_table *table, const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status = kiln__op_table_init(table, text, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
}

static int find(const kiln__op_table *table, const char *name, size_t length)
{
    int index = 99;
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status = kiln__op_find(table, (kiln__word){ name, length }, KILN__OPS_MAX, &index, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    return index;
}

START_TEST(test_op__row_is_read_when_it_is_first_asked_for)
{
    kiln__op_table table;
    open_table(&table, sample);
    ck_assert_uint_eq(table.count, 4);
    ck_assert_str_eq(kiln__op_name(&table, 2), "shifted");
    ck_assert_ptr_null(kiln__op_name(&table, 4));
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_ptr_null(kiln__op_at(&table, i));
    ck_assert_int_eq(find(&table, "shifted", 7), 2);
    ck_assert_ptr_nonnull(kiln__op_at(&table, 0)); /* which it calls */
    ck_assert_ptr_null(kiln__op_at(&table, 1));
    const kiln__op *op = kiln__op_at(&table, 2);
    ck_assert_int_eq(find(&table, "shifted", 7), 2);
    ck_assert_ptr_eq(kiln__op_at(&table, 2), op);
    kiln__op_table_fini(&table);
    ck_assert_uint_eq(table.count, 0);
}
END_TEST

START_TEST(test_op__row_becomes_signature_doc_and_text)
{
    kiln__op_table table;
    open_table(&table, sample);
    const kiln__op *op = kiln__op_at(&table, (uint32_t)find(&table, "hardtanh", 8));
    ck_assert_str_eq(op->name, "hardtanh");
    ck_assert_str_eq(op->signature, "hardtanh(x; lo=-1, hi=inf)");
    ck_assert_str_eq(op->definition, "hardtanh(x; lo=-1, hi=inf) = min(max(x, lo), hi)");
    ck_assert_str_eq(op->notes[KILN__NOTE_DOC], "Clamps x.\nTwice.\n");
    ck_assert_str_eq(op->notes[KILN__NOTE_NAN], "Kept.\n");
    ck_assert_str_eq(op->notes[KILN__NOTE_ELSEWHERE], "");
    ck_assert_str_eq(op->text, "KILN_FN kiln_real kiln_op_hardtanh(kiln_real x, kiln_real lo_, kiln_real hi_)\n{\n"
                               "    return kiln_min(kiln_max(x, lo_), hi_);\n}\n");
    ck_assert_uint_eq(op->inputs, 1);
    ck_assert_uint_eq(op->params, 2);
    ck_assert_str_eq(op->param_names[0], "lo");
    ck_assert_str_eq(op->param_names[1], "hi");
    ck_assert(op->defaults[0] == -1.0 && op->defaults[1] == INFINITY);
    ck_assert_uint_eq(op->operations, 2);
    op = kiln__op_at(&table, (uint32_t)find(&table, "low", 3));
    ck_assert_str_eq(op->signature, "low(x, y)");
    ck_assert_str_eq(op->notes[KILN__NOTE_DOC], "");
    ck_assert(op->inputs == 2 && op->params == 0);
    kiln__op_table_fini(&table);
}
END_TEST

/* C text has no names of inputs. A row may go on in the next line, and have another expression in some dtypes. */
START_TEST(test_op__row_of_several_lines_becomes_one_function)
{
    kiln__op_table table;
    open_table(&table, sample);
    const kiln__op *op = kiln__op_at(&table, (uint32_t)find(&table, "slope", 5));
    ck_assert_str_eq(op->signature, "slope(grad, y)");
    ck_assert_str_eq(op->definition, "slope(grad, y) = grad * d where e = y * y, d = 1 - e");
    ck_assert_str_eq(op->text, "KILN_FN kiln_real kiln_op_slope(kiln_real x, kiln_real y)\n{\n"
                               "#if (defined(KILN_DTYPE_F16) || defined(KILN_DTYPE_BF16))\n"
                               "    return kiln_mul(x, kiln_stored(kiln_sub((kiln_real)0x1p+0, "
                               "kiln_stored(kiln_mul(y, y)))));\n"
                               "#elif (defined(KILN_DTYPE_F32)) && !defined(KILN_MATH_PORTABLE) && "
                               "defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)\n"
                               "    return x;\n"
                               "#else\n"
                               "    const kiln_real v0 = kiln_mul(y, y);\n"
                               "    const kiln_real v1 = kiln_sub((kiln_real)0x1p+0, v0);\n"
                               "    return kiln_mul(x, v1);\n"
                               "#endif\n}\n");
    ck_assert_str_eq(op->notes[KILN__NOTE_DOC], "");
    ck_assert_str_eq(op->notes[KILN__NOTE_ELSEWHERE], "Nowhere.\n");
    ck_assert(kiln__op_is_exact(op) && kiln__op_is_portable(op));
    ck_assert_str_eq(op->functions, "");
    kiln__op_table_fini(&table);
}
END_TEST

START_TEST(test_op__is_found_by_its_whole_name_only)
{
    kiln__op_table table;
    open_table(&table, sample);
    ck_assert_int_eq(find(&table, "low", 3), 1);
    ck_assert_int_eq(find(&table, "low(x)", 3), 1);
    ck_assert_int_eq(find(&table, "low", 2), -1);
    ck_assert_int_eq(find(&table, "mins", 4), -1);
    ck_assert_int_eq(find(&table, "doc", 3), -1);
    ck_assert_int_eq(find(&table, "", 0), -1);
    kiln__op_table_fini(&table);
}
END_TEST

static const struct {
    const char *text;
    unsigned line;
    const char *problem;
} bad[] = {
    { "F(x) = x\n", 1, "'F' cannot name an op" },
    { "\n= x\n", 2, "'' cannot name an op" },
    { "f(x) = x\n\nf(x) = -x\n", 3, "'f' cannot name an op" },
    { "a23456789012345678901234567890123456789012(x) = x\n", 1, "cannot name an op" },
    { "  doc Early.\nf(x) = x\n", 1, "expected NAME(x) = EXPRESSION before 'doc Early.'" },
    { "f(x) = x\n  dox Late.\n", 2, "'dox' is no word about an op: doc, nan, elsewhere or in" },
};

START_TEST(test_op__failure_names_line_and_culprit)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__op_table table;
    char line[24];
    ck_assert_int_eq(kiln__op_table_init(&table, bad[_i].text, &report), KILN_ESPEC);
    ck_assert_uint_eq(table.count, 0);
    ck_assert(table.rows == NULL && table.added == NULL);
    snprintf(line, sizeof(line), "ops, line %u: ", bad[_i].line);
    ck_assert_msg(strncmp(report.message, line, strlen(line)) == 0, "%s", report.message);
    ck_assert_msg(strstr(report.message, bad[_i].problem) != NULL, "%s", report.message);
}
END_TEST

/* A row may call the rows above it, and neither itself nor those below. */
static const struct {
    const char *text, *problem;
} wrong[] = {
    { "f(x) = x +\n", "op f, character 11: a value is missing at the end" },
    { "f(x) = f(x)\n", "op f, character 8: unknown function or op 'f'" },
    { "f(x) = g(x)\ng(x) = x\n", "op f, character 8: unknown function or op 'g'" },
    { "f(y, y) = y\n", "op f, character 6: 'y' cannot name an input: it is taken" },
    { "f(min) = min\n", "op f, character 3: 'min' cannot name an input: it is taken" },
    { "f(a, b, c, d, g, h, i, j, k) = a\n",
      "op f, character 27: an op has at most 8 inputs; parameters follow a ';': f(x; k=1)" },
    { "f(x) = x\n  in f15 = x\n", "'f15' is no dtype of an op" },
    { "f(x) = x\n  in f16 x\n", "op f, character 1: 'f16 x' is no dtype of an op" },
    { "f(x) = x\n  in f16 on sm_ = x\n", "'sm_' is no target of a GPU" },
    { "f(x) = x\n  in f16 on cpu = x\n", "'cpu' is no target of a GPU" },
    { "f(x) = x\n  in f16 = x +\n", "op f, character 4: a value is missing at the end" },
    { "f(x) = x\n  in f16 = x 1\n", "expected nothing more at '1'" },
    { "f(x) = x\n  in f16=x\n  in f16=x\n  in f16=x\n  in f16=x\n  in f16=x\n", "an op has at most 4 lines of" },
    { "f(x; a=1, a=2) = x\n", "op f, character 11: 'a' cannot name a parameter" },
    { "f(x; a=nan) = x\n", "op f, character 8: the default of a must be a number, not 'nan'" },
    { "inf(x) = x\n", "'inf' cannot name an op" },
    { "x(x) = x\n", "'x' cannot name an op" },
};

START_TEST(test_op__wrong_row_is_refused_when_it_is_asked_for)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__op_table table;
    int index = 99;
    open_table(&table, wrong[_i].text);
    kiln__word name = { wrong[_i].text, strcspn(wrong[_i].text, "(") };
    ck_assert_int_eq(kiln__op_find(&table, name, KILN__OPS_MAX, &index, &report), KILN_EOP);
    ck_assert_int_eq(index, -1);
    ck_assert_msg(strstr(report.message, wrong[_i].problem) != NULL, "%s", report.message);
    kiln__op_table_fini(&table);
}
END_TEST

static int allocations_left;

static int allow_some(void)
{
    return allocations_left-- <= 0;
}

START_TEST(test_op__every_failed_allocation_is_reported)
{
    kiln_status status = KILN_ENOMEM;
    int attempts = 0;
    for (; status == KILN_ENOMEM; attempts++) {
        kiln__op_table table;
        allocations_left = attempts;
        kiln__alloc_set_hook(allow_some);
        status = kiln__op_table_init(&table, sample, NULL);
        int index = 0;
        if (status == KILN_OK)
            status = kiln__op_find(&table, (kiln__word){ "shifted", 7 }, KILN__OPS_MAX, &index, NULL);
        kiln__alloc_set_hook(NULL);
        ck_assert_int_eq(index, status == KILN_OK ? 2 : index < 0 ? -1 : 0);
        kiln__op_table_fini(&table);
    }
    ck_assert_int_eq(status, KILN_OK);
    ck_assert_int_gt(attempts, 8);
}
END_TEST

static const char *const expected[] = {
    "copy", "add", "mul", "relu6", "hardtanh", "hardsigmoid", "hardsigmoid_linear", "softsign"
};

/* The texts that the library carries: what holds for any op holds for these. */
START_TEST(test_op__embedded_ops_are_complete)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__catalog catalog;
    ck_assert_msg(kiln__catalog_init(&catalog, &report) == KILN_OK, "%s", report.message);
    for (int i = 0; i < COUNT(expected); i++)
        ck_assert_msg(find(&catalog.ops, expected[i], strlen(expected[i])) >= 0, "%s", expected[i]);
    for (uint32_t i = 0; i < catalog.ops.count; i++) {
        ck_assert_msg(kiln__op_load(&catalog.ops, i, &report) == KILN_OK, "%s", report.message);
        const kiln__op *op = kiln__op_at(&catalog.ops, i);
        ck_assert_msg(strlen(op->notes[KILN__NOTE_DOC]) > 3 &&
                          op->notes[KILN__NOTE_DOC][strlen(op->notes[KILN__NOTE_DOC]) - 1] == '\n',
                      "%s", op->name);
    }
    kiln__catalog_fini(&catalog);
}
END_TEST

Suite *kiln_test_lang_op_suite(void)
{
    Suite *suite = suite_create("op");
    TCase *tcase = tcase_create("op");
    tcase_add_test(tcase, test_op__row_is_read_when_it_is_first_asked_for);
    tcase_add_test(tcase, test_op__row_becomes_signature_doc_and_text);
    tcase_add_test(tcase, test_op__row_of_several_lines_becomes_one_function);
    tcase_add_test(tcase, test_op__is_found_by_its_whole_name_only);
    tcase_add_loop_test(tcase, test_op__failure_names_line_and_culprit, 0, COUNT(bad));
    tcase_add_loop_test(tcase, test_op__wrong_row_is_refused_when_it_is_asked_for, 0, COUNT(wrong));
    tcase_add_test(tcase, test_op__every_failed_allocation_is_reported);
    tcase_add_test(tcase, test_op__embedded_ops_are_complete);
    suite_add_tcase(suite, tcase);
    return suite;
}
