/* Completes specs: the values of names in formulas, defaults for open fields, and the constraints of the template, with
 * the nearest values that hold. */
#include "spec/fields.h"

#include "base/number.h"
#include "spec/rows.h"
#include <inttypes.h>
#include <stdio.h>

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_SPEC, 0, __VA_ARGS__)

/* ---- Names in formulas: the template's parameters, those below, and tile */

/* A parameter's index; or a fact, from NAME_FACTS on. */
enum { NAME_FACTS = KILN__PARAMS_MAX, NAME_END = NAME_FACTS + KILN__FACTS };
#define NAME_OF(fact) (NAME_FACTS + KILN__FACT_##fact)

typedef struct scope {
    const kiln__fields *spec;
    const kiln__declared_param *words; /* an enumeration whose words are names too, or NULL */
    uint64_t tile;                     /* the value of the name "tile"; 0: there is none */
} scope;

/* -1 if there is none. */
static int find_name(const kiln__template *template, kiln__word name)
{
    const kiln__fact fact = kiln__fact_find(name);
    return fact < KILN__FACTS ? NAME_FACTS + (int)fact : kiln__template_param(template, name.text, name.length);
}

/* The nearest power of two to the number of elements that a spec expects, as wisdom and manifests know it; a large one
 * if it names none. Formulas can multiply it. */
static int64_t hint_of(const kiln__fields *spec)
{
    const unsigned most = 48;
    const uint64_t n = kiln__fields_size(spec).n;
    const unsigned octave = n > 0 ? kiln__number_octave(n) : most;
    return INT64_C(1) << (octave < most ? octave : most);
}

/* The elements of a row that a spec expects. */
static int64_t cols_of(const kiln__fields *spec)
{
    const uint64_t usual = 4096, most = INT64_MAX / 4096; /* formulas can multiply it */
    const uint64_t named = kiln__fields_size(spec).cols, cols = named > 0 ? named : usual;
    return (int64_t)(cols < most ? cols : most);
}

/* How many outputs have one value for a row. */
static int64_t column_out_of(const kiln__fields *spec)
{
    int64_t count = 0;
    for (uint32_t k = 0; k < kiln__spec_outputs(spec); k++)
        count += kiln__spec_out_layout(spec, k) == KILN__LAYOUT_COLUMN;
    return count;
}

static int64_t fact_of(const kiln__fields *spec, kiln__fact fact)
{
    switch (fact) {
    case KILN__FACT_BYTES:
        return (int64_t)kiln__spec_bytes(spec);
    case KILN__FACT_OUT_BYTES:
        return (int64_t)kiln__spec_out_bytes(spec);
    case KILN__FACT_N_HINT:
        return hint_of(spec);
    case KILN__FACT_COLS_HINT:
        return cols_of(spec);
    case KILN__FACT_SM:
        return spec->target.sm;
    case KILN__FACT_SHARED_LIMIT:
        return kiln__target_shared_limit(&spec->target);
    case KILN__FACT_CORES:
        return kiln__target_cores(&spec->target);
    case KILN__FACT_INPUTS:
        return (int64_t)kiln__spec_inputs(spec);
    case KILN__FACT_CROSSING:
        return kiln__spec_inputs_of(spec, KILN__LAYOUT_CROSS);
    case KILN__FACT_FULL:
        return kiln__spec_inputs_of(spec, KILN__LAYOUT_FULL);
    case KILN__FACT_LIVE:
        return kiln__rows_live(spec);
    case KILN__FACT_FULL_OUT:
        return (int64_t)kiln__spec_outputs(spec) - column_out_of(spec);
    case KILN__FACT_COLUMN_OUT:
        return column_out_of(spec);
    case KILN__FACT_SCANS:
        return spec->op->scans;
    case KILN__FACT_STAGES:
        return kiln__rows_stages(spec, false);
    case KILN__FACT_WALKS:
        return kiln__rows_stages(spec, true);
    case KILN__FACT_FOLD:
        return kiln__rows_fold_bytes(spec);
    default:
        return (int64_t)spec->op->operations;
    }
}

