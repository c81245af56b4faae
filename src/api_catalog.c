/* The public functions that list and inspect: ops, templates, the store, the doctor. */
#include "base/alloc.h"
#include "service/doctor.h"
#include <errno.h>
#include <string.h>

kiln_status kiln_ops(kiln_service *service, kiln_op_fn fn, void *data)
{
    if (service == NULL || fn == NULL)
        return KILN_EINVAL;
    const kiln__op_table *table = &service->catalog.ops;
    for (uint32_t i = 0; i < table->count; i++) {
        const kiln__op *op = &table->ops[i];
        kiln_op_info info = { sizeof(info), op->name, op->signature, op->doc, op->inputs, op->params };
        if (fn(data, &info) != 0)
            break;
    }
    return KILN_OK;
}

static int show_template(const kiln__template *template, kiln_template_fn fn, void *data)
{
    kiln_param_info params[KILN__PARAMS_MAX];
    for (uint32_t i = 0; i < template->param_count; i++) {
        const kiln__param *param = &template->params[i];
        params[i] = (kiln_param_info){ param->name, param->values, param->default_text, param->doc };
    }
    kiln_template_info info = {
        .size = sizeof(info),
        .name = template->name,
        .doc = template->doc,
        .min_inputs = template->min_inputs,
        .max_inputs = template->max_inputs,
        .params = params,
        .param_count = template->param_count,
        .text = template->text,
    };
    return fn(data, &info);
}

kiln_status kiln_templates(kiln_service *service, kiln_template_fn fn, void *data)
{
    if (service == NULL || fn == NULL)
        return KILN_EINVAL;
    for (uint32_t i = 0; i < service->catalog.template_count; i++)
        if (show_template(service->catalog.templates[i], fn, data) != 0)
            break;
    return KILN_OK;
}

/* Turns what the store found into what the host is told. */
typedef struct visit {
    kiln_entry_fn fn;
    void *data;
} visit;

static const char *section_text(const kiln__entry *entry, const char *name)
{
    const kiln__section *section = entry != NULL ? kiln__entry_find(entry, name) : NULL;
    return section != NULL ? section->data : "";
}

static const char *kind_name(const kiln__entry *entry)
{
    if (entry == NULL)
        return "";
    return entry->kind == KILN__ENTRY_KERNEL ? "kernel" : "toolchain";
}

static int show_item(void *data, const kiln__store_item *item)
{
    const visit *v = data;
    const kiln__entry *entry = item->entry;
    kiln_entry_info info = {
        .size = sizeof(info),
        .path = item->path,
        .spec = section_text(entry, "spec"),
        .toolchain = entry == NULL                       ? ""
                     : entry->kind == KILN__ENTRY_KERNEL ? entry->key.toolchain
                                                         : section_text(entry, "id"),
        .kind = kind_name(entry),
        .bytes = item->bytes,
        .status = entry != NULL     ? KILN_OK
                  : item->untrusted ? KILN_EINVAL
                                    : KILN_EIO,
        .problem = item->problem,
    };
    return v->fn(v->data, &info);
}

static kiln_status refuse_store(const kiln_service *service, kiln_report *report)
{
    return kiln__fail(report, KILN_ENOENT, KILN__STAGE_STORE, 0, "there is no directory store: %s",
                      service->cache_problem[0] != '\0' ? service->cache_problem : "it is switched off");
}

kiln_status kiln_cache_visit(kiln_service *service, kiln_entry_fn fn, void *data, kiln_report *report)
{
    visit v = { fn, data };
    if (service == NULL || fn == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "service and fn must not be NULL");
    if (service->disk == NULL)
        return refuse_store(service, report);
    int error = kiln__disk_store_visit(service->disk, show_item, &v);
    if (error < 0)
        return kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, -error, "cannot read the store in %s: %s",
                          service->cache_dir, strerror(-error));
    return KILN_OK;
}

kiln_status kiln_cache_purge(kiln_service *service, int refused_only, uint64_t *removed, kiln_report *report)
{
    uint64_t count = 0;
    char problem[sizeof report->message];
    if (removed != NULL)
        *removed = 0;
    if (service == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "service must not be NULL");
    if (service->disk == NULL)
        return refuse_store(service, report);
    int error = kiln__disk_store_purge(service->disk, refused_only != 0, &count, problem, sizeof(problem));
    if (removed != NULL)
        *removed = count;
    if (error < 0)
        return kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, -error,
                          "cannot remove %s; check its owner and mode, or remove it by hand", problem);
    return KILN_OK;
}

const char *kiln_cache_dir(const kiln_service *service)
{
    return service != NULL && service->disk != NULL ? service->cache_dir : "";
}

kiln_status kiln_doctor(kiln_service *service, kiln_finding_fn fn, void *data)
{
    return service != NULL && fn != NULL ? kiln__doctor(service, fn, data) : KILN_EINVAL;
}
