/* Sources of the host's own: what makes them compile again and what does not, what they may read, and launching
 * them. Most tests need NVRTC and compile in workers, as services do. */
#include "support/foreign.h"
#include "support/requesting.h"
#include "support/sanitized.h"
#include "support/sourcing.h"
#include "support/suites.h"
#include "support/temp.h"
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- What makes it compile again */

START_TEST(test_source__edited_header_compiles_once_and_touched_one_not)
{
    if (!have_nvrtc())
        return;
    make_tree("inc");
    use_directories("inc", NULL);
    source.text = two_deep;
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
    ck_assert_uint_eq(compiles_again(), 0);
    write_text("inc/sub/c.h", "#define DEPTH 3\n");
    ck_assert_uint_eq(compiles_again(), 1);
    ck_assert_uint_eq(compiles_again(), 0);
    write_text("inc/sub/c.h", "#define DEPTH 3\n"); /* newer, but the same */
    ck_assert_uint_eq(compiles_again(), 0);
    write_text("inc/sub/c.h", "#define DEPTH 2\n"); /* as it was at first */
    ck_assert_uint_eq(compiles_again(), 0);
    ck_assert_uint_eq(compiles(), 0);
    write_text("inc/other.h", "not read\n");
    ck_assert_uint_eq(compiles(), 0);
    source.text = "\n#include \"a.h\"\nextern \"C\" __global__ void k(int *p) { *p = DEPTH; }\n";
    ck_assert_uint_eq(compiles(), 1);
}
END_TEST

START_TEST(test_source__moved_tree_is_found)
{
    const void *key, *cubin, *log;
    size_t length;
    kiln_program *program;
    if (!have_nvrtc())
        return;
    make_tree("inc");
    write_text("inc/sub/c.h", "#define DEPTH sizeof(__FILE__)\n__device__ int f() { int unused; return 1; }\n");
    use_directories("inc", NULL);
    source.text = two_deep;
    source.name = "/some/where/user.cu";
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_int_eq(rename(kiln_test_temp_path("inc"), kiln_test_temp_path("another-name")), 0);
    use_directories("another-name", NULL);
    source.name = "/some/where/else/user.cu";
    ck_assert_uint_eq(compiles(), 0);
    expect(kiln_test_build_source(&program, service, &source, &report), KILN_OK, "");
    ck_assert_int_eq(kiln_program_section(&key, &length, program, "key"), KILN_OK);
    ck_assert_ptr_null(strstr(key, kiln_test_temp_dir()));
    ck_assert_int_eq(kiln_program_section(&cubin, &length, program, "cubin"), KILN_OK);
    ck_assert_ptr_null(memmem(cubin, length, "another-name", strlen("another-name")));
    /* The warning is told in the words of who asks now. */
    ck_assert_int_eq(kiln_program_section(&log, &length, program, "log"), KILN_OK);
    ck_assert_ptr_nonnull(strstr(log, "another-name/sub/c.h(2): warning"));
    kiln_program_release(program);
}
END_TEST

START_TEST(test_source__earlier_header_is_noticed)
{
    if (!have_nvrtc())
        return;
    make_directory("first");
    make_tree("second");
    use_directories("first", "second");
    source.text = two_deep;
    ck_assert_uint_eq(compiles(), 1);
    write_text("first/a.h", "#define DEPTH 9\n");
    ck_assert_uint_eq(compiles_again(), 1);
    ck_assert_uint_eq(compiles(), 0);
    ck_assert_int_eq(unlink(kiln_test_temp_path("first/a.h")), 0);
    ck_assert_uint_eq(compiles(), 0);
    write_text("first/unrelated.h", "");
    ck_assert_uint_eq(compiles(), 0);
    source.text = "#if __has_include(\"opt.h\")\n#define A 1\n#else\n#define A 2\n#endif\n"
                  "extern \"C\" __global__ void k(int *p) { *p = A; }\n";
    ck_assert_uint_eq(compiles(), 1);
    write_text("second/opt.h", "");
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
    use_directories("second", "first");
    ck_assert_uint_eq(compiles(), 1);
}
END_TEST

START_TEST(test_source__all_that_it_is_compiled_with_counts)
{
    static const char *const fast[] = { "--use_fast_math" }, *const define[] = { "A=2" };
    static const kiln_header one = { "a.h", "#define B 1\n" }, two = { "a.h", "#define B 2\n" };
    if (!have_nvrtc())
        return;
    source.text = "#include \"a.h\"\n#ifndef A\n#define A 1\n#endif\n"
                  "extern \"C\" __global__ void k(float *p) { *p = sinf(*p) * A * B; }\n";
    source.headers = &one;
    source.header_count = 1;
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
    source.options = fast;
    source.option_count = 1;
    ck_assert_uint_eq(compiles(), 1);
    source.defines = define;
    source.define_count = 1;
    ck_assert_uint_eq(compiles(), 1);
    source.headers = &two;
    ck_assert_uint_eq(compiles(), 1);
    source.target = "sm_80";
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
}
END_TEST

