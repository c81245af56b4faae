/* Every allocation fails in turn, once and from then on: each call says KILN_ENOMEM or does the right thing, nothing
 * crashes, and nothing leaks (LeakSanitizer looks in the asan build, the stand-in driver counts what it gave out). */
#include "fault/figures.h"
#include "fault/inject.h"
#include "fault/stand_in.h"
#include "support/fake_cuda.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include <kiln/tune.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

#define GPU_SPEC "op=hardsigmoid dtype=f32"
enum { ELEMENTS = 1000, PATH_MAX_HERE = 4096, DOCTOR_STEP = 32, SANITIZED_STEP = 7 };

typedef struct run {
    kiln_options options;
    kiln_service *service;
    kiln_report report;
    uint64_t at;
    bool on;
    uint64_t right, refused; /* calls */
} run;

static char directory[PATH_MAX_HERE], others[PATH_MAX_HERE], pack[PATH_MAX_HERE], record[PATH_MAX_HERE];
static float input[ELEMENTS], output[ELEMENTS];

/* True if the call did what it should; else it must have said KILN_ENOMEM, and so must the report, and a failure
 * must be possible at all. */
static bool is_right(run *self, kiln_status status, const char *what)
{
    ck_assert_msg(status == KILN_OK || (self->at != 0 && status == KILN_ENOMEM),
                  "%s with allocation %llu%s failing: %s: %s", what, (unsigned long long)self->at,
                  self->on ? " and all later ones" : "", kiln_status_name(status), self->report.message);
    ck_assert_msg(status == KILN_OK || self->report.status == KILN_OK || self->report.status == KILN_ENOMEM,
                  "%s: the report says %s", what, kiln_status_name(self->report.status));
    *(status == KILN_OK ? &self->right : &self->refused) += 1;
    return status == KILN_OK;
}

static void ignore_line(void *data, kiln_log_level level, const char *message)
{
    (void)data;
    (void)level;
    ck_assert(message[0] != '\0');
}

/* ---- What is done with failing allocations */

static void check_launch(run *self, kiln_kernel *kernel)
{
    const void *in[] = { input };
    memset(output, 0x5A, sizeof(output));
    if (!is_right(self, kiln_test_launch(kernel, ELEMENTS, output, in, NULL, &self->report), "kiln_launch"))
        return;
    for (int i = 0; i < ELEMENTS; i++) {
        float x = input[i], y = x + 3.0f;
        y = y < 0.0f ? 0.0f : y > 6.0f ? 6.0f : y;
        ck_assert_msg(output[i] == y * (1.0f / 6.0f), "a wrong result");
    }
}

static void get_on_cpu(run *self)
{
    kiln_spec *spec = NULL;
    kiln_kernel *kernel = NULL;
    if (is_right(self, kiln_spec_parse(&spec, self->service, STAND_IN_SPEC, &self->report), "kiln_spec_parse") &&
        is_right(self, kiln_get_kernel(&kernel, self->service, spec, &self->report), "kiln_get"))
        check_launch(self, kernel);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
}

/* In place, so that what is read is saved before. */
static void verify_on_cpu(run *self)
{
    const uint64_t n = ELEMENTS;
    const kiln_arg args[] = { KILN_ARRAY(output, sizeof(output)), KILN_ARRAY(output, sizeof(output)) };
    kiln_verification found = KILN_INIT(kiln_verification);
    kiln_spec *spec = NULL;
    kiln_kernel *kernel = NULL;
    memcpy(output, input, sizeof(output));
    if (is_right(self, kiln_spec_parse(&spec, self->service, STAND_IN_SPEC, &self->report), "kiln_spec_parse") &&
        is_right(self, kiln_get_kernel(&kernel, self->service, spec, &self->report), "kiln_get") &&
        is_right(self, kiln_verify(&found, self->service, kernel, NULL, &n, 1, args, 2, NULL, &self->report),
                 "kiln_verify"))
        ck_assert(found.compared == n && found.wrong == 0);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
}

