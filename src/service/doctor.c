#include "service/doctor.h"

#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COPY_GPU_BYTES = 1 << 30,
    COPY_CPU_BYTES = 64 << 20,
    COPY_CHUNK_BYTES = 4 << 20, /* of the pattern that the host makes */
    COPY_REPEATS = 4,           /* copies in one sample */
    COPY_SAMPLES = 5
};

/* One visit: where findings go, and whether the host has heard enough. */
typedef struct exam {
    kiln_service *service;
    kiln_finding_fn fn;
    void *data;
    bool stopped;
} exam;

static void tell(exam *e, kiln_finding finding)
{
    finding.size = sizeof(finding);
    if (!e->stopped)
        e->stopped = e->fn(e->data, &finding) != 0;
}

static void list_targets(const kiln__toolchain *toolchain, kiln__text *out)
{
    kiln__text_append(out, "builds");
    for (uint32_t i = 0; i < toolchain->target_count; i++)
        kiln__text_printf(out, " %s", toolchain->targets[i].name);
}

static void examine_compiler(exam *e, kiln__builder *builder, const char *what, const char *remedy)
{
    kiln_report report = KILN_REPORT_INIT;
    kiln__compiler *compiler = builder->toolchains.compiler;
    kiln__toolchain toolchain;
    kiln__text detail = { 0 };
    memset(&toolchain, 0, sizeof(toolchain));
    kiln_status status = compiler->vtable->identify(compiler, &toolchain, &report);
    if (status == KILN_OK)
        list_targets(&toolchain, &detail);
    tell(e, (kiln_finding){ .what = what,
                            .ok = status == KILN_OK,
                            .name = status == KILN_OK ? toolchain.id : compiler->vtable->name,
                            .path = toolchain.path,
                            .version = toolchain.version,
                            .detail = status == KILN_OK ? kiln__text_string(&detail) : report.message,
                            .remedy = status == KILN_OK ? "" : remedy });
    kiln__text_fini(&detail);
    kiln_report_clear(&report);
}

typedef struct copy_job {
    kiln_device *device;
    void *to, *from;
    size_t bytes;
} copy_job;

