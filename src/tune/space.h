/* The variants that a spec leaves open, from which a search chooses. */
#ifndef KILN_TUNE_SPACE_H
#define KILN_TUNE_SPACE_H

#include "spec/fields.h"

enum {
    KILN__SPACE_MAX = 4096,                              /* variants of a space */
    KILN__COMBINATIONS_MAX = 65536,                      /* of values, possible or not */
    KILN__SPACE_REASONS_MAX = 2 * KILN__REQUIRES_MAX + 2 /* requirements, bounds, and two fixed ones */
};

typedef struct kiln__combination {
    uint64_t tile; /* elements that one block of threads computes; 0: the template does not tell */
    size_t order;  /* among those of equal tile */
    int64_t params[KILN__PARAMS_MAX];
} kiln__combination;

/* A reason to leave combinations out. */
typedef struct kiln__space_reason {
    const char *text; /* of the first requirement or bound that does not hold; borrowed from the template, or static */
    size_t count;
} kiln__space_reason;

typedef struct kiln__space {
    kiln__fields base; /* the default, complete: variant 0 */
    kiln__combination *variants;
    size_t count; /* at least 1 */
    kiln__space_reason reasons[KILN__SPACE_REASONS_MAX];
    size_t reason_count;
} kiln__space;

/* All variants of a spec. Fixed parameters stay as they are, and each open one takes the values that the template says
 * are worth trying ("tune" lines). Combinations that are impossible or out of bounds are left out and counted. A
 * parameter that no "tune" line names has all values of its list or all powers of two of its range. A parameter whose
 * lines do not hold here keeps its default.
 *
 * Variant 0 is the default, which a get of the spec takes where there is no wisdom, whatever the template says is worth
 * trying. After it small tiles come before large ones, and equal tiles in the order of the declarations, the last
 * parameter fastest. The order depends on nothing but the spec and the target, and no variant comes twice. It is the
 * order of preference: of variants that tie, a search chooses the earliest.
 *
 * Errors: KILN_ESPEC (the default is impossible; more than KILN__COMBINATIONS_MAX combinations or KILN__SPACE_MAX
 * variants), KILN_ENOMEM; *out is then empty. Ends with kiln__space_fini. */
kiln_status kiln__space_make(kiln__space *out, const kiln__fields *spec, const kiln__target *target,
                             kiln_report *report);
void kiln__space_fini(kiln__space *space);

/* The complete spec of variant `index`. */
void kiln__space_spec(const kiln__space *space, size_t index, kiln__fields *out);

/* Called for a combination that is not in the space, with as many fields set as can be, and with the reason that
 * kiln__space_reason has; both are borrowed. Non-zero stops. */
typedef int (*kiln__impossible_fn)(void *data, const kiln__fields *spec, const char *why);

/* Visits the combinations that kiln__space_make leaves out, in the order of the declarations. Errors as there. */
kiln_status kiln__space_visit_impossible(const kiln__fields *spec, const kiln__target *target, kiln__impossible_fn fn,
                                         void *data, kiln_report *report);

#endif
