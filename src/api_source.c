/* The public functions of <kiln/source.h>: argument checks, then one call down. */
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
    if (kiln__take_in(full, sizeof(*full), source) != KILN_OK)
        return refuse(report, "kiln_source.size is not set: initialise the struct with KILN_SOURCE_INIT");
    return KILN_OK;
}

kiln_status kiln_program_build(kiln_artifact **out, kiln_service *service, const kiln_source *source,
                               kiln_report *report)
{
    KILN__NO_CANCEL;
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

static kiln_status refuse_launch(kiln_report *report, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "%s", what);
}

kiln_status kiln_program_get(kiln_program **out, kiln_service *service, kiln_device *device, const kiln_source *source,
                             kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln_source full = KILN_SOURCE_INIT;
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
    kiln_source full = KILN_SOURCE_INIT;
    kiln_async_options how = KILN_ASYNC_OPTIONS_INIT;
    kiln_request *request = NULL;
    if (out != NULL)
        *out = NULL;
    if (queue == NULL || source == NULL || fn == NULL || take_source(&full, source, NULL) != KILN_OK ||
        kiln__take_in(&how, sizeof(how), options) != KILN_OK)
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

kiln_status kiln_program_function(kiln_function **out, kiln_program *program, const char *name, kiln_report *report)
{
    KILN__NO_CANCEL;
    if (out == NULL)
        return refuse_launch(report, "out must not be NULL");
    *out = NULL;
    if (program == NULL || name == NULL)
        return refuse_launch(report, "program and name must not be NULL");
    return kiln__loaded_find(program, name, out, report);
}

kiln_status kiln_program_global(void **address, size_t *bytes, kiln_program *program, const char *name,
                                kiln_report *report)
{
    KILN__NO_CANCEL;
    size_t size = 0;
    if (address == NULL)
        return refuse_launch(report, "address must not be NULL");
    *address = NULL;
    if (program == NULL || name == NULL)
        return refuse_launch(report, "program and name must not be NULL");
    return kiln__loaded_global(program, name, address, bytes != NULL ? bytes : &size, report);
}

kiln_status kiln_function_get_info(const kiln_function *function, kiln_function_info *out)
{
    kiln_function_info full = { .size = sizeof(full) };
    if (function == NULL || out == NULL)
        return KILN_EINVAL;
    kiln__loaded_info(function, &full);
    return kiln__hand_out(out, &full, sizeof(full));
}

kiln_status kiln_function_parameter(const kiln_function *function, uint32_t index, size_t *bytes)
{
    if (function == NULL || bytes == NULL)
        return KILN_EINVAL;
    *bytes = 0;
    if (function->parameters < 0 || index >= (uint32_t)function->parameters)
        return KILN_ENOENT;
    *bytes = function->sizes[index];
    return KILN_OK;
}

kiln_status kiln_function_occupancy(int *out, const kiln_function *function, uint32_t block, uint32_t shared_bytes,
                                    kiln_report *report)
{
    if (out == NULL || function == NULL || block == 0 || block > INT32_MAX)
        return refuse_launch(report, "out and function must not be NULL and block must be at least 1");
    const kiln_program *program = function->program;
    return program->vtable->functions->occupancy(program->module, function->number, block, shared_bytes, out, report);
}

kiln_status kiln_function_launch(kiln_function *function, const kiln_grid *grid, const void *const *arguments,
                                 const size_t *sizes, uint32_t count, kiln_report *report)
{
    kiln_grid full = KILN_GRID_INIT;
    if (function == NULL || grid == NULL)
        return refuse_launch(report, "function and grid must not be NULL");
    if (kiln__take_in(&full, sizeof(full), grid) != KILN_OK)
        return refuse_launch(report, "kiln_grid.size is not set: initialise the struct with KILN_GRID_INIT");
    return kiln__loaded_launch(function, &full, arguments, sizes, count, report);
}