static kiln_status submit_copy(void *data, void *stream)
{
    const copy_job *job = data;
    return job->device->backend->vtable->copy(job->device, job->to, job->from, job->bytes, KILN_COPY_ON_DEVICE, stream,
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
    kiln_status status = vtable->copy(device, job->from, chunk, filled, KILN_COPY_TO_DEVICE, NULL, NULL);
    for (size_t more; status == KILN_OK && filled < job->bytes; filled += more) {
        more = filled < job->bytes - filled ? filled : job->bytes - filled;
        status = vtable->copy(device, (char *)job->from + filled, job->from, more, KILN_COPY_ON_DEVICE, NULL, NULL);
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

/* How much to copy: little enough of the memory that nobody is pushed out of it. */
static size_t copy_bytes(const kiln_device *device, uint64_t memory_bytes)
{
    bool cpu = kiln__target_is_cpu(&device->target);
    uint64_t most = cpu ? COPY_CPU_BYTES : COPY_GPU_BYTES, share = memory_bytes / (cpu ? 16 : 8);
    return (size_t)(memory_bytes > 0 && share < most ? share : most);
}

/* Bytes read and written per second by device copies, in GB/s; 0 if it cannot be measured. */
static double copy_bandwidth(kiln_device *device, size_t bytes)
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

static void examine_device(exam *e, const char *name, const char *what)
{
    kiln_report report = KILN_REPORT_INIT;
    kiln_device *device;
    kiln_device_info info = { .size = sizeof(info) };
    char detail[512];
    if (kiln__runtime_device(e->service->runtime, name, &device, &report) != KILN_OK) {
        tell(e, (kiln_finding){ .what = what,
                                .name = name,
                                .path = "",
                                .version = "",
                                .detail = report.message,
                                .remedy = "see what the driver's own tool, nvidia-smi, says of this device" });
        kiln_report_clear(&report);
        return;
    }
    device->backend->vtable->device_info(device, &info);
    size_t bytes = copy_bytes(device, info.memory_bytes);
    double gbps = copy_bandwidth(device, bytes);
    snprintf(detail, sizeof(detail), "%s, %s, %.1f GiB, %u %s", info.model, info.target,
             (double)info.memory_bytes / (1 << 30), info.multiprocessors,
             kiln__target_is_cpu(&device->target) ? "cores" : "multiprocessors");
    size_t used = strlen(detail);
    if (gbps > 0)
        snprintf(detail + used, sizeof(detail) - used, ", copies of %zu MiB at %.0f GB/s", bytes >> 20, gbps);
    else
        snprintf(detail + used, sizeof(detail) - used, ", copy bandwidth could not be measured");
    tell(e, (kiln_finding){ .what = what,
                            .ok = 1,
                            .name = name,
                            .path = "",
                            .version = "",
                            .detail = detail,
                            .remedy = gbps > 0 ? "" : "free some of the device's memory and try again" });
}

/* Returns how many GPUs there are to examine. */
static int examine_driver(exam *e)
{
    kiln_report report = KILN_REPORT_INIT;
    kiln__backend *cuda = e->service->runtime->cuda;
    const char *path = "";
    int version = 0, count = 0;
    char text[32] = "", detail[64];
    kiln_status status = cuda->vtable->device_count(cuda, &count, &report);
    kiln__cuda_driver_facts(cuda, &path, &version);
    if (version > 0)
        snprintf(text, sizeof(text), "CUDA %d.%d", version / 1000, version % 1000 / 10);
    snprintf(detail, sizeof(detail), "%d GPU%s", count, count == 1 ? "" : "s");
    tell(e, (kiln_finding){ .what = "CUDA driver",
                            .ok = status == KILN_OK,
                            .name = "libcuda",
                            .path = path,
                            .version = text,
                            .detail = status == KILN_OK ? detail : report.message,
                            .remedy = status == KILN_OK
                                          ? ""
                                          : "to run on a GPU, install NVIDIA's driver (CUDA 12.0 or later), or "
                                            "name libcuda.so.1 in KILN_LIBCUDA; compiling ahead needs no driver" });
    kiln_report_clear(&report);
    return status == KILN_OK ? count : 0;
}

typedef struct tally {
    uint64_t entries, bytes, damaged, untrusted;
} tally;

static int count_entry(void *data, const kiln__store_item *item)
{
    tally *sum = data;
    sum->entries++;
    sum->bytes += item->bytes;
    sum->untrusted += item->untrusted;
    sum->damaged += item->entry == NULL && !item->untrusted;
    return 0;
}

static void examine_cache(exam *e)
{
    const kiln_service *service = e->service;
    char detail[320];
    const char *remedy = "";
    bool ok = false;
    tally sum = { 0 };
    if (service->disk == NULL) {
        snprintf(detail, sizeof(detail), "%s",
                 service->cache_problem[0] != '\0' ? service->cache_problem : "switched off");
        remedy =
            "every process compiles anew: set KILN_CACHE_DIR to a directory that you own and nobody else can write";
    } else {
        int probe = kiln__disk_store_probe(service->disk);
        kiln__disk_store_visit(service->disk, count_entry, &sum);
        ok = probe == 0 && sum.damaged + sum.untrusted == 0;
        snprintf(detail, sizeof(detail), "%llu entries, %.1f MiB, %llu damaged, %llu untrusted, %s%s",
                 (unsigned long long)sum.entries, (double)sum.bytes / (1 << 20), (unsigned long long)sum.damaged,
                 (unsigned long long)sum.untrusted,
                 probe == 0 ? "writable" : "not writable: ", probe == 0 ? "" : strerror(-probe));
        if (probe != 0)
            remedy = "stored kernels are used but no new ones kept: free space or permissions, or set KILN_CACHE_DIR";
        else if (sum.untrusted > 0)
            remedy = "untrusted entries (links, another owner, writable by others) are never used; kiln cache verify "
                     "names them, kiln cache purge --damaged removes them";
        else if (sum.damaged > 0)
            remedy = "damaged entries are compiled again when asked for; kiln cache purge --damaged removes them now";
    }
    tell(e, (kiln_finding){ .what = "cache",
                            .ok = ok,
                            .name = "user store",
                            .path = service->cache_dir,
                            .version = "",
                            .detail = detail,
                            .remedy = remedy });
}

kiln_status kiln__doctor(kiln_service *service, kiln_finding_fn fn, void *data)
{
    exam e = { service, fn, data, false };
    char name[16];
    examine_compiler(&e, &service->nvrtc, "NVRTC",
                     "to compile for GPUs, install the CUDA toolkit, or NVIDIA's wheel nvidia-cuda-nvrtc and name its "
                     "libnvrtc.so.13 in KILN_NVRTC");
    int count = examine_driver(&e);
    for (int i = 0; i < count && i < KILN__DEVICES_MAX && !e.stopped; i++) {
        snprintf(name, sizeof(name), "cuda:%d", i);
        examine_device(&e, name, "GPU");
    }
    examine_compiler(&e, &service->cc, "C compiler",
                     "for the cpu backend, install gcc or clang, or name one in KILN_CC");
    if (!e.stopped)
        examine_device(&e, "cpu", "cpu");
    if (!e.stopped)
        examine_cache(&e);
    return KILN_OK;
}
