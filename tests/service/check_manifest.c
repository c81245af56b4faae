/* Manifests by the public API: definitions, specs, records, and lines that are wrong. */
#include "base/alloc.h"
#include "support/harness.h"
#include "support/requesting.h"
#include "support/suites.h"
#include "support/temp.h"
#include <kiln/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (int)(sizeof(array) / sizeof(*(array)))
#define RECORD       "# kiln record: by hand\n"
#define EXAMPLE      "./mine.cu" /* declares hardsigmoid256 */

static kiln_service *service;
static char seen[1 << 14]; /* a line for each call of collect */

/* Relative paths start at the working directory. */
static void enter_directory(void)
{
    static const char *const files[] = { "mine.cu", "mine.c" };
    char target[4096];
    ck_assert_int_eq(chdir(kiln_test_temp_dir()), 0);
    for (int i = 0; i < COUNT(files); i++) {
        snprintf(target, sizeof(target), "%s/hardsigmoid256%s", getenv("KILN_EXAMPLE_TEMPLATES"),
                 strchr(files[i], '.'));
        ck_assert_int_eq(symlink(target, files[i]), 0);
    }
}

static void open_service(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
    seen[0] = '\0';
}

static void close_service(void)
{
    kiln_close(service);
}

static kiln_manifest manifest_of(const char *text, const char *target)
{
    kiln_manifest manifest = KILN_INIT(kiln_manifest);
    manifest.text = text;
    manifest.name = "kernels.txt";
    manifest.target = target;
    return manifest;
}

static int collect(void *data, const kiln_manifest_line *line)
{
    char *at = seen + strlen(seen);
    int *left = data;
    ck_assert_uint_eq(line->size, sizeof(*line));
    ck_assert_int_eq((line->spec != NULL) + (line->definition[0] != '\0') + (line->problem[0] != '\0'), 1);
    ck_assert_int_eq(line->problem[0] != '\0', line->status != KILN_OK);
    snprintf(at, sizeof(seen) - (size_t)(at - seen), "%zu %s%s%s\n", line->number, line->problem[0] ? "skipped: " : "",
             line->spec != NULL ? kiln_spec_text(line->spec) : line->definition, line->problem);
    return left != NULL && --*left == 0;
}

static kiln_status read_text(const char *text, const char *target, kiln_report *report)
{
    const kiln_manifest manifest = manifest_of(text, target);
    seen[0] = '\0';
    return kiln_manifest_read(service, &manifest, collect, NULL, report);
}

START_TEST(test_manifest__lines_are_definitions_and_specs)
{
    kiln_report report = KILN_INIT(kiln_report);
    static const char text[] = "\xEF\xBB\xBF# kernels\r\n"
                               "\r\n"
                               "  define op  twice(x) = x + x  # an op\r\n"
                               "op=twice,relu6 dtype=f32 block=64..128*2\n"
                               "op=copy dtype=f16 target=sm_90,cpu\n"
                               "\top=hardtanh(-1,1) target= \n"
                               "template=" EXAMPLE ",elementwise op=\n"
                               "define template " EXAMPLE "\n"
                               "template=hardsigmoid256 target=sm_80"; /* without an end */
    static const char events[] = "3 define op twice(x) = x + x\n"
                                 "4 op=twice dtype=f32 block=64 target=cpu\n"
                                 "4 op=twice dtype=f32 block=128 target=cpu\n"
                                 "4 op=relu6 dtype=f32 block=64 target=cpu\n"
                                 "4 op=relu6 dtype=f32 block=128 target=cpu\n"
                                 "5 op=copy dtype=f16 target=sm_90\n"
                                 "5 op=copy dtype=f16 target=cpu\n"
                                 "6 op=hardtanh(-1,1) target=cpu\n"
                                 "7 define template " EXAMPLE "\n"
                                 "7 template=hardsigmoid256 target=cpu\n"
                                 "7 target=cpu\n"
                                 "8 define template " EXAMPLE "\n"
                                 "9 template=hardsigmoid256 target=sm_80\n";
    ck_assert_msg(read_text(text, "cpu", &report) == KILN_OK, "%s", report.message);
    ck_assert_str_eq(seen, events);
    ck_assert_str_eq(report.message, "");
}
END_TEST

