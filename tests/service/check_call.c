/* kiln_call: the right kernel for each text in each service, and graphs that it does not break. */
#include "base/digest.h"
#include "gpu/cuda_symbols.h"
#include "service/table.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/suites.h"
#include "support/temp.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { TEXTS = 6, SERVICES = 6, N = 100 };

static void *const out = (void *)0x20000;
static const void *const in[] = { (void *)0x10000 };

static const kiln_fake *fake;
static kiln_report report = KILN_INIT(kiln_report);

static void set_up(void)
{
    fake = kiln_fake_open();
    fake->configure("devices=2");
}

static void tear_down(void)
{
    kiln_fake_live live;
    kiln_report_clear(&report);
    fake->counts(&live);
    ck_assert_uint_eq(live.contexts + live.streams + live.libraries + live.lazy, 0);
}

static kiln_service *open_on(const char *device)
{
    kiln_options options = kiln_test_gpu_options();
    options.device = device;
    return kiln_test_open(&options);
}

/* A text whose kernel is known by its block, which the stand-in driver records. */
static unsigned block_of(int i)
{
    return 32u * (unsigned)(i + 1);
}

static const char *text_of(int i, char buffer[64])
{
    snprintf(buffer, 64, "op=relu6 dtype=f32 block=%u", block_of(i));
    return buffer;
}

static void check_ok(kiln_status status)
{
    ck_assert_msg(status == KILN_OK, "%s: %s", kiln_status_name(status), report.message);
}

static void check_refused(kiln_status status, kiln_status expected, const char *words)
{
    ck_assert_msg(status == expected, "%s: %s", kiln_status_name(status), report.message);
    ck_assert_int_eq(report.status, expected);
    ck_assert_msg(strstr(report.message, words) != NULL, "'%s' is not in: %s", words, report.message);
}

static void check_last(unsigned block, const void *context)
{
    kiln_fake_launch launch;
    ck_assert_uint_gt(fake->launches(&launch, 1), 0);
    ck_assert_uint_eq(launch.block[0], block);
    ck_assert_ptr_eq(launch.context, context);
}

static kiln_status call(kiln_service *service, const char *text, void *stream)
{
    return kiln_test_call(service, text, N, out, in, stream, &report);
}

/* ---- Texts */

START_TEST(test_call__gets_once_and_launches_each_time)
{
    kiln_service *service = open_on("cuda:0");
    for (size_t i = 1; i <= 5; i++) {
        kiln_fake_launch launch;
        check_ok(call(service, "op=add(x,x) dtype=f32 block=64", NULL));
        ck_assert_uint_eq(fake->launches(&launch, 1), i);
        check_last(64, fake->context_primary(0));
        ck_assert_uint_eq(launch.parameters[0], (uint64_t)(uintptr_t)out);
        ck_assert_uint_eq(launch.parameters[1], (uint64_t)(uintptr_t)in[0]);
        ck_assert_uint_eq(launch.parameters[2], N);
    }
    ck_assert_uint_eq(kiln_test_stats(service).gets, 1);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 1);
    kiln_close(service);
}
END_TEST

/* All texts are built in one buffer. */
START_TEST(test_call__other_text_is_another_kernel)
{
    kiln_service *service = open_on("cuda:0");
    char buffer[64];
    for (int i = 0; i < 5 * TEXTS; i++) {
        int which = i < 3 * TEXTS ? i % TEXTS : i * i % TEXTS;
        check_ok(call(service, text_of(which, buffer), NULL));
        check_last(block_of(which), fake->context_primary(0));
    }
    ck_assert_uint_eq(kiln_test_stats(service).gets, TEXTS);
    kiln_close(service);
}
END_TEST

