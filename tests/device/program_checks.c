/* A check of each program in tests/programs/: input that is not zero, a launch, and the same in C. What C computes
 * in the same steps must agree in all bits (fused where nvcc fuses); sums in another order and transcendental
 * functions have a bound. */
#include "programs.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Not a multiple of anything. */
enum { COUNT = 100003, THREADS = 256, BLOCKS = (COUNT + THREADS - 1) / THREADS };

static void check_relu(program_run *run)
{
    const int n = COUNT;
    float *x = random_floats(run, COUNT, -1, 1), *expected = room(run, COUNT * sizeof(float));
    void *in = put(run, x, COUNT * sizeof(*x)), *out = poisoned(run, COUNT * sizeof(*x));
    launch(run, "relu_kernel", BLOCKS, THREADS, ARGUMENTS(&in, &out, &n));
    for (int i = 0; i < COUNT; i++)
        expected[i] = x[i] > 0 ? x[i] : 0;
    same(run, take(run, out, COUNT * sizeof(*x)), expected, COUNT * sizeof(*x));
}

static void check_hardsigmoid(program_run *run)
{
    const int64_t n = COUNT;
    float *x = random_floats(run, COUNT, -5, 5), *expected = room(run, COUNT * sizeof(float));
    void *in = put(run, x, COUNT * sizeof(*x)), *out = poisoned(run, COUNT * sizeof(*x));
    launch(run, "hardsigmoid_kernel", BLOCKS, THREADS, ARGUMENTS(&in, &out, &n));
    for (int i = 0; i < COUNT; i++)
        expected[i] = fminf(fmaxf(x[i] + 3.0f, 0.0f), 6.0f) / 6.0f;
    same(run, take(run, out, COUNT * sizeof(*x)), expected, COUNT * sizeof(*x));
}

static void check_saxpy(program_run *run)
{
    const int n = COUNT;
    const float a = 1.7f;
    float *x = random_floats(run, COUNT, -1, 1), *y = random_floats(run, COUNT, -1, 1);
    void *in = put(run, x, COUNT * sizeof(*x)), *out = put(run, y, COUNT * sizeof(*y));
    launch(run, "saxpy", 40, THREADS, ARGUMENTS(&n, &a, &in, &out));
    for (int i = 0; i < COUNT; i++)
        y[i] = fmaf(a, x[i], y[i]);
    same(run, take(run, out, COUNT * sizeof(*y)), y, COUNT * sizeof(*y));
}

static void check_vector_add(program_run *run)
{
    const uint32_t n = COUNT; /* three more than a multiple of four */
    float *a = random_floats(run, COUNT, -1, 1), *b = random_floats(run, COUNT, -1, 1);
    void *in_a = put(run, a, COUNT * sizeof(*a)), *in_b = put(run, b, COUNT * sizeof(*b));
    void *out = poisoned(run, COUNT * sizeof(*a));
    launch(run, "add_vec4", (COUNT / 4 + THREADS - 1) / THREADS, THREADS, ARGUMENTS(&in_a, &in_b, &out, &n));
    for (int i = 0; i < COUNT; i++)
        a[i] += b[i];
    same(run, take(run, out, COUNT * sizeof(*a)), a, COUNT * sizeof(*a));
}

static void check_transpose(program_run *run)
{
    enum { WIDTH = 333, HEIGHT = 517, AREA = WIDTH * HEIGHT };
    const int width = WIDTH, height = HEIGHT;
    float *x = random_floats(run, AREA, -1, 1), *expected = room(run, AREA * sizeof(float));
    void *in = put(run, x, AREA * sizeof(*x)), *out = poisoned(run, AREA * sizeof(*x));
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.grid[0] = (WIDTH + 31) / 32;
    grid.grid[1] = (HEIGHT + 31) / 32;
    grid.block[0] = 32;
    grid.block[1] = 8;
    launch_grid(run, "transpose", &grid, ARGUMENTS(&out, &in, &width, &height));
    for (int i = 0; i < AREA; i++)
        expected[i % WIDTH * HEIGHT + i / WIDTH] = x[i];
    same(run, take(run, out, AREA * sizeof(*x)), expected, AREA * sizeof(*x));
}

