/* The reference of an elementwise kernel that writes one array against the cpu: the first period of the random values. */
#include "base/alloc.h"
#include "tune/proof.h"

/* Elements; aligned as any access needs it, and yet a cpu kernel's chunks end elsewhere. */
enum { PIECE = 32 * 129 };

/* Host memory for the first elements of all arrays, the device's result among them, and of the right result. */
typedef struct sample {
    const kiln__load *load;
    uint64_t n, bytes; /* elements, and room for those of an array */
    uint32_t output;
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
    out->load = &arrays->load;
    out->n = arrays->load.elements < KILN__FILL_PERIOD ? arrays->load.elements : KILN__FILL_PERIOD;
    out->bytes = (out->n * sizeof(uint64_t) + 255) / 256 * 256;
    out->memory = kiln__calloc(arrays->load.count + 1, out->bytes);
    if (out->memory == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    for (uint32_t i = 0; i < arrays->load.count && status == KILN_OK; i++)
        status = device->backend->vtable->copy(
            device, part(out, i), i == out->output ? kiln__proof_want(proof, i) : kiln__arrays_in(arrays, 0, i),
            out->n * arrays->load.arrays[i].size, KILN__COPY_FROM_DEVICE, NULL, report);
    return status;
}

/* Computes the sample on the cpu, in pieces that no geometry has. */
static kiln_status compute_sample(const sample *s, kiln_kernel *kernel, kiln_report *report)
{
    const void *in[KILN__ARGS_MAX];
    kiln_status status = KILN_OK;
    for (uint64_t done = 0; done < s->n && status == KILN_OK; done += PIECE) {
        uint64_t count = s->n - done < PIECE ? s->n - done : PIECE;
        void *out = part(s, s->load->count) + done * s->load->arrays[s->output].size;
        uint32_t inputs = 0;
        for (uint32_t i = 0; i < s->load->count; i++)
            if (i != s->output)
                in[inputs++] = part(s, i) + done * s->load->arrays[i].size;
        status = kiln__kernel_launch_n(kernel, count, &out, 1, in, inputs, NULL, report);
    }
    return status;
}

static kiln_status check(const sample *s, const kiln__proof *proof, kiln_service *service, const kiln__fields *spec,
                         const kiln__watch *watch, kiln_report *report)
{
    const kiln__load *load = &proof->arrays->load;
    const kiln__array *out = &load->arrays[s->output];
    kiln_kernel *reference = NULL;
    kiln_device *cpu;
    kiln__comparer comparer = { .device = NULL };
    kiln__difference found = { 0, 0 };
    kiln__fields wanted;
    kiln__expr room;
    kiln_status status = kiln__proof_cpu_spec(&wanted, &room, spec, report);
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
        status = kiln__compare(&comparer, out, part(s, s->output), part(s, load->count), s->n, &found, report);
    }
    if (status == KILN_OK && found.wrong > 0)
        status = kiln__proof_refuse(spec, "the cpu backend", out, found, report);
    kiln__kernel_release(reference);
    kiln__comparer_fini(&comparer);
    return status;
}

kiln_status kiln__proof_check_sample(const kiln__proof *proof, kiln_service *service, const kiln__fields *spec,
                                     uint32_t output, const kiln__watch *watch, kiln_report *report)
{
    sample s = { .output = output };
    kiln_status status = take_sample(&s, proof, report);
    if (status == KILN_OK)
        status = check(&s, proof, service, spec, watch, report);
    kiln__free(s.memory);
    return status;
}
