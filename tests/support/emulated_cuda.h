/* CUDA for the text of a unit that is compiled as C++ for the cpu: tests/cli/test_emulated.py puts it before the text.
 *
 * The threads of a warp are contexts that run in turn, from one exchange to the next. A warp goes on up to a barrier of
 * the block before the next one begins, and blocks run one by one. So every run has one order, and `backwards` gives
 * another: results that differ show a race. Shared memory is static. There are no clusters of several blocks. */
#ifndef KILN_TESTS_EMULATED_CUDA_H
#define KILN_TESTS_EMULATED_CUDA_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __CUDACC__    1
#define __CUDA_ARCH__ 900
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__   static
#define __align__(n) __attribute__((aligned(n)))

/* ---- Threads */

struct emulated_index {
    unsigned x;
};

static emulated_index threadIdx, blockIdx, gridDim;

/* Of 16 bytes. */
struct emulated_copy {
    void *to;
    const void *from;
};

struct emulated_thread {
    ucontext_t context;
    std::vector<char> stack;
    std::vector<emulated_copy> copies; /* that have been started */
    bool done;
};

/* Those that wait for each other. */
struct emulated_group {
    unsigned arrived, turns;
};

static std::vector<emulated_thread> emulated_threads;
static std::vector<emulated_group> emulated_warps;
static emulated_group emulated_block;
static ucontext_t emulated_scheduler;
static bool emulated_moves; /* a thread has come further in this round */
static char emulated_slots[1024][64];

static void emulated_wait(emulated_group &group, unsigned size)
{
    const unsigned turn = group.turns;
    emulated_moves = true;
    if (++group.arrived == size) {
        group.arrived = 0;
        group.turns++;
    }
    while (group.turns == turn)
        swapcontext(&emulated_threads[threadIdx.x].context, &emulated_scheduler);
}

static void emulated_wait_for_warp()
{
    emulated_wait(emulated_warps[threadIdx.x / 32], 32);
}

static void __syncthreads()
{
    emulated_wait(emulated_block, (unsigned)emulated_threads.size());
}

/* What the thread `from` of the block has given. */
template <typename T> static T emulated_exchange(T value, unsigned from)
{
    T result;
    memcpy(emulated_slots[threadIdx.x], &value, sizeof(T));
    emulated_wait_for_warp();
    memcpy(&result, emulated_slots[from], sizeof(T));
    emulated_wait_for_warp();
    return result;
}

template <typename T> static T __shfl_xor_sync(unsigned, T value, unsigned distance)
{
    return emulated_exchange(value, threadIdx.x ^ distance);
}

template <typename T> static T __shfl_up_sync(unsigned, T value, unsigned distance, unsigned width = 32)
{
    return emulated_exchange(value, threadIdx.x % width >= distance ? threadIdx.x - distance : threadIdx.x);
}

template <typename T> static T __shfl_sync(unsigned, T value, unsigned lane, unsigned width = 32)
{
    return emulated_exchange(value, threadIdx.x / width * width + lane);
}

static void (*emulated_body)(void *const *);
static void *const *emulated_arguments;

static void emulated_begin()
{
    emulated_body(emulated_arguments);
    emulated_threads[threadIdx.x].done = emulated_moves = true;
}

/* Lets each thread of a warp that has not ended come to its next wait. Returns how many have not ended then. */
static unsigned emulated_step(unsigned warp, bool backwards)
{
    unsigned left = 0;
    for (unsigned t = 0; t < 32; t++) {
        threadIdx.x = warp * 32 + (backwards ? 31 - t : t);
        if (!emulated_threads[threadIdx.x].done)
            swapcontext(&emulated_scheduler, &emulated_threads[threadIdx.x].context);
        left += !emulated_threads[threadIdx.x].done;
    }
    return left;
}

/* Runs a kernel that takes its arguments as cuLaunchKernel does. The size of a block is a multiple of 32. */
static void emulated_run(void (*body)(void *const *), unsigned grid, unsigned block, bool backwards,
                         void *const *arguments)
{
    emulated_body = body;
    emulated_arguments = arguments;
    emulated_threads.resize(block);
    gridDim.x = grid;
    for (unsigned b = 0; b < grid; b++) {
        blockIdx.x = backwards ? grid - 1 - b : b;
        emulated_warps.assign(block / 32, emulated_group());
        emulated_block = emulated_group();
        for (emulated_thread &thread : emulated_threads) {
            thread.done = false;
            thread.copies.clear();
            thread.stack.resize(256 << 10);
            getcontext(&thread.context);
            thread.context.uc_stack.ss_sp = thread.stack.data();
            thread.context.uc_stack.ss_size = thread.stack.size();
            thread.context.uc_link = &emulated_scheduler;
            makecontext(&thread.context, emulated_begin, 0);
        }
        for (unsigned left = block; left > 0;) {
            bool moves = false;
            left = 0;
            for (unsigned w = 0; w < block / 32; w++) {
                unsigned of_warp;
                do {
                    emulated_moves = false;
                    of_warp = emulated_step(backwards ? block / 32 - 1 - w : w, backwards);
                    moves = moves || emulated_moves;
                } while (emulated_moves);
                left += of_warp;
            }
            if (left > 0 && !moves) {
                fprintf(stderr, "%u threads wait for others that have ended\n", left);
                abort();
            }
        }
    }
}

