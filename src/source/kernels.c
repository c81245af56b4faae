/* Lists the kernels of a source from its text, without a preprocessor, and looks for host code. */
#include "source/source.h"
#include "source/tokens.h"

#include <ctype.h>
#include <string.h>

enum { LIST_MAX = 240, NAME_MAX_LENGTH = 120, SCOPES_MAX = 32 };

/* A text that is being read. */
typedef struct reader {
    kiln__tokens tokens;
    kiln__word template; /* the parameters of the template that is declared; "", not NULL, for "template <>" */
    kiln__word scopes[SCOPES_MAX]; /* for each open brace the name of its namespace, or an empty one */
    size_t depth;                  /* of braces; those beyond SCOPES_MAX have no name */
} reader;

/* Goes behind the end of a bracket that has been opened; returns the text between, without the blanks at its ends. */
static kiln__word skip_balanced(reader *r, const char *open, const char *close)
{
    int depth = 1, round = 0; /* round: parentheses, in which '>' closes nothing */
    kiln__tokens_skip_space(&r->tokens);
    kiln__word inside = { r->tokens.at, 0 };
    for (kiln__word word = kiln__tokens_next(&r->tokens); word.length > 0; word = kiln__tokens_next(&r->tokens)) {
        round += *open != '(' ? kiln__word_is(word, "(") - kiln__word_is(word, ")") : 0;
        depth += round > 0 ? 0 : kiln__word_is(word, open) - kiln__word_is(word, close);
        if (depth == 0)
            break;
        inside.length = (size_t)(r->tokens.at - inside.text);
    }
    return inside;
}

/* ---- The list */

/* With one blank for any space in it. */
static void append_words(kiln__text *out, kiln__word words)
{
    for (size_t i = 0; i < words.length; i++) {
        bool space = isspace((unsigned char)words.text[i]);
        if (!space || !isspace((unsigned char)words.text[i - 1]))
            kiln__text_append_bytes(out, space ? " " : &words.text[i], 1);
    }
}

static bool has_name(const kiln__list *names, const char *name)
{
    for (const char *at = kiln__list_next(names, NULL); at != NULL; at = kiln__list_next(names, at))
        if (strcmp(at, name) == 0)
            return true;
    return false;
}

static void add_name(kiln__list *names, const reader *r, kiln__word name)
{
    kiln__text full = { 0 };
    for (size_t i = 0; i < r->depth && i < SCOPES_MAX; i++)
        if (r->scopes[i].length > 0) {
            append_words(&full, r->scopes[i]);
            kiln__text_append(&full, "::");
        }
    append_words(&full, name);
    if (r->template.length > 0 && r->template.length <= NAME_MAX_LENGTH) {
        kiln__text_append(&full, "<");
        append_words(&full, r->template);
        kiln__text_append(&full, ">");
    } else if (r->template.length > 0) {
        kiln__text_append(&full, "<...>");
    }
    if (!full.failed && full.length > 0 && !has_name(names, full.data))
        kiln__list_add(names, full.data);
    kiln__text_fini(&full);
}

/* Behind "__global__": the name stands before the parentheses that belong to no attribute. An instantiation, "f<int>(",
 * has none. */
static void read_kernel(reader *r, kiln__list *names)
{
    static const char *const attributes[] = { "__launch_bounds__", "__cluster_dims__", "__block_size__", "__maxnreg__",
                                              "__attribute__" };
    kiln__word last = { "", 0 };
    for (kiln__word word = kiln__tokens_next(&r->tokens); word.length > 0; word = kiln__tokens_next(&r->tokens)) {
        bool attribute = false;
        for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
            attribute = attribute || kiln__word_is(last, attributes[i]);
        if (kiln__word_is(word, "(") && attribute) {
            skip_balanced(r, "(", ")");
        } else if (kiln__word_is(word, "(") || kiln__word_is(word, ";") || kiln__word_is(word, "{")) {
            r->tokens.at = word.text;
            break;
        }
        last = word;
    }
    bool whole = r->template.text == NULL || r->template.length > 0;
    if (last.length > 0 && kiln__word_is_name_char(last.text[0]) && *r->tokens.at == '(' && whole)
        add_name(names, r, last);
    r->template = (kiln__word){ NULL, 0 };
}

