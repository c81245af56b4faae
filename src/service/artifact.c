#include "service/artifact.h"

#include "backend/cuda/cubin.h"
#include "base/alloc.h"
#include "os/cpu.h"
#include "service/loaded.h"
#include "source/source.h"
#include <string.h>

kiln_status kiln__artifact_make(kiln__artifact **out, const kiln__unit *unit, const kiln__built *built,
                                kiln_origin origin, kiln_report *report)
{
    const kiln__section *log = kiln__entry_find(&built->blob->entry, "log");
    kiln__artifact *artifact = kiln__calloc(1, sizeof(*artifact));
    *out = NULL;
    if (artifact == NULL)
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    atomic_init(&artifact->refs, 1);
    artifact->blob = kiln__blob_retain(built->blob);
    artifact->target = unit->target;
    artifact->origin = origin;
    artifact->compile_ms = built->compiled ? kiln__cpu_ms(built->compile_ns) : 0;
    artifact->spec = kiln__strdup(unit->spec);
    kiln__loaded_split(&artifact->symbols, &built->blob->entry, "names");
    kiln__loaded_split(&artifact->functions, &built->blob->entry, "functions");
    bool shown =
        unit->own == NULL || log == NULL || (artifact->shown_log = kiln__source_show_log(unit->own, log->data)) != NULL;
    if (!shown || artifact->spec == NULL || artifact->symbols.bytes.failed || artifact->functions.bytes.failed) {
        kiln__artifact_release(artifact);
        return kiln__fail_memory(report, KILN__STAGE_COMPILE);
    }
    if (built->log != NULL)
        kiln__report_set_log(report, built->log);
    *out = artifact;
    return KILN_OK;
}

kiln__artifact *kiln__artifact_retain(kiln__artifact *artifact)
{
    if (artifact != NULL)
        atomic_fetch_add_explicit(&artifact->refs, 1, memory_order_relaxed);
    return artifact;
}

void kiln__artifact_release(kiln__artifact *artifact)
{
    if (artifact == NULL || atomic_fetch_sub_explicit(&artifact->refs, 1, memory_order_acq_rel) != 1)
        return;
    kiln__blob_release(artifact->blob);
    kiln__free(artifact->spec);
    kiln__free(artifact->shown_log);
    kiln__list_fini(&artifact->functions);
    kiln__list_fini(&artifact->symbols);
    kiln__free(artifact);
}

bool kiln__artifact_function(const kiln__artifact *artifact, size_t index, kiln_function_info *out)
{
    const kiln__section *cubin = kiln__entry_find(&artifact->blob->entry, "cubin");
    char reason[KILN__CUBIN_REASON_SIZE];
    kiln__cubin_usage usage = { -1, -1, -1 };
    out->symbol = kiln__list_at(&artifact->symbols, index);
    out->name = artifact->functions.count > 0 ? kiln__list_at(&artifact->functions, index) : out->symbol;
    if (out->name == NULL || out->symbol == NULL)
        return false;
    if (cubin != NULL && kiln__cubin_check(cubin->data, cubin->length, reason))
        kiln__cubin_usage_of(cubin->data, out->symbol, &usage);
    out->registers = usage.registers;
    out->local_bytes = usage.stack_bytes;
    out->shared_bytes = usage.shared_bytes;
    return true;
}

kiln_status kiln__artifact_section(const kiln__artifact *artifact, const char *name, const void **out, size_t *length)
{
    const kiln__entry *entry = &artifact->blob->entry;
    if (strcmp(name, "key") == 0) {
        *out = entry->key_text;
        *length = entry->key_text_length;
        return KILN_OK;
    }
    const kiln__section *section = kiln__entry_find(entry, name);
    if (section == NULL)
        return KILN_ENOENT;
    bool shown = artifact->shown_log != NULL && strcmp(name, "log") == 0;
    *out = shown ? artifact->shown_log : section->data;
    *length = shown ? strlen(artifact->shown_log) : section->length;
    return KILN_OK;
}
