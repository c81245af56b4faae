/* The public functions about wisdom. */
#include "service/wisdom.h"
#include "api/structs.h"
#include "os/cancel.h"
#include "os/fork.h"

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_STORE, 0, "%s", what);
}

kiln_status kiln_wisdom_visit(kiln_service *service, kiln_wisdom_fn fn, void *data)
{
    KILN__NO_CANCEL;
    if (service == NULL || fn == NULL)
        return KILN_EINVAL;
    if (kiln__is_forked(service->generation))
        return KILN_EFORKED;
    return kiln__service_wisdom_visit(service, fn, data);
}

kiln_status kiln_wisdom_explain(char **out, kiln_service *service, const kiln_spec *spec, const char *model,
                                kiln_wisdom_candidate_fn fn, void *data, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (out == NULL)
        return refuse(report, "out must not be NULL");
    *out = NULL;
    if (service == NULL || spec == NULL)
        return refuse(report, "service and spec must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_STORE);
    return kiln__service_wisdom_explain(service, &spec->fields, model, fn, data, out, report);
}

kiln_status kiln_wisdom_import(kiln_service *service, const char *const *paths, size_t count, kiln_wisdom_tally *out,
                               kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_wisdom_tally full = KILN_INIT(kiln_wisdom_tally);
    if (service == NULL || paths == NULL)
        return refuse(report, "service and paths must not be NULL");
    if (out != NULL && out->size < sizeof(out->size))
        return refuse(report, "kiln_wisdom_tally.size is not set");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_STORE);
    kiln_status status = kiln__service_wisdom_import(service, paths, count, &full, report);
    if (out != NULL)
        kiln__hand_out(out, &full, sizeof(full));
    return status;
}

kiln_status kiln_wisdom_export(char **out, kiln_service *service, kiln_wisdom_fn keep, void *data, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (out == NULL)
        return refuse(report, "out must not be NULL");
    *out = NULL;
    if (service == NULL)
        return refuse(report, "service must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_STORE);
    return kiln__service_wisdom_export(service, keep, data, out, report);
}
