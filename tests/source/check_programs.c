/* The programs of tests/programs/ compile as they stand for every target from sm_75 to sm_121. Under a sanitizer,
 * which slows this down and adds nothing, for one target only. tests/device/programs.c runs them on a GPU. */
#include "gpu/cuda.h"
#include "support/harness.h"
#include "support/programs.h"
#include "support/requesting.h"
#include "support/sanitized.h"
#include "support/suites.h"
#include "support/temp.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, TIMEOUT_S = 590 };

static const char *const all_targets[] = { "sm_75", "sm_121", "sm_90",  "sm_80",  "sm_86",
                                           "sm_89", "sm_100", "sm_103", "sm_110", "sm_120" };
static const char *targets[sizeof(all_targets) / sizeof(all_targets[0])];
static size_t target_count;
static kiln_service *service;
static atomic_size_t next_job, compiled;
static bool have_cccl, have_linker;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char failure[4096]; /* the first; threads may not fail a test themselves */

static kiln_status build(const kiln_source *source, kiln_report *report)
{
    kiln_program *program;
    kiln_status status = kiln_test_build_source(&program, service, source, report);
    kiln_program_release(program);
    return status;
}

static kiln_status build_option(const char *text, const char *target, const char *option)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_source source = KILN_INIT(kiln_source);
    source.text = text;
    source.target = target;
    source.options = &option;
    source.option_count = option != NULL;
    kiln_status status = build(&source, &report);
    kiln_report_clear(&report);
    return status;
}

static kiln_status build_text(const char *text, const char *target)
{
    return build_option(text, target, NULL);
}

/* An NVRTC of CUDA 12 knows only the first few. */
static bool find_targets(void)
{
    static const char plain[] = "extern \"C\" __global__ void k() {}\n";
    size_t limit = KILN_TEST_SANITIZED ? 1 : sizeof(targets) / sizeof(targets[0]);
    kiln__toolchain toolchain;
    kiln__compiler *nvrtc = kiln__cuda_compiler_open(getenv("KILN_NVRTC"), NULL);
    bool found = nvrtc->vtable->open(nvrtc, &toolchain, NULL) == KILN_OK;
    nvrtc->vtable->close(nvrtc);
    if (!found)
        return false;
    for (size_t i = 0; i < limit; i++) {
        kiln_status status = build_text(plain, all_targets[i]);
        ck_assert_msg(status == KILN_OK || status == KILN_ETARGET, "%s: %s", all_targets[i], kiln_status_name(status));
        if (status == KILN_OK)
            targets[target_count++] = all_targets[i];
        else
            printf("   left out: this NVRTC knows no %s\n", all_targets[i]);
    }
    have_cccl = build_text("#include <cuda/std/version>\nextern \"C\" __global__ void k() {}\n", "sm_90") == KILN_OK;
    have_linker = build_option(plain, "sm_90", "-rdc=true") == KILN_OK;
    return target_count > 0;
}

static void blame(const char *format, const char *program, const char *target, const kiln_report *report)
{
    pthread_mutex_lock(&lock);
    if (failure[0] == '\0')
        snprintf(failure, sizeof(failure), format, program, target, report->message,
                 report->log != NULL ? report->log : "");
    pthread_mutex_unlock(&lock);
}

static void compile(const program_source *program, const char *target)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_source source;
    const char *include_dirs[2] = { NULL };
    char *text = program_text(program);
    program_fill(&source, program, text, include_dirs);
    source.target = target;
    if (build(&source, &report) != KILN_OK)
        blame("%s for %s: %s\n%s", program->name, target, &report);
    else if (report.log != NULL)
        blame("%s for %s has warnings: %s%s", program->name, target, &report);
    kiln_report_clear(&report);
    free(text);
    atomic_fetch_add(&compiled, 1);
}

/* The slow ones, with CCCL, lie in the middle of the table, so that the threads end at about the same time. */
static void *compile_some(void *unused)
{
    for (;;) {
        size_t job = atomic_fetch_add(&next_job, 1);
        if (job >= target_count * program_source_count)
            return unused;
        const program_source *program = &program_sources[job / target_count];
        const char *target = targets[job % target_count];
        if ((have_cccl || !program->cccl) && (have_linker || program->files == 0) && atoi(target + 3) >= program->least)
            compile(program, target);
    }
}

START_TEST(test_programs__compile_for_every_target)
{
    kiln_options options = kiln_test_gpu_options();
    pthread_t threads[THREADS];
    service = kiln_test_open(&options);
    if (find_targets()) {
        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, compile_some, NULL), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        printf("   %zu compiles of %zu programs for %zu targets%s%s\n", (size_t)compiled, program_source_count,
               target_count, have_cccl ? "" : "; left out: those with CCCL, which is not here",
               have_linker ? "" : "; left out: those that are linked, for which there is no nvJitLink");
        ck_assert_msg(failure[0] == '\0', "%s", failure);
        ck_assert_uint_ge(compiled, target_count * program_source_count / 2);
    } else {
        printf("   left out: there is no NVRTC\n");
    }
    kiln_close(service);
}
END_TEST

Suite *kiln_test_source_programs_suite(void)
{
    Suite *suite = suite_create("programs");
    TCase *tcase = tcase_create("programs");
    kiln_test_temp_use(tcase);
    tcase_set_timeout(tcase, TIMEOUT_S);
    tcase_add_test(tcase, test_programs__compile_for_every_target);
    suite_add_tcase(suite, tcase);
    return suite;
}
