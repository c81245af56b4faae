/* Ops that reduce: the plan of their rows, the types and layouts of their results, their template, what is refused. */
#include "spec/rows.h"
#include "spec/unit.h"
#include "support/fields.h"
#include "support/suites.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static kiln__catalog catalog;
static kiln_report report = KILN_INIT(kiln_report);

static void set_up(void)
{
    ck_assert_int_eq(kiln__catalog_init(&catalog, NULL), KILN_OK);
}

static void tear_down(void)
{
    kiln__catalog_fini(&catalog);
    kiln_report_clear(&report);
}

static void parse(kiln__fields *out, const char *text)
{
    ck_assert_msg(kiln_test_fields(out, &catalog, text, &report) == KILN_OK, "%s: %s", text, report.message);
}

static kiln_status resolve(kiln__fields *out, const char *text)
{
    kiln__target sm_90;
    ck_assert(kiln__target_parse("sm_90", 5, &sm_90));
    parse(out, text);
    return kiln__spec_resolve(out, out, &sm_90, &report);
}

/* Each value as "reduction@stage", and with joint folds where these differ. */
static const struct {
    const char *text, *values, *joint;
} plans[] = {
    { "op=sum(x)", "sum@0", NULL },
    { "op=softmax", "max@0 sum@1", "max@0 sum@0" },
    { "op=log_softmax(x)*softmax(x)", "max@0 sum@1", "max@0 sum@0" },
    { "op=exp(x-max(x))/sum(exp(x-max(x)))", "max@0 sum@1", "max@0 sum@0" },
    { "op=softmax dtype=f16 round=eager", "max@0 sum@1", "max@0 sum@0" },
    { "op=sum(exp(x-max(x))) dtype=f16 round=eager", "max@0 sum@1", NULL }, /* whose terms are rounded */
    { "op=sum(exp(x-max(y)))", "max@0 sum@1", NULL },
    { "op=sum(exp(x+max(x)))", "max@0 sum@1", NULL },
    { "op=layer_norm(x,w,b)", "mean@0 var@1", "mean@0 var@0" },
    { "op=native_layer_norm(x,w,b)", "mean@0 var@1", "mean@0 var@0" },
    { "op=(mean(x),var(x),std(x))", "mean@0 var@1 std@1", "mean@0 var@0 std@0" },
    { "op=(var(x),var(x,correction=1))", "mean@0 var@1 var@1", "var@0 var@0" },
    { "op=logsumexp(x)", "max@0 logsumexp@1", "max@0 logsumexp@0" },
    { "op=cross_entropy(x,t)", "max@0 sum@1 sum@0", "max@0 sum@0 sum@0" },
    { "op=cross_entropy(x,t,label_smoothing=0.1)", "max@0 sum@1 sum@0 mean@0", "max@0 sum@0 sum@0 mean@0" },
    { "op=max(x)+max(y)+max(x+y)+max(y)", "max@0 max@0 max@0", NULL },
    { "op=sum(x/sum(x*sum(x)))", "sum@0 sum@1 sum@2", NULL },
    { "op=softmax(softmax(x))", "max@0 sum@1 max@2 sum@3", "max@0 sum@0 max@1 sum@1" },
    { "op=(argmax(x),any(x>0),norm(x))", "argmax@0 any@0 norm@0", NULL },
    { "op=cumsum(x)", "sum@scan", NULL },
    { "op=(cumsum(x),cumsum(x,exclusive=1),sum(x),cummax(x))", "sum@scan sum@0 max@scan", NULL },
    { "op=cumsum(softmax(x))*max(x)", "max@0 sum@1 sum@scan", "max@0 sum@0 sum@scan" },
};

static void check_plan(const kiln__fields *spec, bool joint, const char *wanted)
{
    kiln__typing typing;
    kiln__rows rows;
    char values[256] = "";
    kiln__spec_type(spec, &typing);
    kiln__rows_make(&rows, spec, &typing, joint);
    for (uint32_t k = 0, length = 0; k < rows.count; k++) {
        char stage[12] = "scan";
        if (rows.values[k].stage != KILN__STAGE_OF_SCANS)
            snprintf(stage, sizeof(stage), "%u", rows.values[k].stage);
        length += (uint32_t)snprintf(values + length, sizeof(values) - length, "%s%s@%s", k > 0 ? " " : "",
                                     kiln__reduction_name(rows.values[k].reduction), stage);
        ck_assert(rows.values[k].stage < rows.stages || rows.values[k].stage == KILN__STAGE_OF_SCANS);
    }
    ck_assert_str_eq(values, wanted);
}

