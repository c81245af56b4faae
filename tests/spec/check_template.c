#include "base/alloc.h"
#include "spec/embedded.h"
#include "spec/template.h"
#include "support/declared.h"
#include "support/suites.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static const char sample[] = "//! template toy\r\n"
                             "//! about    twice\n"
                             "//! about    told\n"
                             "//!\n"
                             "//! inputs   1..3\n"
                             "//! param    block 32..1024 step 32 = sm == 0 ? 1024 : 128   -- threads per block\n"
                             "//! param    elems 1..64 = max(16 / bytes, vector) -- elements -- per thread\n"
                             "//! param    vector 1, 2,4,8,16 = gcd(elems, 16 / bytes)\n"
                             "//! param    cache plain,stream = sm >= 90 ? stream : plain -- hint\n"
                             "/* not a declaration: */ //! param no 1..2 = 1\n"
                             "//! require  elems % vector == 0 -- elems must be a multiple of vector\n"
                             "//! require  block >= 32\n"
                             "//! tune     block 64..512*2, 96 if sm > 0 -- a range, a number\n"
                             "//! tune     block 1024 if sm == 0 && bytes == 4\n"
                             "//! tune     cache stream\n"
                             "//! bound    elems * bytes <= 64 -- more than 64 bytes per thread\n"
                             "//! bound    block < 1024\n"
                             "//! tile     block * elems\n"
                             "//! entry    kiln_vector align vector * bytes\n"
                             "//! entry    kiln_scalar align bytes\n"
                             "//! size     n\n"
                             "//! arg      out out dtype[n] inplace\n"
                             "//! arg      x... in dtype[n]\n"
                             "//! arg      n uint64 = n -- the count\n"
                             "//! grid     (n + tile - 1) / tile\n"
                             "text\n";

