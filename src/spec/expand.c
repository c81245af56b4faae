/* Lines of lists and ranges: a column of values for each field, and the specs of their product. */
#include "base/list.h"
#include "base/number.h"
#include "spec/spec.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    FIELDS_MAX = 32,
    TEXT_MAX = 16384 /* of one spec: bounds the work for a hostile line of many specs and one long value */
};

#define FAIL(report, ...) kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, __VA_ARGS__)

/* A field and the values it takes. */
typedef struct column {
    kiln__word name;
    kiln__list values;
    const char *at; /* the value of the current spec */
} column;

typedef struct expansion {
    const kiln__catalog *catalog;
    column columns[FIELDS_MAX];
    uint32_t column_count;
    kiln__expand_word word;
    void *word_data;
    kiln_report *report;
} expansion;

static kiln_status add_value(const expansion *e, column *c, kiln__word value)
{
    if (value.length > TEXT_MAX)
        return FAIL(e->report, "%s=%s is longer than %d characters", kiln__word_quote(c->name).text,
                    kiln__word_quote(value).text, TEXT_MAX);
    if (c->values.count == KILN__EXPAND_MAX)
        return FAIL(e->report, "field %s stands for more than %d values", kiln__word_quote(c->name).text,
                    KILN__EXPAND_MAX);
    kiln__list_add_bytes(&c->values, value.text, value.length);
    return c->values.bytes.failed ? kiln__fail_memory(e->report, KILN__STAGE_SPEC) : KILN_OK;
}

/* Whether it is n, or an integer of any template: the field "template" may itself be a list. */
static kiln_status find_integer_field(const expansion *e, kiln__word name, bool *out)
{
    kiln_status status = KILN_OK;
    *out = kiln__word_is(name, "n");
    for (uint32_t i = 0; i < e->catalog->template_count && status == KILN_OK && !*out; i++) {
        const kiln__template *template;
        status = kiln__catalog_load(e->catalog, i, &template, e->report);
        int param = status == KILN_OK ? kiln__template_param(template, name.text, name.length) : -1;
        *out = param >= 0 && !template->params[param].is_enum;
    }
    return status;
}

static kiln_status add_range(const expansion *e, column *c, kiln__word text)
{
    kiln__range range;
    kiln__quote quote = kiln__word_quote(text), name = kiln__word_quote(c->name);
    bool is_integer;
    kiln_status status = find_integer_field(e, c->name, &is_integer);
    if (status != KILN_OK)
        return status;
    if (!is_integer)
        return FAIL(e->report, "%s=%s: only fields of whole numbers take ranges", name.text, quote.text);
    const char *problem = kiln__range_parse(&range, text);
    if (problem != NULL)
        return FAIL(e->report, "%s=%s %s", name.text, quote.text, problem);
    do {
        char number[KILN__NUMBER_SIZE];
        int length = snprintf(number, sizeof(number), "%" PRIu64, range.value);
        status = add_value(e, c, (kiln__word){ number, (size_t)length });
    } while (status == KILN_OK && kiln__range_next(&range));
    return status;
}

static kiln_status add_list(const expansion *e, column *c, kiln__word list);

/* A word stands for a list of plain targets, in which it has no meaning again. */
static kiln_status add_word(const expansion *e, column *c, kiln__word value)
{
    expansion plain = { .catalog = e->catalog, .report = e->report };
    char word[8];
    kiln__text list = { 0 };
    snprintf(word, sizeof(word), "%.*s", (int)value.length, value.text);
    kiln_status status = e->word(e->word_data, word, &list, e->report);
    if (status == KILN_OK && list.failed)
        status = kiln__fail_memory(e->report, KILN__STAGE_SPEC);
    if (status == KILN_OK && list.length == 0)
        status = kiln__fail(e->report, KILN_ETARGET, KILN__STAGE_SPEC, 0, "target=%s stands for no target here", word);
    if (status == KILN_OK)
        status = add_list(&plain, c, (kiln__word){ kiln__text_string(&list), list.length });
    kiln__text_fini(&list);
    return status;
}

static kiln_status add_item(const expansion *e, column *c, kiln__word value)
{
    bool is_target = kiln__word_is(c->name, "target");
    bool is_op = kiln__word_is(c->name, "op");
    if (is_target && e->word != NULL && (kiln__word_is(value, "all") || kiln__word_is(value, "native")))
        return add_word(e, c, value);
    if (!is_op && kiln__range_is(value))
        return add_range(e, c, value);
    return add_value(e, c, value);
}

