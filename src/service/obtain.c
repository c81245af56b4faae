#include "service/obtain.h"

#include "base/alloc.h"
#include "compile/direct.h"
#include "os/cpu.h"
#include "service/loaded.h"
#include <string.h>

const char *kiln__origin_name(kiln_origin origin)
{
    static const char *const names[] = { [KILN_ORIGIN_COMPILED] = "compiled",
                                         [KILN_ORIGIN_MEMORY] = "memory",
                                         [KILN_ORIGIN_DISK] = "disk",
                                         [KILN_ORIGIN_PACK] = "pack",
                                         [KILN_ORIGIN_SHARED] = "shared" };
    return names[origin];
}

kiln_origin kiln__built_origin(const kiln_service *service, const kiln__built *built)
{
    if (built->compiled)
        return KILN_ORIGIN_COMPILED;
    return service->origins[built->tier];
}

void kiln__obtain_count(kiln_service *service, const kiln__built *built)
{
    kiln_origin origin = kiln__built_origin(service, built);
    if (origin != KILN_ORIGIN_COMPILED)
        atomic_fetch_add(origin == KILN_ORIGIN_DISK     ? &service->hits_disk
                         : origin == KILN_ORIGIN_PACK   ? &service->hits_pack
                         : origin == KILN_ORIGIN_SHARED ? &service->hits_shared
                                                        : &service->hits_memory,
                         1);
}

/* Counts why the stores did not have what one of those who share it wanted. An earlier look may have removed what was
 * damaged. */
static void count_miss(kiln_service *service, kiln__miss earlier, kiln__miss miss)
{
    if (miss == KILN__MISS_NONE)
        return;
    kiln__miss_raise(&miss, earlier);
    atomic_fetch_add(&service->misses[miss], 1);
}

/* Builds a unit in a flight of its own, or waits for the flight of the thread that is already building it; *lead tells
 * which. */
static void fly(kiln_service *service, const kiln__unit *unit, kiln__outcome *out, bool *lead)
{
    kiln__text key = { 0 };
    *lead = true;
    kiln__text_printf(&key, "build %s", unit->own != NULL ? unit->own->id : unit->spec);
    kiln__flight *flight = key.failed ? NULL : kiln__flights_enter(&service->flights, key.data, lead);
    kiln__text_fini(&key);
    if (!*lead) {
        kiln__flights_wait(&service->flights, flight, out);
        return;
    }
    kiln__outcome_init(out);
    out->status =
        kiln__builder_build(kiln__service_builder(service, &unit->target), unit, false, &out->built, &out->report);
    if (flight != NULL)
        kiln__flights_land(&service->flights, flight, out);
}

/* Builds a unit, or waits for who does. *lead: this thread did. */
static kiln_status build_once(kiln_service *service, const kiln__unit *unit, kiln__built *out, bool *lead,
                              kiln_report *report)
{
    kiln__outcome outcome;
    fly(service, unit, &outcome, lead);
    /* It may have read files as they were before this thread was asked, be it for a failure or not. Whichever flight there is
     * after it began later. */
    if (!*lead && kiln__direct_applies(unit)) {
        kiln__outcome_fini(&outcome);
        fly(service, unit, &outcome, lead);
    }
    *out = outcome.built;
    memset(&outcome.built, 0, sizeof(outcome.built));
    kiln_status status = kiln__outcome_tell(&outcome, report);
    kiln__outcome_fini(&outcome);
    return status;
}

static kiln_status load(kiln_service *service, kiln_device *device, const kiln__unit *unit, const kiln__built *built,
                        kiln__module **out, kiln_report *report)
{
    bool used_ptx = false;
    uint64_t start = kiln__cpu_now_ns();
    kiln_status status =
        device->backend->vtable->load(device, &built->blob->entry, &unit->rule, out, &used_ptx, report);
    atomic_fetch_add(&service->load_ns, kiln__cpu_now_ns() - start);
    if (status == KILN_OK) {
        atomic_fetch_add(&service->loads, 1);
        atomic_fetch_add(&service->ptx_loads, used_ptx);
    }
    return status;
}

/* Compiles once more what was stored and did not load. The stored entry stays until the fresh one has loaded: the fault
 * may be the driver's. */
static kiln_status load_fresh(kiln_service *service, kiln_device *device, const kiln__unit *unit, kiln__built *built,
                              kiln__module **out)
{
    kiln__builder *builder = kiln__service_builder(service, &unit->target);
    kiln__built fresh;
    kiln_status status = kiln__builder_build(builder, unit, true, &fresh, NULL);
    if (status == KILN_OK)
        status = load(service, device, unit, &fresh, out, NULL);
    if (status == KILN_OK) {
        kiln__log_line(&service->log, KILN_LOG_WARN, "a stored kernel did not load and was compiled again: %s",
                       unit->spec);
        kiln__builder_replace(&fresh);
        kiln__built_fini(built);
        *built = fresh;
    } else {
        kiln__built_fini(&fresh);
    }
    return status;
}

