/* Strict mode, looking without compiling, and the record of requests with its faults and races. */
#include "support/counting.h"
#include "support/declared.h"
#include "support/harness.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <fcntl.h>
#include <kiln/kernel.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CPU_SPEC  "op=hardsigmoid dtype=f32 target=cpu"
#define CPU_LINE  "op=hardsigmoid dtype=f32"
#define GPU_SPEC  "op=relu6 dtype=f16 target=sm_90"
#define HEADING   "# kiln record: what programs asked for, for kiln warm --manifest\n"
#define COMPILERS "/nonexistent/compiler"

static char content[1 << 16];

static const char *record_path(void)
{
    return kiln_test_temp_path("record.txt");
}

static const char *read_record(void)
{
    FILE *file = fopen(record_path(), "r");
    size_t length = file != NULL ? fread(content, 1, sizeof(content) - 1, file) : 0;
    content[length] = '\0';
    if (file != NULL)
        fclose(file);
    return content;
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

/* Options that record, with compilers that are not there: a get fails, but only after it was recorded. */
static kiln_options recording(void)
{
    kiln_options options = kiln_test_options();
    options.record = record_path();
    options.cc = options.nvrtc = COMPILERS;
    return options;
}

static kiln_status ask(kiln_service *service, const char *text)
{
    return kiln_test_ask(service, text, NULL);
}

static kiln_status probe(kiln_service *service, const char *text, kiln_origin *source)
{
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln_status status = kiln_test_find_stored(source, service, spec, NULL);
    kiln_spec_free(spec);
    return status;
}

START_TEST(test_record__strict_refuses_what_is_not_there_and_says_what_to_run)
{
    kiln_options options = kiln_test_options();
    options.strict = KILN_ON;
    kiln_service *service = kiln_test_open(&options);
    kiln_spec *spec = kiln_test_spec(service, CPU_SPEC);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_kernel *kernel;
    kiln_program *program;
    char expected[512];
    snprintf(expected, sizeof(expected),
             "run kiln warm 'op=hardsigmoid dtype=f32 block=1024 elems=64 vector=4 cache=plain target=cpu' "
             "--cache-dir '%s'",
             options.cache_dir);
    ck_assert_int_eq(kiln_get_kernel(&kernel, service, spec, &report), KILN_ESTRICT);
    ck_assert_ptr_null(kernel);
    ck_assert_int_eq(report.status, KILN_ESTRICT);
    ck_assert_msg(strstr(report.message, expected) != NULL, "'%s' is not in: %s", expected, report.message);
    ck_assert_int_eq(kiln_test_build_spec(&program, service, spec, &report), KILN_ESTRICT);
    kiln_stats stats = kiln_test_stats(service);
    ck_assert_uint_eq(stats.strict_refusals, 2);
    ck_assert_uint_eq(stats.compiles + stats.compile_failures, 0);
    kiln_report_clear(&report);
    kiln_spec_free(spec);
    kiln_close(service);
}
END_TEST

/* What a strict service in the directory "it's" answers to a spec: it refuses it. */
static const char *refusal(kiln_service *service, const char *text, kiln_report *report)
{
    kiln_program *program;
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln_report_clear(report);
    ck_assert_int_eq(kiln_test_build_spec(&program, service, spec, report), KILN_ESTRICT);
    kiln_spec_free(spec);
    return report->message;
}

static kiln_service *open_strict(char end[512])
{
    kiln_options options = kiln_test_options();
    options.strict = KILN_ON;
    options.cache_dir = kiln_test_temp_path("it's");
    snprintf(end, 512, " --cache-dir '%s/it'\\''s'", kiln_test_temp_dir());
    return kiln_test_open(&options);
}

static void expect_end(const char *text, const char *end)
{
    size_t length = strlen(text), expected = strlen(end);
    ck_assert_msg(length >= expected && strcmp(text + length - expected, end) == 0, "'%s' does not end '%s'", text,
                  end);
}

/* The line has what users defined, each word as a shell reads it: what the spec calls at any depth and nothing else. */
START_TEST(test_record__strict_line_defines_ops)
{
    kiln_report report = KILN_INIT(kiln_report);
    char directory[512], end[1024], definition[1024] = "huge(x) = x";
    kiln_service *service = open_strict(directory);
    while (strlen(definition) < 600)
        strcat(definition, " + 1.0000000000000000000000");
    ck_assert_int_eq(kiln_op_define(service, "inner(x; hi=6) = min(x, hi)", NULL), KILN_OK);
    ck_assert_int_eq(kiln_op_define(service, "unused(x) = x", NULL), KILN_OK);
    ck_assert_int_eq(kiln_op_define(service, "likely(x) = inner(x)", NULL), KILN_OK);
    ck_assert_int_eq(kiln_op_define(service, "outer(x) = 2 * inner(x, 5) within 1 ulp of 2 * likely(x)", NULL),
                     KILN_OK);
    ck_assert_int_eq(kiln_op_define(service, definition, NULL), KILN_OK);
    snprintf(end, sizeof(end),
             " target=cpu' --define-op 'inner(x; hi=6) = min(x, hi)' --define-op 'likely(x) = inner(x)' --define-op "
             "'outer(x) = 2 * inner(x, 5) within 1 ulp of 2 * likely(x)'%s",
             directory);
    expect_end(refusal(service, "op=relu6(outer(x)) dtype=f32 target=cpu", &report), end);
    snprintf(end, sizeof(end), " target=cpu'%s", directory);
    expect_end(refusal(service, "op=relu6 dtype=f32 target=cpu", &report), end);
    ck_assert_ptr_null(report.log);
    /* Longer than a message. */
    ck_assert_ptr_nonnull(strstr(refusal(service, "op=huge dtype=f32 target=cpu", &report),
                                 "run the kiln warm line of this report's log: op=huge dtype=f32"));
    snprintf(end, sizeof(end), " target=cpu' --define-op '%s'%s", definition, directory);
    ck_assert_ptr_nonnull(report.log);
    ck_assert_int_eq(strncmp(report.log, "kiln warm 'op=huge dtype=f32 ", 29), 0);
    expect_end(report.log, end);
    kiln_report_clear(&report);
    kiln_close(service);
}
END_TEST

#define TEMPLATE(name)                                                                         \
    "//! template " name "\n//! dtype f32\n//! reference inner\n"                              \
    "//! param block 32..1024 step 32 = 256\n//! tile block\n//! entry k align 4\n" DECLARED_X \
    "extern \"C\" __global__ void k(float *out, const float *x, unsigned long long n) { }\n"

START_TEST(test_record__strict_line_names_the_template)
{
    kiln_report report = KILN_INIT(kiln_report);
    char directory[512], end[1024];
    kiln_service *service = open_strict(directory);
    ck_assert_int_eq(kiln_op_define(service, "inner(x) = x", NULL), KILN_OK);
    kiln_test_temp_write("filed.cu", TEMPLATE("filed"), strlen(TEMPLATE("filed")));
    ck_assert_int_eq(kiln_template_load(service, kiln_test_temp_path("filed.cu"), NULL, &report), KILN_OK);
    ck_assert_int_eq(kiln_template_define(service, TEMPLATE("homeless"), NULL, NULL, &report), KILN_OK);
    snprintf(end, sizeof(end), " target=sm_90' --define-op 'inner(x) = x' --template '%s/filed.cu'%s",
             kiln_test_temp_dir(), directory);
    expect_end(refusal(service, "template=filed target=sm_90", &report), end);
    expect_end(refusal(service, "template=homeless target=sm_90", &report),
               "strict mode compiles nothing: build it in the program that defines the template, which is in no file: "
               "template=homeless dtype=f32 block=256 target=sm_90");
    kiln_report_clear(&report);
    kiln_close(service);
}
END_TEST

START_TEST(test_record__strict_runs_what_was_warmed)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_program_release(kiln_test_build(service, CPU_SPEC));
    kiln_close(service);
    options.strict = KILN_ON;
    service = kiln_test_open(&options);
    kiln_kernel *kernel = kiln_test_get(service, CPU_SPEC);
    kiln_test_check_hardsigmoid(kernel);
    kiln_kernel_release(kernel);
    ck_assert_uint_eq(kiln_test_stats(service).strict_refusals, 0);
    ck_assert_int_eq(ask(service, "op=relu6 target=cpu"), KILN_ESTRICT);
    kiln_close(service);
}
END_TEST