static void launch_on_gpu(run *self, kiln_kernel *kernel)
{
    kiln_device *device;
    void *memory = NULL;
    if (!is_right(self, kiln_device_open(&device, self->service, NULL, &self->report), "kiln_device_open") ||
        !is_right(self, kiln_alloc(&memory, device, 2 * sizeof(input), &self->report), "kiln_alloc"))
        return;
    const void *in[] = { memory };
    kiln_status status = kiln_upload(device, memory, input, sizeof(input), &self->report);
    if (is_right(self, status, "kiln_copy")) {
        status = kiln_test_launch(kernel, ELEMENTS, (char *)memory + sizeof(input), in, NULL, &self->report);
        is_right(self, status, "kiln_launch");
        is_right(self, kiln_sync(device, &self->report), "kiln_sync");
    }
    kiln_free(device, memory);
}

static void get_on_gpu(run *self)
{
    kiln_spec *spec = NULL;
    kiln_kernel *kernel = NULL;
    if (is_right(self, kiln_spec_parse(&spec, self->service, GPU_SPEC, &self->report), "kiln_spec_parse") &&
        is_right(self, kiln_get_kernel(&kernel, self->service, spec, &self->report), "kiln_get")) {
        kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
        kiln_kernel_get_info(kernel, &info);
        ck_assert_str_eq(info.device, "cuda:0");
        launch_on_gpu(self, kernel);
    }
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
}

static void call_on_gpu(run *self)
{
    const void *in[] = { (void *)0x10000 };
    for (int i = 0; i < 2; i++) {
        kiln_status status =
            kiln_call(self->service, GPU_SPEC, ELEMENTS, (void *[]){ (void *)0x20000 }, 1, in, 1, NULL, &self->report);
        is_right(self, status, "kiln_call");
    }
}

static void build_for_gpu(run *self)
{
    kiln_spec *spec = NULL;
    kiln_program *program = NULL;
    const void *data;
    size_t length;
    kiln_status status = kiln_spec_parse(&spec, self->service, GPU_SPEC " target=sm_90", &self->report);
    if (is_right(self, status, "kiln_spec_parse") &&
        is_right(self, kiln_test_build_spec(&program, self->service, spec, &self->report), "kiln_get")) {
        ck_assert_int_eq(kiln_program_section(&data, &length, program, "cubin"), KILN_OK);
        ck_assert(length > 4 && memcmp(data, "\177ELF", 4) == 0);
    }
    kiln_program_release(program);
    kiln_spec_free(spec);
}

#define OWN_CU                                                                               \
    "//! template own\n//! size n\n//! arg out out f32[n] inplace\n//! arg x in f32[n]\n"    \
    "//! arg n uint64 = n\n//! param block 32..64 = 32\n//! tile block\n"                    \
    "//! grid (n + tile - 1) / tile\n//! option -std=c++20\n//! entry kiln_scalar align 4\n" \
    "//! entry kiln_vector align 16\n#include \"own.h\"\n"

/* A template with a header, and its twin with the same. */
static void build_own(run *self, const char *text)
{
    kiln_spec *spec = NULL;
    kiln_program *program = NULL;
    const char *path = kiln_test_temp_path("own.cu");
    if (is_right(self, kiln_template_load(self->service, path, NULL, &self->report), "kiln_template_load") &&
        is_right(self, kiln_spec_parse(&spec, self->service, text, &self->report), "kiln_spec_parse"))
        is_right(self, kiln_test_build_spec(&program, self->service, spec, &self->report), "kiln_get");
    kiln_program_release(program);
    kiln_spec_free(spec);
}

static void build_own_for_gpu(run *self)
{
    build_own(self, "template=own target=sm_90");
}

static void build_own_twin(run *self)
{
    build_own(self, "template=own target=cpu");
}

