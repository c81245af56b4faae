#include "base/alloc.h"
#include "lang/expr.h"
#include "support/suites.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static const char ops[] = "relu6(x) = min(max(x, 0), 6)\n"
                          "hardtanh(x; lo=-1, hi=1) = min(max(x, lo), hi)\n"
                          "scale(x; by=0.1) = by * x\n"
                          "add(x, y) = x + y\n"
                          "fma(x, y, z) = x * y + z\n"
                          "blend(x, y; at=0.5) = x + at * (y - x)\n"
                          "turn(x, y; by=1) = (x * c - y * s, x * s + y * c) where c = cos(by), s = sin(by)\n";

static kiln__op_table table;

static void set_up(void)
{
    ck_assert_int_eq(kiln__op_table_init(&table, ops, NULL), KILN_OK);
}

static void tear_down(void)
{
    kiln__op_table_fini(&table);
}

static kiln_status parse(kiln__real *out, const char *text, kiln_report *report)
{
    return kiln__expr_parse(out, &table, text, strlen(text), report);
}

static char *format(const kiln__real *expr)
{
    kiln__text out = { 0 };
    kiln__expr_format(expr, &table, true, &out);
    return kiln__text_take(&out);
}

static const struct {
    const char *text, *canonical;
    unsigned inputs;
} good[] = {
    { "relu6", "relu6", 1 },
    { "relu6()", "relu6", 1 },
    { " relu6 ( x ) ", "relu6", 1 },
    { "hardtanh", "hardtanh(-1,1)", 1 },
    { "hardtanh(-2,2)", "hardtanh(-2,2)", 1 },
    { "hardtanh(-2)", "hardtanh(-2,1)", 1 },
    { "hardtanh(x,-2)", "hardtanh(-2,1)", 1 },
    { "hardtanh(hi=2)", "hardtanh(-1,2)", 1 },
    { "hardtanh(x, hi = 2, lo = 0)", "hardtanh(0,2)", 1 },
    { "hardtanh(0,hi=2)", "hardtanh(0,2)", 1 },
    { "hardtanh(-0,0)", "hardtanh(-0,0)", 1 },
    { "hardtanh(-inf,inf)", "hardtanh(-inf,inf)", 1 },
    { "hardtanh(hi=inf)", "hardtanh(-1,inf)", 1 },
    { "hardtanh(1e3,0x1p-1)", "hardtanh(1000,0.5)", 1 },
    { "sum( x )", "sum(x)", 1 },
    { "x - max( x )", "x-max(x)", 1 },
    { "max(x) + max(x, y)", "max(x)+max(x,y)", 2 },
    { "(argmax(x), min(x))", "(argmax(x),min(x))", 1 },
    { "var(x, correction = 1) + std(x, correction=0)", "var(x,correction=1)+std(x)", 1 },
    { "norm(x * weight) / mean", "norm(x*weight)/mean", 3 },
    { "relu6(sum(relu6(x)))", "relu6(sum(relu6(x)))", 1 },
    { "hardtanh(+1,.5)", "hardtanh(1,0.5)", 1 },
    { "add", "add(x,y)", 2 },
    { "add(y,x)", "add(y,x)", 2 },
    { "add(x,x)", "add(x,x)", 1 },
    { "fma", "fma(x,y,z)", 3 },
    { "blend(0.25)", "blend(x,y,0.25)", 2 },
    { "blend(y,x)", "blend(y,x,0.5)", 2 },
    { "relu6(add(x,y))", "relu6(add(x,y))", 2 },
    { "relu6(hardtanh(x))", "relu6(hardtanh(x,-1,1))", 1 },
    { "hardtanh(add(x,y),-1,1)", "hardtanh(add(x,y),-1,1)", 2 },
    { "add(relu6(z),\n\tadd(x, y))", "add(relu6(z),add(x,y))", 3 },
    { "relu6(y)", "relu6(y)", 1 },
    { "add(z,x)", "add(z,x)", 2 },
    { "relu6(bias)", "relu6(bias)", 1 },
    { "add(b,add(a,x))", "add(b,add(a,x))", 3 },
    { "scale(x + bias) * gate", "scale(x+bias,0.1)*gate", 3 },
    { "x-(y-z)-x", "x-(y-z)-x", 3 },
    { "(x*y)/(z/x)", "x*y/(z/x)", 3 },
    { "-(x+1)*-x", "-(x+1)*-x", 1 },
    { "- -3*x - -2", "3*x--2", 1 },
    { "-(-x)", "--x", 1 },
    { "!(x>0)&&(y<1||x==y)", "!(x>0)&&(y<1||x==y)", 2 },
    { "(x > 0 ? x : y) + 1", "(x>0?x:y)+1", 2 },
    { "(x ? y : z) ? x : (y ? x : z)", "(x?y:z)?x:y?x:z", 3 },
    { "x*1.0+1.50f+2", "x*1.0+1.5+2", 1 },
    { "x+pi-e*inf", "x+3.141592653589793-2.718281828459045*inf", 1 },
    { "hardtanh(x,-1.0,1.0)", "hardtanh(-1,1)", 1 },
    { "x+9223372036854774784-1e30*1e30f", "x+9223372036854774784-1e30*1.0000000150474662e30", 1 },
    { "h*g+f*d+(c-b)/a+x", "h*g+f*d+(c-b)/a+x", 8 },
    { "min(x, 3)", "min(x,3)", 1 },
    { "add(x,2)", "add(x,2)", 1 },
    { "hardtanh(- 2, hi = - - 3)", "hardtanh(-2,3)", 1 },
    { "(relu6((x)))", "relu6", 1 },
    { "hardtanh(?,?)", "hardtanh(?lo,?hi)", 1 },
    { "hardtanh(hi=?)", "hardtanh(-1,?hi)", 1 },
    { "hardtanh(lo,lo=?)", "hardtanh(lo,?s0,1)", 1 },
    { "hardtanh(x,?,1)+lo", "hardtanh(x,?s0,1)+lo", 2 },
    { "hardtanh(x,?b,?a)+?a*?", "hardtanh(x,?b,?a)+?a*?s0", 1 },
    { "?*x+?s0+?", "?s1*x+?s0+?s2", 1 },
    { "s0+?+scale(s1,?)*scale(s1,?)", "s0+?s2+scale(s1,?by)*scale(s1,?s3)", 2 },
    { "x > 0 ? ?a : ?b / y", "x>0??a:?b/y", 2 },
    { "( x + y , x*y )", "(x+y,x*y)", 2 },
    { "(relu6(x),hardtanh(x))", "(relu6(x),hardtanh(x,-1,1))", 1 },
    { "( s , x ) = (x-1,y)", "(s,x)=(x-1,y)", 2 },
    { "(y)=relu6", "(y)=relu6", 1 },
    { "turn", "turn(x,y,1)", 2 },
    { "(c,s)=turn(b,a,by=?)", "(c,s)=turn(b,a,?by)", 2 },
    { "fma(add(z,x),relu6(y),hardtanh(add(x,y),lo=-2))", "fma(add(z,x),relu6(y),hardtanh(add(x,y),-2,1))", 3 },
};

