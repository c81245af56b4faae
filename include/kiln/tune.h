/* Tuning, verification, timing, live handles and wisdom.
 *
 *     kiln_tune(&tuning, service, spec, NULL, &report);           blocks for some seconds
 *     kiln_tuning_get_info(tuning, &info);                        info.results[0]->spec is the fastest variant
 *     kiln_tuning_free(tuning);
 *
 * A variant is one complete choice of a template's parameters. All variants of a spec are its space. The fastest
 * variant is kept as wisdom, and gets with open geometry take it from then on. docs/tuning.md has the method. */
#ifndef KILN_TUNE_H
#define KILN_TUNE_H

#include <kiln/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The space --------------------------------------------------------------------------------------------------- */

typedef struct kiln_variant {
    size_t size;
    const char *spec;    /* canonical text, every field set if it is possible */
    const char *problem; /* "": possible; else the requirement or bound that it breaks */
} kiln_variant;

typedef int (*kiln_variant_fn)(void *data, const kiln_variant *variant);

/* Calls `fn` with each variant in the space of a spec, which kiln_tune searches. The default comes first, then the
 * others in order of preference, then the combinations that are impossible or out of bounds. Opens the default device
 * only if the spec has no target.
 * Errors: those of kiln_device_open, KILN_ESPEC (an impossible default; more than 4096 variants). */
KILN_API kiln_status kiln_variants(kiln_service *service, const kiln_spec *spec, kiln_variant_fn fn, void *data,
                                   kiln_report *report);

/* ---- Tuning and sweeps ------------------------------------------------------------------------------------------- */

/* The workload for measurements. The library makes the arrays that the template declares and fills them as kiln_fill.
 * It reads only the numbers among `args`. */
typedef struct kiln_work {
    size_t size;
    uint64_t elements;     /* of each array, as for kiln_launch_n; 0: n of the spec, else 2^26, on the cpu 2^22 */
    const uint64_t *sizes; /* instead of elements, for other templates; these four as for kiln_launch. arg_count may be
                              0 if the template takes no numbers */
    size_t size_count;
    const kiln_arg *args;
    size_t arg_count;
    kiln_device *device; /* NULL: the default device, or the cpu for target=cpu */
    int hot;             /* 1: arrays may stay in the caches; 0: sets of arrays take turns, as far as memory allows */
} kiln_work;

typedef enum kiln_verdict {
    KILN_VERDICT_UNMEASURED = 0, /* too few samples */
    KILN_VERDICT_WINNER,
    KILN_VERDICT_TIED,     /* not distinguished from the winner */
    KILN_VERDICT_GIVEN_UP, /* not distinguished, and dropped for more promising variants */
    KILN_VERDICT_SLOWER,   /* distinguished from the winner */
    KILN_VERDICT_REJECTED  /* compile error, spills or wrong results; `problem` has the reason */
} kiln_verdict;

/* The result of one variant. */
typedef struct kiln_variant_result {
    size_t size;
    const char *spec; /* canonical text, every field set */
    kiln_verdict verdict;
    const char *verdict_name;   /* "winner", "tied", ... */
    const char *problem;        /* "": it was not rejected */
    uint64_t samples;           /* 0: not measured, and the times below are 0 */
    double median_ms;           /* of a launch */
    double ratio, low, high;    /* time over that of the default, and its 95% interval */
    double ceiling_ratio;       /* in a sweep: time over that of a plain copy */
    int registers, local_bytes; /* per thread; -1 on the cpu */
} kiln_variant_result;

