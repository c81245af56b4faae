/* The cpu backend: kernels are functions of shared objects, which threads run. */
#include "cpu/cpu.h"

#include "backend/backend.h"
#include "base/alloc.h"
#include "os/cpu.h"
#include "os/dylib.h"
#include "os/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* ARGS_BEYOND: null pointers behind the arguments. A twin that reads more than the template declares ends at one of
 * them, and not in the stack. */
enum { ALIGNMENT = 256, HIGH_NUMBER = 4096, NAME_ROOM = 192, ARGS_BEYOND = 8 };

/* Computes blocks begin to end - 1 of the grid, the first direction fastest. */
typedef void (*entry_fn)(unsigned long long begin, unsigned long long end, void *const *args);

struct cpu_backend {
    kiln__backend backend;
    const kiln__log *log;
    kiln__pool *pool;
};

struct cpu_device {
    kiln_device device;
    char model[128];
};

struct kiln__module {
    struct cpu_backend *backend;
    kiln__dylib *library;
    entry_fn entry;
    uint32_t arg_count; /* that the template declares */
};

static kiln_status device_count(kiln__backend *backend, int *out, kiln_report *report)
{
    (void)backend;
    (void)report;
    *out = 1;
    return KILN_OK;
}

static kiln_status device_open(kiln__backend *backend, int ordinal, kiln_device **out, kiln_report *report)
{
    *out = NULL;
    if (ordinal != 0)
        return kiln__fail(report, KILN_ENODEVICE, KILN__STAGE_DEVICE, 0, "no device cpu:%d: there is one, cpu",
                          ordinal);
    struct cpu_device *self = kiln__calloc(1, sizeof(*self));
    if (self == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    self->device.backend = backend;
    kiln__target_parse("cpu", 3, &self->device.target);
    self->device.has_pools = true;
    kiln__text_copy(self->device.name, sizeof(self->device.name), "cpu");
    kiln__cpu_model(self->model, sizeof(self->model));
    *out = &self->device;
    return KILN_OK;
}

static void device_close(kiln_device *device)
{
    kiln__free(device);
}

static void device_info(const kiln_device *device, kiln_device_info *out)
{
    out->name = device->name;
    out->model = ((const struct cpu_device *)device)->model;
    out->target = device->target.name;
    out->memory_bytes = kiln__cpu_memory_bytes();
    out->multiprocessors = kiln__cpu_count();
    out->l2_bytes = kiln__cpu_cache_bytes();
}

static uint64_t free_memory(kiln_device *device)
{
    (void)device;
    return kiln__cpu_memory_free("");
}

/* Where names begin: a descriptor's number as high as the host will hardly need. */
static int first_number(void)
{
    struct rlimit limit;
    bool bounded = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)2 * HIGH_NUMBER;
    return bounded ? (int)(limit.rlim_cur / 2) : HIGH_NUMBER;
}

static atomic_uint_least64_t last_name; /* names belong to the process, as the loader does */

/* "/proc/self/fd" and the descriptor's number: all such paths lead to the same file. The count makes each another
 * name, each bit of it as "/" or "/.". */
static void spell_name(char path[NAME_ROOM], uint64_t count, int fd)
{
    char *at = stpcpy(path, "/proc/self/fd");
    for (; count > 0; count >>= 1)
        at = stpcpy(at, (count & 1) != 0 ? "/." : "/");
    snprintf(at, (size_t)(path + NAME_ROOM - at), "/%d", fd);
}

/* Names the descriptor's file for dlopen, by a second descriptor, which it gives, or -1. The loader takes an equal
 * name for the same library without looking at the file, so that each load has another name. The loader is asked
 * nevertheless: a second copy of this library in the process counts separately. While the descriptor is open no
 * other thread can load under its number. The name outlives it: profilers and crash reporters, which open loaded
 * libraries by their names, would find under a low number a file that the host has opened since. */
static int name_descriptor(int fd, char path[NAME_ROOM])
{
    int named = fcntl(fd, F_DUPFD_CLOEXEC, first_number());
    do
        spell_name(path, atomic_fetch_add(&last_name, 1), named);
    while (named >= 0 && kiln__dylib_is_loaded(path));
    return named;
}

/* A file in memory needs no directory that can be written and executed. It is complete before it gets a name. */
static kiln__dylib *open_in_memory(const kiln__section *object)
{
    char path[NAME_ROOM], error[256];
    kiln__dylib *library = NULL;
    int fd = memfd_create("kiln", MFD_CLOEXEC);
    if (fd < 0)
        return NULL;
    int named = kiln__file_write(fd, object->data, object->length) == 0 ? name_descriptor(fd, path) : -1;
    close(fd);
    if (named >= 0) {
        library = kiln__dylib_open((const char *const[]){ path, NULL }, error, sizeof(error));
        close(named);
    }
    return library;
}

