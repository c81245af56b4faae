/* The parts of the sandbox, for its own files. */
#ifndef KILN_KILN_WORKER_SANDBOX_PARTS_H
#define KILN_KILN_WORKER_SANDBOX_PARTS_H

#include "kiln-worker/sandbox.h"

/* ---- judge.c: which paths are allowed */

/* From now on the calls ask. `allowed` are resolved paths, NULL-terminated; kept. */
void kiln__judge_start(char *const *allowed);
bool kiln__judge_has_started(void);

/* Before that: from its start on, paths are those of places, and are noted by kiln-worker/witness.h. Kept. */
void kiln__judge_set_places(const kiln__list *places);

/* A descriptor (O_PATH) of what `path` leads to from `dir`, links followed unless `flags` is O_NOFOLLOW, if that is
 * allowed; else -1 with ENOENT. The path is noted for kiln__sandbox_visit. The caller closes it. Any thread. */
int kiln__judge_reach(int dir, const char *path, int flags);

/* Notes that a path which was reached could not be read after all: what it holds is unknown. */
void kiln__judge_unknown(const char *path, int error);

/* Notes the path as refused: -1 with ENOENT. */
int kiln__judge_refuse(int dir, const char *path);

/* ---- calls.c: the calls that ask */

/* True if the calls of shared libraries land in this program's functions, else `reason` names one that does not. */
bool kiln__calls_are_in_place(char *reason, size_t size);

/* ---- landlock.c: the kernel's net */

/* Lets the calling thread and those it will start open nothing but `allowed`, as above. Writes how it went into
 * `reason`, true or false. */
bool kiln__landlock_enter(char *const *allowed, char *reason, size_t size);

#endif