/* Strings and results live as long as the tuning; in a callback, as long as the callback. */
typedef struct kiln_tuning_info {
    size_t size;
    const char *device;  /* "cuda:0", "cpu" */
    uint64_t elements;   /* of the largest array */
    uint64_t bytes;      /* that a launch reads and writes */
    uint64_t variants;   /* in the space */
    uint64_t impossible; /* combinations that the requirements exclude from it */
    uint64_t waiting;    /* variants that are not compiled or verified yet; 0 before the tuning has its turn */
    uint64_t verified, rejected;
    uint64_t rounds, samples;
    double default_ms; /* median of a launch of the default */
    double ceiling_ms; /* median of a plain copy of as many bytes; 0: not measured */
    double regret;     /* bound on the winner's slowdown against any variant, as a fraction, at 99%; below 0: unknown */
    double seconds;    /* of the work, without the wait for other tunings of the device */
    const char *end;   /* "settled", "exhausted", "out of time" or "stopped"; of a sweep "complete" or "stopped"; "": it
                        goes on */
    const char *verified_by;                   /* as kiln_verification.against, or "the default variant" */
    const char *wisdom;                        /* the file that keeps the winner; "": none */
    const char *not_learnt;                    /* the reason in words */
    const kiln_variant_result *const *results; /* ranked, the winner first; none while it goes on */
    size_t result_count;
} kiln_tuning_info;

/* Called from time to time on the tuning thread. Non-zero ends the search with the results so far. */
typedef int (*kiln_progress_fn)(void *data, const kiln_tuning_info *info);

/* Called on the tuning thread with the canonical text of a variant before a launch, and with NULL after a launch
 * without fault. So a host that a kernel kills can record which one it was. It must be quick and must not call Kiln. */
typedef void (*kiln_trying_fn)(void *data, const char *spec);

/* A variant to reject from the start; not the default. Frozen layout. */
typedef struct kiln_skip {
    const char *spec;   /* the text of a result or of `suspect`; the text of no variant is ignored */
    const char *reason; /* the result's problem */
} kiln_skip;

typedef struct kiln_tune_options {
    size_t size;
    const kiln_work *work;     /* NULL: the defaults of kiln_work */
    double budget_s;           /* 0: 30; at most 1000000 */
    double tolerance;          /* negligible slowdown, as a fraction, at most 1; 0: 0.005 */
    kiln_switch learn;         /* KILN_OFF: the winner is not kept as wisdom; else it is, unless the work is hot */
    kiln_progress_fn progress; /* NULL: none */
    kiln_trying_fn trying;     /* NULL: none */
    void *data;
    const kiln_skip *skip;
    size_t skip_count;
    char **suspect; /* not NULL: gets the variant that was being tried when the device failed, or NULL. The caller frees
                       it with kiln_text_free */
} kiln_tune_options;

/* The results of a search or a sweep. Immutable. */
typedef struct kiln_tuning kiln_tuning;

/* Finds the fastest variant of a spec. The caller frees *out with kiln_tuning_free. Compiles variants in the
 * background, verifies the result of each, and times the correct ones against each other and the template's default.
 * Ends when no variant can be faster than the winner by more than the tolerance, or when the budget is spent.
 *
 * Learns the winner, unless the search was stopped, could not compare all variants, or the spec sets part of the
 * geometry. From then on every get with open geometry takes it, even if another kernel is loaded. A winner that cannot
 * be stored is no failure. Only wisdom and entries in the stores remain.
 *
 * Blocks. The wait for other tunings on the device does not count against the budget. Other work on the device
 * falsifies the measurement.
 * Errors: those of kiln_get and kiln_launch for the default variant, KILN_EINVAL (the work; a skipped default),
 * KILN_ETARGET (the spec's target is not the device's), KILN_EMISMATCH (the default variant is wrong), KILN_ETIMEDOUT
 * and KILN_ECANCELED (it ended without a result), KILN_ENOMEM (also of the device). After KILN_EDEVICE or KILN_ELAUNCH
 * the host goes on in another process and skips the suspect. */
KILN_API KILN_MUST_USE kiln_status kiln_tune(kiln_tuning **out, kiln_service *service, const kiln_spec *spec,
                                             const kiln_tune_options *options, kiln_report *report);