START_TEST(test_expr__has_one_canonical_text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__real expr, again;
    ck_assert_msg(parse(&expr, good[_i].text, &report) == KILN_OK, "%s", report.message);
    char *text = format(&expr);
    ck_assert_str_eq(text, good[_i].canonical);
    ck_assert_uint_eq(expr.inputs, good[_i].inputs);
    ck_assert_int_eq(parse(&again, text, NULL), KILN_OK);
    char *round = format(&again);
    ck_assert_str_eq(round, text);
    ck_assert_uint_eq(expr.count, again.count);
    free(round);
    free(text);
}
END_TEST

static const struct {
    const char *text, *problem;
} bad[] = {
    { "", "an op is missing: relu6, hardtanh, scale, add, fma, blend or turn" },
    { "hardtan", "unknown op 'hardtan': did you mean hardtanh?" },
    { "relu",
      "unknown op 'relu': relu6, hardtanh, scale, add, fma, blend or turn; --define-op (kiln_op_define) defines "
      "others" }, /* another function */
    { "HardTanh", "unknown op 'HardTanh': did you mean hardtanh?" },
    { "hard", "unknown op 'hard': relu6, hardtanh, scale, add, fma, blend or turn; --define-op (kiln_op_define) "
              "defines others" },
    { "qqq", "unknown op 'qqq': relu6, hardtanh, scale, add, fma, blend or turn; --define-op (kiln_op_define) defines "
             "others" },
    { "relu6(ad(x,y))",
      "op, character 7: unknown op 'ad': relu6, hardtanh, scale, add, fma, blend or turn; --define-op "
      "(kiln_op_define) defines others" },
    { "x", "'x' is an array: write an op of it, such as copy" },
    { "x y", "op, character 3: unexpected 'y' behind the expression" },
    { "x[0]", "op, character 2: unexpected '[0]' behind the expression" },
    { "summ(x)", "unknown op 'summ': did you mean sum?" },
    { "maxx(x)", "unknown op 'maxx': did you mean max?" },
    { "expp(x)", "unknown op 'expp': did you mean exp?" },
    { "cumsm(x)", "unknown op 'cumsm': did you mean cumsum?" },
    { "x(1)",
      "unknown op 'x': relu6, hardtanh, scale, add, fma, blend or turn; --define-op (kiln_op_define) defines others" },
    { "3", "the expression takes no array" },
    { "add(x)", "add takes 2 arguments, got 1" },
    { "relu6(x,x)", "relu6 takes 1 argument, got 2" },
    { "fma(x,y,z,x,x,x,x,x,x,x,x)", "fma takes 3 arguments, got 11" },
    { "relu6(1)", "relu6 takes no parameters: write its inputs, relu6(x)" },
    { "relu6(a=1)", "op, character 7: relu6 takes no parameters, got 'a'" },
    { "hardtanh(1,2,3)", "hardtanh takes at most 2 parameters (lo, hi), got 3" },
    { "hardtanh(1,2,3,4,5,6,7,8,9,10,11)", "hardtanh takes at most 2 parameters (lo, hi), got 11" },
    { "scale(1,2)", "scale takes at most 1 parameter (by), got 2" },
    { "hardtanh(hgh=3)", "op, character 10: hardtanh has no parameter 'hgh': lo or hi" },
    { "hardtanh(high=3)", "op, character 10: hardtanh has no parameter 'high': did you mean hi?" },
    { "hardtanh(x=3)", "op, character 10: hardtanh has no parameter 'x': lo or hi" },
    { "hardtanh(lo=1,lo=2)", "op, character 15: parameter lo of hardtanh is given twice" },
    { "hardtanh(1,lo=2)", "op, character 12: parameter lo of hardtanh is given twice" },
    { "hardtanh(hi=1,2)", "op, character 15: an argument follows a named parameter of hardtanh: name it too" },
    { "hardtanh(1,x)", "op, character 12: parameter lo of hardtanh is a number" },
    { "hardtanh(nan)", "op, character 10: 'nan' cannot name an array: it is a word of the language" },
    { "hardtanh(hi=-NaN)", "op, character 14: 'NaN' cannot name an array: take lower-case letters, digits and '_'" },
    { "hardtanh(1e999)", "op, character 10: '1e999' is not a number, or too large for one" },
    { "hardtanh(1.2.3)", "op, character 10: '1.2.3' is not a number, or too large for one" },
    { "hardtanh(lo=)", "op, character 10: a value is missing behind 'lo='" },
    { "hardtanh(lo=", "op, character 13: a value is missing at the end" },
    { "hardtanh(hi=x)", "op, character 10: parameter hi of hardtanh is a number" },
    { "hardtanh(hi=relu6)", "op, character 13: 'relu6' is called with its arguments: relu6(...)" },
    { "hardtanh(x,hi=relu6(x))", "op, character 12: parameter hi of hardtanh is a number" },
    { "hardtanh(#)", "op, character 10: expected a value at '#)'" },
    { "hardtanh(1/3)", "the expression takes no array" },
    { "add(x+y)", "add takes 2 arguments, got 1" },
    { "relu6 * 2", "'relu6' is called with its arguments: relu6(...)" },
    { "relu6 ** 2", "op, character 7: there is no power **: write x * x" },
    { "(relu6", "op, character 7: ')' is missing" },
    { "-inf", "the expression takes no array" },
    { "inf", "the expression takes no array" },
    { "hardtanh(1 2)", "op, character 12: expected ')' at '2)'" },
    { "hardtanh(? 1)", "op, character 12: expected ')' at '1)'" },
    { "?", "the expression takes no array" },
    { "max", "'max' reduces an array: write max(x)" },
    { "logsumexp", "'logsumexp' reduces an array: write logsumexp(x)" },
    { "x + sum(2)", "op, character 5: sum reduces an axis, and its argument is the same all along it" },
    { "sum(cumsum(x))", "sum of a scan: calculate the scan by itself, then this" },
    { "cumsum(1+cummax(x))", "cumsum of a scan: calculate the scan by itself, then this" },
    { "cumsum(x)+cummax(x,reverse=1)",
      "op, character 11: one scan begins at the end of the axis, and another does not: calculate one by itself" },
    { "cumsum(x,reverse=2)", "op, character 10: reverse is 0 or 1" },
    { "cumsum(x,exclusive=y)", "op, character 10: exclusive is 0 or 1" },
    { "cumsum(x,correction=1)", "op, character 10: cumsum takes an array, exclusive=1 and reverse=1" },
    { "sum(x,exclusive=1)", "sum takes 1 argument, got 2" },
    { "cumsum(2)", "cumsum scans an axis, and its argument is the same all along it" },
    { "sum(max(x))", "sum reduces an axis, and its argument is the same all along it" },
    { "sum(x,y)", "sum takes 1 argument, got 2" },
    { "x*sum()", "op, character 3: sum takes 1 argument, got 0" },
    { "var(x,correction=y)", "op, character 7: correction is a number" },
    { "var(x,ddof=1)", "op, character 7: var takes an array and correction=NUMBER" },
    { "var(x,y,1)", "var takes at most 2 arguments, got 3" },
    { "mean(y=x)", "mean takes an array first" },
    { "? lr*x", "a blank separates '?' from a name: write ?lr" },
    { "x - ?  lr*x", "op, character 5: a blank separates '?' from a name: write ?lr" },
    { "hardtanh(? hi)", "op, character 10: a blank separates '?' from a name: write ?hi" },
    { "x*? 3", "op, character 5: unexpected '3' behind the expression" },
    { "x*?where", "op, character 4: 'where' cannot name a scalar: it is a word of the language" },
    { "(where,b)=(x,y)", "op, character 2: 'where' cannot name an output: it is a word of the language" },
    { "x+?x", "op, character 3: 'x' is a scalar here, and an array before" },
    { "?k*x+k", "op, character 6: 'k' is an array here, and a scalar before" },
    { "x*?Lr", "op, character 4: 'Lr' cannot name a scalar: take lower-case letters, digits and '_'" },
    { "x+?+?+?+?+?+?+?+?+?", "op, character 19: one scalar too many: an expression takes at most 8" },
    { "(x,y", "op, character 5: ')' is missing behind the last value" },
    { "(x,)", "op, character 4: expected a value at ')'" },
    { "(x,y) + 1", "op, character 7: unexpected '+ 1' behind the expression" },
    { "(x,relu6)", "op, character 4: 'relu6' is called with its arguments: relu6(...)" },
    { "(x,(x,y))", "op, character 6: expected ')' at ',y))'" },
    { "(x,x,x,x,x,x,x,x,x)", "op, character 18: an expression gives at most 8 values" },
    { "(a,b)=relu6", "2 names for 1 value" },
    { "(a)=(x,y)", "1 name for 2 values" },
    { "(a,a)=(x,y)", "op, character 4: two outputs are named 'a'" },
    { "(a,B)=(x,y)", "op, character 4: 'B' cannot name an output: take lower-case letters, digits and '_'" },
    { "(a,b)=", "an op is missing: relu6, hardtanh, scale, add, fma, blend or turn" },
    { "turn(x,y) * 2", "turn gives 2 values: it stands alone in a spec, and not within an expression" },
    { "(x,turn(x,y))",
      "op, character 4: turn gives 2 values: it stands alone in a spec, and not within an expression" },
    { "hardtanh(1,)", "op, character 12: expected a value at ')'" },
    { "hardtanh(,1)", "op, character 10: expected a value at ',1)'" },
    { "hardtanh(", "op, character 10: a value is missing at the end" },
    { "hardtanh(1", "op, character 11: ')' is missing" },
    { "relu6(x", "op, character 8: ')' is missing" },
    { "relu6)", "op, character 6: unexpected ')' behind the expression" },
    { "relu6 x", "op, character 7: unexpected 'x' behind the expression" },
    { "relu6(x)(x)", "op, character 9: unexpected '(x)' behind the expression" },
    { "relu6(x(x))", "op, character 7: unknown op 'x': relu6, hardtanh, scale, add, fma, blend or turn; --define-op "
                     "(kiln_op_define) defines others" },
    { "relu6(add)", "op, character 7: 'add' is called with its arguments: add(...)" },
    { "relu6(hardtanh(-1,1))", "op, character 7: hardtanh has inputs that are left out at the outermost call alone: "
                               "write hardtanh(x; lo=-1, hi=1)" },
    { "relu6(hardtanh())", "op, character 7: hardtanh takes at least 1 argument, got 0" },
    { "a + b + c + d + f + g + h + i + j",
      "op, character 33: 'j' is one array too many: an expression takes at most 8" },
    { "Bias + x", "'Bias' cannot name an array: take lower-case letters, digits and '_'" },
    { "x % y", "op, character 3: real numbers have no operator %: call remainder or fmod" },
    { "1 + 2", "the expression takes no array" },
    { "min(x, hi=3)", "op, character 8: arguments of a function are given by their place, not by name" },
    { "min", "'min' reduces an array: write min(x)" },
    { "within(x)", "unknown op 'within': relu6, hardtanh, scale, add, fma, blend or turn; --define-op (kiln_op_define) "
                   "defines others" },
    { "x + within", "op, character 5: 'within' cannot name an array: it is a word of the language" },
    { "x = y", "op, character 3: unexpected '= y' behind the expression" },
    { "x where y = 1", "op, character 3: unexpected 'where y = 1' behind the expression" },
    { "\x01\xfeqqq\n", "expected a value at '\?\?qqq?'" },
    { "a_name_that_is_much_longer_than_forty_characters",
      "unknown op 'a_name_that_is_much_longer_than_forty...': relu6, hardtanh, scale, add, fma, blend or turn; "
      "--define-op "
      "(kiln_op_define) defines others" },
};

