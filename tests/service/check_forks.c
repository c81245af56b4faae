/* Forks: what a child may still do with what its parent made, what it cannot, and that neither is in the other's
 * way. */
#include "gpu/cuda_symbols.h"
#include "os/cpu.h"
#include "os/fork.h"
#include "service/queue.h"
#include "service/service.h"
#include "support/counting.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include "support/temp.h"
#include "tune/live.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define ON_GPU "op=relu6 dtype=f32"
#define ON_CPU "op=copy dtype=f32 target=cpu"
#define SIGMA  "op=hardsigmoid dtype=f32 target=cpu"

enum { CHILD_S = 30, ELEMENTS = 64 };

/* ---- Everything that a host can hold */

static kiln_service *service;
static kiln_spec *spec, *gpu_spec;
static kiln_kernel *kernel, *gpu_kernel;
static kiln_program *program, *built;
static kiln_device *device;
static kiln_queue *queue;
static kiln_live *live;
static kiln_workload *workload;
static kiln_tuning *tuning;
static void *memory;
static kiln_request request = KILN_INIT(kiln_request);
static kiln_ticket ticket;
static uv_loop_t loop;

static int callbacks; /* of any kind */

static void count_done(void *data, kiln_status status, kiln_program *made, const kiln_report *report)
{
    (void)data;
    (void)status;
    (void)report;
    kiln_program_release(made);
    callbacks++;
}

static void count_close(void *data)
{
    (void)data;
    callbacks++;
}

static kiln_options stand_in_options(void)
{
    kiln_options options = kiln_test_counting_options(0);
    options.libcuda = kiln_fake_path();
    options.nvrtc = getenv("KILN_STAND_IN_NVRTC");
    ck_assert_ptr_nonnull(options.nvrtc);
    options.device = "cuda:0";
    options.record = kiln_test_temp_path("record");
    return options;
}

/* With the real C compiler, for its results are looked at. It outlives its service. */
static kiln_tuning *make_tuning(const kiln_work *work)
{
    kiln_options options = kiln_test_options();
    kiln_sweep_options sweep = KILN_INIT(kiln_sweep_options);
    kiln_service *own = kiln_test_open(&options);
    kiln_spec *swept = kiln_test_spec(own, ON_CPU);
    kiln_tuning *made;
    sweep.work = work;
    sweep.rounds = 6;
    ck_assert_int_eq(kiln_sweep(&made, own, (const kiln_spec *const *)&swept, 1, &sweep, NULL), KILN_OK);
    kiln_spec_free(swept);
    kiln_close(own);
    return made;
}

