/* The public functions of workloads: argument checks, then one call down. */
#include "api_structs.h"
#include "os/cancel.h"
#include "tune/stage.h"
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
    return workload != NULL ? kiln__arrays_poison(&workload->arrays, 0, KILN__FILL_POISON, report)
                            : refuse(report, "workload must not be NULL");
}

kiln_status kiln_workload_check(kiln_workload *workload, const char **against, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    const char *ignored;
    return workload != NULL ? kiln__stage_check(workload, against != NULL ? against : &ignored, report)
                            : refuse(report, "workload must not be NULL");
}