/* What is done with whole stores, beside the kernels that come from the pack. */
static void move_and_trim(run *self)
{
    kiln_trim trim = KILN_INIT(kiln_trim);
    kiln_transfer out = KILN_INIT(kiln_transfer), in = KILN_INIT(kiln_transfer);
    get_on_gpu(self);
    if (!kiln_test_has_store(self->service))
        return;
    kiln_status status = kiln_cache_import(self->service, pack, &in, &self->report);
    if (is_right(self, status, "kiln_cache_import"))
        ck_assert(in.entries + in.present == 1 && in.damaged == 0);
    status = kiln_cache_export(self->service, kiln_test_temp_path("exported"), NULL, NULL, &out, &self->report);
    if (is_right(self, status, "kiln_cache_export"))
        ck_assert(out.entries <= 1 && out.damaged == 0);
    is_right(self, kiln_cache_trim(self->service, 0, 1, &trim, &self->report), "kiln_cache_trim");
}

static int count_spec(void *data, const kiln_spec *spec)
{
    (void)spec;
    ++*(int *)data;
    return 0;
}

static int count_entry(void *data, const kiln_entry_info *entry)
{
    (void)entry;
    ++*(int *)data;
    return 0;
}

static int count_finding(void *data, const kiln_finding *finding)
{
    (void)finding;
    ++*(int *)data;
    return 0;
}

#define RECORD                                                                                                \
    "{\"format\": 1, \"records\": [{\"model\": \"m\", \"target\": \"sm_90\", \"template\": \"elementwise\", " \
    "\"class\": \"1 in, 1 out, light\", \"op\": \"relu6\", \"dtype\": \"f32\", \"log2_n\": 20, "              \
    "\"geometry\": \"block=64 elems=4 vector=4 cache=plain\"}]}"
#define KNOWN "op=relu6 dtype=f32 block=64 elems=4 vector=4 cache=plain target=sm_90"

static int take_record(void *data, const kiln_wisdom_record *known)
{
    ++*(int *)data;
    return strcmp(known->model, "m") == 0;
}

/* What is known is known whole or not at all. */
static void use_wisdom(run *self)
{
    kiln_spec *spec = NULL;
    char *text = NULL, *known = NULL;
    int records = 0;
    const char *path = kiln_test_temp_path("wisdom.json");
    kiln_wisdom_tally tally = KILN_INIT(kiln_wisdom_tally);
    kiln_status status = kiln_wisdom_import(self->service, &path, 1, &tally, &self->report);
    if (self->at != 0 && (status == KILN_ENOENT || status == KILN_EIO)) /* there is no store, or it failed */
        return;
    if (is_right(self, status, "kiln_wisdom_import"))
        ck_assert_uint_eq(tally.added, 1);
    if (status == KILN_OK && is_right(self, kiln_wisdom_visit(self->service, take_record, &records), "visit")) {
        ck_assert_int_ge(records, 1);
        status = kiln_wisdom_export(&known, self->service, take_record, &records, &self->report);
        if (is_right(self, status, "kiln_wisdom_export"))
            ck_assert_ptr_nonnull(strstr(known, "relu6"));
        if (is_right(self, kiln_spec_parse(&spec, self->service, "op=relu6 target=sm_90", &self->report), "parse") &&
            is_right(self, kiln_wisdom_explain(&text, self->service, spec, "m", NULL, NULL, &self->report), "explain"))
            ck_assert_str_eq(text, KNOWN);
    }
    kiln_text_free(known);
    kiln_text_free(text);
    kiln_spec_free(spec);
}

