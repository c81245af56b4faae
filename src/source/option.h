/* Which of NVRTC's options a source of a user's own may be compiled with. Pure. */
#ifndef KILN_SOURCE_OPTION_H
#define KILN_SOURCE_OPTION_H

#include "base/report.h"

/* KILN_OK for an option that may be passed on as it is: one whose effect is the same in every process, that reads
 * and writes no file and that leaves a cubin. Else KILN_EINVAL, and the report says why and what to use instead. */
kiln_status kiln__option_check(const char *option, kiln_report *report);

/* Whether an option puts the working directory into what is compiled. */
bool kiln__option_tells_directory(const char *option);

#endif
