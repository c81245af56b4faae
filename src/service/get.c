/* From a request to its program: a loaded program, else an entry of a store, else a compile, once for all requests
 * that want it. */
#include "service/get.h"

#include "base/alloc.h"
#include "base/digest.h"
#include "base/event.h"
#include "base/probe.h"
#include "base/table.h"
#include "os/cancel.h"
#include "os/cpu.h"
#include <limits.h>
#include <stddef.h>
#include <string.h>

/* ---- Outcomes */

void kiln__outcome_init(kiln__outcome *out)
{
    memset(out, 0, sizeof(*out));
    out->report = (kiln_report)KILN_INIT(kiln_report);
}

void kiln__outcome_fini(kiln__outcome *outcome)
{
    kiln__program_release(outcome->program);
    kiln__built_fini(&outcome->built);
    kiln_report_clear(&outcome->report);
}

/* Fills *out, which holds nothing, for a request that is given up. */
static void cancel_outcome(kiln__outcome *out, const char *why)
{
    kiln__outcome_init(out);
    out->status = kiln__fail(&out->report, KILN_ECANCELED, KILN__STAGE_COMPILE, 0, "%s", why);
}

/* Copies all but the program. */
static void copy_outcome(kiln__outcome *out, const kiln__outcome *from)
{
    *out = *from;
    out->program = NULL;
    out->built.blob = from->built.blob != NULL ? kiln__blob_retain(from->built.blob) : NULL;
    out->built.log = kiln__strdup(from->built.log);
    out->report.log = kiln__strdup(from->report.log);
}

kiln_status kiln__outcome_tell(const kiln__outcome *outcome, kiln_report *report)
{
    const kiln_report *from = &outcome->report;
    if (outcome->status != KILN_OK)
        kiln__fail(report, outcome->status, from->stage, from->native, "%s", from->message);
    if (from->log != NULL)
        kiln__report_set_log(report, from->log);
    return outcome->status;
}

/* ---- Loaded already */

/* The name under which the spec that was asked for finds its program. */
static kiln__name name_asked(const kiln_spec *spec, const kiln__geometry_basis *basis, const kiln_device *on)
{
    return (kiln__name){ KILN__NAMED_SPEC, basis->size,  basis->cols, basis->generation, on,
                         spec->text,       spec->length, spec->hash };
}

static kiln__name name_by_text(kiln__name_kind kind, const kiln_device *device, const char *text, size_t length)
{
    return (kiln__name){ kind, 0, 0, 0, device, text, length, kiln__hash(text, length) };
}

/* With a new reference, or NULL. Counts the hit. */
static kiln_program *find_loaded(kiln_service *service, const kiln__name *name)
{
    kiln_program *program = kiln__program_table_find(&service->programs, name);
    if (program != NULL)
        atomic_fetch_add(&service->hits_loaded, 1);
    return program;
}

kiln_program *kiln__obtain_hit(kiln_service *service, kiln_device *on, const kiln_spec *spec, bool look)
{
    kiln__geometry_basis basis;
    if (!kiln__geometry_basis_of(service, &spec->fields, look, &basis))
        return NULL;
    const kiln__name name = name_asked(spec, &basis, on);
    return find_loaded(service, &name);
}

/* Lets kiln__obtain_hit find the program by the words of the want. Takes the reference and returns one. Without
 * memory the next request looks further. */
static kiln_program *name_program(kiln_service *service, const kiln__want *want, kiln_program *program)
{
    if (want->asked == NULL || want->goal == KILN_BUILD || want->unlisted || want->unasked)
        return program;
    const kiln__name name = name_asked(want->asked, &want->basis, want->asked_on);
    kiln__program_table_add(&service->programs, &name, &program);
    return program;
}

/* A source is read anew at each request, so its program is known by its entry alone. A template is not: its program
 * stays while it is loaded, whatever becomes of the file and its headers. */
static bool is_known_by_entry(const kiln__want *want)
{
    return want->asked == NULL && kiln__want_reads_files(want);
}

kiln_program *kiln__obtain_loaded(kiln_service *service, const kiln__want *want)
{
    if (want->goal == KILN_BUILD || is_known_by_entry(want))
        return NULL;
    const kiln__name name = name_by_text(KILN__NAMED_ID, want->device, want->id, strlen(want->id));
    kiln_program *program = find_loaded(service, &name);
    return program != NULL ? name_program(service, want, program) : NULL;
}

