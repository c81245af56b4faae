/* Frames. The first byte says what the others are: bytes of a frame, the body of a frame whose header is made good,
 * or fields to encode. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "fuzz/fuzz.h"
#include "jit/daemon/protocol.h"
#include "jit/worker/frame.h"
#include "jit/worker/protocol.h"

static void require_same_form(const kiln__frame *frame, const uint8_t *bytes, size_t length)
{
    kiln__text again = { 0 };
    kiln__frame_begin(&again, frame->type);
    for (uint32_t i = 0; i < frame->count; i++)
        kiln__frame_put(&again, frame->fields[i].tag, frame->fields[i].data, frame->fields[i].length);
    FUZZ_REQUIRE(!again.failed && again.length == length && memcmp(again.data, bytes, length) == 0,
                 "a frame has one form");
    kiln__text_fini(&again);
}

static void require_sound(const kiln__frame *frame, const uint8_t *bytes, size_t length)
{
    for (uint32_t i = 0; i < frame->count; i++) {
        const kiln__frame_field *field = &frame->fields[i];
        const char *text = kiln__frame_get_text(frame, field->tag);
        FUZZ_REQUIRE(field->data >= bytes && field->length <= length &&
                         (size_t)(field->data - bytes) <= length - field->length,
                     "field %u lies in the frame", i);
        FUZZ_REQUIRE(kiln__frame_find(frame, field->tag) == field, "a field is found by its tag");
        FUZZ_REQUIRE(text == NULL || strlen(text) + 1 == field->length, "a text fills its field");
    }
}

/* What a host reads from a worker that a source has taken over, or from a daemon, and a daemon from a host. */
static void read_as_answer(const kiln__frame *frame)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__toolchain toolchain;
    kiln__image image;
    kiln__unit unit;
    kiln__key key;
    kiln_status status;
    const char *directory;
    bool no_memory;
    kiln__worker_get_toolchain(frame, &toolchain);
    kiln__worker_get_unit(frame, &unit);
    kiln__unit_fini_source(&unit);
    kiln__daemon_get_unit(frame, &unit);
    kiln__unit_fini_source(&unit);
    if (kiln__daemon_get_key(frame, &key))
        FUZZ_REQUIRE(memchr(key.toolchain, 0, sizeof(key.toolchain)) != NULL && strchr(key.toolchain, '/') == NULL,
                     "a toolchain is the part of a file's name");
    if (kiln__daemon_get_hello(frame, &directory))
        FUZZ_REQUIRE(directory[0] == '/', "a directory is absolute");
    if (kiln__worker_get_failure(frame, &status, &report))
        FUZZ_REQUIRE(status < KILN_OK && report.status == status && report.stage != NULL, "a failure is one");
    for (const char *c = report.log; c != NULL && *c != '\0'; c++)
        FUZZ_REQUIRE(*c == '\n' || *c == '\t' || ((unsigned char)*c >= 0x20 && *c != 0x7F), "a log is clean");
    if (kiln__worker_get_image(frame, &image, &toolchain, &no_memory)) {
        FUZZ_REQUIRE(image.toolchain[0] != '\0' && image.ptx_length == (image.ptx != NULL ? strlen(image.ptx) : 0),
                     "an image is whole");
        kiln__image_fini(&image);
    }
    kiln_report_clear(&report);
}

static void decode(const uint8_t *bytes, size_t length)
{
    kiln__frame frame;
    kiln__frame_fault fault = kiln__frame_decode(&frame, bytes, length);
    FUZZ_REQUIRE((fault == KILN__FRAME_GOOD) == (kiln__frame_fault_text(fault)[0] == '\0'), "a fault has a text");
    if (fault != KILN__FRAME_GOOD) {
        FUZZ_REQUIRE(frame.count == 0 && frame.type == 0, "a refused frame is empty");
        return;
    }
    require_same_form(&frame, bytes, length);
    require_sound(&frame, bytes, length);
    read_as_answer(&frame);
}

static void decode_body(const uint8_t *body, size_t size)
{
    kiln__text frame = { 0 };
    kiln__frame_begin(&frame, 101);
    kiln__text_append_bytes(&frame, body, size);
    FUZZ_REQUIRE(!frame.failed, "out of memory");
    kiln__write_u32((uint8_t *)frame.data + 8, (uint32_t)size);
    uint8_t *exact = kiln__memdup(frame.data, frame.length);
    FUZZ_REQUIRE(exact != NULL, "out of memory");
    decode(exact, frame.length);
    kiln__free(exact);
    kiln__text_fini(&frame);
}

/* Each field: how far its tag is from the one before, its length, its bytes. */
static void encode(const uint8_t *data, size_t size)
{
    kiln__text text = { 0 };
    kiln__frame frame;
    uint32_t count = 0, tag = 0;
    kiln__frame_begin(&text, 7);
    while (size >= 2 && count < KILN__FRAME_FIELDS_MAX) {
        size_t length = data[1] < size - 2 ? data[1] : size - 2;
        tag += data[0] + (count > 0 && data[0] == 0);
        kiln__frame_put(&text, (uint16_t)tag, data + 2, length);
        data += length + 2;
        size -= length + 2;
        count++;
    }
    FUZZ_REQUIRE(kiln__frame_decode(&frame, text.data, text.length) == KILN__FRAME_GOOD, "what encodes decodes");
    FUZZ_REQUIRE(frame.type == 7 && frame.count == count, "type and fields come back");
    kiln__text_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return -1;
    switch (data[0] % 3) {
    case 0:
        decode(data + 1, size - 1);
        break;
    case 1:
        decode_body(data + 1, size - 1);
        break;
    default:
        encode(data + 1, size - 1);
    }
    return 0;
}
