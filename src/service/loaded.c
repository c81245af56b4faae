#include "service/loaded.h"

#include "backend/cuda/cubin.h"
#include "base/alloc.h"
#include <string.h>

enum { PARAMETERS_MAX = 1024 };

void kiln__loaded_split(kiln__list *out, const kiln__entry *entry, const char *name)
{
    const kiln__section *section = kiln__entry_find(entry, name);
    const char *at = section != NULL ? section->data : "";
    while (*at != '\0') {
        size_t length = strcspn(at, "\n");
        kiln__list_add_bytes(out, at, length);
        at += length + (at[length] == '\n');
    }
}

/* ---- Programs */

/* How many parameters a function has, and the bytes of each: as the driver tells, else as the PTX does; -1 where neither
 * does. */
static int read_parameters(const kiln__loaded *program, const kiln__function *function, const kiln__section *ptx,
                           size_t sizes[PARAMETERS_MAX])
{
    const kiln__function_vtable *functions = program->vtable->functions;
    for (uint32_t i = 0; i < PARAMETERS_MAX; i++) {
        int known = functions->parameter(program->module, function->number, i, &sizes[i]);
        if (known == 0)
            return (int)i;
        if (known < 0)
            return ptx == NULL ? -1
                               : kiln__ptx_parameters(ptx->data, ptx->length, function->symbol, sizes, PARAMETERS_MAX);
    }
    return -1;
}

static void name_functions(kiln__loaded *program)
{
    const char *name = kiln__list_next(&program->names, NULL), *symbol = kiln__list_next(&program->symbols, NULL);
    uint32_t number = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        kiln__function *function = &program->functions[i];
        *function = (kiln__function){ .name = name, .symbol = symbol, .variable = name[0] == '&', .parameters = -1 };
        if (!function->variable)
            function->number = number++;
        name = kiln__list_next(&program->names, name);
        symbol = kiln__list_next(&program->symbols, symbol);
    }
}

static bool measure_parameters(kiln__loaded *program, const kiln__section *ptx)
{
    size_t found[PARAMETERS_MAX];
    for (uint32_t i = 0; i < program->count; i++) {
        kiln__function *function = &program->functions[i];
        if (!function->variable)
            function->parameters = read_parameters(program, function, ptx, found);
        if (function->parameters <= 0)
            continue;
        function->sizes = kiln__memdup(found, (size_t)function->parameters * sizeof(found[0]));
        if (function->sizes == NULL)
            return false;
    }
    return true;
}

kiln__loaded *kiln__loaded_new(kiln__runtime *runtime, kiln_device *device, kiln__module *module,
                               const kiln__entry *entry, const kiln__unit *unit)
{
    kiln__list names = { 0 }, symbols = { 0 };
    kiln__loaded_split(&names, entry, "functions");
    kiln__loaded_split(&symbols, entry, "names");
    size_t count = names.count < symbols.count ? names.count : symbols.count;
    bool failed = names.bytes.failed || symbols.bytes.failed;
    kiln__loaded *program = failed ? NULL : kiln__calloc(1, sizeof(*program) + count * sizeof(program->functions[0]));
    if (program == NULL) {
        kiln__list_fini(&names);
        kiln__list_fini(&symbols);
        device->backend->vtable->unload(module);
        return NULL;
    }
    atomic_init(&program->refs, 1);
    program->vtable = device->backend->vtable;
    program->module = module;
    program->runtime = kiln__runtime_retain(runtime);
    program->device = device;
    program->key = entry->key;
    program->names = names;
    program->symbols = symbols;
    program->count = (uint32_t)count;
    name_functions(program);
    program->target = unit->target;
    program->spec = kiln__strdup(unit->spec);
    if (program->spec != NULL && measure_parameters(program, kiln__entry_find(entry, "ptx")))
        return program;
    kiln__loaded_release(program);
    return NULL;
}

kiln__loaded *kiln__loaded_retain(kiln__loaded *program)
{
    if (program != NULL)
        atomic_fetch_add_explicit(&program->refs, 1, memory_order_relaxed);
    return program;
}

void kiln__loaded_release(kiln__loaded *program)
{
    if (program == NULL || atomic_fetch_sub_explicit(&program->refs, 1, memory_order_acq_rel) != 1)
        return;
    program->vtable->unload(program->module);
    kiln__runtime_release(program->runtime);
    kiln__list_fini(&program->names);
    kiln__list_fini(&program->symbols);
    for (uint32_t i = 0; i < program->count; i++)
        kiln__free((void *)program->functions[i].sizes);
    kiln__free(program->spec);
    kiln__free(program);
}

/* ---- Functions and variables */

