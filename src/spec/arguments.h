/* Arguments of kernels: the declarations size, arg, grid, block, shared, phases and traffic of a template, and the plan
 * that a spec makes of them. See docs/templates.md. Pure. */
#ifndef KILN_SPEC_ARGUMENTS_H
#define KILN_SPEC_ARGUMENTS_H

#include "lang/dtype.h"
#include "lang/formula.h"
#include "lang/op.h"

enum {
    KILN__SIZES_MAX = 4,
    KILN__DECLARED_MAX = 12,
    KILN__ENTRIES_MAX = 4,
    KILN__ARGS_MAX = KILN__DECLARED_MAX + KILN__OUTPUTS_MAX + KILN__INPUTS_MAX + KILN__SCALARS_MAX - 3,
    KILN__DIMS_MAX = 4,
    KILN__LOOP_DIMS = 8, /* of the strides of tensors */
    KILN__OPERANDS_MAX = KILN__OUTPUTS_MAX + KILN__INPUTS_MAX,
    KILN__VIEW_MAX = KILN__LOOP_DIMS * (2 + KILN__OPERANDS_MAX), /* words of 8 bytes of an argument of strides */
    KILN__VARIABLES_OF_STRIDES = 3,                              /* cols, rows and span, behind the sizes */
    KILN__ARG_NAME = KILN__OP_NAME_SIZE
};

typedef enum kiln__arg_role {
    KILN__ARG_IN,
    KILN__ARG_OUT,
    KILN__ARG_INOUT,
    KILN__ARG_FORMULA, /* a number that a formula gives */
    KILN__ARG_SCALAR   /* a number given at launch */
} kiln__arg_role;

typedef struct kiln__declared_arg {
    char *name;
    kiln__arg_role role;
    kiln__dtype type; /* KILN__DTYPE_UNSET: the spec's, _RESULT: that of its result, _INPUT: that of each input */
    bool each;        /* stands for all inputs of the op, "x...", its outputs, "out...", or its scalars, "s..." */
    bool in_place;  /* an output that may be one of the inputs: it depends on their elements of the same index alone */
    bool broadcast; /* inputs that may have one row or one column for all: layout= tells which */
    bool reduced;   /* outputs that have one column where the op reduces the columns */
    bool scanned;   /* and of one that scans them */
    /* Of KILN__ARG_FORMULA. */
    bool strides; /* a struct with the extents and strides of all arrays */
    bool scratch; /* memory of the launch, of so many bytes as the formula says */
    bool phase;   /* the number of the phase */
    uint32_t dims;
    char *formulas[KILN__DIMS_MAX]; /* the shape of an array, or [0] the value of a number */
} kiln__declared_arg;

/* How an input lies in a kernel of rows and columns, and then how an array lies in a kernel of any strides. */
typedef enum kiln__layout {
    KILN__LAYOUT_FULL,
    KILN__LAYOUT_ROW,    /* one row for all */
    KILN__LAYOUT_COLUMN, /* one column for all */
    KILN__LAYOUT_ONE,    /* one element for all */
    KILN__LAYOUT_UNIT,   /* contiguous along the innermost dimension */
    KILN__LAYOUT_SAME,   /* one element for all of the innermost dimension */
    KILN__LAYOUT_ANY,
    KILN__LAYOUT_CROSS, /* contiguous along the dimension beside the innermost one */
    KILN__LAYOUT_END,
    KILN__LAYOUT_STRIDED = KILN__LAYOUT_UNIT /* the first word of the latter */
} kiln__layout;

/* The operands of a spec, for which the arguments of a template stand. Names are borrowed. */
typedef struct kiln__operands {
    kiln__dtype dtype;                                /* stands for "dtype" */
    uint32_t input_count, output_count, scalar_count; /* of the op; without one there is an output and nothing else */
    struct {
        kiln__dtype type; /* "itype" and "otype" */
        kiln__layout layout;
        const char *name;
    } inputs[KILN__INPUTS_MAX], outputs[KILN__OUTPUTS_MAX];
    const char *scalars[KILN__SCALARS_MAX];
    bool indexed;     /* the op takes the number of an element, */
    bool counts;      /* which is that in the result, and not along an axis */
    uint32_t columns; /* inputs that the op takes as columns, as bits */
    uint32_t dims;    /* of the strides; 0 counts as 1 */
} kiln__operands;

/* One type for all, and an op with so many inputs and an output. */
kiln__operands kiln__operands_plain(kiln__dtype dtype, uint32_t inputs);