/* ---- Counting */

static kiln_origin origin_of(const kiln_service *service, const kiln__built *built)
{
    return built->compiled ? KILN_ORIGIN_COMPILED : service->origins[built->tier];
}

/* Counts the origin of an entry, once the entry has proved to be usable, and once for all requests that share it. */
static void count_hit(kiln_service *service, kiln__outcome *out)
{
    if (!out->counted)
        atomic_fetch_add(&service->hits[origin_of(service, &out->built)], 1);
    out->counted = true;
}

/* Counts why the stores did not have an entry. An earlier look may have removed a damaged one. */
static void count_miss(kiln_service *service, kiln__miss earlier, kiln__miss miss)
{
    if (miss == KILN__MISS_NONE)
        return;
    kiln__miss_raise(&miss, earlier);
    atomic_fetch_add(&service->misses[miss], 1);
}

/* ---- Loading */

static kiln_status load(kiln_service *service, const kiln__want *want, const kiln__built *built, kiln__module **out,
                        kiln_report *report)
{
    bool used_ptx = false;
    uint64_t start = kiln__cpu_now_ns();
    kiln_status status = want->device->backend->vtable->load(want->device, &built->blob->entry, &want->unit->rule, out,
                                                             &used_ptx, report);
    const uint64_t ns = kiln__cpu_now_ns() - start;
    atomic_fetch_add(&service->load_ns, ns);
    KILN__PROBE(load_done, want->unit->spec, status, ns);
    if (status == KILN_OK) {
        atomic_fetch_add(&service->loads, 1);
        atomic_fetch_add(&service->ptx_loads, used_ptx);
    }
    return status;
}

/* Compiles the unit of a stored entry that did not load. The stored entry stays until the fresh one has loaded: the
 * fault may be the driver's. */
static kiln_status load_fresh(kiln_service *service, const kiln__want *want, kiln__built *built, kiln__module **out)
{
    kiln__built fresh;
    kiln_status status =
        kiln__builder_build(kiln__service_builder(service, &want->unit->target), want->unit, true, &fresh, NULL);
    if (status == KILN_OK)
        status = load(service, want, &fresh, out, NULL);
    if (status == KILN_OK) {
        kiln__log_line(&service->log, KILN_LOG_WARN, "a stored kernel did not load and was compiled again: %s",
                       want->unit->spec);
        kiln__builder_replace(&fresh);
        kiln__built_fini(built);
        *built = fresh;
    } else {
        kiln__built_fini(&fresh);
    }
    return status;
}

/* Whether the driver refused an image and may accept another one of the same unit. */
static bool is_refusal(kiln_status status)
{
    return status == KILN_ELOAD || status == KILN_ETARGET;
}

/* Loads an entry. If the driver refuses one that was stored, another entry of the unit takes its place in `built`:
 * those of older toolchains, then a fresh one, which a strict want does not get. If all are refused, the report is
 * about the first. */
static kiln_status load_any(kiln_service *service, const kiln__want *want, kiln__built *built, kiln__module **out,
                            kiln_report *report)
{
    bool strict = want->strict || kiln__service_builder(service, &want->unit->target)->strict;
    kiln_report first = KILN_INIT(kiln_report), later = KILN_INIT(kiln_report);
    kiln_status status = load(service, want, built, out, &first), refusal = status;
    while (!built->compiled && is_refusal(status)) {
        atomic_fetch_add(&service->refused, 1);
        if (!kiln__builder_older(built)) {
            status = refusal;
            break;
        }
        status = load(service, want, built, out, &later);
        if (status != KILN_OK && !is_refusal(status))
            kiln__report_move(&first, &later);
    }
    if (status == KILN_ELOAD && !built->compiled && !strict && load_fresh(service, want, built, out) == KILN_OK)
        status = KILN_OK;
    if (status != KILN_OK)
        kiln__report_move(report, &first);
    kiln_report_clear(&first);
    kiln_report_clear(&later);
    return status;
}

/* The loaded program. If another thread is loading it, this waits for that thread. NULL: the caller loads it,
 * under the claim, or without one after it has waited. With claim->busy and not `waits` another thread loads it. */
static kiln_program *find_or_claim(kiln_service *service, const kiln__name *name, bool waits, kiln__claim *claim)
{
    kiln_program *found = kiln__program_table_claim(&service->programs, name, claim);
    if (!claim->busy || !waits)
        return found;
    kiln__workpool_aside(&service->pool, true);
    found = kiln__program_table_await(&service->programs, name);
    kiln__workpool_aside(&service->pool, false);
    return found;
}

