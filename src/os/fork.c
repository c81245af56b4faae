#include "os/fork.h"

#include <pthread.h>
#include <stddef.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held across a fork; guards the list */
static kiln__fork_watch *first;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER; /* taken last: who holds it waits for nobody */
static _Thread_local unsigned holds; /* of this thread: a library that is being opened may fork, or open another */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    for (kiln__fork_watch *watch = first; watch != NULL; watch = watch->next)
        watch->prepare(watch->data);
    kiln__fork_hold();
}

static void after_in_parent(void)
{
    kiln__fork_resume();
    for (kiln__fork_watch *watch = first; watch != NULL; watch = watch->next)
        watch->parent(watch->data);
    pthread_mutex_unlock(&lock);
}

static void after_in_child(void)
{
    kiln__fork_resume();
    for (kiln__fork_watch *watch = first; watch != NULL; watch = watch->next)
        watch->child(watch->data);
    pthread_mutex_unlock(&lock);
}

static void install(void)
{
    pthread_atfork(before_fork, after_in_parent, after_in_child);
}

void kiln__fork_watch_begin(kiln__fork_watch *watch)
{
    pthread_once(&once, install);
    pthread_mutex_lock(&lock);
    watch->before = NULL;
    watch->next = first;
    if (first != NULL)
        first->before = watch;
    first = watch;
    pthread_mutex_unlock(&lock);
}

void kiln__fork_watch_end(kiln__fork_watch *watch)
{
    pthread_mutex_lock(&lock);
    if (watch->before != NULL)
        watch->before->next = watch->next;
    else
        first = watch->next;
    if (watch->next != NULL)
        watch->next->before = watch->before;
    pthread_mutex_unlock(&lock);
}

void kiln__fork_hold(void)
{
    pthread_once(&once, install);
    if (holds++ == 0)
        pthread_mutex_lock(&held);
}

void kiln__fork_resume(void)
{
    if (--holds == 0)
        pthread_mutex_unlock(&held);
}
