/* Loops of tensors, against an oracle that visits every index. */
#include "support/loops.h"
#include "support/suites.h"
#include <kiln/kiln.h>

enum { CASES = 20000, KINDS = KILN__LOOP_CROSSED + 1, REFUSED = KINDS };

static kiln_report report = KILN_INIT(kiln_report);
static loops_place expected[LOOPS_COUNT_MAX], got[LOOPS_COUNT_MAX];

/* A tensor with room for its shape and strides. */
typedef struct sample {
    int64_t shape[8], strides[8];
} sample;

static void *memory_at(uint64_t element)
{
    return (void *)(uintptr_t)(0x10000000 + 8 * element);
}

/* Strides in elements of a tensor whose dimensions lie in a random order in memory, some with a gap. */
static void permute(const int64_t *shape, uint32_t ndim, int64_t *strides)
{
    uint32_t order[8];
    int64_t stride = 1;
    for (uint32_t d = 0; d < ndim; d++) {
        uint32_t j = (uint32_t)loops_draw(d + 1);
        order[d] = order[j];
        order[j] = d;
    }
    for (uint32_t i = 0; i < ndim; i++) {
        if (loops_draw(6) == 0)
            stride += (int64_t)loops_draw(3);
        strides[order[i]] = stride;
        stride *= shape[order[i]];
    }
}

/* Some are matrices that are large enough for tiles. */
static void draw_output(kiln_tensor *out, sample *room, const kiln_tensor *first)
{
    const bool large = loops_draw(16) == 0;
    out->ndim = first != NULL ? first->ndim : large ? 2 : (uint32_t)loops_draw(5);
    for (uint32_t d = 0; d < out->ndim; d++)
        room->shape[d] = first != NULL         ? first->shape[d]
                         : large               ? (int64_t)(10 + loops_draw(30))
                         : loops_draw(40) == 0 ? 0
                                               : (int64_t)(1 + loops_draw(5));
    out->shape = room->shape;
    permute(room->shape, out->ndim, room->strides);
    out->strides = loops_draw(3) == 0 ? NULL : room->strides;
}

static void draw_input(kiln_tensor *in, sample *room, const kiln_tensor *out)
{
    in->ndim = loops_draw(4) == 0 ? (uint32_t)loops_draw(out->ndim + 1) : out->ndim;
    for (uint32_t d = 0; d < in->ndim; d++)
        room->shape[d] = loops_draw(4) == 0 ? 1 : out->shape[out->ndim - in->ndim + d];
    permute(room->shape, in->ndim, room->strides);
    for (uint32_t d = 0; d < in->ndim; d++) {
        room->strides[d] = loops_draw(12) == 0 ? 0 : loops_draw(12) == 0 ? -room->strides[d] : room->strides[d];
        if (out->strides != NULL && in->ndim == out->ndim && loops_draw(2) == 0)
            room->strides[d] = out->strides[d];
    }
    in->shape = room->shape;
    in->strides = loops_draw(3) == 0 ? NULL : room->strides;
}

/* Every element of the tensors as a byte range: whether outputs share bytes with another operand, other than as the
 * same element, or with themselves. */
static bool truly_overlap(const kiln_tensor *const *tensors, size_t outputs, size_t operands, size_t count)
{
    for (size_t i = 0; i < outputs; i++)
        for (size_t j = i; j < operands; j++)
            for (size_t a = 0; a < count; a++)
                for (size_t b = 0; b < count; b++) {
                    bool same = a == b && (i == j || j >= outputs);
                    uintptr_t one = (uintptr_t)tensors[i]->data + 8 * (uintptr_t)expected[a].at[i];
                    uintptr_t other = (uintptr_t)tensors[j]->data + 8 * (uintptr_t)expected[b].at[j];
                    if (!same && one == other)
                        return true;
                }
    return false;
}

