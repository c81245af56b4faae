#include "base/event.h"

#include <stdlib.h>

/* Headers alone, of the CUDA Toolkit. A build without them makes no ranges. */
#if __has_include(<nvtx3/nvToolsExt.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <nvtx3/nvToolsExt.h>
#pragma GCC diagnostic pop
#define HAS_NVTX 1
#else
#define HAS_NVTX             0
#define nvtxRangePushA(name) ((void)(name))
#define nvtxRangePop()       ((void)0)
#endif

atomic_bool kiln__event_wanted;
static atomic_bool has_profiler;

void kiln__event_init(kiln__log *log, kiln_event_fn fn, void *data)
{
    const char *injected = HAS_NVTX ? secure_getenv("NVTX_INJECTION64_PATH") : NULL;
    log->event = fn;
    log->event_data = data;
    if (injected != NULL && injected[0] != '\0')
        atomic_store(&has_profiler, true);
    if (fn != NULL || atomic_load(&has_profiler))
        atomic_store(&kiln__event_wanted, true);
}

void kiln__event_tell_begin(const kiln__log *log, kiln_event_kind kind, const char *name)
{
    const kiln_event event = { .size = sizeof(event), .kind = kind, .name = name, .status = KILN_OK };
    if (atomic_load_explicit(&has_profiler, memory_order_relaxed))
        nvtxRangePushA(name);
    if (log->event != NULL)
        log->event(log->event_data, &event);
}

void kiln__event_tell_end(const kiln__log *log, kiln_event_kind kind, const char *name, kiln_status status, uint64_t ns)
{
    const kiln_event event = {
        .size = sizeof(event), .kind = kind, .ends = 1, .name = name, .status = status, .ns = ns
    };
    if (atomic_load_explicit(&has_profiler, memory_order_relaxed))
        nvtxRangePop();
    if (log->event != NULL)
        log->event(log->event_data, &event);
}
