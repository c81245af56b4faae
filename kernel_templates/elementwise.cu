//! template elementwise
//! about    out[i], ... = op(x[i], y[i], ...) for contiguous arrays of one dtype or of several, and results of the types of the op or of out=
//! dtype    f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, bool
//! inputs   1..8
//! size     n
//! arg      out... out otype[n] inplace
//! arg      x... in itype[n]
//! arg      n    uint64 = n
//! arg      s... f64
//! param    block  32..1024 step 32 = sm == 0 ? 1024 : 128      -- threads per block
//! param    elems  1..64 = sm == 0 ? 64 : max(min(((operations > 15 && bytes > 1 || inputs == 1 && n_hint * bytes <= 16777216) && n_hint * bytes > 4194304 ? 32 : 16) / min(bytes, out_bytes), 64 / max(bytes, out_bytes)), vector) -- elements per thread
//! param    vector 1,2,4,8,16 = gcd(elems, 16 / max(bytes, out_bytes)) -- elements per memory access
//! param    cache  plain,stream = plain                          -- cache hint of loads and stores
//! require  elems % vector == 0                                  -- elems must be a multiple of vector
//! require  vector * max(bytes, out_bytes) <= (sm >= 100 ? 32 : 16) -- vector must not exceed 16 bytes per access (32 from sm_100 on)
//! tune     block  64..1024*2      if sm > 0
//! tune     elems  1..32*2         if sm > 0
//! tune     elems  4..64*2         if sm == 0                    -- one chunk of cpu work is block * elems
//! tune     vector 1,2,4,8,16      if sm > 0
//! tune     cache  plain,stream    if sm > 0
//! bound    sm == 0 || elems * max(bytes, out_bytes) <= 64       -- more than 64 bytes per thread cost registers and gain nothing
//! tile     block * elems
//! grid     (n + (tile - 1)) / tile
//! entry    kiln_vector align vector * max(bytes, out_bytes)
//! entry    kiln_scalar align 1

/* A thread moves 16 bytes of the array with the narrowest elements, and 32 where that was faster: in one array of 4 to
 * 16 MiB, which a GPU's caches may hold, and in a larger one where an op calculates for long, but not on bytes. In a
 * smaller one there would be too few blocks for that, and with 8 bytes a GPU takes longer to start the blocks. */

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, the ops it uses and
 * kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32    1
#define KILN_INPUTS       1
#define KILN_BLOCK        128
#define KILN_ELEMS        4
#define KILN_TILE         (KILN_BLOCK * KILN_ELEMS)
#define KILN_VECTOR       4
#define KILN_CACHE_PLAIN  0
#define KILN_CACHE_STREAM 1
#define KILN_CACHE        KILN_CACHE_PLAIN
#include "real.h"
#define kiln_value0 kiln_value

KILN_FN kiln_real kiln_value(kiln_real x)
{
    return kiln_min(kiln_max(x, (kiln_real)0), (kiln_real)6);
}
#endif

#define KILN_ACCESSES (KILN_ELEMS / KILN_VECTOR)

/* Of input k: the words that a thread holds, how it gets them, element j of word m, and element i of the array. */
#define KILN_ADVANCE(k) x##k += start;
#define KILN_WORDS(k)   kiln_lanes<KILN_TYPE(k)> w##k[KILN_ACCESSES];
#define KILN_FETCH(k)   w##k[m].word = kiln_fetch(x##k, i)
#define KILN_LANE(k)    KILN_VALUE(k, w##k[m].lane[j])
#define KILN_ELEMENT(k) KILN_VALUE(k, x##k[i])

/* Of output k, likewise: a word, its element j, and element i of the array, which is calculated before any is stored. */
#define KILN_ADVANCE_OUT(k) out##k += start;
#define KILN_OUT_WORD(k)    kiln_lanes<KILN_RESULT(k)> r##k;
#define KILN_OUT_LANE(k)                                                                          \
    r##k.lane[j] = KILN_STORE(k, kiln_value##k(KILN_EACH(KILN_LANE) KILN_ALL_SCALARS(KILN_SCALAR) \
                                                   KILN_POSITION(start + i * KILN_VECTOR + j)));
#define KILN_PUT(k) kiln_put(out##k, i, r##k.word);
#define KILN_OUT_ELEMENT(k)     \
    const KILN_RESULT(k) e##k = \
        KILN_STORE(k, kiln_value##k(KILN_EACH(KILN_ELEMENT) KILN_ALL_SCALARS(KILN_SCALAR) KILN_POSITION(start + i)));
#define KILN_PUT_ELEMENT(k) out##k[i] = e##k;

/* The parameters of both entries. No pointer is restrict: an output may be one of the inputs. */
#define KILN_PARAMETERS \
    KILN_EACH_OUT(KILN_OUTPUT), KILN_EACH(KILN_PARAMETER), unsigned long long n KILN_ALL_SCALARS(KILN_SCALAR_PARAMETER)

/* One tile per block. Thread t moves words t, t + KILN_BLOCK, ... of the tile, so that neighbours read neighbours, and
 * starts all its loads before it needs the first. The last tile may be short: its odd elements, fewer than a word
 * holds, go one to a thread. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_vector(KILN_PARAMETERS)
{
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE;
    const unsigned count = n - start < KILN_TILE ? (unsigned)(n - start) : KILN_TILE;
    const unsigned words = count / KILN_VECTOR;
    KILN_ALL(KILN_WORDS)

    KILN_ALL_OUT(KILN_ADVANCE_OUT)
    KILN_ALL(KILN_ADVANCE)
#pragma unroll
    for (unsigned m = 0; m < KILN_ACCESSES; m++) {
        const unsigned i = m * KILN_BLOCK + threadIdx.x;
        if (i < words)
            KILN_EACH(KILN_FETCH);
    }
#pragma unroll
    for (unsigned m = 0; m < KILN_ACCESSES; m++) {
        const unsigned i = m * KILN_BLOCK + threadIdx.x;
        if (i < words) {
            KILN_ALL_OUT(KILN_OUT_WORD)
#pragma unroll
            for (unsigned j = 0; j < KILN_VECTOR; j++) {
                KILN_ALL_OUT(KILN_OUT_LANE)
            }
            KILN_ALL_OUT(KILN_PUT)
        }
    }
    const unsigned i = words * KILN_VECTOR + threadIdx.x;
    if (KILN_VECTOR > 1 && i < count) {
        KILN_ALL_OUT(KILN_OUT_ELEMENT)
        KILN_ALL_OUT(KILN_PUT_ELEMENT)
    }
}

/* The same tile one element at a time, for arrays that are not aligned to words. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) kiln_scalar(KILN_PARAMETERS)
{
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE;
    const unsigned count = n - start < KILN_TILE ? (unsigned)(n - start) : KILN_TILE;

    KILN_ALL_OUT(KILN_ADVANCE_OUT)
    KILN_ALL(KILN_ADVANCE)
#pragma unroll 1
    for (unsigned i = threadIdx.x; i < count; i += KILN_BLOCK) {
        KILN_ALL_OUT(KILN_OUT_ELEMENT)
        KILN_ALL_OUT(KILN_PUT_ELEMENT)
    }
}
