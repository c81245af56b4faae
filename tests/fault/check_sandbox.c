/* Hostile source text in the sandbox of a compile worker, by the program sandboxed: nothing of any file gets into a
 * log or an image, no probe finds anything, and nothing is waited for. Each net alone, and both. Ordinary units
 * compile to the same bytes as outside. */
#include "fault/figures.h"
#include "fault/sandboxed.h"
#include "gpu/cuda.h"
#include "kiln-worker/sandbox.h"
#include "os/process.h"
#include "support/harness.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include "support/temp.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CANARY "kiln_canary_4711"

enum { NOT_ENTERED = 3, WAIT_MS = 100 * 1000, RECORDS_MAX = 128, NO_SANDBOX = 0 };
enum { CALLS = KILN__SANDBOX_CALLS, KERNEL = KILN__SANDBOX_KERNEL, BOTH = CALLS | KERNEL };

/* What the program said, cut into its records. */
typedef struct answer {
    kiln__text text;
    const char *records[RECORDS_MAX];
    int count;
} answer;

static kiln__text sources; /* each followed by RECORD_END */

static void set_up(void)
{
    struct stat status;
    kiln_test_temp_write("canary.h", CANARY "\n", strlen(CANARY) + 1);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("allowed"), 0700), 0);
    kiln_test_temp_write("allowed/good.h", "__device__ int from_good;\n", 26);
    ck_assert_int_eq(symlink("canary.h", kiln_test_temp_path("link.h")), 0);
    ck_assert_int_eq(symlink("../canary.h", kiln_test_temp_path("allowed/escape.h")), 0);
    ck_assert_int_eq(symlink("allowed", kiln_test_temp_path("alias")), 0);
    ck_assert_int_eq(mkdir(kiln_test_temp_path("allowed-not"), 0700), 0);
    kiln_test_temp_write("allowed-not/canary.h", CANARY "\n", strlen(CANARY) + 1);
    ck_assert_int_eq(mkfifo(kiln_test_temp_path("allowed/fifo.h"), 0600), 0);
    ck_assert_int_eq(chdir(kiln_test_temp_dir()), 0);
    ck_assert_int_eq(stat("canary.h", &status), 0);
    sources = (kiln__text){ 0 };
}

static void tear_down(void)
{
    kiln__text_fini(&sources);
}

static void add_source(const char *text)
{
    kiln__text_printf(&sources, "%s%c", text, RECORD_END);
}

/* With each "%s" of the text standing for the test's directory. */
static void add_with_directory(const char *text)
{
    for (const char *mark; (mark = strstr(text, "%s")) != NULL; text = mark + 2) {
        kiln__text_append_bytes(&sources, text, (size_t)(mark - text));
        kiln__text_append(&sources, kiln_test_temp_dir());
    }
    add_source(text);
}

/* Runs the program over `sources`. False where the machine has no Landlock and nothing else was asked for. */
static bool run(answer *out, unsigned nets, const char *allowed, const char *targets)
{
    char digit[] = { (char)('0' + nets), '\0' }, names[512];
    const char *argv[64] = { getenv("KILN_SANDBOXED"), digit, allowed, kiln_test_temp_path("canary.h") };
    int count = 4;
    ck_assert_msg(argv[0] != NULL, "KILN_SANDBOXED must name the program");
    snprintf(names, sizeof(names), "%s", targets);
    for (char *name = strtok(names, " "); name != NULL && count < 63; name = strtok(NULL, " "))
        argv[count++] = name;
    *out = (answer){ 0 };
    int status = kiln__process_run(argv, kiln__text_string(&sources), sources.length, WAIT_MS, &out->text);
    if (status == NOT_ENTERED && nets == KERNEL) {
        LEFT_OUT("sandbox: the kernel's net alone: %s", kiln__text_string(&out->text));
        return false;
    }
    ck_assert_msg(status == 0, "the program ended with status %d: %.900s", status, kiln__text_string(&out->text));
    for (char *at = out->text.data, *end; (end = strchr(at, RECORD_END)) != NULL; at = end + 1) {
        ck_assert_int_lt(out->count, RECORDS_MAX);
        *end = '\0';
        out->records[out->count++] = at;
    }
    return true;
}

