#include "lang/op.h"

#include "base/alloc.h"
#include "base/text.h"
#include "lang/define.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Rows */

typedef struct reader {
    kiln__op_table *out;
    uint32_t room, line;
    kiln_report *report;
} reader;

static kiln_status fail(const reader *r, const char *format, ...) KILN__PRINTF(2, 3);

static kiln_status fail(const reader *r, const char *format, ...)
{
    char what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return kiln__fail(r->report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "ops, line %u: %s", r->line, what);
}

static bool is_taken(const kiln__op_table *table, kiln__word name)
{
    for (uint32_t i = 0; i < table->row_count; i++)
        if (kiln__word_is(name, table->rows[i].name))
            return true;
    return false;
}

static kiln_status grow(reader *r)
{
    kiln__op_table *out = r->out;
    if (out->row_count < r->room)
        return KILN_OK;
    if (out->row_count == KILN__OPS_MAX)
        return fail(r, "there are more than %d ops", KILN__OPS_MAX);
    uint32_t room = r->room > 0 ? 2 * r->room : 16;
    kiln__op_row *rows = kiln__realloc(out->rows, room * sizeof(*rows));
    if (rows == NULL)
        return kiln__fail_memory(r->report, KILN__STAGE_SPEC);
    out->rows = rows;
    r->room = room;
    return KILN_OK;
}

/* "NAME(...) = ...": only the name is looked at now. */
static kiln_status add_row(reader *r, kiln__word line)
{
    const char *at = line.text;
    kiln__word name = kiln__word_take(&at);
    if (!kiln__word_is_name(name) || name.length >= KILN__OP_NAME_SIZE || is_taken(r->out, name))
        return fail(r, "'%s' cannot name an op: it is taken, or not of lower-case letters, digits and '_'",
                    kiln__word_quote(name).text);
    kiln_status status = grow(r);
    if (status != KILN_OK)
        return status;
    kiln__op_row *row = &r->out->rows[r->out->row_count++];
    *row = (kiln__op_row){ .line = r->line, .definition = line, .notes = { line.text + line.length, 0 } };
    memcpy(row->name, name.text, name.length);
    return KILN_OK;
}

/* An indented line belongs to the row above it. */
static kiln_status add_note(reader *r, kiln__word line)
{
    kiln__word rest = kiln__word_trim(line);
    kiln__word keyword = kiln__word_next(&rest);
    if (r->out->row_count == 0)
        return fail(r, "expected NAME(x) = EXPRESSION before '%s'", kiln__word_quote(kiln__word_trim(line)).text);
    if (!kiln__word_is(keyword, "doc"))
        return fail(r, "'%s' is no word about an op: doc", kiln__word_quote(keyword).text);
    kiln__word *notes = &r->out->rows[r->out->row_count - 1].notes;
    notes->length = (size_t)(line.text + line.length - notes->text);
    return KILN_OK;
}

static kiln_status read_rows(reader *r, const char *text)
{
    kiln_status status = KILN_OK;
    while (*text != '\0' && status == KILN_OK) {
        kiln__word line = { text, (size_t)(strchrnul(text, '\n') - text) };
        text += line.length + (text[line.length] == '\n');
        r->line++;
        bool blank = kiln__word_trim(line).length == 0;
        if (!blank && line.text[0] != '#')
            status = kiln__word_is_blank(line.text[0]) ? add_note(r, line) : add_row(r, kiln__word_trim(line));
    }
    return status;
}

kiln_status kiln__op_table_init(kiln__op_table *out, const char *text, kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    reader r = { .out = out, .report = report };
    kiln_status status = read_rows(&r, text);
    if (status == KILN_OK) {
        out->read = kiln__calloc(out->row_count > 0 ? out->row_count : 1, sizeof(*out->read));
        if (out->read == NULL)
            status = kiln__fail_memory(report, KILN__STAGE_SPEC);
    }
    if (status == KILN_OK)
        out->count = out->row_count;
    else
        kiln__op_table_fini(out);
    return status;
}

/* ---- Ops */

