/* Requests: specs and sources, to load or to build only, on the caller's thread and on a queue. All of them keep to
 * one contract. */
#include "service/service.h"
#include "support/harness.h"
#include "support/reading.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kiln.h>
#include <string.h>

#define SPEC "op=hardsigmoid dtype=f32 target=cpu"
enum { SPECS, SOURCES, KINDS, WAIT_MS = 30000 };

static kiln_service *service;
static kiln_queue *queue;
static kiln_spec *spec;
static kiln_source source;
static kiln_report report = KILN_INIT(kiln_report);
static const char *directories[1];

static void set_up(void)
{
    directories[0] = kiln_test_temp_dir();
    kiln_test_temp_write("a.h", "state 1;\n", 9);
    kiln_options options = kiln_test_gpu_options();
    service = kiln_test_open(&options);
    kiln_test_reading_install(service);
    spec = kiln_test_spec(service, SPEC);
    source = (kiln_source)KILN_INIT(kiln_source);
    source.text = "#include \"a.h\"\n";
    source.include_dirs = directories;
    source.include_dir_count = 1;
    source.cuda_headers = KILN_OFF;
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
}

static void tear_down(void)
{
    kiln_queue_close(queue, NULL, NULL);
    kiln_spec_free(spec);
    kiln_close(service);
    kiln_report_clear(&report);
}

static kiln_request request_for(int kind, kiln_goal goal, kiln_switch strict)
{
    kiln_request request = KILN_INIT(kiln_request);
    request.goal = goal;
    request.strict = strict;
    if (kind == SPECS)
        request.spec = spec;
    else
        request.source = &source;
    return request;
}

/* What a callback was told. */
typedef struct seen {
    int calls;
    kiln_status status;
    kiln_program *program;
} seen;

static void note(void *data, kiln_status status, kiln_program *program, const kiln_report *why)
{
    seen *slot = data;
    slot->calls++;
    slot->status = status;
    slot->program = program;
    kiln_report_clear(&report);
    report.status = why->status;
    memcpy(report.message, why->message, sizeof(report.message));
}

/* The way is that of _i: 0 waits here, 1 submits. */
static kiln_program *ask(int way, const kiln_request *request, kiln_status expected)
{
    seen slot = { 0, KILN_OK, NULL };
    if (way == 0) {
        slot.status = kiln_get(&slot.program, service, request, &report);
    } else {
        ck_assert_int_eq(kiln_submit(NULL, queue, request, NULL, note, &slot, &report), KILN_OK);
        ck_assert_int_eq(kiln_queue_wait(queue, WAIT_MS), 1);
        ck_assert_int_eq(slot.calls, 1);
    }
    ck_assert_msg(slot.status == expected, "%s: %s", kiln_status_name(slot.status), report.message);
    ck_assert_int_eq(expected == KILN_OK, slot.program != NULL);
    return slot.program;
}

static void expect_words(const char *words)
{
    ck_assert_msg(strstr(report.message, words) != NULL, "'%s' is not in: %s", words, report.message);
}

START_TEST(test_request__a_build_is_compiled_code_and_no_more)
{
    const void *bytes;
    size_t length;
    void *address;
    kiln_kernel *kernel;
    for (int kind = 0; kind < KINDS; kind++) {
        kiln_request request = request_for(kind, KILN_BUILD, KILN_DEFAULT);
        for (int round = 0; round < 2; round++) {
            kiln_program *program = ask(_i, &request, KILN_OK);
            kiln_program_info info = kiln_test_program_info(program);
            ck_assert_str_eq(info.device, "");
            ck_assert_str_eq(info.target, kind == SPECS ? "cpu" : "sm_90");
            ck_assert_str_eq(info.origin_name, round == 0 ? "compiled" : "memory");
            ck_assert_int_eq(info.origin, round == 0 ? KILN_ORIGIN_COMPILED : KILN_ORIGIN_MEMORY);
            ck_assert_uint_ge(info.function_count, 1);
            ck_assert_str_ne(info.functions[0]->name, "");
            ck_assert_int_eq(kiln_program_section(&bytes, &length, program, "key"), KILN_OK);
            ck_assert_uint_eq(length, strlen(bytes));
            ck_assert_int_eq(kiln_program_section(&bytes, &length, program, "nothing"), KILN_ENOENT);
            ck_assert_int_eq(kiln_program_kernel(&kernel, program, NULL, &report), KILN_ENOENT);
            ck_assert_ptr_null(kernel);
            expect_words("built and not loaded");
            ck_assert_int_eq(kiln_program_global(&address, NULL, program, "x", &report), KILN_ENOENT);
            kiln_program_release(program);
        }
    }
    ck_assert_uint_eq(kiln_test_stats(service).loads, 0);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, KINDS);
}
END_TEST

