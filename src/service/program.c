/* Programs: made from an entry, shared by reference, and asked for their functions. */
#include "service/program.h"

#include "base/alloc.h"
#include "gpu/cubin.h"
#include "os/cancel.h"
#include "os/cpu.h"
#include "os/fork.h"
#include "source/source.h"
#include "spec/signature.h"
#include <string.h>

enum { PARAMETERS_MAX = 1024 };

struct kiln__function_infos {
    const kiln_function_info **list;
    kiln_function_info infos[];
};

/* ---- Making */

/* Adds the lines of an entry's section, or nothing. */
static void add_lines(kiln__list *out, const kiln__entry *entry, const char *name)
{
    const kiln__section *section = kiln__entry_find(entry, name);
    const char *at = section != NULL ? section->data : "";
    while (*at != '\0') {
        size_t length = strcspn(at, "\n");
        kiln__list_add_bytes(out, at, length);
        at += length + (at[length] == '\n');
    }
}

/* Lists names and symbols. A template's entries are those of its rule, which launches go by. */
static void add_names(kiln_program *program, const kiln__unit *unit, const kiln__entry *entry)
{
    if (unit->plan == NULL) {
        add_lines(&program->symbols, entry, "names");
        add_lines(&program->names, entry, "functions");
        return;
    }
    for (uint32_t i = 0; i < unit->rule.entry_count; i++) {
        kiln__list_add(&program->symbols, unit->rule.entries[i].name);
        kiln__list_add(&program->names, unit->rule.entries[i].name);
    }
}

/* Pairs names with symbols. The name of a variable begins with '&'. The others are numbered in order, as a backend
 * numbers the functions of a module. False: out of memory. */
static bool make_functions(kiln_program *program)
{
    size_t names = program->names.count, symbols = program->symbols.count, count = names < symbols ? names : symbols;
    uint32_t number = 0;
    if (program->names.bytes.failed || program->symbols.bytes.failed ||
        (program->functions = kiln__calloc(count + 1, sizeof(program->functions[0]))) == NULL)
        return false;
    program->count = (uint32_t)count;
    const char *name = kiln__list_next(&program->names, NULL), *symbol = kiln__list_next(&program->symbols, NULL);
    for (uint32_t i = 0; i < program->count; i++) {
        kiln__function *function = &program->functions[i];
        *function = (kiln__function){ .name = name, .symbol = symbol, .variable = name[0] == '&', .parameters = -1 };
        if (!function->variable)
            function->number = number++;
        name = kiln__list_next(&program->names, name);
        symbol = kiln__list_next(&program->symbols, symbol);
    }
    return true;
}

/* A program without its code. NULL: out of memory. */
static kiln_program *make_program(const kiln__unit *unit, const kiln__built *built, kiln_origin origin)
{
    kiln_program *program = kiln__calloc(1, sizeof(*program));
    if (program == NULL)
        return NULL;
    atomic_init(&program->refs, 1);
    program->generation = kiln__fork_generation();
    program->target = unit->target;
    program->origin = origin;
    program->origin_name = built->compiled ? "compiled" : built->tiers->stores[built->tier]->vtable->name;
    program->compile_ms = built->compiled ? kiln__cpu_ms(built->compile_ns) : 0;
    program->spec = kiln__strdup(unit->spec);
    add_names(program, unit, &built->blob->entry);
    if (program->spec != NULL && make_functions(program))
        return program;
    kiln__program_release(program);
    return NULL;
}

kiln_program *kiln__program_built(const kiln__unit *unit, const kiln__built *built, kiln_origin origin)
{
    const kiln__section *log = kiln__entry_find(&built->blob->entry, "log");
    kiln_program *program = make_program(unit, built, origin);
    if (program == NULL)
        return NULL;
    program->blob = kiln__blob_retain(built->blob);
    if (log == NULL || unit->name == NULL || (program->shown_log = kiln__source_show_log(unit, log->data)) != NULL)
        return program;
    kiln__program_release(program);
    return NULL;
}

