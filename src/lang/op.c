/* The table of ops: rows, which are found at once and read at their first use, definitions, and C text for units. */
#include "lang/op.h"

#include "base/alloc.h"
#include "base/fpenv.h"
#include "base/number.h"
#include "lang/real.h"
#include "lang/reduction.h"
#include <stdio.h>

const char *const kiln__input_names[KILN__INPUTS_MAX] = { "x", "y", "z", "x4", "x5", "x6", "x7", "x8" };

/* ---- Rows */

typedef struct row_reader {
    kiln__op_table *out;
    uint32_t room, line;
    kiln_report *report;
} row_reader;

#define FAIL_ROW(r, format, ...) \
    kiln__fail((r)->report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "ops, line %u: " format, (r)->line, __VA_ARGS__)

static bool is_row(const kiln__op_table *table, kiln__word name)
{
    for (uint32_t i = 0; i < table->row_count; i++)
        if (kiln__word_is(name, table->rows[i].name))
            return true;
    return false;
}

static kiln_status grow_rows(row_reader *r)
{
    kiln__op_table *out = r->out;
    if (out->row_count < r->room)
        return KILN_OK;
    if (out->row_count == KILN__OPS_MAX)
        return FAIL_ROW(r, "there are more than %d ops", KILN__OPS_MAX);
    uint32_t room = r->room > 0 ? 2 * r->room : 16;
    kiln__op_row *rows = kiln__realloc(out->rows, room * sizeof(*rows));
    if (rows == NULL)
        return kiln__fail_memory(r->report, KILN__STAGE_SPEC);
    out->rows = rows;
    r->room = room;
    return KILN_OK;
}

/* "NAME(...) = ...": only the name is read now, so that a process reads just the ops that it uses. */
static kiln_status add_row(row_reader *r, kiln__word line)
{
    const char *at = line.text;
    kiln__word name = kiln__word_take(&at);
    if (!kiln__word_is_name(name) || name.length >= KILN__OP_NAME_SIZE || is_row(r->out, name))
        return FAIL_ROW(r, "'%s' cannot name an op: it is taken, or not of lower-case letters, digits and '_'",
                        kiln__word_quote(name).text);
    kiln_status status = grow_rows(r);
    if (status != KILN_OK)
        return status;
    kiln__op_row *row = &r->out->rows[r->out->row_count++];
    *row = (kiln__op_row){ .definition = line, .notes = { line.text + line.length, 0 } };
    memcpy(row->name, name.text, name.length);
    return KILN_OK;
}

/* The first words of indented lines: notes by their number, and another expression. */
static const char *const keywords[] = {
    [KILN__NOTE_DOC] = "doc", [KILN__NOTE_NAN] = "nan", [KILN__NOTE_ELSEWHERE] = "elsewhere", [KILN__NOTES] = "in"
};

enum { KEYWORDS = sizeof(keywords) / sizeof(keywords[0]) };

static const char *keyword_at(const void *data, size_t i)
{
    (void)data;
    return i < KEYWORDS ? keywords[i] : NULL;
}

/* KEYWORDS if it is none. */
static int find_keyword(kiln__word word)
{
    int i = 0;
    while (i < KEYWORDS && !kiln__word_is(word, keywords[i]))
        i++;
    return i;
}

/* An indented line belongs to the row above it. */
static kiln_status add_note(row_reader *r, kiln__word line)
{
    kiln__word rest = kiln__word_trim(line);
    kiln__word keyword = kiln__word_next(&rest);
    if (r->out->row_count == 0)
        return FAIL_ROW(r, "expected NAME(x) = EXPRESSION before '%s'", kiln__word_quote(kiln__word_trim(line)).text);
    if (find_keyword(keyword) == KEYWORDS)
        return FAIL_ROW(r, "'%s' is no word about an op: %s", kiln__word_quote(keyword).text,
                        kiln__word_choices(keyword_at, NULL).text);
    kiln__word *notes = &r->out->rows[r->out->row_count - 1].notes;
    notes->length = (size_t)(line.text + line.length - notes->text);
    return KILN_OK;
}

