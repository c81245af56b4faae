/* The cuda backend against the stand-in driver: driver, devices, memory, and every failure of every call. */
#include "base/alloc.h"
#include "gpu/cuda_symbols.h"
#include "gpu/nvrtc.h"
#include "support/gpu.h"
#include "support/suites.h"
#include <pthread.h>
#include <stdio.h>

/* ---- Driver */

START_TEST(test_driver__missing_library_says_what_to_do)
{
    kiln__backend *other = kiln__cuda_open("/nonexistent/libcuda.so.1", NULL);
    const char *path;
    int count = 7, version = 7;
    for (int i = 0; i < 2; i++)
        check_report(vtable->device_count(other, &count, &report), KILN_ENODRIVER, "/nonexistent/libcuda.so.1");
    ck_assert_int_eq(count, 0);
    ck_assert_ptr_nonnull(strstr(report.message, "KILN_LIBCUDA"));
    kiln__cuda_driver_facts(other, &path, &version);
    ck_assert_str_eq(path, "");
    ck_assert_int_eq(version, 0);
    vtable->close(other);
}
END_TEST

START_TEST(test_driver__another_library_is_refused)
{
    kiln__backend *other = kiln__cuda_open("libm.so.6", NULL);
    int count;
    check_report(vtable->device_count(other, &count, &report), KILN_ENODRIVER, "has no cuDriverGetVersion");
    vtable->close(other);
}
END_TEST

START_TEST(test_driver__facts_are_known_once_open)
{
    const char *path;
    int count, version;
    check_ok(vtable->device_count(backend, &count, &report));
    kiln__cuda_driver_facts(backend, &path, &version);
    ck_assert_ptr_nonnull(strstr(path, "libcuda.so.1"));
    ck_assert_int_eq(version, 13000);
}
END_TEST

static bool is_exported(const char *name)
{
    return strcmp(name, "cuInit") == 0 || strcmp(name, "cuMemAlloc") == 0 || strcmp(name, "cuMemFree") == 0;
}

typedef struct row {
    const char *name, *exported;
    bool required;
} row;

static const row rows[] = {
#define REQUIRED                                             true
#define OPTIONAL                                             false
#define ROW(need, name, suffix, version, result, parameters) { #name, #name #suffix, need },
    KILN__CUDA_SYMBOLS(ROW)
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

START_TEST(test_driver__each_missing_function_is_named_or_done_without)
{
    const row *missing = &rows[_i];
    int count;
    fake->hide(missing->name);
    kiln_status status = vtable->device_count(backend, &count, &report);
    if (missing->required && !is_exported(missing->name)) {
        check_report(status, KILN_ENODRIVER, missing->exported);
        return;
    }
    check_ok(status);
    kiln_device *device = open_device();
    kiln__module *module = load(device);
    void *memory;
    check_ok(vtable->alloc(device, &memory, 64, &report));
    const void *in[] = { memory };
    check_ok(launch_n(module, 0, 16, memory, in, NULL, &report));
    vtable->free(device, memory);
    vtable->unload(module);
    vtable->device_close(device);
}
END_TEST

START_TEST(test_driver__too_old_is_told_its_version)
{
    int count;
    fake->configure("version=11080");
    check_report(vtable->device_count(backend, &count, &report), KILN_ENODRIVER, "cuLibraryLoadData");
    ck_assert_ptr_nonnull(strstr(report.message, "CUDA 11.8"));
    ck_assert_ptr_nonnull(strstr(report.message, "CUDA 12.0 or newer"));
}
END_TEST

START_TEST(test_driver__init_failures)
{
    static const struct {
        int code;
        kiln_status status;
        const char *text;
    } cases[] = {
        { 34, KILN_ENODRIVER, "stub" },       { 3, KILN_ENODRIVER, "fork" },
        { 803, KILN_ENODRIVER, "reboot" },    { 999, KILN_ENODRIVER, "CUDA_ERROR_UNKNOWN (999)" },
        { 12345, KILN_ENODRIVER, "(12345)" },
    };
    kiln_device *device;
    int count;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake->fail_call("cuInit", cases[i].code, 0, 2);
        check_report(vtable->device_count(backend, &count, &report), cases[i].status, cases[i].text);
        ck_assert_ptr_nonnull(strstr(report.message, "cuInit failed"));
        ck_assert_int_eq(report.native, cases[i].code);
        check_report(vtable->device_open(backend, 0, &device, &report), cases[i].status, cases[i].text);
        ck_assert_ptr_null(device);
    }
}
END_TEST

