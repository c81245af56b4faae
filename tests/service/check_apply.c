/* kiln_apply: the right results for tensors of any strides, on the cpu and against an index at a time; types, devices,
 * requests, refusals, and graphs over the stand-in driver. */
#include "gpu/cuda_symbols.h"
#include "service/service.h"
#include "support/fake_cuda.h"
#include "support/harness.h"
#include "support/loops.h"
#include "support/suites.h"
#include "support/temp.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { ROOM = 1 << 14, CASES = 120, DIMS = 4 };

static kiln_service *service;
static kiln_report report = KILN_INIT(kiln_report);
static float memory[4][ROOM];

static void open_cpu(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
}

static void close_service(void)
{
    kiln_report_clear(&report);
    kiln_close(service);
}

static void check_ok(kiln_status status)
{
    ck_assert_msg(status == KILN_OK, "%s: %s", kiln_status_name(status), report.message);
}

static void check_refused(kiln_status status, kiln_status expected, const char *words)
{
    ck_assert_msg(status == expected, "%s: %s", kiln_status_name(status), report.message);
    ck_assert_msg(strstr(report.message, words) != NULL, "'%s' is not in: %s", words, report.message);
}

/* ---- Results */

typedef struct sample {
    int64_t shape[DIMS], strides[DIMS];
} sample;

/* Strides of a dense tensor, or of one with its last two dimensions exchanged, with a gap, repeated or reversed. */
static void draw_strides(kiln_tensor *tensor, sample *room, float *base, bool written)
{
    int64_t stride = 1, first = 0;
    for (uint32_t d = tensor->ndim; d-- > 0;) {
        room->strides[d] = stride;
        stride *= room->shape[d];
    }
    uint32_t last = tensor->ndim - 1, way = (uint32_t)loops_draw(written ? 3 : 5);
    if (tensor->ndim >= 2 && way == 1) {
        room->strides[last - 1] = 1;
        room->strides[last] = room->shape[last - 1];
    }
    for (uint32_t d = 0; d < tensor->ndim && way == 2; d++)
        room->strides[d] *= 2;
    if (tensor->ndim >= 1 && way == 3) {
        first = (room->shape[last] - 1) * room->strides[last];
        room->strides[last] = -room->strides[last];
    }
    if (tensor->ndim >= 1 && way == 4)
        room->strides[0] = 0;
    tensor->data = base + first;
    tensor->shape = room->shape;
    tensor->strides = way == 0 ? NULL : room->strides;
}

static void draw_tensors(kiln_tensor *out, kiln_tensor ins[2], sample rooms[3])
{
    const int64_t extents[] = { 1, 2, 3, 4, 5, 8 };
    *out = (kiln_tensor){ .dtype = KILN_F32, .ndim = (uint32_t)loops_draw(DIMS + 1) };
    for (uint32_t d = 0; d < out->ndim; d++)
        rooms[0].shape[d] = extents[loops_draw(6)];
    for (int k = 0; k < 2; k++) {
        ins[k] = (kiln_tensor){ .dtype = KILN_F32,
                                .ndim = loops_draw(3) == 0 ? (uint32_t)loops_draw(out->ndim + 1) : out->ndim };
        for (uint32_t d = 0; d < ins[k].ndim; d++)
            rooms[1 + k].shape[d] = loops_draw(4) == 0 ? 1 : rooms[0].shape[out->ndim - ins[k].ndim + d];
        draw_strides(&ins[k], &rooms[1 + k], memory[1 + k], false);
    }
    draw_strides(out, &rooms[0], memory[0], true);
}

static void check_results(const kiln_tensor *out, const kiln_tensor ins[2], const float *before)
{
    static loops_place places[LOOPS_COUNT_MAX];
    size_t count = loops_of_tensors(places, out, 1, ins, 2);
    for (size_t i = 0; i < count; i++) {
        const float *x = ins[0].data == out->data ? before : ins[0].data, *y = ins[1].data;
        float want = x[places[i].at[1]] * 2 - y[places[i].at[2]], got = ((float *)out->data)[places[i].at[0]];
        ck_assert_msg(got == want, "element %zu of %zu: %g, not %g", i, count, (double)got, (double)want);
    }
}

/* Elements beside the output keep their value. */
static void check_rest(const kiln_tensor *out, const kiln_tensor ins[2])
{
    static loops_place places[LOOPS_COUNT_MAX];
    static bool written[ROOM];
    size_t count = loops_of_tensors(places, out, 1, ins, 2);
    memset(written, 0, sizeof(written));
    for (size_t i = 0; i < count; i++)
        written[places[i].at[0]] = true;
    for (int i = 0; i < ROOM; i++)
        ck_assert(written[i] || memory[0][i] == -1);
}

START_TEST(test_apply__any_strides_give_each_element)
{
    for (int i = 0; i < CASES; i++) {
        kiln_tensor out, ins[2];
        sample rooms[3];
        for (int j = 0; j < ROOM; j++) {
            memory[0][j] = -1;
            memory[1][j] = (float)(j % 1021);
            memory[2][j] = (float)(j % 509);
        }
        draw_tensors(&out, ins, rooms);
        check_ok(kiln_apply(service, "op=2*x-y", &out, 1, ins, 2, NULL, 0, NULL, &report));
        check_results(&out, ins, NULL);
        check_rest(&out, ins);
    }
}
END_TEST

