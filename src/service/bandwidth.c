#include "service/bandwidth.h"

#include "base/alloc.h"
#include <stdlib.h>

enum {
    COPY_CHUNK_BYTES = 4 << 20, /* of the pattern that the host makes */
    COPY_REPEATS = 4,           /* copies in one sample */
    COPY_SAMPLES = 5
};

typedef struct copy_job {
    kiln_device *device;
    void *to, *from;
    size_t bytes;
} copy_job;

static kiln_status submit_copy(void *data, void *stream)
{
    const copy_job *job = data;
    return job->device->backend->vtable->copy(job->device, job->to, job->from, job->bytes, KILN__COPY_ON_DEVICE, stream,
                                              NULL);
}

/* Fills the source: memory that was never written may be one page of zeros, and zeros may be compressed. */
static kiln_status fill_source(const copy_job *job)
{
    kiln_device *device = job->device;
    const kiln__backend_vtable *vtable = device->backend->vtable;
    size_t filled = job->bytes < COPY_CHUNK_BYTES ? job->bytes : COPY_CHUNK_BYTES;
    uint32_t *chunk = kiln__alloc(COPY_CHUNK_BYTES);
    uint32_t word = 1;
    if (chunk == NULL)
        return KILN_ENOMEM;
    for (size_t i = 0; i < COPY_CHUNK_BYTES / sizeof(*chunk); i++)
        chunk[i] = word = word * 1664525u + 1013904223u;
    kiln_status status = vtable->copy(device, job->from, chunk, filled, KILN__COPY_TO_DEVICE, NULL, NULL);
    for (size_t more; status == KILN_OK && filled < job->bytes; filled += more) {
        more = filled < job->bytes - filled ? filled : job->bytes - filled;
        status = vtable->copy(device, (char *)job->from + filled, job->from, more, KILN__COPY_ON_DEVICE, NULL, NULL);
    }
    kiln__free(chunk);
    return status == KILN_OK ? vtable->sync(device, NULL) : status;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of several samples, after a first copy that brings in the target's pages. */
static kiln_status time_copies(copy_job *job, double *out)
{
    const kiln__backend_vtable *vtable = job->device->backend->vtable;
    double samples[COPY_SAMPLES], warm;
    kiln_status status = vtable->time(job->device, submit_copy, job, 1, &warm, NULL);
    for (int i = 0; i < COPY_SAMPLES && status == KILN_OK; i++)
        status = vtable->time(job->device, submit_copy, job, COPY_REPEATS, &samples[i], NULL);
    if (status != KILN_OK)
        return status;
    qsort(samples, COPY_SAMPLES, sizeof(*samples), compare_times);
    *out = samples[COPY_SAMPLES / 2];
    return KILN_OK;
}

double kiln__copy_bandwidth(kiln_device *device, size_t bytes)
{
    const kiln__backend_vtable *vtable = device->backend->vtable;
    copy_job job = { device, NULL, NULL, bytes };
    double ms = 0;
    kiln_status status = vtable->alloc(device, &job.to, bytes, NULL);
    if (status == KILN_OK)
        status = vtable->alloc(device, &job.from, bytes, NULL);
    if (status == KILN_OK)
        status = fill_source(&job);
    if (status == KILN_OK)
        status = time_copies(&job, &ms);
    vtable->free(device, job.to);
    vtable->free(device, job.from);
    return status == KILN_OK && ms > 0 ? 2.0 * (double)bytes * COPY_REPEATS / ms / 1e6 : 0;
}
