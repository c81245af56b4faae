/* Structs that begin with their size: a program built against another version of kiln.h may know fewer or more fields. */
#ifndef KILN_API_STRUCTS_H
#define KILN_API_STRUCTS_H

#include <kiln/tune.h>

/* Fills as much of the caller's struct as it has; its own size field stays. KILN_EINVAL if that cannot be right. */
kiln_status kiln__hand_out(void *out, const void *full, size_t full_size);

/* Copies what the caller's struct has over the defaults in `full`; NULL has nothing. KILN_EINVAL as above. */
kiln_status kiln__take_in(void *full, size_t full_size, const void *given);

/* Completes the host's tuning options. KILN_EINVAL for what cannot be right. */
kiln_status kiln__take_tune_options(kiln_tune_options *full, const kiln_tune_options *options, kiln_report *report);

#endif
