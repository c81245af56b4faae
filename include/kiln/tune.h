/* Tuning: the search for the fastest geometry of a kernel.
 *
 *     kiln_tuning *tuning;
 *     kiln_trial best = { .size = sizeof(best) };
 *
 *     kiln_tune(&tuning, service, spec, NULL, NULL);    blocks for some seconds
 *     kiln_tuning_trial(tuning, 0, &best);              best.spec is the fastest variant, every field set
 *     kiln_tuning_free(tuning);
 *
 * What it finds is kept as wisdom (<kiln/wisdom.h>): from then on a get of a spec that leaves its geometry open takes it.
 *
 * The rules of <kiln/kiln.h> hold here too. */
#ifndef KILN_TUNE_H
#define KILN_TUNE_H

#include <kiln/kiln.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kiln_arg; /* <kiln/define.h> */

/* What a tuning has come to so far. Strings are borrowed for the call, or from the tuning. */
typedef struct kiln_tuning_info {
    size_t size;         /* sizeof(kiln_tuning_info): set by the caller */
    const char *device;  /* "cuda:0" or "cpu" */
    uint64_t elements;   /* of each array; of a kernel with arguments of its own, of the largest */
    uint64_t bytes;      /* read and written by a launch */
    uint64_t variants;   /* in the space */
    uint64_t waiting;    /* of them not compiled or not checked yet; 0, as the next two, before it has its turn */
    uint64_t ready;      /* compute what they should */
    uint64_t out;        /* do not: they did not compile, spill registers or gave wrong results */
    uint64_t impossible; /* combinations that the template's requirements leave out of the space */
    uint64_t rounds, samples;
    double default_ms;  /* of a launch with the default geometry: the median */
    double regret;      /* how much slower than another variant the winner may be, as a fraction, with 99%; below 0:
                               not known */
    double seconds;     /* since it began */
    const char *end;    /* "settled", "exhausted", "out of time" or "stopped"; of a sweep "complete" or "stopped"; "" as
                                long as it goes on */
    int learnt;         /* 1: the winner is kept in the file `wisdom`, for every process of the user */
    const char *wisdom; /* "" if there is no such file */
    const char *not_learnt; /* why not, one line; "" if it is, and as long as it goes on */
    double ceiling_ms;      /* of a sweep: a copy of as many bytes, the median; 0: not measured */
    const char *against;    /* what the results agree with: "the cpu backend", "the cpu twin", "the op that the template
                               names, on the cpu", or, where nothing else computes the same, "the default variant", which was
                               then launched twice; "" as long as that is not known. A static string */
} kiln_tuning_info;

/* Called now and then while tuning, on the thread that tunes; non-zero ends it with what is known. */
typedef int (*kiln_tuning_fn)(void *data, const kiln_tuning_info *info);

/* Called on the thread that tunes right before a variant's kernel is launched, with its canonical text, and with NULL as
 * soon as that has ended well: a host that is killed by a kernel, or hangs in one, can so leave behind which it was. Called
 * twice for each sample: must be quick, and must not call Kiln. */
typedef void (*kiln_trying_fn)(void *data, const char *spec);

/* A variant that is not to be tried. */
typedef struct kiln_skip {
    const char *spec;   /* as kiln_trial and `suspect` give it; others stand for nothing */
    const char *reason; /* becomes the trial's `problem` */
} kiln_skip;

