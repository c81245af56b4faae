#include "base/alloc.h"
#include "support/suites.h"
#include "template/catalog.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static const char sample[] = "#include \"real.h\"\n"
                             "int not_part_of_any_op;\n"
                             "//! op hardtanh(x; lo=-1, hi=inf)\n"
                             "//! Clamps x.\n"
                             "//!   Indented.\n"
                             "//!\n"
                             "kiln_real kiln_op_hardtanh(kiln_real x, kiln_real lo, kiln_real hi)\n"
                             "{\n"
                             "\n"
                             "    return x; // op end\n"
                             "}\n"
                             "\n"
                             "\n"
                             "//! op  add( x ,y )\r\n"
                             "kiln_real kiln_op_add(kiln_real x, kiln_real y);\r\n"
                             "//! end\n"
                             "//! op after(x)\n"
                             "#endif\n";

static void open_table(kiln__op_table *table, const char *text)
{
    kiln_report report = KILN_REPORT_INIT;
    kiln_status status = kiln__op_table_init(table, text, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
}

START_TEST(test_op__reads_signature_doc_and_text)
{
    kiln__op_table table;
    open_table(&table, sample);
    ck_assert_uint_eq(table.count, 2);
    const kiln__op *op = kiln__op_at(&table, 0);
    ck_assert_str_eq(op->name, "hardtanh");
    ck_assert_str_eq(op->signature, "hardtanh(x; lo=-1, hi=inf)");
    ck_assert_str_eq(op->doc, "Clamps x.\n  Indented.\n\n");
    ck_assert_str_eq(op->text, "kiln_real kiln_op_hardtanh(kiln_real x, kiln_real lo, kiln_real hi)\n{\n\n"
                               "    return x; // op end\n}\n");
    ck_assert_uint_eq(op->inputs, 1);
    ck_assert_uint_eq(op->params, 2);
    ck_assert_str_eq(op->param_names[0], "lo");
    ck_assert_str_eq(op->param_names[1], "hi");
    ck_assert(op->defaults[0] == -1.0 && op->defaults[1] == INFINITY);
    op = kiln__op_at(&table, 1);
    ck_assert_str_eq(op->signature, "add( x ,y )");
    ck_assert_str_eq(op->text, "kiln_real kiln_op_add(kiln_real x, kiln_real y);\n");
    ck_assert_str_eq(op->doc, "");
    ck_assert_uint_eq(op->inputs, 2);
    ck_assert_uint_eq(op->params, 0);
    kiln__op_table_fini(&table);
    ck_assert_uint_eq(table.count, 0);
}
END_TEST

START_TEST(test_op__is_found_by_its_whole_name_only)
{
    kiln__op_table table;
    open_table(&table, sample);
    ck_assert_int_eq(kiln__op_find(&table, "add", 3), 1);
    ck_assert_int_eq(kiln__op_find(&table, "add(x)", 3), 1);
    ck_assert_int_eq(kiln__op_find(&table, "add", 2), -1);
    ck_assert_int_eq(kiln__op_find(&table, "adds", 4), -1);
    ck_assert_int_eq(kiln__op_find(&table, "after", 5), -1);
    ck_assert_int_eq(kiln__op_find(&table, "", 0), -1);
    kiln__op_table_fini(&table);
}
END_TEST

#define BODY(name) "int kiln_op_" name "(x);\n"
#define END        "//! end\n"

static const struct {
    const char *text;
    unsigned line;
    const char *problem;
} bad[] = {
    { "", 0, "the last line '//! end' is missing" },
    { "//! op f(x)\n" BODY("f"), 2, "the last line '//! end' is missing" },
    { "//! op f(x)\n" END, 2, "has no function kiln_op_f(" },
    { "//! op f(x)\n" BODY("ff") END, 3, "has no function kiln_op_f(" },
    { "//! op f(x)\n//! op g(x)\n" BODY("g") BODY("f") END, 2, "has no function kiln_op_f(" },
    { "\n//! loose words\n" END, 2, "expected '//! op NAME(...)' before ' loose words'" },
    { "//! op f\n" END, 1, "write //! op NAME(" },
    { "//! op f(x\n" END, 1, "write //! op NAME(" },
    { "//! op F(x)\n" END, 1, "'F' cannot name an op" },
    { "//! op (x)\n" END, 1, "'' cannot name an op" },
    { "//! op inf(x)\n" END, 1, "'inf' cannot name an op" },
    { "//! op x(x)\n" END, 1, "'x' cannot name an op" },
    { "//! op f(x)\n" BODY("f") "//! op f(x)\n" END, 3, "'f' cannot name an op" },
    { "//! op f()\n" END, 1, "the inputs of f must be x, or x, y, or x, y, z" },
    { "//! op f(y)\n" END, 1, "the inputs of f must be" },
    { "//! op f(x, z)\n" END, 1, "the inputs of f must be" },
    { "//! op f(x, y, z, w)\n" END, 1, "the inputs of f must be" },
    { "//! op f(x;)\n" END, 1, "'' cannot name a param of f" },
    { "//! op f(x; a=1, a=2)\n" END, 1, "'a' cannot name a param of f" },
    { "//! op f(x; y=1)\n" END, 1, "'y' cannot name a param of f" },
    { "//! op f(x; a)\n" END, 1, "the default of a must be a number" },
    { "//! op f(x; a=b)\n" END, 1, "the default of a must be a number" },
    { "//! op f(x; a=nan)\n" END, 1, "the default of a must be a number" },
    { "//! op f(x; a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1)\n" END, 1, "f has more than 8 params" },
};

START_TEST(test_op__failure_names_line_and_culprit)
{
    kiln_report report = KILN_REPORT_INIT;
    kiln__op_table table;
    char line[24];
    ck_assert_int_eq(kiln__op_table_init(&table, bad[_i].text, &report), KILN_ESPEC);
    ck_assert_uint_eq(table.count, 0);
    ck_assert_ptr_null(table.added);
    snprintf(line, sizeof(line), "ops, line %u: ", bad[_i].line);
    ck_assert_msg(strncmp(report.message, line, strlen(line)) == 0, "%s", report.message);
    ck_assert_msg(strstr(report.message, bad[_i].problem) != NULL, "%s", report.message);
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
        kiln__alloc_set_hook(NULL);
        ck_assert_uint_eq(table.count, status == KILN_OK ? 2 : 0);
        kiln__op_table_fini(&table);
    }
    ck_assert_int_eq(status, KILN_OK);
    ck_assert_int_gt(attempts, 8);
}
END_TEST

