#include "template/spec.h"
#include "base/number.h"
#include "template/formula.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where a field is: one of these, or FIELD_PARAM plus the index of a parameter. */
enum { FIELD_UNKNOWN = -1, FIELD_OP, FIELD_TEMPLATE, FIELD_DTYPE, FIELD_TARGET, FIELD_N, FIELD_PARAM };

static const char *const field_names[] = { [FIELD_OP] = "op",
                                           [FIELD_TEMPLATE] = "template",
                                           [FIELD_DTYPE] = "dtype",
                                           [FIELD_TARGET] = "target",
                                           [FIELD_N] = "n" };

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_SPEC, 0, __VA_ARGS__)

static int find_field(const kiln__template *template, kiln__word name)
{
    for (int i = 0; i < FIELD_PARAM; i++)
        if (kiln__word_is(name, field_names[i]))
            return i;
    int param = kiln__template_param(template, name.text, name.length);
    return param < 0 ? FIELD_UNKNOWN : FIELD_PARAM + param;
}

/* In the order of the canonical text. */
static const char *field_name_at(const void *data, size_t i)
{
    const kiln__template *template = data;
    size_t params = template->param_count;
    if (i < FIELD_TARGET)
        return field_names[i];
    if (i - FIELD_TARGET < params)
        return template->params[i - FIELD_TARGET].name;
    return i - params < FIELD_PARAM ? field_names[i - params] : NULL;
}

static kiln_status fail_field(const kiln__template *template, kiln__word name, kiln_report *report)
{
    return FAIL(report, KILN_ESPEC, "unknown field '%s': %s", kiln__word_quote(name).text,
                kiln__word_hint(name, field_name_at, template).text);
}

static const kiln__template *own_template(const kiln__catalog *catalog)
{
    const kiln__template *found = kiln__catalog_template(catalog, "elementwise", strlen("elementwise"));
    return found != NULL ? found : catalog->templates[0];
}

void kiln__spec_init(kiln_spec *out, const kiln__catalog *catalog)
{
    memset(out, 0, sizeof(*out));
    out->catalog = catalog;
    out->template = own_template(catalog);
}

uint32_t kiln__spec_inputs(const kiln_spec *spec)
{
    return spec->op_set ? spec->op.inputs : spec->template->own_arithmetic ? spec->template->min_inputs : 0;
}

static kiln_status check_inputs(const kiln__template *template, const kiln__expr *op, kiln_report *report)
{
    if (op->inputs >= template->min_inputs && op->inputs <= template->max_inputs)
        return KILN_OK;
    if (template->min_inputs == template->max_inputs)
        return FAIL(report, KILN_ESPEC, "template %s takes ops of %u input%s, this one has %u", template->name,
                    template->min_inputs, template->min_inputs == 1 ? "" : "s", op->inputs);
    return FAIL(report, KILN_ESPEC, "template %s takes ops of %u to %u inputs, this one has %u", template->name,
                template->min_inputs, template->max_inputs, op->inputs);
}

static kiln_status set_op(kiln_spec *spec, kiln__word value, kiln_report *report)
{
    kiln__expr op;
    memset(&op, 0, sizeof(op));
    if (value.length > 0 && spec->template->own_arithmetic)
        return FAIL(report, KILN_ESPEC, "template %s has arithmetic of its own and takes no op: leave op out",
                    spec->template->name);
    if (value.length > 0) {
        kiln_status status = kiln__expr_parse(&op, &spec->catalog->ops, value.text, value.length, report);
        if (status == KILN_OK)
            status = check_inputs(spec->template, &op, report);
        if (status != KILN_OK)
            return status;
    }
    spec->op = op;
    spec->op_set = value.length > 0;
    return KILN_OK;
}

static kiln_status set_param(kiln_spec *spec, int index, kiln__word value, kiln_report *report)
{
    char problem[400];
    int64_t number = 0;
    if (value.length > 0 &&
        !kiln__param_parse(&spec->template->params[index], value.text, value.length, &number, problem, sizeof(problem)))
        return FAIL(report, KILN_ESPEC, "%s", problem);
    spec->params[index] = number;
    spec->param_set[index] = value.length > 0;
    return KILN_OK;
}

