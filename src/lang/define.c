#include "lang/define.h"

#include "base/alloc.h"
#include "base/fpenv.h"
#include "base/number.h"
#include <stdio.h>
#include <string.h>

enum { INPUTS_MAX = 3 };

typedef struct reader {
    kiln__op *op;
    kiln__real_scope scope;
    const char *text, *at;
    bool infers;   /* no signature says how many inputs there are */
    bool built_in; /* a row of Kiln's own, which may have the name of a function */
    kiln_report *report;
} reader;

#define FAIL(r, where, ...) kiln__real_fail(&(r)->scope, (where), (r)->report, __VA_ARGS__)

static kiln_status fail_memory(const reader *r)
{
    return kiln__fail_memory(r->report, KILN__STAGE_SPEC);
}

static void skip_blanks(reader *r)
{
    while (kiln__word_is_blank(*r->at))
        r->at++;
}

static bool take(reader *r, char c)
{
    skip_blanks(r);
    bool found = *r->at == c;
    r->at += found;
    return found;
}

static kiln__word take_name(reader *r)
{
    skip_blanks(r);
    return kiln__word_take(&r->at);
}

/* Up to where a list goes on or ends. */
static kiln__word take_until(reader *r, const char *ends)
{
    skip_blanks(r);
    kiln__word word = { r->at, strcspn(r->at, ends) };
    r->at += word.length;
    return kiln__word_trim(word);
}

static kiln_status expected(const reader *r, const char *what)
{
    if (*r->at == '\0')
        return FAIL(r, r->at, "expected %s at the end", what);
    return FAIL(r, r->at, "expected %s at '%s'", what, kiln__word_quote((kiln__word){ r->at, strlen(r->at) }).text);
}

static kiln_status read_inputs(reader *r)
{
    static const char *const names[] = { "x", "y", "z" };
    do {
        kiln__word name = take_name(r);
        if (r->op->inputs == INPUTS_MAX || !kiln__word_is(name, names[r->op->inputs]))
            return FAIL(r, name.text, "the inputs are x, or x, y, or x, y, z; parameters follow a ';': %s(x; %s=1)",
                        r->op->name, name.length > 0 ? kiln__word_quote(name).text : "p");
        r->op->inputs++;
    } while (take(r, ','));
    return KILN_OK;
}

/* In C an op is kiln_op_NAME and a parameter NAME_. Kiln's own names there begin with kiln_ or KILN_, those of
 * compilers with '_', or they have "__": no name that passes can become one of these. */
static kiln_status check_name(const reader *r, kiln__word name, bool is_param)
{
    static const char own[] = "kiln_";
    bool kept = name.length >= sizeof(own) - 1 && memcmp(name.text, own, sizeof(own) - 1) == 0;
    for (size_t i = 1; i < name.length; i++)
        kept = kept || (name.text[i] == '_' && name.text[i - 1] == '_');
    if (!kept && (!is_param || name.length == 0 || name.text[name.length - 1] != '_'))
        return KILN_OK;
    return FAIL(r, name.text, "'%s' cannot name %s: names that begin with kiln_, or have '__'%s, are for generated C",
                kiln__word_quote(name).text, is_param ? "a parameter" : "an op", is_param ? " or '_' at the end" : "");
}

static kiln_status read_param(reader *r)
{
    kiln__op *op = r->op;
    kiln__word name = take_name(r);
    bool taken = false;
    for (uint32_t i = 0; i < op->params; i++)
        taken = taken || kiln__word_is(name, op->param_names[i]);
    if (op->params == KILN__OP_ARGS_MAX)
        return FAIL(r, name.text, "an op has at most %d parameters", KILN__OP_ARGS_MAX);
    if (taken || !kiln__word_is_name(name) || name.length >= KILN__OP_NAME_SIZE || kiln__real_is_reserved(name))
        return FAIL(r, name.text,
                    "'%s' cannot name a parameter: it is taken, or not of lower-case letters, digits and '_'",
                    kiln__word_quote(name).text);
    kiln_status status = check_name(r, name, true);
    if (status != KILN_OK)
        return status;
    if (!take(r, '='))
        return expected(r, "'=' and a default");
    kiln__word value = take_until(r, ",)");
    if (!kiln__number_parse(value.text, value.length, &op->defaults[op->params]))
        return FAIL(r, value.text, "the default of %s must be a number, not '%s'", kiln__word_quote(name).text,
                    kiln__word_quote(value).text);
    op->param_names[op->params] = kiln__memdup(name.text, name.length);
    if (op->param_names[op->params] == NULL)
        return fail_memory(r);
    op->params++;
    return KILN_OK;
}

