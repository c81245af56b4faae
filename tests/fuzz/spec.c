/* Specs: one line, lines of lists and ranges, the choice of open fields, and the unit that is made of them. */
#include "spec/spec.h"
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "spec/unit.h"
#include "support/declared.h"
#include "support/fields.h"

enum { LONGEST = 2048, COMMAS_MAX = 5, FIRST_SPECS = 4 };

static const kiln__catalog *catalog(void)
{
    static kiln__catalog only;
    const kiln__template *own;
    if (only.template_count > 0)
        return &only;
    FUZZ_REQUIRE(kiln__catalog_init(&only, NULL) == KILN_OK, "the embedded templates are good");
    FUZZ_REQUIRE(kiln__op_define(&only.ops, "mine(x, y; p=2) = x + p * y / sqrt(x)", NULL) == KILN_OK, "an op");
    FUZZ_REQUIRE(kiln__op_define(&only.ops, "pair(x, y; p=1) = (x + p * a, a) where a = x * y", NULL) == KILN_OK,
                 "an op");
    FUZZ_REQUIRE(kiln__catalog_define(&only,
                                      "//! template twice\n//! dtype f32, f64\n" DECLARED_X
                                      "//! param block 32..1024 step 32 = 64\n//! tile block\n//! entry go align 4\n",
                                      "int twin;\n", "defined", &own, NULL) == KILN_OK,
                 "a template");
    return &only;
}

static char *format(const kiln__fields *spec)
{
    kiln__text text = { 0 };
    kiln__spec_format(spec, true, &text);
    char *line = kiln__text_take(&text);
    FUZZ_REQUIRE(line != NULL, "out of memory");
    return line;
}

static void require_equal(const kiln__fields *a, const kiln__fields *b, const char *line)
{
    FUZZ_REQUIRE(a->template == b->template && a->dtype == b->dtype && a->op_set == b->op_set, "%s", line);
    FUZZ_REQUIRE(a->target_set == b->target_set && (!a->target_set || strcmp(a->target.name, b->target.name) == 0),
                 "the target of %s", line);
    FUZZ_REQUIRE(a->n_set == b->n_set && (!a->n_set || a->n == b->n), "n of %s", line);
    FUZZ_REQUIRE(!a->op_set || (a->op->count == b->op->count && a->op->inputs == b->op->inputs), "the op of %s", line);
    FUZZ_REQUIRE(a->op->whole == b->op->whole && a->op->wide == b->op->wide && a->op->outputs == b->op->outputs &&
                     a->op->scalars == b->op->scalars && a->op->indexed == b->op->indexed &&
                     (a->round == KILN__ROUND_EAGER) == (b->round == KILN__ROUND_EAGER),
                 "the kind of numbers of %s", line);
    FUZZ_REQUIRE(a->typed == b->typed && a->layout_count == b->layout_count && a->layout_dims == b->layout_dims,
                 "the lists of %s", line);
    for (uint32_t i = 0; i < KILN__INPUTS_MAX; i++)
        FUZZ_REQUIRE((i >= a->typed || a->inputs[i] == b->inputs[i]) &&
                         (i >= a->layout_count || a->layouts[i] == b->layouts[i]),
                     "input %u of %s", i, line);
    for (uint32_t i = 0; i < kiln__spec_outputs(a); i++)
        FUZZ_REQUIRE(kiln__spec_result(a, i) == kiln__spec_result(b, i), "the type of output %u of %s", i, line);
    for (uint32_t i = 0; i < a->template->param_count; i++)
        FUZZ_REQUIRE(a->param_set[i] == b->param_set[i] && (!a->param_set[i] || a->params[i] == b->params[i]),
                     "parameter %s of %s", a->template->params[i].name, line);
}

