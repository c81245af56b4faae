/* Reads command lines by tables of options, and prints --help from them. */
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/complete.h"
#include "cli/nearest.h"

enum { MOST_ROWS = 32 };

struct parser {
    const struct usage *usage;
    option_row rows[MOST_ROWS];
    bool seen[MOST_ROWS];
    size_t count;
    bool help;
};

static void print_wrong(const struct usage *usage, const char *format, va_list args)
{
    char *message = NULL;
    if (vasprintf(&message, format, args) < 0)
        out_of_memory();
    const char *command = usage->synopsis + strlen("kiln ");
    bool question = message[0] && message[strlen(message) - 1] == '?';
    fail(STATUS_USAGE, "%s%s kiln %.*s --help", message, question ? " See" : "; see", (int)strcspn(command, " "),
         command);
    free(message);
}

int options_wrong(const struct usage *usage, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_wrong(usage, format, args);
    va_end(args);
    return STATUS_USAGE;
}

void options_refuse(const struct usage *usage, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_wrong(usage, format, args);
    va_end(args);
    finish(STATUS_USAGE);
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

static void set_number(const struct parser *parser, const option_row *row, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || number == 0 || number > UINT32_MAX)
        options_refuse(parser->usage, "--%s %s is not a positive whole number", row->name, text);
    *(uint32_t *)row->value = (uint32_t)number;
}

static void set_value(struct parser *parser, size_t index, const char *text)
{
    const option_row *row = &parser->rows[index];
    bool often = row->kind == OPTION_LIST || row->kind == OPTION_COMPILER || row->kind == OPTION_FLAG;
    if (!often && parser->seen[index])
        options_refuse(parser->usage, "--%s is given twice", row->name);
    parser->seen[index] = true;
    if (row->kind == OPTION_FLAG)
        *(bool *)row->value = true;
    else if (row->kind == OPTION_TEXT)
        *(const char **)row->value = text;
    else if (row->kind == OPTION_LIST || row->kind == OPTION_COMPILER)
        text_list_add(row->value, text);
    else
        set_number(parser, row, text);
}

static size_t find_row(const struct parser *parser, const char *name, size_t length)
{
    size_t i = 0;
    while (i < parser->count && (strlen(parser->rows[i].name) != length || strncmp(parser->rows[i].name, name, length)))
        i++;
    return i;
}

/* The row of "NAME" or "NAME=VALUE", or parser->count. NAME may be NVRTC's for the same. */
static size_t find_long(const struct parser *parser, const char *name)
{
    static const struct {
        const char *theirs, *ours;
    } names[] = { { "include-path", "include" }, { "define-macro", "define" } };
    size_t length = strcspn(name, "="), found = find_row(parser, name, length);
    for (size_t i = 0; i < COUNT_OF(names) && found == parser->count; i++)
        if (strlen(names[i].theirs) == length && strncmp(names[i].theirs, name, length) == 0)
            found = find_row(parser, names[i].ours, strlen(names[i].ours));
    return found;
}

static void parse_long(struct parser *parser, char **argv, int *at)
{
    const char *name = argv[*at] + 2;
    size_t length = strcspn(name, "="), i = find_long(parser, name);
    const char *value = name[length] ? name + length + 1 : NULL;
    const option_row *row = &parser->rows[i];
    if (i == parser->count) {
        char *word = need_format("%.*s", (int)length, name);
        const char *near = nearest_word(word, parser->rows, parser->count, sizeof(*row));
        options_refuse(parser->usage, "unknown option --%s%s%s%s", word, near ? ": did you mean --" : "",
                       near ? near : "", near ? "?" : "");
    }
    if (row->kind == OPTION_FLAG && value)
        options_refuse(parser->usage, "--%s takes no value", row->name);
    if (row->kind != OPTION_FLAG && !value && !(value = argv[++*at]))
        options_refuse(parser->usage, "--%s needs a value (%s)", row->name, row->metavar);
    set_value(parser, i, value);
}

/* Whether a word is an option of the CUDA compiler, which is taken with its value. The command's own come first. */
static bool parse_compiler_option(struct parser *parser, char **argv, int *at)
{
    const char *word = argv[*at];
    size_t i = 0;
    while (i < parser->count && parser->rows[i].kind != OPTION_COMPILER)
        i++;
    bool own = word[1] == '-' && find_long(parser, word + 2) < parser->count;
    unsigned words = i < parser->count && !own ? kiln_source_option_words(word) : 0;
    if (words == 0)
        return false;
    set_value(parser, i, word);
    if (words > 1 && !argv[*at + 1])
        options_refuse(parser->usage, "%s needs a value", word);
    if (words > 1)
        set_value(parser, i, argv[++*at]);
    return true;
}

static void parse_letters(struct parser *parser, char **argv, int *at)
{
    const char *word = argv[*at];
    size_t whole = find_long(parser, word + 1);
    if (word[2] && whole < parser->count)
        options_refuse(parser->usage, "unknown option %s: did you mean --%s?", word, parser->rows[whole].name);
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        const char *value = NULL;
        size_t i = 0;
        while (i < parser->count && parser->rows[i].letter != *letter)
            i++;
        if (i == parser->count)
            options_refuse(parser->usage, "unknown option %s", word);
        bool is_flag = parser->rows[i].kind == OPTION_FLAG;
        if (!is_flag && !(value = letter[1] ? letter + 1 : argv[++*at]))
            options_refuse(parser->usage, "-%c needs a value (%s)", *letter, parser->rows[i].metavar);
        set_value(parser, i, value);
        if (!is_flag)
            return;
    }
}

/* The common options point here; they are the same in all commands. */
static text_list ops, templates;

void options_define_template(const char *path)
{
    text_list_add(&templates, need_copy(path));
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
    memcpy(&parser->rows[parser->count], rows, sizeof(rows));
    parser->count += COUNT_OF(rows);
    common->ops = &ops;
    common->templates = &templates;
}

int options_before(int argc, char **argv)
{
    struct parser parser = { .count = 0 };
    common_args common;
    add_common(&parser, &common);
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        size_t i = argv[at][1] == '-' ? find_long(&parser, argv[at] + 2) : parser.count;
        at += i < parser.count && parser.rows[i].kind != OPTION_FLAG && !strchr(argv[at], '=');
    }
    return at;
}

void options_parse(const struct usage *usage, const option_row *rows, size_t count, common_args *common,
                   text_list *words, int argc, char **argv)
{
    struct parser parser = { .usage = usage };
    for (; parser.count < count; parser.count++)
        parser.rows[parser.count] = rows[parser.count];
    add_common(&parser, common);
    if (complete_wanted())
        complete_line(usage, parser.rows, parser.count, argc, argv);
    bool only_words = false;
    for (int at = 1; at < argc; at++) {
        const char *arg = argv[at];
        if (only_words || arg[0] != '-' || !arg[1])
            text_list_add(words, arg);
        else if (strcmp(arg, "--") == 0)
            only_words = true;
        else if (parse_compiler_option(&parser, argv, &at))
            continue;
        else if (arg[1] == '-')
            parse_long(&parser, argv, &at);
        else
            parse_letters(&parser, argv, &at);
    }
    if (parser.help) {
        print_help(&parser);
        finish(STATUS_DONE);
    }
}

void options_only(const struct usage *usage, const option_row *rows, size_t count, common_args *common,
                  const char *hint, int argc, char **argv)
{
    text_list words = { NULL, 0 };
    options_parse(usage, rows, count, common, &words, argc, argv);
    if (words.count > 0)
        options_refuse(usage, "unexpected '%s'%s%s", words.items[0], hint ? ": " : "", hint ? hint : "");
}
