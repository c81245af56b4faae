#include "service/obtain.h"

#include "base/alloc.h"
#include "base/digest.h"
#include "os/cpu.h"
#include <limits.h>
#include <stddef.h>
#include <string.h>

/* ---- Loaded already */

kiln_program *kiln__obtain_hit(kiln_service *service, kiln_device *on, const kiln_spec *spec, bool look)
{
    kiln__geometry_basis basis;
    if (!kiln__geometry_basis_of(service, &spec->fields, look, &basis))
        return NULL;
    const kiln__name name = {
        KILN__NAMED_SPEC, basis.size, basis.generation, on, spec->text, spec->length, spec->hash
    };
    kiln_program *program = kiln__program_table_find(&service->programs, &name);
    if (program != NULL)
        atomic_fetch_add(&service->hits_loaded, 1);
    return program;
}

/* Lets kiln__obtain_hit find the program by the words of the want. Takes the reference and returns one. Without
 * memory the next request looks further. */
static kiln_program *know(kiln_service *service, const kiln__want *want, kiln_program *program)
{
    if (want->asked == NULL || want->goal == KILN_BUILD || want->unlisted || want->unasked)
        return program;
    const kiln__name name = kiln__want_asked_name(want);
    kiln__program_table_add(&service->programs, &name, &program);
    return program;
}

kiln_program *kiln__obtain_loaded(kiln_service *service, const kiln__want *want)
{
    if (want->goal == KILN_BUILD || kiln__want_reads_files(want))
        return NULL;
    const kiln__name name = kiln__want_name(want);
    kiln_program *program = kiln__program_table_find(&service->programs, &name);
    if (program == NULL)
        return NULL;
    atomic_fetch_add(&service->hits_loaded, 1);
    return know(service, want, program);
}

/* ---- Counting */

static kiln_origin origin_of(const kiln_service *service, const kiln__built *built)
{
    return built->compiled ? KILN_ORIGIN_COMPILED : service->origins[built->tier];
}

/* Counts where an entry came from, once it has proved to be usable, and once for all who share it. */
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
    atomic_fetch_add(&service->load_ns, kiln__cpu_now_ns() - start);
    if (status == KILN_OK) {
        atomic_fetch_add(&service->loads, 1);
        atomic_fetch_add(&service->ptx_loads, used_ptx);
    }
    return status;
}

/* Compiles once more what was stored and did not load. The stored entry stays until the fresh one has loaded: the fault
 * may be the driver's. */
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

/* Whether the driver does not take an image, and may take another one of the same unit. */
static bool is_refusal(kiln_status status)
{
    return status == KILN_ELOAD || status == KILN_ETARGET;
}

/* Loads what the stores had, or, where the driver refuses that, what they have of older toolchains. Where it refuses
 * all of them, the report is about the newest. */
static kiln_status load_stored(kiln_service *service, const kiln__want *want, kiln__built *built, kiln__module **out,
                               kiln_report *report)
{
    kiln_report later = KILN_INIT(kiln_report);
    kiln_status first = load(service, want, built, out, report), status = first;
    while (is_refusal(status)) {
        atomic_fetch_add(&service->refused, 1);
        if (!kiln__builder_older(built)) {
            status = first;
            break;
        }
        status = load(service, want, built, out, &later);
        if (status != KILN_OK && !is_refusal(status))
            kiln__report_move(report, &later);
    }
    kiln_report_clear(&later);
    return status;
}

/* Loads an entry. If the driver refuses it, another entry of the unit takes its place in `built`. A strict want gets
 * no fresh one. */
static kiln_status load_any(kiln_service *service, const kiln__want *want, kiln__built *built, kiln__module **out,
                            kiln_report *report)
{
    bool strict = want->strict || kiln__service_builder(service, &want->unit->target)->strict;
    kiln_report refusal = KILN_INIT(kiln_report);
    kiln_status status =
        built->compiled ? load(service, want, built, out, &refusal) : load_stored(service, want, built, out, &refusal);
    if (status == KILN_ELOAD && !built->compiled && !strict && load_fresh(service, want, built, out) == KILN_OK)
        status = KILN_OK;
    if (status != KILN_OK)
        kiln__report_move(report, &refusal);
    kiln_report_clear(&refusal);
    return status;
}

/* The name under which an entry's program is found: the want's id, or the key of an entry that depends on files. */
typedef struct entry_name {
    kiln__name name;
    char text[KILN__DIGEST_SIZE + KILN__ENTRY_TOOLCHAIN_SIZE];
} entry_name;

