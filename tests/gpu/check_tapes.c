/* Work that is kept as a graph and replayed, and what measuring makes of it: on the stand-in driver, whose time is
 * made up. */
#include "base/alloc.h"
#include "gpu/cuda_symbols.h"
#include "support/gpu.h"
#include "support/suites.h"
#include "tune/measure.h"
#include <pthread.h>
#include <unistd.h>

enum { HOST_NS = 4000, SLOTS = 3, N = 1000 };

/* A contender that launches on one slot of its memory after the other. */
typedef struct launcher {
    kiln_device *device;
    kiln__module *module;
    char *memory;
    uint32_t calls, slots;
    uint64_t cost_ns; /* of a launch; 0: the copies are timed */
    uint32_t fail_at; /* call, from 1 */
    enum { LAUNCH, LAUNCH_TWICE, COPY, NOTHING, FROM_HOST, FUNCTION } what;
} launcher;

static launcher the; /* the only one with a module */

static kiln_status do_function(launcher *self, void *stream)
{
    kiln_grid grid = { .size = sizeof(grid), .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
    uint64_t n = N;
    void *in = self->memory, *out = self->memory, *arguments[] = { &out, &in, &n };
    return vtable->functions->launch(self->module, 0, &grid, arguments, stream, NULL);
}

static kiln_status submit(void *data, void *stream)
{
    launcher *self = data;
    static char host[64];
    char *slot = self->memory + self->calls++ % self->slots * 4 * N;
    const void *in[] = { slot };
    if (self->calls == self->fail_at)
        return KILN_EALIGN;
    switch (self->what) {
    case LAUNCH:
        return launch_n(self->module, 0, N, slot, in, stream, NULL);
    case LAUNCH_TWICE:
        launch_n(self->module, 0, N, slot, in, stream, NULL);
        return launch_n(self->module, 0, 1, slot, in, stream, NULL);
    case COPY:
        return vtable->copy(self->device, slot, self->memory, 64, KILN__COPY_ON_DEVICE, stream, NULL);
    case FROM_HOST:
        return vtable->copy(self->device, slot, host, sizeof(host), KILN__COPY_TO_DEVICE, stream, NULL);
    case FUNCTION:
        return do_function(self, stream);
    case NOTHING:
        break;
    }
    return KILN_OK;
}

static uint64_t cost(void *data, const kiln_fake_launch *launch)
{
    (void)launch;
    return *(const uint64_t *)data;
}

static void open_all(void)
{
    void *memory;
    set_up();
    the = (launcher){ .device = open_device(), .slots = SLOTS, .cost_ns = 1500 };
    the.module = load(the.device);
    check_ok(vtable->alloc(the.device, &memory, SLOTS * N * 4, &report));
    the.memory = memory;
    fake->set_cost(cost, &the.cost_ns, HOST_NS);
}

static void close_all(void)
{
    vtable->free(the.device, the.memory);
    vtable->unload(the.module);
    vtable->device_close(the.device);
    tear_down();
}

static kiln__tape *make(uint32_t count)
{
    return vtable->tapes->make(the.device, submit, &the, count);
}

static void discard(kiln__tape *tape)
{
    vtable->tapes->discard(the.device, tape);
}

/* ---- Tapes */

START_TEST(test_tapes__replays_are_what_was_submitted)
{
    kiln_fake_launch launches[3 * 6];
    double ms = 0;
    kiln__tape *tape = make(6);
    ck_assert_ptr_nonnull(tape);
    ck_assert_uint_eq(the.calls, 6);
    ck_assert_uint_eq(fake->launches(NULL, 0), 0);
    check_ok(vtable->tapes->play(the.device, tape, 2, &ms, &report));
    ck_assert_uint_eq(fake->launches(launches, 3 * 6), 3 * 6); /* one to begin with, and two */
    for (int i = 0; i < 3 * 6; i++) {
        ck_assert_str_eq(launches[i].name, "kiln_vector");
        ck_assert_uint_eq(launches[i].grid[0], (N + TILE - 1) / TILE);
        ck_assert_uint_eq(launches[i].block[0], BLOCK);
        ck_assert_uint_eq(launches[i].parameter_count, 3);
        ck_assert_uint_eq(launches[i].parameters[0], (uintptr_t)the.memory + (uint64_t)(i % SLOTS) * N * 4);
        ck_assert_uint_eq(launches[i].parameters[1], launches[i].parameters[0]);
        ck_assert_uint_eq(launches[i].parameters[2], N);
    }
    ck_assert_double_eq_tol(ms, 2 * 6 * 1500e-6, 1e-5); /* and nothing of the host's */
    discard(tape);
    discard(NULL);
}
END_TEST

START_TEST(test_tapes__nothing_is_captured_meanwhile)
{
    kiln_status status = KILN_OK;
    void *stream = fake->stream_new(fake->context_primary(0));
    fake->capture_begin(stream, KILN__CU_STREAM_CAPTURE_MODE_GLOBAL);
    kiln__tape *tape = make(4);
    status = launch_n(the.module, 0, N, the.memory, (const void *[]){ the.memory }, stream, &report);
    ck_assert_int_eq(fake->capture_end(stream), 1); /* the host's capture is whole */
    check_ok(status);
    check_ok(vtable->sync(the.device, &report));
    ck_assert_ptr_nonnull(tape);
    discard(tape);
    fake->stream_free(stream);
}
END_TEST

START_TEST(test_tapes__copies_and_large_launches)
{
    double ms;
    the.what = _i == 0 ? COPY : LAUNCH_TWICE;
    kiln__tape *tape = make(12);
    ck_assert_ptr_nonnull(tape);
    check_ok(vtable->tapes->play(the.device, tape, 1, &ms, &report));
    ck_assert_double_eq_tol(ms, _i == 0 ? 12e-3 : 24 * 1500e-6, 1e-5);
    ck_assert_uint_eq(fake->launches(NULL, 0), _i == 0 ? 0 : 2 * 24);
    discard(tape);
}
END_TEST

/* What cannot be on a tape is done, and there is no tape; what is submitted afterwards is done, too. */
START_TEST(test_tapes__other_work)
{
    static const int kinds[] = { NOTHING, FROM_HOST, FUNCTION };
    double ms;
    the.what = kinds[_i];
    ck_assert_ptr_null(make(4));
    ck_assert_uint_eq(the.calls, 1);
    ck_assert_uint_eq(fake->launches(NULL, 0), the.what == FUNCTION);
    the.what = LAUNCH;
    the.fail_at = the.calls + 2;
    ck_assert_ptr_null(make(4));
    size_t before = fake->launches(NULL, 0);
    check_ok(vtable->time(the.device, submit, &the, 2, &ms, &report));
    ck_assert_uint_eq(fake->launches(NULL, 0), before + 2);
}
END_TEST

/* A kernel that another service has loaded is taped like one's own if it is for the same GPU: contexts are compared. */
START_TEST(test_tapes__kernels_of_another_service)
{
    kiln_device *own, *other;
    void *memory;
    double ms = 0;
    close_all();
    set_up();
    fake->configure("devices=2");
    own = open_device();
    check_ok(vtable->device_open(backend, _i, &other, &report));
    check_ok(vtable->alloc(own, &memory, N * 4, &report));
    the = (launcher){ .device = own, .slots = 1, .cost_ns = 1500, .memory = memory, .module = load(other) };
    fake->set_cost(cost, &the.cost_ns, HOST_NS);
    kiln__tape *tape = make(4);
    ck_assert_uint_eq(fake->launches(NULL, 0), 0);
    ck_assert((tape != NULL) == (_i == 0));
    if (tape != NULL)
        check_ok(vtable->tapes->play(own, tape, 1, &ms, &report));
    ck_assert_double_eq_tol(ms, _i == 0 ? 4 * 1500e-6 : 0, 1e-5);
    discard(tape);
    vtable->unload(the.module);
    vtable->device_close(other);
    the.module = load(own); /* which the fixture unloads */
}
END_TEST

static const char *const calls[] = {
    "cuGraphCreate", "cuGraphDestroy",    "cuGraphAddKernelNode", "cuGraphAddMemcpyNode", "cuGraphInstantiateWithFlags",
    "cuGraphLaunch", "cuGraphExecDestroy"
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

START_TEST(test_tapes__memory_may_run_out)
{
    allocations = 0;
    fail_at = 1;
    kiln__alloc_set_hook(count_allocation);
    kiln__tape *tape = make(4);
    kiln__alloc_set_hook(NULL);
    ck_assert_ptr_null(tape);
}
END_TEST

/* ---- Measuring */

/* A sample has an end: what the host needs for the first submission is in it. */
static void check_near(double ms, double ns)
{
    ck_assert_msg(ms * 1e6 > 0.98 * ns && ms * 1e6 < 1.02 * ns, "%.1f ns, expected about %.1f", ms * 1e6, ns);
}

static kiln_timing measure(bool tapes)
{
    const kiln_contender contender = { submit, &the };
    kiln_timing timing;
    const kiln_measure_options options = { .size = sizeof(options), .warmup = 1, .rounds = 5, .replay = tapes };
    check_ok(kiln__measure(&timing, the.device, &contender, 1, &options, &report));
    return timing;
}

START_TEST(test_tapes__short_work_is_timed_as_the_device_does_it)
{
    kiln_timing taped = measure(true), plain = measure(false);
    check_near(taped.median_ms, 1500);
    check_near(plain.median_ms, HOST_NS);
    ck_assert_uint_eq(fake->calls("cuGraphCreate"), 1);
    ck_assert_uint_eq(fake->calls("cuGraphExecDestroy"), 1);
    the.what = COPY;
    check_near(measure(true).median_ms, 1000);
}
END_TEST

START_TEST(test_tapes__long_work_is_submitted)
{
    the.cost_ns = 21000;
    check_near(measure(true).median_ms, 21000);
    ck_assert_uint_eq(fake->calls("cuGraphCreate"), 0);
    the.cost_ns = 19000;
    check_near(measure(true).median_ms, 19000);
    ck_assert_uint_eq(fake->calls("cuGraphCreate"), 1);
}
END_TEST

/* Whatever of the driver is missing or fails: the time is that of submitting, and no report says otherwise. */
START_TEST(test_tapes__without_graphs_it_is_submitted)
{
    bool harmless = strstr(calls[_i], "Destroy") != NULL || strcmp(calls[_i], "cuGraphAddMemcpyNode") == 0;
    kiln_fake_live live;
    fake->fail_call(calls[_i], 999, 0, harmless ? 1 : KILN_FAKE_FOREVER);
    check_near(measure(true).median_ms, harmless ? 1500 : HOST_NS);
    ck_assert_int_eq(report.status, KILN_OK);
    fake->counts(&live);
    ck_assert_uint_eq(live.graphs, strstr(calls[_i], "Destroy") != NULL);
    if (live.graphs > 0)
        _exit(0); /* the planned failure has hit the destruction itself */
}
END_TEST

START_TEST(test_tapes__a_driver_without_graphs)
{
    close_all();
    set_up();
    fake->hide(calls[_i]);
    the.device = open_device();
    the.module = load(the.device);
    void *memory;
    check_ok(vtable->alloc(the.device, &memory, SLOTS * N * 4, &report));
    the.memory = memory;
    fake->set_cost(cost, &the.cost_ns, HOST_NS);
    check_near(measure(true).median_ms, HOST_NS);
    ck_assert_uint_eq(fake->calls("cuGraphCreate"), 0);
}
END_TEST

/* A graph that fails when it has been replayed for a while is made anew, but not again and again. */
START_TEST(test_tapes__one_that_fails_later_is_made_anew)
{
    const kiln_contender contender = { submit, &the };
    kiln__basis basis = { .tapes = true };
    kiln__gauge gauge = { 0 };
    double ms;
    check_ok(kiln__measure_settle(the.device, &contender, &basis, &gauge, &report));
    for (int i = 0; i < 3; i++) {
        check_ok(kiln__measure_sample(the.device, &contender, &basis, &gauge, &ms, &report));
        check_near(ms, 1500);
        ck_assert(!basis.failed && gauge.tape != NULL);
        fake->fail_call("cuGraphLaunch", 2, 1, 1);
    }
    ck_assert_uint_eq(fake->calls("cuGraphCreate"), 3);
    fake->fail_call("cuGraphLaunch", 2, 1, KILN_FAKE_FOREVER);
    for (int i = 0; i < 2; i++) {
        check_ok(kiln__measure_sample(the.device, &contender, &basis, &gauge, &ms, &report));
        check_near(ms, HOST_NS);
        ck_assert(basis.failed && gauge.tape == NULL);
    }
    ck_assert_uint_eq(fake->calls("cuGraphCreate"), 4);
    fake->fail_call("cuEventSynchronize", 700, 0, KILN_FAKE_FOREVER);
    check_report(kiln__measure_sample(the.device, &contender, &basis, &gauge, &ms, &report), KILN_EDEVICE,
                 "cuEventSynchronize");
    kiln__gauge_fini(the.device, &gauge);
}
END_TEST

/* Graphs fail at the beginning, in the warm-up or in a later round: no sample is on another basis than the others. */
START_TEST(test_tapes__all_are_on_one_basis)
{
    enum { ROUNDS = 9 };
    launcher slow = the;
    const kiln_contender contenders[] = { { submit, &the }, { submit, &slow } };
    kiln_timing timings[2];
    double samples[2 * ROUNDS];
    slow.what = COPY;
    fake->fail_call("cuGraphLaunch", 2, (unsigned)(1 + 3 * _i), KILN_FAKE_FOREVER);
    const kiln_measure_options options = {
        .size = sizeof(options), .warmup = 2, .rounds = ROUNDS, .replay = 1, .samples = samples
    };
    check_ok(kiln__measure(timings, the.device, contenders, 2, &options, &report));
    for (int i = 0; i < 2 * ROUNDS; i++)
        check_near(samples[i], HOST_NS);
    check_near(timings[0].max_ms, HOST_NS);
    check_near(timings[1].min_ms, HOST_NS);
    ck_assert_uint_lt(fake->calls("cuGraphCreate"), 5);
}
END_TEST

/* The first decides for all; whole cycles; and who is much slower than the first has no tape. */
START_TEST(test_tapes__all_have_tapes_of_one_length)
{
    static const uint64_t costs[] = { 1500, 3000, 30000, 100000 };
    const kiln_contender contender = { submit, &the };
    kiln__basis basis = { .tapes = true, .cycle = 7 };
    kiln__gauge gauges[4] = { { 0 } };
    for (int i = 0; i < 4; i++) {
        double ms;
        the.cost_ns = costs[i];
        check_ok(kiln__measure_settle(the.device, &contender, &basis, &gauges[i], &report));
        check_ok(kiln__measure_sample(the.device, &contender, &basis, &gauges[i], &ms, &report));
        check_near(ms, (double)costs[i]);
        ck_assert_int_eq(gauges[i].tape != NULL, costs[i] < 80000);
        ck_assert(gauges[i].tape == NULL || gauges[i].length == gauges[0].length);
        ck_assert(gauges[i].tape == NULL || gauges[i].replays * gauges[i].length * ms >= 0.24);
    }
    ck_assert_uint_eq(basis.length % 7, 0);
    ck_assert_uint_ge(basis.length, 100);
    ck_assert_uint_le(basis.length, 256 + 7);
    for (int i = 0; i < 4; i++)
        kiln__gauge_fini(the.device, &gauges[i]);
}
END_TEST

/* ---- Threads */

static kiln_status own_submit(void *data, void *stream)
{
    const launcher *self = data;
    const void *in[] = { self->memory };
    return launch_n(self->module, 0, N, self->memory, in, stream, NULL);
}

static void *make_often(void *data)
{
    launcher *self = data;
    for (int i = 0; i < 50; i++) {
        double ms;
        kiln__tape *tape = vtable->tapes->make(self->device, own_submit, self, 5);
        if (tape == NULL || vtable->tapes->play(self->device, tape, 2, &ms, NULL) != KILN_OK ||
            vtable->time(self->device, own_submit, self, 3, &ms, NULL) != KILN_OK)
            return data;
        vtable->tapes->discard(self->device, tape);
    }
    return NULL;
}

static void *launch_often(void *data)
{
    launcher *self = data;
    const void *in[] = { self->memory };
    void *stream = fake->stream_new(fake->context_primary(0));
    for (int i = 0; i < 500; i++)
        if (launch_n(self->module, 0, N, self->memory, in, stream, NULL) != KILN_OK ||
            vtable->sync(self->device, NULL) != KILN_OK)
            return data;
    fake->stream_free(stream);
    return NULL;
}

START_TEST(test_tapes__other_threads_launch_and_wait)
{
    pthread_t threads[4];
    size_t made = 2 * 50 * (3 * 5 + 3), launched = 2 * 500;
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, i < 2 ? make_often : launch_often, &the), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    ck_assert_uint_eq(fake->launches(NULL, 0), made + launched);
}
END_TEST

Suite *kiln_test_gpu_tapes_suite(void)
{
    Suite *suite = suite_create("tapes");
    TCase *tests = tcase_create("tapes");
    tcase_add_checked_fixture(tests, open_all, close_all);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_tapes__replays_are_what_was_submitted);
    tcase_add_test(tests, test_tapes__nothing_is_captured_meanwhile);
    tcase_add_loop_test(tests, test_tapes__copies_and_large_launches, 0, 2);
    tcase_add_loop_test(tests, test_tapes__other_work, 0, 3);
    tcase_add_loop_test(tests, test_tapes__kernels_of_another_service, 0, 2);
    tcase_add_test(tests, test_tapes__memory_may_run_out);
    tcase_add_test(tests, test_tapes__short_work_is_timed_as_the_device_does_it);
    tcase_add_test(tests, test_tapes__long_work_is_submitted);
    tcase_add_loop_test(tests, test_tapes__without_graphs_it_is_submitted, 0, CALLS);
    tcase_add_loop_test(tests, test_tapes__a_driver_without_graphs, 0, CALLS);
    tcase_add_test(tests, test_tapes__one_that_fails_later_is_made_anew);
    tcase_add_loop_test(tests, test_tapes__all_are_on_one_basis, 0, 18);
    tcase_add_test(tests, test_tapes__all_have_tapes_of_one_length);
    tcase_add_test(tests, test_tapes__other_threads_launch_and_wait);
    suite_add_tcase(suite, tests);
    return suite;
}
