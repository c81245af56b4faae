/* Facts about declared arguments, and plans: declarations compiled for the parameters of a spec. */
#include "spec/arguments.h"

#include "base/alloc.h"
#include "base/number.h"
#include "base/text.h"
#include <inttypes.h>

enum {
    THREADS_MAX = 1024,
    BLOCK_Z_MAX = 64,
    PHASES_MAX = 64,
    KEPT_TWOS = 4 /* of the factors of a row's elements: a word of the narrowest type has 2^4 */
};

bool kiln__arguments_has_size(const kiln__arguments *arguments, kiln__word name)
{
    for (uint32_t i = 0; i < arguments->size_count; i++)
        if (kiln__word_is(name, arguments->sizes[i]))
            return true;
    return false;
}

/* Whether there are so many sizes, and they are the shape of every array. */
static bool sizes_are_shape(const kiln__arguments *arguments, uint32_t count)
{
    bool equal = arguments->size_count == count;
    for (uint32_t i = 0; i < arguments->arg_count && equal; i++) {
        const kiln__declared_arg *arg = &arguments->args[i];
        bool is_array = arg->role <= KILN__ARG_INOUT;
        equal = !is_array || arg->dims == count;
        for (uint32_t d = 0; d < count && equal && is_array; d++)
            equal = strcmp(arg->formulas[d], arguments->sizes[d]) == 0;
    }
    return equal;
}

bool kiln__arguments_flat(const kiln__arguments *arguments)
{
    return sizes_are_shape(arguments, 1);
}

bool kiln__arguments_rows(const kiln__arguments *arguments)
{
    return sizes_are_shape(arguments, 2);
}

bool kiln__arguments_elementwise(const kiln__arguments *arguments)
{
    bool elementwise = kiln__arguments_flat(arguments);
    for (uint32_t i = 0; i < arguments->arg_count && elementwise; i++) {
        const kiln__declared_arg *arg = &arguments->args[i];
        elementwise = (arg->role != KILN__ARG_OUT && arg->role != KILN__ARG_INOUT) || arg->in_place;
    }
    return elementwise;
}

bool kiln__arguments_reduce(const kiln__arguments *arguments)
{
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        if (arguments->args[i].reduced)
            return true;
    return false;
}

bool kiln__arguments_scan(const kiln__arguments *arguments)
{
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        if (arguments->args[i].scanned)
            return true;
    return false;
}

bool kiln__arguments_strided(const kiln__arguments *arguments)
{
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        if (arguments->args[i].strides)
            return true;
    return false;
}

static uint32_t count_arrays(const kiln__arguments *arguments, kiln__arg_role role, uint32_t each)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        if (arguments->args[i].role == role || arguments->args[i].role == KILN__ARG_INOUT)
            count += arguments->args[i].each ? each : 1;
    return count;
}

uint32_t kiln__arguments_inputs(const kiln__arguments *arguments, uint32_t op_inputs)
{
    return count_arrays(arguments, KILN__ARG_IN, op_inputs);
}

uint32_t kiln__arguments_outputs(const kiln__arguments *arguments, uint32_t op_outputs)
{
    return count_arrays(arguments, KILN__ARG_OUT, op_outputs);
}

bool kiln__arguments_each(const kiln__arguments *arguments, kiln__arg_role role)
{
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        if (arguments->args[i].each && arguments->args[i].role == role)
            return true;
    return false;
}

kiln__operands kiln__operands_plain(kiln__dtype dtype, uint32_t inputs)
{
    kiln__operands out = { .dtype = dtype, .input_count = inputs, .output_count = 1 };
    out.outputs[0].name = "out";
    out.outputs[0].type = dtype;
    for (uint32_t k = 0; k < inputs; k++) {
        out.inputs[k].name = kiln__input_names[k];
        out.inputs[k].type = dtype;
    }
    return out;
}

uint32_t kiln__arg_count(const kiln__declared_arg *arg, const kiln__operands *operands)
{
    return !arg->each                      ? 1
           : arg->role == KILN__ARG_IN     ? operands->input_count
           : arg->role == KILN__ARG_SCALAR ? operands->scalar_count
                                           : operands->output_count;
}