/* Whether the definition of the last row is not at its end. */
static bool goes_on(const kiln__op_table *table)
{
    static const char where[] = " where";
    if (table->row_count == 0)
        return false;
    kiln__word definition = table->rows[table->row_count - 1].definition;
    const char *end = definition.text + definition.length;
    return end[-1] == ',' ||
           (definition.length > strlen(where) && memcmp(end - strlen(where), where, strlen(where)) == 0);
}

static kiln_status extend_row(row_reader *r, kiln__word line)
{
    kiln__op_row *row = &r->out->rows[r->out->row_count - 1];
    row->definition.length = (size_t)(line.text + line.length - row->definition.text);
    row->notes = (kiln__word){ line.text + line.length, 0 };
    return KILN_OK;
}

static kiln_status read_rows(row_reader *r, const char *text)
{
    kiln_status status = KILN_OK;
    while (*text != '\0' && status == KILN_OK) {
        kiln__word line = { text, (size_t)(strchrnul(text, '\n') - text) };
        text += line.length + (text[line.length] == '\n');
        r->line++;
        bool blank = kiln__word_trim(line).length == 0;
        if (!blank && line.text[0] != '#')
            status = !kiln__word_is_blank(line.text[0]) ? add_row(r, kiln__word_trim(line))
                     : goes_on(r->out)                  ? extend_row(r, kiln__word_trim(line))
                                                        : add_note(r, line);
    }
    return status;
}

/* ---- Definitions */

void kiln__op_free(kiln__op *op)
{
    if (op == NULL)
        return;
    kiln__free(op->name);
    kiln__free(op->signature);
    kiln__free(op->text);
    kiln__free(op->functions);
    kiln__free(op->fast_functions);
    for (int i = 0; i < KILN__NOTES; i++)
        kiln__free(op->notes[i]);
    for (uint32_t i = 0; i < op->inputs; i++)
        kiln__free(op->input_names[i]);
    for (uint32_t i = 0; i < op->params; i++)
        kiln__free(op->param_names[i]);
    for (uint32_t i = 0; i < op->case_count; i++) {
        kiln__free(op->cases[i].guard);
        kiln__free(op->cases[i].real);
    }
    kiln__free(op->definition);
    kiln__free(op->real);
    kiln__free(op->reference);
    kiln__free(op);
}

typedef struct reader {
    kiln__op *op;
    kiln__real_scope scope;
    const char *at;
    bool infers;             /* the inputs are those of the expression: there is no signature */
    const kiln__word *notes; /* of a row of Kiln's own, which may have the name of a function; else NULL */
    kiln_report *report;
} reader;

#define FAIL(r, where, ...) kiln__real_fail(&(r)->scope, (where), (r)->report, __VA_ARGS__)

static kiln_status fail_memory(const reader *r)
{
    return kiln__fail_memory(r->report, KILN__STAGE_SPEC);
}

static bool take(reader *r, char c)
{
    kiln__word_skip_blanks(&r->at);
    bool found = *r->at == c;
    r->at += found;
    return found;
}

static kiln__word take_name(reader *r)
{
    kiln__word_skip_blanks(&r->at);
    return kiln__word_take(&r->at);
}

/* Takes the text up to one of the characters `ends`. */
static kiln__word take_until(reader *r, const char *ends)
{
    kiln__word_skip_blanks(&r->at);
    kiln__word word = { r->at, strcspn(r->at, ends) };
    r->at += word.length;
    return kiln__word_trim(word);
}

static kiln_status expected(const reader *r, const char *what)
{
    if (*r->at == '\0')
        return FAIL(r, r->at, "expected %s at the end", what);
    return FAIL(r, r->at, "expected %s at '%s'", what, kiln__word_quote(kiln__word_of(r->at)).text);
}

bool kiln__op_is_letter(kiln__word name)
{
    for (uint32_t i = 0; i < KILN__LETTERS; i++)
        if (kiln__word_is(name, kiln__input_names[i]))
            return true;
    return false;
}

/* Whether an input or a parameter has the name, or no name can be like it. */
static bool is_taken(const reader *r, kiln__word name)
{
    const kiln__op *op = r->op;
    for (uint32_t i = 0; i < op->inputs; i++)
        if (kiln__word_is(name, op->input_names[i]))
            return true;
    for (uint32_t i = 0; i < op->params; i++)
        if (kiln__word_is(name, op->param_names[i]))
            return true;
    return !kiln__word_is_name(name) || name.length >= KILN__OP_NAME_SIZE;
}

