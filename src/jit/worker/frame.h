/* Frames: the one form in which Kiln's processes talk to each other, and channels, which send and receive them.
 *
 * A header of 12 bytes (the magic "KLNF", u16 version, u16 type, u32 length of the body), then the body: fields,
 * each a u16 tag, a u32 length and that many bytes. Little endian. Tags ascend and none comes twice, so that a
 * message has one form. */
#ifndef KILN_JIT_WORKER_FRAME_H
#define KILN_JIT_WORKER_FRAME_H

#include "base/text.h"
#include <stdint.h>

enum {
    KILN__FRAME_VERSION = 1,
    KILN__FRAME_HEADER_SIZE = 12,
    KILN__FRAME_FIELD_SIZE = 6, /* tag and length */
    KILN__FRAME_FIELDS_MAX = 32
};

/* ---- Making, pure: begin, then put in ascending order of tags; out->failed tells if it went wrong */

/* Begins a frame in an empty text. It is whole after each put. */
void kiln__frame_begin(kiln__text *out, uint16_t type);
void kiln__frame_put(kiln__text *out, uint16_t tag, const void *bytes, size_t length);
void kiln__frame_put_u32(kiln__text *out, uint16_t tag, uint32_t value);
void kiln__frame_put_u64(kiln__text *out, uint16_t tag, uint64_t value);
/* With the NUL, so that the receiver need not copy it. A NULL is left out. */
void kiln__frame_put_text(kiln__text *out, uint16_t tag, const char *text);

/* ---- Reading, pure */

typedef struct kiln__frame_field {
    uint16_t tag;
    uint32_t length;
    const uint8_t *data;
} kiln__frame_field;

/* Points into the bytes that were decoded. */
typedef struct kiln__frame {
    uint16_t type;
    uint32_t count;
    kiln__frame_field fields[KILN__FRAME_FIELDS_MAX];
} kiln__frame;

typedef enum kiln__frame_fault {
    KILN__FRAME_GOOD,
    KILN__FRAME_MAGIC,   /* these bytes are no frame */
    KILN__FRAME_OTHER,   /* of another version */
    KILN__FRAME_LONG,    /* a body above the limit */
    KILN__FRAME_LENGTH,  /* header and bytes disagree, or a field goes beyond its frame */
    KILN__FRAME_DISORDER /* a tag twice or out of order, or too many fields */
} kiln__frame_fault;

/* "" for a good frame, else what is wrong with it. */
const char *kiln__frame_fault_text(kiln__frame_fault fault);

/* Checks a header and gives the length of the body behind it, at most `limit`. */
kiln__frame_fault kiln__frame_check_header(const uint8_t header[KILN__FRAME_HEADER_SIZE], uint32_t limit,
                                           uint32_t *body);

/* Decodes a whole frame without copying; empty unless good. */
kiln__frame_fault kiln__frame_decode(kiln__frame *out, const void *bytes, size_t length);

/* The field with a tag, or NULL. */
const kiln__frame_field *kiln__frame_find(const kiln__frame *frame, uint16_t tag);

/* False if there is no such field or it has another length. */
bool kiln__frame_get_u32(const kiln__frame *frame, uint16_t tag, uint32_t *out);
bool kiln__frame_get_u64(const kiln__frame *frame, uint16_t tag, uint64_t *out);

/* The text of a field, borrowed; NULL if there is no such field or its one NUL is not at its end. */
const char *kiln__frame_get_text(const kiln__frame *frame, uint16_t tag);

/* ---- Channels: frames on a stream socket. Each call blocks until it is done, the other end has gone or a deadline has
 * passed; one thread at a time for each direction. Deadlines are kiln__cpu_now_ns, KILN__CHANNEL_FOREVER for none. */

#define KILN__CHANNEL_FOREVER UINT64_MAX

typedef enum kiln__channel_result {
    KILN__CHANNEL_DONE,
    KILN__CHANNEL_CLOSED,    /* the other end has gone, be it in the middle of a frame */
    KILN__CHANNEL_LATE,      /* the deadline has passed */
    KILN__CHANNEL_MALFORMED, /* the bytes are no frame; the stream is of no further use */
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