static kiln__word param_text(const kiln__param *param, int64_t value, char buffer[KILN__NUMBER_SIZE])
{
    if (param->is_enum)
        return (kiln__word){ param->words[value], strlen(param->words[value]) };
    int length = snprintf(buffer, KILN__NUMBER_SIZE, "%" PRId64, value);
    return (kiln__word){ buffer, (size_t)length };
}

/* Goes by name and text, for two templates may declare the same words in another order. */
static kiln_status move_params(kiln_spec *to, const kiln_spec *from, kiln_report *report)
{
    char buffer[KILN__NUMBER_SIZE];
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < from->template->param_count && status == KILN_OK; i++) {
        const kiln__param *param = &from->template->params[i];
        int index = kiln__template_param(to->template, param->name, strlen(param->name));
        if (from->param_set[i] && index >= 0)
            status = set_param(to, index, param_text(param, from->params[i], buffer), report);
    }
    return status;
}

static const char *template_name_at(const void *data, size_t i)
{
    const kiln__catalog *catalog = data;
    return i < catalog->template_count ? catalog->templates[i]->name : NULL;
}

static kiln_status check_dtype(const kiln__template *template, kiln__dtype dtype, kiln_report *report)
{
    char list[32] = "";
    if (dtype == KILN__DTYPE_UNSET || kiln__template_takes(template, dtype))
        return KILN_OK;
    for (uint32_t i = 0, length = 0; i < template->dtype_count; i++)
        length += (uint32_t)snprintf(list + length, sizeof(list) - length, "%s%s", i == 0 ? "" : ", ",
                                     kiln__dtype_name(template->dtypes[i]));
    return FAIL(report, KILN_ESPEC, "template %s takes no dtype=%s: %s", template->name, kiln__dtype_name(dtype), list);
}

static kiln_status set_template(kiln_spec *spec, kiln__word value, kiln_report *report)
{
    const kiln__template *template = own_template(spec->catalog);
    if (value.length > 0)
        template = kiln__catalog_template(spec->catalog, value.text, value.length);
    if (template == NULL)
        return FAIL(report, KILN_ESPEC, "unknown template '%s': %s", kiln__word_quote(value).text,
                    kiln__word_hint(value, template_name_at, spec->catalog).text);
    kiln_spec moved = *spec;
    moved.template = template;
    moved.template_set = value.length > 0;
    memset(moved.params, 0, sizeof(moved.params));
    memset(moved.param_set, 0, sizeof(moved.param_set));
    kiln_status status = check_dtype(template, spec->dtype, report);
    if (status == KILN_OK && spec->op_set && template->own_arithmetic)
        return FAIL(report, KILN_ESPEC, "template %s has arithmetic of its own and takes no op: leave op out",
                    template->name);
    if (status == KILN_OK && spec->op_set)
        status = check_inputs(template, &spec->op, report);
    if (status == KILN_OK)
        status = move_params(&moved, spec, report);
    if (status == KILN_OK)
        *spec = moved;
    return status;
}

static const char *dtype_name_at(const void *data, size_t i)
{
    (void)data;
    return i + 1 < KILN__DTYPE_END ? kiln__dtype_name((kiln__dtype)(i + 1)) : NULL;
}

static kiln_status set_dtype(kiln_spec *spec, kiln__word value, kiln_report *report)
{
    kiln__dtype dtype = kiln__dtype_parse(value.text, value.length);
    if (dtype == KILN__DTYPE_UNSET && value.length > 0) {
        kiln__quote quote = kiln__word_quote(value);
        kiln__dtype meant = kiln__dtype_guess(value.text, value.length);
        if (meant != KILN__DTYPE_UNSET)
            return FAIL(report, KILN_ESPEC, "unknown dtype '%s': did you mean %s?", quote.text,
                        kiln__dtype_name(meant));
        return FAIL(report, KILN_ESPEC, "unknown dtype '%s': %s", quote.text,
                    kiln__word_choices(dtype_name_at, NULL).text);
    }
    kiln_status status = check_dtype(spec->template, dtype, report);
    if (status == KILN_OK)
        spec->dtype = dtype;
    return status;
}

