/* Programs: sources of the host's own, loaded on the stand-in driver, their functions and variables. They need
 * NVRTC. */
#include "gpu/cuda.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/launching.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kiln_report report = KILN_INIT(kiln_report);
static kiln_service *service;
static kiln_source source;

static bool have_nvrtc(void)
{
    kiln__toolchain toolchain;
    kiln__compiler *real = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    bool found = real->vtable->open(real, &toolchain, NULL) == KILN_OK;
    real->vtable->close(real);
    if (!found)
        printf("   left out: there is no NVRTC\n");
    return found;
}

static void set_up(void)
{
    kiln_options options = kiln_test_gpu_options();
    source = (kiln_source)KILN_INIT(kiln_source);
    source.name = "user.cu";
    service = kiln_test_open(&options);
}

static void tear_down(void)
{
    kiln_close(service);
    service = NULL;
    kiln_report_clear(&report);
}

static void expect(kiln_status status, kiln_status expected, const char *text)
{
    ck_assert_msg(status == expected, "%s, expected %s: %s", kiln_status_name(status), kiln_status_name(expected),
                  report.message);
    ck_assert_msg(strstr(report.message, text) != NULL, "'%s' is not in: %s", text, report.message);
}

static const char many[] =
    "__constant__ float table[4];\nnamespace ns { __device__ float factor; }\n"
    "template <class T, int N> __global__ void scale(T *out, T by, char c)\n"
    "{ extern __shared__ char raw[]; T *room = (T *)raw; room[threadIdx.x] = by; __syncthreads();\n"
    "  out[threadIdx.x] = room[N] * table[1] * ns::factor + c; }\n"
    "extern \"C\" __global__ void plain(double *out) { *out = 1; }\n";
static const char *const wanted[] = { "scale<float, 4>", "plain", "&ns::factor", "scale<double, 2>" };

static kiln_program *get_many(void)
{
    kiln_program *program;
    source.text = many;
    source.functions = wanted;
    source.function_count = 4;
    source.target = NULL;
    expect(kiln_test_get_source(&program, service, NULL, &source, &report), KILN_OK, "");
    return program;
}

/* scale<float, 4> of the program `many`. */
static kiln_kernel *get_scale(void)
{
    kiln_kernel *function;
    kiln_program *program = get_many();
    expect(kiln_program_kernel(&function, program, "scale<float, 4>", &report), KILN_OK, "");
    kiln_program_release(program); /* the kernel keeps it */
    return function;
}

/* The arguments of scale<float, 4>. */
static void *const scale_out = NULL;
static const float scale_by = 2.5f;
static const char scale_c = 7;
static const void *const scale_arguments[] = { &scale_out, &scale_by, &scale_c };

START_TEST(test_program__functions_are_found_by_name)
{
    kiln_kernel *function, *other;
    if (!have_nvrtc())
        return;
    kiln_fake_open();
    kiln_program *program = get_many();
    expect(kiln_program_kernel(&function, program, "scale<float, 4>", &report), KILN_OK, "");
    expect(kiln_program_kernel(&other, program, "_Z5scaleIdLi2EEvPT_S0_c", &report), KILN_OK, "");
    kiln_kernel_release(other);
    expect(kiln_program_kernel(&other, program, "scal", &report), KILN_ENOENT,
           "no function 'scal'; it has: scale<float, 4>, plain, scale<double, 2>");
    expect(kiln_program_kernel(&other, program, NULL, &report), KILN_ENOENT, "the program has several functions");
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    ck_assert_int_eq(kiln_kernel_get_info(function, &info), KILN_OK);
    ck_assert_str_eq(info.name, "scale<float, 4>");
    ck_assert_str_eq(info.symbol, "_Z5scaleIfLi4EEvPT_S0_c");
    ck_assert_uint_eq(info.signature->param_count, 3);
    ck_assert_uint_eq(info.signature->params[2]->bytes, 1);
    ck_assert_int_gt(info.registers, 0);
    ck_assert_int_eq(info.max_threads, 1024);
    kiln_kernel_release(function);
    kiln_program_release(program);
}
END_TEST

