/* Builds programs, and looks into them. */
#include "kernels/built.h"

#include <string.h>

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

/* The next argument that no formula gives, NULL at the end. *at is the index behind it. */
static const kiln_param *next_argument(const kiln_signature *signature, uint32_t *at)
{
    while (*at < signature->param_count) {
        const kiln_param *param = signature->params[(*at)++];
        if (param->role != KILN_ROLE_FORMULA)
            return param;
    }
    return NULL;
}

static bool same_shape(const kiln_signature *a, uint32_t i, const kiln_signature *b, uint32_t k, const uint64_t *sizes)
{
    uint64_t mine[KILN_DIMS_MAX], theirs[KILN_DIMS_MAX];
    return kiln_signature_shape(mine, a, i, sizes, a->size_count, NULL) == KILN_OK &&
           kiln_signature_shape(theirs, b, k, sizes, b->size_count, NULL) == KILN_OK &&
           memcmp(mine, theirs, sizeof(mine)) == 0;
}

bool kernels_take_the_same(const kiln_kernel *a, const kiln_kernel *b, const uint64_t *sizes)
{
    kiln_kernel_info mine = kernel_info(a), theirs = kernel_info(b);
    const kiln_signature *here = mine.signature, *there = theirs.signature;
    uint32_t i = 0, k = 0;
    if (strcmp(mine.device, theirs.device) != 0 || here->size_count != there->size_count)
        return false;
    for (size_t s = 0; s < here->size_count && here->size_count > 1; s++)
        if (strcmp(here->sizes[s], there->sizes[s]) != 0)
            return false;
    for (;;) {
        const kiln_param *one = next_argument(here, &i), *other = next_argument(there, &k);
        if (!one || !other)
            return one == other;
        if (one->role != other->role || strcmp(one->type, other->type) != 0 || one->dims != other->dims ||
            (one->dims > 0 && !same_shape(here, i - 1, there, k - 1, sizes)))
            return false;
    }
}
