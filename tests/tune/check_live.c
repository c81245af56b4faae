/* Live handles: what they launch from the first moment to the last, and what they leave behind. */
#include "base/alloc.h"
#include "os/cpu.h"
#include "service/service.h"
#include "support/counting.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/tune.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPEC "op=relu6 dtype=f32 target=cpu"

enum { N = 5003, LONG_MS = 60000 };

static kiln_service *service;
static kiln_live *live;
static kiln_report report = KILN_INIT(kiln_report);
static kiln_test_log lines;

static kiln_options stand_in(void)
{
    kiln_options options = kiln_test_counting_options(0);
    options.log = kiln_test_log_line;
    options.log_data = &lines;
    return options;
}

static void open_stand_in(void)
{
    kiln_options options = stand_in();
    options.wisdom = KILN_OFF; /* then a loaded kernel can always be taken at once */
    service = kiln_test_open(&options);
}

static void close_all(void)
{
    kiln_live_close(live);
    kiln_close(service);
    kiln_report_clear(&report);
}

static void open_live(const char *text, const kiln_tune_options *tune)
{
    kiln_live_options options = KILN_INIT(kiln_live_options);
    kiln_spec *spec = kiln_test_spec(service, text);
    options.tune = tune;
    kiln_status status = kiln_live_open(&live, service, spec, &options, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    kiln_spec_free(spec); /* it is copied */
}

static kiln_live_info info_of(void)
{
    kiln_live_info info = KILN_INIT(kiln_live_info);
    ck_assert_int_eq(kiln_live_get_info(live, &info), KILN_OK);
    return info;
}

static void expect(kiln_live_state state, const char *geometry, uint32_t swaps)
{
    static const char *const names[] = { "pending", "ready", "exact", "tuning", "settled", "failed" };
    kiln_live_info info = info_of();
    ck_assert_msg(info.state == state, "%s, expected %s: %s", info.state_name, names[state], info.problem);
    ck_assert_str_eq(info.state_name, names[state]);
    ck_assert_msg(strstr(info.spec, geometry) != NULL, "'%s' is not in '%s'", geometry, info.spec);
    ck_assert_uint_eq(info.swaps, swaps);
}

static kiln_status await(kiln_live_state state)
{
    return kiln_live_wait(live, state, LONG_MS, &report);
}

/* Launches the kernel that there is now. Where there is none, the wait for one says why. */
static kiln_status launch_now(uint64_t n, void *out, const void *const *in)
{
    kiln_kernel *kernel = kiln_live_kernel(live);
    if (kernel != NULL)
        return kiln_test_launch(kernel, n, out, in, NULL, &report);
    kiln_status status = kiln_live_wait(live, KILN_LIVE_READY, 0, &report);
    ck_assert_int_ne(status, KILN_OK);
    return status;
}

/* The stand-in's kernels copy, and relu6 leaves what is between 0 and 6 alone. */
static kiln_status launch(void)
{
    static float x[N], y[N];
    const void *in[] = { x };
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 600) / 100.0f;
    memset(y, 0xff, sizeof(y));
    kiln_status status = launch_now(N, y, in);
    ck_assert(status != KILN_OK || memcmp(x, y, sizeof(x)) == 0);
    return status;
}

