#include "tune/ceiling.h"

#include "service/get.h"
#include <string.h>

/* The copy kernel moves words of four bytes, of whatever type the values are. */
enum { WORD = 4 };

static kiln_status get_kernel(kiln__ceiling *ceiling, kiln_service *service, const kiln__target *target,
                              kiln_report *report)
{
    kiln_spec *spec;
    kiln__text text = { 0 };
    kiln__text_printf(&text, "op=copy dtype=f32 target=%s", target->name);
    kiln_status status = text.failed ? kiln__fail_memory(report, KILN__STAGE_SPEC)
                                     : kiln__spec_parse(&spec, &service->catalog, text.data, report);
    kiln__text_fini(&text);
    if (status != KILN_OK)
        return status;
    status = kiln__get_unlisted(&ceiling->kernel, service, ceiling->arrays->device, &spec->fields, report);
    kiln__spec_release(spec);
    return status;
}

kiln_status kiln__ceiling_init(kiln__ceiling *out, kiln_service *service, const kiln__arrays *arrays,
                               const kiln__target *target, kiln_report *report)
{
    uint64_t wanted = arrays->load.bytes / 2, most = arrays->set_bytes / 2;
    *out = (kiln__ceiling){ .arrays = arrays,
                            .bytes = (wanted < most ? wanted : most) / WORD * WORD,
                            .pace = { .tapes = true, .cycle = arrays->sets } };
    if (out->bytes == 0)
        out->bytes = WORD;
    out->scale = wanted > most ? (double)wanted / (double)out->bytes : 1;
    return get_kernel(out, service, target, report);
}

void kiln__ceiling_fini(kiln__ceiling *ceiling)
{
    for (int copy = 0; copy < KILN__COPIES; copy++)
        kiln__gauge_fini(ceiling->arrays != NULL ? ceiling->arrays->device : NULL, &ceiling->gauges[copy]);
    kiln__kernel_release(ceiling->kernel);
    memset(ceiling, 0, sizeof(*ceiling));
}

/* The halves of the next set. */
static void next_halves(kiln__ceiling *ceiling, void **to, const void **from)
{
    const kiln__arrays *arrays = ceiling->arrays;
    ceiling->set = (ceiling->set + 1) % arrays->sets;
    *from = kiln__arrays_in(arrays, ceiling->set, 0);
    *to = (char *)kiln__arrays_in(arrays, ceiling->set, 0) + arrays->set_bytes / 2;
}

static kiln_status submit_copy(void *data, void *stream)
{
    kiln__ceiling *ceiling = data;
    kiln_device *device = ceiling->arrays->device;
    const void *from;
    void *to;
    next_halves(ceiling, &to, &from);
    return device->backend->vtable->copy(device, to, from, ceiling->bytes, KILN__COPY_ON_DEVICE, stream,
                                         ceiling->report);
}

static kiln_status submit_kernel(void *data, void *stream)
{
    kiln__ceiling *ceiling = data;
    const void *from;
    void *to;
    next_halves(ceiling, &to, &from);
    return kiln__kernel_launch_n(ceiling->kernel, ceiling->bytes / WORD, &to, 1, &from, 1, stream, ceiling->report);
}

kiln_status kiln__ceiling_sample(kiln__ceiling *ceiling, size_t copy, double *ms, kiln_report *report)
{
    const kiln_contender contender = { copy == 0 ? submit_copy : submit_kernel, ceiling };
    kiln_device *device = ceiling->arrays->device;
    kiln_status status = KILN_OK;
    ceiling->report = report;
    if (ceiling->gauges[copy].repeats == 0)
        status = kiln__measure_settle(device, &contender, &ceiling->pace, &ceiling->gauges[copy], report);
    if (status == KILN_OK)
        status = kiln__measure_sample(device, &contender, &ceiling->pace, &ceiling->gauges[copy], ms, report);
    if (status != KILN_OK)
        return status;
    *ms *= ceiling->scale;
    /* a copy that falls on whole numbers makes indices of what is none */
    return ceiling->arrays->load.whole ? kiln__arrays_restore(ceiling->arrays, true, report) : KILN_OK;
}
