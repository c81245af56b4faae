#include "tune/result.h"

#include "base/alloc.h"
#include "base/report.h"

kiln_status kiln__tuning_reserve(kiln_tuning *tuning, size_t count, kiln_report *report)
{
    tuning->table = kiln__calloc(count, sizeof(*tuning->table));
    tuning->trials = kiln__calloc(count, sizeof(*tuning->trials));
    if (tuning->table == NULL || tuning->trials == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    tuning->count = count;
    return KILN_OK;
}

bool kiln__tuning_name(kiln_trial *trial, const char *spec, const char *problem)
{
    trial->spec = kiln__strdup(spec);
    trial->problem = kiln__strdup(problem);
    return trial->spec != NULL && trial->problem != NULL;
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
        kiln_trial *trial = &tuning->table[i];
        trial->size = sizeof(*trial);
        trial->verdict_name = verdict_name(trial->verdict);
        tuning->trials[i] = trial;
    }
    tuning->info.trials = tuning->trials;
    tuning->info.trial_count = tuning->count;
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
    kiln__free(tuning->trials);
    kiln__free(tuning->wisdom);
    kiln__free(tuning);
}
