#include "service/wisdom.h"

#include "base/alloc.h"
#include "os/file.h"
#include "os/trust.h"
#include "wisdom/describe.h"
#include "wisdom/json.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static kiln_wisdom_record public_record(const kiln__wisdom_item *item)
{
    static const char *const sources[] = { [KILN__WISDOM_OWN] = "own", [KILN__WISDOM_SHARED] = "shared" };
    const kiln__wisdom_entry *record = item->record;
    return (kiln_wisdom_record){ .size = sizeof(kiln_wisdom_record),
                                 .source = sources[item->source],
                                 .model = record->device.model,
                                 .target = record->device.target,
                                 .multiprocessors = (uint32_t)record->device.multiprocessors,
                                 .l2_bytes = record->device.l2_bytes,
                                 .memory_bytes = record->device.memory_bytes,
                                 .template_name = record->template_name,
                                 .op_class = record->op_class,
                                 .op = record->op,
                                 .dtype = record->dtype,
                                 .log2_n = (uint32_t)record->log2_n,
                                 .geometry = record->geometry,
                                 .ms = record->ms,
                                 .gbps = record->gbps,
                                 .ratio = record->ratio,
                                 .samples = record->samples,
                                 .variants = record->variants,
                                 .toolchain = record->toolchain,
                                 .by = record->maker };
}

/* ---- Visiting */

typedef struct visitor {
    kiln_wisdom_fn fn;
    void *data;
} visitor;

static int visit_item(void *data, const kiln__wisdom_item *item)
{
    const visitor *self = data;
    kiln_wisdom_record record = public_record(item);
    return self->fn(self->data, &record);
}

kiln_status kiln__service_wisdom_visit(kiln_service *service, kiln_wisdom_fn fn, void *data)
{
    visitor self = { fn, data };
    return kiln__wisdom_visit(service->wisdom, visit_item, &self);
}

/* ---- Explaining */

typedef struct explainer {
    kiln_wisdom_candidate_fn fn;
    void *data;
    const char *refusal; /* of all, where wisdom is not asked; else NULL */
} explainer;

static int explain_candidate(void *data, const kiln__wisdom_prospect *candidate)
{
    const explainer *self = data;
    kiln_wisdom_record record = public_record(&candidate->item);
    const kiln_wisdom_candidate full = { .size = sizeof(full),
                                         .record = &record,
                                         .distance = candidate->distance,
                                         .reason = candidate->reason,
                                         .refusal = self->refusal != NULL ? self->refusal : candidate->refusal,
                                         .chosen = self->refusal == NULL && candidate->chosen };
    return self->fn != NULL ? self->fn(self->data, &full) : candidate->chosen;
}

static const char *refusal_of_all(const kiln_service *service, const kiln__fields *spec)
{
    return !service->wise ? "wisdom is switched off" : kiln__wisdom_is_open(spec) ? NULL : "the spec sets all of it";
}

kiln_status kiln__service_wisdom_explain(kiln_service *service, const kiln__fields *spec, const char *model,
                                         kiln_wisdom_candidate_fn fn, void *data, char **out, kiln_report *report)
{
    explainer self = { fn, data, refusal_of_all(service, spec) };
    kiln__fields chosen = *spec, full;
    kiln_device *on = NULL;
    kiln__target target;
    kiln__wisdom_device device;
    kiln__wisdom_choice choice;
    kiln__text text = { 0 };
    kiln_status status = kiln__service_target(service, &on, spec, &target, report);
    if (status != KILN_OK)
        return status;
    kiln__geometry_device(service, on, &target, spec, &device);
    if (model != NULL)
        device = (kiln__wisdom_device){ .model = model, .target = target.name };
    const kiln__wisdom_query query = { .spec = spec, .device = &device, .toolchain = "" };
    status = kiln__wisdom_explain(service->wisdom, &query, &choice, explain_candidate, &self, report);
    if (status == KILN_OK && choice.found && self.refusal == NULL)
        kiln__wisdom_apply(&choice, &chosen);
    if (status == KILN_OK)
        status = kiln__spec_resolve(&full, &chosen, &target, report);
    if (status != KILN_OK)
        return status;
    kiln__spec_format(&full, false, &text);
    *out = kiln__text_take(&text);
    return *out != NULL ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_SPEC);
}

/* ---- Import */

static kiln_status refuse_file(const char *path, const char *what, kiln_report *report)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "%s: %s", path, what);
}