/* ---- Devices */

START_TEST(test_device__info)
{
    kiln_device_info info = KILN_INIT(kiln_device_info);
    fake->configure("sm=121,memory=1000000");
    kiln_device *device = open_device();
    vtable->device_info(device, &info);
    ck_assert_str_eq(info.name, "cuda:0");
    ck_assert_str_eq(info.model, "Stand-in GPU 0");
    ck_assert_str_eq(info.target, "sm_121");
    ck_assert_uint_eq(info.memory_bytes, 1000000);
    ck_assert_uint_eq(vtable->free_memory(device), 1000000);
    ck_assert_uint_eq(info.multiprocessors, 16);
    ck_assert_uint_eq(info.l2_bytes, 4 << 20);
    ck_assert_ptr_eq(device->backend, backend);
    ck_assert_int_eq(device->target.sm, 121);
    vtable->device_close(device);
    vtable->device_close(NULL);
}
END_TEST

START_TEST(test_device__ordinal_out_of_range_lists_what_there_is)
{
    kiln_device *device;
    int count;
    check_report(vtable->device_open(backend, 1, &device, &report), KILN_ENODEVICE, "there is 1 GPU, cuda:0");
    fake->configure("devices=2");
    check_report(vtable->device_open(backend, 3, &device, &report), KILN_ENODEVICE,
                 "no device cuda:3: there are 2 GPUs, cuda:0 and cuda:1");
    fake->configure("devices=4");
    check_report(vtable->device_open(backend, -1, &device, &report), KILN_ENODEVICE, "4 GPUs, cuda:0 to cuda:3");
    fake->configure("devices=0");
    check_report(vtable->device_open(backend, 0, &device, &report), KILN_ENODEVICE, "shows no GPU");
    check_ok(vtable->device_count(backend, &count, &report));
    ck_assert_int_eq(count, 0);
}
END_TEST

/* ---- Memory and time */

START_TEST(test_memory__round_trip)
{
    kiln_device *device = open_device();
    void *stream = fake->stream_new(fake->context_primary(0));
    char from[1000], to[1000];
    void *a, *b;
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (char)(i * 7);
    for (int with_stream = 0; with_stream < 2; with_stream++) {
        void *s = with_stream ? stream : NULL;
        check_ok(vtable->alloc(device, &a, sizeof(from), &report));
        check_ok(vtable->alloc(device, &b, sizeof(from), &report));
        ck_assert_uint_eq((uintptr_t)a % 256, 0);
        check_ok(vtable->copy(device, a, from, sizeof(from), KILN__COPY_TO_DEVICE, s, &report));
        check_ok(vtable->copy(device, b, a, sizeof(from), KILN__COPY_ON_DEVICE, s, &report));
        memset(to, 0, sizeof(to));
        check_ok(vtable->copy(device, to, b, sizeof(to), KILN__COPY_FROM_DEVICE, s, &report));
        ck_assert_mem_eq(from, to, sizeof(from));
        vtable->free(device, a);
        vtable->free(device, b);
    }
    ck_assert_uint_eq(fake->calls("cuStreamSynchronize"), 3); /* to the device: see kiln__cuda_copy */
    vtable->free(device, NULL);
    fake->stream_free(stream);
    vtable->device_close(device);
}
END_TEST

START_TEST(test_memory__faults)
{
    kiln_device *device = open_device();
    char host[64];
    void *memory;
    check_report(vtable->alloc(device, &memory, (size_t)1 << 40, &report), KILN_ENOMEM, "cuMemAlloc failed");
    ck_assert_ptr_null(memory);
    check_ok(vtable->alloc(device, &memory, 0, &report));
    vtable->free(device, memory);
    check_ok(vtable->alloc(device, &memory, 32, &report));
    check_report(vtable->copy(device, memory, host, 33, KILN__COPY_TO_DEVICE, NULL, &report), KILN_EDEVICE,
                 "cuMemcpyHtoD failed: CUDA_ERROR_INVALID_VALUE (1)");
    check_report(vtable->copy(device, memory, host, 1, (kiln__copy_kind)9, NULL, &report), KILN_EINVAL, "copy kind 9");
    check_ok(vtable->copy(device, NULL, NULL, 0, KILN__COPY_ON_DEVICE, NULL, &report));
    vtable->free(device, memory);
    vtable->device_close(device);
}
END_TEST