/* A kiln__formula_lookup. An unset parameter reads as 0. */
static bool look_up(const void *data, const char *name, size_t length, int64_t *value)
{
    const scope *s = data;
    kiln__word word = { name, length };
    int index = s->words != NULL ? kiln__param_word(s->words, word) : -1;
    bool is_tile = s->tile > 0 && kiln__word_is(word, "tile");
    int id = index < 0 && !is_tile ? find_name(s->spec->template, word) : -1;
    *value = index >= 0         ? index
             : is_tile          ? (int64_t)s->tile
             : id >= NAME_FACTS ? fact_of(s->spec, (kiln__fact)(id - NAME_FACTS))
             : id >= 0          ? s->spec->params[id]
                                : 0;
    return index >= 0 || is_tile || id >= 0;
}

static bool has_value(const kiln__fields *spec, int id)
{
    switch (id) {
    case NAME_OF(BYTES):
    case NAME_OF(STAGES):
    case NAME_OF(WALKS):
    case NAME_OF(FOLD):
        return spec->dtype != KILN__DTYPE_UNSET;
    case NAME_OF(OUT_BYTES):
        return kiln__spec_result(spec, 0) != KILN__DTYPE_UNSET;
    case NAME_OF(N_HINT):
    case NAME_OF(COLS_HINT):
        return true;
    case NAME_OF(SM):
    case NAME_OF(SHARED_LIMIT):
    case NAME_OF(CORES):
        return spec->target_set;
    case NAME_OF(INPUTS):
    case NAME_OF(CROSSING):
    case NAME_OF(FULL):
    case NAME_OF(LIVE):
    case NAME_OF(FULL_OUT):
    case NAME_OF(COLUMN_OUT):
    case NAME_OF(SCANS):
    case NAME_OF(OPERATIONS):
        return spec->op_set || !kiln__template_takes_op(spec->template);
    default:
        return id >= 0 && spec->param_set[id];
    }
}

kiln_status kiln__spec_eval(const kiln__fields *spec, const char *formula, int64_t *out, kiln_report *report)
{
    const scope s = { .spec = spec };
    char problem[256];
    kiln_status status = kiln__formula_eval(formula, look_up, &s, out, problem, sizeof(problem));
    return status == KILN_OK ? KILN_OK : FAIL(report, status, "template %s: %s", spec->template->name, problem);
}

/* ---- Constraints */

static void append_param(const kiln__declared_param *param, int64_t value, kiln__text *out)
{
    char buffer[KILN__NUMBER_SIZE];
    kiln__word text = kiln__param_text(param, value, buffer);
    kiln__text_printf(out, "%s=%.*s", param->name, (int)text.length, text.text);
}

static void append_subject(const kiln__fields *spec, int id, kiln__text *out)
{
    if (id == NAME_OF(OUT_BYTES) && !kiln__spec_has_other_results(spec))
        return;
    kiln__text_append(out, out->length > 0 ? " " : "");
    if (id == NAME_OF(BYTES)) {
        kiln__text_append(out, "dtype=");
        kiln__spec_value(spec, "dtype", out);
    } else if (id == NAME_OF(OUT_BYTES)) {
        kiln__text_append(out, "out=");
        kiln__spec_value(spec, "out", out);
    } else if (id == NAME_OF(N_HINT))
        kiln__text_printf(out, "n=%" PRId64, hint_of(spec));
    else if (id == NAME_OF(COLS_HINT))
        kiln__text_printf(out, "cols=%" PRId64, cols_of(spec));
    else if (id == NAME_OF(SM) || id == NAME_OF(SHARED_LIMIT) || id == NAME_OF(CORES))
        kiln__text_printf(out, "target=%s", spec->target.name);
    else if (id >= NAME_FACTS)
        kiln__text_printf(out, "%s=%" PRId64, kiln__fact_name((kiln__fact)(id - NAME_FACTS)),
                          fact_of(spec, (kiln__fact)(id - NAME_FACTS)));
    else
        append_param(&spec->template->params[id], spec->params[id], out);
}