START_TEST(test_expr__failure_names_the_culprit)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__real expr;
    ck_assert_int_eq(parse(&expr, bad[_i].text, &report), KILN_EOP);
    ck_assert_str_eq(report.message, bad[_i].problem);
    ck_assert_str_eq(report.stage, "spec");
    ck_assert_uint_eq(expr.count, 0);
}
END_TEST

START_TEST(test_expr__reads_exactly_the_given_length)
{
    kiln__real expr;
    ck_assert_int_eq(kiln__expr_parse(&expr, &table, "relu6(x)garbage", 8, NULL), KILN_OK);
    ck_assert_int_eq(kiln__expr_parse(&expr, &table, "relu6(x)", 7, NULL), KILN_EOP);
    ck_assert_int_eq(kiln__expr_parse(&expr, &table, "scale(12)", 7, NULL), KILN_EOP);
}
END_TEST

/* "relu6(relu6(...x...))", `depth` ops. */
static kiln_status parse_nested(size_t depth, kiln_report *report)
{
    kiln__text text = { 0 };
    kiln__real expr;
    for (size_t i = 0; i < depth; i++)
        kiln__text_append(&text, "relu6(");
    kiln__text_append(&text, "x");
    for (size_t i = 0; i < depth; i++)
        kiln__text_append(&text, ")");
    kiln_status status = parse(&expr, kiln__text_string(&text), report);
    kiln__text_fini(&text);
    return status;
}

