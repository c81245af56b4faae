/* Frames on a stream socket. Each call blocks until it is done, the other end has gone or a deadline has passed; one
 * thread at a time for each direction. Deadlines are kiln__cpu_now_ns, KILN__CHANNEL_FOREVER for none. */
#ifndef KILN_JIT_WORKER_CHANNEL_H
#define KILN_JIT_WORKER_CHANNEL_H

#include "jit/worker/frame.h"

#define KILN__CHANNEL_FOREVER UINT64_MAX

typedef enum kiln__channel_result {
    KILN__CHANNEL_DONE,
    KILN__CHANNEL_CLOSED,    /* the other end has gone, be it in the middle of a frame */
    KILN__CHANNEL_LATE,      /* the deadline has passed */
    KILN__CHANNEL_MALFORMED, /* what came is no frame; the stream is of no further use */
    KILN__CHANNEL_NO_MEMORY
} kiln__channel_result;

/* Sends a frame that kiln__frame_begin and put made. Raises no SIGPIPE. After anything but DONE a part of it may
 * have been sent. */
kiln__channel_result kiln__channel_send(int fd, const kiln__text *frame, uint64_t deadline_ns);

/* A frame and the bytes it points into. Zero-initialised is empty. */
typedef struct kiln__message {
    void *bytes;
    kiln__frame frame;
    kiln__frame_fault fault; /* where it was MALFORMED */
} kiln__message;

/* Receives one frame whose body has at most `limit` bytes, which is checked before there is memory for it. The
 * caller frees *out with kiln__message_fini, also on failure. */
kiln__channel_result kiln__channel_receive(int fd, uint32_t limit, uint64_t deadline_ns, kiln__message *out);
void kiln__message_fini(kiln__message *message);

#endif
