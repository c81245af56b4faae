/* From a text and tensors to a spec: the fields that tensors give, as a line of text. */
#include "service/tensors.h"

#include "base/number.h"
#include <inttypes.h>
#include <string.h>

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_LAUNCH, 0, __VA_ARGS__)

kiln_status kiln__tensors_check_open(const kiln_spec *spec, kiln_report *report)
{
    static const char *const given[] = { "dtype", "out", "layout", "n" };
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        int id = kiln__fields_find(spec->fields.template, kiln__word_of(given[i]));
        if (spec->values[id][0] != '\0')
            return FAIL(report, KILN_EINVAL, "the tensors give %s: leave %s=%.100s out of the text", given[i], given[i],
                        spec->values[id]);
    }
    return KILN_OK;
}

kiln_status kiln__tensors_fail_without_op(kiln_report *report)
{
    return FAIL(report, KILN_EINVAL, "the text has no op: write one, such as op=x+y");
}

static kiln_status check_op(const kiln_spec *spec, const kiln__loop *loop, kiln_report *report)
{
    const kiln__real *op = spec->fields.op;
    if (!spec->fields.op_set)
        return kiln__tensors_fail_without_op(report);
    if (op->indexed && !loop->ordered)
        return FAIL(report, KILN_EINVAL,
                    "the op takes the index, and the outputs are permuted: elements are counted as "
                    "the shape has them");
    if (op->outputs == loop->outputs && op->inputs == loop->operands - loop->outputs)
        return KILN_OK;
    return FAIL(report, KILN_EINVAL, "the op writes %u and reads %u tensors, and %u and %u are given", op->outputs,
                op->inputs, loop->outputs, loop->operands - loop->outputs);
}

kiln__size kiln__tensors_size(const kiln__loop *loop)
{
    const uint64_t cols = loop->extent[0] > 0 ? (uint64_t)loop->extent[0] : 1;
    return kiln__size_round(loop->count, loop->kind == KILN__LOOP_REDUCED ? cols : 0);
}

enum { WORD = 16 /* bytes of an access */ };

uint32_t kiln__tensors_vector(const kiln_device *device, const kiln__loop *loop, const kiln_tensor *outs,
                              const kiln_tensor *ins)
{
    uintptr_t bits = 0;
    uint32_t widest = 1;
    if (device->target.sm == 0 || loop->kind != KILN__LOOP_REDUCED || loop->dims > 2)
        return 0;
    for (uint32_t k = 0; k < loop->operands; k++) {
        const kiln_dtype dtype = k < loop->outputs ? outs[k].dtype : ins[k - loop->outputs].dtype;
        const uint32_t bytes = kiln__dtype_bytes((kiln__dtype)dtype);
        widest = bytes > widest ? bytes : widest;
        if (loop->layouts[k] > KILN__LAYOUT_ROW)
            continue;
        bits |= (uintptr_t)loop->data[k];
        for (uint32_t d = loop->dims; d < loop->dims + loop->batches; d++)
            bits |= (uintptr_t)loop->stride[k][d] * bytes;
    }
    const uint32_t aligned = (uint32_t)(bits & (0 - bits)); /* 0: by any number of bytes */
    if (bits % WORD == 0)
        return 0;
    return aligned > widest ? aligned / widest : 1;
}

/* The word of an operand in a kernel of any strides. A template that the text names may not know the word cross. */
static kiln__layout strided_layout(const kiln__loop *loop, uint32_t k, bool is_named)
{
    return is_named ? kiln__loop_layout(loop, k) : loop->layouts[k];
}

static bool is_in_place(const kiln__template *template)
{
    const kiln__arguments *arguments = &template->arguments;
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        if ((arguments->args[i].role == KILN__ARG_OUT || arguments->args[i].role == KILN__ARG_INOUT) &&
            !arguments->args[i].in_place)
            return false;
    return true;
}

