#include "support/runner.h"

#include <stdio.h>
#include <string.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
#endif

static const kiln_test_row *find(const kiln_test_row *rows, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    }
    return NULL;
}

static int wanted(const kiln_test_row *row, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(row->name, argv[i]) == 0)
            return 1;
    }
    return argc < 2;
}

int kiln_test_main(const kiln_test_row *rows, size_t count, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!find(rows, count, argv[i])) {
            fprintf(stderr, "%s: no suite named '%s'; there are:", argv[0], argv[i]);
            for (size_t k = 0; k < count; k++)
                fprintf(stderr, " %s", rows[k].name);
            fprintf(stderr, "\n");
            return 2;
        }
    }
    SRunner *runner = srunner_create(NULL);
    for (size_t i = 0; i < count; i++) {
        Suite *suite = wanted(&rows[i], argc, argv) ? rows[i].make() : NULL;
        if (suite)
            srunner_add_suite(runner, suite);
    }
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
