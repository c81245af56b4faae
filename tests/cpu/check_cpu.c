#include "backend/backend.h"
#include "base/alloc.h"
#include "os/cpu.h"
#include "support/cpu_unit.h"
#include "support/fields.h"
#include "support/flat.h"
#include "support/refuse.h"
#include "support/sanitized.h"
#include "support/shortage.h"
#include "support/suites.h"
#include "support/temp.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static kiln__backend *backend;
static kiln_device *device;

static void open_all(void)
{
    open_compiler();
    backend = kiln__cpu_open(NULL, NULL);
    ck_assert_ptr_nonnull(backend);
    ck_assert_int_eq(backend->vtable->device_open(backend, 0, &device, &report), KILN_OK);
}

static void close_all(void)
{
    device->backend->vtable->device_close(device);
    backend->vtable->close(backend);
    close_compiler();
}

static _Atomic uint64_t loaded_tile; /* of the module that was loaded last: threads load equal tiles */

static kiln_status load(const void *object, size_t length, uint64_t tile, kiln__module **out)
{
    kiln__entry entry = { .kind = KILN__ENTRY_KERNEL };
    kiln__rule rule = kiln_test_cpu_unit("", tile).rule;
    bool used_ptx = true;
    loaded_tile = tile;
    ck_assert(kiln__entry_add(&entry, "object", object, length));
    kiln_status status = backend->vtable->load(device, &entry, &rule, out, &used_ptx, &report);
    ck_assert(!used_ptx);
    ck_assert((status == KILN_OK) == (*out != NULL));
    return status;
}

static kiln__module *build(const char *source, uint64_t tile)
{
    kiln__module *module = NULL;
    kiln__image image = compile(source);
    kiln_status status = load(image.binary, image.binary_length, tile, &module);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    kiln__image_fini(&image);
    return module;
}

static kiln_status launch(kiln__module *module, uint64_t n, void *out, const void *x, const void *y)
{
    return kiln_test_launch_flat(backend->vtable, module, 0, loaded_tile, n, out, (const void *const[]){ x, y }, 2,
                                 NULL, &report);
}

static int open_files(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

/* ---- The device */

START_TEST(the_device_describes_itself)
{
    int count = 0, registers = 0, local_bytes = 0;
    kiln_device_info info = KILN_INIT(kiln_device_info);
    kiln_device *other = device;
    ck_assert_int_eq(backend->vtable->device_count(backend, &count, &report), KILN_OK);
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(backend->vtable->device_open(backend, 1, &other, &report), KILN_ENODEVICE);
    ck_assert_ptr_null(other);
    ck_assert_str_eq(device->name, "cpu");
    ck_assert(device->target.backend == KILN__BACKEND_CPU);
    backend->vtable->device_info(device, &info);
    ck_assert_str_eq(info.name, "cpu");
    ck_assert_str_eq(info.target, "cpu");
    ck_assert(info.model[0] != '\0');
    ck_assert_uint_eq(info.multiprocessors, kiln__cpu_count());
    ck_assert_uint_gt(info.memory_bytes, (uint64_t)1 << 20);
    kiln__module *module = build(kiln_test_twice, 8);
    backend->vtable->resources(module, &registers, &local_bytes);
    ck_assert_int_eq(registers, -1);
    ck_assert_int_eq(local_bytes, -1);
    backend->vtable->unload(module);
    backend->vtable->unload(NULL);
}
END_TEST

START_TEST(memory_is_aligned_and_copied)
{
    static const size_t sizes[] = { 0, 1, 255, 4096, 1000003 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *memory = NULL;
        ck_assert_int_eq(backend->vtable->alloc(device, &memory, sizes[i], &report), KILN_OK);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % 256, 0);
        memset(memory, 1, sizes[i]);
        backend->vtable->free(device, memory);
    }
    backend->vtable->free(device, NULL);
    char from[] = "0123456789", to[11] = "";
    for (int kind = KILN__COPY_TO_DEVICE; kind <= KILN__COPY_ON_DEVICE; kind++) {
        memset(to, 0, sizeof(to));
        ck_assert_int_eq(backend->vtable->copy(device, to, from, 11, (kiln__copy_kind)kind, NULL, &report), KILN_OK);
        ck_assert_str_eq(to, from);
    }
    ck_assert_int_eq(backend->vtable->copy(device, to + 2, to, 8, KILN__COPY_ON_DEVICE, NULL, &report), KILN_OK);
    ck_assert_str_eq(to, "0101234567");
    ck_assert_int_eq(backend->vtable->copy(device, to, from, 11, (kiln__copy_kind)9, NULL, &report), KILN_EINVAL);
    ck_assert_int_eq(backend->vtable->copy(device, NULL, NULL, 0, KILN__COPY_ON_DEVICE, NULL, &report), KILN_OK);
    ck_assert_int_eq(backend->vtable->sync(device, &report), KILN_OK);
}
END_TEST