START_TEST(test_call__several_services_know_the_same_texts)
{
    kiln_service *services[SERVICES];
    char buffer[64];
    for (int i = 0; i < SERVICES; i++)
        services[i] = open_on(i % 2 ? "cuda:1" : "cuda:0");
    for (int i = 0; i < 10 * SERVICES; i++) {
        int which = i % SERVICES;
        check_ok(call(services[which], text_of(i % 3, buffer), NULL));
        check_last(block_of(i % 3), fake->context_primary(which % 2));
    }
    for (int i = 0; i < SERVICES; i++) {
        kiln_close(services[i]);
        for (int j = i + 1; j < SERVICES; j++) {
            check_ok(call(services[j], text_of(0, buffer), NULL));
            check_last(block_of(0), fake->context_primary(j % 2));
        }
    }
}
END_TEST

/* The allocator gives most of these services the same address. What was remembered of one that is closed would be a
 * kernel of the other device, and freed memory. */
START_TEST(test_call__closed_service_is_forgotten)
{
    for (int i = 0; i < 20; i++) {
        kiln_service *service = open_on(i % 2 ? "cuda:1" : "cuda:0");
        for (int j = 0; j < 3; j++)
            check_ok(call(service, "op=relu6 dtype=f32 block=64", NULL));
        check_last(64, fake->context_primary(i % 2));
        ck_assert_uint_eq(kiln_test_stats(service).gets, 1);
        kiln_close(service);
    }
}
END_TEST

static _Thread_local unsigned expected_block;
static _Thread_local const void *expected_context;
static kiln_service *shared[2];

static void check_run(void *data, const kiln_fake_launch *launch)
{
    (void)data;
    ck_assert_uint_eq(launch->block[0], expected_block);
    ck_assert_ptr_eq(launch->context, expected_context);
}

static void *call_often(void *data)
{
    unsigned random = (unsigned)(uintptr_t)data;
    char buffer[64];
    for (int i = 0; i < 1000; i++) {
        random = random * 1664525u + 1013904223u;
        int service = random >> 30 & 1, which = (int)(random >> 16 & 0xff) % TEXTS;
        expected_block = block_of(which);
        expected_context = fake->context_primary(service);
        ck_assert_int_eq(kiln_test_call(shared[service], text_of(which, buffer), N, out, in, NULL, NULL), KILN_OK);
    }
    return NULL;
}

START_TEST(test_call__threads_share_texts)
{
    pthread_t threads[4];
    kiln_device *device;
    for (int i = 0; i < 2; i++) {
        shared[i] = open_on(i ? "cuda:1" : "cuda:0");
        ck_assert_int_eq(kiln_device_open(&device, shared[i], NULL, NULL), KILN_OK);
    }
    fake->set_run(check_run, NULL);
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, call_often, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(kiln_test_stats(shared[i]).loads, TEXTS);
        kiln_close(shared[i]);
    }
}
END_TEST

START_TEST(test_call__what_is_wrong_is_said_and_forgotten)
{
    kiln_service *service = open_on("cuda:0");
    kiln_fake_launch launch;
    check_refused(kiln_test_call(NULL, "op=relu6", N, out, in, NULL, &report), KILN_EINVAL, "must not be NULL");
    check_refused(kiln_test_call(service, NULL, N, out, in, NULL, &report), KILN_EINVAL, "must not be NULL");
    for (int i = 0; i < 2; i++)
        check_refused(call(service, "op=relu7", NULL), KILN_EOP, "relu?");
    for (int i = 0; i < 2; i++)
        check_refused(kiln_test_call(service, "op=relu6", N, (char *)in[0] + 4, in, NULL, &report), KILN_EOVERLAP,
                      "partly overlap");
    ck_assert_uint_eq(fake->launches(&launch, 1), 0);
    check_ok(call(service, "op=relu6", NULL));
    ck_assert_uint_eq(fake->launches(&launch, 1), 1);
    kiln_close(service);
}
END_TEST

START_TEST(test_call__nothing_to_do_only_loads)
{
    kiln_service *service = open_on("cuda:0");
    kiln_fake_launch launch;
    check_ok(kiln_test_call(service, "op=relu6", 0, NULL, NULL, NULL, &report));
    ck_assert_uint_eq(kiln_test_stats(service).loads, 1);
    ck_assert_uint_eq(fake->launches(&launch, 1), 0);
    kiln_close(service);
}
END_TEST