/* Inputs that pass through tiles, in batches and beside others. */
START_TEST(test_apply__transposed_inputs_give_each_element)
{
    const int64_t shape[] = { 33, 3, 40 };
    const int64_t strides[][3] = { { 1, 33, 99 }, { 1, 1320, 33 }, { 3, 1, 99 }, { 120, 40, 1 }, { 0, 0, 2 } };
    const kiln_tensor out = { memory[0], NULL, KILN_F32, 3, shape, NULL };
    for (int j = 0; j < ROOM; j++) {
        memory[0][j] = -1;
        memory[1][j] = (float)(j % 1021);
        memory[2][j] = (float)(j % 509);
    }
    for (int i = 0; i < 25; i++) {
        const kiln_tensor ins[] = { { memory[1], NULL, KILN_F32, 3, shape, strides[i % 5] },
                                    { memory[2], NULL, KILN_F32, 3, shape, strides[i / 5] } };
        check_ok(kiln_apply(service, "op=2*x-y", &out, 1, ins, 2, NULL, 0, NULL, &report));
        check_results(&out, ins, NULL);
        check_rest(&out, ins);
    }
}
END_TEST

START_TEST(test_apply__an_output_may_be_an_input)
{
    const int64_t shape[] = { 30, 40 }, strides[] = { 1, 30 };
    const kiln_tensor out = { memory[0], NULL, KILN_F32, 2, shape, strides };
    const kiln_tensor ins[] = { out, { memory[1], NULL, KILN_F32, 2, shape, NULL } };
    for (int j = 0; j < ROOM; j++)
        memory[0][j] = memory[3][j] = memory[1][j] = (float)(j % 1021);
    check_ok(kiln_apply(service, "op=2*x-y", &out, 1, ins, 2, NULL, 0, NULL, &report));
    check_results(&out, ins, memory[3]);
}
END_TEST

START_TEST(test_apply__several_outputs_and_scalars)
{
    const int64_t shape[] = { 7, 6 }, turned[] = { 1, 7 };
    const kiln_tensor outs[] = { { memory[0], NULL, KILN_F32, 2, shape, NULL },
                                 { memory[1], NULL, KILN_F32, 2, shape, turned } };
    const kiln_tensor in = { memory[2], NULL, KILN_F32, 2, shape, NULL };
    const double scalars[] = { 3, 0.5 };
    for (int j = 0; j < 42; j++)
        memory[2][j] = (float)j;
    check_ok(kiln_apply(service, "op=(x*?a,x+?b)", outs, 2, &in, 1, scalars, 2, NULL, &report));
    for (int i = 0; i < 42; i++) {
        ck_assert(memory[0][i] == (float)(3 * i));
        ck_assert(memory[1][i / 6 + i % 6 * 7] == (float)(i + 0.5));
    }
    check_refused(kiln_apply(service, "op=(x*?a,x+?b)", outs, 2, &in, 1, scalars, 1, NULL, &report), KILN_EINVAL,
                  "the op has 2 scalars, and 1 are given");
}
END_TEST

/* ---- Types */

START_TEST(test_apply__types_are_promoted_and_results_cast)
{
    const int64_t shape[] = { 4 };
    int32_t whole[] = { 1, -2, 3, 100000 };
    double real[4];
    uint8_t truth[4] = { 9, 9, 9, 9 };
    float narrow[4];
    const kiln_tensor in = { whole, NULL, KILN_I32, 1, shape, NULL };
    const kiln_tensor same = { whole, NULL, KILN_I32, 1, shape, NULL };
    kiln_tensor out = { narrow, NULL, KILN_F32, 1, shape, NULL };
    check_ok(kiln_apply(service, "op=x/2.0", &out, 1, &in, 1, NULL, 0, NULL, &report));
    ck_assert(narrow[1] == -1 && narrow[3] == 50000);
    out = (kiln_tensor){ real, NULL, KILN_F64, 1, shape, NULL };
    check_ok(kiln_apply(service, "op=x+x", &out, 1, &in, 1, NULL, 0, NULL, &report));
    ck_assert(real[1] == -4 && real[3] == 200000);
    out = (kiln_tensor){ truth, NULL, KILN_BOOL, 1, shape, NULL };
    check_ok(kiln_apply(service, "op=x>0", &out, 1, &in, 1, NULL, 0, NULL, &report));
    ck_assert(truth[0] == 1 && truth[1] == 0);
    check_refused(kiln_apply(service, "op=x+x", &out, 1, &in, 1, NULL, 0, NULL, &report), KILN_EINVAL,
                  "the op gives i32, which does not become bool as PyTorch casts: output 0");
    check_refused(kiln_apply(service, "op=x/2.0", &same, 1, &in, 1, NULL, 0, NULL, &report), KILN_EINVAL,
                  "the op gives f32, which does not become i32 as PyTorch casts: output 0");
}
END_TEST

