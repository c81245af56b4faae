/* The public functions of live handles. */
#include "api_structs.h"
#include "os/cancel.h"
#include "tune/live.h"

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0, "%s", what);
}

const char *kiln_live_state_name(kiln_live_state state)
{
    switch (state) {
    case KILN_LIVE_PENDING:
        return "pending";
    case KILN_LIVE_READY:
        return "ready";
    case KILN_LIVE_EXACT:
        return "exact";
    case KILN_LIVE_TUNING:
        return "tuning";
    case KILN_LIVE_SETTLED:
        return "settled";
    case KILN_LIVE_FAILED:
        return "failed";
    }
    return "unknown";
}

kiln_status kiln_live_open(kiln_live **out, kiln_service *service, const kiln_spec *spec,
                           const kiln_live_options *options, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln_live_options full = KILN_LIVE_OPTIONS_INIT;
    kiln_tune_options tuning;
    if (out == NULL || service == NULL || spec == NULL)
        return refuse(report, "out, service and spec must not be NULL");
    *out = NULL;
    if (kiln__take_in(&full, sizeof(full), options) != KILN_OK)
        return refuse(report, "kiln_live_options.size is not set: initialise the struct with KILN_LIVE_OPTIONS_INIT");
    kiln_status status = full.tune != NULL ? kiln__take_tune_options(&tuning, full.tune, report) : KILN_OK;
    if (status != KILN_OK)
        return status;
    return kiln__live_open(out, service, spec, &full, full.tune != NULL ? &tuning : NULL, report);
}

kiln_status kiln_live_launch(kiln_live *live, uint64_t n, void *out, const void *const *in, void *stream,
                             kiln_report *report)
{
    if (live == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "live must not be NULL");
    return kiln__live_launch(live, n, out, in, stream, report);
}

kiln_kernel *kiln_live_kernel(kiln_live *live)
{
    return live != NULL ? kiln__kernel_retain(atomic_load_explicit(&live->now, memory_order_acquire)) : NULL;
}

kiln_status kiln_live_get_info(kiln_live *live, kiln_live_info *out)
{
    KILN__NO_CANCEL;
    kiln_live_info full;
    if (live == NULL || out == NULL)
        return KILN_EINVAL;
    kiln__live_info(live, &full);
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_live_wait(kiln_live *live, kiln_live_state state, int timeout_ms, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (live == NULL)
        return refuse(report, "live must not be NULL");
    if (state < KILN_LIVE_PENDING || state > KILN_LIVE_SETTLED)
        return refuse(report, "no state to wait for: expected one from KILN_LIVE_PENDING to KILN_LIVE_SETTLED");
    return kiln__live_wait(live, state, timeout_ms, report);
}

void kiln_live_close(kiln_live *live)
{
    KILN__NO_CANCEL;
    kiln__live_close(live);
}