/* Loads the entry and puts its program into the table. With `quick` no other entry of the unit is tried. */
static kiln_status load_program(kiln_service *service, const kiln__want *want, const kiln__name *name, bool quick,
                                kiln__outcome *out)
{
    kiln__module *module = NULL;
    kiln_status status = quick ? load(service, want, &out->built, &module, NULL)
                               : load_any(service, want, &out->built, &module, &out->report);
    if (status != KILN_OK)
        return status;
    out->program = kiln__program_loaded(service->runtime, want->device, module, want->unit, &out->built,
                                        origin_of(service, &out->built));
    if (out->program == NULL)
        return kiln__fail_memory(&out->report, KILN__STAGE_LOAD);
    if (!want->unlisted)
        kiln__program_table_add(&service->programs, name, &out->program);
    return KILN_OK;
}

/* An entry's program is found by the want's id, or by the key of an entry that depends on files. */
static kiln_status load_once(kiln_service *service, const kiln__want *want, bool quick, kiln__outcome *out)
{
    const kiln__key *key = &out->built.blob->entry.key;
    char text[KILN__DIGEST_SIZE + KILN__ENTRY_TOOLCHAIN_SIZE];
    kiln__name name = name_by_text(KILN__NAMED_ID, want->device, want->id, strlen(want->id));
    kiln__claim claim = { .held = false };
    kiln_status status = KILN_OK;
    if (is_known_by_entry(want)) {
        memcpy(text, key->digest, KILN__DIGEST_SIZE);
        size_t length = kiln__text_copy(text + KILN__DIGEST_SIZE, KILN__ENTRY_TOOLCHAIN_SIZE, key->toolchain);
        name = name_by_text(KILN__NAMED_ENTRY, want->device, text, KILN__DIGEST_SIZE + length);
    }
    out->program = want->unlisted ? NULL : find_or_claim(service, &name, !quick, &claim);
    if (out->program == NULL)
        status = quick && claim.busy ? KILN_ENOENT : load_program(service, want, &name, quick, out);
    kiln__program_table_settle(&service->programs, &claim);
    return status;
}

/* The notes on the source's options, and what the compiler said in this call. */
static void tell_log(const kiln__unit *unit, kiln__outcome *out)
{
    const char *notes = kiln__text_string(&unit->notes), *said = out->built.log != NULL ? out->built.log : "";
    kiln__text log = { 0 };
    kiln__text_printf(&log, "%s%s", notes, said);
    if (log.length > 0)
        kiln__report_set_log(&out->report, kiln__text_string(&log));
    kiln__text_fini(&log);
}

/* Turns the entry of an outcome into the program that the want asks for. With `quick` it waits for no thread, and
 * tries no other entry of the unit. */
static void finish(kiln_service *service, kiln__want *want, bool quick, kiln__outcome *out)
{
    if (out->status == KILN_OK)
        out->status = kiln__want_unit(service, want, &out->report);
    if (out->status != KILN_OK)
        return;
    if (want->goal == KILN_LOAD) {
        out->status = load_once(service, want, quick, out);
    } else {
        out->program = kiln__program_built(want->unit, &out->built, origin_of(service, &out->built));
        out->status = out->program != NULL ? KILN_OK : kiln__fail_memory(&out->report, KILN__STAGE_COMPILE);
    }
    if (out->status != KILN_OK)
        return;
    out->program = name_program(service, want, out->program);
    count_hit(service, out);
    tell_log(want->unit, out);
    kiln__program_table_trim(&service->programs);
}

/* ---- Building */

/* Finds or makes the entry, on this thread. */
static void build_entry(kiln_service *service, kiln__want *want, kiln__outcome *out)
{
    kiln__outcome_init(out);
    out->status = kiln__want_unit(service, want, &out->report);
    if (out->status != KILN_OK)
        return;
    kiln__builder *builder = kiln__service_builder(service, &want->unit->target);
    out->status = want->strict ? kiln__builder_require(builder, want->unit, &out->built, &out->report)
                               : kiln__builder_build(builder, want->unit, false, &out->built, &out->report);
    count_miss(service, want->miss, out->built.miss);
}

/* ---- Flights: the one compile in progress for the id of a want, with all requests that wait for it */