/* How many parameters a function has, and the bytes of each, from the driver or from the cubin. -1: neither tells. */
static int read_parameters(const kiln_program *program, const kiln__function *function, const kiln__section *cubin,
                           size_t sizes[PARAMETERS_MAX])
{
    const kiln__function_vtable *functions = program->device->backend->vtable->functions;
    char reason[KILN__CUBIN_REASON_SIZE];
    for (uint32_t i = 0; i < PARAMETERS_MAX; i++) {
        int known = functions->parameter(program->module, function->number, i, &sizes[i]);
        if (known == 0)
            return (int)i;
        if (known < 0)
            return cubin != NULL && kiln__cubin_check(cubin->data, cubin->length, reason)
                       ? kiln__cubin_parameters(cubin->data, function->symbol, sizes, PARAMETERS_MAX)
                       : -1;
    }
    return -1;
}

static bool measure_parameters(kiln_program *program, const kiln__section *cubin)
{
    size_t found[PARAMETERS_MAX];
    for (uint32_t i = 0; i < program->count; i++) {
        kiln__function *function = &program->functions[i];
        if (!function->variable)
            function->parameters = read_parameters(program, function, cubin, found);
        if (function->parameters <= 0)
            continue;
        function->sizes = kiln__memdup(found, (size_t)function->parameters * sizeof(found[0]));
        if (function->sizes == NULL)
            return false;
    }
    return true;
}

/* Copies into the kernel all that an ordinary launch reads. */
static void make_kernel(kiln_program *program, const kiln__function *function, kiln_kernel *out)
{
    *out = (kiln_kernel){ .vtable = program->device->backend->vtable,
                          .module = program->module,
                          .plan = program->plan,
                          .entry_count = program->rule.entry_count,
                          .generation = program->generation,
                          .function = function,
                          .device = program->device,
                          .spec = program->spec,
                          .program = program };
    for (uint32_t i = 0; i < out->entry_count; i++)
        out->odd[i] = program->rule.entries[i].align - 1;
    out->signature = program->plan != NULL ? kiln__signature_planned(program->plan)
                                           : kiln__signature_of_bytes(function->sizes, function->parameters);
}

/* A template's program has one kernel for all its entries, a source's one for each function. */
static uint32_t kernel_count(const kiln_program *program)
{
    return program->plan != NULL ? 1 : program->count;
}

/* Kernels and functions share their index, so a variable leaves a kernel empty. False: out of memory. */
static bool make_kernels(kiln_program *program)
{
    program->kernels = kiln__calloc(kernel_count(program) + 1, sizeof(program->kernels[0]));
    for (uint32_t i = 0; program->kernels != NULL && i < kernel_count(program); i++) {
        if (program->functions[i].variable)
            continue;
        make_kernel(program, &program->functions[i], &program->kernels[i]);
        if (program->kernels[i].signature == NULL)
            return false;
    }
    return program->kernels != NULL;
}

kiln_program *kiln__program_loaded(kiln__runtime *runtime, kiln_device *device, kiln__module *module,
                                   const kiln__unit *unit, const kiln__built *built, kiln_origin origin)
{
    kiln_program *program = make_program(unit, built, origin);
    if (program == NULL) {
        device->backend->vtable->unload(module);
        return NULL;
    }
    program->runtime = kiln__runtime_retain(runtime);
    program->device = device;
    program->module = module;
    program->rule = unit->rule;
    bool made = true;
    if (unit->plan != NULL)
        made = (program->plan = kiln__memdup(unit->plan, unit->plan->total)) != NULL;
    else
        made = measure_parameters(program, kiln__entry_find(&built->blob->entry, "cubin"));
    if (made && make_kernels(program))
        return program;
    kiln__program_release(program);
    return NULL;
}

/* ---- References */

kiln_program *kiln__program_retain(kiln_program *program)
{
    if (program != NULL)
        atomic_fetch_add_explicit(&program->refs, 1, memory_order_relaxed);
    return program;
}

static void free_kernels(kiln_program *program)
{
    for (uint32_t i = 0; program->kernels != NULL && i < kernel_count(program); i++)
        kiln__free(program->kernels[i].signature);
    kiln__free(program->kernels);
    for (uint32_t i = 0; i < program->count; i++)
        kiln__free((void *)program->functions[i].sizes);
    kiln__free(program->functions);
}

