/* One compile worker, seen from the host. */
#include "jit/worker/worker.h"

#include "os/beside.h"
#include "os/cpu.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A worker answers at once, but for NVRTC's opening and its trusted first compile; the machine may be busy. */
enum { PATIENCE_MS = 30000, CPU_SLACK_S = 2, NUMBER_SIZE = 24, STOPPED_POLL_MS = 20 };

static uint64_t after(uint32_t ms)
{
    return kiln__cpu_now_ns() + (uint64_t)ms * 1000000;
}

/* ---- Finding */

kiln_status kiln__worker_find(const char *named, char *out, size_t size, kiln_report *report)
{
    kiln__beside found;
    kiln_status status = KILN_OK;
    const kiln__beside_result result =
        named != NULL ? kiln__beside_check(named, X_OK, &found) : kiln__beside_find("kiln-worker", X_OK, &found);
    if (result == KILN__BESIDE_REFUSED)
        status =
            kiln__fail(report, KILN_ENOWORKER, KILN__STAGE_COMPILE, 0,
                       "the compile worker %s is not used: it is %s: make it root's or this user's own (chown) and "
                       "writable by no other (chmod go-w)",
                       found.path, found.why);
    else if (found.looked.failed)
        status = kiln__fail_memory(report, KILN__STAGE_COMPILE);
    else if (result == KILN__BESIDE_ABSENT || kiln__text_copy(out, size, found.path) >= size)
        status = kiln__fail(report, KILN_ENOWORKER, KILN__STAGE_COMPILE, 0,
                            "found no compile worker (looked for %s): install kiln-worker beside libkiln, name it in "
                            "KILN_WORKER, or set KILN_ISOLATE=never to compile everything in this process",
                            kiln__text_string(&found.looked));
    kiln__text_fini(&found.looked);
    return status;
}

/* ---- Starting */

kiln_status kiln__worker_start(kiln__child *out, const char *program, const kiln__worker_limits *limits,
                               kiln_report *report)
{
    char memory[NUMBER_SIZE], cpu[NUMBER_SIZE], name[] = "kiln-worker", memory_option[] = "--memory",
                                                cpu_option[] = "--cpu";
    snprintf(memory, sizeof(memory), "%llu", (unsigned long long)limits->memory_bytes);
    snprintf(cpu, sizeof(cpu), "%u", limits->time_ms / 1000 + CPU_SLACK_S);
    char *const argv[] = { name, memory_option, memory, cpu_option, cpu, NULL };
    int error = kiln__child_start(out, program, argv);
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (kiln__is_shortage(-error))
        return kiln__fail_shortage(report, KILN__STAGE_COMPILE, -error, "start a compile worker");
    if (error != 0)
        return kiln__fail(report, KILN_ENOWORKER, KILN__STAGE_COMPILE, -error, "cannot start the compile worker %s: %s",
                          program, strerrordesc_np(-error));
    return KILN_OK;
}

static kiln_status fail_open(const char *program, const kiln__worker_answer *answer, kiln_report *report)
{
    const char *reason = "what it answers is none of the answers";
    if (answer->result == KILN__CHANNEL_NO_MEMORY)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    if (answer->result == KILN__CHANNEL_CLOSED)
        reason = answer->stopped ? "it was stopped by a signal" : "it ended at once";
    if (answer->result == KILN__CHANNEL_LATE)
        reason = "it did not answer in time";
    if (answer->result == KILN__CHANNEL_MALFORMED)
        reason = kiln__frame_fault_text(answer->message.fault);
    return kiln__fail(report, KILN_ENOWORKER, KILN__STAGE_COMPILE, 0,
                      "%s is no usable compile worker (%s): install the kiln-worker of Kiln %s, or name it in "
                      "KILN_WORKER",
                      program, reason, kiln_version());
}

kiln_status kiln__worker_read_toolchain(const kiln__worker_answer *answer, kiln__toolchain *out, bool *sound,
                                        kiln_report *report)
{
    const kiln__frame *frame = &answer->message.frame;
    kiln_status status = KILN_OK;
    *sound = answer->result == KILN__CHANNEL_DONE &&
             ((frame->type == KILN__WORKER_TOOLCHAIN && kiln__worker_get_toolchain(frame, out)) ||
              (frame->type == KILN__WORKER_FAILED && kiln__worker_get_failure(frame, &status, report)));
    return *sound ? status : KILN_OK;
}

kiln_status kiln__worker_open(kiln__child *child, const char *program, const char *nvrtc, const kiln__list *linker,
                              const kiln__list *places, kiln__toolchain *out, kiln_report *report)
{
    kiln__worker_answer answer;
    kiln__text request = { 0 };
    bool sound;
    kiln__frame_begin(&request, KILN__WORKER_OPEN);
    kiln__frame_put_text(&request, KILN__WORKER_TAG_VERSION, kiln_version());
    kiln__frame_put_text(&request, KILN__WORKER_TAG_NVRTC, nvrtc);
    kiln__worker_put_list(&request, KILN__WORKER_TAG_PLACES, places);
    kiln__worker_put_list(&request, KILN__WORKER_TAG_LINKER, linker);
    kiln__worker_ask(child, &request, PATIENCE_MS, &answer);
    kiln__text_fini(&request);
    kiln_status status = kiln__worker_read_toolchain(&answer, out, &sound, report);
    if (!sound)
        status = fail_open(program, &answer, report);
    kiln__message_fini(&answer.message);
    return status;
}

/* ---- Asking */