/* A store that was copied to another machine does not know this machine's compiler, and to learn its full name would
 * take a compile. */
START_TEST(test_record__strict_takes_a_copied_store_whatever_compiler_is_here)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_program_release(kiln_test_build(service, GPU_SPEC));
    kiln_program_release(kiln_test_build(service, CPU_SPEC));
    char command[1024];
    kiln_cache_info info = KILN_INIT(kiln_cache_info);
    ck_assert_int_eq(kiln_cache_get_info(service, &info, NULL), KILN_OK);
    snprintf(command, sizeof(command), "find '%s' -name '*.host.kiln' -delete", info.directory);
    kiln_close(service);
    ck_assert_int_eq(system(command), 0);
    options.strict = KILN_ON;
    for (int without = 0; without < 2; without++) {
        options.cc = options.nvrtc = without ? COMPILERS : NULL;
        service = kiln_test_open(&options);
        kiln_origin source;
        ck_assert_int_eq(probe(service, GPU_SPEC, &source), KILN_OK);
        kiln_program_release(kiln_test_build(service, GPU_SPEC));
        kiln_program_release(kiln_test_build(service, CPU_SPEC));
        kiln_stats stats = kiln_test_stats(service);
        ck_assert_uint_eq(stats.compiles + stats.compile_failures + stats.strict_refusals, 0);
        ck_assert_int_eq(ask(service, "op=relu6 target=cpu"), KILN_ESTRICT);
        kiln_close(service);
    }
}
END_TEST

