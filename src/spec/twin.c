/* Compares a cpu twin with the declared arguments: its function is not called with its parameters, but indexes them, so
 * that a compiler does not see an index that is too large. */
#include "spec/template.h"

#include "base/text.h"
#include <stdlib.h>

/* A place in the text. Comments, literals of text and directives are passed over. */
typedef struct scanner {
    const char *at;
    uint32_t line;
    uint32_t branches; /* #if and the like that are open here */
} scanner;

/* Moves behind a string or a character. */
static void skip_literal(scanner *s)
{
    const char quote = *s->at++;
    while (*s->at != '\0' && *s->at != quote && *s->at != '\n')
        s->at += s->at[0] == '\\' && s->at[1] != '\0' && s->at[1] != '\n' ? 2 : 1;
    s->at += *s->at == quote;
}

static void skip_comment(scanner *s)
{
    const char *end = s->at[1] == '/' ? strchr(s->at, '\n') : strstr(s->at + 2, "*/");
    end = end == NULL ? s->at + strlen(s->at) : end + (*end == '*' ? 2 : 0);
    for (; s->at < end; s->at++)
        s->line += *s->at == '\n';
}

/* Moves to the end of the line, or of the last line that a '\' continues. */
static void skip_directive(scanner *s)
{
    const char *name = s->at + 1 + strspn(s->at + 1, " \t");
    if (strncmp(name, "if", 2) == 0)
        s->branches++;
    else if (strncmp(name, "endif", 5) == 0)
        s->branches -= s->branches > 0;
    for (; *s->at != '\0' && (*s->at != '\n' || s->at[-1] == '\\'); s->at++)
        s->line += *s->at == '\n';
}

static void skip_blanks(scanner *s)
{
    for (;;) {
        if (*s->at == '\n' || kiln__word_is_blank(*s->at))
            s->line += *s->at++ == '\n';
        else if (s->at[0] == '/' && (s->at[1] == '/' || s->at[1] == '*'))
            skip_comment(s);
        else if (*s->at == '#')
            skip_directive(s);
        else if (*s->at == '"' || *s->at == '\'')
            skip_literal(s);
        else
            return;
    }
}

/* The next name or number; else a word of one other character; at the end an empty one. */
static kiln__word next_token(scanner *s)
{
    skip_blanks(s);
    kiln__word token = kiln__word_take(&s->at);
    if (token.length == 0 && *s->at != '\0')
        token = (kiln__word){ s->at++, 1 };
    return token;
}

/* Moves behind the '{' of kiln_cpu's definition. `args` gets the name of its last parameter. */
static bool find_body(scanner *s, kiln__word *args)
{
    for (kiln__word token = next_token(s); token.length > 0; token = next_token(s)) {
        if (!kiln__word_is(token, "kiln_cpu"))
            continue;
        for (token = next_token(s); token.length > 0 && !kiln__word_is(token, ")"); token = next_token(s))
            if (kiln__word_is_name_char(*token.text))
                *args = token;
        if (kiln__word_is(next_token(s), "{"))
            return args->length > 0;
    }
    return false;
}

/* Whether "[NUMBER]" is next. */
static bool read_index(scanner s, unsigned long *out)
{
    char *end = NULL;
    if (!kiln__word_is(next_token(&s), "["))
        return false;
    kiln__word number = next_token(&s);
    if (number.length == 0 || !kiln__word_is_digit(*number.text) || !kiln__word_is(next_token(&s), "]"))
        return false;
    *out = strtoul(number.text, &end, 0);
    return end + strspn(end, "uUlL") == number.text + number.length;
}

/* A branch of the preprocessor may be for another number of inputs, and is passed over. */
static bool find_beyond(scanner *s, kiln__word args, uint32_t count, unsigned long *index)
{
    const uint32_t outside = s->branches;
    int depth = 1;
    char before = ' ';
    while (depth > 0) {
        kiln__word token = next_token(s);
        if (token.length == 0)
            return false;
        bool is_args = token.length == args.length && memcmp(token.text, args.text, args.length) == 0;
        depth += kiln__word_is(token, "{") - kiln__word_is(token, "}");
        if (is_args && before != '.' && before != '>' && s->branches <= outside && read_index(*s, index) &&
            *index >= count)
            return true;
        before = *token.text;
    }
    return false;
}

kiln_status kiln__template_check_twin(const kiln__template *template, kiln_report *report)
{
    const kiln__arguments *arguments = &template->arguments;
    const char *origin = template->origin;
    kiln__operands most = kiln__operands_plain(KILN__DTYPE_F32, template->max_inputs);
    most.output_count = KILN__OUTPUTS_MAX;
    most.scalar_count = KILN__SCALARS_MAX;
    const uint32_t count = kiln__arguments_count(arguments, &most);
    scanner s = { .at = template->cpu_text, .line = 1 };
    kiln__word args = { 0 };
    unsigned long index = 0;
    if (s.at == NULL || !find_body(&s, &args) || !find_beyond(&s, args, count, &index))
        return KILN_OK;
    kiln__text names = { 0 }, place = { 0 };
    for (uint32_t i = 0; i < arguments->arg_count; i++)
        kiln__text_printf(&names, "%s%s%s", i > 0 ? ", " : "", arguments->args[i].name,
                          arguments->args[i].each ? "..." : "");
    if (origin != NULL && strchr(origin, '/') != NULL)
        kiln__text_printf(&place, "%.*s:%u", (int)strlen(origin) - 1, origin, s.line);
    else
        kiln__text_printf(&place, "the twin of template %s, line %u", template->name, s.line);
    kiln_status status = kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0,
                                    "%s: %s[%lu] is argument %lu, and the template declares %u (%s): add an arg line",
                                    kiln__text_string(&place), kiln__word_quote(args).text, index, index + 1, count,
                                    kiln__text_string(&names));
    kiln__text_fini(&names);
    kiln__text_fini(&place);
    return status;
}
