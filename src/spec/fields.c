/* The fields of specs: setting them from text, and their canonical text. */
#include "spec/fields.h"

#include "base/number.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* Where a field is: one of these, or FIELD_PARAM plus the index of a parameter. */
enum {
    FIELD_UNKNOWN = -1,
    FIELD_OP,
    FIELD_TEMPLATE,
    FIELD_DTYPE,
    FIELD_OUT,
    FIELD_LAYOUT,
    FIELD_MATH,
    FIELD_ROUND,
    FIELD_AXIS,
    FIELD_KEEP,
    FIELD_REDUCE,
    FIELD_TARGET,
    FIELD_N,
    FIELD_PARAM = KILN__FIELDS_FIXED
};

static const char *const field_names[] = {
    [FIELD_OP] = "op",         [FIELD_TEMPLATE] = "template", [FIELD_DTYPE] = "dtype",   [FIELD_OUT] = "out",
    [FIELD_LAYOUT] = "layout", [FIELD_MATH] = "math",         [FIELD_ROUND] = "round",   [FIELD_AXIS] = "axis",
    [FIELD_KEEP] = "keep",     [FIELD_REDUCE] = "reduce",     [FIELD_TARGET] = "target", [FIELD_N] = "n"
};

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_SPEC, 0, __VA_ARGS__)

static const kiln__real no_op;

int kiln__fields_find(const kiln__template *template, kiln__word name)
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

void kiln__spec_init(kiln__fields *out, const kiln__catalog *catalog)
{
    memset(out, 0, sizeof(*out));
    out->catalog = catalog;
    out->template = catalog->usual;
    out->op = &no_op;
    out->axis = kiln__axis_last;
}

uint32_t kiln__spec_inputs(const kiln__fields *spec)
{
    return kiln__template_takes_op(spec->template) ? spec->op->inputs
                                                   : kiln__arguments_inputs(&spec->template->arguments, 0);
}

static kiln_status set_param(kiln__fields *spec, int index, kiln__word value, kiln_report *report)
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

/* By name and text, because two templates may declare the same words in another order. */
static kiln_status move_params(kiln__fields *to, const kiln__fields *from, kiln_report *report)
{
    char buffer[KILN__NUMBER_SIZE];
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < from->template->param_count && status == KILN_OK; i++) {
        const kiln__declared_param *param = &from->template->params[i];
        int index = kiln__template_param(to->template, param->name, strlen(param->name));
        if (from->param_set[i] && index >= 0)
            status = set_param(to, index, kiln__param_text(param, from->params[i], buffer), report);
    }
    return status;
}

static const char *template_name_at(const void *data, size_t i)
{
    return kiln__catalog_name(data, (uint32_t)i);
}

static kiln_status check_dtype(const kiln__template *template, kiln__dtype dtype, kiln_report *report)
{
    char list[128] = "";
    if (dtype == KILN__DTYPE_UNSET || kiln__template_takes(template, dtype))
        return KILN_OK;
    for (uint32_t i = 0, length = 0; i < template->dtype_count; i++)
        length += (uint32_t)snprintf(list + length, sizeof(list) - length, "%s%s", i == 0 ? "" : ", ",
                                     kiln__dtype_name(template->dtypes[i]));
    return FAIL(report, KILN_ESPEC, "template %s takes no dtype=%s: %s", template->name, kiln__dtype_name(dtype), list);
}

/* All types that a spec has set. */
static kiln_status check_dtypes(const kiln__template *template, const kiln__fields *spec, kiln_report *report)
{
    kiln_status status = check_dtype(template, spec->dtype, report);
    if (spec->typed > 0 && !kiln__template_has_types(template))
        return FAIL(report, KILN_ESPEC, "template %s takes one dtype for all its arrays", template->name);
    for (uint32_t k = 0; k < spec->typed && status == KILN_OK; k++)
        status = check_dtype(template, spec->inputs[k], report);
    return status;
}

static kiln_status check_results(const kiln__template *template, const kiln__fields *spec, kiln_report *report)
{
    if (spec->result_count == 0 || kiln__template_has_result(template))
        return KILN_OK;
    return FAIL(report, KILN_ESPEC, "template %s takes no out=%s: its result has the dtype", template->name,
                kiln__dtype_name(spec->results[0]));
}

static const char *const math_names[KILN__MATH_END] = { "", "torch", "fast", "portable" };

static const char *math_at(const void *data, size_t i)
{
    (void)data;
    return i + 1 < KILN__MATH_END ? math_names[i + 1] : NULL;
}

kiln__math kiln__math_default(const kiln__template *template)
{
    bool chooses = template->origin == NULL && kiln__template_takes_op(template) &&
                   (kiln__arguments_flat(&template->arguments) || kiln__template_broadcasts(template));
    return chooses ? KILN__MATH_TORCH : KILN__MATH_PORTABLE;
}

