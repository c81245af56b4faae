/* The whole path through the public API: spec, unit, key, store, compile, load, launch, verified output. */
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kernel.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CPU_SPEC "op=hardsigmoid dtype=f32 target=cpu"
#define GPU_SPEC "op=hardsigmoid dtype=f32 target=sm_90"

static kiln_kernel_info info_of(const kiln_kernel *kernel)
{
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    ck_assert_int_eq(kiln_kernel_get_info(kernel, &info), KILN_OK);
    return info;
}

static int nvrtc_is_mapped(void)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps) != NULL)
        found |= strstr(line, "libnvrtc") != NULL;
    fclose(maps);
    return found;
}

START_TEST(test_service__cpu_kernel_computes_and_is_found_again)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel *first = kiln_test_get(service, CPU_SPEC);
    kiln_kernel *second = kiln_test_get(service, "dtype=f32   target=cpu op=hardsigmoid(x)");
    kiln_test_check_hardsigmoid(first);
    ck_assert_ptr_eq(first, second);
    ck_assert_int_eq(info_of(first).origin, KILN_ORIGIN_COMPILED);
    ck_assert_str_eq(info_of(first).device, "cpu");
    ck_assert(info_of(first).compile_ms > 0);
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_uint_eq(stats.gets, 2);
    ck_assert_uint_eq(stats.compiles, 1);
    ck_assert_uint_eq(stats.hits_loaded, 1);
    ck_assert_uint_eq(stats.loads, 1);
    kiln_kernel_release(first);
    kiln_kernel_release(second);
    kiln_close(service);
}
END_TEST

START_TEST(test_service__another_service_finds_it_on_disk)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel_release(kiln_test_get(service, CPU_SPEC));
    kiln_close(service);
    service = kiln_test_open(&options);
    kiln_kernel *kernel = kiln_test_get(service, CPU_SPEC);
    ck_assert_int_eq(info_of(kernel).origin, KILN_ORIGIN_DISK);
    kiln_test_check_hardsigmoid(kernel);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 0);
    ck_assert_uint_eq(kiln_test_stats(service).hits_disk, 1);
    kiln_kernel_release(kernel);
    kiln_close(service);
}
END_TEST

START_TEST(test_service__works_with_nothing_on_disk)
{
    kiln_options options = kiln_test_options();
    options.cache_dir = "";
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel *kernel = kiln_test_get(service, CPU_SPEC);
    kiln_test_check_hardsigmoid(kernel);
    kiln_kernel_release(kernel);
    kiln_program *program = kiln_test_build(service, CPU_SPEC);
    ck_assert_int_eq(kiln_test_origin(program), KILN_ORIGIN_MEMORY);
    kiln_program_release(program);
    kiln_cache_info info = KILN_INIT(kiln_cache_info);
    ck_assert_int_eq(kiln_cache_get_info(service, &info, NULL), KILN_ENOENT);
    kiln_close(service);
    ck_assert_int_eq(kiln_test_temp_count("."), 0);
}
END_TEST

START_TEST(test_service__kernel_outlives_its_service)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel *kernel = kiln_test_get(service, CPU_SPEC);
    ck_assert_ptr_eq(kiln_kernel_retain(kernel), kernel);
    kiln_kernel_release(kernel);
    kiln_close(service);
    kiln_test_check_hardsigmoid(kernel);
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_service__builds_for_a_gpu_that_is_not_there)
{
    kiln_options options = kiln_test_options();
    options.wisdom = KILN_OFF;
    kiln_service *service = kiln_test_open(&options);
    kiln_program *program = kiln_test_build(service, GPU_SPEC);
    const void *data;
    size_t length;
    ck_assert_int_eq(kiln_program_section(&data, &length, program, "cubin"), KILN_OK);
    ck_assert_uint_gt(length, 1000);
    ck_assert_mem_eq(data, "\177ELF", 4);
    ck_assert_int_eq(kiln_program_section(&data, &length, program, "ptx"), KILN_OK);
    ck_assert_ptr_nonnull(strstr(data, ".target sm_90"));
    ck_assert_ptr_nonnull(strstr(data, "kiln_vector"));
    ck_assert_int_eq(kiln_program_section(&data, &length, program, "object"), KILN_ENOENT);
    ck_assert_str_eq(kiln_test_program_info(program).spec,
                     "op=hardsigmoid dtype=f32 block=128 elems=4 vector=4 cache=plain target=sm_90");
    kiln_program_release(program);
    kiln_close(service);
}
END_TEST