static void check_matmul(program_run *run)
{
    enum { M = 70, N = 90, K = 123 };
    const int m = M, n = N, k = K;
    float *a = random_floats(run, M * K, -1, 1), *b = random_floats(run, K * N, -1, 1);
    float *expected = room(run, M * N * sizeof(float));
    void *in_a = put(run, a, M * K * sizeof(*a)), *in_b = put(run, b, K * N * sizeof(*b));
    void *out = poisoned(run, M * N * sizeof(*a));
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.grid[0] = (N + 15) / 16;
    grid.grid[1] = (M + 15) / 16;
    grid.block[0] = grid.block[1] = 16;
    launch_grid(run, "matmul_tiled", &grid, ARGUMENTS(&in_a, &in_b, &out, &m, &n, &k));
    for (int i = 0; i < M * N; i++)
        for (int j = 0; j < K; j++)
            expected[i] = fmaf(a[i / N * K + j], b[j * N + i % N], expected[i]);
    same(run, take(run, out, M * N * sizeof(*a)), expected, M * N * sizeof(*a));
}

static void check_softmax(program_run *run)
{
    enum { ROWS = 50, COLUMNS = 1001 };
    const int columns = COLUMNS;
    float *x = random_floats(run, ROWS * COLUMNS, -8, 8);
    double *expected = room(run, ROWS * COLUMNS * sizeof(*expected));
    void *in = put(run, x, ROWS * COLUMNS * sizeof(*x)), *out = poisoned(run, ROWS * COLUMNS * sizeof(*x));
    launch(run, "softmax_kernel", ROWS, THREADS, ARGUMENTS(&in, &out, &columns));
    for (int row = 0; row < ROWS; row++) {
        double sum = 0;
        for (int i = row * COLUMNS; i < (row + 1) * COLUMNS; i++)
            sum += expected[i] = exp((double)x[i]);
        for (int i = row * COLUMNS; i < (row + 1) * COLUMNS; i++)
            expected[i] /= sum;
    }
    near(run, take(run, out, ROWS * COLUMNS * sizeof(*x)), expected, ROWS * COLUMNS, 1e-12, 4e-6);
}

static void check_layernorm(program_run *run)
{
    enum { ROWS = 20, HIDDEN = 15001 }; /* 61,028 bytes of shared memory, more than a launch has unasked */
    const int hidden = HIDDEN;
    const float eps = 1e-5f;
    float *x = random_floats(run, ROWS * HIDDEN, -3, 5), *gamma = random_floats(run, HIDDEN, 0.5f, 2);
    float *beta = random_floats(run, HIDDEN, -1, 1);
    double *expected = room(run, ROWS * HIDDEN * sizeof(*expected));
    void *in = put(run, x, ROWS * HIDDEN * sizeof(*x)), *out = poisoned(run, ROWS * HIDDEN * sizeof(*x));
    void *in_gamma = put(run, gamma, HIDDEN * sizeof(*gamma)), *in_beta = put(run, beta, HIDDEN * sizeof(*beta));
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.grid[0] = ROWS;
    grid.block[0] = THREADS;
    grid.shared_bytes = (HIDDEN + THREADS) * sizeof(float);
    launch_grid(run, "layernorm_forward", &grid, ARGUMENTS(&in, &in_gamma, &in_beta, &out, &hidden, &eps));
    for (int row = 0; row < ROWS; row++) {
        double mean = 0, square = 0;
        const float *from = x + row * HIDDEN;
        for (int i = 0; i < HIDDEN; i++)
            mean += (double)from[i] / HIDDEN;
        for (int i = 0; i < HIDDEN; i++)
            square += (from[i] - mean) * (from[i] - mean) / HIDDEN;
        for (int i = 0; i < HIDDEN; i++)
            expected[row * HIDDEN + i] =
                (from[i] - mean) / sqrt(square + (double)eps) * (double)gamma[i] + (double)beta[i];
    }
    near(run, take(run, out, ROWS * HIDDEN * sizeof(*x)), expected, ROWS * HIDDEN, 1e-5, 1e-5);
}