static kiln__template *parse(const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__template *template;
    kiln_status status = kiln__template_read(&template, text, NULL, NULL, false, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    ck_assert_ptr_nonnull(template);
    return template;
}

START_TEST(test_manifest__byte_order_mark_is_skipped)
{
    char marked[sizeof(sample) + 3] = "\xEF\xBB\xBF";
    strcat(marked, sample);
    kiln__template *t = parse(marked);
    ck_assert_str_eq(t->name, "toy");
    ck_assert_uint_eq(t->min_inputs, 1);
    kiln__template_free(t);
}
END_TEST

START_TEST(test_manifest__reads_every_declaration)
{
    kiln__template *t = parse(sample);
    ck_assert_str_eq(t->name, "toy");
    ck_assert_str_eq(t->doc, "twice told");
    ck_assert_uint_eq(t->min_inputs, 1);
    ck_assert_uint_eq(t->max_inputs, 3);
    ck_assert_uint_eq(t->param_count, 4);
    ck_assert_uint_eq(t->require_count, 2);
    ck_assert_str_eq(t->requires[0].formula, "elems % vector == 0");
    ck_assert_str_eq(t->requires[0].doc, "elems must be a multiple of vector");
    ck_assert_str_eq(t->requires[1].doc, "block >= 32");
    ck_assert_str_eq(t->tile, "block * elems");
    ck_assert_uint_eq(t->entry_count, 2);
    ck_assert_str_eq(t->entries[0].name, "kiln_vector");
    ck_assert_str_eq(t->entries[0].align, "vector * bytes");
    ck_assert_str_eq(t->entries[1].align, "bytes");
    const kiln__arguments *arguments = &t->arguments;
    ck_assert(arguments->size_count == 1 && arguments->arg_count == 3);
    ck_assert(arguments->args[0].in_place && !arguments->args[1].in_place);
    ck_assert(arguments->args[1].each && !arguments->args[0].each);
    const kiln__operands operands = kiln__operands_plain(KILN__DTYPE_F32, 3);
    ck_assert_str_eq(kiln__arg_name(&arguments->args[1], &operands, 2), "z");
    ck_assert(kiln__arguments_flat(arguments) && kiln__arguments_elementwise(arguments));
    ck_assert(kiln__arguments_inputs(arguments, 3) == 3 && kiln__arguments_count(arguments, &operands) == 5);
    ck_assert_ptr_eq(t->text, sample);
    ck_assert_ptr_eq(t->body, strstr(sample, "/* not a declaration"));
    ck_assert_ptr_null(t->cpu_text);
    kiln__template_free(t);
}
END_TEST

START_TEST(test_manifest__reads_params_of_each_kind)
{
    kiln__template *t = parse(sample);
    const kiln__declared_param *block = &t->params[0], *vector = &t->params[2], *cache = &t->params[3];
    ck_assert_str_eq(block->name, "block");
    ck_assert_str_eq(block->values, "32..1024 step 32");
    ck_assert_str_eq(block->default_text, "sm == 0 ? 1024 : 128");
    ck_assert_str_eq(block->doc, "threads per block");
    ck_assert(!block->is_enum && !block->is_list);
    ck_assert_int_eq(block->low, 32);
    ck_assert_int_eq(block->high, 1024);
    ck_assert_int_eq(block->step, 32);
    ck_assert_str_eq(t->params[1].doc, "elements -- per thread");
    ck_assert_int_eq(t->params[1].step, 1);
    ck_assert(vector->is_list && vector->count == 5);
    ck_assert_int_eq(vector->list[1], 2);
    ck_assert_int_eq(vector->low, 1);
    ck_assert_int_eq(vector->high, 16);
    ck_assert_str_eq(vector->doc, "");
    ck_assert(cache->is_enum && cache->count == 2);
    ck_assert_str_eq(cache->words[1], "stream");
    ck_assert_int_eq(kiln__template_param(t, "vector", 6), 2);
    ck_assert_int_eq(kiln__template_param(t, "vector", 5), -1);
    kiln__template_free(t);
}
END_TEST

START_TEST(test_manifest__reads_what_is_worth_trying)
{
    static const int64_t blocks[] = { 64, 128, 256, 512, 96 };
    kiln__template *t = parse(sample);
    ck_assert_uint_eq(t->tune_count, 3);
    ck_assert_uint_eq(t->tunes[0].param, 0);
    ck_assert_str_eq(t->tunes[0].condition, "sm > 0");
    ck_assert_uint_eq(t->tunes[0].count, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(t->tunes[0].values[i], blocks[i]);
    ck_assert_str_eq(t->tunes[1].condition, "sm == 0 && bytes == 4");
    ck_assert_int_eq(t->tunes[1].values[0], 1024);
    ck_assert_uint_eq(t->tunes[2].param, 3);
    ck_assert_ptr_null(t->tunes[2].condition);
    ck_assert_uint_eq(t->tunes[2].count, 1);
    ck_assert_int_eq(t->tunes[2].values[0], 1);
    ck_assert_uint_eq(t->bound_count, 2);
    ck_assert_str_eq(t->bounds[0].formula, "elems * bytes <= 64");
    ck_assert_str_eq(t->bounds[0].doc, "more than 64 bytes per thread");
    ck_assert_str_eq(t->bounds[1].doc, "block < 1024");
    kiln__template_free(t);
}
END_TEST

START_TEST(test_manifest__let_stands_for_its_formula_below_it)
{
    kiln__template *t =
        parse("//! template toy\n//! inputs 1\n//! size n\n//! param block 32..64 = 32\n"
              "//! let wide = bytes + block -- of a thread\n//! let wider = wide * 2\n"
              "//! param lanes 1..64 = wider / (wide)\n//! require wider2 + wide > 0 || pow2(wide) > 0\n"
              "//! param wider2 1..2 = 1\n//! entry go align wide\n//! arg out out dtype[n] inplace\n"
              "//! arg x... in dtype[n]\n//! grid n / wide\n");
    ck_assert_uint_eq(t->let_count, 2);
    ck_assert_str_eq(t->lets[0].doc, "of a thread");
    ck_assert_str_eq(t->lets[1].text, "wide * 2");
    ck_assert_str_eq(t->params[1].default_text, "wider / (wide)");
    ck_assert_str_eq(t->params[1].default_formula, "((bytes + block) * 2) / ((bytes + block))");
    ck_assert_str_eq(t->requires[0].text, t->requires[0].doc);
    ck_assert_str_eq(t->requires[0].formula, "wider2 + (bytes + block) > 0 || pow2((bytes + block)) > 0");
    ck_assert_str_eq(t->requires[0].doc, "wider2 + wide > 0 || pow2(wide) > 0");
    ck_assert_str_eq(t->arguments.grid[0], "n / (bytes + block)");
    ck_assert_str_eq(t->entries[0].align, "(bytes + block)");
    kiln__template_free(t);
}
END_TEST

/* A whole template but for one line. */
#define HEAD             \
    "//! template toy\n" \
    "//! inputs 1\n"     \
    "//! param block 32..64 = 32\n"
#define TAIL       "//! tile block\n//! entry go align bytes\n" DECLARED_OP
#define WITH(line) HEAD line "\n" TAIL

/* The same for a template without an op. */
#define ARGS(lines)      \
    "//! template toy\n" \
    "//! size n\n"       \
    "//! param block 32..64 = 32\n//! arg x in dtype[n]\n" lines "\n//! entry go align bytes\n"

static const struct {
    const char *text;
    unsigned line;
    const char *problem;
} bad[] = {
    { WITH("//! parm x 1..2 = 1"), 4, "unknown declaration 'parm': did you mean param?" },
    { WITH("//! zzz"), 4,
      "unknown declaration 'zzz': template, about, inputs, let, param, tune, require, bound, tile, entry, "
      "dtype, reference, tolerance, size, arg, grid, block, shared, phases, joint, picks, traffic or option" },
    { WITH("//! template other"), 4, "'template' is given twice" },
    { WITH("//! inputs 2"), 4, "'inputs' is given twice" },
    { WITH("//! tile 1\n//! tile 2"), 5, "'tile' is given twice" },
    { WITH("//! output 8"), 4, "unknown declaration 'output'" },
    { WITH("//! param Elems 1..2 = 1"), 4, "'Elems' cannot name a param" },
    { WITH("//! param block 1..2 = 1"), 4, "'block' cannot name a param" },
    { WITH("//! param sm 1..2 = 1"), 4, "'sm' cannot name a param" },
    { WITH("//! param n 1..2 = 1"), 4, "'n' cannot name a param" },
    { WITH("//! param i64_add 1..2 = 1"), 4, "'i64_add' cannot name a param" },
    { WITH("//! param round 1..2 = 1"), 4, "'round' cannot name a param" },
    { WITH("//! param"), 4, "'' cannot name a param" },
    { WITH("//! param a 1..2"), 4, "param a has no default" },
    { WITH("//! param a = 1"), 4, "param a has no values" },
    { WITH("//! param a 2..1 = 1"), 4, "'2..1' is not a range" },
    { WITH("//! param a 1..2 step 0 = 1"), 4, "'1..2 step 0' is not a range" },
    { WITH("//! param a 1..2147483648 = 1"), 4, "'1..2147483648' is not a range" },
    { WITH("//! param a 1,3,2 = 1"), 4, "'2' is out of order" },
    { WITH("//! param a 1,2x = 1"), 4, "'2x' is not a whole number" },
    { WITH("//! param a 1,,2 = 1"), 4, "'' is not a whole number" },
    { WITH("//! param a on,on = on"), 4, "'on' is not a new word" },
    { WITH("//! param a on,Off = on"), 4, "'Off' is not a new word" },
    { WITH("//! param a 1..9 = blok"), 4, "formula 'blok': unknown name 'blok'" },
    { WITH("//! param a on,off = onn"), 4, "formula 'onn': unknown name 'onn'" },
    { WITH("//! param a 1..9 = 1 +"), 4, "formula '1 +': a value is missing at the end" },
    { WITH("//! require blok > 1 -- no"), 4, "formula 'blok > 1': unknown name 'blok'" },
    { WITH("//! require"), 4, "formula '': a value is missing" },
    { WITH("//! tune"), 4, "write tune NAME VALUES, NAME a param declared above: '' is none" },
    { WITH("//! tune blok 32"), 4, "write tune NAME VALUES, NAME a param declared above: 'blok' is none" },
    { WITH("//! tune a 1\n//! param a 1..2 = 1"), 4, "NAME a param declared above: 'a' is none" },
    { WITH("//! tune block"), 4, "block= is not a whole number: block allows 32..64" },
    { WITH("//! tune block if sm > 0"), 4, "block= is not a whole number: block allows 32..64" },
    { WITH("//! tune block 32,,64"), 4, "block= is not a whole number" },
    { WITH("//! tune block 16,32"), 4, "block=16 is below 32" },
    { WITH("//! tune block 32..80"), 4, "block=65 is above 64" },
    { WITH("//! tune block 33,32..64"), 4, "block=33 is given twice" },
    { WITH("//! tune block 64..32"), 4, "'64..32' is empty: the first number is above the last" },
    { WITH("//! tune block 32..64*1"), 4, "'32..64*1' never ends: begin above 0 and multiply by 2 or more" },
    { WITH("//! tune block 32..64+0"), 4, "'32..64+0' never ends: step by 1 or more" },
    { WITH("//! tune block 32..x"), 4, "'32..x' is not a range: write A..B, A..B+STEP or A..B*FACTOR" },
    { WITH("//! param a 0..99 = 1\n//! tune a 0..99"), 5, "more than 64 values of a to try" },
    { WITH("//! param a on,off = on\n//! tune a on,of"), 5, "unknown a 'of': did you mean off?" },
    { WITH("//! tune block 32 if"), 4, "formula '': a value is missing" },
    { WITH("//! tune block 32 if sm >"), 4, "formula 'sm >': a value is missing" },
    { WITH("//! tune block 32 if block > 32"), 4, "formula 'block > 32': unknown name 'block'" },
    { WITH("//! bound blok > 1 -- no"), 4, "formula 'blok > 1': unknown name 'blok'" },
    { WITH("//! bound"), 4, "formula '': a value is missing" },
    { WITH("//! entry other bytes"), 4, "write entry NAME align FORMULA" },
    { WITH("//! entry 1a align bytes"), 4, "write entry NAME align FORMULA" },
    { WITH("//! entry other align byts"), 4, "formula 'byts': unknown name 'byts'" },
    { WITH("//! entry go align bytes"), 6, "entry go is given twice" },
    { HEAD "//! entry go align bytes\n//! tile blok\n" DECLARED_OP, 5, "formula 'blok': unknown name 'blok'" },
    { WITH("//! size rows, Cols"), 4, "'Cols' cannot name a size" },
    { WITH("//! size rows, rows"), 4, "'rows' cannot name a size" },
    { WITH("//! size bytes"), 4, "'bytes' cannot name a size: it means something else" },
    { WITH("//! size a, b, c, d, e"), 4, "more than 4 sizes" },
    { WITH("//! arg"), 4, "'' cannot name an arg" },
    { WITH("//! arg x in"), 4, "arg x: unknown type ''" },
    { WITH("//! arg x in f31[1]"), 4, "arg x: unknown type 'f31': did you mean f32?" },
    { WITH("//! arg x in f32"), 4, "arg x: write its shape behind the type: f32[FORMULA, ...]" },
    { WITH("//! arg x in f32[1"), 4, "arg x: write its shape behind the type" },
    { WITH("//! arg x in f32[1,,2]"), 4, "arg x: write its shape as [FORMULA, ...] of at most 4" },
    { WITH("//! arg x in f32[1,1,1,1,1]"), 4, "arg x: write its shape as [FORMULA, ...] of at most 4" },
    { WITH("//! arg x f16"), 4, "arg x: a number is no f16: write float" },
    { WITH("//! arg x float\n//! arg x float"), 5, "'x' cannot name an arg" },
    { WITH("//! arg x... in f32[n]"), 9, "'x...' cannot name an arg: it is taken" },
    { WITH("//! arg x... out f32[n]"), 4, "arg x... is the inputs of the op: write arg x... in TYPE[FORMULA, ...]" },
    { WITH("//! arg y... in f32[n]"), 4, "'y...' cannot name an arg" },
    { WITH("//! arg y float"), 11, "x, y, z and x4 to x8 are the inputs of the op: give other args other names" },
    { WITH("//! arg w in dtype[1] inplace"), 4, "arg w: write its shape behind the type: dtype[FORMULA, ...]" },
    { WITH("//! arg w out dtype[1] aside"), 4, "[FORMULA, ...], then inplace if it may be an input" },
    { WITH("//! param tile 1..2 = 1"), 11, "'tile' names the tile and a param or size" },
    { HEAD "//! entry go align 1\n//! size n\n//! arg a in f32[n]\n//! grid 1\n", 7,
      "the inputs of the op are no arguments: write arg x... in TYPE[FORMULA, ...]" },
    { ARGS("//! arg b in f32[tile]\n//! grid 1"), 5, "formula 'tile': unknown name 'tile'" },
    { "//! template toy\n//! param block 32..64 = 32\n" TAIL, 9,
      "arg x... stands for those of an op, and the template takes none: write inputs LOW..HIGH" },
    { WITH("//! param outputs 1..4 = 2"), 4, "'outputs' cannot name" },
    { WITH("//! param all_out 1..4 = 2"), 4, "'all_out' cannot name" },
    { WITH("//! param type0 1..4 = 2"), 4, "'type0' cannot name" },
    { ARGS("//! grid 1\n//! grid 2"), 6, "given twice, first on line 5" },
    { ARGS("//! grid 1, 2, 3, 4"), 5, "write one to three formulas: X, Y, Z" },
    { ARGS("//! grid 1,"), 5, "write one to three formulas: X, Y, Z" },
    { ARGS("//! grid rows"), 5, "formula 'rows': unknown name 'rows'" },
    { ARGS("//! grid 1\n//! block n"), 6, "formula 'n': unknown name 'n'" },
    { ARGS("//! grid 1\n//! shared n"), 6, "formula 'n': unknown name 'n'" },
    { ARGS("//! grid 1\n//! shared 1\n//! shared 1"), 7, "'shared' is given twice" },
    { ARGS("//! arg y in f32[m]\n//! grid 1"), 5, "formula 'm': unknown name 'm'" },
    { ARGS("//! arg y uint32 = m\n//! grid 1"), 5, "formula 'm': unknown name 'm'" },
    { ARGS(""), 6, "the declaration 'grid X, Y, Z' is missing" },
    { ARGS("//! grid 1\n//! param n 1..2 = 1"), 6, "'n' cannot name a param" },
    { ARGS("//! size m\n//! grid 1\n//! param m 1..2 = 1"), 8, "'m' names a size and a param" },
    { "//! template toy\n//! arg x inout f32[1]\n//! grid 1\n//! entry go align 4\n", 4,
      "the declaration 'block X, Y, Z' is missing" },
    { WITH("//! op none"), 4, "unknown declaration 'op'" },
    { WITH("//! dtype f31"), 4,
      "'f31' is not a new dtype: f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8 or bool" },
    { WITH("//! dtype f32, f32"), 4, "'f32' is not a new dtype" },
    { WITH("//! dtype"), 4, "'' is not a new dtype" },
    { WITH("//! arg w phase\n//! arg v phase"), 5,
      "arg v: the number of the phase is one argument, which is given twice" },
    { WITH("//! arg w scratch n\n//! arg v scratch n"), 5,
      "arg v: the scratch memory is one argument, which is given twice" },
    { WITH("//! arg w scratch"), 4, "arg w: write scratch FORMULA, the bytes that a launch needs" },
    { WITH("//! phases 2\n//! phases 2"), 5, "'phases' is given twice, first on line 4" },
    { WITH("//! phases n"), 4, "unknown name 'n'" },
    { WITH("//! arg w strides\n//! arg v strides"), 5,
      "arg v: the strides of all arrays are one argument, which is given twice" },
    { WITH("//! arg w strides\n//! arg v in dtype[n]"), 12, "strides are those of an op: write size n, arg out" },
    { WITH("//! param dims 1..2 = 1"), 4, "'dims' cannot name a param" },
    { WITH("//! let two"), 4, "write let NAME = FORMULA" },
    { WITH("//! let two = -- two"), 4, "write let NAME = FORMULA" },
    { WITH("//! let Two = 2"), 4, "'Two' cannot name a formula" },
    { WITH("//! let two = 2\n//! let two = 2"), 5, "'two' cannot name a formula" },
    { WITH("//! let block = 2"), 4, "'block' cannot name a formula" },
    { WITH("//! let sm = 2"), 4, "'sm' cannot name a formula" },
    { WITH("//! let two = 2\n//! param two 1..2 = 1"), 5, "'two' cannot name a param" },
    { WITH("//! let two = 2\n//! param words one,two = one"), 5, "'two' is not a new word" },
    { WITH("//! let two = two"), 4, "unknown name 'two'" },
    { WITH("//! let two = 2 +"), 4, "a value is missing at the end" },
    { WITH("//! bound two < 3\n//! let two = 2"), 4, "unknown name 'two'" },
    { WITH("//! let all_n = 2\n//! bound 1"), 4, "'all_n' cannot name a formula" },
    { WITH("//! let two = n * 2\n//! bound two > 2"), 5, "unknown name 'n'" },
    { WITH("//! let tile = 2"), 11, "'tile' names a formula, and a size or the tile" },
    { ARGS("//! let m = 2\n//! size m\n//! grid 1"), 8, "'m' names a formula, and a size or the tile" },
    { WITH("//! let a = sm + sm + sm + sm + sm + sm + sm + sm + sm + sm\n"
           "//! let b = a + a + a + a + a + a + a + a + a + a\n//! let c = b + b + b + b + b + b + b + b + b + b\n"
           "//! let d = c + c + c + c + c + c + c + c + c + c"),
      7, "a formula has more than 8192 bytes" },
    { "//! template toy\n//! inputs 1\n//! size n\n//! param block 32..64 = 32\n//! let span = 2\n"
      "//! arg out... out otype[n] inplace\n//! arg x... in itype[n]\n//! arg w strides\n//! grid n\n"
      "//! entry go align bytes\n",
      10, "'span' is known from the strides: give the formula" },
    { WITH("//! reference"), 4, "write reference OP" },
    { WITH("//! reference a\n//! reference b"), 5, "'reference' is given twice" },
    { WITH("//! reference relu6"), 11, "a reference is for a template without an op: leave inputs out" },
    { WITH("//! tolerance"), 4, "write tolerance NAME NUMBER ..., NAME one of ulp, relative and absolute" },
    { WITH("//! tolerance -- none"), 4, "write tolerance NAME NUMBER ..." },
    { WITH("//! tolerance 4"), 4, "unknown tolerance '4': ulp, relative or absolute" },
    { WITH("//! tolerance ulps 4"), 4, "unknown tolerance 'ulps': did you mean ulp?" },
    { WITH("//! tolerance ulp"), 4, "tolerance ulp has no number: write ulp NUMBER" },
    { WITH("//! tolerance ulp 4 relative"), 4, "tolerance relative has no number: write relative NUMBER" },
    { WITH("//! tolerance ulp 4 ulp 4"), 4, "tolerance ulp is given twice" },
    { WITH("//! tolerance ulp 4\n//! tolerance relative 1"), 5, "'tolerance' is given twice, first on line 4" },
    { WITH("//! tolerance ulp -4"), 4, "tolerance ulp -4: expected a finite number of 0 or more" },
    { WITH("//! tolerance relative nan"), 4, "tolerance relative nan: expected a finite number" },
    { WITH("//! tolerance relative inf"), 4, "tolerance relative inf: expected a finite number" },
    { WITH("//! tolerance absolute 1e999"), 4, "tolerance absolute 1e999: expected a finite number" },
    { WITH("//! tolerance absolute 1,5"), 4, "tolerance absolute 1,5: expected a finite number" },
    { WITH("//! tolerance ulp relative 1"), 4, "tolerance ulp relative: expected a finite number" },
    { WITH("//! tolerance ulp 4, absolute 1"), 4, "tolerance ulp 4,: expected a finite number" },
    { ARGS("//! arg y out dtype[2 * n]\n//! grid 1\n//! reference relu6"), 8,
      "a reference is for a template of one size, which is the extent of every array" },
    { "//! inputs 1\n", 1, "the declaration 'template NAME' is missing" },
    { "//! template toy\n", 1, "the declaration 'arg NAME out TYPE[FORMULA, ...]' is missing" },
    { HEAD "//! arg x... in dtype[1]\n", 4, "the declaration 'grid X, Y, Z' is missing" },
    { HEAD "//! arg x... in dtype[1]\n//! grid 1\n", 5, "the declaration 'entry NAME align FORMULA' is missing" },
    { "//! template toy\n//! inputs 1\n"
      "//! tile 1\n//! entry go align 1\n" DECLARED_OP,
      9, "the declaration 'block X, Y, Z' is missing" },
    { "//! template toy\n//! inputs 1\n//! param block a,b = a\n" TAIL, 3, "param block must be a number" },
    { "//! template Toy\n", 1, "'Toy' is not a name" },
    { "//! inputs 0..1\n", 1, "inputs '0..1' is not a range within 1..8" },
    { "//! inputs 1..9\n", 1, "inputs '1..9' is not a range within 1..8" },
    { "//! inputs 3..2\n", 1, "inputs '3..2' is not a range within 1..8" },
    { "//! inputs\n", 1, "inputs '' is not a range within 1..8" },
};

START_TEST(test_manifest__failure_names_line_and_culprit)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__template *template = (kiln__template *)&report;
    char line[24];
    ck_assert_int_eq(kiln__template_read(&template, bad[_i].text, NULL, NULL, false, &report), KILN_ESPEC);
    ck_assert_ptr_null(template);
    snprintf(line, sizeof(line), ", line %u: ", bad[_i].line);
    ck_assert_msg(strstr(report.message, line) != NULL, "%s", report.message);
    ck_assert_msg(strstr(report.message, bad[_i].problem) != NULL, "%s", report.message);
    ck_assert_str_eq(report.stage, "spec");
}
END_TEST

static const struct {
    const char *line;
    double ulp, relative, absolute;
    const char *text;
} tolerances[] = {
    { "tolerance ulp 4", 4, 0, 0, "ulp 4" },
    { "tolerance relative 1e-5 absolute 1e-7", 0, 1e-5, 1e-7, "relative 1e-5 absolute 1e-7" },
    { "tolerance\tabsolute 1e-6  ulp 2 -- of sums in any order", 2, 0, 1e-6, "ulp 2 absolute 1e-6" },
    { "tolerance absolute 0x1p-149 relative .5 ulp 0.1", 0.1, 0.5, 0x1p-149, NULL },
    { "tolerance ulp 0", 0, 0, 0, "" },
    { "tolerance relative 0.1 ulp -0", 0, 0.1, 0, "relative 0.1" },
    { "about no tolerance", 0, 0, 0, "" },
};

START_TEST(test_manifest__reads_a_tolerance)
{
    char text[400], formatted[KILN__TOLERANCE_SIZE], problem[400];
    kiln_tolerance again;
    snprintf(text, sizeof(text), "%s//! %s\n%s", HEAD, tolerances[_i].line, TAIL);
    kiln__template *t = parse(text);
    ck_assert(t->tolerance.ulp == tolerances[_i].ulp && t->tolerance.relative == tolerances[_i].relative &&
              t->tolerance.absolute == tolerances[_i].absolute);
    ck_assert(!signbit(t->tolerance.ulp));
    ck_assert_uint_eq(t->tolerance.size, strncmp(tolerances[_i].line, "about", 5) == 0 ? 0 : sizeof(kiln_tolerance));
    ck_assert(kiln__tolerance_is_exact(&t->tolerance) ==
              (tolerances[_i].text != NULL && tolerances[_i].text[0] == '\0'));
    kiln__tolerance_format(formatted, &t->tolerance);
    if (tolerances[_i].text != NULL)
        ck_assert_str_eq(formatted, tolerances[_i].text);
    if (formatted[0] != '\0') {
        ck_assert(kiln__tolerance_parse(&again, kiln__word_of(formatted), problem, sizeof(problem)));
        ck_assert_mem_eq(&again, &t->tolerance, sizeof(again));
    }
    kiln__template_free(t);
}
END_TEST

/* The text of the longest numbers has room. */
START_TEST(test_manifest__writes_any_tolerance)
{
    const kiln_tolerance wide = { sizeof(wide), 1.7976931348623157e308, 2.2250738585072014e-308,
                                  1.2345678901234567e-300 };
    char formatted[KILN__TOLERANCE_SIZE], problem[400];
    kiln_tolerance again;
    kiln__tolerance_format(formatted, &wide);
    ck_assert(kiln__tolerance_parse(&again, kiln__word_of(formatted), problem, sizeof(problem)));
    ck_assert_mem_eq(&again, &wide, sizeof(wide));
}
END_TEST

/* "//! HEAD<0>TAIL" and so on, `count` lines, within a whole template. */
static char *repeat(const char *head, const char *tail, int count)
{
    size_t room = strlen(HEAD TAIL) + (size_t)count * (strlen(head) + strlen(tail) + 20) + 1;
    char *text = malloc(room);
    ck_assert_ptr_nonnull(text);
    size_t length = (size_t)snprintf(text, room, "%s", HEAD);
    for (int i = 0; i < count; i++)
        length += (size_t)snprintf(text + length, room - length, "//! %s%d%s\n", head, i, tail);
    snprintf(text + length, room - length, "%s", TAIL);
    return text;
}

static const struct {
    const char *head, *tail;
    int most;
} limits[] = {
    { "param p", " 1..2 = 1", KILN__PARAMS_MAX - 1 },
    { "require ", "", KILN__REQUIRES_MAX },
    { "bound ", "", KILN__REQUIRES_MAX },
    { "tune block 32 -- ", "", KILN__TUNES_MAX },
    { "entry e", " align 1", KILN__ENTRIES_MAX - 1 },
};

START_TEST(test_manifest__declarations_fit_to_the_limit_and_no_further)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__template *template;
    char *text = repeat(limits[_i].head, limits[_i].tail, limits[_i].most);
    kiln__template_free(parse(text));
    free(text);
    text = repeat(limits[_i].head, limits[_i].tail, limits[_i].most + 1);
    ck_assert_int_eq(kiln__template_read(&template, text, NULL, NULL, false, &report), KILN_ESPEC);
    ck_assert_msg(strstr(report.message, "more than") != NULL, "%s", report.message);
    free(text);
}
END_TEST

