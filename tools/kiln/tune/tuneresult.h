/* The result of one tuning, and its JSON, which `kiln tune --json` prints and a sandbox's child leaves to its
 * parent. */
#ifndef KILN_TOOLS_TUNERESULT_H
#define KILN_TOOLS_TUNERESULT_H

#include "kernels/argvalues.h"
#include "text/jsonout.h"
#include "tune/variants.h"

typedef struct tune_result {
    kiln_status status; /* KILN_OK, or that of a failure, of which only the next three tell more */
    char *message;
    char *log, *suspect; /* NULL: there is none */

    char *device, *end, *against, *not_learnt; /* as kiln_tuning_info has them, `against` as verified_by */
    char *wisdom;                              /* as tune_file tells it */
    char *spec;                                /* of the winner */
    uint64_t elements, bytes, variants, impossible, out, rounds, samples;
    double default_ms, regret, seconds;
    bool learnt;
    variant_row *rows; /* ranked */
    size_t row_count;
    bool has_values;  /* whether the template takes more than a number of elements */
    arg_texts values; /* then each size and number that it was measured with, as "NAME=VALUE" */
} tune_result;

/* The result of a tuning that ended well. The caller sets `wisdom` and the values. All results are freed with
 * tune_result_free. */
tune_result *tune_result_make(const kiln_tuning_info *info);

/* A failure; log and suspect may be NULL. */
tune_result *tune_result_fail(kiln_status status, const char *message, const char *log, const char *suspect);

json_t *tune_result_json(const tune_result *result);

/* Reads that JSON, or NULL. Returns NULL where something is missing or of another type: a variant may have damaged the
 * child that wrote it. */
tune_result *tune_result_read(const json_t *object);

void tune_result_free(tune_result *result);

#endif
