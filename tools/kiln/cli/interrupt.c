/* Notes an interrupt, which commands look for at points where they can end. */
#include "cli/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_int seen;            /* the signal's number */
static struct sigaction before[2]; /* of SIGINT and SIGTERM */

void interrupt_note(int signal_number)
{
    atomic_store(&seen, signal_number);
}

void interrupt_catch(bool terminate)
{
    struct sigaction once = { .sa_handler = interrupt_note, .sa_flags = (int)SA_RESETHAND | SA_RESTART };
    sigaction(SIGINT, &once, &before[0]);
    sigaction(SIGTERM, terminate ? &once : NULL, &before[1]);
}

bool interrupt_seen(void)
{
    return atomic_load(&seen) != 0;
}

int interrupt_status(void)
{
    return 128 + atomic_load(&seen);
}

void interrupt_release(void)
{
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGTERM, &before[1], NULL);
}
