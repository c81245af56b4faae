/* The headers that the text of a unit may include: places for a CUDA text, headers in memory for a template's twin. */
#include "service/service.h"

#include "base/alloc.h"
#include "gpu/cuda.h"
#include "os/file.h"
#include "source/reads.h"
#include "source/source.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADERS_MAX = 256, HEADER_MAX = 1 << 20 /* bytes */ };

/* ---- Places */

kiln_status kiln__fail_directory(const char *directory, int error, kiln_report *report)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, error, "directory '%.200s' cannot be used: %s",
                      directory, strerrordesc_np(error));
}

kiln_status kiln__places_add(kiln__list *places, const char *place, const char *from, const char *directory,
                             kiln_report *report)
{
    char whole[PATH_MAX], path[PATH_MAX];
    struct stat status;
    bool relative = from != NULL && directory[0] != '/' && directory[0] != '\0';
    int length = snprintf(whole, sizeof(whole), "%s%s%s", relative ? from : "", relative ? "/" : "", directory);
    if (length >= (int)sizeof(whole))
        return kiln__fail_directory(directory, ENAMETOOLONG, report);
    if (realpath(whole, path) == NULL || stat(path, &status) != 0)
        return kiln__fail_directory(directory, errno, report);
    if (!S_ISDIR(status.st_mode))
        return kiln__fail_directory(directory, ENOTDIR, report);
    kiln__list_add(places, place);
    kiln__list_add(places, path);
    return KILN_OK;
}

void kiln__places_add_cuda(kiln_service *service, kiln__unit *unit)
{
    kiln__toolchain toolchain;
    kiln__toolchains *toolchains = &kiln__service_builder(service, &unit->target)->toolchains;
    bool known = kiln__toolchains_get(toolchains, &toolchain, NULL) == KILN_OK;
    kiln__cuda_find_headers(known ? toolchain.path : "", &unit->places);
}

/* Without a worker a text can read every file of this process. Nothing limits it to directories, or tells which
 * files it read. */
kiln_status kiln__check_unwatched(const kiln__unit *unit, kiln_report *report)
{
    const kiln__list *options = &unit->options;
    if (unit->directories > 0)
        return kiln__fail(
            report, KILN_EINVAL, KILN__STAGE_COMPILE, 0,
            "with isolate=never a text has no directories for its headers: nothing would keep it to them, nor "
            "tell what it has read; give the headers themselves, or let a worker compile");
    if (kiln__source_linking(unit) != KILN__LINK_NONE)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0,
                          "with isolate=never nothing is linked, because a crash of the linker would end this process: "
                          "let a worker compile, or leave the options out that ask for relocatable code");
    for (const char *at = kiln__list_next(options, NULL); at != NULL; at = kiln__list_next(options, at))
        if (kiln__option_tells_directory(at))
            return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0,
                              "option '%s' is for texts that a worker compiles: with isolate=never it would put this "
                              "process's working directory into the code",
                              at);
    return KILN_OK;
}

/* ---- The headers beside a template's file, for its twin. All that a text names between quotes is read, whether or not
 * the compiler will ask for it. So the key holds every header that the compiler can find there, and no compile has to
 * tell what it has read. */

/* A search for headers. */
typedef struct search {
    kiln__unit *unit;
    kiln_report *report;
} search;

static bool has_header(const kiln__list *headers, const char *name)
{
    const char *own = NULL, *text;
    while (kiln__list_next_pair(headers, &own, &text))
        if (strcmp(own, name) == 0)
            return true;
    return false;
}

/* Reads a header by its path in the folder and adds it, once. Returns whether there is one, in *found. */
static kiln_status add_header(const search *s, const char *name, bool *found)
{
    char path[PATH_MAX];
    void *text = NULL;
    size_t length = 0;
    struct stat status;
    kiln__list *headers = &s->unit->headers;
    *found = has_header(headers, name);
    if (*found || snprintf(path, sizeof(path), "%s/%s", s->unit->folder, name) >= (int)sizeof(path))
        return KILN_OK;
    int error = kiln__file_read(&text, &length, AT_FDCWD, path, 0, HEADER_MAX, &status);
    if (kiln__reads_means_nothing(-error) || error == -EINVAL)
        return KILN_OK;
    if (error == -ENOMEM)
        return kiln__fail_memory(s->report, KILN__STAGE_COMPILE);
    if (error != 0 || memchr(text, '\0', length) != NULL || headers->count / 2 == HEADERS_MAX) {
        kiln__free(text);
        return kiln__fail(s->report, KILN_EIO, KILN__STAGE_COMPILE, -error, "the header %s cannot be read: %s", path,
                          error == -EFBIG                     ? "it has more than 1 MiB"
                          : error != 0                        ? strerrordesc_np(-error)
                          : headers->count / 2 == HEADERS_MAX ? "a twin may have 256 at most"
                                                              : "it is no text, for it has a byte 0");
    }
    kiln__list_add(headers, name);
    kiln__list_add(headers, text);
    kiln__free(text);
    *found = true;
    return headers->bytes.failed ? kiln__fail_memory(s->report, KILN__STAGE_COMPILE) : KILN_OK;
}