START_TEST(test_record__strict_comes_from_option_then_environment)
{
    static const struct {
        const char *environment;
        kiln_switch option;
        kiln_status expected;
    } cases[] = { { "1", KILN_DEFAULT, KILN_ESTRICT },     { "yes", KILN_DEFAULT, KILN_ESTRICT },
                  { "0", KILN_DEFAULT, KILN_ENOCOMPILER }, { "", KILN_DEFAULT, KILN_ENOCOMPILER },
                  { "1", KILN_OFF, KILN_ENOCOMPILER },     { "0", KILN_ON, KILN_ESTRICT } };
    kiln_options options = kiln_test_options();
    kiln_service *service;
    options.cc = COMPILERS;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        setenv("KILN_STRICT", cases[i].environment, 1);
        options.strict = cases[i].option;
        service = kiln_test_open(&options);
        ck_assert_msg(ask(service, CPU_SPEC) == cases[i].expected, "case %zu", i);
        kiln_close(service);
    }
    unsetenv("KILN_STRICT");
    options.strict = (kiln_switch)3;
    ck_assert_int_eq(kiln_open(&service, &options, NULL), KILN_EINVAL);
}
END_TEST

START_TEST(test_record__a_strict_refusal_fits_the_store)
{
    static const char *const expected[] = { " and open the service with a cache_dir", "/it'\\''s'" };
    kiln_options options = kiln_test_options();
    options.strict = KILN_ON;
    for (int i = 0; i < 2; i++) {
        options.cache_dir = i == 0 ? "" : kiln_test_temp_path("it's");
        kiln_service *service = kiln_test_open(&options);
        kiln_report report = KILN_INIT(kiln_report);
        ck_assert_int_eq(kiln_test_ask(service, CPU_SPEC, &report), KILN_ESTRICT);
        size_t length = strlen(report.message), end = strlen(expected[i]);
        ck_assert_msg(length > end && strcmp(report.message + length - end, expected[i]) == 0, "%s", report.message);
        kiln_report_clear(&report);
        kiln_close(service);
    }
}
END_TEST

