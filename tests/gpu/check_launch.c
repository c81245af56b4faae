/* Loading images into the stand-in driver and launching them. */
#include "base/alloc.h"
#include "gpu/cubin.h"
#include "service/launch.h"
#include "support/fields.h"
#include "support/gpu.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/tune.h>
#include <pthread.h>
#include <stdlib.h>

#define GRID_MAX ((uint64_t)INT32_MAX)
#define ENTRIES  ".visible .entry kiln_vector()\n{\n}\n.visible .entry kiln_scalar()\n{\n}\n"

/* ---- Loading */

START_TEST(test_load__reads_resources_and_leaves_nothing_to_load_at_launch)
{
    kiln_device *device = open_device();
    kiln__module *module = load(device);
    kiln_fake_live live;
    int registers, local_bytes;
    vtable->resources(module, &registers, &local_bytes);
    ck_assert_int_eq(registers, 24);
    ck_assert_int_eq(local_bytes, 16);
    const void *in[] = { (void *)0x1000 };
    for (uint32_t entry = 0; entry < 2; entry++)
        check_ok(launch_n(module, entry, 1, (void *)0x2000, in, NULL, &report));
    fake->counts(&live);
    ck_assert_uint_eq(live.lazy, 0);
    vtable->unload(module);
    vtable->unload(NULL);
    vtable->device_close(device);
}
END_TEST

/* Drivers differ in when they look at a cubin's chip: at its first kernel (0), or already when it is loaded (1). */
START_TEST(test_load__cubin_for_another_gpu_falls_back_to_ptx)
{
    static const int others[] = { 80, 100, 0 };
    fake->configure(_i == 0 ? "eager=0" : "eager=1");
    kiln_device *device = open_device();
    kiln__rule rule = sample_rule();
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        kiln__entry entry = sample_entry(others[i], ptx_90);
        kiln__module *module;
        bool used_ptx = false;
        check_ok(vtable->load(device, &entry, &rule, &module, &used_ptx, &report));
        ck_assert(used_ptx);
        vtable->unload(module);
    }
    vtable->device_close(device);
}
END_TEST

/* Loads an entry that must be refused. */
static void check_refused(kiln_device *device, const kiln__entry *entry, kiln_status status, const char *text)
{
    kiln__rule rule = sample_rule();
    kiln__module *module;
    bool used_ptx = true;
    check_report(vtable->load(device, entry, &rule, &module, &used_ptx, &report), status, text);
    ck_assert_ptr_null(module);
    ck_assert(!used_ptx);
    ck_assert_str_eq(report.stage, "load");
}

START_TEST(test_load__refusals_say_which_and_why)
{
    fake->configure(_i == 0 ? "eager=0" : "eager=1");
    kiln_device *device = open_device();
    kiln__entry entry = sample_entry(80, NULL);
    check_refused(device, &entry, KILN_ETARGET, "cuda:0 is sm_90");
    ck_assert_ptr_nonnull(strstr(report.message, "CUDA_ERROR_NO_BINARY_FOR_GPU (209)"));
    entry = sample_entry(0, NULL);
    check_refused(device, &entry, KILN_ELOAD, "neither");
    entry = sample_entry(80, "//\n.version 9.1\n.target sm_80\n" ENTRIES);
    check_refused(device, &entry, KILN_ETARGET, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)");
    ck_assert_ptr_nonnull(strstr(report.message, "CUDA_ERROR_NO_BINARY_FOR_GPU (209)"));
    ck_assert_ptr_nonnull(report.log);
    ck_assert_ptr_nonnull(strstr(report.log, "ptxas fatal"));
    entry = sample_entry(0, "//\n.version 8.0\n.target sm_100\n" ENTRIES);
    check_refused(device, &entry, KILN_ELOAD, "CUDA_ERROR_INVALID_PTX (218)");
    vtable->device_close(device);
}
END_TEST