static kiln_status add_list(const expansion *e, column *c, kiln__word list)
{
    kiln__word whole = list;
    kiln_status status = KILN_OK;
    while (list.text != NULL && status == KILN_OK) {
        kiln__word value = kiln__word_cut_item(&list);
        bool is_alone = value.length == whole.length;
        if (value.length == 0 && !is_alone)
            return FAIL(e->report, "%s=%s: a value is missing beside a comma", kiln__word_quote(c->name).text,
                        kiln__word_quote(whole).text);
        status = add_item(e, c, value);
    }
    return status;
}

static kiln_status read_columns(expansion *e, kiln__word line)
{
    kiln__word name, value;
    kiln_status status;
    while ((status = kiln__spec_next_field(&line, &name, &value, e->report)) == KILN_OK && name.length > 0) {
        if (e->column_count == FIELDS_MAX)
            return FAIL(e->report, "field %s is one too many: more than %d fields", kiln__word_quote(name).text,
                        FIELDS_MAX);
        column *c = &e->columns[e->column_count++];
        c->name = name;
        status = add_list(e, c, value);
        if (status != KILN_OK)
            break;
        c->at = kiln__list_next(&c->values, NULL);
    }
    return status;
}

static kiln_status check_count(const expansion *e)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < e->column_count; i++) {
        count *= e->columns[i].values.count;
        if (count > KILN__EXPAND_MAX)
            return FAIL(e->report, "the line stands for more than %d specs", KILN__EXPAND_MAX);
    }
    return KILN_OK;
}

/* Goes on to the next spec, the last field fastest. False after the last one; the first one is next then. */
static bool next_spec(expansion *e)
{
    for (uint32_t i = e->column_count; i-- > 0;) {
        column *c = &e->columns[i];
        c->at = kiln__list_next(&c->values, c->at);
        if (c->at != NULL)
            return true;
        c->at = kiln__list_next(&c->values, NULL);
    }
    return false;
}

static kiln_status make_spec(const expansion *e, kiln__text *text, kiln_spec **out)
{
    text->length = 0;
    for (uint32_t i = 0; i < e->column_count; i++) {
        kiln__text_append(text, " ");
        kiln__text_append_bytes(text, e->columns[i].name.text, e->columns[i].name.length);
        kiln__text_append(text, "=");
        kiln__text_append(text, e->columns[i].at);
    }
    if (text->failed)
        return kiln__fail_memory(e->report, KILN__STAGE_SPEC);
    if (text->length > TEXT_MAX)
        return FAIL(e->report, "a spec of the line is longer than %d characters", TEXT_MAX);
    return kiln__spec_parse(out, e->catalog, kiln__text_string(text), e->report);
}

/* Makes each spec, and calls fn with it unless fn is NULL. */
static kiln_status visit_specs(expansion *e, int (*fn)(void *data, const kiln_spec *spec), void *data)
{
    kiln__text text = { 0 };
    kiln_status status;
    bool stop;
    do {
        kiln_spec *spec = NULL;
        status = make_spec(e, &text, &spec);
        stop = status != KILN_OK || (fn != NULL && fn(data, spec) != 0);
        kiln__spec_release(spec);
    } while (!stop && next_spec(e));
    kiln__text_fini(&text);
    return status;
}

/* Many specs are large and their line is short: making them twice beats keeping them. */
kiln_status kiln__spec_expand(const kiln__catalog *catalog, const char *line, kiln__expand_word word, void *word_data,
                              int (*fn)(void *data, const kiln_spec *spec), void *data, kiln_report *report)
{
    expansion e = { .catalog = catalog, .word = word, .word_data = word_data, .report = report };
    kiln_status status = read_columns(&e, kiln__word_of(line));
    if (status == KILN_OK)
        status = check_count(&e);
    if (status == KILN_OK)
        status = visit_specs(&e, NULL, NULL);
    if (status == KILN_OK)
        status = visit_specs(&e, fn, data);
    for (uint32_t i = 0; i < e.column_count; i++)
        kiln__list_fini(&e.columns[i].values);
    return status;
}
