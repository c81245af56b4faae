/* The public functions of <kiln/source.h>: argument checks, then one call down. */
#include "api_structs.h"
#include "service/program.h"

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0, "%s", what);
}

static kiln_status take_source(kiln_source *full, const kiln_source *source, kiln_report *report)
{
    if (kiln__take_in(full, sizeof(*full), source) != KILN_OK)
        return refuse(report, "kiln_source.size is not set: initialise the struct with KILN_SOURCE_INIT");
    return KILN_OK;
}

kiln_status kiln_program_build(kiln_artifact **out, kiln_service *service, const kiln_source *source,
                               kiln_report *report)
{
    kiln_source full = KILN_SOURCE_INIT;
    if (out == NULL)
        return refuse(report, "out must not be NULL");
    *out = NULL;
    if (service == NULL || source == NULL)
        return refuse(report, "service and source must not be NULL");
    kiln_status status = take_source(&full, source, report);
    return status == KILN_OK ? kiln__program_build(service, &full, out, report) : status;
}

kiln_status kiln_artifact_symbol(const kiln_artifact *artifact, size_t index, kiln_symbol_info *out)
{
    kiln_symbol_info full = { .size = sizeof(full) };
    if (artifact == NULL || out == NULL)
        return KILN_EINVAL;
    kiln_status status = kiln__program_symbol(artifact, index, &full);
    return status == KILN_OK ? kiln__hand_out(out, &full, sizeof(full)) : status;
}