/* On a machine without a driver, for a GPU that it names. */
START_TEST(test_request__a_build_needs_no_device)
{
    kiln_options options = kiln_test_options();
    const void *cubin;
    size_t length;
    kiln_queue_close(queue, NULL, NULL);
    kiln_spec_free(spec);
    kiln_close(service);
    service = kiln_test_open(&options);
    spec = kiln_test_spec(service, "op=hardsigmoid dtype=f32 target=sm_90");
    source.text = "extern \"C\" __global__ void f(float *x) { *x = 1; }\n";
    source.target = "sm_90";
    source.include_dir_count = 0;
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
    for (int kind = 0; kind < KINDS; kind++) {
        kiln_request request = request_for(kind, KILN_BUILD, KILN_DEFAULT),
                     load = request_for(kind, KILN_LOAD, KILN_OFF);
        kiln_program *program = ask(_i, &request, KILN_OK);
        ck_assert_int_eq(kiln_program_section(&cubin, &length, program, "cubin"), KILN_OK);
        ck_assert_uint_gt(length, 0);
        kiln_program_release(program);
        ck_assert_int_eq(kiln_kept(service, &request, NULL), KILN_OK);
        ask(_i, &load, kind == SPECS ? KILN_ENODEVICE : KILN_ETARGET);
    }
    ck_assert_uint_eq(kiln_test_stats(service).compiles, KINDS);
}
END_TEST

START_TEST(test_request__a_loaded_program_has_kernels)
{
    const void *bytes;
    size_t length;
    for (int kind = 0; kind < KINDS; kind++) {
        kiln_kernel *named, *only;
        kiln_kernel_info facts = KILN_INIT(kiln_kernel_info);
        kiln_request request = request_for(kind, KILN_LOAD, KILN_DEFAULT);
        kiln_program *program = ask(_i, &request, KILN_OK);
        kiln_program_info info = kiln_test_program_info(program);
        ck_assert_str_eq(info.device, kind == SPECS ? "cpu" : "cuda:0");
        ck_assert_str_eq(info.origin_name, "compiled");
        ck_assert_int_eq(kiln_program_section(&bytes, &length, program, "key"), KILN_ENOENT);
        ck_assert_int_eq(kiln_program_kernel(&named, program, info.functions[0]->name, &report), KILN_OK);
        ck_assert_int_eq(kiln_program_kernel(&only, program, NULL, &report), KILN_OK);
        kiln_kernel_release(only);
        ck_assert_int_eq(kiln_program_kernel(&only, program, "nothing", &report), KILN_ENOENT);
        expect_words("no function 'nothing'; it has: ");
        expect_words(info.functions[0]->name);
        kiln_program_release(program); /* the kernel stays */
        ck_assert_int_eq(kiln_kernel_get_info(named, &facts), KILN_OK);
        ck_assert_str_eq(facts.origin_name, "compiled");
        kiln_kernel_release(named);
    }
}
END_TEST

START_TEST(test_request__what_is_strict_compiles_nothing)
{
    for (int kind = 0; kind < KINDS; kind++) {
        const kiln_request strict[] = { request_for(kind, KILN_LOAD, KILN_ON), request_for(kind, KILN_BUILD, KILN_ON) };
        kiln_request lenient = request_for(kind, KILN_BUILD, KILN_OFF);
        uint64_t compiles = kiln_test_stats(service).compiles;
        for (int i = 0; i < 2; i++) {
            ask(_i, &strict[i], KILN_ESTRICT);
            expect_words("not in the stores");
        }
        ck_assert_uint_eq(kiln_test_stats(service).compiles, compiles);
        kiln_program_release(ask(_i, &lenient, KILN_OK));
        for (int i = 0; i < 2; i++) {
            kiln_program *program = ask(_i, &strict[i], KILN_OK);
            ck_assert_int_eq(kiln_test_origin(program), KILN_ORIGIN_MEMORY);
            kiln_program_release(program);
        }
        ck_assert_uint_eq(kiln_test_stats(service).compiles, compiles + 1);
    }
    ck_assert_uint_eq(kiln_test_stats(service).strict_refusals, 2 * KINDS);
}
END_TEST

/* A text that a strict service refuses is refused whatever the request says. */
START_TEST(test_request__no_request_unlocks_a_strict_service)
{
    kiln_options options = kiln_test_options();
    options.strict = KILN_ON;
    kiln_queue_close(queue, NULL, NULL);
    kiln_spec_free(spec);
    kiln_close(service);
    service = kiln_test_open(&options);
    spec = kiln_test_spec(service, SPEC);
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
    kiln_request request = request_for(SPECS, KILN_LOAD, KILN_OFF);
    ask(_i, &request, KILN_ESTRICT);
}
END_TEST

