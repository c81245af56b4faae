/* Numbers read and written by strtod and printf, shielded from the host. */
#include "base/number.h"

#include "base/fpenv.h"
#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 2048, DIGITS_MAX = 17 };

static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* The state of the host's thread that strtod and printf depend on: locale, rounding mode and flush to zero. */
typedef struct neutral {
    locale_t locale;
    kiln__fpenv environment;
    int error;
} neutral;

static void enter_neutral(neutral *saved)
{
    pthread_once(&c_locale_once, make_c_locale);
    saved->error = errno;
    saved->locale = uselocale(c_locale);
    kiln__fpenv_enter(&saved->environment);
}

static void leave_neutral(const neutral *saved)
{
    kiln__fpenv_leave(&saved->environment);
    uselocale(saved->locale);
    errno = saved->error;
}

bool kiln__number_parse_uint(const char *text, size_t length, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (text[i] < '0' || text[i] > '9' || value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (length == 0)
        return false;
    *out = value;
    return true;
}

static bool is_number_character(char c)
{
    return c != '\0' && strchr("0123456789abcdefABCDEFxXpP.+-", c) != NULL;
}

/* strtod also accepts white space in front, "nan(1)" and "infinity", which are no numbers here. */
static bool has_number_characters_only(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!is_number_character(text[i]))
            return false;
    return length > 0;
}

bool kiln__number_parse(const char *text, size_t length, double *out)
{
    if (length >= TEXT_MAX)
        return false;
    size_t sign = length > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    if (length - sign == 3 && !memcmp(text + sign, "inf", 3)) {
        *out = text[0] == '-' ? -INFINITY : INFINITY;
        return true;
    }
    if (!has_number_characters_only(text, length))
        return false;
    char copy[TEXT_MAX], *end;
    memcpy(copy, text, length);
    copy[length] = '\0';
    neutral saved;
    enter_neutral(&saved);
    double value = strtod(copy, &end);
    bool good = end == copy + length && !isinf(value);
    if (good)
        *out = value;
    leave_neutral(&saved);
    return good;
}

/* Writes a finite magnitude as "d.ddde+xx" with the fewest digits that read back. Rounding up is tried too: below a
 * power of two doubles are twice as dense, so the farther neighbour may be the one that reads back. */
static void format_scientific(char out[KILN__NUMBER_SIZE], double magnitude)
{
    static const int modes[] = { FE_TONEAREST, FE_UPWARD };
    for (int precision = 0; precision < DIGITS_MAX; precision++) {
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
            fesetround(modes[i]);
            snprintf(out, KILN__NUMBER_SIZE, "%.*e", precision, magnitude);
            fesetround(FE_TONEAREST);
            if (strtod(out, NULL) == magnitude)
                return;
        }
    }
}

/* Lays out digits (the first before the point) times ten to the exponent. */
static void lay_out_digits(char *out, size_t size, const char *digits, int exponent)
{
    int count = (int)strlen(digits);
    if (exponent < -4 || exponent >= 16)
        snprintf(out, size, "%.1s%s%se%d", digits, count > 1 ? "." : "", digits + 1, exponent);
    else if (exponent < 0)
        snprintf(out, size, "0.%.*s%s", -exponent - 1, "000", digits);
    else if (count > exponent + 1)
        snprintf(out, size, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
    else
        snprintf(out, size, "%s%.*s", digits, exponent + 1 - count, "000000000000000");
}

static void format_number(char out[KILN__NUMBER_SIZE], double value)
{
    const char *sign = signbit(value) && !isnan(value) ? "-" : "";
    if (!isfinite(value)) {
        snprintf(out, KILN__NUMBER_SIZE, "%s%s", sign, isnan(value) ? "nan" : "inf");
        return;
    }
    char scientific[KILN__NUMBER_SIZE], digits[DIGITS_MAX + 1];
    format_scientific(scientific, fabs(value));
    size_t count = 0;
    const char *at = scientific;
    for (; *at != 'e'; at++)
        if (*at != '.')
            digits[count++] = *at;
    digits[count] = '\0';
    strcpy(out, sign);
    lay_out_digits(out + strlen(sign), KILN__NUMBER_SIZE - strlen(sign), digits, atoi(at + 1));
}

static unsigned exponent_of(double value, uint64_t *bits)
{
    memcpy(bits, &value, sizeof(*bits));
    return *bits >> 52 & 2047;
}

bool kiln__number_is_whole(double value)
{
    uint64_t bits;
    unsigned exponent = exponent_of(value, &bits);
    if (exponent < 1023)
        return bits << 1 == 0;
    if (exponent >= 1023 + 52)
        return exponent < 1023 + 63 || bits == (uint64_t)(1023 + 63 + 2048) << 52; /* -2^63 */
    return bits << (12 + exponent - 1023) == 0;
}

bool kiln__number_is_wide(double value)
{
    uint64_t bits;
    return exponent_of(value, &bits) >= 1023 + 31 && bits != (uint64_t)(1023 + 31 + 2048) << 52; /* -2^31 */
}

uint64_t kiln__number_step(uint64_t n)
{
    const unsigned kept = 3, exact = 64, word = 16;
    if (n <= exact)
        return n;
    const uint64_t odd = n % word, shared = odd & (0 - odd), even = n - shared;
    const uint64_t unit = UINT64_C(1) << (64 - (unsigned)__builtin_clzll(even) - kept), over = even % unit;
    return over == 0 || n > UINT64_MAX - unit ? n : n - over + unit;
}

unsigned kiln__number_octave(uint64_t n)
{
    unsigned floor = n > 0 ? 63 - (unsigned)__builtin_clzll(n) : 0;
    const uint64_t root = 0xb504f333f9de6484u; /* of 2, times 2^63 */
    return floor < 63 && n << (63 - floor) > root ? floor + 1 : floor;
}

void kiln__number_format(char out[KILN__NUMBER_SIZE], double value)
{
    neutral saved;
    enter_neutral(&saved);
    format_number(out, value);
    leave_neutral(&saved);
}

void kiln__number_format_hex(char out[KILN__NUMBER_SIZE], double value)
{
    neutral saved;
    enter_neutral(&saved);
    snprintf(out, KILN__NUMBER_SIZE, "%a", value);
    leave_neutral(&saved);
}
