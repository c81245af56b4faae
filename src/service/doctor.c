/* The doctor: examines compilers, devices and stores, and says what to do about what does not work. */
#include "base/alloc.h"
#include "gpu/cuda.h"
#include "jit/worker/workers.h"
#include "service/service.h"
#include "store/pack.h"
#include "store/remote.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One examination. `stopped`: the host wants no more findings. */
typedef struct exam {
    kiln_service *service;
    kiln_finding_fn fn;
    void *data;
    bool stopped;
} exam;

/* Path, version and remedy may be NULL: there is none. With a report, which is cleared, the remedy is for a failure
 * alone, and the report's message is then the detail. */
static void tell(exam *e, kiln_finding finding, kiln_report *report)
{
    const char **texts[] = { &finding.path, &finding.version, &finding.remedy };
    if (report != NULL && finding.ok)
        finding.remedy = NULL;
    else if (report != NULL)
        finding.detail = report->message;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (*texts[i] == NULL)
            *texts[i] = "";
    finding.size = sizeof(finding);
    if (!e->stopped)
        e->stopped = e->fn(e->data, &finding) != 0;
    if (report != NULL)
        kiln_report_clear(report);
}

static void examine_compiler(exam *e, kiln__builder *builder, const char *what, const char *remedy)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__compiler *compiler = builder->toolchains.compiler;
    kiln__toolchain toolchain;
    kiln__text detail = { 0 };
    memset(&toolchain, 0, sizeof(toolchain));
    bool ok = compiler->vtable->identify(compiler, &toolchain, &report) == KILN_OK;
    kiln__text_append(&detail, "builds");
    for (uint32_t i = 0; i < toolchain.target_count; i++)
        kiln__text_printf(&detail, " %s", toolchain.targets[i].name);
    tell(e,
         (kiln_finding){ .what = what,
                         .ok = ok,
                         .name = ok ? toolchain.id : compiler->vtable->name,
                         .path = toolchain.path,
                         .version = toolchain.version,
                         .detail = kiln__text_string(&detail),
                         .remedy = remedy },
         &report);
    kiln__text_fini(&detail);
}

/* The headers that sources may include. */
static void examine_headers(exam *e)
{
    const char *place = NULL, *path;
    kiln__compiler *compiler = e->service->builders[KILN__BACKEND_CUDA].toolchains.compiler;
    kiln__toolchain toolchain;
    kiln__list places = { 0 };
    bool known = compiler->vtable->open(compiler, &toolchain, NULL) == KILN_OK;
    kiln__cuda_find_headers(known ? toolchain.path : "", &places);
    while (!places.bytes.failed && !e->stopped && kiln__list_next_pair(&places, &place, &path)) {
        char version[KILN__HEADERS_VERSION_SIZE];
        bool cuda = strcmp(place, "cuda") == 0, found = kiln__cuda_headers_facts(place, path, version);
        tell(e,
             (kiln_finding){ .what = "headers",
                             .ok = found,
                             .name = cuda ? "CUDA" : "CCCL",
                             .path = found ? path : NULL,
                             .version = version,
                             .detail = cuda ? "sources may include cuda_fp16.h, mma.h and the like"
                                            : "sources may include cooperative_groups.h, cub, thrust and <tuple>",
                             .remedy = found  ? NULL
                                       : cuda ? "install the CUDA toolkit or the wheel nvidia-cuda-runtime beside "
                                                "NVRTC, or name a toolkit in CUDA_PATH"
                                              : "install the CUDA toolkit or the wheel nvidia-cuda-cccl, of the major "
                                                "version of CUDA's headers, or name a toolkit in CUDA_PATH" },
             NULL);
    }
    kiln__list_fini(&places);
}

/* A missing linker is a finding that only linking minds. */
static void examine_linker(exam *e, kiln__builder *builder)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__compiler *compiler = builder->toolchains.compiler;
    kiln__toolchain toolchain;
    kiln__list files = { 0 };
    char version[32] = "";
    if (compiler->vtable->open(compiler, &toolchain, NULL) != KILN_OK)
        return;
    bool ok = compiler->vtable->linker(compiler, &toolchain, &files, &report) == KILN_OK &&
              kiln__cuda_linker_version(&files, toolchain.version, version, sizeof(version), &report) == KILN_OK;
    tell(e,
         (kiln_finding){ .what = "linker",
                         .ok = ok,
                         .name = "nvJitLink",
                         .path = kiln__list_next(&files, NULL),
                         .version = version,
                         .detail = files.count > 1 ? "links relocatable code, with libcudadevrt.a"
                                                   : "links relocatable code, without libcudadevrt.a: kernels that "
                                                     "launch kernels need it",
                         .remedy = "only sources of several files or with -rdc=true, -dc or -dlto need it: install the "
                                   "nvJitLink of this NVRTC" },
         &report);
    kiln__list_fini(&files);
}

