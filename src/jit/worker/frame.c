/* Frames in bytes, and on a socket. */
#include "jit/worker/frame.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "os/cpu.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { AT_VERSION = 4, AT_TYPE = 6, AT_LENGTH = 8 };
static const uint8_t magic[4] = { 'K', 'L', 'N', 'F' };

/* ---- Making */

void kiln__frame_begin(kiln__text *out, uint16_t type)
{
    uint8_t header[KILN__FRAME_HEADER_SIZE] = { 0 };
    memcpy(header, magic, sizeof(magic));
    kiln__write_u16(header + AT_VERSION, KILN__FRAME_VERSION);
    kiln__write_u16(header + AT_TYPE, type);
    kiln__text_append_bytes(out, header, sizeof(header));
}

void kiln__frame_put(kiln__text *out, uint16_t tag, const void *bytes, size_t length)
{
    uint8_t head[KILN__FRAME_FIELD_SIZE];
    if (length > UINT32_MAX || out->length > UINT32_MAX - length)
        out->failed = true;
    kiln__write_u16(head, tag);
    kiln__write_u32(head + 2, (uint32_t)length);
    kiln__text_append_bytes(out, head, sizeof(head));
    kiln__text_append_bytes(out, bytes, length);
    if (!out->failed)
        kiln__write_u32((uint8_t *)out->data + AT_LENGTH, (uint32_t)(out->length - KILN__FRAME_HEADER_SIZE));
}

void kiln__frame_put_u32(kiln__text *out, uint16_t tag, uint32_t value)
{
    uint8_t bytes[4];
    kiln__write_u32(bytes, value);
    kiln__frame_put(out, tag, bytes, sizeof(bytes));
}

void kiln__frame_put_u64(kiln__text *out, uint16_t tag, uint64_t value)
{
    uint8_t bytes[8];
    kiln__write_u64(bytes, value);
    kiln__frame_put(out, tag, bytes, sizeof(bytes));
}

void kiln__frame_put_text(kiln__text *out, uint16_t tag, const char *text)
{
    if (text != NULL)
        kiln__frame_put(out, tag, text, strlen(text) + 1);
}

/* ---- Reading */

const char *kiln__frame_fault_text(kiln__frame_fault fault)
{
    static const char *const texts[] = { [KILN__FRAME_GOOD] = "",
                                         [KILN__FRAME_MAGIC] = "it is no frame",
                                         [KILN__FRAME_OTHER] = "a frame of another version",
                                         [KILN__FRAME_LONG] = "a frame that is too long",
                                         [KILN__FRAME_LENGTH] = "a frame whose lengths are wrong",
                                         [KILN__FRAME_DISORDER] =
                                             "a frame with too many fields, or with fields twice or out of order" };
    return texts[fault];
}

kiln__frame_fault kiln__frame_check_header(const uint8_t header[KILN__FRAME_HEADER_SIZE], uint32_t limit,
                                           uint32_t *body)
{
    *body = 0;
    if (memcmp(header, magic, sizeof(magic)) != 0)
        return KILN__FRAME_MAGIC;
    if (kiln__read_u16(header + AT_VERSION) != KILN__FRAME_VERSION)
        return KILN__FRAME_OTHER;
    uint32_t length = kiln__read_u32(header + AT_LENGTH);
    if (length > limit)
        return KILN__FRAME_LONG;
    *body = length;
    return KILN__FRAME_GOOD;
}

static kiln__frame_fault take_field(kiln__frame *frame, const uint8_t **at, size_t *left)
{
    kiln__frame_field field;
    if (*left < KILN__FRAME_FIELD_SIZE)
        return KILN__FRAME_LENGTH;
    field.tag = kiln__read_u16(*at);
    field.length = kiln__read_u32(*at + 2);
    field.data = *at + KILN__FRAME_FIELD_SIZE;
    *left -= KILN__FRAME_FIELD_SIZE;
    if (field.length > *left)
        return KILN__FRAME_LENGTH;
    if (frame->count == KILN__FRAME_FIELDS_MAX ||
        (frame->count > 0 && frame->fields[frame->count - 1].tag >= field.tag))
        return KILN__FRAME_DISORDER;
    frame->fields[frame->count++] = field;
    *at = field.data + field.length;
    *left -= field.length;
    return KILN__FRAME_GOOD;
}

