/* Live handles: the best kernel there is now, while a better one is on its way.
 *
 *     kiln_live *live;
 *
 *     kiln_live_open(&live, service, spec, NULL, NULL);         returns at once
 *     kiln_live_launch(live, n, out, inputs, NULL, NULL);       KILN_EPENDING as long as there is no kernel
 *     kiln_live_close(live);
 *
 * A handle takes, each as soon as it is there:
 *   1. any kernel of this service that computes the same on the same device, whatever its geometry (one that is loaded;
 *      else, where the spec names a geometry, the one of the same spec without it, if that is in a store);
 *   2. the kernel that kiln_get would give, loaded or compiled in the background;
 *   3. if it is asked for, the fastest geometry, found by kiln_tune in the background.
 *
 * The rules of <kiln/kiln.h> hold here too. */
#ifndef KILN_LIVE_H
#define KILN_LIVE_H

#include <kiln/kiln.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Any thread may launch and ask, several at once; kiln_live_close must be the last call. */
typedef struct kiln_live kiln_live;

/* How far a handle has come; only ever forwards. */
typedef enum kiln_live_state {
    KILN_LIVE_PENDING = 1, /* there is no kernel yet */
    KILN_LIVE_READY,       /* there is one, of another geometry than the one on its way */
    KILN_LIVE_EXACT,       /* there is the one that kiln_get would give */
    KILN_LIVE_TUNING,      /* that one is launched while faster ones are looked for */
    KILN_LIVE_SETTLED,     /* nothing better will come */
    KILN_LIVE_FAILED       /* nothing more will come, for something failed; the kernel that there is, if any, stays */
} kiln_live_state;

/* "pending", "ready", "exact", "tuning", "settled" or "failed". A static string; any thread. */
KILN_API const char *kiln_live_state_name(kiln_live_state state);

/* Zero in a field means the default. Copied by kiln_live_open. */
typedef struct kiln_live_options {
    size_t size;         /* sizeof(kiln_live_options): set by KILN_LIVE_OPTIONS_INIT */
    kiln_device *device; /* as for kiln_get_on; NULL: the default device */
    int priority;        /* of its compile, as in kiln_async_options */
    /* How to look for the fastest geometry, see <kiln/tune.h>; NULL: not at all. A tuning keeps the device busy for
     * seconds, has arrays of its own there, and other work on the device disturbs it as it disturbs the other work. The
     * tunings of a service take turns. `progress` is called on a thread of the service and must not close it;
     * `device`, `trying`, `skip`, `suspect`, `sizes` and `args` play no part. */
    const struct kiln_tune_options *tune;
} kiln_live_options;

#define KILN_LIVE_OPTIONS_INIT                   \
    {                                            \
        sizeof(kiln_live_options), NULL, 0, NULL \
    }

/* Makes a handle and returns at once, as kiln_get_async does: no file is read, no driver opened and nothing compiled
 * inside the call. Where a kernel that will do is loaded, it can be launched when this returns; but once a second, when it
 * is time to see whether wisdom has changed, a moment later. `spec` is copied.
 * Errors: KILN_EINVAL (also: another service's device, tuning options out of range), KILN_ENOMEM. What is wrong with
 * the spec is found in the background: launches and kiln_live_wait tell it. */
KILN_API KILN_MUST_USE kiln_status kiln_live_open(kiln_live **out, kiln_service *service, const kiln_spec *spec,
                                                  const kiln_live_options *options, kiln_report *report);

/* Launches the best kernel that there is now; otherwise as kiln_launch. Takes no lock and allocates nothing, also while
 * a kernel is being replaced: each launch runs one kernel whole. With n 0 it only says whether there is a kernel.
 * Errors: those of kiln_launch; where there is no kernel KILN_EPENDING, or, when none will come, what kiln_get would
 * say. */
KILN_API kiln_status kiln_live_launch(kiln_live *live, uint64_t n, void *out, const void *const *in, void *stream,
                                      kiln_report *report);

/* A new reference to that kernel, which the caller releases, or NULL. Takes no lock. */
KILN_API kiln_kernel *kiln_live_kernel(kiln_live *live);

/* Strings are borrowed and live as long as the handle. */
typedef struct kiln_live_info {
    size_t size; /* sizeof(kiln_live_info): set by the caller */
    kiln_live_state state;
    const char *spec;    /* of the kernel that is launched: canonical text, every field set; "" if there is none */
    uint32_t swaps;      /* how often a kernel was replaced by a better one */
    double ratio;        /* time of a launch over that with the default geometry, as tuning found it; 0: not tuned */
    kiln_status status;  /* KILN_OK, or why the state is KILN_LIVE_FAILED */
    const char *problem; /* that in words, "" if there is nothing */
} kiln_live_info;

/* Fills *out, whose size field must be set. */
KILN_API kiln_status kiln_live_get_info(kiln_live *live, kiln_live_info *out);

/* Blocks until the handle has come to a state, at most timeout_ms (below 0: for ever). KILN_LIVE_READY waits for any
 * kernel; KILN_LIVE_SETTLED for the end. A state that is passed over counts as reached. Errors: KILN_EINVAL (no such
 * state, or KILN_LIVE_FAILED), KILN_ETIMEDOUT, and what failed before it got there, with its report. */
KILN_API kiln_status kiln_live_wait(kiln_live *live, kiln_live_state state, int timeout_ms, kiln_report *report);

/* Ends a handle and lets go of its kernels, the replaced ones too: launches must have finished by then. A compile that
 * nobody else waits for is not begun; one that has begun goes on and fills the cache. A tuning that measures is ended
 * and waited for, some milliseconds; one that still compiles what it needs ends as soon as that is done, at the latest
 * in kiln_close, and calls `progress` no more. The handle may outlive its service, and then goes on launching the
 * kernel that it has; but it must not be closed while kiln_close runs. NULL is allowed. */
KILN_API void kiln_live_close(kiln_live *live);

#ifdef __cplusplus
}
#endif
#endif