START_TEST(test_manifest__targets_are_open_or_a_list)
{
    ck_assert_int_eq(read_text("op=relu6\nop=copy target=sm_90\n", NULL, NULL), KILN_OK);
    ck_assert_str_eq(seen, "1 op=relu6\n2 op=copy target=sm_90\n");
    ck_assert_int_eq(read_text("op=relu6\nop=copy target=sm_90\n", "sm_80,native", NULL), KILN_OK);
    ck_assert_str_eq(seen, "1 op=relu6 target=sm_80\n1 op=relu6 target=cpu\n2 op=copy target=sm_90\n");
}
END_TEST

START_TEST(test_manifest__only_so_many_bytes_are_read)
{
    const char text[] = { 'o', 'p', '=', 'r', 'e', 'l', 'u', '6', '\n', '\xEF', '\xBB' };
    kiln_manifest manifest = manifest_of(text, "cpu");
    manifest.length = 9;
    ck_assert_int_eq(kiln_manifest_read(service, &manifest, collect, NULL, NULL), KILN_OK);
    ck_assert_str_eq(seen, "1 op=relu6 target=cpu\n");
    manifest.text = text + 9;
    manifest.length = 2;
    ck_assert_int_eq(kiln_manifest_read(service, &manifest, collect, NULL, NULL), KILN_ESPEC);
    ck_assert_int_eq(read_text("", NULL, NULL), KILN_OK);
    ck_assert_str_eq(seen, "");
}
END_TEST

static const struct {
    const char *text;
    kiln_status status;
    const char *message; /* its beginning */
    const char *seen;
} bad[] = {
    { "op=relu6\nop=relu7\n", KILN_EOP, "kernels.txt:2: unknown op 'relu7'", "1 op=relu6 target=cpu\n" },
    { "\n\nop=relu6 dty\n", KILN_EOP, "kernels.txt:3: op, character 7: unexpected 'dty' behind the expression", "" },
    { "op=relu6 block=64,100", KILN_ESPEC, "kernels.txt:1: block=100 is not a multiple of 32", "" },
    { "op=relu6 target=sm90", KILN_ETARGET, "kernels.txt:1: unknown target 'sm90'", "" },
    { "op=relu6 target= target=cpu", KILN_ESPEC, "kernels.txt:1: field target given twice", "" },
    { "define", KILN_ESPEC, "kernels.txt:1: write define op NAME(x) = EXPRESSION, or define template FILE.cu", "" },
    { "define opp a = x", KILN_ESPEC, "kernels.txt:1: write define op NAME", "" },
    { "define op", KILN_EOP, "kernels.txt:1: ", "" },
    { "define op a = (x", KILN_EOP, "kernels.txt:1: op a, character 7", "" },
    { "define op add = x", KILN_EOP, "kernels.txt:1: op add is one of Kiln's own", "" },
    { "define template", KILN_EINVAL, "kernels.txt:1: '' is no template's path", "" },
    { "define template mine.c", KILN_EINVAL, "kernels.txt:1: 'mine.c' is no template's path", "" },
    { "define template /nowhere/gone.cu", KILN_ENOENT, "kernels.txt:1: /nowhere/gone.cu cannot be read", "" },
    { "op=relu6\ntemplate=/nowhere/gone.cu", KILN_ENOENT, "kernels.txt:2: /nowhere/gone.cu cannot be read",
      "1 op=relu6 target=cpu\n" },
    { "template=gone.cu,/nowhere", KILN_ENOENT, "kernels.txt:1: gone.cu cannot be read", "" },
    { "template=elementwise,/nowhere", KILN_EINVAL, "kernels.txt:1: '/nowhere' is no template's path", "" },
    { "template=elementwise,,x", KILN_ESPEC, "kernels.txt:1: template=elementwise,,x: a value is missing", "" },
    { "# kilns record\nop=relu6\n define op b = \n", KILN_EOP, "kernels.txt:3: op b", "2 op=relu6 target=cpu\n" },
};

START_TEST(test_manifest__a_wrong_line_is_named)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_status status = read_text(bad[_i].text, "cpu", &report);
    ck_assert_msg(status == bad[_i].status, "%s: %s", kiln_status_name(status), report.message);
    ck_assert_int_eq(report.status, status);
    ck_assert_str_eq(report.stage, "spec");
    ck_assert_msg(strncmp(report.message, bad[_i].message, strlen(bad[_i].message)) == 0, "%s", report.message);
    ck_assert_str_eq(seen, bad[_i].seen);
    ck_assert_int_eq(read_text(bad[_i].text, "cpu", NULL), status);
}
END_TEST