/* Whether the driver does not take an image, and may take another one of the same unit. */
static bool is_refusal(kiln_status status)
{
    return status == KILN_ELOAD || status == KILN_ETARGET;
}

/* Loads what the stores had, or, where the driver refuses that, what they have of older toolchains. Where it refuses all of
 * them, the report is about the newest. */
static kiln_status load_stored(kiln_service *service, kiln_device *device, const kiln__unit *unit, kiln__built *built,
                               kiln__module **out, kiln_report *report)
{
    kiln_report later = KILN_INIT(kiln_report);
    kiln_status first = load(service, device, unit, built, out, report), status = first;
    while (is_refusal(status)) {
        atomic_fetch_add(&service->refused, 1);
        if (!kiln__builder_older(built)) {
            status = first;
            break;
        }
        status = load(service, device, unit, built, out, &later);
        if (status != KILN_OK && !is_refusal(status))
            kiln__report_move(report, &later);
    }
    kiln_report_clear(&later);
    return status;
}

bool kiln__obtain_known(kiln_service *service, const kiln__unit *unit, kiln__built *built)
{
    kiln__builder *builder = kiln__service_builder(service, &unit->target);
    return kiln__builder_find(builder, unit, builder->strict, built, NULL) == KILN_OK;
}

bool kiln__obtain_try(kiln_service *service, kiln_device *device, const kiln__unit *unit, const kiln__built *built,
                      kiln__module **out)
{
    return load(service, device, unit, built, out, NULL) == KILN_OK;
}

bool kiln__obtain_stored(kiln_service *service, kiln_device *device, const kiln__unit *unit, kiln__built *built,
                         kiln__module **out)
{
    bool found = kiln__obtain_known(service, unit, built) && kiln__obtain_try(service, device, unit, built, out);
    if (found)
        kiln__obtain_count(service, built);
    return found;
}

kiln_status kiln__obtain_entry(kiln_service *service, const kiln__unit *unit, bool strict, kiln__miss earlier,
                               kiln__built *built, bool *lead, kiln_report *report)
{
    kiln__builder *builder = kiln__service_builder(service, &unit->target);
    *lead = strict;
    kiln_status status =
        strict ? kiln__builder_require(builder, unit, built, report) : build_once(service, unit, built, lead, report);
    if (*lead)
        count_miss(service, earlier, built->miss);
    return status;
}

kiln_status kiln__obtain_load(kiln_service *service, kiln_device *device, const kiln__unit *unit, bool strict,
                              kiln__built *built, kiln__module **out, kiln_report *report)
{
    strict = strict || kiln__service_builder(service, &unit->target)->strict;
    kiln_report refusal = KILN_INIT(kiln_report);
    kiln_status status = built->compiled ? load(service, device, unit, built, out, &refusal)
                                         : load_stored(service, device, unit, built, out, &refusal);
    if (status == KILN_ELOAD && !built->compiled && !strict && load_fresh(service, device, unit, built, out) == KILN_OK)
        status = KILN_OK;
    if (status != KILN_OK)
        kiln__report_move(report, &refusal);
    kiln_report_clear(&refusal);
    return status;
}

kiln_status kiln__obtain(kiln_service *service, const kiln__want *want, const kiln__unit *unit, kiln__built *built,
                         kiln__module **out, kiln_report *report)
{
    bool lead;
    kiln_status status = kiln__obtain_entry(service, unit, want->strict, want->miss, built, &lead, report);
    if (status == KILN_OK)
        status = kiln__obtain_load(service, want->device, unit, want->strict, built, out, report);
    if (status == KILN_OK && lead)
        kiln__obtain_count(service, built);
    return status;
}

kiln_status kiln__service_build(kiln_service *service, kiln_device *on, const kiln__fields *spec, bool strict,
                                kiln__artifact **out, kiln_report *report)
{
    kiln__unit *unit = NULL;
    kiln__built built = { 0 };
    bool lead = false;
    *out = NULL;
    atomic_fetch_add(&service->gets, 1);
    kiln_status status = kiln__service_unit(service, on, spec, &unit, report);
    if (status == KILN_OK) {
        kiln__service_record(service, spec);
        status = kiln__obtain_entry(service, unit, strict, KILN__MISS_NONE, &built, &lead, report);
    }
    if (status == KILN_OK && lead)
        kiln__obtain_count(service, &built);
    if (status == KILN_OK)
        status = kiln__artifact_make(out, unit, &built, kiln__built_origin(service, &built), report);
    kiln__built_fini(&built);
    kiln__unit_free(unit);
    return status;
}
