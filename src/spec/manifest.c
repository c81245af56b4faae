#include "spec/manifest.h"
#include "base/alloc.h"
#include "base/text.h"
#include "lang/formula.h"
#include "lang/word.h"
#include "spec/range.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    MARK_LENGTH = 3, /* of "//!" */
    ENTRY_NAME_MAX = 63,
    LIST_MAX = 64
};

typedef struct reader {
    kiln__template *out;
    bool trusted; /* formulas are known to be right */
    uint32_t line;
    uint32_t arg_lines[KILN__ARGS_MAX], grid_line, block_line, shared_line, traffic_line;
    uint32_t tile_line, param_lines[KILN__PARAMS_MAX], require_lines[KILN__REQUIRES_MAX], tune_lines[KILN__TUNES_MAX],
        bound_lines[KILN__REQUIRES_MAX], entry_lines[KILN__ENTRIES_MAX];
    kiln_report *report;
} reader;

static kiln_status fail(const reader *r, uint32_t line, const char *format, ...) KILN__PRINTF(3, 4);

static kiln_status fail(const reader *r, uint32_t line, const char *format, ...)
{
    char what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    const char *origin = r->out->origin;
    if (origin != NULL && strchr(origin, '/') != NULL)
        return kiln__fail(r->report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "%s:%u: %s", origin, line, what);
    return kiln__fail(r->report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "template %s, line %u: %s",
                      r->out->name == NULL ? "without a name" : r->out->name, line, what);
}

static kiln_status copy(const reader *r, char **out, kiln__word word)
{
    *out = kiln__memdup(word.length > 0 ? word.text : "", word.length);
    return *out == NULL ? kiln__fail_memory(r->report, KILN__STAGE_SPEC) : KILN_OK;
}

/* Names that mean something else in specs, in formulas or, in upper case after KILN_, in units. */
static bool is_reserved(kiln__word name)
{
    static const char *const reserved[] = { "op",     "template", "dtype", "target", "n",    "bytes", "sm",
                                            "inputs", "min",      "max",   "gcd",    "unit", "fn",    "infinity" };
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (kiln__word_is(name, reserved[i]))
            return true;
    return false;
}

static kiln_status read_template(reader *r, kiln__word rest)
{
    if (r->out->name != NULL)
        return fail(r, r->line, "'template' is given twice");
    if (!kiln__word_is_name(rest))
        return fail(r, r->line, "'%s' is not a name of lower-case letters, digits and '_'",
                    kiln__word_quote(rest).text);
    return copy(r, &r->out->name, rest);
}

static kiln_status read_about(reader *r, kiln__word rest)
{
    kiln__text doc = { 0 };
    if (r->out->doc != NULL)
        kiln__text_printf(&doc, "%s ", r->out->doc);
    kiln__text_append_bytes(&doc, rest.text, rest.length);
    kiln__free(r->out->doc);
    r->out->doc = kiln__text_take(&doc);
    return r->out->doc == NULL ? kiln__fail_memory(r->report, KILN__STAGE_SPEC) : KILN_OK;
}

static kiln_status read_reference(reader *r, kiln__word rest)
{
    if (r->out->reference != NULL)
        return fail(r, r->line, "'reference' is given twice");
    if (rest.length == 0)
        return fail(r, r->line, "write reference OP, an op of the same inputs that computes the same");
    return copy(r, &r->out->reference, rest);
}

static kiln_status read_dtype(reader *r, kiln__word rest)
{
    kiln__template *out = r->out;
    while (rest.text != NULL) {
        kiln__word name = kiln__word_cut(&rest, ",");
        kiln__dtype dtype = kiln__dtype_parse(name.text, name.length);
        if (dtype == KILN__DTYPE_UNSET || out->dtype_count == KILN__DTYPE_END ||
            (out->dtype_count > 0 && kiln__template_takes(out, dtype)))
            return fail(r, r->line, "'%s' is not a new dtype: f32, f64, f16 or bf16", kiln__word_quote(name).text);
        out->dtypes[out->dtype_count++] = dtype;
    }
    return KILN_OK;
}

