#include "tune/turn.h"

#include <time.h>

enum { WAIT_NS = 5000000 };

/* A mutex would do, but that a thread which waits for half a minute must be able to give up. */
kiln_status kiln__turn_take(kiln_device *device, bool (*give_up)(void *data), void *data, kiln_report *report)
{
    const struct timespec wait = { 0, WAIT_NS };
    while (atomic_exchange(&device->tuning, true)) {
        if (give_up != NULL && give_up(data))
            return kiln__fail(report, KILN_ECANCELED, KILN__STAGE_DEVICE, 0,
                              "cancelled while another tuning was running on %s", device->name);
        nanosleep(&wait, NULL);
    }
    return KILN_OK;
}

void kiln__turn_end(kiln_device *device)
{
    atomic_store(&device->tuning, false);
}