START_TEST(test_call__on_the_cpu)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    float x[4] = { -1, 0, 3, 9 }, y[4];
    const void *arrays[] = { x };
    for (int i = 0; i < 3; i++) {
        memset(y, 0xff, sizeof(y));
        check_ok(kiln_test_call(service, "op=relu6 dtype=f32", 4, y, arrays, (void *)0x5000, &report));
        ck_assert(y[0] == 0 && y[1] == 0 && y[2] == 3 && y[3] == 6);
    }
    kiln_close(service);
}
END_TEST

static kiln__name name_of(const char *text, uint64_t generation)
{
    size_t length = strlen(text);
    return (kiln__name){ KILN__NAMED_TEXT, 0, 0, generation, NULL, text, length, kiln__hash(text, length) };
}

/* Two programs of many texts, of which the table holds one reference each; the caller's go over with the names. */
START_TEST(test_table__many_texts_of_few_programs)
{
    enum { MANY = 70000 };
    static kiln__program_table table;
    static struct kiln_program programs[2];
    char text[32];
    for (int i = 0; i < 2; i++)
        atomic_init(&programs[i].refs, 4 * MANY); /* never the last */
    kiln__program_table_init(&table);
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof(text), "text %d", i);
        const kiln__name name = name_of(text, 0);
        kiln_program *program = &programs[i % 2], *late = &programs[!(i % 2)];
        ck_assert_ptr_null(kiln__program_table_find(&table, &name));
        ck_assert(kiln__program_table_add(&table, &name, &program));
        ck_assert_ptr_eq(program, &programs[i % 2]);
        ck_assert(kiln__program_table_add(&table, &name, &late));
        ck_assert_ptr_eq(late, &programs[i % 2]);
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof(text), "text %d", i);
        const kiln__name name = name_of(text, 0);
        ck_assert_ptr_eq(kiln__program_table_find(&table, &name), &programs[i % 2]);
    }
    ck_assert_uint_eq(table.count, 2);
    ck_assert_uint_eq(atomic_load(&programs[0].refs) + atomic_load(&programs[1].refs), 9 * MANY + 2);
    kiln__program_table_fini(&table);
    ck_assert_uint_eq(atomic_load(&programs[0].refs) + atomic_load(&programs[1].refs), 9 * MANY);
}
END_TEST

/* A name goes over to the kernel of a later generation, and not back; every part of a name counts. */
START_TEST(test_table__names_and_their_generations)
{
    static kiln__program_table table;
    static struct kiln_program programs[3];
    kiln_device *const device = (kiln_device *)(uintptr_t)0x1000;
    kiln__name name = name_of("text", 5);
    for (int i = 0; i < 3; i++)
        atomic_init(&programs[i].refs, 100); /* never the last */
    kiln__program_table_init(&table);
    const kiln__name others[] = { { KILN__NAMED_SPEC, 0, 0, 5, NULL, name.text, name.length, name.hash },
                                  { KILN__NAMED_TEXT, 1, 0, 5, NULL, name.text, name.length, name.hash },
                                  { KILN__NAMED_TEXT, 0, 0, 5, device, name.text, name.length, name.hash },
                                  { KILN__NAMED_TEXT, 0, 0, 5, NULL, "other", 5, name.hash } };
    kiln_program *program = &programs[0];
    ck_assert(kiln__program_table_add(&table, &name, &program));
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_null(kiln__program_table_find(&table, &others[i]));
    name.generation = 6;
    ck_assert_ptr_null(kiln__program_table_find(&table, &name));
    program = &programs[1];
    ck_assert(kiln__program_table_add(&table, &name, &program));
    ck_assert_ptr_eq(kiln__program_table_find(&table, &name), &programs[1]);
    name.generation = 5;
    ck_assert_ptr_null(kiln__program_table_find(&table, &name));
    program = &programs[2];
    ck_assert(kiln__program_table_add(&table, &name, &program));
    ck_assert_ptr_eq(program, &programs[2]);
    name.generation = 6;
    ck_assert_ptr_eq(kiln__program_table_find(&table, &name), &programs[1]);
    kiln__program_table_fini(&table);
}
END_TEST

