/* The CUDA text of the templates strided and crossed, compiled as C++ and run one thread after the other on the host,
 * against every element's index. The cpu twin runs in service/check_apply.c. */
#include "support/harness.h"
#include "support/loops.h"
#include "support/suites.h"
#include "support/temp.h"
#include <dlfcn.h>
#include <stdio.h>

enum { ELEMENTS = 1 << 16, ROUNDS = 12, TILE = 32 * 4 };

/* Stands in for CUDA and for the numbers of real.h. */
static const char shim[] =
    "#define __global__\n"
    "#define __launch_bounds__(threads)\n"
    "#define __grid_constant__\n"
    "#define KILN_FN static inline\n"
    "#define __shared__ static\n"
    "#define __syncthreads()\n"
    "struct dim { unsigned x, y; };\n"
    "static dim blockIdx, threadIdx;\n"
    "static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }\n"
    "#define KILN_TYPE(k) float\n"
    "#define KILN_RESULT(k) float\n"
    "#define KILN_VALUE(k, element) (element)\n"
    "#define KILN_STORE(k, value) (value)\n"
    "#define KILN_OUTPUT(k) float *out##k\n"
    "#define KILN_PARAMETER(k) const float *x##k\n"
    "#define KILN_SCALAR_PARAMETER(k)\n"
    "#define KILN_SCALAR(k)\n"
    "#define KILN_POSITION(index) , (long long)(index)\n"
    "#if defined(KILN_VECTOR)\n"
    "template <typename T, int lanes = KILN_VECTOR> union kiln_lanes {\n"
    "    struct word_t { T v[lanes]; } word;\n"
    "    T lane[lanes];\n"
    "};\n"
    "template <typename T> KILN_FN typename kiln_lanes<T>::word_t kiln_fetch(const T *array, unsigned index)\n"
    "{ return ((const typename kiln_lanes<T>::word_t *)array)[index]; }\n"
    "template <typename T> KILN_FN void kiln_put(T *array, unsigned index, typename kiln_lanes<T>::word_t w)\n"
    "{ ((typename kiln_lanes<T>::word_t *)array)[index] = w; }\n"
    "#endif\n"
    "static float kiln_value(float x, float y, long long i) { return x * 2048 + y * 16 + (float)(i % 13); }\n";

static const char strided_runner[] =
    "extern \"C\" void run(int entry, unsigned grid, float *out, const float *x, const float *y, const void *view,\n"
    "                      unsigned long long n)\n"
    "{\n"
    "    const kiln_view &v = *(const kiln_view *)view;\n"
    "    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)\n"
    "        for (threadIdx.x = 0; threadIdx.x < KILN_BLOCK; threadIdx.x++)\n"
    "            entry == 0   ? kiln_vector(out, x, y, v, n)\n"
    "            : entry == 1 ? kiln_scalar(out, x, y, v, n)\n"
    "                         : kiln_wide(out, x, y, v, n);\n"
    "}\n";

/* A block runs twice: its tiles are complete the second time, as behind __syncthreads. */
static const char crossed_runner[] =
    "extern \"C\" void run(int entry, unsigned grid, float *out, const float *x, const float *y, const void *view,\n"
    "                      unsigned long long n)\n"
    "{\n"
    "    for (blockIdx.x = 0; blockIdx.x < grid; blockIdx.x++)\n"
    "        for (int pass = 0; pass < 2; pass++)\n"
    "            for (threadIdx.y = 0; threadIdx.y < KILN_LINES; threadIdx.y++)\n"
    "                for (threadIdx.x = 0; threadIdx.x < KILN_EDGE; threadIdx.x++)\n"
    "                    entry == 0 ? kiln_vector(out, x, y, *(const kiln_view *)view)\n"
    "                               : kiln_scalar(out, x, y, *(const kiln_view *)view);\n"
    "}\n";

typedef struct kernel_text {
    const char *template, *params, *begin, *runner;
} kernel_text;

static const kernel_text strided = { "strided", "dtype=f32 block=32 elems=4 vector=2", "#define KILN_ACCESSES",
                                     strided_runner };
/* The types are those for which a word may have so many elements: the shim has floats. */
static const kernel_text crossed[] = {
    { "crossed", "dtype=f32 lines=8 vector=1", "#define KILN_EDGE", crossed_runner },
    { "crossed", "dtype=f16 lines=4 vector=2", "#define KILN_EDGE", crossed_runner },
    { "crossed", "dtype=u8 lines=32 vector=4", "#define KILN_EDGE", crossed_runner },
};
static const int64_t crossed_vectors[] = { 1, 2, 4 };

typedef void (*run_fn)(int entry, unsigned grid, float *out, const float *x, const float *y, const void *view,
                       unsigned long long n);

static kiln_service *service;
static kiln_report report = KILN_INIT(kiln_report);
static float out[ELEMENTS], in[2][ELEMENTS];