static kiln_status keep_name(const reader *r, char **place, uint32_t *count, kiln__word name)
{
    *place = kiln__memdup(name.text, name.length);
    if (*place == NULL)
        return fail_memory(r);
    ++*count;
    return KILN_OK;
}

/* "x", or "column t". */
static kiln_status read_input(reader *r)
{
    kiln__op *op = r->op;
    kiln__word name = take_name(r);
    const char *const end = r->at;
    const kiln__word next = take_name(r);
    const bool is_column = kiln__word_is(name, "column") && next.length > 0;
    if (is_column)
        name = next;
    else
        r->at = end;
    if (op->inputs == KILN__INPUTS_MAX)
        return FAIL(r, name.text, "an op has at most %d inputs; parameters follow a ';': %s(x; %s=1)", KILN__INPUTS_MAX,
                    op->name, name.length > 0 ? kiln__word_quote(name).text : "p");
    if (is_taken(r, name) || (kiln__real_is_reserved(name, true) && !kiln__op_is_letter(name)))
        return FAIL(r, name.text,
                    "'%s' cannot name an input: it is taken, or not of lower-case letters, digits and '_'",
                    kiln__word_quote(name).text);
    if (is_column)
        op->columns |= 1u << op->inputs;
    return keep_name(r, &op->input_names[op->inputs], &op->inputs, name);
}

static kiln_status read_inputs(reader *r)
{
    kiln_status status;
    do {
        status = read_input(r);
    } while (status == KILN_OK && take(r, ','));
    return status;
}

/* In C an op is kiln_op_NAME and a parameter NAME_. Names of Kiln there begin with kiln_ or KILN_, names of compilers
 * with '_', or they have "__": a name that passes cannot become one of these. */
static kiln_status check_name(const reader *r, kiln__word name, bool is_param)
{
    bool kept = name.length >= 5 && memcmp(name.text, "kiln_", 5) == 0;
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
    if (op->params == KILN__OP_ARGS_MAX)
        return FAIL(r, name.text, "an op has at most %d parameters", KILN__OP_ARGS_MAX);
    if (is_taken(r, name) || kiln__real_is_reserved(name, true))
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
    return keep_name(r, &op->param_names[op->params], &op->params, name);
}

/* "swish_clip(x; lo=0, hi=6)", or a name alone: the inputs are those of the expression then. */
static kiln_status read_signature(reader *r)
{
    kiln__word name = take_name(r);
    if (name.length == 0)
        return expected(r, "NAME(x) = EXPRESSION, with the name of an op");
    if (!kiln__word_is_name(name) || name.length >= KILN__OP_NAME_SIZE ||
        kiln__real_is_reserved(name, r->notes == NULL) || kiln__reduction_find(name) < KILN__REDUCTIONS)
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
    r->scope.inputs = r->infers ? KILN__LETTERS : op->inputs;
    r->scope.input_names = r->infers ? kiln__input_names : (const char *const *)op->input_names;
    r->scope.params = op->params;
    r->scope.param_names = op->param_names;
    kiln_status status = kiln__real_parse(&op->real, &r->scope, &r->at, r->report);
    if (status == KILN_OK && r->infers && op->real->inputs == 0)
        return FAIL(r, r->at, "the expression has no input: use x");
    while (status == KILN_OK && op->inputs < op->real->inputs)
        status = keep_name(r, &op->input_names[op->inputs], &op->inputs, kiln__word_of(kiln__input_names[op->inputs]));
    if (status == KILN_OK) {
        op->columns |= op->real->columns;
        op->operations = op->real->operations;
        op->outputs = op->real->outputs;
    }
    r->scope.inputs = op->inputs;
    return status;
}

