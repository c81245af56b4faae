#include "source/standard.h"

#include "source/reads.h"
#include "template/embedded.h"
#include <string.h>

typedef enum precedence {
    INSTEAD, /* a user's file of this name comes in its place */
    BEHIND,  /* ... or CUDA's, and this after it */
    ALWAYS   /* theirs cannot be compiled */
} precedence;

static precedence precedence_of(const char *name)
{
    static const struct {
        const char *name;
        precedence precedence;
    } odd[] = { { "cuda_runtime.h", BEHIND },
                { "cuda.h", ALWAYS },
                { "device_launch_parameters.h", BEHIND },
                { "cub/cub.cuh", ALWAYS } };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        if (strcmp(odd[i].name, name) == 0)
            return odd[i].precedence;
    return INSTEAD;
}

static bool has_own(const kiln__source *source, const char *name)
{
    const kiln__list *own = &source->headers;
    for (const char *at = kiln__list_next(own, NULL); at != NULL;) {
        if (strcmp(at, name) == 0)
            return true;
        const char *text = kiln__list_next(own, at);
        at = text != NULL ? kiln__list_next(own, text) : NULL;
    }
    return false;
}

/* Lines that include the file `name` of the first place that has one: what the compiler has in memory hides all files of that name,
 * but not their paths. The user's directories are places that are called by a number. False if no place is asked. */
static bool add_search(kiln__text *out, const kiln__source *source, const char *name, bool only_users)
{
    const kiln__list *list = &source->places;
    bool asked = false;
    for (const char *at = kiln__list_next(list, NULL); at != NULL;) {
        if (!only_users || (*at >= '0' && *at <= '9')) {
            kiln__text_printf(out, "#%s __has_include(\"%s/%s/%s\")\n#include \"%s/%s/%s\"\n", asked ? "elif" : "if",
                              KILN__READS_ROOT, at, name, KILN__READS_ROOT, at, name);
            asked = true;
        }
        const char *path = kiln__list_next(list, at);
        at = path != NULL ? kiln__list_next(list, path) : NULL;
    }
    return asked;
}

static void add_header(kiln__list *out, const kiln__source *source, const kiln__embedded_file *file)
{
    kiln__text text = { 0 };
    precedence kind = precedence_of(file->name);
    bool asked = kind != ALWAYS && add_search(&text, source, file->name, kind == INSTEAD);
    if (asked)
        kiln__text_append(&text, kind == INSTEAD ? "#else\n" : "#endif\n");
    kiln__text_append_bytes(&text, file->text, file->length);
    if (asked && kind == INSTEAD)
        kiln__text_append(&text, "#endif\n");
    kiln__list_add(out, file->name);
    kiln__list_add(out, kiln__text_string(&text));
    out->bytes.failed = out->bytes.failed || text.failed;
    kiln__text_fini(&text);
}

void kiln__standard_headers(const kiln__source *source, kiln__list *out)
{
    for (const char *at = NULL; (at = kiln__list_next(&source->headers, at)) != NULL;)
        kiln__list_add(out, at);
    for (size_t i = 0; i < kiln__standard_count; i++)
        if (!has_own(source, kiln__standard_files[i].name))
            add_header(out, source, &kiln__standard_files[i]);
}