/* What a function of spec/arguments.h said. */
static kiln_status told(const reader *r, const char *problem)
{
    if (problem == NULL)
        return KILN_OK;
    return problem[0] == '\0' ? kiln__fail_memory(r->report, KILN__STAGE_SPEC) : fail(r, r->line, "%s", problem);
}

static kiln_status read_size(reader *r, kiln__word rest)
{
    char problem[400];
    const kiln__arguments *arguments = &r->out->arguments;
    kiln_status status = told(r, kiln__arguments_size(&r->out->arguments, rest, problem, sizeof(problem)));
    for (uint32_t i = 0; i < arguments->size_count && status == KILN_OK; i++) {
        kiln__word name = { arguments->sizes[i], strlen(arguments->sizes[i]) };
        if (is_reserved(name) && !kiln__word_is(name, "n"))
            status = fail(r, r->line, "'%s' cannot name a size: it means something else", arguments->sizes[i]);
    }
    return status;
}

static kiln_status read_arg(reader *r, kiln__word rest)
{
    char problem[400];
    if (r->out->arguments.arg_count < KILN__ARGS_MAX)
        r->arg_lines[r->out->arguments.arg_count] = r->line;
    return told(r, kiln__arguments_arg(&r->out->arguments, rest, problem, sizeof(problem)));
}

static kiln_status read_triple(reader *r, char *out[3], uint32_t *line, kiln__word rest)
{
    char problem[400];
    if (*line != 0)
        return fail(r, r->line, "given twice, first on line %u", *line);
    *line = r->line;
    return told(r, kiln__arguments_triple(out, rest, problem, sizeof(problem)));
}

static kiln_status read_grid(reader *r, kiln__word rest)
{
    return read_triple(r, r->out->arguments.grid, &r->grid_line, rest);
}

static kiln_status read_block(reader *r, kiln__word rest)
{
    return read_triple(r, r->out->arguments.block, &r->block_line, rest);
}

static kiln_status read_shared(reader *r, kiln__word rest)
{
    if (r->out->arguments.shared != NULL)
        return fail(r, r->line, "'shared' is given twice");
    r->shared_line = r->line;
    return copy(r, &r->out->arguments.shared, kiln__word_cut(&rest, "--"));
}

static kiln_status read_traffic(reader *r, kiln__word rest)
{
    if (r->out->arguments.traffic != NULL)
        return fail(r, r->line, "'traffic' is given twice");
    r->traffic_line = r->line;
    return copy(r, &r->out->arguments.traffic, kiln__word_cut(&rest, "--"));
}

static kiln_status read_inputs(reader *r, kiln__word rest)
{
    if (r->out->max_inputs != 0)
        return fail(r, r->line, "'inputs' is given twice");
    kiln__word high = rest;
    kiln__word low = kiln__word_cut(&high, "..");
    if (high.text == NULL)
        high = low;
    int64_t least, most;
    if (!kiln__param_number(low, &least) || !kiln__param_number(high, &most) || least < 1 || most < least ||
        most > KILN__INPUTS_MAX)
        return fail(r, r->line, "inputs '%s' is not a range within 1..%d", kiln__word_quote(rest).text,
                    KILN__INPUTS_MAX);
    r->out->min_inputs = (uint32_t)least;
    r->out->max_inputs = (uint32_t)most;
    return KILN_OK;
}

static kiln_status read_range(const reader *r, kiln__declared_param *param, kiln__word values)
{
    kiln__word step = values;
    kiln__word high = kiln__word_cut(&step, "step");
    kiln__word low = kiln__word_cut(&high, "..");
    param->step = 1;
    if (!kiln__param_number(low, &param->low) || !kiln__param_number(high, &param->high) ||
        (step.text != NULL && !kiln__param_number(step, &param->step)) || param->low > param->high || param->step < 1)
        return fail(r, r->line, "'%s' is not a range: write LOW..HIGH or LOW..HIGH step STEP",
                    kiln__word_quote(values).text);
    return KILN_OK;
}

