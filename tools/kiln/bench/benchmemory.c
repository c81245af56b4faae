#include "bench/benchmemory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <kiln/tune.h>

#include "text/format.h"

enum { POISON_BYTES = 1 << 20, POISON = 0xa5 };

/* Arrays begin at whole pages of the GPU, as an allocator of their own would place them. */
static const uint64_t page = 2 << 20;

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + page - 1) / page * page;
}

static int too_large(const kiln_device_info *info, uint64_t n)
{
    char have[FORMAT_ROOM];
    return fail(STATUS_FAILED, "%" PRIu64 " elements do not fit: %s has %s of memory; name a smaller --size", n,
                info->name, format_bytes(have, info->memory_bytes));
}

/* Takes the kernel's arrays as one block and, where there is room, as much again for the copies. */
static int take_memory(struct benchmemory *memory, struct session *session, uint64_t slot, uint32_t arrays, uint64_t n)
{
    kiln_device_info info = KILN_INIT(kiln_device_info);
    uint64_t whole = 0;
    kiln_status status = kiln_device_get_info(memory->device, &info);
    if (status)
        return session_fail(session, status, NULL);
    uint64_t usable = info.memory_bytes / 10 * 9;
    if (__builtin_mul_overflow(slot, arrays, &whole) || whole > usable || whole > SIZE_MAX / 2)
        return too_large(&info, n);
    status = kiln_alloc(&memory->arena, memory->device, whole, &session->report);
    if (status)
        return status == KILN_ENOMEM ? too_large(&info, n) : session_fail(session, status, NULL);
    memory->reused = whole + 2 * page > usable - whole ||
                     kiln_alloc(&memory->extra, memory->device, whole + 2 * page, NULL) != KILN_OK;
    if (memory->reused)
        memory->extra = NULL;
    char *copies = memory->reused ? memory->arena : memory->extra;
    memory->copy_from = copies;
    memory->copy_to = copies + (memory->reused ? whole / 2 : round_up(whole / 2));
    return STATUS_DONE;
}

static kiln_status fill_inputs(struct benchmemory *memory, struct session *session, const dtype *type, uint32_t inputs,
                               uint64_t n)
{
    kiln_status status = KILN_OK;
    for (uint32_t i = 0; i < inputs && !status; i++)
        status = kiln_fill(memory->device, memory->in[i], type->name, n, i + 1, &session->report);
    /* The copies move real values too: memory full of zeros is faster on some chips. */
    if (!status && !memory->reused)
        status = kiln_copy(memory->device, memory->copy_from, memory->in[0],
                           memory->copy_bytes < n * type->size ? memory->copy_bytes : n * type->size, NULL,
                           &session->report);
    if (!status && !memory->reused && memory->copy_bytes > n * type->size)
        status = kiln_copy(memory->device, (char *)memory->copy_from + n * type->size, memory->in[0],
                           memory->copy_bytes - n * type->size, NULL, &session->report);
    return status ? status : kiln_sync(memory->device, &session->report);
}

int benchmemory_make(struct benchmemory *out, struct session *session, kiln_device *device, const dtype *type,
                     uint32_t inputs, uint64_t n)
{
    *out = (struct benchmemory){ .device = device };
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(n, type->size, &bytes) || bytes > UINT64_C(1) << 60)
        return fail(STATUS_FAILED, "%" PRIu64 " elements do not fit in any memory; name a smaller --size", n);
    uint64_t slot = round_up(bytes);
    int result = take_memory(out, session, slot, inputs + 1, n);
    if (result)
        return result;
    for (uint32_t i = 0; i < inputs; i++)
        out->in[i] = (char *)out->arena + i * slot;
    out->out = (char *)out->arena + inputs * slot;
    out->copy_bytes = (inputs + 1) * bytes / 2 / 4 * 4;
    if (out->copy_bytes == 0)
        out->copy_bytes = 4;
    kiln_status status = fill_inputs(out, session, type, inputs, n);
    return status ? session_fail(session, status, NULL) : STATUS_DONE;
}

void benchmemory_free(struct benchmemory *memory)
{
    if (memory->device) {
        kiln_free(memory->device, memory->arena);
        kiln_free(memory->device, memory->extra);
    }
    *memory = (struct benchmemory){ .device = NULL };
}

/* The first part is copied there, and then twice as much on the device, and so on. */
kiln_status benchmemory_poison(const struct benchmemory *memory, uint64_t bytes, kiln_report *report)
{
    uint64_t have = bytes < POISON_BYTES ? bytes : POISON_BYTES;
    char *to = memory->out;
    void *poison = need_alloc(have);
    memset(poison, POISON, have);
    kiln_status status = kiln_upload(memory->device, to, poison, have, report);
    free(poison);
    while (have < bytes && !status) {
        uint64_t part = bytes - have < have ? bytes - have : have;
        status = kiln_copy(memory->device, to + have, to, part, NULL, report);
        have += part;
    }
    return status ? status : kiln_sync(memory->device, report);
}
