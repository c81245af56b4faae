/* The text of Kiln's ops: rows of definitions, and lines of documentation beneath them. */
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "lang/op.h"

static void write_doc(kiln__text *out, const char *doc)
{
    for (size_t length; *doc != '\0'; doc += length + 1) {
        length = strcspn(doc, "\n");
        kiln__text_append(out, "  doc ");
        kiln__text_append_bytes(out, doc, length);
        kiln__text_append(out, "\n");
    }
}

/* The ops that can be read, as a text of the same form. */
static uint32_t write_table(const kiln__op_table *table, kiln__text *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        kiln_report report = KILN_INIT(kiln_report);
        kiln_status status = kiln__op_load(table, i, &report);
        FUZZ_REQUIRE(status == KILN_OK || (status == KILN_EOP && report.message[0] != '\0'), "a refusal says why");
        if (status != KILN_OK)
            continue;
        kiln__text_printf(out, "%s\n", kiln__op_at(table, i)->definition);
        write_doc(out, kiln__op_at(table, i)->notes[KILN__NOTE_DOC]);
        count++;
    }
    return count;
}

static void require_same(const kiln__op *op, const kiln__op_table *again)
{
    int index;
    kiln_report report = KILN_INIT(kiln_report);
    kiln__word name = { op->name, strlen(op->name) };
    FUZZ_REQUIRE(kiln__op_find(again, name, KILN__OPS_MAX, &index, &report) == KILN_OK && index >= 0, "%s: %s",
                 op->definition, report.message);
    const kiln__op *other = kiln__op_at(again, (uint32_t)index);
    FUZZ_REQUIRE(kiln__op_equal(op, other, again) &&
                     strcmp(op->notes[KILN__NOTE_DOC], other->notes[KILN__NOTE_DOC]) == 0,
                 "%s comes back", op->name);
    FUZZ_REQUIRE(op->inputs >= 1 && op->inputs <= KILN__INPUTS_MAX && op->params <= KILN__OP_ARGS_MAX,
                 "%s has arguments", op->name);
}

static void require_good(const kiln__op_table *table)
{
    kiln__text text = { 0 };
    kiln__op_table again;
    kiln_report report = KILN_INIT(kiln_report);
    uint32_t count = write_table(table, &text);
    FUZZ_REQUIRE(kiln__op_table_init(&again, kiln__text_string(&text), &report) == KILN_OK, "%s in:\n%s",
                 report.message, kiln__text_string(&text));
    FUZZ_REQUIRE(again.count == count, "as many ops come back");
    for (uint32_t i = 0; i < table->count; i++)
        if (kiln__op_at(table, i) != NULL)
            require_same(kiln__op_at(table, i), &again);
    kiln__op_table_fini(&again);
    kiln__text_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size);
    kiln__op_table table;
    kiln_report report = KILN_INIT(kiln_report);
    if (kiln__op_table_init(&table, text, &report) == KILN_OK) {
        require_good(&table);
        kiln__op_table_fini(&table);
    } else {
        FUZZ_REQUIRE(table.count == 0 && table.rows == NULL && report.message[0] != '\0', "a refusal says why");
    }
    free(text);
    return 0;
}