typedef enum flight_state { FLIGHT_QUEUED, FLIGHT_RUNNING, FLIGHT_LANDED } flight_state;

typedef struct kiln__flight {
    kiln__job job; /* while a thread of the pool is to do it */
    kiln_service *service;
    kiln__want *want; /* retained; its id is the key */
    /* Guarded by flights_lock. */
    UT_hash_handle hh;
    bool listed;            /* it is in the table */
    unsigned refs, threads; /* threads: how many wait for it in await_landing */
    flight_state state;
    kiln__wait *waits; /* requests that wait without a thread */
    pthread_cond_t landed;
    kiln__outcome outcome;
} kiln__flight;

static void run_flight(kiln__job *job, bool stopped);
static void on_landing(kiln__wait *wait, kiln__outcome *landed);

/* A flight that is not in the table yet. NULL: out of memory. */
static kiln__flight *new_flight(kiln_service *service, kiln__want *want)
{
    kiln__flight *flight = kiln__calloc(1, sizeof(*flight));
    if (flight == NULL)
        return NULL;
    pthread_cond_init(&flight->landed, NULL);
    kiln__outcome_init(&flight->outcome);
    flight->service = service;
    flight->want = kiln__want_retain(want);
    flight->job.run = run_flight;
    flight->job.lane = KILN__LANE_COMPILE;
    flight->refs = 1;
    return flight;
}

static void free_flight(kiln__flight *flight)
{
    if (flight == NULL)
        return;
    kiln__want_release(flight->want);
    kiln__outcome_fini(&flight->outcome);
    pthread_cond_destroy(&flight->landed);
    kiln__free(flight);
}

static kiln__flight *find_flight(const kiln_service *service, const char *id)
{
    kiln__flight *flight;
    HASH_FIND(hh, service->flights, id, strlen(id), flight);
    return flight;
}

/* False: out of memory. */
static bool list_flight(kiln_service *service, kiln__flight *flight)
{
    KILN__TABLE_ADD(service->flights, flight->want->id, strlen(flight->want->id), flight, flight->listed);
    return flight->listed;
}

static void unlist_flight(kiln_service *service, kiln__flight *flight)
{
    if (flight->listed)
        HASH_DEL(service->flights, flight);
    flight->listed = false;
}

/* Enters the flight of a want for a thread that will wait. True: the caller does the work, and then lands *out. It
 * leads a new flight, or a queued one, which it takes from the pool, or none where memory is out. False: the caller
 * calls await_landing. */
static bool lead_flight(kiln_service *service, kiln__want *want, kiln__flight **out)
{
    kiln__flight *fresh = new_flight(service, want), *flight;
    bool leads = true;
    *out = NULL;
    if (fresh == NULL)
        return true;
    pthread_mutex_lock(&service->flights_lock);
    flight = find_flight(service, want->id);
    if (flight == NULL && list_flight(service, fresh)) {
        flight = fresh;
        fresh = NULL;
    } else if (flight != NULL &&
               (flight->state != FLIGHT_QUEUED || !kiln__workpool_remove(&service->pool, &flight->job))) {
        leads = false;
        flight->refs++;
        flight->threads++;
        atomic_fetch_add(&service->joined, 1);
    }
    if (flight != NULL && leads)
        flight->state = FLIGHT_RUNNING;
    pthread_mutex_unlock(&service->flights_lock);
    free_flight(fresh);
    *out = flight;
    return leads;
}

/* With the lock held, which is given up. */
static void leave_flight(kiln_service *service, kiln__flight *flight)
{
    bool last = --flight->refs == 0;
    pthread_mutex_unlock(&service->flights_lock);
    if (last)
        free_flight(flight);
}

/* Waits until the flight has landed and copies its outcome. Uses up the caller's part in the flight. */
static void await_landing(kiln_service *service, kiln__flight *flight, kiln__outcome *out)
{
    kiln__workpool_aside(&service->pool, true);
    pthread_mutex_lock(&service->flights_lock);
    while (flight->state != FLIGHT_LANDED)
        pthread_cond_wait(&flight->landed, &service->flights_lock);
    copy_outcome(out, &flight->outcome);
    flight->outcome.counted = true;
    flight->threads--;
    leave_flight(service, flight);
    kiln__workpool_aside(&service->pool, false);
}

static bool has_live_wait(const kiln__wait *waits)
{
    const kiln__wait *wait;
    DL_FOREACH (waits, wait)
        if (!atomic_load(&wait->gone))
            return true;
    return false;
}

