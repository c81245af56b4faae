/* The public functions that define ops and templates, and those of kernels with arguments of their own: argument
 * checks, then one call down. */
#include "service/define.h"
#include "api/structs.h"
#include "os/cancel.h"
#include "os/fork.h"
#include "service/launch.h"
#include "spec/signature.h"

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_SPEC, 0, "%s", what);
}

kiln_status kiln_op_define(kiln_service *service, const char *definition, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (service == NULL || definition == NULL)
        return refuse(report, "service and definition must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_SPEC);
    return kiln__service_define_op(service, definition, report);
}

kiln_status kiln_template_define(kiln_service *service, const char *text, const char *cpu_text, const char **name,
                                 kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (name != NULL)
        *name = NULL;
    if (service == NULL || text == NULL)
        return refuse(report, "service and text must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_SPEC);
    return kiln__service_define_template(service, text, cpu_text, "defined", name, report);
}

kiln_status kiln_template_load(kiln_service *service, const char *path, const char **name, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (name != NULL)
        *name = NULL;
    if (service == NULL || path == NULL)
        return refuse(report, "service and path must not be NULL");
    if (kiln__is_forked(service->generation))
        return kiln__fail_forked(report, KILN__STAGE_SPEC);
    return kiln__service_load_template(service, path, name, report);
}

kiln_status kiln_signature_shape(uint64_t out[KILN_DIMS_MAX], const kiln_signature *signature, uint32_t index,
                                 const uint64_t *sizes, size_t size_count, kiln_report *report)
{
    if (out == NULL || signature == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "out and signature must not be NULL");
    return kiln__signature_shape(out, signature, index, sizes, size_count, report);
}
