#include "tune/proof.h"

#include "base/alloc.h"
#include "service/get.h"
#include <string.h>

enum { ALIGNMENT = 256, OTHER_POISON = 0x5a };

static void *want_of(const kiln__proof *proof, uint32_t array)
{
    return (char *)proof->want + proof->want_at[array];
}

/* "SPEC is not equal to AGAINST: so many elements differ ..." */
static kiln_status refuse(const kiln__fields *spec, const char *against, const kiln__array *array,
                          kiln__difference found, kiln_report *report)
{
    kiln__text text = { 0 };
    bool flat = kiln__arguments_flat(&spec->template->arguments);
    kiln__spec_format(spec, false, &text);
    kiln_status status = kiln__fail(report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0,
                                    "%s is not equal to %s: %llu elements%s%s differ, the first is %llu",
                                    kiln__text_string(&text), against, (unsigned long long)found.wrong,
                                    flat ? "" : " of ", flat ? "" : array->name, (unsigned long long)found.first);
    kiln__text_fini(&text);
    return status;
}

/* ---- Launches */

typedef struct launching {
    const kiln__arrays *arrays;
    const kiln_kernel *kernel;
    kiln_report *report;
} launching;

static kiln_status submit(void *data, void *stream)
{
    const launching *self = data;
    return kiln__arrays_launch(self->arrays, 0, self->kernel, stream, self->report);
}

/* On the first set; waits. */
static kiln_status launch(const kiln__arrays *arrays, const kiln_kernel *kernel, unsigned char poison,
                          kiln_report *report)
{
    launching work = { arrays, kernel, report };
    kiln_status status = kiln__arrays_poison(arrays, 0, poison, report);
    return status == KILN_OK ? kiln__run_timed(arrays->device, submit, &work, report) : status;
}

static kiln_status compare(const kiln__proof *proof, kiln__proof_result *out, kiln_report *report)
{
    const kiln__load *load = &proof->arrays->load;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < load->count && status == KILN_OK; i++) {
        kiln__difference found;
        if (!load->arrays[i].written)
            continue;
        status = kiln__compare(&proof->comparer, &load->arrays[i], kiln__arrays_in(proof->arrays, 0, i),
                               want_of(proof, i), load->arrays[i].elements, &found, report);
        if (status != KILN_OK || found.wrong == 0)
            continue;
        if (out->array == NULL) {
            out->array = &load->arrays[i];
            out->first = found.first;
        }
        out->wrong += found.wrong;
    }
    return status;
}

kiln_status kiln__proof_check(kiln__proof *proof, kiln_kernel *kernel, kiln__proof_result *out, kiln_report *report)
{
    const kiln__arrays *arrays = proof->arrays;
    bool whole = true;
    *out = (kiln__proof_result){ .first = UINT64_MAX };
    kiln_status status = launch(arrays, kernel, KILN__FILL_POISON, report);
    if (status == KILN_OK)
        status = kiln__arrays_check_guard(arrays, 0, &whole, report);
    if (status == KILN_OK)
        status = compare(proof, out, report);
    out->overrun = !whole;
    return status;
}

/* ---- The reference */

/* Of an elementwise kernel that writes one array: its number. */
static bool find_output(const kiln__load *load, uint32_t *out)
{
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < load->count; i++)
        if (load->arrays[i].written) {
            *out = i;
            outputs++;
        }
    return load->elementwise && outputs == 1;
}

/* The values repeat, so what is right of an elementwise kernel does too. */
static kiln_status check_period(const kiln__proof *proof, const kiln__fields *spec, kiln_report *report)
{
    const kiln__load *load = &proof->arrays->load;
    uint32_t out = 0;
    kiln__difference found;
    if (!find_output(load, &out) || load->elements <= KILN__FILL_PERIOD)
        return KILN_OK;
    const char *want = want_of(proof, out);
    const char *second = want + (uint64_t)KILN__FILL_PERIOD * load->arrays[out].size;
    kiln_status status = kiln__compare(&proof->comparer, &load->arrays[out], second, want,
                                       load->elements - KILN__FILL_PERIOD, &found, report);
    if (status != KILN_OK || found.wrong == 0)
        return status;
    found.first += KILN__FILL_PERIOD;
    return refuse(spec, "itself one period of its inputs before", &load->arrays[out], found, report);
}

/* What is not written keeps the poison, and shows. */
static kiln_status check_again(const kiln__proof *proof, const kiln__fields *spec, const kiln_kernel *kernel,
                               const kiln__watch *watch, kiln_report *report)
{
    kiln__proof_result result = { .array = NULL };
    kiln__watch_tell(watch, true);
    kiln_status status = launch(proof->arrays, kernel, OTHER_POISON, report);
    if (status != KILN_OK)
        return status;
    kiln__watch_tell(watch, false);
    status = compare(proof, &result, report);
    if (status != KILN_OK || result.wrong == 0)
        return status;
    return refuse(spec, "itself in a second launch, or leaves elements as they were", result.array,
                  (kiln__difference){ result.wrong, result.first }, report);
}