START_TEST(test_manifest__a_byte_0_is_refused)
{
    static const char text[] = RECORD "op=relu6\nop=relu6\0 dtype=f32\nop=copy\n";
    kiln_report report = KILN_INIT(kiln_report);
    kiln_manifest manifest = manifest_of(text, "cpu");
    manifest.name = NULL;
    manifest.length = sizeof(text) - 1;
    ck_assert_int_eq(kiln_manifest_read(service, &manifest, collect, NULL, &report), KILN_OK);
    ck_assert_str_eq(seen, "2 op=relu6 target=cpu\n3 skipped: the line has a byte 0\n4 op=copy target=cpu\n");
    manifest.text += sizeof(RECORD) - 1;
    manifest.length -= sizeof(RECORD) - 1;
    ck_assert_int_eq(kiln_manifest_read(service, &manifest, collect, NULL, &report), KILN_ESPEC);
    ck_assert_str_eq(report.message, "manifest:2: the line has a byte 0");
}
END_TEST

START_TEST(test_manifest__wrong_lines_of_a_record_are_skipped)
{
    kiln_report report = KILN_INIT(kiln_report);
    ck_assert_int_eq(read_text(RECORD "op=relu6 dty\nop=relu6 vector=8 dtype=f32\ndefine op a = (x\nop=a\n"
                                      "define template /nowhere/gone.cu\ntemplate=/nowhere/gone.cu\n"
                                      "define template gone.c\nop=relu6\n",
                               "cpu", &report),
                     KILN_OK);
    const char *rest = seen;
    for (int line = 2; line < 9; line++) {
        char begin[32];
        snprintf(begin, sizeof(begin), "%d skipped: ", line);
        ck_assert_msg(strncmp(rest, begin, strlen(begin)) == 0, "%s", rest);
        rest = strchr(rest, '\n') + 1;
    }
    ck_assert_str_eq(rest, "9 op=relu6 target=cpu\n");
    ck_assert_int_eq(report.status, KILN_OK);
    ck_assert_str_eq(report.message, "");
}
END_TEST

/* Else every line of a record would be skipped. */
START_TEST(test_manifest__a_wrong_target_is_no_fault_of_a_line)
{
    static const char *const targets[] = { "cpu,,cpu", "cpu,", "sm90", "" };
    for (int i = 0; i < COUNT(targets); i++) {
        kiln_report report = KILN_INIT(kiln_report);
        kiln_status status = read_text(RECORD "op=relu6\nop=relu6 dty\n", targets[i], &report);
        if (targets[i][0] == '\0')
            ck_assert_int_eq(status, KILN_OK); /* an open target */
        else
            ck_assert_msg(status == KILN_ESPEC || status == KILN_ETARGET, "%s: %s", targets[i], report.message);
        ck_assert_int_eq(report.message[0] == '\0', status == KILN_OK);
    }
}
END_TEST

START_TEST(test_manifest__the_callback_stops_it)
{
    const kiln_manifest manifest =
        manifest_of(RECORD "define op a = x\ntemplate=" EXAMPLE "," EXAMPLE "\nwrong\nop=relu6 block=32,64\n", "cpu");
    for (int calls = 1; calls < 8; calls++) {
        int left = calls, lines = 0;
        seen[0] = '\0';
        ck_assert_int_eq(kiln_manifest_read(service, &manifest, collect, &left, NULL), KILN_OK);
        for (const char *at = seen; (at = strchr(at, '\n')) != NULL; at++)
            lines++;
        ck_assert_int_eq(lines, calls);
    }
}
END_TEST