static void examine_worker(exam *e)
{
    kiln_report report = KILN_INIT(kiln_report);
    char path[PATH_MAX];
    bool ok = kiln__workers_examine(e->service->workers, path, sizeof(path), &report) == KILN_OK;
    tell(e,
         (kiln_finding){ .what = "compile worker",
                         .ok = ok,
                         .name = "kiln-worker",
                         .path = path,
                         .version = ok ? kiln_version() : NULL,
                         .detail = "compiles source from elsewhere, and helps when many kernels compile",
                         .remedy = "source from elsewhere cannot be compiled, and many kernels take longer: install "
                                   "the kiln-worker of this libkiln, or name it in KILN_WORKER" },
         &report);
}

/* ---- Devices */

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

/* Bytes read and written per second by device copies of that length, in GB/s: the median of several samples, after
 * a first copy that brings in the target's pages. 0 if it cannot be measured. Takes about a second and twice the
 * memory. */
static double measure_bandwidth(kiln_device *device, size_t bytes)
{
    const kiln__backend_vtable *vtable = device->backend->vtable;
    copy_job job = { device, NULL, NULL, bytes };
    double samples[COPY_SAMPLES] = { 0 }, warm;
    kiln_status status = vtable->alloc(device, &job.to, bytes, NULL);
    if (status == KILN_OK)
        status = vtable->alloc(device, &job.from, bytes, NULL);
    if (status == KILN_OK)
        status = fill_source(&job);
    if (status == KILN_OK)
        status = vtable->time(device, submit_copy, &job, 1, &warm, NULL);
    for (int i = 0; i < COPY_SAMPLES && status == KILN_OK; i++)
        status = vtable->time(device, submit_copy, &job, COPY_REPEATS, &samples[i], NULL);
    vtable->free(device, job.to);
    vtable->free(device, job.from);
    qsort(samples, COPY_SAMPLES, sizeof(*samples), compare_times);
    double ms = samples[COPY_SAMPLES / 2];
    return status == KILN_OK && ms > 0 ? 2.0 * (double)bytes * COPY_REPEATS / ms / 1e6 : 0;
}

static void examine_device(exam *e, const char *name, const char *what)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_device *device;
    kiln_device_info info = KILN_INIT(kiln_device_info);
    char detail[512];
    if (kiln__runtime_device(e->service->runtime, name, &device, &report) != KILN_OK) {
        tell(e,
             (kiln_finding){ .what = what,
                             .name = name,
                             .remedy = "see what the driver's own tool, nvidia-smi, says of this device" },
             &report);
        return;
    }
    device->backend->vtable->device_info(device, &info);
    /* A sixteenth of the memory, so that no other program is pushed out of it. */
    uint64_t bytes = device->backend->vtable->copy_bytes, share = info.memory_bytes / 16;
    if (share > 0 && share < bytes)
        bytes = share;
    double gbps = measure_bandwidth(device, (size_t)bytes);
    snprintf(detail, sizeof(detail), "%s, %s, %.1f GiB, %u %s", info.model, info.target,
             (double)info.memory_bytes / (1 << 30), info.multiprocessors, device->backend->vtable->cores);
    size_t used = strlen(detail);
    if (gbps > 0)
        snprintf(detail + used, sizeof(detail) - used, ", copies of %zu MiB at %.0f GB/s", (size_t)(bytes >> 20), gbps);
    else
        snprintf(detail + used, sizeof(detail) - used, ", copy bandwidth could not be measured");
    tell(e,
         (kiln_finding){ .what = what,
                         .ok = 1,
                         .name = name,
                         .detail = detail,
                         .remedy = gbps > 0 ? NULL : "free some of the device's memory and try again" },
         NULL);
}

