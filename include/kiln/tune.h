/* Find the fastest geometry, keep what was found, launch the best kernel there is.
 *
 *     kiln_tune(&tuning, service, spec, NULL, &report);           blocks for some seconds
 *     kiln_tuning_get_info(tuning, &info);                        info.results[0]->spec is the fastest variant
 *     kiln_tuning_free(tuning);
 *
 * A variant is one complete choice of a template's parameters; all of them are the space of a spec. The fastest variant
 * is kept as wisdom, and from then on a get that leaves its geometry open takes it. docs/tuning.md says how all of
 * this is done and what is promised. */
#ifndef KILN_TUNE_H
#define KILN_TUNE_H

#include <kiln/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The space --------------------------------------------------------------------------------------------------- */

typedef struct kiln_variant {
    size_t size;
    const char *spec;    /* canonical text, every field set as far as it can be */
    const char *problem; /* "": possible; else the requirement or bound that it breaks, in words */
} kiln_variant;

typedef int (*kiln_variant_fn)(void *data, const kiln_variant *variant);

/* Shows the space of a spec, which kiln_tune searches: the default first, then the others in order of preference, then
 * the combinations that are impossible or not worth trying. The default device is looked for only where the spec names
 * no target. Errors: KILN_EINVAL, KILN_ESPEC (an impossible default; more than 4096 variants), KILN_ENODRIVER,
 * KILN_ENODEVICE, KILN_ENOMEM. */
KILN_API kiln_status kiln_variants(kiln_service *service, const kiln_spec *spec, kiln_variant_fn fn, void *data,
                                   kiln_report *report);

/* ---- Tuning and sweeps ------------------------------------------------------------------------------------------- */

/* The work that variants are measured on. The library makes the arrays as the template declares them and fills them as
 * kiln_fill does; only the numbers among `args` are looked at. */
typedef struct kiln_work {
    size_t size;
    uint64_t elements;     /* of each array, as for kiln_launch_n; 0: n of the spec, else 2^26, on the cpu 2^22 */
    const uint64_t *sizes; /* for other templates, as for kiln_launch: a number for each size, and an element of `args`
                              for each argument that no formula gives; arg_count may be 0 where the template takes no
                              numbers */
    size_t size_count;
    const kiln_arg *args;
    size_t arg_count;
    kiln_device *device; /* NULL: the default device, or the cpu where the spec says target=cpu */
    int hot;             /* 1: arrays may stay in the caches between launches; 0: sets of them take turns, as far as
                            there is room */
} kiln_work;

typedef enum kiln_verdict {
    KILN_VERDICT_UNMEASURED = 0, /* too few samples */
    KILN_VERDICT_WINNER,
    KILN_VERDICT_TIED,     /* not told apart from the winner */
    KILN_VERDICT_GIVEN_UP, /* not told apart either, and less promising than others */
    KILN_VERDICT_SLOWER,   /* told apart */
    KILN_VERDICT_REJECTED  /* did not compile, spills registers or gives wrong results: see `problem` */
} kiln_verdict;

/* The result of one variant that was tried. */
typedef struct kiln_variant_result {
    size_t size;
    const char *spec; /* canonical text, every field set */
    kiln_verdict verdict;
    const char *verdict_name;   /* "winner", "tied", ... */
    const char *problem;        /* "" unless it was rejected */
    uint64_t samples;           /* 0: not measured, and the times below are 0 */
    double median_ms;           /* of a launch */
    double ratio, low, high;    /* its time over that of the default, and the 95% interval */
    double ceiling_ratio;       /* in a sweep: its time over that of a plain copy */
    int registers, local_bytes; /* per thread; -1 on the cpu */
} kiln_variant_result;

/* Strings live as long as the tuning, during a callback as long as the callback. */
typedef struct kiln_tuning_info {
    size_t size;
    const char *device;  /* "cuda:0", "cpu" */
    uint64_t elements;   /* of the largest array */
    uint64_t bytes;      /* that a launch reads and writes */
    uint64_t variants;   /* in the space */
    uint64_t impossible; /* combinations that the requirements leave out of it */
    uint64_t waiting;    /* variants that are not compiled or verified yet; 0 before the tuning has its turn */
    uint64_t verified, rejected;
    uint64_t rounds, samples;
    double default_ms; /* of a launch of the default: the median */
    double ceiling_ms; /* of a plain copy of as many bytes: the median; 0: not measured */
    double regret;     /* bound on how much slower than another variant the winner may be, as a fraction, with 99%;
                          below 0: unknown */
    double seconds;
    const char *end; /* "settled", "exhausted", "out of time", "complete" or "stopped"; "": it goes on */
    const char
        *verified_by;   /* "the cpu backend", "the cpu twin", "the op that the template names", "the default variant" */
    const char *wisdom; /* the file that keeps the winner; "": none does */
    const char *not_learnt;                    /* why not, in words */
    const kiln_variant_result *const *results; /* ranked, the winner first; none while it goes on */
    size_t result_count;
} kiln_tuning_info;

