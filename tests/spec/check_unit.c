#include "base/alloc.h"
#include "spec/unit.h"
#include "support/declared.h"
#include "support/fields.h"
#include "support/suites.h"
#include "support/temp.h"
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

static kiln__catalog catalog;

static void set_up(void)
{
    ck_assert_int_eq(kiln__catalog_init(&catalog, NULL), KILN_OK);
}

static void tear_down(void)
{
    kiln__catalog_fini(&catalog);
}

static void resolve(kiln__fields *out, const kiln__catalog *from, const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__target sm_90;
    kiln__fields spec;
    ck_assert(kiln__target_parse("sm_90", 5, &sm_90));
    ck_assert_msg(kiln_test_fields(&spec, from, text, &report) == KILN_OK, "%s", report.message);
    ck_assert_msg(kiln__spec_resolve(out, &spec, &sm_90, &report) == KILN_OK, "%s", report.message);
}

static kiln__unit *make(const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields spec;
    kiln__unit *unit;
    resolve(&spec, &catalog, text);
    ck_assert_msg(kiln__unit_make(&unit, &spec, &report) == KILN_OK, "%s", report.message);
    ck_assert_uint_eq(strlen(unit->source), unit->source_length);
    return unit;
}

static const struct {
    const char *spec, *head, *value;
    const char *ops[3]; /* used, in the order of ops.txt */
    const char *unused;
} golden[] = {
    { "op=hardtanh(-1,inf) dtype=f16 block=256 elems=16 vector=8 cache=stream target=sm_90",
      "// op=hardtanh(-1,inf) dtype=f16 block=256 elems=16 vector=8 cache=stream\n"
      "#define KILN_UNIT 1\n"
      "#define KILN_DTYPE_F16 1\n"
      "#define KILN_INPUTS 1\n"
      "#define KILN_ALL(M) M(0)\n"
      "#define KILN_EACH(M) M(0)\n"
      "#define KILN_OUTPUTS 1\n"
      "#define KILN_ALL_OUT(M) M(0)\n"
      "#define KILN_EACH_OUT(M) M(0)\n"
      "#define kiln_value0 kiln_value\n"
      "#define KILN_ALL_SCALARS(M)\n"
      "#define KILN_EACH_SCALARS(M)\n"
      "#define KILN_BLOCK 256\n"
      "#define KILN_ELEMS 16\n"
      "#define KILN_VECTOR 8\n"
      "#define KILN_CACHE_PLAIN 0\n"
      "#define KILN_CACHE_STREAM 1\n"
      "#define KILN_CACHE 1\n"
      "#define KILN_TILE 4096\n"
      "\n",
      "\nKILN_FN kiln_real kiln_value(kiln_real x) { return kiln_op_hardtanh(x, (kiln_real)-0x1p+0, "
      "(kiln_real)KILN_INFINITY); }\n\n",
      { "hardtanh" },
      "relu6" },
    { "op=hardsigmoid_linear(mul(add(x,y),z),0.1,0) dtype=bf16 block=128 elems=8 vector=8 cache=plain target=cpu",
      "// op=hardsigmoid_linear(mul(add(x,y),z),0.1,0) dtype=bf16 block=128 elems=8 vector=8 cache=plain\n"
      "#define KILN_UNIT 1\n"
      "#define KILN_DTYPE_BF16 1\n"
      "#define KILN_INPUTS 3\n"
      "#define KILN_ALL(M) M(0) M(1) M(2)\n"
      "#define KILN_EACH(M) M(0), M(1), M(2)\n"
      "#define KILN_OUTPUTS 1\n"
      "#define KILN_ALL_OUT(M) M(0)\n"
      "#define KILN_EACH_OUT(M) M(0)\n"
      "#define kiln_value0 kiln_value\n"
      "#define KILN_ALL_SCALARS(M)\n"
      "#define KILN_EACH_SCALARS(M)\n"
      "#define KILN_BLOCK 128\n"
      "#define KILN_ELEMS 8\n"
      "#define KILN_VECTOR 8\n"
      "#define KILN_CACHE_PLAIN 0\n"
      "#define KILN_CACHE_STREAM 1\n"
      "#define KILN_CACHE 0\n"
      "#define KILN_TILE 1024\n"
      "\n",
      "\nKILN_FN kiln_real kiln_value(kiln_real x, kiln_real y, kiln_real z) { return "
      "kiln_op_hardsigmoid_linear(kiln_op_mul(kiln_op_add(x, y), z), (kiln_real)0x1.999999999999ap-4, "
      "(kiln_real)0x0p+0); }\n\n",
      { "add", "mul", "hardsigmoid_linear" },
      "hardtanh" },
};

