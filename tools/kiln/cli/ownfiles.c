#include "cli/ownfiles.h"

#include <ctype.h>
#include <errno.h>
#include <kiln/kernel.h>
#include <stdlib.h>
#include <string.h>

#include "text/spectext.h"

static const char blanks[] = " \t\r\n";

static bool is_path(const char *value)
{
    size_t length = strlen(value);
    return strchr(value, '/') || (length > 3 && strcmp(value + length - 3, ".cu") == 0);
}

/* "//! template NAME": NAME, which the caller frees, or NULL. */
static char *declared_name(const char *line)
{
    static const char keyword[] = "template";
    if (strncmp(line, "//!", 3) != 0)
        return NULL;
    line += 3 + strspn(line + 3, blanks);
    if (strncmp(line, keyword, strlen(keyword)) != 0 || !isspace((unsigned char)line[strlen(keyword)]))
        return NULL;
    line += strlen(keyword);
    line += strspn(line, blanks);
    return need_format("%.*s", (int)strcspn(line, blanks), line);
}

/* "//! ...": a copy of what is declared, which the caller frees, or NULL. */
static char *declared_text(const char *line)
{
    return strncmp(line, "//!", 3) == 0 ? need_copy(line + 3) : NULL;
}

/* *out is what `find` gives for the first line of the file for which it gives anything, or NULL. */
static int scan(char **out, const char *path, char *(*find)(const char *line))
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "re");
    *out = NULL;
    if (!file)
        return fail(STATUS_USAGE, "%s cannot be read: %s", path, strerror(errno));
    while (!*out && getline(&line, &room, file) >= 0)
        *out = find(line);
    bool failed = ferror(file);
    free(line);
    fclose(file);
    return failed && !*out ? fail(STATUS_USAGE, "%s cannot be read", path) : STATUS_DONE;
}

/* The name that a file declares; its path where it declares none, which is a fault that loading it will name. */
static int peek_name(char **out, const char *path)
{
    int status = scan(out, path, declared_name);
    if (!status && !*out)
        *out = need_copy(path);
    return status;
}

int ownfiles_declares(bool *out, const char *path)
{
    char *text;
    int status = scan(&text, path, declared_text);
    *out = text != NULL;
    free(text);
    return status;
}

int ownfiles_resolve(char **out, const char *text, void (*add)(void *data, const char *path), void *data)
{
    char *value = NULL, *names = need_copy("");
    int status = STATUS_DONE;
    bool found = false;
    *out = NULL;
    if (spectext_field(&value, text, "template"))
        for (char *rest = value, *item; !status && (item = strsep(&rest, ","));) {
            char *name = NULL;
            if (is_path(item)) {
                status = peek_name(&name, item);
                found = true;
                if (!status)
                    add(data, item);
            }
            char *longer = need_format("%s%s%s", names, *names ? "," : "", name ? name : item);
            free(names);
            free(name);
            names = longer;
        }
    if (!status && found)
        *out = spectext_put(text, "template", names);
    free(names);
    free(value);
    return status;
}

/* What follows a word at the beginning of a line, or NULL if it begins otherwise. */
static const char *after_word(const char *line, const char *word)
{
    line += strspn(line, blanks);
    size_t length = strlen(word);
    if (strncmp(line, word, length) != 0 || (line[length] && !strchr(blanks, line[length])))
        return NULL;
    return line + length + strspn(line + length, blanks);
}

bool ownfiles_is_definition(const char *line)
{
    return after_word(line, "define") != NULL;
}

kiln_status ownfiles_define(kiln_service *service, const char *line, kiln_report *report)
{
    const char *rest = after_word(line, "define");
    const char *op = after_word(rest, "op"), *path = after_word(rest, "template");
    if (op)
        return kiln_op_define(service, op, report);
    if (path) {
        char *trimmed = need_copy(path);
        for (size_t length = strlen(trimmed); length > 0 && strchr(blanks, trimmed[length - 1]);)
            trimmed[--length] = '\0';
        kiln_status status = kiln_template_load(service, trimmed, NULL, report);
        free(trimmed);
        return status;
    }
    snprintf(report->message, sizeof(report->message),
             "write define op NAME(x) = EXPRESSION, or define template FILE.cu");
    return report->status = KILN_ESPEC;
}
