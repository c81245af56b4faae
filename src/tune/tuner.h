/* Tuning: the space of a spec, a contest between its variants, a search for the fastest. */
#ifndef KILN_TUNE_TUNER_H
#define KILN_TUNE_TUNER_H

#include "service/service.h"
#include "tune/search.h"
#include "tune/space.h"
#include <kiln/tune.h>

#define KILN__TUNE_BUDGET_MAX_S 1e6

typedef struct kiln__trial {
    char *spec;
    char *problem; /* NULL unless it is out */
    kiln_verdict verdict;
    double median_ms; /* 0: the ratio times that of the default */
    double ratio, low, high;
    double ceiling_ratio; /* 0 if no copy was measured */
    uint64_t samples;
    int registers, local_bytes;
} kiln__trial;

struct kiln_tuning {
    kiln__trial *trials; /* ranked */
    size_t count;
    kiln_tuning_info info;
    char device[16];
    char *wisdom; /* the file, or NULL */
    char not_learnt[KILN__WISDOM_REASON];
};

/* The contracts are those of kiln_tune and kiln_tuning_free; the options are complete. */
kiln_status kiln__tuning_make(kiln_tuning **out, kiln_service *service, const kiln_spec *spec,
                              const kiln_tune_options *options, kiln_report *report);
void kiln__tuning_free(kiln_tuning *tuning);

/* Where a spec is tuned or swept: on `asked`, else on the cpu where the spec says target=cpu, else on the default device.
 * KILN_EINVAL (another service's), and the errors of kiln_device_open. */
kiln_status kiln__tuning_device(kiln_device **out, kiln_service *service, kiln_device *asked, const kiln_spec *spec,
                                kiln_report *report);

#endif
