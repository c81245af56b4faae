#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "commands.h"
#include "text/format.h"
#include "text/jsonout.h"
#include "text/table.h"

typedef struct ops_args {
    bool markdown;
    common_args common;
} ops_args;

struct listing {
    struct table *table;
    json_t *list;
};

static const struct usage usage = {
    "kiln ops [--markdown] [options]",
    "Lists the operations that a spec may name, op=hardtanh(-1,1), and combine, op=hardsigmoid(add(x,y)).",
    NULL,
};

/* The documentation without line ends, which the caller frees; up to the first one if `first_line`. */
static char *one_line(const char *doc, bool first_line)
{
    char *text = need_copy(doc);
    if (first_line)
        text[strcspn(text, "\n")] = '\0';
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return text;
}

static int add_row(void *data, const kiln_op_info *op)
{
    const struct listing *listing = data;
    char inputs[FORMAT_ROOM];
    char *doc = one_line(op->doc, true);
    table_row(listing->table, (const char *const[]){ op->signature, format_count(inputs, op->inputs), doc });
    free(doc);
    return 0;
}

static int add_json(void *data, const kiln_op_info *op)
{
    const struct listing *listing = data;
    json_t *object = json_new();
    char *doc = one_line(op->doc, false);
    json_put_text(object, "name", op->name);
    json_put_text(object, "signature", op->signature);
    json_put_count(object, "inputs", op->inputs);
    json_put_count(object, "params", op->params);
    json_put_text(object, "doc", doc);
    json_put_text(object, "origin", op->origin);
    json_add(listing->list, object);
    free(doc);
    return 0;
}

static int print_markdown(void *data, const kiln_op_info *op)
{
    (void)data;
    char *doc = one_line(op->doc, false);
    printf("| `%s` | %u | ", op->signature, op->inputs);
    for (const char *c = doc; *c; c++) {
        if (*c == '|')
            putchar('\\');
        putchar(*c);
    }
    puts(" |");
    free(doc);
    return 0;
}

static kiln_status print_ops(kiln_service *service, const ops_args *args)
{
    struct listing listing = { NULL, NULL };
    kiln_status status = KILN_OK;
    if (args->common.json) {
        listing.list = json_list();
        status = kiln_ops(service, add_json, &listing);
        json_t *object = json_new();
        json_put(object, "ops", listing.list);
        json_print(object);
    } else if (args->markdown) {
        puts("| operation | inputs | result |\n|---|---|---|");
        status = kiln_ops(service, print_markdown, NULL);
    } else {
        listing.table = table_new("operation|>inputs|result");
        status = kiln_ops(service, add_row, &listing);
        table_print(listing.table, stdout);
        table_free(listing.table);
    }
    return status;
}

int command_ops(int argc, char **argv)
{
    ops_args args = { .markdown = false };
    const option_row rows[] = {
        { "markdown", 0, OPTION_FLAG, NULL, "print a Markdown table", &args.markdown },
    };
    int status = options_only(&usage, rows, 1, &args.common, NULL, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    struct session session;
    status = session_open(&session, &args.common);
    if (!status) {
        kiln_status result = print_ops(session.service, &args);
        status = result ? session_fail(&session, result, NULL) : STATUS_DONE;
    }
    session_close(&session);
    return status;
}