static void name_entry(const kiln__want *want, const kiln__built *built, entry_name *out)
{
    const kiln__key *key = &built->blob->entry.key;
    out->name = kiln__want_name(want);
    if (!kiln__want_reads_files(want))
        return;
    size_t length = strlen(key->toolchain);
    memcpy(out->text, key->digest, KILN__DIGEST_SIZE);
    memcpy(out->text + KILN__DIGEST_SIZE, key->toolchain, length);
    out->name.kind = KILN__NAMED_ENTRY;
    out->name.text = out->text;
    out->name.length = KILN__DIGEST_SIZE + length;
    out->name.hash = kiln__hash(out->text, out->name.length);
}

/* The loaded program. If another thread is loading it, this waits for that thread. NULL: the caller loads it, under
 * a claim unless it has waited. */
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

static kiln_status load_once(kiln_service *service, const kiln__want *want, bool quick, kiln__outcome *out)
{
    entry_name entry;
    kiln__claim claim = { .held = false };
    kiln_status status = KILN_OK;
    name_entry(want, &out->built, &entry);
    out->program = want->unlisted ? NULL : find_or_claim(service, &entry.name, !quick, &claim);
    if (out->program == NULL)
        status = quick && claim.busy ? KILN_ENOENT : load_program(service, want, &entry.name, quick, out);
    kiln__program_table_settle(&service->programs, &claim);
    return status;
}

/* Turns the entry of an outcome into the program that the want asks for. With `quick` it waits for no thread, and
 * tries no other entry of the unit. */
static void finish(kiln_service *service, kiln__want *want, bool quick, kiln__outcome *out)
{
    if (out->status == KILN_OK)
        out->status = kiln__want_unit(want, &out->report);
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
    out->program = know(service, want, out->program);
    count_hit(service, out);
    if (out->built.log != NULL)
        kiln__report_set_log(&out->report, out->built.log);
    kiln__program_table_trim(&service->programs);
}

/* ---- Building */

/* Finds or makes the entry, on this thread. */
static void build_entry(kiln_service *service, kiln__want *want, kiln__outcome *out)
{
    kiln__outcome_init(out);
    out->status = kiln__want_unit(want, &out->report);
    if (out->status != KILN_OK)
        return;
    kiln__builder *builder = kiln__service_builder(service, &want->unit->target);
    out->status = want->strict ? kiln__builder_require(builder, want->unit, &out->built, &out->report)
                               : kiln__builder_build(builder, want->unit, false, &out->built, &out->report);
    count_miss(service, want->miss, out->built.miss);
}

/* Waits for the flight that is bringing the entry. False: there is none. The caller leads *flight, or works on its
 * own where that is NULL. */
static bool await_others(kiln_service *service, const kiln__want *want, kiln__flight **flight, kiln__outcome *out)
{
    bool leads = true;
    /* A strict want neither waits for a compile nor lets others wait for its refusal. */
    *flight = want->strict ? NULL : kiln__flights_enter(&service->flights, want->id, &leads);
    if (leads)
        return false;
    kiln__flights_wait(&service->flights, *flight, out);
    return true;
}

/* A leader may find its program loaded by an earlier flight, and then lands without an entry. */
static bool is_without_entry(const kiln__outcome *landed)
{
    return landed->status == KILN_OK && landed->built.blob == NULL;
}

void kiln__obtain(kiln_service *service, kiln__want *want, kiln__outcome *out)
{
    kiln__flight *flight;
    kiln__outcome entry;
    bool awaited = await_others(service, want, &flight, out);
    /* That flight may have read files as they were before this call. The next one began later. */
    if (awaited && (kiln__want_reads_files(want) || is_without_entry(out))) {
        kiln__outcome_fini(out);
        awaited = await_others(service, want, &flight, out);
    }
    if (awaited && !is_without_entry(out)) {
        finish(service, want, false, out);
        return;
    }
    if (awaited)
        kiln__outcome_fini(out);
    kiln__outcome_init(&entry);
    kiln__outcome_init(out);
    out->program = kiln__obtain_loaded(service, want);
    if (out->program == NULL) {
        build_entry(service, want, &entry);
        kiln__outcome_copy(out, &entry);
        finish(service, want, false, out);
        entry.counted = out->counted;
    }
    /* The others get the entry that has loaded, and load it themselves: they may want another device, or none. */
    if (out->program != NULL && out->built.blob != entry.built.blob) {
        kiln__outcome_fini(&entry);
        kiln__outcome_copy(&entry, out);
    }
    if (!awaited && flight != NULL)
        kiln__flights_land(&service->flights, flight, &entry);
    kiln__outcome_fini(&entry);
}