/* "sm90", "SM_90", "compute_90a" and "9.0" all mean sm_90; false if there is no such reading. */
static bool guess_target(kiln__word value, kiln__target *out)
{
    char guess[KILN__TARGET_SIZE] = "sm_";
    size_t length = 3;
    kiln__word name = value;
    while (name.length > 0 && (*name.text < '0' || *name.text > '9'))
        name = (kiln__word){ name.text + 1, name.length - 1 };
    for (size_t i = 0; i < name.length; i++) {
        if (length == sizeof(guess) - 1)
            return false;
        if (name.text[i] != '.')
            guess[length++] = name.text[i];
    }
    return kiln__target_parse(guess, length, out);
}

static const char *cpu_name_at(const void *data, size_t i)
{
    (void)data;
    return i == 0 ? "cpu" : NULL;
}

static kiln_status set_target(kiln_spec *spec, kiln__word value, kiln_report *report)
{
    kiln__target target = { 0, '\0', "" };
    if (value.length > 0 && !kiln__target_parse(value.text, value.length, &target)) {
        kiln__quote quote = kiln__word_quote(value);
        if (guess_target(value, &target))
            return FAIL(report, KILN_ETARGET, "unknown target '%s': did you mean %s?", quote.text, target.name);
        if (kiln__text_closest(quote.text, cpu_name_at, NULL) != NULL)
            return FAIL(report, KILN_ETARGET, "unknown target '%s': did you mean cpu?", quote.text);
        return FAIL(report, KILN_ETARGET, "unknown target '%s': cpu, or sm_ and a number, such as sm_90", quote.text);
    }
    spec->target = target;
    spec->target_set = value.length > 0;
    return KILN_OK;
}

static kiln_status set_n(kiln_spec *spec, kiln__word value, kiln_report *report)
{
    uint64_t n = 0;
    if (value.length > 0 && !kiln__number_parse_uint(value.text, value.length, &n))
        return FAIL(report, KILN_ESPEC, "n=%s is not a whole number below 2^64", kiln__word_quote(value).text);
    spec->n = n;
    spec->n_set = value.length > 0;
    return KILN_OK;
}

static kiln_status set_field(kiln_spec *spec, int id, kiln__word value, kiln_report *report)
{
    switch (id) {
    case FIELD_OP:
        return set_op(spec, value, report);
    case FIELD_TEMPLATE:
        return set_template(spec, value, report);
    case FIELD_DTYPE:
        return set_dtype(spec, value, report);
    case FIELD_TARGET:
        return set_target(spec, value, report);
    case FIELD_N:
        return set_n(spec, value, report);
    default:
        return set_param(spec, id - FIELD_PARAM, value, report);
    }
}

kiln_status kiln__spec_set(kiln_spec *spec, const char *field, size_t field_length, const char *value,
                           size_t value_length, kiln_report *report)
{
    kiln__word name = { field, field_length };
    int id = find_field(spec->template, name);
    if (id == FIELD_UNKNOWN)
        return fail_field(spec->template, name, report);
    return set_field(spec, id, kiln__word_trim((kiln__word){ value, value_length }), report);
}

typedef struct scope {
    const kiln_spec *spec;
    const kiln__param *words; /* an enumeration whose words are names too, or NULL */
} scope;

/* Names of formulas: a parameter's index, or one of these. */
enum { NAME_BYTES = KILN__PARAMS_MAX, NAME_SM, NAME_INPUTS, NAME_END };

static int find_name(const kiln__template *template, kiln__word name)
{
    if (kiln__word_is(name, "bytes"))
        return NAME_BYTES;
    if (kiln__word_is(name, "sm"))
        return NAME_SM;
    if (kiln__word_is(name, "inputs"))
        return NAME_INPUTS;
    return kiln__template_param(template, name.text, name.length);
}