START_TEST(test_apply__the_index_counts_elements_of_the_shape)
{
    const int64_t shape[] = { 8, 4 }, turned[] = { 1, 8 };
    int64_t numbers[32];
    kiln_tensor out = { numbers, NULL, KILN_I64, 2, shape, NULL };
    kiln_tensor in = { memory[1], NULL, KILN_F32, 2, shape, NULL };
    for (int i = 0; i < 32; i++)
        memory[1][i] = 1;
    check_ok(kiln_apply(service, "op=x>0?index:0", &out, 1, &in, 1, NULL, 0, NULL, &report));
    for (int i = 0; i < 32; i++)
        ck_assert_int_eq(numbers[i], i);
    out.strides = in.strides = turned; /* a sequence, too, but in another order */
    check_refused(kiln_apply(service, "op=x>0?index:0", &out, 1, &in, 1, NULL, 0, NULL, &report), KILN_EINVAL,
                  "the outputs are permuted");
    check_ok(kiln_apply(service, "op=x>0?1+x*0:0", &(kiln_tensor){ memory[2], NULL, KILN_F32, 2, shape, turned }, 1,
                        &in, 1, NULL, 0, NULL, &report));
}
END_TEST

/* Also where arrays with gaps, exchanged dimensions and repeated elements are read, by each template that does. */
START_TEST(test_apply__the_index_counts_elements_of_any_strides)
{
    static const struct {
        int64_t shape[3], strides[3], other[3];
    } cases[] = {
        { { 1, 40, 50 }, { 0, 1, 40 }, { 0, 50, 1 } }, { { 3, 34, 66 }, { 2244, 1, 34 }, { 0, 66, 1 } },
        { { 3, 5, 8 }, { 80, 16, 2 }, { 40, 8, 1 } },  { { 3, 5, 7 }, { 1, 21, 3 }, { 0, 1, 0 } },
        { { 1, 9, 4 }, { 0, 4, 0 }, { 0, 0, 1 } },     { { 2, 32, 64 }, { 64, 128, 1 }, { 64, 0, 1 } },
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const int64_t *shape = cases[c].shape, *s = cases[c].strides, *o = cases[c].other;
        const kiln_tensor out = { memory[0], NULL, KILN_F32, 3, shape, NULL };
        const kiln_tensor ins[] = { { memory[1], NULL, KILN_F32, 3, shape, s },
                                    { memory[2], NULL, KILN_F32, 3, shape, o } };
        for (int i = 0; i < ROOM; i++) {
            memory[0][i] = -1;
            memory[1][i] = (float)(i % 97);
            memory[2][i] = (float)(i % 31);
        }
        check_ok(kiln_apply(service, "op=x+2*y+index", &out, 1, ins, 2, NULL, 0, NULL, &report));
        for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; i++) {
            const int64_t a = i / (shape[1] * shape[2]), b = i / shape[2] % shape[1], d = i % shape[2];
            const float x = memory[1][a * s[0] + b * s[1] + d * s[2]], y = memory[2][a * o[0] + b * o[1] + d * o[2]];
            ck_assert_msg(memory[0][i] == x + 2 * y + (float)i, "case %zu, element %lld: %g", c, (long long)i,
                          (double)memory[0][i]);
        }
    }
}
END_TEST

/* ---- Requests */

START_TEST(test_apply__the_request_is_that_of_the_call)
{
    const int64_t shape[] = { 8, 4 }, turned[] = { 1, 8 }, row[] = { 4 };
    kiln_tensor out = { NULL, NULL, KILN_F32, 2, shape, NULL };
    kiln_tensor ins[] = { { NULL, NULL, KILN_F16, 2, shape, turned }, { NULL, NULL, KILN_F32, 1, row, NULL } };
    kiln_request request = KILN_INIT(kiln_request);
    kiln_program *program;
    kiln_spec *spec;
    check_ok(kiln_apply_request(&spec, &request, service, "op=x+y", &out, 1, ins, 2, &report));
    ck_assert_str_eq(kiln_spec_text(spec), "op=x+y template=strided dtype=(f16,f32) layout=2d(unit,any,unit) n=32");
    ck_assert_ptr_eq(request.spec, spec);
    check_ok(kiln_get(&program, service, &request, &report));
    out.data = memory[0];
    ins[0].data = memory[1];
    ins[1].data = memory[2];
    uint64_t loads = kiln_test_stats(service).loads;
    check_ok(kiln_apply(service, "op=x+y", &out, 1, ins, 2, NULL, 0, NULL, &report));
    ck_assert_uint_eq(kiln_test_stats(service).loads, loads);
    kiln_program_release(program);
    kiln_spec_free(spec);
    ins[0].strides = NULL;
    check_ok(kiln_apply_request(&spec, &request, service, "op=x+y", &out, 1, ins, 2, &report));
    ck_assert_str_eq(kiln_spec_text(spec), "op=x+y template=broadcast dtype=(f16,f32) layout=(full,row) n=32");
    kiln_spec_free(spec);
    ins[1] = ins[0];
    out.dtype = KILN_F64;
    check_ok(kiln_apply_request(&spec, &request, service, "op=x+y math=portable", &out, 1, ins, 2, &report));
    ck_assert_str_eq(kiln_spec_text(spec), "op=x+y dtype=f16 out=f64 math=portable n=32");
    kiln_spec_free(spec);
}
END_TEST