START_TEST(test_record__a_strict_request_finds_and_never_compiles)
{
    kiln_options options = kiln_test_options();
    kiln_service *service = kiln_test_open(&options);
    kiln_origin source = KILN_ORIGIN_COMPILED;
    ck_assert_int_eq(probe(service, CPU_SPEC, &source), KILN_ESTRICT);
    ck_assert_int_eq(source, 0);
    ck_assert_int_eq(probe(service, GPU_SPEC, NULL), KILN_ESTRICT);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 0);
    kiln_program_release(kiln_test_build(service, CPU_SPEC));
    ck_assert_int_eq(probe(service, CPU_SPEC, &source), KILN_OK);
    ck_assert_int_eq(source, KILN_ORIGIN_MEMORY);
    ck_assert_int_eq(probe(service, CPU_SPEC " block=512", &source), KILN_ESTRICT);
    ck_assert_int_eq(kiln_test_find_stored(NULL, service, NULL, NULL), KILN_EINVAL);
    ck_assert_uint_eq(kiln_test_stats(service).compiles, 1);
    kiln_close(service);

    service = kiln_test_open(&options);
    ck_assert_int_eq(probe(service, CPU_SPEC, &source), KILN_OK);
    ck_assert_int_eq(source, KILN_ORIGIN_DISK);
    ck_assert_uint_eq(kiln_test_stats(service).loads + kiln_test_stats(service).compiles, 0);
    const char *path = kiln_test_entry_path(service);
    ck_assert_int_eq(truncate(path, 100), 0);
    kiln_close(service);
    service = kiln_test_open(&options);
    ck_assert_msg(probe(service, CPU_SPEC, NULL) == KILN_ESTRICT, "a damaged entry counts as found");
    kiln_close(service);
}
END_TEST

START_TEST(test_record__each_request_is_written_once_as_it_was_asked)
{
    kiln_options options = recording();
    for (int round = 0; round < 2; round++) {
        kiln_service *service = kiln_test_open(&options);
        for (int i = 0; i < 3; i++) {
            ask(service, CPU_SPEC);
            ask(service, "target=cpu op=hardsigmoid(x)");
            ask(service, "op=hardtanh(-2,2) block=64 dtype=f64 n=1000"); /* of the power of two */
            ask(service, "op=hardtanh(-2,2) block=64 dtype=f64 n=1050");
            ask(service, "op=relu6 block=64 elems=4 vector=4 cache=plain n=9"); /* nothing open that n could choose */
        }
        kiln_spec *spec = kiln_test_spec(service, GPU_SPEC);
        kiln_program *program;
        ck_assert_int_eq(kiln_test_build_spec(&program, service, spec, NULL), KILN_ENOCOMPILER);
        ck_assert_int_eq(kiln_test_find_stored(NULL, service, spec, NULL), KILN_ESTRICT);
        ck_assert_int_eq(probe(service, "op=copy target=cpu", NULL), KILN_ESTRICT);
        ck_assert_int_eq(kiln_get_kernel(&(kiln_kernel *){ NULL }, service, spec, NULL), KILN_ENODEVICE);
        kiln_spec_free(spec);
        ck_assert_uint_eq(kiln_test_stats(service).record_errors, 0);
        kiln_close(service);
        ck_assert_str_eq(read_record(), HEADING CPU_LINE
                         "\nop=hardtanh(-2,2) dtype=f64 block=64 n=1024\n"
                         "op=relu6 dtype=f32 block=64 elems=4 vector=4 cache=plain\nop=relu6 dtype=f16\n"
                         "op=copy dtype=f32\n");
    }
}
END_TEST