static uint32_t count_items(kiln__word values)
{
    uint32_t count = 0;
    while (values.text != NULL && count <= LIST_MAX) {
        kiln__word_cut(&values, ",");
        count++;
    }
    return count;
}

static kiln_status read_list(const reader *r, kiln__declared_param *param, kiln__word values)
{
    param->is_list = true;
    param->list = kiln__calloc(param->count, sizeof(*param->list));
    if (param->list == NULL)
        return kiln__fail_memory(r->report, KILN__STAGE_SPEC);
    for (uint32_t i = 0; i < param->count; i++) {
        kiln__word item = kiln__word_cut(&values, ",");
        if (!kiln__param_number(item, &param->list[i]))
            return fail(r, r->line, "'%s' is not a whole number", kiln__word_quote(item).text);
        if (i > 0 && param->list[i] <= param->list[i - 1])
            return fail(r, r->line, "'%s' is out of order: list values from small to large",
                        kiln__word_quote(item).text);
    }
    param->low = param->list[0];
    param->high = param->list[param->count - 1];
    param->step = 1;
    return KILN_OK;
}

static kiln_status read_words(const reader *r, kiln__declared_param *param, kiln__word values)
{
    param->is_enum = true;
    param->words = kiln__calloc(param->count, sizeof(*param->words));
    if (param->words == NULL)
        return kiln__fail_memory(r->report, KILN__STAGE_SPEC);
    for (uint32_t i = 0; i < param->count; i++) {
        kiln__word item = kiln__word_cut(&values, ",");
        if (!kiln__word_is_name(item) || kiln__param_word(param, item) >= 0)
            return fail(r, r->line, "'%s' is not a new word of lower-case letters, digits and '_'",
                        kiln__word_quote(item).text);
        kiln_status status = copy(r, &param->words[i], item);
        if (status != KILN_OK)
            return status;
    }
    return KILN_OK;
}

static kiln_status read_values(const reader *r, kiln__declared_param *param, kiln__word values)
{
    if (values.length == 0)
        return fail(r, r->line, "param %s has no values: write a range, a list or words", param->name);
    if (kiln__range_is(values))
        return read_range(r, param, values);
    param->count = count_items(values);
    if (param->count > LIST_MAX)
        return fail(r, r->line, "param %s has more than %d values", param->name, LIST_MAX);
    bool is_number = values.text[0] >= '0' && values.text[0] <= '9';
    return is_number ? read_list(r, param, values) : read_words(r, param, values);
}

static kiln_status read_param(reader *r, kiln__word rest)
{
    kiln__template *out = r->out;
    kiln__word doc = rest;
    kiln__word value = kiln__word_cut(&doc, "--");
    kiln__word values = kiln__word_cut(&value, "=");
    kiln__word name = kiln__word_next(&values);
    if (out->param_count == KILN__PARAMS_MAX)
        return fail(r, r->line, "more than %d params", KILN__PARAMS_MAX);
    if (!kiln__word_is_name(name) || is_reserved(name) || kiln__template_param(out, name.text, name.length) >= 0)
        return fail(r, r->line, "'%s' cannot name a param: it is taken, or not of lower-case letters, digits and '_'",
                    kiln__word_quote(name).text);
    if (value.length == 0)
        return fail(r, r->line, "param %s has no default: write = and a formula or word", kiln__word_quote(name).text);
    kiln__declared_param *param = &out->params[out->param_count];
    r->param_lines[out->param_count++] = r->line;
    kiln_status status = copy(r, &param->name, name);
    if (status == KILN_OK)
        status = copy(r, &param->values, values);
    if (status == KILN_OK)
        status = copy(r, &param->default_text, value);
    if (status == KILN_OK)
        status = copy(r, &param->doc, doc);
    return status == KILN_OK ? read_values(r, param, values) : status;
}

/* "FORMULA -- TEXT" */
static kiln_status read_rule(const reader *r, kiln__require *out, kiln__word rest)
{
    kiln__word doc = rest;
    kiln__word formula = kiln__word_cut(&doc, "--");
    kiln_status status = copy(r, &out->formula, formula);
    return status == KILN_OK ? copy(r, &out->doc, doc.length > 0 ? doc : formula) : status;
}