/* What NVRTC does not need is no part of the key, and each spelling of an option is one. */
START_TEST(test_source__options_for_nvcc_are_left_out_with_a_note)
{
    static const char *const spellings[][3] = {
        { "--std=c++20", "--maxrregcount=100" },
        { "-std c++20", "-maxrregcount", "100" },
        { "-std=c++20", "--maxrregcount 100" },
    };
    static const char *const nvcc[] = { "-O3", "--expt-relaxed-constexpr", "-Xcompiler", "-fPIC", "-arch=sm_90" };
    if (!have_nvrtc())
        return;
    source.text = "extern \"C\" __global__ void k(int *p) { int unused; *p = sizeof(char8_t); }\n";
    source.options = spellings[0];
    source.option_count = 2;
    ck_assert_uint_eq(compiles(), 1);
    for (size_t i = 1; i < 3; i++) {
        source.options = spellings[i];
        source.option_count = spellings[i][2] != NULL ? 3 : 2;
        ck_assert_uint_eq(compiles(), 0);
    }
    source.text = "extern \"C\" __global__ void k(int *p) { int unused; *p = 1; }\n";
    source.option_count = 0;
    ck_assert_uint_eq(compiles(), 1);
    source.options = nvcc;
    source.option_count = 5;
    source.target = NULL;
    reopen();
    expect(build(), KILN_OK, "");
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 0);
    ck_assert_str_eq(report.log, "option -O3 is left out: NVRTC always optimizes, except with -G\n"
                                 "option --expt-relaxed-constexpr is left out: functions without annotation, constexpr "
                                 "ones too, are device functions in any case\n"
                                 "option -Xcompiler is left out: there is no host compiler\n");
    source.text = "extern \"C\" __global__ void k(int *p) { int unused; *p = 2; }\n";
    expect(build(), KILN_OK, "");
    ck_assert_ptr_nonnull(strstr(report.log, "option -O3"));
    ck_assert_ptr_nonnull(strstr(report.log, "warning"));
}
END_TEST

/* Code for a debugger depends on no directory of this machine. */
START_TEST(test_source__debug_code_is_made)
{
    static const char *const debug[] = { "-G" };
    if (!have_nvrtc())
        return;
    source.text = "extern \"C\" __global__ void k(int *p) { for (int i = 0; i < p[1]; i++) *p += i; }\n";
    ck_assert_uint_eq(compiles(), 1);
    source.options = debug;
    source.option_count = 1;
    ck_assert_uint_eq(compiles(), 1);
    reopen();
    expect(build(), KILN_OK, "");
    ck_assert_ptr_nonnull(strstr(report.log, "option -G: the kernels are not optimized"));
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 0);
}
END_TEST

START_TEST(test_source__name_expressions_of_any_form)
{
    static const char *const names[] = { "k<P{1,2}>", "k<P{1,2}>",  "k<P{ 3, 4 }>", "c<'}'>",
                                         "c<'\\''>",  " c < 'a' >", "i<(2 > 1)>" };
    static const char *const options[] = { "-std=c++20" };
    kiln_program *program;
    kiln_program_info info = KILN_INIT(kiln_program_info);
    if (!have_nvrtc())
        return;
    source.text = "struct P { int a, b; };\n"
                  "template <P p> __global__ void k(int *o) { *o = p.a + p.b; }\n"
                  "template <char C> __global__ void c(int *o) { *o = C; }\n"
                  "template <int I> __global__ void i(int *o) { *o = I; }\n";
    source.options = options;
    source.option_count = 1;
    source.functions = names;
    source.function_count = 7;
    expect(kiln_test_build_source(&program, service, &source, &report), KILN_OK, "");
    ck_assert_int_eq(kiln_program_get_info(program, &info), KILN_OK);
    ck_assert_uint_eq(info.function_count, 6);
    for (size_t i = 0; i < info.function_count; i++)
        ck_assert_str_eq(info.functions[i]->name, names[i + 1]);
    kiln_program_release(program);
}
END_TEST

/* ---- What it may read */

static void expect_refused(const char *include)
{
    char text[512];
    snprintf(text, sizeof(text), "#include \"%s\"\nextern \"C\" __global__ void k() {}\n", include);
    source.text = text;
    expect(build(), KILN_ECOMPILE, "cannot open source file");
    ck_assert_msg(report.log != NULL && strstr(report.log, "SECRET") == NULL && strstr(report.log, "root:") == NULL,
                  "%s: %s", include, report.log);
}

START_TEST(test_source__reads_nothing_outside)
{
    if (!have_nvrtc())
        return;
    make_tree("inc");
    write_text("secret.h", "SECRET stuff\n");
    ck_assert_int_eq(symlink("../secret.h", kiln_test_temp_path("inc/link.h")), 0);
    ck_assert_int_eq(symlink(kiln_test_temp_dir(), kiln_test_temp_path("inc/out")), 0);
    ck_assert_int_eq(symlink("sub/c.h", kiln_test_temp_path("inc/inside.h")), 0);
    ck_assert_int_eq(mkfifo(kiln_test_temp_path("inc/pipe.h"), 0600), 0);
    use_directories("inc", NULL);
    expect_refused("/etc/passwd");
    expect_refused("/etc/../etc/passwd");
    expect_refused("../secret.h");
    expect_refused("sub/../../secret.h");
    expect_refused("link.h");
    expect_refused("out/secret.h");
    expect_refused("pipe.h");
    expect_refused("/proc/self/environ");
    expect_refused("/kiln/0/../secret.h");
    expect_refused("/kiln/9/a.h");
    expect_refused(kiln_test_temp_path("inc/a.h"));
    source.text = "#include \"inside.h\"\nextern \"C\" __global__ void k(int *p) { *p = DEPTH; }\n";
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
    write_text("inc/sub/c.h", "#define DEPTH 5\n");
    ck_assert_uint_eq(compiles(), 1);
}
END_TEST

