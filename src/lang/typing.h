/* The types of the values within the expression of a spec, by PyTorch's type promotion.
 *
 * An operator, a function or an op converts its arguments to one type and calculates in it. Numbers and scalars take
 * the type of the arrays beside them: a real number makes whole ones f32, and a whole number makes a bool i64. A choice
 * between two numbers is such a number, too. Division and most functions give real numbers of whole ones. A comparison
 * gives a bool. An op is one step, whatever its definition consists of. Pure. */
#ifndef KILN_LANG_TYPING_H
#define KILN_LANG_TYPING_H

#include "lang/dtype.h"
#include "lang/real.h"

typedef struct kiln__typing {
    kiln__dtype dtype; /* of the spec: that all inputs together are promoted to */
    bool mixed;        /* values are calculated in several types; else all of them in `step`, */
    kiln__dtype step;  /* which is the dtype, or f32 of whole numbers */
    /* Of each node: the type of its value, KILN__DTYPE_UNSET for a number that takes another's; whether such a number
     * is real; and the type that it is calculated in. That of a condition is the dtype. */
    uint8_t own[KILN__REAL_NODES_MAX], in[KILN__REAL_NODES_MAX];
    bool real[KILN__REAL_NODES_MAX];
    bool picked[KILN__REAL_NODES_MAX]; /* whether a reduction may have the value of the node as its own: max, argmax */
} kiln__typing;

/* `inputs` has the type of each input, and `dtype` is that of all. */
void kiln__typing_make(kiln__typing *out, const kiln__real *real, const kiln__op_table *ops, kiln__dtype dtype,
                       const kiln__dtype inputs[KILN__INPUTS_MAX]);

/* The type that an output is calculated in. */
kiln__dtype kiln__typing_in(const kiln__typing *typing, const kiln__real *real, uint32_t output);

/* The type of its value. */
kiln__dtype kiln__typing_result(const kiln__typing *typing, const kiln__real *real, uint32_t output);

/* The type that a type is calculated in: f64, f32, i64 or i32. */
kiln__dtype kiln__typing_computed(kiln__dtype dtype);

/* The C type of values of a type: "float". */
const char *kiln__typing_c_type(kiln__dtype dtype);

/* Whether the value of a node is rounded to its type, which is stored in fewer bits than it is calculated in. Sums and
 * products of bools always are, to 0 and 1, and so are whole numbers of which max and its kin pick one. */
bool kiln__typing_rounds(const kiln__typing *typing, const kiln__real *real, uint32_t node, bool eager);

/* Whether argument j of a node is a number that is rounded to f16 or bf16 before it is compared with arrays of that
 * type or divided by them: PyTorch takes it as one of them there. A number that would become infinite stays. */
bool kiln__typing_rounds_number(const kiln__typing *typing, const kiln__real *real, uint32_t node, uint32_t j);

/* Marks the nodes that are calculated in a type. Returns whether there are any, or an output or a condition that is a
 * number of the type. */
bool kiln__typing_mark(const kiln__typing *typing, const kiln__real *real, kiln__dtype in,
                       bool nodes[KILN__REAL_NODES_MAX]);

#endif
