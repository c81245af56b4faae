#include "service/service.h"

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include "compile/workers.h"
#include "os/cpu.h"
#include "service/options.h"
#include "service/queue.h"
#include "service/stores.h"
#include "template/identity.h"
#include <string.h>

/* What follows the spec in the line that strict mode names: the directory, where only this host knows it. */
static char *warm_options(const kiln__settings *settings)
{
    kiln__text text = { 0 };
    if (settings->cache_dir[0] == '\0') {
        kiln__text_append(&text, " and open the service with a cache_dir");
    } else if (settings->own_cache_dir) {
        kiln__text_append(&text, " --cache-dir '");
        for (const char *c = settings->cache_dir; *c != '\0'; c++)
            kiln__text_printf(&text, *c == '\'' ? "'\\%c'" : "%c", *c);
        kiln__text_append(&text, "'");
    }
    return kiln__text_take(&text);
}

static void step_aside(void *data, bool begin)
{
    kiln_service *service = data;
    kiln__workpool_aside(&service->pool, begin);
}

static kiln__compiler *open_nvrtc(kiln_service *service, const kiln__settings *settings)
{
    const kiln__workers_options options = {
        .isolate = settings->isolate,
        .program = settings->worker,
        .nvrtc = settings->nvrtc,
        .crash_dir = settings->crash_dir,
        .memory_bytes = settings->worker_memory_bytes,
        .time_ms = settings->worker_time_ms,
    };
    kiln__compiler *inner = kiln__nvrtc_open(settings->nvrtc, &service->log);
    return service->workers = kiln__workers_open(inner, &options, &service->log);
}

