/* What all fault suites share: which form runs, their figures, repeatable random numbers. */
#ifndef KILN_TESTS_FAULT_FIGURES_H
#define KILN_TESTS_FAULT_FIGURES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* True for the long form: check_fault --long. */
extern bool fault_long;

/* One line of figures: "corruption: flips: 32768 tried, 0 wrong hits, ..." */
#define FIGURES(...)               \
    do {                           \
        printf("   " __VA_ARGS__); \
        putchar('\n');             \
        fflush(stdout);            \
    } while (0)

/* Says that a part was left out, and why. */
#define LEFT_OUT(...) FIGURES("left out: " __VA_ARGS__)

static inline double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* xorshift64*: the same numbers in each run. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1D;
}

#endif
