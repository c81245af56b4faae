#include "kernels/verify.h"

#include "kernels/signature.h"

int verify_launch(verified_launch *out, struct session *session, kiln_kernel *kernel, const uint64_t *sizes,
                  size_t size_count, const kiln_arg *args, size_t arg_count)
{
    *out = (verified_launch){ .found = KILN_INIT(kiln_verification) };
    kiln_status status = kiln_verify(&out->found, session->service, kernel, NULL, sizes, size_count, args, arg_count, 0,
                                     &session->report);
    out->differs = out->found.wrong > 0 || (out->found.bound >= 0 && out->found.worst > out->found.bound);
    if (!status)
        return STATUS_DONE;
    session_fail(session, status, out->differs ? NULL : "cannot verify");
    return STATUS_FAILED;
}

int verify_launch_n(verified_launch *out, struct session *session, kiln_kernel *kernel, uint64_t n, void *result,
                    const void *const *in)
{
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    kiln_arg args[1 + SIGNATURE_MOST_INPUTS];
    size_t count = 0;
    kiln_kernel_get_info(kernel, &info);
    for (size_t i = 0; i < info.signature->param_count; i++) {
        const kiln_param *param = info.signature->params[i];
        if (param->role != KILN_ROLE_FORMULA)
            args[count++] = KILN_ARRAY(param->role == KILN_ROLE_IN ? *in++ : result, n * param->bytes);
    }
    return verify_launch(out, session, kernel, &n, 1, args, count);
}