START_TEST(test_rows__are_planned_in_as_few_stages_as_there_can_be)
{
    kiln__fields spec;
    ck_assert_int_eq(resolve(&spec, plans[_i].text), KILN_OK);
    check_plan(&spec, false, plans[_i].values);
    check_plan(&spec, true, plans[_i].joint != NULL ? plans[_i].joint : plans[_i].values);
}
END_TEST

/* The values that one thread adds, in the order of the values. */
static const struct {
    const char *text, *picked;
} picks[] = {
    { "op=sum(index==t?x:0) dtype=(i32,f32) layout=(column,full)", "1" },
    { "op=sum(t==index?x:0) dtype=(u8,f16) layout=(one,full)", "1" },
    { "op=mean(index==t?1:0)+max(x) dtype=(i64,f32) layout=(column,full)", "10" },
    { "op=cross_entropy(x,t) dtype=(bf16,i64) layout=(full,column)", "001" },
    { "op=cross_entropy_backward(g,x,t,label_smoothing=0.1) dtype=(f32,f32,i64) layout=(column,full,column)", "001" },
    { "op=sum(index==argmax(x)+1?x*x:0) dtype=f32", "01" },
    { "op=sum(index==argmax(x)+index?x:0) dtype=f32", "00" },
    { "op=softmax(index==t?x:0) dtype=(i32,f32) layout=(column,full)", "00" },
    { "op=sum(index==t?x:0) dtype=(i32,f32)", "0" },
    { "op=sum(index==t?x:0) dtype=(i32,f32) layout=(row,full)", "0" },
    { "op=sum(index==t?x:0) dtype=(f32,f32) layout=(column,full)", "0" },
    { "op=sum(index!=t?x:0) dtype=(i32,f32) layout=(column,full)", "0" },
    { "op=sum(index==t?x:1) dtype=(i32,f32) layout=(column,full)", "0" },
    { "op=sum(index==t?0:x) dtype=(i32,f32) layout=(column,full)", "0" },
    { "op=sum(s==t?x:0) dtype=(i32,i32,f32) layout=(full,column,full)", "0" },
    { "op=max(index==t?x:0) dtype=(i32,f32) layout=(column,full)", "0" },
    { "op=norm(index==t?x:0) dtype=(i32,f32) layout=(column,full)", "0" },
    { "op=sum((index==t?x:0)*x) dtype=(i32,f32) layout=(column,full)", "0" },
    { "op=cumsum(index==t?x:0) dtype=(i32,f32) layout=(column,full)", "0" },
};

START_TEST(test_rows__sums_of_one_element_are_known)
{
    kiln__fields spec;
    kiln__typing typing;
    kiln__rows rows;
    char picked[8] = "";
    ck_assert_msg(resolve(&spec, picks[_i].text) == KILN_OK, "%s: %s", picks[_i].text, report.message);
    kiln__spec_type(&spec, &typing);
    kiln__rows_make(&rows, &spec, &typing, true);
    for (uint32_t k = 0; k < rows.count; k++)
        picked[k] = rows.values[k].place >= 0 ? '1' : '0';
    ck_assert_msg(strcmp(picked, picks[_i].picked) == 0, "%s: %s", picks[_i].text, picked);
}
END_TEST

