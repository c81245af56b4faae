/* Launches of kernels with one output, for tests that do not count the inputs, and of functions of sources. */
#ifndef KILN_TESTS_SUPPORT_LAUNCHING_H
#define KILN_TESTS_SUPPORT_LAUNCHING_H

#include <kiln/kernel.h>

/* How many arrays are only read. */
static inline size_t kiln_test_count_inputs(const kiln_signature *signature)
{
    size_t count = 0;
    for (size_t i = 0; i < signature->param_count; i++)
        count += signature->params[i]->role == KILN_ROLE_IN;
    return count;
}

/* The same of a kernel; 0 for NULL. */
static inline size_t kiln_test_inputs(const kiln_kernel *kernel)
{
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    return kernel != NULL && kiln_kernel_get_info(kernel, &info) == KILN_OK ? kiln_test_count_inputs(info.signature)
                                                                            : 0;
}

/* The same of a spec. */
static inline size_t kiln_test_spec_inputs(const kiln_spec *spec)
{
    const kiln_signature *signature = NULL;
    return kiln_spec_signature(&signature, spec, NULL) == KILN_OK ? kiln_test_count_inputs(signature) : 0;
}

/* kiln_launch_n with `out` and as many of `in` as the kernel reads. */
static inline kiln_status kiln_test_launch(kiln_kernel *kernel, uint64_t n, void *out, const void *const *in,
                                           void *stream, kiln_report *why)
{
    return kiln_launch_n(kernel, n, &out, 1, in, kiln_test_inputs(kernel), stream, why);
}

/* kiln_call with `out` and as many of `in` as the op of the text has inputs. */
static inline kiln_status kiln_test_call(kiln_service *service, const char *text, uint64_t n, void *out,
                                         const void *const *in, void *stream, kiln_report *why)
{
    kiln_spec *spec = NULL;
    size_t inputs = 0;
    if (service != NULL && text != NULL && kiln_spec_parse(&spec, service, text, NULL) == KILN_OK)
        inputs = kiln_test_spec_inputs(spec);
    kiln_spec_free(spec);
    return kiln_call(service, text, n, &out, 1, in, inputs, stream, why);
}

/* kiln_launch of a function of a source: arguments[i] points to the value of parameter i, of sizes[i] bytes; sizes
 * NULL: of as many as the parameter has. */
static inline kiln_status kiln_test_launch_grid(kiln_kernel *kernel, const kiln_grid *grid,
                                                const void *const *arguments, const size_t *sizes, size_t count,
                                                void *stream, kiln_report *why)
{
    kiln_arg args[16] = { { 0 } };
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    kiln_status status = kiln_kernel_get_info(kernel, &info);
    for (size_t i = 0; i < count && i < 16; i++) {
        args[i] = (kiln_arg){ .kind = KILN_ARG_VALUE, .data = (void *)arguments[i] };
        if (sizes != NULL)
            args[i].bytes = sizes[i];
        else if (i < info.signature->param_count)
            args[i].bytes = info.signature->params[i]->bytes;
    }
    return status == KILN_OK ? kiln_launch(kernel, grid, NULL, 0, args, count, stream, why) : status;
}

#endif
