#include "service/share.h"

#include "base/alloc.h"
#include "os/cpu.h"
#include "store/remote.h"
#include <errno.h>
#include <string.h>

#define FAIL(report, status, ...) kiln__fail(report, status, KILN__STAGE_STORE, 0, __VA_ARGS__)

enum { WAIT_MS = 10000, PAUSE_MS = 50 };

static kiln_status need(const kiln_service *service, kiln_report *report)
{
    const kiln_status status = kiln__service_need_remote(service, report);
    return status == KILN_OK ? kiln__service_need_disk(service, report) : status;
}

static kiln_status fail_remote(const kiln_service *service, int error, kiln_report *report)
{
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_STORE);
    if (error == -EROFS)
        return FAIL(report, KILN_ENOENT,
                    "there is no secret to sign wisdom with: name a file of one in KILN_REMOTE_SECRET");
    return FAIL(report, KILN_EIO, "wisdom on the remote %s: %s", service->tiers.remote->path,
                error == -EKEYREJECTED ? "it is not signed with a secret of this machine"
                                       : kiln__remote_error_text(error));
}

/* The records of the remote; none where it has no value. */
static kiln_status read_remote(kiln_service *service, kiln__wisdom_set *out, kiln_report *report)
{
    void *text = NULL;
    size_t length = 0;
    char problem[KILN__WISDOM_REASON];
    kiln_status status = KILN_OK;
    const int error = kiln__remote_read(service->tiers.remote, KILN__WISDOM_REMOTE, &text, &length);
    if (error == -ENOENT)
        return KILN_OK;
    if (error != 0)
        return fail_remote(service, error, report);
    const kiln__wisdom_fault fault = kiln__wisdom_read(out, text, length, problem);
    if (fault == KILN__WISDOM_OUT_OF_MEMORY)
        status = kiln__fail_memory(report, KILN__STAGE_STORE);
    else if (fault != KILN__WISDOM_GOOD)
        status = FAIL(report, KILN_EIO, "wisdom on the remote %s: %s", service->tiers.remote->path, problem);
    kiln__free(text);
    return status;
}

/* Gathers the user's own records. */
typedef struct gatherer {
    kiln__wisdom_set set;
    bool failed;
} gatherer;

static int gather(void *data, const kiln__wisdom_item *item)
{
    gatherer *self = data;
    self->failed =
        item->source == KILN__WISDOM_OWN && kiln__wisdom_set_add(&self->set, item->record) == KILN__WISDOM_NO_MEMORY;
    return self->failed;
}

static kiln_status read_own(kiln_service *service, kiln__wisdom_set *out, kiln_report *report)
{
    gatherer self = { .failed = false };
    const bool visited = kiln__wisdom_visit(service->wisdom, gather, &self) == KILN_OK;
    *out = self.set;
    return visited && !self.failed ? KILN_OK : kiln__fail_memory(report, KILN__STAGE_STORE);
}

/* Adds to `into` those records of `from` that are better, and to `news` copies of them. */
static kiln_status add_best(kiln__wisdom_set *into, const kiln__wisdom_set *from, kiln__wisdom_set *news,
                            kiln__wisdom_counts *counts, kiln_report *report)
{
    for (size_t i = 0; i < from->count; i++) {
        const kiln__wisdom_fate fate = kiln__wisdom_set_add_best(into, from->records[i]);
        const bool taken = fate == KILN__WISDOM_ADDED || fate == KILN__WISDOM_REPLACED;
        counts->added += fate == KILN__WISDOM_ADDED;
        counts->replaced += fate == KILN__WISDOM_REPLACED;
        counts->equal += fate == KILN__WISDOM_EQUAL;
        counts->older_kept += fate == KILN__WISDOM_OLDER_KEPT;
        if (fate == KILN__WISDOM_FULL)
            return FAIL(report, KILN_EIO, "there are more than %d records", KILN__WISDOM_RECORDS_MAX);
        if (fate == KILN__WISDOM_NO_MEMORY ||
            (taken && kiln__wisdom_set_add(news, from->records[i]) == KILN__WISDOM_NO_MEMORY))
            return kiln__fail_memory(report, KILN__STAGE_STORE);
    }
    return KILN_OK;
}

kiln_status kiln__share_pull(kiln_service *service, kiln__wisdom_counts *out, kiln_report *report)
{
    kiln__wisdom_set theirs = { 0 }, own = { 0 }, news = { 0 };
    kiln__wisdom_outcome outcome;
    kiln_status status = need(service, report);
    memset(out, 0, sizeof(*out));
    if (status == KILN_OK)
        status = read_remote(service, &theirs, report);
    if (status == KILN_OK)
        status = read_own(service, &own, report);
    if (status == KILN_OK)
        status = add_best(&own, &theirs, &news, out, report);
    if (status == KILN_OK && news.count > 0) {
        status = kiln__wisdom_add_set(service->wisdom, &news, &outcome, report);
        if (status == KILN_OK && !outcome.stored)
            status = FAIL(report, KILN_EIO, "wisdom in %s cannot be stored: %s", service->cache_dir, outcome.problem);
    }
    kiln__wisdom_set_fini(&theirs);
    kiln__wisdom_set_fini(&own);
    kiln__wisdom_set_fini(&news);
    return status;
}

/* Waits for other machines that write. A server without leases lets the last one win, which may push again some time.
 * 0: it is this machine's turn; -EBUSY, -ENOTSUP, -EPERM, -EROFS: there are no turns; else the trouble. */
static int take_turn(kiln__store *remote, const uint8_t digest[KILN__DIGEST_SIZE])
{
    const uint64_t until = kiln__cpu_now_ns() + WAIT_MS * (uint64_t)1000000;
    int result;
    while ((result = kiln__remote_lease(remote, digest)) == -EBUSY && kiln__cpu_now_ns() < until)
        kiln__cpu_sleep_ms(PAUSE_MS);
    return result;
}

kiln_status kiln__share_push(kiln_service *service, kiln__wisdom_counts *out, kiln_report *report)
{
    kiln__wisdom_set theirs = { 0 }, own = { 0 }, news = { 0 };
    kiln__text text = { 0 };
    uint8_t digest[KILN__DIGEST_SIZE];
    int turn = -EBUSY;
    kiln_status status = need(service, report);
    memset(out, 0, sizeof(*out));
    if (status == KILN_OK)
        status = read_own(service, &own, report);
    if (status == KILN_OK) {
        kiln__digest(digest, KILN__WISDOM_REMOTE, strlen(KILN__WISDOM_REMOTE));
        turn = take_turn(service->tiers.remote, digest);
        const bool goes_on = turn == 0 || turn == -EBUSY || turn == -ENOTSUP || turn == -EPERM || turn == -EROFS;
        status = goes_on ? read_remote(service, &theirs, report) : fail_remote(service, turn, report);
    }
    if (status == KILN_OK)
        status = add_best(&theirs, &own, &news, out, report);
    if (status == KILN_OK && news.count > 0) {
        kiln__wisdom_write(&theirs, &text);
        const int error = text.failed
                              ? -ENOMEM
                              : kiln__remote_write(service->tiers.remote, KILN__WISDOM_REMOTE, text.data, text.length);
        if (error != 0)
            status = fail_remote(service, error, report);
    }
    if (turn == 0)
        kiln__remote_give(service->tiers.remote, digest);
    kiln__text_fini(&text);
    kiln__wisdom_set_fini(&theirs);
    kiln__wisdom_set_fini(&own);
    kiln__wisdom_set_fini(&news);
    return status;
}
