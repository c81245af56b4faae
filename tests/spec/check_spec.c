#include "spec/fields.h"
#include "support/declared.h"
#include "support/fields.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

/* Beside the library's own: one with formulas that no tuning changes, and one that knows other values. */
static const char toy[] = "//! template toy\n"
                          "//! inputs 1..3\n"
                          "//! param block 32..1024 step 32 = sm == 0 ? 1024 : 128\n"
                          "//! param elems 1..64 = max(16 / bytes, vector)\n"
                          "//! param vector 1,2,4,8,16 = gcd(elems, 16 / bytes)\n"
                          "//! param cache plain,stream = inputs > 2 ? plain : stream\n"
                          "//! param over 1..8 = elems * 2\n"
                          "//! require elems % vector == 0 -- elems must be a multiple of vector\n"
                          "//! require vector > 0 && vector * bytes <= (sm >= 100 ? 32 : 16) -- vector is too wide\n"
                          "//! require inputs < 3 || cache == 0 -- three inputs need cache=plain\n"
                          "//! tile block * elems\n"
                          "//! entry go align bytes\n" DECLARED_OP;
static const char row[] = "//! template row\n"
                          "//! inputs 1\n"
                          "//! param cache stream,none,plain = none\n"
                          "//! param rows 1..8 = 4\n"
                          "//! param block 64..512 step 64 = 64\n"
                          "//! tile block\n"
                          "//! entry go align bytes\n" DECLARED_OP;
static const char pair[] = "//! template pair\n"
                           "//! inputs 2..3\n"
                           "//! param block 64..512 step 64 = 64\n"
                           "//! param mode slow,fast = inputs == 3 ? 7 : fast\n"
                           "//! param ratio 1..9 = 8 / (block - 64)\n"
                           "//! tile block\n"
                           "//! entry go align bytes\n" DECLARED_OP;

static const char narrow[] = "//! template narrow\n"
                             "//! inputs 1..3\n"
                             "//! param block 32..64 step 32 = 32\n"
                             "//! param wide no,yes = no\n"
                             "//! require inputs < 3 -- three inputs do not fit\n"
                             "//! tile block\n"
                             "//! entry go align bytes\n" DECLARED_OP;

static kiln__catalog catalog;
static kiln__target sm_90, sm_100, cpu;

static void add_template(const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__template *template;
    ck_assert_msg(kiln__template_read(&template, text, NULL, NULL, false, &report) == KILN_OK, "%s", report.message);
    catalog.templates[catalog.template_count++] = template;
}

static void set_up(void)
{
    ck_assert_int_eq(kiln__catalog_init(&catalog, NULL), KILN_OK);
    add_template(toy);
    add_template(row);
    add_template(pair);
    add_template(narrow);
    ck_assert(kiln__target_parse("sm_90", 5, &sm_90));
    ck_assert(kiln__target_parse("sm_100", 6, &sm_100));
    ck_assert(kiln__target_parse("cpu", 3, &cpu));
}

static void tear_down(void)
{
    kiln__catalog_fini(&catalog);
}

static void parse(kiln__fields *out, const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_msg(kiln_test_fields(out, &catalog, text, &report) == KILN_OK, "%s: %s", text, report.message);
}

/* The text of a spec; one at a time. */
static const char *format(const kiln__fields *spec)
{
    static char copy[8192];
    kiln__text out = { 0 };
    kiln__spec_format(spec, true, &out);
    kiln__text_copy(copy, sizeof(copy), kiln__text_string(&out));
    kiln__text_fini(&out);
    return copy;
}

static kiln_status set(kiln__fields *spec, const char *field, const char *value, kiln_report *report)
{
    return kiln_test_set(spec, field, value, report);
}

static const struct {
    const char *text, *canonical;
} good[] = {
    { "", "" },
    { " \t\r\n", "" },
    { "op=hardsigmoid", "op=hardsigmoid" },
    { "target=sm_90 block=256\nop=hardtanh dtype=f16", "op=hardtanh(-1,1) dtype=f16 block=256 target=sm_90" },
    { "op=hardtanh( -1 ,\t1 )   elems=4", "op=hardtanh(-1,1) elems=4" },
    { "template=elementwise op=relu6", "op=relu6" },
    { "cache=stream vector=2 elems=4 block=0064 dtype=bf16 op=add",
      "op=add(x,y) dtype=bf16 block=64 elems=4 vector=2 cache=stream" },
    { "n=4096 op=relu6", "op=relu6 n=4096" },
    { "n=18446744073709551615", "n=18446744073709551615" },
    { "op= dtype= block= target=", "" },
    { "rows=3 block=64 template=row", "template=row rows=3 block=64" },
    { "op=relu6 template=row cache=none", "op=relu6 template=row cache=none" },
    { "target=sm_100a", "target=sm_100a" },
    { "target=sm_120f", "target=sm_120f" },
    { "target=cpu", "target=cpu" },
    { "op=hardsigmoid_linear(beta=0.25)", "op=hardsigmoid_linear(0.2,0.25)" },
    { "op=x+y template=broadcast layout=( full , row )", "op=x+y template=broadcast layout=(full,row)" },
    { "layout=(full,full) template=broadcast op=x+y", "op=x+y template=broadcast" },
    { "op=x+y template=broadcast layout=", "op=x+y template=broadcast" },
    { "op=x+y template=strided layout=2d( unit , any,same )", "op=x+y template=strided layout=2d(unit,any,same)" },
    { "op=x+y template=strided layout=1d(unit,unit,unit)", "op=x+y template=strided" },
    { "op=x+y template=strided layout=2d(unit,unit,unit)", "op=x+y template=strided layout=2d(unit,unit,unit)" },
    { "op=gelu template=broadcast layout=(one) math=fast", "op=gelu template=broadcast layout=(one) math=fast" },
    { "op=(x,y) dtype=f32 out=(f16,f64)", "op=(x,y) dtype=f32 out=(f16,f64)" },
    { "op=(x,y) dtype=f32 out=(f16,f16)", "op=(x,y) dtype=f32 out=f16" },
    { "op=(x,y) dtype=f32 out=f16", "op=(x,y) dtype=f32 out=f16" },
    { "out=(f16) op=x+y dtype=f32", "op=x+y dtype=f32 out=f16" },
    { "op=(x>y,y) dtype=f32 out=(bool,f32)", "op=(x>y,y) dtype=f32" },
    { "op=(s, d) = (x + y, x - y) dtype=f32", "op=(s,d)=(x+y,x-y) dtype=f32" },
    { "op=where dtype=(bool,f32,f32)", "op=where(x,y,z) dtype=(bool,f32,f32)" },
    { "dtype=( f16 , f32 ) op=add", "op=add(x,y) dtype=(f16,f32)" },
    { "dtype=(f16,f16) op=add", "op=add(x,y) dtype=f16" },
    { "dtype=(f16,f16)", "dtype=(f16,f16)" },
    { "dtype=(i64) op=relu6", "op=relu6 dtype=i64" },
    { "math=portable op=relu6 dtype=f16", "op=relu6 dtype=f16 math=portable" },
    { "op=relu6 math=torch", "op=relu6" },
    { "math=fast op=relu6", "op=relu6 math=fast" },
    { "op=relu6 template=rowsum math=portable", "op=relu6 template=rowsum" },
};