const char *kiln__arg_name(const kiln__declared_arg *arg, const kiln__operands *operands, uint32_t k)
{
    return !arg->each                      ? arg->name
           : arg->role == KILN__ARG_IN     ? operands->inputs[k].name
           : arg->role == KILN__ARG_SCALAR ? operands->scalars[k]
                                           : operands->outputs[k].name;
}

kiln__dtype kiln__arg_type(const kiln__declared_arg *arg, const kiln__operands *operands, uint32_t k)
{
    return arg->type == KILN__DTYPE_UNSET    ? operands->dtype
           : arg->type == KILN__DTYPE_RESULT ? operands->outputs[arg->role == KILN__ARG_OUT ? k : 0].type
           : arg->type == KILN__DTYPE_INPUT  ? operands->inputs[k].type
                                             : arg->type;
}

uint32_t kiln__operands_dims(const kiln__operands *operands)
{
    return operands->dims > 0 ? operands->dims : 1;
}

uint32_t kiln__arg_bytes(const kiln__declared_arg *arg, const kiln__operands *operands, uint32_t k)
{
    uint32_t words = kiln__operands_dims(operands) * (2 + operands->output_count + operands->input_count);
    return arg->strides ? words * (uint32_t)sizeof(uint64_t) : kiln__dtype_bytes(kiln__arg_type(arg, operands, k));
}

bool kiln__arg_is_column(const kiln__declared_arg *arg, const kiln__operands *operands, uint32_t k)
{
    return arg->role == KILN__ARG_IN && arg->each && (operands->columns >> k & 1) != 0;
}

/* How the k-th argument lies, where the declared one stands for all of its kind. */
static kiln__layout layout_of(const kiln__declared_arg *arg, const kiln__operands *operands, uint32_t k)
{
    if (!arg->each || arg->role > KILN__ARG_INOUT)
        return KILN__LAYOUT_FULL;
    return arg->role == KILN__ARG_IN ? operands->inputs[k].layout : operands->outputs[k].layout;
}

const char *kiln__arg_extent(const kiln__declared_arg *arg, const kiln__operands *operands, uint32_t k, uint32_t dim)
{
    kiln__layout layout = layout_of(arg, operands, k);
    bool one = layout == KILN__LAYOUT_ONE || layout == KILN__LAYOUT_SAME || (dim != 1 && layout == KILN__LAYOUT_ROW) ||
               (dim == 1 && layout == KILN__LAYOUT_COLUMN);
    return one ? "1" : arg->formulas[dim];
}

uint32_t kiln__arguments_count(const kiln__arguments *arguments, const kiln__operands *operands)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        count += kiln__arg_count(&arguments->args[i], operands);
    return count;
}

/* ---- Plans */

typedef struct planner {
    const kiln__arguments *arguments;
    kiln__formula_lookup lookup;
    const void *data;
    const kiln__operands *operands;
    kiln__plan *plan; /* without its text */
    kiln__text text;
    kiln_status status; /* once it is not KILN_OK, nothing more is added */
    kiln_report *report;
} planner;

#define FAIL(p, ...)                                                                             \
    do {                                                                                         \
        if ((p)->status == KILN_OK)                                                              \
            (p)->status = kiln__fail((p)->report, KILN_ESPEC, KILN__STAGE_SPEC, 0, __VA_ARGS__); \
    } while (0)

/* The names that are known at a launch: the sizes, and of strided arguments cols, rows and span. */
static uint32_t list_variables(const kiln__arguments *arguments, const char *out[KILN__VARIABLES_MAX])
{
    uint32_t count = 0;
    for (; count < arguments->size_count; count++)
        out[count] = arguments->sizes[count];
    if (kiln__arguments_strided(arguments)) {
        out[count++] = "cols";
        out[count++] = "rows";
        out[count++] = "span";
    }
    return count;
}

static bool is_variable(const kiln__arguments *arguments, kiln__word name)
{
    const char *names[KILN__VARIABLES_MAX];
    uint32_t count = list_variables(arguments, names);
    for (uint32_t i = 0; i < count; i++)
        if (kiln__word_is(name, names[i]))
            return true;
    return false;
}

