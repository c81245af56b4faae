/* The functions of an axis: reductions such as sum, which have one value for it, and scans such as cumsum, which have
 * one for each element, of those up to it. Their names and the types of their values. */
#ifndef KILN_LANG_REDUCTION_H
#define KILN_LANG_REDUCTION_H

#include "base/text.h"
#include "lang/dtype.h"

typedef enum kiln__reduction {
    KILN__REDUCE_SUM,
    KILN__REDUCE_MEAN,
    KILN__REDUCE_PROD,
    KILN__REDUCE_MAX,
    KILN__REDUCE_MIN,
    KILN__REDUCE_ARGMAX,
    KILN__REDUCE_ARGMIN,
    KILN__REDUCE_ANY,
    KILN__REDUCE_ALL,
    KILN__REDUCE_VAR,
    KILN__REDUCE_STD,
    KILN__REDUCE_NORM,
    KILN__REDUCE_LOGSUMEXP,
    KILN__SCAN_SUM,
    KILN__SCAN_PROD,
    KILN__SCAN_MAX,
    KILN__SCAN_MIN,
    KILN__REDUCTIONS
} kiln__reduction;

const char *kiln__reduction_name(kiln__reduction reduction);

/* KILN__REDUCTIONS if there is none of that name. */
kiln__reduction kiln__reduction_find(kiln__word name);

/* What a scan differs in, as bits: its value leaves out the element itself; it begins at the end of the axis. */
enum { KILN__SCAN_EXCLUSIVE = 1, KILN__SCAN_REVERSE = 2 };

/* Whether it is a scan, and the reduction that the value of its last element is; another is itself. */
bool kiln__reduction_scans(kiln__reduction reduction);
kiln__reduction kiln__reduction_of_scan(kiln__reduction scan);

/* Whether it takes correction=, a number that it subtracts from the count of the elements: var and std. */
bool kiln__reduction_corrects(kiln__reduction reduction);

/* Whether its value has the same bits in any order of the elements, also of real numbers. */
bool kiln__reduction_is_exact(kiln__reduction reduction);

/* Whether its value is one of the elements, or the place of one. */
bool kiln__reduction_picks(kiln__reduction reduction);

/* Whether it gives whole numbers of whole ones. */
bool kiln__reduction_is_whole(kiln__reduction reduction);

/* Whether its value is true or false, whatever the elements are. */
bool kiln__reduction_is_truth(kiln__reduction reduction);

/* The type of its value from elements of a type, as in PyTorch. */
kiln__dtype kiln__reduction_type(kiln__reduction reduction, kiln__dtype elements);

/* The functions that its C text calls besides those of real.h: NULL after the last. */
const char *kiln__reduction_call(kiln__reduction reduction, uint32_t i);

/* The dimensions of tensors that an op reduces, neighbours: numbers from the first, 0, or from the last, -1. */
typedef struct kiln__axis {
    bool all;
    int first, last;
} kiln__axis;

extern const kiln__axis kiln__axis_last; /* -1 */

bool kiln__axis_same(const kiln__axis *a, const kiln__axis *b);

/* Reads "-1", "(1,2)" or "all". False: it is none of these. */
bool kiln__axis_parse(kiln__axis *out, kiln__word text);
void kiln__axis_format(const kiln__axis *axis, kiln__text *out);

#endif