static void check_block_reduce(program_run *run)
{
    enum { PARTS = 7 };
    const int n = COUNT;
    float *x = random_floats(run, COUNT, 0, 1);
    int *whole = random_ints(run, COUNT, -20000, 20000), sums[PARTS] = { 0 };
    double expected[PARTS] = { 0 };
    void *in = put(run, x, COUNT * sizeof(*x)), *out = poisoned(run, PARTS * sizeof(*x));
    void *in_whole = put(run, whole, COUNT * sizeof(*whole)), *out_whole = poisoned(run, sizeof(sums));
    launch(run, "block_sum<float, 128>", PARTS, 128, ARGUMENTS(&in, &out, &n));
    launch(run, "block_sum<int, 256>", PARTS, 256, ARGUMENTS(&in_whole, &out_whole, &n));
    for (int i = 0; i < COUNT; i++) {
        expected[i / 128 % PARTS] += (double)x[i];
        sums[i / 256 % PARTS] += whole[i];
    }
    near(run, take(run, out, PARTS * sizeof(*x)), expected, PARTS, 0, 1e-5);
    same(run, take(run, out_whole, sizeof(sums)), sums, sizeof(sums));
}

static void check_warp_scan(program_run *run)
{
    enum { SOME = 128 * 50 };
    int *x = random_ints(run, SOME, -1000, 1000);
    void *in = put(run, x, SOME * sizeof(*x)), *out = poisoned(run, SOME * sizeof(*x));
    launch(run, "warp_inclusive_scan", SOME / 128, 128, ARGUMENTS(&in, &out));
    for (int i = 0; i < SOME; i++)
        x[i] += i % 32 > 0 ? x[i - 1] : 0;
    same(run, take(run, out, SOME * sizeof(*x)), x, SOME * sizeof(*x));
}

static void check_tiled_partition(program_run *run)
{
    enum { TILES = BLOCKS * THREADS / 16 };
    const int n = COUNT;
    int *x = random_ints(run, COUNT, 0, 1000), *expected = room(run, TILES * sizeof(int));
    unsigned long long total = 0;
    void *in = put(run, x, COUNT * sizeof(*x)), *tiles = poisoned(run, TILES * sizeof(*expected));
    void *sum = put(run, &total, sizeof(total));
    launch(run, "reduce_tiles", BLOCKS, THREADS, ARGUMENTS(&in, &tiles, &sum, &n));
    for (int i = 0; i < COUNT; i++) {
        expected[i / 16] += x[i];
        total += (unsigned long long)x[i];
    }
    same(run, take(run, tiles, TILES * sizeof(*expected)), expected, TILES * sizeof(*expected));
    same(run, take(run, sum, sizeof(total)), &total, sizeof(total));
}

static void check_grid_sync(program_run *run)
{
    enum { ROUNDS = 9 };
    const int n = COUNT, rounds = ROUNDS;
    unsigned *a = (unsigned *)random_ints(run, COUNT, 1, 1 << 30), *b = room(run, COUNT * sizeof(*b));
    void *first = put(run, a, COUNT * sizeof(*a)), *second = poisoned(run, COUNT * sizeof(*b));
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.grid[0] = 32;
    grid.block[0] = THREADS;
    grid.cooperative = 1;
    launch_grid(run, "neighbours", &grid, ARGUMENTS(&first, &second, &n, &rounds));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            b[i] = a[i] + a[(i + 1) % COUNT];
        unsigned *other = a;
        a = b;
        b = other;
    }
    same(run, take(run, second, COUNT * sizeof(*a)), a, COUNT * sizeof(*a)); /* after an odd number of rounds */
}