START_TEST(test_spec__equal_specs_have_equal_text)
{
    kiln__fields spec, again;
    parse(&spec, good[_i].text);
    ck_assert_str_eq(format(&spec), good[_i].canonical);
    parse(&again, good[_i].canonical);
    ck_assert_str_eq(format(&again), good[_i].canonical);
}
END_TEST

static const struct {
    const char *text;
    kiln_status status;
    const char *problem;
} bad[] = {
    { "op=add dtype=(f32)", KILN_ESPEC, "dtype has 1 type, and the op takes 2 arrays: write one for each" },
    { "dtype=(f32,f16) op=relu6", KILN_ESPEC, "dtype has 2 types, and the op takes 1 array: write one for each" },
    { "op=add dtype=(f32,)", KILN_ESPEC, "dtype: a type is missing: write dtype=(f16,f32), one for each input" },
    { "op=add dtype=()", KILN_ESPEC, "dtype: a type is missing: write dtype=(f16,f32), one for each input" },
    { "op=add dtype=(f32,half)", KILN_ESPEC, "unknown dtype 'half': did you mean f16?" },
    { "op=add dtype=f32,f16", KILN_ESPEC,
      "unknown dtype 'f32,f16': f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8 or bool" },
    { "dtype=(f32,f32,f32,f32,f32,f32,f32,f32,f32)", KILN_ESPEC, "dtype has more than 8 types" },
    { "op=add template=rowsum dtype=(f32,f16)", KILN_ESPEC, "template rowsum takes one dtype for all its arrays" },
    { "dtype=(f32,f16) template=rowsum", KILN_ESPEC, "template rowsum takes one dtype for all its arrays" },
    { "op=hardsigmod", KILN_EOP, "unknown op 'hardsigmod': did you mean hardsigmoid?" },
    { "op=add(x)", KILN_EOP, "add takes 2 arguments, got 1" },
    { "op=hardtanh(1,2,3)", KILN_EOP, "hardtanh takes at most 2 parameters (lo, hi), got 3" },
    { "op=x+y layout=(full,row)", KILN_ESPEC, "template elementwise takes no layout: its arrays are all of one shape" },
    { "op=x+y template=broadcast layout=(full)", KILN_ESPEC,
      "layout has 1 word, and the op takes 2 arrays: write one for each" },
    { "op=x+y template=strided layout=2d(unit,any)", KILN_ESPEC,
      "layout has 2 words, and the op has 3 arrays: write one for each" },
    { "op=x+y template=strided layout=(full,row)", KILN_ESPEC,
      "template strided takes another layout: write one such as layout=2d(unit,any)" },
    { "op=x+y template=broadcast layout=2d(unit,any,any)", KILN_ESPEC,
      "template broadcast takes another layout: write one such as layout=(full,row)" },
    { "op=x+y template=strided layout=9d(unit,any,any)", KILN_ESPEC,
      "layout=9d(unit,any,any): write one for each output and input, such as layout=2d(unit,any)" },
    { "op=x+y template=strided layout=2d(unit,any,row)", KILN_ESPEC, "unknown layout 'row': unit, same, any or cross" },
    { "op=relu6 template=strided layout=1d(same,unit)", KILN_ESPEC,
      "layout: word 1 is same, and an output is unit or any" },
    { "op=x+y+z template=crossed dtype=u8 layout=2d(unit,cross,cross,cross) vector=4", KILN_ESPEC,
      "crossing=3 vector=4 dtype=u8: tiles of 1056 elements of each crossing input must fit 48 KiB of shared memory; "
      "nearest: vector=2" },
    { "op=x+y template=broadcast layout=row", KILN_ESPEC,
      "layout=row: write one for each input, such as layout=(full,row)" },
    { "op=x+y template=broadcast layout=(full,rwo)", KILN_ESPEC, "unknown layout 'rwo': did you mean row?" },
    { "op=x+y template=broadcast layout=(full,)", KILN_ESPEC, "unknown layout '': full, row, column or one" },
    { "op=x*? template=rowsum", KILN_ESPEC, "template rowsum takes no scalars: write a number in place of ?s0" },
    { "op=(x,y) template=rowsum", KILN_ESPEC, "template rowsum takes ops of one output, this one has 2" },
    { "op=(x,y) out=(f16,f16,f32)", KILN_ESPEC, "out has 3 types, and the op gives 2 arrays: write one for each" },
    { "op=(x,y) out=(f16)", KILN_ESPEC, "out has 1 type, and the op gives 2 arrays: write one for each" },
    { "out=(f16) op=(x,y)", KILN_ESPEC, "out has 1 type, and the op gives 2 arrays: write one for each" },
    { "op=x+y dtype=(f16)", KILN_ESPEC, "dtype has 1 type, and the op takes 2 arrays: write one for each" },
    { "op=(x,y) out=(f16,)", KILN_ESPEC, "out: a type is missing: write out=(f16,f32), one for each output" },
    { "block=100", KILN_ESPEC, "block=100 is not a multiple of 32: the nearest are 96 and 128" },
    { "block=2048", KILN_ESPEC, "block=2048 is above 1024" },
    { "elems=6 vector=4", KILN_ESPEC,
      "elems=6 vector=4: elems must be a multiple of vector; nearest: elems=4, elems=8 or vector=2" },
    { "vector=4 elems=6", KILN_ESPEC,
      "elems=6 vector=4: elems must be a multiple of vector; nearest: elems=4, elems=8 or vector=2" },
    { "elems=3 vector=2", KILN_ESPEC,
      "elems=3 vector=2: elems must be a multiple of vector; nearest: elems=2, elems=4 or vector=1" },
    { "elems=63 vector=8", KILN_ESPEC,
      "elems=63 vector=8: elems must be a multiple of vector; nearest: elems=56, elems=64 or vector=1" },
    { "op=relu6 elems=4 vector=16 target=sm_90", KILN_ESPEC,
      "elems=4 vector=16: elems must be a multiple of vector; nearest: vector=4" },
    { "op=relu6 elems=8 dtype=f64 vector=8 target=sm_100", KILN_ESPEC,
      "vector=8 dtype=f64 target=sm_100: vector must not exceed 16 bytes per access (32 from sm_100 on); nearest: "
      "vector=4" },
    { "op=add(mul(x,y),z) template=narrow wide=yes", KILN_ESPEC, "inputs=3: three inputs do not fit" },
    { "template=toy dtype=f64 vector=4 target=sm_90", KILN_ESPEC,
      "vector=4 dtype=f64 target=sm_90: vector is too wide; nearest: vector=2" },
    { "dtype=f31", KILN_ESPEC,
      "unknown dtype 'f31': f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8 or bool" },
    { "dtype=F32", KILN_ESPEC, "unknown dtype 'F32': did you mean f32?" },
    { "dtype=Fp32", KILN_ESPEC, "unknown dtype 'Fp32': did you mean f32?" },
    { "dtype=float", KILN_ESPEC, "unknown dtype 'float': did you mean f32?" },
    { "dtype=float32", KILN_ESPEC, "unknown dtype 'float32': did you mean f32?" },
    { "dtype=double", KILN_ESPEC, "unknown dtype 'double': did you mean f64?" },
    { "dtype=fp16", KILN_ESPEC, "unknown dtype 'fp16': did you mean f16?" },
    { "dtype=float16", KILN_ESPEC, "unknown dtype 'float16': did you mean f16?" },
    { "dtype=half", KILN_ESPEC, "unknown dtype 'half': did you mean f16?" },
    { "dtype=bfloat16", KILN_ESPEC, "unknown dtype 'bfloat16': did you mean bf16?" },
    { "dtype=flo", KILN_ESPEC,
      "unknown dtype 'flo': f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8 or bool" },
    { "math=exact", KILN_ESPEC, "unknown math 'exact': torch, fast or portable" },
    { "math=Portable", KILN_ESPEC, "unknown math 'Portable': did you mean portable?" },
    { "template=rowsum math=torch", KILN_ESPEC, "template rowsum takes no math=torch: portable" },
    { "template=rowsum math=fast", KILN_ESPEC, "template rowsum takes no math=fast: portable" },
    { "op=relu6 math=torch template=rowsum", KILN_ESPEC, "template rowsum takes no math=torch: portable" },
    { "blok=64", KILN_ESPEC, "unknown field 'blok': did you mean block?" },
    { "foo=1", KILN_ESPEC,
      "unknown field 'foo': op, template, dtype, out, layout, math, round, axis, keep, reduce, block, elems, vector, "
      "cache, "
      "target "
      "or n" },
    { "rows=3", KILN_ESPEC, "unknown field 'rows': " },
    { "template=row elems=3", KILN_ESPEC,
      "unknown field 'elems': op, template, dtype, out, layout, math, round, axis, keep, reduce, cache, rows, block, "
      "target or "
      "n" },
    { "template=rov", KILN_ESPEC, "unknown template 'rov': did you mean row?" },
    { "template=zzzz", KILN_ESPEC,
      "unknown template 'zzzz': broadcast, cluster, columns, compare, crossed, elementwise, rows, rowsum, split, "
      "strided, toy, row, pair or narrow" },
    { "target=sm90", KILN_ETARGET, "unknown target 'sm90': did you mean sm_90?" },
    { "target=SM_90", KILN_ETARGET, "unknown target 'SM_90': did you mean sm_90?" },
    { "target=compute_120a", KILN_ETARGET, "unknown target 'compute_120a': did you mean sm_120a?" },
    { "target=9.0", KILN_ETARGET, "unknown target '9.0': did you mean sm_90?" },
    { "target=CPU", KILN_ETARGET, "unknown target 'CPU': did you mean cpu?" },
    { "target=sm_9", KILN_ETARGET, "unknown target 'sm_9': cpu, or sm_ and a number, such as sm_90" },
    { "target=sm_1000", KILN_ETARGET, "unknown target 'sm_1000': cpu, or sm_ and a number, such as sm_90" },
    { "target=sm_90b", KILN_ETARGET, "unknown target 'sm_90b': cpu, or sm_ and a number, such as sm_90" },
    { "target=sm_90aa", KILN_ETARGET, "unknown target 'sm_90aa': cpu, or sm_ and a number, such as sm_90" },
    { "target=all", KILN_ETARGET, "unknown target 'all': cpu, or sm_ and a number, such as sm_90" },
    { "block=64 dtype=f32 block=64", KILN_ESPEC, "field block given twice" },
    { "template=row template=row", KILN_ESPEC, "field template given twice" },
    { "block= block=64", KILN_ESPEC, "field block given twice" },
    { "cache=strem", KILN_ESPEC, "unknown cache 'strem': did you mean stream?" },
    { "n=-1", KILN_ESPEC, "n=-1 is not a whole number below 2^64, or ROWSxCOLS" },
    { "n=18446744073709551616", KILN_ESPEC, "n=18446744073709551616 is not a whole number below 2^64, or ROWSxCOLS" },
    { "hardsigmoid", KILN_ESPEC, "'hardsigmoid' is not a field: write field=value, such as op=hardsigmoid" },
    { "op=relu6 fast", KILN_EOP, "op, character 7: unexpected 'fast' behind the expression" },
    { "op=relu6 dtype=f32 fast", KILN_ESPEC, "'fast' is not a field: write field=value, such as op=hardsigmoid" },
    { "op =relu6", KILN_ESPEC, "'op' is not a field: write field=value, such as op=hardsigmoid" },
    { "=relu6", KILN_ESPEC, "'=relu6' is not a field: write field=value, such as op=hardsigmoid" },
    { "op=hardtanh(-1,1 dtype=f32", KILN_ESPEC, "')' is missing in op=hardtanh(-1,1 dtype=f32" },
    { "op=add template=row", KILN_ESPEC, "template row takes ops of 1 input, this one has 2" },
    { "op=relu6 template=pair", KILN_ESPEC, "template pair takes ops of 2 to 3 inputs, this one has 1" },
    { "template=toy op=mul(add(x,y),z) cache=stream", KILN_ESPEC,
      "inputs=3 cache=stream: three inputs need cache=plain; nearest: cache=plain" },
    { "dtype=\x01\x7f\xc3", KILN_ESPEC,
      "unknown dtype '\?\?\?': f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8 or bool" },
    { "%s%n=1", KILN_ESPEC, "unknown field '%s%n': " },
};