/* A spec that is made of the fields has their text, and so has one that nothing is changed of. */
static void require_frozen(const kiln__fields *fields, const char *line)
{
    kiln_spec *spec = kiln__spec_freeze(fields), *same = NULL;
    FUZZ_REQUIRE(spec != NULL && kiln__spec_with(&same, spec, "", NULL) == KILN_OK, "a spec of %s", line);
    FUZZ_REQUIRE(strcmp(spec->text, line) == 0 && strcmp(same->text, line) == 0, "'%s' becomes '%s'", line, spec->text);
    FUZZ_REQUIRE(spec->hash == same->hash && spec->length == same->length, "the hash of %s", line);
    kiln__spec_release(spec);
    kiln__spec_release(same);
}

/* The canonical text stands for the same spec, and every field can be read and set to what it is. */
static void require_canonical(const kiln__fields *spec)
{
    static const char *const fields[] = { "op", "template", "dtype", "out",    "layout", "target",
                                          "n",  "block",    "elems", "vector", "cache" };
    char *line = format(spec);
    kiln__fields again;
    kiln_report report = KILN_INIT(kiln_report);
    FUZZ_REQUIRE(kiln_test_fields(&again, spec->catalog, line, &report) == KILN_OK, "%s: %s", line, report.message);
    require_equal(spec, &again, line);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        kiln__text value = { 0 };
        if (kiln__spec_value(&again, fields[i], &value) == KILN_OK)
            FUZZ_REQUIRE(kiln_test_set(&again, fields[i], kiln__text_string(&value), &report) == KILN_OK, "%s=%s: %s",
                         fields[i], kiln__text_string(&value), report.message);
        kiln__text_fini(&value);
    }
    char *second = format(&again);
    FUZZ_REQUIRE(strcmp(line, second) == 0, "'%s' reads as '%s'", line, second);
    require_frozen(spec, line);
    kiln__free(line);
    kiln__free(second);
}

static void require_unit(const kiln__fields *spec)
{
    kiln__unit *unit;
    kiln_report report = KILN_INIT(kiln_report);
    FUZZ_REQUIRE(kiln__unit_make(&unit, spec, &report) == KILN_OK, "a resolved spec has a unit: %s", report.message);
    FUZZ_REQUIRE(strlen(unit->source) == unit->source_length && unit->rule.entry_count > 0 &&
                     (unit->rule.tile > 0 || spec->template->tile == NULL),
                 "the unit of %s is complete", unit->spec);
    kiln__unit_free(unit);
}

static void resolve(const kiln__fields *spec, const char *name, bool with_unit)
{
    kiln__target target;
    kiln__fields full;
    kiln_report report = KILN_INIT(kiln_report);
    FUZZ_REQUIRE(kiln__target_parse(name, strlen(name), &target), "a target");
    if (kiln__spec_resolve(&full, spec, &target, &report) != KILN_OK) {
        FUZZ_REQUIRE(report.message[0] != '\0', "a refusal says why");
        return;
    }
    require_canonical(&full);
    if (with_unit)
        require_unit(&full);
}

static int take_spec(void *data, const kiln_spec *spec)
{
    int *left = data;
    require_canonical(&spec->fields);
    return --*left <= 0;
}

/* All specs of a line are checked, which may take seconds: most inputs must not stand for many. */
static bool stands_for_few(const char *line)
{
    int commas = 0, ranges = 0;
    for (const char *at = line; *at != '\0'; at++) {
        commas += *at == ',';
        ranges += at[0] == '.' && at[1] == '.';
    }
    return commas <= COMMAS_MAX && ranges <= 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > LONGEST)
        return -1;
    char *line = fuzz_string(data, size);
    kiln__fields spec;
    kiln_report report = KILN_INIT(kiln_report);
    if (kiln_test_fields(&spec, catalog(), line, &report) == KILN_OK) {
        require_canonical(&spec);
        resolve(&spec, "sm_90", size % 4 == 0);
        resolve(&spec, "cpu", size % 4 == 1);
    } else {
        FUZZ_REQUIRE(report.message[0] != '\0', "a refusal says why");
    }
    int left = FIRST_SPECS;
    if (stands_for_few(line))
        kiln__spec_expand(catalog(), line, NULL, NULL, take_spec, &left, &report);
    kiln_report_clear(&report);
    free(line);
    return 0;
}
