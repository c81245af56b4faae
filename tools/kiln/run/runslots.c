#include "run/runslots.h"

#include <inttypes.h>
#include <string.h>

#include "text/dtype.h"
#include "text/format.h"

bool runslots_reads(const run_slot *slot)
{
    return slot->info.role == KILN_ROLE_IN || slot->info.role == KILN_ROLE_INOUT;
}

kiln_arg runslots_given(const run_slot *slot, const void *data)
{
    return slot->info.role == KILN_ROLE_SCALAR ? (kiln_arg){ KILN_ARG_VALUE, slot->info.bytes, &slot->number }
                                               : KILN_ARRAY(data, slot->array.bytes);
}

/* ---- What the kernel takes */

/* The slots in the kernel's order, each input with its file. */
static int make_slots(run_slots *out, const kiln_signature *signature, const npy_array *files, size_t count)
{
    size_t used = 0, results = 0;
    while (out->size_count < signature->size_count) {
        out->size_names[out->size_count] = signature->sizes[out->size_count];
        out->size_count++;
    }
    for (uint32_t i = 0; i < signature->param_count; i++) {
        const kiln_param *param = signature->params[i];
        if (param->role == KILN_ROLE_FORMULA)
            continue;
        run_slot *s = &out->slots[out->count++];
        *s = (run_slot){ .info = *param, .index = i, .array = { .fd = -1 } };
        if (runslots_reads(s) && used < count)
            s->array = files[used];
        used += runslots_reads(s);
        if (param->role == KILN_ROLE_OUT || param->role == KILN_ROLE_INOUT) {
            out->result = s;
            results++;
        }
    }
    if (used != count)
        return fail(STATUS_USAGE, "the kernel reads %zu array%s, %zu given; give --in once for each", used,
                    used == 1 ? "" : "s", count);
    if (results != 1)
        return fail(STATUS_USAGE, "the kernel writes %zu arrays: kiln run can write one", results);
    return STATUS_DONE;
}

/* How .npy files call a type; NULL for those that they are not read with here. */
static const char *descr_of(const char *type)
{
    const dtype *real = dtype_named(type);
    return real ? real->descr : strcmp(type, "uint16") == 0 ? "<u2" : NULL;
}

/* ---- Sizes */

static int bind_size(run_slots *slots, const run_slot *s, uint32_t dim)
{
    for (uint32_t i = 0; i < slots->size_count; i++) {
        if (strcmp(s->info.shape[dim], slots->size_names[i]) != 0)
            continue;
        if (slots->bound[i] && slots->sizes[i] != s->array.shape[dim])
            return fail(STATUS_USAGE, "%s: %s is %" PRIu64 " here, and %" PRIu64 " in an input before", s->array.path,
                        slots->size_names[i], s->array.shape[dim], slots->sizes[i]);
        slots->sizes[i] = s->array.shape[dim];
        slots->bound[i] = true;
    }
    return STATUS_DONE;
}

/* The sizes that the shape of an input has, which must be such an array as is declared. */
static int bind_input(run_slots *slots, const run_slot *s)
{
    const char *descr = descr_of(s->info.type);
    int status = STATUS_DONE;
    if (!descr || strcmp(descr, s->array.descr) != 0)
        return fail(STATUS_USAGE, "%s: has dtype %s, and argument %s is %s%s%s", s->array.path, s->array.descr,
                    s->info.name, s->info.type, descr ? ", in a file " : "", descr ? descr : "");
    if (s->array.dimensions != s->info.dims)
        return fail(STATUS_USAGE, "%s: has %u dimensions, and argument %s has %u", s->array.path, s->array.dimensions,
                    s->info.name, s->info.dims);
    for (uint32_t d = 0; d < s->info.dims && !status; d++)
        status = bind_size(slots, s, d);
    return status;
}

/* Sizes that are given, which inputs may have, too. */
static int take_sizes(run_slots *slots, const text_list *given)
{
    size_t used = 0;
    for (uint32_t i = 0; i < slots->size_count; i++) {
        const char *name = slots->size_names[i], *text = argvalues_find(given, name, &used);
        uint64_t value = 0;
        if (text && !parse_size(&value, text))
            return fail(STATUS_USAGE, "--size %s=%s is not a size", name, text);
        if (text && slots->bound[i] && slots->sizes[i] != value)
            return fail(STATUS_USAGE, "--size %s=%s: it is %" PRIu64 " in an input", name, text, slots->sizes[i]);
        if (!text && !slots->bound[i])
            return fail(STATUS_USAGE, "size %s is the extent of no input: give --size %s=N", name, name);
        slots->sizes[i] = text ? value : slots->sizes[i];
    }
    if (used != given->count)
        return fail(STATUS_USAGE, "%zu of the sizes of --size are none that the kernel has, or are given twice",
                    given->count - used);
    return STATUS_DONE;
}

