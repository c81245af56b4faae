/* Common to public functions: the checks that they begin with, and structs that begin with their size. A
 * program that was built against other headers may know fewer or more fields of such a struct. */
#ifndef KILN_API_STRUCTS_H
#define KILN_API_STRUCTS_H

#include "base/report.h"
#include "os/cancel.h"
#include "os/fork.h"
#include "service/program.h"
#include <kiln/tune.h>

/* These return from the public function that they stand in. */

/* KILN_EINVAL with `what` unless the arguments are as `given` says. */
#define KILN__REQUIRE(report, stage, given, what)                         \
    do {                                                                  \
        if (!(given))                                                     \
            return kiln__fail(report, KILN_EINVAL, stage, 0, "%s", what); \
    } while (0)

/* The same for a pointer to the result, which becomes NULL until there is one. */
#define KILN__REQUIRE_OUT(report, stage, out)                                \
    do {                                                                     \
        KILN__REQUIRE(report, stage, (out) != NULL, "out must not be NULL"); \
        *(out) = NULL;                                                       \
    } while (0)

/* The same, and KILN_EFORKED in a child of the process that made `object`. */
#define KILN__REQUIRE_OWN(report, stage, object, given, what) \
    do {                                                      \
        KILN__REQUIRE(report, stage, given, what);            \
        if (kiln__is_forked((object)->generation))            \
            return kiln__fail_forked(report, stage);          \
    } while (0)

/* These make the report as new, too. The second one is for a function with a pointer to its result. */
#define KILN__BEGIN(report, stage, object, given, what)        \
    do {                                                       \
        kiln__report_begin(report);                            \
        KILN__REQUIRE_OWN(report, stage, object, given, what); \
    } while (0)
#define KILN__BEGIN_OUT(out, report, stage, object, given, what) \
    do {                                                         \
        kiln__report_begin(report);                              \
        KILN__REQUIRE_OUT(report, stage, out);                   \
        KILN__REQUIRE_OWN(report, stage, object, given, what);   \
    } while (0)

/* Fills as much of the caller's struct as it has; its own size field stays. NULL takes nothing. KILN_EINVAL if the
 * size cannot be right. */
kiln_status kiln__hand_out(void *out, const void *full, size_t full_size);

/* Copies the fields that the caller's struct, of the type `name`, has over the defaults in `full`; NULL has none.
 * KILN_EINVAL if its size cannot be right, or if it sets a field that this library does not know. */
kiln_status kiln__take_in(void *full, size_t full_size, const void *given, const char *name, const char *stage,
                          kiln_report *report);

/* Completes the grid of a launch of a function of a source; zeros for another kernel. KILN_EINVAL: the first takes a
 * grid and no sizes, the other no grid. */
kiln_status kiln__take_grid(kiln_grid *full, const kiln_kernel *kernel, const kiln_grid *grid, size_t size_count,
                            kiln_report *report);

#endif