typedef struct submission {
    unsigned calls, fail_at;
    void *stream;
} submission;

static kiln_status submit(void *data, void *stream)
{
    submission *state = data;
    state->stream = stream;
    return ++state->calls == state->fail_at ? KILN_ELAUNCH : KILN_OK;
}

static kiln_status submit_failing(void *data, void *stream)
{
    (void)stream;
    return kiln__fail(data, KILN_EALIGN, "launch", 7, "its own words");
}

static kiln_status submit_nothing(void *data, void *stream)
{
    (void)data;
    (void)stream;
    return KILN_OK;
}

START_TEST(test_time__submits_in_a_stream_of_its_own)
{
    kiln_device *device = open_device();
    submission state = { 0 };
    double ms = -1;
    check_ok(vtable->time(device, submit, &state, 5, &ms, &report));
    ck_assert_uint_eq(state.calls, 5);
    ck_assert_ptr_nonnull(state.stream);
    ck_assert(ms >= 0 && ms < 10000);
    state.calls = 0;
    state.fail_at = 2;
    ms = -1;
    check_report(vtable->time(device, submit, &state, 5, &ms, &report), KILN_ELAUNCH, "the work to be timed failed");
    ck_assert_uint_eq(state.calls, 2);
    check_report(vtable->time(device, submit_failing, &report, 5, &ms, &report), KILN_EALIGN, "its own words");
    ck_assert_str_eq(report.stage, "launch");
    ck_assert_int_eq(vtable->time(device, submit_failing, NULL, 5, &ms, NULL), KILN_EALIGN);
    fake->fail_call("cuEventElapsedTime", 999, 0, 1);
    check_report(vtable->time(device, submit_nothing, NULL, 5, &ms, &report), KILN_EDEVICE, "cuEventElapsedTime");
    fake->fail_call("cuCtxPushCurrent", 999, 0, 1);
    check_report(vtable->time(device, submit_nothing, NULL, 5, &ms, &report), KILN_EDEVICE, "cuCtxPushCurrent");
    ck_assert_double_eq(ms, -1);
    vtable->device_close(device);
}
END_TEST

START_TEST(test_time__makes_stream_and_events_when_first_needed)
{
    static const char *const calls[] = { "cuStreamCreate", "cuEventCreate", "cuEventCreate" };
    kiln_fake_live live;
    double ms;
    kiln_device *device = open_device();
    fake->counts(&live);
    ck_assert_uint_eq(live.streams + live.events, 0);
    fake->fail_call(calls[_i], 2, _i == 2, 1);
    check_report(vtable->time(device, submit_nothing, NULL, 1, &ms, &report), KILN_ENOMEM, calls[_i]);
    for (int i = 0; i < 2; i++) {
        check_ok(vtable->time(device, submit_nothing, NULL, 1, &ms, &report));
        fake->counts(&live);
        ck_assert_uint_eq(live.streams, 1);
        ck_assert_uint_eq(live.events, 2);
    }
    vtable->device_close(device);
    fake->counts(&live);
    ck_assert_uint_eq(live.streams + live.events, 0);
}
END_TEST

/* ---- NVRTC's codes and search, which need no NVRTC */

static const char *say_nothing(kiln__nvrtc_enum code)
{
    (void)code;
    return NULL;
}

START_TEST(test_nvrtc__code_without_words_is_reported)
{
    kiln__nvrtc nvrtc = { .nvrtcGetErrorString = say_nothing, .major = 13, .path = "/lib/libnvrtc.so.13" };
    check_report(
        kiln__nvrtc_result(&nvrtc, "nvrtcCompileProgram", KILN__NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, &report),
        KILN_ENOCOMPILER, "nvrtcCompileProgram failed: an unknown error (7)");
    check_report(kiln__nvrtc_result(&nvrtc, "nvrtcGetPTX", 99, &report), KILN_ECOMPILE,
                 "nvrtcGetPTX failed: an unknown error (99)");
}
END_TEST

