/* Sources that are out to harm who compiles them, each through a worker of its own kind: what they may do is fail.
 * After each the next good compile must give the right bytes. Needs NVRTC; says so where there is none. */
#include "base/alloc.h"
#include "fault/figures.h"
#include "gpu/cuda.h"
#include "jit/worker/workers.h"
#include "os/cpu.h"
#include "support/foreign.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include "support/temp.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { SLACK_MS = 500, BOMB_MS = 1000, CASE_S = 300 };

#define KERNEL                                                                                          \
    "extern \"C\" __global__ void kiln_vector(float *out, const float *x, unsigned long long n)\n"      \
    "{ unsigned long long i = blockIdx.x * 512ull + threadIdx.x; if (i < n) out[i] = x[i] + VALUE; }\n" \
    "extern \"C\" __global__ void kiln_scalar(float *out, const float *x, unsigned long long n)\n"      \
    "{ if (n) *out = *x; }\n"

static char good[] = "#define VALUE 1\n" KERNEL;

static kiln__compiler *compiler;
static kiln__image expected; /* of the good source, made in this process */
static kiln_report report = KILN_INIT(kiln_report);
static uint64_t elapsed_ms;

/* ---- Compiling */

static bool have_nvrtc(void)
{
    kiln__toolchain toolchain;
    return compiler->vtable->open(compiler, &toolchain, NULL) == KILN_OK;
}

static void open_workers(uint32_t time_ms)
{
    const kiln__workers_options options = {
        .isolate = KILN_ISOLATE_AUTO,
        .nvrtc = getenv("KILN_NVRTC"),
        .memory_bytes = (uint64_t)4 << 30,
        .time_ms = time_ms,
    };
    compiler = kiln__workers_open(kiln__cuda_compiler_open(options.nvrtc, NULL), &options, NULL);
    ck_assert_ptr_nonnull(compiler);
}

/* False where there is no NVRTC. */
static bool begin(uint32_t time_ms)
{
    kiln__unit unit = foreign_unit(good);
    open_workers(time_ms);
    if (!have_nvrtc()) {
        LEFT_OUT("there is no NVRTC");
        return false;
    }
    unit.foreign = false;
    ck_assert_int_eq(compiler->vtable->compile(compiler, &unit, &expected, &report), KILN_OK);
    return true;
}

static void finish(void)
{
    if (compiler != NULL)
        compiler->vtable->close(compiler);
    compiler = NULL;
    kiln__image_fini(&expected);
    kiln_report_clear(&report);
    ck_assert_int_eq(list_children(NULL, 0), 0);
}

static void check_good(void)
{
    kiln__unit unit = foreign_unit(good);
    kiln__image image;
    kiln_status status = compiler->vtable->compile(compiler, &unit, &image, &report);
    ck_assert_msg(status == KILN_OK, "the good source: %s: %s", kiln_status_name(status), report.message);
    ck_assert_uint_eq(image.binary_length, expected.binary_length);
    ck_assert_mem_eq(image.binary, expected.binary, expected.binary_length);
    kiln__image_fini(&image);
}

/* Compiles, checks that a good source still compiles as it should, and prints a line. */
static kiln_status suffer(const char *what, char *source)
{
    kiln__unit unit = foreign_unit(source);
    kiln__image image;
    kiln_report_clear(&report);
    uint64_t start = kiln__cpu_now_ns();
    kiln_status status = compiler->vtable->compile(compiler, &unit, &image, &report);
    elapsed_ms = (kiln__cpu_now_ns() - start) / 1000000;
    kiln__image_fini(&image);
    kiln_report kept = report;
    report = (kiln_report)KILN_INIT(kiln_report);
    check_good();
    report = kept;
    FIGURES("hostile: %s: %s after %llu ms%s%.120s", what, kiln_status_name(status), (unsigned long long)elapsed_ms,
            status == KILN_OK ? "" : ": ", status == KILN_OK ? "" : report.message);
    ck_assert_int_le(list_children(NULL, 0), (int)kiln__cpu_count());
    return status;
}

static void check_failure(kiln_status status)
{
    ck_assert_msg(status == KILN_OK || status == KILN_ECOMPILE || status == KILN_ECRASHED, "%s: %s",
                  kiln_status_name(status), report.message);
    ck_assert(status == KILN_OK || report.message[0] != '\0');
}

/* ---- Making */

static char *need(kiln__text *text)
{
    char *out = kiln__text_take(text);
    ck_assert_ptr_nonnull(out);
    return out;
}

