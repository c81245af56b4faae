/* One compile worker, seen from the host. */
#include "jit/worker/worker.h"

#include "os/cpu.h"
#include "os/trust.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A worker answers at once, but for NVRTC's opening and its trusted first compile; the machine may be busy. */
enum { PATIENCE_MS = 30000, CPU_SLACK_S = 2, NUMBER_SIZE = 24, STOPPED_POLL_MS = 20 };

static uint64_t after(uint32_t ms)
{
    return kiln__cpu_now_ns() + (uint64_t)ms * 1000000;
}

/* ---- Finding */

/* From the directory of the file that holds this code; the build says which. A place in a build tree is for the files
 * of that tree: an installed program must not take a program from where it was built. */
static const struct {
    const char *tree; /* "" for every file */
    const char *path;
} program_places[] = { KILN_WORKER_PLACES };

/* The file that is mapped where this code is, as the kernel has it. False without /proc. */
static bool find_mapped_file(char path[PATH_MAX])
{
    char line[PATH_MAX + 128];
    uintptr_t here = (uintptr_t)program_places;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && !found && fgets(line, sizeof(line), maps) != NULL) {
        unsigned long long from, to;
        const char *slash = strchr(line, '/');
        found = slash != NULL && sscanf(line, "%llx-%llx", &from, &to) == 2 && here >= from && here < to;
        if (found)
            snprintf(path, PATH_MAX, "%.*s", (int)strcspn(slash, "\n"), slash);
    }
    if (maps != NULL)
        fclose(maps);
    return found;
}

static bool find_program_file(char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* The directory and the owner of the file that holds this code: the shared library, or a program that it is linked
 * into. The loader's name of a library serves where it is absolute. A relative one is of a directory that the
 * process may have left, and its caller makes up a program's: there the kernel is asked. */
static bool find_own_file(char path[PATH_MAX], uid_t *owner)
{
    struct stat status;
    struct link_map *map = NULL;
    Dl_info info;
    bool library = dladdr1(program_places, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 && map != NULL &&
                   map->l_name != NULL && map->l_name[0] != '\0';
    bool found = !library                ? find_program_file(path)
                 : map->l_name[0] == '/' ? realpath(map->l_name, path) != NULL
                                         : find_mapped_file(path);
    if (!found || path[0] != '/' || stat(path, &status) != 0)
        return false;
    *owner = status.st_uid;
    *strrchr(path, '/') = '\0';
    return true;
}

static bool is_trusted_directory(const char *path, uid_t owner)
{
    struct stat status;
    return stat(path, &status) == 0 && (status.st_mode & S_IWOTH) == 0 &&
           (status.st_uid == 0 || status.st_uid == geteuid() || status.st_uid == owner);
}

/* Why a program may not be used, NULL if it may. `owner` is trusted already, because that user may change this process
 * through the file of its code. A program found `beside` the library must also lie in two trusted directories,
 * libexec/kiln: a program in /tmp must not take what others left there. */
static const char *refuse_program(const char *program, uid_t owner, bool beside, char *buffer, size_t size)
{
    struct stat status;
    char path[PATH_MAX];
    kiln__text_copy(path, sizeof(path), program);
    for (int i = 0; i < 2 && beside; i++) {
        *strrchr(path, '/') = '\0';
        if (!is_trusted_directory(path, owner))
            return "in a directory that others may change";
    }
    if (stat(program, &status) != 0)
        return "not there any more";
    if (status.st_uid == owner)
        status.st_uid = geteuid();
    return kiln__trust_refuse_file(&status, KILN__TRUST_SHARED, buffer, size);
}

static kiln_status check_program(const char *program, uid_t owner, bool beside, kiln_report *report)
{
    char buffer[128];
    const char *why = refuse_program(program, owner, beside, buffer, sizeof(buffer));
    if (why == NULL)
        return KILN_OK;
    return kiln__fail(report, KILN_ENOWORKER, KILN__STAGE_COMPILE, 0,
                      "the compile worker %s is not used: it is %s: make it root's or this user's own (chown) and "
                      "writable by no other (chmod go-w)",
                      program, why);
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

static bool is_in_tree(const char *directory, const char *tree)
{
    size_t length = strlen(tree);
    return length == 0 ||
           (strncmp(directory, tree, length) == 0 && (directory[length] == '/' || directory[length] == '\0'));
}

/* Looks at each of the places; *refused says why the first program that may not be used is refused. */
static bool find_beside(const char *own, uid_t owner, char *out, size_t size, kiln__text *looked, kiln_report *refused)
{
    char path[PATH_MAX], resolved[PATH_MAX];
    for (size_t i = 0; i < sizeof(program_places) / sizeof(program_places[0]); i++) {
        const char *place = program_places[i].path;
        bool absolute = place[0] == '/';
        if (!is_in_tree(own, program_places[i].tree))
            continue;
        int length = snprintf(path, sizeof(path), "%s%s%s", absolute ? "" : own, absolute ? "" : "/", place);
        kiln__text_printf(looked, "%s%s", looked->length > 0 ? ", " : "", path);
        if (length > 0 && (size_t)length < sizeof(path) && is_program(path) && realpath(path, resolved) != NULL &&
            check_program(resolved, owner, true, refused->status == KILN_OK ? refused : NULL) == KILN_OK &&
            kiln__text_copy(out, size, resolved) < size)
            return true;
    }
    return false;
}

kiln_status kiln__worker_find(const char *named, char *out, size_t size, kiln_report *report)
{
    char own[PATH_MAX];
    uid_t owner;
    kiln__text looked = { 0 };
    kiln_report refused = KILN_INIT(kiln_report);
    kiln_status status = KILN_OK;
    if (named != NULL && (named[0] != '/' || !is_program(named) || kiln__text_copy(out, size, named) >= size))
        return fail_find(named, report);
    if (named != NULL)
        return check_program(named, geteuid(), false, report);
    if (!find_own_file(own, &owner))
        return fail_find("it beside libkiln, whose own file cannot be found", report);
    if (!find_beside(own, owner, out, size, &looked, &refused)) {
        status = looked.failed ? kiln__fail_memory(report, KILN__STAGE_COMPILE)
                               : fail_find(kiln__text_string(&looked), report);
        if (!looked.failed && refused.status != KILN_OK)
            kiln__report_move(report, &refused);
    }
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
