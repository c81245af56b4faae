/* Checks of the programs that are whole algorithms: sorts, scans, sparse matrices, graphs, random numbers, tensor
 * cores. As in program_checks.c, sums in another order and transcendental functions have a bound. */
#include "programs.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 256 };

static int compare_ints(const void *a, const void *b)
{
    int first = *(const int *)a, second = *(const int *)b;
    return (first > second) - (first < second);
}

static void check_bitonic_sort(program_run *run)
{
    enum { RUNS = 37, SPAN = 2 * THREADS, COUNT = RUNS * SPAN };
    int *x = random_ints(run, COUNT, -1000, 1000);
    void *data = put(run, x, COUNT * sizeof(*x));
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.grid[0] = RUNS;
    grid.block[0] = THREADS;
    grid.shared_bytes = SPAN * sizeof(*x);
    launch_grid(run, "bitonic_sort", &grid, ARGUMENTS(&data));
    for (int i = 0; i < RUNS; i++)
        qsort(x + i * SPAN, SPAN, sizeof(*x), compare_ints);
    same(run, take(run, data, COUNT * sizeof(*x)), x, COUNT * sizeof(*x));
}

static void check_stencil(program_run *run)
{
    enum { NX = 333, NY = 201, AREA = NX * NY };
    const int nx = NX, ny = NY;
    const float r = 0.2f;
    float *u = random_floats(run, AREA, -1, 1);
    double *expected = room(run, AREA * sizeof(*expected));
    void *in = put(run, u, AREA * sizeof(*u)), *out = poisoned(run, AREA * sizeof(*u));
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.grid[0] = (NX + 31) / 32;
    grid.grid[1] = (NY + 7) / 8;
    grid.block[0] = 32;
    grid.block[1] = 8;
    launch_grid(run, "heat_step", &grid, ARGUMENTS(&in, &out, &nx, &ny, &r));
    for (int i = 0; i < AREA; i++) {
        int x = i % NX, y = i / NX;
        expected[i] = u[i];
        if (x > 0 && y > 0 && x < NX - 1 && y < NY - 1)
            expected[i] += (double)r * ((double)u[i - 1] + u[i + 1] + u[i - NX] + u[i + NX] - 4.0 * u[i]);
    }
    near(run, take(run, out, AREA * sizeof(*u)), expected, AREA, 1e-6, 1e-6);
}

static void check_spmv_csr(program_run *run)
{
    enum { ROWS = 1001, COLUMNS = 517, MOST = 90 };
    const int rows = ROWS;
    int *start = room(run, (ROWS + 1) * sizeof(*start)), *lengths = random_ints(run, ROWS, 0, MOST);
    for (int i = 0; i < ROWS; i++)
        start[i + 1] = start[i] + lengths[i];
    size_t count = (size_t)start[ROWS];
    int *columns = random_ints(run, count, 0, COLUMNS - 1);
    float *values = random_floats(run, count, 0.5f, 2), *x = random_floats(run, COLUMNS, 0.5f, 2);
    double *wide = room(run, count * sizeof(*wide)), *wide_x = room(run, COLUMNS * sizeof(*wide_x));
    double *expected = room(run, ROWS * sizeof(*expected));
    float *got = room(run, ROWS * sizeof(*got));
    for (size_t i = 0; i < count; i++)
        wide[i] = values[i];
    for (int i = 0; i < COLUMNS; i++)
        wide_x[i] = x[i];
    void *d_start = put(run, start, (ROWS + 1) * sizeof(*start)), *d_columns = put(run, columns, count * sizeof(int));
    void *d_values = put(run, wide, count * sizeof(*wide)), *d_x = put(run, wide_x, COLUMNS * sizeof(*wide_x));
    void *out = poisoned(run, ROWS * sizeof(double));
    launch(run, "spmv<double, int>", (ROWS * 32 + THREADS - 1) / THREADS, THREADS,
           ARGUMENTS(&rows, &d_start, &d_columns, &d_values, &d_x, &out));
    const double *result = take(run, out, ROWS * sizeof(*result));
    for (int i = 0; i < ROWS; i++) {
        for (int k = start[i]; k < start[i + 1]; k++)
            expected[i] += wide[k] * wide_x[columns[k]];
        got[i] = (float)result[i];
    }
    near(run, got, expected, ROWS, 0, 1e-7); /* the rounding to float */
}