/* Zero in a field means the default. Strings are borrowed for the call. */
typedef struct kiln_tune_options {
    size_t size;             /* sizeof(kiln_tune_options): set by KILN_TUNE_OPTIONS_INIT */
    uint64_t elements;       /* of each array; 0: the spec's n, else 2^26 on a GPU and 2^22 on the cpu */
    double budget_s;         /* 0: 30 */
    double tolerance;        /* a slowdown that does not matter, as a fraction; 0: 0.005 */
    int hot;                 /* 1: the arrays may stay in the caches from launch to launch; 0: they cannot, as far as
                              * there is room for sets of them (docs/tuning.md) */
    kiln_tuning_fn progress; /* NULL: none */
    void *data;              /* for progress and trying */
    int learn;               /* 0: what is found is kept as wisdom, but for hot=1; -1: it is not */
    kiln_device *device;     /* of this service; NULL: the default one, or the cpu where the spec says target=cpu */
    kiln_trying_fn trying;   /* NULL: none */
    const kiln_skip *skip;   /* variants that are out from the start; not the default geometry */
    size_t skip_count;
    char **suspect; /* if not NULL: gets the canonical text of the variant that was being tried when the device failed,
                       freed with kiln_text_free, else NULL */
    /* For a template that declares arguments of its own, as for kiln_launch_args: a value for each size, and an element of
     * `args` for each argument that no formula gives. The arrays are made, so that only numbers are looked at; where none
     * is given at launch arg_count may be 0. */
    const uint64_t *sizes;
    size_t size_count;
    const struct kiln_arg *args;
    size_t arg_count;
} kiln_tune_options;

#define KILN_TUNE_OPTIONS_INIT                                                                            \
    {                                                                                                     \
        sizeof(kiln_tune_options), 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, 0 \
    }

/* What a tuning found. Immutable; any thread may read it. */
typedef struct kiln_tuning kiln_tuning;

/* What is known of a variant, in words: kiln_verdict_name. */
typedef enum kiln_verdict {
    KILN_VERDICT_WINNER = 1,
    KILN_VERDICT_TIED,       /* not told apart from the fastest */
    KILN_VERDICT_GIVEN_UP,   /* not told apart either, but others were more promising */
    KILN_VERDICT_SLOWER,     /* told apart */
    KILN_VERDICT_UNMEASURED, /* too few samples */
    KILN_VERDICT_OUT         /* cannot be used: `problem` says why */
} kiln_verdict;
KILN_API const char *kiln_verdict_name(kiln_verdict verdict);

typedef struct kiln_trial {
    size_t size;      /* sizeof(kiln_trial): set by the caller */
    const char *spec; /* canonical text, every field set; borrowed */
    kiln_verdict verdict;
    const char *problem;     /* "" unless it is out; borrowed */
    double median_ms;        /* of a launch; 0 if it was not measured, as what follows */
    double ratio, low, high; /* its time over the default geometry's, and the 95% interval */
    uint64_t samples;
    int registers, local_bytes; /* per thread; -1 on the cpu */
    double ceiling_ratio;       /* of a sweep: its time over that of the copy; 0: not measured */
} kiln_trial;

/* Finds the fastest geometry of a spec whose fields leave some of it open: compiles its variants in the background, checks
 * the result of each against the cpu backend's bit for bit, and times those that are right against each other on arrays of
 * random values, until no other can be faster than the winner by more than the tolerance, or the budget is spent. What takes
 * a GPU less than 20 us is timed by replaying a graph, so that it is not the host that is timed.
 * docs/tuning.md says how. Other work on the device disturbs. Blocks.
 *
 * A template that declares arguments of its own needs `sizes`, and `args` where it takes numbers. Its variants are checked
 * against the default's result, and that against the template's cpu twin, on the whole of what is written; where there is no
 * twin, or on the cpu, against a second launch of the default.
 *
 * What was learnt before plays no part: the winner is measured against the template's defaults. It is learnt unless the
 * search was stopped, ended before all could be compared, or was not among all that the template offers because the spec
 * sets some of it; that it cannot be stored is no failure.
 *
 * Any number of threads may tune, each on a device of its own. On one device tunings of a service take turns; waiting does not
 * count against the budget, and `progress` may end it. It leaves no trace but wisdom and the kernels in the stores: none of
 * them stays loaded, and none is added to the record of requests.
 *
 * Errors: those of kiln_get and kiln_launch for the default geometry, KILN_EINVAL (another service's device; the default
 * geometry is to be skipped; sizes and args that are not as the template declares), KILN_ETARGET (the spec's target is not
 * for the device), KILN_EMISMATCH (the default geometry computes something else than the cpu backend, or twice something
 * else), KILN_ETIMEDOUT, KILN_ECANCELED (`progress` ended it before anything was known), KILN_ENOMEM (also: the device has
 * no room for the arrays). KILN_EDEVICE and KILN_ELAUNCH: the device failed, and the
 * report names the variant that was being tried. After a fault in a kernel CUDA refuses all further work of the process:
 * go on in a fresh one, with that variant skipped. */
