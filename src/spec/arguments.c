#include "spec/arguments.h"

#include "base/alloc.h"
#include "base/text.h"
#include "spec/param.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { THREADS_MAX = 1024 };

static const struct {
    const char *name, *other;
    uint32_t bytes;
} types[KILN__ARG_TYPE_END] = { [KILN__ARG_DTYPE] = { "dtype", "", 0 },
#define ROW(name, other, bytes) [KILN__ARG_##name] = { #name, other, bytes },
                                KILN__ARG_TYPES(ROW)
#undef ROW
};

const char *kiln__arg_type_name(kiln__arg_type type)
{
    return types[type].name;
}

uint32_t kiln__arg_type_bytes(kiln__arg_type type)
{
    return types[type].bytes;
}

kiln__arg_type kiln__arg_type_of(kiln__dtype dtype)
{
    static const kiln__arg_type known[KILN__DTYPE_END] = { [KILN__DTYPE_F32] = KILN__ARG_f32,
                                                           [KILN__DTYPE_F64] = KILN__ARG_f64,
                                                           [KILN__DTYPE_F16] = KILN__ARG_f16,
                                                           [KILN__DTYPE_BF16] = KILN__ARG_bf16 };
    return known[dtype];
}

static const char *type_at(const void *data, size_t i)
{
    (void)data;
    return i < KILN__ARG_TYPE_END ? types[i].name : NULL;
}

static bool find_type(kiln__word word, kiln__arg_type *out)
{
    for (int i = 0; i < KILN__ARG_TYPE_END; i++)
        if (kiln__word_is(word, types[i].name) || (types[i].other[0] != '\0' && kiln__word_is(word, types[i].other))) {
            *out = (kiln__arg_type)i;
            return true;
        }
    return false;
}

static const char *keep(char **out, kiln__word word, char *problem)
{
    *out = kiln__memdup(word.length > 0 ? word.text : "", word.length);
    problem[0] = '\0';
    return *out != NULL ? NULL : problem;
}

/* Cuts at the first comma outside parentheses; *rest gets a NULL text after the last. */
static kiln__word cut_item(kiln__word *rest)
{
    size_t length = 0;
    for (int depth = 0; length < rest->length && (depth > 0 || rest->text[length] != ','); length++)
        depth += (rest->text[length] == '(') - (rest->text[length] == ')');
    kiln__word item = { rest->text, length };
    *rest = length < rest->length ? (kiln__word){ rest->text + length + 1, rest->length - length - 1 }
                                  : (kiln__word){ NULL, 0 };
    return kiln__word_trim(item);
}

static kiln__word without_text(kiln__word rest)
{
    return kiln__word_cut(&rest, "--");
}

bool kiln__arguments_has_size(const kiln__arguments *arguments, kiln__word name)
{
    for (uint32_t i = 0; i < arguments->size_count; i++)
        if (kiln__word_is(name, arguments->sizes[i]))
            return true;
    return false;
}

const char *kiln__arguments_size(kiln__arguments *out, kiln__word rest, char *problem, size_t size)
{
    const char *failed = NULL;
    rest = without_text(rest);
    do {
        kiln__word name = cut_item(&rest);
        if (out->size_count == KILN__SIZES_MAX) {
            snprintf(problem, size, "more than %d sizes", KILN__SIZES_MAX);
            return problem;
        }
        if (!kiln__word_is_name(name) || name.length >= KILN__ARG_NAME || kiln__arguments_has_size(out, name)) {
            snprintf(problem, size,
                     "'%s' cannot name a size: it is taken, or not of lower-case letters, digits and '_'",
                     kiln__word_quote(name).text);
            return problem;
        }
        failed = keep(&out->sizes[out->size_count], name, problem);
        out->size_count += failed == NULL;
    } while (failed == NULL && rest.text != NULL);
    return failed;
}

/* "x..." is all inputs of the op. */
static bool is_each(kiln__word name)
{
    return kiln__word_is(name, "x...");
}