static void expect_written(const char *number)
{
    kiln_program *program;
    const void *ptx;
    size_t length;
    expect(kiln_test_build_source(&program, service, &source, &report), KILN_OK, "");
    ck_assert_int_eq(kiln_program_section(&ptx, &length, program, "ptx"), KILN_OK);
    ck_assert_msg(strstr(ptx, number) != NULL, "no %s in %s", number, (const char *)ptx);
    kiln_program_release(program);
}

/* Nothing polices the text: what its host can read it can. */
START_TEST(test_source__without_a_worker_reads_what_its_host_can)
{
    static const char *const forms[] = { "#include \"%s\"\n", "#define NAME \"%s\"\n#include NAME\n",
                                         "#if __has_include(\"%s\")\n#define SECRET 4743\n#endif\n" };
    static const char *const line_info[] = { "-lineinfo" };
    char text[512];
    if (!have_nvrtc())
        return;
    write_text("secret.h", "#define SECRET 4743\n");
    kiln_close(service);
    open_service(KILN_ISOLATE_NEVER);
    source.text = text;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        int length = snprintf(text, sizeof(text), forms[i], kiln_test_temp_path("secret.h"));
        snprintf(text + length, sizeof(text) - (size_t)length,
                 "extern \"C\" __global__ void k(int *p) { *p = SECRET; }\n");
        expect_written("4743");
    }
    ck_assert_uint_eq(kiln_test_stats(service).worker_starts, 0);
    source.options = line_info;
    source.option_count = 1;
    expect(build(), KILN_EINVAL, "working directory");
    source.option_count = 0;
    use_directories(".", NULL);
    expect(build(), KILN_EINVAL, "isolate=never a text has no directories");
    source.include_dir_count = 0;
    reopen(); /* a worker finds no such file, and no store has what came of it */
    expect(build(), KILN_ECOMPILE, "SECRET");
}
END_TEST

/* NVRTC in this process looks for headers in memory among the files of the working directory first: what comes of
 * that is for this service alone, and a service that compiles so is given nothing of another's. */
START_TEST(test_source__without_a_worker_stays_in_memory)
{
    static const kiln_header in_memory = { "a.h", "#define A 4742\n" };
    kiln_options options = kiln_test_gpu_options();
    char pack[256];
    if (!have_nvrtc())
        return;
    write_text("a.h", "#define A 4741\n");
    ck_assert_int_eq(chdir(kiln_test_temp_dir()), 0);
    source.text = "#include \"a.h\"\nextern \"C\" __global__ void k(int *p) { *p = A; }\n";
    source.headers = &in_memory;
    source.header_count = 1;
    source.cuda_headers = KILN_OFF;
    kiln_close(service);
    open_service(KILN_ISOLATE_NEVER);
    ck_assert_uint_eq(compiles_again(), 1);
    ck_assert_uint_eq(compiles_again(), 0); /* from memory */
    reopen();
    expect_written("4742");
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 1);
    /* Neither from the directory nor from a pack. */
    snprintf(pack, sizeof(pack), "%s", kiln_test_temp_path("worker.kilnpack"));
    expect(kiln_cache_export(service, pack, NULL, NULL, NULL, &report), KILN_OK, "");
    kiln_close(service);
    open_service(KILN_ISOLATE_NEVER);
    ck_assert_uint_eq(compiles_again(), 1);
    kiln_close(service);
    options.isolate = KILN_ISOLATE_NEVER;
    options.packs = pack;
    options.cache_dir = "";
    service = kiln_test_open(&options);
    ck_assert_uint_eq(compiles_again(), 1);
    kiln_close(service);
    options.strict = KILN_ON;
    service = kiln_test_open(&options);
    expect(build(), KILN_ESTRICT, "let a worker compile it");
}
END_TEST

/* ---- Messages */

START_TEST(test_source__messages_name_the_users_file_and_line)
{
    static const char *const unknown[] = { "k", "scale<flot, 4>" }, *const device[] = { "helper" },
                             *const variable[] = { "&x" };
    if (!have_nvrtc())
        return;
    source.name = "dir/user.cu";
    source.text = "\n\n\n\n\n\nextern \"C\" __global__ void k(int *p) { *p = ; }\n";
    expect(build(), KILN_ECOMPILE, "dir/user.cu(7): error: expected an expression");
    ck_assert_ptr_nonnull(strstr(report.log, "dir/user.cu(7): error"));
    source.text = "template <class T, int N> __global__ void scale(T *p) { *p *= N; }\n"
                  "__device__ int helper() { return 1; }\nextern \"C\" __global__ void k() {}\n";
    source.functions = unknown;
    source.function_count = 2;
    expect(build(), KILN_ECOMPILE, "");
    ck_assert_str_eq(report.message, "the source has no function 'scale<flot, 4>': identifier \"flot\" is undefined; "
                                     "its text has: scale<class T, int N>, k");
    source.functions = device;
    source.function_count = 1;
    expect(build(), KILN_ECOMPILE, "the source has no function 'helper'");
    ck_assert_ptr_nonnull(strstr(report.message, "; its text has: scale<class T, int N>, k"));
    source.functions = variable;
    expect(build(), KILN_ECOMPILE, "");
    ck_assert_str_eq(report.message, "the source has no variable '&x': identifier \"x\" is undefined");
    source.functions = NULL;
    source.function_count = 0;
    source.text = "__device__ int x;\n";
    expect(build(), KILN_ECOMPILE, "no function for the host to launch");
    ck_assert_ptr_nonnull(strstr(report.message, "; its text has no __global__ function"));
    source.text = "namespace a { template <class T> __global__ void k(T *p) {} }\n";
    expect(build(), KILN_ECOMPILE, "");
    ck_assert_str_eq(report.message, "the source has no function for the host to launch: make one extern \"C\" "
                                     "__global__, or ask for those that it is to have; its text has: a::k<class T>");
}
END_TEST

