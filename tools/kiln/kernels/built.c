/* Builds programs, and looks into them. */
#include "kernels/built.h"

static kiln_request make_request(const kiln_spec *spec, const kiln_source *source, kiln_switch strict)
{
    kiln_request request = KILN_INIT(kiln_request);
    request.spec = spec;
    request.source = source;
    request.strict = strict;
    request.goal = KILN_BUILD;
    return request;
}

static kiln_status build_request(kiln_program **out, kiln_service *service, const kiln_spec *spec,
                                 const kiln_source *source, kiln_switch strict, kiln_report *report)
{
    const kiln_request request = make_request(spec, source, strict);
    return kiln_get(out, service, &request, report);
}

kiln_status build_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec, kiln_report *report)
{
    return build_request(out, service, spec, NULL, KILN_DEFAULT, report);
}

kiln_status build_source(kiln_program **out, kiln_service *service, const kiln_source *source, kiln_report *report)
{
    return build_request(out, service, NULL, source, KILN_DEFAULT, report);
}

kiln_status find_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec, kiln_report *report)
{
    return build_request(out, service, spec, NULL, KILN_ON, report);
}

const char *built_log(const kiln_program *program, const kiln_report *report)
{
    size_t length = 0;
    const char *said = built_section(&length, program, "log"), *told = report->log ? report->log : "";
    bool compiled = built_info(program).origin == KILN_ORIGIN_COMPILED;
    return need_format("%s%s", told, said && !compiled ? said : "");
}

bool built_is_kept(built_tally *sum, kiln_service *service, const kiln_spec *spec, const kiln_source *source,
                   kiln_origin origin)
{
    const kiln_request request = make_request(spec, source, KILN_DEFAULT);
    kiln_report report = KILN_INIT(kiln_report);
    bool kept = kiln_kept(service, &request, &report) == KILN_OK;
    sum->compiled += origin == KILN_ORIGIN_COMPILED;
    sum->kept += kept;
    sum->lost += !kept;
    if (!kept && !sum->reason)
        sum->reason = need_copy(report.message);
    kiln_report_clear(&report);
    return kept;
}

int built_end(const built_tally *sum)
{
    if (sum->lost == 0)
        return STATUS_DONE;
    return fail(STATUS_FAILED, "%zu compiled, %zu not kept: %s", sum->compiled, sum->lost, sum->reason);
}

kiln_program_info built_info(const kiln_program *program)
{
    kiln_program_info info = KILN_INIT(kiln_program_info);
    if (kiln_program_get_info(program, &info) != KILN_OK)
        out_of_memory();
    return info;
}

kiln_kernel_info kernel_info(const kiln_kernel *kernel)
{
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    if (kiln_kernel_get_info(kernel, &info) != KILN_OK)
        out_of_memory();
    return info;
}

const void *built_section(size_t *length, const kiln_program *program, const char *name)
{
    const void *data = NULL;
    *length = 0;
    return kiln_program_section(&data, length, program, name) == KILN_OK ? data : NULL;
}