static kiln_status check_math(const kiln__template *template, kiln__math math, kiln_report *report)
{
    if (math == KILN__MATH_UNSET || math == KILN__MATH_PORTABLE || kiln__math_default(template) == KILN__MATH_TORCH)
        return KILN_OK;
    return FAIL(report, KILN_ESPEC, "template %s takes no math=%s: portable", template->name, math_names[math]);
}

static const char *const round_names[KILN__ROUND_END] = { "", "fused", "eager" };

static kiln_status check_round(const kiln__template *template, kiln__round round, kiln_report *report)
{
    if (round == KILN__ROUND_UNSET || kiln__template_takes_op(template))
        return KILN_OK;
    return FAIL(report, KILN_ESPEC, "template %s takes no op, and so no round=%s", template->name, round_names[round]);
}

static kiln_status check_layout(const kiln__template *template, const kiln__fields *spec, kiln_report *report)
{
    bool strided = spec->layout_dims > 0;
    if (spec->layout_count == 0 || (strided ? kiln__template_strided(template) : kiln__template_broadcasts(template)))
        return KILN_OK;
    if (kiln__template_strided(template) || kiln__template_broadcasts(template))
        return FAIL(report, KILN_ESPEC, "template %s takes another layout: write one such as layout=%s", template->name,
                    strided ? "(full,row)" : "2d(unit,any)");
    return FAIL(report, KILN_ESPEC, "template %s takes no layout: its arrays are all of one shape", template->name);
}

kiln_status kiln__fields_change_template(kiln__fields *spec, const kiln__template *template, kiln_report *report)
{
    kiln__fields moved = *spec;
    moved.template = template;
    memset(moved.params, 0, sizeof(moved.params));
    memset(moved.param_set, 0, sizeof(moved.param_set));
    kiln_status status = check_dtypes(template, spec, report);
    if (status == KILN_OK)
        status = check_results(template, spec, report);
    if (status == KILN_OK)
        status = check_layout(template, spec, report);
    if (status == KILN_OK)
        status = check_math(template, spec->math, report);
    if (status == KILN_OK)
        status = check_round(template, spec->round, report);
    if (status == KILN_OK && spec->op_set)
        status = kiln__template_check_op(template, spec->op, report);
    if (status == KILN_OK)
        status = move_params(&moved, spec, report);
    if (status == KILN_OK)
        *spec = moved;
    return status;
}

void kiln__fields_take_sizes(kiln__fields *fields, const uint64_t *sizes, size_t count)
{
    uint64_t n = 1;
    bool overflows = false;
    for (size_t i = 0; i < count; i++)
        overflows = overflows || __builtin_mul_overflow(n, sizes[i], &n);
    if (fields->n_set || count < 2 || overflows || n == 0 || !kiln__arguments_reduce(&fields->template->arguments))
        return;
    fields->n_set = true;
    fields->n = n;
    fields->cols = sizes[1];
}

kiln__size kiln__size_round(uint64_t n, uint64_t cols)
{
    kiln__size out = { 0, 0, 0 };
    if (n == 0)
        return out;
    if (cols == 0) {
        out.n = UINT64_C(1) << kiln__number_octave(n);
        return out;
    }
    out.rows = UINT64_C(1) << kiln__number_octave(n / cols);
    out.cols = kiln__number_step(cols);
    if (__builtin_mul_overflow(out.rows, out.cols, &out.n))
        out.n = UINT64_MAX;
    return out;
}

kiln__size kiln__fields_size(const kiln__fields *fields)
{
    return kiln__size_round(fields->n_set ? fields->n : 0, fields->cols);
}

/* The template of specs that name none: the op's own. */
static kiln_status find_usual(const kiln__catalog *catalog, const kiln__real *op, const kiln__template **out,
                              kiln_report *report)
{
    *out = catalog->usual;
    return op->reductions > 0 ? kiln__catalog_find(catalog, kiln__word_of(KILN__TEMPLATE_ROWS), out, report) : KILN_OK;
}

static bool has_usual_template(const kiln__fields *spec)
{
    if (spec->op->reductions == 0)
        return spec->template == spec->catalog->usual;
    return spec->template->origin == NULL && strcmp(spec->template->name, KILN__TEMPLATE_ROWS) == 0;
}

static kiln_status set_op(kiln__fields *spec, kiln__real *room, kiln__word value, kiln_report *report)
{
    const kiln__template *usual = NULL;
    kiln__fields set = *spec;
    kiln_status status = KILN_OK;
    if (value.length > 0 && !kiln__template_takes_op(spec->template))
        return kiln__template_check_op(spec->template, NULL, report);
    if (value.length > 0)
        status = kiln__expr_parse(room, &spec->catalog->ops, value.text, value.length, report);
    set.op = &no_op;
    set.op_set = false;
    if (status == KILN_OK && !spec->template_set)
        status = find_usual(spec->catalog, value.length > 0 ? room : &no_op, &usual, report);
    if (status == KILN_OK && usual != NULL && usual != spec->template)
        status = kiln__fields_change_template(&set, usual, report);
    set.op = value.length > 0 ? room : &no_op;
    set.op_set = value.length > 0;
    if (status == KILN_OK && set.op_set)
        status = kiln__template_check_op(set.template, room, report);
    if (status == KILN_OK)
        *spec = set;
    return status;
}

