/* Declarations of a template, and specs of the template that they declare. */
#include "base/alloc.h"
#include "base/number.h"
#include "fuzz/fuzz.h"
#include "spec/fields.h"
#include "support/fields.h"
#include <inttypes.h>

static kiln__catalog *catalog(void)
{
    static kiln__catalog only;
    if (only.template_count == 0)
        FUZZ_REQUIRE(kiln__catalog_init(&only, NULL) == KILN_OK, "the embedded templates are good");
    return &only;
}

static void require_value(const kiln__declared_param *param, int64_t value)
{
    char text[32], problem[512];
    int64_t read = -1;
    snprintf(text, sizeof(text), "%" PRId64, value);
    bool parses = kiln__param_parse(param, text, strlen(text), &read, problem, sizeof(problem));
    FUZZ_REQUIRE(parses == kiln__param_allows(param, value), "%s=%s: %s", param->name, text, parses ? "" : problem);
    FUZZ_REQUIRE(!parses || read == value, "%s=%s reads as %" PRId64, param->name, text, read);
    FUZZ_REQUIRE(parses || problem[0] != '\0', "a refusal says why");
}

static void require_param(const kiln__template *template, uint32_t index)
{
    const kiln__declared_param *param = &template->params[index];
    char problem[512];
    int64_t read;
    FUZZ_REQUIRE(kiln__template_param(template, param->name, strlen(param->name)) == (int)index, "%s is found",
                 param->name);
    for (uint32_t i = 0; param->is_enum && i < param->count; i++)
        FUZZ_REQUIRE(
            kiln__param_parse(param, param->words[i], strlen(param->words[i]), &read, problem, sizeof(problem)) &&
                read == (int64_t)i,
            "word %s of %s is found", param->words[i], param->name);
    if (param->is_enum)
        return;
    FUZZ_REQUIRE(kiln__param_allows(param, param->low), "%s allows its lowest value", param->name);
    FUZZ_REQUIRE(!kiln__param_allows(param, param->low - 1), "%s allows nothing below it", param->name);
    FUZZ_REQUIRE(param->high == INT64_MAX || !kiln__param_allows(param, param->high + 1),
                 "%s allows nothing above its highest value", param->name);
    for (uint32_t i = 0; param->is_list && i < param->count; i++)
        require_value(param, param->list[i]);
    const int64_t values[] = { param->low, param->high, param->low > 0 ? param->low - 1 : 0, 0, 1, 96, INT64_MAX };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        if (values[i] >= 0)
            require_value(param, values[i]);
}

static void require_tune(const kiln__template *template, const kiln__tune *tune)
{
    FUZZ_REQUIRE(tune->param < template->param_count && tune->count > 0, "something is worth trying");
    for (uint32_t i = 0; i < tune->count; i++)
        FUZZ_REQUIRE(kiln__param_allows(&template->params[tune->param], tune->values[i]), "what is tried is allowed");
}

/* A tolerance can be written and read back. */
static void require_tolerance(const kiln_tolerance *tolerance)
{
    kiln_tolerance again;
    char text[KILN__TOLERANCE_SIZE], problem[512];
    FUZZ_REQUIRE(kiln__tolerance_is_valid(tolerance), "bounds are finite and 0 or more");
    kiln__tolerance_format(text, tolerance);
    if (kiln__tolerance_is_exact(tolerance))
        return;
    FUZZ_REQUIRE(kiln__tolerance_parse(&again, kiln__word_of(text), problem, sizeof(problem)), "%s: %s", text, problem);
    FUZZ_REQUIRE(again.ulp == tolerance->ulp && again.relative == tolerance->relative &&
                     again.absolute == tolerance->absolute,
                 "'%s' is the tolerance", text);
}

