/* Checks of the programs that rely on what nvcc's users take for granted: headers of the C++ library and of Thrust,
 * names without an include, helpers without annotation. As in program_checks.c, transcendental functions have a
 * bound. */
#include "programs.h"
#include <complex.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { COUNT = 10007, THREADS = 128, BLOCKS = (COUNT + THREADS - 1) / THREADS };

static void check_version(program_run *run)
{
    const int n = COUNT, current = 1;
    int *x = random_ints(run, COUNT, -1000, 1000), *expected = room(run, COUNT * sizeof(*x));
    void *in = put(run, x, COUNT * sizeof(*x)), *out = poisoned(run, COUNT * sizeof(*x));
    void *version = poisoned(run, sizeof(int));
    launch(run, "differences", BLOCKS, THREADS, ARGUMENTS(&in, &out, &version, &n));
    for (int i = 0; i < COUNT; i++)
        expected[i] = i % 32 == 31 ? x[i] : (i + 1 < COUNT ? x[i + 1] : 0) - x[i];
    same(run, take(run, out, COUNT * sizeof(*x)), expected, COUNT * sizeof(*x));
    same(run, take(run, version, sizeof(current)), &current, sizeof(current));
}

static void check_infinity(program_run *run)
{
    enum { ROWS = 999, COLS = 7, AREA = ROWS * COLS };
    const uint32_t rows = ROWS, cols = COLS;
    float *x = random_floats(run, AREA, -1, 1), *expected = room(run, ROWS * sizeof(*expected));
    int *chosen = random_ints(run, AREA, 0, 3);
    uint8_t *mask = room(run, AREA);
    for (int i = 0; i < AREA; i++)
        mask[i] = chosen[i] == 0 && i / COLS % 5 != 0;
    void *in = put(run, x, AREA * sizeof(*x)), *in_mask = put(run, mask, AREA);
    void *out = poisoned(run, ROWS * sizeof(*x));
    launch(run, "masked_max", (ROWS + THREADS - 1) / THREADS, THREADS, ARGUMENTS(&in, &in_mask, &out, &rows, &cols));
    for (int row = 0; row < ROWS; row++) {
        float best = -INFINITY;
        for (int i = row * COLS; i < (row + 1) * COLS; i++)
            best = mask[i] && x[i] > best ? x[i] : best;
        expected[row] = best == -INFINITY ? NAN : fminf(best, 0.5f);
    }
    same(run, take(run, out, ROWS * sizeof(*x)), expected, ROWS * sizeof(*x));
}

static void check_helpers(program_run *run)
{
    const int n = COUNT;
    const float gain = 1.3f;
    float *x = random_floats(run, 3 * COUNT, -0.2f, 1), *expected = room(run, COUNT * sizeof(*x));
    void *in = put(run, x, 3 * COUNT * sizeof(*x)), *out = poisoned(run, COUNT * sizeof(*x));
    launch(run, "grey", BLOCKS, THREADS, ARGUMENTS(&in, &out, &gain, &n));
    for (int i = 0; i < COUNT; i++) {
        const float r = x[3 * i] * gain, g = x[3 * i + 1] * gain, b = x[3 * i + 2] * gain;
        const float sum = fmaf(0.25f, r, fmaf(0.5f, g, 0.25f * b));
        expected[i] = sum < 0 ? 0 : sum > 1 ? 1 : sum;
    }
    same(run, take(run, out, COUNT * sizeof(*x)), expected, COUNT * sizeof(*x));
}