/* Part of a template. */
typedef struct kiln__arguments {
    char *sizes[KILN__SIZES_MAX];
    uint32_t size_count;
    kiln__declared_arg args[KILN__DECLARED_MAX]; /* in the order of the kernel's parameters */
    uint32_t arg_count;
    char *grid[3], *block[3]; /* formulas, NULL: 1 */
    char *shared;             /* formula: bytes of dynamic shared memory, NULL: 0 */
    char *phases;             /* formula: how often a launch submits the kernel, NULL: once */
    char *traffic;            /* formula: bytes that a launch reads and writes, NULL: its arrays, once each */
    char *conditions[KILN__ENTRIES_MAX]; /* formulas: where an entry may be launched, NULL: always */
} kiln__arguments;

/* One size, which is the extent of every array: kiln_launch_n takes such arguments, if no number is given at launch. */
bool kiln__arguments_flat(const kiln__arguments *arguments);

/* The same, and every array that is written may be one that is read: each element depends on the elements of its
 * index alone. */
bool kiln__arguments_elementwise(const kiln__arguments *arguments);

/* Whether all arrays have the shape of the two sizes, rows and then columns. */
bool kiln__arguments_rows(const kiln__arguments *arguments);

/* Whether it takes ops that reduce the columns, and those that scan them. */
bool kiln__arguments_reduce(const kiln__arguments *arguments);
bool kiln__arguments_scan(const kiln__arguments *arguments);

/* Whether its arrays may have any strides, which an argument brings. Such arguments are flat, too. */
bool kiln__arguments_strided(const kiln__arguments *arguments);

/* How many arrays the arguments read, for an op with so many inputs. */
uint32_t kiln__arguments_inputs(const kiln__arguments *arguments, uint32_t op_inputs);

/* How many arrays they write. */
uint32_t kiln__arguments_outputs(const kiln__arguments *arguments, uint32_t op_outputs);

/* How many arguments of a kernel a declared one is. */
uint32_t kiln__arg_count(const kiln__declared_arg *arg, const kiln__operands *operands);

/* The name and the type of the k-th of them. */
const char *kiln__arg_name(const kiln__declared_arg *arg, const kiln__operands *operands, uint32_t k);
kiln__dtype kiln__arg_type(const kiln__declared_arg *arg, const kiln__operands *operands, uint32_t k);

/* The bytes of an element or of a number. An argument of strides has an extent, two numbers by which it divides, and a
 * stride of each array, 8 bytes each for each dimension. */
uint32_t kiln__arg_bytes(const kiln__declared_arg *arg, const kiln__operands *operands, uint32_t k);

/* Whether it is an input that the op takes as a column. */
bool kiln__arg_is_column(const kiln__declared_arg *arg, const kiln__operands *operands, uint32_t k);

/* The dimensions of strides, at least 1. */
uint32_t kiln__operands_dims(const kiln__operands *operands);

/* The formula of a dimension of the k-th of them, as it is declared: "1" where the layout of an array has one. */
const char *kiln__arg_extent(const kiln__declared_arg *arg, const kiln__operands *operands, uint32_t k, uint32_t dim);

/* How many parameters a kernel has. */
uint32_t kiln__arguments_count(const kiln__arguments *arguments, const kiln__operands *operands);

/* Whether there is an argument with such a role that stands for all of its kind. */
bool kiln__arguments_each(const kiln__arguments *arguments, kiln__arg_role role);

bool kiln__arguments_has_size(const kiln__arguments *arguments, kiln__word name);

/* ---- Plans: the arguments for known parameters, as launches need them */

typedef struct kiln__plan_arg {
    char name[KILN__ARG_NAME];
    kiln__arg_role role;
    kiln__dtype type;     /* never KILN__DTYPE_UNSET */
    kiln__dtype declared; /* KILN__DTYPE_UNSET, _RESULT or _INPUT: the type follows the spec */
    kiln__layout layout;  /* of an output or an input of the op */
    bool in_place, column, strides, scratch, phase;
    uint32_t bytes; /* of an element, a number or a pointer, or of all strides */
    uint32_t dims;
    uint32_t formulas[KILN__DIMS_MAX]; /* of the shape, or [0] of the number */
} kiln__plan_arg;

/* Bytes of the kernel's parameter: of a pointer, or of a number. */
static inline uint32_t kiln__plan_arg_bytes(const kiln__plan_arg *arg)
{
    return arg->role <= KILN__ARG_INOUT ? (uint32_t)sizeof(void *) : arg->bytes;
}

/* Formulas of a plan are numbers for kiln__plan_value and kiln__plan_text. One piece of memory, which may be copied as
 * bytes. */