START_TEST(test_expr__nests_to_its_limit_and_no_further)
{
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_int_eq(parse_nested(47, NULL), KILN_OK);
    ck_assert_int_eq(parse_nested(48, &report), KILN_EOP);
    ck_assert_str_eq(report.message, "op, character 289: nested deeper than 48");
    ck_assert_int_eq(parse_nested(500000, NULL), KILN_EOP);
}
END_TEST

/* A balanced tree of adds: 2^(levels + 1) - 1 nodes. */
static void append_tree(kiln__text *out, int levels)
{
    if (levels == 0) {
        kiln__text_append(out, "x");
        return;
    }
    kiln__text_append(out, "add(");
    append_tree(out, levels - 1);
    kiln__text_append(out, ",");
    append_tree(out, levels - 1);
    kiln__text_append(out, ")");
}

START_TEST(test_expr__has_at_most_256_nodes)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__text text = { 0 };
    kiln__real expr;
    append_tree(&text, 7);
    ck_assert_int_eq(parse(&expr, kiln__text_string(&text), &report), KILN_OK);
    ck_assert_uint_eq(expr.count, 255);
    kiln__text_fini(&text);
    append_tree(&text, 8);
    ck_assert_int_eq(parse(&expr, kiln__text_string(&text), &report), KILN_EOP);
    ck_assert_ptr_nonnull(strstr(report.message, "an expression has at most 256 parts"));
    kiln__text_fini(&text);
}
END_TEST