static kiln_status keep(const kiln__proof *proof, kiln_report *report)
{
    const kiln__arrays *arrays = proof->arrays;
    const kiln__backend_vtable *vtable = arrays->device->backend->vtable;
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < arrays->load.count && status == KILN_OK; i++)
        if (arrays->load.arrays[i].written)
            status = vtable->copy(arrays->device, want_of(proof, i), kiln__arrays_in(arrays, 0, i),
                                  kiln__arrays_bytes(arrays, i), KILN__COPY_ON_DEVICE, NULL, report);
    return status == KILN_OK ? vtable->sync(arrays->device, report) : status;
}

/* Against the cpu: of a launch that has changed what it read, the set has its first values again. */
static kiln_status check_on_cpu(const kiln__proof *proof, kiln_service *service, const kiln__fields *spec,
                                const kiln__watch *watch, kiln_report *report)
{
    const kiln__arrays *arrays = proof->arrays;
    kiln__operands operands = { .device = arrays->device, .load = &arrays->load };
    const kiln__comparison how = { .most = KILN__FILL_PERIOD, .watch = watch };
    kiln__verdict verdict = { .bound = -1 };
    for (uint32_t i = 0; i < arrays->load.count; i++) {
        operands.before[i] = kiln__arrays_in(arrays, 0, i);
        operands.after[i] = want_of(proof, i);
    }
    kiln_status status = kiln__arrays_restore(arrays, false, report);
    if (status == KILN_OK)
        status = kiln__verify_on_cpu(&verdict, service, spec, &operands, &how, report);
    if (status != KILN_OK || verdict.wrong == 0)
        return status;
    return refuse(spec, verdict.against, verdict.array, (kiln__difference){ verdict.wrong, verdict.first }, report);
}

static kiln_status check_reference(kiln__proof *proof, kiln_service *service, const kiln__fields *spec,
                                   const kiln_kernel *kernel, const kiln__watch *watch, kiln_report *report)
{
    proof->against = kiln__verify_against(spec, &proof->arrays->load, proof->arrays->device);
    if (proof->against != NULL)
        return check_on_cpu(proof, service, spec, watch, report);
    proof->against = "the default variant";
    return check_again(proof, spec, kernel, watch, report);
}

static kiln_status make_reference(kiln__proof *proof, kiln_service *service, const kiln__fields *spec,
                                  const kiln__watch *watch, kiln_report *report)
{
    kiln_device *device = proof->arrays->device;
    kiln_kernel *kernel = NULL;
    bool whole = true;
    kiln_status status = kiln__get_unlisted(&kernel, service, device, spec, report);
    if (status == KILN_OK) {
        kiln__watch_tell(watch, true);
        status = launch(proof->arrays, kernel, KILN__FILL_POISON, report);
    }
    if (status == KILN_OK) {
        kiln__watch_tell(watch, false);
        status = kiln__arrays_check_guard(proof->arrays, 0, &whole, report);
    }
    if (status == KILN_OK && !whole)
        status = kiln__fail(report, KILN_EMISMATCH, KILN__STAGE_DEVICE, 0, "%s writes behind its output", kernel->spec);
    if (status == KILN_OK)
        status = keep(proof, report);
    if (status == KILN_OK)
        status = check_reference(proof, service, spec, kernel, watch, report);
    kiln__kernel_release(kernel);
    return status == KILN_OK ? check_period(proof, spec, report) : status;
}

static uint64_t lay_out(kiln__proof *proof)
{
    const kiln__arrays *arrays = proof->arrays;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < arrays->load.count; i++) {
        proof->want_at[i] = bytes;
        if (arrays->load.arrays[i].written)
            bytes += (kiln__arrays_bytes(arrays, i) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return bytes > 0 ? bytes : 1;
}

kiln_status kiln__proof_init(kiln__proof *out, kiln_service *service, const kiln__fields *spec,
                             const kiln__arrays *arrays, const kiln__watch *watch, kiln_report *report)
{
    kiln_device *device = arrays->device;
    memset(out, 0, sizeof(*out));
    out->arrays = arrays;
    kiln_status status = device->backend->vtable->alloc(device, &out->want, (size_t)lay_out(out), report);
    if (status != KILN_OK)
        out->want = NULL;
    if (status == KILN_OK)
        status = kiln__comparer_init(&out->comparer, service, device, &spec->target, &arrays->load, report);
    return status == KILN_OK ? make_reference(out, service, spec, watch, report) : status;
}

void kiln__proof_fini(kiln__proof *proof)
{
    kiln__comparer_fini(&proof->comparer);
    if (proof->want != NULL)
        proof->arrays->device->backend->vtable->free(proof->arrays->device, proof->want);
    memset(proof, 0, sizeof(*proof));
}
