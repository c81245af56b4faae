/* Requests that need the pool. Equal ones share one flight, so that a kernel is compiled once for all that ask. */
#include "daemon/server.h"

#include "os/cpu.h"
#include "store/disk.h"
#include "store/tiers.h"
#include <string.h>

static kiln__builder *builder_of(const kiln__epoch *epoch)
{
    return &epoch->service->builders[KILN__BACKEND_CUDA];
}

/* ---- Answers */

static void make_found(kiln__text *answer, kiln_origin origin)
{
    kiln__text_fini(answer);
    kiln__frame_begin(answer, KILN__DAEMON_FOUND);
    kiln__frame_put_u32(answer, KILN__DAEMON_TAG_ORIGIN, (uint32_t)origin);
}

static void count_found(kiln__connection *connection, const kiln__blob *blob, kiln_origin origin, uint64_t compile_ns)
{
    const kiln__section *spec = kiln__entry_find(&blob->entry, "spec");
    kiln__figures_found(&connection->server->figures, blob->entry.key.digest, spec != NULL ? spec->data : "", origin,
                        kiln__cpu_now_ns() - connection->asked_ns, compile_ns);
}

bool kiln__flight_answer_at_once(kiln__connection *connection, const kiln__key *key)
{
    kiln__server *server = connection->server;
    kiln__tiers at_hand;
    kiln__tiers_borrow_at_hand(&at_hand, &server->epoch->service->tiers);
    kiln__blob *blob = key->toolchain[0] != '\0' ? kiln__tiers_get(&at_hand, key, NULL, NULL) : NULL;
    if (blob == NULL || !kiln__disk_store_has(server->epoch->service->disk, key)) {
        kiln__blob_release(blob);
        return false;
    }
    make_found(&server->answer, KILN_ORIGIN_MEMORY);
    count_found(connection, blob, KILN_ORIGIN_MEMORY, 0);
    kiln__blob_release(blob);
    kiln__connection_answer(connection);
    return true;
}

static void make_answer(const kiln__flown *flown)
{
    kiln__text *answer = &flown->server->answer;
    if (flown->found) {
        make_found(answer, flown->origin);
        return;
    }
    kiln__text_fini(answer);
    kiln__frame_begin(answer, flown->status == KILN_OK ? KILN__DAEMON_ABSENT : KILN__DAEMON_FAILED);
}

/* ---- The pool's part */

/* Puts an entry on disk, where hosts look: memory may have it longer, and packs are not the hosts'. False: the disk
 * does not take it. */
static bool put_on_disk(kiln_service *service, kiln__blob *blob)
{
    if (!kiln__disk_store_has(service->disk, &blob->entry.key))
        service->disk->vtable->put(service->disk, blob, false);
    return kiln__disk_store_has(service->disk, &blob->entry.key);
}

static void find(kiln__flown *flown, const kiln__key *key)
{
    kiln_service *service = flown->epoch->service;
    size_t tier = 0;
    flown->blob = kiln__tiers_get(&service->tiers, key, &tier, NULL);
    flown->found = flown->blob != NULL && put_on_disk(service, flown->blob);
    flown->origin = flown->found ? service->origins[tier] : KILN_ORIGIN_COMPILED;
}

static void build(kiln__flown *flown, const kiln__frame *frame)
{
    kiln__unit unit;
    kiln__built built = { 0 };
    flown->status = KILN_EINVAL;
    if (kiln__daemon_get_unit(frame, &unit))
        flown->status = kiln__builder_build(builder_of(flown->epoch), &unit, false, &built, &flown->report);
    kiln__unit_fini_source(&unit);
    if (flown->status == KILN_OK) {
        flown->origin = built.compiled ? KILN_ORIGIN_COMPILED : flown->epoch->service->origins[built.tier];
        flown->compile_ns = built.compiled ? built.compile_ns : 0;
        flown->blob = kiln__blob_retain(built.blob);
        flown->found = put_on_disk(flown->epoch->service, flown->blob);
        if (!flown->found)
            flown->status = kiln__fail(&flown->report, KILN_EIO, KILN__STAGE_STORE, 0, "the store does not take it");
    }
    kiln__built_fini(&built);
}