static const char *read_shape(kiln__declared_arg *arg, kiln__word shape, char *problem, size_t size)
{
    const char *failed = NULL;
    do {
        kiln__word formula = cut_item(&shape);
        if (arg->dims == KILN__DIMS_MAX || formula.length == 0) {
            snprintf(problem, size, "arg %s: write its shape as [FORMULA, ...] of at most %d", arg->name,
                     KILN__DIMS_MAX);
            return problem;
        }
        failed = keep(&arg->formulas[arg->dims], formula, problem);
        arg->dims += failed == NULL;
    } while (failed == NULL && shape.text != NULL);
    return failed;
}

/* "TYPE[SHAPE]" after in, out or inout; "TYPE = FORMULA" or "TYPE" for a number. */
static const char *read_type(kiln__declared_arg *arg, bool is_array, kiln__word rest, char *problem, size_t size)
{
    kiln__word value = rest;
    kiln__word type = kiln__word_cut(&value, is_array ? "[" : "=");
    if (!find_type(type, &arg->type)) {
        snprintf(problem, size, "arg %s: unknown type '%s': %s", arg->name, kiln__word_quote(type).text,
                 kiln__word_hint(type, type_at, NULL).text);
        return problem;
    }
    if (is_array) {
        kiln__word after = value;
        value = kiln__word_cut(&after, "]");
        arg->in_place = after.text != NULL && arg->role == KILN__ARG_OUT && kiln__word_is(after, "inplace");
        if (value.length == 0 || after.text == NULL || (after.length > 0 && !arg->in_place)) {
            snprintf(problem, size, "arg %s: write its shape behind the type: %s[FORMULA, ...]%s", arg->name,
                     types[arg->type].name, arg->role == KILN__ARG_OUT ? ", then inplace if it may be an input" : "");
            return problem;
        }
        return read_shape(arg, value, problem, size);
    }
    if ((arg->type == KILN__ARG_f16 || arg->type == KILN__ARG_bf16)) {
        snprintf(problem, size, "arg %s: a number is no %s: write float", arg->name, types[arg->type].name);
        return problem;
    }
    arg->role = value.text != NULL ? KILN__ARG_FORMULA : KILN__ARG_SCALAR;
    return value.text != NULL ? keep(&arg->formulas[0], value, problem) : NULL;
}

const char *kiln__arguments_arg(kiln__arguments *out, kiln__word rest, char *problem, size_t size)
{
    static const char *const roles[] = { "in", "out", "inout" };
    rest = without_text(rest);
    kiln__word name = kiln__word_next(&rest);
    bool each = is_each(name), taken = false, is_array = false;
    kiln__word stored = { name.text, each ? 1 : name.length };
    for (uint32_t i = 0; i < out->arg_count; i++)
        taken = taken || kiln__word_is(stored, out->args[i].name);
    if (out->arg_count == KILN__ARGS_MAX) {
        snprintf(problem, size, "more than %d args", KILN__ARGS_MAX);
        return problem;
    }
    if (taken || (!each && !kiln__word_is_name(name)) || name.length >= KILN__ARG_NAME) {
        snprintf(problem, size, "'%s' cannot name an arg: it is taken, or not of lower-case letters, digits and '_'",
                 kiln__word_quote(name).text);
        return problem;
    }
    kiln__declared_arg *arg = &out->args[out->arg_count];
    const char *failed = keep(&arg->name, stored, problem);
    if (failed != NULL)
        return failed;
    arg->each = each;
    out->arg_count++;
    kiln__word after = rest;
    kiln__word role = kiln__word_next(&after);
    for (int i = 0; i < 3; i++)
        if (kiln__word_is(role, roles[i])) {
            arg->role = (kiln__arg_role)i;
            is_array = true;
        }
    if (each && (!is_array || arg->role != KILN__ARG_IN)) {
        snprintf(problem, size, "arg x... is the inputs of the op: write arg x... in TYPE[FORMULA, ...]");
        return problem;
    }
    return read_type(arg, is_array, is_array ? after : rest, problem, size);
}

