/* Writes numbers for people and for files, and reads sizes. */
#include "text/format.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/common.h"

int format_decimals(double value)
{
    return value < 10 ? 2 : value < 100 ? 1 : 0;
}

char *format_ms(double milliseconds)
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    double value = milliseconds * 1e6;
    size_t unit = 0;
    for (; unit < 3 && value >= 999.5; unit++)
        value /= 1000;
    return need_format("%.*f %s", format_decimals(value), value, units[unit]);
}

char *format_ms_plain(double milliseconds)
{
    return need_format("%.*f", milliseconds < 1 ? 5 : milliseconds < 100 ? 4 : 2, milliseconds);
}

char *format_bytes(uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    size_t unit = 0;
    for (; unit < 4 && value >= 1024; unit++)
        value /= 1024;
    return need_format("%s %s", format_fixed(value, unit ? 1 : 0), units[unit]);
}

char *format_clock(double seconds)
{
    unsigned whole = (unsigned)(seconds >= 0 ? fmin(seconds, 359999) + 0.5 : 0.5);
    if (whole >= 3600)
        return need_format("%u:%02u:%02u", whole / 3600, whole / 60 % 60, whole % 60);
    return need_format("%u:%02u", whole / 60, whole % 60);
}

char *format_age(double seconds)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = { { "day", 86400 }, { "hour", 3600 }, { "minute", 60 }, { "second", 1 } };
    size_t i = 0;
    while (i + 1 < COUNT_OF(units) && seconds < units[i].seconds)
        i++;
    uint64_t count = (uint64_t)(seconds / units[i].seconds);
    return need_format("%" PRIu64 " %s%s", count, units[i].name, count == 1 ? "" : "s");
}

char *format_count(uint64_t count)
{
    return need_format("%" PRIu64, count);
}

char *format_power(uint64_t count)
{
    bool is_power = count >= 1024 && (count & (count - 1)) == 0;
    return is_power ? need_format("2^%d", __builtin_ctzll(count)) : format_count(count);
}

/* printf asks the locale for the decimal point; "C" is a locale that glibc has ready. */
static char *format_number(char conversion, int digits, double value)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t old = uselocale(plain);
    char *text = need_format(conversion == 'g' ? "%.*g" : "%.*f", digits, value);
    uselocale(old);
    freelocale(plain);
    return text;
}

char *format_fixed(double value, int decimals)
{
    char *text = fabs(value) >= 1e15 ? format_number('g', 15, value) : format_number('f', decimals, value);
    bool is_minus_zero = text[0] == '-' && strspn(text + 1, "0.") == strlen(text + 1);
    return text + is_minus_zero;
}

char *format_exact(double value)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char *text = NULL;
    for (int digits = 15; digits <= 17; digits++) {
        text = format_number('g', digits, value);
        if (strtod_l(text, NULL, plain) == value)
            break;
    }
    freelocale(plain);
    return text;
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

char *format_known(int value)
{
    return value >= 0 ? need_format("%d", value) : need_copy("-");
}

/* Adds the sizes of an item, which is cut into its parts. */
static bool add_sizes(uint64_t *out, size_t room, size_t *count, char *item)
{
    uint64_t low, high, factor = 2;
    char *dots = strstr(item, ".."), *star = strchr(item, '*');
    if (dots)
        *dots = '\0';
    if (dots && star > dots)
        *star = '\0';
    if (dots && star > dots && !parse_size(&factor, star + 1))
        return false;
    if (!parse_size(&low, item) || !parse_size(&high, dots ? dots + 2 : item) || low > high || factor < 2)
        return false;
    for (uint64_t size = low;; size *= factor) {
        if (*count == room)
            return false;
        out[(*count)++] = size;
        if (size > high / factor)
            return true;
    }
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

size_t parse_sizes(uint64_t *out, size_t room, const char *text)
{
    size_t count = 0, kept = 1;
    for (char *rest = need_copy(text), *item; (item = strsep(&rest, ","));)
        if (!add_sizes(out, room, &count, item))
            return 0;
    qsort(out, count, sizeof(*out), by_size);
    for (size_t i = 1; i < count; i++)
        if (out[i] != out[kept - 1])
            out[kept++] = out[i];
    return kept;
}

double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
