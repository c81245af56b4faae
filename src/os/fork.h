/* Forks. A child has the memory of its parent and none of its threads, so the parent's locks and tables may be half way
 * through a change. The child uses no object from before the fork: objects keep the generation in which they were made,
 * and public functions compare it. */
#ifndef KILN_OS_FORK_H
#define KILN_OS_FORK_H

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_uint kiln__fork_count; /* of forks from the process that first watched to this one */

/* Installs the one handler of the process, which runs in the child and takes no lock. 0 or a positive errno. Any
 * thread. */
int kiln__fork_watch(void);

/* The generation of objects that are made now. */
static inline unsigned kiln__fork_generation(void)
{
    return atomic_load_explicit(&kiln__fork_count, memory_order_relaxed);
}

/* Whether a parent of this process made an object of that generation. */
static inline bool kiln__is_forked(unsigned generation)
{
    return generation != kiln__fork_generation();
}

/* Lists a descriptor that a forked child closes: one that keeps a lock held, or a worker alive, when the parent is
 * killed. False: the list is full. Takes no lock. */
bool kiln__fork_list_fd(int fd);

/* Takes it off the list. Called before the descriptor is closed, so that no child closes another file of that
 * number. */
void kiln__fork_delist_fd(int fd);

#endif