static void open_service(void)
{
    kiln_options options = kiln_test_options();
    service = kiln_test_open(&options);
    for (int i = 0; i < ELEMENTS; i++) {
        in[0][i] = (float)(i % 8191);
        in[1][i] = (float)(i % 127);
    }
}

static void close_service(void)
{
    kiln_report_clear(&report);
    kiln_close(service);
}

/* Writes the part of a text from one mark up to another. */
static void write_part(FILE *file, const char *text, const char *from, const char *to)
{
    const char *begin = strstr(text, from), *end = begin != NULL && to != NULL ? strstr(begin, to) : NULL;
    ck_assert_msg(begin != NULL && (to == NULL || end != NULL), "%s", from);
    fwrite(begin, 1, end != NULL ? (size_t)(end - begin) : strlen(begin), file);
}

/* The macros of the unit, the struct of the strides, and the template's own text, between the shim and the runner. */
static run_fn compile_layout(const kernel_text *kernel, const char *layout)
{
    char text[256], command[1024];
    char *source;
    run_fn run;
    snprintf(text, sizeof(text), "op=x+y template=%s layout=%s %s target=sm_90", kernel->template, layout,
             kernel->params);
    kiln_spec *spec = kiln_test_spec(service, text);
    ck_assert_msg(kiln_spec_source(&source, spec, &report) == KILN_OK, "%s", report.message);
    FILE *file = fopen(kiln_test_temp_path("strided.cpp"), "w");
    ck_assert_ptr_nonnull(file);
    write_part(file, source, "#define KILN_UNIT", "/* The numbers that");
    fputs(shim, file);
    write_part(file, source, "typedef struct kiln_view", "#endif");
    write_part(file, source, kernel->begin, NULL);
    fputs(kernel->runner, file);
    ck_assert_int_eq(fclose(file), 0);
    snprintf(command, sizeof(command), "c++ -std=c++17 -O1 -w -fPIC -shared -o %s %s",
             kiln_test_temp_path("strided.so"), kiln_test_temp_path("strided.cpp"));
    ck_assert_int_eq(system(command), 0);
    void *library = dlopen(kiln_test_temp_path("strided.so"), RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    void *symbol = dlsym(library, "run");
    memcpy(&run, &symbol, sizeof(run));
    kiln_text_free(source);
    kiln_spec_free(spec);
    return run;
}

/* Makes an operand contiguous along the second dimension. */
static void cross(kiln__loop *loop, uint32_t k)
{
    int64_t stride = loop->extent[1] * loop->extent[0];
    loop->stride[k][0] = loop->extent[1];
    loop->stride[k][1] = 1;
    for (uint32_t d = 2; d < loop->dims; d++) {
        loop->stride[k][d] = stride;
        stride *= loop->extent[d];
    }
}

/* A loop of such extents, or of any, whose arrays lie as the words say. */
static kiln__loop draw_loop_of(uint32_t dims, const char *words, const int64_t *extents)
{
    kiln__loop loop = { .dims = dims, .operands = 3, .outputs = 1, .count = 1 };
    const uint64_t most = dims == 1 ? 3000 : dims == 2 ? 60 : dims == 3 ? 14 : 3;
    for (uint32_t d = 0; d < dims; d++) {
        loop.extent[d] = extents != NULL ? extents[d] : 1 + (int64_t)loops_draw(most);
        loop.count *= (uint64_t)loop.extent[d];
    }
    for (uint32_t k = 0; k < 3; k++) {
        int64_t stride = words[k] == 'u' ? 1 : words[k] == 's' ? 0 : 2 + (int64_t)loops_draw(2);
        for (uint32_t d = 0; d < dims; d++) {
            stride += d > 0 ? (int64_t)loops_draw(3) : 0;
            loop.stride[k][d] = k > 0 && d > 0 && loops_draw(4) == 0 ? 0 : stride;
            stride = (stride > 0 ? stride : 1) * loop.extent[d];
        }
    }
    for (uint32_t k = 0; k < 3; k++)
        if (words[k] == 'c')
            cross(&loop, k);
    return loop;
}

static kiln__loop draw_loop(uint32_t dims, const char *words)
{
    return draw_loop_of(dims, words, NULL);
}

/* Whether the arrays hold the loop. */
static bool is_roomy(const kiln__loop *loop)
{
    for (uint32_t k = 0; k < loop->operands; k++)
        if (loops_at(loop, loop->count - 1).at[k] >= ELEMENTS)
            return false;
    return true;
}

static void check_entry(run_fn run, int entry, unsigned grid, const kiln__loop *loop)
{
    uint64_t view[KILN__VIEW_MAX];
    kiln__loop_view(loop, view);
    memset(out, 0xff, sizeof(out));
    run(entry, grid, out, in[0], in[1], view, loop->count);
    for (uint64_t i = 0; i < loop->count; i++) {
        loops_place place = loops_at(loop, i);
        ck_assert_int_lt(place.at[0], ELEMENTS);
        float want = in[0][place.at[1]] * 2048 + in[1][place.at[2]] * 16 + (float)(i % 13);
        ck_assert_msg(out[place.at[0]] == want, "entry %d, element %u of %u: %g, not %g", entry, (unsigned)i,
                      (unsigned)loop->count, (double)out[place.at[0]], (double)want);
    }
}

static const struct {
    const char *layout, *words;
    uint32_t dims;
} layouts[] = {
    { "1d(unit,any,same)", "uas", 1 },  { "2d(unit,any,unit)", "uau", 2 }, { "2d(any,same,any)", "asa", 2 },
    { "3d(unit,unit,same)", "uus", 3 }, { "5d(unit,any,any)", "uaa", 5 },  { "8d(unit,unit,any)", "uua", 8 },
};

START_TEST(test_strided__each_entry_computes_each_element)
{
    run_fn run = compile_layout(&strided, layouts[_i].layout);
    uint32_t words = 0;
    for (int round = 0; round < ROUNDS || words == 0; round++) {
        kiln__loop loop = draw_loop(layouts[_i].dims, layouts[_i].words);
        unsigned grid = (unsigned)((loop.count + TILE - 1) / TILE);
        if (loop.extent[0] % 2 == 0) {
            check_entry(run, 0, grid, &loop);
            words++;
        }
        check_entry(run, 1, grid, &loop);
        check_entry(run, 2, grid, &loop);
    }
}
END_TEST

static const struct {
    const char *layout, *words;
    uint32_t dims;
    int64_t extents[4];
} crossings[] = {
    { "2d(unit,cross,unit)", "ucu", 2, { 100, 70 } },      { "2d(unit,cross,cross)", "ucc", 2, { 32, 64 } },
    { "3d(unit,any,cross)", "uac", 3, { 17, 33, 5 } },     { "3d(any,same,cross)", "asc", 3, { 33, 16, 7 } },
    { "4d(unit,cross,same)", "ucs", 4, { 20, 40, 3, 2 } },
};

START_TEST(test_crossed__tiles_compute_each_element)
{
    const size_t layout = (size_t)_i / 3, text = (size_t)_i % 3;
    const int64_t vector = crossed_vectors[text], side = 32 * vector;
    run_fn run = compile_layout(&crossed[text], crossings[layout].layout);
    for (int round = 0, words = 0; round < ROUNDS || words == 0; round++) {
        kiln__loop loop;
        do
            loop = draw_loop_of(crossings[layout].dims, crossings[layout].words,
                                round == 0 ? crossings[layout].extents : NULL);
        while (!is_roomy(&loop));
        int64_t tiles = 1;
        for (uint32_t d = 0; d < loop.dims; d++)
            tiles *= d < 2 ? (loop.extent[d] + side - 1) / side : loop.extent[d];
        if (loop.extent[0] % vector == 0 && loop.extent[1] % vector == 0) {
            check_entry(run, 0, (unsigned)tiles, &loop);
            words++;
        }
        check_entry(run, 1, (unsigned)tiles, &loop);
    }
}
END_TEST

/* i / extent by a product of 32 bits, for i around multiples of the extent and at the ends. */
START_TEST(test_strided__divisions_are_exact_below_2_to_the_31)
{
    for (uint64_t round = 0; round < 200000; round++) {
        uint64_t view[KILN__VIEW_MAX];
        uint64_t extent = round < 3000 ? round + 1 : 1 + loops_draw(UINT64_C(1) << (1 + loops_draw(31)));
        extent = extent < INT32_MAX ? extent : INT32_MAX;
        kiln__loop loop = { .dims = 1, .extent = { (int64_t)extent } };
        kiln__loop_view(&loop, view);
        uint32_t magic = (uint32_t)view[1], shift = (uint32_t)(view[1] >> 32);
        uint64_t multiple = extent * (1 + loops_draw(INT32_MAX / extent));
        const uint64_t numbers[] = { 0, 1, multiple - 1, multiple, INT32_MAX, loops_draw(INT32_MAX) };
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
            uint32_t number = (uint32_t)(numbers[i] < INT32_MAX ? numbers[i] : INT32_MAX);
            uint32_t quotient = ((uint32_t)((uint64_t)number * magic >> 32) + number) >> shift;
            ck_assert_uint_eq(quotient, number / extent);
        }
    }
}
END_TEST

Suite *kiln_test_kernel_templates_strided_suite(void)
{
    Suite *suite = suite_create("strided");
    TCase *tcase = tcase_create("strided");
    kiln_test_temp_use(tcase);
    tcase_add_checked_fixture(tcase, open_service, close_service);
    tcase_add_loop_test(tcase, test_strided__each_entry_computes_each_element, 0, sizeof(layouts) / sizeof(layouts[0]));
    tcase_add_loop_test(tcase, test_crossed__tiles_compute_each_element, 0,
                        3 * sizeof(crossings) / sizeof(crossings[0]));
    tcase_add_test(tcase, test_strided__divisions_are_exact_below_2_to_the_31);
    suite_add_tcase(suite, tcase);
    return suite;
}