/* ---- Types and functions */

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};

template <typename To, typename From> static To emulated_bits(From value)
{
    To bits;
    static_assert(sizeof(To) == sizeof(From), "of one size");
    memcpy(&bits, &value, sizeof(To));
    return bits;
}

/* A function of CUDA that is one expression. */
#define EMULATED(result, name, parameters, value) \
    static result name parameters                 \
    {                                             \
        return value;                             \
    }
EMULATED(double, __longlong_as_double, (long long x), emulated_bits<double>(x))
EMULATED(long long, __double_as_longlong, (double x), emulated_bits<long long>(x))
EMULATED(unsigned, __float_as_uint, (float x), emulated_bits<unsigned>(x))
EMULATED(float, __uint_as_float, (unsigned x), emulated_bits<float>(x))
EMULATED(int, __float2int_rz, (float x), (int)x)
EMULATED(long long, __float2ll_rz, (float x), (long long)x)
EMULATED(int, __double2int_rz, (double x), (int)x)
EMULATED(long long, __double2ll_rz, (double x), (long long)x)
EMULATED(float, __fadd_rn, (float x, float y), x + y)
EMULATED(float, __fmul_rn, (float x, float y), (x) * (y))
EMULATED(float, __fmaf_rn, (float x, float y, float z), fmaf(x, y, z))
EMULATED(double, __dadd_rn, (double x, double y), x + y)
EMULATED(double, __dmul_rn, (double x, double y), (x) * (y))
EMULATED(double, __fma_rn, (double x, double y, double z), fma(x, y, z))
EMULATED(float, rsqrtf, (float x), 1 / sqrtf(x))
EMULATED(double, rsqrt, (double x), 1 / sqrt(x))

template <typename T> static T __ldcs(const T *from)
{
    return *from;
}
template <typename T> static void __stcs(T *to, T value)
{
    *to = value;
}
template <typename T> static T *__cvta_generic_to_shared(T *address)
{
    return address;
}
template <typename T> static T *__cvta_generic_to_global(T *address)
{
    return address;
}

/* ---- PTX: asm("NAME %0, %1;" : "=f"(out) : "f"(in)) is out = ptx_NAME(in) here */

static float ptx_min_NaN_f32(float x, float y)
{
    return x != x || y != y ? NAN : x < y || (x == y && std::signbit(x)) ? x : y;
}
static float ptx_max_NaN_f32(float x, float y)
{
    return x != x || y != y ? NAN : x > y || (x == y && std::signbit(y)) ? x : y;
}
static long long ptx_neg_s64(long long x)
{
    return (long long)(0 - (unsigned long long)x);
}
static int ptx_neg_s32(int x)
{
    return (int)(0 - (unsigned)x);
}

/* ex2.approx.ftz: a subnormal result is 0. */
static float ptx_ex2_approx_ftz_f32(float x)
{
    const float power = exp2f(x);
    return power < 0x1p-126f ? 0 : power;
}

static float ptx_cvt_f32_f16(unsigned short x)
{
    return (float)emulated_bits<_Float16>(x);
}
static unsigned short ptx_cvt_rn_f16_f32(float x)
{
    return emulated_bits<unsigned short>((_Float16)x);
}

static unsigned short ptx_cvt_rn_bf16_f32(float x)
{
    const unsigned bits = __float_as_uint(x);
    return (unsigned short)(x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Copies come as late as they may. */
static void ptx_cp_async(void *to, const void *from)
{
    emulated_threads[threadIdx.x].copies.push_back({ to, from });
}

static void ptx_cp_async_wait_all()
{
    for (const emulated_copy &copy : emulated_threads[threadIdx.x].copies)
        memcpy(copy.to, copy.from, 16);
    emulated_threads[threadIdx.x].copies.clear();
}

/* ---- Kernels, by their parameters */

template <typename... P, size_t... I>
static void emulated_call_of(void (*kernel)(P...), void *const *arguments, std::index_sequence<I...>)
{
    kernel(*(std::remove_const_t<P> *)arguments[I]...);
}

template <typename... P> static void emulated_call(void (*kernel)(P...), void *const *arguments)
{
    emulated_call_of(kernel, arguments, std::index_sequence_for<P...>());
}

#endif