/* "f16,bf16" as a condition of the preprocessor. */
static kiln_status append_dtypes(const reader *r, kiln__word list, kiln__text *out)
{
    static const struct {
        const char *dtype, *guard;
    } guards[] = { { "f16", "defined(KILN_DTYPE_F16)" },
                   { "bf16", "defined(KILN_DTYPE_BF16)" },
                   { "f32", "defined(KILN_DTYPE_F32)" },
                   { "f64", "defined(KILN_DTYPE_F64)" },
                   { "integers", "defined(KILN_WHOLE)" } };
    enum { GUARDS = sizeof(guards) / sizeof(guards[0]) };
    kiln__text_append(out, "(");
    for (const char *link = ""; list.text != NULL; link = " || ") {
        kiln__word name = kiln__word_cut(&list, ",");
        size_t i = 0;
        while (i < GUARDS && !kiln__word_is(name, guards[i].dtype))
            i++;
        if (i == GUARDS)
            return FAIL(r, r->scope.text, "'%s' is no dtype of an op", kiln__word_quote(name).text);
        kiln__text_append(out, link);
        kiln__text_append(out, guards[i].guard);
    }
    kiln__text_append(out, ")");
    return KILN_OK;
}

/* "sm_90,sm_100" likewise: targets on which a cheaper expression was proved to have PyTorch's bits. */
static kiln_status append_targets(const reader *r, kiln__word list, kiln__text *out)
{
    const char *link = " && !defined(KILN_MATH_PORTABLE) && defined(__CUDA_ARCH__) && (";
    for (; list.text != NULL; link = " || ") {
        kiln__word name = kiln__word_cut(&list, ",");
        uint64_t sm = 0;
        bool good = name.length > 3 && memcmp(name.text, "sm_", 3) == 0 &&
                    kiln__number_parse_uint(name.text + 3, name.length - 3, &sm) && sm < 1000;
        if (!good)
            return FAIL(r, r->scope.text, "'%s' is no target of a GPU", kiln__word_quote(name).text);
        kiln__text_printf(out, "%s__CUDA_ARCH__ == %u", link, (unsigned)sm * 10);
    }
    kiln__text_append(out, ")");
    return KILN_OK;
}

/* "f16,bf16 on sm_90 = EXPRESSION", of a line beneath a row: the guard chooses it when a unit is compiled. */
static kiln_status read_case(reader *r, kiln__word line)
{
    kiln__op *op = r->op;
    kiln__word targets = kiln__word_cut(&line, "="), dtypes = kiln__word_cut(&targets, " on ");
    kiln__text guard = { 0 };
    char *body = kiln__memdup(line.text, line.text != NULL ? line.length : 0);
    const char *at = body;
    kiln_status status = body != NULL ? KILN_OK : fail_memory(r);
    r->scope.text = at;
    if (status == KILN_OK && op->case_count == KILN__OP_CASES_MAX)
        status = FAIL(r, at, "an op has at most %d lines of other dtypes", KILN__OP_CASES_MAX);
    if (status == KILN_OK)
        status = append_dtypes(r, dtypes, &guard);
    if (status == KILN_OK && targets.text != NULL)
        status = append_targets(r, targets, &guard);
    kiln__real *real = NULL;
    if (status == KILN_OK)
        status = kiln__real_parse(&real, &r->scope, &at, r->report);
    if (status == KILN_OK && *at != '\0')
        status = FAIL(r, at, "expected nothing more at '%s'", kiln__word_quote(kiln__word_of(at)).text);
    if (status == KILN_OK && real->outputs != op->outputs)
        status = FAIL(r, r->scope.text, "the op gives %u values, and here %u", op->outputs, real->outputs);
    if (status == KILN_OK && (kiln__real_is_expanded(op->real) || kiln__real_is_expanded(real)))
        status = FAIL(r, r->scope.text, "an op that reduces or has index has one expression for all dtypes");
    if (status == KILN_OK && guard.failed)
        status = fail_memory(r);
    if (status == KILN_OK)
        op->cases[op->case_count++] =
            (kiln__op_case){ kiln__text_take(&guard), kiln__word_is(dtypes, "integers"), real };
    else
        kiln__free(real);
    kiln__text_fini(&guard);
    kiln__free(body);
    return status;
}

static kiln_status read_cases(reader *r)
{
    kiln__word rest = r->notes != NULL ? *r->notes : (kiln__word){ NULL, 0 };
    kiln_status status = KILN_OK;
    while (rest.length > 0 && status == KILN_OK) {
        kiln__word line = kiln__word_cut(&rest, "\n");
        if (find_keyword(kiln__word_next(&line)) == KILN__NOTES)
            status = read_case(r, line);
    }
    return status;
}