START_TEST(test_service__a_hit_opens_no_nvrtc)
{
    kiln_options options = kiln_test_options();
    pid_t child = fork();
    if (child == 0) { /* in a process of its own, so that nothing of NVRTC is left in this one */
        kiln_service *writer = kiln_test_open(&options);
        kiln_program_release(kiln_test_build(writer, GPU_SPEC));
        int mapped = nvrtc_is_mapped();
        kiln_close(writer);
        _exit(mapped ? 0 : 3);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    kiln_service *service = kiln_test_open(&options);
    kiln_program *program = kiln_test_build(service, GPU_SPEC);
    ck_assert_int_eq(kiln_test_origin(program), KILN_ORIGIN_DISK);
    ck_assert_msg(!nvrtc_is_mapped(), "a hit opened NVRTC");
    kiln_program_release(program);
    kiln_close(service);
}
END_TEST

START_TEST(test_service__without_a_compiler_any_toolchain_will_do)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_program_release(kiln_test_build(service, GPU_SPEC));
    kiln_close(service);
    options.nvrtc = "/nonexistent/libnvrtc.so.13";
    service = kiln_test_open(&options);
    kiln_program *program = kiln_test_build(service, GPU_SPEC);
    ck_assert_int_eq(kiln_test_origin(program), KILN_ORIGIN_DISK);
    kiln_program_release(program);

    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = kiln_test_spec(service, "op=relu6 dtype=f32 target=sm_90");
    ck_assert_int_eq(kiln_test_build_spec(&program, service, spec, &report), KILN_ENOCOMPILER);
    ck_assert_ptr_null(program);
    ck_assert_ptr_nonnull(strstr(report.message, "/nonexistent/libnvrtc.so.13"));
    kiln_report_clear(&report);
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

START_TEST(test_service__entries_are_byte_identical_wherever_they_are_made)
{
    kiln_program *programs[2];
    kiln_options options = kiln_test_options();
    static const char *const sections[] = { "cubin", "ptx", "names", "key" };
    for (int i = 0; i < 2; i++) {
        options.cache_dir = kiln_test_temp_path(i == 0 ? "one" : "two");
        kiln_service *service = kiln_test_open(&options);
        programs[i] = kiln_test_build(service, GPU_SPEC);
        ck_assert_int_eq(kiln_test_origin(programs[i]), KILN_ORIGIN_COMPILED);
        kiln_close(service);
    }
    for (size_t s = 0; s < sizeof(sections) / sizeof(sections[0]); s++) {
        const void *a, *b;
        size_t a_length, b_length;
        ck_assert_int_eq(kiln_program_section(&a, &a_length, programs[0], sections[s]), KILN_OK);
        ck_assert_int_eq(kiln_program_section(&b, &b_length, programs[1], sections[s]), KILN_OK);
        ck_assert_uint_eq(a_length, b_length);
        ck_assert_mem_eq(a, b, a_length);
    }
    kiln_program_release(programs[0]);
    kiln_program_release(programs[1]);
}
END_TEST

START_TEST(test_service__unknown_target_names_those_there_are)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_program *program;
    kiln_spec *spec = kiln_test_spec(service, "op=relu6 dtype=f32 target=sm_91");
    ck_assert_int_eq(kiln_test_build_spec(&program, service, spec, &report), KILN_ETARGET);
    ck_assert_ptr_nonnull(strstr(report.message, "sm_91"));
    ck_assert_ptr_nonnull(strstr(report.message, "sm_90"));
    kiln_report_clear(&report);
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

START_TEST(test_service__gpu_kernel_loads_through_the_driver)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel *kernel = kiln_test_get(service, "op=add(x,y) dtype=f16");
    ck_assert_str_eq(info_of(kernel).device, "cuda:0");
    const kiln_signature *signature = info_of(kernel).signature;
    ck_assert(signature->param_count == 4 && signature->params[2]->role == KILN_ROLE_IN);
    ck_assert_uint_eq(signature->params[2]->bytes, 2);
    ck_assert_uint_eq(kiln_test_stats(service).ptx_loads, 0);

    kiln_device *device;
    void *memory;
    ck_assert_int_eq(kiln_device_open(&device, service, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_alloc(&memory, device, 4096, NULL), KILN_OK);
    const void *in[] = { memory, (char *)memory + 1024 };
    ck_assert_int_eq(kiln_test_launch(kernel, 512, (char *)memory + 2048, in, NULL, NULL), KILN_OK);
    ck_assert_int_eq(kiln_sync(device, NULL), KILN_OK);
    kiln_free(device, memory);
    kiln_kernel_release(kernel);
    kiln_close(service);
}
END_TEST

START_TEST(test_service__wrong_target_runs_from_its_ptx)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel *kernel = kiln_test_get(service, "op=relu6 dtype=f32 target=sm_80");
    ck_assert_uint_eq(kiln_test_stats(service).ptx_loads, 1);
    kiln_kernel_release(kernel);
    kiln_close(service);
}
END_TEST

