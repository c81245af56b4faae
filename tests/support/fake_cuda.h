/* Controls of the stand-in driver, tests/support/fake_libcuda.c, which Kiln loads as it would load libcuda.so.1.
 *
 * The stand-in has GPUs whose memory is heap memory (an overrun is seen by AddressSanitizer, fresh memory holds 0xCD),
 * accepts the images that a real driver would accept, checks every handle and address, records launches and runs
 * nothing, unless it is told to compute relu6. All of it may be used by several threads.
 *
 * A program under test is steered by the environment: KILN_FAKE_CUDA="sm=90,devices=2,fail=cuMemAlloc:2". Fields,
 * each with its default: sm=90, devices=1, memory=268435456 (bytes for each GPU), version=13000 (of the driver),
 * eager=0 (1: another chip's cubin is refused when it is loaded, 0: when its first kernel is asked for, as drivers
 * do), alike=0 (1: all GPUs are of one model), relu6=0 (1: kernels of one input compute relu6 of f32, and kiln_compare
 * compares), launch=0 and submit=0 (nanoseconds of made-up time, as set_cost, where the first is not 0; after a
 * reset), shared=0 (bytes of static shared memory that kernels loaded from then on have beside their own);
 * bad=fault:BLOCK, bad=crash:BLOCK or bad=hang:BLOCK (what a kernel of one input with so many threads in a block
 * does to the GPU's context, to the process or to the thread that launches it); fail=NAME:CODE[:SKIP[:TIMES]] and
 * hide=NAME as the functions below, each as often as wanted. */
#ifndef KILN_TESTS_SUPPORT_FAKE_CUDA_H
#define KILN_TESTS_SUPPORT_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

enum { KILN_FAKE_PARAMETERS = 8, KILN_FAKE_RECORDS = 256 };
#define KILN_FAKE_FOREVER 0xFFFFFFFFu

/* What is alive: zero everywhere when nothing has leaked. */
typedef struct kiln_fake_live {
    size_t contexts; /* primary contexts retained, once for each time */
    size_t streams, events, libraries, allocations, pools;
    size_t graphs; /* also those that can be launched */
    size_t bytes;
    size_t lazy; /* launches since the reset of kernels that had not been loaded before */
} kiln_fake_live;

typedef struct kiln_fake_launch {
    char name[64];
    unsigned grid[3], block[3], cluster[3], shared;
    int cooperative;
    void *stream, *context;
    unsigned parameter_count;
    uint64_t parameters[KILN_FAKE_PARAMETERS]; /* bytes of each, zero-extended; of a struct the first */
} kiln_fake_launch;

/* Called for each launch, on the launching thread, with no lock held. */
typedef void (*kiln_fake_run)(void *data, const kiln_fake_launch *launch);

/* Nanoseconds that a launch takes the GPU. Called with a lock held: calls nothing of the stand-in. */
typedef uint64_t (*kiln_fake_cost)(void *data, const kiln_fake_launch *launch);

/* X(result, name, parameters): exported by the stand-in as kiln_fake_<name>. Functions are named as in
 * gpu/cuda_symbols.h; a name that is not there ends the process. */
#define KILN_FAKE_CONTROLS(X)                                                                                    \
    /* Back to KILN_FAKE_CUDA: no other failures, no records, no run function. Live objects stay. */             \
    X(void, reset, (void))                                                                                       \
    /* Applies fields as in KILN_FAKE_CUDA. Devices must not be open. */                                         \
    X(void, configure, (const char *text))                                                                       \
    /* After `skip` more calls the next `times` calls of a function only return `code`. */                       \
    X(void, fail_call, (const char *function, int code, unsigned skip, unsigned times))                          \
    /* The driver lacks the function. It exports cuInit, cuMemAlloc and cuMemFree all the same. */               \
    X(void, hide, (const char *function))                                                                        \
    /* How often a function was called since the reset. */                                                       \
    X(unsigned, calls, (const char *function))                                                                   \
    X(void, counts, (kiln_fake_live * out))                                                                      \
    /* Copies the latest records, oldest first; returns the count of launches since the reset. */                \
    X(size_t, launches, (kiln_fake_launch * out, size_t max))                                                    \
    /* Makes up time until the reset: `cost` of a launch, 1000 ns of a copy, `submit_ns`. */                     \
    X(void, set_cost, (kiln_fake_cost cost, void *data, unsigned submit_ns))                                     \
    X(void, set_run, (kiln_fake_run run, void *data))                                                            \
    /* A context of the host's own, and what is current on this thread. */                                       \
    X(void *, context_new, (int ordinal))                                                                        \
    X(void, context_free, (void *context))                                                                       \
    X(void, context_set, (void *context))                                                                        \
    X(void *, context_current, (void))                                                                           \
    X(void *, context_primary, (int ordinal))                                                                    \
    X(unsigned, context_depth, (void))                                                                           \
    X(void *, stream_new, (void *context))                                                                       \
    X(void, stream_free, (void *stream))                                                                         \
    /* Captures a stream. The end gives the launches; -1: a call broke the capture. */                           \
    X(void, capture_begin, (void *stream, int mode))                                                             \
    X(int, capture_end, (void *stream))                                                                          \
    /* Writes a cubin with entry points of elementwise kernels, and returns its length. No GPU would take it. */ \
    X(size_t, cubin, (void *out, size_t size, int sm, const char *const *names, size_t count, unsigned inputs))

typedef struct kiln_fake {
#define KILN_FAKE_MEMBER(result, name, parameters) result(*name) parameters;
    KILN_FAKE_CONTROLS(KILN_FAKE_MEMBER)
#undef KILN_FAKE_MEMBER
} kiln_fake;

/* The controls of the stand-in that KILN_FAKE_LIBCUDA names, freshly reset, and the path itself. Fails the test if
 * there is none. */
const kiln_fake *kiln_fake_open(void);
const char *kiln_fake_path(void);

#endif
