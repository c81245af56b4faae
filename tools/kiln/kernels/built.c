#include "kernels/built.h"

#include "cli/common.h"

static kiln_status build(kiln_program **out, kiln_service *service, kiln_request request, kiln_report *report)
{
    request.goal = KILN_BUILD;
    return kiln_get(out, service, &request, report);
}

kiln_status build_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec, kiln_report *report)
{
    kiln_request request = KILN_INIT(kiln_request);
    request.spec = spec;
    return build(out, service, request, report);
}

kiln_status build_source(kiln_program **out, kiln_service *service, const kiln_source *source, kiln_report *report)
{
    kiln_request request = KILN_INIT(kiln_request);
    request.source = source;
    return build(out, service, request, report);
}

kiln_status find_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec, kiln_report *report)
{
    kiln_request request = KILN_INIT(kiln_request);
    request.spec = spec;
    request.strict = KILN_ON;
    return build(out, service, request, report);
}

kiln_program_info built_info(const kiln_program *program)
{
    kiln_program_info info = KILN_INIT(kiln_program_info);
    if (kiln_program_get_info(program, &info) != KILN_OK)
        out_of_memory();
    return info;
}