/* An unset parameter reads as 0. */
static bool lookup(const void *data, const char *name, size_t length, int64_t *value)
{
    const scope *s = data;
    kiln__word word = { name, length };
    for (uint32_t i = 0; s->words != NULL && i < s->words->count; i++) {
        if (kiln__word_is(word, s->words->words[i])) {
            *value = i;
            return true;
        }
    }
    int id = find_name(s->spec->template, word);
    *value = id == NAME_BYTES    ? (int64_t)kiln__dtype_bytes(s->spec->dtype)
             : id == NAME_SM     ? s->spec->target.sm
             : id == NAME_INPUTS ? (int64_t)kiln__spec_inputs(s->spec)
             : id >= 0           ? s->spec->params[id]
                                 : 0;
    return id >= 0;
}

kiln_status kiln__spec_eval(const kiln_spec *spec, const char *formula, int64_t *out, kiln_report *report)
{
    scope s = { spec, NULL };
    char problem[256];
    if (kiln__formula_eval(formula, lookup, &s, out, problem, sizeof(problem)))
        return KILN_OK;
    return FAIL(report, KILN_ESPEC, "template %s: %s", spec->template->name, problem);
}

/* What a formula speaks of. */
typedef struct subjects {
    const kiln_spec *spec;
    bool known;        /* all of them have values */
    int ids[NAME_END]; /* each once, in the formula's order */
    uint32_t count;
} subjects;

static bool has_value(const kiln_spec *spec, int id)
{
    switch (id) {
    case NAME_BYTES:
        return spec->dtype != KILN__DTYPE_UNSET;
    case NAME_SM:
        return spec->target_set;
    case NAME_INPUTS:
        return spec->op_set || spec->template->own_arithmetic;
    default:
        return id >= 0 && spec->param_set[id];
    }
}

static void add_subject(void *data, const char *name, size_t length)
{
    subjects *s = data;
    int id = find_name(s->spec->template, (kiln__word){ name, length });
    s->known = s->known && has_value(s->spec, id);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->ids[i] == id)
            return;
    s->ids[s->count++] = id;
}

static void append_subject(const kiln_spec *spec, int id, kiln__text *out)
{
    char buffer[KILN__NUMBER_SIZE];
    kiln__text_append(out, out->length > 0 ? " " : "");
    if (id == NAME_BYTES) {
        kiln__text_printf(out, "dtype=%s", kiln__dtype_name(spec->dtype));
    } else if (id == NAME_SM) {
        kiln__text_printf(out, "target=%s", spec->target.name);
    } else if (id == NAME_INPUTS) {
        kiln__text_printf(out, "inputs=%u", kiln__spec_inputs(spec));
    } else {
        kiln__word value = param_text(&spec->template->params[id], spec->params[id], buffer);
        kiln__text_printf(out, "%s=", spec->template->params[id].name);
        kiln__text_append_bytes(out, value.text, value.length);
    }
}

/* What is checked: a spec as given or, where `target` is not NULL, its resolution. */
typedef struct question {
    const kiln_spec *given, *spec;
    const kiln__target *target;
} question;

static kiln_status check_requires(const question *q, kiln_report *report);

/* The allowed value before (direction -1) or after (1) an allowed one; false at the end. */
static bool step_value(const kiln__param *param, int64_t *value, int direction)
{
    if (param->is_list) {
        uint32_t i = 0;
        while (i < param->count && param->list[i] != *value)
            i++;
        i += (uint32_t)direction;
        if (i >= param->count)
            return false;
        *value = param->list[i];
        return true;
    }
    *value += param->is_enum ? direction : direction * param->step;
    return kiln__param_allows(param, *value);
}

static bool is_answer(const question *q, int id, int64_t value)
{
    kiln_spec changed = *q->given, full;
    changed.params[id] = value;
    changed.param_set[id] = true;
    question other = { &changed, &changed, NULL };
    const kiln__target *target = changed.target_set ? &changed.target : q->target;
    return (changed.op_set || changed.template->own_arithmetic) && target != NULL
               ? kiln__spec_resolve(&full, &changed, target, NULL) == KILN_OK
               : check_requires(&other, NULL) == KILN_OK;
}

/* The nearest values of a parameter, one below and one above, with which everything holds that can be checked. */
static uint32_t find_answers(const question *q, int id, int64_t answers[2])
{
    enum { STEPS_MAX = 64 };
    const kiln__param *param = &q->spec->template->params[id];
    uint32_t count = 0;
    for (int direction = -1; direction <= 1; direction += 2) {
        int64_t value = q->spec->params[id];
        for (int i = 0; i < STEPS_MAX && step_value(param, &value, direction); i++)
            if (is_answer(q, id, value)) {
                answers[count++] = value;
                break;
            }
    }
    return count;
}

