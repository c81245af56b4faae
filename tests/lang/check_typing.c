/* The types of steps, as torch.result_type has them, and the C text of conversions and roundings. */
#include "lang/expr.h"
#include "lang/typing.h"
#include "support/suites.h"
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static const char ops[] = "relu6(x) = min(max(x, 0), 6)\n"
                          "exp(x) = exp(x)\n"
                          "scale(x; by=2) = by * x\n"
                          "gt(x, y) = x > y\n";

static kiln__op_table table;

static void set_up(void)
{
    ck_assert_int_eq(kiln__op_table_init(&table, ops, NULL), KILN_OK);
}

static void tear_down(void)
{
    kiln__op_table_fini(&table);
}

/* Reads an expression whose inputs have the types of a list, "f16 i32". */
static void make(kiln__real *expr, kiln__typing *typing, const char *text, const char *types)
{
    kiln__dtype inputs[KILN__INPUTS_MAX] = { KILN__DTYPE_UNSET };
    kiln__word rest = kiln__word_of(types);
    uint32_t count = 0;
    for (; rest.length > 0; count++)
        ck_assert(kiln__dtype_find(kiln__word_next(&rest), &inputs[count]));
    ck_assert_int_eq(kiln__expr_parse(expr, &table, text, strlen(text), NULL), KILN_OK);
    ck_assert_uint_eq(count, expr->inputs);
    kiln__typing_make(typing, expr, &table, kiln__dtype_promote_all(inputs, count), inputs);
}

static const struct {
    const char *text, *types, *result;
    const char *step; /* NULL: several */
} typed[] = {
    /* One type for all, as the arrays have it. */
    { "x+y", "f16 f16", "f16", "f16" },
    { "relu6(x)", "i8", "i8", "i8" },
    { "x*2", "u8", "u8", "u8" },
    { "x*2.0", "bf16", "bf16", "bf16" },
    { "x*?a", "f64", "f64", "f64" },
    { "x+y", "f16 f32", "f32", "f32" },
    { "x+y", "f16 bf16", "f32", "f32" },
    { "x+y", "i64 f16", "f16", "f16" },
    { "x+y", "u8 i8", "i16", "i16" },
    { "x+y", "f8e4m3 f16", "f16", "f16" },
    { "x?y:z", "bool f32 f32", "f32", "f32" },
    { "x&&y", "f32 f32", "bool", "f32" },
    { "x>y", "f32 f64", "bool", "f64" },
    { "gt(x,y)", "i8 i32", "bool", "i32" },
    { "x>0?1.0:-1.0", "f16", "f16", "f16" },
    /* Whole numbers in f32 alone. */
    { "x/y", "i32 i32", "f32", "f32" },
    { "exp(x)", "i64", "f32", "f32" },
    { "x*0.5", "i8", "f32", "f32" },
    { "x*1.0", "u8", "f32", "f32" },
    { "x*?a", "i32", "f32", "f32" },
    { "scale(0.5)", "i32", "f32", "f32" },
    { "scale(3)", "bool", "bool", "bool" },
    { "x/2*y", "i32 i32", "f32", "f32" },
    /* Several types. */
    { "x+1", "bool", "i64", NULL },
    { "(x+y)/2", "i32 i32", "f32", NULL },
    { "x*y+z", "i32 u8 f16", "f16", NULL },
    { "x+y+z", "f16 f16 f32", "f32", NULL },
    { "(x>0)+(y>0)", "f32 f32", "bool", NULL },
    { "(x>0)*y", "f32 f32", "f32", "f32" },
    { "1-(x>0)", "f32", "i64", NULL },
    { "x<1&&y", "f16 f32", "bool", NULL },
    { "x>0?y:z", "f64 f16 f16", "f16", NULL },
    { "exp(x)+y", "i8 f16", "f32", NULL },
    { "index<x?x:y", "f32 f32", "f32", NULL },
    { "index*x", "i64", "i64", "i64" },
    { "x?10:20", "bool", "i64", NULL },
    { "!x", "bool", "bool", "bool" },
    { "?a?x:y", "i32 i32", "i32", NULL },
};

START_TEST(test_typing__steps_and_results_have_pytorchs_types)
{
    kiln__real expr;
    kiln__typing typing;
    make(&expr, &typing, typed[_i].text, typed[_i].types);
    ck_assert_str_eq(kiln__dtype_name(kiln__typing_result(&typing, &expr, 0)), typed[_i].result);
    bool mixed = typed[_i].step == NULL || expr.indexed;
    ck_assert_msg(typing.mixed == mixed, "%s of %s", typed[_i].text, typed[_i].types);
    if (!mixed)
        ck_assert_str_eq(kiln__dtype_name(typing.step), typed[_i].step);
}
END_TEST