static kiln_status read_require(reader *r, kiln__word rest)
{
    kiln__template *out = r->out;
    if (out->require_count == KILN__REQUIRES_MAX)
        return fail(r, r->line, "more than %d requirements", KILN__REQUIRES_MAX);
    r->require_lines[out->require_count] = r->line;
    return read_rule(r, &out->requires[out->require_count++], rest);
}

static kiln_status read_bound(reader *r, kiln__word rest)
{
    kiln__template *out = r->out;
    if (out->bound_count == KILN__REQUIRES_MAX)
        return fail(r, r->line, "more than %d bounds", KILN__REQUIRES_MAX);
    r->bound_lines[out->bound_count] = r->line;
    return read_rule(r, &out->bounds[out->bound_count++], rest);
}

static kiln_status add_tune_value(const reader *r, kiln__tune *tune, kiln__word text)
{
    const kiln__declared_param *param = &r->out->params[tune->param];
    char problem[300];
    int64_t value;
    if (!kiln__param_parse(param, text.text, text.length, &value, problem, sizeof(problem)))
        return fail(r, r->line, "%s", problem);
    for (uint32_t i = 0; i < tune->count; i++)
        if (tune->values[i] == value)
            return fail(r, r->line, "%s=%s is given twice", param->name, kiln__word_quote(text).text);
    if (tune->count == KILN__TUNE_VALUES_MAX)
        return fail(r, r->line, "more than %d values of %s to try", KILN__TUNE_VALUES_MAX, param->name);
    tune->values[tune->count++] = value;
    return KILN_OK;
}

static kiln_status add_tune_range(const reader *r, kiln__tune *tune, kiln__word text)
{
    kiln__range range;
    const char *problem = kiln__range_parse(&range, text);
    if (problem != NULL)
        return fail(r, r->line, "'%s' %s", kiln__word_quote(text).text, problem);
    kiln_status status;
    do {
        char number[24];
        int length = snprintf(number, sizeof(number), "%" PRIu64, range.value);
        status = add_tune_value(r, tune, (kiln__word){ number, (size_t)length });
    } while (status == KILN_OK && kiln__range_next(&range));
    return status;
}

/* Leaves in *rest what follows the word "if"; without one, a NULL text. */
static kiln__word cut_condition(kiln__word *rest)
{
    kiln__word before = *rest;
    while (rest->length > 0) {
        const char *at = rest->text;
        if (kiln__word_is(kiln__word_next(rest), "if"))
            return kiln__word_trim((kiln__word){ before.text, (size_t)(at - before.text) });
    }
    *rest = (kiln__word){ NULL, 0 };
    return before;
}

/* "NAME VALUES [if FORMULA] [-- TEXT]" */
static kiln_status read_tune(reader *r, kiln__word rest)
{
    kiln__template *out = r->out;
    kiln__word doc = rest;
    kiln__word condition = kiln__word_cut(&doc, "--");
    kiln__word name = kiln__word_next(&condition);
    kiln__word values = cut_condition(&condition);
    int param = kiln__template_param(out, name.text, name.length);
    if (out->tune_count == KILN__TUNES_MAX)
        return fail(r, r->line, "more than %d tune lines", KILN__TUNES_MAX);
    if (param < 0)
        return fail(r, r->line, "write tune NAME VALUES, NAME a param declared above: '%s' is none",
                    kiln__word_quote(name).text);
    kiln__tune *tune = &out->tunes[out->tune_count];
    r->tune_lines[out->tune_count++] = r->line;
    tune->param = (uint32_t)param;
    tune->values = kiln__calloc(KILN__TUNE_VALUES_MAX, sizeof(*tune->values));
    if (tune->values == NULL)
        return kiln__fail_memory(r->report, KILN__STAGE_SPEC);
    kiln_status status = copy(r, &tune->text, values);
    if (status == KILN_OK && condition.text != NULL)
        status = copy(r, &tune->condition, condition);
    do {
        kiln__word item = kiln__word_cut(&values, ",");
        if (status == KILN_OK)
            status = kiln__range_is(item) ? add_tune_range(r, tune, item) : add_tune_value(r, tune, item);
    } while (status == KILN_OK && values.text != NULL);
    return status;
}

