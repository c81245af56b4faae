#include "spec/require.h"
#include "lang/formula.h"
#include "spec/scope.h"

/* What a formula speaks of. */
typedef struct subjects {
    const kiln__fields *spec;
    bool known;              /* all of them have values */
    int ids[KILN__NAME_END]; /* each once, in the formula's order */
    uint32_t count;
} subjects;

static void add_subject(void *data, const char *name, size_t length)
{
    subjects *s = data;
    int id = kiln__scope_find(s->spec->template, (kiln__word){ name, length });
    s->known = s->known && kiln__scope_has_value(s->spec, id);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->ids[i] == id)
            return;
    s->ids[s->count++] = id;
}

static void append_subject(const kiln__fields *spec, int id, kiln__text *out)
{
    char buffer[KILN__NUMBER_SIZE];
    kiln__text_append(out, out->length > 0 ? " " : "");
    if (id == KILN__NAME_BYTES) {
        kiln__text_printf(out, "dtype=%s", kiln__dtype_name(spec->dtype));
    } else if (id == KILN__NAME_SM) {
        kiln__text_printf(out, "target=%s", spec->target.name);
    } else if (id == KILN__NAME_INPUTS) {
        kiln__text_printf(out, "inputs=%u", kiln__spec_inputs(spec));
    } else {
        kiln__word value = kiln__param_text(&spec->template->params[id], spec->params[id], buffer);
        kiln__text_printf(out, "%s=", spec->template->params[id].name);
        kiln__text_append_bytes(out, value.text, value.length);
    }
}

typedef struct question {
    const kiln__fields *given, *spec;
    const kiln__target *target;
} question;

static kiln_status check_all(const question *q, kiln_report *report);

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

static bool is_answer(const question *q, int id, int64_t value)
{
    kiln__fields changed = *q->given, full;
    changed.params[id] = value;
    changed.param_set[id] = true;
    question other = { &changed, &changed, NULL };
    const kiln__target *target = changed.target_set ? &changed.target : q->target;
    return (changed.op_set || !kiln__template_takes_op(changed.template)) && target != NULL
               ? kiln__spec_resolve(&full, &changed, target, NULL) == KILN_OK
               : check_all(&other, NULL) == KILN_OK;
}

/* The nearest values of a parameter, one below and one above, with which everything holds that can be checked. */
static uint32_t find_answers(const question *q, int id, int64_t answers[2])
{
    enum { STEPS_MAX = 64 };
    const kiln__declared_param *param = &q->spec->template->params[id];
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
    } found[2 * KILN__NAME_END];
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
        const kiln__declared_param *param = &q->spec->template->params[found[i].id];
        kiln__word value = kiln__param_text(param, found[i].value, buffer);
        kiln__text_printf(out, "%s%s=", i == 0 ? "; nearest: " : i + 1 < count ? ", " : " or ", param->name);
        kiln__text_append_bytes(out, value.text, value.length);
    }
}

static kiln_status check_require(const question *q, const kiln__require *require, kiln_report *report)
{
    const kiln__fields *spec = q->spec;
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
    status = kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "%s", kiln__text_string(&message));
    kiln__text_fini(&message);
    return status;
}

static kiln_status check_all(const question *q, kiln_report *report)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < q->spec->template->require_count && status == KILN_OK; i++)
        status = check_require(q, &q->spec->template->requires[i], report);
    return status;
}

kiln_status kiln__requires_check(const kiln__fields *given, const kiln__fields *spec, const kiln__target *target,
                                 kiln_report *report)
{
    const question q = { given, spec, target };
    return check_all(&q, report);
}
