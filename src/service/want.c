/* From a request to a want: copied, then settled (its device, target, geometry and directories found out), then turned
 * into a unit. */
#include "service/service.h"

#include "base/alloc.h"
#include "base/number.h"
#include "source/reads.h"
#include "source/source.h"
#include "spec/rows.h"
#include "wisdom/describe.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Copying the caller's request */

static void add_directory(kiln__want *want, const char *place, const char *directory)
{
    kiln__list_add(&want->directories, place);
    kiln__list_add(&want->directories, directory);
    want->unit->directories++;
}

/* A text that names no file in quotes does not look beside itself: then its directory does not count. */
static void add_beside(kiln__want *want, size_t file, const char *text, const char *directory)
{
    char place[KILN__PLACE_SIZE];
    kiln__reads_beside(place, file);
    if (directory != NULL && kiln__source_includes_beside(text))
        add_directory(want, place, directory);
}

/* Copies the directories as they were given, and with `later` the working directory, from which relative ones start. */
static kiln_status copy_directories(kiln__want *want, const kiln_source *given, bool later, kiln_report *report)
{
    char here[PATH_MAX], place[KILN__PLACE_SIZE];
    const char *relative = NULL, *at = NULL, *directory;
    for (size_t i = 0; i < given->include_dir_count; i++) {
        if (given->include_dirs == NULL || given->include_dirs[i] == NULL)
            return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0, "kiln_source.include_dirs has a NULL in it");
        snprintf(place, sizeof(place), "%u", (unsigned)i);
        add_directory(want, place, given->include_dirs[i]);
    }
    add_beside(want, 0, want->unit->source, given->directory);
    for (size_t i = 0; i < given->part_count; i++)
        add_beside(want, 1 + i, given->parts[i].text, given->parts[i].directory);
    while (kiln__list_next_pair(&want->directories, &at, &directory))
        relative = directory[0] != '/' ? directory : relative;
    bool lacking = want->directories.bytes.failed;
    if (later && relative != NULL && getcwd(here, sizeof(here)) == NULL)
        return kiln__fail_directory(relative, errno, report);
    if (later && relative != NULL)
        lacking = (want->from = kiln__strdup(here)) == NULL || lacking;
    return lacking ? kiln__fail_memory(report, KILN__STAGE_COMPILE) : KILN_OK;
}

kiln_status kiln__want_make(kiln__want **out, const kiln_request *request, bool later, kiln_report *report)
{
    kiln__want *want = *out = kiln__calloc(1, sizeof(*want));
    if (want == NULL)
        return kiln__fail_memory(report, request->spec != NULL ? KILN__STAGE_SPEC : KILN__STAGE_COMPILE);
    atomic_init(&want->refs, 1);
    want->goal = request->goal;
    want->strict = request->strict == KILN_ON;
    want->asked_on = request->device;
    if (request->spec != NULL) {
        want->asked = kiln__spec_retain(request->spec);
        return KILN_OK;
    }
    kiln_status status = kiln__source_make(&want->unit, request->source, report);
    want->targeted = status == KILN_OK && want->unit->target.name[0] != '\0';
    if (status == KILN_OK)
        status = copy_directories(want, request->source, later, report);
    if (status == KILN_OK)
        return KILN_OK;
    kiln__want_release(want);
    *out = NULL;
    return status;
}

kiln__want *kiln__want_retain(kiln__want *want)
{
    if (want != NULL)
        atomic_fetch_add_explicit(&want->refs, 1, memory_order_relaxed);
    return want;
}

void kiln__want_release(kiln__want *want)
{
    if (want == NULL || atomic_fetch_sub_explicit(&want->refs, 1, memory_order_acq_rel) != 1)
        return;
    kiln__spec_release(want->asked);
    kiln__unit_free(want->unit);
    kiln__free(want->text);
    kiln__list_fini(&want->directories);
    kiln__free(want->from);
    kiln__free(want);
}

/* ---- Targets and devices */

/* The best target for a device. Asks the compiler once for each GPU. NULL: out of
 * memory, and it will be asked again. */
static const kiln__target *native_target(kiln_service *service, const kiln_device *device)
{
    if (!kiln__target_facts(&device->target)->numbered)
        return &device->target;
    atomic_bool *known = &service->natives[device->ordinal].known;
    kiln__target *target = &service->natives[device->ordinal].target;
    if (!atomic_load(known)) {
        pthread_mutex_lock(&service->native_lock);
        if (!atomic_load(known))
            atomic_store(known, kiln__builder_choose_target(kiln__service_builder(service, &device->target),
                                                            &device->target, target));
        pthread_mutex_unlock(&service->native_lock);
    }
    return atomic_load(known) ? target : NULL;
}