static kiln_status fail_function(const kiln__loaded *program, const char *name, kiln_report *report)
{
    kiln__text list = { 0 };
    for (uint32_t i = 0; i < program->count; i++)
        if (!program->functions[i].variable)
            kiln__text_printf(&list, "%s%s", list.length > 0 ? ", " : "", program->functions[i].name);
    kiln_status status = kiln__fail(report, KILN_ENOENT, KILN__STAGE_LOAD, 0,
                                    "the program has no function '%.100s'; it has: %s", name, kiln__text_string(&list));
    kiln__text_fini(&list);
    return status;
}

static kiln_status fail_several(const kiln__loaded *program, kiln_report *report)
{
    return kiln__fail(report, KILN_ENOENT, KILN__STAGE_LOAD, 0, "the program has %s: name one",
                      program->count > 0 ? "several functions" : "no function");
}

kiln_status kiln__loaded_find(kiln__loaded *program, const char *name, const kiln__function **out, kiln_report *report)
{
    uint32_t functions = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        const kiln__function *function = &program->functions[i];
        if (function->variable)
            continue;
        functions++;
        if (name == NULL || strcmp(function->name, name) == 0 || strcmp(function->symbol, name) == 0) {
            *out = function;
            if (name != NULL)
                return KILN_OK;
        }
    }
    if (name == NULL)
        return functions == 1 ? KILN_OK : fail_several(program, report);
    return fail_function(program, name, report);
}

kiln_status kiln__loaded_global(kiln__loaded *program, const char *name, void **address, size_t *bytes,
                                kiln_report *report)
{
    const char *symbol = name[0] == '&' ? name + 1 : name;
    for (uint32_t i = 0; i < program->count; i++) {
        const kiln__function *function = &program->functions[i];
        if (function->variable && strcmp(function->name + 1, name + (name[0] == '&')) == 0)
            symbol = function->symbol;
    }
    return program->vtable->functions->global(program->module, symbol, address, bytes, report);
}

/* ---- The table */

void kiln__loaded_table_init(kiln__loaded_table *table)
{
    table->first = NULL;
    table->claims = NULL;
    pthread_mutex_init(&table->lock, NULL);
    pthread_cond_init(&table->settled, NULL);
}

void kiln__loaded_table_fini(kiln__loaded_table *table)
{
    while (table->first != NULL) {
        kiln__loaded *next = table->first->next;
        kiln__loaded_release(table->first);
        table->first = next;
    }
    pthread_mutex_destroy(&table->lock);
    pthread_cond_destroy(&table->settled);
}

static kiln__loaded *find_locked(const kiln__loaded_table *table, const kiln_device *device, const kiln__key *key)
{
    kiln__loaded *program = table->first;
    while (program != NULL && (program->device != device || !kiln__key_equal(&program->key, key)))
        program = program->next;
    return kiln__loaded_retain(program);
}

static bool is_claimed(const kiln__loaded_table *table, const kiln_device *device, const kiln__key *key)
{
    const kiln__loaded_claim *claim = table->claims;
    while (claim != NULL && (claim->device != device || !kiln__key_equal(&claim->key, key)))
        claim = claim->next;
    return claim != NULL;
}

kiln__loaded *kiln__loaded_table_claim(kiln__loaded_table *table, const kiln_device *device, const kiln__key *key,
                                       kiln__loaded_claim *claim)
{
    *claim = (kiln__loaded_claim){ .device = device, .key = *key };
    pthread_mutex_lock(&table->lock);
    kiln__loaded *found = find_locked(table, device, key);
    claim->busy = found == NULL && is_claimed(table, device, key);
    claim->held = found == NULL && !claim->busy;
    if (claim->held) {
        claim->next = table->claims;
        table->claims = claim;
    }
    pthread_mutex_unlock(&table->lock);
    return found;
}

kiln__loaded *kiln__loaded_table_await(kiln__loaded_table *table, const kiln_device *device, const kiln__key *key)
{
    pthread_mutex_lock(&table->lock);
    while (is_claimed(table, device, key))
        pthread_cond_wait(&table->settled, &table->lock);
    kiln__loaded *found = find_locked(table, device, key);
    pthread_mutex_unlock(&table->lock);
    return found;
}

void kiln__loaded_table_settle(kiln__loaded_table *table, kiln__loaded_claim *claim)
{
    if (!claim->held)
        return;
    pthread_mutex_lock(&table->lock);
    kiln__loaded_claim **at = &table->claims;
    while (*at != NULL && *at != claim)
        at = &(*at)->next;
    if (*at != NULL)
        *at = claim->next;
    pthread_cond_broadcast(&table->settled);
    pthread_mutex_unlock(&table->lock);
}

kiln__loaded *kiln__loaded_table_add(kiln__loaded_table *table, kiln__loaded *program)
{
    pthread_mutex_lock(&table->lock);
    kiln__loaded *found = find_locked(table, program->device, &program->key);
    if (found == NULL) {
        program->next = table->first;
        table->first = kiln__loaded_retain(program);
    }
    pthread_mutex_unlock(&table->lock);
    if (found == NULL)
        return program;
    kiln__loaded_release(program);
    return found;
}