KILN_API KILN_MUST_USE kiln_status kiln_tune(kiln_tuning **out, kiln_service *service, const kiln_spec *spec,
                                             const kiln_tune_options *options, kiln_report *report);
KILN_API void kiln_tuning_free(kiln_tuning *tuning);

/* Fill *out, whose size field must be set. Trials are ranked, number 0 is the winner. KILN_ENOENT: no such trial. */
KILN_API kiln_status kiln_tuning_get_info(const kiln_tuning *tuning, kiln_tuning_info *out);
KILN_API kiln_status kiln_tuning_trial(const kiln_tuning *tuning, uint64_t number, kiln_trial *out);

/* ---- Sweeps: everything measured, nothing searched ------------------------------------------------------------ */

/* One combination of a spec's space. Strings are borrowed for the call. */
typedef struct kiln_variant {
    size_t size;
    const char *spec;    /* canonical text, every field set as far as it can be */
    const char *problem; /* "", or why there is no such variant: the template's requirement or bound in words */
} kiln_variant;
typedef int (*kiln_variant_fn)(void *data, const kiln_variant *variant);

/* Visits the space of a spec, which is what kiln_tune searches: first the default, what kiln_get takes; then the other
 * variants, in the order of preference; then the combinations that are impossible or not worth trying. A callback that
 * returns non-zero stops the visit. The default device is looked for only where the spec names no target.
 * Errors: KILN_EINVAL, KILN_ESPEC (the default is impossible, or there are more than 4096 variants), KILN_ENODRIVER,
 * KILN_ENODEVICE, KILN_ENOMEM. */
KILN_API kiln_status kiln_variants(kiln_service *service, const kiln_spec *spec, kiln_variant_fn fn, void *data,
                                   kiln_report *report);

/* Zero in a field means the default. */
typedef struct kiln_sweep_options {
    size_t size;             /* sizeof(kiln_sweep_options): set by KILN_SWEEP_OPTIONS_INIT */
    uint64_t elements;       /* of each array; 0: the first spec's n */
    uint32_t rounds;         /* 0: 30; at most 100000 */
    int hot;                 /* as in kiln_tune_options */
    kiln_device *device;     /* NULL: the default one, or the cpu where the first spec says target=cpu */
    kiln_tuning_fn progress; /* NULL: none; non-zero ends the sweep with what is known */
    void *data;
    const uint64_t *sizes; /* these four as in kiln_tune_options */
    size_t size_count;
    const struct kiln_arg *args;
    size_t arg_count;
} kiln_sweep_options;

#define KILN_SWEEP_OPTIONS_INIT                                                 \
    {                                                                           \
        sizeof(kiln_sweep_options), 0, 0, 0, NULL, NULL, NULL, NULL, 0, NULL, 0 \
    }

/* Measures specs of one op (or one template of own arithmetic), one dtype and one target, given as text, the default first:
 * compiles all of them, on all cores; checks each result as kiln_tune does; and then times those that are right, and two plain
 * copies of as many bytes, once in each round, in an order that changes. None is dropped, not even those that keep registers
 * in memory. The trials are ranked by their ratio to the first spec, over the rounds, whose interval is 0 to infinity below 6
 * rounds; the verdict is that of the comparison with the winner. Where `progress` ends it early, also while it waits for its
 * turn on the device, what has no samples is unmeasured. Leaves no trace, as kiln_tune does. Blocks. Errors: those of
 * kiln_tune, but for KILN_ETIMEDOUT and KILN_ECANCELED. */
KILN_API KILN_MUST_USE kiln_status kiln_sweep(kiln_tuning **out, kiln_service *service, const char *const *specs,
                                              size_t count, const kiln_sweep_options *options, kiln_report *report);