static const struct {
    const char *param, *text;
    int64_t value; /* -1: refused */
    const char *problem;
} values[] = {
    { "block", "32", 32, "" },
    { "block", "1024", 1024, "" },
    { "block", "0064", 64, "" },
    { "block", "100", -1, "block=100 is not a multiple of 32: the nearest are 96 and 128" },
    { "block", "2048", -1, "block=2048 is above 1024" },
    { "block", "31", -1, "block=31 is below 32" },
    { "block", "0", -1, "block=0 is below 32" },
    { "block", "99999999999999999999999", -1, "block=99999999999999999999999 is above 1024" },
    { "block", "-32", -1, "block=-32 is not a whole number: block allows 32..1024 step 32" },
    { "block", "64.0", -1, "block=64.0 is not a whole number: block allows 32..1024 step 32" },
    { "block", "", -1, "block= is not a whole number: block allows 32..1024 step 32" },
    { "elems", "7", 7, "" },
    { "vector", "16", 16, "" },
    { "vector", "3", -1, "vector=3 is not one of 1, 2,4,8,16: the nearest are 2 and 4" },
    { "vector", "12", -1, "vector=12 is not one of 1, 2,4,8,16: the nearest are 8 and 16" },
    { "vector", "17", -1, "vector=17 is above 16" },
    { "cache", "stream", 1, "" },
    { "cache", "plain", 0, "" },
    { "cache", "stram", -1, "unknown cache 'stram': did you mean stream?" },
    { "cache", "none", -1, "unknown cache 'none': plain or stream" },
    { "cache", "1", -1, "unknown cache '1': plain or stream" },
};