static int check_case(const kiln_tensor *outs, size_t out_count, const kiln_tensor *ins, size_t in_count)
{
    const kiln_tensor *tensors[KILN__OPERANDS_MAX];
    kiln__loop loop;
    for (size_t k = 0; k < out_count + in_count; k++)
        tensors[k] = k < out_count ? &outs[k] : &ins[k - out_count];
    size_t count = loops_of_tensors(expected, outs, out_count, ins, in_count);
    kiln_status status = kiln__loop_make(&loop, outs, out_count, ins, in_count, true, &report);
    if (status == KILN_EOVERLAP)
        return REFUSED;
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    ck_assert_uint_eq(loop.count, count);
    if (count <= 64)
        ck_assert(!truly_overlap(tensors, out_count, out_count + in_count, count));
    ck_assert_uint_eq(loops_of_loop(got, &loop), count);
    ck_assert_int_eq(memcmp(got, expected, count * sizeof(got[0])), 0);
    ck_assert(!loops_merge(&loop));
    ck_assert(loops_kind_holds(&loop));
    for (uint32_t d = 0; d < loop.dims; d++) {
        ck_assert_int_gt(loop.extent[d], 1);
        ck_assert(d == 0 || loop.kind == KILN__LOOP_CROSSED || loop.stride[0][d] > loop.stride[0][d - 1]);
    }
    return (int)loop.kind;
}

START_TEST(test_loop__random_tensors_are_visited_as_their_strides_say)
{
    uint32_t made[KINDS + 1] = { 0 };
    loops_state = 88172645463325252u + (uint64_t)_i;
    for (int i = 0; i < CASES; i++) {
        kiln_tensor outs[2], ins[3];
        sample out_room[2], in_room[3];
        size_t out_count = 1 + loops_draw(2), in_count = loops_draw(4);
        for (size_t k = 0; k < out_count; k++) {
            draw_output(&outs[k], &out_room[k], k > 0 ? &outs[0] : NULL);
            outs[k].dtype = KILN_F64;
            outs[k].data = memory_at(loops_draw(4) == 0 ? loops_draw(64) : 20000 * k);
        }
        for (size_t k = 0; k < in_count; k++) {
            draw_input(&ins[k], &in_room[k], &outs[0]);
            ins[k].dtype = KILN_I64;
            ins[k].data =
                loops_draw(4) == 0 ? outs[0].data : memory_at(loops_draw(6) == 0 ? loops_draw(300) : 20000 * (k + 2));
        }
        made[check_case(outs, out_count, ins, in_count)]++;
    }
    for (int kind = 0; kind < KINDS; kind++)
        ck_assert_uint_gt(made[kind], CASES / 1000);
    ck_assert_uint_lt(made[REFUSED], CASES / 2);
}
END_TEST

/* ---- Known loops */

/* A tensor of up to four dimensions; strides {0} stand for none. */
#define TENSOR(at, ndim, shape, strides)                                                                \
    {                                                                                                   \
        (void *)(uintptr_t)(at), NULL, KILN_F32, ndim, (const int64_t[])shape, (const int64_t[])strides \
    }
#define LIST(...)   \
    {               \
        __VA_ARGS__ \
    }
#define DENSE(at, ndim, shape)                                                      \
    {                                                                               \
        (void *)(uintptr_t)(at), NULL, KILN_F32, ndim, (const int64_t[])shape, NULL \
    }

static kiln__loop make(const kiln_tensor *out, const kiln_tensor *ins, size_t in_count)
{
    kiln__loop loop;
    kiln_status status = kiln__loop_make(&loop, out, 1, ins, in_count, true, &report);
    ck_assert_msg(status == KILN_OK, "%s", report.message);
    return loop;
}

START_TEST(test_loop__contiguous_tensors_are_flat)
{
    const kiln_tensor out = DENSE(0x10000, 3, LIST(2, 3, 4));
    const kiln_tensor ins[] = { DENSE(0x20000, 3, LIST(2, 3, 4)), TENSOR(0x30000, 3, LIST(2, 3, 4), LIST(12, 4, 1)) };
    kiln__loop loop = make(&out, ins, 2);
    ck_assert_int_eq(loop.kind, KILN__LOOP_FLAT);
    ck_assert_uint_eq(loop.dims, 1);
    ck_assert_uint_eq(loop.count, 24);
    ck_assert_uint_eq(loop.span, 23);
}
END_TEST

