/* The public functions of live handles. */
#include "tune/live.h"
#include "api/structs.h"
#include "os/cancel.h"
#include "os/fork.h"

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0, "%s", what);
}

/* The host's tuning options, complete. Trying, skip and suspect are of the host's own thread and its memory. */
static kiln_status take_tuning(kiln_tune_options *full, kiln_work *work, const kiln_tune_options *options,
                               kiln_report *report)
{
    kiln_status status = kiln__take_tune_options(full, work, options, report);
    if (status == KILN_OK &&
        (full->trying != NULL || full->skip != NULL || full->skip_count > 0 || full->suspect != NULL))
        return refuse(report, "kiln_live_options.tune: trying, skip and suspect must not be set for a live handle");
    return status;
}

kiln_status kiln_live_open(kiln_live **out, kiln_service *service, const kiln_spec *spec,
                           const kiln_live_options *options, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_live_options full = KILN_INIT(kiln_live_options);
    kiln_tune_options tuning;
    kiln_work work;
    if (out == NULL || service == NULL || spec == NULL)
        return refuse(report, "out, service and spec must not be NULL");
    *out = NULL;
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    kiln_status status = kiln__take_in(&full, sizeof(full), options, "kiln_live_options", KILN__STAGE_DEVICE, report);
    if (status == KILN_OK && full.tune != NULL)
        status = take_tuning(&tuning, &work, full.tune, report);
    if (status != KILN_OK)
        return status;
    return kiln__live_open(out, service, spec, &full, full.tune != NULL ? &tuning : NULL, report);
}

kiln_kernel *kiln_live_kernel(const kiln_live *live)
{
    return live != NULL ? atomic_load_explicit(&live->now, memory_order_acquire) : NULL;
}

kiln_status kiln_live_get_info(const kiln_live *live, kiln_live_info *out)
{
    KILN__NO_CANCEL;
    kiln_live_info full;
    if (live == NULL || out == NULL)
        return KILN_EINVAL;
    if (kiln__is_forked(live->generation))
        return KILN_EFORKED;
    kiln__live_info((kiln_live *)(uintptr_t)live, &full); /* only the lock changes */
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_live_wait(kiln_live *live, kiln_live_state state, int timeout_ms, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (live == NULL)
        return refuse(report, "live must not be NULL");
    if ((unsigned)state > KILN_LIVE_SETTLED)
        return refuse(report, "no state to wait for: expected one from KILN_LIVE_PENDING to KILN_LIVE_SETTLED");
    if (kiln__is_forked(live->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    return kiln__live_wait(live, state, timeout_ms, report);
}

void kiln_live_close(kiln_live *live)
{
    KILN__NO_CANCEL;
    if (live != NULL && !kiln__is_forked(live->generation))
        kiln__live_close(live);
}
