/* check_fault [--long] [SUITE...]: the fault suites, each printing its figures. */
#include "fault/figures.h"
#include "support/runner.h"
#include "support/suites.h"
#include <string.h>

bool fault_long;

#define ROW(name) { #name, kiln_test_##name##_suite },
static const kiln_test_row rows[] = { KILN_FAULT_SUITES(ROW) };

int main(int argc, char **argv)
{
    fault_long = argc > 1 && strcmp(argv[1], "--long") == 0;
    if (fault_long) {
        argv[1] = argv[0];
        argc--;
        argv++;
    }
    return kiln_test_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