const char *kiln__arguments_triple(char *out[3], kiln__word rest, char *problem, size_t size)
{
    const char *failed = NULL;
    rest = without_text(rest);
    for (int i = 0; failed == NULL && rest.text != NULL; i++) {
        kiln__word formula = cut_item(&rest);
        if (i == 3 || formula.length == 0) {
            snprintf(problem, size, "write one to three formulas: X, Y, Z");
            return problem;
        }
        failed = keep(&out[i], formula, problem);
    }
    return failed;
}

void kiln__arguments_fini(kiln__arguments *arguments)
{
    for (uint32_t i = 0; i < arguments->size_count; i++)
        kiln__free(arguments->sizes[i]);
    for (uint32_t i = 0; i < arguments->arg_count; i++) {
        kiln__free(arguments->args[i].name);
        for (int j = 0; j < KILN__DIMS_MAX; j++)
            kiln__free(arguments->args[i].formulas[j]);
    }
    for (int i = 0; i < 3; i++) {
        kiln__free(arguments->grid[i]);
        kiln__free(arguments->block[i]);
    }
    kiln__free(arguments->shared);
    kiln__free(arguments->traffic);
}

const char *kiln__arg_name(const kiln__declared_arg *arg, uint32_t k)
{
    static const char *const inputs[] = { "x", "y", "z" };
    return arg->each ? inputs[k] : arg->name;
}

bool kiln__arguments_flat(const kiln__arguments *arguments)
{
    bool flat = arguments->size_count == 1;
    for (uint32_t i = 0; i < arguments->arg_count && flat; i++) {
        const kiln__declared_arg *arg = &arguments->args[i];
        bool is_array = arg->role <= KILN__ARG_INOUT;
        flat = arg->role == KILN__ARG_FORMULA ||
               (is_array && arg->dims == 1 && strcmp(arg->formulas[0], arguments->sizes[0]) == 0);
    }
    return flat;
}

bool kiln__arguments_elementwise(const kiln__arguments *arguments)
{
    bool elementwise = kiln__arguments_flat(arguments);
    for (uint32_t i = 0; i < arguments->arg_count && elementwise; i++) {
        const kiln__declared_arg *arg = &arguments->args[i];
        elementwise = arg->role == KILN__ARG_IN || arg->role == KILN__ARG_FORMULA || arg->in_place;
    }
    return elementwise;
}

uint32_t kiln__arguments_inputs(const kiln__arguments *arguments, uint32_t op_inputs)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        if (arguments->args[i].role == KILN__ARG_IN || arguments->args[i].role == KILN__ARG_INOUT)
            count += arguments->args[i].each ? op_inputs : 1;
    return count;
}

uint32_t kiln__arguments_count(const kiln__arguments *arguments, uint32_t op_inputs)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        count += arguments->args[i].each ? op_inputs : 1;
    return count;
}

/* ---- Plans */

typedef struct planner {
    const kiln__arguments *arguments;
    kiln__formula_lookup lookup;
    const void *data;
    kiln__plan *plan; /* without its text */
    kiln__text text;
    kiln_status status;
    kiln_report *report;
} planner;

/* Appends a formula with numbers in place of parameters; a name that is followed by '(' is a function. */
static uint32_t add_text(planner *p, const char *formula)
{
    uint32_t start = (uint32_t)p->text.length;
    while (*formula != '\0') {
        size_t length = 0;
        int64_t value;
        while (kiln__word_is_name_char(formula[length]))
            length++;
        bool name = length > 0 && (formula[0] < '0' || formula[0] > '9');
        const char *after = formula + length + strspn(formula + length, " \t");
        if (name && *after != '(' && !kiln__arguments_has_size(p->arguments, (kiln__word){ formula, length }) &&
            p->lookup(p->data, formula, length, &value))
            kiln__text_printf(&p->text, "(%" PRId64 ")", value);
        else
            kiln__text_append_bytes(&p->text, formula, length > 0 ? length : 1);
        formula += length > 0 ? length : 1;
    }
    kiln__text_append_bytes(&p->text, "", 1);
    return start;
}