/* NVRTC tells to use a flag that only nvcc has. */
START_TEST(test_source__lambdas_in_device_code_need_no_annotation)
{
    static const char *const annotations[] = { " __device__ ", " __host__ __device__ " };
    static const char *const option[] = { "--extended-lambda" };
    static const char form[] =
        "%s\ntemplate <class F> __device__ void each(float *x, F f) { x[threadIdx.x] = f(x[threadIdx.x]); }\n"
        "extern \"C\" __global__ void k(float *x, float by)\n{\n"
        "    auto twice = [=]%s(float v) { return v * by; };\n    each(x, twice);\n%s}\n";
    static const char outside[] = "auto half = [](float v) { return v / 2; };", inside[] = "    each(x, half);\n";
    char text[600];
    if (!have_nvrtc())
        return;
    source.text = text;
    source.name = "user.cu";
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), form, "", annotations[i], "");
        expect(build(), KILN_ECOMPILE, "user.cu(5): error: ");
        ck_assert_ptr_nonnull(strstr(report.message, "NVRTC does not have: leave the annotation out"));
    }
    source.options = option;
    source.option_count = 1;
    expect(build(), KILN_ECOMPILE, "NVRTC does not have: leave the annotation out");
    source.option_count = 0;
    snprintf(text, sizeof(text), form, outside, "", inside);
    expect(build(), KILN_OK, "");
    snprintf(text, sizeof(text), form, "", "", "");
    expect(build(), KILN_OK, "");
}
END_TEST

START_TEST(test_source__functions_without_annotation_are_device_functions)
{
    static const char *const options[] = { "-default-device=false", "--default-device" }, *const bad[] = {
        "-default-device=2"
    };
    if (!have_nvrtc())
        return;
    source.text =
        "float half(float x) { return x / 2; }\nextern \"C\" __global__ void k(float *p) { *p = half(*p); }\n";
    ck_assert_uint_eq(compiles(), 1);
    source.options = options;
    source.option_count = 1;
    expect(build(), KILN_ECOMPILE, "user.cu(1): error: A function without execution space annotations");
    source.option_count = 2; /* the last counts */
    ck_assert_uint_eq(compiles(), 1);
    source.options = bad;
    source.option_count = 1;
    expect(build(), KILN_EINVAL, "expected nothing, =true or =false behind -default-device");
}
END_TEST

START_TEST(test_source__host_code_is_told)
{
    static const char hint[] = "; the text has host code: put it under #ifndef __CUDACC_RTC__";
    if (!have_nvrtc())
        return;
    source.text = "__global__ void k(float *p) { *p = 1; }\n"
                  "int main() { float *p; cudaMalloc(&p, 4); k<<<1, 1>>>(p); return 0; }\n";
    expect(build(), KILN_ECOMPILE, "user.cu(2): error: identifier \"cudaMalloc\" is undefined");
    expect(build(), KILN_ECOMPILE, hint);
    source.text = "__host__ int f() { return 1; }\nextern \"C\" __global__ void k() {}\n";
    expect(build(), KILN_ECOMPILE, hint);
    source.text = "extern \"C\" __global__ void k() { x = 1; }\n";
    expect(build(), KILN_ECOMPILE, "");
    ck_assert_ptr_null(strstr(report.message, hint));
}
END_TEST

/* ---- The names that nvcc brings */

#define KERNEL "extern \"C\" __global__ void k(float *p, unsigned n) { "

/* With the names that a text lacks, and with those that it has from elsewhere; the last lines need a second compile. */
static const char *const lacking[] = {
    KERNEL "uint32_t i = n; p[i] = std::min(p[i], INFINITY) + NAN; std::size_t z = i; p[z] = (uint64_t)z; }\n",
    "typedef unsigned long uint64_t;\nstatic_assert(sizeof(uint64_t) == sizeof(uint32_t) * 2, \"\");\n"
    "__device__ void f(unsigned long *);\n" KERNEL "uint64_t x = n; f(&x); p[0] = INFINITY; }\n"
    "__device__ void f(unsigned long *) {}\n",
    "#define NAN 3\nstatic_assert(NAN == 3, \"\");\n" KERNEL "p[0] = INFINITY; }\n",
    "template <class T> __device__ T min(T a, T b, T c) { return a; }\n" KERNEL
    "p[0] = min(1, 2, 3) + std::max(1, 2); }\n",
    "#include <own.h>\nstatic_assert(NAN == 7, \"\");\n" KERNEL
    "uint64_t x = n; unsigned long *y = &x; uint8_t z = 1; p[0] = *y + z; }\n",
    "#include \"own.h\"\n" KERNEL "uint64_t x = n; uint8_t y = INT_MAX + x; p[0] = std::abs(p[1]) + y; }\n",
    "#define SELF(t, name) typedef t name\nSELF(unsigned long, uint64_t);\n" KERNEL
    "uint64_t x = n; unsigned long *y = &x; p[0] = *y; }\n",
};