/* A template that the text names computes on such tensors, and on all that are simpler. */
static kiln_status check_template(const kiln__template *template, const kiln__loop *loop, kiln_report *report)
{
    bool strided = kiln__template_strided(template);
    bool rows = kiln__template_broadcasts(template) && kiln__arguments_rows(&template->arguments);
    bool flat = kiln__arguments_flat(&template->arguments);
    if (loop->kind == KILN__LOOP_REDUCED && (template->arguments.size_count > 2) != (loop->dims > 2))
        return FAIL(report, KILN_EINVAL, "template %s takes an axis that is %sfollowed by other dimensions",
                    template->name, loop->dims > 2 ? "not " : "");
    if (loop->kind == KILN__LOOP_REDUCED) /* the template takes ops that reduce, since the spec has one */
        return KILN_OK;
    if (!is_in_place(template) || !(strided || rows || flat))
        return FAIL(report, KILN_EINVAL,
                    "template %s is for kiln_launch: its outputs are not inplace, or its arrays have other sizes than "
                    "n, or than rows and columns",
                    template->name);
    if (loop->kind == KILN__LOOP_FLAT || strided || (rows && loop->kind == KILN__LOOP_ROWS))
        return KILN_OK;
    return FAIL(report, KILN_EINVAL, "template %s does not take the layout of these tensors: leave template out",
                template->name);
}

/* Where the tensors choose the template, the text may name only parameters that it has. */
static kiln_status check_params(const kiln_spec *spec, const kiln__template *template, kiln_report *report)
{
    const kiln__template *named = spec->fields.template;
    for (uint32_t i = 0; i < named->param_count; i++)
        if (spec->fields.param_set[i] &&
            kiln__template_param(template, named->params[i].name, strlen(named->params[i].name)) < 0)
            return FAIL(report, KILN_EINVAL,
                        "these tensors take template %s, which has no parameter %s: leave %s out, or name a template",
                        template->name, named->params[i].name, named->params[i].name);
    return KILN_OK;
}

void kiln__tensors_append_types(kiln__text *out, const char *field, const kiln_tensor *tensors, size_t count)
{
    kiln__text_printf(out, " %s=", field);
    for (size_t k = 0; k < count; k++)
        kiln__text_printf(out, "%s%s", k == 0 ? "(" : ",", kiln__dtype_name((kiln__dtype)tensors[k].dtype));
    kiln__text_append(out, ")");
}

static void append_layout(kiln__text *out, const kiln__template *template, bool is_named, const kiln__loop *loop)
{
    bool strided = kiln__template_strided(template);
    if (!strided && (loop->kind == KILN__LOOP_FLAT || !kiln__template_broadcasts(template)))
        return;
    kiln__text_append(out, " layout=");
    if (strided)
        kiln__text_printf(out, "%ud", loop->dims > 0 ? loop->dims : 1);
    for (uint32_t k = strided ? 0 : loop->outputs, first = k; k < loop->operands; k++)
        kiln__text_printf(out, "%s%s", k == first ? "(" : ",",
                          kiln__layout_name(strided ? strided_layout(loop, k, is_named) : loop->layouts[k]));
    kiln__text_append(out, ")");
}

static void append_hint(kiln__text *out, const kiln__loop *loop)
{
    const kiln__size size = kiln__tensors_size(loop);
    if (loop->kind == KILN__LOOP_REDUCED)
        kiln__text_append(out, " axis= keep=");
    if (size.rows > 0)
        kiln__text_printf(out, " n=%" PRIu64 "x%" PRIu64, size.rows, size.cols);
    else if (size.n > 0)
        kiln__text_printf(out, " n=%" PRIu64, size.n);
}

/* Unless the text names the parameter itself. */
static void append_vector(kiln__text *out, const kiln_spec *spec, const kiln__template *template, uint32_t vector)
{
    static const char name[] = "vector";
    const int own = kiln__template_param(spec->fields.template, name, strlen(name));
    if (vector > 0 && kiln__template_param(template, name, strlen(name)) >= 0 &&
        !(own >= 0 && spec->fields.param_set[own]))
        kiln__text_printf(out, " %s=%u", name, vector);
}