static uint32_t add_formula(planner *p, const char *formula)
{
    const char *names[KILN__SIZES_MAX];
    char problem[256];
    uint32_t index = 0;
    for (uint32_t i = 0; i < p->arguments->size_count; i++)
        names[i] = p->arguments->sizes[i];
    kiln_status status = p->status;
    if (status == KILN_OK)
        status = kiln__formulas_add(&p->plan->formulas, formula, p->lookup, p->data, names, p->arguments->size_count,
                                    &index, problem, sizeof(problem));
    if (status == KILN_OK)
        p->plan->texts[index] = add_text(p, formula);
    else if (p->status == KILN_OK)
        p->status = status == KILN_ENOMEM ? kiln__fail_memory(p->report, KILN__STAGE_SPEC)
                                          : kiln__fail(p->report, status, KILN__STAGE_SPEC, 0, "%s", problem);
    return index;
}

/* Input number `input` of the op, where the argument stands for all of them. */
static void add_arg(planner *p, const kiln__declared_arg *arg, uint32_t input, kiln__arg_type dtype)
{
    kiln__plan_arg *out = &p->plan->args[p->plan->arg_count++];
    kiln__text_copy(out->name, sizeof(out->name), kiln__arg_name(arg, input));
    out->role = arg->role;
    out->in_place = arg->in_place;
    out->type = arg->type == KILN__ARG_DTYPE ? dtype : arg->type;
    out->bytes = types[out->type].bytes;
    out->dims = arg->dims;
    p->plan->outputs += arg->role == KILN__ARG_OUT || arg->role == KILN__ARG_INOUT;
    p->plan->inputs += arg->role == KILN__ARG_IN;
    p->plan->scalars += arg->role == KILN__ARG_SCALAR;
    for (uint32_t i = 0; i < KILN__DIMS_MAX; i++)
        if (arg->formulas[i] != NULL)
            out->formulas[i] = add_formula(p, arg->formulas[i]);
}

static kiln_status evaluate(planner *p, const char *formula, const char *what, int64_t most, uint32_t *out)
{
    int64_t value = 1;
    char problem[256];
    kiln_status status =
        formula != NULL ? kiln__formula_eval(formula, p->lookup, p->data, &value, problem, sizeof(problem)) : KILN_OK;
    if (status == KILN_ENOMEM)
        return kiln__fail_memory(p->report, KILN__STAGE_SPEC);
    if (status != KILN_OK)
        return kiln__fail(p->report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "%s: %s", what, problem);
    if (value < (most == KILN__SHARED_MAX ? 0 : 1) || value > most)
        return kiln__fail(p->report, KILN_ESPEC, KILN__STAGE_SPEC, 0,
                          "%s %s is %" PRId64 ", which is not within %d..%" PRId64, what, formula, value,
                          most != KILN__SHARED_MAX, most);
    *out = (uint32_t)value;
    return KILN_OK;
}

static kiln_status set_block(planner *p)
{
    kiln_status status = KILN_OK;
    for (int i = 0; i < 3 && status == KILN_OK; i++)
        status = evaluate(p, p->arguments->block[i], "block", i == 2 ? 64 : THREADS_MAX, &p->plan->block[i]);
    uint64_t threads = (uint64_t)p->plan->block[0] * p->plan->block[1] * p->plan->block[2];
    if (status == KILN_OK && threads > THREADS_MAX)
        status =
            kiln__fail(p->report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "a block of %u x %u x %u is more than %d threads",
                       p->plan->block[0], p->plan->block[1], p->plan->block[2], THREADS_MAX);
    if (status == KILN_OK && p->arguments->shared != NULL)
        status = evaluate(p, p->arguments->shared, "shared", KILN__SHARED_MAX, &p->plan->shared);
    return status;
}