static const char *const expected[] = {
    "copy", "add", "mul", "relu6", "hardtanh", "hardsigmoid", "hardsigmoid_linear"
};

/* What a file says, as the library reads it, must be what its constants say. */
static void compare_constants(const char *file, kiln_status (*read)(kiln__op_table *, const char *, kiln_report *),
                              const kiln__op *constants, size_t count)
{
    static char text[1 << 16];
    char path[512];
    kiln__op_table table;
    snprintf(path, sizeof(path), KILN_TEMPLATE_DIR "/%s", file);
    FILE *stream = fopen(path, "r");
    ck_assert_msg(stream != NULL, "%s", path);
    text[fread(text, 1, sizeof(text) - 1, stream)] = '\0';
    fclose(stream);
    ck_assert_int_eq(read(&table, text, NULL), KILN_OK);
    ck_assert_uint_eq(table.count, count);
    for (size_t i = 0; i < count; i++) {
        const kiln__op *a = kiln__op_at(&table, i), *b = &constants[i];
        ck_assert_str_eq(a->name, b->name);
        ck_assert_str_eq(a->signature, b->signature);
        ck_assert_str_eq(a->doc, b->doc);
        ck_assert_str_eq(a->text, b->text);
        ck_assert_uint_eq(a->inputs, b->inputs);
        ck_assert_uint_eq(a->operations, b->operations);
        ck_assert_uint_eq(a->params, b->params);
        for (uint32_t j = 0; j < a->params; j++)
            ck_assert_str_eq(a->param_names[j], b->param_names[j]);
        ck_assert_mem_eq(a->defaults, b->defaults, sizeof(a->defaults));
    }
    kiln__op_table_fini(&table);
}

START_TEST(test_op__constants_are_what_the_files_say)
{
    compare_constants("ops.h", kiln__op_table_init, kiln__constant_ops, kiln__constant_op_count);
    compare_constants("functions.h", kiln__function_table_init, kiln__constant_functions,
                      kiln__constant_function_count);
}
END_TEST

/* The texts that the library carries: what holds for any op holds for these. */
START_TEST(test_op__embedded_ops_are_complete)
{
    kiln_report report = KILN_REPORT_INIT;
    kiln__catalog catalog;
    ck_assert_msg(kiln__catalog_init(&catalog, &report) == KILN_OK, "%s", report.message);
    for (int i = 0; i < COUNT(expected); i++)
        ck_assert_msg(kiln__op_find(&catalog.ops, expected[i], strlen(expected[i])) >= 0, "%s", expected[i]);
    for (uint32_t i = 0; i < catalog.ops.count; i++) {
        const kiln__op *op = kiln__op_at(&catalog.ops, i);
        ck_assert_msg(strlen(op->doc) > 10 && op->doc[strlen(op->doc) - 1] == '\n', "%s", op->name);
        ck_assert_msg(strstr(op->text, "//!") == NULL && strstr(op->text, "#endif") == NULL, "%s", op->name);
        ck_assert_msg(strstr(strstr(op->text, "kiln_op_") + 1, "kiln_op_") == NULL, "%s uses an op", op->name);
    }
    kiln__catalog_fini(&catalog);
}
END_TEST

Suite *kiln_test_op_suite(void)
{
    Suite *suite = suite_create("op");
    TCase *tcase = tcase_create("op");
    tcase_add_test(tcase, test_op__reads_signature_doc_and_text);
    tcase_add_test(tcase, test_op__is_found_by_its_whole_name_only);
    tcase_add_loop_test(tcase, test_op__failure_names_line_and_culprit, 0, COUNT(bad));
    tcase_add_test(tcase, test_op__every_failed_allocation_is_reported);
    tcase_add_test(tcase, test_op__constants_are_what_the_files_say);
    tcase_add_test(tcase, test_op__embedded_ops_are_complete);
    suite_add_tcase(suite, tcase);
    return suite;
}
