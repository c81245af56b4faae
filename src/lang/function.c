#include "lang/function.h"

#include <stdio.h>
#include <string.h>

static kiln_status fail(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "functions.h: %s", what);
}

static bool is_declaration(const char *line)
{
    return strncmp(line, "//!", 3) == 0;
}

/* The C text of a function begins behind its declaration and the comments beneath, and goes up to the next
 * declaration. */
kiln_status kiln__functions_find(kiln__functions *out, const char *text, kiln_report *report)
{
    static const char mark[] = "//! function ", end[] = "//! end\n";
    const char *next;
    kiln__word *open = NULL; /* the text of the function that the lines belong to */
    out->count = 0;
    for (const char *line = text; *line != '\0'; line = next) {
        next = strchrnul(line, '\n');
        next += *next != '\0';
        bool starts = strncmp(line, mark, sizeof(mark) - 1) == 0, ends = strncmp(line, end, sizeof(end) - 1) == 0;
        if (open != NULL && (starts || ends))
            *open = kiln__word_trim((kiln__word){ open->text, (size_t)(line - open->text) });
        if (ends)
            return KILN_OK;
        if (starts && out->count == KILN__FUNCTIONS_MAX)
            return fail(report, "there are too many functions");
        if (starts) {
            const char *name = line + sizeof(mark) - 1;
            out->at[out->count].name = kiln__word_take(&name);
            open = &out->at[out->count++].text;
        }
        if (open != NULL && is_declaration(line))
            open->text = next;
    }
    return fail(report, "the last line '//! end' is missing");
}

void kiln__functions_take(const kiln__functions *functions, const char *name, bool taken[KILN__FUNCTIONS_MAX])
{
    for (uint32_t i = 0; i < functions->count; i++)
        taken[i] = taken[i] || kiln__word_is(functions->at[i].name, name);
}

static bool calls(kiln__word text, kiln__word function)
{
    char call[80];
    int length = snprintf(call, sizeof(call), "kiln_%.*s(", (int)function.length, function.text);
    return memmem(text.text, text.length, call, (size_t)length) != NULL;
}

/* A function stands behind those that it calls, so one walk from the end finds all. */
void kiln__functions_append(const kiln__functions *functions, bool taken[KILN__FUNCTIONS_MAX], kiln__text *out)
{
    for (uint32_t i = functions->count; i-- > 0;)
        for (uint32_t j = 0; j < i && taken[i]; j++)
            taken[j] = taken[j] || calls(functions->at[i].text, functions->at[j].name);
    for (uint32_t i = 0; i < functions->count; i++)
        if (taken[i]) {
            kiln__text_append_bytes(out, functions->at[i].text.text, functions->at[i].text.length);
            kiln__text_append(out, "\n\n");
        }
}