/* A piece must stand in the source once, at or after `from`; returns what follows it. */
static const char *expect_next(const char *from, const char *piece)
{
    const char *at = strstr(from, piece);
    ck_assert_msg(at != NULL, "missing, or out of place: %s", piece);
    ck_assert_msg(strstr(at + 1, piece) == NULL, "twice: %s", piece);
    return at + strlen(piece);
}

static const char *op_text(const char *name)
{
    int index;
    ck_assert_int_eq(kiln__op_find(&catalog.ops, (kiln__word){ name, strlen(name) }, KILN__OPS_MAX, &index, NULL),
                     KILN_OK);
    return kiln__op_at(&catalog.ops, (uint32_t)index)->text;
}

START_TEST(test_unit__source_is_assembled_in_order)
{
    kiln__unit *unit = make(golden[_i].spec);
    const kiln__template *elementwise = catalog.usual;
    const char *at = unit->source;
    ck_assert_ptr_nonnull(elementwise);
    ck_assert_msg(strncmp(at, golden[_i].head, strlen(golden[_i].head)) == 0, "%.500s", at);
    at += strlen(golden[_i].head);
    ck_assert_msg(strncmp(at, catalog.prelude, strlen(catalog.prelude)) == 0, "real.h does not follow the defines");
    at += strlen(catalog.prelude);
    for (int i = 0; i < 3 && golden[_i].ops[i] != NULL; i++) {
        const char *name = golden[_i].ops[i];
        at = expect_next(at, op_text(name));
    }
    at = expect_next(at, golden[_i].value);
    ck_assert_str_eq(at, unit->target.sm == 0 ? elementwise->cpu_text : elementwise->body);
    const char *unused = golden[_i].unused;
    ck_assert_ptr_null(strstr(unit->source, op_text(unused)));
    ck_assert_msg(strstr(unit->source, "//! ") == NULL, "declarations are no part of a unit");
    ck_assert_str_eq(unit->spec, golden[_i].spec);
    kiln__unit_free(unit);
}
END_TEST

START_TEST(test_unit__target_is_no_part_of_the_source)
{
    static const char *const geometry = "op=hardsigmoid dtype=f32 block=128 elems=4 vector=4 cache=stream";
    static const char *const targets[] = { "sm_75", "sm_90", "sm_90a", "sm_100f", "sm_121" };
    char text[200];
    char *first = NULL;
    for (int i = 0; i < COUNT(targets); i++) {
        snprintf(text, sizeof(text), "%s target=%s", geometry, targets[i]);
        kiln__unit *unit = make(text);
        ck_assert_str_eq(unit->spec, text);
        ck_assert_str_eq(unit->target.name, targets[i]);
        size_t head = (size_t)(strstr(unit->source, catalog.prelude) - unit->source);
        ck_assert_ptr_null(memmem(unit->source, head, "target", 6));
        ck_assert_ptr_null(memmem(unit->source, head, "sm_", 3));
        if (first == NULL)
            first = kiln__strdup(unit->source);
        ck_assert_str_eq(unit->source, first);
        kiln__unit_free(unit);
    }
    kiln__free(first);
}
END_TEST

START_TEST(test_unit__differently_written_equal_specs_give_equal_units)
{
    static const char *const same[] = {
        "op=hardtanh(-1,0.1) dtype=f32 block=64 elems=4 vector=4 cache=plain target=sm_90",
        "target=sm_90 cache=plain vector=4 elems=4 block=64 dtype=f32 op=hardtanh(-1,0.1)",
        "template=elementwise op=hardtanh( x , hi = 0.10 ) block=0064 elems=04 cache=plain n=12345",
        "op=hardtanh(-1.0e0,0x1.999999999999ap-4)\ndtype=f32\tblock=64 elems=4 vector=4 cache=plain",
    };
    kiln__unit *first = make(same[0]);
    for (int i = 0; i < COUNT(same); i++) {
        kiln__unit *unit = make(same[i]);
        ck_assert_str_eq(unit->spec, same[0]);
        ck_assert_str_eq(unit->source, first->source);
        ck_assert_mem_eq(&unit->rule, &first->rule, sizeof(unit->rule));
        kiln__unit_free(unit);
    }
    kiln__unit_free(first);
}
END_TEST