/* "within 2 ulp of x * min(max(x + 3, 0), 6) / 6"; without "of", of the expression itself. */
static kiln_status read_bound(reader *r)
{
    kiln__op *op = r->op;
    const char *start = r->at;
    if (!kiln__word_is(take_name(r), "within")) {
        r->at = start;
        kiln__word_skip_blanks(&r->at);
        return expected(r, "an operator or 'within'");
    }
    kiln__word number = take_until(r, " \t\r\n");
    if (!kiln__number_parse(number.text, number.length, &op->ulps) || !(op->ulps >= 0))
        return FAIL(r, number.text, "write within NUMBER ulp: '%s' is no such number", kiln__word_quote(number).text);
    kiln__word word = take_name(r);
    if (!kiln__word_is(word, "ulp"))
        return FAIL(r, word.text, "write within %s ulp of EXPRESSION", kiln__word_quote(number).text);
    if (kiln__real_is_expanded(op->real))
        return FAIL(r, start, "a bound is for ops of one element: this one %s",
                    op->real->reductions > 0 ? "reduces" : "has index");
    op->bounded = true;
    kiln__word_skip_blanks(&r->at);
    if (*r->at == '\0')
        return KILN_OK;
    word = take_name(r);
    if (!kiln__word_is(word, "of"))
        return FAIL(r, word.text, "expected 'of' and an expression, or nothing more");
    kiln_status status = kiln__real_parse(&op->reference, &r->scope, &r->at, r->report);
    if (status == KILN_OK && op->reference->outputs != op->outputs)
        return FAIL(r, word.text, "the op gives %u values, and the reference %u", op->outputs, op->reference->outputs);
    if (status == KILN_OK && kiln__real_is_expanded(op->reference))
        return FAIL(r, word.text, "a reference is an expression of one element, without reductions and index");
    return status;
}

static kiln_status read_whole(reader *r)
{
    kiln_status status = read_signature(r);
    if (status == KILN_OK && !take(r, '='))
        status = expected(r, "'=' and an expression");
    if (status == KILN_OK)
        status = read_formula(r);
    if (status == KILN_OK && r->op->columns != 0 && r->op->real->reductions == 0)
        return FAIL(r, r->scope.text, "a column has one element for each row, and the expression reduces none");
    kiln__word_skip_blanks(&r->at);
    if (status == KILN_OK && *r->at != '\0')
        status = read_bound(r);
    kiln__word_skip_blanks(&r->at);
    if (status == KILN_OK && *r->at != '\0')
        status = expected(r, "nothing more");
    return status;
}

static void append_arguments(const kiln__op *op, kiln__text *out)
{
    for (uint32_t i = 0; i < op->inputs; i++)
        kiln__text_printf(out, "%skiln_real %s", i > 0 ? ", " : "", kiln__input_names[i]);
    for (uint32_t i = 0; i < op->params; i++)
        kiln__text_printf(out, ", kiln_real %s_", op->param_names[i]);
}

static char *make_signature(const kiln__op *op)
{
    kiln__text out = { 0 };
    kiln__text_printf(&out, "%s(", op->name);
    for (uint32_t i = 0; i < op->inputs; i++)
        kiln__text_printf(&out, "%s%s%s", i > 0 ? ", " : "", op->columns >> i & 1 ? "column " : "", op->input_names[i]);
    for (uint32_t i = 0; i < op->params; i++) {
        char number[KILN__NUMBER_SIZE];
        kiln__number_format(number, op->defaults[i]);
        kiln__text_printf(&out, "%s%s=%s", i == 0 ? "; " : ", ", op->param_names[i], number);
    }
    kiln__text_append(&out, ")");
    return kiln__text_take(&out);
}

static void append_return(const kiln__op *op, const kiln__real *real, uint32_t output, const kiln__op_table *table,
                          kiln__text *out)
{
    kiln__real_emit_locals(real, table, op->param_names, out);
    kiln__text_append(out, "    return ");
    kiln__real_emit(real, table, op->param_names, NULL, output, out);
    kiln__text_append(out, ";\n");
}