START_TEST(test_spec__failure_names_the_culprit_and_the_nearest_choice)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields spec;
    ck_assert_int_eq(kiln_test_fields(&spec, &catalog, bad[_i].text, &report), bad[_i].status);
    size_t length = strlen(bad[_i].problem);
    bool open_end = bad[_i].problem[length - 1] == ' ';
    ck_assert_msg(strncmp(report.message, bad[_i].problem, length) == 0 && (open_end || report.message[length] == '\0'),
                  "%s", report.message);
    ck_assert_int_eq(report.status, bad[_i].status);
    ck_assert_str_eq(report.stage, "spec");
}
END_TEST

/* By torch.promote_types, which has no answer in the last row. */
static const struct {
    const char *types, *dtype;
} promoted[] = {
    { "bool u8", "u8" },     { "bool i8", "i8" },     { "bool i64", "i64" },  { "bool f16", "f16" },
    { "u8 i8", "i16" },      { "u8 i16", "i16" },     { "u8 i64", "i64" },    { "i8 i16", "i16" },
    { "i16 i32", "i32" },    { "i32 i64", "i64" },    { "u8 bf16", "bf16" },  { "i64 f16", "f16" },
    { "i64 bf16", "bf16" },  { "i64 f32", "f32" },    { "i32 f64", "f64" },   { "f16 bf16", "f32" },
    { "f16 f32", "f32" },    { "bf16 f64", "f64" },   { "f32 f64", "f64" },   { "f16 f16", "f16" },
    { "f8e4m3 f16", "f16" }, { "f8e5m2 f64", "f64" }, { "f8e4m3 u8", "f32" }, { "f8e4m3 f8e5m2", "f32" },
};