START_TEST(test_unit__different_specs_give_different_source)
{
    static const char *const other[] = {
        "op=hardtanh(-1,1) dtype=f32 block=64 elems=4 vector=4 cache=plain",
        "op=hardtanh(-1,2) dtype=f32 block=64 elems=4 vector=4 cache=plain",
        "op=hardtanh(-1,1) dtype=f16 block=64 elems=4 vector=4 cache=plain",
        "op=hardtanh(-1,1) dtype=f32 block=96 elems=4 vector=4 cache=plain",
        "op=hardtanh(-1,1) dtype=f32 block=64 elems=8 vector=4 cache=plain",
        "op=hardtanh(-1,1) dtype=f32 block=64 elems=4 vector=2 cache=plain",
        "op=hardtanh(-1,1) dtype=f32 block=64 elems=4 vector=4 cache=stream",
        "op=hardtanh(-0,1) dtype=f32 block=64 elems=4 vector=4 cache=plain",
        "op=hardtanh(0,1) dtype=f32 block=64 elems=4 vector=4 cache=plain",
        "op=hardtanh(add(x,y),-1,1) dtype=f32 block=64 elems=4 vector=4 cache=plain",
        "op=hardtanh(-1,1) dtype=f32 math=fast block=64 elems=4 vector=4 cache=plain",
        "op=hardtanh(-1,1) dtype=f32 math=portable block=64 elems=4 vector=4 cache=plain",
    };
    kiln__unit *units[COUNT(other)];
    for (int i = 0; i < COUNT(other); i++) {
        units[i] = make(other[i]);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(strchr(units[i]->source, '\n'), strchr(units[j]->source, '\n'));
    }
    for (int i = 0; i < COUNT(other); i++)
        kiln__unit_free(units[i]);
}
END_TEST

static void drop_all(char *text, const char *word)
{
    for (char *at = text; (at = strstr(at, word)) != NULL;)
        memmove(at, at + strlen(word), strlen(at + strlen(word)) + 1);
}

/* A user's op of the text of one of Kiln's has its source but for the name, and so its speed. Cases of a row for some
 * dtypes are left out: a definition has none. */
START_TEST(test_unit__a_definition_of_an_ops_text_is_as_fast_as_the_op)
{
    static const char *const dtypes[] = { "i32", "f16", "f32" };
    char text[KILN__DEFINITION_MAX + 8];
    int compared = 0;
    for (uint32_t i = 0; i < catalog.ops.row_count; i++) {
        ck_assert_int_eq(kiln__op_load(&catalog.ops, i, NULL), KILN_OK);
        const kiln__op *op = kiln__op_at(&catalog.ops, i);
        if (op->case_count > 0)
            continue;
        snprintf(text, sizeof(text), "user_%s", op->definition);
        ck_assert_msg(kiln__op_define(&catalog.ops, text, NULL) == KILN_OK, "%s", text);
        const char *dtype = dtypes[op->real->integral ? 0 : compared % COUNT(dtypes)];
        snprintf(text, sizeof(text), "op=%s dtype=%s", op->name, dtype);
        kiln__unit *own = make(text);
        snprintf(text, sizeof(text), "op=user_%s dtype=%s", op->name, dtype);
        kiln__unit *users = make(text);
        char *source = kiln__strdup(users->source);
        drop_all(source, "user_");
        ck_assert_str_ne(own->source, users->source);
        ck_assert_str_eq(own->source, source);
        kiln__free(source);
        kiln__unit_free(own);
        kiln__unit_free(users);
        compared++;
    }
    ck_assert_int_ge(compared, 100);
}
END_TEST

START_TEST(test_unit__an_arithmetic_has_its_define_and_contracts_unless_portable)
{
    kiln__unit *torch = make("op=sigmoid"), *fast = make("op=sigmoid math=fast"), *none = make("op=tanh math=portable");
    ck_assert(torch->contracts && fast->contracts && !none->contracts);
    ck_assert_ptr_null(strstr(torch->source, "#define KILN_MATH"));
    ck_assert_ptr_nonnull(strstr(fast->source, "#define KILN_MATH_FAST 1\n"));
    ck_assert_ptr_nonnull(strstr(none->source, "#define KILN_MATH_PORTABLE 1\n"));
    kiln__unit_free(torch);
    kiln__unit_free(fast);
    kiln__unit_free(none);
}
END_TEST

