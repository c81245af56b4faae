#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/nearest.h"
#include "cli/ownfiles.h"

enum { MOST_ROWS = 32 };

struct parser {
    const struct usage *usage;
    option_row rows[MOST_ROWS];
    bool seen[MOST_ROWS];
    size_t count;
    bool help;
    text_list *words;
};

void text_list_add(text_list *list, const char *text)
{
    list->items = need_array(list->items, list->count + 1, sizeof(*list->items));
    list->items[list->count++] = text;
}

int options_wrong(const struct usage *usage, const char *format, ...)
{
    char *message = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&message, format, args) < 0)
        message = NULL;
    va_end(args);
    const char *command = usage->synopsis + strlen("kiln ");
    bool question = message && message[0] && message[strlen(message) - 1] == '?';
    fail(STATUS_USAGE, "%s%s kiln %.*s --help", message ? message : "wrong usage", question ? " See" : "; see",
         (int)strcspn(command, " "), command);
    free(message);
    return STATUS_USAGE;
}

static const char *row_name(const void *rows, size_t index)
{
    return ((const option_row *)rows)[index].name;
}

static void print_help(const struct parser *parser)
{
    printf("usage: %s\n\n%s\n\noptions:\n", parser->usage->synopsis, parser->usage->about);
    for (size_t i = 0; i < parser->count; i++) {
        const option_row *row = &parser->rows[i];
        char left[64];
        char letter[8] = "    ";
        if (row->letter)
            snprintf(letter, sizeof(letter), "-%c, ", row->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, row->name, row->metavar ? " " : "",
                 row->metavar ? row->metavar : "");
        printf("  %-26s %s\n", left, row->help);
    }
    if (parser->usage->examples)
        printf("\nexamples:\n%s\n", parser->usage->examples);
}

static int set_number(const struct parser *parser, const option_row *row, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || number == 0 || number > UINT32_MAX)
        return options_wrong(parser->usage, "--%s %s is not a positive whole number", row->name, text);
    *(uint32_t *)row->value = (uint32_t)number;
    return OPTIONS_GO_ON;
}

static int set_value(struct parser *parser, size_t index, const char *text)
{
    const option_row *row = &parser->rows[index];
    if (row->kind != OPTION_LIST && row->kind != OPTION_FLAG && parser->seen[index])
        return options_wrong(parser->usage, "--%s is given twice", row->name);
    parser->seen[index] = true;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)row->value = true;
        return OPTIONS_GO_ON;
    case OPTION_TEXT:
        *(const char **)row->value = text;
        return OPTIONS_GO_ON;
    case OPTION_LIST:
        text_list_add(row->value, text);
        return OPTIONS_GO_ON;
    case OPTION_NUMBER:
        break;
    }
    return set_number(parser, row, text);
}

static int parse_long(struct parser *parser, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    for (size_t i = 0; i < parser->count; i++) {
        const option_row *row = &parser->rows[i];
        if (strlen(row->name) != length || strncmp(row->name, name, length) != 0)
            continue;
        if (row->kind == OPTION_FLAG && equals)
            return options_wrong(parser->usage, "--%s takes no value", row->name);
        if (row->kind == OPTION_FLAG || equals)
            return set_value(parser, i, equals ? equals + 1 : NULL);
        if (*at + 1 >= argc)
            return options_wrong(parser->usage, "--%s needs a value (%s)", row->name, row->metavar);
        return set_value(parser, i, argv[++*at]);
    }
    char *word = strndup(name, length);
    const char *near = word ? nearest_word(word, row_name, parser->rows, parser->count) : NULL;
    int status = options_wrong(parser->usage, "unknown option --%s%s%s%s", word ? word : "",
                               near ? ": did you mean --" : "", near ? near : "", near ? "?" : "");
    free(word);
    return status;
}

static int parse_letters(struct parser *parser, int argc, char **argv, int *at)
{
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        size_t i = 0;
        while (i < parser->count && parser->rows[i].letter != *letter)
            i++;
        if (i == parser->count)
            return options_wrong(parser->usage, "unknown option -%c", *letter);
        if (parser->rows[i].kind != OPTION_FLAG) {
            if (letter[1])
                return set_value(parser, i, letter + 1);
            if (*at + 1 >= argc)
                return options_wrong(parser->usage, "-%c needs a value (%s)", *letter, parser->rows[i].metavar);
            return set_value(parser, i, argv[++*at]);
        }
        set_value(parser, i, NULL);
    }
    return OPTIONS_GO_ON;
}

