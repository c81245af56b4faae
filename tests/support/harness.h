/* A service in a temporary directory, and short ways through the public API. For tests that include support/temp.h. */
#ifndef KILN_TESTS_SUPPORT_HARNESS_H
#define KILN_TESTS_SUPPORT_HARNESS_H

#include <kiln/kiln.h>
#include <stdbool.h>

/* Options whose store is in the current test's temporary directory and whose driver does not exist: the default
 * device is the cpu. Change fields as needed. */
kiln_options kiln_test_options(void);

/* The same with the stand-in driver: the default device is cuda:0. Fails the test if the driver was not built. */
kiln_options kiln_test_gpu_options(void);

/* These fail the test, with the report, if the call fails. */
kiln_service *kiln_test_open(const kiln_options *options);
kiln_spec *kiln_test_spec(kiln_service *service, const char *text);
kiln_kernel *kiln_test_get(kiln_service *service, const char *text);
kiln_program *kiln_test_build(kiln_service *service, const char *text);
kiln_stats kiln_test_stats(kiln_service *service);

/* Whether the service has a store on disk. */
bool kiln_test_has_store(kiln_service *service);

/* A kiln_select_fn: takes entries that would be refused. */
int kiln_test_is_refused(void *data, const kiln_entry_info *entry);

/* What kiln_get returns for a spec that parses; the kernel is released. `report` may be NULL. */
kiln_status kiln_test_ask(kiln_service *service, const char *text, kiln_report *report);

/* An asynchronous get by way of a queue of its own: what the callback was told. *out (may be NULL) gets the kernel. */
kiln_status kiln_test_get_async(kiln_service *service, const char *text, kiln_kernel **out);

/* Runs a float32 hardsigmoid kernel on the cpu over special and ordinary values and fails the test if it is wrong. */
void kiln_test_check_hardsigmoid(kiln_kernel *kernel);

/* The path of the first kernel entry in the service's store (static buffer), or the test fails. */
const char *kiln_test_entry_path(kiln_service *service);

/* Log lines that arrived since the last call to the counter's reset; any thread. Pass as options.log, log_data. */
typedef struct kiln_test_log {
    int warnings;
    char last[512];
} kiln_test_log;
void kiln_test_log_line(void *data, kiln_log_level level, const char *message);

#endif