START_TEST(test_load__missing_entry_point_is_named)
{
    char cubin[CUBIN_MAX];
    kiln_device *device = open_device();
    kiln__entry entry = { .kind = KILN__ENTRY_KERNEL };
    kiln__entry_add(&entry, "cubin", cubin, fake->cubin(cubin, sizeof(cubin), 90, entry_names, 1, 1));
    check_refused(device, &entry, KILN_ELOAD, "no entry point 'kiln_scalar'");
    vtable->device_close(device);
}
END_TEST

/* Each copy has its exact length on the heap, so that a sanitizer sees any byte read beyond. */
START_TEST(test_load__truncated_cubin_never_reaches_the_driver)
{
    kiln_device *device = open_device();
    kiln__entry whole = sample_entry(90, ptx_90);
    const kiln__section *section = kiln__entry_find(&whole, "cubin");
    for (size_t length = 0; length < section->length; length++) {
        kiln__entry entry = { .kind = KILN__ENTRY_KERNEL };
        void *part = malloc(length != 0 ? length : 1);
        memcpy(part, section->data, length);
        kiln__entry_add(&entry, "cubin", part, length);
        kiln__entry_add(&entry, "ptx", ptx_90, strlen(ptx_90));
        check_refused(device, &entry, KILN_ELOAD, "the cubin is damaged");
        free(part);
    }
    ck_assert_uint_eq(fake->calls("cuLibraryLoadData"), 0);
    vtable->device_close(device);
}
END_TEST

#define BAD_PTX(text, reason)          \
    {                                  \
        text, sizeof(text) - 1, reason \
    }
static const struct {
    const char *text;
    size_t length;
    const char *reason;
} bad_ptx[] = {
    BAD_PTX("", "has no .version"),
    BAD_PTX("no PTX at all", "has no .version"),
    BAD_PTX("\177ELF\2\1\1", "has no .version"),
    BAD_PTX("//\0\n.version 8.0\n.target sm_90\n" ENTRIES, "has a NUL"),
    BAD_PTX("//\n.version 8.0\n.target sm_90\n" ENTRIES "\0 ", "has a NUL"),
    BAD_PTX("//\n.version 8.0\n.target sm_90\n" ENTRIES "\0\0", "has a NUL"),
    BAD_PTX("//\n.target sm_90\n" ENTRIES, "has no .version"),
    BAD_PTX("// .version 8.0\n.target sm_90\n" ENTRIES, "has no .version"),
    BAD_PTX("/* .version 8.0\n.target sm_90\n" ENTRIES, "has no .version"),
    BAD_PTX("x .version 8.0\n.target sm_90\n" ENTRIES, "has no .version"),
    BAD_PTX(".version 8\n.target sm_90\n" ENTRIES, "has no .version"),
    BAD_PTX(".version .0\n.target sm_90\n" ENTRIES, "has no .version"),
    BAD_PTX(".versions 8.0\n.target sm_90\n" ENTRIES, "has no .version"),
    BAD_PTX(".version 8.0\n" ENTRIES, "has no .target"),
    BAD_PTX(".version 8.0\n// .target sm_90\n" ENTRIES, "has no .target"),
    BAD_PTX(".version 8.0\n.target debug\n" ENTRIES, "has no .target"),
    BAD_PTX(".version 8.0\n.target sm_9\n" ENTRIES, "has no .target"),
    BAD_PTX(".version 8.0\n.target sm_90x\n" ENTRIES, "has no .target"),
    BAD_PTX(".version 8.0\n.target sm_90\n", "has no entry point 'kiln_vector'"),
    BAD_PTX(".version 8.0\n.target sm_90\n.visible .entry kiln_vector()\n{\n}\n", "has no entry point 'kiln_scalar'"),
    BAD_PTX(".version 8.0\n.target sm_90\n.entry kiln_vector2()\n.entry kiln_scalar(", "no entry point 'kiln_vector'"),
    BAD_PTX(".version 8.0\n.target sm_90\n.entry kiln_vector()\n.entry kiln_sca", "no entry point 'kiln_scalar'"),
    BAD_PTX(".version 8.0\n.target sm_90\n.entry kiln_vector()\n.entry", "no entry point 'kiln_scalar'"),
    BAD_PTX(".version 8.0\n.target sm_90\n.entryx kiln_vector() kiln_scalar", "no entry point 'kiln_vector'"),
};

