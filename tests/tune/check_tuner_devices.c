/* Tuning on several devices at once, without traces in the service, and past variants that break the device: on the
 * stand-in driver, which computes relu6. */
#include "os/cpu.h"
#include "service/service.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/tune.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SPEC "op=relu6 dtype=f32 elems=4 vector=4 cache=stream" /* leaves the block open: 64 to 1024 */
enum { VARIANTS = 5, TEXT = 256 };

static const kiln_fake *fake;
static kiln_service *service;

/* ThreadSanitizer does not see the locks inside NVRTC, under which the threads that compile first would set it up. */
static void set_up_nvrtc(kiln_options options)
{
    options.cache_dir = "";
    service = kiln_test_open(&options);
    kiln_program_release(kiln_test_build(service, "op=copy dtype=f32 target=sm_90"));
    kiln_close(service);
}

static void set_up(void)
{
    kiln_options options = kiln_test_gpu_options();
    set_up_nvrtc(options);
    fake = kiln_fake_open();
    fake->configure("devices=2,relu6=1");
    options.record = kiln_test_temp_path("record");
    service = kiln_test_open(&options);
}

static void tear_down(void)
{
    kiln_fake_live live;
    kiln_close(service);
    fake->counts(&live);
    ck_assert_uint_eq(live.contexts + live.streams + live.libraries + live.allocations + live.graphs, 0);
}

static kiln_device *device_of(const char *name)
{
    kiln_device *device;
    ck_assert_int_eq(kiln_device_open(&device, service, name, NULL), KILN_OK);
    return device;
}

/* One tuning, and what came of it. */
typedef struct tuning {
    const char *device, *text;
    double budget_s;
    kiln_status status;
    kiln_tuning_info info;
    char name[16], message[512], *suspect;
    char trying[TEXT], last[TEXT]; /* now, "" for nothing; and the latest */
    uint64_t first_ns, last_ns;    /* of what was tried */
    const void *wrong_context;     /* of a launch by this thread, if there was one */
    const kiln_skip *skip;
    size_t skip_count;
    kiln_progress_fn progress;
    const char *meanwhile; /* what the host gets as soon as something is tried, or NULL */
    kiln_variant_result results[16];
    char problems[16][TEXT], specs[16][TEXT];
} tuning;

static __thread const void *own_context; /* where this thread may launch; NULL: not looked at */
static __thread tuning *own_tuning;

static void look_at_context(void *data, const kiln_fake_launch *launch)
{
    (void)data;
    if (own_context != NULL && launch->context != own_context)
        own_tuning->wrong_context = launch->context;
}

static void note_trying(void *data, const char *spec)
{
    tuning *self = data;
    if (self->meanwhile != NULL && self->first_ns == 0)
        kiln_kernel_release(kiln_test_get(service, self->meanwhile));
    self->last_ns = kiln__cpu_now_ns();
    self->first_ns = self->first_ns != 0 ? self->first_ns : self->last_ns;
    snprintf(self->trying, TEXT, "%s", spec != NULL ? spec : "");
    if (spec != NULL)
        strcpy(self->last, self->trying);
}

static void keep_result(tuning *self, const kiln_tuning *made)
{
    self->info.size = sizeof(self->info);
    ck_assert_int_eq(kiln_tuning_get_info(made, &self->info), KILN_OK);
    snprintf(self->name, sizeof(self->name), "%s", self->info.device);
    for (uint64_t i = 0; i < self->info.variants && i < 16; i++) {
        ck_assert_uint_lt(i, self->info.result_count);
        self->results[i] = *self->info.results[i];
        snprintf(self->problems[i], TEXT, "%s", self->results[i].problem);
        snprintf(self->specs[i], TEXT, "%s", self->results[i].spec);
    }
}

/* kiln_progress_fn. How long it takes to compile all variants is the machine's affair: a tuning whose budget ends
 * before leaves some that are still being compiled. */
static int until_all_are_known(void *data, const kiln_tuning_info *info)
{
    (void)data;
    return info->verified + info->rejected == info->variants && info->rounds >= 3;
}

#define ALL_KNOWN .budget_s = 100, .progress = until_all_are_known