/* Appends a formula with numbers in place of parameters. */
static void add_text(planner *p, const char *formula)
{
    const char *at = formula;
    kiln__word name;
    int64_t value;
    while (kiln__formula_next_name(&at, &name))
        if (!is_variable(p->arguments, name) && p->lookup(p->data, name.text, name.length, &value)) {
            kiln__text_append_bytes(&p->text, formula, (size_t)(name.text - formula));
            kiln__text_printf(&p->text, "(%" PRId64 ")", value);
            formula = at;
        }
    kiln__text_append_bytes(&p->text, formula, strlen(formula) + 1);
}

static uint32_t add_formula(planner *p, const char *formula)
{
    char problem[256];
    const char *names[KILN__VARIABLES_MAX];
    uint32_t index = 0, count = list_variables(p->arguments, names);
    if (p->status != KILN_OK)
        return 0;
    p->status = kiln__formulas_add(&p->plan->formulas, formula, p->lookup, p->data, names, count, &index, problem,
                                   sizeof(problem));
    if (p->status == KILN_OK) {
        p->plan->texts[index] = (uint32_t)p->text.length;
        add_text(p, formula);
    } else {
        kiln__fail(p->report, p->status, KILN__STAGE_SPEC, 0, "%s", problem);
    }
    return index;
}

/* The k-th argument that the declared one is. */
static void add_arg(planner *p, const kiln__declared_arg *arg, uint32_t k)
{
    kiln__plan_arg *out = &p->plan->args[p->plan->arg_count++];
    kiln__text_copy(out->name, sizeof(out->name), kiln__arg_name(arg, p->operands, k));
    out->role = arg->role;
    out->in_place = arg->in_place;
    out->column = kiln__arg_is_column(arg, p->operands, k);
    out->declared = arg->type;
    out->type = kiln__arg_type(arg, p->operands, k);
    out->bytes = kiln__arg_bytes(arg, p->operands, k);
    out->layout = layout_of(arg, p->operands, k);
    out->strides = arg->strides;
    out->scratch = arg->scratch;
    out->phase = arg->phase;
    if (arg->scratch)
        p->plan->scratch = p->plan->arg_count - 1;
    if (arg->phase)
        p->plan->phase = p->plan->arg_count - 1;
    out->dims = arg->dims;
    if (arg->strides)
        p->plan->dims = kiln__operands_dims(p->operands);
    p->plan->outputs += arg->role == KILN__ARG_OUT || arg->role == KILN__ARG_INOUT;
    p->plan->inputs += arg->role == KILN__ARG_IN;
    p->plan->scalars += arg->role == KILN__ARG_SCALAR;
    for (uint32_t i = 0; i < KILN__DIMS_MAX; i++)
        if (arg->formulas[i] != NULL)
            out->formulas[i] = add_formula(p, kiln__arg_extent(arg, p->operands, k, i));
}

/* Calculates a formula of parameters, where there is one. */
static void evaluate(planner *p, const char *formula, const char *what, int64_t least, int64_t most, uint32_t *out)
{
    int64_t value = 0;
    char problem[256];
    if (formula == NULL || p->status != KILN_OK)
        return;
    p->status = kiln__formula_eval(formula, p->lookup, p->data, &value, problem, sizeof(problem));
    if (p->status != KILN_OK)
        kiln__fail(p->report, p->status, KILN__STAGE_SPEC, 0, "%s: %s", what, problem);
    else if (value < least || value > most)
        FAIL(p, "%s %s is %" PRId64 ", which is not within %" PRId64 "..%" PRId64, what, formula, value, least, most);
    *out = (uint32_t)value;
}