/* The function of an output. Locals of one that needs them are calculated in each: a compiler does it once. */
static void append_function(const kiln__op *op, uint32_t output, const kiln__op_table *table, kiln__text *out)
{
    kiln__text_printf(out, output > 0 ? "KILN_FN kiln_real kiln_op_%s__%u(" : "KILN_FN kiln_real kiln_op_%s(", op->name,
                      output);
    append_arguments(op, out);
    kiln__text_append(out, ")\n{\n");
    for (uint32_t i = 0; i < op->case_count; i++) {
        kiln__text_printf(out, "#%s %s\n", i == 0 ? "if" : "elif", op->cases[i].guard);
        append_return(op, op->cases[i].real, output, table, out);
    }
    kiln__text_append(out, op->case_count > 0 ? "#else\n" : "");
    append_return(op, op->real, output, table, out);
    kiln__text_append(out, op->case_count > 0 ? "#endif\n}\n" : "}\n");
}

/* An op whose calls are its definition has no function of one element. */
static char *make_text(const kiln__op *op, const kiln__op_table *table)
{
    kiln__text out = { 0 };
    for (uint32_t i = 0; i < op->outputs && !kiln__real_is_expanded(op->real); i++)
        append_function(op, i, table, &out);
    return kiln__text_take(&out);
}

/* On one line, each run of blanks one space. */
static char *make_definition(const char *text)
{
    kiln__text out = { 0 };
    kiln__word rest = kiln__word_trim(kiln__word_of(text));
    while (rest.length > 0) {
        kiln__word word = kiln__word_next(&rest);
        kiln__text_append(&out, out.length > 0 ? " " : "");
        kiln__text_append_bytes(&out, word.text, word.length);
    }
    return kiln__text_take(&out);
}

static char *make_functions(const kiln__op *op, const kiln__op_table *table, bool fast)
{
    kiln__text out = { 0 };
    for (uint32_t i = 0; i <= op->case_count; i++)
        kiln__real_append_bounds(kiln__op_expression(op, i), table, fast, &out);
    return kiln__text_take(&out);
}

/* The lines of a row that begin with a keyword. */
static char *make_note(const kiln__op *op, const kiln__word *notes, int keyword)
{
    kiln__text out = { 0 };
    kiln__word rest = notes != NULL ? *notes : (kiln__word){ NULL, 0 };
    if (notes == NULL && keyword == KILN__NOTE_DOC)
        kiln__text_printf(&out, "Defined by its user: %s\n", op->definition);
    while (rest.length > 0) {
        kiln__word line = kiln__word_cut(&rest, "\n");
        if (find_keyword(kiln__word_next(&line)) != keyword)
            continue;
        kiln__text_append_bytes(&out, line.text, line.length);
        kiln__text_append(&out, "\n");
    }
    return kiln__text_take(&out);
}

static kiln_status make_texts(reader *r)
{
    kiln__op *op = r->op;
    op->definition = make_definition(r->scope.text);
    op->signature = make_signature(op);
    op->text = make_text(op, r->scope.ops);
    op->functions = make_functions(op, r->scope.ops, false);
    op->fast_functions = make_functions(op, r->scope.ops, true);
    bool made = op->definition != NULL && op->signature != NULL && op->text != NULL && op->functions != NULL &&
                op->fast_functions != NULL;
    for (int i = 0; i < KILN__NOTES && made; i++) {
        op->notes[i] = make_note(op, r->notes, i);
        made = op->notes[i] != NULL;
    }
    return made ? KILN_OK : fail_memory(r);
}

/* `notes` is NULL for a user's definition. */
static kiln_status read_definition(kiln__op **out, const kiln__op_table *table, uint32_t limit, const kiln__word *notes,
                                   const char *definition, kiln_report *report)
{
    *out = NULL;
    reader r = { .scope = { .ops = table, .op_limit = limit, .op = "definition", .text = definition },
                 .at = definition,
                 .notes = notes,
                 .report = report };
    if (strlen(definition) > KILN__DEFINITION_MAX)
        return kiln__fail(report, KILN_EOP, KILN__STAGE_SPEC, 0,
                          "a definition has at most %d characters, this one has %zu", KILN__DEFINITION_MAX,
                          strlen(definition));
    r.op = kiln__calloc(1, sizeof(*r.op));
    if (r.op == NULL)
        return fail_memory(&r);
    kiln__fpenv host;
    kiln__fpenv_enter(&host); /* numbers become the same text under every mode of the host */
    kiln_status status = read_whole(&r);
    if (status == KILN_OK)
        status = read_cases(&r);
    r.scope.text = definition;
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
    return read_definition(out, table, KILN__OPS_MAX, NULL, definition, report);
}

