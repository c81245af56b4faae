/* The reference of a kernel of out, inputs and n against the cpu: the first period of the random values. */
#include "base/alloc.h"
#include "tune/proof.h"

/* Elements; aligned as any access needs it, and yet a cpu kernel's chunks end elsewhere. */
enum { PIECE = 32 * 129 };

/* Host memory for the first elements of the inputs, the device's result and the right one. */
typedef struct sample {
    uint64_t n, bytes;
    uint32_t inputs, size; /* bytes of an element */
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
    out->n = arrays->load.elements < KILN__FILL_PERIOD ? arrays->load.elements : KILN__FILL_PERIOD;
    out->inputs = arrays->load.count - 1;
    out->size = arrays->load.arrays[out->inputs].size;
    uint64_t bytes = out->n * out->size;
    out->bytes = (bytes + 255) / 256 * 256;
    out->memory = kiln__calloc(out->inputs + 2, out->bytes);
    if (out->memory == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    for (uint32_t i = 0; i <= out->inputs && status == KILN_OK; i++)
        status = device->backend->vtable->copy(
            device, part(out, i), i < out->inputs ? kiln__arrays_in(arrays, 0, i) : kiln__proof_want(proof, i), bytes,
            KILN_COPY_FROM_DEVICE, NULL, report);
    return status;
}

/* Computes the sample on the cpu, in pieces that no geometry has. */
static kiln_status compute_sample(const sample *s, kiln_kernel *kernel, kiln_report *report)
{
    const void *in[KILN__INPUTS_MAX];
    kiln_status status = KILN_OK;
    for (uint64_t done = 0; done < s->n && status == KILN_OK; done += PIECE) {
        uint64_t count = s->n - done < PIECE ? s->n - done : PIECE;
        for (uint32_t i = 0; i < s->inputs; i++)
            in[i] = part(s, i) + done * s->size;
        status = kiln__kernel_launch(kernel, count, part(s, s->inputs + 1) + done * s->size, in, NULL, report);
    }
    return status;
}

static kiln_status check(const sample *s, const kiln__proof *proof, kiln_service *service, const kiln_spec *spec,
                         const kiln__watch *watch, kiln_report *report)
{
    const kiln__workload *load = &proof->arrays->load;
    const kiln__array *out = &load->arrays[s->inputs];
    kiln_kernel *reference = NULL;
    kiln_device *cpu;
    kiln__comparer comparer = { .device = NULL };
    kiln__difference found = { 0, 0 };
    kiln_spec wanted;
    kiln_status status = kiln__proof_cpu_spec(&wanted, spec, report);
    if (status == KILN_OK)
        status = kiln__runtime_device(service->runtime, "cpu", &cpu, report);
    if (status == KILN_OK)
        status = kiln__service_get_unlisted(service, NULL, &wanted, &reference, report);
    if (status == KILN_OK)
        status = kiln__comparer_init(&comparer, service, cpu, &wanted.target, load, report);
    if (status == KILN_OK) {
        kiln__watch_tell(watch, true);
        status = compute_sample(s, reference, report);
    }
    if (status == KILN_OK) {
        kiln__watch_tell(watch, false);
        status = kiln__compare(&comparer, out, part(s, s->inputs), part(s, s->inputs + 1), s->n, &found, report);
    }
    if (status == KILN_OK && found.wrong > 0)
        status = kiln__proof_refuse(spec, "the cpu backend", out, found, report);
    kiln__kernel_release(reference);
    kiln__comparer_fini(&comparer);
    return status;
}

kiln_status kiln__proof_check_sample(const kiln__proof *proof, kiln_service *service, const kiln_spec *spec,
                                     const kiln__watch *watch, kiln_report *report)
{
    sample s = { 0 };
    kiln_status status = take_sample(&s, proof, report);
    if (status == KILN_OK)
        status = check(&s, proof, service, spec, watch, report);
    kiln__free(s.memory);
    return status;
}