static void check_own_types(program_run *run)
{
    enum { RECORDS = 500, LIMIT = 20 };
    const uint32_t n = RECORDS, limit = LIMIT;
    int *lengths = random_ints(run, RECORDS, 0, 30);
    uint32_t *ends = room(run, RECORDS * sizeof(*ends)), total = 0;
    for (int i = 0; i < RECORDS; i++)
        ends[i] = total += (uint32_t)lengths[i];
    uint8_t *bytes = (uint8_t *)random_ints(run, total, INT_MIN, INT_MAX);
    uint64_t *expected = room(run, RECORDS * sizeof(*expected));
    void *in = put(run, bytes, total), *in_ends = put(run, ends, RECORDS * sizeof(*ends));
    void *out = poisoned(run, RECORDS * sizeof(*expected));
    launch(run, "hash_records", (RECORDS + THREADS - 1) / THREADS, THREADS, ARGUMENTS(&in, &in_ends, &out, &n, &limit));
    for (int i = 0; i < RECORDS; i++) {
        const uint32_t begin = i > 0 ? ends[i - 1] : 0, end = lengths[i] > LIMIT ? begin + LIMIT : ends[i];
        uint64_t hash = 14695981039346656037u;
        for (uint32_t k = begin; k < end; k++)
            hash = (hash ^ bytes[k]) * 1099511628211u;
        expected[i] = begin == end ? 0xffffffffu : hash;
    }
    same(run, take(run, out, RECORDS * sizeof(*expected)), expected, RECORDS * sizeof(*expected));
}

static void check_marked(program_run *run)
{
    const int n = COUNT;
    int *x = random_ints(run, COUNT, -1000000, 1000000);
    void *in = put(run, x, COUNT * sizeof(*x)), *out = poisoned(run, COUNT * sizeof(*x));
    launch(run, "negate", BLOCKS, THREADS, ARGUMENTS(&in, &out, &n));
    for (int i = 0; i < COUNT; i++)
        x[i] = -x[i];
    same(run, take(run, out, COUNT * sizeof(*x)), x, COUNT * sizeof(*x));
}

static void check_formats(program_run *run)
{
    enum { SUMS = 3000, WRONG = 1234 };
    const int n = SUMS;
    uint64_t *sums = (uint64_t *)random_ints(run, 2 * SUMS, INT_MIN, INT_MAX);
    int *expected = room(run, SUMS * sizeof(*expected));
    void *in = put(run, sums, SUMS * sizeof(*sums)), *bad = poisoned(run, SUMS * sizeof(*expected));
    expected[WRONG] = 1;
    sums[WRONG] ^= 1ull << 40;
    void *right = put(run, sums, SUMS * sizeof(*sums));
    launch(run, "check_sums", (SUMS + THREADS - 1) / THREADS, THREADS, ARGUMENTS(&in, &right, &bad, &n));
    same(run, take(run, bad, SUMS * sizeof(*expected)), expected, SUMS * sizeof(*expected));
}

static double complex to_complex(const float *at)
{
    return at[0] + at[1] * I;
}

static void store_complex(double *at, double complex z)
{
    at[0] = creal(z);
    at[1] = cimag(z);
}

static void check_quadratic(program_run *run)
{
    enum { EQUATIONS = 3001 };
    const int n = EQUATIONS;
    float *p = random_floats(run, 2 * EQUATIONS, -2, 2), *q = random_floats(run, 2 * EQUATIONS, -2, 2);
    double *expected = room(run, 4 * EQUATIONS * sizeof(*expected));
    for (int i = 0; i < EQUATIONS; i++) {
        double complex b, d;
        for (bool sound = false; !sound; p[2 * i] += sound ? 0 : 0.5f) { /* the sign of d and its root are well known */
            b = to_complex(p + 2 * i);
            d = csqrt(b * b - 4 * to_complex(q + 2 * i));
            sound = cabs(d) > 0.05 && fabs(creal(conj(b) * d)) > 0.001;
        }
        double complex first = ((creal(conj(b) * d) > 0 ? -d : d) - b) / 2;
        store_complex(expected + 4 * i, first);
        store_complex(expected + 4 * i + 2, to_complex(q + 2 * i) / first);
    }
    void *in_p = put(run, p, 2 * EQUATIONS * sizeof(*p)), *in_q = put(run, q, 2 * EQUATIONS * sizeof(*q));
    void *out = poisoned(run, 4 * EQUATIONS * sizeof(*p));
    launch(run, "roots", (EQUATIONS + THREADS - 1) / THREADS, THREADS, ARGUMENTS(&in_p, &in_q, &out, &n));
    near(run, take(run, out, 4 * EQUATIONS * sizeof(*p)), expected, 4 * EQUATIONS, 1e-4, 1e-5);
}