/* Ends a flight, with the lock held, which is given up: gives the outcome to all threads that wait, and to each
 * request on this thread. The caller keeps the outcome, but not the flight. */
static void land_flight(kiln_service *service, kiln__flight *flight, kiln__outcome *outcome)
{
    kiln__wait *waits = flight->waits, *wait, *next;
    unlist_flight(service, flight);
    flight->waits = NULL;
    flight->state = FLIGHT_LANDED;
    if (flight->threads > 0) {
        copy_outcome(&flight->outcome, outcome);
        flight->outcome.counted = outcome->counted || has_live_wait(waits);
        pthread_cond_broadcast(&flight->landed);
    }
    leave_flight(service, flight);
    DL_FOREACH_SAFE (waits, wait, next)
        on_landing(wait, outcome);
}

static void run_flight(kiln__job *job, bool stopped)
{
    kiln__flight *flight = (kiln__flight *)((char *)job - offsetof(kiln__flight, job));
    kiln_service *service = flight->service;
    kiln__outcome outcome;
    pthread_mutex_lock(&service->flights_lock);
    bool wanted = flight->threads > 0 || has_live_wait(flight->waits);
    if (stopped || !wanted) {
        cancel_outcome(&outcome, stopped ? KILN__SERVICE_CLOSED : "cancelled");
    } else {
        flight->state = FLIGHT_RUNNING;
        pthread_mutex_unlock(&service->flights_lock);
        build_entry(service, flight->want, &outcome);
        pthread_mutex_lock(&service->flights_lock);
    }
    land_flight(service, flight, &outcome);
    kiln__outcome_fini(&outcome);
}

/* Lists a new flight and hands it to the pool, with the lock held. */
static bool submit_flight(kiln_service *service, kiln__flight *flight, int priority)
{
    flight->job.priority = priority;
    if (!list_flight(service, flight))
        return false;
    if (kiln__workpool_submit(&service->pool, &flight->job))
        return true;
    unlist_flight(service, flight);
    return false;
}

/* Lets a request wait for the flight of its want, and raises the flight's priority to the request's. A want that
 * reads files joins only a flight that has not begun. If there is none, *fresh goes to the pool and becomes NULL,
 * and takes the place in the table of a flight that has begun. `fresh` may be NULL. */
static bool join_flight(kiln__wait *wait, int priority, kiln__flight **fresh)
{
    kiln_service *service = wait->service;
    pthread_mutex_lock(&service->flights_lock);
    kiln__flight *flight = find_flight(service, wait->want->id);
    if (flight != NULL && flight->state != FLIGHT_QUEUED && kiln__want_reads_files(wait->want)) {
        if (fresh != NULL)
            unlist_flight(service, flight);
        flight = NULL;
    }
    if (flight != NULL) {
        kiln__workpool_promote(&service->pool, &flight->job, priority);
        atomic_fetch_add(&service->joined, 1);
    } else if (fresh != NULL && submit_flight(service, *fresh, priority)) {
        flight = *fresh;
        *fresh = NULL;
    }
    if (flight != NULL)
        DL_APPEND(flight->waits, wait);
    pthread_mutex_unlock(&service->flights_lock);
    return flight != NULL;
}

/* A leader may find its program loaded by an earlier flight, and then lands without an entry. */
static bool is_without_entry(const kiln__outcome *landed)
{
    return landed->status == KILN_OK && landed->built.blob == NULL;
}

/* ---- On the caller's thread */

/* Fills *out with the program, loaded, stored or compiled, or with the failure. Compiles on this thread, or waits
 * for the flight of another one. */
static void obtain_program(kiln_service *service, kiln__want *want, kiln__outcome *out)
{
    kiln__flight *flight = NULL;
    kiln__outcome entry;
    /* A strict want neither waits for a compile nor lets others wait for its refusal. */
    for (int awaited = 0; awaited < 2 && !want->strict && !lead_flight(service, want, &flight); awaited++) {
        await_landing(service, flight, out);
        flight = NULL;
        /* The first flight may have read files as they were before this call. The next one began later. */
        bool stale = awaited == 0 && kiln__want_reads_files(want);
        if (!stale && !is_without_entry(out)) {
            finish(service, want, false, out);
            return;
        }
        kiln__outcome_fini(out);
    }
    kiln__outcome_init(&entry);
    kiln__outcome_init(out);
    out->program = kiln__obtain_loaded(service, want);
    if (out->program == NULL) {
        build_entry(service, want, &entry);
        copy_outcome(out, &entry);
        finish(service, want, false, out);
    }
    /* The others get the entry that has loaded, and load it themselves: they may want another device, or only a
     * build. */
    if (flight != NULL) {
        pthread_mutex_lock(&service->flights_lock);
        land_flight(service, flight, out->program != NULL ? out : &entry);
    }
    kiln__outcome_fini(&entry);
}