/* Each copy has its exact length on the heap. */
START_TEST(test_load__bad_ptx_never_reaches_the_driver)
{
    kiln_device *device = open_device();
    kiln__entry entry = sample_entry(_i % 2 == 0 ? 0 : 80, NULL);
    size_t length = bad_ptx[_i].length;
    char *text = malloc(length != 0 ? length : 1);
    memcpy(text, bad_ptx[_i].text, length);
    ck_assert(kiln__entry_add(&entry, "ptx", text, length));
    check_refused(device, &entry, KILN_ELOAD, "the PTX is damaged");
    ck_assert_msg(strstr(report.message, bad_ptx[_i].reason) != NULL, "%s", report.message);
    ck_assert_uint_eq(fake->calls("cuLibraryLoadData"), _i % 2);
    free(text);
    vtable->device_close(device);
}
END_TEST

START_TEST(test_load__good_ptx_is_read_as_its_language_is)
{
    static const char *const good[] = {
        ".version 8.0 .target sm_90 .address_size 64 .entry kiln_vector() {} .entry kiln_scalar() {}",
        ("/* a */ // b\n\t.version 8.0\r\n/**/.target texmode_unified , sm_75, debug\n" ENTRIES),
        "//\n.version 8.0\n.target sm_90a, debug\n.entry /* the */ kiln_vector () {}\n.visible\t.entry\nkiln_scalar()",
        ".version 8.0\n.target sm_90//x\n.entry kiln_vector_() .entry kiln_vector\n() .entry kiln_scalar()",
    };
    char reason[KILN__CUBIN_REASON_SIZE];
    const char *text = good[_i];
    ck_assert_msg(kiln__ptx_check(text, strlen(text), 90, reason), "%s", reason);
    ck_assert(kiln__ptx_check(text, strlen(text) + 1, 90, reason));
    ck_assert(kiln__ptx_check(text, strlen(text), 0, reason));
    ck_assert(kiln__ptx_has_entry(text, strlen(text), "kiln_vector"));
    ck_assert(kiln__ptx_has_entry(text, strlen(text), "kiln_scalar"));
    ck_assert(!kiln__ptx_has_entry(text, strlen(text), "kiln_scala"));
    ck_assert(!kiln__ptx_check(text, strlen(text), 70, reason));
    ck_assert_ptr_nonnull(strstr(reason, "above sm_70"));
    for (size_t length = 0; length <= strlen(text); length++) {
        char *part = malloc(length != 0 ? length : 1);
        memcpy(part, text, length);
        kiln__ptx_check(part, length, 90, reason);
        ck_assert_int_eq(kiln__ptx_has_entry(part, length, "kiln_none"), 0);
        free(part);
    }
}
END_TEST

/* An entry says in its key what it was compiled for. */
START_TEST(test_load__ptx_above_the_entrys_own_target_is_damaged)
{
    kiln_device *device = open_device();
    kiln__entry entry = sample_entry(0, "//\n.version 8.0\n.target sm_90\n" ENTRIES);
    entry.key_text = "kiln-key 2\ntarget sm_80\noptions \n";
    entry.key_text_length = strlen(entry.key_text);
    check_refused(device, &entry, KILN_ELOAD, "the PTX is damaged: it is for sm_90, above sm_80");
    ck_assert_uint_eq(fake->calls("cuLibraryLoadData"), 0);
    vtable->device_close(device);
}
END_TEST

