/* The plan of an op that reduces: which values each row has, in which order they are calculated, and the C text of it.
 *
 * A value of a row comes from a fold over its elements, and its terms may need values of earlier stages: var needs the
 * mean, softmax the greatest element before its sum. Each stage is one walk over the row. Equal reductions have one
 * value. The folds of scans go on along the row while the results are calculated: the stage behind the others. A
 * template says how a row is walked and how partial folds are joined; the text below says what is folded. Pure. */
#ifndef KILN_SPEC_ROWS_H
#define KILN_SPEC_ROWS_H

#include "lang/reduction.h"
#include "spec/fields.h"

enum { KILN__ROW_VALUES_MAX = 2 * KILN__REAL_REDUCTIONS_MAX };

#define KILN__STAGE_OF_SCANS UINT32_MAX

/* A value that each row has, or of a scan each element. */
typedef struct kiln__row_value {
    kiln__reduction reduction; /* of a scan, that of the elements so far */
    uint16_t argument;         /* the node of the elements */
    int place; /* the node of the position of the only element that may not be 0; -1: there is none such */
    double correction;
    uint32_t stage;       /* from 0; or that of scans */
    int base;             /* the value that is subtracted from each element: the mean in var; -1: none */
    bool joint;           /* folded in the stage of its base, from a number near it: see kiln__rows_make */
    kiln__dtype elements; /* that they are folded in */
    kiln__dtype type;     /* of the value */
} kiln__row_value;

typedef struct kiln__rows {
    kiln__row_value values[KILN__ROW_VALUES_MAX];
    uint32_t count, stages;
    uint8_t places[KILN__REAL_NODES_MAX]; /* of each node that reduces, the number of its value */
} kiln__rows;

/* Plans the op of a spec, of which `typing` has the types.
 *
 * `joint`: var, std, logsumexp and the sum of exp(x - max(x)) are folded in the same walk as the mean or the greatest
 * element. Their folds subtract a number of their own, which they keep: for exp one that is at most 8 below the
 * greatest element so far, so that it rarely changes; for squares the first element and later the mean.
 * Joining and finishing correct for it. That takes one walk instead of two, and more instructions for an element. */
void kiln__rows_make(kiln__rows *out, const kiln__fields *spec, const kiln__typing *typing, bool joint);

/* The stages of the op of a spec, that of its scans included, and the most bytes that the folds of one have in CUDA,
 * joint or not. */
uint32_t kiln__rows_stages(const kiln__fields *spec, bool joint);
uint32_t kiln__rows_fold_bytes(const kiln__fields *spec);

/* Whether a value of the op of a spec may have joint folds. */
bool kiln__rows_may_join(const kiln__fields *spec);

/* How many values of each element a row keeps from its first walk to its results: one where these take all inputs of
 * rows and columns by way of equal expressions, as in softmax(x + y); else as many as there are such inputs. */
uint32_t kiln__rows_live(const kiln__fields *spec);

/* The template for `rows` rows of `cols` elements: rows; cluster where they do not fit the registers of a block, or
 * fill those of a multiprocessor in 16 bits, but fit the shared memory of a cluster, and are needed more than once or
 * too few for a block each; or split where longer ones, or those of an op that scans, are too few for a GPU, or for the
 * cores of a cpu. Split needs pools of memory. The spec has its dtype and layouts. */
const char *kiln__rows_template(const kiln__fields *spec, const kiln__target *target, bool has_pools, uint64_t rows,
                                uint64_t cols);

/* The inputs of the op as parameters of a C function, "float x, float y", then scalars, and the position. */
void kiln__rows_append_parameters(const kiln__fields *spec, const kiln__typing *typing, kiln__text *out);

/* The C text for a template, where the functions that the op calls stand before it:
 *
 *     #define KILN_FOLD_STAGES(M)    M(0) M(1) ..., one for each stage
 *     #define KILN_FOLD_BYTES   the most that the folds of a stage have in CUDA
 *     struct kiln_row           the values of a row, r0, r1, ...
 *     struct kiln_folds0        of stage 0: folds that are not finished, KILN_SPREAD of each
 *     #define KILN_FOLDS0(M)    M(a0) M(a1) ..., its members
 *     kiln_clear0(f, j)         sets folds number j to those of no element
 *     kiln_take0(f, j, row, x, ..., position)
 *                               adds an element with its position along the axis, later than those before it
 *     kiln_join0(f, j, g, i)    adds folds number i of g to those number j of f, in either order of the elements
 *     kiln_finish0(f, j, row, n)
 *                               sets the values of a row of n elements from folds number j
 *     kiln_folds_scan, ...      the same of all scans, but that none is finished; folds are joined in the order of the
 *                               elements
 *
 * In CUDA the functions of all stages have one name, without the number. Where a value is joint, bases are chosen
 * before elements are added:
 *
 *     kiln_peek0(f, j, row, x, ..., position)
 *                               notes an element in folds that are used for nothing else
 *     kiln_settle0(f, j, g, i)  chooses the bases of folds number j of f for the elements that number i of g has noted
 *
 * With `picks` kiln_take leaves out the sums of which one element counts, sum(index == t ? x : 0), and one thread of a
 * row adds it:
 *
 *     #define KILN_PICKS0(M)    M(2) ..., the numbers of these sums of stage 0
 *     kiln_place2(row, x, ...)  the position of the element
 *     kiln_pick2(f, j, row, x, ..., position)
 *                               adds the element of that position */
void kiln__rows_append(const kiln__rows *rows, const kiln__fields *spec, const kiln__typing *typing, bool picks,
                       kiln__text *out);

#endif