/* ---- Refusals */

static const struct {
    const char *text;
    kiln_status status;
    const char *words;
} refused[] = {
    { "op=x+", KILN_EOP, "op, character" },
    { "op=x+y+z", KILN_EINVAL, "the op writes 1 and reads 3 tensors, and 1 and 2 are given" },
    { "op=(x,y)", KILN_EINVAL, "the op writes 2 and reads 2 tensors, and 1 and 2 are given" },
    { "math=torch", KILN_EINVAL, "the text has no op" },
    { "op=x+y dtype=f32", KILN_EINVAL, "the tensors give dtype: leave dtype=f32 out of the text" },
    { "op=x+y out=f32", KILN_EINVAL, "the tensors give out: leave out=f32 out of the text" },
    { "op=x+y n=4", KILN_EINVAL, "the tensors give n: leave n=4 out of the text" },
    { "op=x+y template=broadcast layout=(full,row)", KILN_EINVAL, "the tensors give layout" },
    { "op=x+y template=elementwise", KILN_EINVAL,
      "template elementwise does not take the layout of these tensors: leave template out" },
    { "op=x+y template=rowsum", KILN_EINVAL, "template rowsum is for kiln_launch" },
    { "op=bitwise_and(x,y)", KILN_ESPEC, "takes whole numbers" },
    { "op=x+y target=sm_90", KILN_ETARGET, "does not run on cpu" },
    { "op=x-?a*y", KILN_EINVAL, "the op has 1 scalar, and 0 are given" },
};

START_TEST(test_apply__refusals_say_why)
{
    const int64_t shape[] = { 8, 4 }, turned[] = { 1, 8 };
    const kiln_tensor out = { memory[0], NULL, KILN_F32, 2, shape, NULL };
    const kiln_tensor ins[] = { { memory[1], NULL, KILN_F32, 2, shape, turned },
                                { memory[2], NULL, KILN_F32, 2, shape, NULL } };
    memory[0][0] = -1;
    for (int i = 0; i < 2; i++)
        check_refused(kiln_apply(service, refused[_i].text, &out, 1, ins, 2, NULL, 0, NULL, &report),
                      refused[_i].status, refused[_i].words);
    ck_assert(memory[0][0] == -1);
}
END_TEST

START_TEST(test_apply__nulls_overlaps_and_empty_tensors)
{
    const int64_t shape[] = { 4 }, none[] = { 0 };
    kiln_tensor out = { memory[0], NULL, KILN_F32, 1, shape, NULL };
    kiln_tensor in = { memory[0] + 1, NULL, KILN_F32, 1, shape, NULL };
    check_refused(kiln_apply(service, "op=relu6", NULL, 1, &in, 1, NULL, 0, NULL, &report), KILN_EINVAL, "NULL");
    check_refused(kiln_apply(service, NULL, &out, 1, &in, 1, NULL, 0, NULL, &report), KILN_EINVAL, "NULL");
    check_refused(kiln_apply(service, "op=relu6", &out, 1, &in, 1, NULL, 1, NULL, &report), KILN_EINVAL, "NULL");
    check_refused(kiln_apply(service, "op=relu6", &out, 1, &in, 1, NULL, 0, NULL, &report), KILN_EOVERLAP,
                  "tensors out and x overlap");
    out.shape = in.shape = none;
    out.data = in.data = NULL;
    check_ok(kiln_apply(service, "op=relu6", &out, 1, &in, 1, NULL, 0, NULL, &report));
    check_refused(kiln_apply(service, "op=relu7", &out, 1, &in, 1, NULL, 0, NULL, &report), KILN_EOP, "relu");
}
END_TEST

/* ---- DLPack */