static int refuse_allocation(void)
{
    return 1;
}

/* A small tree needs no memory; a large one says that there is none. */
START_TEST(test_expr__a_failed_allocation_is_told)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__text text = { 0 };
    kiln__real expr;
    append_tree(&text, 4);
    ck_assert_int_eq(parse(&expr, kiln__text_string(&text), NULL), KILN_OK); /* loads the ops */
    kiln__alloc_set_hook(refuse_allocation);
    kiln_status small = parse(&expr, "add(add(x,y),add(y,z))", NULL);
    kiln_status large = parse(&expr, kiln__text_string(&text), &report);
    kiln__alloc_set_hook(NULL);
    ck_assert_int_eq(small, KILN_OK);
    ck_assert_int_eq(large, KILN_ENOMEM);
    ck_assert_int_eq(report.status, KILN_ENOMEM);
    ck_assert_uint_eq(expr.count, 0);
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_expr__a_megabyte_is_refused_at_once)
{
    static const char fill[] = { 'a', '1', ' ', '(', ',', '\xff' };
    size_t size = 1 << 20;
    kiln__real expr;
    char *text = malloc(size);
    ck_assert_ptr_nonnull(text);
    memset(text, fill[_i], size);
    ck_assert_int_eq(kiln__expr_parse(&expr, &table, text, size, NULL), KILN_EOP);
    memcpy(text, "hardtanh(", 9);
    ck_assert_int_eq(kiln__expr_parse(&expr, &table, text, size, NULL), KILN_EOP);
    free(text);
}
END_TEST