kiln_status kiln__service_target(kiln_service *service, kiln_device **device, const kiln__fields *spec,
                                 kiln__target *out, kiln_report *report)
{
    kiln_status status = KILN_OK;
    if (!spec->target_set && *device == NULL)
        status = kiln__runtime_device(service->runtime, NULL, device, report);
    if (status != KILN_OK)
        return status;
    const kiln__target *target = spec->target_set ? &spec->target : native_target(service, *device);
    if (target == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    *out = *target;
    return KILN_OK;
}

kiln_status kiln__service_check_device(const kiln_service *service, const kiln_device *on, kiln_report *report)
{
    if (on == NULL || on->backend == service->runtime->backends[on->target.backend])
        return KILN_OK;
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0,
                      "device %s belongs to another service: open it with kiln_device_open of this one", on->name);
}

kiln_status kiln__service_check_target(const kiln_device *on, const kiln__target *target, kiln_report *report)
{
    if (kiln__target_same_backend(target, &on->target))
        return KILN_OK;
    return kiln__fail(report, KILN_ETARGET, KILN__STAGE_LOAD, 0,
                      "a kernel for %s does not run on %s: leave target open, or name another device", target->name,
                      on->name);
}

kiln_status kiln__service_find_device(kiln_service *service, kiln_device *on, const kiln__fields *spec,
                                      kiln_device **out, kiln_report *report)
{
    const char *name = spec->target_set ? kiln__target_device(&spec->target) : NULL;
    *out = on;
    kiln_status status = on != NULL ? KILN_OK : kiln__runtime_device(service->runtime, name, out, report);
    if (status != KILN_OK || !spec->target_set || kiln__target_same_backend(&spec->target, &(*out)->target))
        return status;
    if (on != NULL)
        return kiln__service_check_target(on, &spec->target, report);
    return kiln__fail(report, KILN_ENODEVICE, KILN__STAGE_LOAD, 0,
                      "a kernel for %s needs a GPU and the default device is the cpu: leave target open, use "
                      "target=cpu, or choose a GPU as the device",
                      spec->target.name);
}

/* ---- Geometry */

enum { NO_SIZE = UINT8_MAX };

bool kiln__geometry_basis_of(kiln_service *service, const kiln__fields *spec, bool look, kiln__geometry_basis *out)
{
    *out = (kiln__geometry_basis){ .size = NO_SIZE };
    if (!kiln__wisdom_is_open(spec))
        return true;
    const kiln__size size = kiln__fields_size(spec); /* on which defaults may depend, too */
    if (size.n > 0)
        out->size = (uint8_t)kiln__number_octave(size.n);
    out->cols = size.cols;
    if (!service->wise)
        return true;
    if (!look)
        return kiln__wisdom_peek(service->wisdom, &out->generation);
    out->generation = kiln__wisdom_generation(service->wisdom);
    return true;
}

/* The device that kernels for this target run on, if it is known without a driver. */
static const kiln_device *known_device(kiln_service *service, const kiln__target *target)
{
    kiln_device *found = NULL;
    const char *name = kiln__target_device(target);
    if (name == NULL)
        kiln__runtime_has_device(service->runtime, NULL, &found);
    else if (kiln__runtime_device(service->runtime, name, &found, NULL) != KILN_OK)
        return NULL;
    return found;
}

void kiln__geometry_device(kiln_service *service, const kiln_device *on, const kiln__target *target,
                           const kiln__fields *spec, kiln__wisdom_device *out)
{
    kiln_device_info info = KILN_INIT(kiln_device_info);
    *out = (kiln__wisdom_device){ .model = "", .target = target->name };
    if (on == NULL)
        on = known_device(service, target);
    if (on == NULL || (spec->target_set && on->target.sm != target->sm))
        return;
    on->backend->vtable->device_info(on, &info);
    out->model = info.model;
    out->multiprocessors = info.multiprocessors;
    out->l2_bytes = info.l2_bytes;
    out->memory_bytes = info.memory_bytes;
}

/* Sets the geometry that wisdom chooses. The query leaves out the toolchain: a machine without one, or with a store
 * that does not know it yet, must choose as the machine chose that warmed the store. */