START_TEST(test_manifest__wrong_arguments_are_refused)
{
    kiln_manifest manifest = manifest_of("op=relu6", NULL), small = manifest;
    ck_assert_int_eq(kiln_manifest_read(NULL, &manifest, collect, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_manifest_read(service, NULL, collect, NULL, NULL), KILN_EINVAL);
    ck_assert_int_eq(kiln_manifest_read(service, &manifest, NULL, NULL, NULL), KILN_EINVAL);
    manifest.text = NULL;
    ck_assert_int_eq(kiln_manifest_read(service, &manifest, collect, NULL, NULL), KILN_EINVAL);
    small.size = 1;
    ck_assert_int_eq(kiln_manifest_read(service, &small, collect, NULL, NULL), KILN_EINVAL);
    ck_assert_str_eq(seen, "");
}
END_TEST

/* ---- Warming */

typedef struct warming {
    kiln_queue *queue;
    kiln_report *report;
    int submitted, built, failed;
} warming;

static void count_program(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    warming *self = data;
    self->built += status == KILN_OK;
    self->failed += status != KILN_OK && report->message[0] != '\0';
    kiln_program_release(program);
}

/* Uses the report of the call around it, which only a failure writes. */
static int submit_line(void *data, const kiln_manifest_line *line)
{
    warming *self = data;
    kiln_request request = KILN_INIT(kiln_request);
    if (line->spec == NULL)
        return 0;
    request.spec = line->spec;
    request.goal = KILN_BUILD;
    ck_assert_int_eq(kiln_submit(NULL, self->queue, &request, NULL, count_program, self, self->report), KILN_OK);
    self->submitted++;
    return 0;
}

START_TEST(test_manifest__a_queue_warms_it)
{
    const kiln_manifest manifest =
        manifest_of("define op twice(x) = x + x\nop=twice,relu6 dtype=f32\ntemplate=" EXAMPLE "\n", "cpu");
    kiln_report report = KILN_INIT(kiln_report);
    for (int strict = 0; strict < 2; strict++) {
        warming self = { .report = &report };
        kiln_options options = kiln_test_options();
        options.strict = strict ? KILN_ON : KILN_OFF;
        kiln_service *host = kiln_test_open(&options);
        ck_assert_int_eq(kiln_queue_open(&self.queue, host, NULL), KILN_OK);
        ck_assert_int_eq(kiln_manifest_read(host, &manifest, submit_line, &self, &report), KILN_OK);
        while (kiln_queue_wait(self.queue, -1) > 0)
            ;
        ck_assert_int_eq(self.submitted, 3);
        ck_assert_int_eq(self.built, 3);
        ck_assert_int_eq(self.failed, 0);
        ck_assert_uint_eq(kiln_test_stats(host).compiles, strict ? 0 : 3);
        kiln_queue_close(self.queue, NULL, NULL);
        kiln_close(host);
    }
}
END_TEST

/* ---- Shortage of memory */

static unsigned allowed;

static int allow_some(void)
{
    return allowed == 0 || allowed-- == 0;
}

START_TEST(test_manifest__every_failed_allocation_is_reported)
{
    const kiln_manifest manifest = manifest_of(
        RECORD "define op twice(x) = x + x\nop=twice,relu6\nwrong\ntemplate=" EXAMPLE ",elementwise dtype=f32\n",
        "cpu");
    kiln_status status = KILN_ENOMEM;
    unsigned count = 0;
    for (; status != KILN_OK && count < 10000; count++) {
        kiln_report report = KILN_INIT(kiln_report);
        open_service();
        kiln_spec_free(kiln_test_spec(service, "op=relu6"));
        allowed = count;
        kiln__alloc_set_hook(allow_some);
        status = kiln_manifest_read(service, &manifest, collect, NULL, &report);
        kiln__alloc_set_hook(NULL);
        ck_assert_msg(status == KILN_OK || status == KILN_ENOMEM, "%s: %s", kiln_status_name(status), report.message);
        ck_assert_int_eq(report.status, status);
        kiln_close(service);
    }
    ck_assert_int_eq(status, KILN_OK);
    ck_assert_uint_gt(count, 20);
}
END_TEST

Suite *kiln_test_service_manifest_suite(void)
{
    Suite *suite = suite_create("manifest");
    TCase *tests = tcase_create("manifest"), *shortage = tcase_create("shortage");
    kiln_test_temp_use(tests);
    tcase_add_checked_fixture(tests, enter_directory, NULL);
    tcase_add_checked_fixture(tests, open_service, close_service);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_manifest__lines_are_definitions_and_specs);
    tcase_add_test(tests, test_manifest__targets_are_open_or_a_list);
    tcase_add_test(tests, test_manifest__only_so_many_bytes_are_read);
    tcase_add_loop_test(tests, test_manifest__a_wrong_line_is_named, 0, COUNT(bad));
    tcase_add_test(tests, test_manifest__a_byte_0_is_refused);
    tcase_add_test(tests, test_manifest__wrong_lines_of_a_record_are_skipped);
    tcase_add_test(tests, test_manifest__a_wrong_target_is_no_fault_of_a_line);
    tcase_add_test(tests, test_manifest__the_callback_stops_it);
    tcase_add_test(tests, test_manifest__wrong_arguments_are_refused);
    tcase_add_test(tests, test_manifest__a_queue_warms_it);
    suite_add_tcase(suite, tests);
    kiln_test_temp_use(shortage);
    tcase_add_checked_fixture(shortage, enter_directory, NULL);
    tcase_set_timeout(shortage, 120);
    tcase_add_test(shortage, test_manifest__every_failed_allocation_is_reported);
    suite_add_tcase(suite, shortage);
    return suite;
}
