/* The fork handler: it counts forks and closes the listed descriptors in the child. */
#include "os/fork.h"

#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

/* Threads that compile at once, and their workers. A thread without a place goes on without the lock. */
enum { DESCRIPTORS_MAX = 1024 };

atomic_uint kiln__fork_count;

/* Process-wide, as the handler is: it may read nothing that another thread changes under a lock. */
static atomic_int descriptors[DESCRIPTORS_MAX]; /* number + 1; 0: a free place */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int error;

static void begin_child(void)
{
    atomic_fetch_add_explicit(&kiln__fork_count, 1, memory_order_relaxed);
    for (int i = 0; i < DESCRIPTORS_MAX; i++) {
        int known = atomic_exchange_explicit(&descriptors[i], 0, memory_order_relaxed);
        if (known != 0)
            close(known - 1);
    }
}

static void install(void)
{
    error = pthread_atfork(NULL, NULL, begin_child);
}

int kiln__fork_watch(void)
{
    pthread_once(&once, install);
    return error;
}

bool kiln__fork_list_fd(int fd)
{
    for (int i = 0; i < DESCRIPTORS_MAX; i++) {
        int none = 0;
        if (atomic_load_explicit(&descriptors[i], memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(&descriptors[i], &none, fd + 1))
            return true;
    }
    return false;
}

void kiln__fork_delist_fd(int fd)
{
    for (int i = 0; i < DESCRIPTORS_MAX; i++)
        if (atomic_load_explicit(&descriptors[i], memory_order_relaxed) == fd + 1) {
            atomic_store(&descriptors[i], 0);
            return;
        }
}
