#include "kernels/prove.h"

#include <stdlib.h>

#include "kernels/signature.h"
#include "kernels/verify.h"
#include "text/spectext.h"

static kiln_status launch_once(const prove_job *proof, struct session *session, const struct benchmemory *memory)
{
    kiln_report *report = &session->report;
    kiln_status status = benchmemory_poison(memory, proof->elements * proof->type->size, report);
    if (!status)
        status = kiln_launch_n(proof->kernel, proof->elements, &memory->out, 1, (const void *const *)memory->in,
                               signature_inputs(proof->info->signature), NULL, report);
    return status ? status : kiln_sync(memory->device, report);
}

int prove_kernel(const prove_job *proof, struct session *session, const struct benchmemory *memory,
                 const char **against)
{
    verified_launch verified;
    if (!against) {
        kiln_status status = launch_once(proof, session, memory);
        return status ? session_fail(session, status, proof->info->spec) : STATUS_DONE;
    }
    int result = verify_launch_n(&verified, session, proof->kernel, proof->elements, memory->out,
                                 (const void *const *)memory->in);
    *against = verified.found.against;
    if (verified.differs)
        note("'%s' is wrong and was not timed", proof->info->spec);
    return result;
}

kiln_status prove_copy_kernel(kiln_kernel **out, struct session *session, const char *spec_text)
{
    char *target = NULL;
    kiln_spec *spec = NULL;
    spectext_field(&target, spec_text, "target");
    char *text = need_format("op=copy dtype=f32 target=%s", target ? target : "native");
    kiln_status status = kiln_spec_parse(&spec, session->service, text, &session->report);
    if (!status)
        status = kiln_get_kernel(out, session->service, spec, &session->report);
    kiln_spec_free(spec);
    free(text);
    free(target);
    return status;
}