START_TEST(test_program__functions_are_launched)
{
    kiln_fake_launch launch;
    if (!have_nvrtc())
        return;
    const kiln_fake *fake = kiln_fake_open();
    kiln_kernel *function = get_scale();
    const size_t sizes[] = { sizeof(scale_out), sizeof(scale_by), sizeof(scale_c) };
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.grid[0] = 3;
    grid.block[0] = 64;
    grid.block[1] = 2;
    grid.shared_bytes = 1024;
    expect(kiln_test_launch_grid(function, &grid, scale_arguments, sizes, 3, NULL, &report), KILN_OK, "");
    ck_assert_uint_eq(fake->launches(&launch, 1), 1);
    ck_assert_str_eq(launch.name, "_Z5scaleIfLi4EEvPT_S0_c");
    ck_assert(launch.grid[0] == 3 && launch.grid[1] == 1 && launch.grid[2] == 1);
    ck_assert(launch.block[0] == 64 && launch.block[1] == 2 && launch.block[2] == 1);
    ck_assert_uint_eq(launch.shared, 1024);
    ck_assert_uint_eq(launch.parameter_count, 3);
    ck_assert_mem_eq(&launch.parameters[1], &scale_by, sizeof(scale_by));
    ck_assert_uint_eq(launch.parameters[2], 7);
    ck_assert_uint_eq(fake->calls("cuLaunchKernelEx"), 0);

    grid.cluster[0] = 3;
    grid.cluster[1] = grid.cluster[2] = 1;
    grid.cooperative = 1;
    grid.shared_bytes = 64 << 10;
    expect(kiln_test_launch_grid(function, &grid, scale_arguments, NULL, 3, NULL, &report), KILN_OK, "");
    ck_assert_uint_eq(fake->launches(&launch, 1), 2);
    ck_assert_uint_eq(launch.cluster[0], 3);
    ck_assert_int_eq(launch.cooperative, 1);
    ck_assert_uint_eq(fake->calls("cuLaunchKernelEx"), 1);

    grid = (kiln_grid)KILN_INIT(kiln_grid);
    expect(kiln_test_launch_grid(function, &grid, scale_arguments, NULL, 3, NULL, &report), KILN_OK, "");
    int blocks = 0;
    expect(kiln_kernel_occupancy(&blocks, function, 256, 0, &report), KILN_OK, "");
    ck_assert_int_eq(blocks, 8);
    kiln_kernel_release(function);
}
END_TEST

START_TEST(test_program__launches_that_do_not_fit_are_refused)
{
    kiln_fake_launch launch;
    if (!have_nvrtc())
        return;
    const kiln_fake *fake = kiln_fake_open();
    kiln_kernel *function = get_scale();
    const size_t sizes[] = { sizeof(scale_out), 8, sizeof(scale_c) };
    const void *const without_last[] = { &scale_out, &scale_by, NULL };
    const uint64_t n = 1;
    void *array = NULL;
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.grid[0] = 3;
    grid.block[0] = 64;
    expect(kiln_test_launch_grid(function, &grid, scale_arguments, sizes, 3, NULL, &report), KILN_EINVAL,
           "argument 1 of scale<float, 4> is 4 bytes, got 8");
    expect(kiln_test_launch_grid(function, &grid, scale_arguments, NULL, 2, NULL, &report), KILN_EINVAL,
           "takes 3 arguments, got 2");
    expect(kiln_test_launch_grid(function, &grid, without_last, NULL, 3, NULL, &report), KILN_EINVAL,
           "argument 2 of scale<float, 4> is not given");
    expect(kiln_launch(function, NULL, NULL, 0, NULL, 0, NULL, &report), KILN_EINVAL, "takes a grid and no sizes");
    expect(kiln_launch(function, &grid, &n, 1, NULL, 0, NULL, &report), KILN_EINVAL, "takes a grid and no sizes");
    expect(kiln_launch_n(function, 1, &array, 1, NULL, 0, NULL, &report), KILN_EINVAL, "launch it with a grid");
    grid.cluster[0] = 2;
    expect(kiln_test_launch_grid(function, &grid, scale_arguments, NULL, 3, NULL, &report), KILN_EINVAL,
           "divide the grid");
    ck_assert_uint_eq(fake->launches(&launch, 1), 0);
    kiln_kernel_release(function);
}
END_TEST

START_TEST(test_program__variables_have_addresses)
{
    void *address;
    size_t bytes;
    if (!have_nvrtc())
        return;
    kiln_program *program = get_many();
    expect(kiln_program_global(&address, &bytes, program, "table", &report), KILN_OK, "");
    ck_assert_uint_eq(bytes, 16);
    ck_assert_ptr_nonnull(address);
    expect(kiln_program_global(&address, &bytes, program, "ns::factor", &report), KILN_OK, "");
    ck_assert_uint_eq(bytes, 4);
    expect(kiln_program_global(&address, &bytes, program, "nothing", &report), KILN_ENOENT, "no variable 'nothing'");
    ck_assert_ptr_null(address);
    kiln_program_release(program);
}
END_TEST