/* "swish_clip(x; lo=0, hi=6)", or a name alone, whose inputs are those that the expression has. */
static kiln_status read_signature(reader *r)
{
    kiln__word name = take_name(r);
    if (name.length == 0)
        return expected(r, "NAME(x) = EXPRESSION, with the name of an op");
    if (!kiln__word_is_name(name) || name.length >= KILN__OP_NAME_SIZE ||
        (r->built_in ? kiln__real_is_word(name) : kiln__real_is_reserved(name)))
        return FAIL(
            r, name.text,
            "'%s' cannot name an op: it means something else, or is not of at most %d lower-case letters, digits "
            "and '_'",
            kiln__word_quote(name).text, KILN__OP_NAME_SIZE - 1);
    kiln_status status = check_name(r, name, false);
    if (status != KILN_OK)
        return status;
    r->op->name = kiln__memdup(name.text, name.length);
    if (r->op->name == NULL)
        return fail_memory(r);
    r->scope.op = r->op->name;
    r->infers = !take(r, '(');
    status = r->infers ? KILN_OK : read_inputs(r);
    if (status != KILN_OK || r->infers)
        return status;
    if (take(r, ';'))
        do {
            status = read_param(r);
        } while (status == KILN_OK && take(r, ','));
    if (status == KILN_OK && !take(r, ')'))
        status = expected(r, "',' or ')'");
    return status;
}

static kiln_status read_formula(reader *r)
{
    kiln__op *op = r->op;
    r->scope.inputs = r->infers ? INPUTS_MAX : op->inputs;
    r->scope.params = op->params;
    r->scope.param_names = op->param_names;
    kiln_status status = kiln__real_parse(&op->real, &r->scope, &r->at, r->report);
    if (status != KILN_OK)
        return status;
    if (r->infers)
        op->inputs = op->real->inputs;
    if (op->inputs == 0)
        return FAIL(r, r->at, "the expression has no input: use x");
    op->operations = op->real->operations;
    r->scope.inputs = op->inputs;
    return KILN_OK;
}

/* "within 2 ulp", and what of: "of x * min(max(x + 3, 0), 6) / 6"; of the expression itself where nothing is said. */
static kiln_status read_bound(reader *r)
{
    kiln__op *op = r->op;
    const char *start = r->at;
    if (!kiln__word_is(take_name(r), "within")) {
        r->at = start;
        skip_blanks(r);
        return expected(r, "an operator or 'within'");
    }
    kiln__word number = take_until(r, " \t\r\n");
    if (!kiln__number_parse(number.text, number.length, &op->ulps) || !(op->ulps >= 0))
        return FAIL(r, number.text, "write within NUMBER ulp: '%s' is no such number", kiln__word_quote(number).text);
    kiln__word word = take_name(r);
    if (!kiln__word_is(word, "ulp"))
        return FAIL(r, word.text, "write within %s ulp of EXPRESSION", kiln__word_quote(number).text);
    op->bounded = true;
    skip_blanks(r);
    if (*r->at == '\0')
        return KILN_OK;
    word = take_name(r);
    if (!kiln__word_is(word, "of"))
        return FAIL(r, word.text, "expected 'of' and an expression, or nothing more");
    r->scope.reference = true;
    return kiln__real_parse(&op->reference, &r->scope, &r->at, r->report);
}

static kiln_status read_whole(reader *r)
{
    kiln_status status = read_signature(r);
    if (status == KILN_OK && !take(r, '='))
        status = expected(r, "'=' and an expression");
    if (status == KILN_OK)
        status = read_formula(r);
    skip_blanks(r);
    if (status == KILN_OK && *r->at != '\0')
        status = read_bound(r);
    skip_blanks(r);
    if (status == KILN_OK && *r->at != '\0')
        status = expected(r, "nothing more");
    return status;
}

/* ---- What is made of it */

static void append_arguments(const kiln__op *op, const char *type, const char *after, kiln__text *out)
{
    static const char *const inputs[] = { "x", "y", "z" };
    for (uint32_t i = 0; i < op->inputs; i++)
        kiln__text_printf(out, "%s%s%s", i > 0 ? ", " : "", type, inputs[i]);
    for (uint32_t i = 0; i < op->params && after != NULL; i++)
        kiln__text_printf(out, ", %s%s%s", type, op->param_names[i], after);
}

static char *make_signature(const kiln__op *op)
{
    kiln__text out = { 0 };
    kiln__text_printf(&out, "%s(", op->name);
    append_arguments(op, "", NULL, &out);
    for (uint32_t i = 0; i < op->params; i++) {
        char number[KILN__NUMBER_SIZE];
        kiln__number_format(number, op->defaults[i]);
        kiln__text_printf(&out, "%s%s=%s", i == 0 ? "; " : ", ", op->param_names[i], number);
    }
    kiln__text_append(&out, ")");
    return kiln__text_take(&out);
}

static char *make_text(const kiln__op *op, const kiln__op_table *table)
{
    kiln__text out = { 0 };
    kiln__text_printf(&out, "KILN_FN kiln_real kiln_op_%s(", op->name);
    append_arguments(op, "kiln_real ", "_", &out);
    kiln__text_append(&out, ")\n{\n    return ");
    kiln__real_emit(op->real, table, op->param_names, &out);
    kiln__text_append(&out, ";\n}\n");
    return kiln__text_take(&out);
}

