/* Sources whose code is linked, with NVIDIA's linker, and with a stand-in that crashes, is missing or is another. */
#include "jit/builder.h"
#include "support/foreign.h"
#include "support/sourcing.h"
#include "support/suites.h"
#include <kiln/cache.h>
#include <unistd.h>

static const char launching[] =
    "__global__ void child(int *out, int base) { out[base + threadIdx.x] = base + threadIdx.x; }\n"
    "extern \"C\" __global__ void parent(int *out) { child<<<1, 32>>>(out, threadIdx.x * 32); }\n";
static const char plain[] = "__device__ __noinline__ int twice(int x) { return 2 * x; }\n"
                            "extern \"C\" __global__ void k(int *out) { *out = twice(*out); }\n";
static const char undefined[] = "extern __device__ int twice(int);\n"
                                "extern \"C\" __global__ void k(int *out) { *out = twice(*out); }\n";
static const char *const linked_by[] = { "-rdc=true", "-dlto", "--relocatable-device-code=true", "-dc",
                                         "--dlink-time-opt" };
static const char *wanted_function;

static void use_option(const char *const *option)
{
    source.options = option;
    source.option_count = option != NULL;
}

static bool have_linker(void)
{
    kiln__toolchain toolchain;
    kiln__list files = { 0 };
    kiln__compiler *real = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    bool found = real->vtable->open(real, &toolchain, NULL) == KILN_OK &&
                 real->vtable->linker(real, &toolchain, &files, NULL) == KILN_OK && files.count == 2;
    kiln__list_fini(&files);
    real->vtable->close(real);
    if (!found)
        printf("   left out: there is no nvJitLink with libcudadevrt.a\n");
    return found;
}

static kiln_program *build_program(void)
{
    kiln_program *program;
    kiln_report_clear(&report);
    expect(kiln_test_build_source(&program, service, &source, &report), KILN_OK, "");
    return program;
}

static size_t section_length(const kiln_program *program, const char *name)
{
    const void *bytes;
    size_t length = 0;
    return kiln_program_section(&bytes, &length, program, name) == KILN_OK ? length : 0;
}

/* ---- NVIDIA's */

START_TEST(test_linking__kernels_that_launch_kernels)
{
    static const char *const targets[] = { "sm_75", "sm_90", "sm_100", "sm_120" };
    use_option(&linked_by[_i]);
    source.text = launching;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        source.target = targets[i];
        kiln_program *program = build_program();
        kiln_program_info info = kiln_test_program_info(program);
        ck_assert_uint_eq(info.function_count, 2);
        ck_assert_uint_gt(section_length(program, "cubin"), 100000);
        ck_assert_uint_eq(section_length(program, "ptx"), 0);
        kiln_program_release(program);
    }
}
END_TEST

START_TEST(test_linking__gives_equal_bytes)
{
    const void *first, *second;
    size_t length, again;
    kiln_options other = kiln_test_gpu_options();
    use_option(&linked_by[_i]);
    source.text = launching;
    kiln_program *one = build_program();
    other.cache_dir = "";
    kiln_service *fresh = kiln_test_open(&other);
    kiln_program *two;
    expect(kiln_test_build_source(&two, fresh, &source, &report), KILN_OK, "");
    ck_assert_int_eq(kiln_program_section(&first, &length, one, "cubin"), KILN_OK);
    ck_assert_int_eq(kiln_program_section(&second, &again, two, "cubin"), KILN_OK);
    ck_assert_uint_eq(length, again);
    ck_assert_mem_eq(first, second, length);
    kiln_program_release(one);
    kiln_program_release(two);
    kiln_close(fresh);
}
END_TEST

/* The runtime is 200 KB of code. */
START_TEST(test_linking__takes_the_runtime_only_for_launches)
{
    use_option(&linked_by[_i]);
    source.text = plain;
    kiln_program *program = build_program();
    ck_assert_uint_eq(kiln_test_program_info(program).function_count, 1);
    ck_assert_uint_lt(section_length(program, "cubin"), 20000);
    kiln_program_release(program);
}
END_TEST

START_TEST(test_linking__says_what_is_missing)
{
    use_option(&linked_by[_i]);
    source.name = "dir/user.cu";
    source.text = undefined;
    expect(build(), KILN_ECOMPILE, "linking failed: Undefined reference to '_Z5twicei'");
    if (_i != 1)
        ck_assert_ptr_nonnull(strstr(report.message, "in 'user.cu'"));
    ck_assert_ptr_nonnull(strstr(report.log, "_Z5twicei"));
}
END_TEST

