#include "jit/worker/frame.h"

#include "base/bytes.h"
#include <string.h>

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
    kiln__frame_put(out, tag, text, strlen(text) + 1);
}

/* ---- Reading */

const char *kiln__frame_fault_text(kiln__frame_fault fault)
{
    switch (fault) {
    case KILN__FRAME_GOOD:
        return "";
    case KILN__FRAME_MAGIC:
        return "it is no frame";
    case KILN__FRAME_OTHER:
        return "a frame of another version";
    case KILN__FRAME_LONG:
        return "a frame that is too long";
    case KILN__FRAME_LENGTH:
        return "a frame whose lengths are wrong";
    case KILN__FRAME_DISORDER:
        return "a frame with too many fields, or with fields twice or out of order";
    }
    return "an unknown fault";
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