static kiln_status read_tile(reader *r, kiln__word rest)
{
    if (r->out->tile != NULL)
        return fail(r, r->line, "'tile' is given twice");
    r->tile_line = r->line;
    return copy(r, &r->out->tile, rest);
}

static kiln_status read_entry(reader *r, kiln__word rest)
{
    kiln__template *out = r->out;
    kiln__word name = kiln__word_next(&rest);
    kiln__word keyword = kiln__word_next(&rest);
    if (out->entry_count == KILN__ENTRIES_MAX)
        return fail(r, r->line, "more than %d entries", KILN__ENTRIES_MAX);
    if (!kiln__text_is_identifier(name.text, name.length) || name.length > ENTRY_NAME_MAX ||
        !kiln__word_is(keyword, "align"))
        return fail(r, r->line, "write entry NAME align FORMULA, NAME an identifier of at most %d characters",
                    ENTRY_NAME_MAX);
    for (uint32_t i = 0; i < out->entry_count; i++)
        if (kiln__word_is(name, out->entries[i].name))
            return fail(r, r->line, "entry %s is given twice", out->entries[i].name);
    kiln__entry_point *entry = &out->entries[out->entry_count];
    r->entry_lines[out->entry_count++] = r->line;
    kiln_status status = copy(r, &entry->name, name);
    return status == KILN_OK ? copy(r, &entry->align, rest) : status;
}

static const struct {
    const char *keyword;
    kiln_status (*read)(reader *r, kiln__word rest);
} declarations[] = {
    { "template", read_template }, { "about", read_about },         { "inputs", read_inputs },
    { "param", read_param },       { "tune", read_tune },           { "require", read_require },
    { "bound", read_bound },       { "tile", read_tile },           { "entry", read_entry },
    { "dtype", read_dtype },       { "reference", read_reference }, { "size", read_size },
    { "arg", read_arg },           { "grid", read_grid },           { "block", read_block },
    { "shared", read_shared },     { "traffic", read_traffic },
};

static const char *keyword_at(const void *data, size_t i)
{
    (void)data;
    return i < sizeof(declarations) / sizeof(declarations[0]) ? declarations[i].keyword : NULL;
}

static kiln_status read_line(reader *r, kiln__word line)
{
    kiln__word rest = kiln__word_trim(line);
    kiln__word keyword = kiln__word_next(&rest);
    if (keyword.length == 0)
        return KILN_OK;
    for (size_t i = 0; keyword_at(NULL, i) != NULL; i++)
        if (kiln__word_is(keyword, declarations[i].keyword))
            return declarations[i].read(r, rest);
    return fail(r, r->line, "unknown declaration '%s': %s", kiln__word_quote(keyword).text,
                kiln__word_hint(keyword, keyword_at, NULL).text);
}

static kiln_status read_lines(reader *r, const char *text)
{
    kiln_status status = KILN_OK;
    r->out->body = text;
    while (*text != '\0' && status == KILN_OK) {
        size_t length = (size_t)(strchrnul(text, '\n') - text);
        const char *next = text + length + (text[length] == '\n');
        r->line++;
        if (strncmp(text, "//!", MARK_LENGTH) == 0) {
            status = read_line(r, (kiln__word){ text + MARK_LENGTH, length - MARK_LENGTH });
            r->out->body = r->out->body == text ? next : r->out->body;
        }
        text = next;
    }
    return status;
}

typedef struct scope {
    const kiln__template *template;    /* whose parameters are names, or NULL */
    const kiln__declared_param *words; /* whose words are names too, or NULL */
    const kiln__arguments *sizes;      /* whose sizes are names too, as is the tile, or NULL */
} scope;