START_TEST(test_unit__inputs_of_several_types_have_their_own)
{
    kiln__unit *mixed = make("op=fma(x,y,z) dtype=(i32,u8,f16)"), *plain = make("op=add dtype=f16");
    ck_assert_ptr_nonnull(strstr(mixed->source, "#define KILN_DTYPE_F16 1\n"));
    ck_assert_ptr_nonnull(strstr(mixed->source, "#define KILN_TYPED 1\n#define KILN_TYPE0 kiln_i32\n"));
    ck_assert_ptr_nonnull(
        strstr(mixed->source, "#define KILN_VALUE0(e) kiln_load(kiln_store((kiln_real)kiln_load_i32(e)))\n"));
    ck_assert_ptr_nonnull(strstr(mixed->source, "#define KILN_VALUE1(e) (kiln_real)kiln_load_u8(e)\n"));
    ck_assert(mixed->plan->args[1].bytes == 4 && mixed->plan->args[2].bytes == 1 && mixed->plan->args[3].bytes == 2);
    ck_assert_ptr_null(strstr(plain->source, "#define KILN_TYPED"));
    kiln__unit_free(mixed);
    kiln__unit_free(plain);
}
END_TEST

START_TEST(test_unit__outputs_and_scalars_are_parameters)
{
    kiln__unit *unit = make("op=(a,b)=(x*?k,x>y) dtype=f16");
    const kiln__plan *plan = unit->plan;
    ck_assert_ptr_nonnull(strstr(unit->source, "// op=(x*?s0,x>y) dtype=f16 block="));
    ck_assert_ptr_nonnull(strstr(unit->source, "#define KILN_OUTPUTS 2\n#define KILN_ALL_OUT(M) M(0) M(1)\n"));
    ck_assert_ptr_nonnull(strstr(unit->source, "#define KILN_RESULT1 kiln_bool\n"));
    ck_assert_ptr_nonnull(strstr(unit->source, "#define KILN_STORE0(v) kiln_store_f16(v)\n"));
    ck_assert_ptr_nonnull(
        strstr(unit->source, "kiln_value(kiln_real x, kiln_real y, kiln_real s0) { return kiln_mul(x, s0); }"));
    ck_assert_ptr_nonnull(strstr(unit->source, "kiln_value1(kiln_real x, kiln_real y, kiln_real s0) { return (x > y"));
    ck_assert(plan->outputs == 2 && plan->inputs == 2 && plan->scalars == 1 && plan->arg_count == 6);
    ck_assert_str_eq(plan->args[1].name, "out1"); /* kernels are shared, names are not */
    ck_assert_str_eq(plan->args[5].name, "s0");
    ck_assert(plan->args[0].bytes == 2 && plan->args[1].bytes == 1 && plan->args[5].bytes == 8);
    ck_assert(plan->flat && plan->elementwise);
    kiln__unit_free(unit);
}
END_TEST

START_TEST(test_unit__rule_says_how_to_launch)
{
    kiln__unit *unit = make("op=add dtype=f16 block=96 elems=24 vector=8 target=sm_90");
    const kiln__rule *rule = &unit->rule;
    const kiln__plan *plan = unit->plan;
    ck_assert(rule->block[0] == 96 && rule->block[1] == 1 && rule->block[2] == 1);
    ck_assert(plan->flat && plan->elementwise && plan->size_count == 1 && plan->arg_count == 4);
    ck_assert_str_eq(plan->args[0].name, "out");
    ck_assert_str_eq(plan->args[2].name, "y");
    ck_assert(plan->args[0].bytes == 2 && plan->args[2].bytes == 2 && plan->args[3].bytes == 8);
    ck_assert_str_eq(kiln__plan_text(plan, plan->grid[0]), "(n + ((2304) - 1)) / (2304)");
    ck_assert_uint_eq(rule->tile, 96 * 24);
    ck_assert_uint_eq(rule->entry_count, 2);
    ck_assert_str_eq(rule->entries[0].name, "kiln_vector");
    ck_assert_uint_eq(rule->entries[0].align, 16);
    ck_assert_str_eq(rule->entries[1].name, "kiln_scalar");
    ck_assert_uint_eq(rule->entries[1].align, 1);
    kiln__unit_free(unit);
}
END_TEST