/* Appends "; nearest: elems=4, elems=8 or vector=2", or nothing if no single parameter can put it right. */
static void append_answers(const question *q, const subjects *s, kiln__text *out)
{
    struct {
        int id;
        int64_t value;
    } found[2 * NAME_END];
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        int64_t answers[2];
        uint32_t more = s->ids[i] < KILN__PARAMS_MAX ? find_answers(q, s->ids[i], answers) : 0;
        for (uint32_t j = 0; j < more; j++) {
            found[count].id = s->ids[i];
            found[count++].value = answers[j];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        char buffer[KILN__NUMBER_SIZE];
        const kiln__param *param = &q->spec->template->params[found[i].id];
        kiln__word value = param_text(param, found[i].value, buffer);
        kiln__text_printf(out, "%s%s=", i == 0 ? "; nearest: " : i + 1 < count ? ", " : " or ", param->name);
        kiln__text_append_bytes(out, value.text, value.length);
    }
}

static kiln_status check_require(const question *q, const kiln__require *require, kiln_report *report)
{
    const kiln_spec *spec = q->spec;
    subjects s = { .spec = spec, .known = true };
    kiln__formula_names(require->formula, add_subject, &s);
    if (!s.known)
        return KILN_OK;
    int64_t holds = 0;
    kiln_status status = kiln__spec_eval(spec, require->formula, &holds, report);
    if (status != KILN_OK || holds != 0)
        return status;
    if (report == NULL)
        return KILN_ESPEC;
    kiln__text message = { 0 };
    for (uint32_t i = 0; i < s.count; i++)
        append_subject(spec, s.ids[i], &message);
    kiln__text_printf(&message, ": %s", require->doc);
    append_answers(q, &s, &message);
    status = FAIL(report, KILN_ESPEC, "%s", kiln__text_string(&message));
    kiln__text_fini(&message);
    return status;
}

static kiln_status check_requires(const question *q, kiln_report *report)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < q->spec->template->require_count && status == KILN_OK; i++)
        status = check_require(q, &q->spec->template->requires[i], report);
    return status;
}

static size_t value_length(kiln__word line, int *depth)
{
    size_t length = 0;
    for (*depth = 0; length < line.length; length++) {
        char c = line.text[length];
        if (*depth == 0 && kiln__word_is_blank(c))
            break;
        if (c == '(')
            ++*depth;
        else if (c == ')' && *depth > 0)
            --*depth;
    }
    return length;
}

kiln_status kiln__spec_next_field(kiln__word *line, kiln__word *field, kiln__word *value, kiln_report *report)
{
    kiln__word rest = *line;
    while (rest.length > 0 && kiln__word_is_blank(*rest.text))
        rest = (kiln__word){ rest.text + 1, rest.length - 1 };
    size_t length = 0;
    while (length < rest.length && rest.text[length] != '=' && !kiln__word_is_blank(rest.text[length]))
        length++;
    *field = (kiln__word){ rest.text, length };
    if (rest.length > 0 && (length == 0 || length == rest.length || rest.text[length] != '='))
        return FAIL(report, KILN_ESPEC, "'%s' is not a field: write field=value, such as op=hardsigmoid",
                    kiln__word_quote(length == 0 ? rest : *field).text);
    size_t start = rest.length > 0 ? length + 1 : 0;
    int depth;
    *value = (kiln__word){ rest.text + start, rest.length - start };
    value->length = value_length(*value, &depth);
    if (depth > 0)
        return FAIL(report, KILN_ESPEC, "')' is missing in %s=%s", kiln__word_quote(*field).text,
                    kiln__word_quote(*value).text);
    *line = (kiln__word){ value->text + value->length, rest.length - start - value->length };
    return KILN_OK;
}

