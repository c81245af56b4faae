#include "service/loaded.h"

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

/* How many parameters a function has: -1 if the driver does not tell. Their sizes go to `sizes` if that is not NULL. */
static int read_parameters(const kiln_program *program, uint32_t number, size_t *sizes)
{
    const kiln__function_vtable *functions = program->vtable->functions;
    for (uint32_t i = 0; i < PARAMETERS_MAX; i++) {
        size_t bytes;
        int known = functions->parameter(program->module, number, i, &bytes);
        if (known <= 0)
            return known < 0 ? -1 : (int)i;
        if (sizes != NULL)
            sizes[i] = bytes;
    }
    return -1;
}

static void name_functions(kiln_program *program)
{
    const char *name = kiln__list_next(&program->names, NULL), *symbol = kiln__list_next(&program->symbols, NULL);
    uint32_t number = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        kiln_function *function = &program->functions[i];
        *function = (kiln_function){
            .program = program, .name = name, .symbol = symbol, .variable = name[0] == '&', .parameters = -1
        };
        if (!function->variable)
            function->number = number++;
        name = kiln__list_next(&program->names, name);
        symbol = kiln__list_next(&program->symbols, symbol);
    }
}

static bool measure_parameters(kiln_program *program)
{
    size_t total = 0;
    for (uint32_t i = 0; i < program->count; i++) {
        kiln_function *function = &program->functions[i];
        if (!function->variable)
            function->parameters = read_parameters(program, function->number, NULL);
        total += function->parameters > 0 ? (size_t)function->parameters : 0;
    }
    size_t *at = program->sizes = kiln__calloc(total + 1, sizeof(*at));
    for (uint32_t i = 0; at != NULL && i < program->count; i++) {
        kiln_function *function = &program->functions[i];
        function->sizes = at;
        if (function->parameters > 0) {
            read_parameters(program, function->number, at);
            at += function->parameters;
        }
    }
    return program->sizes != NULL;
}

kiln_program *kiln__loaded_new(kiln__runtime *runtime, kiln_device *device, kiln__module *module,
                               const kiln__entry *entry)
{
    kiln__list names = { 0 }, symbols = { 0 };
    kiln__loaded_split(&names, entry, "functions");
    kiln__loaded_split(&symbols, entry, "names");
    size_t count = names.count < symbols.count ? names.count : symbols.count;
    bool failed = names.bytes.failed || symbols.bytes.failed;
    kiln_program *program = failed ? NULL : kiln__calloc(1, sizeof(*program) + count * sizeof(program->functions[0]));
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
    if (measure_parameters(program))
        return program;
    kiln__loaded_release(program);
    return NULL;
}

kiln_program *kiln__loaded_retain(kiln_program *program)
{
    if (program != NULL)
        atomic_fetch_add_explicit(&program->refs, 1, memory_order_relaxed);
    return program;
}

void kiln__loaded_release(kiln_program *program)
{
    if (program == NULL || atomic_fetch_sub_explicit(&program->refs, 1, memory_order_acq_rel) != 1)
        return;
    program->vtable->unload(program->module);
    kiln__runtime_release(program->runtime);
    kiln__list_fini(&program->names);
    kiln__list_fini(&program->symbols);
    kiln__free(program->sizes);
    kiln__free(program);
}

/* ---- Functions and variables */

static kiln_status fail_function(const kiln_program *program, const char *name, kiln_report *report)
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

kiln_status kiln__loaded_find(kiln_program *program, const char *name, kiln_function **out, kiln_report *report)
{
    for (uint32_t i = 0; i < program->count; i++) {
        kiln_function *function = &program->functions[i];
        if (!function->variable && (strcmp(function->name, name) == 0 || strcmp(function->symbol, name) == 0)) {
            *out = function;
            return KILN_OK;
        }
    }
    return fail_function(program, name, report);
}

kiln_status kiln__loaded_global(kiln_program *program, const char *name, void **address, size_t *bytes,
                                kiln_report *report)
{
    const char *symbol = name[0] == '&' ? name + 1 : name;
    for (uint32_t i = 0; i < program->count; i++) {
        const kiln_function *function = &program->functions[i];
        if (function->variable && strcmp(function->name + 1, name + (name[0] == '&')) == 0)
            symbol = function->symbol;
    }
    return program->vtable->functions->global(program->module, symbol, address, bytes, report);
}