START_TEST(test_apply__dlpack_facts_become_tensors)
{
    static const struct {
        uint8_t code, bits;
        kiln_dtype dtype;
    } types[] = { { 0, 8, KILN_I8 },    { 0, 64, KILN_I64 }, { 1, 8, KILN_U8 },      { 2, 16, KILN_F16 },
                  { 4, 16, KILN_BF16 }, { 6, 8, KILN_BOOL }, { 10, 8, KILN_F8E4M3 }, { 12, 8, KILN_F8E5M2 } };
    const int64_t shape[] = { 4 };
    kiln_dlpack facts = KILN_INIT(kiln_dlpack);
    kiln_tensor tensor;
    facts.data = memory[0];
    facts.byte_offset = 8;
    facts.device_type = 1;
    facts.ndim = 1;
    facts.lanes = 1;
    facts.shape = shape;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        facts.code = types[i].code;
        facts.bits = types[i].bits;
        check_ok(kiln_tensor_of_dlpack(&tensor, service, &facts, &report));
        ck_assert_int_eq(tensor.dtype, types[i].dtype);
        ck_assert_ptr_eq(tensor.data, (char *)memory[0] + 8);
        ck_assert_ptr_eq(tensor.shape, shape);
        ck_assert_ptr_nonnull(tensor.device);
    }
    facts.code = 5;
    check_refused(kiln_tensor_of_dlpack(&tensor, service, &facts, &report), KILN_EINVAL,
                  "a DLPack tensor of code 5, 8 bits, 1 lanes: none of kiln_dtype");
    facts.code = 1;
    facts.device_type = 10;
    check_refused(kiln_tensor_of_dlpack(&tensor, service, &facts, &report), KILN_EINVAL,
                  "on device 0 of type 10: expected the cpu or CUDA");
    facts.device_type = 2;
    facts.device_id = 77;
    check_refused(kiln_tensor_of_dlpack(&tensor, service, &facts, &report), KILN_ENODRIVER, "");
    facts.major = 2;
    check_refused(kiln_tensor_of_dlpack(&tensor, service, &facts, &report), KILN_EINVAL, "version 2");
    facts.major = UINT32_MAX;
    check_refused(kiln_tensor_of_dlpack(&tensor, service, &facts, &report), KILN_EINVAL, "version 0");
    facts.size = 0;
    check_refused(kiln_tensor_of_dlpack(&tensor, service, &facts, &report), KILN_EINVAL, "kiln_dlpack");
}
END_TEST

/* ---- A user's template of any strides */

static const char own[] = "//! template mine\n"
                          "//! inputs 1..8\n"
                          "//! size n\n"
                          "//! arg out... out otype[n] inplace\n"
                          "//! arg x... in itype[n]\n"
                          "//! arg s... f64\n"
                          "//! arg view strides\n"
                          "//! param block 32..1024 step 32 = 128\n"
                          "//! tile block\n"
                          "//! grid (n + (tile - 1)) / tile\n"
                          "//! entry mine align 1 if span < 4294967296 && cols > 0\n"
                          "extern \"C\" __global__ void mine(kiln_view view) {}\n";
static const char own_twin[] =
    "#define KILN_ELEMENT(k) KILN_VALUE(k, x##k[at[KILN_OUTPUTS + k]])\n"
    "#define KILN_S(k) const double s##k = *(const double *)args[KILN_OUTPUTS + KILN_INPUTS + k];\n"
    "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args);\n"
    "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n"
    "                                                     void *const *args)\n"
    "{\n"
    "    KILN_ALL_OUT(KILN_OUT_ARGUMENT) KILN_ALL(KILN_ARGUMENT) KILN_ALL_SCALARS(KILN_S)\n"
    "    const kiln_view *view = (const kiln_view *)args[KILN_OUTPUTS + KILN_INPUTS + 1];\n"
    "    unsigned long long n = 1;\n"
    "    for (int d = 0; d < KILN_DIMS; d++) n *= view->extent[d];\n"
    "    for (unsigned long long i = begin * KILN_TILE; i < end * KILN_TILE && i < n; i++) {\n"
    "        long long at[KILN_OUTPUTS + KILN_INPUTS] = { 0 };\n"
    "        unsigned long long rest = i;\n"
    "        for (int d = 0; d < KILN_DIMS; rest /= view->extent[d], d++)\n"
    "            for (int k = 0; k < KILN_OUTPUTS + KILN_INPUTS; k++)\n"
    "                at[k] += (long long)(rest % view->extent[d]) * view->stride[k][d];\n"
    "        out0[at[0]] = KILN_STORE(0, kiln_value(KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR)));\n"
    "    }\n"
    "}\n";

START_TEST(test_apply__takes_a_users_template)
{
    const double zero = 0;
    check_ok(kiln_template_define(service, own, own_twin, NULL, &report));
    for (int i = 0; i < 16; i++) {
        kiln_tensor out, ins[2];
        sample rooms[3];
        for (int j = 0; j < ROOM; j++) {
            memory[1][j] = (float)(j % 1021);
            memory[2][j] = (float)(j % 509);
        }
        draw_tensors(&out, ins, rooms);
        check_ok(kiln_apply(service, "op=2*x-y+?zero template=mine", &out, 1, ins, 2, &zero, 1, NULL, &report));
        check_results(&out, ins, NULL);
    }
}
END_TEST

/* Templates that do not compute on tensors as they are: another type, and sizes in another order. */
static const char typed[] = "//! template typed\n"
                            "//! inputs 1..8\n"
                            "//! size n\n"
                            "//! arg out out f64[n] inplace\n"
                            "//! arg x... in itype[n]\n"
                            "//! block 1\n"
                            "//! grid 1\n"
                            "//! entry typed align 1\n"
                            "extern \"C\" __global__ void typed(void) {}\n";
static const char swapped[] = "//! template swapped\n"
                              "//! inputs 1..8\n"
                              "//! size cols, rows\n"
                              "//! arg out... out otype[rows, cols] inplace\n"
                              "//! arg x... in itype[rows, cols] broadcast\n"
                              "//! block 1\n"
                              "//! grid 1\n"
                              "//! entry swapped align 1\n"
                              "extern \"C\" __global__ void swapped(void) {}\n";
