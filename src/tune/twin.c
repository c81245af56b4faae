/* The reference against the cpu twin, on the same values: whole, since any part of a result may come from any part of the
 * arrays. */
#include "base/alloc.h"
#include "tune/proof.h"

/* Not the device's, so that what neither writes is not equal. */
enum { TWIN_POISON = 0x3c };

typedef struct twin {
    const kiln__proof *proof;
    kiln_device *cpu;
    kiln_kernel *kernel;
    kiln__arrays arrays; /* of the cpu */
    kiln__comparer comparer;
    kiln_report *report;
} twin;

static kiln_status submit(void *data, void *stream)
{
    const twin *self = data;
    return kiln__arrays_launch(&self->arrays, 0, self->kernel, stream, self->report);
}

/* The values are the same on every device, so that they need not be copied; the result is. Nobody watches: this may take longer
 * than any launch should. */
static kiln_status compute(twin *self, kiln_service *service, const kiln__fields *spec)
{
    const kiln__load *load = &self->proof->arrays->load;
    char problem[256];
    kiln__fields wanted;
    kiln__expr room;
    kiln_status status = kiln__proof_cpu_spec(&wanted, &room, spec, self->report);
    if (status == KILN_OK)
        status = kiln__runtime_device(service->runtime, "cpu", &self->cpu, self->report);
    if (status == KILN_OK)
        status = kiln__service_get_unlisted(service, NULL, &wanted, &self->kernel, self->report);
    if (status == KILN_OK && !kiln__workload_fits(load, self->kernel->plan, problem, sizeof(problem)))
        status = kiln__fail(self->report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0, "the cpu twin: %s", problem);
    if (status == KILN_OK)
        status = kiln__arrays_init(&self->arrays, self->cpu, load, true, self->report);
    if (status == KILN_OK)
        status = kiln__arrays_poison(&self->arrays, 0, TWIN_POISON, self->report);
    if (status == KILN_OK)
        status = kiln__comparer_init(&self->comparer, service, self->cpu, &wanted.target, load, self->report);
    return status == KILN_OK ? kiln__run_timed(self->cpu, submit, self, self->report) : status;
}

static kiln_status compare_array(const twin *self, const kiln__fields *spec, uint32_t i)
{
    const kiln__array *array = &self->proof->arrays->load.arrays[i];
    kiln_device *device = self->proof->arrays->device;
    uint64_t bytes = kiln__arrays_bytes(&self->arrays, i);
    kiln__difference found = { 0, 0 };
    void *host = kiln__calloc(1, bytes);
    kiln_status status = host == NULL ? kiln__fail_memory(self->report, KILN__STAGE_DEVICE) : KILN_OK;
    if (status == KILN_OK)
        status = device->backend->vtable->copy(device, host, kiln__proof_want(self->proof, i), bytes,
                                               KILN__COPY_FROM_DEVICE, NULL, self->report);
    if (status == KILN_OK)
        status = kiln__compare(&self->comparer, array, host, kiln__arrays_in(&self->arrays, 0, i), array->elements,
                               &found, self->report);
    if (status == KILN_OK && found.wrong > 0)
        status = kiln__proof_refuse(spec, "the cpu twin", array, found, self->report);
    kiln__free(host);
    return status;
}

kiln_status kiln__proof_check_twin(const kiln__proof *proof, kiln_service *service, const kiln__fields *spec,
                                   kiln_report *report)
{
    twin self = { .proof = proof, .report = report };
    kiln_status status = compute(&self, service, spec);
    for (uint32_t i = 0; i < proof->arrays->load.count && status == KILN_OK; i++)
        if (proof->arrays->load.arrays[i].written)
            status = compare_array(&self, spec, i);
    kiln__kernel_release(self.kernel);
    kiln__comparer_fini(&self.comparer);
    kiln__arrays_fini(&self.arrays);
    return status;
}
