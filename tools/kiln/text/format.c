#include "text/format.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int format_decimals(double value)
{
    return value < 10 ? 2 : value < 100 ? 1 : 0;
}

char *format_ms(char buffer[FORMAT_ROOM], double milliseconds)
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    double value = milliseconds * 1e6;
    size_t unit = 0;
    while (unit < 3 && value >= 999.5) {
        value /= 1000;
        unit++;
    }
    snprintf(buffer, FORMAT_ROOM, "%.*f %s", format_decimals(value), value, units[unit]);
    return buffer;
}

char *format_ms_plain(char buffer[FORMAT_ROOM], double milliseconds)
{
    snprintf(buffer, FORMAT_ROOM, "%.*f", milliseconds < 1 ? 5 : milliseconds < 100 ? 4 : 2, milliseconds);
    return buffer;
}

char *format_bytes(char buffer[FORMAT_ROOM], uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    size_t unit = 0;
    while (unit < 4 && value >= 1024) {
        value /= 1024;
        unit++;
    }
    format_fixed(buffer, value, unit ? 1 : 0);
    strcat(strcat(buffer, " "), units[unit]);
    return buffer;
}

char *format_clock(char buffer[FORMAT_ROOM], double seconds)
{
    if (!(seconds >= 0))
        seconds = 0;
    if (seconds > 359999)
        seconds = 359999;
    unsigned whole = (unsigned)(seconds + 0.5);
    if (whole >= 3600)
        snprintf(buffer, FORMAT_ROOM, "%u:%02u:%02u", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(buffer, FORMAT_ROOM, "%u:%02u", whole / 60, whole % 60);
    return buffer;
}

char *format_age(char buffer[FORMAT_ROOM], double seconds)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = { { "day", 86400 }, { "hour", 3600 }, { "minute", 60 }, { "second", 1 } };
    size_t i = 0;
    while (i + 1 < sizeof(units) / sizeof(units[0]) && seconds < units[i].seconds)
        i++;
    uint64_t count = (uint64_t)(seconds / units[i].seconds);
    snprintf(buffer, FORMAT_ROOM, "%" PRIu64 " %s%s", count, units[i].name, count == 1 ? "" : "s");
    return buffer;
}

char *format_count(char buffer[FORMAT_ROOM], uint64_t count)
{
    snprintf(buffer, FORMAT_ROOM, "%" PRIu64, count);
    return buffer;
}

char *format_power(char buffer[FORMAT_ROOM], uint64_t count)
{
    if (count < 1024 || (count & (count - 1)) != 0)
        return format_count(buffer, count);
    snprintf(buffer, FORMAT_ROOM, "2^%d", __builtin_ctzll(count));
    return buffer;
}

/* printf asks the locale for the decimal point; "C" is a locale that glibc has ready. */
static void print_number(char buffer[FORMAT_ROOM], const char *format, int digits, double value)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t old = uselocale(plain);
    snprintf(buffer, FORMAT_ROOM, format, digits, value);
    uselocale(old);
    freelocale(plain);
}

char *format_fixed(char buffer[FORMAT_ROOM], double value, int decimals)
{
    if (fabs(value) >= 1e15)
        print_number(buffer, "%.*g", 15, value);
    else
        print_number(buffer, "%.*f", decimals, value);
    if (buffer[0] == '-' && strspn(buffer + 1, "0.") == strlen(buffer + 1))
        memmove(buffer, buffer + 1, strlen(buffer));
    return buffer;
}

char *format_exact(char buffer[FORMAT_ROOM], double value)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    for (int digits = 15; digits <= 17; digits++) {
        print_number(buffer, "%.*g", digits, value);
        if (strtod_l(buffer, NULL, plain) == value)
            break;
    }
    freelocale(plain);
    return buffer;
}

double gigabytes_per_second(uint64_t bytes, double milliseconds)
{
    return milliseconds > 0 ? (double)bytes / milliseconds / 1e6 : 0;
}

static bool multiply(uint64_t *value, uint64_t factor)
{
    return !__builtin_mul_overflow(*value, factor, value) && *value <= UINT64_C(1) << 62;
}

static bool read_number(uint64_t *out, const char **text)
{
    if (**text < '0' || **text > '9')
        return false;
    *out = 0;
    for (; **text >= '0' && **text <= '9'; ++*text)
        if (!multiply(out, 10) || __builtin_add_overflow(*out, (uint64_t)(**text - '0'), out))
            return false;
    return true;
}

/* One factor: "4096", "2^20" or "64M". */
static bool read_factor(uint64_t *out, const char **text)
{
    if (!read_number(out, text))
        return false;
    if (**text == '^') {
        uint64_t base = *out, exponent = 0;
        ++*text;
        if (!read_number(&exponent, text))
            return false;
        *out = 1;
        for (uint64_t i = 0; i < exponent && base > 1; i++)
            if (!multiply(out, base))
                return false;
        return base > 0;
    }
    uint64_t shift = **text == 'k' || **text == 'K' ? 10 : **text == 'M' ? 20 : **text == 'G' ? 30 : 0;
    *text += shift != 0;
    return multiply(out, UINT64_C(1) << shift);
}

bool parse_size(uint64_t *out, const char *text)
{
    uint64_t product = 1;
    for (;;) {
        uint64_t factor = 0;
        if (!read_factor(&factor, &text) || !multiply(&product, factor))
            return false;
        if (!*text)
            break;
        if (*text++ != 'x')
            return false;
    }
    *out = product;
    return product > 0;
}

double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