static const char idle_twin[] =
    "void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args);\n"
    "__attribute__((visibility(\"default\"))) void kiln_cpu(unsigned long long begin, unsigned long long end,\n"
    "                                                     void *const *args)\n"
    "{ (void)begin; (void)end; (void)args; }\n";

START_TEST(test_apply__refuses_other_types_and_sizes_of_a_users_template)
{
    const int64_t shape[] = { 2, 3 };
    const kiln_tensor out = { memory[0], NULL, KILN_F32, 2, shape, NULL };
    const kiln_tensor in = { memory[1], NULL, KILN_F32, 2, shape, NULL };
    check_ok(kiln_template_define(service, typed, idle_twin, NULL, &report));
    check_ok(kiln_template_define(service, swapped, idle_twin, NULL, &report));
    check_refused(kiln_apply(service, "op=relu6 template=typed", &out, 1, &in, 1, NULL, 0, NULL, &report), KILN_EINVAL,
                  "argument out of the template is f64, and the tensor is f32");
    check_refused(kiln_apply(service, "op=relu6 template=swapped", &out, 1, &in, 1, NULL, 0, NULL, &report),
                  KILN_EINVAL, "template swapped is for kiln_launch");
}
END_TEST

/* The layout is that of the op's inputs, and not of another array that is read. */
START_TEST(test_apply__an_array_beside_the_inputs_has_no_layout)
{
    static const char extra[] = "//! template extra\n"
                                "//! inputs 1..8\n"
                                "//! size rows, cols\n"
                                "//! arg out... out otype[rows, cols] inplace\n"
                                "//! arg w in f32[rows, cols]\n"
                                "//! arg x... in itype[rows, cols] broadcast\n"
                                "//! block 1\n"
                                "//! grid 1\n"
                                "//! entry extra align 1\n"
                                "extern \"C\" __global__ void extra(void) {}\n";
    const kiln_arg args[] = { KILN_ARRAY(memory[0], 256), KILN_ARRAY(memory[1], 16), KILN_ARRAY(memory[2], 16) };
    check_ok(kiln_template_define(service, extra, idle_twin, NULL, &report));
    kiln_kernel *kernel = kiln_test_get(service, "op=relu6 template=extra layout=(row)");
    check_refused(kiln_launch(kernel, NULL, (uint64_t[]){ 16, 4 }, 2, args, 3, NULL, &report), KILN_EINVAL,
                  "argument w needs 256 bytes with these sizes, and has 16");
    kiln_kernel_release(kernel);
}
END_TEST

/* Nothing is divided by an extent of 0. */
START_TEST(test_apply__kernels_with_strides_launch_no_elements)
{
    static const char *const texts[] = { "op=relu6 template=strided layout=2d(unit,any)",
                                         "op=relu6 template=crossed layout=2d(unit,cross)" };
    const kiln_arg args[] = { KILN_ARRAY(memory[0], 0), KILN_ARRAY(memory[1], 0) };
    for (int i = 0; i < 2; i++) {
        kiln_kernel *kernel = kiln_test_get(service, texts[i]);
        check_ok(kiln_launch(kernel, NULL, (uint64_t[]){ 0 }, 1, args, 2, NULL, &report));
        kiln_kernel_release(kernel);
    }
}
END_TEST

/* Of one array the kernel would read elements that it has written. */
START_TEST(test_apply__a_launch_in_place_has_one_order_of_elements)
{
    static const struct {
        const char *layout;
        kiln_status status;
    } cases[] = {
        { "1d(unit,any)", KILN_OK },
        { "2d(any,any)", KILN_OK },
        { "2d(unit,any)", KILN_EOVERLAP },
        { "3d(any,unit)", KILN_EOVERLAP },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[64];
        snprintf(text, sizeof(text), "op=relu6(x)+1 template=strided layout=%s", cases[i].layout);
        kiln_kernel *kernel = kiln_test_get(service, text);
        for (int j = 0; j < 4096; j++)
            memory[0][j] = 2;
        const void *ins[] = { memory[0] };
        kiln_status status = kiln_launch_n(kernel, 4096, (void *[]){ memory[0] }, 1, ins, 1, NULL, &report);
        ck_assert_msg(status == cases[i].status, "%s: %s", text, report.message);
        ck_assert(status == KILN_OK || strstr(report.message, "in two orders: use separate arrays") != NULL);
        for (int j = 0; j < 4096; j++)
            ck_assert(memory[0][j] == (status == KILN_OK ? 3 : 2));
        kiln_kernel_release(kernel);
    }
}
END_TEST

/* ---- The stand-in driver */

static const kiln_fake *fake;

static void open_gpu(void)
{
    fake = kiln_fake_open();
    fake->configure("devices=2");
    kiln_options options = kiln_test_gpu_options();
    service = kiln_test_open(&options);
}

static kiln_status apply_matrix(kiln_device *device, const char *text, int64_t rows, const int64_t *strides,
                                void *stream)
{
    const int64_t shape[] = { rows, 32 };
    const kiln_tensor out = { (void *)0x1000000, NULL, KILN_F32, 2, shape, NULL };
    const kiln_tensor in = { (void *)0x8000000, device, KILN_F32, 2, shape, strides };
    return kiln_apply(service, text, &out, 1, &in, 1, NULL, 0, stream, &report);
}