/* The types that PyTorch gives, and which results have a value for each row. */
static const struct {
    const char *text, *types, *layouts;
} results[] = {
    { "op=sum(x) dtype=f16", "f16", "column" },
    { "op=sum(x) dtype=u8", "i64", "column" },
    { "op=prod(x) dtype=bool", "i64", "column" },
    { "op=mean(x) dtype=i32", "f32", "column" },
    { "op=mean(x) dtype=bf16", "bf16", "column" },
    { "op=(max(x),min(x)) dtype=i16", "i16 i16", "column column" },
    { "op=max(x) dtype=bool", "bool", "column" },
    { "op=(argmax(x),argmin(x)) dtype=f64", "i64 i64", "column column" },
    { "op=(any(x),all(x)) dtype=f32", "bool bool", "column column" },
    { "op=(var(x),std(x),norm(x),logsumexp(x)) dtype=i8", "f32 f32 f32 f32", "column column column column" },
    { "op=(cumsum(x),cumprod(x)) dtype=u8", "i64 i64", "full full" },
    { "op=(cumsum(x),sum(x),cummin(x)) dtype=bf16", "bf16 bf16 bf16", "full column full" },
    { "op=cummax(x,reverse=1) dtype=i16", "i16", "full" },
    { "op=x-max(x) dtype=i32", "i32", "full" },
    { "op=x-mean(x) dtype=i32", "f32", "full" },
    { "op=x>mean(x) dtype=f16", "bool", "full" },
    { "op=softmax dtype=f16", "f16", "full" },
    { "op=native_layer_norm(x,w,b) dtype=bf16", "bf16 bf16 bf16", "full column column" },
    { "op=max(x)+c dtype=f32", "f32", "full" },
    { "op=max(x)+c dtype=f32 layout=(full,column)", "f32", "column" },
    { "op=max(x)*c+d dtype=f32 layout=(full,one,row)", "f32", "full" },
};

START_TEST(test_rows__results_have_types_and_layouts)
{
    kiln__fields spec;
    char types[64] = "", layouts[64] = "";
    ck_assert_int_eq(resolve(&spec, results[_i].text), KILN_OK);
    for (uint32_t k = 0; k < kiln__spec_outputs(&spec); k++) {
        strcat(strcat(types, k > 0 ? " " : ""), kiln__dtype_name(kiln__spec_result(&spec, k)));
        strcat(strcat(layouts, k > 0 ? " " : ""), kiln__layout_name(kiln__spec_out_layout(&spec, k)));
    }
    ck_assert_str_eq(types, results[_i].types);
    ck_assert_str_eq(layouts, results[_i].layouts);
}
END_TEST

/* The op chooses the template, wherever in the line it stands, and its parameters go along. */
START_TEST(test_rows__template_follows_the_op)
{
    static const struct {
        const char *text, *line, *template, *canonical;
    } cases[] = {
        { "op=softmax dtype=f32", "", "rows", "op=softmax dtype=f32" },
        { "block=256 lanes=64 op=softmax", "", "rows", "op=softmax lanes=64 block=256" },
        { "op=softmax block=256 lanes=64", "op=relu", "elementwise", "op=relu block=256" },
        { "op=relu block=256", "op=sum(x)", "rows", "op=sum(x) block=256" },
        { "op=softmax", "op=", "elementwise", "" },
        { "op=softmax(x*?a) axis=1 keep=1 n=3x5", "", "rows", "op=softmax(x*?a) axis=1 keep=1" },
        { "op=softmax axis=-1 keep=0", "", "rows", "op=softmax" },
        { "op=cumsum( x , reverse=1,exclusive=1 )", "", "rows", "op=cumsum(x,exclusive=1,reverse=1)" },
        { "op=cumsum(x,exclusive=0)", "", "rows", "op=cumsum(x)" },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        kiln__fields spec;
        kiln__real room;
        kiln__text text = { 0 };
        parse(&spec, cases[i].text);
        ck_assert_msg(kiln__fields_update(&spec, &room, cases[i].line, &report) == KILN_OK, "%s", report.message);
        ck_assert_str_eq(spec.template->name, cases[i].template);
        kiln__spec_format(&spec, false, &text);
        ck_assert_str_eq(kiln__text_string(&text), cases[i].canonical);
        kiln__text_fini(&text);
    }
}
END_TEST