START_TEST(test_spec__types_of_inputs_are_promoted)
{
    kiln__word rest = kiln__word_of(promoted[_i].types), first = kiln__word_next(&rest);
    kiln__dtype a = kiln__dtype_parse(first.text, first.length), b = kiln__dtype_parse(rest.text, rest.length);
    ck_assert_str_eq(kiln__dtype_name(kiln__dtype_promote(a, b)), promoted[_i].dtype);
    ck_assert_str_eq(kiln__dtype_name(kiln__dtype_promote(b, a)), promoted[_i].dtype);
}
END_TEST

/* A whole number that the dtype does not hold is rounded as PyTorch rounds it, by way of float. */
START_TEST(test_spec__promotion_has_no_order)
{
    static const char *const orders[] = { "(f8e4m3,i32,f16)", "(f8e4m3,f16,i32)", "(i32,f8e4m3,f16)",
                                          "(f8e4m3,f8e5m2,f16)", "(f16,f8e5m2,f8e4m3)" };
    for (int i = 0; i < COUNT(orders); i++) {
        kiln__fields spec;
        char text[64];
        snprintf(text, sizeof(text), "op=x+y+z dtype=%s", orders[i]);
        parse(&spec, text);
        ck_assert_int_eq(spec.dtype, KILN__DTYPE_F16);
    }
}
END_TEST

START_TEST(test_spec__whole_inputs_are_rounded_to_the_dtype)
{
    const int64_t whole[] = { 2049, 65519, 65520, -65520, 16777217, INT64_MAX };
    static const struct {
        const char *dtype;
        double values[6];
    } rows[] = {
        { "f16", { 2048, 65504, INFINITY, -INFINITY, INFINITY, INFINITY } },
        { "bf16", { 2048, 65536, 65536, -65536, 16777216, 0x1p+63 } },
        { "f32", { 2049, 65519, 65520, -65520, 16777216, 0x1p+63 } },
        { "f64", { 2049, 65519, 65520, -65520, 16777217, 0x1p+63 } },
    };
    for (int row_index = 0; row_index < COUNT(rows); row_index++)
        for (int i = 0; i < COUNT(whole); i++) {
            kiln__fields spec;
            char text[64];
            snprintf(text, sizeof(text), "op=add dtype=(i64,%s)", rows[row_index].dtype);
            parse(&spec, text);
            double value = kiln__spec_input_value(&spec, 0, whole, (uint64_t)i, 1, 1);
            ck_assert_double_eq(kiln__dtype_convert(value, KILN__DTYPE_I64, spec.dtype), rows[row_index].values[i]);
        }
}
END_TEST