/* The file's bytes, which the caller frees also after a failure. */
static kiln_status read_file(const char *path, void **bytes, size_t *length, kiln_report *report)
{
    struct stat status;
    char buffer[KILN__WISDOM_REASON];
    int error = kiln__file_read(bytes, length, AT_FDCWD, path, 0, KILN__WISDOM_FILE_MAX, &status);
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    const char *reason = status.st_mode != 0 ? kiln__trust_refuse_shared_file(&status, buffer, sizeof(buffer)) : NULL;
    if (reason != NULL)
        return refuse_file(path, reason, report);
    if (error == -EFBIG)
        return refuse_file(path, "it is too large for a file of wisdom", report);
    return error != 0 ? refuse_file(path, strerrordesc_np(-error), report) : KILN_OK;
}

/* Joins a file's records to the set. */
static kiln_status read_records(const char *path, kiln__wisdom_set *set, kiln_report *report)
{
    void *bytes = NULL;
    size_t length = 0;
    kiln__wisdom_set found = { 0 };
    char problem[KILN__WISDOM_REASON];
    kiln_status status = read_file(path, &bytes, &length, report);
    if (status == KILN_OK) {
        kiln__wisdom_fault fault = kiln__wisdom_read(&found, bytes, length, problem);
        if (fault == KILN__WISDOM_OUT_OF_MEMORY)
            status = kiln__fail_memory(report, KILN__STAGE_STORE);
        else if (fault != KILN__WISDOM_GOOD)
            status = refuse_file(path, problem, report);
    }
    if (status == KILN_OK && set->count + found.count > KILN__WISDOM_RECORDS_MAX)
        status = refuse_file(path, "with it there are too many records for one import", report);
    if (status == KILN_OK && !kiln__wisdom_set_join(set, &found))
        status = kiln__fail_memory(report, KILN__STAGE_STORE);
    kiln__wisdom_set_fini(&found);
    kiln__free(bytes);
    return status;
}

static kiln_status add_records(kiln_service *service, const kiln__wisdom_set *set, kiln_wisdom_tally *out,
                               kiln_report *report)
{
    kiln__wisdom_outcome outcome;
    kiln_status status = kiln__wisdom_add_set(service->wisdom, set, &outcome, report);
    if (status == KILN_OK && !outcome.stored)
        status = kiln__fail(report, KILN_EIO, KILN__STAGE_STORE, 0, "wisdom in %s cannot be stored: %s",
                            service->cache_dir, outcome.problem);
    if (status == KILN_OK) {
        out->added = outcome.tally.added;
        out->replaced = outcome.tally.replaced;
        out->present = outcome.tally.equal;
        out->kept = outcome.tally.older_kept;
    }
    return status;
}

kiln_status kiln__service_wisdom_import(kiln_service *service, const char *const *paths, size_t count,
                                        kiln_wisdom_tally *out, kiln_report *report)
{
    kiln__wisdom_set set = { 0 };
    kiln_status status = KILN_OK;
    if (service->disk == NULL)
        return kiln__fail(report, KILN_ENOENT, KILN__STAGE_STORE, 0, "no cache directory is in use%s%s",
                          service->cache_problem[0] != '\0' ? ": " : "", service->cache_problem);
    for (size_t i = 0; i < count && status == KILN_OK; i++)
        status = read_records(paths[i], &set, report);
    if (status == KILN_OK && set.count > 0)
        status = add_records(service, &set, out, report);
    kiln__wisdom_set_fini(&set);
    return status;
}

/* ---- Export */

typedef struct exporter {
    kiln_wisdom_fn keep;
    void *data;
    kiln__wisdom_set set;
    kiln__wisdom_fate fate;
} exporter;

/* Of records about the same the first comes from the nearest source. */
static int export_item(void *data, const kiln__wisdom_item *item)
{
    exporter *self = data;
    kiln_wisdom_record record = public_record(item);
    bool wanted = self->keep != NULL ? self->keep(self->data, &record) != 0 : item->source == KILN__WISDOM_OWN;
    if (wanted && !kiln__wisdom_set_has(&self->set, item->record))
        self->fate = kiln__wisdom_set_add(&self->set, item->record);
    return self->fate != KILN__WISDOM_ADDED;
}

kiln_status kiln__service_wisdom_export(kiln_service *service, kiln_wisdom_fn keep, void *data, char **out,
                                        kiln_report *report)
{
    exporter self = { .keep = keep, .data = data };
    kiln__text text = { 0 };
    bool visited = kiln__wisdom_visit(service->wisdom, export_item, &self) == KILN_OK;
    if (visited && self.fate == KILN__WISDOM_ADDED)
        kiln__wisdom_write(&self.set, NULL, NULL, &text);
    kiln__wisdom_set_fini(&self.set);
    if (visited && self.fate == KILN__WISDOM_FULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0,
                          "more than %d records for one file: export those of one device at a time",
                          KILN__WISDOM_RECORDS_MAX);
    if (!visited || self.fate != KILN__WISDOM_ADDED)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    *out = kiln__text_take(&text);
    return *out != NULL ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_STORE);
}