static int write_file(const char *path, const kiln__section *object)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    /* A umask may have taken the right to read it. */
    int error = fchmod(fd, 0600) != 0 ? -errno : kiln__file_write(fd, object->data, object->length);
    return close(fd) != 0 && error == 0 ? -errno : error;
}

/* 0 or -errno: *out may stay NULL with 0, where the file was there and the loader would not have it. */
static int open_in_directory(const kiln__section *object, kiln__dylib **out, char *reason, size_t size)
{
    char directory[1024], path[sizeof(directory) + sizeof("/" KILN__FILE_OBJECT)];
    int error = kiln__file_make_temporary(directory, sizeof(directory));
    if (error != 0) {
        snprintf(reason, size, "no temporary directory (%s)", strerrordesc_np(-error));
        return error;
    }
    snprintf(path, sizeof(path), "%s/" KILN__FILE_OBJECT, directory);
    error = write_file(path, object);
    if (error == 0) {
        *out = kiln__dylib_open((const char *const[]){ path, NULL }, reason, size);
        error = *out == NULL && errno != ENOENT ? -errno : 0;
    } else {
        snprintf(reason, size, "cannot write a temporary file (%s)", strerrordesc_np(-error));
    }
    kiln__file_remove_directory(directory);
    return error;
}

/* A file that cannot be made is no fault of the object: KILN_ELOAD would have it thrown away. */
static kiln_status open_object(struct cpu_backend *backend, const kiln__section *object, kiln__dylib **out,
                               kiln_report *report)
{
    char reason[384];
    *out = open_in_memory(object);
    if (*out != NULL)
        return KILN_OK;
    kiln__log_line(backend->log, KILN_LOG_DEBUG, "cannot load from memory: using a temporary file");
    int error = open_in_directory(object, out, reason, sizeof(reason));
    if (*out != NULL)
        return KILN_OK;
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_LOAD);
    if (kiln__is_shortage(-error))
        return kiln__fail_shortage(report, KILN__STAGE_LOAD, -error, "load a kernel");
    const bool is_faulty = error == 0 && strstr(reason, "undefined symbol") != NULL; /* wherever it is loaded from */
    return kiln__fail(report, error != 0 ? KILN_EIO : KILN_ELOAD, KILN__STAGE_LOAD, error, "%s%s", reason,
                      is_faulty ? "" : ": /proc, or a TMPDIR that permits writing and execution, is needed");
}

static void unload(kiln__module *module)
{
    if (module == NULL)
        return;
    kiln__dylib_close(module->library);
    kiln__free(module);
}

static kiln_status load(kiln_device *device, const kiln__entry *entry, const kiln__rule *rule, kiln__module **out,
                        bool *used_ptx, kiln_report *report)
{
    const kiln__section *object = kiln__entry_find(entry, "object");
    *out = NULL;
    if (used_ptx != NULL)
        *used_ptx = false;
    char reason[KILN__ELF_REASON_SIZE] = "it has no shared object (section 'object')";
    if (object == NULL || !kiln__cc_check_object(object->data, object->length, reason))
        return kiln__fail(report, KILN_ELOAD, KILN__STAGE_LOAD, 0, "the entry cannot be loaded on the cpu: %s", reason);
    kiln__module *module = kiln__calloc(1, sizeof(*module));
    if (module == NULL)
        return kiln__fail_memory(report, KILN__STAGE_LOAD);
    module->backend = (struct cpu_backend *)device->backend;
    module->arg_count = rule->arg_count;
    kiln_status status = open_object(module->backend, object, &module->library, report);
    if (status == KILN_OK) {
        /* POSIX lets an object pointer carry a function; ISO C has no cast for it. */
        void *symbol = kiln__dylib_symbol(module->library, "kiln_cpu");
        memcpy(&module->entry, &symbol, sizeof(symbol));
        if (symbol == NULL)
            status = kiln__fail(report, KILN_ELOAD, KILN__STAGE_LOAD, 0, "the shared object has no symbol 'kiln_cpu'");
    }
    if (status == KILN_OK)
        *out = module;
    else
        unload(module);
    return status;
}

struct launch {
    entry_fn entry;
    void **args;
};

static void run_blocks(void *data, uint64_t begin, uint64_t end)
{
    const struct launch *launch = data;
    launch->entry(begin, end, launch->args);
}

