/* The public functions of programs, CUDA text of the host: argument checks, then one call down. */
#include "api_structs.h"
#include "os/cancel.h"
#include "service/program.h"
#include "service/program_async.h"

static kiln_status refuse(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_COMPILE, 0, "%s", what);
}

static kiln_status take_source(kiln_source *full, const kiln_source *source, kiln_report *report)
{
    return kiln__take_in(full, sizeof(*full), source, "kiln_source", KILN__STAGE_COMPILE, report);
}

kiln_status kiln_program_build(kiln_artifact **out, kiln_service *service, const kiln_source *source,
                               kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_source full = KILN_INIT(kiln_source);
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
    kiln_symbol_info full = KILN_INIT(kiln_symbol_info);
    if (artifact == NULL || out == NULL)
        return KILN_EINVAL;
    kiln_status status = kiln__program_symbol(artifact, index, &full);
    return status == KILN_OK ? kiln__hand_out(out, &full, sizeof(full)) : status;
}

static kiln_status refuse_launch(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "%s", what);
}

kiln_status kiln_program_get(kiln_program **out, kiln_service *service, kiln_device *device, const kiln_source *source,
                             kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    kiln_source full = KILN_INIT(kiln_source);
    if (out == NULL)
        return refuse(report, "out must not be NULL");
    *out = NULL;
    if (service == NULL || source == NULL)
        return refuse(report, "service and source must not be NULL");
    kiln_status status = take_source(&full, source, report);
    return status == KILN_OK ? kiln__program_get(service, device, &full, out, report) : status;
}

kiln_status kiln_program_get_async(kiln_request **out, kiln_queue *queue, const kiln_source *source,
                                   const kiln_async_options *options, kiln_program_fn fn, void *data)
{
    KILN__NO_CANCEL;
    kiln_source full = KILN_INIT(kiln_source);
    kiln_async_options how = KILN_INIT(kiln_async_options);
    kiln_request *request = NULL;
    if (out != NULL)
        *out = NULL;
    if (queue == NULL || source == NULL || fn == NULL || take_source(&full, source, NULL) != KILN_OK ||
        kiln__take_in(&how, sizeof(how), options, "kiln_async_options", KILN__STAGE_OPEN, NULL) != KILN_OK)
        return KILN_EINVAL;
    return kiln__program_get_async(out != NULL ? out : &request, queue, &full, &how, fn, data);
}

kiln_program *kiln_program_retain(kiln_program *program)
{
    return kiln__loaded_retain(program);
}

void kiln_program_release(kiln_program *program)
{
    KILN__NO_CANCEL;
    kiln__loaded_release(program);
}

kiln_status kiln_program_kernel(kiln_kernel **out, kiln_program *program, const char *name, kiln_report *report)
{
    KILN__NO_CANCEL;
    const kiln__function *function = NULL;
    kiln__report_begin(report);
    if (out == NULL)
        return refuse_launch(report, "out must not be NULL");
    *out = NULL;
    if (program == NULL)
        return refuse_launch(report, "program must not be NULL");
    kiln_status status = kiln__loaded_find(program, name, &function, report);
    if (status == KILN_OK && (*out = kiln__kernel_of_function(program, function)) == NULL)
        status = kiln__fail_memory(report, KILN__STAGE_LOAD);
    return status;
}

kiln_status kiln_program_global(void **address, size_t *bytes, kiln_program *program, const char *name,
                                kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln__report_begin(report);
    size_t size = 0;
    if (address == NULL)
        return refuse_launch(report, "address must not be NULL");
    *address = NULL;
    if (program == NULL || name == NULL)
        return refuse_launch(report, "program and name must not be NULL");
    return kiln__loaded_global(program, name, address, bytes != NULL ? bytes : &size, report);
}