START_TEST(test_live__is_pending_until_there_is_a_kernel)
{
    open_stand_in();
    kiln_test_counting_hold(NULL);
    open_live(SPEC, NULL);
    ck_assert_int_eq(launch(), KILN_ETIMEDOUT);
    ck_assert_str_ne(report.message, "");
    ck_assert_int_eq(launch_now(0, NULL, NULL), KILN_ETIMEDOUT);
    ck_assert_ptr_null(kiln_live_kernel(live));
    kiln_test_counting_await(1);
    ck_assert_int_eq(kiln_live_wait(live, KILN_LIVE_READY, 10, &report), KILN_ETIMEDOUT);
    ck_assert_int_eq(kiln_live_wait(live, KILN_LIVE_PENDING, 0, &report), KILN_OK);
    expect(KILN_LIVE_PENDING, "", 0);
    kiln_test_counting_go();
    ck_assert_int_eq(await(KILN_LIVE_SETTLED), KILN_OK);
    expect(KILN_LIVE_SETTLED, "elems=64", 0);
    ck_assert_int_eq(launch(), KILN_OK);
    ck_assert_int_eq(launch_now(0, NULL, NULL), KILN_OK);
    kiln_kernel *mine = kiln_live_kernel(live), *got = kiln_test_get(service, SPEC);
    ck_assert_ptr_eq(mine, got);
    ck_assert_int_eq(kiln_test_counting_count(), 1);
    kiln_kernel_release(got); /* the other is borrowed */
    close_all();
}
END_TEST

START_TEST(test_live__what_is_loaded_is_launched_at_once)
{
    open_stand_in();
    kiln_kernel *kernel = kiln_test_get(service, SPEC);
    open_live(_i == 0 ? SPEC : "op=relu6 dtype=f32 elems=64 target=cpu", NULL); /* asked for like this before, or not */
    expect(KILN_LIVE_SETTLED, "elems=64", 0);
    ck_assert_int_eq(launch(), KILN_OK);
    ck_assert_int_eq(kiln_test_counting_count(), 1);
    kiln_kernel_release(kernel);
    close_all();
}
END_TEST

START_TEST(test_live__the_nearest_geometry_stands_in)
{
    static const char *const others[] = { "op=relu6 elems=4 target=cpu", "op=relu6 elems=32 target=cpu",
                                          "op=relu6 elems=16 target=cpu", "op=hardsigmoid elems=64 target=cpu",
                                          "op=relu6 dtype=f64 elems=64 target=cpu" };
    open_stand_in();
    for (int i = 0; i < 5; i++)
        kiln_kernel_release(kiln_test_get(service, others[i]));
    kiln_test_counting_hold(NULL);
    open_live(SPEC, NULL);
    expect(KILN_LIVE_READY, "elems=32", 0);
    ck_assert_int_eq(launch(), KILN_OK);
    kiln_test_counting_go();
    ck_assert_int_eq(await(KILN_LIVE_EXACT), KILN_OK);
    ck_assert_int_eq(await(KILN_LIVE_SETTLED), KILN_OK);
    expect(KILN_LIVE_SETTLED, "elems=64", 1);
    ck_assert_int_eq(launch(), KILN_OK);
    close_all();
}
END_TEST

START_TEST(test_live__kernels_of_another_op_or_dtype_do_not_stand_in)
{
    open_stand_in();
    kiln_kernel_release(kiln_test_get(service, "op=hardsigmoid elems=64 target=cpu"));
    kiln_kernel_release(kiln_test_get(service, "op=relu6 dtype=f64 elems=64 target=cpu"));
    kiln_test_counting_hold(NULL);
    open_live(SPEC, NULL);
    kiln_test_counting_await(3); /* it has looked everywhere, and compiles */
    expect(KILN_LIVE_PENDING, "", 0);
    kiln_test_counting_go();
    ck_assert_int_eq(await(KILN_LIVE_SETTLED), KILN_OK);
    close_all();
}
END_TEST

START_TEST(test_live__what_a_store_has_stands_in_for_a_named_geometry)
{
    open_stand_in();
    kiln_program_release(kiln_test_build(service, SPEC));
    kiln_test_counting_hold(NULL);
    open_live("op=relu6 elems=16 target=cpu", NULL);
    ck_assert_int_eq(await(KILN_LIVE_READY), KILN_OK);
    kiln_test_counting_await(2);
    expect(KILN_LIVE_READY, "elems=64", 0);
    ck_assert_int_eq(launch(), KILN_OK);
    kiln_test_counting_go();
    ck_assert_int_eq(await(KILN_LIVE_SETTLED), KILN_OK);
    expect(KILN_LIVE_SETTLED, "elems=16", 1);
    ck_assert_int_eq(kiln_test_counting_count(), 2);
    close_all();
}
END_TEST