static const struct {
    const char *text, *emitted;
} emitted[] = {
    { "relu6", "kiln_op_relu6(x)" },
    { "hardtanh(-1,0.2)", "kiln_op_hardtanh(x, (kiln_real)-0x1p+0, (kiln_real)0x1.999999999999ap-3)" },
    { "hardtanh(-inf,inf)", "kiln_op_hardtanh(x, (kiln_real)-KILN_INFINITY, (kiln_real)KILN_INFINITY)" },
    { "hardtanh(-0,0)", "kiln_op_hardtanh(x, (kiln_real)-0x0p+0, (kiln_real)0x0p+0)" },
    { "relu6(add(x,y))", "kiln_op_relu6(kiln_op_add(x, y))" },
    { "relu6(a + b)", "kiln_op_relu6(kiln_add(x, y))" },
    { "z * x", "kiln_mul(y, x)" },
    { "x / ?k + ?k * ?", "kiln_add(kiln_over(x, s0), kiln_mul(s0, s1))" },
    { "max(a, b) - c * d", "kiln_sub(kiln_max(x, y), kiln_mul(z, x4))" },
    { "fma(relu6(z),x,blend(y,x,1))", "kiln_op_fma(kiln_op_relu6(z), x, kiln_op_blend(y, x, (kiln_real)0x1p+0))" },
};

