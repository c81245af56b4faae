/* One compile worker, seen from the host: finding the program, starting it, asking it, and saying how it died. */
#ifndef KILN_JIT_WORKER_WORKER_H
#define KILN_JIT_WORKER_WORKER_H

#include "jit/worker/protocol.h"
#include "os/process.h"

/* The limits that every worker of a service is started with. */
typedef struct kiln__worker_limits {
    uint64_t memory_bytes; /* of address space */
    uint32_t time_ms;      /* for one compile */
} kiln__worker_limits;

/* Finds the program: `named`, an absolute path, or the first of the places where it is built and installed to, seen
 * from the file that holds this library as it was loaded, never from the working directory. It must belong to root
 * or this user (beside the library also to that file's owner), and no other may write it. Its path goes to out;
 * KILN_ENOWORKER says where it was looked for, or which file is refused and why. */
kiln_status kiln__worker_find(const char *named, char *out, size_t size, kiln_report *report);

/* Starts the program and asks nothing yet. The caller ends it with kiln__child_end. KILN_ENOWORKER, KILN_ENOMEM;
 * KILN_EIO where descriptors or processes are short. */
kiln_status kiln__worker_start(kiln__child *out, const char *program, const kiln__worker_limits *limits,
                               kiln_report *report);

/* The first request: lets the worker open NVRTC, at `nvrtc` if that is not NULL, and the files of `linker` unless there
 * are none, and then no file but those in `places` (a source's unit). KILN_ENOCOMPILER as NVRTC itself
 * would say it; KILN_ENOWORKER if the program is no worker of this version. */
kiln_status kiln__worker_open(kiln__child *child, const char *program, const char *nvrtc, const kiln__list *linker,
                              const kiln__list *places, kiln__toolchain *out, kiln_report *report);

/* The result of a request. */
typedef struct kiln__worker_answer {
    kiln__channel_result result; /* DONE: `message` holds the answer; else the worker is of no further use */
    bool begun;                  /* a compile had begun */
    bool stopped;                /* CLOSED because it was found stopped (SIGSTOP) before it answered anything */
    kiln__message message;       /* also the last words of a worker that died, where it had any */
} kiln__worker_answer;

/* Sends a request and waits for its answer; a compile gets `time_ms` from its beginning. Free *out with
 * kiln__message_fini. */
void kiln__worker_ask(const kiln__child *child, const kiln__text *request, uint32_t time_ms, kiln__worker_answer *out);

/* Reads an answer to OPEN or IDENTIFY: the toolchain, or the worker's own failure, which is returned. *sound becomes
 * false for what no sound worker answers; the status is then KILN_OK. */
kiln_status kiln__worker_read_toolchain(const kiln__worker_answer *answer, kiln__toolchain *out, bool *sound,
                                        kiln_report *report);

/* Ends a worker whose compile gave no answer, and says why. KILN_ECRASHED, KILN_ENOMEM. */
kiln_status kiln__worker_fail(kiln__child *child, const kiln__worker_answer *answer, const kiln__worker_limits *limits,
                              const kiln__unit *unit, kiln_report *report);

#endif