/* KILN__DTYPE_UNSET for an empty value. */
static kiln_status parse_dtype(kiln__dtype *out, kiln__word value, kiln_report *report)
{
    *out = kiln__dtype_parse(value.text, value.length);
    if (*out != KILN__DTYPE_UNSET || value.length == 0)
        return KILN_OK;
    kiln__quote quote = kiln__word_quote(value);
    kiln__dtype meant = kiln__dtype_guess(value);
    if (meant != KILN__DTYPE_UNSET)
        return FAIL(report, KILN_ESPEC, "unknown dtype '%s': did you mean %s?", quote.text, kiln__dtype_name(meant));
    return FAIL(report, KILN_ESPEC, "unknown dtype '%s': %s", quote.text,
                kiln__word_choices(kiln__dtype_name_at, NULL).text);
}

/* "f32" or "(bool,f32,f32)", none where the value is empty. */
static kiln_status parse_types(kiln__dtype out[KILN__INPUTS_MAX], uint32_t *count, int field, kiln__word value,
                               kiln_report *report)
{
    kiln_status status = KILN_OK;
    bool is_list = value.length > 1 && value.text[0] == '(' && value.text[value.length - 1] == ')';
    kiln__word items = is_list ? (kiln__word){ value.text + 1, value.length - 2 } : value;
    *count = 0;
    while (status == KILN_OK && items.text != NULL && (is_list || value.length > 0)) {
        kiln__word item = items;
        if (is_list)
            item = kiln__word_cut_item(&items);
        else
            items.text = NULL;
        if (*count == KILN__INPUTS_MAX)
            return FAIL(report, KILN_ESPEC, "%s has more than %d types", field_names[field], KILN__INPUTS_MAX);
        if (item.length == 0)
            return FAIL(report, KILN_ESPEC, "%s: a type is missing: write %s=(f16,f32), one for each %s",
                        field_names[field], field_names[field], field == FIELD_OUT ? "output" : "input");
        status = parse_dtype(&out[(*count)++], item, report);
    }
    return status;
}
static_assert((int)KILN__INPUTS_MAX == (int)KILN__OUTPUTS_MAX, "lists of types of both have equal room");

static kiln_status set_dtype(kiln__fields *spec, kiln__word value, kiln_report *report)
{
    kiln__fields set = *spec;
    kiln_status status = parse_types(set.inputs, &set.typed, FIELD_DTYPE, value, report);
    set.dtype = KILN__DTYPE_UNSET;
    if (status == KILN_OK)
        set.dtype = kiln__dtype_promote_all(set.inputs, set.typed);
    if (value.length > 0 && value.text[0] != '(')
        set.typed = 0;
    if (status == KILN_OK)
        status = check_dtypes(spec->template, &set, report);
    if (status == KILN_OK)
        *spec = set;
    return status;
}

static kiln_status set_result(kiln__fields *spec, kiln__word value, kiln_report *report)
{
    kiln__fields set = *spec;
    kiln_status status = parse_types(set.results, &set.result_count, FIELD_OUT, value, report);
    if (status == KILN_OK)
        status = check_results(spec->template, &set, report);
    set.results_listed = value.length > 0 && value.text[0] == '(';
    if (status == KILN_OK)
        *spec = set;
    return status;
}

static const char *const layout_names[KILN__LAYOUT_END] = { "full", "row",  "column", "one",
                                                            "unit", "same", "any",    "cross" };

const char *kiln__layout_name(kiln__layout layout)
{
    return layout_names[layout];
}

/* The words of layouts with or without dimensions: `data` points to the first and to the one behind the last. */
static const char *layout_at(const void *data, size_t i)
{
    const int *range = data;
    return (int)i < range[1] - range[0] ? layout_names[(size_t)range[0] + i] : NULL;
}

/* Cuts "3d" off the front of "3d(unit,any)". Returns the dimensions, 0 where there are none. */
static uint32_t cut_dims(kiln__word *value)
{
    bool has = value->length > 2 && value->text[0] >= '1' && value->text[0] <= '0' + KILN__LOOP_DIMS &&
               value->text[1] == 'd' && value->text[2] == '(';
    uint32_t dims = has ? (uint32_t)(value->text[0] - '0') : 0;
    if (has)
        *value = (kiln__word){ value->text + 2, value->length - 2 };
    return dims;
}

