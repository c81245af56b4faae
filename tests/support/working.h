/* A compiler that works through compile workers with the stand-in NVRTC, which crashes and hangs when a source tells
 * it to. For suites that use kiln_test_temp_use. */
#ifndef KILN_TESTS_SUPPORT_WORKING_H
#define KILN_TESTS_SUPPORT_WORKING_H

#include "gpu/cuda.h"
#include "jit/worker/workers.h"
#include "os/cpu.h"
#include "support/foreign.h"
#include "support/sanitized.h"

enum { TIME_MS = 60000, SHORT_MS = 300, SLACK_MS = KILN_TEST_SANITIZED ? 5000 : 500 };

static char good[] = "a good source\n";

static kiln__workers_options options;
static kiln__compiler *compiler;
static kiln_report report = KILN_INIT(kiln_report);

static inline void set_up(void)
{
    options = (kiln__workers_options){ .isolate = KILN_ISOLATE_ALWAYS,
                                       .nvrtc = getenv("KILN_STAND_IN_NVRTC"),
                                       .memory_bytes = (uint64_t)4 << 30,
                                       .time_ms = TIME_MS };
    ck_assert_msg(options.nvrtc != NULL, "KILN_STAND_IN_NVRTC must name the stand-in NVRTC");
}

static inline void open_here(void)
{
    compiler = kiln__workers_open(kiln__cuda_compiler_open(options.nvrtc, NULL), &options, NULL);
    ck_assert_ptr_nonnull(compiler);
}

static inline void close_here(void)
{
    if (compiler != NULL)
        compiler->vtable->close(compiler);
    compiler = NULL;
    kiln_report_clear(&report);
}

static inline kiln_status compile_unit(const kiln__unit *unit)
{
    kiln__image image;
    kiln_report_clear(&report);
    kiln_status status = compiler->vtable->compile(compiler, unit, &image, &report);
    ck_assert((status == KILN_OK) == (image.binary != NULL));
    ck_assert(status == report.status || status == KILN_OK);
    if (status == KILN_OK) {
        ck_assert_str_eq(image.toolchain, "nvrtc-13.0.1-1");
        ck_assert_ptr_nonnull(strstr(image.ptx, ".target sm_90"));
        ck_assert_uint_eq(image.ptx_length, strlen(image.ptx));
        ck_assert_str_eq(image.log, "kiln.cu(1): warning: made by a stand-in\n");
    }
    kiln__image_fini(&image);
    return status;
}

static inline kiln_status compile(char *source)
{
    kiln__unit unit = foreign_unit(source);
    return compile_unit(&unit);
}

static inline void expect(kiln_status status, kiln_status expected, const char *text)
{
    ck_assert_msg(status == expected, "%s, expected %s: %s", kiln_status_name(status), kiln_status_name(expected),
                  report.message);
    ck_assert_msg(strstr(report.message, text) != NULL, "'%s' is not in: %s", text, report.message);
}

static inline void expect_good(void)
{
    expect(compile(good), KILN_OK, "");
}

static inline void expect_counts(uint64_t starts, uint64_t crashes, uint64_t timeouts)
{
    kiln__workers_counts counts;
    kiln__workers_count(compiler, &counts);
    ck_assert_msg(counts.starts == starts && counts.crashes == crashes && counts.timeouts == timeouts,
                  "%llu starts, %llu crashes, %llu timeouts", (unsigned long long)counts.starts,
                  (unsigned long long)counts.crashes, (unsigned long long)counts.timeouts);
}

static inline void await(bool (*is_true)(pid_t), pid_t pid)
{
    for (int i = 0; i < 10000 && !is_true(pid); i++)
        usleep(1000);
    ck_assert(is_true(pid));
}

#endif
