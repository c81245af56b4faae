/* Templates of users' own in the catalogue: what is taken, what is refused and why, and the specs and units of them. */
#include "base/alloc.h"
#include "spec/unit.h"
#include "support/declared.h"
#include "support/fields.h"
#include "support/suites.h"
#include <stdio.h>
#include <string.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))

#define LINES                                                                                         \
    "//! about  doubles\n"                                                                            \
    "//! dtype  f64, f32\n"                                                                           \
    "//! reference add(x,x)\n"                                                                        \
    "//! param  block 32..1024 step 32 = 256\n"                                                       \
    "//! param  elems 1..8 = 2\n"                                                                     \
    "//! require block * elems <= 2048 -- the tile is too large\n"                                    \
    "//! tile   block * elems\n"                                                                      \
    "//! entry  twice align bytes\n" DECLARED_X "#ifndef KILN_UNIT\n#define KILN_BLOCK 256\n#endif\n" \
    "extern \"C\" __global__ void twice(double *out, const double *x, unsigned long long n);\n"

static const char twice[] = "//! template twice\n" LINES;

static kiln__catalog catalog;
static kiln__target sm_90, cpu;

static void open_catalog(void)
{
    ck_assert_int_eq(kiln__catalog_init(&catalog, NULL), KILN_OK);
    ck_assert(kiln__target_parse("sm_90", 5, &sm_90) && kiln__target_parse("cpu", 3, &cpu));
}

static void close_catalog(void)
{
    kiln__catalog_fini(&catalog);
}

static const kiln__template *define(const char *text, const char *cpu_text)
{
    kiln_report report = KILN_INIT(kiln_report);
    const kiln__template *out;
    ck_assert_msg(kiln__catalog_define(&catalog, text, cpu_text, "/there/twice.cu", &out, &report) == KILN_OK, "%s",
                  report.message);
    return out;
}

static void refuse(const char *text, const char *cpu_text, const char *message)
{
    kiln_report report = KILN_INIT(kiln_report);
    const kiln__template *out = (const kiln__template *)text;
    uint32_t before = catalog.template_count;
    ck_assert_int_eq(kiln__catalog_define(&catalog, text, cpu_text, "/there/twice.cu", &out, &report), KILN_ESPEC);
    ck_assert_ptr_null(out);
    ck_assert_msg(strstr(report.message, message) != NULL, "%s", report.message);
    ck_assert_uint_eq(catalog.template_count, before);
}

START_TEST(test_own__equal_again_is_nothing_and_other_is_refused)
{
    const kiln__template *first = define(twice, NULL);
    ck_assert(first->origin != NULL && !kiln__template_takes_op(first) && first->text != twice);
    ck_assert_ptr_eq(define(twice, NULL), first);
    refuse(twice, "cpu", "template twice is defined already (/there/twice.cu), with another text");
    refuse("//! template twice\n" LINES "\n", NULL, "template twice is defined already");
    refuse("//! template elementwise\n" LINES, NULL,
           "template elementwise is one of Kiln's own: give yours another name");
    refuse("//! template bad\n//! inputs 1\n//! blok\n", NULL, "/there/twice.cu:3: unknown declaration 'blok'");
    refuse("nothing\n", NULL, "/there/twice.cu:1: the declaration 'template NAME' is missing");
    const kiln__template *found;
    ck_assert_int_eq(kiln__catalog_find(&catalog, (kiln__word){ "twice", 5 }, &found, NULL), KILN_OK);
    ck_assert_ptr_eq(found, first);
}
END_TEST

#define TWIN(body) "void kiln_cpu(T b, T e, void *const *args);\nvoid kiln_cpu(T b, T e, void *const *args)\n" body