static void *tune(void *data)
{
    tuning *self = data;
    kiln_tune_options options = KILN_INIT(kiln_tune_options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_tuning *made;
    kiln_spec *spec = kiln_test_spec(service, self->text);
    kiln_work work = KILN_INIT(kiln_work);
    options.work = &work;
    options.budget_s = self->budget_s;
    work.elements = 5000;
    work.hot = 1;
    work.device = self->device != NULL ? device_of(self->device) : NULL;
    options.trying = note_trying;
    options.progress = self->progress;
    options.data = self;
    options.skip = self->skip;
    options.skip_count = self->skip_count;
    options.suspect = &self->suspect;
    if (self->device != NULL && strncmp(self->device, "cuda:", 5) == 0)
        own_context = fake->context_primary(self->device[5] - '0');
    own_tuning = self;
    self->status = kiln_tune(&made, service, spec, &options, &report);
    own_context = NULL;
    snprintf(self->message, sizeof(self->message), "%s", report.message);
    if (self->status == KILN_OK)
        keep_result(self, made);
    kiln_tuning_free(made);
    kiln_report_clear(&report);
    kiln_spec_free(spec);
    return NULL;
}

static void tune_both(tuning *first, tuning *second)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, tune, first), 0);
    tune(second);
    pthread_join(thread, NULL);
}

static void check_good(const tuning *self, const char *device)
{
    ck_assert_msg(self->status == KILN_OK, "%s", self->message);
    ck_assert_str_eq(self->name, device);
    ck_assert_uint_gt(self->info.variants, 2);
    ck_assert_uint_eq(self->info.rejected, 0);
    ck_assert_ptr_null(self->wrong_context);
    ck_assert_ptr_null(self->suspect);
    ck_assert_str_eq(self->trying, "");
}

START_TEST(test_tuner_devices__two_gpus_at_once)
{
    tuning first = { .device = "cuda:0", .text = SPEC, ALL_KNOWN }, second = first;
    second.device = "cuda:1";
    fake->set_run(look_at_context, NULL);
    tune_both(&first, &second);
    check_good(&first, "cuda:0");
    check_good(&second, "cuda:1");
    ck_assert_uint_eq(first.info.variants, VARIANTS);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, VARIANTS + 2); /* the counter, and the kernel of the cpu */
}
END_TEST

START_TEST(test_tuner_devices__a_gpu_and_the_cpu_at_once)
{
    tuning first = { .device = "cuda:1", .text = SPEC, ALL_KNOWN };
    tuning second = { .device = "cpu", .text = "op=relu6 dtype=f32", .budget_s = 3 };
    fake->set_run(look_at_context, NULL);
    tune_both(&first, &second);
    check_good(&first, "cuda:1");
    check_good(&second, "cpu");
}
END_TEST

/* The default stream is that of the context that the host has made current. */
START_TEST(test_tuner_devices__whatever_context_is_current)
{
    tuning only = { .device = "cuda:0", .text = SPEC, ALL_KNOWN };
    device_of("cuda:1");
    fake->context_set(fake->context_primary(1));
    fake->set_run(look_at_context, NULL);
    tune(&only);
    check_good(&only, "cuda:0");
    ck_assert_ptr_eq(fake->context_current(), fake->context_primary(1));
    fake->context_set(NULL);
}
END_TEST

START_TEST(test_tuner_devices__on_one_device_they_take_turns)
{
    tuning a = { .device = "cuda:0", .text = SPEC, ALL_KNOWN }, b = a;
    uint64_t start = kiln__cpu_now_ns();
    tune_both(&a, &b);
    double both = (double)(kiln__cpu_now_ns() - start) / 1e9;
    check_good(&a, "cuda:0");
    check_good(&b, "cuda:0");
    ck_assert(a.last_ns < b.first_ns || b.last_ns < a.first_ns);
    ck_assert_double_le(a.info.seconds + b.info.seconds, both); /* waiting does not count */
    ck_assert_uint_gt(a.info.rounds, 0);
    ck_assert_uint_gt(b.info.rounds, 0);
}
END_TEST

static int give_up(void *data, const kiln_tuning_info *info)
{
    (void)data;
    ck_assert_uint_eq(info->variants, VARIANTS);
    ck_assert_double_lt(info->seconds, 0.5);
    return 1;
}

START_TEST(test_tuner_devices__who_waits_may_give_up)
{
    tuning waiting = { .device = "cuda:0", .text = SPEC, .budget_s = 100, .progress = give_up };
    kiln_device *device = device_of("cuda:0");
    atomic_store(&device->tuning, true); /* as if another thread were at it */
    tune(&waiting);
    ck_assert_int_eq(waiting.status, KILN_ECANCELED);
    ck_assert_ptr_nonnull(strstr(waiting.message, "another tuning was running on cuda:0"));
    atomic_store(&device->tuning, false);
    waiting.progress = until_all_are_known;
    tune(&waiting);
    check_good(&waiting, "cuda:0");
    ck_assert(!atomic_load(&device->tuning));
}
END_TEST