START_TEST(test_source__names_that_nvcc_brings_are_there)
{
    if (!have_nvrtc())
        return;
    make_directory("inc");
    write_text("inc/own.h", "typedef unsigned long uint64_t;\n#undef NAN\n#define NAN 7\n");
    use_directories("inc", NULL);
    source.text = lacking[_i];
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_msg(report.log == NULL, "%s", report.log);
    ck_assert_uint_eq(compiles(), 0);
}
END_TEST

START_TEST(test_source__names_that_nvcc_brings_shift_no_line)
{
    if (!have_nvrtc())
        return;
    source.text = "\n" KERNEL "p[0] = INFINITY + INT_MAX; uint32_t x = missing; }\n";
    expect(build(), KILN_ECOMPILE, "user.cu(2): error: identifier \"missing\" is undefined");
    ck_assert_ptr_nonnull(strstr(report.log, "1 error detected"));
}
END_TEST

START_TEST(test_source__byte_order_marks_are_skipped)
{
    static const kiln_header in_memory = { "memory.h", "\xEF\xBB\xBF#define A 1\n" };
    if (!have_nvrtc())
        return;
    make_directory("inc");
    write_text("inc/file.h", "\xEF\xBB\xBF#define B 2\n");
    use_directories("inc", NULL);
    source.headers = &in_memory;
    source.header_count = 1;
    source.text = "\xEF\xBB\xBF#include \"memory.h\"\n#include \"file.h\"\n" KERNEL "p[0] = A + B; }\n";
    expect(build(), KILN_OK, "");
    source.length = strlen(source.text);
    expect(build(), KILN_OK, "");
    source.text = "\xEF\xBB";
    source.length = 0;
    expect(build(), KILN_ECOMPILE, "user.cu(1): error: unrecognized token");
}
END_TEST

START_TEST(test_source__bad_fields_are_refused)
{
    static const char *const option[] = { "-gen-opt-lto" }, *const define[] = { "1A" },
                             *wrong[] = { "", "  ", "k;", "k<(1])", "k<'a>", "k\\", "k#", "k<1>}", "k(", NULL };
    size_t at = 0;
    static const kiln_header absolute = { "/a.h", "" };
    source.text = NULL;
    expect(build(), KILN_EINVAL, "text must not be NULL");
    source.text = "x\0y";
    source.length = 3;
    expect(build(), KILN_EINVAL, "NUL");
    source.text = "extern \"C\" __global__ void k() {}\n";
    source.length = 0;
    source.options = option;
    source.option_count = 1;
    expect(build(), KILN_EINVAL, "option '-gen-opt-lto' is not taken: -dlto alone");
    source.option_count = 0;
    source.defines = define;
    source.define_count = 1;
    expect(build(), KILN_EINVAL, "define '1A'");
    source.define_count = 0;
    source.functions = wrong;
    for (source.function_count = 1; wrong[0] != NULL; wrong[0] = wrong[++at])
        expect(build(), KILN_EINVAL, "is no name of a function");
    source.function_count = 0;
    source.headers = &absolute;
    source.header_count = 1;
    expect(build(), KILN_EINVAL, "relative path");
    source.header_count = 0;
    use_directories("nowhere", NULL);
    expect(build(), KILN_EINVAL, "nowhere' cannot be used: No such file");
    source.include_dir_count = 0;
    source.target = "cpu";
    expect(build(), KILN_ETARGET, "not for the cpu");
    source.target = "sm90";
    expect(build(), KILN_ETARGET, "unknown target 'sm90'");
    source.target = NULL;
    source.name = "a\nb";
    expect(build(), KILN_EINVAL, "no name of a source");
    source.size = 0;
    expect(build(), KILN_EINVAL, "KILN_INIT(kiln_source)");
}
END_TEST

/* ---- Stores, workers, processes */

START_TEST(test_source__is_found_without_a_compiler)
{
    kiln_program *program;
    if (!have_nvrtc())
        return;
    make_tree("inc");
    use_directories("inc", NULL);
    source.text = two_deep;
    source.cuda_headers = KILN_OFF;
    ck_assert_uint_eq(compiles(), 1);
    kiln_close(service);
    kiln_options options = kiln_test_options();
    options.nvrtc = "/nonexistent/libnvrtc.so.13";
    options.worker = "/nonexistent/kiln-worker";
    service = kiln_test_open(&options);
    expect(kiln_test_build_source(&program, service, &source, &report), KILN_OK, "");
    ck_assert_int_eq(kiln_test_origin(program), KILN_ORIGIN_DISK);
    kiln_program_release(program);
    write_text("inc/a.h", "#define DEPTH 1\n");
    expect(build(), KILN_ENOCOMPILER, "NVRTC");
    write_text("inc/a.h", "#include \"sub/b.h\"\n");
    expect(build(), KILN_OK, "");
    kiln_close(service);
    options.strict = KILN_ON;
    service = kiln_test_open(&options);
    expect(build(), KILN_OK, "");
    write_text("inc/a.h", "#define DEPTH 1\n");
    expect(build(), KILN_ESTRICT, "strict mode compiles nothing: source=user.cu target=sm_90");
}
END_TEST