/* A launch is host code, and in a kernel it is linked. */
START_TEST(test_linking__launches_ask_for_the_option)
{
    static const char mistaken[] = "extern \"C\" __global__ void k(int *out) { if (0) k<<<1, 1>>>(out); x; }\n";
    source.text = launching;
    expect(build(), KILN_ECOMPILE, "; a kernel launches kernels with the option -rdc=true");
    use_option(&linked_by[0]);
    source.text = mistaken;
    expect(build(), KILN_ECOMPILE, "identifier \"x\" is undefined");
    ck_assert_ptr_null(strstr(report.message, "host code"));
}
END_TEST

/* The host never opens the linker, and a hit starts no worker either. */
START_TEST(test_linking__a_hit_opens_no_linker)
{
    use_option(&linked_by[0]);
    source.text = plain;
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
    ck_assert_uint_eq(kiln_test_stats(service).worker_starts, 0);
    ck_assert(!has_mapped(0, "nvJitLink"));
}
END_TEST

static int count_linkers(void *data, const kiln_entry_info *entry)
{
    *(int *)data += strncmp(entry->toolchain, "nvjitlink-", 10) == 0;
    return 0;
}

START_TEST(test_linking__the_linker_is_remembered_by_the_first_compile)
{
    int count = 0;
    use_option(&linked_by[0]);
    source.text = plain;
    expect(build(), KILN_OK, "");
    ck_assert_int_eq(kiln_cache_visit(service, count_linkers, &count, &report), KILN_OK);
    ck_assert_int_eq(count, 1);
}
END_TEST

static int find_toolchain(void *data, const kiln_entry_info *entry)
{
    char *out = data;
    if (strcmp(entry->kind, "kernel") == 0)
        snprintf(out, KILN__ENTRY_TOOLCHAIN_SIZE, "%s", entry->toolchain);
    return 0;
}

START_TEST(test_linking__only_linked_code_names_the_linker)
{
    char toolchain[KILN__ENTRY_TOOLCHAIN_SIZE] = "";
    use_option(_i == 1 ? &linked_by[0] : NULL);
    source.text = plain;
    expect(build(), KILN_OK, "");
    kiln_cache_visit(service, find_toolchain, toolchain, &report);
    ck_assert_str_ne(toolchain, "");
    ck_assert_int_eq(strstr(toolchain, "-nvjitlink-") != NULL, _i == 1);
}
END_TEST

START_TEST(test_linking__needs_a_worker)
{
    kiln_close(service);
    open_service(KILN_ISOLATE_NEVER);
    use_option(&linked_by[_i]);
    source.text = plain;
    expect(build(), KILN_EINVAL, "with isolate=never nothing is linked");
}
END_TEST

START_TEST(test_linking__linker_must_fit)
{
    static const struct {
        const char *library, *version, *message;
    } cases[] = { { "libm.so.6", "13.0", "has no nvJitLinkVersion (new in CUDA 12.3)" },
                  { "/nonexistent/libnvJitLink.so.13", "13.0", "cannot open nvJitLink: " },
                  { NULL, "13.1 (V13.1.2)", "13.1 (V13.1.2) needs 13.1 or a later 13" },
                  { NULL, "12.8", "needs 12.8 or a later 12" } };
    char version[32], path[512];
    kiln__list files = { 0 };
    snprintf(path, sizeof(path), "%s", getenv("KILN_STAND_IN_NVRTC"));
    snprintf(strrchr(path, '/'), 24, "/libnvJitLink.so.13");
    kiln__list_add(&files, cases[_i].library != NULL ? cases[_i].library : path);
    expect(kiln__cuda_linker_version(&files, cases[_i].version, version, sizeof(version), &report), KILN_ENOCOMPILER,
           cases[_i].message);
    kiln__list_fini(&files);
}
END_TEST

/* ---- Several files */

static const char calling[] = "extern __device__ float twice(float);\n"
                              "extern __device__ int table[4];\n"
                              "static __global__ void own(int *x) { *x = table[0]; }\n"
                              "namespace ns { template <class T> __global__ void fill(T *x) { *x = twice(*x); } }\n"
                              "extern \"C\" __global__ void read(int *x) { *x = table[1]; }\n";
