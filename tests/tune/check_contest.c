/* Contests of variants, on the cpu. */
#include "support/fields.h"
#include "support/harness.h"
#include "support/suites.h"
#include "support/temp.h"
#include "tune/contest.h"
#include <string.h>

enum { N = 100000, VARIANTS = 4 };

static kiln_service *service;
static kiln_device *device;
static kiln__contest contest;
static kiln_report report = KILN_INIT(kiln_report);

static void open_service(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_device_open(&device, service, "cpu", &report), KILN_OK);
}

static void close_all(void)
{
    kiln__contest_fini(&contest);
    kiln_report_clear(&report);
    kiln_close(service);
}

static kiln__fields resolved(const char *text)
{
    kiln__fields spec, full;
    kiln__target cpu = kiln__reference_target;
    ck_assert_int_eq(kiln_test_fields(&spec, &service->catalog, text, &report), KILN_OK);
    ck_assert_int_eq(kiln__spec_resolve(&full, &spec, &cpu, &report), KILN_OK);
    return full;
}

static void enter(bool hot)
{
    static const char *const texts[VARIANTS] = { "op=relu6 dtype=f32", "op=relu6 dtype=f32 block=64",
                                                 "op=relu6 dtype=f32 block=128", "op=relu6 dtype=f32 elems=32" };
    kiln__fields specs[VARIANTS];
    for (int i = 0; i < VARIANTS; i++)
        specs[i] = resolved(texts[i]);
    kiln__load load;
    ck_assert_int_eq(kiln__load_of_spec(&load, &specs[0], &(kiln_work){ .elements = N }, &report), KILN_OK);
    const kiln__contest_options how = { .load = &load, .hot = hot };
    kiln_status status = kiln__contest_init(&contest, service, device, specs, VARIANTS, &how, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
}

static void gather_all(void)
{
    for (size_t i = 0, left = VARIANTS; left > 0 && i < 1000; i++) {
        ck_assert_int_eq(kiln__contest_gather(&contest, 100, &report), KILN_OK);
        left = 0;
        for (size_t k = 0; k < VARIANTS; k++)
            left += contest.variants[k].state == KILN__WAITING;
    }
    ck_assert_uint_eq(contest.waiting, 0);
}

START_TEST(test_contest__variants_are_checked_and_timed)
{
    open_service();
    enter(_i);
    gather_all();
    for (size_t i = 0; i < VARIANTS; i++) {
        double ms = 0;
        ck_assert_int_eq(contest.variants[i].state, KILN__READY);
        ck_assert_int_eq(kiln__contest_sample(&contest, i, &ms, &report), KILN_OK);
        ck_assert_double_gt(ms, 0);
        ck_assert_uint_ge(contest.variants[i].gauge.repeats, 1);
    }
    close_all();
}
END_TEST

static const kiln__backend_vtable *own;

/* Does all but the last element. The parameters are out, x and n. */
static kiln_status launch_short(kiln__module *module, uint32_t entry, const uint32_t grid[3], void **args, void *stream,
                                kiln_report *why)
{
    uint64_t fewer = *(const uint64_t *)args[2] - 1;
    void *other[] = { args[0], args[1], &fewer };
    return own->launch(module, entry, grid, other, stream, why);
}

START_TEST(test_contest__a_wrong_variant_is_out)
{
    open_service();
    kiln_kernel *kernel = kiln_test_get(service, "op=relu6 dtype=f32 target=cpu block=128");
    own = kernel->vtable;
    kiln__backend_vtable vtable = *own;
    vtable.launch = launch_short;
    kernel->vtable = &vtable;
    enter(true);
    gather_all();
    ck_assert_int_eq(contest.variants[2].state, KILN__OUT);
    ck_assert_int_eq(contest.variants[2].status, KILN_EMISMATCH);
    ck_assert_str_eq(contest.variants[2].problem, "1 of 100000 elements are wrong, the first is 99999");
    ck_assert_int_eq(contest.variants[1].state, KILN__READY);
    kernel->vtable = own;
    kiln_kernel_release(kernel);
    close_all();
}
END_TEST

START_TEST(test_contest__what_does_not_compile_is_out)
{
    kiln_options options = kiln_test_options();
    open_service();
    kiln_kernel_release(kiln_test_get(service, "op=relu6 dtype=f32 target=cpu"));
    kiln_kernel_release(kiln_test_get(service, "template=compare dtype=f32 target=cpu"));
    kiln_close(service);
    options.strict = KILN_ON; /* only the reference is stored */
    service = kiln_test_open(&options);
    ck_assert_int_eq(kiln_device_open(&device, service, "cpu", &report), KILN_OK);
    enter(true);
    gather_all();
    ck_assert_int_eq(contest.variants[0].state, KILN__READY);
    for (size_t i = 1; i < VARIANTS; i++) {
        ck_assert_int_eq(contest.variants[i].state, KILN__OUT);
        ck_assert_int_eq(contest.variants[i].status, KILN_ESTRICT);
        ck_assert_ptr_nonnull(strstr(contest.variants[i].problem, "strict"));
    }
    close_all();
}
END_TEST

START_TEST(test_contest__may_end_at_once)
{
    open_service();
    enter(true);
    close_all();
}
END_TEST

Suite *kiln_test_tune_contest_suite(void)
{
    Suite *suite = suite_create("contest");
    TCase *tcase = tcase_create("contest");
    kiln_test_temp_use(tcase);
    tcase_add_loop_test(tcase, test_contest__variants_are_checked_and_timed, 0, 2);
    tcase_add_test(tcase, test_contest__a_wrong_variant_is_out);
    tcase_add_test(tcase, test_contest__what_does_not_compile_is_out);
    tcase_add_test(tcase, test_contest__may_end_at_once);
    suite_add_tcase(suite, tcase);
    return suite;
}