START_TEST(test_source__travels_in_a_pack)
{
    kiln_transfer moved = KILN_INIT(kiln_transfer);
    if (!have_nvrtc())
        return;
    make_tree("inc");
    use_directories("inc", NULL);
    source.text = two_deep;
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_int_eq(kiln_cache_export(service, kiln_test_temp_path("p.kilnpack"), NULL, NULL, &moved, &report),
                     KILN_OK);
    ck_assert_uint_eq(moved.entries, 2);
    kiln_close(service);
    kiln_options options = kiln_test_options();
    options.cache_dir = "";
    options.packs = kiln_test_temp_path("p.kilnpack");
    service = kiln_test_open(&options);
    expect(build(), KILN_OK, "");
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_uint_eq(stats.compiles, 0);
    ck_assert_uint_eq(stats.hits_pack, 1);
}
END_TEST

START_TEST(test_source__killed_worker_is_replaced)
{
    enum { NESTED = 2000000 };
    if (!have_nvrtc())
        return;
    source.text = two_deep;
    make_tree("inc");
    use_directories("inc", NULL);
    expect(build(), KILN_OK, "");
    kill(only_child(), SIGKILL);
    write_text("inc/a.h", "#define DEPTH 1\n");
    expect(build(), KILN_OK, "");
    ck_assert_uint_eq(kiln_test_stats(service).worker_starts, 2);
    if (KILN_TEST_SANITIZED)
        return; /* the stack of a sanitized compile has another size */
    char *text = malloc(2 * NESTED + 100);
    size_t length = (size_t)sprintf(text, "extern \"C\" __global__ void k(int *p) { *p = ");
    memset(text + length, '(', NESTED);
    memset(text + length + NESTED, ')', NESTED);
    text[length + NESTED - 1] = '1';
    strcpy(text + length + 2 * NESTED - 1, "; }");
    source.text = text;
    expect(build(), KILN_ECRASHED, "");
    source.text = two_deep;
    expect(build(), KILN_OK, "");
    free(text);
}
END_TEST

START_TEST(test_source__two_processes_compile_once)
{
    int pipes[2], statuses = 0;
    if (!have_nvrtc())
        return;
    make_tree("inc");
    use_directories("inc", NULL);
    source.text = two_deep;
    kiln_close(service);
    service = NULL;
    ck_assert_int_eq(pipe(pipes), 0);
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            open_service(KILN_ISOLATE_AUTO);
            kiln_status status = build();
            unsigned char count = status == KILN_OK ? (unsigned char)kiln_test_stats(service).compiles : 99;
            kiln_close(service);
            _exit(write(pipes[1], &count, 1) == 1 ? 0 : 1);
        }
    unsigned char count, total = 0;
    for (int i = 0, status; i < 3; i++) {
        wait(&status);
        statuses |= status;
        ck_assert_int_eq(read(pipes[0], &count, 1), 1);
        total = (unsigned char)(total + count);
    }
    ck_assert_int_eq(statuses, 0);
    ck_assert_uint_eq(total, 1);
}
END_TEST

static void *build_in_thread(void *data)
{
    kiln_program *program;
    *(kiln_status *)data = kiln_test_build_source(&program, service, &source, NULL);
    kiln_program_release(program);
    return NULL;
}

START_TEST(test_source__threads_compile_once)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    kiln_status statuses[THREADS];
    if (!have_nvrtc())
        return;
    make_tree("inc");
    use_directories("inc", NULL);
    source.text = two_deep;
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, build_in_thread, &statuses[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(statuses[i], KILN_OK);
    }
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 1);
}
END_TEST

/* ---- The headers that come with Kiln */

static const char with_headers[] =
    "#include <cuda_runtime.h>\n#include <cstdio>\n#include <math.h>\n#include <float.h>\n"
    "#include <cassert>\n#include <algorithm>\n#include <cuda.h>\n#include <cinttypes>\n"
    "#if CUDA_VERSION / 1000 != __CUDACC_VER_MAJOR__ || CUDA_VERSION != CUDART_VERSION\n#error CUDA_VERSION\n#endif\n"
    "static_assert(sizeof(std::uint16_t) == 2 && INT_MAX == 2147483647, \"\");\n"
    "extern \"C\" __global__ void k(float *p, int n) {\n"
    "    assert(n > 0);\n"
    "    p[0] = std::max(-INFINITY, FLT_MIN) + std::sqrt(n) + pow(p[1], 2.0) + M_PI;\n"
    "    printf(\"%f %\" PRIu64, p[0], (std::uint64_t)n); }\n";

START_TEST(test_source__standard_headers_are_there)
{
    if (!have_nvrtc())
        return;
    source.text = with_headers;
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_msg(report.log == NULL, "%s", report.log);
    ck_assert_uint_eq(compiles(), 0);
    source.cuda_headers = KILN_OFF;
    expect(build(), KILN_OK, "");
    kiln_close(service);
    open_service(KILN_ISOLATE_NEVER);
    expect(build(), KILN_OK, "");
}
END_TEST

/* In one text, and CUB before Thrust: each configures what both share. */
START_TEST(test_source__headers_of_cccl_go_together)
{
    if (!have_nvrtc())
        return;
    source.text = "#include <cuda/std/version>\n" KERNEL "}\n";
    if (build() != KILN_OK) {
        printf("   left out: CCCL is not here\n");
        return;
    }
    source.text = "#include <cmath>\n#include <cub/cub.cuh>\n#include <thrust/complex.h>\n#include <thrust/sort.h>\n"
                  "#include <complex>\n#include <optional>\n#include <thrust/execution_policy.h>\n" KERNEL
                  "thrust::sort(thrust::seq, p, p + n); p[0] += abs(std::complex<float>(p[1], INFINITY)); }\n";
    expect(build(), KILN_OK, "");
    ck_assert_msg(report.log == NULL, "%s", report.log);
}
END_TEST