/* libc stands for an NVRTC: the loader finds it by its bare name too. */
START_TEST(test_nvrtc__search_for_a_bare_name_tells_each_file_once)
{
    kiln__text text = { 0 };
    unsigned found = 0;
    kiln__nvrtc_search("libc.so.6", &text);
    ck_assert_int_eq(strncmp(kiln__text_string(&text), "path libc.so.6\n", 15), 0);
    for (const char *at = text.data; (at = strstr(at, "\nfile ")) != NULL; at++) {
        const char *end = strchr(at + 1, '\n');
        ck_assert_ptr_nonnull(end);
        size_t length = (size_t)(end + 1 - at);
        ck_assert_msg(memmem(at + 1, strlen(at + 1), at, length) == NULL, "twice: %s", text.data);
        found += memmem(at, length, "/libc.so.6 ", 11) != NULL;
    }
    ck_assert_uint_ge(found, 1);
    kiln__text_fini(&text);
}
END_TEST

/* ---- Everything, with each call failing in turn */

/* What a host does with the functions of its own sources. */
static kiln_status use_functions(kiln__module *module, void *memory)
{
    const kiln__function_vtable *functions = vtable->functions;
    kiln_grid grid = { .size = sizeof(grid), .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
    uint64_t n = 16;
    void *arguments[] = { &memory, &memory, &n }, *address;
    size_t bytes;
    int blocks;
    grid.cooperative = 1;
    grid.shared_bytes = 64 << 10;
    functions->parameter(module, 0, 0, &bytes);
    kiln_status status = functions->occupancy(module, 0, 128, 0, &blocks, &report);
    if (status == KILN_OK)
        status = functions->launch(module, 0, &grid, arguments, NULL, &report);
    if (status == KILN_OK)
        status = functions->global(module, "none", &address, &bytes, &report);
    return status == KILN_ENOENT ? KILN_OK : status;
}

typedef struct taped {
    kiln_device *device;
    kiln__module *module;
    void *memory;
} taped;

static kiln_status submit_taped(void *data, void *stream)
{
    const taped *work = data;
    const void *in[] = { work->memory };
    kiln_status status = vtable->copy(work->device, work->memory, work->memory, 64, KILN__COPY_ON_DEVICE, stream, NULL);
    return status == KILN_OK ? launch_n(work->module, 0, 16, work->memory, in, stream, NULL) : status;
}

/* That there is no tape is no failure. */
static kiln_status use_tape(kiln_device *device, kiln__module *module, void *memory)
{
    taped work = { device, module, memory };
    double ms;
    kiln__tape *tape = vtable->tapes->make(device, submit_taped, &work, 2);
    kiln_status status = tape != NULL ? vtable->tapes->play(device, tape, 2, &ms, &report) : KILN_OK;
    vtable->tapes->discard(device, tape);
    return status;
}

/* Launches with memory of their own. */
static kiln_status use_scratch(kiln_device *device, kiln__module *module, void *memory, void **scratch)
{
    const void *in[] = { memory };
    kiln_status status = vtable->scratch(device, 64, NULL, scratch, &report);
    if (status == KILN_OK)
        status = launch_n(module, 0, 16, *scratch, in, NULL, &report);
    return status == KILN_OK ? vtable->release_scratch(device, *scratch, NULL, &report) : status;
}

static kiln_status use(kiln_device *device, kiln__module *module, void *memory, void **scratch)
{
    char host[64] = "";
    submission state = { 0 };
    const void *in[] = { memory };
    bool capturing = true;
    double ms;
    vtable->free_memory(device);
    kiln_status status = vtable->copy(device, memory, host, sizeof(host), KILN__COPY_TO_DEVICE, NULL, &report);
    if (status == KILN_OK)
        status = launch_n(module, 0, 16, memory, in, NULL, &report);
    if (status == KILN_OK)
        status = use_functions(module, memory);
    if (status == KILN_OK)
        status = use_scratch(device, module, memory, scratch);
    if (status == KILN_OK)
        status = vtable->capturing(device, NULL, &capturing, &report);
    ck_assert(status != KILN_OK || !capturing);
    if (status == KILN_OK)
        status = vtable->time(device, submit, &state, 2, &ms, &report);
    if (status == KILN_OK)
        status = use_tape(device, module, memory);
    if (status == KILN_OK)
        status = vtable->copy(device, memory, host, sizeof(host), KILN__COPY_TO_DEVICE, state.stream, &report);
    if (status == KILN_OK)
        status = vtable->copy(device, memory, memory, sizeof(host), KILN__COPY_ON_DEVICE, state.stream, &report);
    if (status == KILN_OK)
        status = vtable->copy(device, host, memory, sizeof(host), KILN__COPY_FROM_DEVICE, state.stream, &report);
    if (status == KILN_OK)
        status = vtable->copy(device, host, memory, sizeof(host), KILN__COPY_FROM_DEVICE, NULL, &report);
    return status == KILN_OK ? vtable->sync(device, &report) : status;
}

/* Everything a host does with a GPU; cleans up after itself whatever fails. */
static kiln_status do_everything(void)
{
    kiln__rule rule = sample_rule();
    kiln__entry entry = sample_entry(90, ptx_90);
    kiln_device *device = NULL;
    kiln__module *module = NULL;
    kiln_fake_live live;
    void *memory = NULL, *scratch = NULL;
    bool used_ptx;
    int count;
    rule.scratch = true;
    kiln_status status = vtable->device_count(backend, &count, &report);
    if (status == KILN_OK)
        status = vtable->device_open(backend, 0, &device, &report);
    if (status == KILN_OK)
        status = vtable->load(device, &entry, &rule, &module, &used_ptx, &report);
    if (status == KILN_OK)
        status = vtable->alloc(device, &memory, 64, &report);
    if (status == KILN_OK)
        status = use(device, module, memory, &scratch);
    if (device != NULL)
        vtable->free(device, memory);
    fake->counts(&live);
    if (live.allocations > 0 && scratch != NULL) /* the planned failure has hit it, or what comes before it */
        vtable->release_scratch(device, scratch, NULL, NULL);
    fake->counts(&live);
    if (live.allocations > 0) /* the planned failure has hit the free itself */
        vtable->free(device, memory);
    vtable->unload(module);
    vtable->device_close(device);
    return status;
}

/* Functions whose failure cannot or need not fail the caller: they give back, describe or relax, or make what one
 * can do without. */
static bool is_harmless(const char *name)
{
    static const char *const names[] = { "cuDriverGetVersion",
                                         "cuGetErrorName",
                                         "cuGetErrorString",
                                         "cuCtxPopCurrent",
                                         "cuEventDestroy",
                                         "cuStreamDestroy",
                                         "cuDevicePrimaryCtxRelease",
                                         "cuMemFree",
                                         "cuMemGetInfo",
                                         "cuMemPoolDestroy",
                                         "cuLibraryUnload",
                                         "cuKernelGetParamInfo",
                                         "cuGraphCreate",
                                         "cuGraphDestroy",
                                         "cuGraphAddKernelNode",
                                         "cuGraphAddMemcpyNode",
                                         "cuGraphInstantiateWithFlags",
                                         "cuGraphExecDestroy",
                                         "cuThreadExchangeStreamCaptureMode" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

START_TEST(test_sweep__every_call_failing_is_reported_and_leaks_nothing)
{
    static const int codes[] = { 1, 2, 201, 400, 700, 999, 12345 };
    const char *name = rows[_i].name;
    char expected[80];
    snprintf(expected, sizeof(expected), "%s failed", name);
    fake->reset();
    check_ok(do_everything());
    unsigned calls = fake->calls(name);
    ck_assert_msg(calls > 0 || is_harmless(name), "%s is never called", name);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]) && !is_harmless(name); i++)
        for (unsigned skip = 0; skip < calls; skip++) {
            fake->reset();
            kiln_report_clear(&report);
            fake->fail_call(name, codes[i], skip, 1);
            kiln_status status = do_everything();
            check_nothing_left(expected);
            if (status == KILN_OK) { /* giving memory back needs a context, and has nobody to tell */
                ck_assert_msg(strncmp(name, "cuCtx", 5) == 0, "%s failing went unnoticed", name);
                continue;
            }
            check_report(status, status, expected);
            ck_assert_int_eq(report.native, codes[i]);
            if (codes[i] == 700)
                ck_assert_int_eq(status, KILN_EDEVICE);
            if (codes[i] == 2)
                ck_assert(status == KILN_ENOMEM || status == KILN_ELAUNCH);
        }
}
END_TEST

