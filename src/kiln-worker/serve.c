#include "kiln-worker/serve.h"

#include "base/alloc.h"
#include "gpu/cuda.h"
#include "jit/worker/protocol.h"
#include "kiln-worker/limits.h"
#include "kiln-worker/sandbox.h"
#include "kiln-worker/witness.h"
#include "os/cpu.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define IDLE_NS ((uint64_t)60 * 1000000000)

static void leave(void) __attribute__((noreturn));
static void leave(void)
{
    _exit(0);
}

/* Sends and uses up an answer. Without memory for one there is nothing to say. */
static void answer(kiln__text *frame)
{
    if (kiln__channel_send(KILN__WORKER_FD, frame, KILN__CHANNEL_FOREVER) != KILN__CHANNEL_DONE)
        leave();
    kiln__text_fini(frame);
}

static void answer_failure(kiln_status status, kiln_report *report)
{
    kiln__text frame = { 0 };
    kiln__frame_begin(&frame, KILN__WORKER_FAILED);
    kiln__worker_put_failure(&frame, status, report);
    answer(&frame);
    kiln_report_clear(report);
}

static void answer_toolchain(kiln_status status, const kiln__toolchain *toolchain, kiln_report *report)
{
    kiln__text frame = { 0 };
    if (status != KILN_OK) {
        answer_failure(status, report);
        return;
    }
    kiln__frame_begin(&frame, KILN__WORKER_TOOLCHAIN);
    kiln__worker_put_toolchain(&frame, toolchain);
    answer(&frame);
}

/* Once NVRTC and its builtins are in, no source needs a file but the headers in the places that it may read. Nor is
 * it to learn, or to leave in its code, where the host was started. */
static kiln_status close_off(const kiln__frame *request, kiln_report *report)
{
    char reason[256] = "";
    kiln__list places = { 0 };
    bool closed = kiln__worker_get_list(request, KILN__WORKER_TAG_PLACES, &places) && places.count % 2 == 0 &&
                  chdir("/") == 0 && kiln__sandbox_enter_places(&places, reason, sizeof(reason));
    kiln__list_fini(&places);
    if (closed)
        return KILN_OK;
    return kiln__fail(report, KILN_ENOWORKER, KILN__STAGE_OPEN, 0,
                      "the compile worker cannot keep sources from reading files: %s", reason);
}

static kiln_status open_compiler(kiln__server *self, const kiln__frame *request, kiln__toolchain *out,
                                 kiln_report *report)
{
    const char *version = kiln__frame_get_text(request, KILN__WORKER_TAG_VERSION);
    if (version == NULL || strcmp(version, kiln_version()) != 0)
        return kiln__fail(report, KILN_ENOWORKER, KILN__STAGE_OPEN, 0,
                          "the compile worker is of Kiln %s and the library of Kiln %s: install the two together",
                          kiln_version(), version != NULL ? version : "unknown");
    self->compiler = kiln__cuda_compiler_open(kiln__frame_get_text(request, KILN__WORKER_TAG_NVRTC), NULL);
    if (self->compiler == NULL)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    return self->compiler->vtable->open(self->compiler, out, report);
}

static void receive(kiln__message *request)
{
    if (kiln__channel_receive(KILN__WORKER_FD, KILN__WORKER_LIMIT, kiln__cpu_now_ns() + IDLE_NS, request) !=
        KILN__CHANNEL_DONE)
        leave();
}

void kiln__serve_open(kiln__server *self)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__toolchain toolchain;
    kiln__message request;
    memset(&toolchain, 0, sizeof(toolchain));
    receive(&request);
    if (request.frame.type != KILN__WORKER_OPEN)
        leave();
    kiln_status status = open_compiler(self, &request.frame, &toolchain, &report);
    if (status == KILN_OK)
        status = close_off(&request.frame, &report);
    answer_toolchain(status, &toolchain, &report);
    kiln__message_fini(&request);
    if (status != KILN_OK)
        leave();
}