/* The template decides what the other fields mean, wherever in the line it stands. */
static kiln_status parse_template(kiln_spec *spec, kiln__word line, kiln_report *report)
{
    kiln__word field, value;
    kiln_status status;
    while ((status = kiln__spec_next_field(&line, &field, &value, report)) == KILN_OK && field.length > 0)
        if (kiln__word_is(field, field_names[FIELD_TEMPLATE]))
            return set_template(spec, value, report);
    return status;
}

static kiln_status parse_fields(kiln_spec *spec, kiln__word line, kiln_report *report)
{
    uint32_t given = 0;
    kiln__word field, value;
    kiln_status status;
    while ((status = kiln__spec_next_field(&line, &field, &value, report)) == KILN_OK && field.length > 0) {
        int id = find_field(spec->template, field);
        if (id == FIELD_UNKNOWN)
            return fail_field(spec->template, field, report);
        if ((given & (1u << id)) != 0)
            return FAIL(report, KILN_ESPEC, "field %s given twice", kiln__word_quote(field).text);
        given |= 1u << id;
        status = id == FIELD_TEMPLATE ? KILN_OK : set_field(spec, id, value, report);
        if (status != KILN_OK)
            break;
    }
    return status;
}

kiln_status kiln__spec_parse(kiln_spec *out, const kiln__catalog *catalog, const char *text, kiln_report *report)
{
    kiln__word line = { text, strlen(text) };
    kiln__spec_init(out, catalog);
    kiln_status status = parse_template(out, line, report);
    if (status == KILN_OK)
        status = parse_fields(out, line, report);
    question q = { out, out, NULL };
    return status == KILN_OK ? check_requires(&q, report) : status;
}

static bool is_set(const kiln_spec *spec, int id)
{
    switch (id) {
    case FIELD_OP:
        return spec->op_set;
    case FIELD_TEMPLATE:
        return spec->template_set;
    case FIELD_DTYPE:
        return spec->dtype != KILN__DTYPE_UNSET;
    case FIELD_TARGET:
        return spec->target_set;
    case FIELD_N:
        return spec->n_set;
    default:
        return spec->param_set[id - FIELD_PARAM];
    }
}

static void append_value(const kiln_spec *spec, int id, kiln__text *out)
{
    char buffer[KILN__NUMBER_SIZE];
    kiln__word word;
    if (!is_set(spec, id))
        return;
    switch (id) {
    case FIELD_OP:
        kiln__expr_format(&spec->op, &spec->catalog->ops, out);
        break;
    case FIELD_TEMPLATE:
        kiln__text_append(out, spec->template->name);
        break;
    case FIELD_DTYPE:
        kiln__text_append(out, kiln__dtype_name(spec->dtype));
        break;
    case FIELD_TARGET:
        kiln__text_append(out, spec->target.name);
        break;
    case FIELD_N:
        kiln__text_printf(out, "%" PRIu64, spec->n);
        break;
    default:
        word = param_text(&spec->template->params[id - FIELD_PARAM], spec->params[id - FIELD_PARAM], buffer);
        kiln__text_append_bytes(out, word.text, word.length);
    }
}

/* `start` is where the spec's text begins in *out. */
static void append_field(const kiln_spec *spec, int id, size_t start, kiln__text *out)
{
    if (!is_set(spec, id))
        return;
    const char *name = id < FIELD_PARAM ? field_names[id] : spec->template->params[id - FIELD_PARAM].name;
    kiln__text_append(out, out->length > start ? " " : "");
    kiln__text_append(out, name);
    kiln__text_append(out, "=");
    append_value(spec, id, out);
}

void kiln__spec_format(const kiln_spec *spec, bool with_hints, kiln__text *out)
{
    size_t start = out->length;
    append_field(spec, FIELD_OP, start, out);
    if (spec->template != own_template(spec->catalog))
        append_field(spec, FIELD_TEMPLATE, start, out);
    append_field(spec, FIELD_DTYPE, start, out);
    for (uint32_t i = 0; i < spec->template->param_count; i++)
        append_field(spec, FIELD_PARAM + (int)i, start, out);
    append_field(spec, FIELD_TARGET, start, out);
    if (with_hints)
        append_field(spec, FIELD_N, start, out);
}