static bool is_known(const void *data, const char *name, size_t length, int64_t *value)
{
    const scope *s = data;
    kiln__word word = { name, length };
    *value = 0;
    return kiln__word_is(word, "bytes") || kiln__word_is(word, "sm") || kiln__word_is(word, "inputs") ||
           (s->template != NULL && kiln__template_param(s->template, name, length) >= 0) ||
           (s->words != NULL && kiln__param_word(s->words, word) >= 0) ||
           (s->sizes != NULL && kiln__arguments_has_size(s->sizes, word)) ||
           (s->sizes != NULL && s->template->tile != NULL && kiln__word_is(word, "tile"));
}

static kiln_status check_within(const reader *r, uint32_t line, const char *formula, scope s)
{
    char problem[256];
    kiln_status status = kiln__formula_check(formula, is_known, &s, problem, sizeof(problem));
    if (status == KILN_ENOMEM)
        return kiln__fail_memory(r->report, KILN__STAGE_SPEC);
    return status == KILN_OK ? KILN_OK : fail(r, line, "%s", problem);
}

static kiln_status check_formula(const reader *r, uint32_t line, const char *formula, const kiln__declared_param *words)
{
    return check_within(r, line, formula, (scope){ r->out, words, NULL });
}

static kiln_status check_tunes(const reader *r)
{
    const kiln__template *out = r->out;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < out->tune_count && status == KILN_OK; i++)
        if (out->tunes[i].condition != NULL)
            status = check_within(r, r->tune_lines[i], out->tunes[i].condition, (scope){ NULL, NULL, NULL });
    for (uint32_t i = 0; i < out->bound_count && status == KILN_OK; i++)
        status = check_formula(r, r->bound_lines[i], out->bounds[i].formula, NULL);
    return status;
}

static kiln_status check_arguments(const reader *r)
{
    const kiln__template *out = r->out;
    const kiln__arguments *arguments = &out->arguments;
    const scope with_sizes = { out, NULL, arguments };
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < arguments->arg_count && status == KILN_OK; i++)
        for (int j = 0; j < KILN__DIMS_MAX && arguments->args[i].formulas[j] != NULL && status == KILN_OK; j++)
            status = check_within(r, r->arg_lines[i], arguments->args[i].formulas[j], with_sizes);
    for (int i = 0; i < 3 && status == KILN_OK; i++)
        if (arguments->grid[i] != NULL)
            status = check_within(r, r->grid_line, arguments->grid[i], with_sizes);
    for (int i = 0; i < 3 && status == KILN_OK; i++)
        if (arguments->block[i] != NULL)
            status = check_formula(r, r->block_line, arguments->block[i], NULL);
    if (status == KILN_OK && arguments->shared != NULL)
        status = check_formula(r, r->shared_line, arguments->shared, NULL);
    if (status == KILN_OK && arguments->traffic != NULL)
        status = check_within(r, r->traffic_line, arguments->traffic, with_sizes);
    return status;
}

/* Formulas may speak of parameters declared below them, so they are looked at last. */
static kiln_status check_formulas(const reader *r)
{
    const kiln__template *out = r->out;
    kiln_status status = out->tile != NULL ? check_formula(r, r->tile_line, out->tile, NULL) : KILN_OK;
    for (uint32_t i = 0; i < out->param_count && status == KILN_OK; i++)
        status = check_formula(r, r->param_lines[i], out->params[i].default_text,
                               out->params[i].is_enum ? &out->params[i] : NULL);
    for (uint32_t i = 0; i < out->require_count && status == KILN_OK; i++)
        status = check_formula(r, r->require_lines[i], out->requires[i].formula, NULL);
    for (uint32_t i = 0; i < out->entry_count && status == KILN_OK; i++)
        status = check_formula(r, r->entry_lines[i], out->entries[i].align, NULL);
    if (status == KILN_OK)
        status = check_arguments(r);
    return status == KILN_OK ? check_tunes(r) : status;
}

