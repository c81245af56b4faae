/* Definitions of ops: any text is refused with a reason, or makes an op that a compiler can take. */
#include "fuzz/fuzz.h"
#include "lang/real.h"
#include "spec/catalog.h"
#include <math.h>

static kiln__catalog *catalog(void)
{
    static kiln__catalog only;
    if (only.template_count == 0) {
        FUZZ_REQUIRE(kiln__catalog_init(&only, NULL) == KILN_OK, "the embedded templates are good");
        FUZZ_REQUIRE(kiln__op_define(&only.ops, "mine(x, y; p=2) = x + p * y", NULL) == KILN_OK, "an op");
    }
    return &only;
}

static void require_balance(const kiln__op *op)
{
    int depth = 0, deepest = 0;
    for (const char *c = op->text; *c != '\0'; c++) {
        depth += (*c == '(') - (*c == ')');
        deepest = depth > deepest ? depth : deepest;
        FUZZ_REQUIRE(depth >= 0 && ((*c >= ' ' && *c <= '~') || *c == '\n'), "the text of %s is C: %s", op->name,
                     op->text);
    }
    FUZZ_REQUIRE(depth == 0 && deepest < 200, "the parentheses of %s: %s", op->name, op->text);
    FUZZ_REQUIRE(strstr(op->text, "//") == NULL && strchr(op->text, '#') == NULL, "no comment and no macro: %s",
                 op->text);
}

/* No name becomes one in C that Kiln or a compiler has. */
static void require_names(const kiln__op *op)
{
    FUZZ_REQUIRE(strncmp(op->name, "kiln_", 5) != 0 && strstr(op->name, "__") == NULL, "the name of op %s", op->name);
    for (uint32_t i = 0; i < op->params; i++) {
        const char *name = op->param_names[i];
        FUZZ_REQUIRE(strncmp(name, "kiln_", 5) != 0 && strstr(name, "__") == NULL && name[strlen(name) - 1] != '_',
                     "the name of parameter %s", name);
    }
}

static void require_good(const kiln__op *op)
{
    const double inputs[KILN__INPUTS_MAX] = { -1.5, 3, 0, 7, -0.25, 1e30, INFINITY, 2 };
    kiln__op *again;
    kiln_report report = KILN_INIT(kiln_report);
    FUZZ_REQUIRE(op->inputs >= 1 && op->inputs <= KILN__INPUTS_MAX && op->params <= KILN__OP_ARGS_MAX,
                 "%s has arguments", op->name);
    FUZZ_REQUIRE(op->operations <= KILN__REAL_OPERATIONS_MAX, "%s is bounded", op->name);
    FUZZ_REQUIRE(strchr(op->definition, '\n') == NULL, "a definition is one line");
    require_balance(op);
    require_names(op);
    FUZZ_REQUIRE(kiln__op_read(&again, &catalog()->ops, op->definition, &report) == KILN_OK, "%s: %s", op->definition,
                 report.message);
    FUZZ_REQUIRE(kiln__op_equal(op, again, &catalog()->ops), "'%s' reads back", op->definition);
    kiln__op_free(again);
    const kiln__real *reference = op->reference != NULL ? op->reference : op->real;
    for (uint32_t i = 0; i < op->outputs; i++)
        kiln__real_value(reference, &catalog()->ops, &(kiln__real_numbers){ .inputs = inputs, .params = op->defaults },
                         i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size);
    kiln__op *op;
    kiln_report report = KILN_INIT(kiln_report);
    if (kiln__op_read(&op, &catalog()->ops, text, &report) == KILN_OK) {
        require_good(op);
        kiln__op_free(op);
    } else {
        FUZZ_REQUIRE(op == NULL && report.message[0] != '\0', "a refusal says why");
    }
    free(text);
    return 0;
}