void kiln__loaded_info(const kiln_function *function, kiln_function_info *out)
{
    const kiln_program *program = function->program;
    out->name = function->name;
    out->symbol = function->symbol;
    out->device = program->device->name;
    out->origin = program->origin;
    out->compile_ms = program->compile_ms;
    out->parameters = function->parameters;
    program->vtable->functions->info(program->module, function->number, out);
}

/* ---- Launches */

static kiln_status refuse(kiln_report *report, const kiln_function *function, const char *what)
{
    return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "%s: %s", function->name, what);
}

static kiln_status check_arguments(const kiln_function *function, const void *const *arguments, const size_t *sizes,
                                   uint32_t count, kiln_report *report)
{
    if (function->parameters >= 0 && count != (uint32_t)function->parameters)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "%s takes %d arguments, got %u", function->name,
                          function->parameters, (unsigned)count);
    if (count > 0 && arguments == NULL)
        return refuse(report, function, "arguments must not be NULL");
    for (uint32_t i = 0; i < count; i++) {
        if (arguments[i] == NULL)
            return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0,
                              "argument %u of %s is NULL: expected a pointer to its value", (unsigned)i,
                              function->name);
        if (function->parameters >= 0 && sizes != NULL && sizes[i] != function->sizes[i])
            return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "argument %u of %s is %zu bytes, got %zu",
                              (unsigned)i, function->name, function->sizes[i], sizes[i]);
    }
    return KILN_OK;
}

static kiln_status check_grid(const kiln_function *function, const kiln_grid *grid, kiln_report *report)
{
    bool clusters = grid->cluster[0] > 0 || grid->cluster[1] > 0 || grid->cluster[2] > 0;
    for (int i = 0; i < 3; i++) {
        if (grid->grid[i] == 0 || grid->block[i] == 0)
            return refuse(report, function, "grid and block must be at least 1 in each of their 3 dimensions");
        if (clusters && (grid->cluster[i] == 0 || grid->grid[i] % grid->cluster[i] != 0))
            return refuse(
                report, function,
                "the cluster must be at least 1 in each dimension and divide the grid, or be 0 in all of them");
    }
    if (grid->shared_bytes > INT32_MAX)
        return refuse(report, function, "shared_bytes is more than any GPU has");
    return KILN_OK;
}

kiln_status kiln__loaded_launch(const kiln_function *function, const kiln_grid *grid, const void *const *arguments,
                                const size_t *sizes, uint32_t count, kiln_report *report)
{
    const kiln_program *program = function->program;
    kiln_status status = check_arguments(function, arguments, sizes, count, report);
    if (status == KILN_OK)
        status = check_grid(function, grid, report);
    if (status != KILN_OK)
        return status;
    return program->vtable->functions->launch(program->module, function->number, grid, (void **)arguments, report);
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
        kiln_program *next = table->first->next;
        kiln__loaded_release(table->first);
        table->first = next;
    }
    pthread_mutex_destroy(&table->lock);
    pthread_cond_destroy(&table->settled);
}

void kiln__loaded_table_before_fork(kiln__loaded_table *table)
{
    pthread_mutex_lock(&table->lock);
}

void kiln__loaded_table_after_fork(kiln__loaded_table *table, bool child)
{
    if (child) {
        table->claims = NULL;
        pthread_cond_init(&table->settled, NULL);
    }
    pthread_mutex_unlock(&table->lock);
}

static kiln_program *find_locked(const kiln__loaded_table *table, const kiln_device *device, const kiln__key *key)
{
    kiln_program *program = table->first;
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

kiln_program *kiln__loaded_table_claim(kiln__loaded_table *table, const kiln_device *device, const kiln__key *key,
                                       kiln__loaded_claim *claim)
{
    *claim = (kiln__loaded_claim){ .device = device, .key = *key };
    pthread_mutex_lock(&table->lock);
    kiln_program *found = find_locked(table, device, key);
    claim->busy = found == NULL && is_claimed(table, device, key);
    claim->held = found == NULL && !claim->busy;
    if (claim->held) {
        claim->next = table->claims;
        table->claims = claim;
    }
    pthread_mutex_unlock(&table->lock);
    return found;
}

kiln_program *kiln__loaded_table_await(kiln__loaded_table *table, const kiln_device *device, const kiln__key *key)
{
    pthread_mutex_lock(&table->lock);
    while (is_claimed(table, device, key))
        pthread_cond_wait(&table->settled, &table->lock);
    kiln_program *found = find_locked(table, device, key);
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

kiln_program *kiln__loaded_table_add(kiln__loaded_table *table, kiln_program *program)
{
    pthread_mutex_lock(&table->lock);
    kiln_program *found = find_locked(table, program->device, &program->key);
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