static kiln_status submit_sleep(void *data, void *stream)
{
    int *left = data;
    if (stream != NULL || --*left < 0)
        return KILN_ELAUNCH;
    usleep(2000);
    return KILN_OK;
}

static kiln_status submit_failing(void *data, void *stream)
{
    (void)stream;
    return kiln__fail(data, KILN_EALIGN, "launch", 7, "the submission's own words");
}

START_TEST(time_is_that_of_all_submissions)
{
    double ms = 0;
    int left = 5;
    ck_assert_int_eq(backend->vtable->time(device, submit_sleep, &left, 5, &ms, &report), KILN_OK);
    ck_assert_int_eq(left, 0);
    ck_assert_double_ge(ms, 10);
    left = 2;
    ms = -1;
    ck_assert_int_eq(backend->vtable->time(device, submit_sleep, &left, 5, &ms, &report), KILN_ELAUNCH);
    ck_assert_ptr_nonnull(strstr(report.message, "3 of 5"));
    ck_assert_int_eq(backend->vtable->time(device, submit_failing, &report, 5, &ms, &report), KILN_EALIGN);
    ck_assert_str_eq(report.message, "the submission's own words");
    ck_assert_str_eq(report.stage, "launch");
    ck_assert_int_eq(report.native, 7);
    ck_assert_int_eq(backend->vtable->time(device, submit_failing, NULL, 5, &ms, NULL), KILN_EALIGN);
    ck_assert_double_eq(ms, -1);
}
END_TEST

/* ---- Kernels */

START_TEST(every_count_and_tile_is_computed)
{
    enum { N = 5000 };
    static const uint64_t tiles[] = { 1, 3, 32, 1000, N, 65536 };
    static const uint64_t counts[] = { 1, 2, 31, 32, 33, 999, 1000, 1001, 4999, N };
    static float x[N], y[N], z[N + 1];
    for (size_t i = 0; i < N; i++) {
        x[i] = (float)i / 3;
        y[i] = -(float)i;
    }
    kiln__module *module = build(kiln_test_twice, tiles[_i]);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (size_t i = 0; i <= N; i++)
            z[i] = 77;
        ck_assert_int_eq(launch(module, counts[c], z, x, y), KILN_OK);
        for (size_t i = 0; i <= N; i++)
            ck_assert(z[i] == (i < counts[c] ? x[i] * 2 + y[i] : 77));
    }
    ck_assert_int_eq(launch(module, N, x, x, y), KILN_OK);
    ck_assert_mem_eq(x, z, sizeof(x));
    backend->vtable->unload(module);
}
END_TEST

/* out[i] = which: one source for each kernel. */
static void constant_source(char *out, size_t size, int which)
{
    snprintf(
        out, size,
        KILN_TEST_CPU_ENTRY
        "{\n    (void)in;\n    for (unsigned long long i = begin; i < end; i++)\n        ((int *)out)[i] = %d;\n}\n",
        which);
}