kiln_status kiln__tensors_set_fields(kiln_spec **spec, kiln__text *line, kiln_report *report)
{
    kiln_spec *set = NULL;
    kiln_status status = line->failed ? kiln__fail_memory(report, KILN__STAGE_LAUNCH)
                                      : kiln__spec_with(&set, *spec, kiln__text_string(line), report);
    kiln__text_fini(line);
    if (status == KILN_OK) {
        kiln__spec_release(*spec);
        *spec = set;
    }
    return status;
}

/* The fields that tensors give, but for the types of the outputs. The template of rows follows from their length. */
static kiln_status add_fields(kiln_spec **spec, const kiln__loop *loop, uint32_t vector, const kiln_tensor *ins,
                              kiln_report *report)
{
    static const char *const names[] = { "elementwise", "broadcast", "strided", "crossed", KILN__TEMPLATE_ROWS };
    const bool named = (*spec)->fields.template_set, reduces = loop->kind == KILN__LOOP_REDUCED;
    const bool beside = reduces && loop->dims > 2;
    const char *name = beside ? KILN__TEMPLATE_COLUMNS : names[loop->kind];
    const kiln__template *template = (*spec)->fields.template;
    kiln__text line = { 0 };
    kiln_status status = KILN_OK;
    if (named)
        status = check_template(template, loop, report);
    else
        status = kiln__catalog_find((*spec)->fields.catalog, kiln__word_of(name), &template, report);
    if (status == KILN_OK)
        status = check_params(*spec, template, report);
    if (status != KILN_OK)
        return status;
    if (named || beside || !reduces)
        kiln__text_printf(&line, "template=%s", template->name);
    kiln__tensors_append_types(&line, "dtype", ins, loop->operands - loop->outputs);
    append_layout(&line, template, named, loop);
    append_hint(&line, loop);
    append_vector(&line, *spec, template, vector);
    return kiln__tensors_set_fields(spec, &line, report);
}

/* As torch.can_cast: real numbers do not become whole ones, nor numbers truth values. */
static bool can_cast(kiln__dtype from, kiln__dtype to)
{
    if (kiln__dtype_is_real(from))
        return kiln__dtype_is_real(to);
    return to != KILN__DTYPE_BOOL || from == KILN__DTYPE_BOOL;
}

/* Sets the types of the outputs, where they are not those that the op gives. */
static kiln_status add_results(kiln_spec **spec, const kiln_tensor *outs, uint32_t count, kiln_report *report)
{
    kiln__text line = { 0 };
    bool equal = true;
    for (uint32_t k = 0; k < count; k++) {
        kiln__dtype given = kiln__spec_result(&(*spec)->fields, k), wanted = (kiln__dtype)outs[k].dtype;
        equal = equal && given == wanted;
        if (!can_cast(given, wanted))
            return FAIL(report, KILN_EINVAL, "the op gives %s, which does not become %s as PyTorch casts: output %u",
                        kiln__dtype_name(given), kiln__dtype_name(wanted), k);
    }
    if (equal)
        return KILN_OK;
    kiln__tensors_append_types(&line, "out", outs, count);
    return kiln__tensors_set_fields(spec, &line, report);
}

kiln_status kiln__tensors_spec(kiln_spec **out, kiln_spec *asked, const kiln__loop *loop, uint32_t vector,
                               const kiln_tensor *outs, const kiln_tensor *ins, kiln_report *report)
{
    *out = kiln__spec_retain(asked);
    kiln_status status = check_op(*out, loop, report);
    if (status == KILN_OK)
        status = kiln__tensors_check_open(*out, report);
    if (status == KILN_OK)
        status = add_fields(out, loop, vector, ins, report);
    if (status == KILN_OK)
        status = add_results(out, outs, loop->outputs, report);
    if (status != KILN_OK) {
        kiln__spec_release(*out);
        *out = NULL;
    }
    return status;
}