enum { HOW = 0, TRIED = 1, REFUSED = 2, FIRST = 3 };

static const char *last_record(const answer *from)
{
    return from->records[from->count - 1];
}

/* ---- What hostile text asks for */

/* Should be told of as what cannot be opened. */
static const char *const includes[] = {
    "#include \"%s/canary.h\"",
    "#include <%s/canary.h>",
    "#include \"%s/allowed/../canary.h\"",
    "#include \"%s//./canary.h\"",
    "#include \"%s/link.h\"",
    "#include \"%s/allowed/escape.h\"",
    "#include \"%s/allowed-not/canary.h\"",
    "#include \"/proc/self/cwd/canary.h\"",
    "#include \"/proc/self/root%s/canary.h\"",
    "#include \"/proc/self/fd/9\"",
    "#include \"/proc/thread-self/fd/9\"",
    "#include \"/dev/fd/9\"",
    "#include </proc/self/environ>",
    "#include \"/proc/self/task/../environ\"",
    "#include \"/proc/self/maps\"",
    "#include \"/proc/self/cmdline\"",
    "#include \"/etc/passwd\"",
    "#include \"/dev/zero\"",
    "#include \"/dev/stdin\"",
    "#include \"/dev/tty\"",
    "#include \"%s\"",
    "#include \"/\"",
    "#include \"canary.h\"",
    "#include <canary.h>",
    "#include \"../canary.h\"",
    "#include_next \"%s/canary.h\"",
    "#define STRING(x) #x\n#define FILE STRING(%s/canary.h)\n#include FILE",
    "#line 1 \"%s/other.cu\"\n#include \"canary.h\"",
    "%:include \"%s/canary.h\"",
    "_Pragma(\"once\")\n#include \"%s/canary.h\"",
};

/* Should find nothing: whatever it makes of that. */
static const char *const others[] = {
    "#if __has_include(\"%s/canary.h\")\n#error LEAKED\n#endif",
    "#if __has_include(\"%s\")\n#error LEAKED\n#endif",
    "#if __has_include(\"/etc/passwd\") || __has_include(</etc/passwd>) || __has_include(\"/proc/self/fd/9\")\n"
    "#error LEAKED\n#endif",
    "#if __has_include(\"canary.h\") || __has_include(\"%s/link.h\") || __has_include_next(\"%s/canary.h\")\n"
    "#error LEAKED\n#endif",
    "__device__ const char data[] = {\n#embed \"%s/canary.h\"\n};",
    "#if __has_embed(\"%s/canary.h\")\n#error LEAKED\n#endif",
    "#import \"%s/canary.h\"",
    "#pragma include_alias(\"a.h\", \"%s/canary.h\")\n#include \"a.h\"",
    "extern \"C\" __global__ void k() { asm volatile(\".incbin \\\"%s/canary.h\\\"\"); }",
    "extern \"C\" __global__ void k() { asm volatile(\".include \\\"%s/canary.h\\\"\"); }",
    "extern \"C\" __global__ void k() { asm volatile(\".file 1 \\\"%s/canary.h\\\"\"); }",
    "#line 1 \"%s/canary.h\"\nint x = y;",
    "import <%s/canary.h>;",
};

enum { INCLUDES = sizeof(includes) / sizeof(includes[0]), OTHERS = sizeof(others) / sizeof(others[0]) };

static void add_hostile_sources(void)
{
    char long_path[5100];
    for (int i = 0; i < INCLUDES; i++)
        add_with_directory(includes[i]);
    for (int i = 0; i < OTHERS; i++)
        add_with_directory(others[i]);
    memset(long_path, 'x', sizeof(long_path));
    memcpy(long_path, "#include \"/", 11);
    memcpy(long_path + 5011, "\"", 2);
    add_source(long_path);
}

