/* Other ways to move the bytes of an element-wise kernel, for bench_access_patterns. This text follows a unit of the
 * template elementwise, whose words, lanes, parameters and op it uses. The program sets
 *
 *   ACCESS_ONCE, ACCESS_GRID or ACCESS_BULK   one tile per block; tiles in turn, a fixed grid; tiles through shared memory
 *   ACCESS_BOUNDS        arguments of __launch_bounds__
 *   ACCESS_LOAD          what stands between "ld.global" and the type, as a string; undefined: as the template loads
 *   ACCESS_STORE         the same of "st.global"
 *   ACCESS_POLICY_LOAD, ACCESS_POLICY_STORE   1: with the policy "evict first" for L2
 *   ACCESS_AHEAD         ACCESS_GRID: 1 loads the next tile before it stores this one
 *   ACCESS_STAGES        ACCESS_BULK: tiles in shared memory; a tile has KILN_TILE elements, one stage takes one tile only
 *   ACCESS_STORE_BULK    ACCESS_BULK: 1 stores from shared memory, 0 from registers */

/* The first KILN_INPUTS of three things. */
#if KILN_INPUTS == 1
#define ACCESS_TAKE(x, y, z) x
#elif KILN_INPUTS == 2
#define ACCESS_TAKE(x, y, z) x, y
#else
#define ACCESS_TAKE(x, y, z) x, y, z
#endif

#define ACCESS_APPLY(x, y, z) kiln_store_out(kiln_value(ACCESS_TAKE(kiln_load(x), kiln_load(y), kiln_load(z))))

/* Inputs and results have one type here. */
typedef kiln_in_lanes access_lanes;
typedef access_lanes::word_t access_word;
typedef unsigned long long access_policy;

static __device__ __forceinline__ access_policy access_evict_first()
{
    access_policy policy = 0;
#if ACCESS_POLICY_LOAD || ACCESS_POLICY_STORE
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
    return policy;
}

static __device__ __forceinline__ access_word access_fetch(const kiln_store_t *array, unsigned index,
                                                           access_policy policy)
{
#if defined(ACCESS_LOAD) && ACCESS_POLICY_LOAD
    access_word w;
    asm volatile("ld.global" ACCESS_LOAD ".L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                 : "l"(__cvta_generic_to_global((const access_word *)array + index)), "l"(policy));
    return w;
#elif defined(ACCESS_LOAD)
    access_word w;
    asm volatile("ld.global" ACCESS_LOAD ".v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
                 : "l"(__cvta_generic_to_global((const access_word *)array + index)));
    return w;
#else
    return kiln_fetch(array, index);
#endif
}

static __device__ __forceinline__ void access_put(kiln_store_t *array, unsigned index, access_word w,
                                                  access_policy policy)
{
#if defined(ACCESS_STORE) && ACCESS_POLICY_STORE
    asm volatile("st.global" ACCESS_STORE ".L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;"
                 :
                 : "l"(__cvta_generic_to_global((access_word *)array + index)), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w),
                   "l"(policy)
                 : "memory");
#elif defined(ACCESS_STORE)
    asm volatile("st.global" ACCESS_STORE ".v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global((access_word *)array + index)), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w)
                 : "memory");
#else
    kiln_put(array, index, w);
#endif
}

/* What one thread has loaded of a tile. */
struct access_part {
    access_lanes ACCESS_TAKE(a[KILN_ACCESSES], b[KILN_ACCESSES], c[KILN_ACCESSES]);
};

static __device__ __forceinline__ void
access_load_part(access_part &part, ACCESS_TAKE(const kiln_store_t *x, const kiln_store_t *y, const kiln_store_t *z),
                 access_policy policy)
{
#pragma unroll
    for (unsigned k = 0; k < KILN_ACCESSES; k++) {
        const unsigned i = k * KILN_BLOCK + threadIdx.x;
        ACCESS_TAKE(part.a[k].word = access_fetch(x, i, policy), part.b[k].word = access_fetch(y, i, policy),
                    part.c[k].word = access_fetch(z, i, policy));
    }
}

static __device__ __forceinline__ access_word
access_compute(ACCESS_TAKE(access_lanes a, access_lanes b, access_lanes c))
{
    access_lanes result;
#pragma unroll
    for (unsigned j = 0; j < KILN_VECTOR; j++)
        result.lane[j] = ACCESS_APPLY(a.lane[j], b.lane[j], c.lane[j]);
    return result.word;
}