START_TEST(test_rows__refusals_name_the_reason)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "op=sum(c)+x layout=(column,full)", "sum reduces an axis, and its argument has one value in each row" },
        { "op=cumsum(c)+x layout=(column,full)", "cumsum scans an axis, and its argument has one value in each row" },
        { "op=cross_entropy layout=(full,row)", "cross_entropy takes a column as t" },
        { "op=2*cross_entropy(x,y+z) layout=(full,column,full)", "cross_entropy takes a column as t" },
        { "op=softmax axis=0", "axis and keep are for tensors" },
        { "op=sum(x) keep=1", "axis and keep are for tensors" },
        { "op=sum(bitwise_and(x,y)) dtype=f32", "takes whole numbers, and gets those of f32" },
    };
    static const struct {
        const char *text, *message;
    } unread[] = {
        { "op=sum(x) template=elementwise", "template elementwise takes ops that do not reduce an axis" },
        { "op=relu template=rows", "template rows takes ops that reduce an axis" },
        { "op=cumsum(x) template=cluster", "template cluster takes ops that do not scan an axis" },
        { "op=cumsum(x) form=kept", "an op that scans takes form=walk or form=ends; nearest: form=ends" },
        { "op=sum(x) axis=(2,1)", "axis=(2,1): write a dimension such as -1, neighbours such as (1,2), or all" },
        { "op=sum(x) axis=(-1,0)", "axis=(-1,0): " },
        { "op=sum(x) axis=-0", "axis=-0: " },
        { "op=sum(x) keep=2", "keep=2: 0 or 1" },
        { "op=softmax lanes=256 block=128", "block must be a multiple of lanes" },
        { "op=sum(x) n=3x0", "n=3x0 is not a whole number below 2^64, or ROWSxCOLS" },
    };
    kiln__fields spec;
    for (int i = 0; i < COUNT(cases); i++) {
        ck_assert_int_eq(resolve(&spec, cases[i].text), KILN_ESPEC);
        ck_assert_msg(strstr(report.message, cases[i].message) != NULL, "%s", report.message);
    }
    for (int i = 0; i < COUNT(unread); i++) {
        ck_assert_int_eq(kiln_test_fields(&spec, &catalog, unread[i].text, &report), KILN_ESPEC);
        ck_assert_msg(strstr(report.message, unread[i].message) != NULL, "%s", report.message);
    }
}
END_TEST

/* A row fits into the registers that the defaults take, up to the most that a thread keeps. */
START_TEST(test_rows__geometry_follows_the_length_of_rows)
{
    static const uint64_t cols[] = { 1, 3, 32, 100, 512, 1000, 4096, 4097, 5000, 32768 };
    static const char *const dtypes[] = { "f32", "f16", "f64", "u8" };
    for (int i = 0; i < COUNT(cols) * COUNT(dtypes); i++) {
        kiln__fields spec;
        char text[96];
        const char *dtype = dtypes[i % COUNT(dtypes)];
        snprintf(text, sizeof(text), "op=max(x) dtype=%s n=1000x%llu", dtype,
                 (unsigned long long)cols[i / COUNT(dtypes)]);
        ck_assert_msg(resolve(&spec, text) == KILN_OK, "%s: %s", text, report.message);
        const int lanes = kiln__template_param(spec.template, "lanes", 5),
                  elems = kiln__template_param(spec.template, "elems", 5);
        const uint64_t room = (uint64_t)(spec.params[lanes] * spec.params[elems]);
        ck_assert_msg(room >= cols[i / COUNT(dtypes)] || strcmp(dtype, "f64") == 0, "%s: %llu", text,
                      (unsigned long long)room);
        ck_assert_msg(spec.params[elems] * kiln__dtype_bytes(spec.dtype) <= 128, "%s", text);
    }
}
END_TEST

START_TEST(test_rows__values_that_a_row_keeps)
{
    static const struct {
        const char *text;
        uint32_t live;
    } cases[] = {
        { "op=softmax", 1 },
        { "op=softmax(x+y)", 1 },
        { "op=exp(x*y-max(x*y))/sum(exp(x*y-max(x*y)))", 1 },
        { "op=((x*y+z)/sum(x*y+z),x*y+z)", 1 },
        { "op=(rms_norm(x+r,w),x+r) layout=(full,full,row)", 1 },
        { "op=(rms_norm(x+r,w),r+x) layout=(full,full,row)", 2 },
        { "op=softmax(softmax(softmax(softmax(softmax(softmax(softmax(softmax(x+y))))))))", 1 },
        { "op=softmax(x)*y", 2 },
        { "op=softmax(x)*y layout=(full,row)", 1 },
        { "op=softmax(x+sum(y))", 2 },
        { "op=softmax_backward", 2 },
        { "op=mean(mse_loss(x,y))", 1 },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        kiln__fields spec;
        parse(&spec, cases[i].text);
        ck_assert_msg(kiln__rows_live(&spec) == cases[i].live, "%s: %u", cases[i].text, kiln__rows_live(&spec));
    }
}
END_TEST