bool kiln__op_is_portable(const kiln__op *op)
{
    bool portable = true;
    for (uint32_t i = 0; i <= op->case_count; i++)
        portable = portable && kiln__op_expression(op, i)->portable;
    return portable;
}

static bool equal_expressions(const kiln__op *a, const kiln__op *b)
{
    bool expanded = kiln__real_is_expanded(a->real) || kiln__real_is_expanded(b->real);
    return expanded ? strcmp(a->definition, b->definition) == 0 : strcmp(a->text, b->text) == 0;
}

static bool equal_text(const kiln__real *a, const kiln__real *b, const kiln__op *op, const kiln__op_table *table)
{
    kiln__text one = { 0 }, other = { 0 };
    if (a == NULL || b == NULL)
        return a == b;
    for (uint32_t i = 0; i < op->outputs; i++) {
        append_return(op, a, i, table, &one);
        append_return(op, b, i, table, &other);
    }
    bool equal = !one.failed && !other.failed && strcmp(kiln__text_string(&one), kiln__text_string(&other)) == 0;
    kiln__text_fini(&one);
    kiln__text_fini(&other);
    return equal;
}

bool kiln__op_equal(const kiln__op *a, const kiln__op *b, const kiln__op_table *table)
{
    return strcmp(a->signature, b->signature) == 0 && equal_expressions(a, b) && a->bounded == b->bounded &&
           a->ulps == b->ulps && equal_text(a->reference, b->reference, a, table);
}

/* ---- The table */