static void check_scan(program_run *run)
{
    enum { SPAN = 2 * THREADS, BLOCKS = 21, COUNT = BLOCKS * SPAN - 100 };
    const int n = COUNT;
    uint32_t *x = (uint32_t *)random_ints(run, COUNT, 0, INT_MAX), *sums = room(run, COUNT * sizeof(*sums));
    uint32_t *totals = room(run, BLOCKS * sizeof(*totals));
    void *in = put(run, x, COUNT * sizeof(*x)), *out = poisoned(run, COUNT * sizeof(*x));
    void *ends = poisoned(run, BLOCKS * sizeof(*totals));
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.grid[0] = BLOCKS;
    grid.block[0] = THREADS;
    grid.shared_bytes = (SPAN + SPAN / 32) * sizeof(*x);
    launch_grid(run, "scan_blocks", &grid, ARGUMENTS(&in, &out, &ends, &n));
    for (int i = 0; i < COUNT; i++) {
        sums[i] = totals[i / SPAN];
        totals[i / SPAN] += x[i];
    }
    same(run, take(run, out, COUNT * sizeof(*x)), sums, COUNT * sizeof(*x));
    same(run, take(run, ends, BLOCKS * sizeof(*totals)), totals, BLOCKS * sizeof(*totals));
}

static void check_rmsnorm_fp16(program_run *run)
{
    enum { ROWS = 19, PAIRS = 1001, WIDTH = 2 * PAIRS, COUNT = ROWS * WIDTH };
    const int pairs = PAIRS;
    const float eps = 1e-5f;
    float *values = random_floats(run, COUNT, -3, 3), *scales = random_floats(run, WIDTH, 0.5f, 2);
    float *got = room(run, COUNT * sizeof(*got));
    uint16_t *x = room(run, COUNT * sizeof(*x)), *weight = room(run, WIDTH * sizeof(*weight));
    double *expected = room(run, COUNT * sizeof(*expected));
    for (int i = 0; i < COUNT; i++)
        x[i] = to_half(values[i]);
    for (int i = 0; i < WIDTH; i++)
        weight[i] = to_half(scales[i]);
    void *in = put(run, x, COUNT * sizeof(*x)), *by = put(run, weight, WIDTH * sizeof(*weight));
    void *out = poisoned(run, COUNT * sizeof(*x));
    launch(run, "rmsnorm_half<256>", ROWS, THREADS, ARGUMENTS(&in, &by, &out, &pairs, &eps));
    const uint16_t *result = take(run, out, COUNT * sizeof(*result));
    for (int row = 0; row < ROWS; row++) {
        double sum = 0;
        for (int i = row * WIDTH; i < (row + 1) * WIDTH; i++)
            sum += from_half(x[i]) * from_half(x[i]);
        for (int i = row * WIDTH; i < (row + 1) * WIDTH; i++) {
            expected[i] = from_half(x[i]) / sqrt(sum / WIDTH + eps) * from_half(weight[i % WIDTH]);
            got[i] = (float)from_half(result[i]);
        }
    }
    near(run, got, expected, COUNT, 1e-6, 0x1.01p-11);
}

static void check_rotary(program_run *run)
{
    enum { TOKENS = 33, HEADS = 5, DIM = 64, COUNT = TOKENS * HEADS * DIM };
    const int heads = HEADS, dim = DIM;
    const float base = 10000;
    float *x = random_floats(run, COUNT, -1, 1);
    int *positions = random_ints(run, TOKENS, 0, 500);
    double *expected = room(run, COUNT * sizeof(*expected));
    void *data = put(run, x, COUNT * sizeof(*x)), *at = put(run, positions, TOKENS * sizeof(*positions));
    launch(run, "rope", TOKENS, THREADS, ARGUMENTS(&data, &at, &heads, &dim, &base));
    for (int k = 0; k < COUNT / 2; k++) {
        int i = k % (DIM / 2), first = k / (DIM / 2) * DIM + i, second = first + DIM / 2;
        double angle = positions[first / (HEADS * DIM)] * pow(base, -2.0 * i / DIM);
        expected[first] = x[first] * cos(angle) - x[second] * sin(angle);
        expected[second] = x[second] * cos(angle) + x[first] * sin(angle);
    }
    /* The angle is a float of up to 500. */
    near(run, take(run, data, COUNT * sizeof(*x)), expected, COUNT, 3e-4, 0);
}

