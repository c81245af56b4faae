/* kiln templates: lists the kernel templates, or prints the text of one. */
#include <string.h>

#include "cli/nearest.h"
#include "cli/options.h"
#include "commands.h"
#include "kernels/argvalues.h"
#include "kernels/trial.h"
#include "show/signature.h"
#include "text/jsonout.h"
#include "text/table.h"

/* The collection of one visit of the templates. */
struct visit {
    const char *wanted; /* print the text of this one, NULL: list all */
    bool found;
    json_t *list; /* or NULL: print text */
    text_list names;
};

typedef struct input_range {
    uint32_t least, most;
} input_range;

static const struct usage usage = {
    "kiln templates [--print NAME] [options]",
    "Lists the kernel templates with their dtypes, sizes and arguments, the formulas of their grid, block and\n"
    "shared memory, their parameters, which are fields of a spec (block=256 elems=4), the constraints on these,\n"
    "and the values that kiln tune and kiln sweep try.",
    "  kiln templates --print elementwise > elementwise.cu",
};

/* Prints the lines of a text, each after `label`. */
static void print_lines(const char *label, const char *text)
{
    for (size_t length; (length = strcspn(text, "\n")) > 0; text += length + (text[length] == '\n'))
        printf("  %s%.*s\n", label, (int)length, text);
}

static void print_rules(const char *title, const char *rules)
{
    if (*rules)
        printf("\n%s\n", title);
    print_lines("", rules);
}

static bool takes_op(const kiln_template_info *info)
{
    return info->max_inputs > 0;
}

/* The inputs of the ops that the template takes, or else the arrays that it reads. */
static input_range inputs_of(const kiln_template_info *info)
{
    uint32_t count = signature_takes(info->signature).in;
    return takes_op(info) ? (input_range){ info->min_inputs, info->max_inputs } : (input_range){ count, count };
}

static void print_tunes(const kiln_template_info *info)
{
    bool first = true;
    for (size_t i = 0; i < info->field_count; i++) {
        if (*info->fields[i]->tune && first)
            printf("\ntried by tuning\n");
        first = first && !*info->fields[i]->tune;
        print_lines(need_format("%s=", info->fields[i]->name), info->fields[i]->tune);
    }
}

/* ---- Arguments and the launch */

/* "X, Y": without the directions at the end that have 1. */
static const char *directions(const char *const formulas[3])
{
    char *text = need_copy("");
    int count = 3;
    while (count > 1 && strcmp(formulas[count - 1], "1") == 0)
        count--;
    for (int i = 0; i < count; i++)
        text_append(&text, ", ", "%s", formulas[i]);
    return text;
}

/* "": none is declared. */
static const char *tolerance_of(const kiln_template_info *info)
{
    const kiln_tolerance *declared = info->tolerance;
    return declared ? tolerance_text(declared->ulp, declared->relative, declared->absolute) : "";
}

static void print_launch(const kiln_template_info *info)
{
    const kiln_signature *signature = info->signature;
    char *sizes = need_copy("");
    for (size_t i = 0; i < signature->size_count; i++)
        text_append(&sizes, ", ", "%s", signature->sizes[i]);
    printf("dtypes  %s\n", info->dtypes);
    if (*sizes)
        printf("sizes   %s\n", sizes);
    if (*info->tile)
        printf("tile    %s\n", info->tile);
    printf("grid    %s\n", directions(signature->grid));
    printf("block   %s\n", directions(info->block));
    if (*info->shared)
        printf("shared  %s\n", info->shared);
    if (*tolerance_of(info))
        printf("agree   within %s\n", tolerance_of(info));
    putchar('\n');
    signature_print(signature, true);
    putchar('\n');
}

static void put_launch(json_t *object, const kiln_template_info *info)
{
    const kiln_signature *signature = info->signature;
    json_t *dtypes = json_array();
    for (const char *at = info->dtypes; *at; at += strspn(at, ", ")) {
        json_add(dtypes, json_text(need_format("%.*s", (int)strcspn(at, ","), at)));
        at += strcspn(at, ",");
    }
    json_put(object, "dtypes", dtypes, "sizes", texts_json(signature->sizes, signature->size_count), "args",
             signature_json(signature, true), "tile", json_text(info->tile), "grid", texts_json(signature->grid, 3),
             "block", texts_json(info->block, 3), "shared", json_text(info->shared), "tolerance",
             json_text(tolerance_of(info)), NULL);
}

