/* Compile workers that cannot be relied on. */
#include "support/suites.h"
#include "support/temp.h"
#include "support/working.h"

/* A source that has taken over its worker cannot file its code, or anything that is compiled later, under another toolchain. */
START_TEST(test_worker_faults__source_cannot_name_another_toolchain)
{
    static const kiln_isolate policies[] = { KILN_ISOLATE_ALWAYS, KILN_ISOLATE_AUTO };
    char liar[] = "STAND_IN_LIAR\n";
    kiln__toolchain toolchain;
    for (size_t i = 0; i < 2; i++) {
        options.isolate = policies[i];
        open_here();
        expect(compile(liar), KILN_ECRASHED, "gave no proper answer");
        expect_counts(1, 1, 0);
        ck_assert_int_eq(list_children(NULL, 0), 0);
        expect_good();
        pid_t pid = only_child();
        expect(compile(liar), KILN_ECRASHED, "gave no proper answer"); /* in a worker that was used before */
        expect_counts(2, 2, 0);
        ck_assert(is_dead(pid));
        expect(compiler->vtable->identify(compiler, &toolchain, &report), KILN_OK, "");
        ck_assert_str_eq(toolchain.id, "nvrtc-13.0.1-1");
        close_here();
    }
}
END_TEST

Suite *kiln_test_worker_faults_suite(void)
{
    Suite *suite = suite_create("worker_faults");
    TCase *tcase = tcase_create("worker_faults");
    tcase_add_checked_fixture(tcase, set_up, close_here);
    kiln_test_temp_use(tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_worker_faults__source_cannot_name_another_toolchain);
    suite_add_tcase(suite, tcase);
    return suite;
}
