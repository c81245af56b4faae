/* Reads definitions in files, as far as the command must know them before the library does. */
#include "cli/ownfiles.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text/spectext.h"

static const char blanks[] = " \t\r\n";

static bool is_path(const char *value)
{
    size_t length = strlen(value);
    return strchr(value, '/') || (length > 3 && strcmp(value + length - 3, ".cu") == 0);
}

/* "//! template NAME": a copy of NAME, or NULL. */
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

/* "//! ...": a copy of the declaration, or NULL. */
static char *declared_text(const char *line)
{
    return strncmp(line, "//!", 3) == 0 ? need_copy(line + 3) : NULL;
}

/* Gives *out the result of `find` for the first line of the file that has one, or NULL. */
static int scan_file(char **out, const char *path, char *(*find)(const char *line))
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

int ownfiles_declares(bool *out, const char *path)
{
    char *text;
    int status = scan_file(&text, path, declared_text);
    *out = text != NULL;
    return status;
}

int ownfiles_name(const char **out, const char *path)
{
    char *name;
    int status = scan_file(&name, path, declared_name);
    *out = name ? name : path;
    return status;
}

int ownfiles_resolve(char **out, const char *text, void (*add)(void *data, const char *path), void *data)
{
    char *names = need_copy("");
    bool found = false;
    *out = NULL;
    for (char *rest = spectext_field(text, "template"), *item; (item = strsep(&rest, ","));) {
        const char *name = item;
        if (is_path(item)) {
            int status = ownfiles_name(&name, item);
            if (status)
                return status;
            found = true;
            add(data, item);
        }
        text_append(&names, ",", "%s", name);
    }
    if (found)
        *out = spectext_put(text, "template", names);
    return STATUS_DONE;
}
