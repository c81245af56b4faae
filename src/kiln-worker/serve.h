/* A compile worker's work: requests in, answers out. */
#ifndef KILN_KILN_WORKER_SERVE_H
#define KILN_KILN_WORKER_SERVE_H

#include <stdint.h>

typedef struct kiln__server {
    uint64_t memory_bytes;
    uint32_t cpu_s;
    struct kiln__compiler *compiler; /* from kiln__serve_open */
} kiln__server;

/* Answers the first request: opens NVRTC and then closes the process off from all files. Before the process has a
 * second thread, which the sandbox would not hold. Ends the process if anything is wrong. */
void kiln__serve_open(kiln__server *server);

/* Answers all others (jit/worker/protocol.h) until the host hangs up, breaks the protocol or asks nothing for a
 * minute, or until much memory has been used; then ends the process without running what libraries left to be done
 * at its end. One thread. */
void *kiln__serve(void *server) __attribute__((noreturn));

#endif
