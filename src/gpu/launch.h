/* Loaded images and their launches; contracts in backend/backend.h. */
#ifndef KILN_GPU_LAUNCH_H
#define KILN_GPU_LAUNCH_H

#include "backend/backend.h"

kiln_status kiln__cuda_load(kiln_device *device, const kiln__entry *entry, const kiln__rule *rule, kiln__module **out,
                            bool *used_ptx, kiln_report *report);
void kiln__cuda_unload(kiln__module *module);
kiln_status kiln__cuda_launch(kiln__module *module, uint32_t entry, const uint32_t grid[3], void **args, void *stream,
                              kiln_report *report);
kiln_status kiln__cuda_capturing(kiln_device *device, void *stream, bool *out, kiln_report *report);
void kiln__cuda_resources(const kiln__module *module, int *registers, int *local_bytes);

#endif