static void check_argmax(program_run *run)
{
    enum { COUNT = 100003 };
    const uint32_t n = COUNT;
    const unsigned long long nothing = 0;
    float *x = random_floats(run, COUNT, -2, -1);
    uint32_t best = 0, bits;
    x[77777] = x[55555] = x[88888] = -0.5f;
    void *in = put(run, x, COUNT * sizeof(*x)), *out = put(run, &nothing, sizeof(nothing));
    launch(run, "argmax", 40, THREADS, ARGUMENTS(&in, &n, &out));
    for (uint32_t i = 1; i < COUNT; i++)
        best = x[i] > x[best] ? i : best;
    memcpy(&bits, &x[best], sizeof(bits));
    uint64_t expected = (uint64_t)~bits << 32 | (uint32_t)~best;
    same(run, take(run, out, sizeof(expected)), &expected, sizeof(expected));
}

static void check_life(program_run *run)
{
    enum { WIDTH = 203, HEIGHT = 101, AREA = WIDTH * HEIGHT };
    const int width = WIDTH, height = HEIGHT;
    uint8_t *now = room(run, AREA), *next = room(run, AREA);
    const int *alive = random_ints(run, AREA, 0, 2);
    for (int i = 0; i < AREA; i++)
        now[i] = alive[i] == 0;
    void *in = put(run, now, AREA), *out = poisoned(run, AREA);
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.block[0] = 32;
    grid.block[1] = 4;
    grid.grid[0] = (WIDTH + 31) / 32;
    grid.grid[1] = (HEIGHT + 3) / 4;
    launch_grid(run, "life_step", &grid, ARGUMENTS(&in, &out, &width, &height));
    for (int i = 0; i < AREA; i++) {
        int around = -now[i];
        for (int k = 0; k < 9; k++)
            around += now[(i / WIDTH + k / 3 - 1 + HEIGHT) % HEIGHT * WIDTH + (i % WIDTH + k % 3 - 1 + WIDTH) % WIDTH];
        next[i] = around == 3 || (around == 2 && now[i]);
    }
    same(run, take(run, out, AREA), next, AREA);
}

static void check_philox(program_run *run)
{
    enum { COUNT = 30001 };
    const uint32_t n = COUNT;
    const uint64_t seed = 0x123456789abcdef0u;
    uint32_t *expected = room(run, COUNT * 4 * sizeof(*expected));
    void *out = poisoned(run, COUNT * 4 * sizeof(*expected));
    launch(run, "philox_fill", 40, THREADS, ARGUMENTS(&out, &n, &seed));
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t *c = expected + 4 * i, k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        c[0] = i;
        for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
            const uint32_t next[] = { (uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
                                      (uint32_t)p0 };
            memcpy(c, next, sizeof(next));
        }
    }
    same(run, take(run, out, COUNT * 4 * sizeof(*expected)), expected, COUNT * 4 * sizeof(*expected));
}

static void check_dp4a(program_run *run)
{
    enum { ROWS = 45, WORDS = 301, WIDTH = 4 * WORDS, COUNT = ROWS * WIDTH };
    const int rows = ROWS, words = WORDS;
    float *x = random_floats(run, COUNT, -4, 4), *scales = room(run, ROWS * sizeof(*scales));
    int8_t *q = room(run, COUNT);
    int *dots = room(run, ROWS * sizeof(*dots));
    void *in = put(run, x, COUNT * sizeof(*x)), *packed = poisoned(run, COUNT);
    void *by = poisoned(run, ROWS * sizeof(*scales)), *out = poisoned(run, ROWS * sizeof(*dots));
    launch(run, "quantize", ROWS, THREADS, ARGUMENTS(&in, &packed, &by, &words));
    launch(run, "dot_rows", 1, 64, ARGUMENTS(&packed, &out, &rows, &words));
    for (int row = 0; row < ROWS; row++) {
        float largest = 0;
        for (int i = row * WIDTH; i < (row + 1) * WIDTH; i++)
            largest = fmaxf(largest, fabsf(x[i]));
        scales[row] = largest / 127.0f;
        for (int i = row * WIDTH; i < (row + 1) * WIDTH; i++) {
            q[i] = (int8_t)nearbyintf(x[i] / scales[row]);
            dots[row] += q[i % WIDTH] * q[i];
        }
    }
    same(run, take(run, by, ROWS * sizeof(*scales)), scales, ROWS * sizeof(*scales));
    same(run, take(run, packed, COUNT), q, COUNT);
    same(run, take(run, out, ROWS * sizeof(*dots)), dots, ROWS * sizeof(*dots));
}