static void check_median(program_run *run)
{
    enum { SAMPLES = 5003, WINDOW = 9 };
    const int n = SAMPLES;
    int *x = random_ints(run, SAMPLES, 0, 50);
    int *medians = room(run, SAMPLES * sizeof(*medians)), *least = room(run, SAMPLES * sizeof(*least));
    void *in = put(run, x, SAMPLES * sizeof(*x));
    void *out = poisoned(run, SAMPLES * sizeof(*x)), *out_least = poisoned(run, SAMPLES * sizeof(*x));
    launch(run, "median", (SAMPLES + THREADS - 1) / THREADS, THREADS, ARGUMENTS(&in, &out, &out_least, &n));
    for (int i = 0; i < SAMPLES; i++) {
        int places[WINDOW];
        for (int k = 0; k < WINDOW; k++) {
            int place = i + k - WINDOW / 2, at = k;
            place = place < 0 ? 0 : place >= SAMPLES ? SAMPLES - 1 : place;
            for (; at > 0 && x[places[at - 1]] > x[place]; at--)
                places[at] = places[at - 1];
            places[at] = place;
        }
        medians[i] = x[places[WINDOW / 2]];
        least[i] = places[0];
    }
    same(run, take(run, out, SAMPLES * sizeof(*x)), medians, SAMPLES * sizeof(*x));
    same(run, take(run, out_least, SAMPLES * sizeof(*x)), least, SAMPLES * sizeof(*x));
}

static void check_events(program_run *run)
{
    const int n = COUNT;
    int *words = random_ints(run, COUNT, 0, 0x3ff), *expected = room(run, COUNT * sizeof(*words));
    void *in = put(run, words, COUNT * sizeof(*words)), *out = poisoned(run, COUNT * sizeof(*words));
    launch(run, "costs", BLOCKS, THREADS, ARGUMENTS(&in, &out, &n));
    for (int i = 0; i < COUNT; i++) {
        const int low = words[i] & 15, x = low - 8, y = (words[i] >> 4 & 15) - 8, kind = words[i] >> 8;
        expected[i] = kind == 1 ? (x < 0 ? -x : x) + (y < 0 ? -y : y) : kind == 2 ? 10 * low : -1;
    }
    same(run, take(run, out, COUNT * sizeof(*words)), expected, COUNT * sizeof(*words));
}

static void check_windows(program_run *run)
{
    enum { WINDOW = 8, WINDOWS = COUNT - WINDOW + 1 };
    const int n = COUNT;
    int *x = random_ints(run, COUNT, 1, 100), *expected = room(run, 3 * WINDOWS * sizeof(*expected));
    void *in = put(run, x, COUNT * sizeof(*x)), *out = poisoned(run, 3 * WINDOWS * sizeof(*x));
    launch(run, "windows", BLOCKS, THREADS, ARGUMENTS(&in, &out, &n));
    for (int i = 0; i < WINDOWS; i++) {
        int a = x[i], b = x[i + WINDOW - 1];
        for (int k = 0; k < WINDOW; k++) {
            expected[3 * i] += x[i + k];
            expected[3 * i + 1] += (k + 1) * x[i + k];
        }
        for (int rest; b != 0; a = b, b = rest)
            rest = a % b;
        expected[3 * i + 2] = a;
    }
    same(run, take(run, out, 3 * WINDOWS * sizeof(*x)), expected, 3 * WINDOWS * sizeof(*x));
}

static void check_tickets(program_run *run)
{
    enum { BINS = 16 };
    const int n = COUNT, bins = BINS;
    int *readings = random_ints(run, COUNT, 0, 60000), counts[BINS] = { 0 }, taken[BINS] = { 0 };
    void *in = put(run, readings, COUNT * sizeof(*readings));
    void *out = put(run, counts, sizeof(counts)), *out_taken = put(run, taken, sizeof(taken));
    launch(run, "tickets", BLOCKS, THREADS, ARGUMENTS(&in, &out, &out_taken, &bins, &n));
    for (int i = 0; i < COUNT; i++) {
        const int bin = (readings[i] + 500) / 1000 % BINS;
        taken[bin] ^= counts[bin]++;
    }
    same(run, take(run, out, sizeof(counts)), counts, sizeof(counts));
    same(run, take(run, out_taken, sizeof(taken)), taken, sizeof(taken));
}