/* Called now and then on the thread that tunes. Non-zero ends the search with what is known. */
typedef int (*kiln_progress_fn)(void *data, const kiln_tuning_info *info);

/* Called on the thread that tunes before a variant is launched, with its canonical text, and with NULL when the launch
 * has ended well. A host that a kernel kills can so leave behind which one it was. It must be quick and must not call
 * Kiln. */
typedef void (*kiln_trying_fn)(void *data, const char *spec);

/* A variant that is rejected from the start, but not the default. Frozen layout. */
typedef struct kiln_skip {
    const char *spec;   /* as a result or `suspect` names it; a spec of no variant is ignored */
    const char *reason; /* becomes the result's problem */
} kiln_skip;

typedef struct kiln_tune_options {
    size_t size;
    const kiln_work *work;     /* NULL: the defaults of kiln_work */
    double budget_s;           /* 0: 30 */
    double tolerance;          /* a slowdown that does not matter, as a fraction; 0: 0.005 */
    kiln_switch learn;         /* KILN_OFF: the winner is not kept as wisdom; else it is, unless the work is hot */
    kiln_progress_fn progress; /* NULL: none, as the next */
    kiln_trying_fn trying;
    void *data;
    const kiln_skip *skip;
    size_t skip_count;
    char **suspect; /* not NULL: gets the variant that was being tried when the device failed, else NULL; the caller
                       frees it with kiln_text_free */
} kiln_tune_options;

/* The result of a search or a sweep. Immutable. */
typedef struct kiln_tuning kiln_tuning;

/* Finds the fastest variant of a spec. It compiles variants in the background, verifies the result of each, and times
 * those that are right against each other. It ends when no variant can be faster than the winner by more than the
 * tolerance, or when the budget is spent. Wisdom plays no part: variants are compared with the template's default.
 *
 * The winner is learnt, unless the search was stopped, could not compare all, or the spec sets some of the geometry.
 * From then on every get of a spec that leaves its geometry open takes it, also where another kernel is loaded. A
 * winner that cannot be stored is no failure.
 *
 * Blocks. Tunings on one device take turns, which does not count against the budget. Other work on the device disturbs.
 * It leaves no trace but wisdom and entries in the stores.
 * Errors: those of kiln_get and kiln_launch for the default variant, KILN_EINVAL (the work, a skipped default),
 * KILN_ETARGET (the spec's target is not the device's), KILN_EMISMATCH (the default variant is wrong), KILN_ETIMEDOUT
 * and KILN_ECANCELED (nothing was known when it ended), KILN_ENOMEM (also: of the device). After KILN_EDEVICE or
 * KILN_ELAUNCH go on in another process, and skip the suspect. */
KILN_API KILN_MUST_USE kiln_status kiln_tune(kiln_tuning **out, kiln_service *service, const kiln_spec *spec,
                                             const kiln_tune_options *options, kiln_report *report);

typedef struct kiln_sweep_options {
    size_t size;
    const kiln_work *work; /* NULL: the defaults of kiln_work */
    uint32_t rounds;       /* 0: 30; at most 100000 */
    kiln_progress_fn progress;
    void *data;
} kiln_sweep_options;

/* Measures specs of one op (or one template without an op), dtype and target, the default first. It compiles and
 * verifies all. It then times those that are right, and two plain copies of as many bytes, each once in every round, in
 * an order that changes. Results are ranked by their ratio to the first spec; below 6 rounds the interval is 0 to
 * infinity. It learns nothing. A spec without samples is unmeasured, where `progress` ends it early. Blocks.
 * Errors: those of kiln_tune, but for KILN_ETIMEDOUT and KILN_ECANCELED. */