/* All that is not on the way to a kernel. */
static void use_the_rest(run *self)
{
    kiln_spec *open = NULL, *spec = NULL;
    char *source = NULL;
    int specs = 0, entries = 0;
    uint64_t removed = 0;
    if (is_right(self, kiln_spec_parse(&open, self->service, "op=hardtanh(-1,1)", &self->report), "kiln_spec_parse") &&
        is_right(self, kiln_spec_with(&spec, open, "target=sm_90", &self->report), "kiln_spec_with")) {
        ck_assert_str_eq(kiln_spec_text(spec), "op=hardtanh(-1,1) target=sm_90");
        kiln_status status = kiln_spec_source(&source, spec, &self->report);
        if (is_right(self, status, "kiln_spec_source"))
            ck_assert_ptr_nonnull(strstr(source, "hardtanh"));
    }
    kiln_text_free(source);
    kiln_spec_free(spec);
    kiln_spec_free(open);
    kiln_status status = kiln_spec_expand(self->service, "op=relu6,hardsigmoid dtype=f32,f16 block=64..256*2",
                                          count_spec, &specs, &self->report);
    if (is_right(self, status, "kiln_spec_expand"))
        ck_assert_int_eq(specs, 12);
    if (kiln_test_has_store(self->service)) {
        status = kiln_cache_visit(self->service, count_entry, &entries, &self->report);
        ck_assert(status == KILN_OK || (self->at != 0 && (status == KILN_ENOMEM || status == KILN_ENOENT)));
        status = kiln_cache_purge(self->service, kiln_test_is_refused, NULL, &removed, &self->report);
        ck_assert(status == KILN_OK || (self->at != 0 && (status == KILN_ENOMEM || status == KILN_ENOENT)));
    }
}

static void use_doctor(run *self)
{
    int findings = 0;
    if (is_right(self, kiln_doctor(self->service, count_finding, &findings), "kiln_doctor"))
        ck_assert_int_ge(findings, 4);
}

/* ---- What it leaves in the store */

static char kernel_path[PATH_MAX_HERE];

static int check_entry(void *data, const kiln_entry_info *entry)
{
    const run *self = data;
    ck_assert_msg(entry->status == KILN_OK, "%s: %s", entry->path, entry->problem);
    if (strcmp(entry->kind, "kernel") != 0)
        return 0;
    if (kernel_path[0] == '\0')
        snprintf(kernel_path, sizeof(kernel_path), "%s", entry->path);
    ck_assert_msg(strcmp(kernel_path, entry->path) == 0, "allocation %llu made the kernel go to %s instead of %s",
                  (unsigned long long)self->at, entry->path, kernel_path);
    return 0;
}

/* Whatever failed, a kernel is kept under its own name or not at all: source, options and toolchain make the name. */
static void check_store(run *self)
{
    kiln_service *service = kiln_test_open(&self->options);
    ck_assert_int_eq(kiln_cache_visit(service, check_entry, self, NULL), KILN_OK);
    kiln_close(service);
}

/* ---- The loop */

typedef struct scenario {
    const char *name;
    void (*use)(run *self);
    bool cold; /* the store is removed before each run */
} scenario;

/* Opens, uses and closes with allocation `at` failing; returns how many allocations there were. */
static uint64_t perform(const scenario *what, run *self, uint64_t at, bool on)
{
    kiln_report fresh = KILN_INIT(kiln_report);
    self->at = at;
    self->on = on;
    self->report = fresh;
    self->service = NULL;
    if (what->cold)
        kiln_test_temp_remove(directory);
    inject_memory_arm(at, on);
    if (is_right(self, kiln_open(&self->service, &self->options, &self->report), "kiln_open"))
        what->use(self);
    else
        ck_assert_ptr_null(self->service);
    kiln_close(self->service);
    kiln_report_clear(&self->report);
    uint64_t allocations = inject_memory_disarm();
    check_store(self);
    return allocations;
}

#if defined(__SANITIZE_ADDRESS__)
static const char leaks[] = "0 leaks";

static void check_leaks(const char *what)
{
    ck_assert_msg(__lsan_do_recoverable_leak_check() == 0, "%s leaked", what);
}
#else
static const char leaks[] = "leaks not looked for";

static void check_leaks(const char *what)
{
    (void)what;
}
#endif