static void check_cluster(program_run *run)
{
    enum { GROUPS = 6, SIZE = 4, SOME = GROUPS * SIZE * 128 };
    int *x = random_ints(run, SOME, -1000, 1000), *expected = room(run, SOME * sizeof(int));
    void *in = put(run, x, SOME * sizeof(*x)), *out = poisoned(run, SOME * sizeof(*x));
    launch(run, "cluster_sum", GROUPS * SIZE, 128, ARGUMENTS(&in, &out));
    for (int i = 0; i < SOME; i++)
        for (int block = 0; block < SIZE; block++)
            expected[i] += x[i / (SIZE * 128) * (SIZE * 128) + block * 128 + i % 128];
    same(run, take(run, out, SOME * sizeof(*x)), expected, SOME * sizeof(*x));
}

static void check_polynomial(program_run *run)
{
    const int n = COUNT, degree = 5;
    const float coefficients[8] = { 1.5f, -2.25f, 0.7f, 0.1f, -0.9f, 0.33f, 1e9f, 1e9f };
    float *x = random_floats(run, COUNT, -2, 2), *expected = room(run, COUNT * sizeof(float));
    void *in = put(run, x, COUNT * sizeof(*x)), *out = poisoned(run, COUNT * sizeof(*x));
    copy_to(run, variable(run, "coeffs", sizeof(coefficients)), coefficients, sizeof(coefficients));
    copy_to(run, variable(run, "degree", sizeof(degree)), &degree, sizeof(degree));
    launch(run, "eval_poly", BLOCKS, THREADS, ARGUMENTS(&in, &out, &n));
    for (int i = 0; i < COUNT; i++) {
        expected[i] = coefficients[degree];
        for (int k = degree - 1; k >= 0; k--)
            expected[i] = fmaf(expected[i], x[i], coefficients[k]);
    }
    same(run, take(run, out, COUNT * sizeof(*x)), expected, COUNT * sizeof(*x));
}

static void check_histogram(program_run *run)
{
    enum { BINS = 256 };
    const size_t n = COUNT;
    unsigned expected[BINS] = { 0 };
    int *values = random_ints(run, COUNT, 0, 255);
    uint8_t *bytes = room(run, COUNT);
    for (int i = 0; i < COUNT; i++)
        expected[bytes[i] = (uint8_t)(values[i] & values[i] >> 1)]++; /* some much oftener than others */
    unsigned zeros[BINS] = { 0 };
    void *in = put(run, bytes, COUNT), *out = put(run, zeros, sizeof(zeros));
    launch(run, "histogram_smem_atomics", 30, THREADS, ARGUMENTS(&in, &n, &out));
    same(run, take(run, out, sizeof(expected)), expected, sizeof(expected));
}

static uint16_t *halves(program_run *run, const float *values, size_t count)
{
    uint16_t *bits = room(run, count * sizeof(*bits));
    for (size_t i = 0; i < count; i++)
        bits[i] = to_half((double)values[i]);
    return bits;
}

static void check_half2_add(program_run *run)
{
    const int n = COUNT;
    uint16_t *a = halves(run, random_floats(run, COUNT, -4, 4), COUNT);
    uint16_t *b = halves(run, random_floats(run, COUNT, -4, 4), COUNT);
    void *in_a = put(run, a, COUNT * sizeof(*a)), *in_b = put(run, b, COUNT * sizeof(*b));
    void *out = poisoned(run, COUNT * sizeof(*a));
    launch(run, "add_half2", (COUNT / 2 + THREADS) / THREADS, THREADS, ARGUMENTS(&in_a, &in_b, &out, &n));
    for (int i = 0; i < COUNT; i++)
        a[i] = to_half(from_half(a[i]) + from_half(b[i]));
    same(run, take(run, out, COUNT * sizeof(*a)), a, COUNT * sizeof(*a));
}

static void check_gelu_bf16(program_run *run)
{
    const int n = COUNT;
    float *x = random_floats(run, COUNT, -4, 4), *got = room(run, COUNT * sizeof(*got));
    uint16_t *bits = room(run, COUNT * sizeof(*bits));
    double *expected = room(run, COUNT * sizeof(*expected));
    for (int i = 0; i < COUNT; i++) {
        bits[i] = to_bfloat16(x[i]);
        double value = (double)from_bfloat16(bits[i]);
        expected[i] = value * 0.5 * (1 + erf(value * sqrt(0.5)));
    }
    void *in = put(run, bits, COUNT * sizeof(*bits)), *out = poisoned(run, COUNT * sizeof(*bits));
    launch(run, "gelu_bf16", BLOCKS, THREADS, ARGUMENTS(&in, &out, &n));
    const uint16_t *raw = take(run, out, COUNT * sizeof(*bits));
    for (int i = 0; i < COUNT; i++)
        got[i] = from_bfloat16(raw[i]);
    near(run, got, expected, COUNT, 1e-6, 0x1.01p-8); /* half a unit of bfloat16, and what erff is off by */
}