static kiln_status check_missing(const reader *r)
{
    const kiln__template *out = r->out;
    bool block = r->block_line > 0 || kiln__template_param(out, "block", strlen("block")) >= 0;
    const char *missing = out->name == NULL               ? "template NAME"
                          : out->arguments.arg_count == 0 ? "arg NAME out TYPE[FORMULA, ...]"
                          : r->grid_line == 0             ? "grid X, Y, Z"
                          : !block                        ? "block X, Y, Z"
                          : out->entry_count == 0         ? "entry NAME align FORMULA"
                                                          : NULL;
    return missing != NULL ? fail(r, r->line, "the declaration '%s' is missing", missing) : KILN_OK;
}

/* Names of the arguments' formulas mean one thing. */
static kiln_status check_names(const reader *r)
{
    const kiln__template *out = r->out;
    const kiln__arguments *arguments = &out->arguments;
    for (uint32_t i = 0; i < arguments->size_count; i++)
        if (kiln__template_param(out, arguments->sizes[i], strlen(arguments->sizes[i])) >= 0)
            return fail(r, r->line, "'%s' names a size and a param", arguments->sizes[i]);
    if (out->tile != NULL && (kiln__template_param(out, "tile", strlen("tile")) >= 0 ||
                              kiln__arguments_has_size(arguments, (kiln__word){ "tile", strlen("tile") })))
        return fail(r, r->line, "'tile' names the tile and a param or size");
    return KILN_OK;
}

/* An op's inputs are arguments: "x...", once. */
static kiln_status check_op(const reader *r)
{
    const kiln__template *out = r->out;
    const kiln__arguments *arguments = &out->arguments;
    bool takes_op = kiln__template_takes_op(out), each = false, taken = false;
    for (uint32_t i = 0; i < arguments->arg_count; i++) {
        each = each || arguments->args[i].each;
        taken = taken || strcmp(arguments->args[i].name, "y") == 0 || strcmp(arguments->args[i].name, "z") == 0;
    }
    if (takes_op && !each)
        return fail(r, r->line, "the inputs of the op are no arguments: write arg x... in TYPE[FORMULA, ...]");
    if (!takes_op && each)
        return fail(r, r->line, "arg x... is the inputs of an op, and the template takes none: write inputs LOW..HIGH");
    if (takes_op && taken)
        return fail(r, r->line, "x, y and z are the inputs of the op: give other args other names");
    if (kiln__arguments_count(arguments, out->max_inputs) > KILN__ARGS_MAX)
        return fail(r, r->line, "more than %d args with %u inputs", KILN__ARGS_MAX, out->max_inputs);
    if (out->reference != NULL && takes_op)
        return fail(r, r->line, "a reference is for a template without an op: leave inputs out");
    if (out->reference != NULL && !kiln__arguments_flat(arguments))
        return fail(r, r->line, "a reference is for a template of one size, which is the extent of every array");
    return KILN_OK;
}

static kiln_status check_complete(reader *r)
{
    kiln__template *out = r->out;
    int block = kiln__template_param(out, "block", strlen("block"));
    kiln_status status = check_missing(r);
    if (status == KILN_OK)
        status = check_names(r);
    if (status == KILN_OK)
        status = check_op(r);
    if (status == KILN_OK && r->block_line == 0 && (out->params[block].is_enum || out->params[block].low < 1))
        return fail(r, r->param_lines[block], "param block must be a number of threads, 1 or more");
    if (status == KILN_OK && r->block_line == 0)
        status = copy(r, &out->arguments.block[0], (kiln__word){ "block", strlen("block") });
    return status == KILN_OK && !r->trusted ? check_formulas(r) : status;
}

static kiln_status read_whole(kiln__template *template, bool trusted, kiln__template **out, kiln_report *report)
{
    reader r = { .out = template, .trusted = trusted, .report = report };
    kiln_status status = read_lines(&r, template->text);
    if (status == KILN_OK)
        status = check_complete(&r);
    if (status == KILN_OK && template->doc == NULL)
        status = copy(&r, &template->doc, (kiln__word){ "", 0 });
    if (status == KILN_OK)
        *out = template;
    else
        kiln__template_free(template);
    return status;
}