kiln_status kiln__spec_value(const kiln_spec *spec, const char *field, kiln__text *out)
{
    int id = find_field(spec->template, (kiln__word){ field, strlen(field) });
    if (id == FIELD_UNKNOWN)
        return KILN_ENOENT;
    append_value(spec, id, out);
    return KILN_OK;
}

static kiln_status fill_param(kiln_spec *spec, uint32_t index, kiln_report *report)
{
    const kiln__param *param = &spec->template->params[index];
    scope s = { spec, param->is_enum ? param : NULL };
    char problem[256], buffer[KILN__NUMBER_SIZE];
    int64_t value = 0;
    if (!kiln__formula_eval(param->default_text, lookup, &s, &value, problem, sizeof(problem)))
        return FAIL(report, KILN_ESPEC, "default of %s: %s", param->name, problem);
    if (!kiln__param_allows(param, value)) {
        snprintf(buffer, sizeof(buffer), "%" PRId64, value);
        if (!param->is_enum)
            kiln__param_parse(param, buffer, strlen(buffer), &value, problem, sizeof(problem));
        else
            snprintf(problem, sizeof(problem), "%s has no word number %s", param->name, buffer);
        return FAIL(report, KILN_ESPEC, "%s, and that is its default here (%s): set %s", problem, param->default_text,
                    param->name);
    }
    spec->params[index] = value;
    spec->param_set[index] = true;
    return KILN_OK;
}

kiln_status kiln__spec_fill(kiln_spec *out, const kiln_spec *spec, const kiln__target *target, kiln_report *report)
{
    if (!spec->op_set && !spec->template->own_arithmetic)
        return FAIL(report, KILN_ESPEC, "the spec has no op: add one, such as op=hardsigmoid");
    kiln_spec filled = *spec;
    filled.template_set = true;
    if (filled.dtype == KILN__DTYPE_UNSET)
        filled.dtype = kiln__template_dtype(filled.template);
    filled.op.inputs = kiln__spec_inputs(spec);
    if (!filled.target_set)
        filled.target = *target;
    filled.target_set = true;
    kiln_status status = check_inputs(filled.template, &filled.op, report);
    for (uint32_t i = 0; i < filled.template->param_count && status == KILN_OK; i++)
        if (!filled.param_set[i])
            status = fill_param(&filled, i, report);
    if (status == KILN_OK)
        *out = filled;
    return status;
}

kiln_status kiln__spec_resolve(kiln_spec *out, const kiln_spec *spec, const kiln__target *target, kiln_report *report)
{
    kiln_spec filled;
    kiln_status status = kiln__spec_fill(&filled, spec, target, report);
    question q = { spec, &filled, target };
    if (status == KILN_OK)
        status = check_requires(&q, report);
    if (status == KILN_OK)
        *out = filled;
    return status;
}

kiln_status kiln__spec_reference(kiln_spec *out, const kiln_spec *spec, kiln_report *report)
{
    const char *op = spec->template->reference;
    kiln__spec_init(out, spec->catalog);
    if (op == NULL)
        return FAIL(report, KILN_ENOENT, "template %s declares no reference", spec->template->name);
    kiln_status status = set_op(out, (kiln__word){ op, strlen(op) }, report);
    if (status == KILN_OK && out->op.inputs != spec->template->min_inputs)
        status = FAIL(report, KILN_ESPEC, "template %s reads %u arrays, and its reference %s reads %u",
                      spec->template->name, spec->template->min_inputs, op, out->op.inputs);
    out->dtype = spec->dtype;
    return status;
}

kiln_status kiln__spec_plan(kiln__plan **out, const kiln_spec *spec, kiln_report *report)
{
    static const kiln__arg_type types[KILN__DTYPE_END] = { [KILN__DTYPE_F32] = KILN__ARG_f32,
                                                           [KILN__DTYPE_F64] = KILN__ARG_f64,
                                                           [KILN__DTYPE_F16] = KILN__ARG_f16,
                                                           [KILN__DTYPE_BF16] = KILN__ARG_bf16 };
    const scope s = { spec, NULL };
    *out = NULL;
    if (spec->template->arguments.arg_count == 0)
        return KILN_OK;
    return kiln__plan_make(out, &spec->template->arguments, lookup, &s, types[spec->dtype], report);
}
