/* The parts that a tuning and a sweep share. */
#include "tune/session.h"

#include "base/alloc.h"
#include "os/cpu.h"
#include <time.h>

#define PAUSE_S 0.05 /* between two calls of the host */

enum { TURN_POLL_NS = 5000000 };

kiln_status kiln__session_open(kiln__session *session, const kiln__fields *spec)
{
    const kiln_work *work = session->work;
    session->start = kiln__cpu_now_ns();
    session->tuning = kiln__calloc(1, sizeof(*session->tuning));
    if (session->tuning == NULL)
        return kiln__fail_memory(session->report, KILN__STAGE_DEVICE);
    kiln_status status = kiln__service_check_device(session->service, work->device, session->report);
    if (status != KILN_OK)
        return status;
    return kiln__service_find_device(session->service, work->device, spec, &session->device, session->report);
}

kiln_status kiln__session_prepare(kiln__session *session, const kiln__fields *spec, const kiln__fields *full,
                                  size_t variants)
{
    kiln_tuning *tuning = session->tuning;
    kiln_work work = *session->work;
    if (work.elements == 0 && work.size_count == 0 && kiln__arguments_flat(&spec->template->arguments))
        work.elements = spec->n_set && spec->n > 0 ? spec->n : session->device->backend->vtable->usual_elements;
    kiln_status status = kiln__load_of_spec(&session->load, full, &work, session->report);
    if (status != KILN_OK)
        return status;
    kiln__text_copy(tuning->device, sizeof(tuning->device), session->device->name);
    tuning->info = (kiln_tuning_info){ .size = sizeof(tuning->info),
                                       .device = tuning->device,
                                       .elements = session->load.elements,
                                       .bytes = session->load.bytes,
                                       .variants = variants,
                                       .regret = -1,
                                       .end = "",
                                       .wisdom = "",
                                       .not_learnt = "",
                                       .verified_by = "" };
    return KILN_OK;
}

/* The waiting does not count towards the seconds of the info. A mutex would not let a thread give up that has waited
 * for half a minute. */
bool kiln__session_take_turn(kiln__session *session)
{
    const struct timespec wait = { 0, TURN_POLL_NS };
    while (atomic_exchange(&session->device->tuning, true)) {
        session->start = kiln__cpu_now_ns();
        kiln__session_tell(session);
        if (atomic_load(&session->stop))
            return false;
        nanosleep(&wait, NULL);
    }
    session->start = kiln__cpu_now_ns();
    return true;
}

void kiln__session_end_turn(kiln__session *session)
{
    kiln__contest_fini(&session->contest);
    atomic_store(&session->device->tuning, false);
}

static void update_info(kiln__session *session)
{
    kiln__contest_count(&session->contest, &session->tuning->info);
    session->tuning->info.seconds = (double)(kiln__cpu_now_ns() - session->start) / 1e9;
}

void kiln__session_tell(kiln__session *session)
{
    uint64_t now = kiln__cpu_now_ns();
    if (session->progress == NULL || (double)(now - session->told) / 1e9 < PAUSE_S)
        return;
    session->told = now;
    update_info(session);
    if (session->progress(session->data, &session->tuning->info) != 0)
        atomic_store(&session->stop, true);
}

/* A variant that is not out has no problem, whatever its verdict. */
kiln_status kiln__session_rank(kiln__session *session, const kiln__ranked *ranking, size_t count)
{
    static const char *const names[] = {
        [KILN_VERDICT_UNMEASURED] = "unmeasured", [KILN_VERDICT_WINNER] = "winner", [KILN_VERDICT_TIED] = "tied",
        [KILN_VERDICT_GIVEN_UP] = "given up",     [KILN_VERDICT_SLOWER] = "slower", [KILN_VERDICT_REJECTED] = "rejected"
    };
    kiln_tuning *tuning = session->tuning;
    tuning->table = kiln__calloc(count, sizeof(*tuning->table));
    tuning->results = kiln__calloc(count, sizeof(*tuning->results));
    bool whole = tuning->table != NULL && tuning->results != NULL;
    tuning->count = whole ? count : 0;
    for (size_t i = 0; i < tuning->count; i++) {
        const kiln__variant *variant = &session->contest.variants[ranking[i].variant];
        kiln_variant_result *result = &tuning->table[i];
        *result = ranking[i].result;
        result->size = sizeof(*result);
        result->verdict_name = names[result->verdict];
        result->spec = kiln__strdup(variant->text);
        result->problem = kiln__strdup(variant->state == KILN__OUT ? variant->problem : "");
        result->registers = variant->registers;
        result->local_bytes = variant->local_bytes;
        tuning->results[i] = result;
        whole = whole && result->spec != NULL && result->problem != NULL;
    }
    update_info(session);
    tuning->info.results = tuning->results;
    tuning->info.result_count = tuning->count;
    return whole ? KILN_OK : kiln__fail_memory(session->report, KILN__STAGE_DEVICE);
}

kiln_status kiln__session_close(kiln__session *session, kiln_status status, kiln_tuning **out)
{
    if (status == KILN_OK)
        *out = session->tuning;
    else
        kiln__tuning_free(session->tuning);
    return status;
}

void kiln__tuning_free(kiln_tuning *tuning)
{
    if (tuning == NULL)
        return;
    for (size_t i = 0; i < tuning->count; i++) {
        kiln__free((char *)(uintptr_t)tuning->table[i].spec);
        kiln__free((char *)(uintptr_t)tuning->table[i].problem);
    }
    kiln__free(tuning->table);
    kiln__free(tuning->results);
    kiln__free(tuning->wisdom);
    kiln__free(tuning);
}