/* The allowed value before (direction -1) or after (1) an allowed one; false at the end. */
static bool step_value(const kiln__declared_param *param, int64_t *value, int direction)
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

/* Whether everything that can be checked holds with another value of a parameter. */
static bool is_answer(const kiln__fields *given, const kiln__target *target, int id, int64_t value)
{
    kiln__fields changed = *given, full;
    changed.params[id] = value;
    changed.param_set[id] = true;
    if (changed.target_set)
        target = &changed.target;
    return target != NULL && has_value(&changed, NAME_OF(INPUTS))
               ? kiln__spec_resolve(&full, &changed, target, NULL) == KILN_OK
               : kiln__requires_check(&changed, &changed, NULL, NULL) == KILN_OK;
}

/* The nearest values of a parameter, one below and one above, that are answers. */
static uint32_t find_answers(const kiln__fields *given, const kiln__fields *spec, const kiln__target *target, int id,
                             int64_t answers[2])
{
    enum { STEPS_MAX = 64 };
    uint32_t count = 0;
    for (int direction = -1; direction <= 1; direction += 2) {
        int64_t value = spec->params[id];
        for (int i = 0; i < STEPS_MAX && step_value(&spec->template->params[id], &value, direction); i++)
            if (is_answer(given, target, id, value)) {
                answers[count++] = value;
                break;
            }
    }
    return count;
}

/* Appends "; nearest: elems=4, elems=8 or vector=2", or nothing where a change of one parameter is not enough. */
static void append_answers(const kiln__fields *given, const kiln__fields *spec, const kiln__target *target,
                           const int *ids, uint32_t id_count, kiln__text *out)
{
    struct {
        const kiln__declared_param *param;
        int64_t value;
    } found[2 * NAME_END];
    uint32_t count = 0;
    for (uint32_t i = 0; i < id_count; i++) {
        int64_t answers[2];
        uint32_t more = ids[i] < KILN__PARAMS_MAX ? find_answers(given, spec, target, ids[i], answers) : 0;
        for (uint32_t j = 0; j < more; j++) {
            found[count].param = &spec->template->params[ids[i]];
            found[count++].value = answers[j];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        kiln__text_append(out, i == 0 ? "; nearest: " : i + 1 < count ? ", " : " or ");
        append_param(found[i].param, found[i].value, out);
    }
}

/* The names of a formula, each once, in its order. False: one has no value yet. */
static bool find_subjects(const kiln__fields *spec, const char *formula, int ids[NAME_END], uint32_t *count)
{
    kiln__word name;
    *count = 0;
    while (kiln__formula_next_name(&formula, &name)) {
        int id = find_name(spec->template, name);
        uint32_t i = 0;
        if (!has_value(spec, id))
            return false;
        while (i < *count && ids[i] != id)
            i++;
        ids[i] = id;
        *count += i == *count;
    }
    return true;
}

static kiln_status refuse(const kiln__fields *given, const kiln__fields *spec, const kiln__target *target,
                          const char *formula, const char *why, kiln_report *report)
{
    int ids[NAME_END];
    uint32_t count;
    kiln__text message = { 0 };
    find_subjects(spec, formula, ids, &count);
    for (uint32_t i = 0; i < count; i++)
        append_subject(spec, ids[i], &message);
    kiln__text_printf(&message, ": %s", why);
    append_answers(given, spec, target, ids, count, &message);
    kiln_status status = FAIL(report, KILN_ESPEC, "%s", kiln__text_string(&message));
    kiln__text_fini(&message);
    return status;
}

static bool has_values(const kiln__fields *spec, const char *formula)
{
    int ids[NAME_END];
    uint32_t count;
    return find_subjects(spec, formula, ids, &count);
}

static kiln_status check_require(const kiln__fields *given, const kiln__fields *spec, const kiln__target *target,
                                 const kiln__require *require, kiln_report *report)
{
    int64_t holds = 0;
    if (!has_values(spec, require->formula))
        return KILN_OK;
    kiln_status status = kiln__spec_eval(spec, require->formula, &holds, report);
    if (status != KILN_OK || holds != 0)
        return status;
    return report != NULL ? refuse(given, spec, target, require->formula, require->doc, report) : KILN_ESPEC;
}

/* Every template requires that a block has the shared memory that it declares. */
static kiln_status check_shared(const kiln__fields *given, const kiln__fields *spec, const kiln__target *target,
                                kiln_report *report)
{
    const char *formula = spec->template->arguments.shared;
    char why[256];
    int64_t bytes = 0;
    if (formula == NULL || !has_value(spec, NAME_OF(SHARED_LIMIT)) || !has_values(spec, formula))
        return KILN_OK;
    int32_t limit = kiln__target_shared_limit(&spec->target);
    kiln_status status = kiln__spec_eval(spec, formula, &bytes, report);
    if (status != KILN_OK || bytes <= limit)
        return status;
    snprintf(why, sizeof(why), "shared %.100s is %" PRId64 " bytes, and a block has at most %" PRId32 " on %s", formula,
             bytes, limit, spec->target.name);
    return report != NULL ? refuse(given, spec, target, formula, why, report) : KILN_ESPEC;
}

kiln_status kiln__requires_check(const kiln__fields *given, const kiln__fields *spec, const kiln__target *target,
                                 kiln_report *report)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < spec->template->require_count && status == KILN_OK; i++)
        status = check_require(given, spec, target, &spec->template->requires[i], report);
    return status == KILN_OK ? check_shared(given, spec, target, report) : status;
}

