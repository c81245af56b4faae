/* Events: what the host's function is told of gets, compiles and launches. */
#include "support/harness.h"
#include "support/launching.h"
#include "support/suites.h"
#include "support/temp.h"
#include <string.h>

enum { MOST = 32, N = 1000 };

typedef struct told {
    kiln_event_kind kind;
    int ends;
    char name[128];
    kiln_status status;
    uint64_t ns;
} told;

static told seen[MOST];
static int count;
static kiln_service *service;
static kiln_report report = KILN_INIT(kiln_report);

static void hear(void *data, const kiln_event *event)
{
    ck_assert_ptr_eq(data, &count);
    ck_assert_uint_eq(event->size, sizeof(*event));
    ck_assert_int_lt(count, MOST);
    seen[count] = (told){ event->kind, event->ends, "", event->status, event->ns };
    strncpy(seen[count++].name, event->name, sizeof(seen->name) - 1);
}

static void set_up(void)
{
    kiln_options options = kiln_test_options();
    options.event = hear;
    options.event_data = &count;
    count = 0;
    service = kiln_test_open(&options);
}

static void tear_down(void)
{
    kiln_close(service);
    kiln_report_clear(&report);
}

static void check_seen(int at, kiln_event_kind kind, int ends, const char *name, kiln_status status)
{
    ck_assert_int_lt(at, count);
    ck_assert_int_eq(seen[at].kind, kind);
    ck_assert_int_eq(seen[at].ends, ends);
    ck_assert_str_eq(seen[at].name, name);
    ck_assert_int_eq(seen[at].status, status);
    ck_assert((seen[at].ns > 0) == (ends == 1));
}

START_TEST(test_events__beginnings_and_ends_nest)
{
    static const char spec[] = "op=relu6 dtype=f32 block=64 elems=4 vector=4 cache=plain target=cpu";
    static float x[N], y[N];
    void *outs[] = { y };
    const void *ins[] = { x };
    kiln_kernel *kernel = kiln_test_get(service, spec);
    check_seen(0, KILN_EVENT_GET, 0, spec, KILN_OK);
    check_seen(1, KILN_EVENT_COMPILE, 0, spec, KILN_OK);
    check_seen(2, KILN_EVENT_COMPILE, 1, spec, KILN_OK);
    check_seen(3, KILN_EVENT_GET, 1, spec, KILN_OK);
    ck_assert_uint_ge(seen[3].ns, seen[2].ns);
    kiln_kernel_release(kiln_test_get(service, spec));
    ck_assert_int_eq(count, 4); /* it was loaded */
    ck_assert_int_eq(kiln_launch_n(kernel, N, outs, 1, ins, 1, NULL, &report), KILN_OK);
    check_seen(4, KILN_EVENT_LAUNCH, 0, spec, KILN_OK);
    check_seen(5, KILN_EVENT_LAUNCH, 1, spec, KILN_OK);
    ck_assert_int_eq(count, 6);
    kiln_kernel_release(kernel);
}
END_TEST

START_TEST(test_events__a_failure_is_told)
{
    static const char text[] = "//! template broken\n//! inputs 1..8\n//! size n\n//! arg out... out otype[n] inplace\n"
                               "//! arg x... in itype[n]\n//! arg s... f64\n//! arg n uint64 = n\n"
                               "//! param block 32..1024 step 32 = 128\n//! tile block\n"
                               "//! grid (n + (tile - 1)) / tile\n//! entry broken align 1\n"
                               "extern \"C\" __global__ void broken(float *y) {}\n";
    kiln_spec *spec;
    kiln_kernel *kernel;
    ck_assert_msg(kiln_template_define(service, text, "this is no C\n", NULL, &report) == KILN_OK, "%s",
                  report.message);
    ck_assert_int_eq(kiln_spec_parse(&spec, service, "op=relu6 template=broken", &report), KILN_OK);
    ck_assert_int_eq(kiln_get_kernel(&kernel, service, spec, &report), KILN_ECOMPILE);
    kiln_spec_free(spec);
    ck_assert_int_eq(count, 4);
    ck_assert_int_eq(seen[2].status, KILN_ECOMPILE);
    ck_assert_int_eq(seen[3].status, KILN_ECOMPILE);
}
END_TEST

Suite *kiln_test_service_events_suite(void)
{
    Suite *suite = suite_create("events");
    TCase *tcase = tcase_create("events");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_events__beginnings_and_ends_nest);
    tcase_add_test(tcase, test_events__a_failure_is_told);
    suite_add_tcase(suite, tcase);
    return suite;
}