/* As long as the command runs, whoever has a use for them. */
static text_list ops, templates, rewritten;

static void add_template(void *data, const char *path)
{
    (void)data;
    text_list_add(&templates, need_copy(path));
}

/* A spec may name its template by path. */
static int add_word(text_list *words, const char *word)
{
    char *resolved = NULL;
    int status = strstr(word, "template=") ? ownfiles_resolve(&resolved, word, add_template, NULL) : STATUS_DONE;
    if (resolved)
        text_list_add(&rewritten, resolved);
    if (!status)
        text_list_add(words, resolved ? resolved : word);
    return status ? status : OPTIONS_GO_ON;
}

int options_take_files(text_list *words)
{
    int status = OPTIONS_GO_ON;
    text_list taken = { NULL, 0 };
    for (size_t i = 0; i < words->count && status == OPTIONS_GO_ON; i++) {
        size_t length = strlen(words->items[i]);
        bool file = length > 3 && strcmp(words->items[i] + length - 3, ".cu") == 0 && !strpbrk(words->items[i], "= ");
        char *spec = file ? need_format("template=%s", words->items[i]) : NULL;
        status = spec ? add_word(&taken, spec) : OPTIONS_GO_ON;
        if (!spec)
            text_list_add(&taken, words->items[i]);
        free(spec);
    }
    free(words->items);
    *words = taken;
    return status;
}

static void add_common(struct parser *parser, common_args *common)
{
    const option_row rows[] = {
        { "json", 0, OPTION_FLAG, NULL, "print one JSON object instead of text", &common->json },
        { "device", 0, OPTION_TEXT, "NAME", "cuda:0, cuda:1, ... or cpu", &common->device },
        { "cache-dir", 0, OPTION_TEXT, "DIR", "keep compiled kernels in DIR", &common->cache_dir },
        { "define-op", 0, OPTION_LIST, "TEXT", "define an op, 'swish(x) = x * min(max(x + 3, 0), 6) / 6'", &ops },
        { "template", 0, OPTION_LIST, "FILE", "define the template of FILE.cu, and of FILE.c beside it", &templates },
        { "verbose", 'v', OPTION_FLAG, NULL, "say more", &common->verbose },
        { "help", 'h', OPTION_FLAG, NULL, "print this text", &parser->help },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        parser->rows[parser->count++] = rows[i];
    common->ops = &ops;
    common->templates = &templates;
}

int options_parse(const struct usage *usage, const option_row *rows, size_t count, common_args *common,
                  text_list *words, int argc, char **argv)
{
    struct parser parser = { .usage = usage, .words = words };
    while (parser.count < count) {
        parser.rows[parser.count] = rows[parser.count];
        parser.count++;
    }
    add_common(&parser, common);
    int status = OPTIONS_GO_ON;
    bool only_words = false;
    for (int at = 1; at < argc && status == OPTIONS_GO_ON; at++) {
        const char *arg = argv[at];
        if (only_words || arg[0] != '-' || !arg[1])
            status = add_word(words, arg);
        else if (strcmp(arg, "--") == 0)
            only_words = true;
        else if (arg[1] == '-')
            status = parse_long(&parser, argc, argv, &at);
        else
            status = parse_letters(&parser, argc, argv, &at);
    }
    if (status == OPTIONS_GO_ON && parser.help) {
        print_help(&parser);
        return STATUS_DONE;
    }
    return status;
}

int options_only(const struct usage *usage, const option_row *rows, size_t count, common_args *common, const char *hint,
                 int argc, char **argv)
{
    text_list words = { NULL, 0 };
    int status = options_parse(usage, rows, count, common, &words, argc, argv);
    if (status == OPTIONS_GO_ON && words.count > 0)
        status = options_wrong(usage, "unexpected '%s'%s%s", words.items[0], hint ? ": " : "", hint ? hint : "");
    free(words.items);
    return status;
}