/* The declared arguments of twice are out, x and n. */
START_TEST(test_own__a_twin_reads_no_argument_that_is_not_declared)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        { TWIN("{\n\n    f(args[0], args[3]);\n}\n"), "/there/twice.c:5: args[3] is argument 4, and the template "
                                                      "declares 3 (out, x, n): add an arg line" },
        { TWIN("{ { int i; } T n = *(T *)args [ 0x1Fu ]; }"), "/there/twice.c:3: args[31] is argument 32" },
        { TWIN("{\n#define LONG \\\n  1\n/* two\nlines */ args[4]; }"), "/there/twice.c:7: args[4]" },
        { "T kiln_cpu(T b, T e, void *const *p) /* { p[7] } */ { p[3]; }", "/there/twice.c:1: p[3] is argument 4" },
    };
    static const char *const good[] = {
        TWIN("{ f(args[0], args[1], args[2]); }"),
        TWIN("{ /* args[3] */ g(\"args[3] \\\" args[3]\", '\"'); } // args[3]\n"),
        TWIN("{\n#if KILN_INPUTS > 1\n    f(args[3]);\n#endif\n}"),
        TWIN("{ f(args[i], s.args[3], s->args[3], args[3 + 0], args3[3], args[3l5]); }\nT g(T *args) { return args[3]; "
             "}"),
        "static T args[5] = { args[4] }; void other(T *args) { args[4]; }",
        TWIN("{ unclosed \"args[3]"),
        "void kiln_cpu(T b, T e, void *const *args",
        "void kiln_cpu(T b, T e, void *const *args) { /* unclosed args[3]",
        "void kiln_cpu() { args[3]; }",
        "kiln_cpu",
        "",
    };
    for (int i = 0; i < COUNT(bad); i++)
        refuse(twice, bad[i].text, bad[i].message);
    for (int i = 0; i < COUNT(good); i++) {
        char text[2048];
        snprintf(text, sizeof(text), "//! template good_%d\n" LINES, i);
        define(text, good[i]);
    }
}
END_TEST

START_TEST(test_own__references_are_checked)
{
    char text[2048];
    const char *place = strstr(twice, "add(x,x)");
    static const char *const references[][2] = {
        { "hardsigmod", "template twice, line 4: reference: unknown op 'hardsigmod'" },
        { "add(x,y)", "template twice reads 1 arrays, and its reference add(x,y) reads 2" },
        { "add(x,index)", "template twice: its reference takes no index" }
    };
    for (int i = 0; i < COUNT(references); i++) {
        kiln_report report = KILN_INIT(kiln_report);
        const kiln__template *out;
        snprintf(text, sizeof(text), "%.*s%s%s", (int)(place - twice), twice, references[i][0],
                 place + strlen("add(x,x)"));
        ck_assert_int_ne(kiln__catalog_define(&catalog, text, NULL, "defined", &out, &report), KILN_OK);
        ck_assert_msg(strstr(report.message, references[i][1]) != NULL, "%s", report.message);
    }
}
END_TEST

static const struct {
    const char *spec, *full; /* NULL: refused */
    const char *message;
} specs[] = {
    { "template=twice", "template=twice dtype=f64 block=256 elems=2 target=sm_90", NULL },
    { "template=twice dtype=f32 elems=4 n=7", "template=twice dtype=f32 block=256 elems=4 target=sm_90", NULL },
    { "elems=4 template=twice target=sm_80", "template=twice dtype=f64 block=256 elems=4 target=sm_80", NULL },
    { "template=twice op=relu6", NULL, "template twice declares no inputs and takes no op: leave op out" },
    { "op=relu6 template=twice", NULL, "template twice declares no inputs and takes no op: leave op out" },
    { "template=twice dtype=f16", NULL, "template twice takes no dtype=f16: f64, f32" },
    { "template=twice block=1024 elems=4", NULL,
      "block=1024 elems=4: the tile is too large; nearest: block=512 or elems=2" },
    { "template=twice block=1024", "template=twice dtype=f64 block=1024 elems=2 target=sm_90", NULL },
    { "template=twice vector=2", NULL, "unknown field 'vector'" },
    { "template=twise", NULL, "unknown template 'twise': did you mean twice?" },
};