START_TEST(test_manifest__lists_have_at_most_64_values)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__template *template;
    char list[400] = "param long 0", tail[] = " = 1\n";
    for (int i = 1, length = 12; i < 64; i++)
        length += snprintf(list + length, sizeof(list) - (size_t)length, ",%d", i);
    char text[1000];
    snprintf(text, sizeof(text), "%s//! %s%s%s", HEAD, list, tail, TAIL);
    kiln__template_free(parse(text));
    snprintf(text, sizeof(text), "%s//! %s,64%s%s", HEAD, list, tail, TAIL);
    ck_assert_int_eq(kiln__template_read(&template, text, NULL, NULL, false, &report), KILN_ESPEC);
    ck_assert_str_eq(report.message, "template toy, line 4: param long has more than 64 values");
}
END_TEST

START_TEST(test_manifest__value_is_allowed_or_the_nearest_is_named)
{
    kiln__template *t = parse(sample);
    char problem[200] = "";
    int64_t value = -1;
    const kiln__declared_param *param = &t->params[kiln__template_param(t, values[_i].param, strlen(values[_i].param))];
    bool allowed = kiln__param_parse(param, values[_i].text, strlen(values[_i].text), &value, problem, sizeof(problem));
    ck_assert_str_eq(problem, values[_i].problem);
    ck_assert_int_eq(value, values[_i].value);
    ck_assert_int_eq(allowed, values[_i].value >= 0);
    kiln__template_free(t);
}
END_TEST

