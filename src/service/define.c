/* Ops and templates that a service is taught at run time. */
#include "service/service.h"

#include "base/alloc.h"
#include "os/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { TEMPLATE_MAX = 1 << 20 /* bytes */ };

/* The record gets the line before any request can use the op, so that a replay knows the op in time. */
kiln_status kiln__service_define_op(kiln_service *service, const char *definition, kiln_report *report)
{
    pthread_mutex_lock(&service->define_lock);
    uint32_t before = service->catalog.ops.count;
    kiln_status status = kiln__op_define(&service->catalog.ops, definition, report);
    if (status == KILN_OK && service->record != NULL && service->catalog.ops.count > before)
        kiln__record_define(service->record, "op", kiln__op_at(&service->catalog.ops, before)->definition);
    pthread_mutex_unlock(&service->define_lock);
    return status;
}

/* A template that came without a file cannot be named in the record. A replay skips the requests that ask for it. */
kiln_status kiln__service_define_template(kiln_service *service, const char *text, const char *cpu_text,
                                          const char *origin, const char **name, kiln_report *report)
{
    const kiln__template *defined;
    pthread_mutex_lock(&service->define_lock);
    uint32_t before = service->catalog.template_count;
    kiln_status status = kiln__catalog_define(&service->catalog, text, cpu_text, origin, &defined, report);
    if (status == KILN_OK && service->record != NULL && service->catalog.template_count > before && origin[0] == '/')
        kiln__record_define(service->record, "template", origin);
    pthread_mutex_unlock(&service->define_lock);
    if (status == KILN_OK)
        *name = defined->name;
    return status;
}

/* *out is NULL if there is no such file and none is needed. */
static kiln_status read_text(char **out, const char *path, bool needed, kiln_report *report)
{
    void *bytes = NULL;
    size_t length = 0;
    struct stat info;
    *out = NULL;
    int error = kiln__file_read(&bytes, &length, AT_FDCWD, path, 0, TEMPLATE_MAX, &info);
    if (error == -ENOENT && !needed)
        return KILN_OK;
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    if (error != 0)
        return kiln__fail(report, error == -ENOENT ? KILN_ENOENT : KILN_EIO, KILN__STAGE_SPEC, -error,
                          "%s cannot be read: %s", path,
                          error == -EFBIG ? "it has more than 1 MiB" : strerrordesc_np(-error));
    if (memchr(bytes, '\0', length) != NULL) {
        kiln__free(bytes);
        return kiln__fail(report, KILN_ESPEC, KILN__STAGE_SPEC, 0, "%s is no text: it has a byte 0", path);
    }
    *out = bytes;
    return KILN_OK;
}

/* "x.cu" and "x.c": the path without its last letter. */
static kiln_status read_twin(char **out, const char *path, kiln_report *report)
{
    char *twin = kiln__memdup(path, strlen(path) - 1);
    if (twin == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln_status status = read_text(out, twin, false, report);
    kiln__free(twin);
    return status;
}

kiln_status kiln__service_load_template(kiln_service *service, const char *path, const char **name, kiln_report *report)
{
    char *text = NULL, *cpu_text = NULL;
    size_t length = strlen(path);
    if (length < 4 || strcmp(path + length - 3, ".cu") != 0)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_SPEC, 0, "'%s' is no template's path: it must end in .cu",
                          path);
    kiln_status status = read_text(&text, path, true, report);
    if (status == KILN_OK)
        status = read_twin(&cpu_text, path, report);
    char *origin = status == KILN_OK ? realpath(path, NULL) : NULL;
    if (status == KILN_OK)
        status = kiln__service_define_template(service, text, cpu_text, origin != NULL ? origin : path, name, report);
    free(origin);
    kiln__free(text);
    kiln__free(cpu_text);
    return status;
}