/* Whatever the sizes are, a formula has a value or a reason why not. */
static void require_plan(const kiln__fields *full)
{
    static const uint64_t sizes[][KILN__SIZES_MAX] = { { 3, 5, 7, 11 },
                                                       { 0, 0, 0, 0 },
                                                       { UINT64_MAX, 1, UINT64_MAX, 2 } };
    kiln__plan *plan;
    kiln_report report = KILN_INIT(kiln_report);
    if (kiln__spec_plan(&plan, full, &report) != KILN_OK) {
        FUZZ_REQUIRE(plan == NULL && report.message[0] != '\0', "a refusal says why");
        return;
    }
    for (size_t i = 0; plan != NULL && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t value;
        kiln__formula_values values;
        kiln__plan_calculate(plan, sizes[i], &values);
        for (uint32_t j = 0; j < plan->arg_count; j++)
            kiln__plan_elements(plan, j, &values, &value, &report);
        for (int j = 0; j < 3; j++)
            kiln__plan_value(plan, plan->grid[j], &values, "grid", &value, &report);
        FUZZ_REQUIRE(plan->block[0] * plan->block[1] * plan->block[2] <= 1024 && plan->shared <= INT32_MAX,
                     "a block is bounded");
    }
    kiln__free(plan);
}

/* What the declarations allow can be written and read back. */
static void require_specs(kiln__template *template)
{
    static const char *const targets[] = { "sm_90", "sm_100", "cpu" };
    static const char *const ops[] = { "op=copy ", "op=add ", "op=hardtanh(add(x,mul(y,z))) " };
    kiln__catalog extended = *catalog();
    char line[512];
    const kiln__word name = { template->name, strlen(template->name) };
    const kiln__template *known;
    FUZZ_REQUIRE(kiln__catalog_find(&extended, name, &known, NULL) == KILN_OK, "a catalog that can be searched");
    if (known != NULL || name.length > 200)
        return;
    extended.templates[extended.template_count++] = template;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        kiln__fields spec, full, again;
        kiln__target target;
        kiln__text text = { 0 }, second = { 0 };
        kiln__target_parse(targets[i], strlen(targets[i]), &target);
        snprintf(line, sizeof(line), "%stemplate=%s", kiln__template_takes_op(template) ? ops[i] : "", template->name);
        if (kiln_test_fields(&spec, &extended, line, NULL) != KILN_OK ||
            kiln__spec_resolve(&full, &spec, &target, NULL) != KILN_OK)
            continue;
        require_plan(&full);
        kiln__spec_format(&full, false, &text);
        FUZZ_REQUIRE(kiln_test_fields(&again, &extended, kiln__text_string(&text), NULL) == KILN_OK,
                     "'%s' is read back", kiln__text_string(&text));
        kiln__spec_format(&again, false, &second);
        FUZZ_REQUIRE(strcmp(kiln__text_string(&text), kiln__text_string(&second)) == 0, "'%s' is canonical",
                     kiln__text_string(&text));
        kiln__text_fini(&text);
        kiln__text_fini(&second);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size);
    kiln__template *template;
    kiln_report report = KILN_INIT(kiln_report);
    if (kiln__template_read(&template, text, NULL, NULL, false, &report) == KILN_OK) {
        FUZZ_REQUIRE(template->arguments.arg_count > 0, "a kernel takes something");
        FUZZ_REQUIRE(!kiln__template_takes_op(template) ||
                         (template->min_inputs >= 1 && template->min_inputs <= template->max_inputs &&
                          template->max_inputs <= KILN__INPUTS_MAX),
                     "the inputs are a range");
        for (uint32_t i = 0; i < template->param_count; i++)
            require_param(template, i);
        for (uint32_t i = 0; i < template->tune_count; i++)
            require_tune(template, &template->tunes[i]);
        require_tolerance(&template->tolerance);
        require_specs(template);
        kiln__template_free(template);
    } else {
        FUZZ_REQUIRE(template == NULL && report.message[0] != '\0', "a refusal says why");
    }
    free(text);
    return 0;
}
