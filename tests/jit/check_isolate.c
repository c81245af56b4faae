/* Where a service compiles: in its own process, in a worker, or not at all. */
#include "gpu/cuda.h"
#include "support/foreign.h"
#include "support/harness.h"
#include "support/requesting.h"
#include "support/sanitized.h"
#include "support/shortage.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kernel.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define SPEC "op=hardsigmoid dtype=f32 target=sm_90"

static kiln_report report = KILN_INIT(kiln_report);

static void clear_report(void)
{
    kiln_report_clear(&report);
}

static const char *stand_in(void)
{
    const char *path = getenv("KILN_STAND_IN_NVRTC");
    ck_assert_msg(path != NULL, "KILN_STAND_IN_NVRTC must name the stand-in NVRTC");
    return path;
}

static void expect(kiln_status status, kiln_status expected, const char *text)
{
    ck_assert_msg(status == expected, "%s, expected %s: %s", kiln_status_name(status), kiln_status_name(expected),
                  report.message);
    ck_assert_msg(strstr(report.message, text) != NULL, "'%s' is not in: %s", text, report.message);
}

static kiln_options service_options(kiln_isolate isolate)
{
    kiln_options out = kiln_test_options();
    out.isolate = isolate;
    out.cache_dir = "";
    return out;
}

static bool have_nvrtc(void)
{
    kiln__toolchain toolchain;
    kiln__compiler *real = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    pid_t pid = fork(); /* so that this process does not map it */
    if (pid == 0)
        _exit(real->vtable->open(real, &toolchain, NULL) == KILN_OK);
    int status;
    waitpid(pid, &status, 0);
    real->vtable->close(real);
    if (status == 0)
        printf("   left out: there is no NVRTC\n");
    return status != 0;
}

START_TEST(test_isolate__makes_the_same_bytes)
{
    const void *outside, *inside;
    size_t outside_length, inside_length;
    if (!have_nvrtc())
        return;
    kiln_options chosen = service_options(KILN_ISOLATE_ALWAYS);
    kiln_service *service = kiln_test_open(&chosen);
    kiln_program *a = kiln_test_build(service, SPEC);
    ck_assert_uint_eq(kiln_test_stats(service).worker_starts, 1);
    ck_assert(!has_mapped(0, "libnvrtc"));
    ck_assert(has_mapped(only_child(), "libnvrtc"));
    kiln_close(service);
    ck_assert_int_eq(list_children(NULL, 0), 0);
    ck_assert_int_eq(kiln_program_section(&outside, &outside_length, a, "cubin"), KILN_OK);

    chosen = service_options(KILN_ISOLATE_NEVER);
    service = kiln_test_open(&chosen);
    kiln_program *b = kiln_test_build(service, SPEC);
    ck_assert_uint_eq(kiln_test_stats(service).worker_starts, 0);
    ck_assert_int_eq(kiln_program_section(&inside, &inside_length, b, "cubin"), KILN_OK);
    ck_assert_uint_eq(outside_length, inside_length);
    ck_assert_mem_eq(outside, inside, inside_length);
    ck_assert_int_eq(kiln_program_section(&outside, &outside_length, a, "ptx"), KILN_OK);
    ck_assert_int_eq(kiln_program_section(&inside, &inside_length, b, "ptx"), KILN_OK);
    ck_assert_uint_eq(outside_length, inside_length);
    ck_assert_mem_eq(outside, inside, inside_length);
    kiln_program_release(a);
    kiln_program_release(b);
    kiln_close(service);
}
END_TEST

