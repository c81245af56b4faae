/* Tunings and sweeps: a contest between the variants of a spec, or the specs of a list, and its result. */
#ifndef KILN_TUNE_TUNER_H
#define KILN_TUNE_TUNER_H

#include "service/service.h"
#include "tune/search.h"

#define KILN__TUNE_BUDGET_MAX_S 1e6
enum { KILN__SWEEP_SPECS_MAX = 1 << 16, KILN__SWEEP_ROUNDS_MAX = 100000 };

/* The result of a search or a sweep. */
struct kiln_tuning {
    kiln_variant_result *table;          /* ranked; owns the spec and the problem of each */
    const kiln_variant_result **results; /* pointers to its elements, for the info */
    size_t count;
    kiln_tuning_info info;
    char device[16];
    char *wisdom; /* the file that keeps the winner, or NULL */
    char not_learnt[KILN__WISDOM_REASON];
};

/* The contract is that of kiln_tune; the options are complete, and their work, too. */
kiln_status kiln__tuning_make(kiln_tuning **out, kiln_service *service, const kiln__fields *spec,
                              const kiln_tune_options *options, kiln_report *report);

/* The contract is that of kiln_sweep; the arguments have been checked and the options are complete, and their work,
 * too. */
kiln_status kiln__sweep_make(kiln_tuning **out, kiln_service *service, const kiln_spec *const *specs, size_t count,
                             const kiln_sweep_options *options, kiln_report *report);

/* The contract is that of kiln_tuning_free. */
void kiln__tuning_free(kiln_tuning *tuning);

/* The outcome of a search, for wisdom. */
typedef struct kiln__lesson {
    const kiln__fields *asked, *best; /* as the caller wrote it; the winner, every field set */
    kiln__search_end end;
    kiln__wisdom_measure measure; /* but for gbps */
} kiln__lesson;

/* Adds a record of wisdom if others may rely on the outcome, or says in tuning->info, which is otherwise complete, why
 * not. Errors: KILN_ENOMEM. */
kiln_status kiln__tuning_learn(kiln_tuning *tuning, kiln_service *service, const kiln_device *device,
                               const kiln_tune_options *options, const kiln__lesson *lesson, kiln_report *report);

#endif
