/* Reads the declarations of a template: a table of keywords, a reader for each, and the checks of the whole. */
#include "spec/template.h"

#include "base/alloc.h"
#include "base/text.h"
#include "spec/option.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

enum {
    DECLARATIONS = 23,
    FORMULA_MAX = 8192, /* bytes, once the names of lets are replaced */
    ENTRY_NAME_MAX = 63,
    LIST_MAX = 64,
    CHECKS_MAX = KILN__DECLARED_MAX * KILN__DIMS_MAX +
                 12 /* grid, block, shared, phases, joint, picks, traffic, tile */ + KILN__PARAMS_MAX +
                 2 * KILN__REQUIRES_MAX + KILN__TUNES_MAX + 2 * KILN__ENTRIES_MAX + KILN__LETS_MAX
};

/* The names of a formula, besides bytes, sm and inputs: none, the parameters, also the sizes and the tile. */
typedef enum name_set { NAMES_FEW, NAMES_PARAMS, NAMES_SIZES } name_set;

/* A formula to check once all is read, because it may use names that are declared below it. */
typedef struct check {
    const char *formula;
    uint32_t line;
    name_set names;
    const kiln__declared_param *words; /* the words of an enumeration are names too; NULL: none */
} check;

typedef struct reader reader;

/* The row of a keyword. */
typedef struct declaration {
    const char *keyword;
    kiln_status (*read)(reader *r, kiln__word rest); /* gets the text behind the keyword */
    bool once;
    size_t place;   /* of the text that it sets, in kiln__template */
    name_set names; /* of its formulas */
} declaration;

struct reader {
    kiln__template *out;
    const declaration *row;       /* of the current line */
    uint32_t given[DECLARATIONS]; /* the line of the first declaration of each row; 0: none */
    bool out_of_memory;           /* some text could not be copied; read_line reports it */
    bool too_long;                /* likewise: some formula has more than FORMULA_MAX bytes */
    uint32_t line, block_line;    /* block_line: of the param "block" */
    check checks[CHECKS_MAX];
    uint32_t check_count;
    kiln_report *report;
};

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

#define FAIL(r, ...) fail(r, (r)->line, __VA_ARGS__)

/* Zeroed memory that lives as long as the template; NULL: out of memory. */
static void *allocate(kiln__template *template, size_t bytes)
{
    kiln__owned *made = kiln__calloc(1, sizeof(*made) + bytes);
    if (made == NULL)
        return NULL;
    made->next = template->owned;
    template->owned = made;
    return made + 1;
}

static char *copy(reader *r, kiln__word word)
{
    char *made = allocate(r->out, word.length + 1);
    r->out_of_memory = r->out_of_memory || made == NULL;
    if (made != NULL && word.length > 0)
        memcpy(made, word.text, word.length);
    return made;
}

/* NULL if there is none. */
static const kiln__let *find_let(const reader *r, kiln__word name)
{
    for (uint32_t i = 0; i < r->out->let_count; i++)
        if (kiln__word_is(name, r->out->lets[i].name))
            return &r->out->lets[i];
    return NULL;
}

/* A copy with the formulas of lets in place of their names. */
static char *expand(reader *r, kiln__word word)
{
    char *plain = copy(r, word);
    const char *at = plain, *from = plain;
    kiln__text text = { 0 };
    kiln__word name;
    while (plain != NULL && kiln__formula_next_name(&at, &name)) {
        const kiln__let *found = find_let(r, name);
        if (found == NULL)
            continue;
        kiln__text_append_bytes(&text, from, (size_t)(name.text - from));
        kiln__text_printf(&text, "(%s)", found->formula);
        from = at;
        r->too_long = r->too_long || text.length > FORMULA_MAX;
        if (r->too_long)
            break;
    }
    if (plain != NULL && from != plain) {
        kiln__text_append_bytes(&text, from, strlen(from));
        r->too_long = r->too_long || text.length > FORMULA_MAX;
        plain = copy(r, kiln__word_of(kiln__text_string(&text)));
    }
    r->out_of_memory = r->out_of_memory || text.failed;
    kiln__text_fini(&text);
    return plain;
}

static char *copy_formula_of(reader *r, kiln__word word, name_set names)
{
    char *made = expand(r, word);
    if (made != NULL)
        r->checks[r->check_count++] = (check){ made, r->line, names, NULL };
    return made;
}

static char *copy_formula(reader *r, kiln__word word)
{
    return copy_formula_of(r, word, r->row->names);
}

const char *kiln__fact_name(kiln__fact fact)
{
    static const char *const names[KILN__FACTS] = {
        [KILN__FACT_BYTES] = "bytes",
        [KILN__FACT_OUT_BYTES] = "out_bytes",
        [KILN__FACT_N_HINT] = "n_hint",
        [KILN__FACT_COLS_HINT] = "cols_hint",
        [KILN__FACT_SM] = "sm",
        [KILN__FACT_SHARED_LIMIT] = "shared_limit",
        [KILN__FACT_CORES] = "cores",
        [KILN__FACT_INPUTS] = "inputs",
        [KILN__FACT_CROSSING] = "crossing",
        [KILN__FACT_FULL] = "full",
        [KILN__FACT_LIVE] = "live",
        [KILN__FACT_SCANS] = "scans",
        [KILN__FACT_STAGES] = "fold_stages",
        [KILN__FACT_WALKS] = "walks",
        [KILN__FACT_FOLD] = "fold_bytes",
        [KILN__FACT_OPERATIONS] = "operations",
        [KILN__FACT_FULL_OUT] = "full_out",
        [KILN__FACT_COLUMN_OUT] = "column_out",
    };
    return names[fact];
}

kiln__fact kiln__fact_find(kiln__word name)
{
    int i = 0;
    while (i < KILN__FACTS && !kiln__word_is(name, kiln__fact_name((kiln__fact)i)))
        i++;
    return (kiln__fact)i;
}

