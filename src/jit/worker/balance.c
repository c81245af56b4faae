/* Which compiles go to workers: counters of those here and there, without a lock. */
#include "jit/worker/balance.h"

bool kiln__balance_enter(kiln__balance *balance, uint64_t now)
{
    if (atomic_fetch_add(&balance->inside, 1) == 0) {
        if (now > atomic_load(&balance->left_ns) + KILN__BALANCE_REST_NS)
            atomic_store(&balance->shared, 0);
        return true;
    }
    if (now < atomic_load(&balance->paused_to) || atomic_fetch_add(&balance->shared, 1) < KILN__BALANCE_SHARED)
        return true;
    atomic_store(&balance->shared, KILN__BALANCE_SHARED); /* far from overflowing */
    if (atomic_fetch_add(&balance->outside, 1) >= balance->limit) {
        atomic_fetch_sub(&balance->outside, 1);
        return true;
    }
    atomic_fetch_sub(&balance->inside, 1);
    return false;
}

void kiln__balance_leave(kiln__balance *balance, uint64_t now)
{
    atomic_store(&balance->left_ns, now);
    atomic_fetch_sub(&balance->inside, 1);
}

void kiln__balance_return(kiln__balance *balance, bool stay)
{
    atomic_fetch_sub(&balance->outside, 1);
    if (stay)
        atomic_fetch_add(&balance->inside, 1);
    else
        atomic_store(&balance->pause_ns, 0);
}

uint64_t kiln__balance_pause(kiln__balance *balance, uint64_t now)
{
    uint64_t until = atomic_load(&balance->paused_to), pause = 2 * atomic_load(&balance->pause_ns);
    if (pause < KILN__BALANCE_PAUSE_NS)
        pause = KILN__BALANCE_PAUSE_NS;
    if (pause > KILN__BALANCE_PAUSE_MAX_NS)
        pause = KILN__BALANCE_PAUSE_MAX_NS;
    if (now < until || !atomic_compare_exchange_strong(&balance->paused_to, &until, now + pause))
        return 0;
    atomic_store(&balance->pause_ns, pause);
    return pause;
}