typedef struct kiln_sweep_options {
    size_t size;
    const kiln_work *work;     /* NULL: the defaults of kiln_work */
    uint32_t rounds;           /* 0: 30; at most 100000 */
    kiln_progress_fn progress; /* NULL: none */
    void *data;
} kiln_sweep_options;

/* Measures up to 65536 specs of one op (or of one template without an op), one dtype and one target. The caller frees
 * *out with kiln_tuning_free. Compiles and verifies all. Then times the correct ones and two plain copies of as many
 * bytes, each once a round, in a changing order. Ranks results by their ratio to the first spec, the default. Below 6
 * rounds the interval is 0 to infinity. Learns nothing. If `progress` ends it early, specs without samples are
 * unmeasured. Blocks.
 * Errors: those of kiln_tune except KILN_ETIMEDOUT and KILN_ECANCELED. */
KILN_API KILN_MUST_USE kiln_status kiln_sweep(kiln_tuning **out, kiln_service *service, const kiln_spec *const *specs,
                                              size_t count, const kiln_sweep_options *options, kiln_report *report);

/* Fills *out. Errors: KILN_EINVAL. */
KILN_API kiln_status kiln_tuning_get_info(const kiln_tuning *tuning, kiln_tuning_info *out);
KILN_API void kiln_tuning_free(kiln_tuning *tuning);

/* ---- Workloads: arrays to verify and measure on ------------------------------------------------------------------ */

/* Arrays and numbers for a kernel. One thread at a time. It must be freed before kiln_close. */
typedef struct kiln_workload kiln_workload;

typedef struct kiln_workload_info {
    size_t size;
    uint64_t elements;     /* of the largest array */
    uint64_t bytes;        /* that a launch reads and writes, as the template declares; else each array once */
    const uint64_t *sizes; /* these four for kiln_launch */
    size_t size_count;
    const kiln_arg *args;
    size_t arg_count;
} kiln_workload_info;

/* Makes the arrays of `work` on the kernel's device. The caller frees *out with kiln_workload_free. `work` must have
 * elements or sizes; its `device` and `hot` are ignored. Blocks until the arrays are filled.
 * Errors: KILN_EINVAL, KILN_ENOMEM, KILN_EDEVICE. */
KILN_API KILN_MUST_USE kiln_status kiln_workload_make(kiln_workload **out, kiln_service *service, kiln_kernel *kernel,
                                                      const kiln_work *work, kiln_report *report);
KILN_API kiln_status kiln_workload_get_info(const kiln_workload *workload, kiln_workload_info *out);

/* Restores the arrays that are read and poisons those that are only written. Blocks until that is done.
 * Errors: KILN_EMISMATCH (a launch has written behind an array since the last reset; all is done), KILN_EDEVICE. */
KILN_API kiln_status kiln_workload_reset(kiln_workload *workload, kiln_report *report);
KILN_API void kiln_workload_free(kiln_workload *workload);

/* Fills n elements of device memory with the values that tuning uses: random signs, magnitudes from 1/64 to 8. They
 * repeat after 1048573 elements. Equal seeds give equal values on every machine. Blocks until that is done.
 * Errors: KILN_EINVAL, KILN_ESPEC (no such dtype), KILN_ENOMEM, KILN_EDEVICE. */
KILN_API kiln_status kiln_fill(kiln_device *device, void *to, const char *dtype, uint64_t n, uint64_t seed,
                               kiln_report *report);

/* ---- Verification ------------------------------------------------------------------------------------------------ */

typedef struct kiln_verification {
    size_t size;
    const char *against; /* "the cpu backend", "the cpu twin", "the op that the template names, on the cpu" or "a second
                            launch" */
    uint64_t compared;   /* elements of all arrays that the kernel writes */
    uint64_t wrong;      /* of these */
    uint32_t argument;   /* index in `args` of the array with the first wrong element; 0: none is wrong */
    uint64_t first;      /* index of that element */
    /* The results against the reference in the op's definition ("within 2 ulp of EXPRESSION"), calculated in double for
     * the first 2^24 elements. */
    double bound;                   /* of the definition, in units of the last place; below 0: it has none */
    double worst;                   /* error found, in the same unit */
    uint64_t worst_at;              /* index of that element */
    double ulp, relative, absolute; /* the tolerance that was applied; all 0: equal bits, unless bounded */
    int bounded; /* 1: as far apart as the op's functions may be: kiln_op_info.functions, or those of math=fast */
} kiln_verification;

