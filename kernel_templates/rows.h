/* Shared by the templates of ops that reduce the columns, in CUDA and in C. A unit of such an op
 * has it behind real.h, then the folds of its stages (kiln_row, kiln_folds0, kiln_take and their like) and the
 * template's text. */
#ifndef KILN_ROWS_H
#define KILN_ROWS_H

/* How many folds are under way at once in a struct: a compiler for the cpu makes vectors of them. In CUDA the stages
 * differ by the types of their arguments, in C by the names of their functions. */
#if defined(__CUDACC__)
#define KILN_SPREAD                1
#define KILN_OF_STAGE(name, stage) name
#else
#define KILN_SPREAD                16
#define KILN_OF_STAGE(name, stage) name##stage
#endif

/* Whether an element comes before another one as the greatest or the least: NaN is both. */
#define KILN_ABOVE(a, b) (!((a) <= (b)) && (b) == (b))
#define KILN_BELOW(a, b) (!((a) >= (b)) && (b) == (b))

/* A number, or 0 in place of an infinite one. */
#define KILN_FINITE(x) ((x) + (x) == (x) ? 0 : (x))

/* The squares of the distances of n elements from their mean, and the mean. The distances from a number near the mean
 * have the sum d, and their squares the sum a. Infinite sums leave both as they are. */
#define KILN_SQUARES(type, a, d, n) \
    ((a) - (a) != 0 || (d) - (d) != 0 ? (a) : (a) - (d) * ((d) / (type)(n)) < 0 ? 0 : (a) - (d) * ((d) / (type)(n)))
#define KILN_REFINED(type, near, d, n) ((d) - (d) != 0 ? (near) : (near) + (d) / (type)(n))

/* The number by which a variance of n elements is divided. */
#define KILN_FREEDOM(type, n, correction) ((type)((double)(n) > (correction) ? (double)(n) - (correction) : 0))

/* Where the op scans, the folds number KILN_FOLD_NUMBER of the elements before a place and of those up to it; none, for
 * a whole row. */
#define KILN_FOLD_NUMBER 0
#if defined(KILN_SCANS)
#define KILN_SCANNED     , before, after, KILN_FOLD_NUMBER
#define KILN_NOT_SCANNED const kiln_folds_scan *const before = 0, *const after = 0;
#else
#define KILN_SCANNED
#define KILN_NOT_SCANNED
#endif

/* The result of output k from an element of each input, at a place of the axis, with the values of a row; and at column
 * `at` of the one row. */
#define KILN_RESULT_AT(k, element, place, values) \
    kiln_value##k(KILN_EACH(element) KILN_ALL_SCALARS(KILN_SCALAR) KILN_POSITION(place), values KILN_SCANNED)
#define KILN_RESULT_OF(k, element) KILN_RESULT_AT(k, element, at, &row)

/* Of output k: its element where it has one for the row, and another, which is calculated before any is stored. */
#define KILN_PUT_COLUMN(k)                                                       \
    if (KILN_OUT_LAYOUT##k == KILN_LAYOUT_COLUMN) {                              \
        KILN_NOT_SCANNED                                                         \
        out##k[line] = KILN_STORE(k, KILN_RESULT_AT(k, KILN_CONSTANT, 0, &row)); \
    }
#define KILN_OUT_ELEMENT(k)     \
    const KILN_RESULT(k) e##k = \
        KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL ? KILN_STORE(k, KILN_RESULT_OF(k, KILN_ELEMENT)) : (KILN_RESULT(k))0;

/* Whether an output has all columns: 0 KILN_ALL_OUT(KILN_IS_FULL); and how many inputs have all elements. */
#define KILN_IS_FULL(k)  || KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL
#define KILN_IS_WHOLE(k) +(KILN_LAYOUT##k == KILN_LAYOUT_FULL)

/* Of input k: its element in column `at`, as the op takes it. */
#define KILN_AT(k) KILN_VALUE(k, KILN_LAYOUT##k >= KILN_LAYOUT_COLUMN ? c##k : p##k[at])

/* Where a launch runs the kernel several times: the phases of the stages, of the scans, and of the results. Those with
 * an element for a row come last, since they may be inputs of the others. */