bool kiln__obtain_stored(kiln_service *service, kiln__want *want, kiln__outcome *out)
{
    if (want->strict) {
        obtain_program(service, want, out);
        return true;
    }
    kiln__outcome_init(out);
    out->status = kiln__want_unit(service, want, &out->report);
    if (out->status != KILN_OK)
        return true;
    kiln__builder *builder = kiln__service_builder(service, &want->unit->target);
    if (kiln__builder_find(builder, want->unit, builder->strict, &out->built, NULL) == KILN_OK)
        finish(service, want, true, out);
    want->miss = out->built.miss;
    bool found = out->program != NULL;
    if (!found)
        kiln__outcome_fini(out);
    return found;
}

/* A launch that has to load its kernel does not belong into a graph: see kiln_call. */
static kiln_status refuse_in_capture(const kiln__want *want, void *stream, kiln_report *report)
{
    bool capturing;
    kiln_status status = want->device->backend->vtable->capturing(want->device, stream, &capturing, report);
    if (status != KILN_OK || !capturing)
        return status;
    return kiln__fail(report, KILN_ECAPTURE, KILN__STAGE_LAUNCH, 0,
                      "a graph is being captured and this kernel is not loaded: load it before the capture, by "
                      "kiln_get_kernel, by kiln_call with n = 0 or by kiln_get for tensors: %s %s",
                      want->device->name, want->id);
}

kiln_status kiln__get(kiln_program **out, kiln_service *service, const kiln_request *request, bool unlisted,
                      void *const *capture, kiln_report *report)
{
    kiln__want *want;
    kiln__outcome outcome;
    atomic_fetch_add(&service->gets, 1);
    *out = request->spec != NULL && request->goal == KILN_LOAD
               ? kiln__obtain_hit(service, request->device, request->spec, true)
               : NULL;
    if (*out != NULL)
        return KILN_OK;
    KILN__NO_CANCEL; /* not before: a hit does nothing that can be cancelled */
    kiln_status status = kiln__want_make(&want, request, false, report);
    if (status == KILN_OK) {
        want->unlisted = unlisted;
        status = kiln__want_settle(service, want, report);
    }
    if (status == KILN_OK)
        *out = kiln__obtain_loaded(service, want);
    if (status == KILN_OK && *out == NULL && capture != NULL)
        status = refuse_in_capture(want, *capture, report);
    if (status == KILN_OK && *out == NULL) {
        const uint64_t start = kiln__cpu_now_ns();
        KILN__PROBE(get_begin, want->id);
        kiln__event_begin(&service->log, KILN_EVENT_GET, want->id);
        obtain_program(service, want, &outcome);
        *out = outcome.program;
        outcome.program = NULL;
        status = kiln__outcome_tell(&outcome, report);
        kiln__event_end(&service->log, KILN_EVENT_GET, want->id, status, kiln__cpu_now_ns() - start);
        KILN__PROBE(get_done, want->id, status, *out != NULL ? (*out)->origin_name : NULL);
        kiln__outcome_fini(&outcome);
    }
    kiln__want_release(want);
    return status;
}

/* The reason why no store on disk holds a unit. */
static kiln_status fail_not_kept(const kiln_service *service, const kiln__unit *unit, kiln__miss why,
                                 kiln_report *report)
{
    char refusal[KILN__STORE_REFUSAL];
    const char *reason = refusal;
    kiln_status status = kiln__service_need_disk(service, report);
    if (status != KILN_OK)
        return status;
    kiln__disk_store_refusal(service->disk, refusal);
    if (service->isolate == KILN_ISOLATE_NEVER && kiln__unit_is_source(unit))
        reason = "with isolate=never a source is kept in memory only";
    else if (why == KILN__MISS_UNTRUSTED)
        reason = "a file that may not be trusted is in its place; kiln cache verify names it";
    else if (why != KILN__MISS_ABSENT)
        reason = "it cannot be read back; kiln cache verify says why";
    return kiln__fail(report, KILN_ENOENT, KILN__STAGE_STORE, 0, "not in the store %s: %s", service->cache_dir, reason);
}