#define TOY                          \
    "//! template toy\n"             \
    "//! inputs 1..3\n"              \
    "//! param block 1..1024 = 64\n" \
    "//! param loop_kind once,twice = twice\n" DECLARED_OP "//! entry go align "

static const struct {
    const char *text, *spec, *problem;
} impossible[] = {
    { TOY "bytes\n//! tile block\n", "op=add target=cpu",
      "template toy has no cpu twin: give a GPU target, such as target=sm_90" },
    { TOY "bytes\n//! tile block - 64\n", "op=add", "template toy: a tile of 0 elements is too small" },
    { TOY "bytes * 3\n//! tile block\n", "op=add",
      "template toy: entry go is to be aligned to 12 bytes, which is not a power of two" },
    { TOY "0\n//! tile block\n", "op=add",
      "template toy: entry go is to be aligned to 0 bytes, which is not a power of two" },
    { TOY "bytes\n//! tile block / (inputs - 2)\n", "op=add",
      "template toy: formula 'block / (inputs - 2)': division by zero" },
};

/* A catalog of one template that is not the library's. */
static void open_toy(kiln__catalog *toy, const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__template *template;
    *toy = catalog;
    ck_assert_msg(kiln__template_read(&template, text, NULL, NULL, false, &report) == KILN_OK, "%s", report.message);
    toy->own_count = 0;
    toy->template_count = 1;
    toy->templates[0] = template;
    toy->usual = template;
}

START_TEST(test_unit__what_a_template_cannot_do_is_said)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__catalog toy;
    kiln__fields spec;
    kiln__unit *unit = (kiln__unit *)&report;
    open_toy(&toy, impossible[_i].text);
    resolve(&spec, &toy, impossible[_i].spec);
    ck_assert_int_eq(kiln__unit_make(&unit, &spec, &report), KILN_ESPEC);
    ck_assert_ptr_null(unit);
    ck_assert_str_eq(report.message, impossible[_i].problem);
    kiln__template_free(toy.templates[0]);
}
END_TEST

START_TEST(test_unit__enumerations_are_numbered)
{
    kiln__catalog toy;
    kiln__fields spec;
    kiln__unit *unit;
    open_toy(&toy, TOY "bytes\n//! tile block\nbody\n");
    resolve(&spec, &toy, "op=copy");
    ck_assert_int_eq(kiln__unit_make(&unit, &spec, NULL), KILN_OK);
    expect_next(unit->source, "\n#define KILN_BLOCK 64\n#define KILN_LOOP_KIND_ONCE 0\n#define KILN_LOOP_KIND_TWICE 1\n"
                              "#define KILN_LOOP_KIND 1\n#define KILN_TILE 64\n\n");
    ck_assert_str_eq(unit->spec, "op=copy dtype=f32 block=64 loop_kind=twice target=sm_90");
    kiln__unit_free(unit);
    kiln__template_free(toy.templates[0]);
}
END_TEST