static const struct {
    const char *text, *types;
    bool eager;
    const char *emitted;
} texts[] = {
    { "x+y", "f16 f16", false, "kiln_add(x, y)" },
    { "x+y*x", "f16 f16", true, "kiln_load(kiln_store(kiln_add(x, kiln_load(kiln_store(kiln_mul(y, x))))))" },
    { "x+y*x", "f32 f32", true, "kiln_add(x, kiln_mul(y, x))" },
    { "x+y*x", "i8 i8", true, "kiln_load(kiln_store(kiln_add(x, kiln_load(kiln_store(kiln_mul(y, x))))))" },
    { "x+y*x", "i64 i64", true, "kiln_add(x, kiln_mul(y, x))" },
    { "x/y*x", "i8 i8", true, "kiln_mul(kiln_div(x, y), x)" },
    { "x>0?relu6(x):y", "bf16 bf16", true,
      "kiln_load(kiln_store(kiln_choose(x > kiln_load(kiln_store((kiln_real)0x0p+0)), "
      "kiln_load(kiln_store(kiln_op_relu6(x))), y)))" },
    { "x+y", "f16 f32", true, "kiln_add(x, y)" },
    { "x+1.5", "f16", true, "kiln_load(kiln_store(kiln_add(x, (kiln_real)0x1.8p+0)))" },
    { "?a/x", "bf16", false, "kiln_div(kiln_load(kiln_store(s0)), x)" },
    { "x/?a", "bf16", false, "kiln_over(x, s0)" },
    { "x<70000", "f16", false, "(x < (kiln_real)0x1.117p+16 ? (kiln_real)1 : (kiln_real)0)" },
    { "gt(x,0.1)", "f16", false, "kiln_op_gt(x, kiln_load(kiln_store((kiln_real)0x1.999999999999ap-4)))" },
    { "x<2", "f8e4m3", false, "(x < (kiln_real)0x1p+1 ? (kiln_real)1 : (kiln_real)0)" },
    { "(x+y)*x", "bool bool", false, "kiln_load(kiln_store(kiln_mul(kiln_load(kiln_store(kiln_add(x, y))), x)))" },
    { "x<2", "i8", true, "(x < (kiln_real)0x1p+1 ? (kiln_real)1 : (kiln_real)0)" },
    /* A type's own functions have its name. Whole numbers that a type does not hold are rounded to it. */
    { "(x+y)/2", "i32 i32", false, "kiln_f32_over((kiln_f32_real)kiln_add(x, y), (kiln_f32_real)0x1p+1)" },
    { "x*y+z", "i32 u8 f16", false,
      "kiln_add(kiln_load(kiln_store((kiln_real)kiln_i32_mul(x, (kiln_i32_real)y))), z)" },
    { "x+y+z", "f16 f16 f32", true, "kiln_add((kiln_real)kiln_f16_load(kiln_f16_store(kiln_f16_add(x, y))), z)" },
    { "x+y+z", "f16 f16 f32", false, "kiln_add((kiln_real)kiln_f16_add(x, y), z)" },
    { "index<x?x:y", "f32 f32", false, "kiln_choose((kiln_real)position < x, x, y)" },
    { "x+index", "u8", true, "kiln_i64_add((kiln_i64_real)x, position)" },
    { "(x>0)+(y>0)", "f32 f32", true,
      "kiln_bool_load(kiln_bool_store(kiln_bool_add((x > (kiln_real)0x0p+0 ? (kiln_bool_real)1 : (kiln_bool_real)0), "
      "(y > (kiln_real)0x0p+0 ? (kiln_bool_real)1 : (kiln_bool_real)0))))" },
    { "x*?a+y/2", "f32 i32", false, "kiln_add(kiln_mul(x, s0), kiln_over(y, (kiln_real)0x1p+1))" },
    { "?a?x:y", "i32 i32", false, "kiln_choose((kiln_f32_real)s0 != 0, x, y)" },
    { "x<1&&y", "f16 f32", false,
      "((x < kiln_f16_load(kiln_f16_store((kiln_f16_real)0x1p+0))) && (y != 0) ? (kiln_real)1 : (kiln_real)0)" },
};

START_TEST(test_typing__conversions_and_roundings_are_spelt_out)
{
    kiln__real expr;
    kiln__typing typing;
    kiln__text out = { 0 };
    make(&expr, &typing, texts[_i].text, texts[_i].types);
    const kiln__real_style style = { &typing, texts[_i].eager, NULL };
    kiln__real_emit(&expr, &table, NULL, &style, 0, &out);
    ck_assert_str_eq(kiln__text_string(&out), texts[_i].emitted);
    kiln__text_fini(&out);
}
END_TEST

START_TEST(test_typing__marks_the_steps_of_a_type)
{
    kiln__real expr;
    kiln__typing typing;
    bool nodes[KILN__REAL_NODES_MAX];
    uint32_t count = 0;
    make(&expr, &typing, "(x*y+x)/2", "i32 i32");
    ck_assert(kiln__typing_mark(&typing, &expr, KILN__DTYPE_I32, nodes));
    for (uint32_t i = 0; i < expr.count; i++)
        count += nodes[i];
    ck_assert_uint_eq(count, 2);
    ck_assert(kiln__typing_mark(&typing, &expr, KILN__DTYPE_F32, nodes));
    ck_assert(nodes[expr.roots[0]]);
    ck_assert(!kiln__typing_mark(&typing, &expr, KILN__DTYPE_F16, nodes));
    make(&expr, &typing, "?a?x:y", "i32 i32"); /* the condition is a real number */
    ck_assert(kiln__typing_mark(&typing, &expr, KILN__DTYPE_F32, nodes));
    make(&expr, &typing, "(x,y)", "i32 f16"); /* nothing is calculated, and an output has the type */
    ck_assert(kiln__typing_mark(&typing, &expr, KILN__DTYPE_I32, nodes));
}
END_TEST

Suite *kiln_test_lang_typing_suite(void)
{
    Suite *suite = suite_create("typing");
    TCase *tcase = tcase_create("typing");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, test_typing__steps_and_results_have_pytorchs_types, 0, COUNT(typed));
    tcase_add_loop_test(tcase, test_typing__conversions_and_roundings_are_spelt_out, 0, COUNT(texts));
    tcase_add_test(tcase, test_typing__marks_the_steps_of_a_type);
    suite_add_tcase(suite, tcase);
    return suite;
}