static void repeat(kiln__text *text, const char *what, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kiln__text_append(text, what);
}

static char *nested(const char *open, const char *close, size_t depth)
{
    kiln__text text = { 0 };
    kiln__text_append(&text, "#define VALUE ");
    repeat(&text, open, depth);
    kiln__text_append(&text, "1");
    repeat(&text, close, depth);
    kiln__text_append(&text, "\n" KERNEL);
    return need(&text);
}

/* 10^power tokens in a few lines. */
static char *macro_bomb(int power)
{
    kiln__text text = { 0 };
    kiln__text_append(&text, "#define A0 +1\n");
    for (int i = 1; i <= power; i++)
        kiln__text_printf(&text, "#define A%d A%d A%d A%d A%d A%d A%d A%d A%d A%d A%d\n", i, i - 1, i - 1, i - 1, i - 1,
                          i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    kiln__text_printf(&text, "#define VALUE (0 A%d)\n" KERNEL, power);
    return need(&text);
}

/* ---- Too deep, too long, too much */

START_TEST(test_hostile__nested_parentheses)
{
    if (!begin(60000))
        return;
    static const size_t depths[] = { 1000, 10000, 100000, 1000000 };
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        char what[64], *source = nested("(", ")", depths[i]);
        snprintf(what, sizeof(what), "%zu nested parentheses", depths[i]);
        kiln_status status = suffer(what, source);
        check_failure(status);
        if (depths[i] <= 10000)
            ck_assert_int_eq(status, KILN_OK);
        kiln__free(source);
    }
}
END_TEST

START_TEST(test_hostile__other_nesting)
{
    static const struct {
        const char *what, *open, *close;
    } cases[] = {
        { "nested minus signs", "- ", "" },
        { "nested casts", "(float)", "" },
        { "nested conditionals", "1?", ":1" },
        { "nested braces", "[]{ return (", "); }()" },
    };
    if (!begin(20000))
        return;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *source = nested(cases[i].open, cases[i].close, fault_long ? 1000000 : 100000);
        check_failure(suffer(cases[i].what, source));
        kiln__free(source);
    }
}
END_TEST

START_TEST(test_hostile__macro_bomb)
{
    if (!begin(BOMB_MS))
        return;
    char *source = macro_bomb(7);
    kiln_status status = suffer("a macro bomb of 10^7 tokens, 1 s allowed", source);
    ck_assert_int_eq(status, KILN_ECRASHED);
    ck_assert_ptr_nonnull(strstr(report.message, "did not finish within 1 s"));
    if (!KILN_TEST_SANITIZED)
        ck_assert_uint_le(elapsed_ms, BOMB_MS + SLACK_MS);
    kiln__free(source);
}
END_TEST

START_TEST(test_hostile__template_recursion)
{
    static char endless[] = "template <int N> struct deep { static const int value = deep<N + 1>::value + 1; };\n"
                            "#define VALUE deep<0>::value\n" KERNEL;
    static char wide[] = "template <int D, int N> struct tree { static const int value = tree<D - 1, 2 * N>::value + "
                         "tree<D - 1, 2 * N + 1>::value; };\n"
                         "template <int N> struct tree<0, N> { static const int value = N; };\n"
                         "#define VALUE tree<24, 0>::value\n" KERNEL;
    static char loop[] = "constexpr __device__ int forever() { int i = 0; while (true) i ^= 1; return i; }\n"
                         "constexpr int value = forever();\n#define VALUE value\n" KERNEL;
    if (!begin(3000))
        return;
    ck_assert_int_eq(suffer("endless template recursion", endless), KILN_ECOMPILE);
    ck_assert_ptr_nonnull(report.log);
    check_failure(suffer("2^24 template instances, 3 s allowed", wide));
    check_failure(suffer("an endless constexpr loop", loop));
}
END_TEST

START_TEST(test_hostile__large_source)
{
    enum { SIZE = 64 << 20, SHORT_SIZE = 1 << 20 };
    if (!begin(fault_long ? 60000 : 5000))
        return;
    kiln__text text = { 0 };
    kiln__text_append(&text, "#define VALUE 1\n" KERNEL "// ");
    while (text.length < SIZE)
        repeat(&text, "a long comment, line by line .................................................\n// ", 1000);
    char *source = need(&text);
    check_failure(suffer("64 MB of comments", source));
    kiln__free(source);
    kiln__text_append(&text, "#define VALUE 1\n" KERNEL);
    for (unsigned i = 0; text.length < (fault_long ? SIZE : SHORT_SIZE); i++)
        kiln__text_printf(&text, "__device__ int f%u(int x) { return x * %u; }\n", i, i);
    source = need(&text);
    check_failure(suffer(fault_long ? "64 MB of functions" : "1 MB of functions", source));
    kiln__free(source);
    kiln__text_append(&text, "int ");
    repeat(&text, "aaaaaaaaaaaaaaaa", SIZE / 16);
    source = need(&text);
    check_failure(suffer("one name of 64 MB", source));
    kiln__free(source);
}
END_TEST

