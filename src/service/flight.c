#include "service/flight.h"

#include "base/alloc.h"
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

static uint64_t hash_of(const char *key)
{
    uint8_t sum[KILN__CHECKSUM_SIZE];
    uint64_t hash;
    kiln__checksum(sum, key, strlen(key));
    memcpy(&hash, sum, sizeof(hash));
    return hash;
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
    flight->hash = hash_of(key);
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

static kiln__flight *find(const kiln__flights *flights, const char *key, uint64_t hash)
{
    kiln__flight *flight = flights->buckets[hash % KILN__FLIGHT_BUCKETS];
    while (flight != NULL && (flight->hash != hash || strcmp(flight->key, key) != 0))
        flight = flight->next;
    return flight;
}

static void insert(kiln__flights *flights, kiln__flight *flight)
{
    kiln__flight **bucket = &flights->buckets[flight->hash % KILN__FLIGHT_BUCKETS];
    flight->next = *bucket;
    *bucket = flight;
}

static void cut(kiln__flights *flights, const kiln__flight *flight)
{
    kiln__flight **at = &flights->buckets[flight->hash % KILN__FLIGHT_BUCKETS];
    while (*at != flight)
        at = &(*at)->next;
    *at = flight->next;
}

kiln__flight *kiln__flights_enter(kiln__flights *flights, const char *key, bool *lead)
{
    kiln__flight *fresh = kiln__flight_new(key, NULL, NULL, NULL);
    *lead = true;
    if (fresh == NULL)
        return NULL;
    pthread_mutex_lock(&flights->lock);
    kiln__flight *flight = find(flights, key, fresh->hash);
    if (flight == NULL) {
        flight = fresh;
        flight->state = KILN__FLIGHT_RUNNING;
        insert(flights, flight);
        fresh = NULL;
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
    flight->threads--;
    leave(flights, flight);
    kiln__workpool_aside(flights->pool, false);
}

bool kiln__flights_join(kiln__flights *flights, const char *key, bool later, kiln__waiter *waiter, int priority,
                        kiln__flight **fresh)
{
    uint64_t hash = hash_of(key);
    pthread_mutex_lock(&flights->lock);
    kiln__flight *flight = find(flights, key, hash); /* the latest of that key */
    if (flight != NULL && later && flight->state != KILN__FLIGHT_QUEUED)
        flight = NULL;
    bool joined = flight != NULL;
    if (flight != NULL) {
        kiln__workpool_promote(flights->pool, &flight->job, priority);
        atomic_fetch_add(&flights->joined, 1);
    } else if (fresh != NULL) {
        (*fresh)->job.priority = priority;
        (*fresh)->job.lane = KILN__LANE_COMPILE;
        (*fresh)->state = KILN__FLIGHT_QUEUED;
        joined = kiln__workpool_submit(flights->pool, &(*fresh)->job);
        if (joined) {
            flight = *fresh;
            insert(flights, flight);
            *fresh = NULL;
        }
    }
    if (joined) {
        waiter->next = flight->waiters;
        flight->waiters = waiter;
    }
    pthread_mutex_unlock(&flights->lock);
    return joined;
}

static bool is_wanted(const kiln__flight *flight)
{
    for (const kiln__waiter *waiter = flight->waiters; waiter != NULL; waiter = waiter->next)
        if (!atomic_load(&waiter->gone))
            return true;
    return flight->threads > 0;
}

static kiln__waiter *reverse(kiln__waiter *list)
{
    kiln__waiter *reversed = NULL;
    while (list != NULL) {
        kiln__waiter *next = list->next;
        list->next = reversed;
        reversed = list;
        list = next;
    }
    return reversed;
}

/* With the lock held, which is given up. */
static void land_locked(kiln__flights *flights, kiln__flight *flight, kiln__outcome *outcome)
{
    kiln__waiter *waiter = reverse(flight->waiters);
    cut(flights, flight);
    flight->waiters = NULL;
    flight->state = KILN__FLIGHT_LANDED;
    if (flight->threads > 0) {
        kiln__outcome_copy(&flight->outcome, outcome);
        flight->outcome.counted = true;
        pthread_cond_broadcast(&flight->landed);
    }
    leave(flights, flight);
    while (waiter != NULL) {
        kiln__waiter *next = waiter->next;
        waiter->landed(waiter, outcome);
        waiter = next;
    }
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
    if (!is_wanted(flight)) {
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
