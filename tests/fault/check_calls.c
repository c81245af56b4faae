/* What is promised of a thread, and not of a result: an asynchronous get makes no file call on the thread that asks. */
#include "fault/figures.h"
#include "fault/inject.h"
#include "fault/stand_in.h"
#include "support/requesting.h"
#include "support/suites.h"

enum { ASKED = 40, DISTINCT = 10 };

static int called;

static void take(void *data, kiln_status status, kiln_program *program, const kiln_report *report)
{
    kiln_kernel *kernel = kiln_test_take_kernel(program);
    (void)data;
    ck_assert_msg(status == KILN_OK, "%s", report->message);
    called++;
    kiln_kernel_release(kernel);
}

/* How many file calls this thread makes while it asks and waits, from nothing open to every kernel loaded. Armed
 * before the service has threads. */
static uint64_t calls_of(kiln_service *service, kiln_queue *queue)
{
    inject_arm(&(inject_plan){ .where = INJECT_OWN });
    for (int i = 0; i < ASKED; i++) {
        char text[80];
        snprintf(text, sizeof(text), "op=hardsigmoid dtype=f32 block=%d target=cpu", 64 + 32 * (i % DISTINCT));
        kiln_spec *spec = kiln_test_spec(service, text);
        ck_assert_int_eq(kiln_test_submit(NULL, queue, spec, NULL, take, NULL), KILN_OK);
        kiln_spec_free(spec);
        if (i % DISTINCT == 0 || i > ASKED / 2)
            while (kiln_queue_wait(queue, 30000) > 0) {
            }
    }
    while (kiln_queue_wait(queue, 30000) > 0) {
    }
    return inject_disarm();
}

START_TEST(test_calls__asking_asynchronously_makes_none)
{
    kiln_queue *queue;
    kiln_options options = stand_in_options();
    options.record = _i ? kiln_test_temp_path("record.txt") : "";
    called = 0;
    kiln_service *service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_queue_open(&queue, service, NULL), KILN_OK);
    uint64_t calls = calls_of(service, queue);
    ck_assert_int_eq(called, ASKED);
    FIGURES("calls: %d asynchronous gets %s: %llu file calls on the thread that asks", ASKED,
            _i ? "with a record" : "without a record", (unsigned long long)calls);
    ck_assert_uint_eq(calls, 0);
    kiln_queue_close(queue, NULL, NULL);
    kiln_close(service);
}
END_TEST

Suite *kiln_test_fault_calls_suite(void)
{
    Suite *suite = suite_create("calls");
    TCase *tests = tcase_create("calls");
    kiln_test_temp_use(tests);
    tcase_add_loop_test(tests, test_calls__asking_asynchronously_makes_none, 0, 2);
    suite_add_tcase(suite, tests);
    return suite;
}