/* A word for each array. */
static kiln_status parse_layouts(kiln__fields *set, kiln__word items, kiln_report *report)
{
    const int range[2] = { set->layout_dims > 0 ? KILN__LAYOUT_STRIDED : 0,
                           set->layout_dims > 0 ? KILN__LAYOUT_END : KILN__LAYOUT_STRIDED };
    const uint32_t most = set->layout_dims > 0 ? KILN__OPERANDS_MAX : KILN__INPUTS_MAX;
    while (items.text != NULL) {
        kiln__word item = kiln__word_cut_item(&items);
        int layout = range[0];
        while (layout < range[1] && !kiln__word_is(item, layout_names[layout]))
            layout++;
        if (layout == range[1])
            return FAIL(report, KILN_ESPEC, "unknown layout '%s': %s", kiln__word_quote(item).text,
                        kiln__word_hint(item, layout_at, range).text);
        if (set->layout_count == most)
            return FAIL(report, KILN_ESPEC, "layout has more than %u words", most);
        set->layouts[set->layout_count++] = (kiln__layout)layout;
    }
    return KILN_OK;
}

/* "(full,row)", a word for each input, or "3d(unit,any)", a word for each output and each input. */
static kiln_status set_layout(kiln__fields *spec, kiln__word value, kiln_report *report)
{
    kiln__fields set = *spec;
    kiln__word list = value;
    set.layout_dims = cut_dims(&list);
    set.layout_count = 0;
    bool is_list = list.length > 1 && list.text[0] == '(' && list.text[list.length - 1] == ')';
    kiln__word items = is_list ? (kiln__word){ list.text + 1, list.length - 2 } : (kiln__word){ NULL, 0 };
    if (value.length > 0 && !is_list)
        return FAIL(report, KILN_ESPEC, "layout=%s: write one for each %s", kiln__word_quote(value).text,
                    kiln__template_strided(spec->template) ? "output and input, such as layout=2d(unit,any)"
                                                           : "input, such as layout=(full,row)");
    kiln_status status = parse_layouts(&set, items, report);
    if (status == KILN_OK)
        status = check_layout(spec->template, &set, report);
    if (status == KILN_OK)
        *spec = set;
    return status;
}

static kiln_status set_template(kiln__fields *spec, kiln__word value, kiln_report *report)
{
    const kiln__template *template = NULL;
    kiln_status status = value.length > 0 ? kiln__catalog_find(spec->catalog, value, &template, report)
                                          : find_usual(spec->catalog, spec->op, &template, report);
    if (status != KILN_OK)
        return status;
    if (template == NULL)
        return FAIL(report, KILN_ESPEC, "unknown template '%s': %s", kiln__word_quote(value).text,
                    kiln__word_hint(value, template_name_at, spec->catalog).text);
    status = kiln__fields_change_template(spec, template, report);
    if (status == KILN_OK)
        spec->template_set = value.length > 0;
    return status;
}

static bool are_equal(const kiln__dtype *types, uint32_t count)
{
    for (uint32_t k = 1; k < count; k++)
        if (types[k] != types[0])
            return false;
    return true;
}

/* `item` is the name of one in the list, `verb` the relation of the op to its arrays. */
static kiln_status check_list(int field, uint32_t count, const char *item, uint32_t wanted, const char *verb,
                              kiln_report *report)
{
    if (count == wanted)
        return KILN_OK;
    return FAIL(report, KILN_ESPEC, "%s has %u %s%s, and the op %s %u array%s: write one for each", field_names[field],
                count, item, count == 1 ? "" : "s", verb, wanted, wanted == 1 ? "" : "s");
}

/* Whether the layout is that of a spec without one. */
static bool is_plain_layout(const kiln__fields *spec)
{
    bool plain = spec->layout_dims <= 1;
    for (uint32_t k = 0; k < spec->layout_count; k++)
        plain =
            plain && spec->layouts[k] == (spec->layout_dims > 0 ? KILN__LAYOUT_UNIT : kiln__spec_plain_layout(spec, k));
    return plain;
}

static kiln_status check_layouts(const kiln__fields *spec, kiln_report *report)
{
    for (uint32_t k = 0; spec->layout_dims > 0 && k < spec->op->outputs && k < spec->layout_count; k++)
        if (spec->layouts[k] != KILN__LAYOUT_UNIT && spec->layouts[k] != KILN__LAYOUT_ANY)
            return FAIL(report, KILN_ESPEC, "layout: word %u is %s, and an output is unit or any", k + 1,
                        layout_names[spec->layouts[k]]);
    if (spec->layout_dims > 0)
        return check_list(FIELD_LAYOUT, spec->layout_count, "word", spec->op->outputs + spec->op->inputs, "has",
                          report);
    return check_list(FIELD_LAYOUT, spec->layout_count, "word", spec->op->inputs, "takes", report);
}