/* As a batch of images with the channels last. */
START_TEST(test_loop__equally_permuted_tensors_are_flat)
{
    const kiln_tensor out = TENSOR(0x10000, 4, LIST(2, 3, 4, 5), LIST(60, 1, 15, 3));
    const kiln_tensor in = TENSOR(0x20000, 4, LIST(2, 3, 4, 5), LIST(60, 1, 15, 3));
    kiln__loop loop = make(&out, &in, 1);
    ck_assert_int_eq(loop.kind, KILN__LOOP_FLAT);
    ck_assert_uint_eq(loop.dims, 1);
}
END_TEST

START_TEST(test_loop__rows_columns_and_elements)
{
    const kiln_tensor out = DENSE(0x10000, 3, LIST(2, 3, 4));
    const kiln_tensor ins[] = { DENSE(0x20000, 3, LIST(2, 3, 4)), DENSE(0x30000, 1, LIST(4)),
                                DENSE(0x40000, 3, LIST(2, 3, 1)), DENSE(0x50000, 0, LIST(0)) };
    kiln__loop loop = make(&out, ins, 4);
    ck_assert_int_eq(loop.kind, KILN__LOOP_ROWS);
    ck_assert_uint_eq(loop.dims, 2);
    ck_assert_int_eq(loop.extent[0], 4);
    ck_assert_int_eq(loop.extent[1], 6);
    ck_assert_int_eq(loop.layouts[1], KILN__LAYOUT_FULL);
    ck_assert_int_eq(loop.layouts[2], KILN__LAYOUT_ROW);
    ck_assert_int_eq(loop.layouts[3], KILN__LAYOUT_COLUMN);
    ck_assert_int_eq(loop.layouts[4], KILN__LAYOUT_ONE);
}
END_TEST

START_TEST(test_loop__a_transposed_input_is_strided)
{
    const kiln_tensor out = DENSE(0x10000, 2, LIST(8, 4));
    const kiln_tensor in = TENSOR(0x20000, 2, LIST(8, 4), LIST(1, 8));
    kiln__loop loop = make(&out, &in, 1);
    ck_assert_int_eq(loop.kind, KILN__LOOP_STRIDED);
    ck_assert_uint_eq(loop.dims, 2);
    ck_assert_int_eq(loop.stride[1][0], 8);
    ck_assert_int_eq(loop.stride[1][1], 1);
}
END_TEST

/* The dimension along which the input is contiguous becomes the second one. */
START_TEST(test_loop__a_large_transposed_input_is_crossed)
{
    const kiln_tensor out = DENSE(0x100000, 3, LIST(16, 20, 32));
    const kiln_tensor ins[] = { TENSOR(0x200000, 3, LIST(16, 20, 32), LIST(1, 16, 320)),
                                TENSOR(0x300000, 3, LIST(16, 20, 32), LIST(700, 40, 2)) };
    kiln__loop loop = make(&out, ins, 2);
    ck_assert_int_eq(loop.kind, KILN__LOOP_CROSSED);
    ck_assert_uint_eq(loop.dims, 3);
    ck_assert_int_eq(loop.extent[1], 16);
    ck_assert_int_eq(loop.extent[2], 20);
    ck_assert_int_eq(loop.layouts[0], KILN__LAYOUT_UNIT);
    ck_assert_int_eq(loop.layouts[1], KILN__LAYOUT_CROSS);
    ck_assert_int_eq(loop.layouts[2], KILN__LAYOUT_ANY);
}
END_TEST

/* Bytes have tiles of 128 x 132 elements, of which 48 KiB hold two. */
START_TEST(test_loop__tiles_fit_the_shared_memory)
{
    const int64_t shape[] = { 64, 64 }, turned[] = { 1, 64 };
    kiln_tensor tensors[4];
    kiln__loop loop;
    for (uint64_t k = 0; k < 4; k++)
        tensors[k] = (kiln_tensor){ memory_at(0x10000 * k), NULL, KILN_U8, 2, shape, k > 0 ? turned : NULL };
    ck_assert_int_eq(kiln__loop_make(&loop, tensors, 1, tensors + 1, 3, true, &report), KILN_OK);
    ck_assert_int_eq(loop.kind, KILN__LOOP_CROSSED);
    ck_assert_int_eq(loop.layouts[1], KILN__LAYOUT_CROSS);
    ck_assert_int_eq(loop.layouts[2], KILN__LAYOUT_CROSS);
    ck_assert_int_eq(loop.layouts[3], KILN__LAYOUT_ANY);
}
END_TEST

