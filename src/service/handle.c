#include "service/handle.h"

#include "base/alloc.h"
#include "os/fork.h"
#include "service/obtain.h"
#include <string.h>

struct kiln__function_list {
    size_t count;
    const kiln_function_info **list;
    kiln_function_info infos[];
};

kiln_program *kiln__handle_new(void)
{
    kiln_program *program = kiln__calloc(1, sizeof(*program));
    if (program != NULL)
        program->generation = kiln__fork_generation();
    return program;
}

void kiln__handle_free(kiln_program *program)
{
    if (program == NULL)
        return;
    kiln__kernel_release(program->kernel);
    kiln__loaded_release(program->loaded);
    kiln__artifact_release(program->artifact);
    kiln__free(atomic_load(&program->functions));
    kiln__free(program);
}

void kiln__handle_take(kiln_program *program, kiln__outcome *outcome)
{
    program->kernel = outcome->kernel;
    program->loaded = outcome->program;
    program->artifact = outcome->artifact;
    outcome->kernel = NULL;
    outcome->program = NULL;
    outcome->artifact = NULL;
}

/* ---- Functions */

static size_t count_functions(const kiln_program *program)
{
    if (program->kernel != NULL)
        return program->kernel->entry_count;
    return program->loaded != NULL ? program->loaded->count : program->artifact->symbols.count;
}

static void ask_backend(const kiln__backend_vtable *vtable, const kiln__module *module, uint32_t number,
                        kiln_function_info *out)
{
    kiln__function_facts facts = { -1, -1, -1, -1, -1 };
    if (vtable->functions != NULL)
        vtable->functions->info(module, number, &facts);
    out->registers = facts.registers;
    out->local_bytes = facts.local_bytes;
    out->shared_bytes = facts.shared_bytes;
}

static void describe(const kiln_program *program, size_t i, kiln_function_info *out)
{
    const kiln_kernel *kernel = program->kernel;
    const kiln__loaded *loaded = program->loaded;
    *out = (kiln_function_info){ .size = sizeof(*out), .registers = -1, .local_bytes = -1, .shared_bytes = -1 };
    if (kernel != NULL) {
        out->name = out->symbol = kernel->rule.entries[i].name;
        ask_backend(kernel->vtable, kernel->module, (uint32_t)i, out);
    } else if (loaded != NULL) {
        out->name = loaded->functions[i].name;
        out->symbol = loaded->functions[i].symbol;
        if (!loaded->functions[i].variable)
            ask_backend(loaded->vtable, loaded->module, loaded->functions[i].number, out);
    } else {
        kiln__artifact_function(program->artifact, i, out);
    }
}

/* Made by the first thread that asks. NULL: out of memory. */
static const kiln__function_list *functions_of(const kiln_program *program)
{
    _Atomic(kiln__function_list *) *place = &((kiln_program *)program)->functions;
    kiln__function_list *known = atomic_load(place);
    if (known != NULL)
        return known;
    size_t count = count_functions(program), infos = count * sizeof(kiln_function_info);
    kiln__function_list *made = kiln__alloc(sizeof(*made) + infos + count * sizeof(made->list[0]));
    if (made == NULL)
        return NULL;
    made->count = count;
    made->list = (const kiln_function_info **)((char *)made->infos + infos);
    for (size_t i = 0; i < count; i++) {
        describe(program, i, &made->infos[i]);
        made->list[i] = &made->infos[i];
    }
    if (atomic_compare_exchange_strong(place, &known, made))
        return made;
    kiln__free(made);
    return known;
}

kiln_status kiln__handle_info(const kiln_program *program, kiln_program_info *out)
{
    const kiln_kernel *kernel = program->kernel;
    const kiln__loaded *loaded = program->loaded;
    const kiln__artifact *artifact = program->artifact;
    const kiln__function_list *functions = functions_of(program);
    if (functions == NULL)
        return KILN_ENOMEM;
    out->spec = kernel != NULL ? kernel->spec : loaded != NULL ? loaded->spec : artifact->spec;
    out->target = kernel != NULL ? kernel->target.name : loaded != NULL ? loaded->target.name : artifact->target.name;
    out->device = kernel != NULL ? kernel->device->name : loaded != NULL ? loaded->device->name : "";
    out->origin = kernel != NULL ? kernel->origin : loaded != NULL ? loaded->origin : artifact->origin;
    out->origin_name = kiln__origin_name(out->origin);
    out->compile_ms = kernel != NULL ? kernel->compile_ms : loaded != NULL ? loaded->compile_ms : artifact->compile_ms;
    out->functions = functions->list;
    out->function_count = functions->count;
    return KILN_OK;
}

/* ---- What it holds, by name */

static kiln_status fail_built(const kiln_program *program, kiln_report *report)
{
    return kiln__fail(report, KILN_ENOENT, KILN__STAGE_LOAD, 0,
                      "the program was built and not loaded: request it with the goal KILN_LOAD: %s",
                      program->artifact->spec);
}

/* Whether a name is that of the kernel, or may be left out. */
static bool is_named(const kiln_kernel *kernel, const char *name)
{
    return name == NULL || (kernel->entry_count > 0 && strcmp(kernel->rule.entries[0].name, name) == 0);
}

kiln_status kiln__handle_kernel(kiln_kernel **out, const kiln_program *program, const char *name, kiln_report *report)
{
    const kiln__function *function = NULL;
    if (program->artifact != NULL)
        return fail_built(program, report);
    if (program->kernel != NULL && !is_named(program->kernel, name))
        return kiln__fail(report, KILN_ENOENT, KILN__STAGE_LOAD, 0, "the program has no function '%.100s'; it has: %s",
                          name, program->kernel->rule.entries[0].name);
    if (program->kernel != NULL) {
        *out = kiln__kernel_retain(program->kernel);
        return KILN_OK;
    }
    kiln_status status = kiln__loaded_find(program->loaded, name, &function, report);
    if (status == KILN_OK && (*out = kiln__kernel_of_function(program->loaded, function)) == NULL)
        status = kiln__fail_memory(report, KILN__STAGE_LOAD);
    return status;
}

kiln_status kiln__handle_global(void **out, size_t *bytes, const kiln_program *program, const char *name,
                                kiln_report *report)
{
    const kiln_kernel *kernel = program->kernel;
    if (program->artifact != NULL)
        return fail_built(program, report);
    if (program->loaded != NULL)
        return kiln__loaded_global(program->loaded, name, out, bytes, report);
    if (kernel->vtable->functions == NULL)
        return kiln__fail(report, KILN_ENOENT, KILN__STAGE_LOAD, 0, "kernels on %s have no variables to ask for",
                          kernel->device->name);
    return kernel->vtable->functions->global(kernel->module, name + (name[0] == '&'), out, bytes, report);
}
