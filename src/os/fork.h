/* What has to be put right in a forked child, where only the forking thread lives on and locks of the others stay as
 * they were. */
#ifndef KILN_OS_FORK_H
#define KILN_OS_FORK_H

/* Embedded in its owner. Before a fork `prepare` takes the owner's locks, so that what they guard is whole; after it
 * `parent` gives them back in the parent and `child` in the child. */
typedef struct kiln__fork_watch {
    void (*prepare)(void *data);
    void (*parent)(void *data);
    void (*child)(void *data);
    void *data;
    struct kiln__fork_watch *next, *before; /* for os/fork.c */
} kiln__fork_watch;

/* Begins and ends watching forks; unwatch also works in the child. Installs the process's one handler on first use: the
 * list of watches is the one thing in Kiln that belongs to the process and not to a service. Any thread, but not from
 * inside a watch's functions. */
void kiln__fork_watch_begin(kiln__fork_watch *watch);
void kiln__fork_watch_end(kiln__fork_watch *watch);

/* Between the two the process does not fork: for the loader, whose state a child could not put right. Nothing that takes
 * another lock of Kiln's may be called in between. Any thread. */
void kiln__fork_hold(void);
void kiln__fork_resume(void);

#endif