START_TEST(test_hostile__no_text_at_all)
{
    if (!begin(20000))
        return;
    char empty[] = "", odd[] = "\xEF\xBB\xBF\x01\x02\xFF\xFE \\", open[] = "/*", string[] = "R\"(";
    check_failure(suffer("an empty source", empty));
    check_failure(suffer("bytes that are no text", odd));
    check_failure(suffer("a comment that does not end", open));
    check_failure(suffer("a string that does not end", string));
}
END_TEST

/* ---- Files: the worker's sandbox refuses them */

static const char secret[] = "kiln_canary_57219 = { \"do not tell\" ; ]\n";

static bool says(const char *text)
{
    return (report.log != NULL && strstr(report.log, text) != NULL) || strstr(report.message, text) != NULL;
}

/* Includes a file and checks that it was not found and that nothing of it is told. */
static void include(const char *name, const char *not_told)
{
    kiln__text text = { 0 };
    kiln__text_printf(&text, "#include %s\n", name);
    kiln__text_append(&text, "#define VALUE 1\n" KERNEL);
    char *source = need(&text), what[160];
    snprintf(what, sizeof(what), "#include %.100s", name);
    kiln_status status = suffer(what, source);
    ck_assert_int_eq(status, KILN_ECOMPILE);
    ck_assert_msg(says("cannot open source file") || says("could not open source file"), "%s: %s\n%s", name,
                  report.message, report.log != NULL ? report.log : "");
    ck_assert_msg(!says(not_told), "'%s' was told: %s", not_told, report.log);
    kiln__free(source);
}

START_TEST(test_hostile__includes_find_nothing)
{
    char canary[4096], quoted[4200];
    static const char *const names[] = {
        "\"/dev/zero\"",       "</dev/zero>",          "\"/dev/stdin\"",         "\"/proc/self/fd/0\"",
        "\"/proc/self/maps\"", "</proc/self/environ>", "\"/proc/self/cmdline\"", "\"/etc/hostname\"",
    };
    if (!begin(10000))
        return;
    kiln_test_temp_write("canary.h", secret, sizeof(secret) - 1);
    snprintf(canary, sizeof(canary), "%s", kiln_test_temp_path("canary.h"));
    ck_assert_int_eq(symlink(canary, kiln_test_temp_path("link.h")), 0);
    ck_assert_int_eq(setenv("KILN_CANARY", "kiln_canary_57219", 1), 0);
    ck_assert_int_eq(chdir(kiln_test_temp_dir()), 0);
    include("\"/etc/passwd\"", "root:");
    include("</etc/passwd>", "root:");
    include("\"../../../../../../../../etc/passwd\"", "root:");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        include(names[i], "kiln_canary_57219");
    snprintf(quoted, sizeof(quoted), "\"%s\"", canary);
    include(quoted, "do not tell");
    include("\"canary.h\"", "do not tell");
    include("\"link.h\"", "do not tell");
    include("\"./canary.h\"", "do not tell");
}
END_TEST

Suite *kiln_test_fault_hostile_suite(void)
{
    Suite *suite = suite_create("hostile");
    TCase *limits = tcase_create("limits"), *files = tcase_create("files");
    tcase_set_timeout(limits, CASE_S);
    tcase_set_timeout(files, CASE_S);
    tcase_add_checked_fixture(limits, NULL, finish);
    tcase_add_checked_fixture(files, NULL, finish);
    kiln_test_temp_use(files);
    tcase_add_test(limits, test_hostile__nested_parentheses);
    tcase_add_test(limits, test_hostile__other_nesting);
    tcase_add_test(limits, test_hostile__macro_bomb);
    tcase_add_test(limits, test_hostile__template_recursion);
    tcase_add_test(limits, test_hostile__large_source);
    tcase_add_test(limits, test_hostile__no_text_at_all);
    suite_add_tcase(suite, limits);
    tcase_add_test(files, test_hostile__includes_find_nothing);
    suite_add_tcase(suite, files);
    return suite;
}