START_TEST(test_cubin__any_header_is_read_within_its_bytes)
{
    kiln__entry whole = sample_entry(90, NULL);
    const kiln__section *section = kiln__entry_find(&whole, "cubin");
    unsigned char *copy = malloc(section->length);
    char reason[KILN__CUBIN_REASON_SIZE];
    unsigned random = 12345;
    for (int round = 0; round < 20000; round++) {
        memcpy(copy, section->data, section->length);
        for (int i = 0; i < 3; i++) {
            random = random * 1664525u + 1013904223u;
            size_t header = round % 2 ? random >> 8 : 16 + (random >> 8) % 48;
            copy[header % section->length] = (unsigned char)(random >> 3);
        }
        if (kiln__cubin_check(copy, section->length, reason))
            kiln__cubin_has_entry(copy, "kiln_vector");
        else
            ck_assert_int_ne(reason[0], '\0');
    }
    ck_assert(kiln__cubin_check(section->data, section->length, reason));
    ck_assert(kiln__cubin_has_entry(section->data, "kiln_vector"));
    ck_assert(!kiln__cubin_has_entry(section->data, "kiln_vecto"));
    ck_assert(!kiln__cubin_has_entry(section->data, "kiln_vector_"));
    free(copy);
}
END_TEST

/* ---- Launching */

static void check_launch(const kiln_fake_launch *launch, const char *name, uint64_t grid, uint64_t out, uint64_t in,
                         uint64_t n)
{
    ck_assert_str_eq(launch->name, name);
    ck_assert_uint_eq(launch->grid[0], grid);
    ck_assert_uint_eq(launch->grid[1] * launch->grid[2], 1);
    ck_assert_uint_eq(launch->block[0], BLOCK);
    ck_assert_uint_eq(launch->block[1] * launch->block[2], 1);
    ck_assert_uint_eq(launch->shared, 0);
    ck_assert_uint_eq(launch->parameter_count, 3);
    ck_assert_uint_eq(launch->parameters[0], out);
    ck_assert_uint_eq(launch->parameters[1], in);
    ck_assert_uint_eq(launch->parameters[2], n);
}

START_TEST(test_launch__grid_covers_the_elements)
{
    static const uint64_t counts[] = { 1, TILE - 1, TILE, TILE + 1, 10 * TILE, ((uint64_t)1 << 32) + 3 };
    kiln_device *device = open_device();
    kiln__module *module = load(device);
    const void *in[] = { (void *)0x7000000000 };
    void *out = (void *)0x10;
    kiln_fake_launch launch;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        check_ok(launch_n(module, i % 2, counts[i], out, in, NULL, &report));
        ck_assert_uint_eq(fake->launches(&launch, 1), i + 1);
        check_launch(&launch, entry_names[i % 2], (counts[i] + TILE - 1) / TILE, 0x10, 0x7000000000, counts[i]);
    }
    check_report(launch_n(module, 2, 1, out, in, NULL, &report), KILN_EINVAL, "entry point 2");
    vtable->unload(module);
    vtable->device_close(device);
}
END_TEST

/* A kernel of a spec whose module is the sample's. */
static kiln_kernel kernel_of(const kiln__catalog *catalog, const char *text, kiln__module *module, kiln__unit **unit)
{
    static kiln_program program;
    kiln__fields spec, full;
    kiln__target target;
    kiln_kernel kernel = {
        .program = &program, .vtable = vtable, .module = module, .entry_count = 2, .odd = { 15, ELEMENT - 1 }
    };
    ck_assert(kiln__target_parse("sm_90", 5, &target));
    check_ok(kiln_test_fields(&spec, catalog, text, &report));
    check_ok(kiln__spec_resolve(&full, &spec, &target, &report));
    check_ok(kiln__unit_make(unit, &full, &report));
    kernel.plan = (*unit)->plan;
    program.rule = (*unit)->rule;
    return kernel;
}