kiln_status kiln__op_table_init(kiln__op_table *out, const char *text, kiln_report *report)
{
    memset(out, 0, sizeof(*out));
    row_reader r = { .out = out, .report = report };
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

void kiln__op_table_fini(kiln__op_table *table)
{
    for (uint32_t i = 0; i < table->count; i++)
        kiln__op_free(kiln__op_at(table, i));
    kiln__free(table->rows);
    kiln__free(table->read);
    kiln__free(table->added);
    memset(table, 0, sizeof(*table));
}

/* Threads that read a row at the same time make equal ops, of which the first stays. */
kiln_status kiln__op_load(const kiln__op_table *table, uint32_t i, kiln_report *report)
{
    kiln__op *op = NULL, *none = NULL;
    if (i >= table->row_count || kiln__op_at(table, i) != NULL)
        return KILN_OK;
    const kiln__op_row *row = &table->rows[i];
    char *definition = kiln__memdup(row->definition.text, row->definition.length);
    kiln_status status = definition != NULL ? read_definition(&op, table, i, &row->notes, definition, report)
                                            : kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln__free(definition);
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

/* Takes over a user's op, unless it fails. The room is for all ops that there can ever be, because readers hold no lock
 * and it must not move; untouched memory costs nothing. */
static kiln_status add_op(kiln__op_table *table, kiln__op *op, kiln_report *report)
{
    uint32_t count = table->count;
    if (count == KILN__OPS_MAX)
        return kiln__fail(report, KILN_EOP, KILN__STAGE_SPEC, 0, "there are %d ops, and no more can be defined",
                          KILN__OPS_MAX);
    if (table->added == NULL)
        table->added = kiln__alloc((KILN__OPS_MAX - table->row_count) * sizeof(table->added[0]));
    if (table->added == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    table->added[count - table->row_count] = op;
    atomic_store_explicit(&table->count, count + 1, memory_order_release);
    return KILN_OK;
}

kiln_status kiln__op_define(kiln__op_table *table, const char *definition, kiln_report *report)
{
    kiln__op *op;
    kiln_status status = kiln__op_read(&op, table, definition, report);
    if (status != KILN_OK)
        return status;
    int index;
    status = kiln__op_find(table, kiln__word_of(op->name), KILN__OPS_MAX, &index, report);
    const kiln__op *known = index >= 0 ? kiln__op_at(table, (uint32_t)index) : NULL;
    if (status == KILN_OK && known == NULL)
        status = add_op(table, op, report);
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

/* ---- C text for units. Ops and functions stand behind those that they call, so one walk from the end marks all. */

#define FAIL_FUNCTIONS(report, what) kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "functions.h: " what)

/* The C text of a function begins behind its declaration and the comments beneath, and goes up to the next
 * declaration. */
kiln_status kiln__functions_find(kiln__functions *out, const char *text, kiln_report *report)
{
    static const char mark[] = "//! function ", end[] = "//! end\n";
    const char *next;
    kiln__word *open = NULL; /* the text of the function that the lines belong to */
    out->count = 0;
    for (const char *line = text; *line != '\0'; line = next) {
        next = strchrnul(line, '\n');
        next += *next != '\0';
        bool starts = strncmp(line, mark, sizeof(mark) - 1) == 0, ends = strncmp(line, end, sizeof(end) - 1) == 0;
        if (open != NULL && (starts || ends))
            *open = kiln__word_trim((kiln__word){ open->text, (size_t)(line - open->text) });
        if (ends)
            return KILN_OK;
        if (starts && out->count == KILN__FUNCTIONS_MAX)
            return FAIL_FUNCTIONS(report, "there are too many functions");
        if (starts) {
            const char *name = line + sizeof(mark) - 1;
            out->at[out->count].name = kiln__word_take(&name);
            open = &out->at[out->count++].text;
        }
        if (open != NULL && strncmp(line, "//!", 3) == 0)
            open->text = next;
    }
    return FAIL_FUNCTIONS(report, "the last line '//! end' is missing");
}

static bool calls(kiln__word text, kiln__word function)
{
    char call[80];
    int length = snprintf(call, sizeof(call), "kiln_%.*s(", (int)function.length, function.text);
    return memmem(text.text, text.length, call, (size_t)length) != NULL;
}

/* Marks the ops that an op calls, in every dtype. */
static void op_calls(const kiln__op *op, bool *ops)
{
    for (uint32_t i = 0; i <= op->case_count; i++)
        kiln__real_calls(kiln__op_expression(op, i), NULL, ops, NULL, NULL);
}

/* Marks the functions that an op calls where values are whole numbers or real ones. Many have no form for both. */
static void function_calls(const kiln__op *op, bool whole, const kiln__functions *functions, bool *ops,
                           bool *function_marks)
{
    for (uint32_t i = 0; i <= op->case_count; i++) {
        const kiln__real *real = kiln__op_expression(op, i);
        if ((real == kiln__op_of_integers(op)) == whole || (!whole && i == 0))
            kiln__real_calls(real, NULL, ops, functions, function_marks);
    }
}

void kiln__ops_close(const kiln__op_table *table, bool marked[KILN__OPS_MAX], bool with_references)
{
    for (uint32_t i = table->count; i-- > 0;) {
        const kiln__op *op = marked[i] ? kiln__op_at(table, i) : NULL;
        if (op != NULL)
            op_calls(op, marked);
        if (op != NULL && with_references && op->reference != NULL)
            kiln__real_calls(op->reference, NULL, marked, NULL, NULL);
    }
}

static void append_functions(const kiln__functions *functions, bool marked[KILN__FUNCTIONS_MAX], kiln__text *out)
{
    for (uint32_t i = functions->count; i-- > 0;)
        for (uint32_t j = 0; j < i && marked[i]; j++)
            marked[j] = marked[j] || calls(functions->at[i].text, functions->at[j].name);
    for (uint32_t i = 0; i < functions->count; i++)
        if (marked[i]) {
            kiln__text_append_bytes(out, functions->at[i].text.text, functions->at[i].text.length);
            kiln__text_append(out, "\n\n");
        }
}

void kiln__ops_append(const kiln__op_table *table, const kiln__functions *functions, bool whole,
                      const kiln__real *expression, const bool *nodes, kiln__text *out)
{
    bool marked[KILN__OPS_MAX] = { false }, function_marks[KILN__FUNCTIONS_MAX] = { false };
    uint32_t count = table->count;
    kiln__real_calls(expression, nodes, marked, functions, function_marks);
    kiln__ops_close(table, marked, false);
    for (uint32_t i = 0; i < count; i++)
        if (marked[i])
            function_calls(kiln__op_at(table, i), whole, functions, marked, function_marks);
    append_functions(functions, function_marks, out);
    for (uint32_t i = 0; i < count; i++)
        if (marked[i] && kiln__op_at(table, i)->text[0] != '\0') {
            kiln__text_append(out, kiln__op_at(table, i)->text);
            kiln__text_append(out, "\n");
        }
}