static void print_template(const kiln_template_info *info)
{
    printf("%s: %s\n", info->name, info->doc);
    if (*info->origin)
        printf("from %s\n", info->origin);
    if (!takes_op(info))
        printf("takes no op%s%s%s\n", *info->reference ? "; computes " : "", info->reference,
               info->has_twin ? "; runs on the cpu too" : "");
    input_range inputs = inputs_of(info);
    if (inputs.least == inputs.most)
        printf("%u input%s\n", inputs.least, inputs.least == 1 ? "" : "s");
    else
        printf("%u to %u inputs\n", inputs.least, inputs.most);
    print_launch(info);
    struct table *table = table_new("parameter|values|default|meaning");
    for (size_t i = 0; i < info->field_count; i++) {
        const kiln_field_info *param = info->fields[i];
        table_row(table, (const char *const[]){ param->name, param->values, param->default_value, param->doc });
    }
    table_print(table, stdout);
    print_rules("where", info->lets);
    print_rules("constraints", info->requirements);
    print_tunes(info);
    print_rules("where tuning stops", info->bounds);
}

static json_t *lines_json(const char *text)
{
    json_t *list = json_array();
    for (size_t length; (length = strcspn(text, "\n")) > 0; text += length + (text[length] == '\n'))
        json_add(list, json_text(need_format("%.*s", (int)length, text)));
    return list;
}

static json_t *template_json(const kiln_template_info *info)
{
    input_range inputs = inputs_of(info);
    json_t *params = json_array();
    for (size_t i = 0; i < info->field_count; i++) {
        const kiln_field_info *param = info->fields[i];
        json_add(params, json_new("name", json_text(param->name), "values", json_text(param->values), "default",
                                  json_text(param->default_value), "doc", json_text(param->doc), "tune",
                                  lines_json(param->tune), NULL));
    }
    json_t *object =
        json_new("name", json_text(info->name), "doc", json_text(info->doc), "origin", json_text(info->origin), "op",
                 json_boolean(takes_op(info)), "reference", json_text(info->reference), "cpu",
                 json_boolean(info->has_twin), "min_inputs", json_count(inputs.least), "max_inputs",
                 json_count(inputs.most), "params", params, "lets", lines_json(info->lets), "requirements",
                 lines_json(info->requirements), "bounds", lines_json(info->bounds), NULL);
    put_launch(object, info);
    return object;
}

static int visit_template(void *data, const kiln_template_info *info)
{
    struct visit *visit = data;
    text_list_add(&visit->names, need_copy(info->name));
    if (visit->wanted && strcmp(visit->wanted, info->name) != 0)
        return 0;
    visit->found = true;
    if (visit->list) {
        json_t *object = template_json(info);
        if (visit->wanted)
            json_put(object, "text", json_text(info->text), NULL);
        json_add(visit->list, object);
    } else if (visit->wanted) {
        fputs(info->text, stdout);
    } else {
        if (visit->names.count > 1)
            putchar('\n');
        print_template(info);
    }
    return 0;
}

static int no_such_template(const struct visit *visit)
{
    const text_list *names = &visit->names;
    const char *near = nearest_word(visit->wanted, names->items, names->count, sizeof(*names->items));
    return fail(STATUS_USAGE, "unknown template '%s': did you mean %s?", visit->wanted,
                near           ? near
                : names->count ? names->items[0]
                               : "none");
}

static int list_templates(struct session *session, void *data)
{
    struct visit *visit = data;
    kiln_status status = kiln_templates(session->service, visit_template, visit);
    if (status)
        return session_status(session, status, NULL);
    if (visit->wanted && !visit->found)
        return no_such_template(visit);
    if (visit->list)
        json_print(json_new("templates", visit->list, NULL));
    return STATUS_DONE;
}

int command_templates(int argc, char **argv)
{
    common_args common = { .only_reads = true };
    struct visit visit = { .wanted = NULL };
    const option_row rows[] = {
        { "print", 'p', OPTION_TEXT, "NAME", "print the text of one template", &visit.wanted },
    };
    options_only(&usage, OPTION_ROWS(rows), &common, "a template's text comes with --print NAME", argc, argv);
    visit.list = common.json ? json_array() : NULL;
    return session_run(&common, list_templates, &visit);
}
