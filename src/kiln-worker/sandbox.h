/* The sandbox of a compile worker: which files it may open. Source text is hostile: `#include "/etc/passwd"` would
 * put that file into the compiler's log and `__has_include` would tell which files there are.  Two nets, one beneath
 * the other. The calls: the program defines open, fopen, stat and the other calls by which libnvrtc gets at a path,
 * and these answer ENOENT to all that is not allowed (calls.c); nothing is told about a refused path, not even
 * whether it is there. The kernel: Landlock, where there is one, refuses to open anything that is not allowed, by
 * any call of any code, and also to change files, to execute programs, to reach out by TCP and to signal other
 * processes; it does not hide that a file is there, nor check files without a path (pipes, memory files).
 * Descriptors that are open already stay usable.  A program that links the object library kiln_sandbox has the calls
 * from its start. They do what the system's do until the sandbox is entered. libkiln has none of this. */
#ifndef KILN_KILN_WORKER_SANDBOX_H
#define KILN_KILN_WORKER_SANDBOX_H

#include "base/list.h"

/* The nets; one alone lets tests see that each of them holds. */
typedef enum kiln__sandbox_net { KILN__SANDBOX_CALLS = 1, KILN__SANDBOX_KERNEL = 2 } kiln__sandbox_net;

/* From now on this process opens nothing but what `allowed` names: absolute paths of files and of directories with
 * all that is in them, NULL-terminated; NULL for nothing. They are resolved here, those that are not there are left
 * out, and they are open for reading only: regular files and directories, wherever links lead from a path.
 * Irrevocable, and once in a process. The calls are refused to all threads, the kernel refuses to the calling thread
 * and to those started later: enter before the first. Load libraries before, their files cannot be opened any more.
 * True if at least the calls are refused; then `reason` (size bytes) says for a log how the kernel's net is. False
 * if not even they are in place, if a path is relative or if memory ran out: nothing is changed, and `reason` says
 * why. */
bool kiln__sandbox_enter_nets(unsigned nets, const char *const *allowed, char *reason, size_t size);

/* The same for a compiler that knows directories by name alone: `places` are a name and an absolute path, a name and
 * ... A file in one of them is opened as KILN__READS_ROOT "/<name>/math.h" (source/reads.h), and under no other
 * path, so that nothing that is compiled depends on where they are. kiln-worker/recorder.h notes each path that is
 * asked for. The place KILN__READS_STANDARD has Kiln's standard headers, from memory, and is not noted. */
bool kiln__sandbox_enter_places(const kiln__list *places, char *reason, size_t size);

/* A path as it was asked for, and whether it was found. May make no file call. */
typedef void kiln__sandbox_visitor(void *data, const char *path, bool found);

/* Calls fn with each path that has been asked for since the sandbox was entered, or since the last visit, once each
 * in the order of the first time; a path that was found at one time and not at another comes twice. Forgets them.
 * False if there were more than fit (64 KiB of paths). Any thread. */
bool kiln__sandbox_visit(kiln__sandbox_visitor *fn, void *data);

/* ---- For calls.c */

/* Whether the calls ask. */
bool kiln__sandbox_is_entered(void);

/* A descriptor (O_PATH, or of a file in memory) of what `path` leads to from `dir`, links followed unless `flags` is
 * O_NOFOLLOW, if that is allowed; else -1 with ENOENT. The path is noted for kiln__sandbox_visit. The caller closes it.
 * Any thread. */
int kiln__sandbox_reach(int dir, const char *path, int flags);

/* Notes that a path which was reached could not be read after all: its contents are unknown. */
void kiln__sandbox_unknown(const char *path, int error);

/* Notes the path as refused: -1 with ENOENT. */
int kiln__sandbox_refuse(int dir, const char *path);

/* True if the calls of shared libraries land in this program's functions, else `reason` names one that does not. */
bool kiln__calls_are_in_place(char *reason, size_t size);

#endif