/* Waits for an answer to begin. A worker that something has stopped says nothing, and need not be waited for:
 * nothing is lost with it yet. */
static kiln__channel_result await_answer(const kiln__child *child, uint64_t deadline)
{
    struct pollfd answer = { child->socket, POLLIN, 0 };
    while (kiln__cpu_now_ns() < deadline) {
        if (kiln__child_is_stopped(child))
            return KILN__CHANNEL_CLOSED;
        if (poll(&answer, 1, STOPPED_POLL_MS) > 0)
            return KILN__CHANNEL_DONE; /* or gone: the next call tells */
    }
    return KILN__CHANNEL_LATE;
}

void kiln__worker_ask(const kiln__child *child, const kiln__text *request, uint32_t time_ms, kiln__worker_answer *out)
{
    uint64_t deadline = after(PATIENCE_MS);
    memset(out, 0, sizeof(*out));
    out->stopped = kiln__child_is_stopped(child);
    out->result = out->stopped ? KILN__CHANNEL_CLOSED : kiln__channel_send(child->socket, request, deadline);
    if (out->result == KILN__CHANNEL_DONE) {
        out->result = await_answer(child, deadline);
        out->stopped = out->result == KILN__CHANNEL_CLOSED;
    }
    if (out->result != KILN__CHANNEL_DONE)
        return;
    out->result = kiln__channel_receive(child->socket, KILN__WORKER_LIMIT, deadline, &out->message);
    if (out->result != KILN__CHANNEL_DONE || out->message.frame.type != KILN__WORKER_BEGUN)
        return;
    out->begun = true;
    kiln__message_fini(&out->message);
    out->result = kiln__channel_receive(child->socket, KILN__WORKER_LIMIT, after(time_ms), &out->message);
    if (out->result == KILN__CHANNEL_DONE && out->message.frame.type == KILN__WORKER_CRASHED)
        out->result = KILN__CHANNEL_CLOSED;
}

/* ---- Saying how it died */

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

/* With the last words of the worker. */
static kiln_status fail_crashed(const kiln__frame *words, uint32_t number, const kiln__worker_limits *limits,
                                const kiln__unit *unit, kiln_report *report)
{
    uint32_t in_stack = 0;
    uint64_t memory = 0;
    kiln__frame_get_u32(words, KILN__WORKER_TAG_IN_STACK, &in_stack);
    kiln__frame_get_u64(words, KILN__WORKER_TAG_MEMORY, &memory);
    if (in_stack != 0)
        return kiln__fail(report, KILN_ECRASHED, KILN__STAGE_COMPILE, (int)number,
                          "the compiler ran out of stack on this source, for %s: is it nested too deeply?",
                          unit->target.name);
    if (memory > limits->memory_bytes / 2)
        return kiln__fail(
            report, KILN_ECRASHED, KILN__STAGE_COMPILE, (int)number,
            "the compiler crashed on this source, for %s, with %.2f GiB of memory in use of the %.2f that "
            "it may use: make the source simpler, or raise worker_memory_bytes",
            unit->target.name, gib(memory), gib(limits->memory_bytes));
    const char *name = number < NSIG ? sigdescr_np((int)number) : NULL;
    return kiln__fail(report, KILN_ECRASHED, KILN__STAGE_COMPILE, (int)number,
                      "the compiler crashed on this source, for %s: signal %u, %s", unit->target.name, number,
                      name != NULL ? name : "unknown");
}

static kiln_status fail_ended(const kiln__worker_answer *answer, int ended, const kiln__worker_limits *limits,
                              const kiln__unit *unit, kiln_report *report)
{
    uint32_t number = ended > 128 ? (uint32_t)(ended - 128) : 0;
    const kiln__frame *words = &answer->message.frame;
    if (words->type == KILN__WORKER_CRASHED)
        kiln__frame_get_u32(words, KILN__WORKER_TAG_SIGNAL, &number);
    if (number == SIGXCPU)
        return kiln__fail(report, KILN_ECRASHED, KILN__STAGE_COMPILE, (int)number,
                          "compiling for %s used more than %u s of processor time and was stopped: make the source "
                          "simpler, or raise worker_time_ms (kiln build --worker-time)",
                          unit->target.name, limits->time_ms / 1000 + CPU_SLACK_S);
    if (number != 0)
        return fail_crashed(words, number, limits, unit, report);
    return kiln__fail(report, KILN_ECRASHED, KILN__STAGE_COMPILE, 0,
                      "the compile worker ended while it compiled this source for %s", unit->target.name);
}

kiln_status kiln__worker_fail(kiln__child *child, const kiln__worker_answer *answer, const kiln__worker_limits *limits,
                              const kiln__unit *unit, kiln_report *report)
{
    int ended = kiln__child_end(child);
    switch (answer->result) {
    case KILN__CHANNEL_NO_MEMORY:
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    case KILN__CHANNEL_LATE:
        return kiln__fail(report, KILN_ECRASHED, KILN__STAGE_COMPILE, ETIMEDOUT,
                          "compiling for %s did not finish within %g s and was stopped: make the source simpler, or "
                          "raise worker_time_ms (kiln build --worker-time)",
                          unit->target.name, limits->time_ms / 1000.0);
    case KILN__CHANNEL_CLOSED:
        return fail_ended(answer, ended, limits, unit, report);
    default:
        return kiln__fail(report, KILN_ECRASHED, KILN__STAGE_COMPILE, 0,
                          "the compile worker gave no proper answer for this source, for %s", unit->target.name);
    }
}