static void check_scale(program_run *run)
{
    const size_t n = COUNT;
    const float factor = 1.1f;
    const double wide_factor = -1.1;
    float *x = random_floats(run, COUNT, -1, 1);
    double *wide = room(run, COUNT * sizeof(*wide));
    for (int i = 0; i < COUNT; i++)
        wide[i] = (double)x[i] / 3;
    void *data = put(run, x, COUNT * sizeof(*x)), *wide_data = put(run, wide, COUNT * sizeof(*wide));
    launch(run, "scale<float, 4>", BLOCKS, THREADS / 4, ARGUMENTS(&data, &factor, &n));
    launch(run, "scale<double, 2>", BLOCKS, THREADS / 2, ARGUMENTS(&wide_data, &wide_factor, &n));
    for (int i = 0; i < COUNT; i++) {
        x[i] *= factor;
        wide[i] *= wide_factor;
    }
    same(run, take(run, data, COUNT * sizeof(*x)), x, COUNT * sizeof(*x));
    same(run, take(run, wide_data, COUNT * sizeof(*wide)), wide, COUNT * sizeof(*wide));
}

typedef struct vector {
    float x, y, z;
} vector;

static void check_particles(program_run *run)
{
    const struct {
        float dt;
        vector gravity;
        int count;
        bool bounce;
        double floor;
    } p = { 0.01f, { 0.1f, -0.2f, -9.81f }, COUNT, true, 0.25 };
    vector *at = (vector *)random_floats(run, 3 * (size_t)COUNT, 0, 1);
    vector *speed = (vector *)random_floats(run, 3 * (size_t)COUNT, -5, 5);
    void *positions = put(run, at, COUNT * sizeof(*at)), *speeds = put(run, speed, COUNT * sizeof(*speed));
    launch(run, "integrate", BLOCKS, THREADS, ARGUMENTS(&positions, &speeds, &p));
    for (int i = 0; i < COUNT; i++) {
        vector *v = &speed[i], *x = &at[i];
        *v = (vector){ fmaf(p.dt, p.gravity.x, v->x), fmaf(p.dt, p.gravity.y, v->y), fmaf(p.dt, p.gravity.z, v->z) };
        *x = (vector){ fmaf(p.dt, v->x, x->x), fmaf(p.dt, v->y, x->y), fmaf(p.dt, v->z, x->z) };
        if ((double)x->z < p.floor) {
            x->z = (float)p.floor;
            v->z = -v->z;
        }
    }
    same(run, take(run, positions, COUNT * sizeof(*at)), at, COUNT * sizeof(*at));
    same(run, take(run, speeds, COUNT * sizeof(*speed)), speed, COUNT * sizeof(*speed));
}

/* First with the threshold that the program has, then with another one. */
static void check_counter(program_run *run)
{
    const int n = COUNT;
    const float other = -0.5f;
    float *x = random_floats(run, COUNT, -1, 1);
    unsigned expected[2] = { 0 };
    void *in = put(run, x, COUNT * sizeof(*x)), *counter = variable(run, "counter", sizeof(unsigned));
    launch(run, "count_above", BLOCKS, THREADS, ARGUMENTS(&in, &n));
    for (int i = 0; i < COUNT; i++) {
        expected[0] += x[i] > 0.25f;
        expected[1] += x[i] > 0.25f;
        expected[1] += x[i] > other;
    }
    same(run, take(run, counter, sizeof(unsigned)), &expected[0], sizeof(unsigned));
    copy_to(run, variable(run, "threshold", sizeof(other)), &other, sizeof(other));
    launch(run, "count_above", BLOCKS, THREADS, ARGUMENTS(&in, &n));
    same(run, take(run, counter, sizeof(unsigned)), &expected[1], sizeof(unsigned));
}