static void fail_everything(const scenario *what, const kiln_options *options, uint64_t step)
{
    run self = { .options = *options };
    uint64_t runs = 0;
    double start = seconds_now();
    self.options.log = ignore_line;
    kernel_path[0] = '\0';
    kiln_test_temp_remove(directory);
    perform(what, &self, 0, false);
    uint64_t allocations = perform(what, &self, 0, false);
    check_leaks(what->name);
    self.right = 0;
    for (int on = 0; on < 2; on++)
        for (uint64_t at = 1; at <= allocations; at += step, runs++)
            perform(what, &self, at, on);
    check_leaks(what->name);
    FIGURES("memory: %s: %llu allocations, %llu runs, %llu calls right, %llu said KILN_ENOMEM, %s%s; %.1f s",
            what->name, (unsigned long long)allocations, (unsigned long long)runs, (unsigned long long)self.right,
            (unsigned long long)self.refused, leaks, step > 1 ? " (not every allocation)" : "", seconds_now() - start);
    ck_assert_uint_gt(self.refused, 0);
    perform(what, &self, 0, false);
}

static kiln_options options_here(kiln_options options)
{
    snprintf(directory, sizeof(directory), "%s", options.cache_dir);
    options.cache_dir = directory;
    for (int i = 0; i < ELEMENTS; i++)
        input[i] = (float)(i - ELEMENTS / 2) / 100.0f;
    return options;
}

static kiln_options stand_in_gpu_options(void)
{
    kiln_options options = options_here(kiln_test_gpu_options());
    options.nvrtc = getenv("KILN_STAND_IN_NVRTC");
    ck_assert_msg(options.nvrtc != NULL, "KILN_STAND_IN_NVRTC must name the stand-in NVRTC");
    return options;
}

START_TEST(test_memory__get_on_the_cpu)
{
    static const scenario cold = { "open, get and launch on the cpu, cold", get_on_cpu, true };
    static const scenario warm = { "open, get and launch on the cpu, warm", get_on_cpu, false };
    static const scenario verify = { "open, get and verify on the cpu, warm", verify_on_cpu, false };
    kiln_options options = options_here(stand_in_options());
    fail_everything(&cold, &options, 1);
    fail_everything(&warm, &options, 1);
    fail_everything(&verify, &options, 1);
}
END_TEST

START_TEST(test_memory__get_on_the_gpu)
{
    static const scenario cold = { "open, get and launch on the stand-in GPU, cold", get_on_gpu, true };
    static const scenario warm = { "open, get and launch on the stand-in GPU, warm", get_on_gpu, false };
    static const scenario call = { "open and kiln_call on the stand-in GPU, warm", call_on_gpu, false };
    const kiln_fake *driver = kiln_fake_open();
    kiln_options options = stand_in_gpu_options();
    kiln_fake_live live;
    fail_everything(&cold, &options, 1);
    fail_everything(&warm, &options, 1);
    fail_everything(&call, &options, 1);
    driver->counts(&live);
    ck_assert_msg(live.contexts + live.streams + live.events + live.libraries + live.allocations + live.bytes == 0,
                  "left %zu contexts, %zu streams, %zu events, %zu libraries, %zu allocations", live.contexts,
                  live.streams, live.events, live.libraries, live.allocations);
}
END_TEST

/* A store and a pack with the kernel of GPU_SPEC, which another service finds there. */
static kiln_options options_with_others(void)
{
    kiln_options options = stand_in_gpu_options();
    snprintf(others, sizeof(others), "%s", kiln_test_temp_path("others"));
    snprintf(pack, sizeof(pack), "%s", kiln_test_temp_path("pack"));
    snprintf(record, sizeof(record), "%s", kiln_test_temp_path("record"));
    options.cache_dir = others;
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel_release(kiln_test_get(service, GPU_SPEC));
    ck_assert_int_eq(kiln_cache_export(service, pack, NULL, NULL, NULL, NULL), KILN_OK);
    kiln_close(service);
    options.cache_dir = directory;
    options.packs = pack;
    options.shared_dir = others;
    options.record = record;
    return options;
}