static int settle_sizes(run_slots *slots, const text_list *given)
{
    int status = STATUS_DONE;
    for (uint32_t i = 0; i < slots->count && !status; i++)
        if (runslots_reads(&slots->slots[i]))
            status = bind_input(slots, &slots->slots[i]);
    return status ? status : take_sizes(slots, given);
}

/* ---- Shapes */

static int check_input(const run_slot *s, const uint64_t *shape)
{
    for (uint32_t d = 0; d < s->info.dims; d++)
        if (shape[d] != s->array.shape[d])
            return fail(STATUS_USAGE, "%s: dimension %u is %" PRIu64 ", and %s = %" PRIu64 " is declared",
                        s->array.path, d, s->array.shape[d], s->info.shape[d], shape[d]);
    return STATUS_DONE;
}

static int shape_output(run_slot *s, const uint64_t *shape, const char *path)
{
    const char *descr = descr_of(s->info.type);
    s->array = (npy_array){ .path = path, .fd = -1, .dimensions = s->info.dims, .elements = 1 };
    if (!descr)
        return fail(STATUS_USAGE, "argument %s is an array of %s, which kiln run does not write", s->info.name,
                    s->info.type);
    memcpy(s->array.descr, descr, sizeof(s->array.descr));
    for (uint32_t d = 0; d < s->info.dims; d++) {
        s->array.shape[d] = shape[d];
        if (__builtin_mul_overflow(s->array.elements, shape[d], &s->array.elements))
            return fail(STATUS_FAILED, "the result is larger than any memory");
    }
    s->array.bytes = s->array.elements * s->info.bytes;
    return STATUS_DONE;
}

/* Checks the inputs' shapes against the declared ones and gives the result its own. */
static int settle_shapes(run_slots *slots, const kiln_signature *signature, const runargs *args)
{
    int status = STATUS_DONE;
    for (uint32_t i = 0; i < slots->count && !status; i++) {
        run_slot *s = &slots->slots[i];
        uint64_t shape[KILN_DIMS_MAX];
        if (s->info.role == KILN_ROLE_SCALAR)
            continue;
        kiln_status known =
            kiln_signature_shape(shape, signature, s->index, slots->sizes, slots->size_count, &args->session->report);
        if (known)
            return session_fail(args->session, known, NULL);
        status = s->info.role == KILN_ROLE_OUT ? shape_output(s, shape, args->out) : check_input(s, shape);
    }
    return status;
}

/* ---- Numbers */

/* `value` is what stands behind "NAME=", or NULL. */
static int settle_number(run_slot *s, const char *value)
{
    bool is_number = false, fits = value && argvalues_number(&s->number, &is_number, &s->info, value);
    if (!is_number)
        return fail(STATUS_USAGE, "argument %s is a number of type %s: give --arg %s=%s", s->info.name, s->info.type,
                    s->info.name, value ? "VALUE that is one" : "VALUE");
    if (!fits)
        return fail(STATUS_USAGE, "--arg %s=%s: does not fit %s, the type of the argument", s->info.name, value,
                    s->info.type);
    return STATUS_DONE;
}

static int settle_numbers(run_slots *slots, const text_list *numbers)
{
    size_t used = 0;
    for (uint32_t i = 0; i < slots->count; i++) {
        run_slot *s = &slots->slots[i];
        if (s->info.role != KILN_ROLE_SCALAR)
            continue;
        int status = settle_number(s, argvalues_find(numbers, s->info.name, &used));
        if (status)
            return status;
    }
    if (used != numbers->count)
        return fail(STATUS_USAGE, "%zu of the numbers of --arg are none that the kernel takes, or are given twice",
                    numbers->count - used);
    return STATUS_DONE;
}

int runslots_settle(run_slots *out, const kiln_signature *signature, const runargs *args, const npy_array *files,
                    size_t count)
{
    *out = (run_slots){ .count = 0 };
    int status = make_slots(out, signature, files, count);
    if (!status)
        status = settle_sizes(out, args->sizes);
    if (!status)
        status = settle_shapes(out, signature, args);
    return status ? status : settle_numbers(out, args->numbers);
}