START_TEST(test_record__a_hit_is_recorded_and_strict_refusals_are)
{
    kiln_options options = kiln_test_options();
    options.record = record_path();
    kiln_service *service = kiln_test_open(&options);
    kiln_kernel_release(kiln_test_get(service, CPU_SPEC));
    ck_assert_int_eq(unlink(record_path()), 0);
    kiln_close(service);
    options.strict = KILN_ON;
    service = kiln_test_open(&options);
    kiln_kernel_release(kiln_test_get(service, CPU_SPEC));
    kiln_kernel_release(kiln_test_get(service, CPU_SPEC));
    kiln_kernel_release(kiln_test_get(service, CPU_SPEC " block=1024"));
    ck_assert_uint_eq(kiln_test_stats(service).hits_loaded, 2);
    ck_assert_int_eq(ask(service, "op=relu6 target=cpu"), KILN_ESTRICT);
    kiln_close(service);
    ck_assert_str_eq(read_record(), HEADING CPU_LINE "\n" CPU_LINE " block=1024\nop=relu6 dtype=f32\n");
}
END_TEST

START_TEST(test_record__asynchronous_gets_are_recorded_and_refused_too)
{
    kiln_options options = kiln_test_counting_options(0);
    options.record = record_path();
    options.strict = KILN_ON;
    kiln_service *service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_test_get_async(service, CPU_SPEC, NULL), KILN_ESTRICT);
    ck_assert_uint_eq(kiln_test_stats(service).strict_refusals, 1);
    ck_assert_int_eq(kiln_test_counting_count(), 0);
    ck_assert_str_eq(read_record(), HEADING CPU_LINE "\n");
    kiln_close(service);
    kiln_test_temp_remove(record_path());
    options.strict = KILN_OFF;
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_test_get_async(service, CPU_SPEC, NULL), KILN_OK);
    ck_assert_str_eq(read_record(), HEADING CPU_LINE "\n");
    ck_assert_int_eq(kiln_test_get_async(service, CPU_SPEC, NULL), KILN_OK);
    ck_assert_int_eq(ask(service, CPU_SPEC), KILN_OK);
    ck_assert_uint_eq(kiln_test_stats(service).hits_loaded, 2);
    ck_assert_str_eq(read_record(), HEADING CPU_LINE "\n");
    kiln_close(service);
    options.strict = KILN_ON;
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_test_get_async(service, CPU_SPEC, NULL), KILN_OK);
    ck_assert_uint_eq(kiln_test_stats(service).hits_disk, 1);
    kiln_close(service);
}
END_TEST

enum { ASKED = 60, DISTINCT = 12 };

static int called;

/* What was asked for is in the file by now. */
static void find_line(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln_kernel *kernel = kiln_test_take_kernel(program);
    char line[80];
    (void)report;
    snprintf(line, sizeof(line), "\nop=hardtanh(-1,%d) dtype=f32\n", *(const int *)data);
    ck_assert_int_eq(status, KILN_OK);
    ck_assert_msg(strstr(read_record(), line) != NULL, "the callback came before the line:%s", line);
    called++;
    kiln_kernel_release(kernel);
}

START_TEST(test_record__a_callback_comes_after_its_line)
{
    static int highs[DISTINCT];
    kiln_queue *queue;
    kiln_options options = kiln_test_counting_options(0);
    options.record = record_path();
    kiln_service *service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
    called = 0;
    for (int i = 0; i < ASKED; i++) {
        char text[80];
        int *high = &highs[i % DISTINCT];
        *high = 1 + i % DISTINCT;
        snprintf(text, sizeof(text), "op=hardtanh(-1,%d) dtype=f32 target=cpu", *high);
        kiln_spec *spec = kiln_test_spec(service, text);
        ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, find_line, high), KILN_OK);
        kiln_spec_free(spec);
        kiln_queue_wait(queue, 0);
    }
    while (kiln_queue_wait(queue, 30000) > 0) {
    }
    ck_assert_int_eq(called, ASKED);
    ck_assert_int_eq(count_of(read_record(), "\n"), 1 + DISTINCT);
    kiln_queue_close(queue, NULL, NULL);
    kiln_close(service);
}
END_TEST