/* Launches a kernel as kiln_launch, without a stream, and compares its results with those of the cpu from the same
 * values. A source's function, or a kernel that nothing else computes, is launched twice on the same values instead.
 * Elements agree within `tolerance`, or, if it is NULL, within the tolerance that the kernel's template declares.
 * Without either, elements of an op that calls functions with other bits on the cpu agree within the bounds of these
 * (docs/numerics.md). Otherwise, and in arrays of whole numbers and of a source's function, bits must be equal, or both
 * numbers NaN.
 * The call poisons arrays that are only written; all arrays hold the kernel's results afterwards. *out (may be NULL) is
 * filled even if results differ.
 *
 * Blocks. Other work on the arrays must have finished. Host memory: the arrays that a launch changes, and twice all
 * arrays of a kernel that is not elementwise.
 * Errors: KILN_EMISMATCH (names the first wrong element, or one beyond the bound), KILN_EINVAL, KILN_ENOMEM, those of
 * kiln_get and kiln_launch. */
KILN_API kiln_status kiln_verify(kiln_verification *out, kiln_service *service, kiln_kernel *kernel,
                                 const kiln_grid *grid, const uint64_t *sizes, size_t size_count, const kiln_arg *args,
                                 size_t arg_count, const kiln_tolerance *tolerance, kiln_report *report);

/* ---- Times ------------------------------------------------------------------------------------------------------- */

/* Work to time: submit queues it in `stream` and returns a status. Frozen layout. */
typedef struct kiln_contender {
    kiln_status (*submit)(void *data, void *stream);
    void *data;
} kiln_contender;

typedef struct kiln_measure_options {
    size_t size;
    uint32_t warmup; /* rounds before the first sample; 0: 2 */
    uint32_t rounds; /* 0: 30 */
    int replay; /* 1: contenders submit only launches and copies of Kiln's in their stream. Short ones are then replayed
                   as a graph, which times the device without the host, and submit is called less often */
    double *samples; /* not NULL: gets the milliseconds of contender c in round r at r * count + c */
} kiln_measure_options;

/* Milliseconds of a submission. Frozen layout. */
typedef struct kiln_timing {
    double median_ms, min_ms, max_ms;
    uint64_t samples;
} kiln_timing;

/* Times contenders against each other on one device, each once a round. In the orders of the rounds each stands in each
 * place equally often and follows each other equally often. So drift and neighbours affect all alike. `out` has an
 * element for each. Submissions shorter than 0.5 ms are repeated within a sample, and a sample that is no replay comes
 * behind as many uncounted submissions of its contender. Events time a GPU, and the monotonic clock the cpu. Blocks.
 * Errors: KILN_EINVAL, KILN_EDEVICE, KILN_ENOMEM, those of submit. */
KILN_API kiln_status kiln_measure(kiln_timing *out, kiln_device *device, const kiln_contender *contenders, size_t count,
                                  const kiln_measure_options *options, kiln_report *report);

/* ---- Live handles: the best kernel at the moment ----------------------------------------------------------------- */

/* A handle to the best kernel of a spec at the moment. A stand-in comes first: a loaded or stored kernel that computes
 * the same. The kernel that kiln_get gives replaces it, and then the fastest variant, if tuning is on. */
typedef struct kiln_live kiln_live;