/* Equal types for all inputs are one dtype, and likewise of outputs. A plain layout is none. */
static kiln_status settle_lists(kiln__fields *spec, kiln_report *report)
{
    kiln_status status = KILN_OK;
    if (!spec->op_set)
        return KILN_OK;
    if (spec->typed > 0)
        status = check_list(FIELD_DTYPE, spec->typed, "type", spec->op->inputs, "takes", report);
    if ((spec->results_listed || spec->result_count > 1) && status == KILN_OK)
        status = check_list(FIELD_OUT, spec->result_count, "type", spec->op->outputs, "gives", report);
    if (spec->layout_count > 0 && status == KILN_OK)
        status = check_layouts(spec, report);
    if (status == KILN_OK && is_plain_layout(spec))
        spec->layout_count = spec->layout_dims = 0;
    if (status == KILN_OK && are_equal(spec->inputs, spec->typed))
        spec->typed = 0;
    if (status == KILN_OK && are_equal(spec->results, spec->result_count) && spec->result_count > 1)
        spec->result_count = 1;
    if (spec->result_count == 1)
        spec->results_listed = false;
    return status;
}

/* The number of a word among `count` names, from `first` on; `count`: it is none of them. */
static int find_word(const char *const *names, int first, int count, kiln__word word)
{
    while (first < count && !kiln__word_is(word, names[first]))
        first++;
    return first;
}

static kiln_status set_math(kiln__fields *spec, kiln__word value, kiln_report *report)
{
    const int math =
        find_word(math_names, value.length > 0 ? KILN__MATH_TORCH : KILN__MATH_UNSET, KILN__MATH_END, value);
    if (math == KILN__MATH_END)
        return FAIL(report, KILN_ESPEC, "unknown math '%s': %s", kiln__word_quote(value).text,
                    kiln__word_hint(value, math_at, NULL).text);
    kiln_status status = check_math(spec->template, (kiln__math)math, report);
    if (status == KILN_OK)
        spec->math = (kiln__math)math;
    return status;
}

static kiln_status set_round(kiln__fields *spec, kiln__word value, kiln_report *report)
{
    const int round = find_word(round_names, KILN__ROUND_UNSET, KILN__ROUND_END, value);
    if (round == KILN__ROUND_END)
        return FAIL(report, KILN_ESPEC, "unknown round '%s': fused, eager", kiln__word_quote(value).text);
    kiln_status status = check_round(spec->template, (kiln__round)round, report);
    if (status == KILN_OK)
        spec->round = (kiln__round)round;
    return status;
}

static kiln_status set_axis(kiln__fields *spec, kiln__word value, kiln_report *report)
{
    kiln__axis axis = kiln__axis_last;
    if (value.length > 0 && !kiln__axis_parse(&axis, value))
        return FAIL(report, KILN_ESPEC, "axis=%s: write a dimension such as -1, neighbours such as (1,2), or all",
                    kiln__word_quote(value).text);
    spec->axis = axis;
    spec->axis_set = value.length > 0;
    return KILN_OK;
}

static kiln_status set_keep(kiln__fields *spec, kiln__word value, kiln_report *report)
{
    const bool keep = kiln__word_is(value, "1");
    if (value.length > 0 && !keep && !kiln__word_is(value, "0"))
        return FAIL(report, KILN_ESPEC, "keep=%s: 0 or 1", kiln__word_quote(value).text);
    spec->keep = keep;
    spec->keep_set = value.length > 0;
    return KILN_OK;
}

static const char *const total_names[] = {
    [KILN__TOTAL_NONE] = "", [KILN__TOTAL_MEAN] = "mean", [KILN__TOTAL_SUM] = "sum"
};

static kiln_status set_reduce(kiln__fields *spec, kiln__word value, kiln_report *report)
{
    const int total = find_word(total_names, KILN__TOTAL_NONE, KILN__TOTAL_END, value);
    if (total == KILN__TOTAL_END)
        return FAIL(report, KILN_ESPEC, "reduce=%s: mean or sum", kiln__word_quote(value).text);
    spec->reduce = (kiln__total)total;
    return KILN_OK;
}

bool kiln__spec_is_fast(const kiln__fields *spec)
{
    return spec->math == KILN__MATH_FAST &&
           (spec->dtype == KILN__DTYPE_UNSET || kiln__spec_computes_in(spec, KILN__DTYPE_F32));
}

bool kiln__spec_is_exact(const kiln__fields *spec)
{
    kiln__math math = spec->math != KILN__MATH_UNSET ? spec->math : kiln__math_default(spec->template);
    bool whole = spec->dtype != KILN__DTYPE_UNSET && !kiln__spec_computes_in(spec, KILN__DTYPE_F32) &&
                 !kiln__spec_computes_in(spec, KILN__DTYPE_F64);
    if (whole || (math == KILN__MATH_PORTABLE && !spec->op->summed))
        return true;
    return spec->op->exact && !(kiln__spec_is_fast(spec) && spec->op->fast);
}