START_TEST(test_spec__parse_leaves_constraints_of_open_fields_alone)
{
    kiln__fields spec;
    parse(&spec, "template=toy vector=16");
    parse(&spec, "template=toy vector=16 dtype=f32");
    parse(&spec, "template=toy vector=16 target=sm_90");
    parse(&spec, "template=toy elems=6");
    ck_assert_int_eq(kiln_test_fields(&spec, &catalog, "template=toy vector=16 dtype=f32 target=sm_90", NULL),
                     KILN_ESPEC);
}
END_TEST

START_TEST(test_spec__fields_are_set_read_and_unset)
{
    static const char *const fields[][2] = {
        { "op", "hardtanh(-1,2)" },
        { "template", "elementwise" },
        { "dtype", "f16" },
        { "block", "64" },
        { "elems", "8" },
        { "vector", "4" },
        { "cache", "plain" },
        { "target", "sm_90" },
        { "n", "77" },
    };
    kiln__fields spec;
    kiln__spec_init(&spec, &catalog);
    for (int i = 0; i < COUNT(fields); i++) {
        kiln__text value = { 0 };
        ck_assert_int_eq(kiln__spec_value(&spec, fields[i][0], &value), KILN_OK);
        ck_assert_str_eq(kiln__text_string(&value), "");
        ck_assert_int_eq(set(&spec, fields[i][0], fields[i][1], NULL), KILN_OK);
        ck_assert_int_eq(kiln__spec_value(&spec, fields[i][0], &value), KILN_OK);
        ck_assert_str_eq(kiln__text_string(&value), fields[i][1]);
        kiln__text_fini(&value);
    }
    ck_assert_str_eq(format(&spec),
                     "op=hardtanh(-1,2) dtype=f16 block=64 elems=8 vector=4 cache=plain target=sm_90 n=77");
    for (int i = 0; i < COUNT(fields); i++)
        ck_assert_int_eq(set(&spec, fields[i][0], i % 2 == 0 ? "" : "  ", NULL), KILN_OK);
    ck_assert_str_eq(format(&spec), "");
    ck_assert(!spec.op_set && !spec.template_set && !spec.target_set && !spec.n_set && !spec.param_set[0]);
    ck_assert_uint_eq(spec.op->count, 0);
}
END_TEST

START_TEST(test_spec__unknown_field_has_no_value)
{
    kiln__fields spec;
    kiln__text value = { 0 };
    parse(&spec, "op=relu6");
    ck_assert_int_eq(kiln__spec_value(&spec, "rows", &value), KILN_ENOENT);
    ck_assert_int_eq(set(&spec, "rows", "1", NULL), KILN_ESPEC);
    ck_assert_int_eq(set(&spec, "template", "row", NULL), KILN_OK);
    ck_assert_int_eq(kiln__spec_value(&spec, "rows", &value), KILN_OK);
    kiln__text_fini(&value);
}
END_TEST

START_TEST(test_spec__failed_set_changes_nothing)
{
    static const char *const attempts[][2] = {
        { "op", "nope" }, { "op", "hardtanh(1,2,3)" }, { "dtype", "f31" }, { "block", "33" },    { "cache", "none" },
        { "n", "x" },     { "target", "sm_9" },        { "blok", "32" },   { "template", "zz" }, { "template", "row" },
    };
    kiln__fields spec, before;
    parse(&spec, "op=add dtype=f16 block=32 elems=8 cache=plain target=sm_90 n=5");
    before = spec;
    for (int i = 0; i < COUNT(attempts); i++) {
        ck_assert_int_ne(set(&spec, attempts[i][0], attempts[i][1], NULL), KILN_OK);
        ck_assert_mem_eq(&spec, &before, sizeof(spec));
    }
}
END_TEST

START_TEST(test_spec__values_follow_their_names_to_another_template)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields spec;
    parse(&spec, "op=relu6 block=128 elems=8 cache=plain");
    ck_assert_int_eq(set(&spec, "template", "row", &report), KILN_OK);
    ck_assert_str_eq(format(&spec), "op=relu6 template=row cache=plain block=128");
    ck_assert_int_eq(set(&spec, "template", "", &report), KILN_OK);
    ck_assert_str_eq(format(&spec), "op=relu6 block=128 cache=plain");
    ck_assert_int_eq(set(&spec, "block", "1024", &report), KILN_OK);
    ck_assert_int_eq(set(&spec, "template", "row", &report), KILN_ESPEC);
    ck_assert_str_eq(report.message, "block=1024 is above 512");
    ck_assert_str_eq(format(&spec), "op=relu6 block=1024 cache=plain");
}
END_TEST

START_TEST(test_spec__op_must_suit_its_template)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields spec;
    parse(&spec, "template=row");
    ck_assert_int_eq(set(&spec, "op", "add", &report), KILN_ESPEC);
    ck_assert_str_eq(report.message, "template row takes ops of 1 input, this one has 2");
    ck_assert_int_eq(set(&spec, "op", "add(x,x)", &report), KILN_OK);
}
END_TEST