static void check_dft(program_run *run)
{
    enum { POINTS = 16, ROWS = 200, AREA = POINTS * ROWS };
    const int rows = ROWS;
    float *x = random_floats(run, 2 * AREA, -1, 1);
    double *expected = room(run, 2 * AREA * sizeof(*expected));
    void *in = put(run, x, 2 * AREA * sizeof(*x)), *out = poisoned(run, 2 * AREA * sizeof(*x));
    launch(run, "dft", (AREA + THREADS - 1) / THREADS, THREADS, ARGUMENTS(&in, &out, &rows));
    for (int i = 0; i < AREA; i++) {
        double complex sum = 0;
        for (int j = 0; j < POINTS; j++)
            sum += to_complex(x + 2 * (i / POINTS * POINTS + j)) * cexp(-2 * acos(-1) * I * (i % POINTS) * j / POINTS);
        store_complex(expected + 2 * i, sum);
    }
    near(run, take(run, out, 2 * AREA * sizeof(*x)), expected, 2 * AREA, 5e-5, 1e-6);
}

static uint32_t morton_code(const float *xy)
{
    const uint32_t x = (uint32_t)(xy[0] * 65535), y = (uint32_t)(xy[1] * 65535);
    uint32_t code = 0;
    for (int bit = 0; bit < 16; bit++)
        code |= (x >> bit & 1) << 2 * bit | (y >> bit & 1) << (2 * bit + 1);
    return code;
}

static void check_morton(program_run *run)
{
    const int n = COUNT;
    float *xy = random_floats(run, 2 * COUNT, 0, 1);
    for (int i = 0; i < COUNT; i += 100)
        xy[2 * i] = 0;
    memcpy(xy + 2, xy + 4, 2 * sizeof(*xy)); /* two equal points */
    uint32_t *codes = room(run, COUNT * sizeof(*codes));
    int *depths = room(run, COUNT * sizeof(*depths));
    void *in = put(run, xy, 2 * COUNT * sizeof(*xy)), *out = poisoned(run, COUNT * sizeof(*codes));
    void *out_depths = poisoned(run, COUNT * sizeof(*depths));
    launch(run, "morton", BLOCKS, THREADS, ARGUMENTS(&in, &out, &out_depths, &n));
    for (int i = 0; i < COUNT; i++) {
        const uint32_t code = codes[i] = morton_code(xy + 2 * i), other = morton_code(xy + 2 * ((i + 1) % COUNT));
        depths[i] = (code == other ? 32 : __builtin_clz(code ^ other)) - __builtin_popcount(code);
        if (xy[2 * i] == 0)
            depths[i] = INT_MAX;
    }
    same(run, take(run, out, COUNT * sizeof(*codes)), codes, COUNT * sizeof(*codes));
    same(run, take(run, out_depths, COUNT * sizeof(*depths)), depths, COUNT * sizeof(*depths));
}

static void check_siblings(program_run *run)
{
    const int n = COUNT;
    float *points = random_floats(run, 2 * COUNT, -1, 1), *got;
    double *expected = room(run, COUNT * sizeof(*expected));
    memcpy(points + 2, points, 2 * sizeof(*points)); /* a corner without an angle */
    void *in = put(run, points, 2 * COUNT * sizeof(*points)), *out = poisoned(run, COUNT * sizeof(int));
    launch(run, "corners", BLOCKS, THREADS, ARGUMENTS(&in, &out, &n));
    const int *found = take(run, out, COUNT * sizeof(int));
    got = room(run, COUNT * sizeof(*got));
    for (int i = 0; i < COUNT; i++) {
        const float *before = points + 2 * ((i + COUNT - 1) % COUNT), *here = points + 2 * i;
        const float *after = points + 2 * ((i + 1) % COUNT);
        const double to = atan2((double)(after[1] - here[1]), (double)(after[0] - here[0]));
        const double from = atan2((double)(before[1] - here[1]), (double)(before[0] - here[0]));
        const double milli = (to - from) * (180 / acos(-1)) * 1000;
        expected[i] = milli > 200000 ? 200000 : milli < -200000 ? -200000 : milli;
        got[i] = (float)found[i];
    }
    near(run, got, expected, COUNT, 1.2, 1e-6);
}

