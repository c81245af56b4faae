#include "verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "signature.h"
#include "specchange.h"
#include "spectext.h"

enum { CHUNK_BYTES = 64 << 20 };

struct reset {
    const char *template_name;
    char *reference; /* the op that the template names, or NULL */
    bool has_twin, takes_op;
    char *fields; /* of the spec that all of it is compared with, or NULL */
};

static int note_template(void *data, const kiln_template_info *info)
{
    struct reset *reset = data;
    if (strcmp(info->name, reset->template_name ? reset->template_name : "elementwise") != 0)
        return 0;
    reset->has_twin = info->has_twin;
    reset->takes_op = info->max_inputs > 0;
    reset->reference = *info->reference ? need_copy(info->reference) : NULL;
    reset->fields = spec_fields_on_cpu(info);
    return 0;
}

/* A field of another template's, or a value that this one does not take, stays as it is. */
static void set_small(kiln_spec **spec, const char *field, const char *value)
{
    spec_set(spec, field, value, NULL);
}

/* The op that the template names as its own, on the cpu. */
static kiln_status named_spec(kiln_spec **out, struct session *session, const char *op, const char *type)
{
    char *text = need_format("op=%s dtype=%s target=cpu", op, type);
    kiln_spec_free(*out);
    kiln_status status = kiln_spec_parse(out, session->service, text, &session->report);
    free(text);
    return status;
}

static kiln_status say_missing(kiln_report *report, const char *name)
{
    snprintf(report->message, sizeof(report->message),
             "template %s names no reference and has no cpu twin to compare with", name);
    return report->status = KILN_ENOENT;
}

/* The spec of the kernel to compare with; the verifier learns what that is. */
static kiln_status reference_spec(kiln_spec **out, struct session *session, const kiln_kernel_info *info,
                                  const char *type, struct verifier *verifier)
{
    bool cpu = strcmp(info->device, "cpu") == 0;
    kiln_status status = kiln_spec_parse(out, session->service, info->spec, &session->report);
    if (status)
        return status;
    char *template_name = NULL;
    spectext_field(&template_name, info->spec, "template");
    struct reset reset = { .template_name = template_name };
    status = kiln_templates(session->service, note_template, &reset);
    verifier->against = reset.reference  ? "the op that the template names, on the cpu"
                        : cpu            ? "a differently chunked cpu kernel"
                        : reset.takes_op ? "the cpu backend"
                                         : "the cpu twin";
    /* Elements of somebody's own template may depend on any others. */
    verifier->elementwise = reset.reference || !template_name || strcmp(template_name, "elementwise") == 0;
    if (!status && reset.reference)
        status = named_spec(out, session, reset.reference, type);
    else if (!status && !reset.has_twin)
        status = say_missing(&session->report, template_name);
    else if (!status)
        status = spec_change(out, reset.fields ? reset.fields : "target=cpu", &session->report);
    if (!status && cpu && !reset.reference) {
        set_small(out, "elems", "1");
        set_small(out, "vector", "1");
        set_small(out, "block", info->tile == 32 ? "64" : "32");
    }
    free(reset.reference);
    free(reset.fields);
    free(template_name);
    return status;
}

int verify_open(struct verifier *out, struct session *session, const kiln_kernel_info *info)
{
    *out = (struct verifier){ .kernel = NULL };
    kiln_spec *spec = NULL;
    char *dtype_name = NULL;
    spectext_field(&dtype_name, info->spec, "dtype");
    out->type = dtype_name ? dtype_named(dtype_name) : NULL;
    if (!out->type) {
        free(dtype_name);
        return fail(STATUS_FAILED, "cannot verify: no known dtype in '%s'", info->spec);
    }
    kiln_status status = reference_spec(&spec, session, info, dtype_name, out);
    free(dtype_name);
    if (!status)
        status = kiln_get_kernel(&out->kernel, session->service, spec, &session->report);
    kiln_spec_free(spec);
    if (!status)
        return STATUS_DONE;
    session_fail(session, status, "cannot verify");
    return STATUS_FAILED;
}

static bool same(const dtype *type, uint64_t a, uint64_t b)
{
    return a == b || (dtype_is_nan(type, a) && dtype_is_nan(type, b));
}

static int mismatch(const struct verifier *verifier, uint64_t index, uint64_t got, uint64_t want)
{
    int digits = (int)verifier->type->size * 2;
    return fail(STATUS_FAILED,
                "not equal to %s: element %" PRIu64 " is 0x%0*" PRIx64 " (%.17g), should be 0x%0*" PRIx64 " (%.17g)",
                verifier->against, index, digits, got, dtype_value(verifier->type, got), digits, want,
                dtype_value(verifier->type, want));
}

static int compare(struct verifier *verifier, uint64_t first, uint64_t n, const void *got)
{
    const dtype *type = verifier->type;
    if (memcmp(got, verifier->want, n * type->size) == 0)
        return STATUS_DONE;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t mine = dtype_bits(type, got, i), theirs = dtype_bits(type, verifier->want, i);
        verifier->differs = !same(type, mine, theirs);
        if (verifier->differs)
            return mismatch(verifier, first + i, mine, theirs);
    }
    return STATUS_DONE;
}

int verify_elements(struct verifier *verifier, struct session *session, uint64_t first, uint64_t n, const void *got,
                    const void *const *in)
{
    uint32_t size = verifier->type->size;
    uint64_t step = verifier->elementwise || n == 0 ? CHUNK_BYTES / size : n;
    kiln_kernel_info info = { .size = sizeof(info) };
    kiln_status status = kiln_kernel_get_info(verifier->kernel, &info);
    uint32_t inputs = status ? 0 : signature_inputs(info.signature);
    verifier->want = need_array(verifier->want, n < step ? n : step, size);
    for (uint64_t done = 0; done < n && !status; done += step) {
        uint64_t count = n - done < step ? n - done : step;
        const void *parts[SIGNATURE_MOST_INPUTS] = { NULL };
        for (uint32_t i = 0; i < inputs && i < SIGNATURE_MOST_INPUTS; i++)
            parts[i] = (const char *)in[i] + done * size;
        memset(verifier->want, 0x5a, count * size);
        void *want = verifier->want;
        status = kiln_launch_n(verifier->kernel, count, &want, 1, parts, inputs, NULL, &session->report);
        if (!status && compare(verifier, first + done, count, (const char *)got + done * size))
            return STATUS_FAILED;
    }
    if (!status) {
        verifier->elements += n;
        return STATUS_DONE;
    }
    session_fail(session, status, "cannot verify");
    return STATUS_FAILED;
}

void verify_close(struct verifier *verifier)
{
    kiln_kernel_release(verifier->kernel);
    free(verifier->want);
    *verifier = (struct verifier){ .kernel = NULL };
}
