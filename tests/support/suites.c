/* The main program of check_unit and check_service, which KILN_SUITES, one of the lists in suites.h, tells apart. */
#include "support/suites.h"
#include "support/runner.h"

#define ROW(room, name) { #room "_" #name, kiln_test_##room##_##name##_suite },
static const kiln_test_row rows[] = { KILN_SUITES(ROW) };

int main(int argc, char **argv)
{
    return kiln_test_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