static void ignore(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    (void)data;
    (void)status;
    (void)report;
    kiln_program_release(program);
}

START_TEST(test_record__what_was_given_up_is_recorded)
{
    kiln_queue *queue;
    kiln_ticket request;
    kiln_options options = recording();
    kiln_service *service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
    kiln_spec *spec = kiln_test_spec(service, CPU_SPEC);
    ck_assert_int_eq(kiln_test_submit(&request, queue, spec, NULL, ignore, NULL), KILN_OK);
    kiln_cancel(queue, request);
    ck_assert_int_eq(kiln_queue_wait(queue, 30000), 1);
    for (int i = 0; i < 3000 && read_record()[0] == '\0'; i++)
        usleep(10000);
    ck_assert_str_eq(read_record(), HEADING CPU_LINE "\n");
    kiln_spec_free(spec);
    kiln_queue_close(queue, NULL, NULL);
    kiln_close(service);
}
END_TEST

START_TEST(test_record__from_the_environment)
{
    kiln_options options = recording();
    options.record = NULL;
    setenv("KILN_RECORD", record_path(), 1);
    kiln_service *service = kiln_test_open(&options);
    ask(service, CPU_SPEC);
    kiln_close(service);
    ck_assert_str_eq(read_record(), HEADING CPU_LINE "\n");
    options.record = "";
    service = kiln_test_open(&options);
    ask(service, "op=relu6 target=cpu");
    kiln_close(service);
    unsetenv("KILN_RECORD");
    ck_assert_str_eq(read_record(), HEADING CPU_LINE "\n");
}
END_TEST

START_TEST(test_record__foreign_and_torn_lines_are_kept_and_do_no_harm)
{
    static const char before[] = "\xff\xfe\n  " CPU_LINE "   # by hand\r\nnonsense = = (\n\nop=relu6 dty";
    kiln_options options = recording();
    kiln_test_temp_write("record.txt", before, sizeof(before) - 1);
    kiln_service *service = kiln_test_open(&options);
    ask(service, CPU_SPEC);
    ck_assert_str_eq(read_record(), before);
    ask(service, "op=relu6 dtype=f32 target=cpu");
    ask(service, "op=copy dtype=f32 target=cpu");
    ck_assert_uint_eq(kiln_test_stats(service).record_errors, 0);
    kiln_close(service);
    char expected[512];
    snprintf(expected, sizeof(expected), "%s\nop=relu6 dtype=f32\nop=copy dtype=f32\n", before);
    ck_assert_str_eq(read_record(), expected);
}
END_TEST

START_TEST(test_record__long_foreign_lines_and_a_file_longer_than_a_read)
{
    enum { LENGTH = 300000 };
    char *text = malloc(LENGTH);
    memset(text, 'x', LENGTH);
    for (size_t i = 150000; i < LENGTH - 100; i += 100)
        memcpy(text + i, "\nop=add(x,y) dtype=f64\n", 23);
    memcpy(text + LENGTH - 60, "\n" CPU_LINE "\n", sizeof(CPU_LINE) + 1);
    text[LENGTH - 1] = '\n';
    kiln_test_temp_write("record.txt", text, LENGTH);
    free(text);
    kiln_options options = recording();
    kiln_service *service = kiln_test_open(&options);
    ask(service, CPU_SPEC);
    ask(service, "op=add dtype=f64 target=cpu");
    struct stat status;
    ck_assert_int_eq(stat(record_path(), &status), 0);
    ck_assert_int_eq(status.st_size, LENGTH);
    kiln_close(service);
}
END_TEST