/* Returns how many GPUs there are to examine. */
static int examine_driver(exam *e)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__backend *cuda = e->service->runtime->backends[KILN__BACKEND_CUDA];
    const char *path = "";
    int version = 0, count = 0;
    char text[32] = "", detail[64];
    kiln_status status = cuda->vtable->device_count(cuda, &count, &report);
    kiln__cuda_driver_facts(cuda, &path, &version);
    char *file = path[0] != '\0' ? realpath(path, NULL) : NULL; /* whose name tells the driver's own version */
    if (version > 0)
        snprintf(text, sizeof(text), "CUDA %d.%d", version / 1000, version % 1000 / 10);
    snprintf(detail, sizeof(detail), "%d GPU%s", count, count == 1 ? "" : "s");
    tell(e,
         (kiln_finding){ .what = "CUDA driver",
                         .ok = status == KILN_OK,
                         .name = "libcuda",
                         .path = file != NULL ? file : path,
                         .version = text,
                         .detail = detail,
                         .remedy = "to run on a GPU, install NVIDIA's driver (CUDA 12.0 or later), or name "
                                   "libcuda.so.1 in KILN_LIBCUDA; compiling ahead needs no driver" },
         &report);
    free(file);
    return status == KILN_OK ? count : 0;
}

/* ---- Stores */

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

/* Room for a described tally, and for a problem. */
enum { DETAIL_SIZE = 320 };

static void describe_tally(char out[DETAIL_SIZE], const tally *sum, const char *end)
{
    snprintf(out, DETAIL_SIZE, "%llu entries, %.1f MiB, %llu damaged, %llu untrusted, %s",
             (unsigned long long)sum->entries, (double)sum->bytes / (1 << 20), (unsigned long long)sum->damaged,
             (unsigned long long)sum->untrusted, end);
}

static void examine_cache(exam *e)
{
    const kiln_service *service = e->service;
    char detail[DETAIL_SIZE], end[160] = "writable";
    const char *remedy = NULL;
    tally sum = { 0 };
    int probe = service->disk != NULL ? kiln__disk_store_probe(service->disk) : 0;
    if (service->disk != NULL)
        kiln__disk_store_visit(service->disk, count_entry, &sum);
    if (probe == 1)
        kiln__text_copy(end, sizeof(end), "empty: the first kernel makes its directories");
    else if (probe != 0)
        snprintf(end, sizeof(end), "not writable: %s", strerrordesc_np(-probe));
    if (service->disk != NULL)
        describe_tally(detail, &sum, end);
    else
        kiln__text_copy(detail, sizeof(detail), service->cache_problem);
    if (service->disk == NULL)
        remedy =
            "every process compiles anew: set KILN_CACHE_DIR to a directory that you own and no other user can write";
    else if (probe < 0)
        remedy = "stored kernels are used but no new ones kept: free space or permissions, or set KILN_CACHE_DIR";
    else if (sum.untrusted > 0)
        remedy = "untrusted entries (links, another owner, writable by others) are never used; kiln cache verify "
                 "names them, kiln cache purge --damaged removes them";
    else if (sum.damaged > 0)
        remedy = "damaged entries are compiled again when asked for; kiln cache purge --damaged removes them now";
    tell(e,
         (kiln_finding){ .what = "cache",
                         .ok = remedy == NULL,
                         .name = "user store",
                         .path = service->cache_dir,
                         .detail = detail,
                         .remedy = remedy },
         NULL);
}

/* Reads and checks each entry of a pack. Opens the pack once more, so that the service counts neither uses nor
 * damage. */
static void count_pack(tally *sum, const char *path, unsigned trust, char *problem, size_t size)
{
    kiln__store_counters counters = { .trust = trust };
    kiln__store *pack;
    if (kiln__pack_store_open(&pack, path, NULL, &counters, problem, size) != 0)
        return;
    sum->entries = kiln__pack_store_count(pack);
    for (size_t i = 0; i < sum->entries; i++) {
        kiln__blob *blob;
        kiln__pack_store_at(pack, i, &blob);
        sum->bytes += blob != NULL ? blob->length : 0;
        sum->damaged += blob == NULL;
        kiln__blob_release(blob);
    }
    pack->vtable->close(pack);
}