/* NVRTC 13 heeds NVRTC_APPEND_FLAGS where NVRTCWIZ has this value. */
START_TEST(test_isolate__the_environment_does_not_steer_nvrtc)
{
    static const char *const variables[][2] = { { "NVRTC_APPEND_FLAGS", "--fmad=true --generate-line-info" },
                                                { "NV_NVVM_VERSION", "nvvm-latest" } };
    const void *plain, *steered;
    size_t plain_length, steered_length;
    if (!have_nvrtc())
        return;
    kiln_options chosen = service_options(KILN_ISOLATE_AUTO);
    kiln_service *service = kiln_test_open(&chosen);
    kiln_program *a = kiln_test_build(service, SPEC), *b = NULL;
    ck_assert_uint_eq(kiln_test_stats(service).worker_starts, 0);
    ck_assert_int_eq(kiln_program_section(&plain, &plain_length, a, "ptx"), KILN_OK);
    kiln_close(service);

    ck_assert_int_eq(setenv("NVRTCWIZ", "3153394", 1), 0);
    ck_assert_int_eq(setenv(variables[_i][0], variables[_i][1], 1), 0);
    for (int i = 0; i < 2; i++) {
        chosen = service_options(i == 0 ? KILN_ISOLATE_AUTO : KILN_ISOLATE_ALWAYS);
        service = kiln_test_open(&chosen);
        b = kiln_test_build(service, SPEC);
        ck_assert_int_eq(kiln_program_section(&steered, &steered_length, b, "ptx"), KILN_OK);
        ck_assert_msg(plain_length == steered_length && memcmp(plain, steered, plain_length) == 0, "%s steers it",
                      variables[_i][0]);
        ck_assert_uint_eq(kiln_test_stats(service).worker_starts, 1);
        kiln_program_release(b);
        kiln_close(service);
    }

    chosen = service_options(KILN_ISOLATE_NEVER);
    service = kiln_test_open(&chosen);
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    unsetenv("NVRTCWIZ");
    expect(kiln_test_build_spec(&b, service, spec, &report), KILN_ENOCOMPILER, variables[_i][0]);
    unsetenv(variables[_i][0]);
    expect(kiln_test_build_spec(&b, service, spec, &report), KILN_OK, "");
    kiln_program_release(b);
    kiln_program_release(a);
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

START_TEST(test_isolate__a_shortage_is_no_missing_worker)
{
    kiln_program *program;
    kiln_options chosen = service_options(KILN_ISOLATE_ALWAYS);
    chosen.nvrtc = stand_in();
    kiln_service *service = kiln_test_open(&chosen);
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    if (_i == 0)
        take_descriptors();
    else
        refuse_processes();
    kiln_status status = kiln_test_build_spec(&program, service, spec, &report);
    give_descriptors();
    expect(status, KILN_EIO, _i == 0 ? "ulimit -n" : "ulimit -u");
    ck_assert_ptr_null(strstr(report.message, "install"));
    ck_assert_int_eq(report.native, _i == 0 ? EMFILE : EAGAIN);
    if (_i == 0)
        expect(kiln_test_build_spec(&program, service, spec, &report), KILN_OK, "");
    kiln_program_release(program);
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

/* A cache that was filled one way is warm the other way. */
START_TEST(test_isolate__finds_what_was_compiled_elsewhere)
{
    kiln_options chosen = kiln_test_gpu_options();
    chosen.nvrtc = stand_in();
    for (int i = 0; i < 2; i++) {
        chosen.isolate = i == 0 ? KILN_ISOLATE_ALWAYS : KILN_ISOLATE_NEVER;
        kiln_service *service = kiln_test_open(&chosen);
        kiln_kernel_release(kiln_test_get(service, "op=hardsigmoid dtype=f32"));
        kiln_stats stats = kiln_test_stats(service);
        ck_assert_uint_eq(stats.compiles, i == 0);
        ck_assert_uint_eq(stats.worker_starts, i == 0);
        kiln_close(service);
    }
}
END_TEST

START_TEST(test_isolate__without_a_worker_lives_from_its_stores)
{
    kiln_options chosen = kiln_test_gpu_options();
    kiln_spec *spec;
    kiln_kernel *kernel;
    chosen.nvrtc = stand_in();
    chosen.isolate = KILN_ISOLATE_ALWAYS;
    kiln_service *service = kiln_test_open(&chosen);
    kiln_kernel_release(kiln_test_get(service, "op=hardsigmoid dtype=f32"));
    kiln_close(service);
    chosen.worker = "/nonexistent/kiln-worker";
    service = kiln_test_open(&chosen);
    kiln_kernel_release(kiln_test_get(service, "op=hardsigmoid dtype=f32"));
    spec = kiln_test_spec(service, "op=relu6 dtype=f32");
    expect(kiln_get_kernel(&kernel, service, spec, &report), KILN_ENOWORKER, "/nonexistent/kiln-worker");
    kiln_spec_free(spec);
    kiln_close(service);
    chosen.strict = KILN_ON;
    chosen.cache_dir = "";
    service = kiln_test_open(&chosen);
    spec = kiln_test_spec(service, "op=relu6 dtype=f32");
    expect(kiln_get_kernel(&kernel, service, spec, &report), KILN_ESTRICT, "kiln warm");
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

static void on_kernel(void *data, kiln_status status, kiln_program *program, const kiln_report *from)
{
    kiln_kernel *kernel = kiln_test_take_kernel(program);
    (void)from;
    *(kiln_status *)data = status;
    kiln_kernel_release(kernel);
}

START_TEST(test_isolate__is_closed_while_a_worker_compiles)
{
    kiln_queue *queue;
    kiln_ticket request;
    kiln_status status = KILN_OK;
    kiln_options chosen = kiln_test_gpu_options();
    chosen.nvrtc = stand_in();
    chosen.isolate = KILN_ISOLATE_ALWAYS;
    ck_assert_int_eq(setenv("KILN_STAND_IN_MS", "400", 1), 0);
    kiln_service *service = kiln_test_open(&chosen);
    kiln_spec *spec = kiln_test_spec(service, "op=hardsigmoid dtype=f32");
    ck_assert_int_eq(kiln_queue_open(&queue, service, &report), KILN_OK);
    ck_assert_int_eq(kiln_test_submit(&request, queue, spec, NULL, on_kernel, &status), KILN_OK);
    while (list_children(NULL, 0) == 0)
        usleep(1000);
    usleep(100000);
    kiln_spec_free(spec);
    kiln_close(service);
    ck_assert_int_eq(list_children(NULL, 0), 0);
    kiln_queue_close(queue, NULL, NULL);
    ck_assert(status == KILN_ECANCELED);
}
END_TEST

/* An op of 480 operations, whose kernel is heavy with many elements for each thread. */
static void define_heavy(kiln_service *service)
{
    char text[2048] = "heavy(x) = part(x)", part[256];
    ck_assert_int_eq(kiln_op_define(service, "part(x) = x*x+x*x+x*x+x*x+x*x+x*x+x*x+x*x+x*x+x*x", &report), KILN_OK);
    for (int i = 1; i < 22; i++) {
        snprintf(part, sizeof(part), "+part(x*%d.5)", i);
        strcat(text, part);
    }
    ck_assert_msg(kiln_op_define(service, text, &report) == KILN_OK, "%s", report.message);
}

static kiln_status build_heavy(kiln_service *service, const char *geometry)
{
    char text[128];
    kiln_program *program;
    snprintf(text, sizeof(text), "op=heavy dtype=f32 target=sm_90 %s", geometry);
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln_status status = kiln_test_build_spec(&program, service, spec, &report);
    kiln_spec_free(spec);
    kiln_program_release(program);
    return status;
}

START_TEST(test_isolate__heavy_definitions_compile_in_a_worker)
{
    kiln_options chosen = service_options(KILN_ISOLATE_AUTO);
    chosen.nvrtc = stand_in();
    chosen.cache_dir = kiln_test_temp_path("store");
    kiln_service *service = kiln_test_open(&chosen);
    define_heavy(service);
    ck_assert_int_eq(build_heavy(service, ""), KILN_OK);
    ck_assert_uint_eq(kiln_test_stats(service).worker_starts, 0);
    ck_assert_int_eq(build_heavy(service, "elems=64 vector=4"), KILN_OK);
    ck_assert_uint_eq(kiln_test_stats(service).worker_starts, 1);
    kiln_close(service);
    chosen.worker = "/nonexistent/kiln-worker";
    service = kiln_test_open(&chosen);
    define_heavy(service);
    ck_assert_int_eq(build_heavy(service, "elems=64 vector=4"), KILN_OK); /* the key is the same, so it is stored */
    expect(build_heavy(service, "elems=32 vector=4"), KILN_ENOWORKER, "/nonexistent/kiln-worker");
    kiln_close(service);
}
END_TEST

START_TEST(test_isolate__heavy_definitions_are_refused_where_no_worker_may_be)
{
    kiln_options chosen = service_options(KILN_ISOLATE_NEVER);
    chosen.nvrtc = stand_in();
    kiln_service *service = kiln_test_open(&chosen);
    define_heavy(service);
    ck_assert_int_eq(build_heavy(service, ""), KILN_OK);
    expect(build_heavy(service, "elems=64 vector=4"), KILN_ENOWORKER, "operations for each of 64 elements");
    expect(build_heavy(service, "elems=64 vector=4"), KILN_ENOWORKER, "at most 4096");
    kiln_close(service);
}
END_TEST

/* Without a worker a template reads no file, and needs none for its options. */
START_TEST(test_isolate__never_reads_for_a_template)
{
#define DECLARED(name)                                                                      \
    "//! template " name "\n//! size n\n//! arg x inout f32[n]\n//! grid 1\n//! block 32\n" \
    "//! option -std=c++20\n//! entry go align 4\n"
#define TEXT "extern \"C\" __global__ void go(float *x) { x[0] = __cplusplus; }\n"
    kiln_program *program = NULL;
    if (!have_nvrtc())
        return;
    kiln_test_temp_write("reads.cu", DECLARED("reads") "#include \"near.h\"\n" TEXT,
                         strlen(DECLARED("reads") "#include \"near.h\"\n" TEXT));
    kiln_test_temp_write("near.h", "\n", 1);
    for (int i = 0; i < 2; i++) {
        kiln_options chosen = service_options(i == 0 ? KILN_ISOLATE_AUTO : KILN_ISOLATE_NEVER);
        kiln_service *service = kiln_test_open(&chosen);
        expect(kiln_template_load(service, kiln_test_temp_path("reads.cu"), NULL, &report), KILN_OK, "");
        expect(kiln_template_define(service, DECLARED("plain") TEXT, NULL, NULL, &report), KILN_OK, "");
        kiln_spec *spec = kiln_test_spec(service, "template=reads target=sm_90");
        expect(kiln_test_build_spec(&program, service, spec, &report), i == 0 ? KILN_OK : KILN_ECOMPILE,
               i == 0 ? "" : "near.h");
        kiln_program_release(program);
        kiln_spec_free(spec);
        program = kiln_test_build(service, "template=plain target=sm_90");
        ck_assert((kiln_test_stats(service).worker_starts > 0) == (i == 0));
        kiln_program_release(program);
        kiln_close(service);
    }
}
END_TEST

START_TEST(test_isolate__options_are_checked)
{
    kiln_service *service;
    kiln_options chosen = service_options(KILN_ISOLATE_AUTO);
    chosen.isolate = (kiln_isolate)4;
    expect(kiln_open(&service, &chosen, &report), KILN_EINVAL, "isolate is 4");
    chosen.isolate = KILN_ISOLATE_DEFAULT;
    ck_assert_int_eq(setenv("KILN_ISOLATE", "sometimes", 1), 0);
    expect(kiln_open(&service, &chosen, &report), KILN_EINVAL, "KILN_ISOLATE is 'sometimes'");
    chosen.isolate = KILN_ISOLATE_NEVER;
    kiln_close(kiln_test_open(&chosen));
    ck_assert_int_eq(setenv("KILN_ISOLATE", "always", 1), 0);
    ck_assert_int_eq(setenv("KILN_WORKER", "/nonexistent/named", 1), 0);
    chosen.isolate = KILN_ISOLATE_DEFAULT;
    chosen.nvrtc = stand_in();
    service = kiln_test_open(&chosen);
    kiln_spec *spec = kiln_test_spec(service, SPEC);
    kiln_program *program;
    expect(kiln_test_build_spec(&program, service, spec, &report), KILN_ENOWORKER, "/nonexistent/named");
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

Suite *kiln_test_jit_isolate_suite(void)
{
    Suite *suite = suite_create("isolate");
    TCase *tcase = tcase_create("isolate");
    tcase_add_checked_fixture(tcase, NULL, clear_report);
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_isolate__makes_the_same_bytes);
    tcase_add_loop_test(tcase, test_isolate__the_environment_does_not_steer_nvrtc, 0, 2);
    tcase_add_loop_test(tcase, test_isolate__a_shortage_is_no_missing_worker, 0, 2 - KILN_TEST_SANITIZED);
    tcase_add_test(tcase, test_isolate__finds_what_was_compiled_elsewhere);
    tcase_add_test(tcase, test_isolate__without_a_worker_lives_from_its_stores);
    tcase_add_test(tcase, test_isolate__is_closed_while_a_worker_compiles);
    tcase_add_test(tcase, test_isolate__heavy_definitions_compile_in_a_worker);
    tcase_add_test(tcase, test_isolate__heavy_definitions_are_refused_where_no_worker_may_be);
    tcase_add_test(tcase, test_isolate__never_reads_for_a_template);
    tcase_add_test(tcase, test_isolate__options_are_checked);
    suite_add_tcase(suite, tcase);
    return suite;
}