/* A path below the folder, without "." and "..". */
static bool is_below(const char *name)
{
    while (*name != '\0') {
        size_t length = strcspn(name, "/");
        if (length == 0 || (length <= 2 && strncmp(name, "..", length) == 0))
            return false;
        name += length + (name[length] == '/');
    }
    return true;
}

/* Adds the header that a text in `from`, "" or "sub/", calls `name`: first beside the text, then in the folder. */
static kiln_status add_named(const search *s, const char *from, kiln__word name)
{
    bool found = false;
    kiln_status status = KILN_OK;
    for (int i = 0; i < 2 && !found && status == KILN_OK; i++) {
        kiln__text path = { 0 };
        if (name.text[0] == '/')
            return kiln__fail(s->report, KILN_EINVAL, KILN__STAGE_COMPILE, 0,
                              "%s includes \"%.*s\": name headers as they lie in the folder of the template, so that "
                              "what is read there becomes part of the key",
                              s->unit->shown, (int)(name.length < 200 ? name.length : 200), name.text);
        kiln__text_append(&path, i == 0 ? from : "");
        kiln__text_append_bytes(&path, name.text, name.length);
        if (path.failed)
            status = kiln__fail_memory(s->report, KILN__STAGE_COMPILE);
        else if (is_below(path.data))
            status = add_header(s, path.data, &found);
        kiln__text_fini(&path);
    }
    return status;
}

/* Adds what the text, which lies in `from`, names in #include "...". */
static kiln_status add_included(const search *s, const char *from, const char *text)
{
    kiln_status status = KILN_OK;
    while (status == KILN_OK && (text = kiln__text_next_include(text)) != NULL) {
        size_t length = *text == '"' ? strcspn(text + 1, "\"\n") : 0;
        if (*text == '<' && text[1] == '/')
            status = add_named(s, from, (kiln__word){ text + 1, strcspn(text + 1, ">\n") });
        if (length > 0 && text[1 + length] == '"')
            status = add_named(s, from, (kiln__word){ text + 1, length });
    }
    return status;
}

/* The list of headers is at the same time the queue of texts that are yet to be searched. It moves as it grows. */
static kiln_status find_headers(kiln__unit *unit, kiln_report *report)
{
    const search s = { unit, report };
    kiln_status status = add_included(&s, "", unit->source);
    for (size_t at = 0; status == KILN_OK && at < unit->headers.bytes.length;) {
        const char *name = unit->headers.bytes.data + at, *slash = strrchr(name, '/');
        char *from = kiln__strdup(name), *text = kiln__strdup(name + strlen(name) + 1);
        at += strlen(name) + 1;
        at += strlen(unit->headers.bytes.data + at) + 1;
        if (from != NULL && text != NULL) {
            from[slash != NULL ? slash + 1 - name : 0] = '\0';
            status = add_included(&s, from, text);
        } else {
            status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
        }
        kiln__free(from);
        kiln__free(text);
    }
    return status;
}

/* ---- Templates */

kiln_status kiln__unit_add_headers(kiln_service *service, kiln__unit *unit, kiln_report *report)
{
    char beside[KILN__PLACE_SIZE];
    kiln_status status = KILN_OK;
    if (kiln__target_facts(&unit->target)->twin)
        return unit->folder != NULL ? find_headers(unit, report) : KILN_OK;
    if (service->isolate == KILN_ISOLATE_NEVER)
        return kiln__check_unwatched(unit, report);
    if (!unit->includes)
        return KILN_OK;
    unit->cuda_headers = true;
    unit->directories = unit->folder != NULL;
    kiln__reads_beside(beside, 0);
    if (unit->folder != NULL)
        status = kiln__places_add(&unit->places, beside, NULL, unit->folder, report);
    if (status == KILN_OK)
        kiln__places_add_cuda(service, unit);
    return status == KILN_OK && unit->places.bytes.failed ? kiln__fail_memory(report, KILN__STAGE_COMPILE) : status;
}