START_TEST(many_kernels_live_side_by_side)
{
    enum { KERNELS = 24 };
    char source[1024];
    int before = open_files(), value = -1;
    kiln__image images[KERNELS];
    kiln__module *modules[KERNELS];
    for (int i = 0; i < KERNELS; i++) {
        constant_source(source, sizeof(source), i);
        images[i] = compile(source);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < KERNELS; i++) {
            if (round == 0 || i % 3 == 0)
                ck_assert_int_eq(load(images[i].binary, images[i].binary_length, 64, &modules[i]), KILN_OK);
        }
        for (int i = 0; i < KERNELS; i++) {
            ck_assert_int_eq(launch(modules[i], 1, &value, NULL, NULL), KILN_OK);
            ck_assert_int_eq(value, i);
        }
        for (int i = 0; i < KERNELS; i += 3)
            backend->vtable->unload(modules[i]);
    }
    for (int i = 0; i < KERNELS; i++) {
        if (i % 3 != 0)
            backend->vtable->unload(modules[i]);
        kiln__image_fini(&images[i]);
    }
    ck_assert_int_eq(open_files(), before);
}
END_TEST

static atomic_int opened; /* calls of the loader */

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
    opened++;
    return __real_dlopen(name, flags);
}

/* The least time that one of them takes: the machine may be a busy one. */
static double load_ms(const kiln__image *image, kiln__module **out, int count)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < count; i++) {
        uint64_t start = kiln__cpu_now_ns();
        ck_assert_int_eq(load(image->binary, image->binary_length, 64, &out[i]), KILN_OK);
        uint64_t took = kiln__cpu_now_ns() - start;
        least = took < least ? took : least;
    }
    return kiln__cpu_ms(least);
}

/* The loader itself compares each name with all that it has, so that a load takes longer, but not by much. */
START_TEST(the_last_of_many_kernels_loads_as_the_first)
{
    enum { KERNELS = KILN_TEST_SANITIZED ? 500 : 2000, PART = 100 }; /* a sanitizer looks at every library again */
    static kiln__module *modules[KERNELS];
    struct rlimit limit;
    int before = open_files(), value = -1;
    char source[1024];
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (_i == 1 && limit.rlim_cur > 1024)
        limit.rlim_cur = 1024;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    constant_source(source, sizeof(source), 4711);
    kiln__image image = compile(source);
    double first = load_ms(&image, modules, PART);
    load_ms(&image, modules + PART, KERNELS - 2 * PART);
    opened = 0;
    double last = load_ms(&image, modules + KERNELS - PART, PART);
    printf("   a kernel loads in %.3f ms, number %d in %.3f ms\n", first, KERNELS, last);
    ck_assert_int_le(opened, 2 * PART);
    ck_assert_msg(KILN_TEST_SANITIZED || last < 0.5, "%g ms, at first %g ms", last, first);
    ck_assert_int_eq(kiln_test_temp_count("."), 0);
    for (int i = 0; i < KERNELS; i++) {
        ck_assert_int_eq(launch(modules[i], 1, &value, NULL, NULL), KILN_OK);
        ck_assert_int_eq(value, 4711);
        backend->vtable->unload(modules[i]);
    }
    kiln__image_fini(&image);
    ck_assert_int_eq(open_files(), before);
}
END_TEST

typedef struct loading {
    kiln__image image;
    int value; /* what its kernel writes */
    int wrong;
} loading;

static void *load_some(void *data)
{
    loading *self = data;
    for (int round = 0; round < 300; round++) {
        kiln__module *module = NULL;
        int value = -1;
        if (load(self->image.binary, self->image.binary_length, 64, &module) != KILN_OK ||
            launch(module, 1, &value, NULL, NULL) != KILN_OK || value != self->value)
            self->wrong++;
        backend->vtable->unload(module);
    }
    return NULL;
}

START_TEST(many_threads_load_at_once)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    loading loadings[THREADS];
    char source[1024];
    for (int i = 0; i < THREADS; i++) {
        constant_source(source, sizeof(source), i);
        loadings[i] = (loading){ .image = compile(source), .value = i };
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, load_some, &loadings[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(loadings[i].wrong, 0);
        kiln__image_fini(&loadings[i].image);
    }
}
END_TEST