KILN_API KILN_MUST_USE kiln_status kiln_sweep(kiln_tuning **out, kiln_service *service, const kiln_spec *const *specs,
                                              size_t count, const kiln_sweep_options *options, kiln_report *report);

/* Errors: KILN_EINVAL. */
KILN_API kiln_status kiln_tuning_get_info(const kiln_tuning *tuning, kiln_tuning_info *out);
KILN_API void kiln_tuning_free(kiln_tuning *tuning);

/* ---- Workloads: arrays to verify and measure on ------------------------------------------------------------------ */

/* Arrays for a kernel and the numbers beside them. One thread at a time; freed before kiln_close. */
typedef struct kiln_workload kiln_workload;

typedef struct kiln_workload_info {
    size_t size;
    uint64_t elements;     /* of the largest array */
    uint64_t bytes;        /* that a launch reads and writes, as the template declares; else each array once */
    const uint64_t *sizes; /* for kiln_launch, as the next three; they live as long as the workload */
    size_t size_count;
    const kiln_arg *args;
    size_t arg_count;
} kiln_workload_info;

/* Makes the arrays of some work, on the kernel's device. `device` and `hot` of the work play no part. Without elements
 * it wants sizes. Errors: KILN_EINVAL, KILN_ENOMEM, KILN_EDEVICE. */
KILN_API KILN_MUST_USE kiln_status kiln_workload_make(kiln_workload **out, kiln_service *service, kiln_kernel *kernel,
                                                      const kiln_work *work, kiln_report *report);
KILN_API kiln_status kiln_workload_get_info(const kiln_workload *workload, kiln_workload_info *out);

/* Gives the arrays that are read their first values again and poisons those that are only written. Returns when it is
 * done. Errors: KILN_EMISMATCH (all that is done, and a launch has written behind an array since the last time),
 * KILN_EDEVICE. */
KILN_API kiln_status kiln_workload_reset(kiln_workload *workload, kiln_report *report);
KILN_API void kiln_workload_free(kiln_workload *workload);

/* Fills n elements of device memory with the values that tuning uses: random signs, magnitudes from 1/64 to 8, equal on
 * every machine for an equal seed. They repeat after 1048573 elements. Returns when it is done. Errors: KILN_EINVAL,
 * KILN_ESPEC (no such dtype), KILN_ENOMEM, KILN_EDEVICE. */
KILN_API kiln_status kiln_fill(kiln_device *device, void *to, const char *dtype, uint64_t n, uint64_t seed,
                               kiln_report *report);

/* ---- Verification ------------------------------------------------------------------------------------------------ */

typedef struct kiln_verification {
    size_t size;
    const char *against; /* "the cpu backend", "the cpu twin", "the op that the template names, on the cpu", or "a
                            second launch" of the kernel, where nothing else computes the same */
    uint64_t compared;   /* elements, of all arrays that the kernel writes */
    uint64_t wrong;      /* of these */
    uint32_t argument;   /* which of `args` has the first wrong element; 0 where none is wrong */
    uint64_t first;      /* index of that element */
    /* The results against the reference that the op's definition has ("within 2 ulp of EXPRESSION"), calculated in
     * double for the first 2^24 elements. */
    double bound;      /* as the definition has it, in units of the last place; below 0: it has none */
    double worst;      /* that was found */
    uint64_t worst_at; /* index of that element */
} kiln_verification;

/* Launches a kernel, as kiln_launch does but for the stream, and compares its results with those of the cpu from the
 * same values. Arrays that are only written are filled with a poison before; all hold the kernel's results after.
 * Equal bits are equal, any NaN equals any NaN, and so are numbers not further apart than `tolerance` units of the
 * last place of the right one (0: equal bits). Of a function of a source, and where a template has no cpu twin, two
 * launches on the same values are compared. *out (may be NULL) is filled also where results differ. Other work on
 * the arrays must have finished. Host memory: for kernels that are not elementwise twice the arrays, and the arrays
 * that a launch changes. Blocks. Errors: KILN_EMISMATCH naming the first wrong element, or one beyond the bound;
 * KILN_EINVAL; KILN_ENOMEM; those of kiln_get and kiln_launch. */
KILN_API kiln_status kiln_verify(kiln_verification *out, kiln_service *service, kiln_kernel *kernel,
                                 const kiln_grid *grid, const uint64_t *sizes, size_t size_count, const kiln_arg *args,
                                 size_t arg_count, double tolerance, kiln_report *report);

