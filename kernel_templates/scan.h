/* Scans of rows in CUDA, for the templates whose blocks have rows. A unit of such an op has it behind its values. */
#ifndef KILN_SCAN_H
#define KILN_SCAN_H

KILN_JOIN_LANES(_scan) /* templates call a function of that name, also where the op has no stages */

/* In each thread of a group of `lanes` neighbours the folds of the threads before it, in their order, and in *all those
 * of all threads. */
#define KILN_SEND_UP(a)  g.a[0] = __shfl_up_sync(0xffffffffu, own.a[0], distance, lanes);
#define KILN_SEND_ALL(a) all->a[0] = __shfl_sync(0xffffffffu, own.a[0], lanes - 1, lanes);
template <unsigned lanes> KILN_FN void kiln_scan_lanes(kiln_folds_scan *f, kiln_folds_scan *all)
{
    const unsigned lane = threadIdx.x % lanes;
    kiln_folds_scan own = *f, g;
#pragma unroll
    for (unsigned distance = 1; distance < lanes; distance *= 2) {
        KILN_FOLDS_scan(KILN_SEND_UP);
        kiln_join(&g, 0, &own, 0);
        own = lane >= distance ? g : own;
    }
    const unsigned distance = 1;
    KILN_FOLDS_scan(KILN_SEND_UP);
    KILN_FOLDS_scan(KILN_SEND_ALL);
    kiln_clear(f, 0);
    *f = lane > 0 ? g : *f;
}

/* Of `count` folds of each thread of a row, in the order of the elements, first by their number: in each the folds of
 * all before it, which follow those in *carry. Then *carry has them all. `parts` has one for each fold of a warp, and
 * one more. All threads of the block call it. */
template <unsigned lanes, unsigned count>
KILN_FN void kiln_scan_folds(kiln_folds_scan (&f)[count], kiln_folds_scan *carry, kiln_folds_scan *parts)
{
    constexpr unsigned warps = lanes > 32 ? lanes / 32 : 1;
    const unsigned warp = threadIdx.x % lanes / 32, t = threadIdx.x % 32;
    if (lanes <= 32) {
#pragma unroll
        for (unsigned m = 0; m < count; m++) {
            kiln_folds_scan all, before = *carry;
            kiln_scan_lanes<(lanes < 32 ? lanes : 32)>(&f[m], &all);
            kiln_join(carry, 0, &all, 0);
            kiln_join(&before, 0, &f[m], 0);
            f[m] = before;
        }
        return;
    }
#pragma unroll
    for (unsigned m = 0; m < count; m++) {
        kiln_folds_scan all;
        kiln_scan_lanes<32>(&f[m], &all);
        if (t == 0)
            parts[m * warps + warp] = all;
    }
    __syncthreads();
    if (warp == 0) {
        for (unsigned i = t; i < (count * warps + 31) / 32 * 32; i += 32) {
            kiln_folds_scan all, own, before = *carry;
            kiln_clear(&own, 0);
            if (i < count * warps)
                own = parts[i];
            kiln_scan_lanes<32>(&own, &all);
            kiln_join(carry, 0, &all, 0);
            kiln_join(&before, 0, &own, 0);
            if (i < count * warps)
                parts[i] = before;
        }
        if (t == 0)
            parts[count * warps] = *carry;
    }
    __syncthreads();
#pragma unroll
    for (unsigned m = 0; m < count; m++) {
        kiln_folds_scan before = parts[m * warps + warp];
        kiln_join(&before, 0, &f[m], 0);
        f[m] = before;
    }
    *carry = parts[count * warps];
}

#if defined(KILN_ELEMS)

/* The words of `width` elements that a row touches, which are aligned in memory: `before` elements of the first and
 * some of the last may belong to its neighbours. */
template <unsigned width> struct kiln_touched {
    unsigned before;
    unsigned long long words;
};

template <unsigned width>
KILN_FN kiln_touched<width> kiln_find_touched(unsigned long long line, unsigned long long cols)
{
    kiln_touched<width> touched;
    touched.before = width > 1 ? (unsigned)(line * cols % width) : 0;
    touched.words = (touched.before + cols + (width - 1)) / width;
    return touched;
}

/* The most words that any row touches. Where rows are not ragged they consist of whole words, and `before` is 0. */
template <unsigned width> KILN_FN unsigned long long kiln_most_touched(unsigned long long cols)
{
    return cols % width == 0 ? cols / width : (cols + (2 * width - 2)) / width;
}