START_TEST(test_service__get_for_another_gpu_keeps_what_is_stored)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_program_release(kiln_test_build(service, "op=relu6 dtype=f32 target=sm_100"));
    kiln_close(service);
    options.nvrtc = "/nonexistent/libnvrtc.so.13";
    service = kiln_test_open(&options);
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_int_ne(kiln_test_ask(service, "op=relu6 dtype=f32 target=sm_100", &report), KILN_OK);
    ck_assert_msg(strstr(report.message, "sm_90") != NULL, "%s", report.message);
    ck_assert_str_eq(report.stage, "load");
    kiln_program *program = kiln_test_build(service, "op=relu6 dtype=f32 target=sm_100");
    kiln_program_release(program);
    kiln_report_clear(&report);
    kiln_close(service);
}
END_TEST

START_TEST(test_service__passing_driver_trouble_costs_no_entry)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_program_release(kiln_test_build(service, GPU_SPEC));
    kiln_close(service);
    options.nvrtc = "/nonexistent/libnvrtc.so.13";
    service = kiln_test_open(&options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_fake_open()->fail_call("cuKernelGetAttribute", 1, 0, 1);
    ck_assert_int_ne(kiln_test_ask(service, GPU_SPEC, &report), KILN_OK);
    ck_assert_ptr_nonnull(strstr(report.message, "cuKernelGetAttribute"));
    ck_assert_int_eq(kiln_test_ask(service, GPU_SPEC, NULL), KILN_OK);
    kiln_report_clear(&report);
    kiln_close(service);
}
END_TEST

/* Two ways to have no working driver where one is wanted; neither may end in a cpu kernel. */
START_TEST(test_service__driver_that_does_not_work_is_not_passed_over)
{
    kiln_options options = kiln_test_gpu_options();
    if (_i == 0)
        kiln_fake_open()->fail_call("cuInit", 999, 0, 2);
    else
        options.libcuda = "/nonexistent/libcuda.so.1";
    kiln_service *service = kiln_test_open(&options);
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_int_eq(kiln_test_ask(service, "op=relu6 dtype=f32", &report), KILN_ENODRIVER);
    ck_assert_ptr_nonnull(strstr(report.message, _i == 0 ? "cuInit" : "/nonexistent/libcuda.so.1"));
    kiln_report_clear(&report);
    kiln_close(service);
}
END_TEST