static kiln_status parse(kiln__template **out, const char *text, const char *cpu_text, bool trusted,
                         kiln_report *report)
{
    *out = NULL;
    kiln__template *template = kiln__calloc(1, sizeof(*template));
    if (template == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    template->text = text;
    template->cpu_text = cpu_text;
    return read_whole(template, trusted, out, report);
}

kiln_status kiln__template_parse(kiln__template **out, const char *text, const char *cpu_text, kiln_report *report)
{
    return parse(out, text, cpu_text, false, report);
}

kiln_status kiln__template_parse_own(kiln__template **out, const char *text, const char *cpu_text, kiln_report *report)
{
    return parse(out, text, cpu_text, true, report);
}

kiln_status kiln__template_read(kiln__template **out, const char *text, const char *cpu_text, const char *origin,
                                kiln_report *report)
{
    *out = NULL;
    kiln__template *template = kiln__calloc(1, sizeof(*template));
    if (template == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    template->text = template->own_text = kiln__strdup(text);
    template->cpu_text = template->own_cpu_text = kiln__strdup(cpu_text);
    template->origin = kiln__strdup(origin);
    if (template->text != NULL && (cpu_text == NULL || template->cpu_text != NULL) && template->origin != NULL)
        return read_whole(template, false, out, report);
    kiln__template_free(template);
    return kiln__fail_memory(report, KILN__STAGE_SPEC);
}

static void fini_param(kiln__declared_param *param)
{
    for (uint32_t i = 0; i < param->count && param->words != NULL; i++)
        kiln__free(param->words[i]);
    kiln__free(param->words);
    kiln__free(param->list);
    kiln__free(param->name);
    kiln__free(param->values);
    kiln__free(param->default_text);
    kiln__free(param->doc);
}

static void fini_rule(kiln__require *rule)
{
    kiln__free(rule->formula);
    kiln__free(rule->doc);
}

void kiln__template_free(kiln__template *template)
{
    if (template == NULL)
        return;
    for (uint32_t i = 0; i < template->param_count; i++)
        fini_param(&template->params[i]);
    for (uint32_t i = 0; i < KILN__REQUIRES_MAX; i++) {
        fini_rule(&template->requires[i]);
        fini_rule(&template->bounds[i]);
    }
    for (uint32_t i = 0; i < template->tune_count; i++) {
        kiln__free(template->tunes[i].text);
        kiln__free(template->tunes[i].condition);
        kiln__free(template->tunes[i].values);
    }
    for (uint32_t i = 0; i < template->entry_count; i++) {
        kiln__free(template->entries[i].name);
        kiln__free(template->entries[i].align);
    }
    kiln__free(template->name);
    kiln__free(template->doc);
    kiln__free(template->origin);
    kiln__free(template->reference);
    kiln__free(template->own_text);
    kiln__free(template->own_cpu_text);
    kiln__arguments_fini(&template->arguments);
    kiln__free(template->tile);
    kiln__free(template);
}

int kiln__template_param(const kiln__template *template, const char *name, size_t length)
{
    for (uint32_t i = 0; i < template->param_count; i++)
        if (kiln__word_is((kiln__word){ name, length }, template->params[i].name))
            return (int)i;
    return -1;
}

bool kiln__template_takes(const kiln__template *template, kiln__dtype dtype)
{
    for (uint32_t i = 0; i < template->dtype_count; i++)
        if (template->dtypes[i] == dtype)
            return true;
    return template->dtype_count == 0;
}

kiln__dtype kiln__template_dtype(const kiln__template *template)
{
    return template->dtype_count > 0 ? template->dtypes[0] : KILN__DTYPE_F32;
}

kiln_status kiln__template_check_inputs(const kiln__template *template, uint32_t inputs, kiln_report *report)
{
    if (inputs >= template->min_inputs && inputs <= template->max_inputs)
        return KILN_OK;
    if (template->min_inputs == template->max_inputs)
        return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0,
                          "template %s takes ops of %u input%s, this one has %u", template->name, template->min_inputs,
                          template->min_inputs == 1 ? "" : "s", inputs);
    return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0,
                      "template %s takes ops of %u to %u inputs, this one has %u", template->name, template->min_inputs,
                      template->max_inputs, inputs);
}
