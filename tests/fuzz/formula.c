/* Integer formulas of declarations. */
#include "lang/formula.h"
#include "base/text.h"
#include "fuzz/fuzz.h"

static bool look_up(const void *data, const char *name, size_t length, int64_t *value)
{
    static const struct {
        const char *name;
        int64_t value;
    } known[] = { { "block", 128 }, { "elems", 4 },        { "sm", 90 },
                  { "zero", 0 },    { "most", INT64_MAX }, { "least", INT64_MIN } };
    (void)data;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i].name) != length || memcmp(known[i].name, name, length) != 0)
            continue;
        *value = known[i].value;
        return true;
    }
    return false;
}

/* A formula with something neutral after it has the same value, unless it then nests too deep. */
static void require_value(const char *formula, const char *before, const char *after, int64_t expected)
{
    kiln__text text = { 0 };
    char problem[512] = "";
    int64_t value = 0;
    kiln__text_printf(&text, "%s%s%s", before, formula, after);
    bool good =
        kiln__formula_eval(kiln__text_string(&text), look_up, NULL, &value, problem, sizeof(problem)) == KILN_OK;
    FUZZ_REQUIRE(good || strstr(problem, "nest") != NULL || strstr(problem, "deep") != NULL, "%s: %s",
                 kiln__text_string(&text), problem);
    FUZZ_REQUIRE(!good || value == expected, "%s", kiln__text_string(&text));
    kiln__text_fini(&text);
}

static bool know_nothing(const void *data, const char *name, size_t length, int64_t *value)
{
    (void)data, (void)name, (void)length, (void)value;
    return false;
}

/* A formula that is compiled with its names as variables has the same value, or none for the same reason. */
static void require_compiled(const char *formula, bool good, int64_t expected, const char *why)
{
    static const char *const names[] = { "block", "elems", "sm", "zero", "most", "least" };
    static const int64_t numbers[] = { 128, 4, 90, 0, INT64_MAX, INT64_MIN };
    kiln__formulas formulas = { 0 };
    kiln__formula_values values;
    char problem[512] = "";
    uint32_t index;
    if (kiln__formulas_add(&formulas, formula, know_nothing, NULL, names, 6, &index, problem, sizeof(problem)) !=
        KILN_OK) {
        FUZZ_REQUIRE(!good || strstr(problem, "too many steps") != NULL, "%s: %s", formula, problem);
        return;
    }
    for (uint32_t i = 0; i < 6; i++)
        kiln__formulas_set(&values, i, numbers[i]);
    kiln__formulas_calculate(&formulas, &values);
    kiln__number_or value = kiln__formulas_value(&formulas, &values, index);
    FUZZ_REQUIRE(good == (value.missing == NULL) && (!good || value.value == expected), "%s", formula);
    FUZZ_REQUIRE(good || strstr(why, value.missing) != NULL, "%s: %s, not %s", formula, why, value.missing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *formula = fuzz_string(data, size);
    char problem[512] = "";
    int64_t value = 0;
    bool checks = kiln__formula_check(formula, look_up, NULL, problem, sizeof(problem)) == KILN_OK;
    FUZZ_REQUIRE(checks || problem[0] != '\0', "a refusal says why");
    problem[0] = '\0';
    bool good = kiln__formula_eval(formula, look_up, NULL, &value, problem, sizeof(problem)) == KILN_OK;
    FUZZ_REQUIRE(good || problem[0] != '\0', "a refusal says why");
    FUZZ_REQUIRE(!good || checks, "what has a value passes the check: %s", formula);
    kiln__word name;
    for (const char *at = formula; kiln__formula_next_name(&at, &name);)
        FUZZ_REQUIRE(kiln__text_is_identifier(name.text, name.length), "a name is an identifier");
    if (checks)
        require_compiled(formula, good, value, problem);
    if (good) {
        require_value(formula, "(", ")", value);
        require_value(formula, " ", " + 0", value);
        require_value(formula, "1 ? ", " : 0", value);
    }
    free(formula);
    return 0;
}
