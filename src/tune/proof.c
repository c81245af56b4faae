#include "tune/proof.h"

#include "base/alloc.h"
#include <string.h>

/* Elements; aligned as any access needs it, and yet a cpu kernel's chunks end elsewhere. */
enum { PIECE = 32 * 129 };

typedef struct found {
    uint64_t wrong, first;
} found;

static const found nothing = { 0, UINT64_MAX };

static kiln_status get_count(kiln_service *service, kiln_device *on, kiln_kernel **out, kiln__dtype dtype,
                             const kiln__target *target, kiln_report *report)
{
    kiln_spec spec;
    kiln__text text = { 0 };
    kiln__text_printf(&text, "template=count op=differs(x,y) dtype=%s target=%s", kiln__dtype_name(dtype),
                      target->name);
    kiln_status status = text.failed ? kiln__fail_memory(report, KILN__STAGE_SPEC)
                                     : kiln__spec_parse(&spec, &service->catalog, text.data, report);
    kiln__text_fini(&text);
    return status == KILN_OK ? kiln__service_get_unlisted(service, on, &spec, out, report) : status;
}

typedef struct submission {
    kiln_kernel *kernel;
    uint64_t n;
    void *out;
    const void *const *in;
    kiln_report *report;
} submission;

static kiln_status submit(void *data, void *stream)
{
    const submission *self = data;
    return kiln__kernel_launch(self->kernel, self->n, self->out, self->in, stream, self->report);
}

/* Launches and waits. In the stream in which the device times, since the default one would be that of whatever context the
 * host has made current, another device's perhaps. */
static kiln_status run(kiln_kernel *kernel, uint64_t n, void *out, const void *const *in, kiln_report *report)
{
    kiln_device *device = kernel->device;
    submission work = { kernel, n, out, in, report };
    double ms;
    return device->backend->vtable->time(device, submit, &work, 1, &ms, report);
}

static void tell(const kiln__watch *watch, bool begins)
{
    if (watch != NULL)
        watch->launching(watch->data, begins);
}

static kiln_status compare(const kiln__proof *proof, const void *got, const void *want, uint64_t n, found *out,
                           kiln_report *report)
{
    kiln_device *device = proof->arrays->device;
    const kiln__backend_vtable *vtable = device->backend->vtable;
    const void *const in[] = { got, want };
    kiln_status status =
        vtable->copy(device, proof->found, &nothing, sizeof(nothing), KILN_COPY_TO_DEVICE, NULL, report);
    if (status == KILN_OK)
        status = run(proof->count, n, proof->found, in, report);
    if (status == KILN_OK)
        status = vtable->copy(device, out, proof->found, sizeof(*out), KILN_COPY_FROM_DEVICE, NULL, report);
    return status;
}

static kiln_status launch(const kiln__arrays *arrays, kiln_kernel *kernel, void *out, kiln_report *report)
{
    const void *in[KILN__INPUTS_MAX] = { NULL };
    for (uint32_t i = 0; i < arrays->inputs; i++)
        in[i] = kiln__arrays_in(arrays, 0, i);
    return run(kernel, arrays->n, out, in, report);
}

static kiln_status refuse(const kiln_spec *spec, const char *against, uint64_t wrong, uint64_t first,
                          kiln_report *report)
{
    kiln__text text = { 0 };
    kiln__spec_format(spec, false, &text);
    kiln_status status = kiln__fail(
        report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0, "%s is not equal to %s: %llu elements differ, the first is %llu",
        kiln__text_string(&text), against, (unsigned long long)wrong, (unsigned long long)first);
    kiln__text_fini(&text);
    return status;
}

/* Host memory for the first elements of the inputs, the device's result and the right one. */
typedef struct sample {
    uint64_t n, bytes;
    char *memory;
} sample;

static char *part(const sample *s, uint32_t i)
{
    return s->memory + i * s->bytes;
}

