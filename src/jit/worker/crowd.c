#include "jit/worker/crowd.h"

#include <string.h>

void kiln__crowd_init(kiln__crowd *crowd, unsigned limit)
{
    memset(crowd, 0, sizeof(*crowd));
    crowd->limit = limit;
}

/* Whether there is a place outside, which is then taken. */
static bool take_place(kiln__crowd *crowd)
{
    if (atomic_fetch_add(&crowd->outside, 1) < crowd->limit)
        return true;
    atomic_fetch_sub(&crowd->outside, 1);
    return false;
}

bool kiln__crowd_enter(kiln__crowd *crowd, uint64_t now)
{
    if (atomic_fetch_add(&crowd->inside, 1) == 0) {
        if (now > atomic_load(&crowd->left_ns) + KILN__CROWD_REST_NS)
            atomic_store(&crowd->shared, 0);
        return true;
    }
    if (now < atomic_load(&crowd->paused_to) || atomic_fetch_add(&crowd->shared, 1) < KILN__CROWD_SHARED)
        return true;
    atomic_store(&crowd->shared, KILN__CROWD_SHARED); /* far from overflowing */
    if (!take_place(crowd))
        return true;
    atomic_fetch_sub(&crowd->inside, 1);
    return false;
}

void kiln__crowd_leave(kiln__crowd *crowd, uint64_t now)
{
    atomic_store(&crowd->left_ns, now);
    atomic_fetch_sub(&crowd->inside, 1);
}

void kiln__crowd_return(kiln__crowd *crowd, bool stay)
{
    atomic_fetch_sub(&crowd->outside, 1);
    if (stay)
        atomic_fetch_add(&crowd->inside, 1);
    else
        atomic_store(&crowd->pause_ns, 0);
}

uint64_t kiln__crowd_pause(kiln__crowd *crowd, uint64_t now)
{
    uint64_t until = atomic_load(&crowd->paused_to), pause = 2 * atomic_load(&crowd->pause_ns);
    if (pause < KILN__CROWD_PAUSE_NS)
        pause = KILN__CROWD_PAUSE_NS;
    if (pause > KILN__CROWD_PAUSE_MAX_NS)
        pause = KILN__CROWD_PAUSE_MAX_NS;
    if (now < until || !atomic_compare_exchange_strong(&crowd->paused_to, &until, now + pause))
        return 0;
    atomic_store(&crowd->pause_ns, pause);
    return pause;
}