static kiln_status launch(kiln__module *module, uint32_t entry, const uint32_t grid[3], void **args, void *stream,
                          kiln_report *report)
{
    void *given[KILN__ARGS_MAX + ARGS_BEYOND] = { NULL };
    struct launch launch = { module->entry, given };
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    (void)entry;
    (void)stream;
    (void)report;
    memcpy(given, args, module->arg_count * sizeof(*given));
    kiln__pool_run(module->backend->pool, blocks, 1, run_blocks, &launch);
    return KILN_OK;
}

static kiln_status capturing(kiln_device *device, void *stream, bool *out, kiln_report *report)
{
    (void)device;
    (void)stream;
    (void)report;
    *out = false;
    return KILN_OK;
}

static void resources(const kiln__module *module, int *registers, int *local_bytes)
{
    (void)module;
    *registers = -1;
    *local_bytes = -1;
}

/* Not through kiln__alloc, which cannot align: this is the host's data. */
static kiln_status allocate(kiln_device *device, void **out, size_t bytes, kiln_report *report)
{
    (void)device;
    *out = NULL;
    int error = posix_memalign(out, ALIGNMENT, bytes > 0 ? bytes : 1);
    if (error == 0)
        return KILN_OK;
    *out = NULL;
    return kiln__fail(report, KILN_ENOMEM, KILN__STAGE_DEVICE, error, "no %zu bytes of host memory", bytes);
}

static void release(kiln_device *device, void *memory)
{
    (void)device;
    free(memory);
}

static kiln_status scratch(kiln_device *device, size_t bytes, void *stream, void **out, kiln_report *report)
{
    (void)stream;
    return allocate(device, out, bytes, report);
}

/* A launch has ended when it returns. */
static kiln_status release_scratch(kiln_device *device, void *memory, void *stream, kiln_report *report)
{
    (void)stream;
    (void)report;
    release(device, memory);
    return KILN_OK;
}

static kiln_status copy(kiln_device *device, void *to, const void *from, size_t bytes, kiln__copy_kind kind,
                        void *stream, kiln_report *report)
{
    (void)device;
    (void)stream;
    if (kind < KILN__COPY_TO_DEVICE || kind > KILN__COPY_ON_DEVICE)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0,
                          "%d is no kiln__copy_kind: expected KILN__COPY_TO_DEVICE, _FROM_DEVICE or _ON_DEVICE",
                          (int)kind);
    if (bytes > 0)
        memmove(to, from, bytes);
    return KILN_OK;
}

static kiln_status sync_device(kiln_device *device, kiln_report *report)
{
    (void)device;
    (void)report;
    return KILN_OK;
}

static kiln_status time_submissions(kiln_device *device, kiln__submit submit, void *data, uint32_t repeats, double *out,
                                    kiln_report *report)
{
    (void)device;
    uint64_t begin = kiln__cpu_now_ns();
    for (uint32_t i = 0; i < repeats; i++) {
        kiln_status status = submit(data, NULL);
        /* A launch that failed often shares this report and says more. */
        if (status != KILN_OK && (report == NULL || report->status != status))
            kiln__fail(report, status, KILN__STAGE_DEVICE, 0, "submission %u of %u failed: %s", i + 1, repeats,
                       kiln_status_text(status));
        if (status != KILN_OK)
            return status;
    }
    *out = kiln__cpu_ms(kiln__cpu_now_ns() - begin);
    return KILN_OK;
}

static void close_backend(kiln__backend *backend)
{
    struct cpu_backend *self = (struct cpu_backend *)backend;
    if (self == NULL)
        return;
    kiln__pool_release(self->pool);
    kiln__free(self);
}

kiln__backend *kiln__cpu_open(const char *driver, const kiln__log *log)
{
    (void)driver; /* it has none */
    static const kiln__backend_vtable vtable = { .name = "cpu",
                                                 .cores = "cores",
                                                 .usual_elements = 1 << 22,
                                                 .copy_bytes = 64 << 20,
                                                 .device_count = device_count,
                                                 .device_open = device_open,
                                                 .device_close = device_close,
                                                 .device_info = device_info,
                                                 .free_memory = free_memory,
                                                 .load = load,
                                                 .unload = unload,
                                                 .launch = launch,
                                                 .scratch = scratch,
                                                 .release_scratch = release_scratch,
                                                 .capturing = capturing,
                                                 .resources = resources,
                                                 .alloc = allocate,
                                                 .free = release,
                                                 .copy = copy,
                                                 .sync = sync_device,
                                                 .time = time_submissions,
                                                 .close = close_backend };
    struct cpu_backend *self = kiln__calloc(1, sizeof(*self));
    if (self == NULL)
        return NULL;
    self->backend.vtable = &vtable;
    self->log = log;
    self->pool = kiln__pool_share(kiln__cpu_count() - 1);
    if (self->pool == NULL) {
        close_backend(&self->backend);
        return NULL;
    }
    return &self->backend;
}