#define KILN_ONE(s)        +1
#define KILN_SCAN_PHASE    (0 KILN_FOLD_STAGES(KILN_ONE))
#if defined(KILN_SCANS)
#define KILN_RESULTS_PHASE (KILN_SCAN_PHASE + 1)
#else
#define KILN_RESULTS_PHASE KILN_SCAN_PHASE
#endif
#define KILN_COLUMNS_PHASE (KILN_RESULTS_PHASE + (0 KILN_ALL_OUT(KILN_IS_FULL)))

/* ---- CUDA: `line` is the number of the row, `used` whether there is one, and `at` the column of an element. */
#if defined(__CUDACC__)

/* ---- Joint folds: see kiln__rows_make in src/spec/rows.h */

KILN_FN float kiln_lowest(float) { return -0x1.fffffep+127f; }
KILN_FN double kiln_lowest(double) { return -0x1.fffffffffffffp+1023; }

/* The greater of two elements, or the one that is not NaN. */
KILN_FN float kiln_most(float a, float b) { return fmaxf(a, b); }
KILN_FN double kiln_most(double a, double b) { return fmax(a, b); }

/* Whether an element is too far above the base of its folds. The base stays finite. */
template <typename T> KILN_FN bool kiln_is_far(T x, T base) { return x > base + 8 && x < (T)KILN_INFINITY; }

/* The squares of the distances of n elements from their mean, from those from another number and the sum of these
 * distances: NaN where an element is infinite or the sum overflows, infinity where they do, and 0 where
 * rounding makes them negative. */
template <typename T> KILN_FN T kiln_squares(T squares, T sum, T n)
{
    const T own = squares - sum * (sum / (n > 0 ? n : 1));
    return sum - sum != 0 ? sum - sum : squares - squares != 0 ? squares : own < 0 ? 0 : own;
}

/* Whether so many elements have been folded that their mean is worth its division as a base: the first element may be
 * far from all others. */
template <typename T> KILN_FN bool kiln_may_be_far(T count) { return count == 8 || count == 64 || count == 512; }

/* Takes the mean as the base of folds: see kiln_join_squares. */
template <typename T> KILN_FN void kiln_rebase(T &a, T &b, T &c, T &d)
{
    a = kiln_squares(a, d, c);
    b += d / c;
    d = 0;
}

/* Joins folds: squares a of distances from b, of c elements, whose sum is d. The mean becomes the base. The greater
 * part comes first, so that two threads which join each other's folds get equal bits. */
template <typename T>
KILN_FN void kiln_join_squares(T &a, T &b, T &c, T &d, T other_a, T other_b, T other_c, T other_d)
{
    const T n = c + other_c, mean = b + d / (c > 0 ? c : 1), other = other_b + other_d / (other_c > 0 ? other_c : 1);
    const bool less = c < other_c;
    const T least = less ? c : other_c, share = least / (n > 0 ? n : 1);
    const T main = less ? other : mean, apart = (less ? mean : other) - main;
    a = kiln_squares(a, d, c) + kiln_squares(other_a, other_d, other_c) + apart * ((n - least) * share) * apart;
    b = c == other_c ? mean / 2 + other / 2 : main + apart * share;
    c = n;
    d = 0;
}

/* ---- Rows */

/* The text, for an output that has all columns: KILN_IF_FULL(KILN_OUT_LAYOUT0, text). */
#define KILN_IF_FULL(layout, ...)    KILN_IF_FULL_OF(layout, __VA_ARGS__)
#define KILN_IF_FULL_OF(layout, ...) KILN_IF_FULL_##layout(__VA_ARGS__)
#define KILN_IF_FULL_0(...)          __VA_ARGS__
#define KILN_IF_FULL_2(...)

/* The parameters of an entry. No pointer is restrict: an output may be one of the inputs. */
#define KILN_PARAMETERS                                                                                     \
    KILN_EACH_OUT(KILN_OUTPUT), KILN_EACH(KILN_PARAMETER), unsigned long long rows, unsigned long long cols \
                                                               KILN_ALL_SCALARS(KILN_SCALAR_PARAMETER)

