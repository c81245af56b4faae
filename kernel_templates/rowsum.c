/* The cpu twin of rowsum.cu, which declares the template and says in which order a row is summed. Compiles as it
 * stands, for f32 and one op. A unit sets KILN_UNIT, brings its own values, real.h, the ops it uses and kiln_value, and
 * takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32 1
#define KILN_INPUTS    1
#define KILN_TILE      1024
#include "real.h"

KILN_FN kiln_real kiln_value(kiln_real x)
{
    return kiln_min(kiln_max(x, (kiln_real)0), (kiln_real)6);
}
#endif

/* The most blocks that the template's grid has. */
#define KILN_BLOCKS 65535

/* Of input k: its array, row `row`, and element i + j. */
#define KILN_ROW(k)     x##k + row *cols
#define KILN_ELEMENT(k) kiln_load(x##k[i + j])

/* Sums without an element are left out: to add their +0 changes nothing, because no sum is -0. The order of the
 * additions lets a compiler do many at once. */
static kiln_store_t sum_row(KILN_EACH(KILN_PARAMETER), unsigned long long cols)
{
    const unsigned used = cols < KILN_TILE ? (unsigned)cols : KILN_TILE;
    kiln_real sums[KILN_TILE];

    sums[0] = 0;
    for (unsigned j = 1; j < used; j++)
        sums[j] = 0;
    for (unsigned long long i = 0; i < cols; i += KILN_TILE) {
        const unsigned count = cols - i < KILN_TILE ? (unsigned)(cols - i) : KILN_TILE;
        for (unsigned j = 0; j < count; j++)
            sums[j] = kiln_add(sums[j], kiln_value(KILN_EACH(KILN_ELEMENT)));
    }
    for (unsigned d = KILN_TILE / 2; d > 0; d /= 2) {
        const unsigned upper = used <= d ? 0 : used - d < d ? used - d : d;
        for (unsigned j = 0; j < upper; j++)
            sums[j] = kiln_add(sums[j], sums[j + d]);
    }
    return kiln_store(sums[0]);
}

/* Sums the rows of blocks begin to end - 1 of the grid. args[i] points to parameter i: out, the inputs, rows, cols. */
__attribute__((visibility("default"))) void kiln_cpu(unsigned long long begin, unsigned long long end,
                                                     void *const *args);

void kiln_cpu(unsigned long long begin, unsigned long long end, void *const *args)
{
    const unsigned long long rows = *(const unsigned long long *)args[1 + KILN_INPUTS];
    const unsigned long long cols = *(const unsigned long long *)args[2 + KILN_INPUTS];
    kiln_store_t *out = *(kiln_store_t *const *)args[0];
    KILN_ALL(KILN_ARGUMENT)

    for (unsigned long long block = begin; block < end; block++)
        for (unsigned long long row = block; row < rows; row += KILN_BLOCKS)
            out[row] = sum_row(KILN_EACH(KILN_ROW), cols);
}