/* Behind "namespace": its name, of which "a::b" is one, goes to the brace that follows. */
static kiln__word read_namespace(reader *r)
{
    kiln__word name = { "", 0 };
    for (kiln__word word = kiln__tokens_next(&r->tokens); word.length > 0; word = kiln__tokens_next(&r->tokens)) {
        if (!kiln__word_is_name_char(word.text[0]) && !kiln__word_is(word, ":")) {
            r->tokens.at = word.text;
            return kiln__word_is(word, "{") ? name : (kiln__word){ "", 0 };
        }
        if (name.length == 0)
            name.text = word.text;
        name.length = (size_t)(r->tokens.at - name.text);
    }
    return (kiln__word){ "", 0 };
}

static void read_text(const char *text, kiln__list *names)
{
    reader r = { .tokens = { .at = text, .at_line = true } };
    kiln__word opening = { "", 0 }; /* the namespace that the next brace opens */
    for (kiln__word word = kiln__tokens_next(&r.tokens); word.length > 0; word = kiln__tokens_next(&r.tokens)) {
        if (kiln__word_is(word, "namespace")) {
            opening = read_namespace(&r);
        } else if (kiln__word_is(word, "template")) {
            kiln__tokens_skip_space(&r.tokens);
            if (*r.tokens.at == '<') {
                kiln__tokens_next(&r.tokens);
                r.template = skip_balanced(&r, "<", ">");
            }
        } else if (kiln__word_is(word, "__global__")) {
            read_kernel(&r, names);
        } else if (kiln__word_is(word, "{")) {
            if (r.depth < SCOPES_MAX)
                r.scopes[r.depth] = opening;
            r.depth++;
            opening = (kiln__word){ "", 0 };
        } else if (kiln__word_is(word, "}") && r.depth > 0) {
            r.depth--;
        }
        if (kiln__word_is(word, "{") || kiln__word_is(word, "}") || kiln__word_is(word, ";"))
            r.template = (kiln__word){ NULL, 0 };
    }
}

void kiln__source_list_kernels(kiln__text *out, const kiln__unit *unit)
{
    kiln__list names = { 0 };
    const char *header = NULL, *text, *link = "";
    size_t begin = out->length;
    read_text(unit->source, &names);
    for (const char *part = NULL; kiln__list_next_pair(&unit->parts, &part, &text);)
        read_text(text, &names);
    while (kiln__list_next_pair(&unit->headers, &header, &text))
        read_text(text, &names);
    for (const char *at = kiln__list_next(&names, NULL); at != NULL; at = kiln__list_next(&names, at), link = ", ") {
        bool fits = out->length - begin + strlen(at) <= LIST_MAX;
        kiln__text_printf(out, "%s%s", link, fits ? at : "...");
        if (!fits)
            break;
    }
    kiln__list_fini(&names);
}

/* ---- Host code */

static bool begins_with_upper(kiln__word word, const char *prefix)
{
    size_t length = strlen(prefix);
    return word.length > length && strncmp(word.text, prefix, length) == 0 && isupper((unsigned char)word.text[length]);
}

bool kiln__source_has_host_code(const char *text)
{
    kiln__tokens tokens = { .at = text, .at_line = true };
    if (strstr(text, "__CUDACC_RTC__") != NULL)
        return false;
    for (kiln__word word = kiln__tokens_next(&tokens); word.length > 0; word = kiln__tokens_next(&tokens)) {
        kiln__tokens_skip_space(&tokens);
        bool host = kiln__word_is(word, "main") || begins_with_upper(word, "cuda") || begins_with_upper(word, "cu");
        if ((host && *tokens.at == '(') || (kiln__word_is(word, "<") && strncmp(tokens.at, "<<", 2) == 0))
            return true;
    }
    return false;
}