kiln_status kiln__service_kept(kiln_service *service, const kiln_request *request, kiln_report *report)
{
    kiln__want *want;
    kiln__miss why;
    kiln_status status = kiln__want_make(&want, request, false, report);
    if (status != KILN_OK)
        return status;
    want->unlisted = true;
    status = kiln__want_settle(service, want, report);
    if (status == KILN_OK)
        status = kiln__want_unit(service, want, report);
    if (status == KILN_OK) {
        kiln__builder *builder = kiln__service_builder(service, &want->unit->target);
        status = kiln__builder_is_kept(builder, want->unit, &why, report);
        if (status == KILN_ENOENT)
            status = fail_not_kept(service, want->unit, why, report);
    }
    kiln__want_release(want);
    return status;
}

kiln_status kiln__get_unlisted(kiln_kernel **out, kiln_service *service, kiln_device *on, const kiln__fields *spec,
                               kiln_report *report)
{
    const kiln_request request = { .spec = kiln__spec_freeze(spec), .device = on };
    kiln_program *program;
    *out = NULL;
    if (request.spec == NULL)
        return kiln__fail_memory(report, KILN__STAGE_SPEC);
    kiln_status status = kiln__get(&program, service, &request, true, NULL, report);
    if (status == KILN_OK)
        *out = program->kernels;
    kiln__spec_release((kiln_spec *)request.spec);
    return status;
}

/* Apart from kiln__get_text, so that a hit of kiln_call sets up no stack for this. */
static kiln_status get_new_text(kiln_kernel **out, kiln_service *service, const kiln__name *name, void *const *capture,
                                kiln_report *report)
{
    kiln_spec *spec;
    kiln_program *program;
    KILN__NO_CANCEL;
    kiln_status status = kiln__spec_parse(&spec, &service->catalog, name->text, report);
    const kiln_request request = { .spec = spec };
    if (status == KILN_OK)
        status = kiln__get(&program, service, &request, false, capture, report);
    kiln__spec_release(spec);
    if (status != KILN_OK)
        return status;
    if (!kiln__program_table_add(&service->programs, name, &program)) {
        kiln__program_release(program);
        return kiln__fail_memory(report, KILN__STAGE_LAUNCH);
    }
    *out = program->kernels;
    return KILN_OK;
}

kiln_status kiln__get_text(kiln_kernel **out, kiln_service *service, const char *text, void *const *capture,
                           kiln_report *report)
{
    const kiln__name name = name_by_text(KILN__NAMED_TEXT, NULL, text, strlen(text));
    const kiln_program *program = kiln__program_table_find(&service->programs, &name);
    *out = program != NULL ? program->kernels : NULL;
    return program != NULL ? KILN_OK : get_new_text(out, service, &name, capture, report);
}

/* ---- On the service's threads */

/* Loads for a request that has waited. With `quick` it waits for no thread and compiles nothing; false: that is not
 * enough. */
static bool conclude(kiln__wait *wait, bool quick, kiln__outcome *outcome)
{
    if (atomic_load(&wait->gone)) {
        kiln__outcome_fini(outcome);
        cancel_outcome(outcome, "cancelled");
        return true;
    }
    if (is_without_entry(outcome)) {
        if (!quick)
            obtain_program(wait->service, wait->want, outcome);
        return !quick;
    }
    finish(wait->service, wait->want, quick, outcome);
    if (!quick || outcome->program != NULL)
        return true;
    kiln_report_clear(&outcome->report);
    outcome->status = KILN_OK; /* the flight's */
    return false;
}

static void run_conclusion(kiln__job *job, bool stopped)
{
    kiln__wait *wait = (kiln__wait *)((char *)job - offsetof(kiln__wait, job));
    kiln__outcome outcome = wait->landed;
    if (!stopped && !conclude(wait, job->lane == KILN__LANE_QUICK, &outcome)) {
        wait->landed = outcome;
        job->lane = KILN__LANE_COMPILE;
        if (kiln__workpool_submit(&wait->service->pool, job))
            return;
        stopped = true;
    }
    if (stopped) {
        kiln__outcome_fini(&outcome);
        cancel_outcome(&outcome, KILN__SERVICE_CLOSED);
    }
    wait->done(wait, &outcome);
    kiln__outcome_fini(&outcome);
}

