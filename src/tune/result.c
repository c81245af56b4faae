#include "tune/result.h"

#include "base/alloc.h"
#include "base/report.h"

kiln_status kiln__tuning_reserve(kiln_tuning *tuning, size_t count, kiln_report *report)
{
    tuning->table = kiln__calloc(count, sizeof(*tuning->table));
    tuning->results = kiln__calloc(count, sizeof(*tuning->results));
    if (tuning->table == NULL || tuning->results == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    tuning->count = count;
    return KILN_OK;
}

bool kiln__tuning_name(kiln_variant_result *result, const char *spec, const char *problem)
{
    result->spec = kiln__strdup(spec);
    result->problem = kiln__strdup(problem);
    return result->spec != NULL && result->problem != NULL;
}

static const char *verdict_name(kiln_verdict verdict)
{
    static const char *const names[] = {
        [KILN_VERDICT_UNMEASURED] = "unmeasured", [KILN_VERDICT_WINNER] = "winner", [KILN_VERDICT_TIED] = "tied",
        [KILN_VERDICT_GIVEN_UP] = "given up",     [KILN_VERDICT_SLOWER] = "slower", [KILN_VERDICT_REJECTED] = "rejected"
    };
    return names[verdict];
}

void kiln__tuning_show(kiln_tuning *tuning)
{
    for (size_t i = 0; i < tuning->count; i++) {
        kiln_variant_result *result = &tuning->table[i];
        result->size = sizeof(*result);
        result->verdict_name = verdict_name(result->verdict);
        tuning->results[i] = result;
    }
    tuning->info.results = tuning->results;
    tuning->info.result_count = tuning->count;
}

void kiln__tuning_free(kiln_tuning *tuning)
{
    if (tuning == NULL)
        return;
    for (size_t i = 0; i < tuning->count; i++) {
        kiln__free((char *)(uintptr_t)tuning->table[i].spec);
        kiln__free((char *)(uintptr_t)tuning->table[i].problem);
    }
    kiln__free(tuning->table);
    kiln__free(tuning->results);
    kiln__free(tuning->wisdom);
    kiln__free(tuning);
}
