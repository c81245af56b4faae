/* The public functions of <kiln/tensor.h>. */
#include "api/structs.h"
#include "service/service.h"

kiln_status kiln_apply(kiln_service *service, const char *text, const kiln_tensor *outs, size_t out_count,
                       const kiln_tensor *ins, size_t in_count, const double *scalars, size_t scalar_count,
                       void *stream, kiln_report *report)
{
    KILN__BEGIN(report, KILN__STAGE_LAUNCH, service,
                service != NULL && text != NULL && outs != NULL && (ins != NULL || in_count == 0) &&
                    (scalars != NULL || scalar_count == 0),
                "service, text, outs, ins and scalars must not be NULL");
    return kiln__apply(service, text, outs, out_count, ins, in_count, scalars, scalar_count, stream, report);
}

kiln_status kiln_apply_request(kiln_spec **spec, kiln_request *request, kiln_service *service, const char *text,
                               const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins, size_t in_count,
                               kiln_report *report)
{
    KILN__NO_CANCEL;
    KILN__BEGIN_OUT(spec, report, KILN__STAGE_SPEC, service,
                    request != NULL && service != NULL && text != NULL && outs != NULL &&
                        (ins != NULL || in_count == 0),
                    "request, service, text, outs and ins must not be NULL");
    kiln_request full = KILN_INIT(kiln_request);
    kiln_status status = kiln__apply_spec(spec, &full.device, service, text, outs, out_count, ins, in_count, report);
    full.spec = *spec;
    if (status == KILN_OK && kiln__hand_out(request, &full, sizeof(full)) != KILN_OK) {
        kiln__spec_release(*spec);
        *spec = NULL;
        status = kiln__fail(report, KILN_EINVAL, KILN__STAGE_SPEC, 0, "kiln_request has no size: use KILN_INIT");
    }
    return status;
}