static const char called[] = "__device__ float twice(float x) { return 2 * x; }\n"
                             "__device__ int table[4] = { 1, 2, 3, 4 };\n"
                             "static __global__ void own(int *x) { *x = 7; }\n"
                             "template <int N> __global__ void write(int *x) { table[N] = *x; } // fill reads it\n";

static kiln_part parts[2] = { { "dir/called.cu", called, NULL } };

static void use_files(const char *first, const char *second, size_t option)
{
    use_option(option == 0 ? NULL : &linked_by[option - 1]);
    source.name = "dir/calling.cu";
    source.text = first;
    parts[0].text = second;
    source.parts = parts;
    source.part_count = 1;
}

/* Without an option, with -rdc=true, and with -dlto. */
START_TEST(test_linking__several_files_are_one_program)
{
    static const char *const names[] = { "ns::fill<float>", "write<2>", "read", "&table" };
    static const char *const targets[] = { "sm_75", "sm_90", "sm_121" };
    use_files(_i < 3 ? calling : called, _i < 3 ? called : calling, (size_t)_i % 3);
    source.functions = names;
    source.function_count = 4;
    for (size_t i = 0; i < 3; i++) {
        source.target = targets[i];
        kiln_program *program = build_program();
        ck_assert_uint_eq(kiln_test_program_info(program).function_count, 4);
        kiln_program_release(program);
    }
    ck_assert_uint_eq(compiles(), 0);
    parts[0].text = "__device__ float twice(float x) { return 3 * x; }\n__device__ int table[4];\n"
                    "template <int N> __global__ void write(int *x) { }\n";
    if (_i < 3)
        ck_assert_uint_eq(compiles(), 1);
}
END_TEST

START_TEST(test_linking__files_that_do_not_go_together)
{
    static const char *const nowhere[] = { "read", "nowhere" }, *const own[] = { "own" };
    const struct {
        const char *first, *second;
        const char *const *functions;
        size_t function_count;
        const char *message;
    } cases[] = {
        { calling, called, nowhere, 2, "none of the 2 files has the function 'nowhere'; its text has: " },
        { calling, called, own, 1, "several files have 'own' for themselves" },
        { calling, "__device__ int table[4];\n", NULL, 0, "" },
        { called, called, own, 1, _i == 1 ? "table" : "Multiple definition of 'table' in 'called.cu'" },
        { calling, "int x = y;\n", NULL, 0, "dir/called.cu(1): error: identifier \"y\" is undefined" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        use_files(cases[i].first, cases[i].second, (size_t)_i + 1);
        source.functions = cases[i].functions;
        source.function_count = cases[i].function_count;
        expect(build(), i == 2 ? KILN_OK : KILN_ECOMPILE, cases[i].message);
    }
}
END_TEST

START_TEST(test_linking__parts_are_checked)
{
    static const char *const option = "--relocatable-device-code=false";
    use_files(calling, called, 0);
    use_option(&option);
    expect(build(), KILN_EINVAL, "contradicts several files");
    use_option(NULL);
    parts[0].text = NULL;
    expect(build(), KILN_EINVAL, "kiln_source.parts has a NULL");
    source.parts = NULL;
    expect(build(), KILN_EINVAL, "kiln_source.parts has a NULL");
}
END_TEST

/* ---- The stand-in */

static void set_up_stand_in(void)
{
    static const char *const option = "-rdc=true";
    wanted_function = "kiln_vector";
    source = (kiln_source)KILN_INIT(kiln_source);
    source.target = "sm_90";
    source.text = "anything";
    source.functions = &wanted_function;
    source.function_count = 1;
    use_option(&option);
}

static void open_with(const char *nvrtc)
{
    kiln_options options = kiln_test_gpu_options();
    options.nvrtc = nvrtc;
    service = kiln_test_open(&options);
}

static int find_linker(void *data, const kiln_finding *finding)
{
    if (strcmp(finding->what, "linker") != 0)
        return 0;
    ck_assert(!finding->ok);
    ck_assert_ptr_nonnull(strstr(finding->detail, "libnvJitLink.so.99"));
    ck_assert_ptr_nonnull(strstr(finding->remedy, "only sources of several files"));
    *(bool *)data = true;
    return 1;
}

START_TEST(test_linking__without_a_linker_only_linking_fails)
{
    bool told = false;
    ck_assert_int_eq(setenv("KILN_STAND_IN_VERSION", "99", 1), 0);
    open_with(getenv("KILN_STAND_IN_NVRTC"));
    expect(build(), KILN_ENOCOMPILER, "linking needs libnvJitLink.so.99, and there is none beside /");
    ck_assert_ptr_nonnull(strstr(report.message, "nvidia-nvjitlink"));
    kiln_doctor(service, find_linker, &told);
    ck_assert(told);
    use_option(NULL);
    expect(build(), KILN_OK, "");
}
END_TEST

START_TEST(test_linking__a_crash_costs_a_worker)
{
    open_with(getenv("KILN_STAND_IN_NVRTC"));
    source.name = "STAND_IN_CRASH.cu";
    expect(build(), KILN_ECRASHED, "signal 11");
    source.name = "good.cu";
    expect(build(), KILN_OK, "");
}
END_TEST

static void copy_file(const char *from, const char *name, const char *more)
{
    char command[2048];
    snprintf(command, sizeof(command), "cp '%s' '%s' && printf '%s' >> '%s'", from, kiln_test_temp_path(name), more,
             kiln_test_temp_path(name));
    ck_assert_int_eq(system(command), 0);
}

/* The linker and its library are part of the key by their contents: one that is installed again changes nothing. */
START_TEST(test_linking__another_linker_links_again)
{
    char linker[512];
    const char *nvrtc = getenv("KILN_STAND_IN_NVRTC");
    snprintf(linker, sizeof(linker), "%s", nvrtc);
    snprintf(strrchr(linker, '/'), 24, "/libnvJitLink.so.13");
    copy_file(nvrtc, "libnvrtc.so.13", "");
    const struct {
        const char *linker, *runtime;
        bool again;
    } steps[] = { { "", "one", true },  { "", "one", false },  { "", "two", true },
                  { "x", "two", true }, { "x", "two", false }, { "", "one", false } };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        copy_file(linker, "libnvJitLink.so.13", steps[i].linker);
        write_text("libcudadevrt.a", steps[i].runtime);
        open_with(kiln_test_temp_path("libnvrtc.so.13"));
        expect(build(), KILN_OK, "");
        ck_assert_msg((kiln_test_stats(service).compiles == 1) == steps[i].again, "step %zu", i);
        kiln_close(service);
    }
    /* The library is there for those that need it. */
    open_with(kiln_test_temp_path("libnvrtc.so.13"));
    source.name = "STAND_IN_LAUNCH.cu";
    expect(build(), KILN_OK, "");
}
END_TEST