/* Names that mean something else in specs, in formulas or, in upper case after KILN_, in units. */
static bool is_reserved(kiln__word name)
{
    static const char *const reserved[] = {
        "op",      "template", "dtype",   "out",      "layout", "math",      "round",    "target", "n",     "mixed",
        "indexed", "position", "outputs", "min",      "max",    "gcd",       "pow2",     "axis",   "keep",  "reduce",
        "reduces", "reverse",  "spread",  "widest",   "unit",   "fn",        "infinity", "real",   "whole", "typed",
        "list",    "all",      "each",    "argument", "output", "parameter", "dims",
    };
    static const char *const beginnings[] = { "place",  "all_",  "each_",  "type", "value",
                                              "result", "store", "layout", "out_", "scalar" };
    if (kiln__fact_find(name) < KILN__FACTS)
        return true;
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (kiln__word_is(name, reserved[i]))
            return true;
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
        if (name.length >= strlen(beginnings[i]) && memcmp(name.text, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    const char *end = memchr(name.text, '_', name.length); /* "i64_add" would be the name of what adds i64 */
    return end != NULL && kiln__dtype_parse(name.text, (size_t)(end - name.text)) != KILN__DTYPE_UNSET;
}

/* The text, or the texts, that the declaration sets. */
static char **place_of(reader *r)
{
    return (char **)((char *)r->out + r->row->place);
}

/* ---- Declarations of one text, or of formulas */

static kiln_status read_template(reader *r, kiln__word rest)
{
    if (!kiln__word_is_name(rest))
        return FAIL(r, "'%s' is not a name of lower-case letters, digits and '_'", kiln__word_quote(rest).text);
    *place_of(r) = copy(r, rest);
    return KILN_OK;
}

static kiln_status read_about(reader *r, kiln__word rest)
{
    kiln__text doc = { 0 };
    if (r->out->doc != NULL)
        kiln__text_printf(&doc, "%s ", r->out->doc);
    kiln__text_append_bytes(&doc, rest.text, rest.length);
    r->out->doc = copy(r, kiln__word_of(kiln__text_string(&doc)));
    r->out_of_memory = r->out_of_memory || doc.failed;
    kiln__text_fini(&doc);
    return KILN_OK;
}

static kiln_status read_reference(reader *r, kiln__word rest)
{
    if (rest.length == 0)
        return FAIL(r, "write reference OP, an op of the same inputs that computes the same");
    *place_of(r) = copy(r, rest);
    return KILN_OK;
}

/* "NAME NUMBER ... [-- TEXT]" */
static kiln_status read_tolerance(reader *r, kiln__word rest)
{
    char problem[400];
    bool good = kiln__tolerance_parse(&r->out->tolerance, kiln__word_cut(&rest, "--"), problem, sizeof(problem));
    return good ? KILN_OK : FAIL(r, "%s", problem);
}

static kiln_status read_tile(reader *r, kiln__word rest)
{
    *place_of(r) = copy_formula(r, rest);
    return KILN_OK;
}

/* "FORMULA [-- TEXT]" */
static kiln_status read_formula(reader *r, kiln__word rest)
{
    *place_of(r) = copy_formula(r, kiln__word_cut(&rest, "--"));
    return KILN_OK;
}

/* "X[, Y[, Z]] [-- TEXT]" */
static kiln_status read_triple(reader *r, kiln__word rest)
{
    rest = kiln__word_cut(&rest, "--");
    for (int i = 0; i == 0 || rest.text != NULL; i++) {
        kiln__word formula = kiln__word_cut_item(&rest);
        if (i == 3 || formula.length == 0)
            return FAIL(r, "write one to three formulas: X, Y, Z");
        place_of(r)[i] = copy_formula(r, formula);
    }
    return KILN_OK;
}

static kiln_status read_dtype(reader *r, kiln__word rest)
{
    kiln__template *out = r->out;
    while (rest.text != NULL) {
        kiln__word name = kiln__word_cut(&rest, ",");
        kiln__dtype dtype = kiln__dtype_parse(name.text, name.length);
        if (dtype == KILN__DTYPE_UNSET || out->dtype_count == KILN__DTYPE_SPECS_END || kiln__template_takes(out, dtype))
            return FAIL(r, "'%s' is not a new dtype: %s", kiln__word_quote(name).text,
                        kiln__word_choices(kiln__dtype_name_at, NULL).text);
        out->dtypes[out->dtype_count++] = dtype;
    }
    return KILN_OK;
}

static kiln_status read_inputs(reader *r, kiln__word rest)
{
    kiln__word high = rest;
    kiln__word low = kiln__word_cut(&high, "..");
    if (high.text == NULL)
        high = low;
    int64_t least, most;
    if (!kiln__param_number(low, &least) || !kiln__param_number(high, &most) || least < 1 || most < least ||
        most > KILN__INPUTS_MAX)
        return FAIL(r, "inputs '%s' is not a range within 1..%d", kiln__word_quote(rest).text, KILN__INPUTS_MAX);
    r->out->min_inputs = (uint32_t)least;
    r->out->max_inputs = (uint32_t)most;
    return KILN_OK;
}

/* ---- Sizes, arguments and the launch */

static kiln_status read_size(reader *r, kiln__word rest)
{
    kiln__arguments *out = &r->out->arguments;
    rest = kiln__word_cut(&rest, "--");
    do {
        kiln__word name = kiln__word_cut_item(&rest);
        if (out->size_count == KILN__SIZES_MAX)
            return FAIL(r, "more than %d sizes", KILN__SIZES_MAX);
        if (!kiln__word_is_name(name) || name.length >= KILN__ARG_NAME || kiln__arguments_has_size(out, name))
            return FAIL(r, "'%s' cannot name a size: it is taken, or not of lower-case letters, digits and '_'",
                        kiln__word_quote(name).text);
        if (is_reserved(name) && !kiln__word_is(name, "n"))
            return FAIL(r, "'%s' cannot name a size: it means something else", kiln__word_quote(name).text);
        out->sizes[out->size_count] = copy(r, name);
        out->size_count += out->sizes[out->size_count] != NULL;
    } while (rest.text != NULL);
    return KILN_OK;
}

static kiln_status read_shape(reader *r, kiln__declared_arg *arg, kiln__word shape)
{
    do {
        kiln__word formula = kiln__word_cut_item(&shape);
        if (arg->dims == KILN__DIMS_MAX || formula.length == 0)
            return FAIL(r, "arg %s: write its shape as [FORMULA, ...] of at most %d", arg->name, KILN__DIMS_MAX);
        arg->formulas[arg->dims++] = copy_formula(r, formula);
    } while (shape.text != NULL);
    return KILN_OK;
}

/* The words behind the shape of an array. False: one means nothing there. */
static bool take_words(kiln__declared_arg *arg, kiln__word words)
{
    const bool out = arg->role == KILN__ARG_OUT, in = arg->role == KILN__ARG_IN;
    while (words.length > 0) {
        kiln__word word = kiln__word_next(&words);
        bool *place = out && kiln__word_is(word, "inplace")                 ? &arg->in_place
                      : out && arg->each && kiln__word_is(word, "reduced")  ? &arg->reduced
                      : arg->reduced && kiln__word_is(word, "scanned")      ? &arg->scanned
                      : in && arg->each && kiln__word_is(word, "broadcast") ? &arg->broadcast
                                                                            : NULL;
        if (place == NULL || *place)
            return false;
        *place = true;
    }
    return true;
}

/* "TYPE[SHAPE]", after in, out or inout. */
static kiln_status read_array(reader *r, kiln__declared_arg *arg, kiln__word shape)
{
    kiln__word after = shape;
    shape = kiln__word_cut(&after, "]");
    if (shape.length == 0 || after.text == NULL || !take_words(arg, after))
        return FAIL(r, "arg %s: write its shape behind the type: %s[FORMULA, ...]%s", arg->name,
                    kiln__dtype_name(arg->type),
                    arg->role == KILN__ARG_OUT ? ", then inplace if it may be an input" : "");
    kiln_status status = read_shape(r, arg, shape);
    if (status == KILN_OK && (arg->broadcast || arg->reduced) && arg->dims != 2 && arg->dims != 3)
        return FAIL(r, "arg %s: %s is for arrays of rows and columns: write [ROWS, COLUMNS]", arg->name,
                    arg->broadcast ? "broadcast" : "reduced");
    return status;
}

/* "TYPE = FORMULA", or "TYPE" for a number given at launch, whose `value` has no text. */
static kiln_status read_number(reader *r, kiln__declared_arg *arg, kiln__word value)
{
    if ((kiln__dtype_is_real(arg->type) && kiln__dtype_bytes(arg->type) < 4) || arg->type == KILN__DTYPE_RESULT ||
        arg->type == KILN__DTYPE_INPUT)
        return FAIL(r, "arg %s: a number is no %s: write float", arg->name, kiln__dtype_name(arg->type));
    arg->role = value.text != NULL ? KILN__ARG_FORMULA : KILN__ARG_SCALAR;
    if (value.text != NULL)
        arg->formulas[0] = copy_formula(r, value);
    return KILN_OK;
}

/* "x... in TYPE[SHAPE]" is all inputs of the op, "out... out TYPE[SHAPE]" its outputs, "s... f64" its scalars. */
static kiln_status check_each(const reader *r, const kiln__declared_arg *arg, kiln__word name, bool is_array)
{
    bool inputs = kiln__word_is(name, "x..."), outputs = kiln__word_is(name, "out...");
    if (inputs && (!is_array || arg->role != KILN__ARG_IN))
        return FAIL(r, "arg x... is the inputs of the op: write arg x... in TYPE[FORMULA, ...]");
    if (outputs && (!is_array || arg->role != KILN__ARG_OUT))
        return FAIL(r, "arg out... is the outputs of the op: write arg out... out otype[FORMULA, ...]");
    if (!inputs && !outputs && (is_array || arg->role != KILN__ARG_SCALAR || arg->type != KILN__DTYPE_F64))
        return FAIL(r, "arg s... is the scalars of the op: write arg s... f64");
    return KILN_OK;
}

/* "strides": a struct with the extents and the strides of all arrays. */
static kiln_status read_strides(const reader *r, kiln__declared_arg *arg)
{
    if (kiln__arguments_strided(&r->out->arguments))
        return FAIL(r, "arg %s: the strides of all arrays are one argument, which is given twice", arg->name);
    arg->role = KILN__ARG_FORMULA;
    arg->type = KILN__DTYPE_U64;
    arg->strides = true;
    return KILN_OK;
}

/* "phase": the number of the phase. */
static kiln_status read_phase(const reader *r, kiln__declared_arg *arg)
{
    for (uint32_t i = 0; i < r->out->arguments.arg_count; i++)
        if (r->out->arguments.args[i].phase)
            return FAIL(r, "arg %s: the number of the phase is one argument, which is given twice", arg->name);
    arg->role = KILN__ARG_FORMULA;
    arg->type = KILN__DTYPE_U32;
    arg->phase = true;
    return KILN_OK;
}

/* "scratch FORMULA": memory of so many bytes. */
static kiln_status read_scratch(reader *r, kiln__declared_arg *arg, kiln__word bytes)
{
    for (uint32_t i = 0; i < r->out->arguments.arg_count; i++)
        if (r->out->arguments.args[i].scratch)
            return FAIL(r, "arg %s: the scratch memory is one argument, which is given twice", arg->name);
    if (bytes.length == 0)
        return FAIL(r, "arg %s: write scratch FORMULA, the bytes that a launch needs", arg->name);
    arg->role = KILN__ARG_FORMULA;
    arg->type = KILN__DTYPE_U64;
    arg->scratch = true;
    arg->formulas[0] = copy_formula(r, bytes);
    return KILN_OK;
}

static kiln_status read_arg(reader *r, kiln__word rest)
{
    static const char *const roles[] = { "in", "out", "inout" };
    static const char *const lists[] = { "x...", "out...", "s..." };
    kiln__arguments *out = &r->out->arguments;
    rest = kiln__word_cut(&rest, "--");
    kiln__word name = kiln__word_next(&rest);
    bool each = false, taken = false, is_array = false;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        each = each || kiln__word_is(name, lists[i]);
    kiln__word stored = { name.text, name.length - (each ? strlen("...") : 0) };
    for (uint32_t i = 0; i < out->arg_count; i++)
        taken = taken || kiln__word_is(stored, out->args[i].name);
    if (out->arg_count == KILN__DECLARED_MAX)
        return FAIL(r, "more than %d args", KILN__DECLARED_MAX);
    if (taken || (!each && !kiln__word_is_name(name)) || name.length >= KILN__ARG_NAME)
        return FAIL(r, "'%s' cannot name an arg: it is taken, or not of lower-case letters, digits and '_'",
                    kiln__word_quote(name).text);
    kiln__declared_arg *arg = &out->args[out->arg_count++];
    arg->each = each;
    arg->name = copy(r, stored);
    kiln__word after = rest;
    kiln__word role = kiln__word_next(&after);
    for (int i = 0; i < 3; i++)
        if (kiln__word_is(role, roles[i])) {
            arg->role = (kiln__arg_role)i;
            is_array = true;
            rest = after;
        }
    if (!is_array && !each && kiln__word_is(rest, "strides"))
        return read_strides(r, arg);
    if (!is_array && !each && kiln__word_is(rest, "phase"))
        return read_phase(r, arg);
    if (!is_array && !each && kiln__word_is(role, "scratch"))
        return read_scratch(r, arg, kiln__word_trim(after));
    kiln__word type = kiln__word_cut(&rest, is_array ? "[" : "=");
    if (!kiln__dtype_find(type, &arg->type))
        return FAIL(r, "arg %s: unknown type '%s': %s", arg->name, kiln__word_quote(type).text,
                    kiln__word_hint(type, kiln__dtype_type_at, NULL).text);
    if (is_array && !(each && arg->role == KILN__ARG_IN) && arg->type == KILN__DTYPE_INPUT)
        return FAIL(r, "arg %s: itype is the type of each input of the op: write arg x... in itype[FORMULA, ...]",
                    arg->name);
    kiln_status status = is_array ? read_array(r, arg, rest) : read_number(r, arg, rest);
    return status == KILN_OK && each ? check_each(r, arg, name, is_array) : status;
}

/* ---- Parameters */

static kiln_status read_range(const reader *r, kiln__declared_param *param, kiln__word values)
{
    kiln__word step = values;
    kiln__word high = kiln__word_cut(&step, "step");
    kiln__word low = kiln__word_cut(&high, "..");
    param->step = 1;
    if (!kiln__param_number(low, &param->low) || !kiln__param_number(high, &param->high) ||
        (step.text != NULL && !kiln__param_number(step, &param->step)) || param->low > param->high || param->step < 1)
        return FAIL(r, "'%s' is not a range: write LOW..HIGH or LOW..HIGH step STEP", kiln__word_quote(values).text);
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
    param->list = allocate(r->out, param->count * sizeof(*param->list));
    if (param->list == NULL)
        return KILN_ENOMEM;
    for (uint32_t i = 0; i < param->count; i++) {
        kiln__word item = kiln__word_cut(&values, ",");
        if (!kiln__param_number(item, &param->list[i]))
            return FAIL(r, "'%s' is not a whole number", kiln__word_quote(item).text);
        if (i > 0 && param->list[i] <= param->list[i - 1])
            return FAIL(r, "'%s' is out of order: list values from small to large", kiln__word_quote(item).text);
    }
    param->low = param->list[0];
    param->high = param->list[param->count - 1];
    param->step = 1;
    return KILN_OK;
}

static kiln_status read_words(reader *r, kiln__declared_param *param, kiln__word values)
{
    param->is_enum = true;
    param->words = allocate(r->out, param->count * sizeof(*param->words));
    if (param->words == NULL)
        return KILN_ENOMEM;
    for (uint32_t i = 0; i < param->count; i++) {
        kiln__word item = kiln__word_cut(&values, ",");
        if (!kiln__word_is_name(item) || kiln__param_word(param, item) >= 0 || find_let(r, item) != NULL)
            return FAIL(r, "'%s' is not a new word of lower-case letters, digits and '_'", kiln__word_quote(item).text);
        param->words[i] = copy(r, item);
    }
    return KILN_OK;
}

static kiln_status read_values(reader *r, kiln__declared_param *param, kiln__word values)
{
    if (values.length == 0)
        return FAIL(r, "param %s has no values: write a range, a list or words", param->name);
    if (kiln__range_is(values))
        return read_range(r, param, values);
    param->count = count_items(values);
    if (param->count > LIST_MAX)
        return FAIL(r, "param %s has more than %d values", param->name, LIST_MAX);
    bool is_number = values.text[0] >= '0' && values.text[0] <= '9';
    return is_number ? read_list(r, param, values) : read_words(r, param, values);
}

/* Whether a parameter or a formula can have a name. */
static bool is_free(const reader *r, kiln__word name)
{
    return kiln__word_is_name(name) && !is_reserved(name) && find_let(r, name) == NULL &&
           kiln__template_param(r->out, name.text, name.length) < 0;
}

static kiln_status read_param(reader *r, kiln__word rest)
{
    kiln__template *out = r->out;
    kiln__word doc = rest;
    kiln__word value = kiln__word_cut(&doc, "--");
    kiln__word values = kiln__word_cut(&value, "=");
    kiln__word name = kiln__word_next(&values);
    if (out->param_count == KILN__PARAMS_MAX)
        return FAIL(r, "more than %d params", KILN__PARAMS_MAX);
    if (!is_free(r, name))
        return FAIL(r, "'%s' cannot name a param: it is taken, or not of lower-case letters, digits and '_'",
                    kiln__word_quote(name).text);
    if (value.length == 0)
        return FAIL(r, "param %s has no default: write = and a formula or word", kiln__word_quote(name).text);
    kiln__declared_param *param = &out->params[out->param_count];
    out->param_count++;
    if (kiln__word_is(name, "block"))
        r->block_line = r->line;
    param->name = copy(r, name);
    param->values = copy(r, values);
    param->default_text = copy(r, value);
    param->default_formula = copy_formula(r, value);
    param->doc = copy(r, doc);
    if (r->out_of_memory)
        return KILN_ENOMEM;
    r->checks[r->check_count - 1].words = param;
    return read_values(r, param, values);
}

/* "NAME = FORMULA [-- TEXT]" */
static kiln_status read_let(reader *r, kiln__word rest)
{
    kiln__template *out = r->out;
    kiln__word doc = rest;
    kiln__word formula = kiln__word_cut(&doc, "--");
    kiln__word name = kiln__word_cut(&formula, "=");
    if (out->let_count == KILN__LETS_MAX)
        return FAIL(r, "more than %d lets", KILN__LETS_MAX);
    if (!is_free(r, name))
        return FAIL(r, "'%s' cannot name a formula: it is taken, or not of lower-case letters, digits and '_'",
                    kiln__word_quote(name).text);
    if (formula.length == 0)
        return FAIL(r, "write let NAME = FORMULA");
    kiln__let *made = &out->lets[out->let_count];
    *made = (kiln__let){ copy(r, name), copy(r, formula), copy_formula(r, formula), copy(r, doc) };
    out->let_count += !r->out_of_memory;
    return KILN_OK;
}

/* ---- Rules, values to try, entries */

static kiln_status read_rule(reader *r, kiln__require *rules, uint32_t *count, const char *what, kiln__word rest)
{
    kiln__word doc = rest;
    kiln__word formula = kiln__word_cut(&doc, "--");
    if (*count == KILN__REQUIRES_MAX)
        return FAIL(r, "more than %d %s", KILN__REQUIRES_MAX, what);
    rules[*count].text = copy(r, formula);
    rules[*count].formula = copy_formula(r, formula);
    rules[(*count)++].doc = copy(r, doc.length > 0 ? doc : formula);
    return KILN_OK;
}

static kiln_status read_require(reader *r, kiln__word rest)
{
    return read_rule(r, r->out->requires, &r->out->require_count, "requirements", rest);
}

static kiln_status read_bound(reader *r, kiln__word rest)
{
    return read_rule(r, r->out->bounds, &r->out->bound_count, "bounds", rest);
}

static kiln_status add_tune_value(const reader *r, kiln__tune *tune, kiln__word text)
{
    const kiln__declared_param *param = &r->out->params[tune->param];
    char problem[300];
    int64_t value;
    if (!kiln__param_parse(param, text.text, text.length, &value, problem, sizeof(problem)))
        return FAIL(r, "%s", problem);
    for (uint32_t i = 0; i < tune->count; i++)
        if (tune->values[i] == value)
            return FAIL(r, "%s=%s is given twice", param->name, kiln__word_quote(text).text);
    if (tune->count == KILN__TUNE_VALUES_MAX)
        return FAIL(r, "more than %d values of %s to try", KILN__TUNE_VALUES_MAX, param->name);
    tune->values[tune->count++] = value;
    return KILN_OK;
}

static kiln_status add_tune_range(const reader *r, kiln__tune *tune, kiln__word text)
{
    kiln__range range;
    const char *problem = kiln__range_parse(&range, text);
    if (problem != NULL)
        return FAIL(r, "'%s' %s", kiln__word_quote(text).text, problem);
    kiln_status status;
    do {
        char number[24];
        int length = snprintf(number, sizeof(number), "%" PRIu64, range.value);
        status = add_tune_value(r, tune, (kiln__word){ number, (size_t)length });
    } while (status == KILN_OK && kiln__range_next(&range));
    return status;
}

/* Cuts at the word "if"; without one, *rest gets a NULL text. */
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
        return FAIL(r, "more than %d tune lines", KILN__TUNES_MAX);
    if (param < 0)
        return FAIL(r, "write tune NAME VALUES, NAME a param declared above: '%s' is none",
                    kiln__word_quote(name).text);
    kiln__tune *tune = &out->tunes[out->tune_count++];
    tune->param = (uint32_t)param;
    tune->text = copy(r, values);
    if (condition.text != NULL)
        tune->condition = copy_formula(r, condition);
    tune->values = allocate(out, KILN__TUNE_VALUES_MAX * sizeof(*tune->values));
    kiln_status status = tune->values != NULL ? KILN_OK : KILN_ENOMEM;
    do {
        kiln__word item = kiln__word_cut(&values, ",");
        if (status == KILN_OK)
            status = kiln__range_is(item) ? add_tune_range(r, tune, item) : add_tune_value(r, tune, item);
    } while (status == KILN_OK && values.text != NULL);
    return status;
}

/* "NAME align FORMULA [if FORMULA]": the condition is one of the sizes. */
static kiln_status read_entry(reader *r, kiln__word rest)
{
    kiln__template *out = r->out;
    kiln__word name = kiln__word_next(&rest);
    kiln__word keyword = kiln__word_next(&rest);
    if (out->entry_count == KILN__ENTRIES_MAX)
        return FAIL(r, "more than %d entries", KILN__ENTRIES_MAX);
    if (!kiln__text_is_identifier(name.text, name.length) || name.length > ENTRY_NAME_MAX ||
        !kiln__word_is(keyword, "align"))
        return FAIL(r, "write entry NAME align FORMULA, NAME an identifier of at most %d characters", ENTRY_NAME_MAX);
    for (uint32_t i = 0; i < out->entry_count; i++)
        if (kiln__word_is(name, out->entries[i].name))
            return FAIL(r, "entry %s is given twice", out->entries[i].name);
    kiln__word align = cut_condition(&rest);
    out->entries[out->entry_count].name = copy(r, name);
    out->entries[out->entry_count].align = copy_formula(r, align);
    if (rest.text != NULL)
        out->arguments.conditions[out->entry_count] = copy_formula_of(r, rest, NAMES_SIZES);
    out->entry_count++;
    return KILN_OK;
}

/* Refuses what a template cannot have among the options that were taken for a unit. */
static kiln_status check_options(reader *r, const kiln__unit *unit)
{
    const char *value;
    if (unit->target.name[0] != '\0')
        return FAIL(r, "an option names the target %s: specs do that", unit->target.name);
    for (const char *at = NULL; (at = kiln__list_next(&unit->options, at)) != NULL;) {
        if (kiln__option_is(at, "-rdc", &value) || kiln__option_is(at, "-dlto", &value))
            return FAIL(r, "option '%.60s' is for sources: a template links nothing", at);
        for (const char *before = NULL; (before = kiln__list_next(&unit->options, before)) != at;)
            if (kiln__option_same(before, at))
                return FAIL(r, "option '%.60s' is given twice", at);
    }
    return KILN_OK;
}

/* One option or several, "-std=c++20 --maxrregcount 64". */
static kiln_status read_option(reader *r, kiln__word rest)
{
    kiln__template *out = r->out;
    kiln__unit unit = { 0 };
    kiln_report why = KILN_INIT(kiln_report);
    if (rest.length == 0)
        return FAIL(r, "write option OPTION, such as -std=c++20");
    while (rest.length > 0) {
        if (out->option_count == KILN__TEMPLATE_OPTIONS_MAX)
            return FAIL(r, "more than %d words of options", KILN__TEMPLATE_OPTIONS_MAX);
        out->options[out->option_count] = copy(r, kiln__word_next(&rest));
        if (out->options[out->option_count++] == NULL)
            return KILN_ENOMEM;
    }
    kiln_status status = kiln__unit_take_options(&unit, out, &why);
    if (status != KILN_OK)
        status = FAIL(r, "%s", why.message);
    else
        status = unit.options.bytes.failed ? KILN_ENOMEM : check_options(r, &unit);
    r->out_of_memory = r->out_of_memory || status == KILN_ENOMEM;
    kiln__unit_fini_source(&unit);
    return status;
}

/* ---- Lines */

#define PLACE(field) offsetof(kiln__template, field)

static const declaration declarations[DECLARATIONS] = {
    { "template", read_template, true, PLACE(name), NAMES_FEW },
    { "about", read_about, false, 0, NAMES_FEW },
    { "inputs", read_inputs, true, 0, NAMES_FEW },
    { "let", read_let, false, 0, NAMES_SIZES },
    { "param", read_param, false, 0, NAMES_PARAMS },
    { "tune", read_tune, false, 0, NAMES_FEW },
    { "require", read_require, false, 0, NAMES_PARAMS },
    { "bound", read_bound, false, 0, NAMES_PARAMS },
    { "tile", read_tile, true, PLACE(tile), NAMES_PARAMS },
    { "entry", read_entry, false, 0, NAMES_PARAMS },
    { "dtype", read_dtype, false, 0, NAMES_FEW },
    { "reference", read_reference, true, PLACE(reference), NAMES_FEW },
    { "tolerance", read_tolerance, true, 0, NAMES_FEW },
    { "size", read_size, false, 0, NAMES_FEW },
    { "arg", read_arg, false, 0, NAMES_SIZES },
    { "grid", read_triple, true, PLACE(arguments.grid), NAMES_SIZES },
    { "block", read_triple, true, PLACE(arguments.block), NAMES_PARAMS },
    { "shared", read_formula, true, PLACE(arguments.shared), NAMES_PARAMS },
    { "phases", read_formula, true, PLACE(arguments.phases), NAMES_PARAMS },
    { "joint", read_formula, true, PLACE(joint), NAMES_PARAMS },
    { "picks", read_formula, true, PLACE(picks), NAMES_PARAMS },
    { "traffic", read_formula, true, PLACE(arguments.traffic), NAMES_SIZES },
    { "option", read_option, false, 0, NAMES_FEW },
};

static const char *keyword_at(const void *data, size_t i)
{
    (void)data;
    return i < DECLARATIONS ? declarations[i].keyword : NULL;
}

static kiln_status read_line(reader *r, kiln__word line)
{
    kiln__word rest = kiln__word_trim(line);
    kiln__word keyword = kiln__word_next(&rest);
    if (keyword.length == 0)
        return KILN_OK;
    for (int i = 0; i < DECLARATIONS; i++) {
        r->row = &declarations[i];
        if (!kiln__word_is(keyword, r->row->keyword))
            continue;
        if (r->row->once && r->given[i] != 0)
            return FAIL(r, "'%s' is given twice, first on line %u", r->row->keyword, r->given[i]);
        r->given[i] = r->line;
        kiln_status status = r->row->read(r, rest);
        if (status == KILN_ENOMEM || r->out_of_memory)
            return kiln__fail_memory(r->report, KILN__STAGE_SPEC);
        return status == KILN_OK && r->too_long ? FAIL(r, "a formula has more than %d bytes", FORMULA_MAX) : status;
    }
    return FAIL(r, "unknown declaration '%s': %s", kiln__word_quote(keyword).text,
                kiln__word_hint(keyword, keyword_at, NULL).text);
}

static kiln_status read_lines(reader *r, const char *text)
{
    kiln_status status = KILN_OK;
    r->out->body = text;
    r->out->body_line = 1;
    while (*text != '\0' && status == KILN_OK) {
        size_t length = (size_t)(strchrnul(text, '\n') - text);
        const char *next = text + length + (text[length] == '\n');
        r->line++;
        if (strncmp(text, "//!", 3) == 0) {
            status = read_line(r, (kiln__word){ text + 3, length - 3 });
            if (r->out->body == text) {
                r->out->body = next;
                r->out->body_line = r->line + 1;
            }
        }
        text = next;
    }
    return status;
}

/* ---- Checks of the whole */

/* Names that only a template with an argument of strides knows. */
static bool is_of_strides(kiln__word name)
{
    return kiln__word_is(name, "cols") || kiln__word_is(name, "rows") || kiln__word_is(name, "span");
}

/* The names of a formula: a kiln__formula_lookup whose values are all 0. */
typedef struct scope {
    const kiln__template *template;
    const check *check;
} scope;

static bool is_known(const void *data, const char *name, size_t length, int64_t *value)
{
    const scope *s = data;
    const check *c = s->check;
    kiln__word word = { name, length };
    *value = 0;
    return kiln__fact_find(word) < KILN__FACTS ||
           (c->names >= NAMES_PARAMS && kiln__template_param(s->template, name, length) >= 0) ||
           (c->words != NULL && c->words->is_enum && kiln__param_word(c->words, word) >= 0) ||
           (c->names == NAMES_SIZES && kiln__arguments_has_size(&s->template->arguments, word)) ||
           (c->names == NAMES_SIZES && s->template->tile != NULL && kiln__word_is(word, "tile")) ||
           (c->names == NAMES_SIZES && kiln__template_strided(s->template) && is_of_strides(word));
}

static kiln_status check_formulas(const reader *r)
{
    char problem[256];
    for (uint32_t i = 0; i < r->check_count; i++) {
        const scope s = { r->out, &r->checks[i] };
        kiln_status status = kiln__formula_check(r->checks[i].formula, is_known, &s, problem, sizeof(problem));
        if (status == KILN_ENOMEM)
            return kiln__fail_memory(r->report, KILN__STAGE_SPEC);
        if (status != KILN_OK)
            return fail(r, r->checks[i].line, "%s", problem);
    }
    return KILN_OK;
}

static kiln_status check_missing(const reader *r)
{
    const kiln__template *out = r->out;
    bool block = out->arguments.block[0] != NULL || kiln__template_param(out, "block", strlen("block")) >= 0;
    const char *missing = out->name == NULL                ? "template NAME"
                          : out->arguments.arg_count == 0  ? "arg NAME out TYPE[FORMULA, ...]"
                          : out->arguments.grid[0] == NULL ? "grid X, Y, Z"
                          : !block                         ? "block X, Y, Z"
                          : out->entry_count == 0          ? "entry NAME align FORMULA"
                                                           : NULL;
    return missing != NULL ? FAIL(r, "the declaration '%s' is missing", missing) : KILN_OK;
}

/* A name in a formula has one meaning. */
static kiln_status check_names(const reader *r)
{
    const kiln__template *out = r->out;
    const kiln__arguments *arguments = &out->arguments;
    for (uint32_t i = 0; i < arguments->size_count; i++)
        if (kiln__template_param(out, arguments->sizes[i], strlen(arguments->sizes[i])) >= 0)
            return FAIL(r, "'%s' names a size and a param", arguments->sizes[i]);
    for (uint32_t i = 0; i < out->let_count; i++)
        if (kiln__arguments_has_size(arguments, kiln__word_of(out->lets[i].name)) ||
            strcmp(out->lets[i].name, "tile") == 0)
            return FAIL(r, "'%s' names a formula, and a size or the tile", out->lets[i].name);
    if (out->tile != NULL && (kiln__template_param(out, "tile", strlen("tile")) >= 0 ||
                              kiln__arguments_has_size(arguments, kiln__word_of("tile"))))
        return FAIL(r, "'tile' names the tile and a param or size");
    return KILN_OK;
}

/* Strides are those of the inputs and the outputs of an op, whose elements they take from 0 to n - 1. */
static kiln_status check_strides(const reader *r)
{
    const kiln__template *out = r->out;
    const kiln__arguments *arguments = &out->arguments;
    uint32_t arrays = 0;
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        arrays += arguments->args[i].role <= KILN__ARG_INOUT;
    if (!kiln__arguments_strided(arguments))
        return KILN_OK;
    if (!kiln__arguments_elementwise(arguments) || arrays != 2 || !kiln__arguments_each(arguments, KILN__ARG_IN) ||
        !kiln__arguments_each(arguments, KILN__ARG_OUT))
        return FAIL(r, "strides are those of an op: write size n, arg out... out otype[n] inplace and arg x... in "
                       "itype[n], and no other arrays");
    for (uint32_t i = 0; i < out->param_count + arguments->size_count; i++) {
        const char *name = i < out->param_count ? out->params[i].name : arguments->sizes[i - out->param_count];
        if (is_of_strides(kiln__word_of(name)))
            return FAIL(r, "'%s' is known from the strides: give the size or param another name", name);
    }
    for (uint32_t i = 0; i < out->let_count; i++)
        if (is_of_strides(kiln__word_of(out->lets[i].name)))
            return FAIL(r, "'%s' is known from the strides: give the formula another name", out->lets[i].name);
    return KILN_OK;
}

/* The inputs of the op are one argument, "x...". */
static kiln_status check_op(const reader *r)
{
    const kiln__template *out = r->out;
    const kiln__arguments *arguments = &out->arguments;
    bool takes_op = kiln__template_takes_op(out), taken = false;
    bool each = kiln__arguments_each(arguments, KILN__ARG_IN),
         others = kiln__arguments_each(arguments, KILN__ARG_OUT) || kiln__arguments_each(arguments, KILN__ARG_SCALAR);
    for (uint32_t i = 0; i < arguments->arg_count; i++) {
        for (uint32_t k = 1; k < KILN__INPUTS_MAX; k++)
            taken = taken || strcmp(arguments->args[i].name, kiln__input_names[k]) == 0;
    }
    if (takes_op && !each)
        return FAIL(r, "the inputs of the op are no arguments: write arg x... in TYPE[FORMULA, ...]");
    if (!takes_op && (each || others))
        return FAIL(r, "arg %s stands for those of an op, and the template takes none: write inputs LOW..HIGH",
                    each ? "x..." : "out... or s...");
    if (takes_op && taken)
        return FAIL(r, "x, y, z and x4 to x8 are the inputs of the op: give other args other names");
    if (out->reference != NULL && takes_op)
        return FAIL(r, "a reference is for a template without an op: leave inputs out");
    if (out->reference != NULL && !kiln__arguments_flat(arguments))
        return FAIL(r, "a reference is for a template of one size, which is the extent of every array");
    return KILN_OK;
}

static kiln_status check_complete(reader *r, bool trusted)
{
    static const kiln__dtype usual[] = { KILN__DTYPE_F32, KILN__DTYPE_F64, KILN__DTYPE_F16, KILN__DTYPE_BF16 };
    kiln__template *out = r->out;
    char **block = &out->arguments.block[0];
    kiln_status status = check_missing(r);
    if (status == KILN_OK)
        status = check_names(r);
    if (status == KILN_OK)
        status = check_op(r);
    if (status == KILN_OK)
        status = check_strides(r);
    if (status == KILN_OK && *block == NULL) {
        const kiln__declared_param *param = &out->params[kiln__template_param(out, "block", strlen("block"))];
        if (param->is_enum || param->low < 1)
            return fail(r, r->block_line, "param block must be a number of threads, 1 or more");
        *block = copy(r, kiln__word_of("block"));
    }
    if (out->dtype_count == 0)
        for (; out->dtype_count < sizeof(usual) / sizeof(usual[0]); out->dtype_count++)
            out->dtypes[out->dtype_count] = usual[out->dtype_count];
    if (status == KILN_OK && out->doc == NULL)
        out->doc = copy(r, kiln__word_of(""));
    if (status == KILN_OK && r->out_of_memory)
        return kiln__fail_memory(r->report, KILN__STAGE_SPEC);
    return status == KILN_OK && !trusted ? check_formulas(r) : status;
}

static bool passes_position(const char *text)
{
    return text != NULL && strstr(text, "KILN_POSITION") != NULL;
}

kiln_status kiln__template_read(kiln__template **out, const char *text, const char *cpu_text, const char *origin,
                                bool trusted, kiln_report *report)
{
    reader r = { .out = kiln__calloc(1, sizeof(*r.out)), .report = report };
    *out = NULL;
    if (r.out == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    text = kiln__text_skip_mark(text);
    cpu_text = cpu_text != NULL ? kiln__text_skip_mark(cpu_text) : NULL;
    r.out->origin = origin != NULL ? copy(&r, kiln__word_of(origin)) : NULL;
    r.out->text = origin != NULL ? copy(&r, kiln__word_of(text)) : text;
    r.out->cpu_text = origin != NULL && cpu_text != NULL ? copy(&r, kiln__word_of(cpu_text)) : cpu_text;
    kiln_status status = r.out_of_memory ? kiln__fail_memory(report, KILN__STAGE_SPEC) : read_lines(&r, r.out->text);
    r.out->indexed = kiln__arguments_reduce(&r.out->arguments) || /* rows.h passes it */
                     (passes_position(r.out->body) && (r.out->cpu_text == NULL || passes_position(r.out->cpu_text)));
    r.out->includes = origin != NULL && kiln__text_next_include(r.out->body) != NULL;
    r.out->cpu_includes = origin != NULL && kiln__text_next_include(r.out->cpu_text) != NULL;
    if (status == KILN_OK)
        status = check_complete(&r, trusted);
    if (status == KILN_OK)
        *out = r.out;
    else
        kiln__template_free(r.out);
    return status;
}

void kiln__template_free(kiln__template *template)
{
    if (template == NULL)
        return;
    for (kiln__owned *at = template->owned, *next; at != NULL; at = next) {
        next = at->next;
        kiln__free(at);
    }
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
    return false;
}

kiln__dtype kiln__template_dtype(const kiln__template *template)
{
    return template->dtypes[0];
}

static bool declares(const kiln__template *template, kiln__dtype type)
{
    for (uint32_t i = 0; i < template->arguments.arg_count; i++)
        if (template->arguments.args[i].type == type)
            return true;
    return false;
}

bool kiln__template_has_result(const kiln__template *template)
{
    return declares(template, KILN__DTYPE_RESULT);
}

bool kiln__template_broadcasts(const kiln__template *template)
{
    for (uint32_t i = 0; i < template->arguments.arg_count; i++)
        if (template->arguments.args[i].broadcast)
            return true;
    return false;
}

bool kiln__template_strided(const kiln__template *template)
{
    return kiln__arguments_strided(&template->arguments);
}

bool kiln__template_has_types(const kiln__template *template)
{
    return declares(template, KILN__DTYPE_INPUT);
}

kiln_status kiln__template_check_op(const kiln__template *template, const kiln__real *op, kiln_report *report)
{
#define REFUSE(...) kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, __VA_ARGS__)
    if (!kiln__template_takes_op(template))
        return REFUSE("template %s declares no inputs and takes no op: leave op out", template->name);
    uint32_t least = template->min_inputs, most = template->max_inputs;
    if (op != NULL && (op->inputs < least || op->inputs > most) && least == most)
        return REFUSE("template %s takes ops of %u input%s, this one has %u", template->name, least,
                      least == 1 ? "" : "s", op->inputs);
    if (op != NULL && (op->inputs < least || op->inputs > most))
        return REFUSE("template %s takes ops of %u to %u inputs, this one has %u", template->name, least, most,
                      op->inputs);
    if (op != NULL && op->outputs > 1 && !kiln__arguments_each(&template->arguments, KILN__ARG_OUT))
        return REFUSE("template %s takes ops of one output, this one has %u", template->name, op->outputs);
    if (op != NULL && op->count > 0 && (op->reductions > 0) != kiln__arguments_reduce(&template->arguments))
        return REFUSE("template %s takes ops that %s an axis: leave template out", template->name,
                      op->reductions > 0 ? "do not reduce" : "reduce");
    if (op != NULL && op->scans && !kiln__arguments_scan(&template->arguments))
        return REFUSE("template %s takes ops that do not scan an axis: leave template out", template->name);
    if (op != NULL && op->indexed && !template->indexed)
        return REFUSE("template %s takes no ops of the index: its text, or its twin's, does not pass KILN_POSITION",
                      template->name);
    if (op != NULL && op->scalars > 0 && !kiln__arguments_each(&template->arguments, KILN__ARG_SCALAR))
        return REFUSE("template %s takes no scalars: write a number in place of ?%s", template->name,
                      op->scalar_names[0]);
    return KILN_OK;
#undef REFUSE
}