static void expect_wrong(const kiln_request *request, const char *words)
{
    kiln_program *program = (kiln_program *)&service;
    kiln_ticket ticket = 1;
    seen slot = { 0, KILN_OK, NULL };
    ck_assert_int_eq(kiln_get(&program, service, request, &report), KILN_EINVAL);
    ck_assert_ptr_null(program);
    expect_words(words);
    ck_assert_int_eq(kiln_submit(&ticket, queue, request, NULL, note, &slot, &report), KILN_EINVAL);
    ck_assert_uint_eq(ticket, 0);
    expect_words(words);
    ck_assert_int_eq(kiln_queue_wait(queue, -1), 0);
    ck_assert_int_eq(slot.calls, 0);
}

START_TEST(test_request__wrong_ones_are_refused)
{
    kiln_request both = request_for(SPECS, KILN_LOAD, KILN_DEFAULT), none = KILN_INIT(kiln_request);
    kiln_request goal = request_for(SPECS, (kiln_goal)2, KILN_DEFAULT);
    kiln_request strict = request_for(SOURCES, KILN_LOAD, (kiln_switch)3);
    kiln_request sizeless = request_for(SPECS, KILN_LOAD, KILN_DEFAULT);
    both.source = &source;
    sizeless.size = 0;
    expect_wrong(&both, "either a spec or a source");
    expect_wrong(&none, "either a spec or a source");
    expect_wrong(&goal, "KILN_LOAD or KILN_BUILD");
    expect_wrong(&strict, "kiln_request.strict");
    expect_wrong(&sizeless, "kiln_request");
    expect_wrong(NULL, "must not be NULL");
    ck_assert_int_eq(kiln_get(NULL, service, &both, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_submit(NULL, queue, &both, NULL, NULL, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_program_get_info(NULL, &(kiln_program_info)KILN_INIT(kiln_program_info)), KILN_EINVAL);
    kiln_program_release(NULL);
}
END_TEST

START_TEST(test_request__a_device_of_another_service_is_refused)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_service *other = kiln_test_open(&options);
    for (int kind = 0; kind < KINDS; kind++)
        for (int goal = 0; goal < 2; goal++) {
            kiln_request request = request_for(kind, (kiln_goal)goal, KILN_DEFAULT);
            ck_assert_int_eq(kiln_device_open(&request.device, other, "cuda:0", NULL), KILN_OK);
            ask(_i, &request, KILN_EINVAL);
            expect_words("belongs to another service");
        }
    kiln_close(other);
}
END_TEST

START_TEST(test_request__tickets_are_never_used_twice)
{
    kiln_request request = request_for(SPECS, KILN_BUILD, KILN_DEFAULT);
    kiln_ticket first = 0, second = 0;
    seen slots[2] = { { 0, KILN_OK, NULL }, { 0, KILN_OK, NULL } };
    ck_assert_int_eq(kiln_submit(&first, queue, &request, NULL, note, &slots[0], NULL), KILN_OK);
    ck_assert_uint_ne(first, 0);
    ck_assert_int_eq(kiln_queue_wait(queue, WAIT_MS), 1);
    kiln_cancel(queue, first); /* it has come */
    ck_assert_int_eq(kiln_submit(&second, queue, &request, NULL, note, &slots[1], NULL), KILN_OK);
    ck_assert_uint_ne(second, first);
    kiln_cancel(queue, first);
    ck_assert_int_eq(kiln_queue_wait(queue, WAIT_MS), 1);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(slots[i].calls, 1);
        ck_assert_int_eq(slots[i].status, KILN_OK);
        kiln_program_release(slots[i].program);
    }
}
END_TEST

Suite *kiln_test_service_request_suite(void)
{
    Suite *suite = suite_create("request");
    TCase *tests = tcase_create("request");
    kiln_test_temp_use(tests);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_request__a_build_is_compiled_code_and_no_more, 0, 2);
    tcase_add_loop_test(tests, test_request__a_build_needs_no_device, 0, 2);
    tcase_add_loop_test(tests, test_request__a_loaded_program_has_kernels, 0, 2);
    tcase_add_loop_test(tests, test_request__what_is_strict_compiles_nothing, 0, 2);
    tcase_add_loop_test(tests, test_request__no_request_unlocks_a_strict_service, 0, 2);
    tcase_add_test(tests, test_request__wrong_ones_are_refused);
    tcase_add_loop_test(tests, test_request__a_device_of_another_service_is_refused, 0, 2);
    tcase_add_test(tests, test_request__tickets_are_never_used_twice);
    suite_add_tcase(suite, tests);
    return suite;
}