/* Long rows go to a cluster's shared memory, unless they are walked over once and there are enough of them. */
START_TEST(test_rows__template_follows_the_length_of_rows)
{
    static const struct {
        const char *text, *target;
        uint64_t rows, cols;
        const char *template;
    } cases[] = {
        { "op=softmax dtype=f32", "sm_90", 1000, 32768, "rows" },
        { "op=softmax dtype=f32", "sm_90", 1000, 32769, "cluster" },
        { "op=softmax dtype=f16", "sm_90", 1000, 20480, "rows" },
        { "op=softmax dtype=f16", "sm_90", 1000, 20481, "cluster" },
        { "op=l2_normalize dtype=f16", "sm_90", 1000, 32768, "cluster" },
        { "op=softmax(x+y) dtype=f16", "sm_90", 1000, 32768, "rows" },
        { "op=softmax dtype=f16", "sm_90", 1000, 50257, "cluster" },
        { "op=sum(x) dtype=f16", "sm_90", 1000, 50257, "rows" },
        { "op=softmax dtype=f32", "sm_80", 1000, 393216, "rows" },
        { "op=softmax dtype=f32", "cpu", 1000, 393216, "rows" },
        { "op=softmax dtype=f32", "sm_90", 1000, 1 << 24, "rows" },
        { "op=softmax dtype=f32", "sm_90", 1000, UINT64_MAX, "rows" },
        { "op=softmax(x)*y dtype=f32", "sm_90", 1000, 20000, "cluster" },
        { "op=softmax(x+y) dtype=f32", "sm_90", 1000, 20000, "rows" }, /* which keeps one value of an element */
        { "op=softmax(x+y) dtype=f32", "sm_90", 1000, 100000, "cluster" },
        { "op=softmax(x+y) dtype=f32", "sm_90", 1000, 393216, "rows" }, /* walked over twice */
        { "op=softmax(x+y) dtype=f32", "sm_90", 8, 393216, "cluster" },
        { "op=softmax(softmax(x+y)) dtype=f32", "sm_90", 1000, 393216, "cluster" },
        { "op=layer_norm(x,w,b) dtype=f32 layout=(full,row,row)", "sm_90", 1000, 393216, "rows" },
        { "op=layer_norm(x,w,b) dtype=f16 layout=(full,row,row)", "sm_90", 1000, 393216, "cluster" },
        { "op=rms_norm(x,w) dtype=f32 layout=(full,row)", "sm_90", 1000, 393216, "cluster" }, /* of one walk anyway */
        { "op=softmax(x+y) dtype=f32 layout=(full,row)", "sm_90", 1000, 20000, "rows" },
        { "op=sum(x) dtype=f32", "sm_90", 1000, 393216, "rows" },
        { "op=sum(x) dtype=f32", "sm_90", 8, 393216, "cluster" },
        { "op=var(x) dtype=f32", "sm_90", 1000, 393216, "rows" }, /* in one walk, with joint folds */
        { "op=sum(x-mean(x)) dtype=f32", "sm_90", 1000, 393216, "cluster" },
        { "op=sum(x) dtype=f32", "sm_90", 1, 1 << 28, "split" },
        { "op=softmax dtype=f32", "sm_90", 200, 1 << 24, "split" },
        { "op=softmax dtype=f32", "sm_90", 1, UINT64_MAX, "split" },
        { "op=softmax dtype=f32", "cpu", 1, 1 << 28, "split" },
        { "op=softmax dtype=f32", "cpu", 15, 1 << 18, "split" },
        { "op=softmax dtype=f32", "cpu", 16, 1 << 18, "rows" },
        { "op=cumsum(x) dtype=f16", "cpu", 1, (1 << 19) - 1, "rows" },
        { "op=sum(x) dtype=f32", "sm_80", 8, 393216, "split" },
        { "op=sum(x) dtype=f32", "sm_80", 8, 32768, "rows" },
        { "op=cumsum(x) dtype=f32", "sm_90", 8, 393216, "split" },
        { "op=cumsum(x) dtype=f32", "sm_90", 100, 393216, "rows" },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        kiln__fields spec;
        kiln__target target = { 0 };
        parse(&spec, cases[i].text);
        ck_assert(kiln__target_parse(cases[i].target, strlen(cases[i].target), &target));
        const char *chosen = kiln__rows_template(&spec, &target, true, cases[i].rows, cases[i].cols);
        ck_assert_msg(strcmp(chosen, cases[i].template) == 0, "%s, %llu columns: %s", cases[i].text,
                      (unsigned long long)cases[i].cols, chosen);
        ck_assert_str_ne(kiln__rows_template(&spec, &target, false, cases[i].rows, cases[i].cols), "split");
    }
}
END_TEST

