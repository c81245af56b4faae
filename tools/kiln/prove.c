#include "prove.h"

#include <stdlib.h>
#include <string.h>

#include "spectext.h"
#include "verify.h"

enum { CHUNK_BYTES = 64 << 20 };

static int verify_chunks(struct verifier *verifier, struct session *session, const prove_job *proof,
                         const struct benchmemory *memory, char *host)
{
    uint64_t step = CHUNK_BYTES / proof->type->size, size = proof->type->size;
    const void *in[BENCH_MOST_INPUTS] = { NULL };
    for (uint64_t done = 0; done < proof->elements; done += step) {
        uint64_t n = proof->elements - done < step ? proof->elements - done : step;
        char *got = host + (size_t)proof->info->inputs * CHUNK_BYTES;
        kiln_status status = kiln_copy(memory->device, got, (char *)memory->out + done * size, n * size,
                                       KILN_COPY_FROM_DEVICE, NULL, &session->report);
        for (uint32_t i = 0; i < proof->info->inputs && !status; i++) {
            in[i] = host + (size_t)i * CHUNK_BYTES;
            status = kiln_copy(memory->device, host + (size_t)i * CHUNK_BYTES, (char *)memory->in[i] + done * size,
                               n * size, KILN_COPY_FROM_DEVICE, NULL, &session->report);
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
        char *host = need_array(NULL, proof->info->inputs + 1, CHUNK_BYTES);
        result = verify_chunks(&verifier, session, proof, memory, host);
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
        status =
            kiln_launch(proof->kernel, proof->elements, memory->out, (const void *const *)memory->in, NULL, report);
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
        status = kiln_get(out, session->service, spec, &session->report);
    kiln_spec_free(spec);
    free(text);
    free(target);
    return status;
}