START_TEST(test_sweep__every_allocation_failing_leaks_nothing)
{
    int failed = 0;
    check_ok(do_everything());
    for (fail_at = 1; fail_at <= 3; fail_at++) {
        allocations = 0;
        kiln__alloc_set_hook(count_allocation);
        kiln_status status = do_everything();
        kiln__alloc_set_hook(NULL);
        check_nothing_left("out of memory");
        ck_assert(status == (allocations >= fail_at ? KILN_ENOMEM : KILN_OK));
        failed += status != KILN_OK;
    }
    ck_assert_int_ge(failed, 2);
    fail_at = 0;
}
END_TEST

START_TEST(test_context__of_the_host_is_left_alone)
{
    void *own;
    check_ok(do_everything());
    own = fake->context_new(0);
    fake->context_set(own);
    check_ok(do_everything());
    ck_assert_ptr_eq(fake->context_current(), own);
    ck_assert_uint_eq(fake->context_depth(), 1);
    fake->fail_call("cuLibraryLoadData", 700, 0, 1);
    ck_assert_int_eq(do_everything(), KILN_EDEVICE);
    ck_assert_ptr_eq(fake->context_current(), own);
    ck_assert_uint_eq(fake->context_depth(), 1);
    fake->context_set(NULL);
    fake->context_free(own);
}
END_TEST