typedef enum kiln_live_state {
    KILN_LIVE_PENDING = 0, /* no kernel yet */
    KILN_LIVE_READY,       /* a stand-in of another geometry */
    KILN_LIVE_EXACT,       /* the kernel that kiln_get gives */
    KILN_LIVE_TUNING,      /* that kernel, while tuning looks for a faster one */
    KILN_LIVE_SETTLED,     /* no better kernel will come */
    KILN_LIVE_FAILED       /* a failure ended the work; an earlier kernel stays */
} kiln_live_state;

typedef struct kiln_live_options {
    size_t size;
    kiln_device *device;           /* NULL: the default device */
    int priority;                  /* of the compile, as in kiln_submit_options */
    const kiln_tune_options *tune; /* NULL: no tuning. Copied; skip, suspect and trying must not be set. The device of
                                      its work is ignored. `progress` runs on a thread of the service and must not close
                                      the handle */
} kiln_live_options;

/* Opens a handle and returns at once, as kiln_submit. The caller ends it with kiln_live_close. The handle may outlive
 * its service, and keeps its kernel then. A fault of the spec shows in the background.
 * Errors: KILN_EINVAL, KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_live_open(kiln_live **out, kiln_service *service, const kiln_spec *spec,
                                                  const kiln_live_options *options, kiln_report *report);

/* Returns the best kernel at the moment; NULL: none yet. It lives until kiln_live_close, even after a better one
 * replaces it, and is not released. Takes no lock. */
KILN_API kiln_kernel *kiln_live_kernel(const kiln_live *live);

typedef struct kiln_live_info {
    size_t size;
    kiln_live_state state;
    const char *state_name; /* "pending", "ready", ... */
    const char *spec;       /* of the kernel: canonical text, every field set; "": none */
    uint32_t swaps;         /* replacements by a better kernel */
    double ratio;           /* measured time of a launch over that of the default geometry; 0: not tuned */
    kiln_status status;     /* KILN_OK, or the failure */
    const char *problem;    /* the failure in words; "": none */
} kiln_live_info;

/* Fills *out. Strings live as long as the handle. Errors: KILN_EINVAL. */
KILN_API kiln_status kiln_live_get_info(const kiln_live *live, kiln_live_info *out);

/* Blocks until the handle has reached or passed a state, at most `timeout_ms` (below 0: without limit). KILN_LIVE_READY
 * is any kernel, KILN_LIVE_SETTLED the end.
 * Errors: KILN_EINVAL (also KILN_LIVE_FAILED), KILN_ETIMEDOUT, and a failure that ends the work before. */
KILN_API kiln_status kiln_live_wait(kiln_live *live, kiln_live_state state, int timeout_ms, kiln_report *report);

/* Closes a handle and releases its kernels, whose launches must have finished. It must be the last call with the
 * handle, and must not run at the same time as kiln_close. A compile that has begun goes on and fills the stores.
 * Blocks some milliseconds for a tuning that measures. */
KILN_API void kiln_live_close(kiln_live *live);

/* ---- Wisdom: the results of tuning ------------------------------------------------------------------------------- */

typedef struct kiln_wisdom_record {
    size_t size;
    const char *source;        /* "own" or "shared" (the shared directory) */
    const char *model;         /* of the device, as its maker names it */
    const char *target;        /* "sm_90", "cpu" */
    const char *template_name; /* "elementwise" */
    const char *op_class;      /* "1 in, 1 out, light": ops of one class have similar best geometry */
    const char *op, *dtype;
    const char *geometry;     /* "block=128 elems=4 vector=4" */
    const char *toolchain;    /* the compiler; "": unknown */
    const char *by;           /* "kiln 0.2.0" */
    uint32_t log2_n;          /* number of elements, as the nearest power of two */
    uint64_t cols;            /* of an op that reduces, the length of rows; 0: none */
    uint32_t multiprocessors; /* or cores; 0: unknown, as in the next two */
    uint64_t l2_bytes, memory_bytes;
    uint64_t samples, variants;
    double ms, gbps; /* medians, of a launch */
    double ratio;    /* its time over that of the template's defaults */
} kiln_wisdom_record;