static void identify(kiln__server *self)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__toolchain toolchain;
    kiln_status status = self->compiler->vtable->identify(self->compiler, &toolchain, &report);
    answer_toolchain(status, &toolchain, &report);
}

/* A header that is there and cannot be read: what the compiler says of that, or has put in its place, is not it. */
static kiln_status fail_unread(kiln_report *report)
{
    int error;
    const char *path = kiln__witness_unread(&error);
    const char *advice = error == EACCES || error == EPERM ? "let this user read it"
                         : error == ENOENT ? "mount /proc, by which a worker finds out where a file lies"
                                           : "try again";
    if (path == NULL)
        return KILN_OK;
    kiln_report_clear(report);
    return kiln__fail(report, KILN_EIO, KILN__STAGE_COMPILE, error, "the header %s cannot be read: %s: %s", path,
                      strerrordesc_np(error), advice);
}

/* What is wrong with half of a file is not what is wrong with the file. */
static kiln_status fail_settled(kiln_report *report)
{
    kiln__text reads = { 0 };
    bool settled = kiln__witness_tell(&reads);
    kiln__text_fini(&reads);
    if (settled)
        return KILN_ECOMPILE;
    kiln_report_clear(report);
    return kiln__fail(report, KILN_EIO, KILN__STAGE_COMPILE, 0,
                      "headers change while they are read: try again when they are written");
}

/* Compiles, and lets the witness say what was read. */
static kiln_status compile_unit(kiln__server *self, const kiln__unit *unit, kiln__image *out, kiln_report *report)
{
    kiln__text reads = { 0 };
    kiln__witness_begin();
    kiln__limits_compile(self->cpu_s);
    kiln_status status = self->compiler->vtable->compile(self->compiler, unit, out, report);
    kiln__limits_rest();
    if (kiln__unit_is_source(unit) && (status == KILN_OK || status == KILN_ECOMPILE) &&
        fail_unread(report) != KILN_OK) {
        kiln__image_fini(out);
        return KILN_EIO;
    }
    if (status == KILN_ECOMPILE && kiln__unit_is_source(unit))
        return fail_settled(report);
    if (status != KILN_OK || !kiln__unit_is_source(unit))
        return status;
    out->unsettled = !kiln__witness_tell(&reads);
    out->reads = kiln__strdup(kiln__text_string(&reads));
    kiln__text_fini(&reads);
    if (out->reads != NULL)
        return KILN_OK;
    kiln__image_fini(out);
    return kiln__fail_memory(report, KILN__STAGE_COMPILE);
}

static void compile(kiln__server *self, const kiln__frame *request)
{
    kiln_report report = KILN_INIT(kiln_report);
    kiln__toolchain toolchain;
    kiln__image image;
    kiln__unit unit;
    kiln__text frame = { 0 };
    if (!kiln__worker_get_unit(request, &unit))
        leave();
    kiln__frame_begin(&frame, KILN__WORKER_BEGUN);
    answer(&frame);
    kiln_status status = compile_unit(self, &unit, &image, &report);
    kiln__unit_fini_source(&unit);
    if (status == KILN_OK)
        status = self->compiler->vtable->open(self->compiler, &toolchain, &report);
    if (status != KILN_OK) {
        answer_failure(status, &report);
        return;
    }
    kiln__frame_begin(&frame, KILN__WORKER_IMAGE);
    kiln__worker_put_image(&frame, &image, &toolchain);
    if (frame.failed)
        answer_failure(kiln__fail_memory(&report, KILN__STAGE_COMPILE), &report);
    else
        answer(&frame);
    kiln__image_fini(&image);
}

void *kiln__serve(void *server)
{
    kiln__server *self = server;
    for (;;) {
        kiln__message request;
        receive(&request);
        if (request.frame.type == KILN__WORKER_IDENTIFY)
            identify(self);
        else if (request.frame.type == KILN__WORKER_COMPILE)
            compile(self, &request.frame);
        else
            leave();
        kiln__message_fini(&request);
        if (kiln__limits_is_bloated(self->memory_bytes))
            leave();
    }
}
