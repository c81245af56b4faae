/* Reads and writes tolerances, and applies them. */
#include "spec/tolerance.h"

#include "base/report.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name;
    size_t place; /* in kiln_tolerance */
} bounds[] = { { "ulp", offsetof(kiln_tolerance, ulp) },
               { "relative", offsetof(kiln_tolerance, relative) },
               { "absolute", offsetof(kiln_tolerance, absolute) } };

enum { BOUNDS = sizeof(bounds) / sizeof(bounds[0]) };

static const char *bound_at(const void *data, size_t i)
{
    (void)data;
    return i < BOUNDS ? bounds[i].name : NULL;
}

static double bound_of(const kiln_tolerance *tolerance, int i)
{
    double value;
    memcpy(&value, (const char *)tolerance + bounds[i].place, sizeof(value));
    return value;
}

static bool is_bound(double value)
{
    return isfinite(value) && value >= 0;
}

bool kiln__tolerance_is_exact(const kiln_tolerance *tolerance)
{
    return tolerance->ulp == 0 && tolerance->relative == 0 && tolerance->absolute == 0;
}

bool kiln__tolerance_is_valid(const kiln_tolerance *tolerance)
{
    return is_bound(tolerance->ulp) && is_bound(tolerance->relative) && is_bound(tolerance->absolute);
}

static bool refuse(char *problem, size_t size, const char *format, ...) KILN__PRINTF(3, 4);

static bool refuse(char *problem, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem, size, format, arguments);
    va_end(arguments);
    return false;
}

static int find_bound(kiln__word name)
{
    for (int i = 0; i < BOUNDS; i++)
        if (kiln__word_is(name, bounds[i].name))
            return i;
    return -1;
}

bool kiln__tolerance_parse(kiln_tolerance *out, kiln__word text, char *problem, size_t size)
{
    bool given[BOUNDS] = { false };
    kiln__word rest = kiln__word_trim(text);
    *out = (kiln_tolerance)KILN_INIT(kiln_tolerance);
    if (rest.length == 0)
        return refuse(problem, size, "write tolerance NAME NUMBER ..., NAME one of ulp, relative and absolute");
    while (rest.length > 0) {
        kiln__word name = kiln__word_next(&rest), number = kiln__word_next(&rest);
        int i = find_bound(name);
        double value;
        if (i < 0)
            return refuse(problem, size, "unknown tolerance '%s': %s", kiln__word_quote(name).text,
                          kiln__word_hint(name, bound_at, NULL).text);
        if (given[i])
            return refuse(problem, size, "tolerance %s is given twice", bounds[i].name);
        if (number.length == 0)
            return refuse(problem, size, "tolerance %s has no number: write %s NUMBER", bounds[i].name, bounds[i].name);
        if (!kiln__number_parse(number.text, number.length, &value) || !is_bound(value))
            return refuse(problem, size, "tolerance %s %s: expected a finite number of 0 or more", bounds[i].name,
                          kiln__word_quote(number).text);
        given[i] = true;
        value = fabs(value); /* -0 */
        memcpy((char *)out + bounds[i].place, &value, sizeof(value));
    }
    return true;
}

void kiln__tolerance_format(char out[KILN__TOLERANCE_SIZE], const kiln_tolerance *tolerance)
{
    size_t length = 0;
    out[0] = '\0';
    for (int i = 0; i < BOUNDS; i++) {
        char number[KILN__NUMBER_SIZE];
        double value = bound_of(tolerance, i);
        if (value == 0)
            continue;
        kiln__number_format(number, value);
        length += (size_t)snprintf(out + length, KILN__TOLERANCE_SIZE - length, "%s%s %s", length > 0 ? " " : "",
                                   bounds[i].name, number);
    }
}

/* A sum that overflows allows any finite difference, and a finite bound no difference that overflows. */
bool kiln__tolerance_agrees(const kiln_tolerance *tolerance, double got, double want, kiln__dtype dtype)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    if (kiln__tolerance_is_exact(tolerance))
        return got == want && signbit(got) == signbit(want);
    if (got == want)
        return true;
    if (isinf(got) || isinf(want))
        return false;
    double bound = tolerance->ulp * kiln__dtype_unit(want, dtype) + tolerance->relative * fabs(want);
    return fabs(got - want) <= bound + tolerance->absolute;
}