static __device__ __forceinline__ void access_store_part(const access_part &part, kiln_store_t *out,
                                                         access_policy policy)
{
#pragma unroll
    for (unsigned k = 0; k < KILN_ACCESSES; k++)
        access_put(out, k * KILN_BLOCK + threadIdx.x, access_compute(ACCESS_TAKE(part.a[k], part.b[k], part.c[k])),
                   policy);
}

/* The elements from `start` to the end, fewer than a tile. */
static __device__ __forceinline__ void access_finish(KILN_PARAMETERS, unsigned long long start)
{
#pragma unroll 1
    for (unsigned long long i = start + threadIdx.x; i < n; i += KILN_BLOCK)
        out[i] = ACCESS_APPLY(x0[i], x1[i], x2[i]);
}

#if defined(ACCESS_ONCE)

/* As the template's kiln_vector, but a whole tile has no comparisons in it. */
extern "C" __global__ void __launch_bounds__(ACCESS_BOUNDS) kiln_access(KILN_PARAMETERS)
{
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE;
    const access_policy policy = access_evict_first();
    access_part part;

    if (n - start < KILN_TILE) {
        access_finish(out, ACCESS_TAKE(x0, x1, x2), n, start);
        return;
    }
    access_load_part(part, ACCESS_TAKE(x0 + start, x1 + start, x2 + start), policy);
    access_store_part(part, out + start, policy);
}

#elif defined(ACCESS_GRID)

/* Block b takes the tiles b, b + gridDim.x, ... */
extern "C" __global__ void __launch_bounds__(ACCESS_BOUNDS) kiln_access(KILN_PARAMETERS)
{
    const unsigned long long step = (unsigned long long)gridDim.x * KILN_TILE;
    const unsigned long long whole = n / KILN_TILE * KILN_TILE;
    const access_policy policy = access_evict_first();
    unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE;
    access_part part;

#if ACCESS_AHEAD
    access_part next;
    if (start < whole)
        access_load_part(next, ACCESS_TAKE(x0 + start, x1 + start, x2 + start), policy);
    for (; start < whole; start += step) {
        const unsigned long long then = start + step;
        part = next;
        if (then < whole)
            access_load_part(next, ACCESS_TAKE(x0 + then, x1 + then, x2 + then), policy);
        access_store_part(part, out + start, policy);
    }
#else
    for (; start < whole; start += step) {
        access_load_part(part, ACCESS_TAKE(x0 + start, x1 + start, x2 + start), policy);
        access_store_part(part, out + start, policy);
    }
#endif
    if (start == whole)
        access_finish(out, ACCESS_TAKE(x0, x1, x2), n, whole);
}

#else /* ACCESS_BULK */

#define ACCESS_TILE_BYTES (KILN_TILE * KILN_BYTES)

#if ACCESS_POLICY_LOAD
#define ACCESS_HINT      ".L2::cache_hint"
#define ACCESS_HINT_LOAD ", %4"
#define ACCESS_HINT_SAVE ", %3"
#else
#define ACCESS_HINT      ""
#define ACCESS_HINT_LOAD ""
#define ACCESS_HINT_SAVE ""
#endif

/* An address in shared memory, as instructions take it. */
static __device__ __forceinline__ unsigned access_shared(const void *pointer)
{
    return (unsigned)__cvta_generic_to_shared(pointer);
}

/* What this thread wrote to shared memory is there for the copy engine. */
static __device__ __forceinline__ void access_publish()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

static __device__ __forceinline__ void access_barrier_init(unsigned long long *barrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(access_shared(barrier)) : "memory");
}

static __device__ __forceinline__ void access_barrier_expect(unsigned long long *barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(access_shared(barrier)), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void access_barrier_wait(unsigned long long *barrier, unsigned parity)
{
    unsigned done;
    do {
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n"
                     "}"
                     : "=r"(done)
                     : "r"(access_shared(barrier)), "r"(parity)
                     : "memory");
    } while (!done);
}

static __device__ __forceinline__ void access_copy_in(void *to, const void *from, unsigned long long *barrier,
                                                      access_policy policy)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" ACCESS_HINT
                 " [%0], [%1], %2, [%3]" ACCESS_HINT_LOAD ";"
                 :
                 : "r"(access_shared(to)), "l"(__cvta_generic_to_global(from)), "n"(ACCESS_TILE_BYTES),
                   "r"(access_shared(barrier)), "l"(policy)
                 : "memory");
}

