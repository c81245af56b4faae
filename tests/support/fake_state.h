/* What the stand-in driver remembers, and the controls of tests/support/fake_cuda.h. Included by fake_libcuda.c
 * only. */
#ifndef KILN_TESTS_SUPPORT_FAKE_STATE_H
#define KILN_TESTS_SUPPORT_FAKE_STATE_H

#include "gpu/cuda_symbols.h"
#include "support/fake_cuda.h"
#include "support/fake_image.h"
#include <pthread.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { DEVICES_MAX = 8, DEPTH_MAX = 16, FAILURES_MAX = 16 };

/* ---- State: all of it is under the lock, but for the context stacks, which are each thread's own */

typedef enum object_kind {
    CONTEXT = 1,
    STREAM,
    EVENT,
    LIBRARY,
    KERNEL,
    FUNCTION,
    ALLOCATION,
    GLOBAL,
    GRAPH,
    EXEC,
    POOL
} object_kind;

/* One type for every handle; which members count depends on the kind. */
typedef struct object {
    struct object *next;
    object_kind kind;
    struct object *owner;  /* a stream's or event's context, a kernel's library, a function's kernel */
    int ordinal;           /* a context's device */
    unsigned retained;     /* users of a primary context */
    bool loaded;           /* a kernel: nothing is left to load at launch */
    bool recorded;         /* an event */
    kiln__cu_enum capture; /* a stream: the status of its capture, and */
    kiln__cu_enum mode;    /* how it was begun, */
    pthread_t capturer;    /* by whom, */
    int captured;          /* and the launches in it */
    kiln__cu_enum refusal; /* a library: what its kernels are refused with */
    struct timespec when;  /* an event */
    fake_facts facts;      /* a kernel; of a variable the name */
    char *memory;          /* an allocation, a library's variable once it was asked for, or the nodes of a graph, */
    size_t nodes;          /* and how many there are */
    int shared_most;       /* a kernel: dynamic shared memory that it may have beyond the usual */
    size_t bytes;
} object;

typedef struct failure {
    const char *function;
    kiln__cu_enum code;
    unsigned skip, times;
} failure;

typedef void (*any_function)(void);
typedef struct symbol {
    const char *name;
    int version;
    any_function function;
    bool hidden;
    unsigned calls;
} symbol;

#define DECLARE(need, name, suffix, since, result, parameters) static result fake_##name parameters;
KILN__CUDA_SYMBOLS(DECLARE)
#define ROW(need, name, suffix, since, result, parameters) { #name, since, (any_function)fake_##name, false, 0 },
static symbol symbols[] = { KILN__CUDA_SYMBOLS(ROW) };
enum { SYMBOLS = sizeof(symbols) / sizeof(symbols[0]) };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static object *objects;
static object *primaries[DEVICES_MAX];
static bool initialised;
static int device_sm, device_count, driver_version, eager, alike, relu6, static_shared;
static enum { GOOD, FAULT, CRASH, HANG } bad;
static unsigned bad_block;
static size_t device_memory, bytes_in_use;
static failure failures[FAILURES_MAX];
static size_t failure_count;
static kiln_fake_launch records[KILN_FAKE_RECORDS];
static size_t launch_count, lazy_count;
static kiln_fake_run run_function;
static void *run_data;
static kiln_fake_cost cost_function; /* NULL: time is the clock's */
static void *cost_data;
static uint64_t launch_ns;                  /* of every launch, if that was configured */
static uint64_t submit_ns, host_ns, gpu_ns; /* how far both have come in made-up time */

static __thread object *stack[DEPTH_MAX];
static __thread unsigned depth;
static __thread kiln__cu_enum capture_mode;

static symbol *find_symbol(const char *name)
{
    for (size_t i = 0; i < SYMBOLS; i++)
        if (strcmp(symbols[i].name, name) == 0)
            return &symbols[i];
    return NULL;
}

static symbol *need_symbol(const char *name)
{
    symbol *found = find_symbol(name);
    if (found != NULL)
        return found;
    fprintf(stderr, "stand-in driver: no function '%s' in cuda_symbols.h\n", name);
    abort();
}

/* The code that this call is planned to fail with, or 0. */
static kiln__cu_enum planned_failure(const symbol *called)
{
    for (size_t i = 0; i < failure_count; i++) {
        failure *planned = &failures[i];
        if (planned->function != called->name || planned->times == 0)
            continue;
        if (planned->skip > 0) {
            planned->skip--;
            continue;
        }
        if (planned->times != KILN_FAKE_FOREVER)
            planned->times--;
        return planned->code;
    }
    return KILN__CUDA_SUCCESS;
}

static bool works_uninitialised(const symbol *called)
{
    return strcmp(called->name, "cuInit") == 0 || strcmp(called->name, "cuDriverGetVersion") == 0 ||
           strncmp(called->name, "cuGetError", 10) == 0;
}