START_TEST(test_own__specs)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__text text = { 0 };
    kiln__fields spec, full, again;
    define(twice, NULL);
    kiln_status status = kiln_test_fields(&spec, &catalog, specs[_i].spec, &report);
    if (status == KILN_OK)
        status = kiln__spec_resolve(&full, &spec, &sm_90, &report);
    if (specs[_i].full == NULL) {
        ck_assert_int_eq(status, KILN_ESPEC);
        ck_assert_msg(strstr(report.message, specs[_i].message) != NULL, "%s", report.message);
        return;
    }
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    kiln__spec_format(&full, false, &text);
    ck_assert_str_eq(kiln__text_string(&text), specs[_i].full);
    ck_assert_int_eq(kiln_test_fields(&again, &catalog, kiln__text_string(&text), NULL), KILN_OK);
    ck_assert_uint_eq(kiln__spec_inputs(&spec), 1);
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_own__switching_templates_checks_what_is_set)
{
    kiln__fields spec;
    define(twice, NULL);
    ck_assert_int_eq(kiln_test_fields(&spec, &catalog, "op=relu6", NULL), KILN_OK);
    ck_assert_int_eq(kiln_test_set(&spec, "template", "twice", NULL), KILN_ESPEC);
    ck_assert_int_eq(kiln_test_set(&spec, "op", "", NULL), KILN_OK);
    ck_assert_int_eq(kiln_test_set(&spec, "dtype", "bf16", NULL), KILN_OK);
    ck_assert_int_eq(kiln_test_set(&spec, "template", "twice", NULL), KILN_ESPEC);
    ck_assert_int_eq(kiln_test_set(&spec, "dtype", "f32", NULL), KILN_OK);
    ck_assert_int_eq(kiln_test_set(&spec, "template", "twice", NULL), KILN_OK);
    ck_assert_int_eq(kiln_test_set(&spec, "op", "relu6", NULL), KILN_ESPEC);
}
END_TEST

START_TEST(test_own__units_are_foreign_and_have_no_value)
{
    kiln__fields spec, full;
    kiln__unit *unit = NULL;
    kiln_report report = KILN_INIT(kiln_report);
    define(twice, NULL);
    ck_assert_int_eq(kiln_test_fields(&spec, &catalog, "template=twice", NULL), KILN_OK);
    ck_assert_int_eq(kiln__spec_resolve(&full, &spec, &sm_90, NULL), KILN_OK);
    ck_assert_int_eq(kiln__unit_make(&unit, &full, &report), KILN_OK);
    ck_assert(unit->foreign);
    ck_assert_ptr_null(strstr(unit->source, "kiln_value"));
    ck_assert_ptr_nonnull(strstr(unit->source, "#define KILN_INPUTS 1\n"));
    ck_assert_ptr_nonnull(strstr(unit->source, "#define KILN_ELEMS 2\n"));
    ck_assert_ptr_nonnull(strstr(unit->source, "__global__ void twice("));
    ck_assert_uint_eq(unit->rule.tile, 512);
    ck_assert_uint_eq(unit->rule.entries[0].align, 8);
    kiln__unit_free(unit);
    ck_assert_int_eq(kiln__spec_resolve(&full, &spec, &cpu, NULL), KILN_OK);
    ck_assert_int_eq(kiln__unit_make(&unit, &full, &report), KILN_ESPEC);
    ck_assert_msg(strstr(report.message, "template twice has no cpu twin") != NULL, "%s", report.message);
}
END_TEST

static const char moved[] = "//! template moved\n"
                            "//! size rows, cols\n"
                            "//! param tile 8,16,32 = 16\n"
                            "//! param height 1..64 = 4\n"
                            "//! arg out out dtype[cols, max(rows, tile)] -- text, with a comma\n"
                            "//! arg x in uint8[rows * cols + (tile % 5)]\n"
                            "//! arg half float\n"
                            "//! arg count int = rows * tile / bytes\n"
                            "//! grid (cols + tile - 1) / tile, rows\n"
                            "//! block tile, height, 2 -- threads\n"
                            "//! shared tile * bytes\n"
                            "//! entry moved align bytes\n";

static const char wide[] = "//! template wide\n//! param tile 8,16,32,64,128 = 32\n//! arg x in f32[1]\n//! grid 1\n"
                           "//! block (tile - 16) * 2\n//! shared tile * 2048\n//! entry go align 4\n";

static kiln_status resolve(kiln__fields *out, const char *text, kiln_report *report)
{
    kiln__fields spec;
    kiln_status status = kiln_test_fields(&spec, &catalog, text, report);
    return status == KILN_OK ? kiln__spec_resolve(out, &spec, &sm_90, report) : status;
}

