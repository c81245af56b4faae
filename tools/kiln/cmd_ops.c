/* kiln ops: lists the operations. */
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

static const struct usage usage = {
    "kiln ops [--markdown] [options]",
    "Lists the operations that a spec may name, op=hardtanh(-1,1), and combine, op=hardsigmoid(add(x,y)).",
    NULL,
};

/* The documentation without line ends; up to the first one if `first_line`. */
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

static int add_row(void *table, const kiln_op_info *op)
{
    table_row(table, (const char *const[]){ op->signature, format_count(op->inputs), one_line(op->doc, true) });
    return 0;
}

static int add_json(void *list, const kiln_op_info *op)
{
    json_add(list,
             json_new("name", json_text(op->name), "signature", json_text(op->signature), "inputs",
                      json_count(op->inputs), "params", json_count(op->params), "outputs", json_count(op->outputs),
                      "definition", json_text(op->definition), "doc", json_text(one_line(op->doc, false)), "nan",
                      json_text(one_line(op->nan, false)), "elsewhere", json_text(one_line(op->elsewhere, false)),
                      "functions", json_text(op->functions), "fast_functions", json_text(op->fast_functions),
                      "portable", json_boolean(op->portable), "whole_only", json_boolean(op->whole_only), "truth",
                      json_boolean(op->truth), "origin", json_text(op->origin), NULL));
    return 0;
}

/* A '|' would end the cell. */
static void print_cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

static int print_markdown(void *data, const kiln_op_info *op)
{
    (void)data;
    fputs("| `", stdout);
    print_cell(op->definition);
    fputs("` | ", stdout);
    print_cell(one_line(op->doc, false));
    print_cell(*op->nan ? " " : "");
    print_cell(one_line(op->nan, false));
    print_cell(*op->elsewhere ? " Elsewhere: " : "");
    print_cell(one_line(op->elsewhere, false));
    printf(" | %s | %s | %s |\n", *op->functions ? op->functions : "equal",
           *op->fast_functions ? op->fast_functions : "", op->portable ? "yes" : "");
    return 0;
}

static int print_ops(struct session *session, void *data)
{
    const ops_args *args = data;
    struct table *table = table_new("operation|>inputs|result");
    json_t *list = json_array();
    if (args->markdown && !args->common.json)
        puts("| operation | result | cpu | math=fast | portable |\n|---|---|---|---|---|");
    kiln_status status = args->common.json ? kiln_ops(session->service, add_json, list)
                         : args->markdown  ? kiln_ops(session->service, print_markdown, NULL)
                                           : kiln_ops(session->service, add_row, table);
    if (args->common.json)
        json_print(json_new("ops", list, NULL));
    else if (!args->markdown)
        table_print(table, stdout);
    return session_status(session, status, NULL);
}

int command_ops(int argc, char **argv)
{
    ops_args args = { .common.only_reads = true };
    const option_row rows[] = {
        { "markdown", 0, OPTION_FLAG, NULL, "print a Markdown table", &args.markdown },
    };
    options_only(&usage, OPTION_ROWS(rows), &args.common, NULL, argc, argv);
    return session_run(&args.common, print_ops, &args);
}
