#include "runtwin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "specchange.h"

enum { POISON = 0x5a }; /* the result has another: what neither computes is not equal */

struct reset {
    const char *name;
    char *fields; /* of the spec that all of it is compared with, or NULL */
};

static int note_template(void *data, const kiln_template_info *info)
{
    struct reset *reset = data;
    if (strcmp(info->name, reset->name) == 0)
        reset->fields = spec_fields_on_cpu(info);
    return 0;
}

/* The twin's result, on memory of the host: a result of the cpu's own has nothing else to be compared with. */
static kiln_status compute_twin(void *want, struct session *session, const char *text, const run_slots *slots)
{
    kiln_arg given[ARGVALUES_ARGS];
    kiln_spec *spec = NULL;
    kiln_kernel *twin = NULL;
    kiln_status status = kiln_spec_parse(&spec, session->service, text, &session->report);
    struct reset reset = { status ? "" : kiln_spec_field(spec, "template"), NULL };
    if (!status)
        status = kiln_templates(session->service, note_template, &reset);
    if (!status)
        status = spec_change(&spec, reset.fields ? reset.fields : "target=cpu", &session->report);
    free(reset.fields);
    if (!status)
        status = kiln_get_kernel(&twin, session->service, spec, &session->report);
    for (uint32_t i = 0; i < slots->count; i++) {
        const run_slot *s = &slots->slots[i];
        given[i] = runslots_given(s, s == slots->result ? want : s->host);
    }
    if (!status)
        status = kiln_launch(twin, NULL, slots->sizes, slots->size_count, given, slots->count, NULL, &session->report);
    kiln_kernel_release(twin);
    kiln_spec_free(spec);
    return status;
}

static bool both_nan(const dtype *type, const void *a, const void *b, uint64_t i)
{
    return type && dtype_is_nan(type, dtype_bits(type, a, i)) && dtype_is_nan(type, dtype_bits(type, b, i));
}

static int compare(bool *differs, const run_slot *s, const void *want)
{
    const dtype *type = dtype_named(s->info.type);
    const char *mine = s->host, *theirs = want;
    size_t size = s->info.bytes;
    bool equal = memcmp(mine, theirs, s->array.bytes) == 0;
    for (uint64_t i = 0; i < s->array.elements && !equal; i++) {
        *differs = memcmp(mine + i * size, theirs + i * size, size) != 0 && !both_nan(type, mine, theirs, i);
        if (*differs)
            return fail(STATUS_FAILED, "not equal to the cpu twin: element %" PRIu64 " differs first", i);
    }
    return STATUS_DONE;
}

int runtwin_verify(bool *differs, struct session *session, const kiln_kernel_info *info, const run_slots *slots)
{
    const run_slot *result = slots->result;
    uint64_t bytes = result->array.bytes;
    *differs = false;
    if (strcmp(info->device, "cpu") == 0)
        return fail(STATUS_USAGE, "the cpu twin itself has run: --verify compares a GPU's result with it");
    if (result->info.role == KILN_ROLE_INOUT)
        return fail(STATUS_USAGE, "argument %s is read and written: kiln run cannot verify that", result->info.name);
    void *want = malloc(bytes ? bytes : 1);
    if (!want)
        return fail(STATUS_FAILED, "no memory to verify with");
    memset(want, POISON, bytes);
    kiln_status status = compute_twin(want, session, info->spec, slots);
    int verdict = status ? session_fail(session, status, NULL) : compare(differs, result, want);
    free(want);
    return verdict;
}