START_TEST(test_memory__packs_shared_directory_record_and_what_moves_entries)
{
    static const scenario cold = { "packs, shared directory, record, import, export and trim, cold", move_and_trim,
                                   true };
    static const scenario warm = { "the same, warm", move_and_trim, false };
    kiln_fake_open();
    kiln_options options = options_with_others();
    fail_everything(&cold, &options, 1);
    fail_everything(&warm, &options, 1);
    options.packs = NULL;
    fail_everything(&(scenario){ "the same without a pack to get from", move_and_trim, true }, &options, 1);
}
END_TEST

START_TEST(test_memory__build_in_a_worker)
{
    static const scenario cold = { "open and build for sm_90 in a worker", build_for_gpu, true };
    kiln_options options = options_here(stand_in_options());
    options.nvrtc = getenv("KILN_STAND_IN_NVRTC");
    options.isolate = KILN_ISOLATE_ALWAYS;
    fail_everything(&cold, &options, KILN_TEST_SANITIZED && !fault_long ? SANITIZED_STEP : 1);
}
END_TEST

START_TEST(test_memory__templates_that_include)
{
    static const scenario kernel = { "open and build a template with a header in a worker", build_own_for_gpu, true };
    static const scenario twin = { "open and build a twin with headers", build_own_twin, true };
    kiln_options options = options_here(stand_in_options());
    options.nvrtc = getenv("KILN_STAND_IN_NVRTC");
    kiln_test_temp_write("own.cu", OWN_CU, strlen(OWN_CU));
    kiln_test_temp_write("own.c", "#include \"own.h\"\n", 17);
    kiln_test_temp_write("own.h", "#include \"further.h\"\n", 21);
    kiln_test_temp_write("further.h", "\n", 1);
    fail_everything(&twin, &options, 1);
    fail_everything(&kernel, &options, KILN_TEST_SANITIZED && !fault_long ? SANITIZED_STEP : 1);
}
END_TEST

START_TEST(test_memory__everything_else)
{
    static const scenario rest = { "specs, source, products and cache", use_the_rest, false };
    static const scenario doctor = { "doctor", use_doctor, false };
    kiln_options options = options_here(stand_in_options());
    options.nvrtc = getenv("KILN_STAND_IN_NVRTC");
    fail_everything(&rest, &options, 1);
    fail_everything(&doctor, &options, fault_long ? 1 : DOCTOR_STEP);
}
END_TEST

START_TEST(test_memory__build_with_nvrtc)
{
    static const scenario real = { "open and build for sm_90 with NVRTC", build_for_gpu, true };
    kiln_options options = options_here(kiln_test_options());
    fail_everything(&real, &options, 1);
}
END_TEST

START_TEST(test_memory__wisdom)
{
    static const scenario moved = { "import, list, export and explain wisdom", use_wisdom, true };
    kiln_options options = options_here(stand_in_options());
    kiln_test_temp_write("wisdom.json", RECORD, strlen(RECORD));
    fail_everything(&moved, &options, KILN_TEST_SANITIZED && !fault_long ? SANITIZED_STEP : 1);
}
END_TEST

Suite *kiln_test_fault_memory_suite(void)
{
    Suite *suite = suite_create("memory");
    TCase *tcase = tcase_create("memory");
    tcase_set_timeout(tcase, fault_long ? 7200 : 500);
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_memory__get_on_the_cpu);
    tcase_add_test(tcase, test_memory__get_on_the_gpu);
    tcase_add_test(tcase, test_memory__packs_shared_directory_record_and_what_moves_entries);
    tcase_add_test(tcase, test_memory__build_in_a_worker);
    tcase_add_test(tcase, test_memory__templates_that_include);
    tcase_add_test(tcase, test_memory__everything_else);
    if (!KILN_TEST_SANITIZED) /* LeakSanitizer crashes at thread-local data of many libraries that came and went */
        tcase_add_test(tcase, test_memory__build_with_nvrtc);
    tcase_add_test(tcase, test_memory__wisdom);
    suite_add_tcase(suite, tcase);
    return suite;
}