/* Its parameters as arguments, but for the sizes. */
#define KILN_OUT_NAME(k)    out##k
#define KILN_IN_NAME(k)     x##k
#define KILN_SCALAR_NAME(k) , s##k
#define KILN_NAMES(...) \
    KILN_EACH_OUT(KILN_OUT_NAME), KILN_EACH(KILN_IN_NAME), __VA_ARGS__ KILN_ALL_SCALARS(KILN_SCALAR_NAME)

/* Of input k: its row, and the element that it has for the whole row. */
#define KILN_BEGIN(k)                                                                                        \
    const KILN_TYPE(k) *const p##k = KILN_LAYOUT##k == KILN_LAYOUT_FULL && used ? x##k + line * cols : x##k; \
    const KILN_TYPE(k) c##k =                                                                                \
        KILN_LAYOUT##k >= KILN_LAYOUT_COLUMN && used ? x##k[KILN_LAYOUT##k == KILN_LAYOUT_COLUMN ? line : 0] \
                                                     : (KILN_TYPE(k))0;
#define KILN_CONSTANT(k) KILN_VALUE(k, c##k)

/* Of output k: its row. */
#define KILN_BEGIN_OUT(k) \
    KILN_RESULT(k) *const q##k = KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL && used ? out##k + line * cols : out##k;

/* Of output k: its element is stored. */
#define KILN_PUT_ELEMENT(k)                     \
    if (KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL) \
        q##k[at] = e##k;

/* Of input k an element of the word w##k, and of output k a word, its element j, how it is stored, and an end of the
 * row. */