static void check_nothing_leaked(const answer *from, const char *what)
{
    for (int i = FIRST; i < from->count; i++)
        ck_assert_msg(strstr(from->records[i], CANARY) == NULL && strstr(from->records[i], "root:") == NULL &&
                          strstr(from->records[i], "LEAKED\n  #error") == NULL,
                      "%s: source %d: %.900s", what, i - FIRST, from->records[i]);
}

static void check_refusals(const answer *from, const char *what)
{
    ck_assert_int_eq(from->count, FIRST + INCLUDES + OTHERS + 2);
    for (int i = 0; i < INCLUDES; i++)
        ck_assert_msg(strstr(from->records[FIRST + i], "not open source file") != NULL, "%s: %s: %.900s", what,
                      includes[i], from->records[FIRST + i]);
    ck_assert_ptr_nonnull(strstr(from->records[FIRST + INCLUDES + OTHERS], "KILN_ECOMPILE"));
}

START_TEST(test_sandbox__hostile_text_reads_nothing)
{
    static const struct {
        unsigned nets;
        const char *name;
    } rows[] = { { CALLS, "the calls" }, { KERNEL, "the kernel" }, { BOTH, "both" } };
    answer seen;
    double start = seconds_now();
    add_hostile_sources();
    if (!run(&seen, rows[_i].nets, "", "sm_90"))
        return;
    check_nothing_leaked(&seen, rows[_i].name);
    check_refusals(&seen, rows[_i].name);
    FIGURES("sandbox: %s (%s): %d sources, nothing read, nothing waited for; %.1f s", rows[_i].name, seen.records[HOW],
            seen.count - FIRST - 1, seconds_now() - start);
    kiln__text_fini(&seen.text);
}
END_TEST

/* Else the test above could not fail. */
START_TEST(test_sandbox__without_it_text_is_read)
{
    answer seen;
    int leaks = 0;
    for (int i = 0; i < INCLUDES; i++)
        if (strstr(includes[i], "tty") == NULL)
            add_with_directory(includes[i]);
    add_with_directory(others[0]);
    ck_assert(run(&seen, NO_SANDBOX, "", "sm_90"));
    for (int i = FIRST; i < seen.count - 2; i++)
        leaks += strstr(seen.records[i], CANARY) != NULL;
    ck_assert_int_ge(leaks, 12);
    ck_assert_ptr_nonnull(strstr(seen.records[seen.count - 2], "LEAKED"));
    ck_assert_ptr_null(strstr(seen.records[TRIED], "ENOENT"));
    FIGURES("sandbox: none: %d sources read the file", leaks);
    kiln__text_fini(&seen.text);
}
END_TEST

/* ---- Which calls and paths */

START_TEST(test_sandbox__every_call_is_refused)
{
    answer seen;
    add_with_directory(includes[0]);
    ck_assert(run(&seen, _i == 0 ? CALLS : BOTH, "", "sm_90"));
    for (int i = TRIED; i <= REFUSED; i++) {
        ck_assert_ptr_null(strstr(seen.records[i], "granted"));
        ck_assert_ptr_null(strstr(seen.records[i], "ermission"));
    }
    /* NVRTC's own call landed there, or its path would not be known. */
    ck_assert_ptr_nonnull(strstr(last_record(&seen), "refused kiln.cu\n"));
    kiln__text_fini(&seen.text);
}
END_TEST

static bool has_line(const char *lines, const char *format, const char *name)
{
    char line[PATH_MAX + 32];
    snprintf(line, sizeof(line), format, kiln_test_temp_path(name));
    return strstr(lines, line) != NULL;
}