/* What stands in was not asked for: the record must not take it for known. */
START_TEST(test_live__the_record_has_what_was_asked_for)
{
    kiln_options options = stand_in();
    options.record = kiln_test_temp_path("record");
    service = kiln_test_open(&options);
    kiln_program_release(kiln_test_build(service, "op=hardsigmoid target=cpu"));
    kiln_program_release(kiln_test_build(service, "op=relu6 block=1024 target=cpu")); /* the default, in other words */
    open_live("op=relu6 elems=16 target=cpu", NULL);
    ck_assert_int_eq(await(KILN_LIVE_SETTLED), KILN_OK);
    expect(KILN_LIVE_SETTLED, "elems=16", 1);
    kiln_kernel_release(kiln_test_get(service, SPEC));
    FILE *file = fopen(options.record, "re");
    char text[4096] = "";
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, file), 0);
    fclose(file);
    ck_assert_msg(strstr(text, "\nop=relu6 dtype=f32 elems=16\n") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "\nop=relu6 dtype=f32\n") != NULL, "%s", text);
    close_all();
}
END_TEST

START_TEST(test_live__failure_keeps_what_stands_in)
{
    open_stand_in();
    kiln_kernel_release(kiln_test_get(service, "op=relu6 elems=16 target=cpu"));
    kiln_test_counting_break();
    open_live(SPEC, NULL);
    ck_assert_int_eq(await(KILN_LIVE_READY), KILN_OK);
    ck_assert_int_eq(await(KILN_LIVE_SETTLED), KILN_ECOMPILE);
    ck_assert_int_eq(report.status, KILN_ECOMPILE);
    ck_assert_ptr_nonnull(strstr(report.log, "no object to copy"));
    expect(KILN_LIVE_FAILED, "elems=16", 0);
    ck_assert_int_eq(info_of().status, KILN_ECOMPILE);
    ck_assert_str_ne(info_of().problem, "");
    ck_assert_int_eq(launch(), KILN_OK);
    ck_assert_int_eq(lines.warnings, 1);
    ck_assert_msg(strstr(lines.last, "nothing better than op=relu6") != NULL, "%s", lines.last);
    close_all();
}
END_TEST

START_TEST(test_live__failure_without_a_kernel_is_told_by_launches)
{
    static const struct {
        const char *spec;
        kiln_status status;
    } cases[] = { { SPEC, KILN_ECOMPILE },
                  { "dtype=f32 target=cpu", KILN_ESPEC },
                  { "op=relu6 target=sm_90", KILN_ENODEVICE } };
    open_stand_in();
    kiln_test_counting_break();
    open_live(cases[_i].spec, NULL);
    ck_assert_int_eq(await(KILN_LIVE_READY), cases[_i].status);
    kiln_report_clear(&report);
    ck_assert_int_eq(launch(), cases[_i].status);
    ck_assert_int_eq(report.status, cases[_i].status);
    ck_assert_str_ne(report.message, "");
    ck_assert((report.log != NULL) == (cases[_i].status == KILN_ECOMPILE));
    expect(KILN_LIVE_FAILED, "", 0);
    close_all();
}
END_TEST

static void ignore_trying(void *data, const char *spec)
{
    (void)data;
    (void)spec;
}