static void check_wmma(program_run *run)
{
    enum { M = 64, N = 48, K = 160 };
    const int m = M, n = N, k = K;
    float *random = random_floats(run, M * K + K * N, -1, 1);
    uint16_t *a = room(run, M * K * sizeof(*a)), *b = room(run, K * N * sizeof(*b));
    double *expected = room(run, M * N * sizeof(*expected));
    for (int i = 0; i < M * K; i++)
        a[i] = to_half(random[i]);
    for (int i = 0; i < K * N; i++)
        b[i] = to_half(random[M * K + i]);
    void *in_a = put(run, a, M * K * sizeof(*a)), *in_b = put(run, b, K * N * sizeof(*b));
    void *out = poisoned(run, M * N * sizeof(float));
    kiln_grid grid = KILN_INIT(kiln_grid);
    grid.grid[0] = N / 16;
    grid.grid[1] = M / 16;
    grid.block[0] = 32;
    launch_grid(run, "gemm_wmma", &grid, ARGUMENTS(&in_a, &in_b, &out, &m, &n, &k));
    for (int i = 0; i < M * N; i++)
        for (int j = 0; j < K; j++)
            expected[i] += from_half(a[i / N * K + j]) * from_half(b[j * N + i % N]);
    near(run, take(run, out, M * N * sizeof(float)), expected, M * N, 1e-4, 1e-5);
}

static void check_async_copy(program_run *run)
{
    enum { BLOCKS = 11, TILE = 128, TILES = 17, COUNT = BLOCKS * TILES * TILE * 4 };
    const int tiles = TILES;
    float *x = random_floats(run, COUNT, 0.5f, 2);
    double *expected = room(run, BLOCKS * TILE * sizeof(*expected));
    void *in = put(run, x, COUNT * sizeof(*x)), *out = poisoned(run, BLOCKS * TILE * sizeof(*x));
    launch(run, "tile_sums<128>", BLOCKS, TILE, ARGUMENTS(&in, &out, &tiles));
    for (int i = 0; i < COUNT; i++)
        expected[i / (TILES * TILE * 4) * TILE + i / 4 % TILE] += x[i];
    near(run, take(run, out, BLOCKS * TILE * sizeof(*x)), expected, BLOCKS * TILE, 0, 1e-5);
}

static void check_bfs(program_run *run)
{
    enum { NODES = 5003, DEGREE = 3 };
    const int nodes = NODES, nothing = 0;
    int *start = room(run, (NODES + 1) * sizeof(*start)), *edges = random_ints(run, NODES * DEGREE, 0, NODES - 1);
    int *expected = room(run, NODES * sizeof(*expected)), *queue = room(run, NODES * sizeof(*queue)), found = 1;
    for (int i = 0; i < NODES; i++) {
        start[i + 1] = (i + 1) * DEGREE;
        expected[i] = i == 0 ? 0 : INT_MAX;
    }
    void *d_start = put(run, start, (NODES + 1) * sizeof(*start)),
         *d_edges = put(run, edges, NODES * DEGREE * sizeof(int));
    void *distance = put(run, expected, NODES * sizeof(*expected));
    void *size = variable(run, "frontier_size", sizeof(int));
    int at = 0, reached = -1;
    for (int level = 0; reached != 0 && level < 100; level++) {
        copy_to(run, size, &nothing, sizeof(nothing));
        launch(run, "bfs_level", 8, THREADS, ARGUMENTS(&d_start, &d_edges, &distance, &nodes, &level));
        reached = *(const int *)take(run, size, sizeof(reached));
        int before = found;
        for (; at < before; at++)
            for (int e = start[queue[at]]; e < start[queue[at] + 1]; e++)
                if (expected[edges[e]] == INT_MAX) {
                    expected[edges[e]] = level + 1;
                    queue[found++] = edges[e];
                }
        int new_nodes = found - before;
        same(run, &reached, &new_nodes, sizeof(reached));
    }
    same(run, take(run, distance, NODES * sizeof(*expected)), expected, NODES * sizeof(*expected));
}