static kiln_status open_parts(kiln_service *service, const kiln__settings *settings, kiln_report *report)
{
    kiln__log_init(&service->log, settings->log, settings->log_data, settings->log_level);
    kiln_status status = kiln__catalog_init(&service->catalog, report);
    if (status == KILN_OK)
        status = kiln__runtime_open(&service->runtime, settings->libcuda, settings->device, &service->log, report);
    if (status != KILN_OK)
        return status;
    kiln__compiler *nvrtc = open_nvrtc(service, settings);
    kiln__compiler *cc = kiln__cc_open(settings->cc, &service->log);
    if (nvrtc != NULL)
        kiln__builder_init(&service->nvrtc, nvrtc, &service->tiers, &service->log);
    if (cc != NULL)
        kiln__builder_init(&service->cc, cc, &service->tiers, &service->log);
    service->cache_dir = kiln__strdup(settings->cache_dir);
    if (nvrtc == NULL || cc == NULL || service->cache_dir == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    if (settings->strict && (service->warm_options = warm_options(settings)) == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    if (settings->record != NULL && settings->record[0] != '\0' &&
        (service->record = kiln__record_open(settings->record, &service->log)) == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    service->nvrtc.strict = service->cc.strict = service->warm_options;
    kiln__stores_open(service, settings);
    service->hostlock.disk = service->disk;
    service->hostlock.wait_ms = settings->lock_wait_ms;
    service->hostlock.aside = step_aside;
    service->hostlock.data = service;
    service->nvrtc.hostlock = service->cc.hostlock = &service->hostlock;
    return KILN_OK;
}

/* Locks are taken in this order everywhere. */
static void before_fork(void *data)
{
    kiln_service *service = data;
    pthread_mutex_lock(&service->queues_lock);
    kiln__flights_before_fork(&service->flights);
    kiln__workpool_before_fork(&service->pool);
    kiln__hostlock_before_fork(&service->hostlock);
    kiln__workers_before_fork(service->workers);
}

static void after_fork(kiln_service *service, bool child)
{
    kiln__workers_after_fork(service->workers, child);
    kiln__hostlock_after_fork(&service->hostlock, child);
    kiln__workpool_after_fork(&service->pool, child);
    kiln__flights_after_fork(&service->flights, child);
    pthread_mutex_unlock(&service->queues_lock);
}

static void after_fork_in_parent(void *data)
{
    after_fork(data, false);
}

static void after_fork_in_child(void *data)
{
    after_fork(data, true);
}

static void init(kiln_service *service)
{
    kiln__kernel_table_init(&service->requests);
    kiln__kernel_table_init(&service->kernels);
    kiln__sites_init(&service->sites);
    pthread_mutex_init(&service->native_lock, NULL);
    kiln__workpool_init(&service->pool, kiln__cpu_count());
    kiln__flights_init(&service->flights, &service->pool);
    kiln__hostlock_init(&service->hostlock, NULL, 0, &service->log);
    pthread_mutex_init(&service->queues_lock, NULL);
    service->fork_watch = (kiln__fork_watch){
        .prepare = before_fork, .parent = after_fork_in_parent, .child = after_fork_in_child, .data = service
    };
}

kiln_status kiln__service_open(kiln_service **out, const kiln_options *options, kiln_report *report)
{
    kiln__settings settings;
    *out = NULL;
    kiln_status status = kiln__settings_init(&settings, options, report);
    if (status != KILN_OK)
        return status;
    kiln_service *service = kiln__calloc(1, sizeof(*service));
    if (service == NULL) {
        status = kiln__fail_memory(report, KILN__STAGE_OPEN);
    } else {
        init(service);
        status = open_parts(service, &settings, report);
        kiln__fork_watch_begin(
            &service->fork_watch); /* once there is nothing any more that a fork could find half made */
    }
    kiln__settings_fini(&settings);
    if (status == KILN_OK)
        *out = service;
    else
        kiln__service_close(service);
    return status;
}

static void close_queues(kiln_service *service)
{
    pthread_mutex_lock(&service->queues_lock);
    for (kiln_queue *queue = service->queues, *next = NULL; queue != NULL; queue = next) {
        next = queue->next;
        kiln__queue_orphan(queue);
    }
    service->queues = NULL;
    pthread_mutex_unlock(&service->queues_lock);
}

void kiln__service_close(kiln_service *service)
{
    if (service == NULL)
        return;
    close_queues(service);
    kiln__workpool_stop(&service->pool);
    kiln__fork_watch_end(&service->fork_watch);
    kiln__workpool_fini(&service->pool);
    kiln__flights_fini(&service->flights);
    kiln__hostlock_fini(&service->hostlock);
    pthread_mutex_destroy(&service->queues_lock);
    kiln__sites_fini(&service->sites);
    kiln__kernel_table_fini(&service->requests);
    kiln__kernel_table_fini(&service->kernels);
    pthread_mutex_destroy(&service->native_lock);
    if (service->nvrtc.tiers != NULL)
        kiln__builder_fini(&service->nvrtc);
    if (service->cc.tiers != NULL)
        kiln__builder_fini(&service->cc);
    kiln__stores_close(service);
    kiln__runtime_release(service->runtime);
    kiln__catalog_fini(&service->catalog);
    kiln__free(service->cache_dir);
    kiln__free(service->warm_options);
    kiln__record_close(service->record);
    kiln__free(service);
}

kiln__builder *kiln__service_builder(kiln_service *service, const kiln__target *target)
{
    return kiln__target_is_cpu(target) ? &service->cc : &service->nvrtc;
}

/* What to compile for on a device. Asks the compiler once for each GPU, also whether there is one. */
static const kiln__target *native_target(kiln_service *service, const kiln_device *device)
{
    if (kiln__target_is_cpu(&device->target))
        return &device->target;
    atomic_bool *known = &service->natives[device->ordinal].known;
    kiln__target *target = &service->natives[device->ordinal].target;
    if (!atomic_load(known)) {
        pthread_mutex_lock(&service->native_lock);
        if (!atomic_load(known))
            kiln__builder_choose_target(&service->nvrtc, &device->target, target);
        atomic_store(known, true);
        pthread_mutex_unlock(&service->native_lock);
    }
    return target;
}

kiln_status kiln__service_resolve(kiln_service *service, kiln_device *on, const kiln_spec *spec, kiln_spec *out,
                                  kiln_report *report)
{
    kiln__target target = spec->target;
    kiln_status status = KILN_OK;
    if (!spec->target_set && on == NULL)
        status = kiln__runtime_device(service->runtime, NULL, &on, report);
    if (status != KILN_OK)
        return status;
    if (!spec->target_set)
        target = *native_target(service, on);
    return kiln__spec_resolve(out, spec, &target, report);
}

kiln_status kiln__service_unit(kiln_service *service, const kiln_spec *spec, kiln__unit **out, kiln_report *report)
{
    kiln_spec full;
    *out = NULL;
    kiln_status status = kiln__service_resolve(service, NULL, spec, &full, report);
    return status == KILN_OK ? kiln__unit_make(out, &full, report) : status;
}

static kiln_source source_of(const kiln_service *service, const kiln__built *built)
{
    if (built->compiled)
        return KILN_SOURCE_COMPILED;
    return service->sources[built->tier];
}

/* Counts what the stores had, for one of those who share it. */
static void count_source(kiln_service *service, const kiln__built *built)
{
    kiln_source source = source_of(service, built);
    if (source != KILN_SOURCE_COMPILED)
        atomic_fetch_add(source == KILN_SOURCE_DISK     ? &service->hits_disk
                         : source == KILN_SOURCE_PACK   ? &service->hits_pack
                         : source == KILN_SOURCE_SHARED ? &service->hits_shared
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

/* Builds a unit, or waits for the thread that is already building it; *lead tells which. */
static kiln_status build_once(kiln_service *service, const kiln__unit *unit, kiln__built *out, bool *lead,
                              kiln_report *report)
{
    kiln__text key = { 0 };
    kiln__outcome outcome;
    *lead = true;
    kiln__text_printf(&key, "build %s", unit->spec);
    kiln__flight *flight = key.failed ? NULL : kiln__flights_enter(&service->flights, key.data, lead);
    kiln__text_fini(&key);
    if (*lead) {
        kiln__outcome_init(&outcome);
        outcome.status = kiln__builder_build(kiln__service_builder(service, &unit->target), unit, false, &outcome.built,
                                             &outcome.report);
        if (flight != NULL)
            kiln__flights_land(&service->flights, flight, &outcome);
    } else {
        kiln__flights_wait(&service->flights, flight, &outcome);
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
    if (builder->strict != NULL)
        return KILN_ESTRICT;
    kiln_status status = kiln__builder_build(builder, unit, true, &fresh, NULL);
    if (status == KILN_OK)
        status = load(service, device, unit, &fresh, out, NULL);
    if (status == KILN_OK) {
        kiln__log_line(&service->log, KILN_LOG_WARN, "a stored kernel did not load and was compiled again: %s",
                       unit->spec);
        kiln__builder_replace(builder, &fresh);
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
    kiln__builder *builder = kiln__service_builder(service, &unit->target);
    kiln_report later = KILN_REPORT_INIT;
    kiln_status first = load(service, device, unit, built, out, report), status = first;
    while (is_refusal(status)) {
        atomic_fetch_add(&service->refused, 1);
        if (!kiln__builder_older(builder, built)) {
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

/* Finds or makes the entry and loads it. */
static kiln_status build_and_load(kiln_service *service, const kiln__want *want, const kiln__unit *unit,
                                  kiln__built *built, kiln__module **out, kiln_report *report)
{
    kiln_report refusal = KILN_REPORT_INIT;
    bool lead;
    kiln_status status = build_once(service, unit, built, &lead, report);
    if (lead)
        count_miss(service, want->miss, built->miss);
    if (status != KILN_OK)
        return status;
    status = built->compiled ? load(service, want->device, unit, built, out, &refusal)
                             : load_stored(service, want->device, unit, built, out, &refusal);
    if (status == KILN_ELOAD && !built->compiled && load_fresh(service, want->device, unit, built, out) == KILN_OK)
        status = KILN_OK;
    if (status == KILN_OK && lead)
        count_source(service, built);
    if (status != KILN_OK)
        kiln__report_move(report, &refusal);
    kiln_report_clear(&refusal);
    return status;
}

kiln_status kiln__service_check_device(const kiln_service *service, const kiln_device *on, kiln_report *report)
{
    if (on == NULL || kiln__runtime_owns(service->runtime, on))
        return KILN_OK;
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0,
                      "device %s belongs to another service: open it with kiln_device_open of this one", on->name);
}

/* The device that was asked for, if kernels for this target are of its kind. */
static kiln_status device_asked_for(kiln_device *on, const kiln__target *target, kiln_device **out, kiln_report *report)
{
    *out = on;
    if (kiln__target_is_cpu(target) == kiln__target_is_cpu(&on->target))
        return KILN_OK;
    return kiln__fail(report, KILN_ETARGET, KILN__STAGE_LOAD, 0,
                      "a kernel for %s does not run on %s: leave target open, or name another device", target->name,
                      on->name);
}

/* The device that a kernel for this target runs on: the cpu, or the default device, which must then be a GPU. */
static kiln_status device_for(kiln_service *service, const kiln__target *target, kiln_device **out, kiln_report *report)
{
    if (kiln__target_is_cpu(target))
        return kiln__runtime_device(service->runtime, "cpu", out, report);
    kiln_status status = kiln__runtime_device(service->runtime, NULL, out, report);
    if (status != KILN_OK || !kiln__target_is_cpu(&(*out)->target))
        return status;
    return kiln__fail(
        report, KILN_ENODEVICE, KILN__STAGE_LOAD, 0,
        "a kernel for %s needs a GPU and the default device is the cpu: leave target open, use target=cpu, "
        "or choose a GPU as the device",
        target->name);
}

/* Before it is compiled: what strict mode refuses is recorded too. */
static void note_request(kiln_service *service, const kiln_spec *spec)
{
    if (service->record != NULL)
        kiln__record_add(service->record, spec);
}

/* What was asked for, as bytes. */
typedef struct request_key {
    size_t length;
    uint8_t bytes[sizeof(kiln_device *) + KILN__IDENTITY_MAX];
} request_key;

static void make_key(request_key *out, const kiln_device *on, const kiln_spec *spec)
{
    memcpy(out->bytes, &on, sizeof(on));
    out->length = sizeof(on) + kiln__spec_identity(spec, out->bytes + sizeof(on));
}

kiln_kernel *kiln__service_hit(kiln_service *service, kiln_device *on, const kiln_spec *spec)
{
    request_key key;
    make_key(&key, on, spec);
    kiln_kernel *kernel = kiln__kernel_table_find(&service->requests, key.bytes, key.length);
    if (kernel != NULL)
        atomic_fetch_add(&service->hits_kernel, 1);
    return kernel;
}

/* Lets kiln__service_hit find a kernel by what was asked for, which has been recorded. Takes the reference and returns
 * one. */
static kiln_kernel *know(kiln_service *service, const kiln__want *want, kiln_kernel *kernel)
{
    request_key key;
    make_key(&key, want->asked_on, &want->asked);
    return kiln__kernel_table_add(&service->requests, key.bytes, key.length, kernel);
}

/* Puts a loaded module, which it takes over, among the kernels. */
static kiln_status keep(kiln_service *service, const kiln__want *want, const kiln__unit *unit, const kiln__built *built,
                        kiln__module *module, kiln__outcome *out)
{
    kiln_kernel *kernel = kiln__kernel_new(service->runtime, want->device, module, unit);
    if (kernel == NULL)
        return kiln__fail_memory(&out->report, KILN__STAGE_LOAD);
    kernel->source = source_of(service, built);
    kernel->compile_ms = built->compiled ? (double)built->compile_ns / 1e6 : 0;
    if (built->log != NULL)
        kiln__report_set_log(&out->report, built->log);
    kernel = kiln__kernel_table_add(&service->kernels, want->key, strlen(want->key), kernel);
    out->kernel = know(service, want, kernel);
    return KILN_OK;
}

kiln_status kiln__service_want(kiln_service *service, kiln_device *on, const kiln_spec *spec, kiln__want *out,
                               kiln_report *report)
{
    kiln__text key = { 0 };
    memset(out, 0, sizeof(*out));
    out->asked_on = on;
    out->asked = *spec;
    kiln_status status = kiln__service_resolve(service, on, spec, &out->spec, report);
    if (status == KILN_OK)
        status = on != NULL ? device_asked_for(on, &out->spec.target, &out->device, report)
                            : device_for(service, &out->spec.target, &out->device, report);
    if (status != KILN_OK)
        return status;
    note_request(service, spec);
    kiln__text_printf(&key, "%s ", out->device->name);
    kiln__spec_format(&out->spec, false, &key);
    out->key = kiln__text_take(&key);
    return out->key != NULL ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_SPEC);
}

void kiln__want_fini(kiln__want *want)
{
    kiln__free(want->key);
}

bool kiln__service_is_ready(kiln_service *service, kiln_device *on, const kiln_spec *spec)
{
    const char *name = spec->target_set && kiln__target_is_cpu(&spec->target) ? "cpu" : NULL;
    if (service->record != NULL || (on == NULL && !kiln__runtime_has_device(service->runtime, name, &on)))
        return false;
    return spec->target_set || kiln__target_is_cpu(&on->target) || atomic_load(&service->natives[on->ordinal].known);
}

kiln_kernel *kiln__service_loaded(kiln_service *service, const kiln__want *want)
{
    kiln_kernel *kernel = kiln__kernel_table_find(&service->kernels, want->key, strlen(want->key));
    if (kernel == NULL)
        return NULL;
    atomic_fetch_add(&service->hits_kernel, 1);
    return know(service, want, kernel);
}

/* Makes the unit of what is wanted. True if there is nothing to do with it: the kernel is loaded by now (another thread's
 * flight may have landed since the caller looked), or the unit cannot be made. */
static bool begin(kiln_service *service, const kiln__want *want, kiln__outcome *out, kiln__unit **unit)
{
    kiln__outcome_init(out);
    out->kernel = kiln__service_loaded(service, want);
    if (out->kernel == NULL)
        out->status = kiln__unit_make(unit, &want->spec, &out->report);
    return out->kernel != NULL || out->status != KILN_OK;
}

bool kiln__service_take(kiln_service *service, kiln__want *want, kiln__outcome *out)
{
    kiln__unit *unit = NULL;
    kiln__built built = { 0 };
    kiln__module *module = NULL;
    if (begin(service, want, out, &unit))
        return true;
    kiln__builder *builder = kiln__service_builder(service, &unit->target);
    bool taken = kiln__builder_find(builder, unit, builder->strict != NULL, &built, NULL) == KILN_OK &&
                 load(service, want->device, unit, &built, &module, NULL) == KILN_OK;
    if (taken) {
        count_source(service, &built);
        out->status = keep(service, want, unit, &built, module, out);
    }
    want->miss = built.miss;
    kiln__built_fini(&built);
    kiln__unit_free(unit);
    return taken;
}

void kiln__service_make(kiln_service *service, const kiln__want *want, kiln__outcome *out)
{
    kiln__unit *unit = NULL;
    kiln__built built = { 0 };
    kiln__module *module = NULL;
    if (begin(service, want, out, &unit))
        return;
    out->status = build_and_load(service, want, unit, &built, &module, &out->report);
    if (out->status == KILN_OK)
        out->status = keep(service, want, unit, &built, module, out);
    kiln__built_fini(&built);
    kiln__unit_free(unit);
}

static kiln_status get_in_flight(kiln_service *service, const kiln__want *want, kiln_kernel **out, kiln_report *report)
{
    bool lead;
    kiln__outcome outcome;
    kiln__flight *flight = kiln__flights_enter(&service->flights, want->key, &lead);
    if (lead) {
        kiln__service_make(service, want, &outcome);
        if (flight != NULL)
            kiln__flights_land(&service->flights, flight, &outcome);
    } else {
        kiln__flights_wait(&service->flights, flight, &outcome);
    }
    *out = !lead && outcome.kernel != NULL ? know(service, want, outcome.kernel) : outcome.kernel;
    outcome.kernel = NULL;
    kiln_status status = kiln__outcome_tell(&outcome, report);
    kiln__outcome_fini(&outcome);
    return status;
}

/* Launches that a kernel must be loaded for do not belong into a graph: see kiln_call. */
static kiln_status refuse_in_capture(const kiln__want *want, void *stream, kiln_report *report)
{
    bool capturing;
    kiln_status status = want->device->backend->vtable->capturing(want->device, stream, &capturing, report);
    if (status != KILN_OK || !capturing)
        return status;
    return kiln__fail(
        report, KILN_ECAPTURE, KILN__STAGE_LAUNCH, 0,
        "a graph is being captured and this kernel is not loaded: load it before the capture, by kiln_get "
        "or by kiln_call with n = 0: %s",
        want->key);
}

/* `capture` is NULL, or points to the stream that must not be captured while a kernel is loaded. */
static kiln_status get(kiln_service *service, kiln_device *on, const kiln_spec *spec, void *const *capture,
                       kiln_kernel **out, kiln_report *report)
{
    kiln__want want;
    atomic_fetch_add(&service->gets, 1);
    *out = kiln__service_hit(service, on, spec);
    if (*out != NULL)
        return KILN_OK;
    kiln_status status = kiln__service_want(service, on, spec, &want, report);
    if (status == KILN_OK)
        *out = kiln__service_loaded(service, &want);
    if (status == KILN_OK && *out == NULL && capture != NULL)
        status = refuse_in_capture(&want, *capture, report);
    if (status == KILN_OK && *out == NULL)
        status = get_in_flight(service, &want, out, report);
    kiln__want_fini(&want);
    return status;
}

kiln_status kiln__service_get(kiln_service *service, kiln_device *on, const kiln_spec *spec, kiln_kernel **out,
                              kiln_report *report)
{
    return get(service, on, spec, NULL, out, report);
}

kiln_status kiln__service_call(kiln_service *service, kiln_site *site, const char *text, bool refuse, void *stream,
                               const kiln_kernel **out, kiln_report *report)
{
    kiln_kernel *kernel = NULL;
    *out = kiln__sites_look_up(&service->sites, site, text);
    if (*out != NULL)
        return KILN_OK;
    kiln_spec *spec = kiln__alloc(sizeof(*spec));
    if (spec == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln_status status = kiln__spec_parse(spec, &service->catalog, text, report);
    if (status == KILN_OK)
        status = get(service, NULL, spec, refuse ? &stream : NULL, &kernel, report);
    kiln__free(spec);
    if (status != KILN_OK)
        return status;
    *out = kiln__sites_bind(&service->sites, site, text, kernel);
    kiln__kernel_release(kernel);
    return *out != NULL ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_LAUNCH);
}

kiln_status kiln__service_build(kiln_service *service, const kiln_spec *spec, kiln_artifact **out, kiln_report *report)
{
    kiln__unit *unit = NULL;
    kiln__built built;
    bool lead;
    *out = NULL;
    memset(&built, 0, sizeof(built));
    atomic_fetch_add(&service->gets, 1);
    kiln_artifact *artifact = kiln__calloc(1, sizeof(*artifact));
    kiln_status status = artifact != NULL ? kiln__service_unit(service, spec, &unit, report)
                                          : kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (status == KILN_OK) {
        note_request(service, spec);
        status = build_once(service, unit, &built, &lead, report);
        if (lead)
            count_miss(service, KILN__MISS_NONE, built.miss);
    }
    if (status == KILN_OK) {
        if (lead)
            count_source(service, &built);
        artifact->blob = kiln__blob_retain(built.blob);
        artifact->source = source_of(service, &built);
        artifact->compile_ms = built.compiled ? (double)built.compile_ns / 1e6 : 0;
        artifact->spec = unit->spec;
        unit->spec = NULL;
        if (built.log != NULL)
            kiln__report_set_log(report, built.log);
        *out = artifact;
    } else {
        kiln__free(artifact);
    }
    kiln__built_fini(&built);
    kiln__unit_free(unit);
    return status;
}

kiln_status kiln__service_probe(kiln_service *service, const kiln_spec *spec, kiln_source *out, kiln_report *report)
{
    kiln__unit *unit = NULL;
    kiln__built built;
    memset(&built, 0, sizeof(built));
    kiln_status status = kiln__service_unit(service, spec, &unit, report);
    if (status == KILN_OK)
        status = kiln__builder_find(kiln__service_builder(service, &unit->target), unit, true, &built, report);
    if (status == KILN_OK)
        *out = source_of(service, &built);
    kiln__built_fini(&built);
    kiln__unit_free(unit);
    return status;
}

void kiln__service_stats(const kiln_service *service, kiln_stats *out)
{
    size_t size = out->size;
    kiln__workers_counts workers;
    kiln__workers_count(service->workers, &workers);
    *out = (kiln_stats){
        .size = size,
        .gets = atomic_load(&service->gets),
        .hits_kernel = atomic_load(&service->hits_kernel),
        .hits_memory = atomic_load(&service->hits_memory),
        .hits_disk = atomic_load(&service->hits_disk),
        .compiles = atomic_load(&service->nvrtc.compiles) + atomic_load(&service->cc.compiles),
        .compile_failures = atomic_load(&service->nvrtc.failures) + atomic_load(&service->cc.failures),
        .compile_ns = atomic_load(&service->nvrtc.compile_ns) + atomic_load(&service->cc.compile_ns),
        .loads = atomic_load(&service->loads),
        .ptx_loads = atomic_load(&service->ptx_loads),
        .store_damaged = atomic_load(&service->store_counters.damaged),
        .store_untrusted = atomic_load(&service->store_counters.untrusted),
        .store_errors = atomic_load(&service->store_counters.errors),
        .hits_pack = atomic_load(&service->hits_pack),
        .hits_shared = atomic_load(&service->hits_shared),
        .evictions = atomic_load(&service->store_counters.evictions),
        .record_errors = kiln__record_errors(service->record),
        .strict_refusals = atomic_load(&service->nvrtc.refusals) + atomic_load(&service->cc.refusals),
        .joined = atomic_load(&service->flights.joined),
        .lock_waits = atomic_load(&service->hostlock.waits),
        .lock_timeouts = atomic_load(&service->hostlock.timeouts),
        .lock_errors = atomic_load(&service->hostlock.errors),
        .cancelled = atomic_load(&service->cancelled),
        .timed_out = atomic_load(&service->timed_out),
        .misses_absent = atomic_load(&service->misses[KILN__MISS_ABSENT]),
        .misses_damaged = atomic_load(&service->misses[KILN__MISS_DAMAGED]),
        .misses_untrusted = atomic_load(&service->misses[KILN__MISS_UNTRUSTED]),
        .misses_error = atomic_load(&service->misses[KILN__MISS_ERROR]),
        .misses_refused = atomic_load(&service->refused),
        .load_ns = atomic_load(&service->load_ns),
        .worker_starts = workers.starts,
        .worker_crashes = workers.crashes,
        .worker_timeouts = workers.timeouts,
    };
}
