#include "text/userlines.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"

/* How NVRTC and the C compiler name a place in a unit. */
static const struct form {
    const char *before, *between, *after; /* between: the path and the number */
} forms[] = { { "kiln.cu(", "(", ")" }, { "<stdin>:", ":", ":" } };

static long count_lines(const char *text)
{
    long lines = 0;
    for (; *text; lines++) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return lines;
}

/* The number of the user's line that is line `number` of the unit, or 0 if it is not from this file. */
static long user_line(long number, const char *unit, const char *text)
{
    long mine = number - (count_lines(unit) - count_lines(text));
    const char *theirs = unit;
    for (long i = 1; i < number && theirs; i++)
        theirs = (theirs = strchr(theirs, '\n')) ? theirs + 1 : NULL;
    for (long i = 1; i < mine && text; i++)
        text = (text = strchr(text, '\n')) ? text + 1 : NULL;
    if (number < 1 || mine < 1 || !theirs || !text)
        return 0;
    size_t length = strcspn(text, "\n");
    return length == strcspn(theirs, "\n") && memcmp(text, theirs, length) == 0 ? mine : 0;
}

/* Writes the user's place if there is one at the beginning of the text; returns what it took of that, or 0. */
static size_t map_one(FILE *to, const char *at, const char *unit, const user_file *file)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        size_t before = strlen(forms[i].before);
        if (strncmp(at, forms[i].before, before) != 0)
            continue;
        char *end = NULL;
        long line = user_line(strtol(at + before, &end, 10), unit, file->text);
        if (line == 0 || strncmp(end, forms[i].after, strlen(forms[i].after)) != 0)
            continue;
        fprintf(to, "%s%s%ld%s", file->path, forms[i].between, line, forms[i].after);
        return (size_t)(end - at) + strlen(forms[i].after);
    }
    return 0;
}

char *userlines_map(const char *message, const char *unit, const user_file *file)
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    if (!to || !file->text || !unit) {
        if (to)
            fclose(to);
        free(text);
        return need_copy(message);
    }
    while (*message) {
        size_t taken = map_one(to, message, unit, file);
        if (taken == 0)
            fputc(*message, to);
        message += taken ? taken : 1;
    }
    fclose(to);
    return text;
}
