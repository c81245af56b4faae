/* The functions that expressions can call: what they are in C and CUDA, how far apart a GPU's and the cpu's may be, and
 * their values in double. */
#ifndef KILN_LANG_PRIMITIVE_H
#define KILN_LANG_PRIMITIVE_H

#include "lang/word.h"
#include <stdbool.h>
#include <stdint.h>

/* The numbers that a function gives of whole ones. */
typedef enum kiln__domain {
    KILN__DOMAIN_REAL,   /* real numbers */
    KILN__DOMAIN_CLOSED, /* whole numbers */
    KILN__DOMAIN_WHOLE   /* whole numbers, and it takes no others */
} kiln__domain;

/* The fast form of a function, in float32. It is within `ulps`, plus `slope` times the argument's size, or within the
 * bounds `relative` and `absolute` if these are larger. `cpu` is the cpu's own error in ulps. */
typedef struct kiln__fast_form {
    const char *name;
    double ulps, cpu, relative, absolute, slope;
} kiln__fast_form;

typedef struct kiln__primitive {
    const char *name;
    uint16_t arity;
    uint16_t cost; /* a compiler's work for a call */
    uint16_t ulps; /* between CUDA's function, which math=torch calls, and the cpu's: 0 where both have the same bits */
    kiln__domain domain;
    bool portable; /* math=portable has a form with the same bits everywhere */
    double (*value)(const double *arguments);
} kiln__primitive;

enum { KILN__COST_DIV = 16 };

/* Number i; NULL after the last. */
const kiln__primitive *kiln__primitive_at(uint32_t i);
uint32_t kiln__primitive_count(void);

/* The number of div, which the operator / calls. */
uint32_t kiln__primitive_division(void);

/* The number of a function by its name here or in C, where functions of float32 end in f: "fmaxf"; -1 if there is
 * none. */
int kiln__primitive_find(kiln__word name);

/* NULL: it has none. */
const kiln__fast_form *kiln__primitive_fast(uint32_t i);

/* The number in whose units in the last place the bound of a call counts: its value, or an argument where terms
 * cancel. */
double kiln__primitive_scale(uint32_t i, const double *arguments, double value);

/* The bound of the fast form of a call as a number. 0: it has none, or the result is exact. */
double kiln__primitive_fast_error(uint32_t i, const double *arguments, double value);

/* Whether it is stored(x). */
bool kiln__primitive_stores(uint32_t i);

#endif