static __device__ __forceinline__ void access_copy_out(void *to, const void *from, access_policy policy)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group" ACCESS_HINT " [%0], [%1], %2" ACCESS_HINT_SAVE ";\n"
                 "cp.async.bulk.commit_group;"
                 :
                 : "l"(__cvta_generic_to_global(to)), "r"(access_shared(from)), "n"(ACCESS_TILE_BYTES), "l"(policy)
                 : "memory");
}

/* At most `left` of this thread's copies out still have to read shared memory. */
#define ACCESS_COPIES_LEFT(left) asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(left) : "memory")

/* One tile of each input. With ACCESS_STORE_BULK results take the place of x. */
struct alignas(128) access_stage {
    access_lanes ACCESS_TAKE(a[KILN_TILE / KILN_VECTOR], b[KILN_TILE / KILN_VECTOR], c[KILN_TILE / KILN_VECTOR]);
};

/* Starts the copies of the tile that begins at `start`. One thread. */
static __device__ __forceinline__ void access_fill(access_stage *stage, unsigned long long *barrier,
                                                   ACCESS_TAKE(const kiln_store_t *x, const kiln_store_t *y,
                                                               const kiln_store_t *z),
                                                   unsigned long long start, access_policy policy)
{
    access_barrier_expect(barrier, sizeof(access_stage));
    ACCESS_TAKE(access_copy_in(stage->a, x + start, barrier, policy),
                access_copy_in(stage->b, y + start, barrier, policy),
                access_copy_in(stage->c, z + start, barrier, policy));
}

static __device__ __forceinline__ void access_compute_stage(access_stage *stage, kiln_store_t *out,
                                                            access_policy policy)
{
#pragma unroll
    for (unsigned k = 0; k < KILN_ACCESSES; k++) {
        const unsigned i = k * KILN_BLOCK + threadIdx.x;
        const access_word result = access_compute(ACCESS_TAKE(stage->a[i], stage->b[i], stage->c[i]));
#if ACCESS_STORE_BULK
        stage->a[i].word = result;
#else
        access_put(out, i, result, policy);
#endif
    }
}

/* Tile number i of a block is in stage i % ACCESS_STAGES. A stage is filled again as soon as nobody reads it: with
 * stores from shared memory one tile later, so that the copy out has had time. */
extern "C" __global__ void __launch_bounds__(ACCESS_BOUNDS) kiln_access(KILN_PARAMETERS)
{
    extern __shared__ access_stage stages[];
    __shared__ alignas(8) unsigned long long filled[ACCESS_STAGES];
    const unsigned lag = ACCESS_STORE_BULK && ACCESS_STAGES > 1;
    const unsigned long long tiles = n / KILN_TILE, left = tiles - blockIdx.x;
    const unsigned count = tiles > blockIdx.x ? (unsigned)((left + gridDim.x - 1) / gridDim.x) : 0;
    const unsigned long long first = (unsigned long long)blockIdx.x * KILN_TILE;
    const unsigned long long step = (unsigned long long)gridDim.x * KILN_TILE;
    const access_policy policy = access_evict_first();

    if (threadIdx.x == 0) {
        for (unsigned s = 0; s < ACCESS_STAGES; s++)
            access_barrier_init(&filled[s]);
        access_publish();
        for (unsigned i = 0; i < ACCESS_STAGES && i < count; i++)
            access_fill(&stages[i], &filled[i], ACCESS_TAKE(x0, x1, x2), first + i * step, policy);
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned i = 0, s = 0, parity = 0; i < count; i++) {
        access_barrier_wait(&filled[s], parity);
        access_compute_stage(&stages[s], out + first + i * step, policy);
        if (ACCESS_STORE_BULK)
            access_publish();
        __syncthreads();
        if (threadIdx.x == 0) {
            const unsigned emptied = (s + ACCESS_STAGES - lag) % ACCESS_STAGES;
            if (ACCESS_STORE_BULK) {
                access_copy_out(out + first + i * step, stages[s].a, policy);
                ACCESS_COPIES_LEFT(ACCESS_STAGES > 1);
            }
            if (i >= lag && i - lag + ACCESS_STAGES < count)
                access_fill(&stages[emptied], &filled[emptied], ACCESS_TAKE(x0, x1, x2),
                            first + (i - lag + ACCESS_STAGES) * step, policy);
        }
        s = s + 1 == ACCESS_STAGES ? 0 : s + 1;
        parity ^= s == 0;
    }
    if (threadIdx.x == 0)
        ACCESS_COPIES_LEFT(0);
    if (blockIdx.x == tiles % gridDim.x)
        access_finish(out, ACCESS_TAKE(x0, x1, x2), n, tiles * KILN_TILE);
}

#endif