static const struct {
    const char *text;
    const kiln__target *target;
    const char *resolved;
} resolved[] = {
    { "template=toy op=relu6", &sm_90,
      "op=relu6 template=toy dtype=f32 block=128 elems=4 vector=4 cache=stream over=8 target=sm_90" },
    { "template=toy op=relu6 over=1", &cpu,
      "op=relu6 template=toy dtype=f32 block=1024 elems=4 vector=4 cache=stream over=1 target=cpu" },
    { "template=toy op=relu6 over=1 target=cpu", &sm_90,
      "op=relu6 template=toy dtype=f32 block=1024 elems=4 vector=4 cache=stream over=1 target=cpu" },
    { "template=toy op=relu6 over=1 vector=8", &sm_100,
      "op=relu6 template=toy dtype=f32 block=128 elems=8 vector=8 cache=stream over=1 target=sm_100" },
    { "template=toy op=relu6 over=1 elems=6", &sm_90,
      "op=relu6 template=toy dtype=f32 block=128 elems=6 vector=2 cache=stream over=1 target=sm_90" },
    { "template=toy op=mul(add(x,y),z) dtype=f64 n=9", &sm_90,
      "op=mul(add(x,y),z) template=toy dtype=f64 block=128 elems=2 vector=2 cache=plain over=4 target=sm_90 n=9" },
    /* The hint chooses the default of an array that a cache may hold. A long op takes more elements in large ones. */
    { "op=relu6", &sm_90, "op=relu6 dtype=f32 block=128 elems=4 vector=4 cache=plain target=sm_90" },
    { "op=relu6 n=1048576", &sm_90,
      "op=relu6 dtype=f32 block=128 elems=4 vector=4 cache=plain target=sm_90 n=1048576" },
    { "op=relu6 n=2097152", &sm_90,
      "op=relu6 dtype=f32 block=128 elems=8 vector=4 cache=plain target=sm_90 n=2097152" },
    { "op=add(x,y) n=2097152", &sm_90,
      "op=add(x,y) dtype=f32 block=128 elems=4 vector=4 cache=plain target=sm_90 n=2097152" },
    { "op=gelu dtype=f16", &sm_90, "op=gelu dtype=f16 block=128 elems=16 vector=8 cache=plain target=sm_90" },
    { "op=gelu dtype=f16 n=1000", &sm_90,
      "op=gelu dtype=f16 block=128 elems=8 vector=8 cache=plain target=sm_90 n=1000" },
    { "op=gelu dtype=f16 n=18446744073709551615", &sm_90,
      "op=gelu dtype=f16 block=128 elems=16 vector=8 cache=plain target=sm_90 n=18446744073709551615" },
    { "op=gelu(x+y) template=broadcast dtype=f16", &sm_90,
      "op=gelu(x+y) template=broadcast dtype=f16 block=128 elems=16 vector=8 cache=plain target=sm_90" },
    { "op=x+y template=broadcast dtype=f16", &sm_90,
      "op=x+y template=broadcast dtype=f16 block=128 elems=8 vector=8 cache=plain target=sm_90" },
    /* The widest of the types bounds an access, the narrowest tells how many elements a thread has. */
    { "op=eq(x,y) dtype=f32", &sm_90, "op=eq(x,y) dtype=f32 block=128 elems=16 vector=4 cache=plain target=sm_90" },
    { "op=copy dtype=u8 out=f64", &sm_90,
      "op=copy dtype=u8 out=f64 block=128 elems=8 vector=2 cache=plain target=sm_90" },
    { "op=exp dtype=i64", &sm_90, "op=exp dtype=i64 block=128 elems=8 vector=2 cache=plain target=sm_90" },
    { "op=hardtanh(0,5000000000) dtype=i64", &sm_90,
      "op=hardtanh(0,5000000000) dtype=i64 block=128 elems=2 vector=2 cache=plain target=sm_90" },
    { "op=hardtanh(-2147483648,2147483647) dtype=i32", &sm_90,
      "op=hardtanh(-2147483648,2147483647) dtype=i32 block=128 elems=4 vector=4 cache=plain target=sm_90" },
    { "op=max(x,-9223372036854775808) dtype=i64", &sm_90,
      "op=max(x,-9223372036854775808) dtype=i64 block=128 elems=2 vector=2 cache=plain target=sm_90" },
    { "op=gelu dtype=f8e4m3", &sm_90, "op=gelu dtype=f8e4m3 block=128 elems=16 vector=16 cache=plain target=sm_90" },
    { "op=gelu(x+bias) dtype=f32", &sm_90,
      "op=gelu(x+bias) dtype=f32 block=128 elems=8 vector=4 cache=plain target=sm_90" },
    /* Each step has its own type. */
    { "op=(x,x/2) dtype=i64", &sm_90, "op=(x,x/2) dtype=i64 block=128 elems=4 vector=2 cache=plain target=sm_90" },
    { "op=(x+y,exp(y)) dtype=(i32,i8)", &sm_90,
      "op=(x+y,exp(y)) dtype=(i32,i8) block=128 elems=8 vector=4 cache=plain target=sm_90" },
    { "op=exp(bitwise_and(x,y)) dtype=i64 round=eager", &sm_90,
      "op=exp(bitwise_and(x,y)) dtype=i64 round=eager block=128 elems=8 vector=2 cache=plain target=sm_90" },
    { "op=x+1 dtype=f16 round=fused", &sm_90, "op=x+1 dtype=f16 block=128 elems=8 vector=8 cache=plain target=sm_90" },
    { "op=copy dtype=f32 out=f32", &sm_90, "op=copy dtype=f32 block=128 elems=4 vector=4 cache=plain target=sm_90" },
};

START_TEST(test_spec__resolution_fills_every_field)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields spec, full, again;
    parse(&spec, resolved[_i].text);
    kiln__fields before = spec;
    ck_assert_msg(kiln__spec_resolve(&full, &spec, resolved[_i].target, &report) == KILN_OK, "%s", report.message);
    ck_assert_mem_eq(&spec, &before, sizeof(spec));
    ck_assert_str_eq(format(&full), resolved[_i].resolved);
    ck_assert_int_eq(kiln__spec_resolve(&again, &full, &cpu, &report), KILN_OK);
    ck_assert_str_eq(format(&again), resolved[_i].resolved);
}
END_TEST