static void set_block(planner *p)
{
    uint32_t *block = p->plan->block;
    for (int i = 0; i < 3; i++) {
        block[i] = 1;
        evaluate(p, p->arguments->block[i], "block", 1, i == 2 ? BLOCK_Z_MAX : THREADS_MAX, &block[i]);
    }
    if ((uint64_t)block[0] * block[1] * block[2] > THREADS_MAX)
        FAIL(p, "a block of %u x %u x %u is more than %d threads", block[0], block[1], block[2], THREADS_MAX);
    evaluate(p, p->arguments->shared, "shared", 0, INT32_MAX, &p->plan->shared);
    p->plan->phases = 1;
    evaluate(p, p->arguments->phases, "phases", 1, PHASES_MAX, &p->plan->phases);
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

static void fill_plan(planner *p)
{
    const kiln__arguments *arguments = p->arguments;
    p->plan->scratch = p->plan->phase = UINT32_MAX;
    for (uint32_t i = 0; i < arguments->size_count; i++)
        kiln__text_copy(p->plan->sizes[p->plan->size_count++], KILN__ARG_NAME, arguments->sizes[i]);
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        for (uint32_t k = 0; k < kiln__arg_count(&arguments->args[i], p->operands); k++)
            add_arg(p, &arguments->args[i], k);
    pair_arrays(p->plan);
    for (uint32_t i = 0; i < 3; i++) {
        p->plan->grid[i] = add_formula(p, arguments->grid[i] != NULL ? arguments->grid[i] : "1");
        if (arguments->grid[i] != NULL)
            p->plan->grid_dims = i + 1;
    }
    p->plan->traffic = arguments->traffic != NULL ? add_formula(p, arguments->traffic) : UINT32_MAX;
    for (uint32_t i = 0; i < KILN__ENTRIES_MAX; i++)
        p->plan->conditions[i] =
            arguments->conditions[i] != NULL ? add_formula(p, arguments->conditions[i]) : UINT32_MAX;
    p->plan->flat = kiln__arguments_flat(arguments);
    p->plan->counts = p->operands->counts;
    p->plan->elementwise = kiln__arguments_elementwise(arguments) && !p->operands->indexed && p->plan->dims == 0;
}

kiln_status kiln__plan_make(kiln__plan **out, const kiln__arguments *arguments, kiln__formula_lookup lookup,
                            const void *data, const kiln__operands *operands, kiln_report *report)
{
    planner p = { .arguments = arguments, .lookup = lookup, .data = data, .operands = operands, .report = report };
    p.plan = kiln__calloc(1, sizeof(*p.plan));
    *out = NULL;
    if (p.plan != NULL) {
        set_block(&p);
        fill_plan(&p);
        p.plan->total = sizeof(*p.plan) + p.text.length;
    }
    if (p.plan != NULL && p.status == KILN_OK && !p.text.failed)
        *out = kiln__realloc(p.plan, p.plan->total);
    if (*out != NULL)
        memcpy((*out)->text, p.text.data, p.text.length);
    else
        kiln__free(p.plan);
    kiln__text_fini(&p.text);
    return *out == NULL && p.status == KILN_OK ? kiln__fail_memory(report, KILN__STAGE_SPEC) : p.status;
}

const char *kiln__plan_text(const kiln__plan *plan, uint32_t formula)
{
    return plan->text + plan->texts[formula];
}

kiln_status kiln__plan_fail_value(const kiln__plan *plan, uint32_t formula, kiln__number_or value, const char *what,
                                  kiln_report *report)
{
    const char *text = kiln__plan_text(plan, formula);
    if (value.missing != NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "%s: formula '%s': %s", what,
                          kiln__word_quote(kiln__word_of(text)).text, value.missing);
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "%s: %s is %" PRId64 ", below 0", what, text,
                      value.value);
}

void kiln__plan_extents(const kiln__plan *plan, int64_t n, int64_t out[KILN__LOOP_DIMS])
{
    const unsigned share = n > 0 ? kiln__number_octave((uint64_t)n) / plan->dims : 0;
    unsigned twos = n > 0 ? (unsigned)__builtin_ctzll((uint64_t)n) : 0;
    twos = twos > KEPT_TWOS ? twos - KEPT_TWOS : 0;
    for (uint32_t d = plan->dims - 1; d > 0; d--) {
        unsigned own = share < twos ? share : twos;
        out[d] = INT64_C(1) << own;
        n >>= own;
        twos -= own;
    }
    out[0] = n;
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