/* ---- Filling and resolving */

static kiln_status fill_param(kiln__fields *spec, uint32_t index, kiln_report *report)
{
    const kiln__declared_param *param = &spec->template->params[index];
    const scope s = { .spec = spec, .words = param->is_enum ? param : NULL };
    char problem[256], buffer[KILN__NUMBER_SIZE];
    int64_t value = 0;
    kiln_status status = kiln__formula_eval(param->default_formula, look_up, &s, &value, problem, sizeof(problem));
    if (status != KILN_OK)
        return FAIL(report, status, "default of %s: %s", param->name, problem);
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

static kiln_status check_portable(const kiln__fields *spec, kiln_report *report)
{
    const char *name = kiln__expr_unportable(spec->op, &spec->catalog->ops);
    if (name == NULL)
        return KILN_OK;
    return FAIL(report, KILN_ESPEC, "op %s calls a function of CUDA that has no portable form: %s", name,
                kiln__math_default(spec->template) == KILN__MATH_TORCH
                    ? "use math=torch"
                    : "the template computes with math=portable alone");
}

static kiln_status fill(kiln__fields *out, const kiln__target *target, kiln_report *report)
{
    if (out->reduce != KILN__TOTAL_NONE)
        return FAIL(
            report, KILN_ESPEC,
            "reduce= is for tensors (kiln_apply): a kernel gives the values of rows, and another their total, by "
            "the specs of kiln_apply_parts");
    if (!kiln__axis_same(&out->axis, &kiln__axis_last) || out->keep)
        return FAIL(report, KILN_ESPEC,
                    out->op_set && out->op->reductions == 0
                        ? "axis and keep are for ops that reduce or scan an axis, and this one does not"
                        : "axis and keep are for tensors (kiln_apply): a kernel reduces the columns of rows, or with "
                          "template=columns the second of three dimensions");
    if (!out->op_set && kiln__template_takes_op(out->template))
        return FAIL(report, KILN_ESPEC, "the spec has no op: add one, such as op=hardsigmoid");
    out->template_set = true;
    if (out->dtype == KILN__DTYPE_UNSET)
        out->dtype = kiln__template_dtype(out->template);
    if (out->math == KILN__MATH_UNSET)
        out->math = kiln__math_default(out->template);
    if (out->round == KILN__ROUND_UNSET && kiln__template_takes_op(out->template))
        out->round = KILN__ROUND_FUSED;
    if (!out->target_set)
        out->target = *target;
    out->target_set = true;
    if (kiln__template_has_result(out->template))
        kiln__spec_fill_results(out);
    kiln_status status = out->math == KILN__MATH_PORTABLE ? check_portable(out, report) : KILN_OK;
    if (status == KILN_OK)
        status = kiln__spec_check_numbers(out, report);
    if (status == KILN_OK && out->op_set)
        status = kiln__template_check_op(out->template, out->op, report);
    for (uint32_t i = 0; i < out->template->param_count && status == KILN_OK; i++)
        if (!out->param_set[i])
            status = fill_param(out, i, report);
    return status;
}

kiln_status kiln__spec_fill(kiln__fields *out, const kiln__fields *spec, const kiln__target *target,
                            kiln_report *report)
{
    kiln__fields filled = *spec;
    kiln_status status = fill(&filled, target, report);
    if (status == KILN_OK)
        *out = filled;
    return status;
}

kiln_status kiln__spec_resolve(kiln__fields *out, const kiln__fields *spec, const kiln__target *target,
                               kiln_report *report)
{
    kiln__fields filled = *spec;
    kiln_status status = fill(&filled, target, report);
    if (status == KILN_OK)
        status = kiln__requires_check(spec, &filled, target, report);
    if (status == KILN_OK)
        *out = filled;
    return status;
}

kiln_status kiln__spec_reference(kiln__fields *out, kiln__real *room, const kiln__fields *spec, kiln_report *report)
{
    const char *op = spec->template->reference;
    kiln__spec_init(out, spec->catalog);
    if (op == NULL)
        return FAIL(report, KILN_ENOENT, "template %s declares no reference", spec->template->name);
    kiln_status status = kiln__spec_set(out, room, kiln__word_of("op"), kiln__word_of(op), report);
    if (status == KILN_OK && out->op->inputs != kiln__spec_inputs(spec))
        status = FAIL(report, KILN_ESPEC, "template %s reads %u arrays, and its reference %s reads %u",
                      spec->template->name, kiln__spec_inputs(spec), op, out->op->inputs);
    if (status == KILN_OK && out->op->indexed)
        status = FAIL(report, KILN_ESPEC, "template %s: its reference takes no index", spec->template->name);
    out->dtype = spec->dtype;
    /* The type of the template's output, also where the op is a comparison. */
    out->results[out->result_count++] = spec->dtype;
    return status;
}

kiln_status kiln__spec_tile(const kiln__fields *spec, uint64_t *out, kiln_report *report)
{
    int64_t tile = 0;
    *out = 0;
    if (spec->template->tile == NULL)
        return KILN_OK;
    kiln_status status = kiln__spec_eval(spec, spec->template->tile, &tile, report);
    if (status == KILN_OK && tile < 1)
        return FAIL(report, KILN_ESPEC, "template %s: a tile of %lld elements is too small", spec->template->name,
                    (long long)tile);
    *out = (uint64_t)tile;
    return status;
}

kiln_status kiln__spec_plan(kiln__plan **out, const kiln__fields *spec, kiln_report *report)
{
    scope s = { .spec = spec };
    *out = NULL;
    kiln__operands operands = kiln__spec_operands(spec, false);
    kiln_status status = kiln__spec_tile(spec, &s.tile, report);
    return status == KILN_OK ? kiln__plan_make(out, &spec->template->arguments, look_up, &s, &operands, report)
                             : status;
}
