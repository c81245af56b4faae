/* The public functions of workloads: argument checks, then one call down. */
#include "api/structs.h"
#include "os/cancel.h"
#include "os/fork.h"
#include "tune/stage.h"
#include "tune/verify.h"
#include <kiln/kernel.h>

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0, "%s", what);
}

kiln_status kiln_workload_make(kiln_workload **out, kiln_service *service, kiln_kernel *kernel, const kiln_work *work,
                               kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    if (out == NULL || service == NULL || kernel == NULL)
        return refuse(report, "out, service and kernel must not be NULL");
    *out = NULL;
    if (kiln__is_forked(service->generation) || kiln__is_forked(kernel->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    kiln_work full;
    kiln_status status = kiln__take_work(&full, work, report);
    const kiln__given given = { .elements = full.elements,
                                .sizes = full.sizes,
                                .size_count = full.size_count,
                                .args = full.args,
                                .arg_count = full.arg_count };
    return status == KILN_OK ? kiln__stage_make(out, service, kernel, &given, report) : status;
}

void kiln_workload_free(kiln_workload *workload)
{
    KILN__NO_CANCEL;
    if (workload != NULL && !kiln__is_forked(workload->kernel->generation))
        kiln__stage_free(workload);
}

kiln_status kiln_workload_get_info(const kiln_workload *workload, kiln_workload_info *out)
{
    if (workload == NULL || out == NULL)
        return KILN_EINVAL;
    const kiln__load *load = &workload->arrays.load;
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
    kiln__report_begin(report);
    if (workload == NULL)
        return refuse(report, "workload must not be NULL");
    if (kiln__is_forked(workload->kernel->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    return kiln__stage_reset(workload, report);
}

kiln_status kiln_verify(kiln_verification *out, kiln_service *service, kiln_kernel *kernel, const kiln_grid *grid,
                        const uint64_t *sizes, size_t size_count, const kiln_arg *args, size_t arg_count,
                        double tolerance, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_grid full;
    kiln__load load;
    kiln__verdict verdict;
    if (service == NULL || kernel == NULL || (sizes == NULL && size_count > 0) || (args == NULL && arg_count > 0))
        return refuse(report, "service, kernel, sizes and args must not be NULL");
    if (kiln__is_forked(service->generation) || kiln__is_forked(kernel->generation))
        return kiln__fail_forked(report, KILN__STAGE_DEVICE);
    if (!(tolerance >= 0))
        return refuse(report, "tolerance must be 0 or more units of the last place");
    kiln_status status = kiln__take_grid(&full, kernel, grid, size_count, report);
    const kiln__launching launching = { kernel, &full, sizes, size_count, args, arg_count };
    if (status == KILN_OK)
        status = kiln__verify_launch(&verdict, &load, service, &launching, tolerance, report);
    if (status != KILN_OK)
        return status;
    const kiln_verification found = { .size = sizeof(found),
                                      .against = verdict.against,
                                      .compared = verdict.compared,
                                      .wrong = verdict.wrong,
                                      .argument = verdict.array != NULL ? load.at[verdict.array - load.arrays] : 0,
                                      .first = verdict.first,
                                      .bound = verdict.bound,
                                      .worst = verdict.worst,
                                      .worst_at = verdict.worst_at };
    if (out != NULL)
        status = kiln__hand_out(out, &found, sizeof(found));
    return status == KILN_OK ? kiln__verify_refuse(&verdict, kernel->spec, report) : status;
}