/* ---- Graphs. The stand-in driver breaks a capture where a call does that might: fake_state.h. */

static void *context, *stream;

static void set_up_stream(void)
{
    set_up();
    context = fake->context_new(0);
    stream = fake->stream_new(context);
}

static void tear_down_stream(void)
{
    fake->stream_free(stream);
    fake->context_free(context);
    tear_down();
}

enum { MODES = 3 }; /* global, thread-local, relaxed */

START_TEST(test_graph__loaded_kernels_join_the_capture)
{
    kiln_service *service = open_on("cuda:0");
    kiln_kernel *kernel = kiln_test_get(service, "op=hardtanh dtype=f32");
    check_ok(kiln_test_call(service, "op=relu6", 0, NULL, NULL, NULL, &report));
    fake->context_set(context); /* kernels were loaded for the primary context: launch in that of the stream */
    for (int mode = 0; mode < MODES; mode++) {
        fake->capture_begin(stream, mode);
        check_ok(kiln_test_launch(kernel, N, out, in, stream, &report));
        check_ok(call(service, "op=relu6", stream));
        check_ok(call(service, "dtype=f32 op=hardtanh", stream)); /* another text for what is loaded */
        ck_assert_int_eq(fake->capture_end(stream), 3);
    }
    fake->context_set(NULL);
    kiln_kernel_release(kernel);
    kiln_close(service);
}
END_TEST

START_TEST(test_graph__call_that_would_load_is_refused)
{
    for (int mode = 0; mode < MODES; mode++) {
        kiln_service *service = open_on("cuda:0");
        fake->capture_begin(stream, mode);
        for (int i = 0; i < 2; i++) {
            check_refused(call(service, "op=relu6", stream), KILN_ECAPTURE, "load it before the capture");
            ck_assert_ptr_nonnull(strstr(report.message, "op=relu6"));
        }
        ck_assert_uint_eq(kiln_test_stats(service).loads + kiln_test_stats(service).compiles, 0);
        check_ok(kiln_test_call(service, "op=relu6", 0, NULL, NULL, stream, &report)); /* that is a get */
        check_ok(call(service, "op=relu6", stream));
        ck_assert_int_eq(fake->capture_end(stream), 1);
        kiln_close(service);
    }
}
END_TEST

/* With the default stream nobody can tell what the capture would make of it. */
START_TEST(test_graph__default_stream)
{
    kiln_service *service = open_on("cuda:0");
    fake->context_set(context);
    fake->capture_begin(stream, KILN__CU_STREAM_CAPTURE_MODE_GLOBAL);
    check_refused(call(service, "op=relu6", NULL), KILN_ECAPTURE, "load it before the capture");
    ck_assert_int_eq(fake->capture_end(stream), 0);
    check_ok(call(service, "op=relu6", NULL));
    fake->capture_begin(stream, KILN__CU_STREAM_CAPTURE_MODE_GLOBAL);
    check_refused(call(service, "op=relu6", NULL), KILN_ELAUNCH, "name a stream");
    ck_assert_int_eq(fake->capture_end(stream), -1);
    fake->context_set(NULL);
    kiln_close(service);
}
END_TEST

START_TEST(test_graph__driver_that_cannot_tell)
{
    fake->hide("cuStreamIsCapturing");
    kiln_service *service = open_on("cuda:0");
    fake->capture_begin(stream, KILN__CU_STREAM_CAPTURE_MODE_GLOBAL);
    check_ok(call(service, "op=relu6", stream));
    ck_assert_int_eq(fake->capture_end(stream), 1);
    kiln_close(service);
}
END_TEST

