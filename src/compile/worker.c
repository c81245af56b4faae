#include "compile/worker.h"

#include "os/cpu.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A worker answers at once, but for NVRTC's opening and its own trusted first compile; the machine may be a busy one. */
enum { PATIENCE_MS = 30000, CPU_SLACK_S = 2, NUMBER_SIZE = 24, STOPPED_POLL_MS = 20 };

static uint64_t after(uint32_t ms)
{
    return kiln__cpu_now_ns() + (uint64_t)ms * 1000000;
}

/* ---- Finding */

/* From the directory of the file that holds this code; the build says which. */
static const char *const program_places[] = { KILN_WORKER_PLACES };

/* The directory and the owner of the file that holds this code: the shared library, or a program that it is linked into. */
static bool find_own_file(char path[PATH_MAX], uid_t *owner)
{
    struct stat status;
    Dl_info info;
    ssize_t length = -1;
    if (dladdr(program_places, &info) != 0 && info.dli_fname != NULL && strchr(info.dli_fname, '/') != NULL &&
        realpath(info.dli_fname, path) != NULL)
        length = (ssize_t)strlen(path);
    else if ((length = readlink("/proc/self/exe", path, PATH_MAX - 1)) > 0)
        path[length] = '\0';
    if (length <= 0 || stat(path, &status) != 0)
        return false;
    *owner = status.st_uid;
    *strrchr(path, '/') = '\0';
    return true;
}

static bool is_trusted(const char *path, uid_t owner)
{
    struct stat status;
    return stat(path, &status) == 0 && (status.st_mode & S_IWOTH) == 0 &&
           (status.st_uid == 0 || status.st_uid == geteuid() || status.st_uid == owner);
}

/* The program and the two directories above it, libexec/kiln: a program in /tmp must not take what others left there. */
static bool is_ours(const char *program, uid_t owner)
{
    char path[PATH_MAX];
    kiln__text_copy(path, sizeof(path), program);
    for (int i = 0; i < 3; i++) {
        if (!is_trusted(path, owner))
            return false;
        *strrchr(path, '/') = '\0';
    }
    return true;
}

static bool is_program(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

static kiln_status fail_find(const char *where, kiln_report *report)
{
    return kiln__fail(report, KILN_ENOWORKER, KILN__STAGE_COMPILE, 0,
                      "found no compile worker (looked for %s): install kiln-worker beside libkiln, name it in "
                      "KILN_WORKER, or set KILN_ISOLATE=never to compile everything in this process",
                      where);
}

/* True if the program is at a place; adds the place to `looked`. */
static bool try_place(const char *own, const char *place, uid_t owner, kiln__text *looked, char *out, size_t size)
{
    char path[PATH_MAX], resolved[PATH_MAX];
    bool absolute = place[0] == '/';
    int length = snprintf(path, sizeof(path), "%s%s%s", absolute ? "" : own, absolute ? "" : "/", place);
    kiln__text_printf(looked, "%s%s", looked->length > 0 ? ", " : "", path);
    return length > 0 && (size_t)length < sizeof(path) && is_program(path) && realpath(path, resolved) != NULL &&
           is_ours(resolved, owner) && kiln__text_copy(out, size, resolved) < size;
}

kiln_status kiln__worker_find(const char *named, char *out, size_t size, kiln_report *report)
{
    char own[PATH_MAX];
    kiln__text looked = { 0 };
    bool found = false;
    uid_t owner;
    if (named != NULL)
        return is_program(named) && kiln__text_copy(out, size, named) < size ? KILN_OK : fail_find(named, report);
    if (!find_own_file(own, &owner))
        return fail_find("it beside libkiln, whose own file cannot be found", report);
    for (size_t i = 0; i < sizeof(program_places) / sizeof(program_places[0]) && !found; i++)
        found = try_place(own, program_places[i], owner, &looked, out, size);
    kiln_status status = found           ? KILN_OK
                         : looked.failed ? kiln__fail_memory(report, KILN__STAGE_COMPILE)
                                         : fail_find(kiln__text_string(&looked), report);
    kiln__text_fini(&looked);
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

kiln_status kiln__worker_open(kiln__child *child, const char *program, const char *nvrtc, const kiln__list *places,
                              kiln__toolchain *out, kiln_report *report)
{
    kiln__worker_answer answer;
    kiln__text request = { 0 };
    kiln_status status = KILN_OK;
    kiln__frame_begin(&request, KILN__WORKER_OPEN);
    kiln__frame_put_text(&request, KILN__WORKER_TAG_VERSION, kiln_version());
    if (nvrtc != NULL)
        kiln__frame_put_text(&request, KILN__WORKER_TAG_NVRTC, nvrtc);
    kiln__worker_put_list(&request, KILN__WORKER_TAG_PLACES, places);
    kiln__worker_ask(child, &request, PATIENCE_MS, &answer);
    kiln__text_fini(&request);
    const kiln__frame *frame = &answer.message.frame;
    bool answered = answer.result == KILN__CHANNEL_DONE;
    if (answered && frame->type == KILN__WORKER_TOOLCHAIN && kiln__worker_get_toolchain(frame, out))
        status = KILN_OK;
    else if (!answered || frame->type != KILN__WORKER_FAILED || !kiln__worker_get_failure(frame, &status, report))
        status = fail_open(program, &answer, report);
    kiln__message_fini(&answer.message);
    return status;
}

/* ---- Asking */

/* Waits for an answer to begin. A worker that something has stopped says nothing, and need not be waited for: nothing is lost with it
 * yet. */
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
                          "simpler, or raise worker_time_ms",
                          unit->target.name, limits->time_ms / 1000 + CPU_SLACK_S);
    if (number != 0)
        return fail_crashed(words, number, limits, unit, report);
    return kiln__fail(report, KILN_ECRASHED, KILN__STAGE_COMPILE, 0,
                      "the compile worker ended while it compiled this source for %s", unit->target.name);
}

kiln_status kiln__worker_bury(kiln__child *child, const kiln__worker_answer *answer, const kiln__worker_limits *limits,
                              const kiln__unit *unit, kiln_report *report)
{
    int ended = kiln__child_end(child);
    switch (answer->result) {
    case KILN__CHANNEL_NO_MEMORY:
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    case KILN__CHANNEL_LATE:
        return kiln__fail(report, KILN_ECRASHED, KILN__STAGE_COMPILE, ETIMEDOUT,
                          "compiling for %s did not finish within %g s and was stopped: make the source simpler, or "
                          "raise worker_time_ms",
                          unit->target.name, limits->time_ms / 1000.0);
    case KILN__CHANNEL_CLOSED:
        return fail_ended(answer, ended, limits, unit, report);
    default:
        return kiln__fail(report, KILN_ECRASHED, KILN__STAGE_COMPILE, 0,
                          "the compile worker gave no proper answer for this source, for %s", unit->target.name);
    }
}
