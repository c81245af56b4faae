/* check_fault [--long] [SUITE...]: the fault suites, each printing its figures. */
#include "fault/figures.h"
#include "support/runner.h"
#include "support/suites.h"
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

bool fault_long;

#define ROW(room, name) { #room "_" #name, kiln_test_##room##_##name##_suite },
static const kiln_test_row rows[] = { KILN_FAULT_SUITES(ROW) };

/* The suites are about calls that fail and bytes that change, hundreds of thousands of times, not about a disk: unless
 * TMPDIR says where, their files lie in memory, on the terms on which tools/check puts the sanitizers' there. */
static void use_memory(void)
{
    struct statvfs room;
    if (statvfs("/dev/shm", &room) == 0 && (room.f_flag & (ST_NOEXEC | ST_NOSUID)) == 0 &&
        (uint64_t)room.f_bavail * room.f_frsize >= 4000000000u)
        setenv("TMPDIR", "/dev/shm", 0);
}

int main(int argc, char **argv)
{
    use_memory();
    fault_long = argc > 1 && strcmp(argv[1], "--long") == 0;
    if (fault_long) {
        argv[1] = argv[0];
        argc--;
        argv++;
    }
    return kiln_test_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
