/* The table of ops: declarations in comments, functions between them. */
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "template/op.h"

/* Appends each line of `text` after `mark`. A reader drops one carriage return from the end of a line, so that lines which
 * end with one of their own need a second. */
static void write_lines(kiln__text *out, const char *mark, const char *text)
{
    for (size_t length; *text != '\0'; text += length + 1) {
        length = strcspn(text, "\n");
        kiln__text_append(out, mark);
        kiln__text_append_bytes(out, text, length);
        kiln__text_append(out, "\r\n");
    }
}

/* The table written as a text of the same form. */
static void write_table(const kiln__op_table *table, kiln__text *out)
{
    for (uint32_t i = 0; i < table->count; i++) {
        kiln__text_printf(out, "//! op %s\n", kiln__op_at(table, i)->signature);
        write_lines(out, "//! ", kiln__op_at(table, i)->doc);
        write_lines(out, "", kiln__op_at(table, i)->text);
    }
    kiln__text_append(out, "//! end\n");
}

static void require_same(const kiln__op *a, const kiln__op *b)
{
    FUZZ_REQUIRE(strcmp(a->name, b->name) == 0 && strcmp(a->signature, b->signature) == 0, "op %s comes back", a->name);
    FUZZ_REQUIRE(strcmp(a->doc, b->doc) == 0 && strcmp(a->text, b->text) == 0, "the texts of %s come back", a->name);
    FUZZ_REQUIRE(a->inputs == b->inputs && a->params == b->params, "the arguments of %s come back", a->name);
    for (uint32_t i = 0; i < a->params; i++)
        FUZZ_REQUIRE(strcmp(a->param_names[i], b->param_names[i]) == 0 &&
                         memcmp(&a->defaults[i], &b->defaults[i], sizeof(a->defaults[i])) == 0,
                     "parameter %s of %s comes back", a->param_names[i], a->name);
}

static void require_good(const kiln__op_table *table)
{
    kiln__text text = { 0 };
    kiln__op_table again;
    kiln_report report = KILN_REPORT_INIT;
    for (uint32_t i = 0; i < table->count; i++) {
        const kiln__op *op = kiln__op_at(table, i);
        FUZZ_REQUIRE(kiln__op_find(table, op->name, strlen(op->name)) == (int)i, "%s is found", op->name);
        FUZZ_REQUIRE(op->inputs >= 1 && op->inputs <= 3 && op->params <= KILN__OP_ARGS_MAX, "%s has arguments",
                     op->name);
    }
    write_table(table, &text);
    FUZZ_REQUIRE(kiln__op_table_init(&again, kiln__text_string(&text), &report) == KILN_OK, "%s in:\n%s",
                 report.message, kiln__text_string(&text));
    FUZZ_REQUIRE(again.count == table->count, "as many ops come back");
    for (uint32_t i = 0; i < table->count; i++)
        require_same(kiln__op_at(table, i), kiln__op_at(&again, i));
    kiln__op_table_fini(&again);
    kiln__text_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size);
    kiln__op_table table;
    kiln_report report = KILN_REPORT_INIT;
    if (kiln__op_table_init(&table, text, &report) == KILN_OK) {
        require_good(&table);
        kiln__op_table_fini(&table);
    } else {
        FUZZ_REQUIRE(table.count == 0 && table.added == NULL && report.message[0] != '\0', "a refusal says why");
    }
    free(text);
    return 0;
}