/* What a driver calls potentially unsafe: calls that a capture would not see, and some more, to be strict. */
static bool is_unsafe(const symbol *called)
{
    static const char *const names[] = { "cuDevicePrimaryCtxRetain",
                                         "cuDevicePrimaryCtxRelease",
                                         "cuStreamCreate",
                                         "cuStreamDestroy",
                                         "cuEventCreate",
                                         "cuEventDestroy",
                                         "cuMemAlloc",
                                         "cuMemFree",
                                         "cuMemcpyHtoD",
                                         "cuMemcpyDtoH",
                                         "cuLibraryLoadData",
                                         "cuLibraryUnload",
                                         "cuLibraryGetKernel",
                                         "cuKernelGetFunction",
                                         "cuKernelGetAttribute",
                                         "cuLibraryGetGlobal",
                                         "cuGraphInstantiateWithFlags",
                                         "cuFuncLoad" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(called->name, names[i]) == 0)
            return true;
    return false;
}

/* Whether this thread may not make unsafe calls because of the capture: see cuThreadExchangeStreamCaptureMode. */
static bool forbids(const object *stream)
{
    if (stream->kind != STREAM || stream->capture == KILN__CU_STREAM_CAPTURE_STATUS_NONE ||
        stream->mode == KILN__CU_STREAM_CAPTURE_MODE_RELAXED || capture_mode == KILN__CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    return pthread_equal(stream->capturer, pthread_self()) ||
           (stream->mode == KILN__CU_STREAM_CAPTURE_MODE_GLOBAL && capture_mode == KILN__CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* Breaks the captures that forbid an unsafe call; whether there were any. */
static bool break_captures(void)
{
    bool broken = false;
    for (object *at = objects; at != NULL; at = at->next)
        if (forbids(at)) {
            at->capture = KILN__CU_STREAM_CAPTURE_STATUS_INVALIDATED;
            broken = true;
        }
    return broken;
}

/* Every function begins with BEGIN, which takes the lock, and returns through leave, which lets it go. */
static kiln__cu_enum enter(const char *function)
{
    symbol *called = need_symbol(function + strlen("fake_"));
    pthread_mutex_lock(&lock);
    called->calls++;
    kiln__cu_enum code = planned_failure(called);
    if (code == KILN__CUDA_SUCCESS && !initialised && !works_uninitialised(called))
        code = KILN__CUDA_ERROR_NOT_INITIALIZED;
    if (code == KILN__CUDA_SUCCESS && is_unsafe(called) && break_captures())
        code = KILN__CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return code;
}

static kiln__cu_enum leave(kiln__cu_enum code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

#define BEGIN                              \
    kiln__cu_enum begun = enter(__func__); \
    if (begun != KILN__CUDA_SUCCESS)       \
    return leave(begun)

#define CHECK(condition, error)                     \
    do {                                            \
        if (!(condition))                           \
            return leave(KILN__CUDA_ERROR_##error); \
    } while (0)

static object *add(object_kind kind, object *owner)
{
    object *made = calloc(1, sizeof(*made));
    if (made == NULL)
        abort();
    *made = (object){ .next = objects, .kind = kind, .owner = owner };
    objects = made;
    return made;
}

static object *live(const void *handle, object_kind kind)
{
    for (object *at = objects; at != NULL; at = at->next)
        if (at == handle && at->kind == kind)
            return at;
    return NULL;
}

static void drop(object *gone)
{
    object **at = &objects;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    free(gone->memory);
    free(gone);
}

static object *current(void)
{
    return depth > 0 ? live(stack[depth - 1], CONTEXT) : NULL;
}

/* 0 and the context that work in a stream goes to, or what is wrong. */
static kiln__cu_enum context_of(const void *stream, object **out)
{
    *out = NULL;
    if ((uintptr_t)stream <= 2) { /* the default stream under its three names */
        *out = current();
        return *out != NULL ? KILN__CUDA_SUCCESS : KILN__CUDA_ERROR_INVALID_CONTEXT;
    }
    object *found = live(stream, STREAM);
    if (found != NULL)
        *out = live(found->owner, CONTEXT);
    return *out != NULL ? KILN__CUDA_SUCCESS : KILN__CUDA_ERROR_INVALID_HANDLE;
}

/* A stream of the context that is being captured, or NULL. All streams here wait for the default stream. */
static object *capturing_in(const object *context)
{
    for (object *at = objects; at != NULL; at = at->next)
        if (at->kind == STREAM && at->owner == context && at->capture != KILN__CU_STREAM_CAPTURE_STATUS_NONE)
            return at;
    return NULL;
}

static bool is_device(int ordinal)
{
    return ordinal >= 0 && ordinal < device_count;
}

/* ---- Made-up time */

static void spend_host(void)
{
    host_ns += submit_ns;
}

static void spend_gpu(uint64_t ns)
{
    gpu_ns = (gpu_ns > host_ns ? gpu_ns : host_ns) + ns;
}

static void spend_launch(const kiln_fake_launch *launch)
{
    if (cost_function != NULL)
        spend_gpu(cost_function(cost_data, launch));
}

static struct timespec event_time(void)
{
    struct timespec now;
    uint64_t ns = gpu_ns > host_ns ? gpu_ns : host_ns;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return cost_function == NULL
               ? now
               : (struct timespec){ .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
}

static void wait_for_gpu(void)
{
    host_ns = host_ns > gpu_ns ? host_ns : gpu_ns;
}

/* ---- Controls */

#define CONTROL(result, name, parameters) EXPORT result kiln_fake_##name parameters;
KILN_FAKE_CONTROLS(CONTROL)

static void plan(const char *function, int code, unsigned skip, unsigned times)
{
    if (failure_count == FAILURES_MAX)
        abort();
    failures[failure_count++] = (failure){ need_symbol(function)->name, (kiln__cu_enum)code, skip, times };
}

void kiln_fake_fail_call(const char *function, int code, unsigned skip, unsigned times)
{
    pthread_mutex_lock(&lock);
    plan(function, code, skip, times);
    pthread_mutex_unlock(&lock);
}

void kiln_fake_hide(const char *function)
{
    pthread_mutex_lock(&lock);
    need_symbol(function)->hidden = true;
    pthread_mutex_unlock(&lock);
}

/* NAME:CODE[:SKIP[:TIMES]] */
static bool apply_failure(char *value)
{
    int code = 0;
    unsigned skip = 0, times = KILN_FAKE_FOREVER;
    char *colon = strchr(value, ':');
    if (colon == NULL || sscanf(colon, ":%d:%u:%u", &code, &skip, &times) < 1)
        return false;
    *colon = '\0';
    plan(value, code, skip, times);
    return true;
}

/* HOW:BLOCK */
static bool apply_bad(const char *value)
{
    static const char *const names[] = { [FAULT] = "fault", [CRASH] = "crash", [HANG] = "hang" };
    const char *colon = strchr(value, ':');
    if (colon == NULL)
        return false;
    bad = GOOD;
    for (int i = FAULT; i <= HANG; i++)
        if (strncmp(value, names[i], (size_t)(colon - value)) == 0)
            bad = i;
    bad_block = (unsigned)atoi(colon + 1);
    return bad != GOOD;
}

static bool apply(char *field)
{
    char *value = strchr(field, '=');
    if (value == NULL)
        return false;
    *value++ = '\0';
    if (strcmp(field, "fail") == 0)
        return apply_failure(value);
    if (strcmp(field, "bad") == 0)
        return apply_bad(value);
    if (strcmp(field, "hide") == 0)
        need_symbol(value)->hidden = true;
    else if (strcmp(field, "sm") == 0)
        device_sm = atoi(value);
    else if (strcmp(field, "devices") == 0)
        device_count = atoi(value);
    else if (strcmp(field, "memory") == 0)
        device_memory = (size_t)strtoull(value, NULL, 10);
    else if (strcmp(field, "version") == 0)
        driver_version = atoi(value);
    else if (strcmp(field, "eager") == 0)
        eager = atoi(value);
    else if (strcmp(field, "alike") == 0)
        alike = atoi(value);
    else if (strcmp(field, "relu6") == 0)
        relu6 = atoi(value);
    else if (strcmp(field, "launch") == 0)
        launch_ns = strtoull(value, NULL, 10);
    else if (strcmp(field, "submit") == 0)
        submit_ns = strtoull(value, NULL, 10);
    else if (strcmp(field, "shared") == 0)
        static_shared = atoi(value);
    else
        return false;
    return device_count <= DEVICES_MAX;
}

static uint64_t cost_as_configured(void *data, const kiln_fake_launch *launch)
{
    (void)launch;
    return *(const uint64_t *)data;
}

static void apply_all(const char *text)
{
    char copy[512], *rest = copy;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *field = strtok_r(rest, ",", &rest); field != NULL; field = strtok_r(NULL, ",", &rest))
        if (!apply(field)) {
            fprintf(stderr, "stand-in driver: cannot make sense of '%s' in KILN_FAKE_CUDA\n", text);
            abort();
        }
}

void kiln_fake_configure(const char *text)
{
    pthread_mutex_lock(&lock);
    apply_all(text);
    pthread_mutex_unlock(&lock);
}

void kiln_fake_reset(void)
{
    const char *text = getenv("KILN_FAKE_CUDA");
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < SYMBOLS; i++) {
        symbols[i].hidden = false;
        symbols[i].calls = 0;
    }
    failure_count = launch_count = lazy_count = 0;
    run_function = NULL;
    run_data = NULL;
    launch_ns = submit_ns = 0;
    device_sm = 90;
    device_count = 1;
    driver_version = 13000;
    eager = alike = relu6 = static_shared = 0;
    bad = GOOD;
    device_memory = (size_t)256 << 20;
    if (text != NULL)
        apply_all(text);
    cost_function = launch_ns > 0 ? cost_as_configured : NULL;
    cost_data = &launch_ns;
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void start(void)
{
    kiln_fake_reset();
}

unsigned kiln_fake_calls(const char *function)
{
    pthread_mutex_lock(&lock);
    unsigned calls = need_symbol(function)->calls;
    pthread_mutex_unlock(&lock);
    return calls;
}

void kiln_fake_set_run(kiln_fake_run run, void *data)
{
    pthread_mutex_lock(&lock);
    run_function = run;
    run_data = data;
    pthread_mutex_unlock(&lock);
}

void kiln_fake_set_cost(kiln_fake_cost cost, void *data, unsigned ns)
{
    pthread_mutex_lock(&lock);
    cost_function = cost;
    cost_data = data;
    submit_ns = ns;
    pthread_mutex_unlock(&lock);
}

void kiln_fake_counts(kiln_fake_live *out)
{
    pthread_mutex_lock(&lock);
    *out = (kiln_fake_live){ .bytes = bytes_in_use, .lazy = lazy_count };
    for (const object *at = objects; at != NULL; at = at->next) {
        out->contexts += at->kind == CONTEXT ? at->retained : 0;
        out->streams += at->kind == STREAM;
        out->events += at->kind == EVENT;
        out->libraries += at->kind == LIBRARY;
        out->allocations += at->kind == ALLOCATION;
        out->pools += at->kind == POOL;
        out->graphs += at->kind == GRAPH || at->kind == EXEC;
    }
    pthread_mutex_unlock(&lock);
}

size_t kiln_fake_launches(kiln_fake_launch *out, size_t max)
{
    pthread_mutex_lock(&lock);
    size_t kept = launch_count < KILN_FAKE_RECORDS ? launch_count : KILN_FAKE_RECORDS;
    size_t given = kept < max ? kept : max;
    for (size_t i = 0; i < given; i++)
        out[i] = records[(launch_count - given + i) % KILN_FAKE_RECORDS];
    size_t all = launch_count;
    pthread_mutex_unlock(&lock);
    return all;
}

void *kiln_fake_context_new(int ordinal)
{
    pthread_mutex_lock(&lock);
    object *made = add(CONTEXT, NULL);
    made->ordinal = ordinal;
    pthread_mutex_unlock(&lock);
    return made;
}

void kiln_fake_context_free(void *context)
{
    pthread_mutex_lock(&lock);
    drop(context);
    pthread_mutex_unlock(&lock);
}

void kiln_fake_context_set(void *context)
{
    depth = context != NULL;
    stack[0] = context;
}

void *kiln_fake_context_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

void *kiln_fake_context_primary(int ordinal)
{
    pthread_mutex_lock(&lock);
    void *primary = primaries[ordinal];
    pthread_mutex_unlock(&lock);
    return primary;
}

unsigned kiln_fake_context_depth(void)
{
    return depth;
}

void *kiln_fake_stream_new(void *context)
{
    pthread_mutex_lock(&lock);
    object *made = add(STREAM, context);
    pthread_mutex_unlock(&lock);
    return made;
}

void kiln_fake_stream_free(void *stream)
{
    pthread_mutex_lock(&lock);
    drop(stream);
    pthread_mutex_unlock(&lock);
}

void kiln_fake_capture_begin(void *stream, int mode)
{
    pthread_mutex_lock(&lock);
    object *begun = stream;
    begun->capture = KILN__CU_STREAM_CAPTURE_STATUS_ACTIVE;
    begun->mode = (kiln__cu_enum)mode;
    begun->capturer = pthread_self();
    begun->captured = 0;
    pthread_mutex_unlock(&lock);
}

int kiln_fake_capture_end(void *stream)
{
    pthread_mutex_lock(&lock);
    object *ended = stream;
    int captured = ended->capture == KILN__CU_STREAM_CAPTURE_STATUS_ACTIVE ? ended->captured : -1;
    ended->capture = KILN__CU_STREAM_CAPTURE_STATUS_NONE;
    pthread_mutex_unlock(&lock);
    return captured;
}

size_t kiln_fake_cubin(void *out, size_t size, int sm, const char *const *names, size_t count, unsigned inputs)
{
    return fake_image_make(out, size, sm, names, count, inputs);
}

#endif
