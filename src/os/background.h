/* Work that must not be in the way of others. */
#ifndef KILN_OS_BACKGROUND_H
#define KILN_OS_BACKGROUND_H

/* Lets the calling thread, and what it starts from then on, give way: nice 10, and time slices so long that any
 * thread that wakes up takes the processor from it at once. The latter needs Linux 6.12; before that a thread that
 * wakes may wait for the scheduler's next tick. A system that refuses either is left as it is. */
void kiln__background_enter(void);

#endif