/* A user's own header of that name is taken, be it in memory or in a directory, and noticed when it appears. */
START_TEST(test_source__standard_headers_give_way)
{
    static const kiln_header own = { "stdint.h", "#error in memory\n" };
    if (!have_nvrtc())
        return;
    make_directory("inc");
    use_directories("inc", NULL);
    source.text = "#include <stdint.h>\nextern \"C\" __global__ void k(uint32_t *p) { *p = 1; }\n";
    ck_assert_uint_eq(compiles(), 1);
    write_text("inc/stdint.h", "#error in a directory\n");
    expect(build(), KILN_ECOMPILE, "inc/stdint.h(1): catastrophic error: #error directive: in a directory");
    source.headers = &own;
    source.header_count = 1;
    expect(build(), KILN_ECOMPILE, "stdint.h(1): catastrophic error: #error directive: in memory");
}
END_TEST

/* ---- Headers beside the file */

static void use_beside(const char *name)
{
    static char directory[256];
    snprintf(directory, sizeof(directory), "%s", kiln_test_temp_path(name));
    source.directory = directory;
}

#define KERNEL_OF(value) "extern \"C\" __global__ void k(int *p) { *p = " value "; }\n"

START_TEST(test_source__headers_beside_the_file_are_found)
{
    if (!have_nvrtc())
        return;
    make_tree("src");
    source.text = two_deep;
    expect(build(), KILN_ECOMPILE, "cannot open source file \"a.h\"");
    use_beside("src");
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
    write_text("src/sub/c.h", "#define DEPTH 3\n");
    ck_assert_uint_eq(compiles_again(), 1);
    write_text("src/user.cu", "the text comes from memory, so this file is none of its reads\n");
    ck_assert_uint_eq(compiles(), 0);
    ck_assert_int_eq(rename(kiln_test_temp_path("src"), kiln_test_temp_path("moved")), 0);
    use_beside("moved");
    ck_assert_uint_eq(compiles(), 0);
    /* An edit that brings an error is told by the paths of the user. */
    write_text("moved/sub/c.h", "#define DEPTH 3\nbad\n");
    source.name = "moved/user.cu";
    expect(build(), KILN_ECOMPILE, "moved/sub/c.h(2): error");
    ck_assert_ptr_nonnull(strstr(report.log, "compilation of \"moved/user.cu\""));
    ck_assert_ptr_null(strstr(report.log, "/kiln/"));
}
END_TEST

/* Only quotes look beside the file, and from there the next of that name is Kiln's. */
START_TEST(test_source__quotes_take_the_sibling_and_brackets_the_standard_header)
{
    static const struct {
        const char *name, *header, *text;
    } cases[] = {
        { "limits.h", "#define MINE 7\n#include <limits.h>\n",
          "#include \"limits.h\"\n" KERNEL_OF("MINE + (INT_MAX == 2147483647)") },
        { "limits.h", "#error a sibling\n", "#include <limits.h>\n" KERNEL_OF("INT_MAX") },
        { "math.h", "#include_next <math.h>\n#define MINE M_PI\n",
          "#include \"math.h\"\n" KERNEL_OF("(int)sinf(MINE)") },
        { "array", "#define MINE 9\n", "#include \"array\"\n" KERNEL_OF("MINE") },
        { "complex", "#error a sibling\n", "#include <stdint.h>\n#include <limits>\n" KERNEL_OF("1") },
        { "stdint.h", "typedef unsigned long mine_t;\n#include_next <stdint.h>\n",
          "#include \"stdint.h\"\n" KERNEL_OF("sizeof(mine_t) + sizeof(uint32_t)") },
    };
    if (!have_nvrtc())
        return;
    make_directory("src");
    use_beside("src");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[64];
        snprintf(path, sizeof(path), "src/%s", cases[i].name);
        write_text(path, cases[i].header);
        source.text = cases[i].text;
        expect(build(), KILN_OK, "");
        ck_assert_int_eq(unlink(kiln_test_temp_path(path)), 0);
    }
}
END_TEST

/* As in the search of any compiler: beside the file, the user's directories, Kiln's. */
START_TEST(test_source__include_next_goes_through_all_directories)
{
    if (!have_nvrtc())
        return;
    make_directory("src");
    make_tree("first");
    make_directory("second");
    use_directories("first", "second");
    use_beside("src");
    write_text("src/math.h", "#define SIBLING 1\n#include_next <math.h>\n");
    write_text("first/math.h", "#define FIRST 2\n#include_next <math.h>\n");
    write_text("second/math.h", "#define SECOND 4\n#include_next <math.h>\n");
    source.text = "#include \"math.h\"\n" KERNEL_OF("SIBLING + FIRST + SECOND + (int)M_PI");
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
    source.text = "#include <math.h>\n#ifdef SIBLING\n#error beside\n#endif\n" KERNEL_OF("FIRST + SECOND + (int)M_PI");
    ck_assert_uint_eq(compiles(), 1);
    /* A standard header in a folder is the user's where the user has it. */
    write_text("first/sub/stdint.h", "#define MINE 5\n");
    source.text = "#include <sub/stdint.h>\n#include <stdint.h>\n" KERNEL_OF("MINE + sizeof(uint8_t)");
    ck_assert_uint_eq(compiles(), 1);
}
END_TEST

