/* Reads specs and CUDA files from the words of a command line. */
#include "cli/words.h"

#include <string.h>

#include "cli/ownfiles.h"
#include "text/spectext.h"

static bool ends_in_cu(const char *word, size_t length)
{
    return length > 3 && strncmp(word + length - 3, ".cu", 3) == 0;
}

/* How much of a word is a FILE.cu: all, the part before the first blank, or nothing. A path may have blanks, too. */
static size_t file_length(const char *word)
{
    size_t whole = strlen(word), first = strcspn(word, " \t");
    const char *blank = strrchr(word, ' '), *end = word + whole;
    if (spectext_names_fields(word, word + first))
        return 0;
    if (ends_in_cu(word, whole) && !spectext_names_fields(blank ? blank : word, end))
        return whole;
    return ends_in_cu(word, first) ? first : 0;
}

/* Takes a file that template=FILE.cu names out of the fields. A list of templates stays. */
static void take_file(kernel_words *kernel)
{
    const char *path = spectext_field(kernel->fields, "template");
    if (kernel->file || !path || strchr(path, ',') || !ends_in_cu(path, strlen(path)))
        return;
    kernel->file = path;
    kernel->fields = spectext_without(kernel->fields, "template");
}

/* Joins words to kernels. */
static kernel_words *join_words(size_t *count, const struct usage *usage, const text_list *words, size_t first)
{
    kernel_words *list = NULL;
    *count = 0;
    for (size_t i = first; i < words->count; i++) {
        const char *word = words->items[i], *fields = word + file_length(word);
        if (fields == word && !spectext_names_fields(word, word + strlen(word)))
            options_refuse(usage,
                           "'%s' is neither FIELD=VALUE, such as op=hardsigmoid, nor FILE.cu (quote a value that has "
                           "blanks)",
                           word);
        kernel_words *last = *count > 0 ? &list[*count - 1] : NULL;
        if (!last || fields > word || spectext_shares_field(last->fields, fields) ||
            (last->file && spectext_field(fields, "template"))) {
            list = need_array(list, *count + 1, sizeof(*list));
            last = &list[(*count)++];
            *last = (kernel_words){ .fields = "" };
            if (fields > word)
                last->file = need_format("%.*s", (int)(fields - word), word);
        }
        fields += strspn(fields, " \t");
        last->fields = need_format("%s%s%s", last->fields, *last->fields && *fields ? " " : "", fields);
        take_file(last);
    }
    if (*count == 0)
        options_refuse(usage, "no SPEC given, expected one such as op=hardsigmoid, or FILE.cu");
    return list;
}

static void find_source(kernel_words *kernel)
{
    bool is_template = false;
    if (kernel->file && ownfiles_declares(&is_template, kernel->file) != STATUS_DONE)
        finish(STATUS_USAGE);
    kernel->is_source = kernel->file && !is_template;
}

kernel_words words_kernel(const struct usage *usage, const text_list *words, size_t first)
{
    size_t count;
    kernel_words *list = join_words(&count, usage, words, first);
    if (count > 1)
        options_refuse(usage, "one SPEC or FILE.cu expected, '%s' begins another",
                       list[1].file ? list[1].file : list[1].fields);
    find_source(list);
    if (list->is_source && *list->fields)
        options_refuse(usage, "%s declares no template, so there are no fields such as %s", list->file, list->fields);
    return *list;
}

static void define_template(void *data, const char *path)
{
    (void)data;
    options_define_template(path);
}

const char *words_text(const struct usage *usage, const kernel_words *kernel)
{
    char *text = NULL;
    if (kernel->is_source)
        options_refuse(usage,
                       "%s declares no template (//! template): only kiln build, show and watch take such a file",
                       kernel->file);
    if (kernel->file) {
        const char *name = NULL;
        if (ownfiles_name(&name, kernel->file) != STATUS_DONE)
            finish(STATUS_USAGE);
        options_define_template(kernel->file);
        return need_format("template=%s%s%s", name, *kernel->fields ? " " : "", kernel->fields);
    }
    if (ownfiles_resolve(&text, kernel->fields, define_template, NULL) != STATUS_DONE)
        finish(STATUS_USAGE);
    return text ? text : kernel->fields;
}

const char *words_spec(const struct usage *usage, const text_list *words, size_t first)
{
    kernel_words kernel = words_kernel(usage, words, first);
    return words_text(usage, &kernel);
}

void words_specs(text_list *out, const struct usage *usage, const text_list *words, size_t first)
{
    size_t count;
    kernel_words *list = join_words(&count, usage, words, first);
    for (size_t i = 0; i < count; i++) {
        find_source(&list[i]);
        text_list_add(out, words_text(usage, &list[i]));
    }
}

void words_files(text_list *out, const struct usage *usage, const text_list *words)
{
    for (size_t i = 0; i < words->count; i++) {
        const char *word = words->items[i];
        if (file_length(word) < strlen(word) && spectext_names_fields(word, word + strlen(word)))
            options_refuse(usage, "'%s' is no CUDA file; kiln warm and show take specs", word);
        text_list_add(out, word);
    }
    if (out->count == 0)
        options_refuse(usage, "no FILE given, expected CUDA files");
}