START_TEST(test_graph__no_stream_at_all_is_refused_before_it_compiles)
{
    kiln_service *service = open_on("cuda:0");
    check_refused(call(service, "op=relu6", (void *)0x5000), KILN_ELAUNCH, "cuStreamIsCapturing failed");
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 0);
    kiln_close(service);
}
END_TEST

/* Everything but launches: opens the device, compiles, loads, allocates, unloads, closes. */
static void *use_service(void *text)
{
    kiln_service *service = open_on("cuda:0");
    kiln_device *device;
    void *memory;
    kiln_kernel_release(kiln_test_get(service, text));
    ck_assert_int_eq(kiln_device_open(&device, service, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_alloc(&memory, device, 100, NULL), KILN_OK);
    kiln_free(device, memory);
    kiln_close(service);
    return NULL;
}

START_TEST(test_graph__gets_on_any_thread_break_no_capture)
{
    static char text[] = "op=relu6 dtype=f32";
    for (int mode = 0; mode < MODES; mode++) {
        pthread_t other;
        fake->capture_begin(stream, mode);
        use_service(text);
        ck_assert_int_eq(pthread_create(&other, NULL, use_service, text), 0);
        pthread_join(other, NULL);
        ck_assert_int_eq(fake->capture_end(stream), 0);
    }
}
END_TEST

/* The stand-in is as strict as these tests need it: without the driver's way to relax a thread, a get breaks a
 * capture. */
START_TEST(test_graph__stand_in_breaks_captures)
{
    fake->hide("cuThreadExchangeStreamCaptureMode");
    kiln_service *service = open_on("cuda:0");
    kiln_spec *spec = kiln_test_spec(service, "op=relu6");
    kiln_kernel *kernel;
    fake->capture_begin(stream, KILN__CU_STREAM_CAPTURE_MODE_GLOBAL);
    check_refused(kiln_get_kernel(&kernel, service, spec, &report), KILN_EDEVICE, "a graph is being captured");
    ck_assert_int_eq(fake->capture_end(stream), -1);
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

Suite *kiln_test_service_call_suite(void)
{
    Suite *suite = suite_create("call");
    TCase *texts = tcase_create("texts"), *graphs = tcase_create("graphs");
    kiln_test_temp_use(texts);
    tcase_add_checked_fixture(texts, set_up, tear_down);
    tcase_add_test(texts, test_call__gets_once_and_launches_each_time);
    tcase_add_test(texts, test_call__other_text_is_another_kernel);
    tcase_add_test(texts, test_call__several_services_know_the_same_texts);
    tcase_add_test(texts, test_call__closed_service_is_forgotten);
    tcase_add_test(texts, test_call__threads_share_texts);
    tcase_add_test(texts, test_call__what_is_wrong_is_said_and_forgotten);
    tcase_add_test(texts, test_call__nothing_to_do_only_loads);
    tcase_add_test(texts, test_call__on_the_cpu);
    tcase_add_test(texts, test_table__many_texts_of_few_programs);
    tcase_add_test(texts, test_table__names_and_their_generations);
    suite_add_tcase(suite, texts);
    kiln_test_temp_use(graphs);
    tcase_add_checked_fixture(graphs, set_up_stream, tear_down_stream);
    tcase_add_test(graphs, test_graph__loaded_kernels_join_the_capture);
    tcase_add_test(graphs, test_graph__call_that_would_load_is_refused);
    tcase_add_test(graphs, test_graph__default_stream);
    tcase_add_test(graphs, test_graph__driver_that_cannot_tell);
    tcase_add_test(graphs, test_graph__no_stream_at_all_is_refused_before_it_compiles);
    tcase_add_test(graphs, test_graph__gets_on_any_thread_break_no_capture);
    tcase_add_test(graphs, test_graph__stand_in_breaks_captures);
    suite_add_tcase(suite, graphs);
    return suite;
}
