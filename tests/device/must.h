/* The report of a device program, and the end of the program at the first call that fails. */
#ifndef KILN_TESTS_DEVICE_MUST_H
#define KILN_TESTS_DEVICE_MUST_H

#include <kiln/kernel.h>
#include <stdio.h>
#include <stdlib.h>

static kiln_report report = KILN_INIT(kiln_report);

static void must(kiln_status status, const char *what)
{
    if (status == KILN_OK)
        return;
    fprintf(stderr, "FAILED %s: %s: %s\n%s\n", what, kiln_status_name(status), report.message,
            report.log != NULL ? report.log : "");
    exit(1);
}

#endif
