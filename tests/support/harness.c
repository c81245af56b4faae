#include "support/harness.h"

#include "support/launching.h"

#include "support/requesting.h"
#include "support/temp.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kiln_options kiln_test_options(void)
{
    kiln_options options = KILN_INIT(kiln_options);
    options.cache_dir = kiln_test_temp_path("store");
    options.libcuda = "/nonexistent/libcuda.so.1";
    options.device = "cpu";
    return options;
}

kiln_options kiln_test_gpu_options(void)
{
    kiln_options options = kiln_test_options();
    options.libcuda = getenv("KILN_FAKE_LIBCUDA");
    ck_assert_msg(options.libcuda != NULL, "KILN_FAKE_LIBCUDA must name the stand-in driver");
    options.device = NULL;
    return options;
}

static void must(kiln_status status, kiln_report *report, const char *what)
{
    ck_assert_msg(status == KILN_OK, "%s: %s: %s\n%s", what, kiln_status_name(status), report->message,
                  report->log != NULL ? report->log : "");
    kiln_report_clear(report);
}

kiln_service *kiln_test_open(const kiln_options *options)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *service;
    must(kiln_open(&service, options, &report), &report, "kiln_open");
    return service;
}

kiln_spec *kiln_test_spec(kiln_service *service, const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec;
    must(kiln_spec_parse(&spec, service, text, &report), &report, text);
    return spec;
}

kiln_kernel *kiln_test_get(kiln_service *service, const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln_kernel *kernel;
    must(kiln_get_kernel(&kernel, service, spec, &report), &report, text);
    kiln_spec_free(spec);
    return kernel;
}

kiln_status kiln_test_ask(kiln_service *service, const char *text, kiln_report *report)
{
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln_kernel *kernel;
    kiln_status status = kiln_get_kernel(&kernel, service, spec, report);
    ck_assert_int_eq(status == KILN_OK, kernel != NULL);
    kiln_kernel_release(kernel);
    kiln_spec_free(spec);
    return status;
}

kiln_program *kiln_test_build(kiln_service *service, const char *text)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln_spec *spec = kiln_test_spec(service, text);
    kiln_program *program;
    must(kiln_test_build_spec(&program, service, spec, &report), &report, text);
    kiln_spec_free(spec);
    return program;
}

bool kiln_test_has_store(kiln_service *service)
{
    kiln_cache_info info = KILN_INIT(kiln_cache_info);
    return kiln_cache_get_info(service, &info, NULL) != KILN_ENOENT;
}

int kiln_test_is_refused(void *data, const kiln_entry_info *entry)
{
    (void)data;
    return entry->status != KILN_OK;
}

kiln_stats kiln_test_stats(kiln_service *service)
{
    kiln_stats stats = KILN_INIT(kiln_stats);
    ck_assert_int_eq(kiln_stats_get(service, &stats), KILN_OK);
    return stats;
}

typedef struct result {
    kiln_status status;
    kiln_kernel *kernel;
} result;

static void take_result(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln_kernel *kernel = kiln_test_take_kernel(program);
    (void)report;
    *(result *)data = (result){ status, kernel };
}

kiln_status kiln_test_get_async(kiln_service *service, const char *text, kiln_kernel **out)
{
    kiln_queue *queue;
    result got = { KILN_EINVAL, NULL };
    kiln_spec *spec = kiln_test_spec(service, text);
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
    ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, take_result, &got), KILN_OK);
    ck_assert_int_eq(kiln_queue_wait(queue, 30000), 1);
    kiln_queue_close(queue, NULL, NULL);
    kiln_spec_free(spec);
    if (out != NULL)
        *out = got.kernel;
    else
        kiln_kernel_release(got.kernel);
    return got.status;
}

static float hardsigmoid(float x)
{
    float y = x + 3.0f;
    y = y < 0.0f ? 0.0f : y > 6.0f ? 6.0f : y;
    return y * (1.0f / 6.0f);
}

void kiln_test_check_hardsigmoid(kiln_kernel *kernel)
{
    enum { COUNT = 5003 };
    static float x[COUNT], y[COUNT];
    const void *in[] = { x };
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i - 2500) / 300.0f;
        y[i] = -77.0f;
    }
    x[17] = NAN;
    x[18] = INFINITY;
    x[19] = -INFINITY;
    x[20] = -0.0f;
    ck_assert_int_eq(kiln_test_launch(kernel, COUNT, y, in, NULL, NULL), KILN_OK);
    for (int i = 0; i < COUNT; i++) {
        float want = hardsigmoid(x[i]);
        ck_assert_msg(isnan(want) ? isnan(y[i]) : memcmp(&want, &y[i], sizeof(want)) == 0,
                      "hardsigmoid(%a) = %a, not %a", (double)x[i], (double)want, (double)y[i]);
    }
}

static char entry_path[4096];

static int take_path(void *data, const kiln_entry_info *entry)
{
    (void)data;
    if (strcmp(entry->kind, "kernel") != 0)
        return 0;
    snprintf(entry_path, sizeof(entry_path), "%s", entry->path);
    return 1;
}

const char *kiln_test_entry_path(kiln_service *service)
{
    entry_path[0] = '\0';
    ck_assert_int_eq(kiln_cache_visit(service, take_path, NULL, NULL), KILN_OK);
    ck_assert_msg(entry_path[0] != '\0', "the store holds no kernel");
    return entry_path;
}

void kiln_test_log_line(void *data, kiln_log_level level, const char *message)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    kiln_test_log *log = data;
    pthread_mutex_lock(&lock);
    if (level <= KILN_LOG_WARN) {
        log->warnings++;
        snprintf(log->last, sizeof(log->last), "%s", message);
    }
    pthread_mutex_unlock(&lock);
}