static void check_compact(program_run *run)
{
    enum { WARPS = 800, SOME = 32 * WARPS };
    int *x = random_ints(run, SOME, -100, 100), *expected = room(run, SOME * sizeof(int));
    unsigned *counts = room(run, WARPS * sizeof(*counts));
    memset(expected, POISON, SOME * sizeof(*expected)); /* what is left out stays as it was */
    void *in = put(run, x, SOME * sizeof(*x)), *out = poisoned(run, SOME * sizeof(*x));
    void *numbers = poisoned(run, WARPS * sizeof(*counts));
    launch(run, "compact_warp", SOME / THREADS, THREADS, ARGUMENTS(&in, &out, &numbers));
    for (int i = 0; i < SOME; i++)
        if (x[i] > 0)
            expected[i / 32 * 32 + (int)counts[i / 32]++] = x[i];
    same(run, take(run, out, SOME * sizeof(*x)), expected, SOME * sizeof(*x));
    same(run, take(run, numbers, WARPS * sizeof(*counts)), counts, WARPS * sizeof(*counts));
}

static void check_dot_fp16(program_run *run)
{
    const int n = COUNT;
    const float zero = 0;
    uint16_t *a = halves(run, random_floats(run, COUNT, 0, 1), COUNT);
    uint16_t *b = halves(run, random_floats(run, COUNT, 0, 1), COUNT);
    double expected = 0;
    void *in_a = put(run, a, COUNT * sizeof(*a)), *in_b = put(run, b, COUNT * sizeof(*b));
    void *out = put(run, &zero, sizeof(zero));
    launch(run, "dot_half", 64, THREADS, ARGUMENTS(&in_a, &in_b, &out, &n));
    for (int i = 0; i < COUNT; i++)
        expected += from_half(a[i]) * from_half(b[i]);
    near(run, take(run, out, sizeof(zero)), &expected, 1, 0, 1e-5);
}

static void check_index64(program_run *run)
{
    enum { SIZE = 1 << 20 };
    const int64_t n = COUNT, bias = (int64_t)5 << 32;
    int *where = random_ints(run, COUNT, 0, SIZE - 1);
    int64_t *offsets = room(run, COUNT * sizeof(*offsets));
    uint8_t *base = room(run, SIZE), *expected = room(run, COUNT);
    for (int i = 0; i < SIZE; i++)
        base[i] = (uint8_t)((unsigned)i * 2654435761u >> 24);
    for (int i = 0; i < COUNT; i++) {
        offsets[i] = where[i] + bias;
        expected[i] = base[where[i]];
    }
    void *from = put(run, base, SIZE), *in = put(run, offsets, COUNT * sizeof(*offsets)), *out = poisoned(run, COUNT);
    launch(run, "gather64", BLOCKS, THREADS, ARGUMENTS(&from, &in, &out, &n, &bias));
    same(run, take(run, out, COUNT), expected, COUNT);
}

static void check_functor(program_run *run)
{
    const int n = COUNT;
    const float shift = 0.3f;
    float *x = random_floats(run, COUNT, -2, 2), *y = random_floats(run, COUNT, -2, 2);
    void *squares = put(run, x, COUNT * sizeof(*x)), *clamped = put(run, y, COUNT * sizeof(*y));
    launch(run, "transform<Square>", 50, THREADS, ARGUMENTS(&squares, &n, &shift));
    launch(run, "transform<ClampTo>", 50, THREADS, ARGUMENTS(&clamped, &n, &shift));
    for (int i = 0; i < COUNT; i++) {
        x[i] = fmaf(x[i], x[i], shift);
        y[i] = fminf(fmaxf(y[i], -0.5f), 0.5f) + shift;
    }
    same(run, take(run, squares, COUNT * sizeof(*x)), x, COUNT * sizeof(*x));
    same(run, take(run, clamped, COUNT * sizeof(*y)), y, COUNT * sizeof(*y));
}

