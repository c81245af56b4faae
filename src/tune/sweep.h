/* Sweeps: every spec of a list compiled, checked and timed against the others, none left out. */
#ifndef KILN_TUNE_SWEEP_H
#define KILN_TUNE_SWEEP_H

#include "tune/tuner.h"

enum { KILN__SWEEP_SPECS_MAX = 1 << 16, KILN__SWEEP_ROUNDS_MAX = 100000 };

/* The contract is that of kiln_sweep; the arguments have been checked and the options are complete, and their work,
 * too. */
kiln_status kiln__sweep_make(kiln_tuning **out, kiln_service *service, const kiln_spec *const *specs, size_t count,
                             const kiln_sweep_options *options, kiln_report *report);

#endif
