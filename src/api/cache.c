/* The public functions that list and inspect: ops, templates, the store, the doctor. */
#include "service/cache.h"
#include "api/structs.h"
#include "base/alloc.h"
#include "base/fpenv.h"
#include "os/cancel.h"
#include "os/fork.h"
#include "service/doctor.h"
#include "spec/signature.h"
#include <errno.h>
#include <string.h>

kiln_status kiln_ops(kiln_service *service, kiln_op_fn fn, void *data)
{
    if (service == NULL || fn == NULL)
        return KILN_EINVAL;
    const kiln__op_table *table = &service->catalog.ops;
    for (uint32_t i = 0; i < table->count; i++) {
        kiln_status status = kiln__op_load(table, i, NULL);
        if (status != KILN_OK)
            return status;
        const kiln__op *op = kiln__op_at(table, i);
        kiln_op_info info = { sizeof(info),
                              op->name,
                              op->signature,
                              op->doc,
                              op->inputs,
                              op->params,
                              i >= table->row_count ? "defined" : "" };
        if (fn(data, &info) != 0)
            break;
    }
    return KILN_OK;
}

/* What a template's declarations say, as text for the visitor. */
typedef struct description {
    kiln_field_info infos[KILN__PARAMS_MAX];
    const kiln_field_info *fields[KILN__PARAMS_MAX];
    kiln_signature *signature;
    kiln__text tunes[KILN__PARAMS_MAX], requirements, bounds;
} description;

static void write_rules(kiln__text *out, const kiln__require *rules, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        kiln__text_printf(out, "%s -- %s\n", rules[i].formula, rules[i].doc);
}

static void write_tunes(description *out, const kiln__template *template)
{
    for (uint32_t i = 0; i < template->tune_count; i++) {
        const kiln__tune *tune = &template->tunes[i];
        bool limited = tune->condition != NULL;
        kiln__text_printf(&out->tunes[tune->param], "%s%s%s\n", tune->text, limited ? " if " : "",
                          limited ? tune->condition : "");
    }
}

static bool describe(description *out, const kiln__template *template)
{
    bool failed;
    write_rules(&out->requirements, template->requires, template->require_count);
    write_rules(&out->bounds, template->bounds, template->bound_count);
    write_tunes(out, template);
    out->signature = kiln__signature_declared(&template->arguments, 0, kiln__template_dtype(template));
    failed = out->requirements.failed || out->bounds.failed || out->signature == NULL;
    for (uint32_t i = 0; i < template->param_count; i++) {
        const kiln__declared_param *param = &template->params[i];
        out->infos[i] = (kiln_field_info){ .size = sizeof(out->infos[i]),
                                           .name = param->name,
                                           .values = param->values,
                                           .default_value = param->default_text,
                                           .doc = param->doc,
                                           .tune = kiln__text_string(&out->tunes[i]) };
        out->fields[i] = &out->infos[i];
        failed |= out->tunes[i].failed;
    }
    return !failed;
}

static void fini_description(description *shown)
{
    for (uint32_t i = 0; i < KILN__PARAMS_MAX; i++)
        kiln__text_fini(&shown->tunes[i]);
    kiln__text_fini(&shown->requirements);
    kiln__text_fini(&shown->bounds);
    kiln__free(shown->signature);
}

static kiln_status show_template(const kiln__template *template, kiln_template_fn fn, void *data, bool *stop)
{
    description shown = { 0 };
    kiln_status status = describe(&shown, template) ? KILN_OK : KILN_ENOMEM;
    kiln_template_info info = {
        .size = sizeof(info),
        .name = template->name,
        .doc = template->doc,
        .min_inputs = template->min_inputs,
        .max_inputs = template->max_inputs,
        .fields = shown.fields,
        .field_count = template->param_count,
        .signature = shown.signature,
        .text = template->text,
        .requirements = kiln__text_string(&shown.requirements),
        .bounds = kiln__text_string(&shown.bounds),
        .origin = template->origin != NULL ? template->origin : "",
        .reference = template->reference != NULL ? template->reference : "",
        .has_twin = template->cpu_text != NULL,
    };
    *stop = status != KILN_OK || fn(data, &info) != 0;
    fini_description(&shown);
    return status;
}