START_TEST(one_image_loads_more_than_once)
{
    float x = 3, y = 4, z = 0;
    kiln__module *a = NULL, *b = NULL;
    kiln__image image = compile(kiln_test_twice);
    ck_assert_int_eq(load(image.binary, image.binary_length, 1, &a), KILN_OK);
    ck_assert_int_eq(load(image.binary, image.binary_length, 1, &b), KILN_OK);
    memset(image.binary, 0, image.binary_length);
    kiln__image_fini(&image);
    backend->vtable->unload(a);
    ck_assert_int_eq(launch(b, 1, &z, &x, &y), KILN_OK);
    ck_assert(z == 10);
    backend->vtable->unload(b);
}
END_TEST

static int look_at_name(struct dl_phdr_info *info, size_t size, void *data)
{
    int *named = data;
    (void)size;
    if (strncmp(info->dlpi_name, "/proc/", 6) != 0)
        return 0;
    ck_assert_msg(access(info->dlpi_name, F_OK) != 0, "%s is a file that has nothing to do with it", info->dlpi_name);
    ++*named;
    return 0;
}

/* A crash reporter or a profiler opens loaded libraries by their names. */
START_TEST(no_loaded_kernel_has_the_name_of_a_file_of_the_host)
{
    enum { KERNELS = 3, FILES = 100 };
    kiln__module *modules[KERNELS];
    int files[FILES], named = 0;
    kiln__image image = compile(kiln_test_twice);
    for (int i = 0; i < KERNELS; i++)
        ck_assert_int_eq(load(image.binary, image.binary_length, 1, &modules[i]), KILN_OK);
    kiln__image_fini(&image);
    for (int i = 0; i < FILES; i++)
        ck_assert_int_ge(files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    dl_iterate_phdr(look_at_name, &named);
    ck_assert_int_eq(named, KERNELS);
    for (int i = 0; i < FILES; i++)
        close(files[i]);
    for (int i = 0; i < KERNELS; i++)
        backend->vtable->unload(modules[i]);
}
END_TEST

/* From here on memfd_create does not exist for this process. */
static void take_memfd_away(void)
{
    struct sock_filter filter[] = { REFUSE_LOAD(nr), REFUSE(memfd_create, ENOSYS), REFUSE_END };
    refuse_calls(filter, sizeof(filter) / sizeof(filter[0]));
}

START_TEST(kernels_load_without_files_in_memory)
{
    float x = 3, y = 4, z = 0;
    kiln__module *a = NULL, *b = NULL;
    kiln__image image = compile(kiln_test_twice);
    int before = open_files();
    take_memfd_away();
    ck_assert_int_eq(load(image.binary, image.binary_length, 8, &a), KILN_OK);
    ck_assert_int_eq(load(image.binary, image.binary_length, 8, &b), KILN_OK);
    ck_assert_int_eq(launch(a, 1, &z, &x, &y), KILN_OK);
    ck_assert(z == 10);
    backend->vtable->unload(a);
    backend->vtable->unload(b);
    ck_assert_int_eq(kiln_test_temp_count("."), 0);
    ck_assert_int_eq(open_files(), before);
    ck_assert_int_eq(setenv("TMPDIR", "/nowhere/at/all", 1), 0);
    kiln_status status = load(image.binary, image.binary_length, 8, &a);
    if (status == KILN_OK)
        backend->vtable->unload(a);
    else
        ck_assert_ptr_nonnull(strstr(report.message, "TMPDIR"));
    kiln__image_fini(&image);
}
END_TEST

START_TEST(a_shortage_of_descriptors_is_no_fault_of_the_object)
{
    kiln__module *module = NULL;
    kiln__image image = compile(kiln_test_twice);
    take_descriptors();
    kiln_status status = load(image.binary, image.binary_length, 1, &module);
    give_descriptors();
    ck_assert_int_eq(status, KILN_EIO);
    ck_assert_msg(strstr(report.message, "ulimit -n") != NULL, "%s", report.message);
    ck_assert_int_eq(kiln_test_temp_count("."), 0);
    ck_assert_int_eq(load(image.binary, image.binary_length, 1, &module), KILN_OK);
    backend->vtable->unload(module);
    kiln__image_fini(&image);
}
END_TEST

START_TEST(what_cannot_be_loaded_is_refused)
{
    kiln__module *module = NULL;
    kiln__entry empty = { .kind = KILN__ENTRY_KERNEL };
    kiln__rule rule = kiln_test_cpu_unit("", 1).rule;
    bool used_ptx;
    int before = open_files();
    ck_assert_int_eq(backend->vtable->load(device, &empty, &rule, &module, &used_ptx, &report), KILN_ELOAD);
    ck_assert_ptr_nonnull(strstr(report.message, "'object'"));
    ck_assert_int_eq(load("hello", 5, 1, &module), KILN_ELOAD);

    kiln__image image = compile(kiln_test_twice);
    ck_assert_int_eq(load(image.binary, image.binary_length - 1, 1, &module), KILN_ELOAD);
    ck_assert_ptr_nonnull(strstr(report.message, "truncated"));
    kiln__image_fini(&image);

    image = compile("__attribute__((visibility(\"default\"))) int something_else;\n");
    ck_assert_int_eq(load(image.binary, image.binary_length, 1, &module), KILN_ELOAD);
    ck_assert_ptr_nonnull(strstr(report.message, "kiln_cpu"));
    kiln__image_fini(&image);

    image = compile("void kiln_nowhere(void);\n" KILN_TEST_CPU_ENTRY
                    "{ (void)begin, (void)end, (void)out, (void)in; kiln_nowhere(); }\n");
    ck_assert_int_eq(load(image.binary, image.binary_length, 1, &module), KILN_ELOAD);
    ck_assert_ptr_nonnull(strstr(report.message, "kiln_nowhere"));
    kiln__image_fini(&image);
    ck_assert_int_eq(open_files(), before);
    ck_assert_int_eq(kiln_test_temp_count("."), 0);
}
END_TEST

typedef struct shared_launch {
    kiln__module *module;
    float first;
} shared_launch;

static void *launch_some(void *data)
{
    enum { N = 3000 };
    const shared_launch *l = data;
    float x[N], y[N], z[N];
    for (int i = 0; i < N; i++) {
        x[i] = l->first + (float)i;
        y[i] = 1;
    }
    for (int round = 0; round < 100; round++) {
        memset(z, 0, sizeof(z));
        if (launch(l->module, N, z, x, y) != KILN_OK)
            return data;
        for (int i = 0; i < N; i++) {
            if (z[i] != 2 * x[i] + 1)
                return data;
        }
    }
    return NULL;
}

START_TEST(many_threads_launch_at_once)
{
    enum { THREADS = 5 };
    pthread_t threads[THREADS];
    shared_launch launches[THREADS];
    kiln__module *module = build(kiln_test_twice, 100);
    for (int i = 0; i < THREADS; i++) {
        launches[i] = (shared_launch){ module, (float)(i * 10000) };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_some, &launches[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    backend->vtable->unload(module);
}
END_TEST

/* ---- The real templates */

START_TEST(the_templates_compile_and_run)
{
    static const char *const ops[] = { "copy",     "relu6",    "hardtanh(-1,1)", "hardsigmoid",    "hardsigmoid_linear",
                                       "softsign", "add(x,y)", "mul(x,y)",       "mul(add(x,y),z)" };
    static const char *const dtypes[] = { "f32", "f64", "f16", "bf16" };
    kiln__catalog catalog;
    kiln__target cpu;
    ck_assert(kiln__target_parse("cpu", 3, &cpu));
    ck_assert_int_eq(kiln__catalog_init(&catalog, &report), KILN_OK);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        char text[128];
        kiln__fields spec, resolved;
        kiln__unit *unit = NULL;
        kiln__image image;
        kiln__module *module = NULL;
        bool used_ptx;
        snprintf(text, sizeof(text), "op=%s dtype=%s target=cpu", ops[i], dtypes[_i]);
        ck_assert_int_eq(kiln_test_fields(&spec, &catalog, text, &report), KILN_OK);
        ck_assert_int_eq(kiln__spec_resolve(&resolved, &spec, &cpu, &report), KILN_OK);
        ck_assert_int_eq(kiln__unit_make(&unit, &resolved, &report), KILN_OK);
        kiln_status status = compiler->vtable->compile(compiler, unit, &image, &report);
        ck_assert_msg(status == KILN_OK, "%s: %s", text, report.log != NULL ? report.log : report.message);
        ck_assert_msg(image.log == NULL, "%s: %s", text, image.log);
        kiln__entry entry = { .kind = KILN__ENTRY_KERNEL };
        ck_assert(kiln__entry_add(&entry, "object", image.binary, image.binary_length));
        ck_assert_int_eq(backend->vtable->load(device, &entry, &unit->rule, &module, &used_ptx, &report), KILN_OK);
        uint64_t zeros[3][20] = { 0 }, out[20];
        memset(out, 0xff, sizeof(out));
        const void *const in[] = { zeros[0], zeros[1], zeros[2] };
        ck_assert_int_eq(kiln_test_launch_flat(backend->vtable, module, 0, unit->rule.tile, 19, out, in,
                                               resolved.op->inputs, NULL, &report),
                         KILN_OK);
        size_t element = unit->plan->args[0].bytes;
        const unsigned char *bytes = (const unsigned char *)out;
        ck_assert_uint_eq(bytes[19 * element], 0xff);
        if (strncmp(ops[i], "hardsigmoid", 11) != 0)
            ck_assert_mem_eq(out, zeros, 19 * element);
        else
            ck_assert_mem_ne(out, zeros, 19 * element);
        backend->vtable->unload(module);
        kiln__image_fini(&image);
        kiln__unit_free(unit);
    }
    kiln__catalog_fini(&catalog);
}
END_TEST

START_TEST(a_fused_multiply_add_needs_no_help)
{
    /* without an instruction for it this is libm's */
    double x = 0x1p-30 + 1, y = -1, z = 0;
    kiln__module *module =
        build(KILN_TEST_CPU_ENTRY "{\n    double *z = out;\n    const double *x = in[0], *y = in[1];\n"
                                  "    for (unsigned long long i = begin; i < end; i++)\n"
                                  "        z[i] = __builtin_fma(x[i], x[i], y[i]);\n}\n",
              4);
    ck_assert_int_eq(launch(module, 1, &z, &x, &y), KILN_OK);
    ck_assert(z == fma(x, x, y));
    backend->vtable->unload(module);
}
END_TEST

START_TEST(products_and_sums_are_not_fused)
{
    float x = 1 + 0x1p-12f, y = -1, z = 0;
    kiln__module *module = build(KILN_TEST_CPU_ENTRY "{\n    float *z = out;\n    const float *x = in[0], *y = in[1];\n"
                                                     "    for (unsigned long long i = begin; i < end; i++)\n"
                                                     "        z[i] = x[i] * x[i] + y[i];\n}\n",
                                 4);
    ck_assert_int_eq(launch(module, 1, &z, &x, &y), KILN_OK);
    ck_assert(z == 0x1p-11f);
    backend->vtable->unload(module);
}
END_TEST

/* ---- Out of memory */

static int allocations_left;

static int refuse_one(void)
{
    return allocations_left-- == 0;
}

START_TEST(any_allocation_may_fail)
{
    int nth = 0;
    for (bool done = false; !done; nth++) {
        kiln__unit unit = kiln_test_cpu_unit(kiln_test_twice, 1);
        kiln__image image = { 0 };
        kiln__module *module = NULL;
        kiln__compiler *fresh = kiln__cpu_compiler_open(NULL, NULL);
        ck_assert_ptr_nonnull(fresh);
        allocations_left = nth;
        kiln__alloc_set_hook(refuse_one);
        kiln_status status = fresh->vtable->compile(fresh, &unit, &image, &report);
        if (status == KILN_OK) {
            kiln__entry entry = { .kind = KILN__ENTRY_KERNEL };
            bool used_ptx;
            kiln__entry_add(&entry, "object", image.binary, image.binary_length);
            status = backend->vtable->load(device, &entry, &unit.rule, &module, &used_ptx, &report);
        }
        kiln__alloc_set_hook(NULL);
        done = allocations_left >= 0;
        ck_assert_msg(status == KILN_OK || status == KILN_ENOMEM, "allocation %d: %s", nth, report.message);
        ck_assert(!done || status == KILN_OK);
        backend->vtable->unload(module);
        kiln__image_fini(&image);
        fresh->vtable->close(fresh);
        ck_assert_int_eq(kiln_test_temp_count("."), 0);
    }
    close_all(); /* the pool is shared: without another backend it is allocated */
    for (nth = 0; nth < 2; nth++) {
        allocations_left = nth;
        kiln__alloc_set_hook(refuse_one);
        kiln__compiler *no_compiler = kiln__cpu_compiler_open(NULL, NULL);
        allocations_left = nth;
        kiln__backend *no_backend = kiln__cpu_open(NULL, NULL);
        kiln__alloc_set_hook(NULL);
        ck_assert_ptr_null(no_compiler);
        ck_assert_ptr_null(no_backend);
    }
    open_all();
}
END_TEST

/* A twin that reads more than is declared ends at once, and reads nothing by chance. */
START_TEST(null_pointers_follow_the_arguments)
{
    uint64_t nulls = 0;
    kiln__module *module =
        build("__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long b, unsigned long long e, "
              "void *const *args);\n"
              "void kiln_cpu(unsigned long long b, unsigned long long e, void *const *args)\n{\n"
              "    unsigned long long *out = *(unsigned long long *const *)args[0];\n"
              "    (void)b, (void)e;\n    for (int i = 5; i < 13; i++)\n        *out += !args[i];\n}\n",
              1);
    ck_assert_int_eq(launch(module, 1, &nulls, NULL, NULL), KILN_OK);
    ck_assert_uint_eq(nulls, 8);
    backend->vtable->unload(module);
}
END_TEST

Suite *kiln_test_cpu_cpu_suite(void)
{
    Suite *suite = suite_create("cpu");
    TCase *tests = tcase_create("cpu");
    kiln_test_temp_use(tests);
    tcase_add_checked_fixture(tests, open_all, close_all);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, null_pointers_follow_the_arguments);
    tcase_add_test(tests, the_device_describes_itself);
    tcase_add_test(tests, memory_is_aligned_and_copied);
    tcase_add_test(tests, time_is_that_of_all_submissions);
    tcase_add_loop_test(tests, every_count_and_tile_is_computed, 0, 6);
    tcase_add_test(tests, many_kernels_live_side_by_side);
    tcase_add_loop_test(tests, the_last_of_many_kernels_loads_as_the_first, 0, 2);
    tcase_add_test(tests, many_threads_load_at_once);
    tcase_add_test(tests, one_image_loads_more_than_once);
    tcase_add_test(tests, no_loaded_kernel_has_the_name_of_a_file_of_the_host);
    tcase_add_test(tests, kernels_load_without_files_in_memory);
    tcase_add_test(tests, a_shortage_of_descriptors_is_no_fault_of_the_object);
    tcase_add_test(tests, what_cannot_be_loaded_is_refused);
    tcase_add_test(tests, many_threads_launch_at_once);
    tcase_add_loop_test(tests, the_templates_compile_and_run, 0, 4);
    tcase_add_test(tests, a_fused_multiply_add_needs_no_help);
    tcase_add_test(tests, products_and_sums_are_not_fused);
    tcase_add_test(tests, any_allocation_may_fail);
    suite_add_tcase(suite, tests);
    return suite;
}
