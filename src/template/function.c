#include "template/function.h"

#include <stdio.h>
#include <string.h>

static kiln_status fail(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "functions.h: %s", what);
}

/* The C text of a section: its leading lines of comments are documentation. */
static kiln__word body_of(kiln__word section)
{
    while (section.length > 3 && strncmp(section.text, "//!", 3) == 0) {
        const char *newline = memchr(section.text, '\n', section.length);
        size_t length = newline != NULL ? (size_t)(newline - section.text) + 1 : section.length;
        section = (kiln__word){ section.text + length, section.length - length };
    }
    return kiln__word_trim(section);
}

kiln_status kiln__functions_find(kiln__functions *out, const char *text, kiln_report *report)
{
    static const char mark[] = "\n//! function ", end[] = "\n//! end\n";
    const char *stop = strstr(text, end);
    out->count = 0;
    if (stop == NULL)
        return fail(report, "the last line '//! end' is missing");
    for (const char *at = strstr(text, mark); at != NULL && at < stop; at = strstr(at + 1, mark)) {
        const char *next = strstr(at + 1, mark), *name = at + sizeof(mark) - 1;
        if (out->count == KILN__FUNCTIONS_MAX)
            return fail(report, "there are too many functions");
        kiln__word section = { at + 1, (size_t)((next != NULL && next < stop ? next : stop) - at) - 1 };
        out->at[out->count].name = kiln__word_take(&name);
        out->at[out->count++].text = body_of(section);
    }
    return KILN_OK;
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