START_TEST(test_service__success_clears_the_report)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec;
    ck_assert_int_eq(kiln_spec_parse(&spec, service, "op=nothing", &report), KILN_EOP);
    ck_assert_str_ne(report.message, "");
    kiln_kernel_release(kiln_test_get(service, GPU_SPEC)); /* now it is stored */
    kiln_close(service);
    service = kiln_test_open(&options);
    kiln_fake_open()->fail_call("cuLibraryLoadData", 1, 0, 1); /* the first load fails and is made good */
    ck_assert_int_eq(kiln_test_ask(service, GPU_SPEC, &report), KILN_OK);
    ck_assert(report.status == KILN_OK && report.native == 0 && report.stage == NULL && report.log == NULL);
    ck_assert_str_eq(report.message, "");
    kiln_report_clear(&report);
    kiln_close(service);
}
END_TEST

START_TEST(test_service__gpu_spec_on_the_cpu_is_refused)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_int_eq(kiln_test_ask(service, GPU_SPEC, &report), KILN_ENODEVICE);
    ck_assert_ptr_nonnull(strstr(report.message, "sm_90"));
    kiln_report_clear(&report);
    kiln_close(service);
}
END_TEST

enum { THREADS = 8, ROUNDS = 6 };

static void *get_many(void *data)
{
    static const char *const specs[] = { CPU_SPEC, "op=relu6 dtype=f32 target=cpu" };
    kiln_service *service = data;
    for (int i = 0; i < ROUNDS; i++) {
        kiln_kernel *kernel = kiln_test_get(service, specs[i % 2]);
        if (i % 2 == 0) {
            float x[64] = { 1.0f }, y[64];
            const void *in[] = { x };
            ck_assert_int_eq(kiln_test_launch(kernel, 64, y, in, NULL, NULL), KILN_OK);
            ck_assert(y[1] == 0.5f);
        }
        kiln_kernel_release(kernel);
    }
    return NULL;
}

START_TEST(test_service__many_threads_share_it)
{
    pthread_t threads[THREADS];
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, get_many, service), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_uint_eq(stats.gets, THREADS * ROUNDS);
    ck_assert_uint_ge(stats.hits_loaded, (uint64_t)THREADS * (ROUNDS - 2));
    ck_assert_uint_eq(stats.compile_failures, 0);
    kiln_close(service);
}
END_TEST

Suite *kiln_test_service_service_suite(void)
{
    Suite *suite = suite_create("service");
    TCase *tcase = tcase_create("end to end");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_service__cpu_kernel_computes_and_is_found_again);
    tcase_add_test(tcase, test_service__another_service_finds_it_on_disk);
    tcase_add_test(tcase, test_service__works_with_nothing_on_disk);
    tcase_add_test(tcase, test_service__kernel_outlives_its_service);
    tcase_add_test(tcase, test_service__builds_for_a_gpu_that_is_not_there);
    tcase_add_test(tcase, test_service__a_hit_opens_no_nvrtc);
    tcase_add_test(tcase, test_service__without_a_compiler_any_toolchain_will_do);
    tcase_add_test(tcase, test_service__entries_are_byte_identical_wherever_they_are_made);
    tcase_add_test(tcase, test_service__unknown_target_names_those_there_are);
    tcase_add_test(tcase, test_service__gpu_kernel_loads_through_the_driver);
    tcase_add_test(tcase, test_service__wrong_target_runs_from_its_ptx);
    tcase_add_test(tcase, test_service__get_for_another_gpu_keeps_what_is_stored);
    tcase_add_test(tcase, test_service__passing_driver_trouble_costs_no_entry);
    tcase_add_loop_test(tcase, test_service__driver_that_does_not_work_is_not_passed_over, 0, 2);
    tcase_add_test(tcase, test_service__success_clears_the_report);
    tcase_add_test(tcase, test_service__gpu_spec_on_the_cpu_is_refused);
    tcase_add_test(tcase, test_service__many_threads_share_it);
    suite_add_tcase(suite, tcase);
    return suite;
}