START_TEST(test_record__what_others_add_is_seen_and_a_new_file_is_filled_anew)
{
    kiln_options options = recording();
    kiln_service *one = kiln_test_open(&options), *two = kiln_test_open(&options);
    ask(one, CPU_SPEC);
    ask(two, "op=relu6 dtype=f32 target=cpu");
    ask(two, CPU_SPEC);
    ask(one, "op=relu6 dtype=f32 target=cpu");
    ck_assert_str_eq(read_record(), HEADING CPU_LINE "\nop=relu6 dtype=f32\n");
    ck_assert_int_eq(rename(record_path(), kiln_test_temp_path("record.old")), 0);
    ask(one, "op=copy dtype=f32 target=cpu");
    ask(two, "op=copy dtype=f32 target=cpu");
    ask(two, CPU_SPEC);
    ck_assert_str_eq(read_record(), HEADING "op=copy dtype=f32\n");
    kiln_close(one);
    kiln_close(two);
}
END_TEST

static void expect_fault(kiln_options *options, const char *word)
{
    kiln_test_log log = { 0 };
    options->log = kiln_test_log_line;
    options->log_data = &log;
    options->cc = NULL;
    kiln_service *service = kiln_test_open(options);
    kiln_kernel *kernel = kiln_test_get(service, CPU_SPEC);
    kiln_test_check_hardsigmoid(kernel);
    kiln_kernel_release(kernel);
    kiln_kernel_release(kiln_test_get(service, CPU_SPEC));
    kiln_kernel_release(kiln_test_get(service, "op=relu6 target=cpu"));
    ck_assert_uint_eq(kiln_test_stats(service).record_errors, 2);
    ck_assert_int_eq(log.warnings, 1);
    ck_assert_msg(strstr(log.last, word) != NULL && strstr(log.last, options->record) != NULL, "%s", log.last);
    kiln_close(service);
}