bool kiln__obtain_now(kiln_service *service, kiln__want *want, kiln__outcome *out)
{
    kiln__outcome_init(out);
    out->program = kiln__obtain_loaded(service, want);
    if (out->program != NULL)
        return true;
    if (want->strict) {
        kiln__obtain(service, want, out);
        return true;
    }
    out->status = kiln__want_unit(want, &out->report);
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

/* ---- On the service's threads */

/* A flight's job. */
typedef struct cargo {
    kiln_service *service;
    kiln__want *want;
} cargo;

static void free_cargo(void *data)
{
    cargo *self = data;
    kiln__want_release(self->want);
    kiln__free(self);
}

static void run_flight(kiln__job *job, bool stopped)
{
    kiln__flight *flight = (kiln__flight *)((char *)job - offsetof(kiln__flight, job));
    const cargo *self = flight->cargo;
    kiln__flights *flights = &self->service->flights;
    kiln__outcome outcome;
    if (stopped)
        kiln__outcome_cancel(&outcome, KILN__SERVICE_CLOSED);
    else if (kiln__flights_begin(flights, flight))
        build_entry(self->service, self->want, &outcome);
    else
        return;
    kiln__flights_land(flights, flight, &outcome);
    kiln__outcome_fini(&outcome);
}

static kiln__flight *new_flight(kiln_service *service, kiln__want *want)
{
    cargo *self = kiln__alloc(sizeof(*self));
    if (self == NULL)
        return NULL;
    *self = (cargo){ service, kiln__want_retain(want) };
    return kiln__flight_new(want->id, self, free_cargo, run_flight);
}

/* Loads for a request that has waited. With `quick` it waits for no thread and compiles nothing; false: that does
 * not do. */
static bool conclude(kiln__wait *wait, bool quick, kiln__outcome *outcome)
{
    if (atomic_load(&wait->waiter.gone)) {
        kiln__outcome_fini(outcome);
        kiln__outcome_cancel(outcome, "cancelled");
        return true;
    }
    if (is_without_entry(outcome)) {
        if (!quick)
            kiln__obtain(wait->service, wait->want, outcome);
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
        kiln__outcome_cancel(&outcome, KILN__SERVICE_CLOSED);
    }
    wait->done(wait, &outcome);
    kiln__outcome_fini(&outcome);
}

/* The flight has landed. A thread of the host's may lead it, which has nothing to do with this request's device:
 * then threads of the service go on, a quick job first. */
static void on_landing(kiln__waiter *waiter, kiln__outcome *landed)
{
    kiln__wait *wait = (kiln__wait *)((char *)waiter - offsetof(kiln__wait, waiter));
    kiln__workpool *pool = &wait->service->pool;
    kiln__outcome outcome;
    bool works = wait->want->goal == KILN_LOAD || is_without_entry(landed);
    if (landed->status == KILN_OK && works && !kiln__workpool_is_here(pool)) {
        kiln__outcome_copy(&wait->landed, landed);
        landed->counted = true;
        wait->job = (kiln__job){ .run = run_conclusion, .lane = KILN__LANE_QUICK, .priority = INT_MAX };
        if (!kiln__workpool_submit(pool, &wait->job))
            run_conclusion(&wait->job, true);
        return;
    }
    kiln__outcome_copy(&outcome, landed);
    conclude(wait, false, &outcome);
    landed->counted = outcome.counted;
    wait->done(wait, &outcome);
    kiln__outcome_fini(&outcome);
}

bool kiln__obtain_join(kiln__wait *wait, int priority)
{
    wait->waiter.landed = on_landing;
    return kiln__flights_join(&wait->service->flights, wait->want->id, kiln__want_reads_files(wait->want),
                              &wait->waiter, priority, NULL);
}

bool kiln__obtain_later(kiln__wait *wait, int priority)
{
    if (kiln__obtain_join(wait, priority))
        return true;
    kiln__flight *flight = new_flight(wait->service, wait->want);
    bool joined =
        flight != NULL && kiln__flights_join(&wait->service->flights, flight->key, kiln__want_reads_files(wait->want),
                                             &wait->waiter, priority, &flight);
    kiln__flight_free(flight);
    return joined;
}