kiln__frame_fault kiln__frame_decode(kiln__frame *out, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    uint32_t body;
    out->type = 0;
    out->count = 0;
    if (length < KILN__FRAME_HEADER_SIZE)
        return KILN__FRAME_LENGTH;
    kiln__frame_fault fault = kiln__frame_check_header(at, UINT32_MAX, &body);
    if (fault == KILN__FRAME_GOOD && body != length - KILN__FRAME_HEADER_SIZE)
        fault = KILN__FRAME_LENGTH;
    if (fault == KILN__FRAME_GOOD)
        out->type = kiln__read_u16(at + AT_TYPE);
    size_t left = length - KILN__FRAME_HEADER_SIZE;
    at += KILN__FRAME_HEADER_SIZE;
    while (fault == KILN__FRAME_GOOD && left > 0)
        fault = take_field(out, &at, &left);
    if (fault != KILN__FRAME_GOOD) {
        out->type = 0;
        out->count = 0;
    }
    return fault;
}

const kiln__frame_field *kiln__frame_find(const kiln__frame *frame, uint16_t tag)
{
    for (uint32_t i = 0; i < frame->count; i++)
        if (frame->fields[i].tag == tag)
            return &frame->fields[i];
    return NULL;
}

bool kiln__frame_get_u32(const kiln__frame *frame, uint16_t tag, uint32_t *out)
{
    const kiln__frame_field *field = kiln__frame_find(frame, tag);
    if (field == NULL || field->length != 4)
        return false;
    *out = kiln__read_u32(field->data);
    return true;
}

bool kiln__frame_get_u64(const kiln__frame *frame, uint16_t tag, uint64_t *out)
{
    const kiln__frame_field *field = kiln__frame_find(frame, tag);
    if (field == NULL || field->length != 8)
        return false;
    *out = kiln__read_u64(field->data);
    return true;
}

const char *kiln__frame_get_text(const kiln__frame *frame, uint16_t tag)
{
    const kiln__frame_field *field = kiln__frame_find(frame, tag);
    if (field == NULL || field->length == 0 || memchr(field->data, 0, field->length) != field->data + field->length - 1)
        return NULL;
    return (const char *)field->data;
}

/* ---- Channels */

/* Milliseconds until a deadline, rounded up, as poll takes them. */
static int time_left(uint64_t deadline_ns)
{
    if (deadline_ns == KILN__CHANNEL_FOREVER)
        return -1;
    uint64_t now = kiln__cpu_now_ns();
    uint64_t left_ms = deadline_ns > now ? (deadline_ns - now + 999999) / 1000000 : 0;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

/* After a call on the socket that failed: waits until it may be made again, where it may. */
static kiln__channel_result recover(int fd, int error, short events, uint64_t deadline_ns)
{
    struct pollfd wanted = { fd, events, 0 };
    if (error == EINTR)
        return KILN__CHANNEL_DONE;
    if (error == ENOMEM || error == ENOBUFS)
        return KILN__CHANNEL_NO_MEMORY;
    while (error == EAGAIN || error == EWOULDBLOCK || error == EINTR) {
        int left_ms = time_left(deadline_ns);
        if (left_ms == 0)
            return KILN__CHANNEL_LATE;
        int ready = poll(&wanted, 1, left_ms);
        if (ready > 0)
            return KILN__CHANNEL_DONE; /* or gone: the next call tells */
        error = ready == 0 ? EAGAIN : errno;
    }
    return KILN__CHANNEL_CLOSED;
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