/* "sm90", "SM_90", "compute_90a" and "9.0" all mean sm_90; false if there is no such reading. */
static bool guess_target(kiln__word value, kiln__target *out)
{
    char guess[KILN__TARGET_SIZE] = "sm_";
    size_t length = 3;
    kiln__word name = value;
    while (name.length > 0 && !kiln__word_is_digit(*name.text))
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

static kiln_status set_target(kiln__fields *spec, kiln__word value, kiln_report *report)
{
    kiln__target target = { 0 };
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

static kiln_status set_n(kiln__fields *spec, kiln__word value, kiln_report *report)
{
    kiln__word cols = value, rows = kiln__word_cut(&cols, "x");
    uint64_t n = 0, of_row = 0;
    bool good = value.length == 0 || kiln__number_parse_uint(rows.text, rows.length, &n);
    if (cols.text != NULL)
        good = good && kiln__number_parse_uint(cols.text, cols.length, &of_row) && of_row > 0 &&
               !__builtin_mul_overflow(n, of_row, &n);
    if (!good)
        return FAIL(report, KILN_ESPEC, "n=%s is not a whole number below 2^64, or ROWSxCOLS",
                    kiln__word_quote(value).text);
    spec->n = n;
    spec->cols = of_row;
    spec->n_set = value.length > 0;
    return KILN_OK;
}

static kiln_status set_field(kiln__fields *spec, kiln__real *room, int id, kiln__word value, kiln_report *report)
{
    static kiln_status (*const setters[])(kiln__fields *, kiln__word, kiln_report *) = {
        [FIELD_TEMPLATE] = set_template, [FIELD_DTYPE] = set_dtype, [FIELD_OUT] = set_result,
        [FIELD_LAYOUT] = set_layout,     [FIELD_MATH] = set_math,   [FIELD_ROUND] = set_round,
        [FIELD_AXIS] = set_axis,         [FIELD_KEEP] = set_keep,   [FIELD_REDUCE] = set_reduce,
        [FIELD_TARGET] = set_target,     [FIELD_N] = set_n
    };
    if (id == FIELD_OP)
        return set_op(spec, room, value, report);
    return id < FIELD_PARAM ? setters[id](spec, value, report) : set_param(spec, id - FIELD_PARAM, value, report);
}

kiln_status kiln__spec_set(kiln__fields *spec, kiln__real *room, kiln__word field, kiln__word value,
                           kiln_report *report)
{
    int id = kiln__fields_find(spec->template, field);
    if (id == FIELD_UNKNOWN)
        return fail_field(spec->template, field, report);
    kiln__fields set = *spec;
    kiln_status status = set_field(&set, room, id, kiln__word_trim(value), report);
    if (status == KILN_OK)
        status = settle_lists(&set, report);
    if (status == KILN_OK)
        *spec = set;
    return status;
}

/* Whether an expression ends before a text that follows blanks: there is none, or it is another field, "name=". The
 * sign == begins no value. */
static bool ends_expression(kiln__word rest)
{
    size_t length = 0;
    while (length < rest.length && kiln__word_is_name_char(rest.text[length]))
        length++;
    bool assigns =
        length < rest.length && rest.text[length] == '=' && (length + 1 == rest.length || rest.text[length + 1] != '=');
    return rest.length == 0 || (assigns && kiln__word_is_name((kiln__word){ rest.text, length }));
}

/* Blanks within parentheses are part of a value, and those within an expression. */
static size_t value_length(kiln__word line, bool is_expression, int *depth)
{
    size_t length = 0;
    for (*depth = 0; length < line.length; length++) {
        char c = line.text[length];
        if (*depth == 0 && kiln__word_is_blank(c)) {
            size_t next = length;
            while (next < line.length && kiln__word_is_blank(line.text[next]))
                next++;
            if (!is_expression || ends_expression((kiln__word){ line.text + next, line.length - next }))
                break;
            length = next - 1;
        } else if (c == '(') {
            ++*depth;
        } else if (c == ')' && *depth > 0) {
            --*depth;
        }
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
    value->length = value_length(*value, kiln__word_is(*field, field_names[FIELD_OP]), &depth);
    if (depth > 0)
        return FAIL(report, KILN_ESPEC, "')' is missing in %s=%s", kiln__word_quote(*field).text,
                    kiln__word_quote(*value).text);
    *line = (kiln__word){ value->text + value->length, rest.length - start - value->length };
    return KILN_OK;
}

/* The template decides what the other fields mean, wherever in the line it stands. */
static kiln_status parse_template(kiln__fields *spec, kiln__word line, kiln_report *report)
{
    kiln__word field, value;
    kiln_status status;
    while ((status = kiln__spec_next_field(&line, &field, &value, report)) == KILN_OK && field.length > 0)
        if (kiln__word_is(field, field_names[FIELD_TEMPLATE]))
            return set_template(spec, value, report);
    return status;
}

/* The op chooses the template where the line names none. */
static kiln_status parse_op(kiln__fields *spec, kiln__real *room, kiln__word line, kiln_report *report)
{
    kiln__word field, value;
    kiln_status status;
    while ((status = kiln__spec_next_field(&line, &field, &value, report)) == KILN_OK && field.length > 0)
        if (kiln__word_is(field, field_names[FIELD_OP]))
            return set_op(spec, room, value, report);
    return status;
}

static kiln_status parse_fields(kiln__fields *spec, kiln__real *room, kiln__word line, kiln_report *report)
{
    uint32_t given = 0;
    kiln__word field, value;
    kiln_status status;
    while ((status = kiln__spec_next_field(&line, &field, &value, report)) == KILN_OK && field.length > 0) {
        int id = kiln__fields_find(spec->template, field);
        if (id == FIELD_UNKNOWN)
            return fail_field(spec->template, field, report);
        if ((given & (1u << id)) != 0)
            return FAIL(report, KILN_ESPEC, "field %s given twice", kiln__word_quote(field).text);
        given |= 1u << id;
        if (id != FIELD_TEMPLATE && id != FIELD_OP)
            status = set_field(spec, room, id, value, report);
        if (status != KILN_OK)
            break;
    }
    return status;
}

/* A field that the line replaces must not stand in the way of its template: an op, a dtype or a value that this does
 * not take. */
static void open_replaced(kiln__fields *spec, kiln__word line)
{
    kiln__word field, value;
    while (kiln__spec_next_field(&line, &field, &value, NULL) == KILN_OK && field.length > 0) {
        int id = kiln__fields_find(spec->template, field);
        if (id == FIELD_OP) {
            spec->op = &no_op;
            spec->op_set = false;
        } else if (id == FIELD_DTYPE) {
            spec->dtype = KILN__DTYPE_UNSET;
            spec->typed = 0;
        } else if (id == FIELD_OUT) {
            spec->result_count = 0;
            spec->results_listed = false;
        } else if (id == FIELD_LAYOUT) {
            spec->layout_count = spec->layout_dims = 0;
        } else if (id == FIELD_MATH) {
            spec->math = KILN__MATH_UNSET;
        } else if (id == FIELD_ROUND) {
            spec->round = KILN__ROUND_UNSET;
        } else if (id >= FIELD_PARAM) {
            spec->params[id - FIELD_PARAM] = 0;
            spec->param_set[id - FIELD_PARAM] = false;
        }
    }
}

kiln_status kiln__fields_update(kiln__fields *fields, kiln__real *room, const char *text, kiln_report *report)
{
    kiln__word line = kiln__word_of(text);
    open_replaced(fields, line);
    kiln_status status = parse_template(fields, line, report);
    if (status == KILN_OK)
        status = parse_op(fields, room, line, report);
    if (status == KILN_OK)
        status = parse_fields(fields, room, line, report);
    if (status == KILN_OK)
        status = settle_lists(fields, report);
    return status == KILN_OK ? kiln__requires_check(fields, fields, NULL, report) : status;
}

kiln_status kiln__fields_parse(kiln__fields *out, kiln__real *room, const kiln__catalog *catalog, const char *text,
                               kiln_report *report)
{
    kiln__spec_init(out, catalog);
    return kiln__fields_update(out, room, text, report);
}

static bool is_set(const kiln__fields *spec, int id)
{
    switch (id) {
    case FIELD_OP:
        return spec->op_set;
    case FIELD_TEMPLATE:
        return spec->template_set;
    case FIELD_DTYPE:
        return spec->dtype != KILN__DTYPE_UNSET;
    case FIELD_OUT:
        return spec->result_count > 0;
    case FIELD_LAYOUT:
        return spec->layout_count > 0;
    case FIELD_MATH:
        return spec->math != KILN__MATH_UNSET;
    case FIELD_ROUND:
        return spec->round != KILN__ROUND_UNSET;
    case FIELD_AXIS:
        return spec->axis_set;
    case FIELD_KEEP:
        return spec->keep_set;
    case FIELD_REDUCE:
        return spec->reduce != KILN__TOTAL_NONE;
    case FIELD_TARGET:
        return spec->target_set;
    case FIELD_N:
        return spec->n_set;
    default:
        return spec->param_set[id - FIELD_PARAM];
    }
}

/* "(bool,f32,f32)", or one name where all are equal. */
static void append_types(const kiln__dtype *types, uint32_t count, bool as_list, kiln__text *out)
{
    for (uint32_t k = 0; k < count; k++)
        kiln__text_printf(out, "%s%s", k > 0 ? "," : as_list ? "(" : "", kiln__dtype_name(types[k]));
    kiln__text_append(out, as_list ? ")" : "");
}

void kiln__fields_append(const kiln__fields *spec, int id, kiln__text *out)
{
    char buffer[KILN__NUMBER_SIZE];
    kiln__word word;
    bool as_list;
    if (!is_set(spec, id))
        return;
    switch (id) {
    case FIELD_OP:
        kiln__expr_format(spec->op, &spec->catalog->ops, true, out);
        break;
    case FIELD_TEMPLATE:
        kiln__text_append(out, spec->template->name);
        break;
    case FIELD_DTYPE:
        append_types(spec->typed > 0 ? spec->inputs : &spec->dtype, spec->typed > 0 ? spec->typed : 1, spec->typed > 0,
                     out);
        break;
    case FIELD_OUT:
        as_list = !are_equal(spec->results, spec->result_count);
        append_types(spec->results, as_list ? spec->result_count : 1, as_list, out);
        break;
    case FIELD_LAYOUT:
        if (spec->layout_dims > 0)
            kiln__text_printf(out, "%ud", spec->layout_dims);
        for (uint32_t k = 0; k < spec->layout_count; k++)
            kiln__text_printf(out, "%s%s", k == 0 ? "(" : ",", layout_names[spec->layouts[k]]);
        kiln__text_append(out, ")");
        break;
    case FIELD_MATH:
        kiln__text_append(out, math_names[spec->math]);
        break;
    case FIELD_ROUND:
        kiln__text_append(out, round_names[spec->round]);
        break;
    case FIELD_AXIS:
        kiln__axis_format(&spec->axis, out);
        break;
    case FIELD_KEEP:
        kiln__text_append(out, spec->keep ? "1" : "0");
        break;
    case FIELD_REDUCE:
        kiln__text_append(out, total_names[spec->reduce]);
        break;
    case FIELD_TARGET:
        kiln__text_append(out, spec->target.name);
        break;
    case FIELD_N:
        if (spec->cols > 0)
            kiln__text_printf(out, "%" PRIu64 "x%" PRIu64, spec->n / spec->cols, spec->cols);
        else
            kiln__text_printf(out, "%" PRIu64, spec->n);
        break;
    default:
        word = kiln__param_text(&spec->template->params[id - FIELD_PARAM], spec->params[id - FIELD_PARAM], buffer);
        kiln__text_append_bytes(out, word.text, word.length);
    }
}

/* `start` is where the spec's text begins in *out. */
static void append_field(const kiln__fields *spec, int id, size_t start, kiln__text *out)
{
    if (!is_set(spec, id))
        return;
    const char *name = id < FIELD_PARAM ? field_names[id] : spec->template->params[id - FIELD_PARAM].name;
    kiln__text_append(out, out->length > start ? " " : "");
    kiln__text_append(out, name);
    kiln__text_append(out, "=");
    kiln__fields_append(spec, id, out);
}

/* `named`: with the names of the inputs, and what only tensors have. */
static void append_fields(const kiln__fields *spec, bool named, size_t start, kiln__text *out)
{
    if (spec->op_set) {
        kiln__text_append(out, "op=");
        kiln__expr_format(spec->op, &spec->catalog->ops, named, out);
    }
    if (!has_usual_template(spec) || spec->op->reductions > 0) /* whose open template may become another one */
        append_field(spec, FIELD_TEMPLATE, start, out);
    append_field(spec, FIELD_DTYPE, start, out);
    if (kiln__spec_casts(spec))
        append_field(spec, FIELD_OUT, start, out);
    append_field(spec, FIELD_LAYOUT, start, out);
    if (spec->math != kiln__math_default(spec->template))
        append_field(spec, FIELD_MATH, start, out);
    if (spec->round == KILN__ROUND_EAGER)
        append_field(spec, FIELD_ROUND, start, out);
    if (named && !kiln__axis_same(&spec->axis, &kiln__axis_last))
        append_field(spec, FIELD_AXIS, start, out);
    if (named && spec->keep)
        append_field(spec, FIELD_KEEP, start, out);
    if (named)
        append_field(spec, FIELD_REDUCE, start, out);
    for (uint32_t i = 0; i < spec->template->param_count; i++)
        append_field(spec, FIELD_PARAM + (int)i, start, out);
}

void kiln__spec_format_anywhere(const kiln__fields *spec, kiln__text *out)
{
    append_fields(spec, false, out->length, out);
}

void kiln__spec_format(const kiln__fields *spec, bool with_hints, kiln__text *out)
{
    size_t start = out->length;
    append_fields(spec, true, start, out);
    append_field(spec, FIELD_TARGET, start, out);
    if (with_hints)
        append_field(spec, FIELD_N, start, out);
}

kiln_status kiln__spec_value(const kiln__fields *spec, const char *field, kiln__text *out)
{
    int id = kiln__fields_find(spec->template, kiln__word_of(field));
    if (id == FIELD_UNKNOWN)
        return KILN_ENOENT;
    kiln__fields_append(spec, id, out);
    return KILN_OK;
}

void kiln__spec_append(const kiln__fields *spec, const char *field, kiln__text *out)
{
    kiln__text_printf(out, " %s=", field);
    kiln__spec_value(spec, field, out);
}
