#include "service/flight.h"

#include <string.h>

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

void kiln__outcome_cancel(kiln__outcome *out, const char *why)
{
    kiln__outcome_init(out);
    out->status = kiln__fail(&out->report, KILN_ECANCELED, KILN__STAGE_COMPILE, 0, "%s", why);
}

void kiln__outcome_copy(kiln__outcome *out, const kiln__outcome *from)
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

void kiln__flights_init(kiln__flights *flights, kiln__workpool *pool)
{
    memset(flights, 0, sizeof(*flights));
    pthread_mutex_init(&flights->lock, NULL);
    flights->pool = pool;
}

void kiln__flights_fini(kiln__flights *flights)
{
    pthread_mutex_destroy(&flights->lock);
}

kiln__flight *kiln__flight_new(const char *key, void *cargo, void (*free_cargo)(void *),
                               void (*run)(kiln__job *job, bool stopped))
{
    kiln__flight *flight = kiln__calloc(1, sizeof(*flight));
    char *copy = kiln__strdup(key);
    if (flight == NULL || copy == NULL) {
        if (cargo != NULL)
            free_cargo(cargo);
        kiln__free(flight);
        kiln__free(copy);
        return NULL;
    }
    pthread_cond_init(&flight->landed, NULL);
    kiln__outcome_init(&flight->outcome);
    flight->key = copy;
    flight->cargo = cargo;
    flight->free_cargo = free_cargo;
    flight->job.run = run;
    flight->refs = 1;
    return flight;
}

void kiln__flight_free(kiln__flight *flight)
{
    if (flight == NULL)
        return;
    if (flight->cargo != NULL)
        flight->free_cargo(flight->cargo);
    kiln__outcome_fini(&flight->outcome);
    pthread_cond_destroy(&flight->landed);
    kiln__free(flight->key);
    kiln__free(flight);
}

static kiln__flight *find(const kiln__flights *flights, const char *key)
{
    kiln__flight *flight;
    HASH_FIND(hh, flights->table, key, strlen(key), flight);
    return flight;
}

/* False: out of memory. */
static bool list(kiln__flights *flights, kiln__flight *flight)
{
    KILN__TABLE_ADD(flights->table, flight->key, strlen(flight->key), flight, flight->listed);
    return flight->listed;
}

static void unlist(kiln__flights *flights, kiln__flight *flight)
{
    if (flight->listed)
        HASH_DEL(flights->table, flight);
    flight->listed = false;
}

kiln__flight *kiln__flights_enter(kiln__flights *flights, const char *key, bool *lead)
{
    kiln__flight *fresh = kiln__flight_new(key, NULL, NULL, NULL);
    *lead = true;
    if (fresh == NULL)
        return NULL;
    pthread_mutex_lock(&flights->lock);
    kiln__flight *flight = find(flights, key);
    if (flight == NULL) {
        flight = list(flights, fresh) ? fresh : NULL;
        fresh->state = KILN__FLIGHT_RUNNING;
        fresh = flight != NULL ? NULL : fresh;
    } else if (flight->state == KILN__FLIGHT_QUEUED && kiln__workpool_remove(flights->pool, &flight->job)) {
        flight->state = KILN__FLIGHT_RUNNING;
    } else {
        *lead = false;
        flight->refs++;
        flight->threads++;
        atomic_fetch_add(&flights->joined, 1);
    }
    pthread_mutex_unlock(&flights->lock);
    kiln__flight_free(fresh);
    return flight;
}

/* With the lock held, which is given up. */
static void leave(kiln__flights *flights, kiln__flight *flight)
{
    bool last = --flight->refs == 0;
    pthread_mutex_unlock(&flights->lock);
    if (last)
        kiln__flight_free(flight);
}

void kiln__flights_wait(kiln__flights *flights, kiln__flight *flight, kiln__outcome *out)
{
    kiln__workpool_aside(flights->pool, true);
    pthread_mutex_lock(&flights->lock);
    while (flight->state != KILN__FLIGHT_LANDED)
        pthread_cond_wait(&flight->landed, &flights->lock);
    kiln__outcome_copy(out, &flight->outcome);
    flight->outcome.counted = true;
    flight->threads--;
    leave(flights, flight);
    kiln__workpool_aside(flights->pool, false);
}

/* Hands a new flight to the pool. */
static bool submit(kiln__flights *flights, kiln__flight *flight, int priority)
{
    flight->job.priority = priority;
    flight->job.lane = KILN__LANE_COMPILE;
    flight->state = KILN__FLIGHT_QUEUED;
    if (!list(flights, flight))
        return false;
    if (kiln__workpool_submit(flights->pool, &flight->job))
        return true;
    unlist(flights, flight);
    return false;
}

bool kiln__flights_join(kiln__flights *flights, const char *key, bool later, kiln__waiter *waiter, int priority,
                        kiln__flight **fresh)
{
    pthread_mutex_lock(&flights->lock);
    kiln__flight *flight = find(flights, key);
    if (flight != NULL && later && flight->state != KILN__FLIGHT_QUEUED) {
        if (fresh != NULL)
            unlist(flights, flight);
        flight = NULL;
    }
    if (flight != NULL) {
        kiln__workpool_promote(flights->pool, &flight->job, priority);
        atomic_fetch_add(&flights->joined, 1);
    } else if (fresh != NULL && submit(flights, *fresh, priority)) {
        flight = *fresh;
        *fresh = NULL;
    }
    bool joined = flight != NULL;
    if (joined)
        DL_APPEND(flight->waiters, waiter);
    pthread_mutex_unlock(&flights->lock);
    return joined;
}

static bool has_live_waiter(const kiln__waiter *waiters)
{
    const kiln__waiter *waiter;
    DL_FOREACH (waiters, waiter)
        if (!atomic_load(&waiter->gone))
            return true;
    return false;
}

/* With the lock held, which is given up. */
static void land_locked(kiln__flights *flights, kiln__flight *flight, kiln__outcome *outcome)
{
    kiln__waiter *waiters = flight->waiters, *waiter, *next;
    unlist(flights, flight);
    flight->waiters = NULL;
    flight->state = KILN__FLIGHT_LANDED;
    if (flight->threads > 0) {
        kiln__outcome_copy(&flight->outcome, outcome);
        flight->outcome.counted = outcome->counted || has_live_waiter(waiters);
        pthread_cond_broadcast(&flight->landed);
    }
    leave(flights, flight);
    DL_FOREACH_SAFE (waiters, waiter, next)
        waiter->landed(waiter, outcome);
}

static void land_cancelled(kiln__flights *flights, kiln__flight *flight)
{
    kiln__outcome outcome;
    kiln__outcome_cancel(&outcome, "cancelled");
    land_locked(flights, flight, &outcome);
    kiln__outcome_fini(&outcome);
}

bool kiln__flights_begin(kiln__flights *flights, kiln__flight *flight)
{
    pthread_mutex_lock(&flights->lock);
    if (flight->threads == 0 && !has_live_waiter(flight->waiters)) {
        land_cancelled(flights, flight);
        return false;
    }
    flight->state = KILN__FLIGHT_RUNNING;
    pthread_mutex_unlock(&flights->lock);
    return true;
}

void kiln__flights_land(kiln__flights *flights, kiln__flight *flight, kiln__outcome *outcome)
{
    pthread_mutex_lock(&flights->lock);
    land_locked(flights, flight, outcome);
}
