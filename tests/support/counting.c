#include "support/counting.h"

#include "support/harness.h"
#include "support/temp.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

kiln_options kiln_test_counting_options(int ms)
{
    kiln_options options = kiln_test_options();
    char text[16];
    options.cc = getenv("KILN_COUNTING_CC");
    options.device = "cpu";
    ck_assert_msg(options.cc != NULL && getenv("KILN_COUNTING_OBJECT") != NULL,
                  "KILN_COUNTING_CC and KILN_COUNTING_OBJECT must name the stand-in compiler and its object");
    snprintf(text, sizeof(text), "%d", ms);
    setenv("KILN_COUNTING_MS", text, 1);
    setenv("KILN_COUNTING_LOG", kiln_test_temp_path("compiles"), 1);
    return options;
}

void kiln_test_counting_hold(const char *only)
{
    kiln_test_temp_write("hold", "", 0);
    setenv("KILN_COUNTING_HOLD", kiln_test_temp_path("hold"), 1);
    if (only != NULL)
        setenv("KILN_COUNTING_HOLD_ON", only, 1);
}

void kiln_test_counting_go(void)
{
    kiln_test_temp_remove(kiln_test_temp_path("hold"));
}

void kiln_test_counting_break(void)
{
    setenv("KILN_COUNTING_OBJECT", "/nonexistent/object", 1);
}

int kiln_test_counting_count(void)
{
    int lines = 0;
    FILE *file = fopen(kiln_test_temp_path("compiles"), "re");
    for (int c; file != NULL && (c = getc(file)) != EOF;)
        lines += c == '\n';
    if (file != NULL)
        fclose(file);
    return lines;
}

void kiln_test_counting_await(int count)
{
    for (int i = 0; i < 20000 && kiln_test_counting_count() < count; i++)
        usleep(1000);
    ck_assert_int_ge(kiln_test_counting_count(), count);
}

void kiln_test_one_cpu(void)
{
    cpu_set_t all, one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}