START_TEST(test_expr__an_op_alone_gives_all_its_values)
{
    static const char *const calls[] = { "kiln_op_turn(x, y, s0)", "kiln_op_turn__1(x, y, s0)" };
    kiln__real expr;
    ck_assert_int_eq(parse(&expr, "(c,s)=turn(by=?)", NULL), KILN_OK);
    ck_assert(expr.outputs == 2 && expr.scalars == 1 && expr.inputs == 2);
    ck_assert_str_eq(expr.output_names[1], "s");
    ck_assert_str_eq(expr.scalar_names[0], "by");
    const double inputs[] = { 3, 4 }, by = 0;
    for (uint32_t i = 0; i < 2; i++) {
        kiln__text out = { 0 };
        kiln__real_emit(&expr, &table, NULL, NULL, i, &out);
        ck_assert_str_eq(kiln__text_string(&out), calls[i]);
        const kiln__real_numbers numbers = { .inputs = inputs, .scalars = &by };
        ck_assert_double_eq(kiln__real_value(&expr, &table, &numbers, i), inputs[i]);
        kiln__text_fini(&out);
    }
    const char *text = kiln__op_at(&table, 6)->text;
    ck_assert_ptr_nonnull(strstr(text, "kiln_op_turn(kiln_real x, kiln_real y, kiln_real by_)\n"));
    ck_assert_ptr_nonnull(strstr(text, "kiln_op_turn__1(kiln_real x, kiln_real y, kiln_real by_)\n"));
}
END_TEST

START_TEST(test_expr__emits_nested_calls_with_exact_literals)
{
    kiln__text out = { 0 };
    kiln__real expr;
    ck_assert_int_eq(parse(&expr, emitted[_i].text, NULL), KILN_OK);
    kiln__real_emit(&expr, &table, NULL, NULL, 0, &out);
    ck_assert_str_eq(kiln__text_string(&out), emitted[_i].emitted);
    kiln__text_fini(&out);
}
END_TEST

Suite *kiln_test_lang_expr_suite(void)
{
    Suite *suite = suite_create("expr");
    TCase *tcase = tcase_create("expr");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, test_expr__has_one_canonical_text, 0, COUNT(good));
    tcase_add_loop_test(tcase, test_expr__failure_names_the_culprit, 0, COUNT(bad));
    tcase_add_test(tcase, test_expr__reads_exactly_the_given_length);
    tcase_add_test(tcase, test_expr__nests_to_its_limit_and_no_further);
    tcase_add_test(tcase, test_expr__has_at_most_256_nodes);
    tcase_add_test(tcase, test_expr__a_failed_allocation_is_told);
    tcase_add_loop_test(tcase, test_expr__a_megabyte_is_refused_at_once, 0, 6);
    tcase_add_test(tcase, test_expr__an_op_alone_gives_all_its_values);
    tcase_add_loop_test(tcase, test_expr__emits_nested_calls_with_exact_literals, 0, COUNT(emitted));
    suite_add_tcase(suite, tcase);
    return suite;
}