static void *do_everything_often(void *data)
{
    kiln__rule rule = sample_rule();
    kiln_device *device = data;
    char cubin[CUBIN_MAX];
    kiln__entry entry = { .kind = KILN__ENTRY_KERNEL };
    kiln__entry_add(&entry, "cubin", cubin, fake->cubin(cubin, sizeof(cubin), 90, entry_names, 2, 1));
    for (int i = 0; i < 50; i++) {
        kiln__module *module;
        submission state = { 0 };
        void *memory;
        bool used_ptx;
        double ms;
        if (vtable->load(device, &entry, &rule, &module, &used_ptx, NULL) != KILN_OK ||
            vtable->alloc(device, &memory, 64, NULL) != KILN_OK)
            return data;
        const void *in[] = { memory };
        if (launch_n(module, 0, 16, memory, in, NULL, NULL) != KILN_OK ||
            vtable->time(device, submit, &state, 2, &ms, NULL) != KILN_OK || vtable->sync(device, NULL) != KILN_OK)
            return data;
        vtable->free(device, memory);
        vtable->unload(module);
    }
    return NULL;
}

START_TEST(test_threads__share_a_device)
{
    kiln_device *device = open_device();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, do_everything_often, device), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    vtable->device_close(device);
}
END_TEST

Suite *kiln_test_gpu_cuda_suite(void)
{
    Suite *suite = suite_create("cuda");
    TCase *tcase = tcase_create("cuda");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_driver__missing_library_says_what_to_do);
    tcase_add_test(tcase, test_driver__another_library_is_refused);
    tcase_add_test(tcase, test_driver__facts_are_known_once_open);
    tcase_add_loop_test(tcase, test_driver__each_missing_function_is_named_or_done_without, 0, ROWS);
    tcase_add_test(tcase, test_driver__too_old_is_told_its_version);
    tcase_add_test(tcase, test_driver__init_failures);
    tcase_add_test(tcase, test_device__info);
    tcase_add_test(tcase, test_device__ordinal_out_of_range_lists_what_there_is);
    tcase_add_test(tcase, test_memory__round_trip);
    tcase_add_test(tcase, test_memory__faults);
    tcase_add_test(tcase, test_time__submits_in_a_stream_of_its_own);
    tcase_add_loop_test(tcase, test_time__makes_stream_and_events_when_first_needed, 0, 3);
    tcase_add_test(tcase, test_nvrtc__code_without_words_is_reported);
    tcase_add_test(tcase, test_nvrtc__search_for_a_bare_name_tells_each_file_once);
    tcase_add_loop_test(tcase, test_sweep__every_call_failing_is_reported_and_leaks_nothing, 0, ROWS);
    tcase_add_test(tcase, test_sweep__every_allocation_failing_leaks_nothing);
    tcase_add_test(tcase, test_context__of_the_host_is_left_alone);
    tcase_add_test(tcase, test_threads__share_a_device);
    suite_add_tcase(suite, tcase);
    return suite;
}