START_TEST(test_launch__more_blocks_than_a_grid_holds_are_split)
{
    const uint64_t most = GRID_MAX * TILE, more = 2 * most + 5;
    kiln__catalog catalog;
    kiln__unit *unit;
    check_ok(kiln__catalog_init(&catalog, &report));
    kiln_device *device = open_device();
    kiln__module *module = load(device);
    const kiln_kernel kernel = kernel_of(&catalog, "op=relu6 dtype=f32 block=128 elems=4", module, &unit);
    const void *in = (void *)0x1000;
    void *out = (void *)0x200000000000;
    const kiln_arg args[] = { KILN_ARRAY(out, UINT64_MAX), KILN_ARRAY(in, UINT64_MAX) };
    kiln_fake_launch launches[3];
    check_ok(kiln__kernel_launch_n(&kernel, most, &out, 1, &in, 1, NULL, &report));
    ck_assert_uint_eq(fake->launches(launches, 1), 1);
    check_launch(&launches[0], "kiln_vector", GRID_MAX, 0x200000000000, 0x1000, most);
    for (int i = 0; i < 2; i++) {
        check_ok(i == 0 ? kiln__kernel_launch_n(&kernel, more, &out, 1, &in, 1, NULL, &report)
                        : kiln__kernel_launch(&kernel, &more, 1, args, 2, NULL, &report));
        ck_assert_uint_eq(fake->launches(launches, 3), 4 + 3 * i);
        check_launch(&launches[0], "kiln_vector", GRID_MAX, 0x200000000000, 0x1000, most);
        check_launch(&launches[1], "kiln_vector", GRID_MAX, 0x200000000000 + most * ELEMENT, 0x1000 + most * ELEMENT,
                     most);
        check_launch(&launches[2], "kiln_vector", 1, 0x200000000000 + 2 * most * ELEMENT, 0x1000 + 2 * most * ELEMENT,
                     5);
    }
    kiln__unit_free(unit);
    kiln__catalog_fini(&catalog);
    vtable->unload(module);
    vtable->device_close(device);
}
END_TEST

START_TEST(test_launch__goes_to_the_context_of_stream_or_caller)
{
    kiln_device *device = open_device();
    kiln__module *module = load(device);
    void *own = fake->context_new(0), *other = fake->context_new(0);
    void *stream = fake->stream_new(other);
    const void *in[] = { (void *)0x1000 };
    const struct {
        void *current, *stream, *expected;
    } cases[] = { { NULL, NULL, fake->context_primary(0) },
                  { NULL, (void *)2, fake->context_primary(0) },
                  { own, NULL, own },
                  { own, (void *)1, own },
                  { own, stream, other },
                  { NULL, stream, other } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kiln_fake_launch launch;
        fake->context_set(cases[i].current);
        check_ok(launch_n(module, 0, 100, (void *)0x2000, in, cases[i].stream, &report));
        fake->launches(&launch, 1);
        ck_assert_ptr_eq(launch.context, cases[i].expected);
        ck_assert_ptr_eq(launch.stream, cases[i].stream);
        ck_assert_ptr_eq(fake->context_current(), cases[i].current);
        ck_assert_uint_eq(fake->context_depth(), cases[i].current != NULL);
    }
    fake->context_set(NULL);
    fake->stream_free(stream);
    fake->context_free(other);
    fake->context_free(own);
    vtable->unload(module);
    vtable->device_close(device);
}
END_TEST

START_TEST(test_launch__failures_by_code)
{
    static const struct {
        int code;
        kiln_status status;
        const char *text;
    } cases[] = {
        { 1, KILN_ELAUNCH, "CUDA_ERROR_INVALID_VALUE (1)" },
        { 2, KILN_ELAUNCH, "CUDA_ERROR_OUT_OF_MEMORY (2)" },
        { 701, KILN_ELAUNCH, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)" },
        { 700, KILN_EDEVICE, "must be restarted" },
        { 716, KILN_EDEVICE, "must be restarted" },
        { 719, KILN_EDEVICE, "must be restarted" },
    };
    kiln_device *device = open_device();
    kiln__module *module = load(device);
    const void *in[] = { (void *)0x1000 };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake->fail_call("cuLaunchKernel", cases[i].code, 0, 1);
        check_report(launch_n(module, 0, 1, (void *)0x2000, in, NULL, &report), cases[i].status, cases[i].text);
        ck_assert_ptr_nonnull(strstr(report.message, "cuda:0: cuLaunchKernel failed"));
        ck_assert_int_eq(report.native, cases[i].code);
        ck_assert_str_eq(report.stage, "launch");
        check_ok(launch_n(module, 0, 1, (void *)0x2000, in, NULL, &report));
    }
    check_report(launch_n(module, 0, 1, (void *)0x2000, in, (void *)0x5000, &report), KILN_ELAUNCH,
                 "CUDA_ERROR_INVALID_HANDLE (400)");
    vtable->unload(module);
    vtable->device_close(device);
}
END_TEST