static kiln_status choose_geometry(kiln_service *service, const kiln_device *on, const kiln__target *target,
                                   kiln__fields *spec, kiln_report *report)
{
    kiln__wisdom_device device;
    kiln__wisdom_choice choice;
    const kiln__wisdom_query query = { .spec = spec, .device = &device, .toolchain = "" };
    if (!service->wise || !kiln__wisdom_is_open(spec))
        return KILN_OK;
    kiln__geometry_device(service, on, target, spec, &device);
    kiln_status status = kiln__wisdom_match(service->wisdom, &query, &choice, report);
    if (choice.found)
        kiln__wisdom_apply(&choice, spec);
    return status;
}

static bool has_params(const kiln__template *template, const kiln__fields *spec)
{
    for (uint32_t i = 0; i < spec->template->param_count; i++) {
        const char *name = spec->template->params[i].name;
        if (spec->param_set[i] && kiln__template_param(template, name, strlen(name)) < 0)
            return false;
    }
    return true;
}

kiln_status kiln__service_choose_template(const kiln_device *on, const kiln__target *target, kiln__fields *spec,
                                          kiln_report *report)
{
    const kiln__template *template = NULL;
    const kiln__size size = kiln__fields_size(spec);
    if (spec->template_set || spec->op->reductions == 0 || size.cols == 0)
        return KILN_OK;
    kiln__fields typed = *spec;
    if (typed.dtype == KILN__DTYPE_UNSET)
        typed.dtype = kiln__template_dtype(spec->template);
    const char *name = kiln__rows_template(&typed, target, on == NULL || on->has_pools, size.rows, size.cols);
    kiln_status status = kiln__catalog_find(spec->catalog, kiln__word_of(name), &template, report);
    if (status != KILN_OK)
        return status;
    typed = *spec;
    if (template != spec->template && has_params(template, spec) &&
        kiln__fields_change_template(&typed, template, NULL) == KILN_OK) /* which may lack a value of one */
        *spec = typed;
    spec->template_set = spec->template == template;
    return KILN_OK;
}

kiln_status kiln__service_resolve(kiln_service *service, kiln_device *on, const kiln__fields *spec, kiln__fields *out,
                                  kiln_report *report)
{
    kiln__target target;
    kiln__fields chosen = *spec;
    if (on != NULL && spec->target_set && !kiln__target_same_backend(&spec->target, &on->target))
        on = NULL;
    kiln_status status = kiln__service_target(service, &on, spec, &target, report);
    if (status == KILN_OK)
        status = kiln__service_choose_template(on, &target, &chosen, report);
    if (status == KILN_OK)
        status = choose_geometry(service, on, &target, &chosen, report);
    return status == KILN_OK ? kiln__spec_resolve(out, &chosen, &target, report) : status;
}

kiln_status kiln__service_unit(kiln_service *service, kiln_device *on, const kiln__fields *spec, kiln__unit **out,
                               kiln_report *report)
{
    kiln__fields full;
    *out = NULL;
    kiln_status status = kiln__service_resolve(service, on, spec, &full, report);
    return status == KILN_OK ? kiln__unit_make(out, &full, report) : status;
}

bool kiln__service_is_ready(kiln_service *service, kiln_device *on, const kiln__fields *spec)
{
    const char *name = spec->target_set ? kiln__target_device(&spec->target) : NULL;
    kiln__geometry_basis basis;
    if (service->record != NULL || !kiln__geometry_basis_of(service, spec, false, &basis) ||
        (on == NULL && !kiln__runtime_has_device(service->runtime, name, &on)))
        return false;
    return spec->target_set || !kiln__target_facts(&on->target)->numbered ||
           atomic_load(&service->natives[on->ordinal].known);
}

/* ---- Settling a spec */

static kiln_status format_id(kiln__want *want, kiln_report *report)
{
    kiln__text text = { 0 };
    kiln__spec_format(&want->spec, false, &text);
    want->id = want->text = kiln__text_take(&text);
    return want->id != NULL ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_SPEC);
}

static kiln_status settle_spec(kiln_service *service, kiln__want *want, kiln_report *report)
{
    const kiln__fields *fields = &want->asked->fields;
    kiln_status status = KILN_OK;
    kiln_device *on = want->asked_on;
    if (want->goal == KILN_LOAD)
        status = kiln__service_find_device(service, want->asked_on, fields, &want->device, report);
    if (status == KILN_OK && want->goal == KILN_LOAD) {
        kiln__geometry_basis_of(service, fields, true, &want->basis);
        on = want->device;
    }
    if (status == KILN_OK)
        status = kiln__service_resolve(service, on, fields, &want->spec, report);
    if (status != KILN_OK)
        return status;
    if (!want->unlisted && service->record != NULL)
        kiln__record_add(service->record, fields); /* before any compile: strict mode's refusals are recorded, too */
    return format_id(want, report);
}

