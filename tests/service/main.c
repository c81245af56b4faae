#include "support/runner.h"
#include "support/suites.h"

#define ROW(name) { #name, kiln_test_##name##_suite },
static const kiln_test_row rows[] = { KILN_SERVICE_SUITES(ROW) };

int main(int argc, char **argv)
{
    return kiln_test_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