START_TEST(test_sandbox__what_is_allowed_is_read)
{
    static const unsigned nets[] = { CALLS, KERNEL, BOTH };
    bool calls = (nets[_i] & CALLS) != 0;
    answer seen;
    add_with_directory("#include \"%s/allowed/good.h\"");
    add_with_directory("#include \"%s/alias/good.h\"");
    add_with_directory("#include \"%s/allowed/../allowed/good.h\"");
    /* Only the calls know that one could wait for ever here. */
    if (calls)
        add_with_directory("#if __has_include(\"%s/allowed/fifo.h\")\n#error LEAKED\n#endif");
    add_hostile_sources();
    if (!run(&seen, nets[_i], kiln_test_temp_path("alias"), "sm_90"))
        return;
    for (int i = FIRST; i < FIRST + 3; i++)
        ck_assert_msg(strstr(seen.records[i], "KILN_OK") != NULL, "%.900s", seen.records[i]);
    check_nothing_leaked(&seen, seen.records[HOW]);
    if (calls) {
        ck_assert(has_line(last_record(&seen), "found %s\n", "allowed/good.h"));
        ck_assert(has_line(last_record(&seen), "found %s\n", "alias/good.h"));
        ck_assert(has_line(last_record(&seen), "refused %s\n", "allowed/escape.h"));
        ck_assert(has_line(last_record(&seen), "refused %s\n", "allowed-not/canary.h"));
        ck_assert_ptr_null(strstr(last_record(&seen), "and more"));
    }
    kiln__text_fini(&seen.text);
}
END_TEST

START_TEST(test_sandbox__one_allowed_file)
{
    answer seen;
    ck_assert(run(&seen, BOTH, kiln_test_temp_path("canary.h"), ""));
    ck_assert_msg(strstr(seen.records[TRIED], "ENOENT") == NULL && strstr(seen.records[TRIED], "denied") == NULL, "%s",
                  seen.records[TRIED]);
    ck_assert_msg(strstr(seen.records[REFUSED], "granted") == NULL, "%s", seen.records[REFUSED]);
    kiln__text_fini(&seen.text);
}
END_TEST

static void check_not_entered(const char *program, const char *allowed, const char *reason)
{
    const char *argv[] = { program, "3", allowed, kiln_test_temp_path("canary.h"), NULL };
    kiln__text output = { 0 };
    ck_assert_int_eq(kiln__process_run(argv, "", 0, WAIT_MS, &output), NOT_ENTERED);
    ck_assert_str_eq(kiln__text_string(&output), reason);
    kiln__text_fini(&output);
}

START_TEST(test_sandbox__relative_path_is_no_allowance)
{
    check_not_entered(getenv("KILN_SANDBOXED"), "allowed", "'allowed' is no absolute path");
}
END_TEST

START_TEST(test_sandbox__calls_that_nobody_finds_are_no_net)
{
    check_not_entered(getenv("KILN_SANDBOXED_HIDDEN"), "",
                      "this program does not export its own open: link it with src/kiln-worker/calls.syms");
}
END_TEST

START_TEST(test_sandbox__endless_paths_are_counted_off)
{
    answer seen;
    kiln__text probes = { 0 };
    for (int i = 0; i < 20000; i++)
        kiln__text_printf(&probes, "#if __has_include(\"/etc/absent/%d\")\n#error LEAKED\n#endif\n", i);
    add_source(kiln__text_string(&probes));
    ck_assert(run(&seen, CALLS, "", "sm_90"));
    check_nothing_leaked(&seen, "many probes");
    ck_assert_ptr_nonnull(strstr(last_record(&seen), "refused /etc/absent/1\n"));
    ck_assert_ptr_nonnull(strstr(last_record(&seen), "and more\n"));
    kiln__text_fini(&probes);
    kiln__text_fini(&seen.text);
}
END_TEST

/* ---- Ordinary units */

static void add_unit(kiln_service *service, const char *text)
{
    char *source;
    kiln_spec *spec = kiln_test_spec(service, text);
    ck_assert_int_eq(kiln_spec_source(&source, spec, NULL), KILN_OK);
    add_source(source);
    kiln_text_free(source);
    kiln_spec_free(spec);
}