/* ---- Settling a source */

static kiln_status add_directories(kiln__want *want, kiln_report *report)
{
    const char *place = NULL, *directory;
    kiln_status status = KILN_OK;
    while (status == KILN_OK && kiln__list_next_pair(&want->directories, &place, &directory))
        status = kiln__places_add(&want->unit->places, place, want->from, directory, report);
    return status;
}

static kiln_status choose_target(kiln_service *service, kiln_device *on, kiln__target *out, kiln_report *report)
{
    kiln_status status = on != NULL ? KILN_OK : kiln__runtime_device(service->runtime, NULL, &on, report);
    if (status != KILN_OK)
        return status;
    if (kiln__target_facts(&on->target)->twin)
        return kiln__fail(report, KILN_ETARGET, KILN__STAGE_COMPILE, 0,
                          "CUDA text is compiled for GPUs only and the device is the cpu: name a target such as sm_90");
    const kiln__target *native = native_target(service, on);
    if (native == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    *out = *native;
    return KILN_OK;
}

static kiln_status choose_device(kiln_service *service, kiln__want *want, kiln_report *report)
{
    want->device = want->asked_on;
    kiln_status status =
        want->device != NULL ? KILN_OK : kiln__runtime_device(service->runtime, NULL, &want->device, report);
    if (status != KILN_OK || want->device->backend->vtable->functions != NULL)
        return status;
    return kiln__fail(
        report, KILN_ETARGET, KILN__STAGE_LOAD, 0,
        "CUDA text runs on GPUs only and the device is %s: choose a GPU as the device, or build for a named target, "
        "with the goal KILN_BUILD",
        want->device->name);
}

static kiln_status settle_source(kiln_service *service, kiln__want *want, kiln_report *report)
{
    kiln__unit *unit = want->unit;
    bool watched = service->isolate != KILN_ISOLATE_NEVER;
    kiln_status status = want->goal == KILN_LOAD ? choose_device(service, want, report) : KILN_OK;
    if (status == KILN_OK)
        status = watched ? add_directories(want, report) : kiln__check_unwatched(unit, report);
    if (status == KILN_OK && !want->targeted)
        status = choose_target(service, want->device != NULL ? want->device : want->asked_on, &unit->target, report);
    if (status != KILN_OK)
        return status;
    const kiln__target target = unit->target;
    if (watched && unit->cuda_headers)
        kiln__places_add_cuda(service, unit);
    if (unit->places.bytes.failed || kiln__source_set_target(unit, &target) != KILN_OK ||
        kiln__source_identify(unit) != KILN_OK)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    want->id = unit->id;
    return KILN_OK;
}

kiln_status kiln__want_settle(kiln_service *service, kiln__want *want, kiln_report *report)
{
    kiln_status status = kiln__service_check_device(service, want->asked_on, report);
    if (status != KILN_OK)
        return status;
    return want->asked == NULL ? settle_source(service, want, report) : settle_spec(service, want, report);
}

/* ---- Of a settled want */

kiln_status kiln__want_unit(kiln_service *service, kiln__want *want, kiln_report *report)
{
    if (want->unit != NULL)
        return KILN_OK;
    kiln_status status = kiln__unit_make(&want->unit, &want->spec, report);
    if (status == KILN_OK && kiln__unit_is_source(want->unit))
        status = kiln__unit_add_headers(service, want->unit, report);
    if (status == KILN_OK)
        return KILN_OK;
    kiln__unit_free(want->unit);
    want->unit = NULL;
    return status;
}

kiln__want *kiln__want_open_geometry(kiln_service *service, const kiln__want *want)
{
    const kiln_request request = { .spec = want->asked, .device = want->asked_on };
    kiln__fields open = want->asked->fields;
    kiln__want *other;
    memset(open.param_set, 0, sizeof(open.param_set));
    if (kiln__want_make(&other, &request, false, NULL) != KILN_OK)
        return NULL;
    other->unasked = true;
    other->device = want->device;
    if (kiln__service_resolve(service, want->device, &open, &other->spec, NULL) == KILN_OK &&
        format_id(other, NULL) == KILN_OK && strcmp(other->id, want->id) != 0)
        return other;
    kiln__want_release(other);
    return NULL;
}

bool kiln__want_reads_files(const kiln__want *want)
{
    return want->asked == NULL ? kiln__unit_reads_files(want->unit) : kiln__unit_will_include(&want->spec);
}
