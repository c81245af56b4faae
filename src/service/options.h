/* Where options come from: the host's struct, else the environment, else the default. */
#ifndef KILN_SERVICE_OPTIONS_H
#define KILN_SERVICE_OPTIONS_H

#include "base/text.h"

/* What kiln_open works with. All strings are owned; NULL means the default. */
typedef struct kiln__settings {
    char *device, *cache_dir, *nvrtc, *libcuda, *cc, *record;
    uint64_t memory_bytes;
    uint32_t lock_wait_ms;
    kiln_log_fn log;
    void *log_data;
    kiln_log_level log_level;
    char *packs, *shared_dir;
    uint64_t cache_bytes, cache_files;
    uint32_t loaded_max;
    bool strict, wisdom;
    kiln_isolate isolate;
    char *worker, *crash_dir;
    uint32_t worker_time_ms;
    uint64_t worker_memory_bytes;
    bool elevated;      /* more rights than the user who started the process: nothing is taken from his environment */
    bool own_cache_dir; /* the host named it: no other process finds it by itself */
} kiln__settings;

/* Reads options and environment; the environment is not read where the process runs with raised
 * rights. cache_dir becomes "" when nothing shall be or can be kept. KILN_EINVAL, KILN_ENOMEM. */
kiln_status kiln__settings_init(kiln__settings *out, const kiln_options *options, kiln_report *report);
void kiln__settings_fini(kiln__settings *settings);

#endif