void kiln__program_release(kiln_program *program)
{
    if (program == NULL || atomic_fetch_sub_explicit(&program->refs, 1, memory_order_acq_rel) != 1)
        return;
    KILN__NO_CANCEL;
    free_kernels(program);
    if (program->module != NULL)
        program->device->backend->vtable->unload(program->module);
    if (program->runtime != NULL)
        kiln__runtime_release(program->runtime);
    kiln__blob_release(program->blob);
    kiln__list_fini(&program->names);
    kiln__list_fini(&program->symbols);
    kiln__free(program->plan);
    kiln__free(program->spec);
    kiln__free(program->shown_log);
    kiln__free(atomic_load(&program->infos));
    kiln__free(program);
}

kiln_kernel *kiln__kernel_retain(kiln_kernel *kernel)
{
    if (kernel != NULL)
        kiln__program_retain(kernel->program);
    return kernel;
}

void kiln__kernel_release(kiln_kernel *kernel)
{
    if (kernel != NULL)
        kiln__program_release(kernel->program);
}

/* ---- Information */

/* Loaded code is described by the driver, other code by its cubin. -1: unknown. */
static kiln__function_facts facts_of(const kiln_program *program, const kiln__function *function)
{
    kiln__function_facts facts = { -1, -1, -1, -1, -1, -1 };
    kiln__cubin_usage usage = { -1, -1, -1, -1, -1 };
    char reason[KILN__CUBIN_REASON_SIZE];
    if (function->variable)
        return facts;
    if (program->blob == NULL) {
        const kiln__function_vtable *functions = program->device->backend->vtable->functions;
        if (functions != NULL)
            functions->info(program->module, function->number, &facts);
        return facts;
    }
    const kiln__section *cubin = kiln__entry_find(&program->blob->entry, "cubin");
    if (cubin != NULL && kiln__cubin_check(cubin->data, cubin->length, reason))
        kiln__cubin_usage_of(cubin->data, function->symbol, &usage);
    facts.registers = usage.registers;
    facts.local_bytes = usage.stack_bytes;
    facts.shared_bytes = usage.shared_bytes;
    facts.max_threads = usage.max_threads;
    facts.block_threads = usage.block_threads;
    return facts;
}

/* The first thread that asks makes them. NULL: out of memory. */
static const kiln__function_infos *infos_of(const kiln_program *program)
{
    _Atomic(kiln__function_infos *) *place = &((kiln_program *)program)->infos;
    kiln__function_infos *known = atomic_load(place);
    if (known != NULL)
        return known;
    size_t bytes = program->count * sizeof(kiln_function_info);
    kiln__function_infos *made = kiln__alloc(sizeof(*made) + bytes + program->count * sizeof(made->list[0]));
    if (made == NULL)
        return NULL;
    made->list = (const kiln_function_info **)((char *)made->infos + bytes);
    for (uint32_t i = 0; i < program->count; i++) {
        const kiln__function *function = &program->functions[i];
        const kiln__function_facts facts = facts_of(program, function);
        made->infos[i] = (kiln_function_info){ .size = sizeof(made->infos[i]),
                                               .name = function->name,
                                               .symbol = function->symbol,
                                               .registers = facts.registers,
                                               .local_bytes = facts.local_bytes,
                                               .shared_bytes = facts.shared_bytes,
                                               .max_threads = facts.max_threads,
                                               .block_threads = facts.block_threads };
        made->list[i] = &made->infos[i];
    }
    if (atomic_compare_exchange_strong(place, &known, made))
        return made;
    kiln__free(made);
    return known;
}

kiln_status kiln__program_info(const kiln_program *program, kiln_program_info *out)
{
    const kiln__function_infos *infos = infos_of(program);
    if (infos == NULL)
        return KILN_ENOMEM;
    out->spec = program->spec;
    out->target = program->target.name;
    out->device = program->device != NULL ? program->device->name : "";
    out->origin = program->origin;
    out->origin_name = program->origin_name;
    out->compile_ms = program->compile_ms;
    out->functions = infos->list;
    out->function_count = program->count;
    return KILN_OK;
}

