/* Completes command lines by the tables of options, and values by what the library knows. */
#include "cli/complete.h"

#include <string.h>

/* The word to complete, and its end that is completed: behind "--target=sm_80," or "'op=relu6 ". */
static struct completion {
    const char *last, *end;
    const char *const *actions; /* the first of the names */
    size_t action_count, stride;
} completion;

void complete_begin(const char *last)
{
    completion = (struct completion){ .last = last, .end = last };
}

bool complete_wanted(void)
{
    return completion.last != NULL;
}

void complete_actions(const void *rows, size_t count, size_t stride)
{
    completion.actions = rows;
    completion.action_count = count;
    completion.stride = stride;
}

void complete_word(const char *word, const char *about)
{
    if (strncmp(word, completion.end, strlen(completion.end)) == 0)
        printf("%.*s%s\t%.*s\n", (int)(completion.end - completion.last), completion.last, word,
               (int)strcspn(about, "\n"), about);
}

/* Completes the text behind the last of the characters `separators` in the end of the word. */
static void skip_to_last(const char *separators)
{
    for (const char *c; (c = strpbrk(completion.end, separators)) != NULL;)
        completion.end = c + 1;
}

/* ---- Values */

static int add_target(void *data, const kiln_spec *spec)
{
    (void)data;
    complete_word(kiln_spec_field(spec, "target"), "");
    return 0;
}

static int list_targets(struct session *session, void *data)
{
    skip_to_last(",");
    complete_word("cpu", "the backend of the C compiler");
    complete_word("native", "the target of the default device");
    complete_word("all", "every target of the compiler");
    /* Without a compiler no more is known. */
    (void)kiln_spec_expand(session->service, "op=copy target=all", add_target, data, &session->report);
    return STATUS_DONE;
}

static int add_op(void *data, const kiln_op_info *op)
{
    (void)data;
    complete_word(op->name, op->doc);
    return 0;
}

static int list_ops(struct session *session, void *data)
{
    skip_to_last(",");
    return session_status(session, kiln_ops(session->service, add_op, data), NULL);
}

static int add_template(void *data, const kiln_template_info *info)
{
    (void)data;
    complete_word(info->name, info->doc);
    return 0;
}

static int list_templates(struct session *session, void *data)
{
    skip_to_last(",");
    return session_status(session, kiln_templates(session->service, add_template, data), NULL);
}

static int list_dtypes(struct session *session, void *data)
{
    (void)session;
    (void)data;
    skip_to_last(",");
    complete_word("f32", "float");
    complete_word("f64", "double");
    complete_word("f16", "half");
    complete_word("bf16", "bfloat16");
    complete_word("f8e4m3", "float8_e4m3fn");
    complete_word("f8e5m2", "float8_e5m2");
    complete_word("i8", "int8");
    complete_word("i16", "int16");
    complete_word("i32", "int32");
    complete_word("i64", "int64");
    complete_word("u8", "uint8");
    complete_word("bool", "a byte, 0 or 1");
    return STATUS_DONE;
}

static int list_devices(struct session *session, void *data)
{
    (void)session;
    (void)data;
    complete_word("cuda:0", "the first GPU");
    complete_word("cpu", "the C compiler and the processor");
    return STATUS_DONE;
}

static int list_sources(struct session *session, void *data)
{
    (void)session;
    (void)data;
    complete_word("own", "tuned here");
    complete_word("shared", "of the shared directory");
    return STATUS_DONE;
}

/* Options and fields of specs that have a list of values. */
static const struct value_list {
    const char *name;
    int (*list)(struct session *session, void *data);
} value_lists[] = {
    { "target", list_targets },  { "op", list_ops },         { "dtype", list_dtypes },   { "template", list_templates },
    { "print", list_templates }, { "device", list_devices }, { "source", list_sources },
};

static void complete_value(const char *name, size_t length)
{
    static const common_args args = { .json = false };
    for (size_t i = 0; i < COUNT_OF(value_lists); i++)
        if (strlen(value_lists[i].name) == length && strncmp(value_lists[i].name, name, length) == 0)
            (void)session_run(&args, value_lists[i].list, NULL);
}

/* ---- Words */

/* Templates share the names of most fields. */
static int add_fields(void *data, const kiln_template_info *info)
{
    text_list *seen = data;
    for (size_t i = 0; i < info->field_count; i++) {
        const char *word = need_format("%s=", info->fields[i]->name);
        size_t at = 0;
        while (at < seen->count && strcmp(seen->items[at], word) != 0)
            at++;
        if (at == seen->count) {
            text_list_add(seen, word);
            complete_word(word, info->fields[i]->doc);
        }
    }
    return 0;
}

static int list_fields(struct session *session, void *data)
{
    (void)data;
    text_list seen = { NULL, 0 };
    complete_word("op=", "the operation");
    complete_word("template=", "the template");
    complete_word("dtype=", "the type of the values");
    complete_word("target=", "the backend and architecture");
    complete_word("n=", "the number of elements, by which the geometry is chosen");
    return session_status(session, kiln_templates(session->service, add_fields, &seen), NULL);
}

/* The last field of a spec, "op=relu6 dty". */
static void complete_spec(void)
{
    static const common_args args = { .json = false };
    skip_to_last(" ");
    const char *field = completion.end;
    size_t length = strcspn(field, "=");
    if (field[length] == '\0') {
        (void)session_run(&args, list_fields, NULL);
        return;
    }
    completion.end = field + length + 1;
    complete_value(field, length);
}

static void complete_action(void)
{
    for (size_t i = 0; i < completion.action_count; i++)
        complete_word(*(const char *const *)((const char *)completion.actions + i * completion.stride), "");
}

/* The option with a value that begins `word`, "--target" or "--target=sm" or "-t"; else NULL. */
static const option_row *find_option(const option_row *rows, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(word, "=");
        bool is_long = strncmp(word, "--", 2) == 0 && strlen(rows[i].name) == length - 2 &&
                       strncmp(word + 2, rows[i].name, length - 2) == 0;
        bool is_letter = word[0] == '-' && rows[i].letter && word[1] == rows[i].letter && word[2] == '\0';
        if (rows[i].kind != OPTION_FLAG && (is_long || is_letter))
            return &rows[i];
    }
    return NULL;
}

static void complete_option_value(const option_row *option)
{
    if (strcmp(option->metavar, "FILE") != 0)
        complete_value(option->name, strlen(option->name));
}

_Noreturn void complete_line(const struct usage *usage, const option_row *rows, size_t count, int argc, char **argv)
{
    const option_row *open = NULL;
    size_t words = 0;
    for (int at = 1; at < argc - 1; at++) {
        words += open == NULL && argv[at][0] != '-';
        open = open == NULL && strchr(argv[at], '=') == NULL ? find_option(rows, count, argv[at]) : NULL;
    }
    const char *last = completion.last, *equals = strchr(last, '=');
    bool is_option = strncmp(last, "--", 2) == 0;
    if (open != NULL) {
        complete_option_value(open);
    } else if (is_option && equals != NULL) {
        completion.end = equals + 1;
        open = find_option(rows, count, last);
        if (open != NULL)
            complete_option_value(open);
    } else if (is_option || strcmp(last, "-") == 0) {
        for (size_t i = 0; i < count; i++)
            complete_word(need_format("--%s", rows[i].name), rows[i].help);
    } else if (completion.action_count > 0 && words == 0) {
        complete_action();
    } else if (strstr(usage->synopsis, "SPEC") != NULL) {
        complete_spec();
    }
    finish(STATUS_DONE);
}