static const struct {
    const char *text, *problem;
} unresolved[] = {
    { "dtype=f32", "the spec has no op: add one, such as op=hardsigmoid" },
    { "template=toy op=relu6 elems=4 dtype=f16 vector=16",
      "elems=4 vector=16: elems must be a multiple of vector; nearest: elems=16 or vector=4" },
    { "template=toy op=relu6 over=1 elems=16 vector=8",
      "vector=8 dtype=f32 target=sm_90: vector is too wide; nearest: vector=4" },
    { "template=pair op=add", "default of ratio: formula '8 / (block - 64)': division by zero" },
    { "template=pair op=add(mul(x,y),z)",
      "mode has no word number 7, and that is its default here (inputs == 3 ? 7 : fast): set mode" },
    { "template=toy op=relu6 elems=5", "over=10 is above 8, and that is its default here (elems * 2): set over" },
    { "op=bitwise_and(x,y) dtype=f16",
      "op bitwise_and(x,y) takes whole numbers, and gets those of f16: use i8, i16, i32, i64, u8 or bool" },
    { "op=bitwise_and(x/2,y) dtype=i64",
      "op bitwise_and(x/2,y) takes whole numbers, and gets those of f32: use i8, i16, i32, i64, u8 or bool" },
    { "op=x>3000000000 dtype=i32",
      "op x>3000000000 has a number that 32 bits do not hold, in which i32 is calculated: use i64" },
    { "op=add(hardtanh(x,0,1),-3000000000) dtype=i8",
      "op add(hardtanh(x,0,1),-3000000000) has a number that 32 bits do not hold, in which i8 is calculated: use "
      "i64" },
    { "op=hardtanh(0,5000000000) dtype=u8",
      "op hardtanh(0,5000000000) has a number that 32 bits do not hold, in which u8 is calculated: use i64" },
};

START_TEST(test_spec__resolution_names_what_does_not_hold)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields spec;
    kiln_status status = kiln_test_fields(&spec, &catalog, unresolved[_i].text, &report);
    if (status == KILN_OK) {
        kiln__fields full;
        memset(&full, 0x5a, sizeof(full));
        kiln__fields before = full;
        status = kiln__spec_resolve(&full, &spec, &sm_90, &report);
        ck_assert_mem_eq(&full, &before, sizeof(full));
    }
    ck_assert_int_eq(status, KILN_ESPEC);
    ck_assert_str_eq(report.message, unresolved[_i].problem);
}
END_TEST

START_TEST(test_spec__elementwise_resolves_for_every_dtype_and_kind_of_target)
{
    static const char *const dtypes[] = { "f32", "f64", "f16", "bf16" };
    const kiln__target *targets[] = { &sm_90, &sm_100, &cpu };
    for (int i = 0; i < COUNT(dtypes) * COUNT(targets); i++) {
        kiln_report report = KILN_INIT(kiln_report);
        kiln__fields spec, full;
        parse(&spec, "op=add");
        ck_assert_int_eq(set(&spec, "dtype", dtypes[i % COUNT(dtypes)], NULL), KILN_OK);
        ck_assert_msg(kiln__spec_resolve(&full, &spec, targets[i / COUNT(dtypes)], &report) == KILN_OK, "%s",
                      report.message);
    }
}
END_TEST

START_TEST(test_spec__formulas_see_the_resolved_values)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields spec, full;
    int64_t value = 0;
    parse(&spec, "template=toy op=add dtype=f16 block=64 over=1");
    ck_assert_int_eq(kiln__spec_resolve(&full, &spec, &sm_90, NULL), KILN_OK);
    ck_assert_int_eq(
        kiln__spec_eval(&full, "block * 1000000 + sm * 10000 + bytes * 1000 + elems * 10 + inputs", &value, NULL),
        KILN_OK);
    ck_assert_int_eq(value, 64902082);
    ck_assert_int_eq(kiln__spec_eval(&full, "block / (inputs - 2)", &value, &report), KILN_ESPEC);
    ck_assert_str_eq(report.message, "template toy: formula 'block / (inputs - 2)': division by zero");
}
END_TEST

START_TEST(test_spec__text_is_appended_after_what_is_there)
{
    kiln__fields spec;
    kiln__text out = { 0 };
    parse(&spec, "op=relu6 dtype=f16 n=3");
    kiln__text_append(&out, "// ");
    kiln__spec_format(&spec, false, &out);
    ck_assert_str_eq(kiln__text_string(&out), "// op=relu6 dtype=f16");
    kiln__text_fini(&out);
}
END_TEST

/* Lines of a megabyte made of one piece again and again. */
START_TEST(test_spec__a_megabyte_is_refused_at_once)
{
    static const char *const heads[] = { "", "op=", "block=", "dtype=", "n=", "target=", "template=", "x=" };
    static const char *const pieces[] = { "a", "1", "(", ")", "=", "a=1 ", "op=relu6 ", "\x80", "9,", "x.", "+(" };
    size_t size = 1 << 20, length = strlen(pieces[_i]);
    char *text = malloc(size + 20);
    ck_assert_ptr_nonnull(text);
    for (int head = 0; head < COUNT(heads); head++) {
        kiln_report report = KILN_INIT(kiln_report);
        kiln__fields spec;
        size_t at = strlen(heads[head]);
        memcpy(text, heads[head], at);
        for (; at < size; at += length)
            memcpy(text + at, pieces[_i], length);
        text[at] = '\0';
        ck_assert_int_ne(kiln_test_fields(&spec, &catalog, text, &report), KILN_OK);
        ck_assert_uint_lt(strlen(report.message), 400);
        for (const char *c = report.message; *c != '\0'; c++)
            ck_assert(*c >= ' ' && *c <= '~');
    }
    free(text);
}
END_TEST

static uint32_t random_below(uint32_t limit)
{
    static uint64_t state = 20240601;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % limit);
}