/* A request waits in the queue, behind a compile that is held up until the end. */
static void make_all(void)
{
    kiln_options options = stand_in_options();
    kiln_work work = KILN_INIT(kiln_work);
    service = kiln_test_open(&options);
    spec = kiln_test_spec(service, ON_CPU);
    gpu_spec = kiln_test_spec(service, ON_GPU);
    kernel = kiln_test_get(service, ON_CPU);
    gpu_kernel = kiln_test_get(service, ON_GPU);
    built = kiln_test_build(service, ON_CPU);
    request.spec = gpu_spec;
    work.elements = ELEMENTS;
    ck_assert_int_eq(kiln_get(&program, service, &request, NULL), KILN_OK);
    ck_assert_int_eq(kiln_device_open(&device, service, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_alloc(&memory, device, ELEMENTS * sizeof(float), NULL), KILN_OK);
    ck_assert_int_eq(kiln_workload_make(&workload, service, gpu_kernel, &work, NULL), KILN_OK);
    tuning = make_tuning(&work);
    ck_assert_int_eq(kiln_live_open(&live, service, gpu_spec, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_live_wait(live, KILN_LIVE_SETTLED, -1, NULL), KILN_OK);
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    int begun = kiln_test_counting_count();
    kiln_test_counting_hold(NULL);
    kiln_spec *held = kiln_test_spec(service, SIGMA);
    ck_assert_int_eq(kiln_test_submit(&ticket, queue, held, NULL, count_done, NULL), KILN_OK);
    kiln_spec_free(held);
    kiln_test_counting_await(begun + 1);
}

/* The parent goes on as if nothing had happened. */
static void use_and_free_all(const kiln_fake *fake)
{
    float x[ELEMENTS] = { 3, -2 }, y[ELEMENTS] = { 0 };
    void *out = y;
    const void *in = x;
    kiln_fake_live left;
    ck_assert_int_eq(kiln_launch_n(kernel, ELEMENTS, &out, 1, &in, 1, NULL, NULL), KILN_OK);
    ck_assert_mem_eq(x, y, sizeof(x));
    ck_assert_int_eq(kiln_launch_n(gpu_kernel, ELEMENTS, &memory, 1, (const void *const *)&memory, 1, NULL, NULL),
                     KILN_OK);
    ck_assert_int_eq(kiln_workload_reset(workload, NULL), KILN_OK);
    ck_assert_int_eq(callbacks, 0);
    kiln_test_counting_go();
    while (callbacks == 0)
        kiln_queue_wait(queue, 1000);
    kiln_queue_close(queue, count_close, NULL);
    ck_assert_int_eq(callbacks, 2);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    kiln_live_close(live);
    kiln_tuning_free(tuning);
    kiln_workload_free(workload);
    kiln_free(device, memory);
    kiln_program_release(program);
    kiln_program_release(built);
    kiln_kernel_release(kernel);
    kiln_kernel_release(gpu_kernel);
    kiln_spec_free(spec);
    kiln_spec_free(gpu_spec);
    kiln_close(service);
    fake->counts(&left);
    ck_assert_uint_eq(left.contexts + left.streams + left.events + left.libraries + left.allocations, 0);
}

/* ---- Calls that a child is refused */

#define IGNORES(what, type)                                 \
    static int ignore_##what(void *data, const type *shown) \
    {                                                       \
        (void)data;                                         \
        (void)shown;                                        \
        return 0;                                           \
    }

IGNORES(op, kiln_op_info)
IGNORES(template, kiln_template_info)
IGNORES(spec, kiln_spec)
IGNORES(variant, kiln_variant)
IGNORES(entry, kiln_entry_info)
IGNORES(record, kiln_wisdom_record)
IGNORES(finding, kiln_finding)
IGNORES(line, kiln_manifest_line)

static kiln_status submit_nothing(void *data, void *stream)
{
    (void)data;
    (void)stream;
    return KILN_OK;
}

/* The places that the calls below would write to. */
static struct {
    kiln_program *program;
    kiln_kernel *kernel;
    kiln_device *device;
    kiln_queue *queue;
    kiln_live *live;
    kiln_workload *workload;
    kiln_tuning *tuning;
    void *memory;
    char *text;
    const char *name;
    int number;
    float x[ELEMENTS], y[ELEMENTS];
} got;

static kiln_kernel_info kernel_info = KILN_INIT(kiln_kernel_info);
static kiln_program_info program_info = KILN_INIT(kiln_program_info);
static kiln_device_info device_info = KILN_INIT(kiln_device_info);
static kiln_live_info live_info = KILN_INIT(kiln_live_info);
static kiln_cache_info cache_info = KILN_INIT(kiln_cache_info);
static const kiln_manifest manifest = { .size = sizeof(manifest), .text = "op=relu6\n" };
static kiln_contender contender = { submit_nothing, NULL };
static kiln_timing timing;
static const uint64_t sizes[] = { ELEMENTS };
static kiln_arg args[] = { { KILN_ARG_ARRAY, sizeof(got.y), got.y }, { KILN_ARG_ARRAY, sizeof(got.x), got.x } };
static void *outs[] = { got.y };
static const void *ins[] = { got.x };
static const char *const paths[] = { "nothing.json" };

/* X(call): each returns a status, and those that take a report fill `r`. */
#define REFUSED_CALLS(X)                                                             \
    X(kiln_get(&got.program, service, &request, r))                                  \
    X(kiln_get_kernel(&got.kernel, service, spec, r))                                \
    X(kiln_call(service, ON_CPU, ELEMENTS, outs, 1, ins, 1, NULL, r))                \
    X(kiln_spec_source(&got.text, spec, r))                                          \
    X(kiln_spec_expand(service, "op=relu6 target=native", ignore_spec, NULL, r))     \
    X(kiln_spec_expand(service, "op=relu6 target=all", ignore_spec, NULL, r))        \
    X(kiln_program_kernel(&got.kernel, program, NULL, r))                            \
    X(kiln_program_global(&got.memory, NULL, program, "x", r))                       \
    X(kiln_kernel_occupancy(&got.number, gpu_kernel, 128, 0, r))                     \
    X(kiln_launch(kernel, NULL, sizes, 1, args, 2, NULL, r))                         \
    X(kiln_launch(gpu_kernel, NULL, sizes, 1, args, 2, NULL, r))                     \
    X(kiln_launch_n(kernel, ELEMENTS, outs, 1, ins, 1, NULL, r))                     \
    X(kiln_kept(service, &request, r))                                               \
    X(kiln_launch_n(gpu_kernel, ELEMENTS, outs, 1, ins, 1, NULL, r))                 \
    X(kiln_launch_n(kiln_live_kernel(live), ELEMENTS, outs, 1, ins, 1, NULL, r))     \
    X(kiln_queue_open(&got.queue, service, r))                                       \
    X(kiln_queue_attach_uv(queue, &loop, r))                                         \
    X(kiln_submit(NULL, queue, &request, NULL, count_done, NULL, r))                 \
    X(kiln_op_define(service, "child(x) = x", r))                                    \
    X(kiln_template_define(service, "", NULL, &got.name, r))                         \
    X(kiln_template_load(service, "/nowhere/x.cu", &got.name, r))                    \
    X(kiln_manifest_read(service, &manifest, ignore_line, NULL, r))                  \
    X(kiln_device_open(&got.device, service, "cpu", r))                              \
    X(kiln_alloc(&got.memory, device, 64, r))                                        \
    X(kiln_upload(device, memory, got.x, 64, r))                                     \
    X(kiln_download(device, got.x, memory, 64, r))                                   \
    X(kiln_copy(device, memory, (char *)memory + 64, 64, NULL, r))                   \
    X(kiln_sync(device, r))                                                          \
    X(kiln_fill(device, memory, "f32", 16, 1, r))                                    \
    X(kiln_measure(&timing, device, &contender, 1, NULL, r))                         \
    X(kiln_variants(service, spec, ignore_variant, NULL, r))                         \
    X(kiln_tune(&got.tuning, service, spec, NULL, r))                                \
    X(kiln_sweep(&got.tuning, service, (const kiln_spec *const *)&spec, 1, NULL, r)) \
    X(kiln_workload_make(&got.workload, service, kernel, NULL, r))                   \
    X(kiln_workload_reset(workload, r))                                              \
    X(kiln_verify(NULL, service, kernel, NULL, NULL, 0, NULL, 0, NULL, r))           \
    X(kiln_live_open(&got.live, service, spec, NULL, r))                             \
    X(kiln_live_wait(live, KILN_LIVE_SETTLED, -1, r))                                \
    X(kiln_wisdom_explain(&got.text, service, spec, NULL, NULL, NULL, r))            \
    X(kiln_wisdom_import(service, paths, 1, NULL, r))                                \
    X(kiln_wisdom_export(&got.text, service, NULL, NULL, r))                         \
    X(kiln_cache_get_info(service, &cache_info, r))                                  \
    X(kiln_cache_visit(service, ignore_entry, NULL, r))                              \
    X(kiln_cache_purge(service, NULL, NULL, NULL, r))                                \
    X(kiln_cache_trim(service, 1, 1, NULL, r))                                       \
    X(kiln_cache_export(service, "/nowhere/pack", NULL, NULL, NULL, r))              \
    X(kiln_cache_import(service, "/nowhere/pack", NULL, r))                          \
    X(kiln_kernel_get_info(kernel, &kernel_info))                                    \
    X(kiln_kernel_get_info(gpu_kernel, &kernel_info))                                \
    X(kiln_program_get_info(program, &program_info))                                 \
    X(kiln_device_get_info(device, &device_info))                                    \
    X(kiln_live_get_info(live, &live_info))                                          \
    X(kiln_wisdom_visit(service, ignore_record, NULL))                               \
    X(kiln_doctor(service, ignore_finding, NULL))

/* In a child Check's messages would be the parent's. */
#define NEED(condition)                                            \
    do {                                                           \
        if (!(condition)) {                                        \
            fprintf(stderr, "in the child: not %s\n", #condition); \
            return false;                                          \
        }                                                          \
    } while (0)

static bool is_told(const kiln_report *report)
{
    return report->status == KILN_EFORKED && strstr(report->message, "open a service") != NULL;
}

static bool all_are_refused(void)
{
    static const __typeof__(got) nothing;
    kiln_report report = KILN_INIT(kiln_report), *r = &report;
#define IS_REFUSED(call) NEED((call) == KILN_EFORKED && is_told(r));
    REFUSED_CALLS(IS_REFUSED)
#undef IS_REFUSED
    got.number = 0; /* kiln_kernel_occupancy says -1 */
    NEED(memcmp(&got, &nothing, sizeof(got)) == 0);
    NEED(kiln_queue_wait(queue, -1) == 0 && kiln_queue_fd(queue) == -1);
    return true;
}

static void free_everything(void)
{
    kiln_cancel(queue, ticket);
    kiln_queue_close(queue, count_close, NULL);
    kiln_live_close(live);
    kiln_workload_free(workload);
    kiln_free(device, memory);
    for (int i = 0; i < 3; i++) { /* more often than there are references */
        kiln_kernel_release(kernel);
        kiln_kernel_release(gpu_kernel);
    }
    kiln_program_release(program);
    kiln_program_release(built);
    kiln_close(service);
}

/* ---- Calls that go on in a child */

static bool specs_go_on(void)
{
    kiln_spec *parsed, *changed;
    const kiln_signature *signature;
    uint64_t shape[KILN_DIMS_MAX];
    kiln_report report = KILN_INIT(kiln_report);
    NEED(kiln_spec_parse(&parsed, service, "op=softsign dtype=f16", NULL) == KILN_OK);
    NEED(kiln_spec_with(&changed, parsed, "block=256", NULL) == KILN_OK);
    NEED(strstr(kiln_spec_text(changed), "block=256") != NULL);
    NEED(strcmp(kiln_spec_field(changed, "block"), "256") == 0);
    NEED(kiln_spec_signature(&signature, changed, NULL) == KILN_OK);
    NEED(kiln_signature_shape(shape, signature, 0, sizes, 1, NULL) == KILN_OK && shape[0] == ELEMENTS);
    kiln_spec_free(changed);
    kiln_spec_free(parsed);
    NEED(kiln_spec_parse(&parsed, service, "op=nonsense", &report) == KILN_EOP && report.message[0] != '\0');
    kiln_report_clear(&report);
    NEED(strcmp(kiln_spec_text(spec), ON_CPU) == 0);
    NEED(kiln_spec_expand(service, "op=relu6,copy dtype=f32,f16", ignore_spec, NULL, NULL) == KILN_OK);
    NEED(kiln_ops(service, ignore_op, NULL) == KILN_OK);
    NEED(kiln_templates(service, ignore_template, NULL) == KILN_OK);
    return true;
}

static bool facts_go_on(void)
{
    kiln_stats stats = KILN_INIT(kiln_stats);
    kiln_tuning_info info = KILN_INIT(kiln_tuning_info);
    kiln_workload_info work = KILN_INIT(kiln_workload_info);
    const void *section;
    size_t length;
    NEED(kiln_stats_get(service, &stats) == KILN_OK && stats.compiles > 0);
    NEED(kiln_tuning_get_info(tuning, &info) == KILN_OK && info.result_count == 1);
    NEED(kiln_workload_get_info(workload, &work) == KILN_OK && work.elements == ELEMENTS);
    NEED(kiln_program_section(&section, &length, built, "key") == KILN_OK && length > 0);
    NEED(kiln_kernel_retain(kernel) == kernel && kiln_live_kernel(live) != NULL);
    kiln_tuning_free(tuning);
    return true;
}

static unsigned count_driver_calls(const kiln_fake *fake)
{
    unsigned calls = 0;
#define COUNT(need, name, suffix, version, result, parameters) calls += fake->calls(#name);
    KILN__CUDA_SYMBOLS(COUNT)
#undef COUNT
    return calls;
}

static bool use_what_the_parent_made(const kiln_fake *fake)
{
    kiln_fake_live before, after;
    fake->reset();
    fake->counts(&before);
    NEED(all_are_refused() && specs_go_on() && facts_go_on());
    free_everything();
    NEED(all_are_refused()); /* what was freed is there as before */
    kiln_spec_free(spec);
    kiln_spec_free(gpu_spec);
    fake->counts(&after);
    NEED(callbacks == 0);
    NEED(count_driver_calls(fake) == 0);
    NEED(memcmp(&before, &after, sizeof(before)) == 0);
    return true;
}

static void limit_child(void)
{
    signal(SIGALRM, SIG_DFL); /* Check's own handler would end the whole test */
    alarm(CHILD_S);
}

static void expect_status(pid_t pid, int expected)
{
    int status = -1;
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    ck_assert_int_eq(code, expected);
}

/* ---- Locks that other threads hold when the process forks */

enum { LOCKS_MAX = 64 };

typedef struct holder {
    pthread_mutex_t *locks[LOCKS_MAX];
    int count;
    int go[2], done[2]; /* pipes */
} holder;

static void list_all_locks(holder *self)
{
    pthread_mutex_t *const locks[] = {
        &service->define_lock,
        &service->queues_lock,
        &service->native_lock,
        &queue->lock,
        &live->lock,
        &service->flights_lock,
        &service->pool.lock,
        &service->tunings.lock,
        &service->builders[KILN__BACKEND_CUDA].sums.lock,
        &service->builders[KILN__BACKEND_CUDA].toolchains.lock,
        &service->runtime->lock,
        &service->builders[KILN__BACKEND_CPU].toolchains.lock,
        &service->programs.lock,
    };
    self->count = sizeof(locks) / sizeof(locks[0]);
    memcpy(self->locks, locks, sizeof(locks));
    for (int i = 0; i < KILN__TABLE_SHARDS && self->count < LOCKS_MAX; i++)
        self->locks[self->count++] = &service->programs.shards[i].lock;
}

static void *hold(void *data)
{
    holder *self = data;
    char byte = 0;
    for (int i = 0; i < self->count; i++)
        pthread_mutex_lock(self->locks[i]);
    bool good = write(self->done[1], &byte, 1) == 1 && read(self->go[0], &byte, 1) == 1;
    for (int i = self->count; i-- > 0;)
        pthread_mutex_unlock(self->locks[i]);
    return good ? NULL : self;
}

START_TEST(test_forks__a_child_is_refused_what_its_parent_made)
{
    pthread_t thread;
    holder self = { .count = 0 };
    char byte = 0;
    void *failure;
    const kiln_fake *fake = kiln_fake_open();
    make_all();
    if (_i == 1)
        list_all_locks(&self);
    ck_assert_int_eq(pipe2(self.go, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(self.done, O_CLOEXEC), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, hold, &self), 0);
    ck_assert_int_eq(read(self.done[0], &byte, 1), 1);
    pid_t pid = fork();
    if (pid == 0) {
        limit_child();
        _exit(use_what_the_parent_made(fake) ? 0 : 1);
    }
    expect_status(pid, 0);
    ck_assert_int_eq(write(self.go[1], &byte, 1), 1);
    pthread_join(thread, &failure);
    ck_assert_ptr_null(failure);
    use_and_free_all(fake);
}
END_TEST

/* ---- A service of the child's */

static bool launch_sigma(kiln_service *own, const kiln_spec *which)
{
    float x[] = { 0, 3, -3, 9 }, y[4] = { 7, 7, 7, 7 };
    const float wanted[] = { 0.5f, 1, 0, 1 };
    void *out = y;
    const void *in = x;
    kiln_kernel *loaded;
    if (kiln_get_kernel(&loaded, own, which, NULL) != KILN_OK)
        return false;
    bool good = kiln_launch_n(loaded, 4, &out, 1, &in, 1, NULL, NULL) == KILN_OK && memcmp(y, wanted, sizeof(y)) == 0;
    kiln_kernel_release(loaded);
    return good;
}

static bool build(kiln_service *own, const char *text)
{
    kiln_spec *wanted;
    kiln_program *made = NULL;
    bool good = kiln_spec_parse(&wanted, own, text, NULL) == KILN_OK;
    good = good && kiln_test_build_spec(&made, own, wanted, NULL) == KILN_OK;
    kiln_program_release(made);
    kiln_spec_free(wanted);
    return good;
}

/* Compiles with the real C compiler, with NVRTC here or in a worker, waits on a queue and ends. The spec is the
 * parent's. */
static bool open_and_use(const kiln_spec *which, kiln_isolate isolate, int number)
{
    char text[96], store[128];
    kiln_options options = kiln_test_options();
    kiln_queue *own_queue = NULL;
    kiln_service *own;
    snprintf(store, sizeof(store), "%s-%d", options.cache_dir, number);
    options.cache_dir = store;
    options.nvrtc = getenv("KILN_STAND_IN_NVRTC");
    options.isolate = isolate;
    options.device = "cpu";
    if (kiln_open(&own, &options, NULL) != KILN_OK)
        return false;
    snprintf(text, sizeof(text), "op=hardtanh(-2,%d) dtype=f32 target=sm_90", number + 1);
    bool good = launch_sigma(own, which) && build(own, text);
    good = good && kiln_queue_open(&own_queue, own, NULL) == KILN_OK &&
           kiln_test_submit(NULL, own_queue, which, NULL, count_done, NULL) == KILN_OK &&
           kiln_queue_wait(own_queue, -1) == 1;
    kiln_queue_close(own_queue, NULL, NULL);
    kiln_close(own);
    return good;
}

static atomic_bool enough;

/* With the stand-in NVRTC, so that its locks are in use as well. */
static void *keep_building(void *data)
{
    char text[96];
    (void)data;
    for (int i = 0; !atomic_load(&enough); i++) {
        snprintf(text, sizeof(text), "op=hardtanh(-1,%d) dtype=f32 target=sm_90", i % 500 + 1);
        if (!build(service, text))
            return "failed";
    }
    return NULL;
}

static void *keep_getting(void *data)
{
    (void)data;
    for (kiln_kernel *loaded; !atomic_load(&enough); kiln_kernel_release(loaded))
        if (kiln_get_kernel(&loaded, service, spec, NULL) != KILN_OK)
            return "failed";
    return NULL;
}

START_TEST(test_forks__a_child_opens_a_service)
{
    enum { FORKS = 12 };
    void *(*const work[])(void *) = { keep_building, keep_building, keep_getting };
    enum { THREADS = sizeof(work) / sizeof(work[0]) };
    pthread_t threads[THREADS];
    kiln_options options = kiln_test_options();
    options.nvrtc = getenv("KILN_STAND_IN_NVRTC");
    options.isolate = _i == 0 ? KILN_ISOLATE_NEVER : KILN_ISOLATE_ALWAYS;
    options.device = "cpu";
    service = kiln_test_open(&options);
    spec = kiln_test_spec(service, SIGMA);
    kernel = kiln_test_get(service, SIGMA);
    ck_assert(build(service, "op=relu6 dtype=f32 target=sm_90"));
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work[i], NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            limit_child();
            kiln_close(service);
            _exit(open_and_use(spec, options.isolate, i) ? 0 : 1);
        }
        expect_status(pid, 0);
    }
    atomic_store(&enough, true);
    for (int i = 0; i < THREADS; i++) {
        void *failure;
        pthread_join(threads[i], &failure);
        ck_assert_ptr_null(failure);
    }
    ck_assert(launch_sigma(service, spec));
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

/* A grandchild is refused the service of its parent and that of the first process. */
START_TEST(test_forks__a_child_of_a_child_is_refused_both)
{
    kiln_options options = kiln_test_counting_options(0);
    service = kiln_test_open(&options);
    spec = kiln_test_spec(service, ON_CPU);
    pid_t pid = fork();
    if (pid == 0) {
        limit_child();
        kiln_kernel *refused;
        kiln_service *own = NULL;
        bool good = kiln_open(&own, &options, NULL) == KILN_OK &&
                    kiln_get_kernel(&kernel, own, spec, NULL) == KILN_OK &&
                    kiln_get_kernel(&refused, service, spec, NULL) == KILN_EFORKED;
        pid_t second = fork();
        if (second == 0)
            _exit(kiln_get_kernel(&refused, own, spec, NULL) == KILN_EFORKED &&
                          kiln_get_kernel(&refused, service, spec, NULL) == KILN_EFORKED &&
                          kiln_launch_n(kernel, ELEMENTS, outs, 1, ins, 1, NULL, NULL) == KILN_EFORKED
                      ? 0
                      : 1);
        int status = 1;
        waitpid(second, &status, 0);
        good = good && status == 0 && kiln_launch_n(kernel, ELEMENTS, outs, 1, ins, 1, NULL, NULL) == KILN_OK;
        kiln_kernel_release(kernel);
        kiln_close(own);
        _exit(good ? 0 : 1);
    }
    expect_status(pid, 0);
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

/* ---- How a child ends */

START_TEST(test_forks__a_child_may_exit_and_exec)
{
    pthread_t thread;
    kiln_options options = stand_in_options();
    options.isolate = KILN_ISOLATE_NEVER;
    setenv("KILN_STAND_IN_MS", "50", 1);
    service = kiln_test_open(&options);
    ck_assert(build(service, "op=relu6 dtype=f32 target=sm_90"));
    ck_assert_int_eq(pthread_create(&thread, NULL, keep_building, NULL), 0);
    for (int i = 0; i < 30; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            limit_child();
            if (i % 3 == 0)
                exit(41);
            if (i % 3 == 1)
                execl("/bin/sh", "sh", "-c", "exit 41", (char *)NULL);
            _exit(41);
        }
        expect_status(pid, 41);
        usleep(3000);
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    kiln_close(service);
}
END_TEST

/* ---- Files that a child would keep from others */

/* A process that compiles, and is killed in the middle of it. Its child lives on. */
static void compile_for_ever(const kiln_options *options, int tell)
{
    pthread_t thread;
    service = kiln_test_open(options);
    spec = kiln_test_spec(service, ON_CPU);
    pthread_create(&thread, NULL, keep_getting, NULL);
    kiln_test_counting_await(1);
    pid_t child = fork();
    if (child == 0)
        alarm(CHILD_S);
    else if (write(tell, &child, sizeof(child)) != sizeof(child))
        _exit(1);
    for (;;)
        pause();
}

START_TEST(test_forks__a_child_does_not_keep_the_lock_of_a_killed_parent)
{
    int ends[2], status;
    pid_t child = 0;
    kiln_options options = kiln_test_counting_options(0);
    options.lock_wait_ms = 20000;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    kiln_test_counting_hold(NULL);
    pid_t parent = fork();
    if (parent == 0)
        compile_for_ever(&options, ends[1]);
    ck_assert_int_eq(read(ends[0], &child, sizeof(child)), sizeof(child));
    usleep(10000); /* its handler has run */
    ck_assert_int_eq(kill(parent, SIGKILL), 0);
    ck_assert_int_eq(waitpid(parent, &status, 0), parent);
    unsetenv("KILN_COUNTING_HOLD");
    service = kiln_test_open(&options);
    uint64_t begin = kiln__cpu_now_ns();
    kiln_kernel_release(kiln_test_get(service, ON_CPU));
    ck_assert_uint_lt(kiln__cpu_now_ns() - begin, (uint64_t)5000000000);
    ck_assert_uint_eq(kiln_test_stats(service).lock_timeouts, 0);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 1);
    ck_assert_int_eq(kill(child, 0), 0); /* it is still there */
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    kiln_test_counting_go();
    kiln_close(service);
}
END_TEST

START_TEST(test_forks__a_child_closes_what_is_listed_and_nothing_else)
{
    enum { MANY = 1024 };
    ck_assert_int_eq(kiln__fork_watch(), 0);
    int listed = dup(0), delisted = dup(0), other = dup(0);
    ck_assert(kiln__fork_list_fd(listed));
    ck_assert(kiln__fork_list_fd(delisted));
    kiln__fork_delist_fd(delisted);
    for (int round = 0; round < 2; round++) { /* its own child finds nothing to close */
        pid_t pid = fork();
        if (pid == 0) {
            bool good = fcntl(listed, F_GETFD) == -1 && errno == EBADF && fcntl(delisted, F_GETFD) >= 0 &&
                        fcntl(other, F_GETFD) >= 0;
            int again = dup(0);
            pid_t second = fork();
            if (second == 0)
                _exit(again == listed && fcntl(again, F_GETFD) >= 0 ? 0 : 1);
            int status = 1;
            waitpid(second, &status, 0);
            _exit(good && status == 0 ? 0 : 1);
        }
        expect_status(pid, 0);
        ck_assert_int_ge(fcntl(listed, F_GETFD), 0);
    }
    for (int i = 1; i < MANY; i++)
        ck_assert(kiln__fork_list_fd(100000 + i));
    ck_assert(!kiln__fork_list_fd(100000));
    kiln__fork_delist_fd(100001);
    ck_assert(kiln__fork_list_fd(100000));
}
END_TEST

/* ---- A thread forks in the middle of a call */

static atomic_uint lines;

static void fork_in_log(void *data, kiln_log_level level, const char *message)
{
    (void)data;
    (void)level;
    (void)message;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    if (pid > 0 && waitpid(pid, NULL, 0) == pid)
        atomic_fetch_add(&lines, 1);
}

START_TEST(test_forks__in_a_log_callback)
{
    kiln_options options = stand_in_options();
    options.log = fork_in_log;
    options.log_level = KILN_LOG_DEBUG;
    limit_child();
    service = kiln_test_open(&options);
    kiln_kernel_release(kiln_test_get(service, ON_GPU));
    kiln_kernel_release(kiln_test_get(service, ON_CPU));
    kiln_close(service);
    ck_assert_uint_gt(atomic_load(&lines), 3);
}
END_TEST

/* A driver does so. */
START_TEST(test_forks__in_a_driver_that_is_being_opened)
{
    kiln_options options = kiln_test_options();
    options.libcuda = getenv("KILN_FORKING_LIBRARY");
    options.device = "cuda:0";
    ck_assert_ptr_nonnull(options.libcuda);
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_device_open(&device, service, NULL, NULL), KILN_ENODRIVER);
    kiln_close(service);
}
END_TEST

Suite *kiln_test_service_forks_suite(void)
{
    Suite *suite = suite_create("forks");
    TCase *tcase = tcase_create("forks");
    kiln_test_temp_use(tcase);
    tcase_set_timeout(tcase, 120);
    if (KILN_TEST_CAN_FORK) {
        tcase_add_loop_test(tcase, test_forks__a_child_is_refused_what_its_parent_made, 0, 2);
        tcase_add_loop_test(tcase, test_forks__a_child_opens_a_service, 0, 2);
        tcase_add_test(tcase, test_forks__a_child_of_a_child_is_refused_both);
        tcase_add_test(tcase, test_forks__a_child_may_exit_and_exec);
        tcase_add_test(tcase, test_forks__a_child_does_not_keep_the_lock_of_a_killed_parent);
        tcase_add_test(tcase, test_forks__a_child_closes_what_is_listed_and_nothing_else);
        tcase_add_test(tcase, test_forks__in_a_log_callback);
        tcase_add_test(tcase, test_forks__in_a_driver_that_is_being_opened);
    }
    suite_add_tcase(suite, tcase);
    return suite;
}