typedef struct kiln__plan {
    size_t total;
    kiln__formulas formulas;
    uint32_t texts[KILN__FORMULAS_MAX]; /* where in `text` each formula is, with numbers in place of parameters */
    uint32_t size_count, arg_count;
    uint32_t outputs, inputs, scalars; /* arguments that are written, only read, and numbers given at launch */
    bool flat;                         /* see kiln__arguments_flat */
    bool elementwise; /* see kiln__arguments_elementwise, without strides, and no element depends on its number */
    bool counts;      /* results depend on the number of their element */
    uint32_t dims;    /* of the strides; 0: there are none */
    char sizes[KILN__SIZES_MAX][KILN__ARG_NAME];
    kiln__plan_arg args[KILN__ARGS_MAX];
    /* Arrays that may not share a byte, by their numbers: one that is written, and any other. */
    struct {
        uint8_t written, other;
    } pairs[KILN__ARGS_MAX * KILN__ARGS_MAX];
    uint32_t pair_count;
    uint32_t grid[3];   /* formulas */
    uint32_t grid_dims; /* how many of them are declared; the others are 1 */
    uint32_t block[3], shared, phases;
    uint32_t scratch, phase;                /* the numbers of the arguments of that kind; UINT32_MAX: there is none */
    uint32_t traffic;                       /* a formula, UINT32_MAX where none is declared */
    uint32_t conditions[KILN__ENTRIES_MAX]; /* likewise, of each entry */
    char text[];
} kiln__plan;

/* Makes the plan of a template's arguments. `lookup` knows the parameters, not the sizes. The caller frees *out with
 * kiln__free. Errors: KILN_ESPEC (a block of no or too many threads), KILN_ENOMEM. */
kiln_status kiln__plan_make(kiln__plan **out, const kiln__arguments *arguments, kiln__formula_lookup lookup,
                            const void *data, const kiln__operands *operands, kiln_report *report);

/* The text of a formula: its only names are sizes. */
const char *kiln__plan_text(const kiln__plan *plan, uint32_t formula);

/* Sets what formulas know of strides. */
static inline void kiln__plan_set_strides(const kiln__plan *plan, int64_t cols, int64_t rows, int64_t span,
                                          kiln__formula_values *out)
{
    kiln__formulas_set(out, plan->size_count, cols);
    kiln__formulas_set(out, plan->size_count + 1, rows);
    kiln__formulas_set(out, plan->size_count + 2, span);
}

/* The extents of a launch without tensors, the innermost first: near to a cube, as powers of two that divide n. The
 * innermost one has the rest, which keeps a factor of 16 where n has it, so that rows are whole words. */
void kiln__plan_extents(const kiln__plan *plan, int64_t n, int64_t out[KILN__LOOP_DIMS]);

/* Calculates all formulas with these sizes; one above INT64_MAX counts as INT64_MAX. Arrays with strides have the shape
 * of kiln__plan_extents. Takes no memory and no lock. */
static inline void kiln__plan_calculate(const kiln__plan *plan, const uint64_t *sizes, kiln__formula_values *out)
{
    for (uint32_t i = 0; i < plan->size_count; i++)
        kiln__formulas_set(out, i, sizes[i] <= INT64_MAX ? (int64_t)sizes[i] : INT64_MAX);
    if (plan->dims > 0) {
        int64_t extents[KILN__LOOP_DIMS];
        kiln__plan_extents(plan, out->slot[0].value, extents);
        kiln__plan_set_strides(plan, extents[0], plan->dims > 1 ? extents[1] : 1, out->slot[0].value, out);
    }
    kiln__formulas_calculate(&plan->formulas, out);
}

/* Fails with the reason why a formula has no usable value. */
kiln_status kiln__plan_fail_value(const kiln__plan *plan, uint32_t formula, kiln__number_or value, const char *what,
                                  kiln_report *report);

/* The value of a formula. KILN_EINVAL, with `what` in front: it has none, or is below 0. Inline for the sake of
 * launches. */
static inline kiln_status kiln__plan_value(const kiln__plan *plan, uint32_t formula, const kiln__formula_values *values,
                                           const char *what, uint64_t *out, kiln_report *report)
{
    kiln__number_or value = kiln__formulas_value(&plan->formulas, values, formula);
    *out = (uint64_t)value.value;
    return value.missing == NULL && value.value >= 0 ? KILN_OK
                                                     : kiln__plan_fail_value(plan, formula, value, what, report);
}

/* Elements of an array. */
kiln_status kiln__plan_elements(const kiln__plan *plan, uint32_t arg, const kiln__formula_values *values, uint64_t *out,
                                kiln_report *report);

#endif
