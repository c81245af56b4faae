/* The file of wisdom that the winner of a tuning was for. */
#ifndef KILN_TOOLS_TUNEFILE_H
#define KILN_TOOLS_TUNEFILE_H

#include <kiln/tune.h>

#include "tune/tunejob.h"

/* The file that keeps the winner, or that should have: where it could not be stored, or an earlier search is kept.
 * "" where the winner was none to be kept, or there is no store on disk. The caller frees it. */
char *tune_file(kiln_service *service, const kiln_spec *spec, const tune_job *job, const kiln_tuning_info *info);

#endif