/* kiln_measure for contenders that submit nothing but Kiln's own work, in the stream that they are given: kiln_launch, kiln_call,
 * kiln_launch_args and kiln_copy on the device. Where a submission of the first of them takes a GPU and the host less than
 * 20 us, and so perhaps less than the host needs to submit it, some hundred submissions of each contender are kept as a graph
 * that is replayed: the times are those of the device, back to back, and a contender is called less often. What else such a
 * contender submits would not be timed; kernels may be of other services, too, for the same GPU. A contender that goes through several sets of
 * arrays finds those of the graph's end and beginning close together. Where there can be no graph for one of the short, and on
 * the cpu, it is kiln_measure; where a graph fails later, all begin anew so. */
KILN_API kiln_status kiln_measure_launches(kiln_device *device, const kiln_contender *contenders, size_t count,
                                           uint32_t warmup, uint32_t rounds, kiln_timing *out, double *samples,
                                           kiln_report *report);

/* ---- Kernels with arguments of their own ---------------------------------------------------------------------- */

struct kiln_arg_info; /* <kiln/define.h> */

/* The name of a size that a spec's template declares, NULL after the last; lives as long as the service. Any thread. */
KILN_API const char *kiln_spec_size(const kiln_spec *spec, uint32_t index);

/* What a spec's template declares of an argument, as kiln_kernel_arg tells it of a kernel; but the formulas of the shape are as
 * they are written, parameters included. KILN_ENOENT: there are not so many. Any thread. */
KILN_API kiln_status kiln_spec_arg(const kiln_spec *spec, uint32_t index, struct kiln_arg_info *out);

/* What a kernel with arguments of its own is measured and checked on: arrays on its device, of the values that tuning uses, and
 * the numbers beside them. For one thread at a time. */
typedef struct kiln_workload kiln_workload;

typedef struct kiln_workload_info {
    size_t size;       /* sizeof(kiln_workload_info): set by the caller */
    uint64_t elements; /* of the largest array */
    uint64_t bytes;    /* that a launch reads and writes: as the template declares, else its arrays, once each */
    const struct kiln_arg *args; /* for kiln_launch_args; borrowed from the workload, as the next */
    size_t arg_count;
    const uint64_t *sizes;
    size_t size_count;
} kiln_workload_info;

/* Makes it for a kernel of this service, with sizes and numbers as in kiln_tune_options. Holds references to the kernel and what
 * it needs; must be freed before kiln_close. Errors: KILN_EINVAL (what is wrong with sizes or numbers; a kernel of out,
 * inputs and n), KILN_ENOMEM, KILN_EDEVICE. */
KILN_API KILN_MUST_USE kiln_status kiln_workload_make(kiln_workload **out, kiln_service *service, kiln_kernel *kernel,
                                                      const uint64_t *sizes, size_t size_count,
                                                      const struct kiln_arg *args, size_t arg_count,
                                                      kiln_report *report);
KILN_API void kiln_workload_free(kiln_workload *workload); /* NULL is allowed */
KILN_API kiln_status kiln_workload_get_info(const kiln_workload *workload, kiln_workload_info *out);

/* Gives the arrays that are read and written their first values again, and poisons those that are only written. Returns when
 * done. The errors of kiln_copy. */
KILN_API kiln_status kiln_workload_reset(kiln_workload *workload, kiln_report *report);

/* Launches the kernel and compares what it writes as kiln_tune does with the default geometry: with the cpu twin, or with a second
 * launch where there is none or the kernel is the twin. *against (may be NULL) gets which, as in kiln_tuning_info. Blocks.
 * Errors: KILN_EMISMATCH naming the array and the first element, and those of kiln_get and kiln_launch_args. */
KILN_API kiln_status kiln_workload_check(kiln_workload *workload, const char **against, kiln_report *report);

/* ---- Values --------------------------------------------------------------------------------------------------- */

/* Fills n elements in a device's memory with the values that tuning uses: random signs, magnitudes from 1/64 to 8, so that
 * there are some on both sides of every threshold of the ops, and the same on every machine for an equal seed. They repeat
 * after 1048573 elements. Returns when done. Errors: KILN_EINVAL, KILN_ESPEC (no such dtype), KILN_ENOMEM,
 * KILN_EDEVICE. */
KILN_API kiln_status kiln_fill(kiln_device *device, void *to, const char *dtype, uint64_t n, uint64_t seed,
                               kiln_report *report);

#ifdef __cplusplus
}
#endif
#endif
