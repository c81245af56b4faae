/* Requests for what tests mostly ask for: each function is one call of kiln_get or kiln_submit. */
#ifndef KILN_TESTS_SUPPORT_REQUESTING_H
#define KILN_TESTS_SUPPORT_REQUESTING_H

#include <kiln/kernel.h>

/* The kernel of a program that has only one, which is freed; NULL for NULL. */
static inline kiln_kernel *kiln_test_take_kernel(kiln_program *program)
{
    kiln_kernel *kernel = NULL;
    if (program != NULL && kiln_program_kernel(&kernel, program, NULL, NULL) != KILN_OK)
        kernel = NULL;
    kiln_program_release(program);
    return kernel;
}

static inline kiln_program_info kiln_test_program_info(const kiln_program *program)
{
    kiln_program_info info = KILN_INIT(kiln_program_info);
    if (kiln_program_get_info(program, &info) != KILN_OK)
        info.spec = NULL;
    return info;
}

static inline kiln_origin kiln_test_origin(const kiln_program *program)
{
    return kiln_test_program_info(program).origin;
}

static inline kiln_status kiln_test_get_on(kiln_kernel **out, kiln_service *service, kiln_device *device,
                                           const kiln_spec *spec, kiln_report *report)
{
    kiln_request request = KILN_INIT(kiln_request);
    kiln_program *program = NULL;
    request.spec = spec;
    request.device = device;
    kiln_status status = kiln_get(&program, service, &request, report);
    *out = kiln_test_take_kernel(program);
    return status;
}

static inline kiln_status kiln_test_build_spec(kiln_program **out, kiln_service *service, const kiln_spec *spec,
                                               kiln_report *report)
{
    kiln_request request = KILN_INIT(kiln_request);
    request.spec = spec;
    request.goal = KILN_BUILD;
    return kiln_get(out, service, &request, report);
}

/* Whether a store has it; *out (may be NULL) is which. */
static inline kiln_status kiln_test_find_stored(kiln_origin *out, kiln_service *service, const kiln_spec *spec,
                                                kiln_report *report)
{
    kiln_request request = KILN_INIT(kiln_request);
    kiln_program *program = NULL;
    request.spec = spec;
    request.goal = KILN_BUILD;
    request.strict = KILN_ON;
    kiln_status status = kiln_get(&program, service, &request, report);
    if (status == KILN_OK && out != NULL)
        *out = kiln_test_origin(program);
    kiln_program_release(program);
    return status;
}

static inline kiln_status kiln_test_build_source(kiln_program **out, kiln_service *service, const kiln_source *source,
                                                 kiln_report *report)
{
    kiln_request request = KILN_INIT(kiln_request);
    request.source = source;
    request.goal = KILN_BUILD;
    return kiln_get(out, service, &request, report);
}

static inline kiln_status kiln_test_get_source(kiln_program **out, kiln_service *service, kiln_device *device,
                                               const kiln_source *source, kiln_report *report)
{
    kiln_request request = KILN_INIT(kiln_request);
    request.source = source;
    request.device = device;
    return kiln_get(out, service, &request, report);
}

/* The ticket and the options may be NULL. */
static inline kiln_status kiln_test_submit(kiln_ticket *ticket, kiln_queue *queue, const kiln_spec *spec,
                                           const kiln_submit_options *options, kiln_done_fn done, void *data)
{
    kiln_request request = KILN_INIT(kiln_request);
    request.spec = spec;
    return kiln_submit(ticket, queue, &request, options, done, data, NULL);
}

static inline kiln_status kiln_test_submit_source(kiln_ticket *ticket, kiln_queue *queue, const kiln_source *source,
                                                  const kiln_submit_options *options, kiln_done_fn done, void *data)
{
    kiln_request request = KILN_INIT(kiln_request);
    request.source = source;
    return kiln_submit(ticket, queue, &request, options, done, data, NULL);
}

#endif
