/* Numbers as text, and sizes from it. Results last as long as the command. */
#ifndef KILN_TOOLS_FORMAT_H
#define KILN_TOOLS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "27.3 ms", "1.25 s", "840 ns": three digits or more. */
char *format_ms(double milliseconds);

/* "0.8421": milliseconds without a unit, for columns. */
char *format_ms_plain(double milliseconds);

/* "1.5 MiB", "812 B", the same in every locale. */
char *format_bytes(uint64_t bytes);

/* "1:02:09" or "0:14". */
char *format_clock(double seconds);

/* "3 minutes", "1 day": whole units, rounded down. */
char *format_age(double seconds);

char *format_count(uint64_t count);

/* The number, or "-" for -1, which is unknown. */
char *format_known(int value);

/* "2^28", or "1610612736" where it is no power of two of 1024 and more. */
char *format_power(uint64_t count);

/* "4237.50": as many decimals as asked for and '.' whatever the locale, never "-0"; of 10^15 and more the first 15
 * digits. */
char *format_fixed(double value, int decimals);

/* "0.1": the shortest text that reads back as the same double, with '.' whatever the locale. */
char *format_exact(double value);

/* How many decimals show three digits of a value of this size: 2, 1 or 0. */
int format_decimals(double value);

/* 10^9 bytes per second; 0 if no time passed. */
double gigabytes_per_second(uint64_t bytes, double milliseconds);

/* Reads a count of elements: "1048576", "2^20", "64M" (k, M, G: powers of 1024), "4096x393216". Returns false for
 * anything else, for 0 and for products beyond 2^62. */
bool parse_size(uint64_t *out, const char *text);

/* Reads a list of counts and ranges, "128,256", "1M,4M", "2^10..2^28", "2^10..2^30*4"; a range doubles, or multiplies
 * by what stands behind '*'. Gives them from the least on, each once, and returns how many; 0 for anything else and for
 * more than `room`. */
size_t parse_sizes(uint64_t *out, size_t room, const char *text);

/* Seconds of the monotonic clock. */
double now_seconds(void);

#endif