/* Receives a borrowed record. Non-zero stops kiln_wisdom_visit; in kiln_wisdom_export it
 * selects the record. */
typedef int (*kiln_wisdom_fn)(void *data, const kiln_wisdom_record *record);

/* Calls `fn` with every record that the service knows; non-zero stops. The log names files that are damaged or not
 * trusted. Errors: KILN_EINVAL, KILN_ENOMEM. */
KILN_API kiln_status kiln_wisdom_visit(kiln_service *service, kiln_wisdom_fn fn, void *data);

/* A record compared with a spec. */
typedef struct kiln_wisdom_candidate {
    size_t size;
    const kiln_wisdom_record *record;
    uint32_t distance;   /* 0: exact; the nearest that fits is taken; UINT32_MAX: never taken */
    int chosen;          /* 1: this one is taken */
    const char *reason;  /* the differences in words: "2^20 elements instead of 2^26" */
    const char *refusal; /* the obstacle to its geometry, in words; "": none */
} kiln_wisdom_candidate;
typedef int (*kiln_wisdom_candidate_fn)(void *data, const kiln_wisdom_candidate *candidate);

/* Gives the canonical text, every field set, of the spec that a get of `spec` takes now. The caller frees *out with
 * kiln_text_free. Calls `fn` (may be NULL) with each record of the template, the nearest first; non-zero stops. `model`
 * is a device of any machine, "NVIDIA H200"; NULL: the device of the get. Compiles nothing.
 * Errors: those of kiln_spec_parse, KILN_EINVAL, those of kiln_device_open. */
KILN_API KILN_MUST_USE kiln_status kiln_wisdom_explain(char **out, kiln_service *service, const kiln_spec *spec,
                                                       const char *model, kiln_wisdom_candidate_fn fn, void *data,
                                                       kiln_report *report);

typedef struct kiln_wisdom_tally {
    size_t size;
    uint64_t added, replaced;
    uint64_t present; /* already known */
    uint64_t kept;    /* known records of a wider search, which the file's did not replace */
} kiln_wisdom_tally;

/* Adds the records of files to the user's. Reads and checks all files before it adds the first record. The files must
 * belong to the user or to root, and be writable by their owner alone. *out may be NULL.
 * Errors: KILN_EINVAL (an unusable file; nothing was changed), KILN_ENOENT (no store on disk), KILN_EIO (not stored:
 * only this service knows the records), KILN_ENOMEM. */
KILN_API kiln_status kiln_wisdom_import(kiln_service *service, const char *const *paths, size_t count,
                                        kiln_wisdom_tally *out, kiln_report *report);

/* Moves records between the user's and those that machines share on the remote (kiln_options.remote): pull adds the
 * remote's to the user's, push the user's to the remote's. Of two about the same that of the newer toolchain stays,
 * then that of the wider search, then that of more samples, so that the order of machines does not matter. Blocks for
 * the server, and push for other machines that push. *out, which may be NULL, counts what was added.
 * Errors: KILN_EINVAL, KILN_ENOENT (no remote, no store on disk; push: no secret), KILN_EIO (no answer; an answer that
 * is not signed or is damaged; not stored), KILN_ENOMEM. */
KILN_API kiln_status kiln_wisdom_pull(kiln_service *service, kiln_wisdom_tally *out, kiln_report *report);
KILN_API kiln_status kiln_wisdom_push(kiln_service *service, kiln_wisdom_tally *out, kiln_report *report);

/* Gives the text of a file with the records for which `select` returns non-zero (NULL: those of the user). The caller
 * frees *out with kiln_text_free. Errors: KILN_EINVAL (also more than 16384 records), KILN_ENOMEM. */
KILN_API KILN_MUST_USE kiln_status kiln_wisdom_export(char **out, kiln_service *service, kiln_wisdom_fn select,
                                                      void *data, kiln_report *report);

#ifdef __cplusplus
}
#endif
#endif