static kiln_status take_sample(sample *out, const kiln__proof *proof, kiln_report *report)
{
    const kiln__arrays *arrays = proof->arrays;
    kiln_device *device = arrays->device;
    kiln_status status = KILN_OK;
    out->n = arrays->n < KILN__FILL_PERIOD ? arrays->n : KILN__FILL_PERIOD;
    uint64_t bytes = out->n * kiln__dtype_bytes(arrays->dtype);
    out->bytes = (bytes + 255) / 256 * 256;
    out->memory = kiln__calloc(arrays->inputs + 2, out->bytes);
    if (out->memory == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    for (uint32_t i = 0; i <= arrays->inputs && status == KILN_OK; i++)
        status = device->backend->vtable->copy(device, part(out, i),
                                               i < arrays->inputs ? kiln__arrays_in(arrays, 0, i) : proof->want, bytes,
                                               KILN_COPY_FROM_DEVICE, NULL, report);
    return status;
}

/* Computes the sample on the cpu, in pieces that no geometry has. */
static kiln_status compute_sample(const sample *s, kiln_kernel *kernel, const kiln__arrays *arrays, kiln_report *report)
{
    const void *in[KILN__INPUTS_MAX] = { NULL };
    uint64_t size = kiln__dtype_bytes(arrays->dtype);
    kiln_status status = KILN_OK;
    for (uint64_t done = 0; done < s->n && status == KILN_OK; done += PIECE) {
        uint64_t count = s->n - done < PIECE ? s->n - done : PIECE;
        for (uint32_t i = 0; i < arrays->inputs; i++)
            in[i] = part(s, i) + done * size;
        status = kiln__kernel_launch(kernel, count, part(s, arrays->inputs + 1) + done * size, in, NULL, report);
    }
    return status;
}

/* What computes the same on the cpu: the op that a template of own arithmetic names, or the template with its defaults. */
static kiln_status cpu_spec(kiln_spec *out, const kiln_spec *spec, kiln_report *report)
{
    static const kiln__target cpu = { .name = "cpu" };
    kiln_status status = KILN_OK;
    if (spec->template->reference != NULL) {
        status = kiln__spec_reference(out, spec, report);
    } else {
        *out = *spec;
        memset(out->param_set, 0, sizeof(out->param_set));
    }
    out->target_set = true;
    out->target = cpu;
    return status;
}

static kiln_status check_sample(const sample *s, kiln_service *service, const kiln_spec *spec,
                                const kiln__arrays *arrays, const kiln__watch *watch, kiln_report *report)
{
    kiln_kernel *reference = NULL, *count = NULL;
    kiln_spec wanted;
    found result = nothing;
    const void *const both[] = { part(s, arrays->inputs), part(s, arrays->inputs + 1) };
    kiln_status status = cpu_spec(&wanted, spec, report);
    if (status == KILN_OK)
        status = kiln__service_get_unlisted(service, NULL, &wanted, &reference, report);
    if (status == KILN_OK)
        status = get_count(service, NULL, &count, arrays->dtype, &wanted.target, report);
    if (status == KILN_OK) {
        tell(watch, true);
        status = compute_sample(s, reference, arrays, report);
    }
    if (status == KILN_OK)
        tell(watch, false);
    if (status == KILN_OK)
        status = kiln__kernel_launch(count, s->n, &result, both, NULL, report);
    if (status == KILN_OK && result.wrong > 0)
        status = refuse(spec, "the cpu backend", result.wrong, result.first, report);
    kiln__kernel_release(reference);
    kiln__kernel_release(count);
    return status;
}

static kiln_status check_against_cpu(const kiln__proof *proof, kiln_service *service, const kiln_spec *spec,
                                     const kiln__watch *watch, kiln_report *report)
{
    sample s = { 0 };
    kiln_status status = take_sample(&s, proof, report);
    if (status == KILN_OK)
        status = check_sample(&s, service, spec, proof->arrays, watch, report);
    kiln__free(s.memory);
    return status;
}

/* The inputs repeat, so what is right does too. */
static kiln_status check_period(const kiln__proof *proof, const kiln_spec *spec, kiln_report *report)
{
    const kiln__arrays *arrays = proof->arrays;
    found result;
    if (arrays->n <= KILN__FILL_PERIOD)
        return KILN_OK;
    const char *second = (const char *)proof->want + (uint64_t)KILN__FILL_PERIOD * kiln__dtype_bytes(arrays->dtype);
    kiln_status status = compare(proof, second, proof->want, arrays->n - KILN__FILL_PERIOD, &result, report);
    if (status == KILN_OK && result.wrong > 0)
        status = refuse(spec, "itself one period of its inputs before", result.wrong, result.first + KILN__FILL_PERIOD,
                        report);
    return status;
}

static kiln_status make_reference(kiln__proof *proof, kiln_service *service, const kiln_spec *spec,
                                  const kiln__watch *watch, kiln_report *report)
{
    const kiln__arrays *arrays = proof->arrays;
    uint64_t bytes = arrays->n * kiln__dtype_bytes(arrays->dtype);
    kiln_kernel *kernel = NULL;
    kiln_status status = kiln__service_get_unlisted(service, arrays->device, spec, &kernel, report);
    if (status == KILN_OK)
        status = kiln__fill_poison(arrays->device, proof->want, bytes, report);
    if (status == KILN_OK) {
        tell(watch, true);
        status = launch(arrays, kernel, proof->want, report);
    }
    if (status == KILN_OK)
        tell(watch, false);
    kiln__kernel_release(kernel);
    bool known = spec->template->reference != NULL || spec->template->cpu_text != NULL;
    if (status == KILN_OK && known)
        status = check_against_cpu(proof, service, spec, watch, report);
    return status == KILN_OK ? check_period(proof, spec, report) : status;
}

kiln_status kiln__proof_init(kiln__proof *out, kiln_service *service, const kiln_spec *spec, const kiln__arrays *arrays,
                             const kiln__watch *watch, kiln_report *report)
{
    kiln_device *device = arrays->device;
    const kiln__backend_vtable *vtable = device->backend->vtable;
    memset(out, 0, sizeof(*out));
    out->arrays = arrays;
    kiln_status status =
        vtable->alloc(device, &out->want, (size_t)(arrays->n * kiln__dtype_bytes(arrays->dtype)), report);
    if (status == KILN_OK)
        status = vtable->alloc(device, &out->found, sizeof(found), report);
    if (status == KILN_OK)
        status = get_count(service, device, &out->count, arrays->dtype, &spec->target, report);
    return status == KILN_OK ? make_reference(out, service, spec, watch, report) : status;
}

void kiln__proof_fini(kiln__proof *proof)
{
    kiln__kernel_release(proof->count);
    if (proof->arrays != NULL) {
        kiln_device *device = proof->arrays->device;
        device->backend->vtable->free(device, proof->want);
        device->backend->vtable->free(device, proof->found);
    }
    memset(proof, 0, sizeof(*proof));
}

kiln_status kiln__proof_check(kiln__proof *proof, kiln_kernel *kernel, kiln__proof_result *out, kiln_report *report)
{
    const kiln__arrays *arrays = proof->arrays;
    found result = nothing;
    bool whole = true;
    kiln_status status = kiln__arrays_poison(arrays, 0, report);
    if (status == KILN_OK)
        status = launch(arrays, kernel, kiln__arrays_out(arrays, 0), report);
    if (status == KILN_OK)
        status = kiln__arrays_check_guard(arrays, 0, &whole, report);
    if (status == KILN_OK)
        status = compare(proof, kiln__arrays_out(arrays, 0), proof->want, arrays->n, &result, report);
    *out = (kiln__proof_result){ .wrong = result.wrong, .first = result.first, .overrun = !whole };
    return status;
}