/* Of input k the words of a chunk, of `width` elements, and one element. */
#define KILN_CHUNK(k) kiln_lanes<KILN_TYPE(k)> h##k[KILN_LAYOUT##k <= KILN_LAYOUT_ROW ? count : 1];
#define KILN_READ(k)                                                                      \
    if (KILN_LAYOUT##k == KILN_LAYOUT_FULL && width > 1 && whole)                         \
        h##k[m].word = kiln_fetch(p##k + place, 0);                                       \
    else if (KILN_LAYOUT##k <= KILN_LAYOUT_ROW)                                           \
        _Pragma("unroll") for (unsigned j = 0; j < width; j++) if (whole || place + j < cols) \
            h##k[m].lane[j] = p##k[place + j];
#define KILN_OF_CHUNK(k) KILN_VALUE(k, KILN_LAYOUT##k >= KILN_LAYOUT_COLUMN ? c##k : h##k[m].lane[j])
#define KILN_OUT_OF_SCAN(k) \
    KILN_IF_FULL(KILN_OUT_LAYOUT##k, r##k.lane[j] = KILN_STORE(k, KILN_RESULT_OF(k, KILN_OF_CHUNK));)
#define KILN_PUT_OF_SCAN(k)                                                                       \
    KILN_IF_FULL(                                                                                 \
        KILN_OUT_LAYOUT##k,                                                                       \
        if (width > 1 && whole) kiln_put(q##k + place, 0, r##k.word);                             \
        else _Pragma("unroll") for (unsigned j = 0; j < width; j++) if (whole || place + j < cols) \
            q##k[place + j] = r##k.lane[j];)

/* Number i of so many words, or elements of a word, in the order of the scan. */
#define KILN_IN_ORDER(i, count) (KILN_REVERSE ? (count) - 1 - (i) : (i))

/* Of number m of a thread's words in a chunk: whether the row touches it, the place along the axis of its first
 * element, which wraps around where this is a neighbour's, and whether all of it belongs to the row. */
#define KILN_FIND_WORD                                                                                         \
    const unsigned long long i = first + m * lanes + lane;                                                     \
    const bool has = used && i < end && (!ragged || i < touched.words);                                        \
    const unsigned long long place = KILN_IN_ORDER(i, touched.words) * width - (ragged ? touched.before : 0); \
    const bool whole = !ragged || (place < cols && place + (width - 1) < cols);

/* A statement for each element of a word, in the order of the scan, that belongs to the row. */
#define KILN_OF_WORD(condition, ...)                         \
    _Pragma("unroll") for (unsigned s = 0; s < width; s++)   \
    {                                                        \
        const unsigned j = KILN_IN_ORDER(s, width);          \
        const unsigned long long at = place + j;             \
        if (condition) {                                     \
            __VA_ARGS__                                      \
        }                                                    \
    }
#define KILN_OF_ANY_WORD(...)                  \
    if (whole)                                 \
        KILN_OF_WORD(true, __VA_ARGS__)        \
    else                                       \
        KILN_OF_WORD(at < cols, __VA_ARGS__)

/* Words begin to end - 1 of those that a row touches, in the order of the scan, by `lanes` threads of which each has so
 * many elements of a row as the parameter elems says, at a time. `end` is the same in all threads of a block. The folds
 * of all elements before them are *carry, and then those of these are added. A chunk is read once: each word is folded,
 * then the words, then each element from the folds before its word on, unless no results are stored. */
template <unsigned lanes, unsigned width, bool ragged, bool stores>
KILN_FN void kiln_scan_words(KILN_PARAMETERS, unsigned long long line, const kiln_row &row, kiln_folds_scan *carry,
                             unsigned long long begin, unsigned long long end)
{
    constexpr unsigned count = width > 1 || KILN_ELEMS < 8 ? KILN_ELEMS / width : 8, rows_of_block = KILN_BLOCK / lanes;
    __shared__ kiln_folds_scan parts[2][rows_of_block][lanes > 32 ? count * (lanes / 32) + 1 : 1];
    const unsigned lane = threadIdx.x % lanes;
    const bool used = line < rows;
    const kiln_touched<width> touched = kiln_find_touched<width>(line, cols);
    KILN_ALL(KILN_BEGIN)
    KILN_ALL_OUT(KILN_BEGIN_OUT)
    for (unsigned long long first = begin, odd = 0; first < end; first += count * lanes, odd ^= 1) {
        KILN_ALL(KILN_CHUNK)
        kiln_folds_scan f[count];
#pragma unroll
        for (unsigned m = 0; m < count; m++) {
            KILN_FIND_WORD
            if (has) {
                KILN_ALL(KILN_READ)
            }
            (void)whole;
        }
#pragma unroll
        for (unsigned m = 0; m < count; m++) {
            KILN_FIND_WORD
            kiln_clear(&f[m], 0);
            if (has)
                KILN_OF_ANY_WORD(KILN_TAKE(f[m], KILN_OF_CHUNK);)
        }
        kiln_scan_folds<lanes>(f, carry, parts[odd][threadIdx.x / lanes]);
#pragma unroll
        for (unsigned m = 0; m < count && stores; m++) {
            KILN_FIND_WORD
            KILN_ALL_OUT(KILN_OUT_WORD)
            KILN_OF_ANY_WORD(const kiln_folds_scan last = f[m], *const before = &last, *const after = &f[m];
                             KILN_TAKE(f[m], KILN_OF_CHUNK);
                             KILN_ALL_OUT(KILN_OUT_OF_SCAN))
            if (has) {
                KILN_ALL_OUT(KILN_PUT_OF_SCAN)
            }
        }
    }
}

#endif
#endif