START_TEST(test_sandbox__units_compile_to_the_same_bytes)
{
    static const char targets[] = "sm_75 sm_80 sm_86 sm_89 sm_90 sm_90a sm_100 sm_103 sm_110 sm_120 sm_121";
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    answer outside, inside;
    int compiled = 0;
    add_unit(service, "op=hardsigmoid dtype=bf16 target=sm_90");
    add_unit(service, "op=hardtanh(add(x,y)) dtype=f16 target=sm_90");
    add_unit(service, "op=hardsigmoid_linear dtype=f32 target=sm_90");
    kiln_close(service);
    ck_assert(run(&outside, NO_SANDBOX, "", targets));
    ck_assert(run(&inside, BOTH, "", targets));
    ck_assert_int_eq(inside.count, outside.count);
    for (int i = FIRST; i < inside.count - 1; i++) {
        ck_assert_str_eq(inside.records[i], outside.records[i]);
        compiled += strstr(inside.records[i], "KILN_OK") != NULL;
    }
    ck_assert_int_eq(compiled, inside.count - FIRST - 1);
    FIGURES("sandbox: %d units and targets compile to the same bytes inside and outside (%s)", compiled,
            inside.records[HOW]);
    kiln__text_fini(&outside.text);
    kiln__text_fini(&inside.text);
}
END_TEST

/* The compile stays on the main thread, whose stack the program has raised. */
START_TEST(test_sandbox__deep_source_has_the_whole_stack)
{
    enum { DEPTH = 10000 };
    answer seen;
    if (KILN_TEST_SANITIZED) {
        LEFT_OUT("sandbox: %d nested parentheses: not with sanitizers", (int)DEPTH);
        return;
    }
    kiln__text_append(&sources, "extern \"C\" __global__ void k(int *out) { *out = ");
    for (int i = 0; i < DEPTH; i++)
        kiln__text_append(&sources, "(");
    kiln__text_append(&sources, "1");
    for (int i = 0; i < DEPTH; i++)
        kiln__text_append(&sources, ")");
    add_source("; }");
    ck_assert(run(&seen, BOTH, "", "sm_90"));
    ck_assert_msg(strstr(seen.records[FIRST], "sm_90 KILN_OK") != NULL, "%.900s", seen.records[FIRST]);
    kiln__text_fini(&seen.text);
}
END_TEST

static bool has_nvrtc(void)
{
    kiln__compiler *probe = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    kiln__toolchain toolchain;
    bool found = probe->vtable->open(probe, &toolchain, NULL) == KILN_OK;
    probe->vtable->close(probe);
    return found;
}

Suite *kiln_test_fault_sandbox_suite(void)
{
    Suite *suite = suite_create("sandbox");
    if (!has_nvrtc()) {
        LEFT_OUT("sandbox: no NVRTC");
        return suite;
    }
    TCase *tcase = tcase_create("sandbox");
    tcase_set_timeout(tcase, 120);
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, test_sandbox__hostile_text_reads_nothing, 0, 3);
    tcase_add_test(tcase, test_sandbox__without_it_text_is_read);
    tcase_add_loop_test(tcase, test_sandbox__every_call_is_refused, 0, 2);
    tcase_add_loop_test(tcase, test_sandbox__what_is_allowed_is_read, 0, 3);
    tcase_add_test(tcase, test_sandbox__one_allowed_file);
    tcase_add_test(tcase, test_sandbox__relative_path_is_no_allowance);
    tcase_add_test(tcase, test_sandbox__calls_that_nobody_finds_are_no_net);
    tcase_add_test(tcase, test_sandbox__endless_paths_are_counted_off);
    tcase_add_test(tcase, test_sandbox__units_compile_to_the_same_bytes);
    tcase_add_test(tcase, test_sandbox__deep_source_has_the_whole_stack);
    suite_add_tcase(suite, tcase);
    return suite;
}