START_TEST(test_launch__allocates_nothing)
{
    kiln_device *device = open_device();
    kiln__module *module = load(device);
    const void *in[] = { (void *)0x1000 };
    allocations = fail_at = 0;
    kiln__alloc_set_hook(count_allocation);
    check_ok(launch_n(module, 0, 1, (void *)0x2000, in, NULL, &report));
    fake->fail_call("cuLaunchKernel", 700, 0, 1);
    ck_assert_int_eq(launch_n(module, 0, 1, (void *)0x2000, in, NULL, &report), KILN_EDEVICE);
    kiln__alloc_set_hook(NULL);
    ck_assert_int_eq(allocations, 0);
    vtable->unload(module);
    vtable->device_close(device);
}
END_TEST

/* ---- What launches do besides. The linker sends these calls of the program here first (--wrap), Kiln's among them and
 * the stand-in driver's not. */

static _Thread_local unsigned heap_calls, locks;

#define WRAPPED(result, name, parameters) \
    result __real_##name parameters;      \
    result __wrap_##name parameters;      \
    result __wrap_##name parameters
WRAPPED(void *, malloc, (size_t size))
{
    heap_calls++;
    return __real_malloc(size);
}
WRAPPED(void *, calloc, (size_t count, size_t size))
{
    heap_calls++;
    return __real_calloc(count, size);
}
WRAPPED(void *, realloc, (void *memory, size_t size))
{
    heap_calls++;
    return __real_realloc(memory, size);
}
WRAPPED(void, free, (void *memory))
{
    heap_calls++;
    __real_free(memory);
}
WRAPPED(int, pthread_mutex_lock, (pthread_mutex_t * mutex))
{
    locks++;
    return __real_pthread_mutex_lock(mutex);
}
WRAPPED(int, pthread_once, (pthread_once_t * once, void (*run)(void)))
{
    locks++;
    return __real_pthread_once(once, run);
}

typedef struct caller {
    kiln_service *service;
    kiln_kernel *kernel;
    kiln_live *live;
    void *stream;
} caller;

static kiln_status launch_kernel(caller *self)
{
    const void *in[] = { (void *)0x10000 };
    return kiln_test_launch(self->kernel, 1000, (void *)0x20000, in, self->stream, &report);
}

static kiln_status call_text(caller *self)
{
    const void *in[] = { (void *)0x10000 };
    return kiln_call(self->service, "op=relu6 dtype=f32", 1000, (void *[]){ (void *)0x20000 }, 1, in, 1, self->stream,
                     &report);
}

static kiln_status launch_live(caller *self)
{
    const void *in[] = { (void *)0x10000 };
    return kiln_test_launch(kiln_live_kernel(self->live), 1000, (void *)0x20000, in, self->stream, &report);
}

/* Two matrices, of which one has a row for all, and the same with one of them transposed. */
static kiln_status apply_tensors(caller *self, const int64_t *strides)
{
    const int64_t shape[] = { 64, 32 };
    const kiln_tensor out = { (void *)0x20000, NULL, KILN_F32, 2, shape, NULL };
    const kiln_tensor ins[] = { { (void *)0x30000, NULL, KILN_F32, 2, shape, strides },
                                { (void *)0x40000, NULL, KILN_F32, 1, shape + 1, NULL } };
    const double rate = 0.5;
    return kiln_apply(self->service, "op=x-?rate*y", &out, 1, ins, 2, &rate, 1, self->stream, &report);
}

static kiln_status apply_rows(caller *self)
{
    return apply_tensors(self, NULL);
}

static kiln_status apply_strided(caller *self)
{
    return apply_tensors(self, (const int64_t[]){ 1, 64 });
}

static void open_live(caller *self)
{
    kiln_spec *spec = kiln_test_spec(self->service, "op=relu6 dtype=f32");
    check_ok(kiln_live_open(&self->live, self->service, spec, NULL, &report));
    check_ok(kiln_live_wait(self->live, KILN_LIVE_SETTLED, 60000, &report));
    kiln_spec_free(spec);
}

