#include "prove.h"

#include <stdlib.h>
#include <string.h>

#include "signature.h"
#include "spectext.h"
#include "verify.h"

enum { CHUNK_BYTES = 64 << 20 };

/* `host` has room for `step` elements of each array. */
static int verify_chunks(struct verifier *verifier, struct session *session, const prove_job *proof,
                         const struct benchmemory *memory, char *host, uint64_t step)
{
    uint64_t size = proof->type->size;
    uint32_t inputs = signature_inputs(proof->info->signature);
    const void *in[BENCH_MOST_INPUTS] = { NULL };
    for (uint64_t done = 0; done < proof->elements; done += step) {
        uint64_t n = proof->elements - done < step ? proof->elements - done : step;
        char *got = host + inputs * step * size;
        kiln_status status =
            kiln_download(memory->device, got, (char *)memory->out + done * size, n * size, &session->report);
        for (uint32_t i = 0; i < inputs && !status; i++) {
            char *part = host + i * step * size;
            in[i] = part;
            status =
                kiln_download(memory->device, part, (char *)memory->in[i] + done * size, n * size, &session->report);
        }
        if (status)
            return session_fail(session, status, NULL);
        int result = verify_elements(verifier, session, done, n, got, in);
        if (result)
            return result;
    }
    return STATUS_DONE;
}

static int verify_whole(const prove_job *proof, struct session *session, const struct benchmemory *memory)
{
    struct verifier verifier;
    int result = verify_open(&verifier, session, proof->info);
    if (!result && strcmp(proof->info->device, "cpu") == 0) {
        result = verify_elements(&verifier, session, 0, proof->elements, memory->out, (const void *const *)memory->in);
    } else if (!result) {
        uint64_t step = verifier.elementwise ? CHUNK_BYTES / proof->type->size : proof->elements;
        char *host = need_array(NULL, signature_inputs(proof->info->signature) + 1, step * proof->type->size);
        result = verify_chunks(&verifier, session, proof, memory, host, step);
        free(host);
    }
    if (verifier.differs)
        note("'%s' is wrong and was not timed", proof->info->spec);
    verify_close(&verifier);
    return result;
}

int prove_kernel(const prove_job *proof, struct session *session, const struct benchmemory *memory, bool verify)
{
    kiln_report *report = &session->report;
    kiln_status status = benchmemory_poison(memory, proof->elements * proof->type->size, report);
    if (!status)
        status = kiln_launch_n(proof->kernel, proof->elements, &memory->out, 1, (const void *const *)memory->in,
                               signature_inputs(proof->info->signature), NULL, report);
    if (!status)
        status = kiln_sync(memory->device, report);
    if (status)
        return session_fail(session, status, proof->info->spec);
    return verify ? verify_whole(proof, session, memory) : STATUS_DONE;
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