Suite *kiln_test_jit_linking_suite(void)
{
    Suite *suite = suite_create("linking");
    TCase *real = tcase_create("real"), *stand_in = tcase_create("stand_in");
    enum { OPTIONS = sizeof(linked_by) / sizeof(linked_by[0]) };
    kiln_test_temp_use(real);
    tcase_add_checked_fixture(real, set_up, tear_down);
    tcase_set_timeout(real, 60);
    if (have_nvrtc() && have_linker()) {
        tcase_add_loop_test(real, test_linking__kernels_that_launch_kernels, 0, OPTIONS);
        tcase_add_loop_test(real, test_linking__gives_equal_bytes, 0, 2);
        tcase_add_loop_test(real, test_linking__takes_the_runtime_only_for_launches, 0, 2);
        tcase_add_loop_test(real, test_linking__says_what_is_missing, 0, 2);
        tcase_add_test(real, test_linking__launches_ask_for_the_option);
        tcase_add_test(real, test_linking__a_hit_opens_no_linker);
        tcase_add_test(real, test_linking__the_linker_is_remembered_by_the_first_compile);
        tcase_add_loop_test(real, test_linking__several_files_are_one_program, 0, 6);
        tcase_add_loop_test(real, test_linking__files_that_do_not_go_together, 0, 2);
        tcase_add_loop_test(real, test_linking__only_linked_code_names_the_linker, 0, 2);
    }
    tcase_add_test(real, test_linking__parts_are_checked);
    tcase_add_loop_test(real, test_linking__needs_a_worker, 0, OPTIONS);
    tcase_add_loop_test(real, test_linking__linker_must_fit, 0, 4);
    suite_add_tcase(suite, real);
    kiln_test_temp_use(stand_in);
    tcase_add_checked_fixture(stand_in, set_up_stand_in, tear_down);
    tcase_add_test(stand_in, test_linking__without_a_linker_only_linking_fails);
    tcase_add_test(stand_in, test_linking__a_crash_costs_a_worker);
    tcase_add_test(stand_in, test_linking__another_linker_links_again);
    suite_add_tcase(suite, stand_in);
    return suite;
}