static kiln_status get_kernel(caller *self)
{
    kiln_spec *spec = kiln_test_spec(self->service, "op=relu6 dtype=f32");
    kiln_kernel *kernel;
    kiln_status status = kiln_get_kernel(&kernel, self->service, spec, &report);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    return status;
}

typedef struct counts {
    unsigned heap_calls, locks;
} counts;

/* Copied out, for Check has heap and locks of its own. */
static counts count(kiln_status (*run)(caller *self), caller *self)
{
    check_ok(run(self));
    kiln_status status = KILN_OK;
    heap_calls = locks = 0;
    for (int i = 0; i < 10000 && status == KILN_OK; i++)
        status = run(self);
    counts counted = { heap_calls, locks };
    check_ok(status);
    return counted;
}

START_TEST(test_launch__ten_thousand_allocate_nothing_and_take_no_shared_lock)
{
    kiln_options options = kiln_test_gpu_options();
    enum { RUNS = 5 };
    kiln_status (*const runs[RUNS])(caller *) = { launch_kernel, call_text, launch_live, apply_rows, apply_strided };
    void *own = fake->context_new(0);
    caller self = { .service = kiln_test_open(&options) };
    void *const streams[] = { NULL, fake->stream_new(own) };
    self.kernel = kiln_test_get(self.service, "op=relu6 dtype=f32");
    open_live(&self);
    for (int i = 0; i < 2 * RUNS; i++) {
        self.stream = streams[i / RUNS];
        counts none = count(runs[i % RUNS], &self);
        ck_assert_uint_eq(none.heap_calls, 0);
        ck_assert_uint_eq(none.locks, runs[i % RUNS] == call_text ? 10000 : 0); /* that of its text's shard */
    }
    counts some = count(get_kernel, &self); /* what does both is counted */
    ck_assert_uint_ge(some.heap_calls, 20000);
    ck_assert_uint_ge(some.locks, 10000);
    kiln_live_close(self.live);
    kiln_kernel_release(self.kernel);
    kiln_close(self.service);
    fake->stream_free(streams[1]);
    fake->context_free(own);
}
END_TEST

Suite *kiln_test_gpu_launch_suite(void)
{
    Suite *suite = suite_create("launch");
    TCase *tcase = tcase_create("launch");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_load__reads_resources_and_leaves_nothing_to_load_at_launch);
    tcase_add_loop_test(tcase, test_load__cubin_for_another_gpu_falls_back_to_ptx, 0, 2);
    tcase_add_loop_test(tcase, test_load__bad_ptx_never_reaches_the_driver, 0, sizeof(bad_ptx) / sizeof(bad_ptx[0]));
    tcase_add_loop_test(tcase, test_load__good_ptx_is_read_as_its_language_is, 0, 4);
    tcase_add_test(tcase, test_load__ptx_above_the_entrys_own_target_is_damaged);
    tcase_add_loop_test(tcase, test_load__refusals_say_which_and_why, 0, 2);
    tcase_add_test(tcase, test_load__missing_entry_point_is_named);
    tcase_add_test(tcase, test_load__truncated_cubin_never_reaches_the_driver);
    tcase_add_test(tcase, test_cubin__any_header_is_read_within_its_bytes);
    tcase_add_test(tcase, test_launch__grid_covers_the_elements);
    tcase_add_test(tcase, test_launch__more_blocks_than_a_grid_holds_are_split);
    tcase_add_test(tcase, test_launch__goes_to_the_context_of_stream_or_caller);
    tcase_add_test(tcase, test_launch__failures_by_code);
    tcase_add_test(tcase, test_launch__allocates_nothing);
    suite_add_tcase(suite, tcase);
    TCase *counted = tcase_create("counted");
    kiln_test_temp_use(counted);
    tcase_add_checked_fixture(counted, set_up, tear_down);
    tcase_add_test(counted, test_launch__ten_thousand_allocate_nothing_and_take_no_shared_lock);
    suite_add_tcase(suite, counted);
    return suite;
}