START_TEST(test_manifest__range_that_does_not_begin_at_a_multiple_says_so)
{
    kiln__template *t = parse(WITH("//! param odd 1..8 step 2 = 1"));
    char problem[200] = "";
    int64_t value;
    ck_assert(kiln__param_parse(&t->params[1], "7", 1, &value, problem, sizeof(problem)));
    ck_assert(!kiln__param_parse(&t->params[1], "4", 1, &value, problem, sizeof(problem)));
    ck_assert_str_eq(problem, "odd=4 is not in 1..8 step 2: the nearest are 3 and 5");
    ck_assert(!kiln__param_parse(&t->params[1], "8", 1, &value, problem, sizeof(problem)));
    ck_assert_str_eq(problem, "odd=8 is not in 1..8 step 2: the nearest is 7");
    kiln__template_free(t);
}
END_TEST

static int allocations_left;

static int allow_some(void)
{
    return allocations_left-- <= 0;
}

START_TEST(test_manifest__every_failed_allocation_is_reported)
{
    kiln_status status = KILN_ENOMEM;
    int attempts = 0;
    for (; status == KILN_ENOMEM; attempts++) {
        kiln__template *template = NULL;
        allocations_left = attempts;
        kiln__alloc_set_hook(allow_some);
        status = kiln__template_read(&template, sample, NULL, NULL, false, NULL);
        kiln__alloc_set_hook(NULL);
        ck_assert((status == KILN_OK) == (template != NULL));
        kiln__template_free(template);
    }
    ck_assert_int_eq(status, KILN_OK);
    ck_assert_int_gt(attempts, 20);
}
END_TEST