void kiln__kernel_info(const kiln_kernel *kernel, kiln_kernel_info *out)
{
    const kiln_program *program = kernel->program;
    const kiln__function_facts facts = facts_of(program, kernel->function);
    out->name = kernel->function->name;
    out->symbol = kernel->function->symbol;
    out->spec = program->spec;
    out->device = program->device->name;
    out->origin = program->origin;
    out->origin_name = program->origin_name;
    out->compile_ms = program->compile_ms;
    out->signature = kernel->signature;
    memcpy(out->block, program->rule.block, sizeof(out->block));
    out->tile = program->rule.tile;
    out->max_threads = facts.max_threads;
    out->registers = facts.registers;
    out->local_bytes = facts.local_bytes;
    out->shared_bytes = facts.shared_bytes;
    out->constant_bytes = facts.constant_bytes;
}

kiln_status kiln__program_section(const void **out, size_t *length, const kiln_program *program, const char *name)
{
    const kiln__entry *entry = program->blob != NULL ? &program->blob->entry : NULL;
    if (entry != NULL && strcmp(name, "key") == 0) {
        *out = entry->key_text;
        *length = entry->key_text_length;
        return KILN_OK;
    }
    const kiln__section *section = entry != NULL ? kiln__entry_find(entry, name) : NULL;
    if (section == NULL)
        return KILN_ENOENT;
    bool shown = program->shown_log != NULL && strcmp(name, "log") == 0;
    *out = shown ? program->shown_log : section->data;
    *length = shown ? strlen(program->shown_log) : section->length;
    return KILN_OK;
}

/* ---- Kernels and variables by name */

static kiln_status fail_built(const kiln_program *program, kiln_report *report)
{
    return kiln__fail(report, KILN_ENOENT, KILN__STAGE_LOAD, 0,
                      "the program was built and not loaded: request it with the goal KILN_LOAD: %s", program->spec);
}

static kiln_status fail_function(const kiln_program *program, const char *name, kiln_report *report)
{
    kiln__text list = { 0 };
    for (uint32_t i = 0; i < kernel_count(program); i++)
        if (!program->functions[i].variable)
            kiln__text_printf(&list, "%s%s", list.length > 0 ? ", " : "", program->functions[i].name);
    kiln_status status = kiln__fail(report, KILN_ENOENT, KILN__STAGE_LOAD, 0,
                                    "the program has no function '%.100s'; it has: %s", name, kiln__text_string(&list));
    kiln__text_fini(&list);
    return status;
}

static kiln_status fail_several(const kiln_program *program, kiln_report *report)
{
    return kiln__fail(report, KILN_ENOENT, KILN__STAGE_LOAD, 0, "the program has %s: name one",
                      program->count > 0 ? "several functions" : "no function");
}

kiln_status kiln__program_kernel(kiln_kernel **out, kiln_program *program, const char *name, kiln_report *report)
{
    kiln_kernel *found = NULL;
    uint32_t functions = 0;
    if (program->blob != NULL)
        return fail_built(program, report);
    for (uint32_t i = 0; i < kernel_count(program); i++) {
        const kiln__function *function = &program->functions[i];
        bool named = name != NULL && (strcmp(function->name, name) == 0 || strcmp(function->symbol, name) == 0);
        if (function->variable)
            continue;
        functions++;
        if (found == NULL && (name == NULL || named))
            found = &program->kernels[i];
    }
    if (name == NULL && functions != 1)
        return fail_several(program, report);
    if (found == NULL)
        return fail_function(program, name, report);
    *out = kiln__kernel_retain(found);
    return KILN_OK;
}

kiln_status kiln__program_global(void **out, size_t *bytes, kiln_program *program, const char *name,
                                 kiln_report *report)
{
    /* A source lists a variable as "&name". */
    const char *plain = name + (name[0] == '&'), *symbol = plain;
    if (program->blob != NULL)
        return fail_built(program, report);
    const kiln__function_vtable *functions = program->device->backend->vtable->functions;
    if (functions == NULL)
        return kiln__fail(report, KILN_ENOENT, KILN__STAGE_LOAD, 0, "kernels on %s have no variables to ask for",
                          program->device->name);
    for (uint32_t i = 0; i < program->count; i++) {
        const kiln__function *function = &program->functions[i];
        if (function->variable && strcmp(function->name + 1, plain) == 0)
            symbol = function->symbol;
    }
    return functions->global(program->module, symbol, out, bytes, report);
}