START_TEST(test_tuner_devices__what_does_not_go_together_is_refused)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_service *own = service, *other = kiln_test_open(&options);
    kiln_tune_options asked = KILN_INIT(kiln_tune_options);
    kiln_sweep_options swept = KILN_INIT(kiln_sweep_options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_tuning *made;
    kiln_work work = KILN_INIT(kiln_work);
    kiln_spec *spec = kiln_test_spec(service, SPEC " target=cpu");
    const kiln_spec *const specs[] = { spec };
    asked.work = swept.work = &work;
    work.device = device_of("cuda:0");
    work.elements = 1000;
    ck_assert_int_eq(kiln_tune(&made, service, spec, &asked, &report), KILN_ETARGET);
    ck_assert_ptr_nonnull(strstr(report.message, "does not run on cuda:0"));
    ck_assert_int_eq(kiln_sweep(&made, service, specs, 1, &swept, &report), KILN_ETARGET);
    ck_assert_ptr_nonnull(strstr(report.message, "does not run on cuda:0"));
    service = other;
    work.device = device_of("cuda:0");
    service = own;
    ck_assert_int_eq(kiln_tune(&made, service, spec, &asked, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "belongs to another service"));
    kiln_report_clear(&report);
    ck_assert_int_eq(kiln_sweep(&made, service, specs, 1, &swept, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "belongs to another service"));
    kiln_spec_free(spec);
    kiln_close(other);
}
END_TEST

static kiln_work small_work(int hot)
{
    kiln_work work = KILN_INIT(kiln_work);
    work.elements = 5000;
    work.hot = hot;
    return work;
}

