#include "tune/turn.h"

#include <time.h>
#include <unistd.h>

enum { WAIT_NS = 5000000 };

/* A mutex would do but for two things: a forked child gets it locked for ever by a thread that it does not have, hence the
 * number of the process, and who waits for half a minute must be able to give up. */
static bool try_take(kiln_device *device)
{
    int own = (int)getpid(), holder = atomic_load(&device->tuner);
    return holder != own && atomic_compare_exchange_strong(&device->tuner, &holder, own);
}

kiln_status kiln__turn_take(kiln_device *device, bool (*give_up)(void *data), void *data, kiln_report *report)
{
    const struct timespec wait = { 0, WAIT_NS };
    while (!try_take(device)) {
        if (give_up != NULL && give_up(data))
            return kiln__fail(report, KILN_ECANCELED, KILN__STAGE_DEVICE, 0,
                              "cancelled while another tuning was running on %s", device->name);
        nanosleep(&wait, NULL);
    }
    return KILN_OK;
}

void kiln__turn_end(kiln_device *device)
{
    atomic_store(&device->tuner, 0);
}
