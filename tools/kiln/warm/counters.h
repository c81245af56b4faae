/* The counters of a service, by group and reason, for --stats. */
#ifndef KILN_TOOLS_COUNTERS_H
#define KILN_TOOLS_COUNTERS_H

#include "cli/common.h"
#include "text/jsonout.h"

/* One line for each group: "misses     3 absent, 1 damaged, ...". */
void counters_print(const kiln_service *service, FILE *stream);

/* Every counter under the name that it has in kiln_stats. */
json_t *counters_json(const kiln_service *service);

#endif
