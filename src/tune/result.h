/* What a search or a sweep gives its host. */
#ifndef KILN_TUNE_RESULT_H
#define KILN_TUNE_RESULT_H

#include "wisdom/wisdom.h"
#include <kiln/tune.h>

struct kiln_tuning {
    kiln_variant_result *table;          /* ranked; both texts of each are its own */
    const kiln_variant_result **results; /* what the info shows of it */
    size_t count;
    kiln_tuning_info info;
    char device[16];
    char *wisdom; /* the file that keeps the winner, or NULL */
    char not_learnt[KILN__WISDOM_REASON];
};

/* Room for results, all zero. KILN_ENOMEM. */
kiln_status kiln__tuning_reserve(kiln_tuning *tuning, size_t count, kiln_report *report);

/* Gives a result copies of its texts. False: there is no memory for them. */
bool kiln__tuning_name(kiln_variant_result *result, const char *spec, const char *problem);

/* Lets the info show the results, which do not change from then on. */
void kiln__tuning_show(kiln_tuning *tuning);

/* The contract is that of kiln_tuning_free. */
void kiln__tuning_free(kiln_tuning *tuning);

#endif
