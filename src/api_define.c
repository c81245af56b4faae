/* The public functions of <kiln/define.h>: argument checks, then one call down. */
#include <kiln/define.h>

#include "api_structs.h"
#include "os/cancel.h"
#include "service/define.h"
#include "service/kernel.h"
#include "template/reference.h"

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_SPEC, 0, "%s", what);
}

kiln_status kiln_op_define(kiln_service *service, const char *definition, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (service == NULL || definition == NULL)
        return refuse(report, "service and definition must not be NULL");
    return kiln__service_define_op(service, definition, report);
}

kiln_status kiln_template_define(kiln_service *service, const char *text, const char *cpu_text, const char **name,
                                 kiln_report *report)
{
    KILN__NO_CANCEL;
    if (name != NULL)
        *name = NULL;
    if (service == NULL || text == NULL)
        return refuse(report, "service and text must not be NULL");
    return kiln__service_define_template(service, text, cpu_text, "defined", name, report);
}

kiln_status kiln_template_load(kiln_service *service, const char *path, const char **name, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (name != NULL)
        *name = NULL;
    if (service == NULL || path == NULL)
        return refuse(report, "service and path must not be NULL");
    return kiln__service_load_template(service, path, name, report);
}

kiln_status kiln_reference_check(kiln_deviation *out, const kiln_spec *spec, uint64_t n, const void *results,
                                 const void *const *in, kiln_report *report)
{
    kiln__deviation found;
    if (out == NULL || spec == NULL || (n > 0 && (results == NULL || in == NULL)))
        return refuse(report, "out, spec and, where n is above 0, results and in must not be NULL");
    const kiln__op *op = kiln__reference_op(spec);
    if (op == NULL)
        return kiln__fail(report, KILN_ENOENT, KILN__STAGE_SPEC, 0, "the spec's op has no reference of its own");
    if (spec->dtype == KILN__DTYPE_UNSET)
        return refuse(report, "the spec must have a dtype");
    kiln__reference_compare(spec, n, results, in, &found);
    kiln_deviation full = { sizeof(full), op->ulps, found.worst, found.where };
    kiln_status status = kiln__hand_out(out, &full, sizeof(full));
    if (status == KILN_OK && found.worst > op->ulps)
        status =
            kiln__fail(report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0,
                       "element %llu is %.17g, %.3g ulp from the reference %.17g: the definition of %s allows %.3g",
                       (unsigned long long)found.where, found.got, found.worst, found.want, op->name, op->ulps);
    return status;
}

kiln_status kiln_launch_args(kiln_kernel *kernel, const uint64_t *sizes, size_t size_count, const kiln_arg *args,
                             size_t arg_count, void *stream, kiln_report *report)
{
    if (kernel == NULL || (sizes == NULL && size_count > 0) || (args == NULL && arg_count > 0))
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "kernel, sizes and args must not be NULL");
    return kiln__kernel_launch_args(kernel, sizes, size_count, args, arg_count, stream, report);
}

kiln_status kiln_kernel_arg(const kiln_kernel *kernel, uint32_t index, kiln_arg_info *out)
{
    if (kernel == NULL || out == NULL)
        return KILN_EINVAL;
    if (kernel->plan == NULL || index >= kernel->plan->arg_count)
        return KILN_ENOENT;
    const kiln__plan_arg *arg = &kernel->plan->args[index];
    kiln_arg_info full = { .size = sizeof(full),
                           .name = arg->name,
                           .role = (kiln_arg_role)(arg->role + 1),
                           .type = kiln__arg_type_name(arg->type),
                           .bytes = arg->bytes,
                           .dims = arg->dims };
    for (uint32_t i = 0; i < arg->dims; i++)
        full.shape[i] = kiln__plan_text(kernel->plan, arg->formulas[i]);
    return kiln__hand_out(out, &full, sizeof(full));
}

const char *kiln_kernel_size(const kiln_kernel *kernel, uint32_t index)
{
    return kernel != NULL && kernel->plan != NULL && index < kernel->plan->size_count ? kernel->plan->sizes[index]
                                                                                      : NULL;
}

kiln_status kiln_kernel_shape(const kiln_kernel *kernel, uint32_t index, const uint64_t *sizes, uint64_t shape[4],
                              kiln_report *report)
{
    kiln_status status = KILN_OK;
    if (kernel == NULL || shape == NULL || sizes == NULL)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "kernel, sizes and shape must not be NULL");
    if (kernel->plan == NULL || index >= kernel->plan->arg_count)
        return KILN_ENOENT;
    const kiln__plan_arg *arg = &kernel->plan->args[index];
    kiln__formula_values values;
    kiln__plan_calculate(kernel->plan, sizes, &values);
    for (uint32_t i = 0; i < arg->dims && status == KILN_OK; i++)
        status = kiln__plan_value(kernel->plan, arg->formulas[i], &values, arg->name, &shape[i], report);
    return status;
}