#define KILN_ELEMENT(k)  KILN_VALUE(k, KILN_LAYOUT##k >= KILN_LAYOUT_COLUMN ? c##k : w##k.lane[j])
#define KILN_OUT_WORD(k) KILN_IF_FULL(KILN_OUT_LAYOUT##k, kiln_lanes<KILN_RESULT(k)> r##k;)
#define KILN_OUT_LANE(k) \
    KILN_IF_FULL(KILN_OUT_LAYOUT##k, r##k.lane[j] = KILN_STORE(k, KILN_RESULT_OF(k, KILN_ELEMENT));)
#define KILN_PUT(k)      KILN_IF_FULL(KILN_OUT_LAYOUT##k, kiln_put(q##k + begin, i, r##k.word);)
#define KILN_PUT_END(k)  KILN_IF_FULL(KILN_OUT_LAYOUT##k, q##k[at] = KILN_STORE(k, KILN_RESULT_OF(k, KILN_END));)

/* A row consists of words that are aligned in memory, and of the elements before the first and behind the last word:
 * its ends, of which `head` come first. */
typedef struct kiln_span {
    unsigned head, ends;
    unsigned long long words;
} kiln_span;

KILN_FN kiln_span kiln_find_span(unsigned long long line, unsigned long long cols)
{
    kiln_span span;
    span.head = (KILN_VECTOR - (unsigned)(line * cols % KILN_VECTOR)) % KILN_VECTOR;
    span.head = span.head < cols ? span.head : (unsigned)cols;
    span.words = (cols - span.head) / KILN_VECTOR;
    span.ends = (unsigned)(cols - span.words * KILN_VECTOR);
    return span;
}

/* The most ends of a row, and the column of one of them. */
#define KILN_ENDS_MOST (2 * KILN_VECTOR - 2)
KILN_FN unsigned long long kiln_find_end(const kiln_span &span, unsigned end)
{
    return end < span.head ? end : span.words * KILN_VECTOR + end;
}

/* A word of a row that all rows share, which may not be aligned. */
template <typename T> KILN_FN void kiln_fetch_shared(kiln_lanes<T> &to, const T *from, bool aligned)
{
    if (aligned)
        to.word = *(const typename kiln_lanes<T>::word_t *)from;
    else
#pragma unroll
        for (unsigned j = 0; j < KILN_VECTOR; j++)
            to.lane[j] = from[j];
}

/* The inputs that have all elements: each of their loads costs registers. */
constexpr unsigned kiln_full = 0 KILN_ALL(KILN_IS_WHOLE);

/* Of input k: the words of a row that a thread loads together, how it does, and one of them. */
#define KILN_AHEAD(k) kiln_lanes<KILN_TYPE(k)> h##k[KILN_LAYOUT##k <= KILN_LAYOUT_ROW ? ahead : 1];
#define KILN_FETCH(k)                                                                            \
    if (KILN_LAYOUT##k == KILN_LAYOUT_FULL)                                                      \
        h##k[m].word = *((const typename kiln_lanes<KILN_TYPE(k)>::word_t *)(p##k + begin) + i); \
    else if (KILN_LAYOUT##k == KILN_LAYOUT_ROW)                                                  \
        kiln_fetch_shared(h##k[m], p##k + begin + i * KILN_VECTOR, span.head == 0);
#define KILN_NEXT(k)  const kiln_lanes<KILN_TYPE(k)> w##k = h##k[KILN_LAYOUT##k <= KILN_LAYOUT_ROW ? m : 0];

/* A statement for every step-th word from `from` on, below `to`. The loads of `count` words start before the first is
 * needed: a compiler does not move them there where stores or branches stand between. */
#define KILN_EACH_WORD(count, from, to, step, ...)                         \
    for (auto n = from; n < to; n += (count) * step) {                     \
        constexpr unsigned ahead = count;                                  \
        KILN_ALL(KILN_AHEAD)                                               \
        _Pragma("unroll") for (unsigned m = 0; m < ahead; m++)             \
        {                                                                  \
            const auto i = m == 0 || n + m * step < to ? n + m * step : n; \
            KILN_ALL(KILN_FETCH)                                           \
            (void)i;                                                       \
        }                                                                  \
        _Pragma("unroll") for (unsigned m = 0; m < ahead; m++)             \
        {                                                                  \
            const auto i = n + m * step;                                   \
            KILN_ALL(KILN_NEXT)                                            \
            if (m == 0 || i < to) {                                        \
                __VA_ARGS__                                                \
            }                                                              \
        }                                                                  \
    }
#define KILN_EACH_LANE(...)                                          \
    _Pragma("unroll") for (unsigned j = 0; j < KILN_VECTOR; j++)     \
    {                                                                \
        const unsigned long long at = begin + (i * KILN_VECTOR + j); \
        __VA_ARGS__;                                                 \
        (void)at;                                                    \
    }
#define KILN_STORE_WORD \
    KILN_ALL_OUT(KILN_OUT_WORD) KILN_EACH_LANE(KILN_ALL_OUT(KILN_OUT_LANE)) KILN_ALL_OUT(KILN_PUT)

/* Joins the folds of threads of a warp in each of them: of `lanes` neighbours, or of every `first`-th among these. Both
 * are powers of two. */
#define KILN_RECEIVE(a) g.a[0] = __shfl_xor_sync(0xffffffffu, f->a[0], distance);
#define KILN_JOIN_LANES(s)                                                                       \
    template <unsigned lanes, unsigned first = 1> KILN_FN void kiln_join_lanes(kiln_folds##s *f) \
    {                                                                                            \
        _Pragma("unroll") for (unsigned distance = first; distance < lanes; distance *= 2)       \
        {                                                                                        \
            kiln_folds##s g;                                                                     \
            KILN_FOLDS##s(KILN_RECEIVE);                                                         \
            kiln_join(f, 0, &g, 0);                                                              \
        }                                                                                        \
    }

/* Adds an element, or those of a word, to folds. Where folds are joint, they choose their bases for these elements
 * before: once for a word. */
#define KILN_CALL(function, f, values, element) \
    function(&f, 0, values, KILN_EACH(element) KILN_ALL_SCALARS(KILN_SCALAR), (long long)at);
#if defined(KILN_JOINT)
#define KILN_SETTLE(f, ...)           \
    {                                 \
        auto soon = f;                \
        kiln_clear(&soon, 0);         \
        __VA_ARGS__                   \
        kiln_settle(&f, 0, &soon, 0); \
    }
#else
#define KILN_SETTLE(f, ...)
#endif
#define KILN_TAKE_OF(f, values, element)                        \
    KILN_SETTLE(f, KILN_CALL(kiln_peek, soon, values, element)) \
    KILN_CALL(kiln_take, f, values, element)
#define KILN_TAKE(f, element) KILN_TAKE_OF(f, &row, element)
#define KILN_TAKE_WORD(f)                                                          \
    KILN_SETTLE(f, KILN_EACH_LANE(KILN_CALL(kiln_peek, soon, &row, KILN_ELEMENT))) \
    KILN_EACH_LANE(KILN_CALL(kiln_take, f, &row, KILN_ELEMENT))

/* The only element of a sum that may not be 0, of value v: a thread for which KILN_IS_FIRST holds adds it. */
#define KILN_PICK(v)                                                                                                 \
    if (KILN_IS_FIRST) {                                                                                             \
        const unsigned long long at = kiln_place##v(&row, KILN_EACH(KILN_CONSTANT) KILN_ALL_SCALARS(KILN_SCALAR));  \
        if (at < cols)                                                                                               \
            KILN_CALL(kiln_pick##v, f, &row, KILN_AT)                                                                \
    }

/* One walk over the row: the entry's KILN_ELEMENTS adds the elements of a thread to folds, KILN_ENDS calls a statement
 * for each end, and kiln_gather joins the folds of all threads with the help of KILN_PARTS others. Ends have folds of
 * their own, since the first of them come before the elements. */
#define KILN_STAGE(s)                               \
    {                                               \
        __shared__ kiln_folds##s parts[KILN_PARTS]; \
        KILN_WALK_STAGE(s, parts)                   \
    }
#define KILN_WALK_STAGE(s, parts)                 \
    kiln_folds##s f, of_ends;                     \
    kiln_clear(&f, 0);                            \
    kiln_clear(&of_ends, 0);                      \
    KILN_ELEMENTS(f)                              \
    KILN_ENDS(KILN_TAKE(of_ends, KILN_END))       \
    if (KILN_HAS_ENDS)                            \
        kiln_join(&f, 0, &of_ends, 0);            \
    KILN_PICKS##s(KILN_PICK)                      \
    kiln_gather(&f, parts);                       \
    kiln_finish(&f, 0, &row, cols);

/* ---- The blocks of a cluster, where a template has such */
#if defined(KILN_CLUSTER)

#if KILN_CLUSTER > 1
#define KILN_TOGETHER __cluster_dims__(KILN_CLUSTER, 1, 1)
#else
#define KILN_TOGETHER
#endif

/* Waits for all blocks of the cluster; what each has written into its shared memory is visible to the others then. */
KILN_FN void kiln_meet()
{
#if KILN_CLUSTER > 1
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

/* Copies from the shared memory of another block of the cluster, by words of 4 bytes. */
template <typename F> KILN_FN void kiln_fetch_folds(F *to, const F *from, unsigned rank)
{
#if KILN_CLUSTER > 1
    unsigned word[sizeof(F) / 4], local = (unsigned)__cvta_generic_to_shared(from), remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(rank));
#pragma unroll
    for (unsigned i = 0; i < sizeof(F) / 4; i++)
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(word[i]) : "r"(remote + 4 * i) : "memory");
    memcpy(to, word, sizeof(F));
#else
    *to = *from;
#endif
}

#endif
#else

/* ---- C: walks along a part of a row, on the cpu. `line` is the number of the row, and `at` the column */

/* Of input k: its row, the element that it has for the whole row, and the one of a column. */
#define KILN_BEGIN(k)                                                                                \
    const KILN_TYPE(k) *const p##k = KILN_LAYOUT##k == KILN_LAYOUT_FULL ? x##k + line * cols : x##k; \
    const KILN_TYPE(k) c##k = KILN_LAYOUT##k >= KILN_LAYOUT_COLUMN                                   \
                                  ? x##k[KILN_LAYOUT##k == KILN_LAYOUT_COLUMN ? line : 0]            \
                                  : (KILN_TYPE(k))0;                                                 \
    (void)p##k;                                                                                      \
    (void)c##k;
#define KILN_CONSTANT(k)  KILN_VALUE(k, c##k)
#define KILN_ROW_RESULT(k)      \
    const KILN_RESULT(k) e##k = \
        KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL ? KILN_STORE(k, KILN_RESULT_OF(k, KILN_AT)) : (KILN_RESULT(k))0;
#define KILN_PUT_RESULT(k)                      \
    if (KILN_OUT_LAYOUT##k == KILN_LAYOUT_FULL) \
        out##k[line * cols + at] = e##k;        \
    (void)e##k;
#define KILN_ADD(s, j) \
    kiln_take##s(&f, (unsigned)(j), &row, KILN_EACH(KILN_AT) KILN_ALL_SCALARS(KILN_SCALAR), (long long)at)

/* Elements that are folded before the next are: few, so that a sum of many loses no more than a sum of few. */
#define KILN_FEW (64 * KILN_SPREAD)

/* Folds the elements from `first` on, below `last`, into number 0 of `all`. KILN_SPREAD folds at once let a compiler
 * use vectors. */
#define KILN_WALK(s, all, first, last)                                                        \
    {                                                                                         \
        kiln_folds##s f;                                                                      \
        for (unsigned j = 0; j < KILN_SPREAD; j++)                                            \
            kiln_clear##s(&all, j);                                                           \
        for (unsigned long long start = first; start < last; start += KILN_FEW) {             \
            const unsigned long long end = last - start < KILN_FEW ? last : start + KILN_FEW; \
            unsigned long long begin = start;                                                 \
            for (unsigned j = 0; j < KILN_SPREAD; j++)                                        \
                kiln_clear##s(&f, j);                                                         \
            for (; end - begin >= KILN_SPREAD; begin += KILN_SPREAD)                          \
                for (unsigned j = 0; j < KILN_SPREAD; j++) {                                  \
                    const unsigned long long at = begin + j;                                  \
                    KILN_ADD(s, j);                                                           \
                }                                                                             \
            for (unsigned long long at = begin; at < end; at++)                               \
                KILN_ADD(s, at - begin);                                                      \
            for (unsigned j = 0; j < KILN_SPREAD; j++)                                        \
                kiln_join##s(&all, j, &f, j);                                                 \
        }                                                                                     \
        for (unsigned d = KILN_SPREAD / 2; d > 0; d /= 2)                                     \
            for (unsigned j = 0; j < d; j++)                                                  \
                kiln_join##s(&all, j, &all, j + d);                                           \
    }

/* Goes along the elements from `first` on, below `last`, in the order of the scans, and adds them to `all`, the folds
 * of those before. `stores`: with the results. The folds of a few follow those of all before them, so that a sum of
 * many loses no more than a sum of few. */
#define KILN_SCAN_WALK(all, first, last, stores)                                                            \
    {                                                                                                       \
        kiln_folds_scan f, states[2];                                                                       \
        const kiln_folds_scan *const before = &states[0], *const after = &states[1];                        \
        for (unsigned long long start = first; start < last; start += KILN_SPREAD * 8) {                    \
            const unsigned long long end = last - start < KILN_SPREAD * 8 ? last : start + KILN_SPREAD * 8; \
            kiln_clear_scan(&f, 0);                                                                         \
            states[1] = all;                                                                                \
            for (unsigned long long i = start; i < end; i++) {                                              \
                const unsigned long long at = KILN_REVERSE ? cols - 1 - i : i;                              \
                states[0] = states[1];                                                                      \
                KILN_ADD(_scan, 0);                                                                         \
                states[1] = all;                                                                            \
                kiln_join_scan(&states[1], 0, &f, 0);                                                       \
                if (stores) {                                                                               \
                    KILN_ALL_OUT(KILN_ROW_RESULT)                                                           \
                    KILN_ALL_OUT(KILN_PUT_RESULT)                                                           \
                }                                                                                           \
            }                                                                                               \
            all = states[1];                                                                                \
        }                                                                                                   \
    }

/* Stores the results of the elements from `first` on, below `last`, of an op without scans. No element depends on
 * another. A compiler that is not told so tests for overlap, and runs one by one in place. */
#if defined(__clang__)
#define KILN_APART _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define KILN_APART _Pragma("GCC ivdep")
#else
#define KILN_APART
#endif
#define KILN_STORE_RESULTS(first, last)                               \
    KILN_APART for (unsigned long long at = first; at < (last); at++) \
    {                                                                 \
        KILN_ALL_OUT(KILN_ROW_RESULT)                                 \
        KILN_ALL_OUT(KILN_PUT_RESULT)                                 \
    }
#endif
#endif