static const int64_t turned[] = { 1, 64 };

START_TEST(test_apply__one_kernel_for_each_kind_of_layout)
{
    for (int round = 0; round < 3; round++) {
        check_ok(apply_matrix(NULL, "op=relu6", 64, NULL, NULL));
        check_ok(apply_matrix(NULL, "op=relu6", 64, turned, NULL));
        check_ok(apply_matrix(NULL, "op=relu6", 63, turned, NULL)); /* another shape of as many dimensions */
        check_ok(apply_matrix(NULL, "op=relu6", 64, (const int64_t[]){ 40, 1 }, NULL));
    }
    ck_assert_uint_eq(kiln_test_stats(service).loads, 3);
    kiln_fake_launch launches[12];
    ck_assert_uint_eq(fake->launches(launches, 12), 12);
    ck_assert_str_eq(launches[0].name, "kiln_vector");
    ck_assert_uint_eq(service->applied.count, 3);
    check_ok(apply_matrix(NULL, "op=relu6", 1 << 16, NULL, NULL)); /* the geometry may be another */
    ck_assert_uint_eq(service->applied.count, 4);
    ck_assert_str_eq(launches[3].name, "kiln_vector");
    for (int i = 1; i < 3; i++) { /* of the template crossed, whose blocks are squares */
        ck_assert_str_eq(launches[i].name, "kiln_vector");
        ck_assert_uint_eq(launches[i].block[1], 8);
    }
}
END_TEST

/* Rows of 32 elements, 64 of them: the strides of the output and of the input, and the entry that they allow. */
static const struct {
    kiln_dtype dtype;
    int64_t out[2], in[2];
    const char *entry;
} entries[] = {
    { KILN_F16, { 32, 1 }, { 1, 64 }, "kiln_vector" },    { KILN_F16, { 32, 1 }, { 1, 65 }, "kiln_scalar" },
    { KILN_F16, { 33, 1 }, { 1, 64 }, "kiln_scalar" },    { KILN_F32, { 32, 1 }, { 1, 65 }, "kiln_vector" },
    { KILN_F32, { 32, 1 }, { 36, 1 }, "kiln_vector" },    { KILN_F32, { 32, 1 }, { 33, 1 }, "kiln_scalar" },
    { KILN_F32, { 33, 1 }, { 36, 1 }, "kiln_scalar" },    { KILN_F32, { 32, 1 }, { 33, 2 }, "kiln_vector" },
    { KILN_F32, { 32, 1 }, { 1 << 27, 1 }, "kiln_wide" },
};

START_TEST(test_apply__words_are_taken_where_strides_allow_them)
{
    const int64_t shape[] = { 64, 32 };
    const kiln_tensor out = { (void *)0x1000000, NULL, entries[_i].dtype, 2, shape, entries[_i].out };
    const kiln_tensor in = { (void *)0x8000000, NULL, entries[_i].dtype, 2, shape, entries[_i].in };
    kiln_fake_launch launched;
    check_ok(kiln_apply(service, "op=relu6", &out, 1, &in, 1, NULL, 0, NULL, &report));
    ck_assert_uint_eq(fake->launches(&launched, 1), 1);
    ck_assert_str_eq(launched.name, entries[_i].entry);
}
END_TEST

START_TEST(test_apply__a_parameter_is_one_of_the_kernels_template)
{
    check_ok(apply_matrix(NULL, "op=relu6 block=256", 64, NULL, NULL));
    check_refused(apply_matrix(NULL, "op=relu6 block=256", 64, turned, NULL), KILN_EINVAL,
                  "these tensors take template crossed, which has no parameter block: leave block out");
    check_ok(apply_matrix(NULL, "op=relu6 block=256 template=strided", 64, turned, NULL));
}
END_TEST

START_TEST(test_apply__tensors_lie_on_one_device)
{
    kiln_device *first, *second;
    check_ok(kiln_device_open(&first, service, "cuda:0", &report));
    check_ok(kiln_device_open(&second, service, "cuda:1", &report));
    check_ok(apply_matrix(first, "op=relu6", 64, NULL, NULL));
    check_refused(apply_matrix(second, "op=relu6", 64, NULL, NULL), KILN_EINVAL,
                  "tensors lie on cuda:0 and on cuda:1: copy them to one device");
    kiln_options options = kiln_test_gpu_options();
    kiln_service *other = kiln_test_open(&options), *own_service = service;
    service = other;
    check_refused(apply_matrix(first, "op=relu6", 64, NULL, NULL), KILN_EINVAL, "cuda:0");
    service = own_service;
    kiln_close(other);
}
END_TEST

