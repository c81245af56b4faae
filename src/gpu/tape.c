/* Timing on the device, and tapes. The timings of a device take turns with one stream and two events. */
#include "base/alloc.h"
#include "gpu/device.h"

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

/* ---- Timing */

/* Takes the device's turn and context, and makes the stream and the events where they are still missing: most
 * processes time nothing, and a stream and events cost the driver something. */
static kiln__cuda_call begin_timing(kiln__cuda_device *device, kiln_report *report)
{
    kiln__cuda_call call = kiln__cuda_call_on(device, KILN_EDEVICE, KILN__STAGE_DEVICE, report);
    kiln__cuda_enter(&call);
    pthread_mutex_lock(&device->timing);
    if (device->stream == NULL)
        KILN__CUDA(&call, cuStreamCreate, (&device->stream, KILN__CU_STREAM_NON_BLOCKING));
    if (device->start == NULL)
        KILN__CUDA(&call, cuEventCreate, (&device->start, KILN__CU_EVENT_DEFAULT));
    if (device->stop == NULL)
        KILN__CUDA(&call, cuEventCreate, (&device->stop, KILN__CU_EVENT_DEFAULT));
    return call;
}

static kiln_status end_timing(kiln__cuda_device *device, kiln__cuda_call *call)
{
    pthread_mutex_unlock(&device->timing);
    return kiln__cuda_leave(call);
}

/* The timed work: replays of a tape or, where it is NULL, submissions. */
typedef struct work {
    const kiln__tape *tape;
    kiln__submit submit;
    void *data;
} work;

static void submit_work(const work *what, CUstream stream, kiln__cuda_call *call)
{
    if (what->tape != NULL) {
        KILN__CUDA(call, cuGraphLaunch, (what->tape->exec, stream));
        return;
    }
    call->status = what->submit(what->data, stream);
    /* A launch that failed often shares this report and says more. */
    if (call->status != KILN_OK && (call->report == NULL || call->report->status != call->status))
        kiln__fail(call->report, call->status, KILN__STAGE_DEVICE, 0, "%s: the work to be timed failed: %s",
                   call->where, kiln_status_text(call->status));
}

/* The first replay of a tape keeps the device busy while the host submits the others and the events. */
static kiln_status time_work(kiln__cuda_device *device, const work *what, uint32_t repeats, double *out,
                             kiln_report *report)
{
    float milliseconds = 0;
    kiln__cuda_call call = begin_timing(device, report);
    bool ready = call.status == KILN_OK;
    if (ready && what->tape != NULL)
        submit_work(what, device->stream, &call);
    KILN__CUDA(&call, cuEventRecord, (device->start, device->stream));
    for (uint32_t i = 0; i < repeats && call.status == KILN_OK; i++)
        submit_work(what, device->stream, &call);
    KILN__CUDA(&call, cuEventRecord, (device->stop, device->stream));
    if (ready && call.status != KILN_OK)
        device->driver->cuStreamSynchronize(device->stream); /* the queued work may use the caller's memory */
    KILN__CUDA(&call, cuEventSynchronize, (device->stop));
    if (KILN__CUDA(&call, cuEventElapsedTime, (&milliseconds, device->start, device->stop)))
        *out = (double)milliseconds;
    return end_timing(device, &call);
}

kiln_status kiln__cuda_time(kiln_device *base, kiln__submit submit, void *data, uint32_t repeats, double *out,
                            kiln_report *report)
{
    const work what = { NULL, submit, data };
    return time_work((kiln__cuda_device *)base, &what, repeats, out, report);
}

/* ---- Onto a tape */

static void add_node(const CUgraphNode *node, kiln__cu_enum code)
{
    making->spoilt |= code != KILN__CUDA_SUCCESS;
    making->nodes++;
    making->last = *node;
}

/* A graph may well have nodes of several GPUs, but the time of one is asked for. */
static bool takes_from(const kiln__cuda_device *device)
{
    making->spoilt |= device->primary != making->context;
    return !making->spoilt;
}

void kiln__cuda_tape_kernel(const kiln__cuda_device *device, const kiln__cu_kernel_node *kernel)
{
    CUgraphNode node = NULL;
    kiln__cu_kernel_node what = *kernel;
    what.context = device->primary;
    if (takes_from(device))
        add_node(&node, device->driver->cuGraphAddKernelNode(&node, making->graph, &making->last, making->nodes > 0,
                                                             (const struct CUDA_KERNEL_NODE_PARAMS_v2_st *)&what));
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
        add_node(&node, device->driver->cuGraphAddMemcpyNode(&node, making->graph, &making->last, making->nodes > 0,
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

/* A submission that leaves nothing on the tape does work that Kiln knows nothing of. */
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

static kiln__tape *make(kiln_device *base, kiln__submit submit, void *data, uint32_t count)
{
    kiln__cuda_device *device = (kiln__cuda_device *)base;
    kiln__tape *tape = has_graphs(device->driver) ? kiln__calloc(1, sizeof(*tape)) : NULL;
    if (tape == NULL)
        return NULL;
    kiln__cuda_call call = begin_timing(device, NULL);
    if (KILN__CUDA(&call, cuGraphCreate, (&tape->graph, 0))) {
        submit_all(device, tape, submit, data, count);
        if (tape->spoilt || !KILN__CUDA(&call, cuGraphInstantiateWithFlags, (&tape->exec, tape->graph, 0)))
            tape->exec = NULL;
        device->driver->cuGraphDestroy(tape->graph);
    }
    end_timing(device, &call);
    if (tape->exec != NULL)
        return tape;
    kiln__free(tape);
    return NULL;
}

static kiln_status play(kiln_device *base, kiln__tape *tape, uint32_t replays, double *out, kiln_report *report)
{
    const work what = { .tape = tape };
    return time_work((kiln__cuda_device *)base, &what, replays, out, report);
}

static void discard(kiln_device *base, kiln__tape *tape)
{
    kiln__cuda_call call = kiln__cuda_call_on((kiln__cuda_device *)base, KILN_EDEVICE, KILN__STAGE_DEVICE, NULL);
    if (tape == NULL)
        return;
    kiln__cuda_enter(&call);
    call.driver->cuGraphExecDestroy(tape->exec);
    kiln__cuda_leave(&call);
    kiln__free(tape);
}

const kiln__tape_vtable kiln__cuda_tapes = { .make = make, .play = play, .discard = discard };
