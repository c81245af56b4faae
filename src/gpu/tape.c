#include "gpu/tape.h"

#include "base/alloc.h"
#include "gpu/timing.h"

struct kiln__tape {
    CUcontext context; /* of its GPU, the same in all services */
    CUstream stream;   /* of what goes onto it while it is made */
    CUgraph graph;     /* while it is made */
    CUgraphNode last;  /* every node comes after the one before, as in a stream */
    CUgraphExec exec;  /* once it is made */
    uint32_t nodes;
    bool spoilt;
};

atomic_uint kiln__cuda_tapes_in_making;

static _Thread_local kiln__tape *making; /* NULL but while this thread makes one */

bool kiln__cuda_makes_tape(CUstream stream)
{
    return making != NULL && making->stream == stream;
}

/* ---- Onto a tape */

static void add(CUgraphNode node, kiln__cu_enum code)
{
    making->spoilt |= code != KILN__CUDA_SUCCESS;
    making->nodes++;
    making->last = node;
}

/* A graph may well have nodes of several GPUs, but it is the time of one that is asked for. */
static bool takes_from(const kiln__cuda_device *device)
{
    making->spoilt |= device->primary != making->context;
    return !making->spoilt;
}

kiln__cu_enum kiln__cuda_tape_kernel(const kiln__cuda_device *device, CUkernel kernel, const kiln__cuda_shape *shape,
                                     void **parameters)
{
    CUgraphNode node = NULL;
    const kiln__cu_kernel_node what = { .grid = { shape->grid[0], shape->grid[1], shape->grid[2] },
                                        .block = { shape->block[0], shape->block[1], shape->block[2] },
                                        .shared_bytes = shape->shared,
                                        .parameters = parameters,
                                        .kernel = kernel,
                                        .context = device->primary };
    if (takes_from(device))
        add(node, device->driver->cuGraphAddKernelNode(&node, making->graph, &making->last, making->nodes > 0,
                                                       (const struct CUDA_KERNEL_NODE_PARAMS_v2_st *)&what));
    return KILN__CUDA_SUCCESS;
}

void kiln__cuda_tape_copy(const kiln__cuda_device *device, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUgraphNode node = NULL;
    const kiln__cu_enum type = KILN__CU_MEMORYTYPE_DEVICE;
    const kiln__cu_copy_node what = { .from = { .memory_type = type, .device = from, .pitch = bytes },
                                      .to = { .memory_type = type, .device = to, .pitch = bytes },
                                      .width = bytes,
                                      .height = 1,
                                      .depth = 1 };
    if (takes_from(device))
        add(node, device->driver->cuGraphAddMemcpyNode(&node, making->graph, &making->last, making->nodes > 0,
                                                       (const struct CUDA_MEMCPY3D_st *)&what, device->primary));
}

void kiln__cuda_tape_spoil(void)
{
    making->spoilt = true;
}

/* ---- Making, playing */

static bool has_graphs(const kiln__driver *driver)
{
    return driver->cuGraphCreate != NULL && driver->cuGraphDestroy != NULL && driver->cuGraphAddKernelNode != NULL &&
           driver->cuGraphAddMemcpyNode != NULL && driver->cuGraphInstantiateWithFlags != NULL &&
           driver->cuGraphLaunch != NULL && driver->cuGraphExecDestroy != NULL;
}

/* What submits without leaving anything on the tape does work that Kiln knows nothing of. */
static void submit_all(const kiln__cuda_device *device, kiln__tape *tape, kiln__submit submit, void *data,
                       uint32_t count)
{
    making = tape;
    tape->context = device->primary;
    tape->stream = device->stream;
    atomic_fetch_add_explicit(&kiln__cuda_tapes_in_making, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < count && !tape->spoilt; i++) {
        uint32_t before = tape->nodes;
        if (submit(data, device->stream) != KILN_OK || tape->nodes == before)
            tape->spoilt = true;
    }
    atomic_fetch_sub_explicit(&kiln__cuda_tapes_in_making, 1, memory_order_relaxed);
    making = NULL;
}

/* With the device's turn and context. */
static void fill(kiln__cuda_device *device, kiln__tape *tape, kiln__submit submit, void *data, uint32_t count)
{
    const kiln__driver *driver = device->driver;
    const kiln__cuda_call call = { driver, KILN_EDEVICE, KILN__STAGE_DEVICE, device->device.name, NULL };
    if (kiln__cuda_prepare_timing(device, &call) != KILN_OK ||
        driver->cuGraphCreate(&tape->graph, 0) != KILN__CUDA_SUCCESS)
        return;
    submit_all(device, tape, submit, data, count);
    if (tape->spoilt || driver->cuGraphInstantiateWithFlags(&tape->exec, tape->graph, 0) != KILN__CUDA_SUCCESS)
        tape->exec = NULL;
    driver->cuGraphDestroy(tape->graph);
}

static kiln__tape *make(kiln_device *base, kiln__submit submit, void *data, uint32_t count)
{
    kiln__cuda_device *device = (kiln__cuda_device *)base;
    const kiln__cuda_call call = { device->driver, KILN_EDEVICE, KILN__STAGE_DEVICE, device->device.name, NULL };
    kiln__cuda_scope scope;
    kiln__tape *tape = has_graphs(device->driver) ? kiln__calloc(1, sizeof(*tape)) : NULL;
    if (tape == NULL || kiln__cuda_enter(&scope, device, &call) != KILN_OK) {
        kiln__free(tape);
        return NULL;
    }
    pthread_mutex_lock(&device->timing);
    fill(device, tape, submit, data, count);
    pthread_mutex_unlock(&device->timing);
    kiln__cuda_leave(&scope);
    if (tape->exec != NULL)
        return tape;
    kiln__free(tape);
    return NULL;
}

static kiln_status replay(void *data, CUstream stream, const kiln__cuda_call *call)
{
    const kiln__tape *tape = data;
    return KILN__CUDA(call, cuGraphLaunch, (tape->exec, stream));
}

/* The first replay is for the device to have something to do while the host submits the others and the events. */
static kiln_status play(kiln_device *base, kiln__tape *tape, uint32_t replays, double *out, kiln_report *report)
{
    const kiln__cuda_work work = { .lead = replay, .part = replay, .data = tape, .repeats = replays };
    return kiln__cuda_time_work((kiln__cuda_device *)base, &work, out, report);
}

static void discard(kiln_device *base, kiln__tape *tape)
{
    kiln__cuda_device *device = (kiln__cuda_device *)base;
    const kiln__cuda_call call = { device->driver, KILN_EDEVICE, KILN__STAGE_DEVICE, device->device.name, NULL };
    kiln__cuda_scope scope;
    if (tape == NULL)
        return;
    if (kiln__cuda_enter(&scope, device, &call) != KILN_OK)
        kiln__cuda_relax(&scope, device->driver);
    device->driver->cuGraphExecDestroy(tape->exec);
    kiln__cuda_leave(&scope);
    kiln__free(tape);
}

const kiln__tape_vtable kiln__cuda_tapes = { .make = make, .play = play, .discard = discard };