/* The flight has landed. A thread of the host's that led it has nothing to do with this request's device: then threads
 * of the service go on, a quick job first. */
static void on_landing(kiln__wait *wait, kiln__outcome *landed)
{
    kiln__workpool *pool = &wait->service->pool;
    kiln__outcome outcome;
    if (landed->status == KILN_OK && !kiln__workpool_is_here(pool)) {
        copy_outcome(&wait->landed, landed);
        landed->counted = true;
        wait->job = (kiln__job){ .run = run_conclusion, .lane = KILN__LANE_QUICK, .priority = INT_MAX };
        if (!kiln__workpool_submit(pool, &wait->job))
            run_conclusion(&wait->job, true);
        return;
    }
    copy_outcome(&outcome, landed);
    conclude(wait, false, &outcome);
    landed->counted = outcome.counted;
    wait->done(wait, &outcome);
    kiln__outcome_fini(&outcome);
}

bool kiln__obtain_join(kiln__wait *wait, int priority)
{
    return join_flight(wait, priority, NULL);
}

bool kiln__obtain_later(kiln__wait *wait, int priority)
{
    if (join_flight(wait, priority, NULL))
        return true;
    kiln__flight *flight = new_flight(wait->service, wait->want);
    bool joined = flight != NULL && join_flight(wait, priority, &flight);
    free_flight(flight);
    return joined;
}

/* ---- Stand-ins */

/* The text of a stand-in begins and ends like that of the wanted kernel. The geometry stands between. */
typedef struct search {
    const kiln__want *want;
    kiln__text head, tail;
    kiln_program *nearest;
    uint64_t distance;
} search;

static bool stands_in(const search *self, const kiln_program *program)
{
    size_t length = strlen(program->spec);
    return program->plan != NULL && program->device == self->want->device &&
           length >= self->head.length + self->tail.length &&
           memcmp(program->spec, self->head.data, self->head.length) == 0 &&
           memcmp(program->spec + length - self->tail.length, self->tail.data, self->tail.length) == 0;
}

/* By ratio, so that 64 is nearer to 128 than to 256. */
static uint64_t distance_of(const kiln__fields *a, const kiln__fields *b)
{
    enum { SCALE = 1024 };
    uint64_t sum = 0;
    for (uint32_t i = 0; i < a->template->param_count; i++) {
        uint64_t x = (uint64_t)a->params[i], y = (uint64_t)b->params[i];
        if (x != y)
            sum += x > y ? SCALE * (x - y) / x : SCALE * (y - x) / y;
    }
    return sum;
}

static void consider_program(void *data, kiln_program *program)
{
    search *self = data;
    kiln__fields fields;
    kiln__real room;
    const kiln__fields *wanted = &self->want->spec;
    if (!stands_in(self, program) ||
        kiln__fields_parse(&fields, &room, wanted->catalog, program->spec, NULL) != KILN_OK)
        return;
    uint64_t distance = distance_of(&fields, wanted);
    if (self->nearest != NULL && distance >= self->distance)
        return;
    kiln__program_release(self->nearest); /* never the last one: the table has its own */
    self->nearest = kiln__program_retain(program);
    self->distance = distance;
}

kiln_program *kiln__stand_in_loaded(kiln_service *service, const kiln__want *want)
{
    search self = { .want = want };
    kiln__fields open = want->spec;
    memset(open.param_set, 0, sizeof(open.param_set));
    open.target_set = false;
    kiln__spec_format(&open, false, &self.head);
    kiln__text_append(&self.head, " ");
    kiln__text_printf(&self.tail, " target=%s", want->spec.target.name);
    if (!self.head.failed && !self.tail.failed)
        kiln__program_table_visit(&service->programs, consider_program, &self);
    kiln__text_fini(&self.head);
    kiln__text_fini(&self.tail);
    return self.nearest;
}

kiln_program *kiln__stand_in_stored(kiln_service *service, const kiln__want *want)
{
    kiln__outcome outcome;
    kiln__want *other = kiln__want_open_geometry(service, want);
    kiln_program *program = other != NULL ? kiln__obtain_loaded(service, other) : NULL;
    if (other != NULL && program == NULL && kiln__obtain_stored(service, other, &outcome)) {
        program = kiln__program_retain(outcome.program);
        kiln__outcome_fini(&outcome);
    }
    kiln__want_release(other);
    return program;
}