START_TEST(test_own__plans_know_their_parameters)
{
    const uint64_t sizes[] = { 3, 40 };
    kiln_report report = KILN_INIT(kiln_report);
    kiln__fields full;
    kiln__unit *unit;
    uint64_t value;
    define(moved, NULL);
    ck_assert_msg(resolve(&full, "template=moved dtype=f64", &report) == KILN_OK, "%s", report.message);
    ck_assert_int_eq(kiln__unit_make(&unit, &full, &report), KILN_OK);
    const kiln__plan *plan = unit->plan;
    ck_assert_ptr_nonnull(plan);
    kiln__formula_values values;
    kiln__plan_calculate(plan, sizes, &values);
    ck_assert(plan->size_count == 2 && plan->arg_count == 4);
    ck_assert(plan->block[0] == 16 && plan->block[1] == 4 && plan->block[2] == 2 && plan->shared == 128);
    ck_assert_mem_eq(unit->rule.block, plan->block, sizeof(plan->block));
    ck_assert_uint_eq(unit->rule.shared, 128);
    ck_assert(plan->args[0].role == KILN__ARG_OUT && plan->args[0].type == KILN__DTYPE_F64 && plan->args[0].bytes == 8);
    ck_assert(plan->args[1].role == KILN__ARG_IN && plan->args[1].bytes == 1 && plan->args[1].dims == 1);
    ck_assert(plan->args[2].role == KILN__ARG_SCALAR && plan->args[2].type == KILN__DTYPE_F32);
    ck_assert(plan->args[3].role == KILN__ARG_FORMULA && plan->args[3].type == KILN__DTYPE_I32);
    ck_assert_int_eq(kiln__plan_elements(plan, 0, &values, &value, &report), KILN_OK);
    ck_assert_uint_eq(value, 40 * 16);
    ck_assert_int_eq(kiln__plan_elements(plan, 1, &values, &value, &report), KILN_OK);
    ck_assert_uint_eq(value, 121);
    ck_assert_int_eq(kiln__plan_value(plan, plan->args[3].formulas[0], &values, "count", &value, &report), KILN_OK);
    ck_assert_uint_eq(value, 6);
    ck_assert_int_eq(kiln__plan_value(plan, plan->grid[0], &values, "grid", &value, &report), KILN_OK);
    ck_assert_uint_eq(value, 3);
    ck_assert_int_eq(kiln__plan_value(plan, plan->grid[2], &values, "grid", &value, &report), KILN_OK);
    ck_assert_uint_eq(value, 1);
    const uint64_t huge[] = { UINT64_MAX, UINT64_MAX };
    kiln__plan_calculate(plan, huge, &values);
    ck_assert_int_eq(kiln__plan_elements(plan, 0, &values, &value, &report), KILN_EINVAL);
    ck_assert_int_eq(kiln__plan_elements(plan, 1, &values, &value, &report), KILN_EINVAL);
    ck_assert_msg(strstr(report.message, "overflow") != NULL, "%s", report.message);
    kiln__unit_free(unit);
    kiln_report_clear(&report);
}
END_TEST

START_TEST(test_own__blocks_are_bounded)
{
    static const char *const cases[][2] = {
        { "template=moved tile=32 height=64", "a block of 32 x 64 x 2 is more than 1024 threads" },
        { "template=wide tile=16", "block (tile - 16) * 2 is 0, which is not within 1..1024" },
    };
    define(moved, NULL);
    define(wide, NULL);
    for (int i = 0; i < COUNT(cases); i++) {
        kiln_report report = KILN_INIT(kiln_report);
        kiln__fields full;
        kiln__unit *unit;
        ck_assert_int_eq(resolve(&full, cases[i][0], &report), KILN_OK);
        ck_assert_int_eq(kiln__unit_make(&unit, &full, &report), KILN_ESPEC);
        ck_assert_ptr_null(unit);
        ck_assert_msg(strstr(report.message, cases[i][1]) != NULL, "%s", report.message);
    }
}
END_TEST

/* NULL: it fits. */
START_TEST(test_own__shared_memory_is_bounded_by_the_target)
{
    static const char *const cases[][2] = {
        { "template=wide tile=32 target=sm_75", NULL }, /* 64 KiB: all that there is */
        { "template=wide tile=64 target=sm_75", "tile=64: shared tile * 2048 is 131072 bytes, and a block has at most "
                                                "65536 on sm_75; nearest: tile=32" },
        { "template=wide tile=64 target=sm_86", "and a block has at most 101376 on sm_86" },
        { "template=wide tile=64 target=sm_90a", NULL },
        { "template=wide tile=128 target=sm_100", "a block has at most 232448 on sm_100; nearest: tile=64" },
        { "template=wide tile=128 target=cpu", NULL },
    };
    define(wide, NULL);
    for (int i = 0; i < COUNT(cases); i++) {
        kiln_report report = KILN_INIT(kiln_report);
        kiln__fields full;
        ck_assert_int_eq(resolve(&full, cases[i][0], &report), cases[i][1] != NULL ? KILN_ESPEC : KILN_OK);
        ck_assert_msg(cases[i][1] == NULL || strstr(report.message, cases[i][1]) != NULL, "%s", report.message);
    }
}
END_TEST