/* On one line, each run of blanks one space. */
static char *make_definition(const char *text)
{
    kiln__text out = { 0 };
    kiln__word rest = kiln__word_trim((kiln__word){ text, strlen(text) });
    while (rest.length > 0) {
        kiln__word word = kiln__word_next(&rest);
        kiln__text_append(&out, out.length > 0 ? " " : "");
        kiln__text_append_bytes(&out, word.text, word.length);
    }
    return kiln__text_take(&out);
}

static char *make_doc(const kiln__op *op)
{
    kiln__text out = { 0 };
    kiln__text_printf(&out, "Defined by its user: %s\n", op->definition);
    return kiln__text_take(&out);
}

static kiln_status make_texts(reader *r)
{
    kiln__op *op = r->op;
    op->definition = make_definition(r->text);
    op->signature = make_signature(op);
    op->text = make_text(op, r->scope.ops);
    op->doc = op->definition != NULL ? make_doc(op) : NULL;
    return op->signature != NULL && op->text != NULL && op->doc != NULL ? KILN_OK : fail_memory(r);
}

static kiln_status read_definition(kiln__op **out, const kiln__op_table *table, uint32_t limit, bool built_in,
                                   const char *definition, kiln_report *report)
{
    *out = NULL;
    reader r = { .scope = { .ops = table, .op_limit = limit, .op = "definition", .text = definition },
                 .text = definition,
                 .at = definition,
                 .built_in = built_in,
                 .report = report };
    if (strlen(definition) > KILN__DEFINITION_MAX)
        return kiln__fail(report, KILN_EOP, KILN__STAGE_SPEC, 0,
                          "a definition has at most %d characters, this one has %zu", KILN__DEFINITION_MAX,
                          strlen(definition));
    r.op = kiln__calloc(1, sizeof(*r.op));
    if (r.op == NULL)
        return fail_memory(&r);
    kiln__fpenv host;
    kiln__fpenv_enter(&host); /* numbers become text, in the same way for every host */
    kiln_status status = read_whole(&r);
    if (status == KILN_OK)
        status = make_texts(&r);
    kiln__fpenv_leave(&host);
    if (status == KILN_OK)
        *out = r.op;
    else
        kiln__op_free(r.op);
    return status;
}

kiln_status kiln__op_read(kiln__op **out, const kiln__op_table *table, const char *definition, kiln_report *report)
{
    return read_definition(out, table, KILN__OPS_MAX, false, definition, report);
}

kiln_status kiln__op_read_row(kiln__op **out, const kiln__op_table *table, uint32_t row, const char *definition,
                              kiln_report *report)
{
    return read_definition(out, table, row, true, definition, report);
}

static bool equal_text(const kiln__real *a, const kiln__real *b, const kiln__op *op, const kiln__op_table *table)
{
    kiln__text one = { 0 }, other = { 0 };
    if (a == NULL || b == NULL)
        return a == b;
    kiln__real_emit(a, table, op->param_names, &one);
    kiln__real_emit(b, table, op->param_names, &other);
    bool equal = !one.failed && !other.failed && strcmp(kiln__text_string(&one), kiln__text_string(&other)) == 0;
    kiln__text_fini(&one);
    kiln__text_fini(&other);
    return equal;
}

bool kiln__op_equal(const kiln__op *a, const kiln__op *b, const kiln__op_table *table)
{
    return strcmp(a->signature, b->signature) == 0 && strcmp(a->text, b->text) == 0 && a->bounded == b->bounded &&
           a->ulps == b->ulps && equal_text(a->reference, b->reference, a, table);
}

kiln_status kiln__op_define(kiln__op_table *table, const char *definition, kiln_report *report)
{
    kiln__op *op;
    kiln_status status = kiln__op_read(&op, table, definition, report);
    if (status != KILN_OK)
        return status;
    int index;
    status = kiln__op_find(table, (kiln__word){ op->name, strlen(op->name) }, KILN__OPS_MAX, &index, report);
    const kiln__op *known = index >= 0 ? kiln__op_at(table, (uint32_t)index) : NULL;
    if (status == KILN_OK && known == NULL)
        status = kiln__op_table_add(table, op, report);
    else if (known != NULL && (uint32_t)index < table->row_count)
        status = kiln__fail(report, KILN_EOP, KILN__STAGE_SPEC, 0,
                            "op %s is one of Kiln's own: give yours another name", op->name);
    else if (known != NULL && !kiln__op_equal(known, op, table))
        status = kiln__fail(report, KILN_EOP, KILN__STAGE_SPEC, 0,
                            "op %s is defined already, and otherwise: '%.160s'; give this one another name", op->name,
                            known->definition);
    if (known != NULL || status != KILN_OK)
        kiln__op_free(op);
    return status;
}
