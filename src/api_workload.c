/* The public functions about arguments of a template's own. */
#include "api_structs.h"
#include "os/cancel.h"
#include "tune/stage.h"
#include <kiln/define.h>

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0, "%s", what);
}

const char *kiln_spec_size(const kiln_spec *spec, uint32_t index)
{
    return spec != NULL && index < spec->template->arguments.size_count ? spec->template->arguments.sizes[index] : NULL;
}

kiln_status kiln_spec_arg(const kiln_spec *spec, uint32_t index, kiln_arg_info *out)
{
    if (spec == NULL || out == NULL)
        return KILN_EINVAL;
    if (index >= spec->template->arguments.arg_count)
        return KILN_ENOENT;
    const kiln__arg *arg = &spec->template->arguments.args[index];
    kiln__dtype dtype = spec->dtype != KILN__DTYPE_UNSET ? spec->dtype : kiln__template_dtype(spec->template);
    kiln__arg_type type = arg->type != KILN__ARG_DTYPE ? arg->type : kiln__arg_type_of(dtype);
    kiln_arg_info full = { .size = sizeof(full),
                           .name = arg->name,
                           .role = (kiln_arg_role)(arg->role + 1),
                           .type = kiln__arg_type_name(type),
                           .bytes = kiln__arg_type_bytes(type),
                           .dims = arg->dims };
    for (uint32_t i = 0; i < arg->dims; i++)
        full.shape[i] = arg->formulas[i];
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_workload_make(kiln_workload **out, kiln_service *service, kiln_kernel *kernel, const uint64_t *sizes,
                               size_t size_count, const kiln_arg *args, size_t arg_count, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (out == NULL || service == NULL || kernel == NULL)
        return refuse(report, "out, service and kernel must not be NULL");
    const kiln__given given = { .sizes = sizes, .size_count = size_count, .args = args, .arg_count = arg_count };
    return kiln__stage_make(out, service, kernel, &given, report);
}

void kiln_workload_free(kiln_workload *workload)
{
    KILN__NO_CANCEL;
    kiln__stage_free(workload);
}

kiln_status kiln_workload_get_info(const kiln_workload *workload, kiln_workload_info *out)
{
    if (workload == NULL || out == NULL)
        return KILN_EINVAL;
    const kiln__workload *load = &workload->arrays.load;
    const kiln_workload_info full = { .size = sizeof(full),
                                      .elements = load->elements,
                                      .bytes = load->bytes,
                                      .args = workload->args,
                                      .arg_count = load->arg_count,
                                      .sizes = load->sizes,
                                      .size_count = load->size_count };
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_workload_reset(kiln_workload *workload, kiln_report *report)
{
    KILN__NO_CANCEL;
    return workload != NULL ? kiln__arrays_poison(&workload->arrays, 0, KILN__FILL_POISON, report)
                            : refuse(report, "workload must not be NULL");
}

kiln_status kiln_workload_check(kiln_workload *workload, const char **against, kiln_report *report)
{
    KILN__NO_CANCEL;
    const char *ignored;
    return workload != NULL ? kiln__stage_check(workload, against != NULL ? against : &ignored, report)
                            : refuse(report, "workload must not be NULL");
}
