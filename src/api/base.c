/* The public functions of <kiln/base.h> that need a service: base/report.c has the others. */
#include "api/structs.h"
#include "base/alloc.h"
#include "service/service.h"

kiln_status kiln_open(kiln_service **out, const kiln_options *options, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    KILN__REQUIRE_OUT(report, KILN__STAGE_OPEN, out);
    kiln_options full = KILN_INIT(kiln_options);
    kiln_status status = kiln__take_in(&full, sizeof(full), options, "kiln_options", KILN__STAGE_OPEN, report);
    return status == KILN_OK ? kiln__service_open(out, &full, report) : status;
}

void kiln_close(kiln_service *service)
{
    KILN__NO_CANCEL;
    if (service != NULL && !kiln__is_forked(service->generation))
        kiln__service_close(service);
}

kiln_status kiln_stats_get(const kiln_service *service, kiln_stats *out)
{
    kiln_stats full = KILN_INIT(kiln_stats);
    if (service == NULL || out == NULL)
        return KILN_EINVAL;
    kiln__service_stats(service, &full);
    return kiln__hand_out(out, &full, sizeof(full));
}

void kiln_text_free(char *text)
{
    kiln__free(text);
}
