/* What a search leaves behind: a record of wisdom, where it found what others may rely on. */
#ifndef KILN_TUNE_LEARN_H
#define KILN_TUNE_LEARN_H

#include "tune/tuner.h"

typedef struct kiln__lesson {
    const kiln__fields *asked, *best; /* as the caller wrote it; the winner, every field set */
    kiln__search_end end;
    kiln__wisdom_measure measure; /* but for gbps */
} kiln__lesson;

/* Adds the record, or says in tuning->info, which is otherwise complete, why not. Errors: KILN_ENOMEM. */
kiln_status kiln__tuning_learn(kiln_tuning *tuning, kiln_service *service, const kiln_device *device,
                               const kiln_tune_options *options, const kiln__lesson *lesson, kiln_report *report);

#endif