START_TEST(test_record__a_fault_of_the_file_is_one_warning)
{
    kiln_options options = recording();
    options.record = kiln_test_temp_path("none/record.txt");
    expect_fault(&options, "No such file");
    options.record = kiln_test_temp_dir();
    expect_fault(&options, "directory");
    options.record = kiln_test_temp_path("fifo");
    ck_assert_int_eq(mkfifo(options.record, 0600), 0);
    expect_fault(&options, "not a regular file");
    options.record = "/dev/full";
    expect_fault(&options, "not a regular file");
    options.record = kiln_test_temp_path("huge");
    ck_assert_int_eq(close(open(options.record, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    ck_assert_int_eq(truncate(options.record, (64 << 20) + 1), 0);
    expect_fault(&options, "64 MiB");
}
END_TEST

/* A disk that fills up within a line: what follows must stand on a line of its own. */
START_TEST(test_record__a_line_cut_by_a_full_disk_does_not_harm_the_next)
{
    kiln_options options = recording();
    kiln_service *service = kiln_test_open(&options);
    kiln_spec *cut = kiln_test_spec(service, "op=relu6 dtype=f32 target=cpu");
    kiln_spec *next = kiln_test_spec(service, "op=copy dtype=f32 target=cpu");
    ask(service, CPU_SPEC);
    rlim_t size = strlen(read_record());
    pid_t child = fork();
    if (child == 0) { /* Check itself writes files, which the limit would cut too */
        struct rlimit old, limit;
        kiln_kernel *kernel;
        getrlimit(RLIMIT_FSIZE, &old);
        service = kiln_test_open(&options);
        limit = (struct rlimit){ .rlim_cur = size + 7, .rlim_max = old.rlim_max };
        setrlimit(RLIMIT_FSIZE, &limit);
        int status = kiln_get_kernel(&kernel, service, cut, NULL) == KILN_ENOCOMPILER ? 0 : 1;
        setrlimit(RLIMIT_FSIZE, &old);
        status |= kiln_get_kernel(&kernel, service, next, NULL) == KILN_ENOCOMPILER ? 0 : 2;
        kiln_stats stats = KILN_INIT(kiln_stats);
        kiln_stats_get(service, &stats);
        _exit(status | (stats.record_errors == 1 ? 0 : 4));
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    kiln_spec_free(cut);
    kiln_spec_free(next);
    kiln_close(service);
    ck_assert_str_eq(read_record(), HEADING CPU_LINE "\nop=relu\nop=copy dtype=f32\n");
}
END_TEST

enum { PROCESSES = 8, THREADS = 4, SPECS = 20 };

static void *ask_many(void *service)
{
    char text[128];
    for (int i = 0; i < SPECS; i++) {
        snprintf(text, sizeof(text), "op=hardtanh(-1,%d) dtype=f32 target=cpu", i + 1);
        ask(service, text);
    }
    return NULL;
}

static void ask_in_threads(const kiln_options *options)
{
    pthread_t threads[THREADS];
    kiln_service *service = kiln_test_open(options);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_many, service), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    kiln_close(service);
}

/* Every line must be whole and every spec there; processes at the same moment may write a line twice, threads not. */
START_TEST(test_record__threads_and_processes_share_a_file)
{
    kiln_options options = recording();
    ask_in_threads(&options);
    ck_assert_int_eq(count_of(read_record(), "\n"), SPECS + 1);
    ck_assert_int_eq(unlink(record_path()), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            ask_in_threads(&options);
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    const char *text = read_record();
    kiln_service *service = kiln_test_open(&options);
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        char copy[256];
        snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(line, "\n"), line);
        if (copy[0] != '#' && copy[0] != '\0')
            kiln_spec_free(kiln_test_spec(service, copy));
    }
    kiln_close(service);
    for (int i = 0; i < SPECS; i++) {
        char line[128];
        snprintf(line, sizeof(line), "\nop=hardtanh(-1,%d) dtype=f32\n", i + 1);
        ck_assert_msg(strstr(text, line) != NULL, "missing: %s", line + 1);
    }
    ck_assert_int_lt(count_of(text, "\nop="), PROCESSES * SPECS);
}
END_TEST

Suite *kiln_test_service_record_suite(void)
{
    Suite *suite = suite_create("record");
    TCase *tcase = tcase_create("record and strict");
    kiln_test_temp_use(tcase);
    tcase_add_test(tcase, test_record__strict_refuses_what_is_not_there_and_says_what_to_run);
    tcase_add_test(tcase, test_record__strict_line_defines_ops);
    tcase_add_test(tcase, test_record__strict_line_names_the_template);
    tcase_add_test(tcase, test_record__strict_runs_what_was_warmed);
    tcase_add_test(tcase, test_record__strict_takes_a_copied_store_whatever_compiler_is_here);
    tcase_add_test(tcase, test_record__strict_comes_from_option_then_environment);
    tcase_add_test(tcase, test_record__a_strict_refusal_fits_the_store);
    tcase_add_test(tcase, test_record__a_strict_request_finds_and_never_compiles);
    tcase_add_test(tcase, test_record__each_request_is_written_once_as_it_was_asked);
    tcase_add_test(tcase, test_record__a_hit_is_recorded_and_strict_refusals_are);
    tcase_add_test(tcase, test_record__asynchronous_gets_are_recorded_and_refused_too);
    tcase_add_test(tcase, test_record__a_callback_comes_after_its_line);
    tcase_add_test(tcase, test_record__what_was_given_up_is_recorded);
    tcase_add_test(tcase, test_record__from_the_environment);
    tcase_add_test(tcase, test_record__foreign_and_torn_lines_are_kept_and_do_no_harm);
    tcase_add_test(tcase, test_record__long_foreign_lines_and_a_file_longer_than_a_read);
    tcase_add_test(tcase, test_record__what_others_add_is_seen_and_a_new_file_is_filled_anew);
    tcase_add_test(tcase, test_record__a_fault_of_the_file_is_one_warning);
    tcase_add_test(tcase, test_record__a_line_cut_by_a_full_disk_does_not_harm_the_next);
    tcase_add_test(tcase, test_record__threads_and_processes_share_a_file);
    suite_add_tcase(suite, tcase);
    return suite;
}
