/* A locale in which numbers have a decimal comma. For tests that use support/temp.h. */
#ifndef KILN_TESTS_SUPPORT_COMMA_H
#define KILN_TESTS_SUPPORT_COMMA_H

#include "support/temp.h"
#include <limits.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Makes it this process's locale; from the system's sources where it is not installed, as on most systems. False,
 * with nothing changed, where that cannot be done. */
static inline bool kiln_test_use_decimal_comma(void)
{
    char command[PATH_MAX + 100];
    if (setlocale(LC_ALL, "de_DE.UTF-8") || setlocale(LC_ALL, "fr_FR.UTF-8"))
        return true;
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s >/dev/null 2>&1",
             kiln_test_temp_path("de_DE.UTF-8"));
    if (system(command) != 0)
        return false;
    setenv("LOCPATH", kiln_test_temp_dir(), 1);
    return setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
}

#endif