void kiln__op_free(kiln__op *op)
{
    if (op == NULL)
        return;
    kiln__free(op->name);
    kiln__free(op->signature);
    kiln__free(op->doc);
    kiln__free(op->text);
    for (uint32_t i = 0; i < op->params; i++)
        kiln__free(op->param_names[i]);
    kiln__free(op->definition);
    kiln__real_free(op->real);
    kiln__real_free(op->reference);
    kiln__free(op);
}

void kiln__op_table_fini(kiln__op_table *table)
{
    for (uint32_t i = 0; i < table->count; i++)
        kiln__op_free(kiln__op_at(table, i));
    kiln__free(table->rows);
    kiln__free(table->read);
    kiln__free(table->added);
    memset(table, 0, sizeof(*table));
}

/* The lines of documentation. */
static char *make_doc(kiln__word notes)
{
    kiln__text out = { 0 };
    while (notes.length > 0) {
        kiln__word line = kiln__word_cut(&notes, "\n");
        if (line.length == 0)
            continue;
        kiln__word_next(&line); /* "doc" */
        kiln__text_append_bytes(&out, line.text, line.length);
        kiln__text_append(&out, "\n");
    }
    return kiln__text_take(&out);
}

static kiln_status read_row(kiln__op **out, const kiln__op_table *table, uint32_t i, kiln_report *report)
{
    const kiln__op_row *row = &table->rows[i];
    char *definition = kiln__memdup(row->definition.text, row->definition.length);
    kiln_status status = definition != NULL ? kiln__op_read_row(out, table, i, definition, report)
                                            : kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln__free(definition);
    if (status != KILN_OK)
        return status;
    kiln__free((*out)->doc);
    (*out)->doc = make_doc(row->notes);
    if ((*out)->doc != NULL)
        return KILN_OK;
    kiln__op_free(*out);
    return kiln__fail_memory(report, KILN__STAGE_SPEC);
}

/* Threads that read a row at the same time make equal ops, of which the first stays. */
kiln_status kiln__op_load(const kiln__op_table *table, uint32_t i, kiln_report *report)
{
    kiln__op *op = NULL, *none = NULL;
    if (i >= table->row_count || kiln__op_at(table, i) != NULL)
        return KILN_OK;
    kiln_status status = read_row(&op, table, i, report);
    if (status == KILN_OK && !atomic_compare_exchange_strong(&table->read[i], &none, op))
        kiln__op_free(op);
    return status;
}

const char *kiln__op_name(const kiln__op_table *table, uint32_t i)
{
    if (i < table->row_count)
        return table->rows[i].name;
    return i < table->count ? kiln__op_at(table, i)->name : NULL;
}

kiln_status kiln__op_find(const kiln__op_table *table, kiln__word name, uint32_t limit, int *out, kiln_report *report)
{
    uint32_t count = table->count < limit ? table->count : limit;
    *out = -1;
    for (uint32_t i = 0; i < count; i++) {
        if (!kiln__word_is(name, kiln__op_name(table, i)))
            continue;
        kiln_status status = kiln__op_load(table, i, report);
        *out = status == KILN_OK ? (int)i : -1;
        return status;
    }
    return KILN_OK;
}

/* All that there may ever be room for, because readers hold no lock; memory that no op has come to yet is never
 * touched. */
static bool make_room(kiln__op_table *table)
{
    if (table->added == NULL)
        table->added = kiln__alloc((KILN__OPS_MAX - table->row_count) * sizeof(table->added[0]));
    return table->added != NULL;
}

kiln_status kiln__op_table_add(kiln__op_table *table, kiln__op *op, kiln_report *report)
{
    uint32_t count = table->count;
    if (count == KILN__OPS_MAX)
        return kiln__fail(report, KILN_EOP, KILN__STAGE_SPEC, 0, "there are %d ops, and no more can be defined",
                          KILN__OPS_MAX);
    if (!make_room(table))
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    table->added[count - table->row_count] = op;
    atomic_store_explicit(&table->count, count + 1, memory_order_release);
    return KILN_OK;
}