static void check_headers(program_run *run)
{
    const int n = COUNT;
    float *v = random_floats(run, 2 * (size_t)COUNT, -3, 3);
    double *expected = room(run, COUNT * sizeof(*expected));
    void *in = put(run, v, 2 * (size_t)COUNT * sizeof(*v)), *out = poisoned(run, COUNT * sizeof(*v));
    launch(run, "lengths", BLOCKS, THREADS, ARGUMENTS(&in, &out, &n));
    for (int i = 0; i < COUNT; i++)
        expected[i] = 2 * hypot((double)v[2 * i], (double)v[2 * i + 1]);
    near(run, take(run, out, COUNT * sizeof(*v)), expected, COUNT, 0, 3e-7);
}

static void check_bounded(program_run *run)
{
    enum { PARTS = 9 };
    const int n = COUNT;
    int *x = random_ints(run, COUNT, -2000000000, 2000000000), smallest[PARTS];
    void *in = put(run, x, COUNT * sizeof(*x)), *out = poisoned(run, sizeof(smallest));
    launch(run, "block_min", PARTS, THREADS, ARGUMENTS(&in, &out, &n));
    for (int i = 0; i < COUNT; i++) {
        int *part = &smallest[i / THREADS % PARTS];
        if (i < PARTS * THREADS && i % THREADS == 0)
            *part = x[i];
        *part = x[i] < *part ? x[i] : *part;
    }
    same(run, take(run, out, sizeof(smallest)), smallest, sizeof(smallest));
}

static void check_inline_ptx(program_run *run)
{
    const int n = COUNT;
    uint32_t *x = (uint32_t *)random_ints(run, COUNT, -2000000000, 2000000000);
    void *in = put(run, x, COUNT * sizeof(*x)), *out = poisoned(run, COUNT * sizeof(*x));
    launch(run, "mix", BLOCKS, THREADS, ARGUMENTS(&in, &out, &n));
    for (uint32_t i = 0; i < COUNT; i++)
        x[i] ^= __builtin_bswap32(x[i]) ^ i % 32;
    same(run, take(run, out, COUNT * sizeof(*x)), x, COUNT * sizeof(*x));
}

static void check_print(program_run *run)
{
    enum { SOME = 4000 };
    const int n = SOME;
    float *x = random_floats(run, SOME, -1, 1);
    int *expected = room(run, SOME * sizeof(*expected));
    void *in = put(run, x, SOME * sizeof(*x)), *lines = poisoned(run, SOME * sizeof(*expected));
    launch(run, "report", (SOME + THREADS - 1) / THREADS, THREADS, ARGUMENTS(&in, &lines, &n));
    for (int i = 0; i < SOME; i++)
        expected[i] = x[i] < 0;
    same(run, take(run, lines, SOME * sizeof(*expected)), expected, SOME * sizeof(*expected));
}

const named_check program_checks[] = {
    { "relu", check_relu },
    { "hardsigmoid", check_hardsigmoid },
    { "saxpy", check_saxpy },
    { "vector_add", check_vector_add },
    { "transpose", check_transpose },
    { "matmul", check_matmul },
    { "softmax", check_softmax },
    { "layernorm", check_layernorm },
    { "block_reduce", check_block_reduce },
    { "warp_scan", check_warp_scan },
    { "tiled_partition", check_tiled_partition },
    { "grid_sync", check_grid_sync },
    { "cluster", check_cluster },
    { "polynomial", check_polynomial },
    { "histogram", check_histogram },
    { "half2_add", check_half2_add },
    { "gelu_bf16", check_gelu_bf16 },
    { "scale", check_scale },
    { "particles", check_particles },
    { "counter", check_counter },
    { "compact", check_compact },
    { "dot_fp16", check_dot_fp16 },
    { "index64", check_index64 },
    { "functor", check_functor },
    { "headers", check_headers },
    { "bounded", check_bounded },
    { "inline_ptx", check_inline_ptx },
    { "print", check_print },
    { NULL, NULL },
};