static kiln_status sweep_texts(kiln_tuning **out, const char *const *texts, size_t count,
                               const kiln_sweep_options *options)
{
    kiln_spec *specs[4];
    kiln_report report = KILN_INIT(kiln_report);
    for (size_t i = 0; i < count; i++)
        specs[i] = kiln_test_spec(service, texts[i]);
    kiln_status status = kiln_sweep(out, service, (const kiln_spec *const *)specs, count, options, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    for (size_t i = 0; i < count; i++)
        kiln_spec_free(specs[i]);
    return status;
}

/* ---- Kernels that take less time than it takes to submit them */

/* 512 threads are fastest by a fifth; the host needs longer in any case. */
static uint64_t cost(void *data, const kiln_fake_launch *launch)
{
    (void)data;
    return launch->block[0] == 512 ? 2000 : 2500;
}

/* With graphs the choice is the kernel's that is fastest, without them there is nothing to choose by. */
START_TEST(test_tuner_devices__short_kernels_are_told_apart)
{
    tuning only = { .device = "cuda:0", .text = SPEC, .budget_s = 20 };
    kiln_fake_live live;
    if (_i == 1)
        fake->hide("cuGraphLaunch");
    fake->set_cost(cost, NULL, 4000);
    tune(&only);
    check_good(&only, "cuda:0");
    ck_assert_str_eq(only.info.end, "settled");
    ck_assert_msg((strstr(only.specs[0], " block=512 ") != NULL) == (_i == 0), "%s", only.specs[0]);
    ck_assert_double_eq_tol(only.info.default_ms, _i == 0 ? 0.0025 : 0.004, 1e-4);
    fake->counts(&live);
    ck_assert_uint_eq(live.graphs, 0);
    ck_assert_uint_eq(fake->calls("cuGraphInstantiateWithFlags"), _i == 0 ? VARIANTS : 0); /* one each */
    ck_assert_uint_eq(fake->calls("cuGraphExecDestroy"), _i == 0 ? VARIANTS : 0);
}
END_TEST

/* How many launches of graphs succeed before all fail: in the first graph, in a heat, in the finals. */
static const unsigned good_launches[] = { 1, 30, 70 };

/* Without graphs all take what the host needs, and the best of before is nothing special any more. */
START_TEST(test_tuner_devices__failing_graphs_put_all_on_one_basis)
{
    tuning only = { .device = "cuda:0", .text = SPEC, .budget_s = 20 };
    fake->set_cost(cost, NULL, 4000);
    fake->fail_call("cuGraphLaunch", 2, good_launches[_i], KILN_FAKE_FOREVER);
    tune(&only);
    check_good(&only, "cuda:0");
    ck_assert_uint_gt(fake->calls("cuGraphLaunch"), good_launches[_i]);
    ck_assert_msg(strstr(only.specs[0], " block=512 ") == NULL, "%s", only.specs[0]);
    ck_assert_double_eq_tol(only.info.default_ms, 0.004, 1e-4);
    for (int i = 0; i < VARIANTS; i++)
        ck_assert_double_eq_tol(only.results[i].ratio, 1, 0.01);
}
END_TEST

START_TEST(test_tuner_devices__a_sweep_with_failing_graphs_is_on_one_basis)
{
    static const char *const specs[] = { SPEC, SPEC " block=256", SPEC " block=512" };
    kiln_sweep_options options = KILN_INIT(kiln_sweep_options);
    kiln_work work = small_work(1);
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_tuning *made;
    options.work = &work;
    options.rounds = 8;
    fake->set_cost(cost, NULL, 4000);
    fake->fail_call("cuGraphLaunch", 2, good_launches[_i], KILN_FAKE_FOREVER);
    ck_assert_int_eq(sweep_texts(&made, specs, 3, &options), KILN_OK);
    ck_assert_int_eq(kiln_tuning_get_info(made, &info), KILN_OK);
    ck_assert_uint_gt(fake->calls("cuGraphLaunch"), good_launches[_i]);
    ck_assert_uint_eq(info.rounds, 8);
    for (uint64_t i = 0; i < 3; i++) {
        const kiln_variant_result result = *info.results[i];
        ck_assert_uint_eq(result.samples, 8);
        ck_assert_double_eq_tol(result.median_ms, 0.004, 1e-4);
        ck_assert_double_eq_tol(result.ratio, 1, 0.01);
        ck_assert_double_eq_tol(result.ceiling_ratio, 1, 0.01);
    }
    kiln_tuning_free(made);
}
END_TEST

START_TEST(test_tuner_devices__sweeps_tell_short_kernels_apart)
{
    static const char *const specs[] = { SPEC, SPEC " block=256", SPEC " block=512" };
    kiln_sweep_options options = KILN_INIT(kiln_sweep_options);
    kiln_work work = small_work(_i);
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_tuning *made;
    options.work = &work;
    options.rounds = 8;
    fake->set_cost(cost, NULL, 4000);
    ck_assert_int_eq(sweep_texts(&made, specs, 3, &options), KILN_OK);
    ck_assert_int_eq(kiln_tuning_get_info(made, &info), KILN_OK);
    const kiln_variant_result best = *info.results[0];
    ck_assert_msg(strstr(best.spec, " block=512 ") != NULL, "%s", best.spec);
    ck_assert_double_eq_tol(best.ratio, 0.8, 0.01);
    ck_assert_double_eq_tol(info.ceiling_ms, 0.001, 1e-5); /* what a copy takes */
    ck_assert_uint_eq(fake->calls("cuGraphExecDestroy"), 3 + 2);
    kiln_tuning_free(made);
}
END_TEST

typedef struct launching {
    kiln_kernel *kernel;
    void *memory;
} launching;

static kiln_status submit(void *data, void *stream)
{
    const launching *self = data;
    const void *in[] = { self->memory };
    return kiln_test_launch(self->kernel, 1000, self->memory, in, stream, NULL);
}

START_TEST(test_tuner_devices__hosts_can_measure_short_launches)
{
    launching work = { .kernel = kiln_test_get(service, SPEC " block=512") };
    const kiln_contender contender = { submit, &work };
    kiln_device *device = device_of("cuda:0");
    kiln_timing as_submitted, as_run;
    ck_assert_int_eq(kiln_alloc(&work.memory, device, 4000, NULL), KILN_OK);
    fake->set_cost(cost, NULL, 4000);
    kiln_measure_options options = KILN_INIT(kiln_measure_options);
    options.warmup = 1;
    options.rounds = 5;
    ck_assert_int_eq(kiln_measure(&as_submitted, device, &contender, 1, &options, NULL), KILN_OK);
    ck_assert_uint_eq(fake->calls("cuGraphCreate"), 0);
    options.replay = 1;
    ck_assert_int_eq(kiln_measure(&as_run, device, &contender, 1, &options, NULL), KILN_OK);
    ck_assert_double_eq_tol(as_submitted.median_ms, 0.004, 1e-4);
    ck_assert_double_eq_tol(as_run.median_ms, 0.002, 5e-5);
    kiln_free(device, work.memory);
    kiln_kernel_release(work.kernel);
}
END_TEST

/* ---- Traces */

static size_t libraries(void)
{
    kiln_fake_live live;
    fake->counts(&live);
    return live.libraries;
}

/* The thread that brought a kernel lets go of it a moment after it has been delivered. */
static void await_libraries(size_t count)
{
    for (int i = 0; i < 20000 && libraries() != count; i++)
        usleep(1000);
    ck_assert_uint_eq(libraries(), count);
}

START_TEST(test_tuner_devices__tuning_leaves_no_trace)
{
    tuning only = { .device = "cuda:0", .text = SPEC, ALL_KNOWN };
    char recorded[TEXT] = "";
    tune(&only);
    check_good(&only, "cuda:0");
    await_libraries(0);
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_uint_ge(stats.loads, VARIANTS + 2);
    ck_assert_uint_eq(fake->calls("cuLibraryUnload"), fake->calls("cuLibraryLoadData"));
    ck_assert_uint_eq(stats.compiles, VARIANTS + 2);
    ck_assert_uint_eq(stats.record_errors, 0);
    FILE *record = fopen(kiln_test_temp_path("record"), "r");
    ck_assert_msg(record == NULL || fread(recorded, 1, sizeof(recorded) - 1, record) == 0, "%s", recorded);
    if (record != NULL)
        fclose(record);
    kiln_kernel_release(kiln_test_get(service, SPEC " block=256")); /* loaded anew, not compiled */
    stats = kiln_test_stats(service);
    ck_assert_uint_eq(stats.compiles, VARIANTS + 2);
    ck_assert_uint_eq(libraries(), 1);
}
END_TEST

START_TEST(test_tuner_devices__what_the_host_has_loaded_stays)
{
    tuning only = { .device = "cuda:0", .text = SPEC, ALL_KNOWN };
    kiln_kernel *held = kiln_test_get(service, SPEC " block=256");
    tune(&only);
    check_good(&only, "cuda:0");
    await_libraries(1);
    kiln_kernel *again = kiln_test_get(service, SPEC " block=256");
    ck_assert_ptr_eq(held, again);
    kiln_kernel_release(held);
    kiln_kernel_release(again);
}
END_TEST

/* The host asks for a variant whose kernel the tuning is still waiting for: what it gets is a kernel like any other. */
START_TEST(test_tuner_devices__a_get_meanwhile_is_kept)
{
    tuning only = { .device = "cuda:0", .text = SPEC, ALL_KNOWN, .meanwhile = SPEC " block=1024" };
    tune(&only);
    check_good(&only, "cuda:0");
    await_libraries(1);
    uint64_t loads = kiln_test_stats(service).loads;
    kiln_kernel_release(kiln_test_get(service, SPEC " block=1024 target=sm_90"));
    ck_assert_uint_eq(kiln_test_stats(service).loads, loads);
}
END_TEST

static int count_copies(void *data, const kiln_entry_info *entry)
{
    int *copies = data;
    if (strstr(entry->spec, "op=copy ") != NULL)
        copies[strstr(entry->spec, "target=sm_80") != NULL]++;
    return 0;
}

/* The copy that a sweep compares with is one like the kernels, and as little loaded afterwards. */
START_TEST(test_tuner_devices__a_sweep_compares_with_a_copy_for_its_target)
{
    static const char *const texts[] = { SPEC " block=128 target=sm_80", SPEC " block=256 target=sm_80" };
    kiln_sweep_options options = KILN_INIT(kiln_sweep_options);
    kiln_tuning *made;
    kiln_work work = small_work(1);
    int copies[2] = { 0 };
    fake->configure("sm=89");
    options.work = &work;
    options.rounds = 2;
    ck_assert_int_eq(sweep_texts(&made, texts, 2, &options), KILN_OK);
    kiln_tuning_free(made);
    await_libraries(0);
    ck_assert_int_eq(kiln_cache_visit(service, count_copies, copies, NULL), KILN_OK);
    ck_assert_int_eq(copies[0], 0);
    ck_assert_int_eq(copies[1], 1);
}
END_TEST

/* ---- Variants that break the device */

START_TEST(test_tuner_devices__a_fault_names_its_variant)
{
    tuning first = { .device = "cuda:0", .text = SPEC, ALL_KNOWN }, second = { .text = SPEC, ALL_KNOWN };
    fake->configure("bad=fault:512");
    tune(&first);
    ck_assert_int_eq(first.status, KILN_EDEVICE);
    ck_assert_ptr_nonnull(first.suspect);
    ck_assert_ptr_nonnull(strstr(first.suspect, " block=512 "));
    ck_assert_ptr_nonnull(strstr(first.message, first.suspect));
    ck_assert_str_eq(first.trying, first.suspect);
    uint64_t compiled = kiln_test_stats(service).compiles;
    kiln_close(service);
    fake->reset(); /* as a fresh process would find it */
    fake->configure("devices=2,relu6=1,bad=fault:512");
    kiln_options options = kiln_test_gpu_options();
    service = kiln_test_open(&options);
    const kiln_skip skip[] = { { first.suspect, "broke the device" }, { "op=nothing", "no variant" } };
    second.skip = skip;
    second.skip_count = 2;
    tune(&second);
    ck_assert_msg(second.status == KILN_OK, "%s", second.message);
    ck_assert_uint_eq(second.info.rejected, 1);
    ck_assert_uint_eq(second.info.variants, VARIANTS);
    ck_assert_int_eq(second.results[VARIANTS - 1].verdict, KILN_VERDICT_REJECTED);
    ck_assert_str_eq(second.problems[VARIANTS - 1], "broke the device");
    /* Nothing is compiled twice; the first may have ended before it had come to all. */
    ck_assert_uint_le(kiln_test_stats(service).compiles, VARIANTS + 3 - compiled);
    kiln_text_free(first.suspect);
}
END_TEST

START_TEST(test_tuner_devices__the_default_cannot_be_skipped)
{
    tuning only = { .text = SPEC, ALL_KNOWN };
    fake->configure("bad=fault:128");
    tune(&only);
    ck_assert_int_eq(only.status, KILN_EDEVICE);
    ck_assert_msg(only.suspect != NULL && strstr(only.suspect, " block=128 ") != NULL, "%s", only.message);
    const kiln_skip skip = { only.suspect, "broke the device" }, none = { NULL, "" };
    only.skip = &skip;
    only.skip_count = 1;
    tune(&only);
    ck_assert_int_eq(only.status, KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(only.message, "the default geometry cannot be skipped"));
    ck_assert_ptr_nonnull(strstr(only.message, "broke the device"));
    ck_assert_ptr_null(only.suspect);
    kiln_text_free((char *)(uintptr_t)skip.spec);
    only.skip = &none;
    tune(&only);
    ck_assert_int_eq(only.status, KILN_EINVAL);
}
END_TEST

Suite *kiln_test_tune_tuner_devices_suite(void)
{
    Suite *suite = suite_create("tuner_devices");
    TCase *tcase = tcase_create("tuner_devices");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_tuner_devices__two_gpus_at_once);
    tcase_add_test(tcase, test_tuner_devices__a_gpu_and_the_cpu_at_once);
    tcase_add_test(tcase, test_tuner_devices__whatever_context_is_current);
    tcase_add_test(tcase, test_tuner_devices__on_one_device_they_take_turns);
    tcase_add_test(tcase, test_tuner_devices__who_waits_may_give_up);
    tcase_add_test(tcase, test_tuner_devices__what_does_not_go_together_is_refused);
    tcase_add_loop_test(tcase, test_tuner_devices__short_kernels_are_told_apart, 0, 2);
    tcase_add_loop_test(tcase, test_tuner_devices__failing_graphs_put_all_on_one_basis, 0, 3);
    tcase_add_loop_test(tcase, test_tuner_devices__a_sweep_with_failing_graphs_is_on_one_basis, 0, 3);
    tcase_add_loop_test(tcase, test_tuner_devices__sweeps_tell_short_kernels_apart, 0, 2);
    tcase_add_test(tcase, test_tuner_devices__hosts_can_measure_short_launches);
    tcase_add_test(tcase, test_tuner_devices__tuning_leaves_no_trace);
    tcase_add_test(tcase, test_tuner_devices__what_the_host_has_loaded_stays);
    tcase_add_test(tcase, test_tuner_devices__a_get_meanwhile_is_kept);
    tcase_add_test(tcase, test_tuner_devices__a_sweep_compares_with_a_copy_for_its_target);
    tcase_add_test(tcase, test_tuner_devices__a_fault_names_its_variant);
    tcase_add_test(tcase, test_tuner_devices__the_default_cannot_be_skipped);
    suite_add_tcase(suite, tcase);
    return suite;
}