START_TEST(test_program__loaded_program_is_shared_and_follows_its_files)
{
    kiln_program *first, *second, *third;
    if (!have_nvrtc())
        return;
    const char *const directories[] = { kiln_test_temp_dir() };
    kiln_test_temp_write("a.h", "#define DEPTH 2\n", 16);
    source.include_dirs = directories;
    source.include_dir_count = 1;
    source.text = "#include \"a.h\"\nextern \"C\" __global__ void k(int *p) { *p = DEPTH; }\n";
    expect(kiln_test_get_source(&first, service, NULL, &source, &report), KILN_OK, "");
    expect(kiln_test_get_source(&second, service, NULL, &source, &report), KILN_OK, "");
    ck_assert_ptr_eq(first, second);
    ck_assert_uint_eq(kiln_test_stats(service).loads, 1);
    kiln_test_temp_write("a.h", "#define DEPTH 8\n", 16);
    expect(kiln_test_get_source(&third, service, NULL, &source, &report), KILN_OK, "");
    ck_assert_ptr_ne(first, third);
    kiln_program_release(first);
    kiln_close(service);
    service = NULL;
    kiln_kernel *function;
    void *out = NULL;
    const void *arguments[] = { &out };
    kiln_grid grid = KILN_INIT(kiln_grid);
    expect(kiln_program_kernel(&function, third, "k", &report), KILN_OK, ""); /* programs outlive their service */
    expect(kiln_test_launch_grid(function, &grid, arguments, NULL, 1, NULL, &report), KILN_OK, "");
    kiln_kernel_release(function);
    kiln_program_release(second);
    kiln_program_release(third);
}
END_TEST

START_TEST(test_program__older_drivers_do_what_they_can)
{
    kiln_kernel *function;
    void *out = NULL;
    const void *arguments[] = { &out, &out };
    size_t sizes[] = { sizeof(out), 2 };
    if (!have_nvrtc())
        return;
    const kiln_fake *fake = kiln_fake_open();
    fake->hide("cuKernelGetParamInfo");
    fake->hide("cuLaunchKernelEx");
    fake->hide("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    kiln_program *program = get_many();
    expect(kiln_program_kernel(&function, program, "plain", &report), KILN_OK, "");
    kiln_kernel_info info = KILN_INIT(kiln_kernel_info);
    ck_assert_int_eq(kiln_kernel_get_info(function, &info), KILN_OK);
    ck_assert_uint_eq(info.signature->param_count, 1); /* the PTX tells */
    ck_assert_uint_eq(info.signature->params[0]->bytes, 8);
    kiln_grid grid = KILN_INIT(kiln_grid);
    expect(kiln_test_launch_grid(function, &grid, arguments, sizes, 1, NULL, &report), KILN_OK, "");
    sizes[0] = 1;
    expect(kiln_test_launch_grid(function, &grid, arguments, sizes, 1, NULL, &report), KILN_EINVAL,
           "argument 0 of plain is 8 bytes, got 1");
    sizes[0] = sizeof(out);
    grid.cooperative = 1;
    expect(kiln_test_launch_grid(function, &grid, arguments, sizes, 1, NULL, &report), KILN_ENODRIVER,
           "cuLaunchKernelEx");
    int blocks = 0;
    expect(kiln_kernel_occupancy(&blocks, function, 256, 0, &report), KILN_OK, "");
    ck_assert_int_eq(blocks, -1);
    kiln_kernel_release(function);
    kiln_program_release(program);
}
END_TEST

START_TEST(test_program__the_cpu_runs_none)
{
    kiln_program *program;
    kiln_device *cpu;
    source.text = many;
    source.target = NULL;
    expect(kiln_device_open(&cpu, service, "cpu", &report), KILN_OK, "");
    expect(kiln_test_get_source(&program, service, cpu, &source, &report), KILN_ETARGET, "runs on GPUs only");
    ck_assert_ptr_null(program);
}
END_TEST

Suite *kiln_test_service_program_suite(void)
{
    Suite *suite = suite_create("program");
    TCase *tcase = tcase_create("program");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_program__functions_are_found_by_name);
    tcase_add_test(tcase, test_program__functions_are_launched);
    tcase_add_test(tcase, test_program__launches_that_do_not_fit_are_refused);
    tcase_add_test(tcase, test_program__variables_have_addresses);
    tcase_add_test(tcase, test_program__loaded_program_is_shared_and_follows_its_files);
    tcase_add_test(tcase, test_program__older_drivers_do_what_they_can);
    tcase_add_test(tcase, test_program__the_cpu_runs_none);
    suite_add_tcase(suite, tcase);
    return suite;
}