START_TEST(test_manifest__broken_bytes_are_refused_without_harm)
{
    unsigned seed = 1;
    char text[sizeof(sample)];
    for (int round = 0; round < 20000; round++) {
        kiln__template *template;
        memcpy(text, sample, sizeof(sample));
        for (int i = 0; i <= round % 3; i++) {
            seed = seed * 1103515245u + 12345u;
            text[(seed >> 8) % (sizeof(sample) - 1)] = (char)((seed >> 24) | 1);
        }
        if (kiln__template_read(&template, text, NULL, NULL, false, NULL) == KILN_OK)
            kiln__template_free(template);
        else
            ck_assert_ptr_null(template);
    }
}
END_TEST

/* ---- What the library was built with */

START_TEST(test_manifest__kilns_own_templates_are_right)
{
    size_t found = 0;
    for (size_t i = 0; i < kiln__embedded_count; i++) {
        const char *name = kiln__embedded_files[i].name, *ending = strstr(name, ".cu");
        if (ending == NULL)
            continue;
        kiln__template *template = parse(kiln__embedded_files[i].text);
        ck_assert_uint_eq(strlen(template->name), (size_t)(ending - name));
        ck_assert_int_eq(strncmp(template->name, name, strlen(template->name)), 0);
        kiln__template_free(template);
        found++;
    }
    ck_assert_uint_ge(found, 2);
}
END_TEST