START_TEST(test_loop__an_extent_of_0_is_empty)
{
    const kiln_tensor out = DENSE(0, 2, LIST(0, 4));
    const kiln_tensor ins[] = { DENSE(0, 2, LIST(1, 4)), DENSE(0, 2, LIST(0, 1)) };
    kiln__loop loop = make(&out, ins, 2);
    ck_assert_uint_eq(loop.count, 0);
    ck_assert_int_eq(loop.kind, KILN__LOOP_FLAT);
}
END_TEST

START_TEST(test_loop__without_data_only_shapes_count)
{
    const kiln_tensor out = DENSE(0, 1, LIST(4)), in = DENSE(0, 1, LIST(4));
    kiln__loop loop;
    ck_assert_int_eq(kiln__loop_make(&loop, &out, 1, &in, 1, false, &report), KILN_OK);
    ck_assert_int_eq(kiln__loop_make(&loop, &out, 1, &in, 1, true, &report), KILN_EINVAL);
}
END_TEST

/* ---- Refusals */

#define HUGE_EXTENT (INT64_C(1) << 40)

static const struct {
    kiln_tensor out, in;
    kiln_status status;
    const char *message;
} refusals[] = {
    { DENSE(0x10000, 2, LIST(2, 4)), DENSE(0x20000, 2, LIST(2, 3)), KILN_EINVAL,
      "tensor x: extent 3 of dimension 1 does not broadcast to the 4 of out" },
    { DENSE(0x10000, 1, LIST(4)), DENSE(0x20000, 2, LIST(2, 4)), KILN_EINVAL,
      "tensor x has 2 dimensions, and out has 1" },
    { DENSE(0x10000, 1, LIST(1)), DENSE(0x20000, 1, LIST(4)), KILN_EINVAL,
      "tensor x: extent 4 of dimension 0 does not broadcast to the 1 of out" },
    { DENSE(0x10000, 1, LIST(-1)), DENSE(0x20000, 1, LIST(4)), KILN_EINVAL,
      "tensor out: extent -1 of dimension 0 is below 0" },
    { DENSE(0x10000, 33, LIST(1)), DENSE(0x20000, 1, LIST(4)), KILN_EINVAL,
      "tensor out has 33 dimensions, more than 32" },
    { { (void *)0x1000, NULL, KILN_F32, 2, NULL, NULL },
      DENSE(0x20000, 1, LIST(4)),
      KILN_EINVAL,
      "tensor out has 2 dimensions, and its shape is NULL" },
    { { (void *)0x1000, NULL, KILN_DTYPE_NONE, 0, NULL, NULL },
      DENSE(0x20000, 0, LIST(4)),
      KILN_EINVAL,
      "tensor out: dtype 0 is none of kiln_dtype" },
    { DENSE(0x10000, 1, LIST(4)),
      { (void *)0x20000, NULL, (kiln_dtype)1000000, 0, NULL, NULL },
      KILN_EINVAL,
      "tensor x: dtype 1000000 is none of kiln_dtype" },
    { DENSE(0x10000, 1, LIST(4)),
      { (void *)0x20000, NULL, (kiln_dtype)-1, 0, NULL, NULL },
      KILN_EINVAL,
      "tensor x: dtype -1 is none of kiln_dtype" },
    { DENSE(0x10001, 1, LIST(4)), DENSE(0x20000, 1, LIST(4)), KILN_EALIGN,
      "tensor out is not aligned to its elements of 4 bytes" },
    { DENSE(0, 1, LIST(4)), DENSE(0x20000, 1, LIST(4)), KILN_EINVAL, "tensor out: data is NULL" },
    { TENSOR(0x10000, 1, LIST(4), LIST(-1)), DENSE(0x20000, 1, LIST(4)), KILN_EINVAL,
      "tensor out has a stride of -1: only inputs may have one below 0" },
    { TENSOR(0x10000, 2, LIST(4, 4), LIST(0, 1)), DENSE(0x20000, 1, LIST(4)), KILN_EOVERLAP,
      "tensor out is written, and its strides let elements overlap" },
    { TENSOR(0x10000, 2, LIST(4, 4), LIST(3, 1)), DENSE(0x20000, 1, LIST(4)), KILN_EOVERLAP,
      "tensor out is written, and its strides let elements overlap" },
    { DENSE(0x10000, 1, LIST(4)), DENSE(0x10004, 1, LIST(4)), KILN_EOVERLAP,
      "tensors out and x overlap: an output may be an input of the same data and strides, or must be apart" },
    { TENSOR(0x10000, 1, LIST(4), LIST(2)), TENSOR(0x10004, 1, LIST(4), LIST(2)), KILN_EOVERLAP,
      "tensors out and x overlap: an output may be an input of the same data and strides, or must be apart" },
    { DENSE(0x10000, 1, LIST(4)), TENSOR(0x10000, 1, LIST(4), LIST(0)), KILN_EOVERLAP,
      "tensors out and x overlap: an output may be an input of the same data and strides, or must be apart" },
    { DENSE(0x10000, 2, LIST(HUGE_EXTENT, HUGE_EXTENT)), DENSE(0x20000, 1, LIST(1)), KILN_EINVAL,
      "tensor out is larger than any memory" },
    { DENSE(0x10000, 1, LIST(HUGE_EXTENT)), TENSOR(0x20000, 1, LIST(HUGE_EXTENT), LIST(HUGE_EXTENT)), KILN_EINVAL,
      "tensor x: its strides reach beyond any memory" },
    { DENSE(0x10000, 1, LIST(4)), TENSOR(0x20000, 1, LIST(4), LIST(INT64_MIN)), KILN_EINVAL,
      "tensor x: its strides reach beyond any memory" },
    { DENSE(0x10000, 1, LIST(4)), TENSOR(8, 1, LIST(4), LIST(-1)), KILN_EINVAL,
      "tensor x: its strides reach beyond any memory" },
};

