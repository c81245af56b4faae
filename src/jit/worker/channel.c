#include "jit/worker/channel.h"

#include "base/alloc.h"
#include "os/cpu.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* Milliseconds until a deadline, rounded up, as poll takes them. */
static int time_left(uint64_t deadline_ns)
{
    if (deadline_ns == KILN__CHANNEL_FOREVER)
        return -1;
    uint64_t now = kiln__cpu_now_ns();
    uint64_t left_ms = deadline_ns > now ? (deadline_ns - now + 999999) / 1000000 : 0;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

static kiln__channel_result wait_for(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd wanted = { fd, events, 0 };
    for (;;) {
        int left_ms = time_left(deadline_ns);
        if (left_ms == 0)
            return KILN__CHANNEL_LATE;
        int ready = poll(&wanted, 1, left_ms);
        if (ready > 0)
            return KILN__CHANNEL_DONE; /* or gone: the next call tells */
        if (ready < 0 && errno != EINTR)
            return KILN__CHANNEL_CLOSED;
    }
}

/* After a call on the socket that failed: waits where it may be made again. */
static kiln__channel_result recover(int fd, int error, short events, uint64_t deadline_ns)
{
    if (error == EINTR)
        return KILN__CHANNEL_DONE;
    if (error == EAGAIN || error == EWOULDBLOCK)
        return wait_for(fd, events, deadline_ns);
    return error == ENOMEM || error == ENOBUFS ? KILN__CHANNEL_NO_MEMORY : KILN__CHANNEL_CLOSED;
}

kiln__channel_result kiln__channel_send(int fd, const kiln__text *frame, uint64_t deadline_ns)
{
    kiln__channel_result result = frame->failed ? KILN__CHANNEL_NO_MEMORY : KILN__CHANNEL_DONE;
    for (size_t sent = 0; result == KILN__CHANNEL_DONE && sent < frame->length;) {
        ssize_t count = send(fd, frame->data + sent, frame->length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0)
            sent += (size_t)count;
        else
            result = recover(fd, errno, POLLOUT, deadline_ns);
    }
    return result;
}

static kiln__channel_result receive_bytes(int fd, uint8_t *bytes, size_t length, uint64_t deadline_ns)
{
    kiln__channel_result result = KILN__CHANNEL_DONE;
    for (size_t got = 0; result == KILN__CHANNEL_DONE && got < length;) {
        ssize_t count = recv(fd, bytes + got, length - got, MSG_DONTWAIT);
        if (count > 0)
            got += (size_t)count;
        else
            result = count == 0 ? KILN__CHANNEL_CLOSED : recover(fd, errno, POLLIN, deadline_ns);
    }
    return result;
}

kiln__channel_result kiln__channel_receive(int fd, uint32_t limit, uint64_t deadline_ns, kiln__message *out)
{
    uint8_t header[KILN__FRAME_HEADER_SIZE];
    uint32_t body;
    memset(out, 0, sizeof(*out));
    kiln__channel_result result = receive_bytes(fd, header, sizeof(header), deadline_ns);
    if (result != KILN__CHANNEL_DONE)
        return result;
    out->fault = kiln__frame_check_header(header, limit, &body);
    if (out->fault != KILN__FRAME_GOOD)
        return KILN__CHANNEL_MALFORMED;
    uint8_t *bytes = out->bytes = kiln__alloc(sizeof(header) + (size_t)body);
    if (bytes == NULL)
        return KILN__CHANNEL_NO_MEMORY;
    memcpy(bytes, header, sizeof(header));
    result = receive_bytes(fd, bytes + sizeof(header), body, deadline_ns);
    if (result != KILN__CHANNEL_DONE)
        return result;
    out->fault = kiln__frame_decode(&out->frame, bytes, sizeof(header) + (size_t)body);
    return out->fault == KILN__FRAME_GOOD ? KILN__CHANNEL_DONE : KILN__CHANNEL_MALFORMED;
}

void kiln__message_fini(kiln__message *message)
{
    kiln__free(message->bytes);
    memset(message, 0, sizeof(*message));
}