/* A default and a condition may ask how much there is. */
START_TEST(test_own__formulas_know_the_limit_of_shared_memory)
{
    static const struct {
        const char *target;
        int32_t limit;
    } cases[] = {
        { "sm_75", 65536 }, { "sm_80", 166912 }, { "sm_89", 101376 }, { "sm_90", 232448 }, { "sm_120", 101376 }
    };
    define("//! template roomy\n//! arg x in f32[1]\n//! grid 1\n//! block 32\n"
           "//! param bytes_used 1..300000 = min(shared_limit, 250000)\n//! entry go align 4\n",
           NULL);
    for (int i = 0; i < COUNT(cases); i++) {
        char text[64];
        kiln_report report = KILN_INIT(kiln_report);
        kiln__fields full;
        snprintf(text, sizeof(text), "template=roomy target=%s", cases[i].target);
        ck_assert_msg(resolve(&full, text, &report) == KILN_OK, "%s", report.message);
        ck_assert_int_eq(full.params[0], cases[i].limit);
    }
}
END_TEST

START_TEST(test_own__many_but_not_more)
{
    char text[2048];
    kiln_report report = KILN_INIT(kiln_report);
    const kiln__template *out;
    kiln_status status = KILN_OK;
    for (int i = 0; i < 2 * KILN__TEMPLATES_MAX && status == KILN_OK; i++) {
        snprintf(text, sizeof(text), "//! template t%d\n" LINES, i);
        status = kiln__catalog_define(&catalog, text, NULL, "defined", &out, &report);
    }
    ck_assert_int_eq(status, KILN_ESPEC);
    ck_assert_uint_eq(catalog.template_count, KILN__TEMPLATES_MAX);
    ck_assert_msg(strstr(report.message, "there are 256 templates") != NULL, "%s", report.message);
}
END_TEST

static int allocations_left;

static int allow_some(void)
{
    return allocations_left-- <= 0;
}

START_TEST(test_own__every_failed_allocation_is_reported)
{
    kiln_status status = KILN_ENOMEM;
    int attempts = 0;
    for (; status == KILN_ENOMEM; attempts++) {
        const kiln__template *out;
        allocations_left = attempts;
        kiln__alloc_set_hook(allow_some);
        status = kiln__catalog_define(&catalog, twice, "cpu", "/a/b.cu", &out, NULL);
        kiln__alloc_set_hook(NULL);
    }
    ck_assert_int_eq(status, KILN_OK);
    ck_assert_int_gt(attempts, 8);
}
END_TEST

Suite *kiln_test_spec_catalog_suite(void)
{
    Suite *suite = suite_create("own");
    TCase *tcase = tcase_create("own");
    tcase_add_checked_fixture(tcase, open_catalog, close_catalog);
    tcase_add_test(tcase, test_own__equal_again_is_nothing_and_other_is_refused);
    tcase_add_test(tcase, test_own__a_twin_reads_no_argument_that_is_not_declared);
    tcase_add_test(tcase, test_own__references_are_checked);
    tcase_add_loop_test(tcase, test_own__specs, 0, COUNT(specs));
    tcase_add_test(tcase, test_own__switching_templates_checks_what_is_set);
    tcase_add_test(tcase, test_own__units_are_foreign_and_have_no_value);
    tcase_add_test(tcase, test_own__plans_know_their_parameters);
    tcase_add_test(tcase, test_own__blocks_are_bounded);
    tcase_add_test(tcase, test_own__shared_memory_is_bounded_by_the_target);
    tcase_add_test(tcase, test_own__formulas_know_the_limit_of_shared_memory);
    tcase_add_test(tcase, test_own__many_but_not_more);
    tcase_add_test(tcase, test_own__every_failed_allocation_is_reported);
    suite_add_tcase(suite, tcase);
    return suite;
}