static const char *const seeds[] = {
    "op=hardtanh(-1,1) dtype=f32 block=256 elems=4 vector=4 target=sm_90",
    "op=hardsigmoid(add(x,mul(y,z))) dtype=bf16 cache=stream target=cpu n=4096",
    "template=row op=hardsigmoid_linear(alpha=0.2,beta=-1e-3) rows=3 cache=none",
    "op=mul(x,hardtanh(y,-inf,hi=0x1p-3)) template=toy over=7 elems=64",
    "target=sm_100a vector=8 op=relu6",
};

static void mutate(char *text, size_t room)
{
    static const char spice[] = "=(),.-+ ?\t\n\x80\x01xyz019eina_";
    size_t length = strlen(text), at = random_below((uint32_t)length + 1);
    switch (random_below(4)) {
    case 0:
        if (at < length)
            text[at] = spice[random_below(sizeof(spice) - 1)];
        break;
    case 1:
        if (length + 2 < room) {
            memmove(text + at + 1, text + at, length - at + 1);
            text[at] = spice[random_below(sizeof(spice) - 1)];
        }
        break;
    case 2:
        if (at < length)
            memmove(text + at, text + at + 1, length - at);
        break;
    default: { /* a stretch of another line */
        const char *other = seeds[random_below(COUNT(seeds))];
        size_t from = random_below((uint32_t)strlen(other)), take = random_below(20);
        for (size_t i = 0; i < take && at + i < length && other[from + i] != '\0'; i++)
            text[at + i] = other[from + i];
    }
    }
}

static bool survives(const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields spec, again, full;
    char first[sizeof(report.message) * 4];
    if (kiln_test_fields(&spec, &catalog, text, &report) != KILN_OK) {
        ck_assert_msg(report.message[0] != '\0' && strpbrk(report.message, "\n\x80\x01\t") == NULL, "%s", text);
        return false;
    }
    kiln__text_copy(first, sizeof(first), format(&spec));
    parse(&again, first);
    ck_assert_str_eq(format(&again), first);
    ck_assert_uint_eq(spec.op->count, again.op->count);
    if (kiln__spec_resolve(&full, &spec, &sm_90, &report) == KILN_OK) {
        kiln__text_copy(first, sizeof(first), format(&full));
        parse(&again, first);
        ck_assert_str_eq(format(&again), first);
    }
    return true;
}

/* Each run of blanks is looked at once. */
START_TEST(test_spec__a_megabyte_of_blanks_is_read_at_once)
{
    kiln__fields spec;
    size_t size = 1 << 20;
    char *text = malloc(size + 20);
    ck_assert_ptr_nonnull(text);
    memset(text, ' ', size);
    memcpy(text, "op=x+", 5);
    strcpy(text + size, "y dtype=f16");
    ck_assert_int_eq(kiln_test_fields(&spec, &catalog, text, NULL), KILN_OK);
    ck_assert_str_eq(format(&spec), "op=x+y dtype=f16");
    strcpy(text + size, "+ dtype=f16");
    ck_assert_int_eq(kiln_test_fields(&spec, &catalog, text, NULL), KILN_EOP);
    free(text);
}
END_TEST

START_TEST(test_spec__broken_lines_do_no_harm)
{
    char *text = malloc(400); /* on the heap, where a sanitizer sees both ends */
    int good_lines = 0, rounds = KILN_TEST_SANITIZED ? 30000 : 200000;
    ck_assert_ptr_nonnull(text);
    for (int round = 0; round < rounds; round++) {
        strcpy(text, seeds[round % COUNT(seeds)]);
        for (uint32_t i = random_below(4); i > 0; i--)
            mutate(text, 400);
        good_lines += survives(text);
    }
    free(text);
    ck_assert_int_gt(good_lines, rounds / 10);
    ck_assert_int_lt(good_lines, rounds / 10 * 9);
}
END_TEST

Suite *kiln_test_spec_spec_suite(void)
{
    Suite *suite = suite_create("spec");
    TCase *tcase = tcase_create("spec");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, test_spec__equal_specs_have_equal_text, 0, COUNT(good));
    tcase_add_loop_test(tcase, test_spec__failure_names_the_culprit_and_the_nearest_choice, 0, COUNT(bad));
    tcase_add_loop_test(tcase, test_spec__types_of_inputs_are_promoted, 0, COUNT(promoted));
    tcase_add_test(tcase, test_spec__promotion_has_no_order);
    tcase_add_test(tcase, test_spec__whole_inputs_are_rounded_to_the_dtype);
    tcase_add_test(tcase, test_spec__parse_leaves_constraints_of_open_fields_alone);
    tcase_add_test(tcase, test_spec__fields_are_set_read_and_unset);
    tcase_add_test(tcase, test_spec__unknown_field_has_no_value);
    tcase_add_test(tcase, test_spec__failed_set_changes_nothing);
    tcase_add_test(tcase, test_spec__values_follow_their_names_to_another_template);
    tcase_add_test(tcase, test_spec__op_must_suit_its_template);
    tcase_add_loop_test(tcase, test_spec__resolution_fills_every_field, 0, COUNT(resolved));
    tcase_add_loop_test(tcase, test_spec__resolution_names_what_does_not_hold, 0, COUNT(unresolved));
    tcase_add_test(tcase, test_spec__elementwise_resolves_for_every_dtype_and_kind_of_target);
    tcase_add_test(tcase, test_spec__formulas_see_the_resolved_values);
    tcase_add_test(tcase, test_spec__text_is_appended_after_what_is_there);
    tcase_add_loop_test(tcase, test_spec__a_megabyte_is_refused_at_once, 0, 11);
    tcase_add_test(tcase, test_spec__a_megabyte_of_blanks_is_read_at_once);
    tcase_add_test(tcase, test_spec__broken_lines_do_no_harm);
    suite_add_tcase(suite, tcase);
    return suite;
}