static void check_atomic_double(program_run *run)
{
    enum { COUNT = 20011, KEYS = 251 };
    const int n = COUNT;
    const int *random = random_ints(run, COUNT, 0, KEYS - 1);
    uint8_t *keys = room(run, COUNT);
    double *values = room(run, COUNT * sizeof(*values)), *sums = room(run, KEYS * sizeof(*sums));
    void *out = put(run, sums, KEYS * sizeof(*sums));
    for (int i = 0; i < COUNT; i++) {
        keys[i] = (uint8_t)random[i];
        values[i] = 1 + i % 1000; /* sums of whole numbers are exact in any order */
        sums[keys[i]] += values[i];
    }
    void *in_keys = put(run, keys, COUNT), *in = put(run, values, COUNT * sizeof(*values));
    launch(run, "sum_by_key<unsigned char>", (COUNT + THREADS - 1) / THREADS, THREADS,
           ARGUMENTS(&in_keys, &in, &out, &n));
    same(run, take(run, out, KEYS * sizeof(*sums)), sums, KEYS * sizeof(*sums));
}

static void check_tree_launch(program_run *run)
{
    enum { COUNT = 1000 };
    const int n = COUNT, depth = 0, none = 0;
    int *values = random_ints(run, COUNT, -1000000, 1000000);
    void *data = put(run, values, COUNT * sizeof(*values)), *launches = variable(run, "launches", sizeof(int));
    copy_to(run, launches, &none, sizeof(none));
    launch(run, "quicksort", 1, 1, ARGUMENTS(&data, &n, &depth));
    qsort(values, COUNT, sizeof(*values), compare_ints);
    same(run, take(run, data, COUNT * sizeof(*values)), values, COUNT * sizeof(*values));
    const int counted = *(const int *)take(run, launches, sizeof(counted)), expected = 1;
    const int several = counted > COUNT / 16;
    same(run, &several, &expected, sizeof(several));
}

static void check_two_files(program_run *run)
{
    enum { COUNT = 50021, BINS = 16 };
    const int n = COUNT;
    const unsigned begin = 3;
    int *values = random_ints(run, COUNT, -1000000, 1000000);
    unsigned *expected = room(run, BINS * sizeof(*expected));
    void *in = put(run, values, COUNT * sizeof(*values)), *bins = variable(run, "bins", BINS * sizeof(*expected));
    for (int i = 0; i < BINS; i++)
        expected[i] = begin;
    for (int i = 0; i < COUNT; i++)
        expected[(unsigned)values[i] * 2654435761u >> 28]++;
    launch(run, "reset_bins<16>", 1, THREADS, ARGUMENTS(&begin));
    launch(run, "count_bins", 8, THREADS, ARGUMENTS(&in, &n));
    same(run, take(run, bins, BINS * sizeof(*expected)), expected, BINS * sizeof(*expected));
}

static void check_lto_filter(program_run *run)
{
    enum { COUNT = 10007, ROUNDS = 7 };
    const int n = COUNT, rounds = ROUNDS;
    int *values = random_ints(run, COUNT, -1000000, 1000000);
    void *in = put(run, values, COUNT * sizeof(*values)), *out = poisoned(run, COUNT * sizeof(*values));
    launch(run, "hash_all", (COUNT + THREADS - 1) / THREADS, THREADS, ARGUMENTS(&in, &out, &n, &rounds));
    for (int i = 0; i < COUNT; i++)
        for (unsigned round = 0; round < ROUNDS; round++) {
            unsigned mixed = (unsigned)values[i] ^ round * 0x9e3779b9u;
            values[i] = (int)((mixed << 13 | mixed >> 19) * 5u + 0xe6546b64u);
        }
    same(run, take(run, out, COUNT * sizeof(*values)), values, COUNT * sizeof(*values));
}

const named_check algorithm_checks[] = {
    { "bitonic_sort", check_bitonic_sort },
    { "stencil", check_stencil },
    { "spmv_csr", check_spmv_csr },
    { "scan", check_scan },
    { "rmsnorm_fp16", check_rmsnorm_fp16 },
    { "rotary", check_rotary },
    { "argmax", check_argmax },
    { "life", check_life },
    { "philox", check_philox },
    { "dp4a", check_dp4a },
    { "wmma", check_wmma },
    { "async_copy", check_async_copy },
    { "bfs", check_bfs },
    { "atomic_double", check_atomic_double },
    { "tree_launch", check_tree_launch },
    { "two_files", check_two_files },
    { "lto_filter", check_lto_filter },
    { NULL, NULL },
};
