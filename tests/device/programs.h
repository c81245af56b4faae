/* What a check of a program in tests/programs/ works with: memory between guards, a launch, comparisons. */
#ifndef KILN_TESTS_DEVICE_PROGRAMS_H
#define KILN_TESTS_DEVICE_PROGRAMS_H

#include <kiln/kiln.h>
#include <stddef.h>
#include <stdint.h>

typedef struct program_run program_run;

/* Launches and comparisons of one program. */
typedef void (*program_check)(program_run *run);

/* The checks of a file by the names of the programs, a NULL behind the last. */
typedef struct named_check {
    const char *name;
    program_check check;
} named_check;
extern const named_check program_checks[], algorithm_checks[], library_checks[];

/* Host memory, freed when the check ends. */
void *room(program_run *run, size_t bytes);
float *random_floats(program_run *run, size_t count, float low, float high);
int *random_ints(program_run *run, size_t count, int low, int high); /* high included */

/* Device memory between guards, freed when the check ends: a copy of what is given, or poison. */
void *put(program_run *run, const void *from, size_t bytes);
void *poisoned(program_run *run, size_t bytes);
enum { POISON = 0xA5 };

/* A copy of device memory, freed when the check ends. */
void *take(program_run *run, const void *from, size_t bytes);

/* The address of a variable of the program. */
void *variable(program_run *run, const char *name, size_t bytes);
void copy_to(program_run *run, void *to, const void *from, size_t bytes);

/* ARGUMENTS(&a, &b): pointers to the values, NULL behind them. */
#define ARGUMENTS(...) ((const void *const[]){ __VA_ARGS__, NULL })

/* Blocks of threads in one dimension; the whole grid. Both wait for the end. */
void launch(program_run *run, const char *function, uint32_t blocks, uint32_t threads, const void *const *arguments);
void launch_grid(program_run *run, const char *function, const kiln_grid *grid, const void *const *arguments);

/* Notes whether what came out is right. The bound is on the difference to what is expected: absolute + relative *
 * |expected|. */
void same(program_run *run, const void *got, const void *expected, size_t bytes);
void near(program_run *run, const float *got, const double *expected, size_t count, double absolute, double relative);

/* 16-bit floating point. To half and bfloat16 it is rounded to nearest, ties to even; for ordinary numbers only. */
uint16_t to_half(double value);
double from_half(uint16_t bits);
uint16_t to_bfloat16(float value);
float from_bfloat16(uint16_t bits);

#endif