START_TEST(test_live__wrong_arguments_are_refused)
{
    kiln_live_options options = KILN_INIT(kiln_live_options);
    kiln_tune_options tune = KILN_INIT(kiln_tune_options);
    kiln_live_info info = { 0 };
    kiln_device *device;
    open_stand_in();
    kiln_options again = stand_in();
    kiln_service *other = kiln_test_open(&again);
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    ck_assert_int_eq(kiln_live_open(NULL, service, spec, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_live_open(&live, NULL, spec, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_live_open(&live, service, NULL, NULL, NULL), KILN_EINVAL);
    options.size = 0;
    ck_assert_int_eq(kiln_live_open(&live, service, spec, &options, NULL), KILN_EINVAL);
    options = (kiln_live_options)KILN_INIT(kiln_live_options);
    options.tune = &tune;
    tune.budget_s = -1;
    ck_assert_int_eq(kiln_live_open(&live, service, spec, &options, NULL), KILN_EINVAL);
    const kiln_skip skip = { "op=nothing", "" };
    char *suspect = NULL;
    for (int i = 0; i < 3; i++) {
        tune = (kiln_tune_options)KILN_INIT(kiln_tune_options);
        tune.trying = i == 0 ? ignore_trying : NULL;
        tune.skip = i == 1 ? &skip : NULL;
        tune.skip_count = i == 1;
        tune.suspect = i == 2 ? &suspect : NULL;
        ck_assert_int_eq(kiln_live_open(&live, service, spec, &options, &report), KILN_EINVAL);
        ck_assert_msg(strstr(report.message, "must not be set") != NULL, "%s", report.message);
    }
    options.tune = NULL;
    ck_assert_int_eq(kiln_device_open(&options.device, other, "cpu", NULL), KILN_OK);
    ck_assert_int_eq(kiln_live_open(&live, service, spec, &options, &report), KILN_EINVAL);
    ck_assert_ptr_null(live);
    ck_assert_int_eq(kiln_device_open(&device, service, "cpu", NULL), KILN_OK);
    options.device = device;
    ck_assert_int_eq(kiln_live_open(&live, service, spec, &options, NULL), KILN_OK);
    ck_assert_int_eq(kiln_live_wait(live, KILN_LIVE_FAILED, 0, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_live_wait(live, (kiln_live_state)77, 0, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_live_wait(live, (kiln_live_state)-1, 0, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_live_wait(NULL, KILN_LIVE_READY, 0, NULL), KILN_EINVAL);
    ck_assert_ptr_null(kiln_live_kernel(NULL));
    ck_assert_int_eq(kiln_live_get_info(live, &info), KILN_EINVAL);
    ck_assert_int_eq(await(KILN_LIVE_READY), KILN_OK);
    ck_assert_int_eq(launch_now(4, NULL, NULL), KILN_EINVAL);
    kiln_live_close(NULL);
    kiln_spec_free(spec);
    kiln_close(other);
    close_all();
}
END_TEST

/* ---- Ends */

START_TEST(test_live__closed_before_its_compile_it_is_never_compiled)
{
    open_stand_in();
    kiln_test_counting_hold("kiln_op_relu6");
    kiln_live *others[80];
    kiln_spec *base = kiln_test_spec(service, SPEC);
    for (int i = 0; i < 80; i++) {
        kiln_spec *spec;
        char elems[16];
        snprintf(elems, sizeof(elems), "elems=%d", 1 + i % 64);
        ck_assert_int_eq(kiln_spec_with(&spec, base, elems, NULL), KILN_OK);
        ck_assert_int_eq(kiln_live_open(&others[i], service, spec, NULL, NULL), KILN_OK);
        kiln_spec_free(spec);
    }
    kiln_test_counting_await(1);
    uint64_t begin = kiln__cpu_now_ns();
    for (int i = 0; i < 80; i++)
        kiln_live_close(others[i]);
    ck_assert_uint_lt(kiln__cpu_now_ns() - begin, 1000000000); /* no compile is waited for: all are held up */
    kiln_test_counting_go();
    kiln_spec_free(base);
    kiln_close(service);
    ck_assert_int_le(kiln_test_counting_count(), (int)kiln__cpu_count() + 1);
}
END_TEST

START_TEST(test_live__service_may_be_closed_first)
{
    open_stand_in();
    if (_i == 1) {
        kiln_kernel_release(kiln_test_get(service, "op=relu6 elems=16 target=cpu"));
        open_live("op=relu6 elems=16 target=cpu", NULL);
    } else {
        kiln_test_counting_hold(NULL);
        for (int i = 0; i < 80; i++) { /* more than there are threads, so that the last one waits for its turn */
            char text[64];
            snprintf(text, sizeof(text), "op=hardtanh(-1,%d) target=cpu", i + 1);
            kiln_live_close(live);
            open_live(text, NULL);
        }
        kiln_test_counting_go();
    }
    kiln_close(service);
    service = NULL;
    kiln_live_info info = info_of();
    ck_assert_int_ge(info.state, KILN_LIVE_SETTLED);
    ck_assert_int_eq(launch(), info.state == KILN_LIVE_SETTLED ? KILN_OK : KILN_ECANCELED);
    ck_assert(_i == 0 || info.state == KILN_LIVE_SETTLED);
    close_all();
}
END_TEST

static unsigned unloads(const kiln_fake *fake)
{
    return fake->calls("cuLibraryUnload");
}

START_TEST(test_live__replaced_kernels_stay_until_it_is_closed)
{
    const kiln_fake *fake = kiln_fake_open();
    kiln_options options = kiln_test_gpu_options();
    const void *in[] = { (void *)0x10000 };
    options.nvrtc = getenv("KILN_STAND_IN_NVRTC");
    ck_assert_ptr_nonnull(options.nvrtc);
    setenv("KILN_STAND_IN_MS", "1000", 1);
    service = kiln_test_open(&options);
    kiln_kernel_release(kiln_test_get(service, "op=relu6 block=64"));
    open_live("op=relu6", NULL);
    ck_assert_int_eq(await(KILN_LIVE_READY), KILN_OK);
    expect(KILN_LIVE_READY, "block=64", 0);
    ck_assert_int_eq(launch_now(1000, (void *)0x20000, in), KILN_OK);
    ck_assert_int_eq(await(KILN_LIVE_SETTLED), KILN_OK);
    expect(KILN_LIVE_SETTLED, "block=128", 1);
    kiln_close(service);
    service = NULL;
    ck_assert_uint_eq(unloads(fake), 0);
    ck_assert_int_eq(launch_now(1000, (void *)0x20000, in), KILN_OK);
    kiln_fake_launch launches[2];
    ck_assert_uint_eq(fake->launches(launches, 2), 2);
    ck_assert_uint_eq(launches[0].block[0], 64);
    ck_assert_uint_eq(launches[1].block[0], 128);
    kiln_live_close(live);
    live = NULL;
    ck_assert_uint_eq(unloads(fake), 2);
    close_all();
}
END_TEST

/* ---- Tuning: with the C compiler, for the stand-in's kernels are not right */

static atomic_bool enough;
static atomic_uint launched;
static float numbers[N];

static float relu6(float x)
{
    return x < 0 ? 0 : x > 6 ? 6 : x;
}

static void *launch_on(void *data)
{
    float y[N];
    const void *in[] = { numbers };
    (void)data;
    while (!atomic_load(&enough)) {
        memset(y, 0xff, sizeof(y));
        kiln_kernel *kernel = kiln_live_kernel(live);
        if (kernel == NULL)
            continue;
        kiln_status status = kiln_test_launch(kernel, N, y, in, NULL, NULL);
        bool wrong = status != KILN_OK;
        for (int i = 0; i < N; i++)
            wrong |= y[i] != relu6(numbers[i]);
        if (wrong)
            return "wrong";
        atomic_fetch_add(&launched, 1);
        usleep(100); /* the compilers need the processors too */
    }
    return NULL;
}

static kiln_work work; /* of the options that were made last */

static kiln_tune_options small(double budget_s)
{
    kiln_tune_options options = KILN_INIT(kiln_tune_options);
    work = (kiln_work)KILN_INIT(kiln_work);
    work.elements = 30000;
    options.work = &work;
    options.budget_s = budget_s;
    return options;
}

static void open_real(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
}

START_TEST(test_live__every_launch_is_right_while_kernels_are_replaced)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    kiln_tune_options tune = small(4);
    for (int i = 0; i < N; i++)
        numbers[i] = (float)(i - N / 2) / 300.0f;
    open_real();
    kiln_kernel_release(kiln_test_get(service, "op=relu6 block=32 elems=1 target=cpu"));
    open_live(SPEC, &tune);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_on, NULL), 0);
    kiln_status status = await(KILN_LIVE_SETTLED);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    kiln_live_info info = info_of();
    unsigned before = atomic_load(&launched);
    while (atomic_load(&launched) < before + 10 * THREADS)
        usleep(1000);
    atomic_store(&enough, true);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        ck_assert_ptr_null(wrong);
    }
    ck_assert_uint_ge(info.swaps, 1);
    ck_assert(info.ratio > 0);
    printf("%u launches by %d threads, %u swaps, %s at %.3f of the default's time\n", atomic_load(&launched), THREADS,
           info.swaps, info.spec, info.ratio);
    close_all();
}
END_TEST

/* 4096 elements are 64 rows of as many, and `any` is then a transposed input. */
START_TEST(test_live__a_layout_is_tuned_and_launched_as_it_says)
{
    static float in[64 * 64], out[64 * 64];
    const void *ins[] = { in };
    kiln_tune_options tune = small(1);
    work.elements = 64 * 64;
    for (int i = 0; i < 64 * 64; i++)
        in[i] = (float)(i % 6007) / 1000.0f;
    open_real();
    open_live("op=relu6 template=strided layout=2d(unit,any) target=cpu", &tune);
    ck_assert_int_eq(await(KILN_LIVE_SETTLED), KILN_OK);
    memset(out, 0xff, sizeof(out));
    ck_assert_int_eq(launch_now(64 * 64, out, ins), KILN_OK);
    for (int i = 0; i < 64 * 64; i++)
        ck_assert(out[i] == in[i % 64 * 64 + i / 64]);
    ck_assert(info_of().ratio > 0);
    close_all();
}
END_TEST

START_TEST(test_live__nothing_is_tuned_where_nothing_is_open)
{
    kiln_tune_options tune = small(60);
    open_real();
    open_live("op=relu6 block=32 elems=4 vector=4 cache=plain target=cpu", &tune);
    ck_assert_int_eq(await(KILN_LIVE_SETTLED), KILN_OK);
    ck_assert(info_of().ratio == 0);
    close_all();
}
END_TEST

START_TEST(test_live__tuning_that_fails_keeps_the_kernel)
{
    kiln_tune_options tune = small(60);
    work.elements = UINT64_MAX / 4; /* no memory holds that */
    open_real();
    open_live(SPEC, &tune);
    ck_assert_int_eq(await(KILN_LIVE_EXACT), KILN_OK);
    ck_assert_int_eq(await(KILN_LIVE_SETTLED), KILN_ENOMEM);
    expect(KILN_LIVE_FAILED, "elems=64", 0);
    ck_assert_int_eq(launch(), KILN_OK);
    close_all();
}
END_TEST

static int count_call(void *data, const kiln_tuning_info *info)
{
    (void)info;
    atomic_fetch_add((atomic_int *)data, 1);
    return 0;
}

/* At different moments: while its first kernels are compiled, while it is measuring. The service's end, too, is
 * prompt. */
START_TEST(test_live__closing_ends_a_tuning_at_once)
{
    static atomic_int calls;
    kiln_tune_options tune = small(300);
    work.elements = 1 << 21;
    tune.tolerance = 1e-9; /* so that it does not settle by itself, or not soon */
    tune.progress = count_call;
    tune.data = &calls;
    open_real();
    kiln_kernel_release(kiln_test_get(service, SPEC));
    open_live(SPEC, &tune);
    ck_assert_int_eq(await(KILN_LIVE_TUNING), KILN_OK);
    if (_i % 4 == 3)
        while (atomic_load(&calls) < 3 && info_of().state < KILN_LIVE_SETTLED)
            usleep(1000);
    else
        usleep((unsigned)(_i % 4) * 50000);
    uint64_t begin = kiln__cpu_now_ns();
    if (_i < 4)
        kiln_live_close(live);
    else
        kiln_close(service);
    double ms = (double)(kiln__cpu_now_ns() - begin) / 1e6;
    int told = atomic_load(&calls);
    printf("%s during a tuning: %.1f ms\n", _i < 4 ? "closed" : "service closed", ms);
    if (_i < 4) {
        kiln_close(service);
        ck_assert_int_eq(atomic_load(&calls), told);
    } else {
        kiln_live_info info = info_of();
        ck_assert(info.state == KILN_LIVE_SETTLED || info.status == KILN_ECANCELED);
        ck_assert_int_eq(launch(), KILN_OK);
        kiln_live_close(live);
    }
    ck_assert(ms < (_i < 4 ? 1000 : 20000)); /* the service waits for compiles */
}
END_TEST

/* A tuning of the host's has the device. This one waits, and goes on to a compile that is held up. */
START_TEST(test_live__closing_waits_for_no_compile_of_a_tuning)
{
    static atomic_int calls;
    kiln_tune_options tune = small(300);
    kiln_device *device;
    tune.progress = count_call;
    tune.data = &calls;
    open_stand_in();
    kiln_kernel_release(kiln_test_get(service, SPEC));
    ck_assert_int_eq(kiln_device_open(&device, service, "cpu", NULL), KILN_OK);
    atomic_store(&device->tuning, true);
    open_live(SPEC, &tune);
    ck_assert_int_eq(await(KILN_LIVE_TUNING), KILN_OK);
    while (atomic_load(&calls) == 0)
        usleep(1000);
    kiln_test_counting_hold(NULL);
    kiln_test_counting_break(); /* the stand-in's kernels do not count */
    int begun = kiln_test_counting_count();
    atomic_store(&device->tuning, false);
    kiln_test_counting_await(begun + 1);
    int told = atomic_load(&calls);
    uint64_t begin = kiln__cpu_now_ns();
    kiln_live_close(live); /* without an end, if it waited for that compile */
    ck_assert_uint_lt(kiln__cpu_now_ns() - begin, 1000000000);
    kiln_test_counting_go();
    kiln_close(service);
    ck_assert_int_eq(atomic_load(&calls), told);
}
END_TEST

START_TEST(test_live__tunings_take_turns)
{
    enum { HANDLES = 3 };
    kiln_live *handles[HANDLES];
    static const char *const ops[] = { "relu6", "hardsigmoid", "hardtanh" };
    kiln_tune_options tune = small(0.3);
    kiln_live_options options = KILN_INIT(kiln_live_options);
    options.tune = &tune;
    open_real();
    for (int i = 0; i < HANDLES; i++) {
        char text[64];
        snprintf(text, sizeof(text), "op=%s dtype=f32 target=cpu", ops[i]);
        kiln_spec *spec = kiln_test_spec(service, text);
        ck_assert_int_eq(kiln_live_open(&handles[i], service, spec, &options, NULL), KILN_OK);
        kiln_spec_free(spec);
    }
    for (int settled = 0; settled < HANDLES;) {
        int tuning = 0;
        settled = 0;
        for (int i = 0; i < HANDLES; i++) {
            kiln_live_info info = KILN_INIT(kiln_live_info);
            ck_assert_int_eq(kiln_live_get_info(handles[i], &info), KILN_OK);
            tuning += info.state == KILN_LIVE_TUNING;
            settled += info.state >= KILN_LIVE_SETTLED;
        }
        ck_assert_int_le(tuning, 2); /* one may have begun since the other was looked at */
        usleep(1000);
    }
    for (int i = 0; i < HANDLES; i++)
        kiln_live_close(handles[i]);
    kiln_close(service);
}
END_TEST

/* ---- Memory */

static atomic_int allocations_left;

static int fail_one_allocation(void)
{
    return atomic_fetch_sub(&allocations_left, 1) == 0;
}

START_TEST(test_live__allocation_that_fails_is_a_status)
{
    int failed = 0, n = 0;
    for (bool fired = true; fired && n < 2000; n++) {
        open_stand_in();
        kiln_kernel_release(kiln_test_get(service, "op=relu6 elems=16 target=cpu"));
        kiln_spec *spec = kiln_test_spec(service, SPEC);
        atomic_store(&allocations_left, n);
        kiln__alloc_set_hook(fail_one_allocation);
        kiln_status status = kiln_live_open(&live, service, spec, NULL, NULL);
        if (status == KILN_OK)
            status = kiln_live_wait(live, KILN_LIVE_SETTLED, LONG_MS, NULL);
        kiln_live_close(live);
        kiln_close(service);
        kiln__alloc_set_hook(NULL);
        fired = atomic_load(&allocations_left) < 0;
        ck_assert_msg(status == KILN_OK || status == KILN_ENOMEM, "allocation %d: %s", n, kiln_status_name(status));
        failed += status != KILN_OK;
        kiln_spec_free(spec);
        kiln_test_temp_remove(kiln_test_temp_path("store"));
    }
    printf("%d allocations failed in turn: %d handles failed\n", n - 1, failed);
    ck_assert_int_gt(failed, 3);
}
END_TEST

Suite *kiln_test_tune_live_suite(void)
{
    Suite *suite = suite_create("live");
    TCase *tcase = tcase_create("live");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_live__is_pending_until_there_is_a_kernel);
    tcase_add_loop_test(tcase, test_live__what_is_loaded_is_launched_at_once, 0, 2);
    tcase_add_test(tcase, test_live__the_nearest_geometry_stands_in);
    tcase_add_test(tcase, test_live__kernels_of_another_op_or_dtype_do_not_stand_in);
    tcase_add_test(tcase, test_live__what_a_store_has_stands_in_for_a_named_geometry);
    tcase_add_test(tcase, test_live__the_record_has_what_was_asked_for);
    tcase_add_test(tcase, test_live__failure_keeps_what_stands_in);
    tcase_add_loop_test(tcase, test_live__failure_without_a_kernel_is_told_by_launches, 0, 3);
    tcase_add_test(tcase, test_live__wrong_arguments_are_refused);
    tcase_add_test(tcase, test_live__closed_before_its_compile_it_is_never_compiled);
    tcase_add_loop_test(tcase, test_live__service_may_be_closed_first, 0, 2);
    tcase_add_test(tcase, test_live__replaced_kernels_stay_until_it_is_closed);
    tcase_add_test(tcase, test_live__every_launch_is_right_while_kernels_are_replaced);
    tcase_add_test(tcase, test_live__a_layout_is_tuned_and_launched_as_it_says);
    tcase_add_test(tcase, test_live__nothing_is_tuned_where_nothing_is_open);
    tcase_add_test(tcase, test_live__tuning_that_fails_keeps_the_kernel);
    tcase_add_loop_test(tcase, test_live__closing_ends_a_tuning_at_once, 0, 8);
    tcase_add_test(tcase, test_live__closing_waits_for_no_compile_of_a_tuning);
    tcase_add_test(tcase, test_live__tunings_take_turns);
    tcase_add_test(tcase, test_live__allocation_that_fails_is_a_status);
    suite_add_tcase(suite, tcase);
    return suite;
}