/* ---- Times ------------------------------------------------------------------------------------------------------- */

/* A thing to time: submit queues the work in `stream` and returns a status. Frozen layout. */
typedef struct kiln_contender {
    kiln_status (*submit)(void *data, void *stream);
    void *data;
} kiln_contender;

typedef struct kiln_measure_options {
    size_t size;
    uint32_t warmup; /* rounds before the first sample; 0: 2 */
    uint32_t rounds; /* 0: 30 */
    int replay; /* 1: contenders submit nothing but launches and copies of Kiln's in their stream. Short ones are then
                   replayed as a graph, so that the device is timed and not the host. They are called less often */
    double *samples; /* not NULL: gets sample c of round r, in milliseconds, at r * count + c */
} kiln_measure_options;

/* Milliseconds of a submission. Frozen layout. */
typedef struct kiln_timing {
    double median_ms, min_ms, max_ms;
    uint64_t samples;
} kiln_timing;

/* Times contenders against each other on one device: in every round each of them once, in an order that rotates, so
 * that drift meets all alike. Submissions shorter than 0.5 ms are repeated within a sample. Events time a GPU, the
 * monotonic clock the cpu. `out` has an element for each contender. Blocks. Errors: KILN_EINVAL, KILN_EDEVICE,
 * KILN_ENOMEM, those of submit. */
KILN_API kiln_status kiln_measure(kiln_timing *out, kiln_device *device, const kiln_contender *contenders, size_t count,
                                  const kiln_measure_options *options, kiln_report *report);

/* ---- Live handles: the best kernel there is now ------------------------------------------------------------------ */

/* Brings, each as soon as it is there: any loaded or stored kernel that computes the same; the kernel that kiln_get
 * would give; the fastest variant, if tuning is asked for. */
typedef struct kiln_live kiln_live;

typedef enum kiln_live_state {
    KILN_LIVE_PENDING = 0, /* no kernel yet */
    KILN_LIVE_READY,       /* a kernel of another geometry */
    KILN_LIVE_EXACT,       /* the kernel that kiln_get would give */
    KILN_LIVE_TUNING,      /* that kernel, while tuning looks for a faster one */
    KILN_LIVE_SETTLED,     /* nothing better will come */
    KILN_LIVE_FAILED       /* nothing more will come, after a failure; a kernel that was there stays */
} kiln_live_state;

typedef struct kiln_live_options {
    size_t size;
    kiln_device *device;           /* NULL: the default device */
    int priority;                  /* of the compile, as in kiln_submit_options */
    const kiln_tune_options *tune; /* NULL: no tuning. Copied, but for skip, suspect and trying, which must not be set.
                                      The device of its work plays no part. `progress` is called on a thread of the
                                      service and must not close the handle */
} kiln_live_options;

/* Makes a handle and returns at once, as kiln_submit does. The handle may outlive its service and then keeps the
 * kernel that it has. Errors: KILN_EINVAL, KILN_ENOMEM; a fault of the spec is found in the background. */
KILN_API KILN_MUST_USE kiln_status kiln_live_open(kiln_live **out, kiln_service *service, const kiln_spec *spec,
                                                  const kiln_live_options *options, kiln_report *report);

/* The best kernel there is now, NULL as long as there is none. It lives until kiln_live_close, also when a better one
 * takes its place, so it can be launched at once. Takes no lock. */
KILN_API kiln_kernel *kiln_live_kernel(const kiln_live *live);

typedef struct kiln_live_info {
    size_t size;
    kiln_live_state state;
    const char *state_name; /* "pending", "ready", ... */
    const char *spec;       /* of the kernel: canonical text, every field set; "": there is none */
    uint32_t swaps;         /* kernels that a better one replaced */
    double ratio;           /* time of a launch over that of the default geometry, as tuning found it; 0: not tuned */
    kiln_status status;     /* KILN_OK, or the failure */
    const char *problem;    /* that in words; "": none */
} kiln_live_info;

/* Strings live as long as the handle. Errors: KILN_EINVAL. */
KILN_API kiln_status kiln_live_get_info(const kiln_live *live, kiln_live_info *out);

/* Waits until the handle has reached a state or passed it, at most `timeout_ms` (below 0: for ever). KILN_LIVE_READY is
 * any kernel, KILN_LIVE_SETTLED the end. Errors: KILN_EINVAL, KILN_ETIMEDOUT, and the failure that ended the handle
 * first. */