static void pair_arrays(kiln__plan *plan)
{
    for (uint32_t i = 0; i < plan->arg_count; i++)
        for (uint32_t j = 0; j < plan->arg_count; j++) {
            kiln__arg_role role = plan->args[i].role;
            bool written = role == KILN__ARG_OUT || role == KILN__ARG_INOUT;
            if (i == j || !written || plan->args[j].role > KILN__ARG_INOUT)
                continue;
            plan->pairs[plan->pair_count].written = (uint8_t)i;
            plan->pairs[plan->pair_count++].other = (uint8_t)j;
        }
}

static void fill_plan(planner *p, kiln__arg_type dtype, uint32_t op_inputs)
{
    const kiln__arguments *arguments = p->arguments;
    for (uint32_t i = 0; i < arguments->size_count; i++)
        kiln__text_copy(p->plan->sizes[p->plan->size_count++], KILN__ARG_NAME, arguments->sizes[i]);
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        for (uint32_t k = 0; k < (arguments->args[i].each ? op_inputs : 1); k++)
            add_arg(p, &arguments->args[i], k, dtype);
    pair_arrays(p->plan);
    for (uint32_t i = 0; i < 3; i++) {
        p->plan->grid[i] = add_formula(p, arguments->grid[i] != NULL ? arguments->grid[i] : "1");
        if (arguments->grid[i] != NULL)
            p->plan->grid_dims = i + 1;
    }
    p->plan->traffic = arguments->traffic != NULL ? add_formula(p, arguments->traffic) : UINT32_MAX;
    p->plan->flat = kiln__arguments_flat(arguments);
    p->plan->elementwise = kiln__arguments_elementwise(arguments);
}

/* Takes the texts into the plan. */
static kiln_status join_texts(planner *p)
{
    p->plan->total = sizeof(*p->plan) + p->text.length;
    kiln__plan *whole = p->text.failed ? NULL : kiln__realloc(p->plan, p->plan->total);
    if (whole == NULL)
        return kiln__fail_memory(p->report, KILN__STAGE_SPEC);
    memcpy(whole->text, p->text.data, p->text.length);
    p->plan = whole;
    return KILN_OK;
}

kiln_status kiln__plan_make(kiln__plan **out, const kiln__arguments *arguments, kiln__formula_lookup lookup,
                            const void *data, kiln__arg_type dtype, uint32_t op_inputs, kiln_report *report)
{
    planner p = { .arguments = arguments, .lookup = lookup, .data = data, .report = report };
    *out = NULL;
    p.plan = kiln__calloc(1, sizeof(*p.plan));
    if (p.plan == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    p.status = set_block(&p);
    if (p.status == KILN_OK)
        fill_plan(&p, dtype, op_inputs);
    if (p.status == KILN_OK)
        p.status = join_texts(&p);
    kiln__text_fini(&p.text);
    if (p.status == KILN_OK)
        *out = p.plan;
    else
        kiln__free(p.plan);
    return p.status;
}

const char *kiln__plan_text(const kiln__plan *plan, uint32_t formula)
{
    return plan->text + plan->texts[formula];
}

kiln_status kiln__plan_fail_value(const kiln__plan *plan, uint32_t formula, kiln__number_or value, const char *what,
                                  kiln_report *report)
{
    kiln__word text = { kiln__plan_text(plan, formula), strlen(kiln__plan_text(plan, formula)) };
    if (value.missing != NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "%s: formula '%s': %s", what,
                          kiln__word_quote(text).text, value.missing);
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "%s: %s is %" PRId64 ", below 0", what, text.text,
                      value.value);
}

kiln_status kiln__plan_elements(const kiln__plan *plan, uint32_t arg, const kiln__formula_values *values, uint64_t *out,
                                kiln_report *report)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < plan->args[arg].dims; i++) {
        uint64_t extent;
        kiln_status status =
            kiln__plan_value(plan, plan->args[arg].formulas[i], values, plan->args[arg].name, &extent, report);
        if (status != KILN_OK)
            return status;
        if (__builtin_mul_overflow(count, extent, &count) || count > (uint64_t)INT64_MAX / 8)
            return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "%s is larger than any memory",
                              plan->args[arg].name);
    }
    *out = count;
    return KILN_OK;
}