START_TEST(test_apply__a_capture_takes_loaded_kernels_alone)
{
    void *context = fake->context_new(0), *stream = fake->stream_new(context);
    check_ok(apply_matrix(NULL, "op=relu6", 64, NULL, stream));
    fake->capture_begin(stream, KILN__CU_STREAM_CAPTURE_MODE_GLOBAL);
    check_ok(apply_matrix(NULL, "op=relu6", 64, NULL, stream));
    check_refused(apply_matrix(NULL, "op=relu6", 64, turned, stream), KILN_ECAPTURE, "load it before the capture");
    check_ok(apply_matrix(NULL, "op=relu6", 64, NULL, stream));
    ck_assert_int_eq(fake->capture_end(stream), 2);
    fake->stream_free(stream);
    fake->context_free(context);
}
END_TEST

START_TEST(test_apply__kernels_beyond_the_limit_are_got_again)
{
    kiln_options options = kiln_test_gpu_options();
    kiln_service *whole = service;
    options.loaded_max = 2;
    service = kiln_test_open(&options);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 4; i++) {
            char text[32];
            snprintf(text, sizeof(text), "op=relu6(x)*%d", i + 2);
            check_ok(apply_matrix(NULL, text, 64, NULL, NULL));
        }
    ck_assert_uint_eq(kiln_test_stats(service).loads, 2 + 3 * 2);
    kiln_close(service);
    service = whole;
}
END_TEST

static void *apply_often(void *data)
{
    kiln_report own_report = KILN_INIT(kiln_report);
    const int64_t shape[] = { 64, 32 };
    char *base = data;
    for (int i = 0; i < 400; i++) {
        char text[32];
        const kiln_tensor out = { base, NULL, KILN_F32, 2, shape, NULL };
        const kiln_tensor in = { base + 0x100000, NULL, KILN_F32, 2, shape, i % 2 == 0 ? NULL : turned };
        snprintf(text, sizeof(text), "op=relu6(x)*%d", i % 5 + 2);
        if (kiln_apply(service, text, &out, 1, &in, 1, NULL, 0, NULL, &own_report) != KILN_OK)
            return own_report.message[0] != '\0' ? "failed" : "failed silently";
    }
    return NULL;
}

START_TEST(test_apply__threads_share_kernels)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, apply_often, (void *)(uintptr_t)(0x1000000 * (i + 1))), 0);
    for (int i = 0; i < 4; i++) {
        void *problem;
        ck_assert_int_eq(pthread_join(threads[i], &problem), 0);
        ck_assert_ptr_null(problem);
    }
    ck_assert_uint_eq(kiln_test_stats(service).loads, 10);
    ck_assert_uint_eq(service->applied.count, 10);
}
END_TEST

Suite *kiln_test_service_apply_suite(void)
{
    Suite *suite = suite_create("apply");
    TCase *cpu = tcase_create("cpu"), *gpu = tcase_create("gpu");
    kiln_test_temp_use(cpu);
    tcase_add_checked_fixture(cpu, open_cpu, close_service);
    tcase_add_test(cpu, test_apply__any_strides_give_each_element);
    tcase_add_test(cpu, test_apply__transposed_inputs_give_each_element);
    tcase_add_test(cpu, test_apply__an_output_may_be_an_input);
    tcase_add_test(cpu, test_apply__several_outputs_and_scalars);
    tcase_add_test(cpu, test_apply__types_are_promoted_and_results_cast);
    tcase_add_test(cpu, test_apply__the_index_counts_elements_of_the_shape);
    tcase_add_test(cpu, test_apply__the_index_counts_elements_of_any_strides);
    tcase_add_test(cpu, test_apply__the_request_is_that_of_the_call);
    tcase_add_loop_test(cpu, test_apply__refusals_say_why, 0, sizeof(refused) / sizeof(refused[0]));
    tcase_add_test(cpu, test_apply__nulls_overlaps_and_empty_tensors);
    tcase_add_test(cpu, test_apply__dlpack_facts_become_tensors);
    tcase_add_test(cpu, test_apply__takes_a_users_template);
    tcase_add_test(cpu, test_apply__refuses_other_types_and_sizes_of_a_users_template);
    tcase_add_test(cpu, test_apply__an_array_beside_the_inputs_has_no_layout);
    tcase_add_test(cpu, test_apply__kernels_with_strides_launch_no_elements);
    tcase_add_test(cpu, test_apply__a_launch_in_place_has_one_order_of_elements);
    suite_add_tcase(suite, cpu);
    kiln_test_temp_use(gpu);
    tcase_add_checked_fixture(gpu, open_gpu, close_service);
    tcase_add_test(gpu, test_apply__one_kernel_for_each_kind_of_layout);
    tcase_add_loop_test(gpu, test_apply__words_are_taken_where_strides_allow_them, 0,
                        sizeof(entries) / sizeof(entries[0]));
    tcase_add_test(gpu, test_apply__a_parameter_is_one_of_the_kernels_template);
    tcase_add_test(gpu, test_apply__tensors_lie_on_one_device);
    tcase_add_test(gpu, test_apply__a_capture_takes_loaded_kernels_alone);
    tcase_add_test(gpu, test_apply__kernels_beyond_the_limit_are_got_again);
    tcase_add_test(gpu, test_apply__threads_share_kernels);
    suite_add_tcase(suite, gpu);
    return suite;
}