kiln_status kiln_templates(kiln_service *service, kiln_template_fn fn, void *data)
{
    kiln_status status = KILN_OK;
    bool stop = false;
    if (service == NULL || fn == NULL)
        return KILN_EINVAL;
    for (uint32_t i = 0; i < service->catalog.template_count && !stop && status == KILN_OK; i++) {
        const kiln__template *template;
        status = kiln__catalog_load(&service->catalog, i, &template, NULL);
        if (status == KILN_OK)
            status = show_template(template, fn, data, &stop);
    }
    return status;
}

/* Turns what the store found into what the host is told. */
typedef struct visit {
    kiln_entry_fn fn; /* or a kiln_select_fn, which is of the same type */
    void *data;
} visit;

static int show_item(void *data, const kiln__store_item *item)
{
    const visit *v = data;
    kiln__cache_entry shown;
    kiln__cache_describe(&shown, item);
    return v->fn(v->data, &shown.info);
}

kiln_status kiln_cache_visit(kiln_service *service, kiln_entry_fn fn, void *data, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    visit v = { fn, data };
    if (service == NULL || fn == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "service and fn must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_STORE);
    kiln_status status = kiln__cache_need_disk(service, report);
    if (status != KILN_OK)
        return status;
    int error = kiln__disk_store_visit(service->disk, show_item, &v);
    if (error < 0)
        return kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, -error, "cannot read the store in %s: %s",
                          service->cache_dir, strerror(-error));
    return KILN_OK;
}

kiln_status kiln_cache_purge(kiln_service *service, kiln_select_fn select, void *data, uint64_t *removed,
                             kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    visit v = { select, data };
    uint64_t count = 0;
    char problem[sizeof report->message];
    if (removed != NULL)
        *removed = 0;
    if (service == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "service must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_STORE);
    kiln_status status = kiln__cache_need_disk(service, report);
    if (status != KILN_OK)
        return status;
    int error =
        kiln__disk_store_purge(service->disk, select != NULL ? show_item : NULL, &v, &count, problem, sizeof(problem));
    if (removed != NULL)
        *removed = count;
    if (error < 0)
        return kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, -error,
                          "cannot remove %s; check its owner and mode, or remove it by hand", problem);
    return KILN_OK;
}

kiln_status kiln_cache_trim(kiln_service *service, uint64_t bytes, uint64_t files, kiln_trim *out, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_trim full = KILN_INIT(kiln_trim);
    if (service == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "service must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_STORE);
    kiln_status status = kiln__cache_trim(service, bytes, files, &full, report);
    if (out != NULL)
        kiln__hand_out(out, &full, sizeof(full));
    return status;
}

kiln_status kiln_cache_export(kiln_service *service, const char *path, kiln_select_fn select, void *data,
                              kiln_transfer *out, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_transfer full = KILN_INIT(kiln_transfer);
    if (service == NULL || path == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "service and path must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_STORE);
    kiln_status status = kiln__cache_export(service, path, select, data, &full, report);
    if (out != NULL)
        kiln__hand_out(out, &full, sizeof(full));
    return status;
}

kiln_status kiln_cache_import(kiln_service *service, const char *path, kiln_transfer *out, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_transfer full = KILN_INIT(kiln_transfer);
    if (service == NULL || path == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "service and path must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_STORE);
    kiln_status status = kiln__cache_import(service, path, &full, report);
    if (out != NULL)
        kiln__hand_out(out, &full, sizeof(full));
    return status;
}

kiln_status kiln_cache_get_info(kiln_service *service, kiln_cache_info *out, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_cache_info full = KILN_INIT(kiln_cache_info);
    if (service == NULL || out == NULL || out->size < sizeof(out->size))
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "service and out must not be NULL, out->size set");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_STORE);
    kiln_status status = kiln__cache_info(service, &full, report);
    if (out != NULL)
        kiln__hand_out(out, &full, sizeof(full));
    return status;
}

kiln_status kiln_doctor(kiln_service *service, kiln_finding_fn fn, void *data)
{
    KILN__NO_CANCEL;
    kiln__fpenv host;
    if (service == NULL || fn == NULL)
        return KILN_EINVAL;
    if (kiln__is_forked(service->generation))
        return KILN_EFORKED;
    kiln__fpenv_enter(&host);
    kiln_status status = kiln__doctor(service, fn, data);
    kiln__fpenv_leave(&host);
    return status;
}