static void run(kiln__job *job, bool stopped)
{
    kiln__flown *flown = (kiln__flown *)((char *)job - offsetof(kiln__flown, job));
    kiln__server *server = flown->server;
    kiln__frame frame;
    kiln__key key;
    kiln__frame_decode(&frame, flown->request.data, flown->request.length);
    if (stopped)
        flown->status = kiln__fail(&flown->report, KILN_ENOCOMPILER, KILN__STAGE_COMPILE, 0, "the daemon is ending");
    else if (frame.type == KILN__DAEMON_FIND && kiln__daemon_get_key(&frame, &key))
        find(flown, &key);
    else
        build(flown, &frame);
    pthread_mutex_lock(&server->done_lock);
    flown->next_done = server->done;
    server->done = flown;
    uv_async_send(&server->landed); /* under the lock: the loop ends once it has the last flight */
    pthread_mutex_unlock(&server->done_lock);
}

/* ---- The loop's part */

static void free_flight(kiln__flown *flown)
{
    kiln__epoch_release(flown->epoch);
    kiln__blob_release(flown->blob);
    kiln_report_clear(&flown->report);
    kiln__text_fini(&flown->request);
    kiln__free(flown);
}

static kiln__flown *take_off(kiln__server *server, const uint8_t *id, kiln__lane lane, const void *request,
                             size_t length)
{
    kiln__flown *flown = kiln__calloc(1, sizeof(*flown));
    bool added = false;
    if (flown == NULL)
        return NULL;
    *flown = (kiln__flown){ .server = server, .epoch = server->epoch, .report = KILN_INIT(kiln_report) };
    flown->job = (kiln__job){ .run = run, .lane = lane };
    flown->epoch->users++;
    memcpy(flown->id, id, sizeof(flown->id));
    kiln__text_append_bytes(&flown->request, request, length);
    if (!flown->request.failed)
        KILN__TABLE_ADD(server->flights, flown->id, sizeof(flown->id), flown, added);
    if (added && kiln__workpool_submit(&flown->epoch->service->pool, &flown->job))
        return flown;
    if (added)
        HASH_DEL(server->flights, flown);
    free_flight(flown);
    return NULL;
}

bool kiln__flight_board(kiln__connection *connection, kiln__lane lane, const void *request, size_t length)
{
    kiln__server *server = connection->server;
    uint8_t id[KILN__DIGEST_SIZE];
    kiln__flown *flown;
    kiln__digest(id, request, length);
    id[0] ^= (uint8_t)server->figures.reloads; /* a flight with an earlier service is another one */
    HASH_FIND(hh, server->flights, id, sizeof(id), flown);
    if (flown == NULL)
        flown = take_off(server, id, lane, request, length);
    if (flown == NULL)
        return false;
    connection->on = flown;
    DL_APPEND2(flown->waiting, connection, prev_waiting, next_waiting);
    return true;
}

void kiln__flight_leave(kiln__connection *connection)
{
    if (connection->on != NULL)
        DL_DELETE2(connection->on->waiting, connection, prev_waiting, next_waiting);
    connection->on = NULL;
}

static void answer_all(kiln__flown *flown)
{
    kiln__figures *figures = &flown->server->figures;
    kiln__connection *connection;
    uint64_t compile_ns = flown->compile_ns;
    while ((connection = flown->waiting) != NULL) {
        kiln__flight_leave(connection);
        make_answer(flown); /* the one before may have been for a request behind this one */
        if (flown->found)
            count_found(connection, flown->blob, flown->origin, compile_ns);
        else
            ++*(flown->status == KILN_OK ? &figures->absent : &figures->failed);
        if (flown->origin == KILN_ORIGIN_COMPILED) /* one compiles, and the others have it from memory */
            flown->origin = KILN_ORIGIN_MEMORY;
        compile_ns = 0;
        kiln__connection_answer(connection);
        kiln__connection_go_on(connection);
    }
}

void kiln__flights_landed(uv_async_t *async)
{
    kiln__server *server = async->data;
    pthread_mutex_lock(&server->done_lock);
    kiln__flown *flown = server->done, *next;
    server->done = NULL;
    pthread_mutex_unlock(&server->done_lock);
    server->now_ns = kiln__cpu_now_ns();
    for (; flown != NULL; flown = next) {
        next = flown->next_done;
        HASH_DEL(server->flights, flown);
        if (flown->status != KILN_OK)
            kiln__log_line(&server->log, KILN_LOG_WARN, "a kernel is left to its hosts: %s", flown->report.message);
        answer_all(flown);
        free_flight(flown);
    }
}
