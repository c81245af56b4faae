#include "template/op.h"
#include "base/alloc.h"
#include "base/number.h"
#include "base/text.h"
#include "lang/word.h"
#include "template/real.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MARK_LENGTH = 3, INPUTS_MAX = 3, OP_NAME_MAX = 40 };

static const char *const input_names[INPUTS_MAX] = { "x", "y", "z" };

typedef struct reader {
    kiln__op_table *out;
    const char *keyword, *prefix; /* of a declaration, and of the C function that follows it */
    kiln__op *op;                 /* the one being read, NULL before the first */
    kiln__text doc, text;
    uint32_t line;
    bool ended;
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

static kiln_status copy(const reader *r, char **out, kiln__word word)
{
    *out = kiln__memdup(word.text, word.length);
    return *out == NULL ? kiln__fail_memory(r->report, KILN__STAGE_SPEC) : KILN_OK;
}

/* Names that an expression reads as something else. */
static bool is_reserved(kiln__word name)
{
    static const char *const reserved[] = { "x", "y", "z", "inf", "nan" };
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (kiln__word_is(name, reserved[i]))
            return true;
    return false;
}

static kiln_status read_inputs(reader *r, kiln__word inputs)
{
    while (inputs.text != NULL) {
        kiln__word name = kiln__word_cut(&inputs, ",");
        uint32_t i = r->op->inputs;
        if (i == INPUTS_MAX || !kiln__word_is(name, input_names[i]))
            return fail(r, "the inputs of %s must be x, or x, y, or x, y, z", r->op->name);
        r->op->inputs++;
    }
    return KILN_OK;
}

static bool has_param(const kiln__op *op, kiln__word name)
{
    for (uint32_t i = 0; i < op->params; i++)
        if (kiln__word_is(name, op->param_names[i]))
            return true;
    return false;
}

static kiln_status read_params(reader *r, kiln__word params)
{
    while (params.text != NULL) {
        kiln__word value = kiln__word_cut(&params, ",");
        kiln__word name = kiln__word_cut(&value, "=");
        uint32_t i = r->op->params;
        if (i == KILN__OP_ARGS_MAX)
            return fail(r, "%s has more than %d params", r->op->name, KILN__OP_ARGS_MAX);
        if (!kiln__word_is_name(name) || is_reserved(name) || has_param(r->op, name))
            return fail(r, "'%s' cannot name a param of %s", kiln__word_quote(name).text, r->op->name);
        if (!kiln__number_parse(value.text, value.length, &r->op->defaults[i]))
            return fail(r, "the default of %s must be a number: %s=NUMBER", kiln__word_quote(name).text,
                        kiln__word_quote(name).text);
        kiln_status status = copy(r, &r->op->param_names[i], name);
        if (status != KILN_OK)
            return status;
        r->op->params++;
    }
    return KILN_OK;
}

static kiln_status add_op(reader *r)
{
    r->op = kiln__calloc(1, sizeof(*r->op));
    if (r->op == NULL)
        return kiln__fail_memory(r->report, KILN__STAGE_SPEC);
    kiln_status status = kiln__op_table_add(r->out, r->op, r->report);
    if (status != KILN_OK) {
        kiln__op_free(r->op);
        r->op = NULL;
    }
    return status;
}

/* "hardtanh(x; lo=-1, hi=1)" */
static kiln_status read_signature(reader *r, kiln__word signature)
{
    kiln__word inside = signature;
    kiln__word name = kiln__word_cut(&inside, "(");
    if (inside.length == 0 || inside.text[inside.length - 1] != ')')
        return fail(r, "write //! %s NAME(x; PARAM=DEFAULT)", r->keyword);
    if (!kiln__word_is_name(name) || name.length > OP_NAME_MAX || is_reserved(name) ||
        kiln__op_find(r->out, name.text, name.length) >= 0)
        return fail(r, "'%s' cannot name an op: it is taken, or not of lower-case letters, digits and '_'",
                    kiln__word_quote(name).text);
    inside.length--;
    kiln__word params = inside;
    kiln__word inputs = kiln__word_cut(&params, ";");
    kiln_status status = add_op(r);
    if (status == KILN_OK)
        status = copy(r, &r->op->name, name);
    if (status == KILN_OK)
        status = copy(r, &r->op->signature, signature);
    if (status == KILN_OK)
        status = read_inputs(r, inputs);
    return status == KILN_OK ? read_params(r, params) : status;
}

static kiln_status take_text(reader *r)
{
    while (r->text.length > 1 && r->text.data[r->text.length - 2] == '\n')
        r->text.data[--r->text.length] = '\0';
    r->op->doc = kiln__text_take(&r->doc);
    r->op->text = kiln__text_take(&r->text);
    return r->op->doc == NULL || r->op->text == NULL ? kiln__fail_memory(r->report, KILN__STAGE_SPEC) : KILN_OK;
}

static bool is_word_part(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Counts the calls of kiln_NAME(...) in an op's text; its own function is kiln_op_NAME, and types are no calls. */
static uint32_t count_calls(const char *text)
{
    static const char prefix[] = "kiln_", own[] = "kiln_op_";
    uint32_t count = 0;
    for (const char *at = strstr(text, prefix); at != NULL; at = strstr(at, prefix)) {
        const char *end = at;
        while (is_word_part(*end))
            end++;
        bool begins = at == text || !is_word_part(at[-1]);
        count += begins && *end == '(' && strncmp(at, own, strlen(own)) != 0;
        at = end;
    }
    return count;
}

static kiln_status finish_op(reader *r)
{
    char function[80];
    if (r->op == NULL)
        return KILN_OK;
    kiln_status status = take_text(r);
    if (status != KILN_OK)
        return status;
    snprintf(function, sizeof(function), "%s%s(", r->prefix, r->op->name);
    if (strstr(r->op->text, function) == NULL)
        return fail(r, "the %s before this line has no function %s...)", r->keyword, function);
    r->op->operations = count_calls(r->op->text);
    return KILN_OK;
}

static kiln_status read_declaration(reader *r, kiln__word line)
{
    kiln__word rest = kiln__word_trim(line);
    kiln__word keyword = kiln__word_next(&rest);
    bool is_op = kiln__word_is(keyword, r->keyword);
    if (!is_op && !(kiln__word_is(keyword, "end") && rest.length == 0)) {
        if (r->op == NULL)
            return fail(r, "expected '//! %s NAME(...)' before '%s'", r->keyword, kiln__word_quote(line).text);
        size_t indent = line.length > 0 && line.text[0] == ' ';
        kiln__text_append_bytes(&r->doc, line.text + indent, line.length - indent);
        kiln__text_append(&r->doc, "\n");
        return KILN_OK;
    }
    kiln_status status = finish_op(r);
    r->ended = !is_op;
    return is_op && status == KILN_OK ? read_signature(r, rest) : status;
}

static kiln_status read_lines(reader *r, const char *text)
{
    kiln_status status = KILN_OK;
    while (*text != '\0' && status == KILN_OK && !r->ended) {
        size_t length = strcspn(text, "\n");
        size_t visible = length > 0 && text[length - 1] == '\r' ? length - 1 : length;
        r->line++;
        if (strncmp(text, "//!", MARK_LENGTH) == 0) {
            status = read_declaration(r, (kiln__word){ text + MARK_LENGTH, visible - MARK_LENGTH });
        } else if (r->op != NULL) {
            kiln__text_append_bytes(&r->text, text, visible);
            kiln__text_append(&r->text, "\n");
        }
        text += length + (text[length] == '\n');
    }
    if (status == KILN_OK && !r->ended)
        return fail(r, "the last line '//! end' is missing");
    return status;
}

static kiln_status read_table(kiln__op_table *out, const char *text, const char *keyword, const char *prefix,
                              kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    reader r = { .out = out, .keyword = keyword, .prefix = prefix, .report = report };
    kiln_status status = read_lines(&r, text);
    kiln__text_fini(&r.doc);
    kiln__text_fini(&r.text);
    if (status != KILN_OK)
        kiln__op_table_fini(out);
    return status;
}

kiln_status kiln__op_table_init(kiln__op_table *out, const char *text, kiln_report *report)
{
    return read_table(out, text, "op", "kiln_op_", report);
}

kiln_status kiln__function_table_init(kiln__op_table *out, const char *text, kiln_report *report)
{
    return read_table(out, text, "function", "kiln_", report);
}

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
    uint32_t count = table->count;
    for (uint32_t i = table->constants; i < count; i++)
        kiln__op_free(kiln__op_at(table, i));
    kiln__free(table->added);
    memset(table, 0, sizeof(*table));
}

/* All that there may ever be room for, because readers hold no lock; memory that no op has come to yet is never touched. */
static bool make_room(kiln__op_table *table)
{
    if (table->added == NULL)
        table->added = kiln__alloc((KILN__OPS_MAX - table->constants) * sizeof(table->added[0]));
    return table->added != NULL;
}

void kiln__op_table_begin(kiln__op_table *out, kiln__op *constants, size_t count)
{
    *out = (kiln__op_table){ .first = constants, .constants = (uint32_t)count, .count = (uint32_t)count };
}

kiln_status kiln__op_table_add(kiln__op_table *table, kiln__op *op, kiln_report *report)
{
    uint32_t count = table->count;
    if (count == KILN__OPS_MAX)
        return kiln__fail(report, KILN_EOP, KILN__STAGE_SPEC, 0, "there are %d ops, and no more can be defined",
                          KILN__OPS_MAX);
    if (!make_room(table))
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    table->added[count - table->constants] = op;
    atomic_store_explicit(&table->count, count + 1, memory_order_release);
    return KILN_OK;
}

int kiln__op_find(const kiln__op_table *table, const char *name, size_t length)
{
    uint32_t count = table->count;
    for (uint32_t i = 0; i < count; i++)
        if (kiln__word_is((kiln__word){ name, length }, kiln__op_at(table, i)->name))
            return (int)i;
    return -1;
}