START_TEST(test_loop__refusals_name_the_tensor_and_the_reason)
{
    kiln__loop loop;
    kiln_status status = kiln__loop_make(&loop, &refusals[_i].out, 1, &refusals[_i].in, 1, true, &report);
    ck_assert_str_eq(report.message, refusals[_i].message);
    ck_assert_int_eq(status, refusals[_i].status);
    ck_assert_str_eq(report.stage, "launch");
}
END_TEST

START_TEST(test_loop__counts_outputs_and_dimensions_have_limits)
{
    const int64_t shape[] = { 2, 2, 2, 2, 2, 2, 2, 2, 2 }, strides[] = { 65536, 16384, 4096, 1024, 256, 64, 16, 4, 1 };
    kiln_tensor tensors[9];
    kiln__loop loop;
    for (size_t k = 0; k < 9; k++)
        tensors[k] = (kiln_tensor){ memory_at(1000000 * k), NULL, KILN_F32, 9, shape, strides };
    ck_assert_int_eq(kiln__loop_make(&loop, tensors, 1, tensors + 1, 1, true, &report), KILN_EINVAL);
    ck_assert_ptr_nonnull(strstr(report.message, "9 dimensions that do not merge, and a kernel has at most 8"));
    ck_assert_int_eq(kiln__loop_make(&loop, tensors, 9, tensors, 0, true, &report), KILN_EINVAL);
    ck_assert_int_eq(kiln__loop_make(&loop, tensors, 1, tensors, 9, true, &report), KILN_EINVAL);
    ck_assert_int_eq(kiln__loop_make(&loop, tensors, 0, tensors, 1, true, &report), KILN_EINVAL);
    for (size_t k = 0; k < 9; k++)
        tensors[k] = (kiln_tensor){ memory_at(0), NULL, KILN_F32, 1, shape, NULL };
    ck_assert_int_eq(kiln__loop_make(&loop, tensors, 2, tensors, 1, true, &report), KILN_EOVERLAP);
    ck_assert_str_eq(report.message, "tensors out0 and out1 overlap: outputs must not share memory");
}
END_TEST

