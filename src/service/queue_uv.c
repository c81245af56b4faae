/* A queue on a libuv loop: a poll handle on its descriptor. No other file of the library uses libuv. */
#include "base/alloc.h"
#include "service/queue.h"
#include <uv.h>

struct kiln__queue_uv {
    uv_poll_t poll;
    pthread_t thread; /* the loop's: only there may the handle be touched */
    kiln_queue *queue;
    bool closing;
};

static void on_readable(uv_poll_t *poll, int status, int events)
{
    kiln__queue_uv *uv = poll->data;
    (void)status;
    (void)events;
    kiln__queue_dispatch(uv->queue);
}

kiln_status kiln__queue_attach_uv(kiln_queue *queue, struct uv_loop_s *loop, kiln_report *report)
{
    if (queue->uv != NULL || queue->closing)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_OPEN, 0, "the queue is closed or already has a loop");
    kiln__queue_uv *uv = kiln__calloc(1, sizeof(*uv));
    if (uv == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    int error = uv_poll_init(loop, &uv->poll, queue->fd);
    if (error != 0) {
        kiln__free(uv);
        return kiln__fail(report, KILN_EIO, KILN__STAGE_OPEN, -error, "libuv does not watch the queue: %s",
                          uv_strerror(error));
    }
    uv->queue = queue;
    uv->thread = pthread_self();
    uv->poll.data = uv;
    queue->uv = uv;
    uv_poll_start(&uv->poll, UV_READABLE, on_readable);
    kiln__queue_uv_update(queue);
    return KILN_OK;
}

void kiln__queue_uv_update(kiln_queue *queue)
{
    kiln__queue_uv *uv = queue->uv;
    if (!pthread_equal(uv->thread, pthread_self())) {
        kiln__queue_wake(queue);
        return;
    }
    /* A loop goes on as long as it has a referenced handle. */
    if (queue->closing || kiln__queue_live(queue) > 0)
        uv_ref((uv_handle_t *)&uv->poll);
    else
        uv_unref((uv_handle_t *)&uv->poll);
}

static void on_closed(uv_handle_t *handle)
{
    kiln__queue_uv *uv = handle->data;
    kiln_queue *queue = uv->queue;
    queue->uv = NULL;
    kiln__free(uv);
    kiln__queue_finish(queue);
}

void kiln__queue_uv_close(kiln_queue *queue)
{
    kiln__queue_uv *uv = queue->uv;
    if (uv->closing)
        return;
    uv->closing = true;
    uv_close((uv_handle_t *)&uv->poll, on_closed);
}
