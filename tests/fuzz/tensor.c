/* Shapes and strides of tensors. The input is the number of outputs and of inputs, then for each tensor its dimensions,
 * whether it has strides, its address, and its numbers, a byte each or, behind 0x80, eight. */
#include "fuzz/fuzz.h"
#include "support/loops.h"

enum { DIMS = 12 };

static const uint8_t *at, *end;

static uint8_t take_byte(void)
{
    return at < end ? *at++ : 0;
}

static int64_t take_number(void)
{
    uint8_t first = take_byte();
    uint64_t number = 0;
    if (first != 0x80)
        return (int8_t)first;
    for (int i = 0; i < 8; i++)
        number = number << 8 | take_byte();
    return (int64_t)number;
}

typedef struct sample {
    int64_t shape[DIMS], strides[DIMS];
} sample;

static void take_tensor(kiln_tensor *out, sample *room)
{
    out->ndim = take_byte() % (DIMS + 1);
    out->dtype = (kiln_dtype)(1 + take_byte() % KILN_BOOL);
    uint8_t flags = take_byte();
    out->data = (void *)(uintptr_t)((flags & 2) != 0 ? 0x100000 : (uint64_t)take_number() * 64);
    for (uint32_t d = 0; d < out->ndim; d++) {
        room->shape[d] = take_number();
        room->strides[d] = (flags & 1) != 0 ? take_number() : 0;
    }
    out->shape = room->shape;
    out->strides = (flags & 1) != 0 ? room->strides : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static loops_place expected[LOOPS_COUNT_MAX], got[LOOPS_COUNT_MAX];
    kiln_tensor outs[8], ins[8];
    sample out_room[8], in_room[8];
    kiln_report report = KILN_INIT(kiln_report);
    kiln__loop loop;
    at = data;
    end = data + size;
    size_t out_count = take_byte() % 9, in_count = take_byte() % 9;
    for (size_t k = 0; k < out_count; k++)
        take_tensor(&outs[k], &out_room[k]);
    for (size_t k = 0; k < in_count; k++)
        take_tensor(&ins[k], &in_room[k]);
    bool placed = take_byte() % 2 == 0;
    kiln_status status = kiln__loop_make(&loop, outs, out_count, ins, in_count, placed, &report);
    FUZZ_REQUIRE(status == report.status && (status == KILN_OK || report.message[0] != '\0'), "a refusal says why");
    if (status != KILN_OK || loop.count > LOOPS_COUNT_MAX)
        return 0;
    FUZZ_REQUIRE(loops_of_tensors(expected, outs, out_count, ins, in_count) == loop.count, "the count");
    loops_of_loop(got, &loop);
    FUZZ_REQUIRE(memcmp(got, expected, loop.count * sizeof(got[0])) == 0, "the places");
    FUZZ_REQUIRE(!loops_merge(&loop), "dimensions are merged");
    FUZZ_REQUIRE(loops_kind_holds(&loop), "the kind");
    return 0;
}
