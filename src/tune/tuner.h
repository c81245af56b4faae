/* Tuning: the space of a spec, a contest between its variants, a search for the fastest. */
#ifndef KILN_TUNE_TUNER_H
#define KILN_TUNE_TUNER_H

#include "service/service.h"
#include "tune/result.h"
#include "tune/search.h"
#include "tune/space.h"
#include <kiln/tune.h>

#define KILN__TUNE_BUDGET_MAX_S 1e6

/* The contract is that of kiln_tune; the options are complete, and their work, too. */
kiln_status kiln__tuning_make(kiln_tuning **out, kiln_service *service, const kiln__fields *spec,
                              const kiln_tune_options *options, kiln_report *report);

/* Where a spec is tuned or swept: on `asked`, else on the cpu where the spec says target=cpu, else on the default
 * device. KILN_EINVAL (another service's), and the errors of kiln_device_open. */
kiln_status kiln__tuning_device(kiln_device **out, kiln_service *service, kiln_device *asked, const kiln__fields *spec,
                                kiln_report *report);

/* How many elements each array has, of a template of one size; else what the work says. */
uint64_t kiln__tuning_elements(const kiln_work *work, const kiln__fields *spec, const kiln_device *device);

#endif