/* A pack or the shared directory: the service only reads them. */
static void examine_named(exam *e, const kiln__named_store *named)
{
    bool pack = named->origin == KILN_ORIGIN_PACK;
    const char *slash = strrchr(named->path, '/'), *remedy = NULL;
    int error = 0;
    char problem[sizeof(named->problem)], detail[DETAIL_SIZE];
    tally sum = { 0 };
    kiln__text_copy(problem, sizeof(problem), named->problem);
    if (named->store != NULL && pack)
        count_pack(&sum, named->path, e->service->store_counters.trust, problem, sizeof(problem));
    else if (named->store != NULL)
        error = kiln__disk_store_visit(named->store, count_entry, &sum);
    if (error < 0)
        kiln__text_copy(problem, sizeof(problem), strerrordesc_np(-error));
    if (problem[0] != '\0')
        remedy = pack ? "what it holds is compiled: check its path in KILN_PACKS, and that it is yours or root's and "
                        "writable by no other user; kiln cache export writes packs"
                      : "what it holds is compiled: check its path in KILN_SHARED_DIR, and that it is yours or root's "
                        "and writable by no other user";
    else if (sum.damaged + sum.untrusted > 0)
        remedy = pack ? "damaged entries are compiled when asked for: write the pack again with kiln cache export"
                      : "damaged and untrusted entries are compiled when asked for: let the owner remove them with "
                        "kiln cache purge --damaged";
    describe_tally(detail, &sum, "only read");
    tell(e,
         (kiln_finding){ .what = pack ? "pack" : "shared",
                         .ok = remedy == NULL,
                         .name = pack ? (slash != NULL ? slash + 1 : named->path) : "shared store",
                         .path = named->path,
                         .detail = problem[0] != '\0' ? problem : detail,
                         .remedy = remedy },
         NULL);
}

/* The remote: asked one question. */
static void examine_remote(exam *e)
{
    kiln__store *remote = e->service->tiers.remote;
    const char *problem = e->service->remote_problem, *detail = problem;
    if (remote == NULL && problem[0] == '\0')
        return;
    const int error = remote != NULL ? kiln__remote_ping(remote) : 0;
    if (remote != NULL)
        detail = error != 0                       ? kiln__remote_error_text(error)
                 : kiln__remote_is_signed(remote) ? "answers; there is a secret to sign entries"
                                                  : "answers; entries need no signature, and nothing is pushed";
    tell(e,
         (kiln_finding){ .what = "remote",
                         .ok = remote != NULL && error == 0,
                         .name = "remote",
                         .path = remote != NULL ? remote->path : "",
                         .detail = detail,
                         .remedy = remote == NULL ? "kernels of other machines are compiled here: see KILN_REMOTE and "
                                                    "KILN_REMOTE_SECRET"
                                   : error != 0 ? "kernels of other machines are compiled here: check the server, and "
                                                  "its URL in KILN_REMOTE"
                                                : NULL },
         NULL);
}

/* A daemon that listens, or would. Without one nothing is told: each process compiles. */
static void examine_daemon(exam *e)
{
    const char *why = "", *socket = e->service->daemon != NULL ? kiln__daemon_socket(e->service->daemon) : "";
    const int error = socket[0] != '\0' ? kiln__daemon_probe(socket, &why) : -ENOENT;
    if (error == -ENOENT || error == -ECONNREFUSED)
        return;
    tell(e,
         (kiln_finding){ .what = "daemon",
                         .ok = error == 0,
                         .name = "kiln serve",
                         .path = socket,
                         .detail = error == 0       ? "answers; kiln status has its figures"
                                   : why[0] != '\0' ? why
                                                    : strerrordesc_np(-error),
                         .remedy = error == 0 ? NULL
                                              : "each process compiles by itself: name another path in "
                                                "KILN_SOCKET, or end the program that listens there" },
         NULL);
}

void kiln__doctor(kiln_service *service, kiln_finding_fn fn, void *data)
{
    exam e = { service, fn, data, false };
    char name[16];
    examine_compiler(&e, &service->builders[KILN__BACKEND_CUDA], "NVRTC",
                     "to compile for GPUs, install the CUDA toolkit, or NVIDIA's wheel nvidia-cuda-nvrtc and name its "
                     "libnvrtc.so.13 in KILN_NVRTC");
    if (!e.stopped)
        examine_headers(&e);
    if (!e.stopped)
        examine_linker(&e, &service->builders[KILN__BACKEND_CUDA]);
    if (!e.stopped)
        examine_worker(&e);
    int count = examine_driver(&e);
    for (int i = 0; i < count && i < KILN__DEVICES_MAX && !e.stopped; i++) {
        snprintf(name, sizeof(name), "cuda:%d", i);
        examine_device(&e, name, "GPU");
    }
    examine_compiler(&e, &service->builders[KILN__BACKEND_CPU], "C compiler",
                     "for the cpu backend, install gcc or clang, or name one in KILN_CC");
    if (!e.stopped)
        examine_device(&e, "cpu", "cpu");
    if (!e.stopped)
        examine_cache(&e);
    for (const kiln__named_store *named = service->named; named != NULL && !e.stopped; named = named->next)
        examine_named(&e, named);
    if (!e.stopped)
        examine_remote(&e);
    if (!e.stopped)
        examine_daemon(&e);
}
