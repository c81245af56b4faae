#include <stdlib.h>
#include <string.h>

#include "cli/nearest.h"
#include "cli/options.h"
#include "commands.h"
#include "kernels/signature.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/table.h"

/* What one visit of the templates collects. */
struct visit {
    const char *wanted; /* print the text of this one, NULL: list all */
    bool found;
    json_t *list; /* or NULL: print text */
    char **names;
    size_t count;
};

typedef struct input_range {
    uint32_t least, most;
} input_range;

static const struct usage usage = {
    "kiln templates [--print NAME] [options]",
    "Lists the kernel templates with their parameters, which are fields of a spec (block=256 elems=4), with\n"
    "the constraints on these, and with the values that kiln tune and kiln sweep try.",
    "  kiln templates --print elementwise > elementwise.cu",
};

/* Prints the lines of a text, each after `what`. */
static void print_lines(const char *what, const char *text)
{
    for (size_t length; (length = strcspn(text, "\n")) > 0; text += length + (text[length] == '\n'))
        printf("  %s%.*s\n", what, (int)length, text);
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

/* Of the ops that it takes, or else the arrays that it reads. */
static input_range inputs_of(const kiln_template_info *info)
{
    uint32_t count = signature_inputs(info->signature);
    return takes_op(info) ? (input_range){ info->min_inputs, info->max_inputs } : (input_range){ count, count };
}

static void print_tunes(const kiln_template_info *info)
{
    bool first = true;
    for (size_t i = 0; i < info->field_count; i++) {
        if (*info->fields[i]->tune && first)
            printf("\ntried by tuning\n");
        first = first && !*info->fields[i]->tune;
        char *what = need_format("%s=", info->fields[i]->name);
        print_lines(what, info->fields[i]->tune);
        free(what);
    }
}

static void print_template(const kiln_template_info *info)
{
    printf("%s: %s\n", info->name, info->doc);
    if (*info->origin)
        printf("from %s\n", info->origin);
    if (!takes_op(info))
        printf("arithmetic of its own%s%s%s\n", *info->reference ? ", that of " : "", info->reference,
               info->has_twin ? ", on the cpu too" : "");
    input_range inputs = inputs_of(info);
    if (inputs.least == inputs.most)
        printf("%u input%s\n\n", inputs.least, inputs.least == 1 ? "" : "s");
    else
        printf("%u to %u inputs\n\n", inputs.least, inputs.most);
    struct table *table = table_new("parameter|values|default|meaning");
    for (size_t i = 0; i < info->field_count; i++) {
        const kiln_field_info *param = info->fields[i];
        table_row(table, (const char *const[]){ param->name, param->values, param->default_value, param->doc });
    }
    table_print(table, stdout);
    table_free(table);
    print_rules("constraints", info->requirements);
    print_tunes(info);
    print_rules("where tuning stops", info->bounds);
}

static json_t *lines_json(const char *text)
{
    json_t *list = json_list();
    for (size_t length; (length = strcspn(text, "\n")) > 0; text += length + (text[length] == '\n')) {
        char *line = need_format("%.*s", (int)length, text);
        json_add(list, json_text(line));
        free(line);
    }
    return list;
}

static json_t *template_json(const kiln_template_info *info)
{
    input_range inputs = inputs_of(info);
    json_t *object = json_new(), *params = json_list();
    json_put_text(object, "name", info->name);
    json_put_text(object, "doc", info->doc);
    json_put_text(object, "origin", info->origin);
    json_put_bool(object, "op", takes_op(info));
    json_put_text(object, "reference", info->reference);
    json_put_bool(object, "cpu", info->has_twin);
    json_put_count(object, "min_inputs", inputs.least);
    json_put_count(object, "max_inputs", inputs.most);
    for (size_t i = 0; i < info->field_count; i++) {
        json_t *param = json_new();
        json_put_text(param, "name", info->fields[i]->name);
        json_put_text(param, "values", info->fields[i]->values);
        json_put_text(param, "default", info->fields[i]->default_value);
        json_put_text(param, "doc", info->fields[i]->doc);
        json_put(param, "tune", lines_json(info->fields[i]->tune));
        json_add(params, param);
    }
    json_put(object, "params", params);
    json_put(object, "requirements", lines_json(info->requirements));
    json_put(object, "bounds", lines_json(info->bounds));
    return object;
}

static int visit_template(void *data, const kiln_template_info *info)
{
    struct visit *visit = data;
    visit->names = need_array(visit->names, visit->count + 1, sizeof(*visit->names));
    visit->names[visit->count++] = need_copy(info->name);
    if (visit->wanted && strcmp(visit->wanted, info->name) != 0)
        return 0;
    visit->found = true;
    if (visit->list) {
        json_t *object = template_json(info);
        if (visit->wanted)
            json_put_text(object, "text", info->text);
        json_add(visit->list, object);
    } else if (visit->wanted) {
        fputs(info->text, stdout);
    } else {
        if (visit->count > 1)
            putchar('\n');
        print_template(info);
    }
    return 0;
}

static const char *name_at(const void *names, size_t index)
{
    return ((char *const *)names)[index];
}

static int no_such_template(const struct visit *visit)
{
    const char *near = nearest_word(visit->wanted, name_at, visit->names, visit->count);
    return fail(STATUS_USAGE, "unknown template '%s': did you mean %s?", visit->wanted,
                near           ? near
                : visit->count ? visit->names[0]
                               : "none");
}

static int list_templates(struct session *session, const char *wanted, bool json)
{
    struct visit visit = { .wanted = wanted, .list = json ? json_list() : NULL };
    kiln_status status = kiln_templates(session->service, visit_template, &visit);
    int result = status ? session_fail(session, status, NULL) : STATUS_DONE;
    if (!result && wanted && !visit.found)
        result = no_such_template(&visit);
    if (!result && json) {
        json_t *object = json_new();
        json_put(object, "templates", json_incref(visit.list));
        json_print(object);
    }
    json_decref(visit.list);
    for (size_t i = 0; i < visit.count; i++)
        free(visit.names[i]);
    free(visit.names);
    return result;
}

int command_templates(int argc, char **argv)
{
    common_args common = { .json = false };
    const char *wanted = NULL;
    const option_row rows[] = {
        { "print", 'p', OPTION_TEXT, "NAME", "print the text of one template", &wanted },
    };
    int status = options_only(&usage, rows, 1, &common, "a template's text comes with --print NAME", argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    struct session session;
    status = session_open(&session, &common);
    if (!status)
        status = list_templates(&session, wanted, common.json);
    session_close(&session);
    return status;
}