static const struct {
    uint32_t dims;
    uint64_t n;
    int64_t extents[3];
} shapes[] = {
    { 1, 4096, { 4096 } },      { 2, 4096, { 64, 64 } },     { 2, 1000, { 1000, 1 } }, { 2, 4000, { 2000, 2 } },
    { 2, 1 << 11, { 64, 32 } }, { 3, 4096, { 16, 16, 16 } }, { 3, 1, { 1, 1, 1 } },    { 2, 0, { 0, 1 } },
};

/* Arrays without gaps, so that every offset below n is that of one element. */
START_TEST(test_loop__a_launch_without_tensors_has_the_layout_of_its_kernel)
{
    static const kiln__layout words[] = { KILN__LAYOUT_UNIT, KILN__LAYOUT_ANY, KILN__LAYOUT_CROSS, KILN__LAYOUT_SAME };
    kiln__plan plan = { .dims = shapes[_i].dims, .outputs = 2, .inputs = 2, .arg_count = 4 };
    kiln__loop loop;
    for (uint32_t k = 0; k < 4; k++) {
        plan.args[k].role = k < 2 ? KILN__ARG_OUT : KILN__ARG_IN;
        plan.args[k].layout = words[k];
    }
    kiln__loop_of_plan(&loop, &plan, shapes[_i].n);
    for (uint32_t d = 0; d < plan.dims; d++) {
        ck_assert_int_eq(loop.extent[d], shapes[_i].extents[d]);
        ck_assert_int_eq(loop.stride[3][d], 0);
    }
    if (plan.dims > 1 && loop.count > 0) {
        ck_assert_int_eq(loop.stride[0][1], loop.extent[0]);
        ck_assert_int_eq(loop.stride[1][plan.dims - 1], 1);
        ck_assert_int_eq(loop.stride[2][1], 1);
        ck_assert_int_eq(loop.stride[2][0], loop.extent[1]);
    }
    for (uint64_t i = 0; i < loop.count; i++) {
        loops_place place = loops_at(&loop, i);
        for (uint32_t from = 0; from < 3; from++) {
            ck_assert_uint_lt((uint64_t)place.at[from], shapes[_i].n);
            for (uint32_t to = 0; to < 4; to++)
                ck_assert_int_eq((int64_t)kiln__loop_offset(&loop, from, to, (uint64_t)place.at[from]), place.at[to]);
        }
    }
}
END_TEST

Suite *kiln_test_spec_loop_suite(void)
{
    Suite *suite = suite_create("loop");
    TCase *tcase = tcase_create("loop");
    tcase_add_loop_test(tcase, test_loop__random_tensors_are_visited_as_their_strides_say, 0, 2);
    tcase_add_test(tcase, test_loop__contiguous_tensors_are_flat);
    tcase_add_test(tcase, test_loop__equally_permuted_tensors_are_flat);
    tcase_add_test(tcase, test_loop__rows_columns_and_elements);
    tcase_add_test(tcase, test_loop__a_transposed_input_is_strided);
    tcase_add_test(tcase, test_loop__a_large_transposed_input_is_crossed);
    tcase_add_test(tcase, test_loop__tiles_fit_the_shared_memory);
    tcase_add_test(tcase, test_loop__an_extent_of_0_is_empty);
    tcase_add_test(tcase, test_loop__without_data_only_shapes_count);
    tcase_add_loop_test(tcase, test_loop__refusals_name_the_tensor_and_the_reason, 0,
                        sizeof(refusals) / sizeof(refusals[0]));
    tcase_add_test(tcase, test_loop__counts_outputs_and_dimensions_have_limits);
    tcase_add_loop_test(tcase, test_loop__a_launch_without_tensors_has_the_layout_of_its_kernel, 0,
                        sizeof(shapes) / sizeof(shapes[0]));
    suite_add_tcase(suite, tcase);
    return suite;
}