/* The sizes of a launch say how long rows are, where the spec does not. */
START_TEST(test_rows__sizes_of_a_launch_tell_their_length)
{
    static const uint64_t sizes[] = { 4, 1000, 16 };
    static const struct {
        const char *text;
        size_t count;
        uint64_t n, cols;
    } cases[] = {
        { "op=softmax", 2, 4000, 1000 },     { "op=sum(x) template=columns", 3, 64000, 1000 },
        { "op=softmax n=3x50", 2, 150, 50 }, { "op=relu", 2, 0, 0 },
        { "op=softmax", 0, 0, 0 },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        kiln__fields spec;
        parse(&spec, cases[i].text);
        kiln__fields_take_sizes(&spec, sizes, cases[i].count);
        ck_assert_uint_eq(spec.n_set ? spec.n : 0, cases[i].n);
        ck_assert_uint_eq(spec.n_set ? spec.cols : 0, cases[i].cols);
    }
}
END_TEST

START_TEST(test_rows__equal_reductions_are_one_in_the_source)
{
    kiln__fields spec;
    kiln__unit *unit;
    ck_assert_int_eq(resolve(&spec, "op=exp(x-max(x))/sum(exp(x-max(x)))"), KILN_OK);
    ck_assert_int_eq(kiln__unit_make(&unit, &spec, &report), KILN_OK);
    ck_assert_ptr_nonnull(strstr(unit->source, "#define KILN_FOLD_STAGES(M) M(0) M(1)\n"));
    ck_assert_ptr_nonnull(
        strstr(unit->source, "typedef struct kiln_row {\n    float r0;\n    float r1;\n} kiln_row;\n"));
    ck_assert_ptr_nonnull(strstr(unit->source, "#define KILN_OUT_LAYOUT0 0\n"));
    ck_assert_ptr_nonnull(strstr(unit->source, "{ return kiln_div(kiln_op_exp(kiln_sub(x, row->r0)), row->r1); }"));
    kiln__unit_free(unit);
}
END_TEST

Suite *kiln_test_spec_rows_suite(void)
{
    Suite *suite = suite_create("rows");
    TCase *tcase = tcase_create("rows");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, test_rows__are_planned_in_as_few_stages_as_there_can_be, 0, COUNT(plans));
    tcase_add_loop_test(tcase, test_rows__sums_of_one_element_are_known, 0, COUNT(picks));
    tcase_add_loop_test(tcase, test_rows__results_have_types_and_layouts, 0, COUNT(results));
    tcase_add_test(tcase, test_rows__template_follows_the_op);
    tcase_add_test(tcase, test_rows__refusals_name_the_reason);
    tcase_add_test(tcase, test_rows__geometry_follows_the_length_of_rows);
    tcase_add_test(tcase, test_rows__values_that_a_row_keeps);
    tcase_add_test(tcase, test_rows__template_follows_the_length_of_rows);
    tcase_add_test(tcase, test_rows__sizes_of_a_launch_tell_their_length);
    tcase_add_test(tcase, test_rows__equal_reductions_are_one_in_the_source);
    suite_add_tcase(suite, tcase);
    return suite;
}