/* Makes a locale with a decimal comma from the system's sources where none is installed. */
static bool use_decimal_comma(void)
{
    char command[PATH_MAX + 100];
    if (setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8"))
        return true;
    snprintf(command, sizeof(command), "localedef -i de_DE -f UTF-8 %s >/dev/null 2>&1",
             kiln_test_temp_path("de_DE.UTF-8"));
    if (system(command) != 0)
        return false;
    setenv("LOCPATH", kiln_test_temp_dir(), 1);
    return setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
}

START_TEST(test_unit__locale_of_the_host_does_not_matter)
{
    static const char *const text = "op=hardsigmoid_linear(0.1,1.5e-7) dtype=f32 block=1024 elems=4 vector=4";
    kiln__unit *before = make(text);
    if (!use_decimal_comma()) {
        puts("skipped: test_unit__locale_of_the_host_does_not_matter (no locale with a decimal comma)");
    } else {
        char number[8];
        snprintf(number, sizeof(number), "%.1f", 0.5);
        ck_assert_str_eq(number, "0,5");
        kiln__unit *after = make(text);
        ck_assert_str_eq(after->spec, before->spec);
        ck_assert_str_eq(after->source, before->source);
        kiln__unit_free(after);
    }
    kiln__unit_free(before);
}
END_TEST

static int allocations_left;

static int allow_some(void)
{
    return allocations_left-- <= 0;
}

static void check_allocations(const char *text, bool options)
{
    kiln_status status = KILN_ENOMEM;
    kiln__fields spec;
    int attempts = 0;
    resolve(&spec, &catalog, text);
    for (; status == KILN_ENOMEM; attempts++) {
        kiln__unit *unit;
        allocations_left = attempts;
        kiln__alloc_set_hook(allow_some);
        status = kiln__unit_make(&unit, &spec, NULL);
        kiln__alloc_set_hook(NULL);
        ck_assert((status == KILN_OK) == (unit != NULL));
        ck_assert(status != KILN_OK || (unit->options.count > 0) == options);
        kiln__unit_free(unit);
    }
    ck_assert_int_eq(status, KILN_OK);
    ck_assert_int_gt(attempts, 5);
}

static void define_own(void)
{
    static const char text[] = "//! template own\n//! arg x in f32[1]\n//! grid 1\n//! block 32\n"
                               "//! option -std=c++20 -fmad=true\n//! entry go align 4\n\n#  include <a.h>\n";
    const kiln__template *out;
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_msg(kiln__catalog_define(&catalog, text, "int x;\n", "/there/own.cu", &out, &report) == KILN_OK, "%s",
                  report.message);
}

START_TEST(test_unit__every_failed_allocation_is_reported)
{
    define_own();
    check_allocations("op=hardtanh(add(x,y),-1,1) dtype=f16", false);
    check_allocations("template=own", true);
    check_allocations("template=own target=cpu", false);
}
END_TEST

/* The compilers' messages name the file, and the key does not. */
START_TEST(test_unit__users_templates_have_their_lines)
{
    define_own();
    kiln__unit *gpu = make("template=own"), *cpu = make("template=own target=cpu");
    ck_assert_ptr_nonnull(strstr(gpu->source, " bytes\n#line 4 \"kiln\"\n#define KILN_UNIT"));
    ck_assert_ptr_nonnull(strstr(gpu->source, "#line 7 \"own.cu\"\n\n#  include <a.h>\n"));
    ck_assert_ptr_nonnull(strstr(cpu->source, "#line 1 \"own.c\"\nint x;\n"));
    ck_assert(strstr(gpu->source, "there") == NULL && strstr(cpu->source, "there") == NULL);
    ck_assert_str_eq(gpu->shown, "/there/own.cu");
    ck_assert_str_eq(cpu->shown, "/there/own.c");
    ck_assert_str_eq(cpu->folder, "/there");
    ck_assert(gpu->includes && gpu->as_source && !cpu->includes && !cpu->as_source);
    kiln__unit_free(gpu);
    kiln__unit_free(cpu);
}
END_TEST

Suite *kiln_test_spec_unit_suite(void)
{
    Suite *suite = suite_create("unit");
    TCase *tcase = tcase_create("unit");
    tcase_set_timeout(tcase, 60);
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, test_unit__source_is_assembled_in_order, 0, COUNT(golden));
    tcase_add_test(tcase, test_unit__target_is_no_part_of_the_source);
    tcase_add_test(tcase, test_unit__differently_written_equal_specs_give_equal_units);
    tcase_add_test(tcase, test_unit__different_specs_give_different_source);
    tcase_add_test(tcase, test_unit__a_definition_of_an_ops_text_is_as_fast_as_the_op);
    tcase_add_test(tcase, test_unit__an_arithmetic_has_its_define_and_contracts_unless_portable);
    tcase_add_test(tcase, test_unit__inputs_of_several_types_have_their_own);
    tcase_add_test(tcase, test_unit__outputs_and_scalars_are_parameters);
    tcase_add_test(tcase, test_unit__rule_says_how_to_launch);
    tcase_add_loop_test(tcase, test_unit__what_a_template_cannot_do_is_said, 0, COUNT(impossible));
    tcase_add_test(tcase, test_unit__enumerations_are_numbered);
    tcase_add_test(tcase, test_unit__locale_of_the_host_does_not_matter);
    tcase_add_test(tcase, test_unit__every_failed_allocation_is_reported);
    tcase_add_test(tcase, test_unit__users_templates_have_their_lines);
    suite_add_tcase(suite, tcase);
    return suite;
}