START_TEST(test_source__directory_counts_only_where_it_is_looked_at)
{
    if (!have_nvrtc())
        return;
    use_beside("absent");
    source.text = "#include <stdint.h>\n" KERNEL_OF("sizeof(uint8_t)");
    ck_assert_uint_eq(compiles(), 1);
    source.directory = NULL;
    ck_assert_uint_eq(compiles(), 0);
    use_beside("absent");
    source.text = two_deep;
    expect(build(), KILN_EINVAL, "absent' cannot be used");
    make_directory("absent");
    source.text = "#if __has_include(\"opt.h\")\n#define A 1\n#else\n#define A 2\n#endif\n" KERNEL_OF("A");
    ck_assert_uint_eq(compiles(), 1);
    write_text("absent/opt.h", "");
    ck_assert_uint_eq(compiles(), 1);
    kiln_close(service);
    open_service(KILN_ISOLATE_NEVER);
    expect(build(), KILN_EINVAL, "isolate=never a text has no directories");
    source.text = "#include <stdint.h>\n" KERNEL_OF("sizeof(uint8_t)");
    expect(build(), KILN_OK, "");
}
END_TEST

/* The source's directory and those of its parts may be one, or have files of one name. */
START_TEST(test_source__each_file_looks_beside_itself)
{
    static kiln_part part = { "b.cu", "#include \"n.h\"\n__device__ int f() { return N; }\n", NULL };
    static char directory[256];
    if (!have_nvrtc())
        return;
    make_directory("a");
    make_directory("b");
    write_text("a/n.h", "#pragma once\n#define N 1\n");
    write_text("b/n.h", "#define N 2\n#define ONLY_B\n");
    source.text = "#include \"n.h\"\n#ifdef ONLY_B\n#error of the part\n#endif\nextern __device__ int f();\n"
                  "extern \"C\" __global__ void k(int *p) { *p = N + f(); }\n";
    source.parts = &part;
    source.part_count = 1;
    use_beside("a");
    if (build() == KILN_ENOCOMPILER) {
        printf("   left out: there is no nvJitLink\n");
        return;
    }
    expect(build(), KILN_ECOMPILE, "cannot open source file \"n.h\"");
    snprintf(directory, sizeof(directory), "%s", kiln_test_temp_path("b"));
    part.directory = directory;
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
    write_text("b/n.h", "#define N 3\n");
    ck_assert_uint_eq(compiles(), 1);
    snprintf(directory, sizeof(directory), "%s", kiln_test_temp_path("a"));
    ck_assert_uint_eq(compiles(), 1);
    ck_assert_uint_eq(compiles(), 0);
    write_text("a/n.h", "bad\n");
    expect(build(), KILN_ECOMPILE, "a/n.h(1): error");
}
END_TEST

Suite *kiln_test_source_source_suite(void)
{
    Suite *suite = suite_create("source");
    TCase *tcase = tcase_create("source");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_source__edited_header_compiles_once_and_touched_one_not);
    tcase_add_test(tcase, test_source__moved_tree_is_found);
    tcase_add_test(tcase, test_source__earlier_header_is_noticed);
    tcase_add_test(tcase, test_source__all_that_it_is_compiled_with_counts);
    tcase_add_test(tcase, test_source__options_for_nvcc_are_left_out_with_a_note);
    tcase_add_test(tcase, test_source__debug_code_is_made);
    tcase_add_test(tcase, test_source__name_expressions_of_any_form);
    tcase_add_test(tcase, test_source__reads_nothing_outside);
    tcase_add_test(tcase, test_source__without_a_worker_reads_what_its_host_can);
    tcase_add_test(tcase, test_source__without_a_worker_stays_in_memory);
    tcase_add_test(tcase, test_source__standard_headers_are_there);
    tcase_add_test(tcase, test_source__standard_headers_give_way);
    tcase_add_test(tcase, test_source__headers_of_cccl_go_together);
    tcase_add_test(tcase, test_source__headers_beside_the_file_are_found);
    tcase_add_test(tcase, test_source__quotes_take_the_sibling_and_brackets_the_standard_header);
    tcase_add_test(tcase, test_source__include_next_goes_through_all_directories);
    tcase_add_test(tcase, test_source__directory_counts_only_where_it_is_looked_at);
    tcase_add_test(tcase, test_source__each_file_looks_beside_itself);
    tcase_add_test(tcase, test_source__messages_name_the_users_file_and_line);
    tcase_add_test(tcase, test_source__lambdas_in_device_code_need_no_annotation);
    tcase_add_test(tcase, test_source__functions_without_annotation_are_device_functions);
    tcase_add_test(tcase, test_source__host_code_is_told);
    tcase_add_loop_test(tcase, test_source__names_that_nvcc_brings_are_there, 0, sizeof(lacking) / sizeof(lacking[0]));
    tcase_add_test(tcase, test_source__names_that_nvcc_brings_shift_no_line);
    tcase_add_test(tcase, test_source__byte_order_marks_are_skipped);
    tcase_add_test(tcase, test_source__bad_fields_are_refused);
    tcase_add_test(tcase, test_source__is_found_without_a_compiler);
    tcase_add_test(tcase, test_source__travels_in_a_pack);
    tcase_add_test(tcase, test_source__killed_worker_is_replaced);
    tcase_add_test(tcase, test_source__two_processes_compile_once);
    tcase_add_test(tcase, test_source__threads_compile_once);
    suite_add_tcase(suite, tcase);
    return suite;
}