Suite *kiln_test_spec_template_suite(void)
{
    Suite *suite = suite_create("manifest");
    TCase *tcase = tcase_create("manifest");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_manifest__reads_every_declaration);
    tcase_add_test(tcase, test_manifest__byte_order_mark_is_skipped);
    tcase_add_test(tcase, test_manifest__reads_params_of_each_kind);
    tcase_add_test(tcase, test_manifest__let_stands_for_its_formula_below_it);
    tcase_add_test(tcase, test_manifest__reads_what_is_worth_trying);
    tcase_add_loop_test(tcase, test_manifest__reads_a_tolerance, 0, COUNT(tolerances));
    tcase_add_test(tcase, test_manifest__writes_any_tolerance);
    tcase_add_loop_test(tcase, test_manifest__failure_names_line_and_culprit, 0, COUNT(bad));
    tcase_add_loop_test(tcase, test_manifest__declarations_fit_to_the_limit_and_no_further, 0, COUNT(limits));
    tcase_add_test(tcase, test_manifest__lists_have_at_most_64_values);
    tcase_add_loop_test(tcase, test_manifest__value_is_allowed_or_the_nearest_is_named, 0, COUNT(values));
    tcase_add_test(tcase, test_manifest__range_that_does_not_begin_at_a_multiple_says_so);
    tcase_add_test(tcase, test_manifest__every_failed_allocation_is_reported);
    tcase_add_test(tcase, test_manifest__broken_bytes_are_refused_without_harm);
    tcase_add_test(tcase, test_manifest__kilns_own_templates_are_right);
    suite_add_tcase(suite, tcase);
    return suite;
}