KILN_API kiln_status kiln_live_wait(kiln_live *live, kiln_live_state state, int timeout_ms, kiln_report *report);

/* Ends a handle and releases its kernels, whose launches must have finished. It must be the last call with the handle.
 * A compile that has begun goes on and fills the stores. Waits for a tuning that measures, some milliseconds. Not while
 * kiln_close runs. */
KILN_API void kiln_live_close(kiln_live *live);

/* ---- Wisdom: what tuning found ----------------------------------------------------------------------------------- */

typedef struct kiln_wisdom_record {
    size_t size;
    const char *source;        /* "own" or "shared" (the shared directory) */
    const char *model;         /* of the device, as its maker names it */
    const char *target;        /* "sm_90", "cpu" */
    const char *template_name; /* "elementwise" */
    const char *op_class;      /* "1 in, 1 out, light": ops of one class like the same geometry */
    const char *op, *dtype;
    const char *geometry;     /* "block=128 elems=4 vector=4" */
    const char *toolchain;    /* the compiler; "": unknown */
    const char *by;           /* "kiln 0.1.0" */
    uint32_t log2_n;          /* number of elements, as the nearest power of two */
    uint32_t multiprocessors; /* or cores; 0: unknown, as the next two */
    uint64_t l2_bytes, memory_bytes;
    uint64_t samples, variants;
    double ms, gbps; /* of a launch, the median */
    double ratio;    /* its time over that of the template's defaults */
} kiln_wisdom_record;

/* The record is borrowed. Each function that takes one says what non-zero means. */
typedef int (*kiln_wisdom_fn)(void *data, const kiln_wisdom_record *record);

/* Shows every record that the service knows. The log names a file that is damaged or not trusted.
 * Errors: KILN_EINVAL, KILN_ENOMEM. */
KILN_API kiln_status kiln_wisdom_visit(kiln_service *service, kiln_wisdom_fn fn, void *data);

/* A record as a spec sees it. */
typedef struct kiln_wisdom_candidate {
    size_t size;
    const kiln_wisdom_record *record;
    uint32_t distance;   /* 0: exact; the nearest that fits is taken; UINT32_MAX: never */
    int chosen;          /* 1: this one is taken */
    const char *reason;  /* the differences in words: "2^20 elements instead of 2^26" */
    const char *refusal; /* why its geometry cannot be taken; "": it can */
} kiln_wisdom_candidate;
typedef int (*kiln_wisdom_candidate_fn)(void *data, const kiln_wisdom_candidate *candidate);

/* Gives the canonical text, every field set, of the spec that a get of `spec` takes now; kiln_text_free frees it. Shows
 * each record of the template, the nearest first (fn may be NULL; non-zero stops). `model` is the device that is meant,
 * "NVIDIA H200", also one that is not here; NULL: the one that the get would use. Compiles nothing. Errors: those of
 * kiln_spec_parse, KILN_ENODRIVER, KILN_ENODEVICE, KILN_EDEVICE, KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_wisdom_explain(char **out, kiln_service *service, const kiln_spec *spec,
                                                       const char *model, kiln_wisdom_candidate_fn fn, void *data,
                                                       kiln_report *report);

typedef struct kiln_wisdom_tally {
    size_t size;
    uint64_t added, replaced;
    uint64_t present; /* were there already */
    uint64_t kept;    /* of a wider search, and stayed in place of the file's */
} kiln_wisdom_tally;

/* Adds the records of files to the user's own. All files are read and checked before the first record is added. They
 * must belong to the user or to root, and only their owner may be able to write them. *out may be NULL. Errors:
 * KILN_EINVAL (a file is not usable: nothing was changed), KILN_ENOENT (no store on disk), KILN_EIO (not stored: this
 * service alone knows them), KILN_ENOMEM. */
KILN_API kiln_status kiln_wisdom_import(kiln_service *service, const char *const *paths, size_t count,
                                        kiln_wisdom_tally *out, kiln_report *report);

/* Gives the text of a file with the records for which `select` is non-zero, those of the user where it is NULL;
 * kiln_text_free frees it. Errors: KILN_EINVAL, KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_wisdom_export(char **out, kiln_service *service, kiln_wisdom_fn select,
                                                      void *data, kiln_report *report);

#ifdef __cplusplus
}
#endif
#endif