static void check_fir(program_run *run)
{
    static const struct {
        const char *function;
        int before, here, after, add;
    } filters[] = { { "fir<Taps{1, -2, 1, '+'}>", 1, -2, 1, 2 }, { "fir<Taps{ 0, 3, 1, '-' }>", 0, 3, 1, 0 } };
    const int n = COUNT;
    int *x = random_ints(run, COUNT, -100000, 100000), *expected = room(run, COUNT * sizeof(*x));
    for (int f = 0; f < 2; f++) {
        void *in = put(run, x, COUNT * sizeof(*x)), *out = poisoned(run, COUNT * sizeof(*x));
        launch(run, filters[f].function, BLOCKS, THREADS, ARGUMENTS(&in, &out, &n));
        for (int i = 0; i < COUNT; i++)
            expected[i] = (filters[f].before * x[i > 0 ? i - 1 : 0] + filters[f].here * x[i] +
                           filters[f].after * x[i + 1 < COUNT ? i + 1 : COUNT - 1] + filters[f].add) >>
                          2;
        same(run, take(run, out, COUNT * sizeof(*x)), expected, COUNT * sizeof(*x));
    }
}

static void check_group_by(program_run *run)
{
    enum { SIZE = 1 << 14, KINDS = 60 };
    const uint32_t n = COUNT, size = SIZE;
    int *pairs = random_ints(run, 2 * COUNT, 1, KINDS);
    uint32_t *empty = room(run, SIZE * 2 * sizeof(*empty)), *counts = room(run, SIZE * sizeof(*counts));
    uint32_t *expected = room(run, (size_t)(KINDS + 1) * (KINDS + 1) * sizeof(*expected));
    uint32_t *found = room(run, (size_t)(KINDS + 1) * (KINDS + 1) * sizeof(*found));
    memset(empty, 0xff, SIZE * 2 * sizeof(*empty));
    memset(counts, 0, SIZE * sizeof(*counts));
    memset(expected, 0, (size_t)(KINDS + 1) * (KINDS + 1) * sizeof(*expected));
    memset(found, 0, (size_t)(KINDS + 1) * (KINDS + 1) * sizeof(*found));
    void *in = put(run, pairs, 2 * COUNT * sizeof(*pairs)), *slots = put(run, empty, SIZE * 2 * sizeof(*empty));
    void *out = put(run, counts, SIZE * sizeof(*counts));
    launch(run, "group_by", BLOCKS, THREADS, ARGUMENTS(&in, &n, &slots, &out, &size));
    for (int i = 0; i < COUNT; i++)
        expected[pairs[2 * i] * (KINDS + 1) + pairs[2 * i + 1]]++;
    const uint32_t *keys = take(run, slots, SIZE * 2 * sizeof(*keys)), *sums = take(run, out, SIZE * sizeof(*sums));
    for (int i = 0; i < SIZE; i++)
        if (keys[2 * i] <= KINDS && keys[2 * i + 1] <= KINDS)
            found[keys[2 * i] * (KINDS + 1) + keys[2 * i + 1]] += sums[i];
    same(run, found, expected, (size_t)(KINDS + 1) * (KINDS + 1) * sizeof(*expected));
}

const named_check library_checks[] = {
    { "version", check_version },
    { "infinity", check_infinity },
    { "helpers", check_helpers },
    { "own_types", check_own_types },
    { "marked", check_marked },
    { "formats", check_formats },
    { "quadratic", check_quadratic },
    { "median", check_median },
    { "events", check_events },
    { "windows", check_windows },
    { "tickets", check_tickets },
    { "dft", check_dft },
    { "morton", check_morton },
    { "siblings", check_siblings },
    { "fir", check_fir },
    { "group_by", check_group_by },
    { NULL, NULL },
};
